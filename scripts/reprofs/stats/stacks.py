"""Stacks against each other: the same file system on another stack, degraded and rebuilding ones, times to rebuild."""

import numpy as np
import pandas as pd

from reprofs.data.keys import SETTING
from reprofs.stats.cells import interval, measured
from reprofs.stats.compare import ratio


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


def stack_ratios(phases: pd.DataFrame, stacks: dict[str, dict]) -> pd.DataFrame:
    """Time on a stack over time of the same file system on its reference: one row per stack, operation and relation.

    Paired by round. Columns: lab, profile, workload, scale, label, role, stack, reference, relation (see
    `references`), phase, cache, position, n, ratio, low, high.
    """
    rows = []
    for key, group, pairs in _comparable(phases, stacks):
        for (phase, cache), cells in group.groupby(["phase", "cache"], sort=True):
            wide = cells.pivot(index="round", columns="stack", values="wall_ns").astype(float)
            for stack, reference, relation in pairs:
                both = wide.reindex(columns=[stack, reference]).dropna()
                both = both[(both > 0).all(axis=1)]
                if len(both):
                    row = dict(zip(STACK_KEYS, key, strict=True)) | {"role": cells["role"].iloc[0]}
                    row |= {"stack": stack, "reference": reference, "relation": relation, "phase": phase}
                    row |= {"cache": cache, "position": int(group.loc[cells.index, "position"].max()), "n": len(both)}
                    rows.append(row | ratio(both[stack], both[reference]))
    names = ["role", "stack", "reference", "relation", "phase", "cache", "position", "n", "ratio", "low", "high"]
    return pd.DataFrame(rows, columns=[*STACK_KEYS, *names])


def stack_typical(phases: pd.DataFrame, stacks: dict[str, dict]) -> pd.DataFrame:
    """As `stack_ratios`, over all operations: the geometric mean of their ratios, with its interval over rounds.

    Column `operations` counts those that both stacks completed in every round that both have.
    """
    rows = []
    for key, group, pairs in _comparable(phases, stacks):
        wide = group.pivot(index="round", columns=["stack", "phase", "cache"], values="wall_ns").astype(float)
        logs = np.log(wide.where(wide > 0))
        for stack, reference, relation in pairs:
            own, other = logs[stack].dropna(how="all"), logs[reference].dropna(how="all")
            difference = (own - other).dropna(how="all").dropna(axis=1)
            if difference.size:
                row = dict(zip(STACK_KEYS, key, strict=True)) | {"role": group["role"].iloc[0]}
                row |= {"stack": stack, "reference": reference, "relation": relation}
                row |= {"operations": difference.shape[1], "n": len(difference)}
                mean = np.exp(difference.mean(axis=1))
                rows.append(row | ratio(mean, np.ones(len(mean))))
    names = ["role", "stack", "reference", "relation", "operations", "n", "ratio", "low", "high"]
    return pd.DataFrame(rows, columns=[*STACK_KEYS, *names])


def _comparable(phases: pd.DataFrame, stacks: dict[str, dict]):
    """Key, completed phases and references of every file system that has results on two stacks or more."""
    for key, group in measured(phases).groupby(STACK_KEYS, sort=True):
        pairs = references(stacks, list(set(group["stack"])))
        if pairs:
            yield key, group, pairs


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
    for key, group in done.groupby(keys, sort=True):
        times = group.loc[group["operation"] == "rebuild", "wall_ns"].to_numpy(dtype=float)
        if len(times):
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
