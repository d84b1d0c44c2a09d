"""A workload (workflow/workloads): its phases and scales, and its name with modifiers: `metadata@50000+clients30`.

@N           the workload's size parameter (its key `size`) is N
+clientsN    N processes do the same, each in a folder and with a seed of its own, from one start barrier
+agedN       the phases are repeated N times in one file system, which ages it (workloads with the key `aged`)
+fillN       before anything else the file system is filled to N percent and churned
+PROFILEN    the same until its files are as old, large and deep as in a profile of workflow/ages
+pullsN      before, a tree in the same file system is updated by N pulls, as git does it
+deviceN     the stack offers N MiB to the file system, also less than ROOM_MIB, to see what that changes
+NAME        a modifier of the workload's own (its key `modifiers`)
"""

import math
import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Discriminator, Field, Tag, model_validator

from reprofs.errors import FileError, UserError, several, short
from reprofs.plan import recording, sequences, tree
from reprofs.plan.ages import Ages
from reprofs.plan.catalog import Catalog
from reprofs.plan.command import argv
from reprofs.plan.guest import known_guest
from reprofs.plan.parts import MIB, NAME, Descriptor, Filled, Mib, Parameter, Part, Within, text, wrong
from reprofs.plan.phase import Outage, Phase, Populate

ZEROS = "--zeros"  # of a program of the engine: all that it writes is zeros
TREE = ("files", "directories", "fan_out", "size_median", "size_sigma", "size_max")
WORKERS = "workers"  # the size of a workload whose work grows with it, done side by side
COMPRESS = "compress"  # the size of a workload that is the percentage of its content which a compressor saves
PULLS = "pulls"  # the size of a workload that is the age of its tree
NO_AMOUNT = (WORKERS, COMPRESS, PULLS)  # sizes with which a task does not grow
CLIENTS_MAX = 256
LIMITS = {"clients": (1, CLIENTS_MAX), "aged": (2, 1000), "fill": (1, 90), "pulls": (1, 10000), "device": MIB}
TOLD = {
    "clients": "{} clients",
    "aged": "{} runs in one file system",
    "fill": "file system filled to {} % and churned",
    "pulls": "after {:,} pulls",
    "device": "device of {:,} MiB",
}
# What every file system gets at least. With 1 GiB Btrfs waits for room half the time in which it creates files, with
# 2 GiB no more; the others do not care (study small-devices). Devices are sparse, so the room costs nothing.
ROOM_MIB = 4096
SIZE_MAX = 10**12
BYTES = re.compile("bytes|size|largest")  # in the name of a scale's own parameter; all others count something
BYTES_MAX, COUNT_MAX = 10**12, 10**9
SPEC = re.compile(rf"({NAME.pattern})(?:@(x?)([0-9]+))?((?:\+[a-z]+[0-9]*)*)")
TREE_NAME = re.compile(rf"\{{tree:({NAME.pattern})(?<!\.yaml)\}}")  # with .yaml it would be a path
SEQUENCES_NAME = re.compile(rf"\{{sequences:({NAME.pattern}(?:/[a-z][a-z0-9-]*)?(?:%(?:[0-9]+|\{{[a-z_]+\}}))?)\}}")
RECORDING_NAME = re.compile(rf"\{{recording:({NAME.pattern})\}}")
Variable = Annotated[str, text(r"^[A-Za-z_][A-Za-z0-9_]*$", "the name of a variable")]


class Scale(Part):
    """The room of the devices, and parameters for the placeholders of commands.

    The seven here make the tree of the engine's operations.
    """

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Parameter] = Field(init=False)

    device_mib: Mib = Field(ROOM_MIB, description="What the stack offers to the file system")
    files: Annotated[int, Field(ge=1, le=100000000)] | None = None
    directories: Annotated[int, Field(ge=1, le=10000000)] | None = None
    fan_out: Annotated[int, Field(ge=1, le=1000000)] | None = None
    size_median: Annotated[float, Within(0, 10**9)] | None = Field(None, description="Bytes")
    size_sigma: Annotated[float, Within(0, 5)] | None = Field(None, description="Of the logarithm")
    size_max: Annotated[int, Field(ge=0, le=10**12)] | None = Field(None, description="Bytes")

    @model_validator(mode="after")
    def _is_plausible(self) -> "Scale":
        for key, value in (self.__pydantic_extra__ or {}).items():
            most = BYTES_MAX if BYTES.search(key) else COUNT_MAX
            if isinstance(value, int | float) and abs(value) > most:
                raise wrong(f"has {key} {value:g}, but must have at most {most:,}{' bytes' * (most == BYTES_MAX)}")
        return self

    def parameters(self) -> dict[str, Any]:
        """All by name, without those that are left out."""
        return self.as_json()

    def count(self, items: str) -> int | None:
        """The value of the key `items` of a phase; None if a name in it is not a whole-number parameter."""
        values = {"one": 1} | self.parameters()
        found = [value for name in items.split("*") if type(value := values.get(name)) is int]
        return math.prod(found) if len(found) == items.count("*") + 1 else None

    def resized(self, key: str, value: int) -> "Scale":
        """The scale with another size parameter; the directories of a tree grow with its files, but one stays one."""
        changed = {key: value}
        if key == "files" and self.files and self.directories and self.directories > 1:
            changed["directories"] = max(1, round(self.directories * value / self.files))
        return self.model_copy(update=changed)


