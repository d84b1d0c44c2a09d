"""Sentences against a known truth: studies whose times are made, so that each verdict is known to be right or not."""

import dataclasses
import functools
import re
from types import SimpleNamespace

import make
import nbformat
import numpy as np
import pandas as pd
import pytest
import reprofs as package
import run
from conftest import ROOT
from pydantic import ValidationError
from reprofs.data.keys import Load, Setting
from reprofs.plan.catalog import Catalog
from reprofs.plan.filesystem import PlannedHosts
from reprofs.plan.kernel import Kernel
from reprofs.plan.processor import Leads, Processor
from reprofs.report.sentences import operations, threats
from reprofs.stats import compare, totals, trust
from reprofs.stats.compare import relative
from reprofs.stats.study import Study

SYSTEMS = ["ext4", "f2fs", "jfs", "xfs"]
SETTING, LOAD = Setting("exact", "single", "ssd"), Load("metadata", "smoke")


@pytest.fixture(scope="module")
def blank(tmp_path_factory):
    """Studies by their options, whose times are to be replaced."""

    @functools.cache
    def of(rounds: int, labs: tuple[str, ...] = ("exact",), failed: tuple[str, ...] = ()) -> Study:
        folder = tmp_path_factory.mktemp("blank")
        failures = {(label, "metadata", n): ("failed", "It broke.") for label in failed for n in range(rounds + 1)}
        make.make(folder, rounds=rounds, systems=SYSTEMS, workloads=["metadata"], labs=labs, failures=failures)
        return run.build(folder)

    return of


@pytest.fixture
def said(tmp_path, monkeypatch):
    """Executes a notebook on a study as it is, and returns its words."""
    (tmp_path / "plan.json").write_text("{}")

    def of(study: Study, name: str) -> str:
        monkeypatch.setattr(package, "open", lambda folder: study, raising=False)
        notebook = nbformat.read(run.execute(tmp_path, [name]) / f"{name}.ipynb", as_version=4)
        outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
        return "\n".join(output.data.get("text/markdown", "") for output in outputs)

    with run.without_pictures():
        yield of


def true(study: Study, cv: float, seed: int = 1, **factors: float) -> Study:
    """The study with times of that truth: a file system's factor, in the lab host its inverse; everything else is 1.

    Rounds differ by their input, operations by their length, single times by `cv`.
    """
    rng = np.random.default_rng(seed)
    phases = study.phases.copy()
    factor = phases["label"].map(lambda label: factors.get(label, 1.0)).astype(float)
    factor = factor.where(phases["lab"] != "host", 1 / factor)
    inputs = dict.fromkeys(sorted(phases["round"].unique()))
    inputs = {number: rng.normal(0, 0.1) for number in inputs}
    base = 1e7 * (1 + phases["position"].astype(float)) * np.exp(phases["round"].map(inputs).astype(float))
    wall = base * factor * np.exp(rng.normal(0, cv, len(phases)))
    phases["wall_ns"] = wall.round().astype("Int64")
    return dataclasses.replace(study, phases=phases, digests={})  # so that saved results are not taken for its own


def verdicts(study: Study) -> set[str]:
    return set(study.results.winners["verdict"])


def told(study: Study) -> str:
    """The verdicts on operations, in words."""
    return operations.verdicts(study.verdicts)


def ranked(study: Study) -> dict[str, str]:
    """File system -> its verdict in the total of the workload."""
    return totals.ranked(study).set_index("label")["verdict"].to_dict()


@pytest.mark.wide
def test_equal_file_systems_have_no_winner(blank, said):
    study = true(blank(6), 0.01)
    assert "fastest" not in verdicts(study) and "equivalent" in verdicts(study)
    assert set(ranked(study).values()) == {"equally fast"}
    text = said(study, "answer")
    assert "** are equally fast: " in text and told(study).startswith("0 of 9 operations have one significantly")
    assert all(label in text for label in SYSTEMS)


def test_a_lead_of_one_percent_is_equivalence_however_sure_it_is(blank, said):
    study = true(blank(6), 0.0005, xfs=0.99)
    found = study.results.winners
    assert verdicts(study) == {"equivalent"} and set(found["best"]) == {"xfs"} and (found["p_holm"] < 0.05).all()
    assert set(found["level"].map(len)) == {3}
    assert "is fastest" not in said(study, "answer")


