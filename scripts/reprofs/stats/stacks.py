"""Stacks against each other: the same file system on another stack, degraded and rebuilding ones, times to rebuild."""

import numpy as np
import pandas as pd

from reprofs.data.keys import SETTING
from reprofs.stats.cells import groups, interval, measured
from reprofs.stats.compare import by_round


def counterpart(stack: str, stacks: dict[str, dict], available: list[str]) -> str | None:
    """The healthy stack that a degraded or rebuilding one is compared with, or None.

    The same layers but for the fault (md-raid5-degraded and md-raid5), with the nearest number of disks; a rebuilding
    stack holds one disk as a spare. `stacks` maps a name to its state, layers and disks.
    """
    entry = stacks[stack]
    if entry["state"] == "healthy":
        return None
    active = entry["disks"] - (entry["state"] == "rebuilding")
    found = []
    for name in available:
        layers = stacks[name]["layers"]
        if stacks[name]["state"] == "healthy" and len(layers) == len(entry["layers"]):
            layered = zip(entry["layers"], layers, strict=True)
            same = all(own == other or own.startswith(f"{other}-") for own, other in layered)
            found += [(abs(stacks[name]["disks"] - active), name)] if same else []
    return min(found)[1] if found else None


def base(stacks: dict[str, dict], available: list[str]) -> str:
    """The stack that others are compared with: `single`, or the first healthy one, or the first."""
    healthy = [name for name in available if stacks[name]["state"] == "healthy"]
    return "single" if "single" in available else (healthy or available)[0]


def references(stacks: dict[str, dict], available: list[str]) -> list[tuple[str, str, str]]:
    """(stack, its reference, relation) for stacks of one file system that have results, in the order of `stacks`.

    relation is `healthy` for a degraded or rebuilding stack beside its healthy counterpart, `base` for a stack beside
    `base`. Where that is not `single`, stacks with faults and their counterparts are compared only with each other.
    """
    available = [name for name in stacks if name in available]
    first = base(stacks, available)
    beside = {name: counterpart(name, stacks, available) for name in available}
    rows = [(name, other, "healthy") for name, other in beside.items() if other]
    for name in available:
        apart = bool(beside[name]) or name in beside.values()
        if name != first and (first == "single" or not apart):
            rows.append((name, first, "base"))
    return rows


STACK_KEYS = ["lab", "profile", "workload", "scale", "label"]


def beside(phases: pd.DataFrame, stacks: dict[str, dict]) -> pd.DataFrame:
    """What was measured on a stack and, in the same round, on its reference; one row for each file system's operation.

    Columns: group (number of STACK_KEYS, sorted), those keys, role, pair (number of stack, reference, relation in their
    order), these, phase, cache, position, round, log (logarithm of the ratio).
    """
    own = measured(phases)
    own = own[own["wall_ns"] > 0]
    keys, number = groups(own, STACK_KEYS)
    columns = ["group", "phase", "cache", "round"]
    own = own[["phase", "cache", "round", "position", "role", "stack", "wall_ns"]].assign(group=number)
    own["position"] = own.groupby(columns[:3])["position"].transform("max").astype(int)
    available = own.groupby("group")["stack"].unique().map(lambda names: tuple(sorted(names)))
    frames = []
    for known in dict.fromkeys(available):
        here = own[own["group"].isin(available.index[available == known])]
        for pair, (stack, reference, relation) in enumerate(references(stacks, list(known))):
            other = here.loc[here["stack"] == reference, [*columns, "wall_ns"]].rename(columns={"wall_ns": "other_ns"})
            both = here[here["stack"] == stack].merge(other, on=columns)
            frames.append(both.assign(pair=pair, reference=reference, relation=relation))
    if not frames:
        return pd.DataFrame()
    rows = pd.concat(frames, ignore_index=True).astype(dict.fromkeys(("stack", "role", "phase", "cache"), "str"))
    rows["log"] = np.log(rows["wall_ns"].to_numpy(float) / rows["other_ns"].to_numpy(float))
    rows = rows.sort_values(["group", "pair", "round"], kind="stable", ignore_index=True)
    return rows.merge(keys, left_on="group", right_index=True).drop(columns=["wall_ns", "other_ns"])


def stack_ratios(rows: pd.DataFrame) -> pd.DataFrame:
    """Time on a stack over time of the same file system on its reference: one row per stack, operation and relation.

    rows: from `beside`. Paired by round. Columns: lab, profile, workload, scale, label, role, stack, reference,
    relation (see `references`), phase, cache, position, n, ratio, low, high.
    """
    names = ["role", "stack", "reference", "relation", "phase", "cache", "position", "n", "ratio", "low", "high"]
    if rows.empty:
        return pd.DataFrame([], columns=[*STACK_KEYS, *names])
    keys = ["group", "phase", "cache", "pair"]
    found, number = groups(rows, keys)
    first = rows.groupby(number).first().drop(columns=keys)
    found = found.join(first).join(pd.DataFrame(by_round(number, rows["round"], rows["log"])))
    return found[[*STACK_KEYS, *names]]


def stack_typical(rows: pd.DataFrame) -> pd.DataFrame:
    """As `stack_ratios`, over all operations: the geometric mean of their ratios, with its interval over rounds.

    Column `operations` counts those that both stacks completed in every round that both have.
    """
    names = ["role", "stack", "reference", "relation", "operations", "n", "ratio", "low", "high"]
    if rows.empty:
        return pd.DataFrame([], columns=[*STACK_KEYS, *names])
    both = ["group", "pair"]
    operation = rows.groupby([*both, "phase", "cache"])["round"]
    rounds = rows.groupby(both)["round"].transform("nunique")
    rows = rows[operation.transform("size") == rounds]
    means = rows.groupby([*both, "round"])["log"].agg(["mean", "size"]).reset_index()
    found, number = groups(means, both)
    first = rows.groupby(both).first().reset_index(drop=True).drop(columns=["phase", "cache"])
    found = found.join(first).assign(operations=means["size"].groupby(number).first())
    return found.join(pd.DataFrame(by_round(number, means["round"], means["mean"])))[[*STACK_KEYS, *names]]


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
