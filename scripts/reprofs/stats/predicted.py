"""What ratios of the exact lab would be on a real machine, by the model of docs/methods/machines.md.

The time of an operation there is the CPU time of the lab at the machine's time of an instruction, and what the lab
waits: modelled disks keep their times. A read request to a disk in memory also costs the wake-ups that it needs there.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from reprofs.data.keys import Load, Setting, select
from reprofs.plan.device import Plain
from reprofs.plan.machine import Machine
from reprofs.stats import cells, compare, trust
from reprofs.stats.study import Study

LEAST = 1.1  # ratios nearer to 1 are not expected to hold elsewhere
LEVEL = 1.96  # root mean squares of a 95 % interval
COLUMNS = ["machine", "phase", "cache", "position", "label", "role", "base", "lab", "there", "low", "high", "expected"]


def model(study: Study, lab: str) -> float | None:
    """Time of an instruction in a lab whose times can be predicted elsewhere, in ns: that of the exact lab with one
    core, its own kernel and all its memory; None of another."""
    own = trust.processor(study, lab)
    known = own and own.count == 1 and not trust.unmeasured(study, lab, study.trials["label"])
    return own.ns_per_instruction if own and known else None


def times(phases: pd.DataFrame, machine: Machine, ns_per_instruction: float, in_memory: bool) -> pd.Series:
    """The time of each phase on a machine, in ns. phases: of one core; in_memory: whether its disks take no time."""
    wall, busy = phases["wall_ns"].astype(float), cells.processor_busy(phases)
    there = wall * (busy * machine.constants.instruction.ns / ns_per_instruction + 1 - busy)
    if in_memory and "device_reads" in phases:
        reads = phases["device_reads"].astype("Float64").fillna(0).astype(float)
        there += reads * machine.wake_ups * machine.constants.wake_up.ns
    return there


def ratios(study: Study, setting: Setting, load: Load) -> pd.DataFrame:
    """What each file system takes over the fastest contender (by total) in the lab, and as predicted for the machines
    of the study's key predict, in each operation and in all of them (phase `compare.TOTAL`).

    Columns COLUMNS: base (the fastest), lab and there (ratios of geometric means), low and high (95 %, from the
    machine's error alone), expected (both are LEAST or more, in one direction). No rows where nothing is predicted.
    """
    unit = model(study, setting.lab)
    phases = select(cells.measured(study.phases), setting, load)
    if unit is None or phases.empty or not study.plan.machines:
        return pd.DataFrame(columns=COLUMNS)
    disks = study.plan.disks(setting.profile)
    in_memory = all(isinstance(one, Plain) and not one.timed for one in disks)
    own = _means(phases)
    whole = own[(own["phase"] == compare.TOTAL) & (own["role"] == "contender")]
    if whole.empty:
        return pd.DataFrame(columns=COLUMNS)
    base = whole.loc[whole["mean"].idxmin(), "label"]
    found = []
    for name, machine in study.plan.machines.items():
        there = _means(phases.assign(wall_ns=times(phases, machine, unit, in_memory)))
        both = own.assign(there=there["mean"], machine=name, base=base).rename(columns={"mean": "lab"})
        first = both[both["label"] == base].set_index(["phase", "cache"])[["lab", "there"]]
        keys = pd.MultiIndex.from_frame(both[["phase", "cache"]])
        both[["lab", "there"]] /= first.reindex(keys).to_numpy()
        within = machine.error**LEVEL
        both = both.assign(low=both["there"] / within, high=both["there"] * within)
        logs = np.log(both[["lab", "there"]].to_numpy(float))
        large = (np.abs(logs) >= np.log(LEAST)).all(axis=1)
        both["expected"] = large & (np.sign(logs[:, 0]) == np.sign(logs[:, 1]))
        found.append(both[(both["label"] != base) & both["lab"].notna()])
    return pd.concat(found, ignore_index=True)[COLUMNS]


def _means(phases: pd.DataFrame) -> pd.DataFrame:
    """Geometric means over the repetitions by operation and label, totals too. Columns phase, cache, position, label,
    role, mean (ns)."""
    keys = ["phase", "cache", "label"]
    every = pd.concat([phases, compare.totals(phases)], ignore_index=True)
    every = every.assign(log=np.log(every["wall_ns"].astype(float)))
    groups = every.groupby(keys, sort=True)
    found = groups.agg(position=("position", "min"), role=("role", "first"), mean=("log", "mean"))
    return found.assign(mean=np.exp(found["mean"])).reset_index()
