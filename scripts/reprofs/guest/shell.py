"""The shell scripts in scripts/shell: those that are part of a job, and those that start something in a lab."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Sequence
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "shell"


@functools.cache
def script(name: str) -> str:
    """The text of scripts/shell/NAME.sh for sh -c, without its header, which ends with the first empty line.

    An edit of this text is an edit of the jobs that have it: their trials run again. One of the header is none.
    """
    return (FOLDER / f"{name}.sh").read_text().split("\n\n", 1)[1].strip()


def one_command(lines: Sequence[list[str]]) -> list[str]:
    """Several commands as one, which ends with the first that fails."""
    return lines[0] if len(lines) == 1 else ["sh", "-e", "-c", "\n".join(map(shlex.join, lines))]
