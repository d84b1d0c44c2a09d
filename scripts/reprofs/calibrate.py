"""`reprofs calibrate`: measures what things cost on this machine (scripts/engine/calibrate.c)."""

from __future__ import annotations

import datetime
import errno
import json
import os
import subprocess
from pathlib import Path
from statistics import median

import yaml

from reprofs.errors import UserError, middle, several, short
from reprofs.files import cache_folder, check_writable, write_text
from reprofs.guest import engine
from reprofs.plan.catalog import named
from reprofs.plan.machine import Machine
from reprofs.plan.parts import NAME, NAME_RULE
from reprofs.project import place
from reprofs.trial.run import host

ROUNDS = 9
LIMIT_S = 120
NOISY = 0.1  # median absolute deviation, as a share of the median


def calibrate(name: str, flush: Path | None = None) -> Path:
    """Writes workflow/machines/NAME.yaml for this machine; returns the file.

    flush: a folder, of whose disk the flush is measured with a temporary file. Raises UserError when there is a machine
    of that name, when nothing can be written in `flush`, and when a constant is noisy; nothing is written then.
    """
    folder = place(Machine.folder)
    path = folder / f"{name}.yaml"
    if not NAME.fullmatch(name):
        raise UserError(f"{short(name)} is not a valid machine name: it must have {NAME_RULE}.")
    if name in named(folder):
        raise UserError(f"{path} exists: remove it, or choose another name.")
    check_writable(path)
    constants = summarised(_rounds(flush))
    facts, today = host(), datetime.datetime.now(datetime.UTC).date()
    content = {
        "title": facts["cpu"],
        "kernel": facts["kernel"],
        "measured": f"{today}, {ROUNDS} rounds of reprofs calibrate, load {facts['load_1min']:g}",
        "constants": constants,
        "wake_ups": 2,
    }
    Machine.model_validate(content)
    write_text(path, yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=120))
    return path


def _rounds(flush: Path | None) -> list[dict[str, float]]:
    command = [str(engine.build_calibrate(cache_folder())), str(ROUNDS), *([str(flush)] if flush else [])]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        raise UserError(f"calibrate did not end in {LIMIT_S} s: try again while the machine is idle.") from None
    if done.returncode:
        said = done.stderr.strip() or f"it ended with {done.returncode}"
        room = f"free space in {flush}, or " if os.strerror(errno.ENOSPC) in said else ""
        raise UserError(f"calibrate failed: {middle(said)}: {room}name a folder with --flush where files can be made.")
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
