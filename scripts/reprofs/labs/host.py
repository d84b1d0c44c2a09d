"""The host lab: this machine's own kernel and clock, as root, on loop devices or on real disks listed for it.

The engine runs in mount and process namespaces of its own: its mounts are seen nowhere else, and when the trial is
killed they and all its processes end with it. Loop devices are freed by the kernel once nobody uses them. With hosts
it has a network of its own as well, and what daemons write to this machine's folders goes to memory and is forgotten.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import fcntl
import os
import re
import shlex
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from reprofs import cleanup, ramdisks
from reprofs.errors import UserError
from reprofs.files import cache_folder
from reprofs.guest import memory
from reprofs.guest.hosts import Bridge
from reprofs.guest.shell import script
from reprofs.guest.steps import Exec, Job, Module
from reprofs.labs import Disks, Obstacle, Outcome, disk_files
from reprofs.labs import _guard as guard
from reprofs.labs._native import PATH, NativeLab
from reprofs.plan.device import Device, Plain
from reprofs.workplace import workplace

HOME = Path("/run/reprofs")
ROOT_NEEDED = "The host lab creates and mounts file systems: run as root, or choose the lab vm."
NO_NAMESPACES = "This machine allows root no mount and process namespaces (unshare): choose the lab vm."
NO_LIMIT = (
    "This machine cannot limit memory: {}/cgroup.subtree_control (cgroup v2) is not writable or lacks "
    "memory. Choose the lab vm."
)
NO_DISKS = f"{guard.LIST} lists no real disk: add disks that trials may overwrite, or choose the device model file."
LOOP_CTL_GET_FREE, LOOP_CONFIGURE = 0x4C82, 0x4C0A  # linux/loop.h
AUTOCLEAR, DIRECT_IO = 4, 16
MEMORY_DISKS = ": a disk in memory is a null_blk device, else a zram device, and only without both a loop device:"
APART = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
WITH_HOSTS = ["--net", "--uts"]
NETWORK = {  # module -> a command that needs it
    "veth": "ip link add name r0 type veth peer name r1",
    "bridge": "ip link add name r0 type bridge",
    "sch_netem": "tc qdisc add dev lo root netem limit 9",
}
# The volume manager sees the trial's devices and no others, so it cannot meet the user's volume groups.
LVM = """
devices {{
    dir="/dev" scan=["/dev", "/run/reprofs"] use_devicesfile=0
    obtain_device_list_from_udev=0 external_device_info_source="none"
    global_filter=[{accept} "r|.*|"]
}}
activation {{ udev_sync={udev} udev_rules={udev} verify_udev_operations=0 }}
backup {{ backup=0 archive=0 }}
global {{ event_activation=0 use_lvmpolld=0 }}
"""


class HostLab(NativeLab):
    """The host lab. Needs root."""

    name = "host"
    meaning = (
        "In the lab host time is the real time of this machine's own kernel. Whatever else ran on it is part of the"
        " times."
    )
    provisions = True
    as_root = True

    def __init__(self, path: str = ""):
        super().__init__(path)
        self.disks: list[dict] = []

    def obstacle(self, packages: list[str], commands: list[str], modules: list[str], profile: Device) -> str:
        """Why this machine cannot run a trial that needs these (one sentence), or an empty string."""
        if os.geteuid() != 0:
            return ROOT_NEEDED
        if why := self.unsuited(profile):
            return why
        if profile.backing == "device" and not guard.allowed():
            return NO_DISKS
        # Where the kernel lacks a module, installing the tools would not help.
        if missing := next((module for module in modules if not has_module(module)), ""):
            other = "the network loopback or the lab vm" if missing == "sch_netem" else "the lab vm"
            return f"This machine's kernel has no module {missing}: choose {other}."
        reason = super().obstacle(packages, [*commands, "unshare", "mount", "umount"], modules, profile)
        return reason or ("" if _exists([*APART, "true"]) else NO_NAMESPACES)

    @classmethod
    def unsuited(cls, profile: Device) -> str:
        """Why it can never have devices of this profile (one sentence), on any machine; empty if it can."""
        modelled = profile.drive or profile.completion_ns or profile.iops or profile.bandwidth_mb_s
        if modelled or (isinstance(profile, Plain) and profile.cache):
            return "The host lab uses devices as they are: choose a device model without modelled times, such as file."
        return ""

    def limits_no_memory(self) -> str:
        """Why it cannot limit the memory of a trial (one sentence), or an empty string."""
        root = cleanup.SYS / "fs/cgroup"
        enabled = (cleanup.read(root / "cgroup.subtree_control") or "").split()
        return "" if "memory" in enabled and os.access(root, os.W_OK) else NO_LIMIT.format(root)

    @classmethod
    def refusal(cls, profile: Device, disks: int) -> str:
        """Why this machine cannot run any trial of a study in it (one sentence); empty if it can."""
        if os.geteuid() != 0:
            return ROOT_NEEDED
        try:
            for entry in (entries := guard.allowed() if disks else [])[:disks]:
                guard.check(entry["path"], entries)
        except UserError as error:
            return str(error)
        if disks and not entries:
            return NO_DISKS
        return ""

    @classmethod
    def disks_zeroed(cls, profile: Device) -> bool:
        """Whether disks of this profile read as zeros before a trial writes to them."""
        return profile.backing != "device"

    @staticmethod
    def device_paths(disks: Disks) -> list[str]:
        """The path of each device."""
        return [f"{HOME}/disk{i}" for i in range(disks.count)]

    def run(self, job: Job, time_limit_s: float, disks: Disks | None = None) -> Outcome:
        """Give the engine this job, with these disks, and wait until it ends, at most `time_limit_s` seconds.

        Raises Obstacle, before anything is written, when disks are not available or a name of the stack is in use.
        """
        disks = disks or Disks()
        backing = disks.profile.backing
        with workplace({"memory": cleanup.MEMORY, "file": cache_folder() / "work"}.get(backing)) as place:
            try:
                self._refuse_taken_names(job)
                _announce_group(job, place)
                with self._disks(place, backing, disks) as self.disks, _kernel_log() as said:
                    (place / "job").write_text(_without_present_modules(job).text())
                    self._provide(job, place)
                    tools = self._tools(place, job)
                    outcome = self._run(
                        self._command(place, _has_hosts(job)), place, time_limit_s, "as it was", **tools
                    )
                    outcome.console += said()
                    return outcome
            finally:
                cleanup.release(place)

    def real_sizes(self, disks: Disks) -> list[int]:
        """Bytes of each real disk that a trial with these disks would get; empty if the lab makes its disks."""
        if disks.profile.backing != "device":
            return []
        return [entry["size_bytes"] for entry in guard.allowed()[: disks.count]]

    def environment(self, start: str) -> dict:
        """The `lab` part of a raw record."""
        names = ("backing", "driver", "direct_io", "serial", "size_bytes")  # not where a device happens to be today
        devices = [{name: disk[name] for name in names if name in disk} for disk in self.disks]
        return {**super().environment(start), "devices": devices}

    def _command(self, place: Path, hosts: bool) -> list[str]:
        HOME.mkdir(exist_ok=True)  # stays, empty: removing it would unmount it in a trial of somebody else
        scripts = ["lab-host-network", "lab-host"] if hosts else ["lab-host"]
        apart = [*APART, *WITH_HOSTS] if hosts else APART
        text = "\n".join(map(script, scripts))
        return [*apart, "sh", "-c", text, "sh", str(place), str(self.engine), *(disk["path"] for disk in self.disks)]

    @classmethod
    def last_commands(cls, disks: Disks) -> list[str]:
        """What it executes after the job, as lines to read."""
        real = guard.allowed()[: disks.count] if disks.profile.backing == "device" else []
        lines = [f"wipefs --all --quiet {shlex.quote(entry['path'])}  # after the trial" for entry in real]
        return lines + ([f": zeros are written to {cleanup.LOOKED_AT}, of each"] if real else [])

    @classmethod
    def first_commands(cls, disks: Disks, path: str, hosts: bool) -> list[str]:
        """What it executes before the job, as lines to read. Loop devices get their numbers when they are made."""
        backing = disks.profile.backing
        lines, devices = [], []
        if backing == "device":
            devices = [entry["path"] for entry in guard.allowed()[: disks.count]]
            lines = [f"blkid -p -o export {shlex.quote(device)}  # must find nothing" for device in devices]
            if missing := disks.count - len(devices):
                lines.append(f": {missing} more real disks are needed than {guard.LIST} lists: this will be refused")
        elif disks.count:
            where = cleanup.MEMORY if backing == "memory" else cache_folder() / "work"
            lines.append(f"PLACE={shlex.quote(str(where))}/...  # a folder of its own")
            direct = " --direct-io=on" if backing == "file" else ""
            lines += [MEMORY_DISKS] if backing == "memory" else []
            for i in range(disks.count):
                devices.append(f"$LOOP{i}")
                lines.append(f"truncate --size={disks.size_mib}M $PLACE/disk{i}")
                lines.append(f"LOOP{i}=$(losetup --find --show{direct} $PLACE/disk{i})")
        lines.append(f"{shlex.join([*APART, *(WITH_HOSTS if hosts else [])])} sh  # the rest runs in it")
        lines += [*(script("lab-host-network").splitlines() if hosts else []), script("lab-host").splitlines()[0]]
        return [*lines, *(f"ln -s {device} {HOME}/disk{i}" for i, device in enumerate(devices))]

    def _tools(self, place: Path, job: Job) -> dict[str, str]:
        """Environment variables for the tools of stacks."""
        udev = Path("/run/udev/control").exists()
        accept = "".join(f'"a|^{path}$|", ' for path in [f"{HOME}/disk[0-9]+", *job.makes])
        (place / "lvm").mkdir()
        (place / "lvm/lvm.conf").write_text(LVM.format(accept=accept, udev=int(udev)))
        return {"LVM_SYSTEM_DIR": str(place / "lvm")} | ({} if udev else {"MDADM_NO_UDEV": "1", "DM_DISABLE_UDEV": "1"})

    @staticmethod
    def _refuse_taken_names(job: Job) -> None:
        """Raises Obstacle when a name of the stack is in use: names are fixed, so that every run has the same job."""
        hint = "remove or rename it, or choose the lab vm."
        for path in map(Path, job.makes):
            # A volume group has a folder only while a volume of it is active; the mapper has GROUP-VOLUME.
            places = [path, cleanup.SYS / "block" / path.name, *Path("/dev/mapper").glob(f"{path.name}-*")]
            if any(place.exists() for place in places):
                raise Obstacle(f"{path} exists, which the stack would create: {hint}")
        for command in job.taken:
            if _exists(command):
                raise Obstacle(f"Something that the file system would create exists (`{shlex.join(command)}`): {hint}")

    @contextlib.contextmanager
    def _disks(self, place: Path, backing: str, disks: Disks) -> Iterator[list[dict]]:
        """Yields the devices of a trial, each with its path and properties, and holds them open meanwhile."""
        with contextlib.ExitStack() as held:
            found = []
            if disks.count and backing == "device":
                found = _real_disks(disks)
                with _as_obstacle(), contextlib.ExitStack() as until_use:
                    for disk in found:
                        until_use.enter_context(guard.held(disk["path"]))
                    for disk in found:
                        guard.check_again(disk)
                        where = f"{disk['path']} (serial {disk['serial']})"
                        print(f"reprofs: {where} is empty in {cleanup.LOOKED_AT}, and is used", file=sys.stderr)
                        cleanup.note(place, device=disk)
                        held.callback(os.close, os.open(disk["path"], os.O_RDONLY | os.O_CLOEXEC))
            elif disks.count and (made := _memory_disks(place, backing, disks)):
                found = made
            elif disks.count:
                for path in disk_files(place, disks):
                    device, handle = _attach(path, direct=backing == "file")
                    held.callback(os.close, handle)
                    direct = cleanup.read(cleanup.SYS / "block" / device.name / "loop/dio") == "1"
                    found.append({"path": str(device), "backing": backing, "driver": "loop", "direct_io": direct})
            yield found


@contextlib.contextmanager
def _kernel_log() -> Iterator[Callable[[], str]]:
    """Yields a function that returns the kernel's messages since then. Source: Documentation/ABI/testing/dev-kmsg."""
    try:
        log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:  # a container may not let its root read it
        yield lambda: ""
        return

    def said() -> str:
        lines = []
        while True:
            try:
                lines.append(os.read(log, 8192).decode(errors="replace").partition(";")[2].splitlines()[0])
            except BrokenPipeError:  # it said more than it keeps
                continue
            except OSError:
                return "".join(f"kernel: {line}\n" for line in lines)

    try:
        os.lseek(log, 0, os.SEEK_END)
        yield said
    finally:
        os.close(log)


