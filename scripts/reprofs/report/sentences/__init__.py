"""Sentences of the report: typed functions, facts in, one sentence out; a module a subject."""
