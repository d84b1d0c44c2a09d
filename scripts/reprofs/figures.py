"""Figures as SVG: the same bytes for the same tables, ink in `currentColor` so that they read on white and on black.

Every figure is 6.6 inches wide, the width of the printed page, with text of 8 points or more. Text is drawn as paths: a
figure looks the same on a machine without the font. Colours are Okabe and Ito's, distinguishable to the colour-blind.
"""

import io
import math
import re
import textwrap
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
import scikit_posthocs
from matplotlib import pyplot as plt
from matplotlib.colors import LogNorm
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from . import stats, words

matplotlib.use("agg")
WIDTH = 6.6
INK, GREY, BLUE, ORANGE = "#101114", "#7f858d", "#0f82c4", "#d55e00"
# Drawn in this ink, written as currentColor: the page decides what it is.
STYLE = {
    "svg.hashsalt": "reprofs",
    "svg.fonttype": "path",
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "axes.titlesize": 8.5,
    "axes.labelsize": 8,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": GREY,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
}


def save(figure, path: Path) -> Path:
    """Write a figure as SVG under a temporary name, then rename; close it."""
    with matplotlib.rc_context(STYLE):
        text = io.StringIO()
        figure.savefig(
            text, format="svg", metadata={"Date": None, "Creator": None}, bbox_inches="tight", pad_inches=0.03
        )
    plt.close(figure)
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(re.sub(INK, "currentColor", text.getvalue()))
    return partial.replace(path)


def heatmap(table: pd.DataFrame, order: list[str], titles: dict):
    """Cost of each contender in each operation relative to the best contender; ceilings beside them, uncoloured.

    `table` is stats.relative of one setting; `order` the labels from left to right; `titles` maps (workload, phase,
    cache) to the words beside a row.
    """
    rows = table.sort_values(["workload", "scale", "position"]).drop_duplicates(stats.OPERATION)[stats.OPERATION]
    rows = [tuple(row) for row in rows.itertuples(index=False)]
    cost = table.pivot(index=stats.OPERATION, columns="label", values="cost")
    contenders = [label for label in order if (table.loc[table["label"] == label, "role"] != "ceiling").all()]
    columns = contenders + [label for label in order if label not in contenders]
    top = max(2.0, float(np.nanmax(cost[contenders].to_numpy(float), initial=2.0)))
    norm, colours = LogNorm(1, top), matplotlib.colormaps["cividis_r"]
    with matplotlib.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(WIDTH, 0.9 + 0.215 * (len(rows) + 0.9 * len({row[:2] for row in rows}))))
        places = _heat_rows(axes, rows, titles)
        for x, label in enumerate(columns):
            shift = x + (0.25 if label not in contenders else 0)
            axes.text(shift, -0.5, label.replace("+", "\n+"), ha="center", va="bottom", linespacing=0.95)
            for row, y in places:
                value = cost.get(label, pd.Series(dtype=float)).get(row, math.nan)
                _heat_cell(axes, shift, y, value, None if label not in contenders else colours(norm(max(value, 1))))
        axes.set_xlim(-0.5, len(columns) - 0.5 + 0.25)
        axes.set_ylim(places[-1][1] + 0.5, -0.5)
        axes.axis("off")
    return figure


def _heat_rows(axes, rows: list[tuple], titles: dict) -> list[tuple]:
    """Places of the rows from the top, with a gap and the workload's name where one begins."""
    places, y, before = [], 0.0, None
    for row in rows:
        if row[:2] != before:
            y += 0.0 if before is None else 0.85
            axes.text(-0.62, y - 0.75, f"{row[0]} ({row[1]})", ha="right", va="center", fontweight="bold")
            y += 0.15
            before = row[:2]
        axes.text(-0.62, y, titles.get((row[0], row[2], row[3]), f"{row[2]}, {row[3]}"), ha="right", va="center")
        places.append((row, y))
        y += 1
    return places


