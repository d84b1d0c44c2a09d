"""Recordings as `engine replay` reads them: checked, and as compact as a lab's memory module asks.

The file is numbers of seven bits a byte, the lowest first, the highest bit saying that more follow; signed ones are
folded (0, -1, 1, -2, ...). After eight bytes of a mark: flags (1: content was moved), handles, strings, bytes of all
strings, entries before, calls, entries after. Then the strings, each ended by a zero byte; the entries before; the
calls; the entries after; of several lanes their number, and for each call its lane, how many it waits for, and
these: lane, number of that one's calls (guest/lanes.py). Where listings are followed, 0 and the number of passes; of
each its first call, the open folder, how many parts it has, and of each of these name, calls and passes within
(guest/listed.py). In both cases open files have numbers of their own, never used again.
Entry: kind as a letter, string, numbers or string. Call: number of its kind in
plan.recording.KINDS, how its result is checked (0: equal, 1: both succeed or both fail, 2: not), result, arguments.
"""

from __future__ import annotations

import io
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from reprofs.errors import FileError, UserError
from reprofs.files import cache_folder, intact, sha256, whole, write_text
from reprofs.guest import engine, lanes, listed
from reprofs.guest.cache import writable
from reprofs.guest.steps import REPLAYS, Job
from reprofs.plan import recording
from reprofs.plan.read import shown
from reprofs.plan.recording import (
    AFTER,
    BEFORE,
    CALL,
    KINDS,
    NAME_COST,
    NAMES_BYTES,
    OF_THE_SYSTEM,
    Content,
    Line,
    Recording,
)
from reprofs.workplace import workplace

MARK = b"REPLAY\x00\x01"
IMAGES, IMAGE = "images", ".erofs"  # folder of the cache, suffix of its files
LAYOUT = 3  # of the file and of what was checked: in the names of those in the cache
SEEK_DATA, SEEK_HOLE = 3, 4
SAID_FROM = 200_000  # calls that take some seconds to read


def programs(cache: Path, job: Job) -> dict[str, Path]:
    """name -> file of what a job needs beside the runner: the engine's programs, the recordings that they replay, and
    images (DIGEST.erofs).

    Raises UserError when one does not compile, is missing or damaged, or is not the one that the job was made with.
    """
    made = engine.build_all(cache, job.programs())
    made |= {path.name: path for path in (image_of(cache, digest) for digest in job.images())}
    return made | {word: _of_job(cache, word) for word in job.recordings()}


def image_of(cache: Path, digest: str) -> Path:
    """The image of a job (`guest.image.keep`). Raises UserError when it is missing or damaged."""
    path = cache / IMAGES / f"{digest}{IMAGE}"
    if not intact(path, digest):
        raise UserError(f"{path} is missing or damaged: run the command that made it again.")
    return path


def provide(made: dict[str, Path], folder: Path) -> dict[str, Path]:
    """Puts what `programs` returned into a new folder, for an engine on this machine's own kernel, and returns it with
    what else is there: scripts/engine/contain.c, which starts the programs that replay and keeps them in their folder.

    Raises UserError when that does not compile.
    """
    (folder / "contained").mkdir(parents=True)
    replays = made.keys() & set(REPLAYS)
    if replays:
        made = made | {"contain": engine.build_contain(cache_folder())}
    for name, path in made.items():
        (folder / ("contained" if name in replays else "") / name).symlink_to(path)
    for name in replays:
        (folder / name).symlink_to(made["contain"])
    return made


def _of_job(cache: Path, word: str) -> Path:
    """The compiled recording of a word NAME-DIGEST."""
    name, _, digest = word.rpartition("-")
    path = recording.path_of(name)
    if recording.digest(path) != digest:
        raise FileError(f"{shown(path)} was changed after the trial was planned: run it again.")
    kept = cache / "recordings" / f"{digest}-{LAYOUT}"
    if not whole(kept):
        kept.parent.mkdir(parents=True, exist_ok=True)
        with writable(cache), workplace(cache / "work") as work:
            head = recording.read_head(path)
            if head.calls > SAID_FROM:
                print(f"reprofs: reading {shown(path)}, {head.calls:,} calls", file=sys.stderr, flush=True)
            with (work / "new").open("wb") as file:
                write(file, head, lambda: recording.each(path))
            (work / "new").rename(kept)
            write_text(kept.with_suffix(".sha256"), sha256(kept))
    return kept


def compiled(content: Content) -> bytes:
    """A recording as `engine replay` reads it."""
    made = io.BytesIO()
    write(made, content.head, content.each)
    return made.getvalue()


