"""Recordings of programs in deep folders and under odd names, and of programs that no replay repeats."""

import contextlib
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import BIN
from reprofs import files
from reprofs.plan import recording
from reprofs.plan.catalog import Catalog
from reprofs.plan.recording import LONGEST_PATH, SUFFIX
from reprofs.recorder import entries
from reprofs.recorder.names import AsTheyAre, Names
from reprofs.report.sentences import recorded
from reprofs.trial.planning import make_plan, table

# The paths in it have up to 5,000 bytes. It links, renames, reads, maps and lists there, goes up again by `..`, as
# `rm -r` does, and leaves some of it.
DEEP = """
import mmap, os
name, odd = b"d" * 200, b"new\\nline \\xff\\xfe'\\"*"
def inner(folder, name, make=True):
    if make:
        os.mkdir(name, dir_fd=folder)
    return os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=folder)
folder = inner(os.open(".", os.O_RDONLY), odd)
for depth in range(24):
    folder = inner(folder, name)
for step, one in enumerate((b"a", odd, b"x" * 255)):
    with os.fdopen(os.open(one, os.O_CREAT | os.O_RDWR, 0o600, dir_fd=folder), "r+b") as file:
        file.write(b"x" * 9000), file.flush(), os.fsync(file.fileno())
        mapped = mmap.mmap(file.fileno(), 9000)
        mapped[5000] = 1
        mapped.flush(), mapped.close()
    os.link(one, b"link%d" % step, src_dir_fd=folder, dst_dir_fd=folder)
    os.rename(b"link%d" % step, b"renamed%d" % step, src_dir_fd=folder, dst_dir_fd=folder)
os.symlink(odd, "symbolic", dir_fd=folder)
assert len(os.listdir(folder)) == 7 and os.readlink("symbolic", dir_fd=folder)
for step in range(3):
    folder = inner(folder, "..", False)
    os.mkdir("beside", dir_fd=folder), os.stat("../" + "d" * 200, dir_fd=folder), os.rmdir("beside", dir_fd=folder)
os.chdir(folder)
os.mkdir("again"), os.chdir("again"), os.mkdir("inside"), os.rmdir("inside"), os.chdir(".."), os.rmdir("again")
"""
# Stores in a shared mapping, scattered and in the same pages again, as databases do; then reads of a private one.
MAPPED = """
import mmap, os
file = os.open("mapped", os.O_RDWR | os.O_CREAT, 0o600)
os.ftruncate(file, 4 << 20)
mapped = mmap.mmap(file, 4 << 20)
for step in range(5):
    for page in range(300):
        mapped[(page * 3 + step % 2) * 4096] = step + 1
    mapped.flush() if step < 3 else os.fsync(file)
private = mmap.mmap(file, 4 << 20, mmap.MAP_PRIVATE, mmap.PROT_READ)
for part in range(8):
    private[part * 65536]
    for _ in range(64):
        os.stat("mapped")
"""
# A pipe tells the two writers whose turn it is, so that what is read depends on what no replay can know: which of two
# calls that began together came first.
RACE = """
import os, threading
def work(number):
    for step in range(60):
        with open(f"own{number}", "wb") as file:
            file.write(b"x" * (100 * number + step))
        os.rename(f"own{number}", "shared")
        with open("shared", "rb") as file:
            file.read()
threads = [threading.Thread(target=work, args=[number]) for number in range(4)]
[thread.start() for thread in threads], [thread.join() for thread in threads]
open("../runs", "a").write("once ")
"""


@pytest.fixture
def place(tmp_path) -> Path:
    """A folder that counts as a checkout, with a folder `workspace`."""
    (tmp_path / "workflow" / "schemas").mkdir(parents=True)
    (tmp_path / "workspace").mkdir()
    yield tmp_path
    subprocess.run(["rm", "-rf", tmp_path / "workspace"], check=True)


@pytest.fixture
def record(reprofs, place):
    def run(*words: object):
        return reprofs("record", "--output", "it", *words, cwd=place / "workspace")

    return run


def content_of(place: Path) -> recording.Content:
    return recording.read(place / "workflow" / "recordings" / f"it{SUFFIX}")


def test_pages_of_a_mapping_are_written_and_read_again_where_they_were(place, record):
    done = record("--", sys.executable, "-c", MAPPED)
    assert done.returncode == 0, done.stderr
    calls = [line for line in content_of(place).calls if line[0] in ("map", "touch", "msync", "fsync", "stat", "unmap")]
    written, pages = [], set()
    for kind, _, *values in calls:
        if kind == "touch" and values[3]:
            pages |= set(range(values[1], values[1] + values[2]))
        elif kind in ("msync", "fsync"):
            written.append(pages)
            pages = set()
    assert written == [{page * 3 + step % 2 for page in range(300)} for step in range(5)] and not pages
    reads = [number for number, line in enumerate(calls) if line[0] == "touch" and not line[5]]
    stats = [number for number, line in enumerate(calls) if line[0] == "stat"]
    assert sum(stats[0] < number < stats[-1] for number in reads) >= 5  # between the calls, not all at once


