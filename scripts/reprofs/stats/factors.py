"""Which factor brings ratios of file systems nearer to published ones; each is changed alone, from one base."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import scipy  # scipy.stats takes seconds to import, so scipy imports it on first use

from reprofs.data.keys import select
from reprofs.errors import UserError
from reprofs.plan.cell import Cell
from reprofs.stats import compare
from reprofs.stats.cells import measured
from reprofs.stats.published import numbers
from reprofs.stats.published.ranks import DIFFERENT
from reprofs.stats.study import Study

BASE = "base"
RATIO = ["filesystem", "phase", "cache"]  # what a ratio to the reference is of
OFF = 1.5  # a ratio this factor or more from the published one deviates


def effects(study: Study) -> pd.DataFrame:
    """One row per factor (the base first), file system and operation with published numbers of it and of the reference.

    The reference is the last file system of the base. Columns: factor, filesystem, phase, cache, reference, position, n
    (rounds), ratio of the file system's time to the reference's with low and high (see `compare.ratio`), rounds (that
    ratio by round, a dictionary), base (the ratio in the base), change (ratio over base), published (the published
    ratio), pace (time for one of what the size counts, such as a file, over the published one: geometric mean of both
    file systems). Of a workload that is repeated in one file system the last run counts.
    """
    factors = study.plan.factors
    if not factors:
        raise UserError(f"The study {study.plan.study.name} has no factors: open one that has, such as why-2015.")
    reference = factors[0].cells[-1].filesystem
    (told, size), rows = _published(study), []
    for factor in factors:
        own_size = _size(study, factor.cells[0])
        times = {cell.filesystem: _times(study, cell) for cell in factor.cells}
        for name in times:
            if name == reference or reference not in times:
                continue
            both = times[name].join(times[reference]["wall_ns"].rename("reference_ns"), how="inner")
            for (phase, cache), own in both.groupby(["phase", "cache"], sort=False):
                if not {(name, phase, cache), (reference, phase, cache)} <= told.keys():
                    continue
                there = told[name, phase, cache], told[reference, phase, cache]
                rows.append(
                    {
                        "factor": factor.title or BASE,
                        **dict(zip(RATIO, (name, phase, cache), strict=True)),
                        "reference": reference,
                        "position": int(own["position"].min()),
                        "n": len(own),
                        **compare.ratio(own["wall_ns"], own["reference_ns"]),
                        "rounds": (own["wall_ns"] / own["reference_ns"]).droplevel(["phase", "cache"]).to_dict(),
                        "published": there[0] / there[1],
                        "pace": _mean(own["wall_ns"], own["reference_ns"])
                        / own_size
                        / math.sqrt(math.prod(there))
                        * size,
                    }
                )
    columns = ["factor", *RATIO, "reference", "position", "n", "ratio", "low", "high", "rounds"]
    frame = pd.DataFrame(rows, columns=[*columns, "published", "pace"])
    base = frame[frame["factor"] == BASE].set_index(RATIO)["ratio"]
    frame["base"] = [base.get(key, math.nan) for key in frame[RATIO].itertuples(index=False, name=None)]
    frame["change"] = frame["ratio"] / frame["base"]
    return frame[[*columns, "base", "change", "published", "pace"]]


def changes(effects: pd.DataFrame) -> pd.DataFrame:
    """Whether a change does more than another repetition of the base, one row a factor (its index, named factor).

    Columns: ratios, n (rounds that both have), relative (distance from the published ratios over that of the base, over
    the same ratios: geometric mean), low, high (its 95 % interval over rounds, paired) and p (paired t test over
    rounds; NaN with one, which cannot tell a change from another repetition).
    """
    rows = [
        {"factor": row.factor, "key": (row.filesystem, row.phase, row.cache), "round": number}
        | {"log": math.log(away(ratio, row.published))}
        for row in effects.itertuples()
        for number, ratio in row.rounds.items()
    ]
    frame = pd.DataFrame(rows, columns=["factor", "key", "round", "log"])
    base = frame[frame["factor"] == BASE]
    both = frame[frame["factor"] != BASE].merge(base, on=["key", "round"], suffixes=("", "_base"))
    both["change"] = both["log"] - both["log_base"]
    found = {}
    for factor, own in both.groupby("factor", sort=False):
        tested = compare.paired(own.groupby("round")["change"].mean().to_numpy()[:, None])
        found[factor] = {"ratios": own["key"].nunique()} | {
            name: tested[name][0] for name in ("n", "ratio", "low", "high", "p")
        }
    table = pd.DataFrame.from_dict(found, orient="index", columns=["ratios", "n", "ratio", "low", "high", "p"])
    return table.rename(columns={"ratio": "relative"}).rename_axis("factor")


def by_chance(effects: pd.DataFrame) -> float:
    """How many ratios of `deviating` as many other repetitions of the base as there are changes would bring within OFF.

    By the spread of the base's rounds, taken as normal; NaN where it has one round.
    """
    total = 0.0
    for _, own in effects.groupby(RATIO, sort=False):
        base = own[own["factor"] == BASE]
        if base.empty or away(base["ratio"].iloc[0], base["published"].iloc[0]) < OFF:
            continue
        logs, changed = np.log(list(base["rounds"].iloc[0].values())), own.loc[own["factor"] != BASE, "n"]
        if len(logs) < 2:
            return math.nan
        spread = max(logs.std(ddof=1), 1e-12) * np.sqrt(1 / len(logs) + 1 / changed.to_numpy(float))
        ends = np.array([[math.log(OFF)], [-math.log(OFF)]]) + math.log(base["published"].iloc[0])
        near = np.diff(-scipy.special.ndtr((ends - logs.mean()) / spread), axis=0)[0]
        total += 1 - np.prod(1 - near)
    return total


def summary(effects: pd.DataFrame) -> pd.DataFrame:
    """One row per factor, the base first: how near its ratios are to the published ones, and what it changes most.

    Columns: factor, ratios (how many), off (geometric mean of the factors by which they are away from the published
    ones), base_off (the same of the base, over the same ratios), pace (geometric mean), same_side (ratios on the side
    of 1 on which the published one is), nearer and further (how many ratios, by 10 % or more, than in the base), and of
    the largest change filesystem, phase, cache, base, ratio, change, published (of the base: NaN).
    """
    rows = []
    for factor, own in effects.groupby("factor", sort=False):
        own = own.dropna(subset="base")
        if own.empty:
            continue
        off, base_off = away(own["ratio"], own["published"]), away(own["base"], own["published"])
        most = own.loc[np.log(own["change"]).abs().idxmax(), [*RATIO, "base", "ratio", "change", "published"]]
        rows.append(
            {
                "factor": factor,
                "ratios": len(own),
                "off": math.exp(np.log(off).mean()),
                "base_off": math.exp(np.log(base_off).mean()),
                "pace": _mean(own["pace"]),
                "same_side": int(((own["ratio"] > 1) == (own["published"] > 1)).sum()),
                "nearer": int((off < base_off / DIFFERENT).sum()),
                "further": int((off > base_off * DIFFERENT).sum()),
                **(dict.fromkeys(most.index, math.nan) if factor == BASE else most.to_dict()),
            }
        )
    return pd.DataFrame(rows)


def deviating(effects: pd.DataFrame) -> pd.DataFrame:
    """The ratios of the base that are off by the factor OFF or more, farthest first, and the factor nearest to each.

    Columns: those of RATIO, position, published, base, off, nearest (the factor whose ratio is nearest to the published
    one, or the base), ratio (its), left (by what factor that is still off).
    """
    rows = []
    for key, own in effects.groupby(RATIO, sort=False):
        base = own[own["factor"] == BASE]
        off = away(own["ratio"], own["published"])
        if base.empty or off[base.index[0]] < OFF:
            continue
        nearest = own.loc[off.idxmin()]
        rows.append(
            {
                **dict(zip(RATIO, key, strict=True)),
                **{name: base.iloc[0][name] for name in ("position", "published", "base")},
                "off": off[base.index[0]],
                "nearest": nearest["factor"],
                "ratio": nearest["ratio"],
                "left": off.min(),
            }
        )
    columns = [*RATIO, "position", "published", "base", "off", "nearest", "ratio", "left"]
    return pd.DataFrame(rows, columns=columns).sort_values("off", ascending=False, kind="stable", ignore_index=True)


def away(ratio, published):
    """The factor, 1 or more, by which a ratio differs from the published one: numbers, or columns of one length."""
    return np.exp(np.abs(np.log(ratio / published)))


def _mean(*times: pd.Series) -> float:
    """Geometric mean of all of them."""
    return math.exp(np.log(np.concatenate([one.to_numpy(float) for one in times])).mean())


def _size(study: Study, cell: Cell) -> int:
    """How many of what the published size counts a cell has."""
    published = study.plan.published
    return study.plan.workloads[cell.workload].parameters[(published and published.size) or ""]


def _times(study: Study, cell: Cell) -> pd.DataFrame:
    """wall_ns and position of a cell's operations by phase, cache and round; the last run's where there are several."""
    trials = set(select(study.trials, **cell.names())["trial"])
    own = measured(study.phases)
    own = own[own["trial"].isin(trials)].set_index(["phase", "cache", "round"])[["wall_ns", "position"]]
    if study.plan.workloads[cell.workload].runs > 1:
        runs = study.samples[study.samples["trial"].isin(trials) & study.samples["iteration"].notna()]
        runs = runs[runs["name"] == runs["phase"]].sort_values("iteration", kind="stable")
        last = runs.groupby(["phase", "cache", "round"])["wall_ns"].last()
        own = own.assign(wall_ns=last.reindex(own.index))
    return own.astype(float)


def _published(study: Study) -> tuple[dict[tuple, float], int]:
    """(file system, phase, cache) -> published ns of the base's configuration, at the size nearest to the base's.

    And that size.
    """
    base = study.plan.factors[0].cells
    times = numbers.times(numbers.load(study.plan.study.published or ""))
    size = numbers.nearest(times["size"], _size(study, base[0]))
    times = times[times["size"] == size]
    found = {}
    for cell in base:
        label = select(study.trials, **cell.names())["label"].iloc[0]
        own = select(times, stack=cell.stack, label=label)
        for row in own.itertuples():
            found[cell.filesystem, row.phase, row.cache] = row.median_s * 1e9
    return found, int(size)
