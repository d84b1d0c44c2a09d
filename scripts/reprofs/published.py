"""A study beside published numbers: order of the configurations, ratios, laws carried on, and what may be said of them.

A configuration is a file system on a stack. Published numbers are medians in seconds (data/published/NAME.csv) of
another machine, so that only orders and ratios are compared. Of ours the rounds are known, of theirs mostly the median
alone: intervals hold for the rounds, and take the published number as fixed.
"""

import itertools
import math
import re
from functools import partial
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator
from scipy.stats import rankdata
from statsmodels.api import OLS

from . import figures, series, stats, tables, words
from .dataset import Study
from .errors import UserError
from .figures import BLUE, GREY, INK, LINES, STYLE, WIDTH
from .words import DASH, Item, Prose

FOLDER = Path(__file__).parents[2] / "data/published"
KEY = ["size", "stack", "label", "phase", "cache"]
NUMBERS = ["n", "median_s", "q1_s", "q3_s", "min_s", "max_s"]
PLACE = ["lab", "profile", "workload", "scale"]
APART = 1.1  # published medians nearer than this are not taken as an order: their own runs vary by as much
FEW = 8  # configurations: up to here every relabelling is counted, 40,320 of them
DRAWN = 40_000  # relabellings of more configurations
ALPHA = 1 - stats.LEVEL
RHO = "\N{GREEK SMALL LETTER RHO}"
VERDICTS = {"same": "same order", "another": "another order", "undecided": "undecided"}
DIRECTIONS = {"same": "same direction", "another": "opposite direction", "undecided": "undecided"}


def load(name: str) -> pd.DataFrame:
    """The published numbers of that name: columns KEY, NUMBERS (seconds), note. Raises UserError naming the line."""
    path = FOLDER / f"{name}.csv"
    try:
        frame = pd.read_csv(path, dtype={key: str for key in [*KEY[1:], "note"]}).fillna({"note": ""})
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read as a table: {error}.") from None
    wanted = [*KEY, *NUMBERS, "note"]
    if list(frame.columns) != wanted:
        raise UserError(f"{path}: the columns are {', '.join(frame.columns)}, but must be {', '.join(wanted)}.")
    for column in ("size", "n", *NUMBERS[1:]):
        values = pd.to_numeric(frame[column], errors="coerce")
        empty = frame[column].isna() & (column not in ("size", "n", "median_s"))
        wrong = ~(empty | (values > 0))
        if wrong.any():
            raise UserError(
                f"{path} line {wrong.idxmax() + 2}: {column} is {frame[column][wrong.idxmax()]}, but must be a number"
                " above zero."
            )
        frame[column] = values
    twice = frame.duplicated(KEY)
    if twice.any():
        raise UserError(f"{path} line {twice.idxmax() + 2}: the operation of this configuration is there before.")
    return frame


def places(study: Study) -> list[tuple]:
    """Every (lab, profile, base of the workload's name, scale) that published numbers are set beside; none without."""
    if "published" not in study.plan:
        return []
    ours = _ours(study)
    known = _published(study)[["stack", "label", "phase", "cache"]].drop_duplicates()
    return sorted(set(ours.merge(known)[PLACE].itertuples(index=False, name=None)))


def sizes(study: Study, place: tuple) -> list[int]:
    """The sizes at which a place was measured, ascending."""
    return sorted(int(size) for size in set(tables.select(_ours(study), PLACE, place)["size"]))


def grown(study: Study, place: tuple) -> bool:
    """Whether a place has several sizes, so that a law can be carried on to the published one."""
    return len(sizes(study, place)) > 1


# ---- one size: orders and ratios -------------------------------------------------------------------------------------


def beside(study: Study, place: tuple) -> pd.DataFrame:
    """One row a configuration and operation that both have: ours (ns, rounds) and theirs (ns, at the nearest size).

    Columns: name (of the configuration), stack, label, phase, cache, position, n, median_ns, min_ns, max_ns,
    their_size, their_n, their_ns, their_low_ns, their_high_ns (quartiles, NaN if unknown), and ratio, low, high, kind
    of ours over theirs (see `stats.ratio`).
    """
    size = sizes(study, place)[-1]
    ours = tables.select(_ours(study), [*PLACE, "size"], (*place, size))
    theirs = _published(study)
    theirs = theirs[theirs["size"] == _nearest(theirs["size"], size)]
    rows = []
    for key, cell in ours.groupby(["stack", "label", "phase", "cache"], sort=False):
        found = tables.select(theirs, ["stack", "label", "phase", "cache"], key)
        if found.empty:
            continue
        told, x = found.iloc[0], cell["wall_ns"].to_numpy(float)
        rows.append(
            dict(zip(["stack", "label", "phase", "cache"], key, strict=True))
            | {"position": int(cell["position"].min()), "n": len(x)}
            | {"median_ns": float(np.median(x)), "min_ns": x.min(), "max_ns": x.max()}
            | {"their_size": int(told["size"]), "their_n": int(told["n"]), "their_ns": told["median_s"] * 1e9}
            | {"their_low_ns": told["q1_s"] * 1e9, "their_high_ns": told["q3_s"] * 1e9}
            | stats.ratio(x, np.full(len(x), told["median_s"] * 1e9))
        )
    names = ["stack", "label", "phase", "cache", "position", "n", "median_ns", "min_ns", "max_ns", "their_size"]
    names += ["their_n", "their_ns", "their_low_ns", "their_high_ns", "ratio", "low", "high", "kind"]
    frame = pd.DataFrame(rows, columns=names).sort_values(["position", "stack", "label"], ignore_index=True)
    return frame.assign(name=_names(frame))


