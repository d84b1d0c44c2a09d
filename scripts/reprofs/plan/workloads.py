"""Workloads by name, with modifiers: `metadata@50000+clients30`.

@N           the workload's size parameter (its key `size`) is N
+clientsN    N processes do the same, each in a folder and with a seed of its own, from one start barrier
+agedN       the phases are repeated N times in one file system, which so ages (workloads with the key `aged`)
+fillN       before anything else the file system is filled to N percent and churned
"""

from __future__ import annotations

import copy
import functools
import json
import math
import re
import shlex
import subprocess

from reprofs.errors import FileError, UserError, cut, short
from reprofs.files import cache_folder
from reprofs.guest import engine
from reprofs.plan import trees
from reprofs.plan.catalog import NAME, Catalog
from reprofs.plan.stacks import argv

TREE = ("files", "directories", "fan_out", "size_median", "size_sigma", "size_max")
CLIENTS_MAX = 256
LIMITS = {"clients": (1, CLIENTS_MAX), "aged": (2, 1000), "fill": (1, 90)}
SIZE_MAX = 10**12
SPEC = re.compile(rf"({NAME.pattern})(?:@(x?)([0-9]+))?((?:\+[a-z]+[0-9]+)*)")
TREE_NAME = re.compile(rf"\{{tree:({NAME.pattern})(?<!\.yaml)\}}")  # with .yaml it would be a path


def resolve(spec: str, catalog: Catalog) -> dict:
    """The descriptor of a workload with its modifiers applied, and the keys clients, runs (1 without), fill (0), file.

    Raises UserError for an unknown workload or modifier, or one that the workload does not take.
    """
    found = SPEC.fullmatch(spec)
    if not found:
        raise UserError(f"workload {short(spec)} is not a name with modifiers, like metadata@50000+clients30.")
    name, times, size, rest = found.groups()
    modifiers = {}
    for word, number in re.findall(r"\+([a-z]+)([0-9]+)", rest):
        low, high = LIMITS.get(word, (0, 0))
        if not high or word in modifiers:
            raise UserError(
                f"workload {spec}: +{word} is not a modifier, or comes twice; known are {', '.join(LIMITS)}."
            )
        if not low <= _number(number) <= high:
            raise UserError(f"workload {spec}: +{word} must be from {low} to {high}, not {number}.")
        modifiers[word] = int(number)
    workload = copy.deepcopy(catalog.get("workload", name))
    file = catalog.file("workload", name)
    for scale, values in workload["scales"].items() if "size" in workload else ():
        if type(values.get(workload["size"])) is not int:
            raise FileError(
                f"{file}: size is {short(workload['size'])}, which is no whole number of the scale {scale}: name a "
                "parameter that is."
            )
    if size is not None:
        if "size" not in workload:
            raise UserError(f"workload {name} has no key size, so that {spec} cannot set it: leave @{times}{size} out.")
        if not 1 <= _number(size) <= SIZE_MAX:
            raise UserError(f"workload {spec}: the number after @ must be 1 or more, and {SIZE_MAX:,} at most.")
        for scale in workload["scales"].values():
            _resize(scale, workload["size"], int(size) * (scale[workload["size"]] if times else 1))
    if "aged" in modifiers and not workload["aged"]:
        raise UserError(f"workload {name} cannot be repeated in one file system: leave +aged out.")
    if "clients" in modifiers and workload["alone"]:
        raise UserError(f"workload {name} has one writer by its nature: leave +clients out.")
    suffix = [f"{int(size):,} {'times the ' if times else ''}{workload['size']}"] if size else []
    suffix += [f"{modifiers['clients']} clients"] if "clients" in modifiers else []
    suffix += [f"{modifiers['aged']} runs in one file system"] if "aged" in modifiers else []
    suffix += [f"file system filled to {modifiers['fill']} % and churned"] if "fill" in modifiers else []
    if suffix:
        workload["title"] += f" ({', '.join(suffix)})"
    more = {"clients": modifiers.get("clients", 1), "runs": modifiers.get("aged", 1), "fill": modifiers.get("fill", 0)}
    return {**workload, **more, "file": file}


def _number(digits: str) -> int:
    """What the digits say, or a number beyond every limit: int() refuses thousands of them."""
    return int(digits[:20])


def _resize(scale: dict, key: str, value: int) -> None:
    """Sets the size parameter; the directories of a tree grow with its files."""
    if key == "files" and "directories" in scale:
        scale["directories"] = max(1, round(scale["directories"] * value / scale["files"]))
    scale[key] = value


