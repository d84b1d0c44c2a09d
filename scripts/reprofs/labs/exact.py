"""The exact lab: a QEMU guest whose clock counts executed instructions (1 is 1 ns) and jumps over idle time.

No host clock, host disk or other process can reach that clock, so the same job gives the same bytes under any load.
The guest stops itself once it has started; its state there is saved, and every trial goes on from that instruction.
"""

import contextlib
import fcntl
import functools
import hashlib
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import time
from pathlib import Path

from reprofs.catalog import project_root
from reprofs.errors import UserError
from reprofs.files import cache_folder
from reprofs.labs import Outcome, end_with_parent, job_line, workplace

CLOCK = "counted instructions (1 instruction = 1 ns)"
JOB_BYTES = 256 * 1024  # every job is padded to this: its size is part of the machine, which the snapshot fixes
PMEM_BYTES = 128 << 20  # the root image is a memory module, whose size is a multiple of this
BOOT_LIMIT_S = 300  # on the host; about 10 on an idle machine
KEPT_SNAPSHOTS = 3  # besides the newest; 140 MB each
LEAST_BANDWIDTH = 100  # MiB/s
DEVICES = "/sys/kernel/config/nullb"
# Nothing random, nothing that runs now and then by itself; an oops ends the guest at once instead of hanging the trial.
APPEND = (
    "console=ttyS0,115200 quiet loglevel=4 tsc=reliable clocksource=tsc nowatchdog nokaslr norandmaps "
    "randomize_kstack_offset=off random.trust_cpu=off random.trust_bootloader=off iomem=relaxed oops=panic panic=-1"
)


