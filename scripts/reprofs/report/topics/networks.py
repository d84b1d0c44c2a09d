"""Networks: what was measured between two hosts in the guest, compared with what follows from the networks' files."""

from __future__ import annotations

import pandas as pd

from reprofs.data.keys import Load, Setting, planned
from reprofs.plan.network import Exchange
from reprofs.report.display import DASH, Table, count, digits, slug, time
from reprofs.report.plots import Figure
from reprofs.report.topics.disks import beside
from reprofs.stats.networks import BAND, comparison
from reprofs.stats.study import Study


def compared(study: Study) -> dict[tuple[Setting, Load], pd.DataFrame]:
    """The comparison of each place where networks can be compared with their files."""
    every = {place: comparison(study, *place) for place in planned(study.trials)}
    return {place: found for place, found in every.items() if len(found)}


def facts(table: pd.DataFrame) -> dict:
    """Of a comparison (or several): jobs, compared (those that the network decides), inside (within the band), outside.

    `outside` are the titles of the jobs whose ratio is farther from 1 than the band, with their networks.
    """
    compared = table[table["compared"]]
    off = compared[(compared["ratio"] - 1).abs() > BAND]
    return {
        "jobs": len(table),
        "compared": len(compared),
        "inside": len(compared) - len(off),
        "outside": [f"{row.title} ({row.network})" for row in off.itertuples()],
    }


def table(setting: Setting, load: Load, compared: pd.DataFrame) -> Table:
    """Measured and expected rate of each job on each network, and what the expected one is made of."""
    rows = [
        {
            "Network": row.network,
            "Job": row.title,
            "Measured": _rate(row.measured, row.job),
            "Expected": _rate(row.expected, row.job),
            "Ratio": f"{row.ratio:.3f}" if row.compared else DASH,
            "Network's time": time(row.way, 4),
            "Software": time(row.software, 3),
        }
        for row in compared.itertuples()
    ]
    caption = (
        f"{load}, lab {setting.lab}: measured and expected. Network's time: what delay, rate and window give for a"
        " message. Software: what the hosts need for it on their one processor, from the networks without a rate; it is"
        " added where messages come one at a time. A dash: a frame takes the processor 80 % or more of its time on"
        " the wire, so that the processor may be the limit of a stream."
    )
    return Table(f"tbl-{slug('networks', setting, load)}", caption, rows, ["Network", "Job"])


def figures(setting: Setting, load: Load, compared: pd.DataFrame) -> list[Figure]:
    """Measured and expected times of a message."""
    found = facts(compared)
    caption = (
        f"{load}, lab {setting.lab}: time of a message, expected (ring) and measured (dot, mean over rounds), and their"
        f" ratio. The band is {100 * BAND:g} % wide on both sides; a line spans the rounds. Grey: limited by the"
        " guest's processor."
    )
    alt = f"{count(found['jobs'], 'job')}; of {found['compared']} compared, {found['inside']} are within the band."
    labels = [f"{row.network}: {row.title}" for row in compared.itertuples()]
    return [Figure(slug("networks", setting, load), caption, alt, beside(compared, labels, "message"))]


def _rate(ns: float, job: Exchange) -> str:
    if job.window > 1:
        return f"{digits(job.bytes * 8000 / ns, 4)} Mbit/s"
    return f"{digits(1e9 / ns, 4)}/s"
