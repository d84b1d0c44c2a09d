"""Which ReproFS this is: its version and, in a checkout of git, the commit. All of git is called from here."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
from pathlib import Path

from reprofs.errors import UserError
from reprofs.project import project_root

VERSION = importlib.metadata.version("reprofs")


def commit() -> str:
    """The commit of the checkout, with + when files differ from it; empty outside git."""
    # What is published is made, and so is the catalogue that links it; nothing is made of them.
    own = (".", ":(exclude)results", ":(exclude)docs/CATALOG.md")
    try:
        root = project_root()
        top, head = _said(root, "rev-parse", "--show-toplevel", "HEAD").split("\n")
        if top != str(root):  # a copy without git, inside of another repository
            return ""
        changed = _said(root, "status", "--porcelain", "--untracked-files=no", "--", *own)
    except (OSError, ValueError, UserError):
        return ""
    return head + ("+" if changed else "")


def text() -> str:
    """`reprofs 0.6.0 (c3abc64, modified)`; the version alone outside git."""
    found = commit()
    if not found:
        return f"reprofs {VERSION}"
    return f"reprofs {VERSION} ({found[:7]}{', modified' if found.endswith('+') else ''})"


def is_ancestor(one: str) -> bool:
    """Whether a commit is in the history of this checkout; False outside git."""
    return bool(commit()) and not git(project_root(), "merge-base", "--is-ancestor", one, "HEAD").returncode


def git(folder: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    """Runs git in a folder; it may fail. Raises OSError where there is no git."""
    # Git refuses a repository of another user, whose configuration may run code; the code of this one runs already.
    trusted = ["-c", f"safe.directory={project_root()}"]
    return subprocess.run(["git", *trusted, "-C", str(folder), *words], capture_output=True, env=environment())


def environment() -> dict[str, str]:
    """The environment without what leads git to another repository, as hooks and `git rebase --exec` set it."""
    return {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}


def _said(folder: Path, *words: str) -> str:
    done = git(folder, *words)
    if done.returncode:
        raise ValueError(done.stderr)
    return done.stdout.decode().strip()
