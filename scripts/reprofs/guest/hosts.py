"""Nodes: network namespaces on a shaped bridge, as steps of a job.

A server has its own network, name and mounts (what it mounts, nobody else sees; what the guest mounts, it sees too). A
client has only its own network and name (by which an NFS server knows it), so that the load engine, which runs on the
guest itself, sees what it mounts. In the lab host the guest is the trial's own namespaces of this machine.
Sources: ip-netns(8), tc-netem(8), unshare(1), mount_namespaces(7).
"""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from reprofs.guest.shell import script
from reprofs.guest.steps import Exec, Step

TOOLS = ["ip", "tc", "nsenter", "unshare"]
LIMIT_S = 600
KEPT_BYTES = 65536  # of the output of counters and logs
# As the scripts in scripts/shell have them.
PLACE = "/run/hosts"
OUTAGE = "/run/outage"
SYSLOG = "/run/syslog"
NET = "10.88.0"


def modules(qdisc: list[str]) -> list[str]:
    """The kernel's modules for a network. qdisc: tc arguments for the link ends, or none."""
    return ["veth", "bridge", *(["sch_netem"] if qdisc else [])]


def _shell(stage: str, text: str, *words: object, tail: int | None = None) -> Exec:
    arg = ["sh", "-ec", text, "sh", *(f"{word}" for word in words)]
    return Exec(stage=stage, limit_s=LIMIT_S, tail=tail, arg=arg)


def address(name: str) -> str:
    """The address of the node sN or cN."""
    return f"{NET}.{int(name[1:]) + (100 if name[0] == 'c' else 0)}"


@dataclass(frozen=True, kw_only=True)
class Bridge(Step):
    """Makes the switch and registers the names of the nodes. names: name -> node."""

    mtu: int
    names: dict[str, str]

    def line(self) -> str:
        """For the engine it is a command like any other."""
        known = [word for name, place in self.names.items() for word in (address(place), name)]
        return _shell("network", script("bridge"), self.mtu, *known).line()


@dataclass(frozen=True, kw_only=True)
class Host(Step):
    """Makes a node and its link. number: from 1; qdisc: tc arguments for both link ends, or none; private: folders that
    only this server has.
    """

    name: str
    number: int
    mtu: int
    qdisc: list[str]
    private: list[str] = field(default_factory=list)

    def line(self) -> str:
        """For the engine it is a command like any other."""
        folders = " ".join(self.private) if self.name[0] == "s" else "-"
        words = (self.name, address(self.name), self.number, self.mtu, " ".join(self.qdisc), folders)
        return _shell("network", script("host"), *words).line()


def inside(name: str, words: list[str], place: str = "", core: int | None = None) -> list[str]:
    """The command, run on a node. place: the server on which a client runs, if it has no node of its own; core: the
    only core that it may use.
    """
    place = place or name
    enter = [f"--net={PLACE}/{place}.net", f"--uts={PLACE}/{place}.uts"]
    if name[0] == "s":
        enter.append(f"--mount={PLACE}/{name}.mnt")
    return [*([] if core is None else ["taskset", "-c", f"{core}"]), "nsenter", *enter, "--", *words]


def programs(words: list[str]) -> list[str]:
    """The programs that a command of `inside`, or any other, starts."""
    if words[0] == "taskset":
        return [words[0], *programs(words[3:])]
    return [words[0], words[words.index("--") + 1]] if words[0] == "nsenter" and "--" in words else words[:1]


def cores(first: int, last: int) -> Step:
    """Restricts the engine and all that it starts (the clients) to these cores."""
    text = 'taskset -c -p "$1" $PPID && grep "^Cpus_allowed_list:" /proc/$PPID/status'
    span = f"{first}-{last}" if last > first else f"{first}"
    arg = ["sh", "-ec", text, "sh", span]
    return Exec(stage="network", limit_s=LIMIT_S, match=[f"^Cpus_allowed_list:\\s+{span}$"], arg=arg)


def pinned(threads: list[str], core: int) -> Step:
    """Pins the kernel threads of these names to this core; fails if there are none."""
    text = """core=$1; shift
for name; do for task in /proc/[0-9]*; do
    if read -r own < "$task/comm" && [ "$own" = "$name" ]; then taskset -c -p "$core" "${task#/proc/}"; fi
done; done"""
    words = ["sh", "-ec", text, "sh", f"{core}", *threads]
    return Exec(stage="network", limit_s=LIMIT_S, match=[f"affinity list: {core}$"], arg=words)


def waiting(words: list[str], expect: str, limit_s: int) -> list[str]:
    """A command that repeats a command until its output matches the expression `expect`."""
    return ["sh", "-ec", script("wait"), "sh", expect, f"{limit_s}", *words]


