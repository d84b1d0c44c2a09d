"""Files: written atomically, read with clear errors, checked by digest."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import json
import lzma
import os
import re
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from reprofs.errors import UserError, cut

ROOM = 4 << 20  # bytes that a record, its log or a table may need, with much to spare
LARGEST_JSON = 256 << 20  # bytes of a JSON file: hundreds of times the largest plan or record
SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
# What to do where the machine sets a limit; for other errors free space.
HINTS = {
    errno.EFBIG: "raise the limit of this shell (ulimit -f unlimited)",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.EMFILE: "raise the limit of this shell (ulimit -n)",
    errno.ENOMEM: "free memory",
    errno.EIO: "check the disk (dmesg)",
    errno.ENOSPC: "free space or choose another folder",
    errno.EDQUOT: "free space or choose another folder",
    errno.EROFS: "choose a folder that can be written",
    errno.EACCES: "ask for the right to",
    errno.EPERM: "ask for the right to",
    errno.EISDIR: "name a file",
}


def unwritable(what: object, error: OSError) -> UserError:
    """The error for a file that cannot be written or read."""
    hint = HINTS.get(error.errno or 0, HINTS[errno.ENOSPC])
    verb = "read or written" if error.errno in (errno.EACCES, errno.EPERM) else "written"
    return UserError(f"{what} cannot be {verb}: {error.strerror}; {hint}.")


@contextlib.contextmanager
def made(folder: Path) -> Iterator[None]:
    """Makes a folder with those above it; after an error those that are new and empty are removed again."""
    new = [one for one in (folder, *folder.parents) if not os.path.lexists(one)]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        for one in new:
            with contextlib.suppress(OSError):
                one.rmdir()
        raise


def write_bytes(path: Path, data: bytes) -> None:
    """Writes a temporary file next to `path`, then renames it. A file with the same content keeps its time.

    Links, pipes and devices are written to and stay what they are.

    Raises UserError when the folder cannot be written or is full.
    """
    try:
        if path.is_symlink() or (path.exists() and not path.is_file() and not path.is_dir()):
            path.write_bytes(data)
            return
        if path.exists() and path.read_bytes() == data:
            return
        with made(path.parent):
            handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(data)
                Path(temporary).chmod(0o644)
                Path(temporary).rename(path)
            except BaseException:
                Path(temporary).unlink(missing_ok=True)
                raise
    except OSError as error:
        raise unwritable(path, error) from None


def write_together(folder: Path, content: Mapping[str, bytes]) -> None:
    """Writes files of a folder, each by its path in it: all, or none if the disk gets full.

    Raises UserError like `write_bytes`.
    """
    try:
        with made(folder), tempfile.TemporaryDirectory(dir=folder, prefix=".new.") as new:
            for name, data in content.items():
                write_bytes(Path(new) / name, data)
            for name in content:
                (folder / name).parent.mkdir(exist_ok=True)
                (Path(new) / name).replace(folder / name)
    except OSError as error:
        raise unwritable(folder, error) from None


def check_writable(path: Path) -> None:
    """Raises UserError if `path` cannot be written; called before the work whose result is written there.

    Room for the result is reserved and given back, which no quota or limit of this process lets pass unseen. No folder
    is made: the work may fail.
    """
    try:
        if path.is_dir():
            raise UserError(f"{path} is a folder: name a file in it.")
        for folder in path.absolute().parents:
            with contextlib.suppress(FileNotFoundError):
                folder.lstat()
                break
        with tempfile.TemporaryFile(dir=folder) as file:  # without a name, so that a kill leaves nothing
            os.posix_fallocate(file.fileno(), 0, ROOM)
    except OSError as error:
        raise unwritable(path, error) from None


def write_text(path: Path, text: str) -> None:
    """Like write_bytes, for text in UTF-8."""
    write_bytes(path, text.encode())


def read_json(path: Path) -> dict:
    """The content of a JSON file that an earlier step wrote. Raises UserError if it is missing or not valid JSON."""
    try:
        if path.stat().st_size > LARGEST_JSON:
            raise _not_json(path, f"it has more than {LARGEST_JSON >> 20} MiB")
        return parse_json(path, path.read_bytes())
    except OSError as error:
        raise UserError(f"Cannot read {path}: {error.strerror}; run the step that makes it.") from None


def parse_json(path: Path, data: bytes) -> dict:
    """What is in the bytes of a JSON file. Raises UserError, naming the file, where that is not valid JSON."""
    try:
        found = json.loads(data.decode(), parse_constant=_no_number)
        if SURROGATE.search(data):  # half of a character, which no file can have; both halves are one character
            json.dumps(found, ensure_ascii=False).encode()
        return found
    except (RecursionError, ValueError) as error:
        what = "it is nested too deeply" if isinstance(error, RecursionError) else cut(error, 80)
        raise _not_json(path, what) from None


def _not_json(path: Path, what: str) -> UserError:
    return UserError(f"{path} is not valid JSON ({what}); delete it and run the step that makes it again.")


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is not a JSON number")


def sha256(path: Path) -> str:
    """Hex digest of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Unpacking(io.RawIOBase):
    """What a file compressed by xz holds, as a stream, in little memory whatever the file asks for.

    most: bytes that it may hold. Reading raises lzma.LZMAError for more, for a damaged or incomplete file, and for one
    that needs more memory than `xz -9`.
    """

    MEMORY = 128 << 20
    CHUNK = 1 << 16

    def __init__(self, path: Path, most: int):
        self._file = path.open("rb")
        self._packed = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=self.MEMORY)
        self._left = most

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer) -> int:
        """As of every stream."""
        while not self._packed.eof:
            data = self._file.read(self.CHUNK) if self._packed.needs_input else b""
            if self._packed.needs_input and not data:
                raise lzma.LZMAError("it is incomplete")
            if found := self._packed.decompress(data, len(buffer)):
                self._left -= len(found)
                if self._left < 0:
                    raise lzma.LZMAError("it holds more than it may")
                buffer[: len(found)] = found
                return len(found)
        if self._packed.unused_data or self._file.read(1):
            raise lzma.LZMAError("something follows its end")
        return 0

    def close(self) -> None:
        """Closes the file."""
        self._file.close()
        super().close()


