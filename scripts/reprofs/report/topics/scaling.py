"""Time against size: the exponent of the power law for each operation, and its extrapolation."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from reprofs.data.keys import Setting
from reprofs.report.display import Table, confidence, digits, listing, slug, small, unit_of
from reprofs.report.plots import Figure, Plot, grid, grid_lines, legend, marks, power, styled
from reprofs.stats import scaling, series
from reprofs.stats.compare import holm
from reprofs.stats.study import Study

PANELS = 6  # on a page


def measurements(study: Study) -> dict[tuple[Setting, str], pd.DataFrame]:
    """By setting and workload without its size: the phases that completed at several sizes.

    Rows of the table of the phases, with size, unit, and the words for the operation as phase.
    """
    found = {}
    for setting in study.settings:
        for workload, own in scaling.sized(study.phases, study.plan.workloads, setting).items():
            titles = [study.title(row.workload, row.phase, row.cache) for row in own.itertuples()]
            found[setting, workload] = own.assign(phase=titles)
    return found


def facts(own: pd.DataFrame) -> dict:
    """What sizes there are, and which operation grows the least and the most; own: one of `measurements`.

    Keys: unit, sizes; least, most (rows of `scaling.table` as dictionaries); laws, broken (how many, and of how
    many the fit is refuted at 5 % after Holm's correction), tested (how many could be).
    """
    found = scaling.table(own, "size").sort_values("exponent", kind="stable")
    rows, sizes = found.to_dict("records"), sorted(set(own["size"]))
    fits = {"laws": len(rows), "broken": int((holm(found["fit_p"]) < 0.05).sum())}
    fits["tested"] = int(found["fit_p"].notna().sum())
    return {"unit": own["unit"].iloc[0], "sizes": sizes, "least": rows[0], "most": rows[-1]} | fits


def table(setting: Setting, workload: str, own: pd.DataFrame) -> Table:
    """Exponent of each operation and file system with its interval."""
    rows = [
        {
            "Operation": row.phase,
            "File system": row.label,
            "Exponent": digits(row.exponent, 3),
            "95 % interval": confidence(row.low, row.high, 1, 3),
            "Last step": digits(row.last, 3),
            "p of the fit": small(row.fit_p),
            "Sizes": row.n,
        }
        for row in scaling.table(own, "size").itertuples()
    ]
    caption = (
        f"{workload}, {setting}: exponent of the power law of time over {own['unit'].iloc[0]}, by least squares in"
        " logarithms over the geometric means of the sizes, with Student's interval; 1 is proportional. Last step: the"
        " exponent between the two largest sizes. p of the fit: below 0.05 the times are no power law (lack of fit"
        " against the spread of the rounds)."
    )
    return Table(f"tbl-{slug('scaling', workload, setting)}", caption, rows, ["Operation", "File system"])


def figures(setting: Setting, workload: str, own: pd.DataFrame, beyond: float = 10.0) -> list[Figure]:
    """Time against size, a panel per operation, extrapolated to `beyond` times the largest size."""
    unit, names = own["unit"].iloc[0], list(dict.fromkeys(own["phase"]))
    known = scaling.table(own, "size")["low"].notna().any()  # two sizes have a law without an interval
    caption = (
        f"{workload}, {setting}: time of each operation against {unit}, both logarithmic. Marks are rounds; the line is"
        f" a power law fitted to their geometric means, continued (broken line) to {beyond:g} times the largest size"
        f"{', with its 95 % prediction interval as far as half a decade' if known else ''}."
    )
    sizes = listing(f"{size:,}" for size in sorted(set(own["size"])))
    alt = f"Panels of time against size, {sizes}; the table has the exponents."
    found = []
    for number, first in enumerate(range(0, len(names), PANELS), 1):
        page = own[own["phase"].isin(names[first : first + PANELS])].rename(columns={"size": unit})
        plot = growth(page, unit, beyond=beyond)
        found.append(Figure(slug("scaling", workload, number, setting), caption, alt, plot))
    return found


@styled
def growth(table: pd.DataFrame, size: str = "names", time: str = "wall_ns", beyond: float = 10.0) -> Plot:
    """Time against size on logarithmic axes: one panel per phase, one line per label, its law continued `beyond` times.

    `table` has the columns label, `size` (a count), `time` (ns) and perhaps phase. Marks are measurements, lines the
    law time = factor * size ** exponent, broken where nothing was measured, shades the 95 % prediction interval.
    A label with one size only has marks and no law. Raises ValueError for an empty table.
    """
    series.some(table, size)
    phases = list(dict.fromkeys(table["phase"])) if "phase" in table else [""]
    columns = min(2, len(phases))
    high = math.ceil(len(phases) / columns)
    plot, panels = grid(high, columns, len(phases), 0.6 + 2.5 * high)
    lines = marks(table["label"].unique())
    for axes, phase in zip(panels, phases, strict=True):
        own = table[table["phase"] == phase] if phase else table
        name, unit = unit_of(own[time].median())
        for label, rows in own.groupby("label", sort=False):
            _law(axes, rows[size].to_numpy(float), rows[time].to_numpy(float) / unit, lines[label], beyond)
        axes.set(xscale="log", yscale="log")
        axes.set_title(phase, loc="left")
        axes.set_ylabel(f"time, {name}", labelpad=1)
        for axis, values in ((axes.xaxis, own[size]), (axes.yaxis, own[time])):
            few = math.log10(values.max() / values.min() * beyond) < 1.5
            axis.set_major_locator(LogLocator(subs=(1, 2, 5) if few else (1,), numticks=8))
            axis.set_minor_locator(NullLocator())
            axis.set_major_formatter(FuncFormatter(power))
        grid_lines(axes, "both")
    plot.supxlabel(size, fontsize=8)
    legend(plot, {label: (colour, marker, "-") for label, (colour, marker, _) in lines.items()}, mfc="none", mew=1.2)
    return plot


def _law(axes, sizes: np.ndarray, times: np.ndarray, line: tuple, beyond: float) -> None:
    colour, marker, _ = line
    axes.plot(sizes, times, ls="", marker=marker, ms=4.5, mfc="none", mec=colour, mew=1.2, zorder=3)
    if len(np.unique(sizes)) > 1:
        fit = scaling.fit(sizes, times)
        inside = np.geomspace(sizes.min(), sizes.max(), 2)
        axes.plot(inside, fit["factor"] * inside ** fit["exponent"], color=colour, lw=1.2)
        outside = scaling.extrapolate(sizes, times, np.geomspace(sizes.max(), sizes.max() * beyond, 40))
        axes.plot(outside["size"], outside["time"], color=colour, lw=1.2, ls=(0, (4, 2)))
        axes.fill_between(outside["size"], outside["low"], outside["high"], color=colour, alpha=0.18, lw=0)
