"""The guard of real disks: every refusal, on loop devices that the test made. None of them is the test's machine's own.

Loop devices tell no serial number, so the tests show the guard a /sys in which they do; all else is real.
"""

import contextlib
import functools
import itertools
import os
import random
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from helpers import device, shell
from reprofs import cleanup
from reprofs.errors import UserError
from reprofs.guest.steps import Job, Teardown
from reprofs.labs import Disks, Obstacle, host
from reprofs.labs import _guard as guard

# One worker, that of tests/test_cleanup.py: devices that one test detaches and attaches again are no other's.
pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="loop devices need root"),
    pytest.mark.xdist_group("cleanup"),
]
MIB = 1 << 20
CHECK = guard.check  # some tests replace it


def run(*command: object) -> str:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True)
    assert done.returncode == 0, (command, done.stderr)
    return done.stdout.strip()


class Disk:
    """A loop device, and a /sys in which it has the serial number S1."""

    def __init__(self, folder: Path, mebibytes: int = 100):
        self.file, self.sysfs = folder / "backing", folder / "sys"
        with self.file.open("wb") as file:
            file.truncate(mebibytes * MIB)
        self.path = run("losetup", "--find", "--show", "--partscan", self.file)
        number = os.lstat(self.path).st_rdev
        real = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}").resolve()
        self.seen = self.sysfs / "devices" / real.name
        self.seen.mkdir(parents=True)
        self.numbers = self.sysfs / "dev/block"
        self.numbers.mkdir(parents=True)
        (self.numbers / f"{os.major(number)}:{os.minor(number)}").symlink_to(self.seen)
        for entry in real.iterdir():
            (self.seen / entry.name).symlink_to(entry)
        (self.seen / "serial").write_text("S1\n")
        self.entry = {"path": self.path, "serial": "S1", "size_bytes": mebibytes * MIB}

    def check(self, **changes) -> dict:
        return CHECK(self.path, [{**self.entry, **changes}], self.sysfs)

    def detach(self) -> None:
        # Where it is detached already, another process may have the number by now.
        if run("losetup", "--associated", self.file):
            subprocess.run(["losetup", "--detach", self.path], capture_output=True)


@pytest.fixture
def disk(tmp_path):
    made = Disk(tmp_path)
    yield made
    made.detach()


@contextlib.contextmanager
def refused(*words: str):
    """One sentence that holds all the words."""
    with pytest.raises(UserError) as caught:
        yield
    sentence = str(caught.value)
    assert "\n" not in sentence and sentence.endswith(".")
    for word in words:
        assert word in sentence, sentence


def test_empty_listed_disk_passes(disk):
    found = disk.check()
    assert (found["path"], found["serial"], found["size_bytes"]) == (disk.path, "S1", 100 * MIB)
    guard.check_again(found, disk.sysfs)


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"path": "/dev/other"}, ["not in config/devices.yaml"]),
        ({"serial": "S2"}, ["serial S1", "has S2"]),
        ({"size_bytes": 101 * MIB}, [str(100 * MIB), "correct the list"]),
    ],
)
def test_a_disk_that_is_not_the_listed_one(disk, entry, words):
    with refused(disk.path, *words):
        disk.check(**entry)


@pytest.mark.parametrize(
    ("name", "word"), [("link", "symbolic link"), ("backing", "not a block device"), ("gone", "is missing")]
)
def test_a_path_that_is_no_disk(disk, tmp_path, name, word):
    (tmp_path / "link").symlink_to(disk.path)
    with refused(word):
        guard.check(str(tmp_path / name), [{**disk.entry, "path": str(tmp_path / name)}], disk.sysfs)


def test_no_serial(disk):
    (disk.seen / "serial").unlink()
    with refused("tells no serial"):
        disk.check()


def test_serial_of_nvme_and_scsi(tmp_path):
    (tmp_path / "device").mkdir()
    (tmp_path / "device/vpd_pg80").write_bytes(b"\0\x80\0\x08  WD-1234")
    assert guard.serial(tmp_path) == "WD-1234"
    (tmp_path / "device/serial").write_text("S3X9    \n")
    assert guard.serial(tmp_path) == "S3X9"


def write_at(path: str, *pieces: tuple[int, bytes]) -> None:
    with Path(path).open("r+b") as file:
        for place, content in pieces:
            file.seek(place)
            file.write(content)
        file.flush()
        os.fsync(file.fileno())  # the last close does it, too, but another program may look at the disk meanwhile


def lvm_label() -> tuple[int, bytes]:
    """The label of a physical volume (lib/format_text/layout.h of LVM2): in sector 1, with a CRC of its own kind."""
    body = (struct.pack("<I8s32sQ", 32, b"LVM2 001", b"A" * 32, 100 * MIB)).ljust(492, b"\0")
    crc = zlib.crc32(body, 0xF597A6CF ^ 0xFFFFFFFF) ^ 0xFFFFFFFF
    return 512, b"LABELONE" + struct.pack("<QI", 1, crc) + body


