"""The figures of a study: which there are, what draws them, captions, and words for those who cannot see them."""

from functools import partial

import numpy as np
import pandas as pd

from . import figures, published, sections, stats, tables, words
from .dataset import Results, Study
from .words import Item


def catalogue(study: Study, results: Results) -> list[Item]:
    """Every figure that these results allow: settings, stacks, labs; none where nothing completed."""
    items = []
    known = set(tables.settings(results.statistics))
    main, further = tables.main_settings(study), tables.further_settings(study)
    for setting in (setting for setting in main + further if setting in known):
        cells = tables.select(results.statistics, stats.SETTING, setting)
        contenders = cells[cells["role"] != "ceiling"]
        if contenders.empty:
            continue
        order = label_order(results, setting) + sorted(set(cells.loc[cells["role"] == "ceiling", "label"]))
        if contenders["label"].nunique() > 1:
            items += _heatmaps(study, cells, setting, order)
            if contenders["label"].nunique() > 2:
                items.append(_ranks(results, setting))
        workloads = sorted(set(cells[["workload", "scale"]].itertuples(index=False, name=None)))
        for workload in workloads if setting in main else []:
            items += _intervals(study, cells, setting, workload, order)
            items += _latencies(study, setting, workload, order)
            items += sections.items(study, setting, workload)
        items += sections.scaling_items(study, setting) if setting in main else []
    for place in tables.places(study):
        items += _stacks(study, results, place)
        items += _disks(study, results, place)
    items += [_agreement(study, results, pair) for pair in tables.lab_pairs(results)]
    return items + published.items(study)


def label_order(results: Results, setting: tuple) -> list[str]:
    """Contenders of a setting, best mean rank first; unranked ones (no operation that all completed) by name."""
    chosen = tables.select(results.ranks, stats.SETTING, setting)
    return list(chosen.sort_values(["mean_rank", "label"])["label"])


MANY = 9  # contenders: more do not fit beside each other
ROWS = 36  # operations: more do not fit below each other


def _heatmaps(study: Study, cells: pd.DataFrame, setting: tuple, order: list[str]) -> list[Item]:
    """Heat maps of as many workloads as fit on a page; with many contenders one a workload, contenders downwards."""
    cost = stats.relative(cells)
    ceilings = sorted(set(cells.loc[cells["role"] == "ceiling", "label"]))
    many = len(order) - len(ceilings) > MANY
    keys = ["workload", "scale"]
    sizes = cost.drop_duplicates(stats.OPERATION).groupby(keys).size()
    groups: list[list[tuple]] = []
    room = 0
    for workload, size in sizes.items():
        if many or not groups or size > room:
            groups.append([])
            room = ROWS
        groups[-1].append(workload)
        room -= size
    items = []
    for group in groups:
        here = pd.concat([tables.select(cost, keys, workload) for workload in group])
        contenders = here[here["role"] != "ceiling"]
        if contenders.empty:
            continue
        parts = len(groups) > 1
        what = words.listing(f"{name} ({scale})" for name, scale in group) + ", " if parts else ""
        caption = (
            f"Time of each operation relative to the best contender ({what}{tables.setting_name(setting)}): 1 is the"
            " best, 2 takes twice as long. Geometric means over rounds; the colour scale is logarithmic,"
            f" {'rows' if many else 'columns'} are sorted by mean rank, a dash means no result."
        )
        if ceilings:
            bound = words.verb(len(ceilings), "is a ceiling, not a contender", "are ceilings, not contenders")
            caption += f" {words.listing(ceilings)} {bound}."
        worst = contenders.sort_values("cost").iloc[-1]
        alt = (
            f"Heat map of {words.count(here[stats.OPERATION].drop_duplicates().shape[0], 'operation')} by"
            f" {words.count(here['label'].nunique(), 'file system')}."
            f" The largest cost is {words.digits(worst['cost'], 3)},"
            f" {worst['label']} in {study.title(worst['workload'], worst['phase'], worst['cache'])}."
        )
        name = tables.slug("heatmap", *setting, *(group[0] if parts else ()))
        shown = here.assign(row=here["label"], value=here["cost"], shown=here["role"] != "ceiling")
        present = [label for label in order if label in set(here["label"])]
        draw = partial(figures.grid, shown, present, _titles(study))
        if not many:
            draw = partial(figures.heatmap, here, present, _titles(study))
        items.append(Item("heatmap", name, setting, None, caption, alt, draw))
    return items


def _ranks(results: Results, setting: tuple) -> Item:
    chosen = tables.select(results.ranks, stats.SETTING, setting)
    pairs = tables.select(results.nemenyi, stats.SETTING, setting)
    blocks = int(chosen["blocks"].iloc[0])
    caption = f"Mean rank of each contender over {words.count(blocks, 'operation')}; 1 would be always the fastest."
    if len(pairs):
        difference = words.digits(chosen["critical_difference"].iloc[0], 3)
        caption += (
            f" A bar joins those that Nemenyi's test cannot tell apart at 5 %; the critical difference is {difference}."
        )
    else:
        caption += " There is no test of the ranks: it needs three contenders and two operations."
    alt = "Mean ranks: " + words.listing(
        f"{row.label} {words.digits(row.mean_rank, 3)}" for row in chosen.dropna(subset="mean_rank").itertuples()
    )
    name = tables.slug("ranks", *setting)
    return Item("ranks", name, setting, None, caption, alt + ".", partial(figures.ranks, chosen, pairs))


