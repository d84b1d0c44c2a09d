"""Kernels, or limits of memory, against each other: what each operation costs in one place, over that in the last."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pandas as pd

from reprofs.data.study import Tables
from reprofs.errors import UserError
from reprofs.plan.cell import Place, lab_parts
from reprofs.stats.cells import measured, processor_busy, processors
from reprofs.stats.runs import CELL, ratios


class Axis(NamedTuple):
    """What places differ in. key: of `plan.cell.Place`; topic: of the report; word: heads a column."""

    key: str
    topic: str
    word: str

    def of(self, place: Place) -> str:
        """The name of a place on this axis; empty where it has none."""
        value = getattr(place, self.key)
        if self is MEMORY:
            return f"{value:,} MiB" if value else "no limit"
        return value or ""


KERNELS = Axis("kernel", "kernels", "Kernel")
MEMORY = Axis("memory_mib", "memory", "Memory")


def order(tables: Tables, axis: Axis) -> list[str]:
    """The names of the study's places, the last being what the others are compared with.

    Kernels are in the order in which the study's file names them; memory grows.
    """
    places = [lab_parts(lab) for lab in tables.plan.labs]
    if axis is MEMORY:
        places.sort(key=lambda place: place.memory_mib or math.inf)
        return list(dict.fromkeys(map(axis.of, places)))
    study = tables.plan.study
    named = [name for part in (study, *(study.cells or [])) for name in part.kernels or []]
    known = {name for place in places if (name := axis.of(place))}
    return [name for name in dict.fromkeys([*named, *sorted(known)]) if name in known]


def compared(tables: Tables, axis: Axis, least: float) -> pd.DataFrame:
    """Every place beside the last one of `order`, where both differ in nothing else.

    least: the smallest difference that counts, a share. Columns: those of `runs.ratios`, with the lab of the last
    place; place: the name of the other; and waiting: by how much the processor waited longer than there, as a share of
    the time there, both means over the rounds (NaN where either is not known, and of several processors). Raises
    UserError where the study names no place on the axis.
    """
    *others, base = _named(tables, axis)
    return _compared(tables, axis, [(base, name) for name in others], least)


def steps(tables: Tables, axis: Axis, least: float) -> pd.DataFrame:
    """Every place beside the one before it in `order`, as of `compared`: which one changed what. since: the name of the
    one before. Tests are corrected over the operations of a step."""
    names = _named(tables, axis)
    return _compared(tables, axis, list(pairwise(names)), least)


def _named(tables: Tables, axis: Axis) -> list[str]:
    if not (names := order(tables, axis)):
        raise UserError(f"The study {tables.plan.study.name} compares no {axis.topic}: open one that does.")
    return names


def _compared(tables: Tables, axis: Axis, pairs: list[tuple[str, str]], least: float) -> pd.DataFrame:
    """pairs: names of a place and of one that is compared with it."""
    labs = {lab: lab_parts(lab) for lab in sorted(tables.plan.labs)}
    frames = []
    for lab, own in labs.items():
        a = tables.phases[tables.phases["lab"] == lab]
        beside = {axis.of(place): other for other, place in labs.items() if _alike(own, place, axis)}
        for name in [name for base, name in pairs if axis.of(own) == base]:
            b = tables.phases[tables.phases["lab"] == beside.get(name)].assign(lab=lab)
            found = ratios(a, b, tables.exact_labs, least)
            if len(found):
                waited = _waiting(a, b)
                if processors(tables, lab) > 1:
                    waited["waiting"] = math.nan  # all but one wait for whatever takes a single thread longer
                frames.append(found.merge(waited, on=CELL, how="left").assign(place=name, since=axis.of(own)))
    columns = [*CELL, "place", "since", "verdict"]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=columns)


def _alike(one: Place, other: Place, axis: Axis) -> bool:
    return all(getattr(one, key) == getattr(other, key) for key in Place._fields if key != axis.key)


def _waiting(a: pd.DataFrame, b: pd.DataFrame) -> pd.DataFrame:
    sides = []
    for phases in (a, b):
        own = measured(phases)
        wall = own["wall_ns"].astype(float)
        own = own[CELL].assign(wall=wall, waited=wall * (1 - processor_busy(own)))
        sides.append(own.groupby(CELL)[["wall", "waited"]].mean())
    first, second = sides
    share = (second["waited"] - first["waited"]) / first["wall"]
    return share.where(np.isfinite(share), math.nan).rename("waiting").reset_index()
