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

from pathlib import Path

from reprofs.errors import FileError
from reprofs.files import cache_folder, sha256, whole, write_bytes, write_text
from reprofs.guest import engine, lanes, listed
from reprofs.guest.steps import REPLAYS, Job
from reprofs.plan import recording
from reprofs.plan.read import shown
from reprofs.plan.recording import KINDS, OF_THE_SYSTEM, Content

MARK = b"REPLAY\x00\x01"
LAYOUT = 3  # of the file and of what was checked: in the names of those in the cache
SEEK_DATA, SEEK_HOLE = 3, 4


def programs(cache: Path, job: Job) -> dict[str, Path]:
    """name -> file of what a job needs beside the runner: the engine's programs, and the recordings that they replay.

    Raises UserError when one does not compile, is missing or damaged, or is not the one that the job was made with.
    """
    made = engine.build_all(cache, job.programs())
    return made | {word: _of_job(cache, word) for word in job.recordings()}


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
        write_bytes(kept, compiled(recording.read(path)))
        write_text(kept.with_suffix(".sha256"), sha256(kept))
    return kept


def compiled(content: Content) -> bytes:
    """A recording as `engine replay` reads it."""
    strings: dict[str, int] = {}

    def string(text: str) -> bytes:
        return _unsigned(strings.setdefault(text, len(strings)))

    trees = [b"".join(_entry(line, string) for line in tree) for tree in (content.before, content.after)]
    if content.head.follows_listings:
        found = listed.found(content)
        made, handles, rest = found.calls, found.handles, _passes(found.passes, string)
    elif content.who:
        (made, handles), rest = lanes.numbered(content), _lanes(content)
    else:
        made, handles, rest = content.calls, content.head.handles, b""
    calls = b"".join(_call(line, string) for line in made)
    blob = b"".join(text.encode() + b"\0" for text in strings)
    head = content.head
    numbers = [int(head.moved), handles, len(strings), len(blob), head.before, head.calls, head.after]
    return b"".join([MARK, *map(_unsigned, numbers), blob, trees[0], calls, trees[1], rest])


def _lanes(content: Content) -> bytes:
    made = [_unsigned(content.head.lanes)]
    for who, waits in zip(content.who, lanes.waits(content), strict=True):
        made += map(_unsigned, [who[0], len(waits), *(number for one in waits for number in one)])
    return b"".join(made)


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