def md_superblock() -> tuple[int, bytes]:
    """The beginning of a superblock 1.2 of MD (linux/raid/md_p.h), 4 KiB into the disk."""
    return 4096, struct.pack("<II136xQ", 0xA92B4EFC, 1, 8)


def partition_table() -> tuple[int, bytes]:
    """An MBR with one Linux partition of 80 MiB, 1 MiB into the disk."""
    return 446, struct.pack("<B3sB3sII", 0, bytes(3), 0x83, bytes(3), 2048, 80 * MIB // 512).ljust(
        64, b"\0"
    ) + b"\x55\xaa"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: write_at(path, lvm_label()), ["signature (LVM2_member)"]),
        (lambda path: write_at(path, md_superblock()), ["signature (linux_raid_member)"]),
        (lambda path: run("mkfs.ext4", "-q", path), ["signature (ext4)"]),
        (lambda path: run("mkswap", path), ["signature (swap)"]),
        (lambda path: write_at(path, partition_table()), ["partition table (dos)"]),
    ],
)
def test_what_blkid_knows(disk, make, words):
    make(disk.path)
    with refused("not empty", *words, f"wipefs --all {disk.path}"):
        disk.check()


def archive(folder: Path) -> bytes:
    (folder / "letter").write_text("to whom it may concern")
    return subprocess.run(["tar", "-C", folder, "-c", "letter"], capture_output=True, check=True).stdout


@pytest.mark.parametrize("kind", ["random", "at 50 MiB", "text", "archive", "at the end"])
def test_data_without_a_signature(disk, tmp_path, kind):
    draw = random.Random(kind)
    place, content = {
        "random": (0, draw.randbytes(100 * MIB)),
        "at 50 MiB": (50 * MIB, draw.randbytes(MIB)),
        "text": (0, b"notes of mine"),
        "archive": (0, archive(tmp_path)),
        "at the end": (100 * MIB - 1, b"x"),
    }[kind]
    write_at(disk.path, (place, content))
    with refused("not empty", f"{cleanup.LOOKED_AT}", "`blkdiscard --zeroout"):
        disk.check()
    kept = disk.file.read_bytes()[place : place + len(content)] == content  # a difference of 100 MiB is not shown
    assert kept


def test_wiped_file_system_with_files(disk, tmp_path):
    with mounted(disk.path, tmp_path / "point"):
        (tmp_path / "point/letter").write_text("to whom it may concern")
    run("wipefs", "--all", "--quiet", disk.path)
    with refused("not empty", "is not zero"):
        disk.check()


def test_what_is_looked_at_is_a_small_part_evenly_spread(disk):
    for size in (3 * MIB, 100 * MIB, 4 * 10**12):
        places = cleanup.looked_at(size)
        assert places[0][0] == 0 and sum(places[-1]) == size
        assert sum(length for _, length in places) <= 4 * MIB
        gaps = {after - before for (before, _), (after, _) in itertools.pairwise(places[1:-1])}
        assert not gaps or max(gaps) - min(gaps) <= 1


@contextlib.contextmanager
def writer(path):
    """Another process that has a disk open for writing."""
    code = f"import os, sys; os.open({path!r}, os.O_RDWR); print('open', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "open\n"
        yield other
        other.communicate("")


def test_open_for_writing_in_another_process(disk):
    """A handle without O_EXCL: only the process itself shows it."""
    with writer(disk.path) as other, refused("in use", f"process {other.pid}", "open for writing"):
        disk.check()
    assert disk.check()


