"""The figures of a study: which there are, what draws them, captions, and words for those who cannot see them."""

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd

from . import figures, stats, tables, words
from .dataset import Results, Study


@dataclass(frozen=True)
class Item:
    """One figure. `kind` is heatmap, ranks, intervals or latencies; `workload` (name, scale), None if it is of all."""

    kind: str
    name: str
    setting: tuple
    workload: tuple | None
    caption: str
    alt: str
    draw: Callable

    def picture(self, folder: str = "../figures") -> words.Picture:
        """The figure as a notebook cell shows it; `folder` as seen from the executed notebook."""
        return words.Picture(f"fig-{self.name}", f"{folder}/{self.name}.svg", self.caption, self.alt)


def catalogue(study: Study, results: Results) -> list[Item]:
    """Every figure that these results allow, setting by setting; none for a setting in which nothing completed."""
    items = []
    for setting in tables.settings(results.statistics):
        cells = tables.select(results.statistics, stats.SETTING, setting)
        contenders = cells[cells["role"] != "ceiling"]
        if contenders.empty:
            continue
        order = label_order(results, setting) + sorted(set(cells.loc[cells["role"] == "ceiling", "label"]))
        if contenders["label"].nunique() > 1:
            items.append(_heatmap(study, cells, setting, order))
            items.append(_ranks(results, setting))
        for workload in sorted(set(cells[["workload", "scale"]].itertuples(index=False, name=None))):
            items.append(_intervals(study, cells, setting, workload, order))
            items += _latencies(study, setting, workload, order)
    return items


def label_order(results: Results, setting: tuple) -> list[str]:
    """Contenders of a setting, best mean rank first; unranked ones (no operation that all completed) by name."""
    chosen = tables.select(results.ranks, stats.SETTING, setting)
    return list(chosen.sort_values(["mean_rank", "label"])["label"])


def _heatmap(study: Study, cells: pd.DataFrame, setting: tuple, order: list[str]) -> Item:
    cost = stats.relative(cells)
    ceilings = sorted(set(cells.loc[cells["role"] == "ceiling", "label"]))
    caption = (
        f"Time of each operation relative to the best contender ({tables.setting_name(setting)}): 1 is the best, 2"
        " takes twice as long. Geometric means over rounds; the colour scale is logarithmic, columns are sorted by"
        " mean rank, a dash means no result."
    )
    if ceilings:
        bound = words.verb(len(ceilings), "is a ceiling, not a contender", "are ceilings, not contenders")
        caption += f" {words.listing(ceilings)} {bound}."
    worst = cost[cost["role"] != "ceiling"].sort_values("cost").iloc[-1]
    alt = (
        f"Heat map of {words.count(cells[stats.OPERATION].drop_duplicates().shape[0], 'operation')} by"
        f" {words.count(len(order), 'file system')}. The largest cost is {words.digits(worst['cost'], 3)},"
        f" {worst['label']} in {study.title(worst['workload'], worst['phase'], worst['cache'])}."
    )
    name = tables.slug("heatmap", *setting)
    return Item("heatmap", name, setting, None, caption, alt, lambda: figures.heatmap(cost, order, _titles(study)))


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
    return Item(
        "ranks", tables.slug("ranks", *setting), setting, None, caption, alt + ".", lambda: figures.ranks(chosen, pairs)
    )


def _intervals(study: Study, cells: pd.DataFrame, setting: tuple, workload: tuple, order: list[str]) -> Item:
    keys = ["workload", "scale"]
    table = tables.select(cells, keys, workload)
    rounds = tables.select(stats.measured(study.phases), [*stats.SETTING, *keys], (*setting, *workload))
    ceilings = sorted(set(table.loc[table["role"] == "ceiling", "label"]))
    caption = (
        f"{workload[0]} ({workload[1]}): time of each operation. A ring is one round; the bar is the interval, its mark"
        f" the mean or median. {tables.interval_note(table)} {tables.spread_note(study)}"
    )
    if ceilings:
        caption += f" The broken line is the ceiling, {words.listing(ceilings)}."
    operations = table[stats.OPERATION].drop_duplicates().shape[0]
    labels = [label for label in order if label not in ceilings]
    alt = (
        f"{words.count(operations, 'panel')}, one an operation, with the times of {words.listing(labels)}; the appendix"
        " has the numbers."
    )
    name = tables.slug("intervals", *setting, *workload)
    draw = lambda: figures.intervals(table, rounds, order, _titles(study))  # noqa: E731
    return Item("intervals", name, setting, workload, caption, alt, draw)


def _latencies(study: Study, setting: tuple, workload: tuple, order: list[str]) -> list[Item]:
    keys = [*stats.SETTING, "workload", "scale"]
    latency = tables.select(stats.measured(study.latency), keys, (*setting, *workload))
    if latency.empty:
        return []
    places = tables.select(stats.measured(study.phases), keys, (*setting, *workload))
    places = places.drop_duplicates(["phase", "cache"])[["phase", "cache", "position"]]
    latency = latency.merge(places, on=["phase", "cache"])
    caption = (
        f"{workload[0]} ({workload[1]}): latency of single operations, all rounds together, logarithmic axis. The"
        " height of a hump is how many operations took so long, scaled to its peak; the long tick is the median, the"
        " short one the 99th percentile."
    )
    tail = stats.latency_quantiles(latency, (0.5, 0.99)).assign(tail=lambda frame: frame["q0.99"] / frame["q0.5"])
    worst = tail.sort_values(["tail", "label"]).iloc[-1]
    alt = (
        f"Histograms of latency. The longest tail is that of {worst['label']} in"
        f" {study.title(workload[0], worst['phase'], worst['cache'])}: median {words.time(worst['q0.5'], 3)}, 99th"
        f" percentile {words.time(worst['q0.99'], 3)}."
    )
    name = tables.slug("latencies", *setting, *workload)
    return [
        Item(
            "latencies",
            name,
            setting,
            workload,
            caption,
            alt,
            lambda: figures.latencies(latency, order, _titles(study)),
        )
    ]


def _titles(study: Study) -> dict:
    """(workload, phase, cache) -> words, for every phase measured."""
    keys = study.phases[["workload", "phase", "cache"]].drop_duplicates().itertuples(index=False, name=None)
    return {key: study.title(*key) for key in keys}
