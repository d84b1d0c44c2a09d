"""Published claims: verdicts of every kind against known truth, values of samples by hand, expected verdicts."""

import math
import re
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import yaml
from conftest import ROOT
from helpers import CATALOG, drawn
from reprofs.data.published import tables
from reprofs.data.rows import label as label_of
from reprofs.errors import UserError
from reprofs.labs import get_lab
from reprofs.plan.device import Device, Plain
from reprofs.plan.phase import Phase
from reprofs.plan.plan import Plan, PlannedWorkload
from reprofs.plan.processor import Processor
from reprofs.plan.published import Claim, Published, Regime, Size, Value
from reprofs.plan.read import validate
from reprofs.plan.study import PlannedStudy
from reprofs.plan.study import Study as StudyFile
from reprofs.plan.workload import Scale
from reprofs.report.sentences import published as sentences
from reprofs.report.words import DASH
from reprofs.stats.cells import processors
from reprofs.stats.published import claims
from reprofs.stats.published import numbers as numbers_of_files
from reprofs.stats.published.claims import Interval
from reprofs.stats.published.comparison import Comparison, changes
from reprofs.stats.published.sides import Sides
from reprofs.stats.published.values import Ground
from reprofs.stats.published.verdicts import Claims, Judged
from reprofs.stats.study import Study
from reprofs.stats.study import open as reprofs_open
from reprofs.trial.planning import make_plan

GROUND = Ground("exact", "ssd")
REPRODUCED, SAME, CONTRADICTED, UNDECIDED = "reproduced", "same direction", "contradicted", "undecided"


def claim(kind: str, of=("xfs", "ext4"), **more) -> Claim:
    """A claim about one phase on file systems, or on other values."""
    own = {"id": "it", "where": "page 1", "says": "so", "kind": kind, "needs": "both"}
    values = [value if isinstance(value, dict) else {"label": value} for value in of]
    return Claim.model_validate(own | {"of": values, "at": {"phase": "create", "cache": "warm"}} | more)


def around(ratio: float, share: float = 0.01) -> Interval:
    return Interval(ratio, ratio * (1 - share), ratio * (1 + share))


OVER = [{"phase": phase, "cache": "cold"} for phase in ("a", "b", "c")]


# ---- verdicts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own", "found", "value", "verdict"),
    [
        # A ratio of 3.05 is reproduced by an interval with it or with a factor of it, not by any above 1.
        (claim("ratio"), [around(3.0)], 3.05, REPRODUCED),
        (claim("ratio"), [around(2.5)], 3.05, REPRODUCED),  # 3.05 / 1.25 is 2.44
        (claim("ratio", within=1.05), [around(2.5)], 3.05, SAME),
        (claim("ratio"), [around(1.1)], 3.05, SAME),
        (claim("ratio"), [around(9.0)], 3.05, SAME),
        (claim("ratio"), [Interval(1.1, 0.9, 1.3)], 3.05, CONTRADICTED),  # whatever its side, it is nothing like 3.05
        (claim("ratio"), [Interval(2.0, 0.9, 4.0)], 3.05, UNDECIDED),
        (claim("ratio"), [around(0.4)], 3.05, CONTRADICTED),
        (claim("ratio"), [around(0.33)], 1 / 3.05, REPRODUCED),  # the same below 1
        (claim("ratio"), [around(0.9)], 1 / 3.05, SAME),
        (claim("ratio"), [around(1.1)], 1 / 3.05, CONTRADICTED),
        (claim("ratio"), [Interval(3.0, math.nan, math.nan)], 3.05, UNDECIDED),  # one round
        (claim("ratio", of=["ext4"], value=100.0), [around(110)], 100.0, REPRODUCED),  # a value alone
        (claim("ratio", of=["ext4"], value=100.0), [around(300)], 100.0, CONTRADICTED),
        (claim("bound", least=5), [around(6)], math.nan, REPRODUCED),
        (claim("bound", least=5), [around(2)], math.nan, SAME),
        (claim("bound", least=5), [around(0.9)], math.nan, CONTRADICTED),
        (claim("bound", least=5), [Interval(2, 0.8, 5.5)], math.nan, UNDECIDED),
        (claim("bound", least=0.75), [around(0.6)], math.nan, CONTRADICTED),
        (claim("bound", most=1.3), [around(1.2)], math.nan, REPRODUCED),
        (claim("bound", most=1.3), [around(1.4)], math.nan, CONTRADICTED),
        (claim("bound", most=1.3), [around(1.3)], math.nan, UNDECIDED),
        (claim("bound", most=0.5), [around(0.8)], math.nan, SAME),
        (claim("bound", of=["a", "b", "c"], most=1), [around(0.5), around(0.9)], math.nan, REPRODUCED),
        (claim("bound", of=["a", "b", "c"], most=1), [around(0.5), around(1.1)], math.nan, CONTRADICTED),
        (claim("bound", of=["a", "b", "c"], most=1), [around(0.5), around(1.0)], math.nan, UNDECIDED),
        (claim("bound", of=["a"], most=0.5), [around(0.7)], math.nan, CONTRADICTED),  # a value alone has no direction
        (
            claim("bound", of=[{"label": "a", "quantity": "system"}, "a"], most=0.02),
            [around(0.1)],
            math.nan,
            CONTRADICTED,  # that a part is less than the whole is no direction
        ),
        (claim("bound", of=["a"], least=5e8), [around(1.2e9)], math.nan, REPRODUCED),
        (claim("order", of="abc"), [around(1.1), around(1.2)], math.nan, REPRODUCED),
        (claim("order", of="abc"), [around(1.1), around(1.0)], math.nan, UNDECIDED),
        (claim("order", of="abc"), [around(1.0), around(0.9)], math.nan, CONTRADICTED),
        # A little more is more, but not by much.
        (claim("order", most=1.25), [around(1.1)], math.nan, REPRODUCED),
        (claim("order", most=1.25), [Interval(3.59, 1.82, 7.08)], math.nan, SAME),
        (claim("order", most=1.25), [Interval(1.3, 1.1, 1.5)], math.nan, UNDECIDED),
        (claim("order", most=1.25), [around(0.9)], math.nan, CONTRADICTED),
        (claim("mostly", over=OVER, most=1.25), [around(1.1), around(1.1), around(2)], math.nan, REPRODUCED),
        (claim("mostly", over=OVER, most=1.25), [around(1.1), around(2), around(2)], math.nan, SAME),
        (claim("mostly", over=OVER, most=1.25), [around(2), around(0.8), around(0.8)], math.nan, CONTRADICTED),
        (claim("bound", least=0.769, most=1), [around(0.9)], math.nan, REPRODUCED),
        (claim("bound", least=0.769, most=1), [around(0.7)], math.nan, CONTRADICTED),
        (claim("bound", least=0.769, most=1), [around(1.2)], math.nan, CONTRADICTED),
        (claim("monotone", of="abc"), [Interval(1, 1, 1), around(2), around(2)], math.nan, REPRODUCED),
        (claim("monotone", of="abc"), [around(2), around(0.9), around(1.8)], math.nan, CONTRADICTED),
        (claim("monotone", of="abc"), [around(1), around(2), around(2)], math.nan, UNDECIDED),
        (claim("monotone", of="abc"), [Interval(1, 1, 1)] * 3, math.nan, UNDECIDED),  # the last is not smaller
        (claim("within", of="ab", within=1.05), [around(1.02)], math.nan, REPRODUCED),
        (claim("within", of="ab", within=1.05), [around(0.97)], math.nan, REPRODUCED),
        (claim("within", of="ab", within=1.05), [around(1.05)], math.nan, UNDECIDED),
        (claim("within", of="abc", within=1.05), [around(1), around(1), around(1.2)], math.nan, CONTRADICTED),
        (claim("no-winner", over=OVER), [around(1.2), around(0.8), around(1)], math.nan, REPRODUCED),
        (claim("no-winner", over=OVER), [around(1.2), around(1.2), around(1)], math.nan, CONTRADICTED),
        (claim("no-winner", over=OVER), [around(1.2), around(1), around(1)], math.nan, UNDECIDED),
        (claim("mostly", over=OVER), [around(1.2), around(1.2), around(0.8)], math.nan, REPRODUCED),
        (claim("mostly", over=OVER), [around(1.2), around(1), around(1)], math.nan, UNDECIDED),
        (claim("mostly", over=OVER), [around(1.2), around(0.8), around(0.8)], math.nan, CONTRADICTED),
        (claim("mostly", over=OVER[:2]), [around(1.2), around(0.8)], math.nan, CONTRADICTED),  # a half is not most
        # In each step larger than both others.
        (claim("mostly", of="abc", over=OVER[:2]), [around(1.2), around(1)] + [around(2)] * 2, math.nan, UNDECIDED),
        (claim("mostly", of="abc", over=OVER[:2]), [around(1.2), around(1.1)] + [around(2)] * 2, math.nan, REPRODUCED),
    ],
)
def test_verdicts(own, found, value, verdict):
    assert claims.decide(own, found, value) == verdict


