"""Growth with size: the power laws of what was measured at several sizes, extrapolated to the published ones."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from reprofs.data.keys import PHASE, Phase, Place, select
from reprofs.stats import scaling
from reprofs.stats.compare import holm
from reprofs.stats.published.numbers import SUBJECT
from reprofs.stats.published.ranks import ALPHA
from reprofs.stats.published.sides import Sides


@dataclass(frozen=True, eq=False)
class Growth:
    """A place that was measured at several sizes, beside the published times of larger ones."""

    sides: Sides
    place: Place

    @cached_property
    def sizes(self) -> list[int]:
        """The sizes that were measured, ascending."""
        return self.sides.sizes(self.place)

    @cached_property
    def times(self) -> pd.DataFrame:
        """The measurements of the place, with the title of their operation."""
        found = select(self.sides.measurements, self.place)
        keys = [Phase(*key) for key in found[PHASE].itertuples(index=False, name=None)]
        titles = {key: self.sides.title(self.place, key) for key in set(keys)}
        return found.assign(title=[titles[key] for key in keys])

    @cached_property
    def laws(self) -> pd.DataFrame:
        """One row per published number whose operation was measured at several sizes: its power law, extrapolated.

        Columns: stack, label, phase, cache, title (of the operation), position, n (sizes), least, most (sizes
        measured), exponent, low, high (95 %), last (exponent of the last step), fit_p (lack of fit), off as of
        `scaling.fit`; broken (whether lack of fit is shown, by Holm over the laws); published_size, published_ns,
        published_n, published_low_ns, published_high_ns (quartiles or else the range of the runs, NaN if unknown); and
        what is expected at that size: expected_ns by the law, by_last_ns by a law with a knee, which goes on with the
        exponent of the last step; factor, factor_last (published over either); decades (orders of magnitude between the
        largest size measured and the published one). Within half a decade also expected_low_ns, expected_high_ns (95 %
        prediction interval) and inside (whether the published time is there); farther these are NaN and None.
        """
        frame = pd.DataFrame(self._laws())
        if frame.empty:
            return frame
        frame["inside"] = frame["inside"].astype(object)
        frame = frame.sort_values(["position", "published_size", "label"], ignore_index=True)
        titles = [self.sides.title(self.place, Phase(row.phase, row.cache)) for row in frame.itertuples()]
        return frame.assign(title=titles, broken=holm(frame["fit_p"]) < ALPHA)

    @property
    def decades(self) -> float:
        """The smallest distance to a published size, in orders of magnitude."""
        return self.laws["decades"].min()

    @property
    def near(self) -> int:
        """How many laws have a prediction interval."""
        return sum(inside is not None for inside in self.laws.get("inside", ()))

    @property
    def inside(self) -> int:
        """In how many of them the published time is."""
        return sum(map(bool, self.laws["inside"]))

    @property
    def broken(self) -> int:
        """How many laws do not fit the times measured."""
        return int(self.laws["broken"].sum())

    @property
    def factors(self) -> tuple[float, float]:
        """The least and the largest published time over what either scenario gives."""
        found = self.laws[["factor", "factor_last"]].to_numpy()
        return found.min(), found.max()

    def _laws(self) -> Iterator[dict]:
        """The rows of `laws` but for titles and what all of them tell together."""
        for number in self.sides.times.to_dict("records"):
            cell = {key: number[key] for key in SUBJECT}
            own = select(self.times, **cell)
            if own["size"].nunique() > 1:
                position = int(own["position"].min())
                sizes, times = own["size"].to_numpy(float), own["wall_ns"].to_numpy(float)
                yield cell | {"position": position} | _law(sizes, times, number)


def _law(sizes: np.ndarray, times: np.ndarray, number: dict) -> dict:
    """The numbers of a row of `Growth.laws`: times (ns) at sizes, and a published time, a row of `Sides.times`."""
    fit, ahead = scaling.fit(sizes, times), scaling.extrapolate(sizes, times, [number["size"]]).iloc[0]
    published_ns, knee = number["median_s"] * 1e9, float(scaling.by_last(sizes, times, number["size"]))
    quartiles = [number["q1_s"], number["q3_s"]]
    low, high = quartiles if not np.isnan(quartiles).any() else [number["min_s"], number["max_s"]]
    return {
        "least": int(sizes.min()),
        "most": int(sizes.max()),
        **{key: fit[key] for key in ("n", "exponent", "low", "high", "last", "fit_p", "off")},
        "published_size": int(number["size"]),
        "published_ns": published_ns,
        "published_n": int(number["n"]),
        "published_low_ns": low * 1e9,
        "published_high_ns": high * 1e9,
        "expected_ns": ahead["time"],
        "expected_low_ns": ahead["low"],
        "expected_high_ns": ahead["high"],
        "by_last_ns": knee,
        "factor": published_ns / ahead["time"],
        "factor_last": published_ns / knee,
        "inside": None if math.isnan(ahead["low"]) else bool(ahead["low"] <= published_ns <= ahead["high"]),
        "decades": math.log10(number["size"] / sizes.max()),
    }
