"""What two exact profiles of one workload differ in: instructions an item by part of the system and by function."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from reprofs.data import profiles
from reprofs.data.keys import Load, Operation, Setting, planned, select
from reprofs.plan.cell import CELL, Cell, lab_parts, taken_apart
from reprofs.stats import places
from reprofs.stats.places import KERNELS
from reprofs.stats.study import Study

OWN = "file system's own code"
# What these do follows from what ran before, too: free lists, grace periods, run queues.
STATE = ("allocator", "RCU", "scheduler")
LEAST = 0.1  # of what an operation has more: a function with less is not named
MOSTLY = 0.9  # of what a function has more, in one that it calls: that one is named in its place


@dataclass(frozen=True)
class Counted:
    """The profile of a trial. phases: those that were measured; one that ran several times is there once, as it ran
    first. reason: why there are none. module: the file system's. label: a file system; where kernels are compared, a
    kernel, and of is the file system.
    """

    label: str
    role: str
    trial: str
    folder: Path
    phases: dict[Operation, dict[str, Any]]
    ns_per_instruction: float
    reason: str
    module: str
    of: str = ""

    def stacks(self, operation: Operation) -> dict[str, int]:
        """See `profiles.stacks`."""
        return profiles.stacks(self.folder, self.phases[operation])


def counted(study: Study) -> dict[tuple[Setting, Load, str], list[Counted]]:
    """The profiles of a study by setting and load, the quickest contender first: the others are compared with it.

    Of a study with several kernels by setting (with the last kernel that the study names), load and file system: the
    kernels as the study names them. Raises UserError for a profile that is missing or changed.
    """
    found: dict[tuple[Setting, Load, str], list[Counted]] = {}
    names = places.order(study, KERNELS)
    *others, last = names or [""]
    for setting, load in planned(study.trials):
        own = [_counted(study, row, load) for row in _rows(study, setting, load)]
        if own and not others:
            found[setting, load, ""] = sorted(
                own, key=lambda one: (one.role != "contender", not one.phases, _time(one))
            )
        place = lab_parts(setting.lab)
        for one in own if others else ():
            at = setting._replace(lab=place._replace(kernel=last).text())
            on = replace(one, label=place.kernel or "", of=one.label)
            found.setdefault((at, load, one.label), []).append(on)
    if others:
        for own in found.values():
            own.sort(key=lambda one: names.index(one.label))
    return found


def _rows(study: Study, setting: Setting, load: Load) -> list[dict[str, Any]]:
    rows = select(study.trials, setting, load, round=1).sort_values("label").to_dict("records")
    cells = [Cell.model_validate(taken_apart({key: row[key] for key in CELL})) for row in rows]
    return [row for row, cell in zip(rows, cells, strict=True) if study.plan.has_profile(cell)]


def _counted(study: Study, row: dict[str, Any], load: Load) -> Counted:
    folder = study.profiles / row["trial"]
    profile = profiles.load(folder)
    phases: dict[Operation, dict[str, Any]] = {}
    for phase in profile["phases"]:
        if phase["measured"]:
            phases.setdefault(Operation(*load, phase["name"], phase["cache"]), phase)
    unit, reason = profile.get("ns_per_instruction", 0.0), profile.get("reason", "")
    return Counted(row["label"], row["role"], row["trial"], folder, phases, unit, reason, row["filesystem"])


def _time(one: Counted) -> int:
    return sum(phase["wall_ns"] for phase in one.phases.values())


def an_item(phase: dict[str, Any], value: float) -> float:
    """A number of a phase for each thing that it did."""
    return value / max(phase["items"], 1)


def waiting(phase: dict[str, Any]) -> float | None:
    """Time (ns) an item in which the processor had nothing to do; None with several clients.

    The readings of the clock, which may make it a little less than nothing, are left out.
    """
    return None if phase["waiting_ns"] is None else an_item(phase, max(0, phase["waiting_ns"]))


def waits(phase: dict[str, Any]) -> pd.DataFrame:
    """Where an operation waits, the longest first. Columns: call (a system call; empty for a thread of the kernel),
    function (that calls what puts a task to sleep), ns (an item). Empty for profiles of protocol 6.

    System calls of one client wait for `waiting` together. A thread waits while a call waits for it.
    """
    found = pd.DataFrame(phase.get("waits", []), columns=["call", "function", "ns"])
    summed = found.groupby(["call", "function"], as_index=False, sort=False)["ns"].sum()
    summed["ns"] /= max(phase["items"], 1)
    return summed.sort_values("ns", ascending=False, kind="stable", ignore_index=True)


def parts(*phases: dict[str, Any]) -> pd.DataFrame:
    """Instructions an item by part of the system, the largest first; a column a phase, numbered from 0.

    The code of all file systems is one part (OWN), so that theirs can be compared.
    """
    table = _table(phases, lambda one: OWN if one["part"].startswith("file system ") else one["part"])
    return _by(table, table.max(axis=1))


def functions(*phases: dict[str, Any]) -> pd.DataFrame:
    """Instructions an item by function (index: name, module, part), as in `parts`.

    Of two phases those are first that differ most, else those with the most instructions.
    """
    table = _table(phases, lambda one: (one["name"], one["module"], one["part"]))
    return _by(table, (table[1] - table[0]).abs() if len(phases) == 2 else table.max(axis=1))


def calls(one: Counted, operation: Operation) -> tuple[pd.Series, dict[str, set[str]]]:
    """Instructions an item of each function of a file system's module with all that it calls, and what it calls.

    A recursive function counts once in a stack. The index and the keys are names of functions.
    """
    spent, below = Counter[str](), defaultdict[str, set[str]](set)
    for stack, count in one.stacks(operation).items():
        names = dict.fromkeys(name for name in stack.split(";") if name.endswith(f"_[{one.module}]"))
        for place, name in enumerate(names):
            spent[name] += count
            below[name].update([*names][place + 1 :])
    return an_item(one.phases[operation], pd.Series(spent, dtype=float)), below


def _known(one: Counted) -> set[str]:
    """The functions of the file system's module that any phase runs, named as in stacks."""
    every = (function for phase in one.phases.values() for function in phase.get("functions", []))
    return {f"{function['name']}_[{one.module}]" for function in every if function["module"] == one.module}


