"""Rounds that adapt: the rule, the decision at each look against known truths, and what is told of it."""

import dataclasses
import json
import math
import os

import bench_inference as bench
import make
import numpy as np
import pandas as pd
import pytest
import run
from helpers import Late
from reprofs.data.columns import TABLES
from reprofs.data.study import load
from reprofs.errors import UserError
from reprofs.plan.catalog import Catalog
from reprofs.plan.plan import Plan, Stopping
from reprofs.plan.study import Rounds, Study
from reprofs.report.sentences import methods
from reprofs.stats import compare, results, rounds
from reprofs.trial.planning import make_plan, table
from test_stats import frame

reference = Late("scipy.stats")

RULE = {"min": 2, "max": 8, "until": "5 %"}


def examined(times: dict, tests: int = 1, until: float = 0.05, **options) -> dict:
    phases = frame(times, phase="p", **options)
    return rounds.examine(rounds.times(phases, int(phases["round"].max())), tests, until)


def study(rule, **changes) -> Plan:
    """The plan of a study of two workloads with these rounds."""
    catalog = Catalog()
    data = {key: value for key, value in catalog.get(Study, "quick").as_json().items() if key != "stop"}
    data |= {"filesystems": ["ext4", "xfs"], "workloads": ["metadata", "repository"], "rounds": rule} | changes
    catalog.add(Study, "quick", data)
    return make_plan("quick", catalog)


def test_looks_are_planned_and_each_has_half_as_many_rounds_again():
    assert Rounds(min=3, max=20, until="5 %").looks() == [3, 5, 8, 12, 18, 20]
    assert Rounds(**RULE).looks() == [2, 3, 5, 8] and Rounds(min=4, max=4, until="5 %").looks() == [4]
    assert study(7).study.looks() == [7]


def test_the_trials_of_a_round_are_the_same_whether_their_number_is_fixed_or_not():
    fixed, adapts = study(3), study({"min": 3, "max": 4, "until": "5 %"})
    assert adapts.trials[:12] == fixed.trials and len(adapts.trials) == 16
    assert fixed.study.stop == "the number of rounds was fixed before the first trial"
    assert adapts.study.stop is None  # which would not be true
    assert "at most 16 trials: 3 or 4 repetitions, until ratios are known within ±5 %, shuffled" in table(adapts)
    assert "12 trials in 3 repetitions, shuffled" in table(fixed)


def test_cells_that_take_long_have_the_first_rounds_only():
    whole = study(3)
    part = study(3, cells=[{"workloads": ["metadata"]}, {"workloads": ["repository"], "rounds": 2}])
    kept = {trial.id: trial.job_sha256 for trial in part.trials}
    wanted = [trial for trial in whole.trials if trial.workload == "metadata" or trial.round < 3]
    assert kept == {trial.id: trial.job_sha256 for trial in wanted} and len(kept) == 10
    assert [trial.order for trial in part.trials] == list(range(1, 11))
    for rule, has in ((3, 3), ({"min": 2, "max": 4, "until": "5 %"}, 2)):
        with pytest.raises(UserError, match=f"has 4 rounds in an entry of cells, but {has} at its top level"):
            study(rule, cells=[{"rounds": 4}])


def test_the_half_width_is_that_of_the_reported_interval():
    got = examined({"a": [100, 110, 120], "b": [103, 112, 126]})
    logs = np.log([103 / 100, 112 / 110, 126 / 120])
    half = math.expm1(reference.t.ppf(0.99, 2) * logs.std(ddof=1) / math.sqrt(3))  # 98 %, see compare.CAUTION
    assert got["widest"]["half_width"] == pytest.approx(half) and 0.05 < half < 0.1
    assert (got["widest"]["best"], got["widest"]["other"]) == ("a", "b")
    assert (got["compared"], got["open"]) == (1, 1)
    pair = compare.pairwise(frame({"a": [100, 110, 120], "b": [103, 112, 126]}), caution=compare.CAUTION).iloc[0]
    assert pair["high"] / pair["ratio"] - 1 == pytest.approx(half)


def test_who_is_shown_to_be_slower_needs_not_be_known_better():
    times = {"a": [100, 101, 102], "b": [101, 101.5, 103], "slow": [300, 360, 290]}
    found = examined(times)
    assert found["open"] == 0 and found["widest"]["other"] == "b"
    assert examined(times, until=0.001)["open"] == 1
    # Many looks mean many chances: what one look shows is not enough for a hundred.
    assert examined(times, tests=100)["widest"]["other"] == "slow"
    alone = examined({"a": [100, 101, 102], "slow": [300, 303, 309]})
    assert alone == {"compared": 1, "open": 0, "widest": None}
    # A lead that is certain but too small to be named settles nothing by itself.
    assert examined({"a": [1000, 1100, 1200], "b": [1010, 1111, 1212.1]})["widest"]["other"] == "b"