def orders(study: Study, place: tuple) -> tuple[pd.DataFrame, dict]:
    """How alike both order the configurations: one row an operation, and what holds for all operations together.

    Only configurations that have every operation take part. Row: phase, cache, position, rho (Spearman's), p (exact,
    one-sided: the share of all relabellings of the configurations that agree as well), p_joint (the same for the best
    operation of every relabelling, so that it holds for all operations together and knows that they are related), told
    (pairs whose published medians differ by 10 % or more), same and reversed (of these, our ratio's interval, joint
    over the pairs of the operation, excludes 1), turned (words for the reversed ones), ratio, low, high, kind (ours
    over theirs, geometric mean over configurations with its interval over them), least and most (ratio), least_name,
    most_name, verdict. Together: n, names, left_out, rho (mean), p, smallest (p possible), relabellings.
    """
    cells = beside(study, place)
    operations = list(dict.fromkeys(cells[["phase", "cache"]].itertuples(index=False, name=None)))
    wide = {
        column: cells.pivot(index=["phase", "cache"], columns="name", values=column).reindex(operations)
        for column in ("median_ns", "their_ns", "ratio")
    }
    complete = list(wide["median_ns"].columns[wide["median_ns"].notna().all()])
    together = {"n": len(complete), "names": complete, "left_out": sorted(set(cells["name"]) - set(complete))}
    if len(complete) < 2:
        return pd.DataFrame(), together | {"rho": math.nan, "p": math.nan, "smallest": math.nan, "relabellings": 0}
    ours, theirs = wide["median_ns"][complete].to_numpy(), wide["their_ns"][complete].to_numpy()
    rho, null = relabelled(theirs, ours)
    rounds, rows = _rounds(study, place, cells), []
    for number, (phase, cache) in enumerate(operations):
        here = tables.select(cells, ["phase", "cache"], (phase, cache)).set_index("name")
        pairs = _pairs(rounds.loc[phase, cache], here.loc[complete, "their_ns"])
        factors = wide["ratio"][complete].iloc[number]
        row = {"phase": phase, "cache": cache, "position": int(here["position"].min()), "rho": rho[number]}
        row |= {"p": _share(null[:, number], rho[number]), "p_joint": _share(null.max(axis=1), rho[number])}
        row |= pairs | stats.ratio(ours[number], theirs[number])
        row |= {"least": factors.min(), "most": factors.max()}
        row |= {"least_name": factors.idxmin(), "most_name": factors.idxmax()}
        same = row["rho"] > 0 and row["p_joint"] < ALPHA
        row["verdict"] = "same" if same else "another" if row["reversed"] > row["same"] else "undecided"
        rows.append(row)
    together |= {"rho": float(rho.mean()), "p": _share(null.mean(axis=1), rho.mean())}
    together |= {"smallest": 1 / len(null), "relabellings": len(null)}
    return pd.DataFrame(rows), together


def relabelled(x, y) -> tuple[np.ndarray, np.ndarray]:
    """Spearman's rho of x and y of shape (operations, n), shape (operations,), and the same for relabelled y.

    A relabelling exchanges the configurations in all operations alike; the second result, of shape (relabellings,
    operations), holds all n! of them, or with more than eight configurations the identity and 40,000 seeded ones.
    Values that are all equal have no order: rho is 0.
    """
    first, second = (rankdata(np.asarray(values, dtype=float), axis=1) for values in (x, y))
    scaled = []
    for ranks in (first, second):
        centred = ranks - ranks.mean(axis=1, keepdims=True)
        norm = np.sqrt((centred**2).sum(axis=1, keepdims=True))
        scaled.append(np.divide(centred, norm, out=np.zeros_like(centred), where=norm > 0))
    n = first.shape[1]
    if n <= FEW:
        order = np.array(list(itertools.permutations(range(n))))
    else:
        rng = np.random.default_rng(stats.BOOTSTRAP_SEED)
        order = np.vstack([np.arange(n), rng.permuted(np.tile(np.arange(n), (DRAWN, 1)), axis=1)])
    return (scaled[0] * scaled[1]).sum(axis=1), np.einsum("ok,opk->po", scaled[0], scaled[1][:, order])


def _share(null: np.ndarray, value: float) -> float:
    """Share of relabellings with a statistic at least as large (up to rounding)."""
    return float((null >= value - 1e-9).mean())


def _pairs(rounds: pd.DataFrame, theirs: pd.Series) -> dict:
    """Pairs of configurations of one operation: told apart there, and confirmed or reversed here.

    `rounds` are our times, rounds by names of configurations; `theirs` the published ones by name.
    """
    slowest = theirs.sort_values(ascending=False, kind="stable").index
    told = [(a, b) for a, b in itertools.combinations(slowest, 2) if theirs[a] >= APART * theirs[b]]
    same, turned = 0, []
    for slow, fast in told:
        both = rounds[[slow, fast]].dropna()
        low, high = stats.joint_interval(both[slow], both[fast], len(told))
        same += low > 1
        if high < 1:
            turned.append(f"{slow} before {fast}")
    return {"told": len(told), "same": same, "reversed": len(turned), "turned": words.listing(turned)}


