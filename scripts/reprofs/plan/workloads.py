"""Workloads by name, with modifiers: `metadata@50000+clients30`.

@N           the workload's size parameter (its key `size`) is N
+clientsN    N processes do the same, each in a folder and with a seed of its own, from one start barrier
+agedN       the phases are repeated N times in one file system, which ages it (workloads with the key `aged`)
+fillN       before anything else the file system is filled to N percent and churned
+NAME        a modifier of the workload's own (its key `modifiers`)
"""

from __future__ import annotations

import copy
import re
from typing import Any

from reprofs.errors import FileError, UserError, short
from reprofs.plan import trees
from reprofs.plan.catalog import NAME, Catalog
from reprofs.plan.stacks import argv

TREE = ("files", "directories", "fan_out", "size_median", "size_sigma", "size_max")
CLIENTS_MAX = 256
LIMITS = {"clients": (1, CLIENTS_MAX), "aged": (2, 1000), "fill": (1, 90)}
SIZE_MAX = 10**12
SPEC = re.compile(rf"({NAME.pattern})(?:@(x?)([0-9]+))?((?:\+[a-z]+[0-9]*)*)")
TREE_NAME = re.compile(rf"\{{tree:({NAME.pattern})(?<!\.yaml)\}}")  # with .yaml it would be a path


def without_size(workload: str) -> str:
    """The name of a workload without its size: many-inodes+clients2 of many-inodes@8000+clients2."""
    found = SPEC.fullmatch(workload)
    return found[1] + found[4] if found else workload


def resolve(spec: str, catalog: Catalog) -> dict:
    """The descriptor of a workload with its modifiers applied, and the keys clients, runs (1 without), fill (0), file.

    It has the key labs when a modifier works in some labs only.

    Raises UserError for an unknown workload or modifier, or one that the workload does not take.
    """
    found = SPEC.fullmatch(spec)
    if not found:
        raise UserError(f"workload {short(spec)} is not a name with modifiers, like metadata@50000+clients30.")
    name, times, size, rest = found.groups()
    workload = copy.deepcopy(catalog.get("workload", name))
    modifiers, own = {}, []
    for word, number in re.findall(r"\+([a-z]+)([0-9]*)", rest):
        low, high = LIMITS.get(word, (0, 0))
        if (word not in workload["modifiers"] and not high) or word in modifiers or word in own:
            known = ", ".join([*LIMITS, *workload["modifiers"]])
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
    file = catalog.file("workload", name)
    for scale, values in workload["scales"].items() if "size" in workload else ():
        if type(values.get(workload["size"])) is not int:
            raise FileError(
                f"{file}: size is {short(workload['size'])}, which is not a whole-number parameter of the scale "
                f"{scale}: name one that is."
            )
    if size is not None:
        if "size" not in workload:
            raise UserError(f"workload {name} has no key size, so its size cannot be set: leave @{times}{size} out.")
        if not 1 <= _number(size) <= SIZE_MAX:
            raise UserError(f"workload {spec}: the number after @ must be 1 or more, and {SIZE_MAX:,} at most.")
        for scale in workload["scales"].values():
            _resize(scale, workload["size"], int(size) * (scale[workload["size"]] if times else 1))
    if "aged" in modifiers and not workload["aged"]:
        raise UserError(f"workload {name} cannot be repeated in one file system: leave +aged out.")
    if "clients" in modifiers and workload["alone"]:
        raise UserError(f"workload {name} is made for a single writer: leave +clients out.")
    suffix = [f"{int(size):,} {'times the ' if times else ''}{workload['size']}"] if size else []
    suffix += [f"{modifiers['clients']} clients"] if "clients" in modifiers else []
    suffix += [f"{modifiers['aged']} runs in one file system"] if "aged" in modifiers else []
    suffix += [f"file system filled to {modifiers['fill']} % and churned"] if "fill" in modifiers else []
    more: dict[str, Any] = {}
    for modifier in (workload["modifiers"][word] for word in own):
        suffix.append(modifier["title"])
        workload["environment"] |= modifier["environment"]
        if "labs" in modifier:
            more["labs"] = [lab for lab in modifier["labs"] if lab in more.get("labs", [lab])]
    if suffix:
        workload["title"] += f" ({', '.join(suffix)})"
    more |= {"clients": modifiers.get("clients", 1), "runs": modifiers.get("aged", 1), "fill": modifiers.get("fill", 0)}
    return {**workload, **more, "file": file}


def _number(digits: str) -> int:
    """The number, or for too many digits one beyond every limit: int() refuses thousands of digits."""
    return int(digits[:20])


def _resize(scale: dict, key: str, value: int) -> None:
    """Sets the size parameter; the directories of a tree grow with its files."""
    if key == "files" and "directories" in scale:
        scale["directories"] = max(1, round(scale["directories"] * value / scale["files"]))
    scale[key] = value


def words(text: str, workload: dict, scale: str, seed: object, where: str, run: int = 1) -> list[str]:
    """A command of a workload as words, its placeholders filled in: the scale's parameters, seed, run, tree:PROFILE.

    Raises FileError, beginning with `where`, for an unknown placeholder or a missing program.
    """
    values = {key: f"{value}" for key, value in workload["scales"][scale].items()}
    values |= {"seed": f"{seed}", "run": f"{run}"}
    try:
        text = TREE_NAME.sub(lambda found: trees.arguments(found[1]), text)
    except FileError:
        raise
    except UserError as error:  # no such tree: the error names what asks for it
        raise FileError(f"{where}: {error}") from None
    return argv(text, values, where)


def commands(workload: dict) -> list[tuple[str, str]]:
    """(name of the phase, command) of everything that runs in the workload's folder."""
    found = [(entry["name"], entry["run"]) for entry in workload["populate"] if isinstance(entry, dict)]
    for phase in workload["phases"]:
        found += [(phase["name"], phase[key]) for key in ("run", "check") if key in phase]
    return found


def where(spec: str, workload: dict, scale: str) -> str:
    """The beginning of messages about a workload at a scale."""
    return f"{workload['file']}: workload {spec}, scale {scale}"
