"""Statistics against values computed by hand or by another route."""

import math

import bench_inference as bench
import make
import numpy as np
import pandas as pd
import pytest
import run
from helpers import Late
from reprofs.plan.stack import PlannedStack
from reprofs.stats import cells, compare, labs, spread, stacks

reference = Late("scipy.stats")
multitest = Late("statsmodels.stats.multitest")

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


def test_what_computes_without_files_is_in_no_total_and_no_mean_rank():
    alike = frame({"a": [80, 81], "b": [79, 80]}, phase="compute")
    both = pd.concat([alike, frame({"a": [10, 11], "b": [20, 22]})], ignore_index=True)
    assert compare.totals(both).sort_values(["label", "round"])["wall_ns"].tolist() == [10, 11, 20, 22]
    assert compare.ranks(cells.statistics(both))["mean_rank"].tolist() == [1, 2]


def test_processor_time_is_the_mean_of_the_rounds():
    phases = frame({"a": [30, 60], "b": [10, 10]})
    phases["user_ns"] = pd.array([4, 8, pd.NA, pd.NA], dtype="Int64")
    found = cells.processor(phases)
    place = ("exact", "single", "ssd", "w", "smoke", "p", "warm")
    assert tuple(found.loc[(*place, "a")]) == (6, 45)
    assert math.isnan(found.loc[(*place, "b"), "user_ns"]) and found.loc[(*place, "b"), "system_ns"] == 10
    phases.loc[0, "status"] = "failed"
    assert tuple(cells.processor(phases).loc[(*place, "a")]) == (8, 60)


@pytest.mark.parametrize(("n", "cut"), [(6, 0), (8, 0), (9, 1), (12, 2)])
def test_six_or_more_values_have_order_statistics_of_the_median(n, cut):
    values = np.random.default_rng(n).permutation(np.arange(1, n + 1) ** 2)
    ends = ["median_low_ns", "median_high_ns"]
    found = cells.statistics(frame({"a": values})).iloc[0]
    assert tuple(found[ends]) == (np.sort(values)[cut], np.sort(values)[n - 1 - cut])
    # One value fewer at either end would hold the median less often than 95 %.
    assert 2 * reference.binom.cdf(cut, n, 0.5) <= 0.05 < 2 * reference.binom.cdf(cut + 1, n, 0.5)
    assert cells.statistics(frame({"a": values[:5]})).iloc[0][ends].isna().all()


def test_the_interval_is_students_on_logarithms_at_every_number():
    low, high = cells.interval([1.0, 2.0, 4.0])
    reach = 4.302652729911275 * math.log(2) / math.sqrt(3)  # t for two degrees of freedom; the logarithms' sd is log 2
    assert (low, high) == pytest.approx((2 * math.exp(-reach), 2 * math.exp(reach)))
    many = np.random.default_rng(1).lognormal(0, 1, 30)
    low, high = cells.interval(many)
    logs = reference.t.interval(0.95, 29, loc=np.log(many).mean(), scale=reference.sem(np.log(many)))
    assert (low, high) == pytest.approx(tuple(np.exp(logs))) and low < reference.gmean(many) < high
    assert all(map(math.isnan, cells.interval([5.0])))


@pytest.mark.parametrize("n", [2, 3, 6])
def test_without_spread_the_interval_is_the_value(n):
    assert cells.interval([7.0] * n) == pytest.approx((7.0, 7.0))
    assert compare.ratio([6.0] * n, [3.0] * n) == pytest.approx({"ratio": 2, "low": 2, "high": 2})


