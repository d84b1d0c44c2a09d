"""Clean-up after trials that were killed at any moment: all that was theirs goes, all else stays."""

import contextlib
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest
from conftest import BIN
from helpers import cache_without
from reprofs import cleanup, files, leftovers
from reprofs.workplace import workplace

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="loop devices and mounts need root")

# One trial of a lab, driven with a job text; it says "running" once its engine has begun.
DRIVER = """
import json, sys
from pathlib import Path
from reprofs import files
from reprofs.guest.steps import Clock, Exec, Job, Mkdir
from reprofs.labs import Disks, exact, host, mount, vm
from reprofs.plan.device import Plain
lab, marker, target, manifest = sys.argv[1:]
def sh(script):
    return Exec(stage="t", arg=["sh", "-c", script])
if lab == "host":
    script = f"mkfs.ext4 -q -F /run/reprofs/disk0 && mount -t ext4 /run/reprofs/disk0 /run/reprofs/mnt; touch {marker}"
    steps = [Mkdir(path="/run/reprofs/mnt"), sh(script), sh("cat /dev/zero > /run/reprofs/mnt/x & sleep 60")]
    host.Lab.open().run(Job(steps), 120, Disks(Plain(title="x", backing="file"), 2, 400))
elif lab == "mount":
    job = Job([sh(f"echo x > /run/reprofs/mnt/y; touch {marker}"), sh("sleep 60")], mountpoint="/run/reprofs/mnt")
    mount.Lab.open(path=target).run(job, 120, Disks())
elif lab == "vm":
    lab = vm.VmLab(json.loads(Path(manifest).read_text()), files.cache_folder(), "tcg")
    lab.run(Job([Clock()]), 120, Disks(Plain(title="x", backing="file"), 2, 64))
else:
    lab = exact.ExactLab(json.loads(Path(manifest).read_text()), files.cache_folder())
    lab.run(Job([sh("while :; do :; done")]), 120)
"""


# One worker: a clean-up takes what another test has just left behind, too.
pytestmark = pytest.mark.xdist_group("cleanup")


@pytest.fixture
def somewhere(tmp_path, monkeypatch) -> dict:
    """The environment of a run whose temporary folder and cache are of this test; what was built before is shared."""
    for name in ("tmp", "target"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setenv("REPROFS_CACHE", str(cache_without(tmp_path)))
    monkeypatch.setattr("tempfile.tempdir", None)
    return dict(os.environ)


def kill_at(moment: float | None, tmp_path: Path, env: dict, lab: str, guest: dict | None = None) -> None:
    """Starts a trial and kills it with -9 `moment` seconds after its start; None: once its job is under way."""
    (tmp_path / "manifest.json").write_text(json.dumps(guest))
    arguments = [lab, tmp_path / "marker", tmp_path / "target", tmp_path / "manifest.json"]
    process = subprocess.Popen([sys.executable, "-c", DRIVER, *map(str, arguments)], env=env, stderr=subprocess.PIPE)
    deadline = time.monotonic() + (60 if moment is None else moment)
    while time.monotonic() < deadline and not (moment is None and (tmp_path / "marker").exists()):
        assert process.poll() is None, process.stderr.read().decode()
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stderr.close()


def left_in(folder: Path) -> list[str]:
    """Whatever still is there of trials in this folder: places, loop devices, mounts, processes."""
    found = [str(path) for path in folder.glob("*/reprofs-*")] + [str(path) for path in folder.glob("cache/work/*")]
    found += [name for name, (file, _) in cleanup._loops().items() if str(folder) in file]
    found += [str(point) for _, _, point in cleanup.mounts() if point.is_relative_to(folder)]
    for environ in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if f"REPROFS_PLACE={folder}".encode() in environ.read_bytes():
                found.append(str(environ))
    return found


@pytest.mark.wide
@pytest.mark.parametrize("lab", ["host", "mount", "exact", "vm"])
def test_killed_at_random_moments_leaves_nothing(lab, tmp_path, somewhere, reprofs, request):
    """Also not what was half made; and the marker shows that some of the moments were in the middle of the job."""
    if lab == "host" and os.geteuid() != 0:
        pytest.skip("the host lab needs root")
    guest = request.getfixturevalue("guest") if lab in ("exact", "vm") else None
    moments = [hundredth / 100 for hundredth in random.Random(1).sample(range(20, 250), 5)]
    for moment in [*moments, 4 if guest else None]:
        kill_at(moment, tmp_path, somewhere, lab, guest)
        # A folder that was made and not yet locked is left alone for a minute: it may be that of a run that begins.
        for new in (*tmp_path.glob("*/reprofs-new-*"), *tmp_path.glob("cache/work/reprofs-new-*")):
            os.utime(new, (0, 0))
        said = reprofs("cleanup", env=somewhere)
        assert said.returncode == 0, said.stderr
        assert not left_in(tmp_path), said.stdout
    assert guest or (tmp_path / "marker").exists()
    assert not list((tmp_path / "target").iterdir())
    assert reprofs("cleanup", env=somewhere).stdout.startswith("nothing to remove")


def losetup(file: Path) -> str:
    command = ["losetup", "--find", "--show", file]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@contextlib.contextmanager
def loop_over(file: Path, mebibytes: int = 20):
    """A loop device that is not ReproFS's."""
    with file.open("wb") as backing:
        backing.truncate(mebibytes << 20)
    device = losetup(file)
    try:
        yield device
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)


