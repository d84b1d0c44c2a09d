"""The order of the configurations, as published and as measured at one size, and the ratios of their times.

Of this study the rounds are known, of the published runs mostly the median alone. Where their quartiles are known, they
count as its uncertainty; elsewhere the published number is taken as fixed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
import scipy  # scipy.stats takes seconds to import, so scipy imports it on first use

from reprofs.data.keys import CONFIGURATION, PHASE, Phase, Place, select
from reprofs.stats import compare
from reprofs.stats.cells import LEVEL
from reprofs.stats.published.numbers import SUBJECT, nearest
from reprofs.stats.published.ranks import ALPHA, Ranks, ordered_pairs, relabelled, share
from reprofs.stats.published.sides import Sides


@dataclass(frozen=True, eq=False)
class Orders:
    """The configurations of a place at the largest size of this study, beside those of the nearest published size."""

    sides: Sides
    place: Place

    @cached_property
    def size(self) -> int:
        """The size that is compared: the largest that was measured."""
        return self.sides.sizes(self.place)[-1]

    @property
    def published_size(self) -> int | None:
        """The published size it is compared with; None if there is nothing to compare."""
        return int(self.cells["published_size"].iloc[0]) if len(self.cells) else None

    @cached_property
    def cells(self) -> pd.DataFrame:
        """One row per configuration and operation with a published number.

        Columns: name (of the configuration), stack, label, phase, cache, title (of the operation), position; of this
        study n, median_ns, min_ns, max_ns; published_size (the nearest), published_n, published_ns (median),
        published_low_ns, published_high_ns (quartiles, NaN if unknown), published_error (standard error of the
        logarithm of the median, from the quartiles); ratio, low, high of this study over the published median, over the
        rounds and, where it is known, that error.
        """
        published = self.sides.times.merge(self._measured[SUBJECT].drop_duplicates())
        if len(published):
            published = published[published["size"] == nearest(published["size"], self.size)]
        known = {tuple(number[key] for key in SUBJECT): number for number in published.to_dict("records")}
        rows = [
            dict(zip(SUBJECT, key, strict=True)) | _beside(cell, known[key])
            for key, cell in self._measured.groupby(SUBJECT, sort=False)
            if key in known
        ]
        columns = [*SUBJECT, "position", "n", "median_ns", "min_ns", "max_ns", "published_size", "published_n"]
        columns += ["published_ns", "published_low_ns", "published_high_ns", "published_error", "ratio", "low", "high"]
        frame = pd.DataFrame(rows, columns=columns).sort_values(["position", *CONFIGURATION], ignore_index=True)
        titles = [self.sides.title(self.place, Phase(row.phase, row.cache)) for row in frame.itertuples()]
        return frame.assign(name=_names(frame), title=titles)

    @cached_property
    def configurations(self) -> list[str]:
        """Names of those that have every operation, which alone take part in the comparison of the orders."""
        times = self._wide["median_ns"]
        return list(times.columns[times.notna().all()])

    @property
    def left_out(self) -> list[str]:
        """Names of the others."""
        return sorted(set(self.cells["name"]) - set(self.configurations))

    @cached_property
    def ranks(self) -> Ranks:
        """Both orders of the configurations against each other."""
        names = self.configurations
        stacks = self.cells.drop_duplicates("name").set_index("name")["stack"][names]
        published, own = (self._wide[key][names].to_numpy() for key in ("published_ns", "median_ns"))
        return relabelled(published, own, list(stacks))

    @property
    def rho(self) -> float:
        """Spearman's correlation of both orders: mean over the operations."""
        return float(self.ranks.rho.mean())

    @property
    def p(self) -> float:
        """Share of the relabellings with a mean at least as high."""
        return share(self.ranks.null.mean(axis=1), self.rho)

    @property
    def smallest_p(self) -> float:
        """The smallest p that these configurations on their stacks can give."""
        return 1 / len(self.ranks.null)

    @property
    def few(self) -> bool:
        """Whether there are too few configurations for a small p."""
        return self.smallest_p > ALPHA / 5

    @cached_property
    def operations(self) -> pd.DataFrame:
        """How alike both orders are, one row per operation; empty without two configurations.

        Columns: phase, cache, title, position, rho (Spearman's), p (one-sided: the share of the relabellings of the
        configurations within their stacks that agree as well), pairs (those with a published order, see
        `ordered_pairs`), same and reversed (those whose order is shown to be that one, or the opposite: paired t tests,
        by Holm over all pairs of all operations below 5 %), turned (the reversed ones as pairs of names, the faster of
        this study first), ratio, low, high (this study over published, geometric mean over configurations with its
        interval over them), least and most (ratio), least_name, most_name, and the verdict. For either order more than
        half of the pairs must be decided: `same order` if all of these are as published, `another order` if one is not.
        Otherwise `undecided`.
        """
        names = self.configurations
        if len(names) < 2:
            return pd.DataFrame()
        pairs = ordered_pairs(self._rounds, {key: wide[names] for key, wide in self._wide.items()})
        return pd.DataFrame(
            self._operation(number, pairs[pairs["step"] == number]) for number in range(len(self._wide["ratio"]))
        )

    @property
    def pairs(self) -> int:
        """How many pairs have a published order, over all operations."""
        return int(self.operations["pairs"].sum())

    @property
    def same(self) -> int:
        """How many of them are shown to have the same order in this study."""
        return int(self.operations["same"].sum())

    @property
    def reversed(self) -> int:
        """How many of them are shown to have the opposite one."""
        return int(self.operations["reversed"].sum())

    @property
    def verdicts(self) -> dict[str, list[str]]:
        """Verdict -> titles of its operations."""
        own, words = self.operations, ("same order", "another order", "undecided")
        return {word: list(own.loc[own["verdict"] == word, "title"]) for word in words}

    @cached_property
    def ratings(self) -> pd.DataFrame:
        """Ratings of the configurations over the cold operations, as the study of 2015 computed them: a description.

        A rating is the median over operations of the rank of a configuration, 0 for the fastest. One row per
        configuration that has every cold operation of `cells`: name, own (by the medians of this study), published (by
        the published medians of the same configurations and operations), printed (the published rating itself, among
        all published configurations; NaN without), operations (how many). Empty without two configurations.
        """
        cells = select(self.cells, cache="cold")
        wide = {
            column: cells.pivot(index="phase", columns="name", values=f"{column}_ns").dropna(axis=1)
            for column in ("median", "published")
        }
        found = pd.DataFrame({column: (x.rank(axis=1, method="min") - 1).median() for column, x in wide.items()})
        if len(found) < 2:
            return pd.DataFrame(columns=["name", "own", "published", "printed", "operations"])
        printed = select(self.sides.numbers, quantity="rank", size=self.published_size, cache="cold")
        known = printed.set_index(CONFIGURATION)["value"].to_dict()
        keys = cells.drop_duplicates("name").set_index("name")[CONFIGURATION].loc[found.index]
        found = found.assign(
            printed=[known.get(key, math.nan) for key in keys.itertuples(index=False, name=None)],
            operations=len(wide["median"]),
        )
        found = found.rename(columns={"median": "own"}).rename_axis("name").reset_index()
        return found.sort_values(["own", "name"], ignore_index=True)

    @cached_property
    def _measured(self) -> pd.DataFrame:
        """The measurements of the place at the size that is compared."""
        return select(self.sides.measurements, self.place, size=self.size)

    @cached_property
    def _wide(self) -> dict[str, pd.DataFrame]:
        """Some columns of `cells`, operations in their order by names of configurations."""
        steps = list(dict.fromkeys(self.cells[PHASE].itertuples(index=False, name=None)))
        return {
            column: self.cells.pivot(index=PHASE, columns="name", values=column).reindex(steps)
            for column in ("median_ns", "published_ns", "published_error", "ratio")
        }

    @property
    def _rounds(self) -> dict[tuple, pd.DataFrame]:
        """Times (ns) behind the rows of `cells`, by operation: rounds by names of configurations."""
        own = self._measured.merge(self.cells[[*SUBJECT, "name"]])
        return {
            phase: cell.pivot(index="round", columns="name", values="wall_ns").astype(float)
            for phase, cell in own.groupby(PHASE)
        }

    def _operation(self, number: int, pairs: pd.DataFrame) -> dict:
        """A row of `operations`, of the operation with that number; pairs: its own."""
        phase = Phase(*self._wide["ratio"].index[number])
        ratios, times, published = (
            self._wide[key][self.configurations].iloc[number] for key in ("ratio", "median_ns", "published_ns")
        )
        same, reversed_ = (int((pairs["shown"] == sign).sum()) for sign in (1, -1))
        decided = 2 * (same + reversed_) > len(pairs)
        return {
            **phase._asdict(),
            "title": self.sides.title(self.place, phase),
            "position": int(select(self.cells, phase)["position"].min()),
            "rho": self.ranks.rho[number],
            "p": share(self.ranks.null[:, number], self.ranks.rho[number]),
            "pairs": len(pairs),
            "same": same,
            "reversed": reversed_,
            "turned": [(row.slow, row.fast) for row in pairs.itertuples() if row.shown == -1],
            **compare.ratio(times, published),
            "least": ratios.min(),
            "most": ratios.max(),
            "least_name": ratios.idxmin(),
            "most_name": ratios.idxmax(),
            "verdict": "undecided" if not decided else "another order" if reversed_ else "same order",
        }


