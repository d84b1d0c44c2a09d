"""A study (config/studies): its question, its configurations, and the order of their trials in every repetition."""

import itertools
import random
import re
from collections.abc import Container, Sequence
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    ConfigDict,
    Discriminator,
    Field,
    PlainValidator,
    Tag,
    WithJsonSchema,
    model_validator,
)

from reprofs.errors import UserError, short
from reprofs.plan import NETWORK, PROCESSOR
from reprofs.plan.catalog import Catalog
from reprofs.plan.cell import Cell, Place, lab_parts
from reprofs.plan.device import Device, profile_names
from reprofs.plan.filesystem import Filesystem, variant_of
from reprofs.plan.network import Network
from reprofs.plan.parts import (
    Descriptor,
    Filled,
    Limit,
    Memory,
    Names,
    Part,
    PhaseName,
    Systems,
    Within,
    Word,
    once,
    text,
    wrong,
)
from reprofs.plan.read import unknown
from reprofs.plan.stack import resolve as resolve_stack
from reprofs.plan.workload import Scales

SCALES = tuple(Scales.model_fields)
AXES = ("labs", "stacks", "profiles", "filesystems", "workloads")
Notebook = Annotated[
    str,
    text(
        r"^[a-z][a-z0-9-]*\.ipynb$",
        "the name of a file in notebooks/: lower-case letters, digits and hyphens, a letter first, then .ipynb",
        128,
    ),
]
Notebooks = Annotated[
    list[Notebook], Field(min_length=1, json_schema_extra={"uniqueItems": True}), AfterValidator(once)
]


class Cross(Part):
    labs: Names | None = None
    processors: Names | None = Field(
        None,
        description=(
            "CPU models of the lab exact: names of workflow/processors. A lab may name its own: exact@v1-1ns. "
            f"Default: {PROCESSOR}"
        ),
    )
    kernels: Names | None = Field(
        None,
        description=(
            "Kernels of the guest in these labs: names of workflow/kernels, after the CPU model and @: "
            "exact@v2-0.5ns@debian-6.1. Default: the guest's own"
        ),
    )
    memory_mib: Annotated[list[Literal["all"] | Memory], Field(min_length=1), AfterValidator(once)] | None = Field(
        None,
        description=(
            "Memory limits of the phases in MiB, with file cache and kernel memory; all is no limit. After the lab "
            "and @: exact@v2-0.5ns@64mib. Default: all"
        ),
    )
    stacks: Names | None = Field(None, description="name, name@disks, or layers from below: md-raid6+lvm@12")
    profiles: Names | None = Field(
        None,
        description="Device model of all disks of a stack; name+name if the last disk has its own: hdd-7200+ssd-nvme",
    )
    filesystems: Systems | None = Field(
        None,
        description="name for the first variant of its file, name+variant for another, name+variant+option+option for"
        " one with further mount options: ext4+default+commit=60. Options of the command that makes it have colons for"
        " blanks: ext4+default+mkfs:-O:fast_commit",
    )
    networks: Names | None = Field(
        None,
        description="Of the file systems with hosts: names of workflow/networks; where there are several, they follow"
        f" the variant after @, as nfs-xfs+v3-sync@lan-1g. Without this key {NETWORK}",
    )
    workloads: Names | None = None


class Entry(Cross):
    rounds: Annotated[int, Field(ge=1, le=1000)] | None = Field(
        None, description="Only the first repetitions, for slow configurations. Default: all"
    )
    factor: Filled | None = Field(
        None,
        description=(
            "The change from the base, in a few words. The base is the entry without this key; ratios refer to the "
            "last of its file systems"
        ),
    )


class Margins(Part):
    win: Annotated[float, Within(0, 1)] = Field(0.02, description="Smaller differences are not named (0.02 is 2 %)")
    equal: Annotated[float, Within(0, 1, above=True)] = Field(
        0.05, description="Times shown to differ by no more are equivalent"
    )

    @model_validator(mode="after")
    def _agree(self) -> "Margins":
        if self.win > self.equal:
            raise wrong("must not have a win above equal: a difference between them would be neither")
        return self


