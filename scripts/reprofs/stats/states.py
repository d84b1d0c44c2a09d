"""Crash states: how many were visited, and the worst that was found, by file system and operation."""

from __future__ import annotations

import pandas as pd

# Of scripts/engine/programs/crash/judge.h, the worst first: the word in tables, and what it means.
KINDS = {
    "wrong": ("wrong", "it is not as the calls made it, before any cut"),
    "mount": ("not mounted", "it cannot be mounted, also after the repair that it wants"),
    "lost": ("lost", "a file that was flushed is nowhere"),
    "damaged": ("damaged", "a file that was flushed has other content, another size or another attribute"),
    "unreadable": ("unreadable", "a file or folder gives an error"),
    "name": ("wrong name", "a folder that was flushed lacks a name, or has one that was removed"),
    "twice": ("twice", "a file that was renamed has its old name and its new one"),
    "overwritten": ("overwritten", "a file is another after a new one was written"),
    "unusable": ("unusable", "no new file can be made, or an old one cannot be removed"),
    "contradicts": ("contradiction", "folders list what is not there, or files count other names than they have"),
    "leak": ("leak", "a file shows what the disk had before, or another file's content"),
    "checker": ("checker", "the checker complains after the recovery"),
    "unnamed": ("no name", "a file or folder that was flushed lacks a name; POSIX asks for a flush of the folder, too"),
}
FINE = "ok"
FULL = {"full-disk": " --full bytes", "no-inodes": " --full inodes"}  # workload -> the options of reprofs state for it
WHEN = {True: "after", False: "before"}  # all calls had returned at the cut, or not


def findings(states: pd.DataFrame) -> pd.DataFrame:
    """The rows of the table states that say what was found, the worst first, of those the shortest sequence first."""
    found = states.dropna(subset="kind")
    worst = found["kind"].map({kind: place for place, kind in enumerate(KINDS)})
    ordered = found.assign(worst=worst, length=found["sequence"].str.len(), broken=found["broken"].astype(bool))
    return ordered.sort_values(["broken", "worst", "length", "sequence", "label"], ascending=[False, *[True] * 4])


def visited(states: pd.DataFrame) -> pd.DataFrame:
    """Of each file system and operation (index): states visited, sequences, and in how many of these a call failed."""
    whole = states[states["kind"].isna()]
    return whole.groupby(["label", "phase"]).agg(
        states=("states", "sum"), sequences=("sequence", "size"), failed=("failed", "count")
    )


def refused(states: pd.DataFrame) -> pd.DataFrame:
    """Of each file system (index) and operation (columns): `3 of 8`, those in which a call failed; a dash: none."""
    every = visited(states)
    told = every["failed"].astype(str) + " of " + every["sequences"].astype(str)
    return told.where(every["failed"] > 0, "\u2013").unstack("phase")


def worst(states: pd.DataFrame, after: bool) -> pd.DataFrame:
    """The worst finding of each file system (index) in each operation (columns): a key of `KINDS`, or FINE.

    Missing where no sequence was possible. after: of cuts after all calls had returned, else of those before. A finding
    that breaks no promise counts where nothing else was found, and has brackets.
    """
    found = findings(states)
    found = found[found["after"].astype(bool) == after].drop_duplicates(["label", "phase"])
    told = found["kind"].where(found["broken"], "(" + found["kind"] + ")")
    told.index = pd.MultiIndex.from_frame(found[["label", "phase"]])
    every = visited(states)
    cells = told.reindex(every.index).fillna(FINE).where(every["states"] > 0)
    return cells.unstack("phase")


def smallest(states: pd.DataFrame) -> pd.DataFrame:
    """The shortest sequence that shows each kind of finding, for each file system; broken guarantees first.

    Columns: label, kind, after, broken, sequence, found and states (of that sequence), at (the options of reprofs state
    that show it), what.
    """
    found = findings(states).drop_duplicates(["label", "kind", "after", "broken"])
    columns = ["label", "kind", "after", "broken", "sequence", "found", "states", "at", "what"]
    again = [f" --again-at {number:.0f}" if pd.notna(number) else "" for number in found["again"]]
    full = [FULL.get(name, "") for name in found["workload"]]
    shown = found.assign(at=[f"--at {at:.0f}{a}{b}" for at, a, b in zip(found["at"], again, full, strict=True)])
    return shown[columns].reset_index(drop=True)