@pytest.mark.parametrize(
    ("own", "pairs"),
    [
        (claim("bound", of="abc", least=1), ["ab", "ac"]),
        (claim("order", of="abc"), ["ab", "bc"]),
        (claim("monotone", of="abc"), ["ab", "bc", "ac"]),
        (claim("monotone", of="ab"), ["ab"]),
        (claim("within", of="abc", within=2), ["ab", "ac", "bc"]),
    ],
)
def test_what_is_compared(own, pairs):
    assert [first.label + second.label for first, second in claims.comparisons(own)] == pairs
    steps = claims.comparisons(claim("mostly", of="abc", over=OVER[:2]))
    assert [first.label + second.label + first.phase for first, second in steps] == ["aba", "aca", "abb", "acb"]
    steps = claims.comparisons(claim("no-winner", over=OVER))
    assert [(first.label, second.label, first.phase) for first, second in steps] == [
        ("xfs", "ext4", phase) for phase in "abc"
    ]


# ---- a study ---------------------------------------------------------------------------------------------------------


PHASES = [
    Phase(name="create", title="x", operation="create"),
    Phase(name="life", title="x", run="x", samples={"create": "x", "write": "x", "full": "x"}),
]


def row(label: str, number: int, **more) -> dict:
    own = {"trial": f"r{number}-{label}-{more.get('stack', 'single')}", "label": label, "role": "contender"}
    own |= {"status": "ok", "lab": "exact", "profile": "ssd", "stack": "single", "workload": "metadata"}
    return own | {"scale": "smoke", "round": number, "phase": "create", "cache": "warm"} | more


def study(
    own: list[Claim],
    times: dict,
    samples: list[dict] = (),
    scale=None,
    devices=None,
    siblings=None,
    disks=None,
    **about,
) -> Study:
    """A study whose phase took (label, stack) -> seconds, tenths of a percent apart, beside these claims."""
    phases = [
        row(
            label,
            number,
            stack=stack,
            position=0,
            operation="create",
            wall_ns=round(second * (1e9 + number * len(label) * 1e6)),
        )
        | {"user_ns": round(second * 4e8), "system_ns": round(second * 1e8)}
        for (label, stack), second in times.items()
        for number in (1, 2, 3)
    ]
    published = Published.model_construct(title="t", claims=own, differs=[], size="files", disks=disks)
    plan = Plan.model_construct(
        study=PlannedStudy.model_construct(**{"name": "mine", "published": "mine", **about}),
        published=published,
        workloads={"metadata": PlannedWorkload.model_construct(phases=PHASES, scale=scale)},
        devices=devices or {},
        labs={"exact": get_lab("exact").facts(CATALOG.get(Processor, "v2-0.5ns"))},
        siblings=siblings or {},
    )
    nothing = pd.DataFrame()
    frames = pd.DataFrame(phases), pd.DataFrame(list(samples))
    return Study(nothing, frames[0], frames[1], *[nothing] * 6, plan, {"values": {}}, {}, folder=Path("unused"))


