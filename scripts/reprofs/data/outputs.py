"""Parses program output in a record: the stack's read-back, queues, fio, rsync, power cuts, outages."""

from __future__ import annotations

import errno
import functools
import itertools
import json
import re

from reprofs.data.reader import phases_of
from reprofs.importers import Malformed, fio, iozone
from reprofs.plan.phase import Phase
from reprofs.records.protocol import RECOVERY

FINAL = 1000  # the number of the first client who reads through a new mount, in the end
VERIFIED = re.compile(r'^(\{"written":.*\})$', re.MULTILINE)  # what engine promise --verify says
PROMISED = re.compile(r'^(\{"promised":.*\})$', re.MULTILINE)  # what engine promise --seconds says
NODES = re.compile(r"^nodes (.*)$", re.MULTILINE)  # of hosts.apart and hosts.signalled
STAMPS = re.compile(r"^([a-z-]+) (\d+\.\d+)$", re.MULTILINE)  # of hosts.outage
# What rsync --stats says of its list of files; thousands have commas.
LISTS = re.compile(r"^File list (generation|transfer) time: ([\d,]+\.\d+) seconds$", re.MULTILINE)
QUEUES = re.compile(r"^qdisc netem .*\n Sent \d+ bytes (\d+) pkt \(dropped (\d+)", re.MULTILINE)


def commands_of(record: dict | None) -> list[dict]:
    """The commands of a record outside the measured phases; none without a record."""
    return record["measurement"].get("commands", []) if record else []


def parsed(record: dict | None, planned: dict[tuple[str, str], Phase]) -> dict | None:
    """The record with program output parsed into values, in its phases and commands.

    Phases get `samples` (of fio and rsync) and `flush` (of fio: the flushes that it timed), checks `survivors`: files
    after a power cut or an outage. Phases of engine history get `calls`, of engine states `states`, of engine faults
    `faults`, of engine rot `rot`. A record whose
    output cannot be parsed has failed, whatever its programs' exit codes were. `planned` maps (phase, cache) to the
    phase in the plan.
    """
    for phase in phases_of(record):
        expected = planned.get((phase["name"], phase["cache"]))
        if "--stats" in phase.get("argv", ()) and phase["argv"][0] == "rsync" and not phase.get("clients"):
            phase["samples"] = _file_lists(phase["output"])
        if not expected or not (expected.parse or expected.visits) or phase["exit"] != 0:
            continue
        try:
            if expected.parse == "history":
                phase["calls"] = _calls(phase["output"])
                continue
            if expected.visits:
                phase[expected.visits] = VISITED[expected.visits](phase["output"])
                continue
            if expected.parse == "iozone":
                phase["samples"] = iozone.samples(phase["output"])
                continue
            (name,) = expected.samples or {}  # one job in one direction
            phase["samples"] = [sample | {"name": name} for sample in fio.samples(phase["output"])]
            if not phase["samples"]:
                raise ValueError("fio's output has no results")
            phase["flush"] = fio.flushes(phase["output"])
        except (ValueError, Malformed) as error:
            record = _failed(record, f"Phase {phase['name']}: {error}.")
    for command in commands_of(record):
        said = VERIFIED.search(command["output"]) if command["stage"].startswith("check ") else None
        try:
            command["survivors"] = json.loads(said[1]) if said else None
        except ValueError as error:
            record = _failed(record, f"The output of {command['stage']} is not valid JSON: {error}.")
    return record


def _calls(output: str) -> list[dict]:
    """The calls that engine history printed, each client's in order. Raises ValueError for anything else."""
    found: list[dict] = []
    client = None
    for line in output.splitlines():
        words = line.split()
        if words[0] == "client":
            client = int(words[1])
        elif words[0] != "end":
            if client is None or len(words) != 7:
                raise ValueError("the output of engine history does not begin with a client, or has other lines")
            start, took, call, name, other, error, value = words
            row: dict = {"client": client, "call": call, "name": name, "other": "" if other == "-" else other}
            row |= {"start_ns": int(start), "wall_ns": None if took == "..." else int(took)}
            done = int(error) if error != "?" else None
            result = None if done is None else "ok" if not done else errno.errorcode.get(done, f"E{done}")
            found.append(row | {"result": result, "records": "" if value in ("-", "=") else value})
            if done is None and call == "write":  # what it was about to write stands where a second name does
                found[-1] |= {"other": "", "records": other}
    return found


