"""What the spread over rounds is made of, and whether it depends on when something ran."""

import itertools
import math

import numpy as np
import pandas as pd

from reprofs.data.keys import OPERATION, SETTING
from reprofs.stats.cells import ENOUGH, measured
from reprofs.stats.compare import holm

SEED, DRAWN = 20260101, 1999
TESTS = ("order", "drift", "autocorrelation", "change")


def components(phases: pd.DataFrame) -> pd.DataFrame:
    """Variance components of the logarithms of the times, one row per operation with two contenders and two rounds.

    Columns: contenders, rounds; filesystem, round and interaction, as standard deviations of a logarithm (0.01 is about
    1 %): how far file systems are apart, by how much all of them together are slower in some rounds, and by how much
    each differs in its own way from round to round. The last is what ratios paired by round still have; one measurement
    in each cell cannot tell it from noise. By analysis of variance of the rounds that all have; none is below 0.
    """
    rows = []
    keys = [*SETTING, *OPERATION]
    own = measured(phases)
    for key, cells in own[own["role"] != "ceiling"].groupby(keys, sort=True):
        wide = cells.pivot(index="round", columns="label", values="wall_ns").astype(float).dropna()
        n, k = wide.shape
        if n < 2 or k < 2 or not (wide > 0).all(axis=None):
            continue
        logs = np.log(wide.to_numpy())
        label, number = logs.mean(axis=0), logs.mean(axis=1)
        rest = logs - label - number[:, None] + logs.mean()
        within = (rest**2).sum() / ((n - 1) * (k - 1))
        between = {"filesystem": label.var(ddof=1) - within / n, "round": number.var(ddof=1) - within / k}
        rows.append(
            dict(zip(keys, key, strict=True))
            | {"position": int(cells["position"].min()), "contenders": k, "rounds": n}
            | {name: math.sqrt(max(0.0, value)) for name, value in between.items()}
            | {"interaction": math.sqrt(within)}
        )
    columns = [*keys, "position", "contenders", "rounds", "filesystem", "round", "interaction"]
    return pd.DataFrame(rows, columns=columns)


def stability(phases: pd.DataFrame) -> pd.DataFrame:
    """Whether times depend on when they were measured: one row per lab and test, by permutation, over all its cells.

    test:
    - `order`: the place of a trial within its round, by correlation with its times relative to the others of the round.
      The permutations are those by which the order was drawn.
    - `drift`, `autocorrelation`, `change`: a trend over rounds (mean square of the cells' correlations), likeness of
      neighbouring rounds (mean correlation at lag 1), a step (mean of the largest standardised sum of deviations). All
      cells are permuted alike, since their rounds have the same input. From six rounds on.

    Columns: lab, test, rounds, cells, statistic, p, p_holm (over all rows); NaN where it cannot be tested.
    """
    rows = []
    done = measured(phases)
    for lab, own in done[done["wall_ns"] > 0].groupby("lab", sort=True):
        keys = [*SETTING, *OPERATION, "label"]
        wide = np.log(own.pivot(index=keys, columns="round", values="wall_ns").astype(float)).dropna()
        centred = wide.sub(wide.mean(axis=1), axis=0)
        norm = np.sqrt((centred**2).sum(axis=1))
        known = norm > 1e-9
        scaled = centred[known].div(norm[known], axis=0)
        found = _over_rounds(scaled.to_numpy()) | {"order": _order(own, centred[known])}
        for test in TESTS:
            statistic, p = found.get(test, (math.nan, math.nan))
            row = {"lab": lab, "test": test, "rounds": wide.shape[1], "cells": len(scaled)}
            rows.append(row | {"statistic": statistic, "p": p})
    frame = pd.DataFrame(rows, columns=["lab", "test", "rounds", "cells", "statistic", "p"])
    return frame.assign(p_holm=holm(frame["p"]))


def _over_rounds(scaled: np.ndarray) -> dict[str, tuple[float, float]]:
    """test -> statistic and p of `drift`, `autocorrelation`, `change`; `scaled`: cells by rounds, mean 0, length 1."""
    cells, n = scaled.shape
    if n < ENOUGH or not cells:
        return {}
    rng = np.random.default_rng(SEED)
    if math.factorial(n) <= DRAWN:
        orders = np.array(list(itertools.permutations(range(n))))
    else:
        orders = np.vstack([np.arange(n), rng.permuted(np.tile(np.arange(n), (DRAWN, 1)), axis=1)])
    time = np.arange(n) - (n - 1) / 2
    time /= np.sqrt((time**2).sum())
    parts = np.arange(1, n)
    weight = np.sqrt(n / (parts * (n - parts)))
    found = np.empty((len(orders), 3))
    for number, order in enumerate(orders):
        x = scaled[:, order]
        found[number] = (
            ((x @ time) ** 2).mean(),
            (x[:, 1:] * x[:, :-1]).sum(axis=1).mean(),
            np.abs(np.cumsum(x, axis=1)[:, :-1] * weight).max(axis=1).mean(),
        )
    # The first permutation is the order as it was.
    p = (found >= found[0] - 1e-12).mean(axis=0)
    return {test: (float(found[0, i]), float(p[i])) for i, test in enumerate(("drift", "autocorrelation", "change"))}


def _order(phases: pd.DataFrame, centred: pd.DataFrame) -> tuple[float, float]:
    """Correlation of a trial's times, relative to the others of its round, with its place in the round; and its p."""
    if "order" not in phases or centred.shape[1] < 2:
        return math.nan, math.nan
    # What is common to the file systems of a round is its input.
    own = centred - centred.groupby([*SETTING, *OPERATION]).transform("mean")
    trial = [*SETTING, "workload", "scale", "label"]
    scores = own.groupby(trial).mean().melt(ignore_index=False, var_name="round", value_name="score").reset_index()
    places = phases.drop_duplicates([*trial, "round"])[[*trial, "round", "order"]].dropna()
    both = scores.merge(places, on=[*trial, "round"])
    rng, total, drawn, squares = np.random.default_rng(SEED), 0.0, np.zeros(DRAWN), [0.0, 0.0]
    for _, group in both.groupby("round"):
        x = group["order"].astype(float).rank().to_numpy()
        x, score = x - x.mean(), (group["score"] - group["score"].mean()).to_numpy(float)
        total += x @ score
        drawn += rng.permuted(np.tile(x, (DRAWN, 1)), axis=1) @ score
        squares = [squares[0] + x @ x, squares[1] + score @ score]
    if min(squares) < 1e-18:
        return math.nan, math.nan
    p = (1 + (np.abs(drawn) >= abs(total) - 1e-12).sum()) / (1 + DRAWN)
    return float(total / math.sqrt(squares[0] * squares[1])), float(p)
