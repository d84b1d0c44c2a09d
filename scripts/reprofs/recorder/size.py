"""The maximum size that a recording creates, by following the offset of each open file."""

from __future__ import annotations

from dataclasses import dataclass, field

COLLAPSE, INSERT = 0x08, 0x20  # of fallocate(2): they move what is behind
READS, WRITES = ("read", "pread"), ("write", "pwrite")


@dataclass
class Sums:
    """bytes and names: that are made at most; moved: content came to another offset."""

    bytes: int = 0
    names: int = 0
    moved: bool = False
    _position: dict[int, int] = field(default_factory=dict)
    _end: dict[int, int] = field(default_factory=dict)  # of what was written through an open file

    def add(self, line: list) -> None:
        """One call that has ended."""
        kind, result = line[0], line[1]
        if result is None or result < 0:
            return
        if kind in ("mkdir", "link", "symlink", "mknod") or (kind == "open" and line[4] & 0o100):
            self.names += 1
        if kind == "open":
            self._position[line[6]] = self._end[line[6]] = 0
        elif kind in READS or kind in WRITES:
            self._data(kind, line[2], result, line)
        elif kind == "seek":
            self._position[line[2]] = result
        elif kind in ("copy", "send"):
            self._copied(kind, line)
        elif kind == "allocate":
            self.moved = self.moved or bool(line[3] & (COLLAPSE | INSERT))
            self._wrote(line[2], line[4], line[5])

    def _data(self, kind: str, handle: int, result: int, line: list) -> None:
        at = line[4] if kind in ("pread", "pwrite") else self._position.get(handle, 0)
        if kind in ("read", "write"):
            self._position[handle] = at + result
        if kind in WRITES:
            self._wrote(handle, at, result)

    def _wrote(self, handle: int, at: int, length: int) -> None:
        end = self._end.get(handle, 0)
        self._end[handle] = max(end, at + length)
        self.bytes += max(0, min(length, at + length - end))

    def _copied(self, kind: str, line: list) -> None:
        source, target, length = line[2], line[3], line[1]
        given = (line[5], line[6] if kind == "copy" else -1)
        places = [
            offset if offset >= 0 else self._position.get(handle, 0)
            for handle, offset in zip((source, target), given, strict=True)
        ]
        self.moved = self.moved or places[0] != places[1]
        for handle, offset, place in zip((source, target), given, places, strict=True):
            if offset < 0:
                self._position[handle] = place + length
        self._wrote(target, places[1], length)
