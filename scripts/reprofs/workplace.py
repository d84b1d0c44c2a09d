"""Private work folders on this machine, and processes that end with their parent: nothing else makes such."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import multiprocessing
import os
import resource
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from reprofs import cleanup
from reprofs.errors import UserError

_LIBC = ctypes.CDLL(None)  # loaded before any fork: a forked child should not load libraries
_PR_SET_PDEATHSIG = 1
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # source: renameat2(2)
ROOM = 8 << 20  # bytes that the files of a trial need at least, without its disks
LARGEST = 1 << 30  # bytes of the largest file of a usual trial: a saved guest, or a disk


@contextlib.contextmanager
def workplace(base: Path | None = None) -> Iterator[Path]:
    """A private folder for a trial, in `base` (default: the temporary folder), removed at the end of the context.

    It is held by a lock; a folder whose lock nobody holds was left by a killed run. What killed runs left, in any base,
    is removed first. Raises UserError when the folder cannot be made, and where files may not be as large as a trial's.
    """
    _check_limit()
    with _held(base) as place:
        yield place


@contextlib.contextmanager
def scratch(base: Path | None = None) -> Iterator[Path]:
    """As `workplace`, for anything else than a trial: an empty folder in such a place."""
    with _held(base) as place:
        (place / "scratch").mkdir()
        with _named(place.parent):
            yield place / "scratch"


@contextlib.contextmanager
def beside(folder: Path) -> Iterator[Path]:
    """An empty folder in `folder`, on its file system, which may be moved away; after a kill it is removed, too."""
    with _held() as place:
        made = folder / f".{place.name}"
        cleanup.note(place, folder=str(made.absolute()))
        made.mkdir()
        try:
            with _named(folder):
                yield made
        finally:
            shutil.rmtree(made, ignore_errors=True)


def put(made: Path, folder: Path) -> None:
    """Moves a folder of `beside` into the place of another, in one step: a kill leaves either whole."""
    if not folder.exists():
        made.rename(folder)
    elif _LIBC.renameat2(_AT_FDCWD, os.fsencode(made), _AT_FDCWD, os.fsencode(folder), _RENAME_EXCHANGE):
        shutil.rmtree(folder)  # a file system that cannot exchange two names
        made.rename(folder)


def run(work: Path, words: Sequence[object], **options: Any) -> subprocess.CompletedProcess:
    """As subprocess.run, for a child that may run long. It ends with this process; what it started in turn has the
    mark of `work`, a folder of `scratch`, by which the clean-up ends it.
    """
    environment = {**(options.pop("env", None) or os.environ), "REPROFS_PLACE": str(work.parent)}
    try:
        return subprocess.run([*map(str, words)], env=environment, preexec_fn=end_with_parent, **options)
    except PermissionError:
        if os.statvfs(work).f_flag & os.ST_NOEXEC:
            raise UserError(
                f"{work.parent.parent} is mounted noexec, but programs must run there: set TMPDIR to another folder."
            ) from None
        raise


@contextlib.contextmanager
def _named(folder: Path) -> Iterator[None]:
    """Says in errors of a full disk where that is; those of an open file do not."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise OSError(error.errno, error.strerror, str(folder)) from None
        raise


@contextlib.contextmanager
def _held(base: Path | None = None) -> Iterator[Path]:
    try:
        cleanup.sweep()
        base = base or Path(tempfile.gettempdir())
        base.mkdir(parents=True, exist_ok=True)
        if (free := shutil.disk_usage(base).free) < ROOM:
            raise OSError(0, f"it has {free >> 10:,} KiB free, and {ROOM >> 10:,} are needed")
        place = Path(tempfile.mkdtemp(prefix="reprofs-new-", dir=base))
    except OSError as error:
        where = base or "no folder for temporary files"
        raise UserError(
            f"{where} cannot be written: {error.strerror}; free space, or set TMPDIR and REPROFS_CACHE to other "
            "folders."
        ) from None
    try:
        with (place / "owner").open("w") as owner:
            fcntl.flock(owner, fcntl.LOCK_EX)
            print(os.getpid(), file=owner, flush=True)
            # It gets its final name only once it is locked, so that nobody takes it for a leftover.
            place = place.rename(base / place.name.replace("-new-", "-work-"))
            yield place
    finally:
        cleanup.remove(place)


def _check_limit() -> None:
    """Raises UserError when files may not be as large as those of a trial."""
    limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    if 0 <= limit < LARGEST:
        raise UserError(
            f"files may have {limit >> 10:,} KiB at most here (ulimit -f), but trials need {LARGEST >> 10:,}: "
            "run `ulimit -f unlimited`, or ask your administrator."
        )


def end_with_parent(number: int = signal.SIGKILL) -> None:
    """As preexec_fn: the child gets this signal when the thread that started it ends. Source: prctl(2)."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)


def die_with_parent() -> None:
    """End this process, and with it the guests it started, within half a second of its parent's end.

    The rules of the workflow `exec` their command, so the parent is the workflow engine itself. Call once, from the
    main thread of a command.
    """
    started = multiprocessing.parent_process()
    # A process of a pool imports for seconds before it comes here: its parent may have ended by then.
    parent = started.pid if started else os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.3)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
