"""TODO."""

BAND = 0.03


# Of the disk's time. Above it the processor may decide how long a job takes.
PROCESSOR_SHARE = 0.8


KEYS = [*stats.SETTING, "workload", "scale"]


def comparison(study: Study, setting: tuple, workload: tuple) -> pd.DataFrame:
    """A row for each job: measured time a request (ns), mean over rounds and its extremes; what is expected, of disk
    and software; compared: False where the guest's processor is what limits it. Empty where there is no modelled disk
    or nothing to know the software's time from.
    """
    profile = study.plan["devices"].get(setting[2], {})
    if "disk" not in profile or setting[2] == REFERENCE:
        return pd.DataFrame()
    measured = _requests(study, setting, workload)
    if measured.empty:
        return pd.DataFrame()
    software = _software(study, setting, workload)
    found = disks.parameters(profile)
    size = (profile.get("size_mib") or study.plan["workloads"][workload[0]]["scale"]["device_mib"]) << 20
    rows = []
    for name, own in measured.groupby("name", sort=False):
        job = disks.JOBS[name]
        if name not in software:
            continue
        disk, basis = disks.expected(found, size, job, int(own["items"].iloc[0]))
        rows.append(
            {
                "name": name,
                "job": job,
                "title": study.title(workload[0], name, own["cache"].iloc[0]),
                "measured": own["request_ns"].mean(),
                "low": own["request_ns"].min(),
                "high": own["request_ns"].max(),
                "disk": disk,
                "software": software[name],
                "expected": disk + (0 if disks.hides_software(found, job) else software[name]),
                "basis": basis,
            }
        )
    table = pd.DataFrame(rows)
    if table.empty:
        return table
    # Decided by what is known before, never by how the comparison comes out.
    short = table["software"] <= PROCESSOR_SHARE * table["disk"]
    added = table["expected"] > table["disk"]
    return table.assign(ratio=table["measured"] / table["expected"], compared=added | short)


def _requests(study: Study, setting: tuple, workload: tuple) -> pd.DataFrame:
    chosen = tables.select(study.samples, KEYS, (*setting, *workload))
    chosen = chosen[(chosen["status"] == "ok") & chosen["name"].isin(list(disks.JOBS))]
    return chosen.assign(request_ns=chosen["wall_ns"].astype(float) / chosen["items"].astype(float))


def _software(study: Study, setting: tuple, workload: tuple) -> dict[str, float]:
    """Time of software and driver for a request of each job: one at a time what it takes on REFERENCE beyond the times
    of that disk, several at a time all it takes on UNTIMED.
    """
    found = {}
    for profile, alone in ((REFERENCE, True), (UNTIMED, False)):
        for name, own in _requests(study, (*setting[:2], profile), workload).groupby("name"):
            job = disks.JOBS[name]
            if (job.depth == 1) == alone:
                found[name] = own["request_ns"].mean()
                if alone:
                    constant = disks.parameters(study.plan["devices"][profile])
                    found[name] -= disks.expected(constant, 0, job, len(own))[0]
    return found
