"""A trial's setup: what the names of its cell stand for, and its devices.

It is not in reprofs.plan because only the lab knows where the disks are and what it can run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from reprofs import labs
from reprofs.guest.parameters import needs
from reprofs.plan import recording
from reprofs.plan.cell import Cell
from reprofs.plan.device import Device, Solid, profile_names
from reprofs.plan.filesystem import Filesystem, Variant
from reprofs.plan.guest import BASE, common
from reprofs.plan.kernel import Kernel
from reprofs.plan.network import Network
from reprofs.plan.processor import Processor
from reprofs.plan.stack import Commands, Stack
from reprofs.plan.workload import Modified, Scale
from reprofs.records.protocol import MOUNTPOINT

EMPTY_MIB = (
    512  # of a disk, with much to spare: mkfs writes 4 MiB (Btrfs) to 132 MiB (ext4) to one of 4 GiB, mostly zeros
)


@dataclass(frozen=True)
class Setup:
    """The parts of a configuration. cell: their names, with the processor and network that it has by default."""

    cell: Cell
    lab: type[labs.Lab]
    processor: Processor | None
    kernel: Kernel | None
    network: Network | None
    filesystem: Filesystem
    workload: Modified
    stack: Stack
    profile: Device
    last: Device | None = None  # the profile of the stack's last disk, where that is another

    @property
    def variant(self) -> Variant:
        """Of the file system, with what its mkfs is told for the kernel."""
        found = self.filesystem.variant(self.cell.variant)
        more = self.kernel.make.get(self.cell.filesystem) if self.kernel else None
        return found.model_copy(update={"make": f"{found.make} {more}".strip()}) if more else found

    @property
    def replay(self) -> str:
        """The engine's program that replays its recording. Several lanes cannot be on the exact lab's one core."""
        name = self.workload.recording()
        several = self.processor is None or self.processor.count > 1
        return recording.replayed_by(recording.read_head(recording.path_of(name)), several) if name else "replay"

    @property
    def guest(self) -> str:
        """Which guest it needs, in a lab that has guests."""
        return common(self.filesystem.guest, self.stack.guest, self.workload.guest)

    @property
    def engine_alone(self) -> bool:
        """Whether the load engine works alone, in one thread: no program, server or other kernel, and memory enough.

        A thread of another program may see what QEMU keeps of page tables, and so may the kernel where memory is short.
        """
        if self.workload.commands() or self.workload.clients > 1 or self.cell.memory_mib or self.cell.scale != "smoke":
            return False
        fuse = (self.filesystem.type or "").startswith("fuse")
        return self.guest == BASE and not (fuse or self.filesystem.hosts or self.kernel)

    @property
    def scale(self) -> Scale:
        """Of the workload."""
        return self.workload.scale(self.cell.scale)

    @property
    def modules(self) -> list[str]:
        """The kernel's modules that the file system needs."""
        module = self.variant.module or self.filesystem.module
        return [module] if module else []

    @property
    def needs(self) -> int:
        """Roughly the most bytes of content that the workload has at the same time."""
        return needs(self.workload, self.cell.scale)

    @property
    def stored(self) -> int:
        """Roughly the most bytes of content that disks in the lab's memory hold; modelled ones hold no zeros.

        A spare that an array is rebuilt on is written whole.
        """
        zeros, room = not all(one.drive for one in self.profiles), self.scale.device_mib << 20
        if self.workload.fills(zeros):
            return room
        spare = self.disk_mib << 20 if zeros and self.stack.state == "rebuilding" else 0
        fill = 0 if self.workload.ages else self.workload.fill  # by a profile, space is allocated and nothing written
        return needs(self.workload, self.cell.scale, zeros) + room * fill // 100 + spare

    @property
    def profiles(self) -> list[Device]:
        """All that its disks have."""
        return [self.profile, self.last] if self.last else [self.profile]

    @property
    def flash(self) -> int | None:
        """1 if a disk has a model of its flash, whose wear is recorded."""
        return 1 if any(isinstance(one.drive, Solid) and one.drive.flash for one in self.profiles) else None

    @cached_property
    def disk_mib(self) -> int:
        """The size of each disk."""
        least = self.filesystem.hosts.least_mib if self.filesystem.hosts else 0
        own, asked = self.profile.disk_mib, max(self.stack.disk_mib(self._offered_mib()), least)
        # What is filled is as full as it is large: of a modelled disk no more is used then than the scale asks for.
        return min(own, asked) if own and (self.workload.fills() or self.workload.fill) else own or asked

    def _offered_mib(self) -> int:
        """What the stack must offer to the file system: the scale says it, but a real disk that is filled has its own
        size. Then there must be room for some of the content twice over.
        """
        if self.profile.backing != "device" or not self.workload.fills():
            return self.scale.device_mib
        return min(self.scale.device_mib, 2 * self.needs >> 20)

    @cached_property
    def disks(self) -> labs.Disks:
        """The disks; none when the file system needs no device or the lab makes none."""
        count = self.stack.disks if self.filesystem.device and self.lab.provisions else 0
        return labs.Disks(self.profile, count, self.disk_mib, self.last, (self.stored >> 20) + EMPTY_MIB)

    @cached_property
    def paths(self) -> list[str]:
        """The disks' device files."""
        return self.lab.device_paths(self.disks)

    @cached_property
    def commands(self) -> Commands | None:
        """Of the stack; None without disks. Raises FileError for a bad command in a layer's file."""
        if not self.paths:
            return None
        return self.stack.commands(self.paths, self.lab.disks_zeroed(self.profile), MOUNTPOINT)


def devices(setup: Setup, sizes: Sequence[int] = ()) -> list[dict]:
    """The block devices of a trial, as its record lists them: name, size_bytes, and how they behave.

    sizes: in bytes, of disks that are not of the size that the trial asked for.
    """
    names = profile_names(setup.cell.profile)
    named = [names[0]] * (len(setup.paths) - 1) + names[-1:]
    asked = sizes or [size << 20 for size in setup.disks.sizes_mib]
    return [
        {"name": Path(path).name, "size_bytes": size, **_behaviour(profile)} | ({"profile": name} if setup.last else {})
        for path, size, profile, name in zip(setup.paths, asked, setup.disks.profiles, named, strict=False)
    ]


def _behaviour(profile: Device) -> dict:
    if profile.drive:
        return {"model": profile.drive.kind}
    return {"completion_ns": profile.completion_ns, "bandwidth_mb_s": profile.bandwidth_mb_s}