@pytest.fixture
def numbers(tmp_path, monkeypatch):
    """Writes published numbers: (label, value) pairs of the phase, in seconds; at first a single one."""
    monkeypatch.setattr(numbers_of_files, "FOLDER", tmp_path)
    (tmp_path / "mine.yaml").write_text("")

    def write(*pairs, **more):
        rows = [
            {"place": "page 1", "label": label, "phase": "create", "cache": "warm", "quantity": "time", "unit": "s"}
            | {"statistic": "single", "value": value, "origin": "printed"}
            | more
            for label, value in pairs
        ]
        pd.DataFrame(rows, columns=list(numbers_of_files.COLUMNS)).to_csv(tmp_path / "mine.csv", index=False)

    write(("xfs", 1.0))
    return write


def claims_of(found: Study) -> Claims:
    return Claims(Sides(found), GROUND)


def judged(found: Study) -> dict[str, Judged]:
    return {one.claim.id: one for one in claims_of(found).judged}


def verdicts(found: Study) -> dict[str, str]:
    return {name: one.verdict.word for name, one in judged(found).items()}


def test_every_verdict_of_a_study_and_what_its_source_says_itself(numbers):
    numbers(("ext4", 2.0), ("xfs", 6.1))
    own = [
        claim("ratio", id="three"),
        claim("ratio", value=2.0, id="two"),  # which its own numbers do not bear out
        claim("order", of=["ext4", "xfs"], id="turned"),
        claim("within", within=1.6, id="near"),
        claim("order", of=["btrfs+none", "ext4"], id="absent"),
    ]
    found = study(own, {("ext4", "single"): 1.0, ("xfs", "single"): 1.5})
    table = judged(found)
    assert verdicts(found) == {
        "three": SAME, "two": SAME, "turned": CONTRADICTED, "near": REPRODUCED, "absent": "not decidable here",
    }  # fmt: skip
    assert {name: one.own for name, one in table.items()} == {
        "three": "", "two": SAME, "turned": CONTRADICTED, "near": CONTRADICTED, "absent": "",
    }  # fmt: skip
    (one,) = table["three"].found
    assert one.low < one.ratio < one.high and one.ratio == pytest.approx(1.5, rel=0.01)
    assert table["three"].claimed == pytest.approx(3.05)
    assert table["absent"].verdict.reason == "both" and table["three"].verdict.reason == ""
    assert not any(one.found for one in claims_of(study(own, {("ext4", "single"): 1.0})).judged)


def test_ratios_are_turned_so_that_the_published_one_is_one_or_more(numbers):
    numbers(("ext4", 2.0), ("xfs", 8.0))
    own = [claim("order", of=["ext4", "xfs"], id="less"), claim("bound", of=["xfs"], least=1, id="alone")]
    own += [claim("ratio", of=["btrfs", "xfs"], value=2, id="told")]
    times = {("ext4", "single"): 1.0, ("xfs", "single"): 2.0, ("btrfs", "single"): 3.0}
    found = claims_of(study(own, times)).ratios.set_index("id")
    assert list(found.index) == ["less", "told"], "a value alone is no ratio"
    less = found.loc["less"]
    assert less.published == 4 and less.ratio == pytest.approx(2, rel=0.01) and less.low < less.ratio < less.high
    assert less.word == CONTRADICTED and found.loc["told", "published"] == 2


def test_a_value_is_never_compared_with_itself(numbers):
    """Two published runs of one cell are one cell here."""
    numbers(("xfs", 10.0))
    pages = [{"label": "xfs", "place": f"page {number}"} for number in (1, 2)]
    own = claim("within", of=pages, within=1.03)
    assert verdicts(study([own], {("xfs", "single"): 1.0})) == {"it": "not decidable here"}


def test_stacks_and_file_systems_stand_in_where_the_study_says_so_and_the_claim_lets_them(numbers):
    own = claim("order", at={"stack": "md-raid5@24", "phase": "create"})
    measured = {("xfs", "md-raid5"): 2.0, ("ext4", "md-raid5"): 1.0}
    assert verdicts(study([own], measured)) == {"it": "not decidable here"}
    instead = {"md-raid5@24": "md-raid5"}
    assert verdicts(study([own], measured, stands_in=instead)) == {"it": REPRODUCED}
    alone = claim("order", at={"stack": "md-raid5@24", "phase": "create"}, own_stack=True)
    assert verdicts(study([alone], measured, stands_in=instead)) == {"it": "not decidable here"}
    relative = {("gluster+replica-3@lan-1g", "md-raid5"): 2.0, ("ext4", "md-raid5"): 1.0}
    instead |= {"xfs": "gluster+replica-3@lan-1g"}
    assert verdicts(study([own], relative, stands_in=instead)) == {"it": REPRODUCED}


def test_a_study_that_is_too_small_does_not_decide(numbers):
    own = claim("order", least_size=1000)
    assert verdicts(study([own], {("xfs", "single"): 2.0, ("ext4", "single"): 1.0})) == {"it": "not decidable here"}


TWO = {("xfs", "single"): 2.0, ("ext4", "single"): 1.0}


