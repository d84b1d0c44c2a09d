"""The plan of a study: its trials in order, the digest of each job, and descriptions of their parts."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

from reprofs import labs
from reprofs.errors import FileError, UserError, cut
from reprofs.files import write_text
from reprofs.plan import CELL, models
from reprofs.plan.catalog import Catalog
from reprofs.plan.override import Override, add_places, overridden
from reprofs.plan.study import cells, factors, limits, looks, order, study_of
from reprofs.project import project_root
from reprofs.trial.cell import Cell, resolve
from reprofs.trial.job import render
from reprofs.trial.protocol import PROTOCOL

ID_MAX = 200  # a file name has at most 255 bytes, and a trial's files have suffixes
SEED = "\0"  # stands for the seed in the job of a cell: no command has such a character


def trial_id(trial: dict) -> str:
    """The name of a trial, used for its files: r1-exact-single-ssd-btrfs+zstd-metadata-smoke."""
    return (
        f"r{trial['round']}-{trial['lab']}-{trial['stack']}-{trial['profile']}-{trial['filesystem']}+{trial['variant']}"
        f"-{trial['workload']}-{trial['scale']}"
    )


def make_plan(name: str, catalog: Catalog, change: Override | None = None) -> dict:
    """The plan of a study: the study itself, its trials in order, and the descriptions that records and results need.

    Round r uses the seed `study seed + r` for all its trials: names, sizes and order are the same for every file system
    of a round. change: what takes the place of the study's own labs, profiles or file systems; cells that cannot be
    had with it are left out, and the plan says which and why.

    Raises UserError for an unknown name, a descriptor that does not fit its schema, or if no cell is left.
    """
    study = study_of(name, catalog)
    if change:
        if change.lab:
            labs.get_lab(change.lab.partition("@")[0])
        if change.profile:
            catalog.get("device", change.profile)
        add_places(catalog, change.where, change.clients)
        study = overridden(study, change)
    file = catalog.file("study", name.partition("@")[0])
    _check_notebooks(study.get("notebooks", []), file)
    more: dict = {}
    try:
        modelled = labs.with_processors()
        named = cells(study, catalog, modelled)
        chosen = _possible(named, study, catalog, change) if change else [resolve(names, catalog) for names in named]
        most = limits(study, catalog, modelled)
        changed = factors(study, catalog, modelled)
        if changed:
            more["factors"] = changed
        if "published" in study:
            more["published"] = catalog.get("published", study["published"])
    except FileError:
        raise
    except UserError as error:  # the study asks for parts that do not exist or do not fit
        raise FileError(f"{file}: {error}") from None
    trials: list[dict] = []
    jobs: dict[int, str] = {}  # of each cell, which differ by the seed alone from round to round
    for number, place in order(study, len(chosen)):
        cell = chosen[place]
        if number > most[tuple(cell.names[key] for key in CELL)]:
            continue
        trial = {**cell.names, "round": number, "seed": study["seed"] + number, "order": len(trials) + 1}
        if place not in jobs:
            jobs[place] = render(replace(cell, names=cell.names | {"seed": SEED})).text()
        job = hashlib.sha256(jobs[place].replace(SEED, str(trial["seed"])).encode()).hexdigest()
        trials.append({"id": trial_id(trial), **trial, "job_sha256": job})
    _check_ids([trial["id"] for trial in trials], file)
    wires = {cell.network.name: catalog.get("network", cell.network.name) for cell in chosen if cell.network}
    return {
        "schema": 1,
        "protocol": PROTOCOL,
        "study": study,
        "trials": trials,
        "labs": {cell.names["lab"]: cell.lab.facts(cell.processor) for cell in chosen},
        "filesystems": {
            cell.names["filesystem"]: _keys(cell.filesystem, "title", "home", "role", "packages", "variants", "guest")
            | ({"hosts": _keys(cell.filesystem.hosts, "servers", "clients")} if cell.filesystem.hosts else {})
            | _keys(cell.filesystem, "clients")
            for cell in chosen
        },
        "workloads": {
            cell.names["workload"]: {
                **_keys(cell.workload, "title", "description", "source", "packages", "phases"),
                "scale": cell.scale.parameters(),
                **_keys(cell.workload, "differs", "size", "clients", "on_servers", "runs", "fill"),
            }
            for cell in chosen
        },
        "devices": {cell.names["profile"]: cell.profile for cell in chosen},
        **({"networks": wires} if wires else {}),
        "stacks": {
            cell.stack.name: {
                "title": cell.stack.title,
                "family": cell.stack.family,
                "disks": cell.stack.disks,
                "filesystem": cell.stack.filesystem,
                "state": cell.stack.state,
                "layers": [layer.name for layer in cell.stack.layers],
                "summary": [line for layer in cell.stack.layers for line in layer.descriptor.summary],
            }
            for cell in chosen
        },
        **more,
    }


def _possible(named: list[dict], study: dict, catalog: Catalog, change: Override) -> list[Cell]:
    """The cells that can be had in an overridden study, which gets sentences about the others.

    Raises UserError if there are none.
    """
    chosen: list[Cell] = []
    lost: dict[str, list[str]] = {}
    for names in named:
        try:
            cell = resolve(names, catalog)
            why = cell.filesystem.unavailable or cell.lab.unsuited(cell.profile)
        except FileError:
            raise
        except UserError as error:
            why = str(error)
        if why:
            lost.setdefault(why.rstrip("."), []).append(_in_words(names))
        else:
            chosen.append(cell)
    said = [
        f"{listed} {'is' if len(which) == 1 else 'are'} left out: {why}"
        for why, which in lost.items()
        for listed in ["; ".join(which)]
    ]
    if not chosen:
        first = next(iter(lost))
        more = f" And {len(lost) - 1} other reasons." if len(lost) > 1 else ""
        hint = "; PROFILE= chooses one." if not change.profile and "profile" in first else ""
        raise UserError(f"no cell can be had with {change}: {first}{hint}{more}")
    study["override"]["left_out"] = said
    return chosen


def check_machine(plan: dict, catalog: Catalog) -> None:
    """Raises UserError when an overridden study cannot run on this machine, before its first trial."""
    if "override" not in plan["study"]:
        return
    found: dict[type[labs.Lab], tuple[dict, int]] = {}
    for names in plan["trials"]:
        cell = resolve({key: names[key] for key in CELL}, catalog)
        profile, count = found.get(cell.lab, (cell.profile, 0))
        real = cell.profile["backing"] == "device"
        found[cell.lab] = (cell.profile, max(count, len(cell.paths))) if real else (profile, count)
    for lab, (profile, count) in found.items():
        if why := lab.refusal(profile, count):
            raise UserError(f"{plan['study']['override']['text']}: {why}")


def _in_words(names: dict) -> str:
    return f"{names['filesystem']}+{names['variant']} on {names['stack']}, {names['profile']}, {names['workload']}"


def _keys(descriptor: models.Part, *names: str) -> dict:
    """These keys of a descriptor, in this order, without those that are left out."""
    data = descriptor.model_dump(include=set(names), exclude_none=True)
    return {name: data[name] for name in names if name in data}


def _check_notebooks(names: list[str], file: str) -> None:
    """Raises FileError when one of the study's own notebooks is missing, or has the name of a topic."""
    folder = project_root() / "notebooks"
    topics = {re.sub(r"^\d+-", "", path.name): path.name for path in folder.glob("[0-9]*.ipynb")}
    for name in names:
        if name in topics:
            raise FileError(f"{file}: notebooks names {name}, but {topics[name]} has this name already: rename yours.")
        if not (folder / name).is_file():
            raise FileError(
                f"{file}: notebooks names {name}, which is not in notebooks/: put it there, or leave it out."
            )


