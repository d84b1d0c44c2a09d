"""What changed: a study beside another run, which `make report BESIDE=RUN` names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from reprofs.data.keys import Load, Setting, distinct, select
from reprofs.data.study import load
from reprofs.errors import UserError, cut
from reprofs.report.display import DASH, Table, confidence, digits, known, percent, slug
from reprofs.stats import runs
from reprofs.stats.compare import TOTAL
from reprofs.stats.runs import Comparison, Difference
from reprofs.stats.study import Study

SHORT, DIGEST = 40, 12  # characters of what differs, and of a digest
SHA256 = re.compile("[0-9a-f]{64}")
VERDICTS = ("slower", "faster", "same", "undecided", "equal")


@dataclass(frozen=True, eq=False)
class Changes:
    """run: what the study is set beside, as it was named; differences: between the two; found: the study beside it."""

    run: str
    differences: list[Difference]
    found: Comparison


def compared(study: Study) -> Changes:
    """The study beside the run that `make report` was given. Raises UserError where they cannot be compared."""
    if not (study.other_run / runs.NAME).is_file():
        name = study.plan.study.name
        raise UserError(
            f"The study {name} stands beside no other run: run `make report STUDY={name} BESIDE=RUN` first."
        )
    run = (study.other_run / runs.NAME).read_text()
    differences, (found,) = runs.compare(
        {run: load(study.other_run), study.plan.study.name: study}, study.margins["win"]
    )
    return Changes(run, differences, found)


def parts(changes: Changes) -> dict[str, int]:
    """What differs (kernel, package, ...), and in how many respects."""
    return dict(Counter(one.what for one in changes.differences))


def counts(changes: Changes) -> dict[str, int]:
    """Operations by verdict; workloads as a whole are none."""
    found = Counter(_operations(changes)["verdict"])
    return {verdict: found[verdict] for verdict in VERDICTS if found[verdict]}


def ends(study: Study, changes: Changes) -> dict[str, dict]:
    """Of those that are slower and of those that are faster the farthest: title, label, ratio."""
    found, operations = {}, _operations(changes)
    for verdict, up in (("slower", False), ("faster", True)):
        own = operations[operations["verdict"] == verdict].sort_values("ratio", ascending=up, kind="stable")
        for row in own.head(1).itertuples():
            title = study.title(row.workload, row.phase, row.cache)
            found[verdict] = {"title": title, "label": row.label, "ratio": row.ratio}
    return found


def _operations(changes: Changes) -> pd.DataFrame:
    found = changes.found.ratios
    return found[found["phase"] != TOTAL]


def differing(study: Study, changes: Changes) -> Table:
    """What lab, machine and plan say of themselves that is not the same."""
    rows = [
        {"Part": one.what, "Key": one.key} | dict(zip(("There", "Here"), map(_short, one.values), strict=True))
        for one in changes.differences
    ]
    caption = f"What {changes.run} (there) and this run (here) say of lab, machine and plan, where it is not the same."
    return Table("tbl-changes-differing", caption, rows, ["Part", "Key", "There", "Here"])


def tables(study: Study, changes: Changes) -> Iterator[Table]:
    """A table a setting and workload: the ratio of each operation, and of all of them together."""
    ratios = changes.found.ratios
    for setting in distinct(ratios, Setting):
        for load_ in distinct(select(ratios, setting), Load):
            rows = [_row(study, row) for row in select(ratios, setting, load_).itertuples()]
            told = ", ".join(filter(None, [str(load_), study.differing(setting)]))
            caption = (
                f"{told}: time over that of {changes.run}, paired by round. Floor: what the ratio of the"
                " latter to itself, with other names and another start, would differ from 1 by in 19 of 20 cases."
                f" Differences below {100 * study.margins['win']:g} % do not count."
            )
            yield Table(
                f"tbl-{slug('changes', setting, load_)}", caption, rows, ["Operation", "File system", "Verdict"]
            )


def _row(study: Study, row) -> dict:
    return {
        "Operation": study.title(row.workload, row.phase, row.cache),
        "File system": row.label,
        "Rounds": row.n,
        "Ratio": digits(row.ratio, 5),
        "95 % interval": confidence(row.low, row.high, significant=5),
        "Floor": percent(row.floor) if known(row.floor) else DASH,
        "Verdict": row.verdict,
    }


def _short(value: str) -> str:
    return value[:DIGEST] if SHA256.fullmatch(value) else cut(" ".join(value.split()), SHORT) or DASH
