"""mdtest's own summary: rates over the iterations of one command, and over its time."""

from __future__ import annotations

import numpy as np
import pandas as pd

from reprofs.data.keys import Load, Setting
from reprofs.report import plots
from reprofs.report.display import Table, count, digits, slug
from reprofs.report.plots import Figure, Plot, styled
from reprofs.stats import series
from reprofs.stats.study import Study


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
                    **{words: digits(row[key]) for words, key in SHOWN.items()},
                    "Iterations": f"{row['n']:g}",
                }
            )
            shown = name
    caption = (
        f"{load}, {phase}, {setting}: operations a second over the iterations of one command, as mdtest summarises them"
        " (its standard deviation divides by their number); means of the rounds."
    )
    return Table(f"tbl-{slug('iterations', phase, setting, load)}", caption, rows, ["Operation", "File system"])


def figures(study: Study, setting: Setting, load: Load, phase: str) -> list[Figure]:
    """Operations a second over the time of the command; several figures where the file systems need several pages."""
    own = series.completed(study.samples, setting, load)
    found = series.over_time(own[own["phase"] == phase])
    found = found[found["round"] == found.groupby("label")["round"].transform("min")].dropna(subset="start_ns")
    labels = [label for label in study.contenders(setting) if label in set(found["label"])]
    within = series.intervals(own[(own["phase"] == phase) & own["trial"].isin(found["trial"])])
    caption = (
        f"{load}, {phase}, {setting}: operations a second over the time of the command, in its first round. A bar is a"
        " part of one iteration, from its begin to its end, at its mean rate; "
    )
    if within.empty:
        caption += "within it the rate is not known."
    else:
        caption += (
            "the line is the rate within it, over intervals of at most 1/32 of it or 0.1 ms; where nothing"
            " ended, it is at the bottom."
        )
    caption += " Gaps are work of the command between its parts; each panel has its own time."
    titles = {name: study.title(load.workload, name, "warm") for name in dict.fromkeys(found["name"])}
    pages = [labels[first : first + PANELS] for first in range(0, len(labels), PANELS)]
    result = []
    for number, page in enumerate(pages):
        name, text = plots.part(slug("over-time", phase, setting, load), caption, number, len(pages))
        alt = f"{count(len(page), 'panel')}, one a file system; the table has the rates over the iterations."
        result.append(Figure(name, text, alt, over_time(found, within, page, titles)))
    return result


@styled
def over_time(table: pd.DataFrame, within: pd.DataFrame, labels: list[str], titles: dict[str, str]) -> Plot:
    """A bar for each part of each iteration, and a line of steps over its intervals; one panel per label.

    `table` is `series.over_time`, `within` is `series.intervals` (empty when nothing was counted), of one round each.
    """
    lines = plots.marks(titles)
    plot, panels = plots.column(dict.fromkeys(labels), 1.0, sharex=False)
    for axes, label in zip(panels, labels, strict=True):
        for row in table[table["label"] == label].itertuples():
            ends = [row.start_ns / 1e9, row.end_ns / 1e9]
            colour, marker, _ = lines[row.name]
            axes.plot(ends, [row.rate] * 2, color=colour, lw=2.4, solid_capstyle="butt", marker=marker, ms=2.6)
        here = within[within["label"] == label]
        bottom = here.loc[here["rate"] > 0, "rate"].min() / 2
        for (name, _), own in here.groupby(["name", "iteration"], sort=False):
            edges = [*own["start_ns"], own["end_ns"].iloc[-1]]
            axes.stairs(
                own["rate"].clip(lower=bottom), np.array(edges) / 1e9, baseline=None, color=lines[name][0], lw=0.7
            )
        axes.set_xlim(left=0)
        plots.log_axis(axes, "y")
        plots.grid_lines(axes)
        axes.set_title(label, loc="left", fontweight="bold")
    plot.supxlabel("time, s", fontsize=8)
    plot.supylabel("operations a second", fontsize=8)
    plots.legend(plot, {titles[name]: (colour, marker, "-") for name, (colour, marker, _) in lines.items()})
    return plot


PANELS = 8  # on a page
SHOWN = {"Max /s": "max", "Min /s": "min", "Mean /s": "mean", "SD /s": "sd"}
