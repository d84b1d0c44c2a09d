"""Sentences on threats to validity, each from something in the plan or in the records; empty where it is no threat."""

from __future__ import annotations

from typing import Any

import pandas as pd

from reprofs.data.keys import OPERATION, SETTING
from reprofs.plan.device import Solid
from reprofs.plan.workload import PULLS
from reprofs.report.words import count, listing, percent, reach, verb
from reprofs.stats import cells
from reprofs.stats.cells import ENOUGH, driver_bound, measured
from reprofs.stats.study import Study

MOST_IDLE = 0.1  # share of an operation that may be left unexplained
SMALL_BTRFS = 2 << 30  # bytes, from which on it does not wait (study small-devices)
STARTS = 6  # the protocol from which on a round's seed draws the moment of the start, too


def spread(study: Study, *labs: str) -> str:
    """What a spread over repetitions means in these labs, by default all."""
    exact = {study.lab(name).exact for name in labs or study.plan.labs}
    start = " and of the moment of the start" if study.plan.protocol >= STARTS else ""
    virtual = f"Repetitions differ in names, sizes, order and hash seeds{start}: their spread is no measurement noise."
    if exact == {True}:
        return virtual
    noisy = "On a real clock the spread of repetitions is that of the input and noise together."
    return f"{virtual} {noisy}" if True in exact else noisy


def real_clocks(study: Study) -> list[str]:
    """What disturbed each real clock, as recorded; a sentence a lab."""
    found = []
    for lab, seen in sorted(study.environment.get("conditions", {}).items()):
        told = [f"load {_reach(seen['load_1min'], '{:.2f}'.format)}"] if seen.get("load_1min") else []
        told += [f"{_reach(seen['steal_share'], percent)} of time stolen"] if seen.get("steal_share") else []
        told += [f"{_reach(seen['frequency_mhz'], '{:,.0f}'.format)} MHz"] if seen.get("frequency_mhz") else []
        told += [f"up to {seen['temperature_c'][1]:.0f} °C"] if seen.get("temperature_c") else []
        unsettled = (
            f"; {count(seen['unsettled'], 'trial')} began before the host was quiet" if seen["unsettled"] else ""
        )
        found.append(f"Conditions of the lab {lab} over {count(seen['trials'], 'trial')}: {listing(told)}{unsettled}.")
    return found


def _reach(ends: list[float], show: Any) -> str:
    return reach(ends[0], ends[-1], show)


def one_machine(study: Study) -> str:
    """That all trials on real clocks ran on one machine."""
    real = sorted(lab for lab in set(study.trials["lab"]) if not study.lab(lab).exact)
    hosts = study.environment["values"].get("host.cpu", {})
    if not real or len(hosts) != 1:
        return ""
    return f"All times of {listing(real)} are from one machine ({next(iter(hosts))}); others may rank otherwise."


def memory(study: Study) -> str:
    """What a limit of memory does not cover."""
    if not study.plan.memory_limits():
        return ""
    return "Memory limits do not count XFS's metadata buffers and OpenZFS's cache, which leaves these more memory."


def models(study: Study) -> list[str]:
    """What device models leave out, and what their own code costs."""
    ok = study.trials[study.trials["status"] == "ok"]
    used = [device for profile in ok["profile"].unique() for device in study.plan.disks(profile)]
    told = []
    if any(not device.drive and device.completion_ns for device in used):
        told.append("Devices have a fixed completion time and bandwidth: no seeks, no wear, no cache of their own.")
    if any(device.drive for device in used):
        wear = "" if all(isinstance(device.drive, Solid) and device.drive.flash for device in used) else " no wear,"
        told.append(f"Modelled disks follow equations (`docs/methods/devices.md`): no defects,{wear} no firmware.")
    phases = measured(study.phases)
    share = (phases["device_model_ns"].astype(float) / phases["wall_ns"].astype(float)).dropna()
    if len(share):
        worst = phases.loc[share.idxmax()]
        title = study.title(worst["workload"], worst["phase"], worst["cache"])
        most = f"at most {percent(share.max())} ({title}, {worst['label']})"
        told.append(f"The disk models run on the guest's CPU: {percent(share.median())} of a phase (median), {most}.")
    return told


def assumed(study: Study) -> str:
    """That the redundancy of stacks was assumed to be complete, not written."""
    told = study.trials["stack_initial_sync"].str.startswith("assumed").fillna(False)
    names = sorted(set(study.trials.loc[told & study.trials["stack_state"].notna(), "stack"]))
    if not names:
        return ""
    which = listing(names) if len(names) <= 6 else count(len(names), "stack")
    return f"The redundancy of {which} was complete from the start, as of zeros; writing it is not measured."


def rebuilt(study: Study) -> str:
    """That a rebuild ended before the phase that it should disturb."""
    over = study.phases[(study.phases["status"] == "ok") & (study.phases["operation"] != "rebuild")]
    over = over[(over["rebuilding"] == False).fillna(False)]  # noqa: E712 (nullable)
    if over.empty:
        return ""
    stacks = listing(sorted(set(over["stack"])))
    return f"In {count(len(over), 'phase')} on {stacks} the rebuild ended before the phase, which it disturbed in part."


def few(study: Study) -> str:
    """That repetitions are too few to check their distribution."""
    ok = study.trials[study.trials["status"] == "ok"]
    least = ok.groupby([*SETTING, "label", "workload", "scale"]).size().min()
    if not len(ok) or least >= ENOUGH:
        return ""
    return f"A configuration has only {count(int(least), 'repetition')}: too few to check that times are log-normal."


