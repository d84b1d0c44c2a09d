"""Workloads by name, with modifiers: `metadata@50000+clients30`.

@N           the workload's size parameter (its key `size`) is N
+clientsN    N processes do the same, each in a folder and with a seed of its own, from one start barrier
+agedN       the phases are repeated N times in one file system, which ages it (workloads with the key `aged`)
+fillN       before anything else the file system is filled to N percent and churned
+NAME        a modifier of the workload's own (its key `modifiers`)
"""

from __future__ import annotations

import re

from reprofs.errors import FileError, UserError, short
from reprofs.plan import models, trees
from reprofs.plan.catalog import NAME, Catalog
from reprofs.plan.stacks import argv

TREE = ("files", "directories", "fan_out", "size_median", "size_sigma", "size_max")
CLIENTS_MAX = 256
LIMITS = {"clients": (1, CLIENTS_MAX), "aged": (2, 1000), "fill": (1, 90)}
SIZE_MAX = 10**12
SPEC = re.compile(rf"({NAME.pattern})(?:@(x?)([0-9]+))?((?:\+[a-z]+[0-9]*)*)")
TREE_NAME = re.compile(rf"\{{tree:({NAME.pattern})(?<!\.yaml)\}}")  # with .yaml it would be a path


class Workload(models.Workload):
    """A workload with its modifiers applied.

    runs: how often the phases run in one file system; fill: percent; labs: the only ones that have all its modifiers;
    file: as a sentence begins.
    """

    file: str
    clients: int = 1
    runs: int = 1
    fill: int = 0
    labs: list[str] | None = None

    def fills(self) -> bool:
        """Whether it writes until no space is left, so that its content is as large as the devices."""
        return any("--until-full" in command for _, command in commands(self))

    def scale(self, name: str) -> models.Scale:
        """The scale of that name, one of the three."""
        return getattr(self.scales, name)


def without_size(workload: str) -> str:
    """The name of a workload without its size: many-inodes+clients2 of many-inodes@8000+clients2."""
    found = SPEC.fullmatch(workload)
    return found[1] + found[4] if found else workload


def resolve(spec: str, catalog: Catalog) -> Workload:
    """The descriptor of a workload with its modifiers applied, and the keys clients, runs (1 without), fill (0), file.

    It has the key labs when a modifier works in some labs only.

    Raises UserError for an unknown workload or modifier, or one that the workload does not take.
    """
    found = SPEC.fullmatch(spec)
    if not found:
        raise UserError(f"workload {short(spec)} is not a name with modifiers, like metadata@50000+clients30.")
    name, times, size, rest = found.groups()
    workload = Workload(**catalog.get("workload", name), file=catalog.file("workload", name))
    modifiers, own = {}, []
    for word, number in re.findall(r"\+([a-z]+)([0-9]*)", rest):
        low, high = LIMITS.get(word, (0, 0))
        if (word not in workload.modifiers and not high) or word in modifiers or word in own:
            known = ", ".join([*LIMITS, *workload.modifiers])
            raise UserError(f"workload {spec}: +{word} is unknown or given twice; known modifiers: {known}.")
        if not high and number:
            raise UserError(f"workload {spec}: +{word} takes no number: leave {number} out.")
        if not high:
            own.append(word)
            continue
        if not number:
            raise UserError(f"workload {spec}: +{word} needs a number from {low} to {high}, like +{word}{low}.")
        if not low <= _number(number) <= high:
            raise UserError(f"workload {spec}: +{word} must be from {low} to {high}, not {number}.")
        modifiers[word] = int(number)
    for scale, values in workload.scales if workload.size is not None else ():
        if type(values.parameters().get(workload.size)) is not int:
            raise FileError(
                f"{workload.file}: size is {short(workload.size)}, which is not a whole-number parameter of the scale "
                f"{scale}: name one that is."
            )
    if size is not None:
        if workload.size is None:
            raise UserError(f"workload {name} has no key size, so its size cannot be set: leave @{times}{size} out.")
        if not 1 <= _number(size) <= SIZE_MAX:
            raise UserError(f"workload {spec}: the number after @ must be 1 or more, and {SIZE_MAX:,} at most.")
        for scale, values in workload.scales:
            value = int(size) * (values.parameters()[workload.size] if times else 1)
            setattr(workload.scales, scale, _resized(values, workload.size, value))
    if "aged" in modifiers and not workload.aged:
        raise UserError(f"workload {name} cannot be repeated in one file system: leave +aged out.")
    if "clients" in modifiers and workload.alone:
        raise UserError(f"workload {name} is made for a single writer: leave +clients out.")
    suffix = [f"{int(size):,} {'times the ' if times else ''}{workload.size}"] if size else []
    suffix += [f"{modifiers['clients']} clients"] if "clients" in modifiers else []
    suffix += [f"{modifiers['aged']} runs in one file system"] if "aged" in modifiers else []
    suffix += [f"file system filled to {modifiers['fill']} % and churned"] if "fill" in modifiers else []
    for modifier in (workload.modifiers[word] for word in own):
        suffix.append(modifier.title)
        workload.environment |= modifier.environment
        if modifier.labs:
            workload.labs = [lab for lab in modifier.labs if workload.labs is None or lab in workload.labs]
    if suffix:
        workload.title += f" ({', '.join(suffix)})"
    workload.clients, workload.runs = modifiers.get("clients", 1), modifiers.get("aged", 1)
    workload.fill = modifiers.get("fill", 0)
    return workload


def _number(digits: str) -> int:
    """The number, or for too many digits one beyond every limit: int() refuses thousands of digits."""
    return int(digits[:20])


def _resized(scale: models.Scale, key: str, value: int) -> models.Scale:
    """The scale with another size parameter; the directories of a tree grow with its files."""
    changed = {key: value}
    if key == "files" and scale.files and scale.directories:
        changed["directories"] = max(1, round(scale.directories * value / scale.files))
    return scale.model_copy(update=changed)


def words(text: str, workload: Workload, scale: str, seed: object, where: str, run: int = 1) -> list[str]:
    """A command of a workload as words, its placeholders filled in: the scale's parameters, seed, run, tree:PROFILE.

    Raises FileError, beginning with `where`, for an unknown placeholder or a missing program.
    """
    values = {key: f"{value}" for key, value in workload.scale(scale).parameters().items()}
    values |= {"seed": f"{seed}", "run": f"{run}"}
    try:
        text = TREE_NAME.sub(lambda found: trees.arguments(found[1]), text)
    except FileError:
        raise
    except UserError as error:  # no such tree: the error names what asks for it
        raise FileError(f"{where}: {error}") from None
    return argv(text, values, where)


def commands(workload: models.Workload) -> list[tuple[str, str]]:
    """(name of the phase, command) of everything that runs in the workload's folder."""
    found = [(entry.name, entry.run) for entry in workload.populate if isinstance(entry, models.Populate)]
    for phase in workload.phases:
        found += [(phase.name, command) for command in (phase.run, phase.check) if command]
    return found


def where(spec: str, workload: Workload, scale: str) -> str:
    """The beginning of messages about a workload at a scale."""
    return f"{workload.file}: workload {spec}, scale {scale}"
