"""The vm lab: the guest of the exact lab on a real clock, with several processors and disks in files. It needs no root.

It uses KVM if a guest really boots with it, else emulation, which is slower; every record says which.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from pathlib import Path
from string import ascii_lowercase

from reprofs import cleanup
from reprofs.errors import UserError
from reprofs.files import cache_folder, write_text
from reprofs.guest.steps import Clock, Job, Module, Step
from reprofs.labs import Disks, Obstacle, Outcome, disk_files
from reprofs.labs._qemu import GuestLab, Machine, MachineError
from reprofs.plan.device import Device, Plain
from reprofs.workplace import workplace

PROCESSORS = 4  # at most
PROBE_S = 20  # a guest with KVM is up in two or three
# Before QEMU 8.1 a processor could translate code while another changed it, and keep the old code for good: now and
# then a guest with a thread per processor died in the kernel's int3 (Red Hat bug 2216496; mended by "accel/tcg: Always
# lock pages before translation"). With one thread for all processors it cannot.
PARALLEL_EMULATION = (8, 1)
SLOT_FUNCTIONS = 8  # disks in one slot of the PCI bus, which has about 30
# The tick counter can be trusted under KVM and under emulation; reading any other clock costs a hundred times more.
# no_timer_check: on a busy host the kernel may take its emulated timer for broken, and panics.
APPEND = (
    "console=ttyS0,115200 quiet loglevel=4 tsc=reliable nowatchdog no_timer_check oops=panic panic=-1 reprofs_lab=vm"
)


class VmLab(GuestLab):
    """The vm lab for one guest. accelerator: "kvm", "tcg", or "" to find out which works."""

    name = "vm"
    clock = "wall"
    clock_text = "the guest's clock, which keeps the host's time"
    meaning = (
        "In the lab vm time is the real time of a virtual machine. Emulation or virtualisation of the processor and"
        " whatever else ran on the host are part of it."
    )
    exclusive = True

    def __init__(self, manifest: dict, cache: Path, accelerator: str = ""):
        super().__init__(manifest, cache)
        self.accelerator = accelerator
        self.processors = min(PROCESSORS, len(os.sched_getaffinity(0)))
        self.disks = Disks()

    def obstacle(self, packages: list[str], commands: list[str], modules: list[str], profile: Device) -> str:
        """Why this lab cannot run a trial that needs these (one sentence), or an empty string."""
        return self.unsuited(profile) or super().obstacle(packages, commands, modules, profile)

    @classmethod
    def unsuited(cls, profile: Device) -> str:
        """Why it can never have devices of this profile (one sentence), on any machine; empty if it can."""
        if profile.completion_ns or profile.drive:
            return "The vm lab cannot model disks: choose the device model file, or the lab exact."
        if profile.backing == "device":
            return "The vm lab keeps its disks in files: choose the device model file, or the lab host for real disks."
        return ""

    @staticmethod
    def device_steps(disks: Disks) -> list[Step]:
        """Steps that load the disks' drivers."""
        if not disks.count:
            return []
        return [Module(name="virtio_pci"), Module(name="virtio_blk")]

    @staticmethod
    def device_paths(disks: Disks) -> list[str]:
        """The path of each device: /dev/vda to /dev/vdz, then /dev/vdaa."""
        letters = [*ascii_lowercase, *(first + second for first in "ab" for second in ascii_lowercase)]
        return [f"/dev/vd{name}" for name in letters[: disks.count]]

    def run(self, job: Job, time_limit_s: float, disks: Disks | None = None) -> Outcome:
        """Give the engine this job in a fresh guest and wait until it ends, at most `time_limit_s` seconds.

        The limit is in host time, from the start of the guest. Raises UserError when the job is too long,
        Obstacle when QEMU does not start or there is no room for the disks; everything after that is an Outcome.
        """
        text = self._text(job)
        if not self.accelerator:
            self.accelerator = "kvm" if self._kvm_works() else "tcg"
        self.disks = disks or Disks()
        self.load(job)
        in_memory = self.disks.count and self.disks.profile.backing == "memory"
        with workplace(cleanup.MEMORY if in_memory else cache_folder() / "work") as place:
            disk_files(place, self.disks)
            self._write_job(place, text, programs=self.programs)
            began = time.monotonic()
            try:
                with contextlib.closing(Machine(self.qemu, self._command(place), place)) as machine:
                    ending = machine.wait_for_end(began + time_limit_s)
            except MachineError as error:
                raise Obstacle(f"The guest cannot be started: {error}.") from None
            return self._outcome(place, ending, "cold boot", began)

    def environment(self, start: str) -> dict:
        """The `lab` part of a raw record."""
        return {**super().environment(start), "accelerator": self.accelerator, "processors": self.processors}

    def _options(self) -> list[str]:
        """The options of QEMU, without the names of files."""
        return [
            *("-name", "reprofs"),
            *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
            # CMPXCHG16B: see the lab exact.
            *("-M", "pc,nvdimm=on", "-cpu", "max" if self.accelerator == "kvm" else "max,-cx16"),
            *("-smp", str(self.processors)),
            *("-m", f"{self.manifest['memory_mib']}M,slots=3,maxmem=16G"),
            *("-accel", self._accelerator(), "-rtc", "base=2020-01-01"),
            *self._modules(),
            *("-device", "pvpanic"),
            *self._channels(),
            *self._drives(),
            *("-kernel", "<vmlinuz>", "-initrd", "<initrd>", "-append", APPEND),
        ]

    def _accelerator(self) -> str:
        if self.accelerator == "kvm":
            return "kvm"
        version = tuple(map(int, self.qemu.version.split(".")[:2]))
        return f"tcg,thread={'multi' if version >= PARALLEL_EMULATION else 'single'}"

    def _drives(self) -> list[str]:
        """The disks: raw sparse files.

        One in memory needs the page cache; one in a file must not profit from it, unless its profile says so.
        """
        profile = self.disks.profile
        own = profile.cache if isinstance(profile, Plain) else None
        cache = (own or "none") if profile.backing == "file" else "writeback"
        drive = f"if=none,format=raw,cache={cache},discard=unmap,werror=report,rerror=report"
        if profile.iops:
            drive += f",throttling.iops-total={profile.iops}"
        if profile.bandwidth_mb_s:
            drive += f",throttling.bps-total={profile.bandwidth_mb_s << 20}"
        options = []
        for i in range(self.disks.count):
            address = f"{2 + i // SLOT_FUNCTIONS:#x}.{i % SLOT_FUNCTIONS}"
            options += ["-drive", f"{drive},id=disk{i},file=<place>/disk{i}"]
            options += ["-device", f"virtio-blk-pci,drive=disk{i},serial=disk{i},addr={address},multifunction=on"]
        return options

    def _kvm_works(self) -> bool:
        """Whether a guest boots with KVM on this machine: /dev/kvm may exist and guests hang nevertheless.

        Tried once per boot of the machine and version of QEMU.
        """
        if not os.access("/dev/kvm", os.R_OK | os.W_OK):
            return False
        path = self.cache / "kvm.json"
        key = {"boot": cleanup.boot(), "qemu": self.qemu.sha256}
        with path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            with contextlib.suppress(OSError, ValueError):
                known = json.loads(path.read_text())
                if {name: known[name] for name in key} == key:
                    return known["works"]
            try:
                ending = VmLab(self.manifest, self.cache, "kvm").run(Job([Clock()]), PROBE_S).ending
            except UserError:
                ending = "killed"
            write_text(path, json.dumps({**key, "works": ending == "finished"}))
            return ending == "finished"


Lab = VmLab
