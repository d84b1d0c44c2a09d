"""Factors: how each, changed alone, changes the ratios of file systems, compared with the published ratios."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pandas as pd
from matplotlib.ticker import FixedLocator, LogLocator, NullFormatter, NullLocator

from reprofs.data.keys import Phase
from reprofs.report.display import DASH, Table, count, digits, slug
from reprofs.report.plots import BLUE, GREY, INK, ORANGE, PLAIN, Figure, Plot, grid, legend, rows, styled
from reprofs.stats.factors import BASE, OFF, Factors
from reprofs.stats.study import Study

MOST = 6  # operations in a table or figure: what fits on a page
TIMES = "\N{MULTIPLICATION SIGN}"
MUCH = 1.1  # a factor that changes how far the ratios are off by less than this changes it hardly


# ---- facts -----------------------------------------------------------------------------------------------------------


def facts(factors: Factors) -> dict[str, Any]:
    """Facts on the factors.

    Keys: reference, others (names of file systems), cells (what the base is: stack, profile, workload), rounds, ratios
    (how many the base has), base (its row of `Factors.summary`, None if nothing is comparable), factors (those of the
    others, with title of the operation of the largest change, nearest to the published ratios first), nearer, same
    and further (those of them by which the base is off more, about as much, or less: see MUCH), missing (factors
    without a ratio), near and far (the rows of `Factors.deviating` with title, which a factor brings nearer than OFF,
    or none), helped (factor: how many of near it brings the nearest, most first).
    """
    study, found = factors.study, factors.summary.to_dict("records")
    entries = study.plan.factors
    changed = [row | {"title": _title(study, row)} for row in found if row["factor"] != BASE]
    deviating = [row | {"title": _title(study, row)} for row in factors.deviating.to_dict("records")]
    names = [cell.filesystem for cell in entries[0].cells]
    known = {row["factor"] for row in found}
    changed.sort(key=lambda row: row["off"] / row["base_off"])
    base = next((row for row in found if row["factor"] == BASE), None)
    near = [row for row in deviating if row["left"] < OFF]
    return {
        "reference": names[-1],
        "others": names[:-1],
        "cells": {key: getattr(entries[0].cells[0], key) for key in ("stack", "profile", "workload")},
        "rounds": study.plan.study.rounds,
        "ratios": base["ratios"] if base else 0,
        "base": base,
        "factors": changed,
        **{what: [row for row in changed if _moved(row) == what] for what in ("nearer", "further", "same")},
        "missing": [entry.title for entry in entries[1:] if entry.title not in known],
        "near": near,
        "helped": dict(Counter(row["nearest"] for row in near).most_common()),
        "far": [row for row in deviating if row["left"] >= OFF],
    }


def _moved(row: dict[str, Any]) -> str:
    if row["off"] * MUCH <= row["base_off"]:
        return "nearer"
    return "further" if row["off"] >= row["base_off"] * MUCH else "same"


def steps(factors: Factors, filesystem: str) -> list[Phase]:
    """The operations whose ratio of that file system deviates most from the published one, in the workload's order."""
    found = factors.deviating
    found = found[found["filesystem"] == filesystem].head(MOST).sort_values("position")
    return [Phase(row.phase, row.cache) for row in found.itertuples()]


def _title(study: Study, row: dict) -> str:
    """The study's own title of an operation."""
    workload = study.plan.factors[0].cells[0].workload
    return study.title(workload, row["phase"], row["cache"])


# ---- tables ----------------------------------------------------------------------------------------------------------


def table(factors: Factors, filesystem: str) -> Table:
    """One row per factor: the ratios of the operations that deviate most, and how they change."""
    study, effects, chosen = factors.study, factors.effects, steps(factors, filesystem)
    own = effects[effects["filesystem"] == filesystem]
    published, base = {"Factor": "published"}, {"Factor": BASE}
    shown = [published, base]
    for factor, rows_of in own.groupby("factor", sort=False):
        row = base if factor == BASE else {"Factor": factor}
        for step in chosen:
            cell = rows_of[(rows_of["phase"] == step.phase) & (rows_of["cache"] == step.cache)]
            name = _title(study, step._asdict())
            row[name] = DASH
            for one in cell.itertuples():
                published[name] = digits(one.published, 3)
                change = f" ({TIMES}{digits(one.change, 2)})" if factor != BASE else ""
                row[name] = digits(one.ratio, 3) + change
        if factor != BASE:
            shown.append(row)
    reference = study.plan.factors[0].cells[-1].filesystem
    caption = (
        f"Time of {filesystem} over that of {reference}: published, in the base, and with one thing changed, in"
        f" brackets the ratio over that of the base. The {count(len(chosen), 'operation')} in which the base is the"
        f" farthest from the published ratio, of those in which it is off by a factor of {OFF:g} or more."
    )
    return Table(f"tbl-{slug('factors', filesystem)}", caption, shown, left=["Factor"])


