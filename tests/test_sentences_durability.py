"""Sentences on crash tests and failover, and what no failure still allows."""

import pandas as pd
import pytest
from reprofs.report.sentences import durability
from reprofs.stats.durability import unseen


def test_no_failure_in_a_few_tests_allows_many():
    assert [unseen(number) for number in (0, 1, 6, 60)] == pytest.approx(
        [1, 0.95, 1 - 0.05 ** (1 / 6), 0.0487], abs=1e-4
    )
    assert durability.sure(6, unseen(6), "crash", "lab exact") == (
        "How sure: no loss in 6 crashes still allows one in up to 39.3 % of such crashes (one-sided 95 % bound);"
        " lab exact."
    )


def test_who_lost_nothing_and_who_did():
    begin = "Every file whose fsync had returned was whole afterwards on"
    assert durability.whole(["ext4", "xfs"], 3304, 12, "crash") == f"{begin} ext4 and xfs: 3,304 files in 12 crashes."
    assert durability.whole(["xfs"], 1, 1, "injected fault") == f"{begin} xfs: 1 file in 1 injected fault."
    assert durability.whole([], 0, 0, "crash") == ""
    found = pd.DataFrame({"durable": [6000], "broken": [6000], "tests": [6], "failed": [5]}, index=["jfs"])
    assert durability.broken(found, "injected fault") == (
        "Not durable: jfs lost or damaged 6,000 of 6,000 files (in 5 of 6 injected faults)."
    )
    assert durability.broken(found[:0], "crash") == ""
    assert durability.untested(["nilfs2"]) == "Not shown by these tests: nilfs2." and durability.untested([]) == ""


def test_recovery_and_what_is_left():
    begin = "The mount after the crash took"
    times = pd.Series({"xfs": 2340.0, "udf": 13.1, "jfs": None})
    assert durability.recovery(times, "device ssd") == f"{begin} 13.1 ms (udf) to 2.34 s (xfs) on average, device ssd."
    assert durability.recovery(times[:1]) == f"{begin} 2.34 s (xfs) on average." and not durability.recovery(times[2:])
    shares = pd.Series({"xfs": 0.0, "nilfs2": 0.892})
    assert durability.left(shares) == "Without fsync 0 % (xfs) to 89 % (nilfs2) of the files were whole."
    assert durability.left(shares[:0]) == ""
    assert durability.unusable("udf", 6, 6, "I/O error.") == (
        "udf mounted after the crash, and then failed in 6 of 6 trials: I/O error."
    )


def test_stalls_errors_and_copies():
    times = pd.Series({"nfs": 25.7, "moosefs": 0.2054})
    assert durability.stall("server-killed", 10.0, times) == (
        "When a server was killed for 10.0 s, the client stalled for 205 ms (moosefs) to 25.7 s (nfs)."
    )
    assert durability.stall("link-cut", 10.0, times[:0]) == ""
    row = {"label": "xfs", "outage_what": "link-cut", "round": 1, "outage_errors": "1 Input/output error"}
    assert durability.errors(pd.DataFrame([row])) == (
        "One client saw errors: xfs, repetition 1, when its link was cut: 1 Input/output error."
    )
    assert durability.errors(pd.DataFrame()) == "No client saw an error."
    assert durability.healed("link-cut", times, ["nfs"]) == (
        "After its link was cut, all copies were back after 205 ms (moosefs)"
        " and copies were still missing after 25.7 s (nfs)."
    )
    assert durability.healed("link-cut", times[:0], []) == ""
