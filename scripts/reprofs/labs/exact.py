"""The exact lab: a QEMU guest whose clock counts executed instructions and jumps over idle time.

No host clock, host disk or other process can reach that clock, so the same job gives the same bytes under any load.
The guest pauses itself once it has started; its state is saved, and every trial continues from that instruction. Where
servers have to start first, it pauses again when their file system is mounted, and trials that are alike up to there
continue from that one.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Self

from reprofs.errors import UserError
from reprofs.files import cache_folder, sha256, write_text
from reprofs.guest import engine, qemu, steps
from reprofs.guest import kernel as kernels
from reprofs.guest.carried import digest_of
from reprofs.guest.kernel import Built
from reprofs.guest.lock import KERNEL, KERNEL_FILES, read_lock
from reprofs.guest.modules import CRASHES, of_jobs
from reprofs.guest.steps import Exec, Insmod, Job, Mkdir, Step, Write
from reprofs.labs import Disks, Outcome, _states
from reprofs.labs._base import HANGS, Asked
from reprofs.labs._qemu import BOOT_LIMIT_S, GuestLab, Machine, MachineError, Qemu, read_manifest
from reprofs.plan import PROCESSOR
from reprofs.plan.catalog import Catalog
from reprofs.plan.cell import joined
from reprofs.plan.device import CRASH, Device, Plain
from reprofs.plan.kernel import Kernel
from reprofs.plan.processor import Processor
from reprofs.workplace import workplace

if TYPE_CHECKING:
    from reprofs.plan.plan import LabFacts

# Of saved states, besides the newest: of guests that have started (about 140 MB each), and of clusters.
KEPT_SNAPSHOTS_BYTES = 3 << 30
KEPT_CLUSTERS_BYTES = 12 << 30
FW_CFG = "/sys/firmware/qemu_fw_cfg/by_name/opt/org.reprofs"
LEAST_BANDWIDTH = 100  # MiB/s
DEVICES = "/sys/kernel/config/nullb"
# Nothing random, nothing that runs now and then by itself; an oops ends the guest at once instead of hanging the trial.
# QEMU's clock counts a nanosecond an instruction. The guest's kernel takes its time from the processor's counter, which
# goes with that clock; told that the counter is two or four times as fast, it takes an instruction for half a
# nanosecond or a quarter. The interrupt controller's timer is slowed down as much, by its divider (scripts/guest/init).
APPEND = (
    "console=ttyS0,115200 quiet loglevel=4 tsc=reliable clocksource=tsc nowatchdog nokaslr norandmaps "
    "randomize_kstack_offset=off random.trust_cpu=off random.trust_bootloader=off iomem=relaxed oops=panic panic=-1 "
    "tsc_early_khz={khz}"
)
# instructions a nanosecond -> register of the local APIC: by 16 (the kernel's own choice), 32, 64
DIVIDERS = {1: 0x3, 2: 0x8, 4: 0x9}
# Of several processors, ns of the guest: how far apart the clocks of two may be, and what an instruction `pause` costs.
WINDOW_NS = 250
SPIN_NS = 40


class ExactLab(GuestLab):
    """The exact lab for one guest.

    manifest: as guest.image.build returns it; cache: the folder it was built in; start: "snapshot", "cold boot", or
    "auto" (the snapshot, or a cold boot if there can be none); kernel: in the place of the guest's own, and its files
    in that cache. Raises UserError when QEMU or a file of the guest is missing.
    """

    name = "exact"
    clock = "instructions"
    clock_text = "counted instructions"
    meaning = (
        "In the exact lab with one core time is counted instructions, which all take the same time, plus the modelled"
        " time of the devices. There are no processor caches, no other processors and no contention for locks, so a"
        " real machine may rank file systems differently."
    )
    several_meaning = (
        "In the exact lab with {cores} cores time is counted instructions, which all take the same time, plus the"
        " modelled time of the devices. These cores compute side by side and wait for each other's locks, but one sees"
        f" what another did up to {WINDOW_NS} ns too early or too late. There are no processor caches, so a real"
        " machine may rank file systems differently."
    )
    exact = True
    models = True
    models_processor = True
    exclusive = False
    parts: tuple[str, ...] = ("root", "vmlinuz", "initrd", "gate")

    def __init__(
        self,
        manifest: dict,
        cache: Path,
        start: str = "auto",
        processor: Processor | None = None,
        kernel: tuple[Kernel, Built] | None = None,
    ):
        if start not in ("auto", "snapshot", "cold boot"):
            raise UserError(f"start is {start!r}, but must be auto, snapshot or cold boot.")
        self.kernel = kernel[0] if kernel else None
        self.built = kernel[1] if kernel else None
        if self.built:
            manifest = _with_kernel(manifest, self.built)
            self.parts = (*type(self).parts, "drivers")
        super().__init__(manifest, cache)
        self.start = start
        self.processor = processor or Catalog().get(Processor, PROCESSOR)
        self.full_name = joined(self.name, joined(self.processor.name, self.kernel.name if self.kernel else None))
        self.data_bytes = (manifest["memory_mib"] << 20) // 2  # devices and page cache hold the same data
        self.plugin = ""  # of QEMU, with its options: sees the instructions of a trial and changes nothing
        self.lock = read_lock()
        self._choose(False)

    @classmethod
    def _opened(cls, asked: Asked) -> Self:
        """The lab of this checkout; $REPROFS_START chooses how the guest starts. Raises UserError without a guest.

        A kernel that the cache has not is built.
        """
        cache, start = cache_folder(), os.environ.get("REPROFS_START", "auto")
        own = asked.kernel
        kernel = (own, kernels.build(cache, read_lock(), own, engine.build(cache), _say)) if own else None
        return cls(read_manifest(asked.guest), cache, start, asked.processor, kernel)

    @functools.cached_property
    def own(self) -> Qemu:
        """Our own QEMU, whose numbers the records have; compiled if it must be, which takes some minutes."""
        built = qemu.own(self.cache, _say, self.lock)
        folder = self.cache / built["folder"]
        return Qemu(folder / qemu.COMPILED, built["version"], built["sha256"], folder)

    @functools.cached_property
    def loading(self) -> Qemu:
        """The same as a program that loads plugins, which Debian's does for one core only; compiled if it must be."""
        built = qemu.loading(self.cache, _say, self.lock)
        folder = self.cache / built["folder"]
        return Qemu(folder / qemu.LOADER, built["version"], built["sha256"], folder)

    @property
    def running(self) -> Qemu:
        """The one that runs."""
        if self.plugin and self.processor.count > 1:
            return self.loading
        return self.own if self.by_own and not self.plugin else self.qemu

    def load(self, job: Job) -> None:
        """As for every guest; decides by the job which QEMU runs it."""
        super().load(job)
        if names := job.modules():
            kernel, packages = self.kernel.name if self.kernel else None, kernels.headers(self.lock, self.kernel)
            self.programs |= of_jobs(cache_folder(), self.lock, names, kernel, packages, _say)
        self._choose(job.engine_alone)

    def _choose(self, engine_alone: bool) -> None:
        """Debian's QEMU stands in for our own, until that is compiled, where the load engine works alone.

        Both measure the same there (docs/methods/labs.md#our-own-qemu). $REPROFS_QEMU chooses: own, debian or host.
        """
        chosen = os.environ.get(qemu.VARIABLE, "")
        self.engine_alone = engine_alone and bool(qemu.locked(self.lock))
        needed = not self.engine_alone or chosen == "own" or qemu.has_own(self.cache, self.lock)
        self.by_own = self.processor.count > 1 or (needed and chosen not in ("host", "debian"))

    @classmethod
    def facts(cls, processor: Processor | None = None) -> LabFacts:
        """As for every lab, with the time that an instruction takes."""
        found = super().facts()
        if not processor:
            return found
        found = found.model_copy(update={"clock_text": cls._clock_with(processor), "processor": processor})
        if processor.count == 1:
            return found
        return found.model_copy(update={"meaning": cls.several_meaning.format(cores=processor.count)})

    @classmethod
    def _clock_with(cls, processor: Processor) -> str:
        return f"{cls.clock_text} (1 instruction = {processor.ns_per_instruction:g} ns)"

    @staticmethod
    def processor_steps(processor: Processor) -> list[Step]:
        """A step that fails unless the kernel sees these features, and its clock and timer run at this rate."""
        flags = [feature.replace(".", "_") for feature in processor.features]  # as /proc/cpuinfo has them
        speed, cores = processor.instructions_per_ns, processor.count
        divider = DIVIDERS[speed if cores == 1 else 1]
        counted = [Exec(stage="processor", match=[f"^{cores}$"], arg=["nproc", "--all"])] if cores > 1 else []
        return [steps.Processor(instructions_per_ns=speed, divider=divider, flag=flags), *counted]

    @staticmethod
    def pause_steps() -> list[Step]:
        """A step that stops the guest, so that its state can be saved."""
        return [steps.Pause(source=FW_CFG)]

    def environment(self, start: str) -> dict:
        """As for every guest, with the processor."""
        cores = {"cores": self.processor.count} if self.processor.count > 1 else {}
        found = super().environment(start) | {"clock": self._clock_with(self.processor)} | cores
        if self.built:
            found["modules_sha256"], found["config_sha256"] = self.manifest["drivers"]["sha256"], self.built.config
        return found | self._qemu_of_numbers()

    def _qemu_of_numbers(self) -> dict:
        """What a record says of QEMU: the one whose numbers these are, and the one that ran if it is another."""
        if self.by_own and not self.plugin:
            return qemu.locked(self.lock) or self.own.said()
        if self.qemu.folder is None or not (self.engine_alone or self.plugin):
            return {}  # another lab
        return (qemu.locked(self.lock) or self.own.said()) | {"ran_by": self.running.said()}

    @classmethod
    def unsuited(cls, profile: Device) -> str:
        """Why it can never have devices of this profile (one sentence), on any machine; empty if it can."""
        if profile.backing not in ("memory", "model", CRASH):
            return (
                f"The exact lab keeps its devices in memory, not in a {profile.backing}: choose a device model "
                "with backing memory or model."
            )
        if profile.iops:
            return (
                "The exact lab models completion_ns and bandwidth_mb_s, not iops: use this device model in the lab vm."
            )
        return ""

    def obstacle(self, packages: list[str], commands: list[str], modules: list[str], profile: Device) -> str:
        """As for every guest; besides, devices of this lab are in its memory, with a modelled completion time."""
        return self.unsuited(profile) or super().obstacle(packages, commands, modules, profile) or self._lacks(modules)

    def _lacks(self, modules: list[str]) -> str:
        """What the kernel has not (one sentence); empty for the guest's own, which has all modules."""
        if not (self.kernel and self.built):
            return ""
        lacking = [module for module in modules if module.replace("-", "_") not in self.built.modules]
        if lacking:
            return f"The kernel {self.kernel.name} ({self.built.release}) has no module {lacking[0]}."
        return ""

    def run(self, job: Job, time_limit_s: float, disks: Disks | None = None) -> Outcome:
        """Give the engine this job in a fresh guest and wait until it ends, at most `time_limit_s` seconds.

        The limit is in host time, from when the guest has started. The job itself makes the disks (device_steps).

        Raises UserError when the job is too long or the guest cannot be started; everything after that is an Outcome.
        """
        began = time.monotonic()
        text = self._text(job)
        setup = job.setup().encode()
        used, before = "cold boot", b""
        self.load(job)
        programs = self.programs if job.beginning().programs() else {}
        with contextlib.ExitStack() as places:
            place = self._prepared(places, text, setup)
            machine = None
            if self.start != "cold boot":
                try:
                    snapshot = self._snapshot()
                    saved = self._begun(snapshot, setup, programs, time_limit_s) if setup else None
                    machine = self._machine(place, incoming=True, plugin=self.plugin)
                    machine.restore(saved or snapshot)
                    used = "snapshot of what was set up" if saved else "snapshot"
                    if saved:
                        setup, before = b"", saved.with_suffix(".output").read_bytes()
                except MachineError as error:
                    if machine:
                        machine.end()
                    machine = None
                    if self.start == "snapshot":
                        raise UserError(f"the guest cannot be started from its snapshot: {error}") from None
                    place = self._prepared(places, text, setup)  # with nothing of the machine that failed
            try:
                ending = "killed"
                try:
                    if machine is None:
                        # The kernel looks at the module while it starts, in the state that is saved at an empty one.
                        self._write_programs(place, {})
                        machine = self._machine(place, plugin=self.plugin)
                        machine.wait_for_pause(began + BOOT_LIMIT_S)
                        self._write_programs(place, self.programs)
                    machine.call("cont")
                    deadline = time.monotonic() + time_limit_s
                    if setup and machine.paused(deadline):
                        machine.call("cont")
                    ending = machine.wait_for_end(deadline, HANGS)
                except MachineError as error:
                    if machine is None or used == "cold boot":
                        raise UserError(f"the guest cannot be started: {error}") from None
            finally:
                if machine:
                    machine.end()
            if self.plugin and ending == "killed":
                raise UserError(str(machine._error("QEMU ended while it counted")))
            outcome = self._outcome(place, ending, used, began)
            outcome.output = before + outcome.output
            return outcome

    def _prepared(self, places: contextlib.ExitStack, text: bytes, setup: bytes) -> Path:
        """A new folder for a machine, with the job."""
        place = places.enter_context(workplace())
        self._write_job(place, text, len(setup) or None, self.programs)
        return place

    @staticmethod
    def device_steps(disks: Disks) -> list[Step]:
        """Steps that make the block devices, whose data are in the guest's memory.

        A profile's: modelled disks, or null block devices with its completion_ns (time from a request to its
        completion, 0: at once), bandwidth_mb_s (MiB/s, 0: no limit) and cache_mib.
        Source: drivers/block/null_blk/main.c of Linux.
        The bandwidth is a budget for every 20 ms: within it a request takes its completion time, beyond it a request
        waits for the next budget. Raises UserError for a bandwidth whose budget is smaller than one request may be.
        """
        steps: list[Step] = []
        for path, profile, size_mib in zip(ExactLab.device_paths(disks), disks.profiles, disks.sizes_mib, strict=True):
            if profile.backing == CRASH:
                option = [f"size_mib={size_mib}", f"cache={int(profile.flush_us is not None)}"]
                steps.append(Insmod(name=CRASHES, option=option))
            elif profile.drive:  # each that is added gets the next number
                text = profile.drive.line(size_mib << 20)
                steps.append(Write(path="/sys/module/modeldisk/parameters/add", text=text))
            else:
                steps += _null_block(f"{DEVICES}/{Path(path).name}", profile, size_mib)
        return steps

    @staticmethod
    def device_paths(disks: Disks) -> list[str]:
        """The path of each device: those of a driver are numbered from 0."""
        if disks.profiles and disks.profile.backing == CRASH:
            return [f"/dev/{CRASHES}"]
        names = ["modeldisk" if profile.drive else "nullb" for profile in disks.profiles]
        return [f"/dev/{name}{names[:i].count(name)}" for i, name in enumerate(names)]

    def _options(self) -> list[str]:
        """The options of QEMU, without the names of files: with the files' digests and QEMU's version they fix every
        number."""
        speed, cores = self.processor.instructions_per_ns, self.processor.count
        append, icount = APPEND.format(khz=speed * 1_000_000), "shift=0,sleep=off"
        if cores == 1:
            append += f" reprofs_divider={DIVIDERS[speed]}"
        else:  # here QEMU's own clock goes at the right rate, and so do all its timers
            icount += f",speed={speed},window={WINDOW_NS},spin={SPIN_NS}"
        return [
            *("-name", "reprofs,debug-threads=on"),  # the gate knows the processor's thread by its name
            *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-seed", "1"),
            # After CMPXCHG16B the kernel had wrong flags and died of them (docs/methods/labs.md#the-processor).
            *("-M", "pc,nvdimm=on", "-cpu", ",+".join(["qemu64,-cx16", *self.processor.features]), "-smp", f"{cores}"),
            *("-m", f"{self.manifest['memory_mib']}M,slots=3,maxmem=16G"),
            *("-accel", "tcg", "-icount", icount, "-rtc", "base=2020-01-01,clock=vm"),
            *self._modules(),
            # The guest's own way to say that it has started.
            *("-device", "pvpanic", "-action", "panic=pause"),
            *self._channels(),
            *("-kernel", "<vmlinuz>", "-initrd", "<initrd>", "-append", append),
        ]

    def _machine(self, place: Path, incoming: bool = False, plugin: str = "") -> Machine:
        command = self._command(place)
        command += ["-plugin", plugin] if plugin else []
        if self.running is not self.qemu:
            return Machine(self.running, command, place, None, incoming)
        gate = place / "gate.so"
        gate.symlink_to(self.files["gate"])  # it stays in the cache: the place may be where nothing can be executed
        return Machine(self.qemu, command, place, gate, incoming)

    def _snapshot(self) -> Path:
        """The saved state of the guest at its pause, made by the first trial that needs it. Raises MachineError."""
        environment = self.environment("snapshot")
        parts = [
            environment[key]
            for key in ("qemu_sha256", "command", "image_sha256", "kernel_sha256", "initrd_sha256", "gate_sha256")
        ]
        parts += [environment["ran_by"]] if "ran_by" in environment else []
        path = self.cache / "snapshot" / hashlib.sha256(json.dumps(parts).encode()).hexdigest()
        if not _states.found(path):
            self._save(path, self._started, KEPT_SNAPSHOTS_BYTES)
        return path

    def _started(self, path: Path) -> None:
        with workplace() as place:
            self._write_job(place, b"")
            with contextlib.closing(self._machine(place)) as machine:
                machine.wait_for_pause(time.monotonic() + BOOT_LIMIT_S)
                machine.save(path)

    def _begun(self, snapshot: Path, setup: bytes, programs: dict[str, Path], time_limit_s: float) -> Path | None:
        """The state saved at the end of `setup`, the part of a job before its pause; None where that part fails.

        programs: of the job, if that part runs one. Made by the first trial that needs it. Raises MachineError.
        """
        digests = json.dumps([[name, digest_of(path)] for name, path in programs.items()]) if programs else ""
        key = hashlib.sha256(snapshot.name.encode() + setup + digests.encode()).hexdigest()
        path = self.cache / "cluster" / key
        if _states.found(path):
            return path

        def make(path: Path) -> None:
            with workplace() as place:
                self._write_job(place, setup, programs=programs)
                with contextlib.closing(self._machine(place, incoming=True)) as machine:
                    machine.restore(snapshot)
                    machine.call("cont")
                    if machine.paused(time.monotonic() + time_limit_s):
                        path.with_suffix(".output").write_bytes((place / "output").read_bytes())
                        machine.save(path)

        self._save(path, make, KEPT_CLUSTERS_BYTES)
        return path if _states.whole(path) else None

    @staticmethod
    def _save(path: Path, make: Callable[[Path], None], room: int) -> None:
        """Has `make` save a state in `path`, once for all processes; its digest comes last. Raises MachineError.

        room: bytes of others that are kept in the folder.
        """
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.with_suffix(".lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if _states.whole(path):
                    return
                _states.drop_old(path.parent, room)
                make(path)
                try:
                    if path.exists():
                        digests = [sha256(part) for part in (path, path.with_suffix(".output")) if part.exists()]
                        write_text(path.with_suffix(".sha256"), "\n".join(digests))
                except UserError as error:
                    raise MachineError(str(error)) from None
        except OSError as error:
            raise MachineError(f"cannot keep it in {path.parent}: {error.strerror}") from None


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _with_kernel(manifest: dict, kernel: Built) -> dict:
    """The manifest of a guest with another kernel. What was built for its own kernel is not there any more."""
    packages = {name: version for name, version in manifest["packages"].items() if not KERNEL_FILES.match(name)}
    packages.pop(KERNEL, None)
    return manifest | kernel.files | {"kernel": kernel.release, "packages": packages | kernel.packages}


Lab = ExactLab


def _null_block(folder: str, profile: Device, size_mib: int) -> list[Step]:
    """Steps that make one null block device, which the kernel names like its folder."""
    completion, bandwidth = profile.completion_ns, profile.bandwidth_mb_s
    cache = profile.cache_mib if isinstance(profile, Plain) else 0
    if 0 < bandwidth < LEAST_BANDWIDTH:
        raise UserError(f"bandwidth_mb_s is {bandwidth}, but must be 0 or at least {LEAST_BANDWIDTH}.")
    attributes = {
        "size": size_mib,
        "blocksize": 512,
        "memory_backed": 1,
        # A discard is charged as if it were written, and one larger than the budget would wait for ever.
        "discard": 0 if bandwidth else 1,
        "queue_mode": 2,
        "hw_queue_depth": 64,
        "irqmode": 2 if completion else 0,
        "completion_nsec": completion,
        "mbps": bandwidth,
        **({"cache_size": cache} if cache else {}),  # volatile, so that the kernel flushes it
        "power": 1,  # last: this makes the device of what was set before
    }
    return [Mkdir(path=folder), *(Write(path=f"{folder}/{name}", text=value) for name, value in attributes.items())]
