"""The guard of real disks: a disk is used only if it is listed in config/devices.yaml, is the disk described there, and
is empty and idle. All checks are made before any command runs; nothing here writes to a disk.

Empty means: no signature that blkid knows, and no byte but zero where it was looked (cleanup.LOOKED_AT); a disk may be
too large to be read whole. A trial leaves zeros there, so that the next one sees what somebody wrote in between.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

from reprofs import cleanup
from reprofs.errors import UserError, cut
from reprofs.files import cache_folder
from reprofs.plan.config import RealDisks
from reprofs.plan.read import read_yaml
from reprofs.project import project_root

LIST = cleanup.DEVICES
SYS = Path("/sys")


def allowed() -> list[dict]:
    """The entries of config/devices.yaml: path, serial, size_bytes. Raises UserError when the file is not valid."""
    return [disk.as_json() for disk in read_yaml(project_root() / LIST, RealDisks).devices]


def check(path: str, entries: list[dict], sysfs: Path = SYS) -> dict:
    """The identity of a real disk that may be used: path, serial, size_bytes, rdev, diskseq, boot.

    path: as listed; entries: the list; sysfs: where the kernel describes devices.
    Raises UserError for a disk that is not listed, is missing, is a symbolic link, is not a whole block device, has
    another serial number or size, holds the system or this checkout, is mounted, is in use, or is not empty.
    """
    entry = next((entry for entry in entries if entry["path"] == path), None)
    if entry is None:
        raise UserError(f"{path} is not in {LIST}: only listed disks are ever used.")
    number = _number(path)
    folder = sysfs / "dev/block" / number
    if not folder.exists():
        raise UserError(f"{path} has disappeared from the kernel's list of devices: check its connection.")
    if (folder / "partition").exists():
        raise UserError(f"{path} is a partition: list a whole, empty disk in {LIST}.")
    found = serial(folder)
    if found != entry["serial"]:
        says = f"has the serial {found}" if found else "tells no serial"
        raise UserError(
            f"{path} {says}, but {LIST} has {entry['serial']}, so it may be a different disk: correct the list."
        )
    size = int(cleanup.read(folder / "size") or 0) * 512
    if size != entry["size_bytes"]:
        raise UserError(f"{path} has {size} bytes, but {LIST} has {entry['size_bytes']}: correct the list.")
    for name, where in _system().items():
        if number in _under(name, sysfs):
            raise UserError(f"{path} holds {where}, so it is never used.")
    whole = _number_and_parts(folder)
    _refuse_busy(path, whole, folder)
    with held(path):
        _refuse_full(path, folder, size)
    return {
        **entry,
        "rdev": os.lstat(path).st_rdev,
        "diskseq": cleanup.read(folder / "diskseq"),
        "boot": cleanup.boot(),
    }


def check_again(disk: dict, sysfs: Path = SYS) -> None:
    """Checks a disk that is held, right before its use: still the same, unused and empty. Raises UserError if not."""
    same = False
    with contextlib.suppress(UserError):
        folder = sysfs / "dev/block" / _number(disk["path"])
        now = (os.lstat(disk["path"]).st_rdev, cleanup.read(folder / "diskseq"), serial(folder))
        same = now == (disk["rdev"], disk["diskseq"], disk["serial"]) and cleanup.same_disk(disk)
    if not same:
        raise UserError(f"{disk['path']} disappeared or was replaced after the check: nothing was written to it.")
    _refuse_busy(disk["path"], _number_and_parts(folder), folder)
    _refuse_full(disk["path"], folder, disk["size_bytes"])


@contextlib.contextmanager
def held(path: str) -> Iterator[None]:
    """Nobody else can mount the disk or build on it meanwhile. Raises UserError when somebody has it."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.EBUSY:
            raise UserError(f"{path} is in use by another program or driver: remove it from {LIST}.") from None
        if error.errno in (errno.ENOENT, errno.ENXIO, errno.ENODEV):
            raise UserError(f"{path} disappeared or was replaced after the check: nothing was written.") from None
        raise UserError(f"{path} cannot be opened: {error.strerror}; check the disk and run as root.") from None
    try:
        yield
    finally:
        os.close(handle)


def serial(folder: Path) -> str | None:
    """The serial number of a disk, from its folder in /sys/dev/block; None when it reports none.

    NVMe and MMC: device/serial; virtio: serial; SCSI and ATA: page 0x80 of the vital product data (SPC-5, 7.7.18).
    """
    for name in ("device/serial", "serial"):
        if text := cleanup.read(folder / name):
            return text
    with contextlib.suppress(OSError):
        return (folder / "device/vpd_pg80").read_bytes()[4:].decode("ascii", "replace").strip("\0 ") or None
    return None


def _number(path: str) -> str:
    """major:minor of a block device. Raises UserError when the path is not one."""
    try:
        state = os.lstat(path)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            raise UserError(f"{path} is missing: connect the disk, or remove it from {LIST}.") from None
        raise UserError(f"{path} cannot be examined: {error.strerror}.") from None
    if stat.S_ISLNK(state.st_mode):
        raise UserError(f"{path} is a symbolic link, which may change: list the device itself.")
    if not stat.S_ISBLK(state.st_mode):
        raise UserError(f"{path} is not a block device: correct {LIST}.")
    return f"{os.major(state.st_rdev)}:{os.minor(state.st_rdev)}"


