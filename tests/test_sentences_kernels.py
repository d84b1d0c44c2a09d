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
    xfs, f2fs, totals = found[found.label == "xfs"], found[found.label == "f2fs"], found[4:]
    assert kernels.changed(found) == (
        "**xfs changed most**: debian-6.12 changes 2 of 2 operations significantly; “Rename” takes 2.41 times as long"
        " as on debian-6.1."
    )
    assert kernels.changed(f2fs).endswith(
        "1 of 2 operations significantly; “Create” takes 35 % less time than on debian-6.1."
    )
    other = xfs.assign(place="debian-7.3", ratio=1.03)  # the kernel that changed most is named, not the last one
    assert "debian-6.12 changes 2 of 2" in kernels.changed(pd.concat([xfs, other]))
    assert kernels.changed(f2fs[1:]) == "No kernel changes an operation significantly."
    assert kernels.changed(totals) == ""
    assert kernels.how_sure(found, 0.02).startswith("How sure: 3 repetitions; a change counts from 2 % on")
    uneven = found.assign(n=[5, *[6] * (len(found) - 1)])
    assert kernels.how_sure(uneven, 0.02).startswith("How sure: 5 to 6 repetitions;")
    assert "no noise floor" in kernels.how_sure(found.assign(n=1), 0.02)


def test_waiting_that_is_not_known():
    assert kernels.unknown_waiting(5, 5) == ""
    assert kernels.unknown_waiting(3, 5).startswith("How much of 2 of 5 differences is waiting is not known")
    assert kernels.unknown_waiting(0, 5).startswith("How much of any difference is waiting is not known")


def test_that_nothing_waits_is_said_where_it_is_known():
    still = {"items": 10, "wall_ns": 1000, "waiting_ns": 99, "waits": []}
    assert kernels.none_wait([still]) == "None of these operations waits for a tenth of its time."
    unknown = {key: value for key, value in still.items() if key != "waits"}
    for phases in ([], [still, still | {"waiting_ns": 100}], [still, unknown]):
        assert kernels.none_wait(phases) == ""


def difference(ratio: float, instructions: float, more: float, **terms: float) -> SimpleNamespace:
    return SimpleNamespace(base="ext4", other="xfs", ratio=ratio, instructions=instructions, more=more, terms=terms)


def test_why_an_operation_takes_longer():
    slow = difference(2.75, 1.75, 7750.0, waiting=4000.0, allocator=500.0, journal=-500.0, VFS=1.0)
    assert kernels.takes("Create", slow) == "Create: xfs takes 2.75 times as long as ext4, with 75 % more instructions."
    told = kernels.row("Create", slow)
    assert (told["of"], told["more (µs)"], told["largest part"]) == ("xfs", 7.75, "waiting +4.00 µs")
    assert kernels.why(slow) == (
        "The difference is +7.75 µs an item; its largest parts are waiting +4.00 µs,"
        " allocator (state) +500 ns and journal −500 ns."  # noqa: RUF001
    )
    fast = difference(0.9, 0.5, -100.0)
    assert kernels.takes("Stat", fast) == "Stat: xfs takes 10 % less time than ext4, with 50 % fewer instructions."
    assert kernels.why(fast) == ""
    assert kernels.takes("Stat", difference(1.1, 2.5, 1.0)).endswith(
        "10 % longer than ext4, with 2.50 times the instructions."
    )


def test_the_code_in_which_a_difference_is():
    found = pd.DataFrame(
        {"more": [19400.0, 11100.0, 5990.0, 10.0]}, ["xfs_rename_[xfs]", "a_[xfs]", "b_[xfs]", "c_[xfs]"]
    )
    assert kernels.where(found).replace("\\", "") == (
        "In the code: `xfs_rename` +19.4 µs, `a` +11.1 µs, `b` +5.99 µs (with what they call; one may call another)."
    )
    assert kernels.where(found[:1]).replace("\\", "") == "In the code: `xfs_rename` +19.4 µs (with what it calls)."
    assert kernels.where(found[:0]) == ""


def test_numbers_and_a_missing_profile():
    assert kernels.missing("jfs", "No space left.") == "jfs has no profile, because its trial failed: No space left."
    assert kernels.missing("jfs", "") == ""
    assert [kernels.instructions(one) for one in (0, 1.04, 2000)] == ["0", "1.0", "2,000"]
    assert [kernels.signed(one, kernels.instructions) for one in (3000, -2.5, 0.01)] == ["+3,000", "−2.5", "0.0"]  # noqa: RUF001
    assert kernels.more(-1500) == "−1.50 µs"  # noqa: RUF001
    assert [longer(one) for one in (1.08, 2.4, 0.65)] == ["8.0 % longer", "2.40 times as long", "35 % less time"]


def test_one_pair_of_kernels_is_in_the_caption_and_several_are_not():
    assert kernels.code_caption(["a → b", "a → b"]).startswith("Kernels a → b: the file system's functions")
    assert kernels.code_caption(["a → b", "b → c"]).startswith("The file system's functions")
