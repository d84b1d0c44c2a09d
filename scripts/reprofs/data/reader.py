"""Reads raw records: each is checked against its schema, its digests, the plan, and the guests of the others."""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
from collections import Counter
from pathlib import Path

import numpy as np
import orjson
import yaml
from jsonschema import Draft202012Validator
from jsonschema_rs import Draft202012Validator as Validator

from reprofs.errors import UserError, cut
from reprofs.files import read_json
from reprofs.plan.cell import PlannedTrial
from reprofs.plan.plan import Plan
from reprofs.records import raw as seals
from reprofs.records.identity import GUEST
from reprofs.records.raw import AGAIN, LAYOUT

RECORD_SCHEMA = Path(__file__).parents[3] / "workflow/schemas/record.schema.yaml"
FILLED = b'"buckets": [['  # how the buckets of a histogram begin in the text of a record
BUCKETS = 58 * 64 - 1  # of a latency histogram: the next one would end at 2^63 ns


@functools.cache
def record_schema() -> dict:
    """The JSON schema of a raw record."""
    return yaml.safe_load(RECORD_SCHEMA.read_text())


class Reader:
    """Reads the records of a plan's trials from the folder `raw`, each checked."""

    def __init__(self, plan: Plan, raw: Path):
        self.raw, self._plan = raw, plan
        # Tells in a twentieth of the time whether `_check` would find fault, but not in the same words.
        self._valid = Validator(record_schema()).is_valid

    def read(self, trial: PlannedTrial) -> tuple[dict | None, str]:
        """The record of a trial and the SHA-256 of its file; None and nothing without one.

        The buckets of its latencies have become arrays, one row a bucket: index, count.

        Raises UserError for a record that is not what its trial wrote.
        """
        path = self.raw / f"{trial.id}.json"
        try:
            with path.open("rb", buffering=0) as file:
                data = file.read()
        except FileNotFoundError:
            return None, ""
        except OSError:
            data = b""  # which the slow way says better
        record = self._sound(data)
        if record is None:
            record = read_json(path)
            _check(path, record, record_schema())
            _check_parts(path, record)
            _pack(path, record)
        else:
            _check_parts(path, record)
        _check_against_plan(path, record, trial, self._plan)
        return record, hashlib.sha256(data).hexdigest()

    def _sound(self, data: bytes) -> dict | None:
        """A record that fits the schema and its digests, buckets as arrays; None for one to be looked at closely.

        Most of a record are its buckets. Their text is cut out before the rest is parsed, and put back for the digests,
        which also show that each stands where it did.
        """
        head, *rest = data.split(FILLED)
        parts = [part.partition(b"]]") for part in rest]
        try:
            record = orjson.loads((FILLED + b"0, 0]]").join([head, *(after for _, _, after in parts)]))
        except orjson.JSONDecodeError:
            return None
        if not self._valid(record):
            return None
        phases = [*phases_of(record), *record["measurement"].get("preparation", [])]
        latencies = [phase["latency"] for phase in phases if phase["latency"]]
        if len(latencies) != len(parts):
            return None  # such as a histogram without buckets
        texts = [text.replace(b", ", b",") for text, _, _ in parts]
        for latency, text in zip(latencies, texts, strict=True):
            latency["buckets"] = orjson.Fragment(b"[[" + text + b"]]")
        if not seals.whole(record):
            return None
        sizes = [text.count(b"]") + 1 for text in texts]
        together = b"],[".join(texts)
        if together.translate(None, b"0123456789") != b"],[".join([b","] * sum(sizes)):
            return None  # not pairs of natural numbers
        numbers = np.fromstring(together.translate(None, b"[]"), np.int64, sep=",")
        if len(numbers) != 2 * sum(sizes):
            return None
        numbers = numbers.reshape(-1, 2)
        for latency, end, size in zip(latencies, itertools.accumulate(sizes), sizes, strict=True):
            latency["buckets"] = numbers[end - size : end]
        return record if _fits(numbers, sizes, [latency["count"] for latency in latencies]) else None


