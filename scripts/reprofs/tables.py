"""The tables of the notebooks, as words.Table: statistics and records arranged for a reader, nothing computed anew."""

import shlex

import pandas as pd
import scipy.stats

from . import stats, words
from .dataset import Results, Study

SIGMA = "\N{GREEK SMALL LETTER SIGMA}"
SPREAD = "Spread over rounds is dependence on the input (names, sizes, order, hash seeds), not measurement noise."


def spread_note(labs) -> str:
    """What a spread over rounds means in these labs."""
    if set(labs) == {"exact"}:
        return SPREAD
    noisy = "Spread over rounds is dependence on the input and noise together."
    return noisy if "exact" not in labs else f"{SPREAD} That holds in the exact lab; elsewhere it is both together."


def setting_name(setting) -> str:
    """Words for a (lab, stack, profile)."""
    lab, stack, profile = setting
    return f"lab {lab}, stack {stack}, device profile {profile}"


def settings(frame: pd.DataFrame) -> list[tuple]:
    """The settings in a frame, sorted."""
    return sorted(set(frame[stats.SETTING].itertuples(index=False, name=None)))


def main_settings(study: Study) -> list[tuple]:
    """The settings whose file systems are compared in full: of every lab, profile and workload the base of its stacks.

    What the other stacks change is told by ratios to it, not by a section for each of them.
    """
    stacks = study.stacks()
    found = set()
    for (lab, profile, _), group in study.trials.groupby(["lab", "profile", "workload"]):
        available = set(group["stack"])
        found.add((lab, stats.base(stacks, [name for name in stacks if name in available]), profile))
    return sorted(found)


def further_settings(study: Study) -> list[tuple]:
    """Other settings with a contender that the main setting does not have, such as options for one level of RAID."""
    main = main_settings(study)
    contenders = study.trials[study.trials["role"] != "ceiling"]
    found = []
    for (lab, profile), group in contenders.groupby(["lab", "profile"]):
        known = set(group.loc[group["stack"].isin([s[1] for s in main if s[::2] == (lab, profile)]), "label"])
        found += [
            (lab, stack, profile)
            for stack, own in group.groupby("stack")
            if (lab, stack, profile) not in main and set(own["label"]) - known and own["label"].nunique() > 1
        ]
    return sorted(found)


def compared(study: Study, setting: tuple) -> bool:
    """Whether a setting has two contenders or more, so that there is something to win."""
    here = select(study.trials, stats.SETTING, setting)
    return here.loc[here["role"] != "ceiling", "label"].nunique() > 1


def crowded(study: Study, setting: tuple) -> bool:
    """Whether a setting has so many file systems that its figures of every round belong into the appendix."""
    return select(study.trials, stats.SETTING, setting)["label"].nunique() > 12


def places(study: Study) -> list[tuple]:
    """Every (lab, profile, workload, scale) with more than one stack: there stacks are compared."""
    keys = ["lab", "profile", "workload", "scale"]
    several = study.trials.groupby(keys)["stack"].nunique()
    return sorted(several.index[several > 1])


def differing(study: Study, setting: tuple) -> str:
    """Words for the parts of a setting that are not the same in the whole study; nothing if all are."""
    names = {"lab": "lab", "stack": "stack", "profile": "device profile"}
    parts = [
        f"{names[key]} {value}"
        for key, value in zip(stats.SETTING, setting, strict=True)
        if study.trials[key].nunique() > 1
    ]
    return ", ".join(parts)


def _where(study: Study, row, keys=("lab", "stack", "profile")) -> dict:
    """Columns for those of `keys` that differ within the study; `row` is a named tuple or a dictionary."""
    names = {"lab": "Lab", "stack": "Stack", "profile": "Device profile"}
    value = row.get if isinstance(row, dict) else lambda key: getattr(row, key)
    return {names[key]: value(key) for key in keys if study.trials[key].nunique() > 1}


WHERE = ["Lab", "Stack", "Device profile"]


def slug(*parts: str) -> str:
    """Parts of a name joined so that they serve as file name and anchor."""
    return "-".join("".join(c if c.isalnum() else "-" for c in str(part)) for part in parts)


def select(frame: pd.DataFrame, keys: list[str], values) -> pd.DataFrame:
    """Rows whose `keys` equal `values`."""
    return frame[(frame[keys] == list(values)).all(axis=1)]


