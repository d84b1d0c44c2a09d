"""Commands for rules of the workflow and for make; `reprofs --help` only names them."""

from __future__ import annotations

import sys
from pathlib import Path

from reprofs import files
from reprofs.cli._base import STUDY, Commands, integer, option, say

command = Commands()
PLAN = option("plan", type=Path)
RAW = option("--raw", type=Path, required=True, metavar="FOLDER")
FILE = option("--output", type=Path, required=True, metavar="FILE")
FOLDER = option("--output", type=Path, required=True, metavar="FOLDER")


@command(
    "guest",
    option(
        "--output",
        type=Path,
        required=True,
        metavar="FILE",
        help="manifest, named after the guest: data/guest/base.json",
    ),
)
def _guest(arguments) -> None:
    """Build the engine and a guest image, unless they are cached; write the manifest."""
    from concurrent.futures import ThreadPoolExecutor

    from reprofs.guest import engine, image
    from reprofs.plan.guest import read_guest

    name, cache = arguments.output.stem, files.cache_folder()
    read_guest(name)  # an unknown name is reported before the engine is compiled
    with ThreadPoolExecutor(1) as beside:  # a new compiler builds its C library first: most of a minute
        compiled = beside.submit(engine.build_for_guests, cache)
        image.prepare(cache, name, say)
        image.build(cache, arguments.output, compiled.result(), say, name=name)
    arguments.output.touch()  # also when nothing changed: the workflow asks for it newer than what it is made from


@command("schemas")
def _schemas(arguments) -> None:
    """Write workflow/schemas from the models of the descriptors (scripts/reprofs/plan)."""
    from reprofs.plan.schemas import write_schemas
    from reprofs.project import place

    write_schemas(place("workflow/schemas"))


@command(
    "look",
    option("plan", type=Path, help="plan with all repetitions that the study may have"),
    option("--rounds", type=integer, required=True, help="number of repetitions that were run"),
    RAW,
    FILE,
)
def _look(arguments) -> None:
    """Interim analysis of a study that adds repetitions: write its plan so far, and whether it may stop."""
    from reprofs.stats import rounds

    rounds.look(arguments.plan, arguments.raw, arguments.rounds, arguments.output)


@command("dataset", PLAN, RAW, FOLDER)
def _dataset(arguments) -> None:
    """Convert the records of a plan into tables."""
    from reprofs.data import tables

    tables.build(arguments.plan, arguments.raw, arguments.output)


@command(
    "beside",
    option("other", metavar="RUN", help="a run, as for compare"),
    option("--plan", type=Path, required=True, metavar="FILE", help="plan of the study"),
    FOLDER,
)
def _beside(arguments) -> None:
    """Save the tables of a run that a report compares its study with."""
    from reprofs.plan.plan import read_plan
    from reprofs.publish.runs import set_beside

    set_beside(arguments.other, read_plan(arguments.plan), arguments.output)


@command(
    "notebook",
    option("notebook", type=Path),
    option("--study", required=True),
    option("--log", type=Path, required=True, metavar="FILE", help="the copy while it runs and if it fails"),
    FILE,
)
def _notebook(arguments) -> None:
    """Run a notebook on a study's tables; keep the copy if all cells succeed."""
    from reprofs.report import execute

    execute.execute(arguments.notebook, arguments.study, arguments.log, arguments.output)


@command(
    "report",
    option("notebooks", metavar="NOTEBOOK", nargs="+", type=Path, help="in the order of the report"),
    option("--tables", type=Path, required=True, metavar="FOLDER", help="folder of the tables that they read"),
    FOLDER,
    option("--first", metavar="TOPIC", nargs="*", default=[], help="parts whose answers come first"),
)
def _report(arguments) -> None:
    """Render executed notebooks as one HTML file and one PDF."""
    from reprofs.report import render

    render.render(arguments.notebooks, arguments.output, arguments.tables, arguments.first)


@command("accept")
def _accept(arguments) -> None:
    """Run published trials by our own QEMU; envs/lab.lock says how many are identical. Exit code 1 unless all are."""
    from reprofs.publish.accept import accept

    sys.exit(0 if accept(say) else 1)


@command("stale", STUDY)
def _stale(arguments) -> None:
    """Say why this checkout would measure results/NAME differently. Exit code 1 if it would not."""
    from reprofs.publish.stale import why

    found = why(arguments.study)
    print(found or f"results/{arguments.study} is what this checkout would measure")
    sys.exit(0 if found else 1)
