"""Removes what killed trials left behind and nothing else: ownership decides, never a name alone.

Every trial works in a folder `reprofs-work-*` and holds a lock on the file `owner` in it (reprofs.workplace). A folder
whose lock nobody holds is abandoned. It owns the loop devices whose backing files lie in it (compared by device and
inode), the arrays, volumes and pools built on these alone, what is mounted from them, the processes started with its
name in $REPROFS_PLACE, and what its notes list: folders of the mount lab, real disks, disks in memory, and a control
group.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import json
import os
import re
import shlex
import shutil
import signal
import stat
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, BinaryIO

import yaml

from reprofs import ramdisks
from reprofs.errors import UserError
from reprofs.files import cache_folder
from reprofs.project import project_root

DEVICES = "config/devices.yaml"  # the real disks that trials may overwrite
CONFIG = "config/config.yaml"  # which may name further folders with stacks
STACKS = "workflow/stacks"  # whose files say how other devices than arrays and mapped volumes are taken down
SYS = Path("/sys")
MEMORY = Path("/dev/shm")  # a file system in memory on every Linux
CHILD_SECONDS = 5
OUTPUTS = ("results", "site", "archive", "data", "report", "workflow/kernels")  # of a checkout
HALF = re.compile(r"\..+\.[a-z0-9_]{8}")  # what `files` would have renamed in a moment
NEW_SECONDS = 60  # a trial locks its folder much sooner after making it
LOOKED_AT = "its first and last MiB and 512 blocks of 4 KiB evenly between them"
LOOP_CLR_FD, LOOP_GET_STATUS64 = 0x4C01, 0x4C05  # linux/loop.h
LOOP_INFO64 = "5Q4I64s64s32s2Q"


def bases() -> list[Path]:
    """The folders in which trials make their work folders: temporary, in memory, and for large files."""
    return list(dict.fromkeys([Path(tempfile.gettempdir()), MEMORY, cache_folder() / "work"]))


def sweep() -> list[str]:
    """Removes abandoned folders and everything they own. Returns one line for each thing removed."""
    said = []
    for place in _places():
        with _taken(place) as taken:
            if taken:
                said += release(place)
                if remove(place):
                    said.append(f"folder {place}")
    for name, (file, identity) in _loops().items():  # the folder is gone, but not its loop device
        if file.endswith(" (deleted)") and _is_place(Path(file).parent) and not Path(file).parent.exists():
            said += _release_devices(_hold({name: identity}), set())
    return said


def sweep_cache() -> list[str]:
    """Removes what killed runs left half-made in cache and checkout. Returns one line for each thing removed."""
    said: list[str] = []
    cache = cache_folder()
    for partial in cache.glob("*/*.partial"):  # made under a lock of its name
        with contextlib.suppress(OSError), partial.with_suffix(".lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(partial, ignore_errors=True)
            said += [] if partial.exists() else [f"folder {partial}"]
    outputs = (path for top in OUTPUTS for path in (project_root() / top).rglob(".*") if HALF.fullmatch(path.name))
    for file in itertools.chain(cache.glob(".*"), cache.glob("*/.*"), cache.glob("records/*/.*"), outputs):
        with contextlib.suppress(OSError):  # what is hidden there would have been renamed in a moment
            state = file.lstat()
            folder = file.name.startswith(".new.") and stat.S_ISDIR(state.st_mode)  # of `files.write_together`
            if (folder or stat.S_ISREG(state.st_mode)) and time.time() - state.st_mtime > NEW_SECONDS:
                shutil.rmtree(file) if folder else file.unlink()
                said.append(f"file {file}")
    return said


def release(place: Path) -> list[str]:
    """Removes what the folder owns, but not the folder itself. Returns one line for each thing removed."""
    said = [f"process {pid} ({command})" for pid, command in _end_processes(place)]
    loops = {name: identity for name, (_, identity) in _loops().items() if identity in _files(place)}
    disks, notes = set(), _notes(place)
    for device in _noted(notes, "device"):
        if same_disk(device) and _is_listed(device):
            disks.add(Path(device["path"]).name)
        else:
            said.append(f"nothing of {device['path']}, which is no longer the listed disk that the trial used")
    made = {name: disk for disk in _noted(notes, "disk") if (name := ramdisks.found(place, disk))}
    said += _release_devices(_hold(loops), disks, made)
    for folder in map(Path, _noted(notes, "folder")):
        # The folder's name begins with this place's random one, so nobody else made it.
        if folder.name.lstrip(".").startswith(place.name) and folder.is_dir() and not folder.is_symlink():
            said += _remove_with_mounts(folder)
    for group in map(Path, _noted(notes, "group")):
        with contextlib.suppress(OSError):  # the kernel keeps one that has processes
            group.rmdir()
            said.append(f"control group {group}")
    return said


def _remove_with_mounts(folder: Path) -> list[str]:
    """Removes a folder, but nothing of what is mounted in it, which may be the user's: that is taken off before."""
    said = []
    for point in (point for _, _, point in reversed(mounts()) if point.is_relative_to(folder)):
        if _run("umount", point) or _run("umount", "--lazy", point):
            said.append(f"mount {point}")
    if any(point.is_relative_to(folder) for _, _, point in mounts()):
        return [*said, f"nothing of {folder}, in which something is mounted"]
    shutil.rmtree(folder, ignore_errors=True)
    return [*said, f"folder {folder}"]


