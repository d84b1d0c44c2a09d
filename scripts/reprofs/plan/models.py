"""What a descriptor may contain: one model per kind of file. The JSON Schemas in workflow/schemas are made from them.

The upper limits are far beyond real hardware, but low enough that a slip (1e25, a size in bytes in place of MiB) is
found before a trial and that no sum of such values overflows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    PlainValidator,
    Tag,
    TypeAdapter,
    WithJsonSchema,
    model_validator,
)
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import PydanticCustomError, core_schema

from reprofs.errors import short
from reprofs.files import write_text
from reprofs.plan import NETWORK, PROCESSOR
from reprofs.project import project_root

GENERATED = "# Made by `reprofs schemas` from scripts/reprofs/plan/models.py.\n"


@dataclass(frozen=True)
class Within:
    """A number from `low` (excluded if `above`) to `high`; integers stay integers, floats stay floats."""

    low: float
    high: float
    above: bool = False

    def check(self, value: Any) -> int | float:
        """The value. Raises the errors of Pydantic's own number types."""
        if type(value) not in (int, float):
            raise PydanticCustomError("number_type", "no number")
        if value < self.low or (self.above and value == self.low):
            name = "gt" if self.above else "ge"
            raise PydanticCustomError("greater_than" if self.above else "greater_than_equal", "low", {name: self.low})
        if value > self.high:
            raise PydanticCustomError("less_than_equal", "high", {"le": self.high})
        return value

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(self.check)

    def __get_pydantic_json_schema__(self, made: Any, handler: Any) -> JsonSchemaValue:
        least = "exclusiveMinimum" if self.above else "minimum"
        return {"type": "number", least: self.low, "maximum": self.high}


@dataclass(frozen=True)
class OneOf:
    """One of a few numbers; integers stay integers, floats stay floats."""

    numbers: tuple[float, ...]

    def check(self, value: Any) -> int | float:
        """The value. Raises PydanticCustomError, whose text becomes the sentence."""
        if type(value) not in (int, float) or value not in self.numbers:
            raise _wrong(f"must be {', '.join(f'{number:g}' for number in self.numbers[:-1])} or {self.numbers[-1]:g}")
        return value

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(self.check)

    def __get_pydantic_json_schema__(self, made: Any, handler: Any) -> JsonSchemaValue:
        return {"enum": list(self.numbers)}


def _parameter(value: Any) -> int | float | str:
    if type(value) not in (int, float, str):
        raise PydanticCustomError("parameter_type", "neither number nor text")
    return value if isinstance(value, str) else Within(-(10**15), 10**15).check(value)


def _guest(name: str) -> str:
    section = yaml.safe_load((project_root() / "envs/guest.yaml").read_text(encoding="utf-8"))["guests"]
    if name != "base" and name not in section:
        raise _wrong(f"must be one of the guests of envs/guest.yaml: base, {', '.join(section)}")
    return name


def _once(names: list[str]) -> list[str]:
    twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if twice is not None:
        raise _wrong(f"must name {twice} only once")
    return names


def _expression(value: str) -> str:
    try:
        re.compile(value)
    except (re.error, OverflowError, RecursionError) as error:
        raise _wrong(f"is not a regular expression: {error}") from None
    return value


def _wrong(what: str) -> PydanticCustomError:
    """An error whose sentence consists of the place and `what`."""
    return PydanticCustomError("own", "{what}", {"what": what})


Parameter = Annotated[
    int | float | str,
    PlainValidator(_parameter),
    WithJsonSchema({"type": ["number", "string"], "minimum": -(10**15), "maximum": 10**15}),
]
MEANINGS: dict[str, str] = {}  # pattern of a text -> the words for it, which a sentence has after `must be`


def text(pattern: str, meaning: str, most: int | None = None) -> Any:
    """The field of a text that must match `pattern`, in words `meaning`, of at most `most` characters."""
    MEANINGS[pattern] = meaning
    return Field(pattern=pattern, description=meaning, max_length=most)


Filled = Annotated[str, Field(min_length=1)]
Command = Annotated[str, text(r"\S", "a command, not blank")]
VariantName = Annotated[
    str,
    text(r"^[a-z0-9][a-z0-9.-]{0,63}$", "a name of up to 64 lower-case letters, digits, dots and hyphens"),
]
ClaimName = VariantName
PhaseName = Annotated[
    str,
    text(r"^[a-z][a-z0-9-]{0,63}$", "a name of up to 64 lower-case letters, digits and hyphens"),
]
Variable = Annotated[str, text(r"^[A-Za-z_][A-Za-z0-9_]*$", "the name of a variable")]
Name = Annotated[
    str,
    text(
        r"^[a-z0-9][a-z0-9.+@-]*$",
        "a name of lower-case letters, digits, dots and hyphens, with its modifiers after + and @",
        128,
    ),
]
Notebook = Annotated[
    str,
    text(
        r"^[a-z][a-z0-9-]*\.ipynb$",
        "the name of a file in notebooks/: lower-case letters, digits and hyphens, a letter first, then .ipynb",
        128,
    ),
]
Names = Annotated[list[Name], Field(min_length=1, json_schema_extra={"uniqueItems": True}), AfterValidator(_once)]
Notebooks = Annotated[
    list[Notebook], Field(min_length=1, json_schema_extra={"uniqueItems": True}), AfterValidator(_once)
]
Limit = Annotated[int, Field(ge=1, le=2592000)]
Mib = Annotated[int, Field(ge=320, le=268435456)]
Rate = Annotated[float, Within(0.001, 10000000)]
Microseconds = Annotated[float, Within(0, 60000000)]
Milliseconds = Annotated[float, Within(0, 60000)]
Count = Annotated[int, Field(ge=0, le=4000000000)]


