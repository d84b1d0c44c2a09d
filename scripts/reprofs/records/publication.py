"""Reads and checks the folder of a published result."""

from __future__ import annotations

import contextlib
import difflib
import io
import json
import lzma
import os
import stat
import tarfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from reprofs.errors import UserError, cut, short
from reprofs.files import Unpacking, parse_json, sha256, write_bytes
from reprofs.plan.result import DIGESTS, NAME, Result
from reprofs.project import place
from reprofs.records.identity import of, parts_of
from reprofs.records.raw import AGAIN, broken

if TYPE_CHECKING:  # a trial does not wait for the models of plans
    from reprofs.plan.plan import Plan

ARCHIVES = ("records-", "profiles-")
PLAN = "plan.json"  # the first member of the first archive of records
LARGEST = 2 << 20  # bytes of a file of a result
RECORD = 16 << 20  # bytes of a record or a plan: ten times the largest
PROFILE = 128 << 20  # bytes of a file of a profile: twice the largest
MEAN = 1 << 20  # bytes that the records of a result have at most, on average
PROFILES = 100  # files of a trial's profile
ARCHIVE = PROFILE + (1 << 20)  # bytes that an archive of a result holds at most


class OtherVersion(UserError):
    """A plan that this checkout's code cannot read."""


def digests(folder: Path) -> bytes:
    """The bytes of digests.json of a result. Raises UserError for anything but a file of usual size."""
    path = folder / DIGESTS
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode) and len(data := file.read(LARGEST + 1)) <= LARGEST:
                return data
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}: get the result again.") from None
    raise UserError(f"{path} is no file of at most {LARGEST:,} bytes: get the result again.")


def said(folder: Path) -> Result:
    """What digests.json of a result says, whether or not its files fit. Raises UserError for one that is invalid."""
    if not os.path.lexists(folder / DIGESTS):
        known = {path.parent.name: path.parent for path in place("results").glob(f"*/{DIGESTS}")}
        near = difflib.get_close_matches(folder.name, sorted(known), n=1)
        what = (
            f"did you mean {os.path.relpath(known[near[0]])}?" if near else "name a folder results/NAME, or an archive."
        )
        raise UserError(f"{folder} is not a published result (it has no {DIGESTS}): {what}")
    try:
        return Result.adapter().validate_python(parse_json(folder / DIGESTS, digests(folder)))
    except ValidationError as error:
        first = error.errors()[0]
        key = cut(".".join(map(str, first["loc"])) or "the file", 60)
        raise UserError(f"{folder / DIGESTS} is invalid: {key}: {cut(first['msg'], 80)}") from None


def read(folder: Path) -> Result:
    """The same, with the digests of its files checked. Raises UserError, naming the file that is altered or missing."""
    result = said(folder)
    if link := next((path for path in sorted(folder.iterdir()) if path.is_symlink()), None):
        raise UserError(f"{link} is a link, which no result has: get the result again.")
    for name, digest in result.files.items():
        path = folder / name
        if path.is_file() and path.stat().st_size > LARGEST:
            raise UserError(
                f"{path} has {path.stat().st_size:,} bytes, but a file of a result at most {LARGEST:,}: get the result "
                "again."
            )
        if not path.is_file() or sha256(path) != digest:
            raise UserError(f"{path} is missing or was altered (SHA-256 differs from {DIGESTS}): get the result again.")
    for path in folder.iterdir():
        if path.name not in (*result.files, DIGESTS):
            raise UserError(f"{path} is not in {DIGESTS}: get the result again.")
    return result


@contextlib.contextmanager
def plan_of(folder: Path) -> Iterator[dict]:
    """The plan of a result as it was written, of whatever version. Raises UserError for an archive without one, and
    where what is made of it in the context shows that it is none."""
    try:
        plan = json.loads(_plan(folder / "records-1.tar.xz"))
        json.dumps(plan, ensure_ascii=False).encode()
        yield plan
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError):
        raise UserError(f"{folder}/{PLAN} is not the plan of a study: get the result again.") from None


