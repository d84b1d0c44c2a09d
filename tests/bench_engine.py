"""`make bench`: what the engine costs above a bare C loop of the same calls, its walk beside find, all on tmpfs; how
apart its clients start, and its memory for ten million names.

Prints medians over alternating runs; a figure to read, not a test: machines are noisy.
"""

import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from reprofs import files
from reprofs.guest import engine
from reprofs.guest.steps import job_line
from reprofs.plan import tree

FILES, DIRECTORIES, REPEATS = 20_000, 1_200, 7
TREE = {
    "files": FILES,
    "directories": DIRECTORIES,
    "fan_out": 8,
    "size_median": 4055,
    "size_sigma": 1.45,
    "size_max": 1 << 20,
}
OPERATIONS = {"create": "tree", "stat": "random", "read": "random", "remove": "tree"}
WALK_FILES, WALK_DIRECTORIES = 200_000, 12_000
# One line an entry: what pwalk writes, as far as find knows it.
ROW = r'%i,%d,"%p",%U,%G,%s,%D,%b,%n,"%m",%A@,%T@,%C@\n'


def engine_times(binary: Path, folder: Path) -> dict[str, tuple[float, float]]:
    """Nanoseconds an operation in the engine: the whole phase without the final sync, and its timed calls alone.

    Between the two lies what a record gives as driver_ns: the making of names and contents.
    """
    lines = [job_line("tree", ("root", folder / "tree"), ("seed", 7), *TREE.items())]
    for name, order in {"make-tree": "tree", **OPERATIONS, "remove-tree": "tree"}.items():
        lines.append(job_line("phase", name=name, cache="warm", operation=name, order=order, sync=folder))
    job = folder / "job"
    job.write_text("\n".join(lines) + "\n")
    output = subprocess.run([binary, "run", job], capture_output=True, text=True, check=True).stdout
    phases = {e["name"]: e for e in map(json.loads, output.splitlines()) if e["event"] == "phase"}
    whole = {name: phases[name]["wall_ns"] - phases[name]["sync_ns"] for name in OPERATIONS}
    return {name: (ns / FILES, (ns - phases[name]["driver_ns"]) / FILES) for name, ns in whole.items()}


def bare_times(binary: Path, folder: Path) -> dict[str, float]:
    """Nanoseconds an operation in the bare loop."""
    command = [binary, folder, str(FILES), str(DIRECTORIES)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return {name: int(ns) / FILES for name, ns in map(str.split, lines)}


def timed(command: list[object]) -> tuple[float, float]:
    """Seconds a command takes: by the wall, and of all its processors."""
    start = time.monotonic()
    child = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    wall = time.monotonic() - start
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, command)
    return wall, used.ru_utime + used.ru_stime


def compare_walks(binary: Path, folder: Path) -> None:
    """The fast walk beside the machine's find, doing the same work over the same tree, which is in the cache.

    names: both go through all names and look at types only (find must print something: one letter for each).
    rows: both stat every entry and write a line of its numbers. stat: both stat every entry and print nothing.
    """
    top, cores = folder / "walked", len(os.sched_getaffinity(0))
    sizes = {**TREE, "files": WALK_FILES, "directories": WALK_DIRECTORIES, "size_median": 10, "size_max": 100}
    lines = [job_line("tree", ("root", top), ("seed", 7), *sizes.items())]
    lines += [job_line("phase", name=n, cache="warm", operation=n, sync=folder) for n in ("make-tree", "create")]
    job = folder / "walked-job"
    job.write_text("\n".join(lines) + "\n")
    subprocess.run([binary, "run", job], stdout=subprocess.DEVNULL, check=True)
    walk = [engine.build(files.cache_folder(), "walk"), "--fast"]
    works = {
        "names": (["find", top, "-printf", "x"], [*walk, "--count"]),
        "stat": (["find", top, "-size", "+99999999k"], walk),
        "rows": (["find", top, "-printf", ROW], [*walk, "--output", "/dev/null"]),
    }
    runs: dict[str, list] = {name: [] for name in works}
    for _ in range(REPEATS):
        for name, (find, ours) in works.items():
            runs[name].append([timed(find), timed([*ours, top]), timed([*ours, "--threads", cores, top])])
    print(
        f"\nwalk --fast beside find on tmpfs, {WALK_FILES + WALK_DIRECTORIES} entries, {REPEATS} alternating runs: "
        f"medians, and medians of paired ratios;\nload of the machine {os.getloadavg()[0]:.1f} on {cores} cores"
    )
    many = f"{cores} threads"
    columns = ["work", "find ms", "walk ms", many, "find/walk", "of CPU", f"walk/{many}", "of CPU "]
    print(*(f"{column:>16}" for column in columns), sep="")
    for name, found in runs.items():
        walls = [f"{statistics.median(run[side][0] for run in found) * 1e3:16.0f}" for side in range(3)]
        pairs = [(0, 1, 0), (0, 1, 1), (1, 2, 0), (1, 2, 1)]
        ratios = [f"{statistics.median(run[a][kind] / run[b][kind] for run in found):16.2f}" for a, b, kind in pairs]
        print(f"{name:>16}", *walls, *ratios, sep="")


