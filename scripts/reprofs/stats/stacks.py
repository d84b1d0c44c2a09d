"""Stacks against each other: the same file system on another stack or another last disk, faults, times to rebuild."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from reprofs.data.keys import SETTING
from reprofs.plan.stack import PlannedStack
from reprofs.stats.cells import groups, interval, measured
from reprofs.stats.compare import by_round

WITH = " with "  # between a stack and the device profile of its last disk, where that is another one


def gathered(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of a table with columns stack and profile, where stacks with two device profiles belong.

    They stand beside those whose disks are all alike: xfs-log on hdd-7200+ssd-nvme becomes `xfs-log with ssd-nvme` on
    hdd-7200.
    """
    if not any("+" in str(profile) for profile in frame["profile"].unique()):
        return frame
    parts = frame["profile"].astype("str").str.partition("+")
    named = frame["stack"].astype("str") + np.where(parts[2] != "", WITH + parts[2], "")
    return frame.assign(profile=parts[0], stack=named)


def alike(stack: str) -> str:
    """The same stack, with a last disk that is like the others."""
    return stack.partition(WITH)[0]


def arranged(stacks: dict[str, PlannedStack], names: Iterable[str]) -> dict[str, PlannedStack]:
    """Stacks by their names in a gathered table, in the order of `stacks`; one with another last disk after its own."""
    order = {name: number for number, name in enumerate(stacks)}
    return {name: stacks[alike(name)] for name in sorted(set(names), key=lambda name: (order[alike(name)], name))}


def counterpart(stack: str, stacks: dict[str, PlannedStack], available: list[str]) -> str | None:
    """The healthy stack that a degraded or rebuilding one is compared with, or None.

    The same layers but for the fault (md-raid5-degraded and md-raid5), with the nearest number of disks; a rebuilding
    stack holds one disk as a spare. `stacks` maps a name to its state, layers and disks.
    """
    entry = stacks[stack]
    if entry.state == "healthy":
        return None
    active = entry.disks - (entry.state == "rebuilding")
    found = []
    for name in available:
        layers = stacks[name].layers
        if stacks[name].state == "healthy" and len(layers) == len(entry.layers):
            layered = zip(entry.layers, layers, strict=True)
            same = all(own == other or own.startswith(f"{other}-") for own, other in layered)
            found += [(abs(stacks[name].disks - active), name)] if same else []
    return min(found)[1] if found else None


def base(stacks: dict[str, PlannedStack], available: list[str]) -> str:
    """The stack that others are compared with: `single`, or the first healthy one, or the first."""
    healthy = [name for name in available if stacks[name].state == "healthy"]
    return "single" if "single" in available else (healthy or available)[0]


def references(stacks: dict[str, PlannedStack], available: list[str]) -> list[tuple[str, str, str]]:
    """(stack, its reference, relation) for stacks of one file system that have results, in the order of `stacks`.

    relation is `healthy` for a degraded or rebuilding stack beside its healthy counterpart, `alike` for one whose last
    disk has another profile beside the same stack with disks that are all alike, `base` for a stack beside `base`.
    Where that is not `single`, stacks with faults and their counterparts are compared only with each other.
    """
    stacks = arranged(stacks, available)
    available = list(stacks)
    first = base(stacks, available)
    beside = {name: counterpart(name, stacks, available) for name in available}
    rows = [(name, other, "healthy") for name, other in beside.items() if other]
    rows += [(name, alike(name), "alike") for name in available if alike(name) != name and alike(name) in available]
    for name in available:
        apart = bool(beside[name]) or name in beside.values()
        if name != first != alike(name) and (first == "single" or not apart):
            rows.append((name, first, "base"))
    return rows


STACK_KEYS = ["lab", "profile", "workload", "scale", "label"]


@dataclass
class Beside:
    """A measurement on a stack and, in the same repetition, on its reference.

    rows: one for each file system's operation and round: group (number of its row in keys), pair (of its row in pairs),
    phase, cache, role, position, round, log (logarithm of the ratio), sorted by group, pair, round; keys: STACK_KEYS;
    pairs: stack, reference, relation, in the order of `references`.
    """

    rows: pd.DataFrame
    keys: pd.DataFrame
    pairs: pd.DataFrame

    def named(self, found: pd.DataFrame, number: np.ndarray) -> pd.DataFrame:
        """Groups of rows with names in place of the numbers of group and pair, and their first row's role and position.

        number: of each row's group.
        """
        first = self.rows.iloc[np.unique(number, return_index=True)[1]]
        more = {"role": first["role"].astype("str").to_numpy(), "position": first["position"].to_numpy()}
        parts = [
            part.take(found[key]).reset_index(drop=True) for key, part in (("group", self.keys), ("pair", self.pairs))
        ]
        return pd.concat([*parts, found.drop(columns=["group", "pair"])], axis=1).assign(**more)


