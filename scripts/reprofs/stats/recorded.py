"""Recorded programs: the time of all calls of a replay together, where it goes, and how long single calls take."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pandas as pd

from reprofs.data.keys import OPERATION, SETTING
from reprofs.data.study import Tables
from reprofs.plan.device import Rotating
from reprofs.plan.plan import Plan
from reprofs.stats.cells import measured, statistics
from reprofs.stats.compare import EQUAL, WIN, pairwise, winners

ALL = "all calls"
FLUSHES = ("fsync", "fdatasync", "syncfs", "sync", "msync")  # kinds of calls that wait for the device
KEYS = [*SETTING, "workload", "scale", "label", "role", "round"]
LAST = "final-sync"  # a phase: what is flushed after all calls, and the program did not
MINOR = 0.01  # of the time of a replay


class Compared(NamedTuple):
    """What `cells.statistics`, `compare.pairwise` and `compare.winners` say of replays as a whole."""

    statistics: pd.DataFrame
    pairwise: pd.DataFrame
    winners: pd.DataFrame


def foreign(plan: Plan, phases: pd.DataFrame) -> pd.Series:
    """Which rows of `phases` rank no file systems: cold calls, on a rotating disk, of a program that visits files as
    they are listed. Every file system lists in an order of its own. A replay visits as it was recorded, or
    as listed; but what so few reads then take depends on the moment they begin (docs/methods/workloads.md)."""
    listed = {name for name, one in plan.workloads.items() if one.recording and one.recording.in_listing_order}
    rotating = {
        profile
        for profile in phases["profile"].unique()
        if any(isinstance(disk.drive, Rotating) for disk in plan.disks(profile))
    }
    cold = phases["cache"].eq("cold") & phases["workload"].isin(listed) & phases["profile"].isin(rotating)
    return cold.astype(bool)


def minor(plan: Plan, phases: pd.DataFrame) -> pd.Series:
    """Which rows of `phases` are kinds of calls that no file system spends `MINOR` of a replay on, with these caches.

    A program makes calls of dozens of kinds. These are in the time of the whole, and are not compared by themselves.
    """
    recorded = {name for name, one in plan.workloads.items() if one.recording}
    own = phases[phases["workload"].isin(recorded) & phases["part"].eq("in-turn")]
    times, whole = own["wall_ns"].astype(float), [own[key] for key in (*SETTING, "workload", "scale", "label", "cache")]
    shares = times.groupby([*whole, own["phase"]], observed=True).transform("sum")
    shares /= times.groupby(whole, observed=True).transform("sum")
    most = shares.groupby([own[key] for key in (*SETTING, *OPERATION)], observed=True).transform("max")
    return pd.Series(phases.index.isin(own.index[most < MINOR]), phases.index)


def replays(tables: Tables) -> pd.DataFrame:
    """The calls of recorded programs: those rows of `phases` of completed trials that one process did in turn."""
    recorded = {name for name, one in tables.plan.workloads.items() if one.recording}
    own = measured(tables.phases)
    return own[own["workload"].isin(recorded) & own["part"].eq("in-turn")]


def compared(tables: Tables, win: float = WIN, equal: float = EQUAL, caution: float = 1) -> Compared:
    """Replays as a whole, cold and warm for itself: the phase is ALL, its time the sum of all calls and the flush.

    win, equal, caution: those of `compare.winners`, whose tests are corrected over the replays of the study. What is
    `foreign` has times, but neither ratios nor a winner.
    """
    own = replays(tables).astype({"wall_ns": float})
    sums = own.groupby([*KEYS, "cache"], sort=True)["wall_ns"].sum().reset_index()
    sums = sums.assign(phase=ALL, position=0, status="ok", operation="", items=1)
    ranked = sums[~foreign(tables.plan, sums)]
    pairs = pairwise(ranked, equal, caution)
    return Compared(statistics(sums), pairs, winners(statistics(ranked), pairs, win, equal, caution))


def by_kind(rows: pd.DataFrame) -> pd.DataFrame:
    """Mean time of each kind of call over the rounds, ns: a row a file system, a column a kind in the workload's order.

    rows: of `replays`, of one setting, workload and cache state.
    """
    order = list(dict.fromkeys(rows.sort_values("position", kind="stable")["phase"]))
    sums = rows.astype({"wall_ns": float}).groupby(["label", "phase"])["wall_ns"].sum().unstack()
    return sums[order].fillna(0.0).div(rows.groupby("label")["round"].nunique(), axis=0)


def latencies(samples: pd.DataFrame) -> pd.DataFrame:
    """How long single calls took, a row for each label and name: calls (of a round), median_ns, p99_ns, longest_ns.

    samples: of one setting, workload and cache state, each with the calls of a kind that took about as long: within
    a quarter, and all of them count as their mean. Quantiles are those of all rounds together.
    """
    own = samples[samples["items"] > 0]
    own = own.assign(each=own["wall_ns"].astype(float) / own["items"].astype(float)).sort_values("each")
    found = []
    for (label, name), group in own.groupby(["label", "name"], sort=True):
        each, calls = group["each"].to_numpy(float), group["items"].to_numpy(np.int64)
        below = np.cumsum(calls)
        at = [each[np.searchsorted(below, math.ceil(share * below[-1]))] for share in (0.5, 0.99)]
        rounds = group["round"].nunique()
        found.append((label, name, round(below[-1] / rounds), *at, each[-1]))
    return pd.DataFrame(found, columns=["label", "name", "calls", "median_ns", "p99_ns", "longest_ns"])
