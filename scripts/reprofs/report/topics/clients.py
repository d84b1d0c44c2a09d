"""Clients that start together: their rates, when each is done, how fairly they share the file system."""

from __future__ import annotations

import math
import re

import numpy as np
import pandas as pd
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from reprofs.data.keys import Load, Setting
from reprofs.report.display import Table, count, digits, listing, slug, time, unit_of
from reprofs.report.plots import LINES, Figure, Plot, by_system, columns, grid, grid_lines, legend, marks, styled
from reprofs.stats import series
from reprofs.stats.cells import measured
from reprofs.stats.study import Study

PANELS = 6  # on a page
CUT = 5  # times the highest bar of all others: what is higher is cut
GROUPED = ["label", "title", "clients", "unit", "value"]


def places(study: Study) -> list[tuple[Setting, Load]]:
    """Where several clients completed their work."""
    every = [(setting, load) for setting in study.settings for load in study.loads(setting)]
    return [place for place in every if len(series.completed(study.clients, *place))]


def facts(study: Study, setting: Setting, load: Load) -> dict:
    """How evenly the clients of a workload share.

    Keys: clients (how many); least and most (the rows of `summary` with the smallest and the largest Jain index, as
    dictionaries); rows (how many), apart (in how many of them less than half of the clients were in the operation at
    once), alone (the row with the fewest).
    """
    found = summary(study, setting, load).sort_values("jain", kind="stable")
    rows = found.to_dict("records")
    apart = int((found["at_once"] < found["n"] / 2).sum())
    alone = min(rows, key=lambda row: row["at_once"])
    few = {"rows": len(rows), "apart": apart, "alone": alone}
    return {"clients": int(rows[0]["n"]), "least": rows[0], "most": rows[-1]} | few


def summary(study: Study, setting: Setting, load: Load) -> pd.DataFrame:
    """Means over rounds, one row per operation and file system: title, label, and `series.clients_summary`."""
    table = series.clients_table(series.completed(study.clients, setting, load))
    keys = ["phase", "cache", "label"]
    found = table.groupby(keys, sort=False, dropna=False).mean(numeric_only=True).reset_index()
    titles = [study.title(load.workload, row.phase, row.cache) for row in found.itertuples()]
    return found.assign(title=titles)


def table(study: Study, setting: Setting, load: Load) -> Table:
    """Rates, times and fairness of the clients, one row per operation and file system."""
    rows = []
    for row in summary(study, setting, load).itertuples():
        moved = row.total_mb_s > 0
        rate, total = (row.rate_sum_mb_s, row.total_mb_s) if moved else (row.rate_sum_items_s, row.total_items_s)
        rows.append(
            {
                "Operation": row.title,
                "File system": row.label,
                "Unit": "MB/s" if moved else "items/s",
                "Sum of rates": digits(rate, 3),
                "Total": digits(total, 3),
                "At once": digits(row.at_once, 3),
                "Mean time": time(row.time_mean_ns, 3),
                "First done": time(row.first_done_ns, 3),
                "Last done": time(row.last_done_ns, 3),
                "Jain": digits(row.jain, 3),
            }
        )
    caption = (
        f"Clients of {load}, {setting}; means over rounds. Sum of rates: the clients' own rates added up, as the"
        " published studies report them. Total: all work over the time from the first start to the last end, never more"
        " than the sum. At once: how many clients did it at the same time, mean over that time. Jain: index of"
        " fairness, 1 when all clients have the same rate." + apart(study, setting, load)
    )
    return Table(f"tbl-{slug('clients', setting, load)}", caption, rows, ["Operation", "File system", "Unit"])


def apart(study: Study, setting: Setting, load: Load) -> str:
    """A sentence on how well clients on several machines started together; empty where they were on one."""
    own = series.completed(study.trials, setting, load)
    starts, clocks = (own[f"{key}_within_ns"].max() for key in ("starts", "clocks"))
    if pd.isna(starts):
        return ""
    return (
        " The clients ran on several machines, started over ssh: of a phase the first and the last started at most"
        f" {time(starts, 2)} apart, as their clocks tell, which are known to within {time(clocks, 2)}."
    )


