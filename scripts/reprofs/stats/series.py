"""Series of samples and clients as pure functions: rates, dips, windows, records, iterations, fairness.

`samples` is the table of that name: one row per sample, with the columns trial, label, stack, workload, round, phase,
cache, name, client, iteration, file_bytes, record_bytes, start_ns, wall_ns, items, bytes. `clients` is the table of
that name. MB/s are 10^6 bytes a second, Gbit/s 10^9 bits a second, as networks and the study of the streams count.

statsmodels takes seconds to import and is imported where it is needed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import pandas as pd
import scipy  # scipy.stats takes seconds to import, so scipy imports it on first use
from numpy.typing import ArrayLike

from reprofs.data.columns import OVER_TIME
from reprofs.data.keys import Load, Setting, select
from reprofs.stats.cells import LEVEL

RUN = ["trial", "phase", "cache"]  # what one command did
PLACE = ["trial", "label", "stack", "round"]  # of a trial
SWEEP = ["label", "stack", "workload", "phase", "cache"]  # what a sweep over records belongs to
COMMAND = ["trial", "label", "round", "phase", "cache"]  # a command of which samples are parts
TESTS = ("write", "rewrite", "read", "reread")  # of a sweep over records
REQUIRED_GBIT_S = (1, 2, 4, 8)  # rates of the observations that the study of the streams had to hold
RECOVERED = 0.95  # of the median rate before
DEVIATIONS = 4  # of the rates of a series: a rate that lies farther below is a dip
SHALLOW = 0.95  # of the line through a series: no dip above it, however steady the rest
ENOUGH_FOR_SLOPE = 8  # rates
ENOUGH_DIPS = 3  # two distances at least: one says nothing of a period


# ---- which rows ------------------------------------------------------------------------------------------------------


def completed(frame: pd.DataFrame, setting: Setting, load: Load) -> pd.DataFrame:
    """The rows of the completed trials of one workload in one setting, but those of upper bounds."""
    return select(frame[frame["role"] != "ceiling"], setting, load, status="ok")


# ---- rates and dips --------------------------------------------------------------------------------------------------


def rates(samples: pd.DataFrame, name: str = "write") -> pd.DataFrame:
    """The samples of that name that took time, command by command, in the order of their start, with more columns.

    mb_s (MB/s), gbit_s (Gbit/s), before_bytes (content written by the same command before this sample) and partial
    (whether the space ended within this file: fewer bytes than file_bytes and nothing after it).
    """
    found = samples[(samples["name"] == name) & (samples["wall_ns"] > 0)]
    order = found.groupby(RUN, sort=False, dropna=False).ngroup()
    found = found.assign(order=order).sort_values(["order", "start_ns"], kind="stable").reset_index(drop=True)
    found = found.drop(columns="order")
    runs = found.groupby(RUN, sort=False, dropna=False)
    size, wall = found["bytes"].astype(float), found["wall_ns"].astype(float)
    last = runs.cumcount(ascending=False) == 0
    full = pd.MultiIndex.from_frame(found[RUN]).isin(list(_of(samples, "full")[RUN].itertuples(index=False, name=None)))
    return found.assign(
        mb_s=size / wall * 1e3,
        gbit_s=size / wall * 8,
        before_bytes=runs["bytes"].cumsum() - found["bytes"],
        partial=last & full & (found["bytes"] < found["file_bytes"]).fillna(False).astype(bool),
    )


def dips(values: ArrayLike, deviations: float = DEVIATIONS) -> dict:
    """Where a series of rates falls out of its own spread, and how regularly.

    `values` is one rate a sample, in time order, any unit, of shape (n,). A dip lies more than `deviations` standard
    deviations, and more than 5 %, below the line through the series: its median slope (Theil and Sen), because a disk
    is slower towards its end. The deviation is 1.4826 times the median distance from that line, so that neither is
    made by the dips. Neighbours are one dip, its place that of its lowest value. Returns at (indices, shape (dips,)),
    depth (shape (dips,): the lowest value as a share of the line), floor (shape (n,), in the unit of values: below it
    is a dip), median, period (median distance of neighbouring dips in samples, None with fewer than three) and
    period_autocorrelation (the lag of the highest significant peak of the autocorrelation of what the line leaves, None
    if there is none). Raises ValueError if `deviations` is not above zero.
    """
    if not deviations > 0:
        raise ValueError(f"deviations is {deviations}, but it must be above zero")
    x = np.asarray(values, dtype=float)
    line = _line(x)
    sigma = 1.4826 * float(np.median(np.abs(x - line))) if len(x) else math.nan
    floor = np.minimum(line - deviations * sigma, SHALLOW * line)
    low = np.flatnonzero(x < floor)
    groups = np.split(low, np.flatnonzero(np.diff(low) > 1) + 1) if len(low) else []
    at = np.array([group[np.argmin(x[group])] for group in groups], dtype=int)
    return {
        "at": at,
        "depth": x[at] / line[at],
        "floor": floor,
        "median": float(np.median(x)) if len(x) else math.nan,
        "period": float(np.median(np.diff(at))) if len(at) >= ENOUGH_DIPS else None,
        "period_autocorrelation": autocorrelation_period(x - line),
    }


def stalls(rates: pd.DataFrame, deviations: float = DEVIATIONS) -> pd.DataFrame:
    """Which files of `rates` are stalls, the `dips` of the series of their command: its rows with more columns.

    stall (bool), depth (their rate as a share of the line through the series, NaN of other files) and period (the
    distance of stalls in files, the same for the whole series; NaN where they do not come regularly).
    """
    parts = [rates.iloc[:0].assign(stall=False, depth=math.nan, period=math.nan)]
    for _, own in rates.groupby(RUN, sort=False, dropna=False):
        found, at = dips(own["mb_s"], deviations), np.arange(len(own))
        depth = pd.Series(math.nan, own.index)
        depth.iloc[found["at"]] = found["depth"]
        period = math.nan if found["period"] is None else found["period"]
        parts.append(own.assign(stall=np.isin(at, found["at"]), depth=depth, period=period))
    return pd.concat(parts[1:] or parts)


def _line(x: np.ndarray) -> np.ndarray:
    """The line of median slope through values in order; their median where there are too few for a slope."""
    if len(x) < ENOUGH_FOR_SLOPE:
        return np.full(len(x), np.median(x) if len(x) else math.nan)
    thin = np.arange(0, len(x), -(-len(x) // 1000))  # all pairs of a thousand are enough
    slope = scipy.stats.theilslopes(x[thin], thin).slope
    return slope * np.arange(len(x)) + np.median(x - slope * np.arange(len(x)))


def autocorrelation_period(values: ArrayLike) -> int | None:
    """Lag in samples of the highest local peak of the autocorrelation, up to half of the series (shape (n,)).

    A peak counts above the bound that white noise of n values exceeds at any of the lags with 5 % (Bonferroni). None if
    there is none, the series is constant or shorter than eight.
    """
    from scipy import signal
    from statsmodels.tsa.stattools import acf

    x = np.asarray(values, dtype=float)
    if len(x) < 8 or np.ptp(x) == 0:
        return None
    lags = len(x) // 2
    found = acf(x, nlags=lags, fft=True)
    peaks, _ = signal.find_peaks(found, height=scipy.stats.norm.isf((1 - LEVEL) / lags) / math.sqrt(len(x)))
    return int(peaks[np.argmax(found[peaks])]) if len(peaks) else None


# ---- shares and capacity ---------------------------------------------------------------------------------------------


def probability(
    gbit_s: ArrayLike, levels: Iterable[float] = REQUIRED_GBIT_S, confidence: float = LEVEL
) -> pd.DataFrame:
    """How likely a sample reaches each required rate: columns level_gbit_s, n, reached, share, low, high.

    `gbit_s` are rates in Gbit/s, shape (n,). The interval of the share is Wilson's (E. B. Wilson, JASA 22, 1927); it
    assumes independent samples, which regular dips are not: then it is a description, not a test.
    """
    from statsmodels.stats.proportion import proportion_confint

    x = np.asarray(gbit_s, dtype=float)
    rows = []
    for level in levels:
        reached = int((x >= level).sum())
        low, high = proportion_confint(reached, len(x), 1 - confidence, "wilson") if len(x) else (math.nan, math.nan)
        if len(x):  # rounding leaves 1e-17 in the place of 0
            low, high = low if reached else 0.0, high if reached < len(x) else 1.0
        share = reached / len(x) if len(x) else math.nan
        rows.append({"level_gbit_s": level, "n": len(x), "reached": reached, "share": share, "low": low, "high": high})
    return pd.DataFrame(rows)


def capacity_reached(samples: pd.DataFrame) -> pd.DataFrame:
    """One row per command that filled a device: content against capacity.

    Columns: those of the command (trial, label, stack, round, phase, cache), capacity_bytes (statvfs before the first
    file), content_bytes, files, full (whether the space ran out; otherwise content is what was asked for), share.
    """
    columns = [*PLACE, "phase", "cache", "capacity_bytes", "content_bytes", "files", "full", "share"]
    rows = []
    for _, run in samples.groupby(RUN, sort=False, dropna=False):
        capacity, full, written = _of(run, "capacity"), _of(run, "full"), _of(run, "write")
        if not capacity.empty:
            size, content = int(capacity["bytes"].iloc[0]), int(written["bytes"].sum())
            found = [size, content, len(written), not full.empty, content / size if size else math.nan]
            rows.append([*run.iloc[0][columns[:6]], *found])
    return pd.DataFrame(rows, columns=columns)


# ---- sharing a device: windows ---------------------------------------------------------------------------------------


def window_effects(samples: pd.DataFrame) -> dict:
    """What a reader did to a writer, from the samples `write` (client: window 0, 1, 2) and `read` of one command.

    Returns before_mb_s, beside_mb_s, after_mb_s (bytes over time of each window), reader_mb_s, slowdown (rate beside
    the reader divided by the mean of the two windows alone: 1 is undisturbed, 0.25 a quarter of the rate),
    reader_end_ns and recovery_ns (both in the clock of start_ns): from the reader's last sample to the first chunk,
    begun after it, whose rate is 95 % of the median chunk of window 0. None if no chunk is, or nobody read.
    """
    write, read = _of(samples, "write"), _of(samples, "read")
    windows = [_mb_s(write[write["client"] == window]) for window in range(3)]
    alone = (windows[0] + windows[2]) / 2
    found = {
        "before_mb_s": windows[0],
        "beside_mb_s": windows[1],
        "after_mb_s": windows[2],
        "reader_mb_s": _mb_s(read),
        "slowdown": windows[1] / alone if alone else math.nan,
        "reader_end_ns": None,
        "recovery_ns": None,
    }
    if read.empty or write.empty:
        return found
    end = int((read["start_ns"] + read["wall_ns"]).max())
    rate = write["bytes"].astype(float) / write["wall_ns"].astype(float) * 1e3
    floor = RECOVERED * rate[write["client"] == 0].median()
    back = write.loc[(write["start_ns"] >= end) & (rate >= floor), "start_ns"]
    return found | {"reader_end_ns": end, "recovery_ns": int(back.min()) - end if len(back) else None}


def windows(samples: pd.DataFrame) -> pd.DataFrame:
    """`window_effects` of every command that had windows: its columns trial, label, stack, round, then the effects."""
    rows = []
    for _, run in samples.groupby(RUN, sort=False, dropna=False):
        written = _of(run, "write")
        if not written.empty and set(written["client"].dropna()) == {0, 1, 2}:
            rows.append(run.iloc[0][PLACE].to_dict() | window_effects(run))
    return pd.DataFrame(rows)


# ---- records and memory ----------------------------------------------------------------------------------------------


def fits_in_memory(file_bytes: ArrayLike, memory_bytes: int) -> np.ndarray:
    """Which files (bytes, shape (n,)) the host's memory (bytes) can hold: reading them may be a copy in memory."""
    return np.asarray(file_bytes, dtype=float) <= memory_bytes


