"""The only error that users see: a sentence that says what is wrong, where, and what to do."""

import reprlib

_BRIEF = reprlib.Repr()
_BRIEF.maxstring = _BRIEF.maxother = 80


class UserError(Exception):
    """Bad input or a missing prerequisite. The command line prints the sentence, no traceback, and exits with 2."""


class FileError(UserError):
    """A mistake in a descriptor's own file; the sentence begins with the file."""


def short(value: object) -> str:
    """The repr of a value for use in a sentence, shortened in the middle when it is long."""
    return cut(_BRIEF.repr(value), 100)


def cut(text: object, most: int = 250) -> str:
    """A text on one line, truncated to `most` characters."""
    line = " ".join(str(text).split())
    return line if len(line) <= most else f"{line[: most - 4]} ..."