class Part(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", defer_build=True)


# ---- file systems

HOSTS_MAX = 32
FRAMES_MAX = 1_000_000  # at one end of a cable


class HostLine(Part):
    """A command on a host, or one that is repeated until it says what is expected."""

    host: Annotated[
        str, text(r"^(servers|clients|s[1-9][0-9]?|c1)$", "servers, clients, or one host: c1, s1, s2, ...")
    ] = Field(description="c1, s1, s2, ...; servers, clients: on each of them, one after the other")
    run: Command | None = None
    wait: Command | None = Field(None, description="In place of run: repeated until its output matches expect")
    expect: Filled | None = Field(None, description="Extended regular expression for wait")
    limit_s: Annotated[int, Field(ge=1, le=3600)] = Field(60, description="Of wait, in seconds of the lab's clock")

    @model_validator(mode="after")
    def _does_one_thing(self) -> HostLine:
        if (self.run is None) == (self.wait is None):
            raise _wrong("must have one of the keys run and wait")
        if (self.wait is None) != (self.expect is None):
            raise _wrong("must have the keys wait and expect together")
        return self


Line = Annotated[
    Annotated[Command, Tag("command")] | Annotated[HostLine, Tag("HostLine")],
    Discriminator(lambda value: "HostLine" if isinstance(value, dict | HostLine) else "command"),
]


class Hosts(Part):
    """The machines of a distributed file system: network namespaces of the guest, on the trial's network.

    Besides the servers there are the clients' hosts, over which the clients of the workload (+clientsN) are spread; c1
    without.
    """

    servers: Annotated[int, Field(ge=1, le=HOSTS_MAX)]
    clients: Annotated[int, Field(ge=1, le=HOSTS_MAX)] = Field(6, description="Hosts of clients, at most")
    private: list[Annotated[str, text("^/", "a path from the root")]] = Field(
        [], description="Folders that every server has for itself, empty; all other files are those of the guest"
    )
    logs: list[Filled] = Field([], description="Logs of the servers' daemons, patterns: their ends go into the record")
    least_mib: Annotated[int, Field(ge=16, le=268435456)] = Field(32, description="No disk of a server is smaller")


class Clients(Part):
    """Machines that have the directory mounted at the same path, and on which the clients of a workload run."""

    hosts: Annotated[
        list[Annotated[str, text(r"^[A-Za-z0-9][A-Za-z0-9._@-]*$", "a name that ssh knows: host or user@host")]],
        Field(min_length=1, max_length=256),
    ] = Field(description="As ssh knows them, which must need no password; the clients take them in turn")


class Variant(Part):
    title: Filled
    type: str | None = Field(None, description="When the kernel reports another type than for the other variants")
    module: str | None = Field(None, description="When it needs another kernel module than the other variants")
    make: str = ""
    mount: str = "relatime"
    expect: list[str] = []
    check: list[Command] | None = Field(None, description="When it is checked in another way than the other variants")


class Comeback(Part):
    """How the last server is lost and comes back in a phase with an outage, while the clients go on."""

    kill: list[HostLine] = Field(
        [], description="Ends its daemons. Without this key every process of the host gets SIGKILL"
    )
    back: Annotated[list[HostLine], Field(min_length=1)] = Field(description="Starts them again")
    healed: list[HostLine] = Field(
        [], description="Waits until all copies are there again, after a link was cut, too; empty where nothing heals"
    )


class Filesystem(Part):
    model_config = ConfigDict(
        title="A file system (one file = one file system; every key is explained in"
        " workflow/filesystems/_template.yaml)",
        json_schema_extra={
            "anyOf": [
                {"required": ["type", "packages", "mount", "unmount"]},
                {"required": ["path"]},
                {"required": ["unavailable"]},
            ]
        },
    )

    title: Filled
    home: Annotated[str, text(r"^https?://", "an address that begins with http:// or https://")]
    role: Literal["contender", "ceiling"]
    type: str | None = Field(None, description="Name of the type as the kernel reports it in /proc/self/mountinfo")
    module: str | None = Field(None, description="Kernel module; absent when built in")
    packages: list[str] = []
    guest: Annotated[str, AfterValidator(_guest)] = Field(
        "base", description="Which guest of envs/guest.yaml has what it needs"
    )
    labs: Annotated[list[str], Field(min_length=1)] | None = Field(None, description="The only labs that can run it")
    unavailable: Filled | None = Field(
        None, description="Why it cannot be had, one sentence; its trials are skipped with it"
    )
    path: Filled | None = Field(
        None, description="An existing directory, for the lab mount; nothing is made or mounted"
    )
    clients: Clients | None = Field(
        None, description="With path: the machines on which clients run, over ssh; without it on this machine"
    )
    device: bool = Field(True, description="Whether it needs a block device")
    raw: bool = Field(
        False,
        description="It is none: it shows the device itself, for workloads with the key raw, and keeps no files",
    )
    taken: list[Command] = Field(
        [], description="Commands that succeed, in the lab host, when a name that it will use is taken"
    )
    hosts: Hosts | None = Field(None, description="Machines that it needs, which the driver makes, with their network")
    make: list[Line] = []
    mount: list[Line] = []
    inspect: list[Line] = []
    unmount: list[Line] = []
    sync: list[Command] = Field(
        [], description="What must be on the device at the end of a phase besides the mount point"
    )
    recover: list[Command] = Field([], description="Before the mount after a power cut, and timed with it")
    outage: Comeback | None = Field(None, description="How a server is lost and comes back, for workloads that ask")
    check: list[Command] = []
    variants: Annotated[dict[VariantName, Variant], Field(min_length=1)]

    @model_validator(mode="after")
    def _can_be_mounted(self) -> Filesystem:
        needed = ("type", "packages", "mount", "unmount")
        missing = [key for key in needed if key not in self.model_fields_set]
        if missing and self.path is None and self.unavailable is None:
            raise _wrong(f"lacks the key {missing[0]}: give {', '.join(needed)}, or path, or unavailable")
        if self.clients and self.path is None:
            raise _wrong("has the key clients, which says where an existing directory is mounted, without the key path")
        return self

    @model_validator(mode="after")
    def _has_its_hosts(self) -> Filesystem:
        known = {"servers", "clients", *self.host_names()} if self.hosts else set()
        lines = {key: getattr(self, key) for key in ("make", "mount", "inspect", "unmount")}
        if self.outage:
            lines |= {f"outage.{key}": getattr(self.outage, key) for key in ("kill", "back", "healed")}
        for key, own in lines.items():
            for line in own:
                if isinstance(line, HostLine) and line.host not in known:
                    raise _wrong(f"has a line for the host {line.host} under {key}, which the key hosts does not make")
        return self

    def simplest_stack(self) -> str:
        """A stack that it can be on: one disk, or one for each server."""
        servers = self.hosts.servers if self.hosts else 1
        return f"servers@{servers}" if servers > 1 else "single"

    def host_names(self, clients: int = 1, on_servers: bool = False) -> dict[str, str]:
        """s1, s2, ..., c1, ...: servers first, each with the host that it is. Empty without the key hosts.

        on_servers: where there are several servers, the clients' hosts are the servers' (c1 is s1, c2 is s2, ...).
        """
        if not self.hosts:
            return {}
        servers = [f"s{number}" for number in range(1, self.hosts.servers + 1)]
        on_servers = on_servers and len(servers) > 1
        most = min(clients, len(servers) if on_servers else self.hosts.clients)
        own = [f"c{number}" for number in range(1, most + 1)]
        return {name: name for name in servers} | dict(zip(own, servers if on_servers else own, strict=False))


# ---- stacks


class Disks(Part):
    default: Annotated[int, Field(ge=1, le=32)]
    least: Annotated[int, Field(ge=1, le=32)] = 1
    multiple_of: Annotated[int, Field(ge=1, le=32)] = 1
    only: bool = Field(False, description="No other number than the default")


class Readback(Part):
    run: Command
    expect: Annotated[list[str], Field(min_length=1)] = Field(
        description="Extended regular expressions that the output must match"
    )


class Fault(Part):
    state: Literal["degraded", "rebuilding"]
    run: list[Command]
    readback: list[Readback]
    rebuild: str = Field("", description="File that says idle once the spare is in sync")


class Layer(Part):
    model_config = ConfigDict(
        title="A stack of block devices under a file system (one file = one layer; every key is explained in"
        " workflow/stacks/_template.yaml)"
    )

    title: Filled
    disks: Disks
    data: Literal["n", "n-1", "n-2", "n-3", "n/2", "1"] = Field(
        "n", description="How many disks' worth of data it holds"
    )
    least_mib: Annotated[int, Field(ge=16, le=268435456)] = Field(32, description="No disk under this layer is smaller")
    filesystem: Annotated[
        str,
        text(r"^([a-z0-9][a-z0-9.-]*)?$", "the name of the only file system that can use it, or empty for any"),
    ] = ""
    packages: list[str] = []
    modules: list[str] = []
    build: list[Command] = []
    devices: Annotated[list[str], Field(min_length=1)] = Field(
        ["{disks}"], description="What the layer above or the file system gets"
    )
    makes: list[Annotated[str, text("^/dev/", "a path in /dev")]] = Field(
        [], description="What must not be there before, in the lab host"
    )
    layout: str = Field("", description="Words for the file system's make command, as {layout}")
    readback: list[Readback] = []
    summary: list[Annotated[str, AfterValidator(_expression)]] = Field(
        [], description="Which lines of a readback that prints more than two a reader sees: regular expressions"
    )
    resync: list[str] = Field([], description="Files that say idle once the array is in sync")
    cold: list[Command] = Field(
        [], description="Run where caches are dropped, unmounted: what the layer itself keeps in memory"
    )
    fault: Fault | None = None
    stop: list[Command] = Field([], description="Takes the layer down and leaves what is on the disks")
    assemble: list[Command] = Field([], description="Brings it back from what is on the disks, also after a power cut")
    teardown: list[Command] = Field([], description="After stop, at the end: wipes what is left on the disks")


# ---- device profiles


class Drive(Part):
    """Of the model in METHODOLOGY.md; MB is 10⁶ bytes, KiB and MiB are powers of two."""

    kind: str
    block_bytes: Literal[512, 4096] = Field(512, description="Logical block")
    queue_depth: Annotated[int, Field(ge=1, le=256)] = Field(description="Requests that the drive holds at most")
    link_mb_s: Rate = Field(description="Rate of the interface")
    overhead_us: Microseconds = Field(description="What every command costs before anything moves")
    cache_mib: Annotated[float, Within(0, 1048576)] = Field(
        0, description="Room for writes that are not on the media yet"
    )
    write_cache: bool = Field(True, description="A write is done when it is in the cache")
    nonvolatile: bool = Field(False, description="The cache survives a power cut (battery or capacitor)")


class Rotating(Drive):
    kind: Literal["rotating"]
    rpm: Annotated[float, Within(1, 1000000)]
    zones: Annotated[int, Field(ge=2, le=256)] = Field(description="Parts of equal size, each with its own rate")
    outer_mb_s: Rate = Field(description="Rate of the first zone")
    inner_mb_s: Rate = Field(description="Rate of the last zone")
    track_to_track_ms: Milliseconds
    average_seek_ms: Annotated[float, Within(0, 60000, above=True)] = Field(
        description="Mean over random pairs of places; of reads"
    )
    full_stroke_ms: Annotated[float, Within(0, 60000, above=True)]
    write_settle_ms: Milliseconds = Field(description="What a seek before a write takes longer")
    read_ahead_kib: Annotated[float, Within(0, 1073741824)] = Field(
        description="What the head reads on into the drive's memory after a read"
    )
    segments: Annotated[int, Field(ge=1, le=64)] = Field(
        1, description="Parts of the drive's memory, read_ahead_kib each, that keep what was read"
    )


class Solid(Drive):
    kind: Literal["solid"]
    parallel: Annotated[int, Field(ge=1, le=64)] = Field(description="Units that work at the same time")
    read_us: Microseconds
    write_us: Microseconds
    flush_us: Microseconds
    discard_us: Microseconds
    read_mb_s: Rate = Field(description="All reads together")
    write_mb_s: Rate = Field(description="All writes together")


class Device(Part):
    title: Filled
    model: str | None = Field(None, description="What the profile stands for and what it leaves out")


class Plain(Device):
    completion_ns: Annotated[int, Field(ge=0, le=60000000000)] = Field(
        0, description="Time from submission to completion of every request"
    )
    bandwidth_mb_s: Annotated[int, Field(ge=0, le=10000000)] = Field(
        0, description="MiB/s of the whole device; 0 = unlimited"
    )
    iops: Annotated[int, Field(ge=0, le=1000000000)] = Field(
        0, description="Requests a second of the whole device; 0 = unlimited (vm lab)"
    )
    # With `model` it would be the other kind: here for the sentence that names all four.
    backing: Literal["memory", "file", "device", "model"] = Field(
        "memory", description="What holds the data", json_schema_extra={"enum": ["memory", "file", "device"]}
    )
    cache: Literal["unsafe"] | None = Field(
        None,
        description="QEMU's cache of a disk in a file, in the place of none: with unsafe the host's memory is one that"
        " ignores flushes (vm lab, backing file)",
    )
    sources: Annotated[list[Filled], Field(min_length=1)] | None = Field(
        None, description="Where each figure comes from; what is an assumption"
    )

    @model_validator(mode="after")
    def _caches_a_file(self) -> Plain:
        if self.cache and self.backing != "file":
            raise _wrong("has a cache, which only a disk with backing: file can have: leave it out")
        return self


class Modelled(Device):
    completion_ns: Literal[0] = 0
    bandwidth_mb_s: Literal[0] = 0
    iops: Literal[0] = 0
    backing: Literal["model"] = Field(description="The modelled disk below (exact lab)")
    size_mib: Mib | None = Field(None, description="Every disk has this size, whatever the workload asks for; sparse")
    sources: Annotated[list[Filled], Field(min_length=1)] = Field(
        description="Where each figure comes from; what is an assumption"
    )
    disk: Annotated[Rotating | Solid, Field(discriminator="kind")]


def _backing(value: Any) -> str:
    found = value.get("backing") if isinstance(value, dict) else getattr(value, "backing", None)
    return "Modelled" if found == "model" else "Plain"


AnyDevice = Annotated[
    Annotated[Plain, Tag("Plain")] | Annotated[Modelled, Tag("Modelled")],
    Discriminator(_backing),
    Field(title="A device profile, what each block device behaves like"),
]


# ---- processors


class Processor(Part):
    model_config = ConfigDict(title="A processor of the exact lab (one file = one processor)")

    title: Filled
    ns_per_instruction: Annotated[float, OneOf((1, 0.5, 0.25))] = Field(
        description="Time of every instruction: the guest's clock runs so, its disks and timers keep theirs"
    )
    features: list[Annotated[str, text(r"^[a-z0-9][a-z0-9.-]*$", "the name of a processor's feature, like sse4.2")]] = (
        Field(description="Instruction sets beyond those of every x86-64 processor, by the names QEMU has for them")
    )
    sources: Annotated[list[Filled], Field(min_length=1)] = Field(description="Where the figures come from")


# ---- networks


class Network(Part):
    model_config = ConfigDict(
        title="A network between hosts (one file = one network): cables from every host to one switch"
    )

    title: Filled
    rate_mbit: Annotated[float, Within(0, 1000000)] = Field(
        0, description="Of both ends of every cable, 10^6 bits a second on the wire; 0 = unlimited"
    )
    delay_us: Microseconds = Field(
        0,
        description="Of both ends of every cable: a way between hosts has two, a round trip four",
    )
    loss_percent: Annotated[float, Within(0, 100)] = Field(0, description="Of the frames that leave an end of a cable")
    queue_frames: Annotated[int, Field(ge=1, le=FRAMES_MAX)] = Field(
        1000, description="Frames that wait at an end of a cable at most; further ones are dropped"
    )
    mtu: Annotated[int, Field(ge=576, le=65535)] = Field(1500, description="Bytes of the largest packet")
    sources: Annotated[list[Filled], Field(min_length=1)] = Field(
        description="Where each figure comes from; what is an assumption"
    )

    @model_validator(mode="after")
    def _can_be_shaped(self) -> Network:
        if 0 < self.rate_mbit < 0.1:
            raise _wrong("must have a rate_mbit of at least 0.1, or 0, which is unlimited")
        if self.rate_mbit * self.delay_us / 8 / self.mtu > FRAMES_MAX:
            raise _wrong(f"has more than {FRAMES_MAX:,} frames under way: lower rate_mbit or delay_us")
        return self


class RealDisk(Part):
    path: Annotated[str, text(r"^/dev/[^/\n]+$", "the device itself in /dev, not a link to it")]
    serial: Filled
    size_bytes: Annotated[int, Field(ge=1, le=1125899906842624)]


class RealDisks(Part):
    model_config = ConfigDict(title="config/devices.yaml, the real disks that trials of the host lab may overwrite")

    devices: list[RealDisk]


# ---- workloads


class Scale(Part):
    """The room of the devices, and parameters for the placeholders of commands.

    The seven here make the tree of the engine's operations.
    """

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Parameter] = Field(init=False)

    device_mib: Mib = Field(description="What the stack offers to the file system")
    files: Annotated[int, Field(ge=1, le=100000000)] | None = None
    directories: Annotated[int, Field(ge=1, le=10000000)] | None = None
    fan_out: Annotated[int, Field(ge=1, le=1000000)] | None = None
    size_median: Annotated[float, Within(0, 10**15)] | None = Field(None, description="Bytes")
    size_sigma: Annotated[float, Within(0, 20)] | None = Field(None, description="Of the logarithm")
    size_max: Annotated[int, Field(ge=0, le=10**15)] | None = Field(None, description="Bytes")

    def parameters(self) -> dict[str, Any]:
        """All by name, without those that are left out."""
        return self.model_dump(exclude_none=True)


