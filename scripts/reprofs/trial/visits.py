"""What engine states, engine faults and engine rot must know of a file system that they mount again and again."""

from __future__ import annotations

import shlex
from collections.abc import Callable

from reprofs.plan.phase import Phase
from reprofs.plan.stack import Commands
from reprofs.records.protocol import MOUNTPOINT
from reprofs.trial.outages import Lines
from reprofs.trial.setup import Setup


def remounting(phase: Phase, setup: Setup, lines: Callable[..., Lines], checker: Lines) -> list[str]:
    """Arguments of a phase: how it is mounted, unmounted, repaired, checked, what it promises or where its blocks are.

    Or which disks an array has, how it is started, stopped, scrubbed and repaired. There are none for a phase of
    another kind. A mount by one plain command, beside the scan for devices of which there is only one, is made by a
    system call.
    lines: (key, templates) -> commands, as for all of the file system's.
    """
    if not phase.visits:
        return []
    filesystem = setup.filesystem
    mounts, unmounts = lines("mount", filesystem.mount), lines("unmount", filesystem.unmount)
    if phase.visits == "rot":
        stack = setup.commands or Commands([])
        scripts = {"mount": stack.assemble + mounts, "unmount": unmounts + stack.stop}
        scripts |= {"scrub": lines("scrub", filesystem.scrub) + stack.scrub, "repair": stack.repair}
        return ["--mountpoint", MOUNTPOINT, "--disks", " ".join(setup.paths), *_words(scripts)]
    *scans, last = mounts or [[]]
    plain = last[:4] == ["mount", "-t", filesystem.type, "-o"] and len(last) == 7
    scripts = {"recover": lines("recover", filesystem.recover), "checker": checker}
    scripts["unmount"] = unmounts
    found = ["--mountpoint", MOUNTPOINT]
    if plain and all(scan[1:3] == ["device", "scan"] for scan in scans):
        found += ["--type", filesystem.type or "", "--options", last[4]]
    else:
        scripts["mount"] = mounts
    if phase.visits == "faults":
        scripts["blocks"] = lines("blocks", filesystem.blocks)
    else:
        given = None if setup.variant.promise else filesystem.promises
        found += ["--promises", ",".join(given.words() if given else []) or "none"]
    if (phase.run or "").startswith("engine states-maintained "):
        own = {name: lines("maintenance", one) for name, one in filesystem.maintenance.items()}
        each = [f"{name}={' && '.join(map(shlex.join, commands))}" for name, commands in own.items()]
        found += ["--maintenance", "\n".join(each)]
    return found + _words(scripts)


def _words(scripts: dict[str, Lines]) -> list[str]:
    return [word for name, own in scripts.items() if own for word in (f"--{name}", "\n".join(map(shlex.join, own)))]
