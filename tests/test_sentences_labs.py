"""Labs and models: the words of each branch, how differences carry over, and which pairs are of one family."""

import math
from types import SimpleNamespace

import make
import numpy as np
import pandas as pd
import pytest
import run
from reprofs.report.sentences import labs
from reprofs.stats.labs import carried, distance, fits, hand_over, kind

PAIR = {"stack": "single", "profile": "ram", "workload": "w", "scale": "smoke", "phase": "stat", "cache": "warm"}


def pairwise(*rows: tuple) -> pd.DataFrame:
    """Rows of `compare.pairwise`: lab, a, b, ratio, low, high."""
    found = pd.DataFrame(rows, columns=["lab", "a", "b", "ratio", "low", "high"])
    return found.assign(contenders=True, **PAIR)


def test_a_difference_is_carried_over_contradicted_or_open():
    found = carried(
        pairwise(
            ("exact", "ext4", "xfs", 0.5, 0.4, 0.6),  # xfs takes longer, on the host as well
            ("host", "ext4", "xfs", 0.8, 0.7, 0.9),
            ("exact", "ext4", "f2fs", 1.05, 1.04, 1.06),
            ("host", "ext4", "f2fs", 0.9, 0.8, 0.99),
            ("exact", "f2fs", "xfs", 1.2, 1.1, 1.3),
            ("host", "f2fs", "xfs", 1.1, 0.9, 1.3),
            ("exact", "jfs", "xfs", 1.01, 0.99, 1.03),
            ("host", "jfs", "xfs", 1.5, 1.4, 1.6),
            ("exact", "jfs", "ext4", 1.5, 1.4, 1.6),  # which the host has not
        ),
        "exact",
        "host",
    )
    assert list(found["outcome"]) == ["same", "contradicted", "inconclusive", "no difference"]
    assert list(found["size"]) == ["above 50 %", "2 to 10 %", "10 to 50 %", "below 2 %"]
    first = found.iloc[0]
    assert (first["a"], first["b"], first["ratio"], first["other_ratio"]) == ("xfs", "ext4", 2.0, 1.25)
    np.testing.assert_allclose(
        first[["low", "high", "other_low", "other_high"]].astype(float), [1 / 0.6, 2.5, 1 / 0.9, 1 / 0.7]
    )


def test_a_driver_counts_once():
    """ext2 and ext4 by one package of tools; the study names ext4 first, and Btrfs before its variant."""
    labels = {"ext2": "ext2", "ext4+a": "ext4", "xfs": "xfs", "btrfs+none": "btrfs", "btrfs+zstd": "btrfs"}
    labels |= {"tmpfs": "tmpfs"}
    tools = {"ext2": ["e2fsprogs"], "ext4": ["e2fsprogs"], "xfs": ["xfsprogs"], "btrfs": ["btrfs-progs"], "tmpfs": []}
    named = SimpleNamespace(filesystems=["ext4+a", "ext2", "xfs", "btrfs", "btrfs+zstd", "tmpfs"])
    plan = SimpleNamespace(
        study=named, filesystems={name: SimpleNamespace(packages=packages) for name, packages in tools.items()}
    )
    trials = pd.DataFrame({"label": [*labels], "filesystem": labels.values(), "status": "ok", "role": "contender"})
    trials.loc[trials["label"] == "tmpfs", "role"] = "ceiling"
    study = SimpleNamespace(plan=plan, trials=trials)
    names = [("ext4+a", "xfs"), ("ext2", "xfs"), ("xfs", "btrfs+none"), ("xfs", "btrfs+zstd")]
    names += [("btrfs+none", "btrfs+zstd"), ("ext2", "ext4+a"), ("ext4+a", "tmpfs")]
    pairs = pd.DataFrame(names, columns=["a", "b"])
    told = ["two drivers", "their variants", "two drivers", "their variants"]
    assert list(kind(study, pairs)) == [*told, "one driver", "one driver", "with a baseline"]


@pytest.mark.parametrize("rounds", [2, 30])
def test_reads_that_are_handed_over_explain_the_second_lab(rounds):
    """Its times are those of the first, and 30 µs a read; repetitions differ by a factor that all share.

    Of thirty repetitions there are 77 million halves: some are drawn.
    """
    reads = {"ext4": 0, "xfs": 100, "btrfs": 1000, "f2fs": 300}
    same = {"workload": "w", "scale": "s", "phase": "read", "cache": "cold", "status": "ok", "part": None}
    phases = pd.DataFrame(
        same
        | {"lab": lab, "round": number, "label": label, "device_reads": count if lab == "host" else 0}
        | {"wall_ns": number * (1e7 * (place + 1) + (30_000 * count if lab == "host" else 0))}
        for lab in ("exact", "host")
        for number in range(1, rounds + 1)
        for place, (label, count) in enumerate(reads.items())
    )
    cost, found = fits(phases, "exact", "host")
    assert cost == pytest.approx(30_000 * math.factorial(rounds) ** (1 / rounds))
    plain, fitted, left_out, itself = found["rms"]
    assert plain > 1.2 and [fitted, left_out, itself] == pytest.approx([1, 1, 1])


