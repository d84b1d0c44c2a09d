"""Labs against each other: by orders of file systems and by ratios, never by times."""

import itertools
import math
from collections.abc import Collection, Iterable

import numpy as np
import pandas as pd
import scipy  # scipy.stats takes seconds to import, so scipy imports it on first use

from reprofs.data.study import Tables
from reprofs.stats.cells import LEVEL, cubes, groups, measured
from reprofs.stats.compare import holm, paired

BOOTSTRAP_SEED = 20260101
HALVES = 500  # of thirty repetitions there are 77 million
CLOCK_KEYS = ["stack", "profile", "workload", "scale"]
COUNTS = ["pairs", "told", "same", "firm", "firm_same"]


def _lab_pairs(labs: Iterable[str], exact: Collection[str]) -> list[tuple[str, str]]:
    """All pairs of labs, those with an exact one first."""
    names = sorted(set(labs), key=lambda lab: (lab not in exact, lab))
    return [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]


def clock_ratios(phases: pd.DataFrame, exact: Collection[str] = ()) -> pd.DataFrame:
    """Time by lab b's clock over time by lab a's of the same file system and operation; upper bounds take part.

    exact: the labs that always give the same numbers; in a pair with another one they are lab a. Paired by round,
    because rounds have the same input in all labs. Columns: a, b, stack, profile, workload, scale, phase, cache,
    position, label, n, ratio, low, high, and processor: the same ratio of the processor's times (user and system;
    geometric mean of the rounds, empty where either lab saw none).
    """
    keys = [*CLOCK_KEYS, "phase", "cache", "label"]
    columns = ["a", "b", *keys, "position", "n", "ratio", "low", "high", "processor"]
    own = measured(phases)
    places, number = groups(own, keys)
    times = (own["wall_ns"], own["user_ns"] + own["system_ns"]) if own["lab"].nunique() > 1 else ()
    frames = []
    for cube in cubes(own, number, "round", "lab", *(time.to_numpy(float, na_value=math.nan) for time in times)):
        for a, b in _lab_pairs(cube.names.ravel(), exact):
            # The places of both labs in each group, which need not have both.
            here = np.flatnonzero((cube.names == a).any(axis=1) & (cube.names == b).any(axis=1))
            if not len(here):
                continue
            sides = [(cube.names[here] == name).argmax(axis=1) for name in (a, b)]
            first, second = ([np.where(v > 0, v, math.nan)[here, :, side] for v in cube.values] for side in sides)
            found = paired(np.log(second[0] / first[0]).T)
            worked = np.log(second[1]) - np.log(first[1])
            known = np.isfinite(worked).sum(axis=1)
            sums = np.where(known > 0, np.nansum(worked, axis=1), math.nan)
            row = {"a": a, "b": b} | {key: found[key] for key in ("n", "ratio", "low", "high")}
            frames.append(pd.DataFrame(row | {"processor": np.exp(sums / np.maximum(known, 1))}, cube.group[here]))
    frames = [frame[frame["n"] > 0] for frame in frames]
    if not frames:
        return pd.DataFrame([], columns=columns)
    position = own["position"].groupby(number).min().astype(int).rename("position")
    order = {pair: place for place, pair in enumerate(_lab_pairs(own["lab"], exact))}
    found = places.join(position).join(pd.concat(frames), how="inner").rename_axis("group").reset_index()
    found["pair"] = [order[pair] for pair in zip(found["a"], found["b"], strict=True)]
    return found.sort_values(["group", "pair"], ignore_index=True)[columns]


