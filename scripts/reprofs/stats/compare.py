"""File systems against each other: ratios, winners, ranks, and whether times drift with the order of trials."""

import math
import warnings

import numpy as np
import pandas as pd
import scipy  # scipy.stats takes seconds to import, so scipy imports it on first use

from reprofs.data.keys import OPERATION, SETTING
from reprofs.stats.cells import ENOUGH, LEVEL, measured, student

BOOTSTRAP_SEED = 20260101


def ratio(a, b, level: float = LEVEL) -> dict:
    """Ratio of the geometric means of `a` and `b`, paired by round, with an interval: ratio, low, high, kind.

    `a` and `b` have the same length, are positive and in any one unit. From six pairs on the interval is a BCa
    bootstrap of the mean log ratio (B. Efron, JASA 82, 1987), below that Student's t of the log ratios, with one pair
    none (NaN). If all pairs have the same ratio, the interval is that ratio.
    """
    logs = np.log(np.asarray(a, dtype=float) / np.asarray(b, dtype=float))
    centre = logs.mean()
    if len(logs) == 1:
        low, high, kind = math.nan, math.nan, "none"
    elif np.ptp(logs) < 1e-12:
        low, high, kind = centre, centre, "no spread"
    elif len(logs) < ENOUGH:
        low, high = student(logs, level)
        kind = "Student t of paired log ratios"
    else:
        rng = np.random.default_rng(BOOTSTRAP_SEED)
        found = scipy.stats.bootstrap(
            (logs,), np.mean, confidence_level=level, method="BCa", rng=rng
        ).confidence_interval
        low, high, kind = found.low, found.high, "BCa bootstrap of paired log ratios"
    return {"ratio": math.exp(centre), "low": math.exp(low), "high": math.exp(high), "kind": kind}


def joint_interval(a, b, comparisons: int) -> tuple[float, float]:
    """Interval of the paired ratio, joint over so many `comparisons`: together they hold with 95 % (Bonferroni).

    Always Student's t on log ratios: resampling a handful of rounds cannot reach the level needed. NaN for one pair.
    """
    logs = np.log(np.asarray(a, dtype=float) / np.asarray(b, dtype=float))
    if len(logs) < 2:
        return math.nan, math.nan
    low, high = student(logs, 1 - (1 - LEVEL) / max(comparisons, 1))
    return math.exp(low), math.exp(high)


def cliffs_delta(a, b) -> float:
    """Cliff's delta: P(a > b) - P(a < b) over all pairs, from -1 (every a is smaller) to 1 (N. Cliff, 1993)."""
    difference = np.sign(np.subtract.outer(np.asarray(a, dtype=float), np.asarray(b, dtype=float)))
    return float(difference.mean())


def mann_whitney(a, b) -> float:
    """Exact two-sided p of the Mann-Whitney test; with ties by enumerating permutations, at most 9,999 of them."""
    a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    both = np.concatenate([a, b])
    if np.ptp(both) == 0:
        return 1.0
    ties = len(np.unique(both)) < len(both)
    method = scipy.stats.PermutationMethod(9999, rng=np.random.default_rng(BOOTSTRAP_SEED)) if ties else "exact"
    return float(scipy.stats.mannwhitneyu(a, b, method=method).pvalue)


def smallest_p(n: int, m: int) -> float:
    """Smallest two-sided p that a Mann-Whitney test of n against m values can give, at complete separation."""
    return min(1.0, 2 / math.comb(n + m, n))


def holm(p) -> np.ndarray:
    """Holm's correction of a family of p values, shape (n,) (S. Holm, Scandinavian Journal of Statistics 6, 1979).

    That of statsmodels runs Python's garbage collector at every call, which takes 0.2 s.
    """
    p = np.asarray(p, dtype=float)
    order = np.argsort(p, kind="stable")
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)), 1) if len(p) else []
    return adjusted


def rounds_to_reject(pairs: int, alpha: float = 0.05) -> int:
    """The fewest rounds with which a Mann-Whitney test can reject after Holm's correction for `pairs` tests."""
    return next(n for n in range(1, 1000) if smallest_p(n, n) * max(pairs, 1) < alpha)