def test_only_what_is_compared_counts():
    noisy = [100, 150, 230]
    assert examined({"a": [100, 101, 102]}) == {"compared": 0, "open": 0, "widest": None}
    bound = {"a": [100, 101, 102], "b": [100.5, 101, 102.5], "tmpfs": noisy}
    assert examined(bound, roles={"tmpfs": "ceiling"})["open"] == 0 and examined(bound)["open"] == 1
    # One common round gives no interval; a contender without any is no contender.
    once = examined({"a": [100, 101, 102], "b": [101, None, None]})
    assert once["open"] == 1 and once["widest"]["half_width"] is None
    failed = frame({"a": [100, 101, 102], "b": noisy})
    failed.loc[failed["label"] == "b", "status"] = "failed"
    assert rounds.examine(rounds.times(failed, 3), 1, 0.05)["compared"] == 0


def test_workloads_are_compared_as_a_whole_and_parts_that_have_no_sum_one_by_one():
    rows = [frame({"a": [100, 100, 100], "b": [101, 101, 102]}, phase=f"p{number}") for number in range(3)]
    whole = pd.concat(rows).assign(sync_ns=0)
    assert [key[5] for key in rounds.times(whole, 3)] == [compare.TOTAL]
    np.testing.assert_allclose(np.exp(next(iter(rounds.times(whole, 3).values()))["b"]), [303, 303, 306])
    parts = whole.assign(workload="parts", sync_ns=math.nan)
    assert [key[5] for key in rounds.times(parts, 3)] == ["p0", "p1", "p2"]
    assert len(rounds.times(pd.concat([whole, parts]), 3)) == 4


def test_a_study_ends_at_the_first_look_that_is_enough():
    def ended(times: dict, done: int, **rule) -> tuple:
        found = rounds.stopping(rounds.times(frame(times), done), Rounds(**RULE | rule), compare.WIN, done)
        return [look.rounds for look in found.looks], found.enough, found.why

    rng = np.random.default_rng(1)
    near = dict(zip("ab", 100 * np.exp(rng.normal(0, 0.01, (2, 8))), strict=True))
    far = dict(zip("ab", 100 * np.exp(rng.normal(0, 0.3, (2, 8))), strict=True))
    assert ended(near, 2) == ([2], False, None) and ended(near, 8) == ([2, 3], True, "narrow")
    assert ended(far, 8) == ([2, 3, 5, 8], True, "most") and ended(far, 5) == ([2, 3, 5], False, None)
    assert ended(far, 8, until="100 %")[2] == "narrow"
    assert ended({"a": far["a"]}, 2) == ([2], True, "alone")
    # Rounds after those that a look is about, and who came first, change nothing.
    shuffled = frame(near).sample(frac=1, random_state=1)
    first = rounds.times(frame({key: values[:3] for key, values in near.items()}), 3)
    looks = [rounds.stopping(found, Rounds(**RULE), compare.WIN, 3) for found in (rounds.times(shuffled, 8), first)]
    assert looks[0] == looks[1]


@pytest.fixture
def adapting(tmp_path):
    """Records of three rounds of a study that may have three, in a folder, and the path of its plan."""
    path = make.make(tmp_path, rounds=3, systems=["ext4", "xfs", "tmpfs"], workloads=["metadata"], failures={})
    plan = json.loads(path.read_text())
    plan["study"]["rounds"] = {"min": 2, "max": 3, "until": "5 %"}
    del plan["study"]["stop"]
    path.write_text(json.dumps(plan))
    return path


def test_a_look_is_a_function_of_the_records_of_its_rounds(adapting, tmp_path, reprofs):
    def looked(number: int) -> dict:
        arguments = ("--rounds", number, "--raw", tmp_path / "raw", "--output", tmp_path / f"{number}.json")
        done = reprofs("look", adapting, *arguments)
        assert done.returncode == 0, done.stderr
        return json.loads((tmp_path / f"{number}.json").read_text())

    first, last = looked(2), looked(3)
    assert {trial["round"] for trial in first["trials"]} == {1, 2} and first["study"]["rounds"] == 2
    assert last["stopping"]["looks"][0] == first["stopping"]["looks"][0]
    for path in sorted(
        (tmp_path / "raw").glob("*.json"), reverse=True
    ):  # of another order and time, without a third round
        path.unlink() if path.name.startswith("r3-") else os.utime(path)
    before = (tmp_path / "2.json").read_bytes()
    assert looked(2) == first and (tmp_path / "2.json").read_bytes() == before