@contextlib.contextmanager
def as_of(folder: Path, work: Path) -> Iterator[None]:
    """Says of the result in `folder` what is said of what was unpacked of it into `work`."""
    try:
        yield
    except UserError as error:
        text = str(error).replace(f"{work}/", f"{folder}: ").replace(AGAIN, "get the result again.")
        raise type(error)(text) from None


def _plan(file: Path) -> bytes:
    """The plan is the first member of the first archive; empty where it is not."""
    return next(_members(file, lambda name: RECORD if name == PLAN else -1), ("", b""))[1]


def unpack(folder: Path, result: Result, into: Path) -> Plan:
    """Puts the plan, the records and the profiles of a result into a folder: plan.json, raw/, profiles/.

    The plan says what else there may be; nothing else is read. Raises UserError, of which OtherVersion is one.
    """
    archives = [folder / file for file in sorted(result.files) if file.startswith(ARCHIVES)]
    first = next((file for file in archives if file.name.startswith("records-")), folder / "records-1.tar.xz")
    write_bytes(into / PLAN, _plan(first))
    from reprofs.plan.plan import read_plan

    try:
        plan = read_plan(into / PLAN)
    except UserError as error:
        text = str(error).replace(f"{into}/", "")
        raise OtherVersion(f"{folder} has a plan of another version than this checkout: {text}") from None
    if {trial.id for trial in plan.trials} != set(result.trials):
        raise UserError(f"{folder}: its plan has other trials than {DIGESTS}: get the result again.")
    room = _Room(plan)
    for file in archives:
        for name, content in _members(file, room.of):
            write_bytes(into / name, content)
            room.take(len(content))
    return plan


class _Room:
    """How large each member of a result's archives may be, and all together."""

    def __init__(self, plan: Plan) -> None:
        profiled = plan.profiled()
        self._records = {PLAN: RECORD, **{f"raw/{trial.id}.json": RECORD for trial in plan.trials}}
        self._profiles = Counter({trial.id: PROFILES for trial in profiled})
        self._left = RECORD + len(plan.trials) * MEAN + len(profiled) * 4 * PROFILE

    def of(self, name: str) -> int:
        """For a member, each only once; negative for one that the plan does not name."""
        top, _, rest = name.partition("/")
        trial, _, file = rest.partition("/")
        if top == "profiles" and self._profiles[trial] and NAME.fullmatch(file) and file[0] != ".":
            self._profiles[trial] -= 1
            room = PROFILE
        else:
            room = self._records.pop(name, -1)
        return min(room, self._left)

    def take(self, size: int) -> None:
        """So much was put there."""
        self._left -= size


def _members(file: Path, most: Callable[[str], int]) -> Iterator[tuple[str, bytes]]:
    """(name, content) of the members of an archive. most: how large each may be.

    Raises UserError for a larger one, and for anything but a file.
    """
    try:
        with io.BufferedReader(Unpacking(file, ARCHIVE)) as packed, tarfile.open(fileobj=packed, mode="r|") as archive:
            for member in archive:
                if not member.isreg() or not 0 <= member.size <= most(member.name):
                    raise UserError(
                        f"{file}: {short(member.name)} is not named by the result's plan, or larger than it can be: "
                        "get the result again."
                    )
                content = archive.extractfile(member)
                yield member.name, content.read() if content else b""
    except (tarfile.TarError, lzma.LZMAError, EOFError, ValueError, LookupError, ArithmeticError) as error:
        raise UserError(f"{file} is not an archive of records: {cut(error, 100)}: get the result again.") from None


def record_of(folder: Path, result: Result, name: str) -> dict:
    """The record of a trial in the archives of a result. Raises UserError where it is not what was published."""
    for file in sorted(result.files):
        if file.startswith("records-"):
            for found, content in _members(folder / file, lambda _: RECORD):
                if found == f"raw/{name}.json":
                    return checked(content, folder, result, name)
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