def stack_ratios(beside: Beside) -> pd.DataFrame:
    """Time on a stack over time of the same file system on its reference: one row per stack, operation and relation.

    Paired by round. Columns: lab, profile, workload, scale, label, role, stack, reference, relation (see
    `references`), phase, cache, position, n, ratio, low, high.
    """
    names = ["role", "stack", "reference", "relation", "phase", "cache", "position", "n", "ratio", "low", "high"]
    rows = beside.rows
    if rows.empty:
        return pd.DataFrame([], columns=[*STACK_KEYS, *names])
    found, number = groups(rows, ["group", "phase", "cache", "pair"])
    ratios = pd.DataFrame(by_round(number, rows["round"], rows["log"]))
    return beside.named(found, number).join(ratios)[[*STACK_KEYS, *names]]


def side_by_side(phases: pd.DataFrame, stacks: dict[str, PlannedStack]) -> Beside:
    """The measurements on stacks, each next to that on its reference."""
    own = gathered(measured(phases))
    own = own[own["wall_ns"] > 0]
    keys, number = groups(own, STACK_KEYS)
    own = own[["phase", "cache", "round", "position", "role", "stack", "wall_ns"]].assign(group=number)
    _, operation = groups(own, ["group", "phase", "cache"])
    own["position"] = own["position"].astype(int).groupby(operation).transform("max")
    # One row for each operation and round, one column of times for each stack.
    _, place = groups(own.assign(operation=operation), ["operation", "round"])
    rows = own.iloc[np.unique(place, return_index=True)[1]].reset_index(drop=True)
    codes, names = pd.factorize(own["stack"].astype("str"), sort=True)
    logs = np.full((len(names), len(rows)), math.nan)
    logs[codes, place] = np.log(own["wall_ns"].to_numpy(float))
    there = pd.Series(codes).groupby(number).unique().map(lambda found: tuple(sorted(found)))
    pairs: list[tuple[str, str, str]] = []
    frames = []
    for known in dict.fromkeys(there):
        here = (there == known).to_numpy()[rows["group"]]
        for stack, reference, relation in references(stacks, [names[code] for code in known]):
            log = logs[names.get_loc(stack)] - logs[names.get_loc(reference)]
            chosen = here & np.isfinite(log)
            frames.append(rows[chosen].assign(pair=len(pairs), log=log[chosen]))
            pairs.append((stack, reference, relation))
    found = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()
    if frames:
        found = found.iloc[np.lexsort([found[key] for key in ("round", "pair", "group")])].reset_index(drop=True)
    return Beside(found, keys, pd.DataFrame(pairs, columns=["stack", "reference", "relation"]))


def rebuilds(phases: pd.DataFrame) -> pd.DataFrame:
    """Times to rebuild, from the spare's addition to an idle array: one row per setting, workload and file system.

    Columns as of `statistics`, and `during`: phases of which at least one round ended while the array was rebuilding,
    of `phases`.
    """
    done = phases[phases["status"] == "ok"]
    if "rebuilding" not in done:
        done = done.assign(operation="", rebuilding=None)
    rows = []
    keys = [*SETTING, "workload", "scale", "label"]
    done = done.merge(done.loc[done["operation"] == "rebuild", keys].drop_duplicates(), on=keys)
    for key, group in done.groupby(keys, sort=True):
        times = group.loc[group["operation"] == "rebuild", "wall_ns"].to_numpy(dtype=float)
        low, high = interval(times)
        others = group[group["operation"] != "rebuild"].groupby(["phase", "cache"])["rebuilding"]
        during = others.agg(lambda column: bool((column == True).any()))  # noqa: E712 (nullable)
        rows.append(
            dict(zip(keys, key, strict=True))
            | {"n": len(times), "geometric_mean_ns": float(np.exp(np.log(times).mean()))}
            | {"low_ns": low, "high_ns": high, "min_ns": times.min(), "max_ns": times.max()}
            | {"during": int(during.sum()), "phases": len(during)}
        )
    columns = ["n", "geometric_mean_ns", "low_ns", "high_ns", "min_ns", "max_ns", "during", "phases"]
    return pd.DataFrame(rows, columns=[*keys, *columns])