def _check(path: Path, record: dict, schema: dict) -> None:
    """Raises UserError for a record that does not fit the schema, was changed after its trial or has huge numbers."""
    if isinstance(record, dict) and record.get("schema", LAYOUT) != LAYOUT:
        raise UserError(f"{path} was written by another version of ReproFS (its schema is not {LAYOUT}): {AGAIN}")
    for error in Draft202012Validator(schema).iter_errors(record):
        key = cut(".".join(str(part) for part in error.absolute_path) or "the record", 80)
        raise UserError(f"{path} is not a valid record: {key}: {cut(error.message, 80)}; {AGAIN}")
    part = seals.broken(record)
    if part:
        raise UserError(f"{path} was changed after its trial: the digest of its {part} differs; {AGAIN}")
    large = next((key for key, value in _numbers(record["measurement"], "measurement") if abs(value) >= 2**63), None)
    if large:
        raise UserError(f"{path}: {large} does not fit into 64 bits; {AGAIN}")


def _check_parts(path: Path, record: dict) -> None:
    """Raises UserError for a record that contradicts itself."""
    if hashlib.sha256(record["environment"]["job"].encode()).hexdigest() != record["environment"]["job_sha256"]:
        raise UserError(f"{path}: environment.job_sha256 is not the digest of environment.job; {AGAIN}")
    seen = set()
    for number, phase in enumerate(phases_of(record)):
        which = (phase["name"], phase["cache"], phase.get("run"))
        if which in seen:
            raise UserError(
                f"{path}: measurement.phases.{number} repeats {which[0]} ({which[1]}): give each phase its own name."
            )
        seen.add(which)


def _pack(path: Path, record: dict) -> None:
    """Make arrays of the buckets of a record's histograms. Raises UserError for a histogram that contradicts itself."""
    latencies = {n: phase["latency"] for n, phase in enumerate(phases_of(record)) if phase["latency"]}
    for number, latency in latencies.items():
        if fault := _fault(latency):
            raise UserError(f"{path}: measurement.phases.{number}.latency.{fault}; {AGAIN}")
        latency["buckets"] = np.array(latency["buckets"], np.int64).reshape(-1, 2)


def _fits(numbers: np.ndarray, sizes: list[int], counts: list[int]) -> bool:
    """Whether all histograms of a record are sound, told quickly; False may also mean that this way cannot tell."""
    index, count = numbers.T
    if index.min(initial=0) < 0 or index.max(initial=0) >= BUCKETS:
        return False
    if count.min(initial=0) < 0 or count.max(initial=0) >= 2**32:  # so that no sum is too large
        return False
    sums = np.zeros(len(count) + 1, np.int64)
    count.cumsum(out=sums[1:])
    return np.diff(sums[list(itertools.accumulate(sizes, initial=0))]).tolist() == counts


def _fault(latency: dict) -> str:
    """What is wrong with a histogram; empty if nothing is."""
    index, count = zip(*latency["buckets"], strict=True) if latency["buckets"] else ((), ())
    if sum(count) != latency["count"]:
        return "count is not the sum of its buckets"
    if index and (min(index) < 0 or max(index) >= BUCKETS):
        return f"buckets has an index that is not one of 0 to {BUCKETS - 1}"
    return ""


def _numbers(value, key: str):
    """Dotted key and value of every number in a part of a record."""
    for name, item in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(item, dict | list):
            yield from _numbers(item, f"{key}.{name}")
        elif isinstance(item, int | float):
            yield f"{key}.{name}", item