def figures(study: Study, setting: Setting, load: Load) -> list[Figure]:
    """When each client was done, a panel per operation; several figures where the panels need several pages."""
    own = series.completed(study.clients, setting, load)
    titles = [study.title(load.workload, row.phase, row.cache) for row in own.itertuples()]
    own, names = own.assign(phase=titles, cache=""), list(dict.fromkeys(titles))
    caption = (
        f"{load}, {setting}: when each of the clients that started together was done. Clients in the order in which"
        " they finished; with several rounds, the mean of each place in that order."
    )
    most = own.groupby("trial")["client"].nunique().max()
    alt = f"Finish times of {count(int(most), 'client')}; the table of clients has the numbers."
    found = []
    for number, first in enumerate(range(0, len(names), PANELS), 1):
        page = own[own["phase"].isin(names[first : first + PANELS])]
        found.append(Figure(slug("clients", number, setting, load), caption, alt, finish(page)))
    return found


def together(study: Study, setting: Setting, load: Load) -> pd.DataFrame:
    """What clients report, for every number of them that the study has: label, title, clients, unit, value.

    Of phases that moved bytes the sum of the clients' rates in MB/s, of others the mean time of the clients in s; means
    of the rounds. Empty but for the workload with the most clients, which has the others beside it.
    """
    numbers = _beside(study, setting, load)
    if numbers[load] < max(numbers.values()):
        return pd.DataFrame(columns=GROUPED)
    rows = []
    for other in sorted(numbers, key=lambda key: numbers[key]):
        if numbers[other] == 1:
            own = series.completed(measured(study.phases), setting, other).rename(columns={"wall_ns": "time_mean_ns"})
            own = own.astype({"bytes": float, "time_mean_ns": float})
            own = own.assign(rate_sum_mb_s=own["bytes"] / own["time_mean_ns"] * 1e3)
        elif len(series.completed(study.clients, setting, other)):
            own = summary(study, setting, other)
        else:
            continue
        own = own.groupby(["phase", "cache", "label"], sort=False)[["rate_sum_mb_s", "time_mean_ns"]].mean()
        titles = [study.title(other.workload, *key[:2]) for key in own.index]
        rows.append(own.reset_index().assign(clients=numbers[other], title=titles))
    found = pd.concat(rows)
    moved = found.groupby("title")["rate_sum_mb_s"].transform("min") > 0
    found = found.assign(
        unit=np.where(moved, "MB/s", "s"),
        value=found["rate_sum_mb_s"].where(moved, found["time_mean_ns"] / 1e9),
    )
    return found.loc[found["title"].isin(found.loc[found["clients"] > 1, "title"]), GROUPED]


def _beside(study: Study, setting: Setting, load: Load) -> dict[Load, int]:
    """The loads that differ from this one in the number of clients, with that number; this one too.

    Of the same size; where a number was run in one other size only, that one.
    """
    same = {o: _number(o.workload) for o in study.loads(setting) if o.scale == load.scale}
    same = {o: n for o, n in same.items() if _alone(o.workload, sized=False) == _alone(load.workload, sized=False)}
    found = {o: n for o, n in same.items() if _alone(o.workload) == _alone(load.workload)}
    there = set(found.values())
    others = [n for o, n in same.items() if o not in found]
    return found | {o: n for o, n in same.items() if o not in found and n not in there and others.count(n) == 1}


def _alone(workload: str, sized: bool = True) -> str:
    return re.sub(r"\+clients\d+" if sized else r"\+clients\d+|@\d+", "", workload)


def _number(workload: str) -> int:
    found = re.search(r"\+clients(\d+)", workload)
    return int(found[1]) if found else 1


def rates(study: Study, setting: Setting, load: Load) -> list[Figure]:
    """Grouped bars for every number of clients, at the workload with the most of them; else none."""
    own = together(study, setting, load)
    if own.empty:
        return []
    beside = sorted({_alone(other.workload) for other in _beside(study, setting, load)})
    caption = (
        f"{load}, {setting}: {listing(own['clients'].drop_duplicates())} clients. MB/s: the sum of the clients' rates,"
        " as the published studies report them; of what moves no bytes the mean time of the clients in seconds. Means"
        f" over rounds.{_told_cut(own)}{f' Sizes differ: {listing(beside)}.' if len(beside) > 1 else ''}"
    )
    alt = "Bars by operation, file system and number of clients; the tables of clients have the numbers."
    return [Figure(slug("together", setting, load), caption, alt, bars(own))]


