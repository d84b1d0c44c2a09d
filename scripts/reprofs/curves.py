"""Figures of series: filling, exceedance, sweeps over records, a reader beside a writer, clients, scaling.

Each function takes a tidy frame (the tables samples or clients, see reprofs.series) and returns a matplotlib Figure in
the style of reprofs.figures, whose `save` writes it. Raises ValueError where the frame has nothing to show.
"""

import itertools
import math

import matplotlib
import numpy as np
import pandas as pd
import seaborn
from matplotlib import pyplot as plt
from matplotlib.colors import LogNorm
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from . import figures, series, words
from .figures import BLUE, GREY, INK, LINES, ORANGE, STYLE, WIDTH

MANY = 200  # points of a line: more marks would hide it
RING = {"ls": "", "marker": "o", "ms": 6.5, "mfc": "none", "mec": ORANGE, "mew": 1.2, "zorder": 4}


def fill(samples: pd.DataFrame, threshold: float = 0.5):
    """Rate of every file (MB/s) over the share of the capacity that is written: one panel a file system and stack.

    `samples` are those of filling (write, capacity, full). A line is a round, a ring a dip below `threshold` times the
    median, the broken line the median, the cross the end of the space. Without the sample `capacity` the axis is in
    GiB.
    """
    found = _something(series.rates(samples), "write")
    cells = _cells(found)
    capacity = samples[samples["name"] == "capacity"].groupby("trial")["bytes"].first()
    with matplotlib.rc_context(STYLE):
        figure, panels = _column(cells, 1.25)
        for axes, (title, own) in zip(panels, cells.items(), strict=True):
            _fill_panel(axes, title, own, capacity, threshold)
        for axes in panels:  # after the last line: they share their axis
            axes.set_xlim(0, 1.01 * max(line.get_xdata().max() for part in panels for line in _series_of(part)))
        shares = capacity.reindex(found["trial"]).notna().all()
        figure.supxlabel("written, % of the capacity" if shares else "written, GiB", fontsize=8)
        figure.supylabel("MB/s", fontsize=8)
        handles = [
            plt.Line2D([], [], color=BLUE, marker=".", lw=1, label="rate of a file"),
            plt.Line2D([], [], color=GREY, ls=(0, (3, 2)), lw=1, label="median"),
            plt.Line2D([], [], **RING, label=f"dip, below {threshold:g} of the median"),
            plt.Line2D([], [], color=INK, ls="", marker="x", ms=5, label="no space left"),
        ]
        figure.legend(handles=handles, loc="outside upper center", ncols=4, frameon=False, fontsize=8)
    return figure


def _series_of(axes) -> list:
    """The lines of a panel that are in units of its data: not the one across."""
    return [line for line in axes.lines if line.get_transform() == axes.transData and len(line.get_xdata())]


def _fill_panel(axes, title: str, own: pd.DataFrame, capacity: pd.Series, threshold: float) -> None:
    whole = own[~own["partial"]]
    counted, periods = 0, []
    for trial, run in whole.groupby("trial", sort=False):
        unit = capacity[trial] / 100 if trial in capacity.index and capacity[trial] else 2**30
        x, rate = (run["before_bytes"] + run["bytes"]).to_numpy(float) / unit, run["mb_s"].to_numpy()
        axes.plot(x, rate, color=BLUE, lw=0.9, marker="." if len(x) <= MANY else "", ms=3, zorder=2)
        dips = series.dips(rate, threshold)
        axes.plot(x[dips["at"]], rate[dips["at"]], **RING)
        counted += len(dips["at"])
        periods += [dips["period"]] if dips["period"] else []
        last = own[(own["trial"] == trial) & own["partial"]]
        if len(last):
            axes.plot((last["before_bytes"] + last["bytes"]) / unit, [0], "x", color=INK, ms=5, clip_on=False, zorder=5)
    median = whole["mb_s"].median()
    axes.axhline(median, color=GREY, lw=1, ls=(0, (3, 2)), zorder=1)
    told = f"median {words.digits(median, 3)} MB/s, {words.count(counted, 'dip')}"
    if periods:
        told += f", one in {np.median(periods):g} files"
    _panel_title(axes, title, told)
    _rate_axis(axes)