def _pages(frame: pd.DataFrame, rows: int) -> list[pd.DataFrame]:
    """The frame in parts whose operations fit on a page together."""
    operations = figures.operations(frame)
    size = figures.panels_on_a_page(len(operations), rows)
    keys = pd.MultiIndex.from_frame(frame[stats.OPERATION])
    return [frame[keys.isin(operations[start : start + size])] for start in range(0, len(operations), size)]


def _paged(name: str, caption: str, number: int, pages: int) -> tuple[str, str]:
    """Name and caption of one of several pages of a figure."""
    if pages == 1:
        return name, caption
    return f"{name}-{number + 1}", f"{caption} Part {number + 1} of {pages}."


def _intervals(study: Study, cells: pd.DataFrame, setting: tuple, workload: tuple, order: list[str]) -> list[Item]:
    keys = ["workload", "scale"]
    table = tables.select(cells, keys, workload)
    rounds = tables.select(stats.measured(study.phases), [*stats.SETTING, *keys], (*setting, *workload))
    ceilings = sorted(set(table.loc[table["role"] == "ceiling", "label"]))
    caption = (
        f"{workload[0]} ({workload[1]}): time of each operation ({tables.setting_name(setting)}). A ring is one round;"
        f" the bar is the interval, its mark the mean or median. {tables.interval_note(table)}"
        f" {tables.spread_note(setting[:1])}"
    )
    if ceilings:
        caption += f" The broken line is the ceiling, {words.listing(ceilings)}."
    labels = [label for label in order if label not in ceilings]
    items = []
    pages = _pages(table, len(labels))
    for number, page in enumerate(pages):
        operations = page[stats.OPERATION].drop_duplicates().shape[0]
        alt = (
            f"{words.count(operations, 'panel')}, one an operation, with the times of {words.listing(labels)}; the"
            " appendix has the numbers."
        )
        name, text = _paged(tables.slug("intervals", *setting, *workload), caption, number, len(pages))
        draw = partial(figures.intervals, page, rounds, order, _titles(study))
        items.append(Item("intervals", name, setting, workload, text, alt, draw))
    return items


def _latencies(study: Study, setting: tuple, workload: tuple, order: list[str]) -> list[Item]:
    keys = [*stats.SETTING, "workload", "scale"]
    latency = tables.select(stats.measured(study.latency), keys, (*setting, *workload))
    if latency.empty:
        return []
    places = tables.select(stats.measured(study.phases), keys, (*setting, *workload))
    places = places.drop_duplicates(["phase", "cache"])[["phase", "cache", "position"]]
    latency = latency.merge(places, on=["phase", "cache"])
    caption = (
        f"{workload[0]} ({workload[1]}): latency of single operations, all rounds together, logarithmic axis"
        f" ({tables.setting_name(setting)}). The height of a hump is how many operations took so long, scaled to its"
        " peak; the long tick is the median, the short one the 99th percentile."
    )
    items = []
    pages = _pages(latency, len(set(order) & set(latency["label"])))
    for number, page in enumerate(pages):
        tail = stats.latency_quantiles(page, (0.5, 0.99)).assign(tail=lambda frame: frame["q0.99"] / frame["q0.5"])
        worst = tail.sort_values(["tail", "label"]).iloc[-1]
        alt = (
            f"Histograms of latency. The longest tail is that of {worst['label']} in"
            f" {study.title(workload[0], worst['phase'], worst['cache'])}: median {words.time(worst['q0.5'], 3)}, 99th"
            f" percentile {words.time(worst['q0.99'], 3)}."
        )
        name, text = _paged(tables.slug("latencies", *setting, *workload), caption, number, len(pages))
        draw = partial(figures.latencies, page, order, _titles(study))
        items.append(Item("latencies", name, setting, workload, text, alt, draw))
    return items


