"""The labs with a real clock: vm, host, mount; what they share: one trial at a time, on a quiet host."""

import contextlib
import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import namedtuple
from pathlib import Path

import pytest
import yaml
from conftest import BIN, ROOT
from helpers import CATALOG, cell, device, events, job_of, outputs, rendered, shell
from reprofs import cleanup, files, labs, ramdisks
from reprofs.errors import UserError
from reprofs.guest.steps import Clock, Devices, Job, Mkdir, Module, Mounted, Processor
from reprofs.labs import Disks, Obstacle, Outcome, get_lab, host, mount, vm
from reprofs.labs import _conditions as conditions
from reprofs.plan.catalog import Catalog
from reprofs.plan.device import Device
from reprofs.plan.filesystem import Filesystem
from reprofs.plan.override import add_places, override, place_name
from reprofs.plan.stack import Layer
from reprofs.plan.stack import resolve as resolve_stack
from reprofs.trial import commands as commands_module
from reprofs.trial import progress, run
from reprofs.trial.resolve import resolve

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="the host lab needs root")
NOBODY = 65534


def as_nobody(function, *arguments):
    """What a function returns in a process of an ordinary user."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            os.write(writer, json.dumps(function(*arguments)).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader) as answer:  # noqa: PTH123  # a pipe has no path
        text = answer.read()
    os.waitpid(child, 0)
    return json.loads(text)


@pytest.fixture
def open_folder(monkeypatch):
    """A folder that every user can use, with the engine in a cache; pytest's own are closed to others."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    for name in ("tmp", "cache", "cache/engine", "target"):
        (folder / name).mkdir()
        (folder / name).chmod(0o777)
    folder.chmod(0o755)
    engine = mount.Lab.open(path=".").engine
    for made in (engine, engine.with_suffix(".sha256")):
        shutil.copy(made, folder / "cache/engine")
        (folder / "cache/engine" / made.name).chmod(0o755)
    monkeypatch.setenv("TMPDIR", str(folder / "tmp"))
    monkeypatch.setenv("REPROFS_CACHE", str(folder / "cache"))
    monkeypatch.setattr("tempfile.tempdir", None)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def memory(monkeypatch):
    """A folder in memory for this test alone."""
    with tempfile.TemporaryDirectory(dir=cleanup.MEMORY) as folder:
        monkeypatch.setattr(cleanup, "MEMORY", Path(folder))
        yield Path(folder)


def test_every_lab_has_the_whole_interface():
    for name in ("exact", "vm", "host", "mount"):
        lab = get_lab(name)
        assert lab.name == name and lab.clock == ("instructions" if name == "exact" else "wall")
        assert lab.exclusive is (name != "exact") and lab.provisions is (name != "mount")
        assert lab.seeds is lab.in_guest is (name in ("exact", "vm"))
        assert lab.exact is lab.models is (name == "exact") and lab.meaning.startswith("In the ")
        assert lab.facts().clock == lab.clock and lab.facts().processor is None
        assert lab.disks_zeroed(device()) is (name != "mount")
        for method in ("open", "obstacle", "run", "environment", "device_steps", "device_paths"):
            assert callable(getattr(lab, method))
    assert not host.Lab.disks_zeroed(device(backing="device"))


# ---- vm


@pytest.fixture
def machine(guest, memory) -> vm.Lab:
    """The vm lab with emulation: whether KVM works is another test's."""
    return vm.Lab(guest, files.cache_folder(), "tcg")


@pytest.mark.wide
def test_vm_with_many_disks_and_an_array_on_a_real_clock(machine):
    disks = Disks(device(), 24, 64)
    paths = machine.device_paths(disks)
    more = machine.device_paths(Disks(device(), 27, 64))
    assert (paths[0], paths[23], len(paths), more[26]) == ("/dev/vda", "/dev/vdx", 24, "/dev/vdaa")
    array = f"mdadm --create /dev/md127 --run --quiet --level=6 --raid-devices=6 --assume-clean {' '.join(paths[18:])}"
    job = job_of(
        *machine.device_steps(disks),
        Devices(path=paths),
        shell(
            "ls /dev/vd* | wc -l; nproc; for i in 0 9 23; do cat /sys/block/vd$(echo a j x | cut -d' ' -f1); done || :"
        ),
        shell(f"cat /sys/block/vd{{a,j,x}}/serial 2>&1 | cat; cat /sys/block/vdx/serial; modprobe raid456; {array}"),
        shell(
            "cat /proc/mdstat; modprobe ext4; mkfs.ext4 -q /dev/md127; mount /dev/md127 /mnt; df -T /mnt; umount /mnt"
        ),
        *machine.program_steps(),
        shell('"$ENGINE" mdtest -C -F -I 3 -d /run/x && "$ENGINE" mdtest -C -F -I 3 -d /run/x --verify'),
        shell("sleep 2"),
    )
    outcome = machine.run(job, 200, disks)
    said = "\n".join(outputs(outcome))
    assert said.splitlines()[2:4] == ["24", str(machine.processors)]  # after the words of two modprobe
    assert "md127 : active raid6 vdx[5] vdw[4] vdv[3] vdu[2] vdt[1] vds[0]" in said and "[6/6] [UUUUUU]" in said
    assert "disk23" in said and "/dev/md127" in said
    assert "1 tasks, 1 iterations: as written" in said
    assert list(outcome.environment["programs_sha256"]) == ["mdtest"]
    slept = json.loads(outcome.output.splitlines()[-2])["wall_ns"] / 1e9
    assert 2 <= slept <= outcome.host_seconds  # the guest's second is the host's
    assert (outcome.environment["accelerator"], outcome.environment["start"]) == ("tcg", "cold boot")
    assert not list(cleanup.MEMORY.iterdir())


