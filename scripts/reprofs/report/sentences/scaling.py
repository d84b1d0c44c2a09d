"""Sentences on growth: with size, cores, clients, less memory, and age."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from reprofs.data.keys import Load, Setting
from reprofs.report.marks import strong
from reprofs.report.words import confidence, count, digits, known, listing, longer, percent, slower, time, verb
from reprofs.stats import series
from reprofs.stats.cells import COMPUTE
from reprofs.stats.compare import holm
from reprofs.stats.cores import LEAST_NS, Curve
from reprofs.stats.study import Study

APART = 0.05  # of p, by Holm's method: below it times are no power law within 5 %


def growth(law: pd.DataFrame, workload: str, sizes: pd.Series, where: str = "") -> str:
    """How the times of a workload grow. law: `scaling.table`; sizes: those measured.

    `metadata, 2,000 to 40,000: times grow with exponents from 0.98 (Stat on xfs) to 1.31 (Create on btrfs).`
    """
    rows = law.sort_values("exponent", kind="stable")
    # Of those that were measured at all sizes: others say nothing of them.
    whole = rows[(rows["least"] == min(sizes)) & (rows["most"] == max(sizes))]
    least, most = (whole if len(whole) else rows).iloc[[0, -1]].itertuples()
    span = f"{int(min(sizes)):,} to {int(max(sizes)):,}"
    told = (
        strong(f"{workload}{f' ({where})' if where else ''}, {span}") + f" times grow with exponents from {_law(least)}"
    )
    told += f" to {_law(most)}; 1 is in proportion."
    tested = int(rows["fit_p"].notna().sum())
    if not tested:
        return told + " Whether they follow a power law needs three sizes and two repetitions."
    broken = int((holm(rows["fit_p"]) < APART).sum())
    worst = rows.loc[rows["off"].idxmax()]
    most = f"most is {percent(worst['off'])}, {worst['phase']} on {worst['label']}"
    return told + f" {broken} of {count(tested, 'law')} {verb(broken, 'is', 'are')} significantly off by 5 %; {most}."


def _law(row: Any) -> str:
    ends = f", {confidence(row.low, row.high)}" if known(row.low) else ""
    return f"{digits(row.exponent, 3)} ({row.phase} on {row.label}{ends})"


def speedup(own: pd.DataFrame, by: str, workload: str) -> str:
    """How much throughput gains from more cores or workers. own: of `cores.curves`, with operation.

    That of all operations together is by the total time: short operations count for little. Operations that some file
    system did too quickly, and those without files, are in no sum.

    `**From 1 to 8 cores the throughput** of all operations of metadata-private grows 5.1 times on ext4 and 1.7 times on
    btrfs.`
    """
    last = own[(own["n"] == own["n"].max()) & (own["role"] == "contender") & (own["phase"] != COMPUTE)]
    last = last[~last["short"].groupby(last["operation"], observed=True).transform("any").astype(bool)]
    if last.empty:
        return ""
    operations = np.log(last["speedup"]).groupby(last["operation"]).mean()
    fewest, most = own["n"].min(), own["n"].max()
    both = own[own["label"].isin(set(last["label"])) & own["operation"].isin(set(last["operation"]))].pivot(
        index=["label", "operation"], columns="n", values="wall_ns"
    )
    total = both[[fewest, most]].dropna().groupby("label").sum()
    systems = most / fewest * total[fewest] / total[most]  # a worker's work is the same, whatever their number
    together = "all operations of " if len(operations) > 1 else ""
    told = strong(f"From {fewest} to {most} {by} the throughput")
    told += f" of {together}{workload} grows {_times(systems, 'max')}"
    told += f" and {_times(systems, 'min')}" if len(systems) > 1 else ""
    if len(operations) == 1:
        return told + "."
    return told + f". “{operations.idxmax()}” gains most, “{operations.idxmin()}” least."


def too_short(own: pd.DataFrame) -> str:
    """Which operations tell no scaling, because they are short; empty where none is. own: of `cores.curves`."""
    rows = own[own["short"] & (own["role"] == "contender")]
    if rows.empty:
        return ""
    names = listing([f"“{name}”" for name in dict.fromkeys(rows["operation"])])
    least = f"{time(LEAST_NS, 2)}, ten ticks of the scheduler"
    return f"No speed-up is given where a phase is shorter than {least}: {names}."


def _times(means: pd.Series, which: str) -> str:
    name = means.idxmax() if which == "max" else means.idxmin()
    return f"{digits(means[name], 2)} times on {name}"


def one_lock(study: Study, curve: Curve) -> str:
    """That the device's lock may be the limit; empty where the device is not memory without a bandwidth."""
    device = study.plan.devices.get(curve.profile)
    if not (study.lab(curve.lab).exact and device is not None and not device.drive and not device.bandwidth_mb_s):
        return ""
    return "The device is memory behind one lock, which limits content beyond two to four cores."