def completeness(study: Study) -> words.Table:
    """Completed trials of planned ones: file systems by workloads, or, with several settings, settings by workloads."""
    several = len(settings(study.trials)) > 1
    keys = stats.SETTING if several else ["label"]
    planned = study.trials.groupby([*keys, "workload", "scale"]).size()
    done = study.trials[study.trials["status"] == "ok"].groupby([*keys, "workload", "scale"]).size()
    columns = sorted({key[len(keys) :] for key in planned.index})
    first = settings(study.trials) if several else [(name,) for name in study.labels() + study.labels("ceiling")]
    rows = []
    for key in first:
        row = {"File system": key[0]}
        if several:
            here = select(study.trials, keys, key)
            row = _where(study, dict(zip(keys, key, strict=True))) | {"File systems": here["label"].nunique()}
        for column in columns:
            total = planned.get((*key, *column), 0)
            row[f"{column[0]} ({column[1]})"] = f"{done.get((*key, *column), 0)} of {total}" if total else "not planned"
        rows.append(row)
    return words.Table("tbl-completeness", "Completed trials of those planned.", rows, left=[*WHERE, "File system"])


def failures(study: Study) -> words.Table | words.Prose:
    """Every trial without a complete result, with its reason; rounds that ended alike are in one row."""
    bad = study.trials[study.trials["status"] != "ok"]
    if bad.empty:
        return words.Prose(
            f"All {words.count(len(study.trials), 'trial')} completed."
            if len(study.trials) != 1
            else "The one trial completed."
        )
    rows = []
    keys = [*stats.SETTING, "label", "workload", "scale", "status", "reason", "phases"]
    for key, group in bad.fillna({"reason": ""}).groupby(keys, sort=True):
        row = dict(zip(keys, key, strict=True))
        rows.append(
            {"File system": row["label"]}
            | _where(study, row)
            | {
                "Workload": f"{row['workload']} ({row['scale']})",
                "Rounds": words.listing(sorted(group["round"])),
                "Status": row["status"],
                "Reason": row["reason"] or "no reason recorded",
                "Phases": row["phases"],
            }
        )
    caption = "Trials without a complete result. Phases counts those measured before the end; they enter no statistic."
    return words.Table("tbl-failures", caption, rows, left=["File system", *WHERE, "Workload", "Status", "Reason"])


def cold(study: Study) -> words.Table | words.Prose:
    """Proof of cold caches: for each cold phase the least and most that was read from the device."""
    phases = stats.measured(study.phases)
    phases = phases[phases["cache"] == "cold"].sort_values(["lab", "workload", "scale", "position"])
    if phases.empty:
        return words.Prose("No phase of a completed trial was to start with cold caches.")
    rows = []
    for key, group in phases.groupby(["lab", "workload", "phase"], sort=False):
        proved = group["cold_proved"]
        rows.append(
            _where(study, {"lab": key[0]}, ["lab"])
            | {
                "Workload": key[1],
                "Phase": study.title(key[1], key[2], "cold"),
                "Proved": f"{int((proved == True).sum())} of {int(proved.notna().sum())}",  # noqa: E712 (nullable)
                "Not provable": int(proved.isna().sum()),
                "Least read": words.size(group.loc[proved.notna(), "cold_read_bytes"].min()),
                "Most read": words.size(group.loc[proved.notna(), "cold_read_bytes"].max()),
            }
        )
    caption = "Proof of cold caches: bytes that the phase read from the device. Not provable: trials without a device."
    if "mount" in set(phases["lab"]):
        caption += " In the lab mount nothing can be unmounted, so nothing is proved."
    return words.Table("tbl-cold", caption, rows, left=["Lab", "Workload", "Phase"])


def driver_share(study: Study) -> words.Table | words.Prose:
    """Share of the time between operations in each phase of the engine."""
    phases = stats.measured(study.phases)
    phases = phases[(phases["operation"] != "exec") & (phases["wall_ns"] > 0)].sort_values(
        ["lab", "workload", "scale", "position"]
    )
    if phases.empty:
        return words.Prose(
            "No phase of a completed trial was done by the load engine; within a command no operations are told apart."
        )
    phases = phases.assign(share=phases["driver_ns"].astype(float) / phases["wall_ns"].astype(float))
    rows = []
    for (lab, workload, phase, cache), group in phases.groupby(["lab", "workload", "phase", "cache"], sort=False):
        worst = group.sort_values(["share", "label"]).iloc[-1]
        rows.append(
            _where(study, {"lab": lab}, ["lab"])
            | {
                "Workload": workload,
                "Phase": study.title(workload, phase, cache),
                "Median share": words.percent(group["share"].median()),
                "Largest share": words.percent(worst["share"]),
                "Largest for": worst["label"],
            }
        )
    caption = (
        "Time between the operations as a share of a phase: the driver's own work (names, content, order) and what else"
        " ran on the processor, such as threads of the file system. It is part of every time shown."
    )
    return words.Table("tbl-driver", caption, rows, left=["Lab", "Workload", "Phase", "Largest for"])