class Profiled(Part):
    phases: Annotated[list[PhaseName], Field(min_length=1), AfterValidator(once)] = Field(
        description="The ones that the report shows; all are counted"
    )
    filesystems: Systems | None = Field(None, description="A subset of the study's own. Default: all")


def _percentage(value: Any) -> str:
    found = re.fullmatch(r"(\d{1,3}(\.\d{1,6})?) ?%", value) if isinstance(value, str) else None
    if not found or not 0 < float(found[1]) <= 100:
        raise wrong(f"is {short(value)}, but must be a percentage above 0 % and up to 100 %, such as 5 %")
    return f"{found[1]} %"


class Rounds(Part):
    min: Annotated[int, Field(ge=2, le=1000)] = Field(description="Minimum; after it is the first interim analysis")
    max: Annotated[int, Field(ge=2, le=1000)] = Field(description="Maximum")
    until: Annotated[
        str,
        PlainValidator(_percentage),
        WithJsonSchema({"type": "string", "pattern": r"^\d{1,3}(\.\d{1,6})? ?%$"}),
    ] = Field(
        description=(
            "Half-width of a ratio's interval at which no more repetitions are needed, such as 5 %: of the best "
            "contender of each workload to every other that does not differ significantly"
        )
    )

    @model_validator(mode="after")
    def _in_order(self) -> "Rounds":
        if self.max < self.min:
            raise wrong(f"must have a max of at least its min, {self.min}")
        return self

    def looks(self) -> list[int]:
        """The numbers of rounds after which the study may end: min, then half as many again, up to max.

        Few looks mean few chances to stop by luck, and rounds that many processors can share.
        """
        found = [self.min]
        while found[-1] < self.max:
            found.append(min(self.max, found[-1] + (found[-1] + 1) // 2))
        return found


FIXED = "the number of rounds was fixed before the first trial"


Verdict = Literal[
    "reproduced",
    "same direction",
    "contradicted",
    "undecided",
    "same regime",
    "at another size",
    "not decidable here",
    "not available",
]
NOT_HERE: Verdict = "not decidable here"
ABSENT: Verdict = "not available"  # what it is about: a product that nobody can have here


class Design(Cross):
    title: Filled
    question: Filled
    cells: Annotated[list[Entry], Field(min_length=1)] | None = Field(
        None, description="Several crosses instead of one; an entry takes missing keys from above"
    )
    scale: Literal["smoke", "laptop", "paper"]
    rounds: Annotated[
        Annotated[int, Field(ge=1, le=1000), Tag("number")] | Annotated[Rounds, Tag("Rounds")],
        Discriminator(lambda value: "Rounds" if isinstance(value, dict | Rounds) else "number"),
    ] = Field(description="Number of repetitions, or a rule that adds them")
    stop: str | None = Field(FIXED, description="Why there are no more repetitions; not with a rule")
    seed: Annotated[int, Field(ge=0, le=10**12)]
    margins: Margins | None = Field(None, description="Which differences matter. Default: win 0.02, equal 0.05")
    published: str | None = Field(None, description="Numbers of data/published that the study is compared with")
    stands_in: dict[str, Filled] | None = Field(
        None, description="Published stack or file system -> the study's own that it is mapped to"
    )
    expected: dict[Verdict, list[Word]] | None = Field(
        None, description="Verdict -> ids of the published claims that have it at this study's scale"
    )
    ratios: dict[Word, list[Annotated[float, Within(0, 1e6, above=True)]]] | None = Field(
        None,
        description="Claim not at comparable scale -> its ratio as measured; checked instead of a verdict",
    )
    profile: Profiled | None = Field(
        None,
        description="Trials of the first repetition that run again to count instructions (exact lab, one core)",
    )
    predict: Names | None = Field(
        None,
        description="Machines for which ratios of the exact lab (one core) are predicted: names of workflow/machines",
    )
    notebooks: Notebooks | None = Field(
        None, description="Your own files of notebooks/; they follow the parts of the report"
    )
    time_limit_s: Limit = Field(1800, description="Host seconds after which a trial is recorded as timeout")

    @model_validator(mode="after")
    def _has_enough_rounds(self) -> "Design":
        least = self.rounds.min if isinstance(self.rounds, Rounds) else self.rounds
        for entry in self.cells or []:
            if entry.rounds and entry.rounds > least:
                raise wrong(
                    f"has {entry.rounds} rounds in an entry of cells, but {least} at its top level: raise these"
                )
        return self

    @model_validator(mode="after")
    def _has_one_base(self) -> "Design":
        named = [entry.factor for entry in self.cells or [] if entry.factor]
        if named and len(named) != len(self.cells or []) - 1:
            raise wrong("must have one entry of cells without the key factor: the base")
        if len(set(named)) < len(named):
            raise wrong("must not have a factor twice in cells")
        if named and not self.published:
            raise wrong("must have the key published, whose numbers its factors explain")
        for key in ("stands_in", "expected", "ratios"):
            if getattr(self, key) and not self.published:
                raise wrong(f"must have the key published, which {key} needs")
        return self

    @property
    def rule(self) -> Rounds | None:
        """The rule that adds repetitions, if any."""
        return self.rounds if isinstance(self.rounds, Rounds) else None

    def most_rounds(self) -> int:
        """The number of repetitions, or the maximum if they adapt."""
        return self.rounds.max if isinstance(self.rounds, Rounds) else self.rounds

    def looks(self) -> list[int]:
        """The numbers of rounds after which the study may end: one where it is fixed."""
        return self.rounds.looks() if isinstance(self.rounds, Rounds) else [self.rounds]

    def order(self, count: int) -> list[tuple[int, int]]:
        """(round, number of the cell) of every trial of a study of `count` cells, in order.

        Randomised complete blocks: a round is a block, holds every cell once, and is shuffled by a generator seeded
        with the study's seed and the round, so that the order can be reproduced.
        """
        found = []
        for number in range(1, self.most_rounds() + 1):
            block = list(range(count))
            random.Random(f"{self.seed}/{number}").shuffle(block)
            found += [(number, cell) for cell in block]
        return found

    def crosses(self, catalog: Catalog, modelled: Container[str] = ()) -> list[tuple[Entry, list[Cell]]]:
        """The entries of the study, each with its cells: one entry without names where the key cells is left out.

        modelled: the labs that model their processor; they get the default one where the study names none. Raises
        UserError for a missing axis or an unknown name.
        """
        found = []
        for number, entry in enumerate(self.cells or [Entry()], 1):
            where = f"entry {number} of cells and the top level" if self.cells else "the top level"

            def axis(key: str, default: list[str] | None = None, entry=entry, where=where) -> list[str]:
                value = getattr(entry, key) or getattr(self, key) or default
                if value is None:
                    raise UserError(f"key '{key}' is missing at {where}: add it.")
                return value

            labs, stacks, profiles, filesystems, workloads = map(axis, AXES)
            processors, networks = axis("processors", [PROCESSOR]), axis("networks", [NETWORK])
            kernels, memory = entry.kernels or self.kernels, entry.memory_mib or self.memory_mib or ["all"]
            places = [full for lab in labs for full in _places(lab, processors, kernels, memory, modelled)]
            systems = [full for spec in filesystems for full in _on_networks(spec, networks, catalog)]
            own: dict[Cell, None] = {}
            for place, stack, profile, (filesystem, variant, network), workload in itertools.product(
                places, stacks, profiles, systems, workloads
            ):
                cell = Cell(
                    **place._asdict(),
                    stack=resolve_stack(stack, catalog).name,
                    profile=profile,
                    filesystem=filesystem,
                    variant=variant,
                    network=network,
                    workload=workload,
                    scale=self.scale,
                )
                for name in profile_names(profile):
                    catalog.get(Device, name)
                own[cell] = None
            found.append((entry, list(own)))
        return found


class Study(Design, Descriptor):
    kind = "study"
    folder = "config/studies"

    model_config = ConfigDict(title="A study (a question and the cells that answer it)")

    @model_validator(mode="after")
    def _has_one_reason(self) -> "Study":
        if isinstance(self.rounds, Rounds) and "stop" in self.model_fields_set:
            raise wrong("must not have both stop and rounds with until: leave stop out")
        return self


class Overridden(Part):
    """What took the place of a study's own labs, profiles or file systems."""

    text: str = Field(description="As it is written after `make report STUDY=NAME`")
    own: dict[str, list[str]] = Field(description="The study's own labs, profiles, ...")
    left_out: list[str] = Field([], description="Configurations that are impossible with it, and why: sentences")


class _Named(Part):
    name: str = Field(description="With @ and its scale where that is not the one of its file")


class PlannedStudy(Design, _Named):
    """A study in a plan."""

    stop: str | None = Field(None, description="Why there are no more repetitions; missing if a rule says so")
    override: Overridden | None = None

    @property
    def base(self) -> str:
        """The name of its file."""
        return self.name.partition("@")[0]

    def with_left_out(self, sentences: list[str]) -> "PlannedStudy":
        """The overridden study with sentences about the configurations that were left out."""
        override = self.override and self.override.model_copy(update={"left_out": sentences})
        return self.model_copy(update={"override": override})

    @property
    def predictions(self) -> str:
        """The file in which what its changes do was written down before a real machine was measured, if it was.

        It has the name of the study itself, without what a run of it changed (as LAB=exact does).
        """
        return f"data/predictions/{self.name.partition('+')[0]}.csv"


def study_of(name: str, catalog: Catalog) -> PlannedStudy:
    """The study NAME, or NAME@SCALE for a scale other than its file's. Raises UserError for an unknown name."""
    base, at, scale = name.partition("@")
    study = catalog.get(Study, base)
    if at and scale not in SCALES:
        raise unknown("scale", scale, SCALES)
    made = dict(study) | {"name": name, "scale": scale if at else study.scale}
    return PlannedStudy.model_construct(**made | {"stop": None if study.rule else study.stop})


class Factor(Part):
    """An entry of a study with factors, by its cells. title: None of the base."""

    title: str | None = None
    cells: list[Cell]


def factors(crosses: Sequence[tuple[Entry, list[Cell]]]) -> list[Factor]:
    """The entries of a study with factors, the base first. Empty for other studies.

    Raises UserError when an entry has two cells of one file system, or a file system that the base does not have.
    """
    if not any(entry.factor for entry, _ in crosses):
        return []
    found = [Factor(title=entry.factor, cells=cells) for entry, cells in crosses]
    found.sort(key=lambda factor: factor.title is not None)
    base = [cell.filesystem for cell in found[0].cells]
    for factor in found:
        names = [cell.filesystem for cell in factor.cells]
        place = f"cells: factor '{factor.title}'" if factor.title else "cells: the base"
        for name in names:
            if names.count(name) > 1:
                raise UserError(f"{place} has {names.count(name)} entries for {name}: leave one of each file system.")
            if name not in base:
                raise UserError(f"{place} has {name}, which is not in the base: remove it here, or add it there.")
    return found


def _places(
    lab: str,
    processors: list[str],
    kernels: list[str] | None,
    memory: Sequence[Literal["all"] | int],
    modelled: Container[str],
) -> list[Place]:
    """A lab with each processor, kernel and memory; once where it names its own, or can have none."""
    own = lab_parts(lab)
    limits = [None if one == "all" else one for one in memory]
    if own.memory_mib is not None:
        limits = [own.memory_mib]
    if own.lab not in modelled:
        return [own._replace(memory_mib=limit) for limit in limits]
    named: list[str | None] = [own.kernel] if own.kernel or not kernels else [*kernels]
    every = itertools.product([own.processor] if own.processor else processors, named, limits)
    return [Place(own.lab, *parts) for parts in every]


def _on_networks(spec: str, networks: list[str], catalog: Catalog) -> list[tuple[str, str, str | None]]:
    """A file system and its variant, once for each network; once without one if it has no hosts."""
    name, variant = variant_of(spec, catalog)
    for network in networks:  # a misspelt one is named also where there is nothing to connect
        catalog.get(Network, network)
    if not catalog.get(Filesystem, name).hosts:
        return [(name, variant, None)]
    return [(name, variant, network) for network in networks]
