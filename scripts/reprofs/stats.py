"""Statistics of the tables, as pure functions: frames in, frames out. Nothing here draws, writes or formats.

A cell is one file system (label) in one operation (workload, scale, phase, cache) in one setting (lab, stack,
profile). Its observations are the rounds, one each. Settings never meet: a lab's clock is comparable only to itself.
Stacks are compared by ratios within a lab; labs by ratios and orders, never by times.
"""

import math
import warnings

import numpy as np
import pandas as pd
import scikit_posthocs
from scipy import stats

SETTING = ["lab", "stack", "profile"]
OPERATION = ["workload", "scale", "phase", "cache"]
LEVEL = 0.95
# From this many rounds on an order-statistic interval of the median reaches 95 %: 1 - 2 * 0.5**6 = 0.969.
ENOUGH = 6
BOOTSTRAP_SEED = 20260101


def measured(phases: pd.DataFrame) -> pd.DataFrame:
    """The rows that count: phases of trials that completed; not the end of a rebuild, which no other stack has."""
    operation = phases["operation"] if "operation" in phases else pd.Series("", index=phases.index)
    return phases[(phases["status"] == "ok") & (operation != "rebuild")]


def interval(values) -> dict:
    """95 % interval of the location of a sample of times: low, high (unit of `values`), kind, coverage.

    Six values or more: the narrowest symmetric pair of order statistics around the median (distribution-free,
    coverage at least 95 %, stated exactly). Two to five: Student's t interval of the mean, which assumes normal
    values; no distribution-free 95 % interval exists. It is cut at zero, where no time can be: the coverage stays. One:
    none (NaN).
    """
    x = np.sort(np.asarray(values, dtype=float))
    n = len(x)
    if n >= ENOUGH:
        found = stats.quantile_test(x, p=0.5).confidence_interval(LEVEL)
        # With j values cut off at either end the interval misses the median with probability 2 * P(Bin(n, 1/2) <= j).
        cut = next(j for j in range(n) if 2 * stats.binom.cdf(j + 1, n, 0.5) > 1 - LEVEL)
        coverage = 1 - 2 * stats.binom.cdf(cut, n, 0.5)
        return {"low": found.low, "high": found.high, "kind": "order statistics of the median", "coverage": coverage}
    if n >= 2:
        low, high = _student(x, LEVEL)
        return {"low": max(low, 0.0), "high": high, "kind": "Student t of the mean", "coverage": LEVEL}
    return {"low": math.nan, "high": math.nan, "kind": "none", "coverage": math.nan}


def harmonic_rate(items, wall_ns) -> float:
    """Harmonic mean of the rates items / wall, in items per second (wall_ns in ns, same length as items)."""
    items, wall = np.asarray(items, dtype=float), np.asarray(wall_ns, dtype=float)
    if not len(items) or (items <= 0).any() or (wall <= 0).any():
        return math.nan
    return float(stats.hmean(items / wall * 1e9))


def outliers(values) -> np.ndarray:
    """Tukey's rule: True for each value more than 1.5 interquartile ranges outside the quartiles."""
    x = np.asarray(values, dtype=float)
    first, third = np.quantile(x, [0.25, 0.75])
    reach = 1.5 * (third - first)
    return (x < first - reach) | (x > third + reach)


def driver_bound(phases: pd.DataFrame) -> pd.Series:
    """Upper bound of the driver's own share of each phase's time.

    `driver_ns` is all the time between operations, so it has in it what else ran on the processor then, such as threads
    of the file system. The driver itself does the same work for every file system of a round: it cannot take longer
    than the shortest time between operations of any of them.
    """
    same = ["lab", "workload", "scale", "phase", "cache", "round"]
    least = phases["driver_ns"].astype(float).groupby([phases[key] for key in same]).transform("min")
    return least / phases["wall_ns"].astype(float)


