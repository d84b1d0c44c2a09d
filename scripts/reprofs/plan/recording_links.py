"""Whether a link of a recording could lead its replay out of the replay's folder.

Paths of a recording have no `..`, so only links lead up. Where a link leads depends on where it is: it may be made
through another link, be renamed, have a second name, or be below a folder that is renamed. So this follows names as the
kernel does, but for all replays at once: a name stands for everything that the calls could give it, a folder is in
each folder into which they could put it. These sets only grow, until no call adds anything. So it does not matter which
calls succeed, in which order they come, or from which thread: if no link leads out here, none does in a replay.
(Method: a points-to analysis that ignores order; L. O. Andersen, thesis, Copenhagen, 1994.)
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from reprofs.errors import short

UP = 8  # so many folders a link may lead up from where it is; as many are above the tree of a replay
ABOVE = "0"  # the name of each of these folders (scripts/engine/programs/replay/recording.h)
STEPS = 20_000_000  # from a name to what may have it: some ten seconds
EXCHANGE = 2  # of renameat2(2)
OUTSIDE, TOP = -1, UP  # numbers of folders; from 0 to UP - 1 those above the tree
PASSES = 100


@dataclass(frozen=True)
class Leads:
    """A link that may lead out. line: which one of the entries and calls makes it, from 0; why: a clause."""

    line: int
    why: str


class Followed:
    """Whether a link may lead out, of entries and calls that come one at a time, each valid by itself.

    Memory: that of their different paths.
    """

    def __init__(self) -> None:
        self._seen = _Calls()

    def entry(self, line: Sequence) -> None:
        """An entry of the tree before; all of them come before the calls."""
        self._seen.entry(*line)

    def call(self, line: Sequence) -> None:
        """A call, in the order of the recording."""
        self._seen.call(line)

    def leads(self) -> Leads | None:
        """The first link that may lead out of the folder of a replay; None when none can."""
        if not any(link.up for link in self._seen.links.values()):
            return None
        return _Names().followed(self._seen)


def leads_out(before: Iterable[Sequence], calls: Iterable[Sequence]) -> Leads | None:
    """The same of all entries and calls of a recording."""
    found = Followed()
    for line in before:
        found.entry(line)
    for line in calls:
        found.call(line)
    return found.leads()


def _parts(path: str) -> tuple[str, ...]:
    """Its names, in lower case: some file systems do not tell the cases apart."""
    return tuple(part for part in path.lower().split("/") if part not in ("", "."))


class _GivenUp(Exception):
    pass


@dataclass
class _Link:
    up: int
    rest: tuple[str, ...]
    path: str
    line: int


@dataclass
class _Names:
    """What may be where: `names` of a folder, `parents` of a folder, folders to which a link in a folder `leads`, open
    files by number. Folders and links have numbers; files have none, for nothing is below them."""

    names: defaultdict[tuple[int, str], set[int]] = field(default_factory=lambda: defaultdict(set))
    parents: defaultdict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    leads: defaultdict[tuple[int, int], set[int]] = field(default_factory=lambda: defaultdict(set))
    opened: defaultdict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    links: dict[int, _Link] = field(default_factory=dict)
    steps: int = 0
    grown: bool = True

    def followed(self, todo: "_Calls") -> Leads | None:
        """Gives names until nothing is new; the first link that leads out meanwhile."""
        self.parents[0].add(OUTSIDE)
        for number in range(UP):
            self._put(number + 1, {number}, ABOVE)
        self.opened[0].add(TOP)
        for number, link in todo.links.items():
            self.links[number] = link
        try:
            for _ in range(PASSES):
                self.grown = False
                for call in todo.all:
                    self._make(*call)
                for folder, number in [(folder, one) for one in self.links for folder in tuple(self.parents[one])]:
                    above = self._above(folder, self.links[number].up)
                    if OUTSIDE in above:
                        return self._why(number, "could lead out of the replay's folder")
                    self._add(self.leads[folder, number], self._at(above, self.links[number].rest))
                if not self.grown:
                    return None
        except _GivenUp:
            pass
        return self._why(min(self.links), "may lead to too many places to be followed")

    def _why(self, number: int, what: str) -> Leads:
        return Leads(self.links[number].line, f"the link {short(self.links[number].path)} {what}")

    def _make(self, kind: str, made: int, one: int, path: tuple[str, ...], other: int, to: tuple[str, ...]) -> None:
        """One call. made: the number of what it makes; one, other: open files from which the paths lead."""
        if kind == "open":
            self._add(self.opened[made], self._at(self.opened[one], path) if path else self.opened[one])
            self._add(self.opened[made], self._named(one, path) & self.links.keys())
        elif kind in ("mkdir", "symlink"):
            self._put(made, self._folders(other, to), to[-1])
        else:
            found = self._named(one, path) if path else self.opened[one]
            if kind == "link":
                found = found & self.links.keys()
            for number in tuple(found):
                self._put(number, self._folders(other, to), to[-1])

    def _put(self, number: int, folders: set[int], name: str) -> None:
        for folder in tuple(folders):
            self._add(self.names[folder, name], {number})
            self._add(self.parents[number], {folder})

    def _add(self, known: set[int], more: set[int]) -> None:
        before = len(known)
        known |= more
        self.grown = self.grown or len(known) > before

    def _folders(self, opened: int, path: tuple[str, ...]) -> set[int]:
        """The folders in which the last name of a path may be."""
        return self._at(self.opened[opened], path[:-1])

    def _named(self, opened: int, path: tuple[str, ...]) -> set[int]:
        """What may have the last name of a path, links not followed."""
        if not path:
            return set()
        found = [self.names.get((folder, path[-1]), set()) for folder in self._folders(opened, path)]
        return set().union(*found)

    def _at(self, folders: set[int], path: Sequence[str]) -> set[int]:
        """The folders to which a path may lead, links followed."""
        for name in path:
            found: set[int] = set()
            for folder in folders:
                for number in self.names.get((folder, name), ()):
                    found |= self.leads.get((folder, number), set()) if number in self.links else {number}
                self._spend(1 + len(found))
            folders = found
        return folders

    def _above(self, folder: int, up: int) -> set[int]:
        folders = {folder}
        for _ in range(up):
            folders = set().union(*(self.parents.get(one, {OUTSIDE}) for one in folders))
            self._spend(len(folders))
        return folders

    def _spend(self, steps: int) -> None:
        self.steps += steps
        if self.steps > STEPS:
            raise _GivenUp


@dataclass(slots=True, eq=False)
class _Open:
    """An open file: from which one it was opened, by which path, and its number once it has one."""

    base: "_Open | None"
    path: tuple[str, ...]
    number: int = -1


class _Calls:
    """What entries and calls may do to names of folders and links, each kind of it once.

    A replay has one open file under a number at a time, and none once it was closed; in threads each has a number of
    its own (guest/lanes.py). So what a number means follows from the order in the recording alone.
    """

    def __init__(self) -> None:
        self.links: dict[int, _Link] = {}
        self.all: dict[tuple, None] = {}
        self._numbers: dict[tuple, int] = {}
        self._open = {0: _Open(None, (), 0)}
        self._lines = 0

    def entry(self, kind: str, path: str, *more) -> None:
        if kind == "d":
            self._makes("mkdir", 0, path)
        elif kind == "l":
            self._makes("symlink", 0, path, more[0])
        self._lines += 1

    def call(self, call: Sequence) -> None:
        kind = call[0]
        if kind == "mkdir":
            self._makes(kind, call[2], call[3])
        elif kind == "symlink":
            self._makes(kind, call[3], call[4], call[2])
        elif kind in ("rename", "link"):
            self._moves(kind, *call[2:7])
        elif kind in ("open", "enter") and call[-1] > 0:
            self._open[call[-1]] = _Open(self._open[call[2]], _parts(call[3]))
        self._lines += 1

    def _opened(self, number: int) -> int:
        """The number here of what is open under a number of the recording: the same one for the same path."""
        chain = [self._open[number]]
        while chain[-1].number < 0 and chain[-1].base:
            chain.append(chain[-1].base)
        for base, one in pairwise(reversed(chain)):
            key = ("open", base.number, one.path, "")
            one.number = self._numbers.setdefault(key, TOP + 1 + len(self._numbers))
            self.all.setdefault(("open", one.number, base.number, one.path, 0, ()))
        return chain[0].number

    def _makes(self, kind: str, opened: int, path: str, target: str = "") -> None:
        if not (to := _parts(path)):
            return  # the top, which is there, or an open file, which has a name
        opened = self._opened(opened)
        number = self._numbers.setdefault((kind, opened, to, target), TOP + 1 + len(self._numbers))
        if kind == "symlink" and number not in self.links:
            up = target.split("/").count("..")
            self.links[number] = _Link(up, _parts(target)[up:], path, self._lines)
        self.all.setdefault((kind, number, 0, (), opened, to))

    def _moves(self, kind: str, opened: int, path: str, other: int, to: str, flags: int) -> None:
        one, two = _parts(path), _parts(to)
        if two and (one or kind == "link"):
            opened, other = self._opened(opened), self._opened(other)
            self.all.setdefault((kind, 0, opened, one, other, two))
            if kind == "rename" and flags & EXCHANGE and one:
                self.all.setdefault((kind, 0, other, two, opened, one))
