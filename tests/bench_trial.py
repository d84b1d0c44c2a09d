"""What a trial of the exact lab costs this machine, step by step: CPU seconds of QEMU and instructions of the guest.

    python tests/bench_trial.py [FILE SYSTEM [WORKLOAD]]        default: ext4 metadata, and btrfs repository

A figure to read, not a test: CPU seconds swing with what else runs; instructions are the same every time. After each
step the guest prints how long tasks ran (/proc/schedstat); that print, about a million instructions, is in each row.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

from reprofs.guest import image
from reprofs.guest.steps import Exec, Job, Step
from reprofs.labs import exact
from reprofs.plan.catalog import Catalog
from reprofs.trial.cell import resolve
from reprofs.trial.job import render

PROBE = "cost"
RAN = 7  # word of the line cpu0: ns that tasks ran (Documentation/scheduler/sched-stats.rst of Linux)


class Watched(exact.ExactLab):
    """The exact lab, which notes when QEMU's output grows and what QEMU has used until then."""

    def __init__(self, *words: Any, **names: Any):
        super().__init__(*words, **names)
        self.seen: list[tuple[int, float]] = []  # bytes of output, CPU seconds

    def _machine(self, place: Path, incoming: bool = False) -> Any:
        machine = super()._machine(place, incoming)
        if incoming:
            threading.Thread(target=self._watch, args=(place / "output", machine.process.pid), daemon=True).start()
        return machine

    def _watch(self, output: Path, pid: int) -> None:
        size = -1
        while Path(f"/proc/{pid}").exists():
            grown = output.stat().st_size if output.exists() else 0
            if grown != size:
                size = grown
                self.seen.append((size, used(pid)))
            time.sleep(0.002)


def used(pid: int) -> float:
    """CPU seconds of all threads of a process."""
    total = 0
    for task in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        try:
            total += int(task.read_text().split()[0])
        except OSError:  # it ended
            continue
    return total / 1e9


def name_of(step: Step) -> str:
    """What a row is about."""
    values = step.values()
    kind = type(step).__name__.lower()
    words = " ".join(values.get("arg", [])[:2]) if kind == "exec" else values.get("name", "")
    return f"{values.get('stage', kind)} {words}"


def measure(trial: dict, catalog: Catalog) -> list[dict]:
    """Rows: step, CPU seconds of QEMU, millions of instructions."""
    cell = resolve(trial, catalog)
    image.ensure(cell.filesystem["guest"], print)
    lab = Watched.open(guest=cell.filesystem["guest"], processor=cell.processor)
    job, probe = render(cell), Exec(stage=PROBE, arg=["cat", "/proc/schedstat"])
    rows = [step for step in job.steps if type(step).__name__ != "Teardown"]
    lab.run(Job([probe]), 600)  # the snapshot, where there was none
    lab.seen.clear()
    outcome = lab.run(Job([probe, *(each for step in rows for each in (step, probe))]), 600)
    found, place = [], 0
    for line in outcome.output.splitlines(keepends=True):
        place += len(line)
        event = json.loads(line)
        if event.get("stage") == PROBE:
            cpu = next(text.split() for text in event["output"].split("\n") if text.startswith("cpu0 "))
            spent = next((seconds for size, seconds in lab.seen if size >= place), lab.seen[-1][1])
            found.append((int(cpu[RAN]), spent))
        if event["event"] == "failed":
            sys.exit(f"the trial failed: {event['reason']}")
    speed = cell.processor.instructions_per_ns
    result = [{"step": "start", "cpu": found[0][1], "million": found[0][0] * speed / 1e6}]
    for step, before, after in zip(rows, found, found[1:], strict=False):
        row = {"step": name_of(step), "cpu": after[1] - before[1], "million": (after[0] - before[0]) * speed / 1e6}
        result.append(row)
    return result


def show(title: str, rows: list[dict]) -> None:
    """A table, the same steps in one row."""
    together: dict[str, list[float]] = {}
    for row in rows:
        values = together.setdefault(row["step"], [0, 0.0, 0.0])
        values[0] += 1
        values[1] += row["cpu"]
        values[2] += row["million"]
    print(f"\n{title}\n{'step':44}{'times':>6}{'CPU s':>9}{'million instructions':>22}")
    for name, (times, cpu, million) in together.items():
        if cpu >= 0.02 or million >= 5:
            print(f"{name[:43]:44}{times:6}{cpu:9.2f}{million:22.1f}")
    print(f"{'sum':44}{len(rows):6}{sum(row['cpu'] for row in rows):9.2f}{sum(row['million'] for row in rows):22.1f}")


def main() -> None:
    """One table a trial."""
    catalog = Catalog()
    chosen = [sys.argv[1:3]] if len(sys.argv) > 1 else [["ext4", "metadata"], ["btrfs", "repository"]]
    for filesystem, *workload in chosen:
        name, variant = catalog.variant(filesystem)
        trial = {"lab": "exact", "filesystem": name, "variant": variant, "stack": "single", "profile": "ssd"}
        trial |= {"workload": (workload or ["metadata"])[0], "scale": "smoke", "round": 1, "seed": 11, "order": None}
        show(f"{filesystem} {trial['workload']} smoke", measure(trial, catalog))


if __name__ == "__main__":
    main()
