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
    option("--records", action="store_true", help="of those in results/NAME: only words and pictures are made anew"),
)
def _publish(arguments) -> None:
    """Write results/NAME of a study that was run to its report: records, report, lock and digests."""
    from reprofs.project import place
    from reprofs.publish import index, write

    make = write.render if arguments.records else write.publish
    print(os.path.relpath(make(arguments.study)))
    print(os.path.relpath(index.write_index(place("results"))))


@command("site", option("studies", metavar="STUDY", nargs="*", help="of results/ (default: all)"))
def _site(arguments) -> None:
    """Render published results into site/: HTML and PDF of each, and the index, of their records alone."""
    from reprofs.project import place
    from reprofs.publish import site

    print(os.path.relpath(site.write(place("site"), arguments.studies, say)))


@command("archive", option("study", help="NAME"))
def _archive(arguments) -> None:
    """Write archive/NAME.tar.xz of results/NAME: one file that can be verified without network, root and Python."""
    from reprofs.project import place
    from reprofs.publish import archive

    made = archive.archive(arguments.study, place(f"archive/{arguments.study}.tar.xz"), say)
    print(f"{os.path.relpath(made)}: {made.stat().st_size / 1e6:.0f} MB")


@command(
    "verify",
    option("result", type=Path, metavar="RESULT", help="folder results/NAME, or an archive of one"),
    together(
        option("--trials", type=number, metavar="N", help="so many, drawn at random (default: 3)"),
        option("--all", action="store_true", help="all of them"),
        option("--trial", action="append", default=[], metavar="NAME", help="this one; may be repeated"),
        option("--claims", action="store_true", help="run nothing: make tables and verdicts again from the records"),
        exclusive=True,
    ),
    option("--seed", type=int, help="of the draw (default: another one each time; it is said)"),
    option("--own-code", action="store_true", help="with this checkout's code, even if the result has another"),
)
def _verify(arguments) -> None:
    """Run trials of a published result again, each of which must be identical; exit code 1 when one is not."""
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
