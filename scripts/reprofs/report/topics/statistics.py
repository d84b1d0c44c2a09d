"""Statistics: every cell with its mean, spread and intervals, and every comparison with the best."""

from __future__ import annotations

import pandas as pd

from reprofs.data.keys import Load, Operation, Setting, distinct, select
from reprofs.report.display import (
    DASH,
    SIGMA,
    Table,
    confidence,
    digits,
    percent,
    scientific,
    slug,
    small,
    span,
    unit_of,
)
from reprofs.report.topics.operations import interval_note, share
from reprofs.stats.cells import measured, processor
from reprofs.stats.compare import versus
from reprofs.stats.study import Study

MARKS = {"ceiling": "*", "no-promise": "†"}  # of what is not ranked


def by_hand(study: Study) -> pd.DataFrame:
    """Mean, standard deviation (divisor n - 1) and variance of the time in seconds, by a plain groupby."""
    phases = measured(study.phases)
    keys = ["lab", "stack", "profile", "workload", "scale", "phase", "cache", "label"]
    seconds = phases.assign(seconds=phases["wall_ns"].astype(float) / 1e9)
    return seconds.groupby(keys)["seconds"].agg(["count", "mean", "std", "var"])


def shown(study: Study) -> list[tuple[Setting, Load]]:
    """Settings and workloads with a result whose cells are shown."""
    found = study.results.statistics
    return [(setting, load) for setting in study.shown_settings for load in distinct(select(found, setting), Load)]


def left_out(study: Study) -> list[Setting]:
    """Settings whose cells are in the files only; what their stacks change is among the ratios of stacks."""
    return [s for s in distinct(study.results.statistics, Setting) if s not in study.shown_settings]


def cells(study: Study, setting: Setting, load: Load) -> Table:
    """All statistics of a workload, one row per operation and file system."""
    chosen = select(study.results.statistics, setting, load).sort_values("position")
    enough, rounds = chosen["median_low_ns"].notna().any(), sorted(chosen["n"].unique())
    same = len(rounds) == 1
    work = processor(study.phases)
    rows = []
    for key in dict.fromkeys(Operation(*row) for row in chosen[list(Operation._fields)].itertuples(index=False)):
        here = select(chosen, key).sort_values("geometric_mean_ns")
        here = here.sort_values("role", key=lambda role: role != "contender", kind="stable")
        unit, scale = unit_of(here["median_ns"].median())
        title = f"{study.title(load.workload, key.phase, key.cache)}, {unit}"
        for row in here.itertuples():
            spent = work.loc[(*setting, *key, row.label)]
            rows.append(
                {
                    "Operation": title,
                    "File system": row.label + MARKS.get(row.role, ""),
                    **({} if same else {"n": row.n}),
                    "Geom. mean": digits(row.geometric_mean_ns / scale),
                    "Interval": confidence(row.low_ns, row.high_ns, scale),
                    "Mean": digits(row.mean_ns / scale),
                    SIGMA: digits(row.sd_ns / scale, 3),
                    f"{SIGMA}²": scientific(row.variance_ns2 / scale**2, 3),
                    "CV": percent(row.cv),
                    "Median": digits(row.median_ns / scale),
                    **({"Its interval": confidence(row.median_low_ns, row.median_high_ns, scale)} if enough else {}),
                    f"Min {DASH} max": span(row.min_ns, row.max_ns, scale),
                    "User": digits(spent["user_ns"] / scale, 3),
                    "System": digits(spent["system_ns"] / scale, 3),
                    "Items/s": digits(row.items_per_second, 3),
                }
            )
            title = ""
    caption = (
        f"All cells of {load}, {setting}{f'; n = {rounds[0]}' if same else ''}. The unit stands beside the"
        f" operation; {SIGMA}² is in its square. {interval_note(chosen)}"
    )
    caption += " User, system: processor time of the process that did the work, mean of the rounds."
    if enough:
        caption += " The interval of the median is by order statistics, which assume no distribution (95 % or more)."
    if (chosen["role"] == "ceiling").any():
        caption += " *: an upper bound, no contender, and none where a contender is faster."
    if (chosen["role"] == "no-promise").any():
        caption += " †: does not keep what fsync promises, no contender."
    return Table(f"tbl-{slug('cells', setting, load)}", caption, rows, left=["Operation", "File system"])


def comparisons(study: Study, setting: Setting, load: Load) -> Table | None:
    """Every contender against the best of each operation of one workload. None where there are no two."""
    rows: list[dict] = []
    signs = False
    for winner in select(study.results.winners, setting, load).sort_values("position").itertuples():
        operation = Operation(winner.workload, winner.scale, winner.phase, winner.cache)
        pairs = select(study.results.pairwise, setting, operation, contenders=True)
        signs |= pairs["p_sign"].notna().any()
        title = {"Operation": study.title(load.workload, winner.phase, winner.cache), "Best": winner.best}
        for row in versus(pairs, winner.best).sort_values(["ratio", "other"]).itertuples():
            rows.append(
                title
                | {
                    "Other": row.other,
                    "n": row.n,
                    "Ratio": digits(row.ratio, 3),
                    "95 % interval": confidence(row.low, row.high, significant=3),
                    "p": small(row.p),
                    "p, apart": small(row.p_equal),
                    "p, signs": small(row.p_sign),
                    "Verdict": "slower" if row.other not in winner.level else _among(row, winner.verdict),
                }
            )
            title = dict.fromkeys(title, "")
    if not signs:
        rows = [{key: value for key, value in row.items() if key != "p, signs"} for row in rows]
    win, equal = share(study.margins["win"]), share(study.margins["equal"])
    caption = (
        f"{load} in {setting}: each contender against the best. Ratio of geometric means, paired by round, with"
        f" Student's t on logarithms; n is the number of common rounds. p: of equal times; p, apart: of {equal} or"
        " more apart;"
        f"{' p, signs: of the sign test;' if signs else ''} none of them is corrected. Verdict: slower by {win} or"
        " more, where"
        " that is corrected over the operations of the study, and, if others are level, over the contenders; otherwise"
        f" equivalent, within {equal} by 5 %, or open."
    )
    name = f"tbl-{slug('against', setting, load)}"
    return Table(name, caption, rows, left=["Operation", "Best", "Other", "Verdict"]) if rows else None


def _among(row, verdict: str) -> str:
    """Of a contender that is level with the best: whether it is shown to be near the best."""
    return "equivalent" if verdict == "equivalent" or row.p_equal < 0.05 else "open"
