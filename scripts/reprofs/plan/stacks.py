"""Stacks of block devices: from `md-raid6+lvm@12` to the commands that build, read back, break and take it down.

A file in workflow/stacks is one layer. A layer gets devices from below (the disks, or what the layer below made) and
hands devices to the layer above, or to the file system.
"""

from __future__ import annotations

import functools
import math
import re
import shlex
import string
from dataclasses import dataclass, field

from reprofs.errors import FileError, UserError, cut, short
from reprofs.plan import models
from reprofs.plan.catalog import Catalog

_DATA = {
    "n": lambda n: n,
    "n-1": lambda n: n - 1,
    "n-2": lambda n: n - 2,
    "n-3": lambda n: n - 3,
    "n/2": lambda n: n / 2,
    "1": lambda n: 1,
}


def expand(command: str, values: dict[str, str], where: str) -> list[str]:
    """`command` as a list of words, with {placeholders} filled in; a value of several words becomes several words.

    Raises FileError, beginning with `where`, for an unknown placeholder or unbalanced quotes.
    """
    result: list[str] = []
    for word in _split(command, where):
        if word.startswith("{") and word.endswith("}") and word[1:-1] in values:
            result += _split(values[word[1:-1]], f"{where}: {word}")
        else:
            result.append(fill(word, values, where))
    return result


def argv(command: str, values: dict[str, str], where: str) -> list[str]:
    """Like `expand`, for a command to be run. Raises FileError also when no program is left to run."""
    words = expand(command, values, where)
    if not words or not words[0]:
        raise FileError(f"{where}: {short(command)} has no program to run: begin with its name.")
    return words


def _split(text: str, where: str) -> list[str]:
    try:
        return list(_words(text))
    except ValueError as error:
        reason = str(error)[0].lower() + str(error)[1:]
        raise FileError(f"{where}: {short(text)} cannot be split into words: {reason}: complete it.") from None


@functools.lru_cache(1024)
def _words(text: str) -> tuple[str, ...]:
    """The same few commands are in every trial of a study."""
    return tuple(shlex.split(text))


def fill(text: str, values: dict[str, str], where: str) -> str:
    """`text` with its {placeholders} filled in. Raises FileError, beginning with `where`, for an unknown one."""
    if "{" not in text and "}" not in text:
        return text
    try:
        fields = [field[1:] for field in string.Formatter().parse(text) if field[1] is not None]
        # Names only: other features of format strings, such as {name:>9999999999}, are not needed here.
        bad = [name for name, form, conversion in fields if name not in values or form or conversion]
    except ValueError:
        bad = [text]
    if bad:
        known = cut(", ".join("{" + name + "}" for name in values))
        raise FileError(f"{where}: {short(text)} has an unknown placeholder; known: {known}.")
    return text.format_map(values)


