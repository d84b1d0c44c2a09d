"""Workloads as a whole: each file system against the fastest, and where the ranking turns."""

from __future__ import annotations

import numpy as np
import pandas as pd

from reprofs.data.keys import SETTING, Load, Setting, distinct, select
from reprofs.plan.workload import without_size
from reprofs.stats import recorded
from reprofs.stats.cells import COMPUTE, ENOUGH, LEVEL, measured
from reprofs.stats.compare import FEW, holm, versus
from reprofs.stats.study import Study

ROLES = {"ceiling": "baseline", "no-promise": "not durable", "not-cold": "not cold", "variant": "variant"}
FRONT = {
    "fastest": "fastest",
    "equivalent": "equally fast",
    "undecided": "not significantly different",
    FEW: FEW,
    "alone": "alone",
}


def ranked(study: Study) -> pd.DataFrame:
    """One row a file system and workload in each setting: `results.totals` in ms against the fastest there.

    Columns more: best (label), ratio with ratio_low and ratio_high (time over that of best, paired by repetition; NaN
    where nothing is paired), verdict: `fastest`, `equally fast` and `not significantly different` of those in front
    (`stats.compare.winners`), `slower`, `alone`; of the unranked `baseline`, `not durable`, `not cold`, `variant`.
    Workloads without a total, and devices without a file system, have no rows. Sorted by setting, workload, rank.
    """
    found = []
    for setting in distinct(study.results.totals, Setting):
        for load in distinct(select(study.results.cheapest, setting), Load):
            if study.plan.workloads[load.workload].raw:
                continue
            (best,) = select(study.results.cheapest, setting, load).itertuples()
            rows = select(study.results.totals, setting, load)
            pairs = versus(select(study.results.rivals, setting, load), best.best).set_index("other")
            ends = pairs.reindex(rows["label"])[["ratio", "low", "high"]].to_numpy(float)
            rows = rows.assign(best=best.best, ratio=ends[:, 0], ratio_low=ends[:, 1], ratio_high=ends[:, 2])
            front = {best.best, *best.level}
            rows["verdict"] = [
                ROLES.get(role) or (FRONT[best.verdict] if label in front else "slower")
                for label, role in zip(rows["label"], rows["role"], strict=True)
            ]
            rows.loc[rows["label"] == best.best, "ratio"] = 1.0
            aside = rows["role"] != "contender"
            found.append(rows.assign(_aside=aside).sort_values(["_aside", "geometric_mean_ns", "label"]))
    more = dict.fromkeys(("best", "ratio", "ratio_low", "ratio_high", "verdict", "_aside"))
    rows = pd.concat(found or [study.results.totals.iloc[:0].assign(**more)], ignore_index=True).drop(columns="_aside")
    milliseconds = {f"{name}ms": rows[f"{name or 'geometric_mean_'}ns"] / 1e6 for name in ("", "low_", "high_")}
    where = [study.differing(Setting(*row)) for row in rows[SETTING].itertuples(index=False, name=None)]
    return rows.assign(**milliseconds, where=where)


