"""Commands that publish a run, and check what is published."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from reprofs.cli._base import STUDY, Commands, number, option, say, together
from reprofs.errors import UserError

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
    option("result", type=Path, metavar="RESULT", help="results/NAME, or its archive"),
    together(
        option("--trials", type=number, metavar="N", help="run N random trials (default: 3)"),
        option("--all", action="store_true", help="run all trials"),
        option("--trial", action="append", default=[], metavar="NAME", help="run this trial; may be repeated"),
        option("--claims", action="store_true", help="run nothing; recompute tables and verdicts from the records"),
        exclusive=True,
    ),
    option("--seed", type=int, help="seed of the draw (default: random; it is printed)"),
    option("--own-code", action="store_true", help="use this checkout's code even if the result had different code"),
)
def _verify(arguments) -> None:
    """Run trials of a published result again. Exit code 1 if one is not identical."""
    from reprofs.publish import sealed, verify

    drawn = not (arguments.all or arguments.trial or arguments.claims)
    if arguments.seed is not None and not drawn:
        raise UserError("--seed has no effect with --all, --trial or --claims: leave it out.")
    packed = arguments.result.is_file()
    if arguments.claims:
        elsewhere = UserError(
            "--claims needs a checkout with its Python packages: unpack the archive, change into its folder checkout, "
            "and run `make setup` and `uv run reprofs verify results/NAME --claims`."
        )
        if packed:
            raise elsewhere
        try:
            from reprofs.publish.claims import claims
        except ModuleNotFoundError:  # an archive's own Python has what a trial needs
            raise elsewhere from None
        sys.exit(int(not claims(arguments.result, say, own=arguments.own_code)))
    count = (arguments.trials or 3) if drawn else None
    if packed:
        chosen = [word for name in arguments.trial for word in ("--trial", name)]
        chosen = chosen or (["--trials", str(count)] if count else ["--all"])
        chosen += [] if arguments.seed is None else ["--seed", str(arguments.seed)]
        sys.exit(sealed.verify(arguments.result, chosen))
    seed = int.from_bytes(os.urandom(3)) if arguments.seed is None else arguments.seed
    same = verify.verify(arguments.result, count, arguments.trial, seed, say, own=arguments.own_code)
    sys.exit(int(not same))