@pytest.mark.wide
def test_a_lead_of_five_percent_is_found_in_ten_rounds_and_undecided_in_three(blank, said):
    ten, three = (true(blank(rounds), 0.015, jfs=1 / 1.06) for rounds in (10, 3))
    assert verdicts(ten) == {"fastest"} and set(ten.results.winners["best"]) == {"jfs"}
    text = said(ten, "answer")
    assert "**jfs is fastest**: " in text
    assert told(ten) == "9 of 9 operations have one significantly fastest file system: jfs in 9."
    assert "fastest" not in verdicts(three)
    for row in three.results.winners.itertuples():
        assert "jfs" in {row.best, *row.level}, "the one that is the fastest may be the fastest"
    assert "9 have not enough repetitions" in told(three)
    # What three rounds would have shown is more than what was there.
    three, ten = (study.results.winners["detectable"].median() - 1 for study in (three, ten))
    assert three > 0.06 > ten


def test_a_lead_of_twenty_percent_is_found_in_three_rounds(blank):
    study = true(blank(3), 0.003, f2fs=1 / 1.2)
    assert verdicts(study) == {"fastest"} and set(study.results.winners["best"]) == {"f2fs"}
    assert (study.results.winners["ratio"] > 1.15).all()


def test_those_that_are_slower_never_stand_among_those_that_may_be_the_fastest(blank):
    study = true(blank(6), 0.01, ext4=2.0, xfs=3.0)
    for row in study.results.winners.itertuples():
        assert {row.best, *row.level} <= {"f2fs", "jfs"}
    rows = totals.ranked(study).set_index("label")
    assert set(rows.index[rows["verdict"] == "slower"]) == {"ext4", "xfs"} and list(rows.index)[-1] == "xfs"
    assert rows.loc["xfs", "ratio"] == pytest.approx(3, rel=0.03)
    for row in relative(study.results.statistics).query("label == 'xfs'").itertuples():
        assert row.cost == pytest.approx(3, rel=0.05)


@pytest.mark.wide
def test_who_failed_neither_wins_nor_loses_and_is_named(blank, said):
    study = true(blank(6, failed=("ext4",)), 0.01, ext4=0.5, jfs=0.8)
    assert set(study.results.winners["best"]) == {"jfs"} and verdicts(study) == {"fastest"}
    text = said(study, "answer")
    assert "ext4" not in ranked(study) and "6 of 24 trials have no complete result" in text
    assert "Results are missing of ext4" in said(study, "methods")


def test_one_round_shows_nothing(blank, said):
    study = true(blank(1), 0.001, xfs=0.1)
    assert verdicts(study) == {"not enough repetitions"}
    text = said(study, "answer")
    assert "is fastest" not in text
    assert "xfs took the least time, but one repetition shows no difference" in text
    assert told(study) == "One repetition has no interval, so no difference is significant."
    assert "Detectable" not in said(study, "methods")


@pytest.mark.wide
def test_two_labs_of_opposite_order_agree_in_no_pair(blank, said):
    study = true(blank(6, labs=("exact", "host")), 0.01, ext4=0.5, f2fs=0.7, jfs=1.4)
    (row,) = study.results.agreement.itertuples()
    assert row.told == 9 * 6 and row.same == 0 and row.tau == pytest.approx(-1)
    best = study.results.winners.groupby("lab")["best"].agg(set)
    assert best.to_dict() == {"exact": {"ext4"}, "host": {"jfs"}}
    text = said(study, "answer")
    assert "**ext4 is fastest**" in text and "**jfs is fastest**" in text
    found = totals.places(study)
    assert list(found[["turned", "told"]].itertuples(index=False, name=None)) == [(0, 6), (6, 6)]
    assert "significantly fastest: ext4 in 1 and jfs in 1." in text


def test_intervals_hold_the_truth_and_what_is_printed(blank):
    study = blank(6)
    held, total = 0, 0
    for seed in range(20):
        pairs = compare.pairwise(true(study, 0.05, seed, xfs=1.3).phases)
        assert ((pairs["low"] <= pairs["ratio"]) & (pairs["ratio"] <= pairs["high"])).all()
        truth = pairs["a"].map({"xfs": 1.3}).fillna(1.0) / pairs["b"].map({"xfs": 1.3}).fillna(1.0)
        held += int(((pairs["low"] <= truth) & (truth <= pairs["high"])).sum())
        total += len(pairs)
    assert 0.93 < held / total < 0.97


def test_times_that_are_not_log_normal_are_told(blank, said):
    study = true(blank(10), 0.003)
    assert "Of 36 configurations 0 are not log-normal" in said(study, "methods")
    phases = study.phases.copy()
    odd = (phases["label"] == "xfs") & (phases["phase"] == "rename") & (phases["round"] == 7)
    phases.loc[odd, "wall_ns"] *= 30
    assert "Of 36 configurations 1 are not" in said(dataclasses.replace(study, phases=phases, digests={}), "methods")


