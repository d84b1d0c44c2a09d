"""Trials in the exact lab: the same numbers always, every file system, and every kind of failure as a record."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import pytest
import yaml
from conftest import BIN, ROOT
from helpers import CATALOG, cell, changed, names, quarter, rendered
from reprofs.guest.steps import Offset, Pause, Phase, Rest
from reprofs.labs import Disks
from reprofs.labs.exact import ExactLab
from reprofs.plan.catalog import Catalog
from reprofs.plan.device import Device
from reprofs.records.protocol import OFFSET_WITHIN_NS
from reprofs.trial.run import run_trial

SMALL = "metadata@50"


@pytest.fixture
def trial(guest, tmp_path):
    """Runs a cell with some parts changed; returns the record, which was written."""

    def run(filesystem="ext4", name="record", folder=None, time_limit_s=120, **changes) -> dict:
        output = tmp_path / f"{name}.json"
        parts = changed(cell("ext4" if folder else filesystem, **changes), filesystem=filesystem)
        run_trial(parts, Catalog([str(folder.parent)] if folder else []), output, time_limit_s)
        record = json.loads(output.read_text())
        jsonschema.validate(record, yaml.safe_load((ROOT / "workflow/schemas/record.schema.yaml").read_text()))
        assert output.with_suffix(".console.log").exists()
        return record

    return run


def options(**changes) -> list[str]:
    """The words of a command line for a cell."""
    pairs = {key: value for key, value in names().items() if key != "order"} | changes
    return [str(word) for key, value in pairs.items() for word in (f"--{key}", value)]


def measurement(record: dict) -> str:
    return json.dumps(record["measurement"])


@pytest.mark.wide
def test_same_numbers_on_a_busy_host_beside_another_guest(trial, tmp_path):
    """tests/test_guest.py has a cold boot."""
    first = trial("btrfs", variant="zstd", workload="metadata@200")
    assert (first["status"], first["reason"]) == ("ok", "")
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    long = options(filesystem="xfs", workload="git-annex", scale="laptop", output=tmp_path / "other")
    command = [BIN / "reprofs", "trial", *long]
    beside = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        second = trial("btrfs", "again", variant="zstd", workload="metadata@200")
        assert beside.poll() is None  # the other guest was there all the time
    finally:
        for process in (busy, beside):
            process.kill()
            process.wait()
    assert measurement(first) == measurement(second)
    assert first["environment"]["lab"] == second["environment"]["lab"]


def kill_guests(command: list[str], env: dict, place: Path, times: int) -> tuple[subprocess.CompletedProcess, int]:
    """Runs a command and kills the guests that work for it in `place`, once their job has begun. How often it did."""
    killed: list[str] = []
    process = subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True)
    while process.poll() is None:
        for output in place.glob("reprofs-work-*/output") if len(killed) < times else ():
            with contextlib.suppress(OSError):
                began = output.stat().st_size and str(output.parent) not in killed
                for path in Path("/proc").glob("[0-9]*/cmdline") if began else ():
                    with contextlib.suppress(OSError):
                        words = path.read_bytes().split(b"\0")
                        if b"qemu-system" in words[0] and str(output.parent).encode() in b"\0".join(words):
                            os.kill(int(path.parent.name), signal.SIGKILL)
                            killed.append(str(output.parent))
        time.sleep(0.02)
    return subprocess.CompletedProcess(command, process.returncode, "", process.stderr.read()), len(killed)


@pytest.mark.wide
@pytest.mark.parametrize("times", [1, 2])
def test_killed_guest_is_no_result(recorded, tmp_path, times):
    """Somebody, or the kernel for lack of memory, kills QEMU: the trial runs again once, else there is no record."""
    first = recorded(cell(workload=SMALL))
    (tmp_path / "tmp").mkdir()
    command = [str(BIN / "reprofs"), "trial", *options(workload=SMALL, output=tmp_path / "killed.json")]
    done, killed = kill_guests(command, {**os.environ, "TMPDIR": str(tmp_path / "tmp")}, tmp_path / "tmp", times)
    assert killed == times
    if times == 1:
        assert done.returncode == 0, done.stderr
        record = json.loads((tmp_path / "killed.json").read_text())
        assert record["environment"]["attempts"] == 2
        assert record["digests"]["measurement"] == first["digests"]["measurement"]
    else:
        assert done.returncode == 2
        assert "the process of the lab exact was killed, twice, and nothing was recorded" in done.stderr
        assert not list(tmp_path.glob("killed*"))
    assert not list((tmp_path / "tmp").iterdir())


@pytest.mark.wide
def test_another_round_differs(trial, recorded):
    first = recorded(cell("btrfs", workload=SMALL))
    second = trial("btrfs", workload=SMALL, round=2, seed=12)
    assert first["measurement"]["verification"][0]["digest"] != second["measurement"]["verification"][0]["digest"]
    walls = [[p["wall_ns"] for p in r["measurement"]["phases"]] for r in (first, second)]
    assert all(a != b for a, b in zip(*walls, strict=True))
    # The seed reaches what the kernel and mkfs draw at random, too.
    supers = [
        next(c["output"] for c in r["measurement"]["commands"] if "dump-super" in c["argv"]) for r in (first, second)
    ]
    assert supers[0] != supers[1]


def test_metadata_and_its_phases(recorded):
    """tests/test_contract.py has a small one on every file system."""
    m = recorded(cell(workload=quarter("metadata")))["measurement"]
    assert m["mounted"]["type"] == "ext4"
    assert [v["mismatches"] for v in m["verification"]] == [0, 0]
    assert all(p["cold"]["proved"] for p in m["phases"] if p["cold"])
    assert all(p["wall_ns"] > 0 and p["settled"] for p in m["phases"])


def test_how_busy_the_processor_was_and_what_is_used(recorded):
    """Its work is no less than the process's own; what waits for the disk is not work. Files take space and inodes."""
    m = recorded(cell(workload=quarter("metadata")))["measurement"]
    phases = {(phase["name"], phase["cache"]): phase for phase in m["phases"]}
    for phase in m["phases"]:
        own = (phase["user_ns"] + phase["system_ns"]) / phase["wall_ns"]
        assert own - 0.01 <= phase["processor_busy"] <= 1
    # A warm read waits for nothing, but the kernel may once wait for a tick of its own in a phase of 1.5 ms.
    assert phases["read", "cold"]["processor_busy"] < 0.5 < 0.8 < phases["read", "warm"]["processor_busy"]
    tree, create, gone = (phases[name, "warm"] for name in ("make-tree", "create", "remove-tree"))
    assert create["used_inodes"] - tree["used_inodes"] == create["items"]
    assert create["used_bytes"] - tree["used_bytes"] >= create["bytes"]
    assert gone["used_inodes"] == m["mounted"]["used_inodes"] + 1  # the folder of the trial


