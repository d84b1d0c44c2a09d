"""Clients on machines of their own, over ssh: a load engine for each, all of which wait for each other around phases.

At a barrier (`steps.Barrier`) a client says that it waits, and goes on when it has read a line. The line goes to all
clients once all of them wait. Then each says its host's time, which gives the starts on one clock: the host showed
it between the moment at which the line was sent and that at which the answer came (Cristian, "Probabilistic clock
synchronization", 1989).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import queue
import shlex
import shutil
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from reprofs.guest.shell import script
from reprofs.guest.steps import CLIENT, Job
from reprofs.labs._base import Obstacle
from reprofs.labs._native import PATH
from reprofs.workplace import end_with_parent

SSH = ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=20", "-o", "ServerAliveInterval=30"]
UNSEEN, LACKING = 9, 8  # exit codes of scripts/shell/client.sh
ADDED = ("user_ns", "system_ns", "items", "bytes")
LARGEST = ("driver_ns", "settle_ns")


def command(host: str, folder: str, number: int, several: bool, tools: Sequence[str]) -> list[str]:
    """What starts a client: ssh with a script for the shell of its host."""
    words = [PATH, folder, f"{number}", f"{number}" if several else "", *tools]
    words = ["sh", "-c", script("client"), "sh", *words]
    return [*SSH, host, shlex.join(words)]


@dataclass
class Result:
    """What clients did together. ending: as in Outcome; events: as those of one engine, the clients in its phases.

    facts: clients (the host of each), clocks_within_ns (how well the starts are known on one clock), starts_within_ns
    (the first and the last start of a phase, the widest).
    """

    ending: str
    events: list[dict]
    console: str
    facts: dict


@dataclass
class _Client:
    host: str
    number: int
    process: subprocess.Popen
    errors: Path
    events: list[dict] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)  # for each event, when the last barrier opened, on its host's clock
    began: int = 0
    waiting: bool = False
    ended: bool = False

    def said(self) -> str:
        """The end of what ssh or the shell complained of."""
        lines = self.errors.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "no message"

    def failures(self) -> list[dict]:
        """The events that say why, told with whose they are."""
        failed = [event for event in self.events if event["event"] == "failed"]
        return [event | {"reason": f"client {self.number} on {self.host}: {event['reason']}"} for event in failed]


@dataclass
class _Clocks:
    """By how much the clock of each host is ahead of this process's, between two bounds."""

    bounds: dict[str, tuple[int, int]] = field(default_factory=dict)

    def seen(self, host: str, shown: int, sent: int, heard: int) -> None:
        low, high = self.bounds.get(host, (shown - heard, shown - sent))
        self.bounds[host] = (max(low, shown - heard), min(high, shown - sent))

    def here(self, host: str, shown: int) -> int:
        low, high = self.bounds.get(host, (0, 0))
        return shown - (low + high) // 2

    def within(self) -> int:
        return max((abs(high - low) // 2 for low, high in self.bounds.values()), default=0)


def run(job: Job, folder: Path, place: Path, engine: Path, limit_s: float) -> Result:
    """Runs the job by all its clients. folder: new, below the directory under test, seen by all hosts; place: private,
    with the programs that the job needs.

    Raises Obstacle when a host cannot be reached or does not see the folder.
    """
    shutil.copy(engine, folder / "engine")
    shutil.copytree(place / "programs", folder / "programs")
    clients = []
    heard: queue.Queue[tuple[_Client, int, str]] = queue.Queue()
    try:
        for number in range(len(job.clients)):
            own = folder / f"c{number}"
            own.mkdir()
            (folder / f"job.{number}").write_text(job.at(str(own)).text().replace(CLIENT, f"{number:03}"))
        for number, host in enumerate(job.clients):
            several = len(job.clients) > 1
            clients.append(_start(number, host, place, command(host, str(folder), number, several, job.tools)))
            threading.Thread(target=_listen, args=(clients[-1], heard), daemon=True).start()
        clocks = _Clocks()
        ending = _converse(clients, heard, clocks, time.monotonic() + limit_s)
    finally:
        for client in clients:
            client.process.kill()
            client.process.wait()
    return _result(clients, clocks, ending)


def _start(number: int, host: str, place: Path, words: list[str]) -> _Client:
    errors = place / f"errors.{number}"
    with errors.open("wb") as complaints:
        process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
            text=True,
            errors="replace",
            preexec_fn=end_with_parent,
        )
    return _Client(host, number, process, errors)


def _listen(client: _Client, heard: queue.Queue) -> None:
    """Lines of a client with the time at which they came; an empty one at the end."""
    for line in client.process.stdout or ():
        heard.put((client, time.monotonic_ns(), line))
    heard.put((client, time.monotonic_ns(), ""))


def _converse(clients: Sequence[_Client], heard: queue.Queue, clocks: _Clocks, until: float) -> str:
    """Takes what the clients say and opens the barriers, until all have ended or one has failed. Returns the ending."""
    sent = 0
    while not all(client.ended for client in clients):
        try:
            client, now, line = heard.get(timeout=max(0.0, until - time.monotonic()))
        except queue.Empty:
            return "timeout"
        if line == "waiting\n":
            client.waiting = True
        elif line.startswith("began "):
            client.began = int(line.split()[1])
            clocks.seen(client.host, client.began, sent, now)
        elif line:
            with contextlib.suppress(json.JSONDecodeError):  # a line cut off by the end
                client.events.append(json.loads(line))
                client.starts.append(client.began)
        else:
            client.ended = True
            if not any(event["event"] == "end" for event in client.events):
                _explain(client)
                return "lost"
            if any(event["event"] == "failed" for event in client.events):
                return "finished"
        if all(client.waiting for client in clients):
            sent = time.monotonic_ns()
            for client in clients:
                client.waiting = False
                with contextlib.suppress(OSError):  # its end is heard of next
                    print("go", file=client.process.stdin, flush=True)
    return "finished"


def _explain(client: _Client) -> None:
    """Raises Obstacle when a client could not start; otherwise it gets an event that says how it was lost."""
    code, silent = client.process.wait(), not client.events
    if silent and code == UNSEEN:
        raise Obstacle(
            f"The node {client.host} cannot use the directory under test ({client.said()}): mount the same file "
            "system at the same path, writable for the same user."
        )
    if silent and code == LACKING:
        raise Obstacle(f"The node {client.host} has no command {client.said()}: install it there.")
    if silent and code == 255:
        raise Obstacle(
            f"The node {client.host} cannot be reached over ssh ({client.said()}): `ssh -o BatchMode=yes "
            f"{client.host} true` must work."
        )
    if not any(event["event"] == "failed" for event in client.events):
        reason = f"its engine ended with {code}: {client.said()}"
        client.events.append({"event": "failed", "timeout": False, "reason": reason})
        client.starts.append(0)


def _result(clients: Sequence[_Client], clocks: _Clocks, ending: str) -> Result:
    several = len(clients) > 1
    columns = [
        [(event, start) for event, start in zip(client.events, client.starts, strict=True) if not _own(event)]
        for client in clients
    ]
    events: list[dict] = []
    spread = 0
    for row in zip(*columns, strict=False):
        same, kind = [event for event, _ in row], row[0][0]["event"]
        starts = [0] * len(same)
        if kind == "phase":
            starts = [clocks.here(client.host, at) for client, (_, at) in zip(clients, row, strict=True)]
            spread = max(spread, max(starts) - min(starts))
        if several and kind in ("phase", "preparation"):
            events.append(_together(same, starts))
        else:
            events.append(_verified(same) if several and kind == "verification" else same[0])
    failed = [event for client in clients for event in client.failures()]
    console = "".join(f"{one.host}: {line}\n" for one in clients for line in one.errors.read_text().splitlines())
    facts: dict = {"clients": [client.host for client in clients]}
    facts |= {"clocks_within_ns": clocks.within(), "starts_within_ns": spread} if several else {}
    return Result(ending, [*(event for event in events if event["event"] != "failed"), *failed[:1]], console, facts)


def _own(event: dict) -> bool:
    return event["event"] == "command" and event["stage"] == "barrier"


def _together(phases: Sequence[dict], starts: Sequence[int]) -> dict:
    """A phase of several clients as the engine has it: from the first start to the last end, syncs included."""
    first = min(starts)
    clients = [
        {"start_ns": start - first, "wall_ns": phase["wall_ns"] - phase["sync_ns"]}
        | {key: phase[key] for key in ("items", "bytes")}
        for phase, start in zip(phases, starts, strict=True)
    ]
    ends = [client["start_ns"] + phase["wall_ns"] for client, phase in zip(clients, phases, strict=True)]
    whole = max(ends)
    worked = max(client["start_ns"] + client["wall_ns"] for client in clients)
    made = phases[0] | {key: sum(phase[key] for phase in phases) for key in ADDED}
    made |= {key: max(phase[key] for phase in phases) for key in LARGEST}
    made |= {"wall_ns": whole, "sync_ns": whole - worked, "settled": all(phase["settled"] for phase in phases)}
    busy = [phase["processor_busy"] for phase in phases if phase["processor_busy"] is not None]
    made["processor_busy"] = max(busy, default=None)  # of their machines the busiest
    made |= {key: phases[ends.index(whole)][key] for key in ("used_bytes", "used_inodes")}  # as the last one saw it
    made["latency"] = _latency([phase["latency"] for phase in phases if phase["latency"]])
    if "samples" in made:
        made["samples"] = [sample for phase in phases for sample in phase["samples"]]
    return made | {"clients": clients}


def _latency(parts: Sequence[dict]) -> dict | None:
    if not parts:
        return None
    buckets: Counter[int] = Counter()
    for part in parts:
        buckets.update(dict(part["buckets"]))
    whole = {key: sum(part[key] for part in parts) for key in ("count", "sum_ns")}
    whole |= {"min_ns": min(part["min_ns"] for part in parts), "max_ns": max(part["max_ns"] for part in parts)}
    return parts[0] | whole | {"buckets": [list(pair) for pair in sorted(buckets.items())]}


def _verified(checks: Sequence[dict]) -> dict:
    """What the clients compared, each its own folder; the digest is that of their digests."""
    whole = {key: sum(check[key] for check in checks) for key in ("files", "bytes", "mismatches")}
    digests = " ".join(check["digest"] for check in checks)
    return checks[0] | whole | {"digest": hashlib.sha256(digests.encode()).hexdigest()[:16]}
