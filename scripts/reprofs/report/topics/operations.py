"""The operations one by one: which file system is the fastest, by how much, and how its times are spread."""

from __future__ import annotations

import math

import matplotlib
import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.colors import LogNorm

from reprofs.data.keys import OPERATION, Load, Operation, Setting, distinct, natural, select
from reprofs.report import plots
from reprofs.report.display import (
    DASH,
    Table,
    confidence,
    count,
    digits,
    known,
    listing,
    ratio,
    slug,
    time,
    unit_of,
    verb,
)
from reprofs.report.marks import Marked, strong
from reprofs.report.plots import BLUE, GREY, ORANGE, WIDTH, Figure, Plot, styled
from reprofs.stats.cells import LEVEL, latency_quantiles, measured
from reprofs.stats.compare import relative, versus
from reprofs.stats.recorded import MINOR
from reprofs.stats.study import Study

STARTS = 6  # the protocol from which on a round's seed draws the moment of the start, too
MANY = 9  # contenders: more do not fit beside each other
ROWS = 36  # operations: more do not fit below each other
SLOWER = "slower than the best"  # of an upper bound, which then is none

# ---- facts ---------------------------------------------------------------------------------------------------------


def completed(study: Study, setting: Setting, load: Load) -> bool:
    """Whether a contender completed a workload in a setting."""
    return len(select(study.results.winners, setting, load)) > 0


def interval_note(table: pd.DataFrame) -> str:
    """What the times and intervals of `statistics` or of a part of it are."""
    note = "Times are geometric means of the rounds, with 95 % intervals (Student's t on logarithms)."
    return note + (" A single round has no interval." if (table["n"] == 1).any() else "")


def verdict_note(study: Study) -> Marked:
    """What the three verdicts say."""
    win, equal = (share(study.margins[key]) for key in ("win", "equal"))
    return Marked(
        f"*Fastest*: a measured lead of {win} or more over every other contender, and more than chance (paired t"
        " tests, corrected over all operations of the study, 5 %). *Equivalent*: all that are level, not shown to be"
        f" slower by {win} or more, are within {equal} of the best (two one-sided tests, 5 %). *Undecided*: neither is"
        " shown; beside it about how many rounds would decide."
    )


def share(value: float) -> str:
    """A margin as a percentage."""
    return f"{100 * value:g} %"


def spread_note(study: Study, *labs: str) -> str:
    """What a spread over rounds means in these labs."""
    repeatable = {study.lab(name).exact for name in labs}
    start = (
        "and on the moment of the start (against ticks and timers), not measurement noise."
        if study.plan.protocol >= STARTS
        else "not measurement noise; all trials start at the same instruction: what another moment would change is not"
        " in it."
    )
    exact = (
        f"Spread over rounds is dependence on the input (names, which file has which size, order, hash seeds), {start}"
    )
    if repeatable == {True}:
        return exact
    noisy = "Spread over rounds is dependence on the input and noise together."
    return noisy if True not in repeatable else f"{exact} Where the clock is a real one, it is both together."


# ---- tables --------------------------------------------------------------------------------------------------------


