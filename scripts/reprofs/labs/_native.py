"""What the labs without a guest share: the engine runs on this machine's own kernel."""

from __future__ import annotations

import os
import platform
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Self

from reprofs.files import cache_folder, sha256
from reprofs.guest import engine, trace
from reprofs.guest.steps import Job, Step
from reprofs.labs._base import Asked, Disks, Lab, Outcome
from reprofs.plan.device import Device
from reprofs.workplace import end_with_parent

ENDING = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)  # what ends a process from outside
KILLED = {*(-number for number in ENDING), *(128 + number for number in ENDING)}  # as exit codes, also of a shell
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class NativeLab(Lab):
    """A lab without a guest: its kernel, tools and clock are the host's."""

    name = ""
    clock = "wall"
    clock_text = "the host's monotonic clock"
    exclusive = True
    in_guest = False
    seeds = False

    def __init__(self, path: str = ""):
        self.path = path
        self.engine = engine.build(cache_folder())
        self.programs: dict[str, Path] = {}  # of the job, by name
        self.packages: list[str] = []

    @classmethod
    def _opened(cls, asked: Asked) -> Self:
        """The lab on this machine; `path` is where the mount lab works. Raises UserError without a compiled engine."""
        return cls(asked.path)

    def obstacle(self, packages: list[str], commands: list[str], modules: list[str], profile: Device) -> str:
        """Why this machine cannot run a trial that needs these (one sentence), or an empty string."""
        self.packages = packages  # their versions belong to the environment
        for command in commands:
            if shutil.which(command, path=PATH) is None:
                missing = [package for package in packages if not _version(package)]
                where = f"install the Debian package {' or '.join(missing)}" if missing else "install it"
                return f"This machine has no command {command}: {where}."
        return ""

    def environment(self, start: str) -> dict:
        """The `lab` part of a raw record: what fixes the numbers besides the machine itself."""
        return {
            "name": self.name,
            "clock": self.clock_text,
            "start": start,
            "kernel": platform.release(),
            "kernel_version": platform.version(),
            "engine_sha256": sha256(self.engine),
            "programs_sha256": {name: sha256(path) for name, path in self.programs.items()},
            "packages": {package: _version(package) for package in self.packages},
        }

    @staticmethod
    def device_steps(disks: Disks) -> list[Step]:
        """No steps: the lab makes the devices before the job starts."""
        return []

    def _provide(self, job: Job, place: Path) -> None:
        """Puts the programs of a job beside it. They stay in the cache: a folder of a trial may forbid execution."""
        self.programs = trace.provide(trace.programs(cache_folder(), job), place / "programs")

    def _run(self, command: list[str], place: Path, limit_s: float, start: str, **environment: str) -> Outcome:
        """Run a command that starts the engine on the job in `place`, until it ends or the time is over."""
        began = time.monotonic()
        environment = {
            "PATH": PATH,
            "HOME": str(place),
            "LANG": "C.UTF-8",
            "REPROFS_PLACE": str(place),  # by this the clean-up knows the processes of a killed trial
            **environment,
        }
        with (place / "output").open("wb") as said, (place / "console").open("wb") as complaints:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=complaints,
                env=environment,
                cwd="/",
                umask=0o022,
                preexec_fn=end_with_parent,
            )
            try:
                ending = "killed" if process.wait(limit_s) in KILLED else "lost"
            except subprocess.TimeoutExpired:
                ending = "timeout"
            finally:
                process.kill()
                process.wait()
        output = (place / "output").read_bytes()
        if re.search(rb'^\{"event": ?"end".*\n', output, re.MULTILINE):
            ending = "finished"
        console = (place / "console").read_text(errors="replace")
        return Outcome(ending, output, console, self.environment(start), time.monotonic() - began)


def _version(package: str) -> str | None:
    """The installed version of a Debian package; None when it is not installed or this is not Debian."""
    try:
        query = ["dpkg-query", "--show", "--showformat=${db:Status-Abbrev}${Version}", package]
        done = subprocess.run(query, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
    except OSError:
        return None
    return done.stdout[3:].strip() if done.returncode == 0 and done.stdout.startswith("ii") else None