def pairwise(phases: pd.DataFrame) -> pd.DataFrame:
    """All pairs of file systems of each operation: ratio a / b of wall times, intervals, Cliff's delta, Mann-Whitney.

    `n` counts the rounds that both have (their ratio is paired by round); p_holm is corrected over the pairs of the
    operation, p_smallest is what complete separation would give before that correction. Upper bounds (role ceiling) are
    compared too but, not being contenders, are not counted in the correction and have no joint interval.
    """
    rows = []
    keys = [*SETTING, *OPERATION]
    for key, cells in measured(phases).groupby(keys, sort=True):
        wide = cells.pivot(index="round", columns="label", values="wall_ns").astype(float)
        ceilings = set(cells.loc[cells["role"] == "ceiling", "label"])
        contenders = len(wide.columns) - len(ceilings)
        group = [
            _pair(wide, a, b, contenders - 1, contender=not {a, b} & ceilings)
            for i, a in enumerate(wide.columns)
            for b in wide.columns[i + 1 :]
        ]
        tested = [row for row in group if row["contenders"]]
        if tested:
            for row, value in zip(tested, holm([row["p"] for row in tested]), strict=True):
                row["p_holm"] = value
        rows += [dict(zip(keys, key, strict=True)) | row for row in group]
    columns = [
        "a",
        "b",
        "contenders",
        "n",
        "ratio",
        "low",
        "high",
        "kind",
        "joint_low",
        "joint_high",
        "delta",
        "p",
        "p_smallest",
    ]
    return pd.DataFrame(rows, columns=[*keys, *columns, "p_holm"]).astype({"contenders": bool})


def versus(pairs: pd.DataFrame, label: str) -> pd.DataFrame:
    """The rows of `pairwise` with `label`, turned so that every ratio is other / label; column `other`."""
    straight = pairs[pairs["b"] == label].rename(columns={"a": "other"}).drop(columns="b")
    turned = pairs[pairs["a"] == label].rename(columns={"b": "other"}).drop(columns="a")
    bounds = ["ratio", "low", "high", "joint_low", "joint_high"]
    turned = turned.assign(**{column: 1 / turned[column] for column in bounds}, delta=-turned["delta"])
    turned = turned.rename(columns={"low": "high", "high": "low", "joint_low": "joint_high", "joint_high": "joint_low"})
    return pd.concat(
        [part for part in (straight, turned[straight.columns]) if len(part)] or [straight], ignore_index=True
    )


def winners(table: pd.DataFrame, pairs: pd.DataFrame) -> pd.DataFrame:
    """One row per operation: the contender with the smallest mean, and whether that is more than chance.

    verdict is `winner` if the joint interval of the ratio to the best is above 1 for every other contender, so that
    with 95 % confidence the best was not chosen by luck; `tie` if for some it is not (they are in `tied`, separated by
    spaces); `unproved` if there is no interval at all (one round); `alone` if no other contender completed.
    """
    rows = []
    keys = [*SETTING, *OPERATION]
    contenders = table[table["role"] != "ceiling"]
    for key, group in contenders.groupby(keys, sort=True):
        best = group.sort_values(["mean_ns", "label"]).iloc[0]
        same = pairs[(pairs[keys] == list(key)).all(axis=1) & pairs["contenders"]]
        others = versus(same, best["label"]).sort_values(["ratio", "other"])
        tied = others[~(others["joint_low"] > 1)]
        if others.empty:
            verdict = "alone"
        elif others["joint_low"].isna().all():
            verdict = "unproved"
        else:
            verdict = "winner" if tied.empty else "tie"
        nearest = others.iloc[0] if len(others) else {}
        rows.append(
            dict(zip(keys, key, strict=True))
            | {"position": int(group["position"].min()), "verdict": verdict, "best": best["label"], "n": int(best["n"])}
            | {"mean_ns": best["mean_ns"], "low_ns": best["low_ns"], "high_ns": best["high_ns"]}
            | {"contenders": len(group), "runner_up": nearest.get("other"), "ratio": nearest.get("ratio", math.nan)}
            | {key: nearest.get(key, math.nan) for key in ("joint_low", "joint_high")}
            | {"tied": " ".join(tied["other"]) if verdict == "tie" else ""}
        )
    columns = [
        *keys,
        "position",
        "verdict",
        "best",
        "n",
        "mean_ns",
        "low_ns",
        "high_ns",
        "contenders",
        "runner_up",
        "ratio",
    ]
    return pd.DataFrame(rows, columns=[*columns, "joint_low", "joint_high", "tied"])


def relative(table: pd.DataFrame) -> pd.DataFrame:
    """`statistics` with column `cost`: geometric mean of the cell over that of the best contender of the operation."""
    keys = [*SETTING, *OPERATION]
    best = table[table["role"] != "ceiling"].groupby(keys)["geometric_mean_ns"].min().rename("best_ns").reset_index()
    merged = table.merge(best, on=keys, how="left")
    return merged.assign(cost=merged["geometric_mean_ns"] / merged["best_ns"]).drop(columns="best_ns")


def typical_cost(cost: pd.DataFrame) -> pd.Series:
    """Geometric mean of `cost` (see `relative`) by contender over the operations that all completed; may be empty."""
    wide = cost[cost["role"] != "ceiling"].pivot(index=[*SETTING, *OPERATION], columns="label", values="cost").dropna()
    return np.exp(np.log(wide).mean()) if len(wide) else pd.Series(dtype=float)


