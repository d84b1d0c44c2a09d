"""Published order of the configurations beside that of a study: tables and figures of a place with one size."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from reprofs.data.keys import Phase, select
from reprofs.report.display import DASH, Table, confidence, count, digits, known, slug, time
from reprofs.report.plots import (
    BLUE,
    GREY,
    INK,
    WIDTH,
    Figure,
    Plot,
    grid,
    legend,
    log_axis,
    marks,
    rows,
    styled,
    value_axis,
)
from reprofs.report.topics.published import twins
from reprofs.stats.published.orders import Orders

RHO = "\N{GREEK SMALL LETTER RHO}"
HOLLOW = {"mfc": "none", "mew": 1.3}


# ---- tables ----------------------------------------------------------------------------------------------------------


def table(orders: Orders) -> Table:
    """One row per operation: correlation of the orders, pairs, ratio, verdict."""
    shown = [
        {
            "Operation": row["title"],
            RHO: digits(row["rho"], 2),
            "p": digits(row["p"], 2),
            "Pairs": row["pairs"],
            "Same": row["same"],
            "Reversed": row["reversed"],
            "This study / published": digits(row["ratio"], 3),
            "95 % interval": confidence(row["low"], row["high"], significant=3),
            "Verdict": row["verdict"],
        }
        for row in orders.operations.to_dict("records")
    ]
    caption = (
        f"The published order of the configurations and that of this study. {RHO}: Spearman's correlation; p: the share"
        " of the ways to exchange configurations within their stacks that agree as well. Pairs: those with a published"
        " order, and how many are shown to have the same or the opposite one in this study (paired t tests, Holm's"
        " correction over all pairs of all operations, 5 %). Ratio: geometric mean over configurations, interval over"
        " configurations (Student's t on logarithms); the clocks differ, so it is no speed-up."
    )
    return Table(f"tbl-{slug('published', orders.place)}", caption, shown, left=["Operation", "Verdict"])


def rating_table(orders: Orders) -> Table:
    """One row per configuration: its rating in this study, by the published times, and as printed."""
    found = orders.ratings
    printed = found["printed"].notna().any()
    shown = [
        {
            "Configuration": row["name"],
            "This study": f"{row['own']:g}",
            "Published times": f"{row['published']:g}",
            **({"Printed": f"{row['printed']:g}" if known(row["printed"]) else DASH} if printed else {}),
        }
        for row in found.to_dict("records")
    ]
    operations = count(int(found["operations"].iloc[0]) if shown else 0, "cold operation")
    caption = (
        f"Ratings as DataLad's study of 2015 made them: the median, over {operations}, of the rank of a configuration,"
        " 0 for the fastest. A description: ranks do not tell how far apart times are, and operations of one workload"
        " go together. Published times: of the same configurations and operations, by the published medians."
    )
    if printed:
        caption += " Printed: the published rating itself, among all configurations that were published."
    return Table(f"tbl-{slug('ratings', orders.place)}", caption, shown, left=["Configuration"])


def cell_table(orders: Orders) -> Table:
    """Every configuration and operation with both numbers."""
    shown = [
        {
            "Operation": row["title"],
            "Configuration": row["name"],
            "Published runs": row["published_n"],
            "Published median": time(row["published_ns"], 3),
            "Published quartiles": DASH
            if pd.isna(row["published_low_ns"])
            else f"{time(row['published_low_ns'], 3)} {DASH} {time(row['published_high_ns'], 3)}",
            "Median of this study": time(row["median_ns"], 3),
            "Ratio": digits(row["ratio"], 3),
            "95 % interval": confidence(row["low"], row["high"], significant=3),
        }
        for row in orders.cells.to_dict("records")
    ]
    caption = (
        "Published times and those of this study. A dash: only the median was at hand. Ratio: geometric mean of the"
        " rounds of this study over the published median; its interval is over the rounds and, where the quartiles are"
        " known, over the published runs, else the median is taken as fixed."
    )
    return Table(f"tbl-{slug('beside', orders.place)}", caption, shown, left=["Operation", "Configuration"])


# ---- figures ---------------------------------------------------------------------------------------------------------


def ratio_figure(orders: Orders) -> Figure:
    """Ratios of every configuration by operation, with their geometric means."""
    caption = (
        f"{orders.place.workload}: time of this study over the published time, by operation. A mark is a configuration,"
        " the upright bar the geometric mean over configurations with its 95 % interval over them. A mark far from its"
        " bar is a configuration whose time differs from the published one by another factor than that of the others."
    )
    alt = "Ratios by operation; the table of the operations has the geometric means with their intervals."
    return Figure(slug("published-ratios", orders.place), caption, alt, ratios(orders.cells, orders.operations))


def scatter_figures(orders: Orders) -> list[Figure]:
    """Published times and those of this study against each other, one figure per cache state."""
    found = []
    for cache, cells in orders.cells.groupby("cache", sort=True):
        caption = (
            f"{orders.place.workload}, {cache}: median of this study against the published median, each operation on"
            " its own logarithmic axes, both over the same factor. On the broken line, which goes through the geometric"
            " mean of the ratios, all configurations would have one ratio. Bars: published quartiles where known, and"
            " the range of the rounds of this study."
        )
        alt = (
            f"{count(cells['phase'].nunique(), 'panel')}, one an operation, with"
            f" {count(cells['name'].nunique(), 'configuration')}; the table of the operations has the correlations."
        )
        titles = {row.phase: row.title.removesuffix(f", {cache}") for row in cells.itertuples()}
        found.append(Figure(slug("published", cache, orders.place), caption, alt, scatter(cells, titles)))
    return found


def twin_figures(orders: Orders) -> list[Figure]:
    """Published times and those of this study in one form, side by side, an operation a line."""
    cells = orders.cells
    ends = {"published_low": "published_low", "published_high": "published_high", "own_low": "min", "own_high": "max"}
    seconds = {
        key: cells[f"{column}_ns"] / 1e9 for key, column in {"published": "published", "own": "median", **ends}.items()
    }
    caption = (
        f"{orders.place.workload}: the published times (left) and those of this study (right), s. Marks are medians,"
        " bars the published quartiles where known and the range of the rounds of this study."
    )
    return twins.figures(slug("twins", orders.place), caption, cells[["name", "title"]].assign(**seconds))


@styled
def ratios(cells: pd.DataFrame, operations: pd.DataFrame) -> Plot:
    """One line per operation, one mark per configuration, and the mean; see `Orders`."""
    found = marks(sorted(set(cells["name"])))
    figure, axes = plt.subplots(figsize=(WIDTH, 0.9 + 0.24 * len(operations)), layout="constrained")
    for y, row in enumerate(operations.to_dict("records")):
        if not math.isnan(row["low"]):
            axes.plot([row["low"], row["high"]], [y, y], color=BLUE, lw=2.2, alpha=0.6, solid_capstyle="butt")
        axes.plot([row["ratio"]] * 2, [y - 0.32, y + 0.32], color=BLUE, lw=1.6)
        for cell in select(cells, Phase(row["phase"], row["cache"])).to_dict("records"):
            colour, marker, _ = found[cell["name"]]
            axes.plot(cell["ratio"], y, ls="", marker=marker, ms=4.5, mfc="none", mec=colour, mew=1.2, zorder=3)
    rows(axes, list(operations["title"]))
    axes.axvline(1, color=INK, lw=0.6, zorder=1)
    axes.set_xscale("log")
    value_axis(axes, "time of this study / published time")
    legend(figure, _marks_alone(found), **HOLLOW)
    return figure


@styled
def scatter(cells: pd.DataFrame, titles: dict[str, str]) -> Plot:
    """Median of this study over the published one, s, one panel per phase; `cells`: `Orders.cells` of one cache."""
    found = marks(sorted(set(cells["name"])))
    columns = min(3, len(titles))
    lines = math.ceil(len(titles) / columns)
    side = min((WIDTH - 0.3) / columns, 2.2)
    figure, panels = grid(lines, columns, len(titles), 0.6 + side * lines)
    for axes, (phase, title) in zip(panels, titles.items(), strict=True):
        _scatter_panel(axes, cells[cells["phase"] == phase], found)
        axes.set_title(title, loc="left", fontsize=8)
    figure.supxlabel("published median, s", fontsize=8)
    figure.supylabel("median of this study, s", fontsize=8)
    legend(figure, _marks_alone(found), **HOLLOW)
    return figure


def _scatter_panel(axes: Axes, cells: pd.DataFrame, found: dict[str, tuple]) -> None:
    x, y = cells["published_ns"] / 1e9, cells["median_ns"] / 1e9
    for row in cells.to_dict("records"):
        colour, marker, _ = found[row["name"]]
        published, median, low, high, least, most = (
            row[f"{key}_ns"] / 1e9 for key in ("published", "median", "published_low", "published_high", "min", "max")
        )
        if not math.isnan(low):
            axes.plot([low, high], [median] * 2, color=colour, lw=0.9)
        axes.plot([published] * 2, [least, most], color=colour, lw=0.9)
        axes.plot(published, median, ls="", marker=marker, ms=5, mfc="none", mec=colour, mew=1.3, zorder=3)
    # Both axes over the same factor, around their middles, so that equal ratios lie on lines of slope 1.
    reach = max(1.5, 1.25 * max(math.sqrt(values.max() / values.min()) for values in (x, y)))
    middles = [math.sqrt(values.min() * values.max()) for values in (x, y)]
    limits = [(middle / reach, middle * reach) for middle in middles]
    factor = math.exp(float(np.log(y / x).mean()))
    line = np.array(limits[0])
    axes.plot(line, line * factor, color=GREY, lw=0.8, ls=(0, (3, 2)), zorder=1)
    for which in "xy":
        log_axis(axes, which)
    axes.set(xlim=limits[0], ylim=limits[1], box_aspect=1)


def _marks_alone(found: dict[str, tuple]) -> dict[str, tuple]:
    return {name: (colour, marker, "") for name, (colour, marker, _) in found.items()}