def fairness(own: pd.DataFrame, heading: str) -> str:
    """How evenly clients share. own: of `series.clients_table`, with operation."""
    means = own.groupby(["operation", "label"], observed=True)[["n", "jain", "first_done_ns", "last_done_ns"]].mean()
    (operation, label), least = means["jain"].idxmin(), means.loc[means["jain"].idxmin()]
    told = f"{heading}: {count(int(least['n']), 'client')} start together."
    told += f" Sharing is least even on {label} in “{operation}”"
    told += f" (Jain's index {digits(least['jain'], 3)}): the first is done after {time(least['first_done_ns'], 3)},"
    return f"{told} the last after {time(least['last_done_ns'], 3)}."


def apart(study: Study, setting: Setting, load: Load) -> str:
    """How well clients on several machines started together; empty where they were on one."""
    own = series.completed(study.trials, setting, load)
    starts, clocks = (own[f"{key}_within_ns"].max() for key in ("starts", "clocks"))
    if pd.isna(starts):
        return ""
    return f"They ran on several machines and started within {time(starts, 2)}; clocks are known to {time(clocks, 2)}."


def against(own: pd.DataFrame, what: str, base: str) -> str:
    """What another place changes. own: of `places.compared`, one place, with operation; what: begins the sentence.

    `With 64 MiB of memory 3 of 18 operations are slower than with no limit (most: Read, cold on xfs, 2.4 times).`
    """
    changed, worst = own["verdict"], own["ratio"].idxmax()
    counts = {word: int((changed == word).sum()) for word in ("slower", "faster")}
    number = f"{counts['slower']} of {count(len(own), 'operation')}"
    told = f"{what} {number} {verb(counts['slower'], 'is', 'are')} slower than {base}"
    if counts["slower"]:
        row = own.loc[worst]
        told += f" (most: {row['operation']} on {row['label']}, {slower(row['ratio'])})"
    return told + f", {counts['faster']} faster."


def rooms(total: pd.DataFrame, enough: pd.Series, equal: float) -> list[str]:
    """From which size of its file system on each one takes at most a share longer than in the largest.

    total: `scaling.totals` of a workload; enough: `scaling.enough` of its times; equal: the difference that counts, a
    share.

    `**btrfs needs 1,536 to 4,096 MiB to be as fast as in 16,384 MiB**, the most on Linux 7.3; up to 42 % of the longer
    time neither processor nor device works. From 1,024 MiB on ext4 and xfs take at most 5 % longer than in 16,384 MiB.`
    """
    told: list[str] = []
    level: dict[tuple[int, int], list[str]] = {}
    for label, own in enough.groupby(level="label", sort=False):
        sizes = total["wall_ns"].xs(label, level="label").unstack("room_mib").sort_index(axis=1)
        least, largest = sizes.columns[0], sizes.columns[-1]
        more = (sizes[largest] / sizes[least]).max()
        if (own == least).all() and more > 1 + equal:
            slow = strong(f"{label} takes {longer(more)} with {largest:,} MiB instead of {least:,} MiB")
            told.append(slow + ".")
            continue
        if (own == least).all():
            level.setdefault((least, largest), []).append(str(label))
            continue
        ends = [f"{end:,}" for end in dict.fromkeys((own.min(), own.max()))]
        most = own.index[own.argmax()][0] if len(ends) > 1 else ""
        needs = strong(f"{label} needs {' to '.join(ends)} MiB to be as fast as in {largest:,} MiB")
        needs += f", the most on {most}" if most else ""
        share = total["idle"].xs(label, level="label").max()
        needs += f"; up to {percent(share)} of the longer time neither processor nor device works" if share > 0 else ""
        told.append(needs + ".")
    for (least, largest), labels in level.items():
        takes = f"{listing(labels)} {verb(len(labels), 'takes', 'take')} at most {100 * equal:g} % longer"
        told.append(f"From {least:,} MiB on {takes} than in {largest:,} MiB.")
    return told


def drift(study: Study) -> pd.DataFrame:
    """`series.over_runs` of all workloads that are repeated in one file system, with operation, first_ms, last_ms."""
    found = []
    for _, setting, load in study.parts():
        if study.plan.workloads[load.workload].runs > 1:
            rows = series.over_runs(series.completed(study.samples, setting, load))
            titles = [study.title(load.workload, row.phase, row.cache) for row in rows.itertuples()]
            found.append(rows.assign(operation=titles, first_ms=rows["first_ns"] / 1e6, last_ms=rows["last_ns"] / 1e6))
    return pd.concat(found, ignore_index=True) if found else pd.DataFrame()


def ageing(changes: pd.DataFrame) -> str:
    """Whether work takes longer when it is repeated. changes: of `drift`."""
    later = int((changes["ratio"] > 1).sum())
    most = changes.loc[changes["ratio"].idxmax()]
    told = f"In {later} of {count(len(changes), 'operation')} the last run took longer than the first"
    return f"{told}; most: {most['operation']} on {most['label']}, {slower(most['ratio'])}."


def sure(rounds: int, least: float | None = None) -> str:
    """How sure ratios are. least: the smallest difference that counts, a share.

    `How sure: 3 repetitions, ratios paired by repetition; differences below 2.00 % do not count.`
    """
    if rounds < 2:
        return "How sure: one repetition, so ratios have no interval."
    told = f"How sure: {count(rounds, 'repetition')}, ratios paired by repetition"
    return f"{told}; differences below {percent(least)} do not count." if least else f"{told}."