def spread(study: Study, table: pd.DataFrame) -> words.Table | words.Prose:
    """Coefficient of variation over rounds, one row a lab and file system."""
    known = table[table["cv"].notna()]
    if known.empty:
        return words.Prose("No cell has more than one round, so there is no spread to show.")
    rows = []
    for key, group in known.groupby(["lab", "label"], sort=True):
        worst = group.sort_values(["cv", "phase"]).iloc[-1]
        rows.append(
            {"File system": key[1]}
            | _where(study, {"lab": key[0]}, ["lab"])
            | {
                "Cells": len(group),
                "Median CV": words.percent(group["cv"].median()),
                "Largest CV": words.percent(worst["cv"]),
                "Largest in": study.title(worst["workload"], worst["phase"], worst["cache"]),
                **_where(study, worst.to_dict(), ["stack", "profile"]),
                "Outliers": int(group["outliers"].sum()),
            }
        )
    caption = (
        f"Coefficient of variation (CV = {SIGMA} / mean) over rounds; a cell is a file system in one operation."
        f" {spread_note(set(known['lab']))} Outliers by Tukey's rule are"
        " kept."
    )
    return words.Table("tbl-spread", caption, rows, left=["File system", *WHERE, "Largest in"])


def cells(study: Study, table: pd.DataFrame, operation: tuple) -> words.Table:
    """All statistics of one operation (setting and operation keys in `operation`), one row a file system."""
    here = select(table, [*stats.SETTING, *stats.OPERATION], operation).sort_values(
        ["role", "mean_ns"], ascending=[False, True]
    )
    here = pd.concat([here[here["role"] != "ceiling"], here[here["role"] == "ceiling"]])
    unit, scale = words.unit_of(here["median_ns"].median())
    rows = [
        {
            "File system": row.label + (" (ceiling)" if row.role == "ceiling" else ""),
            "n": row.n,
            f"Mean ({unit})": words.digits(row.mean_ns / scale),
            f"{SIGMA} ({unit})": words.digits(row.sd_ns / scale, 3),
            f"{SIGMA}² ({unit}²)": words.digits(row.variance_ns2 / scale**2, 3),
            "CV": words.percent(row.cv),
            f"Median ({unit})": words.digits(row.median_ns / scale),
            f"Interval ({unit})": words.span(row.low_ns, row.high_ns, scale),
            f"Min {words.DASH} max ({unit})": words.span(row.min_ns, row.max_ns, scale),
            "Items/s": words.digits(row.items_per_second, 3),
        }
        for row in here.itertuples()
    ]
    title = study.title(operation[3], operation[5], operation[6])
    caption = f"{title} ({operation[3]}, {operation[4]}; {setting_name(operation[:3])}). {interval_note(here)}"
    return words.Table(f"tbl-{slug('cell', *operation)}", caption, rows, left=["File system"])


def interval_note(table: pd.DataFrame) -> str:
    """Which intervals a table of cells shows, and what they assume."""
    kinds = set(table["interval"])
    notes = []
    if "order statistics of the median" in kinds:
        covers = table.loc[table["interval"] == "order statistics of the median", "coverage"].min()
        notes.append(
            f"Interval of the median by order statistics, coverage {covers * 100:.1f} % or more, no assumption on the"
            " distribution."
        )
    if "Student t of the mean" in kinds:
        notes.append("95 % interval of the mean (Student's t, normal values assumed).")
    if "none" in kinds:
        notes.append("A single round has no interval.")
    return " ".join(notes)


def comparisons(study: Study, results: Results, setting: tuple, workload: str, scale: str) -> words.Table | words.Prose:
    """Every contender against the best of each operation of one workload."""
    rows = []
    keys = [*stats.SETTING, *stats.OPERATION]
    chosen = select(results.winners, [*stats.SETTING, "workload", "scale"], (*setting, workload, scale)).sort_values(
        "position"
    )
    for winner in chosen.itertuples():
        key = [getattr(winner, name) for name in keys]
        pairs = select(results.pairwise, keys, key)
        others = stats.versus(pairs[pairs["contenders"]], winner.best).sort_values(["ratio", "other"])
        for row in others.itertuples():
            rows.append(
                {
                    "Phase": study.title(workload, winner.phase, winner.cache),
                    "Best": winner.best,
                    "Other": row.other,
                    "n": row.n,
                    "Ratio": words.digits(row.ratio, 3),
                    "95 % interval": words.span(row.low, row.high, significant=3),
                    "Joint interval": words.span(row.joint_low, row.joint_high, significant=3),
                    "δ": words.digits(row.delta, 2),
                    "p": words.digits(row.p, 2),
                    "p (Holm)": words.digits(row.p_holm, 2),
                }
            )
    if not rows:
        return words.Prose(f"In {workload} ({scale}) there are no two contenders to compare.")
    caption = (
        f"{workload} ({scale}; {setting_name(setting)}): each contender against the best. Ratio of geometric means,"
        f" paired by round; n is the number of common rounds. The joint interval holds for all contenders of the"
        f" operation together. δ is Cliff's delta, p the exact Mann-Whitney test before and after Holm's correction."
    )
    return words.Table(
        f"tbl-{slug('against', *setting, workload, scale)}", caption, rows, left=["Phase", "Best", "Other"]
    )


