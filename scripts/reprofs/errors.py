"""The one error a user may see: a sentence that says what is wrong, where, and what to do."""

import reprlib

_BRIEF = reprlib.Repr()
_BRIEF.maxstring = _BRIEF.maxother = 80


class UserError(Exception):
    """Bad input or a missing prerequisite. The command line prints the sentence, no traceback, and exits with 2."""


class FileError(UserError):
    """A mistake inside a descriptor's own file; the sentence begins with the file."""


def short(value: object) -> str:
    """A value as a sentence can bear it: its repr, of a long one the beginning and the end."""
    return cut(_BRIEF.repr(value), 100)


def cut(text: object, most: int = 250) -> str:
    """A text on one line, the end of a long one left out."""
    line = " ".join(str(text).split())
    return line if len(line) <= most else f"{line[: most - 4]} ..."
