"""Sentences on stacks of devices: arrays, volumes, faults, rebuilds."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pandas as pd

from reprofs.report.words import count, digits, listing, longer, time, verb
from reprofs.stats.compare import FEW


def costs(found: pd.DataFrame) -> str:
    """What stacks change in the total time: the ends of what is significant.

    found: rows of a workload and a reference with workload, reference, stack, label, ratio, low, high.
    `Compared with md-raid5, the workload tree takes 13 % longer (btrfs) to 22 % longer (xfs) on md-raid5-degraded. 1
    of 3 totals does not differ significantly.`
    """
    reference, stacks, workload = found["reference"].iloc[0], sorted(set(found["stack"])), found["workload"].iloc[0]
    within = (found["low"] <= 1) & (found["high"] >= 1)
    alone = len(stacks) == 1
    where = f" on {stacks[0]}" if alone else ""
    if within.all():
        return f"Compared with {reference}, no total of the workload {workload}{where} differs significantly."
    words = [
        f"{longer(row['ratio'], row['low'], row['high'])} ({row['label']}{'' if alone else ' on ' + row['stack']})"
        for row in _ends(found[~within], "ratio")
    ]
    told = f"Compared with {reference}, the workload {workload} takes {' to '.join(words)}{where}."
    open_ = int(within.sum())
    rest = f" {open_} of {count(len(found), 'total')} {verb(open_, 'does', 'do')} not differ significantly."
    return told + (rest if open_ else "")


def _ends(found: pd.DataFrame, column: str) -> list[pd.Series]:
    """The rows with the least and the largest value; one row if there is only one."""
    rows = found.sort_values([column, "stack", "label"])
    return [row for _, row in rows.iloc[[0, -1] if len(rows) > 1 else [0]].iterrows()]


def most(found: pd.DataFrame) -> str:
    """The operation whose time changes most. found: rows of operations with operation, stack, label, ratio, low, high.

    `The largest change: “Read it cold” takes 7.22 times as long (ext4 on md-raid5-degraded).`
    """
    shown = found[(found["low"] > 1) | (found["high"] < 1)]
    if shown.empty:
        return "No single operation has a significant difference."
    row = shown.loc[np.log(shown["ratio"].astype(float)).abs().idxmax()]
    return f"The largest change: “{row['operation']}” takes {longer(row['ratio'])} ({row['label']} on {row['stack']})."


def fastest(found: pd.DataFrame) -> str:
    """Which file system has the shortest total on how many stacks. found: rows of `results.cheapest`, one a stack.

    `xfs has the significantly shortest total on 3 of 8 stacks and ext4 on 2; 3 are undecided.`
    """
    won = found.loc[found["verdict"] == "fastest", "best"].value_counts()
    won = won.sort_index().sort_values(ascending=False, kind="stable")
    total = count(len(found), "stack")
    if won.empty:
        return f"No file system has a significantly shorter total than all others on any of {total}."
    (name, number), *others = won.items()
    first = f"{name} has the significantly shortest total on {number} of {total}"
    told = listing([first, *(f"{name} on {number}" for name, number in others)])
    words = {"equivalent": "equivalent", "undecided": "undecided", FEW: "short of repetitions"}
    rest = [(int((found["verdict"] == key).sum()), word) for key, word in words.items()]
    ends = [f"{number} {verb(number, 'is', 'are')} {word}" for number, word in rest if number]
    return f"{told}; {listing(ends)}." if ends else f"{told}."


def throughput(found: pd.DataFrame) -> str:
    """How throughput grows with disks. found: rows of one file system and family with label, family, disks, mb_s.

    `xfs on md-raid0 reaches 441 MB/s with 3 disks and 2,520 MB/s with 24.`
    """
    rows = found.sort_values("disks")
    (_, first), (_, last) = rows.iloc[[0, -1]].iterrows()
    begin = f"{first['label']} on {first['family']} reaches {digits(first['mb_s'], 3)} MB/s"
    return f"{begin} with {count(first['disks'], 'disk')} and {digits(last['mb_s'], 3)} MB/s with {last['disks']}."


def rebuilt(found: pd.DataFrame) -> str:
    """How long arrays took to be whole again. found: rows of `results.rebuilds`.

    `While the workload ran, the array was whole again after 4.93 s (ext4) to 5.02 s (xfs).`
    """
    if found.empty:
        return ""
    several = found["stack"].nunique() > 1
    ends = [
        f"{time(row['geometric_mean_ns'], 3)} ({row['label']}{' on ' + row['stack'] if several else ''})"
        for row in _ends(found, "geometric_mean_ns")
    ]
    return f"While the workload ran, the array was whole again after {' to '.join(ends)}."


def not_durable(stacks: Collection[str]) -> str:
    """The stacks on which fsync is not durable: `fsync is not durable on lvm-cache when the power fails.`"""
    return f"fsync is not durable on {listing(stacks)} when the power fails." if stacks else ""


def sure(rounds: int, where: str) -> str:
    """How sure ratios of totals are.

    `How sure: 6 repetitions, ratios paired by repetition, 95 % intervals; lab exact.`
    """
    if rounds < 2:
        return f"How sure: one repetition has no interval; {where}."
    return f"How sure: {count(rounds, 'repetition')}, ratios paired by repetition, 95 % intervals; {where}."
