"""Checks the parameters of a workload before anything runs, by the engine's own programs."""

from __future__ import annotations

import functools
import json
import math
import re
import shlex
import subprocess

from reprofs.errors import FileError, cut, short
from reprofs.files import cache_folder
from reprofs.guest import engine
from reprofs.plan import workloads
from reprofs.plan.workloads import where as place


def check(spec: str, workload: dict, scale: str) -> None:
    """Raises UserError for parameters that cannot work, such as an unknown placeholder or flag, or an impossible size.

    The engine's programs check their own arguments. Content larger than the file system is an error too.
    """
    values = workload["scales"][scale]
    where = place(spec, workload, scale)
    operations = [phase["operation"] for phase in workload["phases"] if "operation" in phase]
    if operations or any(isinstance(entry, str) for entry in workload["populate"]):
        missing = [key for key in workloads.TREE if key not in values]
        if missing:
            raise FileError(
                f"{where}: the parameter {missing[0]} is missing, which the engine's operations need: add it."
            )
    for phase in workload["phases"]:
        if "run" in phase and phase["items"] != "one" and not isinstance(values.get(phase["items"]), int):
            raise FileError(
                f"{where}: phase {phase['name']}: items is {cut(phase['items'], 80)}, which is not a whole-number "
                "parameter of the scale: name one that is, or write one."
            )
    content = needs(spec, workload, scale)
    room = values["device_mib"] * 2**20 * (100 - workload["fill"]) // 100
    if content > room:
        raise FileError(
            f"{where}: the content is about {content / 2**20:,.0f} MiB, more than the {room / 2**20:,.0f} MiB which "
            "the file system offers: raise device_mib or lower the size."
        )


def needs(spec: str, workload: dict, scale: str) -> int:
    """Roughly the most bytes of content that exist at the same time, in all clients' folders. Raises UserError."""
    values = workload["scales"][scale]
    tree = 0
    if all(key in values for key in workloads.TREE):
        mean = values["size_median"] * math.exp(values["size_sigma"] ** 2 / 2)
        tree = int(values["files"] * min(mean, values["size_max"]))
    programs = 0
    for phase, command in workloads.commands(workload):
        where = f"{place(spec, workload, scale)}, phase {phase}"
        for arguments in _programs(workloads.words(command, workload, scale, 1, where), where):
            programs = max(programs, _ask(where, tuple(arguments)))
    return (tree + programs) * workload["clients"]


def _programs(argv: list[str], where: str) -> list[list[str]]:
    """Arguments of each of the engine's programs that a command runs, also inside the script of a shell.

    Raises FileError for a script with unbalanced quotes and an engine without arguments.
    """
    found = [argv[1:]] if argv[0] == "engine" else _in_script(argv[-1], where)
    if not all(found):
        raise FileError(f"{where}: engine lacks the name of the program to run: write it after engine.")
    return found


def _in_script(script: str, where: str) -> list[list[str]]:
    if "$ENGINE" not in script:
        return []
    lexer = shlex.shlex(script, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        words = list(lexer)
    except ValueError as error:
        raise FileError(f"{where}: {short(script)} is not a valid shell script: {error}: correct it.") from None
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
    """The most bytes of content that a program will write. Raises FileError with its message when it refuses."""
    command = [str(engine.build(cache_folder())), arguments[0], "--check", *arguments[1:]]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:  # arguments longer than a command may be, or endless work
        why = getattr(error, "strerror", None) or "no answer within a minute"
        raise FileError(f"{where}: engine {short(' '.join(arguments))} cannot be checked: {why}: shorten it.") from None
    if done.returncode:
        raise FileError(f"{where}: {cut(done.stderr.removeprefix('engine: '))}")
    return json.loads(done.stdout)["bytes"]