@pytest.mark.parametrize(
    ("files", "size", "verdict"),
    [
        (100, 300, REPRODUCED),
        (100, 301, "at another size"),
        (301, 100, "at another size"),  # larger is another one, too
        (100, None, REPRODUCED),  # no size is told
        (None, 300, REPRODUCED),  # or known
    ],
)
def test_a_claim_at_another_size_is_neither_reproduced_nor_contradicted(numbers, files, size, verdict):
    scale = Scale(device_mib=320, files=files)
    at = {"phase": "create", "size": size}
    own = [claim("order", id="up", at=at), claim("order", of=["ext4", "xfs"], id="down", at=at)]
    found = study(own, TWO, scale=scale)
    words = verdicts(found)
    assert words["up"] == verdict and words["down"] == verdict.replace(REPRODUCED, CONTRADICTED)
    assert {sentences.sizes(one) for one in claims_of(found).measured} == {
        " / ".join(f"{number:,}" if number else DASH for number in (size, files))
    }
    own = claims_of(found)
    assert (len(own.far), len(own.decided)) == ((2, 0) if verdict not in (REPRODUCED, CONTRADICTED) else (0, 2))


@pytest.mark.parametrize(
    ("device", "networks", "reach"),
    [({}, {}, 20), ({}, {"lan-1g": None}, 3), ({"completion_ns": 80_000}, {}, 3), ({"backing": "file"}, {}, 3)],
)
def test_in_memory_a_ratio_holds_over_more_sizes_than_on_disks_and_networks(numbers, device, networks, reach):
    found = study([claim("order")], TWO, devices={"ssd": Plain(title="t", **device)})
    found = replace(found, plan=found.plan.model_copy(update={"networks": networks}))
    assert claims_of(found).reach == reach


@pytest.mark.parametrize(
    ("memory", "verdict"),
    [(None, ("at another size", 100, "")), (2, ("same regime", 100, REPRODUCED)), (3, ("at another size", 100, ""))],
)
def test_with_memory_as_short_another_size_has_the_same_regime(numbers, memory, verdict):
    found = study([claim("order", at={"phase": "create", "size": 10**8})], TWO, scale=Scale(device_mib=320, files=100))
    about = found.plan.published.model_copy(update={"regime": Regime(per_mib=50, says="Short of memory.")})
    labs = {name: one.model_copy(update={"memory_mib": memory}) for name, one in found.plan.labs.items()}
    own = claims_of(replace(found, plan=found.plan.model_copy(update={"published": about, "labs": labs})))
    assert own.judged[0].verdict == verdict and len(own.far) == len(own.measured) == 1 and not own.decided
    same = verdict[0] == "same regime"
    assert sentences.verdict(own.judged[0]) == ("same regime: reproduced" if same else "not at comparable scale")
    assert sentences.readings(own) == ["Same regime: Short of memory."] * same


def test_claims_about_products_that_nobody_can_have_do_not_count(numbers):
    own = [claim("order", id="ours"), claim("order", of=["xfs", "avere"], id="theirs")]
    found = study(own, {**TWO, ("avere", "single"): 1.0})  # not even if something of that name was measured
    about = found.plan.published.model_copy(update={"products": {"avere": "A cache"}})
    told = claims_of(replace(found, plan=found.plan.model_copy(update={"published": about})))
    assert {one.claim.id: one.verdict for one in told.judged} == {
        "ours": (REPRODUCED, 0, ""), "theirs": ("not available", 0, "A cache"),
    }  # fmt: skip
    assert [one.claim.id for one in told.counted] == ["ours"] and not told.open
    assert sentences.summary(told) == "**Of 1 published claim, 1 is reproduced (in direction only)**."
    assert sentences.apart(told) == "Not counted: 1 claim about products that nobody can have here."


AMOUNT = re.compile(r"\b(little|slightly|begins|nearly|almost|hardly|about|much|couple|up to|just under)\b")


def test_no_claim_is_weaker_than_its_words():
    """A word of amount (a little, much) has a bound; of an order any difference would do."""
    found = [claim for name in CATALOG.paths(Published) for claim in CATALOG.get(Published, name).claims]
    said = [claim for claim in found if AMOUNT.search(claim.says)]
    assert len(said) > 20
    assert [claim.id for claim in said if sentences.directed(claim)] == []


def test_a_claim_names_the_workload_of_its_repository():
    """The small repository of 2015 has another list of steps than the large one."""
    for claim in CATALOG.get(Published, "datalad-2015").claims:
        steps = {value.workload for value in claim.values} - {"git-annex-large-files"}
        sizes = {value.size for value in claim.values}
        assert steps <= {{2000: "git-annex-small", 100_000: "git-annex"}[size] for size in sizes}, claim.id


def test_sizes_are_read_from_the_parameter_that_counts():
    about = Published.model_construct(
        size="device_mib",
        sizes={"one": Size(parameter="sizes", published=20100), "two": Size(published=7)},
    )
    assert about.size_here("one+clients30", {"sizes": "1M,2G,4K", "device_mib": 320}) == 2048
    assert about.size_here("two", {"device_mib": 320}) == about.size_here("three", {"device_mib": 320}) == 320
    assert about.size_here("three", {}) == 0
    both = claim("order", at=None, of=[{"workload": "one+clients30", "label": "a"}, {"workload": "two", "label": "a"}])
    assert about.size_of(both) == 7
    assert about.size_of(claim("order", at={"workload": "one"})) == 20100
    assert about.size_of(claim("order", at={"workload": "one", "size": 3})) == 3
    assert about.size_of(claim("order")) == 0


@pytest.mark.parametrize(
    ("about", "of", "busy", "verdict"),
    [
        ("devices", ["xfs", "ext4"], 0.79, REPRODUCED),
        ("devices", ["xfs", "ext4"], 0.8, "not decidable here"),
        ("devices", ["ext4", "xfs"], 0.8, "not decidable here"),
        ("devices", ["ext4", "xfs"], math.nan, CONTRADICTED),  # of records that do not say it nothing is said
        (None, ["xfs", "ext4"], 0.9, REPRODUCED),
        (None, ["ext4", "xfs"], 0.79, CONTRADICTED),
        (None, ["ext4", "xfs"], 0.9, "not decidable here"),
        ("processor", ["ext4", "xfs"], 0.9, CONTRADICTED),
    ],
)
def test_nothing_is_contradicted_by_a_busy_processor(numbers, about, of, busy, verdict):
    found = study([claim("order", of=of, about=about)], TWO)
    phases = found.phases.assign(processor_busy=0.5)
    phases.loc[phases["label"] == "ext4", "processor_busy"] = busy
    found = replace(found, phases=phases)
    (one,) = claims_of(found).judged
    assert one.verdict.word == verdict
    assert one.verdict.reason == (
        f"a processor that waits: it was measured, busy for {busy:.0%} of the time" if verdict.startswith("not") else ""
    )