def ranking(results: Results, setting: tuple, cost: pd.DataFrame) -> words.Table:
    """Mean rank, wins and typical cost of each contender in one setting; `cost` is stats.relative."""
    won = select(results.winners, stats.SETTING, setting).query("verdict == 'winner'").groupby("best").size()
    typical = typical_cost(select(cost, stats.SETTING, setting))
    rows = [
        {
            "File system": row.label,
            "Mean rank": words.digits(row.mean_rank, 3),
            "Operations won": int(won.get(row.label, 0)),
            "Typical cost": words.digits(typical.get(row.label), 3),
        }
        for row in select(results.ranks, stats.SETTING, setting).itertuples()
    ]
    caption = (
        f"Contenders in the order of their mean rank over operations (1 = always the fastest;"
        f" {setting_name(setting)}). Typical cost: geometric mean of the time relative to the best contender of each"
        f" operation. Both over operations that all of them completed."
    )
    return words.Table(f"tbl-{slug('ranks', *setting)}", caption, rows, left=["File system"])


def typical_cost(cost: pd.DataFrame) -> pd.Series:
    """Geometric mean of `cost` by contender over the operations that all contenders completed; may be empty."""
    wide = (
        cost[cost["role"] != "ceiling"]
        .pivot(index=[*stats.SETTING, *stats.OPERATION], columns="label", values="cost")
        .dropna()
    )
    return wide.apply(scipy.stats.gmean) if len(wide) else pd.Series(dtype=float)


def winners(study: Study, results: Results, setting: tuple) -> words.Table | words.Prose:
    """Verdict, time with interval and lead of the best contender, one row an operation."""
    keys = [*stats.SETTING, *stats.OPERATION]
    rows = []
    for row in (
        select(results.winners, stats.SETTING, setting).sort_values(["workload", "scale", "position"]).itertuples()
    ):
        key = [getattr(row, name) for name in keys]
        tied = [row.best, *row.tied.split()]
        if len(tied) > 5:
            tied = [*tied[:4], words.count(len(tied) - 4, "other")]
        name = {"winner": f"**{row.best}**", "alone": f"{row.best} (alone)", "unproved": f"{row.best} (unproved)"}
        same = select(results.statistics, keys, key)
        ceiling = same[same["role"] == "ceiling"]
        best = same[same["label"] == row.best].iloc[0]
        # The number in the middle of its interval: six rounds or more have an interval of the median.
        centre = best["median_ns"] if best["n"] >= stats.ENOUGH else best["mean_ns"]
        rows.append(
            {
                "Workload": row.workload,
                "Operation": study.title(row.workload, row.phase, row.cache),
                "Winner": name.get(row.verdict, "tie: " + ", ".join(tied)),
                "Time": words.time(centre),
                "Interval": words.span(row.low_ns, row.high_ns, words.unit_of(centre)[1]),
                "Next": row.runner_up or words.DASH,
                "Ratio of next": (
                    f"{words.digits(row.ratio, 3)} ({words.span(row.joint_low, row.joint_high, significant=3)})"
                    if row.runner_up
                    else words.DASH
                ),
                "Ceiling": words.time(ceiling["mean_ns"].min(), 3) if len(ceiling) else words.DASH,
            }
        )
    if not rows:
        return words.Prose("No contender completed a trial, so there is no winner of anything.")
    caption = (
        f"Winner of each operation ({setting_name(setting)}): the contender whose joint interval of the ratio lies"
        f" above 1 for every other contender, else a tie. {interval_note(results.statistics)} In brackets the joint"
        f" interval of the ratio of the next. {spread_note(setting[:1])}"
    )
    return words.Table(
        f"tbl-{slug('winners', *setting)}", caption, rows, left=["Workload", "Operation", "Winner", "Next"]
    )


