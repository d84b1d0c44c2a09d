"""The tables of the notebooks, as words.Table: statistics and records arranged for a reader, nothing computed anew."""

import shlex

import pandas as pd
import scipy.stats

from . import stats, words
from .dataset import Results, Study

SIGMA = "\N{GREEK SMALL LETTER SIGMA}"
SPREAD = "Spread over rounds is dependence on the input (names, sizes, order, hash seeds), not measurement noise."


def spread_note(study: Study) -> str:
    """What a spread over rounds means in the labs of this study."""
    return (
        SPREAD
        if set(study.trials["lab"]) == {"exact"}
        else "Spread over rounds is dependence on the input and noise together."
    )


def setting_name(setting) -> str:
    """Words for a (lab, stack, profile)."""
    lab, stack, profile = setting
    return f"lab {lab}, stack {stack}, device profile {profile}"


def settings(frame: pd.DataFrame) -> list[tuple]:
    """The settings in a frame, sorted."""
    return sorted(set(frame[stats.SETTING].itertuples(index=False, name=None)))


def slug(*parts: str) -> str:
    """Parts of a name joined so that they serve as file name and anchor."""
    return "-".join("".join(c if c.isalnum() else "-" for c in str(part)) for part in parts)


def select(frame: pd.DataFrame, keys: list[str], values) -> pd.DataFrame:
    """Rows whose `keys` equal `values`."""
    return frame[(frame[keys] == list(values)).all(axis=1)]


def completeness(study: Study) -> words.Table:
    """Completed trials of planned ones, file systems by workloads."""
    planned = study.trials.groupby(["label", "workload", "scale"]).size()
    done = study.trials[study.trials["status"] == "ok"].groupby(["label", "workload", "scale"]).size()
    columns = sorted({key[1:] for key in planned.index})
    rows = []
    for label in study.labels() + study.labels("ceiling"):
        row = {"File system": label}
        for column in columns:
            total = planned.get((label, *column), 0)
            row[f"{column[0]} ({column[1]})"] = (
                f"{done.get((label, *column), 0)} of {total}" if total else "not planned"
            )
        rows.append(row)
    return words.Table("tbl-completeness", "Completed trials of those planned.", rows, left=["File system"])


def failures(study: Study) -> words.Table | words.Prose:
    """Every trial without a complete result, with its reason."""
    bad = study.trials[study.trials["status"] != "ok"].sort_values("trial")
    if bad.empty:
        return words.Prose(
            f"All {words.count(len(study.trials), 'trial')} completed."
            if len(study.trials) != 1
            else "The one trial completed."
        )
    rows = [
        {
            "File system": row.label,
            "Workload": f"{row.workload} ({row.scale})",
            "Round": row.round,
            "Status": row.status,
            "Reason": row.reason or "no reason recorded",
            "Phases": row.phases,
        }
        for row in bad.itertuples()
    ]
    caption = "Trials without a complete result. Phases counts those measured before the end; they enter no statistic."
    return words.Table("tbl-failures", caption, rows, left=["File system", "Workload", "Status", "Reason"])


def cold(study: Study) -> words.Table | words.Prose:
    """Proof of cold caches: for each cold phase the least and most that was read from the device."""
    phases = stats.measured(study.phases)
    phases = phases[phases["cache"] == "cold"].sort_values(["workload", "scale", "position"])
    if phases.empty:
        return words.Prose("No phase of a completed trial was to start with cold caches.")
    rows = []
    for key, group in phases.groupby([*stats.SETTING, "workload", "phase"], sort=False):
        proved = group["cold_proved"]
        rows.append(
            {
                "Workload": key[3],
                "Phase": study.title(key[3], key[4], "cold"),
                "Proved": f"{int((proved == True).sum())} of {int(proved.notna().sum())}",  # noqa: E712 (nullable)
                "Not provable": int(proved.isna().sum()),
                "Least read": words.size(group.loc[proved.notna(), "cold_read_bytes"].min()),
                "Most read": words.size(group.loc[proved.notna(), "cold_read_bytes"].max()),
            }
        )
    caption = (
        "Proof of cold caches: bytes that the phase read from the device. Not provable: file systems without a device."
    )
    return words.Table("tbl-cold", caption, rows, left=["Workload", "Phase"])


