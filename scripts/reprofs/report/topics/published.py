"""Comparison with published numbers: whether a study gives the published order, ratios and claims, and what differs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from reprofs.data.keys import Place, select
from reprofs.report.display import DASH, Table, count, digits, known, listing, slug, small, span, time
from reprofs.report.plots import (
    BLUE,
    GREY,
    HIGHEST,
    INK,
    WIDTH,
    Figure,
    Plot,
    grid,
    grid_lines,
    legend,
    log_axis,
    marks,
    part,
    power,
    rows,
    styled,
    value_axis,
)
from reprofs.stats import claims, series
from reprofs.stats import published as numbers
from reprofs.stats.claims import REPRODUCED, Ground, Interval
from reprofs.stats.compare import holm
from reprofs.stats.published import ALPHA, Configuration, Step
from reprofs.stats.study import Study

RHO = "\N{GREEK SMALL LETTER RHO}"
HOUR = 3.6e12  # ns
MANY = 4  # ratios of one claim: up to here each is shown
HOLLOW = {"mfc": "none", "mew": 1.3}


def applies(plan: dict) -> bool:
    """Where a study names published numbers; with factors, these are compared with them (topic factors)."""
    return "published" in plan and "factors" not in plan


def asked(plan: dict) -> bool:
    """Always: published numbers are named to be compared with."""
    return True


# ---- facts -----------------------------------------------------------------------------------------------------------


def order_facts(study: Study, place: Place) -> dict[str, Any]:
    """Facts on the two orders of the configurations of a place.

    Keys: operations (the rows of `numbers.orders` as dictionaries, with title; none without two configurations), orders
    (`numbers.Orders`), few (whether there are too few configurations for a small p), size, published_size, verdicts
    (verdict -> titles), pairs, same, reversed (sums).
    """
    orders, cells = numbers.orders(study, place), numbers.beside(study, place)
    operations = [
        row | {"title": numbers.title(study, place, Step(row["phase"], row["cache"]))}
        for row in orders.operations.to_dict("records")
    ]
    verdicts = {
        verdict: [row["title"] for row in operations if row["verdict"] == verdict]
        for verdict in ("same order", "another order", "undecided")
    }
    return {
        "operations": operations,
        "orders": orders,
        "few": orders.smallest_p > ALPHA / 5,
        "size": numbers.sizes(study, place)[-1],
        "published_size": int(cells["published_size"].iloc[0]) if len(cells) else None,
        "verdicts": verdicts,
        **{key: sum(row[key] for row in operations) for key in ("pairs", "same", "reversed")},
    }


def law_facts(study: Study, place: Place) -> dict[str, Any]:
    """Facts on the power laws of a place.

    Keys: laws (the rows of `numbers.laws` as dictionaries, with title, and broken: whether lack of fit is shown, by
    Holm over the laws), sizes (measured), and if there are laws published_sizes, decades (the smallest distance in
    orders of magnitude), near (how many have a prediction interval), inside and broken (how many), least, most (of the
    published time over either scenario).
    """
    table = numbers.laws(study, place)
    broken: Any = holm(table["fit_p"]) < ALPHA if len(table) else []
    laws = [
        row | {"title": numbers.title(study, place, Step(row["phase"], row["cache"])), "broken": bool(wrong)}
        for row, wrong in zip(table.to_dict("records"), broken, strict=True)
    ]
    found: dict[str, Any] = {"laws": laws, "sizes": numbers.sizes(study, place)}
    if laws:
        found["published_sizes"] = sorted(set(table["published_size"]))
        found["decades"] = table["decades"].min()
        found["near"] = sum(law["inside"] is not None for law in laws)
        found |= {key: sum(bool(law[key]) for law in laws) for key in ("inside", "broken")}
        factors = [law[key] for law in laws for key in ("factor", "factor_last")]
        found |= {"least": min(factors), "most": max(factors)}
    return found


def comparable(study: Study, place: Place) -> bool:
    """Whether a place has a power law or an order of configurations to set beside what was published."""
    if numbers.extrapolated(study, place):
        return bool(law_facts(study, place)["laws"])
    return bool(order_facts(study, place)["operations"])


def claim_facts(study: Study, ground: Ground) -> dict[str, Any]:
    """Facts on the published claims.

    Keys: decided and open (the rows of `claims.claims` as dictionaries, the latter of claims that are not decidable
    here), verdicts (verdict -> how many, of those decided), slips (how many are contradicted by the published numbers
    themselves), far (how many were decided at a size more than ten times smaller, or larger, than theirs), sizes and
    published_sizes (of those).
    """
    rows = claims.claims(study, ground).to_dict("records")
    decided = [row for row in rows if row["verdict"] != claims.NOT_HERE]
    verdicts = {word: sum(row["verdict"] == word for row in decided) for word in claims.VERDICTS}
    return {
        "decided": decided,
        "open": [row for row in rows if row["verdict"] == claims.NOT_HERE],
        "verdicts": {word: number for word, number in verdicts.items() if number},
        "slips": sum(row["own"] == claims.CONTRADICTED for row in rows),
        "far": len(far := [row for row in decided if _far(row)]),
        "sizes": sorted({row["size"] for row in far}),
        "published_sizes": sorted({row["published_size"] for row in far}),
    }


# ---- tables ----------------------------------------------------------------------------------------------------------


def order_table(study: Study, place: Place) -> Table:
    """One row per operation: correlation of the orders, pairs, ratio, verdict."""
    found = order_facts(study, place)["operations"]
    shown = [
        {
            "Operation": row["title"],
            RHO: digits(row["rho"], 2),
            "p": digits(row["p"], 2),
            "Pairs": row["pairs"],
            "Same": row["same"],
            "Reversed": row["reversed"],
            "This study / published": digits(row["ratio"], 3),
            "95 % interval": span(row["low"], row["high"], significant=3),
            "Verdict": row["verdict"],
        }
        for row in found
    ]
    caption = (
        f"The published order of the configurations and that of this study. {RHO}: Spearman's correlation; p: the share"
        " of the ways to exchange configurations within their stacks that agree as well. Pairs: those with a published"
        " order, and how many are shown to have the same or the opposite one in this study (paired t tests, Holm's"
        " correction over all pairs of all operations, 5 %). Ratio: geometric mean over configurations, interval over"
        " configurations (Student's t on logarithms); the clocks differ, so it is no speed-up."
    )
    return Table(f"tbl-{slug('published', place)}", caption, shown, left=["Operation", "Verdict"])


def rating_table(study: Study, place: Place) -> Table:
    """One row per configuration: its rating in this study, by the published times, and as printed."""
    found = numbers.ratings(study, place)
    printed = found["printed"].notna().any()
    shown = [
        {
            "Configuration": row["name"],
            "This study": f"{row['own']:g}",
            "Published times": f"{row['published']:g}",
            **({"Printed": f"{row['printed']:g}" if known(row["printed"]) else DASH} if printed else {}),
        }
        for row in found.to_dict("records")
    ]
    operations = count(int(found["operations"].iloc[0]) if shown else 0, "cold operation")
    caption = (
        f"Ratings as DataLad's study of 2015 made them: the median, over {operations}, of the rank of a configuration,"
        " 0 for the fastest. A description: ranks do not tell how far apart times are, and operations of one workload"
        " go together. Published times: of the same configurations and operations, by the published medians."
    )
    if printed:
        caption += " Printed: the published rating itself, among all configurations that were published."
    return Table(f"tbl-{slug('ratings', place)}", caption, shown, left=["Configuration"])


def law_table(study: Study, place: Place) -> Table:
    """One row per published number: the power law, and the hours that it gives beside the published ones."""
    found = law_facts(study, place)
    near = found.get("near", 0)
    shown = [
        {
            "Operation": row["title"],
            "File system": row["label"],
            "Sizes": row["n"],
            "Exponent": digits(row["exponent"], 3),
            "95 % interval": span(row["low"], row["high"], significant=3),
            "Last step": digits(row["last"], 3),
            "p of the fit": small(row["fit_p"]),
            "Published size": f"{row['published_size']:,}",
            "By the law, h": digits(row["expected_ns"] / HOUR, 3),
            **({"95 % prediction, h": span(row["expected_low_ns"], row["expected_high_ns"], HOUR, 3)} if near else {}),
            "With a knee, h": digits(row["by_last_ns"] / HOUR, 3),
            "Published, h": digits(row["published_ns"] / HOUR, 3) + _range(row),
        }
        for row in found["laws"]
    ]
    caption = (
        f"Power laws of time over {study.plan['published']['size']} ({count(len(found['sizes']), 'size')},"
        " geometric means of the rounds), and two scenarios for the published size: the law goes on, or it has a knee"
        " at the largest size and goes on with the exponent of the last step. p of the fit: below 0.05 the times"
        " measured"
        " are no power law (lack of fit against the spread of the rounds). In brackets quartiles or range of the"
        " published runs."
    )
    if near:
        caption += " Within half a decade of the sizes measured, 95 % prediction interval of the law."
    return Table(f"tbl-{slug('growth', place)}", caption, shown, left=["Operation", "File system"])


def _range(row: dict) -> str:
    low, high = row["published_low_ns"], row["published_high_ns"]
    return f" ({span(low, high, HOUR, 3)})" if high > low else ""


def claim_table(study: Study, ground: Ground, facts: dict[str, Any]) -> Table:
    """One row per published claim that the study can decide, of `claim_facts`; none if there is none."""
    shown = [
        {
            "Published claim": row["claim"]["says"],
            "Claimed": _claimed(row),
            "Published numbers": _published(row),
            "This study": _found(row["found"]),
            "Verdict": row["verdict"],
        }
        for row in facts["decided"]
    ]
    for line, row in zip(shown, facts["decided"], strict=True):
        if _far(row):
            line["Verdict"] += f" at {row['size']:,}"
    caption = (
        "Published claims and their verdicts. Ratios are of the first value that a claim names over the second, or over"
        " each other one, in an order over the next; a value alone is in s, bytes or 1/s. In brackets intervals that"
        " hold with 95 % for all claims together (Student's t of log ratios paired by round, Bonferroni). A ratio is"
        " reproduced where its interval reaches to the claimed one or a factor of it (1.25 unless told); where it only"
        " lies on the same side of 1 the direction is the same. Beside published numbers: their own verdict, where they"
        " do not bear out the claim."
    )
    if study.plan["study"].get("stands_in"):
        pairs = (f"{own} for {other}" for other, own in study.plan["study"]["stands_in"].items())
        caption += f" Stand in: {listing(pairs)}."
    return Table(f"tbl-{slug('claims', ground)}", caption, shown, left=list(shown[0]) if shown else [])


def open_table(ground: Ground, facts: dict[str, Any]) -> Table:
    """One row per published claim that the study cannot decide, with what it would take."""
    shown = [
        {
            "Published claim": row["claim"]["says"],
            "Place": row["claim"]["where"],
            "Claimed": _claimed(row),
            "Published numbers": _published(row),
            "What it would take": row["claim"]["needs"],
        }
        for row in facts["open"]
    ]
    caption = (
        "Published claims that this study cannot decide, because it has not measured what they are about, or not as"
        " much. Beside published numbers: their own verdict, where they do not bear out the claim."
    )
    return Table(f"tbl-{slug('open-claims', ground)}", caption, shown, left=list(shown[0]) if shown else [])


def detail_table(ground: Ground, facts: dict[str, Any]) -> Table:
    """One row per claim that the study can decide: its id and place, waiting, and with several sizes the scenarios."""
    decided = facts["decided"]
    extrapolated = any(known(row["expected"]) for row in decided)
    shown = [
        {
            "Claim": row["id"],
            "Place": row["claim"]["where"],
            "Kind": row["claim"]["kind"],
            "Size": f"{row['size']:,}" if row["size"] else DASH,
            "Published size": f"{row['published_size']:,}" if row["published_size"] else DASH,
            "Waiting, %": ", ".join(f"{100 * one:.0f}" for one in row["waits"] if known(one)) or DASH,
            **(
                {"By the law": digits(row["expected"], 3), "With a knee": digits(row["by_last"], 3)}
                if extrapolated
                else {}
            ),
        }
        for row in decided
    ]
    caption = (
        "The claims that were decided, by the names that a study's key expected has. Size: the largest that was"
        " measured. Waiting: share of this study's time, of the first and the second value of the first ratio, in which"
        " the command was not on the processor."
    )
    if extrapolated:
        caption += (
            " Scenarios of the ratio for the published size: by the power law of this study's ratios, and with a knee"
            " at the largest size, with the exponent of the last step."
        )
    return Table(f"tbl-{slug('claim-details', ground)}", caption, shown, left=["Claim", "Place", "Kind"])


def _far(row: dict) -> bool:
    """Whether a claim was decided at a size more than ten times smaller, or larger, than the one it is about."""
    sizes = row["size"], row["published_size"]
    return all(sizes) and max(sizes) > 10 * min(sizes)


def _claimed(row: dict) -> str:
    """What a claim says of its ratios."""
    claim = row["claim"]
    if claim["kind"] == "bound":
        return f"at least {digits(claim['least'], 3)}" if "least" in claim else f"at most {digits(claim['most'], 3)}"
    if claim["kind"] == "ratio":
        return digits(row["claimed"], 3) + (f", within a factor of {claim['within']:g}" if "within" in claim else "")
    words = {"order": "above 1", "monotone": "1 or more, the last above", "no-winner": "on both sides of 1"}
    return words.get(claim["kind"]) or f"within a factor of {claim['within']:g}"


def _published(row: dict) -> str:
    """The published ratios of a claim, and the verdict by them where they do not bear it out."""
    if not all(map(known, row["published"])):
        return DASH
    return _ratios(row["published"]) + (f" ({row['own']})" if row["own"] not in ("", REPRODUCED) else "")


def _found(found: list[Interval]) -> str:
    if len(found) > MANY:
        return _ratios([one.ratio for one in found])
    return ", ".join(f"{digits(one.ratio, 3)} ({span(one.low, one.high, significant=3)})" for one in found)


def _ratios(found: list[float]) -> str:
    if len(found) > MANY:
        return f"{digits(min(found), 3)} to {digits(max(found), 3)}, {len(found)} ratios"
    return ", ".join(digits(ratio, 3) for ratio in found)


def difference_table(study: Study, ground: Ground) -> Table:
    """What was different when the published numbers were measured, with this study's own values filled in."""
    recorded = study.environment["values"]
    kernels = recorded.get("lab.kernel") or recorded.get("host.kernel")
    own = [place for place in numbers.places(study) if (place.lab, place.profile) == ground]
    sizes = sorted({size for place in own for size in numbers.sizes(study, place)})
    values = {
        "kernel": listing(kernels) if kernels else "not recorded",
        "sizes": listing(f"{size:,}" for size in sizes),
        "rounds": count(study.plan["study"]["rounds"], "round"),
        "lab": ground.lab,
        "profile": ground.profile,
    }
    shown = [
        {
            "What": entry["what"],
            "Published": entry["there"],
            "This study": entry["here"].format(**values),
            "What follows": entry["follows"],
        }
        for entry in study.plan["published"]["differs"]
    ]
    caption = "What differs between the published measurements and this study, and what follows for the comparison."
    left = ["What", "Published", "This study", "What follows"]
    return Table(f"tbl-{slug('differs', ground)}", caption, shown, left=left)


