"""What a study says of each published claim, and of the published values that are no elapsed times.

Intervals hold for all comparisons of all claims together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from reprofs.data.keys import select
from reprofs.plan.device import Plain
from reprofs.plan.published import Claim, Published, Value
from reprofs.plan.study import ABSENT, NOT_HERE
from reprofs.stats import compare, scaling
from reprofs.stats.cells import processors
from reprofs.stats.published import claims, values
from reprofs.stats.published.claims import CONTRADICTED, DECIDED, ELSEWHERE, REGIME, Interval, Verdict
from reprofs.stats.published.numbers import NOT_NEW, SUBJECT
from reprofs.stats.published.sides import Sides
from reprofs.stats.published.values import Ground

# Times smaller or larger than the published size, up to which ratios of file systems are those of that size. Between
# such sizes they differ by a factor of 1.3 to 1.9 on disks and networks (plug-2020, why-2015, small-files-distributed),
# and of 1.1 in memory (calibration): root mean squares, docs/methods/published.md#size.
COMPARABLE = 3
COMPARABLE_IN_MEMORY = 20
BUSY = 0.8  # share of the time from which on a processor is measured, not what it might wait for


@dataclass(frozen=True, eq=False)
class Judged:
    """A claim, what its source's own numbers say of it, and what the study does."""

    claim: Claim
    published: list[float]  # ratios of the comparisons, or values; NaN where there is no number
    own: str  # the verdict by them; "" without
    claimed: float  # the number of a ratio, else NaN
    found: list[Interval]  # of this study at the largest size that both values have; none if not decidable here
    busy: tuple[float, ...]  # shares of the times of its values in which the processor was; those that are known
    expected: float  # ratio of the first comparison at the published size by the power law; NaN with one size
    by_last: float  # the same by the exponent of the last step
    published_size: int  # that the claim is about; 0 where none is told
    verdict: Verdict


