"""A study beside published numbers: orders of the configurations, ratios of times, claims, extrapolated power laws.

Published numbers are medians in seconds (data/published/NAME.csv) of another machine, so that only orders and ratios
are compared. Of this study the rounds are known, of the published runs mostly the median alone: intervals are over the
rounds and take the published number as fixed.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import scipy  # scipy.stats takes seconds to import, so scipy imports it on first use

from reprofs import project
from reprofs.data.keys import Place, distinct, select
from reprofs.errors import UserError
from reprofs.stats import compare, series
from reprofs.stats.cells import LEVEL, measured
from reprofs.stats.study import Study


class Configuration(NamedTuple):
    """A file system with its variant on a stack."""

    stack: str
    label: str


class Step(NamedTuple):
    """An operation of the workload of a place."""

    phase: str
    cache: str


class Orders(NamedTuple):
    """How alike the published order of the configurations and that of this study are; see `orders`."""

    operations: pd.DataFrame
    configurations: list[str]  # names of those that have every operation
    left_out: list[str]
    rho: float  # mean over operations
    p: float  # share of the relabellings with a mean at least as high
    relabellings: int

    @property
    def exact(self) -> bool:
        """Whether all relabellings were counted rather than a random sample."""
        return len(self.configurations) <= FEW

    @property
    def smallest_p(self) -> float:
        """The smallest p that this number of configurations can give."""
        return 1 / self.relabellings if self.relabellings else math.nan


FOLDER = "data/published"
CELL = [*Configuration._fields, *Step._fields]
KEY = ["size", *CELL]
NUMBERS = ["n", "median_s", "q1_s", "q3_s", "min_s", "max_s"]
DIFFERENT = 1.1  # published medians nearer than this are not taken as an order: their own runs vary by as much
FEW = 8  # configurations: up to here every relabelling is counted, 40,320 of them
DRAWN = 40_000  # relabellings of more configurations
ALPHA = 1 - LEVEL


# ---- what is compared ------------------------------------------------------------------------------------------------


def load(name: str) -> pd.DataFrame:
    """The published numbers of that name: columns KEY, NUMBERS (seconds), note. Raises UserError naming the line."""
    path = project.place(FOLDER) / f"{name}.csv"
    try:
        frame = pd.read_csv(path, dtype={key: str for key in [*CELL, "note"]}).fillna({"note": ""})
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read as a table: {error}.") from None
    wanted = [*KEY, *NUMBERS, "note"]
    if list(frame.columns) != wanted:
        raise UserError(f"{path}: the columns are {', '.join(frame.columns)}, but must be {', '.join(wanted)}.")
    for column in ("size", *NUMBERS):
        values = pd.to_numeric(frame[column], errors="coerce")
        empty = frame[column].isna() & (column not in ("size", "n", "median_s"))
        wrong = frame.index[~(empty | (values > 0))]
        if len(wrong):
            raise UserError(
                f"{path} line {wrong[0] + 2}: {column} is {frame[column][wrong[0]]}, but must be a number above zero."
            )
        frame[column] = values
    twice = frame.index[frame.duplicated(KEY)]
    if len(twice):
        raise UserError(f"{path} line {twice[0] + 2}: an earlier line has this operation of this configuration.")
    return frame


def measurements(study: Study) -> pd.DataFrame:
    """Completed phases of contenders, with the column `size`; `workload` is its name without the size."""
    phases = measured(study.phases)
    phases = phases[phases["role"] != "ceiling"]
    key = study.plan["published"]["size"]
    known = {name: entry["scale"].get(key) for name, entry in study.plan["workloads"].items()}
    chosen = phases[phases["workload"].map(known).notna()]
    size, base = chosen["workload"].map(known).astype("Int64"), chosen["workload"].map(_without_size)
    return chosen.assign(size=size, workload=base)


def places(study: Study) -> list[Place]:
    """Every place with operations that have published numbers; its workload is named without the size."""
    if "published" not in study.plan:
        return []
    known = _published(study)[CELL].drop_duplicates()
    return distinct(measurements(study).merge(known), Place)


def sizes(study: Study, place: Place) -> list[int]:
    """The sizes that were measured in a place, ascending."""
    return sorted(int(size) for size in set(select(measurements(study), place)["size"]))


def extrapolated(study: Study, place: Place) -> bool:
    """Whether a place has several sizes, so that its power laws can be extrapolated to the published size."""
    return len(sizes(study, place)) > 1


def title(study: Study, place: Place, step: Step) -> str:
    """The study's own title of an operation of a place."""
    name = next(name for name in study.plan["workloads"] if _without_size(name) == place.workload)
    return study.title(name, step.phase, step.cache)