def exceedance(samples: pd.DataFrame, name: str = "write", required=series.REQUIRED_GBIT_S):
    """How many of the files reach a rate: P(rate >= x) against x in Gbit/s, one line a file system and stack.

    Files cut short by the end of the space do not count. Vertical lines are the required rates within the picture.
    """
    found = _something(series.rates(samples, name), name)
    cells = _cells(found[~found["partial"]])
    lines = dict(zip(cells, itertools.cycle(LINES), strict=False))
    top = max(own["gbit_s"].max() for own in cells.values()) * 1.08
    top = max(top, 1.15 * min(required))
    with matplotlib.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(WIDTH, 2.6), layout="constrained")
        for title, own in cells.items():
            colour, _, dash = lines[title]
            seaborn.ecdfplot(x=own["gbit_s"], complementary=True, ax=axes, color=colour, ls=dash, lw=1.5)
        for level in (level for level in required if level <= top):
            axes.axvline(level, color=GREY, lw=0.9, ls=(0, (3, 2)), zorder=1)
            axes.text(level, 1.03, f"{level:g} Gbit/s", ha="center", va="bottom", color=GREY)
        axes.set(xlim=(0, top), ylim=(0, 1.02), xlabel="rate x, Gbit/s", ylabel="share of files with rate ≥ x")
        _grid_lines(axes)
        figures._legend(figure, {title: (colour, "", dash) for title, (colour, _, dash) in lines.items()})
    return figure


def surface(samples: pd.DataFrame, memory_bytes: int | None = None):
    """Rate of a sweep (MB/s) over record size (up) and file size (right): one row of panels a file system, one panel an
    operation. One logarithmic colour scale for all. Hatched where the file fits in `memory_bytes`, the host's memory,
    and the test could be served by it (neither past the cache nor flushed and read cold).
    """
    table = series.sweep(samples)
    if table.empty:
        raise ValueError(
            "there are no samples of a sweep over records (write, rewrite, read or reread with both sizes)"
        )
    cells = _cells(table)
    records, sizes = sorted(table["record_bytes"].unique()), sorted(table["file_bytes"].unique())
    operations = [name for name in series.TESTS if name in set(table["operation"])]
    low, high = table["mb_s"].min(), table["mb_s"].max()
    norm = LogNorm(low, max(high, low * 2))
    with matplotlib.rc_context(STYLE):
        height = 0.75 + len(cells) * (0.55 + 0.165 * max(len(records), 4))
        figure, panels = plt.subplots(
            len(cells), len(operations), figsize=(WIDTH, height), squeeze=False, sharex=True, sharey=True,
            layout="constrained",
        )  # fmt: skip
        for row, (title, own) in zip(panels, cells.items(), strict=True):
            for axes, operation in zip(row, operations, strict=True):
                here = own[own["operation"] == operation]
                wide = here.pivot(index="record_bytes", columns="file_bytes", values="mb_s")
                memory = memory_bytes if here["cached"].any() else None
                _surface_panel(axes, wide.reindex(index=records, columns=sizes), norm, memory)
                axes.set_title(f"\n{operation}", loc="left", fontsize=8)  # the row's name is on the first line
            place = {"xy": (0, 1), "xytext": (0, 15), "xycoords": "axes fraction", "textcoords": "offset points"}
            row[0].annotate(title, **place, fontweight="bold", fontsize=8.5).set_in_layout(False)
        colours = plt.cm.ScalarMappable(norm, "cividis")
        bar = figure.colorbar(colours, ax=list(panels.flat), pad=0.01, aspect=30, label="MB/s")
        bar.outline.set_visible(False)
        bar.ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=8))
        bar.ax.yaxis.set_minor_locator(NullLocator())
        bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
        figure.supxlabel("file size", fontsize=8)
        figure.supylabel("record size", fontsize=8)
        if memory_bytes is not None and series.fits_in_memory(table["file_bytes"][table["cached"]], memory_bytes).any():
            patch = Patch(
                facecolor="none",
                edgecolor=GREY,
                hatch="////",
                label=f"file fits in {words.size(memory_bytes)} of memory",
            )
            figure.legend(handles=[patch], loc="outside upper right", frameon=False, fontsize=8)
    return figure