class Scales(Part):
    smoke: Scale
    laptop: Scale
    paper: Scale


class Populate(Part):
    name: PhaseName
    run: Command
    limit_s: Limit = 3600


class Crash(Part):
    """The power of all devices is cut, at the end of the phase in place of the final sync, or in its middle.

    Then the file system is mounted again (a row of its own) and what was there before, and synced, is verified. In the
    lab exact, on profiles with backing model.
    """

    after_ms: Annotated[int, Field(ge=1, le=86400000)] | None = Field(
        None, description="After the start of the phase, which goes on in vain, and is timed until then"
    )


class Outage(Part):
    """In the middle of the phase the last server is lost, and comes back.

    server-killed: its processes are killed, and started again as the key outage of the file system says. link-cut: the
    cable between it and the switch carries nothing. The next phase begins when the file system has healed.
    """

    what: Literal["server-killed", "link-cut"]
    after_s: Annotated[int, Field(ge=1, le=86400)] = Field(description="After the start of the phase")
    for_s: Annotated[int, Field(ge=1, le=86400)]


class Phase(Part):
    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["operation"]}, {"required": ["run"]}]})

    name: PhaseName
    title: Filled
    cache: Literal["cold", "warm"] = "warm"
    operation: Literal["make-tree", "create", "stat", "read", "rename", "remove", "remove-tree"] | None = None
    order: Literal["tree", "random"] = "tree"
    run: Command | None = Field(None, description="Split like a shell would, run without a shell")
    items: str = Field(
        "files",
        description="What the command handles: one, or a parameter of the scale; divides the time in the tables",
    )
    copies_to: (
        Annotated[
            str,
            text(
                r"^[A-Za-z0-9_][A-Za-z0-9._-]*$",
                "the name of a folder, which holds a copy of the tree after the phase; its content is verified",
            ),
        ]
        | None
    ) = None
    crash: Crash | None = None
    outage: Outage | None = None
    check: Command | None = Field(
        None, description="It must succeed after the phase, on a freshly mounted file system; not measured"
    )
    parse: Literal["fio"] | None = Field(
        None, description="The command's output is fio's JSON, of one job in one direction: one sample"
    )
    samples: Annotated[dict[PhaseName, Filled], Field(min_length=1)] | None = Field(
        None,
        description="Names of the samples which the command takes -> their titles; each is a row of the tables, in"
        " place of the phase",
    )
    limit_s: Limit = 3600

    @model_validator(mode="after")
    def _does_one_thing(self) -> Phase:
        if (self.operation is None) == (self.run is None):
            raise _wrong("must have one of the keys operation and run")
        return self


