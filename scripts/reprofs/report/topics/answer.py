"""The answer first: the question of the study, what each workload costs as a whole, and what would change that."""

from __future__ import annotations

import textwrap

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.patches import Patch

from reprofs.data.keys import Load, Setting, distinct, select
from reprofs.plan.cell import Cell, lab_parts, taken_apart
from reprofs.plan.workload import without_size
from reprofs.report import plots, when
from reprofs.report.display import DASH, Table, count, known, listing, ratio, size, slug, time, unit_of
from reprofs.report.marks import strong
from reprofs.report.plots import BLUE, GREY, INK, ORANGE, WIDTH, Figure, Plot, styled
from reprofs.report.topics import threats
from reprofs.report.topics.operations import SLOWER, share
from reprofs.stats import recorded, trust
from reprofs.stats.cells import measured
from reprofs.stats.compare import versus
from reprofs.stats.study import Study

# Operations with colours of their own in a bar of a total; the rest is together. Dark and light take turns, for grey.
COLOURS = [BLUE, "#f0c419", "#009e73", "#e8b4d0", ORANGE, "#9bd3f5"]


def question(study: Study) -> str:
    """The question of the study, as its file asks it."""
    return study.plan.study.question


def settings(study: Study) -> list[Setting]:
    """The settings whose file systems are compared, if they have a result and times are one."""
    ranked = distinct(study.results.ranks, Setting) if when.timed(study.plan) else []
    return [setting for setting in study.settings if setting in ranked]


def unpromised(study: Study) -> list[dict]:
    """What does not keep what fsync promises, and is not ranked therefore: label, why."""
    found: dict[str, str] = {}
    rows = select(study.trials, role="no-promise").sort_values("label")
    for row in rows.drop_duplicates(["label", "stack", "profile"]).to_dict("records"):
        cell = Cell.model_construct(**taken_apart(row))
        own = study.plan.filesystems[cell.filesystem].variants[cell.variant].promise
        stack = study.plan.stacks.get(cell.stack)
        place = f"stack {cell.stack}" if stack and stack.why else cell.profile
        found.setdefault(row["label"] if own else f"everything on {place}", study.plan.unkept(cell))
    return [{"label": label, "why": why} for label, why in found.items()]


def completed(study: Study) -> bool:
    """Whether a contender completed a trial."""
    return bool((select(study.trials, role="contender")["status"] == "ok").any())


def costs(study: Study, setting: Setting) -> list[dict]:
    """What each workload as a whole costs in a setting, in the order of the study's workloads.

    Keys: load, title, scope (words), best (label), time, low, high (ns, of all operations: geometric mean with its 95 %
    interval), verdict, level (labels: see stats.compare.winners), rounds, single (of one round), next (label), ratio,
    next_low, next_high (None and NaN without another contender), dearest (label and ratio to the best, or None),
    missing (contenders that completed no round of it), small (whether it leads by too little, see `trust.small`).
    """
    found = []
    planned = select(study.trials, setting, role="contender")
    for load in _loads(study, setting):
        (row,) = select(study.results.cheapest, setting, load).itertuples()
        own = select(study.results.totals, setting, load).query("role == 'contender'").sort_values("geometric_mean_ns")
        last = own.iloc[-1]
        found.append(
            {"load": load, "title": study.plan.workloads[row.workload].title, "best": row.best}
            | {"scope": scope(study, setting, load), "time": row.geometric_mean_ns, "low": row.low_ns}
            | {"high": row.high_ns, "verdict": row.verdict, "level": list(row.level), "rounds": row.rounds}
            | {"single": row.n == 1}
            | {"next": row.runner_up, "ratio": row.ratio, "next_low": row.low, "next_high": row.high}
            | {"dearest": (last["label"], last["geometric_mean_ns"] / row.geometric_mean_ns) if len(own) > 2 else None}
            | {"missing": sorted(set(select(planned, load)["label"]) - set(own["label"]))}
            | {"small": row.verdict == "fastest" and trust.small(study, setting.lab, row.ratio)}
        )
    return found


def _loads(study: Study, setting: Setting) -> list[Load]:
    """The workloads that have a total in a setting. A device by itself has none to compare."""
    found = distinct(select(study.results.cheapest, setting), Load)
    return [load for load in found if not study.plan.workloads[load.workload].raw]


