"""Sentences on published claims, rankings, growth and changes: the words of each branch."""

import math
from types import SimpleNamespace as Of

import numpy as np
import pandas as pd
import pytest
from reprofs.plan.published import Claim
from reprofs.report.sentences import published
from reprofs.report.words import DASH
from reprofs.stats.published.claims import ELSEWHERE, REGIME, REPRODUCED, SAME, UNDECIDED, Interval, Verdict
from reprofs.stats.published.verdicts import Judged

NONE, ABSENT, CONTRADICTED = "not decidable here", "not available", "contradicted"


def claim(kind="ratio", **more) -> Claim:
    own = {"id": "it", "where": "page 1", "says": "so", "kind": kind, "needs": "both"}
    return Claim.model_validate(own | {"of": [{"label": "xfs"}, {"label": "ext4"}]} | more)


FOUND = [Interval(2.0, 1.5, 2.5)]


def judged(word=REPRODUCED, own=None, found=FOUND, told=(3.05,), itself="", busy=()) -> Judged:
    own = own or claim()
    value = own.value if own.value else told[0] if own.kind == "ratio" else math.nan
    reason = {NONE: own.needs, REGIME: CONTRADICTED}.get(word, "")
    verdict = Verdict(word, 300, reason)
    return Judged(own, list(told), itself, value, list(found), busy, math.nan, math.nan, 2000, verdict)


def claims(*found: Judged, siblings=None, stands_in=None, slips=0) -> Of:
    plan = Of(study=Of(most_rounds=lambda: 6), siblings=siblings or {})
    sides = Of(study=Of(plan=plan), counted="files", stands_in=stands_in or {})
    of = lambda *words: [one for one in found if one.verdict.word in words]  # noqa: E731
    decided, counted = of(REPRODUCED, SAME, CONTRADICTED, UNDECIDED), [one for one in found if one not in of(ABSENT)]
    rest = {"counted": counted, "absent": of(ABSENT), "open": of(NONE), "measured": list(found)}
    return Of(judged=list(found), of=of, decided=decided, sides=sides, slips=slips, elsewhere={}, reach=3, **rest)


ORDER, BOUND = claim("order"), claim("bound", most=0.769)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ([judged(UNDECIDED), judged(NONE)], "**This study decides none of 2 published claims**."),
        (
            [judged(ELSEWHERE), judged(NONE), judged(ABSENT)],
            "**This study decides none of 2 published claims**; it measured 1 of them at a size that is not"
            " comparable.",
        ),
        ([judged()], "**Of 1 published claim, 1 is reproduced**."),
        ([judged(own=ORDER)] * 2, "**Of 2 published claims, 2 are reproduced (in direction only)**."),
        (
            [judged(), judged(own=ORDER), judged(CONTRADICTED), judged(SAME)],
            "**Of 4 published claims, 2 are reproduced (1 in direction only) and 1 is contradicted**; 1 has the"
            " published direction, but a different ratio.",
        ),
        ([judged(SAME)] * 2, "**Of 2 published claims, 2 have the published direction, but a different ratio**."),
    ],
)
def test_summary(found, words):
    assert published.summary(claims(*found)) == words


def test_counts_name_every_verdict_once_with_its_meaning():
    found = claims(
        judged(), judged(own=ORDER), judged(REGIME), judged(ELSEWHERE), judged(NONE), judged(NONE), judged(ABSENT)
    )
    rows = published.counts(found)
    assert [(row["class"], row["claims"]) for row in rows] == [
        ("reproduced", 1), ("direction reproduced", 1), ("same regime", 1), ("not at comparable scale", 1),
        ("not measured", 2),
    ]  # fmt: skip
    assert all(row["meaning"] for row in rows) and "more than a factor of 3:" in rows[3]["meaning"]
    assert published.verdict(judged(REGIME)) == "same regime: contradicted"


def test_readings_are_those_of_measured_claims():
    why = judged(SAME, own=claim(reading="Of another size."))
    assert published.readings(claims(why, judged())) == ["so: Of another size."]
    assert published.apart(claims(why)) == ""


def test_how_sure():
    assert published.how_sure(claims(judged(NONE, found=()))) == ""
    told = published.how_sure(claims(judged(), judged(CONTRADICTED)))
    assert told == (
        "How sure: 6 repetitions; all 2 intervals hold jointly with 95 % (Bonferroni). The verdicts are from 300"
        " instead of 2,000 files. Kernels and devices differ too, so a contradiction does not refute the source."
    )
    assert "refute" not in published.how_sure(claims(judged()))


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (judged(), "3.05"),
        (judged(own=claim(value=2.0)), "2.00 (3.05)"),
        (judged(own=claim("bound", least=1.0), told=(1.2, 0.5)), "at least 1 (1.20, 0.500)"),
        (judged(own=claim("bound", least=0.769, most=1), told=(0.8,)), "at least 0.769, at most 1 (0.800)"),
        (judged(own=claim("order", most=1.25), told=(math.nan,)), "above 1, at most 1.25"),
        (judged(own=BOUND, told=(0.7,), itself="contradicted"), "at most 0.769 (0.700; these contradict it)"),
        (judged(own=claim("bound", least=5e8), told=(math.nan,)), "at least 500,000,000"),
        (judged(own=ORDER, told=(math.nan,)), "above 1"),
        (judged(own=claim("within", within=1.25), told=(1.1,) * 5), "within 1.25 times (1.10 to 1.10, 5 ratios)"),
    ],
)  # fmt: skip
def test_what_is_claimed(one, words):
    assert published.claimed(one) == words


