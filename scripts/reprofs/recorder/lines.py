"""The lines of a recording in the making: calls as they begin, their lanes, and numbers of open files."""

from __future__ import annotations

from bisect import bisect_left

from reprofs.plan.recording import HANDLES
from reprofs.recorder.tasks import Task

MOST_CALLS = 20_000_000


class TooMany(Exception):
    """More calls than a recording can have."""


class Lines:
    """A line is [kind, result, values]; its result is False until the call ends, its kind empty if it is left out."""

    def __init__(self) -> None:
        self.handles = self.lanes = 1
        self._lines: list[list] = []
        self._who: list[tuple[int, dict[int, int]]] = []  # of each: its lane, and after which lines of others
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self._lines)

    def add(self, task: Task, kind: str, *values: object) -> list:
        """A call of a task begins. Raises TooMany."""
        if len(self) >= MOST_CALLS:
            raise TooMany
        line = [kind, False, *values]
        self._lines.append(line)
        self._who.append((task.lane, task.after))
        task.after = {}
        return line

    def number(self) -> int:
        """A number for an open file or a mapping. Raises TooMany."""
        if self._free:
            return self._free.pop()
        self.handles += 1
        if self.handles > HANDLES:
            raise TooMany
        return self.handles - 1

    def free(self, number: int) -> None:
        """A number is not used any more."""
        self._free.append(number)

    def ended(self) -> tuple[list[list], list[list[int]]]:
        """See Program.calls."""
        found, who = [], []
        late: dict[int, dict[int, int]] = {}
        kept: list[list[int]] = [[] for _ in range(self.lanes)]  # numbers of the lines of each lane
        for number, (line, (lane, after)) in enumerate(zip(self._lines, self._who, strict=True)):
            for other, bound in after.items():  # a line that is left out leaves its waiting to the next
                before = late.setdefault(lane, {})
                before[other] = max(before.get(other, 0), bound)
            if not line[0] or line[1] is False:
                continue
            found.append(line)
            counts = {other: bisect_left(kept[other], bound) for other, bound in late.pop(lane, {}).items()}
            who.append([lane, *(n for one in counts.items() if one[1] and one[0] != lane for n in one)])
            kept[lane].append(number)
        return found, who if self.lanes > 1 else []