def _check_against_plan(path: Path, record: dict, trial: PlannedTrial, plan: Plan) -> None:
    """Raises UserError for a record of another cell, job, protocol or clock, or an incomplete one with status ok."""
    environment, measurement = record["environment"], record["measurement"]
    names = trial.names()
    compared = [(f"trial.{key}", record["trial"][key], names[key]) for key in names if key != "order"]
    compared.append(("environment.job_sha256", environment["job_sha256"], trial.job_sha256))
    compared.append(("environment.protocol", environment["protocol"], plan.protocol))
    compared.append(("environment.lab.name", environment["lab"].get("name"), trial.full_lab))
    if measurement.get("clock"):
        compared.append(("measurement.clock.name", measurement["clock"]["name"], plan.labs[trial.full_lab].clock))
    for key, was, planned in compared:
        if was != planned:
            raise UserError(
                f"{path} is from another plan: {key} is {cut(was, 80)}, planned is {cut(planned, 80)}; {AGAIN}"
            )
    if record["status"] != "ok":
        return
    workload = plan.workloads[trial.workload]
    measured = Counter((phase["name"], phase["cache"]) for phase in phases_of(record))
    for phase in workload.phases:
        if measured[phase.name, phase.cache] != workload.runs:
            raise UserError(f"{path} says ok, but phase {phase.name} ({phase.cache}) is missing; {AGAIN}")
    wrong = sum(check["mismatches"] for check in measurement.get("verification", []))
    if wrong:
        raise UserError(f"{path} says ok, but {wrong} files have other content than was written; {AGAIN}")


class Guests:
    """Checks that all numbers come from one engine, and exact ones from one guest and one QEMU."""

    def __init__(self) -> None:
        # Lab and guest -> what fixes the numbers there, as JSON -> names of trials, in order.
        self._found: dict[tuple[str, str], dict[str, list[str]]] = {}

    def add(self, name: str, record: dict, plan: Plan) -> None:
        """Add the guest and engine executables of a trial's record."""
        trial, lab = record["trial"], record["environment"]["lab"]
        if record["status"] == "skipped":
            return
        exact = plan.labs[trial["lab"]].clock == "instructions"
        values = {key: lab.get(key) for key in GUEST} if exact else {}
        values["engine_sha256"] = lab.get("engine_sha256")
        values |= {f"programs_sha256.{program}": digest for program, digest in lab.get("programs_sha256", {}).items()}
        place = trial["lab"], plan.guest_of(trial["filesystem"], trial["stack"], trial["workload"])
        self._found.setdefault(place, {}).setdefault(text_of(values), []).append(name)

    def merge(self, other: Guests) -> None:
        """Add the notes of another instance."""
        for place, values in other._found.items():
            for text, names in values.items():
                self._found.setdefault(place, {}).setdefault(text, []).extend(names)

    def check(self, raw: Path) -> None:
        """Raises UserError if there is more than one."""
        origins: dict[tuple, dict[str, list[str]]] = {}
        for (lab, guest), texts in self._found.items():
            for text, names in texts.items():
                for key, value in json.loads(text).items():
                    # One engine for all labs; one QEMU for all guests, and one of each of the engine's modules, which
                    # are compiled for the lab's kernel; the rest may differ between guests.
                    for_all = key.startswith("qemu") or key.endswith(".ko")
                    place = (lab, "" if for_all else guest, key) if for_all or key in GUEST else ("", "", key)
                    origins.setdefault(place, {}).setdefault(json.dumps(value), []).extend(names)
        for (lab, _, key), values in origins.items():
            if len(values) > 1:
                fewest = min(values.values(), key=len)
                whose = f"of the lab {lab} do not come from one guest" if lab else "do not come from one engine"
                raise UserError(
                    f"{raw}: the records {whose}. environment.lab.{key} has {len(values)} values; the rarest is "
                    f"in {len(fewest)} of {sum(map(len, values.values()))} records, such as {min(fewest)}.json. "
                    "Delete those records, or all, and run the study again."
                )


def phases_of(record: dict | None) -> list[dict]:
    """The measured phases of a record; none without a record, or if it failed before them."""
    return record["measurement"].get("phases", []) if record else []


def text_of(value: object) -> str:
    """A JSON value as JSON; the same text for the same value."""
    try:
        return orjson.dumps(value).decode()
    except orjson.JSONEncodeError:  # such as an integer of more than 64 bits
        return json.dumps(value)
