"""Text as Markdown: facts show as they are written, and only what the report itself marks is a mark.

Facts are whatever a descriptor, a record, a published file or an import says. `Marked` is the type of what is Markdown
already; any other text is escaped where it enters prose, a table or a caption.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from reprofs.errors import legible

# JupyterLab makes a mail address of a lab with its processor (exact@v2-0.5ns).
_MARKS = re.compile(r"[\\`*_\[\]<>&|~${}]|-(?=-)|(?<=\w)@(?=[\w-]+\.\w)")
_FIRST = re.compile(r"^( ?\d+(?=[.)](?: |$))| ?(?=[-+=:#]))")  # what begins an item, a rule or a title
_CODE = re.compile(r"(?<!`)`([^`]*[^`\s][^`]*)`(?!`)")
_ADDRESS = re.compile(r"https?://[^\s<>\\]+")


class Marked(str):
    """Text that is Markdown already; a sum with other text is Markdown that shows that text as it is written."""

    __slots__ = ()

    def __add__(self, other: str) -> Marked:
        return Marked(str.__add__(self, escaped(other)))

    def __radd__(self, other: str) -> Marked:
        return Marked(str.__add__(escaped(other), self))


def _line(text: object) -> str:
    return re.sub(r"\s+", " ", legible(str(text).strip("\n")))


def escaped(value: object) -> Marked:
    """Markdown that shows a text as it is written, on one line; only `code` in it is code. Markdown stays as it is."""
    if isinstance(value, Marked):
        return value
    parts = _CODE.split(_line(value))
    parts[::2] = [_MARKS.sub(lambda mark: _hidden(mark[0]), part) for part in parts[::2]]
    parts[1::2] = [code(part) for part in parts[1::2]]
    return Marked(_FIRST.sub(r"\1\\", "".join(parts), count=1))


def _hidden(mark: str) -> str:
    return "&#92;" if mark == "\\" else f"\\{mark}"  # JupyterLab takes \\( for mathematics


def joined(parts: Iterable[object], mark: str) -> str:
    """Texts with a mark between them: Markdown if one of them is, else text."""
    found = list(parts)
    if any(isinstance(part, Marked) for part in found):
        return Marked(mark.join(map(escaped, found)))
    return mark.join(map(str, found))


def code(text: object) -> Marked:
    """Text as inline code, whatever backticks it contains."""
    line = _line(text)
    fence = "`" * (1 + max(map(len, re.findall("`+", line)), default=0))
    space = " " if "`" in (line[:1], line[-1:]) else ""
    return Marked(f"{fence}{space}{line}{space}{fence}" if line.strip() else "")


def block(text: object) -> Marked:
    """Lines as a block of code."""
    lines = "\n".join(map(legible, str(text).splitlines()))
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", lines)), default=0))
    return Marked(f"{fence}\n{lines}\n{fence}")


def strong(text: object) -> Marked:
    """Text in bold."""
    return Marked(f"**{escaped(text)}**")


def link(text: object, address: str) -> Marked:
    """A link with this text; only the text if the address is not of the web."""
    return Marked(f"[{escaped(text)}](<{address}>)") if _ADDRESS.fullmatch(address) else escaped(text)