@pytest.mark.wide
def test_vm_throttles_its_disks(machine):
    """300 requests at 100 a second: at least two seconds, as the first second's may come at once."""
    profile = device(backing="file", iops=100, bandwidth_mb_s=50)
    write = shell("dd if=/dev/zero of=/dev/vda bs=4k count=300 oflag=direct; cat /sys/block/vda/stat")
    outcome = machine.run(job_of(*machine.device_steps(Disks(profile, 1, 64)), write), 120, Disks(profile, 1, 64))
    assert int(outputs(outcome)[-1].splitlines()[-1].split()[4]) >= 300
    assert json.loads(outcome.output.splitlines()[-2])["wall_ns"] > 2e9
    drive = next(option for option in outcome.environment["command"] if option.startswith("if=none"))
    assert "cache=none" in drive and "throttling.iops-total=100,throttling.bps-total=52428800" in drive


def test_vm_emulates_with_one_thread_where_more_can_kill_a_guest(machine):
    def accelerator(version: str) -> str:
        machine.qemu = dataclasses.replace(machine.qemu, version=version)
        options = machine._options()
        return options[options.index("-accel") + 1]

    assert [accelerator(v) for v in ("7.2.22", "8.0.5", "8.1.0", "10.0.2")] == [
        *["tcg,thread=single"] * 2,
        *["tcg,thread=multi"] * 2,
    ]
    machine.accelerator = "kvm"
    assert accelerator("7.2.22") == "kvm"


def test_vm_disks_whose_flushes_are_ignored(machine):
    catalog = Catalog()
    profile = catalog.get(Device, "file-unsafe")
    assert vm.Lab.unsuited(profile) == ""
    machine.disks = Disks(profile, 2, 64)
    drives = [option for option in machine._drives() if option.startswith("if=none")]
    assert len(drives) == 2 and all(",cache=unsafe," in drive for drive in drives)
    machine.disks = Disks(catalog.get(Device, "file"), 1, 64)
    assert ",cache=none," in machine._drives()[1]
    assert "not in a file" in get_lab("exact").unsuited(profile)
    assert "uses devices as they are" in host.Lab.unsuited(profile)
    with pytest.raises(UserError, match="has a cache, which only a disk with backing: file can have"):
        catalog.add(Device, "wrong", {"title": "Wrong", "backing": "memory", "cache": "unsafe"})
    with pytest.raises(UserError, match="ignores flushes: give it promise: none, and the reason under why"):
        catalog.add(Device, "wrong", {"title": "Wrong", "backing": "file", "cache": "unsafe"})


@pytest.mark.wide
@pytest.mark.parametrize(
    ("script", "ending", "limit"),
    [
        pytest.param("echo c > /proc/sysrq-trigger", "panic", 100, marks=pytest.mark.soak),
        pytest.param("echo o > /proc/sysrq-trigger; sleep 100", "lost", 100, marks=pytest.mark.soak),
        ("sleep 100", "timeout", 8),
    ],
)
def test_vm_endings(machine, script, ending, limit):
    outcome = machine.run(job_of(shell(script)), limit)
    assert outcome.ending == ending
    assert ("Kernel panic" in outcome.console) is (ending == "panic")


def test_vm_says_what_it_cannot_do(machine):
    assert machine.obstacle(["git"], [], [], device(backing="file", iops=5)) == ""
    assert "no package nosuch" in machine.obstacle(["nosuch"], [], [], device())
    for modelled in (device(completion_ns=1), CATALOG.get(Device, "hdd-7200")):
        assert "cannot model disks" in machine.obstacle([], [], [], modelled)
    assert "lab host" in machine.obstacle([], [], [], device(backing="device"))
    exact = get_lab("exact")(machine.manifest, machine.cache)
    assert "in memory" in exact.obstacle([], [], [], device(backing="file"))
    assert "lab vm" in exact.obstacle([], [], [], device(iops=5))


def test_vm_without_room_for_its_disks(machine, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage(1 << 30, 0, 100 << 20))
    with pytest.raises(
        Obstacle, match=r"2 disks that hold up to 64 MiB do not fit into /dev/shm/.*, which has 100 MiB free"
    ):
        machine.run(job_of(Clock()), 60, Disks(device(), 2, 64))


def test_files_of_disks_are_sparse(tmp_path, monkeypatch):
    """What they will hold must fit, not what they could: 4 GiB each is more than many machines have in memory."""
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage(1 << 30, 0, 1 << 30))
    parts = resolve(cell("ext4", lab="host", profile="ram"), CATALOG)
    (file,) = labs.disk_files(tmp_path, parts.disks)
    assert (file.stat().st_size, file.stat().st_blocks) == (4 << 30, 0)
    rebuilding = resolve(
        cell("ext4", lab="host", profile="ram", stack="md-raid5-rebuilding", workload="populated"), CATALOG
    )
    assert rebuilding.stored > rebuilding.disk_mib << 20  # the spare is written whole


