"""From a study to its trials: every cell once in every round, each round in a shuffled order of its own."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path

from reprofs import labs
from reprofs.catalog import Catalog, project_root, read_yaml, validate
from reprofs.files import write_text

CELL = ("lab", "stack", "profile", "filesystem", "variant", "workload", "scale")


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


def make_plan(name: str, catalog: Catalog) -> dict:
    """The plan of a study: itself, its trials in order, and the titles and parameters a reader of the results needs.

    Randomised complete blocks: a round is a block, holds every cell once, and is shuffled by a generator seeded with
    the study's seed and the round, so that the order can be had again. Round r uses the seed `study seed + r` for all
    its trials: names, sizes and order are the same for every file system of a round.

    Raises UserError for an unknown name or a descriptor that does not fit its schema.
    """
    study = {"name": name, **catalog.get("study", name)}
    pairs = [catalog.variant(spec) for spec in study["filesystems"]]
    filesystems = {fs: catalog.get("filesystem", fs) for fs, _ in pairs}
    workloads = {w: catalog.get("workload", w) for w in study["workloads"]}
    devices = {d: catalog.get("device", d) for d in study["profiles"]}
    stacks = {s: catalog.get("stack", s) for s in study["stacks"]}
    for lab in study["labs"]:
        labs.get_lab(lab)

    cells = [
        dict(zip(CELL, (lab, stack, profile, fs, variant, workload, study["scale"]), strict=True))
        for lab, stack, profile, (fs, variant), workload in itertools.product(
            study["labs"], study["stacks"], study["profiles"], pairs, study["workloads"]
        )
    ]
    trials = []
    for number in range(1, study["rounds"] + 1):
        block = list(cells)
        random.Random(f"{study['seed']}/{number}").shuffle(block)
        for cell in block:
            trial = {**cell, "round": number, "seed": study["seed"] + number, "order": len(trials) + 1}
            trials.append({"id": trial_id(trial), **trial})
    return {
        "schema": 1,
        "study": study,
        "trials": trials,
        "filesystems": {
            fs: {k: d[k] for k in ("title", "home", "role", "packages", "variants")} for fs, d in filesystems.items()
        },
        "workloads": {
            w: {
                "title": d["title"],
                "description": d["description"],
                "source": d["source"],
                "packages": d["packages"],
                "scale": d["scales"][study["scale"]],
                "phases": d["phases"],
            }
            for w, d in workloads.items()
        },
        "devices": devices,
        "stacks": stacks,
    }


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
        f"{'lab':8}{'stack':14}{'device':8}{'file system':20}{'workload':14}scale",
    ]
    for t in plan["trials"]:
        lines.append(
            f"{t['order']:5}  {t['round']:5}  {t['seed']:9}  {t['lab']:8}{t['stack']:14}{t['profile']:8}"
            f"{t['filesystem'] + '+' + t['variant']:20}{t['workload']:14}{t['scale']}"
        )
    return "\n".join(lines)
