"""Sentences on crash tests, in which the power is cut, and on failover, in which a server is lost."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import pandas as pd

from reprofs.report.words import count, listing, opening, percent, time, verb

WHAT = {
    "server-killed": "a server was killed",
    "server-power": "a server lost its power",
    "link-cut": "its link was cut",
}
STALLS = {"server-killed": "server killed", "server-power": "power lost", "link-cut": "link cut"}


def whole(labels: Sequence[str], files: int, tests: int, test: str) -> str:
    """File systems that lost no file whose fsync had returned. test: `crash`, `injected fault`.

    `Every file whose fsync had returned was whole afterwards on ext4 and xfs: 3,304 files in 12 crashes.`
    """
    if not labels:
        return ""
    number = f"{files:,} {verb(files, 'file', 'files')} in {count(tests, test, _several(test))}"
    return f"Every file whose fsync had returned was whole afterwards on {listing(labels)}: {number}."


def _several(test: str) -> str:
    return f"{test}es" if test.endswith("sh") else f"{test}s"


def broken(found: pd.DataFrame, test: str) -> str:
    """File systems that lost such files. found: rows indexed by label with durable, broken, tests, failed.

    `Not durable: jfs lost or damaged 6,000 of 6,000 files (in 6 of 6 crashes).`
    """
    told = [
        f"{label} lost or damaged {row['broken']:,} of {row['durable']:,} files"
        f" (in {row['failed']} of {count(row['tests'], test, _several(test))})"
        for label, row in found.iterrows()
    ]
    return f"Not durable: {listing(told)}." if told else ""


def sure(fewest: int, share: float, test: str, where: str) -> str:
    """How sure "nothing was lost" is. fewest: tests of one file system; share: `stats.durability.unseen` of them.

    `How sure: no loss in 6 crashes still allows one in up to 39.3 % of such crashes (one-sided 95 % bound); lab exact.`
    """
    several = _several(test)
    allowed = f"no loss in {count(fewest, test, several)} still allows one in up to {percent(share)} of such {several}"
    return f"How sure: {allowed} (one-sided 95 % bound); {where}."


def untested(labels: Collection[str]) -> str:
    """File systems whose durability the tests do not show: `Not shown by these tests: nilfs2.`"""
    return f"Not shown by these tests: {listing(labels)}." if labels else ""


def recovery(found: pd.Series, where: str = "") -> str:
    """How long the mount after a crash took. found: label -> mean time in ms; where: such as the device.

    `The mount after the crash took 13.1 ms (udf) to 2.34 s (xfs) on average, device profile hdd-7200.`
    """
    ends = _ends(found, lambda ms: time(ms * 1e6, 3))
    return f"The mount after the crash took {ends} on average{where and ', '}{where}." if ends else ""


def _ends(found: pd.Series, show: Callable[[float], str]) -> str:
    """The least and the largest of known values: `13.1 ms (udf) to 2.34 s (xfs)`. found: label -> value."""
    ordered = found.dropna().sort_values()
    return " to ".join(f"{show(ordered.iloc[at])} ({ordered.index[at]})" for at in (0, -1)[: len(ordered)])


def left(found: pd.Series) -> str:
    """How much is left of files that were never flushed. found: label -> share (of 1) of files that were whole.

    `Without fsync 0 % (f2fs) to 89 % (reiserfs) of the files were whole.`
    """
    ends = _ends(found, lambda share: f"{100 * share:.0f} %")
    return f"Without fsync {ends} of the files were whole." if ends else ""


def unusable(label: str, number: int, trials: int, reason: str) -> str:
    """A file system that mounted after a crash and then failed.

    `udf mounted after the crash, and then failed in 6 of 6 trials: unflushed: I/O error.`
    """
    told = f"{label} mounted after the crash, and then failed in {number} of {count(trials, 'trial')}"
    return f"{told}: {reason.rstrip('.')}."


def stall(what: str, away: float, found: pd.Series) -> str:
    """How long no write came through. away: seconds of the server's absence; found: label -> mean stall in seconds.

    `When a server was killed for 10.0 s, the client stalled for 206 ms (moosefs) to 25.7 s (nfs).`
    """
    ends = _ends(found, lambda seconds: time(seconds * 1e9, 3))
    return f"When {WHAT[what]} for {time(away * 1e9, 3)}, the client stalled for {ends}." if ends else ""


def errors(found: pd.DataFrame) -> str:
    """Which errors clients saw. found: rows with label, outage_what, round, outage_errors, where one was.

    `xfs, repetition 1, when a server was killed: 1 Input/output error.`
    """
    if found.empty:
        return "No client saw an error."
    told = [
        f"{row['label']}, repetition {row['round']}, when {WHAT[row['outage_what']]}: {row['outage_errors']}"
        for _, row in found.iterrows()
    ]
    return f"{opening(len(told), 'client')} saw errors: {'; '.join(told)}."


def healed(what: str, found: pd.Series, missing: Collection[str]) -> str:
    """How long until all copies were back. found: label -> mean seconds after the server's return; missing: of whom
    copies were still missing then, when the observation ended.

    `After a server was killed, all copies were back within 8.46 s (gluster) and 13.8 s (cephfs), and copies were still
    missing after 61.0 s (moosefs).`
    """
    known = found.dropna().sort_values()
    parts = []
    for names, words in ((False, "all copies were back after"), (True, "copies were still missing after")):
        times = [f"{time(value * 1e9, 3)} ({name})" for name, value in known.items() if (name in missing) == names]
        parts += [f"{words} {listing(times)}"] if times else []
    return f"After {WHAT[what]}, {listing(parts)}." if parts else ""