# ---- one size: orders and ratios -------------------------------------------------------------------------------------


def beside(study: Study, place: Place) -> pd.DataFrame:
    """One row per configuration and operation with a published number, at the largest size of this study.

    Columns: name (of the configuration), stack, label, phase, cache, position; of this study n, median_ns, min_ns,
    max_ns; published_size (the nearest), published_n, published_ns (median), published_low_ns, published_high_ns
    (quartiles, NaN if unknown); ratio, low, high, kind of this study over the published median (see `compare.ratio`).
    """
    size = sizes(study, place)[-1]
    published = _published(study)
    published = published[published["size"] == nearest(published["size"], size)]
    known = {tuple(number[key] for key in CELL): number for number in published.to_dict("records")}
    rows = []
    for key, cell in select(measurements(study), place, size=size).groupby(CELL, sort=False):
        if key not in known:
            continue
        number, x = known[key], cell["wall_ns"].to_numpy(float)
        rows.append(
            {
                **dict(zip(CELL, key, strict=True)),
                "position": int(cell["position"].min()),
                "n": len(x),
                "median_ns": float(np.median(x)),
                "min_ns": x.min(),
                "max_ns": x.max(),
                "published_size": int(number["size"]),
                "published_n": int(number["n"]),
                "published_ns": number["median_s"] * 1e9,
                "published_low_ns": number["q1_s"] * 1e9,
                "published_high_ns": number["q3_s"] * 1e9,
                **compare.ratio(x, np.full(len(x), number["median_s"] * 1e9)),
            }
        )
    columns = [*CELL, "position", "n", "median_ns", "min_ns", "max_ns", "published_size", "published_n"]
    columns += ["published_ns", "published_low_ns", "published_high_ns", "ratio", "low", "high", "kind"]
    frame = pd.DataFrame(rows, columns=columns).sort_values(["position", *Configuration._fields], ignore_index=True)
    return frame.assign(name=_names(frame))


def orders(study: Study, place: Place) -> Orders:
    """How alike both orders of the configurations are; without two configurations there are no operations.

    Only configurations that have every operation take part. Columns of operations: phase, cache, position, rho
    (Spearman's), p (one-sided: the share of all relabellings of the configurations that agree as well), p_joint (the
    same for the best operation of every relabelling, so that it holds for all operations together and knows that they
    are related), pairs (those whose published medians differ by 10 % or more), same and reversed (of these, the
    interval of this study's ratio, joint over the pairs of the operation, excludes 1), turned (the reversed ones as
    pairs of names, the faster of this study first), ratio, low, high, kind (this study over published, geometric mean
    over configurations with its interval over them), least and most (ratio), least_name, most_name, verdict (`same
    order`, `another order`, `undecided`).
    """
    cells = beside(study, place)
    steps = list(dict.fromkeys(Step(*key) for key in cells[["phase", "cache"]].itertuples(index=False, name=None)))
    wide = {
        column: cells.pivot(index=list(Step._fields), columns="name", values=column).reindex(steps)
        for column in ("median_ns", "published_ns", "ratio")
    }
    complete = list(wide["median_ns"].columns[wide["median_ns"].notna().all()])
    left_out = sorted(set(cells["name"]) - set(complete))
    if len(complete) < 2:
        return Orders(pd.DataFrame(), complete, left_out, math.nan, math.nan, 0)
    times, published = wide["median_ns"][complete].to_numpy(), wide["published_ns"][complete].to_numpy()
    rho, null = relabelled(published, times)
    rounds, rows = _rounds(study, place, cells), []
    for number, step in enumerate(steps):
        pairs = _pairs(rounds[step], wide["published_ns"][complete].iloc[number])
        factors = wide["ratio"][complete].iloc[number]
        p_joint = share(null.max(axis=1), rho[number])
        if rho[number] > 0 and p_joint < ALPHA:
            verdict = "same order"
        else:
            verdict = "another order" if pairs["reversed"] > pairs["same"] else "undecided"
        rows.append(
            {
                **step._asdict(),
                "position": int(select(cells, step)["position"].min()),
                "rho": rho[number],
                "p": share(null[:, number], rho[number]),
                "p_joint": p_joint,
                **pairs,
                **compare.ratio(times[number], published[number]),
                "least": factors.min(),
                "most": factors.max(),
                "least_name": factors.idxmin(),
                "most_name": factors.idxmax(),
                "verdict": verdict,
            }
        )
    mean = float(rho.mean())
    return Orders(pd.DataFrame(rows), complete, left_out, mean, share(null.mean(axis=1), mean), len(null))


