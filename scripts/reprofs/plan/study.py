"""From a study to its cells, and the order of their trials in every round."""

from __future__ import annotations

import itertools
import random
from collections.abc import Container

from reprofs.errors import UserError
from reprofs.plan import CELL, PROCESSOR, models
from reprofs.plan.catalog import Catalog, read_yaml, unknown, validate
from reprofs.plan.stacks import resolve
from reprofs.project import project_root

SCALES = tuple(models.Scales.model_fields)


def read_config(config: dict | None = None) -> dict:
    """config/config.yaml with `config` (from a command line) over it. Raises UserError when a value does not fit."""
    path = project_root() / "config" / "config.yaml"
    return validate({**read_yaml(path, "config"), **(config or {})}, "config", "config/config.yaml")


def study_of(name: str, catalog: Catalog) -> dict:
    """The study NAME, or NAME@SCALE for another scale than that of its file. Raises UserError for an unknown name."""
    base, at, scale = name.partition("@")
    study = {"name": name, **catalog.get("study", base)}
    if at:
        if scale not in SCALES:
            raise unknown("scale", scale, SCALES)
        study["scale"] = scale
    return study


def cells(study: dict, catalog: Catalog, modelled: Container[str] = ()) -> list[dict]:
    """The names of every cell of the study, once. Raises UserError for a missing axis and an unknown name.

    modelled: the labs that model their processor; without one of the study's own they are named with the default.
    """
    axes = ("labs", "stacks", "profiles", "filesystems", "workloads")
    found: dict[tuple, dict] = {}
    for number, cross in enumerate(study.get("cells", [{}]), 1):
        values = [cross.get(axis, study.get(axis)) for axis in axes]
        for axis, value in zip(axes, values, strict=True):
            if value is None:
                place = f"entry {number} of cells and the top level" if "cells" in study else "the top level"
                raise UserError(f"key '{axis}' is missing at {place}: add it.")
        processors = cross.get("processors", study.get("processors", [PROCESSOR]))
        values[0] = [
            full for lab in values[0] for full in ([f"{lab}@{p}" for p in processors] if lab in modelled else [lab])
        ]
        for lab, stack, profile, spec, workload in itertools.product(*values):
            words = (lab, resolve(stack, catalog).name, profile, *catalog.variant(spec), workload, study["scale"])
            catalog.get("device", profile)
            found[words] = dict(zip(CELL, words, strict=True))
    return list(found.values())


def order(study: dict, count: int) -> list[tuple[int, int]]:
    """(round, number of the cell) of every trial of a study of `count` cells, in order.

    Randomised complete blocks: a round is a block, holds every cell once, and is shuffled by a generator seeded with
    the study's seed and the round, so that the order can be had again.
    """
    found = []
    for number in range(1, study["rounds"] + 1):
        block = list(range(count))
        random.Random(f"{study['seed']}/{number}").shuffle(block)
        found += [(number, cell) for cell in block]
    return found
