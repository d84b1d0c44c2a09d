"""What an administrator waits for: mounts, listings, checks and scrubs, by number of files and size of the device."""

from __future__ import annotations

import numpy as np
import pandas as pd

from reprofs.data.keys import SETTING
from reprofs.plan.workload import without_room, without_size
from reprofs.stats import scaling
from reprofs.stats.study import Study


def waits(study: Study) -> pd.DataFrame:
    """Times of the workloads with a phase that is upkeep, a row each repetition, without ceilings.

    The columns of `Study.times`, operation and where in fewer words; the workload without its sizes as load; and its
    parameters files and room_mib (of the file system; 0: the scale's own).
    """
    loads = {name: entry for name, entry in study.plan.workloads.items() if any(phase.upkeep for phase in entry.phases)}
    own = study.times[study.times["workload"].isin(loads) & (study.times["role"] != "ceiling")]
    titles = {(name, phase.name): phase.title for name, entry in loads.items() for phase in entry.phases}
    told = [titles[key] for key in zip(own["workload"], own["phase"], strict=True)]  # all are cold
    differ = [key for key in ("profile", "stack") if own[key].nunique() > 1]
    places = [", ".join(name for name in row if name != "single") for row in own[differ].itertuples(index=False)]
    sizes = {name: entry.parameters.get("files") for name, entry in loads.items()}
    rooms = {name: entry.parameters.get("device_mib", 0) for name, entry in loads.items()}
    named = own["workload"]
    return own.assign(
        operation=pd.Categorical(told, dict.fromkeys(told), ordered=True),
        where=places,
        load=named.map(without_size).map(without_room),
        files=named.map(sizes),
        room_mib=named.map(rooms),
    )


def largest(found: pd.DataFrame) -> pd.DataFrame:
    """Means in each setting, operation and file system at the most files there: a row each, with seconds, files and n,
    the number of repetitions. found: of `waits`, one size of the file system."""
    keys = [*SETTING, "where", "operation", "label"]
    most = found["files"] == found.groupby(keys, observed=True)["files"].transform("max")
    means = found[most].groupby([*keys, "files"], observed=True, sort=False)["seconds"]
    return means.agg(seconds="mean", n="size").reset_index()


def beyond(found: pd.DataFrame, at: list[int]) -> pd.DataFrame:
    """What `scaling.expected` expects of more files, and how far the largest size is from what smaller ones expect.

    found: of `waits`, one size of the file system. A row each setting, operation and file system with two numbers of
    files or more: the keys, then low_N and high_N of each number N of `at`; and off, the share by which the time at the
    largest number is outside the two laws through the smaller ones: above them positive, below negative, 0 between
    them, NaN where there are fewer than two smaller ones.
    """
    rows = []
    keys = [*SETTING, "where", "operation", "label"]
    for key, own in found.groupby(keys, observed=True, sort=False):
        sizes = np.sort(own["files"].unique())
        if len(sizes) < 2:
            continue
        more = scaling.expected(own["files"], own["seconds"], at)
        ends = {f"{end}_{row.size:.0f}": getattr(row, end) for row in more.itertuples() for end in ("low", "high")}
        off = np.nan
        if len(sizes) > 2:
            last = own["files"] == sizes[-1]
            (bounds,) = scaling.expected(own["files"][~last], own["seconds"][~last], sizes[-1:]).itertuples()
            time = np.exp(np.log(own["seconds"][last]).mean())
            off = time / np.clip(time, bounds.low, bounds.high) - 1
        rows.append(dict(zip(keys, key, strict=True)) | ends | {"off": off})
    return pd.DataFrame(rows)


def rooms(found: pd.DataFrame) -> pd.DataFrame:
    """What a larger device changes with as many files: a row each setting, operation and file system that ran in two
    sizes of the file system or more: the keys, files, room_mib and least_mib (the largest and least), seconds in the
    largest, and ratio (time in the largest over that in the least, means of the repetitions). found: of `waits`."""
    keys = [*SETTING, "where", "operation", "label", "files"]
    means = found.groupby([*keys, "room_mib"], observed=True, sort=False)["seconds"].mean().reset_index()
    ends = means.sort_values("room_mib").groupby(keys, observed=True, sort=False)
    least, table = ends.first(), ends.last()
    table = table.assign(least_mib=least["room_mib"], ratio=table["seconds"] / least["seconds"]).reset_index()
    return table[table["least_mib"] < table["room_mib"]]
