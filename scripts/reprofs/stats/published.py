"""A study beside published numbers: orders of the configurations, ratios of times, extrapolated power laws.

Published numbers (data/published/NAME.csv) are of another machine, so that orders and ratios are
compared; where a study has several sizes, hours as scenarios of growth. Of this study the rounds are known, of the
published runs mostly the median alone. Where their quartiles are known, they count as its uncertainty; elsewhere the
published number is taken as fixed.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
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
REPLACED = ["stack", "label"]  # what something of the study may stand in for
COLUMNS = {  # column of a file: whether it may be empty
    "place": False,
    "workload": True,
    "size": True,
    "stack": True,
    "label": False,
    "phase": False,
    "cache": False,
    "quantity": False,
    "unit": False,
    "n": True,
    "statistic": False,
    "value": False,
    **dict.fromkeys(("sd", "q1", "q3", "min", "max"), True),
    "origin": False,
    "note": True,
}
NUMBERS = ["value", "sd", "q1", "q3", "min", "max"]
SECONDS, NUMBER = {"s": 1.0, "min": 60.0, "h": 3600.0}, {"1": 1.0}
UNITS: dict[str, dict[str, float]] = {  # quantity: its units, and what one is in s, bytes or 1/s
    "time": SECONDS,
    "user": SECONDS,
    "system": SECONDS,
    "rate": {"MB/s": 1e6},
    "rate-min": {"MB/s": 1e6},
    "operations": {"1/s": 1.0},
    "size": {"TB": 1e12, "PB": 1e15, "TiB": 2.0**40, "EiB": 2.0**60},
    "share": NUMBER,
    "count": NUMBER,
    "rank": NUMBER,
}
STATISTICS = ("median", "mean", "single", "middle")
ORIGINS = ("printed", "computed", "recovered", "corrected", "repeated")
NOT_NEW = ("recovered", "repeated")  # what other rows say already
DIFFERENT = 1.1  # medians without quartiles that are nearer than this are not taken as an order
FEW = 40_320  # relabellings: up to here every one is counted
DRAWN = 40_000  # of more
SEED = 20260101
ALPHA = 1 - LEVEL


# ---- what is compared ------------------------------------------------------------------------------------------------


def load(name: str) -> pd.DataFrame:
    """The published numbers of that name: COLUMNS, and si, sd_si (value and sd in s, bytes or 1/s).

    Empty where relations alone were published. Raises UserError naming the line.
    """
    path = project.place(FOLDER) / f"{name}.csv"
    if not path.exists() and path.with_suffix(".yaml").exists():  # what has relations alone
        return pd.DataFrame(columns=[*COLUMNS, "si", "sd_si"])
    try:
        frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read as a table: {error}.") from None
    if list(frame.columns) != list(COLUMNS):
        raise UserError(f"{path}: the columns are {', '.join(frame.columns)}, but must be {', '.join(COLUMNS)}.")
    for column, may_be_empty in COLUMNS.items():
        if not may_be_empty:
            _refuse(path, frame, column, frame[column] == "", "a value")
    for column in ("size", "n", *NUMBERS):
        values, empty = pd.to_numeric(frame[column], errors="coerce"), frame[column] == ""
        # A rank is 0 for the best; nothing else that is published here can be nothing.
        wrong = ~(empty | (values > 0) | ((values == 0) & (frame["quantity"] == "rank") & (column == "value")))
        _refuse(path, frame, column, wrong | (values == math.inf), "a number above zero")
        frame[column] = values
    for column, words in (("quantity", tuple(UNITS)), ("statistic", STATISTICS), ("origin", ORIGINS)):
        _refuse(path, frame, column, ~frame[column].isin(words), f"one of {', '.join(words)}")
    units = zip(frame["quantity"], frame["unit"], strict=True)
    scale = pd.Series([UNITS[quantity].get(unit, math.nan) for quantity, unit in units], frame.index, dtype=float)
    if scale.isna().any():
        known = UNITS[frame["quantity"][scale.isna()].iloc[0]]
        _refuse(path, frame, "unit", scale.isna(), f"one of {', '.join(known)} for this quantity")
    twice = frame.index[frame.duplicated(["place", *KEY, "quantity", "statistic", "origin", "value"])]
    if len(twice):
        raise UserError(f"{path} line {twice[0] + 2}: an earlier line has this number of this cell.")
    return frame.assign(si=frame["value"] * scale, sd_si=frame["sd"] * scale)


def _refuse(path: Path, frame: pd.DataFrame, column: str, wrong: pd.Series, must: str) -> None:
    if wrong.any():
        line = frame.index[wrong][0]
        raise UserError(f"{path} line {line + 2}: {column} is {frame[column][line] or 'empty'}, but must be {must}.")


def times(numbers: pd.DataFrame) -> pd.DataFrame:
    """The elapsed times among published numbers, one row per cell: KEY, n, median_s, q1_s, q3_s, min_s, max_s, note.

    Several printed runs of one cell are one row, with their median, least and largest. Rows that only repeat a number,
    rows over all phases and those without a size are left out.
    """
    own = numbers[(numbers["quantity"] == "time") & ~numbers["origin"].isin(NOT_NEW) & numbers["size"].notna()]
    own = own[own["cache"].isin(("cold", "warm"))]
    unit = own["si"] / own["value"]
    own = own.assign(size=own["size"].astype(int), **{part: own[part] * unit for part in ("q1", "q3", "min", "max")})
    cells = own.groupby(KEY, sort=False)
    found = cells.agg(
        n=("n", "sum"), median_s=("si", "median"), least=("si", "min"), most=("si", "max"),
        **{f"{part}_s": (part, "first") for part in ("q1", "q3", "min", "max")}, note=("note", "first"),
    )  # fmt: skip
    several = cells.size() > 1
    found[["q1_s", "q3_s"]] = found[["q1_s", "q3_s"]].mask(several)
    for column, end in (("min_s", "least"), ("max_s", "most")):
        found[column] = found[column].mask(several, found[end])
    found["n"] = found["n"].astype(int)
    return found.drop(columns=["least", "most"]).reset_index()


def measurements(study: Study) -> pd.DataFrame:
    """Completed phases of contenders, `sized`."""
    phases = measured(study.phases)
    return sized(phases[phases["role"] != "ceiling"], study)


def sized(frame: pd.DataFrame, study: Study) -> pd.DataFrame:
    """A table with the column `size` (of what the published size counts; 0 without) and `workload` without its size."""
    key = study.plan["published"].get("size")
    known = {name: int(entry["scale"].get(key, 0)) for name, entry in study.plan["workloads"].items()}
    size, base = frame["workload"].map(known), frame["workload"].map(_without_size)
    return frame.assign(size=size.astype("Int64"), workload=base)


def places(study: Study) -> list[Place]:
    """Every place with operations that have published numbers; its workload is named without the size."""
    if "published" not in study.plan:
        return []
    known = _published(study)[CELL].drop_duplicates()
    found = measurements(study)
    return distinct(found[found["size"] > 0].merge(known), Place)


def sizes(study: Study, place: Place) -> list[int]:
    """The sizes that were measured in a place, ascending."""
    return sorted(int(size) for size in set(select(measurements(study), place)["size"]))


def joined(study: Study) -> tuple[int, int]:
    """How many elapsed times were published, and how many of them are of cells that the study measured."""
    known = _published(study)
    return len(known), len(known.merge(measurements(study)[CELL].drop_duplicates())) if len(known) else 0


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
    own = select(measurements(study), place, size=size)
    published = _published(study).merge(own[CELL].drop_duplicates())
    if len(published):
        published = published[published["size"] == nearest(published["size"], size)]
    known = {tuple(number[key] for key in CELL): number for number in published.to_dict("records")}
    rows = []
    for key, cell in own.groupby(CELL, sort=False):
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


def ratings(study: Study, place: Place) -> pd.DataFrame:
    """Ratings of the configurations over the cold operations, as the study of 2015 computed them: a description.

    A rating is the median over operations of the rank of a configuration, 0 for the fastest. One row per configuration
    that has every cold operation of `beside`: name, own (by the medians of this study), published (by the published
    medians of the same configurations and operations), printed (the published rating itself, among all published
    configurations; NaN without), operations (how many). Empty without two configurations.
    """
    cells = select(beside(study, place), cache="cold")
    wide = {
        column: cells.pivot(index="phase", columns="name", values=f"{column}_ns").dropna(axis=1)
        for column in ("median", "published")
    }
    found = pd.DataFrame({column: (x.rank(axis=1, method="min") - 1).median() for column, x in wide.items()})
    if len(found) < 2:
        return pd.DataFrame(columns=["name", "own", "published", "printed", "operations"])
    numbers = load(study.plan["study"]["published"])
    printed = select(numbers, quantity="rank", size=cells["published_size"].iloc[0], cache="cold")
    known = {tuple(row[key] for key in Configuration._fields): row["value"] for row in printed.to_dict("records")}
    keys = cells.drop_duplicates("name").set_index("name")[list(Configuration._fields)].loc[found.index]
    found = found.assign(
        printed=[known.get(tuple(key), math.nan) for key in keys.itertuples(index=False, name=None)],
        operations=len(wide["median"]),
    )
    found = found.rename(columns={"median": "own"}).rename_axis("name").reset_index()
    return found.sort_values(["own", "name"], ignore_index=True)


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
    """The published times, with the study's own stacks and file systems in the place of those they stand in for."""
    found = times(of_study(study))
    found[REPLACED] = found[REPLACED].replace(study.plan["study"].get("stands_in", {}))
    return found


def of_study(study: Study) -> pd.DataFrame:
    """The published numbers that a study is set beside."""
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
