"""What the labs with a QEMU guest share: the guest's files, the QEMU process and its control socket."""

from __future__ import annotations

import abc
import contextlib
import functools
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from reprofs.errors import UserError, cut
from reprofs.files import cache_folder, intact, sha256
from reprofs.guest import carried, trace
from reprofs.guest.qemu import COMPILED, LOADER, PROGRAM, VARIABLE, whole
from reprofs.guest.steps import Exec, Job, Step
from reprofs.labs._base import BETWEEN_S, CAUSES, LOOKS, Asked, Lab, Outcome, cause, is_stuck
from reprofs.plan.device import Device
from reprofs.project import project_root
from reprofs.workplace import end_with_parent

PROGRAMS_BYTES = 4 << 30  # of a memory module, for whole programs; sparse; its size is part of the machine too
JOB_BYTES = 256 * 1024  # every job is padded to this: its size is part of the machine, which the exact snapshot fixes
BOOT_LIMIT_S = 1200  # on the host; half a minute on an idle machine
ANSWER_S = 60  # QEMU answers in milliseconds, on a busy host in seconds
SILENT_S = 20  # after this long it is said what is waited for


class MachineError(Exception):
    """QEMU did not do what it was asked."""


class GuestLab(Lab):
    """A lab whose trials run in a guest.

    manifest: as guest.image.build returns it; cache: the folder it was built in. Raises UserError when QEMU or a file
    of the guest is missing.
    """

    name = ""
    clock_text = ""  # what a reader should know of the clock
    parts: tuple[str, ...] = ("root", "vmlinuz", "initrd")  # files of the guest that it uses
    in_guest = True
    provisions = True
    seeds = True

    def __init__(self, manifest: dict, cache: Path):
        self.manifest, self.cache = manifest, Path(cache)
        self.files = {part: self.cache / manifest[part]["file"] for part in self.parts}
        for part, path in self.files.items():
            if not intact(path, manifest[part]["sha256"]):
                raise UserError(f"the guest's {part} {path} is missing or damaged: run `reprofs guest` again.")
        self.qemu = _host_qemu(self.name) if os.environ.get(VARIABLE) == "host" else _bundle(manifest, self.cache)
        self.packages = manifest["packages"]
        self.full_name = self.name
        self.programs: dict[str, Path] = {}  # of the job, by name

    @classmethod
    def _opened(cls, asked: Asked) -> Self:
        """The lab of this checkout with the guest of that name. Raises UserError when it was not built."""
        return cls(read_manifest(asked.guest), cache_folder())

    @staticmethod
    def program_steps() -> list[Step]:
        """A step that unpacks the programs of a job into memory, from the module that they come in."""
        return [Exec(stage="programs", limit_s=60, cwd="/run", arg=["/run/busybox", "cpio", "-idF", "/dev/programs"])]

    def load(self, job: Job) -> None:
        """Has the programs and recordings of a job, which `environment` then names. Raises UserError."""
        self.programs = trace.programs(cache_folder(), job)

    def obstacle(self, packages: list[str], commands: list[str], modules: list[str], profile: Device) -> str:
        """Why this lab cannot run a trial that needs these (one sentence), or an empty string.

        The guest's commands and modules come from its packages, so only the packages are checked.
        """
        for package in packages:
            if package not in self.packages:
                return f"The guest has no package {package}: add it to envs/guest.yaml."
        return ""

    @classmethod
    def disks_zeroed(cls, profile: Device) -> bool:
        """Whether disks of this profile read as zeros before a trial writes to them."""
        return True

    def environment(self, start: str) -> dict:
        """The `lab` part of a raw record: everything that fixes the numbers, by digest."""
        digests = {f"<{part}>": f"sha256:{self.manifest[part]['sha256']}" for part in self.files} | {"<place>": "."}
        command = [re.sub("<[a-z]+>", lambda found: digests[found[0]], option) for option in self._options()]
        return {
            "name": self.full_name,
            "clock": self.clock_text,
            "start": start,
            **self.qemu.said(),
            "command": ["qemu-system-x86_64", *command],
            "memory_mib": self.manifest["memory_mib"],
            "kernel": self.manifest["kernel"],
            "image_sha256": self.manifest["root"]["sha256"],
            "kernel_sha256": self.manifest["vmlinuz"]["sha256"],
            "initrd_sha256": self.manifest["initrd"]["sha256"],
            "engine_sha256": self.manifest["engine_sha256"],
            "programs_sha256": {name: carried.digest_of(path) for name, path in self.programs.items()},
            **({"gate_sha256": self.manifest["gate"]["sha256"]} if "gate" in self.files else {}),
            "lock_sha256": self.manifest["lock_sha256"],
            **({"unlocked": self.manifest["unlocked"]} if self.manifest["unlocked"] else {}),
            "packages": self.manifest["packages"],
        }

    @abc.abstractmethod
    def _options(self) -> list[str]:
        """The options of QEMU, without the names of files."""

    def _command(self, place: Path) -> list[str]:
        """QEMU's own options, with the names of files."""
        names = {f"<{part}>": str(path).replace(",", ",,") for part, path in self.files.items()}
        names["<place>"] = str(place)
        return [re.sub("<[a-z]+>", lambda found: names[found[0]], option) for option in self._options()]

    def _modules(self) -> list[str]:
        """The options for the modules of read-only memory: one with the root image, one with programs.

        They are shared, so that they stay out of a saved state. Which one the guest's kernel sees first is not fixed.
        """
        memory = "memory-backend-file,share=on,readonly=on"
        return [
            *("-object", f"{memory},id=programs,mem-path=<place>/programs,size={PROGRAMS_BYTES}"),
            *("-device", "nvdimm,memdev=programs,unarmed=on"),
            *("-object", f"{memory},id=root,mem-path=<root>,size={self.manifest['root']['bytes']}"),
            *("-device", "nvdimm,memdev=root,unarmed=on"),
            *self._drivers(memory),
        ]

    def _drivers(self, memory: str) -> list[str]:
        """The options for the modules of another kernel than the guest's own."""
        if "drivers" not in self.files:
            return []
        return [
            *("-object", f"{memory},id=drivers,mem-path=<drivers>,size={self.manifest['drivers']['bytes']}"),
            *("-device", "nvdimm,memdev=drivers,unarmed=on"),
        ]

    def _channels(self) -> list[str]:
        """The options for the devices that carry the job in and the output out."""
        return [
            *("-fw_cfg", "name=opt/org.reprofs.size,file=<place>/size"),
            *("-fw_cfg", "name=opt/org.reprofs.job,file=<place>/job"),
            *("-serial", "file:<place>/console", "-serial", "file:<place>/output"),
        ]

    def _text(self, job: Job) -> bytes:
        """The job as the guest gets it. Raises UserError when it is too long."""
        text = job.text().encode()
        if len(text) > JOB_BYTES:
            raise UserError(
                f"the job has {len(text)} bytes, but the lab {self.name} takes at most {JOB_BYTES}: use fewer or "
                "shorter phases."
            )
        return text

    def _write_job(
        self, place: Path, text: bytes, first: int | None = None, programs: dict[str, Path] | None = None
    ) -> None:
        """first: bytes of the part before a step `pause`, after which the engine reads the rest."""
        self._write_programs(place, programs or {})
        (place / "size").write_bytes(b"%08d\n%08d\n" % (len(text) if first is None else first, len(text)))
        (place / "job").write_bytes(text.ljust(JOB_BYTES, b"\0"))

    def _write_programs(self, place: Path, programs: dict[str, Path]) -> None:
        """In place, so that a machine that is paused has them in its memory."""
        carried.write(place / "programs", programs, PROGRAMS_BYTES)

    def _outcome(self, place: Path, ending: str, start: str, began: float) -> Outcome:
        """What is in `place` after the machine has ended."""
        output = (place / "output").read_bytes()
        console = (place / "console").read_text(errors="replace").replace("\r\n", "\n")
        if re.search(rb'^\{"event": ?"end".*\n', output, re.MULTILINE):
            ending = "finished"
        elif "Kernel panic" in console:
            ending = "panic"
        return Outcome(ending, output, console, self.environment(start), time.monotonic() - began)