def test_trials_begin_at_another_place_between_ticks_and_phases_after_a_rest(recorded):
    """The seed draws the place. A phase begins 200 ms after all that precedes it, but not while an array rebuilds."""
    m = recorded(cell(workload=quarter("metadata")))["measurement"]
    other = recorded(cell("btrfs", workload=SMALL))["measurement"]
    assert 0 < m["start_offset_ns"] == other["start_offset_ns"] < OFFSET_WITHIN_NS  # of one seed
    for lab, offsets in (("exact", 1), ("vm", 0)):
        kinds = [type(step) for step in rendered(cell(lab=lab)).steps]
        assert kinds.count(Offset) == offsets and kinds.count(Rest) == kinds.count(Phase) > 0
        assert all(kinds[place - 1] is Rest for place, kind in enumerate(kinds) if kind is Phase)
    cluster = [type(step) for step in rendered(cell("nfs-ext4")).steps]
    assert cluster.index(Pause) < cluster.index(Offset)  # the saved state is the same for all seeds
    assert Rest not in [type(step) for step in rendered(cell(stack="md-raid5-rebuilding", workload="populated")).steps]


def test_repository_of_git(recorded):
    record = recorded(cell(workload=quarter("repository")))
    assert (record["status"], record["reason"]) == ("ok", "")
    phases = {(p["name"], p["cache"]): p for p in record["measurement"]["phases"]}
    assert phases["status", "cold"]["output"] == ""  # nothing changed since the commit
    assert phases["status", "cold"]["wall_ns"] > phases["status", "warm"]["wall_ns"]
    assert phases["tar", "cold"]["device"]["read_bytes"] > phases["create", "warm"]["bytes"]  # tar reads every file
    assert [v["name"] for v in record["measurement"]["verification"]] == ["create: tree", "clone: clone"]


