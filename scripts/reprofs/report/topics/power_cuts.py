"""Power cuts: who kept what fsync had promised, what was left of other files, how long recovery took."""

from __future__ import annotations

import pandas as pd

from reprofs.data.keys import Load, Setting, select
from reprofs.report.display import DASH, Table, size, slug, time
from reprofs.stats.study import Study

COUNTED = {
    "promised": "Promised",
    "broken": "Broken",
    "written": "Files",
    "kept": "Whole",
    "short": "Cut short",
    "wrong": "Wrong",
    "missing": "Missing",
}


def applies(plan: dict) -> bool:
    """Where the power is cut in a phase."""
    return any("crash" in phase for entry in plan["workloads"].values() for phase in entry["phases"])


def places(study: Study) -> list[tuple[Setting, Load]]:
    """Where the power was cut, in trials that failed too: a broken promise makes a trial fail."""
    return [
        (setting, load)
        for setting in study.settings
        for load in study.loads(setting)
        if len(_cuts(study, setting, load))
    ]


def facts(phases: pd.DataFrame) -> dict:
    """Who kept what fsync had promised when the power was cut, in failed trials too.

    `phases` is the table of that name. Keys: promised (files), kept (labels that kept everything), kept_files, broken
    (label, promised and broken files of each that did not, as dictionaries).
    """
    told = phases[phases["crash_promised"].fillna(0) > 0]
    sums = told.groupby("label")[["crash_promised", "crash_broken"]].sum().astype(int)
    kept, broken = sums[sums["crash_broken"] == 0], sums[sums["crash_broken"] > 0]
    return {
        "promised": int(sums["crash_promised"].sum()),
        "kept": list(kept.index),
        "kept_files": int(kept["crash_promised"].sum()),
        "broken": [
            {"label": row.Index, "promised": row.crash_promised, "broken": row.crash_broken}
            for row in broken.itertuples()
        ],
    }


def table(study: Study, setting: Setting, load: Load) -> Table:
    """What each power cut lost and left, one row per phase and file system."""
    rows = []
    for (phase, cache, label), own in _cuts(study, setting, load).groupby(["phase", "cache", "label"], sort=False):
        row = {
            "Phase": study.title(load.workload, phase, cache),
            "File system": label,
            "Cuts": len(own),
            "Cut after": time(own["crash_cut_ns"].mean(), 3),
            "Lost": size(own["crash_lost_bytes"].mean()),
            "Recovery": time(own["crash_recovery_ns"].mean(), 3),
        }
        told = own.dropna(subset="crash_written")
        for key, title in COUNTED.items():
            row[title] = f"{told[f'crash_{key}'].sum():,}" if len(told) else DASH
        rows.append(row)
    caption = (
        f"Power cuts of {load}, {setting}. Lost: what the devices had accepted and not brought to their media, with"
        " what was written after the cut. Recovery: the mount afterwards. Files are those looked for after it,"
        " summed over rounds. Promised: flushed with success before the cut; none of these may be broken. Of the others"
        " nothing was promised."
    )
    return Table(f"tbl-{slug('crashes', setting, load)}", caption, rows, ["Phase", "File system"])


def _cuts(study: Study, setting: Setting, load: Load) -> pd.DataFrame:
    return select(study.phases, setting, load).dropna(subset="crash_cut_ns")