def claims(study: Study, place: tuple) -> pd.DataFrame:
    """The published statements that the study can test, a row each.

    Columns: says, there, here, low, high, verdict, their_size, slow_waits, fast_waits (shares of our time in which the
    command was not on the processor), ahead, ahead_low, ahead_high. there and here are ratios of the slower over the
    faster configuration; ours is paired by round, at our largest size, its interval joint over all statements tested.
    verdict is `same`, `another` (direction) or `undecided`. ahead is our ratio carried on to their size as a power law
    with its 95 % prediction interval, NaN with one size.
    """
    size, ours, theirs = sizes(study, place)[-1], tables.select(_ours(study), PLACE, place), _published(study)
    found = []
    for claim in study.plan["published"].get("claims", []):
        keys = [(*claim[side].split("/"), claim["phase"], claim["cache"]) for side in ("slower", "faster")]
        cells = [tables.select(ours, KEY[1:], key) for key in keys]
        here = [cell.set_index(["size", "round"])["wall_ns"] for cell in cells]
        there = [tables.select(theirs, KEY[1:], key).set_index("size")["median_s"] for key in keys]
        rounds = pd.concat(here, axis=1, join="inner", keys=["slow", "fast"]).astype(float).reset_index()
        common = set(there[0].index) & set(there[1].index)
        if (rounds["size"] == size).any() and common:
            at = _nearest(common, size)
            row = {"says": claim["says"], "there": there[0][at] / there[1][at], "their_size": int(at)}
            row |= dict(zip(("slow_waits", "fast_waits"), (_waiting(cell, size) for cell in cells), strict=True))
            found.append((row, rounds))
    rows = []
    for row, rounds in found:
        last = rounds[rounds["size"] == size]
        low, high = stats.joint_interval(last["slow"], last["fast"], len(found))
        verdict = "same" if low > 1 else "another" if high < 1 else "undecided"
        row |= {"here": stats.ratio(last["slow"], last["fast"])["ratio"], "low": low, "high": high, "verdict": verdict}
        ahead = {"time": math.nan, "low": math.nan, "high": math.nan}
        if grown(study, place):
            ahead = series.extrapolate(rounds["size"], rounds["slow"] / rounds["fast"], [row["their_size"]]).iloc[0]
        rows.append(row | {"ahead": ahead["time"], "ahead_low": ahead["low"], "ahead_high": ahead["high"]})
    return pd.DataFrame(rows)


def _waiting(cell: pd.DataFrame, size: int) -> float:
    own = cell[cell["size"] == size]
    return 1 - float((own["user_ns"] + own["system_ns"]).sum() / own["wall_ns"].sum())


# ---- several sizes: laws carried on ----------------------------------------------------------------------------------


def growth(study: Study, place: tuple) -> pd.DataFrame:
    """One row a published number of which we have several sizes: the law of ours, carried on to the published size.

    Columns: stack, label, phase, cache, position, n (measurements), least, most (sizes measured), exponent, low, high
    (95 %), last (exponent between the medians of the two largest sizes), bend (p of a quadratic term), their_size,
    their_ns, their_n, expected_ns, expected_low_ns, expected_high_ns (95 % prediction interval: where a further
    measurement falls if the law goes on), by_last_ns (expected by the exponent of the last step), factor (theirs over
    expected), inside, decades (orders of magnitude between the largest size and the published one).
    """
    ours, rows = tables.select(_ours(study), PLACE, place), []
    for told in _published(study).itertuples():
        own = tables.select(ours, KEY[1:], (told.stack, told.label, told.phase, told.cache))
        if own["size"].nunique() < 2:
            continue
        size, time = own["size"].to_numpy(float), own["wall_ns"].to_numpy(float)
        fit = series.scaling_fit(size, time)
        ahead = series.extrapolate(size, time, [told.size]).iloc[0]
        medians = own.groupby("size")["wall_ns"].median().iloc[-2:].astype(float)
        last = np.diff(np.log(medians)) / np.diff(np.log(medians.index.astype(float)))
        theirs = told.median_s * 1e9
        row = {key: getattr(told, key) for key in KEY[1:]}
        row |= {
            "position": int(own["position"].min()),
            "n": len(own),
            "least": int(size.min()),
            "most": int(size.max()),
        }
        row |= {key: fit[key] for key in ("exponent", "low", "high")} | {"last": float(last[0])}
        row |= {"bend": _bend(size, time)}
        row |= {"by_last_ns": float(medians.iloc[-1] * (told.size / size.max()) ** last[0])}
        row |= {"their_size": int(told.size), "their_ns": theirs, "their_n": int(told.n), "expected_ns": ahead["time"]}
        row |= {"expected_low_ns": ahead["low"], "expected_high_ns": ahead["high"], "factor": theirs / ahead["time"]}
        row |= {"inside": bool(ahead["low"] <= theirs <= ahead["high"])}
        rows.append(row | {"decades": math.log10(told.size / size.max())})
    frame = pd.DataFrame(rows)
    return frame.sort_values(["position", "their_size", "label"], ignore_index=True) if len(frame) else frame