def test_statistics_of_a_cell_by_hand():
    cell = cells.statistics(frame({"a": [2, 4, 9]})).iloc[0]
    assert (cell["n"], cell["mean_ns"], cell["median_ns"], cell["min_ns"], cell["max_ns"]) == (3, 5, 4, 2, 9)
    assert cell["variance_ns2"] == pytest.approx((9 + 1 + 16) / 2)
    assert cell["sd_ns"] == pytest.approx(math.sqrt(13)) and cell["cv"] == pytest.approx(math.sqrt(13) / 5)
    assert cell["geometric_mean_ns"] == pytest.approx(72 ** (1 / 3))
    assert cell["low_ns"] < cell["geometric_mean_ns"] < cell["high_ns"]
    assert math.isnan(cell["median_low_ns"]) and math.isnan(cell["outliers"])  # three rounds are too few for either
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
    assert cells.statistics(frame({"a": [1, 2, 3, 4, 100]}))["outliers"].iloc[0] == 1


def test_ratio_is_paired_by_round():
    # Rounds differ by a factor of ten, the ratio within each is 2, 2.1, 2.2: pairing removes the factor.
    a, b = np.array([2.0, 21.0, 220.0]), np.array([1.0, 10.0, 100.0])
    found = compare.ratio(a, b)
    logs = np.log([2, 2.1, 2.2])
    low, high = reference.t.interval(0.95, 2, loc=logs.mean(), scale=reference.sem(logs))
    assert (found["ratio"], found["low"], found["high"]) == pytest.approx(tuple(np.exp([logs.mean(), low, high])))


def test_joint_intervals_are_wider_with_more_comparisons():
    a, b = [2.0, 2.1, 2.2], [1.0, 1.0, 1.0]
    single, wider = compare.ratio(a, b), compare.ratio(a, b, compare.joint(7))
    assert compare.ratio(a, b, compare.joint(1)) == single
    logs = np.log(a)
    low, high = reference.t.interval(1 - 0.05 / 7, 2, loc=logs.mean(), scale=reference.sem(logs))
    assert (wider["low"], wider["high"]) == pytest.approx((math.exp(low), math.exp(high)))
    assert wider["low"] < single["low"] and wider["high"] > single["high"]


def test_paired_tests_are_those_of_scipy():
    rng = np.random.default_rng(4)
    logs = rng.normal(0.02, 0.03, (8, 5))
    logs[0, 2] = np.nan  # this pair has a round less
    found = compare.paired(logs, equal=0.05)
    for i in range(5):
        x = logs[~np.isnan(logs[:, i]), i]
        assert found["n"][i] == len(x) and found["sd"][i] == pytest.approx(x.std(ddof=1))
        assert found["p"][i] == pytest.approx(reference.ttest_1samp(x, 0).pvalue)
        margin = math.log(1.05)
        ends = [(-margin, "greater"), (margin, "less")]
        expected = max(reference.ttest_1samp(x, end, alternative=side).pvalue for end, side in ends)
        assert found["p_equal"][i] == pytest.approx(expected)
        assert found["p_sign"][i] == pytest.approx(reference.binomtest(int((x > 0).sum()), len(x)).pvalue)
    few = compare.paired(logs[:5])
    assert np.isnan(few["p_sign"]).all() and not np.isnan(few["p"]).any()
    assert all(math.isnan(compare.paired(logs[1:2])[key][0]) for key in ("low", "high", "sd", "p", "p_equal"))


@pytest.mark.parametrize("n", [3, 6, 10])
@pytest.mark.parametrize("tests", [1, 24])
def test_power_is_that_of_the_noncentral_t(n, tests):
    critical = reference.t.isf(0.025 / tests, n - 1)
    for distance in (0.5, 2.0, 8.0):
        assert compare.power(distance, n, tests) == pytest.approx(
            reference.nct.sf(critical, n - 1, distance * math.sqrt(n)), abs=2e-3
        )
    assert compare.power(compare.effect(n, tests), n, tests) == pytest.approx(0.8)


@pytest.mark.parametrize("ratio", [1.0, 1.03, 1.1])
@pytest.mark.parametrize(("n", "tests"), [(4, 1), (8, 24)])
def test_the_chance_of_a_decision_by_simulation(ratio, n, tests):
    found = compare.paired(np.random.default_rng(7).normal(math.log(ratio), 0.03, (n, 20_000)))
    slower = (found["p"] * tests < 0.05) & (found["ratio"] >= 1.02)
    assert compare.decides(ratio, 0.03, n, tests) == pytest.approx(
        (slower | (found["p_equal"] < 0.05)).mean(), abs=0.012
    )


