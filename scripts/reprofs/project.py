"""Where the checkout is. Paths given to a command or a notebook are relative to it, wherever it was started."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from reprofs.errors import UserError


def project_root() -> Path:
    """The folder of the checkout: the working directory or the nearest folder above it with a workflow.

    Otherwise the checkout that this package was installed from. Raises UserError when there is none.
    """
    return _root(Path.cwd())


def place(path: str | Path) -> Path:
    """An absolute path unchanged, any other below the checkout's folder. Raises UserError when there is no checkout."""
    return project_root() / path


@cache
def _root(start: Path) -> Path:
    for folder in (start, *start.parents, Path(__file__).resolve().parents[2]):
        if (folder / "workflow" / "schemas").is_dir():
            return folder
    raise UserError(f"{start} is not in a ReproFS checkout (no workflow/schemas): change into one.")