def contested(study: Study, rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of `ranked` of workloads that two contenders or more were planned for; all rows where none was.

    What one file system alone was asked for, such as other sizes of its device, is in no ranking.
    """
    keys = [*SETTING, *Load._fields]
    planned = study.trials[study.trials["role"] == "contender"].groupby(keys)["label"].nunique()
    several = planned.reindex(pd.MultiIndex.from_frame(rows[keys])).to_numpy() > 1
    return rows[several] if several.any() else rows


def variants(study: Study) -> pd.DataFrame:
    """Every variant that is not ranked against the contender of its own file system, one row a workload and setting.

    Columns: the keys of `results.totals`, label, parent (the contender's label), n, ratio, low, high (time over that of
    the parent, paired by repetition), verdict: `slower` and `faster` (by the margin or more, and significant by Holm
    over the setting), `equally fast`, `not significantly different`, `not enough repetitions`.
    """
    totals, rivals, margins = study.results.totals, study.results.rivals, study.margins
    systems = study.trials.drop_duplicates("label").set_index("label")["filesystem"]
    rows = totals[totals["role"].isin(["contender", "variant"])].astype({"label": str})
    # Of one file system on several networks each has a variant's name and, after @, its network.
    rows = rows.assign(of=rows["label"].map(systems) + rows["label"].str.replace("^[^@]*", "", regex=True))
    keys = [*SETTING, "workload", "scale"]
    parents = rows.loc[rows["role"] == "contender", [*keys, "of", "label"]].rename(columns={"label": "parent"})
    found = []
    for row in rows[rows["role"] == "variant"].merge(parents, on=[*keys, "of"]).to_dict("records"):
        here = {key: row[key] for key in keys}
        (pair,) = versus(select(rivals, **here), row["parent"]).query("other == @row['label']").to_dict("records")
        found.append(here | {"label": row["label"], "parent": row["parent"]} | pair)
    columns = [*keys, "label", "parent", "n", "ratio", "low", "high", "p", "p_equal"]
    frame = pd.DataFrame(found, columns=columns)
    sure = frame.groupby(SETTING)["p"].transform(holm) < 1 - LEVEL
    win = 1 + margins["win"]
    cases = [sure & (frame["ratio"] >= win), sure & (frame["ratio"] <= 1 / win), frame["p_equal"] < 1 - LEVEL]
    words = ["slower", "faster", FRONT["equivalent"]]
    rest = np.where(frame["n"] < ENOUGH, FEW, FRONT["undecided"])
    return frame.drop(columns=["p", "p_equal"]).assign(verdict=np.select(cases, words, rest))


def places(study: Study) -> pd.DataFrame:
    """Every setting and size in which a workload was ranked, one row each; only workloads with two such or more.

    Columns: family (the workload without its size), setting and load, best, verdict, level (of the winners), ranking
    (labels, a tuple), told (pairs of file systems that differ here and in the first row of the family: 95 % intervals
    that exclude 1, not corrected) and turned (those with the opposite sign).
    """
    rows: list[dict] = []
    cheapest = study.results.cheapest
    settings = [*study.settings, *(one for one in distinct(cheapest, Setting) if one not in study.settings)]
    for setting in settings if study.timed else []:
        for load in distinct(select(cheapest, setting), Load):
            (row,) = select(cheapest, setting, load).itertuples()
            own = select(study.results.totals, setting, load, role="contender").sort_values("geometric_mean_ns")
            pairs = select(study.results.rivals, setting, load, contenders=True)
            signs = {(one.a, one.b): one.low > 1 for one in pairs.itertuples() if one.low > 1 or one.high < 1}
            if row.verdict != "alone":
                rows.append(
                    {"family": without_size(load.workload), "setting": setting, "load": load, "best": row.best}
                    | {"verdict": row.verdict, "level": row.level, "ranking": tuple(own["label"]), "signs": signs}
                )
    first: dict[str, dict] = {}
    for one in rows:
        base = first.setdefault(one["family"], one)["signs"]
        common = one["signs"].keys() & base.keys()
        one |= {"told": len(common), "turned": sum(one["signs"][pair] != base[pair] for pair in common)}
    found = pd.DataFrame(
        rows, columns=["family", "setting", "load", "best", "verdict", "level", "ranking", "told", "turned"]
    )
    return found[found["family"].map(found["family"].value_counts()) > 1].reset_index(drop=True)


def shares(study: Study, setting: Setting, load: Load) -> pd.DataFrame:
    """Milliseconds of each operation (columns, in their order) on each file system (rows): means that sum up to the
    mean total, so without the phase that only computes."""
    own = select(study.times, setting, load)
    own = own[own["phase"] != COMPUTE]
    wide = own.pivot_table(index="label", columns="operation", values="ms", aggfunc="mean", observed=True)
    return wide.fillna(0.0)


def settings(study: Study) -> list[Setting]:
    """The settings whose file systems are compared, if they have a result and times are one."""
    if not study.timed:
        return []
    known = distinct(study.results.ranks, Setting)
    return [setting for setting in study.settings if setting in known]


def without(study: Study, setting: Setting) -> dict[Load, str | None]:
    """The workloads of a setting without a total, and why; None where no ranked file system completed it."""
    found: dict[Load, str | None] = {}
    known = distinct(select(study.results.cheapest, setting), Load)
    for load in distinct(select(study.trials, setting, role="contender"), Load):
        if load in known or study.plan.workloads[load.workload].raw:
            continue
        own = select(measured(study.phases), setting, load)
        own = own[own["role"].isin(["contender", "not-cold"])]
        # Of any setting: what has no sum in one has none in others.
        kinds = select(measured(study.phases), load)["part"]
        if recorded.foreign(study.plan, own).any():
            why = "its cold calls have no verdict on a rotating disk"
        elif own["role"].eq("not-cold").any() and set(own["label"]) == set(study.not_cold(setting)):
            why = "no cold caches are proved"
        else:
            why = "parts run at the same time" if kinds.eq("at-once").any() else "a command repeats what is timed"
        found[load] = why if len(own) else None
    return found