def test_kvm_is_tried_once_for_every_start_of_the_machine(guest, tmp_path, monkeypatch):
    tried = []

    def run(self, job, limit, disks=None):
        tried.append(self.accelerator)
        return Outcome("finished" if len(tried) == 1 else "timeout", b"", "")

    monkeypatch.setattr(vm.VmLab, "run", run)
    monkeypatch.setattr(vm.os, "access", lambda *_: True)
    for name in ("root", "initrd", "engine", "qemu"):
        (tmp_path / name).symlink_to(files.cache_folder() / name)
    lab = vm.Lab(guest, tmp_path)
    assert lab._kvm_works() and lab._kvm_works() and tried == ["kvm"]
    monkeypatch.setattr(cleanup, "boot", lambda: "another")
    assert not lab._kvm_works() and not lab._kvm_works() and tried == ["kvm", "kvm"]
    monkeypatch.setattr(vm.os, "access", lambda *_: False)
    monkeypatch.setattr(cleanup, "boot", lambda: "a third")
    assert not lab._kvm_works() and len(tried) == 2


# ---- host


@pytest.fixture
def real_clock(monkeypatch):
    """A busy host is no reason for a test to wait long. Tests with this fixture run one after the other (conftest)."""
    monkeypatch.setattr(conditions, "SETTLE_LIMIT_S", 1)
    monkeypatch.delenv("REPROFS_SETTLE", raising=False)


def run_trial(tmp_path, **changes) -> dict:
    trial = cell(**{"profile": "ram", "variant": "default", "seed": 5, **changes})
    return run.run_trial(trial, Catalog(), tmp_path / "r.json")


@needs_root
@pytest.mark.parametrize(
    ("filesystem", "variant", "profile"),
    [("ext4", "default", "file"), ("xfs", "default", "ram"), ("btrfs", "zstd", "ram"), ("tmpfs", "default", "ram")],
)
def test_host_trial(tmp_path, real_clock, memory, filesystem, variant, profile):
    record = run_trial(tmp_path, lab="host", filesystem=filesystem, variant=variant, profile=profile)
    assert record["status"] == "ok", record["reason"]
    measured = record["measurement"]
    assert measured["clock"]["name"] == "wall" and measured["mounted"]["type"] == filesystem
    cold = [phase["cold"]["proved"] for phase in measured["phases"] if phase["cold"]]
    assert cold and all(proved is (None if filesystem == "tmpfs" else True) for proved in cold)
    devices = {
        "file": [{"backing": "file", "driver": "loop", "direct_io": True}],
        "ram": [{"backing": "memory", "driver": ramdisks.driver() or "loop", "direct_io": False}],
    }
    assert record["environment"]["lab"]["devices"] == ([] if filesystem == "tmpfs" else devices[profile])
    assert not list(memory.iterdir())
    assert not any(str(memory) in file for file, _ in cleanup._loops().values())
    assert "/run/reprofs" not in Path("/proc/self/mountinfo").read_text()


FETCH = "import urllib.request as u; print(u.urlopen('http://s1:8080/mark').read())"


@needs_root
def test_host_makes_hosts_of_its_own(tmp_path, real_clock, memory):
    """Two clients ask a server by its name; what it writes to this machine's folders is not there afterwards."""
    catalog = Catalog()
    data = catalog.get(Filesystem, "sshfs").as_json() | {
        "labs": ["host"],
        "type": "ext4",
        "packages": [],
        "inspect": [],
    }
    data |= {"hosts": {"servers": 1, "private": ["/var/lib/own"]}, "check": ["fsck.ext4 -fn {device}"]}
    data["make"] = [
        "mkfs.ext4 -q {device}",
        "mkdir -p /root/own",
        "sh -c 'echo seen > /etc/own; rm /etc/debian_version'",
    ]
    serve = "cp /etc/own /var/lib/own/mark; cd /var/lib/own; setsid python3 -m http.server 8080 > /dev/null 2>&1 &"
    data["mount"] = [
        "mount -t ext4 -o relatime {device} {base}",
        {"host": "s1", "run": f'sh -ec "{serve}"'},
        {"host": "clients", "wait": f'python3 -c "{FETCH}"', "expect": "seen"},
        {"host": "clients", "run": "mount --bind {base} {mountpoint}"},
    ]
    data["unmount"] = [
        {"host": "clients", "run": "umount {mountpoint}"},
        {"host": "s1", "run": "pkill -x python3"},
        {"host": "s1", "wait": "sh -c 'pgrep -c -x python3 || true'", "expect": "^0$"},
        "umount {base}",
    ]
    catalog.add(Filesystem, "own", data)
    trial = cell("own", lab="host", variant="default@loopback", profile="ram", workload="metadata@30+clients2", seed=5)
    record = run.run_trial(trial, catalog, tmp_path / "r.json")
    assert record["status"] == "ok", record["reason"]
    checks = record["measurement"]["verification"]
    assert [(check["files"], check["mismatches"]) for check in checks] == [(60, 0)] * 2
    assert any("c2, its end:" in command["output"] for command in record["measurement"]["commands"])
    for place in ("/etc/own", "/root/own", "/var/lib/own", "/run/hosts", "/run/netns/s1"):
        assert not Path(place).exists(), place
    assert Path("/etc/debian_version").exists() and not list(memory.iterdir())
    assert not Path("/sys/class/net/br0").exists()
    shown = "\n".join(commands_module.trial_lines(trial, catalog))
    assert "unshare --mount --pid --fork --kill-child --mount-proc --net --uts sh" in shown
    assert "lowerdir=/run/machine$folder" in shown and "ip link add br0" in shown


