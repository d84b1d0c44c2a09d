"""Checks the archive of a published result (archive.py) and has it run its trials."""

from __future__ import annotations

import lzma
import tarfile
from pathlib import Path

from reprofs.errors import UserError, cut
from reprofs.files import read_sums, sha256
from reprofs.workplace import run, scratch

SUMS = "SHA256SUMS"


def listed(top: Path) -> list[str]:
    """The files of an unpacked archive that SUMS names: all but itself."""
    names = sorted(str(path.relative_to(top)) for path in top.rglob("*") if not path.is_dir() or path.is_symlink())
    return [name for name in names if name != SUMS]


def check(top: Path) -> None:
    """Raises UserError naming the first file of an unpacked archive that is altered, missing or strange."""
    noted = read_sums(top / SUMS)
    if not noted:
        raise UserError(f"{top.name}/{SUMS} is missing or empty: get the archive again.")
    found = listed(top)
    for name in [*noted, *found]:
        path = top / name
        if name not in noted:
            raise UserError(f"{top.name}/{name} is not in {SUMS}: get the archive again.")
        if path.is_symlink() or not path.is_file() or sha256(path) != noted[name]:
            raise UserError(
                f"{top.name}/{name} is missing or was altered (SHA-256 differs from {SUMS}): get the archive again."
            )


def verify(archive: Path, words: list[str]) -> int:
    """Unpacks an archive into a temporary folder, checks its files, runs its `verify` with these words.

    Returns its exit code: 0 when all trials were identical, 1 when one was not, 2 when it could not be checked. Raises
    UserError for a file that is no archive, or has an altered file.
    """
    with scratch() as work:
        try:
            with tarfile.open(archive) as packed:
                packed.extractall(work, filter="data")  # nothing outside of the folder, no devices
        except OSError as error:
            raise UserError(f"{archive} cannot be unpacked: {error.strerror or cut(error, 100)}.") from None
        except (tarfile.TarError, lzma.LZMAError, EOFError):
            raise UserError(f"{archive} is not an archive, or is incomplete: get it again.") from None
        tops = list(Path(work).iterdir())
        if len(tops) != 1 or not (tops[0] / "verify").is_file():
            raise UserError(f"{archive} is not an archive of a published result: it has no folder with verify.")
        check(tops[0])
        return run(work, [tops[0] / "verify", *words]).returncode
