"""How the nodes of a trial are lost in an outage, and how they come back: commands, in both directions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from reprofs.guest import hosts
from reprofs.guest.steps import Exec, Step
from reprofs.plan.phase import Outage, Phase
from reprofs.records.protocol import SETUP_LIMIT_S
from reprofs.trial.setup import Setup

Lines = list[list[str]]
SERVER = ("server-killed", "server-power")  # outages in which the daemons of the last server end


def around(
    phase: Phase, setup: Setup, names: list[str], seed: object, lines: Callable[..., Lines]
) -> tuple[list[Step], list[Step]]:
    """The steps before and after a phase in whose middle nodes are lost and come back; none for any other phase.

    names: of the nodes, servers first; lines: (key, templates) -> commands, as for all of the file system's.
    """
    outage, own, there = phase.outage, setup.filesystem.outage, setup.filesystem.hosts
    if not outage or not there:
        return [], []
    healed = own.healed if own else []
    lost, back = lost_and_back(outage, names[: there.servers], names[there.servers :])
    if own and outage.what in SERVER:
        lost, back = lines("outage.kill", own.kill) or lost, lines("outage.back", own.back)
    if own and own.power and outage.what == "server-power":
        # Nothing answers any more when the power goes, and what would still be written then is lost.
        supply = f"/sys/block/{Path(setup.paths[there.servers - 1]).name}/supply"
        lost += [] if own.kill else [hosts.gone(names[there.servers - 1])]
        lost += [_written("cut", supply), *lines("outage.power.lost", own.power.lost)]
        back = [_written("restore", supply), *lines("outage.power.back", own.power.back), *back]
    parts = {"lost": lost, "back": back, "healed": lines("outage.healed", healed)}
    within = outage.within_s or 0
    limit = SETUP_LIMIT_S + outage.after_s + within + outage.for_s
    limit += sum(line.limit_s for line in healed if line.wait)
    # As a variable: a word of a command is quoted, but otherwise in the plan, which has no number yet.
    drawn = [f"export seed={seed}", hosts.later(within)] if within else []
    first, last = hosts.outage(f"outage {phase.name}", outage.after_s, outage.for_s, parts, limit, drawn)
    # What was made before is on the disk: a client without its folder would see that it is gone, and nothing else.
    before = [Exec(stage="sync", limit_s=SETUP_LIMIT_S, arg=["sync"])] if outage.what == "server-power" else []
    return [*before, first], [last]


def lost_and_back(outage: Outage, servers: list[str], clients: list[str]) -> tuple[Lines, Lines]:
    """The commands that lose nodes, and those that bring them back. Of a server (SERVER): its loss only, since the file
    system says how it is started. Which nodes, where several could be, the shell's variable seed says.
    """
    last = servers[-1]
    if outage.what == "link-cut":
        return [hosts.link(last, "down")], [hosts.link(last, "up")]
    if outage.what == "server-stopped":
        return [hosts.signalled("STOP", servers)], [hosts.signalled("CONT", servers)]
    if outage.what in SERVER:
        return [hosts.killed(last)], []
    sides = hosts.pairs(servers, clients) if outage.what == "pair-cut" else hosts.splits(servers, clients)
    return [hosts.apart("cut", sides)], [hosts.apart("mend", sides)]


def _written(text: str, path: str) -> list[str]:
    return ["sh", "-c", 'echo "$1" > "$2"', "sh", text, path]