def _bend(size: np.ndarray, time: np.ndarray) -> float:
    """p of a quadratic term in the logarithms; NaN for two sizes, or if nothing is left to judge it by."""
    x = np.log(size)
    if len(np.unique(x)) < 3 or len(x) < 4:
        return math.nan
    x = x - x.mean()
    return float(OLS(np.log(time), np.column_stack([np.ones(len(x)), x, x**2])).fit().pvalues[2])


# ---- words -----------------------------------------------------------------------------------------------------------


def about(study: Study) -> Prose:
    """What the study is set beside, and what a published number is."""
    told = study.plan["published"]
    return Prose(f"**{told['title']}.** {told['source'].strip()} {told['numbers'].strip()}")


def summary(study: Study, place: tuple) -> Prose:
    """What holds for a place in a few sentences."""
    return _growth_summary(study, place) if grown(study, place) else _order_summary(study, place)


def _order_summary(study: Study, place: tuple) -> Prose:
    table, together = orders(study, place)
    if table.empty:
        return Prose("Fewer than two configurations have published numbers and completed here: nothing to compare.")
    cells = beside(study, place)
    size, their_size = sizes(study, place)[-1], int(cells["their_size"].iloc[0])
    n, unit = together["n"], study.plan["published"]["size"]
    parts = []
    if size != their_size:
        parts.append(
            f"Sizes differ: {size:,} {unit} here, {their_size:,} there. Orders are compared all the same; a ratio of"
            " times is one of different amounts of work."
        )
    parts.append(
        f"{words.opening(n, 'configuration')} of a file system and a stack ({words.listing(together['names'])}) and"
        f" {words.count(len(table), 'operation')} have numbers on both sides. Spearman's correlation of the published"
        f" and our order is {words.digits(together['rho'], 2)} on average over the operations;"
        f" {words.percent(together['p'])} of the {together['relabellings']:,} ways to exchange the configurations, in"
        f" all operations alike, agree at least as well (exact, one-sided)."
        + (f" {_few(n, together)}" if together["smallest"] > ALPHA / 5 else "")
    )
    if together["left_out"]:
        parts.append(f"Not in the ranks, for some operation is missing: {words.listing(together['left_out'])}.")
    for verdict, name in VERDICTS.items():
        own = table[table["verdict"] == verdict]
        if len(own):
            titles = "; ".join(_title(study, place, row) for row in own.itertuples())
            parts.append(f"**{words.first_upper(name)}** ({len(own)} of {len(table)}): {titles}.")
    parts.append(_verdict_rule())
    told, same, turned = (int(table[key].sum()) for key in ("told", "same", "reversed"))
    parts.append(
        f"Of {words.count(told, 'pair')} of configurations whose published medians differ by"
        f" {100 * (APART - 1):.0f} % or more, {same:,} have the same order here and {turned:,} the opposite one; for"
        f" {told - same - turned or 'none'} the interval holds 1. Pairs share configurations and are not independent."
    )
    return Prose(*parts)


def _verdict_rule() -> str:
    return (
        "*Same order*: the rank correlation is higher than chance gives, at 5 % for all operations together. *Another"
        " order*: not so, and more pairs that the study told apart are reversed here than confirmed. Otherwise"
        " *undecided*, which is no statement that the orders agree or differ."
    )


def _few(n: int, together: dict) -> str:
    return (
        f"With {words.count(n, 'configuration')} no p value below {words.digits(together['smallest'], 2)} exists, so"
        " that little can be decided by ranks."
    )


def sentences(study: Study, place: tuple) -> Prose:
    """A sentence an operation (same order, another, undecided; ratio of the times), or one a published time and law."""
    if grown(study, place):
        return _growth_sentences(study, place)
    table, _ = orders(study, place)
    lines = []
    for row in table.itertuples():
        pairs = f"{row.same} of {row.told} pairs confirmed, {row.reversed} reversed"
        turned = f" (here {row.turned})" if row.reversed else ""
        ratio = f"{words.digits(row.ratio, 3)}{_bounds(row.low, row.high)}"
        lines.append(
            f"- **{_title(study, place, row)}: {VERDICTS[row.verdict]}.** {RHO} = {words.digits(row.rho, 2)},"
            f" p = {words.digits(row.p, 2)}, jointly {words.digits(row.p_joint, 2)}; {pairs}{turned}. Our time is"
            f" {ratio} of the published one in the geometric mean, from {words.digits(row.least, 2)} ({row.least_name})"
            f" to {words.digits(row.most, 2)} ({row.most_name})."
        )
    return Prose("\n".join(lines))


def _growth_summary(study: Study, place: tuple) -> Prose:
    table = growth(study, place)
    if table.empty:
        return Prose("No published number has a law to be set beside: nothing completed at two sizes.")
    unit = study.plan["published"]["size"]
    most, theirs = int(table["most"].max()), sorted(set(table["their_size"]))
    inside = int(table["inside"].sum())
    bent = int((table["bend"] < ALPHA).sum())
    return Prose(
        f"Measured with {words.listing(f'{size:,}' for size in sizes(study, place))} {unit}; published are"
        f" {words.listing(f'{size:,}' for size in theirs)}, {words.digits(table['decades'].min(), 2)} or more orders of"
        f" magnitude beyond {most:,}. **To carry a power law on so far is an assumption, not a measurement**: the"
        " prediction interval tells how uncertain the fit leaves one further measurement if the law goes on, and"
        " nothing of whether it does.",
        f"{words.first_upper(_of(inside, len(table)))} published times {words.verb(inside, 'lies', 'lie')} in the 95 %"
        f" prediction interval of our law. {words.first_upper(_of(bent, len(table)))} laws"
        f" {words.verb(bent, 'bends', 'bend')} already within the sizes measured here (quadratic term, p < 0.05), and"
        " their intervals are too narrow; what the exponent of the last step alone would give is in the table beside"
        " them.",
    )


