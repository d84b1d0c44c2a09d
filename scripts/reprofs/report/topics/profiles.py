"""Where the instructions of each operation went: by part of the system, by function and by call; what differs."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from reprofs.data.keys import Load, Operation, Setting
from reprofs.plan.cell import lab_parts
from reprofs.report.display import DASH, MINUS, Table, digits, listing, percent, slug, time
from reprofs.report.flame import NARROW, colours, flame
from reprofs.report.marks import code
from reprofs.report.plots import Figure
from reprofs.stats import profiles
from reprofs.stats.profiles import STATE, Counted, an_item, waiting
from reprofs.stats.study import Study

MOST = 10  # functions in a table
BESIDE = 3  # file systems whose differences fit into a table
SMALL = 0.01  # of all instructions: parts below this share on every file system are one row
TOLD = 3  # parts of the system in a sentence


# ---- facts -----------------------------------------------------------------------------------------------------------


def groups(study: Study) -> dict[tuple[Setting, Load, str], list[Counted]]:
    """`stats.profiles.counted` of a study."""
    return profiles.counted(study)


def operations(study: Study, found: list[Counted]) -> list[Operation]:
    """Those that the study's key profile names, in their order, where a profile has them."""
    asked = study.plan.study.profile
    known = dict.fromkeys(operation for one in found for operation in one.phases)
    return [operation for operation in known if asked and operation.phase in asked.phases]


def title(study: Study, operation: Operation) -> str:
    """Words for an operation."""
    return study.title(operation.workload, operation.phase, operation.cache)


def missing(found: list[Counted]) -> list[tuple[str, str]]:
    """Label and reason of each file system without a profile."""
    return [(one.label, one.reason) for one in found if one.reason]


def differences(found: list[Counted], operation: Operation) -> list[dict[str, Any]]:
    """What each further file system (or kernel) does otherwise than the first, an item of an operation.

    Keys: base, other (labels); ratio, more (ns) of the time; instructions (ratio); terms: in words, the parts of the
    system that differ most, and waiting where it is a hundredth of a time, the largest first.
    """
    own, rows = _with(found, operation), []
    for other in own[1:]:
        base, phase = own[0].phases[operation], other.phases[operation]
        table = profiles.parts(base, phase)
        change = ((table[1] - table[0]) * other.ns_per_instruction).sort_values(key=abs, ascending=False)
        terms = [(str(part), float(ns)) for part, ns in change.head(TOLD).items()]
        waits = [wait for wait in (waiting(base), waiting(phase)) if wait is not None]
        times = [an_item(one, one["wall_ns"]) for one in (base, phase)]
        if len(waits) == 2 and any(wait > 0.01 * whole for wait, whole in zip(waits, times, strict=True)):
            terms.append(("waiting", waits[1] - waits[0]))
        rows.append(
            {
                "base": own[0].label,
                "other": other.label,
                "ratio": times[1] / times[0],
                "more": times[1] - times[0],
                "instructions": an_item(phase, phase["instructions"]) / an_item(base, base["instructions"]),
                "terms": [term(*each) for each in sorted(terms, key=lambda each: -abs(each[1]))],
            }
        )
    return rows


def _with(found: list[Counted], operation: Operation) -> list[Counted]:
    return [one for one in found if operation in one.phases]


def where(setting: Setting, found: list[Counted]) -> str:
    """Words for where profiles were made: of one file system, if kernels are compared, on all of them."""
    if not found[0].of:
        return str(setting)
    lab = lab_parts(setting.lab)._replace(kernel=None).text()
    return f"{found[0].of}, {setting._replace(lab=lab)}"


# ---- tables ----------------------------------------------------------------------------------------------------------


def overview(study: Study, setting: Setting, load: Load, found: list[Counted]) -> Table:
    """Time, instructions, waiting and misses of every measured operation, a row a file system (or kernel)."""
    rows: list[dict] = []
    what = "Kernel" if found[0].of else "File system"
    for operation in dict.fromkeys(key for one in found for key in one.phases):
        for number, one in enumerate(_with(found, operation)):
            phase = one.phases[operation]
            wait, whole, misses = waiting(phase), an_item(phase, phase["wall_ns"]), phase["misses"]
            thousand = phase["instructions"] / 1000
            rows.append(
                {
                    "Operation": "" if number else title(study, operation),
                    what: one.label,
                    "Time": time(whole),
                    "Instructions": count(an_item(phase, phase["instructions"])),
                    "Waiting": DASH if wait is None else percent(wait / whole),
                    "L1 misses": digits(misses["l1"] / thousand, 3) if misses else DASH,
                    "LLC misses": digits(misses["llc"] / thousand, 3) if misses else DASH,
                }
            )
    caption = (
        f"{load}, {where(setting, found)}, first round. Time and instructions an item (a file, directory or command) of"
        " the whole guest; the share of the time in which its processor had nothing to do; misses of modelled caches of"
        " data (32 KiB, 16 MiB) for a thousand instructions, of which no time follows."
    )
    return Table(f"tbl-{slug('profiles', setting, load, found[0].of)}", caption, rows, ["Operation", what])


