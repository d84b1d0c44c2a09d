"""Recordings (workflow/recordings/NAME.jsonl.xz): the file-system calls of a program, to be replayed.

A recording is JSON lines, compressed by xz. The first line is a mapping, which `Recording` describes and the schema
explains. Then come the tree before the first call, the calls, and the tree after the last one, each entry and each call
a list on a line of its own; the first line says how many of each there are.

Entry: ["d", path, mode], ["f", path, mode, bytes, bytes that are no hole at the end], ["l", path, target], or ["h",
path, the file's first path]. Folders come before what is in them, files as the inodes of the recorded tree are
numbered.
Call: [kind, result, arguments], the arguments as KINDS says. The result is that of the call, negative: -errno; null:
not checked. Where the first line tells of lanes, each call has one more value in the end, a list: its lane, then pairs
of another lane and the number of its calls that were made before, because a thread began or ended between. A lane is
the calls of a thread, and of those that began after it had ended.

No name, no content, no argument and nothing of user or host is in it; paths never leave the tree.
"""

import functools
import io
import itertools
import json
import lzma
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, model_validator

from reprofs.errors import FileError, UserError, short
from reprofs.files import Unpacking, sha256
from reprofs.plan.parts import NAME, NAME_RULE, Count, Descriptor, Filled, wrong
from reprofs.plan.read import shown, unknown, validate
from reprofs.plan.recording_links import UP, Followed
from reprofs.project import project_root

SUFFIX = ".jsonl.xz"
LARGEST_BYTES = 50_000_000  # of a file
UNPACKED_BYTES = 4_000_000_000  # of its lines: what is read and checked in some minutes
CALLS = 10_000_000
ENTRIES = 1_000_000  # of a tree
LISTED = 1_000_000  # calls where listings are followed, which takes much more memory
NAME_COST = 150  # bytes of memory that a path takes besides its letters
NAMES_BYTES = 250_000_000  # of memory for the different paths of a tree, or of all calls
LINE_BYTES = 20_000  # two paths, with what JSON adds
HANDLES = 65536
LANES = 16
LONGEST = 255  # bytes of a name that a file system keeps; in a recording one of 256 stands for all longer ones
LONGEST_PATH = 4000

# The arguments of each kind of call. h: an open file; H: the number that it gets, -1 where it failed; p: an open
# folder, and a path from there, an empty one for what is open itself; t: the target of a link; m, M: a mapping in
# memory, like h and H; n: a number. The numbers: open flags mode; read length, pread length offset; sync-range offset
# length flags; allocate mode offset length; stat, chown and set-times flags; list length; link and rename flags;
# attributes number-of-the-name size (and flags), those of a path then 1 where links are not followed, the size of an
# access list being the mode that it says; lock type whence start length; copy and send length and offsets, -1: where
# the file stands; map offset length protection flags; touch first page, pages, 1: written to.
KINDS: dict[str, str] = {
    **{"open": "pnnH", "enter": "pH", "close": "h", "read": "hn", "pread": "hnn", "write": "hn", "pwrite": "hnn"},
    **{"seek": "hnn", "fsync": "h", "fdatasync": "h", "syncfs": "h", "sync": "", "sync-range": "hnnn"},
    **{"ftruncate": "hn", "truncate": "pn", "allocate": "hnnn", "stat": "pn", "fstat": "h", "access": "pn"},
    **{"readlink": "pn", "list": "hn", "mkdir": "pn", "rmdir": "p", "unlink": "p", "link": "ppn", "symlink": "tp"},
    **{"rename": "ppn", "mknod": "pn", "chmod": "pn", "fchmod": "hn", "chown": "pn", "fchown": "h"},
    **{"set-times": "pn", "fset-times": "h", "statfs": "p", "fstatfs": "h", "flock": "hn", "lock": "hnnnn"},
    **{"copy": "hhnnn", "send": "hhnn", "clone": "hh", "advise": "hnnn", "readahead": "hnn"},
    **{"getxattr": "pnnn", "fgetxattr": "hnn", "listxattr": "pnn", "flistxattr": "hn", "setxattr": "pnnnn"},
    **{"fsetxattr": "hnnn", "removexattr": "pnn", "fremovexattr": "hn"},
    **{"map": "hnnnnM", "touch": "mnnn", "unmap": "m", "msync": "mnnn"},
}
WIDTH = {"p": 2}
# Results that tell of the file system, not of the program: so long as both succeed or both fail, they are equal.
OF_THE_SYSTEM = frozenset(("list", "readlink", "getxattr", "fgetxattr", "listxattr", "flistxattr"))
OPEN_FLAGS = functools.reduce(
    int.__or__,
    (
        *(
            os.O_RDWR,
            os.O_WRONLY,
            os.O_CREAT,
            os.O_EXCL,
            os.O_NOCTTY,
            os.O_TRUNC,
            os.O_APPEND,
            os.O_NONBLOCK,
            os.O_SYNC,
        ),
        *(os.O_DIRECT, os.O_DIRECTORY, os.O_NOFOLLOW, os.O_NOATIME, os.O_CLOEXEC, os.O_PATH, os.O_TMPFILE, 0o100000),
    ),
)
MODE = 0o1777
SPECIAL = (stat.S_IFIFO, stat.S_IFREG, stat.S_IFSOCK)
ACCESS_LIST = 2  # the number of the attribute whose value is a mode
KNOWN_ATTRIBUTES = 6  # numbers below it have a meaning to the kernel: scripts/engine/programs/replay/attributes.h

