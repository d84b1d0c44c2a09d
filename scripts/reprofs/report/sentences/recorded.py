"""Sentences on recorded programs: where the time of their calls goes, and what a replay cannot say."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas as pd

from reprofs.plan.recording import Recording
from reprofs.report.marks import Marked, strong
from reprofs.report.sentences.answer import wins
from reprofs.report.words import count, known, listing, percent, slower, time

MOST = 3  # kinds of calls that are named
LITTLE = 0.05  # of a difference: kinds with less of it are not named


def summary(winners: pd.DataFrame) -> str:
    """Who is fastest in how many replays. winners: of `stats.recorded.compared`.

    `**f2fs is fastest in 13 of 20 replays**, xfs in 5; in 2 no file system is significantly fastest.`
    """
    rows = winners[winners["verdict"] != "alone"]
    return wins(rows.loc[rows["verdict"] == "fastest", "best"], len(rows), "replay") if len(rows) else ""


def fastest(row: Any, title: str) -> str:
    """Who is fastest in a replay. row: of `winners`; title: of the program.

    `A program, cold: **xfs is fastest** with 18.0 ms; the next, ext4, takes 94 % longer.`
    """
    where, took = f"{title}, {row.cache}: ", time(row.geometric_mean_ns, 3)
    if row.verdict == "alone":
        return f"{where}only {row.best} completed it, in {took}."
    if row.verdict == "fastest":
        told = Marked("") + where + strong(f"{row.best} is fastest") + f" with {took}"
    else:
        how = "are equally fast" if row.verdict == "equivalent" else "are not significantly different"
        told = Marked("") + where + strong(listing([row.best, *row.level])) + f" {how} ({row.best}: {took})"
    if not known(row.ratio):
        return told + "."
    next_ = slower(row.ratio)
    return told + f"; the next, {row.runner_up}, takes {next_} {'as long' if next_.endswith('times') else 'longer'}."


def why(more: pd.Series, title: str, label: str, best: str) -> str:
    """What the difference of two file systems is. more: kind of call -> ms that label takes longer than best.

    `Git, cold: btrfs+none takes 30.2 ms longer than f2fs, most in fsync (+20.1 ms) and open (+4.00 ms).`
    """
    whole = float(more.sum())
    if whole <= 0:
        return ""
    parts = more[more > LITTLE * whole].sort_values(ascending=False, kind="stable")[:MOST]
    told = listing(f"{kind} (+{time(ms * 1e6, 3)})" for kind, ms in parts.items())
    return f"{title}: {label} takes {time(whole * 1e6, 3)} longer than {best}, most in {told}."


def coverage(head: Recording, title: str) -> str:
    """What of a program is replayed. title: of the program.

    `A program: 75.0 % of its calls below the recorded folders are replayed; left out: ioctl 5.`
    """
    left = sum(head.left_out.values())
    if not left:
        return f"{title}: all calls below the recorded folders are replayed."
    kinds = [f"{kind} {number:,}" for kind, number in sorted(head.left_out.items(), key=lambda one: -one[1])]
    share = percent(head.calls / (head.calls + left))
    return f"{title}: {share} of its calls below the recorded folders are replayed; left out: {listing(kinds, most=6)}."


def caveats(head: Recording, title: str, foreign: bool, unknown: bool) -> Iterable[str]:
    """What else a reader must know of a replay, a sentence each.

    foreign: its cold replay ranks nothing (see `stats.recorded.foreign`); unknown: it is not known whether it does.
    """
    if head.incomplete:
        yield f"{title}: the recording is incomplete, and was accepted so: {'; '.join(head.incomplete)}."
    elif head.unchecked:
        results = count(head.unchecked, "call")
        yield f"{title}: the results of {results} differed when the recording was tried, and are not compared."
    if head.ended and not head.incomplete:
        yield f"{title}: the program was ended when its time was over."
    if foreign:
        first = f"{title}: no verdict with cold caches, because the program visits files in the order of their listing"
        if head.follows_listings:
            yield f"{first}. On a rotating disk such short reads depend on the moment at which they begin."
        else:
            yield f"{first}. Each file system lists in another order, which decides on a rotating disk."
    elif unknown:
        yield f"{title}: if the disks rotate, the cold replay ranks nothing: files are visited in the order of listing."


def at_once(title: str) -> str:
    """That calls made several times at once have no total."""
    return f"{title} makes its calls several times at once, so that only single kinds of calls are compared."


def how_sure(winners: pd.DataFrame) -> str:
    """How sure the verdicts are: `How sure: 6 repetitions, Holm-corrected over 20 replays.`"""
    rows = winners[winners["verdict"] != "alone"]
    if rows.empty:
        return ""
    least = int(rows["n"].min())
    return f"How sure: {count(least, 'repetition')}, Holm-corrected over {count(len(rows), 'replay')}."
