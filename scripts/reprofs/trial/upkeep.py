"""A file system's own commands as what is timed: it is mounted, checked or scrubbed (the key upkeep of a phase)."""

from __future__ import annotations

from collections.abc import Callable

from reprofs.plan.stack import Commands
from reprofs.trial.outages import Lines
from reprofs.trial.setup import Setup


def commands(key: str, setup: Setup, lines: Callable[..., Lines]) -> Lines:
    """The commands of a key. A stack with copies of its own is checked or scrubbed with its file system.

    lines: (key, templates) -> commands, as for all of the file system's.
    """
    filesystem, stack = setup.filesystem, setup.commands or Commands([])
    if key == "check":
        own = setup.variant.check
        return stack.check or lines("check", filesystem.check if own is None else own)
    if key == "scrub":
        return lines("scrub", filesystem.scrub) + stack.scrub
    return lines("mount", filesystem.mount)


def asked(setup: Setup) -> list[str]:
    """The keys that its workload times."""
    return [phase.upkeep for phase in setup.workload.phases if phase.upkeep]


def unmounted(key: str | None) -> bool:
    """Whether the file system is not mounted when the commands of a key begin."""
    return key in ("mount", "check")
