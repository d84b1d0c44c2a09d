"""What notebooks and the report show: topics, how things are drawn and worded, and rendering."""