class ExactLab:
    """The exact lab for one guest.

    manifest: as reprofs.guest.build returns it; cache: the folder it was built in; start: "snapshot", "cold boot", or
    "auto" (the snapshot, and a cold boot when that cannot be had). Raises UserError when QEMU or a file of the guest is
    missing.
    """

    clock = "instructions"

    def __init__(self, manifest: dict, cache: Path, start: str = "auto"):
        if start not in ("auto", "snapshot", "cold boot"):
            raise UserError(f"start is {start!r}; it must be auto, snapshot or cold boot")
        self.manifest, self.cache, self.start = manifest, Path(cache), start
        self.files = {part: self.cache / manifest[part]["file"] for part in ("root", "vmlinuz", "initrd", "gate")}
        for part, path in self.files.items():
            if not path.exists() or path.stat().st_size != manifest[part]["bytes"]:
                raise UserError(f"the guest's {part} {path} is missing or cut; build the guest again")
        self.qemu = shutil.which("qemu-system-x86_64")
        if self.qemu is None:
            raise UserError(
                "qemu-system-x86_64 is missing, which runs the exact lab; install the Debian package qemu-system-x86"
            )
        self.version = _qemu_version(self.qemu)
        self.packages = manifest["packages"]
        self.data_bytes = (manifest["memory_mib"] << 20) // 2  # devices and page cache hold the same data

    @classmethod
    def open(cls) -> "ExactLab":
        """The lab of this checkout; $REPROFS_START chooses how the guest starts. Raises UserError without a guest."""
        manifest = project_root() / "data" / "guest" / "manifest.json"
        if not manifest.exists():
            raise UserError(
                f"there is no guest yet ({manifest} is missing): run `reprofs guest --output {manifest}` first"
            )
        return cls(json.loads(manifest.read_text()), cache_folder(), os.environ.get("REPROFS_START", "auto"))

    def run(self, job: str, time_limit_s: float) -> Outcome:
        """Give the engine this job in a fresh guest and wait until it ended, at most `time_limit_s` seconds.

        The seconds are the host's and count from the end of the start.

        Raises UserError when the job is too long or the guest cannot be started; everything after that is an Outcome.
        """
        began = time.monotonic()
        text = job.encode()
        if len(text) > JOB_BYTES:
            raise UserError(f"the job has {len(text)} bytes, and the exact lab takes at most {JOB_BYTES}")
        used = "cold boot"
        with workplace() as place:
            self._write_job(place, text)
            machine = None
            if self.start != "cold boot":
                try:
                    snapshot = self._snapshot()
                    machine = self._machine(place, incoming=True)
                    machine.restore(snapshot)
                    used = "snapshot"
                except _MachineError as error:
                    if machine:
                        machine.end()
                    machine = None
                    if self.start == "snapshot":
                        raise UserError(f"the guest cannot be started from its snapshot: {error}") from None
            try:
                ending = "lost"
                try:
                    if machine is None:
                        machine = self._machine(place)
                        machine.wait_for_pause(began + BOOT_LIMIT_S)
                    machine.call("cont")
                    ending = machine.wait_for_end(time.monotonic() + time_limit_s)
                except _MachineError as error:
                    if machine is None or used == "cold boot":
                        raise UserError(f"the guest cannot be started: {error}") from None
            finally:
                if machine:
                    machine.end()
            output = (place / "output").read_bytes()
            console = (place / "console").read_text(errors="replace").replace("\r\n", "\n")
        if re.search(rb'^\{"event": ?"end".*\n', output, re.MULTILINE):
            ending = "finished"
        elif "Kernel panic" in console:
            ending = "panic"
        return Outcome(ending, output, console, self.environment(used), time.monotonic() - began)

    @staticmethod
    def device_steps(profile: dict, disks: int, size_mib: int) -> list[str]:
        """Job lines that make `disks` memory-backed null block devices of `size_mib` MiB each.

        profile: completion_ns (time from a request to its completion, 0: at once), bandwidth_mb_s (MiB/s, 0: no limit),
        block_bytes (default 512), queue_depth (default 64). Source: drivers/block/null_blk/main.c of Linux.
        The bandwidth is a budget for every 20 ms: within it a request takes its completion time, beyond it it waits
        for the next budget. Raises UserError for a bandwidth whose budget is smaller than one request may be.
        """
        completion = profile.get("completion_ns", 0)
        bandwidth = profile.get("bandwidth_mb_s", 0)
        if 0 < bandwidth < LEAST_BANDWIDTH:
            raise UserError(
                f"bandwidth_mb_s is {bandwidth} in the device profile; it must be 0 or at least {LEAST_BANDWIDTH}"
            )
        lines = []
        for disk in range(disks):
            folder = f"{DEVICES}/{ExactLab.device_name(disk)}"
            attributes = {
                "size": size_mib,
                "blocksize": profile.get("block_bytes", 512),
                "memory_backed": 1,
                # A discard is charged as if it were written, and one larger than the budget would wait for ever.
                "discard": 0 if bandwidth else 1,
                "queue_mode": 2,
                "hw_queue_depth": profile.get("queue_depth", 64),
                "irqmode": 2 if completion else 0,
                "completion_nsec": completion,
                "mbps": bandwidth,
                "power": 1,  # last: this makes the device of what was set before
            }
            lines.append(job_line("mkdir", path=folder))
            lines += [job_line("write", path=f"{folder}/{name}", text=value) for name, value in attributes.items()]
        return lines

    @staticmethod
    def device_name(i: int) -> str:
        """Name in /dev of device `i`, counted from 0."""
        return f"nullb{i}"

    def _options(self) -> list[str]:
        """What the machine is, without names of files: with their digests and QEMU's version it fixes every number."""
        return [
            *("-name", "reprofs,debug-threads=on"),  # the gate knows the processor's thread by its name
            *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-seed", "1"),
            *("-M", "pc,nvdimm=on", "-cpu", "qemu64", "-smp", "1"),
            *("-m", f"{self.manifest['memory_mib']}M,slots=2,maxmem=16G"),
            *("-accel", "tcg", "-icount", "shift=0,sleep=off", "-rtc", "base=2020-01-01,clock=vm"),
            # Shared and read-only, so that it stays out of the snapshot.
            *(
                "-object",
                f"memory-backend-file,id=root,share=on,readonly=on,mem-path=<root>,size={self.manifest['root']['bytes']}",
            ),
            *("-device", "nvdimm,memdev=root,unarmed=on"),
            # The guest's own way to say that it has started.
            *("-device", "pvpanic", "-action", "panic=pause"),
            *("-fw_cfg", "name=opt/org.reprofs.size,file=<place>/size"),
            *("-fw_cfg", "name=opt/org.reprofs.job,file=<place>/job"),
            *("-serial", "file:<place>/console", "-serial", "file:<place>/output"),
            *("-kernel", "<vmlinuz>", "-initrd", "<initrd>", "-append", APPEND),
        ]

    def _command(self, place: Path) -> list[str]:
        names = {f"<{part}>": str(path).replace(",", ",,") for part, path in self.files.items()} | {
            "<place>": str(place)
        }
        return [self.qemu, *(re.sub("<[a-z]+>", lambda found: names[found[0]], option) for option in self._options())]

    def _machine(self, place: Path, incoming: bool = False) -> "_Machine":
        shutil.copy(self.files["gate"], place / "gate.so")  # LD_PRELOAD takes no name with spaces or colons
        return _Machine(self._command(place), place, incoming)

    def environment(self, start: str) -> dict:
        """The `lab` part of a raw record: everything that fixes the numbers, by digest."""
        digests = {f"<{part}>": f"sha256:{self.manifest[part]['sha256']}" for part in self.files} | {"<place>": "."}
        command = [re.sub("<[a-z]+>", lambda found: digests[found[0]], option) for option in self._options()]
        return {
            "name": "exact",
            "clock": CLOCK,
            "start": start,
            "qemu": self.version,
            "command": ["qemu-system-x86_64", *command],
            "kernel": self.manifest["kernel"],
            "image_sha256": self.manifest["root"]["sha256"],
            "kernel_sha256": self.manifest["vmlinuz"]["sha256"],
            "initrd_sha256": self.manifest["initrd"]["sha256"],
            "engine_sha256": self.manifest["engine_sha256"],
            "gate_sha256": self.manifest["gate"]["sha256"],
            "lock_sha256": self.manifest["lock_sha256"],
            "packages": self.manifest["packages"],
        }

    def _write_job(self, place: Path, text: bytes) -> None:
        (place / "size").write_bytes(b"%08d\n" % len(text))
        (place / "job").write_bytes(text.ljust(JOB_BYTES, b"\0"))

    def _snapshot(self) -> Path:
        """The saved state of the guest at its pause, made by the first who needs it. Raises _MachineError."""
        environment = self.environment("snapshot")
        parts = [
            environment[key]
            for key in ("qemu", "command", "image_sha256", "kernel_sha256", "initrd_sha256", "gate_sha256")
        ]
        path = self.cache / "snapshot" / hashlib.sha256(json.dumps(parts).encode()).hexdigest()
        if path.exists():
            return path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.with_suffix(".lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if path.exists():
                    return path
                # One for each guest that is in use; those of older engines and images go.
                for old in sorted(path.parent.glob("*[0-9a-f]"), key=lambda file: file.stat().st_mtime)[
                    :-KEPT_SNAPSHOTS
                ]:
                    old.unlink(missing_ok=True)
                with workplace() as place:
                    self._write_job(place, b"")
                    with contextlib.closing(self._machine(place)) as machine:
                        machine.wait_for_pause(time.monotonic() + BOOT_LIMIT_S)
                        machine.save(path)
        except OSError as error:
            raise _MachineError(f"cannot keep it in {path.parent}: {error.strerror}") from None
        return path


Lab = ExactLab


class _MachineError(Exception):
    """QEMU did not do what it was asked."""


class _Machine:
    """One QEMU process and its control socket (QMP: JSON lines). place: a private folder for its files."""

    def __init__(self, command: list[str], place: Path, incoming: bool = False):
        address = str(place / "qmp")
        command = [
            *command,
            "-qmp",
            f"unix:{address},server=on,wait=off",
            *(["-incoming", "defer"] if incoming else []),
        ]
        self.place = place
        self.shutdown = ""
        self.panicked = False
        self.socket = None
        # The gate makes the clock exact; it leaves a note once it has found the processor's thread.
        environment = {**os.environ, "LD_PRELOAD": str(place / "gate.so"), "REPROFS_GATE": str(place / "gate.note")}
        with (place / "qemu").open("w") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=end_with_parent, env=environment
            )
        try:
            self._connect(address)
        except BaseException:
            self.end()
            raise

    def _connect(self, address: str) -> None:
        deadline = time.monotonic() + 60
        self.socket = socket.socket(socket.AF_UNIX)
        while True:
            try:
                self.socket.connect(address)
                break
            except OSError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise self._error("QEMU did not start") from None
                time.sleep(0.01)
        self.received = b""
        self._receive(deadline)  # the greeting
        self.call("qmp_capabilities")
        while not (self.place / "gate.note").exists():
            if time.monotonic() > deadline:
                raise UserError(
                    "the exact lab does not know this version of QEMU: its clock would not be exact (the thread of the "
                    "processor was not found); use QEMU 7.2 to 10.0"
                )
            time.sleep(0.01)

    def call(self, name: str, **arguments: object) -> object:
        """Carry out a QMP command, return its answer."""
        try:
            self.socket.sendall(json.dumps({"execute": name, "arguments": arguments}).encode() + b"\n")
        except OSError:
            raise self._error(f"QEMU is gone at {name}") from None
        while True:
            message = self._receive(time.monotonic() + 60)
            if "error" in message:
                raise self._error(f"{name}: {message['error']['desc']}")
            if "return" in message:
                return message["return"]

    def wait_for_pause(self, deadline: float) -> None:
        """Until the guest says that it has started."""
        while not self.panicked:
            try:
                self._receive(deadline)
            except TimeoutError:
                raise self._error(f"it did not start within {BOOT_LIMIT_S} s") from None
            if self.shutdown:
                raise self._error("it ended while starting")
        self.panicked = False

    def wait_for_end(self, deadline: float) -> str:
        """Until the machine ended; "lost" (it powered off), "panic" or "timeout"."""
        while not self.shutdown and not self.panicked:
            try:
                self._receive(deadline)
            except TimeoutError:
                return "timeout"
            except _MachineError:
                break  # QEMU itself died: its console says no more
        return "panic" if self.panicked or self.shutdown == "guest-reset" else "lost"

    def save(self, path: Path) -> None:
        """Save the paused machine, without what is shared memory, to a file."""
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
        """Load what `save` saved; the machine stays paused."""
        self._share()
        self.call("migrate-incoming", uri=f"exec:cat {shlex.quote(str(path))}")
        self._migrated()

    def end(self) -> None:
        """Kill QEMU, if it still runs."""
        if self.socket:
            self.socket.close()
        self.process.kill()
        self.process.wait()

    close = end

    def _share(self) -> None:
        self.call("migrate-set-capabilities", capabilities=[{"capability": "x-ignore-shared", "state": True}])
        self.call("migrate-set-parameters", **{"max-bandwidth": 1 << 40})  # the default is that of a slow network

    def _migrated(self) -> None:
        deadline = time.monotonic() + BOOT_LIMIT_S
        while (status := self.call("query-migrate").get("status")) != "completed":
            if status == "failed" or time.monotonic() > deadline:
                raise self._error(f"QEMU's migration {status}")
            time.sleep(0.01)

    def _receive(self, deadline: float) -> dict:
        """The next message; events are noted. Raises TimeoutError at the deadline, _MachineError without QEMU."""
        while b"\n" not in self.received:
            self.socket.settimeout(max(deadline - time.monotonic(), 0.001))
            try:
                data = self.socket.recv(65536)
            except ConnectionError:
                data = b""
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

    def _error(self, text: str) -> _MachineError:
        """An error with the last words of QEMU and of the guest."""
        words = []
        for name in ("qemu", "console"):
            with contextlib.suppress(OSError):
                words += (self.place / name).read_text(errors="replace").strip().splitlines()[-1:]
        return _MachineError("; ".join([text, *words]))


@functools.cache
def _qemu_version(qemu: str) -> str:
    text = subprocess.run([qemu, "--version"], capture_output=True, text=True).stdout
    found = re.search(r"version (\S+)", text)
    if not found:
        raise UserError(f"{qemu} does not tell its version; reinstall the Debian package qemu-system-x86")
    return found[1]