def test_cells_that_get_no_more_rounds_are_not_waited_for(tmp_path):
    path = make.make(tmp_path, rounds=3, systems=["ext4", "xfs"], workloads=["metadata", "repository"], failures={})
    plan = json.loads(path.read_text())
    plan["study"] |= {"rounds": {"min": 2, "max": 3, "until": "0.0001 %"}, "margins": {"win": 0.99, "equal": 0.99}}
    del plan["study"]["stop"]
    compared = []
    for rest in (3, 1):  # rounds of one of the two
        plan["trials"] = [one for one in plan["trials"] if one["workload"] == "metadata" or one["round"] <= rest]
        path.write_text(json.dumps(plan))
        rounds.look(path, tmp_path / "raw", 3, tmp_path / "look.json")
        looks = json.loads((tmp_path / "look.json").read_text())["stopping"]["looks"]
        compared.append({(one["compared"], one["widest"]["workload"]) for one in looks})
    assert {number for number, _ in compared[0]} != {1} and compared[1] == {(1, "metadata")}


def test_mistakes_are_one_sentence(adapting, tmp_path, reprofs, says):
    def looked(rounds: int):
        options = ("--raw", tmp_path / "raw", "--output", tmp_path / "look.json")
        return reprofs("look", adapting, "--rounds", rounds, *options)

    says(looked(1), "has no look after --rounds 1: choose from 2, 3")
    options = ("--raw", tmp_path / "raw", "--output", tmp_path / "tables")
    says(
        reprofs("dataset", adapting, *options), "this study adds repetitions: use the plan of its last interim analysis"
    )
    (tmp_path / "raw").rename(tmp_path / "old")
    assert looked(2).returncode == 0  # without a record all trials are missing
    assert json.loads((tmp_path / "look.json").read_text())["stopping"]["why"] == "alone"
    plan = json.loads(adapting.read_text())
    plan["study"]["rounds"] = 3
    adapting.write_text(json.dumps(plan))
    says(looked(3), "the study has a fixed number of rounds, 3: make its tables")


def test_tables_and_report_tell_why_a_study_ended(adapting, tmp_path):
    plan = json.loads(adapting.read_text())
    plan["study"]["rounds"]["until"] = "0.0001 %"  # so that all rounds are needed
    plan["study"]["margins"] = {"win": 0.99, "equal": 0.99}  # and nobody is shown to be slower
    adapting.write_text(json.dumps(plan))
    rounds.look(adapting, tmp_path / "raw", 3, adapting)
    found = run.build(tmp_path)
    assert found.plan.study.rounds == 3 and found.plan.stopping.why == "most"
    told = methods.stopping(found)
    assert told == (
        "Repetitions were added until the ratios in front were known within ±0.0001 %, at most 3."
        " After 3 repetitions 1 ratio stayed wider."
    )
    assert results.caution(found) == compare.CAUTION and "intervals are of 98.0 %" in " ".join(methods.tests(found))
    # The same times have wider intervals and larger p values than where the number was fixed.
    fixed, own = compare.pairwise(found.phases), found.results.pairwise
    assert (own["p"] >= fixed["p"]).all() and (own["high"] > fixed["high"]).all()
    assert set(TABLES) <= set(vars(load(tmp_path / "tables")))


@pytest.mark.parametrize(
    ("why", "words"),
    [
        ("narrow", "After 5 repetitions all were known so."),
        ("alone", "After 5 repetitions there was nothing to compare."),
    ],
)
def test_words_for_each_reason(adapting, tmp_path, why, words):
    rounds.look(adapting, tmp_path / "raw", 3, adapting)
    found = run.build(tmp_path)
    look = {"rounds": 5, "compared": 1, "open": 0, "widest": None}
    told = Stopping.model_validate({"rule": RULE, "looks": [look], "enough": True, "why": why})
    changed = dataclasses.replace(found, plan=found.plan.model_copy(update={"stopping": told}))
    assert methods.stopping(changed).endswith(words)


@pytest.mark.wide
def test_intervals_hold_although_rounds_end_when_they_are_narrow():
    found = bench.stopped(2, 1, 0.05, 0.0, {"min": 3, "max": 20, "until": "5 %"}, 150)
    assert found["plain_holds"].mean() < 0.935 < found["holds"].mean()
    assert found["false"].mean() <= 0.06 <= found["plain_false"].mean()
    assert found["rounds"].min() >= 3 and 8 < found["rounds"].mean() < 18
