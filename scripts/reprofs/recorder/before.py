"""Reconstructs the tree before the first call from the calls and their results.

What a call needs to be as it was recorded must have been there. The calls are followed with the names that they make,
move and remove, so that what turns up later is put where it was in the beginning.
"""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass, field

from reprofs.plan.recording import MODE
from reprofs.recorder.events import Told
from reprofs.recorder.names import Names

NOFOLLOW, FOLLOW, EXCHANGE, KEEP_SIZE = 0x100, 0x400, 2, 1
MOST_LINKS = 40  # path_resolution(7)
BLOCK = 512  # of st_blocks, stat(2)
KINDS = {stat.S_IFDIR: "d", stat.S_IFREG: "f", stat.S_IFLNK: "l"}
OF_LISTINGS = {4: "d", 8: "f", 10: "l", 0: ""}  # d_type, readdir(3)
USUAL = {"d": 0o755, "f": 0o644}


@dataclass(eq=False)
class Node:
    """A file, folder or link, or something that may be one.

    kind: "" if not told, "s" if a recording cannot have it; origin: where it was before the first call, None if it was
    not; perhaps: where it was if it was. size: at least, or just that if exact; beyond `top` its content is as it was
    before, nowhere if cut. inside: of a folder, name -> what it leads to now, None if to nothing.
    """

    kind: str = ""
    origin: tuple[Node, str] | None = None
    perhaps: tuple[Node, str] | None = None
    at: tuple[Node, str] | None = None
    told: bool = False  # its kind, by stat or by a listing
    mode: int | None = None
    changed: bool = False  # its mode
    size: int = 0
    exact: bool = False
    mapped: int = 0
    data: int | None = None
    top: int = 0
    appended: int = 0  # while its size was not known
    cut: bool = False
    inode: int = 0
    target: str | None = None
    length: int = 0
    whole: bool = False  # all that was in it is known
    like: Node | None = None  # the same file by another name
    inside: dict[str, Node | None] = field(default_factory=dict)

    def is_before(self) -> bool:
        return self.origin is not None

    def may_be_link(self) -> bool:
        return self.is_before() and bool(self.at) and (self.kind == "l" or not self.told)


@dataclass
class Open:
    """An open file."""

    node: Node
    position: int = 0
    appends: bool = False