Total = Annotated[int, Field(ge=0, le=2**50)]


class Recording(Descriptor):
    """The first line of a recording."""

    kind = "recording"
    folder = "workflow/recordings"

    model_config = ConfigDict(title="A recording of a program's file-system calls (the first line of its file)")

    format: Literal[1]
    title: Filled
    filesystem: Filled = Field(description="Where it was recorded")
    kernel: Filled = Field(description="Under which it was recorded, two numbers")
    threads: Count = Field(description="That made calls")
    lanes: Annotated[int, Field(ge=0, le=LANES)] = Field(
        0, description="Threads that a replay has on several processors; 0: one, in the order in which calls began"
    )
    before: Annotated[int, Field(ge=0, le=ENTRIES, description="Entries of the tree before")]
    calls: Annotated[int, Field(ge=0, le=CALLS)]
    after: Annotated[int, Field(ge=0, le=ENTRIES, description="Entries of the tree after")]
    names: Total = Field(description="That a replay makes at most")
    bytes: Total = Field(description="Of content that a replay makes at most")
    handles: Annotated[int, Field(ge=1, le=HANDLES)] = Field(description="Open files and mappings at the same time")
    outside: Count = Field(0, description="Calls that reached other folders, not recorded")
    left_out: dict[str, Count] = Field({}, description="Calls below the roots that a replay does not make, by kind")
    unchecked: Count = Field(0, description="Calls whose result was another one when it was tried")
    moved: bool = Field(False, description="Content was copied to other offsets, so what is read cannot be compared")
    in_listing_order: bool = Field(
        False, description="Most files were visited in the order in which the file system listed them"
    )
    follows_listings: bool = Field(
        False, description="Of these visits a replay makes most as its own file system lists the files"
    )
    ended: bool = Field(False, description="The program was ended when its time was over")
    incomplete: Annotated[list[Filled], Field(min_length=1, max_length=20)] | None = Field(
        None, description="Why it is less than the program, clauses: it was accepted so"
    )

    @model_validator(mode="after")
    def _has_few_calls(self) -> "Recording":
        if self.follows_listings and self.calls > LISTED:
            raise wrong(f"follows listings, so calls is at most {LISTED:,}, not {self.calls:,}")
        return self


BEFORE, CALL, AFTER = range(3)
Line = tuple[int, list, list[int]]  # which of these it is, itself, and the last value of a call where there are lanes


@dataclass
class Content:
    """All that a recording holds; entries and calls as its lines have them."""

    head: Recording
    before: list[list]
    calls: list[list]
    after: list[list]
    who: list[list[int]] = field(default_factory=list)  # of each call, where there are lanes

    def each(self) -> Iterator[Line]:
        """Its lines, as those of a file."""
        yield from ((BEFORE, line, []) for line in self.before)
        for line, who in zip(self.calls, self.who or itertools.repeat([]), strict=False):
            yield CALL, line, who
        yield from ((AFTER, line, []) for line in self.after)


