"""Sentences on single operations."""

from __future__ import annotations

import pandas as pd

from reprofs.data.keys import Setting
from reprofs.report.words import count, listing, verb
from reprofs.stats.compare import FEW
from reprofs.stats.study import Study


def verdicts(found: pd.DataFrame) -> str:
    """How the operations of a setting end. found: rows of `Study.verdicts`.

    `6 of 9 operations have one significantly fastest file system: nilfs2 in 4 and ext4 in 2; in 1 the fastest are
    equivalent and 2 are undecided.`
    """
    if found.empty:
        return "No file system completed an operation."
    if (found["n"] == 1).all():
        return "One repetition has no interval, so no difference is significant."
    won = found.loc[found["verdict"] == "fastest", "best"].value_counts()
    won = won.sort_index().sort_values(ascending=False, kind="stable")
    number = f"{won.sum()} of {count(len(found), 'operation')}"
    first = f"{number} {verb(int(won.sum()), 'has', 'have')} one significantly fastest file system"
    first += f": {listing(f'{name} in {times}' for name, times in won.items())}" if len(won) else ""
    others = _others(found)
    return "; ".join([first, *([listing(others)] if others else [])]) + "."


def _others(found: pd.DataFrame) -> list[str]:
    equivalent, undecided, few, alone = (
        int((found["verdict"] == verdict).sum()) for verdict in ("equivalent", "undecided", FEW, "alone")
    )
    told = [f"in {equivalent} the fastest are equivalent"] if equivalent else []
    told += [f"{undecided} {verb(undecided, 'is', 'are')} undecided"] if undecided else []
    told += [f"{few} {verb(few, 'has', 'have')} not enough repetitions"] if few else []
    return [*told, *([f"{alone} {verb(alone, 'was', 'were')} completed by one file system"] if alone else [])]


def not_ranked(study: Study, setting: Setting) -> str:
    """Who is shown in a setting without being ranked, and why: `Not ranked: tmpfs (baseline), jfs (not durable).`"""
    names = [f"{name} (variant)" for name in study.variants(setting)]
    names += [f"{name} (baseline)" for name in study.bounds(setting)]
    names += [f"{name} (fsync is not durable)" for name in study.unpromised(setting)]
    names += [f"{name} (cold caches are not proved)" for name in study.not_cold(setting)]
    return f"Not ranked: {listing(names)}." if names else ""
