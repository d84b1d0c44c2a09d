"""The raw record: from the engine's events to a measurement, and the digests that seal it.

The digests show the later stages whether a record is still what the trial wrote. They protect against accidents: an
edit, a truncated file, a flipped bit, one file in place of another. Against intent the only proof is to run the trial
again: in the exact lab the digest of the measurement must be the same.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import orjson

from reprofs.errors import UserError
from reprofs.labs._base import HANGS
from reprofs.records.protocol import COLD_METHOD, PROVED_SHARE, RECOVERY, RECOVERY_METHOD

LAYOUT = 2  # the key `schema` of a raw record; increase when readers must tell old records from new ones
KILLED = re.compile(r"(Memory cgroup out|Out) of memory: Killed process \d+ \(([^)]*)\)")  # mm/oom_kill.c of Linux
LARGE = re.compile(rb"[0-9]e\+")  # in the text of a number from 10^16 on
AGAIN = "delete the file and run the study again."  # what to do about a record that cannot be used
SET_ASIDE = "set-aside"  # folder beside a study's records, for those of trials to run again


def digest(value: object) -> str:
    """SHA-256, in hex, of a JSON value: keys sorted, no spaces, ASCII. Independent of how a file is laid out."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def seal(record: dict) -> dict:
    """The record with its key `digests`: of the measurement, and of the whole record without this key."""
    content = {key: value for key, value in record.items() if key != "digests"}
    return content | {"digests": {"measurement": digest(content["measurement"]), "record": digest(content)}}


def broken(record: dict) -> str:
    """The part that does not match its digest: "measurement", "record" (anything else in it), or empty."""
    right = seal(record)["digests"]
    return next((part for part in ("measurement", "record") if record["digests"][part] != right[part]), "")


def whole(record: dict) -> bool:
    """Whether a record matches its digests, told quickly; False may also mean that the quick way cannot tell.

    orjson writes most JSON as `digest` does, but not text outside ASCII and some numbers. A measurement with a large
    number (integers from 2^53 on, others from 10^16 on) is one of those that it cannot tell.
    """
    try:
        measurement = orjson.dumps(record["measurement"], option=orjson.OPT_SORT_KEYS | orjson.OPT_STRICT_INTEGER)
        if b"e+" in measurement and LARGE.search(measurement):
            return False
        content = {key: value for key, value in record.items() if key != "digests"}
        content["measurement"] = orjson.Fragment(measurement)
        parts = {"measurement": measurement, "record": orjson.dumps(content, option=orjson.OPT_SORT_KEYS)}
    except (orjson.JSONEncodeError, KeyError):
        return False
    return record["digests"] == {name: hashlib.sha256(text).hexdigest() for name, text in parts.items()}


def set_aside(raw: Path) -> list[str]:
    """Quarantines records that are not ok or were changed, in a folder next to them.

    The next run of the study then makes them again. Nothing is lost: the report says how many were set aside, and the
    files keep their names and the second at which their trial started. Returns a line for each. Raises UserError when
    there are no records or they cannot be moved.
    """
    paths = sorted(raw.glob("*.json"))
    if not paths:
        raise UserError(f"{raw} has no records: run the study first.")
    said = []
    for path in paths:
        why, started = _not_ok(path)
        if not why:
            continue
        try:
            (raw / SET_ASIDE).mkdir(exist_ok=True)
            for file in (path.with_suffix(".console.log"), path):  # the record last, because a run looks for it
                if file.exists():
                    file.rename(raw / SET_ASIDE / file.name.replace(path.stem, f"{path.stem}.{started}", 1))
        except OSError as error:
            raise UserError(
                f"{path} cannot be moved: {error.strerror}; free space or change its permissions."
            ) from None
        said.append(f"{path.stem}: {why}")
    return said


def _not_ok(path: Path) -> tuple[str, str]:
    """Why a record must be made again (empty if not), and when its trial started, for the file name."""
    try:
        record = json.loads(path.read_text())
        started = "".join(filter(str.isalnum, record["environment"]["started"]))
        if broken(record):
            return "changed after its trial", started
        return ("" if record["status"] == "ok" else f"{record['status']}: {record['reason']}"), started
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}; change its permissions.") from None
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        return "not a whole record of this version", f"{path.stat().st_mtime:.0f}"


