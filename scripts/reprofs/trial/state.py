"""One sequence of calls on one file system, and one of the states that a power cut may leave (`reprofs state`)."""

from __future__ import annotations

import base64
import gzip
import json
import re
import shlex
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from reprofs.errors import UserError, cut
from reprofs.files import check_writable, made
from reprofs.guest.steps import Exec, Job, Phase
from reprofs.labs import Outcome
from reprofs.plan import sequences
from reprofs.plan.catalog import Catalog
from reprofs.plan.cell import Cell
from reprofs.plan.device import CRASH_MIB
from reprofs.records.raw import parse_events, status
from reprofs.trial.job import render
from reprofs.trial.resolve import resolve
from reprofs.trial.setup import Setup
from reprofs.workplace import beside

WORKLOAD = "crash-states"
SET = "seq-1"  # whose tree is there before
IMAGE = "/run/crash-image"
PAGE = 4096
LIMIT_S = 1800.0


def setup_of(cell: Cell, sequence: str, options: list[str], catalog: Catalog) -> Setup:
    """The setup of a cell of `WORKLOAD` with one sequence in place of all. Raises UserError for what cannot be run."""
    found = resolve(cell, catalog)
    first = found.workload.phases[0]
    before = ";".join(sequences.read(SET).before)
    program = "states-maintained" if "maintain " in sequence else "states"
    words = ["engine", program, "--before", before, "--sequences", sequence, *options]
    run = shlex.join(words).replace("{", "{{").replace("}", "}}")
    phase = first.model_copy(update={"name": "state", "run": run + " --subsets {subsets}"})
    workload = found.workload.model_copy(update={"phases": [phase]})
    return replace(found, workload=workload.known_as(found.workload.name, found.workload.file))


def visit(setup: Setup, image: Path | None = None, run: Callable[..., Outcome] | None = None) -> str:
    """What engine states says. Raises UserError when the guest fails.

    image: file for what is on the disk, sparse. run: runs the job in the lab, in place of the lab's own function.
    """
    job = render(setup, 1, 1)
    if image:
        if image.exists() and not image.is_file():
            raise UserError(f"{image} is no file: name one for the image.")
        check_writable(image)
        job = _with_image(job)
    lab = setup.lab.open(guest=setup.guest, processor=setup.processor, kernel=setup.kernel)
    outcome = (run or type(lab).run)(lab, job, LIMIT_S, setup.disks)
    events, console = parse_events(outcome.output), outcome.console
    ended, reason = status(outcome.ending, events, console, LIMIT_S)
    phases = [event for event in events if event.get("event") == "phase"]
    if not phases or (ended != "ok" and phases[-1].get("exit")):
        raise UserError(f"the state was not visited: {cut(reason)}")
    if image:
        write_image(console, image)
    return phases[-1]["output"]


def _with_image(job: Job) -> Job:
    """The job, which also writes the image to the console."""
    script = f"gzip -c {IMAGE} | base64 > /dev/ttyS0; rm {IMAGE}"
    at = max(number for number, step in enumerate(job.steps) if isinstance(step, Phase)) + 1
    step = Exec(stage="image", limit_s=600, arg=["sh", "-ec", script])
    return replace(job, steps=[*job.steps[:at], step, *job.steps[at:]])


def write_image(console: str, image: Path) -> None:
    """Writes a raw image of the disk: pages that somebody wrote, holes for the others.

    console: with the packed pages, as base64; each is its number (8 bytes, little-endian) and 4096 bytes. Raises
    UserError when they are not whole.
    """
    lines = re.findall(r"^[A-Za-z0-9+/]+={0,2}$", console, re.MULTILINE)
    try:
        packed = gzip.decompress(base64.b64decode("".join(lines), validate=True))
    except (ValueError, OSError, EOFError) as error:
        why = cut(str(error), 60)
        raise UserError(f"the image did not come out of the guest whole ({why}): run it again.") from None
    image = image.resolve()
    with made(image.parent), beside(image.parent) as work:
        with (work / image.name).open("wb") as file:
            for number, page in struct.iter_unpack(f"<Q{PAGE}s", packed):
                file.seek(number * PAGE)
                file.write(page)
            file.truncate(CRASH_MIB << 20)
        (work / image.name).rename(image)


def table(output: str) -> str:
    """What engine states says of all states of a sequence, as text."""
    lines = []
    for row in (json.loads(line) for line in output.splitlines() if line.startswith("{")):
        counts = f"{row['writes']} writes, {row['flushes']} flushes, {row['states']} states"
        failed = row["failed"] and f" ({row['failed']})"  # on a full disk, the next call was made nevertheless
        lines.append(f"{row['sequence']}: " + (counts + failed if row["states"] else f"not possible: {row['failed']}"))
        for one in row["findings"]:
            when = "all calls had returned" if one["after"] else "a call had not returned"
            weight = "a broken guarantee" if one["broken"] else "nothing guaranteed"
            place = f"--at {one['at']}" + (f" --again-at {one['again']}" if "again" in one else "")
            lines.append(f"  {one['kind']} in {one['states']} states: {one['what']} ({when}; {weight}; {place})")
        if not row["findings"] and row["states"]:
            lines.append("  nothing found")
    return "\n".join(lines)
