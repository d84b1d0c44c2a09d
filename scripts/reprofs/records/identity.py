"""The identity of a trial: one digest of all that fixes its measurement.

Trials of equal identity measure the same, to the bit, so that one record serves both. Only a clock that counts
instructions has identities: on a real clock nothing fixes a measurement.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from reprofs.plan.cell import CELL
from reprofs.records.protocol import PROTOCOL
from reprofs.records.raw import LAYOUT, digest

CLOCK = "instructions"
# Of environment.lab. What the records of one guest have in common: QEMU, its command (with the CPU model, the cores,
# the memory and the digest of each file) and the parts of the guest.
GUEST = ("qemu", "qemu_sha256", "command", "image_sha256", "kernel_sha256", "initrd_sha256", "gate_sha256")
# Besides: another kernel's modules, the engine, and what the job runs of programs and recordings.
LAB = (*GUEST, "modules_sha256", "engine_sha256", "programs_sha256")


def parts(names: Mapping[str, Any], job_sha256: str, lab: Mapping[str, Any]) -> dict[str, Any]:
    """All that fixes the measurement of a trial of this version.

    names: of its cell, as records have them (`plan.cell.CELL`; the job has the seed); lab: what its lab says of itself,
    `environment.lab` of a record.
    """
    return _parts(names, job_sha256, lab, PROTOCOL, LAYOUT)


def _parts(names: Mapping, job_sha256: str, lab: Mapping, protocol: int, layout: int) -> dict[str, Any]:
    cell = {f"trial.{key}": names[key] for key in CELL}
    own = {f"lab.{key}": lab[key] for key in LAB if key in lab}
    return cell | own | {"job_sha256": job_sha256, "protocol": protocol, "schema": layout}


def parts_of(record: Mapping[str, Any]) -> dict[str, Any]:
    """The same of a record; empty for one of a real clock, or of a trial that did not come so far as to have one."""
    if record["measurement"].get("clock", {}).get("name") != CLOCK:
        return {}
    environment = record["environment"]
    return _parts(
        record["trial"], environment["job_sha256"], environment["lab"], environment["protocol"], record["schema"]
    )


def of(found: Mapping[str, Any]) -> str:
    """The identity: SHA-256, in hex, of `parts` or `parts_of`; empty where there are none."""
    return digest(found) if found else ""


def differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[str]:
    """The parts that differ; parts that only one of them has are ignored."""
    return (key for key in one if key in other and one[key] != other[key])


def first_difference(was: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Where two measurements differ first: the phase, the key, and both values if they are numbers or texts."""
    for before, after in zip(was.get("phases", []), now.get("phases", []), strict=False):
        if before != after:
            key = next((key for key in before if before[key] != after.get(key)), "a new key")
            plain = key in before and not isinstance(before[key], dict | list)
            values = f" {after.get(key)} instead of {before[key]}" if plain else ""
            return f"first in the phase {before['name']} ({before['cache']}), {key}{values}"
    return next((key for key in was if was[key] != now.get(key)), "something new")


def difference(record: Mapping[str, Any], again: Mapping[str, Any]) -> str:
    """Where the record of a trial that was run again is not the first one: the first phase, and the lab's parts."""
    if again["status"] != record["status"]:
        return f"{again['status']}: {again['reason']}"
    first = first_difference(record["measurement"], again["measurement"])
    other = list(differing(parts_of(record), parts_of(again)))
    said = f"; not the same: {', '.join(other)}" if other else "; the lab is the same to the last byte: report it"
    return first + said
