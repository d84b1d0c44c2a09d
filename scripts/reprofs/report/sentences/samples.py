"""Sentences on throughput within an operation: filling, interference, sizes of records, lists of files."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pandas as pd

from reprofs.report.marks import strong
from reprofs.report.words import count, digits, known, listing, percent, size, span
from reprofs.stats import series


def steady(own: pd.DataFrame, place: str) -> str:
    """Who writes fastest until a device is full, and who most steadily. own: label, role, mean, sd (MB/s).

    `Fill the device: xfs has the highest throughput, 863 MB/s (SD 8.9 %). ext4 is the steadiest, 755 MB/s (SD 3.8 %).`
    """
    ranked = own[own["role"] == "contender"]
    if ranked.empty:
        return ""
    ranked = ranked.assign(spread=ranked["sd"] / ranked["mean"]).sort_values("mean", ascending=False)
    first = ranked.iloc[0]
    if len(ranked) < 2:
        return strong(place) + f" {first['label']} has a throughput of {_mean(first)}."
    told = strong(place) + f" {first['label']} has the highest throughput, {_mean(first)}"
    if not ranked["spread"].notna().any():
        return told + "."
    least = ranked.loc[ranked["spread"].idxmin()]
    if least["label"] == first["label"]:
        return told + ", and is the steadiest."
    return told + f"; {least['label']} is the steadiest, {_mean(least)}."


def _mean(row: pd.Series) -> str:
    spread = f" (SD {percent(row['spread'])})" if known(row["spread"]) else ""
    return f"{digits(row['mean'], 3)} MB/s{spread}"


def sure(rounds: int, spread: float) -> str:
    """How sure mean throughputs are. spread: the largest SD of a mean over repetitions, as a share of it.

    `How sure: 3 repetitions, whose means differ by at most 1.2 % (SD).`
    """
    if rounds < 2 or not known(spread):
        return "How sure: one repetition, so its spread is not known."
    return f"How sure: {count(rounds, 'repetition')}, whose means differ by at most {percent(spread)} (SD)."


def not_durable(labels: Collection[str]) -> str:
    """Who is shown without being ranked: `Not ranked, because fsync is not durable: jfs.`"""
    return f"Not ranked, because fsync is not durable: {listing(labels)}." if len(labels) else ""


def interference(own: pd.DataFrame, stack: str) -> str:
    """Who keeps the most of a writer's throughput while a reader works, and the least. own: label, role, kept and ends.

    `single: with a reader, btrfs keeps 74.3 % (73.1 to 75.5 %) of its write throughput, the most; ext4 keeps 40.8 %.`
    """
    ranked = own[own["role"] == "contender"].sort_values("kept", ascending=False)
    if ranked.empty:
        return ""
    most, least = ranked.iloc[0], ranked.iloc[-1]
    told = strong(stack) + f" With a reader, {most['label']} keeps {_kept(most)} of its write throughput"
    return told + (f", the most; {least['label']} keeps {_kept(least)}, the least." if len(ranked) > 1 else ".")


def _kept(row: pd.Series) -> str:
    ends = f" ({percent(row['low'])} to {percent(row['high'])})" if known(row["low"]) else ""
    return f"{percent(row['kept'])}{ends}"


def extremes(swept: pd.DataFrame, title: str) -> str:
    """The slowest and the fastest test of a sweep. swept: of `series.sweep`; title: of its phase.

    `Past the cache: throughput goes from 12.1 MB/s (read of 4 MiB in records of 4 KiB on jfs) to 812 MB/s (...).`
    """
    rows = swept.sort_values("mb_s", kind="stable")
    return strong(title) + f" Throughput goes from {_test(rows.iloc[0])} to {_test(rows.iloc[-1])}."


def _test(row: pd.Series) -> str:
    sizes = f"{size(row['file_bytes'])} in records of {size(row['record_bytes'])}"
    return f"{digits(row['mb_s'], 3)} MB/s ({row['operation']} of {sizes} on {row['label']})"


def held(swept: pd.DataFrame, memory: int) -> str:
    """Which tests of a sweep memory may have served. memory: bytes of the machine, 0 if not known.

    `Files of 4 MiB fit in the memory of 3 GiB: read and reread may show the throughput of memory.`
    """
    found = series.held(swept, memory)
    if not found:
        return ""
    operations = listing(found["operations"])
    files = listing(map(size, found["file_bytes"]))
    return f"Files of {files} fit in the memory of {size(memory)}: {operations} may show the throughput of memory."


def lists(shares: pd.Series, heading: str) -> str:
    """How much of rsync's time its list takes. shares: (operation, label) -> share.

    `rsync: the list of files takes from 2.1 % (Copy on ext4) to 80.0 % (Nothing to do on xfs) of the time.`
    """
    told = [f"{percent(shares[key])} ({key[0]} on {key[1]})" for key in (shares.idxmin(), shares.idxmax())]
    return strong(heading) + f" The list of files takes from {told[0]} to {told[1]} of rsync's time."


def throughput(row: Any) -> str:
    """Throughput of an operation, of its bytes or else of its files. row: of `series.operation_rates`.

    `362 MB/s (11.2 - 12.9)` with several clients, whose slowest and fastest are in brackets; `30,088 files/s`.
    """
    kind, unit = ("mb_s", "MB/s") if row.mb_s > 0 else ("files_s", "files/s")
    low, mean, high = (getattr(row, name) for name in (f"least_{kind}", kind, f"most_{kind}"))
    each = f" ({span(low, high, significant=3)})" if row.clients > 1 else ""
    return f"{digits(mean, 3)} {unit}{each}"