def paths() -> dict[str, Path]:
    """name -> file of every recording of this checkout. Raises UserError for an invalid file name."""
    found = {}
    folder = project_root() / Recording.folder
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        name = path.name.removesuffix(SUFFIX)
        if not NAME.fullmatch(name):
            raise FileError(
                f"{shown(folder)}: {short(path.name)}: before {SUFFIX} it must have {NAME_RULE}: rename it."
            )
        found[name] = path
    return found


def path_of(name: str) -> Path:
    """The file of a recording. Raises UserError when there is none."""
    known = paths()
    if name not in known:
        raise unknown(Recording.kind, name, known)
    return known[name]


def replayed_by(head: Recording, several: bool) -> str:
    """The engine's program that replays it. several: there is more than one processor."""
    if head.follows_listings:
        return "replay-listed"
    return "replay-threads" if head.lanes and several else "replay"


def arguments(name: str) -> str:
    """The arguments of `engine replay` that stand for a recording: with its digest, so that a job names its content.

    Raises UserError when there is none, or when its first line does not fit.
    """
    path = path_of(name)
    head = read_head(path)
    return f"--recording {name}-{digest(path)} --content {head.bytes} --names {head.names}"


def digest(path: Path) -> str:
    """The first 16 digits of the SHA-256 of a file. Raises UserError when it cannot be read."""
    try:
        return sha256(path)[:16]
    except OSError as error:
        raise UserError(f"Cannot read {shown(path)}: {error.strerror}.") from None


def read_head(path: Path) -> Recording:
    """The first line of a recording. Raises UserError like `read`."""
    return _head(next(_lines(path)), shown(path)).known_as(path.name.removesuffix(SUFFIX), shown(path))


def read(path: Path) -> Content:
    """A whole recording, checked: whatever it holds, its replay stays in its folder.

    Raises UserError with the line for a file that cannot be read, is no recording or contradicts itself.
    """
    parts: tuple[list, list, list] = ([], [], [])
    who = []
    for part, line, lane in each(path):
        parts[part].append(line)
        if lane:
            who.append(lane)
    return Content(read_head(path), *parts, who)


def each(path: Path) -> Iterator[Line]:
    """The lines of a recording after the first, one at a time, checked like those of `read`.

    Memory: that of the different paths in its trees.
    """
    where = shown(path)
    lines = _lines(path)
    head = _head(next(lines), where)
    calls, followed = _Calls(head.handles, head.lanes), Followed()
    for part, count in ((BEFORE, head.before), (CALL, head.calls), (AFTER, head.after)):
        check: Callable = calls if part == CALL else _Entries()
        for _ in range(count):
            number, line = next(lines)
            try:
                found = check(_parsed(line))
            except _Wrong as wrong:
                raise FileError(f"{where}: line {number}: {wrong}: record it again.") from None
            if part != AFTER:
                (followed.entry if part == BEFORE else followed.call)(found)
            yield part, found, calls.who if part == CALL else []
    if (extra := next(lines)) and extra[1]:
        raise FileError(f"{where}: line {extra[0]}: the first line announces fewer lines: record it again.")
    if leads := followed.leads():
        raise FileError(f"{where}: line {leads.line + 2}: {leads.why}: remove this recording.")


def packed(content: Content, name: str) -> bytes:
    """The bytes of the file of a recording. Raises UserError for more than 50 MB."""
    calls = content.calls
    if content.who:
        calls = [[*line, who] for line, who in zip(calls, content.who, strict=True)]
    lines = [content.head.as_json(), *content.before, *calls, *content.after]
    text = "".join(json.dumps(line, separators=(",", ":"), ensure_ascii=True) + "\n" for line in lines)
    data = lzma.compress(text.encode(), preset=6)
    if len(data) > LARGEST_BYTES:
        raise UserError(
            f"{name} would have {len(data) / 1000000.0:,.0f} MB, but at most {LARGEST_BYTES / 1000000.0:.0f} MB "
            "are allowed: record a shorter run, or fewer folders (--below)."
        )
    return data


