"""Commands that publish a run, and check what is published."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from reprofs.cli._base import STUDY, Commands, integer, number, option, say, together
from reprofs.errors import UserError, count

command = Commands()


@command(
    "publish",
    STUDY,
    option("--records", action="store_true", help="only render results/NAME again from its records"),
)
def _publish(arguments) -> None:
    """Write results/NAME for a study that has a report: records, report, lock and digests."""
    from reprofs.project import place
    from reprofs.publish import index, write

    make = write.render if arguments.records else write.publish
    print(os.path.relpath(make(arguments.study)))
    print(os.path.relpath(index.write_index(place("results"))))


@command("site", option("studies", metavar="STUDY", nargs="*", help="a study of results/ (default: all)"))
def _site(arguments) -> None:
    """Render published results from their records into site/: HTML, PDF and index."""
    from reprofs.project import place
    from reprofs.publish import site

    print(os.path.relpath(site.write(place("site"), arguments.studies, say)))


@command("archive", option("study", help="NAME"))
def _archive(arguments) -> None:
    """Pack results/NAME into archive/NAME.tar.xz, which needs no network, root or Python to verify."""
    from reprofs.project import place
    from reprofs.publish import archive

    made = archive.archive(arguments.study, place(f"archive/{arguments.study}.tar.xz"), say)
    print(f"{os.path.relpath(made)}: {made.stat().st_size / 1e6:.0f} MB")


@command(
    "verify",
    option("result", type=Path, metavar="RESULT", help="results/NAME, or an archive"),
    together(
        option("--trials", type=number, metavar="N", help="run N random trials; derive no report"),
        option("--all", action="store_true", help="run all trials; derive no report"),
        option("--trial", action="append", default=[], metavar="NAME", help="run this trial; may be repeated"),
        option("--claims", action="store_true", help="run nothing; derive tables, verdicts, numbers from the records"),
        option("--render", action="store_true", help="run nothing; derive everything, with report and answer"),
        option("--run-archive", action="store_true", help="run an archive's own program, which its sender wrote"),
        exclusive=True,
    ),
    option("--seed", type=integer, help="seed of the draw (default: random; it is printed)"),
    option("--own-code", action="store_true", help="use this checkout's code even if the result had different code"),
)
def _verify(arguments) -> None:
    """Derive a published result from its records and run three random trials again. Exit code 1 if anything differs."""
    from reprofs.publish import sealed
    from reprofs.workplace import workplace

    drawn = not (arguments.all or arguments.trial or arguments.claims or arguments.render or arguments.run_archive)
    if arguments.seed is not None and not drawn:
        raise UserError("--seed has no effect with --all, --trial, --claims, --render or --run-archive: leave it out.")
    packed = arguments.result.is_file()
    if arguments.run_archive:
        if not packed:
            raise UserError(f"{arguments.result} is not an archive: leave --run-archive out.")
        say(f"running the program `verify` of {arguments.result}, as you; whoever made the archive wrote it")
        sys.exit(sealed.run(arguments.result, []))
    if not packed:
        sys.exit(int(not _is_right(arguments, arguments.result, drawn)))
    with workplace() as work:
        same = _is_right(arguments, sealed.result_of(arguments.result, work), drawn)
    say(
        f"{arguments.result}: its files are those of its {sealed.SUMS}, and its result was checked by this checkout's "
        "code; its own programs were not run (--run-archive runs them)"
    )
    sys.exit(int(not same))


def _is_right(arguments, folder: Path, drawn: bool) -> bool:
    """Whether all that was asked for is as published; says on what that stands."""
    from reprofs.plan.retraction import RETRACTIONS, retracted
    from reprofs.publish import log, verify
    from reprofs.records.publication import read

    result = read(folder)
    right, said = log.standing(folder, result.study)
    if gone := sum(one.is_in(result.answer) for one in retracted(result)):
        say(f"{folder}: {count(gone, 'sentence')} of its answer retracted, see {RETRACTIONS}")
    if arguments.claims or arguments.render or (drawn and not arguments.trials):
        right &= _derived(arguments, folder)
    if not arguments.claims and not arguments.render:
        trials = (arguments.trials or 3) if drawn else None
        seed = int.from_bytes(os.urandom(3)) if arguments.seed is None else arguments.seed
        right &= verify.verify(folder, trials, arguments.trial, seed, say, own=arguments.own_code)
    say(said)
    return right


def _derived(arguments, folder: Path) -> bool:
    try:
        from reprofs.publish import check
    except ModuleNotFoundError:  # an archive's own Python has what a trial needs
        if arguments.claims or arguments.render:
            raise UserError(
                "--claims and --render need a checkout with its Python packages: run them as `reprofs verify ARCHIVE` "
                "in a clone of your own."
            ) from None
        say("not derived: this Python has no pandas; `reprofs verify ARCHIVE` in a clone derives all from the records")
        return True
    return check.derived(folder, say, whole=not arguments.claims, own=arguments.own_code)
