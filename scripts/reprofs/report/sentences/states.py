"""Sentences on crash states: which file systems keep what they guarantee in all of them."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from reprofs.report.words import count, listing
from reprofs.stats.states import KINDS

SUBSETS = {
    "none": "none",
    "all": "all",
    "without": "all but one",
    "alone": "one alone",
    "torn-4k": "all with one torn between pages",
    "torn-512": "all with one torn between sectors",
}


def left_out(subsets: Sequence[str], again: int | None, step: int | None = None) -> str:
    """Which states were visited, and which were not. subsets: keys of `SUBSETS`.

    again: the power is cut a second time while every so many-th state recovers; None: never. step: every so many-th
    sequence is made; None: all.

    `Visited: every state in which none, all or all but one of the writes that no flush followed are on the disk; so
    there is no error bound. Not visited: other subsets, torn writes, and a second cut while a state recovers. …`
    """
    missing = ["other subsets"]
    if not any(subset.startswith("torn") for subset in subsets):
        missing.append("torn writes")
    if not again:
        missing.append("a second cut while a state recovers")
    if step and step > 1:
        missing.insert(0, f"{step - 1} of {step} sequences")
    own = listing([SUBSETS[subset] for subset in subsets], "or")
    often = (
        f" While one in {again} states recovered, the power was cut again, at 16 places at most."
        if again and again > 1
        else ""
    )
    return (
        f"Visited: every state in which {own} of the writes that no flush followed are on the disk; so there is no"
        f" error bound.{often} Not visited: {listing(missing)}. The model leaves out large and aged file systems,"
        " several processes, disks that break more than one write, and calls that are not listed."
    )


def kept(labels: Sequence[str], visited: int, sequences: int) -> str:
    """Who broke no guarantee. visited: states of all of them.

    `No guarantee was broken in 5,300 crash states of 324 sequences on ext4 and xfs.`
    """
    if not labels:
        return ""
    number = f"{visited:,} crash states of {count(sequences, 'sequence')}"
    return f"No guarantee was broken in {number} on {listing(labels)}."


def broken(found: pd.DataFrame) -> str:
    """Who broke one. found: `stats.states.smallest` of broken guarantees.

    `Guarantees were broken by jfs (lost) and udf (lost and wrong name).`
    """
    kinds = found.groupby("label", sort=False)["kind"].unique()
    told = [f"{label} ({listing([KINDS[kind][0] for kind in own])})" for label, own in kinds.items()]
    return f"Guarantees were broken by {listing(told)}." if told else ""


def published(seen: int, every: int) -> str:
    """`Of 24 published bugs 2 are seen.`"""
    return f"Of {count(every, 'published bug')} {seen or 'none'} {'is' if seen < 2 else 'are'} seen."


def usable_again(labels: Sequence[str], found: pd.DataFrame) -> str:
    """Whether there is room again on a full disk. found: `stats.states.findings`.

    `Once the file that took the room was removed, a new file could be written in every state on ext4 and xfs, but not
    on nilfs2.`
    """
    bad = set(found.loc[(found["kind"] == "unusable") & found["after"].astype(bool), "label"])
    good, other = [label for label in labels if label not in bad], [label for label in labels if label in bad]
    first = "Once the file that took the room was removed, a new file could be written in every state"
    if not good:
        return f"{first} on no file system."
    return f"{first} on {listing(good)}" + (f", but not on {listing(other)}." if other else ".")


def unpromised(labels: Sequence[str]) -> str:
    """`Nothing is guaranteed by jfs: what was found there is shown, not judged.`"""
    return f"Nothing is guaranteed by {listing(labels)}: what was found there is shown, not judged." if labels else ""
