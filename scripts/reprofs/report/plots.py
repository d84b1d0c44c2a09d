"""How figures are drawn: style, panels, axes. What is drawn is in the module of each topic.

The same tables give the same bytes; ink is `currentColor`, so that figures are legible on white and on black. Every
figure is 6.6 inches wide, the width of the printed page, with text of 8 points or more. The colours are Okabe and
Ito's, distinguishable for the colour-blind.
"""

from __future__ import annotations

import functools
import itertools
import math
import textwrap
from collections.abc import Callable, Iterable
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.axis import Axis
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure as Plot
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from reprofs.data.keys import OPERATION, natural
from reprofs.report.display import DASH
from reprofs.report.display import size as bytes_text
from reprofs.report.show import Figure as Figure
from reprofs.report.show import svg as svg

matplotlib.use("agg")
WIDTH = 6.6
INK, GREY, BLUE, ORANGE = "#101114", "#7f858d", "#0f82c4", "#d55e00"
# Drawn in this ink, written as currentColor: the page decides what it is.
STYLE: Any = {
    "svg.hashsalt": "reprofs",
    "svg.fonttype": "none",
    "text.parse_math": False,  # a $ in a title is one
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
# They differ in shape and dash, so that they can be distinguished in grey too.
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


def styled(draw: Callable[..., Plot]) -> Callable[..., Plot]:
    """Decorator: draws in the style of the report, and returns a figure that belongs to the caller alone."""

    @functools.wraps(draw)
    def drawn(*args, **options) -> Plot:
        with matplotlib.rc_context(STYLE):
            plot = draw(*args, **options)
        plt.close(plot)  # pyplot forgets it, so that nothing shows or keeps it a second time
        return plot

    return drawn


# ---- operations, panels and pages ----------------------------------------------------------------------


def operations(table: pd.DataFrame) -> list[tuple]:
    """The operations of a frame in the order of their phases."""
    keyed = table.assign(position=table.get("position", 0))
    keyed = keyed.sort_values("position", kind="stable").drop_duplicates(OPERATION)
    keyed = keyed.sort_values(["workload", "scale"], kind="stable", key=lambda names: names.map(natural))
    return [tuple(row) for row in keyed[OPERATION].itertuples(index=False)]


HIGHEST = 9.2  # inches of a figure that fits on a page with its caption


def _panel_height(rows: int) -> float:
    """Inches of a panel: a title of two lines, the numbers of its axis, and rows as high as their letters."""
    return 0.56 + 0.13 * max(rows, 1)


def _columns(count: int, rows: int) -> int:
    """The number of panels side by side: two, or three if there are many or they are high."""
    narrow = count <= 6 and math.ceil(count / 2) * _panel_height(rows) <= HIGHEST
    return min(2 if narrow else 3, max(1, count))


def pages(frame: pd.DataFrame, rows: int) -> list[pd.DataFrame]:
    """The frame in parts whose operations fit on a page together, each a panel with that many rows."""
    found = operations(frame)
    size = _columns(len(found), rows) * max(1, int(HIGHEST / _panel_height(rows)))
    keys = pd.MultiIndex.from_frame(frame[OPERATION])
    return [frame[keys.isin(found[start : start + size])] for start in range(0, len(found), size)]


def part(name: str, caption: str, number: int, pages: int) -> tuple[str, str]:
    """Name and caption of one of several pages of a figure."""
    return (name, caption) if pages == 1 else (f"{name}-{number + 1}", f"{caption} Part {number + 1} of {pages}.")


def panels(operations: list, rows: int):
    """A grid of panels with the same labels at the left."""
    columns = _columns(len(operations), rows)
    lines = math.ceil(len(operations) / columns)
    return grid(lines, columns, len(operations), lines * _panel_height(rows), sharey=True)


def grid(lines: int, columns: int, count: int, height: float, **options):
    """A figure of `lines` by `columns` panels, `height` inches high, of which `count` are used."""
    size = (WIDTH, height)
    figure, grid = plt.subplots(lines, columns, figsize=size, squeeze=False, layout="constrained", **options)
    figure.get_layout_engine().set(w_pad=0.08)  # inches, for the last number of a panel and the first of the next
    panels = list(grid.flat)
    for axes in panels[count:]:
        axes.remove()
    return figure, panels[:count]


def title(axes, operation: tuple, words: Callable[[str, str, str], str], unit: str = "") -> None:
    """The words for an operation, and the unit of its axis, above its panel, in two lines as wide as it."""
    workload, _, phase, cache = operation
    width = 84 // axes.get_gridspec().ncols
    end = f", {unit}" if unit else ""
    text = textwrap.shorten(words(workload, phase, cache), 2 * width - len(end) - 8, placeholder=" …") + end
    axes.set_title(textwrap.fill(text, width), loc="left", linespacing=1.0)


def column(cells: dict, height: float, sharex: bool = True):
    """A figure with one panel per cell, one below the other, along the same axis or not, height in inches each."""
    size = (WIDTH, 0.55 + height * len(cells))
    figure, grid = plt.subplots(len(cells), 1, figsize=size, squeeze=False, sharex=sharex, layout="constrained")
    return figure, list(grid.flat)


def panel_title(axes, title: str, told: str) -> None:
    axes.set_title(title, loc="left", fontweight="bold")
    axes.set_title(told, loc="right", fontsize=8)


# ---- axes ----------------------------------------------------------------------------------------------------


def rows(axes, labels: list[str]) -> None:
    """Makes the labels the rows of an axis, from the top."""
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color=GREY, alpha=0.3, lw=0.5)
    axes.set_axisbelow(True)