def _surface_panel(axes, wide: pd.DataFrame, norm: LogNorm, memory_bytes: int | None) -> None:
    numbers = len(wide.columns) <= 4
    text = wide.map(lambda value: f"{value:,.0f}" if value >= 9.5 else f"{value:.2g}") if numbers else False
    style = {"norm": norm, "cmap": "cividis", "cbar": False, "linewidths": 0}
    seaborn.heatmap(wide, ax=axes, annot=text, fmt="", annot_kws={"fontsize": 7}, **style)
    for x, size in enumerate(wide.columns):
        held = memory_bytes is not None and bool(series.fits_in_memory([size], memory_bytes)[0])
        for y in np.flatnonzero(wide[size].notna()) if held else []:
            frame = {"fill": False, "hatch": "////", "edgecolor": "#ffffff", "alpha": 0.3, "linewidth": 0}
            axes.add_patch(Rectangle((x, y), 1, 1, **frame))
    axes.invert_yaxis()
    axes.set_yticks(np.arange(len(wide.index)) + 0.5, [_short(size) for size in wide.index], rotation=0)
    axes.set_xticks(np.arange(len(wide.columns)) + 0.5, [_short(size) for size in wide.columns], rotation=0)
    axes.set(xlabel="", ylabel="")
    axes.tick_params(length=0)


def windows(samples: pd.DataFrame):
    """Rates of a writer and, beside it for a while, a reader (MB/s) over time (s): one panel a file system and stack.

    Dots are chunks, bars the means of the three windows, steps the reader in sixteenths of its time (the shade): single
    reads say little, many are served by readahead. Above is the rate beside the reader as a share of that alone, and
    the time from the reader's end until the writer is back; all of the first round.
    """
    chosen = samples[samples["round"] == samples["round"].min()]
    cells = _cells(_something(series.rates(chosen), "write"))
    read = _cells(series.rates(chosen, "read"))
    with matplotlib.rc_context(STYLE):
        figure, panels = _column(cells, 1.3)
        for axes, (title, own) in zip(panels, cells.items(), strict=True):
            beside = read.get(title, own.iloc[:0])
            _windows_panel(axes, own, beside)
            effects = series.window_effects(pd.concat([own, beside]))
            back = "no recovery seen"
            if effects["recovery_ns"] is not None:
                back = f"back after {words.time(effects['recovery_ns'], 2)}"
            _panel_title(axes, title, f"{words.digits(effects['slowdown'], 2)} of its rate beside the reader, {back}")
        figure.supxlabel("time, s", fontsize=8)
        figure.supylabel("MB/s", fontsize=8)
        entries = {"writer": (BLUE, ".", ""), "mean of a window": (BLUE, "", "-"), "reader": (ORANGE, "", "-")}
        figures._legend(figure, entries)
    return figure


def _windows_panel(axes, write: pd.DataFrame, read: pd.DataFrame) -> None:
    begin = write["start_ns"].min()
    middle = (write["start_ns"] + write["wall_ns"] / 2 - begin).astype(float) / 1e9
    axes.plot(middle, write["mb_s"], ls="", marker=".", ms=3.2, mew=0.7, color=BLUE, alpha=0.75, zorder=2)
    for _, window in write.groupby("client"):
        ends = (window["start_ns"].min() - begin) / 1e9, ((window["start_ns"] + window["wall_ns"]).max() - begin) / 1e9
        mean = window["bytes"].sum() / window["wall_ns"].sum() * 1e3
        axes.plot(ends, [mean, mean], color=BLUE, lw=2.2, solid_capstyle="butt", zorder=3)
    if len(read):
        done = (read["start_ns"] + read["wall_ns"] - begin).to_numpy(float) / 1e9
        edges = np.linspace((read["start_ns"].min() - begin) / 1e9, done.max(), min(16, len(read)) + 1)
        total = np.concatenate([[0.0], read["bytes"].to_numpy(float).cumsum()])
        amount = np.diff(np.interp(edges, np.concatenate([edges[:1], done]), total))
        axes.stairs(amount / np.diff(edges) / 1e6, edges, baseline=None, color=ORANGE, lw=1.2, zorder=2)
        axes.axvspan(edges[0], edges[-1], color=ORANGE, alpha=0.12, lw=0, zorder=0)
    _rate_axis(axes)


