"""Saved states of guests in the cache: whether they are whole, and which are removed."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

from reprofs.files import intact


def by_age(folder: Path) -> list[Path]:
    """The saved states in a folder, those first that were made or used longest ago."""
    used = {}
    for file in folder.iterdir():
        if re.fullmatch("[0-9a-f]{64}", file.name):
            note = file.with_suffix(".sha256")  # missing while it is being saved
            used[file] = (note if note.exists() else file).stat().st_mtime
    return sorted(used, key=used.__getitem__)


def _remove(state: Path) -> None:
    for ending in ("", ".sha256", ".checked", ".output", ".output.checked"):
        state.with_suffix(ending).unlink(missing_ok=True)


def drop_old(folder: Path, room: int) -> None:
    """Keeps the states used last, as many as there is room for, in bytes."""
    for state in reversed(by_age(folder)):
        room -= state.stat().st_size
        if room < 0:
            _remove(state)


def whole(state: Path) -> bool:
    """Whether a saved state is complete, and with it what the engine had said when it was saved, if it had.

    The digests are written last. Another run may remove an old state.
    """
    parts = [state, *([output] if (output := state.with_suffix(".output")).exists() else [])]
    try:
        digests = state.with_suffix(".sha256").read_text().split()
    except OSError:
        return False
    return len(digests) == len(parts) and all(map(intact, parts, digests))


def found(state: Path) -> bool:
    """Whether a saved state can be used, which is noted as its last use.

    Not at the state itself: a file whose times have changed is read again to see whether it is damaged.
    """
    if not whole(state):
        return False
    with contextlib.suppress(OSError):  # the cache may be read-only
        os.utime(state.with_suffix(".sha256"))
    return True