def read_manifest(guest: str) -> dict:
    """The manifest of this checkout's guest of that name. Raises UserError when it was not built."""
    path = project_root() / "data" / "guest" / f"{guest}.json"
    if not path.exists():
        raise UserError(f"there is no guest yet ({path} is missing): run `reprofs guest --output {path}` first.")
    return json.loads(path.read_text())


@dataclass(frozen=True)
class Qemu:
    """A QEMU that can be started. folder: with its firmware, perhaps its own loader and libraries; None: the host's."""

    program: Path
    version: str
    sha256: str
    folder: Path | None = None

    def said(self) -> dict[str, str]:
        """What a record says of it."""
        return {"qemu": self.version, "qemu_sha256": self.sha256}

    def start(self, place: Path, gate: Path | None) -> tuple[list[str], dict[str, str]]:
        """The beginning of its command in the folder `place`, and variables of its environment.

        gate: a library that is loaded into it. QEMU is started in `place`, for the loader and LD_PRELOAD take neither
        spaces nor colons in names: what is named to them is a link there.
        """
        if self.folder is None:
            return [str(self.program)], {"LD_PRELOAD": f"./{gate.name}"} if gate else {}
        (place / "qemu.d").symlink_to(self.folder)
        loader: list[str] = []
        if self.program.name == LOADER:
            # Not by LD_PRELOAD, which the shell that QEMU starts to read a saved state would have, too.
            preload = ["--preload", f"./{gate.name}"] if gate else []
            loader = ["--inhibit-cache", "--argv0", COMPILED, "--library-path", "qemu.d", *preload, f"qemu.d/{PROGRAM}"]
        return [str(self.program), *loader, "-L", "qemu.d"], {"QEMU_MODULE_DIR": "qemu.d"}


