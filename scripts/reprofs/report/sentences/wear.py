"""Sentences on wear: bytes of flash a byte of the user, and who is fastest on drives of different state."""

from __future__ import annotations

import pandas as pd

from reprofs.report.words import count, digits, first_upper, listing, slower

ONCE = 1.05  # times that a drive writes each page: below it shows as 1.0


def least_and_most(found: pd.DataFrame) -> list[str]:
    """What a byte of the user costs: on each profile of `wear.together` whose drive moves pages, then on the others.

    `On ssd-worn a byte of the user costs from 7.5 bytes of flash (ext4) to 13 (btrfs). The drive writes each page 7.7
    times.`
    `On ssd-new and ssd-trim the drive writes each page once. A byte of the user costs from 1.0 bytes of flash (xfs) to
    1.6 (btrfs).`
    """
    contenders = found[found["role"] == "contender"]
    totals = contenders.groupby("profile", sort=False)[["flash", "host"]].sum()
    inside = totals["flash"] / totals["host"]
    told = []
    for profile in inside[inside >= ONCE].sort_values(ascending=False, kind="stable").index:
        cost = _cost(contenders[contenders["profile"] == profile])
        told.append(f"On {profile} {cost}. The drive writes each page {_digits(inside[profile])} times.")
    fresh = inside[inside < ONCE].index
    if len(fresh):
        cost = first_upper(_cost(contenders[contenders["profile"].isin(fresh)]))
        told.append(f"On {listing(fresh)} the drive writes each page once. {cost}.")
    return told


def _cost(rows: pd.DataFrame) -> str:
    ends = rows.sort_values("bytes", kind="stable")
    least, most = ends.iloc[0], ends.iloc[-1]
    cost = f"{_digits(least['bytes'])} bytes of flash ({least['label']})"
    if least["label"] != most["label"]:
        cost = f"from {cost} to {_digits(most['bytes'])} ({most['label']})"
    return f"a byte of the user costs {cost}"


def discards(found: pd.DataFrame) -> list[str]:
    """What discarding helps, on each profile of `wear.together` that has variants named discard beside others.

    `If mkfs discards the whole drive, ssd-worn-discards writes each page once. If only the mount option discards, it
    writes them 5.9 times (btrfs+discard) to 7.8 times (xfs+discard).`
    """
    told = []
    for profile, rows in found.groupby("profile", sort=False):
        option = rows["label"].str.endswith("+discard")
        if option.any() and not option.all():
            whole, part = _inside(rows[~option]), _inside(rows[option])
            told.append(
                f"If mkfs discards the whole drive, {profile} writes each page {whole}. If only the mount option"
                f" discards, it writes them {part}."
            )
    return told


def _inside(rows: pd.DataFrame) -> str:
    ends = rows.sort_values("inside", kind="stable")
    least, most = (_times(end["inside"]) for _, end in ends.iloc[[0, -1]].iterrows())
    if least == most:
        return least
    first, last = ends["label"].iloc[[0, -1]]
    return f"{least} ({first}) to {most} ({last})"


def _times(value: float) -> str:
    return "once" if value < ONCE else f"{_digits(value)} times"


def _digits(value: float) -> str:
    return digits(value, 2)


def rankings(verdicts: pd.DataFrame, first: str) -> str:
    """In how many operations the fastest on the profile `first` is so on each other, and where its lead is smallest.

    verdicts: a row an operation and profile, with best, and ratio (the next to it).

    `The fastest file system on ssd-new is also the fastest on ssd-worn in 3 of 4 operations. The median lead over the
    next is 64 % on ssd-new and 3.3 % on ssd-worn.`
    """
    wide = verdicts.pivot(index="operation", columns="profile", values="best")
    if first not in wide or len(wide.columns) < 2:
        return ""
    others = [profile for profile in wide if profile != first]
    same = [f"on {profile} in {int((wide[profile] == wide[first]).sum())}" for profile in others]
    same[0] += f" of {count(len(wide), 'operation')}"
    leads = verdicts.groupby("profile", sort=False)["ratio"].median()
    ends = dict.fromkeys([first, leads.idxmin()])
    lead = listing(f"{slower(leads[profile])} on {profile}" for profile in ends)
    told = f"The fastest file system on {first} is also the fastest {listing(same)}."
    return f"{told} The median lead over the next is {lead}."
