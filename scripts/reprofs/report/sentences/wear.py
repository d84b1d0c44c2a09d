"""Sentences on wear: bytes of flash a byte of the user, and who is fastest on drives of different state."""

from __future__ import annotations

import pandas as pd

from reprofs.report.words import digits, listing, opening, slower, verb


def least_and_most(found: pd.DataFrame) -> list[str]:
    """One sentence for each profile of `wear.together`: who needs the fewest bytes of flash, and who the most.

    `On ssd-worn a byte of the user costs from 8.1 bytes of flash (ext4) to 14 (btrfs). The drive writes each page 7.9
    times.`
    """
    told = []
    for profile, rows in found[found["role"] == "contender"].groupby("profile", sort=False):
        ends = rows.sort_values("bytes", kind="stable")
        least, most = ends.iloc[0], ends.iloc[-1]
        cost = f"{_digits(least['bytes'])} bytes of flash ({least['label']})"
        if len(ends) > 1:
            cost = f"from {cost} to {_digits(most['bytes'])} ({most['label']})"
        inside = _digits(rows["flash"].sum() / rows["host"].sum())
        told.append(f"On {profile} a byte of the user costs {cost}. The drive writes each page {inside} times.")
    return told


def discards(found: pd.DataFrame) -> list[str]:
    """What discarding helps, on each profile of `wear.together` that has variants named discard beside others.

    `On ssd-worn-discards mkfs discards the whole drive, which then writes each page 1.0 times (ext4). Where mkfs
    discards nothing, and the mount option does: from 5.9 times (btrfs+discard) to 7.8 (xfs+discard).`
    """
    told = []
    for profile, rows in found.groupby("profile", sort=False):
        option = rows["label"].str.endswith("+discard")
        if option.any() and not option.all():
            whole, part = _inside(rows[~option]), _inside(rows[option])
            told.append(
                f"On {profile} mkfs discards the whole drive, which then writes each page {whole}. Where mkfs discards"
                f" nothing, and the mount option does: {part}."
            )
    return told


def _inside(rows: pd.DataFrame) -> str:
    ends = rows.sort_values("inside", kind="stable")
    least, most = (f"{_digits(end['inside'])} times ({end['label']})" for _, end in ends.iloc[[0, -1]].iterrows())
    same = _digits(ends.iloc[0]["inside"]) == _digits(ends.iloc[-1]["inside"])
    if len(ends) > 1 and same:
        return least.partition(" (")[0]
    return least if len(ends) == 1 else f"from {least} to {most.replace(' times', '')}"


def _digits(value: float) -> str:
    return digits(value, 2)


def rankings(verdicts: pd.DataFrame, first: str) -> str:
    """In how many operations the fastest file system of each other profile is that of the profile `first`; its leads.

    verdicts: a row an operation and profile, with best, and ratio (the next to it).
    """
    wide = verdicts.pivot(index="operation", columns="profile", values="best")
    if first not in wide or len(wide.columns) < 2:
        return ""
    same = {profile: int((wide[profile] == wide[first]).sum()) for profile in wide if profile != first}
    parts = [f"in {count} on {profile}" for profile, count in same.items()]
    timed = f"{opening(len(wide), 'operation')} {verb(len(wide), 'was', 'were')} timed."
    leads = verdicts.groupby("profile", sort=False)["ratio"].median()
    lead = listing(f"{slower(ratio)} on {profile}" for profile, ratio in leads.items())
    return (
        f"{timed} The fastest file system is that of {first} {listing(parts)}. The next is slower by {lead} (medians)."
    )