SUMS = "files.sha256"  # digests of the other files of a folder


def write_sums(path: Path, files: Iterable[Path]) -> None:
    """Writes the digests of files in the folder of `path`, as `sha256sum --check` reads them. Raises UserError."""
    write_text(path, "".join(f"{sha256(file)}  {file.name}\n" for file in sorted(files)))


def read_sums(path: Path) -> dict[str, str]:
    """File name -> digest, as written by `write_sums` or `sha256sum`; empty if unreadable."""
    try:
        pairs = [line.partition("  ") for line in path.read_text().splitlines()]
    except (OSError, ValueError):
        return {}
    return {name: digest for digest, _, name in pairs}


def changed(sums: Path, *needed: str) -> Path | None:
    """The first file next to `sums` that differs from its digest there; `sums` itself if it has no digests.

    needed: names of files that must be noted.
    """
    noted = read_sums(sums)
    for name in {**noted, **dict.fromkeys(needed)} if noted else ():
        file = sums.parent / name
        if not file.is_file() or sha256(file) != noted.get(name):
            return file
    return None if noted else sums


def intact(path: Path, digest: str) -> bool:
    """Whether a file of the cache exists and has this SHA-256; a damaged one is named and removed.

    The file is read the first time and after every change of its inode, size or times; the result is noted beside it.
    So a trial need not read hundreds of megabytes, and damage is still found.
    """
    note = path.with_name(f"{path.name}.checked")
    try:
        state = path.stat()
        found = [digest, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns]
        with contextlib.suppress(OSError, ValueError):
            if json.loads(note.read_text()) == found:
                return True
        if sha256(path) == digest:
            with contextlib.suppress(UserError):  # the cache may be read-only
                write_text(note, json.dumps(found))
            return True
        path.unlink()
        print(f"reprofs: {path} was damaged and is made again", file=sys.stderr, flush=True)
    except OSError:
        pass
    return False


def whole(path: Path) -> bool:
    """Whether a file of the cache is complete: its digest (.sha256 next to it) is written last."""
    try:
        return intact(path, path.with_suffix(".sha256").read_text())
    except OSError:
        return False


PIECE = 3072  # bytes of a path that one call takes, with room for a name


def open_folder(path: str) -> int:
    """A descriptor of a folder, opened piece by piece: its path may be longer than a call takes (PATH_MAX).

    The path is absolute and no part of it is a link. Raises OSError.
    """
    rest, found = os.fsencode(path), -1
    try:
        while rest or found < 0:
            end = rest.rindex(b"/", 0, PIECE) if len(rest) > PIECE else len(rest)
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            inner = os.open(rest[:end], flags, dir_fd=found if found >= 0 else None)
            found, outer, rest = inner, found, rest[end + 1 :]
            if outer >= 0:
                os.close(outer)
    except OSError:
        if found >= 0:
            os.close(found)
        raise
    return found


def tar(files: Iterable[tuple[str, bytes]], mode: int = 0o644) -> bytes:
    """An archive of files, each with its name: the same bytes wherever and whenever it is made."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in files:
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            archive.addfile(entry, io.BytesIO(content))
    return made.getvalue()


def dictionary(tables: dict[str, str]) -> list[dict]:
    """The data dictionary of tables described as text, one line `column | type | unit | meaning` per column.

    One row per column, with the keys table, column, type, unit, meaning.
    """
    keys = ("table", "column", "type", "unit", "meaning")
    return [
        dict(zip(keys, [table, *map(str.strip, line.split("|"))], strict=True))
        for table, text in tables.items()
        for line in text.strip().splitlines()
        if line
    ]


def cache_folder() -> Path:
    """Where images, snapshots and the engine are kept: $REPROFS_CACHE, or reprofs in the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("REPROFS_CACHE") or Path(base) / "reprofs").absolute()
