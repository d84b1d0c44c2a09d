"""From a study to its cells: descriptors as files say them, checked. Nothing here starts a process or asks a lab."""

CELL = ("lab", "stack", "profile", "filesystem", "variant", "workload", "scale")  # what names a cell of a study
