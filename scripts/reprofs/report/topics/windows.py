"""A writer alone, with a reader, alone again: how much the reader slows it down and how long it takes to recover."""

from __future__ import annotations

import numpy as np
import pandas as pd

from reprofs.data.keys import Load, Setting
from reprofs.report.display import Table, confidence, digits, slug, time
from reprofs.report.plots import BLUE, ORANGE, Figure, Plot, by_system, column, legend, panel_title, rate_axis, styled
from reprofs.stats import series
from reprofs.stats.cells import interval
from reprofs.stats.study import Study


def places(study: Study) -> list[tuple[Setting, Load, str]]:
    """Where (setting, load, phase) a writer was measured with a reader."""
    return series.having(study.samples, study.settings, {"write", "read", "alone"})


def facts(study: Study, setting: Setting, load: Load, phase: str) -> list[dict]:
    """What the reader did to the writer, a dictionary per file system, the least disturbed one first.

    Keys: label, before_mb_s, beside_mb_s, after_mb_s, reader_mb_s, slowdown (geometric means over rounds), low, high
    (95 % interval of slowdown, NaN with one round), recovery_ns (geometric mean of the rounds in which the writer
    recovered, None if in none), rounds, recovered (how many).
    """
    found = []
    for label, own in series.windows(series.of_phase(study.samples, setting, load, phase)).groupby("label", sort=False):
        back = pd.to_numeric(own["recovery_ns"]).dropna()
        row: dict = {
            key: _mean(own[key]) for key in ("before_mb_s", "beside_mb_s", "after_mb_s", "reader_mb_s", "slowdown")
        }
        bounds = interval(own["slowdown"]) if (own["slowdown"] > 0).all() else (np.nan, np.nan)
        row |= dict(zip(("low", "high"), bounds, strict=True))
        row |= {"recovery_ns": _mean(back) if len(back) else None, "rounds": len(own), "recovered": len(back)}
        found.append({"label": label} | row)
    return sorted(found, key=lambda row: -row["slowdown"])


def _mean(values: pd.Series) -> float:
    """Geometric mean; recovery may take no time."""
    x = values.to_numpy(float)
    return float(np.exp(np.log(x).mean())) if (x > 0).all() else float(x.mean())


def table(study: Study, setting: Setting, load: Load, phase: str) -> Table:
    """Rates of the three windows, slowdown and recovery of each file system."""
    rows = [
        {
            "File system": row["label"],
            **{
                f"{key.capitalize()} MB/s": digits(row[f"{key}_mb_s"], 3)
                for key in ("before", "beside", "after", "reader")
            },
            "Slowdown": digits(row["slowdown"], 3),
            "95 % interval": confidence(row["low"], row["high"], significant=3),
            "Recovered after": "not" if row["recovery_ns"] is None else time(row["recovery_ns"], 3),
        }
        for row in facts(study, setting, load, phase)
    ]
    caption = (
        f"{load}, {setting}: the writer before, beside and after the reader; geometric means over rounds. Slowdown:"
        " rate beside the reader over the mean of the two windows alone. Recovered: from the end of the reader's last"
        " read to the"
        " first chunk at 95 % of the median rate before it."
    )
    return Table(f"tbl-{slug('windows', phase, setting, load)}", caption, rows, ["File system"])


def figure(study: Study, setting: Setting, load: Load, phase: str) -> Figure:
    """Rates of writer and reader over time in the first round, a panel per file system."""
    caption = (
        f"{load}, {setting}: a writer alone, beside a reader (shaded), and alone again, in the first round. Dots are"
        " chunks, bars the means of the windows, the stepped line is the reader."
    )
    alt = "Rates of writer and reader over time; the table of the windows has the numbers."
    plot = over_time(series.of_phase(study.samples, setting, load, phase))
    return Figure(slug("windows", phase, setting, load), caption, alt, plot)


@styled
def over_time(samples: pd.DataFrame) -> Plot:
    """Rates of a writer and, beside it for a while, a reader (MB/s) over time (s): one panel per file system and stack.

    Dots are chunks, bars the means of the three windows, steps the reader in sixteenths of its time (the shade): single
    reads say little, many are served by readahead. Above is the rate beside the reader as a share of that alone, and
    the time from the reader's end until the writer has recovered; all of the first round. Raises ValueError without a
    sample `write`.
    """
    chosen = samples[samples["round"] == samples["round"].min()]
    cells = by_system(series.some(series.rates(chosen), "write"))
    read = by_system(series.rates(chosen, "read"))
    plot, panels = column(cells, 1.3)
    for axes, (title, own) in zip(panels, cells.items(), strict=True):
        beside = read.get(title, own.iloc[:0])
        _panel(axes, own, beside)
        effects = series.window_effects(pd.concat([own, beside]))
        back = "no recovery seen"
        if effects["recovery_ns"] is not None:
            back = f"recovered after {time(effects['recovery_ns'], 2)}"
        panel_title(axes, title, f"{digits(effects['slowdown'], 2)} of its rate beside the reader, {back}")
    plot.supxlabel("time, s", fontsize=8)
    plot.supylabel("MB/s", fontsize=8)
    legend(plot, {"writer": (BLUE, ".", ""), "mean of a window": (BLUE, "", "-"), "reader": (ORANGE, "", "-")})
    return plot


def _panel(axes, write: pd.DataFrame, read: pd.DataFrame) -> None:
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
    rate_axis(axes)
