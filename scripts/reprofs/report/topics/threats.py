"""Threats to validity, each from something in the plan or in the records."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import pandas as pd

from reprofs.data.keys import OPERATION, SETTING, natural
from reprofs.report.display import Table, listing, percent
from reprofs.stats.cells import ENOUGH, driver_bound, measured
from reprofs.stats.study import Study


def meanings(study: Study, labs: Iterable[str] | None = None) -> list[str]:
    """What the clock of each lab means, in the lab's own words; labs that differ in their number of cores at once.

    labs: which; default all.
    """
    labs = sorted(set(study.trials["lab"])) if labs is None else labs
    found: dict[str, list[str]] = {}
    for text in dict.fromkeys(study.lab(lab).meaning for lab in labs):
        cores = re.search(r"(?<=\blab with )\d+(?= cores )", text)
        key = f"{text[: cores.start()]}{{}}{text[cores.end() :]}" if cores else text
        found.setdefault(key, []).append(cores[0] if cores else "")
    return [text.replace("{}", listing(sorted(numbers, key=natural), "or")) for text, numbers in found.items()]


def real_clocks(study: Study) -> list[dict]:
    """What disturbed each real clock: lab, trials, unsettled, reason (an example), and ranges of what was recorded.

    Ranges are [low, high] under load_1min, steal_share, frequency_mhz, temperature_c; None where the machine does not
    tell them.
    """
    found, nothing = [], dict.fromkeys(("load_1min", "steal_share", "frequency_mhz", "temperature_c"))
    for lab, seen in sorted(study.environment.get("conditions", {}).items()):
        reasons = sorted(study.trials.loc[study.trials["lab"] == lab, "settling_reason"].dropna().unique())
        found.append(nothing | {"lab": lab, "reason": reasons[-1].rstrip(".") if reasons else ""} | seen)
    return found


def processors(study: Study) -> Table | None:
    """How busy the processors were: the share of the phases' time, over the rounds; None where no trial tells that.

    Rows: what differs of lab, stack and profile, and the file system, the busiest first; a column a workload.
    """
    phases = measured(study.phases).dropna(subset="processor_busy")
    if phases.empty:
        return None
    title = phases["workload"].map(lambda name: study.plan.workloads[name].title)
    time_ns = phases["wall_ns"].astype(float)
    worked = phases.assign(title=title, time_ns=time_ns, busy_ns=time_ns * phases["processor_busy"].astype(float))
    sums = worked.groupby([*SETTING, "label", "title"], sort=False)[["busy_ns", "time_ns"]].sum()
    wide = (sums["busy_ns"] / sums["time_ns"]).unstack()
    wide = wide.loc[wide.mean(axis=1).sort_values(ascending=False, kind="stable").index, title.unique()]
    rows = []
    for (*where, label), row in wide.iterrows():
        place = study.differing(**dict(zip(SETTING, where, strict=True)))
        rows.append(({"Where": place} if place else {}) | {"File system": label} | row.map(percent).to_dict())
    caption = "Share of the time of the phases in which the processors worked, all that were there, over all rounds."
    several = sorted({lab.processor.count for lab in study.plan.labs.values() if lab.processor} - {1})
    if several:
        share = listing(f"{percent(1 / count)} of {count}" for count in several)
        caption += f" One thread can take at most {share} processors."
    if any(count > 2 for count in several):
        caption += " On more than two cores it may be off by 2.5 ms of a phase (docs/methods/trial.md)."
    return Table("tbl-processor", caption, rows, left=["Where", "File system"])


def shared_processors(study: Study) -> bool:
    """Whether several hosts of a distributed file system run on one machine."""
    return any(study.plan.filesystems[name].hosts for name in set(study.trials["filesystem"]))


def one_machine(study: Study) -> dict | None:
    """Labs with real clocks whose trials all ran on one machine, and its processor; None otherwise."""
    real = sorted(lab for lab in set(study.trials["lab"]) if not study.lab(lab).exact)
    hosts = study.environment["values"].get("host.cpu", {})
    return {"labs": real, "cpu": next(iter(hosts))} if real and len(hosts) == 1 else None


def models(study: Study) -> dict:
    """Which device models were used: fixed (a completion time each), disks (modelled disks); of the latter's code the
    share of a phase's time: median, most, and where (title, label); None where not known.
    """
    ok = study.trials[study.trials["status"] == "ok"]
    used = [device for profile in ok["profile"].unique() for device in study.plan.disks(profile)]
    phases = measured(study.phases)
    share = (phases["device_model_ns"].astype(float) / phases["wall_ns"].astype(float)).dropna()
    fixed = any(not device.drive and device.completion_ns for device in used)
    found: dict = {"fixed": fixed, "disks": any(device.drive for device in used), "share": None}
    if len(share):
        worst = phases.loc[share.idxmax()]
        title = study.title(worst["workload"], worst["phase"], worst["cache"])
        found["share"] = {"median": share.median(), "most": share.max(), "title": title, "label": worst["label"]}
    return found


def assumed_stacks(study: Study) -> list[str]:
    """Stacks whose redundancy was taken to be complete from the start."""
    told = study.trials["stack_initial_sync"].str.startswith("assumed").fillna(False)
    return sorted(set(study.trials.loc[told & study.trials["stack_state"].notna(), "stack"]))


def parity_by_md(study: Study, disks: int = 1) -> list[str]:
    """The stacks of so many disks or more on which MD's RAID 5 or 6 was measured in a lab that counts instructions."""
    exact = {name for name, lab in study.plan.labs.items() if lab.exact}
    used = set(study.trials.loc[study.trials["lab"].isin(exact), "stack"])
    layers = {name: one.layers for name, one in study.stacks().items() if name in used and one.disks >= disks}
    return [name for name, own in layers.items() if any(layer.startswith(("md-raid5", "md-raid6")) for layer in own)]


