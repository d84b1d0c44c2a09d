"""What runs in a lab: the load engine, and the Linux guests of the labs that have one."""
