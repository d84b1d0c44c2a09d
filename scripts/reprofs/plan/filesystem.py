"""A file system (workflow/filesystems): how it is made, mounted and taken down, its variants and its hosts."""

import re
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, ConfigDict, Discriminator, Field, Tag, field_validator, model_validator

from reprofs.errors import UserError, cut, short
from reprofs.plan.catalog import Catalog
from reprofs.plan.guest import known_guest
from reprofs.plan.parts import (
    MKFS,
    OF_MKFS,
    OPTION,
    Command,
    Descriptor,
    Expression,
    Filled,
    Part,
    PhaseName,
    Promising,
    Word,
    text,
    wrong,
)
from reprofs.plan.read import unknown

HOSTS_MAX = 32
# Mount options that take from fsync what it promises, of any file system: their variants need a file that says so.
UNSAFE = {
    "nobarrier",
    "fsync_mode=nobarrier",
    "checkpoint=disable",
    "barrier=0",
    "barrier=none",
    "barrier=flush",
    "async",
    "nosync",
    "nolog",
    "norecovery",
    "nologreplay",
    "journal_flush_disabled",
}
UNSAFE_MADE = ("mount_opts", "journal_flush_disabled")  # what does so, or may, when a file system is made
# Of these one takes the place of the other.
ATIME = {"atime", "noatime", "relatime", "norelatime", "strictatime", "nostrictatime"}


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
    def _does_one_thing(self) -> "HostLine":
        if (self.run is None) == (self.wait is None):
            raise wrong("must have one of the keys run and wait")
        if (self.wait is None) != (self.expect is None):
            raise wrong("must have the keys wait and expect together")
        return self


Line = Annotated[
    Annotated[Command, Tag("command")] | Annotated[HostLine, Tag("HostLine")],
    Discriminator(lambda value: "HostLine" if isinstance(value, dict | HostLine) else "command"),
]


class PlannedHosts(Part):
    """How many machines a distributed file system has.

    Besides the servers there are the clients' hosts, over which the clients of the workload (+clientsN) are spread; c1
    without.
    """

    servers: Annotated[int, Field(ge=1, le=HOSTS_MAX)]
    clients: Annotated[int, Field(ge=1, le=HOSTS_MAX)] = Field(6, description="Hosts of clients, at most")

    def of_clients(self, on_servers: bool = False) -> list[str]:
        """The hosts that clients take in turn: c1, c2, ...; on_servers: s1, s2, ... where there are several."""
        if on_servers and self.servers > 1:
            return [f"s{number}" for number in range(1, self.servers + 1)]
        return [f"c{number}" for number in range(1, self.clients + 1)]


class Hosts(PlannedHosts):
    """These machines are network namespaces of the guest, on the trial's network."""

    private: list[Annotated[str, text("^/", "a path from the root")]] = Field(
        [], description="Private empty folders of every server; all other files are those of the guest"
    )
    threads: list[Word] = Field(
        [], description="Threads of the kernel, by name, that do the work of the only server: they get its core"
    )
    logs: list[Filled] = Field([], description="Logs of the servers' daemons, patterns: their ends go into the record")
    least_mib: Annotated[int, Field(ge=16, le=1048576)] = Field(32, description="No disk of a server is smaller")

    @model_validator(mode="after")
    def _threads_are_of_one_server(self) -> "Hosts":
        if self.threads and self.servers > 1:
            raise wrong("must not have threads with several servers: their owner would be unknown")
        return self


class Clients(Part):
    """Machines that have the directory mounted at the same path, and on which the clients of a workload run."""

    hosts: Annotated[
        list[Annotated[str, text(r"^[A-Za-z0-9][A-Za-z0-9._@-]*$", "a name that ssh knows: host or user@host")]],
        Field(min_length=1, max_length=256),
    ] = Field(description="As ssh knows them, which must need no password; the clients take them in turn")


Shown = Annotated[
    str, text("^[a-z][a-z0-9 -]{0,31}$", "up to 32 lower-case letters, digits, spaces and hyphens, which tables show")
]


def _with_a_group(value: str) -> str:
    if (groups := re.compile(value).groups) != 1:
        raise wrong(f"has {groups} groups, but must have exactly one, (...), around the words; use (?:...) for others")
    return value


class Reading(Part):
    """Words in what the commands of the key inspect print, which tell how the file system was made (data.formats)."""

    read: Annotated[Expression, AfterValidator(_with_a_group)] = Field(
        description="Regular expression, as Python's re has them, ^ and $ at lines; of every match the words of its"
        " only group are taken"
    )
    without: list[Filled] = Field([], description="Words that are no features, such as those of its state")
    by_device: bool = Field(
        False, description="It follows from size and kind of the device: compared only where these are the same"
    )