def open_barrier(binary: Path, folder: Path) -> None:
    """How long it takes until the last of 30 clients has started after the first."""
    top, clients = folder / "clients", 30
    top.mkdir()
    for number in range(clients):
        (top / f"c{number}").mkdir()
    phase = {"name": "start", "cache": "warm", "operation": "exec", "items": 1, "cwd": top, "clients": clients}
    lines = [job_line("phase", *phase.items(), ("arg", "true"))] * 10
    (top / "job").write_text("\n".join(lines) + "\n")
    output = subprocess.run([binary, "run", top / "job"], capture_output=True, text=True, check=True).stdout
    events = [event for event in map(json.loads, output.splitlines()) if event["event"] == "phase"]
    last = [max(client["start_ns"] for client in event["clients"]) / 1e3 for event in events]
    print(
        f"\nstart of {clients} clients, first to last: median {statistics.median(last):.0f} µs, most {max(last):.0f} µs"
    )


def use_memory() -> None:
    """Memory of the programs for a tree of ten million names, listed and as an archive."""
    print()
    listed = ["look-alike", "--list", "--files", "10000000", *shlex.split(tree.arguments("linux"))]
    for name, *words in (listed, ["archive", "--names", "10000000", "--size-median", "1"]):
        binary = engine.build(files.cache_folder(), name)
        child = subprocess.Popen([binary, *words, "--seed", "7"], stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        print(f"{name}, ten million names: {used.ru_maxrss / 1024:.1f} MiB of memory, exit code {child.returncode}")


def main() -> None:
    """Alternates both, prints a table."""
    binary = engine.build(files.cache_folder())
    with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
        folder = Path(place)
        bare = folder / "bare_loop"
        sources = [Path(__file__).with_name("bare_loop.c"), engine.SOURCE / "tree.c"]
        engine.compile_c(sources, bare, engine.FLAGS)
        runs = [(engine_times(binary, folder), bare_times(bare, folder)) for _ in range(REPEATS)]
        print_loops(runs)
        compare_walks(binary, folder)
        open_barrier(binary, folder)
        use_memory()


def print_loops(runs: list) -> None:
    """The engine's operations beside the bare loop's."""
    print(
        f"ns an operation on tmpfs, {FILES} files, median of {REPEATS} alternating runs; ratio: median of paired ratios"
    )
    print("calls: what is recorded as latency; phase: with the making of names, which is recorded as driver_ns")
    print(f"{'operation':10}{'bare loop':>11}{'calls':>8}{'ratio':>8}{'phase':>8}{'ratio':>8}")
    for name in OPERATIONS:
        bare = [run[1][name] for run in runs]
        print(f"{name:10}{statistics.median(bare):11.0f}", end="")
        for kind in (1, 0):
            ours = [run[0][name][kind] for run in runs]
            ratio = statistics.median(a / b for a, b in zip(ours, bare, strict=True))
            print(f"{statistics.median(ours):8.0f}{ratio:8.3f}", end="")
        print()


if __name__ == "__main__":
    sys.exit(main())
