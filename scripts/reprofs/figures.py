"""Figures as SVG: the same bytes for the same tables, ink in `currentColor` so that they read on white and on black.

Every figure is 6.6 inches wide, the width of the printed page, with text of 8 points or more. Text is drawn as paths: a
figure looks the same on a machine without the font. Colours are Okabe and Ito's, distinguishable to the colour-blind.
"""

import io
import itertools
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
from .project import place

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


def picture(item: words.Item, folder: str | Path | None = None) -> words.Picture:
    """The figure as a notebook shows it: as it was saved in `folder` (below the checkout), or drawn now."""
    path = place(folder) / f"{item.name}.svg" if folder else None
    text = path.read_text() if path and path.exists() else svg(item.draw())
    return words.Picture(item.name, text, item.caption, item.alt)


def svg(figure) -> str:
    """A figure as SVG; it is closed."""
    with matplotlib.rc_context(STYLE):
        text = io.StringIO()
        figure.savefig(
            text, format="svg", metadata={"Date": None, "Creator": None}, bbox_inches="tight", pad_inches=0.03
        )
    plt.close(figure)
    return re.sub(INK, "currentColor", text.getvalue())


def save(figure, path: str | Path) -> Path:
    """Write a figure as SVG, below the checkout if the path is relative, under a temporary name first; close it."""
    path = place(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(svg(figure))
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


def grid(table: pd.DataFrame, rows: list[str], titles: dict):
    """A value for each row and operation, operations from left to right: for many stacks or many file systems.

    `table` has the columns row, value, shown and those of an operation, of one workload; `rows` are named from the top.
    The darker a cell, the longer it took, on a logarithmic scale; where `shown` is false it has no colour.
    """
    found = operations(table)
    values = table.set_index(["row", *stats.OPERATION])[["value", "shown"]].to_dict("index")
    known = table.loc[table["shown"], "value"].dropna()
    # At least from 1 to 2, so that small differences stay pale.
    norm = LogNorm(min([1.0, *known]), max([2.0, *known]))
    colours = matplotlib.colormaps["cividis_r"]
    with matplotlib.rc_context(STYLE):
        figure = plt.figure(figsize=(WIDTH, 1.5 + 0.205 * len(rows)))
        # Inches: the names at the left, the titles of the operations above, every row of one height.
        left, height = 0.2 + 0.07 * max(map(len, rows)), figure.get_size_inches()[1]
        axes = figure.add_axes((left / WIDTH, 0, 1 - left / WIDTH, 1 - 1.5 / height))
        for y, name in enumerate(rows):
            axes.text(-0.6, y, name, ha="right", va="center")
            for x, operation in enumerate(found):
                cell = values.get((name, *operation), {"value": math.nan, "shown": False})
                _heat_cell(axes, x, y, cell["value"], colours(norm(cell["value"])) if cell["shown"] else None)
        for x, (workload, _, phase, cache) in enumerate(found):
            title = textwrap.fill(titles.get((workload, phase, cache), f"{phase}, {cache}"), 20, max_lines=3)
            axes.text(x, -0.62, title, ha="center", va="bottom", rotation=90, linespacing=0.95)
        axes.set_xlim(-0.5, max(len(found), 6) - 0.5)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.axis("off")
    return figure


# Told apart by shape and dash, so that they are in grey as well.
LINES = [
    (BLUE, "o", "-"),
    (ORANGE, "s", "--"),
    ("#009e73", "^", "-."),
    ("#cc79a7", "D", ":"),
    (INK, "v", (0, (5, 1, 1, 1, 1, 1))),
    ("#b8860b", "P", (0, (1, 1))),
    (GREY, "X", (0, (8, 2))),
    ("#56b4e9", "<", (0, (3, 1, 1, 1))),
]


def disks(table: pd.DataFrame, families: dict[str, list[str]], counts: dict[str, int], titles: dict):
    """Time against the number of disks: one panel an operation, one line a family of stacks, bars are intervals.

    `table` is stats.statistics of one lab, profile, workload and file system; `families` maps a family to its stacks;
    `counts` a stack to its number of disks. A family of one stack is a lone mark; `single` is a broken line as well.
    """
    found = operations(table)
    cells = table.set_index(["stack", *stats.OPERATION])
    numbers = sorted({counts[name] for names in families.values() for name in names})
    columns = min(3, len(found))
    lines = math.ceil(len(found) / columns)
    with matplotlib.rc_context(STYLE):
        legend = 0.17 * math.ceil(len(families) / 4)
        figure, panels = _grid(lines, columns, len(found), 0.25 + legend + 1.3 * lines)
        for axes, operation in zip(panels, found, strict=False):
            here = cells[(cells.index.droplevel(0) == operation)].droplevel(stats.OPERATION)
            _disks_panel(axes, here, families, counts)
            axes.set_xscale("log", base=2)
            axes.set_xticks(numbers, [str(number) for number in numbers])
            axes.xaxis.set_minor_locator(NullLocator())
            axes.set_xlim(numbers[0] / 1.35, numbers[-1] * 1.35)
            _title(axes, operation, titles)
        figure.supxlabel("disks", fontsize=8)
        _legend(figure, dict(zip(families, itertools.cycle(LINES))))
    return figure


def _disks_panel(axes, cells: pd.DataFrame, families: dict, counts: dict) -> None:
    name, scale = words.unit_of(cells["median_ns"].median())
    for (family, stacks), (colour, marker, dash) in zip(families.items(), itertools.cycle(LINES), strict=False):
        own = cells.loc[[stack for stack in stacks if stack in cells.index]]
        if own.empty:
            continue
        x = [counts[stack] for stack in own.index]
        centre = np.where(own["n"] >= stats.ENOUGH, own["median_ns"], own["mean_ns"]).astype(float) / scale
        bounds = own[["low_ns", "high_ns"]].to_numpy(float).T / scale
        reach = np.nan_to_num(np.abs(bounds - centre))  # one round has no interval
        style = {"color": colour, "marker": marker, "ls": dash, "ms": 3.6, "lw": 1.1, "elinewidth": 0.8, "capsize": 1.5}
        axes.errorbar(x, centre, yerr=reach, **style)
        if family == "single":
            axes.axhline(centre[0], color=colour, lw=0.8, ls=dash, zorder=1)
    axes.set_ylabel(name, labelpad=1)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.grid(axis="y", color=GREY, alpha=0.3, lw=0.5)
    axes.set_axisbelow(True)


def agreement(table: pd.DataFrame, labs: tuple[str, str], titles: dict):
    """Relative cost in two labs: one panel an operation, one mark a file system, the identity as a broken line.

    `table` has the columns label, x, y and those of an operation: the cost in the first and in the second lab relative
    to the geometric mean of the file systems, without unit.
    """
    found = operations(table)
    low, high = table[["x", "y"]].min(axis=None) / 1.3, table[["x", "y"]].max(axis=None) * 1.3
    marks = dict(zip(sorted(table["label"].unique()), itertools.cycle(LINES)))
    columns = min(3, len(found))
    lines = math.ceil(len(found) / columns)
    with matplotlib.rc_context(STYLE):
        side = min((WIDTH - 0.3) / columns, 3.5)
        figure, panels = _grid(lines, columns, len(found), 0.55 + side * lines, sharex=True, sharey=True)
        for axes, operation in zip(panels, found, strict=False):
            axes.plot([low, high], [low, high], color=GREY, lw=0.8, ls=(0, (3, 2)), zorder=1)
            for point in table[(table[stats.OPERATION] == list(operation)).all(axis=1)].itertuples():
                colour, marker, _ = marks[point.label]
                axes.plot(point.x, point.y, ls="", marker=marker, ms=5, mfc="none", mec=colour, mew=1.3, zorder=3)
            axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high), aspect="equal")
            for axis in (axes.xaxis, axes.yaxis):
                axis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=7))
                axis.set_minor_locator(NullLocator())
                axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
            axes.tick_params(labelbottom=True, labelleft=True)
            _title(axes, operation, titles)
        figure.supxlabel(f"relative cost, lab {labs[0]}", fontsize=8)
        figure.supylabel(f"relative cost, lab {labs[1]}", fontsize=8)
        _legend(
            figure, {label: (colour, marker, "") for label, (colour, marker, _) in marks.items()}, mfc="none", mew=1.3
        )
    return figure


