"""Stacks: what RAID, LVM, the number of disks and faults cost, each file system relative to itself."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
from matplotlib.ticker import MaxNLocator, NullLocator

from reprofs.data.keys import Operation, Place, select
from reprofs.report import display, plots
from reprofs.report.display import DASH, Table, count, digits, listing, slug, unit_of
from reprofs.report.marks import strong
from reprofs.report.plots import LINES, Figure, Plot, styled
from reprofs.report.topics.operations import interval_note
from reprofs.stats.stacks import arranged, gathered
from reprofs.stats.study import Study

# Relation -> what its tables are called and say.
DETAILS = {
    "base": ("ratios", "Time on each stack relative to the same file system"),
    "healthy": ("faults", "Time with a fault in the stack relative to the same file system on the healthy stack"),
    "alike": ("last-disk", "Time with another last disk relative to the same stack on disks that are all alike"),
}

# ---- facts ---------------------------------------------------------------------------------------------------------


def costs(study: Study, place: Place) -> list[dict]:
    """For each file system with a common base: label, reference, low and high (the cheapest and the dearest stack).

    low and high have stack, ratio, low, high (95 % interval); high is None for a single stack.
    """
    chosen = select(study.results.typical, place, relation="base").query("role != 'ceiling'")
    found = []
    for label, group in chosen.groupby("label"):
        ordered = list(group.sort_values(["ratio", "stack"]).itertuples())
        high = ordered[-1] if len(ordered) > 1 else None
        found.append({"label": label, "reference": ordered[0].reference, "low": ordered[0], "high": high})
    return found


def rates(study: Study, place: Place) -> list[dict]:
    """Of a workload that is one operation with content: label, and rates (stack, mb_s) of its contenders.

    The content over the geometric mean of the rounds' times, in the order of the stacks. Empty for other workloads.
    """
    rows = select(gathered(study.results.statistics), place, role="contender")
    if len(rows.drop_duplicates(["phase", "cache"])) != 1:
        return []
    keys = ["stack", "label"]
    content = select(gathered(study.phases), place, status="ok").groupby(keys)["bytes"].mean()
    rate = content / rows.set_index(keys)["geometric_mean_ns"] * 1e3
    order = list(arranged(study.stacks(), rows["stack"]))
    found = []
    for label, own in rate[rate > 0].groupby("label", sort=True):
        own = own.droplevel("label")
        rates = [{"stack": stack, "mb_s": float(own[stack])} for stack in order if stack in own]
        found.append({"label": label, "rates": rates})
    return found


def beside(study: Study, place: Place, relation: str) -> list[dict]:
    """What a fault (relation `healthy`) or another last disk (`alike`) changes: stack, reference, costs (label, ratio,
    low, high)."""
    chosen = select(study.results.typical, place, relation=relation).query("role != 'ceiling'")
    return [
        {"stack": stack, "reference": reference, "costs": list(group.sort_values("label").itertuples())}
        for (stack, reference), group in chosen.groupby(["stack", "reference"], sort=False)
    ]


def unkept(study: Study, place: Place) -> list[str]:
    """The stacks on which what fsync promises is not kept."""
    planned = arranged(study.stacks(), select(gathered(study.trials), place)["stack"])
    return [name for name, stack in planned.items() if stack.why]


def best(study: Study, place: Place) -> dict[str, str]:
    """stack -> the contender with the best mean rank there, and in how many operations it is shown the fastest."""
    found = {}
    won = select(gathered(study.results.winners), place, verdict="fastest")
    for stack, group in select(gathered(study.results.statistics), place).groupby("stack"):
        contenders = group[group["role"] == "contender"]
        wide = contenders.pivot(index=["phase", "cache"], columns="label", values="geometric_mean_ns").dropna()
        if wide.shape[1] < 2 or wide.empty:
            continue
        first = wide.rank(axis=1).mean().sort_values(kind="stable").index[0]
        mine = won[(won["stack"] == stack) & (won["best"] == first)]
        found[stack] = f"{first} ({len(mine)} of {len(wide)})"
    return found


# ---- tables --------------------------------------------------------------------------------------------------------


def overview(study: Study, place: Place) -> list[Table]:
    """Typical cost of every stack relative to its base, a column per file system; and who is best there."""
    chosen = select(study.results.typical, place, relation="base").query("role != 'ceiling'")
    entries = arranged(study.stacks(), select(gathered(study.trials), place)["stack"])
    leaders, tables = best(study, place), []
    for number, labels in enumerate(batches(sorted(chosen["label"].unique()))):
        bases = chosen.loc[chosen["label"].isin(labels)].drop_duplicates("label").set_index("label")["reference"]
        rows = []
        for name in entries:
            here = chosen[(chosen["stack"] == name) & chosen["label"].isin(labels)]
            row = {"Stack": name, "Disks": entries[name].disks} | in_columns(here, labels)
            row |= {label: "1" for label in labels if bases.get(label) == name}
            if number and {row[label] for label in labels} == {DASH}:
                continue
            rows.append(row | ({} if number else {"Best mean rank (fastest in)": leaders.get(name, DASH)}))
        caption = (
            f"Stacks, {place}: time relative to the same file system on {listing(sorted(set(bases)), 'or')}, geometric"
            " mean over all operations that both completed, with 95 % interval over rounds, paired by round."
        )
        if not number:
            caption += (
                " Last column: the contender with the best mean rank on that stack, and in how many operations it is"
                " shown to be the fastest."
            )
        name = f"tbl-{slug('stacks', place, number)}"
        tables.append(Table(name, caption, rows, left=["Stack", "Best mean rank (fastest in)"]))
    return tables


def details(study: Study, place: Place, relation: str = "base") -> list[Table]:
    """Every ratio of a stack to its reference with its interval: rows operations and stacks, a column per file system.

    relation `healthy` compares degraded and rebuilding stacks with healthy ones, `alike` those with another last disk
    with stacks whose disks are all alike, each with a row over all operations first.
    """
    chosen = select(study.results.stacks, place, relation=relation).query("role != 'ceiling'")
    over_all = select(study.results.typical, place, relation=relation).query("role != 'ceiling'")
    tables = []
    for number, labels in enumerate(batches(sorted(chosen["label"].unique()))):
        summary = over_all[over_all["label"].isin(labels)].assign(phase="", cache="", position=-1)
        parts = [part for part in (summary, chosen[chosen["label"].isin(labels)]) if len(part)]
        rows = []
        for key, group in _ordered(study, pd.concat(parts)).groupby(
            ["phase", "cache", "stack", "reference"], sort=False
        ):
            phase, cache, stack, reference = key
            title = study.title(place.workload, phase, cache) if phase else strong("all operations")
            which = {"Stack": stack} if relation == "base" else {"Stack": stack, "Relative to": reference}
            rows.append({"Operation": title} | which | in_columns(group, labels))
        bases = listing(sorted(set(chosen["reference"])), "or")
        name, what = DETAILS[relation]
        what += f" on {bases}" if relation == "base" else ""
        caption = (
            f"{what}: {place}. Ratio of geometric means, paired by round, with its 95 % interval; where that holds 1,"
            " no difference is shown."
        )
        tables.append(
            Table(f"tbl-{slug(name, place, number)}", caption, rows, left=["Operation", "Stack", "Relative to"])
        )
    return tables


def ratio(row) -> str:
    """A ratio with its interval in brackets, which is kept on one line."""
    own, between, bounds = display.ratio(row.ratio, row.low, row.high).partition(" ")
    return own + between + bounds.replace(" ", "\N{NO-BREAK SPACE}")


def in_columns(frame: pd.DataFrame, labels: list[str]) -> dict[str, str]:
    """label -> ratio with interval, of the rows of one stack or operation."""
    found = {row.label: ratio(row) for row in frame.itertuples()}
    return {label: found.get(label, DASH) for label in labels}


def batches(labels: list[str], size: int = 4) -> list[list[str]]:
    """Labels in groups that fit beside each other on a page."""
    return [labels[start : start + size] for start in range(0, len(labels), size)]


def _ordered(study: Study, frame: pd.DataFrame) -> pd.DataFrame:
    """Rows in the order of operations, and within them of the study's stacks."""
    order = {name: number for number, name in enumerate(arranged(study.stacks(), frame["stack"]))}
    keyed = frame.assign(order=frame["stack"].map(order), position=frame.get("position", 0))
    return keyed.sort_values(["position", "order", "label"]).drop(columns="order")


