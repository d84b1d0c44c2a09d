"""A machine (workflow/machines): what things cost there, as `reprofs calibrate` measured it."""

from typing import Annotated

from pydantic import ConfigDict, Field

from reprofs.plan.parts import Descriptor, Filled, Part, Within


class Constant(Part):
    ns: Annotated[float, Within(0, 10**9, above=True)] = Field(description="Median of the rounds")
    mad: Annotated[float, Within(0, 10**9)] = Field(description="Median absolute deviation of the rounds")


class Constants(Part):
    """docs/methods/machines.md says how each is measured."""

    instruction: Constant = Field(description="An instruction that waits for no memory")
    copy_: Constant = Field(alias="copy", description="A byte that a string instruction copies, in the L2 cache")
    l2: Constant = Field(description="A miss of the L1 data cache that the L2 cache has, beyond a hit")
    llc: Constant = Field(description="A miss of the L2 cache that the last cache has, beyond a hit of the L1 cache")
    mispredict: Constant = Field(description="A branch that was predicted wrongly")
    locked: Constant = Field(description="A locked instruction")
    system_call: Constant = Field(description="The shortest system call")
    wake_up: Constant = Field(description="Until a process on another core that sleeps runs")
    flush: Constant | None = Field(None, description="4 KiB written to a file and flushed to its disk")


class Machine(Descriptor):
    kind = "machine"
    folder = "workflow/machines"

    model_config = ConfigDict(title="Constants of a real machine (one file = one machine)")

    title: Filled = Field(description="Its processor")
    kernel: Filled = Field(description="Its kernel's version")
    measured: Filled = Field(description="When and how, with the number of rounds")
    constants: Constants
    wake_ups: Annotated[int, Field(ge=0, le=10)] = Field(
        2,
        description=(
            "Wake-ups that a read request of a disk in memory costs: 2 with a loop device, whose worker is woken and "
            "wakes the reader; 0 with brd"
        ),
    )
