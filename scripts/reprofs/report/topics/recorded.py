"""Your workload: the calls of a recorded program on each file system, what their time goes to, and where it differs."""

from __future__ import annotations

import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.patches import Patch

from reprofs.data.keys import Load, Setting, distinct, select
from reprofs.plan.recording import Recording
from reprofs.report import plots
from reprofs.report.display import (
    DASH,
    Table,
    confidence,
    count,
    digits,
    known,
    listing,
    ratio,
    size,
    slug,
    time,
    unit_of,
)
from reprofs.report.marks import strong
from reprofs.report.plots import BLUE, GREY, ORANGE, WIDTH, Figure, Plot, styled
from reprofs.report.topics.operations import verdict
from reprofs.stats import recorded, trust
from reprofs.stats.compare import versus
from reprofs.stats.recorded import FLUSHES, Compared
from reprofs.stats.results import caution
from reprofs.stats.study import Study

WHAT = "the time of the file-system calls of your program"
COLOURS = [BLUE, "#f0c419", "#009e73", "#e8b4d0", ORANGE, "#9bd3f5"]  # of kinds; the rest is together
KINDS = 5  # in a table of differences
SLOWEST = 3  # kinds of calls of each file system
FLUSH = "final-sync"  # what a replay does last, which the program did not


def compared(study: Study) -> Compared:
    """`stats.recorded.compared` with the margins of the study."""
    return recorded.compared(study, **study.margins, caution=caution(study))


def places(study: Study, found: Compared) -> list[tuple[Setting, Load]]:
    """Where a recorded program was replayed."""
    return [
        (setting, load)
        for setting in distinct(found.statistics, Setting)
        for load in distinct(select(found.statistics, setting), Load)
    ]


def several_at_once(study: Study) -> list[str]:
    """Workloads that make the calls of a recording several times at once: their times add up to nothing."""
    entries = study.plan.workloads
    return [name for name, entry in entries.items() if entry.recording and entry.clients > 1]


def coverage(study: Study, load: Load) -> dict:
    """What of the program is replayed.

    Keys: recording (its first line), left (calls), kinds (of these, with their numbers), share (of the calls below the
    roots that are replayed).
    """
    head = study.plan.workloads[load.workload].recording
    assert isinstance(head, Recording)
    left = sum(head.left_out.values())
    kinds = [f"{kind} {number:,}" for kind, number in sorted(head.left_out.items(), key=lambda one: -one[1])]
    return {"recording": head, "left": left, "kinds": kinds, "share": head.calls / (head.calls + left)}


def facts(study: Study, found: Compared, setting: Setting, load: Load) -> list[dict]:
    """What is said of a replay, cold and warm.

    Keys: cache, foreign (whether it ranks nothing, see `recorded.foreign`), unknown (whether it is not known if it
    does: a real disk may rotate), winner (its row of `compare.winners`, None where there is none), small (whether
    it leads by too little, see `trust.small`), dearest (label and ratio to the best, or None), differences (of the
    dearest: kind and ns more than the best, the most first).
    """
    told = []
    for cache in _caches(found, setting, load):
        own = select(found.statistics, setting, load, cache=cache).query("role == 'contender'")
        own = own.sort_values("geometric_mean_ns")
        row = next(select(found.winners, setting, load, cache=cache).itertuples(), None)
        one: dict = {"cache": cache, "winner": row, "small": False, "dearest": None, "differences": []}
        place = pd.DataFrame([{**setting._asdict(), **load._asdict(), "cache": cache}])
        one["foreign"] = bool(recorded.foreign(study.plan, place).iloc[0])
        listed = coverage(study, load)["recording"].in_listing_order
        one["unknown"] = cache == "cold" and listed and _may_rotate(study, setting)
        if row is not None and len(own) > 1:
            last = own.iloc[-1]
            kinds = _by_kind(_rows(study, setting, load, cache))
            more = (kinds.loc[last["label"]] - kinds.loc[row.best]).sort_values(ascending=False, kind="stable")
            one["small"] = row.verdict == "fastest" and trust.small(study, setting.lab, row.ratio)
            one["dearest"] = (last["label"], last["geometric_mean_ns"] / row.geometric_mean_ns)
            one["differences"] = [(kind, ns) for kind, ns in more.items() if ns > 0.05 * max(more.sum(), 0)][:SLOWEST]
        told.append(one)
    return told