class Variant(Promising):
    title: Filled
    type: str | None = Field(None, description="When the kernel reports another type than for the other variants")
    module: str | None = Field(None, description="When it needs another kernel module than the other variants")
    make: str = ""
    mount: str = "relatime"
    expect: list[str] = []
    check: list[Command] | None = Field(None, description="When it is checked in another way than the other variants")

    def with_options(self, mounted: list[str], made: list[str]) -> "Variant":
        """The same with further options of the commands that mount and make it."""
        changed: dict = {"title": self.title}
        if made:
            words = " ".join(made)
            changed |= {"title": f"{self.title}, made with {words}", "make": f"{self.make} {words}".strip()}
        if mounted:
            expected = [word for word in self.expect if not (word in ATIME and ATIME.intersection(mounted))]
            changed |= {
                "title": f"{changed['title']}, mounted with {', '.join(mounted)}",
                "mount": ",".join(filter(None, [self.mount, *mounted])),
                "expect": expected + mounted,
            }
        return self.model_copy(update=changed)


class Promises(Part):
    """What is on the disk when a call has returned, as its sources say; without it nothing is promised."""

    fsync: bool = Field(False, description="fsync and fdatasync of a file: its content")
    folder: bool = Field(False, description="fsync of a folder: the names in it")
    sync: bool = Field(False, description="sync: all content and names")
    rename: Literal["atomic"] | None = Field(None, description="atomic: a file that is renamed is never nowhere")
    source: Filled = Field(description="Who says so")

    def words(self) -> list[str]:
        """Those that are given, as engine states takes them."""
        return [name for name in ("fsync", "folder", "sync", "rename") if getattr(self, name)]


class Power(Part):
    """What the disk of the last server needs when its power is cut and comes back; nothing if no server mounts it."""

    lost: list[Line] = Field([], description="When it is off and the daemons have ended: what was mounted is unmounted")
    back: list[Line] = Field(
        [], description="When it is on, before the daemons are started: it is mounted and recovers"
    )


class Comeback(Part):
    """How the last server is lost and comes back in a phase with an outage, while the clients go on."""

    kill: list[HostLine] = Field(
        [], description="Ends its daemons. Without this key every process of the host gets SIGKILL"
    )
    back: Annotated[list[HostLine], Field(min_length=1)] = Field(description="Starts them again")
    power: Power | None = Field(None, description="With it the power of the server's disk can be cut, too")
    healed: list[HostLine] = Field(
        [], description="Waits until all copies are there again, after a link was cut, too; empty where nothing heals"
    )


class Coherence(Part):
    """What clients on several hosts may expect of each other's calls, by what its documents say.

    posix: as if all were on one host: every call takes effect at one moment between its begin and its return.
    close-to-open: who opens a file sees what was closed before. none: only that nothing is read that nobody wrote.
    """

    model: Literal["posix", "close-to-open", "none"]
    source: Filled = Field(description="Where it says so")


class PlannedFilesystem(Part):
    """What a plan says of a file system."""

    title: Filled
    home: Annotated[str, text(r"^https?://", "an address that begins with http:// or https://")]
    role: Literal["contender", "ceiling"]
    packages: list[str] = []
    variants: dict[str, Variant]
    guest: str = Field("base", description="The guest of envs/guest.yaml with its packages")
    hosts: PlannedHosts | None = None
    clients: Clients | None = Field(
        None, description="With path: the machines on which clients run, over ssh; without it on this machine"
    )
    coherence: Coherence | None = Field(
        None, description="What several clients may expect of each other's calls; without it: posix"
    )
    format: dict[Shown, Reading] | None = Field(
        None, description="How it was made, as reported by inspect; not part of its trials"
    )
    promises: Promises | None = Field(None, description="What must be left after a cut; a variant may promise none")