def _spread(sd: float) -> str:
    return f" ± {digits(sd, 3)}" if known(sd) else ""


def value_table(study: Study, ground: Ground) -> Table:
    """Published values other than elapsed times that this study measured, too; none if there is none."""
    shown = [
        {
            "Value": f"{row['phase']}, {row['quantity']}",
            "Configuration": f"{row['label']} on {row['stack']}" if row["stack"] else row["label"],
            "Place": row["place"],
            "Published": digits(row["value"], 4) + _spread(row["sd"]),
            "Unit": row["unit"],
            "This study": digits(row["own"], 4) + _spread(row["own_sd"]),
        }
        for row in claims.beside(study, ground).to_dict("records")
    ]
    caption = (
        "Published values that are not elapsed times, with their standard deviation where it was published, and the"
        " geometric means of this study in the same unit, at its largest size. The machines differ, so only ratios can"
        " be compared."
    )
    return Table(f"tbl-{slug('values', ground)}", caption, shown, left=["Value", "Configuration", "Place", "Unit"])


def cell_table(study: Study, place: Place) -> Table:
    """Every configuration and operation with both numbers."""
    shown = [
        {
            "Operation": numbers.title(study, place, Step(row["phase"], row["cache"])),
            "Configuration": row["name"],
            "Published runs": row["published_n"],
            "Published median": time(row["published_ns"], 3),
            "Published quartiles": DASH
            if pd.isna(row["published_low_ns"])
            else f"{time(row['published_low_ns'], 3)} {DASH} {time(row['published_high_ns'], 3)}",
            "Median of this study": time(row["median_ns"], 3),
            "Ratio": digits(row["ratio"], 3),
            "95 % interval": span(row["low"], row["high"], significant=3),
        }
        for row in numbers.beside(study, place).to_dict("records")
    ]
    caption = (
        "Published times and those of this study. A dash: only the median was at hand. Ratio: geometric mean of the"
        " rounds of this study over the published median; its interval is over the rounds and, where the quartiles are"
        " known, over the published runs, else the median is taken as fixed."
    )
    return Table(f"tbl-{slug('beside', place)}", caption, shown, left=["Operation", "Configuration"])


