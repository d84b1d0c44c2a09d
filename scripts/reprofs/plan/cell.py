"""A configuration of a study (Cell) by its names, and a trial: a configuration in one repetition.

Records, tables and file names join a lab with its processor, its kernel and a limit of memory, and a variant with its
network: exact@v2-0.5ns, exact@v2-0.5ns@debian-6.1, exact@v2-0.5ns@64mib, v4.2@lan-1g. These texts are made and taken
apart here and nowhere else.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

from pydantic import Field

from reprofs.errors import UserError, short
from reprofs.plan.parts import Part

MEMORY = re.compile(r"@(-?[0-9]{1,9})mib$")
# What names a cell in records and tables: the keys of `Cell.names`.
CELL = ("lab", "stack", "profile", "filesystem", "variant", "workload", "scale")


def joined(name: str, more: str | None) -> str:
    """exact@v2-0.5ns of exact and v2-0.5ns; exact of exact and nothing."""
    return f"{name}@{more}" if more else name


def apart(text: str) -> tuple[str, str | None]:
    """("exact", "v2-0.5ns") of exact@v2-0.5ns; ("exact", None) of exact."""
    name, _, more = text.partition("@")
    return name, more or None


class Place(NamedTuple):
    """A lab with its processor, its kernel and the memory (MiB) that a trial may fill; None where there is none."""

    lab: str
    processor: str | None = None
    kernel: str | None = None
    memory_mib: int | None = None

    def text(self) -> str:
        """exact@v2-0.5ns@64mib; exact@@debian-6.1 has no processor of its own."""
        memory = f"{self.memory_mib}mib" if self.memory_mib is not None else None
        own = joined(self.processor or "", self.kernel)
        return joined(joined(self.lab, own), memory)


def lab_parts(text: str) -> Place:
    """The inverse of `Place.text`. Raises UserError for an incomplete text."""
    if text.endswith("@"):
        raise UserError(
            f"{short(text)} ends with @: name a CPU model, kernel or memory limit after it, or remove the @."
        )
    memory = MEMORY.search(text)
    lab, rest = apart(text[: memory.start()] if memory else text)
    processor, kernel = apart(rest or "")
    return Place(lab, processor or None, kernel, int(memory[1]) if memory else None)


def taken_apart(names: Mapping[str, Any]) -> dict[str, Any]:
    """Names as records and tables have them, with processor, kernel, memory and network as fields of their own."""
    variant, network = apart(names["variant"])
    return {**names, **lab_parts(names["lab"])._asdict(), "variant": variant, "network": network}


class Cell(Part):
    """The names of a cell's parts. A processor and a network are left out where there is none, or it is the default; a
    kernel where it is the guest's own; memory_mib where a trial may fill all that there is."""

    lab: str
    processor: str | None = Field(None, description="Of a lab that models its processor")
    kernel: str | None = Field(None, description="Of a lab that models its processor, in the place of the guest's own")
    memory_mib: int | None = Field(None, description="MiB of memory that the phases may fill")
    stack: str
    profile: str
    filesystem: str
    variant: str
    network: str | None = Field(None, description="Of a file system with hosts")
    workload: str = Field(description="With its size and modifiers")
    scale: str

    @property
    def full_lab(self) -> str:
        """The lab with its processor, its kernel and its memory."""
        return Place(self.lab, self.processor, self.kernel, self.memory_mib).text()

    @property
    def full_variant(self) -> str:
        """The variant with its network."""
        return joined(self.variant, self.network)

    @property
    def label(self) -> str:
        """The file system with its variant."""
        return f"{self.filesystem}+{self.full_variant}"

    def names(self) -> dict[str, str]:
        """As records and tables have them (CELL)."""
        whole = {"lab": self.full_lab, "variant": self.full_variant}
        return {key: whole.get(key) or getattr(self, key) for key in CELL}


Whole = Annotated[int, Field(ge=-(2**63), lt=2**63)]  # as tables have it


class Trial(Cell):
    """A cell in one round. order: its place among all trials of its study, if it is one of them."""

    round: Whole
    seed: Whole = Field(description="Of names, sizes, contents and order")
    order: Whole | None = None

    def names(self) -> dict:
        """As records have them (CELL, round, seed, order)."""
        return {**super().names(), "round": self.round, "seed": self.seed, "order": self.order}


class PlannedTrial(Trial):
    """A trial of a plan, with its name, which its files have too, and the digest of its job."""

    id: str
    job_sha256: str


def trial_id(trial: Trial) -> str:
    """The name of a trial: r1-exact@v2-0.5ns-single-ssd-btrfs+zstd-metadata-smoke."""
    place = f"{trial.full_lab}-{trial.stack}-{trial.profile}"
    return f"r{trial.round}-{place}-{trial.label}-{trial.workload}-{trial.scale}"
