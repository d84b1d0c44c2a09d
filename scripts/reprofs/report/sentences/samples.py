"""Sentences on samples within an operation: filling a device, interference."""

from __future__ import annotations

import pandas as pd

from reprofs.report.marks import strong
from reprofs.report.words import count, digits, percent, time
from reprofs.stats import series


def filling(files: pd.DataFrame, samples: pd.DataFrame, where: str) -> str:
    """How steady throughput is until a device is full. files: of `series.rates`; samples: all of that phase.

    `fill, write: xfs is fastest with 3,396 MB/s, jfs slowest with 1,200; dips are most on jfs (12).`
    """
    if files.empty:
        return ""
    means = files.groupby("label")["mb_s"].mean().sort_values(ascending=False)
    told = strong(where.strip(", ")) + f": {means.index[0]} is fastest with {digits(means.iloc[0], 3)} MB/s"
    if len(means) > 1:
        told += f", {means.index[-1]} slowest with {digits(means.iloc[-1], 3)}"
    runs = [(label, run["mb_s"].to_numpy()) for (label, _), run in files.groupby(["label", "trial"])]
    dips = pd.Series([len(series.dips(rates)["at"]) for _, rates in runs], [label for label, _ in runs])
    total = dips.groupby(level=0).sum()
    told += f"; dips are most on {total.idxmax()} ({total.max()})" if total.max() else "; there are no dips"
    reached = series.capacity_reached(samples)["share"]
    return told + (f". Content took {percent(reached.mean())} of the capacity." if len(reached) else ".")


def interference(effects: pd.DataFrame, where: str) -> str:
    """What a reader does to a writer. effects: of `series.windows`, one place.

    `one-reader: a reader costs the writer least on xfs (5.0 % of its throughput) and most on ext4 (40.0 %).`
    """
    loss = 1 - effects.groupby("label")["slowdown"].mean()
    told = strong(where) + f": a reader costs the writer least on {loss.idxmin()}"
    told += f" ({percent(loss.min())} of its throughput)"
    if len(loss) > 1:
        told += f" and most on {loss.idxmax()} ({percent(loss.max())})"
    back = pd.to_numeric(effects["recovery_ns"]).dropna()
    never = len(effects) - len(back)
    if len(back):
        told += f". The writer recovers within {time(float(back.max()), 3)}"
    return told + (f"; in {count(never, 'run')} it does not." if never else ".")
