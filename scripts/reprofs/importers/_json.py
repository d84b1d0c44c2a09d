"""Where something is in a JSON: as a path, and in which line."""

import json
import re
from collections.abc import Iterator

_SPACES = (" ", "\t", "\n", "\r")
_READ = json.JSONDecoder().raw_decode  # (text, place) -> a value, and where it ends


def json_path(path: tuple) -> str:
    """("times", 3, "cold") -> $.times[3].cold"""
    parts = (f"[{p}]" if isinstance(p, int) else f".{p}" if re.fullmatch(r"\w[\w-]*", p) else f"[{p!r}]" for p in path)
    return "$" + "".join(parts)


def json_line(text: str, wanted: tuple) -> int:
    """The line, from 1, where the value at a path of valid JSON begins; of its nearest parent if it is not there."""
    place = _skip(text, 0)
    for key in wanted:
        found = [begin for name, begin in _members(text, place) if name == key]
        if not found:
            break
        place = found[-1]
    return text.count("\n", 0, place) + 1


def _members(text: str, place: int) -> Iterator[tuple[str | int, int]]:
    """(key or index, where its value begins) of all that is in the object or list which begins at `place`."""
    kind, number = text[place], 0
    while kind in "[{" and text[place] not in "]}":
        place = _skip(text, place + 1)  # after the bracket or a comma
        if text[place] in "]}":
            break
        name: str | int = number
        if kind == "{":
            name, place = _READ(text, place)
            place = _skip(text, _skip(text, place) + 1)
        yield name, place
        place = _skip(text, _READ(text, place)[1])
        number += 1


def _skip(text: str, place: int) -> int:
    """The index of the next character that is not white space."""
    while text[place : place + 1] in _SPACES:
        place += 1
    return place