def by_part(study: Study, setting: Setting, found: list[Counted], operation: Operation) -> Table:
    """Instructions an item by part of the system, of each file system, and what they are more than of the first."""
    own = _with(found, operation)
    phases, labels = [one.phases[operation] for one in own], [one.label for one in own]
    table = profiles.parts(*phases)
    small = (table / table.sum() < SMALL).all(axis=1) & ~table.index.isin(STATE)
    values = {str(part): list(row) for part, row in table[~small].iterrows()}
    if small.any():
        values[f"{small.sum()} smaller parts"] = list(table[small].sum())
    values["all instructions"] = [an_item(phase, phase["instructions"]) for phase in phases]
    rows = [_row(name, labels, each, count) for name, each in values.items()]
    rows.append(_row("waiting", labels, [waiting(phase) for phase in phases], time))
    rows.append(_row("time", labels, [an_item(phase, phase["wall_ns"]) for phase in phases], time))
    caption = (
        f"{title(study, operation)} ({where(setting, found)}): instructions an item by part of the system, which"
        " follows from the names of functions; below, waiting and time an item. State: what these parts do follows from"
        " what ran before, too (free memory, grace periods, run queues), so that a difference there is not the file"
        " system's code alone."
    )
    name = slug("profile-parts", setting, operation, found[0].of)
    return Table(f"tbl-{name}", caption, rows, ["Part of the system", "Note"])


def _row(name: str, labels: list[str], values: list, show: Callable[[float], str]) -> dict[str, str]:
    """A row of `by_part`; None is a dash."""
    row = {label: DASH if value is None else show(value) for label, value in zip(labels, values, strict=True)}
    if len(labels) <= BESIDE:
        for label, value in zip(labels[1:], values[1:], strict=True):
            more = None if None in (value, values[0]) else value - values[0]
            row[f"{label} {MINUS} {labels[0]}"] = DASH if more is None else signed(more, show)
    return {"Part of the system": name, **row, "Note": "state" if name in STATE else ""}


def count(instructions: float) -> str:
    """Instructions an item: whole from 100 on, else to a tenth."""
    return f"{instructions:,.0f}" if instructions >= 100 or not instructions else f"{instructions:.1f}"


def signed(value: float, show: Callable[[float], str]) -> str:
    """A difference with its sign; none where it is too small to be seen."""
    words = show(abs(value))
    return f"{MINUS if value < 0 else '+'}{words}" if re.search("[1-9]", words) else words


def more(ns: float) -> str:
    """A difference of times with its sign."""
    return signed(ns, lambda value: time(value, 3))


def term(what: str, ns: float) -> str:
    """A term of a difference in words."""
    return f"{what}{' (state)' if what in STATE else ''} {more(ns)}"


def by_function(study: Study, setting: Setting, found: list[Counted], operation: Operation) -> list[Table]:
    """A table for each further file system: the functions in which it differs most from the first.

    With one file system alone, the functions with the most instructions.
    """
    own = _with(found, operation)
    pairs = [[own[0], other] for other in own[1:]] or [own]
    return [_functions(study, setting, pair, operation) for pair in pairs]


def _functions(study: Study, setting: Setting, pair: list[Counted], operation: Operation) -> Table:
    rows = []
    table = profiles.functions(*(one.phases[operation] for one in pair)).head(MOST)
    for (name, _, part), *values in table.itertuples():
        row = {"Function": code(name), "Part of the system": part}
        row |= {one.label: count(value) for one, value in zip(pair, values, strict=True)}
        row |= {"Difference": signed(values[1] - values[0], count)} if len(pair) == 2 else {}
        rows.append(row | {"Note": "state" if part in STATE else ""})
    which = f"in which {pair[1].label} differs most from {pair[0].label}" if len(pair) == 2 else "with the most of them"
    caption = (
        f"{title(study, operation)} ({where(setting, pair)}): instructions an item in the functions {which}, without"
        " what they call. Code that the compiler put into another function is counted there."
    )
    name = slug("profile-functions", setting, operation, pair[0].of, *(one.label for one in pair[1:]))
    return Table(f"tbl-{name}", caption, rows, ["Function", "Part of the system", "Note"])


# ---- flame graphs ----------------------------------------------------------------------------------------------------


def flames(study: Study, setting: Setting, found: list[Counted], operation: Operation) -> list[Figure]:
    """A flame graph of an operation for each file system (or kernel)."""
    figures, at = [], where(setting, found)
    for one in _with(found, operation):
        phase = one.phases[operation]
        caption = (
            f"{title(study, operation)} on {one.label} ({at}): {phase['instructions']:,} instructions"
            " by call. A box is a function, its width the share of the instructions executed in it and in what it"
            f" called, which stands on it; from left to right by name. Boxes narrower than {percent(NARROW)} are left"
            " out."
        )
        largest = listing(each["name"] for each in phase["functions"][:3])
        alt = f"A flame graph; the functions with the most instructions are {largest}."
        plot = flame(one.stacks(operation), colours(phase["functions"]))
        figures.append(Figure(slug("flame", setting, operation, one.of, one.label), caption, alt, plot))
    return figures