class Scales(Part):
    smoke: Scale
    laptop: Scale
    paper: Scale


class Modifier(Part):
    title: Filled
    environment: dict[Variable, str] = {}
    labs: Annotated[list[str], Field(min_length=1)] | None = Field(None, description="The only labs that have it")
    outage: Outage | None = Field(None, description="What is lost in every phase")


class Workload(Descriptor):
    kind = "workload"
    folder = "workflow/workloads"

    model_config = ConfigDict(title="A workload (an ordered list of phases, with parameters at three scales)")

    title: Filled
    description: Filled
    source: Filled
    differs: Filled | None = Field(None, description="What equals the source, what differs, and why")
    size: str | None = Field(None, description="The parameter of the scale that NAME@N sets")
    aged: bool = Field(False, description="NAME+agedN may repeat the phases N times in one file system")
    guest: Annotated[str, AfterValidator(known_guest)] = Field(
        "base", description="Which guest of envs/guest.yaml has its programs, for file systems that need no other one"
    )
    raw: bool = Field(False, description="It measures the device itself, in a file system with the key raw")
    network: bool = Field(
        False, description="With raw: it measures the network itself, in a file system with the keys raw and hosts"
    )
    alone: bool = Field(False, description="NAME+clientsN makes no sense")
    on_servers: bool = Field(
        False,
        description="Clients run on the servers' hosts, where a file system has several; else on their own",
    )
    shared: bool = Field(
        False, description="All clients work in one folder, each through the mount of its own host; else in one each"
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
        description="Prefill, before the measured phases and a stack's fault; not measured, content is verified",
    )
    phases: Annotated[list[Phase], Field(min_length=1)]

    @model_validator(mode="after")
    def _tells_phases_apart(self) -> "Workload":
        seen: dict[tuple[str, str], str] = {}
        for phase in self.phases:
            other = seen.setdefault((phase.title, phase.cache), phase.name)
            if other != phase.name:
                raise wrong(
                    f"has the phases {other} and {phase.name} with one title, by which tables know them: change one"
                )
        return self

    @model_validator(mode="after")
    def _loses_no_client(self) -> "Workload":
        outages = [phase.outage for phase in self.phases] + [one.outage for one in self.modifiers.values()]
        if self.on_servers and any(outages):
            raise wrong("has the keys on_servers and outage, so that clients would be lost, too: remove one")
        return self

    @model_validator(mode="after")
    def _has_room(self) -> "Workload":
        small = [f"{name} {scale.device_mib}" for name, scale in self.scales if scale.device_mib < ROOM_MIB]
        timed = any(phase.timed for phase in self.phases)
        if small and timed and not self.fills():  # what is filled is as large as its content
            raise wrong(f"has a device_mib below {ROOM_MIB}, where Btrfs waits for room ({small[0]}): leave it out")
        return self

    def scale(self, name: str) -> Scale:
        """The scale of that name, one of the three."""
        return getattr(self.scales, name)

    def commands(self) -> list[tuple[str, str]]:
        """(name of the phase, command) of everything that runs in the workload's folder."""
        found = [(entry.name, entry.run) for entry in self.populate if isinstance(entry, Populate)]
        for phase in self.phases:
            found += [(phase.name, command) for command in (phase.run, phase.check) if command]
        return found

    def fills(self, zeros: bool = True) -> bool:
        """Whether it writes until no space is left, so that its content is as large as the devices.

        zeros: whether filling them with zeros counts.
        """
        commands = [command for _, command in self.commands() if zeros or ZEROS not in command]
        return any("--until-full" in command for command in commands)