def orders(table: pd.DataFrame, pairs: pd.DataFrame, exact: Collection[str] = ()) -> pd.DataFrame:
    """How alike two labs order the file systems of an operation; `table` is `statistics`, `pairs` is `pairwise`.

    exact: see `clock_ratios`.

    By geometric means; upper bounds take part, since they have times in both labs. Columns: Kendall's tau-b with its
    exact p (where no two are equal); `pairs` counts the pairs of file systems, `told` those whose ratio has a 95 %
    interval without 1 in both labs, `same` those of them with the same order in both. `firm` and `firm_same` are these
    two where the differences are also significant after Holm's correction over all pairs of a lab. `error` is the
    factor by which the ratio of two file systems in one lab typically differs from that in the other: exp of the root
    mean square of the logarithms over all pairs, 1 for labs whose times are proportional. Operations with fewer than
    three file systems are left out.
    """
    rows = []
    keys = [*CLOCK_KEYS, "phase", "cache"]
    several = table["lab"].nunique() > 1
    family = pairs.groupby("lab")["p"].transform(holm)
    sign = np.where(pairs["low"] > 1, 1, np.where(pairs["high"] < 1, -1, 0))
    pairs = pairs.assign(told=sign, firm=np.where(family < 1 - LEVEL, sign, 0))
    compared = dict(list(pairs.groupby(keys))) if several else {}
    for key, cells in table.groupby(keys, sort=True) if several else ():
        wide = cells.pivot(index="label", columns="lab", values="geometric_mean_ns")
        signs = compared.get(key, pairs.iloc[:0]).pivot(index=["a", "b"], columns="lab", values=["told", "firm"])
        for a, b in _lab_pairs(wide.columns, exact):
            both = wide[[a, b]].dropna()
            if len(both) < 3:
                continue
            found = scipy.stats.kendalltau(both[a], both[b])
            apart = np.log(both[a] / both[b]).to_numpy()
            apart = [apart[i] - apart[j] for i in range(len(apart)) for j in range(i)]
            rows.append(
                dict(zip(keys, key, strict=True))
                | {"a": a, "b": b, "position": int(cells["position"].min()), "labels": len(both)}
                | {"tau": found.statistic, "p": found.pvalue, "pairs": math.comb(len(both), 2)}
                | {"error": float(np.exp(np.sqrt(np.mean(np.square(apart)))))}
                | _alike(signs["told"][[a, b]], "told", "same")
                | _alike(signs["firm"][[a, b]], "firm", "firm_same")
            )
    columns = ["a", "b", *keys, "position", "labels", "tau", "p", *COUNTS, "error"]
    return pd.DataFrame(rows, columns=columns)


SIZES = {
    1.02: "below 2 %",
    1.1: "2 to 10 %",
    1.5: "10 to 50 %",
    math.inf: "above 50 %",
}  # of differences, by their ends
OUTCOMES = ["same", "contradicted", "inconclusive", "no difference"]


def carried(pairs: pd.DataFrame, a: str, b: str) -> pd.DataFrame:
    """Every two file systems of an operation in labs a and b: whether lab b has lab a's difference, too.

    pairs: `pairwise`. Columns: its keys, a, b (turned: a takes longer in lab a), contenders, ratio, low, high (in
    lab a), other_ratio, other_low, other_high (in lab b), size (of the difference in lab a, see SIZES), and outcome:
    `no difference`: lab a's 95 % interval holds 1. Else lab b's decides: `same` direction, `contradicted`, or
    `inconclusive`, where it holds 1.
    """
    keys = [*CLOCK_KEYS, "phase", "cache", "a", "b"]
    ends = ["ratio", "low", "high"]
    own, other = (pairs[pairs["lab"] == lab] for lab in (a, b))
    other = other[[*keys, *ends]].rename(columns={end: f"other_{end}" for end in ends})
    both = own[[*keys, "contenders", *ends]].merge(other, on=keys).dropna()
    turned = both["ratio"].astype(float) < 1
    for one, two in (("a", "b"), ("low", "high"), ("other_low", "other_high")):
        both[one], both[two] = both[one].where(~turned, both[two]), both[two].where(~turned, both[one])
    for column in (*ends, *(f"other_{end}" for end in ends)):
        both[column] = both[column].astype(float).where(~turned, 1 / both[column].astype(float))
    size = pd.cut(both["ratio"], [0, *SIZES], right=False, labels=list(SIZES.values()))
    cases = [both["low"].astype(float) <= 1, both["other_low"].astype(float) > 1, both["other_high"].astype(float) < 1]
    outcome = np.select(cases, ["no difference", "same", "contradicted"], "inconclusive")
    return both.assign(size=size, outcome=pd.Categorical(outcome, OUTCOMES)).reset_index(drop=True)


KINDS = ["two drivers", "their variants", "one driver", "with a baseline"]


