"""What a followed program has at a moment: its processes, what is open, and which paths lead below the roots."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass

from reprofs.plan.recording import LANES, LONGEST_PATH
from reprofs.recorder.entries import path_in
from reprofs.recorder.events import Event
from reprofs.recorder.lines import Lines
from reprofs.recorder.names import Names
from reprofs.recorder.order import Order
from reprofs.recorder.tasks import Descriptors, OpenFile, Place, Task

AT_FDCWD = -100
PATH_MAX = 4096  # bytes of a path with its end
OWN_DESCRIPTOR = re.compile(r"/(?:proc/self|dev)/fd/([0-9]{1,7})")


@dataclass
class Call:
    """A call that has begun. line: in the recording, or none; then: what it does when it succeeds, by its result."""

    event: Event
    line: list | None = None
    then: Callable[[Event], None] | None = None


class Program:
    """roots: absolute, without links; folder: where the program begins; umask: with which.

    A file that nothing leads to any more is closed in the recording.
    """

    def __init__(self, roots: list[str], folder: str, umask: int, names: Names) -> None:
        self.roots, self.names, self.lines, self.order = roots, names, Lines(), Order()
        self._tasks: dict[int, Task] = {}
        self._begun: dict[int, Call] = {}
        self._free_lanes: list[int] = []
        self._passed: list[OpenFile] = []  # folders that were entered for a call
        self._task = self._first = Task(Descriptors(), Place(OpenFile(folder), umask))  # whose event it is
        self._first.place.folder = self._entered(folder)

    def calls(self) -> tuple[list[list], list[list[int]]]:
        """The calls that ended, with the pages of mappings that were used, and of several lanes whose each is."""
        return self.lines.ended()

    # ---- processes

    def _fork(self, event: Event) -> None:
        if event.pid not in self._tasks:
            self._tasks[event.value] = self._first
            return
        lane = self._free_lanes.pop() if self._free_lanes else self.lines.lanes
        if lane == LANES:  # more at the same time share them
            lane = len(self._tasks) % LANES
        self.lines.lanes = max(self.lines.lanes, lane + 1)
        self._tasks[event.value] = self._task.child(event.args[0], lane, len(self.lines))

    def _exec(self, event: Event) -> None:
        """The program is another one. event.value: the thread that called execve, now under the process's number."""
        if event.value != event.pid:
            self._exit(event)
            if event.value in self._tasks:
                self._tasks[event.pid] = self._tasks.pop(event.value)
            if event.value in self._begun:
                self._begun[event.pid] = self._begun.pop(event.value)
        task = self._tasks[event.pid]
        if task.descriptors.references > 1:
            task.descriptors.references -= 1
            task.descriptors = task.descriptors.copy()
        for fd, (file, closes) in list(task.descriptors.open.items()):
            if closes:
                del task.descriptors.open[fd]
                self._close(file)

    def _exit(self, event: Event) -> None:
        self._begun.pop(event.pid, None)
        task = self._tasks.pop(event.pid, None)
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
        task.ended(len(self.lines))

    # ---- open files and paths

    def _line(self, kind: str, *values: object) -> list:
        return self.lines.add(self._task, kind, *values)

    def _entered(self, folder: str) -> OpenFile:
        """The folder in which the program begins."""
        below = path_in(self.roots, folder)
        if below is None:
            return OpenFile(folder)
        if below == ".":
            return OpenFile(folder, 0, 2)
        return self._enter(*self._named(0, below), folder)

    def _enter(self, base: int, path: str, folder: str = "") -> OpenFile:
        number = self.lines.number()
        self._line("enter", base, path, number)[1] = 0
        return OpenFile(folder, number)

    def _named(self, base: int, path: str) -> tuple[int, str]:
        """The number of an open folder and a path from there, as a recording has them.

        For one call a path may be too long, as in deep trees or after `..`: then folders on its way are entered for it.
        """
        while not (made := self.names.kept(path)):
            end = path.rfind("/", 0, LONGEST_PATH // 4)  # its names may get longer
            if end < 0:
                return base, self.names.path(path)
            self._passed.append(self._enter(base, self.names.path(path[:end])))
            base, path = self._passed[-1].number, path[end + 1 :]
        return base, made

    def _close(self, file: OpenFile, call: Call | None = None) -> None:
        """A descriptor fewer leads to the file; the last one closes it. call: that does so."""
        file.references -= 1
        if file.references or file.number <= 0:
            return
        line = self._line("close", file.number)
        line[1] = 0
        if call and not call.line:
            call.line = line
        self.lines.free(file.number)
        file.number = -1

    def _fd(self, call: Call, number: int = 0) -> OpenFile | None:
        """The open file that an argument of a call means."""
        return self._task.descriptors.file(call.event.fd(number))

    def _file(self, call: Call, number: int) -> OpenFile | None:
        """The same, if it is below a root."""
        found = self._fd(call, number)
        return found if found and found.number >= 0 else None

    def _bind(self, fd: int, file: OpenFile, closes: bool) -> None:
        """A descriptor leads to the file from now on."""
        before = self._task.descriptors.file(fd)
        self._task.descriptors.open[fd] = (file, closes)
        if before:
            self._close(before)

    def _path(self, call: Call, folder: int | None, text: str) -> tuple[int, str] | None:
        """(number of an open folder, path from there) of a path that a call is given; None outside of the roots."""
        if own := OWN_DESCRIPTOR.fullmatch(text):
            found = self._task.descriptors.file(int(own[1]))
            return (found.number, "") if found and found.number >= 0 else None
        base = self._base(call, folder)
        parts = [part for part in text.split("/") if part not in ("", ".")]
        if not text or (not text.startswith("/") and base is None):
            return None
        end = "/" * text.endswith("/")
        if not text.startswith("/") and base and base.number >= 0 and ".." not in parts:
            number, full, below = base.number, "/".join([base.place, *parts]), "/".join(parts) or "."
        else:
            number, full = 0, self._full(base, text)
            below = path_in(self.roots, full) or ""
        if not below:
            return None
        self.order.visited(full)
        # Of a text that is longer than Linux takes, where the recorder cuts it, that is all that is kept.
        kept = below + end * (below != ".") if len(os.fsencode(text)) < PATH_MAX - 1 else "x" * PATH_MAX
        return number, kept

    def _base(self, call: Call, folder: int | None) -> OpenFile | None:
        """The folder from which a path goes. folder: the argument that says it, None: where the process works."""
        fd = AT_FDCWD if folder is None else call.event.fd(folder)
        return self._task.place.folder if fd == AT_FDCWD else self._task.descriptors.file(fd)

    @staticmethod
    def _full(base: OpenFile | None, text: str) -> str:
        return os.path.normpath(text if text.startswith("/") or base is None else f"{base.place}/{text}")
