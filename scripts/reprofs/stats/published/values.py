"""Everything that published claims may compare, of what a study measured: times, rates, shares, round by round."""

from __future__ import annotations

import math
from typing import NamedTuple

import pandas as pd

from reprofs.data.keys import select
from reprofs.stats import series
from reprofs.stats.cells import measured, processor_busy
from reprofs.stats.published.numbers import SUBJECT
from reprofs.stats.published.sides import Sides

ROUND = ["workload", *SUBJECT, "size", "round"]  # of what one round has a value of each quantity
ALONE = ["rate-sd", "rate-min", "operations-sd"]  # quantities of a single client


class Ground(NamedTuple):
    """Where the values of a study may be compared."""

    lab: str
    profile: str

    def __str__(self) -> str:
        return f"lab {self.lab}, device model {self.profile}"


def grounds(sides: Sides) -> list[Ground]:
    """The labs and device profiles of a study that is set beside published claims."""
    if not sides.published_claims or sides.study.plan.factors:  # compared with their base, not with claims
        return []
    rows = sides.study.phases[list(Ground._fields)].itertuples(index=False, name=None)
    return sorted({Ground(*row) for row in rows})


def values(sides: Sides, ground: Ground) -> pd.DataFrame:
    """Everything that claims may compare, one row per value and round: columns ROUND, quantity, value (s, bytes, 1/s).

    Of phases: time, user, system, and busy (see `cells.processor_busy`; no claim names it). Of samples, under their
    name in place of the phase's: time (mean over the clients), rate and operations (each client's mean rate, summed
    over the clients, as benchmarks with clients report it), and of a single client rate-sd, operations-sd (standard
    deviation over the samples) and rate-min (the lowest); of a fill share (content of a full file system over its
    capacity) and period (files from dip to dip). Size: of what the published size counts, 0 without.
    """
    phases = select(sides.measurements, ground)
    wide = phases[ROUND].assign(
        **{
            name: phases[f"{part}_ns"].to_numpy(float, na_value=math.nan) / 1e9  # parts have no user time
            for name, part in (("time", "wall"), ("user", "user"), ("system", "system"))
        },
        busy=processor_busy(phases),
    )
    frames = [wide.melt(ROUND, var_name="quantity")]
    if len(sides.study.samples):
        # First, because parts of a phase are in both, and of clients in turn it is their mean that others report.
        frames = [*_of_samples(sides, ground), *frames]
    found = pd.concat(frames, ignore_index=True).drop_duplicates([*ROUND, "quantity"])
    found["value"] = found["value"].astype(float)
    return found[found["value"] > 0].reset_index(drop=True)


def _of_samples(sides: Sides, ground: Ground) -> list[pd.DataFrame]:
    """Values of those parts of phases that workloads declare; another sample may have one name in several phases."""
    every = sides.study.samples.assign(operation="")
    declared = pd.MultiIndex.from_frame(every[["workload", "phase", "cache", "name"]]).isin(_declared(sides))
    every = select(sides.sized(measured(every.assign(declared=declared))), ground)
    wide = _rates(every[every["declared"]]).melt(ROUND, var_name="quantity")
    full = series.capacity_reached(every)
    full = full[full["full"].astype(bool)].merge(every[["trial", "workload", "size"]].drop_duplicates(), on="trial")
    return [wide, full.assign(quantity="share", value=full["share"])[wide.columns], _periods(every)[wide.columns]]


def _periods(samples: pd.DataFrame) -> pd.DataFrame:
    """The period of the dips of each fill that has one, with the columns ROUND, quantity and value."""
    rows = []
    for _, run in samples.groupby(series.RUN, sort=False, dropna=False):
        if "capacity" in set(run["name"]):
            rates = series.rates(run)
            period = series.dips(rates.loc[~rates["partial"], "mb_s"].to_numpy())["period"]
            rows.append(run.iloc[0][ROUND].to_dict() | {"phase": "write", "quantity": "period", "value": period})
    return pd.DataFrame(rows, columns=[*ROUND, "quantity", "value"]).dropna(subset="value")


def _declared(sides: Sides) -> list[tuple[str, str, str, str]]:
    """Workload, phase, cache and name of the parts of phases."""
    return [
        (workload, phase.name, phase.cache, part)
        for workload, entry in sides.study.plan.workloads.items()
        for phase in entry.phases
        for part in phase.samples or {}
    ]


def _rates(samples: pd.DataFrame) -> pd.DataFrame:
    """time, rate, operations and ALONE of samples; a file that the end of the space cut short has no rate."""
    whole = ~(samples["bytes"] < samples["file_bytes"]).fillna(False).astype(bool)
    own = samples[whole & (samples["wall_ns"] > 0)]
    seconds = own["wall_ns"].astype(float) / 1e9
    own = own.assign(
        time=seconds,
        rate=own["bytes"].astype(float) / seconds,
        operations=own["items"].astype(float) / seconds,
        client=own["client"].fillna(-1).astype(int),
        phase=own["name"],
    )
    rates = ["rate", "operations"]
    grouped = own.groupby([*ROUND, "client"])
    clients = grouped[["time", *rates]].mean().join(grouped[rates].std().add_suffix("-sd"))
    clients = clients.join(grouped["rate"].min().rename("rate-min")).reset_index()
    over = clients.groupby(ROUND)
    found = over.agg({"time": "mean", "rate": "sum", "operations": "sum"} | dict.fromkeys(ALONE, "first"))
    found[ALONE] = found[ALONE].mask(over.size() > 1)
    return found.reset_index()
