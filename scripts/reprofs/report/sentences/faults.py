"""Sentences on faults of the disk: what fsync says of them, and what is lost without a word."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from reprofs.report.words import listing, verb
from reprofs.stats.faults import OK

LEFT_OUT = (
    "One request fails, or all of a kind, on one small and new disk. The model leaves out arrays, several faults at"
    " once, and faults that only a large or aged file system meets."
)


def failed_write(flushes: pd.DataFrame) -> str:
    """What fsync says of a write of data that failed. flushes: `stats.faults.flushes`.

    `After a write of data failed, the first fsync gives an error on all 11 file systems. The second says ok on all but
    ext4+data-journal, although the data is not on the disk.`
    """
    said = flushes[flushes["fsync"] != OK]
    if said.empty:
        return ""
    forgot = said[(said["fsync_again"] == OK) & (said["after"] != "new")]
    first = f"After a write of data failed, the first fsync gives an error on {_of(said.index, flushes.index)}"
    if forgot.empty:
        return f"{first}, and so does the second."
    return f"{first}. The second says ok on {_of(forgot.index, said.index)}, although the data is not on the disk."


def rotten(silent: Sequence[str], noticed: Sequence[str], every: int) -> str:
    """What reading a file with a flipped bit gives. every: file systems on which it was asked.

    `A flipped bit in a file is read without an error on 10 of 12 file systems; btrfs gives one.`
    """
    where = listing(silent) if len(silent) < 4 else f"{len(silent)} of {every} file systems"
    parts = [f"a flipped bit in a file is read without an error on {where}"] if len(silent) else []
    gives = f"{listing(noticed)} {verb(len(noticed), 'gives', 'give')}"
    parts += [f"{gives} {'one' if len(silent) else 'an error'}"] if len(noticed) else []
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}." if text else ""


def unheard(labels: Sequence[str]) -> str:
    """`If all writes of metadata fail, fsync of a new file still says ok on jfs, and the file is lost.`"""
    told = "If all writes of metadata fail, fsync of a new file still says ok"
    return f"{told} on {listing(labels)}, and the file is lost." if len(labels) else ""


def _of(labels: Sequence[str], every: Sequence[str]) -> str:
    """`all 11 file systems`, `all but jfs`, or those that are meant."""
    others = [label for label in every if label not in set(labels)]
    if not others and len(every) > 2:
        return f"all {len(every)} file systems"
    return f"all but {listing(others)}" if 0 < len(others) < len(labels) / 4 else listing(labels)
