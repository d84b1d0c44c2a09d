"""Networks: what was measured on them in the guest, compared with what follows from their files.

For studies that run the workload `network` on the networks `reference` and `loopback`, which give the time of the
software, and on others.
"""

from __future__ import annotations

import pandas as pd

from reprofs.data.keys import Load, Setting, select
from reprofs.plan.cell import apart
from reprofs.plan.network import EXCHANGES, REFERENCE, UNTIMED, Network
from reprofs.stats.study import Study

BAND = 0.03  # a measured time that is farther from the closed form than this share does not agree with it
# Of a frame's time on the wire. Above it the one processor of all hosts may decide how fast a stream is. The time of
# the software is that for frames of 1500 bytes; larger ones take longer.
PROCESSOR_SHARE = 0.8


def comparison(study: Study, setting: Setting, load: Load) -> pd.DataFrame:
    """A row for each network and job; empty where the workload is another one.

    Columns: network, name, job, title; measured, low, high (time of a message in ns: mean over rounds and its
    extremes); way (ns without the software), software, expected (ns); ratio (measured to expected), compared (False
    where the guest's processor is the limit).
    """
    measured = _messages(study, setting, load)
    found = study.plan.networks
    software = _software(measured, found)
    rows = []
    for (name, test), own in measured.groupby(["network", "name"], sort=False):
        network, job = found[str(name)], EXCHANGES[str(test)]
        if test not in software or network.loss_percent or name in (REFERENCE, UNTIMED):
            continue
        time = network.expected(job, 0.0 if job.window > 1 else software[str(test)])
        own_frame = software[str(test)] / found[UNTIMED].frames(job) if job.window > 1 else 0.0
        rows.append(
            {
                "network": name,
                "name": test,
                "job": job,
                "title": study.title(load.workload, str(test), own["cache"].iloc[0]),
                "measured": own["message_ns"].mean(),
                "low": own["message_ns"].min(),
                "high": own["message_ns"].max(),
                "way": network.expected(job),
                "software": software[str(test)],
                "expected": time,
                # Decided by what is known beforehand, never by the result of the comparison.
                "compared": job.window == 1 or own_frame <= PROCESSOR_SHARE * network.frame_ns(network.mtu),
            }
        )
    table = pd.DataFrame(rows)
    return table if table.empty else table.assign(ratio=table["measured"] / table["expected"])


def _messages(study: Study, setting: Setting, load: Load) -> pd.DataFrame:
    chosen = select(study.samples, setting, load, status="ok")
    chosen = chosen[chosen["name"].isin(list(EXCHANGES)) & chosen["variant"].str.contains("@")]
    time = chosen["wall_ns"].astype(float) / chosen["items"].astype(float)
    return chosen.assign(network=chosen["variant"].map(lambda variant: apart(variant)[1]), message_ns=time)


def _software(measured: pd.DataFrame, found: dict[str, Network]) -> dict[str, float]:
    """Time (ns) of the hosts' software for a message of each job: one at a time, its time on REFERENCE minus the delay
    there; in a stream, all its time on UNTIMED.
    """
    times = {}
    for test, job in EXCHANGES.items():
        name = REFERENCE if job.window == 1 else UNTIMED
        own = select(measured, network=name, name=test)
        if len(own):
            times[test] = own["message_ns"].mean() - (found[name].expected(job) if job.window == 1 else 0)
    return times
