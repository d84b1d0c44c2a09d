"""A modelled disk against its model: what fio measured of it in the guest, and what the profile says must come out.

For studies that run the workload `device` on profiles with a modelled disk and, for the time of the software, on the
profiles `reference` and `ram`.
"""

from functools import partial

import matplotlib
import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.ticker import FuncFormatter, NullFormatter

from . import stats, tables, words
from .dataset import Study
from .figures import BLUE, GREY, ORANGE, STYLE, WIDTH
from .plan import disks
from .words import Item

BAND = 0.03
REFERENCE, UNTIMED = "reference", "ram"  # profiles: every request takes the same time; requests take none
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


def summary(study: Study) -> list:
    """What the report says first: every profile's ratios of measured to expected, in one table."""
    rows, compared, inside = [], 0, 0
    keys = study.trials[KEYS].drop_duplicates().sort_values(KEYS)
    for lab, stack, profile, *workload in keys.itertuples(index=False, name=None):
        table = comparison(study, (lab, stack, profile), tuple(workload))
        if table.empty:
            continue
        known = table[table["compared"]]
        compared += len(known)
        inside += int(((known["ratio"] - 1).abs() <= BAND).sum())
        shown = {row.title: f"{row.ratio:.3f}" if row.compared else words.DASH for row in table.itertuples()}
        rows.append((profile, shown))
    if not rows:
        return []
    titles = list(dict.fromkeys(title for _, shown in rows for title in shown))
    text = (
        f"**{inside} of {words.count(compared, 'comparison')} of a modelled disk with its model are within"
        f" {100 * BAND:g} %.** The table has the ratios of the measured time to the expected; a dash is where the"
        " guest's processor is the limit."
    )
    lines = [{"Job": title} | {profile: shown.get(title, "") for profile, shown in rows} for title in titles]
    caption = "Time of a request, measured over expected, mean over rounds. The sections of the profiles have the rest."
    return [words.Prose(text), words.Table("tbl-modelled-disks", caption, lines, left=["Job"])]


def items(study: Study, setting: tuple, workload: tuple) -> list[Item]:
    """Of a modelled disk: measured beside expected; of a rotating one its seek curve and zones. Of kind `series`."""
    table = comparison(study, setting, workload)
    if table.empty:
        return []
    where = f"{setting[2]}, {workload[0]} ({workload[1]}), lab {setting[0]}"
    caption = (
        f"{where}: time of a request, expected (ring) and measured (dot, mean over rounds), and their ratio. The band"
        f" is {100 * BAND:g} % wide on both sides; a line spans the rounds. What the guest's processor limits is grey."
    )
    compared = table[table["compared"]]
    worst = compared.loc[(compared["ratio"] - 1).abs().idxmax()] if len(compared) else None
    alt = f"{words.count(len(table), 'job')} of fio. "
    if worst is not None:
        alt += f"The ratio farthest from 1 is {worst['ratio']:.3f}, {worst['title']}."
    found = [("expected", caption, alt, partial(beside, table))]
    profile = study.plan["devices"][setting[2]]
    if profile["disk"]["kind"] == "rotating":
        caption = (
            f"{setting[2]}: the model's seek time over distance, with the three times that fix it, and its rate over"
            " the disk, zone by zone."
        )
        alt = "A curve that rises like a root, and descending steps."
        found.append(("geometry", caption, alt, partial(geometry, profile["disk"])))
    return [
        Item("series", tables.slug(kind, *setting, *workload), setting, workload, caption, alt, draw)
        for kind, caption, alt, draw in found
    ]


def show(study: Study, setting: tuple, workload: tuple) -> list:
    """The numbers of `items`, and where a profile's figures come from."""
    table = comparison(study, setting, workload)
    if table.empty:
        return []
    rows = [
        {
            "Job": row.title,
            "Measured": _rate(row.measured, row.job),
            "Expected": _rate(row.expected, row.job),
            "Ratio": f"{row.ratio:.3f}" if row.compared else words.DASH,
            "Disk": words.time(row.disk, 4),
            "Software": words.time(row.software, 3),
            "From": row.basis if row.compared else "bound by the processor",
        }
        for row in table.itertuples()
    ]
    compared = table[table["compared"]]
    inside = int(((compared["ratio"] - 1).abs() <= BAND).sum())
    outside = list(compared.loc[(compared["ratio"] - 1).abs() > BAND, "title"])
    caption = (
        f"{setting[2]}, {workload[0]} ({workload[1]}), lab {setting[0]}: measured and expected. Disk is the model's"
        " time of a request. Software is what the guest needs to issue it, from the same job on other devices: added"
        " where requests come one at a time, hidden behind the disk where several are under way or where the next waits"
        " for the platter anyway. Bound by the processor: the software's time is most of the disk's or more."
    )
    text = f"Of {words.count(len(compared), 'job')} that the disk decides, {inside} are within {100 * BAND:g} % of the"
    text += f" model; not so: {words.listing(outside)}." if outside else " model."
    profile = study.plan["devices"][setting[2]]
    sources = "\n".join(f"- {source}" for source in profile["sources"])
    return [
        words.Prose(text, f"{profile['model']} Where its figures come from:", sources),
        words.Table(f"tbl-{tables.slug('expected', *setting, *workload)}", caption, rows, left=["Job", "From"]),
    ]


