"""Methods: what was run and how it was compared, as recorded."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import Any

import pandas as pd

from reprofs.data.keys import SETTING, Setting, distinct, select
from reprofs.plan.cell import apart
from reprofs.plan.device import profile_names
from reprofs.plan.plan import Widest
from reprofs.report.display import DASH, Table, count, digits, listing, percent, reach, verb
from reprofs.report.display import size as bytes_text
from reprofs.report.marks import code, joined, link
from reprofs.report.topics.operations import share
from reprofs.stats import trust
from reprofs.stats.cells import ENOUGH, measured
from reprofs.stats.compare import joint
from reprofs.stats.results import ANALYSIS, caution
from reprofs.stats.study import Study

# Rule, answer, section; in the order of the paper.
RULES = [
    ("Speedups with their base", "every ratio stands beside a time in ms or s", "Question and answer"),
    ("Why a subset", "file systems, sizes and rounds are said, with why no more rounds", "Methods"),
    (
        "Means of costs and rates",
        "arithmetic means of times beside the geometric ones, harmonic means of rates",
        "Statistics",
    ),
    (
        "No summary of ratios",
        "times are summed up, then compared; mean ranks are called what they are",
        "Question and answer",
    ),
    ("Deterministic or not", "what spread means with this clock; 95 % intervals of all times", "Methods; Statistics"),
    ("No normality without a look", "tested where there are rounds enough; medians beside it", "Methods; Statistics"),
    ("Sound comparisons", "paired tests on log ratios, corrected for their number", "Methods"),
    ("More than the mean", "medians, and 99th percentiles of single operations", "Operations; Statistics"),
    (
        "All factors and levels",
        "options of mkfs and mount, features read back, parameters, packages, lab and host",
        "Methods; Environment",
    ),
    ("Parallel times", "how clients begin and what their time is", "Methods"),
    ("Upper bounds", "tmpfs, where it ran; otherwise the report says that no bound ran", "Operations; Methods"),
    ("Plots", "every round is drawn, intervals are named, nothing joins what is not in between", "all figures"),
]

# ---- facts ---------------------------------------------------------------------------------------------------------


def design(study: Study) -> dict:
    """What was run.

    Keys: cells, rounds, trials, settings (words for each), seeds (of the rounds), order (seed of the order), fewer
    (words on the cells that have not all rounds), rule (by which rounds were added, or None), stop (why there are no
    more, or empty), devices (as found), cold_methods, stacked (whether a stack is more than one device), faulty
    (whether a stack had a fault), clocks (lab, clock, least and most ns of a reading).
    """
    trials = study.trials
    methods = set(measured(study.phases)["cold_method"].dropna()) - {""}
    clocks = [
        {"lab": lab, "clock": clock, "low": group["clock_read_ns"].min(), "high": group["clock_read_ns"].max()}
        for (lab, clock), group in trials.dropna(subset=["clock_name"]).groupby(["lab", "clock_name"])
    ]
    rounds = trials.groupby([*SETTING, "label", "workload", "scale"])["round"].nunique()
    fewer = rounds[rounds < rounds.max()].value_counts().sort_index()
    return {
        "cells": len(rounds),
        "rounds": trials["round"].nunique(),
        "fewer": [
            f"{count(cells, 'cell')} {verb(cells, 'has', 'have')} only {count(number, 'round')}"
            for number, cells in fewer.items()
        ],
        "trials": len(trials),
        "settings": [str(setting) for setting in distinct(trials, Setting)],
        "numbers": {key: trials[key].nunique() for key in SETTING},
        "seeds": sorted(trials["seed"].unique()),
        "order": study.plan.study.seed,
        **stopping(study),
        "devices": sorted(set(trials["devices"].dropna()) - {""}),
        "cold_methods": sorted(methods),
        "stacked": set(trials["stack"]) != {"single"},
        "faulty": bool((trials["stack_state"].dropna() != "healthy").any()),
        "clocks": clocks,
    }


def stopping(study: Study) -> dict:
    """rule (until, max, looks: words; None where the number of rounds was fixed), stop (why there are no more)."""
    found = study.plan.stopping
    if not found:
        return {"rule": None, "stop": (study.plan.study.stop or "").rstrip(".")}
    rule, last = found.rule, found.looks[-1]
    within = f"known within ±{rule.until}"
    if found.why == "alone":
        stop = f"after {last.rounds} there were no two contenders to compare"
    elif found.why == "most":
        stop = f"there were {last.rounds}, the most that were allowed, though {last.open} of these ratios"
        stop += f" {verb(last.open, 'was', 'were')} not {within}"
    elif last.widest:
        stop = f"after {last.rounds} all these ratios were {within}"
    else:
        stop = f"after {last.rounds} every contender but the best of each workload was shown to be slower"
    if last.widest:
        stop += f"; {_widest(study, last.widest)}"
    return {
        "rule": {"until": rule.until, "max": rule.max, "looks": listing(map(str, rule.looks()), "or")},
        "stop": stop,
    }


def _widest(study: Study, one: Widest) -> str:
    """Words on the ratio that is known worst."""
    at = study.differing(**{key: getattr(one, key) for key in SETTING})
    part = f", {one.phase} ({one.cache})" if one.cache else ""
    where = f"{one.workload} ({one.scale}{f', {at}' if at else ''}){part}"
    known = "without an interval" if one.half_width is None else f"within ±{percent(one.half_width)}"
    return f"the one known worst, of {one.other} to {one.best} in {where}, {known}"


def described(study: Study) -> list[dict]:
    """What the study is made of: kind, name, title, and of a workload about (description, source, differences)."""
    found, told = [], set()
    for name in sorted(study.trials["workload"].unique()):
        entry = study.plan.workloads[name]
        texts = {"": entry.description, "Source: ": entry.source, "Differs from the source: ": entry.differs}
        about = " ".join(f"{prefix}{_stopped(text)}" for prefix, text in texts.items() if text)
        # Of a workload with modifiers only the title is new.
        found.append(_entry("Workload", name, entry.title) | {"about": "" if about in told else about})
        told.add(about)
    for name in sorted(study.trials["profile"].unique()):
        titles = [disk.title for disk in study.plan.disks(name)] or [name]
        found.append(_entry("Device profile", name, "; the last disk: ".join(titles)) | {"about": ""})
    if not design(study)["stacked"]:
        found += [_entry("Stack", name, stack.title) | {"about": ""} for name, stack in study.stacks().items()]
    return found


def _stopped(text: str) -> str:
    return text if text.endswith((".", ".)")) else text + "."


def _entry(kind: str, name: str, title: str) -> dict:
    return {"kind": kind, "name": name, "title": title.rstrip(".")}


def sync(study: Study) -> dict:
    """Phases whose time includes a final sync of the file system (synced), and the others (unsynced), as code."""
    times = study.phases.groupby(["workload", "phase", "cache"], sort=False)["sync_ns"].max()
    times = times.dropna() > 0  # a part of a command has no sync of its own
    caches = study.phases.groupby(["workload", "phase"])["cache"].nunique()

    def names(chosen: pd.Series) -> list[str]:
        return list(
            dict.fromkeys(code(p) + (f" ({c})" if caches[w, p] > 1 else "") for w, p, c in chosen.index[chosen])
        )

    return {"synced": names(times), "unsynced": names(~times)} if len(times) else {"synced": [], "unsynced": []}


def tests(study: Study) -> dict:
    """Which statistics these rounds allow.

    Keys: rounds (fewest and most of a cell with a result), pairs (whether file systems were compared), operations (so
    many tests are corrected for), totals (so many for those of workloads), clients (whether several work at once),
    bounds (whether an upper bound ran), normal (cells whose logarithms were tested for normality, and those refuted by
    Holm's method over them), detectable (median and largest ratio to the best that these rounds would have shown,
    over operations; None where not known), win, equal (margins as words), enough (rounds for what needs six), stacks
    and labs (whether compared), analysis (the number of the analysis), caution (see stats.results), level (of the
    intervals of ratios, as words).
    """
    found, n, shapes = study.results, study.results.statistics["n"], study.shapes
    detectable = found.winners["detectable"].dropna()
    return {
        "rounds": (int(n.min()), int(n.max())) if len(n) else (0, 0),
        "pairs": bool(found.pairwise["contenders"].any()),
        "operations": int(found.winners["p"].notna().sum()),
        "totals": int(found.cheapest["p"].notna().sum()),
        "clients": any(entry.clients > 1 for entry in study.plan.workloads.values()),
        "bounds": study.labels("ceiling"),
        "normal": (len(shapes), int((shapes["p_holm"] < 0.05).sum())),
        "detectable": (detectable.median() - 1, detectable.max() - 1) if len(detectable) else None,
        **{name: share(study.margins[name]) for name in ("win", "equal")},
        "enough": ENOUGH,
        "stacks": len(found.stacks) > 0,
        "labs": len(found.agreement) > 0,
        "analysis": ANALYSIS,
        "caution": caution(study),
        "level": share(joint(caution(study))),
    }


ROLES = {"contender": "contender", "ceiling": "upper bound", "no-promise": "not ranked: fsync is not kept"}
STABILITY = {
    "order": "place of a trial within its round",
    "drift": "trend over rounds",
    "autocorrelation": "likeness of neighbouring rounds",
    "change": "step between two rounds",
}


def stability(study: Study) -> dict:
    """What was tested of when trials ran: tested (lab, what, p, p_holm), found (those at 5 %), untested (words), exact
    (whether there are labs whose trials cannot influence each other, which are not tested).
    """
    rows = [row | {"what": STABILITY[row["test"]]} for row in study.results.stability.to_dict("records")]
    tested = [row for row in rows if row["p"] == row["p"]]
    return {
        "tested": tested,
        "found": [row for row in tested if row["p_holm"] < 0.05],
        "exact": bool(study.exact_labs),
        "untested": list(dict.fromkeys(row["what"] for row in rows if row["p"] != row["p"])),
    }


def components(study: Study) -> Table | None:
    """Medians of the variance components over the operations of each workload. None where there are none."""
    rows = []
    keys = [*SETTING, "workload", "scale"]
    for key, own in study.results.components.groupby(keys, sort=True):
        place = dict(zip(keys, key, strict=True))
        where = study.differing(**{name: place[name] for name in SETTING})
        rows.append(
            {"Workload": f"{place['workload']} ({place['scale']}{', ' + where if where else ''})"}
            | {"Operations": len(own), "Rounds": reach(own["rounds"].min(), own["rounds"].max(), str)}
            | {"File systems": percent(own["filesystem"].median()), "Rounds together": percent(own["round"].median())}
            | {"Their interaction": percent(own["interaction"].median())}
        )
    caption = (
        "What the times vary by: standard deviations of their logarithms, medians over operations. File systems: how"
        " far they are apart. Rounds together: by how much all of them are slower with one input than with another,"
        " which ratios paired by round do not contain. Their interaction: by how much each differs in its own way,"
        " which they"
        " do; with one measurement a cell, noise is part of it."
    )
    return Table("tbl-components", caption, rows, left=["Workload"]) if rows else None


def trusted(study: Study) -> list[dict]:
    """What was measured of each modelled processor beside a real machine: lab, trust (None where nothing was)."""
    labs = sorted(lab for lab in study.exact_labs if trust.processor(study, lab))
    return [{"lab": lab, "trust": trust.known(study, lab)} for lab in labs]


# ---- tables --------------------------------------------------------------------------------------------------------


def stacks(study: Study) -> Table:
    """What each stack was: disks, state, initial synchronisation, and what it said of itself."""
    rows = []
    for name, entry in study.stacks().items():
        here = select(study.trials, stack=name)
        known = here[here["stack_state"].notna()]
        lines = next(iter(known["stack_readback"].dropna()), "")
        sizes = sorted({text.split(": ")[-1].split(",")[0].removeprefix("each ") for text in known["devices"]})
        size = f", {'each ' if entry.disks > 1 else ''}{listing(sizes, 'or')}" if sizes else ""
        state = listing(sorted(set(known["stack_state"])), "or") if len(known) else "not built"
        fault = _distinct(known["stack_fault"], "")
        synced = listing(sorted(set(known["stack_initial_sync"].dropna())), "or") if len(known) else DASH
        rows.append(
            {
                "Stack": name,
                "What it is": entry.title + size + last_disks(known["profile"].unique()),
                "State": f"{state}, by {fault}" if fault else state,
                "Initial synchronisation": synced,
                "Read back": "; ".join(_shorten(line) for line in lines.splitlines()) or DASH,
            }
        )
    caption = (
        "Stacks as they were. State is that of the measured phases. Read back are the lines in which the system named"
        " level, members and state before the first phase; a mismatch with what was asked for fails the trial."
    )
    left = ["Stack", "What it is", "State", "Initial synchronisation", "Read back"]
    return Table("tbl-stacks", caption, rows, left=left)


def last_disks(profiles: Iterable[str]) -> str:
    """Which disk has which device profile, of those profiles that have two names; nothing without any."""
    pairs = [names for names in map(profile_names, sorted(profiles)) if len(names) > 1]
    return "".join(f"; with {one}+{last} the last disk is {last}, all others {one}" for one, last in pairs)


def hosts(study: Study) -> Table | None:
    """The hosts of distributed file systems in every lab, and whose the processors are; None without any."""
    rows = []
    for place, lab in study.plan.labs.items():
        for name, entry in study.plan.filesystems.items():
            if not (entry.hosts and (study.trials["lab"].eq(place) & study.trials["filesystem"].eq(name)).any()):
                continue
            servers, processor = entry.hosts.servers, lab.processor
            if processor is None:
                whose = "those of the machine, for all"
            elif processor.apart(servers):
                whose = f"one for each server, {processor.count - servers} for the clients"
            else:
                whose = f"{processor.count}, for all"
            row = {"Lab": place, "File system": name, "Servers": f"{servers}"}
            rows.append(row | {"Hosts of clients, at most": f"{entry.hosts.clients}", "Processors": whose})
    caption = (
        "Hosts: network namespaces of one machine. Only a server's programs, and the kernel's threads of an NFS server,"
        " run on its own core, other threads of the kernel wherever there is time; how busy the processors were is then"
        " told of the clients' cores. Where clients run on servers, all share all."
    )
    return Table("tbl-hosts", caption, rows, left=["Lab", "File system", "Processors"]) if rows else None


def networks(study: Study) -> Table | None:
    """The networks between hosts, by their files, and what their queues counted; None without any."""
    used, rows = study.trials["variant"].map(lambda variant: apart(variant)[1]), []
    for name, network in study.plan.networks.items():
        here = study.trials[used == name]
        counts = {"Frames a trial": here["network_frames"], "Dropped": here["network_dropped"]}
        rows.append(
            {"Network": name, "What it is": network.title}
            | {"Rate": f"{digits(network.rate_mbit)} Mbit/s" if network.rate_mbit else "not limited"}
            | {"Delay": f"{network.delay_us:g} µs", "Loss": f"{network.loss_percent:g} %"}
            | {"Queue": count(network.queue_frames, "frame"), "MTU": f"{network.mtu:,} bytes"}
            | {
                head: reach(column.min(), column.max(), lambda value: f"{value:,.0f}") if column.notna().any() else DASH
                for head, column in counts.items()
            }
        )
    caption = (
        "Networks: every host has a cable to one switch; rate, delay, loss and queue are those of each of its two"
        " ends. Frames are those that all ends sent, from the start of the servers on; dropped ones found a queue full"
        " or were lost at random, where a network loses some."
    )
    return Table("tbl-networks", caption, rows, left=["Network", "What it is"]) if rows else None


def filesystems(study: Study) -> Table:
    """What was made and mounted: title, command, options as read back from the kernel; a row for each set."""
    rows = []
    several = study.trials["stack"].nunique() > 1
    for label, group in study.trials.groupby("label", sort=True):
        first = group.iloc[0]
        entry = study.plan.filesystems[first["filesystem"]]
        variant = entry.variants[apart(first["variant"])[0]].title
        title = link(entry.title, entry.home)
        told = {"Name": label, "File system": joined(filter(None, [title, variant]), ", ")}
        told["Role"] = listing(ROLES[role] for role in dict.fromkeys(group["role"]))
        # The port of NFS's mount server is another one after every start.
        options = group["mounted_options"].str.replace(r"\bmountport=[0-9]+", "mountport=*", regex=True)
        how = group.assign(mounted_options=options)[["make_command", "mounted_options", "mounted_total_bytes", "stack"]]
        known = how.dropna(subset="mounted_options")
        shown = known if len(known) else how[:1]
        columns = ["make_command", "mounted_options", "mounted_total_bytes"]
        for (made, mounted, size), same in shown.groupby(columns, sort=False, dropna=False):
            rows.append(
                told
                | ({"Stack": listing(same["stack"].unique())} if several else {})
                | {
                    "Made by": code(made) if isinstance(made, str) and made else DASH,
                    "Mounted with (read back)": code(mounted.replace(",", ", "))
                    if isinstance(mounted, str)
                    else "never mounted",
                    "Size": bytes_text(size) if pd.notna(size) else DASH,
                }
            )
            told = dict.fromkeys(told, "")
    caption = "File systems: how each was made, and how the kernel says it was mounted."
    left = ["Name", "File system", "Role", "Stack", "Made by", "Mounted with (read back)"]
    return Table("tbl-filesystems", caption, rows, left=left)


def parameters(study: Study) -> Table:
    """Parameters of every workload at the scale used."""
    rows = []
    for name in sorted(study.plan.workloads):
        scales = listing(sorted(study.trials.loc[study.trials["workload"] == name, "scale"].unique()))
        values = sorted(study.plan.workloads[name].parameters.items())
        texts = {key: f"{value:,}" if isinstance(value, int) else f"{value}" for key, value in values}
        told = "; ".join(f"{key.replace('_', ' ')} {text}" for key, text in texts.items())
        rows.append({"Workload": f"{name} ({scales})", "Parameters": told or DASH})
    return Table("tbl-parameters", "Parameters of the workloads.", rows, left=["Workload", "Parameters"])


def phases(study: Study) -> Table | None:
    """What each phase does: operation or command, cache state, items, sync. None where no phase was measured."""
    rows = []
    table = study.phases.sort_values(["workload", "scale", "position"])
    for (workload, phase, cache), group in table.groupby(["workload", "phase", "cache"], sort=False):
        operation, synced = group["operation"].iloc[0], group["sync_ns"].dropna()
        command = code(_shorten(group["command"].iloc[0]))
        rows.append(
            {
                "Workload": workload,
                "Phase": phase,
                "Title": study.title(workload, phase, cache),
                "Caches": cache,
                "Does": command if operation == "exec" else f"engine: {operation}",
                "Items": _range(group["items"], "{:,}".format),
                "Content": _range(group["bytes"], bytes_text) if group["bytes"].max() else DASH,
                # A part of a command has no sync of its own.
                "Final sync": DASH if synced.empty else "in the time" if synced.max() > 0 else "none",
            }
        )
    left = ["Workload", "Phase", "Title", "Caches", "Does", "Final sync"]
    caption = "Phases of the workloads, in their order, as recorded."
    return Table("tbl-phases", caption, rows, left=left) if rows else None


def trial_command(row: Any) -> str:
    """The command line that repeats one trial (a row of the trials table)."""
    keys = ("lab", "filesystem", "variant", "stack", "profile", "workload", "scale", "round", "seed")
    options = " ".join(f"--{key} {shlex.quote(str(row[key]))}" for key in keys)
    return f"reprofs trial {options} --output record.json"


def _shorten(line: str, length: int = 64) -> str:
    return line if len(line) <= length else line[: length - 1].rstrip() + "…"


def _distinct(column: pd.Series, nothing: str) -> str:
    values = sorted(set(column.dropna()) - {""})
    return listing([code(value) for value in values], "or") if values else nothing


def _range(column: pd.Series, show: Any) -> str:
    low, high = column.min(), column.max()
    return show(low) if low == high else f"{show(low)} {DASH} {show(high)}"


def rules() -> Table:
    """How the report answers the twelve rules of Hoefler and Belli, and where.

    Source: T. Hoefler and R. Belli, Scientific Benchmarking of Parallel Computing Systems, SC '15, table of rules.
    """
    rows = [
        {"No.": str(number), "Rule": rule, "Here": here, "Place": place}
        for number, (rule, here, place) in enumerate(RULES, 1)
    ]
    caption = "The twelve rules of T. Hoefler and R. Belli (SC '15), and where this report answers them."
    return Table("tbl-rules", caption, rows, left=["Rule", "Here", "Place"])
