"""Which calls of a recording wait for which of another thread: by what both use, in the order in which they began.

Thread by thread, an open file, a file's or folder's content and attributes, and each name are used in the recorded
order; what only looks may come at the same time, and so may names that are made and taken away in one folder, but not
while it is renamed, removed or listed. To know what a call uses, the names of the recorded tree are followed through
all calls. Where a recorded result is not what they lead to (two calls overlapped when they were recorded), all lanes
wait for that call, and it for all.

Source: Weiss et al., ROOT: Replaying Multithreaded Traces with Resource-Oriented Ordering, SOSP 2013. Its stages of a
path are here its name; files are used one after the other, as its file_seq.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, field

from reprofs.errors import UserError
from reprofs.plan.recording import KINDS

LOOKS, CHANGES, ALONE = range(3)  # how something is used: the first two each with their like
MOST = 1_000_000  # files and names: some hundred MB of memory
MOST_LINKS = 40  # path_resolution(7)
NOFOLLOW, FOLLOW, EXCHANGE = 0x100, 0x400, 2
CHANGING = frozenset(
    (
        *("write", "pwrite", "ftruncate", "allocate", "fsync", "fdatasync", "sync-range", "lock", "flock", "fchmod"),
        *("fchown", "fset-times", "fsetxattr", "fremovexattr", "clone", "msync", "copy", "send"),
    )
)
CHANGING_PATHS = frozenset(("truncate", "chmod", "chown", "set-times", "setxattr", "removexattr"))
MAKING = {"mkdir": "d", "mknod": "f", "symlink": "l", "link": "h"}


class Numbers:
    """Gives open files and mappings numbers that are never used again."""

    def __init__(self) -> None:
        self._now = {0: 0}
        self.count = 1  # of those that were given

    def of(self, line: list) -> list:
        """A call with these numbers."""
        new, i = list(line), 2
        for letter in KINDS[line[0]]:
            if letter in "HM" and line[i] >= 0:
                self._now[line[i]] = new[i] = self.count
                self.count += 1
            elif letter in "hmp":
                new[i] = self._now[line[i]]
            i += 1 + (letter == "p")
        return new


@dataclass(slots=True)
class Use:
    """Of one thing: how it is used now, by which call of each lane last, and by which before."""

    how: int = LOOKS
    now: dict[int, int] = field(default_factory=dict)
    before: dict[int, int] = field(default_factory=dict)


class _Node:
    """A folder, file or link: its content and its attributes; of a folder what is in it, and each name's use."""

    __slots__ = ("content", "inside", "kind", "names", "own", "target", "up")

    def __init__(self, kind: str, up: _Node | None = None, target: str = "") -> None:
        self.kind, self.up, self.target = kind, up, target
        self.inside: dict[str, _Node] = {}
        self.names: dict[str, Use] = {}
        self.content, self.own = Use(), Use()


Uses = list[tuple[Use, int]]


class Waits:
    """Takes the calls one after the other. lanes: how many there are; names: the tree before, to be filled."""

    def __init__(self, lanes: int) -> None:
        self.names = Names()
        self._made = [0] * lanes
        self._waited: list[dict[int, int]] = [{} for _ in self._made]
        self._stop: dict[int, int] = {}

    def of(self, line: list, who: list[int]) -> list[tuple[int, int]]:
        """The (lane, number of its calls) that must be made before a call; nothing that its lane waited for."""
        lane, needs = who[0], dict(self._stop)
        for other, count in zip(who[1::2], who[2::2], strict=True):
            needs[other] = max(needs.get(other, 0), count)
        uses, alone = self.names.uses(line)
        self._made[lane] += 1
        for use, how in uses:
            _use(use, how, lane, self._made[lane], needs)
        if alone:
            needs |= {other: count for other, count in enumerate(self._made) if count}
            self._stop = {lane: self._made[lane]}
        waited = self._waited[lane]
        found = [(other, n) for other, n in needs.items() if other != lane and n > waited.get(other, 0)]
        waited.update(found)
        if line[0] in ("close", "unmap") and line[2]:  # its number comes no more
            self.names.open.pop(line[2], None)
        return found


def _use(use: Use, how: int, lane: int, count: int, needs: dict[int, int]) -> None:
    if how == ALONE or how != use.how:
        use.how, use.before, use.now = how, use.now or use.before, {}
    for other, number in use.before.items():
        needs[other] = max(needs.get(other, 0), number)
    use.now[lane] = count


