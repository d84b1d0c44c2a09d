"""Every run of every operation: the distribution of its times, and time against the number of the run."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from reprofs.data.keys import Load, Operation, Setting, select
from reprofs.report import plots
from reprofs.report.display import count, listing, slug, unit_of
from reprofs.report.plots import BLUE, INK, ORANGE, Figure, Plot, styled
from reprofs.report.when import ENOUGH_RUNS
from reprofs.stats import series
from reprofs.stats.cells import measured
from reprofs.stats.study import Study

ACROSS, HIGHEST, TREND = 3, 8.4, 1.65  # panels side by side; inches of all panels, and of one with a trend


def places(study: Study) -> list[tuple[Setting, Load]]:
    """Where contenders completed six rounds or more, or a workload that is repeated in one file system."""
    every = [(setting, load) for setting in study.shown_settings for load in study.loads(setting)]
    return [
        (setting, load)
        for setting, load in every
        if repeats(study, load) > 1 or (values(study, setting, load)["run"] >= ENOUGH_RUNS).any()
    ]


def repeats(study: Study, load: Load) -> int:
    """How often a workload is repeated in one file system."""
    return study.plan.workloads[load.workload].runs


def values(study: Study, setting: Setting, load: Load) -> pd.DataFrame:
    """The times of all but upper bounds, as the tables have them, and run: the number of the run, from 1.

    That is the number of the repetition in one file system, else the round.
    """
    if repeats(study, load) > 1:
        own = series.completed(study.samples, setting, load)
        own = own[own["start_ns"].isna() & own["iteration"].notna()]
        own = own.assign(run=own["iteration"].astype(int) + 1)
    else:
        own = series.completed(measured(study.phases), setting, load)
        own = own.assign(run=own["round"].astype(int))
    return own[own["wall_ns"] > 0]


def violins(study: Study, setting: Setting, load: Load) -> list[Figure]:
    """How the times of each operation are spread; several figures where the panels need several pages."""
    own = values(study, setting, load)
    labels = _labels(study, setting, own)
    caption = (
        f"{load}, {setting}: all times of each operation, logarithmic axis. A ring is one time, the line across the"
        " median; the width of a violin is how dense the logarithms of the times are (Gaussian kernel, Scott's"
        " bandwidth), scaled to its peak, and it ends at the least and the greatest time."
    )
    if own.groupby([*Operation._fields, "label"]).size().min() < ENOUGH_RUNS:
        caption += f" With fewer than {ENOUGH_RUNS} times there are rings alone."
    alt = f"Violins of {listing(labels)}; the appendix has the numbers."
    return [
        Figure(name, text, alt, violin_panels(own, page, labels, study.title))
        for name, text, page in _pages(slug("violins", setting, load), caption, own, _violin_height(labels))
    ]


def trends(study: Study, setting: Setting, load: Load) -> list[Figure]:
    """Time against the number of the run; several figures where the panels need several pages."""
    own = values(study, setting, load)
    labels = _labels(study, setting, own)
    if repeats(study, load) > 1:
        what = "the number of the run in the same file system, all rounds: a trend is ageing, or what a run leaves"
    else:
        what = "the round. Every round has a new file system and another seed, so that a trend is no ageing"
    caption = f"{load}, {setting}: time against {what}. Logarithmic axes of time, each with limits of its own."
    if own["run"].nunique() >= ENOUGH_RUNS:
        caption += (
            " The line is a local regression of the logarithms (LOWESS, the nearest two thirds of the points, three"
            " robust iterations; W. S. Cleveland, 1979)."
        )
    else:
        caption += f" With fewer than {ENOUGH_RUNS} numbers there is no smooth line."
    alt = f"Times of {listing(labels)} in {count(own['run'].nunique(), 'run')}; the appendix has the numbers."
    return [
        Figure(name, text, alt, trend_panels(own, page, labels, study.title))
        for name, text, page in _pages(slug("runs", setting, load), caption, own, TREND)
    ]


def _pages(name: str, caption: str, own: pd.DataFrame, height: float) -> Iterator[tuple[str, str, list[tuple]]]:
    """Name, caption and operations of each page of a figure whose panels are so high, in inches."""
    found, size = plots.operations(own), ACROSS * max(1, int(HIGHEST / height))
    pages = [found[first : first + size] for first in range(0, len(found), size)]
    for number, page in enumerate(pages):
        yield (*plots.part(name, caption, number, len(pages)), page)


def _violin_height(labels: list[str]) -> float:
    return 0.5 + 0.19 * len(labels)


def _grid(found: list[tuple], height: float, **options):
    lines = -(-len(found) // ACROSS)
    return plots.grid(lines, min(ACROSS, len(found)), len(found), 0.4 + height * lines, **options)


def _labels(study: Study, setting: Setting, own: pd.DataFrame) -> list[str]:
    return [label for label in study.contenders(setting) + study.unpromised(setting) if label in set(own["label"])]


@styled
def violin_panels(table: pd.DataFrame, found: list[tuple], labels: list[str], words) -> Plot:
    """One panel per operation of `found`, one row per label; `table` is that of `values`."""
    figure, panels = _grid(found, _violin_height(labels), sharey=True)
    for axes, operation in zip(panels, found, strict=True):
        unit = _violin_panel(axes, select(table, Operation(*operation)), labels)
        plots.title(axes, operation, words, unit)
    return figure


def _violin_panel(axes: Axes, table: pd.DataFrame, labels: list[str]) -> str:
    name, scale = unit_of(table["wall_ns"].median())
    for y, label in enumerate(labels):
        times = table.loc[table["label"] == label, "wall_ns"].to_numpy(float) / scale
        if len(times) >= ENOUGH_RUNS and np.ptp(times) > 0:
            at, density = series.log_density(times)
            axes.fill_between(at, y - 0.42 * density, y + 0.42 * density, color=BLUE, alpha=0.45, lw=0)
            axes.plot([np.median(times)] * 2, [y - 0.42, y + 0.42], color=INK, lw=1)
        axes.plot(times, [y] * len(times), "o", ms=2.6, mfc="none", mec=ORANGE, mew=0.7, zorder=3)
    plots.rows(axes, labels)
    plots.log_axis(axes, "x")
    return name


@styled
def trend_panels(table: pd.DataFrame, found: list[tuple], labels: list[str], words) -> Plot:
    """One panel per operation of `found`: time against the number of the run; `table` is that of `values`."""
    lines = plots.marks(labels)
    figure, panels = _grid(found, TREND)
    for axes, operation in zip(panels, found, strict=True):
        own = select(table, Operation(*operation))
        name, scale = unit_of(own["wall_ns"].median())
        for label, rows_of in own.groupby("label", sort=False):
            colour, marker, dash = lines[label]
            x, y = rows_of["run"].to_numpy(float), rows_of["wall_ns"].to_numpy(float) / scale
            axes.plot(x, y, ls="", marker=marker, ms=2.8, mfc="none", mec=colour, mew=0.7)
            if rows_of["run"].nunique() >= ENOUGH_RUNS:
                axes.plot(*series.log_lowess(x, y), color=colour, ls=dash, lw=1.2)
        plots.log_axis(axes, "y")
        plots.whole_axis(axes)
        plots.grid_lines(axes)
        plots.title(axes, operation, words, name)
    figure.supxlabel("number of the run", fontsize=8)
    plots.legend(figure, lines, mfc="none", mew=0.9)
    return figure
