"""Statistics of the tables, as pure functions: frames in, frames out. Nothing here draws, writes or formats.

A cell is one file system (label) in one operation (workload, scale, phase, cache) in one setting (lab, stack,
profile). Each round is one observation. Settings are never mixed: a lab's clock is comparable only to itself.
Stacks are compared by ratios within a lab; labs by ratios and orders, never by times.
"""
