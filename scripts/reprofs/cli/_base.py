"""What the commands are made of: their names, options and words."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from reprofs.errors import legible

Options = Callable[[Any], object]  # adds one or more to a parser


@dataclass(frozen=True)
class Command:
    """One of the command line; its text is what its function says of itself."""

    run: Callable[[argparse.Namespace], None]
    text: str
    options: tuple[Options, ...]


class Commands(dict[str, Command]):
    """Those of a module, by name."""

    def __call__(self, name: str, *options: Options) -> Callable:
        """A decorator that makes a function one of them."""

        def keep(run: Callable) -> Callable:
            self[name] = Command(run, " ".join((run.__doc__ or "").split()), options)
            return run

        return keep


def option(*names: str, **how: Any) -> Options:
    """An option or argument, as of argparse's add_argument."""
    return lambda parser: parser.add_argument(*names, **how)


def together(*options: Options, exclusive: bool = False) -> Options:
    """Several options; exclusive: of which at most one may be given."""

    def add(parser: Any) -> None:
        group = parser.add_mutually_exclusive_group() if exclusive else parser
        for each in options:
            each(group)

    return add


STUDY = option("study", help="NAME, or NAME@SCALE")
CATALOG = option(
    "--extra-filesystem-dir", action="append", metavar="FOLDER", help="further folder of file-system files"
)
CLIENTS = option("--clients", default="", metavar="A,B", help="machines that run the clients, with --where")
OVERRIDE = together(
    option("--lab", default="", help="in the place of the study's labs"),
    option("--profile", default="", help="in the place of its device profiles"),
    option("--where", default="", metavar="A,B", help="directories to compare, with --lab mount"),
    CLIENTS,
)


def catalog(arguments):
    """The catalogue with the folders of --extra-filesystem-dir."""
    from reprofs.plan.catalog import Catalog
    from reprofs.plan.config import read_config

    extra = arguments.extra_filesystem_dir
    return Catalog(read_config({"extra_filesystem_dirs": extra} if extra else None).extra_filesystem_dirs)


def override(arguments):
    """What the options of OVERRIDE say."""
    from reprofs.plan.override import override

    return override(arguments.lab, arguments.profile, arguments.where, arguments.clients)


def name_of(arguments) -> str:
    """Of the study, with what the options of OVERRIDE add."""
    from reprofs.plan.study import study_of

    return override(arguments).named(study_of(arguments.study, catalog(arguments)).name)


def say(line: str) -> None:
    """A line of progress, beside the output."""
    print(line, file=sys.stderr, flush=True)


def printable(text: str) -> str:
    """A text whose names need not be UTF-8, nor legible."""
    return legible(text).encode("utf-8", "backslashreplace").decode()


def number(text: str, what: str = "number") -> int:
    """A type of options: a whole number from 1 on."""
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:9]) <= 10**8:
        raise argparse.ArgumentTypeError(f"{text!a} is no whole {what} from 1 on")
    return int(text[:9])


def seconds(text: str) -> int:
    """A type of options: whole seconds from 1 on."""
    return number(text, "number of seconds")


def limit(text: str) -> float:
    """A type of options: seconds from 1 on."""
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not 1 <= found <= 10**8:  # nan is not, either
        raise argparse.ArgumentTypeError(f"{text!a} is no number of seconds from 1 on")
    return found
