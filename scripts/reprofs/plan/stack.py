"""A stack of block devices: from `md-raid6+lvm@12` to the commands that build, read back, break and take it down.

A file in workflow/stacks is one layer. A layer gets devices from below (the disks, or what the layer below made) and
hands devices to the layer above, or to the file system.
"""

import math
import re
import shlex
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field

from reprofs import errors
from reprofs.errors import FileError, UserError
from reprofs.plan.catalog import Catalog
from reprofs.plan.command import argv, expand, fill
from reprofs.plan.guest import BASE, common, known_guest
from reprofs.plan.parts import Command, Descriptor, Expression, Filled, Part, Promising, text

_DATA = {
    "n": lambda n: n,
    "n-1": lambda n: n - 1,
    "n-2": lambda n: n - 2,
    "n-3": lambda n: n - 3,
    "n/2": lambda n: n / 2,
    "1": lambda n: 1,
}


EACH = ("{disks}", "{mapped}")  # as many devices as come from below


class DiskCount(Part):
    default: Annotated[int, Field(ge=1, le=32)]
    least: Annotated[int, Field(ge=1, le=32)] = 1
    multiple_of: Annotated[int, Field(ge=1, le=32)] = 1
    only: bool = Field(False, description="No other number than the default")


DeviceWords = Annotated[
    str, text(r"^[A-Za-z0-9/{][A-Za-z0-9/{}_.:+ -]*$", "a device file, a placeholder, or words before some of these")
]


class Readback(Part):
    run: Command
    expect: Annotated[list[str], Field(min_length=1)] = Field(
        description="Extended regular expressions that the output must match"
    )


class Fault(Part):
    state: Literal["degraded", "rebuilding", "snapshot"]
    run: list[Command]
    readback: list[Readback]
    rebuild: str = Field("", description="File that says idle once the spare is in sync")


class Layer(Promising, Descriptor):
    kind = "stack"
    folder = "workflow/stacks"

    model_config = ConfigDict(
        title="A stack of block devices under a file system (one file = one layer; every key is explained in"
        " workflow/stacks/_template.yaml)"
    )

    title: Filled
    disks: DiskCount
    data: Literal["n", "n-1", "n-2", "n-3", "n/2", "1"] = Field("n", description="Data capacity in disks")
    least_mib: Annotated[int, Field(ge=16, le=1048576)] = Field(32, description="No disk under this layer is smaller")
    filesystem: Annotated[
        str,
        text(r"^([a-z0-9][a-z0-9.-]*)?$", "the name of the only file system that can use it, or empty for any"),
    ] = ""
    packages: list[str] = []
    guest: Annotated[str, AfterValidator(known_guest)] = Field(
        BASE, description="Which guest of envs/guest.yaml has its tools"
    )
    modules: list[str] = []
    build: list[Command] = []
    devices: Annotated[list[DeviceWords], Field(min_length=1)] = Field(
        ["{disks}"], description="What the layer above or the file system gets"
    )
    makes: list[Annotated[str, text("^/dev/", "a path in /dev")]] = Field(
        [], description="What must not be there before, in the lab host"
    )
    last: str = Field(
        "", description="What the last disk is for, in a word, where it may have a device profile of its own"
    )
    layout: str = Field("", description="Words for the file system's make command, as {layout}")
    mount: str = Field("", description="Options for the file system's mount command, besides its variant's")
    check: list[Command] | None = Field(None, description="Instead of the file system's own")
    readback: list[Readback] = []
    summary: list[Expression] = Field(
        [], description="Which lines of a readback that prints more than two a reader sees: regular expressions"
    )
    resync: list[str] = Field([], description="Files that say idle once the array is in sync")
    cold: list[Command] = Field(
        [], description="Run where caches are dropped, unmounted: what the layer itself keeps in memory"
    )
    fault: Fault | None = None
    scrub: list[Command] = Field([], description="Mounted, reads every copy; exit code 0: all is well, 1: not")
    repair: list[Command] = Field([], description="Makes the copies agree, where the scrub does not")
    stop: list[Command] = Field([], description="Takes the layer down and leaves what is on the disks")
    assemble: list[Command] = Field([], description="Brings it back from what is on the disks, also after a power cut")
    teardown: list[Command] = Field([], description="After stop, at the end: wipes what is left on the disks")


