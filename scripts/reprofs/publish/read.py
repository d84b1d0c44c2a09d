"""Reads and checks the folder of a published result."""

from __future__ import annotations

import difflib
import lzma
import os
import tarfile
from pathlib import Path

from pydantic import ValidationError

from reprofs.errors import UserError, cut
from reprofs.files import read_json, sha256
from reprofs.plan.plan import Plan, read_plan
from reprofs.plan.result import DIGESTS, Result
from reprofs.project import place


class OtherVersion(UserError):
    """A plan that this checkout's code cannot read."""


def read(folder: Path) -> Result:
    """What digests.json of a result says. Raises UserError, naming the file, for one that is altered or missing."""
    if not (folder / DIGESTS).is_file():
        known = {path.parent.name: path.parent for path in place("results").glob(f"*/{DIGESTS}")}
        near = difflib.get_close_matches(folder.name, sorted(known), n=1)
        what = (
            f"did you mean {os.path.relpath(known[near[0]])}?" if near else "name a folder results/NAME, or an archive."
        )
        raise UserError(f"{folder} is no published result, for it has no {DIGESTS}: {what}")
    try:
        result = Result.adapter().validate_python(read_json(folder / DIGESTS))
    except ValidationError as error:
        first = error.errors()[0]
        key = cut(".".join(map(str, first["loc"])) or "the file", 60)
        raise UserError(f"{folder / DIGESTS} is no published result: {key}: {cut(first['msg'], 80)}") from None
    for name, digest in result.files.items():
        path = folder / name
        if not path.is_file() or sha256(path) != digest:
            raise UserError(f"{path} is missing or was altered: its SHA-256 is not the one in {DIGESTS}.")
    for path in folder.iterdir():
        if path.name not in (*result.files, DIGESTS):
            raise UserError(f"{path} does not belong to the result: {DIGESTS} does not name it.")
    return result


def unpack(folder: Path, result: Result, into: Path) -> Plan:
    """Puts the plan and the records of a result into a folder: plan.json, raw/. Raises UserError, of which
    OtherVersion is one."""
    for name in sorted(result.files):
        if name.startswith("records-"):
            try:
                with tarfile.open(folder / name) as archive:
                    archive.extractall(into, filter="data")  # nothing outside of the folder, no devices
            except (tarfile.TarError, lzma.LZMAError, EOFError) as error:
                raise UserError(f"{folder / name} is no archive of records: {cut(error, 100)}") from None
    try:
        plan = read_plan(into / "plan.json")
    except UserError as error:
        raise OtherVersion(f"{folder} has a plan of another version than this checkout: {error}") from None
    if {trial.id for trial in plan.trials} != set(result.trials):
        raise UserError(f"{folder}: the plan among the records has other trials than {DIGESTS}.")
    return plan
