"""What all labs share: the abstract class, what a lab returns, and the lock for trials on a real clock."""

from __future__ import annotations

import abc
import contextlib
import fcntl
import os
import re
import shutil
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from reprofs import cleanup
from reprofs.errors import UserError
from reprofs.guest.steps import Job, Step
from reprofs.plan.device import Device, Plain
from reprofs.plan.kernel import Kernel
from reprofs.plan.processor import Processor

if TYPE_CHECKING:  # a trial does not wait for the models of plans
    from reprofs.plan.plan import LabFacts

MEMORY = Plain(title="In memory")


# What a kernel of a virtual clock says of a thread that kept the processor for 40 s and more (kernel/rcu/tree_stall.h).
HANGS = re.compile(r"rcu_\w+ kthread starved for \d{5,} jiffies")

# At the processors of a guest that has reached its time limit. Where a worn drive is modelled, the kernel has them
# disabled most of the time, so ten looks would be too few.
LOOKS, BETWEEN_S = 100, 0.01
INTERRUPTS, FLAGS = 0x200, re.compile(r"RFL=([0-9a-f]{8})")  # of each processor, as QEMU's monitor shows registers


def is_stuck(looks: Iterable[str]) -> bool:
    """Whether a processor has interrupts disabled in each look. A kernel that works does so for microseconds.

    No look is taken after each processor was seen to have them.
    """
    stuck: list[bool] = []
    for number, look in enumerate(looks):
        off = [not int(found, 16) & INTERRUPTS for found in FLAGS.findall(look)]
        stuck = [before and now for before, now in zip(stuck, off, strict=False)] if number else off
        if not any(stuck):
            return False
    return any(stuck)


# Why a kernel ended, the best first; after these it says where it lay in memory.
CAUSES = [re.compile(text) for text in (r"Kernel panic - not syncing", r"\b(?:BUG|Oops)\b")]


def cause(console: str) -> list[str]:
    """The line of a console that says why the kernel ended, else its last line; none where there is nothing."""
    lines = console.strip().splitlines()
    found = (line for why in CAUSES for line in lines if why.search(line))
    return [first] if (first := next(found, "")) else lines[-1:]


@dataclass
class Outcome:
    """What a lab returns.

    ending: "finished" (the engine wrote its last event), "panic" (the guest's kernel died), "hang" (it says `HANGS`),
      "timeout" (the host's time limit), "killed" (its process on the host was ended from outside) or "lost" (it ended
      otherwise);
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
    """The block devices of a trial: their profile (workflow/devices), number (0: none), and size of each in MiB.

    last: the profile of the last one, where that is another; holds_mib: of each, about the most that is written to it,
    where it is not all.
    """

    profile: Device = MEMORY
    count: int = 0
    size_mib: int = 0
    last: Device | None = None
    holds_mib: int | None = None

    @property
    def profiles(self) -> list[Device]:
        """The device model of each disk."""
        return [self.profile] * (self.count - 1) + [self.last or self.profile] if self.count else []

    @property
    def sizes_mib(self) -> list[int]:
        """Of each disk; a last one has its own profile's, if that says it."""
        own = self.last.disk_mib if self.last else None
        return [self.size_mib] * (self.count - 1) + [own or self.size_mib] if self.count else []


class Obstacle(UserError):
    """Raised by a lab's `run` before the job starts: the trial is skipped, and the sentence says why it cannot run."""


@dataclass(frozen=True)
class Asked:
    """The arguments to open a lab.

    guest: its name; path: the directory in which the lab mount works; processor: if the lab models one, None is the
    default; kernel: in the place of the guest's own.
    """

    guest: str = "base"
    path: str = ""
    processor: Processor | None = None
    kernel: Kernel | None = None


