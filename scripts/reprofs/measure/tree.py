"""The files of a program as a tree for the lab: from this machine, a folder or an archive, always with the same bytes.

Times of this machine, owners and extended attributes stay out. Python's compiled modules name the time of their source:
in the tree that is the one which all its files have.
"""

from __future__ import annotations

import io
import os
import posixpath
import re
import stat
import struct
import subprocess
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import IO, BinaryIO

from reprofs.errors import UserError, middle
from reprofs.guest.folder import LINKS, Folder
from reprofs.guest.image import EPOCH

ELSEWHERE = ("/proc", "/sys", "/dev")  # what the lab has of its own
MOST_BYTES = 3 << 30  # of files in a tree: a memory module of the guest holds it
SHARED = 0o1777  # the mode of /tmp
HWCAPS = re.compile(r"/glibc-hwcaps/x86-64-v[0-9]+")
NEWEST_HWCAPS = "/glibc-hwcaps/x86-64-v2"  # that the lab's processor has
MIB = 1 << 20
CODE_BYTES = 64 << 20  # of a compiled module, at most


class Tree:
    """A tree in the making in a new folder: `root`, `input`, `words` and `environment` (whole-program.c)."""

    def __init__(self, folder: Path) -> None:
        self.folder = Folder(folder)
        self.files = self.bytes = 0
        self.special: set[str] = set()  # neither file, folder nor link
        for name in ("root", "input"):
            self.folder.folder(name, 0o755)
        self.root = Folder(folder / "root")

    def texts(self, name: str, texts: Iterable[str]) -> None:
        """A file of texts, each ended by a zero byte."""
        self.folder.write(name, b"".join(os.fsencode(text) + b"\0" for text in texts))

    def take(self, source: Path, below: str) -> None:
        """Copies all that is below a folder. Raises UserError for what cannot be read."""
        self.folder.folder(below, stat.S_IMODE(source.stat().st_mode))
        for entry in sorted(os.scandir(source), key=lambda one: one.name):
            name, state = f"{below}/{entry.name}", entry.stat(follow_symlinks=False)
            try:
                if entry.is_symlink():
                    self.folder.link(name, str(Path(entry.path).readlink()))
                elif entry.is_dir(follow_symlinks=False):
                    self.take(Path(entry.path), name)
                elif stat.S_ISREG(state.st_mode):
                    with Path(entry.path).open("rb") as file:
                        self.put(name, file, state.st_mode)
                else:
                    self.special.add(entry.path)
            except PermissionError:
                raise UserError(
                    f"{middle(entry.path)} cannot be read: change its permissions, or leave it out."
                ) from None

    def put(self, name: str, content: IO[bytes], mode: int, folder: Folder | None = None) -> None:
        """A file with this content, in the tree or in a folder of it. Raises UserError when the tree gets too large."""
        with (folder or self.folder).new(name, stat.S_IMODE(mode)) as to:
            if name.endswith(".pyc"):
                content = io.BytesIO(_compiled_anew(content.read(CODE_BYTES)))
            for part in iter(lambda: content.read(MIB), b""):
                to.write(part)
                self.bytes += len(part)
                if self.bytes > MOST_BYTES:
                    raise UserError(
                        f"the program's files have more than {MOST_BYTES // MIB:,} MiB with {middle(name)}: leave out "
                        "what it does not need."
                    )
        self.files += 1


class Found(Tree):
    """A tree of what a program named on this machine.

    began: ns of the clock; what changed later is the program's own work and stays out. without: folders that stay out.
    """

    def __init__(self, folder: Path, began: int, without: Iterable[str]) -> None:
        super().__init__(folder)
        self.began, self.without = began, (*ELSEWHERE, *without)
        self.changed: set[str] = set()
        self._known: set[str] = set()

    def add(self, path: str) -> None:
        """A path as the program named it, with the links on its way; nothing where there is nothing."""
        at, parts, links = "/", deque(path.split("/")), 0
        while parts:
            part = parts.popleft()
            here = posixpath.normpath(posixpath.join(at, part))  # `at` has no links
            if here != "/" and any(here == one or here.startswith(f"{one}/") for one in self.without):
                return
            try:
                state = os.lstat(here)
            except OSError:
                return
            if stat.S_ISDIR(state.st_mode):
                at = here
                if self._new(here):
                    shared = stat.S_IMODE(state.st_mode) == SHARED
                    self.folder.folder(f"root{here}", SHARED if shared else 0o755)  # whatever a umask made here
            elif stat.S_ISLNK(state.st_mode) and links < LINKS:
                target, links = str(Path(here).readlink()), links + 1
                if self._new(here):
                    self.folder.link(f"root{here}", target)
                at, parts = "/" if target.startswith("/") else at, deque([*target.split("/"), *parts])
            else:
                if stat.S_ISREG(state.st_mode):
                    self._file(here, state)
                return

    def _new(self, path: str) -> bool:
        if path in self._known:
            return False
        self._known.add(path)
        return True

    def _file(self, path: str, state: os.stat_result) -> None:
        if state.st_ctime_ns > self.began:
            self.changed.add(path)
            return
        if self._new(path):
            try:
                with Path(path).open("rb") as file:
                    self.put(f"root{path}", file, state.st_mode)
            except PermissionError:  # so it was not read
                return
            if HWCAPS.search(path):  # a library for newer processors than the lab's
                self.add(HWCAPS.sub("", path))
                self.add(HWCAPS.sub(NEWEST_HWCAPS, path))


def needed(program: Path, interpreters: int = 4) -> list[str]:
    """What the kernel and the loader take to start a program: its interpreter, and shared libraries as the loader lists
    them; nothing for what cannot be read.

    interpreters: how many scripts may name one another, as in Linux. Source: execve(2), ld.so(8).
    """
    try:
        with program.open("rb") as file:
            head = file.read(256)
            loader = _loader(file, head)
    except OSError:
        return []
    if head.startswith(b"#!"):
        words = head[2:].split(b"\n")[0].split() if interpreters else []
        return [
            name
            for word in words[:1]
            for name in (os.fsdecode(word), *needed(Path(os.fsdecode(word)), interpreters - 1))
        ]
    if not loader:
        return []
    try:
        listed = subprocess.run([loader, "--list", program], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return [loader]
    return [loader, *re.findall(r"(?:=> |^\s)(/\S+) \(0x", listed.stdout, re.MULTILINE)]


def _loader(file: BinaryIO, head: bytes) -> str:
    """The loader that a 64-bit ELF program names (PT_INTERP); empty without one. Source: elf(5)."""
    if head[:5] != b"\x7fELF\x02" or len(head) < 64:
        return ""
    (offset,), (size, count) = struct.unpack_from("<Q", head, 32), struct.unpack_from("<HH", head, 54)
    file.seek(offset)
    table = file.read(size * count)
    for number in range(len(table) // size if size >= 56 else 0):
        kind, _, at, _, _, length = struct.unpack_from("<IIQQQQ", table, number * size)
        if kind == 3:
            file.seek(at)
            return os.fsdecode(file.read(min(length, 4096)).rstrip(b"\0"))
    return ""


def _compiled_anew(code: bytes) -> bytes:
    """A module of Python as if compiled of a source with the tree's time, where it says such a time (PEP 552)."""
    if len(code) >= 16 and code[4:8] == bytes(4):
        return code[:8] + struct.pack("<I", EPOCH) + code[12:]
    return code