class Modified(Workload):
    """A workload with its modifiers applied.

    spec: its name with them; clients: how many processes do the same; runs: how often the phases run in one file
    system; fill: percent, of files as in `ages` if it is there; pulls: of another tree, before; labs: the only ones
    that have all its modifiers.
    """

    spec: str
    clients: int = 1
    runs: int = 1
    fill: int = 0
    ages: Ages | None = None
    pulls: int = 0
    labs: list[str] | None = None

    def at(self, scale: str) -> str:
        """The beginning of error messages about it at a scale."""
        return f"{self.file}: workload {self.spec}, scale {scale}"

    def ageing(self, seed: object) -> dict[str, list[str]]:
        """Name -> command of what ages the file system first; the same for all workloads, which share what it makes.

        1,000 pulls write each of 2,000 files twice, as 10,000 pulls of Linux do.
        """
        found = {}
        if self.fill:
            how = ["age-by-profile", *self.ages.arguments()] if self.ages else ["age", "--churn", "1"]
            found["age"] = ["engine", *how, "--fill", f"{self.fill}", "--seed", f"{seed}", "."]
        if self.pulls:
            words = f"engine pulls --files 2000 --changes 4 --pulls {self.pulls} --seed {seed} pulled"
            found["pulls"] = words.split()
        return found

    def recording(self) -> str | None:
        """The name of the recording that it replays, if it does."""
        found = (RECORDING_NAME.search(command) for _, command in self.commands())
        return next((one[1] for one in found if one), None)

    def words(self, text: str, scale: str, seed: object, where: str, run: int = 1) -> list[str]:
        """One of its commands as words, its placeholders filled in: the scale's parameters, seed, run, tree:PROFILE,
        recording:NAME, sequences:NAME/OPERATION, of which %N or %{PARAMETER} takes every so many-th.

        Raises FileError, beginning with `where`, for an unknown placeholder or a missing program.
        """
        values = {key: f"{value}" for key, value in self.scale(scale).parameters().items()}
        values |= {"seed": f"{seed}", "run": f"{run}"}
        try:
            text = TREE_NAME.sub(lambda found: tree.arguments(found[1]), text)
            text = RECORDING_NAME.sub(lambda found: recording.arguments(found[1]), text)
            text = SEQUENCES_NAME.sub(lambda found: sequences.arguments(_filled(found[1], values)), text)
        except FileError:
            raise
        except UserError as error:  # no such tree or recording: the error names what asks for it
            raise FileError(f"{where}: {error}") from None
        return argv(text, values, where)


def _filled(text: str, values: dict[str, str]) -> str:
    return re.sub(r"\{([a-z_]+)\}", lambda found: values.get(found[1], found[0]), text)


def without_size(workload: str) -> str:
    """The name of a workload without its size: many-inodes+clients2 of many-inodes@8000+clients2."""
    found = SPEC.fullmatch(workload)
    return found[1] + found[4] if found else workload


def without_room(workload: str) -> str:
    """The name of a workload without the size of its file system: mdtest+fill57 of mdtest+device1024+fill57."""
    return re.sub(r"\+device[0-9]+", "", workload)


def resolve(spec: str, catalog: Catalog) -> Modified:
    """The workload of a name with modifiers. Raises UserError for one that is unknown or that it does not take."""
    found = SPEC.fullmatch(spec)
    if not found:
        raise UserError(f"workload {short(spec)} is not a name with modifiers, such as metadata@50000+clients30.")
    name, times, size, rest = found.groups()
    workload = catalog.get(Workload, name)
    profiles = [name for name in catalog.paths(Ages) if name.isalpha() and name not in LIMITS]
    numbers, own = _modifiers(spec, workload, rest, profiles)
    ages = next((catalog.get(Ages, name) for name in profiles if name in numbers), None)
    scales = _scales(spec, workload, times, size)
    if room := numbers.get("device"):
        scales = Scales(**{name: scale.model_copy(update={"device_mib": room}) for name, scale in scales})
    if "aged" in numbers and not workload.aged:
        raise UserError(f"workload {name} cannot be repeated in one file system: leave +aged out.")
    if "clients" in numbers and workload.alone:
        raise UserError(f"workload {name} is made for a single writer: leave +clients out.")
    told = [*_size(workload, times, size), *_told(numbers), *(modifier.title for modifier in own)]
    changed = {
        "title": workload.title + (f" ({', '.join(told)})" if told else ""),
        "scales": scales,
        "spec": spec,
        "clients": numbers.get("clients", 1),
        "runs": numbers.get("aged", 1),
        "fill": numbers.get(ages.name if ages else "fill", 0),
        "ages": ages,
        "pulls": numbers.get("pulls", 0),
        **_by_own(workload, own),
    }
    return Modified.model_construct(**{**dict(workload), **changed}).known_as(workload.name, workload.file)


