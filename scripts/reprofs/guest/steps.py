"""The job language of the load engine: a job is a list of steps, which a lab turns into text for the engine.

The fields of a step are its keys, in the order in which the engine gets them: a list stands for a key once per item,
None for a key that is left out.
"""

from __future__ import annotations

import dataclasses
import itertools
from dataclasses import dataclass, field
from typing import Any

from reprofs.guest.shell import script
from reprofs.plan.command import engine_calls

REPLAYS = ("replay", "replay-threads", "replay-listed")  # the engine's programs that take recordings
IMAGE_OPTION = "--image"  # in a command: an image follows, by its digest, which comes in with the job's programs
IMAGE_AT = 64 << 20  # where in their memory module it begins
PROGRAMS = "/run/programs"  # where a guest has what a job brings
CLIENT = "{client}"  # the number of a client, three digits, in the jobs and commands of several
_ESCAPED = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n"})


def job_text(value: object) -> str:
    """A value as written in a job: tab, line feed and backslash escaped by a backslash."""
    text = str(value)
    # A plan has a million values, and few need this.
    return text.translate(_ESCAPED) if "\\" in text or "\t" in text or "\n" in text else text


def job_line(verb: str, *pairs: tuple[str, object], **values: object) -> str:
    """One step of a job: verb<TAB>key=value..., with tab, line feed and backslash escaped by a backslash.

    A key may come more than once in `pairs`.
    """
    return "\t".join([verb, *(f"{key}={job_text(value)}" for key, value in (*pairs, *values.items()))])


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step; its verb is the name of its class in lower case."""

    def line(self) -> str:
        """The step as the engine reads it, without a line feed."""
        words = [type(self).__name__.lower()]
        for key, value in self.values().items():
            if isinstance(value, list):
                words += [f"{key}={job_text(item)}" for item in value if item is not None]
            elif value is not None:
                words.append(f"{key}={job_text(value)}")
        return "\t".join(words)

    def values(self) -> dict[str, Any]:
        """Its fields by name."""
        return vars(self)


@dataclass(frozen=True, kw_only=True)
class Seed(Step):
    """Seeds the kernel's random numbers with `value`."""

    value: int


@dataclass(frozen=True, kw_only=True)
class Processor(Step):
    """Fails unless the exact lab's processor is the one asked for and its clock and timer run at the right rate.

    flag: features as /proc/cpuinfo names them; divider: what the local APIC's register for the divider must contain.
    """

    instructions_per_ns: int
    divider: int
    flag: list[str]


@dataclass(frozen=True, kw_only=True)
class Offset(Step):
    """Waits for a time that follows from the seed, below within_ns: another place between ticks and timers."""

    seed: int
    within_ns: int


@dataclass(frozen=True, kw_only=True)
class Rest(Step):
    """Waits, so that the kernel does what it has put off."""

    ns: int


class Clock(Step):
    """Measures what one reading of the clock costs."""


@dataclass(frozen=True, kw_only=True)
class Exec(Step):
    """Runs a command outside the measured phases, `arg`, which must exit with 0 within `limit_s` seconds.

    env: environment variables, NAME=value; match: extended regular expressions that its output must match; if_mounted:
    it is run only if something is mounted there; tail: bytes of its output that are kept.
    """

    stage: str
    limit_s: int | None = None
    match: list[str] = field(default_factory=list)
    cwd: str | None = None
    env: list[str] = field(default_factory=list)
    if_mounted: str | None = None
    tail: int | None = None
    arg: list[str]


@dataclass(frozen=True, kw_only=True)
class Module(Step):
    """Loads a kernel module."""

    name: str
    limit_s: int | None = None

    def line(self) -> str:
        """For the engine it is a command like any other."""
        return Exec(stage="module", limit_s=self.limit_s, arg=["modprobe", self.name]).line()


@dataclass(frozen=True, kw_only=True)
class Insmod(Step):
    """Loads a kernel module of ours that came with the programs, NAME.ko. option: NAME=VALUE."""

    name: str
    option: list[str]

    def line(self) -> str:
        """For the engine it is a command like any other."""
        return Exec(stage="module", arg=["insmod", f"{PROGRAMS}/{self.name}.ko", *self.option]).line()


@dataclass(frozen=True, kw_only=True)
class Barrier(Step):
    """Waits until the clients on all machines are here, and says when it went on. host: of each client."""

    host: list[str]

    def line(self) -> str:
        """For the engine it is a command like any other; descriptors 8 and 9 lead to who opens the barrier."""
        return Exec(stage="barrier", limit_s=86400, arg=["sh", "-ec", script("barrier"), "sh", *self.host]).line()


@dataclass(frozen=True, kw_only=True)
class Await(Step):
    """Waits until the file `path` says idle, at most `limit_s` seconds."""

    path: str
    limit_s: int


@dataclass(frozen=True, kw_only=True)
class Watch(Step):
    """Makes the following phases record whether the file `path` says idle."""

    path: str


@dataclass(frozen=True, kw_only=True)
class Devices(Step):
    """The block devices whose counters are read; flash=1: with the wear of modelled disks."""

    path: list[str]
    flash: int | None = None


@dataclass(frozen=True, kw_only=True)
class Wear(Step):
    """Tells the wear of the flash since the disks were made."""


@dataclass(frozen=True, kw_only=True)
class Mkdir(Step):
    """Makes a folder."""

    path: str


