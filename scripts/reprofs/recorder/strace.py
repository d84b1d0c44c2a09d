"""The text of strace as the events of the recorder: of a program that ran where the recorder was not.

Made by `strace -f -X raw -v -y -s 0 -o FILE COMMAND` on x86-64: -X raw prints flags as numbers, -y where descriptors
lead, -v whole results of stat(2) and listings; -s 0 leaves contents out, and never cuts a path. Source: strace(1).
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from reprofs.errors import UserError, short
from reprofs.recorder.events import HIDDEN

COMMAND = "strace -f -X raw -v -y -s 0 -o FILE COMMAND"
ALL = 2**64 - 1
RESTARTS = {"ERESTARTSYS": 512, "ERESTARTNOINTR": 513, "ERESTARTNOHAND": 514, "ERESTART_RESTARTBLOCK": 516}
# On other processors flags have other numbers; programs there make none of these.
ONLY_X86_64 = re.compile(r"(?:arch_prctl|open|stat|lstat|access|readlink|poll|pipe|dup2|fork|vfork|mkdir|unlink)\(")

# pid, time, the rest
LINE = re.compile(
    r"(?:\[pid +(\d{1,10})(?:<[^>]*>)?\] +|(\d{1,10})(?:<[^>]*>)? +)?(?:(\d+\.\d+) +|\d\d:\d\d:\d\d(?:\.\d+)? +)?(.*)",
    re.DOTALL,
)
STRING = r'"[^"\\]*(?:\\.[^"\\]*)*"'
LEADS = r"<(?:[A-Z][A-Za-z0-9-]*:\[.*?\]|(?:[^<>]|<[^<>]*>)*)>"  # of a descriptor; sockets and devices with -yy
TOKEN = re.compile(rf"{STRING}|(?<=\d){LEADS}|/\*.*?\*/|[][(){{}}]|, ?", re.DOTALL)
NAME = re.compile(r"(\w+)\(")
VALUE = re.compile(r"-?(?:0x[0-9a-fA-F]+|\d+)")
FD = re.compile(rf"(-?\d+)({LEADS})(?:\(deleted\))?", re.DOTALL)
TEXT = re.compile(rf"({STRING})(\.\.\.)?", re.DOTALL)
RESULT = re.compile(r" *= (?:(\?)(?: (ERESTART\w+))?|-1 (E[A-Z0-9]+)|(-?(?:0x[0-9a-f]+|\d+)))(.*)", re.DOTALL)
UNFINISHED = re.compile(r" *<(?:unfinished|detached|pid changed to \d+) \.\.\.>$")
RESUMED = re.compile(r"<\.\.\. (\w+) resumed>")
ENDED = re.compile(r"\+\+\+ (?:exited with (\d+)|killed by (\w+)|superseded by execve in pid (\d+))")
ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|([0-7]{1,3})|(.))", re.DOTALL)
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "v": "\v", "f": "\f", "a": "\a", "b": "\b"}


class Bad(Exception):
    """What is wrong with a line, as a clause, and what to do."""


class Line(NamedTuple):
    """pid: its thread; text: without the prefix of the call."""

    path: Path
    number: int
    pid: int
    text: str


# ---- lines


def lines(paths: Sequence[Path]) -> Iterator[Line]:
    """The lines of strace's text, in the order in which they were written; of several files (-ff) by their times.

    Raises UserError for a file that cannot be read, and for lines of several files without times.
    """
    if len(paths) == 1:
        yield from (line for _, line in _lines(paths[0]))
        return
    found = []
    for path in paths:
        for time, line in _lines(path):
            if time is None:
                raise UserError(
                    f"{path}: line {line.number} has no time, which several files need: add -ttt to strace."
                )
            found.append((float(time), line))
    yield from (line for _, line in sorted(found, key=lambda one: one[0]))


def _lines(path: Path) -> Iterator[tuple[str | None, Line]]:
    own = int(path.suffix[1:]) if path.suffix[1:].isascii() and path.suffix[1:].isdigit() else 1
    try:
        with path.open(encoding="latin-1", newline="\n") as file:
            for number, text in enumerate(file, 1):
                match = LINE.match(text.rstrip("\n"))
                assert match
                pid = int(match[1] or match[2] or own)
                yield match[3], Line(path, number, pid, match[4].rstrip())
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from None


def unescaped(text: str) -> bytes:
    """The bytes of a string as strace prints it, without its quotation marks."""

    def one(match: re.Match) -> str:
        if match[3]:
            return ESCAPES.get(match[3], match[3])
        return chr(int(match[1], 16) if match[1] else int(match[2], 8) & 255)

    return (ESCAPE.sub(one, text) if "\\" in text else text).encode("latin-1")


def text_of(argument: str) -> bytes:
    """A name that is an argument; HIDDEN where it was cut."""
    match = TEXT.match(argument)
    if not match and argument.startswith('"'):
        raise Bad("a string in it does not end: the line was cut")
    return unescaped(match[1][1:-1]) if match and not match[2] else HIDDEN


def number_of(argument: str) -> int:
    """An argument as a number, 0 for what is none."""
    if argument[:1].isupper() and argument != "NULL":
        raise Bad(f"it has {short(argument)} where a number is needed: add -X raw to strace")
    value = 0
    for part in argument.split(" ", 1)[0].split("|"):
        if match := VALUE.match(part):
            digits = match[0]
            octal = digits.lstrip("-")[:1] == "0" and digits.lstrip("-").isdigit()
            try:
                value |= int(digits, 8 if octal else 0)
            except ValueError:
                raise Bad(f"{short(digits)} is no number") from None
    return value


def leads_to(argument: str) -> str | None:
    """Where a descriptor leads, as strace -y prints it; None if to no file."""
    match = FD.match(argument)
    place = os.fsdecode(unescaped(match[2][1:-1])) if match else ""
    return place.removesuffix(" (deleted)") if place.startswith("/") else None


class Call:
    """A line, or the two of a call that others came between. result: None if it did not end, negative: -errno."""

    def __init__(self, text: str) -> None:
        match = NAME.match(text)
        if not match:
            raise Bad(f"{short(text)} is not output of strace (-o FILE)")
        self.name = match[1]
        self.args, end = _arguments(text, match.end())
        self.result: int | None = None
        self.rest = ""
        found = RESULT.match(text, end)
        if end < len(text) and not found:
            raise Bad(f"after its arguments it has {short(text[end:])} and no result")
        if found:
            self.rest = found[4] + found[5] if found[4] else ""
            self.result = self._result(found)

    @staticmethod
    def _result(found: re.Match) -> int | None:
        if found[1]:
            return -RESTARTS[found[2]] if found[2] in RESTARTS else None
        if found[3]:
            if not hasattr(errno, found[3]):
                raise Bad(f"it failed with {found[3]}, which is unknown here")
            return -getattr(errno, found[3])
        return number_of(found[4])

    def numbers(self) -> list[int]:
        """Six arguments."""
        found = [number_of(one) & ALL for one in self.args[:6]]
        return found + [0] * (6 - len(found))

    def leads(self) -> dict[int, str]:
        """Its descriptors of files -> where they lead."""
        found = [(match, leads_to(one)) for one in self.args if (match := FD.match(one))]
        return {int(match[1]): place for match, place in found if place}

    def child(self) -> int:
        """The process that a fork made."""
        own = re.search(r"/\* (\d+) in strace's PID NS", self.rest)
        return int(own[1]) if own else self.result or 0


def _arguments(text: str, begin: int) -> tuple[list[str], int]:
    """The arguments of a call, and where the text goes on after them."""
    found: list[str] = []
    depth = 0
    for token in TOKEN.finditer(text, begin):
        sign = token[0][0]
        if sign in "([{":
            depth += 1
        elif sign in ")]}":
            if not depth:
                last = text[begin : token.start()].strip()
                return ([*found, last] if found or last else []), token.end()
            depth -= 1
        elif sign == "," and not depth:
            found.append(text[begin : token.start()].strip())
            begin = token.end()
    return [*found, text[begin:].strip()], len(text)  # it was cut off


# ---- the program


@dataclass
class Survey:
    """What is found before the calls are followed. tails: index of a line -> the rest of its call."""

    tails: dict[int, str] = field(default_factory=dict)
    folder: str = ""  # in which the program begins
    around: str = ""  # the same, if descriptors do not tell
    umask: int | None = None

    def look(self, text: str) -> None:
        """The first evidence of where the program starts."""
        if not self.folder and (match := re.search(rf"\((-100{LEADS})", text)):
            self.folder = leads_to(match[1]) or ""
        if not self.around and (match := re.match(rf"(getcwd|chdir)\(({STRING})", text)):
            self.around = os.fsdecode(unescaped(match[2][1:-1])) if match[1] == "getcwd" else "unknown"
        if self.umask is None and (match := re.match(r"umask\(\w+\) += (0[0-7]*)", text)):
            self.umask = int(match[1], 8)


def survey(paths: Sequence[Path]) -> Survey:
    """Reads the text once. Raises UserError when it does not say where the program began."""
    found, waiting = Survey(), dict[int, int]()
    whole = here = False  # the text begins with the program; it is of this kind of processor
    for index, line in enumerate(lines(paths)):
        if match := RESUMED.match(line.text):
            if line.pid in waiting:
                found.tails[waiting.pop(line.pid)] = line.text[match.end() :]
        elif (ended := ENDED.match(line.text)) and ended[3] and int(ended[3]) in waiting:
            waiting[line.pid] = waiting.pop(int(ended[3]))
        elif UNFINISHED.search(line.text):
            waiting[line.pid] = index
        whole = whole or (not index and line.text.startswith("execve("))
        here = here or bool(ONLY_X86_64.match(line.text))
        if "(AT_FDCWD" in line.text:
            raise UserError(f"{line.path}: line {line.number}: flags are names: add -X raw to strace.")
        found.look(line.text)
    found.folder = found.folder or found.around
    if not found.folder.startswith("/"):
        raise UserError(f"{paths[0]} has no working directory: record it with {COMMAND}.")
    if whole and not here:
        raise UserError(f"{paths[0]} does not look like x86-64, where alone flags have known numbers: record it there.")
    return found
