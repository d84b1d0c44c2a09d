"""How far modelled disks are from real drives: their times beside public figures of such drives (data/drives.csv).

It is the root mean square of ln(model / drive) over the published points. Ruemmler and Wilkes' demerit (IEEE Computer,
March 1994) is that of the horizontal distance of two distributions of times, as a share of the mean; no source here has
a distribution.
"""

import csv
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reprofs.errors import UserError
from reprofs.plan.device import NS, Rotating, Solid
from reprofs.plan.disk import ACCESSES, Access, expected, zone_rates
from reprofs.plan.flash import steady_rate
from reprofs.project import place as file_of

FILE = Path("data/drives.csv")
MANY = 100_000  # requests: what happens once hardly counts
SIZE = 10**12  # bytes of a disk
UNITS = {"ms": 1e6, "µs": 1e3}
PLACES = {"random-read": "random", "random-write": "random", "fast-write": "random", "sync-random": "random"}


@dataclass(frozen=True)
class Point:
    """What a drive of the kind of a profile does. fitted: the profile was set by it, so that it tests nothing."""

    profile: str
    drive: str
    job: str
    bytes: int
    depth: int
    value: float
    unit: str
    fitted: bool
    source: str

    @property
    def ns(self) -> float:
        """Time of one request."""
        if self.unit == "IOPS":
            return NS / self.value
        return self.bytes * 1e3 / self.value if self.unit == "MB/s" else self.value * UNITS[self.unit]


def points(path: Path | None = None) -> list[Point]:
    """All of data/drives.csv. Raises UserError for a row that cannot be read."""
    found = []
    with (path or file_of(FILE)).open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            try:
                own: dict[str, Any] = {**row, "bytes": int(row["bytes"]), "depth": int(row["depth"])}
                own |= {"value": float(row["value"]), "fitted": {"yes": True, "no": False}[row["fitted"]]}
                found.append(Point(**own))
                _ = found[-1].ns
            except (KeyError, TypeError, ValueError, ZeroDivisionError):
                raise UserError(
                    f"{FILE}: a number, unit or fitted (yes or no) is wrong in {list(row.values())}."
                ) from None
    return found


def modelled(drive: Rotating | Solid, point: Point) -> float:
    """Time of one such request on the model (ns); without the software's. Raises UserError for an unknown job."""
    found: dict[str, Any] = dict(drive.parameters())
    if point.job == "read-mean" and isinstance(drive, Rotating):  # over the whole disk, as benchmarks show it
        rates = zone_rates(found)
        return point.bytes * NS / (sum(rates) / len(rates))
    if point.job == "steady-write" and isinstance(drive, Solid) and drive.flash:
        return point.bytes / steady_rate(drive.flash.spare_percent / 100, found["write_rate"], found["read_rate"]) * NS
    if point.job == "fast-write":
        found = found | {"write_rate": found["slc_rate"]}
        return max(found["write_ns"] / point.depth, point.bytes * NS / min(found["link"], found["write_rate"]))
    known = ACCESSES.get(point.job)
    place = PLACES.get(point.job) or (known.place if known else None)
    if place is None:
        raise UserError(f"{FILE}: the job {point.job} of {point.profile} has no model.")
    access = Access("write" in point.job or "sync" in point.job, point.bytes, point.depth, place, "sync" in point.job)
    return expected(found, SIZE, access, MANY)[0]


def demerit(ratios: Iterable[float]) -> float:
    """Root mean square of ln(model / drive): 0 where all are 1, 0.69 where each is off by a factor of 2."""
    logs = [math.log(ratio) for ratio in ratios]
    return math.sqrt(sum(log * log for log in logs) / len(logs)) if logs else math.nan


def table(drives: Mapping[str, Rotating | Solid], known: Iterable[Point]) -> list[dict]:
    """A row a profile: points, fitted points, least and most of model / drive, demerit; fitted points enter none."""
    rows = []
    known = list(known)
    for name, drive in drives.items():
        own = [point for point in known if point.profile == name]
        ratios = [modelled(drive, point) / point.ns for point in own if not point.fitted]
        row = {"profile": name, "points": len(ratios), "fitted": len(own) - len(ratios), "demerit": demerit(ratios)}
        rows.append(row | {"least": min(ratios, default=math.nan), "most": max(ratios, default=math.nan)})
    return rows