def test_rounds_needed_are_the_fewest():
    ratios = (1.0, 1.01, 1.1, 1.3)
    for ratio, found in zip(ratios, compare.rounds_needed(ratios, [0.04] * 4, 10).astype(int), strict=True):
        assert compare.decides(ratio, 0.04, found, 10) >= 0.8 > compare.decides(ratio, 0.04, found - 1, 10)
    few, *many = compare.rounds_needed([1.3, 1.0, 1.1], [0.0, 5.0, math.nan])
    assert few == 2 and np.isnan(many).all()


def test_rounds_that_did_not_decide_are_not_enough():
    a, b = [10054, 9805, 9780, 10039, 9907, 10047], [10632, 10132, 10525, 10731, 10409, 10303]
    c, d = [10429, 10326, 10459, 10203, 9974, 10251], [9918, 10163, 10045, 9685, 9770, 10185]
    found = judged(frame({"a": a, "b": b, "c": c, "d": d}))[2].iloc[0]
    # Five rounds would have a power of 80 %, by the formula: these six decided nothing.
    assert (found["verdict"], found["level"], found["n"], found["rounds"]) == ("undecided", ("d", "c"), 6, 7)


def test_versus_turns_pairs_around():
    pairs = compare.pairwise(frame({"a": [10, 11, 12], "b": [21, 22, 23]}))
    straight, turned = compare.versus(pairs, "b").iloc[0], compare.versus(pairs, "a").iloc[0]
    assert (straight["other"], turned["other"]) == ("a", "b")
    assert straight["ratio"] == pytest.approx(1 / turned["ratio"]) and straight["low"] == pytest.approx(
        1 / turned["high"]
    )
    assert turned["low"] < turned["ratio"] < turned["high"]


def test_the_fastest_is_shown_against_every_other():
    times = {"a": [100, 101, 102], "b": [200, 201, 203], "c": [300, 302, 303]}
    row = judged(frame(times))[2].iloc[0]
    assert (row["verdict"], row["best"], row["runner_up"], row["level"]) == ("fastest", "a", "b", ())
    both = [reference.ttest_rel(np.log(times[x]), np.log(times["a"])).pvalue for x in "bc"]
    assert row["p"] == row["p_holm"] == pytest.approx(max(both)) and row["low"] > 1
    # The same data among a hundred operations that show nothing are no proof.
    rng = np.random.default_rng(3)
    others = [frame({name: rng.normal(1000, 50, 3).astype(int) for name in "abc"}, phase=f"q{i}") for i in range(100)]
    row = judged(pd.concat([frame(times), *others]))[2].set_index("phase").loc["p"]
    assert row["p_holm"] == pytest.approx(101 * row["p"]) and (row["p_holm"] < 0.05) == (row["verdict"] == "fastest")


def test_a_lead_below_the_margin_is_not_named():
    times = frame({"a": [10000, 10010, 10020], "b": [10100, 10111, 10120]})
    assert judged(times)[2].iloc[0]["p_holm"] < 0.05
    assert (judged(times)[2].iloc[0]["verdict"], judged(times)[2].iloc[0]["level"]) == ("equivalent", ("b",))
    table, pairs = cells.statistics(times), compare.pairwise(times)
    assert compare.winners(table, pairs, win=0.005).iloc[0]["verdict"] == "fastest"


