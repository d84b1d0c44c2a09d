"""Make the goldens again: what notebooks show of the fixture's study, as text. Run after a wanted change of any output.

python tests/make_goldens.py [FOLDER]        default: tests/goldens
"""

import sys
import tempfile
from pathlib import Path

import pandas as pd

sys.path.insert(0, str(Path(__file__).parent / "fixtures"))
import make
import run

GOLDENS = Path(__file__).parent / "goldens"
# Those that show the most; test_report.py runs the others.
NAMES = ["answer", "operations", "statistics"]
# Small, but with a failure, an upper bound, and enough contenders for the tests of ranks.
STUDY = {"systems": ["ext4", "xfs", "jfs", "tmpfs"], "workloads": ["metadata"]}
STUDY["failures"] = {("jfs", "metadata", 2): ("failed", "No space left on device.")}


def texts(folder: Path) -> dict[str, str]:
    """Notebook -> its sentences, captions and tables; what figures look like has tests of its own."""
    make.make(folder, **STUDY)
    run.build(folder, results=False)
    with pd.option_context("display.max_columns", 50, "display.width", 200):  # whatever the terminal
        executed = run.execute(folder, NAMES)
    return {name: run.text(executed / f"{name}.ipynb") for name in NAMES}


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else GOLDENS
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        for name, text in texts(Path(scratch)).items():
            (target / f"{name}.txt").write_text(text)
