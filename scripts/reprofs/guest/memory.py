"""A limit of memory as steps of a job: a control group that the engine enters, so that all it starts is in it.

The kernel charges to the group what its processes make it allocate: their own memory, file cache, and those of the
kernel's objects that are marked for it (docs/methods/labs.md#a-limit-of-memory). What was in memory before is not
charged, so it is dropped first. Source: Documentation/admin-guide/cgroup-v2.rst of Linux.
"""

from __future__ import annotations

from reprofs.guest.steps import Exec, Mkdir, Step, Write

GROUP = "reprofs"
LIMIT_S = 600
KEPT_BYTES = 65536  # of what the group says of itself
STAGE = "memory"


def begin(mib: int, folder: str) -> list[Step]:
    """Steps that make the group in `folder`, where the control groups get mounted, and put the engine into it."""
    group = f"{folder}/{GROUP}"
    return [
        Mkdir(path=folder),
        Exec(stage=STAGE, limit_s=LIMIT_S, arg=["mount", "-t", "cgroup2", "cgroup2", folder]),
        Write(path=f"{folder}/cgroup.subtree_control", text="+memory"),
        Mkdir(path=group),
        Write(path=f"{group}/memory.swap.max", text=0),  # else what does not fit would go elsewhere
        Write(path=f"{group}/memory.max", text=mib << 20),
        Write(path=f"{group}/cgroup.procs", text=0),  # whoever writes this enters
    ]


def end(folder: str) -> list[Step]:
    """Steps that record the group's counters and take the engine out of it."""
    said = ["memory.max", "memory.peak", "memory.events", "memory.stat"]
    return [
        Exec(stage=STAGE, limit_s=LIMIT_S, tail=KEPT_BYTES, cwd=f"{folder}/{GROUP}", arg=["grep", "-s", "", *said]),
        Write(path=f"{folder}/cgroup.procs", text=0),
    ]