def test_an_upper_bound_that_is_slower_than_the_best_says_so(blank):
    study = true(blank(3), 0.003, xfs=1.05)
    roles = {table: getattr(study, table).copy() for table in ("phases", "trials")}
    for frame in roles.values():
        frame["role"] = frame["role"].mask(frame["label"] == "xfs", "ceiling")
    study = dataclasses.replace(study, **roles, digests={})
    assert ranked(study)["xfs"] == "baseline"
    assert threats.baseline(study).startswith("xfs is no baseline in ")
    faster = true(study, 0.003, xfs=0.5)
    assert threats.baseline(faster) == ""


@pytest.mark.parametrize(
    ("protocol", "words"), [(5, "order and hash seeds:"), (6, "hash seeds and of the moment of the start:")]
)
def test_what_spread_is_follows_from_the_protocol(blank, protocol, words):
    study = blank(2)
    study = dataclasses.replace(study, plan=study.plan.model_copy(update={"protocol": protocol}))
    assert words in threats.spread(study, "exact")


@pytest.mark.wide
def test_a_trend_over_rounds_is_told(blank, said):
    study = true(blank(10, labs=("host",)), 0.005)
    phases = study.phases.copy()
    phases["wall_ns"] = (phases["wall_ns"] * np.exp(0.06 * phases["round"].astype(float))).round().astype("Int64")
    steady, drifting = (one.results.stability for one in (study, dataclasses.replace(study, phases=phases)))
    assert (steady["p_holm"].dropna() > 0.05).all()
    assert (drifting.set_index("test").loc["drift", "p_holm"] < 0.05).all()


# ---- trust -----------------------------------------------------------------------------------------------------------


def modelled(study: Study, name: str = "v2-0.5ns") -> Study:
    """The study as of a processor of the catalog, with operations of which that knows times."""
    lab = study.plan.labs["exact"].model_copy(update={"processor": Catalog().get(Processor, name)})
    plan = study.plan.model_copy(update={"labs": study.plan.labs | {"exact": lab}})
    operations = study.phases["phase"].replace({"remove": "rename"})
    return dataclasses.replace(study, plan=plan, phases=study.phases.assign(operation=operations))


@pytest.mark.wide
def test_a_small_lead_is_not_said_to_carry_over(blank, said):
    small, large = (modelled(true(blank(10), 0.003, jfs=1 / lead)) for lead in (1.05, 1.2))
    text = said(small, "answer")
    assert "**jfs is fastest in this lab**: " in text and "With a real machine's time for each instruction" in text
    assert "The smaller difference may not hold on a real machine." in text
    told = (
        "On one real machine 3 of 4 differences of single operations from 2 % to 10 % had the same sign, 2 of 4 from"
        " 10 % to 50 %, 14 of 14 above. Totals had the same order."
    )
    assert told in text and "Not part of that test: f2fs, jfs and device model ssd." in text
    text = said(large, "answer")
    # Its file system and its device were not part of the test, however large its lead is.
    assert "**jfs is fastest in this lab**: " in text and told in text and "may not hold" not in text
    # A CPU model of which nothing was measured, and another lab, have no such sentence.
    other = said(modelled(true(blank(10), 0.003, jfs=1 / 1.05), "v1-1ns"), "answer")
    assert "**jfs is fastest in this lab**: " in other and "With a real machine's" not in other
    assert "No real machine was compared for this processor and kernel." in other
    assert "real machine" not in said(true(blank(10), 0.003, jfs=0.9), "answer").partition("In the")[0]


def test_what_was_measured_with_the_guests_own_kernel_says_nothing_of_another(blank):
    study = modelled(blank(2))
    ((lab, facts),) = study.plan.labs.items()
    assert trust.known(study, lab)
    facts = facts.model_copy(update={"kernel": Catalog().get(Kernel, "debian-7.3")})
    other = dataclasses.replace(study, plan=study.plan.model_copy(update={"labs": {lab: facts}}), digests={})
    assert trust.known(other, lab) is None and trust.weighted(other, SETTING, LOAD) is None