def _growth_sentences(study: Study, place: tuple) -> Prose:
    unit, lines = study.plan["published"]["size"], []
    for row in growth(study, place).itertuples():
        where = "in" if row.inside else "outside of"
        bend = (
            f" The law bends already here (p = {words.digits(row.bend, 2)}): carried on with the exponent of the last"
            f" step, {words.digits(row.last, 3)}, it would be {_hours(row.by_last_ns)}."
            if row.bend < ALPHA
            else ""
        )
        lines.append(
            f"- **{row.label}, {_title(study, place, row)}**: time grows with {unit} to the power of"
            f" {words.digits(row.exponent, 3)}{_bounds(row.low, row.high)}; carried on to {row.their_size:,} that is"
            f" {_hours(row.expected_ns)} (prediction {_hour_bounds(row)}). Published: {_hours(row.their_ns)},"
            f" {words.digits(row.factor, 2)} times the expectation, {where} the interval.{bend}"
        )
    return Prose("\n".join(lines))


def _of(part: int, whole: int) -> str:
    return f"{'none' if not part else 'all' if part == whole else part} of the {whole}"


def _bounds(low: float, high: float) -> str:
    return "" if pd.isna(low) else f" (95 % interval {words.span(low, high, significant=3)})"


def _hours(ns: float) -> str:
    return f"{words.digits(ns / 3.6e12, 3)} h"


def _hour_bounds(row) -> str:
    if pd.isna(row.expected_low_ns):
        return "without an interval, for two measurements have none"
    return f"{words.span(row.expected_low_ns, row.expected_high_ns, 3.6e12, 3)} h"


def heading(place: tuple) -> str:
    """Words for a place."""
    return f"Lab {place[0]}, device profile {place[1]}, {place[2]} ({place[3]})"


# ---- tables ----------------------------------------------------------------------------------------------------------


def overview(study: Study, place: tuple) -> list[words.Table]:
    """The tables of the body: operations (or laws), statements, and what differs."""
    first = _growth_table(study, place) if grown(study, place) else _orders_table(study, place)
    found = [first, _claims_table(study, place), _differs_table(study, place)]
    return [table for table in found if table.rows]


def details(study: Study, place: tuple) -> list[words.Table]:
    """Every configuration and operation with both numbers; of a law nothing that is not in the table of the laws."""
    return [] if grown(study, place) else [_cells_table(study, place)]


def _orders_table(study: Study, place: tuple) -> words.Table:
    table, _ = orders(study, place)
    rows = [
        {
            "Operation": _title(study, place, row),
            RHO: words.digits(row.rho, 2),
            "p": words.digits(row.p, 2),
            "Joint p": words.digits(row.p_joint, 2),
            "Pairs": row.told,
            "Same": row.same,
            "Reversed": row.reversed,
            "Ours / published": words.digits(row.ratio, 3),
            "95 % interval": words.span(row.low, row.high, significant=3),
            "Verdict": VERDICTS[row.verdict],
        }
        for row in table.itertuples()
    ]
    kind = table["kind"].iloc[0] if len(table) else "none"
    caption = (
        f"Published and our order of the configurations. {RHO}: Spearman's correlation, with its exact one-sided p and"
        " the p that holds for all operations together. Pairs: of those whose published medians differ by 10 % or more,"
        " how many have the same or the opposite order here (joint 95 % interval of the paired ratio excludes 1)."
        f" Ratio: geometric mean over configurations, interval over configurations ({kind}); the clocks differ, so it"
        " is no speed-up."
    )
    return words.Table(f"tbl-{tables.slug('published', *place)}", caption, rows, left=["Operation", "Verdict"])


def _claims_table(study: Study, place: tuple) -> words.Table:
    size, unit, rows = sizes(study, place)[-1], study.plan["published"]["size"], []
    for row in claims(study, place).itertuples():
        other = f" ({row.their_size:,} {unit})" if row.their_size != size else ""
        carried = {
            "Carried on": words.digits(row.ahead, 3),
            "95 % prediction": words.span(row.ahead_low, row.ahead_high, significant=3),
        }
        rows.append(
            {
                "Published statement": row.says,
                "There": words.digits(row.there, 3) + other,
                "Here": words.digits(row.here, 3),
                "Joint 95 % interval": words.span(row.low, row.high, significant=3),
                "Waiting here": f"{100 * row.slow_waits:.0f} %, {100 * row.fast_waits:.0f} %",
                "Verdict": DIRECTIONS[row.verdict],
                **(carried if grown(study, place) else {}),
            }
        )
    caption = (
        "Statements of the publication about two configurations: how many times as long the slower one took there and"
        f" takes here ({size:,} {unit}). The intervals hold for all statements together (Student's t of the log ratios"
        " paired by round, Bonferroni); a statement is in the same direction when its interval lies above 1. Where the"
        " published size is another one it is in brackets. Waiting: share of the time of the slower and of the faster"
        " one in which the command was not on the processor, but waited for disks or for work of the kernel's threads."
    )
    if grown(study, place):
        caption += (
            " Carried on: our ratio at the published size, if the power law of the ratios of the sizes measured here"
            " goes on so far, which is an assumption."
        )
    name = f"tbl-{tables.slug('claims', *place)}"
    return words.Table(name, caption, rows, left=["Published statement", "Verdict"])


