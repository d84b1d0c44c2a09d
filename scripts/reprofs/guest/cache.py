"""The cache of guests: a folder is complete or absent, and two processes never make the same one."""

import contextlib
import fcntl
import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from reprofs.errors import UserError
from reprofs.files import intact, write_bytes

FREE_BYTES = 2_500_000_000  # the unpacked tree, the image made from it and the compiler exist at the same time


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file `path`: two processes never make the same thing at once. The lock ends with its process."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def kept(home: Path, make: Callable[[Path], dict], digests: Callable[[dict], dict[str, str]]) -> dict:
    """Description of the folder `home`; unless it is complete, `make` fills a new one and returns its description.

    The description has at least sizes {file: bytes}. digests: from it {file: SHA-256} of what is used of the folder.
    """
    note = f"{home.parent.name}.json"
    with locked(home.with_name(f"{home.name}.lock")):
        if not _complete(home, note, digests):
            partial = home.with_name(f"{home.name}.partial")
            shutil.rmtree(partial, ignore_errors=True)  # left by a killed build, since we hold the lock
            shutil.rmtree(home, ignore_errors=True)
            partial.mkdir()
            try:
                description = make(partial)
                sizes = {path.name: path.stat().st_size for path in sorted(partial.iterdir())}
                write_bytes(partial / note, json.dumps({**description, "sizes": sizes}, indent=1).encode())
                partial.rename(home)
            finally:
                shutil.rmtree(partial, ignore_errors=True)
    return json.loads((home / note).read_text())


def _complete(home: Path, note: str, digests: Callable[[dict], dict[str, str]]) -> bool:
    """Whether a cached folder is complete: its description is written last, and no file was damaged since."""
    try:
        known = json.loads((home / note).read_text())
        whole = all((home / name).stat().st_size == size for name, size in known["sizes"].items())
        return whole and all(intact(home / name, digest) for name, digest in digests(known).items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def digest_of(ingredients: Sequence[object], digits: int = 32) -> str:
    """A digest of these values, such as the name of a folder made from them."""
    return hashlib.sha256(json.dumps(ingredients).encode()).hexdigest()[:digits]


def put(home: Path, content: bytes, suffix: str) -> str:
    """Write a file that is named by its digest; returns the name."""
    name = hashlib.sha256(content).hexdigest() + suffix
    (home / name).write_bytes(content)
    return name


def check_space(cache: Path) -> None:
    """Raises UserError if a build would fill the cache's disk."""
    free = shutil.disk_usage(cache).free
    if free < FREE_BYTES:
        raise UserError(
            f"not enough disk space for the guest: {cache} has {free / 1000000000.0:.1f} GB free and needs "
            f"{FREE_BYTES / 1000000000.0:.1f} GB. Free some, or set REPROFS_CACHE to a larger folder."
        )


@contextlib.contextmanager
def writable(folder: Path) -> Iterator[None]:
    """Turns OSErrors about files in `folder` into UserErrors."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"cannot write to {error.filename or folder}: {error.strerror}; set REPROFS_CACHE to a writable "
            "folder with free space."
        ) from None
