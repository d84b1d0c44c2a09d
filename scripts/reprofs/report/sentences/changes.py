"""Sentences on a study that is compared with another run: which operations changed, and what else differs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import pandas as pd

from reprofs.errors import cut
from reprofs.report.marks import Marked, code
from reprofs.report.words import DASH, count, listing, longer, verb
from reprofs.stats.compare import TOTAL
from reprofs.stats.runs import Comparison, Difference
from reprofs.stats.study import Study

SHORT, DIGEST = 40, 12  # characters of what differs, and of a digest
SHA256 = re.compile("[0-9a-f]{64}")


def none(study: Study) -> str:
    """That there is no other run, and how to get one."""
    return f"There is no other run to compare with: run `make report STUDY={study.plan.study.name} BESIDE=RUN`."


def verdicts(found: pd.DataFrame, run: str) -> str:
    """How operations changed. found: rows of `stats.runs.ratios` with the column operation; run: the other one.

    `Compared with results/quick, of 27 operations 1 is slower (most: “Create files” on ext4, 3.0 % longer) and 26 are
    equal.`
    """
    own = found[found["phase"] != TOTAL]
    counted, parts = own["verdict"].value_counts(), []
    for verdict, up in (("slower", False), ("faster", True)):
        rows = own[own["verdict"] == verdict].sort_values("ratio", ascending=up, kind="stable")
        if len(rows):
            most = f"“{rows['operation'].iloc[0]}” on {rows['label'].iloc[0]}, {longer(rows['ratio'].iloc[0])}"
            parts.append(f"{_number(len(rows), verdict)} (most: {most})")
    rest = [(name, int(counted.get(name, 0))) for name in ("same", "undecided", "equal")]
    told = listing([*parts, *(_number(number, name) for name, number in rest if number)])
    return Marked("Compared with ") + code(run) + f", of {count(len(own), 'operation')} {told}."


def _number(number: int, verdict: str) -> str:
    return f"{number} {verb(number, 'is', 'are')} {verdict}"


def differ(differences: list[Difference]) -> str:
    """In what two runs differ: `The two runs differ in kernel, package (3 keys) and commit.`"""
    if not differences:
        return "Nothing that the two runs say of lab, machine and plan differs."
    parts = Counter(one.what for one in differences)
    return f"The two runs differ in {listing(f'{word} ({n} keys)' if n > 1 else word for word, n in parts.items())}."


def equal(found: Comparison) -> Iterator[str]:
    """Whether exact labs gave the same numbers, a sentence each; and which trials ended otherwise."""
    for one in found.exact:
        if one.first:
            where = f"{one.first['phase']} ({one.first['cache']}) of {one.first['trial']}"
            trials = count(one.trials, "trial")
            same = f"In {one.lab} {one.equal} of {trials} have the same numbers"
            yield f"{same}; the first phase that differs is {where}."
        else:
            yield f"In {one.lab} all numbers of {count(one.trials, 'trial')} are equal, to the last digit."
    for trial, was, now in found.endings:
        yield f"{trial} ended {was} there and {now} here."


def how_sure(found: pd.DataFrame, margin: float) -> str:
    """How sure the verdicts are: `How sure: 4 repetitions, paired by seed; a difference counts from 2 % on ...`"""
    least = int(found["n"].min())
    told = f"How sure: {count(least, 'repetition')}, paired by seed; a difference counts from {100 * margin:g} % on"
    return f"{told}, above the noise floor, Holm-corrected over all operations."


def short(value: str) -> str:
    """What differs in a cell of a table: the beginning of a digest or a long text."""
    return value[:DIGEST] if SHA256.fullmatch(value) else cut(" ".join(value.split()), SHORT) or DASH
