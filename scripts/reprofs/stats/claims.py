"""Published claims as tests: what each compares, its verdict by this study's rounds and by its source's own numbers.

Every comparison is a ratio of two values, or of one value to a number, with an interval. Intervals hold for all
comparisons of all claims together.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from reprofs.data.keys import select
from reprofs.errors import UserError
from reprofs.plan.catalog import unknown
from reprofs.stats import compare, published, series
from reprofs.stats.cells import measured
from reprofs.stats.study import Study

REPRODUCED, SAME, CONTRADICTED = "reproduced", "same direction", "contradicted"
UNDECIDED, NOT_HERE = "undecided", "not decidable here"
VERDICTS = [REPRODUCED, SAME, CONTRADICTED, UNDECIDED, NOT_HERE]
BAND = 1.25  # a ratio counts as reproduced where the interval reaches to this factor of the claimed one
WHERE = ["workload", "stack", "label", "phase", "cache", "quantity"]
KEYS = ["workload", "stack", "label", "phase", "cache", "size", "round"]
CELL = [*KEYS, "quantity"]


class Ground(NamedTuple):
    """Where the values of a study may be compared."""

    lab: str
    profile: str

    def __str__(self) -> str:
        return f"lab {self.lab}, device profile {self.profile}"


class Interval(NamedTuple):
    """A ratio with its interval; of published values, whose spread is mostly unknown, the ratio alone."""

    ratio: float
    low: float
    high: float


# ---- what a claim says -----------------------------------------------------------------------------------------------


def comparisons(claim: dict) -> list[tuple[dict, dict | None]]:
    """The pairs of values that a claim compares, or a value alone, which is compared with a number.

    ratio: the two; bound: the first with each other one; order: neighbours; monotone: neighbours, and the first with
    the last; within: every pair; no-winner: the two in every step.
    """
    values: list[dict] = [claim.get("at", {}) | value for value in claim["of"]]
    if claim["kind"] == "no-winner":
        return [(values[0] | step, values[1] | step) for step in claim["over"]]
    if len(values) == 1:
        return [(values[0], None)]
    if claim["kind"] == "within":
        return list(itertools.combinations(values, 2))
    if claim["kind"] in ("order", "monotone"):
        ends = [(values[0], values[-1])] if claim["kind"] == "monotone" and len(values) > 2 else []
        return [*itertools.pairwise(values), *ends]
    return [(values[0], value) for value in values[1:]]


def decide(claim: dict, found: Sequence[Interval], value: float = math.nan) -> str:
    """The verdict on a claim by the intervals of its `comparisons`; an interval without bounds (NaN) decides nothing.

    value: of kind ratio, the ratio that is claimed. That is reproduced where the interval is on its side of 1 and
    reaches to a factor (`within`, default 1.25) of it; elsewhere on that side the direction is the same. An interval
    that shows neither the side nor that factor contradicts it. A bound that is missed in the claimed direction (least
    from 1 on, most up to 1) has the same direction. A claim of several comparisons is reproduced where all of them are,
    and contradicted where one is.
    """
    kind = claim["kind"]
    if kind == "ratio":
        band = claim.get("within", BAND)
        return _ratio(found[0], value, band) if len(claim["of"]) > 1 else _inside(found[0], value / band, value * band)
    if kind == "bound":
        verdicts = [_bound(one, claim.get("least"), claim.get("most")) for one in found]
        # A value alone is on no side of anything, and a part of a time is on one that nobody doubts.
        sided = all(second and first.get("quantity") == second.get("quantity") for first, second in comparisons(claim))
        return _all([CONTRADICTED if one == SAME and not sided else one for one in verdicts])
    if kind == "order":
        return _all([_more(one) for one in found])
    if kind == "within":
        return _all([_inside(one, 1 / claim["within"], claim["within"], whole=True) for one in found])
    if kind == "monotone":
        if any(one.high < 1 for one in found):
            return CONTRADICTED
        return REPRODUCED if found[-1].low > 1 and all(one.low >= 1 for one in found) else UNDECIDED
    ups, downs = sum(one.low > 1 for one in found), sum(one.high < 1 for one in found)
    if ups and downs:
        return REPRODUCED
    return CONTRADICTED if 2 * max(ups, downs) > len(found) else UNDECIDED


def _all(verdicts: list[str]) -> str:
    """The verdict of several: the first of these that any of them has."""
    return next(word for word in (CONTRADICTED, UNDECIDED, SAME, REPRODUCED) if word in verdicts)


def _more(one: Interval) -> str:
    return REPRODUCED if one.low > 1 else CONTRADICTED if one.high < 1 else UNDECIDED


def _ratio(one: Interval, value: float, band: float) -> str:
    if value < 1:
        one, value = Interval(1 / one.ratio, 1 / one.high, 1 / one.low), 1 / value
    near = one.low <= value * band and one.high >= value / band
    if one.low > 1:
        return REPRODUCED if near else SAME
    if one.high < 1 or one.high < value / band:
        return CONTRADICTED
    return UNDECIDED


def _bound(one: Interval, least: float | None, most: float | None) -> str:
    if least is not None:
        if one.low >= least:
            return REPRODUCED
        same, against = least > 1 and one.low > 1, one.high < least
    else:
        assert most is not None
        if one.high <= most:
            return REPRODUCED
        same, against = most < 1 and one.high < 1, one.low > most
    return SAME if same else CONTRADICTED if against else UNDECIDED


def _inside(one: Interval, low: float, high: float, whole: bool = False) -> str:
    """Whether an interval lies between two bounds: as a whole, or where it may reach beyond them on both sides."""
    if one.low > high or one.high < low:
        return CONTRADICTED
    inside = one.low >= low and one.high <= high if whole else not math.isnan(one.low)
    return REPRODUCED if inside else UNDECIDED


# ---- what was published ----------------------------------------------------------------------------------------------


def told(numbers: pd.DataFrame, value: dict) -> float:
    """The published value (s, bytes, 1/s) that a claim names: the median of its rows; NaN without any.

    Rows that only repeat a number count where the claim names their place. Raises UserError where rows of several
    cells have that name.
    """
    asked = {"quantity": "time"} | value
    column = "si"
    if asked["quantity"].endswith("-sd"):
        asked["quantity"], column = asked["quantity"].removesuffix("-sd"), "sd_si"
    own = numbers[(numbers[list(asked)] == list(asked.values())).all(axis=1)]
    if "place" not in asked:
        own = own[~own["origin"].isin(published.NOT_NEW)]
    if len(own[published.KEY].drop_duplicates()) > 1:
        words = ", ".join(f"{key} {part}" for key, part in asked.items())
        raise UserError(f"{words} are values of several published cells: say more of them in the claim.")
    return float(own[column].median()) if len(own) else math.nan


def own_verdict(numbers: pd.DataFrame, claim: dict) -> tuple[list[float], str]:
    """The published ratios of a claim's comparisons (NaN where there is no number), and its verdict by them.

    No verdict ("") without numbers, and of a ratio that is computed from these very numbers.
    """
    ratios = [told(numbers, first) / (told(numbers, second) if second else 1.0) for first, second in comparisons(claim)]
    if any(math.isnan(ratio) for ratio in ratios) or (claim["kind"] == "ratio" and "value" not in claim):
        return ratios, ""
    return ratios, decide(claim, [Interval(ratio, ratio, ratio) for ratio in ratios], claim.get("value", math.nan))


# ---- what this study measured ----------------------------------------------------------------------------------------


def grounds(study: Study) -> list[Ground]:
    """The labs and device profiles of a study that is set beside published claims."""
    if not study.plan.get("published", {}).get("claims"):
        return []
    rows = study.phases[list(Ground._fields)].itertuples(index=False, name=None)
    return sorted({Ground(*row) for row in rows})


def values(study: Study, ground: Ground) -> pd.DataFrame:
    """Everything that claims may compare, one row per value and round: columns CELL, value (s, bytes, 1/s).

    Of phases: time, user, system. Of samples, under their name in place of the phase's: time (mean over the clients),
    rate and operations (each client's mean rate, summed over the clients, as benchmarks with clients report it), and of
    a single client rate-sd, operations-sd (standard deviation over the samples) and rate-min (the lowest); share
    (content of a full file system over its capacity). Size: of what the published size counts, 0 without.
    """
    phases = select(published.measurements(study), ground)
    wide = phases[KEYS].assign(
        **{
            name: phases[f"{part}_ns"].to_numpy(float, na_value=math.nan) / 1e9  # parts have no user time
            for name, part in (("time", "wall"), ("user", "user"), ("system", "system"))
        }
    )
    frames = [wide.melt(KEYS, var_name="quantity")]
    if len(study.samples):
        # First, because parts of a phase are in both, and of clients in turn it is their mean that others report.
        frames.insert(0, _of_samples(study, ground))
    found = pd.concat(frames, ignore_index=True).drop_duplicates(CELL)
    found["value"] = found["value"].astype(float)
    return found[found["value"] > 0].reset_index(drop=True)


def _of_samples(study: Study, ground: Ground) -> pd.DataFrame:
    """Values of those parts of phases that workloads declare; another sample may have one name in several phases.

    A file that the end of the space cut short has no rate.
    """
    parts = [
        (workload, phase["name"], phase["cache"], part)
        for workload, entry in study.plan["workloads"].items()
        for phase in entry["phases"]
        for part in phase.get("samples", {})
    ]
    every = study.samples.assign(operation="")
    declared = pd.MultiIndex.from_frame(every[["workload", "phase", "cache", "name"]]).isin(parts)
    every = select(published.sized(measured(every.assign(declared=declared)), study), ground)
    whole = ~(every["bytes"] < every["file_bytes"]).fillna(False).astype(bool)
    own = every[every["declared"] & whole & (every["wall_ns"] > 0)]
    seconds = own["wall_ns"].astype(float) / 1e9
    own = own.assign(
        time=seconds,
        rate=own["bytes"].astype(float) / seconds,
        operations=own["items"].astype(float) / seconds,
        client=own["client"].fillna(-1).astype(int),
        phase=own["name"],
    )
    rates = ["rate", "operations"]
    grouped = own.groupby([*KEYS, "client"])
    clients = grouped[["time", *rates]].mean().join(grouped[rates].std().add_suffix("-sd"))
    clients = clients.join(grouped["rate"].min().rename("rate-min")).reset_index()
    over = clients.groupby(KEYS)
    alone = ["rate-sd", "rate-min", "operations-sd"]
    found = over.agg({"time": "mean", "rate": "sum", "operations": "sum"} | dict.fromkeys(alone, "first"))
    found[alone] = found[alone].mask(over.size() > 1)
    wide = found.reset_index().melt(KEYS, var_name="quantity")
    full = series.capacity_reached(every)
    full = full[full["full"].astype(bool)].merge(every[["trial", "workload", "size"]].drop_duplicates(), on="trial")
    return pd.concat([wide, full.assign(quantity="share", value=full["share"])[wide.columns]], ignore_index=True)


def claims(study: Study, ground: Ground) -> pd.DataFrame:
    """One row per published claim, with its verdict by the rounds of this study.

    Columns: id, claim (as in the file); published (ratios of the comparisons, or values; NaN where there is no number),
    own (verdict by them, "" without); claimed (number of a ratio, else NaN); found (`Interval`s of this study
    at the largest size that both have, joint over all comparisons of all claims; empty if not decidable here), size,
    published_size (0 without), waits (shares of the time of the values of the first comparison in which the command was
    not on the processor; NaN where that is not known), expected and by_last (ratio of the first comparison at the
    published size by the power law and by the exponent of the last step, NaN with one size), and verdict.
    """
    numbers, measured_here = published.of_study(study), values(study, ground)
    rows, logs = [], []
    for claim in study.plan["published"]["claims"]:
        ratios, by_them = own_verdict(numbers, claim)
        rounds = [_rounds(study, measured_here, claim, *pair) for pair in comparisons(claim)]
        sizes = [int(one["size"].max()) if len(one) else 0 for one in rounds]
        here = all(map(len, rounds)) and min(sizes, default=0) >= claim.get("least_size", 0)
        row: dict[str, Any] = {"id": claim["id"], "claim": claim}
        row |= {"published": ratios, "own": by_them, "claimed": _claimed(claim, ratios), "size": max(sizes)}
        row |= {"published_size": claim.get("at", {}).get("size", 0), "waits": (math.nan, math.nan)}
        row |= {"expected": math.nan, "by_last": math.nan}
        if here:
            row["waits"] = tuple(_waits(study, measured_here, value) for value in comparisons(claim)[0])
            if row["published_size"] and rounds[0]["size"].nunique() > 1:
                law = rounds[0]["size"], rounds[0]["ratio"]
                row["expected"] = series.extrapolate(*law, [row["published_size"]])["time"].iloc[0]
                row["by_last"] = published.by_last(*law, row["published_size"])
        rows.append(row | {"here": here})
        logs.append([one.loc[one["size"] == size, "ratio"] for one, size in zip(rounds, sizes, strict=True)])
    level = compare.joint(sum(len(own) for own, row in zip(logs, rows, strict=True) if row["here"]))
    for row, own in zip(rows, logs, strict=True):
        row["found"] = []
        if row.pop("here"):
            tested = [compare.ratio(one, np.ones(len(one)), level) for one in own]
            row["found"] = [Interval(**one) for one in tested]
        row["verdict"] = decide(row["claim"], row["found"], row["claimed"]) if row["found"] else NOT_HERE
    return pd.DataFrame(rows)


def beside(study: Study, ground: Ground) -> pd.DataFrame:
    """The published values other than elapsed times that this study measured: columns of the file, own and own_sd.

    own is the geometric mean of this study's rounds, at its largest size, in the unit of the published value; own_sd
    that of the standard deviation over samples, where one was published (NaN without).
    """
    numbers, table = published.of_study(study), values(study, ground)
    stands_in, rows = study.plan["study"].get("stands_in", {}), []
    for row in numbers[(numbers["quantity"] != "time") & ~numbers["origin"].isin(published.NOT_NEW)].to_dict("records"):
        cell = _cell({key: row[key] for key in WHERE if row[key]}, stands_in)
        own = _mean(_measured(table, cell))
        if not math.isnan(own):
            sd = _mean(_measured(table, cell | {"quantity": f"{row['quantity']}-sd"})) if row["sd"] > 0 else math.nan
            rows.append(row | {"own": own / row["si"] * row["value"], "own_sd": sd / row["si"] * row["value"]})
    return pd.DataFrame(rows, columns=[*numbers.columns, "own", "own_sd"])


def _mean(own: pd.DataFrame) -> float:
    """The geometric mean of values at the largest size; NaN without any."""
    last = own.loc[own["size"] == own["size"].max(), "value"]
    return math.exp(np.log(last).mean()) if len(last) else math.nan


def _claimed(claim: dict, ratios: list[float]) -> float:
    return claim.get("value", ratios[0]) if claim["kind"] == "ratio" else math.nan


def _rounds(study: Study, table: pd.DataFrame, claim: dict, first: dict, second: dict | None) -> pd.DataFrame:
    """size, round and ratio of two values, or of one to 1, in the rounds that have both; none of a value to itself."""
    stands_in = {} if claim["own_stack"] else study.plan["study"].get("stands_in", {})
    cells = [_cell(value, stands_in) for value in (first, second) if value is not None]
    above = _measured(table, cells[0])
    if second is None:
        return above.rename(columns={"value": "ratio"})
    below = _measured(table, cells[1]) if cells[0] != cells[1] else above.iloc[:0]
    both = above.merge(below, on=["size", "round"])
    return both.assign(ratio=both["value_x"] / both["value_y"])[["size", "round", "ratio"]]


def _cell(value: dict, stands_in: dict[str, str]) -> dict:
    """What a value is called in this study."""
    found = {"quantity": "time"} | {key: value[key] for key in WHERE if key in value}
    return found | {key: stands_in.get(found[key], found[key]) for key in published.REPLACED if key in found}


def _measured(table: pd.DataFrame, cell: dict) -> pd.DataFrame:
    """size, round and value of a cell of this study; of the first workload and stack that has it, if it names none."""
    own = table[(table[list(cell)] == list(cell.values())).all(axis=1)]
    for key in ("workload", "stack"):
        own = own[own[key] == own[key].iloc[0]] if len(own) else own
    return own[["size", "round", "value"]]


def _waits(study: Study, table: pd.DataFrame, value: dict | None) -> float:
    """The share of a time in which the command was not on the processor; NaN where it is not one of a phase."""
    if value is None or value.get("quantity", "time") != "time":
        return math.nan
    cell = _cell(value, study.plan["study"].get("stands_in", {}))
    time, *busy = (_measured(table, cell | {"quantity": part}) for part in ("time", "user", "system"))
    if not sum(map(len, busy)):
        return math.nan
    last = time["size"].max()
    busy_s, time_s = (sum(part.loc[part["size"] == last, "value"].sum() for part in parts) for parts in (busy, [time]))
    return 1 - float(busy_s / time_s)


# ---- verdicts that are expected --------------------------------------------------------------------------------------


def changes(study: Study) -> list[str]:
    """What differs from the verdicts that a study expects at its own scale, one sentence each; none if nothing does.

    A claim that is not expected is one that is not decidable here. Raises UserError where there is nothing to hold.
    """
    about = study.plan["study"]
    file = f"config/studies/{about['name'].partition('@')[0]}.yaml"
    known = [claim["id"] for claim in study.plan.get("published", {}).get("claims", [])]
    if not known:
        return []
    if "@" in about["name"]:
        raise UserError(f"The verdicts that {file} expects are those of its own scale: leave @ and the scale out.")
    if "expected" not in about:
        raise UserError(f"{file} has no key expected: put there what `reprofs claims {about['name']}` prints.")
    expected = {name: verdict for verdict, names in about.get("expected", {}).items() for name in names}
    for name in expected:
        if name not in known:
            raise UserError(f"{file}: expected: {unknown('claim', name, known)}")
    found = []
    for ground in grounds(study):
        for row in claims(study, ground).itertuples():
            wanted = expected.get(row.id, NOT_HERE)
            if row.verdict != wanted:
                found.append(f"{row.id} ({ground}) is {row.verdict}, but {file} expects {wanted}: {row.claim['says']}.")
    return found
