"""The tree below the recorded folders, as the entries of a recording."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path

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


def entries(roots: Sequence[str], names: Names) -> tuple[list[list], int]:
    """The entries below the roots, and how many there are that a recording cannot have (devices, sockets, FIFOs).

    Folders by depth, then all else, both as their inodes are numbered: about the order in which they were made, which
    decides where many file systems put them.
    """
    folders: list[tuple] = [(-1, 0, ".", None)] if len(roots) > 1 else []
    rest: list[tuple] = []
    special = 0
    for root in roots:
        below = path_in(roots, root) or "."
        waiting = [(root, below)]
        folders.append((0 if below == "." else 1, 0, below, os.lstat(root)))
        while waiting:
            folder, path = waiting.pop()
            for entry in os.scandir(folder):
                status = entry.stat(follow_symlinks=False)
                inside = entry.name if path == "." else f"{path}/{entry.name}"
                if stat.S_ISDIR(status.st_mode):
                    folders.append((inside.count("/") + 1, status.st_ino, inside, status))
                    waiting.append((entry.path, inside))
                elif stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
                    rest.append((status.st_ino, inside, status, entry.path))
                else:
                    special += 1
    made = [
        ["d", names.path(path), stat.S_IMODE(s.st_mode) & MODE if s else 0o755] for _, _, path, s in _sorted(folders)
    ]
    first: dict[int, str] = {}
    for inode, path, status, place in sorted(rest, key=lambda one: one[:2]):
        hidden = names.path(path)
        if stat.S_ISLNK(status.st_mode):
            made.append(["l", hidden, names.target(relative(roots, str(Path(place).readlink()), place))])
        elif inode in first:
            made.append(["h", hidden, first[inode]])
        else:
            first[inode] = hidden
            data = min(status.st_size, status.st_blocks * BLOCK)
            made.append(["f", hidden, stat.S_IMODE(status.st_mode) & MODE, status.st_size, data])
    return made, special


def _sorted(folders: list[tuple]) -> list[tuple]:
    """By depth, then by number of the inode."""
    return sorted(folders, key=lambda one: one[:3])
