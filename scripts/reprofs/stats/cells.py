"""Cells: mean, spread and interval of each file system in each operation, and its single operations."""

import math

import numpy as np
import pandas as pd
import scipy  # scipy.stats takes seconds to import, so scipy imports it on first use

from reprofs.data.keys import OPERATION, SETTING

LEVEL = 0.95
# From this many rounds on an order-statistic interval of the median reaches 95 %: 1 - 2 * 0.5**6 = 0.969.
ENOUGH = 6


def measured(phases: pd.DataFrame) -> pd.DataFrame:
    """The phases of completed trials, which enter statistics; without the end of a rebuild, which few stacks have."""
    operation = phases["operation"] if "operation" in phases else pd.Series("", index=phases.index)
    return phases[(phases["status"] == "ok") & (operation != "rebuild")]


def interval(values) -> tuple[float, float]:
    """95 % interval (low, high) of the geometric mean of positive values: Student's t on their logarithms.

    Exact for lognormal values, at every number of them from two on; NaN for one.
    """
    logs = np.log(np.asarray(values, dtype=float))
    if len(logs) < 2:
        return math.nan, math.nan
    low, high = student(logs, LEVEL)
    return math.exp(low), math.exp(high)


def median_interval(values) -> tuple[float, float]:
    """95 % interval (low, high) of the median: the narrowest symmetric pair of order statistics, for any distribution.

    NaN below six values, for which no such pair has 95 %.
    """
    x = np.asarray(values, dtype=float)
    if len(x) < ENOUGH:
        return math.nan, math.nan
    found = scipy.stats.quantile_test(x, p=0.5).confidence_interval(LEVEL)
    return float(found.low), float(found.high)


def harmonic_rate(items, wall_ns) -> float:
    """Harmonic mean of the rates items / wall, in items per second (wall_ns in ns, same length as items)."""
    items, wall = np.asarray(items, dtype=float), np.asarray(wall_ns, dtype=float)
    if not len(items) or (items <= 0).any() or (wall <= 0).any():
        return math.nan
    return float(scipy.stats.hmean(items / wall * 1e9))


def outliers(values) -> np.ndarray:
    """Tukey's rule: True for each value more than 1.5 interquartile ranges outside the quartiles, same shape.

    Source: J. W. Tukey, Exploratory Data Analysis, 1977.
    """
    x = np.asarray(values, dtype=float)
    first, third = np.quantile(x, [0.25, 0.75])
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
    rows = []
    keys = [*SETTING, *OPERATION, "label", "role"]
    for key, cell in measured(phases).groupby(keys, sort=True):
        x = cell["wall_ns"].to_numpy(dtype=float)
        mean, sd = x.mean(), (x.std(ddof=1) if len(x) > 1 else math.nan)
        low, high = interval(x) if (x > 0).all() else (math.nan, math.nan)
        median_low, median_high = median_interval(x)
        rows.append(
            dict(zip(keys, key, strict=True))
            | {"position": int(cell["position"].min()), "n": len(x)}
            | {"geometric_mean_ns": float(scipy.stats.gmean(x)) if (x > 0).all() else math.nan}
            | {"low_ns": low, "high_ns": high}
            | {"mean_ns": mean, "sd_ns": sd, "variance_ns2": sd**2, "cv": sd / mean if mean else math.nan}
            | {"median_ns": float(np.median(x)), "median_low_ns": median_low, "median_high_ns": median_high}
            | {"min_ns": x.min(), "max_ns": x.max(), "items_per_second": harmonic_rate(cell["items"], x)}
            | {"outliers": float(outliers(x).sum()) if len(x) > 3 else math.nan}
        )
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
    return pd.DataFrame(rows, columns=columns)


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


def student(values: np.ndarray, level: float) -> tuple[float, float]:
    """Student's t interval (low, high) of the mean of values of shape (n,), n > 1; without spread the mean itself."""
    mean, error = values.mean(), values.std(ddof=1) / math.sqrt(len(values))
    if error < 1e-12 * max(1.0, abs(mean)):
        return mean, mean
    low, high = scipy.stats.t.interval(level, len(values) - 1, loc=mean, scale=error)
    return float(low), float(high)