def _announce_group(job: Job, place: Path) -> None:
    """Notes the control group that a job will make, so that it is removed. Raises Obstacle when it is there."""
    if not any(isinstance(step, Exec) and step.stage == memory.STAGE for step in job.steps):
        return
    group = cleanup.SYS / "fs/cgroup" / memory.GROUP
    if group.exists():
        raise Obstacle(f"The control group {group} exists: remove it (rmdir), or wait.")
    cleanup.note(place, group=str(group))


def _has_hosts(job: Job) -> bool:
    return any(isinstance(step, Bridge) for step in job.steps)


def has_module(name: str) -> bool:
    """Whether the kernel has a module: built in, loaded or loadable."""
    if _is_present(name):
        return True
    builtin = cleanup.read(Path("/lib/modules", os.uname().release, "modules.builtin")) or ""
    if re.search(rf"/{re.sub('[-_]', '[-_]', name)}\.ko", builtin):
        return True
    return _exists(["modprobe", "--dry-run", "--quiet", name])


def _is_present(name: str) -> bool:
    """Whether the kernel has a module already, so that it need not be loaded."""
    known = (cleanup.read(Path("/proc/filesystems")) or "").split()
    if name in known or (cleanup.SYS / "module" / name.replace("-", "_")).exists():
        return True
    # The kernel loads what a network needs by itself, and a module that is built in may leave no trace.
    return name in NETWORK and _exists(["unshare", "--net", *NETWORK[name].split()])