def test_values_without_a_stack_are_compared_on_one_that_has_both(numbers):
    measured = {("ext4", "servers"): 1.0, ("xfs", "single"): 2.0, ("ext4", "single"): 4.0}
    assert verdicts(study([claim("order")], measured)) == {"it": CONTRADICTED}
    del measured["ext4", "single"]  # there is none: each on the first that has it
    assert verdicts(study([claim("order")], measured)) == {"it": REPRODUCED}


@pytest.mark.parametrize(
    ("processor", "real", "busy", "verdict"),
    [
        ("v2-0.5ns-8c", {}, 0.099, CONTRADICTED),
        ("v2-0.5ns-8c", {}, 0.1, "not decidable here"),  # in sum 0.8 of one, which may have been one thread
        ("v2-0.5ns-8c", {"host.cores": {"64": 3}}, 0.099, CONTRADICTED),
        (None, {"host.cores": {"2": 3}}, 0.39, CONTRADICTED),
        (None, {"host.cores": {"2": 3, "64": 1}}, 0.39, "not decidable here"),
        (None, {}, 0.79, CONTRADICTED),
    ],
)
def test_one_thread_of_several_processors_may_have_been_measured(numbers, processor, real, busy, verdict):
    found = study([claim("order", of=["ext4", "xfs"], about="devices")], TWO)
    lab = get_lab("exact").facts(CATALOG.get(Processor, processor)) if processor else get_lab("host").facts(None)
    plan = found.plan.model_copy(update={"labs": {"exact": lab}})
    phases = found.phases.assign(processor_busy=busy)
    (one,) = claims_of(replace(found, plan=plan, phases=phases, environment={"values": real})).judged
    assert one.verdict.word == verdict
    if verdict.startswith("not") and processor:
        assert "8 of them worked 10% of the time, 0.80 times what one thread can" in one.verdict.reason


@pytest.mark.parametrize(
    ("disks", "profile", "verdict"),
    [
        ("rotating", "ssd", "not decidable here"),
        ("rotating", "hdd-7200", REPRODUCED),
        ("solid", "hdd-7200", "not decidable here"),
        ("solid", "ssd-nvme", REPRODUCED),
        (None, "ssd", REPRODUCED),
        ("rotating", "file", REPRODUCED),  # what a real disk is, is not known
    ],
)
def test_devices_of_another_kind_decide_no_claim_about_devices(numbers, disks, profile, verdict):
    devices = {"ssd": CATALOG.get(Device, profile)}
    own = [claim("order", id="it", about="devices"), claim("order", id="files")]
    found = study(own, TWO, devices=devices, disks=disks, expected={REPRODUCED: ["it", "files"]})
    assert verdicts(found) == {"it": verdict, "files": REPRODUCED}
    assert changes(Comparison(found)) == []  # on them nothing is expected of it


def test_what_no_trial_can_contain_is_not_decidable(numbers):
    assert verdicts(study([claim("order", never=True)], TWO)) == {"it": "not decidable here"}


def test_one_client_and_many_are_compared_each_at_its_own_size(numbers):
    """The tree of each of 30 clients is smaller than that of one."""
    of = [{"workload": "metadata+clients30", "label": "xfs"}, {"workload": "metadata", "label": "xfs"}]
    found = study([claim("order", of=of)], {("xfs", "single"): 1.0})
    many = found.phases.assign(workload="metadata@20+clients30", wall_ns=2 * found.phases["wall_ns"])
    phases = pd.concat([found.phases, many])
    known = found.plan.workloads["metadata"].model_copy(update={"scale": Scale(device_mib=320, files=100)})
    small = known.model_copy(update={"scale": Scale(device_mib=320, files=20)})
    plan = found.plan.model_copy(update={"workloads": {"metadata": known, "metadata@20+clients30": small}})
    (one,) = claims_of(replace(found, phases=phases, plan=plan)).judged
    assert one.verdict == (REPRODUCED, 20, "") and one.found[0].ratio == pytest.approx(2)
    # Of several sizes of the one client that which is nearest to the many's.
    large = known.model_copy(update={"scale": Scale(device_mib=320, files=2000)})
    longer = found.phases.assign(workload="metadata@2000", wall_ns=20 * found.phases["wall_ns"])
    plan = plan.model_copy(update={"workloads": plan.workloads | {"metadata@2000": large}})
    (one,) = claims_of(replace(found, phases=pd.concat([phases, longer]), plan=plan)).judged
    assert one.verdict == (REPRODUCED, 20, "") and one.found[0].ratio == pytest.approx(2)


def test_a_claim_that_names_no_workload_takes_the_one_with_the_fewest_modifiers(numbers):
    """Which is not the first: that was filled before."""
    found = study([claim("order", of=["xfs", "ext4"])], TWO)
    entry = found.plan.workloads["metadata"].model_copy(update={"scale": Scale(device_mib=320, files=100)})
    filled = found.phases.assign(workload="metadata+a+fill20", wall_ns=found.phases["wall_ns"] ** 2)
    phases = pd.concat([filled, found.phases.assign(workload="metadata+device2048")])
    plan = found.plan.model_copy(update={"workloads": {"metadata+a+fill20": entry, "metadata+device2048": entry}})
    (one,) = claims_of(replace(found, phases=phases, plan=plan)).judged
    (alone,) = claims_of(replace(found, phases=phases.iloc[len(filled) :], plan=plan)).judged
    assert one.found[0].ratio == pytest.approx(alone.found[0].ratio)


