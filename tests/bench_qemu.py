"""How fast the exact lab is: CPU seconds of QEMU for a trial, and millions of guest instructions in each (MIPS).

    [AGAINST=COMMIT] python tests/bench_qemu.py [NUMBER...]   default: all of TRIALS; their numbers from 0

Each trial is run in turns by Debian's QEMU and by our own, where one core lets both run it, and with AGAINST by those
of another commit. Instructions are those that tasks executed, by the guest's own account (/proc/schedstat), from the
saved state where the trial begins to the end of its job; CPU seconds are those of the whole QEMU process, with its
start and the restore of that state. A figure to read, not a test: CPU seconds swing with what else runs, so that the
least of some runs is told.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

from against import checkouts
from reprofs.guest import image
from reprofs.guest.steps import Exec, Job, Pause, Teardown
from reprofs.labs import exact
from reprofs.plan.catalog import Catalog
from reprofs.trial.job import render
from reprofs.trial.resolve import resolve

RUNS = 3
RAN = 7  # word of a line cpuN: ns that tasks ran (Documentation/scheduler/sched-stats.rst of Linux)
FOUR = {"lab": "exact@v2-0.5ns-4c", "stack": "servers"}
TRIALS = (
    {"filesystem": "ext4", "workload": "metadata", "scale": "smoke"},
    {"filesystem": "ext4", "workload": "metadata", "scale": "laptop"},
    {"filesystem": "btrfs", "variant": "none", "workload": "metadata", "scale": "smoke"},
    {"filesystem": "ext4", "workload": "repository", "scale": "smoke"},
    {"filesystem": "nfs-xfs", "variant": "v4.2-async", "workload": "compile-round1@100", **FOUR},
    {"filesystem": "moosefs", "variant": "goal-3", "workload": "compile-round1@100", **FOUR},
    {"filesystem": "cephfs", "workload": "compile-round1@100", **FOUR},
)


def measure(trial: dict) -> dict[str, float]:
    """CPU seconds of one run, and millions of instructions."""
    from helpers import cell

    catalog = Catalog()
    setup = resolve(cell(**trial), catalog)
    image.ensure(setup.guest, lambda line: print(line, file=sys.stderr))
    lab = exact.ExactLab.open(guest=setup.guest, processor=setup.processor)
    job, probe = render(setup), Exec(stage="ran", arg=["cat", "/proc/schedstat"])
    steps = [step for step in job.steps if not isinstance(step, Teardown)]
    first = max((number for number, step in enumerate(steps, 1) if isinstance(step, Pause)), default=0)
    lab.run(Job([*steps[:first], probe]), 3600)  # the saved states, where there were none
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    outcome = lab.run(Job([*steps[:first], probe, *steps[first:], probe]), 3600)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    events = [json.loads(line) for line in outcome.output.splitlines()]
    if failed := [event["reason"] for event in events if event["event"] == "failed"]:
        sys.exit(f"the trial failed: {failed[0]}")
    began, ended = (ran(event["output"]) for event in events if event.get("stage") == "ran")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"cpu": cpu, "million": (ended - began) * lab.processor.instructions_per_ns / 1e6}


def ran(said: str) -> int:
    """ns that tasks ran on all processors since the guest's start."""
    return sum(int(line.split()[RAN]) for line in said.split("\n") if line.startswith("cpu"))


def in_checkout(checkout: Path, trial: dict, chosen: str) -> dict[str, float]:
    """The same in another process, with the package of a checkout."""
    environment = {**os.environ, "PYTHONPATH": str(checkout / "scripts"), "REPROFS_QEMU": chosen}
    command = [sys.executable, str(Path(__file__).resolve()), "--measure", json.dumps(trial)]
    done = subprocess.run(command, cwd=checkout, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def table(checkouts: dict[str, Path], trial: dict) -> None:
    """A row for each QEMU: the least CPU seconds of some runs, in turns."""
    chosen = ["own"] if "lab" in trial else ["debian", "own"]
    runs: dict[str, list[dict[str, float]]] = {}
    for _ in range(RUNS):
        for name, checkout in checkouts.items():
            for each in chosen:
                runs.setdefault(f"{name}, {each}", []).append(in_checkout(checkout, trial, each))
    print(f"\n{' '.join(trial.values())}")
    first = 0.0
    for name, found in runs.items():
        least = min(found, key=lambda run: run["cpu"])
        first = first or least["cpu"]
        mips = least["million"] / least["cpu"]
        print(f"{name:32}{least['cpu']:9.2f} CPU s{mips:7.0f} MIPS{first / least['cpu']:6.2f} times", flush=True)


def main() -> None:
    """One table a trial."""
    if sys.argv[1:2] == ["--measure"]:
        print(json.dumps(measure(json.loads(sys.argv[2]))))
        return
    chosen = [TRIALS[int(number)] for number in sys.argv[1:]] or TRIALS
    with checkouts() as compared:
        for trial in chosen:
            table(compared, trial)


if __name__ == "__main__":
    main()