# ---- figures ---------------------------------------------------------------------------------------------------------


def ratio_figure(study: Study, place: Place) -> Figure:
    """Ratios of every configuration by operation, with their geometric means."""
    caption = (
        f"{place.workload}: time of this study over the published time, by operation. A mark is a configuration, the"
        " upright bar the geometric mean over configurations with its 95 % interval over them. A mark far from its bar"
        " is a configuration whose time differs from the published one by another factor than that of the others."
    )
    alt = "Ratios by operation; the table of the operations has the geometric means with their intervals."
    operations = order_facts(study, place)["operations"]
    plot = ratios(numbers.beside(study, place), operations)
    return Figure(slug("published-ratios", place), caption, alt, plot)


def scatter_figures(study: Study, place: Place) -> list[Figure]:
    """Published times and those of this study against each other, one figure per cache state."""
    found = []
    for cache, cells in numbers.beside(study, place).groupby("cache", sort=True):
        caption = (
            f"{place.workload}, {cache}: median of this study against the published median, each operation on its own"
            " logarithmic axes, both over the same factor. On the broken line, which goes through the geometric mean of"
            " the ratios, all configurations would have one ratio. Bars: published quartiles where known, and the range"
            " of the rounds of this study."
        )
        alt = (
            f"{count(cells['phase'].nunique(), 'panel')}, one an operation, with"
            f" {count(cells['name'].nunique(), 'configuration')}; the table of the operations has the correlations."
        )
        steps = [Step(phase, str(cache)) for phase in dict.fromkeys(cells["phase"])]
        titles = {step.phase: numbers.title(study, place, step).removesuffix(f", {cache}") for step in steps}
        found.append(Figure(slug("published", cache, place), caption, alt, scatter(cells, titles)))
    return found