def _stacks(study: Study, results: Results, place: tuple) -> list[Item]:
    """For each file system a heat map of stacks by operations, relative to the base or the healthy stack."""
    lab, profile, workload, scale = place
    chosen = tables.select(results.stacks, tables.PLACE, place).query("role != 'ceiling'")
    stacks = list(study.stacks())
    items = []
    for label, every in chosen.groupby("label"):
        # Where there is a common base, stacks with a fault are beside it too; their own comparison is a table.
        relation = "base" if (every["relation"] == "base").any() else "healthy"
        here = every[every["relation"] == relation]
        rows = [name for name in stacks if name in set(here["stack"])]
        bases = words.listing(dict.fromkeys(here["reference"]), "or")
        shown = here.assign(row=here["stack"], value=here["ratio"], shown=(here["low"] > 1) | (here["high"] < 1))
        shown = shown[["row", "value", "shown", "workload", "scale", "phase", "cache", "position"]]
        caption = (
            f"{label}, {workload} ({scale}): time on each stack relative to {bases} (lab {lab}, device profile"
            f" {profile}). Below 1 is faster; the darker, the slower, on a logarithmic scale. A cell without colour"
            f" has an interval that holds 1: no difference is shown. A dash means no result."
        )
        worst = here.sort_values("ratio").iloc[-1]
        alt = (
            f"Heat map of {words.count(len(rows), 'stack')} by"
            f" {words.count(len(figures.operations(shown)), 'operation')} for {label}. The largest ratio is"
            f" {words.digits(worst['ratio'], 3)}, {worst['stack']} in"
            f" {study.title(workload, worst['phase'], worst['cache'])}."
        )
        name = tables.slug("stacks", *place, label)
        draw = partial(figures.grid, shown, rows, _titles(study))
        items.append(Item("stacks", name, (lab, profile), (workload, scale), caption, alt, draw))
    return items


def _disks(study: Study, results: Results, place: tuple) -> list[Item]:
    """For each file system that has results on a family of stacks with several numbers of disks: times against them."""
    entries = study.stacks()
    cells = tables.select(results.statistics, tables.PLACE, place).query("role != 'ceiling'")
    items = []
    for label, own in cells.groupby("label"):
        families: dict[str, list[str]] = {}
        for name in (name for name in entries if name in set(own["stack"])):
            if entries[name]["state"] == "healthy":
                families.setdefault(entries[name]["family"], []).append(name)
        families = {key: sorted(names, key=lambda name: entries[name]["disks"]) for key, names in families.items()}
        if max(map(len, families.values()), default=0) < 2:
            continue
        families = {key: names for key, names in families.items() if len(names) > 1 or key == "single"}
        native = [key for key, names in families.items() if entries[names[0]]["filesystem"]]
        # With many lines those of the file system's own stacks have a figure of their own.
        groups = {"": families}
        if len(families) > 7 and native:
            other = {key: names for key, names in families.items() if key not in native}
            groups = {"": other, "native": {key: families[key] for key in ("single", *native) if key in families}}
        items += [_disks_figure(study, place, label, own, group, part) for part, group in groups.items()]
    return items


def _disks_figure(study: Study, place: tuple, label: str, own: pd.DataFrame, families: dict, part: str) -> Item:
    lab, profile, workload, scale = place
    entries = study.stacks()
    counts = {name: entries[name]["disks"] for names in families.values() for name in names}
    table = own[own["stack"].isin(counts)]
    caption = (
        f"{label}, {workload} ({scale}): time against the number of disks (lab {lab}, device profile {profile}). A"
        f" line is a level; bars are intervals. {tables.interval_note(table)}"
    )
    if "single" in families:
        caption += " The line across is the single device."
    alt = (
        f"{words.count(len(figures.operations(table)), 'panel')}, one an operation: times of {label} on"
        f" {words.listing(families)} with {words.listing(sorted(set(counts.values())))} disks; the file"
        " statistics.parquet has the numbers."
    )
    name = tables.slug("disks", *place, label, part) if part else tables.slug("disks", *place, label)
    draw = partial(figures.disks, table, families, counts, _titles(study))
    return Item("disks", name, (lab, profile), (workload, scale), caption, alt, draw)


def _agreement(study: Study, results: Results, pair: tuple) -> Item:
    a, b, stack, profile = pair
    cells = tables.select(results.statistics, ["stack", "profile"], (stack, profile))
    keys = [*stats.OPERATION, "label"]
    wide = cells.pivot(index=keys, columns="lab", values="geometric_mean_ns")[[a, b]].dropna()
    logs = np.log(wide)
    table = (
        np.exp(logs - logs.groupby(stats.OPERATION).transform("mean")).rename(columns={a: "x", b: "y"}).reset_index()
    )
    table = table.merge(cells[[*stats.OPERATION, "position"]].drop_duplicates(stats.OPERATION), on=stats.OPERATION)
    caption = (
        f"Relative cost in the labs {a} and {b}: time over the geometric mean of all file systems of the operation in"
        " the same lab, so that neither axis has a unit of time. On the broken line both labs agree. Ceilings take"
        " part."
    )
    worst = table.assign(apart=np.abs(np.log(table["y"] / table["x"]))).sort_values("apart").iloc[-1]
    alt = (
        f"{words.count(len(figures.operations(table)), 'panel')}, one an operation. The point farthest from the line is"
        f" {worst['label']} in {study.title(worst['workload'], worst['phase'], worst['cache'])}:"
        f" {words.digits(worst['x'], 3)} in {a}, {words.digits(worst['y'], 3)} in {b}."
    )
    name = tables.slug("agreement", *pair)
    return Item("agreement", name, pair, None, caption, alt, partial(figures.agreement, table, (a, b), _titles(study)))


def _titles(study: Study) -> dict:
    """(workload, phase, cache) -> words, for every phase measured."""
    keys = study.phases[["workload", "phase", "cache"]].drop_duplicates().itertuples(index=False, name=None)
    return {key: study.title(*key) for key in keys}