def winners(study: Study, setting: Setting) -> Table:
    """Verdict, time with interval and lead of the best contender, one row per operation; of one round the least time
    alone."""
    results = study.results
    rows: list[dict] = []
    chosen = select(results.winners, setting).sort_values("position", kind="stable")
    chosen = chosen.sort_values(["workload", "scale"], kind="stable", key=lambda names: names.map(natural))
    before, refuted = "", select(study.shapes[study.shapes["p_holm"] < 1 - LEVEL], setting)
    several, open_ = chosen["workload"].nunique() > 1, (chosen["verdict"] == "undecided").any()
    single = (chosen["n"] == 1).all()
    for row in chosen.itertuples():
        operation = Operation(row.workload, row.scale, row.phase, row.cache)
        cells = select(results.statistics, setting, operation)
        unit, scale = unit_of(row.geometric_mean_ns)
        bound = cells.loc[cells["role"] == "ceiling", "geometric_mean_ns"]
        pairs = versus(select(results.pairwise, setting, operation, contenders=True), row.best)
        # Beside an open verdict stands the nearest of those that it is about.
        pairs = pairs[pairs["other"].isin(row.level)] if row.level else pairs
        near = pairs.sort_values(["ratio", "other"]).iloc[0] if len(pairs) else None
        told = {"Verdict": verdict(row) + _skewed(refuted, operation, near, row)}
        told = {"Least time": row.best} if single else told
        rounds = {"To decide": count(int(row.rounds), "round") if known(row.rounds) else DASH} if open_ else {}
        interval = "" if single else " (95 % interval)"
        rows.append(
            ({"Workload": "" if rows and row.workload == before else row.workload} if several else {})
            | {
                "Operation": study.title(row.workload, row.phase, row.cache),
                **told,
                f"Time{interval}": f"{digits(row.geometric_mean_ns / scale)} {unit}"
                + (f" ({confidence(row.low_ns, row.high_ns, scale)})" if known(row.low_ns) else ""),
                "Next": DASH if near is None else near["other"],
                f"Its ratio{interval}": DASH if near is None else ratio(near["ratio"], near["low"], near["high"]),
                **({} if single else rounds),
                **({"Upper bound": _bound(bound, row.geometric_mean_ns)} if study.bounds(setting) else {}),
            }
        )
        before = row.workload
    caption = _caption(study, setting, single)
    return Table(f"tbl-{slug('winners', setting)}", caption, rows, left=["Workload", "Operation", *told, "Next"])


def _caption(study: Study, setting: Setting, single: bool) -> str:
    """Of `winners`; only the first of several tables, as they come in the report, says what its columns are."""
    winners, bounds = study.results.winners, bool(study.bounds(setting))
    first = next((place for place in study.shown_settings if (select(winners, place)["n"] > 1).any()), None)
    caption = f"The best contender of each operation ({setting})."
    if single:
        caption = f"The contender with the least time in each operation ({setting}), and the next: of one round, which"
        caption += " shows no difference."
    elif setting == first:
        caption += (
            " " + verdict_note(study) + f" {interval_note(study.results.statistics)} Next: the nearest contender,"
        )
        caption += " beside an open verdict of those it is about; the interval of its ratio is not corrected."
        caption += " Not normal: the verdict rests on this cell, whose logarithms are refuted to be normal (Shapiro and"
        caption += " Wilk, 5 % by Holm over all cells)."
    else:
        caption += " Its columns and verdicts are those of the first of these tables."
    if bounds and (single or setting == first):
        caption += " Upper bound: none where its time, in brackets, is longer than the best."
    return caption


def _bound(bounds: pd.Series, best: float) -> str:
    """The upper bound of an operation; none, with its time, where that is slower than the best contender."""
    if bounds.empty:
        return DASH
    told = time(bounds.min(), 3)
    return f"none ({told})" if bounds.min() > best else told


def _skewed(refuted: pd.DataFrame, operation: Operation, near: pd.Series | None, row) -> str:
    """The contenders on whose times a verdict rests that are not normal, as words; nothing without any."""
    about = {row.best, *row.level, *([] if near is None else [near["other"]])}
    found = [label for label in select(refuted, operation)["label"] if label in about]
    return f"; not normal: {listing(found)}" if found else ""


def verdict(row) -> str:
    """The verdict of a row of `winners` in words."""
    names = listing([row.best, *row.level], last="and", most=3)
    if row.verdict in ("fastest", "alone"):
        return strong(row.best) + " fastest" if row.verdict == "fastest" else f"{row.best} (alone)"
    return f"{row.verdict}: {names}"


# ---- heat maps -----------------------------------------------------------------------------------------------------