def words(text: str, workload: dict, scale: str, seed: object, where: str, run: int = 1) -> list[str]:
    """A command of a workload as words, its placeholders filled in: the scale's parameters, seed, run, tree:PROFILE.

    Raises FileError, beginning with `where`, for an unknown placeholder or no program.
    """
    values = {key: f"{value}" for key, value in workload["scales"][scale].items()}
    values |= {"seed": f"{seed}", "run": f"{run}"}
    try:
        text = TREE_NAME.sub(lambda found: trees.arguments(found[1]), text)
    except FileError:
        raise
    except UserError as error:  # no such tree: of what asks for it
        raise FileError(f"{where}: {error}") from None
    return argv(text, values, where)


def commands(workload: dict) -> list[tuple[str, str]]:
    """(name of the phase, command) of everything that runs in the workload's folder."""
    found = [(entry["name"], entry["run"]) for entry in workload["populate"] if isinstance(entry, dict)]
    for phase in workload["phases"]:
        found += [(phase["name"], phase[key]) for key in ("run", "check") if key in phase]
    return found


def check(spec: str, workload: dict, scale: str) -> None:
    """Raises UserError when the parameters cannot work: a placeholder or a flag is unknown, a size is nonsense.

    Asks the engine's programs what they think of their arguments. Raises UserError too when the content is larger
    than the file system.
    """
    values = workload["scales"][scale]
    where = _where(spec, workload, scale)
    operations = [phase["operation"] for phase in workload["phases"] if "operation" in phase]
    if operations or any(isinstance(entry, str) for entry in workload["populate"]):
        missing = [key for key in TREE if key not in values]
        if missing:
            raise FileError(
                f"{where}: the parameter {missing[0]} is missing, which the engine's operations need: add it."
            )
    for phase in workload["phases"]:
        if "run" in phase and phase["items"] != "one" and not isinstance(values.get(phase["items"]), int):
            raise FileError(
                f"{where}: phase {phase['name']}: items is {cut(phase['items'], 80)}, which is no whole number of the "
                "scale: name a parameter of the scale, or one."
            )
    content = needs(spec, workload, scale)
    room = values["device_mib"] * 2**20 * (100 - workload["fill"]) // 100
    if content > room:
        raise FileError(
            f"{where}: the content is about {content / 2**20:,.0f} MiB, more than the {room / 2**20:,.0f} MiB which "
            "the file system offers: raise device_mib or lower the size."
        )


def _where(spec: str, workload: dict, scale: str) -> str:
    return f"{workload['file']}: workload {spec}, scale {scale}"


def needs(spec: str, workload: dict, scale: str) -> int:
    """Bytes of content that exist at most at the same time, in all clients' folders, about. Raises UserError."""
    values = workload["scales"][scale]
    tree = 0
    if all(key in values for key in TREE):
        mean = values["size_median"] * math.exp(values["size_sigma"] ** 2 / 2)
        tree = int(values["files"] * min(mean, values["size_max"]))
    programs = 0
    for phase, command in commands(workload):
        where = f"{_where(spec, workload, scale)}, phase {phase}"
        for arguments in _programs(words(command, workload, scale, 1, where), where):
            programs = max(programs, _ask(where, tuple(arguments)))
    return (tree + programs) * workload["clients"]


def _programs(argv: list[str], where: str) -> list[list[str]]:
    """Arguments of each of the engine's programs that a command runs, also inside the script of a shell.

    Raises FileError for a script with unbalanced quotes and an engine without arguments.
    """
    found = [argv[1:]] if argv[0] == "engine" else _in_script(argv[-1], where)
    if not all(found):
        raise FileError(f"{where}: the engine is not told which of its programs to run: write one after it.")
    return found


def _in_script(script: str, where: str) -> list[list[str]]:
    if "$ENGINE" not in script:
        return []
    lexer = shlex.shlex(script, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        words = list(lexer)
    except ValueError as error:
        raise FileError(f"{where}: {short(script)} is no script of a shell: {error}: complete it.") from None
    found: list[list[str]] = []
    inside = False
    for word in words:
        if word == "$ENGINE":
            found.append([])
            inside = True
        elif inside and (set(word) <= set("|&;<>()") or re.fullmatch(r"[0-9]*[<>].*", word)):
            inside = False
        elif inside:
            found[-1].append(word)
    return [arguments for arguments in found if not any("$" in word for word in arguments)]


@functools.lru_cache(maxsize=4096)
def _ask(where: str, arguments: tuple[str, ...]) -> int:
    """Bytes of content that a program will write at most. Raises FileError with its sentence when it refuses."""
    command = [str(engine.build(cache_folder())), arguments[0], "--check", *arguments[1:]]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:  # arguments longer than a command may be, or endless work
        why = getattr(error, "strerror", None) or "no answer within a minute"
        raise FileError(f"{where}: engine {short(' '.join(arguments))} cannot be checked: {why}: shorten it.") from None
    if done.returncode:
        raise FileError(f"{where}: {cut(done.stderr.removeprefix('engine: '))}")
    return json.loads(done.stdout)["bytes"]
