"""Power laws of a study extrapolated to published sizes: table and figure of a place with several sizes."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from reprofs.data.keys import CONFIGURATION, Configuration, Phase, select
from reprofs.report.display import Table, confidence, count, digits, slug, small, span
from reprofs.report.plots import INK, Figure, Plot, grid, grid_lines, legend, marks, power, styled
from reprofs.stats import scaling
from reprofs.stats.published.growth import Growth

HOUR = 3.6e12  # ns


def table(growth: Growth) -> Table:
    """One row per published number: the power law, and the hours that it gives beside the published ones."""
    near = growth.near
    shown = [
        {
            "Operation": row["title"],
            "File system": row["label"],
            "Sizes": row["n"],
            "Exponent": digits(row["exponent"], 3),
            "95 % interval": confidence(row["low"], row["high"], significant=3),
            "Last step": digits(row["last"], 3),
            "p of the fit": small(row["fit_p"]),
            "Published size": f"{row['published_size']:,}",
            "By the law, h": digits(row["expected_ns"] / HOUR, 3),
            **({"95 % prediction, h": span(row["expected_low_ns"], row["expected_high_ns"], HOUR, 3)} if near else {}),
            "With a knee, h": digits(row["by_last_ns"] / HOUR, 3),
            "Published, h": digits(row["published_ns"] / HOUR, 3) + _range(row),
        }
        for row in growth.laws.to_dict("records")
    ]
    caption = (
        f"Power laws of time over {growth.sides.counted} ({count(len(growth.sizes), 'size')},"
        " geometric means of the rounds), and two scenarios for the published size: the law goes on, or it has a knee"
        " at the largest size and goes on with the exponent of the last step. p of the fit: below 0.05 the times"
        " measured"
        " are no power law (lack of fit against the spread of the rounds). In brackets quartiles or range of the"
        " published runs."
    )
    if near:
        caption += " Within half a decade of the sizes measured, 95 % prediction interval of the law."
    return Table(f"tbl-{slug('growth', growth.place)}", caption, shown, left=["Operation", "File system"])


def _range(row: dict) -> str:
    low, high = row["published_low_ns"], row["published_high_ns"]
    return f" ({span(low, high, HOUR, 3)})" if high > low else ""


def figure(growth: Growth) -> Figure:
    """Times over sizes with their power laws up to the published times."""
    unit = growth.sides.counted
    titles = {Phase(row.phase, row.cache): row.title for row in growth.laws.itertuples()}
    caption = (
        f"{growth.place.workload}: time against {unit}. Small marks are measurements of this study, lines their power"
        " laws, broken where nothing was measured, dotted with the exponent of the last step; filled marks are"
        " published times."
    )
    alt = f"{count(len(titles), 'panel')}, one an operation; the table of the laws has the numbers."
    plot = laws(growth.times, growth.laws, titles, unit)
    return Figure(slug("growth", growth.place), caption, alt, plot)


@styled
def laws(times: pd.DataFrame, table: pd.DataFrame, titles: dict[Phase, str], unit: str) -> Plot:
    """Seconds over sizes with their power laws up to the published sizes, one panel per operation.

    See `Growth`.
    """
    found = marks(sorted(set(table["label"])))
    lines = math.ceil(len(titles) / 2)
    figure, panels = grid(lines, min(2, len(titles)), len(titles), 0.5 + 2.3 * lines)
    for axes, (phase, title) in zip(panels, titles.items(), strict=True):
        published = select(table, phase)
        keys = published[CONFIGURATION].itertuples(index=False, name=None)
        for configuration in dict.fromkeys(Configuration(*key) for key in keys):
            own, mark = select(times, configuration, phase), found[configuration.label]
            size, seconds = own["size"].to_numpy(float), own["wall_ns"].to_numpy(float) / 1e9
            _law(axes, size, seconds, select(published, configuration), mark)
        axes.set(xscale="log", yscale="log")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(LogLocator(numticks=7))
            axis.set_minor_locator(NullLocator())
            axis.set_major_formatter(FuncFormatter(power))
        axes.set_title(title, loc="left")
        grid_lines(axes, "both")
    figure.supxlabel(unit, fontsize=8)
    figure.supylabel("time, s", fontsize=8)
    legend(figure, {label: (colour, marker, "-") for label, (colour, marker, _) in found.items()}, mfc="none", mew=1.2)
    return figure


def _law(axes: Axes, sizes: np.ndarray, seconds: np.ndarray, published: pd.DataFrame, mark: tuple) -> None:
    colour, marker, _ = mark
    axes.plot(sizes, seconds, ls="", marker=marker, ms=3.5, mfc="none", mec=colour, mew=1, zorder=3)
    reach = published["published_size"].max()
    for low, high, style in ((sizes.min(), sizes.max(), "-"), (sizes.max(), reach, (0, (4, 2)))):
        at = np.geomspace(low, high, 40)
        law = scaling.extrapolate(sizes, seconds, at)
        axes.plot(at, law["time"], color=colour, lw=1.1, ls=style)
        if style != "-":
            axes.fill_between(at, law["low"].astype(float), law["high"].astype(float), color=colour, alpha=0.15, lw=0)
            axes.plot(at, scaling.by_last(sizes, seconds, at), color=colour, lw=1.1, ls=(0, (1, 2)))
    points = (published["published_size"], published["published_ns"] / 1e9)
    axes.plot(*points, ls="", marker=marker, ms=7, mfc=colour, mec=INK, mew=0.8, zorder=4)
