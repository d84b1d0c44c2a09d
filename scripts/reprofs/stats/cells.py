"""Cells: mean, spread and interval of each file system in each operation, and its single operations."""

import functools
import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
import scipy  # scipy.stats takes seconds to import, so scipy imports it on first use

from reprofs.data.keys import OPERATION, SETTING
from reprofs.data.study import Tables
from reprofs.plan.cell import lab_parts

LEVEL = 0.95
# From this many rounds on an order-statistic interval of the median reaches 95 %: 1 - 2 * 0.5**6 = 0.969.
ENOUGH = 6
TICK_NS = 4_000_000  # of the guests' kernels (HZ is 250), by which they count how long a device is busy
COMPUTE = "compute"  # phase without files: it shows that the lab's cores compute at the same time, and is in no mean
LARGE = 2**22  # numbers worked on together


def measured(phases: pd.DataFrame) -> pd.DataFrame:
    """The phases of completed trials, which enter statistics; without the end of a rebuild, which few stacks have."""
    operation = phases["operation"] if "operation" in phases else pd.Series("", index=phases.index)
    return phases[(phases["status"] == "ok") & (operation != "rebuild")]


def processor_busy(phases: pd.DataFrame) -> pd.Series:
    """How busy the processors were in each phase: 1 is all of them all the time, one of four 0.25; NaN if not known."""
    there = "processor_busy" in phases  # what is imported has no such column
    return phases["processor_busy"].astype(float) if there else pd.Series(math.nan, phases.index)


def processors(tables: Tables, lab: str) -> int:
    """How many processors a lab has, on real machines the most that the records tell; 1 where none does."""
    facts = tables.plan.labs[lab]
    if facts.exact:
        return facts.processor.count if facts.processor else 1
    told = tables.environment["values"].get("lab.processors" if lab_parts(lab).lab == "vm" else "host.cores", {})
    return max(map(int, told), default=1)


def idle(tables: Tables) -> pd.Series:
    """The least share of each phase in which neither a processor nor a device worked: 0 to 1, NaN if not known.

    By row of `phases`. Less than the truth: processors and devices are taken to work one after the other, and several
    devices, too. A device's time is counted in ticks (Documentation/admin-guide/iostats.rst of Linux), so one is added.
    """
    phases = tables.phases
    number = phases["lab"].map({lab: processors(tables, lab) for lab in phases["lab"].unique()}).astype(float)
    devices = (phases["device_busy_ns"].astype("Float64").astype(float) + TICK_NS) / phases["wall_ns"].astype(float)
    return (1 - number * processor_busy(phases) - devices).clip(lower=0)


def processor(phases: pd.DataFrame) -> pd.DataFrame:
    """User and system time of the process that did the work: mean over the rounds of each cell, in ns.

    `phases` is the table of that name. Indexed by lab, stack, profile, the columns of an operation, and label; columns
    user_ns and system_ns, NaN where the time is not known.
    """
    times = ["user_ns", "system_ns"]
    own = measured(phases)
    own = own.assign(**{name: own[name].astype("Float64").astype(float) for name in times})
    return own.groupby([*SETTING, *OPERATION, "label"])[times].mean()


def groups(frame: pd.DataFrame, keys: list[str]) -> tuple[pd.DataFrame, np.ndarray]:
    """The distinct keys of a frame, sorted, one row per group; and the number of each row's group.

    What pandas' groupby does, for functions that then work on all groups at once.
    """
    if not len(frame):
        return pd.DataFrame([], columns=keys), np.empty(0, int)
    coded = [pd.factorize(frame[key], sort=True) for key in keys]
    sizes = [len(values) for _, values in coded]
    found, number = np.unique(np.ravel_multi_index([codes for codes, _ in coded], sizes), return_inverse=True)
    places = zip(keys, coded, np.unravel_index(found, sizes), strict=True)
    return pd.DataFrame({key: np.asarray(values)[place] for key, (_, values), place in places}), number


