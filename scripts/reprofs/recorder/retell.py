"""From the calls of strace's text to the events of the recorder, and what the text says of them besides."""

from __future__ import annotations

import os
import re
import signal
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from reprofs.errors import UserError, count
from reprofs.recorder import events
from reprofs.recorder.events import Event
from reprofs.recorder.follow import AT_FDCWD, Begun, Follower, Task
from reprofs.recorder.names import Names
from reprofs.recorder.numbers import CALLS
from reprofs.recorder.strace import (
    ALL,
    ENDED,
    FD,
    HIDDEN,
    RESUMED,
    STRING,
    UNFINISHED,
    Bad,
    Call,
    Line,
    Survey,
    leads_to,
    lines,
    number_of,
    text_of,
    unescaped,
)
from reprofs.recorder.tree import path_in, relative

MAP_ANONYMOUS, CLONE_VM = 0x20, 0x100
UMASK = 0o022  # where no call tells it
PAGE = 4096
ACCESS_LIST = struct.Struct("<I" + "HHI" * 3)  # version; tag, permissions, id of owner, group, others
NUMBERS = {name: number for number, name in CALLS.items()}
TWO_TEXTS = re.compile(r"rename|link|symlink|l?(get|set|remove)xattr")
FORKS = {"fork": 0, "vfork": CLONE_VM, "clone": 0, "clone3": 0}
STATUS = re.compile(r"\bstx?_(mode|size|ino|nlink|blocks|dev)=(\w+)")
LOCK = re.compile(r"l_type=(\w+), l_whence=(\w+), l_start=(-?\d+), l_len=(-?\d+)")
CONTENT = ("read", "write", "pread64", "pwrite64")  # their text is no name
ENTRY = re.compile(rf"\{{d_ino=(\d+),[^\"]*?(?:d_type=(\w+), )?d_name=({STRING})(?:, d_type=(\w+))?\}}", re.DOTALL)
OF_32_BITS = frozenset(
    (
        *("_llseek", "mmap2", "fcntl64", "stat64", "lstat64", "fstat64", "fstatat64", "statfs64", "fstatfs64"),
        *("truncate64", "ftruncate64", "sendfile64", "fadvise64_64"),
    )
)
# What these name of files reaches none: scripts/engine/recorder.c lets them pass.
HARMLESS = ("getcwd", "poll", "ppoll", "select", "pselect6", "epoll_ctl", "sendmsg", "sendmmsg")


class Entry(NamedTuple):
    """One of a listing. kind: as d_type of getdents(2)."""

    name: str
    inode: int
    kind: int


@dataclass
class Told:
    """What the text says of a call beside its result, with the names of the recording.

    status: fields of stat(2); real: where what was opened is, None: not said; target: what a link holds.
    """

    status: dict[str, int] = field(default_factory=dict)
    entries: list[Entry] = field(default_factory=list)
    real: str | None = None
    target: str | None = None