def statistics(phases: pd.DataFrame) -> pd.DataFrame:
    """One row a cell, times in ns: columns are listed below. sd_ns has divisor n - 1, the rate is a harmonic mean."""
    rows = []
    keys = [*SETTING, *OPERATION, "label", "role"]
    for key, cell in measured(phases).groupby(keys, sort=True):
        x = cell["wall_ns"].to_numpy(dtype=float)
        mean, sd = x.mean(), (x.std(ddof=1) if len(x) > 1 else math.nan)
        bounds = interval(x)
        rows.append(
            dict(zip(keys, key, strict=True))
            | {
                "position": int(cell["position"].min()),
                "n": len(x),
                "mean_ns": mean,
                "sd_ns": sd,
                "variance_ns2": sd**2,
                "cv": sd / mean if mean else math.nan,
                "median_ns": float(np.median(x)),
                "low_ns": bounds["low"],
                "high_ns": bounds["high"],
                "interval": bounds["kind"],
                "coverage": bounds["coverage"],
                "min_ns": x.min(),
                "max_ns": x.max(),
                "geometric_mean_ns": float(stats.gmean(x)) if (x > 0).all() else math.nan,
                "items_per_second": harmonic_rate(cell["items"], x),
                "outliers": int(outliers(x).sum()),
            }
        )
    columns = [
        *keys,
        "position",
        "n",
        "mean_ns",
        "sd_ns",
        "variance_ns2",
        "cv",
        "median_ns",
        "low_ns",
        "high_ns",
        "interval",
    ]
    columns += ["coverage", "min_ns", "max_ns", "geometric_mean_ns", "items_per_second", "outliers"]
    return pd.DataFrame(rows, columns=columns)


def ratio(a, b, level: float = LEVEL) -> dict:
    """Ratio of the geometric means of `a` and `b`, paired by round, with an interval: ratio, low, high, kind.

    Equal length, positive, any unit. From six pairs on BCa bootstrap of the mean log ratio, below Student's t on the
    log ratios, with one pair none. If all pairs have one ratio the interval is that ratio.
    """
    logs = np.log(np.asarray(a, dtype=float) / np.asarray(b, dtype=float))
    centre = logs.mean()
    if len(logs) == 1:
        low, high, kind = math.nan, math.nan, "none"
    elif np.ptp(logs) < 1e-12:
        low, high, kind = centre, centre, "no spread"
    elif len(logs) < ENOUGH:
        low, high = _student(logs, level)
        kind = "Student t of paired log ratios"
    else:
        rng = np.random.default_rng(BOOTSTRAP_SEED)
        found = stats.bootstrap((logs,), np.mean, confidence_level=level, method="BCa", rng=rng).confidence_interval
        low, high, kind = found.low, found.high, "BCa bootstrap of paired log ratios"
    return {"ratio": math.exp(centre), "low": math.exp(low), "high": math.exp(high), "kind": kind}


def joint_interval(a, b, comparisons: int) -> tuple[float, float]:
    """Interval of the paired ratio that holds for `comparisons` of them together with 95 % (Bonferroni, Student's t).

    Always Student's t on log ratios: resampling a handful of rounds cannot reach the level needed. NaN for one pair.
    """
    logs = np.log(np.asarray(a, dtype=float) / np.asarray(b, dtype=float))
    if len(logs) < 2:
        return math.nan, math.nan
    low, high = _student(logs, 1 - (1 - LEVEL) / max(comparisons, 1))
    return math.exp(low), math.exp(high)


def cliffs_delta(a, b) -> float:
    """Cliff's delta: P(a > b) - P(a < b) over all pairs, from -1 (every a smaller) to 1."""
    difference = np.sign(np.subtract.outer(np.asarray(a, dtype=float), np.asarray(b, dtype=float)))
    return float(difference.mean())


def mann_whitney(a, b) -> float:
    """Exact two-sided p of the Mann-Whitney test; with ties by enumerating permutations, at most 9,999 of them."""
    a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    both = np.concatenate([a, b])
    if np.ptp(both) == 0:
        return 1.0
    ties = len(np.unique(both)) < len(both)
    method = stats.PermutationMethod(9999, rng=np.random.default_rng(BOOTSTRAP_SEED)) if ties else "exact"
    return float(stats.mannwhitneyu(a, b, method=method).pvalue)


