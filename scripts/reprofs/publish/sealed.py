"""The archive of a published result (archive.py): its files are checked, and its result is taken out."""

from __future__ import annotations

import errno
import hashlib
import lzma
import tarfile
from pathlib import Path

from reprofs import workplace
from reprofs.errors import UserError, cut, short
from reprofs.files import read_sums, unwritable
from reprofs.plan.result import DIGESTS, NAME
from reprofs.version import environment
from reprofs.workplace import scratch

SUMS = "SHA256SUMS"
RESULTS = "checkout/results/"
LARGEST = 4 << 30  # bytes of all files of an archive together: ten times those of the largest
FILES = 100_000  # of an archive
SMALL = 16 << 20  # bytes of SUMS, and of a file of a result
BLOCK = 1 << 20


def listed(top: Path) -> list[str]:
    """The files of an unpacked archive that SUMS names: all but itself."""
    names = sorted(str(path.relative_to(top)) for path in top.rglob("*") if not path.is_dir() or path.is_symlink())
    return [name for name in names if name != SUMS]


def result_of(archive: Path, into: Path) -> Path:
    """Puts the result of an archive into a folder; returns its own. Nothing else is unpacked, and nothing is run.

    Raises UserError for a file that is no archive, and for the first file that is altered, missing or strange.
    """
    found: dict[str, str] = {}
    top = ""
    try:
        with tarfile.open(archive, "r|*") as packed:
            for member in packed:
                top = top or member.name.partition("/")[0]
                name = _name(archive, member, top)
                if name in found or len(found) == FILES:
                    raise UserError(f"{archive} has {short(name)} twice, or too many files: get it again.")
                found[name] = _take(packed, member, _place(name, into))
                if packed.offset > LARGEST:
                    raise UserError(f"{archive} unpacks to more than {LARGEST:,} bytes: get it again.")
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise unwritable(into, error) from None
        raise UserError(f"{archive} cannot be unpacked: {error.strerror or cut(error, 100)}.") from None
    except (tarfile.TarError, lzma.LZMAError, EOFError, ValueError, LookupError, ArithmeticError):
        raise UserError(f"{archive} is not an archive, or is incomplete: get it again.") from None
    if SUMS not in found:
        raise UserError(f"{archive} is not an archive of a published result, or is incomplete: get it again.")
    results = sorted(into.glob(f"*/{DIGESTS}"))
    if len(results) != 1 or "verify" not in found:
        raise UserError(f"{archive} is not an archive of a published result: it has no folder with verify.")
    _compare(archive, {name: digest for name, digest in found.items() if name != SUMS}, read_sums(into / SUMS))
    return results[0].parent


def _name(archive: Path, member: tarfile.TarInfo, top: str) -> str:
    """The name of a member below the archive's folder. Raises UserError for anything but a plain file in it."""
    first, _, name = member.name.partition("/")
    if not member.isreg() or first != top or {"", ".", ".."} & {first, *name.split("/")}:
        raise UserError(f"{archive}: {short(member.name)} is no plain file in one folder: get the archive again.")
    return name


def _place(name: str, into: Path) -> Path | None:
    """Where a file is written: one of the result, or SUMS."""
    study, _, file = name.removeprefix(RESULTS).partition("/")
    if name == SUMS:
        return into / SUMS
    if (
        name.startswith(RESULTS)
        and NAME.fullmatch(study)
        and NAME.fullmatch(file)
        and {study, file}.isdisjoint({".", ".."})
    ):
        return into / study / file
    return None


def _take(packed: tarfile.TarFile, member: tarfile.TarInfo, path: Path | None) -> str:
    """The SHA-256 of a member, which is written if it has a place."""
    source, digest = packed.extractfile(member), hashlib.sha256()
    assert source  # of a plain file
    if path and member.size > SMALL:
        raise UserError(f"{short(member.name)} has {member.size:,} bytes, more than {SMALL:,}: get the archive again.")
    if path:
        content = source.read()
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        return hashlib.sha256(content).hexdigest()
    while block := source.read(BLOCK):
        digest.update(block)
    return digest.hexdigest()


def _compare(archive: Path, found: dict[str, str], noted: dict[str, str]) -> None:
    for name in [*noted, *found]:
        if name not in noted:
            raise UserError(f"{archive}: {short(name)} is not in {SUMS}: get the archive again.")
        if found.get(name) != noted[name]:
            raise UserError(
                f"{archive}: {short(name)} is missing or was altered (SHA-256 differs from {SUMS}): get it again."
            )


def run(archive: Path, words: list[str]) -> int:
    """Unpacks an archive and runs its own `verify`, a program of whoever made it, with these words.

    Returns its exit code: 0 when all trials were identical, 1 when one was not, 2 when it could not be checked. Raises
    UserError like `result_of`.
    """
    with scratch() as work:
        (work / "result").mkdir()
        result_of(archive, work / "result")
        with tarfile.open(archive) as packed:
            packed.extractall(work / "all", filter="data")  # nothing outside of the folder, no devices
        (top,) = (work / "all").iterdir()
        (work / "tmp").mkdir()
        own = environment() | {"TMPDIR": str(work / "tmp")}  # what it leaves goes with this folder
        return workplace.run(work, [top / "verify", *words], env=own).returncode
