"""The guest image and the exact lab. Tests with the fixture `guest` need its image, and most of them start QEMU."""

import contextlib
import hashlib
import itertools
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from argparse import Namespace
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

import pytest
from conftest import ROOT
from helpers import CATALOG, device, job_of, outputs, shell, told
from reprofs import files
from reprofs.cli import workflow
from reprofs.errors import UserError
from reprofs.guest import cache, fetch, initrd, inside, unpack
from reprofs.guest import image as builder
from reprofs.guest.lock import read_lock
from reprofs.guest.qemu import own as own_qemu
from reprofs.guest.steps import Clock, Exec, Job, Teardown, job_line
from reprofs.labs import _qemu as qemu
from reprofs.labs import _states, exact, get_lab, vm
from reprofs.labs._base import HANGS
from reprofs.plan import PROCESSOR
from reprofs.plan.filesystem import Filesystem
from reprofs.plan.guest import FILE as GUESTS
from reprofs.plan.guest import Guests, read_guest
from reprofs.plan.processor import Processor
from reprofs.plan.read import read_yaml
from reprofs.plan.stack import Layer
from reprofs.records import raw
from reprofs.records.raw import parse_events

# ---- the image, without QEMU


def test_cpio_is_deterministic_and_padded():
    entries = [("bin", 0o755, None), ("bin/x", 0o755, b"abc"), ("y", 0o644, b"")]
    archive = initrd.cpio(entries)
    assert archive == initrd.cpio(entries)
    assert archive.startswith(b"070701") and len(archive) % 4 == 0
    assert archive.count(b"070701") == 4 and b"TRAILER!!!" in archive
    if shutil.which("cpio"):
        listed = subprocess.run(["cpio", "--list", "--quiet"], input=archive, capture_output=True, check=True).stdout
        assert listed.split() == [b"bin", b"bin/x", b"y"]


def test_modules_come_after_what_they_need():
    dependencies = (
        "k/erofs.ko: k/libcrc32c.ko k/crc.ko\nk/libcrc32c.ko: k/crc.ko\nk/crc.ko:\n"
        "k/nd-pmem.ko.xz: k/btt.ko.xz\nk/btt.ko.xz:\n"
    )
    order = initrd.module_order(dependencies, ("erofs", "nd_pmem"))
    assert order == ["k/crc.ko", "k/libcrc32c.ko", "k/erofs.ko", "k/btt.ko.xz", "k/nd-pmem.ko.xz"]
    with pytest.raises(UserError, match="no module reiser5"):
        initrd.module_order(dependencies, ("reiser5",))


def test_root_image_is_the_same_wherever_and_whenever_made(tmp_path):
    tools = builder.erofs_tools(files.cache_folder(), read_lock(), print)
    names = ["etc/b", "etc/a", "usr/bin/tool", "usr/lib/x/y/z"]
    images = []
    for turn, order in enumerate((names, names[::-1])):
        tree = tmp_path / f"tree-{turn}"
        for name in order:
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).write_text(name * 3000)
        (tree / "etc/link").symlink_to("a")
        os.link(tree / "etc/a", tree / "usr/hard")
        os.utime(tree / "etc/a", (turn, turn))
        builder.make_image(tree, tmp_path / f"{turn}.erofs", tools)
        images.append((tmp_path / f"{turn}.erofs").read_bytes())
    assert images[0] == images[1]
    assert len(images[0]) % builder.PMEM_BYTES == 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"suites": "trixie"}, "unknown key 'suites'"),
        ({"memory_mib": "much"}, "memory_mib is 'much', but must be of type integer"),
        ({"memory_mib": 64}, "at least 512"),
        ({"packages": ["git", "Not A Package"]}, "Not A Package"),
        ({"packages": "git"}, "packages is 'git', but must be of type list"),
        ({"guests": ["zfs"]}, "guests is .* but must be of type mapping"),
        ({"memory_mib": 2**21}, "at most 1048576"),
        ({"packages": [["git"]]}, r"packages\.0 is \['git'\], but must be of type string"),
        (
            {"suite": "--hook=touch PWNED"},
            "suite is '--hook=touch PWNED', but must be a name of up to 64 lower-case letters",
        ),
        (
            {"guests": {"z$(touch PWNED)": {"packages": []}}},
            r"a key at guests is 'z\$\(touch PWNED\)', but must be a name of up to 64 lower-case letters",
        ),
        (
            {"guests": {"zfs": {"packages": [], "component": "a b"}}},
            "is 'a b', but must be a name of up to 64 lower-case letters",
        ),
        (
            {"guests": {"zfs": {"packages": [], "userland": "a b"}}},
            "is 'a b', but must be a name of up to 64 lower-case letters",
        ),
        (
            {"guests": {"zfs": {"packages": [], "package": "x"}}},
            "unknown key 'package' at guests.zfs: did you mean packages",
        ),
        ({"guests": {"zfs": {"modules": "zfs-dkms"}}}, "key 'packages' is missing at guests.zfs"),
    ],
)
def test_a_wrong_description_is_one_sentence(tmp_path, edit_yaml, change, words):
    path = shutil.copy(ROOT / GUESTS, tmp_path / "guest.yaml")
    edit_yaml(Path(path), lambda data: data.update(change))
    with pytest.raises(UserError, match=words) as caught:
        read_guest(path=Path(path))
    assert str(path) in str(caught.value)


def test_guests_of_the_description(reprofs, says, tmp_path):
    base, zfs = read_guest(), read_guest("zfs")
    assert (base.component, base.modules) == ("", "")
    assert set(zfs.packages) - set(base.packages) == {"fio", "git-annex", "zfsutils-linux"}
    says(reprofs("guest", "--output", tmp_path / "zsf.json"), "has no guest 'zsf': did you mean zfs?")
    says(
        reprofs("guest", "--output", tmp_path / "other.json"),
        "has no guest 'other': known are base, annex, fio, luks, mergerfs, zfs",
    )


