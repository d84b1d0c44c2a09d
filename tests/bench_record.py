"""`make bench`: how much longer a program takes while `reprofs record` follows it.

Prints medians over alternating runs of the program alone and recorded; a figure to read, not a test: machines are
noisy, and a program that waits for a disk slows down less than one that waits for nothing.
"""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from reprofs import project
from reprofs.recorder import entries, record
from reprofs.recorder.follow import Follower
from reprofs.recorder.names import Names

REPEATS = 7
PROGRAMS = {  # run in a folder with a clone of this repository, `source`, and a folder for what they make, `made`
    "du": "du -s source > /dev/null",
    "tar": "tar cf - source | cat > /dev/null",
    "git status": "git -C source status --porcelain",
    "git clone": "git clone --quiet --no-hardlinks source made/clone",
    "cp": "cp -a source made/copy",
    "python -m compileall": "cp -a source/scripts made && python3 -m compileall -q made",
}


def alone(words: list[str], folder: Path) -> float:
    """Seconds of the program."""
    begun = time.monotonic()
    subprocess.run(words, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - begun


def recorded(words: list[str], folder: Path) -> tuple[float, int]:
    """Seconds of the program while it is recorded, and its calls; before and after, the tree is looked at untimed."""
    names = Names()
    follower = Follower([str(folder)], str(folder), os.umask(0o022), names)
    entries.read([str(folder)], names)
    os.chdir(folder)
    begun = time.monotonic()
    record._follow(words, [str(folder)], 600, follower)
    return time.monotonic() - begun, len(follower.lines)


def main() -> None:
    root = project.project_root()
    with tempfile.TemporaryDirectory(dir=root.parent) as place:
        folder = Path(place).resolve()
        subprocess.run(["git", "clone", "--quiet", root, folder / "source"], check=True)
        print(f"{'program':22} {'alone, ms':>10} {'recorded, ms':>13} {'times':>6} {'calls':>8} {'µs a call':>10}")
        for name, line in PROGRAMS.items():
            words, times, calls = ["sh", "-c", line], ([], []), 0
            for turn in range(2 * REPEATS):
                shutil.rmtree(folder / "made", ignore_errors=True)
                (folder / "made").mkdir()
                os.sync()
                if turn % 2:
                    seconds, calls = recorded(words, folder)
                else:
                    seconds = alone(words, folder)
                times[turn % 2].append(seconds)
            plain, slow = map(statistics.median, times)
            told = f"{name:22} {plain * 1e3:10.1f} {slow * 1e3:13.1f} {slow / plain:6.2f} {calls:8,}"
            print(f"{told} {(slow - plain) / calls * 1e6:10.1f}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