def calls(record: dict | None, phase: dict) -> list[dict]:
    """The calls of a phase of engine history; those of its checks are of clients from FINAL on, who come later."""
    found = list(phase.get("calls", []))
    stage = f"check {phase['name']}"
    checks = [command for command in commands_of(record) if command["stage"] == stage] if found else []
    for number, command in enumerate(checks):
        try:
            found += [row | {"client": FINAL + number} for row in _calls(command["output"])]
        except ValueError:  # it failed, and so has the trial
            continue
    return found


def states(output: str) -> list[dict]:
    """The rows of the table states that engine states wrote: one a sequence, and one a finding.

    Raises ValueError for a line that is none, such as the rest of one that was cut off.
    """
    rows = []
    for line in output.splitlines():
        told = json.loads(line)
        own = {key: told[key] for key in ("sequence", "failed", "writes", "flushes", "fua", "states")}
        own |= {"failed": told["failed"] or None, "wall_ns": told["ns"]}
        rows.append(own)
        for one in told["findings"]:
            found = {key: one.get(key) for key in ("kind", "after", "broken", "at", "again", "what")}
            rows.append(own | found | {"found": one["states"]})
    if not rows:
        raise ValueError("engine states has said nothing")
    return rows


ERRORS = (
    *("fsync", "fsync_again", "fsync_other", "fsync_later", "new_file", "fsync_folder", "syncfs", "usable", "mount"),
    *("cached", "cold", "after", "new_after"),  # a word for the content, or an error
)


def faults(output: str) -> list[dict]:
    """The rows of the table faults that engine faults wrote, one a case; none where no request of the kind was made.

    Raises ValueError for a line that is none, such as the rest of one that was cut off.
    """
    rows = []
    for line in output.splitlines():
        told = json.loads(line)
        row = {key: told[key] for key in ("kind", "sector", "hits", "errors", "others")}
        row |= {key: _error(told[key]) for key in ERRORS if key in told}
        row |= {"nth": told.get("nth"), "fsync_ns": told.get("ns"), "mended": bool(told.get("mended", False))}
        rows.append(row | {"checker": told["checker"], "what": told["what"] or None})
    return rows


def rot(output: str) -> list[dict]:
    """The rows of the table rot that engine rot wrote, one for each copy or block that rotted.

    Raises ValueError for a line that is none, such as the rest of one that was cut off.
    """
    rows = []
    for line in output.splitlines():
        told = json.loads(line)
        row = {key: told[key] for key in ("page", "disk", "copies", "read_left")}
        row["kind"] = told.get("kind", "data")  # engines of before 2026-11-29 let nothing else rot
        row |= {key: told.get(key) for key in ("found", "scrub_left", "repair_left", "found_again")}
        rows.append(row | {key: _error(told[key]) if key in told else None for key in ("read", "scrubbed", "repaired")})
    return rows


VISITED = {"states": states, "faults": faults, "rot": rot}


def _error(told: int | str) -> str:
    """`ok` for 0, the name of an error for its number, words as they are."""
    text = str(told)
    return text if not text.isdigit() else errno.errorcode.get(int(text), f"E{text}") if int(text) else "ok"


def _failed(record: dict | None, reason: str) -> dict | None:
    return record if not record or record["status"] != "ok" else record | {"status": "failed", "reason": reason}


def _file_lists(output: str) -> list[dict]:
    """Samples of the times that rsync needed for its list of files."""
    return [
        {"name": f"list-{part}", "wall_ns": round(float(seconds.replace(",", "")) * 1e9), "items": 1, "bytes": 0}
        for part, seconds in LISTS.findall(output)
    ]


def power_cut(record: dict | None, phases: list[dict]) -> dict:
    """The columns on the power cuts of a phase, one cut per run: mean times, and sums of everything counted.

    What was left is reported by the engine, or by the phase's own check (engine promise --verify) of each client.
    """
    cuts = [phase["crash"] for phase in phases if "crash" in phase]
    if not cuts:
        return {}
    name = phases[0]["name"]
    after = [phase["wall_ns"] for phase in phases_of(record) if phase["name"] == name + RECOVERY]
    survivors = [one for one in _checks(record, name) if one]
    survivors += [cut["survivors"] for cut in cuts if "survivors" in cut]
    counted = ("written", "promised", "broken", "kept", "short", "wrong", "missing", "extra")
    return {
        "crash_cut_ns": round(sum(cut["cut_ns"] for cut in cuts) / len(cuts)),
        "crash_lost_bytes": sum(cut.get("lost_bytes", 0) for cut in cuts),
        "crash_recovery_ns": round(sum(after) / len(after)) if after else None,
        **{f"crash_{key}": sum(one.get(key, 0) for one in survivors) if survivors else None for key in counted},
    }