class Names:
    """The tree as the calls leave it, one after the other."""

    def __init__(self) -> None:
        self.top = _Node("d")
        self.open: dict[int, tuple[_Node, Use]] = {0: (self.top, Use())}
        self._things = 0

    def add(self, entry: list) -> None:
        """An entry of the tree before."""
        kind, path, *more = entry
        if path == ".":
            return
        _, folder, name, _ = self._walk(self.top, path, False, [])
        if folder is not None:
            target = self._walk(self.top, more[0], False, [])[3] if kind == "h" else None
            folder.inside[name] = target or self._new(kind, folder, more[0] if kind == "l" else "")

    def _new(self, kind: str, up: _Node | None = None, target: str = "") -> _Node:
        self._count()
        return _Node(kind, up, target)

    def _name(self, folder: _Node, name: str) -> Use:
        found = folder.names.get(name)
        if found is None:
            self._count()
            found = folder.names[name] = Use()
        return found

    def _count(self) -> None:
        self._things += 1
        if self._things > MOST:
            raise UserError(
                f"a recording of several threads, or with listings that are followed, has at most {MOST:,} files and "
                "names: record a shorter run, or fewer folders (--below)."
            )

    def uses(self, line: list) -> tuple[Uses, bool]:
        """What a call uses and how, and whether its result is none to which the tree leads. Then it is made."""
        kind, result, *arguments = line
        if kind in ("open", "enter"):
            return self._open(kind, result, *arguments)
        if kind == "symlink":
            return self._make(kind, result, arguments[1], arguments[2], arguments[0])
        if kind in ("mkdir", "mknod"):
            return self._make(kind, result, arguments[0], arguments[1])
        if kind == "link":
            return self._link(result, *arguments)
        if kind in ("unlink", "rmdir"):
            return self._remove(kind, result, *arguments)
        if kind == "rename":
            return self._rename(result, *arguments)
        return self._other(kind, result, arguments)

    def _walk(
        self, at: _Node | None, path: str, follow: bool, uses: Uses, links: int = 0
    ) -> tuple[bool, _Node | None, str, _Node | None]:
        """Whether all folders are there, the last one, the name in it, and what has it. follow: a link there, too."""
        parts = [part for part in path.split("/") if part not in ("", ".")]
        follow = follow or path.endswith("/")
        folder, name = at, "."
        for number, name in enumerate(parts):
            if at is None or at.kind != "d":
                return False, None, name, None
            folder = at
            uses.append((at.own, LOOKS))
            if name == "..":
                at = at.up or at
                continue
            uses.append((self._name(at, name), LOOKS))
            at = at.inside.get(name)
            last = number == len(parts) - 1
            if at is not None and at.kind == "l" and (follow or not last):
                uses.append((at.own, LOOKS))
                if links == MOST_LINKS:
                    return False, None, name, None
                _, folder, name, at = self._walk(folder, at.target, True, uses, links + 1)
            if at is None and not last:
                return False, None, name, None
        return folder is not None, folder, name, at

    def _path(self, handle: int, path: str, follow: bool, uses: Uses) -> tuple[_Node | None, str, _Node | None]:
        at, use = self.open.get(handle, (None, Use()))
        uses.append((use, LOOKS))
        if path == "":
            return None, "", at
        _, folder, name, found = self._walk(at, path, follow, uses)
        return folder, name, found

    def _open(self, kind: str, result: int | None, handle: int, path: str, *more: int) -> tuple[Uses, bool]:
        uses: Uses = []
        flags, number = (more[0], more[-1]) if kind == "open" else (0, more[-1])
        creates, only = bool(flags & os.O_CREAT), bool(flags & os.O_CREAT and flags & os.O_EXCL)
        folder, name, found = self._path(handle, path, not (flags & os.O_NOFOLLOW or only), uses)
        alone = result is None or _differs(result, found, folder, creates)
        if number >= 0 or (result is not None and result >= 0):
            if flags & os.O_TMPFILE == os.O_TMPFILE:
                found = self._new("f")
            elif creates and found is None and folder is not None:
                found = folder.inside[name] = self._new("f", folder)
                uses += [(self._name(folder, name), ALONE), (folder.content, CHANGES)]
            elif found is None or only:
                found, alone = found or self._new("f"), True
            uses.append((found.own, ALONE if flags & os.O_TRUNC else LOOKS))
        if number >= 0:
            self.open[number] = (found or self._new("f"), Use())
            uses.append((self.open[number][1], ALONE))
        return uses, alone

    def _make(self, kind: str, result: int | None, handle: int, path: str, target: str = "") -> tuple[Uses, bool]:
        uses: Uses = []
        folder, name, found = self._path(handle, path.rstrip("/"), False, uses)
        return uses, self._made(result, folder, name, found, uses, lambda: self._new(MAKING[kind], folder, target))

    def _made(self, result, folder, name, found, uses: Uses, new) -> bool:
        alone = result is None or _differs(result, found, folder, True)
        if result == 0 and folder is not None:
            alone = alone or found is not None
            folder.inside[name] = new()
            uses += [(self._name(folder, name), ALONE), (folder.content, CHANGES)]
        return alone or (result == 0 and folder is None)

    def _link(self, result: int | None, handle: int, path: str, to: int, new: str, flags: int) -> tuple[Uses, bool]:
        uses: Uses = []
        _, _, source = self._path(handle, path, bool(flags & FOLLOW), uses)
        folder, name, found = self._path(to, new, False, uses)
        if source:
            uses.append((source.own, ALONE))
        alone = self._made(result, folder, name, found, uses, lambda: source or self._new("f"))
        return uses, alone or (result == 0 and source is None)

    def _remove(self, kind: str, result: int | None, handle: int, path: str) -> tuple[Uses, bool]:
        uses: Uses = []
        folder, name, found = self._path(handle, path.rstrip("/"), False, uses)
        if kind == "rmdir" and found:
            uses += [(found.content, ALONE), (found.own, ALONE)]
        if result == 0 and folder is not None and found is not None:
            del folder.inside[name]
            uses += [(self._name(folder, name), ALONE), (folder.content, CHANGES), (found.own, ALONE)]
        return uses, result is None or _differs(result, found, folder, False)

    def _rename(self, result: int | None, handle: int, path: str, to: int, new: str, flags: int) -> tuple[Uses, bool]:
        uses: Uses = []
        folder, name, moved = self._path(handle, path.rstrip("/"), False, uses)
        target, second, there = self._path(to, new.rstrip("/"), False, uses)
        for one in (moved, there):
            if one:
                uses += [(one.own, ALONE), (one.content, ALONE)]
        if result != 0 or moved is None or folder is None or target is None:
            return uses, result is None or result == 0 or (result == -errno.ENOENT and bool(moved and target))
        for one, word in ((folder, name), (target, second)):
            uses += [(self._name(one, word), ALONE), (one.content, CHANGES)]
        if moved is not there:
            del folder.inside[name]
            target.inside[second], moved.up = moved, target
            if flags & EXCHANGE and there:
                folder.inside[name], there.up = there, folder
        return uses, False

    def _other(self, kind: str, result: int | None, arguments: list) -> tuple[Uses, bool]:
        """A call that changes no name."""
        if KINDS[kind].startswith("p"):
            return self._of_path(kind, result, *arguments)
        uses: Uses = []
        for letter, number in zip(KINDS[kind], arguments, strict=True):
            if letter not in "hm":
                continue
            node, use = self.open.get(number, (None, Use()))
            uses.append((use, ALONE))
            if node:
                changes = kind in CHANGING or (kind == "touch" and arguments[3])
                uses.append((node.content if kind == "list" else node.own, ALONE if changes else LOOKS))
        if kind == "map" and arguments[-1] >= 0:
            self.open[arguments[-1]] = (self.open[arguments[0]][0], Use())
            uses.append((self.open[arguments[-1]][1], ALONE))
        return uses, result is None and kind not in ("lock", "flock")

    def _of_path(self, kind: str, result: int | None, handle: int, path: str, *numbers: int) -> tuple[Uses, bool]:
        uses: Uses = []
        stays = kind == "readlink" or (kind.endswith("xattr") and numbers[-1])
        if kind in ("stat", "chown", "set-times") and numbers:
            stays = numbers[0] & NOFOLLOW
        folder, _, found = self._path(handle, path, not stays, uses)
        if found:
            uses.append((found.own, ALONE if kind in CHANGING_PATHS else LOOKS))
        missing = result == -errno.ENOENT or (result is not None and result >= 0)
        return uses, result is None or (missing and _differs(result, found, folder, False))


def _differs(result: int | None, found: _Node | None, folder: _Node | None, makes: bool) -> bool:
    """Whether a result contradicts what has the name. makes: the call makes it, so it must not be there."""
    if result == -errno.ENOENT:
        return (found is None and folder is not None) if makes else found is not None
    if result == -errno.EEXIST:
        return found is None
    return result is not None and result >= 0 and found is None and not makes
