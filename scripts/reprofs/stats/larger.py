"""Published trials of the same workload at a larger size, to set a small study beside."""

from __future__ import annotations

import re

import pandas as pd

from reprofs.data import published
from reprofs.data.keys import Load, Setting, select
from reprofs.plan.workload import without_size
from reprofs.project import place
from reprofs.records import publication
from reprofs.stats import totals
from reprofs.stats.study import Study
from reprofs.stats.study import open as open_study

COLUMNS = ["study", "protocol", "workload", "scale", "size", "unit"]


def larger(study: Study, setting: Setting, load: Load) -> pd.DataFrame:
    """Totals of the workload at larger sizes that results/ has, in the same setting and of the study's file systems.

    Rows as of `totals.ranked`, the smallest size first, and: study (its name), protocol, size, unit. Empty for a study
    that is no demonstration, or was not run here: what is published depends on its own records alone. Raises UserError
    for an altered result.
    """
    entry = study.plan.workloads[load.workload]
    here = study.folder == place("data/results") / study.plan.study.name
    if not (study.demonstration and here and entry.size and setting.lab in study.exact_labs):
        return pd.DataFrame(columns=COLUMNS)
    labels = set(study.trials["label"])
    where, workload = (re.escape(word) for word in ("-".join(setting), without_size(load.workload)))
    trial = re.compile(rf"r\d+-{where}-.+-{workload}(@\d+)?-\w+")
    found = []
    for name in published.holding(trial):
        try:
            other = open_study(str(published.tables(name)))
        except publication.OtherVersion:
            continue
        rows = select(totals.ranked(other), setting)
        for key in [key for key in set(rows["workload"]) if without_size(key) == without_size(load.workload)]:
            planned = other.plan.workloads[key]
            size = planned.parameters[entry.size]
            if size > entry.parameters[entry.size]:
                own = rows[(rows["workload"] == key) & rows["label"].isin(labels)]
                protocol = publication.read(place(f"results/{name}")).protocol
                found.append(own.assign(study=name, protocol=protocol, size=size, unit=entry.size))
    if not found:
        return pd.DataFrame(columns=COLUMNS)
    return pd.concat(found, ignore_index=True).sort_values(["size", "study"], kind="stable")
