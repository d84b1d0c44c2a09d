"""Recorded programs: the words of each branch."""

import pandas as pd
from reprofs.plan.recording import Recording
from reprofs.report.sentences import recorded

HEAD = {"format": 1, "title": "A program", "filesystem": "ext4", "kernel": "6.12", "threads": 3, "before": 1}
HEAD |= {"calls": 15, "after": 2, "names": 3, "bytes": 100, "handles": 2}


def winners(*rows: tuple) -> pd.DataFrame:
    """best, verdict, level, runner_up, ratio"""
    found = pd.DataFrame(rows, columns=["best", "verdict", "level", "runner_up", "ratio"])
    return found.assign(cache="cold", geometric_mean_ns=18e6, n=4)


FASTEST = ("xfs", "fastest", (), "ext4", 1.94)
LEVEL = ("xfs", "equivalent", ("ext4",), "ext4", 1.01)
OPEN = ("xfs", "undecided", ("ext4",), "ext4", float("nan"))
ALONE = ("xfs", "alone", (), None, float("nan"))


def test_who_is_fastest_in_how_many_replays():
    found = winners(FASTEST, FASTEST, ("f2fs", *FASTEST[1:]), LEVEL, ALONE)
    assert recorded.summary(found) == (
        "**xfs is fastest in 2 of 4 replays**, f2fs in 1; in 1 no file system is significantly fastest."
    )
    assert recorded.summary(winners(FASTEST)) == "**xfs is fastest in 1 of 1 replay**."
    assert recorded.summary(winners(LEVEL)) == "In none of 1 replay is one file system significantly fastest."
    assert recorded.summary(winners(ALONE)) == recorded.how_sure(winners(ALONE)) == ""
    assert recorded.how_sure(found) == "How sure: 4 repetitions, Holm-corrected over 4 replays."


def test_who_is_fastest_in_a_replay():
    told = [recorded.fastest(next(winners(row).itertuples()), "A program") for row in (FASTEST, LEVEL, OPEN, ALONE)]
    assert told == [
        "A program, cold: **xfs is fastest** with 18.0 ms; the next, ext4, takes 94 % longer.",
        "A program, cold: **xfs and ext4** are equally fast (xfs: 18.0 ms); the next, ext4, takes 1.0 % longer.",
        "A program, cold: **xfs and ext4** are not significantly different (xfs: 18.0 ms).",
        "A program, cold: only xfs completed it, in 18.0 ms.",
    ]
    far = next(winners((*FASTEST[:4], 2.5)).itertuples())
    assert recorded.fastest(far, "A").endswith("the next, ext4, takes 2.50 times as long.")


def test_why_file_systems_differ():
    more = pd.Series({"open": 4.0, "fsync": 20.1, "read": -2.0, "stat": 0.1})
    assert recorded.why(more, "A program, cold", "ext4", "xfs") == (
        "A program, cold: ext4 takes 22.2 ms longer than xfs, most in fsync (+20.1 ms) and open (+4.00 ms)."
    )
    assert recorded.why(more * 0, "A", "xfs", "xfs") == ""


def test_what_is_replayed_and_what_a_reader_must_know():
    head = Recording(**HEAD, left_out={"ioctl": 4, "fcntl": 1}, unchecked=2, ended=True)
    assert recorded.coverage(head, "Git") == (
        "Git: 75.0 % of its calls below the recorded folders are replayed; left out: ioctl 4 and fcntl 1."
    )
    assert recorded.coverage(Recording(**HEAD), "Git") == "Git: all calls below the recorded folders are replayed."
    told = list(recorded.caveats(head, "Git", True, True))
    assert len(told) == 3 and "results of 2 calls differed" in told[0] and "ended when its time was over" in told[1]
    assert told[2].endswith("Each file system lists in another order, which decides on a rotating disk.")
    (told,) = recorded.caveats(Recording(**HEAD, follows_listings=True), "Git", True, False)
    assert told.endswith("such short reads depend on the moment at which they begin.")
    (told,) = recorded.caveats(Recording(**HEAD), "Git", False, True)
    assert "if the disks rotate" in told and not list(recorded.caveats(Recording(**HEAD), "Git", False, False))
    assert recorded.at_once("Git").startswith("Git makes its calls several times at once")