@contextlib.contextmanager
def mounted(*options: object):
    subprocess.run(["mount", *map(str, options)], check=True)
    try:
        yield Path(options[-1])
    finally:
        subprocess.run(["umount", str(options[-1])], check=True)


@needs_root
def test_decoys_survive(tmp_path, somewhere, reprofs):
    """A loop device and mounts of somebody else, with names like ours, next to a killed trial."""
    decoys = tmp_path / "tmp/reprofs-work-decoy.d"
    decoys.mkdir()
    (tmp_path / "mine").mkdir()
    with loop_over(decoys.parent / "reprofs-work-mine.img") as device:
        subprocess.run(["mkfs.ext4", "-q", device], check=True)
        with mounted(device, tmp_path / "mine"), mounted("-t", "tmpfs", "none", decoys) as inside:
            (inside / "precious").touch()
            kill_at(None, tmp_path, somewhere, "host")
            said = reprofs("cleanup", env=somewhere).stdout
            assert "folder" in said
            assert str(decoys) not in said and device not in said
            assert (inside / "precious").exists() and (tmp_path / "mine/lost+found").exists()
            assert device in subprocess.run(["losetup", "--all"], capture_output=True, text=True).stdout


@needs_root
def test_loop_that_the_kernel_does_not_free_is_found_by_its_file(tmp_path, somewhere):
    """A loop device over a file of an abandoned folder, and what somebody mounted from it, are the trial's."""
    with workplace() as place:  # held until all is there: another test's trial tidies up, too
        with (place / "disk0").open("wb") as backing:
            backing.truncate(20 << 20)
        device = losetup(place / "disk0")
        subprocess.run(["mkfs.ext4", "-q", device], check=True)
        subprocess.run(["mount", device, tmp_path / "target"], check=True)
        assert cleanup.sweep() == []
        (place / "owner").unlink()
        (place / "owner").touch()
        assert cleanup.sweep() == [f"mount {tmp_path}/target", f"loop device {device}", f"folder {place}"]
    assert not left_in(tmp_path)


@needs_root
def test_loop_whose_folder_is_gone(tmp_path, somewhere):
    place = tmp_path / "tmp/reprofs-work-gone"
    place.mkdir()
    (place / "disk0").write_bytes(bytes(1 << 20))
    device = losetup(place / "disk0")
    (place / "disk0").unlink()
    place.rmdir()
    assert cleanup.sweep() == [f"loop device {device}"]


@needs_root
def test_loop_device_whose_name_is_somebody_elses_by_now(tmp_path):
    """Between looking and releasing, the kernel may free a trial's device, and another program take its name."""
    with loop_over(tmp_path / "theirs") as device:
        name = Path(device).name
        (_, identity) = cleanup._loops()[name]
        assert not cleanup._hold({name: (identity[0], identity[1] + 1)})
        (held,) = cleanup._hold({name: identity}).values()
        held.close()


