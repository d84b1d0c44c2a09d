"""What the recorder (scripts/engine/recorder.c) tells of a program, event by event."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

ENTRY, RESULT, FORK, EXEC, EXIT, USED, UNMAPPED, FOREIGN, END, FAILED = range(1, 11)
HEAD = struct.Struct("<Iiq6Q4H")  # struct event
PAIR = struct.Struct("<2Q")


@dataclass
class Event:
    """type: one of those above; pid: whose; value: number of the call, its result, the child, or the mapping."""

    type: int
    pid: int
    value: int
    args: tuple[int, ...]
    texts: tuple[bytes, bytes, bytes]

    def text(self, number: int) -> str:
        """A name that the call was given, or where its descriptor leads."""
        return os.fsdecode(self.texts[number])

    def signed(self, number: int) -> int:
        """An argument as a number with a sign."""
        value = self.args[number]
        return value - 2**64 if value >> 63 else value

    def fd(self, number: int) -> int:
        """An argument as a descriptor."""
        value = self.args[number] & 0xFFFFFFFF
        return value - 2**32 if value >> 31 else value

    def runs(self) -> list[tuple[int, int]]:
        """Of USED: (first page, number of pages) of those that were in memory."""
        return list(PAIR.iter_unpack(self.texts[0]))


def read(stream: BinaryIO) -> Iterator[Event]:
    """The events of a stream, until it ends."""
    while len(head := stream.read(HEAD.size)) == HEAD.size:
        kind, pid, value, a0, a1, a2, a3, a4, a5, n0, n1, n2, _ = HEAD.unpack(head)
        texts = (stream.read(n0), stream.read(n1), stream.read(n2))
        yield Event(kind, pid, value, (a0, a1, a2, a3, a4, a5), texts)
