"""Quality: what completed, what failed and why, and the evidence that the numbers are valid."""

from __future__ import annotations

from reprofs.data.keys import Load, Setting, distinct, select
from reprofs.report.display import DASH, SIGMA, Table, count, listing, percent, verb
from reprofs.report.display import size as bytes_text
from reprofs.report.topics.operations import spread_note
from reprofs.stats.cells import measured
from reprofs.stats.study import Study

WHERE = {"lab": "Lab", "stack": "Stack", "profile": "Device profile"}


def where(study: Study, **parts: str) -> dict[str, str]:
    """Columns for those of lab, stack and profile that differ within the study."""
    return {WHERE[key]: value for key, value in parts.items() if study.trials[key].nunique() > 1}


def facts(study: Study) -> dict:
    """Counts: trials, completed, missing (without a complete result), skipped; of what was verified: files, bytes,
    differing, checks (comparisons by the workloads' own commands), unverified (trials) and unverified_workloads; of
    what was repeated: ran_twice, set_aside; commands outside of phases, commands_failed.
    """
    trials, environment = study.trials, study.environment
    ok = trials[trials["status"] == "ok"]
    unverified = ok[(ok["verified_files"] == 0) & (ok["checks"] == 0)]
    return {
        "trials": len(trials),
        "completed": len(ok),
        "missing": len(trials) - len(ok),
        "skipped": int((trials["status"] == "skipped").sum()),
        "files": int(ok["verified_files"].sum()),
        "bytes": int(ok["verified_bytes"].sum()),
        "differing": int(trials["verified_mismatches"].sum()),
        "checks": int(ok["checks"].sum()),
        "unverified": len(unverified),
        "unverified_workloads": sorted(unverified["workload"].unique()),
        "ran_twice": environment.get("ran_twice", 0),
        "set_aside": environment.get("set_aside", 0),
        "commands": int(trials["commands"].sum()),
        "commands_failed": int(trials["commands_failed"].sum()),
    }


def taken(study: Study) -> str:
    """Where records of equal identity were taken from, in the place of runs; empty where all trials were run."""
    found = study.environment.get("taken", {})
    number = sum(each["taken"] for each in found.values())
    if not number:
        return ""
    names = {"cache": "this machine's cache"}
    places = listing(f"{each['taken']:,} from {names.get(place, place)}" for place, each in sorted(found.items()))
    again, total = sum(each["checked"] for each in found.values()), len(study.trials)
    run = f"{total - number:,} {verb(total - number, 'was', 'were')} run"
    checked = (
        f" {again:,} of those taken {verb(again, 'was', 'were')} run again and measured the same." if again else ""
    )
    return (
        f"{number:,} of {count(total, 'trial')} {verb(number, 'was', 'were')} taken, not run: {places}; {run}.{checked}"
    )


def completeness(study: Study) -> Table:
    """Completed trials of planned ones: file systems by workloads, or, with several settings, settings by workloads."""
    several = len(distinct(study.trials, Setting)) > 1
    loads, rows = distinct(study.trials, Load), []
    settings, labels = (
        distinct(study.trials, Setting),
        study.labels() + study.labels("no-promise") + study.labels("ceiling"),
    )
    for key in settings if several else labels:
        here = select(study.trials, **(key._asdict() if isinstance(key, Setting) else {"label": key}))
        row = {"File system": key}
        if isinstance(key, Setting):
            row = where(study, **key._asdict()) | {"File systems": here["label"].nunique()}
        for load in loads:
            own = select(here, load)
            done = int((own["status"] == "ok").sum())
            row[str(load)] = f"{done} of {len(own)}" if len(own) else "not planned"
        rows.append(row)
    left = [*WHERE.values(), "File system"]
    return Table("tbl-completeness", "Completed trials of those planned.", rows, left=left)


def failures(study: Study) -> Table | None:
    """Trials without a complete result, with reasons; rounds that ended alike are one row. None if all completed."""
    bad = study.trials[study.trials["status"] != "ok"].fillna({"reason": ""})
    rows = []
    keys = [*WHERE, "label", "workload", "scale", "status", "reason", "phases"]
    for key, group in bad.groupby(keys, sort=True):
        row = dict(zip(keys, key, strict=True))
        rows.append(
            {"File system": row["label"]}
            | where(study, **{name: row[name] for name in WHERE})
            | {
                "Workload": f"{row['workload']} ({row['scale']})",
                "Rounds": listing(sorted(group["round"])),
                "Status": row["status"],
                "Reason": row["reason"] or "no reason recorded",
                "Phases": row["phases"],
            }
        )
    caption = "Trials without a complete result. Phases counts those measured before the end; they enter no statistic."
    left = ["File system", *WHERE.values(), "Workload", "Status", "Reason"]
    return Table("tbl-failures", caption, rows, left=left) if rows else None