def _told_cut(table: pd.DataFrame) -> str:
    panels = (panel.set_index(["label", "clients"])["value"] for _, panel in table.groupby("title"))
    if all(_cut(panel) is None for panel in panels):
        return ""
    return f" What has over {CUT} times the value of every other file system goes beyond its panel; its value is in it."


@styled
def bars(table: pd.DataFrame) -> Plot:
    """A panel an operation, a group of bars a file system, a bar a number of clients; `table` is that of `together`."""
    titles, labels = list(dict.fromkeys(table["title"])), list(dict.fromkeys(table["label"]))
    numbers = sorted(table["clients"].unique())
    heads, turned = columns(labels, 45)
    rows = -(-len(titles) // 2)
    plot, panels = grid(rows, 2, len(titles), 0.4 + 1.7 * rows + (1.1 if turned else 0))
    width = 0.8 / len(numbers)
    for panel, (axes, title) in enumerate(zip(panels, titles, strict=True)):
        here = table[table["title"] == title]
        own = here.set_index(["label", "clients"])["value"]
        for place, number in enumerate(numbers):
            heights = [own.get((label, number), np.nan) for label in labels]
            x = np.arange(len(labels)) + (place - (len(numbers) - 1) / 2) * width
            axes.bar(x, heights, width * 0.95, color=LINES[place][0])
        cut = _cut(own)
        if cut:
            axes.set_ylim(0, cut)
            for (label, number), value in own[own > cut].items():
                bar = labels.index(label) + (numbers.index(number) - (len(numbers) - 1) / 2) * width
                told = {"rotation": 90, "ha": "center", "va": "top", "color": "white", "fontsize": 7}
                axes.text(bar, cut * 0.98, f"{digits(value, 3)} \N{RIGHTWARDS ARROW}", **told)
        # Turned ones are long: only below the last panel of each column.
        axes.set_xticks(range(len(labels)), heads if not turned or panel + 2 >= len(panels) else [], rotation=turned)
        axes.set_title(title, loc="left")
        axes.set_ylabel(here["unit"].iloc[0])
        grid_lines(axes)
    handles = [Patch(color=LINES[place][0], label=count(int(n), "client")) for place, n in enumerate(numbers)]
    plot.legend(handles=handles, loc="outside upper center", ncols=4, frameon=False, fontsize=8)
    return plot


def _cut(values: pd.Series) -> float | None:
    """Where to end an axis whose highest bars would flatten those of all other file systems; None if none does.

    `values` by label and number of clients.
    """
    highest = values.groupby("label").max().dropna().sort_values()
    if len(highest) < 3 or not 0 < CUT * highest.iloc[-2] <= highest.iloc[-1]:
        return None
    return 1.25 * highest.iloc[-2]


@styled
def finish(table: pd.DataFrame) -> Plot:
    """When each of the clients that started together is done: one panel per phase, one line per file system and stack.

    `table` is that of the clients. Time counts from the earliest start of the phase in its trial. Clients are in the
    order in which they finish; with several rounds a mark is the mean of that place. Raises ValueError without any.
    """
    series.some(table, "clients")
    phases = list(table[["phase", "cache"]].drop_duplicates().itertuples(index=False, name=None))
    columns = min(2, len(phases))
    rows = math.ceil(len(phases) / columns)
    lines = marks(by_system(table.drop(columns="phase")))
    plot, panels = grid(rows, columns, len(phases), 0.5 + 2.1 * rows)
    for axes, (phase, cache) in zip(panels, phases, strict=True):
        own = table[(table["phase"] == phase) & (table["cache"] == cache)]
        _panel(axes, own.drop(columns="phase"), lines)
        axes.set_title(", ".join(filter(None, (phase, cache))), loc="left")
    plot.supxlabel("clients that are done", fontsize=8)
    legend(plot, lines)
    return plot


def _panel(axes, table: pd.DataFrame, lines: dict) -> None:
    start = table["start_ns"].astype(float)
    end = start + table["wall_ns"].astype(float) - start.groupby(table["trial"]).transform("min")
    name, scale = unit_of(end.median())
    for title, own in by_system(table.assign(end=end)).items():
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
    grid_lines(axes)
