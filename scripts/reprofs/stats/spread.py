"""What the spread over rounds is made of, and whether it depends on when something ran."""

import itertools
import math

import numpy as np
import pandas as pd
import scipy  # scipy.stats takes seconds to import, so scipy imports it on first use

from reprofs.data.keys import OPERATION, SETTING
from reprofs.stats.cells import ENOUGH, cubes, groups, measured
from reprofs.stats.compare import holm

SEED, DRAWN = 20260101, 1999
CACHED = 2**15  # numbers that are permuted together
SOME = 4096  # cells that are enough to look for a step, the one test whose cost grows with them
TESTS = ("order", "drift", "autocorrelation", "change")


def components(phases: pd.DataFrame) -> pd.DataFrame:
    """Variance components of the logarithms of the times, one row per operation with two contenders and two rounds.

    Columns: contenders, rounds; filesystem, round and interaction, as standard deviations of a logarithm (0.01 is about
    1 %): how far file systems are apart, by how much all of them together are slower in some rounds, and by how much
    each differs in its own way from round to round. The last is what ratios paired by round still have; one measurement
    in each cell cannot tell it from noise. By analysis of variance of the rounds that all have; none is below 0.
    """
    keys = [*SETTING, *OPERATION]
    own = measured(phases)
    own = own[own["role"] == "contender"]
    places, number = groups(own, keys)
    frames = []
    for cube in cubes(own, number, "round", "label", own["wall_ns"].to_numpy(float)):
        (values,) = cube.values
        patterns, pattern = np.unique(np.isfinite(values).all(axis=2), axis=0, return_inverse=True)
        for kind, complete in enumerate(patterns):
            here = np.flatnonzero(pattern.ravel() == kind)
            here = here[(values[here][:, complete] > 0).all(axis=(1, 2))]
            logs = np.log(values[here][:, complete]).swapaxes(1, 2).copy()
            count, k, n = logs.shape
            if n < 2 or k < 2 or not count:
                continue
            label, each = logs.mean(axis=2), logs.mean(axis=1)
            rest = logs - label[..., None] - each[:, None] + logs.reshape(count, -1).mean(axis=1)[:, None, None]
            within = (rest**2).reshape(count, -1).sum(axis=1) / ((n - 1) * (k - 1))
            found = {"contenders": k, "rounds": n}
            found |= {"filesystem": np.sqrt(np.maximum(0, label.var(axis=1, ddof=1) - within / n))}
            found |= {"round": np.sqrt(np.maximum(0, each.var(axis=1, ddof=1) - within / k))}
            frames.append(pd.DataFrame(found | {"interaction": np.sqrt(within)}, index=cube.group[here]))
    columns = [*keys, "position", "contenders", "rounds", "filesystem", "round", "interaction"]
    if not frames:
        return pd.DataFrame([], columns=columns)
    position = own["position"].groupby(number).min().astype(int).rename("position")
    return places.join(position).join(pd.concat(frames), how="inner")[columns].reset_index(drop=True)


