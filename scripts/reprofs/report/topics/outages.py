"""Outages: what a client noticed of a lost server, how long healing took, and whether anything was lost."""

from __future__ import annotations

import pandas as pd

from reprofs.data.keys import Load, Setting, select
from reprofs.report import plots
from reprofs.report.display import DASH, Table, count, slug, time
from reprofs.report.plots import BLUE, GREY, Figure, Plot, styled
from reprofs.stats.study import Study

WORDS = {"server-killed": "a server was killed", "link-cut": "its cable was cut"}
TITLES = {"server-killed": "Server killed", "link-cut": "Cable cut"}
TIMES = ["outage_ns", "outage_stall_ns", "outage_longest_ns", "outage_heal_ns"]


def places(study: Study) -> list[tuple[Setting, Load]]:
    """Where a server was lost, in trials that failed too: a file that was lost makes a trial fail."""
    found = ((setting, load) for setting in study.settings for load in study.loads(setting))
    return [place for place in found if len(_outages(study, *place))]


def facts(study: Study) -> dict:
    """What outages showed, in failed trials too.

    Keys: whole (labels of which every file flushed with success was whole afterwards), files and outages (of these,
    summed), fewest (outages of one of them), unseen (the largest share of outages that lose a file with which that many
    show none in one case of twenty: Clopper & Pearson 1934, one-sided 95 %; None without outages); broken (label,
    promised, broken of each of which one was not); untested (contenders of which that is not known); stood (what,
    words, away_ns, and cases: label and mean ns of the longest standstill, the shortest first); errors (label, words,
    round, errors of each that saw one); healed (as stood: mean ns until all copies were there); unhealed (as healed,
    where in some round they were not when nobody looked any more: mean ns until then).
    """
    every = study.phases.dropna(subset="outage_what")
    told = every.dropna(subset="outage_broken").assign(outages=1)
    columns = {"outage_promised": "promised", "outage_broken": "broken", "outages": "outages"}
    sums = told.groupby("label")[list(columns)].sum().astype(int).rename(columns=columns)
    kept = sums[sums["broken"] == 0]
    fewest = int(kept["outages"].min()) if len(kept) else 0
    means = every.groupby(["outage_what", "label"])[TIMES].mean()
    missing = every[every["outage_healed"].eq(False)].set_index(["outage_what", "label"]).index
    stood: list[dict] = []
    healed: list[dict] = []
    unhealed: list[dict] = []
    for what, own in means.groupby("outage_what", sort=False):
        cases = [{"label": label, "ns": ns} for (_, label), ns in own["outage_stall_ns"].dropna().sort_values().items()]
        row = {"what": what, "words": WORDS[str(what)], "cases": cases, "away_ns": own["outage_ns"].mean()}
        stood += [row] if cases else []
        times = own["outage_heal_ns"].dropna().sort_values()
        for found, part in ((healed, times[~times.index.isin(missing)]), (unhealed, times[times.index.isin(missing)])):
            cases = [{"label": label, "ns": ns} for (_, label), ns in part.items()]
            found += [row | {"cases": cases}] if cases else []
    wrong = every[every["outage_failed"] > 0]
    return {
        "whole": list(kept.index),
        "files": int(kept["promised"].sum()),
        "outages": int(kept["outages"].sum()),
        "fewest": fewest,
        "unseen": 1 - 0.05 ** (1 / fewest) if fewest else None,
        "broken": [{"label": label} | row for label, row in sums[sums["broken"] > 0].to_dict("index").items()],
        "untested": sorted(set(study.labels()) - set(sums.index)),
        "stood": sorted(stood, key=lambda row: row["what"], reverse=True),
        "errors": [
            {"label": row.label, "words": WORDS[row.outage_what], "round": row.round, "errors": row.outage_errors}
            for row in wrong.itertuples()
        ],
        "healed": sorted(healed, key=lambda row: row["what"], reverse=True),
        "unhealed": sorted(unhealed, key=lambda row: row["what"], reverse=True),
    }