def _ratio(row) -> str:
    bounds = words.span(row.low, row.high, significant=3).replace(" ", "\N{NO-BREAK SPACE}")
    return words.digits(row.ratio, 3) + (f" ({bounds})" if bounds != words.DASH else "")


def _in_columns(frame: pd.DataFrame, labels: list[str]) -> dict:
    """label -> ratio with interval, of the rows of one stack and operation."""
    found = {row.label: _ratio(row) for row in frame.itertuples()}
    return {label: found.get(label, words.DASH) for label in labels}


def _batches(labels: list[str], size: int = 4) -> list[list[str]]:
    """Labels in groups that fit beside each other on a page."""
    return [labels[start : start + size] for start in range(0, len(labels), size)]


def _order(study: Study, frame: pd.DataFrame) -> pd.DataFrame:
    """Rows in the order of operations, and within them of the study's stacks."""
    place = {name: number for number, name in enumerate(study.stacks())}
    keyed = frame.assign(place=frame["stack"].map(place), position=frame.get("position", 0))
    return keyed.sort_values(["position", "place", "label"]).drop(columns="place")


PLACE = ["lab", "profile", "workload", "scale"]


def _place_name(study: Study, place: tuple) -> str:
    lab, profile, workload, scale = place
    return f"{workload} ({scale}), lab {lab}, device profile {profile}"


def best_on(study: Study, results: Results, place: tuple) -> dict[str, str]:
    """stack -> the contender with the best mean rank there, and how many operations it wins."""
    found = {}
    won = select(results.winners, PLACE, place)
    for stack, group in select(results.statistics, PLACE, place).groupby("stack"):
        contenders = group[group["role"] != "ceiling"]
        wide = contenders.pivot(index=["phase", "cache"], columns="label", values="mean_ns").dropna()
        if wide.shape[1] < 2 or wide.empty:
            continue
        ranks = wide.rank(axis=1).mean().sort_values(kind="stable")
        mine = won[(won["stack"] == stack) & (won["verdict"] == "winner") & (won["best"] == ranks.index[0])]
        found[stack] = f"{ranks.index[0]} ({len(mine)} of {len(wide)})"
    return found


def stack_overview(study: Study, results: Results, place: tuple) -> list[words.Table]:
    """Typical cost of every stack relative to its base, a column a file system; and who is best there."""
    chosen = select(results.typical, PLACE, place).query("relation == 'base' and role != 'ceiling'")
    if chosen.empty:
        return []
    stacks, best = study.stacks(), best_on(study, results, place)
    planned = set(select(study.trials, PLACE, place)["stack"])
    tables = []
    for number, labels in enumerate(_batches(sorted(chosen["label"].unique()))):
        bases = chosen.loc[chosen["label"].isin(labels)].drop_duplicates("label").set_index("label")["reference"]
        rows = []
        for name in (name for name in stacks if name in planned):
            here = chosen[(chosen["stack"] == name) & chosen["label"].isin(labels)]
            row = {"Stack": name, "Disks": stacks[name]["disks"]} | _in_columns(here, labels)
            row |= {label: "1" for label in labels if bases.get(label) == name}
            if set(row[label] for label in labels) == {words.DASH} and number:
                continue
            rows.append(row | ({"Best mean rank (wins)": best.get(name, words.DASH)} if not number else {}))
        caption = (
            f"Stacks, {_place_name(study, place)}: time relative to the same file system on"
            f" {words.listing(sorted(set(bases)), 'or')}, geometric mean over all operations that both completed, with"
            " 95 % interval over rounds, paired by round."
        )
        if not number:
            caption += (
                " Last column: the contender with the best mean rank on that stack, and how many of the operations it"
                " wins."
            )
        left = ["Stack", "Best mean rank (wins)"]
        tables.append(words.Table(f"tbl-{slug('stacks', *place, number)}", caption, rows, left=left))
    return tables