def without_total(study: Study, setting: Setting) -> list[dict]:
    """The other workloads of a setting: title, and why it has no total (None where no contender completed it)."""
    known, found = _loads(study, setting), []
    for load in distinct(select(study.trials, setting, role="contender"), Load):
        entry = study.plan.workloads[load.workload]
        if load in known or entry.raw:
            continue
        own = select(measured(study.phases), setting, load, role="contender")
        # Of any setting: what has no sum in one has none in another.
        kinds = select(measured(study.phases), load)["part"]
        if recorded.foreign(study.plan, own).any():
            why = "its cold calls have no verdict on a rotating disk"
        elif kinds.eq("at-once").any():
            why = "parts of it run at the same time"
        else:
            why = "a command repeats what is timed"
        found.append({"title": entry.title, "why": why if len(own) else None})
    return found


def scope(study: Study, setting: Setting, load: Load) -> str:
    """Words on how much a workload did and in how large a file system."""
    entry = study.plan.workloads[load.workload]
    key = entry.size or "files"
    number, noun = entry.parameters.get(key), key.replace("_", " ")
    parts = [count(number, noun.removesuffix("s"), noun)] if isinstance(number, int) else []
    parts = [words for words in parts if words not in entry.title]  # workload@N has its size in the title
    content = select(study.phases, setting, load, status="ok")["bytes"].max()
    parts += [f"up to {size(content)} of content an operation"] if known(content) and content else []
    room = select(study.trials, setting, load, status="ok")["mounted_total_bytes"].dropna()
    parts += [f"file systems of {size(room.median())}"] if len(room) else []
    return ", ".join(parts)


def where(study: Study, setting: Setting) -> str:
    """Words on what all of that ran on: device profile, stack, lab, processor, scale, rounds."""
    place = lab_parts(setting.lab)
    own = [
        f"processor {place.processor}" if place.processor else "",
        f"kernel {place.kernel}" if place.kernel else "",
        f"memory {place.memory_mib} MiB" if place.memory_mib else "",
    ]
    scales = listing(dict.fromkeys(load.scale for load in study.loads(setting)))
    parts = [f"device profile {setting.profile}", f"stack {setting.stack}", f"lab {place.lab}", *filter(None, own)]
    rounds = select(study.trials, setting).groupby(["label", "workload", "scale"])["round"].nunique()
    least, most = rounds.min(), rounds.max()
    return ", ".join([*parts, f"scale {scales}", f"{least} to {most} rounds" if least < most else count(most, "round")])


def wins(study: Study, setting: Setting) -> dict:
    """How the operations of a setting end.

    Keys: operations, fastest (label, number; most first), equivalent, undecided, alone (numbers), single (whether no
    operation has two rounds), detectable (median over the operations of the smallest ratio that these rounds would have
    shown, less 1; None where not known).
    """
    chosen = select(study.results.winners, setting)
    won = chosen.loc[chosen["verdict"] == "fastest", "best"].value_counts()
    detectable = chosen["detectable"].dropna()
    return {
        "operations": len(chosen),
        "fastest": sorted(won.items(), key=lambda pair: (-pair[1], pair[0])),
        **{verdict: int((chosen["verdict"] == verdict).sum()) for verdict in ("equivalent", "undecided", "alone")},
        "single": bool((chosen["n"] == 1).all()),
        "detectable": detectable.median() - 1 if len(detectable) else None,
    }


def meanings(study: Study) -> list[str]:
    """What the clocks behind the answer mean, in the labs' own words."""
    return threats.meanings(study, sorted({setting.lab for setting in settings(study)}))


def carried(study: Study) -> list[dict]:
    """How far what is fastest in the exact lab was found to be so on a real machine.

    Keys: unmeasured (see `trust.unmeasured`; empty where it was measured), order (`processor.Order`, else None),
    filesystems and profiles (of the study, that were no part of that).
    """
    groups: dict[str, list[Setting]] = {}
    for setting in settings(study):
        told = costs(study, setting)
        if trust.processor(study, setting.lab) and any(one["verdict"] == "fastest" for one in told):
            labels = select(study.trials, setting, role="contender")["label"].unique()
            groups.setdefault(trust.unmeasured(study, setting.lab, labels), []).append(setting)
    found = []
    for unmeasured, places in sorted(groups.items()):
        known = None if unmeasured else trust.known(study, places[0].lab)
        one: dict = {"unmeasured": unmeasured, "order": known.order if known else None}
        if known:
            rows = pd.concat([select(study.trials, setting, role="contender") for setting in places])
            for key, column in (("filesystems", "filesystem"), ("profiles", "profile")):
                one[key] = sorted(set(rows[column]) - set(getattr(known.order, key)))
        found.append(one)
    return found