def _heat_cell(axes, x: float, y: float, value: float, colour) -> None:
    if math.isnan(value):
        axes.text(x, y, words.DASH, ha="center", va="center", color=GREY)
        return
    ink = INK
    if colour is not None:
        axes.add_patch(Rectangle((x - 0.48, y - 0.46), 0.96, 0.92, facecolor=colour, edgecolor="none"))
        ink = "#ffffff" if np.dot(colour[:3], (0.299, 0.587, 0.114)) < 0.55 else "#000000"
    text = f"{value:.2f}" if value < 9.995 else f"{value:.1f}" if value < 99.95 else f"{value:,.0f}"
    axes.text(x, y, text, ha="center", va="center", color=ink, fontweight="bold" if value == 1 else "normal")


def intervals(table: pd.DataFrame, phases: pd.DataFrame, order: list[str], titles: dict):
    """One panel an operation of one workload: every round as a ring, the centre as a bar in its 95 % interval.

    `table` is stats.statistics, `phases` the rounds behind it, both of one setting and workload; `order` from top to
    bottom. A ceiling is a vertical line, not a row.
    """
    contenders = [label for label in order if label in set(table.loc[table["role"] != "ceiling", "label"])]
    with matplotlib.rc_context(STYLE):
        figure, panels = _panels(_operations(table), len(contenders))
        for axes, operation in zip(panels, _operations(table), strict=False):
            here = table[(table[stats.OPERATION] == list(operation)).all(axis=1)]
            rounds = phases[(phases[stats.OPERATION] == list(operation)).all(axis=1)]
            _interval_panel(axes, here, rounds, contenders)
            _title(axes, operation, titles)
    return figure


def _interval_panel(axes, table: pd.DataFrame, rounds: pd.DataFrame, contenders: list[str]) -> None:
    name, scale = words.unit_of(table["median_ns"].median())
    # Student's interval of very few rounds can reach down to zero, which a logarithmic axis does not have.
    smallest = rounds["wall_ns"].astype(float).min() / scale
    for y, label in enumerate(contenders):
        own = rounds.loc[rounds["label"] == label, "wall_ns"].astype(float) / scale
        axes.plot(own, [y] * len(own), "o", ms=4, mfc="none", mec=ORANGE, mew=0.8, zorder=3)
        for cell in table[table["label"] == label].itertuples():
            centre = cell.median_ns if cell.interval.startswith("order") else cell.mean_ns
            axes.plot(
                [max(cell.low_ns / scale, smallest / 2), cell.high_ns / scale],
                [y, y],
                color=BLUE,
                lw=2.2,
                solid_capstyle="butt",
            )
            axes.plot([centre / scale] * 2, [y - 0.32, y + 0.32], color=BLUE, lw=1.6)
    for cell in table[table["role"] == "ceiling"].itertuples():
        axes.axvline(cell.mean_ns / scale, color=GREY, lw=1, ls=(0, (3, 2)), zorder=1)
    _rows(axes, contenders)
    _value_axis(axes, name)


def latencies(latency: pd.DataFrame, order: list[str], titles: dict):
    """One panel an operation of one workload: how often which latency, one hump a label, on a common log axis.

    `latency` is the long histogram table of one setting and workload; rounds are merged. The bar in a hump is the
    median, the tick at its right the 99th percentile.
    """
    quantiles = stats.latency_quantiles(latency, (0.5, 0.99))
    labels = [label for label in order if label in set(latency["label"])]
    with matplotlib.rc_context(STYLE):
        figure, panels = _panels(_operations(latency), len(labels))
        for axes, operation in zip(panels, _operations(latency), strict=False):
            here = latency[(latency[stats.OPERATION] == list(operation)).all(axis=1)]
            marks = quantiles[(quantiles[stats.OPERATION] == list(operation)).all(axis=1)].set_index("label")
            _latency_panel(axes, here, marks, labels)
            _title(axes, operation, titles)
    return figure


