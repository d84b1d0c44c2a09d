"""Statistics: every cell with its mean, spread and intervals, and every comparison with the best."""

from __future__ import annotations

import pandas as pd

from reprofs.data.keys import Load, Operation, Setting, distinct, select
from reprofs.report.display import DASH, SIGMA, Table, digits, percent, slug, small, span, unit_of
from reprofs.report.topics.operations import interval_note, share
from reprofs.stats.cells import measured
from reprofs.stats.compare import versus
from reprofs.stats.study import Study


def applies(plan: dict) -> bool:
    """Always."""
    return True


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


def cells(study: Study, setting: Setting, load: Load) -> list[Table]:
    """All statistics of each operation of a workload, one row per file system."""
    chosen = select(study.results.statistics, setting, load).sort_values("position")
    keys = dict.fromkeys(Operation(*row) for row in chosen[list(Operation._fields)].itertuples(index=False))
    return [_cells(study, setting, operation) for operation in keys]


def _cells(study: Study, setting: Setting, operation: Operation) -> Table:
    here = select(study.results.statistics, setting, operation).sort_values("geometric_mean_ns")
    here = here.sort_values("role", key=lambda role: role == "ceiling", kind="stable")
    unit, scale = unit_of(here["median_ns"].median())
    enough = here["median_low_ns"].notna().any()
    rows = [
        {
            "File system": row.label + (" (upper bound)" if row.role == "ceiling" else ""),
            "n": row.n,
            f"Geometric mean ({unit})": digits(row.geometric_mean_ns / scale),
            f"Interval ({unit})": span(row.low_ns, row.high_ns, scale),
            f"Mean ({unit})": digits(row.mean_ns / scale),
            f"{SIGMA} ({unit})": digits(row.sd_ns / scale, 3),
            f"{SIGMA}² ({unit}²)": digits(row.variance_ns2 / scale**2, 3),
            "CV": percent(row.cv),
            f"Median ({unit})": digits(row.median_ns / scale),
            **({f"Its interval ({unit})": span(row.median_low_ns, row.median_high_ns, scale)} if enough else {}),
            f"Min {DASH} max ({unit})": span(row.min_ns, row.max_ns, scale),
            "Items/s": digits(row.items_per_second, 3),
        }
        for row in here.itertuples()
    ]
    title = study.title(operation.workload, operation.phase, operation.cache)
    caption = f"{title} ({operation.workload}, {operation.scale}; {setting}). {interval_note(here)}"
    if enough:
        caption += " The interval of the median is by order statistics, which assume no distribution (95 % or more)."
    return Table(f"tbl-{slug('cell', setting, operation)}", caption, rows, left=["File system"])


def comparisons(study: Study, setting: Setting, load: Load) -> Table | None:
    """Every contender against the best of each operation of one workload. None where there are no two."""
    rows: list[dict] = []
    signs = False
    for winner in select(study.results.winners, setting, load).sort_values("position").itertuples():
        operation = Operation(winner.workload, winner.scale, winner.phase, winner.cache)
        pairs, level = select(study.results.pairwise, setting, operation, contenders=True), winner.level.split()
        signs |= pairs["p_sign"].notna().any()
        for row in versus(pairs, winner.best).sort_values(["ratio", "other"]).itertuples():
            rows.append(
                {
                    "Phase": study.title(load.workload, winner.phase, winner.cache),
                    "Best": winner.best,
                    "Other": row.other,
                    "n": row.n,
                    "Ratio": digits(row.ratio, 3),
                    "95 % interval": span(row.low, row.high, significant=3),
                    "p": small(row.p),
                    "p, apart": small(row.p_equal),
                    "p, signs": small(row.p_sign),
                    "Verdict": "slower" if row.other not in level else _among(row, winner.verdict),
                }
            )
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
    return Table(name, caption, rows, left=["Phase", "Best", "Other", "Verdict"]) if rows else None


def _among(row, verdict: str) -> str:
    """Of a contender that may be the fastest as well: whether it is shown to be near the best."""
    return "equivalent" if verdict == "equivalent" or row.p_equal < 0.05 else "open"