def smallest_p(n: int, m: int) -> float:
    """Smallest two-sided p a Mann-Whitney test of n against m values can give: complete separation."""
    return min(1.0, 2 / math.comb(n + m, n))


def holm(p) -> np.ndarray:
    """Holm's correction of a family of p values. (The one of statsmodels collects garbage at every call: 0.2 s.)"""
    p = np.asarray(p, dtype=float)
    order = np.argsort(p, kind="stable")
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)), 1) if len(p) else []
    return adjusted


def rounds_to_reject(pairs: int, alpha: float = 0.05) -> int:
    """Rounds from which on a Mann-Whitney test can reject after Holm's correction for `pairs` tests."""
    return next(n for n in range(1, 1000) if smallest_p(n, n) * max(pairs, 1) < alpha)


def pairwise(phases: pd.DataFrame) -> pd.DataFrame:
    """Every two file systems of each operation: ratio a / b of wall times, intervals, Cliff's delta, Mann-Whitney.

    `n` counts the rounds both have (their ratio is paired by round); p_holm is corrected over the pairs of the
    operation, p_smallest is what complete separation would give before that correction. Ceilings are compared too but,
    being no contenders, are neither corrected for nor given a joint interval.
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
    """One row an operation: the contender with the smallest mean, and whether that is more than chance.

    verdict is `winner` if the joint interval of the ratio to the best lies above 1 for every other contender, so that
    with 95 % confidence the best was not chosen by luck; `tie` if for some it does not (they are in `tied`, separated
    by spaces); `unproved` if there is no interval at all (one round); `alone` if nothing else completed.
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