def measurement(events: list[dict], devices: list[dict], clock: str, clean: bool = True) -> dict:
    """The events of the engine as the `measurement` of a record (see workflow/schemas/record.schema.yaml).

    clean: whether a cold phase began without anything of the file system in memory, as far as the lab can do that.
    """
    result: dict = {"devices": devices, "commands": [], "phases": [], "verification": []}
    lists = {"command": "commands", "phase": "phases", "verification": "verification"}
    lists |= {"preparation": "preparation", "awaited": "awaited"}
    for event in events:
        kind = event.pop("event")
        if kind == "clock":
            result["clock"] = {"name": clock, **event}
        elif kind == "offset":
            result["start_offset_ns"] = event["start_offset_ns"]
        elif kind == "wear":
            result["wear"] = event
        elif kind == "settle":
            result["settle_ns"] = event["settle_ns"]
        elif kind == "mounted" and "mounted" not in result:
            options = [o for key in ("mount_options", "super_options") for o in event.pop(key).split(",")]
            result["mounted"] = {**event, "options": list(dict.fromkeys(options))}
        elif kind in ("restored", "survivors"):
            crash = next(phase["crash"] for phase in reversed(result["phases"]) if "crash" in phase)
            crash |= event if kind == "restored" else {"survivors": event}
        elif kind in lists:
            result.setdefault(lists[kind], []).append(event)
    for phase in (*result["phases"], *result.get("preparation", [])):
        phase["cold"] = _cold(phase, clean) if phase["cache"] == "cold" else None
    return result


def _cold(phase: dict, clean: bool) -> dict:
    if not clean:
        why = "without root only the pages of the files leave memory, names and inodes may stay"
        return {"method": "pages of the files dropped (posix_fadvise)", "read_bytes": 0, "proved": None, "why": why}
    if phase["device"] is None:
        return {"method": "caches dropped", "read_bytes": 0, "proved": None, "why": "no device: nothing can be cold"}
    method = RECOVERY_METHOD if phase["name"].endswith(RECOVERY) else COLD_METHOD
    if "rebuilding" in phase:
        why = "the reads of the rebuild cannot be told from those of the phase"
        return {"method": method, "read_bytes": phase["device"]["read_bytes"], "proved": None, "why": why}
    read, content = phase["device"]["read_bytes"], phase["bytes"] if phase["operation"] == "read" else 0
    share = f"{read} bytes came from the device" + (f" for {content} bytes of content" if content else "")
    return {"method": method, "read_bytes": read, "proved": read > PROVED_SHARE * content, "why": share}


def parse_events(output: bytes) -> list[dict]:
    """The events in the engine's output, one per line; a line truncated by the end of the guest is left out."""
    events = []
    for line in output.decode("utf-8", "replace").splitlines():
        try:
            events.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return events


def _hang(console: str) -> str:
    said = next((line.strip() for line in console.splitlines() if HANGS.search(line)), "")
    return f"it says: {said}" if said else "it lets nothing interrupt a processor."


def status(ending: str, events: list[dict], console: str, limit_s: float) -> tuple[str, str]:
    """(status, reason) of a trial that ran, from how the lab ended and the engine's events."""
    failure = next((event for event in events if event["event"] == "failed"), None)
    last = next((f"{e['event']} {e.get('name', e.get('stage', ''))}".strip() for e in reversed(events)), "nothing")
    if failure:
        return ("timeout" if failure["timeout"] else "failed"), failure["reason"]
    if ending == "timeout":
        return "timeout", f"The host's time limit of {limit_s:g} s passed; the last thing heard was: {last}."
    if ending == "hang":
        return "failed", f"The guest's kernel hangs after {last}; {_hang(console)}"
    if ending == "panic":
        lines = [line for line in console.splitlines() if "Kernel panic" in line or "Out of memory" in line]
        return (
            "failed",
            f"The guest's kernel panicked after {last}: {lines[-1].strip() if lines else 'see the console log'}",
        )
    if ending != "finished" or not any(event["event"] == "end" for event in events):
        if killed := KILLED.search(console):
            what = "Out of memory" if killed[1] == "Out" else "The limit memory_mib is too small"
            return "failed", f"{what}: the kernel killed {killed[2]}; the last thing heard was: {last}."
        return "failed", f"The lab ended before the job did; the last thing heard was: {last}."
    return "ok", ""
