"""Commands that show what a study will run, and what it found."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, NoReturn

from reprofs import files
from reprofs.cli._base import (
    CATALOG,
    OVERRIDE,
    STUDY,
    Commands,
    name_of,
    number,
    option,
    override,
    say,
    seconds,
    share,
    together,
)
from reprofs.cli._base import catalog as catalog_of
from reprofs.errors import UserError

command = Commands()


@command("list", CATALOG)
def _list(arguments) -> None:
    """List the file systems, stacks, device models, workloads and studies of this checkout."""
    from reprofs.plan.schemas import NAMED

    catalog = catalog_of(arguments)
    for kind in NAMED:
        print(f"{kind.kind} ({kind.folder})")
        rows = []
        for name in catalog.paths(kind):
            found: Any = catalog.get(kind, name)
            rows.append((f"  {name}", found.title))
            rows += [(f"    +{variant}", own.title) for variant, own in getattr(found, "variants", {}).items()]
        width = max((len(name) for name, _ in rows), default=0) + 2
        for name, title in rows:
            print(f"{name:{width}}{title}")


@command(
    "plan",
    option("study"),
    OVERRIDE,
    together(
        option("--commands", action="store_true", help="print every command of the first repetition's trials"),
        option("--output", type=Path, metavar="FILE"),
        exclusive=True,
    ),
    CATALOG,
)
def _plan(arguments) -> None:
    """Check a study and print its trials in order; --output writes the plan instead."""
    from reprofs.plan.plan import write_plan
    from reprofs.trial import commands, planning

    catalog = catalog_of(arguments)
    made = planning.make_plan(arguments.study, catalog, override(arguments))
    if made.study.published:  # what is wrong with its numbers is said before hours of trials
        from reprofs.stats.published import numbers

        numbers.load(made.study.published)
    if said := planning.on_one_system(made.trials, catalog):
        say(f"reprofs: {said}")
    if arguments.output:
        write_plan(made, arguments.output)
    elif arguments.commands:
        print(commands.text(made, catalog))
    else:
        print(planning.table(made))


@command(
    "answer",
    option("study", nargs="*", metavar="STUDY | -- COMMAND", help="a study, a recording, or after -- a program"),
    option("--beside", default="", metavar="RUN", help="run that its report compares it with"),
    option("--filesystem", default="", metavar="A,B", help="file systems to replay a program on"),
    option("--device", default="", metavar="A,B", help="device models to replay a program on"),
    option(
        "--in", dest="folder", type=Path, default=Path(), metavar="FOLDER", help="start it in a copy of this folder"
    ),
    option("--name", default="", help="name of its recording (default: my- and the name of the program)"),
    option("--rounds", type=number, default=0, metavar="N", help="repetitions of each replay (2)"),
    option("--seconds", type=seconds, default=3600, metavar="N", help="end the program after N seconds (3600)"),
    OVERRIDE,
    CATALOG,
)
def _answer(arguments) -> None:
    """Print the answer of a study that has a report; or record a program, replay it, and print which file system is
    best for it."""
    from reprofs.plan import recording
    from reprofs.project import place

    words = arguments.study
    if not words:
        raise UserError("answer: name a study or a recording, or a program with its arguments after --.")
    if "--" in sys.argv or arguments.name:
        _program(arguments, words)
    elif len(words) > 1:
        raise UserError("answer: put -- before a program: `reprofs answer -- COMMAND`.")
    elif words[0] in recording.paths() and not place(f"report/{words[0]}/notebooks").is_dir():
        _program(arguments)
    else:
        arguments.study = words[0]
        _report(arguments)


def _program(arguments, command=()) -> None:
    from reprofs import answer
    from reprofs.report import program

    systems, devices = (list(filter(None, text.split(","))) for text in (arguments.filesystem, arguments.device))
    name = arguments.study[0]
    if command:
        answer.check(systems, devices)
        name = answer.recorded(command, arguments.folder, arguments.name, arguments.seconds, say)
    print(f"\n{program.text(answer.measured(name, systems, devices, arguments.rounds, say))}", end="")


def _report(arguments) -> None:
    from reprofs.plan.plan import read_plan
    from reprofs.project import place
    from reprofs.report import text
    from reprofs.stats import study

    name = name_of(arguments)
    report, plan = place(f"report/{name}"), place(f"data/plan/{name}.json")
    said = text.answer_of(study.open(name), read_plan(plan), report, bool(arguments.beside))
    print(f"\n{said}\n{os.path.relpath(report)}/index.html")


@command(
    "compare",
    option(
        "runs",
        metavar="RUN",
        nargs="+",
        help="results/NAME, a folder of tables, NAME of a study run here, or a record of `reprofs measure` (.json)",
    ),
    option(
        "--fail-above",
        metavar="SHARE",
        help="exit code 1 if something is slower by this much, such as 1%%, or now fails",
    ),
    option("--format", choices=("text", "markdown", "json", "html"), default="text"),
    option("--output", type=Path, metavar="FILE", help="default: stdout"),
)
def _compare(arguments) -> None:
    """Compare runs with the first one: what differs between them, and which times changed."""
    if any(name.endswith(".json") for name in arguments.runs):
        _compare_programs(arguments)
    from reprofs.publish.runs import open_run
    from reprofs.report import runs as words
    from reprofs.stats import runs
    from reprofs.workplace import scratch

    if len(arguments.runs) < 2 or len({name.rstrip("/") for name in arguments.runs}) < len(arguments.runs):
        raise UserError("compare: name two or more different runs: results/NAME, a folder data/tables/NAME, or NAME.")
    if arguments.output:
        files.check_writable(arguments.output)
    with scratch() as work:
        opened = {name: open_run(name, work / str(number)) for number, name in enumerate(arguments.runs)}
        limit = arguments.fail_above
        least = next(iter(opened.values())).margins["win"] if limit is None else share(limit)
        differences, found = runs.compare(opened, least)
    forms = {"text": words.text, "markdown": words.markdown, "json": words.as_json, "html": words.page}
    said = forms[arguments.format](arguments.runs, differences, found, least)
    if arguments.output:
        files.write_text(arguments.output, said)
    else:
        print(said, end="")
    if arguments.fail_above is not None:
        runs.decidable(found)
        sys.exit(int(any(one.worse for one in found)))


def _compare_programs(arguments) -> NoReturn:
    """Compares two records of measured programs, and exits."""
    from reprofs.measure import compare, words
    from reprofs.plan import measured

    if len(arguments.runs) != 2 or not all(name.endswith(".json") for name in arguments.runs):
        raise UserError("compare: of measured programs name two records, both files that end in .json.")
    if arguments.output:
        files.check_writable(arguments.output)
    base, now = (measured.read(Path(name)) for name in arguments.runs)
    pairs = compare.pairs(base, now, share(arguments.fail_above or words.LEAST))
    said = words.compared(base, now, pairs, words.form_of(arguments.format))
    if arguments.output:
        files.write_text(arguments.output, said)
    else:
        print(said, end="")
    sys.exit(int(arguments.fail_above is not None and any(pair.worse for pair in pairs)))


@command(
    "claims",
    STUDY,
    option("--strict", action="store_true", help="fail if a verdict differs from the study's key expected"),
)
def _claims(arguments) -> None:
    """Print the verdicts of a study on published claims."""
    from reprofs.stats import study
    from reprofs.stats.published import claims, comparison

    found = comparison.Comparison(study.open(arguments.study))
    if not found.claims:
        print(f"{arguments.study} has no published claims")
    for ground, own in found.claims.items():
        print(ground)
        for verdict in claims.VERDICTS:
            names = [one.claim.id for one in own.judged if one.verdict.word == verdict]
            if names:
                print(f"  {verdict}: [{', '.join(names)}]")
    if far := comparison.ratios(found):
        print("ratios:")
    for name, held in far.items():
        print(f"  {name}: {[comparison.written(one.ratio) for _, one in held]}")
    changed = comparison.changes(found) if arguments.strict else []
    if changed:
        raise UserError(f"{len(changed)} verdicts differ from the study's key expected. {' '.join(changed)}")


@command("retry", STUDY, OVERRIDE, CATALOG)
def _retry(arguments) -> None:
    """Quarantine the records of trials that failed, timed out or were skipped; the next run repeats these trials."""
    from reprofs.labs import get_lab
    from reprofs.plan.cell import lab_parts
    from reprofs.project import place
    from reprofs.records import raw as record

    change = override(arguments)
    if change.lab:
        get_lab(lab_parts(change.lab).lab)
    name = name_of(arguments)
    lines = record.set_aside(place(f"data/raw/{name}"))
    print("\n".join(lines) or "every record is ok: nothing was moved")
    if lines:
        folder = f"data/raw/{name}/{record.SET_ASIDE}"
        again = f"make report STUDY={arguments.study} {change}".rstrip()
        print(f"{len(lines)} moved to {folder}; `{again}` runs them again")