@dataclass(frozen=True, eq=False)
class Claims:
    """The published claims, judged by the rounds of a study on one ground."""

    sides: Sides
    ground: Ground

    @cached_property
    def values(self) -> pd.DataFrame:
        """What the study measured, see `values.values`."""
        return values.values(self.sides, self.ground)

    @cached_property
    def judged(self) -> list[Judged]:
        """Every claim, in the order of the file."""
        rounds = [self._rounds(claim) for claim in self.sides.published_claims]
        level = compare.joint(sum(map(len, rounds)))
        return [self._test(claim, own, level) for claim, own in zip(self.sides.published_claims, rounds, strict=True)]

    def of(self, *words: str) -> list[Judged]:
        """Those with one of these verdicts."""
        return [one for one in self.judged if one.verdict.word in words]

    @property
    def decided(self) -> list[Judged]:
        """Those that the study decides, or may decide with more rounds, at a size that is comparable."""
        return self.of(*DECIDED)

    @property
    def far(self) -> list[Judged]:
        """Those measured at a size far from the published one."""
        return self.of(REGIME, ELSEWHERE)

    @property
    def measured(self) -> list[Judged]:
        """Both, in the order of the file."""
        return self.of(*DECIDED, REGIME, ELSEWHERE)

    @property
    def open(self) -> list[Judged]:
        """Those that were not measured."""
        return self.of(NOT_HERE)

    @property
    def absent(self) -> list[Judged]:
        """Those about products that nobody can have here; they do not count."""
        return self.of(ABSENT)

    @property
    def counted(self) -> list[Judged]:
        """All others."""
        return [one for one in self.judged if one.verdict.word != ABSENT]

    @cached_property
    def reach(self) -> int:
        """How many times another size may be the published one and still be comparable."""
        plan = self.sides.study.plan
        disks = plan.disks(self.ground.profile)
        timed = [not isinstance(one, Plain) or one.timed for one in disks]
        return COMPARABLE_IN_MEMORY if disks and not any(timed) and not plan.networks else COMPARABLE

    @cached_property
    def elsewhere(self) -> dict[str, list[str]]:
        """Another study -> the claims open here on which it has a verdict."""
        found: dict[str, list[str]] = {}
        for one in self.open:
            for name in self.sides.study.plan.siblings.get(one.claim.id, ()):
                found.setdefault(name, []).append(one.claim.id)
        return found

    @property
    def slips(self) -> int:
        """How many are contradicted by the published numbers themselves."""
        return sum(one.own == CONTRADICTED for one in self.judged)

    @cached_property
    def beside(self) -> pd.DataFrame:
        """The published values other than elapsed times that this study measured: columns of the file, own and own_sd.

        own is the geometric mean of this study's rounds, at its largest size, in the unit of the published value;
        own_sd that of the standard deviation over samples, where one was published (NaN without).
        """
        numbers, rows = self.sides.numbers, []
        for row in numbers[(numbers["quantity"] != "time") & ~numbers["origin"].isin(NOT_NEW)].to_dict("records"):
            keys = {key: row[key] for key in ("workload", *SUBJECT) if row[key]}
            own, in_si, unit = self._mean(row["quantity"], keys), row["si"], row["value"]
            if not math.isnan(own):
                sd = self._mean(f"{row['quantity']}-sd", keys) if row["sd"] > 0 else math.nan
                rows.append(row | {"own": own / in_si * unit, "own_sd": sd / in_si * unit})
        return pd.DataFrame(rows, columns=[*numbers.columns, "own", "own_sd"])

    @cached_property
    def ratios(self) -> pd.DataFrame:
        """One row per measured ratio of two values whose published ratio is known, turned so that this is 1 or more.

        Columns: id (of the claim), kind, word (the verdict), published, ratio, low, high (of this study).
        """
        rows = []
        for one in self.measured:
            told = [one.claimed] if one.claim.kind == "ratio" else one.published
            for (_, second), published, own in zip(claims.comparisons(one.claim), told, one.found, strict=True):
                if second is None or math.isnan(published):
                    continue
                if published < 1:
                    published, own = 1 / published, Interval(1 / own.ratio, 1 / own.high, 1 / own.low)
                rows.append([one.claim.id, one.claim.kind, one.verdict.word, published, *own])
        return pd.DataFrame(rows, columns=["id", "kind", "word", "published", "ratio", "low", "high"])

    def _rounds(self, claim: Claim) -> list[pd.DataFrame]:
        """size, round and ratio of each of a claim's comparisons; none of a claim that is not decidable here."""
        if claim.never or self._about.products_of(claim):
            return []
        rounds = [self._ratios(claim, *pair) for pair in claims.comparisons(claim)]
        if not all(map(len, rounds)):
            return []
        smallest = min(int(one["size"].max()) for one in rounds)
        return rounds if smallest >= (claim.least_size or 0) else []

    def _ratios(self, claim: Claim, first: Value, second: Value | None) -> pd.DataFrame:
        """size, round and ratio of two values, or of one to 1, in the rounds that have both; none of one to itself."""
        cells = self._cells(claim, first, second)
        above = self._measured(cells[0])
        if second is None:
            return above.rename(columns={"value": "ratio"})
        below = self._measured(cells[1]) if cells[0] != cells[1] else above.iloc[:0]
        if _base(cells[0]) != _base(cells[1]) and len(above) and len(below):  # each at its own size
            size = min(above["size"].max(), below["size"].max())
            above, below = (_nearest(one, size).assign(size=size) for one in (above, below))
        both = above.merge(below, on=["size", "round"])
        return both.assign(ratio=both["value_x"] / both["value_y"])[["size", "round", "ratio"]]

    def _cells(self, claim: Claim, *pair: Value | None) -> list[dict]:
        """The cells that a claim compares. If they name no stack, and there is one that has all of them, that one."""
        cells = [_cell(value, {} if claim.own_stack else self.sides.stands_in) for value in pair if value]
        if not any("stack" in cell for cell in cells):
            first, *others = (list(dict.fromkeys(select(self.values, **cell)["stack"])) for cell in cells)
            shared = [stack for stack in first if all(stack in other for other in others)]
            cells = [cell | {"stack": shared[0]} for cell in cells] if shared else cells
        return cells

    def _measured(self, cell: dict) -> pd.DataFrame:
        """size, round and value of a cell of this study.

        If it names no workload, of the one with the fewest modifiers that has it; no stack, of the first.
        """
        own = select(self.values, **cell)
        if len(own):
            own = own[own["workload"] == min(own["workload"], key=lambda name: name.count("+"))]
            own = own[own["stack"] == own["stack"].iloc[0]]
        return own[["size", "round", "value"]]

    def _test(self, claim: Claim, rounds: list[pd.DataFrame], level: float) -> Judged:
        """A claim by the rounds of its comparisons; `level` is that of each interval."""
        published, own = claims.by_its_numbers(self.sides.numbers, claim)
        value, nothing = claims.claimed(claim, published), math.nan
        size = self._about.size_of(claim)
        absent = "; ".join(self._about.products[name] for name in self._about.products_of(claim))
        open_ = Verdict(ABSENT, 0, absent) if absent else Verdict(NOT_HERE, 0, claim.needs)
        told = Judged(claim, published, own, value, [], (), nothing, nothing, size, open_)
        if not rounds:
            return told
        last = [_last(one)["ratio"] for one in rounds]
        found = [Interval(**compare.ratio(one, np.ones(len(one)), level)) for one in last]
        expected, knee = _at_size(rounds[0], size)
        word, here = claims.decide(claim, found, value), min(int(one["size"].max()) for one in rounds)
        cells = [cell for pair in claims.comparisons(claim) for cell in self._cells(claim, *pair)]
        busy = tuple(filter(None, dict.fromkeys(self._busy(cell, here) for cell in cells)))
        verdict = self._verdict(claim, word, here, size, max(busy, default=0.0))
        return replace(told, found=found, busy=busy, expected=expected, by_last=knee, verdict=verdict)

    def _verdict(self, claim: Claim, word: str, size: int, published: int, busy: float) -> Verdict:
        """What is said of a claim that intervals at a size speak of with a word: less where that is of something else.

        busy: the largest share of a value's time in which the processors were; 0 where not known. A thread has one of
        several, so from `BUSY` of one on it may have been what was measured.
        """
        if why := self.other_disks(claim):
            return Verdict(NOT_HERE, size, why)
        far = bool(size and published and max(size, published) > self.reach * min(size, published))
        elsewhere = far and not self._same_regime(size)
        number = processors(self.sides.study, self.ground.lab)
        refuted = claim.about is None and word == CONTRADICTED and not elsewhere
        if busy * number >= BUSY and (claim.about == "devices" or refuted):
            one = f"a processor that waits: it was measured, busy for {busy:.0%} of the time"
            several = (
                f"processors that wait: {number} of them worked {busy:.0%} of the time, {busy * number:.2f} times what"
                " one thread can, so one may have been what was measured"
            )
            return Verdict(NOT_HERE, size, one if number == 1 else several)
        if elsewhere:
            return Verdict(ELSEWHERE, size, "")
        return Verdict(REGIME, size, word) if far else Verdict(word, size, "")

    @property
    def _about(self) -> Published:
        """What was published. There is no claim without."""
        assert self.sides.about is not None
        return self.sides.about

    def _same_regime(self, size: int) -> bool:
        """Whether memory is as short for this size as it was for the published one."""
        regime, memory = self._about.regime, self.sides.study.lab(self.ground.lab).memory_mib
        return bool(regime and memory and size >= regime.per_mib * memory)

    def other_disks(self, claim: Claim) -> str:
        """Why the devices of this ground are not those that a claim is about; empty where they may be."""
        wanted, profile = self._about.disks, self.ground.profile
        device = next(iter(self.sides.study.plan.disks(profile)), None)
        if claim.about != "devices" or not wanted or not device or device.backing not in ("memory", "model"):
            return ""
        kind = device.drive.kind if device.drive else "solid"  # with one time for every request
        return "" if kind == wanted else f"{claim.needs}; {wanted} disks, which {profile} is not"

    def _busy(self, cell: dict, size: int) -> float:
        """The share of a cell's time in which the processor was busy, at the nearest size; 0 where not known."""
        own = self._measured(cell | {"quantity": "busy"})
        return float(_nearest(own, size)["value"].mean()) if len(own) else 0.0

    def _mean(self, quantity: str, keys: dict) -> float:
        """The geometric mean of a quantity of published keys at the largest size; NaN without any."""
        last = _last(self._measured(_instead(keys | {"quantity": quantity}, self.sides.stands_in)))["value"]
        return math.exp(np.log(last).mean()) if len(last) else math.nan


