"""The mount lab: an existing directory on this machine's clock. Nothing is made or mounted, and it needs no root.

Everything happens in one fresh sub-directory, which is removed afterwards.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import time
from pathlib import Path

from reprofs import cleanup
from reprofs.guest.steps import Job
from reprofs.labs import Disks, Obstacle, Outcome, _apart
from reprofs.labs._native import NativeLab
from reprofs.plan.device import Device
from reprofs.project import project_root
from reprofs.workplace import workplace


class MountLab(NativeLab):
    """The mount lab for one directory, given as in a descriptor: absolute, from ~, or from the checkout."""

    name = "mount"
    meaning = (
        "In the lab mount time is the real time of a directory that was there before. Its state, its devices, and"
        " whoever else used it are part of the times; caches cannot be proved cold."
    )
    provisions = False

    def __init__(self, path: str = ""):
        super().__init__(path)
        self.folder = project_root() / Path(path).expanduser()

    def obstacle(self, packages: list[str], commands: list[str], modules: list[str], profile: Device) -> str:
        """Why a trial that needs these cannot run in this directory (one sentence), or an empty string."""
        if not self.folder.is_dir():
            return f"The directory {self.path} does not exist: mount it, or correct path in the file system's file."
        if not os.access(self.folder, os.W_OK | os.X_OK):
            todo = "get write permission, mount it writable, or choose one in it"
            return f"The directory {self.path} is not writable: {todo}."
        return super().obstacle(packages, commands, [], profile)

    @classmethod
    def disks_zeroed(cls, profile: Device) -> bool:
        """There are no disks."""
        return False

    @staticmethod
    def device_paths(disks: Disks) -> list[str]:
        """There are no devices."""
        return []

    def run(self, job: Job, time_limit_s: float, disks: Disks | None = None) -> Outcome:
        """Give the engine this job in a fresh sub-directory and wait until it ends, at most `time_limit_s` seconds.

        Raises Obstacle when the sub-directory cannot be made.
        """
        with workplace() as place:
            folder = self.folder.resolve() / f"{place.name}-tree"  # the place itself may be in this directory
            cleanup.note(place, folder=str(folder))
            try:
                try:
                    folder.mkdir()
                except OSError as error:
                    raise Obstacle(f"The directory {self.path} cannot be written: {error.strerror}.") from None
                self._provide(job, place)
                if job.clients:
                    return self._apart(job, folder, place, time_limit_s)
                (place / "job").write_text(job.at(str(folder)).text())
                return self._run([str(self.engine), "run", str(place / "job")], place, time_limit_s, "as it was")
            finally:
                cleanup.release(place)

    def _apart(self, job: Job, folder: Path, place: Path, time_limit_s: float) -> Outcome:
        """The job, run by clients on machines of their own."""
        began = time.monotonic()
        done = _apart.run(job, folder, place, self.engine, time_limit_s)
        output = "".join(json.dumps(event) + "\n" for event in done.events).encode()
        environment = self.environment("as it was") | done.facts
        return Outcome(done.ending, output, done.console, environment, time.monotonic() - began)

    @classmethod
    def first_commands(cls, disks: Disks, path: str, hosts: bool) -> list[str]:
        """What it executes before the job, as lines to read."""
        folder = shlex.quote(f"{path}/reprofs-work-...-tree")
        return [f"mkdir {folder}  # stands for /run/reprofs/mnt in what follows; removed at the end"]

    def room(self, sizes: list[int], share: float) -> int | None:
        """Bytes that are free below the directory."""
        return shutil.disk_usage(self.folder).free

    def environment(self, start: str) -> dict:
        """The `lab` part of a raw record."""
        return {**super().environment(start), "path": self.path}


Lab = MountLab