def stack_details(study: Study, results: Results, place: tuple, relation: str = "base") -> list[words.Table]:
    """Every ratio of a stack to its reference with its interval: rows operations and stacks, a column a file system.

    relation `healthy` holds degraded and rebuilding stacks against healthy ones, with a row over all operations first.
    """
    keys = [*PLACE, "relation"]
    chosen = select(results.stacks, keys, (*place, relation)).query("role != 'ceiling'")
    over_all = select(results.typical, keys, (*place, relation)).query("role != 'ceiling'")
    tables = []
    for number, labels in enumerate(_batches(sorted(chosen["label"].unique()))):
        rows = []
        summary = over_all[over_all["label"].isin(labels)].assign(phase="", cache="", position=-1)
        parts = [part for part in (summary, chosen[chosen["label"].isin(labels)]) if len(part)]
        ordered = _order(study, pd.concat(parts))
        for (phase, cache, stack, reference), group in ordered.groupby(
            ["phase", "cache", "stack", "reference"], sort=False
        ):
            title = study.title(place[2], phase, cache) if phase else "**all operations**"
            beside = {"Stack": stack} if relation == "base" else {"Stack": stack, "Beside": reference}
            rows.append({"Operation": title} | beside | _in_columns(group, labels))
        bases = words.listing(sorted(set(chosen["reference"])), "or")
        what = (
            f"Time on each stack relative to the same file system on {bases}"
            if relation == "base"
            else "Time with a fault in the stack relative to the same file system on the healthy stack"
        )
        caption = (
            f"{what}: {_place_name(study, place)}. Ratio of geometric means, paired by round, with its 95 % interval;"
            " where that holds 1, no difference is shown."
        )
        name = f"tbl-{slug('ratios' if relation == 'base' else 'faults', *place, number)}"
        tables.append(words.Table(name, caption, rows, left=["Operation", "Stack", "Beside"]))
    return tables


def rebuilds(study: Study, results: Results, lab: str) -> words.Table:
    """Times to rebuild by one lab's clock."""
    rows = []
    for row in results.rebuilds[results.rebuilds["lab"] == lab].itertuples():
        centre = row.median_ns if row.n >= stats.ENOUGH else row.mean_ns
        rows.append(
            {
                "Stack": row.stack,
                **_where(study, row, ["profile"]),
                "Workload": f"{row.workload} ({row.scale})",
                "File system": row.label,
                "n": row.n,
                "Time to rebuild": words.time(centre),
                "Interval": words.span(row.low_ns, row.high_ns, words.unit_of(centre)[1]),
                "Operations during the rebuild": f"{row.during} of {row.phases}",
            }
        )
    caption = (
        f"Time to rebuild in the lab {lab}, from the addition of the spare to an idle array, while the workload ran."
        f" {interval_note(results.rebuilds[results.rebuilds['lab'] == lab])} An operation that ended after the rebuild"
        " in every round says nothing of it."
    )
    left = ["Stack", "Device profile", "Workload", "File system"]
    return words.Table(f"tbl-{slug('rebuilds', lab)}", caption, rows, left=left)


def stacks(study: Study) -> words.Table:
    """What each stack was: disks, state, initial synchronisation, and what it said of itself."""
    rows = []
    for name, entry in study.stacks().items():
        here = study.trials[study.trials["stack"] == name]
        known = here[here["stack_state"].notna()]
        lines = next(iter(known["stack_readback"].dropna()), "")
        sizes = sorted({text.split(": ")[-1].split(",")[0].removeprefix("each ") for text in known["devices"]})
        state = words.listing(sorted(set(known["stack_state"])), "or") if len(known) else "not built"
        fault = _distinct(known["stack_fault"], "")
        size = f", {'each ' if entry['disks'] > 1 else ''}{words.listing(sizes, 'or')}" if sizes else ""
        rows.append(
            {
                "Stack": name,
                "What it is": entry["title"] + size,
                "State": f"{state}, by {fault}" if fault else state,
                "Initial synchronisation": words.listing(sorted(set(known["stack_initial_sync"].dropna())), "or")
                if len(known)
                else words.DASH,
                "Read back": "; ".join(_shorten(line) for line in lines.splitlines()) or words.DASH,
            }
        )
    caption = (
        "Stacks as they were. State is that of the measured phases. Read back are the lines in which the system named"
        " level, members and state before the first phase; a mismatch with what was asked for fails the trial."
    )
    left = ["Stack", "What it is", "State", "Initial synchronisation", "Read back"]
    return words.Table("tbl-stacks", caption, rows, left=left)


def _shorten(line: str, length: int = 64) -> str:
    return line if len(line) <= length else line[: length - 1].rstrip() + "…"


def conditions(study: Study) -> words.Table | words.Prose:
    """How quiet the hosts of real clocks were, over all their trials."""
    rows = []
    for lab, found in sorted(study.environment.get("conditions", {}).items()):

        def of(name: str, show, found=found) -> str:
            low, high = found.get(name, (None, None))
            return words.DASH if low is None else show(low) if low == high else f"{show(low)} {words.DASH} {show(high)}"

        rows.append(
            {
                "Lab": lab,
                "Trials": found["trials"],
                "Began unsettled": found["unsettled"],
                "Waited (s)": of("settling_s", "{:.1f}".format),
                "Load": of("load_1min", "{:.2f}".format),
                "Time stolen": of("steal_share", words.percent),
                "Frequency (MHz)": of("frequency_mhz", "{:,.0f}".format),
                "Temperature (°C)": of("temperature_c", "{:.0f}".format),
            }
        )
    if not rows:
        return words.Prose("No trial ran on a real clock: conditions of the host have no influence on the numbers.")
    caption = (
        "Conditions of the trials on real clocks: the range over all trials, before and after. A dash: the machine does"
        " not tell."
    )
    return words.Table("tbl-conditions", caption, rows, left=["Lab"])