def test_living_trial_is_left_alone(tmp_path, somewhere, reprofs):
    with workplace() as place:
        cleanup.note(place, folder=str(tmp_path / "target" / place.name))
        (tmp_path / "target" / place.name).mkdir()
        assert reprofs("cleanup", env=somewhere).stdout.startswith("nothing to remove")
        assert (place / "owner").exists() and list((tmp_path / "target").iterdir())


def test_note_cannot_name_what_is_not_the_trials(tmp_path, somewhere, reprofs):
    """A folder goes only when it bears the random name of the folder that notes it, and no link is followed."""
    place = tmp_path / "tmp/reprofs-work-dead"
    (tmp_path / "target/precious").mkdir()
    place.mkdir()
    (place / "owner").touch()
    cleanup.note(place, folder=str(tmp_path / "target/precious"))
    (tmp_path / "reprofs-work-dead").symlink_to(tmp_path / "target")
    cleanup.note(place, folder=str(tmp_path / "reprofs-work-dead"))
    (place / "link").symlink_to(tmp_path / "target")
    assert reprofs("cleanup", env=somewhere).stdout == f"removed folder {place}\n"
    assert (tmp_path / "target/precious").exists()


def test_process_of_an_abandoned_folder_ends(tmp_path, somewhere, reprofs):
    place = tmp_path / "tmp/reprofs-work-dead"
    place.mkdir()
    (place / "owner").touch()
    mine = subprocess.Popen(["sleep", "100"], env={**somewhere, "REPROFS_PLACE": str(place)})
    other = subprocess.Popen(["sleep", "100"], env={**somewhere, "REPROFS_PLACE": f"{place}-other"}, cwd=place)
    try:
        said = reprofs("cleanup", env=somewhere).stdout.splitlines()
        assert said == [f"removed process {mine.pid} (sleep)", f"removed folder {place}"]
        assert mine.wait(5) == -signal.SIGKILL and other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_half_made_folder_goes_once_it_is_old(tmp_path, somewhere, reprofs):
    for name, age in (("old", 100), ("young", 0)):
        folder = tmp_path / f"tmp/reprofs-new-{name}"
        folder.mkdir()
        os.utime(folder, (time.time() - age,) * 2)
    assert reprofs("cleanup", env=somewhere).stdout == f"removed folder {tmp_path}/tmp/reprofs-new-old\n"


def test_next_trial_tidies_up(tmp_path, somewhere):
    place = tmp_path / "tmp/reprofs-work-dead"
    place.mkdir()
    (place / "owner").touch()
    with workplace():
        assert not place.exists()


def made_up_stack(folder: Path, below: dict[str, list[str]]) -> None:
    """A /sys in which each device consists of those below it."""
    for name in below:
        (folder / "class/block" / name / "slaves").mkdir(parents=True)
        (folder / "class/block" / name / "holders").mkdir()
    for name, parts in below.items():
        for part in parts:
            (folder / "class/block" / name / "slaves" / part).mkdir()
            (folder / "class/block" / part / "holders" / name).mkdir()


def test_arrays_and_volumes_of_a_trials_devices_alone(tmp_path, monkeypatch):
    """This machine's kernel may have neither MD nor the device mapper: the stack is made up. The highest is first."""
    stack = {"loop0": [], "loop1": [], "loop2": [], "sda": [], "md127": ["loop0", "loop1"], "dm-0": ["md127"]}
    made_up_stack(tmp_path, {**stack, "md0": ["loop2", "sda"], "dm-1": ["md0"]})
    monkeypatch.setattr(cleanup, "SYS", tmp_path)
    assert cleanup._above({"loop0", "loop1", "loop2"}) == ["dm-0", "md127"]
    assert cleanup._above({"loop0"}) == []


