"""From a study to its trials: every cell once in every round, each round in a shuffled order of its own."""

from __future__ import annotations

import hashlib
import itertools
import json
import random
from collections import Counter
from pathlib import Path

from reprofs import labs
from reprofs.errors import FileError, UserError, cut
from reprofs.files import write_text
from reprofs.plan import workloads
from reprofs.plan.catalog import Catalog, read_yaml, unknown, validate
from reprofs.plan.stacks import resolve
from reprofs.project import project_root
from reprofs.trial.cell import resolve as resolve_cell
from reprofs.trial.job import render_job
from reprofs.trial.protocol import CELL, PROTOCOL

SCALES = ("smoke", "laptop", "paper")
ID_MAX = 200  # a file's name has 255 bytes, and those of a trial have endings


def trial_id(trial: dict) -> str:
    """The name of a trial, used for its files: r1-exact-single-ssd-btrfs+zstd-metadata-smoke."""
    return (
        f"r{trial['round']}-{trial['lab']}-{trial['stack']}-{trial['profile']}-{trial['filesystem']}+{trial['variant']}"
        f"-{trial['workload']}-{trial['scale']}"
    )


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


def make_plan(name: str, catalog: Catalog) -> dict:
    """The plan of a study: itself, its trials in order, and what a reader of the records and results needs of the rest.

    Randomised complete blocks: a round is a block, holds every cell once, and is shuffled by a generator seeded with
    the study's seed and the round, so that the order can be had again. Round r uses the seed `study seed + r` for all
    its trials: names, sizes and order are the same for every file system of a round.

    Raises UserError for an unknown name or a descriptor that does not fit its schema.
    """
    study = study_of(name, catalog)
    file = catalog.file("study", name.partition("@")[0])
    published = {}
    try:
        cells = _cells(study, catalog)
        if "published" in study:
            published["published"] = catalog.get("published", study["published"])
    except FileError:
        raise
    except UserError as error:  # of parts that do not exist or do not fit: the study asks for them
        raise FileError(f"{file}: {error}") from None

    def used(kind: str) -> list[str]:
        return list(dict.fromkeys(cell[kind] for cell in cells))

    filesystems = {fs: catalog.get("filesystem", fs) for fs in used("filesystem")}
    chosen = {w: workloads.resolve(w, catalog) for w in used("workload")}
    devices = {d: catalog.get("device", d) for d in used("profile")}
    stacks = {s: resolve(s, catalog) for s in used("stack")}
    trials = []
    for number in range(1, study["rounds"] + 1):
        block = list(cells)
        random.Random(f"{study['seed']}/{number}").shuffle(block)
        for cell in block:
            trial = {**cell, "round": number, "seed": study["seed"] + number, "order": len(trials) + 1}
            job = hashlib.sha256(render_job(trial, catalog)[0].encode()).hexdigest()
            trials.append({"id": trial_id(trial), **trial, "job_sha256": job})
    _check_ids([trial["id"] for trial in trials], file)
    return {
        "schema": 1,
        "protocol": PROTOCOL,
        "study": study,
        "trials": trials,
        "labs": {lab: {"clock": labs.get_lab(lab).clock} for lab in used("lab")},
        "filesystems": {
            fs: {k: d[k] for k in ("title", "home", "role", "packages", "variants", "guest")}
            for fs, d in filesystems.items()
        },
        "workloads": {
            w: {
                "title": d["title"],
                "description": d["description"],
                "source": d["source"],
                "packages": d["packages"],
                "scale": d["scales"][study["scale"]],
                "phases": d["phases"],
                **{key: d[key] for key in ("differs", "size", "clients", "runs", "fill") if key in d},
            }
            for w, d in chosen.items()
        },
        "devices": devices,
        "stacks": {
            name: {
                "title": stack.title,
                "family": stack.family,
                "disks": stack.disks,
                "filesystem": stack.filesystem,
                "state": stack.state,
                "layers": [layer.name for layer in stack.layers],
            }
            for name, stack in stacks.items()
        },
        **published,
    }


def _check_ids(ids: list[str], file: str) -> None:
    """Raises FileError when two trials of a study would have one name, or one its file cannot have."""
    twice = next((one for one, count in Counter(ids).items() if count > 1), None)
    if twice:  # as of stack a on profile b-c and stack a-b on profile c
        raise FileError(f"{file}: two different trials would be called {twice}: rename a descriptor.")
    longest = max(ids, key=len)
    if len(longest) > ID_MAX:
        raise FileError(
            f"{file}: the name of trial {cut(longest, 150)} has {len(longest)} characters, and {ID_MAX} are the most: "
            "shorten the names of its parts."
        )


def _cells(study: dict, catalog: Catalog) -> list[dict]:
    """Every cell of the study once. Raises UserError for a missing axis and for a cell that cannot be put together."""
    axes = ("labs", "stacks", "profiles", "filesystems", "workloads")
    cells: dict[tuple, dict] = {}
    for number, cross in enumerate(study.get("cells", [{}]), 1):
        values = [cross.get(axis, study.get(axis)) for axis in axes]
        for axis, value in zip(axes, values, strict=True):
            if value is None:
                place = f"entry {number} of cells and the top level" if "cells" in study else "the top level"
                raise UserError(f"key '{axis}' is missing at {place}: add it.")
        for lab, stack, profile, spec, workload in itertools.product(*values):
            words = (lab, resolve(stack, catalog).name, profile, *catalog.variant(spec), workload, study["scale"])
            cell = dict(zip(CELL, words, strict=True))
            catalog.get("device", profile)
            resolve_cell(cell, catalog)
            cells[words] = cell
    return list(cells.values())


def write_plan(name: str, catalog: Catalog, output: Path) -> dict:
    """Makes the plan and writes it as JSON; the file is left alone when nothing has changed."""
    plan = make_plan(name, catalog)
    write_text(output, json.dumps(plan, indent=1, ensure_ascii=False) + "\n")
    return plan


def table(plan: dict) -> str:
    """The plan as text, a line a trial."""
    study = plan["study"]
    lines = [
        f"{study['name']}: {study['question']}",
        f"{len(plan['trials'])} trials in {study['rounds']} rounds, shuffled with seed {study['seed']}",
        "",
        f"{'order':>5}  {'round':>5}  {'seed':>9}  "
        f"{'lab':8}{'stack':24}{'device':8}{'file system':20}{'workload':14}scale",
    ]
    for t in plan["trials"]:
        lines.append(
            f"{t['order']:5}  {t['round']:5}  {t['seed']:9}  {t['lab']:8}{t['stack']:24}{t['profile']:8}"
            f"{t['filesystem'] + '+' + t['variant']:20}{t['workload']:14}{t['scale']}"
        )
    return "\n".join(lines)