def kind(tables: Tables, pairs: pd.DataFrame) -> pd.Series:
    """What kind of pair each row of `carried` is, one of KINDS.

    `two drivers`: each has one label, the first of it that the study names; so a driver counts once, however many of
    its variants ran. `their variants`: other labels of two drivers. `one driver`: file systems that the same tools
    make, such as ext2 (which the ext4 driver mounts), ext4, and overlayfs on ext4. `with a baseline`: never ranked.
    """
    named = tables.plan.study.filesystems or []

    def place(label: str) -> int:
        return next((i for i, one in enumerate(named) if label == one or label.startswith(f"{one}+")), len(named))

    ran = tables.trials[tables.trials["status"] == "ok"]
    names = ran.drop_duplicates("label").set_index("label")["filesystem"]
    tools = {label: {name, *tables.plan.filesystems[name].packages} for label, name in names.items()}
    first: list[str] = []
    for label in sorted(tools, key=lambda label: (place(label), label)):
        first += [] if any(tools[label] & tools[other] for other in first) else [label]
    ends = list(zip(pairs["a"], pairs["b"], strict=True))
    never = set(tables.trials.loc[~tables.trials["role"].isin(["contender", "variant"]), "label"])
    cases = [
        pairs["a"].isin(never) | pairs["b"].isin(never),
        np.array([bool(tools[a] & tools[b]) for a, b in ends], bool),
        np.array([a in first and b in first for a, b in ends], bool),
    ]
    found = np.select(cases, ["with a baseline", "one driver", "two drivers"], "their variants")
    return pd.Series(pd.Categorical(found, KINDS), pairs.index)


def hand_over(a: pd.Series, b: pd.Series, reads: pd.Series) -> tuple[float, float]:
    """(pace, ns) of `b = pace * a + ns * reads`, by least squares of the relative errors.

    a, b: times in ns of the same operations in two labs; reads: read requests in lab b. A loop device of a host hands
    each request to another thread, which takes ns; the exact lab's disk completes it at once (docs/methods/trust.md).
    """
    x, y, number = (side.to_numpy(float) for side in (a, b, reads))
    pace, ns = np.linalg.lstsq(np.column_stack([x / y, number / y]), np.ones(len(y)), rcond=None)[0]
    return float(pace), float(ns)


def distance(a: pd.Series, b: pd.Series) -> dict[str, float]:
    """By which factor the ratio of two file systems in a differs from that in b, over all pairs of each operation.

    a, b: times by the keys of an operation and label. rms: exp of the root mean square of the logarithms, 1 where the
    times are proportional; median: exp of their median; pairs: how many.
    """
    logs = np.log(a.astype(float) / b.astype(float)).dropna()
    groups = logs.groupby(level=[name for name in logs.index.names if name != "label"])
    found = [abs(np.subtract.outer(own, own)[np.triu_indices(len(own), 1)]) for own in groups.agg(list).map(np.array)]
    apart = np.concatenate(found) if found else np.array([])
    if not len(apart):
        return {"rms": math.nan, "median": math.nan, "pairs": 0}
    rms, median = np.exp([np.sqrt(np.mean(apart**2)), np.median(apart)])
    return {"rms": float(rms), "median": float(median), "pairs": len(apart)}


