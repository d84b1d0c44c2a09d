"""Opens runs to compare: published results, and tables of this or another checkout."""

from __future__ import annotations

import shutil
from pathlib import Path

from reprofs.data import tables
from reprofs.data.rows import label as label_of
from reprofs.errors import UserError
from reprofs.files import SUMS, made, read_sums, unwritable, write_text
from reprofs.plan.plan import Plan
from reprofs.plan.result import DIGESTS, file_of_run
from reprofs.records.publication import read, unpack
from reprofs.stats import study
from reprofs.stats.runs import NAME, refuse


def open_run(run: str, work: Path) -> study.Study:
    """The run that `file_of_run` finds. work: where the tables of a published one are made, of its records.

    Raises UserError for one that is missing, altered or damaged.
    """
    file = file_of_run(run)
    if file.name != DIGESTS:
        return study.open(run)
    work.mkdir(parents=True)
    unpack(file.parent, read(file.parent), work)
    tables.build(work / "plan.json", work / "raw", work / "tables")
    return study.open(f"{work}/tables")


def set_beside(run: str, plan: Plan, folder: Path) -> None:
    """Writes the tables and the name of a run into a folder, from which a report reads them for comparison.

    plan: the study's, with its trials unless it was run already. Raises UserError like `open_run`, and for a run that
    it cannot be compared with.
    """
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        with made(folder.parent):
            try:
                _put(_beside(run, plan, partial), partial / "whole", run)
                shutil.rmtree(folder, ignore_errors=True)
                (partial / "whole").rename(folder)
            finally:
                shutil.rmtree(partial, ignore_errors=True)
    except OSError as error:
        raise unwritable(folder, error) from None


def _beside(run: str, plan: Plan, work: Path) -> Path:
    """The folder with the tables of a run that a study can be compared with."""
    opened, name = open_run(run, work), plan.study.name
    refuse(run, opened.plan, name, plan)
    rows = opened.trials[["label", "workload", "scale", "seed"]].itertuples(index=False, name=None)
    planned = {(label_of(one, plan), one.workload, one.scale, one.seed) for one in plan.trials}
    if planned and planned.isdisjoint(rows):
        raise UserError(
            f"{run} and {name} have no trial in common (file system, workload, seed): choose runs of the same study."
        )
    file = file_of_run(run)
    return work / "tables" if file.name == DIGESTS else file.parent


def _put(source: Path, folder: Path, run: str) -> None:
    folder.mkdir(parents=True)
    for name in (*read_sums(source / SUMS), SUMS):
        shutil.copyfile(source / name, folder / name)
    write_text(folder / NAME, run)
