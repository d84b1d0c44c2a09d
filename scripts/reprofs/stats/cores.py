"""How rates grow with the number of workers, and of the cores that they have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd

from reprofs.plan.plan import Plan
from reprofs.plan.workload import WORKERS, without_size
from reprofs.stats.cells import interval, measured, widen

TICK_NS = 4_000_000  # of the guests' kernels, CONFIG_HZ=250
LEAST_NS = 10 * TICK_NS  # in less the scheduler hardly moves a worker to a free core, so that its placement is measured


class Curve(NamedTuple):
    """What grows: the cores, with a worker on each, in labs that differ in nothing else; or the workers, in one lab."""

    by: str  # cores, workers
    lab: str  # of several labs the one with the fewest cores
    stack: str
    profile: str
    workload: str  # without its size
    scale: str


PLACE = ["stack", "profile", "workload", "scale"]
CELL = ["phase", "cache", "label"]


def curves(phases: pd.DataFrame, plan: Plan) -> dict[Curve, pd.DataFrame]:
    """The curves of a study, and of each a row for an operation, a file system and a number of workers.

    phases: the table of that name. Columns: position, phase, cache, label, role, n (cores or workers), rate (items of
    all workers a second, geometric mean of the rounds), wall_ns (the same mean of the times), speedup (the rate over
    that with the fewest; mean over the rounds that have both), its 95 % interval low to high (NaN with one round),
    efficiency (speed-up over the factor by which n grew) and short (a phase behind this or the first number took less
    than LEAST_NS: it tells no scaling).
    """
    found = {}
    for key, rows in _candidates(_rows(phases, plan)):
        if rows["n"].nunique() > 1:
            found[key] = _speedups(rows, plan.labs[key.lab].exact)
    return found


def _rows(phases: pd.DataFrame, plan: Plan) -> pd.DataFrame:
    """The phases of workloads whose size is their workers, with these, the lab's cores and what labs have in common."""
    sized = {name: entry.parameters[WORKERS] for name, entry in plan.workloads.items() if entry.size == WORKERS}
    own = measured(phases)
    own = own[own["workload"].isin(list(sized))]
    processors = {name: lab.processor for name, lab in plan.labs.items()}
    cores = {name: processor.count for name, processor in processors.items() if processor}
    families = {
        name: f"{name.partition('@')[0]} {processor.ns_per_instruction} {processor.features}" if processor else name
        for name, processor in processors.items()
    }
    return own.assign(
        workers=own["workload"].map(sized).astype(int),
        cores=own["lab"].map(cores),
        family=own["lab"].map(families),
        workload=own["workload"].map(without_size),
        rate=own["items"].astype(float) / own["wall_ns"].astype(float) * 1e9,
    )


def _candidates(rows: pd.DataFrame) -> Iterator[tuple[Curve, pd.DataFrame]]:
    full = rows[rows["workers"] == rows["cores"]].assign(n=lambda own: own["workers"])
    for (_, *place), own in full.groupby(["family", *PLACE]):
        yield Curve("cores", str(own.loc[own["n"].idxmin(), "lab"]), *place), own
    for (lab, *place), own in rows.assign(n=rows["workers"]).groupby(["lab", *PLACE]):
        yield Curve("workers", lab, *place), own


def _speedups(rows: pd.DataFrame, exact: bool) -> pd.DataFrame:
    fewest, found = rows["n"].min(), []
    for key, own in rows.groupby(CELL):
        rates = own.pivot_table(index="round", columns="n", values="rate")
        short = own.groupby("n")["wall_ns"].min().astype(float) < LEAST_NS
        if fewest not in rates:
            continue
        for n in rates:
            both = (rates[n] / rates[fewest]).dropna()
            if not len(both):
                continue
            speedup, (low, high) = float(np.exp(np.log(both).mean())), interval(both)
            if exact:
                low, high = widen(speedup, low, high)
            row = dict(zip(CELL, key, strict=True)) | {"n": int(n), "rate": float(np.exp(np.log(rates[n]).mean()))}
            times = own.loc[own["n"] == n, "wall_ns"].astype(float)
            row |= {"position": own["position"].iloc[0], "role": own["role"].iloc[0]}
            row |= {"short": bool(short[n] or short[fewest]), "wall_ns": float(np.exp(np.log(times).mean()))}
            found.append(row | {"speedup": speedup, "low": low, "high": high, "efficiency": speedup * fewest / n})
    return pd.DataFrame(found).sort_values(["position", "label", "n"], kind="stable").reset_index(drop=True)