def fits(phases: pd.DataFrame, a: str, b: str) -> tuple[float, pd.DataFrame]:
    """What `hand_over` costs between two labs (ns a read), and how well each fit predicts lab b: rows of `distance`.

    The rows: lab a as it is; with the fitted reads; the same, each file system predicted by the fit to the others;
    and lab b itself, half of its repetitions against the rest.
    """
    own = measured(phases)
    keys = [*CLOCK_KEYS[2:], "phase", "cache", "label"]
    mean = own.groupby([*keys, "lab"])["wall_ns"].agg(lambda ns: scipy.stats.gmean(ns.astype(float))).unstack()
    own = own[own["lab"] == b]
    reads = own.groupby(keys)["device_reads"].mean().astype(float).fillna(0).rename("reads")
    mean = mean[[a, b]].dropna().join(reads)
    pace, cost = hand_over(mean[a], mean[b], mean["reads"])
    left_out = []
    for _, rows in mean.groupby("label"):
        rest = mean.drop(rows.index)
        fit = hand_over(rest[a], rest[b], rest["reads"]) if len(rest) > 2 else (pace, cost)
        left_out.append(fit[0] * rows[a] + fit[1] * rows["reads"])
    found = {
        a: distance(mean[a], mean[b]),
        f"{a} and {cost / 1000:.0f} µs a read": distance(pace * mean[a] + cost * mean["reads"], mean[b]),
        "the same, fitted to the other file systems": distance(pd.concat(left_out), mean[b]),
    }
    logs = own.assign(log=np.log(own["wall_ns"].to_numpy(float)))
    grid = logs.pivot_table(index=keys, columns="round", values="log").dropna()
    halves = [
        distance(*(np.exp(grid[[*side]].mean(axis=1)) for side in (some, grid.columns.difference([*some]))))
        for some in _halves([*grid.columns])
    ]
    if halves:
        found[f"{b} itself, half of the repetitions"] = pd.DataFrame(halves).mean().to_dict()
    return cost, pd.DataFrame(found).T


def _halves(rounds: list[int]) -> list[tuple[int, ...]]:
    """Halves of the repetitions, each with the first one: all of them, or as many as HALVES, drawn."""
    half, rest = len(rounds) // 2, rounds[1:]
    if not half:
        return []
    if math.comb(len(rest), half - 1) <= HALVES:
        return [(rounds[0], *some) for some in itertools.combinations(rest, half - 1)]
    rng = np.random.default_rng(BOOTSTRAP_SEED)
    return [(rounds[0], *rng.choice(rest, half - 1, replace=False)) for _ in range(HALVES)]


def _alike(signs: pd.DataFrame, all_of_them: str, same: str) -> dict[str, int]:
    """How many pairs have a sign in both labs (columns of `signs`), and the same."""
    both = signs.dropna()
    both = both[(both != 0).all(axis=1)]
    return {all_of_them: len(both), same: int((both.iloc[:, 0] == both.iloc[:, 1]).sum())}


def agreement(table: pd.DataFrame, clocks: pd.DataFrame) -> pd.DataFrame:
    """`orders` pooled over operations, one row per pair of labs, stack and profile; `clocks` is `clock_ratios`.

    tau is the mean of the operations' tau-b; low, high its 95 % percentile interval by a bootstrap over operations.
    error is that of all pairs of all operations. pace is the geometric mean of the ratios of the times of the processor
    (lab b over lab a) over operations and file systems, spread their geometric standard deviation, slowest and fastest
    the extremes.
    """
    rows = []
    keys = ["a", "b", "stack", "profile"]
    for key, group in table.groupby(keys, sort=True):
        tau = group["tau"].to_numpy(dtype=float)
        rng = np.random.default_rng(BOOTSTRAP_SEED)
        drawn = rng.choice(tau, (9999, len(tau))).mean(axis=1)
        low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]) if len(tau) > 1 else (math.nan, math.nan)
        counts = {name: int(group[name].sum()) for name in COUNTS}
        row = dict(zip(keys, key, strict=True)) | {"operations": len(group), "labels": int(group["labels"].max())}
        square = np.average(np.log(group["error"].to_numpy(dtype=float)) ** 2, weights=group["pairs"])
        row |= {"tau": tau.mean(), "low": low, "high": high, "error": float(np.exp(np.sqrt(square)))} | counts
        rows.append(row | _pace(clocks[(clocks[keys] == list(key)).all(axis=1)]["processor"]))
    columns = [*keys, "operations", "labels", "tau", "low", "high", *COUNTS, "error"]
    return pd.DataFrame(rows, columns=[*columns, "pace", "spread", "slowest", "fastest"])


def _pace(ratios: pd.Series) -> dict[str, float]:
    logs = np.log(ratios.dropna().to_numpy(dtype=float))
    if not len(logs):
        return dict.fromkeys(("pace", "spread", "slowest", "fastest"), math.nan)
    spread = logs.std(ddof=1) if len(logs) > 1 else math.nan
    found = {"pace": logs.mean(), "spread": spread, "slowest": logs.max(), "fastest": logs.min()}
    return {name: float(np.exp(value)) for name, value in found.items()}
