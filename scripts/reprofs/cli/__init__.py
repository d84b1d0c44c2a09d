"""The command line: reprofs COMMAND. Every rule of the workflow calls one of these.

Other modules are imported where they are used: a trial must not wait for pandas.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from typing import Any, NoReturn

from reprofs import files, workplace
from reprofs.cli import histories, inputs, results, studies, trials, workflow
from reprofs.cli._base import terminal
from reprofs.errors import UserError, cut, middle
from reprofs.trial import progress


def main() -> None:
    """Runs the command line. Whatever it prints has no control characters."""
    streams = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = map(terminal, streams)
    try:
        _main()
    finally:
        sys.stdout, sys.stderr = streams


def _main() -> None:
    """A UserError is printed without a traceback, with exit code 2."""
    arguments = parser().parse_args()
    try:
        if odd := next((word for word in sys.argv if not _is_text(word)), None):
            raise UserError(f"{odd!a} is not valid UTF-8: rename the file.")
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
            where = error.filename2 or error.filename or "a file of this run"  # of a copy the target, which is second
            sys.exit(fail(files.unwritable(where, error)))
        traceback.print_exc()  # a mistake of this program; 1 would say that something differs
        sys.exit(2)


def _is_text(word: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in word)


def fail(error: UserError) -> int:
    """Prints an error and returns the exit code. Long words are cut."""
    print("reprofs:", " ".join(map(middle, str(error).split())), file=sys.stderr)
    return 2


class Version(argparse.Action):
    """Prints the version; runs git only for this option."""

    def __init__(self, option_strings: list[str], dest: str, help: str) -> None:
        super().__init__(option_strings, dest, nargs=0, help=help)

    def __call__(self, *_: object) -> None:
        from reprofs import version

        print(version.text())
        sys.exit(0)


class _Parser(argparse.ArgumentParser):
    """A parser with short error messages, also for long arguments."""

    def error(self, message: str) -> NoReturn:
        super().error(cut(" ".join(middle(word, 60) for word in message.split())))


def parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    top = _Parser(
        prog="reprofs",
        description="A file-system benchmark with reproducible results.",
        epilog=f"Commands of the workflow: {', '.join(workflow.command)}.",
    )
    top.add_argument("--version", action=Version, help="show the version and, in a checkout of git, the commit")
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    for module in (studies, trials, histories, inputs, results, workflow):
        for name, command in module.command.items():
            listed: dict[str, Any] = {} if module is workflow else {"help": command.text}
            sub = commands.add_parser(name, description=command.text, **listed)
            sub.set_defaults(run=command.run)
            for add in command.options:
                add(sub)
    return top
