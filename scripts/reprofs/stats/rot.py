"""What arrays made of a bit that was another on one of their disks. Source: engine rot."""

from __future__ import annotations

import pandas as pd

READS = {
    "whole": "what was written",
    "rotten": "the other bit, and no error",
    "error": "an error, or the file system cannot be mounted",
}
ENDS = {
    "mended": "all copies on the disks are as they were written",
    "spread": "no copy and no parity is left that knows the bit, or no scrub finds it any more",
    "remains": "the copy is as it was, and a scrub finds it",
    "unseen": "it is no page of the file: what is read is whole, and no scrub finds it",
    "not asked": "nothing scrubs this array, or not as long as it cannot be mounted",
}
KINDS = {
    "data": "a page of the file",
    "parity": "the parity of such pages",
    "other": "any other block that is not zeros: metadata, the log, what the array keeps of itself",
}


def cases(rot: pd.DataFrame) -> pd.DataFrame:
    """The table rot with the columns given (a key of `READS`: what the first read gave) and end (a key of `ENDS`)."""
    given = rot["read"].where(rot["read"].isin(READS), "error")
    return rot.assign(given=given, end=[_end(row) for row in rot.to_dict("records")])


def _end(row: dict) -> str:
    if pd.isna(row["found"]):
        return "not asked"
    repaired = pd.notna(row["repair_left"])
    left, found = (row["repair_left"], row["found_again"]) if repaired else (row["scrub_left"], row["found"])
    if not left:
        return "mended"
    read = {row[key] for key in ("read", "scrubbed", "repaired") if pd.notna(row[key])}
    if row["kind"] != "data" and not row["found"] and read == {"whole"}:
        return "unseen"
    return "spread" if not found or left == row["copies"] > 1 else "remains"


def by_array(found: pd.DataFrame) -> pd.DataFrame:
    """Cases of `cases` by stack and label: how many, what was read, how many the scrub found, how they ended."""
    keys = [found["stack"], found["label"]]
    parts = [found.groupby(["stack", "label"], sort=False).size().rename("copies")]
    parts.append(pd.crosstab(keys, found["given"]).reindex(columns=list(READS), fill_value=0))
    parts.append(found["found"].astype("boolean").groupby(keys).sum(min_count=1).rename("found"))
    parts.append(pd.crosstab(keys, found["end"]).reindex(columns=list(ENDS)[:4], fill_value=0))
    return pd.concat(parts, axis=1)