def heatmaps(study: Study, setting: Setting) -> list[Figure]:
    """Time of each contender relative to the best; with many contenders one a workload, contenders downwards."""
    cost = relative(select(study.results.statistics, setting))
    order, bounds = study.contenders(setting), study.bounds(setting)
    many, groups = len(order) > MANY, _groups(cost, len(order) > MANY)
    figures = []
    for group in groups:
        here = pd.concat([select(cost, load) for load in group])
        contenders = here[here["role"] == "contender"]
        if contenders.empty:
            continue
        part = f"{listing(group)}, " if len(groups) > 1 else ""
        caption = (
            f"Time of each operation relative to the best contender ({part}{setting}): 1 is the best, 2 takes twice as"
            " long. Geometric means over rounds; the colour scale is logarithmic,"
            f" {'rows' if many else 'columns'} are sorted by mean rank, a dash means no result."
        )
        if bounds:
            what = verb(len(bounds), "is an upper bound, not a contender", "are upper bounds, not contenders")
            caption += f" {listing(bounds)} {what}; a ratio above 1 is no bound."
        if left := study.unpromised(setting):
            caption += f" {listing(left)} {verb(len(left), 'does', 'do')} not keep what fsync promises: not ranked."
        worst = contenders.sort_values("cost").iloc[-1]
        alt = (
            f"Heat map of {count(len(plots.operations(here)), 'operation')} by"
            f" {count(here['label'].nunique(), 'file system')}. The largest ratio is {digits(worst['cost'], 3)},"
            f" {worst['label']} in {study.title(worst['workload'], worst['phase'], worst['cache'])}."
        )
        name = slug("heatmap", setting, group[0] if len(groups) > 1 else ())
        present = [label for label in order + study.beside(setting) if label in set(here["label"])]
        if many:
            shown = here.assign(row=here["label"], value=here["cost"], shown=here["role"] == "contender")
            plot = plots.heat_grid(shown, present, study.title)
        else:
            plot = heatmap(here, present, study.title)
        figures.append(Figure(name, caption, alt, plot))
    return figures


def _groups(cost: pd.DataFrame, apart: bool) -> list[list[Load]]:
    """Workloads that fit on one page together."""
    groups: list[list[Load]] = []
    room = 0
    for load in distinct(cost, Load):
        size = len(select(cost, load).drop_duplicates(OPERATION))
        if apart or not groups or size > room:
            groups.append([])
            room = ROWS
        groups[-1].append(load)
        room -= size
    return groups


@styled
def heatmap(table: pd.DataFrame, order: list[str], words) -> Plot:
    """Cost of each contender in each operation relative to the best contender; upper bounds beside them, uncoloured.

    `table` is stats.compare.relative of one setting; `order` the labels from left to right; `words` gives the title of
    a (workload, phase, cache).
    """
    rows = plots.operations(table)
    cost = table.pivot(index=OPERATION, columns="label", values="cost")
    contenders = [label for label in order if (table.loc[table["label"] == label, "role"] != "ceiling").all()]
    columns = contenders + [label for label in order if label not in contenders]
    top = max(2.0, float(np.nanmax(cost[contenders].to_numpy(float), initial=2.0)))
    norm, colours = LogNorm(1, top), matplotlib.colormaps["cividis_r"]
    height = 0.9 + 0.185 * (len(rows) + 0.9 * len({row[:2] for row in rows}))
    figure, axes = plt.subplots(figsize=(WIDTH, height))
    places = _heat_rows(axes, rows, words)
    heads, turned = plots.columns(columns, 90)
    for x, label in enumerate(columns):
        shift = x + (0.25 if label not in contenders else 0)
        axes.text(shift, -0.5, heads[x], ha="center", va="bottom", rotation=turned, linespacing=0.95)
        for row, y in places:
            value = cost.get(label, pd.Series(dtype=float)).get(row, math.nan)
            plots.heat_cell(axes, shift, y, value, None if label not in contenders else colours(norm(max(value, 1))))
    axes.set_xlim(-0.5, len(columns) - 0.5 + 0.25)
    axes.set_ylim(places[-1][1] + 0.5, -0.5)
    axes.axis("off")
    return figure


