"""`reprofs calibrate`: what an instruction of the exact lab, a wake-up, or a flush of a disk cost on this machine."""

from __future__ import annotations

import datetime
import errno
import json
import math
import os
import subprocess
from pathlib import Path
from statistics import median
from typing import Any

import yaml

from reprofs.errors import UserError, middle, several, short
from reprofs.files import cache_folder, check_writable, write_text
from reprofs.guest import engine
from reprofs.plan import PROCESSOR
from reprofs.plan.catalog import Catalog, named
from reprofs.plan.cell import Trial
from reprofs.plan.device import Device, Modelled, Solid
from reprofs.plan.machine import Machine
from reprofs.plan.override import AS_FOUND, add_places, place_name
from reprofs.plan.parts import NAME, NAME_RULE, Descriptor
from reprofs.plan.processor import Processor
from reprofs.plan.read import validate
from reprofs.project import place
from reprofs.records.raw import parse_events, status
from reprofs.trial.run import host, ready

ROUNDS = 9
LIMIT_S = 120
NOISY = 0.1  # median absolute deviation, as a share of the median
MEMORY = "/dev/shm"  # a file system in memory, for every user
WORK = {"stack": "single", "variant": "default", "workload": "metadata", "scale": "smoke", "round": 1, "seed": 1}
Times = dict[tuple[str, str], float]


def calibrate(name: str) -> Path:
    """Writes workflow/machines/NAME.yaml for this machine; returns the file.

    Raises UserError when there is a machine of that name, when nothing can be written in MEMORY, and when a constant is
    noisy; nothing is written then.
    """
    path = _new(Machine, name)
    rounds = zip(_instructions(), _rounds(), strict=True)
    constants = summarised([{"instruction": ns} | others for ns, others in rounds])
    facts = host()
    content = {
        "title": facts["cpu"],
        "kernel": facts["kernel"],
        "measured": f"{_today()}, {ROUNDS} rounds of reprofs calibrate, load {facts['load_1min']:g}",
        "constants": constants,
        "wake_ups": 2,
    }
    Machine.model_validate(content)
    return _written(path, content)


def calibrate_disk(name: str, disk: Path, like: str, catalog: Catalog) -> Path:
    """Writes workflow/devices/NAME.yaml, the device model `like` with the flush of this disk; returns the file.

    disk: a folder on it, where a temporary file is made, or a block device that nobody uses, whose blocks are written
    with what they have. Raises UserError when there is a device model of that name, when `like` is no modelled
    solid-state disk, when nothing can be written, and when flushes are noisy; nothing is written then.
    """
    path, known = _new(Device, name), catalog.get(Device, like)
    if not isinstance(known, Modelled) or not isinstance(known.disk, Solid):
        raise UserError(f"{like} is no modelled solid-state disk: name one after --like, such as ssd-nvme or ssd-sata.")
    found = summarised(_rounds(disk))
    facts, write_us = host(), known.disk.write_us
    content = yaml.safe_load(catalog.paths(Device)[like].read_text())
    content["title"] = f"{known.title}, with the flush of {name}"
    content["model"] = f"As {like}, whose flush is replaced by a measured one."
    shown = {key: f"{one['ns'] / 1000:.4g} (MAD {one['mad'] / 1000:.2g})" for key, one in found.items()}
    content["sources"] = [
        f"reprofs calibrate --disk, {_today()}, {facts['cpu']}, Linux {facts['kernel']}: 4 KiB written and fdatasync, "
        f"medians of {ROUNDS} rounds in µs: at random {shown['random']}, in sequence {shown['sequential']}; here at "
        f"random, less {write_us:g} for the write.",
        f"All other figures: {like}.",
    ]
    content["disk"]["flush_us"] = max(0.0, float(f"{found['random']['ns'] / 1000 - write_us:.4g}"))
    validate(content, Device, name)
    return _written(path, content)


def _new(kind: type[Descriptor], name: str) -> Path:
    """The file of a descriptor that is not there yet. Raises UserError."""
    folder = place(kind.folder)
    path = folder / f"{name}.yaml"
    if not NAME.fullmatch(name):
        raise UserError(f"{short(name)} is not a valid name of a {kind.word or kind.kind}: it must have {NAME_RULE}.")
    if name in named(folder):
        raise UserError(f"{path} exists: remove it, or choose another name.")
    check_writable(path)
    return path


def _written(path: Path, content: dict[str, Any]) -> Path:
    write_text(path, yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=120))
    return path


def _today() -> datetime.date:
    return datetime.datetime.now(datetime.UTC).date()


def _instructions() -> list[float]:
    """The CPU time (ns) of one instruction of the exact lab on this machine, in each of ROUNDS rounds: geometric mean
    over the phases of one workload, on a file system in memory in both labs."""
    catalog = Catalog()
    add_places(catalog, [MEMORY])
    unit = catalog.get(Processor, PROCESSOR).ns_per_instruction
    lab = _spent(catalog, {"lab": "exact", "processor": PROCESSOR, "profile": "ram", "filesystem": "tmpfs"})
    found = []
    for _ in range(ROUNDS):
        here = _spent(catalog, {"lab": "mount", "profile": AS_FOUND, "filesystem": place_name(MEMORY)})
        logs = [math.log(here[phase] / time) for phase, time in lab.items()]
        found.append(unit * math.exp(sum(logs) / len(logs)))
    return found


def _spent(catalog: Catalog, where: dict[str, str]) -> Times:
    """The CPU time (ns, user and system) of each phase of a trial."""
    one = ready(Trial.model_validate(WORK | where), catalog)
    outcome = one.lab.run(one.job, LIMIT_S, one.setup.disks)
    events = parse_events(outcome.output)
    state, reason = status(outcome.ending, events, outcome.console, LIMIT_S)
    if state != "ok":
        raise UserError(f"calibrate failed in {where['filesystem']}, lab {where['lab']}: {middle(reason)}")
    phases = (event for event in events if event["event"] == "phase")
    return {(one["name"], one["cache"]): max(1, one["user_ns"] + one["system_ns"]) for one in phases}


def _rounds(disk: Path | None = None) -> list[dict[str, float]]:
    command = [str(engine.build_calibrate(cache_folder())), str(ROUNDS), *([str(disk)] if disk else [])]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        raise UserError(f"calibrate did not end in {LIMIT_S} s: try again while the machine is idle.") from None
    if done.returncode:
        said = done.stderr.strip() or f"it ended with {done.returncode}"
        room = f"free 64 MiB in {disk}, or " if os.strerror(errno.ENOSPC) in said else ""
        raise UserError(
            f"calibrate failed: {middle(said)}: {room}name a folder with --disk where files can be made, or a block "
            "device that nobody uses."
        )
    return [json.loads(line) for line in done.stdout.splitlines()]


def summarised(rounds: list[dict[str, float]]) -> dict[str, dict[str, float]]:
    """Constant -> median and median absolute deviation (ns) of its rounds. Raises UserError for noisy ones."""
    found, noisy = {}, []
    for name in rounds[0]:
        values = [one[name] for one in rounds]
        middle_ = median(values)
        spread = median(abs(value - middle_) for value in values)
        found[name] = {"ns": float(f"{middle_:.4g}"), "mad": float(f"{spread:.2g}")}
        if not middle_ > 0 or spread > NOISY * middle_:
            noisy.append(f"{name} ({middle_:.3g} ± {spread:.2g} ns)")
    if noisy:
        raise UserError(
            f"calibrate: {several(noisy)}: too noisy: the spread of {len(rounds)} rounds may be {NOISY:.0%}; nothing "
            "was written: try again while the machine is idle."
        )
    return found
