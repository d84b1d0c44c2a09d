"""Mean ranks over all operations: a description of who is ahead, not a test."""

from __future__ import annotations

import pandas as pd
from matplotlib import pyplot as plt

from reprofs.data.keys import Setting, select
from reprofs.report import plots
from reprofs.report.display import Table, count, digits, listing, slug
from reprofs.report.plots import BLUE, GREY, WIDTH, Figure, Plot, styled
from reprofs.stats.compare import relative, typical_cost
from reprofs.stats.study import Study


def applies(plan: dict) -> bool:
    """Where two file systems or more are compared."""
    from reprofs.report.topics import compared

    return compared(plan)


def facts(study: Study, setting: Setting) -> dict:
    """Who leads in a setting: contenders, blocks (operations that all completed), left_out (other operations), leader,
    mean_rank.
    """
    ranks = select(study.results.ranks, setting)
    if ranks.empty:
        return {"contenders": 0, "blocks": 0}
    first = ranks.iloc[0]
    return {
        "contenders": len(ranks),
        "blocks": int(first["blocks"]),
        "left_out": int(first["left_out"]),
        "leader": first["label"],
        "mean_rank": first["mean_rank"],
    }


def table(study: Study, setting: Setting) -> Table:
    """Mean rank, operations in which it is shown to be the fastest, and typical cost of each contender."""
    winners = select(study.results.winners, setting, verdict="fastest")
    won = winners.groupby("best").size()
    typical = typical_cost(relative(select(study.results.statistics, setting)))
    rows = [
        {
            "File system": row.label,
            "Mean rank": digits(row.mean_rank, 3),
            "Operations won": int(won.get(row.label, 0)),
            "Typical cost": digits(typical.get(row.label), 3),
        }
        for row in select(study.results.ranks, setting).itertuples()
    ]
    caption = (
        f"Contenders by mean rank over operations (1 = always the fastest; {setting}). Typical cost: geometric mean of"
        " the time relative to the best contender of each operation. Both over operations that all of them completed."
    )
    return Table(f"tbl-{slug('ranks', setting)}", caption, rows, left=["File system"])


def figure(study: Study, setting: Setting) -> Figure:
    """Mean rank of each contender in a setting, best on top."""
    known = select(study.results.ranks, setting).dropna(subset="mean_rank")
    blocks = facts(study, setting)["blocks"]
    caption = f"Mean rank of each contender over {count(blocks, 'operation')}; 1 would be always the fastest."
    alt = "Mean ranks: " + listing(f"{row.label} {digits(row.mean_rank, 3)}" for row in known.itertuples()) + "."
    return Figure(slug("ranks", setting), caption, alt, diagram(known))


@styled
def diagram(ranks: pd.DataFrame) -> Plot:
    """A point a contender; `ranks` are the rows of stats.compare.ranks of one setting."""
    plot, axes = plt.subplots(figsize=(WIDTH, 0.7 + 0.17 * len(ranks)))
    axes.hlines(range(len(ranks)), 1, ranks["mean_rank"], color=GREY, lw=0.8)
    axes.plot(ranks["mean_rank"], range(len(ranks)), "o", color=BLUE, ms=5)
    plots.rows(axes, list(ranks["label"]))
    axes.set(xlim=(1, max(len(ranks), 2)), xlabel="mean rank")
    return plot