def _rate(ns: float, job: disks.Job) -> str:
    if job.place in ("outer", "inner"):
        return f"{words.digits(job.bytes * 1e3 / ns, 4)} MB/s"
    return f"{words.digits(1e9 / ns, 4)}/s"


def beside(table: pd.DataFrame):
    """Expected and measured time of each job, and the ratio of both with its band."""
    at = np.arange(len(table))[::-1]
    with matplotlib.rc_context(STYLE):
        figure, (times, ratios) = plt.subplots(
            1, 2, sharey=True, figsize=(WIDTH, 0.5 + 0.27 * len(table)), width_ratios=(1.3, 1), layout="constrained"
        )
        ratios.axvspan(1 - BAND, 1 + BAND, color=GREY, alpha=0.18, lw=0)
        ratios.axvline(1, color=GREY, lw=0.8)
        reach = 2 * BAND
        for y, row in zip(at, table.itertuples(), strict=True):
            colour = BLUE if row.compared else GREY
            times.plot(row.expected / 1e3, y, "o", ms=8, mfc="none", mec=ORANGE if row.compared else GREY, mew=1.2)
            times.plot(row.measured / 1e3, y, "o", ms=3.5, color=colour)
            if row.compared:
                ratios.plot([row.low / row.expected, row.high / row.expected], [y, y], color=colour, lw=1.2)
                ratios.plot(row.ratio, y, "o", ms=3.5, color=colour)
                reach = max(reach, 1.15 * max(abs(row.high / row.expected - 1), abs(row.low / row.expected - 1)))
            else:
                ratios.text(1, y, "not compared", ha="center", va="center", color=GREY)
        times.set_xscale("log")
        low, high = (pick(table[["expected", "measured"]].to_numpy()) / 1e3 for pick in (np.min, np.max))
        times.set_xlim(low / 2, high * 2)
        times.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        times.xaxis.set_minor_formatter(NullFormatter())
        times.set_yticks(at, table["title"])
        times.set_ylim(-0.6, len(table) - 0.4)
        times.set_xlabel("time of a request, µs")
        ratios.set(xlim=(1 - reach, 1 + reach), xlabel="measured / expected")
        for axes in (times, ratios):
            axes.tick_params(axis="y", length=0)
            axes.grid(axis="x", color=GREY, alpha=0.25, lw=0.5)
    return figure


def geometry(disk: dict):
    """Seek time over distance and rate over place of a rotating disk."""
    a, b, c = (value / 1e6 for value in disks.seek_curve(disk))
    share = np.linspace(0, 1, 400)
    known = [(0, disk["track_to_track_ms"], "track to track"), (1, disk["full_stroke_ms"], "full stroke")]
    # Where the curve has the average: seeks of that length take as long as the mean over random pairs.
    mean = np.interp(disk["average_seek_ms"], a + b * np.sqrt(share) + c * share, share)
    known.append((mean, disk["average_seek_ms"], "average"))
    rates = disks.zone_rates({key: disk[f"{key}_mb_s"] for key in ("outer", "inner")} | {"zones": disk["zones"]})
    with matplotlib.rc_context(STYLE):
        figure, (seeks, zones) = plt.subplots(1, 2, figsize=(WIDTH, 2.0), layout="constrained")
        seeks.plot(100 * share, a + b * np.sqrt(share) + c * share, color=BLUE, lw=1.5)
        for x, y, text in known:
            seeks.plot(100 * x, y, "o", ms=4, color=ORANGE, clip_on=False, zorder=3)
            place = {"xytext": (0, 5), "ha": "right"} if x == 1 else {"xytext": (9, -12 if x else -2)}
            seeks.annotate(f"{text}, {y:g} ms", (100 * x, y), textcoords="offset points", va="bottom", **place)
        seeks.set(
            xlim=(0, 100), ylim=(0, 1.2 * disk["full_stroke_ms"]), xlabel="distance, % of the stroke", ylabel="seek, ms"
        )
        zones.stairs(rates, np.linspace(0, 100, len(rates) + 1), baseline=None, color=BLUE, lw=1.5)
        zones.set(xlim=(0, 100), ylim=(0, None), xlabel="place, % of the disk", ylabel="rate, MB/s")
        for axes in (seeks, zones):
            axes.grid(color=GREY, alpha=0.25, lw=0.5)
    return figure
