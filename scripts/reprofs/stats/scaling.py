"""Growth with size: power laws of times over sizes, their fit, and what they expect at other sizes."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import scipy  # scipy.stats takes seconds to import, so scipy imports it on first use
from numpy.typing import ArrayLike

from reprofs.data.keys import SETTING, Setting, select
from reprofs.data.study import Tables
from reprofs.plan.plan import PlannedWorkload
from reprofs.plan.workload import NO_AMOUNT, without_room, without_size
from reprofs.stats.cells import LEVEL, idle, measured

OFF = 0.05  # a law may be off by this share
NEAR = math.log(10) / 2  # half a decade: farther from the sizes measured a law is a scenario without an interval


def fit(sizes: ArrayLike, times: ArrayLike, confidence: float = LEVEL) -> dict:
    """time = factor * size ** exponent by least squares in logarithms; sizes (names, bytes, …) and times of shape (n,).

    Fitted to the geometric means of the times at a size, because what makes a law wrong is common to all rounds of a
    size: three rounds are not three sizes. Returns exponent with low and high (Student's interval, NaN with fewer than
    three sizes), factor (unit of times), r2, n (sizes), last (exponent between the two largest sizes), off (the largest
    distance of a size's mean from the law, a share) and fit_p (whether that is more than OFF, beyond what the rounds
    explain). NaN with fewer than three sizes, fit_p without repeated ones, too. The exponent is 1 where the work grows
    as its size. Raises ValueError without two different sizes above zero.
    """
    x, y, number, pure = _means(sizes, times)
    line = scipy.stats.linregress(x, y)
    reach = scipy.stats.t.ppf((1 + confidence) / 2, len(x) - 2) * line.stderr if len(x) > 2 else math.nan
    return {
        "exponent": float(line.slope),
        "low": float(line.slope - reach),
        "high": float(line.slope + reach),
        "factor": float(math.exp(line.intercept)),
        "r2": float(line.rvalue**2),
        "n": len(x),
        "last": float((y[-1] - y[-2]) / (x[-1] - x[-2])),
        "fit_p": _lack_of_fit(x, y - line.intercept - line.slope * x, number, pure),
        "off": float(np.expm1(np.abs(y - line.intercept - line.slope * x).max())) if len(x) > 2 else math.nan,
    }


def extrapolate(sizes: ArrayLike, times: ArrayLike, at: ArrayLike, confidence: float = LEVEL) -> pd.DataFrame:
    """Times that the fit of `fit` expects at other sizes: columns size, time, low, high (prediction interval).

    `at` has shape (m,) in the unit of sizes; the rest is in the unit of times. The interval is where the geometric mean
    of a further size falls with that confidence if the law goes on. Nothing here knows whether it does (a cache may
    end), so farther than half a decade from the sizes measured there is no interval (NaN).
    """
    x, y, _, _ = _means(sizes, times)
    at = np.asarray(at, dtype=float)
    if (at <= 0).any():
        raise ValueError("a size to extrapolate to is not above zero")
    line, points = scipy.stats.linregress(x, y), np.log(at)
    found = line.intercept + line.slope * points
    half = np.full(len(at), math.nan)
    if len(x) > 2:
        rest = y - line.intercept - line.slope * x
        error = np.sqrt((rest**2).sum() / (len(x) - 2))
        around = 1 + 1 / len(x) + (points - x.mean()) ** 2 / ((x - x.mean()) ** 2).sum()
        near = (points >= x[0] - NEAR - 1e-9) & (points <= x[-1] + NEAR + 1e-9)
        half[near] = (scipy.stats.t.ppf((1 + confidence) / 2, len(x) - 2) * error * np.sqrt(around))[near]
    bounds = {"low": np.exp(found - half), "high": np.exp(found + half)}
    return pd.DataFrame({"size": at, "time": np.exp(found)} | bounds)


def expected(sizes: ArrayLike, times: ArrayLike, at: ArrayLike) -> pd.DataFrame:
    """Times that two laws of the last step expect at larger sizes: columns size, low, high (the unit of times).

    Both go through the geometric means at the two largest sizes: one grows by as much for each further name, one by the
    same power. Work with a fixed part follows the first, work that outgrows a cache is above both. Neither falls: a
    time that a larger size does not lengthen stays. Raises ValueError without two different sizes above zero.
    """
    x, y, _, _ = _means(sizes, times)
    at = np.asarray(at, dtype=float)
    (before, size), (earlier, time) = np.exp(x[-2:]), np.exp(y[-2:])
    each = time + max(0, (time - earlier) / (size - before)) * (at - size)
    power = time * (at / size) ** max(0, float((y[-1] - y[-2]) / (x[-1] - x[-2])))
    return pd.DataFrame({"size": at, "low": np.minimum(each, power), "high": np.maximum(each, power)})


def by_last(sizes: ArrayLike, times: ArrayLike, at: ArrayLike) -> np.ndarray:
    """What is expected at other sizes by the exponent of the last step, from the geometric mean at the largest size."""
    size, time = np.asarray(sizes, float), np.asarray(times, float)
    last = math.exp(np.log(time[size == size.max()]).mean())
    return last * (np.asarray(at, float) / size.max()) ** fit(size, time)["last"]


def _means(sizes: ArrayLike, times: ArrayLike) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Logarithms of the sizes, ascending, and means of those of the times there; their numbers, squares around them."""
    logs, values = _logarithms(sizes, times)
    x, place, number = np.unique(logs, return_inverse=True, return_counts=True)
    y = np.bincount(place, values) / number
    return x, y, number, float(((values - y[place]) ** 2).sum())