class Before:
    """Takes the calls in their order; then `entries` has the tree."""

    def __init__(self, names: Names, roots: int, told: dict[int, Told]) -> None:
        self.names, self.told = names, told
        self._nodes: list[Node] = []
        self.top = Node("d", told=True)
        self.top.origin = (self.top, ".")
        if roots > 1:
            self.top.whole = True
            for number in range(roots):
                self._found(self.top, names.path(f"root{number}"), "d")
        self.open = {0: Open(self.top)}
        self._first: dict[tuple[int, int], Node] = {}  # device and inode -> file of several names
        self._place = (self.top, "")  # where the last path led

    def _found(self, folder: Node, name: str, kind: str = "") -> Node:
        """What a name leads to, which something shows to be there."""
        folder.kind = folder.kind or "d"
        node = folder.inside.get(name)
        if node is None:
            node = Node(at=(folder, name))
            if folder.is_before() and name not in folder.inside:
                node.origin = (folder, name)
                self._nodes.append(node)
            folder.inside[name] = node
        if kind and not node.told:
            node.kind = kind
        return node

    def _made(self, folder: Node, name: str, kind: str) -> Node:
        node = Node(kind, at=(folder, name), told=True, changed=True, whole=True)
        folder.kind, folder.inside[name] = "d", node
        return node

    def _step(self, folder: Node, name: str, links: int = 0) -> Node:
        """A folder in a folder, through links."""
        if name in (".", ".."):
            return folder.at[0] if folder.at and name == ".." else folder
        node = self._found(folder, name)
        if node.kind == "l" and node.target is not None and links < MOST_LINKS:
            for part in node.target.split("/"):
                folder = self._step(folder, part, links + 1)
            return folder
        node.kind = node.kind or "d"
        return node

    def _parent(self, line: list, at: int) -> tuple[Node, str]:
        """(folder, name) of a path that begins at a value of a line; the name is empty for the open file itself."""
        node, path = self.open[line[at]].node, line[at + 1]
        parts = [part for part in path.split("/") if part not in ("", ".")]
        for part in parts[:-1]:
            node = self._step(node, part)
        return (node, parts[-1]) if parts else (node, "")

    def _node(self, line: list, at: int = 2, follow: bool = True) -> Node:
        """What a path of a call that succeeded leads to."""
        folder, name = self._parent(line, at)
        self._place = (folder, name)
        if not name:
            return folder
        node = self._found(folder, name)
        for _ in range(MOST_LINKS):
            if not follow or node.kind != "l" or node.target is None:
                break
            *parts, name = node.target.split("/")
            for part in parts:
                folder = self._step(folder, part)
            if name in (".", ".."):
                return self._step(folder, "..") if name == ".." else folder
            self._place = (folder, name)
            node = self._found(folder, name)
        return node.like or node

    def _of(self, line: list, follow: bool = True) -> Node:
        """What a call is made on: by its open file (fstat) or by its path (stat)."""
        return self.open[line[2]].node if line[0].startswith("f") else self._node(line, follow=follow)

    # ---- calls

    def take(self, line: list) -> None:
        """A call that ended."""
        kind, result = line[0], line[1]
        if result is None:
            return
        if result < 0:
            self._failed(kind, line)
        elif own := getattr(self, f"_on_{kind.replace('-', '_')}", None):
            own(line)
        elif kind in _PATHS:
            self._node(line, 2, not line[-1] & _PATHS[kind] if _PATHS[kind] else True)

    def _failed(self, kind: str, line: list) -> None:
        """A call that failed tells something, too."""
        code, at = -line[1], _NEW.get(kind, 2)
        if kind not in _ON_NAMES or len(line) < at + 2:
            return
        if code == errno.ENOENT and at == 2:
            self._absent(line, at)
        elif code in (errno.EEXIST, errno.ENOTEMPTY):
            node = self._node(line, at, follow=False)
            if code == errno.EEXIST:
                node.kind = node.kind or ("d" if kind == "mkdir" else "")
            elif not any(node.inside.values()):
                self._found(node, self.names.path("something"), "f")
        elif code == errno.EISDIR or (code == errno.ENOTDIR and kind == "open" and line[4] & os.O_DIRECTORY):
            node = self._node(line, at)
            node.kind = node.kind or ("d" if code == errno.EISDIR else "f")
        elif code == errno.ELOOP and kind == "open":
            self._node(line, at, follow=False).kind = "l"
        elif code in (errno.ENODATA, errno.EOPNOTSUPP, errno.EINVAL) and kind in _READ_ONLY:
            self._node(line, at, follow=False)

    def _absent(self, line: list, at: int) -> None:
        """Nothing is there, if the folders before it are."""
        node = self.open[line[at]].node
        parts = [part for part in line[at + 1].split("/") if part not in ("", ".")]
        for part in parts[:-1]:
            inner = node.inside.get(part)
            if inner is None or inner.kind != "d":
                return
            node = inner
        if parts:
            node.inside.setdefault(parts[-1], None)

    def _on_open(self, line: list) -> None:
        flags, told = line[4], self.told.get(id(line), Told())
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            self._node(line).kind = "d"
            node = Node("f", told=True, changed=True)
        else:
            node = self._opened(line, flags)
            if told.real is not None:
                node = self._led(node, told.real)
        if flags & os.O_DIRECTORY:
            node.kind = node.kind or "d"
        elif flags & os.O_ACCMODE:
            node.kind = node.kind or "f"
        if flags & os.O_TRUNC and flags & os.O_ACCMODE:
            node.cut, node.top = True, 0
        self.open[line[6]] = Open(node, appends=bool(flags & os.O_APPEND))

    def _opened(self, line: list, flags: int) -> Node:
        folder, name = self._parent(line, 2)
        there = folder.inside.get(name)
        self._place = (folder, name)
        if not name or there or not flags & os.O_CREAT:
            return self._node(line, follow=not flags & os.O_NOFOLLOW)
        known = folder.whole or name in folder.inside
        node = self._made(folder, name, "f")
        if not flags & os.O_EXCL and folder.is_before() and not known:
            node.perhaps = (folder, name)
        return node

    def _led(self, node: Node, real: str) -> Node:
        """What was opened is elsewhere than its path says: a folder or file on it is a link."""
        folder, name = self._place
        here = "/".join(part for part in (_path(folder), name) if part not in ("", ".")) or "."
        if here == real:
            return node
        old, new = here.split("/"), real.split("/")
        while old and new and old[-1] == new[-1]:
            old.pop(), new.pop()
        link: Node | None = self.top
        for part in old:
            link = link and link.inside.get(part)
        if not link or not link.may_be_link() or link is self.top:
            return node
        goal = self._walk(new)
        link.kind, link.target = "l", os.path.relpath("/" + "/".join(new), "/" + "/".join(old[:-1]))
        for name, inner in link.inside.items():
            if inner is not None and goal.inside.get(name) is None:
                goal.inside[name] = inner
                inner.at, inner.origin = (goal, name), (goal, name) if inner.origin and goal.is_before() else None
        link.inside = {}
        return self._walk(real.split("/"))

    def _walk(self, parts: list[str]) -> Node:
        node = self.top
        for part in parts:
            node = self._found(node, part) if part not in ("", ".") else node
        return node.like or node

    def _on_enter(self, line: list) -> None:
        node = self._node(line)
        node.kind, self.open[line[-1]] = node.kind or "d", Open(node)

    def _on_close(self, line: list) -> None:
        self.open.pop(line[2], None)

    # ---- what is told of what is there

    def _on_stat(self, line: list) -> None:
        node = self._of(line, line[0] == "fstat" or not line[4] & NOFOLLOW)
        told = self.told.get(id(line))
        if not told or "mode" not in told.status:
            return
        status = told.status
        node.kind, node.told = KINDS.get(stat.S_IFMT(status["mode"]), "s"), True
        if not node.changed:
            node.mode = stat.S_IMODE(status["mode"]) & MODE
        node.inode = node.inode or status.get("ino", 0)
        if node.kind == "l":
            node.length = status.get("size", 0)
        elif node.kind == "f":
            if not node.top and not node.cut and "blocks" in status:
                node.data = status["blocks"] * BLOCK
            self._learn(node, status.get("size", 0), True)
            if status.get("nlink", 1) > 1:
                self._same(node, (status.get("dev", 0), status.get("ino", 0)))

    _on_fstat = _on_stat

    def _same(self, node: Node, key: tuple[int, int]) -> None:
        """A file of several names: is it one that is known by another?"""
        first = self._first.setdefault(key, node)
        if first is node or not node.is_before() or not first.is_before() or node.like:
            if not node.is_before():
                self._first.pop(key, None)
            return
        node.like = first
        for one in self.open.values():
            one.node = first if one.node is node else one.node

    def _learn(self, node: Node, end: int, exact: bool) -> None:
        """The file has content until there, or ends there."""
        if node.cut or node.exact or end < node.top or (end == node.top and node.top):
            return
        end -= node.appended if exact else 0
        node.size, node.exact = max(node.size, end), exact
        if end and node.perhaps:
            node.origin, node.perhaps = node.perhaps, None
            self._nodes.append(node)

    def _on_list(self, line: list) -> None:
        node = self.open[line[2]].node
        node.kind, node.whole = "d", node.whole or line[1] == 0
        for entry in self.told.get(id(line), Told()).entries:
            found = self._found(node, entry.name)
            found.inode = found.inode or entry.inode
            if not found.told and (kind := OF_LISTINGS.get(entry.kind, "s")):
                found.kind, found.told = kind, True

    def _on_readlink(self, line: list) -> None:
        node = self._node(line, follow=False)
        node.kind, node.told, node.length = "l", True, line[1]
        if node.target is None and (told := self.told.get(id(line))):
            node.target = told.target

    # ---- content

    def _on_read(self, line: list) -> None:
        file, own = self.open[line[2]], line[0] == "read"
        at = file.position if own else line[4]
        file.node.kind = file.node.kind or "f"
        if line[1]:
            self._learn(file.node, at + line[1], line[1] < line[3])
        elif at == file.node.size:
            file.node.exact = file.node.exact or not file.node.cut
        if own:
            file.position += line[1]

    def _on_write(self, line: list) -> None:
        file, own = self.open[line[2]], line[0] == "write"
        node = file.node
        if file.appends and not node.exact and not node.cut and (node.origin or node.perhaps):
            node.appended += line[1]  # nobody knows where
            return
        end = node.size + node.appended if node.origin and not node.cut else 0
        at = max(end, node.top) if file.appends else file.position if own else line[4]
        node.top = max(node.top, at + line[1])
        if own:
            file.position = at + line[1]

    _on_pread, _on_pwrite = _on_read, _on_write

    def _on_seek(self, line: list) -> None:
        file = self.open[line[2]]
        if line[4] == os.SEEK_END:
            self._learn(file.node, line[1] - line[3], True)
        file.position = line[1]

    def _on_truncate(self, line: list) -> None:
        node = self._of(line)
        node.kind, node.cut, node.top = "f", True, line[-1]

    _on_ftruncate = _on_truncate

    def _on_allocate(self, line: list) -> None:
        if not line[3] & KEEP_SIZE:
            node = self.open[line[2]].node
            node.top = max(node.top, line[4] + line[5])

    def _on_copy(self, line: list) -> None:
        offsets = (line[5], line[6] if line[0] == "copy" else -1)
        for file, offset, target in zip((self.open[line[2]], self.open[line[3]]), offsets, (False, True), strict=True):
            at = file.position if offset < 0 else offset
            if target:
                file.node.top = max(file.node.top, at + line[1])
            elif line[1]:
                self._learn(file.node, at + line[1], False)
            if offset < 0:
                file.position = at + line[1]

    _on_send = _on_copy

    def _on_clone(self, line: list) -> None:
        self.open[line[2]].node.top = max(self.open[line[2]].node.top, self.open[line[3]].node.size)

    def _on_map(self, line: list) -> None:
        if not (node := self.open[line[2]].node).cut and not node.top:
            node.mapped = max(node.mapped, line[3] + line[4])

    def _on_chmod(self, line: list) -> None:
        self._of(line).changed = True

    _on_fchmod = _on_chmod

    # ---- names that are made, moved and removed

    def _on_mkdir(self, line: list) -> None:
        self._made(*self._parent(line, 2), "d" if line[0] == "mkdir" else "f" if stat.S_ISREG(line[4]) else "s")

    _on_mknod = _on_mkdir

    def _on_symlink(self, line: list) -> None:
        self._made(*self._parent(line, 3), "l").target = line[2]

    def _on_link(self, line: list) -> None:
        node, (folder, name) = self._node(line, 2, follow=bool(line[6] & FOLLOW)), self._parent(line, 4)
        folder.inside[name] = node

    def _on_unlink(self, line: list) -> None:
        folder, name = self._parent(line, 2)
        node = self._found(folder, name, "d" if line[0] == "rmdir" else "")
        node.kind = node.kind or "f"
        folder.inside[name] = None

    _on_rmdir = _on_unlink

    def _on_rename(self, line: list) -> None:
        places = self._parent(line, 2), self._parent(line, 4)
        nodes = [self._found(*places[0]), self._found(*places[1]) if line[6] & EXCHANGE else None]
        for (folder, name), node in zip(places, reversed(nodes), strict=True):
            folder.inside[name] = node
            if node:
                node.at = (folder, name)

    # ---- the result

    def entries(self) -> list[list]:
        """The entries of the tree, as a recording has them."""
        made: list[list] = [["d", ".", self.top.mode or USUAL["d"]]]
        taken, inner = {"."}, {"."}

        def fits(path: str) -> bool:
            """Calls that contradict each other, of a program that was not alone, leave what cannot be."""
            if path in taken or (path.rpartition("/")[0] or ".") not in inner:
                return False
            taken.add(path)
            return True

        hidden = [(node, path) for node in self._nodes if (path := _origin(node)) is not None]
        for node, _ in hidden:
            node.kind = node.kind or ("d" if node.inside else "f")
        folders = [one for one in hidden if one[0].kind == "d"]
        for node, path in sorted(folders, key=lambda one: (one[1].count("/"), *_order(one[0]))):
            if fits(path):
                inner.add(path)
                made.append(["d", path, USUAL["d"] if node.mode is None else node.mode])
        first: dict[int, str] = {}
        for node, path in sorted(hidden, key=lambda one: _order(one[0])):
            real = node.like or node
            if real.kind in ("l", "f") and fits(path):
                made.append(self._entry(real, path, first))
        return made

    def _entry(self, node: Node, path: str, first: dict[int, str]) -> list:
        """first: id of a file -> its first path."""
        if node.kind == "l":
            return ["l", path, node.target or self.names.target("x" * max(node.length, 1))]
        if first.setdefault(id(node), path) != path:
            return ["h", path, first[id(node)]]
        size = node.size if node.size or node.exact else node.mapped
        mode = USUAL["f"] if node.mode is None else node.mode
        return ["f", path, mode, size, size if node.data is None else min(size, node.data)]

    def guesses(self) -> tuple[int, int, int]:
        """Of the tree: files whose size is not told, entries whose mode is not, and what a recording cannot have."""
        real = [node for node in self._nodes if not node.like]
        return (
            sum(node.kind == "f" and not node.exact for node in real),
            sum(node.kind in ("d", "f") and node.mode is None for node in real),
            sum(node.kind == "s" for node in real),
        )