# ---- reading


class _Wrong(Exception):
    """What is wrong with a line, as a clause."""


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """(number, line) of each line, and in the end for ever an empty one."""
    where = shown(path)
    number = 0
    try:
        if path.stat().st_size > LARGEST_BYTES:
            raise FileError(
                f"{where} has more than {LARGEST_BYTES / 1000000.0:.0f} MB, so it is not a recording: remove it."
            )
        with io.BufferedReader(Unpacking(path, UNPACKED_BYTES)) as file:
            while line := file.readline(LINE_BYTES):
                number += 1
                yield number, line
    except (lzma.LZMAError, EOFError) as error:
        if "more than it may" in str(error):
            raise FileError(
                f"{where} has lines of more than {UNPACKED_BYTES / 1e9:.0f} GB: record a shorter run."
            ) from None
        raise FileError(f"{where} is damaged, or not compressed by xz: record it again.") from None
    except OSError as error:
        raise UserError(f"Cannot read {where}: {error.strerror}.") from None
    while True:
        yield number + 1, b""


def _parsed(line: bytes) -> Any:
    if not line.endswith(b"\n"):
        raise _Wrong("is missing" if not line else "is too long or incomplete")
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        raise _Wrong("is not JSON") from None


def _head(line: tuple[int, bytes], where: str) -> Recording:
    try:
        found = _parsed(line[1])
    except _Wrong as wrong:
        raise FileError(f"{where}: line 1 {wrong}, so this is not a recording: record it again.") from None
    return validate(found, Recording, f"{where}: line 1")


def _number(value: Any, low: int = -(2**63), high: int = 2**63 - 1) -> int:
    if type(value) is not int or not low <= value <= high:
        raise _Wrong(f"{short(value)} is not a whole number from {low} to {high}")
    return value


def path_problem(path: Any) -> str:
    """Why this cannot be a path in a recording (a clause); empty for one that stays where it begins."""
    if type(path) is not str or not path.isascii() or not path.isprintable():
        return f"{short(path)} is not a path of printable ASCII"
    parts = path.split("/")
    if not path or path[0] == "/" or ".." in parts or len(path) > LONGEST_PATH or max(map(len, parts)) > LONGEST + 1:
        return f"the path {short(path)} is empty, too long, or leaves its folder"
    return ""


def target_problem(target: Any) -> str:
    """Why this is not allowed as a link target (a clause); it may lead up only at its start, and not far."""
    parts = target.split("/") if type(target) is str else [""]
    up = next((i for i, part in enumerate(parts) if part != ".."), len(parts))
    if up > UP:
        return f"the link's target {short(target)} leads up more than {UP} folders"
    return path_problem("/".join(parts[up:]) or ".")


def _path(path: Any) -> str:
    if problem := path_problem(path):
        raise _Wrong(problem)
    return path


def _target(target: Any) -> str:
    if problem := target_problem(target):
        raise _Wrong(problem)
    return target


class _Entries:
    """Checks the lines of a tree, one after the other."""

    def __init__(self) -> None:
        self.kinds: dict[str, str] = {".": "d"}
        self.room = NAMES_BYTES

    def __call__(self, line: Any) -> list:
        shapes: dict[Any, tuple[Callable, ...]] = {
            "d": (_path, _mode),
            "f": (_path, _mode, _size, _size),
            "l": (_path, _target),
            "h": (_path, _path),
        }
        if type(line) is not list or not line or type(line[0]) is not str or line[0] not in shapes:
            raise _Wrong("is not an entry of a tree")
        checks = shapes[line[0]]
        if len(line) != 1 + len(checks):
            raise _Wrong(f"an entry {short(line[0])} has {len(checks)} values")
        for check, value in zip(checks, line[1:], strict=True):
            check(value)
        path = line[1]
        folder = path.rpartition("/")[0] or "."
        if self.kinds.get(folder) != "d" or (path in self.kinds and path != "."):
            raise _Wrong(f"the path {short(path)} appears twice, or before its folder")
        if line[0] == "h" and self.kinds.get(line[2]) != "f":
            raise _Wrong(f"{short(line[2])}, to which it is a hard link, is not a file before it")
        if path == "." and line[0] != "d":
            raise _Wrong("the top must be a folder")
        self.kinds[path] = line[0]
        self.room -= len(path) + NAME_COST
        if self.room < 0:
            raise _Wrong(f"the paths of the tree take more than {NAMES_BYTES / 1e6:.0f} MB of memory")
        return line