@pytest.mark.soak
def test_a_newer_userland_has_the_same_kernel(engine, tmp_path):
    made = {}
    for name in ("base", "saunafs"):
        made[name] = builder.build(files.cache_folder(), tmp_path / f"{name}.json", engine, print, name=name)
    base, newer = made["base"], made["saunafs"]
    kernel = {name: version for name, version in base["packages"].items() if name.startswith("linux-image-")}
    assert kernel and kernel.items() <= newer["packages"].items()
    assert (newer["kernel"], newer["modules"]) == (base["kernel"], base["modules"])
    assert newer["packages"]["libc6"] != base["packages"]["libc6"]


def test_cached_folder_is_made_once_and_again_when_it_was_cut(tmp_path):
    made = []

    def make(home: Path) -> dict:
        made.append(home)
        (home / "file").write_text("x" * 1000)
        return {"turn": len(made)}

    home = tmp_path / "things/abc"
    home.parent.mkdir()
    assert [cache.kept(home, make, lambda known: {})["turn"] for _ in range(3)] == [1, 1, 1]
    os.truncate(home / "file", 10)
    assert cache.kept(home, make, lambda known: {}) == {"turn": 2, "sizes": {"file": 1000}}

    def fail(home: Path) -> dict:
        (home / "file").write_text("half")
        raise UserError("no")

    with pytest.raises(UserError):
        cache.kept(tmp_path / "things/other", fail, lambda known: {})
    assert {path.name for path in home.parent.iterdir()} == {"abc", "abc.lock", "other.lock"}


def build_small(tmp_path: Path, engine: Path, **options) -> dict:
    return builder.build(tmp_path / "cache", tmp_path / "manifest.json", engine, lambda _: None, **options)


def left(tmp_path: Path) -> list[str]:
    """What a build left in the cache, lock files aside."""
    return [path.name for path in (tmp_path / "cache/root").iterdir() if path.suffix != ".lock"]


def test_mirror_that_cannot_be_reached(tmp_path, engine, monkeypatch):
    with socket.socket() as closed:  # bound, but nobody listens
        closed.bind(("127.0.0.1", 0))
        mirror = f"http://127.0.0.1:{closed.getsockname()[1]}/debian"
        monkeypatch.setattr(fetch, "mirrors_of_this_machine", lambda: [mirror])
        with pytest.raises(UserError, match=r"packages of envs/lab\.lock are on none of 1 mirrors, first ") as caught:
            build_small(tmp_path, engine)
    assert mirror in str(caught.value) and "\n" not in str(caught.value)
    assert left(tmp_path) == [] and not (tmp_path / "manifest.json").exists()


def test_full_disk_is_said_before_anything_starts(tmp_path, engine, monkeypatch):
    monkeypatch.setattr(cache, "FREE_BYTES", 10**18)
    monkeypatch.setattr(builder.qemu, "bundle", lambda *_: {})
    with pytest.raises(UserError, match="not enough disk space for the guest"):
        build_small(tmp_path, engine)
    assert left(tmp_path) == []


def test_cache_that_cannot_be_written(tmp_path, engine):
    (tmp_path / "cache").write_text("a file where the folder should be")
    with pytest.raises(UserError, match=r"cannot write to .*cache"):
        build_small(tmp_path, engine)


def with_packages(cache: Path) -> Path:
    """A cache with nothing but the packages of the usual one, which are not fetched again."""
    cache.mkdir(exist_ok=True)
    shutil.copytree(files.cache_folder() / "packages", cache / "packages", copy_function=os.link)
    return cache


PROGRAM = (
    "import sys; from pathlib import Path; from reprofs.guest import image as guest\n"
    "guest.build(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), lambda line: print(line, flush=True))\n"
)


@pytest.mark.soak
def test_a_build_elsewhere_makes_the_same_bytes_also_after_a_kill(tmp_path, engine, guest):
    """By a user with another umask, time zone and language, in a folder that no list of paths could name."""
    cache = with_packages(tmp_path / "their own: cache")
    environment = {
        **os.environ,
        "TZ": "Asia/Tokyo",
        "LC_ALL": "C",
        "LD_LIBRARY_PATH": "/nowhere",
        "HOME": str(tmp_path),
    }
    command = [sys.executable, "-c", f"import os; os.umask(0o077)\n{PROGRAM}", cache, tmp_path / "own.json", engine]
    build = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert any("modules must be compiled" in line for line in build.stdout)
    time.sleep(10)
    build.kill()
    build.wait()
    deadline = time.monotonic() + 60
    while (busy_in(cache) or mounts_in(cache)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not busy_in(cache) and not mounts_in(cache)
    assert not (tmp_path / "own.json").exists()
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    again = json.loads((tmp_path / "own.json").read_text())
    assert again["built"] == guest["built"] and again["unlocked"] == []
    assert not list(cache.rglob("*.partial"))
    shutil.rmtree(cache)  # a gigabyte


@pytest.mark.soak
@pytest.mark.skipif(os.geteuid() != 0, reason="another user is tried by root")
def test_a_build_without_root_makes_the_same_bytes(engine, guest):
    """In a user namespace. With the system's Python: that user may not enter root's home, if ours is there."""
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        cache = with_packages(base / "cache")
        shutil.copytree(files.cache_folder() / "engine", cache / "engine")
        for path in (base, cache, *cache.rglob("*")):
            if path.parent.name != "packages":
                os.chown(path, 65534, 65534)
        site = next(Path(sys.prefix).glob("lib/python3.*/site-packages"))
        python = shutil.which("python3", path="/usr/bin:/bin")
        version = subprocess.run([python, "--version"], capture_output=True, text=True, check=True).stdout
        if not version.startswith(f"Python {sys.version_info.major}.{sys.version_info.minor}."):
            pytest.skip(f"/usr/bin has {version.strip()}, and the environment is for another")
        command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", python, "-c", PROGRAM]
        command += [cache, base / "own.json", cache / "engine" / engine.name]
        environment = {"PYTHONPATH": f"{ROOT}/scripts:{site}", "HOME": folder, "PATH": "/usr/bin:/bin"}
        subprocess.run(list(map(str, command)), env=environment, check=True, stdout=subprocess.DEVNULL, cwd=ROOT)
        assert json.loads((base / "own.json").read_text())["built"] == guest["built"]


@pytest.fixture
def small_root(tmp_path) -> Path:
    """A root with the commands of busybox that a script needs to begin."""
    (packed,) = [package for package in read_lock().sets["base"].packages if package.name == "busybox-static"]
    found = fetch.fetch(files.cache_folder(), read_lock(), [packed], print)
    root = tmp_path / "root"
    unpack.Tree(root).add(found[packed.name], packed.sha256)
    for command in ("sh", "mkdir", "ln", "sleep", "echo", "cat", "id", "rm"):
        (root / "usr/bin" / command).symlink_to("busybox")
    (root / "usr/bin/ldconfig").write_text("#!/bin/sh\n")
    (root / "usr/bin/ldconfig").chmod(0o755)
    return root


def test_a_script_runs_in_the_root_and_sees_nothing_of_this_machine(small_root, tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET", "word")
    script = 'cat note > out/note; echo "$(id -u) $PATH $PWD $TZ ${SECRET-none}" > out/said\n'
    script += "echo x > /dev/null; rm -f /dev/null || true; [ -c /dev/null ]\n"
    out = tmp_path / "out"
    out.mkdir()
    inside.build(small_root, {}, script, {"note": b"given"}, print, out)
    assert {path.name: path.read_text() for path in out.iterdir()} == {
        "note": "given",
        "said": f"0 {inside.PATH} /build UTC none\n",
    }
    assert not mounts_in(small_root) and Path("/dev/null").is_char_device()
    assert all(path.stat().st_size == 0 for path in (small_root / "dev").iterdir())


def test_a_script_that_fails_is_one_sentence(small_root):
    script = "echo 'a.c:1: error: unknown  type'; exit 1\n"
    with pytest.raises(UserError, match=r"compiling locked packages failed: a\.c:1: error: unknown type$"):
        inside.build(small_root, {}, script, {}, print, small_root)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("configure: error: \n\t*** This kernel has no modules", "failed: configure: error: This kernel has no"),
        ("a.c:7:1: error: unknown type\nmake: *** [Makefile:5: all] Error 2", "failed: a.c:7:1: error: unknown"),
        ("make: *** [Makefile:56: modules] Error 2", r"failed: \[Makefile:56: modules"),
        ("a.c:1: error: No space left on device", "no disk space for compiling"),
        ("enter: unshare: Operation not permitted", "needs user namespaces.*or build as root"),
        ("the last words of a script", "failed: the last words of a script$"),
    ],
)
def test_what_is_said_of_a_failed_script(words, sentence):
    assert re.search(sentence, str(inside._error(words)))