def _heat_rows(axes, rows: list[tuple], words) -> list[tuple]:
    """Places of the rows from the top, with a gap and the workload's name where one begins."""
    places, y, before = [], 0.0, None
    for row in rows:
        if row[:2] != before:
            y += 0.0 if before is None else 0.85
            axes.text(-0.62, y - 0.75, f"{row[0]} ({row[1]})", ha="right", va="center", fontweight="bold")
            y += 0.15
            before = row[:2]
        axes.text(-0.62, y, words(row[0], row[2], row[3]), ha="right", va="center")
        places.append((row, y))
        y += 1
    return places


# ---- every round, every operation ----------------------------------------------------------------------------------


def intervals(study: Study, setting: Setting, load: Load, contenders: list[str] | None = None) -> list[Figure]:
    """Every round and the interval of each file system, one panel per operation; as many figures as pages are needed.

    Empty where no contender has a result.
    contenders: which file systems, from the top; default all, best mean rank first.
    """
    table = select(study.results.statistics, setting, load)
    rounds = select(measured(study.phases), setting, load)
    bounds = sorted(set(table.loc[table["role"] == "ceiling", "label"]))
    labels = contenders or [label for label in study.contenders(setting) if label in set(table["label"])]
    if not labels:
        return []
    labels += [] if contenders else [label for label in study.unpromised(setting) if label in set(table["label"])]
    caption = (
        f"{load.workload} ({load.scale}): time of each operation ({setting}). A ring is one round; the bar is the"
        f" interval, its mark the geometric mean. {interval_note(table)} {spread_note(study, setting.lab)}"
    )
    if bounds:
        caption += f" The broken line is the upper bound, {listing(bounds)}, where no contender is faster."
    if study.plan.workloads[load.workload].recording:
        caption += f" Kinds of calls that take less than {share(MINOR)} of the time on every file system are left out."
    figures, pages = [], plots.pages(table, len(labels))
    for number, page in enumerate(pages):
        alt = (
            f"{count(len(plots.operations(page)), 'panel')}, one an operation, with the times of {listing(labels)}; the"
            " appendix has the numbers."
        )
        name, text = plots.part(slug("intervals", setting, load), caption, number, len(pages))
        figures.append(Figure(name, text, alt, interval_panels(page, rounds, labels, study.title)))
    return figures


@styled
def interval_panels(table: pd.DataFrame, phases: pd.DataFrame, labels: list[str], words) -> Plot:
    """One panel per operation: every round as a ring, the centre as a mark in its interval.

    `table` is stats.cells.statistics, `phases` the rounds behind it, both of one setting and workload; `labels` from
    top to bottom. An upper bound is a vertical line, not a row.
    """
    figure, panels = plots.panels(plots.operations(table), len(labels))
    for axes, operation in zip(panels, plots.operations(table), strict=False):
        here = select(table, Operation(*operation))
        rounds = select(phases, Operation(*operation))
        unit = _interval_panel(axes, here, rounds, labels)
        plots.title(axes, operation, words, unit)
    return figure