def culprits(base: Counted, other: Counted, operation: Operation) -> pd.DataFrame:
    """The functions of the file system in which an operation has become longer, or shorter, from one kernel to another.

    Columns, ns an item, with what a function calls: base, other, more; the largest difference first. Only functions
    that both kernels have (run in any phase), because one with a new name is no difference, with LEAST of the whole
    difference of instructions or more; of a function and one that it calls with MOSTLY the same difference, the one
    that is called.
    """
    (before, above), (after, below) = calls(base, operation), calls(other, operation)
    below = {name: above.get(name, set()) | below.get(name, set()) for name in {**above, **below}}
    both = pd.DataFrame({"base": before * base.ns_per_instruction, "other": after * other.ns_per_instruction})
    for column, one in (("base", base), ("other", other)):
        both.loc[both.index.isin(_known(one)) & both[column].isna(), column] = 0.0
    both = both.dropna()
    both["more"] = both["other"] - both["base"]
    whole = sum(
        sign * an_item(one.phases[operation], one.phases[operation]["instructions"]) * one.ns_per_instruction
        for sign, one in ((-1, base), (1, other))
    )
    found = both[both["more"] * (1 if whole > 0 else -1) >= LEAST * abs(whole)]
    more = found["more"].abs()
    named = [name for name in found.index if not (more[[*below[name] & {*more.index}]] >= MOSTLY * more[name]).any()]
    return found.loc[named].sort_values("more", key=lambda one: -one.abs(), kind="stable")


def differences(found: list[Counted], operation: Operation) -> pd.DataFrame:
    """What each further file system (or kernel) takes longer than the first, an item of an operation, and why.

    Columns: base, other (labels); ratio, more (ns) of the time; instructions (ratio); terms: part of the system -> ns,
    the largest difference first; with waiting where it is a hundredth of a time or more.
    """
    own, rows = [one for one in found if operation in one.phases], []
    for other in own[1:]:
        base, phase = own[0].phases[operation], other.phases[operation]
        table = parts(base, phase)
        change = ((table[1] - table[0]) * other.ns_per_instruction).to_dict()
        waits = [wait for one in (base, phase) if (wait := waiting(one)) is not None]
        times = [an_item(one, one["wall_ns"]) for one in (base, phase)]
        if len(waits) == 2 and any(wait > 0.01 * whole for wait, whole in zip(waits, times, strict=True)):
            change["waiting"] = waits[1] - waits[0]
        rows.append(
            {
                "base": own[0].label,
                "other": other.label,
                "ratio": times[1] / times[0],
                "more": times[1] - times[0],
                "instructions": an_item(phase, phase["instructions"]) / an_item(base, base["instructions"]),
                "terms": dict(sorted(change.items(), key=lambda one: -abs(one[1]))),
            }
        )
    return pd.DataFrame(rows, columns=["base", "other", "ratio", "more", "instructions", "terms"])


def _table(phases: Sequence[dict[str, Any]], key: Callable[[dict[str, Any]], Hashable]) -> pd.DataFrame:
    columns = []
    for phase in phases:
        found = Counter[Hashable]()
        for one in phase["functions"]:
            found[key(one)] += one["instructions"]
        columns.append(an_item(phase, pd.Series(found, dtype=float)))
    return pd.DataFrame(dict(enumerate(columns))).fillna(0.0)


def _by(table: pd.DataFrame, size: pd.Series) -> pd.DataFrame:
    return table.loc[size.sort_values(ascending=False, kind="stable").index]
