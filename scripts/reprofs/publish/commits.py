"""The code of another commit: in a clone of this checkout, kept in the cache, of a commit of its history alone."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from errno import ENOSPC
from pathlib import Path
from typing import Any

from reprofs import version, workplace
from reprofs.errors import UserError
from reprofs.files import cache_folder
from reprofs.guest.cache import locked
from reprofs.project import project_root
from reprofs.workplace import scratch

Say = Callable[[str], None]
# What makes tables, statistics and reports of records.
RENDERS = ("scripts/reprofs", "notebooks", "report", "data", "workflow", "uv.lock")


def renders_alike(commit: str) -> bool:
    """Whether this checkout makes the same of records as a commit; False for one that is not in its history."""
    if not version.is_ancestor(commit):
        return False
    return not version.git(project_root(), "diff", "--quiet", commit, "--", *RENDERS).returncode


@contextlib.contextmanager
def clone(commit: str, say: Say) -> Iterator[Path]:
    """A clone at this commit, set up; nobody else uses it meanwhile.

    Raises UserError for a commit that is not in this checkout's history: anybody may have written it.
    """
    if not version.is_ancestor(commit):
        raise UserError(
            f"commit {commit[:12]} is not in the history of this checkout, so its code is not run: merge it if "
            "you trust it, or use --own-code."
        )
    made = cache_folder() / "commits" / commit
    made.parent.mkdir(parents=True, exist_ok=True)
    with locked(made.with_name(f"{commit}.lock")):
        say(
            f"running the code of commit {commit[:12]}, which is in this checkout's history, in {made}; setting it up "
            "takes minutes the first time"
        )
        if not _restored(made, commit):
            shutil.rmtree(made, ignore_errors=True)
            done = version.git(project_root(), "clone", "--quiet", "--no-checkout", str(project_root()), str(made))
            if done.returncode or not _restored(made, commit):
                shutil.rmtree(made, ignore_errors=True)
                told = done.stderr.decode(errors="replace").splitlines()
                why = next((line.rpartition(": ")[2] for line in told if os.strerror(ENOSPC) in line), None)
                raise UserError(
                    f"commit {commit[:12]} cannot be cloned into {made}: "
                    + (f"{why}; free space there." if why else "free space there, or run `git fsck` here.")
                )
        if run(made, "scripts/setup"):
            raise UserError(f"scripts/setup of commit {commit[:12]} failed in {made}: see the lines above.")
        yield made


def run(made: Path, *words: str) -> int:
    """Runs a command of a clone in it; returns its exit code. What it prints besides errors is not shown."""
    command = [str(made / words[0]), *words[1:]]
    with scratch() as work:  # its temporary files go with this folder, also after a kill
        environment = version.environment() | {"TMPDIR": str(work)}
        how: dict[str, Any] = {"cwd": made, "env": environment, "stdout": subprocess.DEVNULL}
        return workplace.run(work, command, **how).returncode


def _restored(made: Path, commit: str) -> bool:
    """Whether a clone has the files of a commit, whatever was done to them before; False for a broken clone."""
    # Named, because git otherwise looks for a repository in the folders above.
    own = ("--git-dir=.git", "--work-tree=.")
    if not (made / ".git").is_dir():
        return False
    steps = [("checkout", "--quiet", "--force", "--detach", commit), ("clean", "--quiet", "-ffdx", "--", "results")]
    if any(version.git(made, *own, *step).returncode for step in steps):
        return False
    done = version.git(made, *own, "status", "--porcelain", "--untracked-files=no")
    head = version.git(made, *own, "rev-parse", "HEAD").stdout.decode().strip()
    return head == commit and not done.returncode and not done.stdout