def clients(table: pd.DataFrame):
    """When each of the clients that started together is done: one panel a phase, one line a file system and stack.

    `table` is that of the clients. Time counts from the earliest start of the phase in its trial. Clients are in the
    order in which they finish; with several rounds a mark is the mean of that place.
    """
    _something(table, "client")
    phases = list(table[["phase", "cache"]].drop_duplicates().itertuples(index=False, name=None))
    columns = min(2, len(phases))
    rows = math.ceil(len(phases) / columns)
    names = list(_cells(table.drop(columns="phase")))
    lines = dict(zip(names, itertools.cycle(LINES), strict=False))
    with matplotlib.rc_context(STYLE):
        figure, panels = figures._grid(rows, columns, len(phases), 0.5 + 2.1 * rows)
        for axes, (phase, cache) in zip(panels, phases, strict=True):
            own = table[(table["phase"] == phase) & (table["cache"] == cache)]
            _clients_panel(axes, own.drop(columns="phase"), lines)
            axes.set_title(", ".join(filter(None, (phase, cache))), loc="left")
        figure.supxlabel("clients that are done", fontsize=8)
        figures._legend(figure, lines)
    return figure


def _clients_panel(axes, table: pd.DataFrame, lines: dict) -> None:
    start = table["start_ns"].astype(float)
    end = start + table["wall_ns"].astype(float) - start.groupby(table["trial"]).transform("min")
    name, scale = words.unit_of(end.median())
    for title, own in _cells(table.assign(end=end)).items():
        colour, marker, dash = lines[title]
        runs = [run["end"].sort_values().to_numpy() / scale for _, run in own.groupby("trial")]
        most = max(map(len, runs))
        place = np.array([np.pad(run, (0, most - len(run)), constant_values=np.nan) for run in runs])
        # With many clients every mark would hide the next one.
        style = {"color": colour, "marker": marker, "ls": dash, "lw": 1.1, "ms": 3.6, "markevery": max(1, most // 15)}
        axes.plot(np.arange(1, most + 1), np.nanmean(place, axis=0), **style)
    axes.set_ylabel(f"done after, {name}", labelpad=1)
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    _grid_lines(axes)


def scaling(table: pd.DataFrame, size: str = "names", time: str = "wall_ns", beyond: float = 10.0):
    """Time against size on logarithmic axes: one panel a phase, one line a label, its law continued `beyond` times.

    `table` has the columns label, `size` (a count), `time` (ns) and perhaps phase. Marks are measurements, lines the
    law time = factor * size ** exponent, broken where nothing was measured, shades the 95 % prediction interval there.
    The legend has the exponents with their 95 % intervals. A label with one size only has marks and no law.
    """
    _something(table, size)
    phases = list(dict.fromkeys(table["phase"])) if "phase" in table else [""]
    columns = min(2, len(phases))
    lines = math.ceil(len(phases) / columns)
    with matplotlib.rc_context(STYLE):
        figure, panels = figures._grid(lines, columns, len(phases), 0.3 + 2.7 * lines)
        for axes, phase in zip(panels, phases, strict=True):
            own = table[table["phase"] == phase] if phase else table
            name, unit = words.unit_of(own[time].median())
            for (label, rows), line in zip(own.groupby("label", sort=False), itertools.cycle(LINES), strict=False):
                _law(axes, label, rows[size].to_numpy(float), rows[time].to_numpy(float) / unit, line, beyond)
            axes.set(xscale="log", yscale="log")
            axes.set_title(phase, loc="left")
            axes.set_ylabel(f"time, {name}", labelpad=1)
            for axis, values in ((axes.xaxis, own[size]), (axes.yaxis, own[time])):
                few = math.log10(values.max() / values.min() * beyond) < 2.5
                axis.set_major_locator(LogLocator(subs=(1, 2, 5) if few else (1,), numticks=8))
                axis.set_minor_locator(NullLocator())
                axis.set_major_formatter(FuncFormatter(_power))
            style = {"frameon": False, "fontsize": 8, "title_fontsize": 8, "handlelength": 2.6, "alignment": "left"}
            axes.legend(title="exponent (95 % interval)", loc="upper left", **style)
            _grid_lines(axes, "both")
        figure.supxlabel(size, fontsize=8)
    return figure


def _law(axes, label: str, sizes: np.ndarray, times: np.ndarray, line: tuple, beyond: float) -> None:
    colour, marker, _ = line
    axes.plot(sizes, times, ls="", marker=marker, ms=4.5, mfc="none", mec=colour, mew=1.2, zorder=3)
    told = label
    if len(np.unique(sizes)) > 1:
        fit = series.scaling_fit(sizes, times)
        told = f"{label}: {fit['exponent']:.2f}"
        if not math.isnan(fit["low"]):
            told += f" ({fit['low']:.2f} {words.DASH} {fit['high']:.2f})"
        inside = np.geomspace(sizes.min(), sizes.max(), 2)
        axes.plot(inside, fit["factor"] * inside ** fit["exponent"], color=colour, lw=1.2)
        outside = series.extrapolate(sizes, times, np.geomspace(sizes.max(), sizes.max() * beyond, 40))
        axes.plot(outside["size"], outside["time"], color=colour, lw=1.2, ls=(0, (4, 2)))
        axes.fill_between(outside["size"], outside["low"], outside["high"], color=colour, alpha=0.18, lw=0)
    axes.plot([], [], color=colour, marker=marker, mfc="none", mew=1.2, ms=4.5, lw=1.2, label=told)


def _power(value: float, _) -> str:
    """A number on a logarithmic axis: plain where it is short or no power of ten."""
    exponent = round(math.log10(value)) if value > 0 else 0
    short = -3 < exponent < 5 or not math.isclose(value, 10.0**exponent)
    return f"{value:,.10g}" if short else f"$10^{{{exponent}}}$"


def _short(size: float) -> str:
    """A size on an axis: 4 K, 16 M."""
    return words.size(size).replace("iB", "")


def _something(frame: pd.DataFrame, what: str) -> pd.DataFrame:
    if frame.empty:
        raise ValueError(f"there are no samples of {what} to draw")
    return frame


def _cells(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Rows by label, with the stack or the phase where there are several, in the frame's order."""
    if frame.empty:
        return {}
    keys = ["label", *(key for key in ("stack", "phase") if key in frame and frame[key].nunique() > 1)]
    return {", ".join(key): own for key, own in frame.groupby(keys, sort=False)}


def _column(cells: dict, height: float):
    """A figure with one panel a cell, one below the other, the same axes, height in inches each."""
    size = (WIDTH, 0.55 + height * len(cells))
    figure, grid = plt.subplots(len(cells), 1, figsize=size, squeeze=False, sharex=True, layout="constrained")
    return figure, list(grid.flat)


def _panel_title(axes, title: str, told: str) -> None:
    axes.set_title(title, loc="left", fontweight="bold")
    axes.set_title(told, loc="right", fontsize=8)


def _rate_axis(axes) -> None:
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_locator(MaxNLocator(4))
    _grid_lines(axes)


def _grid_lines(axes, which: str = "y") -> None:
    axes.grid(axis=which, color=GREY, alpha=0.3, lw=0.5)
    axes.set_axisbelow(True)
