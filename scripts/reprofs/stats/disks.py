"""Modelled disks: what fio measured on them in the guest, compared with what follows from their profile.

For studies that run the workload `device` on profiles with a modelled disk and, to measure the time of the software,
on the profiles `reference` and `ram`.
"""

from __future__ import annotations

import pandas as pd

from reprofs.data.keys import Load, Setting, select
from reprofs.plan.disk import ACCESSES, REFERENCE, UNTIMED, expected, hides_software
from reprofs.stats.study import Study

BAND = 0.03  # a measured time that is farther from the model than this share does not agree with it
# Of the disk's time. Above it the processor may decide how long a job takes.
PROCESSOR_SHARE = 0.8


def comparison(study: Study, setting: Setting, load: Load) -> pd.DataFrame:
    """A row for each job of a profile with a modelled disk; empty for other profiles.

    Columns: name, job, title; measured, low, high (time of a request in ns: mean over rounds and its extremes); disk,
    software (ns a request), expected (ns, of both), basis (of the disk's time); ratio (measured to expected), compared
    (False where the guest's processor is the limit). Jobs whose time of the software is not known are left out.
    """
    profile = study.plan.devices.get(setting.profile)
    if not profile or not profile.drive or setting.profile == REFERENCE:
        return pd.DataFrame()
    measured = _requests(study, setting, load)
    if measured.empty:
        return pd.DataFrame()
    software = _software(study, setting, load)
    found = profile.drive.parameters()
    size = (profile.disk_mib or study.plan.workloads[load.workload].parameters["device_mib"]) << 20
    rows = []
    for name, own in measured.groupby("name", sort=False):
        job = ACCESSES[name]
        if name not in software:
            continue
        disk, basis = expected(found, size, job, int(own["items"].iloc[0]))
        rows.append(
            {
                "name": name,
                "job": job,
                "title": study.title(load.workload, name, own["cache"].iloc[0]),
                "measured": own["request_ns"].mean(),
                "low": own["request_ns"].min(),
                "high": own["request_ns"].max(),
                "disk": disk,
                "software": software[name],
                "expected": disk + (0 if hides_software(found, job) else software[name]),
                "basis": basis,
            }
        )
    table = pd.DataFrame(rows)
    if table.empty:
        return table
    # Decided by what is known beforehand, never by the result of the comparison.
    short = table["software"] <= PROCESSOR_SHARE * table["disk"]
    added = table["expected"] > table["disk"]
    return table.assign(ratio=table["measured"] / table["expected"], compared=added | short)


def _requests(study: Study, setting: Setting, load: Load) -> pd.DataFrame:
    chosen = select(study.samples, setting, load, status="ok")
    chosen = chosen[chosen["name"].isin(list(ACCESSES))]
    return chosen.assign(request_ns=chosen["wall_ns"].astype(float) / chosen["items"].astype(float))


def _software(study: Study, setting: Setting, load: Load) -> dict[str, float]:
    """Time (ns) of software and driver for a request of each job: one at a time, its time on REFERENCE minus the times
    of that disk; several at a time, all its time on UNTIMED.
    """
    found = {}
    for profile, alone in ((REFERENCE, True), (UNTIMED, False)):
        for name, own in _requests(study, setting._replace(profile=profile), load).groupby("name"):
            job = ACCESSES[name]
            if (job.depth == 1) == alone:
                found[name] = own["request_ns"].mean()
                if alone:
                    drive = study.plan.devices[profile].drive
                    found[name] -= expected(drive.parameters(), 0, job, len(own))[0] if drive else 0
    return found