def twin_figures(study: Study, place: Place) -> list[Figure]:
    """Published times and those of this study in one form, side by side, an operation a line."""
    cells = numbers.beside(study, place)
    titles = [numbers.title(study, place, Step(*step)) for step in zip(cells["phase"], cells["cache"], strict=True)]
    ends = {"published_low": "published_low", "published_high": "published_high", "own_low": "min", "own_high": "max"}
    seconds = {
        key: cells[f"{column}_ns"] / 1e9 for key, column in {"published": "published", "own": "median", **ends}.items()
    }
    caption = (
        f"{place.workload}: the published times (left) and those of this study (right), s. Marks are medians, bars the"
        " published quartiles where known and the range of the rounds of this study."
    )
    return _twins(slug("twins", place), caption, cells[["name"]].assign(title=titles, **seconds))


def value_twin_figures(study: Study, ground: Ground) -> list[Figure]:
    """Published values other than elapsed times and those of this study in one form, side by side."""
    rows = claims.beside(study, ground)
    names = [f"{row.label} on {row.stack}" if row.stack else row.label for row in rows.itertuples()]
    several = (
        rows.assign(name=names).groupby(["phase", "quantity", "unit", "name"], sort=False)["place"].transform("nunique")
    )
    frame = pd.DataFrame(
        {
            "name": [
                f"{name}, {row.place}" if many > 1 else name
                for name, row, many in zip(names, rows.itertuples(), several, strict=True)
            ],
            "title": [f"{row.phase}, {row.quantity}, {row.unit}" for row in rows.itertuples()],
            "published": rows["value"],
            "own": rows["own"],
            **{
                f"{who}_{end}": rows[value] + sign * rows[sd]
                for who, value, sd in (("published", "value", "sd"), ("own", "own", "own_sd"))
                for end, sign in (("low", -1), ("high", 1))
            },
        }
    ).drop_duplicates(["title", "name", "published"])
    caption = (
        "Published values (left) and those of this study (right). Bars: one standard deviation up and down, where"
        " one was published."
    )
    return _twins(slug("twins-values", ground), caption, frame)


