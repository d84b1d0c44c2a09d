"""Where the checkout is. What a command or a notebook names is relative to it, wherever it was started."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from reprofs.errors import UserError


def project_root() -> Path:
    """The folder of the checkout: the working directory or the nearest folder above it that has a workflow.

    Elsewhere the checkout that this package was installed from. Raises UserError when there is none.
    """
    return _root(Path.cwd())


def place(path: str | Path) -> Path:
    """A path as it was given if it is absolute, else below the folder of the checkout. Raises UserError without one."""
    return project_root() / path


@cache
def _root(start: Path) -> Path:
    for folder in (start, *start.parents, Path(__file__).resolve().parents[2]):
        if (folder / "workflow" / "schemas").is_dir():
            return folder
    raise UserError(f"{start} is not inside a ReproFS checkout (no workflow/schemas): change into one.")