@pytest.mark.soak
@needs_root
@pytest.mark.parametrize(
    ("filesystem", "variant"),
    [("sshfs", "default"), ("gluster", "replica-3"), ("moosefs", "goal-3"), ("cephfs", "fuse")],
)
def test_host_runs_servers_that_this_machine_has(tmp_path, real_clock, filesystem, variant):
    hosts = {"variant": f"{variant}@loopback", "stack": "single" if filesystem == "sshfs" else "servers"}
    record = run_trial(tmp_path, lab="host", filesystem=filesystem, workload="metadata@30+clients2", **hosts)
    if record["status"] == "skipped":
        pytest.skip(record["reason"])
    assert record["status"] == "ok", record["reason"]
    checks = record["measurement"]["verification"]
    assert [(check["files"], check["mismatches"]) for check in checks] == [(60, 0)] * 2


@needs_root
def test_host_endings():
    lab = host.Lab.open()
    late = lab.run(job_of(shell("sleep 100 & sleep 100")), 1, Disks(device(), 1, 64))
    assert late.ending == "timeout" and late.host_seconds < 50
    assert lab.run(job_of(shell("kill -9 $PPID; sleep 1")), 60).ending == "killed"


@needs_root
def test_host_is_apart():
    """Its mounts and processes are its own; the disks are numbered; the job's modprobe of what is there is left out."""
    load = Module(name="tmpfs", limit_s=5)
    job = job_of(
        load, shell("readlink /run/reprofs/disk*; ls /proc | grep -c '^[0-9]'; mount -t tmpfs x /mnt; echo $HOME")
    )
    disks, processes, home = [], 0, ""
    *disks, processes, home = outputs(host.Lab.open().run(job, 60, Disks(device(), 2, 64)))[0].splitlines()
    assert (
        len(disks) == 2
        and all(re.match("/dev/(loop|zram|nullb|reprofs)", disk) for disk in disks)
        and int(processes) < 10
    )
    assert "reprofs-work" in home
    assert not any(str(point) == "/mnt" for _, _, point in cleanup.mounts())


def test_modules_that_are_there_are_not_loaded(monkeypatch):
    """A machine may have them built in, and no modprobe; nothing else of the job changes."""
    monkeypatch.setattr(host, "_is_present", lambda name: name == "here")

    kept = [Module(name="absent"), Module(name="absent", limit_s=5), shell("modprobe here"), Clock()]
    job = job_of(Module(name="here"), *kept, Module(name="here", limit_s=5))
    assert host._without_present_modules(job) == job_of(*kept)
    assert job_of(*kept[:1]).text() == "exec\tstage=module\targ=modprobe\targ=absent\n"


@needs_root
def test_host_console_has_what_the_kernel_said(memory):
    """A device that is no file system: mounting it makes the kernel complain."""
    job = job_of(shell("mount -t ext4 /run/reprofs/disk0 /mnt; true"))
    outcome = host.Lab.open().run(job, 60, Disks(device(), 1, 64))
    assert "engine ended: 0" in outcome.console
    if not os.access("/dev/kmsg", os.R_OK):
        pytest.skip("root may not read the kernel's log here")
    assert re.search(r"kernel: EXT4-fs \((loop|zram|nullb|reprofs)", outcome.console)


@needs_root
def test_host_says_what_it_cannot_do(monkeypatch):
    lab = host.Lab.open()
    assert lab.obstacle(["coreutils"], ["ls"], ["tmpfs"], device()) == ""
    assert "install the Debian package nosuch-tools" in lab.obstacle(
        ["coreutils", "nosuch-tools"], ["mkfs.nosuch"], [], device()
    )
    assert "kernel has no module nosuchfs" in lab.obstacle([], [], ["nosuchfs"], device())
    assert "config/devices.yaml lists no real disk" in lab.obstacle([], [], [], device(backing="device"))
    for modelled in ("completion_ns", "iops", "bandwidth_mb_s"):
        assert "model without modelled times" in lab.obstacle([], [], [], device(**{modelled: 5}))


def test_host_without_root_is_a_sentence(open_folder):
    said = as_nobody(lambda: host.Lab.open().obstacle([], [], [], device()))
    assert said == "The host lab creates and mounts file systems: run as root, or choose the lab vm."


@needs_root
@pytest.mark.parametrize(
    ("stack", "filesystem", "sentence"),
    [
        ("md-raid0", "ext4", "/dev/md127 exists, which the stack would create"),
        ("single+lvm", "ext4", "/dev/reprofs exists, which the stack would create"),
        ("jbod-linear", "ext4", "/dev/mapper/reprofs-jbod exists, which the stack would create"),
        ("single", "zfs", r"the file system would create exists \(`zpool list -H reprofs`\)"),
    ],
)
def test_host_refuses_names_that_are_taken(stack, filesystem, sentence, monkeypatch, tmp_path):
    """A machine that has the array, a volume of the group, the volume, the pool."""
    (tmp_path / "zpool").write_text('#!/bin/sh\ntest "$*" = "list -H reprofs"\n')
    (tmp_path / "zpool").chmod(0o755)
    monkeypatch.setattr(host, "PATH", f"{tmp_path}:{host.PATH}")
    exists, taken = Path.exists, ("/sys/block/md127", "/dev/reprofs", "/dev/mapper/reprofs-jbod")
    monkeypatch.setattr(Path, "exists", lambda path: str(path) in taken or exists(path))
    job = rendered(cell(filesystem, lab="host", variant="default", stack=stack, profile="ram", seed=1), Catalog())
    with pytest.raises(Obstacle, match=sentence):
        host.Lab.open().run(job, 60, Disks(device(), 6, 64))