def _twins(name: str, caption: str, frame: pd.DataFrame) -> list[Figure]:
    """Pages of `twins`: a line of panels for each title with two names or more."""
    groups = [own for _, own in frame.groupby("title", sort=False) if own["name"].nunique() > 1]
    caption += (
        " Both axes go over the same factor, so that equal ratios have equal lengths; the order is the published one."
    )
    pages: list[list[pd.DataFrame]] = []
    left = 0.0
    for own in groups:
        height = twin_height(own)
        if height > left:
            pages.append([])
            left = HIGHEST - 0.4
        pages[-1].append(own)
        left -= height
    found = []
    for number, page in enumerate(pages):
        own_name, text = part(name, caption, number, len(pages))
        alt = (
            f"{count(len(page), 'line')} of two panels, published and of this study; the table beside has the numbers."
        )
        found.append(Figure(own_name, text, alt, twins(page)))
    return found


def twin_height(own: pd.DataFrame) -> float:
    """Inches of a line of `twins`."""
    return 0.5 + 0.125 * len(own)


def law_figure(study: Study, place: Place) -> Figure:
    """Times over sizes with their power laws up to the published times."""
    unit, table = study.plan["published"]["size"], numbers.laws(study, place)
    steps = list(dict.fromkeys(Step(*key) for key in table[["phase", "cache"]].itertuples(index=False, name=None)))
    caption = (
        f"{place.workload}: time against {unit}. Small marks are measurements of this study, lines their power laws,"
        " broken where nothing was measured, dotted with the exponent of the last step; filled marks are published"
        " times."
    )
    alt = f"{count(len(steps), 'panel')}, one an operation; the table of the laws has the numbers."
    titles = {step: numbers.title(study, place, step) for step in steps}
    plot = laws(select(numbers.measurements(study), place), table, titles, unit)
    return Figure(slug("growth", place), caption, alt, plot)


