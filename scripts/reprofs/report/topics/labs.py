"""Labs: whether two labs order file systems alike. They are compared by orders and ratios, never by times."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.ticker import LogLocator, NullLocator

from reprofs.data.keys import OPERATION, Load, Operation, Pair, distinct, select
from reprofs.report import plots
from reprofs.report.display import DASH, MINUS, Table, count, digits, slug
from reprofs.report.plots import GREY, PLAIN, WIDTH, Figure, Plot, styled
from reprofs.report.topics.stacks import batches, in_columns
from reprofs.stats.study import Study


def facts(study: Study) -> list[dict]:
    """Of each pair of labs on a stack and profile: the pair, where (words), and the columns of `stats.labs.agreement`.

    told counts the pairs of file systems that differ significantly in both labs, same those of them with the same
    order, firm and firm_same the same after Holm's correction over all pairs; tau is the mean of Kendall's tau-b over
    operations with its 95 % interval low to high (bootstrap). error is by what factor a ratio of two file systems is
    typically off. pace, spread, slowest, fastest: of the ratio of the times of the processor (NaN where they are not
    known). instruction: the ns that an instruction of lab a takes the processor of lab b (mean, least, most), where the
    one counts instructions and the other has a real clock; else None.
    """
    found = []
    for row in study.results.agreement.itertuples():
        modelled, other = study.lab(row.a).processor, study.lab(row.b)
        instruction = None
        if modelled and not other.exact and row.pace == row.pace:
            ns = modelled.ns_per_instruction
            instruction = {"mean": ns * row.pace, "least": ns * row.fastest, "most": ns * row.slowest}
        found.append(
            {"pair": Pair(row.a, row.b, row.stack, row.profile), "where": where(study, row.stack, row.profile)}
            | {"instruction": instruction}
            | row._asdict()
        )
    return found


def where(study: Study, stack: str, profile: str) -> str:
    """Words for stack and profile, where the study has several."""
    return study.differing(stack=stack, profile=profile)


def orders(study: Study, pair: Pair) -> Table:
    """How alike two labs order the file systems of each operation."""
    chosen = select(study.results.orders, pair).sort_values(["workload", "scale", "position"])
    rows = [
        {
            "Workload": row.workload,
            "Operation": study.title(row.workload, row.phase, row.cache),
            "File systems": row.labels,
            "τ-b": digits(row.tau, 2),
            "Exact p": digits(row.p, 2),
            "Differ in both": f"{row.told} of {row.pairs}",
            "Same order": f"{row.same} of {row.told}" if row.told else DASH,
            "Ratio off by a factor of": digits(row.error, 3),
        }
        for row in chosen.itertuples()
    ]
    caption = (
        f"Agreement of the labs {pair.a} and {pair.b} on the order of file systems{_on(study, pair)}. Kendall's τ-b"
        f" is 1 for the same order and {MINUS}1 for the opposite. Differ in both: pairs of file systems whose ratio's"
        " 95 % interval excludes 1 in either lab; same order counts those of them with the same order. The last column"
        " is by what factor the ratio of two file systems in one lab is typically off from that in the other (root mean"
        " square of the logarithms)."
    )
    return Table(f"tbl-{slug('orders', pair)}", caption, rows, left=["Workload", "Operation"])


def clocks(study: Study, pair: Pair) -> list[Table]:
    """Time by the second lab's clock over time by the first's, operations by file systems."""
    chosen = select(study.results.clocks, pair).sort_values(["workload", "scale", "position", "label"])
    tables = []
    for number, labels in enumerate(batches(sorted(chosen["label"].unique()))):
        rows = [
            {"Workload": key[0], "Operation": study.title(key[0], key[2], key[3])} | in_columns(group, labels)
            for key, group in chosen.groupby(OPERATION, sort=False)
        ]
        caption = (
            f"Seconds of the lab {pair.b} for one second of the lab {pair.a}{_on(study, pair)}: ratio of geometric"
            " means, paired by round (a round has the same input in both), with its 95 % interval. Were the labs"
            " proportional, all numbers of a row would be equal."
        )
        tables.append(Table(f"tbl-{slug('clocks', pair, number)}", caption, rows, left=["Workload", "Operation"]))
    return tables


def paces(study: Study, pair: Pair) -> list[Table]:
    """The same for the times of the processor, with their geometric mean; empty where either lab saw none."""
    chosen = select(study.results.clocks, pair).dropna(subset="processor")
    chosen = chosen.sort_values(["workload", "scale", "position", "label"])
    tables = []
    for number, labels in enumerate(batches(sorted(chosen["label"].unique()))):
        rows = []
        for key, group in chosen.groupby(OPERATION, sort=False):
            found = group.set_index("label")["processor"]
            row = {"Workload": key[0], "Operation": study.title(key[0], key[2], key[3])}
            row |= {label: digits(found[label], 2) if label in found else DASH for label in labels}
            rows.append(row | {"All": digits(float(np.exp(np.log(found).mean())), 2)})
        caption = (
            f"Seconds of processor time (user and system) in the lab {pair.b} for one second of it in the lab"
            f" {pair.a}{_on(study, pair)}: geometric mean of the rounds, and under All of the file systems."
        )
        tables.append(Table(f"tbl-{slug('paces', pair, number)}", caption, rows, left=["Workload", "Operation"]))
    return tables


def _on(study: Study, pair: Pair) -> str:
    words = where(study, pair.stack, pair.profile)
    return f" ({words})" if words else ""


def figures(study: Study, pair: Pair) -> list[Figure]:
    """Relative cost in two labs, a mark per file system: on the line both labs agree. One figure a workload."""
    cells = select(study.results.statistics, stack=pair.stack, profile=pair.profile)
    wide = cells.pivot(index=[*OPERATION, "label"], columns="lab", values="geometric_mean_ns")[
        [pair.a, pair.b]
    ].dropna()
    logs = np.log(wide)
    # Rounded, so that the unit of a clock leaves nothing in the last digits.
    relative = np.exp(logs - logs.groupby(OPERATION).transform("mean")).round(9)
    table = relative.rename(columns={pair.a: "x", pair.b: "y"}).reset_index()
    table = table.merge(cells[[*OPERATION, "position"]].drop_duplicates(OPERATION), on=OPERATION)
    loads = distinct(table, Load)
    return [_figure(study, pair, select(table, load), load if len(loads) > 1 else None) for load in loads]


def _figure(study: Study, pair: Pair, table: pd.DataFrame, load: Load | None) -> Figure:
    caption = (
        f"{f'{load}: relative' if load else 'Relative'} cost in the labs {pair.a} and {pair.b}{_on(study, pair)}: time"
        " over the geometric mean of all file systems of the operation in the same lab, so that neither axis has a unit"
        " of time. On the broken line both labs agree. Upper bounds take part."
    )
    worst = table.assign(apart=np.abs(np.log(table["y"] / table["x"]))).sort_values("apart").iloc[-1]
    alt = (
        f"{count(len(plots.operations(table)), 'panel')}, one an operation. The point farthest from the line is"
        f" {worst['label']} in {study.title(worst['workload'], worst['phase'], worst['cache'])}:"
        f" {digits(worst['x'], 3)} in {pair.a}, {digits(worst['y'], 3)} in {pair.b}."
    )
    name = slug("agreement", pair, load or ())
    return Figure(name, caption, alt, scatter(table, (pair.a, pair.b), study.title))


@styled
def scatter(table: pd.DataFrame, labs: tuple[str, str], words) -> Plot:
    """Relative cost in two labs: one panel per operation, one mark per file system, the identity as a broken line.

    `table` has the columns label, x, y and those of an operation: the cost in the first and in the second lab relative
    to the geometric mean of the file systems, without unit.
    """
    found = plots.operations(table)
    low, high = table[["x", "y"]].min(axis=None) / 1.3, table[["x", "y"]].max(axis=None) * 1.3
    marks = plots.marks(sorted(table["label"].unique()))
    columns = min(3, len(found))
    lines = -(-len(found) // columns)
    side = min((WIDTH - 0.3) / columns, 3.5)
    figure, panels = plots.grid(lines, columns, len(found), 0.55 + side * lines, sharex=True, sharey=True)
    for axes, operation in zip(panels, found, strict=False):
        axes.plot([low, high], [low, high], color=GREY, lw=0.8, ls=(0, (3, 2)), zorder=1)
        for point in select(table, Operation(*operation)).itertuples():
            colour, marker, _ = marks[point.label]
            axes.plot(point.x, point.y, ls="", marker=marker, ms=5, mfc="none", mec=colour, mew=1.3, zorder=3)
        axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high), aspect="equal")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=7))
            axis.set_minor_locator(NullLocator())
            axis.set_major_formatter(PLAIN)
        axes.tick_params(labelbottom=True, labelleft=True)
        plots.title(axes, operation, words)
    figure.supxlabel(f"relative cost, lab {labs[0]}", fontsize=8)
    figure.supylabel(f"relative cost, lab {labs[1]}", fontsize=8)
    entries = {label: (colour, marker, "") for label, (colour, marker, _) in marks.items()}
    plots.legend(figure, entries, mfc="none", mew=1.3)
    return figure
