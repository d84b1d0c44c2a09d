"""Writing files so that nothing half-written is ever seen."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from pathlib import Path

from reprofs.errors import UserError


def write_bytes(path: Path, data: bytes) -> None:
    """Writes a temporary file beside `path`, then renames it. An equal file is left alone, with its time.

    Raises UserError when the folder cannot be written or is full.
    """
    try:
        if path.exists() and path.read_bytes() == data:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
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
        raise UserError(f"{path} cannot be written: {error.strerror}; free space or choose another folder.") from None


def check_writable(path: Path) -> None:
    """Raises UserError when `path` could not be written: before the work whose result is to be there, not after it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}."):
            pass
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}; free space or choose another folder.") from None


def write_text(path: Path, text: str) -> None:
    """Like write_bytes, for text in UTF-8."""
    write_bytes(path, text.encode())


def read_json(path: Path) -> dict:
    """The content of a file that an earlier step wrote. Raises UserError when it is not there or is no JSON."""
    try:
        return json.loads(path.read_text())
    except OSError as error:
        raise UserError(f"Cannot read {path}: {error.strerror}; make it with the step before this one.") from None
    except (RecursionError, ValueError) as error:
        what = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)[:200]
        raise UserError(f"{path} is not valid JSON ({what}); delete it and run the step that makes it again.") from None


def sha256(path: Path) -> str:
    """Hex digest of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def intact(path: Path, digest: str) -> bool:
    """Whether a file of the cache is there and has this SHA-256; one that has another is removed, to be made again.

    It is read when it was not read before, and after every change of its inode, size or times: what was found is noted
    beside it. So a trial does not read hundreds of megabytes, and a damaged file is not used for ever.
    """
    note = path.with_name(f"{path.name}.checked")
    try:
        state = path.stat()
        found = [digest, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns]
        with contextlib.suppress(OSError, ValueError):
            if json.loads(note.read_text()) == found:
                return True
        if sha256(path) == digest:
            with contextlib.suppress(UserError):  # a cache that may only be read
                write_text(note, json.dumps(found))
            return True
        path.unlink()
    except OSError:
        pass
    return False


def dictionary(tables: dict[str, str]) -> list[dict]:
    """The data dictionary of tables that are described as text, `column | type | unit | meaning` a line.

    One row a column, with the keys table, column, type, unit, meaning.
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