@styled
def ratios(cells: pd.DataFrame, operations: list[dict]) -> Plot:
    """One line per operation (see `order_facts`), one mark per configuration (see `numbers.beside`), and the mean."""
    found = marks(sorted(set(cells["name"])))
    figure, axes = plt.subplots(figsize=(WIDTH, 0.9 + 0.24 * len(operations)), layout="constrained")
    for y, row in enumerate(operations):
        if not math.isnan(row["low"]):
            axes.plot([row["low"], row["high"]], [y, y], color=BLUE, lw=2.2, alpha=0.6, solid_capstyle="butt")
        axes.plot([row["ratio"]] * 2, [y - 0.32, y + 0.32], color=BLUE, lw=1.6)
        for cell in select(cells, Step(row["phase"], row["cache"])).to_dict("records"):
            colour, marker, _ = found[cell["name"]]
            axes.plot(cell["ratio"], y, ls="", marker=marker, ms=4.5, mfc="none", mec=colour, mew=1.2, zorder=3)
    rows(axes, [row["title"] for row in operations])
    axes.axvline(1, color=INK, lw=0.6, zorder=1)
    axes.set_xscale("log")
    value_axis(axes, "time of this study / published time")
    legend(figure, _marks_alone(found), **HOLLOW)
    return figure