def _latency_panel(axes, latency: pd.DataFrame, marks: pd.DataFrame, labels: list[str]) -> None:
    name, scale = words.unit_of(marks["q0.5"].median())
    lowest = math.floor(math.log10(latency["lower_ns"].clip(lower=1).min()) * 12) / 12
    highest = math.log10(latency["upper_ns"].max())
    edges = 10 ** np.arange(lowest, highest + 2 / 12, 1 / 12)
    for y, label in enumerate(labels):
        own = latency[latency["label"] == label]
        if own.empty:
            axes.text(0.5, y, "no result", transform=axes.get_yaxis_transform(), ha="center", va="center", color=GREY)
            continue
        middle = ((own["lower_ns"] + own["upper_ns"]) / 2).to_numpy(float)
        height, _ = np.histogram(middle, edges, weights=own["count"].to_numpy(float))
        outline = y + 0.42 - 0.84 * np.append(height, 0) / height.max()
        colour = GREY if (own["role"] == "ceiling").all() else BLUE
        axes.fill_between(edges / scale, y + 0.42, outline, step="post", color=colour, alpha=0.45, lw=0)
        for column, reach in (("q0.5", 0.42), ("q0.99", 0.1)):
            axes.plot([marks.loc[label, column] / scale] * 2, [y + 0.42, y + 0.42 - 2 * reach], color=colour, lw=1.6)
    _rows(axes, labels)
    axes.set_xscale("log")
    _value_axis(axes, name)


def ranks(table: pd.DataFrame, pairs: pd.DataFrame):
    """Critical-difference picture: mean ranks of one setting; a bar joins those Nemenyi's test cannot tell apart.

    `table` and `pairs` are the two frames of stats.ranks. Without a test (fewer than three contenders or two
    operations) only the ranks are drawn.
    """
    positions = table.set_index("label")["mean_rank"].dropna()
    matrix = pd.DataFrame(1.0, index=positions.index, columns=positions.index)
    for pair in pairs.itertuples():
        matrix.loc[pair.a, pair.b] = matrix.loc[pair.b, pair.a] = pair.p
    with matplotlib.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(WIDTH, 0.7 + 0.17 * len(positions)))
        scikit_posthocs.critical_difference_diagram(
            positions,
            matrix,
            ax=axes,
            label_fmt_left="{label}  {rank:.2f}",
            label_fmt_right="{rank:.2f}  {label}",
            label_props={"fontsize": 8.5},
            elbow_props={"color": INK, "linewidth": 0.6},
            crossbar_props={"color": BLUE, "linewidth": 3} if len(pairs) else {"alpha": 0},
            marker_props={"marker": "o", "s": 14, "color": INK},
            text_h_margin=0.12,
        )
    return figure


def _operations(table: pd.DataFrame) -> list[tuple]:
    """The operations of a frame in the order of their phases."""
    keyed = table.assign(position=table.get("position", 0))
    keyed = keyed.sort_values(["workload", "scale", "position"], kind="stable").drop_duplicates(stats.OPERATION)
    return [tuple(row) for row in keyed[stats.OPERATION].itertuples(index=False)]


def _panels(operations: list, rows: int):
    """A grid of panels with the same labels at the left, two wide, or three if there are many."""
    columns = min(2 if len(operations) <= 6 else 3, max(1, len(operations)))
    lines = math.ceil(len(operations) / columns)
    figure, grid = plt.subplots(
        lines,
        columns,
        figsize=(WIDTH, lines * (0.62 + 0.155 * max(rows, 1))),
        squeeze=False,
        sharey=True,
        layout="constrained",
    )
    panels = list(grid.flat)
    for axes in panels[len(operations) :]:
        axes.remove()
    return figure, panels[: len(operations)]


def _title(axes, operation: tuple, titles: dict) -> None:
    """The words for an operation above its panel, in lines that end before the next panel."""
    workload, _, phase, cache = operation
    width = 84 // axes.get_gridspec().ncols
    title = textwrap.fill(titles.get((workload, phase, cache), f"{phase}, {cache}"), width)
    axes.set_title(title, loc="left", linespacing=1.0)


def _rows(axes, labels: list[str]) -> None:
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color=GREY, alpha=0.3, lw=0.5)
    axes.set_axisbelow(True)


def _value_axis(axes, unit: str) -> None:
    """Log axis with plain numbers if the values span a factor of eight or more, otherwise linear from its data."""
    axes.autoscale_view()
    data = axes.dataLim
    if data.x0 > 0 and data.x1 / data.x0 >= 8:
        axes.set_xscale("log")
        decades = math.log10(data.x1 / data.x0)
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if decades < 2 else (1,), numticks=12))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_xscale("linear")
        axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axes.set_xlabel(unit, labelpad=1)
