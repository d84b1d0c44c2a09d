"""Debian packages -> a tree of files. Their install scripts are not run, and nothing of this machine gets into it.

The same packages give the same tree, whoever unpacks them: owners are dropped, modes are the package's.
"""

from __future__ import annotations

import bz2
import contextlib
import gzip
import hashlib
import io
import lzma
import os
import posixpath
import re
import shutil
import tarfile
from pathlib import Path

from reprofs.errors import UserError, cut

MERGED = ("bin", "lib", "lib64", "sbin")  # links to the folder of that name in usr
HEADER = 60  # bytes before each member of an ar archive, after the 8 of its magic
OPENERS = {".xz": lzma.open, ".gz": gzip.open, ".bz2": bz2.open, "": lambda file: file}


class Tree:
    """A folder that packages are unpacked into."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._real: dict[str, str] = {"": ""}
        root.mkdir(exist_ok=True)
        root.chmod(0o755)
        for name in MERGED:
            (root / "usr" / name).mkdir(parents=True, exist_ok=True)
            (root / "usr" / name).chmod(0o755)
            if not (root / name).is_symlink():
                (root / name).symlink_to(f"usr/{name}")
        (root / "usr").chmod(0o755)

    def real(self, folder: str) -> str:
        """Where a folder of the tree is, after its links, which lead nowhere outside. It is made if it is missing."""
        if folder in self._real:
            return self._real[folder]
        above, name = posixpath.split(folder)
        found = posixpath.join(self.real(above), name)
        path = self.root / found
        if path.is_symlink():
            target = posixpath.join("/", self.real(above), path.readlink())
            found = self.real(posixpath.normpath(target).lstrip("/"))
        elif not path.is_dir():
            path.mkdir()
            path.chmod(0o755)
        self._real[folder] = found
        return found

    def place(self, name: str) -> Path:
        """The path of a member, which is no link's target."""
        above, base = posixpath.split(name)
        return self.root / self.real(above) / base

    def add(self, package: Path, digest: str = "", skip: re.Pattern | None = None) -> tuple[str, str]:
        """Unpacks a package but for what `skip` matches; its name and version.

        Raises UserError when it is none, or has another SHA-256 than `digest`: then it is removed.
        """
        data = package.read_bytes()
        if digest and hashlib.sha256(data).hexdigest() != digest:
            package.unlink()
            raise UserError(f"{package} was damaged and was removed: run again to fetch it.")
        try:
            parts = _members(data)
            fields = _control(parts)
            with tarfile.open(fileobj=_opened(parts, "data.tar"), mode="r|") as archive:
                for member in archive:
                    name = posixpath.normpath(posixpath.join("/", member.name)).lstrip("/")
                    if name.split("/")[0] in MERGED:
                        name = f"usr/{name}"
                    if name and not (skip and skip.match(name)):
                        self._member(archive, member, name)
            return fields["Package"], fields["Version"]
        except (tarfile.TarError, lzma.LZMAError, EOFError, ValueError, KeyError, StopIteration) as error:
            raise UserError(f"{package} is not a Debian package: {cut(error, 150)}.") from None

    def _member(self, archive: tarfile.TarFile, member: tarfile.TarInfo, name: str) -> None:
        if member.isdir():
            if not (self.root / name).is_symlink():
                (self.root / self.real(name)).chmod(member.mode)
            return
        path = self.place(name)
        if member.issym() and name in {f"usr/{merged}" for merged in MERGED}:
            return  # the link that is there already, under its other name
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
        if member.issym():
            path.symlink_to(member.linkname)
        elif member.islnk():
            target = posixpath.normpath(posixpath.join("/", member.linkname)).lstrip("/")
            os.link(self.place(f"usr/{target}" if target.split("/")[0] in MERGED else target), path)
        elif member.isreg():
            with path.open("wb") as file:
                shutil.copyfileobj(archive.extractfile(member), file, 1 << 20)  # type: ignore[arg-type]
            path.chmod(member.mode)
        # Devices are the guest's own.


def control(package: Path) -> dict[str, str]:
    """The fields of a package's control file that have one line: Package, Version, Source, and so on."""
    return _control(_members(package.read_bytes()))


def _control(parts: dict[str, memoryview]) -> dict[str, str]:
    with tarfile.open(fileobj=_opened(parts, "control.tar"), mode="r|") as archive:
        text = next(archive.extractfile(member).read() for member in archive if member.name == "./control")  # type: ignore[union-attr]
    return dict(re.findall(r"^([A-Z][\w-]*): *(.+?) *$", text.decode(), re.MULTILINE))


def _members(data: bytes) -> dict[str, memoryview]:
    """The members of an ar archive. Source: ar(5)."""
    if not data.startswith(b"!<arch>\n"):
        raise ValueError("it has the wrong header")
    found, at = {}, 8
    while at + HEADER <= len(data):
        name, size = data[at : at + 16].decode().strip().rstrip("/"), int(data[at + 48 : at + 58])
        found[name] = memoryview(data)[at + HEADER : at + HEADER + size]
        at += HEADER + size + size % 2
    return found


def _opened(parts: dict[str, memoryview], start: str) -> io.IOBase:
    name = next((name for name in parts if name.startswith(start)), None)
    if name is None:
        raise ValueError(f"it has no {start}")
    ending = name.removeprefix(start)
    if ending not in OPENERS:
        raise ValueError(f"its {name} is not compressed with xz, gzip or bzip2: build it with -Zxz")
    return OPENERS[ending](io.BytesIO(parts[name]))  # type: ignore[operator]
