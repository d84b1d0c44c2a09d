"""The line a finished trial prints: which of how many, how it ended, elapsed, time left."""

from __future__ import annotations

import os
import time
from pathlib import Path


def start(total: int, done: int) -> None:
    """Called once by the workflow before any trial; its children inherit what is kept in the environment."""
    os.environ.setdefault("REPROFS_PROGRESS", f"{time.time():.0f} {total} {done}")


def clock(seconds: float) -> str:
    """90 -> 1:30; 3700 -> 1:01:40."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def line(record: dict, output: Path, seconds: float) -> str:
    """One line about a record just written to `output`; in a workflow also where the whole run stands."""
    trial = record["trial"]
    what = f"{trial['filesystem']}+{trial['variant']} {trial['workload']} round {trial['round']}"
    ending = f"{record['status']} in {seconds:.1f} s" + (f": {record['reason']}" if record["reason"] else "")
    if "REPROFS_PROGRESS" not in os.environ:
        return f"trial {what}: {ending}"
    began, total, before = (float(word) for word in os.environ["REPROFS_PROGRESS"].split())
    done = len(list(output.parent.glob("*.json")))
    elapsed, new = time.time() - began, max(done - before, 1)
    left = elapsed / new * max(total - done, 0)
    return f"trial {done} of {total:.0f}: {what}: {ending}; elapsed {clock(elapsed)}, about {clock(left)} left"
