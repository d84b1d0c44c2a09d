"""Sentences and cells of tables on published claims, rankings and growth, and on what explains their distance.

A number that was published is compared with what this study measured; both are ratios wherever that is possible.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pandas as pd
import scipy  # scipy.stats takes seconds to import, so scipy imports it on first use

from reprofs.plan.published import Claim
from reprofs.plan.study import ABSENT, NOT_HERE
from reprofs.report.marks import strong
from reprofs.report.words import DASH, WIDEST, alike, chance, count, digits, known, listing, percent, reach, verb
from reprofs.stats.factors import OFF, away
from reprofs.stats.published.claims import (
    BAND,
    CONTRADICTED,
    ELSEWHERE,
    REGIME,
    REPRODUCED,
    SAME,
    UNDECIDED,
    Interval,
)
from reprofs.stats.published.comparison import Comparison
from reprofs.stats.published.growth import Growth
from reprofs.stats.published.orders import Orders
from reprofs.stats.published.verdicts import Claims, Judged
from reprofs.stats.study import Study

MANY = 4  # ratios of one claim: up to here each is shown
DIRECTION = "direction reproduced"
WORDS = {ELSEWHERE: "not at comparable scale", NOT_HERE: "not measured"}  # as they are printed
MEANING = {
    REPRODUCED: "the measured ratio is as claimed",
    DIRECTION: "the direction is as claimed; the claim names no amount",
    SAME: f"on the claimed side of 1, but not by the claimed amount (a ratio: within a factor of {BAND:g})",
    CONTRADICTED: "the interval excludes the claim",
    UNDECIDED: "the interval includes both answers",
    REGIME: "measured at another size, but with memory as short: a verdict on the regime, not on the size",
    WORDS[ELSEWHERE]: "measured, but the size differs by more than a factor of {reach}: no verdict",
    WORDS[NOT_HERE]: "the study does not contain what is compared",
}
# Verdicts in the order of tables.
STATES = [CONTRADICTED, SAME, REPRODUCED, UNDECIDED, REGIME, ELSEWHERE, NOT_HERE, ABSENT]


RANKINGS = {"same order": "published ranking", "another order": "pairs reversed", "undecided": "undecided"}


# ---- claims ----------------------------------------------------------------------------------------------------------


def summary(claims: Claims) -> str:
    """How the published claims end.

    `**Of 32 published claims, 5 are reproduced (in direction only) and 3 are contradicted**; 4 have the published
    direction, but a different ratio.`
    """
    total, number = len(claims.counted), Counter(one.verdict.word for one in claims.counted)
    if not any(number[word] for word in (REPRODUCED, SAME, CONTRADICTED)):
        far = number[ELSEWHERE] + number[REGIME]
        more = f"; it measured {far} of them at a size that is not comparable" * bool(far)
        return strong(f"This study decides none of {count(total, 'published claim')}") + f"{more}."
    told = [
        f"{number[word]} {verb(number[word], 'is', 'are')} {word}"
        for word in (REPRODUCED, CONTRADICTED)
        if number[word]
    ]
    if towards := sum(directed(one.claim) for one in claims.of(REPRODUCED)):
        told[0] += " (in direction only)" if towards == number[REPRODUCED] else f" ({towards} in direction only)"
    only = f"{number[SAME]} {verb(number[SAME], 'has', 'have')} the published direction"
    if not told:
        return strong(f"Of {count(total, 'published claim')}, {only}, but a different ratio") + "."
    end = f"; {only}, but a different ratio" if number[SAME] else ""
    return strong(f"Of {count(total, 'published claim')}, {listing(told)}") + end + "."


def counts(claims: Claims) -> list[dict]:
    """A row for each verdict that a claim has: verdict, claims (how many), meaning."""
    number = Counter(DIRECTION if _direction(one) else _word(one) for one in claims.counted)
    return [
        {"class": word, "claims": number[word], "meaning": meaning.format(reach=claims.reach)}
        for word, meaning in MEANING.items()
        if number[word]
    ]


def apart(claims: Claims) -> str:
    """Which claims do not count: `Not counted: 17 claims about products that nobody can have here.`"""
    number = len(claims.absent)
    return f"Not counted: {count(number, 'claim')} about products that nobody can have here." if number else ""


def readings(claims: Claims) -> list[str]:
    """What is known of why ratios that were measured are not those published, an item each."""
    found = [f"{one.claim.says}: {one.claim.reading}" for one in claims.measured if one.claim.reading]
    regime = claims.sides.about.regime if claims.of(REGIME) and claims.sides.about else None
    return [*found, f"Same regime: {regime.says}"] if regime else found


def how_sure(claims: Claims) -> str:
    """What the verdicts rest on: `How sure: 6 repetitions; all 66 intervals hold jointly with 95 % (Bonferroni).`

    The smallest and the largest number of repetitions are told where they differ.
    """
    compared = sum(len(one.found) for one in claims.judged)
    if not compared:
        return ""
    told = f"How sure: {count(claims.sides.study.plan.study.most_rounds(), 'repetition')};"
    told += f" all {count(compared, 'interval')} hold jointly with 95 % (Bonferroni)."
    sizes = sorted({(one.verdict.size, one.published_size) for one in claims.decided if one.published_size})
    unequal = [f"{here:,} instead of {there:,}" for here, there in sizes if here != there]
    told += f" The verdicts are from {listing(unequal)} {claims.sides.counted}." if unequal else ""
    return told + " Kernels and devices differ too, so a contradiction does not refute the source." * bool(
        claims.of(CONTRADICTED)
    )


def verdict(one: Judged) -> str:
    """The class of a claim as it is printed; a claim without an amount can only be reproduced in its direction."""
    if _direction(one):
        return DIRECTION
    return f"{REGIME}: {one.verdict.reason}" if one.verdict.word == REGIME else _word(one)


def _direction(one: Judged) -> bool:
    return one.verdict.word == REPRODUCED and directed(one.claim)


def _word(one: Judged) -> str:
    return WORDS.get(one.verdict.word, one.verdict.word)


def directed(claim: Claim) -> bool:
    """Whether a claim says which is more, and not by how much."""
    if claim.kind == "bound":
        return {claim.least, claim.most} == {1, None}
    return claim.kind in ("order", "monotone", "no-winner", "mostly") and claim.most is None


def claimed(one: Judged) -> str:
    """What a claim says of its ratios, in brackets the published numbers: `3.05`, `at most 1 (0.078, 0.12)`.

    Where the published numbers do not bear out their claim, that is said.
    """
    claim = one.claim
    words = {
        "order": "above 1",
        "monotone": "increasing",
        "no-winner": "on both sides of 1",
        "mostly": "mostly above 1",
    }
    parts = [words[claim.kind]] if claim.kind in words else []
    if claim.least is not None:
        parts.append(f"at least {claim.least:,.3g}" if claim.least < 1e6 else f"at least {digits(claim.least, 3)}")
    if claim.most is not None:
        parts.append(f"at most {claim.most:.3g}")
    if claim.kind == "ratio":
        parts.append(digits(one.claimed, 3))
    elif claim.within:
        parts.append(f"within {claim.within:g} times")
    told = ", ".join(parts)
    numbers = [] if claim.kind == "ratio" and claim.value is None else [own for own in one.published if known(own)]
    slip = "; these contradict it" if one.own == CONTRADICTED else ""
    return f"{told} ({_several(numbers)}{slip})" if numbers else told


def measured(one: Judged) -> str:
    """The measured ratios of a claim with their intervals: `1.18 (0.71 to 1.96)`; of many the smallest and largest."""
    if len(one.found) > MANY:
        return _several([own.ratio for own in one.found])
    return ", ".join(map(_interval, one.found))


def _interval(one: Interval) -> str:
    if not (known(one.low) and known(one.high)):
        return digits(one.ratio, 3)
    if one.low <= 0 or one.high / one.low > WIDEST:
        return f"{digits(one.ratio, 3)} (interval too wide)"
    own, *ends = alike(one.ratio, one.low, one.high)
    return f"{own} ({' to '.join(ends)})" if ends else own


def _several(found: list[float]) -> str:
    if len(found) > MANY:
        return f"{digits(min(found), 3)} to {digits(max(found), 3)}, {len(found)} ratios"
    return ", ".join(digits(one, 3) for one in found)


def busy(one: Judged) -> str:
    """The share of the times of a claim's values in which the CPU was busy: `51 to 73 %`."""
    return f"{reach(100 * min(one.busy), 100 * max(one.busy), '{:.0f}'.format)} %" if one.busy else DASH


