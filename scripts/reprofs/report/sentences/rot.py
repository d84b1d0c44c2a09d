"""Sentences on a rotten bit on one disk of an array: who reads it, who mends it, who spreads it."""

from __future__ import annotations

import pandas as pd

from reprofs.report.words import listing

LEFT_OUT = (
    "One block of data rots at a time, on a new array, and nothing is written meanwhile. Rotten parity and metadata,"
    " and disks that fail beside, were not asked."
)


def silent(arrays: pd.DataFrame) -> str:
    """Who gives a program the wrong bit. arrays: `stats.rot.by_array`.

    `A program reads the wrong bit without an error from ext4 (md-raid5; partly md-raid1). Never from btrfs.`
    """
    wrong, never = arrays[arrays["rotten"] > 0], _whole(arrays, arrays["rotten"] == 0)
    told = []
    if len(wrong):
        told.append(f"A program reads the wrong bit without an error from {_where(wrong, 'rotten', arrays)}.")
    told += [f"{'Never' if told else 'No program reads the wrong bit'} from {listing(never)}."] if never else []
    return " ".join(told)


def ended(arrays: pd.DataFrame) -> list[str]:
    """What scrub and repair make of it.

    `Scrub or repair mends it on btrfs (btrfs-raid1).` `Repair spreads it on ext4 (md-raid5): afterwards …`
    """
    told = []
    for end, text in (
        ("spread", "Repair spreads it on {}: afterwards nothing knows the bit that was written."),
        ("mended", "Scrub or repair mends it on {}."),
        ("remains", "Scrub finds it and cannot mend it on {}."),
    ):
        rows = arrays[arrays[end] > 0]
        told += [text.format(_where(rows, end, arrays))] if len(rows) else []
    unsaid = arrays.assign(unsaid=arrays["copies"] - arrays["found"])
    unsaid = unsaid[unsaid["unsaid"].fillna(0) > 0]
    told += [f"The scrub reports nothing on {_where(unsaid, 'unsaid', arrays)}."] if len(unsaid) else []
    return told


def _whole(arrays: pd.DataFrame, chosen: pd.Series) -> list[str]:
    """Labels for which this holds on all stacks."""
    by_label = chosen.groupby(level="label").all()
    return list(by_label[by_label].index)


def _where(rows: pd.DataFrame, column: str, arrays: pd.DataFrame) -> str:
    """`ext4 (all 5 stacks) and btrfs (btrfs-raid1; partly md-raid1)`: the rows by label, and where they are."""
    told = []
    for label, own in rows.groupby(level="label", sort=False):
        every = own[column] == own["copies"]
        if len(own) > 2 and every.all() and len(own) == len(arrays.xs(label, level="label")):
            told.append(f"{label} (all {len(own)} stacks)")
            continue
        stacks = [listing(own[every].index.get_level_values("stack"))] if every.any() else []
        stacks += [f"partly {listing(own[~every].index.get_level_values('stack'))}"] if not every.all() else []
        told.append(f"{label} ({'; '.join(stacks)})")
    return listing(told)
