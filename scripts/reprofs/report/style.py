"""The shared style of figures: sizes, colours and lines, for seaborn and matplotlib alike.

Every figure is 6.6 inches wide, the width of the printed page, with text of 8 points or more. The same tables give the
same bytes. Ink is written as `currentColor`, so that figures are legible on white and on black. The colours are Okabe
and Ito's, distinguishable for the colour-blind.
"""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import matplotlib
import numpy
import pandas as pd
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure as Plot
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

WIDTH = 6.6  # inches
LETTER = 0.056  # inches, on average, of a label
HIGHEST = 9.2  # inches of a figure that fits on a page with its caption
INK, GREY, BLUE, ORANGE = "#101114", "#7f858d", "#0f82c4", "#d55e00"
COLOURS = [BLUE, ORANGE, "#009e73", "#cc79a7", INK, "#b8860b", GREY, "#56b4e9"]
STYLE: Any = {
    "svg.hashsalt": "reprofs",
    "svg.fonttype": "none",
    "text.parse_math": False,  # a $ in a title is one
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "axes.titlesize": 8.5,
    "axes.titlelocation": "left",
    "axes.labelsize": 8,
    "legend.fontsize": 8,
    "legend.title_fontsize": 8,
    "legend.frameon": False,
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
    "axes.grid": True,
    "axes.grid.axis": "both",
    "axes.axisbelow": True,
    "grid.color": GREY,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.2,
    "lines.markersize": 4.5,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "figure.figsize": (WIDTH, 3.2),
}
PLAIN = FuncFormatter(lambda value, _: f"{value:,.10g}")


def style() -> None:
    """Draw in the style of the report from here on: matplotlib's defaults, seaborn's colours, the same jitter each
    time."""
    numpy.random.seed(0)  # seaborn draws from NumPy's global generator
    matplotlib.rcParams.update(STYLE)
    matplotlib.rcParams["axes.prop_cycle"] = cycler("color", map(to_rgb, COLOURS))  # like seaborn.set_palette


def colours(names: Iterable[str]) -> dict[str, str]:
    """Name -> colour, for seaborn's `palette`: the same for the same list of names; they repeat after eight."""
    return dict(zip(names, itertools.cycle(COLOURS)))


def log(axes: Axes | Iterable[Axes], which: str = "x", most: int = 4) -> None:
    """A logarithmic axis (x or y) with plain numbers, no more than `most` of them."""
    for one in [axes] if isinstance(axes, Axes) else axes:
        one.set(**{f"{which}scale": "log"})
        axis = one.xaxis if which == "x" else one.yaxis
        axis.set_major_locator(Numbers(most))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(PLAIN)