def sizes(one: Judged) -> str:
    """The published and the measured size: `2,000 / 300`."""
    return " / ".join(f"{size:,}" if size else DASH for size in (one.published_size, one.verdict.size))


def needed(claims: Claims, one: Judged) -> str:
    """What it would take to decide a claim: more repetitions, another size, or what was not measured."""
    if one.verdict.word == UNDECIDED:
        return "more repetitions"
    if one.verdict.word in (ELSEWHERE, REGIME):
        return f"{one.published_size:,} {claims.sides.counted}; measured: {one.verdict.size:,}"
    return one.verdict.reason


def elsewhere(claims: Claims, one: Judged) -> dict[str, str]:
    """Other studies that measured a claim, with the verdicts that their files expect, as they are printed."""
    found = claims.sides.study.plan.siblings.get(one.claim.id, {})
    return {name: WORDS.get(word, word) for name, word in found.items()}


def also(claims: Claims, one: Judged) -> str:
    """What it would take to decide a claim, and what other studies say: `btrfs-progs 4.0 (arrays-2015: undecided)`."""
    told = needed(claims, one)
    found = ", ".join(f"{name}: {word}" for name, word in elsewhere(claims, one).items())
    return f"{told} ({found})" if told and found else told


def siblings(claims: Claims) -> str:
    """Which other studies measured claims that this one did not.

    `Measured by other studies: 29 of the remaining claims (small-files-distributed).`
    """
    found = {name for ids in claims.elsewhere.values() for name in ids}
    told = f"Measured by other studies: {len(found)} of the {len(claims.open)} claims not measured here"
    return f"{told} ({listing(claims.elsewhere)})." if found else ""


