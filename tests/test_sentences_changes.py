"""What changed against another run: the words of each branch."""

from types import SimpleNamespace

import pandas as pd
from reprofs.report.sentences import changes
from reprofs.stats.compare import TOTAL
from reprofs.stats.runs import Comparison, Difference, Equality


def ratios(*rows: tuple) -> pd.DataFrame:
    """operation, label, ratio, verdict, n"""
    found = pd.DataFrame(rows, columns=["operation", "label", "ratio", "verdict", "n"])
    return found.assign(phase=found["operation"])


def test_verdicts():
    found = ratios(
        ("Create", "ext4", 1.03, "slower", 4),
        ("Stat", "ext4", 2.5, "slower", 4),
        ("Read", "xfs", 0.9, "faster", 3),
        ("Remove", "xfs", 1.0, "equal", 4),
        (TOTAL, "xfs", 1.5, "slower", 4),
    )
    assert changes.verdicts(found, "results/quick") == (
        "Compared with `results/quick`, of 4 operations 2 are slower (most: “Stat” on ext4, 2.50 times as long),"
        " 1 is faster (most: “Read” on xfs, 10 % less time) and 1 is equal."
    )
    assert changes.verdicts(found[3:], "a") == "Compared with `a`, of 1 operation 1 is equal."
    assert changes.how_sure(found, 0.02).startswith(
        "How sure: 3 repetitions, paired by seed; a difference counts from 2 %"
    )


def test_what_differs():
    one, two, three = (Difference(what, "key", ["a", "b"]) for what in ("kernel", "package", "package"))
    assert changes.differ([one, two, three]) == "The two runs differ in kernel and package (2 keys)."
    assert changes.differ([]) == "Nothing that the two runs say of lab, machine and plan differs."
    assert changes.short("a" * 64) == "a" * 12 and changes.short("") == "–"  # noqa: RUF001
    assert len(changes.short("words " * 20)) <= 41


def test_equal_numbers():
    first = {"trial": "r1-x", "phase": "create", "cache": "warm", "columns": ["wall_ns"]}
    exact = [Equality("exact", 12, 8, first), Equality("exact-2", 1, 1, None)]
    found = Comparison("a", exact, [("r2-y", "ok", "failed")], pd.DataFrame())
    assert list(changes.equal(found)) == [
        "In exact 8 of 12 trials have the same numbers; the first phase that differs is create (warm) of r1-x.",
        "In exact-2 all numbers of 1 trial are equal, to the last digit.",
        "r2-y ended ok there and failed here.",
    ]


def test_no_other_run():
    study = SimpleNamespace(plan=SimpleNamespace(study=SimpleNamespace(name="quick")))
    assert changes.none(study).endswith("run `make report STUDY=quick BESIDE=RUN`.")