# ---- figures -------------------------------------------------------------------------------------------------------


def heatmaps(study: Study, place: Place) -> list[Figure]:
    """For each file system a heat map of stacks by operations, relative to the base or the healthy stack."""
    chosen = select(study.results.stacks, place).query("role != 'ceiling'")
    figures = []
    for label, every in chosen.groupby("label"):
        # Where there is a common base, all stacks are compared with it; their other comparisons are tables.
        relation = next(one for one in DETAILS if (every["relation"] == one).any())
        here = every[every["relation"] == relation]
        rows = list(arranged(study.stacks(), here["stack"]))
        bases = listing(dict.fromkeys(here["reference"]), "or")
        shown = here.assign(row=here["stack"], value=here["ratio"], shown=(here["low"] > 1) | (here["high"] < 1))
        shown = shown[["row", "value", "shown", "workload", "scale", "phase", "cache", "position"]]
        caption = (
            f"{label}, {place.workload} ({place.scale}): time on each stack relative to {bases} (lab {place.lab},"
            f" device profile {place.profile}). Below 1 is faster; the darker, the slower, on a logarithmic scale. A"
            " cell without colour has an interval that holds 1: no difference is shown. A dash means no result."
        )
        worst = here.sort_values("ratio").iloc[-1]
        alt = (
            f"Heat map of {count(len(rows), 'stack')} by {count(len(plots.operations(shown)), 'operation')} for"
            f" {label}. The largest ratio is {digits(worst['ratio'], 3)}, {worst['stack']} in"
            f" {study.title(place.workload, worst['phase'], worst['cache'])}."
        )
        name = slug("stacks", place, label)
        figures.append(Figure(name, caption, alt, plots.heat_grid(shown, rows, study.title)))
    return figures


