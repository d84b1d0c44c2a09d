"""The record of `reprofs measure`: a program on one or more file systems in the exact lab."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, model_validator

from reprofs.errors import UserError, short
from reprofs.files import read_json
from reprofs.plan.parts import Descriptor, Filled, Part, once
from reprofs.plan.read import shown, validate

Count = Annotated[int, Field(ge=0, le=10**18)]
Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$", description="SHA-256")]


class Numbers(Part):
    """What a program took, from before its start until all that it wrote was on the device."""

    time_ns: Count = Field(description="Virtual time")
    user_ns: Count | None = Field(None, description="Instructions of programs; left out where they were not counted")
    kernel_ns: Count | None = Field(
        None, description="The rest of busy_ns: the kernel's instructions; left out where they were not counted"
    )
    busy_ns: Count = Field(description="In which processors worked, all together")
    idle_ns: Count = Field(description="Of all processors together: waiting for the device, a timer or each other")
    sync_ns: Count = Field(description="Of the time, writing back after the program's end")
    instructions: Count | None = Field(
        None, description="Of user and kernel; with several cores left out where not counted"
    )
    read_bytes: Count | None = Field(None, description="From the device; left out where there is none")
    written_bytes: Count | None = Field(None, description="To the device; left out where there is none")
    flushes: Count | None = Field(None, description="Of the device's cache; left out where there is none")
    exit: Count = Field(description="Exit code of the program; 128 where a signal ended it")
    signal: Count = Field(description="That ended it, or 0")
    left: bool = Field(description="It left processes running, which were ended")


class Row(Part):
    """The program on one file system and device."""

    filesystem: Filled = Field(description="With its variant: ext4+default")
    device: Filled
    status: Literal["ok", "failed", "timeout", "skipped"] = Field(description="Of the trial, not of the program")
    reason: str = Field("", description="Why the trial is not ok")
    numbers: Numbers | None = None
    output: str = Field("", description="The end of what the program wrote to stdout and stderr")
    measurement: Digest = Field(description="Of all that was measured; equal in every run of the same trial")

    @property
    def key(self) -> tuple[str, str]:
        """By which rows of two records are compared."""
        return self.filesystem, self.device


class Measured(Descriptor):
    kind = "measured"
    word = "record"

    model_config = ConfigDict(title="A measured program (the output of `reprofs measure`)")

    layout: Literal[1] = Field(1, alias="schema")
    command: Annotated[list[str], Field(min_length=1)]
    environment: dict[str, str] = Field(description="All environment variables that the program had")
    image: Digest = Field(description="Of all files of the program, its input, command and environment")
    files: Count
    bytes: Count
    cache: Literal["cold", "warm"]
    lab: Filled
    cores: Count
    protocol: Count
    reprofs: Filled
    commit: str
    lock_sha256: Digest = Field(description="Of the guest's packages")
    rows: Annotated[list[Row], Field(min_length=1)]

    @model_validator(mode="after")
    def _each_once(self) -> "Measured":
        once([" ".join(row.key) for row in self.rows])
        return self


def read(path: Path) -> Measured:
    """A record from a file. Raises UserError, naming file, line and key, for one that is none."""
    if not path.is_file():
        raise UserError(f"there is no file {short(str(path))}: name a record that `reprofs measure --output` wrote.")
    return validate(read_json(path), Measured, shown(path)).known_as(path.stem, shown(path))
