"""Hosts: network namespaces on a shaped bridge, as steps of a job.

A server has its own network, name and mounts (what it mounts, nobody else sees; what the guest mounts, it sees too). A
client has only its own network and name (by which an NFS server knows it), so that the load engine, which runs on the
guest itself, sees what it mounts. In the lab host the guest is the trial's own namespaces of this machine.
Sources: ip-netns(8), tc-netem(8), unshare(1), mount_namespaces(7).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field

from reprofs.guest.steps import Exec, Step

TOOLS = ["ip", "tc", "nsenter", "unshare"]
LIMIT_S = 600
KEPT_BYTES = 65536  # of the output of counters and logs
PLACE = "/run/hosts"
OUTAGE = "/run/outage"
SYSLOG = "/run/syslog"
NET = "10.88.0"

# No IPv6: its neighbour discovery would send packets now and then. No segments larger than a frame: they would pass the
# switch as one. $1: MTU; then address and name of every host.
BRIDGE = f"""
mtu=$1; shift
mkdir -p {PLACE} /run/netns
mount --make-rshared /
mount --bind {PLACE} {PLACE}
mount --make-private {PLACE}
echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6
echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6
ip link add br0 address 02:00:00:00:00:00 mtu "$mtu" type bridge stp_state 0 mcast_snooping 0
ip link set br0 up
echo 'hosts: files' > /etc/nsswitch.conf
echo '127.0.0.1 localhost' > /etc/hosts
printf '%s %s\\n' "$@" >> /etc/hosts
# What daemons send to syslog. Only in guests, which have this busybox: the /dev/log of a machine is its own.
[ ! -x /run/busybox ] || /run/busybox syslogd -S -s 0 -O {SYSLOG}
"""

# $1: name, $2: address, $3: number, $4: MTU, $5: tc's words or nothing, $6: folders of a server's own, - for a client.
HOST = f"""
name=$1 address=$2 mac=$(printf '02:00:00:00:%02x' "$3") mtu=$4 qdisc=$5 own=$6
touch {PLACE}/$name.net {PLACE}/$name.uts
if [ "$own" = - ]; then
    unshare --net={PLACE}/$name.net --uts={PLACE}/$name.uts sh -c 'echo "$1" > /proc/sys/kernel/hostname' sh "$name"
else
    [ -z "$own" ] || mkdir -p $own
    touch {PLACE}/$name.mnt
    # Linux 6.18 keeps a mount namespace only if its number is above that of the one it is kept in, and every processor
    # counts for itself: where that fails, another processor is tried.
    on= cpu=0
    until $on unshare --net={PLACE}/$name.net --mount={PLACE}/$name.mnt --uts={PLACE}/$name.uts --propagation slave \\
        sh -ec 'echo "$1" > /proc/sys/kernel/hostname; shift
            for folder; do mount -t tmpfs own "$folder"; done' sh "$name" $own
    do
        umount -q {PLACE}/$name.net {PLACE}/$name.uts || true
        [ -e /sys/devices/system/cpu/cpu$cpu ] || exit 1
        on="taskset -c $cpu" cpu=$((cpu + 1))
    done
fi
ln -s {PLACE}/$name.net /run/netns/$name
ip link add "v$name" address "$mac:01" mtu "$mtu" gso_max_segs 1 type veth \\
    peer name eth0 address "$mac:02" mtu "$mtu" gso_max_segs 1 netns "$name"
ip link set "v$name" master br0 up
ip -n "$name" addr add "$address/24" dev eth0
ip -n "$name" link set lo up
ip -n "$name" link set eth0 up
if [ "$qdisc" ]; then
    tc -n "$name" qdisc add dev eth0 root $qdisc
    tc qdisc add dev "v$name" root $qdisc
fi
"""

# $1: expression, $2: seconds; then the command.
WAIT = """
expect=$1 limit=$2; shift 2
read -r start rest < /proc/uptime
until said=$("$@" 2>&1) && printf '%s\\n' "$said" | grep -Eq -e "$expect"; do
    read -r now rest < /proc/uptime
    if [ $((${now%.*} - ${start%.*})) -gt "$limit" ]; then
        printf '%s\\n' "$said"
        echo "it did not say '$expect' within $limit s; the ends of the logs are in the record, stage logs"
        exit 1
    fi
    sleep 0.1
done
printf '%s\\n' "$said"
"""

COUNTERS = """
for name; do
    echo "$name, its end:"; tc -n "$name" -s qdisc show dev eth0
    echo "$name, end of the switch:"; tc -s qdisc show dev "v$name"
done
"""

LOGS = """
for file; do
    if [ -s "$file" ]; then echo "$file:"; tail -n 12 "$file"; fi
done
"""

# What is still there of a host: its processes, then its names.
REMOVE = f"""
for name; do
    ip netns pids "$name" | while read -r process; do kill -9 "$process"; done
    if [ -e {PLACE}/$name.mnt ]; then umount {PLACE}/$name.mnt; fi
    ip link del "v$name"
    rm /run/netns/$name
    umount {PLACE}/$name.net {PLACE}/$name.uts