def weighted(study: Study) -> list[dict]:
    """What the processor's times on a real machine would make of the leads in the exact lab, see `trust.weighted`.

    Keys: title (of the workload), best, next, lead (a share) of the answer, and own: the same of those totals.
    """
    found = []
    for setting in settings(study):
        for one in costs(study, setting):
            row = trust.weighted(study, setting, one["load"]) if one["verdict"] != "alone" else None
            if row is not None:
                own = {"best": row["best"], "next": row["runner_up"], "lead": row["ratio"] - 1}
                where = study.differing(setting)
                title = one["title"] + (f" ({where})" if where else "")
                found.append(
                    {"title": title, "best": one["best"], "next": one["next"], "lead": one["ratio"] - 1, "own": own}
                )
    return found


# ---- totals --------------------------------------------------------------------------------------------------------


def figures(study: Study, setting: Setting) -> list[Figure]:
    """What each workload costs as a whole, a bar a contender, and which operations that goes to."""
    totals = select(study.results.totals, setting)
    found: list[Figure] = []
    pages: list[list[Load]] = []
    room = 0.0
    for load in _loads(study, setting):
        height = _height(len(select(totals, load)))
        if not pages or height > room:
            pages.append([])
            room = plots.HIGHEST
        pages[-1].append(load)
        room -= height
    for number, loads in enumerate(pages):
        here = pd.concat([select(totals, load) for load in loads])
        contenders = here[here["role"] == "contender"]
        caption = f"What all operations of a workload cost together ({setting}). A bar is as long as the "
        if (here["n"] == 1).all():
            caption += "time of the one round, its parts are the shares of the operations, the number is the ratio to"
            caption += " the least. One round shows no difference."
        else:
            caption += "geometric mean of the rounds, its parts are the shares of the operations, the line at its end"
            caption += " is the 95 % interval. The number is the ratio to the cheapest, paired by round, with its 95 %"
            caption += " interval. Bold: the cheapest, and those not shown to be dearer by"
            caption += f" {share(study.margins['win'])} or more, by tests corrected over all totals."
        bounds, left = study.bounds(setting), study.unpromised(setting)
        below = ["an upper bound"] if bounds else []
        below += [f"{listing(left)}, without what fsync promises"] if left else []
        caption += f" Below a gap, no contender: {listing(below)}." if len(contenders) < len(here) else ""
        worst = contenders.sort_values("geometric_mean_ns").iloc[-1]
        alt = (
            f"{count(len(loads), 'panel')} of stacked bars. The longest is {worst['label']} in {worst['workload']},"
            f" {time(worst['geometric_mean_ns'], 3)}."
        )
        name, text = plots.part(slug("totals", setting), caption, number, len(pages))
        found.append(Figure(name, text, alt, _bars(study, setting, loads)))
    return found


def _height(bars: int) -> float:
    """Inches of a panel with so many bars, its legend included."""
    return 1.15 + 0.19 * bars


@styled
def _bars(study: Study, setting: Setting, loads: list[Load]) -> Plot:
    bars = [len(select(study.results.totals, setting, load)) for load in loads]
    size = (WIDTH, sum(map(_height, bars)))
    # The ratios are those of the panels without their legends, so that all bars have the same height.
    figure, grid = plt.subplots(len(loads), 1, figsize=size, squeeze=False, height_ratios=bars, layout="constrained")
    for axes, load in zip(grid.flat, loads, strict=True):
        _panel(axes, study, setting, load)
    return figure