def _system() -> dict[str, str]:
    """major:minor -> a name for messages, of the file systems that must never be touched."""
    places = {"/": "the root file system", "/boot": "/boot", "/boot/efi": "/boot/efi", "/usr": "/usr", "/var": "/var"}
    places |= {str(project_root()): "this checkout", str(cache_folder()): "the cache", str(Path.home()): "your home"}
    table = cleanup.mounts()
    found: dict[str, str] = {}
    for place, name in places.items():
        with contextlib.suppress(OSError):
            number = Path(place).stat().st_dev
            found.setdefault(f"{os.major(number)}:{os.minor(number)}", name)
            # A file system over several devices (btrfs) has a number of its own; its source is one of them.
            above = [(point, source) for _, source, point in table if Path(place).resolve().is_relative_to(point)]
            source = max(above, key=lambda pair: len(pair[0].parts))[1]
            with contextlib.suppress(OSError, UserError):
                found.setdefault(_number(os.path.realpath(source)), name)
    return found


def _under(number: str, sysfs: Path) -> set[str]:
    """major:minor of a device, of the disk it is part of, and of all devices it is built on."""
    folder = (sysfs / "dev/block" / number).resolve()
    if not folder.exists():
        return {number}
    found = {number}
    if (folder / "partition").exists():
        found |= _under(cleanup.read(folder.parent / "dev") or number, sysfs)
    for below in folder.glob("slaves/*"):
        found |= _under(cleanup.read(below / "dev") or number, sysfs)
    return found


def _number_and_parts(folder: Path) -> dict[str, str]:
    """major:minor -> name, of a disk, its partitions, and everything built on them."""
    folder = folder.resolve()
    found = {cleanup.read(folder / "dev") or "": folder.name}
    for below in (*folder.glob("holders/*"), *(path.parent for path in folder.glob("*/partition"))):
        found |= _number_and_parts(below)
    return found


def _refuse_busy(path: str, whole: dict[str, str], folder: Path) -> None:
    for number, source, point in cleanup.mounts():
        device = os.path.realpath(source) if source.startswith("/") else ""
        name = whole.get(number) or next((n for n in whole.values() if device == f"/dev/{n}"), None)
        if name:
            raise UserError(f"{path} is in use: {name} is mounted on {point}; unmount it, or remove it from {LIST}.")
    for line in (cleanup.read(Path("/proc/swaps")) or "").splitlines()[1:]:
        if os.path.realpath(line.split()[0]) in {f"/dev/{name}" for name in whole.values()}:
            raise UserError(f"{path} is in use as swap: turn that off, or remove it from {LIST}.")
    for below in (*folder.glob("holders/*"), *folder.glob("*/holders/*")):
        raise UserError(f"{path} is in use: {below.name} is built on it; remove it from {LIST}.")
    for process in Path("/proc").glob("[0-9]*"):
        if _writes(process, whole):
            name = f"{cleanup.read(process / 'comm') or '?'} (process {process.name})"
            raise UserError(f"{path} is in use: {name} has it open for writing; end that, or remove it from {LIST}.")


def _writes(process: Path, whole: dict[str, str]) -> bool:
    """Whether a process has one of these devices (major:minor) open for writing. Source: proc_pid_fdinfo(5)."""
    try:
        handles = [handle for handle in (process / "fd").iterdir() if str(handle.readlink()).startswith("/dev/")]
    except OSError:  # it has ended
        return False
    for handle in handles:
        with contextlib.suppress(OSError, IndexError):
            state = handle.stat()
            if stat.S_ISBLK(state.st_mode) and f"{os.major(state.st_rdev)}:{os.minor(state.st_rdev)}" in whole:
                flags = (process / "fdinfo" / handle.name).read_text().split("flags:")[1].split()[0]
                if int(flags, 8) & os.O_ACCMODE:
                    return True
    return False


def _refuse_full(path: str, folder: Path, size: int) -> None:
    """Raises UserError unless the disk is empty. Source: blkid(8)."""
    try:
        probe = subprocess.run(["blkid", "-p", "-o", "export", path], capture_output=True, text=True, errors="replace")
    except OSError:
        raise UserError("blkid is missing, which checks disks: install Debian's util-linux.") from None
    tags = dict(line.split("=", 1) for line in probe.stdout.splitlines() if "=" in line)
    wipe = f"if you need nothing on it, empty it with `wipefs --all {path}`."
    if "PTTYPE" in tags or any(folder.glob("*/partition")):
        raise UserError(f"{path} is not empty: it has a partition table ({tags.get('PTTYPE', 'read')}); {wipe}")
    if probe.returncode != 2:  # 2: nothing was recognised
        kind = tags.get("TYPE") or tags.get("USAGE") or probe.stderr.strip() or "several signatures"
        raise UserError(f"{path} is not empty: it has a signature ({cut(kind, 60)}); {wipe}")
    place = _first_byte(path, size)
    if place is not None:
        raise UserError(
            f"{path} is not empty: byte {place:,} is not zero (checked: {cleanup.LOOKED_AT}). If you need "
            f"nothing on it, empty it with `blkdiscard --zeroout {path}`."
        )


def _first_byte(path: str, size: int) -> int | None:
    """The place of the first byte that is not zero where a disk is looked at; None when there is none."""
    try:
        with Path(path).open("rb", buffering=0) as disk:
            for place, length in cleanup.looked_at(size):
                content = os.pread(disk.fileno(), length, place)
                if kept := content.lstrip(b"\0"):
                    return place + len(content) - len(kept)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}; check the disk (dmesg).") from None
    return None
