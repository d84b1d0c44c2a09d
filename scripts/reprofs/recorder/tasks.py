"""What the processes of a program have: open files, a folder to work in, an umask, a lane. Others may share each."""

from __future__ import annotations

from dataclasses import dataclass, field

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