def _may_rotate(study: Study, setting: Setting) -> bool:
    """Whether the disks are real ones, of which the records do not tell whether they rotate."""
    disks = study.plan.disks(setting.profile)
    return not disks or disks[0].backing in ("file", "device")


def _caches(found: Compared, setting: Setting, load: Load) -> list[str]:
    return sorted(set(select(found.statistics, setting, load)["cache"]))


def _by_kind(rows: pd.DataFrame) -> pd.DataFrame:
    return recorded.by_kind(rows).rename(columns={FLUSH: "last flush"})


def _rows(study: Study, setting: Setting, load: Load, cache: str) -> pd.DataFrame:
    return select(recorded.replays(study), setting, load, cache=cache)


def fastest(found: Compared) -> dict:
    """How many replays, cold and warm, there are, and which file systems are the fastest in how many.

    Keys: replays (number of those with a verdict), systems (label, number; the most first), open (the rest).
    """
    rows = found.winners[found.winners["verdict"] != "alone"]
    counts = rows.loc[rows["verdict"] == "fastest", "best"].value_counts()
    systems = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    return {"replays": len(rows), "systems": systems, "open": len(rows) - int(counts.sum())}


# ---- tables --------------------------------------------------------------------------------------------------------


def overview(study: Study, found: Compared) -> list[Table]:
    """Each file system's ratio to the fastest, a row a replay. A table a setting, where it has several programs."""
    tables = []
    for setting in distinct(found.winners, Setting):
        chosen = select(found.winners, setting)
        if len(distinct(chosen, Load)) == 1:
            continue
        present = set(select(found.statistics, setting)["label"])
        labels = [label for label in study.contenders(setting) if label in present]
        rows = []
        for row in chosen.itertuples():
            pairs = versus(select(found.pairwise, setting, Load(row.workload, row.scale), cache=row.cache), row.best)
            told = {one.other: digits(one.ratio, 3) for one in pairs.itertuples() if known(one.ratio)} | {row.best: "1"}
            level = {row.best} if row.verdict == "fastest" else {row.best, *row.level}
            told |= {label: strong(told[label]) for label in level if label in told}
            program = study.plan.workloads[row.workload].title.removesuffix(", recorded")
            first = {"Program": program, "Caches": row.cache, "Least time": time(row.geometric_mean_ns, 3)}
            rows.append(first | {label: told.get(label, DASH) for label in labels})
        caption = (
            f"{WHAT[0].upper()}{WHAT[1:]} relative to the fastest file system ({setting}): ratios of geometric means."
            " Bold: the fastest; where none is shown to be, all that are level."
        )
        tables.append(Table(f"tbl-{slug('recorded-all', setting)}", caption, rows, left=["Program", "Caches"]))
    return tables


def totals(study: Study, found: Compared, setting: Setting, load: Load, cache: str) -> Table:
    """A row a file system: time, ratio to the best, what went through the device, space."""
    own = select(found.statistics, setting, load, cache=cache)
    own = own.assign(beside=own["role"] != "contender").sort_values(["beside", "geometric_mean_ns", "label"])
    row = next(select(found.winners, setting, load, cache=cache).itertuples(), None)
    pairs = select(found.pairwise, setting, load, cache=cache)
    ratios = versus(pairs, row.best).set_index("other") if row is not None else None
    moved = _moved(study, setting, load, cache)
    rows = []
    for one in own.itertuples():
        unit, scale = unit_of(one.geometric_mean_ns)
        told = f"{digits(one.geometric_mean_ns / scale)} {unit}"
        told += f" ({confidence(one.low_ns, one.high_ns, scale)})" if known(one.low_ns) else ""
        best = row is not None and one.label == row.best
        cells = {"File system": strong(one.label) if best else one.label, "Time (95 % interval)": told}
        if ratios is not None:
            cells["Ratio to the best"] = "1" if best else _ratio(ratios, one.label)
        rows.append(cells | (moved.get(one.label, {}) if cache == "cold" else {}))
    caption = f"{load}, {setting}, caches {cache}: {WHAT}, all of them and the flush of what is then not on the device."
    if row is not None:
        caption += " Verdict: " + verdict(row)
        caption += ". Ratio: of geometric means, paired by round, with its 95 % interval."
    if cache == "cold":
        caption += " Read, written, flushes: of the devices meanwhile. Space: taken since the file system was new."
    if beside := sorted(own.loc[own["beside"], "label"]):
        caption += f" Not ranked: {listing(beside)}."
    return Table(f"tbl-{slug('recorded', cache, setting, load)}", caption, rows, left=["File system"])


