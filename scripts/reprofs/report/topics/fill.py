"""Filling a device with large files: the rate of every file, its dips, and how much content the device holds."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt

from reprofs.data.keys import Load, Setting
from reprofs.report.display import DASH, Table, confidence, count, digits, percent, slug
from reprofs.report.plots import (
    BLUE,
    GREY,
    INK,
    ORANGE,
    WIDTH,
    Figure,
    Plot,
    by_system,
    column,
    grid_lines,
    legend,
    marks,
    panel_title,
    rate_axis,
    styled,
)
from reprofs.stats import series
from reprofs.stats.study import Study

MANY = 200  # points of a line: more marks would hide it
RING: dict = {"ls": "", "marker": "o", "ms": 6.5, "mfc": "none", "mec": ORANGE, "mew": 1.2, "zorder": 4}


def places(study: Study) -> list[tuple[Setting, Load, str]]:
    """Where (setting, load, phase) a device was filled."""
    return series.having(study.samples, study.settings, {"write", "capacity"})


def facts(
    study: Study,
    setting: Setting,
    load: Load,
    phase: str,
    deviations: float = series.DEVIATIONS,
    required: Iterable[float] = series.REQUIRED_GBIT_S,
) -> list[dict]:
    """The results of filling, one dictionary per file system.

    Keys: label, files (in all rounds), rounds, mean_mb_s and sd_mb_s (mean over the rounds of the mean and of the
    standard deviation over the files of a round; NaN of one file), median_mb_s, dips (in all rounds), period (mean
    distance of dips in files; None unless they come regularly), lag (that of the autocorrelation, mean over the
    rounds that have one, else None), depth (median of the dips' rates over those around them, None without), share
    (of the capacity that content reached, mean over rounds), full (whether space ran out always), reached (required
    Gbit/s -> share of files that reach it).
    """
    samples = series.of_phase(study.samples, setting, load, phase)
    reached = series.capacity_reached(samples).groupby("label")
    share, full = reached["share"].mean(), reached["full"].all()
    found = []
    rates = series.rates(samples)
    for label, own in rates[~rates["partial"]].groupby("label", sort=False):
        dips = [series.dips(run["mb_s"].to_numpy(), deviations) for _, run in own.groupby("trial", sort=False)]
        periods = [one["period"] for one in dips if one["period"]]
        lags = [one["period_autocorrelation"] for one in dips if one["period_autocorrelation"]]
        depths = np.concatenate([one["depth"] for one in dips])
        runs = own.groupby("trial", sort=False)["mb_s"]
        reaching = series.probability(own["gbit_s"], required)
        found.append(
            {
                "label": label,
                "files": len(own),
                "rounds": own["trial"].nunique(),
                "mean_mb_s": float(runs.mean().mean()),
                "sd_mb_s": float(runs.std().mean()),
                "median_mb_s": float(own["mb_s"].median()),
                "dips": sum(len(one["at"]) for one in dips),
                "period": sum(periods) / len(periods) if periods else None,
                "lag": sum(lags) / len(lags) if lags else None,
                "depth": float(np.median(depths)) if len(depths) else None,
                "share": float(share.get(label, np.nan)),
                "full": bool(full.get(label, False)),
                "reached": dict(zip(reaching["level_gbit_s"], reaching["share"], strict=True)),
            }
        )
    return found


def reaching(reached: dict[float, float]) -> str:
    """How many files reach the required rates (Gbit/s -> share of files, as in `facts`); empty without rates."""
    every = [level for level, share in reached.items() if share == 1]
    some = [(level, share) for level, share in reached.items() if 0 < share < 1]
    never = [level for level, share in reached.items() if share == 0]
    parts = [f"all reach {max(every):g}"] if every else []
    parts += [f"{percent(share)} reach {level:g}" for level, share in some]
    parts += [f"none reaches {min(never):g}"] if never else []
    return f"Of its files {', '.join(parts)} Gbit/s." if parts else ""


def table(
    study: Study,
    setting: Setting,
    load: Load,
    phase: str,
    deviations: float = series.DEVIATIONS,
    required: Iterable[float] = series.REQUIRED_GBIT_S,
) -> Table:
    """Rates of the files, dips, how likely a file reaches each required rate (Gbit/s), capacity reached."""
    rows = []
    rates = series.rates(series.of_phase(study.samples, setting, load, phase))
    rates = rates[~rates["partial"]]
    for found in facts(study, setting, load, phase, deviations, required):
        own = rates[rates["label"] == found["label"]]
        at = series.percentiles(own["mb_s"], (1, 50, 99))
        row = {
            "File system": found["label"],
            "Mean ± SD MB/s": f"{digits(found['mean_mb_s'], 3)} ± {digits(found['sd_mb_s'], 2)}",
            **{f"p{q} MB/s": digits(value, 3) for q, value in at.items()},
            "Dips": found["dips"],
            "Depth": percent(found["depth"]) if found["depth"] else DASH,
            "Period": digits(found["period"], 3) if found["period"] else DASH,
            "Lag": digits(found["lag"], 3) if found["lag"] else DASH,
        }
        for entry in series.probability(own["gbit_s"], required).itertuples():
            interval = confidence(entry.low, entry.high, 1, 2)
            row[f"P \N{GREATER-THAN OR EQUAL TO} {entry.level_gbit_s:g} Gbit/s"] = f"{entry.share:.2f} ({interval})"
        rows.append(row | {"Capacity reached": percent(found["share"])})
    caption = (
        f"{load}, {phase}, {setting}: rates of the files, all rounds. SD: standard deviation over the files of a round,"
        f" mean of the rounds. A dip is more than {deviations:g} robust standard deviations and 5 % below the line"
        " through the series; depth: its rate as a share of that line (median); period: the distance of dips in files;"
        " lag: the distance by the autocorrelation, where it is significant. P: share of the files that reach a rate,"
        " with Wilson's 95 % interval, which takes files as independent; regular dips are not. Capacity: what statvfs"
        " offered before the first file."
    )
    return Table(f"tbl-{slug('fill', phase, setting, load)}", caption, rows, ["File system"])


def figures(
    study: Study,
    setting: Setting,
    load: Load,
    phase: str,
    deviations: float = series.DEVIATIONS,
    required: Iterable[float] = series.REQUIRED_GBIT_S,
) -> list[Figure]:
    """The rate of every file while the device fills, where there are several; the share of files that reach a rate."""
    own = series.of_phase(study.samples, setting, load, phase)
    caption = (
        f"{load}, {phase}, {setting}: rate of every file while the device fills. A line is a round, a ring marks a dip,"
        f" more than {deviations:g} robust standard deviations below the line through the round."
    )
    alt = "Rates over the share of the capacity that is written; the table of the fill has the numbers."
    found = []
    if own.loc[own["name"] == "write", "trial"].value_counts().max() > 1:
        found.append(Figure(slug("fill", phase, setting, load), caption, alt, filling(own, deviations)))
    rates = series.rates(own)
    if not rates["partial"].all():
        caption = (
            f"{load}, {phase}, {setting}: share of the files that reach a rate. The vertical lines are required rates."
        )
        alt = "Share of files against rate; the table of the fill has the numbers."
        found.append(Figure(slug("exceedance", phase, setting, load), caption, alt, exceedance(own, required=required)))
    return found


@styled
def filling(samples: pd.DataFrame, deviations: float = series.DEVIATIONS) -> Plot:
    """Rate of every file (MB/s) over the share of the capacity that is written: one panel per file system and stack.

    `samples` are those of filling (write, capacity, full). A line is a round, a ring a dip (`series.dips`), the
    broken line the median, the cross the end of the space. Without the sample `capacity` the axis is in
    GiB. Raises ValueError without a sample `write`.
    """
    found = series.some(series.rates(samples), "write")
    cells = by_system(found)
    capacity = samples[samples["name"] == "capacity"].groupby("trial")["bytes"].first()
    plot, panels = column(cells, 1.25)
    for axes, (title, own) in zip(panels, cells.items(), strict=True):
        _panel(axes, title, own, capacity, deviations)
    for axes in panels:  # after the last line: they share their axis
        axes.set_xlim(0, 1.01 * max(line.get_xdata().max() for part in panels for line in _lines(part)))
    shares = capacity.reindex(found["trial"]).notna().all()
    plot.supxlabel("written, % of the capacity" if shares else "written, GiB", fontsize=8)
    plot.supylabel("MB/s", fontsize=8)
    handles = [
        plt.Line2D([], [], color=BLUE, marker=".", lw=1, label="rate of a file"),
        plt.Line2D([], [], color=GREY, ls=(0, (3, 2)), lw=1, label="median"),
        plt.Line2D([], [], **RING, label=f"dip, {deviations:g} deviations below"),
        plt.Line2D([], [], color=INK, ls="", marker="x", ms=5, label="no space left"),
    ]
    plot.legend(handles=handles, loc="outside upper center", ncols=4, frameon=False, fontsize=8)
    return plot


def _lines(axes) -> list:
    """The lines of a panel that are in units of its data: not the one across."""
    return [line for line in axes.lines if line.get_transform() == axes.transData and len(line.get_xdata())]


def _panel(axes, title: str, own: pd.DataFrame, capacity: pd.Series, deviations: float) -> None:
    whole = own[~own["partial"]]
    counted, periods = 0, []
    for trial, run in whole.groupby("trial", sort=False):
        unit = capacity[trial] / 100 if trial in capacity.index and capacity[trial] else 2**30
        x, rate = (run["before_bytes"] + run["bytes"]).to_numpy(float) / unit, run["mb_s"].to_numpy()
        axes.plot(x, rate, color=BLUE, lw=0.9, marker="." if len(x) <= MANY else "", ms=3, zorder=2)
        dips = series.dips(rate, deviations)
        axes.plot(x[dips["at"]], rate[dips["at"]], **RING)
        counted += len(dips["at"])
        periods += [dips["period"]] if dips["period"] else []
        last = own[(own["trial"] == trial) & own["partial"]]
        if len(last):
            axes.plot((last["before_bytes"] + last["bytes"]) / unit, [0], "x", color=INK, ms=5, clip_on=False, zorder=5)
    median = whole["mb_s"].median()
    axes.axhline(median, color=GREY, lw=1, ls=(0, (3, 2)), zorder=1)
    told = f"median {digits(median, 3)} MB/s, {count(counted, 'dip')}"
    if periods:
        told += f", one in {np.median(periods):g} files"
    panel_title(axes, title, told)
    rate_axis(axes)


@styled
def exceedance(samples: pd.DataFrame, name: str = "write", required: Iterable[float] = series.REQUIRED_GBIT_S) -> Plot:
    """How many of the files reach a rate: P(rate >= x) against x in Gbit/s, one line per file system and stack.

    Files cut short by the end of the space do not count. Vertical lines are the required rates within the picture.
    Raises ValueError without a sample of that name.
    """
    import seaborn  # a second to import

    found = series.some(series.rates(samples, name), name)
    cells = by_system(found[~found["partial"]])
    lines, required = marks(cells), list(required)
    top = max(own["gbit_s"].max() for own in cells.values()) * 1.08
    top = max([top, *(1.15 * level for level in sorted(required)[:1])])
    plot, axes = plt.subplots(figsize=(WIDTH, 2.6), layout="constrained")
    for title, own in cells.items():
        colour, _, dash = lines[title]
        seaborn.ecdfplot(x=own["gbit_s"], complementary=True, ax=axes, color=colour, ls=dash, lw=1.5)
    for level in (level for level in required if level <= top):
        axes.axvline(level, color=GREY, lw=0.9, ls=(0, (3, 2)), zorder=1)
        axes.text(level, 1.03, f"{level:g} Gbit/s", ha="center", va="bottom", color=GREY)
    axes.set(xlim=(0, top), ylim=(0, 1.02), xlabel="rate x, Gbit/s", ylabel="share of files with rate ≥ x")
    grid_lines(axes)
    legend(plot, {title: (colour, "", dash) for title, (colour, _, dash) in lines.items()})
    return plot
