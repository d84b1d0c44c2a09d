"""Disks in memory for the host lab that complete a request in the caller, as those of the exact lab do.

A loop device hands each request to another thread, which costs 35 µs a cold read (docs/methods/trust.md). The drivers
of DRIVERS do not. Only devices that the lab makes itself are used. Each is noted before it holds data, so that
`cleanup` finds and removes it after a kill.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

SYS = Path("/sys")
BOOT = Path("/proc/sys/kernel/random/boot_id")
# Like the exact lab's (labs/exact.py).
NULL_BLOCK = {"blocksize": 512, "memory_backed": 1, "discard": 1, "queue_mode": 2, "hw_queue_depth": 64, "irqmode": 0}
Note = Callable[[dict[str, str]], None]


def driver() -> str | None:
    """The first driver of DRIVERS that this machine has, loaded where it is a module; None where it has none."""
    for name, (_, switch, option) in DRIVERS.items():
        if not (SYS / switch).exists():
            with contextlib.suppress(OSError):
                subprocess.run(["modprobe", "--quiet", name, option], capture_output=True)
        if (SYS / switch).exists():
            return name
    return None


def make(name: str, place: Path, number: int, size_mib: int, note: Note) -> str | None:
    """The path of a new device of a driver, for the trial in `place`; None where it cannot be made.

    note: keeps what `found` needs; it is called before the device holds data.
    """
    try:
        return DRIVERS[name][0](place, number, size_mib, note)
    except OSError:
        return None


def found(place: Path, disk: Mapping[str, str]) -> str:
    """The device's name of a disk that the trial in `place` made and noted; empty if there is none any more.

    A null block device has the folder's random name. A zram device has a number, which another may have later, and a
    diskseq, which none has again until the machine starts anew.
    """
    if name := disk.get("null_blk"):
        folder = SYS / "kernel/config/nullb" / name
        if not name.startswith(place.name) or not folder.is_dir():
            return ""
        return name if (SYS / "block" / name).exists() else f"nullb{_text(folder / 'index')}"
    name = disk.get("zram", "")
    now = {"diskseq": _text(SYS / "block" / name / "diskseq"), "boot": _text(BOOT)}
    return name if re.fullmatch(r"zram\d+", name) and {**now, "zram": name} == disk else ""


def remove(name: str, disk: Mapping[str, str]) -> bool:
    """Removes a disk that `found` found. Where somebody has it open the kernel refuses, and it stays."""
    for _ in range(50):
        try:
            if "null_blk" in disk:
                (SYS / "kernel/config/nullb" / disk["null_blk"]).rmdir()
            else:
                (SYS / "block" / name / "reset").write_text("1")
                (SYS / "class/zram-control/hot_remove").write_text(name.removeprefix("zram"))
            return True
        except OSError:
            time.sleep(0.1)
    return False


def _null_block(place: Path, number: int, size_mib: int, note: Note) -> str:
    """The exact lab's own driver. Source: Documentation/block/null_blk.rst of Linux."""
    folder = SYS / "kernel/config/nullb" / f"{place.name}-{number}"
    note({"null_blk": folder.name})
    folder.mkdir()
    for name, value in {"size": size_mib, **NULL_BLOCK, "power": 1}.items():  # power makes it of what was set before
        (folder / name).write_text(str(value))
    named = SYS / "block" / folder.name  # older kernels name it after its index
    return f"/dev/{folder.name}" if named.exists() else f"/dev/nullb{_text(folder / 'index')}"


def _zram(place: Path, number: int, size_mib: int, note: Note) -> str:
    """Memory that is compressed, with LZ4 where it can be. Source: Documentation/admin-guide/blockdev/zram.rst."""
    name = f"zram{_text(SYS / 'class/zram-control/hot_add')}"  # reading it makes the device
    folder = SYS / "block" / name
    note({"zram": name, "diskseq": _text(folder / "diskseq"), "boot": _text(BOOT)})
    with contextlib.suppress(OSError):
        (folder / "comp_algorithm").write_text("lz4")
    (folder / "disksize").write_text(f"{size_mib}M")
    return f"/dev/{name}"


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


# name -> how one is made, what /sys has where the driver is there, and how it is loaded without any device
DRIVERS: dict[str, tuple[Callable[[Path, int, int, Note], str], str, str]] = {
    "null_blk": (_null_block, "kernel/config/nullb", "nr_devices=0"),
    "zram": (_zram, "class/zram-control/hot_add", "num_devices=0"),
}