def _differs_table(study: Study, place: tuple) -> words.Table:
    kernels = study.environment["values"].get("lab.kernel") or study.environment["values"].get("host.kernel", {})
    values = {
        "kernel": words.listing(kernels) if kernels else "not recorded",
        "sizes": words.listing(f"{size:,}" for size in sizes(study, place)),
        "rounds": words.count(study.plan["study"]["rounds"], "round"),
        "lab": place[0],
        "profile": place[1],
    }
    rows = [
        {
            "What": entry["what"],
            "There": entry["there"],
            "Here": entry["here"].format(**values),
            "What follows": entry["follows"],
        }
        for entry in study.plan["published"]["differs"]
    ]
    caption = "What is not the same there and here, and what follows for the comparison."
    left = ["What", "There", "Here", "What follows"]
    return words.Table(f"tbl-{tables.slug('differs', *place)}", caption, rows, left=left)


def _growth_table(study: Study, place: tuple) -> words.Table:
    rows = [
        {
            "Operation": _title(study, place, row),
            "File system": row.label,
            "n": row.n,
            "Exponent": words.digits(row.exponent, 3),
            "95 % interval": words.span(row.low, row.high, significant=3),
            "Last step": words.digits(row.last, 3),
            "p of bend": "< 0.0001" if row.bend < 0.0001 else words.digits(row.bend, 2),
            "Published size": f"{row.their_size:,}",
            "Expected h": words.digits(row.expected_ns / 3.6e12, 3),
            "95 % prediction": words.span(row.expected_low_ns, row.expected_high_ns, 3.6e12, 3),
            "By last step h": words.digits(row.by_last_ns / 3.6e12, 3),
            "Published h": words.digits(row.their_ns / 3.6e12, 3),
        }
        for row in growth(study, place).itertuples()
    ]
    caption = (
        f"Power laws of our times over {study.plan['published']['size']}"
        f" ({words.count(len(sizes(study, place)), 'size')}, all rounds), carried on to the published size, beside the"
        " published hours. Last step: exponent between the medians of the two largest sizes. p of bend: of a quadratic"
        " term in the logarithms; below 0.05 the law bends already here. The prediction interval is of a further"
        " measurement if the law goes on, which is an assumption."
    )
    return words.Table(f"tbl-{tables.slug('growth', *place)}", caption, rows, left=["Operation", "File system"])


def _cells_table(study: Study, place: tuple) -> words.Table:
    rows = [
        {
            "Operation": _title(study, place, row),
            "Configuration": row.name,
            "Runs there": row.their_n,
            "Median there": words.time(row.their_ns, 3),
            "Quartiles there": f"{words.time(row.their_low_ns, 3)} {DASH} {words.time(row.their_high_ns, 3)}"
            if not pd.isna(row.their_low_ns)
            else DASH,
            "Median here": words.time(row.median_ns, 3),
            "Ratio": words.digits(row.ratio, 3),
            "95 % interval": words.span(row.low, row.high, significant=3),
        }
        for row in beside(study, place).itertuples(index=False)
    ]
    caption = (
        "Published and our times. A dash: only the median was at hand. Ratio: geometric mean of our rounds over the"
        " published median, which is taken as fixed; its interval is over our rounds."
    )
    return words.Table(f"tbl-{tables.slug('beside', *place)}", caption, rows, left=["Operation", "Configuration"])


# ---- figures ---------------------------------------------------------------------------------------------------------


def items(study: Study) -> list[Item]:
    """The figures of every place: of kind `published` those of the body, `beside` those of the appendix alone."""
    found = []
    for place in places(study):
        found += _growth_items(study, place) if grown(study, place) else _order_items(study, place)
    return found


def _order_items(study: Study, place: tuple) -> list[Item]:
    cells = beside(study, place)
    setting, workload, found = place[:2], place[2:], []
    for cache, own in cells.groupby("cache", sort=True):
        caption = (
            f"{workload[0]}, {cache}: our time against the published one, each operation on axes of its own, both"
            " logarithmic and as long as each other. On the broken line, which has slope 1 and goes through the"
            " geometric mean of the ratios, all configurations would have one ratio. A mark is a median; bars are"
            " published quartiles where known, and the range of our rounds."
        )
        alt = (
            f"{words.count(own['phase'].nunique(), 'panel')}, one an operation, with"
            f" {words.count(own['name'].nunique(), 'configuration')}; the table of the operations has the correlations."
        )
        titles = {row.phase: _title(study, place, row) for row in own.itertuples()}
        draw = partial(scatter, own, titles)
        name = tables.slug("published", cache, *place)
        found.append(Item("beside", name, setting, workload, caption, alt, draw))
    table, _ = orders(study, place)
    if len(table):
        caption = (
            f"{workload[0]}: our time over the published one, by operation. A mark is a configuration, the bar the"
            " geometric mean over configurations with its 95 % interval over them. Marks far from their bar are"
            " configurations that the years, the disks or the clock changed more than the others."
        )
        alt = "Ratios by operation; the table of the operations has the geometric means with their intervals."
        titles = {(row.phase, row.cache): _title(study, place, row) for row in table.itertuples()}
        name = tables.slug("published-ratios", *place)
        draw = partial(ratios, cells, table, titles)
        found.append(Item("published", name, setting, workload, caption, alt, draw))
    return found