def test_a_killed_compiler_leaves_no_process_and_no_mount(small_root):
    program = (
        "import sys; from pathlib import Path; from reprofs.guest import inside\n"
        "root = Path(sys.argv[1])\n"
        "inside.build(root, {}, 'echo > out/begun; while :; do sleep 1; done', {}, print, root)\n"
    )
    build = subprocess.Popen([sys.executable, "-c", program, small_root])
    deadline = time.monotonic() + 60
    while not (small_root / "build/out/begun").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert (small_root / "build/out/begun").exists() and busy_in(small_root)
    build.kill()
    build.wait()
    while busy_in(small_root) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not busy_in(small_root) and not mounts_in(small_root)


def busy_in(folder: Path) -> list[str]:
    """Processes that work in a folder: its name is in their command line or environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if str(folder).encode() in (process / "environ").read_bytes() + (process / "cmdline").read_bytes():
                found.append(process.name)
    return found


def mounts_in(folder: Path) -> list[str]:
    return [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if f" {folder}/" in line]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_left_folder_with_a_mount_is_not_removed(tmp_path):
    """What is mounted in a folder that a killed run left is not its own."""
    program = (
        "from pathlib import Path; from reprofs.workplace import workplace\n"
        "with workplace(): pass\n"
        f"assert Path({str(tmp_path)!r}, 'reprofs-work-dead/mounted/precious').exists()\n"
        f"assert not Path({str(tmp_path)!r}, 'reprofs-work-gone').exists()\n"
    )
    for name in ("dead", "gone"):
        (tmp_path / f"reprofs-work-{name}").mkdir()
        (tmp_path / f"reprofs-work-{name}" / "owner").touch()
    target = tmp_path / "reprofs-work-dead/mounted"
    target.mkdir()
    script = 'mount -t tmpfs none "$1" && touch "$1/precious" && TMPDIR="$2" exec "$3" -c "$4"'
    command = ["unshare", "--mount", "sh", "-c", script, "sh", target, tmp_path, sys.executable, program]
    subprocess.run(command, check=True)


def test_manifest_describes_what_is_there(guest, engine):
    cache = files.cache_folder()
    for part in ("root", "vmlinuz", "initrd", "gate"):
        path = cache / guest[part]["file"]
        assert path.stat().st_size == guest[part]["bytes"]
        assert builder.sha256(path) == guest[part]["sha256"]
    assert guest["engine_sha256"] == builder.sha256(engine)
    assert not guest["root"]["file"].startswith("/")  # no path of this machine
    packages = {"e2fsprogs", "xfsprogs", "btrfs-progs", "jfsutils", "reiserfsprogs", "f2fs-tools", "nilfs-tools", "git"}
    assert packages <= guest["packages"].keys()


# ---- the lab, with QEMU: about 100 s in all


def work(extra: str = "true") -> Job:
    """A job that touches what could differ between runs: devices, a file system, random numbers, clocks, interrupts."""
    return job_of(
        Clock(),
        *exact.ExactLab.device_steps(exact.Disks(device(completion_ns=80_000, bandwidth_mb_s=500), 1, 512)),
        shell("mkdir -p /run/m; modprobe ext4; mkfs.ext4 -q /dev/nullb0; mount /dev/nullb0 /run/m"),
        shell("cd /run/m; for i in $(seq 200); do echo $i > $i; sync $i; done; ls | sha256sum"),
        shell("cat /proc/sys/kernel/random/uuid /proc/uptime /proc/interrupts /sys/block/nullb0/stat; date +%s.%N"),
        shell(extra),
    )


@contextlib.contextmanager
def busy():
    """A busy process beside what is measured."""
    burn = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        burn.kill()
        burn.wait()


def test_unknown_lab_lists_the_known():
    with pytest.raises(UserError, match=r"unknown lab 'moon'; known are .*exact"):
        get_lab("moon")


def test_job_line_escapes():
    assert job_line("write", path="a\tb", text="c\\d\ne") == "write\tpath=a\\tb\ttext=c\\\\d\\ne"


def test_slow_device_is_refused():
    with pytest.raises(UserError, match="bandwidth_mb_s is 5, but"):
        exact.ExactLab.device_steps(exact.Disks(device(bandwidth_mb_s=5), 1, 64))


PANIC = """[    0.41] BUG: kernel NULL pointer dereference, address: 0000000000000000
[    0.42] Oops: 0000 [#1] PREEMPT SMP NOPTI
[    0.43] Kernel panic - not syncing: Attempted to kill init! exitcode=0x00000100
[    0.44] Kernel Offset: disabled
"""


@pytest.mark.parametrize(
    ("console", "said"),
    [
        (PANIC, "; [ 0.43] Kernel panic - not syncing: Attempted to kill init! exitcode=0x00000100"),
        (PANIC.replace("panic - not", "is"), f"; [ 0.41] BUG: kernel NULL pointer dereference, address: {0:016}"),
        ("debugged\nmounting the image\n", "; mounting the image"),
        ("", ""),
    ],
)
def test_a_start_that_failed_says_why_and_how_long_was_waited(tmp_path, console, said):
    machine = object.__new__(qemu.Machine)
    machine.place, machine.panicked, machine.shutdown, machine.received = tmp_path, False, "", b""
    (tmp_path / "console").write_text(console)
    machine.socket, theirs = socket.socketpair()
    with machine.socket, theirs:
        with pytest.raises(qemu.MachineError) as error:
            machine.wait_for_pause(time.monotonic())
        assert str(error.value) == f"it did not start within 0 s{said}"
        theirs.sendall(b'{"event": "SHUTDOWN", "data": {"reason": "guest-reset"}}\n')
        with pytest.raises(qemu.MachineError) as error:
            machine.wait_for_pause(time.monotonic() + 600)
        assert str(error.value) == f"it ended while starting{said}"


def test_a_kernel_that_panics_is_not_taken_for_a_guest_that_pauses(tmp_path):
    """A kernel with a driver of pvpanic tells of its end by the same event; its state would have been saved."""
    machine = object.__new__(qemu.Machine)
    machine.place, machine.panicked, machine.shutdown, machine.received = tmp_path, False, "", b""
    machine.socket, theirs = socket.socketpair()
    told = b'{"event": "GUEST_PANICKED", "data": {"action": "pause"}}\n'
    with machine.socket, theirs:
        (tmp_path / "console").write_text("a warning\n")
        theirs.sendall(told)
        machine.wait_for_pause(time.monotonic() + 600)
        theirs.sendall(told)
        assert machine.paused(time.monotonic() + 600) and not machine.panicked
        (tmp_path / "console").write_text(PANIC)
        theirs.sendall(told)
        with pytest.raises(qemu.MachineError, match=r"ended while starting; .*Kernel panic - not"):
            machine.wait_for_pause(time.monotonic() + 600)
        machine.panicked = False
        theirs.sendall(told)
        assert not machine.paused(time.monotonic() + 600)
        assert machine.wait_for_end(time.monotonic() + 600) == "panic"


STALL = "[   91.2] rcu: rcu_preempt kthread starved for 21007 jiffies! g-379 f0x2 RCU_GP_WAIT_FQS(5) ->state=0x0"


def test_a_kernel_that_hangs_is_not_waited_for(tmp_path, monkeypatch):
    """As null_blk does on one processor, when its cache is full (docs/methods/devices.md)."""
    monkeypatch.setattr(qemu, "SILENT_S", 0.01)
    machine = object.__new__(qemu.Machine)
    machine.place, machine.panicked, machine.shutdown, machine.received = tmp_path, False, "", b""
    machine.socket, theirs = socket.socketpair()
    monkeypatch.setattr(machine, "_ask", lambda *_, **__: "RFL=00000246")
    with machine.socket, theirs:
        (tmp_path / "console").write_text(STALL.replace("21007", "5252"))  # 21 s, which a thread may need
        assert machine.wait_for_end(time.monotonic() + 0.1, HANGS) == "timeout"
        (tmp_path / "console").write_text(STALL)
        assert machine.wait_for_end(time.monotonic() + 0.1) == "timeout"  # a lab whose clock is the host's
        assert machine.wait_for_end(time.monotonic() + 600, HANGS) == "hang"
        (tmp_path / "console").write_text("")
        looks = itertools.cycle(["RFL=00000046 RFL=00000246", "RFL=00000202 RFL=00000002"])  # each of two at times
        monkeypatch.setattr(machine, "_ask", lambda *_, **__: next(looks))
        assert machine.wait_for_end(time.monotonic(), HANGS) == "timeout"
        seldom = iter([*["RFL=00000046"] * 30, "RFL=00000246"])  # as where a worn drive is modelled
        monkeypatch.setattr(machine, "_ask", lambda *_, **__: next(seldom))
        assert machine.wait_for_end(time.monotonic(), HANGS) == "timeout"
        monkeypatch.setattr(machine, "_ask", lambda *_, **__: "RFL=00000246 RFL=00000046")
        assert machine.wait_for_end(time.monotonic(), HANGS) == "hang"
        assert machine.wait_for_end(time.monotonic()) == "timeout"
    events = [{"event": "phase", "name": "make-tree"}]
    assert raw.status("hang", events, f"quiet\n{STALL}\n", 9) == (
        "failed",
        f"The guest's kernel hangs after phase make-tree; it says: {STALL}",
    )
    assert raw.status("hang", events, "quiet\n", 9)[1].endswith(
        "after phase make-tree; it lets nothing interrupt a processor."
    )


def test_no_qemu_of_the_host(guest, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    exact.ExactLab(guest, files.cache_folder())  # which has one of its own
    monkeypatch.setenv("REPROFS_QEMU", "host")
    with pytest.raises(UserError, match="Debian package qemu-system-x86, or unset REPROFS_QEMU"):
        exact.ExactLab(guest, files.cache_folder())


def test_missing_image(guest, tmp_path):
    with pytest.raises(UserError, match="missing or damaged"):
        exact.ExactLab(guest, tmp_path)


def own_cache(folder: Path, guest: dict) -> Path:
    """A cache with the files of the guest, as links: what is made or damaged there hurts nobody else."""
    for part in ("root", "vmlinuz", "initrd", "gate"):
        link = folder / guest[part]["file"]
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(files.cache_folder() / guest[part]["file"])
    (folder / "qemu").mkdir(exist_ok=True)
    for name in guest["qemu"]["folder"], own_qemu(files.cache_folder(), print)["folder"]:
        (folder / name).symlink_to(files.cache_folder() / name)
    return folder


def damage(path: Path, cut: bool = False) -> None:
    """40 flipped bits, or the end missing; size and time stay the same in the first case."""
    data, times = bytearray(path.read_bytes()), path.stat()
    draw = random.Random(1)
    for _ in range(40):
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    path.unlink()  # if it is a link, only that
    path.write_bytes(data[: len(data) // 2] if cut else data)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


@pytest.mark.parametrize("part", ["vmlinuz", "initrd", "gate"])
def test_damaged_file_of_a_guest_is_not_used_and_made_again(guest, tmp_path, monkeypatch, part):
    cache = own_cache(tmp_path, guest)
    exact.ExactLab(guest, cache)
    damage(cache / guest[part]["file"])
    with pytest.raises(UserError, match=f"the guest's {part} .* is missing or damaged"):
        exact.ExactLab(guest, cache)
    made = []
    monkeypatch.setattr(builder, "cache_folder", lambda: cache)
    monkeypatch.setattr(builder, "build", lambda *arguments, name: made.append(name))
    builder.ensure("base", print)
    assert made == ["base"] and not (cache / guest[part]["file"]).exists()
    (cache / guest[part]["file"]).symlink_to(files.cache_folder() / guest[part]["file"])
    builder.ensure("base", print)
    assert made == ["base"]


def test_the_same_guest_again_leaves_its_manifest_as_old_as_it_was(guest, engine, reprofs, tmp_path):
    """Or the workflow would take what was made in it for out of date; only its own command makes it new."""
    manifest = tmp_path / "base.json"
    builder.build(files.cache_folder(), manifest, engine, print)
    os.utime(manifest, (1, 1))
    assert builder.build(files.cache_folder(), manifest, engine, print) == guest and manifest.stat().st_mtime == 1
    done = reprofs("guest", "--output", manifest)
    assert done.returncode == 0 and json.loads(manifest.read_text()) == guest and manifest.stat().st_mtime > 1


def test_a_damaged_file_of_a_kept_folder_makes_the_folder_again(tmp_path, capsys):
    """Such as the kernel of a guest, or the QEMU with several processors."""
    made = []

    def make(home: Path) -> dict:
        made.append(home)
        return {"kernel": cache.put(home, b"x" * 1000, ""), "other": cache.put(home, b"log", ".lock")}

    def kept() -> dict:
        return cache.kept(tmp_path / "root/it", make, lambda known: {known["kernel"]: known["kernel"]})

    (tmp_path / "root").mkdir()
    found = kept()
    assert kept() == found and len(made) == 1
    damage(tmp_path / "root/it" / found["kernel"])
    assert kept() == found and len(made) == 2 and kept() == found and len(made) == 2
    assert (tmp_path / "root/it" / found["kernel"]).read_bytes() == b"x" * 1000
    assert f"reprofs: {tmp_path}/root/it/{found['kernel']} was damaged" in capsys.readouterr().err


@pytest.mark.wide
def test_trial_in_a_fresh_checkout_builds_its_guest(guest, checkout, reprofs, tmp_path):
    """Here it finds the image in the cache; a mistake in the trial is said first."""
    words = ["--lab=exact", "--stack=single", "--profile=ssd", "--workload=metadata@50", "--scale=smoke", "--round=1"]
    words += ["--seed=7", "--output", tmp_path / "record.json"]
    env = {"PYTHONPATH": str(checkout / "scripts")}
    wrong = reprofs("trial", *words, "--filesystem", "ext5", cwd=checkout, env=env)
    assert wrong.returncode == 2 and "did you mean" in wrong.stderr and not (checkout / "data/guest").exists()
    done = reprofs("trial", *words, "--filesystem", "btrfs", cwd=checkout, env=env)  # without --variant: the first
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / "record.json").read_text())
    assert (record["status"], record["trial"]["variant"]) == ("ok", "none")
    assert json.loads((checkout / "data/guest/base.json").read_text()) == guest


@pytest.mark.wide
@pytest.mark.parametrize(
    "name",
    [
        name if name == PROCESSOR else pytest.param(name, marks=pytest.mark.soak)
        for name in CATALOG.paths(Processor)
        if CATALOG.get(Processor, name).count == 1  # several: test_several_cores.py, where QEMU is compiled
    ],
)
def test_same_bytes_from_a_cold_boot_where_no_snapshot_can_be_had(guest, tmp_path, monkeypatch, name):
    """Whenever and beside what each of them booted, with its programs: another machine gets the same numbers.

    The kernel looks at the programs' module while it starts.
    """
    processor = CATALOG.get(Processor, name)
    own = exact.ExactLab(guest, own_cache(tmp_path, guest), processor=processor)
    programs = work('"$ENGINE" walk --help; "$ENGINE" mdtest --help')
    assert programs.programs() == ["mdtest", "walk"]
    job = Job([*exact.ExactLab.processor_steps(processor), *own.program_steps(), *programs.steps])
    (tmp_path / "snapshot").write_text("a file where the folder should be")
    with ThreadPoolExecutor(1) as pool:
        booted = pool.submit(own.run, job, 120)
        first = exact.ExactLab(guest, files.cache_folder(), processor=processor).run(job, 120)
        cold = booted.result()
    assert (first.ending, first.environment["start"]) == ("finished", "snapshot")
    assert (cold.environment.pop("start"), cold.output) == ("cold boot", first.output)
    assert cold.environment.items() < first.environment.items()
    monkeypatch.setenv("REPROFS_START", "cold boot")
    assert exact.ExactLab.open().start == "cold boot"


@pytest.mark.wide
def test_a_snapshot_that_cannot_be_restored_is_passed_by_with_a_cold_boot(guest, monkeypatch):
    """Such as where memory is short: in a folder of its own, for the first machine has left its files."""
    job, lab = job_of(shell("cat /proc/uptime /proc/interrupts")), exact.ExactLab(guest, files.cache_folder())
    first = lab.run(job, 120)

    def restore(machine, path):
        machine.end()
        raise qemu.MachineError("no memory")

    monkeypatch.setattr(exact.Machine, "restore", restore)
    cold = lab.run(job, 120)
    assert (first.environment["start"], cold.environment["start"]) == ("snapshot", "cold boot")
    assert (cold.ending, cold.output) == ("finished", first.output)


def test_a_state_that_was_removed_meanwhile_is_passed_by(tmp_path, monkeypatch):
    machine = object.__new__(qemu.Machine)
    machine.place = tmp_path
    monkeypatch.setattr(machine, "_share", lambda: None)
    with pytest.raises(qemu.MachineError, match=r"gone cannot be read: No such file"):
        machine.restore(tmp_path / "gone")


def test_the_engine_is_compiled_while_the_packages_are_unpacked(tmp_path, monkeypatch):
    unpacking, built = threading.Event(), []
    monkeypatch.setattr(builder.engines, "build_for_guests", lambda folder: folder / str(unpacking.wait(5)))
    monkeypatch.setattr(builder, "prepare", lambda *words: unpacking.set())
    monkeypatch.setattr(builder, "build", lambda folder, manifest, runner, *words, **names: built.append(runner.name))
    workflow.command["guest"].run(Namespace(output=tmp_path / "base.json"))
    assert built == ["True"]


def test_the_machine_of_a_cold_boot_finds_nothing_of_the_one_that_failed(guest, monkeypatch):
    places = []

    class Fake:
        def __init__(self, program, command, place, gate, incoming=False):
            assert gate.is_symlink() and (place / "job").exists()
            program.start(place, gate)
            places.append((place, incoming))
            self.place = place

        def restore(self, path):
            raise qemu.MachineError("no memory")

        def end(self):
            (self.place / "output").write_text("")
            (self.place / "console").write_text("")

        def wait_for_end(self, deadline, hangs):
            return "finished"

        wait_for_pause = call = lambda *words: None

    monkeypatch.setattr(exact, "Machine", Fake)
    monkeypatch.setenv("REPROFS_QEMU", "debian")
    lab = exact.ExactLab(guest, files.cache_folder())
    monkeypatch.setattr(lab, "_snapshot", Path)
    assert lab.run(job_of(shell("true")), 60).environment["start"] == "cold boot"
    assert [incoming for _, incoming in places] == [True, False]
    assert not any(place.exists() for place, _ in places) and len({place for place, _ in places}) == 2


def test_the_kernel_has_no_instruction_after_which_flags_may_be_wrong(guest):
    job = job_of(shell("grep -o -w -e cx16 -e cx8 /proc/cpuinfo"))
    assert outputs(exact.ExactLab(guest, files.cache_folder()).run(job, 120)) == ["cx8"]
    options = {way: vm.Lab(guest, files.cache_folder(), way)._options() for way in ("tcg", "kvm")}
    assert ["max,-cx16" in options[way] for way in options] == [True, False]


def in_two_parts(first: str, rest: str) -> Job:
    """A job whose second part goes on from where the first has stopped the machine; beside it a daemon is at work."""
    daemon = "(while sleep 0.1; do cat /proc/uptime >> /run/daemon; done) > /dev/null 2>&1 &"
    before = [*work(f"{daemon} {first}").steps, *exact.ExactLab.pause_steps()]
    after = ["sleep 1; tail -n 3 /run/daemon; date +%s.%N", "cat /proc/sys/kernel/random/uuid /proc/interrupts", rest]
    return job_of(*before, *map(shell, after), Teardown(), shell("echo the end"))


@pytest.mark.wide
def test_what_begins_alike_goes_on_from_a_saved_state(guest, tmp_path, monkeypatch, capsys):
    """With the bytes that it has without one; and what begins otherwise has another state."""
    (tmp_path / "snapshot").symlink_to(files.cache_folder() / "snapshot")
    lab = exact.ExactLab(guest, own_cache(tmp_path, guest))
    job = in_two_parts("true", "echo one")
    with monkeypatch.context() as patch:
        patch.setattr(lab, "_begun", lambda *arguments: None)
        through = lab.run(job, 120)
    first, again, other = (lab.run(one, 120) for one in (job, job, in_two_parts("true", "echo another one")))
    assert (through.ending, through.environment["start"]) == ("finished", "snapshot")
    assert {run.environment["start"] for run in (first, again, other)} == {"snapshot of what was set up"}
    assert first.output == again.output == through.output
    assert b"another one" in other.output and other.output[:2000] == first.output[:2000]
    (state,) = _states.by_age(tmp_path / "cluster")
    damage(state.with_suffix(".output"))
    assert lab.run(job, 120).output == first.output
    assert f"reprofs: {state}.output was damaged and is made again" in capsys.readouterr().err
    # The same where no state can be kept, and where the machine starts from nothing.
    shutil.rmtree(tmp_path / "cluster")
    (tmp_path / "cluster").write_text("a file where the folder should be")
    booted = lab.run(job, 120)
    assert (booted.environment["start"], booted.output) == ("cold boot", first.output)


@pytest.mark.wide
def test_a_failure_before_the_saved_state_is_told_and_nothing_is_saved(guest, tmp_path):
    (tmp_path / "snapshot").symlink_to(files.cache_folder() / "snapshot")
    lab = exact.ExactLab(guest, own_cache(tmp_path, guest))
    found = lab.run(in_two_parts("echo no more; false", "echo one"), 120)
    assert (found.ending, found.environment["start"]) == ("finished", "snapshot")
    events = parse_events(found.output)
    assert [event["reason"] for event in events if event["event"] == "failed"] == ["test: sh exited with 1: no more"]
    assert events[-2]["output"] == "the end" and not _states.by_age(tmp_path / "cluster")


def test_saved_states_go_when_there_is_no_room(tmp_path):
    for age, name in enumerate("abcd"):
        state = tmp_path / (name * 64)
        state.write_bytes(bytes(100))
        for ending in (".sha256", ".output"):
            state.with_suffix(ending).write_text("")
        os.utime(state.with_suffix(".sha256"), (age, age))
    os.utime(tmp_path / ("a" * 64 + ".sha256"), (9, 9))  # used again
    (tmp_path / ("e" * 64)).write_bytes(bytes(100))  # just being saved
    _states.drop_old(tmp_path, 250)
    assert sorted({path.name[0] for path in tmp_path.iterdir()}) == ["a", "e"]


def test_of_two_trials_that_need_the_same_state_one_makes_it(tmp_path):
    made, path = [], tmp_path / ("a" * 64)

    def make(path):
        made.append(path)
        time.sleep(0.1)
        path.write_bytes(b"state")

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda _: exact.ExactLab._save(path, make, 1000), range(2)))
    assert made == [path] and _states.found(path)


def test_a_saved_state_that_is_used_again_is_not_read_again_and_stays(tmp_path, monkeypatch):
    """Read only to be restored: its digest takes half a second of a trial of CephFS."""
    for age, name in enumerate("abc"):
        state = tmp_path / (name * 64)
        state.write_bytes(name.encode() * 100)
        state.with_suffix(".output").write_text(name)
        digests = [files.sha256(part) for part in (state, state.with_suffix(".output"))]
        files.write_text(state.with_suffix(".sha256"), "\n".join(digests))
        os.utime(state.with_suffix(".sha256"), (age, age))
    used = tmp_path / ("a" * 64)
    assert _states.found(used)
    with monkeypatch.context() as patch:
        patch.setattr(files, "sha256", lambda path: pytest.fail(f"{path.name} is read again"))
        assert _states.found(used)
    assert [state.name[0] for state in _states.by_age(tmp_path)] == ["b", "c", "a"]
    damage(used)
    assert not _states.found(used)


@pytest.mark.wide
@pytest.mark.parametrize("booted", [False, pytest.param(True, marks=pytest.mark.soak)])
def test_damaged_snapshot_is_made_again(guest, tmp_path, monkeypatch, booted):
    """It is neither used, which hangs the trial, nor passed by with a cold boot for ever. What is made again gives the
    same numbers; without booting, a copy of another stands for it.
    """
    shared = exact.ExactLab(guest, files.cache_folder())
    first = shared.run(work(), 120)
    snapshot = shared._snapshot()
    own = exact.ExactLab(guest, own_cache(tmp_path, guest), "snapshot")
    copied = tmp_path / "snapshot" / snapshot.name
    copied.parent.mkdir()
    for path in (snapshot, snapshot.with_suffix(".sha256")):
        shutil.copy2(path, copied.parent)
    assert own._snapshot() == copied  # it was looked at, and found whole
    damage(copied, cut=True)
    assert not _states.whole(copied)
    shutil.copy2(snapshot, copied)
    assert _states.whole(copied)
    damage(copied)
    made, machine = mock.Mock(), exact.ExactLab._machine
    made.save.side_effect = lambda path: shutil.copy(snapshot, path)

    def start(lab, place, incoming=False, plugin=""):
        return machine(lab, place, incoming) if booted or incoming else made

    monkeypatch.setattr(exact.ExactLab, "_machine", start)
    again = own.run(work(), 120)
    assert (again.ending, again.environment["start"], again.output) == ("finished", "snapshot", first.output)
    assert _states.whole(copied) and not list(copied.parent.glob("*.partial"))
    assert booted or made.save.call_count == 1


@pytest.mark.soak
def test_same_bytes_from_thousands_of_idle_times_beside_busy_guests(guest, monkeypatch):
    """Idle times are where QEMU's clock is not exact by itself on a busy host: without the gate most runs differ.

    Of Debian's QEMU; our own needs no gate (test_several_cores.py).
    """
    monkeypatch.setenv("REPROFS_QEMU", "debian")
    job = job_of(
        *exact.ExactLab.device_steps(exact.Disks(device(completion_ns=80_000, bandwidth_mb_s=500), 1, 512)),
        shell("dd if=/dev/zero of=/dev/nullb0 bs=4k count=4000 oflag=direct"),
        shell("for i in $(seq 8); do cat /bin/bash | cat | sha256sum; sleep 0.001; done; cat /proc/uptime"),
    )
    with busy(), ThreadPoolExecutor(3) as pool:
        outputs = list(pool.map(lambda _: exact.ExactLab(guest, files.cache_folder()).run(job, 300).output, range(3)))
    assert b'"end"' in outputs[0]
    assert len(set(outputs)) == 1


def test_long_job_arrives_whole(guest):
    job = told(f"{shell('sha256sum < /run/job').line()}\nseed\tvalue=1\tpad={'x' * 60_000}\n")
    outcome = exact.ExactLab(guest, files.cache_folder()).run(job, 120)
    assert hashlib.sha256(job.text().encode()).hexdigest() in outcome.output.decode()
    with pytest.raises(UserError, match="at most"):
        exact.ExactLab(guest, files.cache_folder()).run(told("x" * (qemu.JOB_BYTES + 1)), 120)


def test_any_path_will_do(guest, tmp_path, monkeypatch):
    """Long, with spaces and a colon: the name of a Unix socket has less than 108 bytes, LD_PRELOAD is a list."""
    folder = tmp_path / ("the folder: of somebody " + "x" * 100)
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    assert exact.ExactLab(guest, files.cache_folder()).run(job_of(Clock()), 60).ending == "finished"


def test_endings(guest):
    lab = exact.ExactLab(guest, files.cache_folder())
    panic = lab.run(job_of(shell("echo c > /proc/sysrq-trigger")), 60)
    assert panic.ending == "panic" and "Kernel panic" in panic.console
    lost = lab.run(job_of(shell("echo o > /proc/sysrq-trigger; sleep 100")), 60)
    assert lost.ending == "lost"
    hang = lab.run(job_of(shell("while :; do :; done")), 2)
    assert hang.ending == "timeout"


def test_missing_module_is_seen_in_the_trial(guest):
    outcome = exact.ExactLab(guest, files.cache_folder()).run(job_of(shell("modprobe nosuchfs")), 60)
    assert b"nosuchfs" in outcome.output and outcome.ending == "finished"


@pytest.mark.wide
def test_every_module_of_the_catalogue_is_in_the_guest(guest):
    """What the root image leaves out is hardware and networks that no trial has."""
    filesystems = [CATALOG.get(Filesystem, name) for name in CATALOG.paths(Filesystem)]
    modules = {each.module for each in filesystems} | {
        variant.module for each in filesystems for variant in each.variants.values()
    }
    modules.discard(None)
    modules |= {name for layer in CATALOG.paths(Layer) for name in CATALOG.get(Layer, layer).modules}
    modules |= {name for further in read_yaml(ROOT / GUESTS, Guests).guests.values() for name in further.preload}
    modules |= {"virtio_pci", "virtio_blk", "dm-crypt", "aes_generic"}
    modules.discard("zfs")  # compiled for its own guest
    lab = exact.ExactLab(guest, files.cache_folder())
    outcome = lab.run(job_of(shell(f"modprobe -a {' '.join(sorted(modules))}")), 60)
    assert outputs(outcome) == [""]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def command_of(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:  # it has ended meanwhile
        return ""


def test_checksums_are_computed_with_the_processors_instruction(guest):
    """libcrc32c, of which XFS has its checksums, chose once and for all when it was loaded."""
    arg = ["cat", "/sys/module/crc32c_intel/refcnt", "/sys/module/crc32c_generic/refcnt"]
    outcome = exact.ExactLab(guest, files.cache_folder()).run(job_of(Exec(stage="x", arg=arg)), 60)
    assert outputs(outcome) == ["1\n0"]


def test_a_script_substitutes_processes_and_names_its_descriptors(guest):
    arg = ["bash", "-c", "diff <(echo a) <(echo b); cat /dev/stdin <<< c; ls /dev/fd/0 /dev/stdout /dev/stderr"]
    outcome = exact.ExactLab(guest, files.cache_folder()).run(job_of(Exec(stage="x", arg=arg)), 60)
    assert outputs(outcome) == ["1c1\n< a\n---\n> b\nc\n/dev/fd/0\n/dev/stderr\n/dev/stdout"]


def test_killed_workflow_leaves_no_guest(guest, tmp_path):
    """Kill -9 of the parent: the trial and its QEMU end with it; the next run tidies up."""
    trial = tmp_path / "trial.py"
    trial.write_text(
        "import json, os, sys\n"
        "from pathlib import Path\n"
        "from reprofs import files\n"
        "from reprofs.guest.steps import Exec, Job; from reprofs.labs import exact\n"
        "from reprofs.workplace import die_with_parent\n"
        "die_with_parent()\n"
        f"manifest = json.loads({json.dumps(json.dumps(guest))})\n"
        "Path(sys.argv[1]).write_text(str(os.getpid()))\n"
        "loop = Job([Exec(stage='x', arg=['sh', '-c', 'while :; do :; done'])])\n"
        "exact.ExactLab(manifest, files.cache_folder()).run(loop, 600)\n"
    )
    note = tmp_path / "pid"
    command = f"exec {sys.executable} {trial} {note}"
    outer = subprocess.Popen([sys.executable, "-c", f"import subprocess; subprocess.run(['sh', '-c', {command!r}])"])
    children: list[int] = []
    deadline = time.monotonic() + 60
    while not children and time.monotonic() < deadline:
        time.sleep(0.1)
        if note.exists() and note.read_text():
            pid = int(note.read_text())
            tasks = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            children = [int(child) for child in tasks if "/console" in command_of(child)]
    assert children
    options = Path(f"/proc/{children[0]}/cmdline").read_bytes().split(b"\0")
    place = Path(next(option for option in options if b"/console" in option).decode().removeprefix("file:")).parent
    assert place.exists()
    outer.send_signal(signal.SIGKILL)
    outer.wait()
    deadline = time.monotonic() + 60
    while (alive(pid) or alive(children[0])) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not alive(pid) and not alive(children[0])
    exact.ExactLab(guest, files.cache_folder()).run(job_of(Clock()), 60)
    assert not place.exists()


def test_a_process_of_a_pool_ends_with_a_parent_killed_before_it_began(tmp_path):
    program = tmp_path / "pool.py"
    program.write_text(
        "import multiprocessing, os, signal, sys, time\n"
        "from concurrent.futures import ProcessPoolExecutor\n"
        "from pathlib import Path\n"
        "from reprofs.workplace import die_with_parent\n"
        "def late():\n"
        "    parent = os.getppid()\n"
        "    Path(sys.argv[1]).write_text(str(os.getpid()))\n"
        "    while os.getppid() == parent:\n"
        "        time.sleep(0.01)\n"
        "    die_with_parent()\n"
        "if __name__ == '__main__':\n"
        "    with ProcessPoolExecutor(1, multiprocessing.get_context('spawn'), late) as pool:\n"
        "        pool.submit(time.time).result()\n"
    )
    note = tmp_path / "pid"
    parent = subprocess.Popen([sys.executable, program, note])
    until = time.monotonic() + 60
    while not (note.exists() and note.read_text()) and time.monotonic() < until:
        time.sleep(0.05)
    parent.kill()
    parent.wait()
    until = time.monotonic() + 60
    while alive(int(note.read_text())) and time.monotonic() < until:
        time.sleep(0.05)
    assert not alive(int(note.read_text()))


def test_bandwidth_is_kept(guest):
    """100 MiB at 200 MiB/s take half a second of the guest's time; without a limit far less."""
    seconds = []
    for bandwidth in (200, 0):
        job = job_of(
            *exact.ExactLab.device_steps(exact.Disks(device(bandwidth_mb_s=bandwidth), 1, 128)),
            shell("dd if=/dev/zero of=/dev/nullb0 bs=1M count=100 oflag=direct"),
        )
        output = exact.ExactLab(guest, files.cache_folder()).run(job, 120).output
        seconds.append(json.loads(output.splitlines()[-2])["wall_ns"] / 1e9)
    assert seconds[0] == pytest.approx(0.5, rel=0.1) and seconds[1] < 0.2