def test_what_was_measured_of_local_file_systems_says_nothing_of_distributed_ones(blank, said):
    study = modelled(true(blank(10), 0.003, jfs=0.5))
    assert "14 of 14 above" in said(study, "answer")
    (lab,) = study.plan.labs
    jfs = study.plan.filesystems["jfs"].model_copy(update={"hosts": PlannedHosts(servers=3, clients=6)})
    plan = study.plan.model_copy(update={"filesystems": study.plan.filesystems | {"jfs": jfs}})
    other = dataclasses.replace(study, plan=plan, digests={})
    assert trust.unmeasured(other, lab, ["ext4", "jfs"]) == "distributed file systems"
    assert trust.unmeasured(other, lab, ["ext4", "xfs"]) == ""
    text = said(other, "answer")
    assert "No real machine was compared for distributed file systems." in text
    assert "of 15 above" not in text and trust.weighted(other, SETTING, LOAD) is None


def test_the_edge_of_small_leads():
    order = Catalog().get(Processor, "v2-0.5ns").trust.order
    assert [order.small(lead) for lead in (0.0, 0.099, 0.1, 5.0)] == [True, True, False, False]
    with pytest.raises(ValidationError, match="must have at least 5 leads"):
        Leads(leads=4, same=3, turned=2)


def test_leads_by_the_times_of_a_real_machine_by_hand(blank):
    """Two file systems: the one that reads is slower by its clock; the processor's time alone is weighted."""
    study = modelled(blank(2))
    phases = study.phases[study.phases["label"].isin(["ext4", "xfs"])].copy()
    reads = (phases["operation"] == "read") & (phases["cache"] == "warm")
    phases[["user_ns", "system_ns"]] = 0
    phases.loc[reads, "system_ns"] = phases.loc[reads, "label"].map({"ext4": 0, "xfs": 50_000_000}).astype("Int64")
    phases["wall_ns"] = phases["label"].map({"ext4": 100_000_000, "xfs": 100_100_000}).astype("Int64")
    found = trust.weighted(dataclasses.replace(study, phases=phases, digests={}), SETTING, LOAD)
    count = len(phases[(phases["label"] == "ext4") & (phases["round"] == 1)])
    assert (found["best"], found["runner_up"]) == ("xfs", "ext4")
    assert found["ratio"] == pytest.approx(100 * count / (100.1 * count - (1 - 0.46 / 0.5) * 50))
    phases["operation"] = "exec"  # of which nothing is known
    assert trust.weighted(dataclasses.replace(study, phases=phases, digests={}), SETTING, LOAD) is None
    assert trust.weighted(blank(2), SETTING, LOAD) is None


def test_the_methods_have_the_figures_of_the_file():
    own, text = Catalog().get(Processor, "v2-0.5ns").trust, (ROOT / "docs/methods/trust.md").read_text()
    for name, one in zip(("2 to 10 %", "10 to 50 %", "more than 50 %"), own.order.leads, strict=True):
        assert f"| {name} | {one.leads} | **{one.same}** | {one.turned} | {one.open} |" in text
    assert [one.below for one in own.order.leads] == [0.1, 0.5, None]
    for one in own.order.totals:
        assert f"| {one.lab_s} |" in text and f"| {one.machine_s} |" in text
    names = {"make-tree": "make the directories", "remove-tree": "remove the directories"}
    for one in own.times.operations:
        name = names.get(one.operation, one.operation)
        assert re.search(rf"^\| {name}(, {one.cache})? \| {one.ns:.2f} \(", text, re.MULTILINE), one


def test_what_one_file_system_alone_did_is_in_no_ranking():
    """A workload for Btrfs alone is left out beside one for two; in a study of one file system nothing is."""
    place = {"lab": "exact@v2-0.5ns", "stack": "single", "profile": "ram", "scale": "smoke", "role": "contender"}
    cells = [("metadata", "ext4"), ("metadata", "btrfs"), ("metadata+device1024", "btrfs")]
    trials = pd.DataFrame([place | {"workload": workload, "label": label} for workload, label in cells])
    assert totals.contested(SimpleNamespace(trials=trials), trials).workload.unique().tolist() == ["metadata"]
    alone = trials[trials.label == "btrfs"]
    assert len(totals.contested(SimpleNamespace(trials=alone), alone)) == 2


def test_what_a_processor_was_compared_with_is_the_latest(blank):
    """A plan has the comparison of its day; another processor of that name keeps its own."""
    study = modelled(blank(2))
    (lab,) = study.plan.labs
    own, shipped = study.lab(lab).processor, Catalog().get(Processor, "v2-0.5ns")
    for changes, latest in (({"trust": None}, True), ({"trust": None, "ns_per_instruction": 1.0}, False)):
        labs = {lab: study.lab(lab).model_copy(update={"processor": own.model_copy(update=changes)})}
        plan = study.plan.model_copy(update={"labs": labs})
        found = trust.known(dataclasses.replace(study, plan=plan), lab)
        assert found == (shipped.trust if latest else None)