def orders(study: Study, results: Results, pair: tuple) -> words.Table:
    """How alike two labs order the file systems of each operation; `pair` is (a, b, stack, profile)."""
    rows = [
        {
            "Workload": row.workload,
            "Operation": study.title(row.workload, row.phase, row.cache),
            "File systems": row.labels,
            "τ-b": words.digits(row.tau, 2),
            "Exact p": words.digits(row.p, 2),
            "Told apart in both": f"{row.told} of {row.pairs}",
            "Same order": f"{row.same} of {row.told}" if row.told else words.DASH,
        }
        for row in select(results.orders, ["a", "b", "stack", "profile"], pair)
        .sort_values(["workload", "scale", "position"])
        .itertuples()
    ]
    caption = (
        f"Agreement of the labs {pair[0]} and {pair[1]} on the order of file systems{on(study, pair)}. Kendall's τ-b"
        f" is 1 for the same order and {words.MINUS}1 for the opposite. Told apart are pairs of file systems whose"
        f" ratio's 95 % interval excludes 1 in either lab; of those the last column counts the ones with the same"
        f" order."
    )
    return words.Table(f"tbl-{slug('orders', *pair)}", caption, rows, left=["Workload", "Operation"])


def clocks(study: Study, results: Results, pair: tuple) -> list[words.Table]:
    """Time by the second lab's clock over time by the first's, operations by file systems."""
    keys = ["a", "b", "stack", "profile"]
    chosen = select(results.clocks, keys, pair).sort_values(["workload", "scale", "position", "label"])
    tables = []
    for number, labels in enumerate(_batches(sorted(chosen["label"].unique()))):
        rows = [
            {"Operation": study.title(key[0], key[2], key[3])} | _in_columns(group, labels)
            for key, group in chosen.groupby(stats.OPERATION, sort=False)
        ]
        caption = (
            f"Seconds of the lab {pair[1]} for one second of the lab {pair[0]}{on(study, pair)}: ratio of geometric"
            " means, paired by round (a round has the same input in both), with its 95 % interval. Were the labs"
            " proportional, a row would hold one number."
        )
        tables.append(words.Table(f"tbl-{slug('clocks', *pair, number)}", caption, rows, left=["Operation"]))
    return tables


def on(study: Study, pair: tuple) -> str:
    """The stack and profile of two labs' comparison in brackets, where the study has several; with a space before."""
    parts = _where(study, {"stack": pair[2], "profile": pair[3]}, ["stack", "profile"])
    return f" ({', '.join(f'{key.lower()} {value}' for key, value in parts.items())})" if parts else ""


def lab_pairs(results: Results) -> list[tuple]:
    """Every (lab, other lab, stack, profile) with something to compare."""
    return list(results.agreement[["a", "b", "stack", "profile"]].itertuples(index=False, name=None))


def filesystems(study: Study) -> words.Table:
    """What was made and mounted: title, command, options as read back from the kernel."""
    rows = []
    for label, group in study.trials.groupby("label", sort=True):
        first = group.iloc[0]
        entry = study.plan["filesystems"].get(first["filesystem"], {})
        variant = entry.get("variants", {}).get(first["variant"], {}).get("title")
        title = entry.get("title", first["filesystem"])
        title = f"[{title}]({entry['home']})" if entry.get("home") else title
        rows.append(
            {
                "Name": label,
                "File system": ", ".join(filter(None, [title, variant])),
                "Role": first["role"],
                "Made by": _distinct(group["make_command"], words.DASH),
                "Mounted with (read back)": _distinct(group["mounted_options"].str.replace(",", ", "), "never mounted"),
                "Size": words.listing(
                    [words.size(v) for v in sorted(group["mounted_total_bytes"].dropna().unique())] or [words.DASH],
                    "or",
                ),
            }
        )
    left = ["Name", "File system", "Role", "Made by", "Mounted with (read back)"]
    return words.Table(
        "tbl-filesystems", "File systems: how each was made, and how the kernel says it was mounted.", rows, left=left
    )