def _growth_items(study: Study, place: tuple) -> list[Item]:
    table = growth(study, place)
    if table.empty:
        return []
    ours, unit = tables.select(_ours(study), PLACE, place), study.plan["published"]["size"]
    titles = {(row.phase, row.cache): _title(study, place, row) for row in table.itertuples()}
    caption = (
        f"{place[2]}: time against {unit}, both logarithmic. Small marks are our measurements, lines the power laws,"
        " broken where nothing was measured, shades their 95 % prediction intervals; filled marks are published."
    )
    alt = f"{words.count(len(titles), 'panel')}, one an operation; the table of the laws has the numbers."
    draw = partial(laws, ours, table, titles, unit)
    return [Item("published", tables.slug("growth", *place), place[:2], place[2:], caption, alt, draw)]


def scatter(cells: pd.DataFrame, titles: dict):
    """Published against our seconds, one panel a phase, one mark a configuration; see `_order_items`."""
    phases = list(dict.fromkeys(cells["phase"]))
    marks = _marks(cells["name"])
    columns = min(3, len(phases))
    lines = math.ceil(len(phases) / columns)
    with matplotlib.rc_context(STYLE):
        side = min((WIDTH - 0.3) / columns, 2.2)
        figure, panels = figures._grid(lines, columns, len(phases), 0.6 + side * lines)
        for axes, phase in zip(panels, phases, strict=True):
            own = cells[cells["phase"] == phase]
            _scatter_panel(axes, own, marks)
            axes.set_title(titles[phase].replace(", cold", "").replace(", warm", ""), loc="left", fontsize=8)
        figure.supxlabel("published median, s", fontsize=8)
        figure.supylabel("our median, s", fontsize=8)
        legend = {name: (colour, marker, "") for name, (colour, marker, _) in marks.items()}
        figures._legend(figure, legend, mfc="none", mew=1.3)
    return figure


def _scatter_panel(axes, cells: pd.DataFrame, marks: dict) -> None:
    x, y = cells["their_ns"] / 1e9, cells["median_ns"] / 1e9
    for row in cells.itertuples():
        colour, marker, _ = marks[row.name]
        place = (row.their_ns / 1e9, row.median_ns / 1e9)
        if not pd.isna(row.their_low_ns):
            axes.plot([row.their_low_ns / 1e9, row.their_high_ns / 1e9], [place[1]] * 2, color=colour, lw=0.9)
        axes.plot([place[0]] * 2, [row.min_ns / 1e9, row.max_ns / 1e9], color=colour, lw=0.9)
        axes.plot(*place, ls="", marker=marker, ms=5, mfc="none", mec=colour, mew=1.3, zorder=3)
    # Both axes as long as each other, around their middles, so that equal ratios lie on lines of slope 1.
    reach = 1.25 * max(math.sqrt(values.max() / values.min()) for values in (x, y))
    reach = max(reach, 1.5)
    limits = []
    for values in (x, y):
        middle = math.sqrt(values.min() * values.max())
        limits.append((middle / reach, middle * reach))
    factor = math.exp(float(np.log(y / x).mean()))
    line = np.array(limits[0])
    axes.plot(line, line * factor, color=GREY, lw=0.8, ls=(0, (3, 2)), zorder=1)
    axes.set(xscale="log", yscale="log", xlim=limits[0], ylim=limits[1], box_aspect=1)
    for axis in (axes.xaxis, axes.yaxis):
        subs = (1,) if reach > 12 else (1, 3) if reach > 4 else (1, 2, 5)
        axis.set_major_locator(LogLocator(subs=subs, numticks=7))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))


def ratios(cells: pd.DataFrame, table: pd.DataFrame, titles: dict):
    """Our time over the published one: a line an operation, a mark a configuration, the mean with its interval."""
    marks = _marks(cells["name"])
    with matplotlib.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(WIDTH, 0.9 + 0.24 * len(table)), layout="constrained")
        for y, row in enumerate(table.itertuples()):
            if not pd.isna(row.low):
                axes.plot([row.low, row.high], [y, y], color=BLUE, lw=2.2, alpha=0.6, solid_capstyle="butt")
            axes.plot([row.ratio] * 2, [y - 0.32, y + 0.32], color=BLUE, lw=1.6)
            for cell in tables.select(cells, ["phase", "cache"], (row.phase, row.cache)).itertuples():
                colour, marker, _ = marks[cell.name]
                axes.plot(cell.ratio, y, ls="", marker=marker, ms=4.5, mfc="none", mec=colour, mew=1.2, zorder=3)
        figures._rows(axes, [titles[row.phase, row.cache] for row in table.itertuples()])
        axes.axvline(1, color=INK, lw=0.6, zorder=1)
        axes.set_xscale("log")
        figures._value_axis(axes, "our time / published time")
        legend = {name: (colour, marker, "") for name, (colour, marker, _) in marks.items()}
        figures._legend(figure, legend, mfc="none", mew=1.3)
    return figure