def _ratio(ratios: pd.DataFrame, label: str) -> str:
    if label not in ratios.index or not known(ratios.loc[label, "ratio"]):
        return DASH
    pair = ratios.loc[label]
    return ratio(pair["ratio"], pair["low"], pair["high"])


def _moved(study: Study, setting: Setting, load: Load, cache: str) -> dict[str, dict[str, str]]:
    """Label -> cells on devices and space, means of the rounds. With warm caches they would have the tree as well."""
    rows = _rows(study, setting, load, cache).drop_duplicates("trial")
    new = study.trials.set_index("trial").eval("mounted_total_bytes - mounted_free_bytes")
    rows = rows.assign(taken=rows["whole_used_bytes"] - rows["trial"].map(new))
    columns = ["whole_read_bytes", "whole_written_bytes", "whole_flushes", "taken"]
    means = rows.groupby("label")[columns].mean().astype(float)
    return {
        label: {"Read": size(read), "Written": size(written), "Flushes": _whole(flushes), "Space": size(taken)}
        for label, read, written, flushes, taken in means.itertuples()
    }


def _whole(number: float) -> str:
    return f"{number:,.0f}" if known(number) else DASH


def differences(study: Study, found: Compared, setting: Setting, load: Load, cache: str) -> Table | None:
    """Where the difference to the best comes from, by kind of call; None with nothing to compare.

    Differences of mean times over the rounds, so that those of all kinds add up.
    """
    row = next(select(found.winners, setting, load, cache=cache).itertuples(), None)
    rows = _rows(study, setting, load, cache)
    kinds = _by_kind(rows[rows["role"] == "contender"])
    if row is None or len(kinds) < 2:
        return None
    more = (kinds - kinds.loc[row.best]).drop(index=row.best)
    more = more.loc[more.sum(axis=1).sort_values(kind="stable").index]
    chosen = list(more.abs().sum().sort_values(ascending=False, kind="stable").index[:KINDS])
    unit, scale = unit_of(more.sum(axis=1).abs().max())
    shown = []
    for label, own in more.iterrows():
        cells = {"File system": label, f"More, {unit}": _signed(own.sum() / scale)}
        cells |= {kind: _signed(own[kind] / scale) for kind in chosen}
        shown.append(cells | ({"all others": _signed(own.drop(chosen).sum() / scale)} if len(own) > KINDS else {}))
    caption = (
        f"{load}, {setting}, caches {cache}: by how much {WHAT} is longer than on {row.best}, and in which kinds of"
        f" calls, in {unit}; means of the rounds. The kinds in which file systems differ most have a column."
    )
    return Table(f"tbl-{slug('recorded-difference', cache, setting, load)}", caption, shown, left=["File system"])


def _signed(value: float) -> str:
    told = digits(value, 3)
    return f"+{told}" if value > 0 else told