@dataclass(frozen=True, kw_only=True)
class Write(Step):
    """Writes a text to a file."""

    path: str
    text: object


@dataclass(frozen=True, kw_only=True)
class Mounted(Step):
    """Fails unless what is mounted at `path` (within=1: or above it) has this type and these options."""

    path: str
    type: str | None = None
    within: int | None = None
    expect: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Evict(Step):
    """Drops the pages of the files below `root` from memory."""

    root: str


class Drop(Step):
    """Drops all clean caches of the kernel."""


@dataclass(frozen=True, kw_only=True)
class Tree(Step):
    """The tree that the engine's operations work on. size_median and size_max are in bytes."""

    root: str
    seed: int
    clients: int | None = None
    files: int
    directories: int
    fan_out: int
    size_median: float
    size_sigma: float
    size_max: int


@dataclass(frozen=True, kw_only=True)
class Verify(Step):
    """Checks that the content of the tree, or of a copy, is what was written; count=1: what is left is only counted."""

    name: str
    root: str
    count: int | None = None


@dataclass(frozen=True, kw_only=True)
class Pin(Step):
    """Keeps a program in memory while caches are dropped."""

    tool: str


class Settle(Step):
    """Waits until the devices are idle."""


@dataclass(frozen=True, kw_only=True)
class Phase(Step):
    """One phase: an operation of the engine on the tree, or `operation` exec with a command.

    sync: the file systems that are synced at its end; unmeasured=1: no statistic includes it; power: files that cut the
    power of the devices, after cut_ms milliseconds or at the end; space: the file system of which is told
    what is in use; tail: bytes of the command's output that are kept.
    """

    name: str
    cache: str
    sync: list[str]
    unmeasured: int | None = None
    clients: int | None = None
    power: list[str] = field(default_factory=list)
    cut_ms: int | None = None
    space: str | None = None
    run: int | None = None
    tail: int | None = None
    operation: str
    order: str | None = None
    items: int | None = None
    cwd: str | None = None
    limit_s: int | None = None
    env: list[str] = field(default_factory=list)
    arg: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Restore(Step):
    """Gives the devices power again, with what was on their media."""

    power: list[str]


@dataclass(frozen=True, kw_only=True)
class Pause(Step):
    """Stops the machine, whose state may be saved; when it goes on, the rest of the job is read anew.

    source: folder of the kernel's with `.size/raw`, the bytes of the job up to here and in all, and `.job/raw`.
    """

    source: str


class Teardown(Step):
    """The steps after this one are carried out even after a failure."""


def _text(steps: list[Step]) -> str:
    return "".join(f"{step.line()}\n" for step in steps)


@dataclass
class Job:
    """What a lab is to do: the steps, and what they make that may exist already on a machine.

    mountpoint: the path of the folder under test in the steps; makes: paths in /dev; taken: commands that succeed when
    another name that the job will make is in use; clients: the machine of each client, where each runs this job and
    needs the commands `tools`; engine_alone: see `trial.setup.Setup`.
    """

    steps: list[Step]
    mountpoint: str = ""
    makes: list[str] = field(default_factory=list)
    taken: list[list[str]] = field(default_factory=list)
    clients: list[str] = field(default_factory=list)
    tools: list[str] = field(default_factory=list)
    engine_alone: bool = False

    def text(self) -> str:
        """The job as the engine reads it."""
        return _text(self.steps)

    def programs(self) -> list[str]:
        """The engine's programs that its commands run. Raises ValueError for a script with unbalanced quotes."""
        return sorted({call[0] for call in self._calls() if call} - {"run"})

    def modules(self) -> list[str]:
        """Our kernel modules that it brings."""
        return sorted({step.name for step in self.steps if isinstance(step, Insmod)})

    def recordings(self) -> list[str]:
        """NAME-DIGEST of the recordings that its commands replay."""
        replays = [call for call in self._calls() if call and call[0] in REPLAYS and "--recording" in call[:-1]]
        return sorted({call[call.index("--recording") + 1] for call in replays})

    def images(self) -> list[str]:
        """SHA-256 of the images that its commands mount, each after the word --image."""
        words = (step.values().get("arg", []) for step in self.steps)
        return sorted({after for each in words for word, after in itertools.pairwise(each) if word == IMAGE_OPTION})

    def _calls(self) -> list[list[str]]:
        return [call for step in self.steps for call in engine_calls(step.values().get("arg", []))]

    def beginning(self) -> Job:
        """Its steps to the step Pause and with it; none without one."""
        pauses = [number for number, step in enumerate(self.steps) if isinstance(step, Pause)]
        return Job(self.steps[: pauses[0] + 1] if pauses else [])

    def setup(self) -> str:
        """The text of that beginning; empty without one."""
        return self.beginning().text()

    def at(self, folder: str) -> Job:
        """The same job with another folder under test; a job without one is unchanged."""
        if not self.mountpoint:
            return self

        def moved(value: Any) -> Any:
            if isinstance(value, list):
                return [moved(item) for item in value]
            return value.replace(self.mountpoint, folder) if isinstance(value, str) else value

        steps = [
            dataclasses.replace(step, **{key: moved(value) for key, value in step.values().items()})
            for step in self.steps
        ]
        return dataclasses.replace(self, steps=steps, mountpoint=folder)
