"""Mean and median ranks over all operations: a description of who is ahead, not a test."""

from __future__ import annotations

from reprofs.data.keys import Setting, select
from reprofs.report.display import Table, digits, slug
from reprofs.stats.compare import relative, typical_cost
from reprofs.stats.study import Study


def facts(study: Study, setting: Setting) -> dict:
    """Of a setting: blocks (operations that all contenders completed), left_out (other operations)."""
    ranks = select(study.results.ranks, setting)
    if ranks.empty:
        return {"blocks": 0, "left_out": 0}
    return {"blocks": int(ranks["blocks"].iloc[0]), "left_out": int(ranks["left_out"].iloc[0])}


def table(study: Study, setting: Setting) -> Table:
    """Mean and median rank, operations in which it is shown to be the fastest, and typical cost of each contender."""
    winners = select(study.results.winners, setting, verdict="fastest")
    won = winners.groupby("best").size()
    typical = typical_cost(relative(select(study.results.statistics, setting)))
    rows = [
        {
            "File system": row.label,
            "Mean rank": digits(row.mean_rank, 3),
            "Median rank": digits(row.median_rank, 3),
            "Operations won": int(won.get(row.label, 0)),
            "Typical cost": digits(typical.get(row.label), 3),
        }
        for row in select(study.results.ranks, setting).itertuples()
    ]
    caption = (
        f"Contenders by mean rank over operations (1 = always the fastest; {setting}). Typical cost: geometric mean of"
        " the time relative to the best contender of each operation. Ranks and costs are over operations that all of"
        " them completed, operations won over all."
    )
    return Table(f"tbl-{slug('ranks', setting)}", caption, rows, left=["File system"])
