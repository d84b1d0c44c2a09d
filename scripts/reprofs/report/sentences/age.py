"""Sentences on what age costs: an aged tree beside its unaged twin."""

from __future__ import annotations

import pandas as pd

from reprofs.report.marks import joined
from reprofs.report.words import longer, thousands


def costs(found: pd.DataFrame, pulls: int) -> str:
    """What so many pulls cost. found: a row an action (reading, walking) and file system: action, label, ratio (time of
    the aged tree over that of its twin), low, high (its interval; NaN with one repetition).

    `After 100 pulls reading takes 2.40 times as long (ext4) to 4.10 times as long (xfs), compared with the twin.`
    """
    told = []
    for action, own in found.groupby("action", sort=False):
        rows = own.sort_values(["ratio", "label"])
        ends = [row for _, row in rows.iloc[[0, -1] if len(rows) > 1 else [0]].iterrows()]
        words = [longer(row["ratio"], row["low"], row["high"]) for row in ends]
        if len(ends) > 1 and words[0] == words[1]:
            told.append(f"{action} takes {words[0]} on all")
            continue
        named = [f"{word} ({row['label']})" for word, row in zip(words, ends, strict=True)]
        told.append(f"{action} takes {joined(named, ' to ')}")
    return f"After {thousands(pulls)} pull{'s' * (pulls != 1)} {joined(told, ', and ')}, compared with the unaged twin."