def single(study: Study, setting: Setting, load: Load, cache: str) -> Table:
    """How long single calls took: those that wait for the device, and the kinds that have the longest ones."""
    done = select(study.samples, setting, load, status="ok", cache=cache)
    calls = recorded.latencies(done[done["name"] != FLUSH])
    flushes = [kind for kind in FLUSHES if kind in set(calls["name"])]
    rows = []
    order = _by_kind(_rows(study, setting, load, cache)).sum(axis=1).sort_values(kind="stable").index
    for label in order:
        own = calls[calls["label"] == label]
        at = own.set_index("name")
        row: dict = {"File system": label}
        for kind in flushes:
            one = at.loc[kind]
            row |= {f"{kind}: median": time(one["median_ns"], 3), "99 %" + _of(kind, flushes): time(one["p99_ns"], 3)}
            row |= {"longest" + _of(kind, flushes): time(one["longest_ns"], 3)}
        last = own[~own["name"].isin(flushes)].sort_values("longest_ns", ascending=False, kind="stable")[:SLOWEST]
        told = [f"{name} {time(ns, 3)}" for name, ns in zip(last["name"], last["longest_ns"], strict=True)]
        rows.append(row | {"Longest other calls": ", ".join(told)})
    caption = (
        f"{load}, {setting}, caches {cache}: single calls, of all rounds together. Calls that took about as long"
        " (within a quarter) have their mean."
    )
    left = ["File system", "Longest other calls"]
    return Table(f"tbl-{slug('recorded-single', cache, setting, load)}", caption, rows, left=left)


def _of(kind: str, kinds: list[str]) -> str:
    return f" ({kind})" if len(kinds) > 1 else ""


# ---- the figure ----------------------------------------------------------------------------------------------------


def figure(study: Study, found: Compared, setting: Setting, load: Load) -> Figure:
    """Time by kind of call on each file system, a panel for each cache state."""
    parts = {cache: _by_kind(_rows(study, setting, load, cache)) for cache in _caches(found, setting, load)}
    caption = f"{load}, {setting}: {WHAT}, by kind of call; means of the rounds."
    ns, label, cache = max((own.sum(axis=1).max(), own.sum(axis=1).idxmax(), cache) for cache, own in parts.items())
    alt = f"{count(len(parts), 'panel')} of stacked bars. The longest is {label}, {cache}, {time(ns, 3)}."
    return Figure(slug("recorded", setting, load), caption, alt, bars(parts))


@styled
def bars(parts: dict[str, pd.DataFrame]) -> Plot:
    """Stacked bars: for each cache state a panel, a bar for each row of its table, a colour for each of the kinds."""
    most = pd.concat([own.div(own.sum(axis=1), axis=0) for own in parts.values()]).fillna(0.0).mean()
    named = list(most.sort_values(ascending=False, kind="stable").index[: len(COLOURS)])
    colours = dict(zip(named, COLOURS, strict=False))
    high = [0.45 + 0.19 * len(own) for own in parts.values()]
    size = (WIDTH, 0.5 + sum(high))
    plot, grid = plt.subplots(len(parts), 1, figsize=size, squeeze=False, height_ratios=high, layout="constrained")
    for axes, (cache, own) in zip(grid.flat, parts.items(), strict=True):
        own = own.loc[own.sum(axis=1).sort_values(kind="stable").index]
        unit, scale = unit_of(own.sum(axis=1).max())
        rest = own[[kind for kind in own if kind not in colours]].sum(axis=1)
        start = pd.Series(0.0, own.index)
        for kind, colour in [*((kind, colours[kind]) for kind in named if kind in own), ("", GREY)]:
            width = (own[kind] if kind else rest) / scale
            axes.barh(range(len(own)), width, 0.72, start, color=colour, lw=0)
            start += width
        plots.rows(axes, list(own.index))
        axes.set_xlim(0, 1.02 * start.max())
        axes.set_xlabel(unit, labelpad=1)
        axes.set_title(f"caches {cache}", loc="left", fontweight="bold")
    handles = [Patch(color=colour, label=kind) for kind, colour in colours.items()]
    if len(most) > len(colours):
        handles.append(Patch(color=GREY, label=count(len(most) - len(colours), "other kind")))
    plot.legend(handles=handles, loc="outside upper center", ncols=min(len(handles), 7), frameon=False, handlelength=1)
    return plot
