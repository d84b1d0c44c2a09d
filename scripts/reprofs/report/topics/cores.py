"""Rates against cores and workers: how much a file system gains from processors that work side by side."""

from __future__ import annotations

import math
import textwrap

import numpy as np
import pandas as pd
from matplotlib.ticker import FixedLocator, NullLocator

from reprofs.data.keys import Setting
from reprofs.plan.workload import without_size
from reprofs.report.display import DASH, Table, confidence, count, digits, slug
from reprofs.report.plots import GREY, PLAIN, Figure, Plot, grid, grid_lines, legend, log_axis, marks, styled
from reprofs.stats import cores
from reprofs.stats.cores import Curve
from reprofs.stats.study import Study

PANELS = 12  # on a page


def curves(study: Study) -> dict[Curve, pd.DataFrame]:
    """`stats.cores.curves` of a study, with the words for each operation as title."""
    found = cores.curves(study.phases, study.plan)
    names = {without_size(name): name for name in study.plan.workloads}  # one of each will do: titles have no size
    for key, own in found.items():
        name = names[key.workload]
        found[key] = own.assign(title=[study.title(name, row.phase, row.cache) for row in own.itertuples()])
    return found


def facts(own: pd.DataFrame) -> dict:
    """How far the contenders' rates grow up to the largest number; own: one of `curves`.

    Keys: fewest, most (numbers of cores or workers); best, worst: the file systems with the largest and the smallest
    speed-up, label and its geometric mean over operations; gains, least: the same of operations over file systems.
    """
    last = own[(own["n"] == own["n"].max()) & (own["role"] == "contender")]
    systems = _means(last, "label")
    operations = _means(last, "title")
    ends = {"best": systems[0], "worst": systems[-1], "gains": operations[0], "least": operations[-1]}
    return {"fewest": int(own["n"].min()), "most": int(own["n"].max())} | ends


def _means(rows: pd.DataFrame, key: str) -> list[tuple[str, float]]:
    """(name, geometric mean of the speed-ups), the largest first."""
    means = np.exp(np.log(rows["speedup"]).groupby(rows[key]).mean())
    return sorted(((str(name), float(value)) for name, value in means.items()), key=lambda pair: -pair[1])


def words(study: Study, curve: Curve) -> str:
    """A heading: what grows, and where."""
    where = study.differing(Setting(curve.lab, curve.stack, curve.profile)) if curve.by == "workers" else ""
    title = next(one.title for name, one in study.plan.workloads.items() if without_size(name) == curve.workload)
    return f"{title.partition(' (')[0]}: more {curve.by}{f' ({where})' if where else ''}"  # without the size


def one_lock(study: Study, curve: Curve) -> bool:
    """Whether the device is the exact lab's memory without a bandwidth of its own, so that its lock is the limit."""
    device = study.plan.devices.get(curve.profile)
    return study.lab(curve.lab).exact and device is not None and not device.drive and not device.bandwidth_mb_s


def _told(curve: Curve) -> str:
    """What n is, for captions."""
    if curve.by == "cores":
        return "a worker on each core, in labs that differ in their number of cores only"
    return f"workers in the lab {curve.lab}; beyond its cores more of them cannot be faster"


def table(curve: Curve, own: pd.DataFrame) -> Table:
    """The rate with the fewest, and the speed-up with more, by operation and file system."""
    fewest, *more = sorted(set(own["n"]))
    rows = []
    for (title, label), group in own.groupby(["title", "label"], sort=False):
        at = {row.n: row for row in group.itertuples()}
        row = {"Operation": title, "File system": label, f"Items/s with {fewest}": digits(at[fewest].rate, 3)}
        row |= {f"Speed-up with {n}": digits(at[n].speedup, 3) if n in at else DASH for n in more}
        last = at.get(more[-1])
        row["95 % interval"] = confidence(last.low, last.high, 1, 3) if last else DASH
        rows.append(row | {f"Efficiency with {more[-1]}": digits(last.efficiency, 2) if last else DASH})
    caption = (
        f"{curve.workload} ({curve.scale}), stack {curve.stack}, device profile {curve.profile}: rate of all workers"
        f" together against the number of {curve.by}: {_told(curve)}. Speed-up: rate over that with {fewest}, paired by"
        " round; the interval is that of the last one. Efficiency: speed-up over the factor by which the number grew."
    )
    return Table(f"tbl-{slug('cores', curve)}", caption, rows, ["Operation", "File system"])


def figures(curve: Curve, own: pd.DataFrame) -> list[Figure]:
    """Two figures: the rate, and the efficiency, against the number of cores or workers; a panel an operation."""
    titles, found = list(dict.fromkeys(own["title"])), []
    said = {
        "rate": "rate (items a second of all workers together)",
        "efficiency": "efficiency (speed-up over the factor by which the number grew)",
    }
    ideal = {"rate": "growth in proportion, from the best of the fewest", "efficiency": "growth in proportion"}
    for value, text in said.items():
        caption = (
            f"{curve.workload} ({curve.scale}), stack {curve.stack}, device profile {curve.profile}: {text} against the"
            f" number of {curve.by}: {_told(curve)}. Dotted: {ideal[value]}."
        )
        for number, first in enumerate(range(0, len(titles), PANELS), 1):
            page = own[own["title"].isin(titles[first : first + PANELS])]
            alt = f"{count(page['title'].nunique(), 'panel')}, one an operation; the table has the numbers."
            name = slug("cores", value, *([number] if len(titles) > PANELS else []), curve)
            found.append(Figure(name, caption, alt, growth(page, value, curve.by)))
    return found


@styled
def growth(own: pd.DataFrame, value: str, by: str) -> Plot:
    """A panel for each title, a line for each label: the column `value` (rate, efficiency) against n.

    Rates have logarithmic axes, so that proportional growth is a straight line of the same slope everywhere.
    """
    titles = list(dict.fromkeys(own["title"]))
    columns = min(3, len(titles))
    high = math.ceil(len(titles) / columns)
    plot, panels = grid(high, columns, len(titles), 0.5 + 1.65 * high)
    lines, numbers = marks(sorted(own["label"].unique())), sorted(own["n"].unique())
    ends = np.array([numbers[0], numbers[-1]], float)
    for axes, title in zip(panels, titles, strict=True):
        rows = own[own["title"] == title]
        for label, line in rows.groupby("label"):
            colour, marker, dash = lines[label]
            axes.plot(line["n"], line[value], color=colour, marker=marker, ls=dash, ms=3.5, lw=1.2)
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(FixedLocator(numbers))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(PLAIN)
        if value == "rate":
            best = rows.loc[rows["n"] == numbers[0], value].max()
            axes.plot(ends, best * ends / ends[0], color=GREY, ls=":", lw=1)
            log_axis(axes, "y")
        else:
            axes.plot(ends, [1, 1], color=GREY, ls=":", lw=1)
            axes.set_ylim(0, max(1.1, rows[value].max() * 1.05))
        axes.set_title(textwrap.fill(title, 78 // columns), loc="left", linespacing=1.0)
        grid_lines(axes, "both")
    plot.supxlabel(by, fontsize=8)
    plot.supylabel("items/s" if value == "rate" else value, fontsize=8)
    legend(plot, lines)
    return plot
