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


def places(study: Study) -> list[tuple[Setting, Load]]:
    """Where the power was cut, in trials that failed too: a broken promise makes a trial fail."""
    return [
        (setting, load)
        for setting in study.settings
        for load in study.loads(setting)
        if len(_cuts(study, setting, load))
    ]


def facts(study: Study) -> dict:
    """What power cuts showed, in failed trials too.

    Keys: kept (labels that kept everything that fsync had promised), kept_files, kept_cuts, fewest (cuts of one of
    them), unseen (the largest share of cuts that break a promise with which that many cuts show none in one case of
    twenty: Clopper & Pearson 1934, one-sided 95 %; None without cuts); broken (label, promised and broken files,
    cuts and those that broke any, of each that did not); untested (contenders of whose promises no cut tells);
    recovery (label, where, phase, ns: mean of the mounts after this cut, the shortest first); failed (label, number
    of trials, of how many, and the first one's reason, of those that kept their promises and failed after the
    mount); left (label, share of the files without fsync that were whole, most first).
    """
    cuts = study.phases.dropna(subset="crash_cut_ns")
    told = cuts[cuts["crash_promised"].fillna(0) > 0]
    told = told.assign(cuts=1, bad_cuts=(told["crash_broken"] > 0).astype(int))
    columns = {"crash_promised": "promised", "crash_broken": "broken", "cuts": "cuts", "bad_cuts": "bad_cuts"}
    sums = told.groupby("label")[list(columns)].sum().astype(int).rename(columns=columns)
    kept, broken = sums[sums["broken"] == 0], sums[sums["broken"] > 0]
    fewest = int(kept["cuts"].min()) if len(kept) else 0
    keys = ["label", "lab", "stack", "profile", "workload", "phase", "cache"]
    places = cuts.groupby(keys)["crash_recovery_ns"].mean().dropna().sort_values()
    free = cuts[cuts["crash_promised"].fillna(0) == 0].groupby("label")[["crash_kept", "crash_written"]].sum()
    shares = (free["crash_kept"] / free["crash_written"]).dropna().sort_values(ascending=False)
    tried = study.trials[study.trials["label"].isin(kept.index)].groupby("label").size()
    unmounted = cuts.loc[cuts["crash_recovery_ns"].isna(), "trial"]
    after = study.trials[(study.trials["status"] == "failed") & ~study.trials["trial"].isin(unmounted)]
    failed = [
        {"label": label, "number": len(own), "of": int(tried.get(label, 0)), "reason": own["reason"].iloc[0]}
        for label, own in after.groupby("label")
        if label in tried
    ]
    return {
        "kept": list(kept.index),
        "kept_files": int(kept["promised"].sum()),
        "kept_cuts": int(kept["cuts"].sum()),
        "fewest": fewest,
        "unseen": 1 - 0.05 ** (1 / fewest) if fewest else None,
        "broken": [{"label": label} | row for label, row in broken.to_dict("index").items()],
        "untested": sorted(set(study.labels()) - set(sums.index)),
        "recovery": [
            {"label": label, "ns": ns, "phase": study.title(workload, phase, cache)}
            | {"where": study.differing(lab=lab, stack=stack, profile=profile)}
            for (label, lab, stack, profile, workload, phase, cache), ns in places.items()
        ],
        "failed": failed,
        "left": [{"label": label, "share": share} for label, share in shares.items()],
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