def cold(study: Study) -> Table | None:
    """Proof of cold caches: for each cold phase the least and most that was read from the device. None without one."""
    phases = measured(study.phases)
    phases = phases[phases["cache"] == "cold"].sort_values(["lab", "workload", "scale", "position"])
    rows = []
    for (lab, workload, phase), group in phases.groupby(["lab", "workload", "phase"], sort=False):
        proved = group["cold_proved"]
        rows.append(
            where(study, lab=lab)
            | {
                "Workload": workload,
                "Phase": study.title(workload, phase, "cold"),
                "Proved": f"{int((proved == True).sum())} of {int(proved.notna().sum())}",  # noqa: E712 (nullable)
                "Not provable": int(proved.isna().sum()),
                "Least read": bytes_text(group.loc[proved.notna(), "cold_read_bytes"].min()),
                "Most read": bytes_text(group.loc[proved.notna(), "cold_read_bytes"].max()),
            }
        )
    caption = (
        "Proof of cold caches: bytes that the phase read from the device. Not provable: trials without a device of"
        " their own, where nothing can be unmounted."
    )
    return Table("tbl-cold", caption, rows, left=["Lab", "Workload", "Phase"]) if rows else None


def driver_share(study: Study) -> Table | None:
    """Share of the time between operations in each phase of the engine. None where all phases are commands."""
    phases = measured(study.phases)
    phases = phases[(phases["operation"] != "exec") & (phases["wall_ns"] > 0)]
    phases = phases.sort_values(["lab", "workload", "scale", "position"])
    phases = phases.assign(share=phases["driver_ns"].astype(float) / phases["wall_ns"].astype(float))
    rows = []
    for (lab, workload, phase, cache), group in phases.groupby(["lab", "workload", "phase", "cache"], sort=False):
        worst = group.sort_values(["share", "label"]).iloc[-1]
        rows.append(
            where(study, lab=lab)
            | {
                "Workload": workload,
                "Phase": study.title(workload, phase, cache),
                "Median share": percent(group["share"].median()),
                "Largest share": percent(worst["share"]),
                "Largest for": worst["label"],
            }
        )
    caption = (
        "Time between the operations as a share of a phase: the driver's own work (names, content, order) and what else"
        " ran on the processor, such as threads of the file system. It is part of every time shown."
    )
    return Table("tbl-driver", caption, rows, left=["Lab", "Workload", "Phase", "Largest for"]) if rows else None


def spread(study: Study) -> Table | None:
    """Coefficient of variation over rounds, one row per lab and file system. None with one round."""
    table = study.results.statistics
    known, rows = table[table["cv"].notna()], []
    for (lab, label), group in known.groupby(["lab", "label"], sort=True):
        worst = group.sort_values(["cv", "phase"]).iloc[-1]
        rows.append(
            {"File system": label}
            | where(study, lab=lab)
            | {
                "Cells": len(group),
                "Median CV": percent(group["cv"].median()),
                "Largest CV": percent(worst["cv"]),
                "Largest in": study.title(worst["workload"], worst["phase"], worst["cache"]),
                **where(study, stack=worst["stack"], profile=worst["profile"]),
                "Outliers": DASH if group["outliers"].isna().all() else int(group["outliers"].sum()),
            }
        )
    caption = (
        f"Coefficient of variation (CV = {SIGMA} / mean) over rounds; a cell is a file system in one operation."
        f" {spread_note(study, *set(known['lab']))} Outliers are those of Tukey's rule,"
        " which can mark none below four rounds; they are kept."
    )
    return Table("tbl-spread", caption, rows, left=["File system", *WHERE.values(), "Largest in"]) if rows else None


def conditions(study: Study) -> Table | None:
    """How quiet the hosts of real clocks were, over all their trials. None where no clock was a real one."""
    rows = []
    for lab, found in sorted(study.environment.get("conditions", {}).items()):

        def of(name: str, show, found=found) -> str:
            low, high = found.get(name, (None, None))
            return DASH if low is None else show(low) if low == high else f"{show(low)} {DASH} {show(high)}"

        rows.append(
            {
                "Lab": lab,
                "Trials": found["trials"],
                "Began unsettled": found["unsettled"],
                "Waited (s)": of("settling_s", "{:.1f}".format),
                "Load": of("load_1min", "{:.2f}".format),
                "Time stolen": of("steal_share", percent),
                "Frequency (MHz)": of("frequency_mhz", "{:,.0f}".format),
                "Temperature (°C)": of("temperature_c", "{:.0f}".format),
            }
        )
    caption = (
        "Conditions of the trials on real clocks: the range over all trials, before and after. A dash: the machine does"
        " not tell."
    )
    return Table("tbl-conditions", caption, rows, left=["Lab"]) if rows else None
