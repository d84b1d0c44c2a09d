"""A real machine (workflow/machines): what things cost there, and how far ratios predicted for it were found true."""

from typing import Annotated, Self

from pydantic import ConfigDict, Field, model_validator

from reprofs.plan.parts import Descriptor, Filled, Part, Within, wrong

ERROR = 1.25  # of machines that nothing was compared with: more than that of those that were


class Constant(Part):
    ns: Annotated[float, Within(0, 10**9, above=True)] = Field(description="Median of the rounds")
    mad: Annotated[float, Within(0, 10**9)] | None = Field(None, description="Median absolute deviation of the rounds")


class Constants(Part):
    """docs/methods/machines.md says how each is measured."""

    instruction: Constant = Field(description="CPU time for an instruction of the exact lab, in file systems")
    wake_up: Constant = Field(description="Until a process on another core that sleeps runs")


class Compared(Part):
    """What was predicted for the machine, and what it showed."""

    error: Annotated[float, Within(1, 100)] = Field(
        description="Factor by which the ratio of two file systems is off, root mean square"
    )
    told: Annotated[int, Field(ge=1, le=10**6, description="Pairs 10 % or more apart in the lab and as predicted")]
    same: Annotated[int, Field(ge=0, le=10**6, description="Those of them that have this direction there")]
    source: Filled

    @model_validator(mode="after")
    def _together(self) -> Self:
        if self.same > self.told:
            raise wrong(f"must not have more pairs in same ({self.same}) than in told ({self.told})")
        return self


class Machine(Descriptor):
    kind = "machine"
    folder = "workflow/machines"

    model_config = ConfigDict(title="A real machine, for which studies predict ratios (one file = one machine)")

    title: Filled = Field(description="Its processor")
    kernel: Filled = Field(description="Its kernel's version")
    measured: Filled = Field(description="When and how, with the number of rounds")
    constants: Constants
    wake_ups: Annotated[int, Field(ge=0, le=10)] = Field(
        2,
        description=(
            "Wake-ups that a read request of a disk in memory costs: 2 with a loop device, whose worker is woken and "
            "wakes the reader; 0 with zram, brd or null_blk"
        ),
    )
    compared: Compared | None = Field(None, description="Predictions beside measurements of this machine")

    @property
    def error(self) -> float:
        """The factor by which the ratio of two file systems is off, root mean square; ERROR where it is not known."""
        return self.compared.error if self.compared else ERROR