def slips(claims: Claims) -> str:
    """That published numbers contradict their own claims: `2 claims are contradicted by their own numbers.`"""
    if not claims.slips:
        return ""
    own = verb(claims.slips, "is contradicted by its", "are contradicted by their")
    return f"{count(claims.slips, 'claim')} {own} own published numbers."


def mapped(claims: Claims) -> str:
    """Which published systems are compared with others: `Mapped: lizardfs to moosefs.`"""
    pairs = [f"{other} to {own}" for other, own in claims.sides.stands_in.items()]
    return f"Mapped: {listing(pairs)}." if pairs else ""


def spread(points: pd.DataFrame) -> str:
    """How large ratios are, published and measured. points: columns published (1 or more) and ratio.

    `25 of 31 measured ratios are on the published side of 1; their geometric mean is 1.4, that of the published 4.3.`
    """
    side, means = int((points["ratio"] > 1).sum()), points[["published", "ratio"]].prod() ** (1 / len(points))
    told = f"{side} of {count(len(points), 'measured ratio')} {verb(side, 'is', 'are')} on the published side of 1;"
    return f"{told} their geometric mean is {digits(means['ratio'], 2)}, published {digits(means['published'], 2)}."


# ---- rankings and growth ---------------------------------------------------------------------------------------------


def ranking(orders: Orders) -> str:
    """Whether configurations have the published ranking.

    `Of 120 pairs of configurations with a published order, 80 have it here, 20 are reversed and 20 undecided.`
    """
    if orders.operations.empty:
        return ""
    left = orders.pairs - orders.same - orders.reversed
    told = f"Of {count(orders.pairs, 'pair')} of configurations with a published order,"
    told += f" {orders.same:,} {verb(orders.same, 'has', 'have')} it here,"
    return f"{told} {orders.reversed:,} {verb(orders.reversed, 'is', 'are')} reversed and {left:,} undecided."


