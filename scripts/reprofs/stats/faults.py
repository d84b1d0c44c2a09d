"""Faults of the disk: what each case came to, the worst of each file system, and what fsync said."""

from __future__ import annotations

import pandas as pd

OK = "ok"
# The worst first: the word in tables, and what it means.
OUTCOMES = {
    "silent": "what was flushed, or was there before, is gone or has other content, and no call says so",
    "no mount": "it cannot be mounted, also after the repair that it wants",
    "unreadable": "what was flushed, or was there before, gives an error when it is read",
    "late": "what was flushed is lost; its fsync said ok, and a later call an error",
    "foreign": "a file whose flush failed shows what nobody wrote into it",
    "told": "what was written is lost, and its fsync said so",
    "checker": "all can be read, and only the checker complains",
    "noticed": "a call says an error, and nothing is lost",
    "mended": "the block on the disk is right again",
    OK: "nothing is lost, nothing is said",
}
READS = ("read-error", "read-error-ever", "rot", "zeros")  # phases whose fault is of what is read
# Rebello et al., USENIX ATC 2020 (kernel 5.2): which fsync says that a write of data failed, what is in memory then.
PUBLISHED = {
    "ext4": ("first", "new"),
    "ext4 data=journal": ("second", "new"),
    "xfs": ("first", "new"),
    "btrfs": ("first", "old"),
}
_FLUSHES = ("fsync", "fsync_again", "fsync_other", "fsync_later")
_LATER = (*_FLUSHES[1:], "new_file", "fsync_folder", "syncfs", "usable")
_CONTENTS = ("new", "old", "mixed", "zeros", "foreign", "short", "absent")


def outcome(row: pd.Series) -> str:
    """What a case came to: a key of `OUTCOMES`. row: of the table faults."""
    if row["mount"] != OK:
        return "no mount"
    if row["others"]:
        return "silent"
    if row["phase"] in READS:
        if row["errors"]:
            return "unreadable"
        return "mended" if row["mended"] else "checker" if row["checker"] else OK
    return _of_writes(row)


def _of_writes(row: pd.Series) -> str:
    """What is left of the two files of which one was written while requests failed."""
    files = (("fsync", "after"), ("new_file", "new_after"))
    gone = [row[after] for call, after in files if row[call] == OK and row[after] != "new"]
    told_later = any(row[call] != OK for call in _LATER)
    if any(content in _CONTENTS for content in gone):
        return "late" if told_later else "silent"
    if gone or row["errors"]:
        return "unreadable"
    if "foreign" in (row["after"], row["new_after"]):
        return "foreign"
    if row["after"] != "new" or row["new_after"] != "new":
        return "told"
    if told_later or row["fsync"] != OK:
        return "noticed"
    return "checker" if row["checker"] else OK


def outcomes(faults: pd.DataFrame) -> pd.DataFrame:
    """The table faults with the columns outcome, and of: data, metadata or flush."""
    of = faults["kind"].where(faults["kind"].isin(["data", "flush"]), "metadata")
    return faults.assign(of=of, outcome=[outcome(row) for _, row in faults.iterrows()])


def worst(found: pd.DataFrame) -> pd.DataFrame:
    """The worst outcome of each file system (columns) under each fault of data, metadata, flushes (index: phase, of).

    found: `outcomes`. Missing where the disk got no such request.
    """
    rank = {word: place for place, word in enumerate(OUTCOMES)}
    ordered = found.assign(rank=found["outcome"].map(rank)).sort_values("rank", kind="stable")
    cells = ordered.drop_duplicates(["label", "phase", "of"]).set_index(["phase", "of", "label"])["outcome"]
    return cells.unstack("label").reindex(found[["phase", "of"]].drop_duplicates().apply(tuple, axis=1))


def kinds(found: pd.DataFrame, phase: str) -> pd.DataFrame:
    """How many cases of a fault came to what (columns), of each file system and kind of block (index)."""
    counts = found[found["phase"] == phase].groupby(["label", "kind", "outcome"], sort=False).size()
    return counts.unstack("outcome").reindex(columns=list(OUTCOMES)).dropna(axis=1, how="all").fillna(0).astype(int)


def flushes(faults: pd.DataFrame, phase: str = "write-error") -> pd.DataFrame:
    """What is said of the first write of data that fails, by file system (index).

    Columns: the four calls of fsync, cached (what is read then), cold (without a cache), usable, after (what is read
    after the next mount). Missing are those whose data cannot be told from other writes.
    """
    chosen = faults[(faults["phase"] == phase) & (faults["kind"] == "data") & (faults["nth"] == 0)]
    return chosen.set_index("label")[[*_FLUSHES, "cached", "cold", "usable", "after"]]


def told_by(row: pd.Series) -> str:
    """Which fsync of a file says first that a write failed: first, second, another descriptor, or none."""
    words = ("first", "second", "another descriptor", "a later descriptor")
    return next((word for call, word in zip(_FLUSHES, words, strict=True) if row[call] != OK), "none")