def test_what_handing_over_a_read_costs_by_hand():
    index = pd.MultiIndex.from_product([["stat", "read"], ["cold"], list("abc")], names=["phase", "cache", "label"])
    exact = pd.Series([10.0, 20, 40, 30, 60, 90], index) * 1e6
    reads = pd.Series([0.0, 100, 1000, 500, 2000, 100], index)
    host = 0.7 * exact + 35_000 * reads
    pace, ns = hand_over(exact, host, reads)
    assert (pace, ns) == pytest.approx((0.7, 35_000))
    assert distance(pace * exact + ns * reads, host) == pytest.approx({"rms": 1, "median": 1, "pairs": 6})
    two = distance(pd.Series([2.0, 1], index[:2]), pd.Series([1.0, 1], index[:2]))  # a pair whose ratio is 2 in one
    assert two == pytest.approx({"rms": 2, "median": 2, "pairs": 1})
    assert distance(exact[:0], host[:0])["pairs"] == 0
    assert labs.handed_over(42_289, 1.3304, 1.1658, "host") == (
        "With 42 µs for handing over each read in host, ratios of file systems differ by a factor of 1.17 instead of"
        " 1.33."
    )
    assert labs.handed_over(-5, 1.3, 1.2, "host") == "No cost of handing over reads is found in host."


def rows(*outcomes: tuple) -> pd.DataFrame:
    return pd.DataFrame(outcomes, columns=["outcome", "ratio"])


def test_how_many_are_carried_over():
    found = rows(("same", 2.0), ("same", 1.9), ("contradicted", 1.3), ("inconclusive", 1.1))
    assert labs.carried(found, "exact", "host") == (
        "Of 4 differences in exact, host has 2 in the same direction, contradicts 1 and is inconclusive on 1."
    )
    assert labs.carried(found[:0], "exact", "host") == "No two file systems differ significantly in exact."
    assert labs.advice(found, "host") == (
        "All 2 decided differences above 30 % are in the same direction; below, measure on your own machine."
    )
    assert labs.advice(found[:2], "host") == "All 2 that host decides are in the same direction."
    assert labs.advice(found[3:], "host") == "host decides none of them."
    assert labs.advice(rows(("contradicted", 2.5)), "host") == (
        "Even the largest one that host decides, a factor of 2.5, is contradicted."
    )


def test_bias_certainty_and_pace():
    assert labs.biased(pd.Series({"btrfs": 1.16, "xfs": 0.89}), "exact", "host") == (
        "Relative to the others and to host, in exact btrfs takes 16 % longer and xfs 11 % less time."
    )
    assert labs.biased(pd.Series({"btrfs": 1.0}), "exact", "host") == ""
    assert labs.sure([6, 6], 133, 131) == (
        "How sure: 6 repetitions in each lab, on one machine; of 133 pairs that differ in both after Holm's correction,"
        " 131 agree in direction."
    )
    assert labs.sure([6, 30], 133, 131).startswith("How sure: 6 and 30 repetitions, on one machine; of 133 pairs")
    assert labs.sure([1, 1], 0, 0, False) == (
        "How sure: 1 repetition in each lab; after Holm's correction no pair differs in both."
    )
    row = SimpleNamespace(a="exact", b="host", pace=0.72, fastest=0.48, slowest=1.32)
    assert labs.instruction(0.5, row).startswith(
        "One instruction takes 0.36 ns of CPU time in host (geometric mean; 0.24 to"
    )
    assert labs.pace(row).startswith("For 1 s of CPU time in exact, host needs 0.72 s (geometric mean; 0.48 to 1.3 by")


def modelled(*ratios: tuple) -> pd.DataFrame:
    found = pd.DataFrame(ratios, columns=["title", "where", "ratio", "compared"])
    return found.astype({"compared": object})


def test_models_are_verified():
    found = modelled(("Read", "hdd", 1.01, True), ("Write", "ssd", 0.96, True), ("Stream", "ssd", 2.0, False))
    good = found.iloc[[0, 2]]
    assert labs.verified(good, "device model", 0.03) == (
        "Verified: 1 of 1 comparison of a device model with its equations are within 3 %."
    )
    assert labs.verified(found, "network", 0.03) == (
        "Not verified: only 1 of 2 comparisons of a network with its equations are within 3 %."
    )
    assert "limits every job" in labs.verified(found[2:], "network", 0.03)
    assert labs.outside(found, 0.03) == "Outside: “Write” on ssd (0.960 times)." and labs.outside(good, 0.03) == ""
    assert labs.farthest(found) == "The farthest is “Write” on ssd, 0.960 times what the model says."
    assert labs.farthest(found[2:]) == "" and labs.left_out(found[:2]) == ""
    assert labs.left_out(found).startswith("1 job is not compared")


@pytest.mark.parametrize("labs_", [["exact", "host"], ["exact"]])
def test_the_notebook_on_two_labs_and_on_one(tmp_path, labs_):
    make.make(tmp_path, rounds=2, systems=["ext4", "xfs", "tmpfs"], labs=labs_, workloads=["metadata"], failures={})
    run.build(tmp_path)
    shown = run.text(run.execute(tmp_path, ["labs"]) / "labs.ipynb")
    assert ("How sure: 2 repetitions in each lab" in shown) == (len(labs_) > 1) and "Verified" not in shown