def rankings(orders: Orders) -> str:
    """How many operations have the published ranking.

    `1 of 15 operations has the published ranking; 9 have a reversed pair, 5 are undecided.`
    """
    number = {word: len(titles) for word, titles in orders.verdicts.items()}
    same, other, total = number["same order"], number["another order"], len(orders.operations)
    told = f"{same} of {count(total, 'operation')} {verb(same, 'has', 'have')} the published ranking;"
    left = number["undecided"]
    return f"{told} {other} {verb(other, 'has', 'have')} a reversed pair, {left} {verb(left, 'is', 'are')} undecided."


def correlation(orders: Orders) -> str:
    """Spearman's correlation of both rankings and how often chance gives as much.

    `Spearman's correlation is 0.61 on average; 4.2 % of the 24 exchanges of configurations give as much.`
    """
    own, of = orders.ranks, "the " if orders.ranks.exact else ""
    told = f"Spearman's correlation is {digits(orders.rho, 2)} on average;"
    told += (
        f" {percent(orders.p)} of {of}{len(own.null):,} exchanges of configurations within their stacks give as much."
    )
    few = f" No smaller p than {digits(orders.smallest_p, 2)} is possible with so few." if orders.few else ""
    return told + few


def left_out(orders: Orders) -> str:
    """Which configurations are not ranked: `Not ranked, because an operation is missing: xfs.`"""
    return f"Not ranked, because an operation is missing: {listing(orders.left_out)}." if orders.left_out else ""


def growth(own: Growth) -> str:
    """What extrapolation gives at the published sizes, and that it decides nothing so far away.

    `Published times are 0.2 to 9 times what extrapolation gives; that is no test: the sizes are 390 times as large.`
    """
    if own.laws.empty:
        return ""
    if own.near:
        inside = f"{own.inside} of {count(own.near, 'published time')} near the measured sizes"
        return f"{inside} {verb(own.inside, 'lies', 'lie')} in the 95 % prediction interval."
    low, high = own.factors
    told = f"Published times are {digits(low, 2)} to {digits(high, 2)} times what extrapolation of the growth gives;"
    return (
        f"{told} that is no test, because the published sizes are {digits(10**own.decades, 2)} or more times as large."
    )


def deviations(own: Growth) -> str:
    """Whether the measured times are power laws within 5 %: `2 of 12 power laws are off by more than 5 % ...`"""
    told = f"{own.broken} of {count(len(own.laws), 'power law')} {verb(own.broken, 'is', 'are')} significantly off"
    return f"{told} by more than 5 % at a measured size, so extrapolation is a scenario, not a prediction."


# ---- changes one at a time -------------------------------------------------------------------------------------------


def changes(changed: pd.DataFrame) -> str:
    """Whether a change brings the ratios nearer to the published ones.

    changed: a row a change, with relative (distance over that of the base) and p_holm; NaN where it was not tested.

    `**None of 11 changes brings the ratios significantly nearer to the published ones**; the largest effect is 13 %, of
    disks of 4 TB (p = 0.17).`
    """
    if changed.empty:
        return ""
    near = changed[(changed["p_holm"] < 0.05) & (changed["relative"] < 1)].sort_values("relative")
    total = count(len(changed), "change")
    if len(near):
        verbs = verb(len(near), "brings", "bring")
        told = strong(f"{len(near)} of {total} {verbs} the ratios nearer to the published ones")
        return told + f" ({listing(near.index)})."
    first = changed["relative"].idxmin()
    told = strong(f"None of {total} brings the ratios significantly nearer to the published ones")
    least = changed.loc[first]
    if not least["relative"] < 1:
        return told + "."
    how = chance(least["p_holm"]) if known(least["p_holm"]) else "one repetition, not tested"
    return told + f"; the largest effect is {100 * (1 - least['relative']):.0f} %, of {first} ({how})."


def base(rows: pd.DataFrame) -> str:
    """How far the ratios of the base are from the published ones. rows: of `factors.effects`, of the base.

    `In the base 30 ratios to btrfs differ from the published ones by a factor of 2.2 (geometric mean).`
    """
    if rows.empty:
        return "No operation with a published number completed in the base, so nothing can be compared."
    far, number = scipy.stats.gmean(away(rows["ratio"], rows["published"])), count(len(rows), "ratio")
    told = f"In the base {number} to {rows['reference'].iloc[0]} {verb(len(rows), 'differs', 'differ')}"
    return f"{told} from the published ones by a factor of {digits(far, 2)} (geometric mean)."


