"""Converts calls in strace output to the recorder's events, with the additional data of strace."""

from __future__ import annotations

import os
import re
import signal
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from reprofs.errors import UserError, count
from reprofs.recorder import events, strace
from reprofs.recorder.entries import path_in
from reprofs.recorder.events import CALLS, HIDDEN, Entry, Event, Told
from reprofs.recorder.strace import STRING, Bad, Call, Line, leads_to, number_of, text_of, unescaped

MAP_ANONYMOUS, CLONE_VM = 0x20, 0x100
PAGE = 4096
ACCESS_LIST = struct.Struct("<I" + "HHI" * 3)  # version; tag, permissions, id of owner, group, others
KNOWN = frozenset(CALLS.values())
TWO_TEXTS = re.compile(r"rename|link|symlink|l?(get|set|remove)xattr")
FORKS = {"fork": 0, "vfork": CLONE_VM, "clone": 0, "clone3": 0}
STATUS = re.compile(r"\bstx?_(mode|size|ino|nlink|blocks|dev)=(\w+)")
STATS = ("stat", "lstat", "fstat", "newfstatat", "statx")
OPENS = ("open", "openat", "openat2", "creat")
LOCK = re.compile(r"l_type=(\w+), l_whence=(\w+), l_start=(-?\d+), l_len=(-?\d+)")
CONTENT = ("read", "write", "pread64", "pwrite64")  # their text is no name
ENTRY = re.compile(rf"\{{d_ino=(\d+),[^\"]*?(?:d_type=(\w+), )?d_name=({STRING})(?:, d_type=(\w+))?\}}", re.DOTALL)
_OF_32_BITS = """
_llseek mmap2 fcntl64 stat64 lstat64 fstat64 fstatat64 statfs64 fstatfs64 truncate64 ftruncate64 sendfile64 fadvise64_64
"""
OF_32_BITS = frozenset(_OF_32_BITS.split())
# What these name of files reaches none: scripts/engine/recorder.c lets them pass.
HARMLESS = ("getcwd", "poll", "ppoll", "select", "pselect6", "epoll_ctl", "sendmsg", "sendmmsg", "mmap")


@dataclass
class _Memory:
    """Mappings of files, (place, number), of processes that share them."""

    users: int = 1
    maps: list[tuple[int, int]] = field(default_factory=list)