def _panel(axes, study: Study, setting: Setting, load: Load) -> None:
    totals = select(study.results.totals, setting, load)
    totals = totals.assign(bound=totals["role"] != "contender").sort_values(["bound", "geometric_mean_ns", "label"])
    (best,) = select(study.results.cheapest, setting, load).itertuples()
    ratios = versus(select(study.results.rivals, setting, load, contenders=True), best.best).set_index("other")
    parts = shares(study, setting, load)
    unit, scale = unit_of(best.geometric_mean_ns)
    coloured = list(parts.mean().sort_values(ascending=False, kind="stable").index[: len(COLOURS)])
    colours = {key: COLOURS[number] for number, key in enumerate(key for key in parts if key in coloured)}
    y, reach = np.arange(len(totals)) + 0.5 * totals["bound"].to_numpy(), totals["geometric_mean_ns"].max() / scale
    right = reach
    for at, row in zip(y, totals.itertuples(), strict=True):
        end = _bar(axes, at, row.geometric_mean_ns / scale, parts.loc[row.label], colours)
        if known(row.low_ns):
            # The interval of two rounds can be many times as wide as they are apart.
            ends = [max(row.low_ns / scale, 0), min(row.high_ns / scale, 1.15 * reach)]
            axes.plot(ends, [at, at], color=INK, lw=1.1, solid_capstyle="butt")
            end = max(end, ends[1])
        if told := _told(row, best, ratios):
            axes.text(end + 0.01 * reach, at, told, va="center")
            right = max(right, end + 0.016 * len(told) * reach)  # as wide as the text is
    axes.set_yticks(y, totals["label"])
    for text, label in zip(axes.get_yticklabels(), totals["label"], strict=True):
        text.set_fontweight("bold" if best.n > 1 and label in (best.best, *best.level) else "normal")
    axes.set(ylim=(y[-1] + 0.5, -0.5), xlim=(0, max(right, 1.1 * reach)), xlabel=unit)
    axes.tick_params(axis="y", length=0)
    plots.grid_lines(axes, "x")
    titles = (textwrap.shorten(study.title(load.workload, *key), 40, placeholder=" …") for key in colours)
    handles = [Patch(color=colour, label=told) for colour, told in zip(colours.values(), titles, strict=True)]
    if len(parts.columns) > len(colours):
        rest = len(parts.columns) - len(colours)
        handles.append(Patch(color=GREY, label=count(rest, "other operation")))
    columns = _columns([str(one.get_label()) for one in handles])
    style = {"loc": "lower left", "bbox_to_anchor": (0, 1), "frameon": False, "handlelength": 1, "fontsize": 8}
    legend = axes.legend(handles=handles, title=str(load), ncols=columns, alignment="left", borderaxespad=0.2, **style)
    legend.get_title().set_fontweight("bold")


def _bar(axes, at: float, length: float, own: pd.Series, colours: dict) -> float:
    """Draws a total as the parts that have a colour, in their order, and all others; returns where it ends."""
    start, others = 0.0, own[[key for key in own.index if key not in colours]].sum()
    for share_of, colour in [*((own[key], colour) for key, colour in colours.items()), (others, GREY)]:
        axes.barh(at, length * share_of, 0.72, start, color=colour, lw=0)
        start += length * share_of
    return length


def _told(row, best, ratios: pd.DataFrame) -> str:
    """What stands behind the bar of a total."""
    if row.bound:
        return SLOWER if row.role == "ceiling" and row.geometric_mean_ns > best.geometric_mean_ns else ""
    if row.label in ratios.index and known(ratios.loc[row.label, "ratio"]):
        pair = ratios.loc[row.label]
        return ratio(pair["ratio"], pair["low"], pair["high"])
    return "1" if row.label == best.best else DASH


def _columns(labels: list[str]) -> int:
    """How many columns of a legend, filled one after the other and as even as they can be, fit side by side."""
    width = sum(max(map(len, own)) for own in np.array_split(labels, 3) if len(own))
    return 3 if width <= 84 else 2  # characters; else the bars would have to make room


def shares(study: Study, setting: Setting, load: Load) -> pd.DataFrame:
    """Share of each operation (columns: phase and cache, in their order) in the total of each file system (rows)."""
    phases = select(measured(study.phases), setting, load)
    order = phases.sort_values("position").drop_duplicates(["phase", "cache"])[["phase", "cache"]]
    sums = phases.astype({"wall_ns": float}).groupby(["label", "phase", "cache"])["wall_ns"].sum()
    wide = sums.unstack(["phase", "cache"]).reindex(columns=pd.MultiIndex.from_frame(order)).fillna(0.0)
    return wide.div(wide.sum(axis=1), axis=0)