class Modifier(Part):
    title: Filled
    environment: dict[Variable, str] = {}
    labs: Annotated[list[str], Field(min_length=1)] | None = Field(None, description="The only labs that have it")


class Workload(Part):
    model_config = ConfigDict(title="A workload (an ordered list of phases, with parameters at three scales)")

    title: Filled
    description: Filled
    source: Filled
    differs: Filled | None = Field(None, description="What is the same as in the source, what is not, and why")
    size: str | None = Field(None, description="The parameter of the scale that NAME@N sets")
    aged: bool = Field(False, description="NAME+agedN may repeat the phases N times in one file system")
    raw: bool = Field(False, description="It measures the device itself, in a file system with the key raw")
    network: bool = Field(
        False, description="With raw: it measures the network itself, in a file system with the keys raw and hosts"
    )
    alone: bool = Field(False, description="NAME+clientsN makes no sense")
    on_servers: bool = Field(
        False,
        description="Clients run on the servers' hosts, where a file system has several; else on their own",
    )
    tools: list[str] = Field([], description="Commands the phases run; kept in memory while caches are dropped")
    packages: list[str] = []
    environment: dict[Variable, str] = {}
    modifiers: dict[Annotated[str, text("^[a-z]{1,32}$", "a name of up to 32 small letters")], Modifier] = Field(
        {}, description="NAME+MODIFIER changes the environment of the workload's commands"
    )
    scales: Scales
    populate: list[
        Annotated[
            Annotated[Literal["make-tree", "create"], Tag("operation")] | Annotated[Populate, Tag("Populate")],
            Discriminator(lambda value: "Populate" if isinstance(value, dict | Populate) else "operation"),
        ]
    ] = Field(
        [],
        description="What is done before the measured phases and before a stack's fault; not measured, the tree's"
        " content is verified",
    )
    phases: Annotated[list[Phase], Field(min_length=1)]

    @model_validator(mode="after")
    def _loses_no_client(self) -> Workload:
        if self.on_servers and any(phase.outage for phase in self.phases):
            raise _wrong("has the keys on_servers and outage: clients would be lost, too; take one away")
        return self


