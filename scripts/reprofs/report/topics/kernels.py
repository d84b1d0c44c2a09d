"""Kernels: what each operation costs on one, over the last kernel that the study names.

The topic on memory shows the same of limits of memory.
"""

from __future__ import annotations

import math
import textwrap

import pandas as pd
from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

from reprofs.data.keys import Load, Setting, distinct, select
from reprofs.report.display import Table, count, digits, known, slug
from reprofs.report.plots import GREY, Figure, Plot, grid, grid_lines, legend, log_axis, marks, styled
from reprofs.stats import places
from reprofs.stats.compare import TOTAL
from reprofs.stats.places import KERNELS, Axis
from reprofs.stats.study import Study

PANELS = 12  # on a page
NAMED = 0.01  # waiting that is worth a row, as a share of the time


def order(study: Study, axis: Axis = KERNELS) -> list[str]:
    """`stats.places.order`."""
    return places.order(study, axis)


def compared(study: Study, axis: Axis = KERNELS) -> dict[tuple[Setting, Load], pd.DataFrame]:
    """`stats.places.compared` by setting and load, with the words for each operation as title."""
    found = places.compared(study, axis, study.margins["win"])
    parts = {}
    for setting in distinct(found, Setting):
        for load in distinct(select(found, setting), Load):
            own = select(found, setting, load)
            titles = [study.title(row.workload, row.phase, row.cache) for row in own.itertuples()]
            parts[setting, load] = own.assign(title=titles)
    return parts


def _on(name: str, axis: Axis) -> str:
    return f"on {name}" if axis is KERNELS else f"with {name}"


def facts(own: pd.DataFrame) -> list[dict]:
    """Of each place: place, slower and faster (numbers of operations that are shown to be so), rest, and the largest
    difference of each kind (its row, or None). Whole workloads are no operations."""
    parts = own[own["phase"] != TOTAL]
    found = []
    for place, rows in parts.groupby("place", sort=False):
        slower, faster = (rows[rows["verdict"] == verdict] for verdict in ("slower", "faster"))
        ends = {
            "most": next(slower.sort_values("ratio", ascending=False).itertuples(), None),
            "least": next(faster.sort_values("ratio").itertuples(), None),
        }
        counts = {"slower": len(slower), "faster": len(faster), "rest": len(rows) - len(slower) - len(faster)}
        found.append({"place": place} | counts | ends)
    return found


def table(study: Study, setting: Setting, load: Load, own: pd.DataFrame, axis: Axis = KERNELS) -> Table:
    """The ratio in every place, by operation and file system; in brackets where it has no verdict."""
    *others, base = places.order(study, axis)
    rows = []
    for (title, label), group in own.groupby(["title", "label"], sort=False):
        at = {row.place: row for row in group.itertuples()}
        row = {"Operation": title, "File system": label}
        row |= {name: _ratio(at.get(name)) for name in others}
        floors = [one.floor for one in at.values() if known(one.floor)]
        rows.append(row | {"Floor, %": digits(100 * max(floors), 2) if floors else ""})
    caption = (
        f"{load}, stack {setting.stack}, device profile {setting.profile}: time over that {_on(base, axis)},"
        " geometric mean of the rounds. In brackets: no difference is shown. Floor: what the ratio of the latter to"
        " itself, with other names and another start, would differ from 1 by in 19 of 20 cases."
    )
    return Table(f"tbl-{slug(axis.topic, setting, load)}", caption, rows, ["Operation", "File system"])


def _ratio(row) -> str:
    if row is None:
        return ""
    told = digits(row.ratio, 3)
    return told if row.verdict in ("slower", "faster") else f"({told})"


def waits(own: pd.DataFrame) -> bool:
    """Whether it is known of any operation how much of the difference is waiting."""
    return bool(own["waiting"].notna().any())


def waiting(study: Study, setting: Setting, load: Load, own: pd.DataFrame, axis: Axis = KERNELS) -> Table:
    """Where the difference is in waiting: of instructions and waiting the part of each, of those with much of it."""
    base = places.order(study, axis)[-1]
    chosen = own[(own["phase"] != TOTAL) & (own["waiting"].abs() >= NAMED) & own["verdict"].isin(["slower", "faster"])]
    rows = [
        {
            "Operation": row.title,
            "File system": row.label,
            axis.word: row.place,
            "Ratio": digits(row.ratio, 3),
            "Difference, %": digits(100 * (row.ratio - 1), 3),
            "of it waiting": digits(100 * row.waiting, 3),
            "of it instructions": digits(100 * (row.ratio - 1 - row.waiting), 3),
        }
        for row in chosen.itertuples()
    ]
    caption = (
        f"{load}, stack {setting.stack}, device profile {setting.profile}: differences to the times"
        f" {_on(base, axis)} of which waiting (the processor had nothing to do) is 1 % of the time or more;"
        " all others are instructions."
    )
    return Table(f"tbl-{slug(axis.topic, 'waiting', setting, load)}", caption, rows, ["Operation", "File system"])


def figures(study: Study, setting: Setting, load: Load, own: pd.DataFrame, axis: Axis = KERNELS) -> list[Figure]:
    """The ratio over the places, a panel an operation, a line a file system."""
    names, found = places.order(study, axis), []
    titles = list(dict.fromkeys(own["title"]))
    caption = (
        f"{load}, stack {setting.stack}, device profile {setting.profile}: time of each operation over that"
        f" {_on(names[-1], axis)}."
    )
    for number, first in enumerate(range(0, len(titles), PANELS), 1):
        page = own[own["title"].isin(titles[first : first + PANELS])]
        alt = f"{count(page['title'].nunique(), 'panel')}, one an operation; the table has the numbers."
        name = slug(axis.topic, *([number] if len(titles) > PANELS else []), setting, load)
        found.append(Figure(name, caption, alt, course(page, names, _on(names[-1], axis))))
    return found


@styled
def course(own: pd.DataFrame, names: list[str], on: str) -> Plot:
    """A panel for each title, a line for each label: ratio against place, 1 in the last. on: words for it."""
    titles = list(dict.fromkeys(own["title"]))
    columns = min(3, len(titles))
    high = math.ceil(len(titles) / columns)
    plot, panels = grid(high, columns, len(titles), 0.7 + 1.75 * high)
    lines, last = marks(sorted(own["label"].unique())), len(names) - 1
    for axes, title in zip(panels, titles, strict=True):
        rows = own[own["title"] == title]
        for label, line in rows.groupby("label"):
            colour, marker, dash = lines[label]
            at = sorted([*((names.index(row.place), row.ratio) for row in line.itertuples()), (last, 1.0)])
            axes.plot(*zip(*at, strict=True), color=colour, marker=marker, ls=dash, ms=3.5, lw=1.2)
        axes.plot([0, last], [1, 1], color=GREY, ls=":", lw=1)
        axes.set_xlim(-0.2, last + 0.2)
        axes.xaxis.set_major_locator(FixedLocator(range(len(names))))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FixedFormatter(names))
        axes.tick_params(axis="x", labelrotation=20)
        log_axis(axes, "y")
        axes.set_title(textwrap.fill(title, 78 // columns), loc="left", linespacing=1.0)
        grid_lines(axes, "both")
    plot.supylabel(f"time over that {on}", fontsize=8)
    legend(plot, lines)
    return plot
