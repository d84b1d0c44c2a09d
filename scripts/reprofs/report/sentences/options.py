"""Sentences on what options of a file system change."""

from __future__ import annotations

import pandas as pd

from reprofs.report.marks import strong
from reprofs.report.words import listing, longer, verb


def changed(found: pd.DataFrame) -> str:
    """What options of one file system change in the whole workload, over all settings and workloads.

    found: a row an option and setting: where, label, base (label), ratio (time over that of the base), low, high (its
    interval; NaN with one repetition, which shows no change), verdict (of `totals.variants`; NaN of what has none).

    `**zfs+sync-always** takes 12 % longer than zfs.`
    `**Options of zfs:** 3 of 8 comparisons take longer and 1 takes less time; most zfs+gzip (lab host), 2.4 times as
    long.`
    """
    apart = (found["low"] > 1) | (found["high"] < 1)
    sure = apart.where(found["verdict"].isna(), found["verdict"].isin(["slower", "faster"]))
    rows, bases = found[sure.astype(bool)], listing(dict.fromkeys(found["base"]))
    if rows.empty:
        return strong(listing(dict.fromkeys(found["label"]))) + f" did not differ significantly from {bases}."
    if len(found) == 1:
        (row,) = rows.itertuples()
        return strong(row.label) + f" takes {longer(row.ratio)} than {bases}.".replace("as long than", "as long as")
    more = int((rows["ratio"] > 1).sum())
    most = rows.loc[(rows["ratio"] - 1).abs().idxmax()]
    told = f" {more} of {len(found)} comparisons {verb(more, 'takes', 'take')} longer"
    less = len(rows) - more
    told += f" and {less} {verb(less, 'takes', 'take')} less time" if less else ""
    where = f" ({most['where']})" if most["where"] else ""
    return (
        strong(f"Options of {most['base'].partition('+')[0]}:")
        + f"{told}; most: {most['label']}{where}, {longer(most['ratio'])}."
    )