def ranks(table: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Friedman and Nemenyi over operations as blocks: one frame by contender and setting, one by pair and setting.

    First frame: mean_rank (1 = always fastest), blocks used and left_out (some contender has no result there),
    statistic and p of Friedman's test, critical_difference of mean ranks at 5 %. Contenders without any result are
    not ranked. Second: a, b, p of Nemenyi's test. Fewer than three contenders or two blocks: ranks without tests (NaN).
    """
    rows, pairs = [], []
    for key, group in table[table["role"] != "ceiling"].groupby(SETTING, sort=True):
        setting = dict(zip(SETTING, key, strict=True))
        wide = group.pivot(index=OPERATION, columns="label", values="mean_ns")
        complete = wide.dropna()
        tested = friedman(complete)
        mean_rank = complete.rank(axis=1).mean()
        common = {"blocks": len(complete), "left_out": len(wide) - len(complete)}
        common |= {name: tested[name] for name in ("statistic", "p", "critical_difference")}
        rows += [setting | {"label": label, "mean_rank": mean_rank[label]} | common for label in wide.columns]
        matrix = tested["nemenyi"]
        labels = list(wide.columns)
        for i, a in enumerate(labels if matrix is not None else []):
            pairs += [setting | {"a": a, "b": b, "p": matrix.loc[a, b]} for b in labels[i + 1 :]]
    columns = [*SETTING, "label", "mean_rank", "blocks", "left_out", "statistic", "p", "critical_difference"]
    first = pd.DataFrame(rows, columns=columns).sort_values([*SETTING, "mean_rank", "label"], ignore_index=True)
    return first, pd.DataFrame(pairs, columns=[*SETTING, "a", "b", "p"])


def friedman(blocks: pd.DataFrame) -> dict:
    """Friedman's test of blocks (rows) and contenders (columns), and Nemenyi's after it.

    Keys: statistic, p, critical_difference (of mean ranks, at 5 %), nemenyi (matrix of p values, or None). Source: J.
    Demšar, JMLR 7, 2006.
    """
    import scikit_posthocs  # seconds to import, and only this test and its diagram need it

    n, k = blocks.shape
    if n < 2 or k < 3:
        return {"statistic": math.nan, "p": math.nan, "critical_difference": math.nan, "nemenyi": None}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # all ranks tied: 0 / 0, reported as NaN
        statistic, p = scipy.stats.friedmanchisquare(*blocks.to_numpy().T)
    # Demšar 2006, section 3.2.2: studentised range over the square root of two.
    q = scipy.stats.studentized_range.ppf(LEVEL, k, np.inf) / math.sqrt(2)
    matrix = scikit_posthocs.posthoc_nemenyi_friedman(blocks.reset_index(drop=True))
    return {
        "statistic": statistic,
        "p": p,
        "critical_difference": q * math.sqrt(k * (k + 1) / (6 * n)),
        "nemenyi": matrix,
    }


def drift(phases: pd.DataFrame) -> pd.DataFrame:
    """Spearman's correlation of wall time and position in the order, one row per cell of six rounds or more.

    The p values are corrected by Holm's method.
    """
    rows = []
    keys = [*SETTING, *OPERATION, "label"]
    for key, cell in measured(phases).dropna(subset=["order"]).groupby(keys, sort=True):
        if len(cell) >= ENOUGH and cell["wall_ns"].nunique() > 1:
            found = scipy.stats.spearmanr(cell["order"].astype(float), cell["wall_ns"].astype(float))
            rows.append(dict(zip(keys, key, strict=True)) | {"n": len(cell), "rho": found.statistic, "p": found.pvalue})
    frame = pd.DataFrame(rows, columns=[*keys, "n", "rho", "p"])
    return frame.assign(p_holm=holm(frame["p"]))


def _pair(wide: pd.DataFrame, a: str, b: str, comparisons: int, contender: bool) -> dict:
    """One row of `pairwise`; `wide`: wall times, rounds by labels."""
    both = wide[[a, b]].dropna()
    x, y = wide[a].dropna(), wide[b].dropna()
    nothing = {"ratio": math.nan, "low": math.nan, "high": math.nan, "kind": "none"}
    usable = len(both) > 0 and (both > 0).all(axis=None)
    joint = joint_interval(both[a], both[b], comparisons) if usable and contender else (math.nan, math.nan)
    return {
        "a": a,
        "b": b,
        "contenders": contender,
        "n": len(both),
        **(ratio(both[a], both[b]) if usable else nothing),
        "joint_low": joint[0],
        "joint_high": joint[1],
        "delta": cliffs_delta(x, y),
        "p": mann_whitney(x, y),
        "p_smallest": smallest_p(len(x), len(y)),
        "p_holm": math.nan,
    }
