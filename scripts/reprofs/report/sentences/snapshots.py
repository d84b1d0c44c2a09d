"""Sentences on what a snapshot costs."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from reprofs.report.marks import joined
from reprofs.report.words import longer, time

DOES = {
    "take": "Taking a snapshot of the files",
    "read": "Reading it",
    "remove": "Removing it, until its space is free,",
}


def costs(found: pd.DataFrame) -> list[str]:
    """What a snapshot costs, a sentence each. found: a row a file system: label; take, read, remove (ns); change (time
    of the first change of all files over that without a snapshot), low, high (its interval; NaN with one repetition).

    `Taking a snapshot of the files takes 5.97 ms (btrfs) to 16.2 ms (zfs).`
    """
    first = _ends(found, "change", lambda row: longer(row["change"], row["low"], row["high"]))
    change = f"The first change of all files after it, compared with one without a snapshot, takes {first}."
    take, read, remove = (f"{does} takes {_ends(found, key, _time_of(key))}." for key, does in DOES.items())
    return [take, change, read, remove]


def _time_of(key: str) -> Callable[[pd.Series], str]:
    return lambda row: time(row[key], 3)


def _ends(found: pd.DataFrame, column: str, show: Callable[[pd.Series], str]) -> str:
    """The file systems with the least and the largest value; one if there is only one, or if they look the same."""
    rows = found.sort_values([column, "label"])
    ends = [row for _, row in rows.iloc[[0, -1] if len(rows) > 1 else [0]].iterrows()]
    words = [show(row) for row in ends]
    if len(set(words)) == 1:
        return words[0] + (f" ({ends[0]['label']})" if len(rows) == 1 else " on all")
    return joined([f"{word} ({row['label']})" for word, row in zip(words, ends, strict=True)], " to ")
