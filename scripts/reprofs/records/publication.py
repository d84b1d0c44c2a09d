"""Reads and checks the folder of a published result."""

from __future__ import annotations

import contextlib
import difflib
import json
import lzma
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from reprofs.errors import UserError, cut
from reprofs.files import read_json, sha256
from reprofs.plan.plan import Plan, read_plan
from reprofs.plan.result import DIGESTS, Result
from reprofs.project import place
from reprofs.records.identity import of, parts_of
from reprofs.records.raw import broken

ARCHIVES = ("records-", "profiles-")


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
        raise UserError(f"{folder} is not a published result (it has no {DIGESTS}): {what}")
    try:
        result = Result.adapter().validate_python(read_json(folder / DIGESTS))
    except ValidationError as error:
        first = error.errors()[0]
        key = cut(".".join(map(str, first["loc"])) or "the file", 60)
        raise UserError(f"{folder / DIGESTS} is invalid: {key}: {cut(first['msg'], 80)}") from None
    for name, digest in result.files.items():
        path = folder / name
        if not path.is_file() or sha256(path) != digest:
            raise UserError(f"{path} is missing or was altered (SHA-256 differs from {DIGESTS}): get the result again.")
    for path in folder.iterdir():
        if path.name not in (*result.files, DIGESTS):
            raise UserError(f"{path} is not in {DIGESTS}: get the result again.")
    return result


def unpack(folder: Path, result: Result, into: Path) -> Plan:
    """Puts the plan, the records and the profiles of a result into a folder: plan.json, raw/, profiles/.

    Raises UserError, of which OtherVersion is one.
    """
    for file in sorted(result.files):
        if file.startswith(ARCHIVES):
            with _opened(folder / file) as archive:
                archive.extractall(into, filter="data")  # nothing outside of the folder, no devices
    try:
        plan = read_plan(into / "plan.json")
    except UserError as error:
        raise OtherVersion(f"{folder} has a plan of another version than this checkout: {error}") from None
    if {trial.id for trial in plan.trials} != set(result.trials):
        raise UserError(f"{folder}: its plan has other trials than {DIGESTS}: get the result again.")
    return plan


@contextlib.contextmanager
def _opened(file: Path) -> Iterator[tarfile.TarFile]:
    try:
        with tarfile.open(file) as archive:
            yield archive
    except (tarfile.TarError, lzma.LZMAError, EOFError) as error:
        raise UserError(f"{file} is not an archive of records: {cut(error, 100)}") from None


def record_of(folder: Path, result: Result, name: str) -> dict:
    """The record of a trial in the archives of a result. Raises UserError where it is not what was published."""
    for file in sorted(result.files):
        if file.startswith("records-"):
            with _opened(folder / file) as archive, contextlib.suppress(KeyError):
                found = archive.extractfile(f"raw/{name}.json")
                return checked(found.read() if found else b"", folder, result, name)
    return checked(b"", folder, result, name)


def checked(content: bytes, folder: Path, result: Result, name: str) -> dict:
    """The record of a trial in a file. Raises UserError unless it has the digests that it and the result say."""
    try:
        record = json.loads(content)
        known = result.trials[name]
        right = not broken(record) and record["digests"]["measurement"] == known.measurement
        right = right and of(parts_of(record)) == known.identity
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        right = False
    if not right:
        raise UserError(
            f"{folder}: raw/{name}.json is not the published record (digest differs from {DIGESTS}): get the "
            "result again."
        )
    return record
