"""Which calls of a recording follow a listing: visits that a program made in the order in which a folder was listed.

A replay makes them in the order in which its own file system lists that folder. A pass is a stretch of calls that are
all below one listed folder, a part of it those below one name of that folder; passes within a part are such stretches
of a folder further down. Parts change places only where no call could have another result for it: where they use the
same only as calls of several threads may at the same time (guest/lanes.py). A second pass over the same names stays as
it was recorded, for its order may be the program's own (ls -lR sorts).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from reprofs.guest import lanes
from reprofs.plan.recording import KINDS, Content

SHARE = 0.9  # of the first visits: so many are in passes where a replay follows the listings
Path = tuple[str, ...]


@dataclass
class Part:
    """Calls below one name of a folder. passes: that are within it, of all depths."""

    name: str
    calls: int = 0
    passes: int = 0


@dataclass
class Pass:
    """first: the number of its first call; file: the folder that was listed; open: whether that is still open."""

    first: int
    file: int
    folder: Path
    open: bool
    parts: list[Part] = field(default_factory=list)
    fixed: bool = False  # it stays as recorded
    used: dict[int, tuple[lanes.Use, int, int]] = field(default_factory=dict)  # id of a use -> in which part and how
    waiting: list[lanes.Uses] = field(default_factory=list)  # of calls on it or those above, after the last part

    @property
    def calls(self) -> int:
        """How many it has."""
        return sum(part.calls for part in self.parts)


@dataclass
class Found:
    """calls: with numbers of open files that mean the same in whichever order parts come; passes: each before those
    within it; most: whether most first visits to names of listed folders are in passes."""

    calls: list[list]
    handles: int
    passes: list[Pass]
    most: bool


def found(content: Content) -> Found:
    """The passes of a recording."""
    finder = _Finder(content.before)
    numbers = lanes.Numbers()
    calls = [numbers.of(line) for line in content.calls]
    for number, line in enumerate(calls):
        finder.take(number, line)
    while finder.open:
        finder.end()
    passes = sorted(finder.found, key=lambda one: (one.first, -one.calls))
    visits = sum(len(names) for names in finder.seen.values() if len(names) > 1)
    return Found(calls, numbers.count, passes, sum(len(one.parts) for one in passes) >= SHARE * max(visits, 1))


class _Finder:
    """Takes the calls one after the other, and changes the numbers of their open files."""

    def __init__(self, before: list[list]) -> None:
        self.names = lanes.Names()
        for entry in before:
            self.names.add(entry)
        self.where: dict[int, Path] = {0: ()}  # open file or mapping -> its path
        self.same: dict[int, int] = {}  # a folder opened again -> its number before
        self.listed: dict[Path, int] = {}  # folder -> open file
        self.seen: dict[Path, set[str]] = {}  # names of listed folders that were visited
        self.open: list[Pass] = []  # the outer ones first
        self.found: list[Pass] = []

    def take(self, number: int, line: list) -> None:
        """The next call."""
        places = self._places(line)
        on_folder = line[0] != "list" and any(set(places) == {one.folder} for one in self.open)
        while self.open and not (on_folder or _below(places, self.open[-1].folder)):
            self.end()
        self._opened(line, places)
        slots = [self._slot(one) for one in self.open]
        uses, alone = self.names.uses(line)
        for depth in range(len(self.open[-1].folder) + 1 if self.open else 0, min(map(len, places), default=0)):
            folder = places[0][:depth]
            if folder in self.listed and _below(places, folder):
                file = self.listed[folder]
                self.open.append(Pass(number, file, folder, file in self.where))
                slots.append(self._slot(self.open[-1]))
        for one, slot in zip(self.open, slots, strict=True):
            own = (slot, self._slot(one))
            others = [use for use in uses if not any(use[0] is mine for mine in own)]
            one.fixed = one.fixed or alone
            if len(places[0]) <= len(one.folder):
                one.waiting.append(others)
            else:
                self._add(one, places[0][len(one.folder)], others)
        if line[0] == "list":
            self.listed[places[0]] = line[2]

    def _slot(self, one: Pass) -> lanes.Use | None:
        """How the open folder of a pass is used; closed and opened again it is another use."""
        return self.names.open[one.file][1] if one.file in self.names.open else None

    def _places(self, line: list) -> list[Path]:
        """The paths of what a call uses."""
        places, i = [], 2
        for letter in KINDS[line[0]]:
            if letter in "hmp":
                line[i] = self.same.get(line[i], line[i])
                place = self.where.get(line[i], ())
                if letter == "p":
                    place += tuple(part for part in line[i + 1].split("/") if part not in ("", "."))
                places.append(place)
            i += 1 + (letter == "p")
        return places

    def _opened(self, line: list, places: list[Path]) -> None:
        """Keeps what a call opens and closes. A folder closed and opened again within a pass keeps its number there:
        who walks deep does so (fts), and the parts that follow would use what only that one had opened."""
        if line[0] == "close":
            self.where.pop(line[2], None)
        if KINDS[line[0]][-1:] not in ("H", "M") or line[-1] < 0:
            return
        for one in self.open:
            if one.folder == places[0] and one.file not in self.where:
                self.same[line[-1]] = one.file
                line[-1] = one.file
        self.where[line[-1]] = places[0]

    def _add(self, one: Pass, name: str, uses: lanes.Uses) -> None:
        seen = self.seen.setdefault(one.folder, set())
        if one.waiting:
            one.parts[-1].calls += len(one.waiting)
            for own in one.waiting:
                self._use(one, own)
            one.waiting.clear()
        if not one.parts or one.parts[-1].name != name:
            one.fixed = one.fixed or name in seen or (one.file in self.where) != one.open
            one.parts.append(Part(name))
            seen.add(name)
        one.parts[-1].calls += 1
        self._use(one, uses)

    @staticmethod
    def _use(one: Pass, uses: lanes.Uses) -> None:
        for use, how in uses:
            _, part, before = one.used.setdefault(id(use), (use, len(one.parts), how))
            if part != len(one.parts):
                one.fixed = one.fixed or how != before or how == lanes.ALONE
            elif how != before:
                one.used[id(use)] = (use, part, lanes.ALONE)

    def end(self) -> None:
        """The innermost pass is over."""
        one = self.open.pop()
        one.used.clear()
        if one.fixed or len(one.parts) < 2:
            return
        self.found.append(one)
        for outer in self.open:
            outer.parts[-1].passes += 1


def _below(places: list[Path], folder: Path) -> bool:
    """Whether all of them are below one name of the folder."""
    depth = len(folder) + 1
    names = {place[:depth] for place in places}
    return len(names) == 1 and names.pop()[:-1] == folder and len(places[0]) >= depth