@styled
def scatter(cells: pd.DataFrame, titles: dict[str, str]) -> Plot:
    """Median of this study over the published one, s, one panel per phase; `cells`: `numbers.beside` of one cache."""
    found = marks(sorted(set(cells["name"])))
    columns = min(3, len(titles))
    lines = math.ceil(len(titles) / columns)
    side = min((WIDTH - 0.3) / columns, 2.2)
    figure, panels = grid(lines, columns, len(titles), 0.6 + side * lines)
    for axes, (phase, title) in zip(panels, titles.items(), strict=True):
        _scatter_panel(axes, cells[cells["phase"] == phase], found)
        axes.set_title(title, loc="left", fontsize=8)
    figure.supxlabel("published median, s", fontsize=8)
    figure.supylabel("median of this study, s", fontsize=8)
    legend(figure, _marks_alone(found), **HOLLOW)
    return figure


def _scatter_panel(axes: Axes, cells: pd.DataFrame, found: dict[str, tuple]) -> None:
    x, y = cells["published_ns"] / 1e9, cells["median_ns"] / 1e9
    for row in cells.to_dict("records"):
        colour, marker, _ = found[row["name"]]
        published, median, low, high, least, most = (
            row[f"{key}_ns"] / 1e9 for key in ("published", "median", "published_low", "published_high", "min", "max")
        )
        if not math.isnan(low):
            axes.plot([low, high], [median] * 2, color=colour, lw=0.9)
        axes.plot([published] * 2, [least, most], color=colour, lw=0.9)
        axes.plot(published, median, ls="", marker=marker, ms=5, mfc="none", mec=colour, mew=1.3, zorder=3)
    # Both axes over the same factor, around their middles, so that equal ratios lie on lines of slope 1.
    reach = max(1.5, 1.25 * max(math.sqrt(values.max() / values.min()) for values in (x, y)))
    middles = [math.sqrt(values.min() * values.max()) for values in (x, y)]
    limits = [(middle / reach, middle * reach) for middle in middles]
    factor = math.exp(float(np.log(y / x).mean()))
    line = np.array(limits[0])
    axes.plot(line, line * factor, color=GREY, lw=0.8, ls=(0, (3, 2)), zorder=1)
    for which in "xy":
        log_axis(axes, which)
    axes.set(xlim=limits[0], ylim=limits[1], box_aspect=1)


@styled
def laws(times: pd.DataFrame, table: pd.DataFrame, titles: dict[Step, str], unit: str) -> Plot:
    """Seconds over sizes with their power laws up to the published sizes, one panel per operation.

    `times` are the `numbers.measurements` of a place, `table` its `numbers.laws`.
    """
    found = marks(sorted(set(table["label"])))
    lines = math.ceil(len(titles) / 2)
    figure, panels = grid(lines, min(2, len(titles)), len(titles), 0.5 + 2.3 * lines)
    for axes, (step, title) in zip(panels, titles.items(), strict=True):
        published = select(table, step)
        keys = published[list(Configuration._fields)].itertuples(index=False, name=None)
        for configuration in dict.fromkeys(Configuration(*key) for key in keys):
            own, mark = select(times, configuration, step), found[configuration.label]
            size, seconds = own["size"].to_numpy(float), own["wall_ns"].to_numpy(float) / 1e9
            _law(axes, size, seconds, select(published, configuration), mark)
        axes.set(xscale="log", yscale="log")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(LogLocator(numticks=7))
            axis.set_minor_locator(NullLocator())
            axis.set_major_formatter(FuncFormatter(power))
        axes.set_title(title, loc="left")
        grid_lines(axes, "both")
    figure.supxlabel(unit, fontsize=8)
    figure.supylabel("time, s", fontsize=8)
    legend(figure, {label: (colour, marker, "-") for label, (colour, marker, _) in found.items()}, mfc="none", mew=1.2)
    return figure