def test_a_family_is_what_a_reader_reads_together():
    """Other workloads and settings do not change what a table says: at three rounds they would leave all undecided."""
    own = frame({"a": [100, 101, 102], "b": [200, 215, 190]})
    alone = judged(own)[2].iloc[0]
    rng = np.random.default_rng(3)
    others = [
        frame({name: rng.normal(1000, 50, 3).astype(int) for name in "ab"}, **{key: f"{key}{i}"})
        for key in ("workload", "stack", "lab")
        for i in range(10)
    ]
    many = pd.concat([own, *others])
    keys = ["workload", "stack", "lab"]
    told = judged(many)[2].set_index(keys).loc[("w", "single", "exact")]
    assert told["p_holm"] == pytest.approx(alone["p"]) and told["verdict"] == alone["verdict"] == "fastest"
    table, pairs = cells.statistics(many), compare.pairwise(many)
    whole = compare.winners(table, pairs, family=["cache"]).set_index(keys).loc[("w", "single", "exact")]
    assert whole["p_holm"] == pytest.approx(31 * alone["p"]) and whole["verdict"] == compare.FEW


def test_no_interval_of_an_exact_lab_is_below_its_floor():
    """Three equal times have an interval of width 0 on this guest; with another link order they would be others."""
    rows = pd.concat([frame({"a": [5, 5, 5], "b": [6, 6, 6]}), frame({"a": [5, 5, 5]}, lab="host")])
    keys = {"centre": "geometric_mean_ns", "low": "low_ns", "high": "high_ns"}
    found = cells.widened(cells.statistics(rows), ["exact"], **keys).set_index(["lab", "label"])
    exact, host = found.loc[("exact", "a")], found.loc[("host", "a")]
    assert (exact["low_ns"], exact["high_ns"]) == pytest.approx((5 / 1.016, 5 * 1.016))
    assert host["low_ns"] == host["high_ns"] == pytest.approx(5)
    # A spread of its own and the floor are added as squares; one repetition has no interval.
    low, high = cells.widen(np.array([1.0, 2.0]), np.array([0.9, math.nan]), np.array([1 / 0.9, math.nan]))
    assert math.log(high[0]) == pytest.approx(math.hypot(math.log(0.9), math.log(1.016))) == -math.log(low[0])
    assert np.isnan([low[1], high[1]]).all() and cells.floored([5, 5, 5]) == pytest.approx((5 / 1.016, 5 * 1.016))


@pytest.mark.wide
def test_those_that_may_be_the_fastest_are_named_and_those_shown_slower_are_not():
    times = {"a": [1000, 1015, 1020], "b": [1050, 1000, 1080], "c": [3000, 3021, 3030]}
    row = judged(frame(times))[2].iloc[0]
    assert (row["verdict"], row["best"], row["level"]) == (compare.FEW, "a", ("b",))
    assert row["rounds"] > 3 and row["detectable"] > 1.03
    # As many rounds of the same ratio and spread do decide, more often than not.
    rng, n = np.random.default_rng(5), int(row["rounds"])
    logs = np.log([np.divide(times["b"], times["a"])])
    drawn = np.exp(rng.normal(logs.mean(), logs.std(ddof=1), (100, n)))
    ended = [judged(frame({"a": [10**6] * n, "b": one * 10**6}))[2].iloc[0]["verdict"] for one in drawn]
    assert 0.7 < np.mean([verdict not in ("undecided", compare.FEW) for verdict in ended]) < 0.95


def test_equal_times_without_spread_are_equivalent_and_different_ones_are_not():
    assert judged(frame({"a": [5, 5, 5], "b": [5, 5, 5]}))[2].iloc[0]["verdict"] == "equivalent"
    assert judged(frame({"a": [5, 5, 5], "b": [6, 6, 6]}))[2].iloc[0]["verdict"] == "fastest"


def test_one_round_shows_nothing_and_one_contender_is_alone():
    row = judged(frame({"a": [5], "b": [500]}))[2].iloc[0]
    assert (row["verdict"], row["level"]) == (compare.FEW, ("b",))
    assert all(math.isnan(row[key]) for key in ("p", "p_holm", "rounds", "detectable"))
    table, pairs, winners = judged(frame({"a": [5, 6, 7], "t": [1, 1, 1]}, roles={"t": "ceiling"}))
    assert winners.iloc[0]["verdict"] == "alone" and winners.iloc[0]["best"] == "a"
    assert len(pairs) == 1 and table["role"].tolist() == ["contender", "ceiling"]


