"""Statistics against values computed by hand or by another route."""

import math

import make
import numpy as np
import pandas as pd
import pytest
import run
from reprofs.stats import cells, compare, labs, stacks
from scipy import stats as reference
from statsmodels.stats.multitest import multipletests

PLACE = {"lab": "exact", "stack": "single", "profile": "ssd", "workload": "w", "scale": "smoke", "cache": "warm"}


def frame(times: dict, phase="p", roles=None, **place) -> pd.DataFrame:
    """Rows of the phases table from {label: [wall_ns of round 1, 2, ...]}; None leaves a round out."""
    return pd.DataFrame(
        PLACE
        | place
        | {"phase": phase, "label": label, "role": (roles or {}).get(label, "contender"), "status": "ok", "position": 0}
        | {"round": number, "order": number, "wall_ns": value, "items": 10, "user_ns": 0, "system_ns": value}
        for label, values in times.items()
        for number, value in enumerate(values, 1)
        if value is not None
    )


def judged(phases: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    table, pairs = cells.statistics(phases), compare.pairwise(phases)
    return table, pairs, compare.winners(table, pairs)


@pytest.mark.parametrize(
    ("n", "cut", "coverage"), [(6, 0, 62 / 64), (8, 0, 254 / 256), (9, 1, 1 - 20 / 512), (12, 2, None)]
)
def test_six_or_more_values_have_order_statistics_of_the_median(n, cut, coverage):
    values = np.random.default_rng(n).permutation(np.arange(n) ** 2.0)
    found = cells.interval(values)
    assert (found["low"], found["high"]) == (np.sort(values)[cut], np.sort(values)[n - 1 - cut])
    assert found["kind"] == "order statistics of the median"
    if coverage:
        assert found["coverage"] == pytest.approx(coverage)
    assert found["coverage"] >= 0.95


def test_two_to_five_values_have_student_and_one_has_nothing():
    found = cells.interval([11.0, 12.0, 14.0])
    reach = 4.302652729911275 * math.sqrt(7 / 3 / 3)  # t for two degrees of freedom
    assert (found["low"], found["high"]) == pytest.approx((37 / 3 - reach, 37 / 3 + reach))
    assert cells.interval([1.0, 2.0, 4.0])["low"] == 0  # no time is below zero
    assert found["kind"] == "Student t of the mean"
    assert cells.interval([5.0])["kind"] == "none" and math.isnan(cells.interval([5.0])["low"])


@pytest.mark.parametrize("n", [2, 3, 6])
def test_without_spread_the_interval_is_the_value(n):
    found = cells.interval([7.0] * n)
    assert (found["low"], found["high"]) == (7.0, 7.0)
    assert compare.ratio([6.0] * n, [3.0] * n) == {"ratio": 2, "low": 2, "high": 2, "kind": "no spread"}
    assert compare.joint_interval([6.0] * n, [3.0] * n, 7) == pytest.approx((2.0, 2.0))


def test_statistics_of_a_cell_by_hand():
    cell = cells.statistics(frame({"a": [2, 4, 9]})).iloc[0]
    assert (cell["n"], cell["mean_ns"], cell["median_ns"], cell["min_ns"], cell["max_ns"]) == (3, 5, 4, 2, 9)
    assert cell["variance_ns2"] == pytest.approx((9 + 1 + 16) / 2)
    assert cell["sd_ns"] == pytest.approx(math.sqrt(13)) and cell["cv"] == pytest.approx(math.sqrt(13) / 5)
    assert cell["geometric_mean_ns"] == pytest.approx(72 ** (1 / 3))
    # Three rounds of ten items took 15 ns in all: the harmonic mean of equal work is work over time.
    assert cell["items_per_second"] == pytest.approx(30 / 15e-9)


def test_a_single_round_has_no_spread():
    cell = cells.statistics(frame({"a": [5]})).iloc[0]
    assert cell["n"] == 1 and math.isnan(cell["sd_ns"]) and math.isnan(cell["low_ns"])


def test_only_completed_trials_count():
    rows = frame({"a": [1, 2, 1000]})
    rows.loc[2, "status"] = "failed"
    assert cells.statistics(rows)["max_ns"].iloc[0] == 2


def test_outliers_are_marked_by_tukeys_rule():
    assert cells.outliers([1, 2, 3, 4, 100]).tolist() == [False] * 4 + [True]
    assert not cells.outliers([1, 1, 1]).any()


def test_ratio_is_paired_by_round():
    # Rounds differ by a factor of ten, the ratio within each is 2, 2.1, 2.2: pairing removes the factor.
    a, b = np.array([2.0, 21.0, 220.0]), np.array([1.0, 10.0, 100.0])
    found = compare.ratio(a, b)
    logs = np.log([2, 2.1, 2.2])
    low, high = reference.t.interval(0.95, 2, loc=logs.mean(), scale=reference.sem(logs))
    assert (found["ratio"], found["low"], found["high"]) == pytest.approx(tuple(np.exp([logs.mean(), low, high])))
    assert found["kind"] == "Student t of paired log ratios"


def test_ratio_of_six_rounds_is_bootstrapped_the_same_every_time():
    rng = np.random.default_rng(1)
    a, b = rng.lognormal(1, 0.1, 8), rng.lognormal(0.5, 0.1, 8)
    found = compare.ratio(a, b)
    assert found == compare.ratio(a, b)
    assert found["kind"].startswith("BCa") and found["low"] < found["ratio"] < found["high"]
    again = reference.bootstrap(
        (np.log(a / b),), np.mean, method="BCa", rng=np.random.default_rng(99)
    ).confidence_interval
    assert found["low"] == pytest.approx(math.exp(again.low), rel=0.02)


def test_joint_interval_is_wider_with_more_comparisons():
    a, b = [2.0, 2.1, 2.2], [1.0, 1.0, 1.0]
    low, high = compare.joint_interval(a, b, 1)
    assert (low, high) == pytest.approx((compare.ratio(a, b)["low"], compare.ratio(a, b)["high"]))
    wider = compare.joint_interval(a, b, 7)
    assert wider[0] < low and wider[1] > high


def test_cliffs_delta_and_mann_whitney():
    assert compare.cliffs_delta([3, 4], [1, 2]) == 1
    assert compare.cliffs_delta([1, 2, 3], [2, 2, 2]) == 0
    assert compare.mann_whitney([1, 2, 3], [4, 5, 6]) == pytest.approx(0.1) == compare.smallest_p(3, 3)
    assert compare.mann_whitney([1, 1, 1], [1, 1, 1]) == 1
    # Ties within the groups: a normal approximation would give 0.04, less than three against three can ever give.
    assert compare.mann_whitney([1, 1, 1], [2, 2, 2]) == pytest.approx(0.1)
    assert compare.smallest_p(1, 1) == 1
    assert compare.rounds_to_reject(1) == 4 and compare.rounds_to_reject(28) == 7


def test_holm_covers_the_pairs_of_contenders_only():
    pairs = compare.pairwise(frame({"a": [1, 2, 3], "b": [4, 5, 6], "t": [7, 8, 9]}, roles={"t": "ceiling"}))
    assert len(pairs) == 3 and pairs["contenders"].sum() == 1
    assert pairs.loc[pairs["contenders"], "p_holm"].iloc[0] == pytest.approx(0.1)
    assert pairs.loc[~pairs["contenders"], "p_holm"].isna().all()


def test_versus_turns_pairs_around():
    pairs = compare.pairwise(frame({"a": [10, 11, 12], "b": [21, 22, 23]}))
    straight, turned = compare.versus(pairs, "b").iloc[0], compare.versus(pairs, "a").iloc[0]
    assert (straight["other"], turned["other"]) == ("a", "b")
    assert straight["ratio"] == pytest.approx(1 / turned["ratio"]) and straight["low"] == pytest.approx(
        1 / turned["high"]
    )
    assert (
        straight["joint_low"] == pytest.approx(1 / turned["joint_high"]) and straight["delta"] == -turned["delta"] == -1
    )
    assert turned["low"] < turned["ratio"] < turned["high"]


def test_a_winner_is_proven_against_every_other():
    times = {"a": [100, 101, 102], "b": [200, 201, 203], "c": [300, 302, 303]}
    winner = judged(frame(times))[2].iloc[0]
    assert (winner["verdict"], winner["best"], winner["runner_up"], winner["tied"]) == ("winner", "a", "b", "")
    assert winner["joint_low"] > 1


def test_a_tie_names_those_that_cannot_be_told_apart():
    times = {"a": [100, 101, 102], "b": [102, 100, 103], "c": [300, 302, 303]}
    winner = judged(frame(times))[2].iloc[0]
    assert (winner["verdict"], winner["best"], winner["tied"]) == ("tie", "a", "b")


def test_equal_times_without_spread_are_a_tie_and_different_ones_are_not():
    assert judged(frame({"a": [5, 5, 5], "b": [5, 5, 5]}))[2].iloc[0]["verdict"] == "tie"
    assert judged(frame({"a": [5, 5, 5], "b": [6, 6, 6]}))[2].iloc[0]["verdict"] == "winner"


def test_one_round_proves_nothing_and_one_contender_is_alone():
    assert judged(frame({"a": [5], "b": [500]}))[2].iloc[0]["verdict"] == "unproved"
    table, pairs, winners = judged(frame({"a": [5, 6, 7], "t": [1, 1, 1]}, roles={"t": "ceiling"}))
    assert winners.iloc[0]["verdict"] == "alone" and winners.iloc[0]["best"] == "a"
    assert len(pairs) == 1 and table["role"].tolist() == ["contender", "ceiling"]


def test_a_contender_with_a_lost_round_stays_in_the_comparison():
    winner = judged(frame({"a": [100, 101, 102], "b": [200, None, None]}))[2].iloc[0]
    assert (winner["verdict"], winner["tied"]) == ("unproved", "")
    winner = judged(frame({"a": [100, 101, 102], "b": [200, None, None], "c": [300, 301, 302]}))[2].iloc[0]
    assert (winner["verdict"], winner["tied"]) == ("tie", "b")


def test_settings_never_meet():
    rows = pd.concat([frame({"a": [1, 2, 3]}), frame({"b": [100, 200, 300]}, lab="host")])
    table, pairs, winners = judged(rows)
    assert pairs.empty and set(winners["verdict"]) == {"alone"}
    assert len(compare.ranks(table)[0]) == 2


def blocks(rows: list[list[int]]) -> pd.DataFrame:
    return pd.concat(
        [
            frame({name: [value] for name, value in zip("abcd", row, strict=True)}, phase=f"p{i}")
            for i, row in enumerate(rows)
        ]
    )


def test_ranks_against_scipy_and_demsar():
    values = [[1, 2, 3, 4], [2, 1, 3, 4], [1, 2, 4, 3], [1, 3, 2, 4], [1, 2, 3, 4]]
    ranks, pairs = compare.ranks(cells.statistics(blocks(values)))
    assert ranks["label"].tolist() == ["a", "b", "c", "d"]
    assert ranks["mean_rank"].tolist() == pytest.approx([1.2, 2.0, 3.0, 3.8])
    assert ranks["p"].iloc[0] == pytest.approx(reference.friedmanchisquare(*np.array(values).T).pvalue)
    # Demsar 2006, table 5: q = 2.569 for four classifiers at 5 %.
    assert ranks["critical_difference"].iloc[0] == pytest.approx(2.569 * math.sqrt(4 * 5 / (6 * 5)), rel=1e-3)
    distance = abs(
        pairs["a"].map(dict(zip(ranks["label"], ranks["mean_rank"], strict=True)))
        - pairs["b"].map(dict(zip(ranks["label"], ranks["mean_rank"], strict=True)))
    )
    assert ((pairs["p"] < 0.05) == (distance > ranks["critical_difference"].iloc[0])).all()


def test_ranks_leave_out_incomplete_operations_and_need_three_contenders():
    rows = pd.concat([blocks([[1, 2, 3, 4], [1, 2, 4, 3]]), frame({"a": [1], "b": [2]}, phase="q")])
    ranks, _ = compare.ranks(cells.statistics(rows))
    assert set(ranks["blocks"]) == {2} and set(ranks["left_out"]) == {1}
    two, pairs = compare.ranks(cells.statistics(frame({"a": [1], "b": [2]})))
    assert two["mean_rank"].tolist() == [1, 2] and two["p"].isna().all() and pairs.empty


def test_relative_cost_is_measured_from_the_best_contender():
    cost = compare.relative(cells.statistics(frame({"a": [4], "b": [8], "t": [1]}, roles={"t": "ceiling"})))
    assert cost.set_index("label")["cost"].to_dict() == pytest.approx({"a": 1, "b": 2, "t": 0.25})


def test_drift_needs_six_rounds():
    assert compare.drift(frame({"a": [1, 2, 3]})).empty
    found = compare.drift(frame({"a": [1, 2, 3, 4, 5, 6, 7, 8], "b": [5] * 8})).iloc[0]
    assert (found["label"], found["rho"]) == ("a", 1) and found["p_holm"] < 0.05


def test_latency_quantiles_merge_rounds(tmp_path):
    make.make(tmp_path, rounds=2, systems=["ext4"], workloads=["metadata"], failures={})
    latency = run.build(tmp_path).latency
    found = cells.latency_quantiles(latency, (0.5, 1.0)).set_index(["phase", "cache"]).loc[("create", "warm")]
    own = latency[latency["phase"] == "create"]
    expanded = np.repeat(((own["lower_ns"] + own["upper_ns"] - 1) / 2).astype(float), own["count"].astype(int))
    assert found["count"] == len(expanded) == 4000
    assert found["q0.5"] == np.quantile(expanded, 0.5, method="inverted_cdf") and found["q1"] == expanded.max()


@pytest.mark.parametrize("nothing", [frame({"a": [1]}).iloc[:0]])
def test_nothing_gives_empty_frames(nothing):
    table, pairs, winners = judged(nothing)
    ranks, nemenyi = compare.ranks(table)
    assert all(len(result) == 0 for result in (table, pairs, winners, ranks, nemenyi, compare.relative(table)))


def test_holm_is_that_of_statsmodels():
    for p in ([0.01, 0.04, 0.03, 0.005], [0.5], [1.0, 1.0, 0.9], [0.02, 0.02, 0.02]):
        assert compare.holm(p) == pytest.approx(multipletests(p, method="holm")[1])
    assert len(compare.holm([])) == 0


def described(*names: str) -> dict[str, dict]:
    """Descriptions of stacks as in a plan: md-raid5@3, md-raid5-degraded, md-raid6+lvm ..."""
    found = {}
    for name in names:
        family, _, disks = name.partition("@")
        state = next((state for state in ("degraded", "rebuilding") if state in name), "healthy")
        count = int(disks) if disks else 1 if name == "single" else 6
        found[name] = {"state": state, "layers": family.split("+"), "disks": count}
    return found


def test_a_stack_with_a_fault_has_a_healthy_counterpart():
    known = described("md-raid5", "md-raid5@5", "md-raid5@12", "md-raid6", "md-raid5+lvm", "md-raid5-degraded")
    known |= described("md-raid5-rebuilding", "md-raid5-degraded+lvm", "md-raid5-degraded@12", "md-raid6-degraded")
    beside = {name: stacks.counterpart(name, known, list(known)) for name in known}
    assert beside["md-raid5"] is None
    assert beside["md-raid5-degraded"] == "md-raid5" and beside["md-raid5-degraded@12"] == "md-raid5@12"
    assert beside["md-raid5-rebuilding"] == "md-raid5@5"  # one of its six disks is the spare
    assert beside["md-raid5-degraded+lvm"] == "md-raid5+lvm" and beside["md-raid6-degraded"] == "md-raid6"
    assert stacks.counterpart("md-raid6-degraded", known, ["md-raid5", "md-raid6-degraded"]) is None


def test_references_of_stacks():
    known = described("md-raid0", "single", "md-raid5", "md-raid5-degraded")
    assert stacks.references(known, list(known)) == [
        ("md-raid5-degraded", "md-raid5", "healthy"),
        ("md-raid0", "single", "base"),
        ("md-raid5", "single", "base"),
        ("md-raid5-degraded", "single", "base"),
    ]
    without = described("md-raid5", "md-raid5-degraded", "md-raid6", "md-raid6-degraded")
    assert stacks.references(without, list(without)) == [
        ("md-raid5-degraded", "md-raid5", "healthy"),
        ("md-raid6-degraded", "md-raid6", "healthy"),
    ]
    assert stacks.references(known, ["md-raid0", "md-raid5"]) == [("md-raid5", "md-raid0", "base")]
    assert stacks.references(known, ["single"]) == []


def test_ratios_of_stacks_are_paired_by_round_and_stay_in_their_lab():
    rows = pd.concat(
        [
            frame({"a": [10, 100, 1000]}),
            frame({"a": [20, 210, 2200]}, stack="md-raid5"),
            frame({"a": [7, 7, 7]}, lab="host"),
            frame({"b": [5, 5, 5]}, stack="md-raid5"),  # nothing to be held against
        ]
    )
    known = described("single", "md-raid5")
    found = stacks.stack_ratios(rows, known)
    assert len(found) == 1 and found.iloc[0][["lab", "label", "stack", "reference", "n"]].tolist() == [
        "exact",
        "a",
        "md-raid5",
        "single",
        3,
    ]
    expected = compare.ratio([20, 210, 2200], [10, 100, 1000])
    assert {key: found.iloc[0][key] for key in expected} == pytest.approx(expected)


def test_typical_cost_of_a_stack_over_operations():
    rows = pd.concat(
        [
            frame({"a": [10, 10, 10]}, phase="p"),
            frame({"a": [10, 10, 10]}, phase="q"),
            frame({"a": [20, 20, 20]}, phase="p", stack="md-raid5"),
            frame({"a": [80, 80, 80]}, phase="q", stack="md-raid5"),
            frame({"a": [90, None, 90]}, phase="r"),  # on one of the two only
        ]
    )
    found = stacks.stack_typical(rows, described("single", "md-raid5"))
    assert len(found) == 1 and found.iloc[0]["operations"] == 2
    assert found.iloc[0]["ratio"] == pytest.approx(4) and found.iloc[0]["kind"] == "no spread"


def test_a_rebuild_is_no_operation_of_its_stack():
    rows = pd.concat(
        [
            frame({"a": [10, 11, 12]}).assign(operation="create", rebuilding=[True, False, False]),
            frame({"a": [10, 11, 12]}, phase="late").assign(operation="stat", rebuilding=False),
            frame({"a": [5, 6, 7]}, phase="rebuild").assign(operation="rebuild", rebuilding=False),
        ]
    )
    assert set(cells.statistics(rows)["phase"]) == {"p", "late"}
    found = stacks.rebuilds(rows).iloc[0]
    assert (found["n"], found["mean_ns"], found["during"], found["phases"]) == (3, 6, 1, 2)
    assert stacks.rebuilds(frame({"a": [1]})).empty


def two_labs(exact: dict, host: dict) -> pd.DataFrame:
    return pd.concat([frame(exact), frame(host, lab="host")])


def test_labs_are_compared_by_ratios_within_a_round():
    found = labs.clock_ratios(two_labs({"a": [10, 100]}, {"a": [5, 60]})).iloc[0]
    assert (found["a"], found["b"], found["n"]) == ("exact", "host", 2)
    assert [found["ratio"], found["processor"]] == pytest.approx([math.sqrt(0.5 * 0.6)] * 2)
    assert labs.clock_ratios(frame({"a": [1, 2]})).empty


def test_agreement_of_orders_by_hand():
    exact = {"a": [10, 10, 11], "b": [20, 21, 20], "c": [30, 31, 30], "d": [40, 41, 40]}
    host = {"a": [1, 1.1, 1], "c": [2, 2.1, 2], "b": [3, 3.1, 3], "d": [4, 1, 16]}
    rows = two_labs(exact, host)
    found = labs.orders(cells.statistics(rows), compare.pairwise(rows)).iloc[0]
    # b and c are the other way round: five of six pairs have the same order.
    assert (found["labels"], found["pairs"], found["tau"]) == (4, 6, pytest.approx(4 / 6))
    assert found["p"] == pytest.approx(reference.kendalltau([1, 2, 3, 4], [1, 3, 2, 4], method="exact").pvalue)
    # The host does not tell d from anything, so three pairs are told apart by both labs, two of them alike.
    assert (found["told"], found["same"]) == (3, 2)
    means = {lab: [reference.gmean(values) for values in times.values()] for lab, times in (("x", exact), ("h", host))}
    apart = [math.log(x / h) for x, h in zip(means["x"], [means["h"][i] for i in (0, 2, 1, 3)], strict=True)]
    squares = [(one - other) ** 2 for place, one in enumerate(apart) for other in apart[:place]]
    assert found["error"] == pytest.approx(math.exp(math.sqrt(sum(squares) / 6)))
    assert labs.orders(*judged(two_labs({"a": [1], "b": [2]}, {"a": [1], "b": [2]}))[:2]).empty


def test_agreement_is_pooled_over_operations():
    keys = {"a": "exact", "b": "host", "stack": "single", "profile": "ram", "labels": 5, "pairs": 10}
    table = pd.DataFrame([keys | {"tau": tau, "told": 8, "same": 6, "error": 2.0} for tau in (1.0, 0.8, 0.6, 0.8)])
    clocks = pd.DataFrame([keys | {"processor": ratio} for ratio in (0.25, 1.0, math.nan)])
    found = labs.agreement(table, clocks).iloc[0]
    assert (found["pace"], found["slowest"], found["fastest"]) == pytest.approx((0.5, 1.0, 0.25))
    assert found["spread"] == pytest.approx(math.exp(math.log(2) * math.sqrt(2)))
    assert found["error"] == pytest.approx(2)
    assert (found["tau"], found["operations"], found["told"], found["same"]) == (pytest.approx(0.8), 4, 32, 24)
    assert 0.6 <= found["low"] < 0.8 < found["high"] <= 1
    assert math.isnan(labs.agreement(table.iloc[:1], clocks).iloc[0]["low"])