def new(study: Study) -> str:
    """That file systems were new."""
    if not any(study.lab(lab).provisions for lab in set(study.trials["lab"])):
        return ""
    entries = study.plan.workloads.items()
    aged = sorted(name for name, one in entries if one.fill or one.pulls or one.size == PULLS or one.runs > 1)
    if aged:
        does = verb(len(aged), "ages or fills", "age or fill")
        return f"Every file system was new, except in {listing(aged)}, which {does} it."
    return "Every file system was new; ageing, fragmentation and full devices were not measured."


def cold(study: Study) -> str:
    """That cold caches are not proved in some phases."""
    phases = measured(study.phases)
    failed = phases[(phases["cache"] == "cold") & (phases["cold_proved"] == False)]  # noqa: E712 (nullable)
    if failed.empty:
        return ""
    names = listing(sorted(set(failed["label"] + " " + failed["phase"])), most=8)
    return f"In {count(len(failed), 'phase')} cold caches are not proved (nothing was read): {names}."


def idle(study: Study) -> list[str]:
    """Where neither processor nor device works for more than a tenth of the time, and why; a sentence a reason.

    `In 1 of 54 operations neither processor nor device works for more than 10 % of the time (“Create files” on btrfs,
    41 %): Btrfs waits for room in a file system below 2 GiB.`
    """
    phases = measured(study.phases.assign(idle=cells.idle(study)))
    timed = {
        (name, phase.name) for name, entry in study.plan.workloads.items() for phase in entry.phases if phase.timed
    }
    phases = phases[pd.MultiIndex.from_frame(phases[["workload", "phase"]]).isin(timed)]
    own = phases[phases["role"] == "contender"].merge(study.trials[["trial", "mounted_total_bytes"]], on="trial")
    keys = [*SETTING, *OPERATION, "label", "filesystem"]
    found = own.groupby(keys)[["idle", "mounted_total_bytes"]].mean().reset_index()
    others = found.groupby(keys[:-2])["idle"]
    found["everywhere"] = (others.transform("min") > MOST_IDLE) & (others.transform("size") > 1)
    high = found[found["idle"] > MOST_IDLE]
    reasons = pd.Series([_waits_for(study, row) for row in high.to_dict("records")], high.index, dtype=object)
    told = []
    for reason, rows in high.groupby(reasons, sort=False):
        worst = rows.loc[rows["idle"].idxmax()]
        title = study.title(worst["workload"], worst["phase"], worst["cache"])
        most = f"{'most: ' if len(rows) > 1 else ''}“{title}” on {worst['label']}, {100 * worst['idle']:.0f} %"
        where = f"In {len(rows):,} of {count(len(found), 'operation')} neither processor nor device works"
        told.append(f"{where} for more than {100 * MOST_IDLE:g} % of the time ({most}): {reason}.")
    return told


def _waits_for(study: Study, row: dict[str, Any]) -> str:
    """What is waited for, as far as it is known. row: filesystem, mounted_total_bytes, everywhere: in all of them."""
    if study.plan.filesystems[row["filesystem"]].hosts:
        return "nodes wait for one another"
    if row["everywhere"]:
        return "on every file system, so the program itself waits"
    if row["filesystem"] == "btrfs" and row["mounted_total_bytes"] < SMALL_BTRFS:
        return "Btrfs waits for room in a file system below 2 GiB"
    return "what is waited for is not known"


def driver(study: Study) -> list[str]:
    """How much of a phase the driver's own work can be, a sentence a lab."""
    phases = measured(study.phases)
    phases = phases[phases["wall_ns"] > 0].assign(share=driver_bound)
    own = phases[phases["role"] == "contender"].dropna(subset="share")
    told = []
    for lab, rows in own.groupby("lab"):
        most = rows["share"].max()
        if most > 0.1:
            worst = rows.loc[rows["share"].idxmax()]
            title = study.title(worst["workload"], worst["phase"], worst["cache"])
            told.append(f"In {lab} the driver takes up to {percent(most)} of a phase ({title}), which narrows ratios.")
    return told


def commands(study: Study) -> str:
    """That phases measure the programs which they execute."""
    phases = measured(study.phases)
    executed = phases.loc[phases["operation"] == "exec", "command"]
    names = sorted({command.split()[0] for command in executed if command})
    if not names:
        return ""
    return f"Phases that execute {listing(names, most=6)} measure that program as well, which narrows ratios."


def baseline(study: Study) -> str:
    """Where a baseline is slower than a file system."""
    table, keys = study.results.statistics, [*SETTING, *OPERATION]
    best = table[table["role"] == "contender"].groupby(keys)["geometric_mean_ns"].min()
    bound = table[table["role"] == "ceiling"].groupby(keys)["geometric_mean_ns"].min()
    ratio = bound / best
    slower = list(dict.fromkeys(study.title(key[3], key[5], key[6]) for key in ratio.index[ratio > 1]))
    if not slower:
        return ""
    names = study.labels("ceiling")
    where = listing(slower, most=6)
    return f"{listing(names)} {verb(len(names), 'is', 'are')} no baseline in {where}: slower than the fastest."


def missing(study: Study) -> str:
    """That contenders have no result."""
    bad = study.trials[(study.trials["status"] != "ok") & (study.trials["status"] != "skipped")]
    names = sorted(bad["label"].unique())
    return f"Results are missing of {listing(names, most=8)}; ratios use common repetitions." if names else ""


def every(study: Study) -> list[str]:
    """All of them; those of times where times are a result."""
    told = [spread(study), *real_clocks(study), one_machine(study), memory(study), *models(study), assumed(study)]
    times = [few(study), new(study), cold(study), *idle(study), *driver(study), commands(study), baseline(study)]
    told += [rebuilt(study), *(times if study.timed else [])]
    return [one for one in [*told, study.limit, missing(study)] if one]