def rebuilt_early(study: Study) -> dict:
    """Phases on rebuilding stacks that outlasted the rebuild: how many, and on which stacks."""
    over = study.phases[(study.phases["status"] == "ok") & (study.phases["operation"] != "rebuild")]
    over = over[(over["rebuilding"] == False).fillna(False)]  # noqa: E712 (nullable)
    return {"phases": len(over), "stacks": sorted(set(over["stack"]))}


def fewest_rounds(study: Study) -> int | None:
    """Completed rounds of the cell with the fewest, where they are too few to check a distribution."""
    ok = study.trials[study.trials["status"] == "ok"]
    rounds = ok.groupby([*SETTING, "label", "workload", "scale"]).size()
    return int(rounds.min()) if len(rounds) and rounds.min() < ENOUGH else None


def new_file_systems(study: Study) -> dict | None:
    """Whether trials made new file systems, and the workloads that age them nevertheless; None if none were new."""
    if not any(study.lab(lab).provisions for lab in set(study.trials["lab"])):
        return None
    entries = study.plan.workloads
    return {"aged": sorted(name for name, entry in entries.items() if entry.fill or entry.runs > 1)}


def unproved_cold(study: Study) -> dict:
    """Phases that should be cold but are not proved to be: how many, and which (label and phase)."""
    phases = measured(study.phases)
    failed = phases[(phases["cache"] == "cold") & (phases["cold_proved"] == False)]  # noqa: E712 (nullable)
    return {"phases": len(failed), "names": sorted(set(failed["label"] + " " + failed["phase"]))}


def driver(study: Study) -> Iterator[dict]:
    """How much of a contender's phase the driver's own work can be, lab by lab: lab, most, above (title, labels).

    above are the phases where it is more than a tenth.
    """
    phases = measured(study.phases)
    phases = phases[phases["wall_ns"] > 0].assign(share=driver_bound)
    for lab, own in phases[phases["role"] == "contender"].dropna(subset="share").groupby("lab"):
        high = own[own["share"] > 0.1].groupby(["workload", "phase", "cache"])
        above = [{"title": study.title(*key), "labels": sorted(set(group["label"]))} for key, group in high]
        yield {"lab": lab, "most": own["share"].max(), "above": above}


def commands(study: Study) -> list[str]:
    """The programs that phases execute; their own work is part of the time."""
    phases = measured(study.phases)
    executed = phases.loc[phases["operation"] == "exec", "command"]
    return sorted({command.split()[0] for command in executed if command})


def no_bounds(study: Study) -> dict:
    """Where an upper bound does not hold, because a contender is faster: bounds (labels), operations (titles)."""
    table, keys = study.results.statistics, [*SETTING, *OPERATION]
    best = table[table["role"] == "contender"].groupby(keys)["geometric_mean_ns"].min()
    bound = table[table["role"] == "ceiling"].groupby(keys)["geometric_mean_ns"].min()
    ratio: pd.Series = bound / best
    titles = []
    for lab, _, profile, workload, _, phase, cache in ratio.index[ratio > 1]:
        place = study.differing(lab=lab, profile=profile)
        titles.append(study.title(workload, phase, cache) + (f" ({place})" if place else ""))
    return {"bounds": study.labels("ceiling"), "operations": list(dict.fromkeys(titles))}


def missing(study: Study) -> dict:
    """Contenders with results missing: failed (labels), skipped (labels), skipped_trials (a number)."""
    bad = study.trials[study.trials["status"] != "ok"]
    skipped = bad[bad["status"] == "skipped"]
    failed = sorted(bad.loc[bad["status"] != "skipped", "label"].unique())
    return {"failed": failed, "skipped": sorted(skipped["label"].unique()), "skipped_trials": len(skipped)}
