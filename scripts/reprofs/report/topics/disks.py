"""Modelled disks: what fio measured on them in the guest, compared with what follows from their model."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.ticker import FuncFormatter, NullFormatter

from reprofs.data.keys import Load, Setting, planned
from reprofs.plan.device import Rotating
from reprofs.plan.disk import Access, zone_rates
from reprofs.report.display import DASH, Table, count, digits, slug, time
from reprofs.report.plots import BLUE, GREY, ORANGE, WIDTH, Figure, Plot, styled
from reprofs.stats.disks import BAND, comparison
from reprofs.stats.study import Study


def compared(study: Study) -> dict[tuple[Setting, Load], pd.DataFrame]:
    """The comparison of each place where a modelled disk can be compared with its model."""
    every = {place: comparison(study, *place) for place in planned(study.trials)}
    return {place: found for place, found in every.items() if len(found)}


def facts(table: pd.DataFrame) -> dict:
    """Of a comparison (or several): jobs, compared (those that the disk decides), inside (within the band), outside.

    `outside` are the titles of the jobs whose ratio is farther from 1 than the band; `worst` is the row with the ratio
    farthest from 1 as a dictionary, None without.
    """
    compared = table[table["compared"]]
    off = (compared["ratio"] - 1).abs()
    return {
        "jobs": len(table),
        "compared": len(compared),
        "inside": int((off <= BAND).sum()),
        "outside": list(compared.loc[off > BAND, "title"]),
        "worst": compared.iloc[off.argmax()].to_dict() if len(compared) else None,
    }


def overview(study: Study, every: dict[tuple[Setting, Load], pd.DataFrame]) -> Table:
    """Ratio of measured to expected time, one row per job and one column per profile."""
    shown: dict[str, dict[str, str]] = {}
    for (setting, _), compared in every.items():
        elsewhere = study.differing(lab=setting.lab, stack=setting.stack)
        name = ", ".join(filter(None, [setting.profile, elsewhere]))
        for row in compared.itertuples():
            shown.setdefault(row.title, {"Job": row.title})[name] = f"{row.ratio:.3f}" if row.compared else DASH
    caption = (
        "Time of a request, measured over expected, mean over rounds. A dash: the guest's processor is the limit, so"
        " there is nothing to compare."
    )
    return Table("tbl-modelled-disks", caption, list(shown.values()), ["Job"])


def table(setting: Setting, load: Load, compared: pd.DataFrame) -> Table:
    """Measured and expected rate or time of each job, and what the expected one is made of."""
    rows = [
        {
            "Job": row.title,
            "Measured": _rate(row.measured, row.job),
            "Expected": _rate(row.expected, row.job),
            "Ratio": f"{row.ratio:.3f}" if row.compared else DASH,
            "Disk": time(row.disk, 4),
            "Software": time(row.software, 3),
            "From": row.basis if row.compared else "bound by the processor",
        }
        for row in compared.itertuples()
    ]
    caption = (
        f"{setting.profile}, {load}, lab {setting.lab}: measured and expected. Disk: the model's time of a request."
        " Software: what the guest needs to issue it, from the same job on other devices; it is added where requests"
        " come one at a time, and hidden behind the disk where several are under way or where the next waits for the"
        " platter anyway. Bound by the processor: the software's time is most of the disk's or more."
    )
    return Table(f"tbl-{slug('expected', setting, load)}", caption, rows, ["Job", "From"])


def figures(study: Study, setting: Setting, load: Load, compared: pd.DataFrame) -> list[Figure]:
    """Measured and expected times; for a rotating disk also its seek curve and zones."""
    found = facts(compared)
    caption = (
        f"{setting.profile}, {load}, lab {setting.lab}: time of a request, expected (ring) and measured (dot, mean over"
        f" rounds), and their ratio. The band is {100 * BAND:g} % wide on both sides; a line spans the rounds. Grey:"
        " limited by the guest's processor."
    )
    alt = f"{count(found['jobs'], 'job')} of fio. "
    if found["worst"]:
        alt += f"The ratio farthest from 1 is {found['worst']['ratio']:.3f}, {found['worst']['title']}."
    drawn = [
        Figure(slug("expected", setting, load), caption, alt, beside(compared, list(compared["title"]), "request"))
    ]
    drive = study.plan.devices[setting.profile].drive
    if isinstance(drive, Rotating):
        caption = (
            f"{setting.profile}: the model's seek time over distance, with the three times that determine it, and its"
            " rate over the disk, zone by zone."
        )
        alt = "A curve that rises like a root, and descending steps."
        drawn.append(Figure(slug("geometry", setting, load), caption, alt, geometry(drive)))
    return drawn


def _rate(ns: float, job: Access) -> str:
    if job.place in ("outer", "inner"):
        return f"{digits(job.bytes * 1e3 / ns, 4)} MB/s"
    return f"{digits(1e9 / ns, 4)}/s"


@styled
def beside(table: pd.DataFrame, labels: list[str], what: str) -> Plot:
    """Expected and measured time of each row of a `comparison`, and the ratio of both with its band.

    labels: of the rows; what: whose time it is.
    """
    at = np.arange(len(table))[::-1]
    plot, (times, ratios) = plt.subplots(
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
    times.set_yticks(at, labels)
    times.set_ylim(-0.6, len(table) - 0.4)
    times.set_xlabel(f"time of a {what}, µs")
    ratios.set(xlim=(1 - reach, 1 + reach), xlabel="measured / expected")
    for axes in (times, ratios):
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="x", color=GREY, alpha=0.25, lw=0.5)
    return plot


@styled
def geometry(drive: Rotating) -> Plot:
    """Seek time over distance and rate over place of a rotating disk."""
    a, b, c = (value / 1e6 for value in drive.seek_curve())
    share = np.linspace(0, 1, 400)
    # Where the curve has the average: seeks of that length take as long as the mean over random pairs.
    mean = np.interp(drive.average_seek_ms, a + b * np.sqrt(share) + c * share, share)
    known: Iterable[tuple[float, float, str]] = [
        (0, drive.track_to_track_ms, "track to track"),
        (1, drive.full_stroke_ms, "full stroke"),
        (float(mean), drive.average_seek_ms, "average"),
    ]
    rates = zone_rates({"outer": drive.outer_mb_s, "inner": drive.inner_mb_s, "zones": drive.zones})
    plot, (seeks, zones) = plt.subplots(1, 2, figsize=(WIDTH, 2.0), layout="constrained")
    seeks.plot(100 * share, a + b * np.sqrt(share) + c * share, color=BLUE, lw=1.5)
    for x, y, text in known:
        seeks.plot(100 * x, y, "o", ms=4, color=ORANGE, clip_on=False, zorder=3)
        place = {"xytext": (0, 5), "ha": "right"} if x == 1 else {"xytext": (9, -12 if x else -2)}
        seeks.annotate(f"{text}, {y:g} ms", (100 * x, y), textcoords="offset points", va="bottom", **place)
    seeks.set(
        xlim=(0, 100), ylim=(0, 1.2 * drive.full_stroke_ms), xlabel="distance, % of the stroke", ylabel="seek, ms"
    )
    zones.stairs(rates, np.linspace(0, 100, len(rates) + 1), baseline=None, color=BLUE, lw=1.5)
    zones.set(xlim=(0, 100), ylim=(0, None), xlabel="place, % of the disk", ylabel="rate, MB/s")
    for axes in (seeks, zones):
        axes.grid(color=GREY, alpha=0.25, lw=0.5)
    return plot