def test_what_another_study_measured_is_named_with_it(numbers):
    own = [claim("order", id="here"), claim("order", of=["a", "b"], id="there"), claim("order", of="ab", id="nowhere")]
    siblings = {"here": {"other": REPRODUCED}, "there": {"other": CONTRADICTED, "third": UNDECIDED}}
    found = claims_of(study(own, TWO, siblings=siblings))
    assert found.elsewhere == {"other": ["there"], "third": ["there"]}
    told = [sentences.also(found, one) for one in found.open]
    assert told == ["both (other: contradicted, third: undecided)", "both"]
    assert (
        sentences.siblings(found) == "Measured by other studies: 1 of the 2 claims not measured here (other and third)."
    )
    plan = make_plan("small-files", CATALOG)
    assert plan.siblings["r1-create-ceph"] == {"small-files-distributed": "at another size"}
    assert "r2-fuse" not in plan.siblings
    assert make_plan("quick", CATALOG).siblings == {}


def test_the_period_of_dips_is_a_value(numbers):
    numbers()
    rows = []
    for number in (1, 2):
        for n in range(60):
            seconds = 2.0 if n % 11 == 5 else 1.0 + 0.001 * (n * 7 % 5)
            rows.append(sample("xfs", number, "write", None, seconds, 1, 8_000_000, n))
        rows.append(sample("xfs", number, "capacity", None, 1e-9, 1, 680_000_000))
    table = claims_of(study([], {("ext4", "single"): 1.0}, rows)).values
    assert list(table.loc[table["quantity"] == "period", "value"]) == [11, 11]


def test_more_claims_need_clearer_differences(numbers):
    """Intervals hold for all claims together, so each is wider than alone."""
    own = [claim("order", id=f"c{number}") for number in range(20)]
    measured = {("xfs", "single"): 1.01, ("ext4", "single"): 1.0}
    alone, among = (claims_of(study(own[:many], measured)).judged[0] for many in (1, 20))
    assert alone.verdict.word == REPRODUCED and among.verdict.word == UNDECIDED
    assert among.found[0].high > alone.found[0].high


def sample(
    label: str, number: int, name: str, client, seconds: float, items: int, size: int, iteration: int = 0
) -> dict:
    own = {"name": name, "client": client, "iteration": iteration, "start_ns": iteration * 10**9}
    own |= {"wall_ns": round(seconds * 1e9), "items": items, "bytes": size, "file_bytes": size}
    return row(label, number, phase="life", **own)


def test_values_of_samples_by_hand(numbers):
    numbers()
    rows = [
        # Two clients of one command: rates are summed, times averaged; no deviation of several clients.
        sample("ext4", 1, "create", 0, 2.0, 100, 4_000_000),
        sample("ext4", 1, "create", 1, 4.0, 100, 4_000_000),
        # Four files of a fill of one client: mean rate and its deviation, then the device is full.
        *(sample("xfs", 1, "write", None, seconds, 1, 8_000_000, n) for n, seconds in enumerate((1.0, 2.0, 1.0, 2.0))),
        sample("xfs", 1, "write", None, 0.001, 1, 2_000_000, 4) | {"file_bytes": 8_000_000},  # here the space ended
        sample("xfs", 1, "create", None, 1.0, 7, 0) | {"phase": "create"},  # no declared part of that phase
        sample("xfs", 1, "capacity", None, 1e-9, 1, 68_000_000),
        sample("xfs", 1, "full", None, 7.0, 1, 0),
    ]
    found = study([], {}, rows)
    phases = [
        row(label, 1, phase=phase, position=0, operation="exec", wall_ns=10**10, user_ns=10**9, system_ns=0)
        for label, phase in (("ext4", "create"), ("xfs", "other"))  # parts of a phase are phases, too
    ]
    found = Study(**{**vars(found), "phases": pd.DataFrame(phases)})
    table = claims_of(found).values.set_index(["label", "phase", "quantity"])["value"].to_dict()
    assert table["ext4", "create", "rate"] == pytest.approx(2e6 + 1e6)
    assert table["ext4", "create", "operations"] == pytest.approx(50 + 25)
    assert table["ext4", "create", "time"] == pytest.approx(3.0)
    assert ("ext4", "create", "rate-sd") not in table
    assert table["xfs", "write", "rate"] == pytest.approx(6e6)
    assert table["xfs", "write", "rate-sd"] == pytest.approx(4e6 / math.sqrt(3))  # of 8, 4, 8, 4 MB/s
    assert table["xfs", "write", "rate-min"] == pytest.approx(4e6)
    assert table["xfs", "write", "operations-sd"] == pytest.approx(0.5 / math.sqrt(3))
    assert ("xfs", "create", "operations") not in table
    assert table["xfs", "life", "share"] == pytest.approx(0.5)
    assert table["xfs", "other", "time"] == 10 and table["xfs", "other", "user"] == 1
    assert ("xfs", "other", "system") not in table  # nothing has no ratio


def test_a_phase_without_user_time_has_no_value_of_it(numbers):
    """As in the tables, whose whole numbers may be missing; a part of a command has no user time."""
    numbers()
    found = study([], {("xfs", "single"): 2.0, ("ext4", "single"): 1.0}, [sample("ext4", 1, "create", 0, 2.0, 9, 9)])
    phases = found.phases.astype(dict.fromkeys(("user_ns", "system_ns"), "Int64"))
    phases.loc[phases["label"] == "xfs", ["user_ns", "system_ns"]] = pd.NA
    values = claims_of(replace(found, phases=phases)).values
    assert set(values.loc[values["quantity"] == "user", "label"]) == {"ext4"}


