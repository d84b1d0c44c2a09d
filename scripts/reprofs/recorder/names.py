"""Names that stand for the recorded ones: random, of the same length, with the ending only where everybody has it."""

from __future__ import annotations

import os
import secrets

from reprofs.plan.recording import KNOWN_ATTRIBUTES, LONGEST, LONGEST_PATH, UP

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
TRIES = 40  # before a name gets a letter more: of one letter there are few
# Endings that say what kind of file it is, not which; programs treat files by them, and so may file systems (F2FS).
_ENDINGS = """
a avi bin bz2 c cc cfg class conf cpp css csv d db deb docx gif git go gz h hpp html i idx info ini jar java jpeg jpg js
json keep list lock log lua md mkv mov mp3 mp4 o ods odt pack pdf pl png pptx py pyc rb rev rpm rs s sh shm so sqlite
svg tar tex tmp toml ts tsv txt wal wav webp xlsx xml xz yaml yml zip zst
"""
ENDINGS = frozenset(_ENDINGS.split())
ATTRIBUTES = (
    *("security.selinux", "security.capability", "system.posix_acl_access", "system.posix_acl_default"),
    *("security.ima", "trusted.overlay.opaque"),
)


class Names:
    """Replaces names of one recording, each by the same one all along. What stands for what is kept nowhere."""

    def __init__(self) -> None:
        self._chance = secrets.SystemRandom()
        self._known: dict[str, str] = {}
        self._used: set[str] = set()
        self._attributes: dict[str, int] = {name: number for number, name in enumerate(ATTRIBUTES)}
        assert len(ATTRIBUTES) == KNOWN_ATTRIBUTES
        self.endings: set[str] = set()  # that were kept

    def path(self, path: str) -> str:
        """The path with its names replaced; `.` and slashes stay. One that is too long becomes a name that is, too."""
        return self.kept(path) or self._name(path)

    def kept(self, path: str) -> str:
        """The same; empty for a path that is too long for a recording."""
        made = "/".join(self._name(part) for part in path.split("/"))
        return made if len(made) <= LONGEST_PATH else ""

    def target(self, target: str) -> str:
        """What a symbolic link holds, made safe: one that leads to a fixed place, or too far up, leads nowhere."""
        parts = [part for part in os.path.normpath(target).split("/") if part]
        if target.startswith("/") or len(target) > LONGEST_PATH or parts[: UP + 1].count("..") > UP:
            parts = [self._made("x" * min(len(target), 200))]
        return "/".join(part if part == ".." else self._name(part) for part in parts) or "."

    def attribute(self, name: str) -> int | None:
        """The number of an extended attribute; None for one that only the kernel or root may set."""
        if name not in self._attributes and not name.startswith("user."):
            return None
        return self._attributes.setdefault(name, len(self._attributes))

    def _name(self, name: str) -> str:
        if name in ("", "."):
            return name
        if name not in self._known:
            self._known[name] = self._made(name)
        return self._known[name]

    def _made(self, name: str) -> str:
        stem, dot, ending = name.rpartition(".")
        end = f".{ending}" if stem.strip(".") and dot and ending.lower() in ENDINGS else ""
        if end:
            self.endings.add(ending.lower())
        begin = "." if name.startswith(".") else ""
        whole = min(len(os.fsencode(name)), LONGEST + 1)  # a longer one is too long, and that is all that is kept of it
        length = max(whole - len(end) - len(begin), 1)
        for tries in range(10**6):
            more = min(tries // TRIES, max(LONGEST - length - len(end) - len(begin), 0))
            made = begin + "".join(self._chance.choices(LETTERS, k=length + more)) + end
            if made not in self._used:
                break
        self._used.add(made)
        return made


class AsTheyAre(Names):
    """Keeps names, where they stand for others already."""

    def kept(self, path: str) -> str:
        return path if len(path) <= LONGEST_PATH else ""

    def target(self, target: str) -> str:
        return target
