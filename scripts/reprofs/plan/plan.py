"""The plan of a study: what trials, tables, statistics and report know of it (workflow/schemas/plan.schema.yaml)."""

import functools
import itertools
import json
import math
from collections import defaultdict
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, Field, ValidationError, model_validator

from reprofs.errors import UserError, cut, short
from reprofs.files import read_json, write_text
from reprofs.plan.cell import Cell, PlannedTrial
from reprofs.plan.device import AnyDevice, Plain, profile_names
from reprofs.plan.filesystem import PlannedFilesystem
from reprofs.plan.guest import BASE, common
from reprofs.plan.kernel import Kernel
from reprofs.plan.machine import Machine
from reprofs.plan.network import Network
from reprofs.plan.parts import Descriptor, Memory, Part, wrong
from reprofs.plan.phase import Phase
from reprofs.plan.processor import Processor
from reprofs.plan.published import Published
from reprofs.plan.recording import Recording
from reprofs.plan.stack import PlannedStack
from reprofs.plan.study import Factor, PlannedStudy, Rounds, Verdict
from reprofs.plan.workload import Scale


class LabFacts(Part):
    """What a reader of a lab's records must know about it; see `labs.Lab`."""

    clock: str = Field(description="What it counts: instructions, or wall; unknown of imports")
    clock_text: str
    meaning: str = Field(description="How to read its times, in sentences")
    exact: bool = Field(False, description="The same job always gives the same numbers")
    exclusive: bool = False
    provisions: bool = False
    models: bool = False
    processor: Processor | None = Field(None, description="Of a lab that models one")
    kernel: Kernel | None = Field(None, description="In the place of the guest's own")
    memory_mib: Memory | None = None


class PlannedWorkload(Part):
    """A workload at the study's scale, with its modifiers applied."""

    title: str
    description: str = ""
    source: str = ""
    packages: list[str] = []
    guest: str = "base"
    phases: list[Phase]
    scale: Scale | None = None
    differs: str | None = None
    size: str | None = None
    clients: int = 1
    on_servers: bool = False
    runs: int = 1
    fill: int = 0
    pulls: int = 0
    raw: bool = Field(False, description="It measures a device or a network itself")
    programs: list[str] = Field([], description="Of the load engine, that its jobs run")
    recording: Recording | None = Field(None, description="Of the program whose calls it makes again")

    @property
    def parameters(self) -> dict[str, Any]:
        """Of its scale, by name."""
        return self.scale.parameters() if self.scale else {}


class Widest(Part):
    """The ratio that is known worst. half_width: of its interval, a share; None if it has none."""

    lab: str
    stack: str
    profile: str
    workload: str
    scale: str
    phase: str
    cache: str
    best: str
    other: str
    half_width: float | None = None


class Look(Part):
    """What a look at a study gave after so many rounds."""

    rounds: int
    compared: int = Field(description="Comparisons")
    open: int = Field(description="Ratios that are not yet known well enough")
    widest: Widest | None = None


class Stopping(Part):
    """Why a study that adds rounds has no more, or that it needs more."""

    rule: Rounds
    looks: list[Look]
    enough: bool
    why: Literal["narrow", "most", "alone"] | None = Field(
        None, description="narrow: all ratios are known; most: no more rounds are planned; alone: nothing to compare"
    )