def test_published_rates_stand_beside_ours_in_their_unit(numbers):
    numbers(("xfs", 1131), stack="single", quantity="rate", unit="MB/s", sd=121, phase="write", statistic="mean")
    rows = [
        sample("xfs", number, "write", None, 1.0, 1, size, iteration)
        for number in (1, 2, 3)
        for iteration, size in enumerate((8_000_000, 9_000_000, 10_000_000))
    ]
    found = study([], {("xfs", "single"): 1.0}, rows)
    (one,) = claims_of(found).beside.to_dict("records")
    assert (one["value"], one["sd"], one["unit"], one["own"]) == (1131, 121, "MB/s", pytest.approx(9.0))
    assert one["own_sd"] == pytest.approx(1.0)


def test_several_published_cells_of_one_name_are_a_mistake(numbers):
    numbers(("xfs", 1.0), ("ext4", 2.0))
    with pytest.raises(UserError, match="values of several published cells: say more of them"):
        numbers_of_files.told(numbers_of_files.load("mine"), Value(phase="create"))


DECIDED = {  # what a study measures at its own scale, so that there may be a verdict
    "datalad-2015": "lzo-clone zlib-clone compression-clone lzo-or-zlib large-files-du large-files-chmod btrfs-reflink",
    "git-annex-2015": "get-ext4 get-xfs tar-ext4 tar-xfs du-reiserfs rm-zfs btrfs-get btrfs-tar btrfs-clone btrfs-untar"
    " reiserfs-get reiserfs-rm zfs-slowest-rm zfs-slowest-du zfs-warm-du lvm-is-free strides",
    "short-memory-2020": "extract-many find du tar lazy-init find-waits tar-user-time tar-system-time tar-to-null",
    "plug-2020": "extract-many find du tar lazy-init find-waits tar-user-time tar-system-time tar-to-null"
    " second-pass list-archive",
    "streaming": "fill-order fill-xfs-ext4 fill-jfs-ext4 fill-btrfs-ext4 spread-xfs spread-ext4 spread-xfs-ext4 dips"
    " single-file-order degraded-slower degraded-as-ext4 reader-stops-writer writer-recovers jfs-reads-best"
    " btrfs-reads-badly",
    "streaming-disks": "raid0-raid5-xfs raid0-raid5-ext4 disks-xfs disks-ext4 four-gbit eight-gbit",
    "small-files": "r1-create-nfs-30",
    # all but: a full CephFS, two clients of LizardFS, and OrangeFS
    "small-files-distributed": "r1-create-ceph r1-compile-ceph r1-read-nfs r1-delete-lizard r1-delete-gluster"
    " r1-create-nfs-30 r1-create-lizard-30 r1-create-gluster-30 r1-create-ceph-30 r1-compile-lizard-30"
    " r1-read-lizard-30 r1-read-gluster-30 r1-read-ceph-30 r1-delete-nfs-30 r1-delete-gluster-30 r2-create-ceph"
    " r2-read-ceph r2-compile-ceph r2-clean-ceph r2-delete-ceph r2-lizard-gluster r2-delete-gluster r2-create-nfs-30"
    " r2-read-nfs-30 r2-compile-nfs-30 r2-clean-lizard-30 r2-delete-lizard-30 r2-delete-lizard-scale"
    " r2-gluster-30 r2-ceph-30",
    "metadata": "rsync-list-xfs client-cache",
}


def as_planned(name: str) -> Study:
    """A study as if every phase and every part of one had taken the same time, with three rounds."""
    plan = make_plan(name, CATALOG)
    phases, samples = [], []
    for trial in plan.trials:
        names = trial.names()
        own = {key: names[key] for key in ("lab", "stack", "profile", "workload", "scale", "round")}
        own |= {"trial": trial.id, "label": label_of(trial, plan), "role": "contender"}
        own |= {"status": "ok", "operation": "exec"}
        time = {"wall_ns": 10**9, "user_ns": 4 * 10**8, "system_ns": 10**8, "position": 0}
        for phase in plan.workloads[trial.workload].phases:
            place = own | {"phase": phase.name, "cache": phase.cache}
            parts = phase.samples or {}
            phases += [place | time | {"phase": part} for part in (parts or [phase.name])]
            for part in [*parts, *(["capacity"] if "full" in parts else [])]:
                one = {"name": part, "client": pd.NA, "items": 1, "bytes": 8 * 10**6, "file_bytes": 4 * 10**6}
                samples += [place | one | {"start_ns": n, "iteration": n, "wall_ns": 10**9 + n} for n in (0, 10**8)]
    frames = pd.DataFrame(phases), pd.DataFrame(samples)
    nothing = pd.DataFrame()
    return Study(nothing, *frames, *[nothing] * 6, plan, {"values": {}}, {}, folder=Path("unused"))


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.soak)], ids=["drawn", "whole"])
def test_what_shipped_studies_can_decide(whole):
    """A claim whose cells have other names than the study's would never be decided; none is expected to be."""
    draw = drawn()
    for name in DECIDED if whole else draw.sample(sorted(DECIDED), 2):
        found, expected = as_planned(name), set(DECIDED[name].split())
        (own,) = Comparison(found).claims.values()
        assert {one.claim.id for one in own.measured} == expected, name
        assert {one.verdict.word for one in own.measured} == {"same regime"} or name != "short-memory-2020"
        assert not own.far or name != "git-annex-2015"
        several = any(processors(found, lab) > 1 for lab in found.plan.labs)  # one thread of which may decide all
        for verdict, names in (found.plan.study.expected or {}).items():
            if not (several and verdict == "not decidable here"):
                undecided = verdict in ("not decidable here", "not available")
                assert expected.isdisjoint(names) == undecided, name


# ---- verdicts that are expected --------------------------------------------------------------------------------------


def test_shipped_studies_have_the_ratios_of_their_claims_at_another_size():
    """So that STRICT=1 says what changed, and not that there are none."""
    for name in CATALOG.paths(StudyFile):
        own = CATALOG.get(StudyFile, name)
        far = [(own.expected or {}).get(word, []) for word in ("at another size", "same regime")]
        assert set(own.ratios or {}) == set().union(*far), name


