"""Derives everything that a result shows from its records: tables, notebooks, report, answer."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

from reprofs.data.tables import build
from reprofs.files import SUMS, read_sums
from reprofs.plan.plan import Plan, read_plan
from reprofs.project import place
from reprofs.report import contents, execute, render, text
from reprofs.stats import study as studies
from reprofs.stats.published import claims, comparison
from reprofs.workplace import die_with_parent

FIRST = "statistics.ipynb"  # saves the statistics that all others read


class Derived(NamedTuple):
    """What was made. tables: digests; report: the folder with index.html, figures/, notebooks/ and, if asked, PDF."""

    plan: Plan
    study: studies.Study
    tables: dict[str, str]
    answer: str
    report: Path


def tables(work: Path) -> tuple[studies.Study, dict[str, str]]:
    """The study of the records in `work` (plan.json, raw/, profiles/), and the digests of its tables, made there.

    Raises UserError for a damaged record.
    """
    build(work / "plan.json", work / "raw", work / "tables")
    if (work / "profiles").is_dir():  # where `studies.open` looks for those of a folder
        (work / "profiles").rename(work / "tables-profiles")
    return studies.open(f"{work}/tables"), read_sums(work / "tables" / SUMS)


@contextlib.contextmanager
def pool() -> Iterator[Executor]:
    """Processes that execute notebooks, each many of them: their imports take seconds."""
    # A copy of this process (fork) could wait for ever for a lock of one of its threads.
    with ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("spawn"), die_with_parent) as processes:
        yield processes


def derive(work: Path, processes: Executor, pdf: bool = False) -> Derived:
    """The same with all notebooks run and the report rendered into work/report. Raises UserError where one fails."""
    study, sums = tables(work)
    plan, report = read_plan(work / "plan.json"), work / "report"
    notebooks = contents.notebooks(plan, place("notebooks"))
    for some in ([path for path in notebooks if (path.name == FIRST) is first] for first in (True, False)):
        list(processes.map(_execute, some, [work] * len(some)))
    executed = [report / "notebooks" / path.name for path in notebooks]
    render.render(executed, report, work / "tables", contents.first(plan), pdf)
    return Derived(plan, study, sums, text.text(study, executed, contents.first(plan)), report)


def _execute(notebook: Path, work: Path) -> None:
    execute.execute_here(notebook, f"{work}/tables", work / "report/notebooks" / notebook.name)


def verdicts(study: studies.Study) -> dict[str, list[str]]:
    """Verdict -> names of claims, over all sources of a study."""
    found: dict[str, list[str]] = {word: [] for word in claims.VERDICTS}
    for own in comparison.Comparison(study).claims.values():
        for one in own.judged:
            found[one.verdict.word].append(one.claim.id)
    return {word: sorted(names) for word, names in found.items() if names}