def test_volumes_are_taken_down_before_what_they_are_on(tmp_path, monkeypatch):
    made_up_stack(tmp_path, {"loop0": [], "loop1": [], "md127": ["loop0", "loop1"], "dm-0": ["md127"]})
    (tmp_path / "class/block/dm-0/dm").mkdir()
    (tmp_path / "class/block/dm-0/dm/name").write_text("reprofs-data\n")
    done = []
    monkeypatch.setattr(cleanup, "SYS", tmp_path)
    monkeypatch.setattr(cleanup, "_run", lambda *command: done.append(command) or True)
    # The real loop0 and loop1 may be somebody's, such as of a test beside this one.
    monkeypatch.setattr(cleanup, "mounts", list)
    no_devices = {name: io.BytesIO() for name in ("loop0", "loop1")}
    said = cleanup._release_devices(no_devices, set())
    assert done == [("dmsetup", "remove", "--retry", "reprofs-data"), ("mdadm", "--stop", "/dev/md127")]
    assert said[:2] == ["volume reprofs-data", "md array /dev/md127"]


@pytest.mark.parametrize("extra", [False, True])
def test_a_device_of_a_new_kind_is_taken_down_as_its_layers_file_says(tmp_path, monkeypatch, extra):
    """The file may be in a folder that the configuration names."""
    made_up_stack(tmp_path, {"loop0": [], "loop1": [], "bcache0": ["loop0"], "bcache1": ["loop1"]})
    stop = "stop: ['sh -c \"echo 1 > /sys/block/bcache0/bcache/stop\"', 'wipefs {disks}']"
    for name, text in (("broken", "]"), ("bcache", f"makes: [/dev/bcache0]\n{stop}\n"), ("list", "[]")):
        (tmp_path / "stacks").mkdir(exist_ok=True)
        (tmp_path / f"stacks/{name}.yaml").write_text(text)
    done = []
    monkeypatch.setattr(cleanup, "SYS", tmp_path)
    (tmp_path / "config.yaml").write_text(f"extra_dirs: ['{tmp_path}']\n")
    monkeypatch.setattr(
        cleanup, *(("CONFIG", f"{tmp_path}/config.yaml") if extra else ("STACKS", f"{tmp_path}/stacks"))
    )
    monkeypatch.setattr(cleanup, "_run", lambda *command: done.append(command) or True)
    monkeypatch.setattr(cleanup, "mounts", list)
    said = cleanup._release_devices({name: io.BytesIO() for name in ("loop0", "loop1")}, set())
    assert done == [("sh", "-c", "echo 1 > /sys/block/bcache0/bcache/stop")]  # of bcache1 no file says anything
    assert said[0] == "device /dev/bcache0" and not any("bcache1" in line for line in said)


def test_pool_on_a_trials_devices_alone(tmp_path, monkeypatch):
    """ZFS may be missing here: a command that speaks like zpool stands for it."""
    text = (
        "  pool: mine\n state: ONLINE\nconfig:\n\n\tNAME  STATE\n\tmine  ONLINE\n\t  mirror-0  ONLINE\n"
        "\t    /dev/loop0  ONLINE 0\n\t    /dev/loop1  ONLINE 0\n\nerrors: No known data errors\n\n"
        "  pool: yours\n state: ONLINE\nconfig:\n\n\tyours  ONLINE\n\t  /dev/loop2  ONLINE 0\n\t  /dev/sda  ONLINE 0\n"
    )
    (tmp_path / "zpool").write_text(f"#!/bin/sh\ncat << 'END'\n{text}END\n")
    (tmp_path / "zpool").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    made_up_stack(tmp_path / "sys", {name: [] for name in ("loop0", "loop1", "loop2", "sda")})
    monkeypatch.setattr(cleanup, "SYS", tmp_path / "sys")
    assert cleanup._pools({"loop0", "loop1", "loop2"}) == ["mine"]


def test_lock_that_a_dying_child_holds_is_waited_for(tmp_path, somewhere, reprofs):
    """A child between fork and exec has its killed parent's lock for a moment; a process that lives keeps it."""
    place = tmp_path / "tmp/reprofs-work-x"
    place.mkdir()
    for pid, gone in ((os.getpid(), False), (4194303, True)):
        (place / "owner").write_text(f"{pid}\n")
        # The living one keeps its lock until it is ended here, however long a busy machine needs to start the command.
        holder = subprocess.Popen(["flock", "--no-fork", place / "owner", "sleep", "2" if gone else "300"])
        while subprocess.run(["flock", "--nonblock", place / "owner", "true"]).returncode == 0:
            time.sleep(0.01)
        assert ("removed" in reprofs("cleanup", env=somewhere).stdout) is gone
        holder.kill()
        holder.wait()
    assert not place.exists()