# ---- studies, what they are set beside, and the knobs of a run


class Cross(Part):
    labs: Names | None = None
    processors: Names | None = Field(
        None,
        description="Of the labs that model their processor (exact): names of workflow/processors. A name in labs may"
        f" have one of its own, as exact@v1-1ns. Without this key {PROCESSOR}",
    )
    stacks: Names | None = Field(None, description="name, name@disks, or layers from below: md-raid6+lvm@12")
    profiles: Names | None = None
    filesystems: Names | None = Field(
        None, description="name for the first variant of its file, name+variant for another"
    )
    networks: Names | None = Field(
        None,
        description="Of the file systems with hosts: names of workflow/networks; where there are several, they follow"
        f" the variant after @, as nfs-xfs+v3-sync@lan-1g. Without this key {NETWORK}",
    )
    workloads: Names | None = None


class Entry(Cross):
    rounds: Annotated[int, Field(ge=1, le=1000)] | None = Field(
        None, description="Only the study's first ones, for cells that take long; without this key all"
    )
    factor: Filled | None = Field(
        None,
        description="What it changes of the base, in a few words. The base is the entry without this key; ratios are"
        " to the last of its file systems",
    )


class Margins(Part):
    win: Annotated[float, Within(0, 1)] = Field(0.02, description="A smaller lead is not worth naming (0.02 is 2 %)")
    equal: Annotated[float, Within(0, 1, above=True)] = Field(
        0.05, description="Times that are shown to be no further apart are equivalent"
    )

    @model_validator(mode="after")
    def _agree(self) -> Margins:
        if self.win > self.equal:
            raise _wrong("must not have a win above equal: a lead between them could be neither")
        return self