def nearest(factors: Factors) -> Table:
    """The ratios that are far from the published ones in the base, and what brings each the nearest."""
    found = facts(factors)
    shown = [
        {
            "Operation": row["title"],
            "File system": row["filesystem"],
            "Published": digits(row["published"], 3),
            "Base": digits(row["base"], 3),
            "Nearest with": row["nearest"],
            "There": digits(row["ratio"], 3),
            f"Within {TIMES}{OFF:g}": "yes" if row["left"] < OFF else "no",
        }
        for row in [*found["near"], *found["far"]]
    ]
    caption = (
        f"Time over that of {found['reference']} where the base is off from the published ratio by a factor of {OFF:g}"
        " or more, and the one thing that brings it the nearest."
    )
    return Table("tbl-factors-nearest", caption, shown, left=["Operation", "File system", "Nearest with"])


def summary_table(factors: Factors) -> Table:
    """One row per factor: how near all ratios are to the published ones."""
    found = facts(factors)
    shown = [
        {
            "Factor": row["factor"],
            "Ratios": row["ratios"],
            "Off by a factor of": digits(row["off"], 3),
            "The base, same ratios": digits(row["base_off"], 3),
            "Pace": digits(row["pace"], 2),
            "Nearer": row["nearer"] if row["factor"] != BASE else DASH,
            "Further": row["further"] if row["factor"] != BASE else DASH,
            "Same side of 1": row["same_side"],
        }
        for row in [found["base"], *found["factors"]]
        if row
    ]
    counted = factors.study.plan.published.size if factors.study.plan.published else ""
    caption = (
        "How far the ratios of the file systems are from the published ones, over all operations with published"
        " numbers: geometric mean of the factor by which they are off, whichever way; pace, the time for each of the"
        f" {counted} over the published one (geometric mean); how many are nearer to"
        " the published ratio than in the base, or further from it, by 10 % or more; how many are on its side of 1."
    )
    return Table("tbl-factors", caption, shown, left=["Factor"])


# ---- figures ---------------------------------------------------------------------------------------------------------


def figure(factors: Factors, filesystem: str) -> Figure:
    """From the ratio of the base to that with each factor, and the published one."""
    study, effects, chosen = factors.study, factors.effects, steps(factors, filesystem)
    own = effects[effects["filesystem"] == filesystem]
    reference = study.plan.factors[0].cells[-1].filesystem
    caption = (
        f"Time of {filesystem} over that of {reference}, from the base (upright line) to each factor (dot); the broken"
        " line is the published ratio. Logarithmic axes."
    )
    alt = f"{count(len(chosen), 'panel')}, one an operation; the table of {filesystem} has the numbers."
    titles = {step: _title(study, step._asdict()) for step in chosen}
    return Figure(slug("factors", filesystem), caption, alt, dumbbells(own, titles))


@styled
def dumbbells(effects: pd.DataFrame, titles: dict[Phase, str]) -> Plot:
    """A panel per operation, a row per factor; `effects` as of `stats.factors.effects`, of one file system."""
    names = [name for name in dict.fromkeys(effects["factor"]) if name != BASE]
    columns = min(3, max(len(titles), 1))
    lines = math.ceil(len(titles) / columns)
    plot, panels = grid(lines, columns, len(titles), 0.5 + lines * (0.6 + 0.17 * len(names)), sharey=True)
    for axes, (step, title) in zip(panels, titles.items(), strict=True):
        own = effects[(effects["phase"] == step.phase) & (effects["cache"] == step.cache)]
        for row in own[own["factor"] != BASE].itertuples():
            y = names.index(row.factor)
            axes.plot([row.base, row.ratio], [y, y], color=BLUE, lw=1.6, alpha=0.6)
            axes.plot(row.ratio, y, marker="o", ms=4.5, color=BLUE, ls="")
        axes.axvline(own["base"].iloc[0], color=INK, lw=0.9)
        axes.axvline(own["published"].iloc[0], color=ORANGE, lw=1.2, ls="--")
        rows(axes, names)
        axes.set_title(title, loc="left", fontsize=8)
        _ratio_axis(axes)
    kinds = {"base": (INK, "", "-"), "with the factor": (BLUE, "o", "-"), "published": (ORANGE, "", "--")}
    legend(plot, kinds)
    return plot


def _ratio_axis(axes) -> None:
    """A logarithmic axis of ratios with few plain numbers, wide enough that noise stays small."""
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    low, high = min(low, 0.8), max(high, 1.25)
    axes.set_xlim(low, high)
    near = [value for value in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50) if low <= value <= high]
    axes.xaxis.set_major_locator(FixedLocator(near) if len(near) < 6 else LogLocator())
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_formatter(PLAIN)
    axes.axvline(1, color=GREY, lw=0.5, zorder=0)
