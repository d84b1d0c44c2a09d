"""Whether a study has enough rounds: a function of the records of whole rounds, and of nothing else."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from reprofs.data import study as data
from reprofs.data import tables
from reprofs.data.keys import OPERATION, SETTING
from reprofs.errors import UserError
from reprofs.files import write_sums
from reprofs.plan.plan import Look, Stopping, read_plan, write_plan
from reprofs.plan.study import Rounds
from reprofs.project import place
from reprofs.stats import compare
from reprofs.stats.cells import LEVEL, measured
from reprofs.workplace import scratch

KEYS = [*SETTING, *OPERATION]
# Logarithms of the times of contenders by what is compared (values of KEYS): a row for each round, NaN where a trial
# has no result, and a column for each contender.
Times = Mapping[tuple, pd.DataFrame]


def times(phases: pd.DataFrame, rounds: int) -> Times:
    """What is compared: workloads as a whole; where parts of a command have no sum, each operation."""
    whole = compare.totals(phases)
    summed = pd.MultiIndex.from_frame(whole[["workload", "scale"]])
    parts = measured(phases)
    parts = parts[~pd.MultiIndex.from_frame(parts[["workload", "scale"]]).isin(summed)]
    columns = [*KEYS, "role", "label", "round", "wall_ns"]
    every = pd.concat([whole[columns], parts[columns]])
    found = {}
    for key, rows in every[every["role"] == "contender"].groupby(KEYS, sort=True):
        wide = rows.pivot(index="round", columns="label", values="wall_ns").astype(float)
        found[key] = np.log(wide.where(wide > 0)).reindex(range(1, rounds + 1))
    return found


def examine(found: Times, tests: int, until: float, win: float = compare.WIN) -> dict:
    """How well the ratio of the best contender to every other one that is level with it is known, at one look.

    A contender is level with the best unless it is slower by `win` or more and that is more than chance: p times the
    looks of the study (`tests`), the comparisons and their other contenders is below 5 %.

    Keys: compared (comparisons), open (ratios that are not known within `until`), widest: the ratio known worst, with
    its place, best, other, and half_width, of its interval (0.05 is 5 %; None if it has none). None where only the best
    is level.
    """
    logs = {key: wide.dropna(axis="columns", how="all") for key, wide in found.items()}
    logs = {key: wide for key, wide in logs.items() if len(wide.columns) > 1}
    rivals = []
    for key, wide in logs.items():
        best, others = wide.mean().idxmin(), len(wide.columns) - 1
        ratios = wide.drop(columns=best).sub(wide[best], axis="index")
        tested = compare.paired(ratios.to_numpy(), level=compare.joint(compare.CAUTION))
        slower = (tested["p"] * tests * len(logs) * others < 1 - LEVEL) & (tested["ratio"] >= 1 + win)
        for other, half, out in zip(ratios, tested["high"] / tested["ratio"] - 1, slower, strict=True):
            if not out:
                at = dict(zip(KEYS, key, strict=True)) | {"best": best, "other": other}
                rivals.append(at | {"half_width": float(half) if math.isfinite(half) else None})
    widths = [math.inf if one["half_width"] is None else one["half_width"] for one in rivals]
    widest = rivals[int(np.argmax(widths))] if rivals else None
    return {"compared": len(logs), "open": sum(width > until for width in widths), "widest": widest}


def stopping(found: Times, rule: Rounds, win: float, done: int) -> Stopping:
    """What the looks at a study gave after so many rounds: the first that was enough is the last."""
    planned, looks = rule.looks(), []
    until = float(rule.until.removesuffix("%")) / 100
    for rounds in (number for number in planned if number <= done):
        so_far = {key: wide.loc[:rounds] for key, wide in found.items()}
        look = Look.model_validate({"rounds": rounds} | examine(so_far, len(planned), until, win))
        looks.append(look)
        if not look.open:
            return Stopping(rule=rule, looks=looks, enough=True, why="narrow" if look.compared else "alone")
        if rounds == planned[-1]:
            return Stopping(rule=rule, looks=looks, enough=True, why="most")
    return Stopping(rule=rule, looks=looks, enough=False)


def look(plan: str | Path, raw: str | Path, done: int, output: str | Path) -> None:
    """Write the plan of the rounds that a study has so far, with the key `stopping`.

    plan: that of all rounds it may have; raw: the folder of the records. Raises UserError as `tables.build` does, and
    when no look is planned after so many rounds.
    """
    whole = read_plan(place(plan))
    rule, margins = whole.study.rule, whole.study.margins
    if not rule:
        raise UserError(f"{plan}: the study has a fixed number of rounds, {whole.study.rounds}: make its tables.")
    if done not in rule.looks():
        raise UserError(f"{plan} has no look after --rounds {done}: choose from {', '.join(map(str, rule.looks()))}.")
    with scratch() as folder:
        first = folder / "plan.json"
        write_plan(whole.first_rounds(done), first)
        tables.build(first, place(raw), folder / "tables")
        phases = data.load(folder / "tables").phases
    # Cells that their study gives a smaller number of rounds get no more, whatever is not known of them.
    names = [*SETTING, "workload", "scale"]
    places = pd.DataFrame([trial.names() for trial in whole.trials])
    most = places.groupby(names)["round"].max()
    growing = most.index[most == most.max()]
    phases = phases[pd.MultiIndex.from_frame(phases[names]).isin(growing)]
    found = stopping(times(phases, done), rule, margins.win if margins else compare.WIN, done)
    made = whole.first_rounds(found.looks[-1].rounds).model_copy(update={"stopping": found})
    write_plan(made, place(output))
    write_sums(place(f"{output}.sha256"), [place(output)])
