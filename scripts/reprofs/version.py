"""Which ReproFS this is: its version and, in a checkout of git, the commit."""

from __future__ import annotations

import importlib.metadata
import subprocess

from reprofs.errors import UserError
from reprofs.project import project_root

VERSION = importlib.metadata.version("reprofs")


def commit() -> str:
    """The commit of the checkout, with + when files differ from it; empty outside git."""
    try:
        root = project_root()
        top, head = _git(root, "rev-parse", "--show-toplevel", "HEAD").split("\n")
        if top != str(root):  # a copy without git, inside of another repository
            return ""
        # What is published is made, and so is the catalogue that links it; nothing is made of them.
        own = (".", ":(exclude)results", ":(exclude)docs/CATALOG.md")
        changed = _git(root, "status", "--porcelain", "--untracked-files=no", "--", *own)
    except (OSError, ValueError, subprocess.CalledProcessError, UserError):
        return ""
    return head + ("+" if changed else "")


def text() -> str:
    """`reprofs 0.6.0 (c3abc64, modified)`; the version alone outside git."""
    found = commit()
    if not found:
        return f"reprofs {VERSION}"
    return f"reprofs {VERSION} ({found[:7]}{', modified' if found.endswith('+') else ''})"


def _git(folder, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()
