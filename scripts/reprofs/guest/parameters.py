"""Checks the parameters of a workload before anything runs, by the engine's own programs."""

from __future__ import annotations

import functools
import json
import math
import subprocess

from reprofs.errors import FileError, UserError, cut, short
from reprofs.files import cache_folder
from reprofs.guest import engine
from reprofs.plan.command import engine_calls
from reprofs.plan.workload import TREE, ZEROS, Modified


def check(workload: Modified, scale: str) -> None:
    """Raises UserError for parameters that cannot work, such as an unknown placeholder or flag, or an impossible size.

    The engine's programs check their own arguments. Content larger than the file system is an error too.
    """
    values = workload.scale(scale).parameters()
    where = workload.at(scale)
    operations = [phase.operation for phase in workload.phases if phase.operation]
    if operations or any(isinstance(entry, str) for entry in workload.populate):
        missing = [key for key in TREE if key not in values]
        if missing:
            raise FileError(f"{where}: the parameter {missing[0]} is missing, which the engine needs: add it.")
    for phase in workload.phases:
        if not phase.operation and workload.scale(scale).count(phase.items) is None:
            raise FileError(
                f"{where}: phase {phase.name}: items is {cut(phase.items, 80)}: name a whole-number parameter "
                "of the scale, or a product of such."
            )
    content = needs(workload, scale)
    room = values["device_mib"] * 2**20 * (100 - workload.fill) // 100
    if content > room:
        raise FileError(
            f"{where}: the content is about {content / 2**20:,.0f} MiB, but the file system has "
            f"{room / 2**20:,.0f} MiB: raise device_mib or lower the size."
        )


def needs(workload: Modified, scale: str, zeros: bool = True) -> int:
    """Roughly the most bytes of content that exist at the same time, in all clients' folders. Raises UserError.

    zeros: whether files of zeros count.
    """
    values = workload.scale(scale).parameters()
    tree = 0
    if all(key in values for key in TREE):
        mean = values["size_median"] * math.exp(values["size_sigma"] ** 2 / 2)
        tree = int(values["files"] * min(mean, values["size_max"]))
    programs = 0
    for phase, command in workload.commands():
        where = f"{workload.at(scale)}, phase {phase}"
        for arguments in _programs(workload.words(command, scale, 1, where), where):
            if ZEROS in arguments and not zeros:
                continue
            programs = max(programs, _ask(where, tuple(arguments)))
    before = _ask(workload.at(scale), tuple(workload.ageing(1)["pulls"][1:])) if workload.pulls else 0
    return (tree + programs) * workload.clients + before


def _programs(argv: list[str], where: str) -> list[list[str]]:
    """Arguments of each of the engine's programs that a command runs, but those that only its shell knows.

    Raises FileError for a script with unbalanced quotes and an engine without arguments.
    """
    try:
        calls = engine_calls(argv)
    except ValueError as error:
        raise FileError(f"{where}: {error}: correct it.") from None
    if not all(calls):
        raise FileError(f"{where}: engine has no program: write its name after engine.")
    return [arguments for arguments in calls if not any("$" in word for word in arguments)]


@functools.lru_cache(maxsize=4096)
def _ask(where: str, arguments: tuple[str, ...]) -> int:
    """The most bytes of content that a program will write. Raises FileError with its message when it refuses."""
    try:
        command = [str(engine.build(cache_folder(), arguments[0])), "--check", *arguments[1:]]
    except UserError as error:
        raise FileError(f"{where}: {error}") from None
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:  # arguments longer than a command may be, or endless work
        why = getattr(error, "strerror", None) or "no answer within a minute"
        raise FileError(f"{where}: engine {short(' '.join(arguments))} cannot be checked: {why}: shorten it.") from None
    if done.returncode:
        raise FileError(f"{where}: {cut(done.stderr.removeprefix('engine: '))}")
    return json.loads(done.stdout)["bytes"]