def changes_sure(study: Study, rows: pd.DataFrame) -> str:
    """What the comparison of changes rests on. rows: as of `base`."""
    if rows.empty:
        return ""
    rounds = int(rows["n"].max())
    told = f"How sure: {count(rounds, 'repetition')}"
    if rounds < 2:
        return f"{told}, which cannot tell a change from another repetition of the base."
    return f"{told}, paired; Holm-corrected over the changes, which may act together."


def noise(rows: pd.DataFrame) -> str:
    """That single ratios of one repetition may be noise; empty with more. rows: as of `base`."""
    return "With one repetition a single ratio may change by noise alone." if (rows["n"] == 1).all() else ""


def pace(rows: pd.DataFrame) -> str:
    """How fast the base is for each item, against the published times. rows: as of `base`.

    `The base takes 2.7 times the published time per file, so a ratio that agrees proves no common reason.`
    """
    own = scipy.stats.gmean(rows["pace"])
    return f"The base takes {digits(own, 2)} times the published time per item; agreeing ratios do not prove a cause."


def incomplete(study: Study, effects: pd.DataFrame) -> str:
    """Which changes have no ratio: `Without a completed pair of file systems: write-intent bitmap.`"""
    missing = [entry.title for entry in study.plan.factors[1:] if entry.title not in set(effects["factor"])]
    return f"Without a completed pair of file systems: {listing(missing)}." if missing else ""


def best(deviating: pd.DataFrame, by_chance: float) -> str:
    """How many far ratios some change brings near, which chance does in part. deviating: of `factors.deviating`;
    by_chance: of that function.

    `Of 22 ratios that are off by a factor of 1.5 or more in the base, 17 are nearer than that with some change. As many
    other repetitions of the base would bring 8 as near.`
    """
    near, total = int((deviating["left"] < OFF).sum()), len(deviating)
    if not total:
        return f"No ratio of the base is off by a factor of {OFF:g} or more."
    told = f"Of {count(total, 'ratio')} that {verb(total, 'is', 'are')} off by a factor of {OFF:g} or more in the base,"
    told += f" {near} {verb(near, 'is', 'are')} nearer than that with some change."
    if not known(by_chance):
        return f"{told} The base has one repetition, so how many as many others would bring as near is not known."
    return f"{told} As many other repetitions of the base would bring {by_chance:.0f} as near."


def operation(study: Study, row: Any) -> str:
    """The title of an operation of a study of factors. row: with phase and cache."""
    return study.title(study.plan.factors[0].cells[0].workload, row.phase, row.cache)


# ---- what differs ----------------------------------------------------------------------------------------------------


def differences(comparison: Comparison) -> list[dict]:
    """What differed when the published numbers were measured, a row each, with this study's own values."""
    recorded = comparison.study.environment["values"]
    kernels = recorded.get("lab.kernel") or recorded.get("host.kernel")
    ground = comparison.ground
    own = [place for place in comparison.places if (place.lab, place.profile) == ground]
    sizes = {size for place in own for size in comparison.sizes(place)}
    if not sizes and comparison.about:  # claims alone, without numbers
        entries = comparison.study.plan.workloads.values()
        sizes = {number for one in entries if (number := one.parameters.get(comparison.about.size or "")) is not None}
    values = {
        "kernel": listing(kernels) if kernels else "not recorded",
        "sizes": listing(f"{size:,}" for size in sorted(sizes)),
        "rounds": count(comparison.study.plan.study.most_rounds(), "repetition"),
        "lab": ground.lab if ground else DASH,
        "profile": ground.profile if ground else DASH,
    }
    return [
        {
            "what": entry.what,
            "published": entry.there,
            "this study": re.sub(r"\{(\w+)\}", lambda name: str(values.get(name[1], name[0])), entry.here),
            "consequence": entry.follows,
        }
        for entry in (comparison.about.differs if comparison.about else ())
    ]
