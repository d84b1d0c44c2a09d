"""The line a finished trial prints: which of how many, how it ended, elapsed, time left."""

from __future__ import annotations

import os
import time
from pathlib import Path

from reprofs.plan import PROCESSOR

USUAL_LAB = f"exact@{PROCESSOR}"
# The first trial boots the guest and saves its state, while others wait for it. So the time that is left is told by
# those that ended after the first, once there are so many.
AFTER_FIRST = 4
RECENT = 20  # the last so many tell it: many may have been taken from the store before, in no time


def start(records: list[Path], at_most: bool = False) -> None:
    """Called once by the workflow before any trial; its children inherit what is kept in the environment.

    records: of all trials. at_most: whether not all may be needed.
    """
    before = sum(record.exists() for record in records)
    os.environ.setdefault(
        "REPROFS_PROGRESS", f"{time.time():.3f} {before} {len(records)} {'at most' if at_most else ''}"
    )


def in_workflow() -> bool:
    """Whether this process was started by a rule of the workflow."""
    return "REPROFS_PROGRESS" in os.environ


def clock(seconds: float) -> str:
    """90 -> 1:30; 3700 -> 1:01:40."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def line(record: dict, output: Path, seconds: float, origin: str = "") -> str:
    """One line about a record just written to `output`; in a workflow also the progress of the whole run.

    origin: where it was taken from (`records.store`); empty where the trial was run.
    """
    trial = record["trial"]
    usual = {"lab": USUAL_LAB, "stack": "single", "profile": "ssd"}
    place = "".join(f"{trial[key]} " for key in usual if trial[key] != usual[key])
    what = f"{place}{trial['filesystem']}+{trial['variant']} {trial['workload']} round {trial['round']}"
    ending = f"{record['status']} in {seconds:.1f} s" + (f": {record['reason']}" if record["reason"] else "")
    ending = f"taken from {origin}" if origin else ending
    if not in_workflow():
        return f"trial {what}: {ending}"
    start, before, total, *most = os.environ["REPROFS_PROGRESS"].split(maxsplit=3)
    elapsed = f"elapsed {clock(time.time() - float(start))}"
    times = (path.stat().st_mtime for path in output.parent.glob("*.json"))
    ended = sorted(moment for moment in times if moment >= float(start))
    done, at_most = int(before) + len(ended), f"{most[0]} " if most else ""
    if done > int(total):  # such as of another guest: finished records are made again
        return f"trial {len(ended)}: {what}: {ending}; {elapsed}"
    progress = f"trial {done} of {at_most}{total}: {what}: {ending}; {elapsed}"
    left = remaining(ended, int(total) - done)
    return progress if left is None else f"{progress}, {at_most or 'about '}{clock(left)} left"


def remaining(ended: list[float], todo: int) -> float | None:
    """Seconds that `todo` more trials will take, by the moments at which the last ones ended; None with too few."""
    if len(ended) <= AFTER_FIRST:
        return None
    recent = ended[-RECENT:]
    return (recent[-1] - recent[0]) / (len(recent) - 1) * todo
