"""Sentences on what an administrator waits for: mounts, first listings, checks and scrubs."""

from __future__ import annotations

import pandas as pd

from reprofs.report.marks import strong
from reprofs.report.words import count, digits, listing, longer, time, verb

NEAR = 0.25  # a share: laws that are off by less are said to hold
MORE = 1.05  # what a larger device lengthens by less does not count


def wait(seconds: float, significant: int = 2) -> str:
    """A time as people wait for it: `57 ms`, `12 s`, `2.7 min`, `1.9 h`, `6.2 days`."""
    for name, size in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{digits(seconds / size, significant)} {name}"
    return time(seconds * 1e9, significant)


def between(low: float, high: float) -> str:
    """`38 s to 42 s`: what two laws expect; one time where both say the same."""
    return " to ".join(dict.fromkeys((wait(low), wait(high))))


def longest(found: pd.DataFrame) -> list[str]:
    """How long each operation takes on the slowest, where there are several. found: of `upkeep.largest`.

    `**320,000 files on hdd-7200**: “Mount” takes up to 1.0 s (zfs) and “Check” up to 2.7 min (f2fs).`
    """
    told: list[str] = []
    several = found.groupby(["files", "where", "operation"], observed=True)["label"].transform("nunique") > 1
    found = found[several] if several.any() else found
    for (files, where), own in found.sort_values("files", ascending=False).groupby(["files", "where"], sort=False):
        spans: list[str] = []
        for operation, times in own.groupby("operation", observed=True):
            last = times.loc[times["seconds"].idxmax()]
            limit = "up to " if len(times) > 1 else ""
            spans.append(f"“{operation}” {'' if spans else 'takes '}{limit}{wait(last['seconds'])} ({last['label']})")
        told.append(strong(f"{files:,} files{f' on {where}' if where else ''}") + f": {listing(spans)}.")
    return told


def held(found: pd.DataFrame) -> str:
    """How well the smaller sizes expect the largest. found: of `upkeep.beyond`.

    `The sizes below the largest expect its time within 25 % in 14 of 18 cases; most off is “Check” on jfs, 61 %
    longer.`
    """
    tested = found.dropna(subset="off")
    if tested.empty:
        return "How far the laws hold needs three sizes."
    near = int((tested["off"].abs() < NEAR).sum())
    told = f"The sizes below the largest expect its time within {100 * NEAR:g} % in {near} of"
    told += f" {count(len(tested), 'case')}"
    worst = tested.loc[tested["off"].abs().idxmax()]
    if not worst["off"]:
        return f"{told}."
    place = f" ({worst['where']})" if worst["where"] else ""
    return f"{told}; most off is “{worst['operation']}” on {worst['label']}{place}, {longer(1 + worst['off'])}."


def devices(found: pd.DataFrame) -> list[str]:
    """What a larger device lengthens. found: of `upkeep.rooms`.

    `**131,072 MiB instead of 16,384 MiB**: 7 of 36 times are longer. The most: “Check” on ext4 takes 4.4 times as
    long and “Mount” on f2fs takes 3.3 times as long.`
    """
    told: list[str] = []
    for (least, most), own in found.groupby(["least_mib", "room_mib"]):
        above = own[own["ratio"] > MORE].sort_values("ratio", ascending=False, kind="stable")
        number = len(above)
        head = strong(f"{most:,.0f} MiB instead of {least:,.0f} MiB")
        head += f": {number} of {count(len(own), 'time')} {verb(number, 'is', 'are')} longer."
        each = [
            f"“{row.operation}” on {row.label}{f' ({row.where})' if row.where else ''} takes {longer(row.ratio)}"
            for row in above.head(4).itertuples()
        ]
        told.append(head + f" The most: {listing(each)}." if each else head)
    return told
