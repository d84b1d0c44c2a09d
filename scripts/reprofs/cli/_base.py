"""Building blocks of commands: names, options, output."""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TextIO, cast

from reprofs.errors import UserError, legible, short

Options = Callable[[Any], object]  # adds one or more to a parser


@dataclass(frozen=True)
class Command:
    """A command; its help text is the docstring of its function."""

    run: Callable[[argparse.Namespace], None]
    text: str
    options: tuple[Options, ...]


class Commands(dict[str, Command]):
    """The commands of a module, by name."""

    def __call__(self, name: str, *options: Options) -> Callable:
        """A decorator that makes a function a command."""

        def keep(run: Callable) -> Callable:
            self[name] = Command(run, " ".join((run.__doc__ or "").split()), options)
            return run

        return keep


def option(*names: str, **how: Any) -> Options:
    """An option or argument, with the parameters of argparse's add_argument."""
    return lambda parser: parser.add_argument(*names, **how)


def together(*options: Options, exclusive: bool = False) -> Options:
    """Several options; exclusive: at most one of them may be given."""

    def add(parser: Any) -> None:
        group = parser.add_mutually_exclusive_group() if exclusive else parser
        for each in options:
            each(group)

    return add


STUDY = option("study", help="NAME, or NAME@SCALE")
CATALOG = option(
    "--extra-dir", action="append", metavar="FOLDER", help="another folder with filesystems/, workloads/, studies/, ..."
)
CLIENTS = option("--clients", default="", metavar="A,B", help="machines that run the clients (with --where)")
OVERRIDE = together(
    option("--lab", default="", help="lab to use instead of the study's"),
    option("--profile", default="", help="device model to use instead of the study's"),
    option("--where", default="", metavar="A,B", help="directories to compare (with --lab mount)"),
    CLIENTS,
)


def catalog(arguments):
    """The catalogue with the folders of --extra-dir."""
    from reprofs.plan.catalog import Catalog
    from reprofs.plan.config import read_config

    extra = arguments.extra_dir
    return Catalog(read_config({"extra_dirs": extra} if extra else None).extra_dirs)


def override(arguments):
    """The override that the options of OVERRIDE describe."""
    from reprofs.plan.override import override

    return override(arguments.lab, arguments.profile, arguments.where, arguments.clients)


def name_of(arguments) -> str:
    """The name of the study with its override."""
    from reprofs.plan.study import study_of

    return override(arguments).named(study_of(arguments.study, catalog(arguments)).name)


def say(line: str) -> None:
    """Prints a line of progress to stderr."""
    print(line, file=sys.stderr, flush=True)


def printable(text: str) -> str:
    """The text with undecodable and invisible characters replaced."""
    return legible(text).encode("utf-8", "backslashreplace").decode()


class _Terminal:
    """A text stream that takes only what is printable: names and texts of files may have codes that move the cursor."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(printable(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def terminal(stream: TextIO) -> TextIO:
    """The stream, to which everything that a command prints is written."""
    return cast(TextIO, _Terminal(stream))


def number(text: str, what: str = "number") -> int:
    """Option type: a whole number, 1 or more."""
    if not text.isascii() or not text.isdigit() or len(text) > 9 or not 1 <= int(text) <= 10**8:
        raise argparse.ArgumentTypeError(f"{text!a} is not a whole {what} from 1 to 100000000")
    return int(text)


def integer(text: str) -> int:
    """Option type: a whole number of 64 bits, as records can hold it."""
    found = re.fullmatch(r"-?[0-9]{1,19}", text)
    if not found or not -(2**63) <= int(text) < 2**63:
        raise argparse.ArgumentTypeError(f"{text!a} is not a whole number of at most 64 bits")
    return int(text)


def share(text: str) -> float:
    """0.01 of 1% or 1 %, the value of --fail-above. Raises UserError for another text."""
    number = text.strip().removesuffix("%").strip()
    try:
        value = float(number) / 100
    except ValueError:
        value = math.nan
    if not text.strip().endswith("%") or not 0 < value < 1:
        raise UserError(f"--fail-above is {short(text)}, but must be a share above 0 % and below 100 %, such as 1%.")
    return value


def seconds(text: str) -> int:
    """Option type: whole seconds, 1 or more."""
    return number(text, "number of seconds")


def limit(text: str) -> float:
    """Option type: seconds, 1 or more."""
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not 1 <= found <= 10**8:  # nan is not, either
        raise argparse.ArgumentTypeError(f"{text!a} is not a number of seconds of 1 or more")
    return found
