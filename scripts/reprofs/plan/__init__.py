"""From a study to its cells: descriptors, read from files and checked. Nothing here starts a process or uses a lab."""

CELL = ("lab", "stack", "profile", "filesystem", "variant", "workload", "scale")  # what names a cell of a study
PROCESSOR = "v2-0.5ns"  # the default in labs that model their processor
NETWORK = "lan-1g"  # the default of file systems with hosts
