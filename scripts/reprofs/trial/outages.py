"""How the nodes of a trial are lost in an outage, and how they come back: commands, in both directions."""

from __future__ import annotations

from reprofs.guest import hosts
from reprofs.plan.workload import Outage

Lines = list[list[str]]


def lost_and_back(outage: Outage, servers: list[str], clients: list[str]) -> tuple[Lines, Lines]:
    """The commands that lose nodes, and those that bring them back. server-killed: its loss only, since the file system
    says how it is started. Which nodes, where several could be, the shell's variable seed says.
    """
    last = servers[-1]
    if outage.what == "link-cut":
        return [hosts.link(last, "down")], [hosts.link(last, "up")]
    if outage.what == "server-stopped":
        return [hosts.signalled("STOP", servers)], [hosts.signalled("CONT", servers)]
    if outage.what == "server-killed":
        return [hosts.killed(last)], []
    sides = hosts.pairs(servers, clients) if outage.what == "pair-cut" else hosts.splits(servers, clients)
    return [hosts.apart("cut", sides)], [hosts.apart("mend", sides)]