# A file system whose file is broken in one place, and what the record must then say.
BROKEN = {
    "make": ({"make": ["sh -c 'echo no such luck; exit 4'"]}, "failed", "make: sh exited with 4: no such luck"),
    "mount": ({"mount": ["mount -t ext4 -o nonsense {device} {mountpoint}"]}, "failed", "mount: mount exited with 32"),
    "type": ({"type": "ext3"}, "failed", "is a ext4 file system, not ext3"),
    "module": (
        {"module": "nosuchfs"},
        "failed",
        "module: modprobe exited with 1: modprobe: FATAL: Module nosuchfs not found",
    ),
    "package": ({"packages": ["nosuch-progs"]}, "skipped", "no package nosuch-progs: add it to envs/guest.yaml"),
    "damage": ({"check": ["sh -c 'exit 4'"]}, "failed", "check: sh exited with 4"),
    "hang": ({"make": ["sleep 1000000"]}, "timeout", "make: sleep was stopped at its time limit of 600 s"),
    # The sooner it is used up, the more of it is kept for large pages.
    "memory": (
        {"make": ["sh -c 'echo 1200 > /proc/sys/vm/nr_hugepages; exec tail /dev/zero'"]},
        "failed",
        "make: out of memory",
    ),
    "panic": (
        {"make": ["sh -c 'echo c > /proc/sysrq-trigger'"]},
        "failed",
        "The guest's kernel panicked after offset: [",
    ),
    "spin": ({"make": ["sh -c 'while :; do :; done'"]}, "timeout", "The host's time limit of 5 s passed"),
    "poweroff": (
        {"make": ["sh -c 'echo o > /proc/sysrq-trigger; sleep 9'"]},
        "failed",
        "The lab ended before the job did",
    ),
}


@pytest.mark.wide
@pytest.mark.parametrize("name", BROKEN)
def test_failure_becomes_a_record(trial, tmp_path, root, edit_yaml, name):
    change, status, reason = BROKEN[name]
    folder = tmp_path / "filesystems"
    folder.mkdir()
    (folder / "broken.yaml").write_text((root / "workflow/filesystems/ext4.yaml").read_text())
    edit_yaml(folder / "broken.yaml", lambda data: data.update(change))
    record = trial("broken", folder=folder, time_limit_s=5 if name == "spin" else 120)
    assert record["status"] == status
    assert reason in record["reason"]
    if name == "panic":
        assert "sysrq triggered crash" in (tmp_path / "record.console.log").read_text()
    if status == "skipped":
        assert record["measurement"] == {}


def test_option_that_the_kernel_ignores_fails_the_trial(trial, tmp_path, root, edit_yaml):
    folder = tmp_path / "filesystems"
    folder.mkdir()
    (folder / "btrfs2.yaml").write_text((root / "workflow/filesystems/btrfs.yaml").read_text())
    edit_yaml(folder / "btrfs2.yaml", lambda d: d["variants"]["zstd"].update(mount="relatime"))
    record = trial("btrfs2", folder=folder, variant="zstd")
    assert record["status"] == "failed"
    assert "does not report the mount option compress=zstd:3" in record["reason"]


def test_too_large_for_the_lab_is_skipped(trial):
    record = trial(scale="paper")
    assert record["status"] == "skipped"
    assert "raise memory_mib in envs/guest.yaml or use a smaller scale" in record["reason"]


