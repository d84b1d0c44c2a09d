"""A study beside published numbers: orders of the configurations, ratios of times, claims, extrapolated power laws.

Published numbers are medians in seconds (data/published/NAME.csv) of another machine, so that orders and ratios are
compared; where a study has several sizes, hours as scenarios of growth. Of this study the rounds are known, of the
published runs mostly the median alone. Where their quartiles are known, they count as its uncertainty; elsewhere the
published number is taken as fixed.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

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
    exact: bool  # whether these are all rather than a random sample

    @property
    def smallest_p(self) -> float:
        """The smallest p that these configurations on their stacks can give."""
        return 1 / self.relabellings if self.relabellings else math.nan


FOLDER = "data/published"
CELL = [*Configuration._fields, *Step._fields]
KEY = ["size", *CELL]
NUMBERS = ["n", "median_s", "q1_s", "q3_s", "min_s", "max_s"]
DIFFERENT = 1.1  # medians without quartiles that are nearer than this are not taken as an order
FEW = 40_320  # relabellings: up to here every one is counted
DRAWN = 40_000  # of more
SEED = 20260101
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
    (quartiles, NaN if unknown), published_error (standard error of the logarithm of the median, from the quartiles);
    ratio, low, high of this study over the published median, over the rounds and, where it is known, that error.
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
                **_over_published(x / 1e9, number),
            }
        )
    columns = [*CELL, "position", "n", "median_ns", "min_ns", "max_ns", "published_size", "published_n"]
    columns += ["published_ns", "published_low_ns", "published_high_ns", "published_error", "ratio", "low", "high"]
    frame = pd.DataFrame(rows, columns=columns).sort_values(["position", *Configuration._fields], ignore_index=True)
    return frame.assign(name=_names(frame))


def _error(number: dict) -> float:
    """Standard error of the logarithm of a published median, from its quartiles, as of lognormal times; or NaN."""
    spread = math.log(number["q3_s"] / number["q1_s"]) / (2 * scipy.stats.norm.ppf(0.75))
    return spread * math.sqrt(math.pi / 2 / number["n"]) if number["n"] > 1 else math.nan


def _over_published(seconds: np.ndarray, number: dict) -> dict[str, float]:
    """published_error, and ratio, low, high of these rounds over a published median (Welch's interval)."""
    error = _error(number)
    found = compare.ratio(seconds, np.full(len(seconds), number["median_s"]))
    if len(seconds) > 1 and not math.isnan(error):
        own = np.log(seconds).var(ddof=1) / len(seconds)
        both = own + error**2
        free = both**2 / (own**2 / (len(seconds) - 1) + error**4 / (number["n"] - 1)) if both else 1.0
        half = scipy.stats.t.ppf((1 + LEVEL) / 2, free) * math.sqrt(both)
        found |= {"low": found["ratio"] * math.exp(-half), "high": found["ratio"] * math.exp(half)}
    return {"published_error": error} | found


def orders(study: Study, place: Place) -> Orders:
    """How alike both orders of the configurations are; without two configurations there are no operations.

    Only configurations that have every operation take part. Columns of operations: phase, cache, position, rho
    (Spearman's), p (one-sided: the share of the relabellings of the configurations within their stacks that agree as
    well), pairs (those with a published order, see `_pairs`), same and reversed (those whose order is shown to be that
    one, or the opposite: paired t tests, by Holm over all pairs of all operations below 5 %), turned (the reversed ones
    as pairs of names, the faster of this study first), ratio, low, high (this study over published, geometric mean over
    configurations with its interval over them), least and most (ratio), least_name, most_name, and the verdict. For
    either order more than half of the pairs must be decided: `same order` if all of these are as published, `another
    order` if one is not. Otherwise `undecided`.
    """
    cells = beside(study, place)
    steps = list(dict.fromkeys(Step(*key) for key in cells[["phase", "cache"]].itertuples(index=False, name=None)))
    wide = {
        column: cells.pivot(index=list(Step._fields), columns="name", values=column).reindex(steps)
        for column in ("median_ns", "published_ns", "published_error", "ratio")
    }
    complete = list(wide["median_ns"].columns[wide["median_ns"].notna().all()])
    left_out = sorted(set(cells["name"]) - set(complete))
    if len(complete) < 2:
        return Orders(pd.DataFrame(), complete, left_out, math.nan, math.nan, 0, True)
    times, published = wide["median_ns"][complete].to_numpy(), wide["published_ns"][complete].to_numpy()
    stacks = cells.drop_duplicates("name").set_index("name")["stack"][complete]
    rho, null, exact = relabelled(published, times, list(stacks))
    pairs = _pairs(_rounds(study, place, cells), {key: wide[key][complete] for key in wide})
    rows: list[dict] = []
    for number, step in enumerate(steps):
        factors, own = wide["ratio"][complete].iloc[number], pairs[pairs["step"] == number]
        same, reversed_ = (own["shown"] == 1).sum(), (own["shown"] == -1).sum()
        decided = 2 * (same + reversed_) > len(own)
        rows.append(
            {
                **step._asdict(),
                "position": int(select(cells, step)["position"].min()),
                "rho": rho[number],
                "p": share(null[:, number], rho[number]),
                "pairs": len(own),
                "same": int(same),
                "reversed": int(reversed_),
                "turned": [(row.slow, row.fast) for row in own.itertuples() if row.shown == -1],
                **compare.ratio(times[number], published[number]),
                "least": factors.min(),
                "most": factors.max(),
                "least_name": factors.idxmin(),
                "most_name": factors.idxmax(),
                "verdict": "undecided" if not decided else "another order" if reversed_ else "same order",
            }
        )
    mean = float(rho.mean())
    return Orders(pd.DataFrame(rows), complete, left_out, mean, share(null.mean(axis=1), mean), len(null), exact)


def relabelled(
    x: npt.ArrayLike, y: npt.ArrayLike, groups: Sequence[str] | None = None
) -> tuple[np.ndarray, np.ndarray, bool]:
    """Spearman's rho of x and y of shape (operations, n), shape (operations,), and the same for relabelled y.

    A relabelling exchanges the configurations in all operations alike, and only those of one group (n names, such as
    stacks; default: all are one group), because others could not be exchanged even if file systems made no difference.
    The second result, of shape (relabellings, operations), holds all of them, or, where these are more than 40,320, the
    identity and 40,000 seeded ones; the third tells whether all. Values that are all equal have no order: rho is 0.
    """
    first, second = (scipy.stats.rankdata(np.asarray(values, dtype=float), axis=1) for values in (x, y))
    scaled = []
    for ranks in (first, second):
        centred = ranks - ranks.mean(axis=1, keepdims=True)
        norm = np.sqrt((centred**2).sum(axis=1, keepdims=True))
        scaled.append(np.divide(centred, norm, out=np.zeros_like(centred), where=norm > 0))
    n = first.shape[1]
    names = np.asarray(groups if groups is not None else [""] * n)
    places = [np.flatnonzero(names == name) for name in dict.fromkeys(names)]
    exact = math.prod(math.factorial(len(place)) for place in places) <= FEW
    if exact:
        every = list(itertools.product(*(itertools.permutations(place) for place in places)))
        order = np.empty((len(every), n), dtype=int)
        order[:, np.concatenate(places)] = [list(itertools.chain(*parts)) for parts in every]
    else:
        rng = np.random.default_rng(SEED)
        order = np.tile(np.arange(n), (DRAWN + 1, 1))
        for place in places:
            order[1:, place] = rng.permuted(np.tile(place, (DRAWN, 1)), axis=1)
    return (scaled[0] * scaled[1]).sum(axis=1), np.einsum("ok,opk->po", scaled[0], scaled[1][:, order]), exact


def share(null: np.ndarray, value: float) -> float:
    """Share of relabellings (null, shape (relabellings,)) with a statistic at least as large, up to rounding."""
    return float((null >= value - 1e-9).mean())


def _pairs(rounds: dict[tuple, pd.DataFrame], wide: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """The pairs of configurations with a published order: step (its number), slow, fast (as published), shown.

    A pair has an order where the medians differ by more than their standard errors explain at 5 %, or, where either
    error is not known, by 10 %. shown is 1 where this study has the same order, -1 where it has the opposite one, by
    Holm over all pairs of all operations; else 0. `rounds` are the times of this study by operation, rounds by names;
    `wide` published_ns and published_error, operations by names.
    """
    rows, logs = [], []
    for number, step in enumerate(wide["published_ns"].index):
        published, error = (wide[key].iloc[number] for key in ("published_ns", "published_error"))
        slowest = published.sort_values(ascending=False, kind="stable").index
        for slow, fast in itertools.combinations(slowest, 2):
            apart, both = math.log(published[slow] / published[fast]), math.hypot(error[slow], error[fast])
            enough = math.log(DIFFERENT) if math.isnan(both) else scipy.stats.norm.ppf((1 + LEVEL) / 2) * both
            if apart >= enough and apart > 0:
                rows.append({"step": number, "slow": slow, "fast": fast})
                logs.append(np.log(rounds[step][slow] / rounds[step][fast]))
    frame = pd.DataFrame(rows, columns=["step", "slow", "fast"])
    if frame.empty:
        return frame.assign(shown=0)
    found = compare.paired(pd.concat(logs, axis=1, keys=range(len(logs))).to_numpy(float))
    proved = compare.holm(found["p"]) < ALPHA
    return frame.assign(shown=np.where(proved, np.sign(np.log(found["ratio"])), 0).astype(int))


# ---- claims ----------------------------------------------------------------------------------------------------------


def claims(study: Study, place: Place) -> pd.DataFrame:
    """The published claims that the study can test, one per row, each about a slower and a faster configuration.

    Columns: says; published and ratio (slower over faster, published and in this study at its largest size, paired by
    round); low, high (interval of ratio, joint over all claims tested); verdict (`same direction`, `opposite
    direction`, `undecided`); published_size; slow_waits, fast_waits (shares of this study's time in which the command
    was not on the processor); expected, expected_low, expected_high (ratio at the published size if its power law goes
    on, NaN with one size; with a 95 % prediction interval up to half a decade), by_last (with the exponent of the last
    step).
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
        row |= compare.ratio(last["slow"], last["fast"], compare.joint(len(found)))
        verdict = "same direction" if row["low"] > 1 else "opposite direction" if row["high"] < 1 else "undecided"
        row |= {"verdict": verdict} | dict.fromkeys(("expected", "expected_low", "expected_high", "by_last"), math.nan)
        if rounds["size"].nunique() > 1:
            ratios = rounds["slow"] / rounds["fast"]
            ahead = series.extrapolate(rounds["size"], ratios, [row["published_size"]]).iloc[0]
            row |= {"expected": ahead["time"], "expected_low": ahead["low"], "expected_high": ahead["high"]}
            row["by_last"] = by_last(rounds["size"], ratios, row["published_size"])
        rows.append(row)
    return pd.DataFrame(rows)


def _waiting(cell: pd.DataFrame) -> float:
    return 1 - float((cell["user_ns"] + cell["system_ns"]).sum() / cell["wall_ns"].sum())


# ---- several sizes: power laws ---------------------------------------------------------------------------------------


def laws(study: Study, place: Place) -> pd.DataFrame:
    """One row per published number whose operation was measured at several sizes: its power law, extrapolated.

    Columns: stack, label, phase, cache, position, n (sizes), least, most (sizes measured), exponent, low, high (95 %),
    last (exponent of the last step), fit_p (lack of fit) as of `series.scaling_fit`; published_size, published_ns,
    published_n, published_low_ns, published_high_ns (quartiles or else the range of the runs, NaN if unknown); and what
    is expected at that size: expected_ns by the law, by_last_ns by a law with a knee, which goes on with the exponent
    of the last step; factor, factor_last (published over either); decades (orders of magnitude between the largest size
    measured and the published one). Within half a decade also expected_low_ns, expected_high_ns (95 % prediction
    interval) and inside (whether the published time is there); farther these are NaN and None.
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
        knee, published_ns = by_last(size, time, number["size"]), number["median_s"] * 1e9
        quartiles = [number["q1_s"], number["q3_s"]]
        around = quartiles if not np.isnan(quartiles).any() else [number["min_s"], number["max_s"]]
        near = not math.isnan(ahead["low"])
        rows.append(
            {
                **cell,
                "position": int(own["position"].min()),
                "least": int(size.min()),
                "most": int(size.max()),
                **{key: fit[key] for key in ("n", "exponent", "low", "high", "last", "fit_p")},
                "published_size": int(number["size"]),
                "published_ns": published_ns,
                "published_n": int(number["n"]),
                "published_low_ns": around[0] * 1e9,
                "published_high_ns": around[1] * 1e9,
                "expected_ns": ahead["time"],
                "expected_low_ns": ahead["low"],
                "expected_high_ns": ahead["high"],
                "by_last_ns": knee,
                "factor": published_ns / ahead["time"],
                "factor_last": published_ns / knee,
                "inside": bool(ahead["low"] <= published_ns <= ahead["high"]) if near else None,
                "decades": math.log10(number["size"] / size.max()),
            }
        )
    frame = pd.DataFrame(rows)
    if frame.empty:
        return frame
    frame["inside"] = frame["inside"].astype(object)
    return frame.sort_values(["position", "published_size", "label"], ignore_index=True)


def by_last(size: npt.ArrayLike, time: npt.ArrayLike, at: float) -> float:
    """What is expected at a size by the exponent of the last step, from the geometric mean at the largest size."""
    size, time = np.asarray(size, float), np.asarray(time, float)
    last = math.exp(np.log(time[size == size.max()]).mean())
    return last * (at / size.max()) ** series.scaling_fit(size, time)["last"]


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