# ---- times of one cell -----------------------------------------------------------------------------------------------


def _beside(cell: pd.DataFrame, number: dict) -> dict:
    """The numbers of a row of `Orders.cells`: the rounds of a cell, and its published time, a row of `Sides.times`."""
    x = cell["wall_ns"].to_numpy(float)
    return {
        "position": int(cell["position"].min()),
        "n": len(x),
        "median_ns": float(np.median(x)),
        "min_ns": x.min(),
        "max_ns": x.max(),
        "published_size": int(number["size"]),
        "published_n": int(number["n"]),
        "published_ns": number["median_s"] * 1e9,
        "published_low_ns": number["q1_s"] * 1e9,
        "published_high_ns": number["q3_s"] * 1e9,
        **_over_published(x / 1e9, number),
    }


def _over_published(seconds: np.ndarray, number: dict) -> dict[str, float]:
    """published_error, and ratio, low, high of these rounds over a published median (Welch's interval)."""
    error = _error(number)
    found = compare.ratio(seconds, np.full(len(seconds), number["median_s"]))
    if len(seconds) > 1 and not math.isnan(error):
        own = np.log(seconds).var(ddof=1) / len(seconds)
        both = own + error**2
        free = both**2 / (own**2 / (len(seconds) - 1) + error**4 / (number["n"] - 1)) if both else 1.0
        half = scipy.stats.t.ppf((1 + LEVEL) / 2, free) * math.sqrt(both)
        found |= {"low": found["ratio"] * math.exp(-half), "high": found["ratio"] * math.exp(half)}
    return {"published_error": error} | found


def _error(number: dict) -> float:
    """Standard error of the logarithm of a published median, from its quartiles, as of lognormal times; or NaN."""
    spread = math.log(number["q3_s"] / number["q1_s"]) / (2 * scipy.stats.norm.ppf(0.75))
    return spread * math.sqrt(math.pi / 2 / number["n"]) if number["n"] > 1 else math.nan


def _names(cells: pd.DataFrame) -> list[str]:
    """Labels; with the stack where a label is on several."""
    several = cells.groupby("label")["stack"].nunique()
    return [f"{row.label} on {row.stack}" if several[row.label] > 1 else row.label for row in cells.itertuples()]
