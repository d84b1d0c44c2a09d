"""The checkouts that a benchmark compares. It imports nothing of the package, which may be another commit's."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


@contextmanager
def checkouts() -> Iterator[dict[str, Path]]:
    """Name -> folder: this checkout, and with AGAINST=COMMIT before it one of that commit, as long as it is used."""
    if not (other := os.environ.get("AGAINST")):
        yield {"this checkout": ROOT}
        return
    git = ["git", "-C", str(ROOT), "worktree"]
    with tempfile.TemporaryDirectory() as place:
        made = Path(place) / "other"
        subprocess.run([*git, "add", "--detach", str(made), other], check=True, capture_output=True)
        try:
            yield {other: made, "this checkout": ROOT}
        finally:
            subprocess.run([*git, "remove", "--force", str(made)], check=True, capture_output=True)
