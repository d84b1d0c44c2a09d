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
import re
import shutil
import stat
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from reprofs.errors import UserError, cut, middle
from reprofs.guest.folder import FILES, Folder, below

MERGED = ("bin", "lib", "lib64", "sbin")  # links to the folder of that name in usr
HEADER = 60  # bytes before each member of an ar archive, after the 8 of its magic
OPENERS = {".xz": lzma.open, ".gz": gzip.open, ".bz2": bz2.open, "": lambda file: file}
# Of the packages of the lock, none is larger than 110 MB, and none unpacks to more than 31 times its size.
LARGEST = 2 << 30  # bytes of a package
RATIO, ROOM = 64, 64 << 20
PIECE = 1 << 20  # bytes that are read at once, and the most that a name or a control file may have
# Of a control file, those that are used.
FIELDS = {"Package": r"[a-z0-9][a-z0-9+.-]{1,100}", "Version": r"[\w.+~:-]{1,200}"}
# What the libraries raise for damaged archives.
DAMAGE = (tarfile.TarError, lzma.LZMAError, zlib.error, EOFError, ValueError, OSError, RecursionError, MemoryError)


def most(size: int) -> int:
    """Bytes to which this many compressed ones may be unpacked."""
    return size * RATIO + ROOM


def unxz(name: str, data: bytes, room: int) -> bytes:
    """The content of an .xz file, of up to `room` bytes. Raises UserError."""
    try:
        with lzma.open(io.BytesIO(data)) as file:
            content = file.read(room + 1)
    except (lzma.LZMAError, EOFError, MemoryError) as error:
        raise UserError(f"{middle(ascii(name)[1:-1])} is damaged: {cut(error, 80)}; correct the package.") from None
    if len(content) > room:
        raise UserError(f"{middle(ascii(name)[1:-1])} unpacks to more than {room:,} bytes, the most for its size.")
    return content


class Tree(Folder):
    """A folder that packages are unpacked into."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        root.mkdir(exist_ok=True)
        root.chmod(0o755)
        for name in MERGED:
            self.folder(f"usr/{name}", 0o755)
            if self.kind(name) != stat.S_IFLNK:
                self.link(name, f"usr/{name}")
        self.folder("usr", 0o755)

    def add(self, package: Path, digest: str = "", skip: re.Pattern | None = None) -> tuple[str, str]:
        """Unpacks a package but for what `skip` matches; its name and version.

        Raises UserError when it is none, or is one that no guest can have, and when it has another SHA-256 than
        `digest`: then it is removed.
        """
        data = _content(package)
        if digest and hashlib.sha256(data).hexdigest() != digest:
            package.unlink()
            raise UserError(f"{package} was damaged and was removed: run again to fetch it.")
        with _refused(package):
            parts = _members(data)
            fields = _control(parts)
            for archive, member in _archived(parts, "data.tar"):
                name = _merged(below(member.name))
                if name and not (skip and skip.match(name)):
                    self._member(archive, member, name)
        return fields["Package"], fields["Version"]

    def _member(self, archive: tarfile.TarFile, member: tarfile.TarInfo, name: str) -> None:
        if member.isdir():
            if self.kind(name) != stat.S_IFLNK:
                self.folder(name, member.mode)
        elif member.issym():
            if name not in {f"usr/{merged}" for merged in MERGED}:  # the link that is there already
                self.link(name, member.linkname)
        elif member.islnk():
            self.hard_link(name, _merged(below(member.linkname)))
        elif member.isreg():
            content = archive.extractfile(member)
            assert content
            with self.new(name, member.mode) as file:
                shutil.copyfileobj(content, file, PIECE)
        # Devices are the guest's own.


def control(package: Path) -> dict[str, str]:
    """The fields of a package's control file that have one line: Package, Version, Source, and so on."""
    data = _content(package)
    with _refused(package):
        return _control(_members(data))


