"""Sentences on what a snapshot costs: what its table does not say at a glance."""

from __future__ import annotations

import pandas as pd

from reprofs.report.words import first_upper, listing, longer

STEPS = {"take": "to take a snapshot", "read": "to read one", "remove": "to free its space"}


def change(found: pd.DataFrame) -> str:
    """What the first change of files that a snapshot keeps costs. found: a row a setting and file system: where, label;
    take, read, remove (times); change (time of the first change of all files over that without a snapshot), low, high
    (its interval; NaN with one repetition).

    `The first change of files that a snapshot keeps takes equally long on zfs and 24 % to 28 % longer on btrfs.`
    """
    told = []
    for label, own in found.groupby("label", sort=False):
        rows = own.sort_values("change")[["change", "low", "high"]].to_numpy(float)
        ends = list(dict.fromkeys(longer(*row) for row in (rows[0], rows[-1])))
        if len(ends) > 1 and ends[0].endswith(" % longer"):
            ends[0] = ends[0].removesuffix(" longer")
        told.append((own["change"].max(), f"{' to '.join(ends)} on {label}"))
    return f"The first change of files that a snapshot keeps takes {listing(text for _, text in sorted(told))}."


def trade(found: pd.DataFrame) -> str:
    """Which file system is fastest in which step, where that is the same in all settings; found as in `change`.

    `In both settings btrfs is fastest to take a snapshot and to read one, zfs to free its space.`
    """
    if found["label"].nunique() < 2:
        return ""
    best: dict[str, list[str]] = {}
    places = found["where"].nunique()
    for step, words in STEPS.items():
        names = set(found.loc[found.groupby("where")[step].idxmin(), "label"])
        if len(names) == 1:
            best.setdefault(names.pop(), []).append(words)
    told = [
        f"{label} {'is fastest ' if number == 0 else ''}{listing(own)}"
        for number, (label, own) in enumerate(best.items())
    ]
    where = {1: "", 2: "in both settings "}.get(places, f"in all {places} settings ")
    return first_upper(f"{where}{', '.join(told)}.") if told else ""