def relabelled(x: npt.ArrayLike, y: npt.ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Spearman's rho of x and y of shape (operations, n), shape (operations,), and the same for relabelled y.

    A relabelling exchanges the configurations in all operations alike; the second result, of shape (relabellings,
    operations), holds all n! of them, or with more than eight configurations the identity and 40,000 seeded ones.
    Values that are all equal have no order: rho is 0.
    """
    first, second = (scipy.stats.rankdata(np.asarray(values, dtype=float), axis=1) for values in (x, y))
    scaled = []
    for ranks in (first, second):
        centred = ranks - ranks.mean(axis=1, keepdims=True)
        norm = np.sqrt((centred**2).sum(axis=1, keepdims=True))
        scaled.append(np.divide(centred, norm, out=np.zeros_like(centred), where=norm > 0))
    n = first.shape[1]
    if n <= FEW:
        order = np.array(list(itertools.permutations(range(n))))
    else:
        rng = np.random.default_rng(compare.BOOTSTRAP_SEED)
        order = np.vstack([np.arange(n), rng.permuted(np.tile(np.arange(n), (DRAWN, 1)), axis=1)])
    return (scaled[0] * scaled[1]).sum(axis=1), np.einsum("ok,opk->po", scaled[0], scaled[1][:, order])


def share(null: np.ndarray, value: float) -> float:
    """Share of relabellings (null, shape (relabellings,)) with a statistic at least as large, up to rounding."""
    return float((null >= value - 1e-9).mean())


def _pairs(rounds: pd.DataFrame, published: pd.Series) -> dict[str, Any]:
    """Pairs of configurations of one operation with an order in the published times: the same or reversed.

    `rounds` are the times of this study, rounds by names of configurations; `published` the published ones by name.
    """
    slowest = published.sort_values(ascending=False, kind="stable").index
    pairs = [(a, b) for a, b in itertools.combinations(slowest, 2) if published[a] >= DIFFERENT * published[b]]
    same, turned = 0, []
    for slow, fast in pairs:
        both = rounds[[slow, fast]].dropna()
        low, high = compare.joint_interval(both[slow], both[fast], len(pairs))
        same += low > 1
        if high < 1:
            turned.append((slow, fast))
    return {"pairs": len(pairs), "same": same, "reversed": len(turned), "turned": turned}


# ---- claims ----------------------------------------------------------------------------------------------------------


def claims(study: Study, place: Place) -> pd.DataFrame:
    """The published claims that the study can test, one per row, each about a slower and a faster configuration.

    Columns: says; published and ratio (slower over faster, published and in this study at its largest size, paired by
    round); low, high (interval of ratio, joint over all claims tested); verdict (`same direction`, `opposite
    direction`, `undecided`); published_size; slow_waits, fast_waits (shares of this study's time in which the command
    was not on the processor); expected, expected_low, expected_high (ratio extrapolated to the published size as a
    power law with its 95 % prediction interval, NaN with one size).
    """
    size, times, published = sizes(study, place)[-1], select(measurements(study), place), _published(study)
    found = []
    for claim in study.plan["published"].get("claims", []):
        step = Step(claim["phase"], claim["cache"])
        sides = [Configuration(*claim[side].split("/")) for side in ("slower", "faster")]
        cells = [select(times, side, step) for side in sides]
        walls = [cell.set_index(["size", "round"])["wall_ns"] for cell in cells]
        rounds = pd.concat(walls, axis=1, join="inner", keys=["slow", "fast"]).astype(float).reset_index()
        medians = [select(published, side, step).set_index("size")["median_s"] for side in sides]
        common = set(medians[0].index) & set(medians[1].index)
        if (rounds["size"] == size).any() and common:
            at = nearest(common, size)
            waits = [_waiting(select(cell, size=size)) for cell in cells]
            row = {"says": claim["says"], "published": medians[0][at] / medians[1][at], "published_size": int(at)}
            found.append((row | {"slow_waits": waits[0], "fast_waits": waits[1]}, rounds))
    rows = []
    for row, rounds in found:
        last = rounds[rounds["size"] == size]
        low, high = compare.joint_interval(last["slow"], last["fast"], len(found))
        verdict = "same direction" if low > 1 else "opposite direction" if high < 1 else "undecided"
        row |= {"ratio": compare.ratio(last["slow"], last["fast"])["ratio"], "low": low, "high": high}
        row |= {"verdict": verdict, "expected": math.nan, "expected_low": math.nan, "expected_high": math.nan}
        if rounds["size"].nunique() > 1:
            ahead = series.extrapolate(rounds["size"], rounds["slow"] / rounds["fast"], [row["published_size"]]).iloc[0]
            row |= {"expected": ahead["time"], "expected_low": ahead["low"], "expected_high": ahead["high"]}
        rows.append(row)
    return pd.DataFrame(rows)


def _waiting(cell: pd.DataFrame) -> float:
    return 1 - float((cell["user_ns"] + cell["system_ns"]).sum() / cell["wall_ns"].sum())


# ---- several sizes: power laws ---------------------------------------------------------------------------------------


def laws(study: Study, place: Place) -> pd.DataFrame:
    """One row per published number whose operation was measured at several sizes: its power law, extrapolated.

    Columns: stack, label, phase, cache, position, n (measurements), least, most (sizes measured), exponent, low, high
    (95 %), last (exponent between the medians of the two largest sizes), curvature_p (of a quadratic term in the
    logarithms), published_size, published_ns, published_n, expected_ns, expected_low_ns, expected_high_ns (95 %
    prediction interval: where a further measurement falls if the law goes on), by_last_ns (expected by the exponent of
    the last step), factor (published over expected), inside, decades (orders of magnitude between the largest size
    measured and the published one).
    """
    times, rows = select(measurements(study), place), []
    for number in _published(study).to_dict("records"):
        cell = {key: number[key] for key in CELL}
        own = select(times, **cell)
        if own["size"].nunique() < 2:
            continue
        size, time = own["size"].to_numpy(float), own["wall_ns"].to_numpy(float)
        fit = series.scaling_fit(size, time)
        ahead = series.extrapolate(size, time, [number["size"]]).iloc[0]
        medians = own.groupby("size")["wall_ns"].median().iloc[-2:].astype(float)
        last = float(np.diff(np.log(medians))[0] / np.diff(np.log(medians.index.astype(float)))[0])
        published_ns = number["median_s"] * 1e9
        rows.append(
            {
                **cell,
                "position": int(own["position"].min()),
                "n": len(own),
                "least": int(size.min()),
                "most": int(size.max()),
                **{key: fit[key] for key in ("exponent", "low", "high")},
                "last": last,
                "curvature_p": _curvature_p(size, time),
                "published_size": int(number["size"]),
                "published_ns": published_ns,
                "published_n": int(number["n"]),
                "expected_ns": ahead["time"],
                "expected_low_ns": ahead["low"],
                "expected_high_ns": ahead["high"],
                "by_last_ns": float(medians.iloc[-1] * (number["size"] / size.max()) ** last),
                "factor": published_ns / ahead["time"],
                "inside": bool(ahead["low"] <= published_ns <= ahead["high"]),
                "decades": math.log10(number["size"] / size.max()),
            }
        )
    frame = pd.DataFrame(rows)
    return frame.sort_values(["position", "published_size", "label"], ignore_index=True) if len(frame) else frame


def _curvature_p(size: np.ndarray, time: np.ndarray) -> float:
    """p of a quadratic term in the logarithms; NaN for two sizes, or without a degree of freedom to judge it by."""
    from statsmodels.api import OLS  # a second to import, and only laws need it

    x = np.log(size)
    if len(np.unique(x)) < 3 or len(x) < 4:
        return math.nan
    x = x - x.mean()
    return float(OLS(np.log(time), np.column_stack([np.ones(len(x)), x, x**2])).fit().pvalues[2])


# ---- parts -----------------------------------------------------------------------------------------------------------


def _published(study: Study) -> pd.DataFrame:
    return load(study.plan["study"]["published"])


def _rounds(study: Study, place: Place, cells: pd.DataFrame) -> dict[tuple, pd.DataFrame]:
    """Times (ns) behind the rows of `beside`, by operation: rounds by names of configurations."""
    own = select(measurements(study), place, size=sizes(study, place)[-1]).merge(cells[[*CELL, "name"]])
    return {
        step: cell.pivot(index="round", columns="name", values="wall_ns").astype(float)
        for step, cell in own.groupby(list(Step._fields))
    }


def _names(cells: pd.DataFrame) -> pd.Series:
    """Labels; with the stack where a label is on several."""
    several = cells.groupby("label")["stack"].nunique()
    names = [
        f"{label} on {stack}" if several[label] > 1 else label
        for stack, label in zip(cells["stack"], cells["label"], strict=True)
    ]
    return pd.Series(names, index=cells.index, dtype=object)


def nearest(known: Iterable[int], size: int) -> int:
    """The known size that is nearest to a size, by their ratio."""
    return min(set(known), key=lambda other: (abs(math.log(other / size)), other))


def _without_size(workload: str) -> str:
    """The name of a workload without its size: many-inodes@2000 is many-inodes."""
    return re.sub(r"@x?\d+", "", workload)