def _percentage(value: Any) -> str:
    found = re.fullmatch(r"(\d{1,3}(\.\d{1,6})?) ?%", value) if isinstance(value, str) else None
    if not found or not 0 < float(found[1]) <= 100:
        raise _wrong(f"is {short(value)}, but must be a percentage above 0 % and up to 100 %, such as 5 %")
    return f"{found[1]} %"


class Rounds(Part):
    min: Annotated[int, Field(ge=2, le=1000)] = Field(description="So many at least; after them is the first look")
    max: Annotated[int, Field(ge=2, le=1000)] = Field(description="No more than these")
    until: Annotated[
        str,
        PlainValidator(_percentage),
        WithJsonSchema({"type": "string", "pattern": r"^\d{1,3}(\.\d{1,6})? ?%$"}),
    ] = Field(
        description="Half-width of the interval of a ratio at which no more rounds are needed, such as 5 %: of the best"
        " contender of each workload to every other one that may be the fastest"
    )

    @model_validator(mode="after")
    def _in_order(self) -> Rounds:
        if self.max < self.min:
            raise _wrong(f"must have a max of at least its min, {self.min}")
        return self


FIXED = "the number of rounds was fixed before the first trial"


Verdict = Literal["reproduced", "same direction", "contradicted", "undecided", "not decidable here"]


