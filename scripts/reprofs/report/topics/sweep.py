"""Rates over sizes of file and record: write, rewrite, read and reread, and which of them memory may have served."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.colors import LogNorm
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import LogLocator, NullLocator

from reprofs.data.keys import Load, Setting
from reprofs.report.display import digits, size, slug
from reprofs.report.plots import (
    GREY,
    PLAIN,
    WIDTH,
    Figure,
    Plot,
    by_system,
    grid_lines,
    legend,
    marks,
    short_size,
    styled,
)
from reprofs.stats import series
from reprofs.stats.study import Study


def places(study: Study) -> list[tuple[Setting, Load, str]]:
    """Where (setting, load, phase) there are rates at several record sizes."""
    every = series.having(study.samples, study.settings, set())
    return [place for place in every if series.of_phase(study.samples, *place)["record_bytes"].nunique() > 1]


def facts(study: Study, setting: Setting, load: Load, phase: str) -> dict:
    """The fastest and slowest test of a sweep, and what memory may have served.

    Keys: title (words for the phase); most, least (rows of `series.sweep` as dictionaries); memory (bytes of the
    machine, 0 if not known); held (file_bytes and operations that memory may have served; None if none).
    """
    own, memory = series.of_phase(study.samples, setting, load, phase), series.memory_bytes(study.environment)
    rows = series.sweep(own).sort_values("mb_s", kind="stable").to_dict("records")
    held = series.memory_held(own, memory) if memory else None
    phases = study.plan.workloads[load.workload].phases
    title = next((entry.title for entry in phases if entry.name == phase), phase)
    return {"title": title, "least": rows[0], "most": rows[-1], "memory": memory, "held": held}


def figure(study: Study, setting: Setting, load: Load, phase: str) -> Figure:
    """Heat maps of the rates, one panel per operation, one row of panels per file system."""
    own, found = series.of_phase(study.samples, setting, load, phase), facts(study, setting, load, phase)
    caption = (
        f"{load}, {phase}, {setting}: rate in MB/s over the sizes of file and record, rounds joined by their harmonic"
        " mean; the colours are logarithmic."
    )
    caption += " Hatched: the file fits in the memory of the machine." if found["held"] else ""
    alt = (
        f"Heat maps of rates, a panel an operation, from {digits(found['least']['mb_s'], 3)} to"
        f" {digits(found['most']['mb_s'], 3)} MB/s; the table of the samples has the numbers."
    )
    return Figure(slug("sweep", phase, setting, load), caption, alt, surface(own, found["memory"] or None))


def line_figure(study: Study, setting: Setting, load: Load, phase: str) -> Figure:
    """The rates over the record size, all file systems in one panel: a column an operation, a row a file size."""
    caption = f"{load}, {phase}, {setting}: rate over the size of a record, a line a file system, logarithmic axes."
    alt = "Lines of rates over record sizes; the heat map has the numbers."
    return Figure(
        slug("records", phase, setting, load),
        caption,
        alt,
        lines(series.of_phase(study.samples, setting, load, phase)),
    )


@styled
def lines(samples: pd.DataFrame) -> Plot:
    """Rate of a sweep (MB/s) over record size, one line a file system: a column an operation, a row a file size.

    Raises ValueError without samples of a sweep.
    """
    table = series.some(series.sweep(samples), "a sweep over records (write, rewrite, read or reread with both sizes)")
    cells = by_system(table)
    found = marks(cells)
    sizes = sorted(table["file_bytes"].unique())
    operations = [name for name in series.TESTS if name in set(table["operation"])]
    plot, panels = plt.subplots(
        len(sizes), len(operations), figsize=(WIDTH, 0.9 + 1.15 * len(sizes)), squeeze=False, sharex=True, sharey=True,
        layout="constrained",
    )  # fmt: skip
    for row, file_bytes in zip(panels, sizes, strict=True):
        for axes, operation in zip(row, operations, strict=True):
            for name, own in cells.items():
                colour, marker, dash = found[name]
                here = own[(own["operation"] == operation) & (own["file_bytes"] == file_bytes)]
                here = here.sort_values("record_bytes")
                axes.plot(here["record_bytes"], here["mb_s"], color=colour, marker=marker, ls=dash, lw=1.1, ms=3.5)
            axes.set_title(f"{operation}, {short_size(file_bytes)}", loc="left", fontsize=8)
            axes.set_xscale("log", base=2)
            axes.set_yscale("log")
            grid_lines(axes, "both")
    records = sorted(table["record_bytes"].unique())
    records = records[:: -(-len(records) // 4)]  # four names fit below a panel
    for axes in panels.flat:
        axes.set_xticks(records, [short_size(size) for size in records])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(PLAIN)
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=6))
        axes.yaxis.set_minor_locator(NullLocator())
    plot.supxlabel("record size", fontsize=8)
    plot.supylabel("MB/s", fontsize=8)
    legend(plot, found)
    return plot


@styled
def surface(samples: pd.DataFrame, memory_bytes: int | None = None) -> Plot:
    """Rate of a sweep (MB/s) over record size (up) and file size (right): one row of panels a file system, one panel an
    operation. One logarithmic colour scale for all. Hatched where the file fits in `memory_bytes`, the host's memory,
    and the test could be served by it (neither past the cache nor flushed and read cold).

    Raises ValueError without samples of a sweep.
    """
    table = series.some(series.sweep(samples), "a sweep over records (write, rewrite, read or reread with both sizes)")
    cells = by_system(table)
    records, sizes = sorted(table["record_bytes"].unique()), sorted(table["file_bytes"].unique())
    operations = [name for name in series.TESTS if name in set(table["operation"])]
    low, high = table["mb_s"].min(), table["mb_s"].max()
    norm = LogNorm(low, max(high, low * 2))
    height = 0.75 + len(cells) * (0.55 + 0.165 * max(len(records), 4))
    plot, panels = plt.subplots(
        len(cells), len(operations), figsize=(WIDTH, height), squeeze=False, sharex=True, sharey=True,
        layout="constrained",
    )  # fmt: skip
    for row, (title, own) in zip(panels, cells.items(), strict=True):
        for axes, operation in zip(row, operations, strict=True):
            here = own[own["operation"] == operation]
            wide = here.pivot(index="record_bytes", columns="file_bytes", values="mb_s")
            memory = memory_bytes if here["cached"].any() else None
            _panel(axes, wide.reindex(index=records, columns=sizes), norm, memory)
            axes.set_title(f"\n{operation}", loc="left", fontsize=8)  # the row's name is on the first line
        place = {"xy": (0, 1), "xytext": (0, 15), "xycoords": "axes fraction", "textcoords": "offset points"}
        row[0].annotate(title, **place, fontweight="bold", fontsize=8.5).set_in_layout(False)
    colours = plt.cm.ScalarMappable(norm, "cividis")
    bar = plot.colorbar(colours, ax=list(panels.flat), pad=0.01, aspect=30, label="MB/s")
    bar.outline.set_visible(False)
    bar.ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=8))
    bar.ax.yaxis.set_minor_locator(NullLocator())
    bar.ax.yaxis.set_major_formatter(PLAIN)
    plot.supxlabel("file size", fontsize=8)
    plot.supylabel("record size", fontsize=8)
    if memory_bytes is not None and series.fits_in_memory(table["file_bytes"][table["cached"]], memory_bytes).any():
        patch = Patch(
            facecolor="none", edgecolor=GREY, hatch="////", label=f"file fits in {size(memory_bytes)} of memory"
        )
        plot.legend(handles=[patch], loc="outside upper right", frameon=False, fontsize=8)
    return plot


def _panel(axes, wide: pd.DataFrame, norm: LogNorm, memory_bytes: int | None) -> None:
    import seaborn  # a second to import

    numbers = len(wide.columns) <= 4
    text = wide.map(lambda value: f"{value:,.0f}" if value >= 9.5 else f"{value:.2g}") if numbers else False
    style = {"norm": norm, "cmap": "cividis", "cbar": False, "linewidths": 0}
    seaborn.heatmap(wide, ax=axes, annot=text, fmt="", annot_kws={"fontsize": 7}, **style)
    for x, file_bytes in enumerate(wide.columns):
        held = memory_bytes is not None and bool(series.fits_in_memory([file_bytes], memory_bytes)[0])
        for y in np.flatnonzero(wide[file_bytes].notna()) if held else []:
            frame: dict = {"fill": False, "hatch": "////", "edgecolor": "#ffffff", "alpha": 0.3, "linewidth": 0}
            axes.add_patch(Rectangle((x, float(y)), 1, 1, **frame))
    axes.invert_yaxis()
    axes.set_yticks(np.arange(len(wide.index)) + 0.5, [short_size(records) for records in wide.index], rotation=0)
    axes.set_xticks(np.arange(len(wide.columns)) + 0.5, [short_size(files) for files in wide.columns], rotation=0)
    axes.set(xlabel="", ylabel="")
    axes.tick_params(length=0)