def test_a_contender_with_a_lost_round_stays_in_the_comparison():
    row = judged(frame({"a": [100, 101, 102], "b": [200, None, None]}))[2].iloc[0]
    assert (row["verdict"], row["level"]) == (compare.FEW, ("b",))
    row = judged(frame({"a": [100, 101, 102], "b": [200, None, None], "c": [300, 301, 302]}))[2].iloc[0]
    assert (row["verdict"], row["level"], row["p"]) == (compare.FEW, ("b",), 1)
    row = judged(frame({"a": [100, 101, None], "b": [None, None, 200]}))[2].iloc[0]
    assert (row["verdict"], row["level"]) == (compare.FEW, ("b",)) and math.isnan(row["ratio"])


@pytest.mark.wide
@pytest.mark.parametrize(("contenders", "rounds", "cv"), [(2, 3, 0.01), (7, 3, 0.01), (7, 6, 0.05)])
def test_of_equal_contenders_few_studies_name_a_fastest(contenders, rounds, cv):
    studies = bench.verdicts(contenders, rounds, cv, lead=0.0, operations=4, times=100)
    found = bench.shares(studies, lead=0.0)
    assert found["false_fastest"] <= 0.11 and found["false_slower"] <= 0.11  # 5 % of 100, and what chance adds
    for study in studies:
        for row in study.itertuples():
            assert (row.verdict == "fastest") == (row.level == ()), "a fastest one has nobody beside it, others do"
            assert row.best not in row.level


def test_a_large_lead_is_found():
    found = bench.shares(bench.verdicts(7, 6, 0.02, lead=0.2, operations=4, times=30), lead=0.2)
    assert found["fastest"] > 0.95 and found["false_fastest"] == 0


def test_a_workload_as_a_whole_is_the_sum_of_its_phases():
    rows = pd.concat([frame({"a": [1, 2], "b": [5, 5]}), frame({"a": [10, 20], "b": [1, 1]}, phase="q")])
    whole = compare.totals(rows.assign(sync_ns=0))
    assert whole.groupby("label")["wall_ns"].agg(list).to_dict() == {"a": [11, 22], "b": [6, 6]}
    assert set(cells.statistics(whole)["phase"]) == {compare.TOTAL} and len(judged(whole)[2]) == 1
    failed = rows.assign(status=["failed" if n == 2 else "ok" for n in rows["round"]])
    assert compare.totals(failed)["wall_ns"].tolist() == [11, 6]
    # Parts of a command have no sync of their own, and no sum unless one process did them in turn.
    parts = rows.assign(sync_ns=[None] + [0] * 7)
    assert compare.totals(parts).empty
    for kind, none in (("in-turn", False), ("at-once", True), ("repeated", True)):
        assert compare.totals(parts.assign(part=[kind] + [None] * 7)).empty == none


def test_settings_never_meet():
    rows = pd.concat([frame({"a": [1, 2, 3]}), frame({"b": [100, 200, 300]}, lab="host")])
    table, pairs, winners = judged(rows)
    assert pairs.empty and set(winners["verdict"]) == {"alone"}
    assert len(compare.ranks(table)) == 2


def blocks(rows: list[list[int]]) -> pd.DataFrame:
    return pd.concat(
        [
            frame({name: [value] for name, value in zip("abcd", row, strict=True)}, phase=f"p{i}")
            for i, row in enumerate(rows)
        ]
    )


def test_mean_ranks_by_hand():
    ranks = compare.ranks(
        cells.statistics(blocks([[1, 2, 3, 4], [2, 1, 3, 4], [1, 2, 4, 3], [1, 3, 2, 4], [1, 2, 3, 4]]))
    )
    assert ranks["label"].tolist() == ["a", "b", "c", "d"] and set(ranks["blocks"]) == {5}
    assert ranks["mean_rank"].tolist() == pytest.approx([1.2, 2.0, 3.0, 3.8])
    assert ranks["median_rank"].tolist() == pytest.approx([1, 2, 3, 4])


