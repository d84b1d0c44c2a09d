"""`make bench`: what the analysis and the planning of large studies cost, in seconds and memory.

python tests/bench_scale.py [RECORDS [TRIALS]]    default: 100,000 records, which take 3 GB in the folder for temporary
                                                  files, and 10,000 planned trials

The records are those of the test fixture, with other times in every round, as a trial writes them.
"""

import contextlib
import json
import math
import multiprocessing
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import yaml
from conftest import copy_checkout

sys.path.insert(0, str(Path(__file__).parent / "fixtures"))
import make
from reprofs.records import raw as seals

STACKS = ("single", "md-raid5", "md-raid6", "md-raid5-degraded")
SIZES = range(1000, 16000, 1000)  # of each workload
BIN = Path(sys.executable).parent
STATISTICS = "import sys, reprofs; reprofs.open(sys.argv[1]).save_results()"


def study(folder: Path, records: int) -> int:
    """Writes a plan and about so many records of it into a folder; returns how many."""
    make.make(folder / "one", rounds=1, failures={}, stacks=STACKS)
    plan = json.loads((folder / "one/plan.json").read_text())
    first = plan["trials"]
    plan["workloads"] = {f"{name}@{size}": entry for name, entry in plan["workloads"].items() for size in SIZES}
    (folder / "raw").mkdir()
    rounds = max(1, round(records / len(first) / len(SIZES)))
    with multiprocessing.get_context("fork").Pool() as pool:
        made = pool.imap_unordered(write, [(folder, trial, rounds) for trial in first])
        plan["trials"] = sorted([trial for trials in made for trial in trials], key=lambda trial: trial["order"])
    (folder / "plan.json").write_text(json.dumps(plan, indent=1))
    return len(plan["trials"])


def write(task: tuple[Path, dict, int]) -> list[dict]:
    """Makes of the record of one trial those of all its sizes and rounds; returns their trials."""
    folder, first, rounds = task
    record = json.loads((folder / f"one/raw/{first['id']}.json").read_text())
    phases = record["measurement"]["phases"]
    base, own, trials = [phase["wall_ns"] for phase in phases], random.Random(first["id"]), []
    for size in SIZES:
        for number in range(1, rounds + 1):
            workload = f"{first['workload']}@{size}"
            name = first["id"].replace("r1-", f"r{number}-", 1).replace(first["workload"], workload)
            order = first["order"] + 1000 * (number * len(SIZES) + size // 1000)
            trial = first | {"id": name, "round": number, "workload": workload, "order": order}
            shared = random.Random(f"{workload}/{number}").gauss(0, 0.05)  # by all file systems of the round
            for phase, was in zip(phases, base, strict=True):
                phase["wall_ns"] = int(was * size / 1000 * math.exp(shared + own.gauss(0, 0.02)))
            record["trial"] = {key: trial[key] for key in record["trial"]}
            (folder / f"raw/{name}.json").write_text(json.dumps(seals.seal(record), ensure_ascii=False) + "\n")
            trials.append(trial)
    return trials


def planning(folder: Path, trials: int) -> tuple[float, float, float]:
    """What `snakemake --dry-run` costs of a study of about so many trials, none of which has run."""
    copy_checkout(folder)
    about = yaml.safe_load((folder / "config/studies/quick.yaml").read_text())
    about |= {"workloads": ["metadata", "metadata@50", "repository", "repository@50"]}
    about["rounds"] = max(1, round(trials / len(about["filesystems"]) / len(about["workloads"])))
    (folder / "config/studies/large.yaml").write_text(yaml.safe_dump(about))
    with contextlib.chdir(folder):
        return run(BIN / "snakemake", "--dry-run", "--cores", "2", "--quiet", "all", "--config", "study=large")


def nothing(folder: Path) -> tuple[float, float, float]:
    """What a run costs that asks for the records of the study planned in `folder`, all of which are there."""
    trials = json.loads((folder / "data/plan/large.json").read_text())["trials"]
    (folder / "data/raw/large").mkdir(parents=True)
    (folder / "data/guest").mkdir(exist_ok=True)
    (folder / "data/guest/base.json").write_text(json.dumps({"initrd": {"sha256": "0" * 64}}))
    targets = [f"data/raw/large/{trial['id']}.json" for trial in trials]
    for trial, target in zip(trials, targets, strict=True):
        (folder / target).write_text(json.dumps([trial["job_sha256"], "0" * 64]))
        (folder / target).with_suffix(".console.log").touch()
    words = [BIN / "snakemake", *targets, "--cores", "2", "--quiet", "all", "--config", "study=large"]
    with contextlib.chdir(folder):
        run(*words, "--touch")
        return run(*words)


def run(*command: object) -> tuple[float, float, float]:
    """Seconds, CPU seconds and the most memory (GiB, of all its processes) of a command. Ends where it fails."""
    before, began, most = psutil.Process().cpu_times(), time.monotonic(), 0
    process = psutil.Popen([str(word) for word in command], stdout=subprocess.DEVNULL)
    while process.poll() is None:
        try:
            family = [process, *process.children(recursive=True)]
            most = max(most, sum(one.memory_full_info().pss for one in family))
        except psutil.NoSuchProcess:
            pass  # it has just ended
        time.sleep(0.2)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, [str(word) for word in command])
    after = psutil.Process().cpu_times()
    used = sum(getattr(after, key) - getattr(before, key) for key in ("children_user", "children_system"))
    return time.monotonic() - began, used, most / 2**30


def main(records: int, trials: int) -> None:
    """Print the table."""
    print("| | seconds | CPU seconds | memory, GiB |\n| --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        say(f"{trials:,} trials planned", planning(folder / "checkout", trials))
        say("nothing to do in them", nothing(folder / "checkout"))
        number = study(folder, records)
        build = ["dataset", folder / "plan.json", "--raw", folder / "raw", "--output", folder / "tables"]
        say(f"{number:,} records to tables", run(BIN / "reprofs", *build))
        say("tables to statistics", run(sys.executable, "-c", STATISTICS, folder / "tables"))


def say(what: str, found: tuple[float, float, float]) -> None:
    """Print a row of the table."""
    print(f"| {what} | {found[0]:.1f} | {found[1]:.1f} | {found[2]:.2f} |", flush=True)


if __name__ == "__main__":
    asked = [int(word) for word in sys.argv[1:]]
    main(*asked, *[100_000, 10_000][len(asked) :])