def memory_bytes(environment: dict) -> int:
    """Memory (bytes) of the machine that ran the trials: of the guest, else of the host; 0 if several or none is known.

    `environment` is environment.json.
    """
    values = environment["values"]
    guests, hosts = list(values.get("lab.memory_mib", {})), list(values.get("host.memory_bytes", {}))
    if guests:
        return int(guests[0]) << 20 if len(guests) == 1 else 0
    return int(hosts[0]) if len(hosts) == 1 else 0


def held(table: pd.DataFrame, memory: int) -> dict | None:
    """Of a `sweep`, what memory (bytes) may have served: file_bytes (sizes that fit), operations; None if nothing."""
    found = table[table["cached"] & fits_in_memory(table["file_bytes"], memory)]
    if found.empty:
        return None
    operations = [name for name in TESTS if name in set(found["operation"])]
    return {"file_bytes": sorted(found["file_bytes"].unique()), "operations": operations}


def sweep(samples: pd.DataFrame) -> pd.DataFrame:
    """Rates of a sweep over records: one row per (cell, operation, file size, record size), columns mb_s, n, cached.

    The operation is the last word of the sample's name: write, rewrite, read, reread. Rates of the n rounds are joined
    by their harmonic mean, which is the rate of all rounds together. cached: whether memory may have served the test;
    not for samples `direct-…`, which went past the cache, nor for `flushed-…`, except when read again.
    """
    own = samples.dropna(subset=["file_bytes", "record_bytes"])
    own = own[own["wall_ns"] > 0]
    last = own["name"].str.split("-").str[-1]
    cached = ~own["name"].str.startswith(("direct-", "flushed-")) | (own["name"] == "flushed-reread")
    own = own.assign(operation=last, cached=cached)[last.isin(TESTS)]
    keys = [*SWEEP, "operation", "file_bytes", "record_bytes", "cached"]
    sums = own.groupby(keys, sort=False).agg(bytes=("bytes", "sum"), wall=("wall_ns", "sum"), n=("round", "nunique"))
    sums = sums.reset_index()
    return sums.assign(mb_s=sums["bytes"].astype(float) / sums["wall"].astype(float) * 1e3)[[*keys, "mb_s", "n"]]