def disks(study: Study, place: Place) -> list[Figure]:
    """Times against the number of disks, of each file system with results on a family of stacks with several."""
    entries = study.stacks()
    cells = select(study.results.statistics, place).query("role != 'ceiling'")
    figures = []
    for label, own in cells.groupby("label"):
        families: dict[str, list[str]] = {}
        for name in (name for name in entries if name in set(own["stack"])):
            if entries[name].state == "healthy":
                families.setdefault(entries[name].family, []).append(name)
        families = {key: sorted(names, key=lambda name: entries[name].disks) for key, names in families.items()}
        if max(map(len, families.values()), default=0) < 2:
            continue
        families = {key: names for key, names in families.items() if len(names) > 1 or key == "single"}
        native = [key for key, names in families.items() if entries[names[0]].filesystem]
        # With many lines those of the file system's own stacks have a figure of their own.
        groups = {"": families}
        if len(families) > 7 and native:
            other = {key: names for key, names in families.items() if key not in native}
            groups = {"": other, "native": {key: families[key] for key in ("single", *native) if key in families}}
        figures += [_disks_figure(study, place, label, own, group, part) for part, group in groups.items()]
    return figures


def _disks_figure(study: Study, place: Place, label: str, own: pd.DataFrame, families: dict, part: str) -> Figure:
    entries = study.stacks()
    counts = {name: entries[name].disks for names in families.values() for name in names}
    table = own[own["stack"].isin(counts)]
    caption = (
        f"{label}, {place.workload} ({place.scale}): time against the number of disks (lab {place.lab}, device profile"
        f" {place.profile}). A line is a level; bars are intervals. {interval_note(table)}"
    )
    if "single" in families:
        caption += " The line across is the single device."
    alt = (
        f"{count(len(plots.operations(table)), 'panel')}, one an operation: times of {label} on {listing(families)}"
        f" with {listing(sorted(set(counts.values())))} disks; the file statistics.parquet has the numbers."
    )
    return Figure(slug("disks", place, label, part), caption, alt, disk_panels(table, families, counts, study.title))


@styled
def disk_panels(table: pd.DataFrame, families: dict[str, list[str]], counts: dict[str, int], words) -> Plot:
    """Time against the number of disks: one panel per operation, one line per family of stacks, bars are intervals.

    `table` is stats.cells.statistics of one place and file system; `families` maps a family to its stacks; `counts` a
    stack to its number of disks. A family of one stack is a lone mark; `single` is a broken line as well.
    """
    found = plots.operations(table)
    numbers = sorted({counts[name] for names in families.values() for name in names})
    columns = min(3, len(found))
    lines = -(-len(found) // columns)
    legend = 0.17 * -(-len(families) // 4)
    figure, panels = plots.grid(lines, columns, len(found), 0.25 + legend + 1.3 * lines)
    for axes, operation in zip(panels, found, strict=False):
        _disks_panel(axes, select(table, Operation(*operation)).set_index("stack"), families, counts)
        axes.set_xscale("log", base=2)
        axes.set_xticks(numbers, [str(number) for number in numbers])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xlim(numbers[0] / 1.35, numbers[-1] * 1.35)
        plots.title(axes, operation, words)
    figure.supxlabel("disks", fontsize=8)
    plots.legend(figure, plots.marks(families))
    return figure


def _disks_panel(axes, cells: pd.DataFrame, families: dict, counts: dict) -> None:
    name, scale = unit_of(cells["median_ns"].median())
    for (family, stacks), (colour, marker, dash) in zip(families.items(), itertools.cycle(LINES), strict=False):
        own = cells.loc[[stack for stack in stacks if stack in cells.index]]
        if own.empty:
            continue
        x = [counts[stack] for stack in own.index]
        middle = own["geometric_mean_ns"].to_numpy(float) / scale
        bounds = own[["low_ns", "high_ns"]].to_numpy(float).T / scale
        reach = np.nan_to_num(np.abs(bounds - middle))  # one round has no interval
        style = {"color": colour, "marker": marker, "ls": dash, "ms": 3.6, "lw": 1.1, "elinewidth": 0.8, "capsize": 1.5}
        axes.errorbar(x, middle, yerr=reach, **style)
        if family == "single":
            axes.axhline(middle[0], color=colour, lw=0.8, ls=dash, zorder=1)
    axes.set_ylabel(name, labelpad=1)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_locator(MaxNLocator(4))
    plots.grid_lines(axes)