MISTAKES = {
    "file system": ({"filesystem": "ext5"}, ["file system 'ext5'", "did you mean ext4"]),
    "variant": ({"variant": "defualt"}, ["variant of ext4 'defualt'", "did you mean default"]),
    "scale": ({"scale": "smokey"}, ["scale 'smokey'", "did you mean smoke"]),
    "lab": ({"lab": "exakt"}, ["exakt"]),
    "stack": ({"stack": "raid"}, ["stack 'raid'"]),
    "disks": ({"stack": "md-raid6@3"}, ["stack md-raid6@3: md-raid6 takes 4 to 32 disks, not 3"]),
    "number of disks": ({"stack": "md-raid6@six"}, ["'six' is not a number of disks"]),
    "odd disks": ({"stack": "md-raid10@7"}, ["4 to 32 disks and a multiple of 2, not 7"]),
    "layer of a file system": ({"stack": "btrfs-raid1+lvm"}, ["btrfs-raid1 is part of btrfs: put it last"]),
    "native stack": ({"stack": "btrfs-raid1"}, ["stack btrfs-raid1 works only with btrfs", "ext4 cannot use it"]),
    "fault without population": (
        {"stack": "md-raid5-degraded"},
        ["workload metadata has none", "such as populated"],
    ),
    "two faults": ({"stack": "md-raid5-degraded+md-raid6-degraded"}, ["md-raid6-degraded takes 4 to 32 devices"]),
    "profile": ({"profile": "sdd"}, ["device profile 'sdd'", "did you mean ssd"]),
    "round": ({"round": 0}, ["--round is 0"]),
    "seed": ({"seed": -1}, ["--seed is -1"]),
    "large seed": ({"seed": 10**14}, ["--seed is 100000000000000, but must be from 0 to 10000000000000"]),
    "folder": ({"output": "/dev/null/record.json"}, ["/dev/null", "cannot be written"]),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistake_on_the_command_line(reprofs, says, guest, tmp_path, name):
    change, words = MISTAKES[name]
    says(reprofs("trial", *options(**{"output": tmp_path / "record.json", **change})), *words)
    assert not list(tmp_path.iterdir())


def test_no_qemu_of_the_host(reprofs, says, guest, tmp_path):
    words = options(output=tmp_path / "record.json")
    asked = reprofs("trial", *words, env={"PATH": str(tmp_path), "REPROFS_QEMU": "host"})
    says(asked, "qemu-system-x86_64 is missing", "qemu-system-x86", "or unset REPROFS_QEMU")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount the small file system")
def test_full_disk(reprofs, says, guest, tmp_path):
    """/dev/full stands for a full disk only for a write; a small tmpfs is one."""
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", small], check=True)
    try:
        words = options(filesystem="tmpfs", workload=SMALL, output=small / "record.json")
        says(reprofs("trial", *words), "No space left on device")
        assert not list(small.iterdir())  # nothing half-written
    finally:
        subprocess.run(["umount", small], check=True)


@pytest.mark.wide
def test_the_last_disk_has_a_profile_of_its_own(trial):
    """A log on an SSD beside a rotating disk: the record names each, and a flush waits for one rotation, not three."""
    took = {}
    for stack, profile in (("single", "hdd-7200"), ("xfs-log", "hdd-7200+ssd-nvme")):
        record = trial("xfs", profile=profile, workload="fsync-each@20", stack=stack)
        assert (record["status"], record["reason"]) == ("ok", "")
        assert record["trial"]["profile"] == profile
        took[profile] = sum(phase["wall_ns"] for phase in record["measurement"]["phases"] if phase["name"] == "create")
        disks = record["measurement"]["devices"]
    assert [(disk["name"], disk["model"], disk["profile"]) for disk in disks] == [
        ("modeldisk0", "rotating", "hdd-7200"),
        ("modeldisk1", "solid", "ssd-nvme"),
    ]
    assert took["hdd-7200+ssd-nvme"] < took["hdd-7200"] / 2


@pytest.mark.wide
def test_a_trial_on_a_worn_drive_records_it(trial):
    """Wear of the phases is within that of the trial; two runs are the same."""
    first = trial("f2fs", profile="ssd-worn", workload="metadata")
    assert (first["status"], first["reason"]) == ("ok", "")
    found = first["measurement"]
    for key in found["wear"]:
        assert sum(phase["device"][key] for phase in found["phases"]) <= found["wear"][key]
    create = next(phase["device"] for phase in found["phases"] if phase["name"] == "create")
    assert create["flash_written"] * 4096 == pytest.approx(create["written_bytes"], rel=0.05)
    assert create["flash_moved"] > 5 * create["flash_written"]
    again = trial("f2fs", profile="ssd-worn", workload="metadata")
    assert again["digests"]["measurement"] == first["digests"]["measurement"]


def test_disks_of_two_drivers_are_numbered_apart():
    hdd, ssd = (CATALOG.get(Device, name) for name in ("hdd-7200", "ssd"))
    assert ExactLab.device_paths(Disks(hdd, 3, 64, ssd)) == ["/dev/modeldisk0", "/dev/modeldisk1", "/dev/nullb0"]
    assert ExactLab.device_paths(Disks(ssd, 2, 64, hdd)) == ["/dev/nullb0", "/dev/modeldisk0"]
    large = CATALOG.get(Device, "hdd-st4000nm0033-4tb")
    assert Disks(ssd, 2, 64, large).sizes_mib == [64, large.disk_mib]
