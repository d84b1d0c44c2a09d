"""Sentences on the space that files take."""

import pandas as pd
from reprofs.report.sentences import space

MIB = 2.0**20


def test_who_needs_the_least():
    taken = pd.Series({"f2fs": 15 * MIB, "ext4": 12 * MIB})
    begin = "After “Create” ext4 has taken the least space, 12 MiB, and f2fs the most,"
    assert space.least(taken, "Create") == f"{begin} 25 % more."
    assert space.least(taken.replace(15 * MIB, 30 * MIB), "Create") == f"{begin} 2.50 times as much."
    assert space.least(taken[:1], "Create") == "" and space.coarse([]) == ""
    assert space.coarse(["nilfs2"]) == "Not compared, because the steps in which they count are too large: nilfs2."


def test_how_sure_and_what_compression_saves():
    assert (
        space.sure(6, 0.0028)
        == "How sure of the space: means of 6 repetitions, whose standard deviation is at most 0.28 %."
    )
    assert space.sure(1, float("nan")) == "How sure of the space: one repetition, so its spread is not known."
    found = pd.DataFrame({"label": ["btrfs+zstd"], "reference": ["btrfs"], "ratio": [0.25]})
    told = "Of content of which a compressor saves 80 %, btrfs+zstd takes 25.0 % of the space of btrfs."
    assert space.saved(found, 80) == told and space.saved(found[:0], 80) == ""


def test_what_is_given_back():
    held = pd.Series({"xfs": 80 * 1024.0, "nilfs2": 16 * MIB, "ext4": 0.0})
    assert space.kept(held, "Remove") == "Still taken after “Remove”: 16 MiB by nilfs2 and 80 KiB by xfs."
    assert space.kept(held[2:], "Remove", "ssd") == "After “Remove” all space is free again (ssd)."