done
ip link del br0
umount {PLACE}
rm -r {PLACE}
"""


def modules(qdisc: list[str]) -> list[str]:
    """The kernel's modules for a network. qdisc: tc's words for the ends of its cables, or none."""
    return ["veth", "bridge", *(["sch_netem"] if qdisc else [])]


def _shell(stage: str, script: str, *words: object, tail: int | None = None) -> Exec:
    return Exec(
        stage=stage, limit_s=LIMIT_S, tail=tail, arg=["sh", "-ec", script.strip(), "sh", *(f"{word}" for word in words)]
    )


def address(name: str) -> str:
    """The address of the host sN or cN."""
    return f"{NET}.{int(name[1:]) + (100 if name[0] == 'c' else 0)}"


@dataclass(frozen=True, kw_only=True)
class Bridge(Step):
    """Makes the switch, and the names of the hosts known. names: each with the host that it is."""

    mtu: int
    names: dict[str, str]

    def line(self) -> str:
        """For the engine it is a command like any other."""
        known = [word for name, place in self.names.items() for word in (address(place), name)]
        return _shell("network", BRIDGE, self.mtu, *known).line()


@dataclass(frozen=True, kw_only=True)
class Host(Step):
    """Makes a host and its cable. number: from 1, of the hosts; qdisc: tc's words for both ends of the cable, or none;

    private: folders that a server has for itself.
    """

    name: str
    number: int
    mtu: int
    qdisc: list[str]
    private: list[str] = field(default_factory=list)

    def line(self) -> str:
        """For the engine it is a command like any other."""
        own = " ".join(self.private) if self.name[0] == "s" else "-"
        return _shell(
            "network", HOST, self.name, address(self.name), self.number, self.mtu, " ".join(self.qdisc), own
        ).line()


def inside(name: str, words: list[str], place: str = "") -> list[str]:
    """The command, run on a host. place: the server on which a client runs, if it has no host of its own."""
    place = place or name
    enter = [f"--net={PLACE}/{place}.net", f"--uts={PLACE}/{place}.uts"]
    if name[0] == "s":
        enter.append(f"--mount={PLACE}/{name}.mnt")
    return ["nsenter", *enter, "--", *words]


def programs(words: list[str]) -> list[str]:
    """The programs that a command of `inside`, or any other, starts."""
    return [words[0], words[words.index("--") + 1]] if words[0] == "nsenter" and "--" in words else words[:1]


def waiting(words: list[str], expect: str, limit_s: int) -> list[str]:
    """A command that repeats another one until its output matches the expression `expect`."""
    return ["sh", "-ec", WAIT.strip(), "sh", expect, f"{limit_s}", *words]


# $1: what happens. A shell of its own session does it beside the next step, and says in the end how it went.
BEGIN = f"""
setsid sh -c 'sh -ec "$1"; echo "exit $?"' sh "$1" > {OUTAGE} 2>&1 &
"""
END = f"""
until grep -q "^exit" {OUTAGE}; do sleep 0.1; done
cat {OUTAGE}
grep -qx "exit 0" {OUTAGE}
"""


def killed(name: str) -> list[str]:
    """The command that kills every process of a host."""
    return ["sh", "-c", f"ip netns pids {name} | xargs -r kill -9"]


def link(name: str, state: str) -> list[str]:
    """The command that sets the cable of a host up or down."""
    return ["ip", "link", "set", f"v{name}", state]


def outage(stage: str, after_s: int, for_s: int, parts: dict[str, list[list[str]]], limit_s: int) -> tuple[Step, Step]:
    """The steps before and after a phase in which a host is lost: after_s after the first one, for for_s seconds.

    parts: the commands under lost, back and healed. The output of the second step has lines `NAME SECONDS` of the
    guest's uptime (10 ms): begin; lost, lost-done; back, back-done; healing, and healed or unhealed.
    """

    def stamped(name: str, commands: list[list[str]]) -> list[str]:
        return [f"stamp {name}", *map(shlex.join, commands), f"stamp {name}-done"]

    lines = ['stamp() { read -r now rest < /proc/uptime; echo "$1 $now"; }', "stamp begin", f"sleep {after_s}"]
    lines += [*stamped("lost", parts["lost"]), f"sleep {for_s}"]
    lines += stamped("back", parts["back"])
    # That it has not healed within the limits of its lines is a finding, too.
    healed = " && ".join(map(shlex.join, parts["healed"])) or "true"
    lines += ["stamp healing", f"if {healed}; then stamp healed; else stamp unhealed; fi"]
    first = _shell(stage, BEGIN, "\n".join(lines))
    last = Exec(stage=stage, limit_s=limit_s, tail=KEPT_BYTES, arg=["sh", "-ec", END.strip()])
    return first, last


def ends(names: list[str], logs: Iterable[str]) -> list[Step]:
    """Steps that record what the queues counted and how their logs end, and that remove the hosts."""
    found: list[Step] = [_shell("network", COUNTERS, *names, tail=KEPT_BYTES)]
    patterns = " ".join(logs)
    for name in names if patterns else ():
        if name[0] == "s":
            script = f"set -- {patterns}\n{LOGS.strip()}"
            found.append(Exec(stage="logs", limit_s=LIMIT_S, tail=KEPT_BYTES, arg=inside(name, ["sh", "-c", script])))
    found.append(_shell("logs", f"[ ! -x /run/busybox ] || tail -n 80 {SYSLOG}", tail=KEPT_BYTES))
    return [*found, _shell("network", REMOVE, *names)]
