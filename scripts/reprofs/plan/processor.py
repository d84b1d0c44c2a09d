"""A processor of a lab that models it (workflow/processors): its instructions, and how long one takes."""

from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from reprofs.plan.parts import Descriptor, Filled, OneOf, Part, Within, text, wrong


class Leads(Part):
    """Pairs of file systems of which the exact lab shows that one is faster, by how much it is faster there."""

    below: Annotated[float, Within(0, 10, above=True)] | None = Field(
        None, description="Upper bound of the differences, as a share; without it all larger ones"
    )
    leads: Annotated[int, Field(ge=1, le=1000000, description="Number in the exact lab")]
    same: Annotated[int, Field(ge=0, le=1000000, description="Confirmed on a real machine")]
    turned: Annotated[int, Field(ge=0, le=1000000, description="Contradicted there; the rest is inconclusive")]

    @model_validator(mode="after")
    def _together(self) -> Self:
        if self.same + self.turned > self.leads:
            raise wrong(f"must have at least {self.same + self.turned} leads: same and turned together")
        return self

    @property
    def open(self) -> int:
        """The inconclusive pairs."""
        return self.leads - self.same - self.turned


class Total(Part):
    """All operations of a workload together, on one file system."""

    filesystem: Filled
    lab_s: Annotated[float, Within(0, 1e6, above=True)] = Field(description="Time in the exact lab, in s")
    machine_s: Annotated[float, Within(0, 1e6, above=True)] = Field(description="Time on the real machine, in s")


class Order(Part):
    source: Filled
    protocol: Annotated[int, Field(ge=1, le=1000)]
    least: Annotated[float, Within(0, 1)] = Field(0, description="The smallest difference that is counted, a share")
    profiles: Annotated[list[Filled], Field(min_length=1, description="The device profiles it was measured on")]
    filesystems: Annotated[list[Filled], Field(min_length=1, description="The file systems that were compared")]
    leads: Annotated[list[Leads], Field(min_length=1)] = Field(
        description="Of single operations, between two drivers, each with one variant; the smallest ones first"
    )
    totals: list[Total] = Field([], description="The whole workload, one file system a driver, the fastest first")

    def small(self, lead: float) -> bool:
        """Whether a difference (a share) is in the smallest band, which was not confirmed on a real machine."""
        return lead < (self.leads[0].below or 0)

    def same_order(self) -> bool:
        """Whether the real machine has the totals in the same order."""
        times = [one.machine_s for one in self.totals]
        return times == sorted(times)


class Time(Part):
    operation: str
    cache: Literal["cold", "warm"]
    ns: Annotated[float, Within(0, 1000, above=True)] = Field(description="An instruction, on the real machine")


class Times(Part):
    source: Filled
    protocol: Annotated[int, Field(ge=1, le=1000)]
    operations: Annotated[list[Time], Field(min_length=1)]


class Trust(Part):
    """How far what it says was found true on a real machine (docs/methods/trust.md)."""

    order: Order = Field(description="How often a difference between file systems was confirmed there")
    times: Times = Field(description="Time of an instruction there, by operation")


class Processor(Descriptor):
    kind = "processor"
    folder = "workflow/processors"

    model_config = ConfigDict(title="A CPU model of the exact lab (one file = one CPU model)")

    title: Filled
    ns_per_instruction: Annotated[float, OneOf((1, 0.5, 0.25))] = Field(
        description="Time of every instruction: the guest's clock runs so, its disks and timers keep theirs"
    )
    features: list[Annotated[str, text(r"^[a-z0-9][a-z0-9.-]*$", "the name of a processor's feature, like sse4.2")]] = (
        Field(description="Instruction sets beyond those of every x86-64 processor, by the names QEMU has for them")
    )
    cores: Annotated[int, Field(ge=1, le=16)] | None = Field(
        None,
        description=(
            "Number of cores, by default one. Several run in parallel in virtual time, with a QEMU that is built "
            "once (scripts/guest/qemu)"
        ),
    )
    trust: Trust | None = Field(None, description="Comparison with a real machine")
    sources: Annotated[list[Filled], Field(min_length=1)] = Field(description="Where the figures come from")

    @property
    def count(self) -> int:
        """The number of cores."""
        return self.cores or 1

    def apart(self, servers: int) -> bool:
        """Whether each server has its own core and the clients have the others; else all share all cores."""
        return 0 < servers < self.count

    @property
    def instructions_per_ns(self) -> int:
        """1, 2 or 4."""
        return round(1 / self.ns_per_instruction)