def value_axis(axes, unit: str = "") -> None:
    """Log axis with plain numbers if the values span a factor of eight or more, otherwise linear from its data."""
    axes.autoscale_view()
    data = axes.dataLim
    if data.x0 > 0 and data.x1 / data.x0 >= 8:
        log_axis(axes, "x")
    else:
        axes.set_xscale("linear")
        centre, half = (data.x0 + data.x1) / 2, (data.x1 - data.x0) / 2
        if half < NARROW * abs(centre):
            axes.set_xlim(centre * (1 - NARROW), centre * (1 + NARROW))
        axes.xaxis.set_major_locator(Few(axes.xaxis))
        axes.xaxis.set_major_formatter(PLAIN)
    if unit:
        axes.set_xlabel(unit, labelpad=1)


def log_axis(axes, which: str) -> None:
    """Makes the axis x or y logarithmic, with plain numbers, also where its data span less than a power of ten."""
    axis = getattr(axes, f"{which}axis")
    axes.set(**{f"{which}scale": "log"})
    axis.set_major_locator(Numbers(axis))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(PLAIN)


class Numbers(LogLocator):
    """Marks of a logarithmic axis: as many round numbers as stand beside each other, written plainly."""

    LADDERS = ((1,), (2,), (5,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 5, 7))

    def __init__(self, along: Axis) -> None:
        super().__init__()
        self.along = along

    def tick_values(self, vmin: float, vmax: float) -> list[float]:
        powers = [10.0**power for power in range(math.floor(math.log10(vmin)), math.ceil(math.log10(vmax)) + 1)]
        sets = [powers[first::step] for step in (4, 3, 2) for first in range(step)]
        sets += [[sub * power for power in powers for sub in ladder] for ladder in self.LADDERS]
        sets += [list(MaxNLocator(count).tick_values(vmin, vmax)) for count in (2, 3, 4)]
        inside = [[tick for tick in ticks if vmin <= tick <= vmax] for ticks in sets]
        place = {tick: math.log(tick / vmin) / math.log(vmax / vmin) for ticks in inside for tick in ticks}
        for lines in (2, 1.3):  # one number alone says nothing of a logarithmic axis, so two may stand closer
            found = max((ticks for ticks in inside if fit(self.along, place, ticks, lines)), key=len, default=[])
            if len(found) > 1:
                break
        return found


class Few(MaxNLocator):
    """Marks of a linear axis: up to four, as many as stand beside each other."""

    def __init__(self, along: Axis) -> None:
        super().__init__(4)
        self.along = along

    def tick_values(self, vmin: float, vmax: float) -> list[float]:
        sets = [MaxNLocator(count).tick_values(vmin, vmax) for count in (4, 3, 2, 1)]
        inside = [[tick for tick in ticks if vmin <= tick <= vmax] for ticks in sets]
        place = {tick: (tick - vmin) / (vmax - vmin) for ticks in inside for tick in ticks}
        return next((ticks for ticks in inside if ticks and fit(self.along, place, ticks)), [])


NARROW = 0.0025  # an axis reaches that share of its centre to both sides, or a spread of nothing would fill it
FONT = STYLE["xtick.labelsize"]  # points
NUMERAL = 0.64 * FONT  # width


def fit(along: Axis, place: dict[float, float], ticks: list[float], lines: float = 2) -> bool:
    """Whether the numbers of an axis do not touch; `place` is where they are, from 0 to 1, `lines` how high each is."""
    axes = along.axes
    across, box = along is axes.xaxis, axes.get_window_extent()
    points = (box.width if across else box.height) * 72 / axes.figure.dpi
    for a, b in itertools.pairwise(ticks):
        letters = (len(PLAIN(a)) + len(PLAIN(b))) / 2 + 1.5
        if (place[b] - place[a]) * points < (NUMERAL * letters if across else lines * FONT):
            return False
    return True


def whole_axis(axes) -> None:
    """Whole numbers along x, with few marks."""
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))


def rate_axis(axes) -> None:
    """Rates from zero upwards, with few marks."""
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_locator(MaxNLocator(4))
    grid_lines(axes)