@pytest.mark.parametrize("when", ["_end_processes", "mounts"])
def test_a_folder_that_another_sweep_removes_meanwhile(tmp_path, monkeypatch, when):
    """Two sweeps may find the same folder; the end of a trial, which no longer holds its lock, is one of them."""
    place = tmp_path / "reprofs-work-x"

    def other(*_: object) -> list:
        shutil.rmtree(place, ignore_errors=True)
        return []

    monkeypatch.setattr(cleanup, "_loops", lambda: {"loop4095": ("/somebody/else", (0, 0))})
    monkeypatch.setattr(cleanup, when, other)
    for do, said in ((cleanup.release, []), (cleanup.remove, True)):
        place.mkdir()
        (place / "owner").touch()
        assert do(place) == said
        shutil.rmtree(place, ignore_errors=True)


def test_what_is_no_file_is_written_to_and_not_replaced(tmp_path):
    """As root, a rename would make an ordinary file of /dev/null."""
    (tmp_path / "null").symlink_to("/dev/null")
    files.write_text(tmp_path / "null", "lost")
    assert (tmp_path / "null").is_char_device()
    os.mkfifo(tmp_path / "pipe")
    end = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    files.write_text(tmp_path / "pipe", "passed on")
    assert os.read(end, 100) == b"passed on" and (tmp_path / "pipe").is_fifo()
    os.close(end)
    files.write_text(tmp_path / "file", "kept")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "null", "pipe"]


def test_empty_folders_of_killed_workflows_go_while_none_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(leftovers.tempfile, "tempdir", str(tmp_path))
    names = ["snakemake1fbe_tvj", "snakemakefull_abc", "snakemakenew_abcd", "snakemake"]
    for name in names:
        (tmp_path / name).mkdir()
    (tmp_path / names[1] / "file").touch()
    for name in (names[0], names[1], names[3]):
        os.utime(tmp_path / name, (0, 0))
    with monkeypatch.context() as running:
        running.setattr(leftovers, "_is_snakemake", lambda _: True)
        assert leftovers.sweep() == []
    monkeypatch.setattr(leftovers, "_is_snakemake", lambda _: False)
    assert leftovers.sweep() == [f"folder {tmp_path / names[0]}"]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names[1:])


def test_a_workflow_is_known_by_its_first_words(tmp_path):
    for command, is_one in (("python\0.venv/bin/snakemake\0--cores", True), ("less\0x\0y\0snakemake", False)):
        (tmp_path / "cmdline").write_text(command)
        assert leftovers._is_snakemake(tmp_path) is is_one
    assert not leftovers._is_snakemake(tmp_path / "ended")


# Stands for the workflow: starts a notebook and waits for it.
WORKFLOW = """
import subprocess, sys, time
subprocess.Popen(sys.argv[1:])
time.sleep(300)
"""


def test_a_killed_workflow_takes_its_notebook_and_kernel_with_it(tmp_path, somewhere):
    cell = nbformat.v4.new_code_cell(
        f"import os, time\nopen({str(tmp_path / 'kernel')!r}, 'w').write(f'{{os.getpid()}} {{os.getppid()}}')\n"
        "time.sleep(300)",
        metadata={"tags": ["parameters"]},
    )
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), tmp_path / "long.ipynb")
    words = [BIN / "reprofs", "notebook", tmp_path / "long.ipynb", "--study", "x", "--log", tmp_path / "log.ipynb"]
    environment = os.environ | somewhere | {"REPROFS_PROGRESS": "1 0 1"}
    command = [sys.executable, "-c", WORKFLOW, *words, "--output", tmp_path / "out.ipynb"]
    workflow = subprocess.Popen(command, env=environment)
    try:
        deadline = time.monotonic() + 200  # of the 300 that both sleep
        while not ((tmp_path / "kernel").exists() and (pids := (tmp_path / "kernel").read_text().split())[1:]):
            assert time.monotonic() < deadline and workflow.poll() is None
            time.sleep(0.05)
    finally:
        workflow.kill()
        workflow.wait()
    deadline = time.monotonic() + 60
    while any(cleanup._lives(int(pid)) for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert not (tmp_path / "out.ipynb").exists()