class Plan(Descriptor):
    kind = "plan"

    model_config = ConfigDict(
        title="The plan of a study (data/plan), from which its trials, tables, statistics and report are made"
    )

    layout: Literal[1] = Field(1, alias="schema")
    protocol: int = Field(0, description="The rules of its trials, a number; records of another are not its own")
    study: PlannedStudy
    trials: list[PlannedTrial] = Field([], description="In the order in which they run; not in the tables' study.json")
    labs: dict[str, LabFacts] = Field(description="By name, with its processor: exact@v2-0.5ns")
    filesystems: dict[str, PlannedFilesystem] = {}
    workloads: dict[str, PlannedWorkload] = Field(description="By name, with size and modifiers")
    devices: dict[str, AnyDevice] = {}
    networks: dict[str, Network] = {}
    machines: dict[str, Machine] = Field({}, description="For which ratios are predicted")
    stacks: dict[str, PlannedStack] = {}
    factors: list[Factor] = Field([], description="Of a study with factors: its entries by their cells, the base first")
    published: Published | None = Field(None, description="The published study that it is compared with")
    siblings: dict[str, dict[str, Verdict]] = Field(
        {}, description="Published claim -> the verdicts that other studies beside the same numbers expect on it"
    )
    stopping: Stopping | None = Field(None, description="Of a study that adds repetitions, after an interim analysis")

    @model_validator(mode="after")
    def _knows_what_it_runs(self) -> "Plan":
        for trial in self.trials:
            for name, known in (
                (trial.full_lab, self.labs),
                (trial.filesystem, self.filesystems),
                (trial.workload, self.workloads),
            ):
                if name not in known:
                    raise wrong(f"has the trial {cut(trial.id, 60)}, but does not say what {short(name)} is")
        return self

    def as_json(self) -> dict:
        """As JSON."""
        kept = super().as_json()
        optional = ("networks", "machines", "factors", "siblings")
        return {key: value for key, value in kept.items() if value or key not in optional}

    def disks(self, profile: str) -> list[AnyDevice]:
        """The device profiles of a cell's profile, that of its last disk at the end if it has one of its own.

        None of directories that were there before.
        """
        return [self.devices[name] for name in profile_names(profile) if name in self.devices]

    def unkept(self, cell: Cell) -> str:
        """Why a configuration is not durable, by its variant, stack or device model; empty if it may be."""
        filesystem = self.filesystems[cell.filesystem]
        variant = filesystem.variants.get(cell.variant)
        if variant and variant.why:
            return variant.why
        stack = self.stacks.get(cell.stack)
        reasons = [stack.why] if stack else []
        reasons += [one.why for one in self.disks(cell.profile) if isinstance(one, Plain)]
        return next(filter(None, reasons), "") if filesystem.role == "contender" else ""

    def role_of(self, cell: Cell) -> str:
        """The role of a configuration: contender, variant, ceiling (a baseline), or no-promise (not durable). Only
        contenders are ranked.

        Of the variants of one file system the first of its file is the contender wherever another file system is one,
        too: two that hardly differ would leave no file system fastest.
        """
        if self.unkept(cell):
            return "no-promise"
        known = self._contenders[_place(cell)]
        first = known.get((cell.filesystem, cell.network), cell.variant)
        alone = len({filesystem for filesystem, _ in known}) < 2
        return self.filesystems[cell.filesystem].role if alone or cell.variant == first else "variant"

    def without_trials(self) -> "Plan":
        """A copy without trials that gives each its role all the same: for processes that are given some of them."""
        _ = self._contenders  # computed here of all trials; a cached value is copied and pickled
        return self.model_copy(update={"trials": []})

    @functools.cached_property
    def _contenders(self) -> dict[tuple, dict[tuple, str]]:
        """File system and network -> the first variant, of those that may be contenders, by `_place`."""
        found: dict[tuple, dict[tuple, str]] = defaultdict(dict)
        order = {
            name: dict(zip(one.variants, itertools.count(), strict=False)) for name, one in self.filesystems.items()
        }
        for cell in sorted(self.trials, key=lambda one: order[one.filesystem].get(one.variant, math.inf)):
            if self.filesystems[cell.filesystem].role == "contender" and not self.unkept(cell):
                found[_place(cell)].setdefault((cell.filesystem, cell.network), cell.variant)
        return found

    def guest_of(self, filesystem: str, stack: str, workload: str) -> str:
        """The guest of envs/guest.yaml that a cell needs, in a lab that has guests."""
        layers = self.stacks.get(stack)
        own = self.filesystems[filesystem].guest, (layers and layers.guest) or BASE
        return common(*own, self.workloads[workload].guest)

    def memory_limits(self) -> list[int]:
        """The memory limits of its labs, in MiB."""
        return sorted({lab.memory_mib for lab in self.labs.values() if lab.memory_mib})

    def profiled(self) -> list[PlannedTrial]:
        """The trials that are run again for their profiles, by the study's key profile."""
        return [trial for trial in self.trials if trial.round == 1 and self.has_profile(trial)]

    def has_profile(self, cell: Cell) -> bool:
        """Whether a configuration's trial in the first repetition is one of `profiled`."""
        asked = self.study.profile
        processor = self.labs[cell.full_lab].processor if asked else None
        if not asked or not processor or processor.count > 1:
            return False
        named = asked.filesystems is None or {cell.filesystem, cell.label} & set(asked.filesystems)
        return bool(named and {phase.name for phase in self.workloads[cell.workload].phases} & set(asked.phases))

    def first_rounds(self, rounds: int) -> "Plan":
        """The plan with only the first repetitions."""
        trials = [trial for trial in self.trials if trial.round <= rounds]
        study = self.study.model_copy(update={"rounds": rounds})
        return self.model_copy(update={"study": study, "trials": trials})


def _place(cell: Cell) -> tuple:
    """Where file systems are compared."""
    return cell.full_lab, cell.stack, cell.profile, cell.workload, cell.scale


def write_plan(plan: Plan, path: Path) -> None:
    """Writes a plan as JSON; a file that says the same is left alone. Raises UserError."""
    write_text(path, json.dumps(plan.as_json(), indent=1, ensure_ascii=False) + "\n")


def read_plan(path: Path) -> Plan:
    """A plan that an earlier step wrote. Raises UserError when there is none, or it is of another version."""
    try:
        return Plan.model_validate(read_json(path))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(map(str, first["loc"])) or "the file"
        what = "is missing" if first["type"] == "missing" else f"is wrong ({cut(first['msg'], 80)})"
        raise UserError(f"{path}: {cut(key, 80)} {what}: run `reprofs plan` or `make report` again.") from None