def _law(axes: Axes, sizes: np.ndarray, seconds: np.ndarray, published: pd.DataFrame, mark: tuple) -> None:
    colour, marker, _ = mark
    axes.plot(sizes, seconds, ls="", marker=marker, ms=3.5, mfc="none", mec=colour, mew=1, zorder=3)
    reach = published["published_size"].max()
    for low, high, style in ((sizes.min(), sizes.max(), "-"), (sizes.max(), reach, (0, (4, 2)))):
        at = np.geomspace(low, high, 40)
        law = series.extrapolate(sizes, seconds, at)
        axes.plot(at, law["time"], color=colour, lw=1.1, ls=style)
        if style != "-":
            axes.fill_between(at, law["low"].astype(float), law["high"].astype(float), color=colour, alpha=0.15, lw=0)
            knee = [numbers.by_last(sizes, seconds, size) for size in at]
            axes.plot(at, knee, color=colour, lw=1.1, ls=(0, (1, 2)))
    points = (published["published_size"], published["published_ns"] / 1e9)
    axes.plot(*points, ls="", marker=marker, ms=7, mfc=colour, mec=INK, mew=0.8, zorder=4)


@styled
def twins(lines: list[pd.DataFrame]) -> Plot:
    """Published values at the left and those of this study at the right, one line of panels per frame.

    Columns: title (one a frame), name, published and own, and of both _low and _high, the ends of a bar, or NaN.
    """
    heights = [twin_height(own) for own in lines]
    size = (WIDTH, 0.25 + sum(heights))
    figure, panels = plt.subplots(
        len(lines), 2, figsize=size, squeeze=False, layout="constrained", height_ratios=heights, sharey="row"
    )
    for line, (own, pair) in enumerate(zip(lines, panels, strict=True)):
        own = own.sort_values("published", kind="stable")
        ends = {who: own[[who, f"{who}_low", f"{who}_high"]] for who in ("published", "own")}
        ends = {who: found.where(found > 0) for who, found in ends.items()}
        reach = 1.25 * max(math.sqrt(found.max().max() / found.min().min()) for found in ends.values())
        for axes, (who, found), colour, told in zip(pair, ends.items(), (GREY, BLUE), TWINS, strict=True):
            low, high = found.min().min(), found.max().max()
            axes.hlines(range(len(own)), found[f"{who}_low"], found[f"{who}_high"], color=colour, lw=1.4)
            axes.plot(found[who], range(len(own)), ls="", marker="o", ms=3.6, color=colour)
            middle = math.sqrt(low * high)
            log_axis(axes, "x")
            axes.set_xlim(middle / reach, middle * reach)
            axes.set_title(own["title"].iloc[0] if who == "published" else "", loc="left")
            if not line:  # above the first panel's own title, which may be as wide as the panel
                space = {"xytext": (0, 22), "xycoords": "axes fraction", "textcoords": "offset points"}
                axes.annotate(told, (0, 1), **space, fontsize=8, fontweight="bold")
        rows(pair[0], list(own["name"]))
        grid_lines(pair[1], "x")
        pair[1].tick_params(axis="y", length=0)
    return figure


TWINS = ("published", "this study")


def _marks_alone(found: dict[str, tuple]) -> dict[str, tuple]:
    return {name: (colour, marker, "") for name, (colour, marker, _) in found.items()}
