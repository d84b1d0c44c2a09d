"""From the events of a program to the calls of a recording: which files its processes have open, and where they work.

A call is written down when it begins, for in that order it is replayed, and gets its result when it ends. Numbers of
descriptors become numbers of open files: what fork, dup and exec do to descriptors is followed here and not replayed.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import Counter
from contextlib import suppress
from pathlib import Path

from reprofs.plan.recording import ACCESS_LIST, KNOWN_ATTRIBUTES, MODE, OPEN_FLAGS
from reprofs.recorder import events
from reprofs.recorder.entries import listing, path_in, relative
from reprofs.recorder.events import HIDDEN, Event, Told
from reprofs.recorder.names import Names
from reprofs.recorder.processes import AT_FDCWD, PATH_MAX, Call, Program
from reprofs.recorder.shapes import PLAIN, Shape
from reprofs.recorder.tasks import Elsewhere, OpenFile

AT_REMOVEDIR = 0x200
RESTARTED = range(-516, -511)  # ERESTARTSYS and its like: the call is made again
REFUSED = (-errno.EPERM, -errno.EACCES)  # of the user, not of the file system; who replays may be another
UNSEEN = ("io_submit", "pidfd_getfd")  # what they do is in memory of the program
FICLONE, FIOCLEX, FIONCLEX = 0x40049409, 0x5451, 0x5450
# The arguments that are folder, flags and mode of calls that make something.
MADE = {"mkdir": (None, 1), "mkdirat": (0, 2), "mknod": (None, 1), "mknodat": (0, 2)}
# No call on a file: of new processes an event of its own follows, and watching reads and writes nothing.
NOTHING = ("fork", "vfork", "clone", "clone3", "inotify_add_watch")


class Follower(Program):
    """Takes the events of a program, one after the other.

    here: it runs on this machine, so that its files can be looked at; else see Program.
    """

    def __init__(self, roots: list[str], folder: str, umask: int, names: Names, here: bool = True) -> None:
        super().__init__(roots, folder, umask, names)
        self.here = here
        self.left_out: Counter[str] = Counter()
        self.outside, self.elsewhere = 0, Elsewhere()
        self.opened = 0  # files that were open before the program began, or came to it otherwise
        self.said: Counter[str] = Counter()  # what is told of the program besides
        self.told: dict[int, Told] = {}  # id of a line -> what the text says of it
        self.threads: set[int] = set()
        self.failed: tuple[int, str] | None = None  # why the program could not be started
        self.ended: tuple[int, bool] | None = None  # its exit code, whether its time was over
        self._mappings: dict[int, list] = {}  # of the recorder -> line
        self._takes = {
            **{events.ENTRY: self._entry, events.RESULT: self._result, events.FORK: self._fork},
            **{events.EXEC: self._exec, events.EXIT: self._exit, events.USED: self._use},
            **{events.UNMAPPED: self._unmapped, events.FOREIGN: self._foreign, events.END: self._end},
            **{events.FAILED: self._end, events.LEFT_OUT: self._less, events.SAID: self._less},
        }

    def take(self, event: Event) -> None:
        """One event."""
        self._task = self._tasks.get(event.pid, self._first)
        self._takes[event.type](event)
        while self._passed:
            self._close(self._passed.pop())

    def _foreign(self, event: Event) -> None:
        self.said["io_uring" if event.value >= 0 else "32-bit calls"] += 1
        if event.value < 0:
            self.left_out["call of a 32-bit program"] += 1

    def _end(self, event: Event) -> None:
        if event.type == events.FAILED:
            self.failed = (event.value, event.text(0))
        else:
            self.ended = (event.value, bool(event.args[0]))

    def _less(self, event: Event) -> None:
        self._know(event)
        if what := event.text(0):
            (self.left_out if event.type == events.LEFT_OUT else self.said)[what] += 1

    # ---- a call begins and ends

    def _entry(self, event: Event) -> None:
        call = Call(event)
        if event.pid in self._tasks:
            self._know(event)
            if shape := PLAIN.get(event.name):
                self._plain(call, shape)
            elif event.name not in NOTHING:
                getattr(self, f"_on_{event.name}".replace(" ", "_"), self._unknown)(call)
        self._begun[event.pid] = call

    def _know(self, event: Event) -> None:
        """The text says where the process really works; files that it has, and was not seen to open, are opened now."""
        for fd, place in event.leads.items():
            if fd == AT_FDCWD:
                self._task.place.folder.place = place
            elif fd >= 0 and fd not in self._task.descriptors.open and path_in(self.roots, place):
                self.opened += 1
                written = "write" in event.name or fd in (1, 2)  # as a shell opens them
                flags = os.O_WRONLY | os.O_APPEND if written else os.O_RDONLY
                texts = (os.fsencode(place), b"", b"")
                self.take(Event(events.ENTRY, event.pid, 0, (0, flags, 0), texts, "open"))
                self.take(Event(events.RESULT, event.pid, fd, texts=texts))

    def _result(self, event: Event) -> None:
        call = self._begun.pop(event.pid, None)
        if not call or event.pid not in self._tasks:
            return
        result, line = event.value, call.line
        if line is not None:
            self.threads.add(event.pid)
            if result >= 0 and event.told:
                self.told[id(line)] = self._tell(call, event, event.told)
            if -4096 < result < 0 and line[0] in ("open", "enter", "map"):  # it has made no open file
                self.lines.free(line[-1])
                line[-1] = -1
            if result in RESTARTED or result == -errno.EINTR:
                line[0] = ""
            elif result in REFUSED:
                line[0] = ""
                self.left_out["refused to this user"] += 1
            else:
                line[1] = None if result < 0 and line[0] in ("flock", "lock") else result  # a replay waits for no lock
        if call.then and result >= 0:
            call.then(event)

    def _tell(self, call: Call, event: Event, told: Told) -> Told:
        """What the text says of a call, with the names of the recording."""
        kind = call.line[0] if call.line else ""
        if kind == "list":
            if file := self._file(call, 0):
                self.order.listed(file.place, [entry.name for entry in told.entries])
            told.entries = [entry._replace(name=self.names.path(entry.name)) for entry in told.entries]
        elif kind == "open" and (below := path_in(self.roots, event.text(0))):
            told.real = self.names.path(below)
        elif told.target is not None:
            link = self._full(self._base(call, PLAIN[call.event.name].paths[0]), call.event.text(0))
            told.target = self.names.target(relative(self.roots, told.target, link))
        return told

    def _unknown(self, call: Call) -> None:
        """A call that is not replayed: left out if it is given an open file or a path below a root, as far as seen."""
        name, texts = call.event.name, [call.event.text(i) for i, text in enumerate(call.event.texts) if text]
        below = any(self._path(call, folder, text) for text in texts for folder in (None, 0))
        if below or name in UNSEEN or self._file(call, 0):
            self.left_out[name] += 1
        elif name.startswith("call "):
            self.said["unknown calls"] += 1
        else:
            self.outside += 1

    def _plain(self, call: Call, shape: Shape) -> None:
        """A call whose arguments are names, open files and numbers, as a table says."""
        event = call.event
        values: list[int | str] = []
        if shape.is_alone(event):
            shape = Shape(f"f{shape.kind}", files=(0,))
        for text, folder in enumerate(shape.paths):
            where = self._path(call, folder, event.text(text))
            if where is None or (where[1] == "" and shape.kind == "readlink"):  # that is /proc's
                if text > 0 or any(self._path(call, one, event.text(1)) for one in shape.paths[1:]):
                    self.left_out[f"{event.name} between the roots and elsewhere"] += 1
                else:
                    self.outside += 1
                return
            values += self._named(*where)
        for number in shape.files:
            file = self._file(call, number)
            if file is None:
                self.outside += 1
                return
            values.append(file.number)
            if shape.kind == "list":
                self._listed(file.place)
        numbers = [number(event) for number in shape.numbers]
        if shape.attribute and not self._attribute(event, shape, numbers):
            return
        call.line = self._line(shape.kind, *values, *numbers)

    def _attribute(self, event: Event, shape: Shape, numbers: list[int]) -> bool:
        """Puts the number of an extended attribute before the numbers of a call; whether it can be replayed."""
        sets, name = "setxattr" in shape.kind, event.texts[len(shape.paths)]
        number = None if name == HIDDEN else self.names.attribute(os.fsdecode(name))
        if name == HIDDEN:
            self.left_out["attribute whose name was not printed (strace -s 255 prints it)"] += 1
        elif sets and number == ACCESS_LIST and event.args[5]:
            numbers[0] = event.args[5] & 0o777  # what the list says, in place of its size
        elif number is None or (sets and number < KNOWN_ATTRIBUTES):
            self.left_out["attribute of the kernel"] += 1
            number = None
        numbers.insert(0, number or 0)
        return number is not None

    def _listed(self, folder: str) -> None:
        """A folder is being listed: the system lists it to others in the same order."""
        if self.here and not self.order.knows(folder):
            with suppress(OSError), listing(folder) as (_, found):  # else it is gone meanwhile
                self.order.listed(folder, [entry.name for entry in found])

    # ---- opening, duplicating, closing

    def _open(self, call: Call, folder: int | None, flags: int, mode: int) -> None:
        where, base = self._path(call, folder, call.event.text(0)), self._base(call, folder)
        number, kept = self.lines.number(), flags & OPEN_FLAGS
        makes = flags & os.O_CREAT or flags & os.O_TMPFILE == os.O_TMPFILE
        mode = mode & ~self._task.place.umask & MODE if makes else 0
        if where is None:
            self.lines.free(number)
        else:
            call.line = self._line("open", *self._named(*where), kept, mode, number)

        def done(event: Event) -> None:
            line, real = call.line, event.text(0)
            if line is not None and not real:  # Linux tells no path that is longer than PATH_MAX
                real = self._full(base, call.event.text(0))
            below = path_in(self.roots, real) if real else "."
            file = OpenFile(real, number if line is not None else -1)
            if line is not None and below is None:  # a link led out
                line[0] = ""
                self.lines.free(number)
                self.outside += 1
                file.number = -1
            elif line is None and real and below is not None:  # or in
                file.number = self.lines.number()
                place = self._named(0, below.removesuffix(" (deleted)"))
                self._line("open", *place, kept & ~(os.O_CREAT | os.O_EXCL), mode, file.number)[1] = 0
            elif line is None:
                self.outside += 1
            else:
                line[1] = 0
            if file.number < 0:
                self.elsewhere.opened(real, flags)
            self._bind(event.value, file, bool(flags & os.O_CLOEXEC))

        call.then = done

    def _on_open(self, call: Call) -> None:
        self._open(call, None, call.event.args[1], call.event.args[2])

    def _on_creat(self, call: Call) -> None:
        self._open(call, None, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, call.event.args[1])

    def _on_openat(self, call: Call) -> None:
        self._open(call, 0, call.event.args[2], call.event.args[3])

    _on_openat2 = _on_openat

    def _on_close(self, call: Call) -> None:
        found = self._task.descriptors.open.pop(call.event.fd(0), None)
        if found:
            self._close(found[0], call)

    def _on_close_range(self, call: Call) -> None:
        (first, last, flags), known = call.event.args[:3], self._task.descriptors.open
        for fd in [fd for fd in known if first <= fd <= last]:
            if flags & 4:  # CLOSE_RANGE_CLOEXEC
                known[fd] = (known[fd][0], True)
            else:
                self._close(known.pop(fd)[0])

    def _duplicate(self, call: Call, closes: bool) -> None:
        found = self._task.descriptors.open.get(call.event.fd(0))

        def done(event: Event) -> None:
            fd, known = event.value, self._task.descriptors.open
            if found and known.get(fd) is not found:
                found[0].references += 1
                self._bind(fd, found[0], closes)
            elif not found and fd in known:
                self._close(known.pop(fd)[0])

        call.then = done

    def _on_dup(self, call: Call) -> None:
        self._duplicate(call, call.event.name == "dup3" and bool(call.event.args[2] & os.O_CLOEXEC))

    _on_dup2 = _on_dup3 = _on_dup

    def _on_fcntl(self, call: Call) -> None:
        event, command, found = call.event, call.event.args[1], self._fd(call)
        if command in (0, 1030):  # F_DUPFD, F_DUPFD_CLOEXEC
            self._duplicate(call, command == 1030)
            return
        if found and command == 2:  # F_SETFD
            self._task.descriptors.open[event.fd(0)] = (found, bool(event.args[2] & 1))
        if not found or found.number < 0:
            self.outside += 1
        elif command in (6, 7, 37, 38):  # F_SETLK, F_SETLKW and those of open files
            kind, whence = event.args[3] & 0xFFFF, event.args[3] >> 16 & 0xFFFF
            call.line = self._line("lock", found.number, kind, whence, event.signed(4), event.signed(5))
        elif command not in (1, 2, 3, 4, 5, 36):  # of flags, and whether a lock is held
            self.left_out["fcntl"] += 1

    def _on_ioctl(self, call: Call) -> None:
        command, found = call.event.args[1] & 0xFFFFFFFF, self._fd(call)
        if found and command in (FIOCLEX, FIONCLEX):
            self._task.descriptors.open[call.event.fd(0)] = (found, command == FIOCLEX)
        elif not found or found.number < 0:
            self.outside += 1
        elif command == FICLONE:
            if source := self._file(call, 2):
                call.line = self._line("clone", found.number, source.number)
            else:
                call.then = lambda _: self.left_out.update(["sharing blocks with a file elsewhere"])
        elif command >> 8 != 0x54:  # of terminals, which a file has none of
            self.left_out["ioctl"] += 1

    # ---- the folder, the umask

    def _works_in(self, folder: OpenFile) -> None:
        before, self._task.place.folder = self._task.place.folder, folder
        self._close(before)

    def _on_chdir(self, call: Call) -> None:
        base, text, number = self._task.place.folder, call.event.text(0), -1
        where = self._path(call, None, text)
        if where is None:
            self.outside += 1
        else:
            number = self.lines.number()
            call.line = self._line("enter", *self._named(*where), number)
        call.then = lambda event: self._works_in(OpenFile(event.text(0) or self._full(base, text), number))

    def _on_fchdir(self, call: Call) -> None:
        found = self._fd(call)

        def done(event: Event) -> None:
            if found:
                found.references += 1
            self._works_in(found or OpenFile(event.text(0) or call.event.leads.get(call.event.fd(0), "")))

        call.then = done

    def _on_umask(self, call: Call) -> None:
        def done(_: Event) -> None:
            self._task.place.umask = call.event.args[0] & 0o777

        call.then = done

    # ---- names

    def _on_mkdir(self, call: Call) -> None:
        kind, (folder, argument) = call.event.name.removesuffix("at"), MADE[call.event.name]
        where, mode = self._path(call, folder, call.event.text(0)), call.event.args[argument]
        form = (stat.S_IFMT(mode) or stat.S_IFREG) if kind == "mknod" else 0
        if where is None:
            self.outside += 1
        elif form in (stat.S_IFCHR, stat.S_IFBLK):
            self.left_out["making a device"] += 1
        else:
            mode = form | (mode & ~self._task.place.umask & MODE)
            call.line = self._line(kind, *self._named(*where), mode)

    _on_mkdirat = _on_mknod = _on_mknodat = _on_mkdir

    def _on_unlinkat(self, call: Call) -> None:
        self._plain(call, Shape("rmdir" if call.event.args[2] & AT_REMOVEDIR else "unlink", paths=(0,)))

    def _on_symlink(self, call: Call) -> None:
        folder, (target, path) = 1 if call.event.name == "symlinkat" else None, map(call.event.text, (0, 1))
        where = self._path(call, folder, path)
        if where is None:
            self.outside += 1
        elif len(os.fsencode(target)) >= PATH_MAX - 1:
            self.left_out["symbolic link to what is too long"] += 1
        else:
            target = self.names.target(relative(self.roots, target, self._full(self._base(call, folder), path)))
            call.line = self._line("symlink", target, *self._named(*where))

    _on_symlinkat = _on_symlink

    # ---- data

    def _of_length(self, call: Call, kind: str, file: OpenFile, offset: int) -> None:
        """A read or write that is as long as its result says. offset: -1 for where the file stands."""
        more = (offset,) if offset != -1 else ()
        line = call.line = self._line(f"p{kind}" if more else kind, file.number, 0, *more)
        call.then = lambda event: line.__setitem__(3, event.value)

    def _on_readv(self, call: Call) -> None:
        """Of several pieces."""
        name, file = call.event.name, self._file(call, 0)
        if file is None:
            self.outside += 1
        elif name.endswith("2") and call.event.args[5]:
            self.left_out[f"{name} with flags"] += 1
        else:
            offset = call.event.signed(3) if name.startswith("p") else -1
            self._of_length(call, "read" if "read" in name else "write", file, offset)

    _on_writev = _on_preadv = _on_pwritev = _on_preadv2 = _on_pwritev2 = _on_readv

    def _transfer(self, call: Call, kind: str, source: tuple[int, int], target: tuple[int, int], length: int) -> None:
        """Data from a file to another: arguments that are descriptors, each with its offset, -1: where it stands.

        Is one elsewhere, or no file, then it is a write or a read.
        """
        files = self._file(call, source[0]), self._file(call, target[0])
        if files[0] and files[1]:
            offsets = (source[1], target[1]) if kind == "copy" else (source[1],)
            call.line = self._line(kind, files[0].number, files[1].number, length, *offsets)
        elif files[0]:
            self._of_length(call, "read", files[0], max(source[1], -1))
        elif files[1]:
            self._of_length(call, "write", files[1], max(target[1], -1))
        else:
            self.outside += 1

    def _on_sendfile(self, call: Call) -> None:
        self._transfer(call, "send", (1, call.event.signed(2)), (0, -1), call.event.args[3])

    def _on_copy_file_range(self, call: Call) -> None:
        signed = call.event.signed
        self._transfer(call, "copy", (0, signed(1)), (2, signed(3)), call.event.args[4])

    def _on_splice(self, call: Call) -> None:
        args = call.event.args
        if (self._file(call, 0) and args[1]) or (self._file(call, 2) and args[3]):
            self.left_out["splice with an offset"] += 1
        else:
            self._transfer(call, "send", (0, -1), (2, -1), args[4])

    # ---- memory

    def _on_mmap(self, call: Call) -> None:
        args, file = call.event.args, self._file(call, 4)
        if file is None or not args[1]:
            self.outside += 1
            return
        values = (file.number, args[5], args[1], args[2] & 3, args[3] & 3, self.lines.number())
        line = call.line = self._line("map", *values)

        def done(event: Event) -> None:
            line[1] = 0
            if event.args[0]:
                self._mappings[event.args[0]] = line
            else:
                line[0] = ""
                self.lines.free(line[7])

        call.then = done

    def _on_msync(self, call: Call) -> None:
        args = call.event.args
        if line := self._mappings.get(args[5]):
            call.line = self._line("msync", line[7], args[4], args[1], args[2])

    def _use(self, event: Event) -> None:
        if line := self._mappings.get(event.value):
            written = int(line[6] != 2 and bool(line[5] & 2))
            for run in event.runs():
                self._line("touch", line[7], *run, written)[1] = 0

    def _unmapped(self, event: Event) -> None:
        if line := self._mappings.pop(event.value, None):
            self._line("unmap", line[7])[1] = 0
            self.lines.free(line[7])

    # ---- what is told

    def _on_recvmsg(self, call: Call) -> None:
        """Judged when it ends: it may bring a descriptor."""
        what = "descriptor passed through a socket"
        call.then = lambda event: self.left_out.update([what] * bool(event.args[0]))

    def _on_execve(self, call: Call) -> None:
        program = call.event.text(0)
        if self._path(call, None, program):
            call.then = lambda _: self.left_out.update(["start of a program below the roots"])
        with suppress(OSError, ValueError):
            if self.here and Path(program).stat().st_mode & (stat.S_ISUID | stat.S_ISGID):
                self.said["setuid"] += 1

    def _on_ptrace(self, call: Call) -> None:
        self.said["ptrace"] += 1