def grid_lines(axes, which: str = "y") -> None:
    """Faint lines behind the data."""
    axes.grid(axis=which, color=GREY, alpha=0.3, lw=0.5)
    axes.set_axisbelow(True)


def power(value: float, _) -> str:
    """A number on a logarithmic axis: plain if it is short or not a power of ten."""
    exponent = round(math.log10(value)) if value > 0 else 0
    short = -3 < exponent < 5 or not math.isclose(value, 10.0**exponent)
    return f"{value:,.10g}" if short else f"$10^{{{exponent}}}$"


PLAIN = FuncFormatter(lambda value, _: f"{value:,.10g}")


def short_size(size: float) -> str:
    """A size on an axis: 4 K, 16 M."""
    return bytes_text(size).replace("iB", "")


def legend(figure, entries: dict[str, tuple], **style) -> None:
    """Names of lines or marks above the panels."""
    handles = [
        plt.Line2D([], [], color=colour, marker=marker, ls=dash, ms=4.5, lw=1.2, label=name, **style)
        for name, (colour, marker, dash) in entries.items()
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=4, frameon=False, fontsize=8, handlelength=3.2)


def marks(names: Iterable[str]) -> dict[str, tuple]:
    """name -> (colour, marker, dash), the same for the same name within a figure; they repeat after eight."""
    return dict(zip(names, itertools.cycle(LINES)))


def by_system(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Rows by label, with the stack or the phase where there are several, in the frame's order."""
    if frame.empty:
        return {}
    keys = ["label", *(key for key in ("stack", "phase") if key in frame and frame[key].nunique() > 1)]
    return {", ".join(key): own for key, own in frame.groupby(keys, sort=False)}


# ---- heat maps -----------------------------------------------------------------------------------------------


@styled
def heat_grid(table: pd.DataFrame, rows: list[str], words: Callable[[str, str, str], str]) -> Plot:
    """A value for each row and operation, operations from left to right: for many stacks or many file systems.

    `table` has the columns row, value, shown and those of an operation, of one workload; `rows` are named from the top.
    The darker a cell, the longer it took, on a logarithmic scale; where `shown` is false it has no colour.
    """
    found = operations(table)
    values = table.set_index(["row", *OPERATION])[["value", "shown"]].to_dict("index")
    known = table.loc[table["shown"], "value"].dropna()
    # At least from 1 to 2, so that small differences stay pale.
    norm = LogNorm(min([1.0, *known]), max([2.0, *known]))
    colours = matplotlib.colormaps["cividis_r"]
    figure = plt.figure(figsize=(WIDTH, 1.5 + 0.205 * len(rows)))
    # Inches: the names at the left, the titles of the operations above, every row of one height.
    left, height = 0.2 + 0.07 * max(map(len, rows)), figure.get_size_inches()[1]
    axes = figure.add_axes((left / WIDTH, 0, 1 - left / WIDTH, 1 - 1.5 / height))
    for y, name in enumerate(rows):
        axes.text(-0.6, y, name, ha="right", va="center")
        for x, operation in enumerate(found):
            cell = values.get((name, *operation), {"value": math.nan, "shown": False})
            heat_cell(axes, x, y, cell["value"], colours(norm(cell["value"])) if cell["shown"] else None)
    for x, (workload, _, phase, cache) in enumerate(found):
        name = textwrap.fill(words(workload, phase, cache), 20, max_lines=3)
        axes.text(x, -0.62, name, ha="center", va="bottom", rotation=90, linespacing=0.95)
    axes.set_xlim(-0.5, max(len(found), 6) - 0.5)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.axis("off")
    return figure


def columns(labels: list[str], room: int) -> tuple[list[str], int]:
    """What stands over columns of file systems, in lines, and by how many degrees it is turned to fit.

    room: characters that all of them have together, side by side.
    """
    lines = [label.replace("+", "\n+") for label in labels]
    longest = max(len(line) for name in lines for line in name.split("\n"))
    return lines, 90 if longest * len(lines) > room else 0


def heat_cell(axes, x: float, y: float, value: float, colour) -> None:
    """A number on its colour; without a colour just the number, without a number a dash."""
    if math.isnan(value):
        axes.text(x, y, DASH, ha="center", va="center", color=GREY)
        return
    ink = INK
    if colour is not None:
        axes.add_patch(Rectangle((x - 0.48, y - 0.46), 0.96, 0.92, facecolor=colour, edgecolor="none"))
        ink = "#ffffff" if np.dot(colour[:3], (0.299, 0.587, 0.114)) < 0.55 else "#000000"
    text = f"{value:.2f}" if value < 9.995 else f"{value:.1f}" if value < 99.95 else f"{value:,.0f}"
    axes.text(x, y, text, ha="center", va="center", color=ink, fontweight="bold" if value == 1 else "normal")