def _without_present_modules(job: Job) -> Job:
    """The job without loading modules that the kernel has: a machine may have all of them built in, and no modprobe."""
    steps = [step for step in job.steps if not (isinstance(step, Module) and _is_present(step.name))]
    return dataclasses.replace(job, steps=steps)


def _exists(command: list[str]) -> bool:
    try:
        return subprocess.run(command, capture_output=True, env={**os.environ, "PATH": PATH}).returncode == 0
    except OSError:
        return False


@contextlib.contextmanager
def _as_obstacle() -> Iterator[None]:
    try:
        yield
    except UserError as error:
        raise Obstacle(str(error)) from None


def _real_disks(disks: Disks) -> list[dict]:
    """The first disks of the list, each checked. Raises Obstacle."""
    with _as_obstacle():
        entries = guard.allowed()
        if len(entries) < disks.count:
            needed = f"The trial needs {disks.count} of the real disks"
            raise UserError(f"{needed}, but {guard.LIST} lists {len(entries)}: add more.")
        found = [guard.check(entry["path"], entries) for entry in entries[: disks.count]]
        for disk in found:
            if disk["size_bytes"] < disks.size_mib << 20:
                raise UserError(
                    f"{disk['path']} is smaller than {disks.size_mib} MiB, which the trial needs: list a larger disk."
                )
    return [{**disk, "backing": "device"} for disk in found]