# ---- iterations ------------------------------------------------------------------------------------------------------


def iterations(samples: pd.DataFrame) -> pd.DataFrame:
    """mdtest's own summary of each part that a command repeats: max, min, mean, sd (of the rates, items a second), n.

    The rate of an iteration is the items of all clients over the time of the slowest one; sd divides by n, as mdtest
    1.9.3 does. One row per command and part with two iterations or more: trial, label, round, phase, cache, name.
    """
    keys = [*COMMAND, "name"]
    rate = over_time(samples).groupby(keys, sort=False, dropna=False)["rate"]
    found = pd.DataFrame(
        {"max": rate.max(), "min": rate.min(), "mean": rate.mean(), "sd": rate.std(ddof=0), "n": rate.size()}
    )
    return found[found["n"] > 1].reset_index()


def over_time(samples: pd.DataFrame) -> pd.DataFrame:
    """When each part of each iteration began and ended, and its rate: items of all clients over the slowest one's time.

    Columns: COMMAND, name, iteration, start_ns, end_ns (after the start of the command), items, rate (items a second).
    """
    own = samples[samples["iteration"].notna() & (samples["wall_ns"] > 0) & (samples["items"] > 0)]
    own = own.assign(end_ns=own["start_ns"] + own["wall_ns"])
    each = own.groupby([*COMMAND, "name", "iteration"], sort=False, dropna=False).agg(
        start_ns=("start_ns", "min"), end_ns=("end_ns", "max"), items=("items", "sum"), wall=("wall_ns", "max")
    )
    rate = each["items"].astype(float) / each.pop("wall").astype(float) * 1e9
    return each.assign(rate=rate).reset_index()


