"""The whole of `reprofs measure`: from a command to a record."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from reprofs import version
from reprofs.errors import UserError, middle
from reprofs.guest import image
from reprofs.guest.image import Progress
from reprofs.measure import program, trials
from reprofs.plan.catalog import Catalog
from reprofs.plan.cell import Trial
from reprofs.plan.measured import Measured
from reprofs.plan.processor import Processor
from reprofs.plan.workload import Workload
from reprofs.records.protocol import PROTOCOL

FILESYSTEMS = ("ext4", "xfs", "btrfs")
DEVICES = ("ssd-nvme",)


@dataclass
class Wanted:
    """What is to be measured, and where. filesystems, devices: empty for the usual ones, or a study's; given: the
    folder of --input; root: of --root; environment: of --env; limit_s: of the host, for each trial; split: whether user
    and kernel are told apart, which takes a second run."""

    words: Sequence[str]
    filesystems: Sequence[str] = ()
    devices: Sequence[str] = ()
    study: str = ""
    cores: int = 1
    cache: str = "cold"
    given: Path | None = None
    root: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    limit_s: float = 1800.0
    split: bool = True


def measure(wanted: Wanted, catalog: Catalog, say: Progress) -> Measured:
    """Brings the program in and measures it; sentences and progress go to `say`.

    Raises UserError for what cannot be brought in or measured. What goes wrong in the lab is in the record.
    """
    if wanted.given and not wanted.given.is_dir():
        raise UserError(f"--input {middle(str(wanted.given))} is not a folder: name one.")
    model = trials.processor(wanted.cores, catalog)
    _cells(wanted, model, trials.workload("", 0, wanted.cache, 0), catalog)  # a mistake is said before anything runs
    if wanted.root:
        made = program.from_root(wanted.words, wanted.root, wanted.given, wanted.environment, say)
    else:
        made = program.from_here(wanted.words, wanted.given, wanted.environment, Path.cwd(), say)
    for sentence in made.notes:
        say(f"reprofs: {sentence}")
    load = trials.workload(made.image.stem, made.image.stat().st_size, wanted.cache, made.content)
    cells = _cells(wanted, model, load, catalog)
    for guest in trials.guests(cells, catalog):
        image.ensure(guest, say)
    rows, labs = [], []
    for row, environment in trials.rows(cells, model, catalog, wanted.limit_s, wanted.split):
        rows.append(row)
        labs.append(environment["lab"])
        say(f"{row.filesystem} on {row.device}: {row.status} ({len(rows)} of {len(cells)})")
    lab = labs[0]
    return Measured(
        command=list(made.words),
        environment=made.environment,
        image=made.image.stem,
        files=made.files,
        bytes=made.bytes,
        cache=wanted.cache,  # type: ignore[arg-type]
        lab=lab["name"],
        cores=wanted.cores,
        protocol=PROTOCOL,
        reprofs=version.VERSION,
        commit=version.commit(),
        lock_sha256=lab["lock_sha256"],
        rows=rows,
    )


def _cells(wanted: Wanted, model: Processor, load: dict, catalog: Catalog) -> list[Trial]:
    catalog.add(Workload, trials.WORKLOAD, load)
    if wanted.study:
        pairs = trials.of_study(wanted.study, wanted.devices, catalog)
    else:
        pairs = list(itertools.product(wanted.devices or DEVICES, wanted.filesystems or FILESYSTEMS))
    return trials.cells(pairs, model, catalog)
