"""For labs with a real clock: wait for a quiet host before a trial, and record its state before and after.

The folder `root` holds the host's /proc and /sys, so that everything here is a function of files.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from reprofs.cleanup import read as text
from reprofs.errors import UserError
from reprofs.labs._base import Lab, alone

SETTLE_LIMIT_S = 30  # or $REPROFS_SETTLE
STEP_S = 1
BUSY = 0.25  # of one processor, used by others
DIRTY_BYTES = 16 << 20
HOST = Path("/")


@contextlib.contextmanager
def watched(lab: Lab) -> Iterator[dict]:
    """The context of `lab.run`: alone on the host, once it is quiet. Yields entries for a record's environment.

    The keys are `settling` and `conditions` (before, after); there are none for a lab whose clock is not real.
    $REPROFS_SETTLE: seconds to wait for a quiet host, at most. Raises UserError when that is not a number.
    """
    found: dict = {}
    try:
        limit = float(os.environ.get("REPROFS_SETTLE") or SETTLE_LIMIT_S)
    except ValueError:
        raise UserError("REPROFS_SETTLE must be a number of seconds: correct it or unset it.") from None
    if lab.clock != "wall":
        yield found
        return
    with alone(lab):
        os.sync()  # what others wrote before
        found["settling"] = settle(limit)
        before = read()
        found["conditions"] = {"before": before, "after": None}
        try:
            yield found
        finally:
            found["conditions"]["after"] = read(since=before)


def settle(limit_s: float, root: Path = HOST, sleep: Callable[[float], None] = time.sleep) -> dict:
    """Waits until the host has been quiet for a second, at most `limit_s` seconds.

    Returns waited_s, settled, reason (what was not quiet, one sentence, or empty), load_1min, dirty_bytes, resync
    (names of arrays being checked, rebuilt or reshaped).
    """
    waited, last = 0.0, sample(root)
    while True:
        sleep(STEP_S)
        waited += STEP_S
        now = sample(root)
        reason = noise(last, now)
        if not reason or waited >= limit_s:
            break
        last = now
    return {
        "waited_s": round(waited, 1),
        "settled": not reason,
        "reason": reason,
        "load_1min": now["load_1min"],
        "dirty_bytes": now["dirty_bytes"],
        "resync": now["resync"],
    }


def sample(root: Path) -> dict:
    """The state of the host that may disturb a trial.

    load_1min, processors, busy_ticks and total_ticks (of all processors), dirty_bytes, resync (names of arrays),
    discards (requests so far) and in_flight (requests now) of all disks.
    Source: proc_stat(5), proc_meminfo(5), Documentation/block/stat.rst of Linux.
    """
    ticks = _ticks(root)
    disks = [stat.split() for path in root.glob("sys/block/*/stat") if (stat := text(path))]
    return {
        "load_1min": _load(root),
        "processors": sum(line[3:4].isdigit() for line in _lines(root / "proc/stat") if line.startswith("cpu")),
        "busy_ticks": sum(ticks[:3]) + sum(ticks[5:8]),  # neither idle nor waiting for a disk
        "total_ticks": sum(ticks[:8]),
        "dirty_bytes": _dirty(root),
        "resync": sorted(
            path.parent.parent.name
            for path in root.glob("sys/block/md*/md/sync_action")
            if text(path) not in ("idle", "frozen", None)
        ),
        "discards": sum(int(fields[11]) for fields in disks if len(fields) > 11),
        "in_flight": sum(int(fields[8]) for fields in disks if len(fields) > 8),
    }


def noise(before: dict, after: dict) -> str:
    """Why the host was not quiet between two samples (one sentence); empty if it was."""
    spent = after["total_ticks"] - before["total_ticks"]
    busy = (after["busy_ticks"] - before["busy_ticks"]) / spent * after["processors"] if spent else 0.0
    if busy > BUSY:
        return f"Other processes used {busy:.1f} of {after['processors']} processors."
    if (after["dirty_bytes"] or 0) > DIRTY_BYTES:
        return f"{after['dirty_bytes'] >> 20} MiB were still to be written to disks."
    if after["resync"]:
        return f"The array {after['resync'][0]} was being checked or rebuilt."
    if after["discards"] > before["discards"]:
        return "Disks were still discarding blocks."
    if after["in_flight"]:
        return "Disks were still at work."
    return ""


def read(root: Path = HOST, since: dict | None = None) -> dict:
    """The state of the host; None for what it does not report.

    load_1min, steal_ticks (since boot), steal_share (of all processor time since `since`, an
    earlier reading), total_ticks, frequency_mhz [lowest, highest] over the processors, governor, temperature_c (the
    highest of all sensors), dirty_bytes.
    """
    ticks, load = _ticks(root), _load(root)
    steal, total = (ticks[7], sum(ticks[:8])) if len(ticks) > 7 else (None, None)
    share = None
    if since and steal is not None and since["total_ticks"] is not None and total > since["total_ticks"]:
        share = round((steal - since["steal_ticks"]) / (total - since["total_ticks"]), 6)
    scaling = sorted(root.glob("sys/devices/system/cpu/cpu[0-9]*/cpufreq"))
    clocks = [int(value) / 1000 for path in scaling if (value := text(path / "scaling_cur_freq") or "").isdigit()]
    clocks = clocks or [
        float(line.partition(":")[2]) for line in _lines(root / "proc/cpuinfo") if line.startswith("cpu MHz")
    ]
    governors = sorted({name for path in scaling if (name := text(path / "scaling_governor"))})
    sensors = (*root.glob("sys/class/thermal/thermal_zone*/temp"), *root.glob("sys/class/hwmon/hwmon*/temp*_input"))
    heat = [int(value) / 1000 for path in sensors if (value := text(path) or "").lstrip("-").isdigit()]
    return {
        "load_1min": load,
        "steal_ticks": steal,
        "steal_share": share,
        "total_ticks": total,
        "frequency_mhz": [round(min(clocks)), round(max(clocks))] if clocks else None,
        "governor": ", ".join(governors) or None,
        "temperature_c": round(max(heat), 1) if heat else None,
        "dirty_bytes": _dirty(root),
    }


def _lines(path: Path) -> list[str]:
    return (text(path) or "").splitlines()


def _ticks(root: Path) -> list[int]:
    """user, nice, system, idle, iowait, irq, softirq, steal of all processors together."""
    first = (_lines(root / "proc/stat") or [""])[0].split()
    return [int(word) for word in first[1:]] if first[:1] == ["cpu"] else []


def _load(root: Path) -> float | None:
    words = (text(root / "proc/loadavg") or "").split()
    return float(words[0]) if words else None


def _dirty(root: Path) -> int | None:
    """Bytes in the page cache that are not on a disk yet. Source: proc_meminfo(5)."""
    sizes = [
        int(line.split()[1]) << 10
        for line in _lines(root / "proc/meminfo")
        if line.startswith(("Dirty:", "Writeback:"))
    ]
    return sum(sizes) if sizes else None
