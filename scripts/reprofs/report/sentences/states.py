"""Sentences on crash states: which file systems keep what they guarantee in all of them."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from reprofs.report.words import count, listing, thousands
from reprofs.stats.states import KINDS

LEFT_OUT = (
    "Within the model every state was visited, so there is no error bound. The model leaves out large and aged file"
    " systems, several processes, disks that break more than one write, and calls that are not listed."
)


def kept(labels: Sequence[str], visited: int, sequences: int) -> str:
    """Who broke no guarantee. visited: states of all of them.

    `No guarantee was broken in 5,300 crash states of 324 sequences on ext4 and xfs.`
    """
    if not labels:
        return ""
    number = f"{thousands(visited)} crash states of {count(sequences, 'sequence')}"
    return f"No guarantee was broken in {number} on {listing(labels)}."


def broken(found: pd.DataFrame) -> str:
    """Who broke one, and the worst of it. found: `stats.states.smallest` of broken guarantees, the worst first.

    `Guarantees were broken by udf (lost, write foo 0 4096;sync: foo is nowhere).`
    """
    worst = found.drop_duplicates("label")
    told = [f"{row.label} ({KINDS[row.kind][0]}, `{row.sequence}`: {row.what})" for row in worst.itertuples()]
    return f"Guarantees were broken by {listing(told)}." if told else ""


def unpromised(labels: Sequence[str]) -> str:
    """`Nothing is guaranteed by jfs: what was found there is shown, not judged.`"""
    return f"Nothing is guaranteed by {listing(labels)}: what was found there is shown, not judged." if labels else ""
