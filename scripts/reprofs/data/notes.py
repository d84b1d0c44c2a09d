"""Summary of all records: their digests, and their environments merged (environment.json)."""

from __future__ import annotations

import json
import shlex
from collections import Counter

from reprofs.data import formats
from reprofs.data.formats import Format, Made
from reprofs.data.reader import Guests, text_of
from reprofs.data.rows import conditions
from reprofs.plan.plan import Plan

# Condition of a real clock -> the columns of trials that its range is taken over.
_RANGES = {
    "load_1min": ["load_before", "load_after"],
    "steal_share": ["steal_share"],
    "frequency_mhz": ["frequency_low_mhz", "frequency_high_mhz"],
    "temperature_c": ["temperature_c"],
    "settling_s": ["settling_s"],
}
# What differs in every trial, or has a key of its own in environment.json.
_NOT_SHARED = ("job", "job_sha256", "started", "host_seconds", "settling", "conditions", "attempts")


class Notes:
    """For each key of the environments: its distinct values, each with the number of records.

    What differs by nature (job text, start, seconds on the host) is left out or reduced to first, last and sum. Of the
    conditions of real clocks there is the range over the trials, lab by lab, and how many trials began unsettled.
    """

    def __init__(self) -> None:
        self.digests: dict[str, str] = {}
        self.guests = Guests()
        self._started: list[str] = []
        self._seconds: list[float] = []
        self._ran_twice = 0
        self._same: Counter[str] = Counter()  # environments without what differs in every trial, as JSON
        self._ranges: dict[str, dict] = {}
        self._formats: dict[Format, set[Made]] = {}

    def add(self, name: str, record: dict, digest: str, plan: Plan) -> None:
        """Add the record of a trial."""
        environment = record["environment"]
        self.digests[f"{name}.json"] = digest
        self.guests.add(name, record, plan)
        if environment.get("started"):
            self._started.append(environment["started"])
        if environment.get("host_seconds") is not None:
            self._seconds.append(environment["host_seconds"])
        self._ran_twice += environment.get("attempts", 1) > 1
        self._same[text_of(_shared(environment))] += 1
        if made := formats.made(record, plan):
            self._formats.setdefault(made[0], set()).add(made[1])
        row = conditions(record)
        if row["settled"] is not None:
            ranges = {key: [row[name] for name in names if row[name] is not None] for key, names in _RANGES.items()}
            self._add_ranges(record["trial"]["lab"], {"trials": 1, "unsettled": int(not row["settled"]), **ranges})

    def merge(self, later: Notes) -> None:
        """Add the notes of later trials."""
        self.digests |= later.digests
        self.guests.merge(later.guests)
        self._started += later._started
        self._seconds += later._seconds
        self._ran_twice += later._ran_twice
        self._same.update(later._same)
        for found, places in later._formats.items():
            self._formats.setdefault(found, set()).update(places)
        for lab, ranges in later._ranges.items():
            self._add_ranges(lab, ranges)

    def _add_ranges(self, lab: str, more: dict) -> None:
        known = self._ranges.setdefault(lab, {"trials": 0, "unsettled": 0})
        for key, value in more.items():
            if key not in _RANGES:
                known[key] += value
            elif value:
                both = [*value, *known.get(key, [])]
                known[key] = [min(both), max(both)]

    def environment(self) -> dict:
        """The merged environments."""
        values: dict[str, Counter] = {}
        for text, records in self._same.items():
            for key, value in _flatten(json.loads(text)):
                values.setdefault(key, Counter())[value] += records
        told = {
            "records": len(self.digests),
            "first_started": min(self._started, default=None),
            "last_started": max(self._started, default=None),
            "host_seconds_sum": round(sum(self._seconds), 3),
            "ran_twice": self._ran_twice,
            "conditions": self._ranges,
            "values": {key: dict(sorted(counter.items())) for key, counter in sorted(values.items())},
        }
        return told | ({"formats": formats.as_json(self._formats)} if self._formats else {})


def _shared(environment: dict) -> dict:
    """An environment without what differs in every trial."""
    shared = {key: value for key, value in environment.items() if key not in _NOT_SHARED}
    if isinstance(shared.get("host"), dict):
        shared["host"] = {key: value for key, value in shared["host"].items() if key != "load_1min"}
    return shared


def _flatten(value, prefix: str = ""):
    """Dotted key and text of every leaf of an environment."""
    for key, item in value.items():
        if isinstance(item, dict):
            yield from _flatten(item, f"{prefix}{key}.")
        else:
            yield prefix + key, shlex.join(map(str, item)) if isinstance(item, list) else str(item)
