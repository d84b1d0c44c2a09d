"""The exact profiles of a study (data/profiles), as `reprofs profile` wrote them, one folder a trial."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import yaml
from jsonschema_rs import Draft202012Validator

from reprofs.errors import UserError, cut
from reprofs.files import SUMS, changed, read_json

FILE = "profile.json"  # workflow/schemas/profile.schema.yaml
SCHEMA = Path(__file__).parents[3] / "workflow/schemas/profile.schema.yaml"
LONGEST = 19  # digits of 2^63
AGAIN = "run `make report` or `reprofs profile` again."


@functools.cache
def _schema() -> Draft202012Validator:
    return Draft202012Validator(yaml.safe_load(SCHEMA.read_text()))


def load(folder: Path) -> dict[str, Any]:
    """The profile of a trial. Raises UserError if it is missing, was changed, or is none."""
    path = folder / FILE
    if not path.is_file():
        raise UserError(f"{folder} has no profile: run `make report` or `reprofs profile`.")
    if wrong := changed(folder / SUMS, FILE):
        raise UserError(f"{wrong} is missing or was changed after it was made: {AGAIN}")
    found = read_json(path)
    for error in _schema().iter_errors(found):
        key = ".".join(map(str, error.instance_path))
        raise UserError(f"{path} is not a valid profile: {cut(key, 80)}: {cut(error.message, 80)}; {AGAIN}")
    return found


def stacks(folder: Path, phase: dict[str, Any]) -> dict[str, int]:
    """The stacks of a phase of a profile in a folder: "caller;...;function" -> instructions. Raises UserError."""
    path, found = folder / phase["stacks"], {}
    try:
        for line in path.read_text().splitlines():
            stack, _, count = line.rpartition(" ")
            if not (stack and count.isdecimal() and len(count) < LONGEST):
                raise ValueError("a line has no number of instructions")
            found[stack] = int(count)
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is no list of stacks ({cut(error, 80)}): {AGAIN}") from None
    return found