class Follows(Follower):
    """Follows a program of another machine: nothing is looked up on this one."""

    def __init__(self, roots: list[str], folder: str, umask: int, names: Names) -> None:
        super().__init__(roots, folder, umask, names)
        self.told: dict[int, Told] = {}  # id of a line -> what is said of it

    def has(self, pid: int, fd: int) -> bool:
        """Whether a descriptor of a process is known."""
        return fd in self._tasks[pid].descriptors.open

    def folder(self, pid: int) -> str:
        """Where a process works."""
        return self._tasks[pid].place.folder.place

    def works_in(self, pid: int, folder: str) -> None:
        """Where a process really works, after it went through links."""
        self._tasks[pid].place.folder.place = folder

    def tell(self, pid: int, call: Call) -> None:
        """What the text says of a call that ends now."""
        begun = self._begun.get(pid)
        if not begun or begun.line is None or call.result is None or call.result < 0:
            return
        told, kind = Told(), begun.line[0]
        if kind in ("stat", "fstat"):
            told.status = {key: number_of(value) for key, value in STATUS.findall(" ".join(call.args[1:]))}
        elif kind == "list":
            told.entries = self._entries(begun, call)
        elif kind == "open" and (real := leads_to(call.rest)):
            below = path_in(self.roots, real)
            told.real = self.names.path(below) if below else None
        elif kind == "readlink":
            told.target = self._target(begun, call.args[-2])
        self.told[id(begun.line)] = told

    def _entries(self, begun: Begun, call: Call) -> list[Entry]:
        assert self._task
        found = [
            (os.fsdecode(unescaped(name[1:-1])), int(inode), number_of(kind or later or "0"))
            for inode, kind, name, later in ENTRY.findall(call.args[1])
        ]
        found = [one for one in found if one[0] not in (".", "..")]
        if file := self._file(self._task, begun.args, 0):
            self.order.listed(file.place, [name for name, _, _ in found])
        return [Entry(self.names.path(name), inode, kind) for name, inode, kind in found]

    def _target(self, begun: Begun, argument: str) -> str | None:
        if (target := text_of(argument)) == HIDDEN:
            return None
        assert self._task
        folder = 0 if begun.name == "readlinkat" else None
        link = self._full(self._base(self._task, begun.args, folder), begun.args.text(0))
        return self.names.target(relative(self.roots, os.fsdecode(target), link))

    def _listed(self, folder: str) -> None:
        """Told when the listing ends."""

    def _starts(self, program: str) -> None:
        """What rights it had is not known."""

    def _attribute(self, task: Task, begun: Begun, kind: str, *numbers: int, path: bool = True) -> None:
        event = begun.args
        if event.texts[1 if path else 0] != HIDDEN:
            super()._attribute(task, begun, kind, *numbers, path=path)
        elif self._path(task, event, None, event.text(0)) if path else self._file(task, event, 0):
            self.left_out["attribute whose name was not printed (strace -s 255 prints it)"] += 1
        else:
            self.outside += 1


@dataclass
class _Memory:
    """Mappings of files, (place, number), of processes that share them."""

    users: int = 1
    maps: list[tuple[int, int]] = field(default_factory=list)