def test_ranks_leave_out_incomplete_operations():
    rows = pd.concat([blocks([[1, 2, 3, 4], [1, 2, 4, 3]]), frame({"a": [1], "b": [2]}, phase="q")])
    ranks = compare.ranks(cells.statistics(rows))
    assert set(ranks["blocks"]) == {2} and set(ranks["left_out"]) == {1} and len(ranks) == 4
    assert compare.ranks(cells.statistics(frame({"a": [1], "b": [2]})))["mean_rank"].tolist() == [1, 2]


def test_relative_cost_is_measured_from_the_best_contender():
    cost = compare.relative(cells.statistics(frame({"a": [4], "b": [8], "t": [1]}, roles={"t": "ceiling"})))
    assert cost.set_index("label")["cost"].to_dict() == pytest.approx({"a": 1, "b": 2, "t": 0.25})


def rounds_of(values) -> pd.DataFrame:
    """Phases of one operation from logarithms of shape (labels, rounds), trials in the order of labels."""
    labels, number = np.shape(values)
    rows = frame({f"f{i}": np.exp(values[i]) * 1e6 for i in range(labels)})
    return rows.assign(order=[n * labels + i for i in range(labels) for n in range(number)])


def p_values(values) -> dict[str, float]:
    """test -> p."""
    found = spread.stability(rounds_of(values))
    return dict(zip(found["test"], found["p"], strict=True))


def test_what_happens_over_rounds_is_found_and_noise_is_not():
    rng = np.random.default_rng(2)
    noise = rng.normal(0, 0.01, (6, 12))
    assert min(p_values(noise).values()) > 0.05
    assert p_values(noise + 0.01 * np.arange(12))["drift"] < 0.01
    assert p_values(noise + 0.03 * (np.arange(12) > 6))["change"] < 0.01
    wave = np.sin(np.arange(12) * 2 * np.pi / 12) * 0.03
    assert p_values(noise + wave)["autocorrelation"] < 0.01
    few = p_values(noise[:, :5])
    assert math.isnan(few["drift"]) and math.isnan(few["change"]) and few["order"] > 0.05
    assert all(map(math.isnan, p_values(noise[:, :1]).values()))


def test_a_trial_that_runs_late_in_its_round_and_takes_longer_is_found():
    rng, labels, number = np.random.default_rng(3), 6, 5
    place = np.array([rng.permutation(labels) for _ in range(number)]).T
    values = rng.normal(0, 0.01, (labels, number)) + 0.02 * place
    rows = rounds_of(values).assign(order=[n * labels + place[i, n] for i in range(labels) for n in range(number)])
    found = spread.stability(rows).set_index("test").loc["order"]
    assert found["statistic"] > 0.7 and found["p_holm"] < 0.01


@pytest.mark.wide
def test_tests_over_rounds_keep_their_level():
    rng = np.random.default_rng(4)
    p = pd.DataFrame([p_values(rng.normal(0, 0.01, (3, 6)) + rng.normal(0, 0.02, 6)) for _ in range(100)])
    assert ((p < 0.05).mean() <= 0.11).all()  # rounds that all file systems share are no drift


def test_variance_components_are_found_again():
    rng = np.random.default_rng(5)
    label, number = rng.normal(0, 0.3, (40, 1)), rng.normal(0, 0.05, (1, 60))
    found = spread.components(rounds_of(label + number + rng.normal(0, 0.02, (40, 60)))).iloc[0]
    assert (found["contenders"], found["rounds"]) == (40, 60)
    assert found["interaction"] == pytest.approx(0.02, rel=0.05) and found["round"] == pytest.approx(0.05, rel=0.3)
    assert found["filesystem"] == pytest.approx(label.std(ddof=1), rel=0.05)
    assert spread.components(frame({"a": [1, 2, 3]})).empty and spread.components(frame({"a": [1], "b": [2]})).empty


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
    others = compare.ranks(table), compare.relative(table), compare.totals(nothing)
    others += spread.components(nothing), spread.stability(nothing)
    assert all(len(result) == 0 for result in (table, pairs, winners, *others))


