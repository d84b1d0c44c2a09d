"""Sentences on the flush of the drive: who is fastest on drives that differ in it."""

from __future__ import annotations

from typing import Any

import pandas as pd

from reprofs.data.keys import OPERATION, SETTING
from reprofs.report.words import digits, listing, opening, slower, verb
from reprofs.stats.recorded import ALL
from reprofs.stats.study import Study


def title(study: Study, row: Any) -> str:
    """The words for a row of `flushes.flushed`."""
    if row.phase == ALL:
        return f"All calls, {row.cache}"
    return study.title(row.workload, row.phase, row.cache)


def verdict(row: Any) -> str:
    """A row of `flushes.verdicts` in a few words: `xfs; next: ext4, 8 % slower`, `undecided: xfs or ext4`."""
    if row.verdict == "alone":
        return str(row.best)
    level = [row.best, *row.level]
    if row.verdict == "fastest":
        return f"{row.best}; next: {row.runner_up}, {slower(row.ratio)} slower".replace("times slower", "times as slow")
    if row.verdict == "equivalent":
        return f"equivalent: {listing(level)}"
    return f"undecided: {listing(level, 'or')}"


def range_of(found: pd.DataFrame) -> str:
    """How far the verdicts depend on the flush; empty where no operation flushes often. found: `flushes.verdicts`.

    `Two operations flush. With a flush of 25 µs and of 6,900 µs the fastest is the same in 2 of 2. The lead of xfs
    changes most: ext4 is 43 % slower with the first flush, ext4 is 0.6 % slower with the last.`
    """
    if found.empty:
        return ""
    ends = found.sort_values("flush_us", kind="stable").groupby([*SETTING, *OPERATION], sort=False)
    first, last = ends.first(), ends.last()
    number, same = len(first), int((first["best"] == last["best"]).sum())
    low, high = (f"{digits(us, 2)} µs" for us in (first["flush_us"].iloc[0], last["flush_us"].iloc[0]))
    told = f"{opening(number, 'operation')} {verb(number, 'flushes', 'flush')}."
    told += f" With a flush of {low} and of {high} the fastest is the same in {same} of {number}."
    leads = first[first["best"] == last["best"]].dropna(subset="ratio")
    if leads.empty:
        return told
    most = (leads["ratio"] / last.loc[leads.index, "ratio"]).idxmax()
    one, other = leads.loc[most], last.loc[most]
    return (
        f"{told} The lead of {one['best']} changes most:"
        f" {_lead(one)} with the first flush, {_lead(other)} with the last."
    )


def _lead(row: pd.Series) -> str:
    return f"{row['runner_up']} is {slower(row['ratio'])} slower".replace("times slower", "times as slow")