def _size(workload: Workload, times: str, size: str | None) -> list[str]:
    """What a title says of the size that a name gives, if it does."""
    if not size:
        return []
    unit = "%" if workload.size == COMPRESS else workload.size or ""
    if size == "1" and not times:
        unit = unit.removesuffix("s")
    return [f"{int(size):,} {'times the ' if times else ''}{unit}"]


def _by_own(workload: Workload, own: list[Modifier]) -> dict[str, Any]:
    """What the workload's own modifiers change."""
    environment, labs, phases = dict(workload.environment), None, workload.phases
    for modifier in own:
        environment |= modifier.environment
        if modifier.outage:
            phases = [phase.model_copy(update={"outage": modifier.outage}) for phase in phases]
        if modifier.labs:
            labs = [lab for lab in modifier.labs if labs is None or lab in labs]
    return {"environment": environment, "phases": phases, "labs": labs}


def _told(numbers: dict[str, int]) -> list[str]:
    """What a title says of the modifiers with a number; those without words of their own are profiles of ages."""
    profiles = [name for name in numbers if name not in TOLD]
    words = TOLD | {name: f"file system aged by profile {name} and filled to {{}} %" for name in profiles}
    return [text.format(numbers[name]) for name, text in words.items() if name in numbers]


def _modifiers(spec: str, workload: Workload, rest: str, profiles: list[str]) -> tuple[dict[str, int], list[Modifier]]:
    """The modifiers with a number, and the workload's own, of `+clients2+nosync`. Raises UserError for wrong ones.

    profiles: names of profiles of ages, of which one takes the place of fill.
    """
    limits = LIMITS | dict.fromkeys(profiles, LIMITS["fill"])
    numbers: dict[str, int] = {}
    own: list[str] = []
    for word, number in re.findall(r"\+([a-z]+)([0-9]*)", rest):
        low, high = limits.get(word, (0, 0))
        fills = word in {"fill", *profiles} and not numbers.keys().isdisjoint({"fill", *profiles})
        if (word not in workload.modifiers and not high) or word in numbers or word in own or fills:
            known = several([*limits, *workload.modifiers])
            raise UserError(f"workload {spec}: +{word} is unknown or repeated; known modifiers: {known}.")
        if not high and number:
            raise UserError(f"workload {spec}: +{word} takes no number: leave {number} out.")
        if not high:
            own.append(word)
            continue
        if not number:
            raise UserError(f"workload {spec}: +{word} needs a number from {low} to {high}, like +{word}{low}.")
        if not low <= _number(number) <= high:
            raise UserError(f"workload {spec}: +{word} must be from {low} to {high}, not {number}.")
        numbers[word] = int(number)
    return numbers, [workload.modifiers[word] for word in own]


def _scales(spec: str, workload: Workload, times: str, size: str | None) -> Scales:
    """The scales, with the size N of @N or @xN. Raises FileError for a wrong key size, UserError for a wrong number."""
    key = workload.size
    for scale, values in workload.scales if key is not None else ():
        if type(values.parameters().get(key)) is not int:
            raise FileError(
                f"{workload.file}: size is {short(key)}, which is not a whole-number parameter of the scale {scale}: "
                "name one that is."
            )
    if size is None:
        return workload.scales
    if key is None:
        name = workload.name
        raise UserError(f"workload {name} has a fixed size (no key size): leave @{times}{size} out.")
    if not 1 <= _number(size) <= SIZE_MAX:
        raise UserError(f"workload {spec}: the number after @ must be from 1 to {SIZE_MAX:,}.")
    sized = {
        scale: values.resized(key, int(size) * (values.parameters()[key] if times else 1))
        for scale, values in workload.scales
    }
    return workload.scales.model_copy(update=sized)


def _number(digits: str) -> int:
    """The number, or for too many digits one beyond every limit: int() refuses thousands of digits."""
    return int(digits[:20])
