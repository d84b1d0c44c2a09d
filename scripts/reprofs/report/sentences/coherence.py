"""Sentences on what clients of a shared folder see of each other."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

import pandas as pd

from reprofs.report.words import count, listing, percent, verb

FAULTS = {
    "nothing": "nothing",
    "pair-cut": "two nodes cut",
    "split": "split in two",
    "link-cut": "server cut off",
    "server-stopped": "server stopped",
    "server-killed": "server killed",
    "server-power": "server without power",
}
MODELS = {"posix": "POSIX (as on one host)", "close-to-open": "close-to-open", "none": "none"}
OPTIONS = ("lab", "filesystem", "variant", "stack", "profile", "workload", "scale", "round", "seed")


def nothing(schedules: int) -> str:
    """The sentence for a study without recorded calls: `No calls were recorded.`"""
    return "" if schedules else "No calls were recorded."


def kept(found: pd.DataFrame) -> str:
    """File systems that broke their declared model in no schedule. found: rows indexed by label with run, broken,
    undecided.

    `In no schedule what clients saw contradicts the declared model on nfs-xfs (48) and gluster (60).`
    """
    good = found[(found["broken"] == 0) & (found["undecided"] == 0)]
    told = [f"{label} ({row['run']})" for label, row in good.iterrows()]
    return f"In no schedule what clients saw contradicts the declared model on {listing(told)}." if told else ""


def broken(found: pd.DataFrame) -> str:
    """File systems that broke it: `What clients saw contradicts the declared model on cephfs in 2 of 72 schedules.`"""
    bad = found[found["broken"] > 0]
    told = [f"{label} in {row['broken']} of {count(row['run'], 'schedule')}" for label, row in bad.iterrows()]
    return f"What clients saw contradicts the declared model on {listing(told)}." if told else ""


def weaker(found: pd.DataFrame) -> str:
    """Whether schedules that break POSIX fit what NFS promises. found: as above, with model and weak, those that do.

    `All 6 fit close-to-open, the model of NFS: names, or content of files still open, were seen late.`
    """
    bad = found[(found["model"] == "posix") & (found["broken"] > 0)]
    fit, of = bad["weak"].sum(), bad["broken"].sum()
    if fit < of:
        return f"Of these {of}, {fit} {verb(fit, 'fits', 'fit')} close-to-open, the model of NFS."
    who = "It fits" if of == 1 else f"All {of} fit"
    late = "names, or content of files still open, were seen late"
    return f"{who} close-to-open, the model of NFS: {late}." if of else ""


def undecided(found: pd.DataFrame) -> str:
    """Which schedules have no verdict: `Undecided, with too many orders to try: 1 schedule on saunafs.`"""
    told = [f"{count(row['undecided'], 'schedule')} on {label}" for label, row in found.iterrows() if row["undecided"]]
    return f"Undecided, with too many orders to try: {listing(told)}." if told else ""


def stricter(found: pd.DataFrame) -> str:
    """What a model shows that is stronger than the declared one: that the judge can tell. found: as above, with model
    and strict, the schedules that contradict POSIX.

    `Judged as POSIX, which it does not declare, nfs-xfs contradicts it in 48 of 48 schedules.`
    """
    told = [
        f"{label} contradicts it in {row['strict']} of {count(row['run'], 'schedule')}"
        for label, row in found[found["model"] != "posix"].iterrows()
    ]
    who = verb(len(told), "it does", "they do")
    return f"Judged as POSIX, which {who} not declare, {listing(told)}." if told else ""


def sure(fewest: int, share: float) -> str:
    """What no contradiction still allows. share: `stats.durability.unseen` of the fewest schedules of a file system."""
    return (
        f"How sure: none in {count(fewest, 'schedule')} still allows one in up to {percent(share)} of such schedules"
        " (one-sided 95 % bound). Only what clients happened to look at is judged."
    )


def replay(row: Mapping) -> str:
    """The command that repeats a schedule and judges it. row: of the table trials."""
    words = [word for name in OPTIONS for word in (f"--{name}", f"{row[name]}")]
    return f"uv run reprofs trial {shlex.join(words)} --output record.json && uv run reprofs history record.json"