def test_a_stack_names_all_that_it_makes():
    """What stands in the commands that build a layer, as a device that is no disk, is what must be free."""
    for name in Catalog().paths(Layer):
        stack = resolve_stack(name, Catalog()).commands([f"/disk{i}" for i in range(6)], True, "/m")
        words = [word for line in stack.build for word in line]
        named = {word for word in [*words, *stack.devices] if word.startswith("/dev/")}
        assert all(any(path == made or path.startswith(f"{made}/") for made in stack.makes) for path in named), name
        # Nothing is made where the file system itself is on disks, such as one with its journal on another.
        assert not stack.build or stack.makes or all(one.startswith("/disk") for one in stack.devices), name


HOSTS = (
    "hosts.Bridge(mtu=1500, names={'s1': 's1'}), hosts.Host(name='s1', number=1, mtu=1500, qdisc=[]),"
    "Exec(stage='x', arg=hosts.inside('s1', ['sh', '-c', 'setsid sleep 31536 > /dev/null 2>&1 &'])),"
)


@needs_root
@pytest.mark.parametrize("first", ["", HOSTS], ids=["alone", "hosts"])
def test_killed_engine_takes_its_mounts_along(memory, first):
    """When the parent is killed, everything ends at once, without any clean-up."""
    program = (
        "from pathlib import Path\nfrom reprofs import cleanup, ramdisks\nfrom reprofs.guest import hosts\n"
        "from reprofs.guest.steps import Exec, Job\n"
        f"cleanup.MEMORY = Path('{memory}')\n"
        "from reprofs.labs import Disks, host\n"
        "script = 'mkfs.ext4 -q /run/reprofs/disk0; mount /run/reprofs/disk0 /mnt; sleep 100'\n"
        f"job = Job([{first}Exec(stage='x', arg=['sh', '-c', script])])\n"
        "ramdisks.driver = lambda: None\n"  # a disk of these stays until the next clean-up: tests/test_ramdisks.py
        "host.Lab.open().run(job, 200, Disks(count=1, size_mib=64))\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program])

    def mine() -> list[str]:
        return [name for name, (file, _) in cleanup._loops().items() if str(memory) in file]

    def wait(condition) -> bool:
        deadline = time.monotonic() + 60
        while not condition() and time.monotonic() < deadline:
            time.sleep(0.05)
        return condition()

    def daemon() -> list[str]:
        texts = [cleanup.read(path) or "" for path in Path("/proc").glob("[0-9]*/cmdline")]
        return [text for text in texts if text == "sleep\x0031536\x00"]

    assert wait(mine) and (not first or wait(daemon))
    time.sleep(0.5)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert wait(lambda: not mine() and not daemon())
    cleanup.sweep()


# ---- mount


def test_mount_as_an_ordinary_user(open_folder):
    """One fresh sub-directory, on the file system that holds the directory, and nothing stays."""

    def run() -> list:
        lab = mount.Lab.open(path=str(open_folder / "target"))
        steps = [
            Mounted(path="/run/reprofs/mnt", within=1),
            Mkdir(path="/run/reprofs/mnt/trial"),
            shell("id -u; ls -d /run/reprofs/mnt/*; touch /run/reprofs/mnt/trial/x"),
        ]
        job = Job(steps, mountpoint="/run/reprofs/mnt")
        outcome = lab.run(job, 60)
        return [lab.obstacle(["coreutils"], ["ls"], [], device()), outputs(outcome), outcome.environment["path"]]

    reason, said, path = as_nobody(run)
    assert reason == "" and path == str(open_folder / "target")
    user, folder = said[0].splitlines()
    assert user == str(NOBODY if os.geteuid() == 0 else os.geteuid())
    assert Path(folder).parent.parent == open_folder / "target" and Path(folder).parent.name.startswith("reprofs-work-")
    assert not list((open_folder / "target").iterdir()) and not list((open_folder / "tmp").iterdir())


def test_mount_of_the_temporary_folder_itself(open_folder):
    """The folder that a trial works in is there, too, with the name that its tree once had."""
    lab = mount.Lab.open(path=str(open_folder / "tmp"))
    outcome = lab.run(Job([Mounted(path="/run/reprofs/mnt", within=1)], mountpoint="/run/reprofs/mnt"), 60)
    assert outcome.ending == "finished" and not list((open_folder / "tmp").iterdir())


def test_mount_says_what_is_wrong_with_the_directory(open_folder):
    assert "does not exist: mount it" in mount.Lab.open(path=str(open_folder / "nosuch")).obstacle([], [], [], device())
    (open_folder / "target").chmod(0o755)
    said = as_nobody(lambda: mount.Lab.open(path=str(open_folder / "target")).obstacle([], [], [], device()))
    assert said == "" if os.geteuid() else "is not writable" in said


def test_mount_refuses_a_directory_without_room(tmp_path, real_clock, monkeypatch):
    monkeypatch.setattr(mount.Lab, "room", lambda lab, sizes, share: 2 << 20)
    monkeypatch.chdir(tmp_path)  # other tests run trials in the checkout at the same time
    record = run_trial(tmp_path, lab="mount", filesystem="here")
    assert record["status"] == "skipped" and not list(tmp_path.glob("reprofs-work-*"))
    assert re.fullmatch(
        r"The content is about \d+ MiB, but \. has 2 MiB free: choose another directory or a smaller scale\.",
        record["reason"],
    )


def test_mount_leaves_nothing_when_the_time_is_over(open_folder):
    outcome = mount.Lab.open(path=str(open_folder / "target")).run(job_of(shell("sleep 100 & sleep 100")), 1)
    assert outcome.ending == "timeout"
    assert not list((open_folder / "target").iterdir())


def test_mount_trial_of_the_shipped_example(tmp_path, real_clock, monkeypatch):
    monkeypatch.chdir(tmp_path)  # other tests run trials in the checkout at the same time
    record = run_trial(tmp_path, lab="mount", filesystem="here")
    assert record["status"] == "ok", record["reason"]
    assert record["environment"]["lab"]["path"] == "." and record["measurement"]["mounted"]["type"]
    assert not list(tmp_path.glob("reprofs-work-*"))


@pytest.mark.parametrize("where", ["/", "~", "bind"])
def test_a_trial_loses_nothing_of_where_it_is(where, tmp_path, real_clock, monkeypatch):
    """The root, the home folder, a folder that is mounted elsewhere, too: all it makes is in one folder that goes."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own/reprofs-work-mine-tree").mkdir()
    (tmp_path / "own/kept").write_text("kept")
    (tmp_path / "own/up").symlink_to("..")
    monkeypatch.setenv("REPROFS_CACHE", str(files.cache_folder()))
    monkeypatch.setenv("HOME", str(tmp_path / "own"))
    bound, made = tmp_path / "bind", []
    if where == "bind":
        if os.geteuid() != 0:
            pytest.skip("a mount needs root")
        bound.mkdir()
        subprocess.run(["mount", "--bind", tmp_path / "own", bound], check=True)
    try:
        if where == "bind":
            with pytest.raises(UserError, match=r"own' and '\S*bind' are the same directory: leave one out"):
                override("mount", where=f"{bound},{tmp_path / 'own'}")
            where = str(bound)
            subprocess.run(["mount", "-o", "remount,bind,ro", bound], check=True)
            with pytest.raises(UserError, match=r"bind' is not writable: get write permission, mount it writable, or"):
                override("mount", where=where)
            subprocess.run(["mount", "-o", "remount,bind,rw", bound], check=True)
        if where == "/" and not os.access("/", os.W_OK):
            with pytest.raises(UserError, match="'/' is not writable: get write permission"):
                override("mount", where=where)
            return
        (place,), catalog = override("mount", where=where).where, Catalog()
        add_places(catalog, [place])
        noted = cleanup.note
        monkeypatch.setattr(cleanup, "note", lambda at, **what: (made.append(what["folder"]), noted(at, **what)))
        trial = cell(lab="mount", filesystem=place_name(place), variant="default", workload="list-recursive@40")
        record = run.run_trial(trial, catalog, tmp_path / "record.json")
        assert record["status"] == "ok", record["reason"]
    finally:
        if bound.exists():
            subprocess.run(["umount", bound], check=True)
    assert [Path(folder).parent for folder in made] == [Path(place)] and not Path(made[0]).exists()
    assert sorted(path.name for path in (tmp_path / "own").iterdir()) == ["kept", "reprofs-work-mine-tree", "up"]
    assert (tmp_path / "own/kept").read_text() == "kept"


@needs_root
def test_what_a_trial_mounts_in_its_folder_keeps_its_files(open_folder):
    """It is not removed with that folder, but taken off before."""
    (open_folder / "own").mkdir()
    (open_folder / "own/kept").touch()
    top = "/run/reprofs/mnt"
    steps = [Mkdir(path=f"{top}/a"), shell(f"mount --bind {open_folder}/own {top}/a && ls {top}/a")]
    lab = mount.Lab.open(path=str(open_folder / "target"))
    outcome = lab.run(Job(steps, mountpoint=top), 60)
    assert outputs(outcome) == ["kept"] and (open_folder / "own/kept").exists()
    assert not list((open_folder / "target").iterdir())


# ---- one at a time, on a quiet host


def test_real_clocks_wait_for_each_other(tmp_path, real_clock):
    """Two processes, one after the other; the exact lab does not wait."""
    program = (
        "import sys, time; from pathlib import Path; from reprofs import labs\n"
        "with labs.alone(labs.get_lab(sys.argv[1])):\n"
        "    Path(sys.argv[2]).touch()\n"
        "    while not Path(sys.argv[3]).exists(): time.sleep(0.01)\n"
    )

    def start(lab: str, until: str) -> subprocess.Popen:
        command = [sys.executable, "-c", program, lab, tmp_path / lab, tmp_path / until]
        return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)

    with start("host", until="exact") as first:
        while not (tmp_path / "host").exists():
            assert first.poll() is None, first.stderr.read()
            time.sleep(0.01)
        with start("mount", until="mount") as second:
            assert "another trial with a real clock" in second.stderr.readline()
            assert not (tmp_path / "mount").exists()
            with start("exact", until="exact") as exact:
                assert exact.wait(60) == 0
            assert second.wait(60) == 0 and first.wait(60) == 0


def test_ordinary_user_waits_for_root(open_folder):
    """Both open the same lock."""

    def waits() -> bool:
        signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(TimeoutError()))
        signal.alarm(1)
        try:
            with labs.alone(mount.Lab):
                return False
        except TimeoutError:
            return True

    with labs.alone(host.Lab):
        assert as_nobody(waits)


STAT = "cpu  100 0 50 {idle} 20 1 2 {steal} 0 0\ncpu0 1\ncpu1 1\nintr 5\n"


@pytest.fixture
def made_up(tmp_path) -> Path:
    """A quiet machine of two processors that tells everything."""
    cpufreq = "sys/devices/system/cpu/cpu{}/cpufreq"
    contents = {
        "proc/stat": STAT.format(idle=1000, steal=10),
        "proc/loadavg": "0.50 0.40 0.30 1/100 1234\n",
        "proc/meminfo": "MemTotal: 100 kB\nDirty: 1024 kB\nWriteback: 0 kB\nWritebackTmp: 9 kB\n",
        "proc/cpuinfo": "cpu MHz\t\t: 1200.5\n",
        cpufreq.format(0) + "/scaling_cur_freq": "800000\n",
        cpufreq.format(0) + "/scaling_governor": "powersave\n",
        cpufreq.format(1) + "/scaling_cur_freq": "2600000\n",
        cpufreq.format(1) + "/scaling_governor": "powersave\n",
        "sys/class/thermal/thermal_zone0/temp": "41000\n",
        "sys/class/hwmon/hwmon0/temp1_input": "47500\n",
        "sys/block/sda/stat": "1 0 8 1 2 0 16 2 0 3 4 5 0 40 6 0 0\n",
        "sys/block/md0/md/sync_action": "idle\n",
        "sys/block/md0/stat": "0 0 0 0 0 0 0 0 0 0 0\n",
    }
    for name, content in contents.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    return tmp_path


def pass_time(root: Path, **changes: str) -> None:
    """A second later: 200 ticks went by on two processors, and what else changed."""
    (root / "proc/stat").write_text(STAT.format(idle=1200, steal=10))
    for name, content in changes.items():
        (root / name.replace("__", "/")).write_text(content)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"proc__stat": "cpu  200 0 100 1050 20 1 2 10\ncpu0 1\ncpu1 1\n"}, "used 1.5 of 2 processors"),
        ({"proc__stat": STAT.format(idle=1150, steal=60)}, "used 0.5 of 2 processors"),
        ({"proc__meminfo": "Dirty: 20000 kB\nWriteback: 4576 kB\n"}, "24 MiB were still to be written"),
        ({"sys__block__md0__md__sync_action": "resync\n"}, "array md0"),
        ({"sys__block__sda__stat": "1 0 8 1 2 0 16 2 0 3 4 9 0 40 6 0 0\n"}, "discarding"),
        ({"sys__block__sda__stat": "1 0 8 1 2 0 16 2 3 3 4 5 0 40 6 0 0\n"}, "at work"),
    ],
)
def test_what_is_not_quiet(made_up, changes, words):
    before = conditions.sample(made_up)
    pass_time(made_up, **changes)
    said = conditions.noise(before, conditions.sample(made_up))
    assert words in said and "\n" not in said


def test_nothing_but_passing_time_is_quiet(made_up):
    before = conditions.sample(made_up)
    pass_time(made_up)
    assert conditions.noise(before, conditions.sample(made_up)) == ""


def test_settling_ends_when_it_is_quiet_or_the_limit_is_reached(made_up):
    (made_up / "sys/block/md0/md/sync_action").write_text("check\n")
    slept = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            (made_up / "sys/block/md0/md/sync_action").write_text("idle\n")

    found = conditions.settle(10, made_up, sleep)
    assert (found["settled"], found["waited_s"], found["reason"], found["resync"]) == (True, 3, "", [])
    (made_up / "sys/block/md0/md/sync_action").write_text("check\n")
    found = conditions.settle(5, made_up, lambda _: None)
    assert (found["settled"], found["waited_s"], found["resync"]) == (False, 5, ["md0"])
    assert "md0" in found["reason"] and found["dirty_bytes"] == 1 << 20 and found["load_1min"] == 0.5


def test_conditions_are_read(made_up):
    before = conditions.read(made_up)
    assert before["frequency_mhz"] == [800, 2600] and before["governor"] == "powersave"
    assert (before["temperature_c"], before["dirty_bytes"], before["steal_share"]) == (47.5, 1 << 20, None)
    (made_up / "proc/stat").write_text(STAT.format(idle=1150, steal=60))
    assert conditions.read(made_up, since=before)["steal_share"] == 0.25


def test_a_machine_that_tells_nothing(tmp_path):
    found = conditions.read(tmp_path)
    assert set(found.values()) == {None}
    assert conditions.settle(3, tmp_path, lambda _: None)["settled"]


def test_wrong_time_to_settle_is_a_sentence(monkeypatch):
    monkeypatch.setenv("REPROFS_SETTLE", "soon")
    with pytest.raises(UserError, match="REPROFS_SETTLE must be a number"), conditions.watched(get_lab("mount")):
        pass


def test_real_clocks_are_watched_and_the_exact_one_is_not(real_clock):
    with conditions.watched(get_lab("exact")) as found:
        pass
    assert found == {}
    with conditions.watched(get_lab("mount")) as found:
        pass
    assert found["settling"]["waited_s"] >= 1 and found["settling"]["settled"] in (True, False)
    assert found["conditions"]["before"]["load_1min"] is not None and found["conditions"]["after"]["dirty_bytes"] >= 0


# ---- in the workflow


@pytest.fixture
def small_study(checkout):
    """A study of two trials in the mount lab."""
    study = yaml.safe_load((ROOT / "config/studies/quick.yaml").read_text())
    study.update(labs=["mount"], filesystems=["here"], workloads=["metadata"], profiles=["ram"], rounds=2, title="Here")
    (checkout / "config/studies/mine.yaml").write_text(yaml.safe_dump(study))
    return checkout


def snakemake(folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    command = [BIN / "snakemake", "data/tables/mine", "--cores", "2", *arguments, "--config", "study=mine"]
    environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "REPROFS_SETTLE": "1"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)


@pytest.mark.wide
def test_workflow_without_the_limit_stops_before_any_trial(small_study):
    shutil.rmtree(small_study / "profiles")
    done = snakemake(small_study)
    assert done.returncode != 0
    assert "trials on a real clock, which must run one at a time" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(small_study.glob("data/raw/mine/*.json"))


@pytest.mark.wide
def test_workflow_runs_real_clocks_one_at_a_time(small_study):
    """No guest is built for them, every trial has all cores, and its line says where it ran."""
    profile = small_study / "profiles/default/profile.yaml"
    profile.write_text("".join(line for line in profile.open() if not line.startswith("quiet")))
    plan = snakemake(small_study, "--dry-run").stdout
    assert plan.count("threads: 2") == plan.count("bench_slot=1") == 2 and "rule guest" not in plan, plan
    done = snakemake(small_study)
    assert done.returncode == 0, done.stderr
    assert "trial 2 of 2: mount ram here+default metadata round" in done.stderr
    records = [json.loads(path.read_text()) for path in small_study.glob("data/raw/mine/*.json")]
    assert [record["status"] for record in records] == ["ok", "ok"]
    assert all(record["environment"]["settling"]["waited_s"] >= 1 for record in records)


def test_progress_begins_with_the_records_that_are_there(tmp_path, monkeypatch):
    monkeypatch.delenv("REPROFS_PROGRESS", raising=False)
    (tmp_path / "done.json").touch()
    with contextlib.ExitStack() as after:
        after.callback(os.environ.pop, "REPROFS_PROGRESS", None)
        progress.start([tmp_path / "done.json", tmp_path / "missing.json"])
        assert os.environ["REPROFS_PROGRESS"].split()[1:] == ["1", "2"]


def progress_lines(folder: Path, monkeypatch, before: int, ends: list[float], at_most: bool = False) -> list[str]:
    """What is said of trials that end at these seconds of a run; of its 60 trials `before` were there already."""
    now, lines = 1_000_000.0, []
    monkeypatch.delenv("REPROFS_PROGRESS", raising=False)
    monkeypatch.setattr(progress.time, "time", lambda: now)
    records = [folder / f"{number}.json" for number in range(60)]
    for number in range(before):
        path = folder / f"{number}.json"
        path.write_text("{}")
        os.utime(path, (now - 0.25, now - 0.25))
    trial = {"lab": progress.USUAL_LAB, "stack": "single", "profile": "ssd", "filesystem": "ext4", "variant": "default"}
    trial |= {"workload": "metadata", "round": 1}
    with contextlib.ExitStack() as after:
        after.callback(os.environ.pop, "REPROFS_PROGRESS", None)
        progress.start(records, at_most)
        for number, seconds in enumerate(ends, start=before):
            now = 1_000_000.0 + seconds
            path = folder / f"{number}.json"
            path.write_text("{}")
            os.utime(path, (now, now))
            line = progress.line({"trial": trial, "status": "ok", "reason": ""}, path, 1.0)
            lines.append(line.replace("ext4+default metadata round 1: ok in 1.0 s; ", ""))
    return lines


def test_the_time_left_is_not_told_by_the_first_trial_which_boots_the_guest(tmp_path, monkeypatch):
    lines = progress_lines(tmp_path, monkeypatch, 0, [28, 30, 32, 34, 36, 38])
    assert lines[0] == "trial 1 of 60: elapsed 0:28"
    assert lines[3] == "trial 4 of 60: elapsed 0:34"
    assert lines[4] == "trial 5 of 60: elapsed 0:36, about 1:50 left"  # 55 trials, two seconds each
    assert lines[5] == "trial 6 of 60: elapsed 0:38, about 1:48 left"


def test_the_time_left_is_told_by_the_last_trials(tmp_path, monkeypatch):
    """Those before were taken from the store: half a second each."""
    lines = progress_lines(
        tmp_path, monkeypatch, 0, [number / 2 for number in range(30)] + [15 * k for k in range(2, 22)]
    )
    assert lines[-1] == "trial 50 of 60: elapsed 5:15, about 2:30 left"


def test_a_run_that_is_taken_up_counts_the_trials_that_were_there(tmp_path, monkeypatch):
    lines = progress_lines(tmp_path, monkeypatch, 40, [3, 6, 9, 12, 15], at_most=True)
    assert lines[0] == "trial 41 of at most 60: elapsed 0:03"
    assert lines[4] == "trial 45 of at most 60: elapsed 0:15, at most 0:45 left"


def test_trials_that_are_made_again_are_counted_alone(tmp_path, monkeypatch):
    lines = progress_lines(tmp_path, monkeypatch, 59, [2, 4])
    assert lines == ["trial 60 of 60: elapsed 0:02", "trial 2: elapsed 0:04"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"flag": ["sse4_2", "avx2"]}, "the processor has no avx2"),
        ({"flag": ["spectre_v1"]}, "the processor has no spectre_v1"),  # which is in a later line, that of its bugs
        ({"divider": 3}, "its timer's divider is 8, but they should be 1/2 and 3"),
        ({"instructions_per_ns": 1}, "takes 1/2 ns an instruction"),
    ],
)
def test_another_processor_than_the_one_asked_for_ends_the_trial(guest, changes, words):
    asked = {"instructions_per_ns": 2, "divider": 8, "flag": ["sse4_2", "popcnt"]} | changes
    outcome = get_lab("exact").open().run(job_of(Processor(**asked)), 60)
    (failure,) = [event["reason"] for event in events(outcome.output) if event["event"] == "failed"]
    assert words in failure
