"""From the events of a program to the calls of a recording: which files its processes have open, and where they work.

A call is written down when it begins, for in that order it is replayed, and gets its result when it ends. Numbers of
descriptors become numbers of open files: what fork, dup and exec do to descriptors is followed here and not replayed.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from reprofs.plan.recording import ACCESS_LIST, HANDLES, KNOWN_ATTRIBUTES, LANES, MODE, OPEN_FLAGS
from reprofs.recorder import events
from reprofs.recorder.events import Event
from reprofs.recorder.names import Names
from reprofs.recorder.numbers import CALLS, PLAIN, Shape
from reprofs.recorder.order import Order
from reprofs.recorder.tree import path_in, relative

AT_FDCWD = -100
CLONE_FS, CLONE_FILES = 0x200, 0x400
RESTARTED = range(-516, -511)  # ERESTARTSYS and its like: the call is made again
REFUSED = (-errno.EPERM, -errno.EACCES)  # of the user, not of the file system; who replays may be another
PATH_MAX = 4096  # bytes of a path with its end
MOST_CALLS = 20_000_000
OWN_DESCRIPTOR = re.compile(r"/(?:proc/self|dev)/fd/([0-9]{1,7})")
UNSEEN = ("io_submit", "pidfd_getfd")  # what they do is in memory of the program
FICLONE, FIOCLEX, FIONCLEX = 0x40049409, 0x5451, 0x5450


class TooMany(Exception):
    """More calls than a recording can have."""


@dataclass
class OpenFile:
    """What descriptors lead to. number: in the recording, -1 outside; path: in the recording, with real names."""

    place: str
    number: int = -1
    references: int = 1


@dataclass
class Descriptors:
    """Those of a process, which others may share: descriptor -> (file, whether exec closes it)."""

    open: dict[int, tuple[OpenFile, bool]] = field(default_factory=dict)
    references: int = 1


@dataclass
class Place:
    """Where a process works, and its umask; others may share it."""

    folder: OpenFile
    umask: int
    references: int = 1


@dataclass
class Task:
    """A thread. lane: of its calls; after: lane -> how many lines come before its next one."""

    descriptors: Descriptors
    place: Place
    lane: int = 0
    parent: Task | None = None
    after: dict[int, int] = field(default_factory=dict)


@dataclass
class Begun:
    """A call that has begun. line: in the recording, or none; then: what it does when it succeeds."""

    name: str
    args: Event
    line: list | None = None
    then: Callable[[int, str], None] | None = None


class Follower:
    """Takes the events of a program, one after the other.

    roots: absolute, without links; folder: where the program begins; umask: with which.
    """

    def __init__(self, roots: list[str], folder: str, umask: int, names: Names) -> None:
        self.roots, self.names = roots, names
        self.lines: list[list] = []
        self.left_out: Counter[str] = Counter()
        self.outside = 0
        self.said: Counter[str] = Counter()  # what is told of the program besides
        self.threads: set[int] = set()
        self.failed: tuple[int, str] | None = None  # why the program could not be started
        self.ended: tuple[int, bool] | None = None  # its exit code, whether its time was over
        self._free: list[int] = []
        self.handles = 1
        self.order = Order()
        self._tasks: dict[int, Task] = {}
        self._begun: dict[int, Begun] = {}
        self._mappings: dict[int, list] = {}  # of the recorder -> line
        self._used: dict[int, list[tuple[int, int]]] = {}  # id of a line -> pages
        self._who: list[tuple[int, dict[int, int]]] = []  # of each line: its lane, and after which lines of others
        self._free_lanes: list[int] = []
        self.lanes = 1
        self._task: Task | None = None  # whose event it is
        self._first = Task(Descriptors(), Place(OpenFile(folder), umask))
        self._first.place.folder = self._entered(folder)

    # ---- the result

    def calls(self) -> tuple[list[list], list[list[int]]]:
        """The calls that ended, with the pages of mappings that were used, and of several lanes whose each is."""
        found, who = [], []
        late: dict[int, dict[int, int]] = {}
        kept: list[list[int]] = [[] for _ in range(self.lanes)]  # numbers of the lines of each lane
        for number, (line, (lane, after)) in enumerate(zip(self.lines, self._who, strict=True)):
            for other, bound in after.items():  # a line that is left out leaves its waiting to the next
                before = late.setdefault(lane, {})
                before[other] = max(before.get(other, 0), bound)
            if line[0] and line[1] is not False:
                found.append(line)
                counts = {other: bisect_left(kept[other], bound) for other, bound in late.pop(lane, {}).items()}
                who.append([lane, *(n for one in counts.items() if one[1] and one[0] != lane for n in one)])
                kept[lane].append(number)
                if line[0] == "map" and line[1] == 0:
                    written = int(line[6] != 2 and bool(line[5] & 2))
                    touches = [["touch", 0, line[7], *run, written] for run in self._used.get(id(line), [])]
                    found += touches
                    who += [[lane]] * len(touches)
                    kept[lane] += [number] * len(touches)
        return found, who if self.lanes > 1 else []

    # ---- events

    def take(self, event: Event) -> None:
        """One event."""
        self._task = self._tasks.get(event.pid)
        if event.type == events.ENTRY:
            begun = Begun(CALLS.get(event.value, f"call {event.value}"), event)
            self._begun[event.pid] = begun
            if event.pid in self._tasks:
                self._begin(self._tasks[event.pid], begun)
        elif event.type == events.RESULT:
            if (ending := self._begun.pop(event.pid, None)) and event.pid in self._tasks:
                self._end(ending, event)
        elif event.type == events.FORK:
            self._fork(event)
        elif event.type == events.EXEC:
            self._exec(event)
        elif event.type == events.EXIT:
            self._exit(event.pid)
        elif event.type == events.USED:
            if line := self._mappings.get(event.value):
                self._used[id(line)] = event.runs()
        elif event.type == events.UNMAPPED:
            if (line := self._mappings.pop(event.value, None)) is not None:
                self._line("unmap", line[7])[1] = 0
                self._free.append(line[7])
        elif event.type == events.FOREIGN:
            self.said["io_uring" if event.value >= 0 else "32-bit calls"] += 1
            if event.value < 0:
                self.left_out["call of a 32-bit program"] += 1
        elif event.type == events.END:
            self.ended = (event.value, bool(event.args[0]))
        elif event.type == events.FAILED:
            self.failed = (event.value, event.text(0))

    def _fork(self, event: Event) -> None:
        parent = self._tasks.get(event.pid)
        if parent is None:
            self._tasks[event.value] = self._first
            return
        flags = event.args[0]
        if flags & CLONE_FILES:
            descriptors = parent.descriptors
            descriptors.references += 1
        else:
            descriptors = Descriptors(dict(parent.descriptors.open))
            for file, _ in descriptors.open.values():
                file.references += 1
        if flags & CLONE_FS:
            place = parent.place
            place.references += 1
        else:
            place = Place(parent.place.folder, parent.place.umask)
            place.folder.references += 1
        lane = self._free_lanes.pop() if self._free_lanes else self.lanes
        if lane == LANES:  # more at the same time share them
            lane = len(self._tasks) % LANES
        self.lanes = max(self.lanes, lane + 1)
        after = parent.after | {parent.lane: len(self.lines)}
        self._tasks[event.value] = Task(descriptors, place, lane, parent, after)

    def _exec(self, event: Event) -> None:
        """The program is another one. event.value: the thread that called execve, now under the process's number."""
        if event.value != event.pid:
            self._exit(event.pid)
            if event.value in self._tasks:
                self._tasks[event.pid] = self._tasks.pop(event.value)
            if event.value in self._begun:
                self._begun[event.pid] = self._begun.pop(event.value)
        task = self._tasks[event.pid]
        if task.descriptors.references > 1:
            task.descriptors.references -= 1
            task.descriptors = Descriptors(dict(task.descriptors.open))
            for file, _ in task.descriptors.open.values():
                file.references += 1
        for fd, (file, closes) in list(task.descriptors.open.items()):
            if closes:
                del task.descriptors.open[fd]
                self._close(file)

    def _exit(self, pid: int) -> None:
        self._begun.pop(pid, None)
        task = self._tasks.pop(pid, None)
        if task is None:
            return
        task.descriptors.references -= 1
        if not task.descriptors.references:
            for file, _ in task.descriptors.open.values():
                self._close(file)
        task.place.references -= 1
        if not task.place.references:
            self._close(task.place.folder)
        if all(other.lane != task.lane for other in self._tasks.values()):
            self._free_lanes.append(task.lane)
        if task.parent:
            for lane, count in [*task.after.items(), (task.lane, len(self.lines))]:
                task.parent.after[lane] = max(task.parent.after.get(lane, 0), count)

    # ---- a call begins and ends

    def _begin(self, task: Task, begun: Begun) -> None:
        shape = PLAIN.get(begun.name)
        if shape is not None:
            self._simple(task, begun, shape)
            return
        own = getattr(self, f"_on_{begun.name.replace(' ', '_')}", None)
        if own:
            own(task, begun)
        else:
            self._unknown(task, begun)

    def _end(self, begun: Begun, event: Event) -> None:
        result, line = event.value, begun.line
        if line is not None:
            self.threads.add(event.pid)
            if result < 0:
                self._failed(line)
            if result in RESTARTED or result == -errno.EINTR:
                line[0] = ""
            elif result in REFUSED:
                line[0] = ""
                self.left_out["refused to this user"] += 1
            else:
                line[1] = None if result < 0 and line[0] in ("flock", "lock") else result  # a replay waits for no lock
        if begun.then and result >= 0:
            begun.then(result, event.text(0))
        if begun.name == "recvmsg" and event.args[0]:
            self.left_out["descriptor passed through a socket"] += 1
        if begun.name == "mmap" and line is not None:
            self._mapped(line, event)

    def _failed(self, line: list) -> None:
        """A call that makes an open file has made none."""
        if line[0] in ("open", "enter"):
            self._free.append(line[-1])
            line[-1] = -1

    def _mapped(self, line: list, event: Event) -> None:
        if event.value < 0 and event.value >= -4095:
            self._free.append(line[7])
            line[7] = -1
            return
        line[1] = 0
        if event.args[0]:
            self._mappings[event.args[0]] = line
        else:
            line[0] = ""
            self._free.append(line[7])

    def _unknown(self, task: Task, begun: Begun) -> None:
        """A call that is not replayed: left out if it is given an open file or a path below a root, as far as seen."""
        event = begun.args
        texts = [event.text(i) for i, text in enumerate(event.texts) if text]
        below = any(self._path(task, event, folder, text) for text in texts for folder in (None, 0))
        if below or begun.name in UNSEEN or self._file(task, event, 0):
            self.left_out[begun.name] += 1
        elif begun.name.startswith("call "):
            self.said["unknown calls"] += 1
        else:
            self.outside += 1

    def _simple(self, task: Task, begun: Begun, shape: Shape) -> None:
        """A call whose arguments are names, open files and numbers, as a table says."""
        event, values = begun.args, []
        for text, folder in enumerate(shape.paths):
            where = self._path(task, event, folder, event.text(text))
            if where is None or (where[1] == "" and shape.kind == "readlink"):  # that is /proc's
                if text > 0 or any(self._path(task, event, one, event.text(1)) for one in shape.paths[1:]):
                    self.left_out[f"{begun.name} between the roots and elsewhere"] += 1
                else:
                    self.outside += 1
                return
            values += [where[0], self.names.path(where[1])]
        for number in shape.files:
            file = self._file(task, event, number)
            if file is None:
                self.outside += 1
                return
            values.append(file.number)
            if shape.kind == "list":
                self._listed(file.place)
        begun.line = self._line(shape.kind, *values, *(number(event) for number in shape.numbers))

    def _listed(self, folder: str) -> None:
        """A folder is being listed: the system lists it to others in the same order."""
        if not self.order.knows(folder):
            with suppress(OSError):  # gone meanwhile
                self.order.listed(folder, [entry.name for entry in os.scandir(folder)])

    # ---- open files

    def _line(self, kind: str, *values: object) -> list:
        if len(self.lines) >= MOST_CALLS:
            raise TooMany
        line = [kind, False, *values]  # False: it has not ended
        self.lines.append(line)
        task = self._task or self._first
        self._who.append((task.lane, task.after))
        task.after = {}
        return line

    def _number(self) -> int:
        if self._free:
            return self._free.pop()
        self.handles += 1
        if self.handles > HANDLES:
            raise TooMany
        return self.handles - 1

    def _entered(self, folder: str) -> OpenFile:
        """The folder in which the program begins."""
        below = path_in(self.roots, folder)
        if below is None:
            return OpenFile(folder)
        if below == ".":
            return OpenFile(folder, 0, 2)
        number = self._number()
        self._line("enter", 0, self.names.path(below), number)[1] = 0
        return OpenFile(folder, number)

    def _close(self, file: OpenFile, begun: Begun | None = None) -> None:
        """A descriptor fewer leads to the file; the last one closes it. begun: the call that does so."""
        file.references -= 1
        if file.references or file.number <= 0:
            return
        line = self._line("close", file.number)
        line[1] = 0
        if begun and not begun.line:
            begun.line = line
        self._free.append(file.number)
        file.number = -1

    def _file(self, task: Task, event: Event, number: int) -> OpenFile | None:
        """The open file below a root that an argument of a call means."""
        found = task.descriptors.open.get(event.fd(number))
        return found[0] if found and found[0].number >= 0 else None

    def _bind(self, task: Task, fd: int, file: OpenFile, closes: bool) -> None:
        """A descriptor leads to the file from now on."""
        before = task.descriptors.open.get(fd)
        task.descriptors.open[fd] = (file, closes)
        if before:
            self._close(before[0])

    def _path(self, task: Task, event: Event, folder: int | None, text: str) -> tuple[int, str] | None:
        """(number of an open folder, path from there) of a path that a call is given; None outside of the roots."""
        if own := OWN_DESCRIPTOR.fullmatch(text):
            found = task.descriptors.open.get(int(own[1]))
            return (found[0].number, "") if found and found[0].number >= 0 else None
        base = self._base(task, event, folder)
        parts = [part for part in text.split("/") if part not in ("", ".")]
        if not text.startswith("/") and base and base.number >= 0 and ".." not in parts:
            if not text:
                return None
            self.order.visited("/".join([base.place, *parts]))
            return base.number, self._kept(text, "/".join(parts) + ("/" if parts and text.endswith("/") else "") or ".")
        if not text or (not text.startswith("/") and base is None):
            return None
        full = self._full(base, text)
        if (below := path_in(self.roots, full)) is None:
            return None
        self.order.visited(full)
        return 0, self._kept(text, below + ("/" if text.endswith("/") and below != "." else ""))

    @staticmethod
    def _kept(text: str, path: str) -> str:
        """The path of a text, which says nothing where it is longer than Linux takes: the recorder cuts it there."""
        return path if len(os.fsencode(text)) < PATH_MAX - 1 else "x" * PATH_MAX

    @staticmethod
    def _base(task: Task, event: Event, folder: int | None) -> OpenFile | None:
        """The folder from which a path goes. folder: the argument that says it, None: where the process works."""
        fd = AT_FDCWD if folder is None else event.fd(folder)
        return task.place.folder if fd == AT_FDCWD else (task.descriptors.open.get(fd) or (None,))[0]

    @staticmethod
    def _full(base: OpenFile | None, text: str) -> str:
        return os.path.normpath(text if text.startswith("/") or base is None else f"{base.place}/{text}")

    # ---- opening, duplicating, closing

    def _open(self, task: Task, begun: Begun, folder: int | None, flags: int, mode: int) -> None:
        event = begun.args
        where = self._path(task, event, folder, event.text(0))
        number = self._number()
        kept = flags & OPEN_FLAGS
        makes = flags & os.O_CREAT or flags & os.O_TMPFILE == os.O_TMPFILE
        mode = mode & ~task.place.umask & MODE if makes else 0
        if where is None:
            self._free.append(number)
        else:
            begun.line = self._line("open", where[0], self.names.path(where[1]), kept, mode, number)

        def done(fd: int, real: str) -> None:
            line, below = begun.line, path_in(self.roots, real) if real else "."
            if line is not None and below is None:  # a link led out
                line[0] = ""
                self._free.append(number)
                self.outside += 1
                file = OpenFile(real)
            elif line is None and real and below is not None:  # or in
                own = self._number()
                path = self.names.path(below.removesuffix(" (deleted)"))
                self._line("open", 0, path, kept & ~(os.O_CREAT | os.O_EXCL), mode, own)[1] = 0
                file = OpenFile(real, own)
            else:
                file = OpenFile(real, number if line is not None else -1)
                if line is None:
                    self.outside += 1
                else:
                    line[1] = 0
            self._bind(task, fd, file, bool(flags & os.O_CLOEXEC))

        begun.then = done

    def _on_open(self, task: Task, begun: Begun) -> None:
        self._open(task, begun, None, begun.args.args[1], begun.args.args[2])

    def _on_creat(self, task: Task, begun: Begun) -> None:
        self._open(task, begun, None, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, begun.args.args[1])

    def _on_openat(self, task: Task, begun: Begun) -> None:
        self._open(task, begun, 0, begun.args.args[2], begun.args.args[3])

    _on_openat2 = _on_openat

    def _on_close(self, task: Task, begun: Begun) -> None:
        found = task.descriptors.open.pop(begun.args.fd(0), None)
        if found:
            self._close(found[0], begun)

    def _on_close_range(self, task: Task, begun: Begun) -> None:
        first, last, flags = begun.args.args[0], begun.args.args[1], begun.args.args[2]
        for fd in [fd for fd in task.descriptors.open if first <= fd <= last]:
            if flags & 4:  # CLOSE_RANGE_CLOEXEC
                task.descriptors.open[fd] = (task.descriptors.open[fd][0], True)
            else:
                self._close(task.descriptors.open.pop(fd)[0])

    def _duplicate(self, task: Task, begun: Begun, closes: bool) -> None:
        found = task.descriptors.open.get(begun.args.fd(0))

        def done(fd: int, _: str) -> None:
            if found and task.descriptors.open.get(fd) is not found:
                found[0].references += 1
                self._bind(task, fd, found[0], closes)
            elif not found and fd in task.descriptors.open:
                self._close(task.descriptors.open.pop(fd)[0])

        begun.then = done

    def _on_dup(self, task: Task, begun: Begun) -> None:
        self._duplicate(task, begun, False)

    _on_dup2 = _on_dup

    def _on_dup3(self, task: Task, begun: Begun) -> None:
        self._duplicate(task, begun, bool(begun.args.args[2] & os.O_CLOEXEC))

    def _on_fcntl(self, task: Task, begun: Begun) -> None:
        event, command = begun.args, begun.args.args[1]
        if command in (0, 1030):  # F_DUPFD, F_DUPFD_CLOEXEC
            self._duplicate(task, begun, command == 1030)
            return
        found = task.descriptors.open.get(event.fd(0))
        if not found or found[0].number < 0:
            if found and command == 2:
                task.descriptors.open[event.fd(0)] = (found[0], bool(event.args[2] & 1))
            self.outside += 1
        elif command == 2:  # F_SETFD
            task.descriptors.open[event.fd(0)] = (found[0], bool(event.args[2] & 1))
        elif command in (6, 7, 37, 38):  # F_SETLK, F_SETLKW and those of open files
            kind, whence = event.args[3] & 0xFFFF, event.args[3] >> 16 & 0xFFFF
            begun.line = self._line("lock", found[0].number, kind, whence, event.signed(4), event.signed(5))
        elif command not in (1, 3, 4, 5, 36):  # of flags, and whether a lock is held
            self.left_out["fcntl"] += 1

    def _on_ioctl(self, task: Task, begun: Begun) -> None:
        event, command = begun.args, begun.args.args[1] & 0xFFFFFFFF
        found = task.descriptors.open.get(event.fd(0))
        if found and command in (FIOCLEX, FIONCLEX):
            task.descriptors.open[event.fd(0)] = (found[0], command == FIOCLEX)
        elif not found or found[0].number < 0:
            self.outside += 1
        elif command == FICLONE:
            if source := self._file(task, event, 2):
                begun.line = self._line("clone", found[0].number, source.number)
            else:
                begun.then = lambda _, __: self.left_out.update(["sharing blocks with a file elsewhere"])
        elif command >> 8 != 0x54:  # of terminals, which a file has none of
            self.left_out["ioctl"] += 1

    # ---- the folder, the umask

    def _on_chdir(self, task: Task, begun: Begun) -> None:
        where = self._path(task, begun.args, None, begun.args.text(0))
        number = -1
        if where is None:
            self.outside += 1
        else:
            number = self._number()
            begun.line = self._line("enter", where[0], self.names.path(where[1]), number)

        def done(_: int, real: str) -> None:
            before, task.place.folder = task.place.folder, OpenFile(real, number)
            self._close(before)

        begun.then = done

    def _on_fchdir(self, task: Task, begun: Begun) -> None:
        found = task.descriptors.open.get(begun.args.fd(0))

        def done(_: int, real: str) -> None:
            before = task.place.folder
            if found:
                found[0].references += 1
            task.place.folder = found[0] if found else OpenFile(real)
            self._close(before)

        begun.then = done

    def _on_umask(self, task: Task, begun: Begun) -> None:
        def done(_: int, __: str) -> None:
            task.place.umask = begun.args.args[0] & 0o777

        begun.then = done

    # ---- names

    def _on_mkdir(self, task: Task, begun: Begun) -> None:
        self._make(task, begun, None, "mkdir", begun.args.args[1])

    def _on_mkdirat(self, task: Task, begun: Begun) -> None:
        self._make(task, begun, 0, "mkdir", begun.args.args[2])

    def _on_mknod(self, task: Task, begun: Begun) -> None:
        self._make(task, begun, None, "mknod", begun.args.args[1])

    def _on_mknodat(self, task: Task, begun: Begun) -> None:
        self._make(task, begun, 0, "mknod", begun.args.args[2])

    def _make(self, task: Task, begun: Begun, folder: int | None, kind: str, mode: int) -> None:
        where = self._path(task, begun.args, folder, begun.args.text(0))
        form = (stat.S_IFMT(mode) or stat.S_IFREG) if kind == "mknod" else 0
        if where is None:
            self.outside += 1
        elif form in (stat.S_IFCHR, stat.S_IFBLK):
            self.left_out["making a device"] += 1
        else:
            mode = form | (mode & ~task.place.umask & MODE)
            begun.line = self._line(kind, where[0], self.names.path(where[1]), mode)

    def _on_unlinkat(self, task: Task, begun: Begun) -> None:
        kind = "rmdir" if begun.args.args[2] & 0x200 else "unlink"  # AT_REMOVEDIR
        self._simple(task, begun, Shape(kind, paths=(0,)))

    def _on_symlink(self, task: Task, begun: Begun) -> None:
        self._symlink(task, begun, None)

    def _on_symlinkat(self, task: Task, begun: Begun) -> None:
        self._symlink(task, begun, 1)

    def _symlink(self, task: Task, begun: Begun, folder: int | None) -> None:
        where = self._path(task, begun.args, folder, begun.args.text(1))
        if where is None:
            self.outside += 1
            return
        if len(os.fsencode(begun.args.text(0))) >= PATH_MAX - 1:
            self.left_out["symbolic link to what is too long"] += 1
            return
        link = self._full(self._base(task, begun.args, folder), begun.args.text(1))
        target = self.names.target(relative(self.roots, begun.args.text(0), link))
        begun.line = self._line("symlink", target, where[0], self.names.path(where[1]))

    def _empty_path(self, task: Task, begun: Begun, kind: str, flag: int, *numbers: Callable[[Event], int]) -> None:
        """A call on a path, or without one on the descriptor itself. flag: the number of the argument of its flags."""
        event = begun.args
        if event.texts[0] or (event.args[flag] & 0x1000 == 0 and kind != "set-times"):  # AT_EMPTY_PATH
            self._simple(task, begun, Shape(kind, paths=(0,), numbers=numbers))
            return
        own = {"stat": "fstat", "chown": "fchown", "set-times": "fset-times"}[kind]
        self._simple(task, begun, Shape(own, files=(0,)))

    def _on_newfstatat(self, task: Task, begun: Begun) -> None:
        self._empty_path(task, begun, "stat", 3, lambda event: event.args[3] & 0x900)

    def _on_statx(self, task: Task, begun: Begun) -> None:
        self._empty_path(task, begun, "stat", 2, lambda event: event.args[2] & 0x900)

    def _on_fchownat(self, task: Task, begun: Begun) -> None:
        self._empty_path(task, begun, "chown", 4, lambda event: event.args[4] & 0x100)

    def _on_utimensat(self, task: Task, begun: Begun) -> None:
        self._empty_path(task, begun, "set-times", 3, lambda event: event.args[3] & 0x100)

    # ---- data

    def _with_length(self, task: Task, begun: Begun, kind: str, *more: int) -> None:
        """A read or write of several pieces: as long as its result says."""
        file = self._file(task, begun.args, 0)
        if file is None:
            self.outside += 1
            return
        line = begun.line = self._line(kind, file.number, 0, *more)
        begun.then = lambda result, _: line.__setitem__(3, result)

    def _on_readv(self, task: Task, begun: Begun) -> None:
        self._with_length(task, begun, "read")

    def _on_writev(self, task: Task, begun: Begun) -> None:
        self._with_length(task, begun, "write")

    def _positioned(self, task: Task, begun: Begun, kind: str) -> None:
        offset = begun.args.signed(3)
        if offset == -1:  # where the file stands
            self._with_length(task, begun, kind)
        else:
            self._with_length(task, begun, f"p{kind}", offset)
        if begun.line and begun.name.endswith("2") and begun.args.args[5]:
            begun.line[0] = ""
            begun.then = None
            self.left_out[f"{begun.name} with flags"] += 1

    def _on_preadv(self, task: Task, begun: Begun) -> None:
        self._positioned(task, begun, "read")

    def _on_pwritev(self, task: Task, begun: Begun) -> None:
        self._positioned(task, begun, "write")

    _on_preadv2, _on_pwritev2 = _on_preadv, _on_pwritev

    def _transfer(
        self, begun: Begun, kind: str, source: tuple[OpenFile | None, int], target: tuple[OpenFile | None, int], n: int
    ) -> None:
        """Data from a file to another, each with its offset, -1: where it stands. Is one elsewhere, or no file, then
        it is a write or a read."""
        if source[0] and target[0]:
            offsets = (source[1], target[1]) if kind == "copy" else (source[1],)
            begun.line = self._line(kind, source[0].number, target[0].number, n, *offsets)
            return
        file, offset = source if source[0] else target
        if not file:
            self.outside += 1
            return
        half = "read" if source[0] else "write"
        more = (offset,) if offset >= 0 else ()
        line = begun.line = self._line(f"p{half}" if more else half, file.number, 0, *more)
        begun.then = lambda result, _: line.__setitem__(3, result)

    def _on_sendfile(self, task: Task, begun: Begun) -> None:
        event = begun.args
        source, target = self._file(task, event, 1), self._file(task, event, 0)
        self._transfer(begun, "send", (source, event.signed(2)), (target, -1), event.args[3])

    def _on_copy_file_range(self, task: Task, begun: Begun) -> None:
        event = begun.args
        source, target = self._file(task, event, 0), self._file(task, event, 2)
        self._transfer(begun, "copy", (source, event.signed(1)), (target, event.signed(3)), event.args[4])

    def _on_splice(self, task: Task, begun: Begun) -> None:
        event = begun.args
        source, target = self._file(task, event, 0), self._file(task, event, 2)
        if (source and event.args[1]) or (target and event.args[3]):
            self.left_out["splice with an offset"] += 1
        else:
            self._transfer(begun, "send", (source, -1), (target, -1), event.args[4])

    def _on_mmap(self, task: Task, begun: Begun) -> None:
        event, file = begun.args, self._file(task, begun.args, 4)
        if file is None or not event.args[1]:
            self.outside += 1
            return
        protection, flags = event.args[2] & 3, event.args[3] & 3
        number = self._number()
        begun.line = self._line("map", file.number, event.args[5], event.args[1], protection, flags, number)

    def _on_msync(self, task: Task, begun: Begun) -> None:
        event = begun.args
        if line := self._mappings.get(event.args[5]):
            begun.line = self._line("msync", line[7], event.args[4], event.args[1], event.args[2])

    # ---- extended attributes

    def _attribute(self, task: Task, begun: Begun, kind: str, *numbers: int, path: bool = True) -> None:
        event = begun.args
        self._simple(task, begun, Shape(kind, paths=(None,)) if path else Shape(kind, files=(0,)))
        if begun.line is None:
            return
        number = self.names.attribute(event.text(1 if path else 0))
        if number == ACCESS_LIST and "setxattr" in kind and event.args[5]:
            numbers = (event.args[5] & 0o777, *numbers[1:])  # what the list says, in place of its size
        elif number is None or ("setxattr" in kind and number < KNOWN_ATTRIBUTES):
            self.left_out["attribute of the kernel"] += 1
            begun.line = None  # so it never ends
            return
        begun.line += [number, *numbers]

    def _on_getxattr(self, task: Task, begun: Begun) -> None:
        self._attribute(task, begun, "getxattr", begun.args.args[3], int(begun.name[0] == "l"))

    def _on_fgetxattr(self, task: Task, begun: Begun) -> None:
        self._attribute(task, begun, "fgetxattr", begun.args.args[3], path=False)

    def _on_setxattr(self, task: Task, begun: Begun) -> None:
        size, flags = begun.args.args[3], begun.args.args[4]
        self._attribute(task, begun, "setxattr", size, flags, int(begun.name[0] == "l"))

    def _on_fsetxattr(self, task: Task, begun: Begun) -> None:
        self._attribute(task, begun, "fsetxattr", begun.args.args[3], begun.args.args[4], path=False)

    def _on_removexattr(self, task: Task, begun: Begun) -> None:
        self._attribute(task, begun, "removexattr", int(begun.name[0] == "l"))

    def _on_fremovexattr(self, task: Task, begun: Begun) -> None:
        self._attribute(task, begun, "fremovexattr", path=False)

    _on_lgetxattr, _on_lsetxattr, _on_lremovexattr = _on_getxattr, _on_setxattr, _on_removexattr

    # ---- what is told

    def _on_recvmsg(self, task: Task, begun: Begun) -> None:
        """Judged when it ends: it may bring a descriptor."""

    def _on_fork(self, task: Task, begun: Begun) -> None:
        """An event of its own follows."""

    _on_vfork = _on_clone = _on_clone3 = _on_fork

    def _on_inotify_add_watch(self, task: Task, begun: Begun) -> None:
        """Reads and writes nothing."""

    def _on_execve(self, task: Task, begun: Begun) -> None:
        if self._path(task, begun.args, None, begun.args.text(0)):
            begun.then = lambda _, __: self.left_out.update(["start of a program below the roots"])
        self._starts(begun.args.text(0))

    def _starts(self, program: str) -> None:
        """A program is started."""
        with suppress(OSError, ValueError):
            if Path(program).stat().st_mode & (stat.S_ISUID | stat.S_ISGID):
                self.said["setuid"] += 1

    def _on_ptrace(self, task: Task, begun: Begun) -> None:
        self.said["ptrace"] += 1