def intervals(samples: pd.DataFrame) -> pd.DataFrame:
    """How many items all clients ended in each interval of each part of each iteration: `engine mdtest --series`.

    Columns: COMMAND, name, iteration, start_ns, end_ns (after the start of the command), items, rate (items a second).
    Clients count in intervals of their own length; the longest are those of the rows, and the items of the others are
    spread evenly over each of theirs. Empty where nothing was counted.
    """
    keys = [*COMMAND, "name", "client"]
    counted = samples[samples["name"].str.endswith(OVER_TIME)]
    counted = counted.assign(name=counted["name"].str.removesuffix(OVER_TIME)).drop(columns="iteration")
    parts = samples[samples["iteration"].notna()].drop_duplicates([*keys, "start_ns"])
    merged = pd.merge_asof(  # an interval is of the part that began last
        counted.sort_values("start_ns", kind="stable"),
        parts[[*keys, "start_ns", "iteration"]].sort_values("start_ns", kind="stable"),
        on="start_ns",
        by=keys,
    )
    rows = []
    for place, part in merged.groupby([*COMMAND, "name", "iteration"], sort=False):
        each = [own for _, own in part.groupby("client", dropna=False)]
        longest = max(each, key=lambda own: own["wall_ns"].max())
        edges = np.append(longest["start_ns"], (longest["start_ns"] + longest["wall_ns"]).iloc[-1]).astype(float)
        edges[-1] = (part["start_ns"] + part["wall_ns"]).max()
        done = sum(
            np.interp(
                edges,
                [own["start_ns"].iloc[0], *(own["start_ns"] + own["wall_ns"])],
                [0.0, *own["items"].astype(float).cumsum()],
            )
            for own in each
        )
        for start, end, items in zip(edges[:-1], edges[1:], np.diff(done), strict=True):
            rows.append([*place, start, end, items, items / (end - start) * 1e9])
    columns = [*COMMAND, "name", "iteration", "start_ns", "end_ns", "items", "rate"]
    return pd.DataFrame(rows, columns=columns).sort_values("start_ns", kind="stable").reset_index(drop=True)