class _Unpacked:
    """The unpacked bytes of an archive, for tarfile: up to `most`, and only so many at once as a header may ask for."""

    def __init__(self, file: BinaryIO, most: int) -> None:
        self.file, self.most, self.last = file, most, b""
        self.tell = file.tell

    def seek(self, at: int) -> int:
        self._check(at)
        return self.file.seek(at)

    def read(self, size: int) -> bytes:
        if not 0 <= size <= PIECE:
            raise ValueError("a header has a wrong size")
        self._check(self.tell() + size)
        self.last = self.file.read(size)
        return self.last

    def _check(self, at: int) -> None:
        if not 0 <= at <= self.most + PIECE:
            raise ValueError(f"it unpacks to more than {self.most:,} bytes, the most for its size")


def _archived(parts: dict[str, memoryview], start: str) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
    """The members of the archive whose name begins so, each checked before it is used. Raises what is in DAMAGE."""
    name = next((name for name in parts if name.startswith(start)), None)
    if name is None:
        raise ValueError(f"it has no {start}")
    ending = name.removeprefix(start)
    if ending not in OPENERS:
        raise ValueError(f"its {name} is not compressed with xz, gzip or bzip2: build it with -Zxz")
    limit = most(len(parts[name]))
    unpacked = _Unpacked(OPENERS[ending](io.BytesIO(parts[name])), limit)  # type: ignore[operator]
    with tarfile.open(fileobj=unpacked, mode="r:") as archive:  # type: ignore[call-overload]
        for number, member in enumerate(archive):
            if number >= FILES:
                raise ValueError(f"it has more than {FILES:,} files")
            if member.issparse():
                raise ValueError("it has a sparse file, which no package may have")
            if member.size < 0 or member.offset_data + member.size > limit:
                raise ValueError(f"it unpacks to more than {limit:,} bytes, the most for its size")
            yield archive, member
    if unpacked.last.strip(b"\0"):  # tarfile takes a damaged header for the end
        raise ValueError("a header is damaged")


def _merged(name: str) -> str:
    return f"usr/{name}" if name.split("/")[0] in MERGED else name


def check_size(package: Path) -> None:
    """Raises UserError when it is no file, or one that is too large to be read."""
    state = package.stat()
    if not stat.S_ISREG(state.st_mode) or state.st_size > LARGEST:
        raise UserError(f"{middle(str(package))} is no file of up to {LARGEST:,} bytes: name a Debian package.")


def _content(package: Path) -> bytes:
    check_size(package)
    return package.read_bytes()


@contextlib.contextmanager
def _refused(package: Path) -> Iterator[None]:
    """Turns what a damaged or hostile package causes into one sentence."""
    name = middle(str(package))
    try:
        yield
    except UserError as error:
        raise UserError(f"{name}: {error}") from None
    except DAMAGE as error:
        if isinstance(error, OSError) and error.errno:  # of this machine, such as a full disk
            raise
        raise UserError(f"{name} is not a Debian package: {cut(error, 120) or type(error).__name__}.") from None


def _control(parts: dict[str, memoryview]) -> dict[str, str]:
    """The fields of the control file. Raises one of DAMAGE."""
    fields: dict[str, str] = {}
    for archive, member in _archived(parts, "control.tar"):
        if member.isreg() and member.size <= PIECE and below(member.name) == "control":
            text = archive.extractfile(member).read().decode()  # type: ignore[union-attr]
            fields = dict(re.findall(r"^([A-Z][\w-]*): *(.+?) *$", text, re.MULTILINE))
    for field, form in FIELDS.items():
        if not re.fullmatch(form, fields.get(field, ""), re.ASCII):
            raise ValueError(f"its control file has no valid {field}")
    return fields


def _members(data: bytes) -> dict[str, memoryview]:
    """The members of an ar archive. Source: ar(5)."""
    if not data.startswith(b"!<arch>\n"):
        raise ValueError("it has the wrong header")
    found, at = {}, 8
    while at + HEADER <= len(data):
        name, size = data[at : at + 16].decode().strip().rstrip("/"), data[at + 48 : at + 58].strip()
        at += HEADER
        if not size.isdigit() or at + int(size) > len(data):
            raise ValueError("it is cut off, or has a wrong size")
        found[name] = memoryview(data)[at : at + int(size)]
        at += int(size) + int(size) % 2
    return found