@dataclass
class Placed:
    """A layer in its place: `count` devices come from below."""

    layer: Layer
    count: int

    def values(self, below: list[str], assume_clean: bool) -> dict[str, str]:
        """Placeholder -> text, for `count` devices from below."""
        half = self.count // 2
        mirrors = " ".join(f"mirror {a} {b}" for a, b in zip(below[::2], below[1::2], strict=False))
        return {
            "disks": " ".join(below),
            "mapped": " ".join(f"/dev/mapper/reprofs-{number}" for number in range(self.count)),
            "count": str(self.count),
            "others": " ".join(below[:-1]),
            "others_count": str(self.count - 1),
            "last": below[-1],
            "first_half": " ".join(below[:half]),
            "second_half": " ".join(below[half:]),
            "half_count": str(half),
            "mirrors": mirrors,
            "clean": "--assume-clean" if assume_clean else "",
            **{f"disk{i}": path for i, path in enumerate(below)},
        }


@dataclass
class Commands:
    """The commands of a stack on given disks; every list is in the order of execution.

    packages, modules: what they need; makes: the paths in /dev that they create; build, fault, teardown: commands
    (lists of words); stop, assemble: take it down and bring it back from what the disks hold; readback, faulted:
    (command, expressions that its output must match), before and after the fault; resync: files that say idle once the
    redundancy is complete; rebuild: the same for a spare, or empty; scrub, repair: of all copies; cold: empties the
    layers' own caches in memory; devices, layout, mount: for the file system; check: in the place of its own.
    """

    devices: list[str]
    layout: str = ""
    mount: str = ""
    check: list[list[str]] | None = None
    packages: list[str] = field(default_factory=list)
    modules: list[str] = field(default_factory=list)
    makes: list[str] = field(default_factory=list)
    build: list[list[str]] = field(default_factory=list)
    resync: list[str] = field(default_factory=list)
    readback: list[tuple[list[str], list[str]]] = field(default_factory=list)
    cold: list[list[str]] = field(default_factory=list)
    fault: list[list[str]] = field(default_factory=list)
    faulted: list[tuple[list[str], list[str]]] = field(default_factory=list)
    rebuild: str = ""
    scrub: list[list[str]] = field(default_factory=list)
    repair: list[list[str]] = field(default_factory=list)
    stop: list[list[str]] = field(default_factory=list)
    assemble: list[list[str]] = field(default_factory=list)
    teardown: list[list[str]] = field(default_factory=list)


class PlannedStack(Part):
    """What a plan says of a stack with its number of disks."""

    title: str
    family: str = Field(description="Its name without the number of disks")
    disks: int
    filesystem: str = Field("", description="The only file system that can use it, or empty")
    state: str = "healthy"
    layers: list[str]
    summary: list[str] = []
    why: str | None = Field(None, description="Where what fsync promises is not kept")
    guest: str | None = Field(None, description="Which guest its tools are in, if not in base")


class Stack(PlannedStack):
    """A stack with its number of disks, in full."""

    name: str = Field(description="In normal form")
    placed: list[Placed]
    disk_share: float = Field(description="How many disks' worth of data the file system gets")
    last: str = Field("", description="What the last disk is for, where it may have a device profile of its own")

    def disk_mib(self, device_mib: int) -> int:
        """MiB of one disk, so that the file system gets about `device_mib` whatever the stack is made of."""
        least = max(placed.layer.least_mib for placed in self.placed)
        return max(math.ceil(device_mib / self.disk_share), least) if self.disks > 1 else device_mib

    def initial_sync(self, assume_clean: bool) -> str:
        """Whether the redundancy is complete before the file system is made, and why; for the record."""
        commands = [command for placed in self.placed for command in placed.layer.build]
        if not any("{clean}" in command for command in commands):
            return "none needed" if not self.filesystem else "none needed: the file system writes its own redundancy"
        return "assumed clean: the disks read as zeros" if assume_clean else "finished before the file system was made"

    def commands(self, disks: list[str], assume_clean: bool, mountpoint: str) -> Commands:
        """What to run on the device files `disks`. Raises FileError for a bad command in a layer's file."""
        made = Commands(disks)
        for placed in self.placed:
            layer, where = placed.layer, placed.layer.file
            values = {**placed.values(made.devices, assume_clean), "mountpoint": mountpoint}

            def lines(key: str, templates: list[str], values=values, where=where) -> list[list[str]]:
                return [argv(template, values, f"{where}: {key}") for template in templates]

            def checks(readback: list[Readback], values=values, where=where) -> list[tuple[list[str], list[str]]]:
                # Expressions have braces of their own: only {count} and its like are filled in, by name.
                return [
                    (argv(item.run, values, f"{where}: readback"), [_regex(e, values) for e in item.expect])
                    for item in readback
                ]

            fault = layer.fault
            made.packages += layer.packages
            made.modules += layer.modules
            made.makes += layer.makes
            made.build += lines("build", layer.build)
            made.resync += [] if assume_clean else layer.resync
            made.readback += checks(layer.readback)
            made.faulted += checks(fault.readback if fault else layer.readback)
            made.cold += lines("cold", layer.cold)
            made.scrub += lines("scrub", layer.scrub)
            made.repair += lines("repair", layer.repair)
            if fault:
                made.fault, made.rebuild = lines("run", fault.run), fault.rebuild
            stop = lines("stop", layer.stop)
            made.stop = stop + made.stop
            made.assemble += lines("assemble", layer.assemble)
            made.teardown = stop + lines("teardown", layer.teardown) + made.teardown
            made.mount = fill(layer.mount, values, f"{where}: mount")
            made.check = lines("check", layer.check) if layer.check else None
            made.layout = shlex.join(expand(layer.layout, values, f"{where}: layout"))
            made.devices = [
                path for template in layer.devices for path in expand(template, values, f"{where}: devices")
            ]
            if not made.devices:
                raise FileError(f"{where}: devices is empty: name at least one for the layer or file system above.")
        return made


