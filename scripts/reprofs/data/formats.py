"""How file systems were made, as their tools report it: features and sizes that no option named.

What to read is the key `format` of a file system's file; the plan has it, and no trial: a record is the same without.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from reprofs.data.outputs import commands_of
from reprofs.plan.filesystem import Reading
from reprofs.plan.plan import Plan

Format = tuple[tuple[str, tuple[str, ...]], ...]  # names and their words, both sorted; hashable


class Made(NamedTuple):
    """A file system and the place it was made in. disks: sizes of the devices in bytes."""

    filesystem: str
    variant: str
    lab: str
    stack: str
    profile: str
    workload: str
    scale: str
    disks: tuple[int, ...]


def made(record: dict, plan: Plan) -> tuple[Format, Made] | None:
    """The format of a trial's file system and where it was made; None if the record does not say, or failed."""
    if record["status"] != "ok":  # perhaps not all commands ran
        return None
    readings = plan.filesystems[record["trial"]["filesystem"]].format
    output = "\n".join(one["output"] for one in commands_of(record) if one["stage"] == "inspect")
    if not (found := words(output, readings or {})):
        return None
    disks = tuple(device["size_bytes"] for device in record["measurement"].get("devices", []))
    return found, Made(**{key: record["trial"][key] for key in Made._fields if key != "disks"}, disks=disks)


def words(output: str, readings: Mapping[str, Reading]) -> Format:
    """For each reading the words of its group, over all matches.

    A reading without any match is left out: the tool does not tell. One with a match may have no words.
    """
    found = {}
    for name, one in readings.items():
        if matches := re.findall(one.read, output, re.MULTILINE):
            taken = {word.strip(",|") for text in matches for word in text.split()}
            found[name] = tuple(sorted(taken - {"", *one.without}))
    return tuple(sorted(found.items()))


def as_json(formats: Mapping[Format, Iterable[Made]]) -> list[dict]:
    """For environment.json: every format once, with the places where it was made."""
    return [
        {"format": dict(found), "made": [one._asdict() for one in sorted(places)]}
        for found, places in sorted(formats.items())
    ]


def from_json(formats: list[dict]) -> list[tuple[Made, dict[str, frozenset[str]]]]:
    """The inverse of `as_json`: one pair per place."""
    return [
        (
            Made(**{**place, "disks": tuple(place["disks"])}),
            {name: frozenset(own) for name, own in one["format"].items()},
        )
        for one in formats
        for place in one["made"]
    ]
