"""Sentences on the space that files take."""

from __future__ import annotations

from collections.abc import Collection

import pandas as pd

from reprofs.report.words import count, digits, listing, percent, size, slower


def least(found: pd.Series, operation: str) -> str:
    """Who needs the least space. found: label -> bytes taken, of those that can be compared.

    `After “Create files” reiserfs has taken the least space, 12.2 MiB, and f2fs 28 % more, the most.`
    """
    if len(found) < 2:
        return ""
    ordered = found.sort_values()
    first, last = ordered.iloc[[0, -1]]
    more = f"{digits(last / first, 3)} times as much" if last >= 2 * first else f"{slower(last / first)} more"
    begin = f"After “{operation}” {ordered.index[0]} has taken the least space, {size(first)},"
    return f"{begin} and {ordered.index[-1]} the most, {more}."


def coarse(labels: Collection[str]) -> str:
    """Who is not compared: `Not compared, because they count in too large steps: nilfs2.`"""
    return f"Not compared, because the steps in which they count are too large: {listing(labels)}." if labels else ""


def sure(rounds: int, spread: float) -> str:
    """How sure the means are. spread: the largest standard deviation, as a share of its mean.

    `How sure of the space: means of 6 repetitions, whose standard deviation is at most 0.28 %.`
    """
    if rounds < 2:
        return "How sure of the space: one repetition, so its spread is not known."
    means = f"means of {count(rounds, 'repetition')}"
    return f"How sure of the space: {means}, whose standard deviation is at most {percent(spread)}."


def saved(found: pd.DataFrame, share: int) -> str:
    """What compression saves. found: rows of label, reference and ratio; share: percent that a compressor saves.

    `Of content of which a compressor saves 80 %, btrfs+zstd takes 25.0 % of the space of btrfs.`
    """
    told = [
        f"{row['label']} takes {percent(row['ratio'])} of the space of {row['reference']}"
        for _, row in found.iterrows()
    ]
    return f"Of content of which a compressor saves {share} %, {listing(told)}." if told else ""


def kept(found: pd.Series, operation: str, where: str = "") -> str:
    """What is not given back after the last operation. found: label -> bytes still taken; where: the setting.

    `Still taken after “Remove the directories”: 16 MiB by nilfs2 and 80 KiB by xfs.`
    """
    held = found[found > 0].sort_values(ascending=False)
    place = f" ({where})" if where else ""
    if held.empty:
        return f"After “{operation}” all space is free again{place}."
    told = [f"{size(value)} by {label}" for label, value in held.items()]
    return f"Still taken after “{operation}”{place}: {listing(told, most=4)}."
