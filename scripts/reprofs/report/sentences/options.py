"""Sentences on what options of a file system change."""

from __future__ import annotations

import pandas as pd

from reprofs.report.marks import strong
from reprofs.report.words import listing, longer

MOST = 3  # options in a sentence


def changed(found: pd.DataFrame, where: str) -> str:
    """What options of one file system change in the whole workload, the largest first.

    found: a row an option: label, base (label), ratio (time over that of the base), low, high (its interval; NaN with
    one repetition, which shows no change). where: workload and setting.

    `zfs, git-annex-small@100 (laptop): compared with zfs the workload takes 12 % longer with zfs+sync-always. No
    significant change: zfs+gzip.`
    """
    sure = (found["low"] > 1) | (found["high"] < 1)
    rows = found[sure].sort_values("ratio", key=lambda one: -(one - 1).abs(), kind="stable")
    told = [f"{longer(row.ratio)} with {row.label}" for row in rows.head(MOST).itertuples()]
    told += [f"changes with {len(rows) - MOST} others"] * (len(rows) > MOST)
    base = found["base"].iloc[0]
    start = strong(f"{base.partition('+')[0]}, {where}:")
    first = f" compared with {base} the workload takes {listing(told)}." if told else ""
    level = listing(sorted(found.loc[~sure, "label"]))
    return start + first + (f" No significant change from {base}: {level}." if not sure.all() else "")
