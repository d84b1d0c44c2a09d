"""Sentences on what age costs: an aged tree beside its unaged twin."""

from __future__ import annotations

import pandas as pd

from reprofs.report.marks import joined
from reprofs.report.words import count, longer


def costs(found: pd.DataFrame, pulls: int, place: str) -> str:
    """What so many pulls cost in a place (device, fill).

    found: a row an action (reading, walking) and file system: action, label, ratio (time of the aged tree over that of
    its twin), low, high (its interval; NaN with one repetition). A ratio whose interval has 1 counts as 1.

    `After 100 pulls (hdd-7200) reading takes 2.40 times as long (ext4) to 4.10 times as long (xfs), compared with the
    unaged twin.`
    """
    same = (found.low <= 1) & (found.high >= 1)
    told = []
    for action, own in found.assign(shown=found.ratio.mask(same, 1.0)).groupby("action", sort=False):
        rows = own.sort_values(["shown", "label"]).to_dict("records")
        words = [longer(row["ratio"], row["low"], row["high"]) for row in rows]
        ends = {words[place]: rows[place]["label"] for place in (-1, 0)}
        named = [f"{word} ({label})" for word, label in reversed(ends.items())]
        alike = f"{words[0]} on all" if len(ends) == 1 < len(rows) else joined(named, " to ")
        told.append(f"{action} takes {alike}")
    when = f"After {count(pulls, 'pull')}" if pulls else "Without pulls"
    return f"{when} ({place}) {joined(told, ', and ')}, compared with the unaged twin."