def _checks(record: dict | None, phase: str) -> list[dict | None]:
    """What each check of a phase's files printed of them."""
    return [command["survivors"] for command in commands_of(record) if command["stage"] == f"check {phase}"]


def outage(record: dict | None, phases: list[dict], planned: Phase | None) -> dict:
    """The columns on the failover in a phase: what the client saw, the state of its files, the healing time."""
    if not record or not planned or not planned.outage:
        return {}
    name = phases[0]["name"]
    stage = f"outage {name}"
    printed = "\n".join(command["output"] for command in commands_of(record) if command["stage"] == stage)
    at = {word: float(seconds) for word, seconds in STAMPS.findall(printed)}
    line = PROMISED.search(phases[0]["output"])
    seen = json.loads(line[1]) if line else {}
    checks = _checks(record, name)
    end = at.get("healed", at.get("unhealed"))
    heals = end is not None and end > at["healing"]
    return {
        "outage_what": planned.outage.what,
        "outage_nodes": (NODES.findall(printed) or [None])[0],
        "outage_after_ns": round((at["lost"] - at["begin"]) * 1e9) if "lost" in at else None,
        "outage_ns": round((at["back"] - at["lost"]) * 1e9) if "back" in at else None,
        "outage_healed": "healed" in at if heals else None,
        "outage_heal_ns": round((end - at["back"]) * 1e9) if heals and end else None,
        "outage_promised": seen.get("promised"),
        "outage_failed": seen.get("failed"),
        "outage_errors": ", ".join(f"{number} {error}" for error, number in seen.get("errors", {}).items()),
        "outage_longest_ns": seen.get("longest_ns"),
        "outage_stall_ns": seen.get("gap_ns"),
        "outage_broken": checks[0]["broken"] if checks and checks[0] else None,
    }


def readback(commands: list[dict], summary: list[str]) -> str | None:
    """Output of the commands that read the stack back, at the start of the measured phases.

    Of a long output only those that match one of the regular expressions in `summary`, from the stack's file.
    """
    faults = [number for number, command in enumerate(commands) if command["stage"] == "fault"]
    later = itertools.dropwhile(lambda command: command["stage"] != "readback", commands[faults[-1] if faults else 0 :])
    # Only the first reading: at the end of the trial it is read again, when a rebuilt array is complete.
    first: dict[tuple, str] = {}
    for command in itertools.takewhile(lambda command: command["stage"] == "readback", later):
        first.setdefault(tuple(command["argv"]), command["output"])
    lines = [line for output in first.values() for line in key_lines(output, tuple(summary))]
    return "\n".join(dict.fromkeys(lines)) or None


@functools.lru_cache(1024)
def key_lines(output: str, summary: tuple[str, ...]) -> list[str]:
    """The lines of a read-back to show: all if one or two, else at most eight matching ones."""
    # The members of an MD array are many, and their number and state are in the next line: [6/6] [UUUUUU].
    lines = [re.sub(r"( \S+\[\d+\](\(\w\))?)+$", "", " ".join(line.split())) for line in output.splitlines()]
    lines = [line for line in lines if line]
    return [line for line in lines if len(lines) <= 2 or any(re.search(one, line) for one in summary)][:8]


def frames(commands: list[dict]) -> dict:
    """The counters of the network queues, summed over all link ends; None if nothing was shaped.

    Read from the lines of `tc -s qdisc show` (iproute2): Sent 210 bytes 5 pkt (dropped 0, overlimits 0 requeues 0).
    """
    printed = "\n".join(command["output"] for command in commands if command["stage"] == "network")
    counts = [tuple(map(int, line)) for line in QUEUES.findall(printed)]
    sums = [sum(column) for column in zip(*counts, strict=True)] or [None, None]
    return dict(zip(("network_frames", "network_dropped"), sums, strict=True))