def parameters(study: Study) -> words.Table:
    """Parameters of every workload at the scale used."""
    rows = []
    for name in sorted(study.plan["workloads"]):
        entry = study.plan["workloads"][name]
        scales = words.listing(sorted(study.trials.loc[study.trials["workload"] == name, "scale"].unique()))
        for key, value in _leaves(entry.get("scale", {})):
            rows.append({"Workload": f"{name} ({scales})", "Parameter": key.replace("_", " "), "Value": value})
    return words.Table("tbl-parameters", "Parameters of the workloads.", rows, left=["Workload", "Parameter"])


def _synced(times: pd.Series) -> str:
    """Words for the final syncs of a phase; a part of a command has none of its own."""
    return "-" if times.empty else "in the time" if times.max() > 0 else "none"


def phases(study: Study) -> words.Table | words.Prose:
    """What each phase does: operation or command, cache state, items, sync."""
    rows = []
    table = study.phases.sort_values(["workload", "scale", "position"])
    for (workload, phase, cache), group in table.groupby(["workload", "phase", "cache"], sort=False):
        operation = group["operation"].iloc[0]
        rows.append(
            {
                "Workload": workload,
                "Phase": phase,
                "Title": study.title(workload, phase, cache),
                "Caches": cache,
                "Does": f"`{_shorten(group['command'].iloc[0])}`" if operation == "exec" else f"engine: {operation}",
                "Items": _range(group["items"], "{:,}".format),
                "Content": _range(group["bytes"], words.size) if group["bytes"].max() else words.DASH,
                "Final sync": _synced(group["sync_ns"].dropna()),
            }
        )
    if not rows:
        return words.Prose("No phase was measured.")
    left = ["Workload", "Phase", "Title", "Caches", "Does", "Final sync"]
    return words.Table("tbl-phases", "Phases of the workloads, in their order, as recorded.", rows, left=left)


def environment(study: Study) -> words.Table:
    """Recorded facts on the lab and its hosts, with the packages of the file systems and workloads.

    More than one value means that records differ.
    """
    values = study.environment["values"]
    packages = {k.removeprefix("lab.packages."): v for k, v in values.items() if k.startswith("lab.packages.")}
    described = [*study.plan["filesystems"].values(), *study.plan["workloads"].values()]
    used = {name for entry in described for name in entry.get("packages", [])}
    used |= {command.split()[0] for command in study.phases["command"].unique() if command}
    rows = [
        {"What": key, "Value": _values(counts)} for key, counts in values.items() if not key.startswith("lab.packages.")
    ]
    rows += [{"What": f"package {name}", "Value": _values(counts)} for name, counts in packages.items() if name in used]
    caption = "Environment as recorded with the trials."
    if len(packages) > len(used & set(packages)):
        caption += f" The records name all {words.count(len(packages), 'package')} of the image."
    return words.Table("tbl-environment", caption, rows, left=["What", "Value"])


def digests(study: Study) -> words.Table:
    """SHA-256 of the tables: whoever repeats the study gets the same."""
    rows = [{"Table": f"{name}.parquet", "SHA-256": f"`{digest}`"} for name, digest in study.digests.items()]
    return words.Table("tbl-digests", "Digests of the tables of this study.", rows, left=["Table", "SHA-256"])


def trial_command(row) -> str:
    """The command line that repeats one trial (a row of the trials table)."""
    keys = ("lab", "filesystem", "variant", "stack", "profile", "workload", "scale", "round", "seed")
    return (
        "reprofs trial " + " ".join(f"--{key} {shlex.quote(str(row[key]))}" for key in keys) + " --output record.json"
    )


def _values(counts: dict[str, int]) -> str:
    named = {f"`{value}`" if value else "not known": number for value, number in counts.items()}
    if len(named) == 1:
        return next(iter(named))
    shown = [f"{value} ({words.count(number, 'record')})" for value, number in list(named.items())[:3]]
    return ", ".join(shown) + (f" and {len(counts) - 3} more" if len(counts) > 3 else "")


def _distinct(column: pd.Series, nothing: str) -> str:
    values = sorted(set(column.dropna()) - {""})
    return words.listing([f"`{value}`" for value in values], "or") if values else nothing


def _range(column: pd.Series, show) -> str:
    low, high = column.min(), column.max()
    return show(low) if low == high else f"{show(low)} {words.DASH} {show(high)}"


def _leaves(value, prefix: str = ""):
    for key, item in value.items():
        if isinstance(item, dict):
            yield from _leaves(item, f"{prefix}{key} ")
        else:
            text = (
                words.listing(item) if isinstance(item, list) else f"{item:,}" if isinstance(item, int) else str(item)
            )
            yield prefix + key, text