class Filesystem(PlannedFilesystem, Descriptor):
    kind = "filesystem"
    word = "file system"
    folder = "workflow/filesystems"
    listed: ClassVar[dict] = {"role": "contender", "labs": ["exact"], "variants": {"default": {"title": "never run"}}}

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

    type: str | None = Field(None, description="Name of the type as the kernel reports it in /proc/self/mountinfo")
    module: str | None = Field(None, description="Kernel module; absent when built in")
    labs: Annotated[list[str], Field(min_length=1)] | None = Field(None, description="The only labs that can run it")
    unavailable: Filled | None = Field(
        None, description="Why it is not available, one sentence; its trials are skipped"
    )
    path: Filled | None = Field(
        None, description="An existing directory, for the lab mount; nothing is made or mounted"
    )
    device: bool = Field(True, description="Whether it needs a block device")
    raw: bool = Field(
        False,
        description="Not a file system: it shows the device itself, for workloads with the key raw, and keeps no files",
    )
    taken: list[Command] = Field([], description="Lab host: commands that succeed if a name that it will use is taken")
    hosts: Hosts | None = Field(None, description="Nodes that it needs; the driver makes them with their network")
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
    scrub: list[Command] = Field([], description="Mounted, reads every copy; exit code 0: all is well, 1: not")
    maintenance: dict[PhaseName, Annotated[list[Command], Field(min_length=1)]] = Field(
        {}, description="Mounted, what runs between the calls of a soak: snapshots, balancing, defragmenting"
    )
    blocks: list[Command] = Field(
        [], description="Unmounted, print which blocks are of which kind: lines `unit BYTES` and `FIRST LAST KIND`"
    )
    variants: Annotated[dict[Word, Variant], Field(min_length=1)]

    _guest_is_known = field_validator("guest")(known_guest)

    @model_validator(mode="after")
    def _can_be_mounted(self) -> "Filesystem":
        needed = ("type", "packages", "mount", "unmount")
        missing = [key for key in needed if key not in self.model_fields_set]
        if missing and self.path is None and self.unavailable is None:
            raise wrong(f"lacks the key {missing[0]}: give {', '.join(needed)}, or path, or unavailable")
        if self.clients and self.path is None:
            raise wrong("has the key clients without the key path: add path, or remove clients")
        return self

    @model_validator(mode="after")
    def _has_its_hosts(self) -> "Filesystem":
        known = {"servers", "clients", *self.host_names()} if self.hosts else set()
        lines = {key: getattr(self, key) for key in ("make", "mount", "inspect", "unmount")}
        if self.outage:
            lines |= {f"outage.{key}": getattr(self.outage, key) for key in ("kill", "back", "healed")}
            power = self.outage.power or Power()
            lines |= {"outage.power.lost": power.lost, "outage.power.back": power.back}
        for key, own in lines.items():
            for line in own:
                if isinstance(line, HostLine) and line.host not in known:
                    raise wrong(f"has a line for the node {line.host} under {key}, which is not in the key hosts")
        return self

    @model_validator(mode="after")
    def _has_what_its_format_is_read_from(self) -> "Filesystem":
        if self.format and not self.inspect:
            raise wrong("has the key format without the key inspect, from whose output it is read: add inspect")
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
        places = self.hosts.of_clients(on_servers)[:clients]
        return {name: name for name in servers} | {f"c{number}": place for number, place in enumerate(places, 1)}

    def variant(self, name: str) -> Variant:
        """A variant of the file, or with further options one that has these, too: of mount, which the kernel must
        report, and of the command that makes it (`default+commit=60+mkfs:-O:fast_commit`).

        Raises UserError for a variant that does not exist, an option that is none, a file system whose commands take no
        further ones, and mount options after which fsync promises nothing.
        """
        first, *options = name.split("+")
        if first not in self.variants:
            raise unknown(f"variant of {self.name}", first, self.variants)
        where = f"file system {self.name}+{cut(name, 80)}"
        forms = [(MKFS if one.startswith(OF_MKFS) else OPTION, one) for one in options]
        if (odd := next((one for form, one in forms if not re.fullmatch(form, one)), None)) is not None:
            raise UserError(
                f"{where}: {short(odd)} is neither a mount option, such as commit=60, nor one of mkfs with colons for "
                f"blanks, such as {OF_MKFS}-O:fast_commit: write a variant."
            )
        made = [one.removeprefix(OF_MKFS).replace(":", " ") for one in options if one.startswith(OF_MKFS)]
        mounted = [one for one in options if not one.startswith(OF_MKFS)]
        for what, given, lines, place in (
            ("mount", mounted, self.mount, "-o {mount} {device}"),
            ("mkfs", made, self.make, " {make} "),
        ):
            if given and not any(isinstance(line, str) and place in line and "{device" in line for line in lines):
                raise UserError(f"{where}: it takes no further {what} options: write a variant.")
        if unsafe := UNSAFE.intersection(mounted) | {one for one in UNSAFE_MADE if one in " ".join(made)}:
            raise UserError(
                f"{where}: with {min(unsafe)} fsync may not be durable: write a variant with the keys promise and why "
                f"in {self.file}."
            )
        return self.variants[first].with_options(mounted, made)


def variant_of(spec: str, catalog: Catalog) -> tuple[str, str]:
    """("btrfs", "zstd") for "btrfs+zstd"; the bare name stands for the first variant of its file.

    Raises UserError for a file system or variant that does not exist, and as `Filesystem.variant` does.
    """
    name, _, variant = spec.partition("+")
    filesystem = catalog.get(Filesystem, name)
    if variant:
        filesystem.variant(variant)
    return name, variant or next(iter(filesystem.variants))