class Reader:
    """Makes events of lines; the follower takes each before the next one is made."""

    def __init__(self, paths: Sequence[Path], survey: Survey, follower: Follows) -> None:
        self.paths, self.tails, self.follower = paths, survey.tails, follower
        self.opened = 0  # files that were open before the program began, or came to it otherwise
        self.mapped_bytes = self.mappings = self.unlisted = 0
        self.code: int | None = None  # of the first process
        self._exits = False  # a call that ends a process was seen, as every one is that does not end by a signal
        self._silent: dict[int, Line] = {}  # processes without a line so far -> where they were started
        self._first = 0
        self._memory: dict[int, _Memory] = {}
        self._waiting: dict[int, Call] = {}

    def events(self) -> Iterator[Event]:
        """All events. Raises UserError with file and line for what is no line of strace, or has not what is needed."""
        for index, line in enumerate(lines(self.paths)):
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
            yield _event(events.FORK, 0, pid)
        if text.startswith("[ Process"):
            yield _event(events.FOREIGN, pid, -1)
        elif match := ENDED.match(text):
            yield from self._ended(pid, match)
        elif pid not in self._memory:
            raise Bad(
                f"nothing before it starts process {pid}: let strace start the program, with -f and all calls traced"
            )
        elif RESUMED.match(text):
            if call := self._waiting.pop(pid, None):
                yield from self._end(pid, call)
        elif match := UNFINISHED.search(text):
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
        yield _event(events.EXIT, pid, 0)

    def _execute(self, pid: int, caller: int) -> Iterator[Event]:
        """The program of a process is another one; caller: the thread that asked for it."""
        yield from self._leave(caller)
        self._memory[pid] = _Memory()
        if caller in self._waiting:
            self._waiting[pid] = self._waiting.pop(caller)
        yield _event(events.EXEC, pid, caller)

    def _leave(self, pid: int) -> Iterator[Event]:
        """The mappings of a memory end when its last task leaves it."""
        memory = self._memory.pop(pid, None)
        if memory is None:
            return
        memory.users -= 1
        if not memory.users:
            yield from (_event(events.UNMAPPED, pid, number) for _, number in memory.maps)

    def lacks(self) -> list[str]:
        """Why the text is less than the program, after the last event. Raises UserError if processes are not in it."""
        if self.code is not None and self._silent:
            pid, line = next(iter(self._silent.items()))
            raise UserError(
                f"{line.path}: line {line.number}: process {pid}, which it starts, is not in the text: add -f to "
                "strace; of -ff name all files."
            )
        listings = count(self.unlisted, "listing was", "listings were")
        return [
            *(["the text ends before the program does"] if self.code is None else []),
            *(["strace was told to leave calls out (-e)"] if self.code is not None and not self._exits else []),
            *([f"{listings} not printed (strace -v prints them)"] if self.unlisted else []),
        ]

    # ---- a call

    def _begin(self, line: Line, call: Call) -> Iterator[Event]:
        pid = line.pid
        self._exits = self._exits or call.name in ("exit_group", "exit")
        if call.name in FORKS:
            if call.result is not None and call.result > 0:
                self._silent[call.child()] = line
                yield self._fork(pid, call)
            return
        yield from self._others(pid, call)
        if call.name in OF_32_BITS:
            yield _event(events.FOREIGN, pid, -1)
        elif call.name in NUMBERS and not self._is_without_file(call):
            yield self._entry(pid, call)
        else:
            self._unknown(call)

    @staticmethod
    def _is_without_file(call: Call) -> bool:
        """Whether a call maps memory of no file."""
        return call.name == "mmap" and bool(number_of(call.args[3]) & MAP_ANONYMOUS)

    def _fork(self, pid: int, call: Call) -> Event:
        match = re.search(r"flags=([^,}]+)", ", ".join(call.args))
        flags = number_of(match[1]) if match else FORKS[call.name]
        memory, child = self._memory[pid], call.child()
        if flags & CLONE_VM:
            memory.users += 1
        self._memory[child] = memory if flags & CLONE_VM else _Memory(1, [])
        return _event(events.FORK, pid, child, flags)

    def _others(self, pid: int, call: Call) -> Iterator[Event]:
        """Where the process really works; and files that it has, and was not seen to open, are opened now."""
        for argument in call.args:
            match = FD.match(argument)
            if not match or not (place := leads_to(argument)):
                continue
            fd = int(match[1])
            if fd == AT_FDCWD:
                if place != self.follower.folder(pid):
                    self.follower.works_in(pid, place)
            elif fd >= 0 and not self.follower.has(pid, fd) and path_in(self.follower.roots, place):
                self.opened += 1
                written = "write" in call.name or fd in (1, 2)  # as a shell opens them
                flags = os.O_WRONLY | os.O_APPEND if written else os.O_RDONLY
                path = os.fsencode(place)
                yield Event(events.ENTRY, pid, NUMBERS["open"], (0, flags, 0, 0, 0, 0), (path, b"", b""))
                yield Event(events.RESULT, pid, fd, (0,) * 6, (path, b"", b""))

    def _entry(self, pid: int, call: Call) -> Event:
        numbers, texts = call.numbers(), list[bytes]()
        most = 0 if call.name in CONTENT else 2 if TWO_TEXTS.match(call.name) else 1
        for argument in call.args:
            if argument.startswith('"') and len(texts) < most:
                texts.append(text_of(argument))
        if HIDDEN in texts and "xattr" not in call.name:
            raise Bad("a name in it was cut: use a strace that prints whole names, and record again")
        self._look_into(pid, call, numbers, texts)
        texts += [b""] * (3 - len(texts))
        return Event(events.ENTRY, pid, NUMBERS[call.name], tuple(numbers), (texts[0], texts[1], texts[2]))

    def _look_into(self, pid: int, call: Call, numbers: list[int], texts: list[bytes]) -> None:
        """What an argument points to takes its place, where that says what the call does; see recorder.c."""
        name, args = call.name, call.args
        if name == "openat2":
            found = dict(re.findall(r"(flags|mode)=(\w+)", args[2]))
            numbers[2:4] = [number_of(found.get(key, "0")) for key in ("flags", "mode")]
        elif name == "fcntl" and len(args) > 2 and (match := LOCK.search(args[2])):
            numbers[3] = number_of(match[1]) | number_of(match[2]) << 16
            numbers[4:6] = [int(match[3]) & ALL, int(match[4]) & ALL]
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

    def _unknown(self, call: Call) -> None:
        """A call without a number here: left out where it is given something below the roots."""
        name = call.name
        if name.startswith("syscall_"):
            if known := CALLS.get(int(name.removeprefix("syscall_"), 0)):
                self.follower.left_out[f"{known}, which that strace did not know"] += 1
            else:
                self.follower.said["unknown calls"] += 1
        elif name == "io_uring_enter":
            self.follower.left_out["io_uring, whose operations are no calls"] += 1
        elif name not in HARMLESS and name != "mmap":
            places = [leads_to(match[0]) for match in FD.finditer(", ".join(call.args))]
            places += [os.fsdecode(text_of(one)) for one in call.args if one.startswith('"/')]
            if any(place and path_in(self.follower.roots, place) for place in places):
                self.follower.left_out[name] += 1

    def _end(self, pid: int, call: Call) -> Iterator[Event]:
        result = call.result
        if call.name in ("execve", "execveat") and result == 0:
            yield from self._leave(pid)
            self._memory[pid] = _Memory()
            yield _event(events.EXEC, pid, pid)
        if call.name in ("munmap", "mremap") and result is not None and result >= 0:
            yield from self._move(pid, call)
        if result is None or call.name not in NUMBERS or self._is_without_file(call):
            return
        if call.name == "mmap" and result >= 0:
            yield from self._map(pid, call)
            return
        self.follower.tell(pid, call)
        if call.name.startswith("getdents") and result > 0 and not ENTRY.search(call.args[1]):
            self.unlisted += 1
        passed = call.name == "recvmsg" and "cmsg_level=0x1, cmsg_type=0x1," in call.args[1]
        place = os.fsencode(self._place(pid, call)) if result >= 0 else b""
        yield Event(events.RESULT, pid, result, (int(passed), 0, 0, 0, 0, 0), (place, b"", b""))

    def _place(self, pid: int, call: Call) -> str:
        """Where a call that ended well leads."""
        if call.name in ("open", "openat", "openat2", "creat"):
            if "<" not in call.rest:
                raise Bad("it does not say where the descriptor leads: add -y to strace")
            return leads_to(call.rest) or ""
        if call.name == "chdir":
            text = os.fsdecode(text_of(call.args[0]))
            return os.path.normpath(text if text.startswith("/") else f"{self.follower.folder(pid)}/{text}")
        return (leads_to(call.args[0]) or "") if call.name == "fchdir" else ""

    # ---- memory

    def _map(self, pid: int, call: Call) -> Iterator[Event]:
        """Which pages of a mapping were used is not told: all are taken to be."""
        at, size = call.result or 0, number_of(call.args[1]) & ALL
        yield from self._unmap(pid, at, size)
        place = leads_to(call.args[4])
        if not place or not path_in(self.follower.roots, place):
            yield _event(events.RESULT, pid, at)
            return
        self.mappings += 1
        self.mapped_bytes += size
        self._memory[pid].maps.append((at, self.mappings))
        yield _event(events.RESULT, pid, at, self.mappings)
        runs = events.PAIR.pack(0, (size + PAGE - 1) // PAGE)
        yield Event(events.USED, pid, self.mappings, (0,) * 6, (runs, b"", b""))

    def _unmap(self, pid: int, at: int, size: int) -> Iterator[Event]:
        maps = self._memory[pid].maps
        gone = [one for one in maps if at <= one[0] < at + size]
        for one in gone:
            maps.remove(one)
            yield _event(events.UNMAPPED, pid, one[1])

    def _move(self, pid: int, call: Call) -> Iterator[Event]:
        at, size = number_of(call.args[0]), number_of(call.args[1])
        if call.name == "munmap":
            yield from self._unmap(pid, at, size)
            return
        maps = self._memory[pid].maps
        maps[:] = [(call.result or 0, number) if place == at else (place, number) for place, number in maps]


def _event(kind: int, pid: int, value: int, argument: int = 0) -> Event:
    return Event(kind, pid, value, (argument, 0, 0, 0, 0, 0), (b"", b"", b""))


def _offset(argument: str) -> int:
    """An offset that an argument points to; all bits where it points to none."""
    return number_of(argument[1:].split("]")[0]) & ALL if argument.startswith("[") else ALL


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