def _interval_panel(axes, table: pd.DataFrame, rounds: pd.DataFrame, labels: list[str]) -> str:
    name, scale = unit_of(table["median_ns"].median())
    # The interval of two rounds can be many times as wide as they are apart.
    every = rounds["wall_ns"].astype(float) / scale
    for y, label in enumerate(labels):
        own = rounds.loc[rounds["label"] == label, "wall_ns"].astype(float) / scale
        axes.plot(own, [y] * len(own), "o", ms=4, mfc="none", mec=ORANGE, mew=0.8, zorder=3)
        for _, cell in table[table["label"] == label].iterrows():
            ends = [max(cell["low_ns"] / scale, every.min() / 2), min(cell["high_ns"] / scale, every.max() * 2)]
            axes.plot(ends, [y, y], color=BLUE, lw=2.2, solid_capstyle="butt")
            axes.plot([cell["geometric_mean_ns"] / scale] * 2, [y - 0.32, y + 0.32], color=BLUE, lw=1.6)
    for cell in table[table["role"] == "ceiling"].itertuples():
        axes.axvline(cell.geometric_mean_ns / scale, color=GREY, lw=1, ls=(0, (3, 2)), zorder=1)
    plots.rows(axes, labels)
    plots.value_axis(axes)
    return name


def latencies(study: Study, setting: Setting, load: Load) -> list[Figure]:
    """How often single operations took how long, one panel per operation; empty where no contender has a latency."""
    latency = select(measured(study.latency), setting, load)
    if not (latency["role"] == "contender").any():
        return []
    places = select(measured(study.phases), setting, load)
    places = places.drop_duplicates(["phase", "cache"])[["phase", "cache", "position"]]
    latency = latency.merge(places, on=["phase", "cache"])
    order = study.contenders(setting) + study.beside(setting)
    caption = (
        f"{load.workload} ({load.scale}): latency of single operations, all rounds together, logarithmic axis"
        f" ({setting}). The height of a hump is how many operations took so long, scaled to its peak; the long tick is"
        " the median, the short one the 99th percentile."
    )
    figures, pages = [], plots.pages(latency, len(set(order) & set(latency["label"])))
    for number, page in enumerate(pages):
        tail = latency_quantiles(page, (0.5, 0.99)).assign(tail=lambda frame: frame["q0.99"] / frame["q0.5"])
        worst = tail.sort_values(["tail", "label"]).iloc[-1]
        alt = (
            f"Histograms of latency. The longest tail is that of {worst['label']} in"
            f" {study.title(load.workload, worst['phase'], worst['cache'])}: median {time(worst['q0.5'], 3)}, 99th"
            f" percentile {time(worst['q0.99'], 3)}."
        )
        name, text = plots.part(slug("latencies", setting, load), caption, number, len(pages))
        figures.append(Figure(name, text, alt, latency_panels(page, order, study.title)))
    return figures


@styled
def latency_panels(latency: pd.DataFrame, order: list[str], words) -> Plot:
    """One panel per operation of one workload: how often which latency, one hump per label, on a common log axis.

    `latency` is the long histogram table of one setting and workload; rounds are merged. The bar in a hump is the
    median, the tick at its right the 99th percentile.
    """
    quantiles = latency_quantiles(latency, (0.5, 0.99))
    labels = [label for label in order if label in set(latency["label"])]
    figure, panels = plots.panels(plots.operations(latency), len(labels))
    for axes, operation in zip(panels, plots.operations(latency), strict=False):
        here = select(latency, Operation(*operation))
        marks = select(quantiles, Operation(*operation)).set_index("label")
        unit = _latency_panel(axes, here, marks, labels)
        plots.title(axes, operation, words, unit)
    return figure


def _latency_panel(axes, latency: pd.DataFrame, marks: pd.DataFrame, labels: list[str]) -> str:
    name, scale = unit_of(marks["q0.5"].median())
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
        colour = BLUE if (own["role"] == "contender").all() else GREY
        turns = np.flatnonzero(np.diff(outline, prepend=math.nan))
        axes.fill_between(edges[turns] / scale, y + 0.42, outline[turns], step="post", color=colour, alpha=0.45, lw=0)
        for column, reach in (("q0.5", 0.42), ("q0.99", 0.1)):
            axes.plot([marks.loc[label, column] / scale] * 2, [y + 0.42, y + 0.42 - 2 * reach], color=colour, lw=1.6)
    plots.rows(axes, labels)
    axes.set_xscale("log")
    plots.value_axis(axes)
    return name