def _mode(value: Any) -> int:
    return _number(value, 0, MODE)


def _size(value: Any) -> int:
    return _number(value, 0, 2**50)


class _Calls:
    """Checks the lines of calls, one after the other, and which files are open meanwhile."""

    def __init__(self, handles: int, lanes: int) -> None:
        self.limit = handles
        self.made = [0] * lanes  # calls of each lane
        self.who: list[int] = []  # of the last call
        self.used: dict[str, set[int]] = {"h": {0}, "m": set()}

    def __call__(self, line: Any) -> list:
        least = 3 if self.made else 2
        if type(line) is not list or len(line) < least or type(line[0]) is not str or line[0] not in KINDS:
            raise _Wrong("is not a call")
        if self.made:
            self._lane(line[-1])
            line = line[:-1]
        kind, result = line[:2]
        letters = KINDS[kind]
        if len(line) != 2 + sum(WIDTH.get(letter, 1) for letter in letters):
            raise _Wrong(f"a call {kind} has another number of arguments")
        if result is not None:
            _number(result, -4095)
        values = iter(line[2:])
        for letter in letters:
            self._check(letter, values)
        self._limits(kind, line)
        if kind in ("close", "unmap"):
            self.used["h" if kind == "close" else "m"].discard(line[2])
            self.used["h"].add(0)
        return line

    def _lane(self, who: Any) -> None:
        if type(who) is not list or len(who) % 2 == 0 or len(who) > 2 * LANES:
            raise _Wrong("has no lane")
        _number(who[0], 0, len(self.made) - 1)
        for lane, count in zip(who[1::2], who[2::2], strict=True):
            _number(count, 1, self.made[_number(lane, 0, len(self.made) - 1)])
        self.made[who[0]] += 1
        self.who = who

    def _check(self, letter: str, values: Iterator) -> None:
        value = next(values)
        if letter == "n":
            _number(value)
        elif letter == "t":
            _target(value)
        elif letter in "HM":
            used = self.used[letter.lower()]
            if _number(value, -1, self.limit - 1) in used:
                raise _Wrong(f"the number {value} is in use")
            if value >= 0:
                used.add(value)
        else:
            kind = "m" if letter == "m" else "h"
            if _number(value, 0, self.limit - 1) not in self.used[kind]:
                raise _Wrong(f"nothing open has the number {value}")
            if letter == "p" and (path := next(values)) != "":
                _path(path)

    @staticmethod
    def _limits(kind: str, line: list) -> None:
        """Numbers that could do more than a recorded program may."""
        if kind == "open" and (line[4] & ~OPEN_FLAGS or not 0 <= line[5] <= MODE):
            raise _Wrong("its flags or mode are invalid")
        if kind in ("mkdir", "chmod", "fchmod") and not 0 <= line[-1] <= MODE:
            raise _Wrong("its mode is invalid")
        if kind == "mknod" and (stat.S_IFMT(line[4]) not in SPECIAL or stat.S_IMODE(line[4]) > MODE):
            raise _Wrong("it would create a device")
        if kind in ("read", "pread", "write", "pwrite", "list") and not 0 <= line[3] <= 2**31:
            raise _Wrong("its length is invalid for a call")
        if "setxattr" in kind:
            number, size = line[3:5] if kind == "fsetxattr" else line[4:6]
            if number < KNOWN_ATTRIBUTES and (number != ACCESS_LIST or not 0 <= size <= 0o777):
                raise _Wrong("it would set an attribute with a meaning for the kernel")
            if not 0 <= size <= 65536:
                raise _Wrong("its length is invalid for an attribute")
        if kind == "map" and not 0 < line[4] <= 2**40:
            raise _Wrong("its length is invalid for a mapping")