def resolve(spec: str, catalog: Catalog) -> Stack:
    """The stack of a specification `layer+layer@disks`, lower layers first.

    Raises UserError for an unknown layer, a number of disks that a layer cannot have, or layers that do not fit.
    """
    family, at, number = spec.partition("@")
    names = family.split("+")
    layers = [catalog.get(Layer, name) for name in names]
    if at and not re.fullmatch("[0-9]{1,3}", number):
        raise UserError(f"stack {spec}: '{number}' is not a number of disks: write for example {family}@6.")
    default = layers[0].disks.default
    count = int(number) if number else default
    placed, share = _placed(spec, layers, count)
    faults = [(layer.name, layer.fault.state) for layer in layers if layer.fault]
    if len(faults) > 1:
        named = ", ".join(name for name, _ in faults)
        raise UserError(f"stack {spec}: only one layer may have a fault, but these have: {named}.")
    guest = common(*(layer.guest for layer in layers))
    return Stack(
        name=family if count == default else f"{family}@{count}",
        family=family,
        title=" over ".join(layer.title for layer in layers[::-1]) + (f", {count} disks" if count > 1 else ""),
        disks=count,
        filesystem=layers[-1].filesystem,
        state=faults[0][1] if faults else "healthy",
        placed=placed,
        layers=names,
        summary=[line for layer in layers for line in layer.summary],
        disk_share=share * count,
        why=next((layer.why for layer in layers if layer.why), None),
        last=layers[0].last,
        guest=None if guest == BASE else guest,
    )


def _placed(spec: str, layers: list[Layer], incoming: int) -> tuple[list[Placed], float]:
    """The layers in their places over so many disks, and what share of these disks holds data."""
    placed, share = [], 1.0
    for layer in layers:
        disks = layer.disks
        if disks.default < disks.least or disks.default % disks.multiple_of:
            raise FileError(
                f"{layer.file}: disks.default is {disks.default}, but must be at least {disks.least} (least) and a "
                f"multiple of {disks.multiple_of} (multiple_of)."
            )
        _check_count(spec, layer, incoming, lowest=layer is layers[0])
        if layer.filesystem and layer is not layers[-1]:
            raise UserError(f"stack {spec}: {layer.name} is part of {layer.filesystem}: put it last.")
        share *= _DATA[layer.data](incoming) / incoming
        if share <= 0:
            raise FileError(
                f"{layer.file}: data is {layer.data}, which leaves nothing with {incoming} disks: raise disks.least."
            )
        placed.append(Placed(layer, incoming))
        incoming = sum(incoming if device in EACH else 1 for device in layer.devices)
    return placed, share


def _check_count(spec: str, layer: Layer, count: int, lowest: bool) -> None:
    name, limits = layer.name, layer.disks
    what = "disks" if lowest else "devices from the layer below"
    if limits.only and count != limits.default:
        one = "disk" if lowest else "device from the layer below"
        raise UserError(f"stack {spec}: {name} takes {errors.count(limits.default, one, what)}, not {count}.")
    if not limits.least <= count <= 32 or count % limits.multiple_of:
        step = f" and a multiple of {limits.multiple_of}" if limits.multiple_of > 1 else ""
        raise UserError(f"stack {spec}: {name} takes {limits.least} to 32 {what}{step}, not {count}.")


def _regex(expression: str, values: dict[str, str]) -> str:
    for name in ("count", "others_count", "half_count"):
        expression = expression.replace("{" + name + "}", values[name])
    return expression