def _check_ids(ids: list[str], file: str) -> None:
    """Raises FileError when two trials of a study would have the same name, or a name too long for a file."""
    twice = next((one for one, count in Counter(ids).items() if count > 1), None)
    if twice:  # as of stack a on profile b-c and stack a-b on profile c
        raise FileError(f"{file}: two different trials would be called {twice}: rename a descriptor.")
    longest = max(ids, key=len)
    if len(longest) > ID_MAX:
        raise FileError(
            f"{file}: the name of trial {cut(longest, 150)} has {len(longest)} characters, but may have at most "
            f"{ID_MAX}: shorten the names of its parts."
        )


def write_plan(name: str, catalog: Catalog, output: Path, change: Override | None = None) -> dict:
    """Makes the plan and writes it as JSON; the file is left alone when nothing has changed."""
    plan = make_plan(name, catalog, change)
    write_text(output, json.dumps(plan, indent=1, ensure_ascii=False) + "\n")
    return plan


def first_rounds(plan: dict, rounds: int) -> dict:
    """The plan of a study that has only the first rounds of this one."""
    trials = [trial for trial in plan["trials"] if trial["round"] <= rounds]
    return {**plan, "study": {**plan["study"], "rounds": rounds}, "trials": trials}


def table(plan: dict) -> str:
    """The plan as text, one line per trial."""
    study = plan["study"]
    numbers, words = ("order", "round", "seed"), ("lab", "stack", "profile", "file system", "workload", "scale")
    rows = [dict(zip(numbers + words, numbers + words, strict=True))]  # the heading
    for trial in plan["trials"]:
        rows.append({**trial, "file system": f"{trial['filesystem']}+{trial['variant']}"})
    widths = {key: max(len(str(row[key])) for row in rows) for key in numbers + words}
    lines = [
        f"{study['name']}: {study['question']}",
        f"{_extent(study, len(plan['trials']))}, shuffled with seed {study['seed']}",
        *([f"overridden: {study['override']['text']}"] if "override" in study else []),
        *study.get("override", {}).get("left_out", []),
        "",
    ]
    for row in rows:
        cells = [f"{row[key]:>{widths[key]}}" for key in numbers] + [f"{row[key]:{widths[key]}}" for key in words]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _extent(study: dict, trials: int) -> str:
    rounds = study["rounds"]
    if not isinstance(rounds, dict):
        return f"{trials} trials in {rounds} rounds"
    *first, last = map(str, looks(study))
    after = f"{', '.join(first)} or {last}" if first else last
    return f"at most {trials} trials: {after} rounds, until ratios are known within ±{rounds['until']}"