def stability(phases: pd.DataFrame) -> pd.DataFrame:
    """Whether times depend on when they were measured: one row per lab and test, by permutation, over all its cells.

    test:
    - `order`: the place of a trial within its round, by correlation with its times relative to the others of the round.
      The permutations are those by which the order was drawn.
    - `drift`, `autocorrelation`, `change`: a trend over rounds (mean square of the cells' correlations), likeness of
      neighbouring rounds (mean correlation at lag 1), a step (mean of the largest standardised sum of deviations; of
      every second, third … cell where there are more than SOME). All cells are permuted alike, since their rounds have
      the same input. From six rounds on.

    Columns: lab, test, rounds, cells, statistic, p, p_holm (over all rows); NaN where it cannot be tested.
    """
    rows = []
    done = measured(phases)
    keys = [*SETTING, *OPERATION, "label"]
    for lab, own in done[done["wall_ns"] > 0].groupby("lab", sort=True):
        cells, number = groups(own, keys)
        codes, numbers = pd.factorize(own["round"], sort=True)
        logs = np.full((len(cells), len(numbers)), math.nan)
        logs[number, codes] = np.log(own["wall_ns"].to_numpy(float))
        complete = np.isfinite(logs).all(axis=1)
        cells, centred = cells[complete], logs[complete] - logs[complete].mean(axis=1)[:, None]
        norm = np.sqrt((centred**2).sum(axis=1))
        known = norm > 1e-9
        scaled = centred[known] / norm[known, None]
        found = _over_rounds(scaled) | {"order": _order(own, cells[known], centred[known], numbers)}
        for test in TESTS:
            statistic, p = found.get(test, (math.nan, math.nan))
            row = {"lab": lab, "test": test, "rounds": len(numbers), "cells": len(scaled)}
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
    placed = np.empty(orders.shape)
    np.put_along_axis(placed, orders, time / np.sqrt((time**2).sum()), axis=1)
    products = scaled.T @ scaled / cells
    drift = (placed @ products * placed).sum(axis=1)
    likeness = products[orders[:, 1:], orders[:, :-1]].sum(axis=1)
    parts = np.arange(1, n)
    weight = np.sqrt(n / (parts * (n - parts)))
    some = np.ascontiguousarray(scaled[:: math.ceil(cells / SOME)].T)  # rounds by cells: sums of whole rows are fast
    step = [_step(some, order, weight) for order in orders]
    found = np.column_stack([drift, likeness, step])
    # The first permutation is the order as it was.
    p = (found >= found[0] - 1e-12).mean(axis=0)
    return {test: (float(found[0, i]), float(p[i])) for i, test in enumerate(("drift", "autocorrelation", "change"))}


def _step(rows: np.ndarray, order: np.ndarray, weight: np.ndarray) -> float:
    """Mean over cells of the largest weighted sum of the first rounds in that order; rows: rounds by cells."""
    total, largest = np.zeros(rows.shape[1]), np.zeros(rows.shape[1])
    for number, factor in zip(order, weight, strict=False):  # round by round: two rows stay in the processor's cache
        total += rows[number]
        np.maximum(largest, np.abs(total * factor), out=largest)
    return largest.mean()


def _order(phases: pd.DataFrame, cells: pd.DataFrame, centred: np.ndarray, rounds: pd.Index) -> tuple[float, float]:
    """Correlation of a trial's times, relative to the others of its round, with its place in the round; and its p.

    centred: logarithms of times, cells by rounds, mean 0; rounds: their numbers.
    """
    if "order" not in phases or phases["order"].isna().all() or len(rounds) < 2 or not len(cells):
        return math.nan, math.nan
    # What is common to the file systems of a round is its input.
    _, operation = groups(cells, [*SETTING, *OPERATION])
    trial = [*SETTING, "workload", "scale", "label"]
    trials, number = groups(cells, trial)
    scores = _means(centred - _means(centred, operation)[operation], number)
    known = phases.drop_duplicates([*trial, "round"])[[*trial, "round", "order"]].dropna()
    known = known.merge(trials.rename_axis("trial").reset_index(), on=trial)
    places = np.full(scores.shape, math.nan)
    places[known["trial"], rounds.get_indexer(known["round"])] = known["order"].to_numpy(float)
    rng, total, drawn, squares = np.random.default_rng(SEED), 0.0, np.zeros(DRAWN), [0.0, 0.0]
    for place, score in zip(places.T, scores.T, strict=True):
        there = np.isfinite(place)
        x = scipy.stats.rankdata(place[there])
        x, score = x - x.mean(), score[there] - score[there].mean()
        total += x @ score
        step = 1 + CACHED // (1 + len(x))
        for start in range(0, DRAWN, step):
            part = drawn[start : start + step]
            part += rng.permuted(np.tile(x, (len(part), 1)), axis=1) @ score
        squares = [squares[0] + x @ x, squares[1] + score @ score]
    if min(squares) < 1e-18:
        return math.nan, math.nan
    p = (1 + (np.abs(drawn) >= abs(total) - 1e-12).sum()) / (1 + DRAWN)
    return float(total / math.sqrt(squares[0] * squares[1])), float(p)


def _means(values: np.ndarray, number: np.ndarray) -> np.ndarray:
    """The means of groups of rows."""
    sums = np.zeros((number.max() + 1, values.shape[1]))
    np.add.at(sums, number, values)
    return sums / np.bincount(number)[:, None]