# ---- what would change the answer ----------------------------------------------------------------------------------


def orders(study: Study) -> list[dict]:
    """The order of totals wherever a workload was repeated at another size, lab, processor, stack or device.

    Of each workload with two such places or more a dictionary: workload, places (dictionaries: setting, load, best,
    verdict, level, order: labels, told and turned: pairs of file systems that differ significantly here and in the
    first place, and those of them that have the opposite order), best (label -> number of places where it is shown to
    be the cheapest).
    """
    groups: dict[str, list[dict]] = {}
    cheapest = study.results.cheapest
    for setting in [*study.settings, *(s for s in distinct(cheapest, Setting) if s not in study.settings)]:
        for load in distinct(select(cheapest, setting), Load):
            (row,) = select(cheapest, setting, load).itertuples()
            if row.verdict == "alone":
                continue
            own = select(study.results.totals, setting, load, role="contender").sort_values("geometric_mean_ns")
            groups.setdefault(without_size(load.workload), []).append(
                {"setting": setting, "load": load, "best": row.best, "verdict": row.verdict}
                | {"level": list(row.level), "order": list(own["label"])}
                | {"pairs": _shown(select(study.results.rivals, setting, load, contenders=True))}
            )
    found = []
    for workload, places in groups.items():
        if len(places) < 2:
            continue
        for place in places:
            common = [pair for pair in place["pairs"] if pair in places[0]["pairs"]]
            place["told"] = len(common)
            place["turned"] = sum(place["pairs"][pair] != places[0]["pairs"][pair] for pair in common)
        won = [place["best"] for place in places if place["verdict"] == "fastest"]
        found.append(
            {"workload": workload, "places": places, "best": {name: won.count(name) for name in sorted(set(won))}}
        )
    return found


def _shown(pairs: pd.DataFrame) -> dict[tuple[str, str], bool]:
    """(a, b) -> whether a is the slower one, of the pairs whose interval excludes 1."""
    return {(row.a, row.b): row.low > 1 for row in pairs.itertuples() if row.low > 1 or row.high < 1}


def sensitivity(study: Study, found: dict) -> Table:
    """One of `orders` as a table, one row per place."""
    labs, names = len({place["setting"].lab for place in found["places"]}) > 1, {"profile": "Device profile"}
    rows = []
    for place in found["places"]:
        setting, load = place["setting"], place["load"]
        where = {
            names.get(key, key.capitalize()): value
            for key, value in setting._asdict().items()
            if len({one["setting"]._asdict()[key] for one in found["places"]}) > 1
        }
        if len({one["load"] for one in found["places"]}) > 1:
            where = {"Workload": str(load)} | where
        rows.append(
            where
            | {
                "Cheapest": strong(place["best"])
                if place["verdict"] == "fastest"
                else listing([place["best"], *place["level"]], "or", most=3),
                "Order of totals": ", ".join(place["order"][:4])
                + (f", {count(len(place['order']) - 4, 'other')}" if len(place["order"]) > 4 else ""),
                "Opposite order": DASH if place is found["places"][0] else f"{place['turned']} of {place['told']}",
            }
        )
    caption = (
        f"{found['workload']}: the order of the totals{' (compared over labs, never their times)' if labs else ''},"
        " wherever the workload was run. Cheapest: in bold where it is shown, otherwise those that may be it. Opposite"
        " order: of the pairs of file systems that differ here and in the first row (95 % intervals that exclude 1, not"
        " corrected), those whose order is the opposite one."
    )
    left = ["Workload", "Lab", "Stack", "Device profile", "Cheapest", "Order of totals"]
    return Table(f"tbl-{slug('sensitivity', found['workload'])}", caption, rows, left=left)


def constant(study: Study) -> list[str]:
    """Words for what the study has only one of, so that it cannot tell what another would change."""
    one = {
        "lab": "one lab and processor",
        "stack": "one stack",
        "profile": "one device profile",
        "scale": "one scale",
    }
    found = [words for key, words in one.items() if study.trials[key].nunique() == 1]
    sizes: dict[str, set[str]] = {}
    for workload in set(study.trials["workload"]):
        sizes.setdefault(without_size(workload), set()).add(workload)
    return found + (["one size of each workload"] if all(len(own) == 1 for own in sizes.values()) else [])
