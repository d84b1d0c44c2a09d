"""Sentences on what kernels changed, and on where the instructions of an operation go."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from reprofs.report.marks import Marked, code, joined, strong
from reprofs.report.words import MINUS, count, counts, digits, listing, longer, slower, time, verb
from reprofs.stats import profiles
from reprofs.stats.compare import TOTAL
from reprofs.stats.profiles import STATE

TOLD = 3  # parts of the system in a sentence
LEAST_WAITING = 0.1  # of an operation: where it waits is told


# ---- kernels ---------------------------------------------------------------------------------------------------------


def changed(found: pd.DataFrame) -> str:
    """The largest change of all, and how many operations its kernel changed. found: rows of `stats.places.steps`.

    `**xfs changed most**: debian-6.12 changes 18 of 27 operations significantly; “Rename” takes 2.45 times as long as
    on debian-6.1.`
    """
    own = found[found["phase"] != TOTAL]
    if own.empty:
        return ""
    sure = own[own["verdict"].isin(["slower", "faster"])]
    if sure.empty:
        return "No kernel changes an operation significantly."
    row = sure.iloc[int(np.abs(np.log(sure["ratio"].to_numpy(float))).argmax())]
    number, of = (int((one["label"].eq(row["label"]) & one["place"].eq(row["place"])).sum()) for one in (sure, own))
    takes = longer(row["ratio"])
    than = f"{takes} as" if takes.endswith("as long") else f"{takes} than"
    told = f"{row['place']} changes {number} of {count(of, 'operation')} significantly"
    first = strong(f"{row['label']} changed most") + Marked(": ")
    return first + f"{told}; “{row['operation']}” takes {than} on {row['since']}."


def how_sure(found: pd.DataFrame, margin: float) -> str:
    """How sure the changes are. found: rows of `stats.places.steps`; margin: the smallest difference that counts.

    `How sure: 3 repetitions; a change counts from 2 % on, above the noise floor, Holm-corrected over each kernel's
    operations.`
    """
    if found["n"].min() < 2:
        return "How sure: one repetition has no noise floor, so that no change is significant."
    first = f"How sure: {counts(found['n'].dropna(), 'repetition')}; a change counts from {100 * margin:g} % on"
    return f"{first}, above the noise floor, Holm-corrected over the operations of each kernel."


def unknown_waiting(known: int, rows: int) -> str:
    """That waiting is not known of some operations, and what shows it; empty where it is known of all."""
    if known == rows:
        return ""
    which = f"{rows - known:,} of {rows:,} differences" if known else "any difference"
    return f"How much of {which} is waiting is not known (too coarse an idle clock): `reprofs profile` shows it."


# ---- instructions ----------------------------------------------------------------------------------------------------


def takes(operation: str, row: Any) -> str:
    """How much longer an operation takes. row: of `stats.profiles.differences`.

    `Create files: xfs takes 2.75 times as long as ext4, with 75 % more instructions.`
    """
    how = "as long as" if row.ratio >= 2 else f"{'longer' if row.ratio >= 1 else 'less time'} than"
    told = f"{slower(row.ratio if row.ratio >= 1 else 2 - row.ratio)} {how}"
    return f"{operation}: {row.other} takes {told} {row.base}, with {_instructions(row.instructions)}."


def _instructions(ratio: float) -> str:
    if ratio >= 2:
        return f"{digits(ratio, 3)} times the instructions"
    return f"{slower(ratio)} more instructions" if ratio >= 1 else f"{slower(2 - ratio)} fewer instructions"


def why(row: Any) -> str:
    """The parts of the system that differ most. row: as of `takes`.

    `The difference is +7.75 µs an item; its largest parts are waiting +4.00 µs and file system's own code +3.00 µs.`
    """
    first = [*row.terms.items()][:TOLD]
    terms = [f"{what}{' (state)' if what in STATE else ''} {more(ns)}" for what, ns in first if ns]
    if not terms:
        return ""
    parts = f"its largest {verb(len(terms), 'part is', 'parts are')} {listing(terms)}"
    return f"The difference is {more(row.more)} an item; {parts}."


def row(operation: str, found: Any) -> dict[str, Any]:
    """A difference as a row of a table: times and instructions are ratios, the largest part has its time.

    found: as of `takes`.
    """
    what, ns = next(iter(found.terms.items()), ("", 0.0))
    told = {"operation": operation, "of": found.other, "over": found.base, "time": found.ratio}
    told |= {"instructions": found.instructions, "more (µs)": found.more / 1000}
    return told | {"largest part": f"{what} {more(ns)}" if ns else ""}


def waits(operation: str, label: str, phase: dict[str, Any]) -> str:
    """Where a phase of a profile waits, if it does so for a tenth of its time; empty if it does not or is not known.

    `Create files: btrfs waits 85.7 µs an item, most in `__reserve_bytes` (openat, 83.7 µs), while a thread of the
    kernel sleeps in `flush_space`.`
    """
    found, waited = profiles.waits(phase), profiles.waiting(phase) or 0.0
    calls, threads = found[found["call"] != ""], found[found["call"] == ""]
    if calls.empty or not _waits(phase):
        return ""
    first = calls.iloc[0]
    told = f"{operation}: {label} waits {time(waited, 3)} an item, most in " + code(
        first["function"].partition(" [")[0]
    )
    told += f" ({first['call']}, {time(first['ns'], 3)})"
    if len(threads) and threads.iloc[0]["ns"] >= first["ns"] / 2:
        told += ", while a thread of the kernel sleeps in " + code(threads.iloc[0]["function"].partition(" [")[0])
    return told + "."


def _waits(phase: dict[str, Any]) -> bool:
    return (profiles.waiting(phase) or 0.0) >= LEAST_WAITING * profiles.an_item(phase, phase["wall_ns"])


def none_wait(phases: Sequence[dict[str, Any]]) -> str:
    """That none of these phases waits for a tenth of its time; empty where one does, or where it is not known."""
    if not phases or any("waits" not in phase or _waits(phase) for phase in phases):
        return ""
    return "None of these operations waits for a tenth of its time."


def where(found: pd.DataFrame) -> Marked:
    """The code in which it is. found: `stats.profiles.culprits`; empty where no function stands out.

    `In the code: `xfs_rename` +19.4 µs, `xfs_rmap_finish_one` +5.99 µs (with what they call; one may call another).`
    """
    rows = found.head(TOLD)
    if rows.empty:
        return Marked("")
    names = [code(name.partition("_[")[0]) + f" {more(ns)}" for name, ns in rows["more"].items()]
    several = "what they call; one may call another" if len(names) > 1 else "what it calls"
    return Marked("In the code: " + joined(names, ", ") + f" (with {several}).")


def code_caption(pairs: Iterable[str]) -> str:
    """The caption of a table of functions: `Kernels debian-6.1 → debian-7.3: the file system's functions ...`

    pairs: the compared kernels of each row; several of them are a column of the table.
    """
    first, *others = dict.fromkeys(pairs)
    told = "The" if others else f"Kernels {first}: the"
    told += " file system's functions with the difference, an item, with what they call (one may call another)."
    return f"{told} Left out: functions that one kernel alone runs, whose work another may have taken over."


def missing(label: str, reason: str) -> str:
    """That a trial has no profile: `jfs has no profile, because its trial failed: No space left on device.`"""
    return f"{label} has no profile, because its trial failed: {reason}" if reason else ""


def instructions(number: float) -> str:
    """Instructions an item: whole from 100 on, else to a tenth."""
    return f"{number:,.0f}" if number >= 100 or not number else f"{number:.1f}"


def signed(value: float, show: Callable[[float], str]) -> str:
    """A difference with its sign; none where it is too small to be seen."""
    words = show(abs(value))
    return f"{MINUS if value < 0 else '+'}{words}" if re.search("[1-9]", words) else words


def more(ns: float) -> str:
    """A difference of times with its sign."""
    return signed(ns, lambda value: time(value, 3))
