"""Published claims as tests: what each compares, and its verdict by the ratios of those values.

Every comparison is a ratio of two values, or of one value to a number, with an interval.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd

from reprofs.plan.published import Claim, Value
from reprofs.plan.study import ABSENT, NOT_HERE
from reprofs.stats.published import numbers

REPRODUCED, SAME, CONTRADICTED = "reproduced", "same direction", "contradicted"
UNDECIDED, REGIME, ELSEWHERE = "undecided", "same regime", "at another size"
DECIDED = [REPRODUCED, SAME, CONTRADICTED, UNDECIDED]  # at a comparable size
VERDICTS = [*DECIDED, REGIME, ELSEWHERE, NOT_HERE, ABSENT]
BAND = 1.25  # a ratio counts as reproduced where the interval reaches to this factor of the claimed one


class Interval(NamedTuple):
    """A ratio with its interval; of published values, whose spread is mostly unknown, the ratio alone."""

    ratio: float
    low: float
    high: float


class Verdict(NamedTuple):
    """What a study says of a claim."""

    word: str  # one of VERDICTS
    size: int  # the largest one that all of its values were measured at; 0 without
    reason: str  # why it cannot be decided here; in the same regime, its verdict there; else empty


def comparisons(claim: Claim) -> list[tuple[Value, Value | None]]:
    """The pairs of values that a claim compares, or a value alone, which is compared with a number.

    ratio: the two; bound: the first with each other one; order: neighbours; monotone: neighbours, and the first with
    the last; within: every pair; no-winner and mostly: the first with each other one in every step.
    """
    values = [_joined(claim.at, value) for value in claim.of]
    if claim.over:
        return [(_joined(values[0], step), _joined(other, step)) for step in claim.over for other in values[1:]]
    if len(values) == 1:
        return [(values[0], None)]
    if claim.kind == "within":
        return list(itertools.combinations(values, 2))
    if claim.kind in ("order", "monotone"):
        ends = [(values[0], values[-1])] if claim.kind == "monotone" and len(values) > 2 else []
        return [*itertools.pairwise(values), *ends]
    return [(values[0], value) for value in values[1:]]


def _joined(common: Value | None, value: Value) -> Value:
    """A value with what is common to several."""
    return common.model_copy(update=value.model_dump(exclude_none=True)) if common else value


def by_its_numbers(published: pd.DataFrame, claim: Claim) -> tuple[list[float], str]:
    """The published ratios of a claim's comparisons (NaN where there is no number), and its verdict by them.

    No verdict ("") without numbers, and of a ratio that is computed from these very numbers.
    """
    ratios = [
        numbers.told(published, first) / (numbers.told(published, second) if second else 1.0)
        for first, second in comparisons(claim)
    ]
    if any(map(math.isnan, ratios)) or (claim.kind == "ratio" and claim.value is None):
        return ratios, ""
    return ratios, decide(claim, [Interval(ratio, ratio, ratio) for ratio in ratios], claimed(claim, ratios))


def claimed(claim: Claim, published: list[float]) -> float:
    """The number that a claim of kind ratio is about, which may be that of the published values; else NaN."""
    if claim.kind != "ratio":
        return math.nan
    return published[0] if claim.value is None else claim.value


# ---- the verdict -----------------------------------------------------------------------------------------------------


def decide(claim: Claim, found: Sequence[Interval], value: float = math.nan) -> str:
    """The verdict on a claim by the intervals of its `comparisons`; an interval without bounds (NaN) decides nothing.

    value: of kind ratio, the ratio that is claimed. That is reproduced where the interval is on its side of 1 and
    reaches to a factor (`within`, default 1.25) of it; elsewhere on that side the direction is the same. An interval
    that shows neither the side nor that factor contradicts it. A bound that is missed in the claimed direction (least
    from 1 on, most up to 1) has the same direction, and so has an order with a difference above `most`. A claim of
    several comparisons is reproduced where all of them are, and contradicted where one is.
    """
    if claim.kind == "ratio":
        band = claim.within or BAND
        return _ratio(found[0], value, band) if len(claim.of) > 1 else _inside(found[0], value / band, value * band)
    if claim.kind == "bound":
        verdicts = [_bound(one, claim.least, claim.most) for one in found]
        # A value alone is on no side of anything, and a part of a time is on one that nobody doubts.
        sided = all(second and first.quantity == second.quantity for first, second in comparisons(claim))
        return _all([CONTRADICTED if one == SAME and not sided else one for one in verdicts])
    if claim.kind == "order":
        return _all([_more(one, claim.most) for one in found])
    if claim.kind == "within":
        factor = claim.within or 1.0
        return _all([_inside(one, 1 / factor, factor, whole=True) for one in found])
    if claim.kind == "monotone":
        return _monotone(found)
    return _steps(found, len(claim.of) - 1, claim.kind == "mostly", claim.most)


def _monotone(found: Sequence[Interval]) -> str:
    if any(one.high < 1 for one in found):
        return CONTRADICTED
    return REPRODUCED if found[-1].low > 1 and all(one.low >= 1 for one in found) else UNDECIDED


def _steps(found: Sequence[Interval], others: int, mostly: bool, most: float | None) -> str:
    """Of a claim over steps, each with so many comparisons: mostly the first is more, or else none wins everywhere."""
    steps = [_all([_more(one, most) for one in found[at : at + others]]) for at in range(0, len(found), others)]
    ups, far, downs = (steps.count(word) for word in (REPRODUCED, SAME, CONTRADICTED))
    if mostly:
        towards = REPRODUCED if 2 * ups > len(steps) else SAME if 2 * (ups + far) > len(steps) else UNDECIDED
        return CONTRADICTED if 2 * downs >= len(steps) else towards
    if ups and downs:
        return REPRODUCED
    return CONTRADICTED if 2 * max(ups, downs) > len(steps) else UNDECIDED


def _all(verdicts: list[str]) -> str:
    """The verdict of several: the first of these that any of them has."""
    return next(word for word in (CONTRADICTED, UNDECIDED, SAME, REPRODUCED) if word in verdicts)


def _more(one: Interval, most: float | None) -> str:
    if one.low > 1 and most is not None:
        return REPRODUCED if one.high <= most else SAME if one.low > most else UNDECIDED
    return REPRODUCED if one.low > 1 else CONTRADICTED if one.high < 1 else UNDECIDED


def _ratio(one: Interval, value: float, band: float) -> str:
    if value < 1:
        one, value = Interval(1 / one.ratio, 1 / one.high, 1 / one.low), 1 / value
    near = one.low <= value * band and one.high >= value / band
    if one.low > 1:
        return REPRODUCED if near else SAME
    if one.high < 1 or one.high < value / band:
        return CONTRADICTED
    return UNDECIDED


def _bound(one: Interval, least: float | None, most: float | None) -> str:
    if least is not None and most is not None:
        return _all([_bound(one, least, None), _bound(one, None, most)])
    if least is not None:
        if one.low >= least:
            return REPRODUCED
        same, against = least > 1 and one.low > 1, one.high < least
    else:
        assert most is not None
        if one.high <= most:
            return REPRODUCED
        same, against = most < 1 and one.high < 1, one.low > most
    return SAME if same else CONTRADICTED if against else UNDECIDED


def _inside(one: Interval, low: float, high: float, whole: bool = False) -> str:
    """Whether an interval lies between two bounds: as a whole, or where it may reach beyond them on both sides."""
    if one.low > high or one.high < low:
        return CONTRADICTED
    inside = one.low >= low and one.high <= high if whole else not math.isnan(one.low)
    return REPRODUCED if inside else UNDECIDED
