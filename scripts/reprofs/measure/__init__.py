"""`reprofs measure`: any program in the exact lab, with its own instructions, the kernel's and the disk's time."""