def test_holm_is_that_of_statsmodels():
    for p in ([0.01, 0.04, 0.03, 0.005], [0.5], [1.0, 1.0, 0.9], [0.02, 0.02, 0.02]):
        assert compare.holm(p) == pytest.approx(multitest.multipletests(p, method="holm")[1])
    assert len(compare.holm([])) == 0
    assert compare.holm([0.03, math.nan, 0.01]) == pytest.approx([0.03, math.nan, 0.02], nan_ok=True)


def described(*names: str) -> dict[str, PlannedStack]:
    """Descriptions of stacks as in a plan: md-raid5@3, md-raid5-degraded, md-raid6+lvm ..."""
    found = {}
    for name in names:
        family, _, disks = name.partition("@")
        state = next((state for state in ("degraded", "rebuilding") if state in name), "healthy")
        count = int(disks) if disks else 1 if name == "single" else 6
        layers = family.split("+")
        found[name] = PlannedStack(title=name, family=family, state=state, layers=layers, disks=count)
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


def test_a_stack_with_another_last_disk_stands_beside_itself():
    named = ["single", "xfs-log", "xfs-log with solid", "md-raid0"]
    assert stacks.references(described("single", "xfs-log", "md-raid0"), named) == [
        ("xfs-log with solid", "xfs-log", "alike"),
        ("xfs-log", "single", "base"),
        ("xfs-log with solid", "single", "base"),
        ("md-raid0", "single", "base"),
    ]
    # Without another stack its own is the base, and is not named twice.
    assert stacks.references(described("xfs-log"), named[1:3]) == [("xfs-log with solid", "xfs-log", "alike")]
    rows = pd.concat(
        [
            frame({"a": [8, 8, 8]}),
            frame({"a": [6, 6, 6]}, stack="xfs-log"),
            frame({"a": [3, 3, 3]}, stack="xfs-log", profile="ssd+solid"),
        ]
    )
    found = stacks.stack_ratios(stacks.side_by_side(rows, described("single", "xfs-log")))
    assert [tuple(row) for row in found[["profile", "stack", "reference", "relation"]].to_numpy()] == [
        ("ssd", "xfs-log with solid", "xfs-log", "alike"),
        ("ssd", "xfs-log", "single", "base"),
        ("ssd", "xfs-log with solid", "single", "base"),
    ]
    assert found["ratio"].tolist() == pytest.approx([1 / 2, 3 / 4, 3 / 8])


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
    found = stacks.stack_ratios(stacks.side_by_side(rows, known))
    assert len(found) == 1 and found.iloc[0][["lab", "label", "stack", "reference", "n"]].tolist() == [
        "exact",
        "a",
        "md-raid5",
        "single",
        3,
    ]
    expected = compare.ratio([20, 210, 2200], [10, 100, 1000])
    assert {key: found.iloc[0][key] for key in expected} == pytest.approx(expected)


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
    assert (found["n"], found["during"], found["phases"]) == (3, 1, 2)
    assert found["geometric_mean_ns"] == pytest.approx(210 ** (1 / 3))
    assert stacks.rebuilds(frame({"a": [1]})).empty


def two_labs(exact: dict, host: dict) -> pd.DataFrame:
    return pd.concat([frame(exact), frame(host, lab="host")])


def test_labs_are_compared_by_ratios_within_a_round():
    found = labs.clock_ratios(two_labs({"a": [10, 100]}, {"a": [5, 60]})).iloc[0]
    assert (found["a"], found["b"], found["n"]) == ("exact", "host", 2)
    assert [found["ratio"], found["processor"]] == pytest.approx([math.sqrt(0.5 * 0.6)] * 2)
    assert labs.clock_ratios(frame({"a": [1, 2]})).empty
    turned = labs.clock_ratios(two_labs({"a": [10, 100]}, {"a": [5, 60]}), exact={"host"}).iloc[0]
    assert (turned["a"], turned["b"], turned["ratio"]) == ("host", "exact", pytest.approx(1 / found["ratio"]))


