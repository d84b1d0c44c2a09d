"""Laboratories: where a trial runs and whose clock it reads. One module here is one lab; its class is called `Lab`.

A lab takes a job (text, one line a step) to the load engine, lets it run, and brings back what the engine wrote:

    run(job: str, time_limit_s: float) -> Outcome
    device_steps(profile: dict, disks: int, size_mib: int) -> list[str]     job lines that make the block devices
    device_name(i: int) -> str                                              name of device i in /dev, counted from 0
"""

import contextlib
import ctypes
import fcntl
import importlib
import os
import pkgutil
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from reprofs.errors import UserError

_LIBC = ctypes.CDLL(None)  # loaded before any fork: a forked child should not load libraries
_PR_SET_PDEATHSIG = 1


@dataclass
class Outcome:
    """What came back from a lab.

    ending: "finished" (the engine wrote its last event), "panic" (the guest's kernel died), "timeout" (the host's time
      limit) or "lost" (it ended otherwise);
    output: what the engine wrote; console: what the kernel and the start-up wrote;
    environment: the `lab` part of the raw record; host_seconds: wall clock of the host.
    """

    ending: str
    output: bytes
    console: str
    environment: dict = field(default_factory=dict)
    host_seconds: float = 0.0


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
    text = {ord("\\"): "\\\\", ord("\t"): "\\t", ord("\n"): "\\n"}
    return "\t".join([verb, *(f"{key}={str(value).translate(text)}" for key, value in (*pairs, *values.items()))])


@contextlib.contextmanager
def workplace() -> Iterator[Path]:
    """A private temporary folder, held by a lock: one that nobody holds was left by a killed run, and is removed."""
    base = Path(tempfile.gettempdir())
    for left in base.glob("reprofs-work-*"):
        with contextlib.suppress(OSError), (left / "owner").open("r+") as owner:
            fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(left)
    place = Path(tempfile.mkdtemp(prefix="reprofs-new-", dir=base))
    try:
        with (place / "owner").open("w") as owner:
            fcntl.flock(owner, fcntl.LOCK_EX)
            # Under its real name only once it is locked: nobody may take it for a leftover.
            place = place.rename(base / place.name.replace("-new-", "-work-"))
            yield place
    finally:
        _remove(place)


def _remove(folder: Path) -> None:
    """Remove a folder, unless something is mounted in it: what is mounted there belongs to somebody else."""
    mounted = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    if not any(Path(point.replace("\\040", " ")).is_relative_to(folder) for point in mounted):
        shutil.rmtree(folder, ignore_errors=True)


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
