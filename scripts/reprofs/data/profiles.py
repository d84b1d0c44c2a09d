"""The exact profiles of a study (data/profiles), as `reprofs profile` wrote them, one folder a trial."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from reprofs.errors import UserError
from reprofs.files import SUMS, changed, read_json

FILE = "profile.json"  # workflow/schemas/profile.schema.yaml


def load(folder: Path) -> dict[str, Any]:
    """The profile of a trial. Raises UserError if it is missing or was changed."""
    if not (folder / FILE).is_file():
        raise UserError(f"{folder} has no profile: run `make report` or `reprofs profile`.")
    if wrong := changed(folder / SUMS, FILE):
        told = "is missing or was changed after it was made"
        raise UserError(f"{wrong} {told}: run `make report` or `reprofs profile` again.")
    return read_json(folder / FILE)


def stacks(folder: Path, phase: dict[str, Any]) -> dict[str, int]:
    """The stacks of a phase of a profile in a folder: "caller;...;function" -> instructions."""
    pairs = (line.rpartition(" ") for line in (folder / phase["stacks"]).read_text().splitlines())
    return {stack: int(count) for stack, _, count in pairs}