def _legend(figure, entries: dict[str, tuple], **style) -> None:
    """Names of lines or marks above the panels."""
    handles = [
        plt.Line2D([], [], color=colour, marker=marker, ls=dash, ms=4.5, lw=1.2, label=name, **style)
        for name, (colour, marker, dash) in entries.items()
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=4, frameon=False, fontsize=8, handlelength=3.2)


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
        figure, panels = _panels(operations(table), len(contenders))
        for axes, operation in zip(panels, operations(table), strict=False):
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
        figure, panels = _panels(operations(latency), len(labels))
        for axes, operation in zip(panels, operations(latency), strict=False):
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
        drawn = scikit_posthocs.critical_difference_diagram(
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
        # The points of a bar come from a set, which has another order in every process.
        for line in itertools.chain(*drawn["crossbars"]):
            line.set_xdata(sorted(line.get_xdata()))
    return figure


def operations(table: pd.DataFrame) -> list[tuple]:
    """The operations of a frame in the order of their phases."""
    keyed = table.assign(position=table.get("position", 0))
    keyed = keyed.sort_values(["workload", "scale", "position"], kind="stable").drop_duplicates(stats.OPERATION)
    return [tuple(row) for row in keyed[stats.OPERATION].itertuples(index=False)]


HIGHEST = 9.2  # inches of a figure that fits on a page with its caption


def _panel_height(rows: int) -> float:
    return 0.62 + 0.155 * max(rows, 1)


def _columns(count: int, rows: int) -> int:
    """Panels beside each other: two, or three if there are many or they are high."""
    narrow = count <= 6 and math.ceil(count / 2) * _panel_height(rows) <= HIGHEST
    return min(2 if narrow else 3, max(1, count))


def panels_on_a_page(count: int, rows: int) -> int:
    """How many of `count` panels with so many rows fit into one figure."""
    return _columns(count, rows) * max(1, int(HIGHEST / _panel_height(rows)))


def _panels(operations: list, rows: int):
    """A grid of panels with the same labels at the left."""
    columns = _columns(len(operations), rows)
    lines = math.ceil(len(operations) / columns)
    return _grid(lines, columns, len(operations), lines * _panel_height(rows), sharey=True)


def _grid(lines: int, columns: int, count: int, height: float, **options):
    """A figure of that height in inches with `count` panels."""
    size = (WIDTH, height)
    figure, grid = plt.subplots(lines, columns, figsize=size, squeeze=False, layout="constrained", **options)
    panels = list(grid.flat)
    for axes in panels[count:]:
        axes.remove()
    return figure, panels[:count]


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
        axes.xaxis.set_major_locator(
            LogLocator(subs=(1, 2, 5) if decades < 2 else (1,), numticks=12 if decades < 3.5 else 4)
        )
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_xscale("linear")
        axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axes.set_xlabel(unit, labelpad=1)