def driver_share(study: Study) -> words.Table | words.Prose:
    """Share of the driver's own work in the time of each engine phase."""
    phases = stats.measured(study.phases)
    phases = phases[(phases["operation"] != "exec") & (phases["wall_ns"] > 0)].sort_values(
        ["workload", "scale", "position"]
    )
    if phases.empty:
        return words.Prose(
            "No phase of a completed trial was done by the load engine: commands have no driver's share."
        )
    phases = phases.assign(share=phases["driver_ns"].astype(float) / phases["wall_ns"].astype(float))
    rows = []
    for (workload, phase, cache), group in phases.groupby(["workload", "phase", "cache"], sort=False):
        worst = group.sort_values(["share", "label"]).iloc[-1]
        rows.append(
            {
                "Workload": workload,
                "Phase": study.title(workload, phase, cache),
                "Median share": words.percent(group["share"].median()),
                "Largest share": words.percent(worst["share"]),
                "Largest for": worst["label"],
            }
        )
    caption = "The driver's own share of a phase (names, content, order). It is part of every time shown."
    return words.Table("tbl-driver", caption, rows, left=["Workload", "Phase", "Largest for"])


def spread(study: Study, table: pd.DataFrame) -> words.Table | words.Prose:
    """Coefficient of variation over rounds, one row a file system."""
    known = table[table["cv"].notna()]
    if known.empty:
        return words.Prose("No cell has more than one round, so there is no spread to show.")
    rows = []
    for key, group in known.groupby([*stats.SETTING, "label"], sort=True):
        worst = group.sort_values(["cv", "phase"]).iloc[-1]
        rows.append(
            {
                "File system": key[3],
                "Operations": len(group),
                "Median CV": words.percent(group["cv"].median()),
                "Largest CV": words.percent(worst["cv"]),
                "Largest in": study.title(worst["workload"], worst["phase"], worst["cache"]),
                "Outliers": int(group["outliers"].sum()),
            }
        )
    caption = (
        f"Coefficient of variation (CV = {SIGMA} / mean) over rounds. {spread_note(study)} Outliers by Tukey's rule are"
        " kept."
    )
    return words.Table("tbl-spread", caption, rows, left=["File system", "Largest in"])


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
    caption = f"{title} ({operation[3]}, {operation[4]}). {interval_note(here)}"
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
        f"{workload} ({scale}): each contender against the best. Ratio of geometric means, paired by round; n is the"
        " number of common rounds. The joint interval holds for all contenders of the operation together. δ is Cliff's"
        " delta, p the exact Mann-Whitney test before and after Holm's correction."
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
        "Contenders in the order of their mean rank over operations (1 = always the fastest). Typical cost: geometric"
        " mean of the time relative to the best contender of each operation. Both over operations that all of them"
        " completed."
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
        "Winner of each operation: the contender whose joint interval of the ratio lies above 1 for every other"
        f" contender, else a tie. {interval_note(results.statistics)} In brackets the joint interval of the ratio of"
        f" the next. {spread_note(study)}"
    )
    return words.Table(
        f"tbl-{slug('winners', *setting)}", caption, rows, left=["Workload", "Operation", "Winner", "Next"]
    )


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
                "Does": f"`{group['command'].iloc[0]}`" if operation == "exec" else f"engine: {operation}",
                "Items": _range(group["items"], "{:,}".format),
                "Content": _range(group["bytes"], words.size) if group["bytes"].max() else words.DASH,
                "Final sync": "in the time" if group["sync_ns"].max() > 0 else "none",
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