def _bundle(manifest: dict, cache: Path) -> Qemu:
    """The QEMU that belongs to a guest. Raises UserError when it is missing or damaged."""
    known = manifest["qemu"]
    if not whole(cache, known):
        raise UserError(f"QEMU in {cache / known['folder']} is missing or damaged: run `reprofs guest` again.")
    folder = cache / known["folder"]
    return Qemu(folder / LOADER, known["version"], known["sha256"], folder)


def _host_qemu(lab: str) -> Qemu:
    """The QEMU of this machine, which makes another lab. Raises UserError when there is none that works."""
    found = shutil.which(COMPILED)
    if found is None:
        raise UserError(
            f"{COMPILED} is missing, which {VARIABLE}=host needs: install the Debian package "
            f"qemu-system-x86, or unset {VARIABLE}."
        )
    version, wrong = _qemu_version(found)
    if wrong:
        raise UserError(f"{found} {wrong}: reinstall the Debian package qemu-system-x86, or unset {VARIABLE}.")
    return Qemu(Path(found), version, sha256(Path(found)))


class Machine:
    """One QEMU process and its control socket (QMP: JSON lines).

    command: QEMU's options; place: a private folder for its files; gate: the library in it that makes the clock of the
    exact lab exact.
    """

    def __init__(self, qemu: Qemu, command: list[str], place: Path, gate: Path | None = None, incoming: bool = False):
        # Not a socket with a name: that would have to fit into 108 bytes, wherever the cache is.
        self.socket, theirs = socket.socketpair()
        first, variables = qemu.start(place, gate)
        command = [
            *first,
            *command,
            *("-chardev", f"socket,id=qmp,fd={theirs.fileno()}", "-mon", "chardev=qmp,mode=control"),
            *(["-incoming", "defer"] if incoming else []),
        ]
        self.place, self.program = place, qemu.program
        self.shutdown = ""
        self.panicked = False
        self.note = place / "gate.note" if gate else None
        # No library of the user's gets into it (LD_PRELOAD, LD_LIBRARY_PATH). By the place the clean-up knows it.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("LD_")}
        environment |= {"REPROFS_PLACE": str(place), **variables}
        if gate:  # it leaves a note once it has found the processor's thread
            environment |= {"REPROFS_GATE": str(self.note)}
        with theirs, (place / "qemu").open("w") as log:
            self.process = subprocess.Popen(
                [COMPILED, *command[1:]],  # its name in lists of processes, whatever loads it
                executable=command[0],
                cwd=place,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=end_with_parent,
                env=environment,
                pass_fds=[theirs.fileno()],
            )
        try:
            self._connect()
        except BaseException:
            self.end()
            raise

    def _connect(self) -> None:
        deadline = time.monotonic() + ANSWER_S
        self.received = b""
        try:
            self._receive(deadline, "the first answer of QEMU")  # the greeting
        except MachineError:
            raise self._error("QEMU did not start") from None
        self.call("qmp_capabilities")
        while self.note and not self.note.exists():
            if "cannot be preloaded" in self._said("qemu"):
                raise self._error("QEMU cannot load the lab's library")
            if time.monotonic() > deadline:
                raise UserError(
                    "the exact lab does not support this version of QEMU (its CPU thread was not found): use "
                    "QEMU 7.2 to 10.0."
                )
            time.sleep(0.01)

    def call(self, name: str, **arguments: object) -> Any:
        """Carry out a QMP command and return its answer."""
        return self._ask(name, arguments)

    def _ask(self, name: str, arguments: dict, files: Sequence[int] = (), limit_s: float = ANSWER_S) -> Any:
        """files: descriptors that go with the command."""
        text = json.dumps({"execute": name, "arguments": arguments}).encode() + b"\n"
        try:
            socket.send_fds(self.socket, [text], files)
        except OSError:
            raise self._error(f"QEMU ended during {name}") from None
        while True:
            message = self._receive(time.monotonic() + limit_s, f"QEMU's answer to {name}")
            if "error" in message:
                raise self._error(f"{name}: {message['error']['desc']}")
            if "return" in message:
                return message["return"]

    def wait_for_pause(self, deadline: float) -> None:
        """Wait until the guest reports that it has started."""
        limit = max(deadline - time.monotonic(), 0)
        while not self.panicked:
            try:
                self._receive(deadline, "the guest's start")
            except TimeoutError:
                raise self._error(f"it did not start within {limit:.0f} s") from None
            if self.shutdown:
                raise self._error("it ended while starting")
        if self._died():
            raise self._error("its kernel ended while starting")
        self.panicked = False

    def paused(self, deadline: float) -> bool:
        """Wait until the guest stops itself; False if it ended instead or the deadline came."""
        try:
            while not self.panicked and not self.shutdown:
                self._receive(deadline)
        except (TimeoutError, MachineError):
            return False
        if self.shutdown or self._died():
            return False
        self.panicked = False
        return True

    def wait_for_end(self, deadline: float, hangs: re.Pattern[str] | None = None) -> str:
        """Wait for the machine's end: "lost" (the guest powered off), "killed" (QEMU ended), "panic" or "timeout".

        "hang": the kernel has said what matches `hangs`; or at the deadline it lets nothing interrupt a processor.
        """
        while not self.shutdown and not self.panicked:
            try:
                self._receive(min(deadline, time.monotonic() + SILENT_S) if hangs else deadline)
            except TimeoutError:
                if hangs and hangs.search(self._said("console")):
                    return "hang"
                if time.monotonic() >= deadline:
                    return "hang" if hangs and self._is_stuck() else "timeout"
            except MachineError:
                return "killed"
        if self.panicked or self.shutdown == "guest-reset":
            return "panic"
        return "killed" if self.shutdown.startswith("host-") else "lost"  # a signal that QEMU could still answer to

    def _is_stuck(self) -> bool:
        def looks() -> Iterator[str]:
            for _ in range(LOOKS):
                yield self._ask("human-monitor-command", {"command-line": "info registers -a"}, limit_s=5)
                time.sleep(BETWEEN_S)  # in which the processors work

        try:
            return is_stuck(looks())
        except (MachineError, TimeoutError):
            return False

    def save(self, path: Path) -> None:
        """Save the state of the paused machine, without its shared memory, to a file."""
        self._share()
        whole, partial = (shlex.quote(str(name)) for name in (path, path.with_suffix(".partial")))
        # QEMU does not see how cat ends: only what cat wrote in full gets the name.
        self.call("migrate", uri=f"exec:cat > {partial} && mv {partial} {whole} || rm -f {partial}")
        self._migrated()
        while path.with_suffix(".partial").exists():
            time.sleep(0.01)
        if not path.exists():
            raise self._error(f"{path} could not be written")

    def restore(self, path: Path) -> None:
        """Load a state written by `save`; the machine stays paused.

        QEMU reads the file itself: through a pipe it takes twice as long. Until it has, it answers nothing.
        """
        self._share()
        try:
            with path.open("rb") as state:
                self._ask("getfd", {"fdname": "state"}, [state.fileno()])
        except OSError as error:  # another run may have removed it
            raise self._error(f"{path} cannot be read: {error.strerror}") from None
        self.call("migrate-incoming", uri="fd:state")
        self._migrated()

    def end(self) -> None:
        """Kill QEMU if it is still running."""
        self.socket.close()
        self.process.kill()
        self.process.wait()

    close = end

    def _died(self) -> bool:
        """Whether it was the kernel that panicked: one with a driver for the device tells so as the pause does."""
        return bool(CAUSES[0].search(self._said("console")))

    def _share(self) -> None:
        self.call("migrate-set-capabilities", capabilities=[{"capability": "x-ignore-shared", "state": True}])
        self.call("migrate-set-parameters", **{"max-bandwidth": 1 << 40})  # the default is that of a slow network

    def _migrated(self) -> None:
        deadline = time.monotonic() + BOOT_LIMIT_S
        while (status := self._ask("query-migrate", {}, limit_s=BOOT_LIMIT_S).get("status")) != "completed":
            if status == "failed" or time.monotonic() > deadline:
                raise self._error(f"QEMU's migration {status}")
            time.sleep(0.01)

    def _receive(self, deadline: float, what: str = "") -> dict:
        """The next message; events are noted. Raises TimeoutError at the deadline, MachineError when QEMU has ended.

        what: what is waited for, which is said when it takes long. Where it is an answer of QEMU, whose absence no
        other start would mend, UserError is raised at the deadline.
        """
        began = time.monotonic()
        silent = began + SILENT_S if what else deadline
        while b"\n" not in self.received:
            self.socket.settimeout(max(min(deadline, silent) - time.monotonic(), 0.001))
            try:
                data = self.socket.recv(65536)
            except ConnectionError:
                data = b""
            except TimeoutError:
                if time.monotonic() < deadline:
                    left = f"up to {deadline - time.monotonic():.0f} s more"
                    print(f"reprofs: still waiting for {what}, {left}", file=sys.stderr, flush=True)
                    silent = deadline
                    continue
                if "QEMU" in what:
                    raise UserError(
                        f"{what} did not come within {deadline - began:.0f} s, so QEMU was ended: check whether "
                        f"`{self.program} --version` answers, and the load of this host (top)."
                    ) from None
                raise
            if not data:
                raise self._error("QEMU ended")
            self.received += data
        line, _, self.received = self.received.partition(b"\n")
        message = json.loads(line)
        if message.get("event") == "SHUTDOWN":
            self.shutdown = message["data"]["reason"]
        elif message.get("event") == "GUEST_PANICKED":
            self.panicked = True
        return message

    def _error(self, text: str) -> MachineError:
        """An error with the last words of QEMU, and the guest's last words or why its kernel ended."""
        words = [self._said("qemu").strip().splitlines()[-1:], cause(self._said("console"))]
        return MachineError("; ".join([text, *(cut(word) for last in words for word in last)]))

    def _said(self, name: str) -> str:
        with contextlib.suppress(OSError):
            return (self.place / name).read_text(errors="replace")
        return ""


@functools.cache
def _qemu_version(qemu: str) -> tuple[str, str]:
    """The version of a QEMU, and what is wrong with it (a clause); one of the two is empty."""
    try:
        asked = subprocess.run([qemu, "--version"], capture_output=True, stdin=subprocess.DEVNULL, timeout=ANSWER_S)
    except subprocess.TimeoutExpired:
        return "", f"does not answer within {ANSWER_S} s when asked for its version"
    except OSError as error:
        return "", f"cannot be started ({error.strerror})"
    found = re.search(rb"version (\d[\w.+~-]{0,40})", asked.stdout)
    return (found[1].decode(errors="replace"), "") if found else ("", "does not print its version")
