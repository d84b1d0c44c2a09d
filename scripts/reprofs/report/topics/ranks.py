"""Mean ranks over all operations: who is ahead, and which differences Nemenyi's test finds significant."""

from __future__ import annotations

import itertools

import pandas as pd
from matplotlib import pyplot as plt

from reprofs.data.keys import Setting, select
from reprofs.report.display import Table, count, digits, listing, slug
from reprofs.report.plots import BLUE, INK, WIDTH, Figure, Plot, styled
from reprofs.stats.compare import relative, typical_cost
from reprofs.stats.study import Study

ALPHA = 0.05


def applies(plan: dict) -> bool:
    """Where two file systems or more are compared."""
    from reprofs.report.topics import compared

    return compared(plan)


def facts(study: Study, setting: Setting) -> dict:
    """Who leads in a setting, and who is behind by Nemenyi's test at 5 %.

    Keys: contenders, blocks (operations that all completed), left_out (other operations), leader, mean_rank, tested
    (whether there is a test: three contenders and two operations), behind, level (labels, best mean rank first); of
    Friedman's test statistic, p, critical_difference (NaN without one).
    """
    ranks = select(study.results.ranks, setting)
    if ranks.empty:
        return {"contenders": 0, "blocks": 0}
    first, pairs = ranks.iloc[0], select(study.results.nemenyi, setting)
    labels = list(ranks["label"])
    mine = pairs[(pairs["a"] == first["label"]) | (pairs["b"] == first["label"])]
    p = {(b if a == first["label"] else a): p for a, b, p in mine[["a", "b", "p"]].itertuples(index=False)}
    return {
        "contenders": len(labels),
        "blocks": int(first["blocks"]),
        "left_out": int(first["left_out"]),
        "leader": first["label"],
        "mean_rank": first["mean_rank"],
        "tested": len(pairs) > 0,
        "behind": [label for label in labels if label in p and p[label] < ALPHA],
        "level": [label for label in labels if label in p and not p[label] < ALPHA],
        **{key: first[key] for key in ("statistic", "p", "critical_difference")},
    }


def table(study: Study, setting: Setting) -> Table:
    """Mean rank, operations won and typical cost of each contender."""
    winners = select(study.results.winners, setting, verdict="winner")
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
    """Critical-difference diagram of a setting (Demšar 2006): mean ranks, a bar over those not significantly different.

    Without a test (fewer than three contenders or two operations) only the ranks are drawn.
    """
    ranks, pairs, found = (
        select(study.results.ranks, setting),
        select(study.results.nemenyi, setting),
        facts(study, setting),
    )
    caption = f"Mean rank of each contender over {count(found['blocks'], 'operation')}; 1 would be always the fastest."
    if found["tested"]:
        caption += (
            " A bar joins those whose ranks are not significantly different by Nemenyi's test at 5 %; the critical"
            f" difference is {digits(found['critical_difference'], 3)}."
        )
    else:
        caption += " There is no test of the ranks: it needs three contenders and two operations."
    known = ranks.dropna(subset="mean_rank")
    alt = "Mean ranks: " + listing(f"{row.label} {digits(row.mean_rank, 3)}" for row in known.itertuples()) + "."
    return Figure(slug("ranks", setting), caption, alt, diagram(known, pairs))


@styled
def diagram(ranks: pd.DataFrame, pairs: pd.DataFrame) -> Plot:
    """Mean ranks on a line; `ranks` and `pairs` are the two frames of stats.compare.ranks, of one setting."""
    import scikit_posthocs  # seconds to import, and only this diagram needs it

    positions = ranks.set_index("label")["mean_rank"]
    matrix = pd.DataFrame(1.0, index=positions.index, columns=positions.index)
    for pair in pairs.itertuples():
        matrix.loc[pair.a, pair.b] = matrix.loc[pair.b, pair.a] = pair.p
    plot, axes = plt.subplots(figsize=(WIDTH, 0.7 + 0.17 * len(positions)))
    drawn = scikit_posthocs.critical_difference_diagram(
        positions,
        matrix,
        ax=axes,
        label_fmt_left="{label}  {rank:.2f}",
        label_fmt_right="{rank:.2f}  {label}",
        label_props={"fontsize": 8.5},
        elbow_props={"color": INK, "linewidth": 0.6},
        crossbar_props={"color": BLUE, "linewidth": 3} if len(pairs) else {"alpha": 0},
        marker_props={"marker": "o", "s": 14, "color": INK},
        text_h_margin=0.12,
    )
    # The points of a bar come from a set, which has another order in every process.
    for line in itertools.chain(*drawn["crossbars"]):
        line.set_xdata(sorted(line.get_xdata()))
    return plot