# ---- operations again and again --------------------------------------------------------------------------------------


def operation_rates(samples: pd.DataFrame) -> pd.DataFrame:
    """Rates of the parts of a command, which have many operations: one row per (name, label).

    A client's rate is what all its operations did, in all rounds, over the sum of their times. Columns: clients, n
    (operations), mb_s and files_s (sums of the clients' rates), least_mb_s, most_mb_s, least_files_s, most_files_s (of
    a client), mean_mb_s (mean over the operations of a client, sum over clients), time_ns (mean of an operation).
    """
    own = samples[samples["wall_ns"] > 0].assign(client=lambda frame: frame["client"].fillna(0))
    own = own.astype(dict.fromkeys(("wall_ns", "items", "bytes"), float))
    own = own.assign(rate=own["bytes"] / own["wall_ns"] * 1e3)
    client = own.groupby(["name", "label", "client"], sort=False).agg(
        bytes=("bytes", "sum"),
        items=("items", "sum"),
        wall=("wall_ns", "sum"),
        n=("rate", "size"),
        mean=("rate", "mean"),
    )
    client = client.assign(mb_s=client["bytes"] / client["wall"] * 1e3, files_s=client["items"] / client["wall"] * 1e9)
    found = client.groupby(["name", "label"], sort=False).agg(
        clients=("n", "size"), n=("n", "sum"), mb_s=("mb_s", "sum"), files_s=("files_s", "sum"),
        least_mb_s=("mb_s", "min"), most_mb_s=("mb_s", "max"),
        least_files_s=("files_s", "min"), most_files_s=("files_s", "max"),
        mean_mb_s=("mean", "sum"), wall=("wall", "sum"),
    )  # fmt: skip
    return found.assign(time_ns=found.pop("wall") / found["n"]).reset_index()


# ---- clients ---------------------------------------------------------------------------------------------------------