def ranks(table: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Friedman and Nemenyi over operations as blocks: (one row a contender and setting, one row a pair and setting).

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
    """Friedman's test of blocks (rows) and contenders: statistic, p, critical_difference, nemenyi (matrix or None)."""
    n, k = blocks.shape
    if n < 2 or k < 3:
        return {"statistic": math.nan, "p": math.nan, "critical_difference": math.nan, "nemenyi": None}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # all ranks tied: 0 / 0, reported as NaN
        statistic, p = stats.friedmanchisquare(*blocks.to_numpy().T)
    # Demšar 2006, section 3.2.2: studentised range over the square root of two.
    q = stats.studentized_range.ppf(LEVEL, k, np.inf) / math.sqrt(2)
    matrix = scikit_posthocs.posthoc_nemenyi_friedman(blocks.reset_index(drop=True))
    return {
        "statistic": statistic,
        "p": p,
        "critical_difference": q * math.sqrt(k * (k + 1) / (6 * n)),
        "nemenyi": matrix,
    }


def drift(phases: pd.DataFrame) -> pd.DataFrame:
    """Spearman correlation of wall time with the place in the order, one row a cell with at least six rounds, Holm."""
    rows = []
    keys = [*SETTING, *OPERATION, "label"]
    for key, cell in measured(phases).dropna(subset=["order"]).groupby(keys, sort=True):
        if len(cell) >= ENOUGH and cell["wall_ns"].nunique() > 1:
            found = stats.spearmanr(cell["order"].astype(float), cell["wall_ns"].astype(float))
            rows.append(dict(zip(keys, key, strict=True)) | {"n": len(cell), "rho": found.statistic, "p": found.pvalue})
    frame = pd.DataFrame(rows, columns=[*keys, "n", "rho", "p"])
    return frame.assign(p_holm=holm(frame["p"]))


def latency_quantiles(latency: pd.DataFrame, quantiles=(0.5, 0.9, 0.99, 1.0)) -> pd.DataFrame:
    """Quantiles of single operations, in ns (middle of the bucket), all rounds of a cell merged by adding counts."""
    rows = []
    keys = [*SETTING, *OPERATION, "label", "role"]
    for key, cell in measured(latency).groupby(keys, sort=True):
        merged = cell.groupby(["lower_ns", "upper_ns"], sort=True)["count"].sum().reset_index()
        share = merged["count"].cumsum() / merged["count"].sum()
        middle = (merged["lower_ns"] + merged["upper_ns"] - 1) / 2
        values = {f"q{q:g}": float(middle[int(np.searchsorted(share, q - 1e-12))]) for q in quantiles}
        rows.append(dict(zip(keys, key, strict=True)) | {"count": int(merged["count"].sum())} | values)
    return pd.DataFrame(rows, columns=[*keys, "count", *(f"q{q:g}" for q in quantiles)])


def counterpart(stack: str, stacks: dict[str, dict], available: list[str]) -> str | None:
    """The healthy stack that a degraded or rebuilding one is to be held against, or None.

    The same layers but for the fault (md-raid5-degraded and md-raid5), with the nearest number of disks; a rebuilding
    stack holds one disk as a spare. `stacks` maps a name to its state, layers and disks.
    """
    entry = stacks[stack]
    if entry["state"] == "healthy":
        return None
    active = entry["disks"] - (entry["state"] == "rebuilding")
    found = []
    for name in available:
        layers = stacks[name]["layers"]
        if stacks[name]["state"] == "healthy" and len(layers) == len(entry["layers"]):
            layered = zip(entry["layers"], layers, strict=True)
            same = all(own == other or own.startswith(f"{other}-") for own, other in layered)
            found += [(abs(stacks[name]["disks"] - active), name)] if same else []
    return min(found)[1] if found else None


def base(stacks: dict[str, dict], available: list[str]) -> str:
    """The stack that others are held against: `single`, or the first healthy one, or the first."""
    healthy = [name for name in available if stacks[name]["state"] == "healthy"]
    return "single" if "single" in available else (healthy or available)[0]


def references(stacks: dict[str, dict], available: list[str]) -> list[tuple[str, str, str]]:
    """(stack, its reference, relation) for stacks of one file system that have results, in the order of `stacks`.

    relation is `healthy` for a degraded or rebuilding stack beside its healthy counterpart, `base` for a stack beside
    `base`. Where that is not `single`, stacks with faults and their counterparts are among themselves.
    """
    available = [name for name in stacks if name in available]
    first = base(stacks, available)
    beside = {name: counterpart(name, stacks, available) for name in available}
    rows = [(name, other, "healthy") for name, other in beside.items() if other]
    for name in available:
        apart = bool(beside[name]) or name in beside.values()
        if name != first and (first == "single" or not apart):
            rows.append((name, first, "base"))
    return rows


STACK_KEYS = ["lab", "profile", "workload", "scale", "label"]


def stack_ratios(phases: pd.DataFrame, stacks: dict[str, dict]) -> pd.DataFrame:
    """Time on a stack over time of the same file system on its reference: one row a stack, operation and relation.

    Paired by round. Columns: lab, profile, workload, scale, label, role, stack, reference, relation (see
    `references`), phase, cache, position, n, ratio, low, high, kind.
    """
    rows = []
    for key, group, pairs in _comparable(phases, stacks):
        for (phase, cache), cells in group.groupby(["phase", "cache"], sort=True):
            wide = cells.pivot(index="round", columns="stack", values="wall_ns").astype(float)
            for stack, reference, relation in pairs:
                both = wide.reindex(columns=[stack, reference]).dropna()
                both = both[(both > 0).all(axis=1)]
                if len(both):
                    row = dict(zip(STACK_KEYS, key, strict=True)) | {"role": cells["role"].iloc[0]}
                    row |= {"stack": stack, "reference": reference, "relation": relation, "phase": phase}
                    row |= {"cache": cache, "position": int(group.loc[cells.index, "position"].max()), "n": len(both)}
                    rows.append(row | ratio(both[stack], both[reference]))
    names = [
        "role",
        "stack",
        "reference",
        "relation",
        "phase",
        "cache",
        "position",
        "n",
        "ratio",
        "low",
        "high",
        "kind",
    ]
    return pd.DataFrame(rows, columns=[*STACK_KEYS, *names])


def stack_typical(phases: pd.DataFrame, stacks: dict[str, dict]) -> pd.DataFrame:
    """As `stack_ratios`, over all operations: the geometric mean of their ratios, with its interval over rounds.

    Column `operations` counts those that both stacks completed in every round that both have.
    """
    rows = []
    for key, group, pairs in _comparable(phases, stacks):
        wide = group.pivot(index="round", columns=["stack", "phase", "cache"], values="wall_ns").astype(float)
        logs = np.log(wide.where(wide > 0))
        for stack, reference, relation in pairs:
            own, other = logs[stack].dropna(how="all"), logs[reference].dropna(how="all")
            difference = (own - other).dropna(how="all").dropna(axis=1)
            if difference.size:
                row = dict(zip(STACK_KEYS, key, strict=True)) | {"role": group["role"].iloc[0]}
                row |= {"stack": stack, "reference": reference, "relation": relation}
                row |= {"operations": difference.shape[1], "n": len(difference)}
                mean = np.exp(difference.mean(axis=1))
                rows.append(row | ratio(mean, np.ones(len(mean))))
    names = ["role", "stack", "reference", "relation", "operations", "n", "ratio", "low", "high", "kind"]
    return pd.DataFrame(rows, columns=[*STACK_KEYS, *names])


def _comparable(phases: pd.DataFrame, stacks: dict[str, dict]):
    """Key, completed phases and references of every file system that has results on two stacks or more."""
    for key, group in measured(phases).groupby(STACK_KEYS, sort=True):
        pairs = references(stacks, list(set(group["stack"])))
        if pairs:
            yield key, group, pairs


def rebuilds(phases: pd.DataFrame) -> pd.DataFrame:
    """Times to rebuild, from the spare's addition to an idle array: one row a setting, workload and file system.

    Columns as of `statistics`, and `during`: phases of which at least one round ended while the array was rebuilding,
    of `phases`.
    """
    done = phases[phases["status"] == "ok"]
    if "rebuilding" not in done:
        done = done.assign(operation="", rebuilding=None)
    rows = []
    keys = [*SETTING, "workload", "scale", "label"]
    for key, group in done.groupby(keys, sort=True):
        times = group.loc[group["operation"] == "rebuild", "wall_ns"].to_numpy(dtype=float)
        if len(times):
            bounds = interval(times)
            others = group[group["operation"] != "rebuild"].groupby(["phase", "cache"])["rebuilding"]
            during = others.agg(lambda column: bool((column == True).any()))  # noqa: E712 (nullable)
            rows.append(
                dict(zip(keys, key, strict=True))
                | {"n": len(times), "mean_ns": times.mean(), "median_ns": float(np.median(times))}
                | {"low_ns": bounds["low"], "high_ns": bounds["high"], "interval": bounds["kind"]}
                | {"coverage": bounds["coverage"], "min_ns": times.min(), "max_ns": times.max()}
                | {"during": int(during.sum()), "phases": len(during)}
            )
    columns = ["n", "mean_ns", "median_ns", "low_ns", "high_ns", "interval", "coverage", "min_ns", "max_ns", "during"]
    return pd.DataFrame(rows, columns=[*keys, *columns, "phases"])


CLOCK_KEYS = ["stack", "profile", "workload", "scale"]


def _lab_pairs(labs) -> list[tuple[str, str]]:
    """Every two labs, the exact one first."""
    names = sorted(set(labs), key=lambda lab: (lab != "exact", lab))
    return [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]


def clock_ratios(phases: pd.DataFrame) -> pd.DataFrame:
    """Time by lab b's clock over time by lab a's of the same file system and operation; ceilings take part.

    Paired by round, because rounds have the same input in all labs. Columns: a, b, stack, profile, workload, scale,
    phase, cache, position, label, n, ratio, low, high, kind.
    """
    rows = []
    keys = [*CLOCK_KEYS, "phase", "cache", "label"]
    for key, cells in measured(phases).groupby(keys, sort=True):
        wide = cells.pivot(index="round", columns="lab", values="wall_ns").astype(float)
        for a, b in _lab_pairs(wide.columns):
            both = wide[[a, b]].dropna()
            both = both[(both > 0).all(axis=1)]
            if len(both):
                row = dict(zip(keys, key, strict=True)) | {"a": a, "b": b, "position": int(cells["position"].min())}
                rows.append(row | {"n": len(both)} | ratio(both[b], both[a]))
    return pd.DataFrame(rows, columns=["a", "b", *keys, "position", "n", "ratio", "low", "high", "kind"])


def orders(table: pd.DataFrame, pairs: pd.DataFrame) -> pd.DataFrame:
    """How alike two labs order the file systems of an operation; `table` is `statistics`, `pairs` is `pairwise`.

    By geometric means; ceilings take part, for they have times in both labs. Kendall's tau-b with its exact p (where
    no two are equal). `pairs` counts the pairs of file systems, `told` those whose ratio's 95 % interval excludes 1 in
    both labs, `same` those of them with the same order in both. Operations with fewer than three file systems are left
    out.
    """
    rows = []
    keys = [*CLOCK_KEYS, "phase", "cache"]
    for key, cells in table.groupby(keys, sort=True):
        wide = cells.pivot(index="label", columns="lab", values="geometric_mean_ns")
        known = pairs[(pairs[keys] == list(key)).all(axis=1)]
        told = known.assign(sign=np.where(known["low"] > 1, 1, np.where(known["high"] < 1, -1, 0)))
        told = told.pivot(index=["a", "b"], columns="lab", values="sign")
        for a, b in _lab_pairs(wide.columns):
            both = wide[[a, b]].dropna()
            if len(both) < 3:
                continue
            found = stats.kendalltau(both[a], both[b])
            signs = told[[a, b]].dropna().query(f"`{a}` != 0 and `{b}` != 0")
            rows.append(
                dict(zip(keys, key, strict=True))
                | {"a": a, "b": b, "position": int(cells["position"].min()), "labels": len(both)}
                | {"tau": found.statistic, "p": found.pvalue, "pairs": math.comb(len(both), 2)}
                | {"told": len(signs), "same": int((signs[a] == signs[b]).sum())}
            )
    columns = ["a", "b", *keys, "position", "labels", "tau", "p", "pairs", "told", "same"]
    return pd.DataFrame(rows, columns=columns)


def agreement(table: pd.DataFrame) -> pd.DataFrame:
    """`orders` pooled over operations, a row for two labs, a stack and a profile.

    tau is the mean of the operations' tau-b; low, high its 95 % percentile interval by a bootstrap over operations.
    """
    rows = []
    keys = ["a", "b", "stack", "profile"]
    for key, group in table.groupby(keys, sort=True):
        tau = group["tau"].to_numpy(dtype=float)
        rng = np.random.default_rng(BOOTSTRAP_SEED)
        drawn = rng.choice(tau, (9999, len(tau))).mean(axis=1)
        low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]) if len(tau) > 1 else (math.nan, math.nan)
        counts = {name: int(group[name].sum()) for name in ("pairs", "told", "same")}
        row = dict(zip(keys, key, strict=True)) | {"operations": len(group), "labels": int(group["labels"].max())}
        rows.append(row | {"tau": tau.mean(), "low": low, "high": high} | counts)
    return pd.DataFrame(rows, columns=[*keys, "operations", "labels", "tau", "low", "high", "pairs", "told", "same"])


def _student(values: np.ndarray, level: float) -> tuple[float, float]:
    """Student's t interval of the mean; without spread the mean itself."""
    mean, error = values.mean(), values.std(ddof=1) / math.sqrt(len(values))
    if error < 1e-12 * max(1.0, abs(mean)):
        return mean, mean
    low, high = stats.t.interval(level, len(values) - 1, loc=mean, scale=error)
    return float(low), float(high)


def _pair(wide: pd.DataFrame, a: str, b: str, comparisons: int, contender: bool) -> dict:
    """One row of `pairwise`; `wide` is rounds, labels."""
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
