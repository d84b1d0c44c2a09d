"""Files: written atomically, read with clear errors, checked by digest."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from pathlib import Path

from reprofs.errors import UserError


def write_bytes(path: Path, data: bytes) -> None:
    """Writes a temporary file beside `path`, then renames it. A file with the same content keeps its time.

    What is no file (a link, a pipe, /dev/null) is written to and stays what it is.

    Raises UserError when the folder cannot be written or is full.
    """
    try:
        if path.is_symlink() or (path.exists() and not path.is_file() and not path.is_dir()):
            path.write_bytes(data)
            return
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
    """Raises UserError if `path` cannot be written; called before the work whose result is written there."""
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
    """The content of a JSON file that an earlier step wrote. Raises UserError if it is missing or not valid JSON."""
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
    """Whether a file of the cache exists and has this SHA-256; a file with another is removed, to be made again.

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
    except OSError:
        pass
    return False


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