def killed(name: str) -> list[str]:
    """The command that kills every process of a node."""
    return ["sh", "-c", f"ip netns pids {name} | xargs -r kill -9"]


def gone(name: str) -> list[str]:
    """The command that waits until no process of a node is left, and with it no open file."""
    return ["sh", "-c", f"while ip netns pids {name} | grep -q .; do sleep 0.01; done"]


def link(name: str, state: str) -> list[str]:
    """The command that sets the link of a node up or down."""
    return ["ip", "link", "set", f"v{name}", state]


def pairs(servers: list[str], clients: list[str]) -> list[tuple[list[str], list[str]]]:
    """Every two nodes that speak to each other: a server and a client, or two servers."""
    found = [([server], [client]) for client in clients for server in servers]
    return found + [([one], [other]) for one, other in itertools.combinations(servers, 2)]


def splits(servers: list[str], clients: list[str]) -> list[tuple[list[str], list[str]]]:
    """Every split of the nodes: less than half of the servers with some of the clients, and the others."""
    few = list(itertools.combinations(servers, (len(servers) - 1) // 2))
    sizes = range(1, max(2, len(clients)))
    some = [chosen for size in sizes for chosen in itertools.combinations(clients, size)]
    found = []
    for chosen in some:
        for lost in few:
            side = [*lost, *chosen]
            found.append((side, [name for name in (*servers, *clients) if name not in side]))
    return found


def apart(what: str, sides: list[tuple[list[str], list[str]]]) -> list[str]:
    """The command that makes two sides deaf to each other (what: cut), or hear again (mend): which, $seed says."""
    words = [":".join(",".join(f"{name}={address(name)}" for name in side) for side in both) for both in sides]
    return ["sh", "-ec", script("apart"), "sh", what, *words]


def signalled(signal: str, names: list[str]) -> list[str]:
    """The command that sends a signal to all processes of a node: which, $seed says."""
    return ["sh", "-ec", script("signal"), "sh", signal, *names]


def later(within_s: int) -> str:
    """A line of a script that waits up to within_s seconds, by $seed: multiples of the golden ratio, without their
    whole part, are spread evenly however few follow each other."""
    return f"ms=$((seed * 618034 % 1000000 * {within_s} / 1000)); sleep $((ms / 1000)).$(printf %03d $((ms % 1000)))"


def outage(
    stage: str, after_s: int, for_s: int, parts: dict[str, list[list[str]]], limit_s: int, drawn: Sequence[str] = ()
) -> tuple[Step, Step]:
    """The steps before and after a phase in which a node fails: after_s after the first one, for for_s seconds.

    parts: the commands under lost, back and healed; drawn: lines before that, such as `later`. The output of the second
    step has lines `NAME SECONDS` of the guest's uptime (10 ms): begin; lost, lost-done; back, back-done;
    healing, and healed or unhealed.
    """

    def stamped(name: str, commands: list[list[str]]) -> list[str]:
        return [f"stamp {name}", *map(shlex.join, commands), f"stamp {name}-done"]

    lines = ['stamp() { read -r now rest < /proc/uptime; echo "$1 $now"; }', "stamp begin", f"sleep {after_s}"]
    lines += drawn
    lines += [*stamped("lost", parts["lost"]), f"sleep {for_s}"]
    lines += stamped("back", parts["back"])
    # That it has not healed within the limits of its lines is a finding, too.
    healed = " && ".join(map(shlex.join, parts["healed"])) or "true"
    lines += ["stamp healing", f"if {healed}; then stamp healed; else stamp unhealed; fi"]
    first = _shell(stage, script("outage-begin"), "\n".join(lines))
    last = Exec(stage=stage, limit_s=limit_s, tail=KEPT_BYTES, arg=["sh", "-ec", script("outage-end")])
    return first, last


def ends(names: list[str], logs: Iterable[str]) -> list[Step]:
    """Steps that record queue counters and the ends of logs, and remove the nodes."""
    steps: list[Step] = [_shell("network", script("counters"), *names, tail=KEPT_BYTES)]
    patterns = " ".join(logs)
    for name in names if patterns else ():
        if name[0] == "s":
            words = ["sh", "-c", f"set -- {patterns}\n{script('logs')}"]
            steps.append(Exec(stage="logs", limit_s=LIMIT_S, tail=KEPT_BYTES, arg=inside(name, words)))
    steps.append(_shell("logs", f"[ ! -x /run/busybox ] || tail -n 80 {SYSLOG}", tail=KEPT_BYTES))
    return [*steps, _shell("network", script("remove-hosts"), *names)]
