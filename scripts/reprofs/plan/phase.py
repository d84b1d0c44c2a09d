"""A phase of a workload: what is timed, and what happens to the machines meanwhile."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, model_validator

from reprofs.plan.parts import Command, Filled, Limit, Part, PhaseName, text, wrong

# Programs of the engine that mount a file system again and again; their tables, too.
VISITS = ("states", "faults", "rot")


class Populate(Part):
    name: PhaseName
    run: Command
    limit_s: Limit = 3600


class Crash(Part):
    """The power of all devices is cut, at the end of the phase in place of the final sync, or in its middle.

    Then the file system is mounted again (a row of its own) and what was there before, and synced, is verified. In the
    lab exact, on profiles with backing model.
    """

    after_ms: Annotated[int, Field(ge=1, le=3600000)] | None = Field(
        None, description="After the start of the phase, which then continues in vain and is timed until then"
    )


class Outage(Part):
    """In the middle of the phase nodes are lost, and come back. The next phase begins when the file system has healed.

    server-killed: the processes of the last server are killed, and started again as the key outage of the file system
    says. server-power: the same, and its disk loses what it had not flushed. link-cut: the cable between it and the
    switch carries nothing. pair-cut: a server and another node do not hear each other. split: less than half of the
    servers, with some of the clients, and all others do not hear each other. server-stopped: all processes of a server
    get SIGSTOP, later SIGCONT. Which nodes these are follows from the seed: successive seeds take them in turn.
    """

    what: Literal["server-killed", "server-power", "link-cut", "pair-cut", "split", "server-stopped"]
    after_s: Annotated[int, Field(ge=1, le=3600)] = Field(description="After the start of the phase")
    within_s: Annotated[int, Field(ge=1, le=3600)] | None = Field(
        None, description="Up to so much later, by the seed: successive seeds spread evenly"
    )
    for_s: Annotated[int, Field(ge=1, le=3600)]

    @model_validator(mode="after")
    def _is_drawn(self) -> "Outage":
        if self.what in ("pair-cut", "split", "server-stopped") and not self.within_s:
            raise wrong(f"must have the key within_s with what: {self.what}, whose nodes follow from the seed, too")
        return self


class Phase(Part):
    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": [key]} for key in ("operation", "run", "upkeep")]}
    )

    name: PhaseName
    title: Filled
    cache: Literal["cold", "warm"] = "warm"
    operation: Literal["make-tree", "create", "stat", "read", "rename", "remove", "remove-tree"] | None = None
    order: Literal["tree", "random"] = "tree"
    run: Command | None = Field(None, description="Split like a shell would, run without a shell")
    upkeep: Literal["mount", "check", "scrub"] | None = Field(
        None,
        description=(
            "A key of the file system, whose commands are timed with cold caches: it is mounted, checked while it is "
            "not mounted, or every copy is read while it is (by the stack, where that has the copies)"
        ),
    )
    items: str = Field(
        "files",
        description=(
            "Items that the command handles: 1, a parameter of the scale, or a product such as files*workers; "
            "times in tables are divided by it"
        ),
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
    fresh: bool = Field(False, description="The file system is made anew before, so that nothing is in it")
    check: Command | None = Field(
        None, description="It must succeed after the phase, on a freshly mounted file system; not measured"
    )
    parse: Literal["fio", "iozone", "history"] | None = Field(
        None,
        description=(
            "The command's output: fio's JSON of one job in one direction (one sample), iozone's table (each "
            "number is a sample, named after its column), or the calls of engine history (the table calls)"
        ),
    )
    samples: Annotated[dict[PhaseName, Filled], Field(min_length=1)] | None = Field(
        None,
        description="Names of the command's samples -> titles; each is a row of the tables instead of the phase",
    )
    limit_s: Limit = 3600

    @model_validator(mode="after")
    def _does_one_thing(self) -> "Phase":
        if [self.operation, self.run, self.upkeep].count(None) != 2:
            raise wrong("must have one of the keys operation, run and upkeep")
        if self.upkeep and self.cache != "cold":
            raise wrong("must have cache: cold with the key upkeep, for whose commands the caches are emptied")
        return self

    @property
    def lasts(self) -> bool:
        """Whether it lasts as long as its workload says, so that its time is no result."""
        return bool(self.outage) or self.parse == "history"

    @property
    def timed(self) -> bool:
        """Whether its time is a result."""
        return not (self.lasts or self.visits)

    @property
    def visits(self) -> str:
        """The table of what it finds, if it visits crash states (engine states), faults or rot."""
        return next(
            (name for name in VISITS if (self.run or "").startswith((f"engine {name} ", f"engine {name}-"))), ""
        )

    @property
    def on_crash_disk(self) -> bool:
        """Whether it needs the disk of the device model crash."""
        return self.visits in ("states", "faults")
