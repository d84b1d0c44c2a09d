"""From a study to its cells, and the order of their trials in every round."""

from __future__ import annotations

import itertools
import random
from collections.abc import Container

from reprofs.errors import UserError
from reprofs.plan import CELL, NETWORK, PROCESSOR, models
from reprofs.plan.catalog import Catalog, read_yaml, unknown, validate
from reprofs.plan.stacks import resolve
from reprofs.project import project_root

SCALES = tuple(models.Scales.model_fields)


def read_config(config: dict | None = None) -> dict:
    """config/config.yaml, overridden by `config` (from a command line). Raises UserError when a value does not fit."""
    path = project_root() / "config" / "config.yaml"
    return validate({**read_yaml(path, "config"), **(config or {})}, "config", "config/config.yaml")


def study_of(name: str, catalog: Catalog) -> dict:
    """The study NAME, or NAME@SCALE for a scale other than its file's. Raises UserError for an unknown name."""
    base, at, scale = name.partition("@")
    study = {"name": name, **catalog.get("study", base)}
    if at:
        if scale not in SCALES:
            raise unknown("scale", scale, SCALES)
        study["scale"] = scale
    return study


def cells(study: dict, catalog: Catalog, modelled: Container[str] = ()) -> list[dict]:
    """The cells of the study, as dictionaries of names, each once. Raises UserError for a missing axis or unknown name.

    modelled: the labs that model their processor; they get the default one where the study names none.
    """
    found = {tuple(cell.values()): cell for cross in _crosses(study, catalog, modelled) for cell in cross}
    return list(found.values())


def limits(study: dict, catalog: Catalog, modelled: Container[str] = ()) -> dict[tuple, int]:
    """The number of rounds that each cell has at most, by the values of its names; modelled: as in `cells`."""
    found: dict[tuple, int] = {}
    for entry, cross in zip(study.get("cells", [{}]), _crosses(study, catalog, modelled), strict=True):
        for cell in map(tuple, map(dict.values, cross)):
            found[cell] = max(found.get(cell, 0), entry.get("rounds", most_rounds(study)))
    return found


def factors(study: dict, catalog: Catalog, modelled: Container[str] = ()) -> list[dict]:
    """The entries of a study with factors, the base first: title (None of the base) and the names of their cells.

    modelled: as in `cells`. Empty for other studies. Raises UserError when an entry has two cells of one file system,
    or a file system that the base does not have.
    """
    entries = study.get("cells", [])
    if not any("factor" in entry for entry in entries):
        return []
    found = [
        {"title": entry.get("factor"), "cells": cross}
        for entry, cross in zip(entries, _crosses(study, catalog, modelled), strict=True)
    ]
    found.sort(key=lambda factor: factor["title"] is not None)
    base = [cell["filesystem"] for cell in found[0]["cells"]]
    for factor in found:
        names = [cell["filesystem"] for cell in factor["cells"]]
        place = f"cells: factor '{factor['title']}'" if factor["title"] else "cells: the base"
        for name in names:
            if names.count(name) > 1:
                raise UserError(f"{place} has {names.count(name)} cells of {name}: leave one of each file system.")
            if name not in base:
                raise UserError(f"{place} has a cell of {name}, which the base has not: leave it out, or add it there.")
    return found


def _crosses(study: dict, catalog: Catalog, modelled: Container[str]) -> list[list[dict]]:
    """The names of the cells of each entry of the study."""
    axes = ("labs", "stacks", "profiles", "filesystems", "workloads")
    found = []
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
        networks = cross.get("networks", study.get("networks", [NETWORK]))
        values[3] = [full for spec in values[3] for full in _on_networks(catalog.variant(spec), networks, catalog)]
        own: dict[tuple, dict] = {}
        for lab, stack, profile, spec, workload in itertools.product(*values):
            words = (lab, resolve(stack, catalog).name, profile, *spec, workload, study["scale"])
            catalog.get("device", profile)
            own[words] = dict(zip(CELL, words, strict=True))
        found.append(list(own.values()))
    return found


def _on_networks(spec: tuple[str, str], networks: list[str], catalog: Catalog) -> list[tuple[str, str]]:
    """A file system and its variant, once for each network; once only if it has no hosts."""
    name, variant = spec
    if "hosts" not in catalog.get("filesystem", name):
        return [spec]
    return [(name, f"{variant}@{network}") for network in networks]


def most_rounds(study: dict) -> int:
    """The number of rounds of a study, or the largest one where they adapt."""
    rounds = study["rounds"]
    return rounds["max"] if isinstance(rounds, dict) else rounds


def looks(study: dict) -> list[int]:
    """The numbers of rounds after which a study may end: one where it is fixed.

    Where rounds adapt: min, then half as many again, up to max. Few looks mean few chances to stop by luck, and rounds
    that many processors can share.
    """
    rounds = study["rounds"]
    if not isinstance(rounds, dict):
        return [rounds]
    found = [rounds["min"]]
    while found[-1] < rounds["max"]:
        found.append(min(rounds["max"], found[-1] + (found[-1] + 1) // 2))
    return found


def order(study: dict, count: int) -> list[tuple[int, int]]:
    """(round, number of the cell) of every trial of a study of `count` cells, in order.

    Randomised complete blocks: a round is a block, holds every cell once, and is shuffled by a generator seeded with
    the study's seed and the round, so that the order can be reproduced.
    """
    found = []
    for number in range(1, most_rounds(study) + 1):
        block = list(range(count))
        random.Random(f"{study['seed']}/{number}").shuffle(block)
        found += [(number, cell) for cell in block]
    return found
