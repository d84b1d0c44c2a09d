"""The flash of a modelled disk, from its equations: write amplification, rates, and a simulation that shares no code
with the driver. docs/methods/devices.md has the equations.
"""

import math
from collections import deque
from collections.abc import Iterable, Sequence


def write_amplification(spare: float) -> float:
    """Pages programmed a page written, at uniformly random places, oldest block first (FIFO), many blocks.

    spare: flash beyond the size, as a share of it. A block still has the share u = exp(-(1 + spare)(1 - u)) of its
    pages when it is emptied (Menon, Perf. Eval. 1995; Desnoyers, SYSTOR 2012; Xiang and Kurkoski, 2011).
    """
    u = 0.5
    for _ in range(10_000):
        u = math.exp(-(1 + spare) * (1 - u))
    return 1 / (1 - u)


def steady_rate(spare: float, write_rate: float, read_rate: float) -> float:
    """Rate of writes at random places in the long run (bytes/s): what is moved is read and written once more each."""
    amplification = write_amplification(spare)
    return 1 / (amplification / write_rate + (amplification - 1) / read_rate)


class Simulation:
    """Blocks of pages and their garbage collection. written, moved: pages; erased: blocks."""

    def __init__(self, blocks: int, each: int, fifo: bool):
        self.each, self.fifo = each, fifo
        self.where: dict[int, int] = {}  # page of the disk -> block
        self.holds: dict[int, list[int]] = {}  # what is valid in each block, in the order in which they were opened
        self.empty = deque(range(blocks))
        self.open, self.room = -1, 0
        self.written = self.moved = self.erased = 0

    def _put(self, page: int) -> None:
        self.holds[self.open].append(page)
        self.where[page] = self.open
        self.room -= 1

    def _next(self) -> None:
        """Opens a block; the last empty one takes what is valid in another, which is then empty."""
        victim = None
        if len(self.empty) == 1:  # min takes the first of equal ones, which is the oldest
            victim = next(iter(self.holds)) if self.fifo else min(self.holds, key=lambda one: len(self.holds[one]))
        self.open, self.room = self.empty.popleft(), self.each
        self.holds[self.open] = []
        if victim is not None:
            moving = self.holds.pop(victim)
            for page in moving:
                self._put(page)
            self.empty.append(victim)
            self.moved += len(moving)
            self.erased += 1

    def forget(self, page: int) -> None:
        """A discard."""
        if (block := self.where.pop(page, None)) is not None:
            self.holds[block].remove(page)

    def write(self, pages: Iterable[int]) -> None:
        """Writes these pages, one after another."""
        for page in pages:
            self.forget(page)
            while not self.room:
                self._next()
            self._put(page)
            self.written += 1


def over_time(
    simulation: Simulation, pages: Sequence[int], part: int, write_rate: float, read_rate: float
) -> list[float]:
    """Rate of writing these pages one after another, for each so many of them; in the unit of the rates of the flash.

    What is moved is read and written once more; erases count nothing.
    """
    found = []
    for at in range(0, len(pages), part):
        own, before = pages[at : at + part], simulation.moved
        simulation.write(own)
        moved = simulation.moved - before
        found.append(len(own) / ((len(own) + moved) / write_rate + moved / read_rate))
    return found
