"""The tree below the recorded folders, as the entries of a recording."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from reprofs import files
from reprofs.plan.recording import MODE
from reprofs.recorder.names import Names

BLOCK = 512  # of st_blocks, stat(2)


def path_in(roots: Sequence[str], path: str) -> str | None:
    """The path of something as the recording has it, with its real names; None outside of the roots.

    One root is the top of the recording; of several each is a folder in it.
    """
    for number, root in enumerate(roots):
        if path == root or path.startswith(root.rstrip("/") + "/"):
            below = path[len(root) :].strip("/")
            top = f"root{number}" if len(roots) > 1 else ""
            return "/".join(part for part in (top, below) if part) or "."
    return None


def relative(roots: Sequence[str], target: str, link: str) -> str:
    """What a link holds, as a path from its folder where it is a fixed one below a root. link: its own path."""
    below = path_in(roots, os.path.normpath(target)) if target.startswith("/") else None
    at = path_in(roots, link)
    return target if below is None or at is None else os.path.relpath(below, os.path.dirname(at) or ".")  # noqa: PTH120


@contextmanager
def listing(folder: str) -> Iterator[tuple[int, Iterator[os.DirEntry]]]:
    """A folder, open, and what is in it; its path may be of any length. Raises OSError with its path."""
    try:
        fd = files.open_folder(folder)
    except OSError as error:
        error.filename = folder
        raise
    try:
        with os.scandir(fd) as found:
            yield fd, found
    finally:
        os.close(fd)


class Tree(NamedTuple):
    """entries: of a recording; special: devices, sockets and FIFOs, which it cannot have; deep: whose paths are too
    long for it."""

    entries: list[list]
    special: int
    deep: int

    def compared(self) -> list[list]:
        """What the tree of a replay is compared with: nothing where there is more than that tells."""
        return [] if self.deep else self.entries


def read(roots: Sequence[str], names: Names) -> Tree:
    """The tree below the roots.

    Folders by depth, then all else, both as their inodes are numbered: about the order in which they were made, which
    decides where many file systems put them. Raises OSError.
    """
    folders: list[tuple] = [(-1, 0, ".", None)] if len(roots) > 1 else []
    rest: list[tuple] = []
    special = 0
    for root in roots:
        below = path_in(roots, root) or "."
        waiting = [(root, below)]
        folders.append((0 if below == "." else 1, 0, below, os.lstat(root)))
        while waiting:
            place, path = waiting.pop()
            with listing(place) as (folder, found):
                for entry in found:
                    status = entry.stat(follow_symlinks=False)
                    inside = entry.name if path == "." else f"{path}/{entry.name}"
                    full = f"{place}/{entry.name}"
                    if stat.S_ISDIR(status.st_mode):
                        folders.append((inside.count("/") + 1, status.st_ino, inside, status))
                        waiting.append((full, inside))
                    elif stat.S_ISLNK(status.st_mode):
                        target = relative(roots, os.readlink(entry.name, dir_fd=folder), full)
                        rest.append((status.st_ino, inside, status, target))
                    elif stat.S_ISREG(status.st_mode):
                        rest.append((status.st_ino, inside, status, None))
                    else:
                        special += 1
    made = [
        ["d", names.kept(path), stat.S_IMODE(s.st_mode) & MODE if s else 0o755] for _, _, path, s in _sorted(folders)
    ]
    first: dict[int, str] = {}
    for inode, path, status, target in sorted(rest, key=lambda one: one[:2]):
        hidden = names.kept(path)
        if target is not None:
            made.append(["l", hidden, names.target(target)])
        elif hidden and inode in first:
            made.append(["h", hidden, first[inode]])
        else:
            if hidden:
                first[inode] = hidden
            data = min(status.st_size, status.st_blocks * BLOCK)
            made.append(["f", hidden, stat.S_IMODE(status.st_mode) & MODE, status.st_size, data])
    kept = [entry for entry in made if entry[1]]
    return Tree(kept, special, len(made) - len(kept))


def _sorted(folders: list[tuple]) -> list[tuple]:
    """By depth, then by number of the inode."""
    return sorted(folders, key=lambda one: one[:3])