def test_agreement_of_orders_by_hand():
    exact = {"a": [10, 10, 11], "b": [20, 21, 20], "c": [30, 31, 30], "d": [40, 41, 40]}
    host = {"a": [1, 1.1, 1], "c": [2, 2.1, 2], "b": [3, 3.1, 3.6], "d": [4, 1, 16]}
    rows = two_labs(exact, host)
    found = labs.orders(cells.statistics(rows), compare.pairwise(rows)).iloc[0]
    # b and c are the other way round: five of six pairs have the same order.
    assert (found["labels"], found["pairs"], found["tau"]) == (4, 6, pytest.approx(4 / 6))
    assert found["p"] == pytest.approx(reference.kendalltau([1, 2, 3, 4], [1, 3, 2, 4], method="exact").pvalue)
    # The host does not tell d from anything, so three pairs are told apart by both labs, two of them alike.
    assert (found["told"], found["same"]) == (3, 2)
    # Holm's correction: the host's three p below 5 % are 0.0005, 0.0041 and, for b and c, 0.0185, times 6, 5 and 4.
    assert (found["firm"], found["firm_same"]) == (2, 2)
    means = {lab: [reference.gmean(values) for values in times.values()] for lab, times in (("x", exact), ("h", host))}
    apart = [math.log(x / h) for x, h in zip(means["x"], [means["h"][i] for i in (0, 2, 1, 3)], strict=True)]
    squares = [(one - other) ** 2 for place, one in enumerate(apart) for other in apart[:place]]
    assert found["error"] == pytest.approx(math.exp(math.sqrt(sum(squares) / 6)))
    assert labs.orders(*judged(two_labs({"a": [1], "b": [2]}, {"a": [1], "b": [2]}))[:2]).empty


def test_agreement_is_pooled_over_operations():
    keys = {"a": "exact", "b": "host", "stack": "single", "profile": "ram", "labels": 5, "pairs": 10}
    table = pd.DataFrame(
        [
            keys | {"tau": tau, "told": 8, "same": 6, "firm": 5, "firm_same": 4, "error": 2.0}
            for tau in (1.0, 0.8, 0.6, 0.8)
        ]
    )
    clocks = pd.DataFrame([keys | {"processor": ratio} for ratio in (0.25, 1.0, math.nan)])
    found = labs.agreement(table, clocks).iloc[0]
    assert (found["pace"], found["slowest"], found["fastest"]) == pytest.approx((0.5, 1.0, 0.25))
    assert found["spread"] == pytest.approx(math.exp(math.log(2) * math.sqrt(2)))
    assert found["error"] == pytest.approx(2)
    assert (found["tau"], found["operations"], found["told"], found["same"]) == (pytest.approx(0.8), 4, 32, 24)
    assert (found["firm"], found["firm_same"]) == (20, 16)
    assert 0.6 <= found["low"] < 0.8 < found["high"] <= 1
    assert math.isnan(labs.agreement(table.iloc[:1], clocks).iloc[0]["low"])


def test_cubes_are_pivots_of_all_groups(monkeypatch):
    monkeypatch.setattr(cells, "LARGE", 40)  # so that groups of one shape are in several cubes
    rng = np.random.default_rng(3)
    picked = {"k": rng.integers(0, 30, 400), "r": rng.integers(1, 5, 400), "c": rng.choice(list("abcd"), 400)}
    rows = pd.DataFrame(picked)
    rows = rows.drop_duplicates(ignore_index=True).assign(v=lambda rows: np.arange(len(rows)) + 0.5)
    places, number = cells.groups(rows, ["k"])
    seen = []
    for cube in cells.cubes(rows, number, "r", "c", rows["v"].to_numpy()):
        for place, names, values in zip(cube.group, cube.names, cube.values[0], strict=True):
            wide = rows[rows["k"] == places["k"][place]].pivot(index="r", columns="c", values="v")
            assert list(names) == list(wide.columns)
            np.testing.assert_array_equal(values, wide.to_numpy())
            seen.append(place)
    assert sorted(seen) == list(range(len(places)))