@pytest.fixture
def parted(disk):
    """A partition that the kernel was told of (a kernel may not read partition tables itself); its path."""
    run("addpart", disk.path, 1, 2048, 80 * MIB // 512)
    part = Path(f"{disk.path}p1")
    real = Path("/sys/class/block", part.name).resolve()
    number = os.lstat(part).st_rdev
    (disk.seen / part.name).symlink_to(real)
    (disk.numbers / f"{os.major(number)}:{os.minor(number)}").symlink_to(real)
    yield str(part)
    run("delpart", disk.path, 1)


def test_partition_that_only_the_kernel_knows(disk, parted):
    with refused("not empty", "partition table"):
        disk.check()


def test_partition_is_not_a_disk(disk, parted):
    with refused("is a partition"):
        guard.check(parted, [{**disk.entry, "path": parted}], disk.sysfs)


@contextlib.contextmanager
def mounted(device: str, point: Path):
    point.mkdir(exist_ok=True)
    run("mkfs.ext4", "-q", device)
    run("mount", device, point)
    try:
        yield
    finally:
        run("umount", point)


def test_mounted(disk, tmp_path):
    with mounted(disk.path, tmp_path / "point"), refused("in use", f"mounted on {tmp_path}/point"):
        disk.check()


def test_partition_mounted(disk, parted, tmp_path):
    with mounted(parted, tmp_path / "point"), refused(f"{Path(parted).name} is mounted on {tmp_path}/point"):
        disk.check()


def test_mounted_where_nobody_else_sees_it(disk):
    """In another mount namespace: only the kernel knows."""
    run("mkfs.ext4", "-q", disk.path)
    script = f"mount {disk.path} /mnt && echo mounted && read line"
    command = ["unshare", "--mount", "sh", "-c", script]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "mounted\n"
        with refused("in use", "in use by another program or driver"):
            disk.check()
        other.communicate("\n")


def test_held_by_somebody(disk):
    handle = os.open(disk.path, os.O_RDONLY | os.O_EXCL)
    try:
        with refused("in use", "in use by another program or driver"):
            disk.check()
    finally:
        os.close(handle)


def test_swap(disk):
    run("mkswap", disk.path)
    run("swapon", disk.path)
    try:
        with refused("in use", "in use as swap"):
            disk.check()
    finally:
        run("swapoff", disk.path)


def test_something_built_on_it(disk):
    """This machine's kernel may have neither MD nor the device mapper: the holder is made up."""
    (disk.seen / "holders").unlink()
    (disk.seen / "holders/md127").mkdir(parents=True)
    with refused("in use", "md127 is built on it"):
        disk.check()


@pytest.mark.parametrize("name", ["project_root", "cache_folder"])
def test_disk_of_the_checkout(disk, tmp_path, monkeypatch, name):
    with mounted(disk.path, tmp_path / "point"):
        (tmp_path / "point/inside").mkdir()
        monkeypatch.setattr(guard, name, lambda: tmp_path / "point/inside")
        with refused("holds", "never used"):
            disk.check()


def test_disk_of_the_checkout_on_a_partition(disk, parted, tmp_path, monkeypatch):
    with mounted(parted, tmp_path / "point"):
        monkeypatch.setattr(guard, "project_root", lambda: tmp_path / "point")
        with refused("holds this checkout"):
            disk.check()


def test_root_disk(tmp_path):
    """The real one of this machine: it is only looked at."""
    number = f"{os.major(Path('/').stat().st_dev)}:{os.minor(Path('/').stat().st_dev)}"
    folder = Path("/sys/dev/block", number).resolve()
    if not (folder / "dev").exists():
        pytest.skip("the root file system of this machine is on no block device")
    folder = folder.parent if (folder / "partition").exists() else folder
    seen = tmp_path / "dev/block" / (folder / "dev").read_text().strip()
    seen.mkdir(parents=True)
    for entry in folder.iterdir():
        if entry.name not in ("serial", "device"):
            (seen / entry.name).symlink_to(entry)
    (seen / "serial").write_text("S1")
    size = int((folder / "size").read_text()) * 512
    path = f"/dev/{folder.name}"
    with refused("holds the root file system"):
        guard.check(path, [{"path": path, "serial": "S1", "size_bytes": size}], tmp_path)


def test_vanished_between_check_and_use(disk):
    found = disk.check()
    disk.detach()
    with refused("disappeared or was replaced"):
        guard.check_again(found, disk.sysfs)


def test_replaced_between_check_and_use(disk):
    """Another file of the same size behind the same name: only the kernel's count of disks tells them apart."""
    found = disk.check()
    disk.detach()
    run("losetup", disk.path, disk.file)
    with refused("disappeared or was replaced"):
        guard.check_again(found, disk.sysfs)


def test_file_system_made_between_check_and_use(disk):
    found = disk.check()
    run("mkfs.ext4", "-q", disk.path)
    with refused("not empty", "signature (ext4)"):
        guard.check_again(found, disk.sysfs)


def test_opened_for_writing_between_check_and_use(disk):
    """Which holding the disk does not prevent."""
    found = disk.check()
    with guard.held(disk.path), writer(disk.path) as other, refused(f"process {other.pid}", "open for writing"):
        guard.check_again(found, disk.sysfs)


def test_nobody_can_mount_a_disk_that_is_held(disk, tmp_path):
    run("mkfs.ext4", "-q", disk.path)
    with guard.held(disk.path):
        assert subprocess.run(["mount", disk.path, tmp_path], capture_output=True).returncode


# ---- the list, and the host lab on such a disk

WORK = Job(
    [
        shell("mkfs.ext4 -q -F /run/reprofs/disk0 && mount /run/reprofs/disk0 /mnt && echo x > /mnt/y"),
        Teardown(),
        shell("umount /mnt"),
    ]
)


@pytest.fixture
def listed(disk, monkeypatch):
    """The host lab with the disk on its list."""
    monkeypatch.setattr(guard, "allowed", lambda: [disk.entry])
    monkeypatch.setattr(cleanup, "listed", lambda: [disk.entry])
    monkeypatch.setattr(host.guard, "check", functools.partial(guard.check, sysfs=disk.sysfs))
    monkeypatch.setattr(host.guard, "check_again", functools.partial(guard.check_again, sysfs=disk.sysfs))
    return host.Lab.open()


def test_shipped_list_is_empty():
    assert guard.allowed() == []


def test_too_few_disks(listed):
    with pytest.raises(Obstacle, match=r"needs 2 of the real disks, but config/devices.yaml lists 1"):
        listed.run(WORK, 60, Disks(device(backing="device"), 2, 50))


def test_too_small(listed, disk):
    with pytest.raises(Obstacle, match="smaller than 200 MiB"):
        listed.run(WORK, 60, Disks(device(backing="device"), 1, 200))


def test_trial_on_a_disk_leaves_it_empty(listed, disk):
    for _ in range(2):
        outcome = listed.run(WORK, 60, Disks(device(backing="device"), 1, 50))
        assert outcome.ending == "finished" and b'"failed"' not in outcome.output, outcome.output
        assert outcome.environment["devices"] == [{"backing": "device", "serial": "S1", "size_bytes": 100 * MIB}]
    assert disk.check()


def test_what_somebody_writes_after_a_trial_is_seen(listed, disk, capsys):
    """The data of a trial stay where nobody looks; so the next one would not see what is new there."""
    fill = Job([shell("tr '\\0' x < /dev/zero | dd of=/run/reprofs/disk0 bs=1M iflag=fullblock 2>&1 || true")])
    listed.run(fill, 60, Disks(device(backing="device"), 1, 50))
    assert f"(serial S1) is empty in {cleanup.LOOKED_AT}, and is used" in capsys.readouterr().err
    assert b"xxxx" in disk.file.read_bytes() and disk.check()
    write_at(disk.path, (50 * MIB, b"mine" * 100_000))
    with refused("not empty", "is not zero"):
        disk.check()


def test_file_system_made_between_check_and_use_stops_the_trial(listed, disk, monkeypatch):
    checked = host.guard.check

    def check_and_make(*arguments):
        found = checked(*arguments)
        run("mkfs.ext4", "-q", disk.path)
        return found

    monkeypatch.setattr(host.guard, "check", check_and_make)
    with pytest.raises(Obstacle, match=r"signature \(ext4\)"):
        listed.run(WORK, 60, Disks(device(backing="device"), 1, 50))
    assert run("blkid", "-p", "-s", "TYPE", "-o", "value", disk.path) == "ext4"


def test_refused_disk_is_not_touched(listed, disk):
    run("mkfs.ext4", "-q", disk.path)
    before = disk.file.read_bytes()
    with pytest.raises(Obstacle, match="not empty"):
        listed.run(WORK, 60, Disks(device(backing="device"), 1, 50))
    assert disk.file.read_bytes() == before


def test_disk_that_vanishes_after_the_check_stops_the_trial(listed, disk, monkeypatch):
    checked = host.guard.check

    def check_and_detach(*arguments):
        found = checked(*arguments)
        disk.detach()
        return found

    monkeypatch.setattr(host.guard, "check", check_and_detach)
    with pytest.raises(Obstacle, match="disappeared or was replaced"):
        listed.run(WORK, 60, Disks(device(backing="device"), 1, 50))
    assert not disk.file.read_bytes().strip(b"\0")


@pytest.fixture
def abandoned(disk, tmp_path, monkeypatch):
    """What a trial on the disk leaves that was killed: a file system, and a note."""
    monkeypatch.setattr(cleanup, "bases", lambda: [tmp_path])
    place = tmp_path / "reprofs-work-dead"
    place.mkdir()
    (place / "owner").touch()
    cleanup.note(place, device=disk.check())
    run("mkfs.ext4", "-q", disk.path)


def test_disk_of_a_killed_trial_is_wiped(listed, disk, abandoned):
    assert f"contents of the disk {disk.path}" in cleanup.sweep()
    assert disk.check()


def test_disk_of_a_killed_trial_that_is_no_longer_listed(listed, disk, abandoned, monkeypatch):
    monkeypatch.setattr(cleanup, "listed", list)
    assert any("no longer the listed disk" in line for line in cleanup.sweep())
    with refused("signature (ext4)"):
        disk.check()


def test_disk_of_a_killed_trial_that_is_mounted(listed, disk, abandoned, tmp_path):
    (tmp_path / "point").mkdir()
    run("mount", disk.path, tmp_path / "point")
    try:
        assert any(f"mounted on {tmp_path}/point" in line for line in cleanup.sweep())
        assert (tmp_path / "point/lost+found").exists()
    finally:
        run("umount", tmp_path / "point")
