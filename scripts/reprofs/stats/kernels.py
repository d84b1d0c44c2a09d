"""Kernels against each other: what each operation costs on one of them, over that on the last that the study names."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from reprofs.data.study import Tables
from reprofs.plan.cell import joined, lab_parts
from reprofs.stats.cells import measured, processor_busy
from reprofs.stats.runs import CELL, ratios


def order(tables: Tables) -> list[str]:
    """The study's kernels in the order in which its file names them; the last is what the others are compared with."""
    study = tables.plan.study
    named = [name for place in (study, *(study.cells or [])) for name in place.kernels or []]
    known = {kernel: None for lab in tables.plan.labs if (kernel := lab_parts(lab)[2])}
    return [name for name in dict.fromkeys([*named, *known]) if name in known]


def compared(tables: Tables, least: float) -> pd.DataFrame:
    """Every kernel beside the last one of `order`, on each processor.

    least: the smallest difference that counts, a share. Columns: those of `runs.ratios`, with the lab of the last
    kernel; kernel; and waiting: by how much the processor waited longer than there, as a share of the time there, both
    means over the rounds (NaN where either is not known).
    """
    *others, base = order(tables)
    frames = []
    for lab in sorted(name for name in tables.plan.labs if lab_parts(name)[2] == base):
        a = tables.phases[tables.phases["lab"] == lab]
        where, processor, _ = lab_parts(lab)
        for kernel in others:
            other = joined(where, joined(processor or "", kernel))
            b = tables.phases[tables.phases["lab"] == other].assign(lab=lab)
            found = ratios(a, b, tables.exact_labs, least)
            if len(found):
                frames.append(found.merge(_waiting(a, b), on=CELL, how="left").assign(kernel=kernel))
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=[*CELL, "kernel", "verdict"])


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
