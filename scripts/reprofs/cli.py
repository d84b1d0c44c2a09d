"""The command line: reprofs COMMAND. Every rule of the workflow calls one of these."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any, NoReturn

from reprofs import files, workplace
from reprofs.errors import UserError, cut, legible, middle
from reprofs.plan import NETWORK, PROCESSOR
from reprofs.trial import progress

SEED_MAX = 10**13  # above that of any study and its rounds

# Other modules are imported where they are used: a trial must not wait for pandas.


def main() -> None:
    """Entry point; a UserError is printed as one sentence, with exit code 2."""
    arguments = parser().parse_args()
    try:
        if odd := next((word for word in sys.argv if not _is_text(word)), None):
            raise UserError(f"{odd!a} is not text in UTF-8: rename the file, which tables and reports could not name.")
        if progress.in_workflow():  # so that a killed workflow leaves nothing running
            workplace.die_with_parent()
        arguments.run(arguments)
    except UserError as error:
        sys.exit(fail(error))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)  # as a shell says of a program that SIGPIPE ended
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        if isinstance(error, OSError) and error.errno in files.HINTS:  # of the machine, wherever it comes up
            sys.exit(fail(files.unwritable(error.filename or "a file of this run", error)))
        traceback.print_exc()  # a mistake of this program; 1 would say that something differs
        sys.exit(2)


def _is_text(word: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in word)


def fail(error: UserError) -> int:
    """Prints the sentence; returns the exit code. Names need not be UTF-8, nor short."""
    print("reprofs:", _printable(" ".join(map(middle, str(error).split()))), file=sys.stderr)
    return 2


def _printable(text: str) -> str:
    return legible(text).encode("utf-8", "backslashreplace").decode()


class Version(argparse.Action):
    """Prints the version; git is asked only then."""

    def __init__(self, option_strings: list[str], dest: str, help: str) -> None:
        super().__init__(option_strings, dest, nargs=0, help=help)

    def __call__(self, *_: object) -> None:
        from reprofs import version

        print(version.text())
        sys.exit(0)


class _Parser(argparse.ArgumentParser):
    """Says in short what is wrong, however long the argument."""

    def error(self, message: str) -> NoReturn:
        super().error(_printable(cut(" ".join(middle(word, 60) for word in message.split()))))


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    top = _Parser(prog="reprofs", description="The file-system benchmark whose results anyone can reproduce.")
    top.add_argument("--version", action=Version, help="show the version and, in a checkout of git, the commit")
    commands = top.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run, text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(run=run)
        return sub

    def catalog_options(sub: argparse.ArgumentParser) -> None:
        sub.add_argument(
            "--extra-filesystem-dir", action="append", metavar="FOLDER", help="further folder of file-system files"
        )

    sub = command(
        "list", _list, "List the file systems, stacks, device profiles, workloads and studies of this checkout."
    )
    catalog_options(sub)

    def override_options(sub: argparse.ArgumentParser) -> None:
        sub.add_argument("--lab", default="", help="in the place of the study's labs")
        sub.add_argument("--profile", default="", help="in the place of its device profiles")
        sub.add_argument("--where", default="", metavar="A,B", help="directories to compare, with --lab mount")
        sub.add_argument("--clients", default="", metavar="A,B", help="machines that run the clients, with --where")

    sub = command("plan", _plan, "Check a study and print its trials in order, or write its plan with --output.")
    sub.add_argument("study")
    form = sub.add_mutually_exclusive_group()
    form.add_argument(
        "--commands", action="store_true", help="print every command that the trials of the first round will execute"
    )
    override_options(sub)
    form.add_argument("--output", type=Path, metavar="FILE")
    catalog_options(sub)

    sub = command("guest", _guest, "Build the engine and a guest image, or find them in the cache; write the manifest.")
    sub.add_argument(
        "--output", type=Path, required=True, metavar="FILE", help="named after the guest: data/guest/base.json"
    )

    sub = command(
        "lock",
        _lock,
        "Take today's packages for the labs, build all that consists of them, and write both into envs/lab.lock: "
        "a change of every number.",
    )
    sub.add_argument("sets", metavar="SET", nargs="*", help="of envs/lab.lock, such as a guest (default: all)")
    sub.add_argument(
        "--built", action="store_true", help="keep the packages; only build, after a change of what builds"
    )

    sub = command(
        "kernel",
        _kernel,
        "Write workflow/kernels/NAME.yaml for a kernel that you built, after a look at its configuration.",
    )
    sub.add_argument("name", metavar="NAME")
    sub.add_argument("debs", metavar="DEB", nargs="*", type=Path, help="packages with the kernel and its modules")
    sub.add_argument("--build", type=Path, metavar="FOLDER", help="in which it was built (make bzImage modules)")

    sub = command(
        "trial", _trial, "Run one trial and write its raw record. Exit code 0 means recorded, even if the trial failed."
    )
    for name in ("lab", "stack", "profile", "workload", "scale"):
        sub.add_argument(f"--{name}", required=True)
    sub.add_argument("--filesystem", help="a name of workflow/filesystems; or --where")
    sub.add_argument("--processor", help=f"processor of a lab that models one (default: {PROCESSOR})")
    sub.add_argument("--kernel", help="of workflow/kernels, in the place of the guest's own (lab exact)")
    sub.add_argument("--memory-mib", type=int, metavar="N", help="limit of what the phases may fill (default: none)")
    sub.add_argument("--variant", help="variant of the file system (default: the first in its file)")
    sub.add_argument("--network", help=f"network of a file system with hosts (default: {NETWORK})")
    sub.add_argument("--round", type=int, required=True, help="number of the round, from 1")
    sub.add_argument("--seed", type=int, required=True, help="of names, sizes, contents and order")
    sub.add_argument("--output", type=Path, required=True, metavar="FILE")
    sub.add_argument("--where", metavar="FOLDER", help="existing directory in the place of a file system, lab mount")
    sub.add_argument("--clients", default="", metavar="A,B", help="machines that run the clients, with --where")
    sub.add_argument("--order", type=_number, help="position in the randomised order of a study")
    sub.add_argument("--job", default="", metavar="SHA256", help="digest of the job that was planned; no other is run")
    sub.add_argument(
        "--time-limit",
        type=_limit,
        default=1800.0,
        metavar="SECONDS",
        help="host time after which the trial is recorded as timeout (default 1800; longer if on a real clock its work "
        "would take longer at the slowest plausible rates)",
    )
    catalog_options(sub)

    sub = command(
        "profile",
        _profile,
        "Run the trial of a raw record again and count its instructions by function and by call, phase by phase.",
    )
    sub.add_argument("record", type=Path, help="of the exact lab: a file of data/raw")
    sub.add_argument("--misses", action="store_true", help="count misses of modelled caches, too: takes longer")
    sub.add_argument(
        "--beside", type=Path, metavar="FOLDER", help="a profile of the same trial, as on another kernel: what differs"
    )
    sub.add_argument("--failed-too", action="store_true", help="write why a trial that did not end well has none")
    sub.add_argument("--output", type=Path, required=True, metavar="FOLDER")
    catalog_options(sub)

    sub = command(
        "retry",
        _retry,
        "Set aside the records of trials that failed, timed out or were skipped: the next run repeats these trials.",
    )
    sub.add_argument("study", help="NAME, or NAME@SCALE")
    override_options(sub)
    catalog_options(sub)

    sub = command(
        "doctor", _doctor, "Show which labs, file systems and stacks work on this machine, and what the others need."
    )
    catalog_options(sub)

    command(
        "cleanup", _cleanup, "Remove what killed trials left behind (devices, processes, folders), and nothing else."
    )

    sub = command(
        "record",
        _record,
        "Record the file-system calls of a command, without names and contents, as a workload that replays them.",
    )
    sub.add_argument(
        "--below", type=Path, action="append", default=[], metavar="FOLDER", help="whose calls (default: this folder)"
    )
    sub.add_argument("--output", required=True, metavar="NAME", help="of the recording and of its workload")
    sub.add_argument("--seconds", type=_seconds, default=3600, metavar="N", help="after which it is ended (3600)")
    sub.add_argument("--accept", action="store_true", help="write it also where it is less than the program")
    sub.add_argument(
        "--from-strace",
        type=Path,
        nargs="+",
        default=[],
        metavar="FILE",
        help="run nothing: take the text of `strace -f -X raw -v -y -s 0 -o FILE COMMAND`, made on any x86-64 machine; "
        "--below then names folders of that machine",
    )
    sub.add_argument("words", nargs="*", metavar="-- COMMAND", help="the command and its arguments, after --")

    sub = command(
        "scan", _scan, "Make a small profile of a tree (sizes, depth, fan-out, links), to generate look-alikes."
    )
    sub.add_argument("folder", type=Path)
    sub.add_argument("--output", type=Path, required=True, metavar="PROFILE.yaml")
    sub.add_argument("--names", action="store_true", help="put the names of files and folders into the profile too")

    command(
        "schemas",
        _schemas,
        "Write workflow/schemas from the models of the descriptors (scripts/reprofs/plan).",
    )

    sub = command(
        "look",
        _look,
        "Look at a study that adds rounds until ratios are known: write its plan so far, and whether that is enough.",
    )
    sub.add_argument("plan", type=Path, help="of all the rounds that it may have")
    sub.add_argument("--rounds", type=int, required=True, help="how many have been run")
    sub.add_argument("--raw", type=Path, required=True, metavar="FOLDER")
    sub.add_argument("--output", type=Path, required=True, metavar="FILE")

    sub = command("dataset", _dataset, "Turn the raw records of a plan into tables.")
    sub.add_argument("plan", type=Path)
    sub.add_argument("--raw", type=Path, required=True, metavar="FOLDER")
    sub.add_argument("--output", type=Path, required=True, metavar="FOLDER")

    sub = command(
        "import",
        _import,
        "Turn the output of other benchmarks into one table with units; print what is wrong or uncertain in it.",
    )
    sub.add_argument("format", metavar="FORMAT", help="mdtest, ior, fio, ... (an unknown one lists them)")
    sub.add_argument("files", metavar="FILE", nargs="+", type=Path)
    sub.add_argument("--output", type=Path, required=True, metavar="FOLDER")

    sub = command("answer", _answer, "Print the answer of a study that has a report: what its page one says.")
    sub.add_argument("study", help="NAME, or NAME@SCALE")
    sub.add_argument("--beside", default="", metavar="RUN", help="that its report sets it beside")
    override_options(sub)
    catalog_options(sub)

    sub = command(
        "compare",
        _compare,
        "Compare runs of a study with the first of them: what differs between them, and what that changed.",
    )
    sub.add_argument(
        "runs", metavar="RUN", nargs="+", help="results/NAME, folder of its tables, or NAME of a study run here"
    )
    sub.add_argument(
        "--fail-above",
        metavar="SHARE",
        help="end with exit code 1 if something is slower by so much, such as 1%%, or does not end well any more",
    )
    sub.add_argument("--format", choices=("text", "markdown", "json", "html"), default="text")
    sub.add_argument("--output", type=Path, metavar="FILE", help="(default: the terminal)")

    sub = command("beside", _beside, "Keep the tables of a run, beside which the report of a study sets it.")
    sub.add_argument("other", metavar="RUN", help="as of compare")
    sub.add_argument("--plan", type=Path, required=True, metavar="FILE", help="of the study")
    sub.add_argument("--output", type=Path, required=True, metavar="FOLDER")

    sub = command("claims", _claims, "Print the verdicts of a study on the published claims that it is set beside.")
    sub.add_argument("study", help="NAME, or NAME@SCALE")
    sub.add_argument(
        "--strict", action="store_true", help="fail where a verdict is another than the study's key expected says"
    )

    sub = command(
        "publish",
        _publish,
        "Write results/NAME of a study that was run to its report: records, report, lock and digests.",
    )
    sub.add_argument("study", help="NAME, or NAME@SCALE")

    sub = command(
        "archive",
        _archive,
        "Write archive/NAME.tar.xz of results/NAME: one file that can be verified without network, root and Python.",
    )
    sub.add_argument("study", help="NAME")

    sub = command(
        "verify",
        _verify,
        "Run trials of a published result again, each of which must be identical; exit code 1 when one is not.",
    )
    sub.add_argument("result", type=Path, metavar="RESULT", help="folder results/NAME, or an archive of one")
    which = sub.add_mutually_exclusive_group()
    which.add_argument("--trials", type=_number, metavar="N", help="so many, drawn at random (default: 3)")
    which.add_argument("--all", action="store_true", help="all of them")
    which.add_argument("--trial", action="append", default=[], metavar="NAME", help="this one; may be repeated")
    which.add_argument(
        "--claims", action="store_true", help="run nothing: make tables and verdicts again from the records"
    )
    sub.add_argument("--seed", type=int, help="of the draw (default: another one each time; it is said)")
    sub.add_argument(
        "--own-code", action="store_true", help="with this checkout's code, even if the result has another"
    )

    sub = command(
        "reuse",
        _reuse,
        "Put the records of results/NAME into data/raw, in the place of trials that would be the same bytes.",
    )
    sub.add_argument("study", help="NAME, or NAME@SCALE")

    sub = command("notebook", _notebook, "Run a notebook on a study's tables, and keep the copy when it ran whole.")
    sub.add_argument("notebook", type=Path)
    sub.add_argument("--study", required=True)
    sub.add_argument("--log", type=Path, required=True, metavar="FILE", help="the copy while it runs, and if it fails")
    sub.add_argument("--output", type=Path, required=True, metavar="FILE")

    sub = command("report", _report, "Render executed notebooks as one HTML file and one PDF.")
    sub.add_argument("notebooks", metavar="NOTEBOOK", nargs="+", type=Path, help="in the order of the report")
    sub.add_argument("--tables", type=Path, required=True, metavar="FOLDER", help="the tables that they read")
    sub.add_argument("--output", type=Path, required=True, metavar="FOLDER")
    sub.add_argument(
        "--first", metavar="TOPIC", nargs="*", default=[], help="whose answers stand before those of the others"
    )
    return top


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _catalog(arguments):
    from reprofs.plan.catalog import Catalog
    from reprofs.plan.config import read_config

    extra = arguments.extra_filesystem_dir
    return Catalog(read_config({"extra_filesystem_dirs": extra} if extra else None).extra_filesystem_dirs)


def _override(arguments):
    from reprofs.plan.override import override

    return override(arguments.lab, arguments.profile, arguments.where, arguments.clients)


def _list(arguments) -> None:
    from reprofs.plan.schemas import NAMED

    catalog = _catalog(arguments)
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


def _plan(arguments) -> None:
    from reprofs.plan.plan import write_plan
    from reprofs.trial import commands, plan

    catalog = _catalog(arguments)
    made = plan.make_plan(arguments.study, catalog, _override(arguments))
    if made.study.published:  # what is wrong with its numbers is said before hours of trials
        from reprofs.stats.published import numbers

        numbers.load(made.study.published)
    if arguments.output:
        write_plan(made, arguments.output)
    elif arguments.commands:
        print(commands.text(made, catalog))
    else:
        print(plan.table(made))


def _guest(arguments) -> None:
    from reprofs.guest import engine, image
    from reprofs.plan.guest import read_guest

    name, cache = arguments.output.stem, files.cache_folder()
    read_guest(name)  # an unknown name is reported before the engine is compiled
    image.build(cache, arguments.output, engine.build(cache), _say, name=name)
    arguments.output.touch()  # also when nothing changed: the workflow asks for it newer than what it is made from


def _lock(arguments) -> None:
    from reprofs.guest.freeze import freeze

    freeze(files.cache_folder(), arguments.sets, arguments.built, _say)


def _kernel(arguments) -> None:
    from reprofs.guest import own

    print(own.write(arguments.name, arguments.debs, arguments.build, files.cache_folder()))


def _trial(arguments) -> None:
    from reprofs.guest import image
    from reprofs.plan.cell import Trial, apart, lab_parts
    from reprofs.plan.filesystem import variant_of
    from reprofs.plan.override import add_places, override, place_name
    from reprofs.trial import plan, run
    from reprofs.trial.resolve import resolve

    if arguments.round < 1:
        raise UserError(f"--round is {arguments.round}, but rounds are counted from 1.")
    if not 0 <= arguments.seed <= SEED_MAX:
        raise UserError(f"--seed is {str(arguments.seed)[:40]}, but must be from 0 to {SEED_MAX}.")
    catalog = _catalog(arguments)
    filesystem = arguments.filesystem
    if arguments.where or arguments.clients:
        if filesystem:
            raise UserError("--where stands in the place of --filesystem: leave one of them out.")
        change = override(arguments.lab, where=arguments.where or "", clients=arguments.clients)
        if len(change.where) > 1:
            raise UserError("--where names several directories, and a trial has one: name one.")
        add_places(catalog, change.where[:1], change.clients)
        filesystem = place_name(change.where[0])
    elif not filesystem:
        raise UserError("--filesystem is missing: name one of `reprofs list`, or a directory with --where.")
    variant = arguments.variant
    if variant is None:
        filesystem, variant = variant_of(filesystem, catalog)
    place = lab_parts(arguments.lab)
    for option, given, named in (
        ("processor", arguments.processor, place.processor),
        ("kernel", arguments.kernel, place.kernel),
        ("memory-mib", arguments.memory_mib, place.memory_mib),
    ):
        if given is not None and named is not None and given != named:
            raise UserError(f"--lab {arguments.lab} names {named}, --{option} {given}: leave one of them out.")
    variant, network = apart(variant)
    trial = Trial(
        lab=place.lab,
        processor=arguments.processor or place.processor,
        kernel=arguments.kernel or place.kernel,
        memory_mib=place.memory_mib if arguments.memory_mib is None else arguments.memory_mib,
        stack=arguments.stack,
        profile=arguments.profile,
        filesystem=filesystem,
        variant=variant,
        network=arguments.network or network,
        workload=arguments.workload,
        scale=arguments.scale,
        round=arguments.round,
        seed=arguments.seed,
        order=arguments.order,
    )
    setup = resolve(trial, catalog)  # a mistake is said before a guest is built
    if setup.lab.in_guest:
        image.ensure(setup.guest, _say)
    files.check_writable(arguments.output)
    if not progress.in_workflow() and (said := plan.as_root([setup.cell], catalog)):
        _say(f"reprofs: {said}")
    started = time.monotonic()
    record = run.run_trial(trial, catalog, arguments.output, arguments.time_limit, arguments.job)
    print(progress.line(record, arguments.output, time.monotonic() - started), file=sys.stderr, flush=True)


def _profile(arguments) -> None:
    from reprofs.data.profiles import FILE, load, stacks
    from reprofs.report import flame
    from reprofs.trial.profile import profile, summary

    files.check_writable(arguments.output / FILE)
    base = load(arguments.beside) if arguments.beside else None
    found = profile(
        arguments.record, _catalog(arguments), arguments.output, arguments.misses, failed_too=arguments.failed_too
    )
    name, named = arguments.record.stem, {}
    for phase in found["phases"]:
        own = named[phase["stacks"].removesuffix(".folded")] = stacks(arguments.output, phase)
        picture = arguments.output / phase["stacks"].replace(".folded", ".svg")
        files.write_text(picture, flame.flame(own, f"{phase['name']} ({phase['cache']}) of {name}"))
    if named:
        speedscope = json.dumps(flame.speedscope(named, name), separators=(",", ":"))
        files.write_text(arguments.output / "speedscope.json", speedscope + "\n")
    made = [FILE, *(phase["stacks"] for phase in found["phases"])]
    files.write_sums(arguments.output / files.SUMS, [arguments.output / each for each in made])
    print(summary(found) or f"no profile: {found['reason']}")
    if base:
        from reprofs.report.beside import beside

        print(_printable(f"\nbeside {arguments.beside}, an item:\n{beside(base, found)}"))


def _retry(arguments) -> None:
    from reprofs.labs import get_lab
    from reprofs.plan import study
    from reprofs.plan.cell import lab_parts
    from reprofs.project import place
    from reprofs.trial import record

    change = _override(arguments)
    if change.lab:
        get_lab(lab_parts(change.lab).lab)
    name = change.named(study.study_of(arguments.study, _catalog(arguments)).name)
    lines = record.set_aside(place(f"data/raw/{name}"))
    print("\n".join(lines) or "every record is ok: nothing was set aside")
    if lines:
        folder = f"data/raw/{name}/{record.SET_ASIDE}"
        again = f"make report STUDY={arguments.study} {change}".rstrip()
        print(f"{len(lines)} set aside in {folder}; {again} makes them again")


def _doctor(arguments) -> None:
    from reprofs import doctor

    text, works = doctor.examine(_catalog(arguments))
    print(text)
    sys.exit(0 if works else 1)


def _cleanup(arguments) -> None:
    from reprofs import cleanup

    lines = cleanup.sweep() + cleanup.sweep_workflows()
    for line in lines:
        print(f"removed {line}")
    if not lines:
        print(f"nothing was left behind{' by this user' if os.geteuid() else ''}")


def _seconds(text: str) -> int:
    return _number(text, "number of seconds")


def _limit(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 1 <= seconds <= 10**8:  # nan is not, either
        raise argparse.ArgumentTypeError(f"{text!a} is no number of seconds from 1 on")
    return seconds


def _number(text: str, what: str = "number") -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:9]) <= 10**8:
        raise argparse.ArgumentTypeError(f"{text!a} is no whole {what} from 1 on")
    return int(text[:9])


def _record(arguments) -> None:
    from reprofs.recorder import record

    if bool(arguments.words) == bool(arguments.from_strace):
        raise UserError("record takes either a command, after --, or --from-strace FILE.")
    if arguments.from_strace:
        print(record.from_strace(arguments.from_strace, arguments.below, arguments.output, arguments.accept), end="")
        return
    print(
        record.record(arguments.words, arguments.below, arguments.output, arguments.seconds, arguments.accept), end=""
    )


def _scan(arguments) -> None:
    from reprofs.plan import tree

    print(tree.write(arguments.folder, arguments.output, arguments.names))


def _schemas(arguments) -> None:
    from reprofs.plan.schemas import write_schemas
    from reprofs.project import place

    write_schemas(place("workflow/schemas"))


def _look(arguments) -> None:
    from reprofs.stats import rounds

    rounds.look(arguments.plan, arguments.raw, arguments.rounds, arguments.output)


def _dataset(arguments) -> None:
    from reprofs.data import tables

    tables.build(arguments.plan, arguments.raw, arguments.output)


def _import(arguments) -> None:
    from reprofs import importers

    def tables() -> list[dict]:  # slow to load, and few formats need it
        from reprofs.data.columns import dictionary

        return dictionary()

    for sentence in importers.import_files(arguments.format, arguments.files, arguments.output, tables):
        print(_printable(sentence))


def _compare(arguments) -> None:
    import tempfile

    from reprofs.publish.runs import open_run
    from reprofs.report import runs as words
    from reprofs.stats import runs

    if len(arguments.runs) < 2 or len({name.rstrip("/") for name in arguments.runs}) < len(arguments.runs):
        raise UserError("name two runs or more, each once: results/NAME, the folder data/tables/NAME of each, or NAME.")
    if arguments.output:
        files.check_writable(arguments.output)
    with tempfile.TemporaryDirectory() as work:
        opened = {name: open_run(name, Path(work) / str(number)) for number, name in enumerate(arguments.runs)}
        limit = arguments.fail_above
        least = next(iter(opened.values())).margins["win"] if limit is None else runs.share(limit)
        differences, found = runs.compare(opened, least)
    forms = {"text": words.text, "markdown": words.markdown, "json": words.as_json, "html": words.page}
    said = forms[arguments.format](arguments.runs, differences, found, least)
    if arguments.output:
        files.write_text(arguments.output, said)
    else:
        print(_printable(said), end="")
    if arguments.fail_above is not None:
        runs.decidable(found)
        sys.exit(int(any(one.worse for one in found)))


def _beside(arguments) -> None:
    from reprofs.plan.plan import read_plan
    from reprofs.publish.runs import set_beside

    set_beside(arguments.other, read_plan(arguments.plan), arguments.output)


def _claims(arguments) -> None:
    from reprofs.stats import study
    from reprofs.stats.published import claims, comparison

    found = comparison.Comparison(study.open(arguments.study))
    if not found.claims:
        print(f"{arguments.study} is set beside no published claims")
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
        raise UserError(f"{len(changed)} of the verdicts are not what the study expects. {' '.join(changed)}")


def _answer(arguments) -> None:
    from reprofs.plan.plan import read_plan
    from reprofs.plan.study import study_of
    from reprofs.project import place
    from reprofs.report import text
    from reprofs.stats import study

    name = _override(arguments).named(study_of(arguments.study, _catalog(arguments)).name)
    report, plan = place(f"report/{name}"), place(f"data/plan/{name}.json")
    said = text.answer_of(study.open(name), read_plan(plan), report, bool(arguments.beside))
    print(f"\n{said}\n{os.path.relpath(report)}/index.html")


def _publish(arguments) -> None:
    from reprofs.project import place
    from reprofs.publish import index, result

    print(os.path.relpath(result.publish(arguments.study)))
    print(os.path.relpath(index.write_index(place("results"))))


def _archive(arguments) -> None:
    from reprofs.project import place
    from reprofs.publish import archive

    made = archive.archive(arguments.study, place(f"archive/{arguments.study}.tar.xz"), _say)
    print(f"{os.path.relpath(made)}: {made.stat().st_size / 1e6:.0f} MB")


def _verify(arguments) -> None:
    from reprofs.publish import sealed, verify

    drawn = not (arguments.all or arguments.trial or arguments.claims)
    if arguments.seed is not None and not drawn:
        raise UserError("--seed is of the draw: leave it out beside --all, --trial and --claims.")
    packed = arguments.result.is_file()
    if arguments.claims:
        elsewhere = UserError(
            "tables and verdicts are made again in a checkout that is set up: unpack the archive, and run `make setup`"
            " and `uv run reprofs verify results/NAME --claims` in its folder checkout."
        )
        if packed:
            raise elsewhere
        try:
            from reprofs.publish.claims import claims
        except ModuleNotFoundError:  # an archive's own Python has what a trial needs
            raise elsewhere from None
        sys.exit(int(not claims(arguments.result, _say, own=arguments.own_code)))
    count = (arguments.trials or 3) if drawn else None
    if packed:
        chosen = [word for name in arguments.trial for word in ("--trial", name)]
        chosen = chosen or (["--trials", str(count)] if count else ["--all"])
        chosen += [] if arguments.seed is None else ["--seed", str(arguments.seed)]
        sys.exit(sealed.verify(arguments.result, chosen))
    seed = int.from_bytes(os.urandom(3)) if arguments.seed is None else arguments.seed
    same = verify.verify(arguments.result, count, arguments.trial, seed, _say, own=arguments.own_code)
    sys.exit(int(not same))


def _reuse(arguments) -> None:
    from reprofs.publish.reuse import reuse

    copied, missing = reuse(arguments.study)
    print(f"{copied} records of results/{arguments.study} were copied to data/raw; {missing} trials remain to be run")


def _notebook(arguments) -> None:
    from reprofs.report import run

    run.execute(arguments.notebook, arguments.study, arguments.log, arguments.output)


def _report(arguments) -> None:
    from reprofs.report import render

    render.render(arguments.notebooks, arguments.output, arguments.tables, arguments.first)
