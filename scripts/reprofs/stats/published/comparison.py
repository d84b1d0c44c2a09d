"""The whole comparison of a study with published numbers, and the verdicts that are expected of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from reprofs.data.keys import Place
from reprofs.errors import UserError
from reprofs.plan.read import unknown
from reprofs.plan.study import NOT_HERE
from reprofs.stats.published.claims import Interval
from reprofs.stats.published.growth import Growth
from reprofs.stats.published.orders import Orders
from reprofs.stats.published.sides import Sides
from reprofs.stats.published.values import Ground, grounds
from reprofs.stats.published.verdicts import Claims


@dataclass(frozen=True, eq=False)
class Comparison(Sides):
    """A study beside what was published, by subject; each part is computed once, when it is first asked for."""

    @cached_property
    def growth(self) -> dict[Place, Growth]:
        """The places with several sizes, whose laws can be extrapolated to the published size."""
        return {place: Growth(self, place) for place in self.places if len(self.sizes(place)) > 1}

    @cached_property
    def orders(self) -> dict[Place, Orders]:
        """The places with one size."""
        return {place: Orders(self, place) for place in self.places if place not in self.growth}

    @cached_property
    def claims(self) -> dict[Ground, Claims]:
        """The published claims on each ground."""
        return {ground: Claims(self, ground) for ground in grounds(self)}

    @property
    def ground(self) -> Ground | None:
        """Where values are compared, the first of several; of a study of factors that of their base; None without."""
        factors = self.study.plan.factors
        if factors:
            names = factors[0].cells[0].names()
            return Ground(names["lab"], names["profile"])
        return next(iter(self.claims), None) or next((Ground(own.lab, own.profile) for own in self.places), None)


def changes(comparison: Comparison) -> list[str]:
    """What differs from the verdicts that a study expects at its own scale, one sentence each; none if nothing does.

    A claim that is not expected is one that is not decidable here. One at another size is held to its ratios, too. On
    disks that it is not about nothing is expected of it.
    Raises UserError where there is nothing to hold.
    """
    about = comparison.study.plan.study
    file = f"config/studies/{about.base}.yaml"
    known = [claim.id for claim in comparison.published_claims]
    if not known:
        return []
    if "@" in about.name:
        raise UserError(f"The verdicts that {file} expects are those of its own scale: leave @ and the scale out.")
    if about.expected is None:
        raise UserError(f"{file} has no key expected: put there what `reprofs claims {about.name}` prints.")
    expected = {name: verdict for verdict, names in about.expected.items() for name in names}
    for name in (*expected, *(about.ratios or ())):
        if name not in known:
            raise UserError(f"{file}: expected: {unknown('claim', name, known)}")
    found = []
    for ground, own in comparison.claims.items():
        for one in own.judged:
            claim, word, wanted = one.claim, one.verdict.word, expected.get(one.claim.id, NOT_HERE)
            if word != wanted and not own.other_disks(claim):
                found.append(f"{claim.id} ({ground}) is {word}, but {file} expects {wanted}: {claim.says}.")
    return found + _other_ratios(comparison, about.ratios or {}, file)


def ratios(comparison: Comparison) -> dict[str, list[tuple[Ground, Interval]]]:
    """Claim at another size -> what it compares, on one ground after the other."""
    found: dict[str, list[tuple[Ground, Interval]]] = {}
    for ground, own in comparison.claims.items():
        for one in own.far:
            found.setdefault(one.claim.id, []).extend((ground, interval) for interval in one.found)
    return found


def written(ratio: float) -> float:
    """A ratio as a study's file has it."""
    return float(f"{ratio:.6g}")


def _other_ratios(comparison: Comparison, held: dict[str, list[float]], file: str) -> list[str]:
    """Sentences on measured ratios that are not those that were held: another one, or in labs with spread one too far.

    One round has no interval, so that it says nothing.
    """
    said = []
    measured, exact = ratios(comparison), comparison.study.exact_labs
    for name, own in measured.items():
        if name not in held:
            said.append(f"{name} is at another size and has no ratios in {file}.")
            continue
        if len(own) != len(held[name]):
            said.append(f"{name} compares {len(own)} ratios, and {file} has {len(held[name])} of it.")
            continue
        for (ground, one), value in zip(own, held[name], strict=True):
            if written(one.ratio) != value if ground.lab in exact else value < one.low or value > one.high:
                said.append(f"{name} ({ground}) has a ratio of {written(one.ratio):g}, but {file} {value:g}.")
    return said + [f"{name} has ratios in {file}, but is not at another size." for name in held if name not in measured]