def alike(number: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """For each size of a group the groups of that size, shape (g,), and their rows, shape (g, size), in their order.

    number: of each row's group.
    """
    order, sizes = np.argsort(number, kind="stable"), np.bincount(number)
    starts = np.cumsum(sizes) - sizes
    for size in np.unique(sizes):
        chosen = np.flatnonzero(sizes == size)
        yield chosen, order[starts[chosen, None] + np.arange(size)]


@dataclass
class Cube:
    """Values of groups that have as many rows and columns each, such as rounds and labels; NaN where there is none."""

    group: np.ndarray  # shape (g,): numbers of the groups
    names: np.ndarray  # shape (g, columns): names of each group's columns, sorted
    values: list[np.ndarray]  # each of shape (g, rows, columns)


def cubes(frame: pd.DataFrame, number: np.ndarray, index: str, columns: str, *values: np.ndarray) -> Iterator[Cube]:
    """What a pivot of each group would give, for all groups of one shape at once; at most LARGE numbers a cube.

    number: of each row's group; index, columns: whose values become the rows and columns, sorted; values: one a row.
    """
    if not len(frame):
        return
    total = int(number.max()) + 1
    (row, rows, _), (column, width, names) = (_ranked(frame[key], number, total) for key in (index, columns))
    shapes, shape = np.unique(np.stack([rows, width]), axis=1, return_inverse=True)
    for kind, (high, wide) in enumerate(shapes.T):
        every = np.flatnonzero(shape == kind)
        for start in range(0, len(every), step := max(1, LARGE // (high * wide))):
            chosen = every[start : start + step]
            local = np.full(total, -1)
            local[chosen] = np.arange(len(chosen))
            here = local[number] >= 0
            place = local[number[here]], row[here], column[here]
            filled = [np.full((len(chosen), high, wide), math.nan) for _ in values]
            for cube, value in zip(filled, values, strict=True):
                cube[place] = value[here]
            starts = np.cumsum(width) - width
            yield Cube(chosen, names[starts[chosen, None] + np.arange(wide)], filled)


def _ranked(key: pd.Series, number: np.ndarray, total: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of each row the place of its key among those of its group; of each group how many; all of them, by group."""
    codes, values = pd.factorize(key, sort=True)
    found, place = np.unique(number * len(values) + codes, return_inverse=True)
    sizes = np.bincount(found // len(values), minlength=total)
    return place - (np.cumsum(sizes) - sizes)[number], sizes, np.asarray(values)[found % len(values)]


# What no repetition of an exact lab varies, but another build of it would: another link order of the load engine moves
# the ratio of two file systems' totals by up to 1.6 %, another QEMU by 0.4 % (tests/bench_effects.py measures both;
# docs/methods/statistics.md). It is added to every interval of such a lab, as the root of the sum of squares.
FLOOR = 0.016


def widen(centre, low, high):
    """The ends of intervals with FLOOR in them: numbers or arrays of one shape; NaN where there is no interval."""
    below, above = (
        np.hypot(np.log(np.asarray(a, float) / np.asarray(b, float)), math.log1p(FLOOR))
        for a, b in ((centre, low), (high, centre))
    )
    return centre * np.exp(-below), centre * np.exp(above)


def widened(frame: pd.DataFrame, exact: Collection[str], centre: str, low: str, high: str) -> pd.DataFrame:
    """A frame with the column lab whose intervals (columns low and high around centre) are widened in exact labs."""
    ends = widen(*(frame[name].to_numpy(float) for name in (centre, low, high)))
    chosen = frame["lab"].isin(list(exact))
    return frame.assign(**{name: frame[name].where(~chosen, end) for name, end in zip((low, high), ends, strict=True)})


def interval(values) -> tuple[float, float]:
    """95 % interval (low, high) of the geometric mean of positive values: Student's t on their logarithms.

    Exact for lognormal values, at every number of them from two on; NaN for one.
    """
    logs = np.log(np.asarray(values, dtype=float))
    if len(logs) < 2:
        return math.nan, math.nan
    low, high = student(logs, LEVEL)
    return math.exp(low), math.exp(high)


def floored(values) -> tuple[float, float]:
    """`interval` of times of an exact lab, or of ratios there, widened."""
    return widen(scipy.stats.gmean(np.asarray(values, dtype=float)), *interval(values))


@functools.cache
def _places(n: int) -> tuple[int, int]:
    """Which two of n sorted values the 95 % interval of their median ends at, for any distribution: the narrowest
    symmetric pair that has 95 %. Below six values there is none."""
    if n < ENOUGH:
        return 0, 0
    found = scipy.stats.quantile_test(np.arange(n), p=0.5).confidence_interval(LEVEL)
    return int(found.low), int(found.high)


def outliers(values) -> np.ndarray:
    """Tukey's rule: True for each value more than 1.5 interquartile ranges outside the quartiles, same shape.

    Source: J. W. Tukey, Exploratory Data Analysis, 1977.
    """
    x = np.asarray(values, dtype=float)
    first, third = np.quantile(x, [0.25, 0.75], axis=-1, keepdims=True)
    reach = 1.5 * (third - first)
    return (x < first - reach) | (x > third + reach)


def abnormal(phases: pd.DataFrame) -> pd.DataFrame:
    """Shapiro and Wilk's p of each cell: whether its logarithms may be normal, as Student's t takes them to be.

    One row per cell with the rounds for it (ENOUGH) and different times. Few rounds show gross deviations only.
    """
    keys, rows = [*SETTING, *OPERATION, "label"], []
    for key, own in measured(phases).groupby(keys, sort=True):
        logs = np.log(own["wall_ns"].to_numpy(float))
        if len(logs) >= ENOUGH and np.ptp(logs) > 1e-12 * np.abs(logs).max():
            rows.append(dict(zip(keys, key, strict=True)) | {"p": float(scipy.stats.shapiro(logs).pvalue)})
    return pd.DataFrame(rows, columns=[*keys, "p"])


def driver_bound(phases: pd.DataFrame) -> pd.Series:
    """Upper bound of the driver's own share of each phase's time, 0 to 1, indexed like `phases`.

    `driver_ns` is all the time between operations, so it includes whatever else ran on the processor then, such as
    threads of the file system. The driver itself does the same work for every file system of a round: it cannot take
    longer than the shortest time between operations of any of them.
    """
    same = ["lab", "workload", "scale", "phase", "cache", "round"]
    least = phases["driver_ns"].astype(float).groupby([phases[key] for key in same]).transform("min")
    return least / phases["wall_ns"].astype(float)


def statistics(phases: pd.DataFrame) -> pd.DataFrame:
    """One row per cell with the statistics of its times, in ns.

    Columns: the keys of the cell, position, n; geometric_mean_ns with its 95 % interval low_ns to high_ns (see
    `interval`); mean_ns, sd_ns (divisor n - 1), variance_ns2, cv; median_ns with median_low_ns and median_high_ns (from
    six rounds on); min_ns, max_ns, items_per_second (harmonic mean), outliers (their number, NaN below four rounds,
    where Tukey's rule can mark none).
    """
    own = measured(phases)
    keys = [*SETTING, *OPERATION, "label", "role"]
    places, number = groups(own, keys)
    wall, items = own["wall_ns"].to_numpy(float), own["items"].to_numpy(float)
    position = own["position"].to_numpy(int)
    frames = []
    for cell, rows in alike(number):
        x, n = wall[rows], rows.shape[1]
        positive = (x > 0).all(axis=1)
        rated = positive & (items[rows] > 0).all(axis=1)
        logs = np.log(np.where(positive[:, None], x, 1))
        mean, unknown = x.mean(axis=1), np.full(len(x), math.nan)
        sd = x.std(axis=1, ddof=1) if n > 1 else unknown
        low, high = student(logs, LEVEL) if n > 1 else (unknown, unknown)
        # The places of the two order statistics depend on the number of rounds alone.
        middle = [np.sort(x)[:, int(place)] if n >= ENOUGH else unknown for place in _places(n)]
        rates = np.where(rated[:, None], items[rows], 1) / np.where(rated[:, None], x, 1) * 1e9
        found = {
            "position": position[rows].min(axis=1),
            "n": n,
            "geometric_mean_ns": np.where(positive, np.exp(logs.mean(axis=1)), math.nan),
            "low_ns": np.where(positive, np.exp(low), math.nan),
            "high_ns": np.where(positive, np.exp(high), math.nan),
            "mean_ns": mean,
            "sd_ns": sd,
            "variance_ns2": sd**2,
            "cv": np.divide(sd, mean, out=np.full(len(x), math.nan), where=mean != 0),
            "median_ns": np.median(x, axis=1),
            "median_low_ns": middle[0],
            "median_high_ns": middle[1],
            "min_ns": x.min(axis=1),
            "max_ns": x.max(axis=1),
            "items_per_second": np.where(rated, scipy.stats.hmean(rates, axis=1), math.nan),
            "outliers": outliers(x).sum(axis=1).astype(float) if n > 3 else unknown,
        }
        frames.append(pd.DataFrame(found, index=cell))
    columns = [
        *keys,
        "position",
        "n",
        "geometric_mean_ns",
        "low_ns",
        "high_ns",
        "mean_ns",
        "sd_ns",
        "variance_ns2",
        "cv",
    ]
    columns += ["median_ns", "median_low_ns", "median_high_ns", "min_ns", "max_ns", "items_per_second", "outliers"]
    return places.join(pd.concat(frames))[columns] if frames else pd.DataFrame([], columns=columns)


def latency_quantiles(latency: pd.DataFrame, quantiles=(0.5, 0.9, 0.99, 1.0)) -> pd.DataFrame:
    """Quantiles of the latencies of single operations, in ns (middle of the bucket), one row per cell.

    The rounds of a cell are merged by adding the counts of their buckets. Columns: the keys of the cell, count, and one
    column q0.5, q0.9, ... per quantile.
    """
    rows = []
    keys = [*SETTING, *OPERATION, "label", "role"]
    for key, cell in measured(latency).groupby(keys, sort=True):
        merged = cell.groupby(["lower_ns", "upper_ns"], sort=True)["count"].sum().reset_index()
        share = merged["count"].cumsum() / merged["count"].sum()
        middle = (merged["lower_ns"] + merged["upper_ns"] - 1) / 2
        values = {f"q{q:g}": float(middle[int(np.searchsorted(share, q - 1e-12))]) for q in quantiles}
        rows.append(dict(zip(keys, key, strict=True)) | {"count": int(merged["count"].sum())} | values)
    return pd.DataFrame(rows, columns=[*keys, "count", *(f"q{q:g}" for q in quantiles)])


def student(values: np.ndarray, level: float):
    """Student's t interval (low, high) of the mean over the last axis, of two values or more.

    Without spread it is the mean itself.
    """
    n = values.shape[-1]
    mean, error = values.mean(axis=-1), values.std(axis=-1, ddof=1) / math.sqrt(n)
    half = np.where(error < 1e-12 * np.maximum(1, np.abs(mean)), 0, scipy.stats.t.ppf((1 + level) / 2, n - 1) * error)
    return mean - half, mean + half