def jain(values: ArrayLike) -> float:
    """Jain's index of fairness of shares of shape (n,), none negative: 1 all equal, 1/n one has everything.

    (R. Jain, D. Chiu, W. Hawe, 1984.) NaN for no or only zero shares. Raises ValueError for a negative share.
    """
    x = np.asarray(values, dtype=float)
    if (x < 0).any():
        raise ValueError("a share is negative, so there is no fairness of them")
    return float(x.sum() ** 2 / (len(x) * (x**2).sum())) if x.any() else math.nan


def clients_summary(clients: pd.DataFrame) -> dict:
    """What simultaneous clients of one phase did: one row per client, columns start_ns, wall_ns (ns), items, bytes.

    As published studies count: rate_sum_items_s and rate_sum_mb_s (sums of the clients' own rates), time_mean_ns.
    Stricter: makespan_ns (first start to last end), total_items_s and total_mb_s (all work over the makespan, never
    more than the sum). at_once: how many clients were in the phase at the same time, mean over the makespan; it may be
    far below their number where clients go through several steps without waiting for one another. first_done_ns and
    last_done_ns are after the earliest start; jain is Jain's index of the rates (of bytes, if there are none of items).
    Raises ValueError if there is no client or one took no time.
    """
    if clients.empty:
        raise ValueError("there is no client to summarise")
    start, wall, items, size = (clients[key].to_numpy(dtype=float) for key in ("start_ns", "wall_ns", "items", "bytes"))
    if (wall <= 0).any():
        raise ValueError("a client took no time, so it has no rate")
    end = start + wall - start.min()
    span = end.max()
    return {
        "n": len(wall),
        "rate_sum_items_s": float((items / wall).sum() * 1e9),
        "rate_sum_mb_s": float((size / wall).sum() * 1e3),
        "time_mean_ns": float(wall.mean()),
        "first_done_ns": float(end.min()),
        "last_done_ns": float(span),
        "makespan_ns": float(span),
        "at_once": float(wall.sum() / span),
        "total_items_s": float(items.sum() / span * 1e9),
        "total_mb_s": float(size.sum() / span * 1e3),
        "jain": jain((size if size.any() else items) / wall),
    }


def clients_table(clients: pd.DataFrame) -> pd.DataFrame:
    """`clients_summary` of every phase of every trial in the table `clients`: its keys, then the summary's columns."""
    keys = ["trial", "label", "stack", "workload", "round", "phase", "cache"]
    rows = [
        dict(zip(keys, key, strict=True)) | clients_summary(own)
        for key, own in clients.groupby(keys, sort=False, dropna=False)
    ]
    return pd.DataFrame(rows)


# ---- ageing ----------------------------------------------------------------------------------------------------------


def over_runs(samples: pd.DataFrame) -> pd.DataFrame:
    """How times change over runs in one file system: phase, cache, label, runs, first_ns, last_ns, ratio, spearman.

    A time is the mean over rounds; `spearman` is the correlation of time with the number of the run.
    """
    rows = []
    whole = samples[samples["start_ns"].isna() & samples["iteration"].notna()]
    for key, own in whole.groupby(["phase", "cache", "label"], sort=False):
        times = own.groupby("iteration")["wall_ns"].mean().astype(float)
        rho = times.corr(pd.Series(times.index, times.index).astype(float), method="spearman")
        found = {"runs": len(times), "first_ns": times.iloc[0], "last_ns": times.iloc[-1]}
        found |= {"ratio": found["last_ns"] / found["first_ns"], "spearman": rho}
        rows.append(dict(zip(("phase", "cache", "label"), key, strict=True)) | found)
    return pd.DataFrame(rows, columns=["phase", "cache", "label", "runs", "first_ns", "last_ns", "ratio", "spearman"])


def _of(samples: pd.DataFrame, name: str) -> pd.DataFrame:
    return samples[samples["name"] == name]


def _mb_s(samples: pd.DataFrame) -> float:
    wall = float(samples["wall_ns"].sum())
    return float(samples["bytes"].sum()) / wall * 1e3 if wall else math.nan
