"""The error that users see: what is wrong, where, and what to do."""

import difflib
import re
import reprlib
from collections.abc import Iterable

_BRIEF = reprlib.Repr()
_BRIEF.maxstring = _BRIEF.maxother = 80
# Control characters but tab and line's end, and those that turn the direction of text: what follows looks otherwise
# than it is.
HIDDEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


class UserError(Exception):
    """Bad input or a missing prerequisite. The command line prints the sentence, no traceback, and exits with 2."""


class FileError(UserError):
    """A mistake in a descriptor file; the message begins with the file."""


def short(value: object) -> str:
    """The repr of a value for use in a sentence, shortened in the middle when it is long."""
    return cut(_BRIEF.repr(value), 100)


def middle(word: str, most: int = 160) -> str:
    """A word, such as a path, without its middle if it has more than `most` characters."""
    return word if len(word) <= most else f"{word[: most // 2]}...{word[-most // 2 + 3 :]}"


def cut(text: object, most: int = 250) -> str:
    """A text on one line, truncated to `most` characters."""
    line = " ".join(str(text).split())
    return line if len(line) <= most else f"{line[: most - 4]} ..."


def several(names: Iterable[str], most: int = 150) -> str:
    """Names, separated by commas: as many as fit into `most` characters, then the number of the others."""
    names = list(names)
    for rest in range(len(names)):
        line = ", ".join(names[: len(names) - rest]) + (f" and {rest} more" if rest else "")
        if len(line) <= most:
            return line
    return cut(", ".join(names), most)


def meant(name: str, known: Iterable[str], most: int = 150) -> str:
    """The end of a message about an unknown name: the nearest known name, or all of them."""
    near = difflib.get_close_matches(name, known := list(known), n=1, cutoff=0.65)
    return f"did you mean {near[0]}?" if near else f"known are {several(known, most)}."


def count(number: int, noun: str, plural: str | None = None) -> str:
    """`1 trial`, `3 trials`, `no trials`, `1,024 trials`."""
    word = noun if number == 1 else plural or noun + "s"
    return f"{number:,} {word}" if number else f"no {word}"


def legible(text: str) -> str:
    """The text with invisible and direction-changing characters replaced."""
    return HIDDEN.sub("\N{REPLACEMENT CHARACTER}", text)