def _memory_disks(place: Path, backing: str, disks: Disks) -> list[dict]:
    """The trial's disks in memory, all of the first driver that can make them; empty where they are loop devices.

    `cleanup.release` removes them at the end of the trial, as after a kill.
    """
    driver = ramdisks.driver() if backing == "memory" else None
    if not driver:
        return []
    made = [
        ramdisks.make(driver, place, number, size, lambda disk: cleanup.note(place, disk=disk))
        for number, size in enumerate(disks.sizes_mib)
    ]
    if None in made:
        return []
    return [{"path": path, "backing": backing, "driver": driver, "direct_io": False} for path in made]


def _attach(file: Path, direct: bool) -> tuple[Path, int]:
    """A new loop device over a file, and an open handle: the kernel frees the device when its last user closes it."""
    flags = AUTOCLEAR | (DIRECT_IO if direct else 0)
    try:
        with Path("/dev/loop-control").open("rb") as control, file.open("r+b") as backing:
            for _ in range(100):
                device = Path(f"/dev/loop{fcntl.ioctl(control, LOOP_CTL_GET_FREE)}")
                handle = os.open(device, os.O_RDWR | os.O_CLOEXEC)
                info = struct.pack(cleanup.LOOP_INFO64, *[0] * 8, flags, *[bytes(64)] * 2, bytes(32), 0, 0)
                try:
                    fcntl.ioctl(handle, LOOP_CONFIGURE, struct.pack("II", backing.fileno(), 0) + info + bytes(64))
                    return device, handle
                except OSError as error:
                    os.close(handle)
                    if error.errno != errno.EBUSY:  # somebody else was faster
                        raise
    except OSError as error:
        hint = "load the module loop, or choose the lab vm."
        raise Obstacle(f"This machine offers no loop devices: {error.strerror}; {hint}") from None
    raise Obstacle("This machine has no free loop device: detach some, or choose the lab vm.")


Lab = HostLab