@dataclass
class Layer:
    """One layer with its placeholders; `count` devices come from below, `devices` go to the layer above."""

    name: str
    file: str
    descriptor: models.Layer
    count: int
    devices: int

    def values(self, below: list[str], assume_clean: bool) -> dict[str, str]:
        """Placeholder -> text, for `count` devices from below."""
        half = self.count // 2
        mirrors = " ".join(f"mirror {a} {b}" for a, b in zip(below[::2], below[1::2], strict=False))
        return {
            "disks": " ".join(below),
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
class Stack:
    """A stack with its number of disks. name: in normal form; family: the name without the number of disks."""

    name: str
    family: str
    title: str
    disks: int
    filesystem: str
    state: str
    layers: list[Layer]
    disk_share: float  # how many disks' worth of data the file system gets

    def disk_mib(self, device_mib: int) -> int:
        """MiB of one disk, so that the file system gets about `device_mib` whatever the stack is made of."""
        least = max(layer.descriptor.least_mib for layer in self.layers)
        return max(math.ceil(device_mib / self.disk_share), least) if self.disks > 1 else device_mib

    def initial_sync(self, assume_clean: bool) -> str:
        """Words for the record: is the redundancy complete before the file system is made, and why."""
        commands = [command for layer in self.layers for command in layer.descriptor.build]
        if not any("{clean}" in command for command in commands):
            return "none needed" if not self.filesystem else "none needed: the file system writes its own redundancy"
        return "assumed clean: the disks read as zeros" if assume_clean else "finished before the file system was made"


def resolve(spec: str, catalog: Catalog) -> Stack:
    """The stack of a specification `layer+layer@disks`, lower layers first.

    Raises UserError for an unknown layer, a number of disks that a layer cannot have, or layers that do not fit.
    """
    family, at, number = spec.partition("@")
    names = family.split("+")
    descriptors = [models.Layer.model_validate(catalog.get("stack", name)) for name in names]
    if at and not re.fullmatch("[0-9]{1,3}", number):
        raise UserError(f"stack {spec}: '{number}' is not a number of disks: write {family}@6, for example.")
    default = descriptors[0].disks.default
    count = int(number) if number else default
    layers, share = [], 1.0
    incoming = count
    for name, descriptor in zip(names, descriptors, strict=True):
        file = catalog.file("stack", name)
        disks = descriptor.disks
        if disks.default < disks.least or disks.default % disks.multiple_of:
            raise FileError(
                f"{file}: disks.default is {disks.default}, but must be at least {disks.least} (least) and a "
                f"multiple of {disks.multiple_of} (multiple_of)."
            )
        _check_count(spec, name, disks, incoming, lowest=name == names[0])
        if descriptor.filesystem and name != names[-1]:
            raise UserError(f"stack {spec}: {name} belongs to {descriptor.filesystem}: it can only be the last layer.")
        outgoing = sum(incoming if device == "{disks}" else 1 for device in descriptor.devices)
        share *= _DATA[descriptor.data](incoming) / incoming
        if share <= 0:
            raise FileError(
                f"{file}: data is {descriptor.data}, which leaves no room with {incoming} disks: raise disks.least."
            )
        layers.append(Layer(name, file, descriptor, incoming, outgoing))
        incoming = outgoing
    faults = [(layer.name, layer.descriptor.fault) for layer in layers if layer.descriptor.fault]
    if len(faults) > 1:
        named = ", ".join(name for name, _ in faults)
        raise UserError(f"stack {spec}: only one layer may have a fault, and these have: {named}.")
    titles = [descriptor.title for descriptor in descriptors[::-1]]
    return Stack(
        name=family if count == default else f"{family}@{count}",
        family=family,
        title=" over ".join(titles) + (f", {count} disks" if count > 1 else ""),
        disks=count,
        filesystem=descriptors[-1].filesystem,
        state=faults[0][1].state if faults else "healthy",
        layers=layers,
        disk_share=share * count,
    )


def _check_count(spec: str, name: str, limits: models.Disks, count: int, lowest: bool) -> None:
    what = "disks" if lowest else "devices from the layer below"
    if limits.only and count != limits.default:
        raise UserError(f"stack {spec}: {name} takes {limits.default} {what}, not {count}.")
    if not limits.least <= count <= 32 or count % limits.multiple_of:
        step = f" and a multiple of {limits.multiple_of}" if limits.multiple_of > 1 else ""
        raise UserError(f"stack {spec}: {name} takes {limits.least} to 32 {what}{step}, not {count}.")


@dataclass
class Commands:
    """The commands of a stack on given disks; every list is in the order of execution.

    packages, modules: what they need; makes: the paths in /dev that they create; build, fault, teardown: commands
    (lists of words); stop, assemble: take it down and bring it back from what the disks hold; readback, faulted:
    (command, expressions that its output must match), before and after the fault; resync: files that say idle once the
    redundancy is complete; rebuild: the same for a spare, or empty; cold: empties the layers' own caches
    in memory; devices, layout: for the file system.
    """

    devices: list[str]
    layout: str = ""
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
    stop: list[list[str]] = field(default_factory=list)
    assemble: list[list[str]] = field(default_factory=list)
    teardown: list[list[str]] = field(default_factory=list)


def commands(stack: Stack, disks: list[str], assume_clean: bool, mountpoint: str) -> Commands:
    """What to run for `stack` on the device files `disks`. Raises FileError for a bad command in a layer's file."""
    made = Commands(disks)
    for layer in stack.layers:
        where, descriptor = layer.file, layer.descriptor
        values = {**layer.values(made.devices, assume_clean), "mountpoint": mountpoint}

        def lines(key: str, templates: list[str], values=values, where=where) -> list[list[str]]:
            return [argv(template, values, f"{where}: {key}") for template in templates]

        def checks(readback: list[models.Readback], values=values, where=where) -> list[tuple[list[str], list[str]]]:
            # Expressions have braces of their own: only {count} and its like are filled in, by name.
            return [
                (argv(item.run, values, f"{where}: readback"), [_regex(e, values) for e in item.expect])
                for item in readback
            ]

        fault = descriptor.fault
        made.packages += descriptor.packages
        made.modules += descriptor.modules
        made.makes += descriptor.makes
        made.build += lines("build", descriptor.build)
        made.resync += [] if assume_clean else descriptor.resync
        made.readback += checks(descriptor.readback)
        made.faulted += checks(fault.readback if fault else descriptor.readback)
        made.cold += lines("cold", descriptor.cold)
        if fault:
            made.fault, made.rebuild = lines("run", fault.run), fault.rebuild
        stop = lines("stop", descriptor.stop)
        made.stop = stop + made.stop
        made.assemble += lines("assemble", descriptor.assemble)
        made.teardown = stop + lines("teardown", descriptor.teardown) + made.teardown
        made.layout = shlex.join(expand(descriptor.layout, values, f"{where}: layout"))
        made.devices = [
            path for template in descriptor.devices for path in expand(template, values, f"{where}: devices")
        ]
        if not made.devices:
            raise FileError(
                f"{where}: devices is empty, so that the layer or file system above gets none: name at least one."
            )
    return made


def _regex(expression: str, values: dict[str, str]) -> str:
    for name in ("count", "others_count", "half_count"):
        expression = expression.replace("{" + name + "}", values[name])
    return expression