def _last(rounds: pd.DataFrame) -> pd.DataFrame:
    """The rounds at the largest size."""
    return rounds[rounds["size"] == rounds["size"].max()]


def _nearest(rounds: pd.DataFrame, size: int) -> pd.DataFrame:
    """The rounds at the size that is nearest to another one; of two that are as near, at the smaller."""
    nearest = min(rounds["size"], key=lambda own: (abs(own - size), own))
    return rounds[rounds["size"] == nearest]


def _base(cell: dict) -> str:
    """The workload that a cell names; empty without."""
    return cell.get("workload", "")


def _at_size(rounds: pd.DataFrame, size: int) -> tuple[float, float]:
    """The ratio at another size, by its power law over several and by the exponent of the last step; NaN with one.

    Of a size of zero, as of a tree without pulls, no law says anything.
    """
    rounds = rounds[rounds["size"] > 0]
    if not size or rounds["size"].nunique() < 2:
        return math.nan, math.nan
    law = rounds["size"], rounds["ratio"]
    return scaling.extrapolate(*law, [size])["time"].iloc[0], float(scaling.by_last(*law, size))


def _cell(value: Value, stands_in: dict[str, str]) -> dict:
    """The columns of `Claims.values` that a claim's value names, as this study names them."""
    named = value.model_dump(exclude_none=True, exclude={"place", "size"})
    return _instead({"quantity": "time"} | named, stands_in)


def _instead(cell: dict, stands_in: dict[str, str]) -> dict:
    """Columns with what stands in for the published stack and file system."""
    return cell | {key: stands_in.get(cell[key], cell[key]) for key in ("stack", "label") if key in cell}
