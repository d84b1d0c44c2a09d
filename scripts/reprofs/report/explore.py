"""Exploring a study by hand: choosing rows with widgets, their distribution, ratios of one's own, export, two studies.

For notebooks/00-explore.ipynb, which is not part of the report. All but `Chooser` are functions of a study and a
choice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ipywidgets
import numpy as np
import pandas as pd
import scipy  # scipy.stats takes seconds to import, so scipy imports it on first use
from IPython.display import Markdown, display
from matplotlib import pyplot as plt

from reprofs.data.keys import OPERATION, SETTING, Load, Operation, Setting, distinct, select
from reprofs.errors import UserError
from reprofs.files import write_bytes
from reprofs.project import place
from reprofs.report import plots
from reprofs.report.display import confidence, digits, listing, slug, unit_of
from reprofs.report.marks import escaped, strong
from reprofs.report.plots import BLUE, GREY, ORANGE, WIDTH, Figure, Plot, styled
from reprofs.stats.cells import LEVEL, measured, statistics, student
from reprofs.stats.compare import ratio
from reprofs.stats.study import Study

FORMATS = ("csv", "parquet")
LEVELS = (0.9, 0.95, 0.99)
ROW = [*SETTING, *OPERATION, "label"]


@dataclass(frozen=True)
class Choice:
    """What is shown: an operation in a setting, file systems by label, the two of a ratio, a confidence level."""

    setting: Setting
    operation: Operation
    labels: tuple[str, ...]
    a: str
    b: str
    level: float = LEVEL


def choices(study: Study) -> dict[Setting, dict[Load, dict[Operation, list[str]]]]:
    """Setting -> workload -> operation -> labels, of everything with a measured round, operations in their order."""
    rows, found = measured(study.phases), {}
    for setting in distinct(rows, Setting):
        here = select(rows, setting)
        found[setting] = {
            load: {
                Operation(*key): sorted(set(select(here, Operation(*key))["label"]))
                for key in plots.operations(select(here, load))
            }
            for load in distinct(here, Load)
        }
    return found


def rounds(study: Study, choice: Choice) -> pd.DataFrame:
    """The rows of `study.phases` that were chosen: one a file system and round, in the order of the labels."""
    return _chosen(study.phases, choice)


def latencies(study: Study, choice: Choice) -> pd.DataFrame:
    """The rows of `study.latency` that were chosen, one per bucket; empty where single operations were not timed."""
    return _chosen(study.latency, choice) if study.has("latency") else pd.DataFrame()


def _chosen(frame: pd.DataFrame, choice: Choice) -> pd.DataFrame:
    own = select(measured(frame), choice.setting, choice.operation)
    order = {label: place for place, label in enumerate(choice.labels)}
    own = own[own["label"].isin(order)]
    return own.sort_values("label", key=lambda labels: labels.map(order), kind="stable").reset_index(drop=True)


def paired(study: Study, choice: Choice) -> dict:
    """Ratio a / b of wall times over the rounds that both have, with an interval: n, and see stats.compare.ratio.

    Raises UserError when they have no round in common, or a time of zero.
    """
    rows = select(measured(study.phases), choice.setting, choice.operation)
    wide = rows.pivot(index="round", columns="label", values="wall_ns").astype(float)
    both = pd.DataFrame({"a": wide.get(choice.a), "b": wide.get(choice.b)}, index=wide.index).dropna()
    if both.empty:
        raise UserError(f"{choice.a} and {choice.b} have no round of this operation in common: choose others.")
    if not (both > 0).all(axis=None):
        raise UserError(f"A round of {choice.a} or {choice.b} took no time: there is no ratio.")
    return {"n": len(both), **ratio(both["a"], both["b"], choice.level)}


def by_cell(study: Study, **statistics: Callable[[pd.Series], float] | str) -> pd.DataFrame:
    """Statistics of the times (ns) of every cell, a file system in an operation of a setting: a column each.

    statistics: functions of a Series, or names of its methods.
    """
    rows = measured(study.phases).astype({"wall_ns": float})
    grouped: Any = rows.groupby(ROW)["wall_ns"]
    return grouped.agg(**statistics).reset_index()


def export(study: Study, choice: Choice, folder: str | Path, kind: str = "csv") -> list[Path]:
    """Write the chosen rounds and latencies into folder/<study>; returns the files, one for each that has rows.

    folder: relative to the checkout, or absolute. Raises UserError for another kind than csv and parquet.
    """
    if kind not in FORMATS:
        raise UserError(f"{kind} is not an export format: choose {listing(FORMATS, 'or')}.")
    files = []
    for part, frame in (("phases", rounds(study, choice)), ("latency", latencies(study, choice))):
        if len(frame):
            name = f"{slug(part, choice.setting, choice.operation)}.{kind}"
            files.append(place(folder) / study.plan.study.name / name)
            data = frame.to_csv(index=False).encode() if kind == "csv" else frame.to_parquet(None, index=False)
            write_bytes(files[-1], data)
    return files


def figure(study: Study, choice: Choice) -> Figure:
    """Every round of the chosen file systems, and beside it how their single operations are distributed."""
    shown, single = rounds(study, choice), latencies(study, choice)
    words = study.title(choice.operation.workload, choice.operation.phase, choice.operation.cache)
    caption = (
        f"{words} ({choice.operation.workload}, {choice.operation.scale}; {choice.setting}). A ring is one round, the"
        f" line is the geometric mean with its {choice.level:.0%} interval by Student's t on logarithms."
    )
    if len(single):
        caption += " Right: the share of single operations that took at most so long, over all rounds."
    alt = f"Times of {listing(choice.labels)} in {words}."
    name = slug("explore", choice.setting, choice.operation)
    return Figure(name, caption, alt, distribution(shown, single, list(choice.labels), choice.level))


@styled
def distribution(rows: pd.DataFrame, latency: pd.DataFrame, labels: list[str], level: float) -> Plot:
    """Rounds by file system (rings, geometric mean and interval), and the cumulative share of single operations.

    `rows` and `latency` are of one operation, of `study.phases` and `study.latency`; `latency` may be empty.
    """
    import seaborn  # a second to import, and only this figure needs it

    size = (WIDTH, 1.6 + 0.3 * len(labels))
    plot, panels = plt.subplots(1, 2 if len(latency) else 1, figsize=size, squeeze=False, layout="constrained")
    axes = panels[0, 0]
    unit, scale = unit_of(float(rows["wall_ns"].median()))
    data = rows.assign(time=rows["wall_ns"].astype(float) / scale)[["time", "label"]].astype({"label": str})
    common = {"data": data, "x": "time", "y": "label", "order": labels, "ax": axes, "orient": "h"}
    rings = {"marker": "o", "facecolor": "none", "edgecolor": ORANGE, "linewidth": 0.9, "jitter": False, "size": 5}
    seaborn.stripplot(**common, **rings, zorder=3)
    seaborn.pointplot(
        **common,
        estimator=scipy.stats.gmean,
        errorbar=lambda times: _student(times, level),
        linestyle="none",
        color=BLUE,
        markers="|",
        markersize=9,
        err_kws={"linewidth": 2},
    )
    axes.set(ylabel="", xlabel=f"time of a round ({unit})")
    plots.rows(axes, labels)
    if len(latency):
        _shares(panels[0, 1], latency, labels)
    return plot


def _student(times: pd.Series, level: float) -> tuple[float, float]:
    if len(times) < 2:
        return np.nan, np.nan
    low, high = student(np.log(times.to_numpy(dtype=float)), level)
    return float(np.exp(low)), float(np.exp(high))


def _shares(axes: Any, latency: pd.DataFrame, labels: list[str]) -> None:
    import seaborn

    middle = (latency["lower_ns"] + latency["upper_ns"] - 1).astype(float) / 2
    total = latency["count"].sum()
    unit, scale = unit_of(float((middle * latency["count"].astype(float)).sum() / total))
    data = pd.DataFrame({"time": middle / scale, "count": latency["count"].astype(float), "label": latency["label"]})
    data = data.astype({"label": str})
    palette = {label: line[0] for label, line in plots.marks(labels).items()}
    options = {"hue": "label", "hue_order": labels, "palette": palette, "log_scale": True, "lw": 1.2}
    seaborn.ecdfplot(data=data, x="time", weights="count", ax=axes, **options)
    axes.set(xlabel=f"time of a single operation ({unit})", ylabel="share of operations")
    axes.xaxis.set_major_formatter(plots.PLAIN)
    axes.get_legend().set(title="", frame_on=False)
    axes.grid(color=GREY, alpha=0.3, lw=0.5)


def parts(study: Study) -> pd.DataFrame:
    """What of a study can be set beside another one: a row each setting and workload, with its size and what it has."""
    keyed = measured(study.phases).assign(operation=lambda rows: rows["phase"] + ", " + rows["cache"])
    counted: Any = keyed.groupby([*SETTING, *Load._fields])
    return counted.agg(
        items=("items", "max"),
        rounds=("round", "nunique"),
        operations=("operation", "nunique"),
        labels=("label", lambda labels: ", ".join(sorted(set(labels)))),
    ).reset_index()


def beside(study: Study, other: Study, where: dict | None = None, other_where: dict | None = None) -> Figure:
    """Two studies in the same form: the rounds of each file system in each operation that both have.

    where, other_where: the columns of `parts` and their values that say which part of each is drawn; otherwise those
    two with the most operations in common, on the same stack if there is one. Raises UserError when there are none.
    """
    pairs: list[tuple] = []
    chosen = [_parts(study, where), _parts(other, other_where)]
    for own in chosen[0]:
        for his in chosen[1]:
            both = _steps(own).intersection(_steps(his))
            same = own["stack"].iloc[0] == his["stack"].iloc[0]
            labels = own["label"].nunique() + his["label"].nunique()
            pairs.append((len(both), same, labels, -len(pairs), own, his))
    names = [found.plan.study.name for found in (study, other)]
    if not pairs or not (best := max(pairs, key=lambda pair: pair[:4]))[0]:
        raise UserError(f"{names[0]} and {names[1]} have no operation in common here: see explore.parts of both.")
    sides = list(best[4:])
    common = _steps(sides[0]).intersection(_steps(sides[1]))
    sides = [side[_steps(side).isin(common)] for side in sides]
    first = sides[0].sort_values("position").drop_duplicates(["phase", "cache"])
    titles = {
        (row.phase, row.cache): study.title(row.workload, row.phase, row.cache) for row in first.itertuples(index=False)
    }
    told = [_told(name, side) for name, side in zip(names, sides, strict=True)]
    caption = (
        f"Left: {told[0]}. Right: {told[1]}. A ring is one round, the mark is the geometric mean with its {LEVEL:.0%}"
        " interval. One file system has one colour on both sides. The clocks and disks are not the same: the order of"
        " file systems and the distances between them can be compared, times cannot."
    )
    alt = f"Times of {len(titles)} operations in {names[0]} and {names[1]}, by file system."
    return Figure(slug("beside", *names), caption, alt, _beside(sides, names, titles))


def _parts(study: Study, where: dict | None) -> list[pd.DataFrame]:
    """The measured phases of each part of a study that was asked for."""
    rows, keys = measured(study.phases), [*SETTING, *Load._fields]
    for column, value in (where or {}).items():
        if column not in keys:
            raise UserError(f"{column} says no part of a study: choose of {listing(keys, 'or')}.")
        if value not in set(rows[column]):
            known = listing(sorted(set(rows[column])))
            raise UserError(f"{study.plan.study.name} has no {column} {value} there: it has {known}.")
        rows = rows[rows[column] == value]
    return [part for _, part in rows.groupby(keys)]


def _steps(rows: pd.DataFrame) -> pd.MultiIndex:
    """What is the same in two studies: a command that makes a repository is not an operation that makes files."""
    return pd.MultiIndex.from_frame(rows[["phase", "cache", "operation"]])


def _told(name: str, rows: pd.DataFrame) -> str:
    """Which part of a study it is, and how large."""
    setting, load = distinct(rows, Setting)[0], distinct(rows, Load)[0]
    items = rows["items"].max()
    size = "" if pd.isna(items) else f", up to {int(items):,} items"
    return f"{name}, {load}, {setting}{size}, {rows['round'].nunique()} rounds"


@styled
def _beside(sides: list[pd.DataFrame], names: list[str], titles: dict[tuple, str]) -> Plot:
    """A panel for each study, in it a band for each operation and in that a line for each file system."""
    systems = list(dict.fromkeys(name for side in sides for name in sorted(set(side["filesystem"]))))
    labels = [sorted(set(side["label"])) for side in sides]
    lines = max(map(len, labels))
    looks: dict[str, tuple] = {}
    for name in systems:
        colour = plots.LINES[systems.index(name) % len(plots.LINES)][0]
        variants = dict.fromkeys(
            row for side in sides for row in sorted(set(side.loc[side["filesystem"] == name, "label"]))
        )
        looks |= {label: (colour, plots.LINES[i % len(plots.LINES)][1], "none") for i, label in enumerate(variants)}
    height = 0.9 + len(titles) * (0.1 + 0.085 * lines) + 0.17 * -(-len(looks) // 4)
    plot, panels = plots.grid(1, 2, 2, height, sharey=True)
    steps = list(titles)
    for axes, side, own, name in zip(panels, sides, labels, names, strict=True):
        cells = statistics(side).set_index(["label", "phase", "cache"])
        scale = 1e9
        for i, label in enumerate(own):
            offset = (i - (len(own) - 1) / 2) * 0.8 / lines
            mine = side[side["label"] == label]
            place = np.array([steps.index(step) for step in zip(mine["phase"], mine["cache"], strict=True)]) + offset
            colour, marker, _ = looks[label]
            ring = {"marker": "o", "facecolors": "none", "edgecolors": colour, "linewidths": 0.4, "alpha": 0.4, "s": 5}
            axes.scatter(mine["wall_ns"].astype(float) / scale, place, **ring, rasterized=len(mine) > 500)
            middle = cells.loc[label]
            lines_at = np.array([steps.index(step) for step in middle.index]) + offset
            axes.hlines(lines_at, middle["low_ns"] / scale, middle["high_ns"] / scale, color=colour, lw=1.5)
            axes.plot(middle["geometric_mean_ns"] / scale, lines_at, ls="none", marker=marker, ms=3, color=colour)
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(plots.FuncFormatter(plots.power))
        axes.set_xlabel("time (s)", labelpad=1)
        axes.set_title(name, loc="left", fontweight="bold")
        plots.rows(axes, [titles[step] for step in steps])
        for edge in range(1, len(steps)):
            axes.axhline(edge - 0.5, color=GREY, alpha=0.3, lw=0.5)
    plots.legend(plot, looks)
    return plot


def sentence(choice: Choice, found: dict) -> str:
    """What `paired` found, in words of Markdown."""
    value = strong(f"{choice.a} takes {digits(found['ratio'])} times as long as {choice.b}")
    if found["n"] == 1:
        return f"{value} in the one round that both have, which gives no interval."
    bounds = confidence(found["low"], found["high"])
    return f"{value} ({choice.level:.0%} interval {bounds}, Student's t on logarithms, {found['n']} rounds)."


class Chooser:
    """Widgets for a choice, and below them its distribution and ratio.

    `choice` is the current choice. They work without a browser too: setting a widget's value does what a click does.
    """

    def __init__(self, study: Study) -> None:
        """Begin with the first operation and all its file systems. Raises UserError when no trial completed."""
        self.study, self._known = study, choices(study)
        if not self._known:
            raise UserError(f"No trial of the study {study.plan.study.name} completed: there is nothing to show.")
        style = {"style": {"description_width": "7em"}, "layout": {"width": "40em"}}
        self.setting, self.load, self.operation, self.a, self.b = (
            ipywidgets.Dropdown(description=name, **style)
            for name in ("Setting", "Workload", "Operation", "Ratio of", "to")
        )
        self.labels = ipywidgets.SelectMultiple(description="File systems", rows=8, **style)
        self.level = ipywidgets.Dropdown(
            description="Level", options=[(f"{level:.0%}", level) for level in LEVELS], value=LEVEL, **style
        )
        self.shown = ipywidgets.Output()
        self._filling = False
        for widget in (self.setting, self.load, self.operation, self.labels, self.a, self.b, self.level):
            widget.observe(self._changed, names="value")
        _offer(self.setting, [(str(setting), setting) for setting in self._known])

    @property
    def choice(self) -> Choice:
        """The current choice of the widgets."""
        labels = tuple(self.labels.value)
        return Choice(self.setting.value, self.operation.value, labels, self.a.value, self.b.value, self.level.value)

    def _changed(self, change: dict) -> None:
        """Offer the options under a new choice, keep those chosen before where they still exist, and draw once."""
        if self._filling:
            return
        self._filling = True
        loads = self._known[self.setting.value]
        _offer(self.load, [(str(load), load) for load in loads])
        title = self.study.title
        _offer(self.operation, [(title(o.workload, o.phase, o.cache), o) for o in loads[self.load.value]])
        labels = loads[self.load.value][self.operation.value]
        if tuple(labels) != tuple(self.labels.options):
            kept = [label for label in self.labels.value if label in labels]
            self.labels.options, self.labels.value = labels, kept or labels
        _offer(self.a, labels)
        _offer(self.b, labels, start=min(1, len(labels) - 1))
        self._filling = False
        self.shown.outputs = ()
        for thing in self._results():
            self.shown.append_display_data(thing)

    def _results(self) -> list:
        if not self.labels.value:
            return [Markdown("Choose a file system.")]
        try:
            return [figure(self.study, self.choice), Markdown(sentence(self.choice, paired(self.study, self.choice)))]
        except UserError as error:
            return [Markdown(escaped(error))]

    def _ipython_display_(self) -> None:
        chosen = (self.setting, self.load, self.operation, self.labels, self.a, self.b, self.level, self.shown)
        display(ipywidgets.VBox(chosen))


def _offer(widget: ipywidgets.Dropdown, options: list, start: int = 0) -> None:
    """Give a drop-down list other options; the one chosen stays if it is among them."""
    values = [option[1] if isinstance(option, tuple) else option for option in options]
    value = widget.value
    widget.options = options
    widget.value = value if value in values else values[start]