def test_a_program_in_folders_deeper_than_a_path_is_recorded_and_replayed_wholly(place, record):
    done = record("--accept", "--", sys.executable, "-c", DEEP)
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    content = content_of(place)
    assert "100.00 %" in said and f"{content.head.calls} of {content.head.calls} results as recorded." in said
    assert not content.after and "check:" not in (place / "workflow/workloads/it.yaml").read_text()
    (mark,) = content.head.incomplete
    assert mark.startswith("12 paths after it had more than 4,000 bytes") and "not compared" in mark
    assert content.head.unchecked == 0 and not content.head.left_out
    kinds = [line[0] for line in content.calls]
    assert {kind: kinds.count(kind) for kind in ("map", "touch", "msync", "link", "rename", "readlink")} == {
        **{"map": 3, "touch": 3, "msync": 3, "link": 3, "rename": 3, "readlink": 1}
    }
    assert kinds.count("mkdir") == 25 + 3 + 2 and kinds.count("rmdir") == 3 + 2
    assert max(len(text) for line in content.calls for text in line if isinstance(text, str)) <= LONGEST_PATH


def test_a_tree_before_that_is_too_deep_is_less_than_the_program(place, record):
    subprocess.run([sys.executable, "-c", DEEP], cwd=place / "workspace", check=True)
    refused = record("--", "touch", "made")
    assert refused.returncode == 2 and "12 paths of its tree had more than 4,000 bytes" in refused.stderr


def test_a_walk_of_any_depth_finds_every_name(tmp_path):
    """Any depth: more folders than one call's path can name."""
    folder, top = os.open(tmp_path, os.O_RDONLY), os.path.realpath(tmp_path)
    for _ in range(900):
        os.mkdir("deep", dir_fd=folder)
        inner = os.open("deep", os.O_RDONLY | os.O_DIRECTORY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.symlink("../deep", "link", dir_fd=folder)
    os.close(folder)
    found = entries.read([top], Names())
    assert len(found.entries) == 1 + (LONGEST_PATH + 1) // 5 and len(found.entries) + found.deep == 902
    assert not found.compared()
    with pytest.raises(NotADirectoryError):
        files.open_folder(f"{top}{'/deep' * 900}/link")
    assert all(len(line[1]) <= LONGEST_PATH for line in entries.read([top], AsTheyAre()).entries)
    subprocess.run(["rm", "-rf", f"{tmp_path}/deep"], check=True)


def test_a_program_that_no_replay_repeats_is_kept_marked_and_accepted_without_a_second_run(place, record):
    refused = record("--", sys.executable, "-c", RACE)
    said = refused.stderr.splitlines()[-1]
    kept = place / f"workflow/recordings/it{SUFFIX}.incomplete"
    if refused.returncode == 0:
        pytest.skip("here the threads took turns")
    assert "others when it was tried" in said and "--accept" in said and str(kept.relative_to(place)) in said
    assert len(said) <= 300 + len("reprofs: ") and kept.is_file() and not list((place / "workflow").rglob("*.yaml"))

    assert record("--accept").returncode == 0
    assert (place / "runs").read_text() == "once " and not kept.exists()
    content = content_of(place)
    (mark,) = content.head.incomplete
    assert "others when it was tried" in mark and content.head.unchecked
    told = list(recorded.caveats(content.head, "It", False, False))
    assert told == [f"It: the recording is incomplete, and was accepted so: {mark}."]
    assert "{recording:it}" in (place / "workflow/workloads/it.yaml").read_text()
    plan = make_plan("quick", Catalog())
    workload = plan.workloads["metadata"].model_copy(update={"recording": content.head})
    said = table(plan.model_copy(update={"workloads": {"it": workload}}))
    assert f"workload it: its recording is incomplete: {mark}\n" in said

    again = record("--accept")
    assert again.returncode == 2 and "exists" in again.stderr


def test_nothing_to_accept_is_one_sentence(record, says):
    says(record("--accept"), f"recordings/it{SUFFIX}.incomplete' to accept", "after --")


@pytest.mark.wide
def test_a_killed_record_ends_its_program_and_leaves_what_cleanup_names(place):
    """Killed while the program runs, which makes no call any more, and while that is replayed."""
    (place / "tmp").mkdir()
    env = {**os.environ, "TMPDIR": str(place / "tmp")}
    words = [BIN / "reprofs", "record", "--output", "it", "--", "sh", "-c"]

    def sleeps() -> bool:
        return b"sleep\x0047.125" in b"".join(map(_command, Path("/proc").glob("[0-9]*/cmdline")))

    def replays() -> bool:
        return bool(list(place.glob("reprofs-work-*-replay")))

    for script, began in ("touch a; exec sleep 47.125", sleeps), ("dd if=/dev/zero of=b bs=1M count=300", replays):
        options = {"cwd": place / "workspace", "env": env, "stderr": subprocess.DEVNULL}
        process = subprocess.Popen([*words, script], **options)
        _until(began)
        process.kill()
        process.wait()
        _until(lambda: not sleeps())
    done = subprocess.run([BIN / "reprofs", "cleanup"], env=env, cwd=place, capture_output=True, text=True, check=True)
    assert re.search(r"folder /.*/reprofs-work-[^/]*-replay", done.stdout) and not replays()


def _command(path: Path) -> bytes:
    with contextlib.suppress(OSError):
        return path.read_bytes()
    return b""


def _until(ready) -> None:
    ends = time.monotonic() + 60
    while not ready():
        assert time.monotonic() < ends
        time.sleep(0.01)
