"""The share of the drive's flush in each time, and the verdicts on a drive whose flush takes another time.

A flush is one command that the file system waits for, so a phase takes: software and writes + flushes * time of a
flush. tests/test_flushes.py holds that against trials on profiles that differ in their flush alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from reprofs.data.keys import OPERATION, SETTING
from reprofs.stats import cells, compare
from reprofs.stats.recorded import ALL
from reprofs.stats.results import caution, margins

if TYPE_CHECKING:
    from reprofs.stats.study import Study

# µs of a flush, as in the profiles of these names, whose files have the sources.
DRIVES = {"ssd-nvme-plp": 25.0, "ssd-sata": 830.0, "ssd-nvme": 990.0, "ssd-consumer-slow": 6900.0}
FEW = 10  # a final sync and a journal's own commits are fewer


def flushed(study: Study) -> pd.DataFrame:
    """Whole phases with FEW or more flushes on some file system, as rows of `phases`; a replay's calls are one phase.

    Columns added: flush_us (of the profile), flushes, other_us (an item, without them), share (of the time).
    Left out: profiles whose flush depends on the place, stacks of several disks, and several clients, whose flushes
    overlap.
    """
    rows = _whole(study)
    most = rows.groupby([*SETTING, *OPERATION])["flushes"].transform("max")
    return on(rows[most >= FEW], None)


def _whole(study: Study) -> pd.DataFrame:
    """Phases as a whole, of which `phases` has the parts."""
    plan, found = study.plan, cells.measured(study.phases)
    taking = {name: [disk.flush_us for disk in plan.disks(name)] for name in found["profile"].unique()}
    found = found.assign(flush_us=found["profile"].map({name: us[0] for name, us in taking.items() if len(us) == 1}))
    single = {name for name, workload in plan.workloads.items() if workload.clients == 1}
    alone = found["trial"].map(study.trials.set_index("trial")["stack_disks"]).eq(1) & found["workload"].isin(single)
    count = found["device_flushes"].fillna(found["whole_flushes"]).astype(float)
    apart = found["part"].eq("at-once").fillna(False) | found["outage_what"].notna() | found["crash_cut_ns"].notna()
    found = found.assign(flushes=count)[alone & ~apart & count.notna() & found["flush_us"].notna()]
    phase = {
        (name, part, one.cache): ALL if workload.recording else one.name
        for name, workload in plan.workloads.items()
        for one in workload.phases
        for part in one.samples or {}
    }
    keys = zip(found["workload"], found["phase"], found["cache"], strict=True)
    found = found.assign(
        phase=[phase.get(key, key[1]) for key in keys],
        wall_ns=found["whole_wall_ns"].fillna(found["wall_ns"]).astype(float),
        items=found["whole_items"].fillna(found["items"]).astype(float),
    )
    return found.drop_duplicates([*SETTING, *OPERATION, "trial"])


def on(rows: pd.DataFrame, us: float | None) -> pd.DataFrame:
    """The rows of `flushed` on a drive whose flush takes `us` (µs; None: the same): wall_ns, flush_us, share."""
    other = rows["wall_ns"] - rows["flushes"] * rows["flush_us"] * 1000
    taking = rows["flush_us"] if us is None else us
    spent = rows["flushes"] * taking * 1000
    return rows.assign(
        wall_ns=other + spent, flush_us=taking, other_us=other / rows["items"] / 1000, share=spent / (other + spent)
    )


def verdicts(study: Study, rows: pd.DataFrame, drives: dict[str, float] = DRIVES) -> pd.DataFrame:
    """`compare.winners` of the rows of `flushed` on each drive {name: µs of a flush}, in columns drive and flush_us."""
    about, care = margins(study), caution(study)
    frames = [pd.DataFrame()]
    for drive, us in drives.items() if len(rows) else ():
        there = on(rows, us)
        pairs = compare.pairwise(there, about["equal"], care)
        found = compare.winners(cells.statistics(there), pairs, **about, caution=care)
        frames.append(found.assign(drive=drive, flush_us=us))
    return pd.concat(frames, ignore_index=True)
