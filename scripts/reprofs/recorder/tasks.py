"""What the processes of a program have: open files, a folder to work in, an umask, a lane. Others may share each."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from reprofs.errors import count, middle

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
NO_FILES = ("dev", "proc", "sys")  # folders of / whose files are on no disk
CLONE_FS, CLONE_FILES = 0x200, 0x400


@dataclass
class OpenFile:
    """What descriptors lead to. place: its real path; number: in the recording, -1 outside."""

    place: str
    number: int = -1
    references: int = 1


@dataclass
class Descriptors:
    """Those of a process: descriptor -> (file, whether exec closes it)."""

    open: dict[int, tuple[OpenFile, bool]] = field(default_factory=dict)
    references: int = 1

    def file(self, fd: int) -> OpenFile | None:
        return self.open[fd][0] if fd in self.open else None

    def copy(self) -> Descriptors:
        for file, _ in self.open.values():
            file.references += 1
        return Descriptors(dict(self.open))


@dataclass
class Place:
    """Where a process works, and its umask."""

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

    def child(self, flags: int, lane: int, lines: int) -> Task:
        """A task that it makes after so many lines. flags: of clone(2)."""
        if flags & CLONE_FILES:
            descriptors = self.descriptors
            descriptors.references += 1
        else:
            descriptors = self.descriptors.copy()
        if flags & CLONE_FS:
            place = self.place
            place.references += 1
        else:
            place = Place(self.place.folder, self.place.umask)
            place.folder.references += 1
        return Task(descriptors, place, lane, self, self.after | {self.lane: lines})

    def ended(self, lines: int) -> None:
        """What its parent does next comes after all that it did."""
        if self.parent:
            for lane, count in [*self.after.items(), (self.lane, lines)]:
                self.parent.after[lane] = max(self.parent.after.get(lane, 0), count)


@dataclass
class Elsewhere:
    """Where outside of the recorded folders files were opened to be written: folder of / -> (how often, the folder that
    has them all)."""

    paths: dict[str, tuple[int, str]] = field(default_factory=dict)

    def opened(self, path: str, flags: int) -> None:
        """A file was opened; path: absolute, else it is none. flags: of open(2)."""
        top = path.split("/")[1] if path.startswith("/") else "proc"
        if flags & WRITES and top not in NO_FILES:
            number, folder = self.paths.get(top, (0, os.path.dirname(path)))  # noqa: PTH120  # of strings, without a system
            self.paths[top] = (number + 1, os.path.commonpath([folder, os.path.dirname(path)]))  # noqa: PTH120

    def __str__(self) -> str:
        """`wrote files elsewhere, 41 times below /tmp`; empty where none was."""
        if not self.paths:
            return ""
        number, folder = max(self.paths.values())
        return f"wrote files elsewhere, most ({count(number, 'time')}) below {middle(folder, 80)}"