class Study(Cross):
    model_config = ConfigDict(title="A study (a question and the cells that answer it)")

    title: Filled
    question: Filled
    cells: Annotated[list[Entry], Field(min_length=1)] | None = Field(
        None, description="Several crosses instead of one: what an entry does not name it takes from the keys above"
    )
    scale: Literal["smoke", "laptop", "paper"]
    rounds: Annotated[
        Annotated[int, Field(ge=1, le=1000), Tag("number")] | Annotated[Rounds, Tag("Rounds")],
        Discriminator(lambda value: "Rounds" if isinstance(value, dict | Rounds) else "number"),
    ] = Field(description="A number, or a rule that adds rounds")
    stop: str | None = Field(FIXED, description="Why there are no more rounds; not beside a rule, which is the reason")
    seed: Annotated[int, Field(ge=0, le=10**12)]
    margins: Margins | None = Field(None, description="Which differences matter; without it win 0.02, equal 0.05")
    published: str | None = Field(None, description="Numbers of data/published that the study is set beside")
    stands_in: dict[str, Filled] | None = Field(
        None, description="Published stack or file system -> the study's own that is compared in its place"
    )
    expected: dict[Verdict, list[ClaimName]] | None = Field(
        None, description="Verdict -> ids of the published claims that have it at the study's own scale"
    )
    notebooks: Notebooks | None = Field(
        None, description="Further files of notebooks/, which come after the topics of the report"
    )
    time_limit_s: Limit = Field(1800, description="Host seconds after which a trial is recorded as timeout")

    @model_validator(mode="after")
    def _has_one_reason(self) -> Study:
        if isinstance(self.rounds, Rounds):
            if "stop" in self.model_fields_set:
                raise _wrong("must not have both stop and rounds with until, which is the reason: leave stop out")
            self.stop = None
        return self

    @model_validator(mode="after")
    def _has_enough_rounds(self) -> Study:
        least = self.rounds.min if isinstance(self.rounds, Rounds) else self.rounds
        for entry in self.cells or []:
            if entry.rounds and entry.rounds > least:
                raise _wrong(
                    f"has {entry.rounds} rounds in an entry of cells, but {least} at its top level: raise these"
                )
        return self

    @model_validator(mode="after")
    def _has_one_base(self) -> Study:
        named = [entry.factor for entry in self.cells or [] if entry.factor]
        if named and len(named) != len(self.cells or []) - 1:
            raise _wrong("must have one entry of cells without the key factor: the base of the others")
        if len(set(named)) < len(named):
            raise _wrong("must not have a factor twice in cells")
        if named and not self.published:
            raise _wrong("must have the key published: the numbers that its factors may explain")
        for key in ("stands_in", "expected"):
            if getattr(self, key) and not self.published:
                raise _wrong(f"must have the key published: without it {key} says nothing")
        return self


Quantity = Literal["time", "user", "system", "rate", "rate-sd", "rate-min", "operations", "operations-sd", "share"]


class Value(Part):
    """Where a value stands: in the published file, and among what a study measured. What is left out is not asked."""

    place: str | None = Field(None, description="Of the published values only: the column place")
    size: Count | None = Field(None, description="Of the published values only: the column size")
    workload: str | None = Field(None, description="With its modifiers, without its size")
    stack: str | None = None
    label: str | None = Field(None, description="File system, +variant unless that is default")
    phase: str | None = Field(None, description="A phase, or the name of a part of a phase that was timed (samples)")
    cache: Literal["cold", "warm"] | None = None
    quantity: Quantity | None = Field(
        None,
        description="time (the default), its user and system part; rate of content and operations a second, and the"
        " standard deviation of either over the samples of a phase; the lowest rate of a sample; share of a full file"
        " system that holds content",
    )


# Kind of claim: the keys of which it has exactly one, and those that it may have beside.
CLAIMS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "ratio": ((), ("value", "within")),
    "bound": (("least", "most"), ()),
    "order": ((), ()),
    "monotone": ((), ()),
    "within": (("within",), ()),
    "no-winner": (("over",), ()),
}
Factor = Annotated[float, Within(0, 10**9, above=True)]


class Claim(Part):
    id: ClaimName
    where: Filled = Field(description="Its place in the source")
    says: Filled = Field(description="The claim in our words")
    kind: Literal["ratio", "bound", "order", "monotone", "within", "no-winner"] = Field(
        description="ratio: the first over the second is `value`, or what the published values give; bound: the first"
        " over each other one is `least` or more, or `most` or less; order: each is larger than the next; monotone:"
        " none is smaller than the next, the last is smaller than the first; within: no two are farther apart than the"
        " factor `within`; no-winner: over the steps `over` neither of two is always the larger one"
    )
    at: Value | None = Field(None, description="What all values of the claim have in common")
    of: Annotated[list[Value], Field(min_length=1)] = Field(
        description="The values that are compared, where they differ; a single one is compared with a number"
    )
    over: Annotated[list[Value], Field(min_length=2)] | None = Field(None, description="Of no-winner: the steps")
    value: Factor | None = Field(None, description="Of ratio: the number that is claimed, in s, bytes or 1/s if of one")
    within: Annotated[float, Within(1, 10**9)] | None = Field(
        None, description="A factor: of within the one claimed; of ratio how far off still counts as reproduced"
    )
    least: Factor | None = None
    most: Factor | None = None
    least_size: Count | None = Field(None, description="A study with a smaller size than this cannot decide it")
    own_stack: bool = Field(
        False, description="Whether what stands in for the published stack or file system cannot decide it"
    )
    needs: Filled = Field(description="What it takes to decide it")

    @model_validator(mode="after")
    def _is_whole(self) -> Claim:
        given = [key for key in ("least", "most", "within", "value", "over") if getattr(self, key) is not None]
        needed, allowed = CLAIMS[self.kind]
        if needed and len(set(given) & set(needed)) != 1:
            raise _wrong(f"of kind {self.kind} must have the key {' or '.join(needed)}")
        for key in given:
            if key not in (*needed, *allowed):
                raise _wrong(f"of kind {self.kind} must not have the key {key}")
        alone = self.kind == "bound" or self.value is not None
        if len(self.of) < 2 - alone or (self.kind in ("ratio", "no-winner") and len(self.of) > 2):
            raise _wrong(f"of kind {self.kind} must not have {len(self.of)} value{'s' * (len(self.of) > 1)} in of")
        return self