def table(study: Study, setting: Setting, load: Load) -> Table:
    """What each outage did, one row per phase and file system."""
    rows, shown = [], ""
    own_rows = _outages(study, setting, load).sort_values(["position", "label"], kind="stable")
    for (_, label), own in own_rows.groupby(["position", "label"]):
        title = TITLES[own["outage_what"].iloc[0]]
        away, stall, longest, heal = (own[key] for key in TIMES)
        rows.append(
            {
                "Outage": title if title != shown else "",
                "File system": label,
                "Rounds": len(own),
                "Away": time(away.mean(), 3),
                "Stood still": _range(stall),
                "Longest file": _range(longest),
                "Files": f"{own['outage_promised'].sum():,.0f}",
                "Errors": f"{own['outage_failed'].sum():,.0f}",
                "Broken": f"{own['outage_broken'].sum():,.0f}" if own["outage_broken"].notna().all() else DASH,
                "Healed after": _range(heal) if own["outage_healed"].fillna(True).all() else f"> {_range(heal)}",
            }
        )
        shown = title
    caption = (
        f"Outages of {load}, {setting}; times are means over the rounds, with the least and the largest. Stood still:"
        " the longest time in which the client flushed no file with success, its pause between two files included."
        " Files: flushed with success, summed over rounds; Broken: those of them that a client which mounted anew did"
        " not find whole. Healed after: from the server's return until the file system said that all copies were there"
        " (how it is asked, and how long it waits: docs/methods/networks.md#outages), while the client went on (>: they"
        " were not, in some round, when nobody looked any more); a dash: it keeps one copy."
    )
    return Table(f"tbl-{slug('outages', setting, load)}", caption, rows, ["Outage", "File system"])


def _range(ns: pd.Series) -> str:
    own = ns.dropna()
    if own.empty:
        return DASH
    mean, least, most = (time(ns, 3) for ns in (own.mean(), own.min(), own.max()))
    return mean if least == most else f"{mean} ({least} {DASH} {most})"


def figures(study: Study, setting: Setting, load: Load) -> list[Figure]:
    """The time of every file over the time of the client, around the outage; one figure per outage."""
    found = []
    samples = select(study.samples, setting, load)
    for (phase, cache), own in _outages(study, setting, load).groupby(["phase", "cache"], sort=False):
        first = own[own["round"] == own.groupby("label")["round"].transform("min")]
        files = select(samples, phase=phase, cache=cache)
        files = files[files["trial"].isin(first["trial"]) & files["start_ns"].notna()]
        labels = [label for label in study.contenders(setting) if label in set(files["label"])]
        if not labels:
            continue
        phases = study.plan.workloads[load.workload].phases
        declared = next(part.outage for part in phases if (part.name, part.cache) == (phase, cache))
        caption = (
            f"{study.title(load.workload, phase, cache)}, {setting}, first round: the time of every file that was"
            " flushed with success, over the time at which the client began it. Shaded: the server was away."
        )
        alt = f"{count(len(labels), 'panel')}, one a file system; the table has the longest times."
        away = (declared.after_s, declared.for_s) if declared else (0, 0)
        found.append(Figure(slug("outage", phase, setting, load), caption, alt, over_time(files, labels, away)))
    return found


@styled
def over_time(files: pd.DataFrame, labels: list[str], away: tuple[float, float]) -> Plot:
    """Seconds of each file over the second of its start, one panel per label; away: begin and length of the outage."""
    plot, panels = plots.column(dict.fromkeys(labels), 0.7)
    for axes, label in zip(panels, labels, strict=True):
        own = files[files["label"] == label]
        axes.axvspan(away[0], sum(away), color=GREY, alpha=0.2, lw=0)
        axes.plot(own["start_ns"] / 1e9, own["wall_ns"] / 1e9, ls="", marker=".", ms=3, color=BLUE)
        plots.log_axis(axes, "y")
        plots.grid_lines(axes)
        axes.set_title(label, loc="left", fontweight="bold")
    plot.supxlabel("time, s", fontsize=8)
    plot.supylabel("time of a file, s", fontsize=8)
    return plot


def _outages(study: Study, setting: Setting, load: Load) -> pd.DataFrame:
    return select(study.phases, setting, load).dropna(subset="outage_what")