class Reader:
    """Makes events of lines. roots: of the recording, absolute."""

    def __init__(self, paths: Sequence[Path], survey: strace.Survey, roots: Sequence[str]) -> None:
        self.paths, self.tails, self.roots = paths, survey.tails, roots
        self.mapped_bytes = self.mappings = self.unlisted = 0
        self.code: int | None = None  # of the first process
        self._exits = False  # a call that ends a process was seen, as every one is that does not end by a signal
        self._silent: dict[int, Line] = {}  # processes without a line so far -> where they were started
        self._first = 0
        self._memory: dict[int, _Memory] = {}
        self._waiting: dict[int, Call] = {}

    def events(self) -> Iterator[Event]:
        """All events. Raises UserError with file and line for what is no line of strace, or has not what is needed."""
        for index, line in enumerate(strace.lines(self.paths)):
            self._silent.pop(line.pid, None)
            try:
                yield from self._line(index, line)
            except (Bad, IndexError, ValueError) as bad:
                why = bad if isinstance(bad, Bad) else "it has other arguments than that call: the line is damaged"
                raise UserError(f"{line.path}: line {line.number}: {why}.") from None

    def _line(self, index: int, line: Line) -> Iterator[Event]:
        text, pid = line.text, line.pid
        if not text or text.startswith(("---", "strace: ")):
            return
        if not self._memory and not self._first:
            self._first, self._memory[pid] = pid, _Memory()
            yield Event(events.FORK, 0, pid)
        if text.startswith("[ Process"):
            yield Event(events.FOREIGN, pid, -1)
        elif match := strace.ENDED.match(text):
            yield from self._ended(pid, match)
        elif pid not in self._memory:
            raise Bad(
                f"nothing before it starts process {pid}: let strace start the program, with -f and all calls traced"
            )
        elif strace.RESUMED.match(text):
            if waiting := self._waiting.pop(pid, None):
                yield from self._end(pid, waiting)
        elif match := strace.UNFINISHED.search(text):
            call = Call(text[: match.start()] + self.tails.get(index, ""))
            yield from self._begin(line, call)
            self._waiting[pid] = call
        else:
            call = Call(text)
            yield from self._begin(line, call)
            yield from self._end(pid, call)

    def _ended(self, pid: int, match: re.Match) -> Iterator[Event]:
        if match[3]:
            other = int(match[3])
            if other not in self._memory:
                raise Bad(f"nothing before it starts thread {other}: let strace start the program, with -f")
            yield from self._leave(pid)
            yield from self._execute(pid, other)
            return
        if pid == self._first:
            known = match[2] in signal.Signals.__members__ if match[2] else False
            self.code = int(match[1]) if match[1] else 128 + (signal.Signals[match[2]] if known else 0)
            self._exits = self._exits or not match[1]
        yield from self._leave(pid)
        self._waiting.pop(pid, None)
        yield Event(events.EXIT, pid)

    def _execute(self, pid: int, caller: int) -> Iterator[Event]:
        """The program of a process is another one; caller: the thread that asked for it."""
        yield from self._leave(caller)
        self._memory[pid] = _Memory()
        if caller in self._waiting:
            self._waiting[pid] = self._waiting.pop(caller)
        yield Event(events.EXEC, pid, caller)

    def lacks(self) -> list[str]:
        """Why the text is less than the program, after the last event. Raises UserError if processes are not in it."""
        if self.code is not None and self._silent:
            pid, line = next(iter(self._silent.items()))
            raise UserError(
                f"{line.path}: line {line.number}: process {pid}, started here, is missing: add -f to strace; "
                "with -ff name all files."
            )
        listings = count(self.unlisted, "listing was", "listings were")
        return [
            *(["the text ends before the program does"] if self.code is None else []),
            *(["strace was told to leave calls out (-e)"] if self.code is not None and not self._exits else []),
            *([f"{listings} not printed (strace -v prints them)"] if self.unlisted else []),
        ]

    # ---- a call

    def _begin(self, line: Line, call: Call) -> Iterator[Event]:
        pid, name = line.pid, call.name
        self._exits = self._exits or name in ("exit_group", "exit")
        if name in FORKS:
            if call.result is not None and call.result > 0:
                self._silent[call.child()] = line
                yield self._fork(pid, call)
        elif name in OF_32_BITS:
            yield Event(events.LEFT_OUT, pid, name=name, leads=call.leads())
            yield Event(events.FOREIGN, pid, -1)
        elif name in KNOWN and not _is_without_file(call):
            numbers, texts = call.numbers(), _texts(call)
            self._look_into(pid, call, numbers, texts)
            first, second, *_ = *texts, b"", b""
            yield Event(events.ENTRY, pid, 0, tuple(numbers), (first, second, b""), name, call.leads())
        else:
            yield self._unknown(pid, call)

    def _fork(self, pid: int, call: Call) -> Event:
        match = re.search(r"flags=([^,}]+)", ", ".join(call.args))
        flags = number_of(match[1]) if match else FORKS[call.name]
        memory, child = self._memory[pid], call.child()
        memory.users += bool(flags & CLONE_VM)
        self._memory[child] = memory if flags & CLONE_VM else _Memory()
        return Event(events.FORK, pid, child, (flags,))

    def _look_into(self, pid: int, call: Call, numbers: list[int], texts: list[bytes]) -> None:
        """What an argument points to takes its place, where that says what the call does; see recorder.c."""
        name, args = call.name, call.args
        if name == "openat2":
            found = dict(re.findall(r"(flags|mode)=(\w+)", args[2]))
            numbers[2:4] = [number_of(found.get(key, "0")) for key in ("flags", "mode")]
        elif name == "fcntl" and len(args) > 2 and (match := LOCK.search(args[2])):
            numbers[3] = number_of(match[1]) | number_of(match[2]) << 16
            numbers[4:6] = [int(match[3]) & strace.ALL, int(match[4]) & strace.ALL]
        elif name in ("setxattr", "lsetxattr", "fsetxattr"):
            numbers[5] = _mode_of_list(args[2])
        elif name == "sendfile":
            numbers[2] = _offset(args[2])
        elif name == "copy_file_range":
            numbers[1], numbers[3] = _offset(args[1]), _offset(args[3])
        elif name == "splice":
            numbers[1], numbers[3] = int(args[1] != "NULL"), int(args[3] != "NULL")
        elif name in ("preadv2", "pwritev2"):
            numbers[4:6] = [0, numbers[4]]
        elif name == "bind" and (match := re.search(rf"sun_path=({STRING})", args[1])):
            texts[:] = [unescaped(match[1][1:-1])]
        elif name == "msync":
            below = [one for one in self._memory[pid].maps if one[0] <= numbers[0]]
            at, numbers[5] = max(below, default=(numbers[0], 0))
            numbers[4] = numbers[0] - at

    def _unknown(self, pid: int, call: Call) -> Event:
        """A call that is not followed: left out where it is given something below the roots."""
        kind, name, what = events.LEFT_OUT, call.name, ""
        if name.startswith("syscall_"):
            known = CALLS.get(int(name.removeprefix("syscall_"), 0))
            kind = events.LEFT_OUT if known else events.SAID
            what = f"{known}, which that strace did not know" if known else "unknown calls"
        elif name == "io_uring_enter":
            what = "io_uring, whose operations are no calls"
        elif name not in HARMLESS:
            places = [leads_to(match[0]) for match in strace.FD.finditer(", ".join(call.args))]
            places += [os.fsdecode(text_of(one)) for one in call.args if one.startswith('"/')]
            what = name if any(place and path_in(self.roots, place) for place in places) else ""
        return Event(kind, pid, texts=(what.encode(), b"", b""), name=name, leads=call.leads())

    def _end(self, pid: int, call: Call) -> Iterator[Event]:
        name, result = call.name, call.result
        if name in ("execve", "execveat") and result == 0:
            yield from self._leave(pid)
            self._memory[pid] = _Memory()
            yield Event(events.EXEC, pid, pid)
        if name in ("munmap", "mremap") and result is not None and result >= 0:
            yield from self._move(pid, call)
        if result is None or name not in KNOWN or _is_without_file(call):
            return
        if name == "mmap" and result >= 0:
            yield from self._map(pid, call)
        elif result < 0:
            yield Event(events.RESULT, pid, result)
        else:
            if name.startswith("getdents") and result > 0 and not ENTRY.search(call.args[1]):
                self.unlisted += 1
            passed = name == "recvmsg" and "cmsg_level=0x1, cmsg_type=0x1," in call.args[1]
            if name in OPENS and "<" not in call.rest:
                raise Bad("it does not say where the descriptor leads: add -y to strace")
            place = os.fsencode((name in OPENS and leads_to(call.rest)) or "")
            yield Event(events.RESULT, pid, result, (int(passed),), (place, b"", b""), told=_told(call))

    # ---- memory

    def _leave(self, pid: int) -> Iterator[Event]:
        """The mappings of a memory end when its last task leaves it."""
        memory = self._memory.pop(pid, None)
        if memory is None:
            return
        memory.users -= 1
        if not memory.users:
            yield from (Event(events.UNMAPPED, pid, number) for _, number in memory.maps)

    def _map(self, pid: int, call: Call) -> Iterator[Event]:
        """Which pages of a mapping were used is not told: all are taken to be."""
        at, size = call.result or 0, number_of(call.args[1]) & strace.ALL
        yield from self._unmap(pid, at, size)
        place = leads_to(call.args[4])
        if not place or not path_in(self.roots, place):
            yield Event(events.RESULT, pid, at, (0,))
            return
        self.mappings += 1
        self.mapped_bytes += size
        self._memory[pid].maps.append((at, self.mappings))
        yield Event(events.RESULT, pid, at, (self.mappings,))
        runs = events.PAIR.pack(0, (size + PAGE - 1) // PAGE)
        yield Event(events.USED, pid, self.mappings, texts=(runs, b"", b""))

    def _unmap(self, pid: int, at: int, size: int) -> Iterator[Event]:
        maps = self._memory[pid].maps
        for gone in [one for one in maps if at <= one[0] < at + size]:
            maps.remove(gone)
            yield Event(events.UNMAPPED, pid, gone[1])

    def _move(self, pid: int, call: Call) -> Iterator[Event]:
        at, size = number_of(call.args[0]), number_of(call.args[1])
        if call.name == "munmap":
            yield from self._unmap(pid, at, size)
            return
        maps = self._memory[pid].maps
        maps[:] = [(call.result or 0, number) if place == at else (place, number) for place, number in maps]


def _is_without_file(call: Call) -> bool:
    """Whether a call maps memory of no file."""
    return call.name == "mmap" and bool(number_of(call.args[3]) & MAP_ANONYMOUS)


def _texts(call: Call) -> list[bytes]:
    """The names that a call is given, at most two."""
    most = 0 if call.name in CONTENT else 2 if TWO_TEXTS.match(call.name) else 1
    texts = [text_of(argument) for argument in [one for one in call.args if one.startswith('"')][:most]]
    if HIDDEN in texts and "xattr" not in call.name:
        raise Bad("a name in it was cut: use a strace that prints whole names, and record again")
    return texts


def _told(call: Call) -> Told:
    """What the text says of a call that succeeded."""
    told = Told()
    if call.name in STATS:
        told.status = {key: number_of(value) for key, value in STATUS.findall(" ".join(call.args[1:]))}
    elif call.name.startswith("getdents"):
        found = [
            Entry(os.fsdecode(unescaped(name[1:-1])), int(inode), number_of(kind or later or "0"))
            for inode, kind, name, later in ENTRY.findall(call.args[1])
        ]
        told.entries = [entry for entry in found if entry.name not in (".", "..")]
    elif call.name in ("readlink", "readlinkat") and (target := text_of(call.args[-2])) != HIDDEN:
        told.target = os.fsdecode(target)
    return told


def _offset(argument: str) -> int:
    """An offset that an argument points to; all bits where it points to none."""
    return number_of(argument[1:].split("]")[0]) & strace.ALL if argument.startswith("[") else strace.ALL


def _mode_of_list(argument: str) -> int:
    """The mode that an access list of owner, group and others says, and 1 << 16; else 0. Source: acl(5)."""
    value = text_of(argument) if argument.startswith('"') else b""
    if len(value) != ACCESS_LIST.size:
        return 0
    version, *found = ACCESS_LIST.unpack(value)
    if version != 2 or found[0::3] != [1, 4, 32]:
        return 0
    owner, group, others = (permissions & 7 for permissions in found[1::3])
    return 1 << 16 | owner << 6 | group << 3 | others
