"""From a study to its cells: descriptors as files say them, checked. Nothing here starts a process or asks a lab."""

CELL = ("lab", "stack", "profile", "filesystem", "variant", "workload", "scale")  # what names a cell of a study
PROCESSOR = "v2-0.25ns"  # of a lab that models it, in a study that names none
