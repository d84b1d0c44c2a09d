"""What an administrator waits for: the most files, what two laws expect of more, a larger device; the words."""

import dataclasses

import make
import numpy as np
import pandas as pd
import pytest
import run
from helpers import plan_with
from reprofs.report import when
from reprofs.report.sentences import upkeep as words
from reprofs.stats import scaling, upkeep

SETTING = {"lab": "exact", "stack": "single", "where": "hdd"}


def waits(*rows: tuple, room_mib: int = 16384, profile: str = "hdd") -> pd.DataFrame:
    """Rows of `upkeep.waits`: operation, label, files, seconds."""
    frame = pd.DataFrame(rows, columns=["operation", "label", "files", "seconds"])
    return frame.assign(**SETTING | {"profile": profile, "where": profile}, room_mib=room_mib)


def test_two_laws_expect_more():
    """10 s and 1 s a thousand; time as the 1.5th power."""
    fixed = scaling.expected([1000, 2000], [11, 12], [4000]).iloc[0]
    assert fixed["high"] == pytest.approx(14) and fixed["low"] == pytest.approx(12 * 12 / 11)
    steep = scaling.expected([1, 2, 4], [1, 2**1.5, 8], [16, 64])
    assert list(steep["high"]) == [pytest.approx(64), pytest.approx(512)]
    assert steep["low"][0] == pytest.approx(8 + 12 * (8 - 2**1.5) / 2)
    falling = scaling.expected([1, 2], [5, 4], [100]).iloc[0]
    assert falling["low"] == falling["high"] == 4
    repeated = scaling.expected([1, 1, 2, 2], [1, 4, 4, 4], [4]).iloc[0]  # geometric means 2 and 4
    assert repeated["low"] == repeated["high"] == pytest.approx(8)
    with pytest.raises(ValueError):
        scaling.expected([1], [1], [2])


def test_the_most_files_of_each():
    found = upkeep.largest(waits(("Check", "xfs", 10, 1), ("Check", "xfs", 20, 2), ("Check", "xfs", 20, 4)))
    assert found[["files", "seconds", "n"]].to_numpy().tolist() == [[20, 3, 2]]


def test_the_largest_size_is_held_against_what_smaller_ones_expect():
    rows = [("Check", "xfs", 10, 1), ("Check", "xfs", 20, 2), ("Check", "xfs", 40, 8)]  # 4 is expected
    two = [("Check", "ext4", 10, 1), ("Check", "ext4", 20, 2)]
    one = [("Check", "jfs", 10, 1)]
    found = upkeep.beyond(waits(*rows, *two, *one), [80])
    assert list(found["label"]) == ["xfs", "ext4"]
    assert list(found["off"]) == [pytest.approx(1), pytest.approx(np.nan, nan_ok=True)]
    assert list(found.loc[1, ["low_80", "high_80"]]) == [pytest.approx(8)] * 2
    told = "The sizes below the largest expect its time within 25 % in 0 of 1 case;"
    assert words.held(found) == f"{told} most off is “Check” on xfs (hdd), 100 % longer."
    assert words.held(found[1:]) == "How far the laws hold needs three sizes."
    assert upkeep.beyond(waits(*one), [80]).empty


def test_a_larger_device():
    rows = [("Check", "ext4", 10, 2), ("Check", "xfs", 10, 4)]
    large = waits(("Check", "ext4", 10, 9), ("Check", "xfs", 10, 4.1), room_mib=131072)
    found = upkeep.rooms(pd.concat([waits(*rows, ("Check", "jfs", 10, 1)), large]))
    assert dict(zip(found["label"], found["ratio"], strict=True)) == {"ext4": 4.5, "xfs": pytest.approx(1.025)}
    (told,) = words.devices(found)
    assert told == (
        "**131,072 MiB instead of 16,384 MiB**\\: 1 of 2 times is longer."
        " The most: “Check” on ext4 (hdd) takes 4.50 times as long."
    )
    assert words.devices(found[found["ratio"] < 2])[0].endswith("0 of 1 time are longer.")


def test_waits_are_told_as_people_wait():
    assert [words.wait(s) for s in (0.057, 12, 162, 119, 6840, 540000)] == [
        *("57 ms", "12 s", "2.7 min", "119 s", "114 min", "6.2 days")
    ]
    assert words.between(12.2, 12.3) == "12 s" and words.between(59, 150) == "59 s to 2.5 min"
    rows = [("Mount", "zfs", 20, 1.0), ("Mount", "jfs", 20, 0.057), ("Check", "jfs", 20, 3.0)]
    told = words.longest(upkeep.largest(waits(*rows)).astype({"operation": "category"}))
    assert told == ["**20 files on hdd**\\: “Mount” takes up to 1.0 s (zfs)."]  # of one file system only the table
    told = words.longest(upkeep.largest(waits(rows[2])).astype({"operation": "category"}))
    assert told == ["**20 files on hdd**\\: “Check” takes 3.0 s (jfs)."]


def test_the_waits_of_a_study(tmp_path):
    make.make(tmp_path, rounds=2, systems=["ext4", "xfs"], workloads=["metadata"], failures={})
    study = run.build(tmp_path, results=False)
    assert upkeep.waits(study).empty and not when.kept_up(study.plan)
    plan = plan_with(study.plan, phase=0, upkeep="mount")
    found = upkeep.waits(dataclasses.replace(study, plan=plan))
    assert when.kept_up(plan) and when.only_kept_up(plan)
    assert set(found["where"]) == {""} and set(found["load"]) == {"metadata"} and set(found["files"]) == {2000}
    assert found["operation"].cat.categories[0] == plan.workloads["metadata"].phases[0].title
    assert len(found) == len(study.times)