def laws(ours: pd.DataFrame, table: pd.DataFrame, titles: dict, unit: str):
    """Our times over sizes with their laws up to the published sizes, and the published times; hours and seconds."""
    labels = list(dict.fromkeys(table.sort_values("label")["label"]))
    marks = dict(zip(labels, itertools.cycle(LINES)))
    lines = math.ceil(len(titles) / 2)
    with matplotlib.rc_context(STYLE):
        figure, panels = figures._grid(lines, min(2, len(titles)), len(titles), 0.5 + 2.3 * lines)
        for axes, ((phase, cache), title) in zip(panels, titles.items(), strict=True):
            there = tables.select(table, ["phase", "cache"], (phase, cache))
            for (stack, label), told in there.groupby(["stack", "label"], sort=False):
                own = tables.select(ours, KEY[1:], (stack, label, phase, cache))
                _law(axes, own["size"].to_numpy(float), own["wall_ns"].to_numpy(float) / 1e9, told, marks[label])
            axes.set(xscale="log", yscale="log")
            for axis in (axes.xaxis, axes.yaxis):
                axis.set_major_locator(LogLocator(numticks=7))
                axis.set_minor_locator(NullLocator())
                axis.set_major_formatter(FuncFormatter(_power))
            axes.set_title(title, loc="left")
            axes.grid(color=GREY, alpha=0.3, lw=0.5)
            axes.set_axisbelow(True)
        figure.supxlabel(unit, fontsize=8)
        figure.supylabel("time, s", fontsize=8)
        figures._legend(figure, {label: (c, m, "-") for label, (c, m, _) in marks.items()}, mfc="none", mew=1.2)
    return figure


def _law(axes, sizes: np.ndarray, seconds: np.ndarray, told: pd.DataFrame, line: tuple) -> None:
    colour, marker, _ = line
    axes.plot(sizes, seconds, ls="", marker=marker, ms=3.5, mfc="none", mec=colour, mew=1, zorder=3)
    for low, high, style in ((sizes.min(), sizes.max(), "-"), (sizes.max(), told["their_size"].max(), (0, (4, 2)))):
        at = np.geomspace(low, high, 40)
        law = series.extrapolate(sizes, seconds, at)
        axes.plot(at, law["time"], color=colour, lw=1.1, ls=style)
        if style != "-":
            axes.fill_between(at, law["low"].astype(float), law["high"].astype(float), color=colour, alpha=0.15, lw=0)
    there = (told["their_size"], told["their_ns"] / 1e9)
    axes.plot(*there, ls="", marker=marker, ms=7, mfc=colour, mec=INK, mew=0.8, zorder=4)


def _power(value: float, _) -> str:
    exponent = round(math.log10(value))
    return f"{value:,.10g}" if -3 < exponent < 4 else f"$10^{{{exponent}}}$"


def _marks(names) -> dict:
    return dict(zip(sorted(set(names)), itertools.cycle(LINES)))


# ---- parts -----------------------------------------------------------------------------------------------------------


def _published(study: Study) -> pd.DataFrame:
    return load(study.plan["study"]["published"])


def _ours(study: Study) -> pd.DataFrame:
    """Completed phases of contenders with the column size; the workload is named without its size."""
    phases = stats.measured(study.phases)
    phases = phases[phases["role"] != "ceiling"]
    key = study.plan["published"]["size"]
    found = {name: entry["scale"].get(key) for name, entry in study.plan["workloads"].items()}
    chosen = phases[phases["workload"].map(found).notna()]
    return chosen.assign(
        size=chosen["workload"].map(found).astype("Int64"),
        workload=chosen["workload"].map(_base),
    )


def _rounds(study: Study, place: tuple, cells: pd.DataFrame) -> pd.DataFrame:
    """Times (ns) behind the rows of `beside`: (phase, cache, round) by names of configurations."""
    own = tables.select(_ours(study), [*PLACE, "size"], (*place, sizes(study, place)[-1]))
    own = own.merge(cells[["stack", "label", "phase", "cache", "name"]])
    return own.pivot(index=["phase", "cache", "round"], columns="name", values="wall_ns").astype(float)


def _names(cells: pd.DataFrame) -> pd.Series:
    """Labels; with the stack where a label is on several."""
    several = cells.groupby("label")["stack"].nunique()
    return pd.Series(
        [f"{row.label} on {row.stack}" if several[row.label] > 1 else row.label for row in cells.itertuples()],
        index=cells.index,
        dtype=object,
    )


def _nearest(known, size: int) -> int:
    return min(set(known), key=lambda other: (abs(math.log(other / size)), other))


def _base(workload: str) -> str:
    """The name of a workload without its size."""
    return re.sub(r"@x?\d+", "", workload)


def _title(study: Study, place: tuple, row) -> str:
    """Words for an operation of a place."""
    name = next(name for name in study.plan["workloads"] if _base(name) == place[2])
    return study.title(name, row.phase, row.cache)
