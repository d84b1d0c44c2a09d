"""Sentences on stacks of devices and on how file systems were made."""

import pandas as pd
import pytest
from reprofs.report.sentences import formats, stacks
from reprofs.report.words import longer

COLUMNS = ["workload", "reference", "stack", "label", "ratio", "low", "high"]


def rows(*found) -> pd.DataFrame:
    return pd.DataFrame([("tree", *row) for row in found], columns=COLUMNS)


@pytest.mark.parametrize(
    ("ratio", "words"),
    [
        ((1.18, 1.17, 1.19), "18 % longer"),
        ((2.4,), "2.40 times as long"),
        ((0.88, 0.87, 0.89), "12 % less time"),
        ((0.043,), "96 % less time"),
        ((1.01, 0.99, 1.03), "equally long"),
    ],
)
def test_a_ratio_of_times_is_a_percentage_or_a_factor(ratio, words):
    assert longer(*ratio) == words


def test_the_ends_of_what_stacks_change():
    one = rows(("raid5", "lost", "ext4", 1.18, 1.17, 1.19), ("raid5", "lost", "xfs", 1.22, 1.21, 1.23))
    assert stacks.costs(one) == (
        "Compared with raid5, the workload tree takes 18 % longer (ext4) to 22 % longer (xfs) on lost."
    )
    alone = rows(("raid5", "lost", "ext4", 1.18, float("nan"), float("nan")))
    assert stacks.costs(alone) == "Compared with raid5, the workload tree takes 18 % longer (ext4) on lost."
    several = rows(("single", "raid0", "xfs", 0.9, 0.89, 0.91), ("single", "raid5", "xfs", 2.5, 2.4, 2.6))
    several = pd.concat([several, rows(("single", "raid6", "xfs", 4.0, 0.5, 9.0))])  # its interval holds 1
    assert stacks.costs(several) == (
        "Compared with single, the workload tree takes 10 % less time (xfs on raid0)"
        " to 2.50 times as long (xfs on raid5). 1 of 3 totals does not differ significantly."
    )
    none = several[several["stack"] == "raid6"]
    assert stacks.costs(none) == "Compared with single, no total of the workload tree on raid6 differs significantly."
    assert "no total of the workload tree on b differs" in stacks.costs(rows(("a", "b", "ext4", 1.0, 0.9, 1.1)))


def test_the_operation_that_changes_most():
    found = rows(("raid5", "lost", "ext4", 1.1, 1.05, 1.2), ("raid5", "lost", "xfs", 0.25, 0.2, 0.3))
    found = found.assign(operation=["Read", "Write"])
    assert stacks.most(found) == "The largest change: “Write” takes 75 % less time (xfs on lost)."
    assert stacks.most(found.assign(low=0.1, high=2)) == "No single operation has a significant difference."


def test_who_is_fastest_on_how_many_stacks():
    found = pd.DataFrame({"verdict": ["fastest", "fastest", "undecided"], "best": ["xfs", "xfs", "ext4"]})
    assert stacks.fastest(found) == "xfs has the significantly shortest total on 2 of 3 stacks; 1 is undecided."
    both = pd.DataFrame({"verdict": ["fastest"] * 3, "best": ["ext4", "xfs", "xfs"]})
    assert stacks.fastest(both) == "xfs has the significantly shortest total on 2 of 3 stacks and ext4 on 1."
    assert stacks.fastest(found.iloc[2:]) == (
        "No file system has a significantly shorter total than all others on any of 1 stack."
    )


def test_throughput_by_disks_and_rebuilds():
    found = pd.DataFrame({"label": "xfs", "family": "raid0", "disks": [24, 3], "mb_s": [2520.4, 441.2]})
    assert stacks.throughput(found) == "xfs on raid0 reaches 441 MB/s with 3 disks and 2,520 MB/s with 24."
    found = pd.DataFrame({"label": ["xfs", "ext4"], "stack": "r5", "geometric_mean_ns": [5.02e9, 4.93e9]})
    begin = "While the workload ran, the array was whole again after"
    assert stacks.rebuilt(found) == f"{begin} 4.93 s (ext4) to 5.02 s (xfs)."
    assert stacks.rebuilt(found.iloc[:1]) == f"{begin} 5.02 s (xfs)."
    assert stacks.rebuilt(found.assign(stack=["a", "b"])) == f"{begin} 4.93 s (ext4 on b) to 5.02 s (xfs on a)."
    assert stacks.rebuilt(found[:0]) == ""


def test_what_is_not_durable_and_how_sure_it_is():
    assert stacks.not_durable([]) == ""
    assert stacks.not_durable(["a", "b"]) == "fsync is not durable on a and b when the power fails."
    assert stacks.sure(1, "lab exact") == "How sure: one repetition has no interval; lab exact."
    assert stacks.sure(6, "lab exact") == (
        "How sure: 6 repetitions, ratios paired by repetition, 95 % intervals; lab exact."
    )


def test_file_systems_that_were_not_made_alike():
    assert formats.not_alike([], "on all stacks") == ""
    assert formats.not_alike(["xfs (rmapbt)"], "on all stacks") == (
        "mkfs did not make the same file system on all stacks: xfs (rmapbt). Times may differ for that reason."
    )
