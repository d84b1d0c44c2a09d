"""What a trial of the exact lab costs this machine, step by step: CPU seconds of QEMU and instructions of the guest;
and what its profile costs beside it.

    [AGAINST=COMMIT] python tests/bench_trial.py [FILE SYSTEM [WORKLOAD]]   default: ext4 metadata, btrfs repository

A figure to read, not a test: CPU seconds swing with what else runs; instructions are the same every time. After each
step the guest prints how long tasks ran (/proc/schedstat); that print, about a million instructions, is in each row.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from against import ROOT, checkouts
from reprofs.guest import image
from reprofs.guest.steps import Exec, Job, Step
from reprofs.labs import exact
from reprofs.plan.catalog import Catalog
from reprofs.trial.job import render

PROBE, START, SUM, WHOLE = "cost", "start of QEMU, restore", "steps", "reprofs trial, with Python"
RUNS = 2
RAN = 7  # word of the line cpu0: ns that tasks ran (Documentation/scheduler/sched-stats.rst of Linux)


class Watched(exact.ExactLab):
    """The exact lab, which notes when QEMU's output grows and what QEMU has used until then."""

    def __init__(self, *words: Any, **names: Any):
        super().__init__(*words, **names)
        self.seen: list[tuple[int, float]] = []  # bytes of output, CPU seconds

    def _machine(self, place: Path, incoming: bool = False, plugin: str = "") -> Any:
        machine = super()._machine(place, incoming, plugin)
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
    try:
        from helpers import cell as trial_of
        from reprofs.trial.resolve import resolve
    except ImportError:  # the package of an older commit, which has a trial's names as a dictionary
        from reprofs.trial.cell import resolve

        trial_of = dict
    cell = resolve(trial_of(**trial), catalog)
    guest = getattr(cell, "guest", None) or cell.filesystem.guest
    image.ensure(guest, lambda line: print(line, file=sys.stderr))
    processor = getattr(cell, "processor", None)  # the package may be an older one
    lab = Watched.open(guest=guest, **({"processor": processor} if processor else {}))
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
    speed = processor.instructions_per_ns if processor else 1
    result = [{"step": START, "cpu": found[0][1], "million": 0.0}]
    for step, before, after in zip(rows, found, found[1:], strict=False):
        row = {"step": name_of(step), "cpu": after[1] - before[1], "million": (after[0] - before[0]) * speed / 1e6}
        result.append(row)
    return result


def rows_of(checkout: Path, trial: dict) -> list[dict]:
    """What `measure` says in another process, with the package of a checkout."""
    environment = {**os.environ, "PYTHONPATH": str(checkout / "scripts")}
    command = [sys.executable, str(Path(__file__).resolve()), "--rows", json.dumps(trial)]
    done = subprocess.run(command, cwd=checkout, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return [*json.loads(done.stdout.splitlines()[-1]), {"step": WHOLE, "cpu": whole(checkout, trial), "million": 0.0}]


def whole(checkout: Path, trial: dict) -> float:
    """CPU seconds of the command `reprofs trial`."""
    with tempfile.TemporaryDirectory() as place:
        return spent(checkout, "trial", *options(trial), "--output", f"{place}/record.json")


def options(trial: dict) -> list[str]:
    """The names of a trial as options."""
    return [word for key, value in trial.items() if value is not None for word in (f"--{key}", str(value))]


def spent(checkout: Path, *words: str) -> float:
    """CPU seconds of a command `reprofs`, Python and QEMU."""
    environment = {**os.environ, "PYTHONPATH": str(checkout / "scripts")}
    command = [sys.executable, "-c", "from reprofs.cli import main; main()", *words]
    child = subprocess.Popen(command, cwd=checkout, env=environment, stdout=subprocess.DEVNULL)
    _, status, used_by = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, command)
    return used_by.ru_utime + used_by.ru_stime


def profiled(checkout: Path, trial: dict) -> None:
    """A table: what the profile of a trial costs beside the trial, without and with misses."""
    with tempfile.TemporaryDirectory() as place:
        record = f"{place}/record.json"
        profile = ["profile", record, "--output", f"{place}/profile"]
        commands = {
            WHOLE: ["trial", *options(trial), "--output", record],
            "reprofs profile": profile,
            "reprofs profile --misses": [*profile, "--misses"],
        }
        # In turns; the first trial makes the snapshot, where there is none, and the first profile asks for symbols.
        runs = [{name: spent(checkout, *words) for name, words in commands.items()} for _ in range(RUNS + 1)]
    least = {name: min(run[name] for run in runs[1:]) for name in commands}
    print(f"\n{trial['filesystem']} {trial['workload']} {trial['scale']}, least CPU seconds of {RUNS} runs")
    for name, seconds in least.items():
        print(f"{name:40}{seconds:8.2f}{seconds / least[WHOLE]:8.2f} of the trial")


def compare(checkouts: dict[str, Path], trial: dict) -> None:
    """A table: the same steps in one row, their CPU seconds (the least of some runs) and instructions."""
    runs: dict[str, list[list[dict]]] = {name: [] for name in checkouts}
    for _ in range(RUNS):
        for name, checkout in checkouts.items():
            runs[name].append(rows_of(checkout, trial))
    sums = {name: [together(rows) for rows in found] for name, found in runs.items()}
    steps = dict.fromkeys(step for found in sums.values() for step in found[0])
    print(
        f"\n{trial['filesystem']} {trial['workload']} {trial['scale']}, least CPU seconds of {RUNS} runs, instructions"
    )
    print(f"{'':40}" + "".join(f"{name:>26}" for name in checkouts))
    print(f"{'step':40}" + f"{'times':>7}{'CPU s':>8}{'million':>11}" * len(checkouts))
    for step in steps:
        cells = [[found.get(step, (0, 0.0, 0.0)) for found in sums[name]] for name in checkouts]
        if step in (SUM, WHOLE) or any(values[0][1] >= 0.05 or values[0][2] >= 5 for values in cells):
            words = [f"{v[0][0]:7}{min(one[1] for one in v):8.2f}{v[0][2]:11.1f}" for v in cells]
            print(f"{step[:39]:40}" + "".join(words))


def together(rows: list[dict]) -> dict[str, tuple[int, float, float]]:
    """Step -> times, CPU seconds, millions of instructions; among them the sum of the steps."""
    found: dict[str, tuple[int, float, float]] = {}
    for row in rows:
        names = [row["step"]] if row["step"] in (START, WHOLE) else [row["step"], SUM]
        for name in names:
            times, cpu, million = found.pop(name, (0, 0.0, 0.0)) if name == SUM else found.get(name, (0, 0.0, 0.0))
            found[name] = (times + 1, cpu + row["cpu"], million + row["million"])
    return found


def main() -> None:
    """One table a trial; with AGAINST=COMMIT beside the same trial of another commit, in turns."""
    if sys.argv[1:2] == ["--rows"]:
        print(json.dumps(measure(json.loads(sys.argv[2]), Catalog())))
        return
    chosen = [sys.argv[1:3]] if len(sys.argv) > 1 else [["ext4", "metadata"], ["btrfs", "repository"]]
    with checkouts() as compared:
        from helpers import names  # in this commit's way

        for filesystem, *workload in chosen:
            trial = names(filesystem, workload=(workload or ["metadata"])[0])
            compare(compared, trial)
            profiled(ROOT, trial)


if __name__ == "__main__":
    main()