class Lab(abc.ABC):
    """A laboratory: it hands a job to the load engine, lets it run, and returns what the engine wrote.

    name: as in studies; clock: what its clock counts, "instructions" or "wall"; clock_text: the same for a report;
    meaning: how to read its times, in sentences for a report; exact: the same job always gives the same bytes;
    exclusive: one trial at a time on this host, because its clock is real; in_guest: it needs a guest (data/guest);
    provisions: it makes the block devices of a trial; models: disks may be modelled ones, whose power can be cut;
    models_processor: its processor is one of workflow/processors, which follows its name after @;
    as_root: what a study's files say runs on this machine as root; seeds: the engine may seed the kernel's random
    numbers; data_bytes: room for content, None without a limit.
    """

    name: ClassVar[str]
    clock: ClassVar[str]
    clock_text: ClassVar[str]
    meaning: ClassVar[str]
    exact: ClassVar[bool] = False
    exclusive: ClassVar[bool]
    in_guest: ClassVar[bool]
    provisions: ClassVar[bool]
    models: ClassVar[bool] = False
    models_processor: ClassVar[bool] = False
    as_root: ClassVar[bool] = False
    seeds: ClassVar[bool]
    data_bytes: int | None = None

    @classmethod
    def facts(cls, processor: Processor | None = None) -> LabFacts:
        """Facts about the lab that readers of its records need; stored in the plan. processor: if the lab models
        one."""
        from reprofs.plan.plan import LabFacts

        return LabFacts(
            **{
                name: getattr(cls, name)
                for name in LabFacts.model_fields
                if name not in ("processor", "kernel", "memory_mib")
            }
        )

    @staticmethod
    def processor_steps(processor: Processor) -> list[Step]:
        """Steps that fail unless the processor is this one and its clock runs at the right rate."""
        return []

    @staticmethod
    def pause_steps() -> list[Step]:
        """The step at which the lab may save what a trial has made, for others that begin alike; none if it cannot."""
        return []

    @staticmethod
    def program_steps() -> list[Step]:
        """Steps that bring the programs of the engine that a job needs to where they run; none if they are there."""
        return []

    @classmethod
    def open(cls, **asked: Any) -> Self:
        """The lab of this checkout, by what an `Asked` has. Raises UserError when something it needs is missing."""
        return cls._opened(Asked(**asked))

    @classmethod
    @abc.abstractmethod
    def _opened(cls, asked: Asked) -> Self: ...

    def load(self, job: Job) -> None:  # noqa: B027
        """Prepares the programs and recordings of a job. Raises UserError."""

    @abc.abstractmethod
    def obstacle(self, packages: list[str], commands: list[str], modules: list[str], profile: Device) -> str:
        """Why it cannot run a trial that needs these (one sentence), or an empty string."""

    def limits_no_memory(self) -> str:
        """Why it cannot limit the memory of a trial (one sentence), or an empty string."""
        return ""

    @classmethod
    def unsuited(cls, profile: Device) -> str:
        """Why it can never have devices of this profile (one sentence), on any machine; empty if it can."""
        return ""

    @classmethod
    def refusal(cls, profile: Device, disks: int) -> str:
        """Why this machine cannot run any trial of a study in it (one sentence); empty if it can.

        profile: the one whose disks are most in number; disks: that number, 0 if they are made by the lab.
        """
        return ""

    @classmethod
    def first_commands(cls, disks: Disks, path: str, hosts: bool) -> list[str]:
        """Commands before the job, for display.

        path: the directory, of the lab mount; hosts: whether the file system has some.
        """
        return [": what follows runs in a guest; nothing of it touches this machine"]

    @classmethod
    def last_commands(cls, disks: Disks) -> list[str]:
        """Commands after the job, for display."""
        return []

    def real_sizes(self, disks: Disks) -> list[int]:
        """Bytes of each real disk that a trial with these disks would get; empty if the lab makes its disks."""
        return []

    def room(self, sizes: list[int], share: float) -> int | None:
        """Bytes that a file system has; None if it has what the trial asks for.

        sizes: of real disks; share: how many disks' worth of data the stack holds.
        """
        return int(min(sizes) * share) if sizes else None

    @classmethod
    @abc.abstractmethod
    def disks_zeroed(cls, profile: Device) -> bool:
        """Whether its disks of this profile read as zeros before a trial writes to them."""

    @staticmethod
    @abc.abstractmethod
    def device_steps(disks: Disks) -> list[Step]:
        """Steps that make the block devices."""

    @staticmethod
    @abc.abstractmethod
    def device_paths(disks: Disks) -> list[str]:
        """The path of each device."""

    @abc.abstractmethod
    def run(self, job: Job, time_limit_s: float, disks: Disks | None = None) -> Outcome:
        """Give the engine this job and wait until it ends, at most `time_limit_s` seconds of the host's time.

        Raises UserError when it cannot start, Obstacle when this trial cannot run here; everything later is an Outcome.
        """

    @abc.abstractmethod
    def environment(self, start: str) -> dict:
        """The `lab` part of the raw record. start: how its kernel was started."""


@contextlib.contextmanager
def alone(lab: Lab) -> Iterator[float]:
    """For a lab with a real clock: no other such trial runs on this host meanwhile. Yields the seconds waited.

    The lock ends with its process and is on a file that every user of the host can open. Source: flock(2).
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
    """Makes the disks of a trial as sparse files in its folder. Raises Obstacle where what they hold has no room."""
    room = shutil.disk_usage(place).free
    holds = disks.size_mib if disks.holds_mib is None else min(disks.holds_mib, disks.size_mib)
    if room < disks.count * holds << 20:
        hint = "choose the device model file" if place.is_relative_to(cleanup.MEMORY) else "set REPROFS_CACHE"
        raise Obstacle(
            f"{disks.count} disks that hold up to {holds} MiB do not fit into {place.parent}, which has "
            f"{room >> 20} MiB free: free some, {hint}, or use a smaller scale."
        )
    paths = [place / f"disk{i}" for i in range(disks.count)]
    for path in paths:
        with path.open("wb") as file:
            file.truncate(disks.size_mib << 20)
    return paths
