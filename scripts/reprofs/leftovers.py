"""What killed programs that this project runs left in the temporary folder: Snakemake's folders, files of Python."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import tempfile
import time
from pathlib import Path

from reprofs import cleanup

TRIED = re.compile("[a-z0-9_]{8}"), b"blat"  # Python's file to try a temporary folder with: name and content


def sweep() -> list[str]:
    """Removes what is old and this user's. Returns one line for each thing removed."""
    said: list[str] = []
    folder = Path(tempfile.gettempdir())
    running = any(map(_is_snakemake, Path("/proc").glob("[0-9]*")))
    for path in folder.iterdir():
        with contextlib.suppress(OSError):  # somebody else's, not empty, or gone
            state = path.lstat()
            if state.st_uid != os.geteuid() or time.time() - state.st_mtime <= cleanup.NEW_SECONDS:
                continue
            if stat.S_ISREG(state.st_mode) and state.st_size == len(TRIED[1]) and TRIED[0].fullmatch(path.name):
                if path.read_bytes() == TRIED[1]:
                    path.unlink()
                    said.append(f"file {path}")
            elif not running and path.name.startswith("snakemake") and TRIED[0].fullmatch(path.name[9:]):
                path.rmdir()
                said.append(f"folder {path}")
    return said


def _is_snakemake(process: Path) -> bool:
    try:
        words = (process / "cmdline").read_bytes().split(b"\0")[:3]
        return process.stat().st_uid == os.geteuid() and any(word.endswith(b"snakemake") for word in words)
    except OSError:
        return False
