"""`make bench`: what the engine costs above a bare C loop of the same calls, side by side on tmpfs.

Prints medians over alternating runs; a figure to read, not a test: machines are noisy.
"""

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from reprofs import engine, files
from reprofs.labs import job_line

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


def engine_times(binary: Path, folder: Path) -> dict[str, float]:
    """Nanoseconds an operation in the engine: the whole phase without the final sync."""
    lines = [job_line("tree", ("root", folder / "tree"), ("seed", 7), *TREE.items())]
    for name, order in {"make-tree": "tree", **OPERATIONS, "remove-tree": "tree"}.items():
        lines.append(job_line("phase", name=name, cache="warm", operation=name, order=order, sync=folder))
    job = folder / "job"
    job.write_text("\n".join(lines) + "\n")
    output = subprocess.run([binary, "run", job], capture_output=True, text=True, check=True).stdout
    phases = {e["name"]: e for e in map(json.loads, output.splitlines()) if e["event"] == "phase"}
    return {name: (phases[name]["wall_ns"] - phases[name]["sync_ns"]) / FILES for name in OPERATIONS}


def bare_times(binary: Path, folder: Path) -> dict[str, float]:
    """Nanoseconds an operation in the bare loop."""
    command = [binary, folder, str(FILES), str(DIRECTORIES)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return {name: int(ns) / FILES for name, ns in map(str.split, lines)}


def main() -> None:
    """Alternates both, prints a table."""
    binary = engine.build(files.cache_folder())
    with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
        folder = Path(place)
        bare = folder / "bare_loop"
        sources = [Path(__file__).with_name("bare_loop.c"), engine.SOURCE / "tree.c"]
        engine.compile_c(sources, bare, engine.FLAGS)
        runs = [(engine_times(binary, folder), bare_times(bare, folder)) for _ in range(REPEATS)]
    print(
        f"ns an operation on tmpfs, {FILES} files, median of {REPEATS} alternating runs; ratio: median of paired ratios"
    )
    print(f"{'operation':10}{'engine':>10}{'bare loop':>11}{'above':>8}{'ratio':>8}")
    for name in OPERATIONS:
        ours, theirs = ([run[side][name] for run in runs] for side in (0, 1))
        ratio = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
        a, b = statistics.median(ours), statistics.median(theirs)
        print(f"{name:10}{a:10.0f}{b:11.0f}{a - b:8.0f}{ratio:8.3f}")


if __name__ == "__main__":
    sys.exit(main())
