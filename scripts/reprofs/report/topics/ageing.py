"""File systems that are not new: filled and churned before the measurement, or used repeatedly by it."""

from __future__ import annotations

import pandas as pd

from reprofs.data.keys import Load, Setting
from reprofs.report.display import Table, count, digits, slug, time
from reprofs.stats import series
from reprofs.stats.study import Study


def places(study: Study) -> list[tuple[Setting, Load]]:
    """Where file systems were aged or used repeatedly, whether the trials completed or not."""
    entries = study.plan.workloads
    return [
        (setting, load)
        for setting in study.settings
        for load in study.loads(setting)
        if entries[load.workload].fill or entries[load.workload].runs > 1
    ]


def facts(study: Study, setting: Setting, load: Load) -> dict:
    """What was done and what changed.

    Keys: fill (percent, 0 without), runs (1 without), labels (with a completed trial), changes (see `drift`), slower
    (number of those whose last run took longer than the first), most (the change with the largest ratio of last to
    first as a dictionary, None without).
    """
    entry = study.plan.workloads[load.workload]
    changes = drift(study, setting, load)
    return {
        "fill": entry.fill,
        "runs": entry.runs,
        "labels": sorted(set(series.completed(study.trials, setting, load)["label"])),
        "changes": len(changes),
        "slower": int((changes["ratio"] > 1).sum()),
        "most": changes.loc[changes["ratio"].idxmax()].to_dict() if len(changes) else None,
    }


def layout(study: Study, setting: Setting, load: Load) -> Table:
    """Extents and layout score of the files that filled each file system, before and after the churn."""
    rows = []
    found = series.completed(study.trials, setting, load).dropna(subset="ageing")
    for label, mean in found.groupby("label", sort=False).mean(numeric_only=True).iterrows():
        row = {"File system": label}
        for when, words in (("before", "before the churn"), ("after", "after it")):
            row[f"Extents a file {words}"] = digits(mean[f"extents_{when}"], 4)
            row[f"Layout score {words}"] = digits(mean[f"layout_score_{when}"], 4)
        rows.append(row)
    caption = (
        f"{load}, {setting}: layout of the files that filled the file system, before and after the churn; means over"
        " rounds. Layout score: share of blocks that lie directly after the one before them in their file (Smith and"
        " Seltzer, 1997). A dash: the file system does not tell it (FIEMAP)."
    )
    return Table(f"tbl-{slug('ageing', setting, load)}", caption, rows, ["File system"])


def drift(study: Study, setting: Setting, load: Load) -> pd.DataFrame:
    """`series.over_runs` of a workload that is repeated in one file system, with the words for each operation as title.

    Empty for a workload with one run.
    """
    own = series.completed(study.samples, setting, load)
    repeated = study.plan.workloads[load.workload].runs > 1
    found = series.over_runs(own if repeated else own.iloc[:0])
    return found.assign(title=[study.title(load.workload, row.phase, row.cache) for row in found.itertuples()])


def runs(study: Study, setting: Setting, load: Load) -> Table:
    """How the time of each operation changes from the first run to the last."""
    rows = [
        {
            "Operation": row.title,
            "File system": row.label,
            "First run": time(row.first_ns, 3),
            "Last run": time(row.last_ns, 3),
            "Last to first": digits(row.ratio, 3),
            "Spearman": digits(row.spearman, 2),
        }
        for row in drift(study, setting, load).itertuples()
    ]
    number = count(study.plan.workloads[load.workload].runs, "run")
    caption = (
        f"{load}, {setting}: change over {number} in the same file system; means over rounds. Spearman: correlation of"
        " time with the number of the run."
    )
    return Table(f"tbl-{slug('drift', setting, load)}", caption, rows, ["Operation", "File system"])
