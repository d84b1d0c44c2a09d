"""Two orders of several names against each other: Spearman's correlation, relabelled names, and pair by pair."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import scipy  # scipy.stats takes seconds to import, so scipy imports it on first use

from reprofs.stats import compare
from reprofs.stats.cells import LEVEL

DIFFERENT = 1.1  # medians without quartiles that are nearer than this are not taken as an order
FEW = 40_320  # relabellings: up to here every one is counted
DRAWN = 40_000  # of more
SEED = 20260101
ALPHA = 1 - LEVEL


class Ranks(NamedTuple):
    """How alike two orders are, operation by operation, and what relabelled configurations would give."""

    rho: np.ndarray  # Spearman's, shape (operations,)
    null: np.ndarray  # the same of relabelled ones, shape (relabellings, operations)
    exact: bool  # whether these are all rather than a random sample


def relabelled(x: npt.ArrayLike, y: npt.ArrayLike, groups: Sequence[str] | None = None) -> Ranks:
    """Spearman's rho of x and y of shape (operations, n), and the same for relabelled y.

    A relabelling exchanges the configurations in all operations alike, and only those of one group (n names, such as
    stacks; default: all are one group), because others could not be exchanged even if file systems made no difference.
    There are all of them, or, where these are more than 40,320, the identity and 40,000 seeded ones. Values that are
    all equal have no order: rho is 0.
    """
    first, second = map(_scaled, (x, y))
    n = first.shape[1]
    names = np.asarray(groups if groups is not None else [""] * n)
    places = [np.flatnonzero(names == name) for name in dict.fromkeys(names)]
    exact = math.prod(math.factorial(len(place)) for place in places) <= FEW
    if exact:
        every = list(itertools.product(*(itertools.permutations(place) for place in places)))
        order = np.empty((len(every), n), dtype=int)
        order[:, np.concatenate(places)] = [list(itertools.chain(*parts)) for parts in every]
    else:
        rng = np.random.default_rng(SEED)
        order = np.tile(np.arange(n), (DRAWN + 1, 1))
        for place in places:
            order[1:, place] = rng.permuted(np.tile(place, (DRAWN, 1)), axis=1)
    return Ranks((first * second).sum(axis=1), np.einsum("ok,opk->po", first, second[:, order]), exact)


def _scaled(values: npt.ArrayLike) -> np.ndarray:
    """Ranks along the last axis, less their mean, of length 1; 0 where all are equal."""
    ranks = scipy.stats.rankdata(np.asarray(values, dtype=float), axis=1)
    centred = ranks - ranks.mean(axis=1, keepdims=True)
    norm = np.sqrt((centred**2).sum(axis=1, keepdims=True))
    return np.divide(centred, norm, out=np.zeros_like(centred), where=norm > 0)


def share(null: np.ndarray, value: float) -> float:
    """Share of relabellings (null, shape (relabellings,)) with a statistic at least as large, up to rounding."""
    return float((null >= value - 1e-9).mean())


def ordered_pairs(rounds: dict[tuple, pd.DataFrame], wide: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """The pairs of configurations with a published order: step (number of the operation), slow, fast, shown.

    A pair has an order where the medians differ by more than their standard errors explain at 5 %, or, where either
    error is not known, by 10 %. shown is 1 where this study has the same order, -1 where it has the opposite one, by
    Holm over all pairs of all operations; else 0. `rounds` are the times of this study by operation, rounds by names;
    `wide` published_ns and published_error, operations by names.
    """
    rows, logs = [], []
    for number, step in enumerate(wide["published_ns"].index):
        published, error = (wide[key].iloc[number] for key in ("published_ns", "published_error"))
        slowest = published.sort_values(ascending=False, kind="stable").index
        for slow, fast in itertools.combinations(slowest, 2):
            apart, both = math.log(published[slow] / published[fast]), math.hypot(error[slow], error[fast])
            enough = math.log(DIFFERENT) if math.isnan(both) else scipy.stats.norm.ppf((1 + LEVEL) / 2) * both
            if apart >= enough and apart > 0:
                rows.append({"step": number, "slow": slow, "fast": fast})
                logs.append(np.log(rounds[step][slow] / rounds[step][fast]))
    frame = pd.DataFrame(rows, columns=["step", "slow", "fast"])
    if frame.empty:
        return frame.assign(shown=0)
    found = compare.paired(pd.concat(logs, axis=1, keys=range(len(logs))).to_numpy(float))
    proved = compare.holm(found["p"]) < ALPHA
    return frame.assign(shown=np.where(proved, np.sign(np.log(found["ratio"])), 0).astype(int))