class Numbers(LogLocator):
    """Marks of a logarithmic axis: the most round numbers that are no more than `most`."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def tick_values(self, vmin: float, vmax: float) -> list[float]:
        """The marks between two values."""
        powers = range(math.floor(math.log10(vmin)), math.ceil(math.log10(vmax)) + 1)
        sets = [[sub * 10.0**power for power in powers for sub in subs] for subs in ((1, 2, 5), (1, 3), (1,))]
        sets += [[10.0**power for power in powers if power % step == 0] for step in (2, 3, 4)]
        sets = [list(MaxNLocator(3).tick_values(vmin, vmax)), *sets] if vmax < 3 * vmin else sets
        inside = [[mark for mark in marks if vmin <= mark <= vmax] for marks in sets]
        fitting = [marks for marks in inside if len(marks) <= self.most and self._fit(marks, vmin, vmax)]
        alone = [marks[len(marks) // 2 :][:1] for marks in inside if marks]  # long numbers, close to each other
        return max(fitting, key=len, default=[]) or next(iter(alone), [])

    def _fit(self, marks: list[float], vmin: float, vmax: float) -> bool:
        """Whether the numbers of an axis along x do not touch."""
        axes = getattr(self.axis, "axes", None)
        if axes is None or self.axis is not axes.xaxis:
            return True
        letters = axes.get_window_extent().width * 72 / axes.figure.dpi / (0.64 * STYLE["xtick.labelsize"])
        places = [math.log(mark / vmin) / math.log(vmax / vmin) * letters for mark in marks]
        wide = [len(PLAIN(mark)) for mark in marks]
        return all(b - a > (x + y) / 2 + 1 for (a, b), (x, y) in zip(pairwise(places), pairwise(wide), strict=True))


def against(frame: pd.DataFrame, x: str, y: str, hue: str) -> Axes:
    """Two columns of positive numbers against each other, on logarithmic axes, with the line on which both are equal.

    Grey is where they differ by a quarter or less; the legend is above.
    """
    import seaborn  # takes a second, which parts of the report without a plot need not

    names = list(dict.fromkeys(frame[hue]))
    axes = seaborn.scatterplot(
        frame, x=x, y=y, hue=hue, style=hue, hue_order=names, style_order=names, palette=colours(names), s=40, zorder=3
    )
    limits = (frame[y].min() / 1.5, frame[y].max() * 2)
    ends = pd.Series([frame[x].min() / 1.1, frame[x].max() * 1.1])
    axes.plot(ends, ends, color=INK, lw=0.8)
    axes.fill_between(ends, ends / 1.25, ends * 1.25, color=GREY, alpha=0.2, lw=0)
    for which in "xy":
        log(axes, which, 6)
    axes.set(ylim=limits)
    axes.legend(title="", loc="lower center", bbox_to_anchor=(0.5, 1), ncols=3)
    return axes


def heatmap(colour: pd.DataFrame, text: pd.DataFrame, **options: Any) -> Axes:
    """Rows and columns as coloured fields with the numbers of `text` in them; the names of columns are above.

    Names that would touch have a line for each option; if they still would, they are upright, in lines of 24 letters.
    options: those of seaborn.heatmap.
    """
    import seaborn  # takes a second, which parts of the report without a plot need not

    usual = {"fmt": "g", "cbar": False, "linewidths": 1, "xticklabels": True, "yticklabels": True}
    axes = seaborn.heatmap(colour, annot=text, **(usual | options))
    names = [label.get_text() for label in axes.get_xticklabels()]
    rows = max((len(label.get_text()) for label in axes.get_yticklabels()), default=0)
    room = (WIDTH / LETTER - rows) / max(len(names), 1) - 1  # letters above a column
    tries = [names, [name.replace("+", "\n+") for name in names]]
    flat = next((lines for lines in tries if max(map(len, "\n".join(lines).split("\n"))) <= room), None)
    axes.set(xlabel="", ylabel="", xticklabels=flat or [textwrap.fill(name, 24) for name in names])
    axes.xaxis.tick_top()
    axes.tick_params(axis="x", rotation=0 if flat else 90, length=0)
    axes.tick_params(axis="y", rotation=0)
    top = 0.9 if flat else 0.7 + 0.07 * min(24, max(map(len, names), default=0))
    axes.figure.set_size_inches(WIDTH, top + 0.19 * len(colour))
    return axes


def panels(draw: Any, frame: pd.DataFrame, high: float, col: str = "operation", **options: Any) -> Any:
    """A grid of seaborn drawn by `draw` (catplot, displot): a panel for each value of `col`, three abreast.

    high: inches of a panel. x axes are the panels' own. options: those of `draw`.
    """
    import seaborn  # takes a second, which parts of the report without a plot need not

    usual: dict[str, Any] = {"col_wrap": 3, "height": high, "aspect": 2.2 / high}
    usual |= {"col_order": list(dict.fromkeys(frame[col]))}
    usual |= {"sharex": False} if draw is seaborn.catplot else {"facet_kws": {"sharex": False}}
    grid = draw(frame, col=col, **(usual | options))
    titles(grid)
    return grid


def titles(grid: Any, words: str = "{col_name}", letters: int = 30) -> None:
    """The titles of a grid of seaborn, in lines that are no longer than that many letters."""
    grid.set_titles(words)
    for axes in grid.axes.flat:
        axes.set_title(textwrap.fill(axes.get_title("left"), letters), linespacing=1.0)


def legend(grid: Any, columns: int = 4) -> None:
    """The legend of a grid of seaborn above its panels, without a title."""
    old = grid.legend
    if old is None:
        return
    handles, names = old.legend_handles, [text.get_text() for text in old.get_texts()]
    old.remove()
    grid.figure.legend(handles, names, loc="outside upper center", ncols=columns)


def lines(frame: pd.DataFrame, x: str, y: str, col: str = "operation", **options: Any) -> Any:
    """A grid of seaborn: y against x, a line with marks for each label, a panel for each value of `col`, three abreast.

    The legend is above, y axes are the panels' own. options: those of seaborn.relplot.
    """
    import seaborn  # takes a second, which parts of the report without a plot need not

    names = sorted(set(frame["label"]))
    usual: dict[str, Any] = {"hue": "label", "hue_order": names, "palette": colours(names), "style": "label"}
    usual |= {"kind": "line", "markers": True, "errorbar": None, "height": 1.9, "aspect": 1.15, "col_wrap": 3}
    usual |= {"facet_kws": {"sharey": False}, "col_order": list(dict.fromkeys(frame[col]))}
    usual |= options
    grid = seaborn.relplot(frame, x=x, y=y, col=col, **usual)
    titles(grid, letters=90 // (usual["col_wrap"] or 3))
    legend(grid)
    return grid


def fit(plot: Plot) -> Plot:
    """The figure at the width of the page and no higher than it; axes as they fit."""
    width, height = plot.get_size_inches()
    plot.set_size_inches(WIDTH, min(HIGHEST, height * WIDTH / width))
    if any(axes.get_subplotspec() for axes in plot.axes):  # not where all stand where they were put
        plot.set_layout_engine("constrained")  # a grid of seaborn comes with another
    return plot


def pages(frame: pd.DataFrame, column: str, inches: float, wide: int = 3) -> list[pd.DataFrame]:
    """The frame in parts that fit on a page each, when every value of a column is a panel so many inches high.

    wide: panels side by side.
    """
    values = list(dict.fromkeys(frame[column]))
    most = wide * max(1, int(HIGHEST / inches))
    return [frame[frame[column].isin(values[first : first + most])] for first in range(0, len(values), most)]