def _noted(notes: list[dict], kind: str) -> list:
    """What the notes of one kind say."""
    return [note[kind] for note in notes if kind in note]


def note(place: Path, **what: object) -> None:
    """Records something outside the folder that it will own, before creating it: folder=path, device=identity,
    group=path, or disk=what `ramdisks` notes."""
    with (place / "notes").open("a") as file:
        file.write(json.dumps(what) + "\n")
        file.flush()
        os.fsync(file.fileno())


def remove(folder: Path) -> bool:
    """Removes a folder, its lock last, unless something is mounted in it. Returns whether it was removed."""
    if not folder.is_dir() or any(point.is_relative_to(folder) for _, _, point in mounts()):
        return False
    for path in _inside(folder):
        if path.name != "owner":
            with contextlib.suppress(OSError):
                path.unlink() if path.is_symlink() or not path.is_dir() else shutil.rmtree(path, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()


def mounts(table: Path = Path("/proc/self/mountinfo")) -> list[tuple[str, str, Path]]:
    """(major:minor, source, mount point) of every mount, oldest first. Source: proc_pid_mountinfo(5)."""
    entries = []
    for line in table.read_text().splitlines():
        fields, _, rest = line.partition(" - ")
        number, point, source = fields.split()[2], fields.split()[4], rest.split()[1]
        entries.append((number, *(re.sub(r"\\(\d{3})", lambda m: chr(int(m[1], 8)), word) for word in (source, point))))
    return [(number, source, Path(point)) for number, source, point in entries]


def same_disk(device: dict) -> bool:
    """Whether a path is still the same disk. device: path, rdev, diskseq, size_bytes, boot (see labs/_guard.py)."""
    try:
        state = os.lstat(device["path"])
        folder = SYS / "dev/block" / f"{os.major(state.st_rdev)}:{os.minor(state.st_rdev)}"
        size, sequence = int((folder / "size").read_text()) * 512, read(folder / "diskseq")
    except (OSError, ValueError):
        return False
    now = (state.st_rdev, sequence, size, boot())
    return now == tuple(device[key] for key in ("rdev", "diskseq", "size_bytes", "boot"))


def _is_listed(device: dict) -> bool:
    """Whether a disk is still listed as one that trials may overwrite; all else was checked before its use."""
    try:
        return any((e["path"], e["serial"]) == (device["path"], device["serial"]) for e in listed())
    except (OSError, ValueError, KeyError, TypeError, yaml.YAMLError, UserError):
        return False


def listed() -> list[dict]:
    """The entries of config/devices.yaml, unchecked. Errors of reading and parsing it are passed on."""
    return yaml.safe_load((project_root() / DEVICES).read_text())["devices"]


def looked_at(size: int) -> list[tuple[int, int]]:
    """(offset, length) in bytes of the places that are checked for emptiness and zeroed after a trial."""
    mib, block, blocks = 1 << 20, 4096, 512
    if size <= 4 * mib:
        return [(0, size)]
    step = (size - 2 * mib) / blocks
    return [(0, mib), *((mib + int(number * step), block) for number in range(blocks)), (size - mib, mib)]


def boot() -> str:
    """The identifier of this boot of the kernel; empty where there is none. Source: random(4)."""
    return read(Path("/proc/sys/kernel/random/boot_id")) or ""


def read(path: Path) -> str | None:
    """The text of a small file without white space around it; None when it cannot be read."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return None


def _places() -> Iterator[Path]:
    folders = [path for base in bases() for path in (*base.glob("reprofs-work-*"), *base.glob("reprofs-new-*"))]
    folders += [Path(file).parent for file, _ in _loops().values()]
    yield from (path for path in dict.fromkeys(folders) if _is_place(path))


def _is_place(path: Path) -> bool:
    return path.name.startswith(("reprofs-work-", "reprofs-new-"))


@contextlib.contextmanager
def _taken(place: Path) -> Iterator[bool]:
    """Whether the folder is this user's and abandoned; it stays locked within the context."""
    try:
        state = place.lstat()
        fresh = place.name.startswith("reprofs-new-") and time.time() - state.st_mtime < NEW_SECONDS
        if place.is_symlink() or state.st_uid != os.geteuid() or fresh:
            raise PermissionError
        owner = (place / "owner").open("a" if place.name.startswith("reprofs-new-") else "r+")
    except OSError:
        yield False
        return
    with owner:
        try:
            _lock(owner, read(place / "owner") or "")
            taken = os.fstat(owner.fileno()).st_nlink > 0
        except OSError:
            taken = False
        yield taken


def _lock(owner: IO, pid: str) -> None:
    """Locks the file. Raises OSError when somebody holds it.

    A process that was just killed may have left a child between fork and exec, which still has the lock for a moment.
    """
    for _ in range(CHILD_SECONDS * 20):
        with contextlib.suppress(BlockingIOError):
            return fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not pid.isdigit() or Path(f"/proc/{pid}").exists():
            break
        time.sleep(0.05)
    raise BlockingIOError


def _notes(place: Path) -> list[dict]:
    """The entries in a folder's notes; what a truncated line announces was never made."""
    notes = []
    for line in (read(place / "notes") or "").splitlines():
        with contextlib.suppress(ValueError):
            notes.append(json.loads(line))
    return notes


def _end_processes(place: Path) -> list[tuple[int, str]]:
    """Ends the processes that were started for a folder."""
    mark, ended = f"REPROFS_PLACE={place}".encode(), []
    for folder in Path("/proc").glob("[0-9]*"):
        pid = int(folder.name)
        try:
            handle = os.pidfd_open(pid)
        except OSError:
            continue
        with contextlib.suppress(OSError):
            if pid != os.getpid() and mark in (folder / "environ").read_bytes().split(b"\0"):
                command = read(folder / "comm") or "?"
                signal.pidfd_send_signal(handle, signal.SIGKILL)
                ended.append((pid, command))
        os.close(handle)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and any(_lives(pid) for pid, _ in ended):
        time.sleep(0.05)
    return ended


def _lives(pid: int) -> bool:
    text = read(Path(f"/proc/{pid}/stat"))
    return text is not None and text.rpartition(")")[2].split()[0] != "Z"


def _files(place: Path) -> set[tuple[int, int]]:
    """(device, inode) of the files in a folder."""
    found = set()
    for path in _inside(place):
        with contextlib.suppress(FileNotFoundError):
            state = path.lstat()
            found.add((state.st_dev, state.st_ino))
    return found


def _inside(folder: Path) -> list[Path]:
    """What is in a folder; nothing when another sweep has just removed it, as it may at the end of a trial."""
    try:
        return list(folder.iterdir())
    except FileNotFoundError:
        return []


def _loops() -> dict[str, tuple[str, tuple[int, int]]]:
    """name -> (backing file, its device and inode) of every loop device in use."""
    devices = {}
    for folder in SYS.glob("block/loop*/loop"):
        name, file = folder.parent.name, read(folder / "backing_file")
        with contextlib.suppress(OSError), Path(f"/dev/{name}").open("rb") as device:
            devices[name] = (file or "", _backing(device))
    return devices


def _backing(device: BinaryIO) -> tuple[int, int]:
    """The device and inode of the file behind an open loop device. Raises OSError when there is none."""
    info = fcntl.ioctl(device, LOOP_GET_STATUS64, bytes(struct.calcsize(LOOP_INFO64)))
    number, inode = struct.unpack(LOOP_INFO64, info)[:2]
    return number, inode


def _hold(loops: Mapping[str, tuple[int, int]]) -> dict[str, BinaryIO]:
    """Opens the loop devices that still have these backing files.

    The kernel frees a device when its last user closes it, and its name may be somebody else's a moment later: a
    device that is held open stays what it is.
    """
    held: dict[str, BinaryIO] = {}
    for name, identity in loops.items():
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            device = stack.enter_context(Path(f"/dev/{name}").open("rb"))
            if _backing(device) == identity:
                held[name] = device
                stack.pop_all()
    return held


def _above(devices: set[str]) -> list[str]:
    """The block devices built on these alone, topmost first."""
    higher: list[str] = []
    while True:
        mine = devices | set(higher)
        held = {path.name for name in mine for path in (*_of(name, "holders/*"), *_of(name, f"{name}*/holders/*"))}
        new = [name for name in held - mine if {_disk(path.name) for path in _of(name, "slaves/*")} <= mine]
        if not new:
            return higher
        higher = new + higher


def _of(name: str, pattern: str) -> Iterator[Path]:
    return (SYS / "class/block" / name).glob(pattern)


def _disk(name: str) -> str:
    """The disk that a partition belongs to; for a whole disk its own name."""
    folder = (SYS / "class/block" / name).resolve()
    return folder.parent.name if (folder / "partition").exists() else folder.name


def _release_devices(
    loops: Mapping[str, BinaryIO], disks: set[str], made: Mapping[str, Mapping[str, str]] | None = None
) -> list[str]:
    """Takes down everything built on these devices, then frees the loop devices, wipes the disks' signatures, and
    removes disks in memory.

    loops: the open loop devices by name; they are closed. made: device's name -> what was noted of it.
    """
    said: list[str] = []
    made = made or {}
    if not loops and not disks and not made:
        return said
    above = _above(loops.keys() | disks | made.keys())
    mine = [*above, *loops, *disks, *made]
    for name, point in _mounted(mine):
        if name in disks:  # a trial mounts in a namespace of its own, so this mount is the user's
            said.append(f"nothing of /dev/{name}, which is mounted on {point}")
            disks = disks - {name}
        elif _run("umount", point) or _run("umount", "--lazy", point):
            said.append(f"mount {point}")
    for pool in _pools(loops.keys() | disks | made.keys()):
        if _run("zpool", "destroy", "-f", pool):
            said.append(f"pool {pool}")
    for name in above:
        said += _stop(name)
    for name, device in loops.items():
        with contextlib.suppress(OSError), device:
            fcntl.ioctl(device, LOOP_CLR_FD)
            said.append(f"loop device /dev/{name}")
    said += [f"contents of the disk /dev/{name}" for name in disks if _wiped(name)]
    said += [f"disk in memory /dev/{name}" for name, disk in made.items() if ramdisks.remove(name, disk)]
    deadline = time.monotonic() + 5  # a loop device is freed when its last user closes it
    while time.monotonic() < deadline and any((SYS / "block" / name / "loop").exists() for name in loops):
        time.sleep(0.02)
    return said


def _mounted(devices: list[str]) -> Iterator[tuple[str, Path]]:
    """(device, mount point) of every mount of these devices, the newest first."""
    numbers = {read(SYS / "class/block" / name / "dev"): name for name in devices}
    for number, source, point in reversed(mounts()):
        path = os.path.realpath(source)
        if name := numbers.get(number) or next((name for name in devices if path == f"/dev/{name}"), None):
            yield name, point


def _wiped(disk: str) -> bool:
    parts = [f"/dev/{path.parent.name}" for path in _of(disk, "*/partition")]
    return _run("wipefs", "--all", "--quiet", *parts, f"/dev/{disk}") and _blank(Path(f"/dev/{disk}"))


def _blank(disk: Path) -> bool:
    """Zeroes what the guard looks at, so that the next trial finds the disk empty and sees what others wrote since."""
    try:
        handle = os.open(disk, os.O_WRONLY | os.O_EXCL | os.O_CLOEXEC)
        try:
            for place, length in looked_at(os.lseek(handle, 0, os.SEEK_END)):
                if os.pwrite(handle, bytes(length), place) < length:
                    return False
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError:
        return False
    return True


def _stop(name: str) -> list[str]:
    """Stops an array, a mapped volume, or another device in the way that its layer's file says."""
    if name.startswith("md"):
        return [f"md array /dev/{name}"] if _run("mdadm", "--stop", f"/dev/{name}") else []
    mapped = read(SYS / "class/block" / name / "dm/name")
    if not mapped:
        stopped = [_run(*words) for words in _stop_commands(f"/dev/{name}")]
        return [f"device /dev/{name}"] if any(stopped) else []
    number = read(SYS / "class/block" / name / "dev")
    links = [path for path in Path("/dev").glob("*/*") if path.is_symlink() and _number(path) == number]
    if not _run("dmsetup", "remove", "--retry", mapped):
        return []
    for link in links:  # without udev nothing else removes them
        with contextlib.suppress(OSError):
            link.unlink()
            link.parent.rmdir()
    return [f"volume {mapped}"]


def _stop_commands(device: str) -> list[list[str]]:
    """The commands under `stop` of the layer whose file has this device under `makes`; none without such a file."""
    root, extra = project_root(), []
    with contextlib.suppress(OSError, ValueError, TypeError, AttributeError, yaml.YAMLError):
        extra = [f"{each}/stacks" for each in yaml.safe_load((root / CONFIG).read_text()).get("extra_dirs", [])]
    for path in (path for folder in (STACKS, *extra) for path in sorted((root / folder).glob("[!_.]*.yaml"))):
        with contextlib.suppress(OSError, ValueError, TypeError, AttributeError, yaml.YAMLError):
            layer = yaml.safe_load(path.read_text())
            if device in layer.get("makes", []):
                return [shlex.split(line) for line in layer.get("stop", []) if "{" not in line]
    return []


def _number(path: Path) -> str:
    """major:minor of the device that a path leads to."""
    try:
        number = path.stat().st_rdev
    except OSError:
        return ""
    return f"{os.major(number)}:{os.minor(number)}"


def _pools(devices: set[str]) -> list[str]:
    """ZFS pools that consist of these devices and nothing else."""
    if not shutil.which("zpool"):
        return []
    text = subprocess.run(["zpool", "status", "-PL"], capture_output=True, text=True).stdout
    pools = []
    for name, body in re.findall(r"pool: (\S+)\n(.*?)(?=\n *pool: |\Z)", text, re.DOTALL):
        parts = {_disk(Path(path).name) for path in re.findall(r"^\s+(/dev/\S+)", body, re.MULTILINE)}
        if parts and parts <= devices:
            pools.append(name)
    return pools


def _run(*command: object) -> bool:
    try:
        return subprocess.run([*map(str, command)], capture_output=True, timeout=60).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False