def test_what_was_measured():
    assert published.measured(judged()) == "2.00 (1.50 to 2.50)"
    assert published.measured(judged(found=[Interval(2.0, math.nan, math.nan)])) == "2.00"
    assert published.measured(judged(found=[Interval(2.0, 0.01, 400.0)])) == "2.00 (interval too wide)"
    assert published.measured(judged(found=[Interval(n, n, n) for n in (1.0, 2, 3, 4, 5)])) == "1.00 to 5.00, 5 ratios"
    assert published.sizes(judged()) == "2,000 / 300"
    assert published.busy(judged(busy=(0.73, 0.5))) == "50 to 73 %" and published.busy(judged()) == DASH


def test_what_it_would_take():
    siblings = {"it": {"other": ELSEWHERE}}
    found = claims(judged(NONE), siblings=siblings)
    assert [published.needed(found, judged(word)) for word in (REPRODUCED, UNDECIDED, ELSEWHERE, NONE)] == [
        "", "more repetitions", "2,000 files; measured: 300", "both",
    ]  # fmt: skip
    assert published.also(found, found.open[0]) == "both (other: not at comparable scale)"
    assert published.also(found, judged()) == ""
    assert published.siblings(found) == "" and published.mapped(found) == "" and published.slips(found) == ""
    assert published.mapped(claims(stands_in={"lizardfs": "moosefs"})) == "Mapped: lizardfs to moosefs."
    assert published.slips(claims(slips=1)) == "1 claim is contradicted by its own published numbers."
    assert published.slips(claims(slips=2)) == "2 claims are contradicted by their own published numbers."


def test_spread():
    points = pd.DataFrame({"published": [2.0, 8.0], "ratio": [0.5, 8.0]})
    assert published.spread(points) == (
        "1 of 2 measured ratios is on the published side of 1; their geometric mean is 2.0, published 4.0."
    )


def test_rankings():
    operations = pd.DataFrame({"pairs": [10] * 3})
    verdicts = {"same order": ["a"], "another order": ["b"], "undecided": ["c"]}
    ranks = Of(exact=True, null=np.zeros((24, 1)))
    own = Of(operations=operations, pairs=1030, same=1, reversed=20, verdicts=verdicts, ranks=ranks, rho=0.61, p=1 / 24)
    own.few, own.smallest_p, own.left_out = True, 1 / 24, ["xfs"]
    assert published.ranking(own) == (
        "Of 1,030 pairs of configurations with a published order, 1 has it here, 20 are reversed and 1,009 undecided."
    )
    assert published.rankings(own) == (
        "1 of 3 operations has the published ranking; 1 has a reversed pair, 1 is undecided."
    )
    assert published.correlation(own) == (
        "Spearman's correlation is 0.61 on average; 4.17 % of the 24 exchanges of configurations within their stacks"
        " give as much. No smaller p than 0.042 is possible with so few."
    )
    assert published.left_out(own) == "Not ranked, because an operation is missing: xfs."
    assert published.ranking(Of(operations=operations.iloc[:0])) == ""


def test_growth():
    laws = pd.DataFrame({"n": [1] * 12})
    far = Of(laws=laws, near=0, factors=(0.2, 9.0), decades=2.0, broken=1)
    assert published.growth(far) == (
        "Published times are 0.20 to 9.0 times what extrapolation of the growth gives; that is no test, because the"
        " published sizes are 100 or more times as large."
    )
    near = Of(laws=laws, near=3, inside=1)
    assert published.growth(near) == (
        "1 of 3 published times near the measured sizes lies in the 95 % prediction interval."
    )
    assert published.growth(Of(laws=laws.iloc[:0])) == ""
    assert published.deviations(far).startswith("1 of 12 power laws is significantly off by more than 5 %")


def test_changes():
    frame = pd.DataFrame({"relative": [0.87, 1.1], "p_holm": [0.17, 1.0]}, index=["disks of 4 TB", "bitmap"])
    none = "**None of 2 changes brings the ratios significantly nearer to the published ones**"
    assert published.changes(frame) == f"{none}; the largest effect is 13 %, of disks of 4 TB (p = 0.17)."
    assert published.changes(frame.assign(relative=[1.2, 1.1])) == f"{none}."
    assert published.changes(frame.assign(p_holm=[0.01, 0.01])) == (
        "**1 of 2 changes brings the ratios nearer to the published ones** (disks of 4 TB)."
    )
    assert published.changes(frame.iloc[:0]) == ""
    rows = pd.DataFrame({"ratio": [1.0, 2.0], "published": [4.0, 8.0], "reference": "btrfs", "pace": 2.7, "n": 1})
    assert published.base(rows) == (
        "In the base 2 ratios to btrfs differ from the published ones by a factor of 4.0 (geometric mean)."
    )
    assert "nothing can be compared" in published.base(rows.iloc[:0])
    assert published.changes_sure(Of(), rows).startswith("How sure: 1 repetition, which cannot tell a change from")
    assert published.changes_sure(Of(), rows.iloc[:0]) == ""
    assert published.noise(rows) and not published.noise(rows.assign(n=3))
    assert published.pace(rows).startswith("The base takes 2.7 times the published time per item")
    assert published.best(pd.DataFrame({"left": [1.2, 2.0]}), 0.4).endswith("of the base would bring 0 as near.")
    assert published.best(pd.DataFrame({"left": []}), 0) == "No ratio of the base is off by a factor of 1.5 or more."
