"""Kernels and instructions: the words of each branch."""

from types import SimpleNamespace

import pandas as pd
from reprofs.report.sentences import kernels
from reprofs.report.words import longer
from reprofs.stats.compare import TOTAL


def steps(*rows: tuple) -> pd.DataFrame:
    """operation, label, ratio, verdict"""
    found = pd.DataFrame(rows, columns=["operation", "label", "ratio", "verdict"])
    return found.assign(phase=found["operation"], place="debian-6.12", since="debian-6.1", n=3)


def test_what_a_kernel_changed():
    found = steps(
        ("Rename", "xfs", 2.41, "slower"),
        ("Create", "xfs", 1.1, "slower"),
        ("Create", "f2fs", 0.65, "faster"),
        ("Stat", "f2fs", 1.01, "undecided"),
        (TOTAL, "xfs", 3.0, "slower"),
    )
    assert kernels.changed(found) == (
        "debian-6.12 makes 2 of 4 operations slower than debian-6.1 (most: “Rename” on xfs, 2.41 times as long)."
        " It makes 1 faster (most: “Create” on f2fs, 35 % less time)."
    )
    assert kernels.changed(found[3:]) == "debian-6.12 makes 0 of 1 operation slower than debian-6.1. It makes 0 faster."
    assert kernels.changed(found[4:]) == ""
    assert kernels.how_sure(found, 0.02).startswith("How sure: 3 repetitions; a change counts from 2 % on")
    assert "no noise floor" in kernels.how_sure(found.assign(n=1), 0.02)


def test_waiting_that_is_not_known():
    assert kernels.unknown_waiting(5, 5) == ""
    assert kernels.unknown_waiting(3, 5).startswith("How much of 2 of 5 differences is waiting is not known")
    assert kernels.unknown_waiting(0, 5).startswith("How much of any difference is waiting is not known")


def difference(ratio: float, instructions: float, more: float, **terms: float) -> SimpleNamespace:
    return SimpleNamespace(base="ext4", other="xfs", ratio=ratio, instructions=instructions, more=more, terms=terms)


def test_why_an_operation_takes_longer():
    slow = difference(2.75, 1.75, 7750.0, waiting=4000.0, allocator=500.0, journal=-500.0, VFS=1.0)
    assert kernels.takes("Create", slow) == "Create: xfs takes 2.75 times as long as ext4, with 75 % more instructions."
    assert kernels.why(slow) == (
        "Of +7.75 µs an item the largest parts are waiting +4.00 µs, allocator (state) +500 ns and journal −500 ns."  # noqa: RUF001
    )
    fast = difference(0.9, 0.5, -100.0)
    assert kernels.takes("Stat", fast) == "Stat: xfs takes 10 % less time than ext4, with 50 % fewer instructions."
    assert kernels.why(fast) == ""
    assert kernels.takes("Stat", difference(1.1, 2.5, 1.0)).endswith(
        "10 % longer than ext4, with 2.50 times the instructions."
    )


def test_numbers_and_a_missing_profile():
    assert kernels.missing("jfs", "No space left.") == "jfs has no profile, because its trial failed: No space left."
    assert kernels.missing("jfs", "") == ""
    assert [kernels.instructions(one) for one in (0, 1.04, 2000)] == ["0", "1.0", "2,000"]
    assert [kernels.signed(one, kernels.instructions) for one in (3000, -2.5, 0.01)] == ["+3,000", "−2.5", "0.0"]  # noqa: RUF001
    assert kernels.more(-1500) == "−1.50 µs"  # noqa: RUF001
    assert [longer(one) for one in (1.08, 2.4, 0.65)] == ["8.0 % longer", "2.40 times as long", "35 % less time"]