def _lack_of_fit(x: np.ndarray, off: np.ndarray, number: np.ndarray, pure: float) -> float:
    """p of a t test for each size, that its mean is within OFF of the law; the least, times the sizes (Bonferroni).

    off: distances of the means from the law, logarithms. An F test of distance 0 would reject laws that are off by
    less than 1 % where rounds hardly differ, as in the exact lab. See `_means`.
    """
    free = int(number.sum()) - len(x)
    if len(x) < 3 or free < 1:
        return math.nan
    beyond, error = np.abs(off) - math.log1p(OFF), np.sqrt(pure / free / number)
    p = scipy.stats.t.sf(beyond / np.maximum(error, 1e-12), free)
    return float(min(1.0, len(x) * p.min()))


def table(times: pd.DataFrame, size: str = "names", time: str = "wall_ns") -> pd.DataFrame:
    """`fit` of each label (and phase, if there is that column) of a tidy frame: its keys, least and most (its sizes),
    then the fit."""
    keys = [key for key in ("phase", "label") if key in times]
    rows = []
    for key, own in times.groupby(keys, sort=False):
        if own[size].nunique() > 1:
            ends = {"least": own[size].min(), "most": own[size].max()}
            rows.append(dict(zip(keys, key, strict=True)) | ends | fit(own[size], own[time]))
    return pd.DataFrame(rows)


def sized(phases: pd.DataFrame, workloads: dict[str, PlannedWorkload], setting: Setting) -> dict[str, pd.DataFrame]:
    """Workload without its size -> times of its phases in a setting at several sizes, with columns size and unit.

    `workloads` are those of the plan. What a label has at one size only is left out, and sizes that are no amount.
    """
    own = select(measured(phases[phases["role"] != "ceiling"]), setting)
    found: dict[str, list[pd.DataFrame]] = {}
    for name, rows in own.groupby("workload", sort=False):
        entry = workloads.get(str(name))
        if entry and entry.size and entry.size not in NO_AMOUNT:
            size = int(entry.parameters[entry.size])
            found.setdefault(without_size(str(name)), []).append(rows.assign(unit=entry.size, size=size))
    several = {}
    for base, frames in found.items():
        whole = pd.concat(frames).sort_values(["position", "label", "size"], kind="stable")
        chosen = whole[whole.groupby("label")["size"].transform("nunique") > 1]
        if len(chosen):
            several[base] = chosen
    return several


def rooms(study: Tables) -> pd.DataFrame:
    """What the size of the file system changes: phases of the workloads that ran in several.

    Columns: the setting, scale, workload (the name of the largest), phase, cache, label; position; room_mib, ascending;
    round; wall_ns; and idle (see `cells.idle`).
    """
    own = measured(study.phases.assign(idle=idle(study)))
    asked = {name: entry.parameters.get("device_mib", 0) for name, entry in study.plan.workloads.items()}
    largest = {without_room(name): name for name in sorted(asked, key=lambda name: asked[name])}
    alike = own["workload"].map(lambda name: largest[without_room(name)])
    own = own.assign(room_mib=own["workload"].map(asked), workload=alike)
    keys = [*SETTING, "scale", "workload", "label"]
    own = own[own.groupby(keys)["room_mib"].transform("nunique") > 1]
    order = [*keys, "position", "room_mib", "round"]
    return own[[*order, "phase", "cache", "wall_ns", "idle"]].sort_values(order, kind="stable", ignore_index=True)


def totals(own: pd.DataFrame) -> pd.DataFrame:
    """All operations of a workload together in file systems of several sizes: means over the repetitions.

    own: of `rooms`, one workload, named, with operation and where. Index: where, label, room_mib. Columns: wall_ns; n
    (repetitions); error (standard error of the mean, a share of it; NaN with one); idle (the largest of an operation).
    """
    keys = ["where", "label", "room_mib"]
    runs = own.groupby([*keys, "round"], observed=True)["wall_ns"].sum().astype(float).groupby(keys, observed=True)
    idle = own.groupby([*keys, "operation"], observed=True)["idle"].mean().groupby(keys, observed=True).max()
    return pd.DataFrame({"wall_ns": runs.mean(), "n": runs.size(), "error": runs.sem() / runs.mean(), "idle": idle})


def enough(walls: pd.Series, equal: float) -> pd.Series:
    """The least size from which on a workload takes at most the share `equal` longer than in the largest.

    walls: time by where, label and room_mib (levels of the index), one workload; by where and label in their order.
    """
    found = {}
    for key, own in walls.groupby(level=["where", "label"], sort=False):
        wall = own.droplevel(["where", "label"]).sort_index()
        far = wall / wall.iloc[-1] - 1 > equal
        found[key] = wall.index[wall.index.get_loc(far[far].index[-1]) + 1] if far.any() else wall.index[0]
    return pd.Series(found, dtype=int).rename_axis(["where", "label"])


def _logarithms(sizes: ArrayLike, times: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    x, y = np.asarray(sizes, dtype=float), np.asarray(times, dtype=float)
    if len(x) != len(y):
        raise ValueError(f"there are {len(x)} sizes but {len(y)} times")
    if (x <= 0).any() or (y <= 0).any():
        raise ValueError("a size or a time is not above zero, so it has no logarithm")
    if len(np.unique(x)) < 2:
        raise ValueError("a law of growth needs two different sizes at least")
    return np.log(x), np.log(y)
