"""Rebuilds: how long an array needs to be whole again while a workload runs on it."""

from __future__ import annotations

from reprofs.data.keys import select
from reprofs.report.display import Table, confidence, slug, time, unit_of
from reprofs.report.topics.operations import interval_note
from reprofs.stats.study import Study


def facts(study: Study) -> list[dict]:
    """The shortest and the longest rebuild of each lab: lab, first, last (label, stack, geometric_mean_ns), several."""
    found = []
    for lab, own in study.results.rebuilds.groupby("lab"):
        ordered = own.sort_values(["geometric_mean_ns", "label"])[["label", "stack", "geometric_mean_ns"]].to_dict(
            "records"
        )
        found.append({"lab": lab, "first": ordered[0], "last": ordered[-1], "several": len(ordered) > 1})
    return found


def table(study: Study, lab: str) -> Table:
    """Times to rebuild by one lab's clock."""
    own, rows = select(study.results.rebuilds, lab=lab), []
    for row in own.itertuples():
        middle = row.geometric_mean_ns
        profile = {"Device profile": row.profile} if study.trials["profile"].nunique() > 1 else {}
        rows.append(
            {
                "Stack": row.stack,
                **profile,
                "Workload": f"{row.workload} ({row.scale})",
                "File system": row.label,
                "n": row.n,
                "Time to rebuild": time(middle),
                "Interval": confidence(row.low_ns, row.high_ns, unit_of(middle)[1]),
                "Operations during the rebuild": f"{row.during} of {row.phases}",
            }
        )
    caption = (
        f"Time to rebuild in the lab {lab}, from the addition of the spare to an idle array, while the workload ran."
        f" {interval_note(own)} An operation that ended after the rebuild in every round says nothing about it."
    )
    left = ["Stack", "Device profile", "Workload", "File system"]
    return Table(f"tbl-{slug('rebuilds', lab)}", caption, rows, left=left)
