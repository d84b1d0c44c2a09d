"""One run of a program on this machine, before the lab: which files it names, which programs it starts."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reprofs.errors import UserError, short
from reprofs.recorder.follow import Follower
from reprofs.recorder.names import AsTheyAre
from reprofs.recorder.processes import Call
from reprofs.recorder.run import watched

LIMIT_S = 3600  # after which the program is ended
WITHOUT = "or give --root, a root file system with all that it needs"
WHY = {
    1: f"ptrace is not allowed here ({{}}): in a container allow it (docker run --cap-add SYS_PTRACE), {WITHOUT}",
    2: f"a seccomp filter cannot be set here ({{}}): allow it in this container, {WITHOUT}",
    3: "it cannot be started ({}): name a program that exists, after --",
}


@dataclass
class Practice:
    """What a run said. paths: absolute, as it named them; ran: those of programs; code: how it ended."""

    code: int = 0
    paths: set[str] = field(default_factory=set)
    ran: set[str] = field(default_factory=set)
    output: str = ""


class _Visits(Follower):
    """Follows a program and keeps no calls, only the paths in them."""

    def __init__(self, folder: str, umask: int) -> None:
        super().__init__(["/"], folder, umask, AsTheyAre(), here=False)
        self.paths: set[str] = set()
        self.ran: set[str] = set()

    def _path(self, call: Call, folder: int | None, text: str) -> tuple[int, str] | None:
        base = self._base(call, folder)
        if text.startswith("/") or (text and base):
            self.paths.add(text if text.startswith("/") or base is None else f"{base.place}/{text}")
        return super()._path(call, folder, text)

    def _line(self, kind: str, *values: object) -> list:
        return [kind, False, *values]

    def _on_execve(self, call: Call) -> None:
        program, base = call.event.text(0), self._base(call, None)
        self.ran.add(program if program.startswith("/") or base is None else f"{base.place}/{program}")
        super()._on_execve(call)


def practise(words: Sequence[str], folder: Path, environment: Mapping[str, str], output: Path) -> Practice:
    """Runs a program in a folder; what it says goes to the file `output`.

    Raises UserError where it cannot be started or followed.
    """
    follower = _Visits(os.path.realpath(folder), 0o022)
    options: dict[str, Any] = {"cwd": folder, "env": dict(environment), "stdin": subprocess.DEVNULL, "umask": 0o022}
    with output.open("wb") as said, watched(words, ["/"], LIMIT_S, stdout=said, stderr=said, **options) as found:
        for event in found:
            follower.take(event)
    if follower.failed:
        why, reason = follower.failed
        raise UserError(f"{short(words[0])} cannot be followed: {WHY[why].format(reason)}.")
    if not follower.ended:
        raise UserError("the recorder was killed, and nothing was measured: check the kernel log (dmesg).")
    code, late = follower.ended
    if late:
        raise UserError(f"{short(words[0])} did not end within {LIMIT_S:,} s: measure a shorter run.")
    return Practice(code, follower.paths, follower.ran, output.read_text(errors="replace"))
