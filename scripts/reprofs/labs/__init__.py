"""Laboratories: where a trial runs and whose clock it reads. One module here is one lab; its class is called `Lab`.

A lab takes a job (text, one line a step) to the load engine, lets it run, and brings back what the engine wrote:

    name: str; clock: "instructions" or "wall"
    exclusive: bool     one trial at a time on this host: its clock is real
    in_guest: bool      it needs a guest (data/guest)
    provisions: bool    it makes the block devices of a trial
    seeds: bool         the engine may seed the kernel's random numbers
    open(guest: str = "base", path: str = "") -> Lab         raises UserError
    obstacle(packages, commands, modules, profile) -> str    why it cannot run a trial that needs these, or nothing
    disks_zeroed(profile: dict) -> bool                      whether its disks read as zeros at first
    device_steps(profile: dict, disks: int, size_mib: int) -> list[str]     job lines that make the block devices
    device_path(i: int, profile: dict) -> str                where device i is, counted from 0
    run(job: str, time_limit_s: float, disks: Disks) -> Outcome             raises UserError, Obstacle
    environment(start: str) -> dict                          the `lab` part of the raw record
"""

import contextlib
import ctypes
import fcntl
import importlib
import os
import pkgutil
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from reprofs import cleanup
from reprofs.errors import UserError

_LIBC = ctypes.CDLL(None)  # loaded before any fork: a forked child should not load libraries
_PR_SET_PDEATHSIG = 1


@dataclass
class Outcome:
    """What came back from a lab.

    ending: "finished" (the engine wrote its last event), "panic" (the guest's kernel died), "timeout" (the host's time
      limit), "killed" (its process on the host was ended from outside) or "lost" (it ended otherwise);
    output: what the engine wrote; console: what the kernel and the start-up wrote;
    environment: the `lab` part of the raw record; host_seconds: wall clock of the host.
    """

    ending: str
    output: bytes
    console: str
    environment: dict = field(default_factory=dict)
    host_seconds: float = 0.0


@dataclass
class Disks:
    """The block devices of a trial: their profile (workflow/devices), how many (0: none) and the size of each."""

    profile: dict = field(default_factory=dict)
    count: int = 0
    size_mib: int = 0


class Obstacle(UserError):
    """Raised by a lab's `run` before the job starts: this trial cannot run here and is skipped, with this sentence."""


def get_lab(name: str) -> type:
    """The class of the lab called `name`. Raises UserError, listing the known ones."""
    known = sorted(module.name for module in pkgutil.iter_modules(__path__))
    if name not in known:
        raise UserError(f"there is no lab {name!r}; known labs are {', '.join(known)}")
    return importlib.import_module(f"{__name__}.{name}").Lab


def job_line(verb: str, *pairs: tuple[str, object], **values: object) -> str:
    """One step of a job: verb<TAB>key=value..., with tab, line feed and backslash escaped by a backslash.

    A key may come more than once in `pairs`.
    """
    return "\t".join([verb, *(f"{key}={job_text(value)}" for key, value in (*pairs, *values.items()))])


def job_text(value: object) -> str:
    """A value as it stands in a job."""
    return str(value).translate({ord("\\"): "\\\\", ord("\t"): "\\t", ord("\n"): "\\n"})


@contextlib.contextmanager
def workplace(base: Path | None = None) -> Iterator[Path]:
    """A private folder in `base` (the temporary folder), held by a lock: one that nobody holds is of a killed run.

    What killed runs left, anywhere, is removed first. Raises UserError when the folder cannot be made.
    """
    cleanup.sweep()
    base = base or Path(tempfile.gettempdir())
    try:
        base.mkdir(parents=True, exist_ok=True)
        place = Path(tempfile.mkdtemp(prefix="reprofs-new-", dir=base))
    except OSError as error:
        raise UserError(
            f"{base} cannot be written: {error.strerror}; set TMPDIR and REPROFS_CACHE to others."
        ) from None
    try:
        with (place / "owner").open("w") as owner:
            fcntl.flock(owner, fcntl.LOCK_EX)
            print(os.getpid(), file=owner, flush=True)
            # Under its real name only once it is locked: nobody may take it for a leftover.
            place = place.rename(base / place.name.replace("-new-", "-work-"))
            yield place
    finally:
        cleanup.remove(place)


@contextlib.contextmanager
def alone(lab) -> Iterator[float]:
    """For a lab with a real clock: no other such trial runs on this host meanwhile. Gives the seconds waited for that.

    A lock of the kernel, which goes with its process, on a file that every user of the host can open.
    """
    began = time.monotonic()
    if not lab.exclusive:
        yield 0.0
        return
    path = next(Path(base) for base in ("/run/lock", "/tmp") if os.access(base, os.W_OK)) / "reprofs.lock"
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CREAT, 0o644)
    except PermissionError:  # in a folder of everybody's the kernel lets nobody create a file that is another's
        handle = os.open(path, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("reprofs: waiting: another trial with a real clock runs on this host", file=sys.stderr, flush=True)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield time.monotonic() - began
    finally:
        os.close(handle)


def disk_files(place: Path, disks: Disks) -> list[Path]:
    """Makes the disks of a trial as sparse files in its folder. Raises Obstacle when they could outgrow the room."""
    room = shutil.disk_usage(place).free
    if room < disks.count * disks.size_mib << 20:
        hint = "choose the profile file" if place.is_relative_to(cleanup.MEMORY) else "set REPROFS_CACHE"
        raise Obstacle(
            f"{disks.count} disks of {disks.size_mib} MiB do not fit into {place.parent}, which has {room >> 20} MiB "
            f"free: free some, {hint}, or use a smaller scale."
        )
    paths = [place / f"disk{i}" for i in range(disks.count)]
    for path in paths:
        with path.open("wb") as file:
            file.truncate(disks.size_mib << 20)
    return paths


def end_with_parent(number: int = signal.SIGKILL) -> None:
    """For a new child process (preexec_fn): get this signal when the thread that started it ends, however it ends."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)


def die_with_parent() -> None:
    """End this process, and with it the guests it started, within half a second of its parent's end.

    The rules of the workflow `exec` their command, so the parent is the workflow engine itself. Call once, from the
    main thread of a command.
    """
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.3)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
