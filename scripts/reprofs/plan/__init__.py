"""From a study to its cells: descriptors, read from files and checked. Nothing here starts a process or uses a lab."""

PROCESSOR = "v2-0.5ns"  # the default in labs that model their processor
NETWORK = "lan-1g"  # the default of file systems with hosts
