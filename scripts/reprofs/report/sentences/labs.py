"""Sentences on labs that ran the same trials, and on models that were verified against their own equations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from reprofs.report.words import count, digits, known, listing, longer, slower, verb
from reprofs.stats import effects

FEW = 4  # jobs outside the band that are named


def carried(found: pd.DataFrame, a: str, b: str) -> str:
    """How differences of lab a end in lab b. found: rows of `stats.labs.carried` with a difference in lab a.

    `Of 91 differences in exact, host has 75 in the same direction, contradicts 7 and is inconclusive on 9.`
    """
    told = found["outcome"].value_counts().reindex(["same", "contradicted", "inconclusive"], fill_value=0)
    if not told.sum():
        return f"No two file systems differ significantly in {a}."
    same, other, rest = (int(number) for number in told)
    first = f"Of {count(int(told.sum()), 'difference')} in {a}, {b} has {same} in the same direction"
    return f"{first}, contradicts {other} and is inconclusive on {rest}."


def advice(found: pd.DataFrame, b: str) -> str:
    """From which size on differences carried over without exception. found: rows of one kind, as in `carried`.

    `All 31 decided differences above 83 % are in the same direction; below, measure on your own machine.`
    """
    decided = found[found["outcome"].isin(["same", "contradicted"])]
    if decided.empty:
        return f"{b} decides none of them."
    wrong = decided.loc[decided["outcome"] == "contradicted", "ratio"].max()
    if not known(wrong):
        return f"All {len(decided)} that {b} decides are in the same direction."
    above = int((decided["ratio"] > wrong).sum())
    size = slower(wrong) if wrong < 2 else f"a factor of {digits(wrong, 2)}"
    if not above:
        return f"Even the largest one that {b} decides, {size}, is contradicted."
    return (
        f"All {above} decided differences above {size} are in the same direction; below, measure on your own machine."
    )


def biased(bias: pd.Series, a: str, b: str) -> str:
    """Which file system takes longer in lab a than in lab b, relative to the others. bias: label -> factor, mean 1.

    `Relative to the others and to host, in exact btrfs+zstd takes 16 % longer and xfs 11 % shorter.`
    """
    if len(bias) < 2:
        return ""
    most, least = bias.idxmax(), bias.idxmin()
    first = f"Relative to the others and to {b}, in {a} {most} takes {longer(bias[most])}"
    return f"{first} and {least} {longer(bias[least])}."


def handed_over(ns: float, before: float, after: float, b: str) -> str:
    """What the hand-over of requests in lab b explains. ns: of a request; before, after: `stats.labs.distance`, rms.

    `With 42 µs for handing over each read in host, ratios of file systems differ by a factor of 1.17 instead of 1.33.`
    """
    if not (known(before) and ns > 0 and after < before):
        return f"No cost of handing over reads is found in {b}."
    told = f"With {digits(ns / 1000, 2)} µs for handing over each read in {b}, ratios of file systems differ by"
    return f"{told} a factor of {digits(after, 3)} instead of {digits(before, 3)}."


def predicted(found: pd.DataFrame, b: str) -> str:
    """How many predicted effects lab b shows. found: rows of `stats.effects.judged`.

    `Of 14 predicted effects host shows 11 in the predicted direction and 1 in the opposite; 2 stay undecided. Right:
    92 % (62 to 100 %) of those that it decides. 8 of 14 have the predicted size within its interval.`
    """
    unmade = found[found["outcome"] == "not made"]
    known_ = found[~found["outcome"].isin(["not measured", "not made"])]
    right, wrong = (int((known_["outcome"] == name).sum()) for name in ("same", "contradicted"))
    if known_.empty:
        return f"None of {count(len(found), 'predicted effect')} is measured in {b} yet." if len(found) else ""
    told = (
        f"Of {count(len(known_), 'predicted effect')} {b} shows {right} in the predicted direction and {wrong} in the"
    )
    told += f" opposite; {len(known_) - right - wrong} stay undecided."
    if right + wrong:
        value, low, high = (f"{100 * end:.0f}" for end in effects.share(right, right + wrong))
        told += f" Right: {value} % ({low} to {high} %) of those that it decides."
    sized = int(known_["ratio"].between(known_["other_low"], known_["other_high"]).sum())
    told += f" {sized} of {len(known_)} {verb(sized, 'has', 'have')} the predicted size within its interval."
    if len(unmade):
        names = sorted(set(unmade["filesystem"] + "+" + unmade["changed"].astype(str)))
        told += f" {count(len(unmade), 'effect')} cannot be judged: mkfs of {b} makes {listing(names)} like the base."
    return told


def sure(repetitions: Sequence[int], firm: int, same: int, real: bool = True) -> str:
    """How sure the comparison of two labs is. repetitions: of each; firm, same: of `stats.labs.agreement`; real: one is
    a real machine.

    `How sure: 6 repetitions in each lab, on one machine; of 133 pairs that differ in both after Holm's correction, 131
    agree in direction.`
    """
    a, b = repetitions
    first = "How sure: " + (f"{count(a, 'repetition')} in each lab" if a == b else f"{a} and {count(b, 'repetition')}")
    first += ", on one machine" if real else ""
    if not firm:
        return f"{first}; after Holm's correction no pair differs in both."
    return f"{first}; of {count(firm, 'pair')} that differ in both after Holm's correction, {same} agree in direction."


def instruction(ns: float, row: Any) -> str:
    """How long a real CPU needs for an instruction of the exact lab. ns: of its model; row: of `stats.labs.agreement`.

    `One instruction takes 0.36 ns of CPU time in host (geometric mean; 0.24 to 0.66 by operation and file system).`
    """
    ends = f"{digits(ns * row.fastest, 2)} to {digits(ns * row.slowest, 2)} by operation and file system"
    return f"One instruction takes {digits(ns * row.pace, 2)} ns of CPU time in {row.b} (geometric mean; {ends})."


def pace(row: Any) -> str:
    """CPU times of two labs: `For 1 s of CPU time in vm, host needs 0.9 s (geometric mean; 0.7 to 1.1 by ...).`"""
    ends = f"{digits(row.fastest, 2)} to {digits(row.slowest, 2)} by operation and file system"
    return f"For 1 s of CPU time in {row.a}, {row.b} needs {digits(row.pace, 2)} s (geometric mean; {ends})."


def verified(found: pd.DataFrame, what: str, band: float) -> str:
    """Whether models do what they say. found: rows of `stats.disks.comparison` or `stats.networks.comparison`.

    what: `device model`. `Verified: 43 of 43 comparisons of a device model with its equations are within 3 %.`
    """
    compared = found[found["compared"].astype(bool)]
    if compared.empty:
        return f"No {what} can be compared with its equations: the guest's CPU limits every job."
    inside = int(((compared["ratio"] - 1).abs() <= band).sum())
    number = count(len(compared), "comparison")
    which = f"of a {what} with its equations are within {100 * band:g} %"
    return f"{'Verified:' if inside == len(compared) else 'Not verified: only'} {inside} of {number} {which}."


def outside(found: pd.DataFrame, band: float) -> str:
    """The jobs that are not within the band. found: as of `verified`, with the column where.

    `Outside: “Random reads” on hdd-7200 (1.046 times).`
    """
    compared = found[found["compared"].astype(bool)]
    off = compared[(compared["ratio"] - 1).abs() > band]
    told = [f"“{row.title}” on {row.where} ({row.ratio:.3f} times)" for row in off.itertuples()]
    return f"Outside: {listing(told, most=FEW)}." if told else ""


def farthest(found: pd.DataFrame) -> str:
    """The job whose time is farthest from its model: `The farthest is … on hdd-7200, 1.011 times what was expected.`"""
    compared = found[found["compared"].astype(bool)]
    if compared.empty:
        return ""
    row = compared.loc[(compared["ratio"] - 1).abs().idxmax()]
    return f"The farthest is “{row['title']}” on {row['where']}, {row['ratio']:.3f} times what the model says."


def left_out(found: pd.DataFrame) -> str:
    """What was not compared, because the guest's CPU limits it: `2 jobs are not compared: the guest's CPU ...`."""
    number = int((~found["compared"].astype(bool)).sum())
    if not number:
        return ""
    told = f"{count(number, 'job')} {verb(number, 'is', 'are')} not compared"
    return f"{told}: there the guest's CPU is the limit, not the model."