class Difference(Part):
    what: str
    there: str
    here: str
    follows: str


class Published(Part):
    model_config = ConfigDict(
        title="What was published, to set a study beside it (data/published/NAME.yaml; its numbers are in NAME.csv,"
        " which may be missing)"
    )

    title: Filled = Field(description="Who published it and when")
    source: Filled
    systems: dict[str, Filled] = Field({}, description="What it was measured on: name -> machines and software")
    numbers: Filled = Field(description="What a row of the file is, and what was left out")
    size: str | None = Field(
        None, description="The parameter of the workload's scale that the column size counts (files, names)"
    )
    claims: list[Claim] = Field([], description="What is said there, as tests on values")
    differs: Annotated[list[Difference], Field(min_length=1)] = Field(
        description="What was not the same, and what follows; in `here` {kernel}, {sizes}, {rounds} (3 rounds), {lab},"
        " {profile} are the study's own"
    )

    @model_validator(mode="after")
    def _names_claims_once(self) -> Published:
        names = [claim.id for claim in self.claims]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice:
            raise _wrong(f"must not have two claims with the id {twice}")
        return self


class Config(Part):
    model_config = ConfigDict(title="config/config.yaml, the knobs of a run", extra="ignore")

    study: Annotated[
        str,
        text(
            r"^[a-z0-9][a-z0-9.-]*(@[a-z]+)?$",
            "the name of a file in config/studies without .yaml, with @ and a scale for another than its own",
            80,
        ),
    ] = "quick"
    extra_filesystem_dirs: list[str] = []
    lab: str = Field("", description="In the place of the study's labs")
    profile: str = Field("", description="In the place of the study's device profiles")
    where: str = Field("", description="Of the lab mount: existing directories in the place of file systems, a,b")
    clients: str = Field("", description="With where: machines that have them, on which clients run over ssh, a,b")


# ---- trees

Pair = Annotated[list[Annotated[int, Field(ge=0, le=281474976710655)]], Field(min_length=2, max_length=2)]
Spread = Annotated[list[Pair], Field(max_length=256)]


class Level(Part):
    folders: Annotated[int, Field(ge=1, le=100000000)]
    files: Count = Field(0, description="Regular files in the folders of this level")
    symbolic: Count = Field(0, description="Symbolic links in them")
    hard: Count = Field(0, description="Further names of files")
    subfolders: Spread = Field(
        [], description="How the folders of the next level are spread over these; empty = evenly"
    )
    entries: Spread = Field([], description="How files and links are spread over these folders; empty = evenly")


class Links(Part):
    folder: Count = 0
    missing: Count = 0


class Tree(Part):
    model_config = ConfigDict(title="A profile of a tree, from which a look-alike is made")

    title: Filled
    source: Filled = Field(description="Where the numbers come from, and which of them are general knowledge")
    sizes: Annotated[list[Pair], Field(min_length=1, max_length=256)] = Field(
        description="Bytes of the regular files; [bound, weight]: so many above the bound before, up to this one"
    )
    compress: Annotated[int, Field(ge=0, le=80)] | None = Field(
        None, description="Percent of the content that a compressor saves, about"
    )
    levels: Annotated[list[Level], Field(min_length=1, max_length=32)] = Field(
        description="By depth: the first is the top folder"
    )
    links: Links = Field(
        default_factory=Links,
        description="Of the symbolic links: how many lead to a folder, and how many out of the tree or nowhere; the"
        " others lead to files",
    )
    unreadable: Count = Field(0, description="Folders which the scan could not read; they count as empty")
    left_out: Count = Field(0, description="Special files and other file systems, not in the profile")
    names: dict[str, Annotated[int, Field(ge=1, le=4000000000)]] | None = Field(
        None, description="Names and how often they occur; only when asked for"
    )


MODELS: dict[str, Any] = {
    "config": Config,
    "device": AnyDevice,
    "devices": RealDisks,
    "filesystem": Filesystem,
    "network": Network,
    "processor": Processor,
    "published": Published,
    "stack": Layer,
    "study": Study,
    "tree": Tree,
    "workload": Workload,
}


@cache
def adapter(kind: str) -> TypeAdapter:
    """The validator for a kind of file ("filesystem", "study", ...)."""
    return TypeAdapter(MODELS[kind])


# ---- the schemas, for editors and other programs


class _Schema(GenerateJsonSchema):
    """Schemas without what files never contain: null for a key that is left out, and titles made from names of keys."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        found = super().dict_schema(schema)
        if "patternProperties" in found:  # which would let other names pass
            found["additionalProperties"] = next(iter(found.pop("patternProperties").values()))
            found["propertyNames"] = self.generate_inner(schema["keys_schema"])
        return found

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        found = super().default_schema(schema)
        if found.get("default", "") is None:
            del found["default"]
        return found

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def schema(kind: str) -> dict:
    """The JSON Schema of a kind of file, made from its model."""
    return {"$schema": _Schema.schema_dialect, **adapter(kind).json_schema(schema_generator=_Schema)}


def write_schemas(folder: Path) -> list[Path]:
    """Writes the schema of every kind into a folder; returns the files."""
    paths = []
    for kind in MODELS:
        paths.append(folder / f"{kind}.schema.yaml")
        made = yaml.safe_dump(schema(kind), sort_keys=False, allow_unicode=True, width=120)
        write_text(paths[-1], GENERATED + made)
    return paths