def write(into: BinaryIO, head: Recording, each: Callable[[], Iterator[Line]]) -> None:
    """Writes a recording as `engine replay` reads it. each: gives its lines, as often as it is called.

    Where no listings are followed, no more of it is in memory than its different paths. Raises UserError for more of
    these than there may be.
    """
    parts = _by_listings(head, each) if head.follows_listings else _in_order(head, each)
    strings = parts.strings
    numbers = [head.moved, parts.handles, len(strings.numbers), strings.bytes, head.before, head.calls, head.after]
    into.write(b"".join([MARK, *map(_unsigned, numbers)]))
    into.writelines(text.encode() + b"\0" for text in strings.numbers)
    into.write(parts.trees[0])
    into.writelines(_call(line, strings.number) for line in parts.calls)
    into.write(parts.trees[1])
    into.write(parts.rest)


class _Strings:
    """Numbers for the different paths, from 0."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.bytes = 0  # of all, each with one to end it

    def number(self, text: str) -> bytes:
        """That of a path, a new one if need be. Raises UserError for too many."""
        found = self.numbers.get(text)
        if found is None:
            found = self.numbers[text] = len(self.numbers)
            self.bytes += len(text) + 1
            if self.bytes + found * NAME_COST > NAMES_BYTES:
                raise UserError(
                    f"the paths of a recording take more than {NAMES_BYTES / 1e6:.0f} MB of memory: record a shorter "
                    "run, or fewer folders (--below)."
                )
        return _unsigned(found)


@dataclass
class _Parts:
    """What a file has of a recording. handles: numbers of open files; rest: lanes or passes."""

    strings: _Strings
    trees: tuple[bytearray, bytearray]
    calls: Iterable[list]
    handles: int
    rest: bytes | bytearray


def _in_order(head: Recording, each: Callable[[], Iterator[Line]]) -> _Parts:
    strings, paths, trees = _Strings(), _Strings(), (bytearray(), bytearray())
    numbers, waits, rest = lanes.Numbers(), lanes.Waits(head.lanes), bytearray()
    for part, line, who in each():
        if part != CALL:
            trees[part == AFTER].extend(_entry(line, strings.number))
            if part == BEFORE and head.lanes:
                waits.names.add(line)
            continue
        for value in line[2:]:
            if isinstance(value, str):
                paths.number(value)
        if who:
            found = waits.of(numbers.of(line), who)
            rest += b"" if rest else _unsigned(head.lanes)
            rest += b"".join(map(_unsigned, [who[0], len(found), *itertools.chain(*found)]))
    for text in paths.numbers:  # those of the trees come first
        strings.number(text)
    again = lanes.Numbers()
    calls = (again.of(line) if rest else line for part, line, _ in each() if part == CALL)
    return _Parts(strings, trees, calls, numbers.count if rest else head.handles, rest)


def _by_listings(head: Recording, each: Callable[[], Iterator[Line]]) -> _Parts:
    parts: tuple[list, list, list] = ([], [], [])
    for part, line, _ in each():
        parts[part].append(line)
    strings, trees = _Strings(), (bytearray(), bytearray())
    for tree, lines in zip(trees, (parts[BEFORE], parts[AFTER]), strict=True):
        for line in lines:
            tree += _entry(line, strings.number)
    found = listed.found(Content(head, *parts))
    rest = _passes(found.passes, strings.number)
    return _Parts(strings, trees, found.calls, found.handles, rest)


def _passes(passes: list[listed.Pass], string) -> bytes:
    made = [_unsigned(0), _unsigned(len(passes))]
    for one in passes:
        made += map(_unsigned, [one.first, one.file, len(one.parts)])
        for part in one.parts:
            made += [string(part.name), _unsigned(part.calls), _unsigned(part.passes)]
    return b"".join(made)


def _entry(line: list, string) -> bytes:
    kind, path, *more = line
    rest = [string(value) if isinstance(value, str) else _unsigned(value) for value in more]
    return b"".join([kind.encode(), string(path), *rest])


_NUMBERS = {kind: bytes([number]) for number, kind in enumerate(KINDS)}


def _call(line: list, string) -> bytes:
    kind, result, *values = line
    check = 2 if result is None else 1 if kind in OF_THE_SYSTEM else 0
    if kind == "clone" or (kind == "seek" and values[2] in (SEEK_DATA, SEEK_HOLE)):
        check = 2
    found = [_NUMBERS[kind], bytes([check]), _signed(result or 0)]
    found += [string(value) if isinstance(value, str) else _signed(value) for value in values]
    return b"".join(found)


def _signed(value: int) -> bytes:
    return _unsigned(value << 1 if value >= 0 else (-value << 1) - 1)


def _unsigned(value: int) -> bytes:
    if value < 128:
        return _ONE[value]
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    made.append(value)
    return bytes(made)


_ONE = [bytes([value]) for value in range(128)]