PUBLISHED = [name for name, path in CATALOG.paths(StudyFile).items() if (ROOT / "results" / name).is_dir()]


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.wide) for name in PUBLISHED if CATALOG.get(StudyFile, name).published],
)
def test_what_a_study_expects_is_what_its_published_records_give(name):
    """By the rules and the claims of this checkout: they may be newer than the result."""
    found, own = reprofs_open(str(tables(name))), CATALOG.get(StudyFile, name)
    about = found.plan.study.model_copy(update={"expected": own.expected, "ratios": own.ratios})
    plan = found.plan.model_copy(update={"published": CATALOG.get(Published, own.published), "study": about})
    judged = Comparison(replace(found, plan=plan))
    assert bool(judged.claims) == bool(own.expected), "a study of factors judges no claims"
    assert not judged.claims or changes(judged) == []


def test_a_changed_verdict_is_told(numbers):
    numbers(("xfs", 3.0), ("ext4", 1.0))
    own = [claim("order", id="up"), claim("ratio", id="three")]
    measured = {("xfs", "single"): 2.0, ("ext4", "single"): 1.0}
    held = {REPRODUCED: ["up"], SAME: ["three"]}
    assert changes(Comparison(study(own, measured, expected=held))) == []
    (sentence,) = changes(Comparison(study(own, measured, expected={REPRODUCED: ["up", "three"]})))
    assert "three" in sentence and "is same direction, but config/studies/mine.yaml expects reproduced" in sentence
    # What is expected of no claim is that it is not decidable; that counts, too, when it no longer is.
    assert len(changes(Comparison(study(own, measured, expected={})))) == 2
    with pytest.raises(UserError, match="has no key expected: put there what `reprofs claims mine` prints"):
        changes(Comparison(study(own, measured)))
    assert len(changes(Comparison(study(own, {("xfs", "single"): 2.0}, expected=held)))) == 2
    with pytest.raises(UserError, match="claim 'thre' does not exist: did you mean three"):
        changes(Comparison(study(own, measured, expected={SAME: ["thre"]})))
    assert changes(Comparison(study([], measured, name="mine@laptop"))) == []  # without claims there is nothing to hold
    with pytest.raises(UserError, match="those of its own scale"):
        changes(Comparison(study(own, measured, expected=held, name="mine@laptop")))


@pytest.mark.parametrize("lab", ["exact", "host"])
def test_a_changed_ratio_at_another_size_is_told(numbers, lab):
    """Of the exact lab any other number, elsewhere one outside of the interval."""
    own = [claim("order", id="up", at={"phase": "create", "size": 5000})]

    def told(times: dict, **about) -> list[str]:
        found = study(own, times, scale=Scale(device_mib=320, files=100), expected={"at another size": ["up"]}, **about)
        facts = {"exact": get_lab(lab).facts()}  # of whatever lab this is
        return changes(Comparison(replace(found, plan=found.plan.model_copy(update={"labs": facts}))))

    assert told(TWO) == ["up is at another size and has no ratios in config/studies/mine.yaml."]
    (sentence,) = told(TWO, ratios={"up": [9.0]})
    assert sentence.startswith("up (lab exact, device model ssd) has a ratio of ")
    assert sentence.endswith(", but config/studies/mine.yaml 9.")
    measured = float(sentence.split("ratio of ")[1].split(",")[0])
    assert told(TWO, ratios={"up": [measured]}) == []
    assert len(told(TWO, ratios={"up": [measured + 0.00001]})) == (lab == "exact")
    assert len(told({**TWO, ("xfs", "single"): 2.2}, ratios={"up": [measured]})) == 1
    assert told(TWO, ratios={"up": [measured, 1.0]}) == [
        "up compares 1 ratios, and config/studies/mine.yaml has 2 of it."
    ]
    with pytest.raises(UserError, match="claim 'upp' does not exist: did you mean up"):
        told(TWO, ratios={"upp": [1.0]})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": "bound"}, ["mine.yaml", "claims.0 of kind bound must have the key least or most"]),
        ({"kind": "within"}, ["must have the key within"]),
        ({"kind": "order", "least": 2}, ["of kind order must not have the key least"]),
        ({"kind": "ratio", "of": [{}]}, ["of kind ratio must not have 1 value in of"]),
        ({"kind": "ratio", "of": [{}, {}, {}]}, ["of kind ratio must not have 3 values in of"]),
        ({"kind": "larger"}, ["claims.0.kind is 'larger'"]),
        ({"id": "Up"}, ["claims.0.id is 'Up'", "lower-case"]),
        ({"of": [{"speed": 1}, {}]}, ["unknown key 'speed' at claims.0.of.0"]),
        ({"at": {"quantity": "times"}}, ["claims.0.at.quantity is 'times'", "did you mean time"]),
        ({"needs": None}, ["key 'needs' is missing at claims.0"]),
    ],
)
def test_a_wrong_claim_is_one_sentence(change, words):
    own = {"id": "it", "where": "page 1", "says": "so", "kind": "order", "needs": "both", "of": [{}, {}]} | change
    own = {key: value for key, value in own.items() if value is not None}
    about = {"title": "t", "source": "s", "numbers": "n", "claims": [own]}
    about["differs"] = [{"what": "w", "there": "t", "here": "h", "follows": "f"}]
    with pytest.raises(UserError) as caught:
        validate(about, Published, "mine.yaml")
    assert all(word in str(caught.value) for word in words), caught.value
    assert str(caught.value).count(". ") == 0


def test_an_id_is_given_once():
    own = yaml.safe_load("{id: it, where: p, says: s, kind: order, of: [{}, {}], needs: n}")
    about = {"title": "t", "source": "s", "numbers": "n", "claims": [own, own]}
    about["differs"] = [{"what": "w", "there": "t", "here": "h", "follows": "f"}]
    with pytest.raises(UserError, match="must not have two claims with the id it"):
        validate(about, Published, "mine.yaml")
