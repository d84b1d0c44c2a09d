"""mdtest's own summary: rates over the iterations of one command."""

from __future__ import annotations

from reprofs.data.keys import Load, Setting
from reprofs.report.display import Table, digits, slug
from reprofs.stats import series
from reprofs.stats.study import Study


def applies(plan: dict) -> bool:
    """Where a command creates, queries and removes files, again and again."""
    phases = [phase for entry in plan["workloads"].values() for phase in entry["phases"]]
    return any({"file-create", "file-stat", "file-remove"} <= set(phase.get("samples") or {}) for phase in phases)


def places(study: Study) -> list[tuple[Setting, Load, str]]:
    """Where (setting, load, phase) files were created, queried and removed."""
    return series.having(study.samples, study.settings, {"file-create", "file-stat", "file-remove"})


def table(study: Study, setting: Setting, load: Load, phase: str) -> Table:
    """Largest, smallest and mean rate and standard deviation of every part and file system."""
    own = series.completed(study.samples, setting, load)
    found = series.iterations(own[own["phase"] == phase])
    means = found.groupby(["name", "label"], sort=False)[["max", "min", "mean", "sd", "n"]].mean()
    rows, shown = [], ""
    for name in dict.fromkeys(means.index.get_level_values("name")):
        for label, row in means.loc[name].sort_values("mean", ascending=False).iterrows():
            title = study.title(load.workload, name, "warm")
            rows.append(
                {
                    "Operation": title if name != shown else "",
                    "File system": label,
                    **{words: digits(row[key]) for words, key in COLUMNS.items()},
                    "Iterations": f"{row['n']:g}",
                }
            )
            shown = name
    caption = (
        f"{load}, {phase}, {setting}: operations a second over the iterations of one command, as mdtest summarises them"
        " (its standard deviation divides by their number); means of the rounds."
    )
    return Table(f"tbl-{slug('iterations', phase, setting, load)}", caption, rows, ["Operation", "File system"])


COLUMNS = {"Max /s": "max", "Min /s": "min", "Mean /s": "mean", "SD /s": "sd"}