_NEW = {"symlink": 3, "link": 4, "rename": 4}  # where the path of what is made stands in a line
# Calls on a path that leave what is there as it is -> the flag, in their last number, that they follow no link.
_PATHS = {"access": 0, "chown": NOFOLLOW, "set-times": NOFOLLOW, "statfs": 0}
_PATHS |= {"getxattr": 1, "listxattr": 1, "setxattr": 1, "removexattr": 1}
_READ_ONLY = frozenset(("readlink", "getxattr", "listxattr"))
_ON_NAMES = frozenset(
    (*_PATHS, "open", "enter", "stat", "readlink", "mkdir", "mknod", "rmdir", "unlink", "link", "symlink", "rename")
) | {"chmod", "truncate"}


def _order(node: Node) -> tuple[bool, int]:
    """As the inodes are numbered; what is not told comes last."""
    return not node.inode, node.inode


def _path(node: Node) -> str:
    """Where a folder is now."""
    parts: list[str] = []
    while node.at and len(parts) < 4096:
        folder, name = node.at
        parts.append(name)
        node = folder
    return "/".join(reversed(parts)) or "."


def _origin(node: Node) -> str | None:
    """Where something was in the beginning."""
    parts: list[str] = []
    while node.origin and node.origin[0] is not node:
        parts.append(node.origin[1])
        node = node.origin[0]
    return "/".join(reversed(parts)) if node.origin else None
