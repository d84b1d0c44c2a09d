"""Sentences on a program: what its file-system calls are of its time, what they do, and what would change that."""

from __future__ import annotations

import pandas as pd

from reprofs.report.words import count, digits, known, listing, longer, percent, size, time
from reprofs.stats import recorded
from reprofs.stats.program import Change, Native, Row

NO_MATTER = 0.02  # of the program's time in processors: less than that is no reason to choose
MOST, LITTLE = 3, 0.05  # kinds of calls that are named, and the share of the time from which on they are


def spent(native: Native) -> str:
    """`It takes 1.20 s on this machine, of which its file-system calls are 0.310 s (25.8 %).`"""
    whole, calls = time(native.elapsed_ns, 3), time(native.calls_ns, 3)
    if native.calls_ns >= native.elapsed_ns:
        return f"It takes {whole} on this machine. Its file-system calls one after the other take {calls}."
    share = percent(native.calls_ns / native.elapsed_ns)
    return f"It takes {whole} on this machine, of which its file-system calls are {calls} ({share})."


def matters(native: Native, widest: dict[str, float]) -> str:
    """On which devices no file system matters, if on any. widest: device -> ns between the fastest and the slowest.

    `On ssd-sata and ssd-nvme-plp no file system matters to it: the largest difference, 2.02 ms of virtual time, is
    0.07 % of its time in processors, 2.80 s.`
    """
    most = NO_MATTER * native.cpu_ns
    found = {device: ns for device, ns in widest.items() if max(ns, native.calls_ns) < most}
    if not found:
        return ""
    where = "No file system matters to it" if len(found) == len(widest) else ""
    where = where or f"On {listing(found)} no file system matters to it"
    ns = max(found.values())
    return (
        f"{where}: the largest difference, {time(ns, 3)} of virtual time, is {percent(ns / native.cpu_ns)} of its time "
        f"in processors, {time(native.cpu_ns, 3)}."
    )


def kinds(ns: pd.Series, where: str) -> str:
    """Where the time of its calls goes. ns: kind -> time; where: `ext4, ssd-sata, warm`.

    `Time of its calls (ext4, ssd-sata, warm): fsync 62 %, open 20 % and rename 9 %.`
    """
    shares = (ns / ns.sum()).sort_values(ascending=False, kind="stable")
    named = shares[shares >= LITTLE][:MOST]
    told = listing(
        f"{'last flush' if kind == recorded.LAST else kind} {100 * share:.0f} %" for kind, share in named.items()
    )
    more = " The last flush writes what is in memory when the program ends." if recorded.LAST in named else ""
    return f"Time of its calls ({where}): {told}.{more}"


def traffic(read: float, written: float, flushes: float, where: str) -> str:
    """What reaches the device, in bytes and flushes. where: as in `kinds`.

    `To the device (ext4, ssd-sata, cold): 59.1 MiB written, 3.20 MiB read, 12 flushes.`
    """
    told = f"{size(written)} written, {size(read)} read, {count(round(flushes), 'flush', 'flushes')}"
    return f"To the device ({where}): {told}."


def change(found: Change, before: str = "") -> str:
    """What something else takes, if the interval of its ratio tells. before: what it is in the place of.

    `ssd-nvme-plp instead of ssd-sata: 70 % less time (ext4, warm).`
    """
    what = f"{found.what} instead of {before}" if before else found.what
    where = listing([found.label, found.cache]) if before else f"{found.label} on {found.device}, {found.cache}"
    return f"{what}: {times(found)} ({where.replace(' and ', ', ')})."


def small(changes: list[Change], win: float) -> str:
    """That one change is below `win` whatever the caches; empty where it is not. changes: of one `what`.

    `noatime: less than 2 % (ext4 on ssd-sata).`
    """
    if not changes or any(max(one.ratio, 1 / one.ratio) >= 1 + win for one in changes):
        return ""
    return f"{changes[0].what}: less than {100 * win:g} % ({changes[0].label} on {changes[0].device})."


def times(found: Change) -> str:
    """`14.4 times as fast`, `10 % less time`, `8.0 % longer`; that repetitions do not show it, if they do not."""
    told = f"{digits(1 / found.ratio, 3)} times as fast" if found.ratio <= 0.5 else longer(found.ratio)
    open_ = known(found.low) and known(found.high) and found.low <= 1 <= found.high
    return f"no difference shown by so few repetitions ({told})" if open_ else told


def nothing(rows: list[Row], changes: list[Change], win: float) -> str:
    """That nothing which was measured changes the time by `win`, if so."""
    ratios = [ratio for row in rows for ratio in row.ratios.values()] + [one.ratio for one in changes]
    if any(max(ratio, 1 / ratio) >= 1 + win for ratio in ratios):
        return ""
    names = ["another file system"] if any(len(row.ratios) > 1 for row in rows) else []
    names = list(dict.fromkeys([*names, *(one.what for one in changes)]))
    if not names:
        return ""
    return f"Nothing that was measured changes the time of its calls by {100 * win:g} %: {listing(names, 'or')}."


def unshared(number: int, filesystem: str) -> str:
    """That a program which asks for shared blocks does less where it gets them. filesystem: it was recorded there."""
    if not number:
        return ""
    return (
        f"It asked {count(number, 'time')} to share blocks, in vain on {filesystem}, and went on otherwise. Where "
        "blocks can be shared (Btrfs, XFS) it does less than this replay: record it there, too."
    )


def elsewhere(native: Native) -> str:
    """That it wrote outside of the folder, if so."""
    return f"It also {native.elsewhere}: these calls are not in the answer." if native.elsewhere else ""
