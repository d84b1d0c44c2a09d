"""Reads raw records: each is checked against its schema, its digests, the plan, and the guests of the others."""

import hashlib
import json
from collections import Counter
from pathlib import Path

import yaml
from jsonschema import Draft202012Validator

from reprofs.errors import UserError
from reprofs.files import read_json
from reprofs.trial import record as seals
from reprofs.trial.protocol import CELL
from reprofs.trial.record import LAYOUT

RECORD_SCHEMA = Path(__file__).parents[3] / "workflow/schemas/record.schema.yaml"


def read_records(plan_path: Path, plan: dict, raw: Path) -> dict[str, dict]:
    """Trial id -> record, of the trials of a plan that have one in the folder `raw`, each checked.

    Raises UserError for a plan without a key it must have, and for a record that is not what its trial wrote.
    """
    validator = Draft202012Validator(yaml.safe_load(RECORD_SCHEMA.read_text()))
    for key in ("study", "trials", "filesystems", "workloads", "stacks", "labs", "protocol"):
        if key not in plan:
            raise UserError(f"{plan_path} has no key `{key}`; run `reprofs plan` again.")
    records = {}
    for trial in plan["trials"]:
        path = raw / f"{trial['id']}.json"
        if path.exists():
            record = records[trial["id"]] = read_json(path)
            _check(path, record, validator)
            _check_against_plan(path, record, trial, plan)
    _check_guests(plan, raw, records)
    return records


_AGAIN = "delete the file and run the study again, which makes it again."


def _check(path: Path, record: dict, validator: Draft202012Validator) -> None:
    """Raises UserError for a record that does not fit the schema, was changed after its trial or contradicts itself."""
    if isinstance(record, dict) and record.get("schema", LAYOUT) != LAYOUT:
        raise UserError(f"{path} was written by another version of ReproFS (its schema is not {LAYOUT}): {_AGAIN}")
    for error in validator.iter_errors(record):
        key = ".".join(str(part) for part in error.absolute_path) or "the record"
        raise UserError(f"{path} is not a valid record: {key}: {error.message[:200]}; {_AGAIN}")
    part = seals.broken(record)
    if part:
        raise UserError(f"{path} was changed after its trial: the digest of the {part} is not the one noted; {_AGAIN}")
    if hashlib.sha256(record["environment"]["job"].encode()).hexdigest() != record["environment"]["job_sha256"]:
        raise UserError(f"{path}: environment.job_sha256 is not the digest of environment.job; {_AGAIN}")
    seen = set()
    for number, phase in enumerate(phases_of(record)):
        which = (phase["name"], phase["cache"], phase.get("run"))
        if which in seen:
            raise UserError(
                f"{path}: measurement.phases.{number} repeats {which[0]} ({which[1]}); name each phase differently."
            )
        seen.add(which)
        latency = phase["latency"]
        if latency and sum(count for _, count in latency["buckets"]) != latency["count"]:
            raise UserError(
                f"{path}: measurement.phases.{number}.latency.count is not the sum of its buckets; {_AGAIN}"
            )
    large = next((key for key, value in _numbers(record["measurement"], "measurement") if abs(value) >= 2**63), None)
    if large:
        raise UserError(f"{path}: {large} does not fit into 64 bits; {_AGAIN}")


def _numbers(value, key: str):
    """Dotted key and value of every number in a part of a record."""
    for name, item in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(item, dict | list):
            yield from _numbers(item, f"{key}.{name}")
        elif isinstance(item, int | float):
            yield f"{key}.{name}", item


def _check_against_plan(path: Path, record: dict, trial: dict, plan: dict) -> None:
    """Raises UserError for a record of another cell, job, protocol or clock, or an incomplete one with status ok."""
    environment, measurement = record["environment"], record["measurement"]
    compared = [(f"trial.{key}", record["trial"][key], trial[key]) for key in (*CELL, "round", "seed")]
    compared.append(("environment.job_sha256", environment["job_sha256"], trial["job_sha256"]))
    compared.append(("environment.protocol", environment["protocol"], plan["protocol"]))
    compared.append(("environment.lab.name", environment["lab"].get("name"), trial["lab"]))
    if measurement.get("clock"):
        compared.append(("measurement.clock.name", measurement["clock"]["name"], plan["labs"][trial["lab"]]["clock"]))
    for key, was, planned in compared:
        if was != planned:
            raise UserError(f"{path} belongs to another plan: {key} is {was}, but {planned} is planned; {_AGAIN}")
    if record["status"] != "ok":
        return
    workload = plan["workloads"][trial["workload"]]
    measured = Counter((phase["name"], phase["cache"]) for phase in phases_of(record))
    for phase in workload["phases"]:
        if measured[phase["name"], phase["cache"]] != workload.get("runs", 1):
            raise UserError(f"{path} says ok, but phase {phase['name']} ({phase['cache']}) is missing; {_AGAIN}")
    wrong = sum(check["mismatches"] for check in measurement.get("verification", []))
    if wrong:
        raise UserError(f"{path} says ok, but {wrong} files differed from what was written; {_AGAIN}")


# What fixes the numbers of a lab whose clock counts instructions, besides the job.
_SAME = ("qemu", "command", "image_sha256", "kernel_sha256", "initrd_sha256", "gate_sha256", "engine_sha256")


def _check_guests(plan: dict, raw: Path, records: dict[str, dict]) -> None:
    """Raises UserError when numbers that are compared as exact come from different guests or versions of QEMU."""
    found: dict[tuple, dict[str, list[str]]] = {}
    for name, record in sorted(records.items()):
        trial, lab = record["trial"], record["environment"]["lab"]
        if plan["labs"][trial["lab"]]["clock"] != "instructions" or record["status"] == "skipped":
            continue
        guest = plan["filesystems"][trial["filesystem"]]["guest"]
        for key in _SAME:
            # All guests must have run in one version of QEMU; the rest may differ from guest to guest.
            place = (trial["lab"], "" if key == "qemu" else guest, key)
            found.setdefault(place, {}).setdefault(json.dumps(lab.get(key)), []).append(name)
    for (lab, _, key), values in found.items():
        if len(values) > 1:
            fewest = min(values.values(), key=len)
            raise UserError(
                f"{raw}: the records of the lab {lab} do not come from one guest: environment.lab.{key} has "
                f"{len(values)} values, the rarest in {len(fewest)} of {sum(map(len, values.values()))} records, such "
                f"as {fewest[0]}.json; delete those records, or all, and run the study again."
            )


def phases_of(record: dict | None) -> list[dict]:
    """The phases measured in a record; none for no record, or one that failed before them."""
    return record["measurement"].get("phases", []) if record else []
