"""`reprofs record` and `engine replay`: what is kept of a program, what is not, and that its calls come again."""

import dataclasses
import errno
import hashlib
import json
import lzma
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import pytest
import yaml
from conftest import ROOT
from helpers import cell, rendered
from reprofs import files
from reprofs.errors import UserError
from reprofs.guest import engine as builder
from reprofs.guest import lanes, listed, trace
from reprofs.plan import PROCESSOR, recording
from reprofs.plan.catalog import Catalog
from reprofs.plan.read import read_yaml
from reprofs.plan.recording import KINDS, SUFFIX
from reprofs.plan.workload import Workload
from reprofs.recorder import entries, page
from reprofs.recorder.names import Names
from reprofs.trial.run import run_trial
from test_guest import busy

SECRET = "confidential words of a user"
PYTHON = """
import os, sqlite3, subprocess, threading
os.mkdir("workshop")
def write(number):
    with open(f"workshop/threadfile{number}.txt", "w") as file:
        file.write("confidential words of a user" * 300)
        os.fsync(file.fileno())
    os.rename(f"workshop/threadfile{number}.txt", f"workshop/renamed{number}.txt")
threads = [threading.Thread(target=write, args=[number]) for number in range(4)]
[thread.start() for thread in threads], [thread.join() for thread in threads]
subprocess.run(["sh", "-c", "cd workshop && echo confidential words of a user > childfile && ln childfile hardname"])
if os.fork() == 0:
    os.chdir("workshop")
    os.symlink("../workshop/childfile", "symbolicname")
    os.chmod("childfile", 0o600)
    os._exit(0)
os.wait()
try:
    os.setxattr("workshop/childfile", "user.privatekey", b"confidential words of a user")
except OSError:
    pass
for mode in ("delete", "wal"):
    base = sqlite3.connect(f"database-{mode}.db", isolation_level=None)
    base.execute(f"pragma journal_mode={mode}")
    base.execute("create table t (n, x)")
    for number in range(20):
        base.execute("insert into t values (?, hex(randomblob(500)))", [number])
    base.execute("update t set x = upper(x) where n % 3 = 0")
    base.close()
os.listdir("workshop"), os.stat("/etc/hostname"), os.remove("workshop/renamed2.txt")
"""
GIT = "-c user.name=somebody -c user.email=somebody@somewhere -c gc.auto=0"
PROGRAMS = {
    "tar": "mkdir extracted && tar -xf archivefile.tar -C extracted && tar -cf another.tar extracted && "
    "rm -r extracted",
    "git": f"git init -q repository && cp -r originals repository && cd repository && git {GIT} add . && "
    f"git {GIT} commit -qm confidential && git clone -q . ../cloned && cd ../cloned && git gc -q && git status",
    "python": f"{sys.executable} -c '{PYTHON.replace(chr(39), chr(34))}'",
}


@pytest.fixture
def place(tmp_path, monkeypatch) -> Path:
    """A folder that counts as a checkout, with a tree in its folder `workspace`."""
    (tmp_path / "workflow" / "schemas").mkdir(parents=True)
    top = tmp_path / "workspace"
    chance = random.Random(1)
    for number in range(12):
        path = top / "originals" / f"directory{number % 4}" / f"sourcefile{number}.c"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(chance.randbytes(chance.randrange(20000)) + SECRET.encode())
    (top / "originals" / "linkname").symlink_to("directory1/sourcefile1.c")
    (top / "originals" / "fixedlink").symlink_to("/etc/passwd")
    os.link(top / "originals/directory2/sourcefile2.c", top / "originals/otherlink.c")
    subprocess.run(["tar", "-cf", "archivefile.tar", "originals"], cwd=top, check=True)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    return tmp_path


@pytest.fixture
def record(reprofs, place):
    """Runs `reprofs record ... -- COMMAND` in the workspace; returns the process."""

    def run(*words: str, options: tuple = (), name: str = "it", accept: bool = True):
        return reprofs(
            *("record", "--below", place / "workspace", "--output", name, *(["--accept"] if accept else []), *options),
            *("--", *words),
            cwd=place / "workspace",
        )

    return run


def content_of(place: Path) -> recording.Content:
    return recording.read(place / "workflow" / "recordings" / f"it{SUFFIX}")


def replay(content: recording.Content, folder: Path, *more: str, by: str = "replay") -> subprocess.CompletedProcess:
    """Replays it in a new folder; then it is looked at what that left."""
    path = folder.with_name(f"{folder.name}.recording")
    path.write_bytes(trace.compiled(content))
    program = builder.build(files.cache_folder(), by)
    words = [program, "--recording", path, *more, folder]
    return subprocess.run(words, capture_output=True, text=True, env={"REPROFS_SAMPLES": f"{folder}.samples"})


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_is_replayed_wholly_and_nothing_of_its_names_is_kept(program, place, record):
    if program == "git" and not shutil.which("git"):
        pytest.skip("there is no git")
    before = {part for path in (place / "workspace").rglob("*") for part in path.parts}
    done = record("sh", "-c", PROGRAMS[program])
    assert done.returncode == 0, done.stderr
    assert "100.00 %" in done.stdout and "the tree after it was as recorded" in done.stdout
    content = content_of(place)
    assert content.head.unchecked == 0 and not content.head.left_out
    assert {line[1] is None for line in content.calls if line[0] not in ("flock", "lock")} == {False}

    again = place / "again"
    assert replay(content, again, "--how", "both").returncode == 0
    assert replay(content, again, "--how", "verify").returncode == 0
    samples = [json.loads(line) for line in Path(f"{again}.samples").read_text().splitlines()]
    counted = {kind: sum(one["items"] for one in samples if one["name"] == kind) for kind in KINDS}
    assert counted == {kind: sum(line[0] == kind for line in content.calls) for kind in KINDS}

    text = lzma.decompress((place / "workflow/recordings" / f"it{SUFFIX}").read_bytes()).decode()
    names = before | {part for path in (place / "workspace").rglob("*") for part in path.parts}
    parts = {part for name in names for part in [name, *re.split(r"[.-]", name)] if len(part) > 5}
    assert len(parts) > 20
    told = {*parts, SECRET, "confidential", "privatekey", "somebody", str(place)} | {
        name for name in [socket.gethostname()] if len(name) > 5
    }
    assert not [word for word in told if word in text]
    read_yaml(place / "workflow/workloads/it.yaml", Workload)


def test_what_a_replay_left_is_compared(place, record):
    record(
        "sh", "-c", "cp archivefile.tar copy.tar && mkdir empty && ln -s copy.tar link && dd if=copy.tar of=/dev/null"
    )
    content = content_of(place)
    changes = (
        lambda tree: next(path for path in sorted(tree.rglob("*.tar"))).write_bytes(b"short"),
        lambda tree: next(path for path in tree.rglob("*") if path.is_symlink()).unlink(),
        lambda tree: (tree / "more").mkdir(),
        lambda tree: flipped(next(path for path in tree.rglob("*.tar") if path.stat().st_size > 5000)),
    )
    for number, change in enumerate(changes):
        folder = place / f"replay{number}"
        assert replay(content, folder, "--how", "both").returncode == 0
        change(folder / "/".join("0" * recording.UP))
        assert "replay: " in (looked := replay(content, folder, "--how", "verify")).stderr
        assert looked.returncode == 1


def flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[4000] ^= 255
    path.write_bytes(data)


def test_a_result_other_than_recorded_fails_the_replay(place, record):
    record("tar", "-tf", "archivefile.tar")
    content = content_of(place)
    line = next(line for line in content.calls if line[0] == "read")
    line[1] += 1
    failed = replay(content, place / "replay")
    assert failed.returncode == 1 and "1 of " in failed.stderr and "recorded" in failed.stderr


def test_the_kinds_are_those_of_the_engine():
    source = (ROOT / "scripts/engine/programs/replay/kinds.h").read_text()
    found = re.findall(r'X\(\w+, "([a-z-]+)", "(\w*)"\)', source)
    assert dict(found) == KINDS
    assert [name for name, _ in found] == list(KINDS)


LONG = """
import os
os.mkdir("folder")
names = ("n" * 300, "folder/" + "n" * 256 + ".txt", "n" * 255)
for path in (*names, "./" * 2100 + "folder", os.getcwd() + "/folder" * 900):
    for call in (os.stat, os.mkdir, os.rmdir, lambda name: open(name, "w")):
        try:
            call(path)
        except OSError as error:
            print(error.errno)
os.symlink("n" * 300, "link"), os.path.exists("link")
"""


def test_names_that_are_too_long_are_too_long_in_a_replay(place, record):
    done = record(sys.executable, "-c", LONG, accept=False)
    assert done.returncode == 0, done.stderr
    content = content_of(place)
    assert sum(line[1] == -errno.ENAMETOOLONG for line in content.calls) == 4 * 4 + 1
    assert max(len(value) for line in content.calls for value in line if type(value) is str) < 300
    assert replay(content, place / "again").returncode == 0


def test_attributes_of_other_folders_are_not_counted(place, record):
    script = """
import os
for path in ("/etc", "/", "archivefile.tar"):
    os.path.exists(path)
    try:
        os.getxattr(path, "trusted.name")
    except OSError:
        pass
"""
    assert record(sys.executable, "-c", script).returncode == 0
    head = content_of(place).head
    assert head.left_out == {"attribute of the kernel": 1} and head.calls == 1


def test_io_uring_is_refused_and_said(place, record):
    script = "import ctypes; print(ctypes.CDLL(None, use_errno=True).syscall(425, 8, ctypes.create_string_buffer(200)))"
    done = record(sys.executable, "-c", f"{script}; open('written', 'w').write('x')")
    assert "io_uring 1 time, and" in done.stdout


def test_descriptors_of_descriptors_and_other_ways_to_a_file(place, record):
    """What glibc does for chmod without following links, dup over another, close on exec, a folder that was renamed."""
    script = """
import fcntl, os
os.mkdir("one"), os.mkdir("two")
fd = os.open("one", os.O_PATH)
os.chmod(f"/proc/self/fd/{fd}", 0o700)
here = os.open("one", os.O_RDONLY)
os.rename("one", "three")
os.close(os.open("inside", os.O_CREAT | os.O_WRONLY, 0o640, dir_fd=here))
os.fchdir(here)
a, b = (os.open(name, os.O_CREAT | os.O_RDWR | os.O_APPEND) for name in "ab")
os.dup2(a, b), os.write(b, b"x" * 5000), os.writev(a, [b"y" * 10, b"z" * 20])
os.lseek(a, 100, 0), os.readv(a, [bytearray(30)]), os.sendfile(b, a, 0, 50)
os.posix_fallocate(a, 0, 20000), os.truncate("a", 123), fcntl.flock(a, fcntl.LOCK_EX)
os.set_inheritable(a, True)
os.execlp("sh", "sh", "-c", f"echo more >&{a}; cat ../two/../three/b")
"""
    done = record(sys.executable, "-c", script)
    assert "100.00 %" in done.stdout and "the tree after it was as recorded" in done.stdout, done.stdout


@pytest.mark.parametrize(
    ("words", "options", "said"),
    [
        (["/no/such/program"], (), ["cannot be started", "after --"]),
        (["true"], ("--below", "nowhere"), ["--below nowhere", "not a folder"]),
        (["true"], ("--below", "/"), ["the whole machine"]),
        (["true"], ("--below", "originals"), ["in another --below"]),
        (["true"], (), ["made no call below"]),
        (["true"], ("--output", "Not-A-Name"), ["--output", "lower-case"]),
    ],
)
def test_what_cannot_be_recorded_is_one_sentence(record, says, place, words, options, said):
    says(record(*words, options=options), *said)
    assert not list((place / "workflow").rglob("it*"))


@pytest.mark.parametrize(
    ("script", "options", "said"),
    [
        ("touch madefile; exit 3", (), "exited with code 3"),
        ("touch madefile; sleep 60", ("--seconds", "1"), "its time was over"),
        (
            "mkfifo pipename",
            (),
            "of the tree after the calls 0 entries are not as recorded, and 1 too many; 1 device, socket or FIFO is",
        ),
        ("cp /bin/true program && ./program", (), "1 call is left out"),
    ],
)
def test_less_than_the_program_is_written_only_when_accepted(record, place, script, options, said):
    refused = record("sh", "-c", script, options=options, accept=False)
    assert refused.returncode == 2 and said in " ".join(refused.stderr.split())
    kept = place / f"workflow/recordings/it{SUFFIX}.incomplete"
    assert "is kept" in refused.stderr and list((place / "workflow").rglob("it*")) == [kept]
    for name in ("madefile", "pipename", "program"):
        (place / "workspace" / name).unlink(missing_ok=True)
    assert record("sh", "-c", script, options=options).returncode == 0
    again = record("true")
    assert again.returncode == 2 and "exists" in again.stderr


def test_a_recording_that_would_be_too_large_is_one_sentence(record, says, place, monkeypatch):
    monkeypatch.setattr(recording, "LARGEST_BYTES", 100)
    says(record("touch", "madefile"), f"it{SUFFIX} would have", "a shorter run")
    assert not list((place / "workflow").rglob("it*"))


def test_a_root_in_memory_is_less_than_the_program(reprofs, place):
    if not os.access("/dev/shm", os.W_OK):
        pytest.skip("there is no /dev/shm")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as top:
        done = reprofs(
            "record", "--below", top, "--output", "it", "--", "touch", f"{top}/made", cwd=place / "workspace"
        )
    assert done.returncode == 2 and "its folder is in memory" in done.stderr.splitlines()[-1]


def test_several_roots_are_folders_of_one_tree(reprofs, place):
    """And a file goes from one to the other."""
    roots = (place / "workspace", place / "second")
    roots[1].mkdir()
    words = [word for root in roots for word in ("--below", root)]
    script = f"mv archivefile.tar {roots[1]}/moved.tar && ln -s {roots[1]} there && cp there/moved.tar back.tar"
    done = reprofs("record", *words, "--output", "it", "--accept", "--", "sh", "-c", script, cwd=roots[0])
    assert "100.00 %" in done.stdout and "the tree after it was as recorded" in done.stdout, done.stdout + done.stderr
    content = content_of(place)
    assert content.head.unchecked == 0
    assert sum(line[0] == "d" and "/" not in line[1] for line in content.before) == 3
    assert "rename" in [line[0] for line in content.calls]


def test_a_recording_in_a_recording_is_one_sentence(place, record):
    """ptrace fails there, as in a container that forbids it."""
    inner = Path(sys.executable).with_name("reprofs")
    done = record("sh", "-c", f"touch made; {inner} record --output inner -- touch other")
    assert "a debugger" in done.stdout


# Runs a command under a seccomp filter that refuses ptrace, as containers do: load the number of the call; is it 101?
WITHOUT_PTRACE = """
import ctypes, os, struct, sys
lines = [(0x20, 0, 0, 0), (0x15, 0, 1, 101), (0x06, 0, 0, 0x50001), (0x06, 0, 0, 0x7FFF0000)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in lines))
prog = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(lines), ctypes.addressof(code)))
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, prog, 0, 0):
    sys.exit("no filter")
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_a_container_without_ptrace_is_one_sentence(place, says):
    program = Path(sys.executable).with_name("reprofs")
    words = ["record", "--below", place / "workspace", "--output", "it", "--", "touch", "madefile"]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_PTRACE, program, *words], cwd=place / "workspace", capture_output=True, text=True
    )
    says(done, "ptrace is not allowed here (Operation not permitted)", "--cap-add SYS_PTRACE")
    assert not list((place / "workflow").rglob("it*")) and not (place / "workspace/madefile").exists()


def test_a_program_that_changes_the_user_cannot_and_is_said(place, record):
    """It runs without the rights of its owner, as every recorded program does."""
    program = place / "changes-the-user"
    shutil.copy("/usr/bin/id", program)
    program.chmod(0o4755)
    done = record("sh", "-c", f"touch madefile; {program} > /dev/null")
    assert done.returncode == 0, done.stderr
    assert "It started 1 program with the rights of another user (setuid), which were not given" in " ".join(
        done.stdout.split()
    )


def test_a_page_counts_one_of_a_thing_as_one(place):
    head = recording.Recording.model_construct(
        **{"calls": 1, "threads": 1, "left_out": {"ioctl": 1}, "outside": 0, "before": 1, "after": 1},
        **{"in_listing_order": False, "ended": False},
    )
    content = recording.Content(head, [], [["clone", -1]], [])
    seen = Counter(dict.fromkeys(page.SAID, 1))
    facts = page.Facts("it", content, 0, seen, set(), differing=[0], special=1)
    said = " ".join([page.text(facts), *facts.problems()])
    assert "2 calls below the roots, by 1 thread." in " ".join(said.split())
    ones = re.findall(r"\b1 (\w+)", " ".join(re.sub(r"By kind: .*?\.", "", said, flags=re.DOTALL).split()))
    assert {"time", "call", "program", "result", "device", "entry"} <= set(ones)
    assert not {"times", "calls", "programs", "results", "devices", "threads", "entries"} & set(ones)


def test_a_program_that_ends_for_no_signal_is_ended_with_all_its_children(place, record):
    own = f"sleep 300.{os.getpid()}"  # as nobody else sleeps
    script = f"trap '' TERM INT HUP; touch madefile; sh -c 'trap \"\" TERM; {own}' & {own}"
    done = record("sh", "-c", script, options=("--seconds", "1"))
    assert done.returncode == 0, done.stderr
    assert content_of(place).head.ended
    told = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert own not in told.splitlines()


@pytest.mark.wide
def test_the_exact_lab_replays_a_recording_cold_and_warm(recorded):
    """It comes with the programs of the job, and the record has its digest."""
    record = recorded(cell("ext4", workload="recorded-git"))
    assert record["status"] == "ok", record["reason"]
    content = recording.read(recording.path_of("recorded-git"))
    kinds = [line[0] for line in content.calls]
    counted = {kind: kinds.count(kind) for kind in kinds} | {"final-sync": 1}
    for phase in record["measurement"]["phases"]:
        found = {name: 0 for name in counted}
        for sample in phase["samples"]:
            found[sample["name"]] += sample["items"]
        assert found == counted
        assert sum(sample["wall_ns"] for sample in phase["samples"]) < phase["wall_ns"]
    cold, warm = record["measurement"]["phases"]
    assert cold["cold"]["proved"] and cold["device"]["read_bytes"] > 10 * warm["device"]["read_bytes"]
    word = f"recorded-git-{recording.digest(recording.path_of('recorded-git'))}"
    compiled = hashlib.sha256(trace.compiled(content)).hexdigest()
    assert record["environment"]["lab"]["programs_sha256"].keys() == {"replay", word}
    assert record["environment"]["lab"]["programs_sha256"][word] == compiled


def test_a_recording_that_was_changed_after_planning_is_one_sentence(tmp_path):
    job = rendered(cell("ext4", workload="recorded-git"))
    steps = [
        dataclasses.replace(step, arg=[re.sub("(?<=recorded-git-)[0-9a-f]{16}", "0" * 16, word) for word in step.arg])
        if "replay" in getattr(step, "arg", [])
        else step
        for step in job.steps
    ]
    with pytest.raises(UserError, match="was changed after the trial was planned"):
        trace.programs(files.cache_folder(), dataclasses.replace(job, steps=steps))


@pytest.mark.parametrize(("names", "found"), [("os.listdir('many')", True), ("sorted(os.listdir('many'))", False)])
def test_visits_in_the_order_of_listing_are_found_and_said(place, record, names, found):
    many = place / "workspace/many"
    many.mkdir()
    for number in random.Random(1).sample(range(1000), 200):  # in no order of names, whatever the system lists by
        (many / f"entry{number}").touch()
    record(sys.executable, "-c", f"import os; [os.stat(f'many/{{name}}') for name in {names}]")
    head = content_of(place).head
    assert head.in_listing_order == head.follows_listings == found
    text = " ".join((place / "workflow/workloads/it.yaml").read_text().split())
    assert ("in the order in which the file system listed them" in text) == found
    assert ("in which the replay visits them there" in text) == found


# A walk as those of tar and find: each file is read, each folder listed and entered, when its turn comes.
WALK = """
import os
def visit(folder):
    for name in os.listdir(folder):
        path = f"{folder}/{name}"
        if os.path.isdir(path):
            visit(path)
        else:
            open(path, "rb").close()
visit("many")
"""


@pytest.fixture
def walked(place, record) -> recording.Content:
    """A recorded walk of a tree whose files are then made in another order than they were."""
    for number in range(200):
        path = place / f"workspace/many/folder{number % 7}/folder{number % 3}/entry{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"z" * number)
    assert record(sys.executable, "-c", WALK).returncode == 0
    content = content_of(place)
    shutil.rmtree(place / "workspace/many")
    folders, files_of, second = ([line for line in content.before if line[0] in kind] for kind in ("d", "fl", "h"))
    content.before = folders + random.Random(1).sample(files_of, len(files_of)) + second
    return content


@pytest.mark.parametrize(("program", "follows"), [("replay-listed", True), ("replay", False)])
def test_a_replay_visits_files_as_they_are_listed_to_it(program, follows, place, walked, reprofs):
    """As a recording of the replay finds; one that keeps the recorded order does not."""
    assert walked.head.follows_listings
    words = [builder.build(files.cache_folder(), program), "--recording", place / "it.recording", "--how"]
    (place / "it.recording").write_bytes(trace.compiled(walked))
    subprocess.run([*words, "prepare", place / "workspace/again"], check=True)
    options = ("--below", place / "workspace/again", "--output", "second", "--accept", "--")
    done = reprofs("record", *options, *words, "run", place / "workspace/again", cwd=place / "workspace")
    assert done.returncode == 0, done.stderr
    second = recording.read(place / "workflow/recordings" / f"second{SUFFIX}")
    assert second.head.in_listing_order == follows
    subprocess.run([*words, "verify", place / "workspace/again"], check=True)


def passes_of(calls: list[list], before: list) -> list[tuple]:
    """(folder, first call, (name, calls, passes within) of each part) of each pass."""
    head = recording.Recording.model_construct(handles=9)
    passes = listed.found(recording.Content(head, before, calls, [])).passes
    return [(one.folder, one.first, [(part.name, part.calls, part.passes) for part in one.parts]) for one in passes]


OPENED = [["open", 0, 0, "d", 0, 0, 1], ["list", 99, 1, 32768], ["list", 0, 1, 32768]]
SORTED = [["stat", 0, 1, name, 0] for name in ("b", "a", "e")]


@pytest.mark.parametrize(
    "calls",
    [
        [["stat", 0, 1, "a", 0]],  # of one name there is no order
        [["stat", 0, 1, "a", 0], ["stat", 0, 1, "b", 0], ["stat", 0, 1, "a", 0]],  # names come again
        [["stat", 0, 1, "a", 0], ["unlink", 0, 1, "a"], ["link", 0, 1, "b", 0, "f", 0], ["unlink", 0, 1, "b"]],
        [["chmod", 0, 1, "a", 0o600], ["open", 0, 1, "other-name-of-a", 0, 0, 2], ["close", 0, 2]],
        [["open", 0, 1, "a", 0, 0, 2], ["stat", 0, 1, "b", 0], ["close", 0, 2], ["stat", 0, 1, "e", 0]],
        [["stat", 0, 1, "a", 0], ["close", 0, 1], ["stat", 0, 0, "d/b", 0], ["stat", 0, 0, "d/e", 0]],  # closed
    ],
)
def test_calls_that_another_order_could_change_stay(calls):
    before = [["d", ".", 0o755], ["d", "d", 0o755], *(["f", f"d/{name}", 0o644, 9, 9] for name in "abe")]
    before += [["h", "d/other-name-of-a", "d/a"]]
    assert passes_of(OPENED + calls, before) == []
    assert passes_of(OPENED + SORTED, before) == [(("d",), 3, [("b", 1, 0), ("a", 1, 0), ("e", 1, 0)])]
    again = passes_of(OPENED + SORTED + [["list", 0, 1, 9]] + SORTED[::-1], before)  # its order is the program's own
    assert [first for _, first, _ in again] == [3]


def test_passes_within_passes_and_folders_that_are_opened_again():
    """Who walks deep closes the upper folders meanwhile, and opens them again on the way back."""
    before = [["d", path, 0o755] for path in (".", "d", "d/e", "d/f")]
    before += [["f", path, 0o644, 9, 9] for path in ("d/e/g", "d/e/h", "d/i")]
    inner = [["open", 0, 1, "e", 0, 0, 2], ["list", 99, 2, 9], ["close", 0, 1], ["stat", 0, 2, "g", 0]]
    inner += [["stat", 0, 2, "h", 0], ["open", 0, 0, "d", 0, 0, 3], ["close", 0, 2], ["stat", 0, 3, "i", 0]]
    calls = OPENED + inner + [["stat", 0, 3, "f", 0], ["close", 0, 3]]
    assert passes_of(calls, before) == [
        (("d",), 3, [("e", 7, 1), ("i", 1, 0), ("f", 1, 0)]),
        (("d", "e"), 6, [("g", 1, 0), ("h", 1, 0)]),
    ]
    head = recording.Recording.model_construct(handles=9)
    numbers = [line[2] for line in listed.found(recording.Content(head, before, calls, [])).calls[-3:]]
    assert numbers == [1, 1, 1]


def test_a_damaged_compiled_recording_is_made_again(tmp_path, capsys):
    """The cache's files are used only as they were made."""
    job = rendered(cell(workload="recorded-maildir"))
    (word,) = job.recordings()
    kept = trace.programs(tmp_path, job)[word]
    good = kept.read_bytes()
    kept.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    assert trace.programs(tmp_path, job)[word].read_bytes() == good
    assert "was damaged" in capsys.readouterr().err


# ---- recordings of strangers

LINES = {
    "a path that leaves": (["stat", 0, 0, "../outside", 0], "leaves its folder"),
    "a fixed path": (["open", 0, 0, "/etc/passwd", 1, 0, 5], "leaves its folder"),
    "a link that leads up": (["symlink", 0, "../" * 9 + "etc", 0, "x"], "leads up more"),
    "a link that goes up later": (["symlink", 0, "a/../../../b", 0, "x"], "leaves its folder"),
    "a fixed link": (["symlink", 0, "/etc", 0, "x"], "leaves its folder"),
    "a device": (["mknod", 0, 0, "x", 0o20644], "a device"),
    "what is not open": (["read", 0, 77, 10], "nothing open has the number 77"),
    "a number in use": (["open", 0, 0, "x", 0, 0, 0], "is in use"),
    "no number": (["read", 0, 0, "10"], "not a whole number"),
    "a huge length": (["read", 0, 0, 2**40], "is invalid for a call"),
    "too few": (["rename", 0, 0, "x"], "another number of arguments"),
    "an unknown kind": (["mount", 0], "is not a call"),
    "unknown flags": (["open", 0, 0, "x", 1 << 30, 0, 5], "are invalid"),
    "a mode": (["chmod", 0, 0, "x", 0o6755], "is invalid"),
    "an attribute": (["fsetxattr", 0, 0, 1, 20, 0], "a meaning for the kernel"),
    "a list": ({"a": 1}, "is not a call"),
    "a result": (["fsync", "good", 0], "not a whole number"),
    "a hidden name": (["stat", 0, 0, "a\u202eb", 0], "not a path"),
}


@pytest.fixture
def hostile(place):
    """Writes a recording of these lines; returns its file."""

    def write(calls: list, before: list = (["d", ".", 0o755],), **head) -> Path:
        first = {"format": 1, "title": "x", "filesystem": "ext4", "kernel": "6.1", "threads": 1, "after": 0}
        first |= {"before": len(before), "calls": len(calls), "names": 1, "bytes": 1, "handles": 100, **head}
        path = place / f"bad{SUFFIX}"
        path.write_bytes(lzma.compress("".join(json.dumps(line) + "\n" for line in [first, *before, *calls]).encode()))
        return path

    return write


@pytest.mark.parametrize("what", LINES)
def test_a_hostile_call_is_refused_with_its_line(hostile, what):
    line, said = LINES[what]
    with pytest.raises(UserError, match=r"line 3: .*record it again") as error:
        recording.read(hostile([line]))
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("before", "said"),
    [
        (["f", "a/b", 0o644, 1, 1], "before its folder"),
        (["f", "../x", 0o644, 1, 1], "leaves its folder"),
        (["l", "x", "../" * 9 + "x"], "leads up more"),
        (["h", "x", "y"], "not a file before it"),
        (["f", "x", 0o4755, 1, 1], "not a whole number"),
        (["f", "x", 0o644, -1, 1], "not a whole number"),
        (["x", "x"], "not an entry"),
        ([["d"], "x"], "not an entry"),
    ],
)
def test_a_hostile_tree_is_refused_with_its_line(hostile, before, said):
    with pytest.raises(UserError, match=r"line 3: ") as error:
        recording.read(hostile([], [["d", ".", 0o755], before]))
    assert said in str(error.value)


def test_a_damaged_file_is_one_sentence(hostile, place):
    path = hostile([["fsync", 0, 0]] * 2000)
    good = path.read_bytes()
    recording.read(path)
    damages = {
        "damaged": good[: len(good) // 2],
        "not compressed": b"no xz at all",
        "line 1": lzma.compress(b'{"format": 2}\n'),
        "not a recording": lzma.compress(b"[1]x\n"),
        "mapping": lzma.compress(b"[1]\n"),
        "is missing": lzma.compress(lzma.decompress(good).rsplit(b"\n", 5)[0] + b"\n"),
        "fewer lines": lzma.compress(lzma.decompress(good) + b"[]\n"),
        "too long": lzma.compress(lzma.decompress(good).replace(b'["fsync"', b'["' + b"x" * 30000 + b'"', 1)),
    }
    for said, data in damages.items():
        path.write_bytes(data)
        with pytest.raises(UserError) as error:
            recording.read(path)
        assert said in str(error.value) and "\n" not in str(error.value)


def test_links_stay_below_the_folder_of_a_replay(hostile, place):
    """A link may lead up as far as there are folders of the replay above its tree, through another link too."""
    (place / "goal").write_text("of another")
    before = [["d", ".", 0o755], ["l", "up", "../" * recording.UP + "x"], ["l", "top", "../" * 7 + ".."]]
    calls = [["unlink", -2, 0, "up/goal"], ["open", None, 0, "top/top/goal", 0o1101, 0o644, 5]]
    replay(recording.read(hostile(calls, before)), place / "replay")
    assert (place / "goal").read_text() == "of another"


def test_the_engine_finds_a_damaged_compiled_recording(hostile, place):
    content = recording.read(hostile([["fsync", 0, 0]]))
    data = trace.compiled(content)
    program = builder.build(files.cache_folder(), "replay")
    for number, bad in enumerate((b"", b"x" * 100, data[:-1], data[:12], data.replace(b"REPLAY", b"REPLAX"))):
        (place / "r").write_bytes(bad)
        words = [program, "--recording", place / "r", place / f"f{number}"]
        done = subprocess.run(words, capture_output=True, text=True)
        assert done.returncode == 1 and done.stderr.startswith("engine: replay: ") and done.stderr.count("\n") == 1


@pytest.mark.parametrize("values", [(9, 255), pytest.param(range(0, 256, 5), marks=pytest.mark.soak)])
def test_damaged_passes_end_a_replay_and_nothing_else(values, hostile, place):
    before = [["d", ".", 0o755], ["d", "d", 0o755], *(["f", f"d/{name}", 0o644, 9, 9] for name in "abe")]
    content = recording.read(hostile(OPENED + SORTED, before, follows_listings=True))
    data, program = trace.compiled(content), builder.build(files.cache_folder(), "replay-listed")
    whole = bytes([0, 1, 3, 1, 3])  # no lanes; one pass: its first call, open folder, parts
    assert whole in data
    ends = Counter()
    for place_of in range(data.rindex(whole), len(data)):
        for value in values:
            (place / "r").write_bytes(data[:place_of] + bytes([value]) + data[place_of + 1 :])
            words = [program, "--recording", place / "r", place / f"f{ends.total()}"]
            ends[subprocess.run(words, capture_output=True, timeout=60).returncode] += 1
    assert ends.keys() == {0, 1} and ends[1] > ends[0]


def test_names_are_random_as_long_as_they_were_and_never_twice():
    names = Names()
    short = [names.path(letter) for letter in "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"]
    assert len(set(short)) == len(short) and {len(name) for name in short} <= {1, 2}
    long = names.path("Ünïcode name.tar.GZ/.hidden/../plain")
    folder, hidden, up, plain = long.split("/")
    assert len(folder) == len("Ünïcode name.tar.GZ".encode()) and folder.endswith(".GZ")
    assert hidden.startswith(".") and len(hidden) == 7 and len(plain) == 5 and up != ".."
    assert [len(names.path("n" * length)) for length in (254, 255, 256, 300)] == [254, 255, 256, 256]
    assert names.path("plain") == plain != Names().path("plain")
    assert names.target("../../plain") == f"../../{plain}"
    for away in ("/etc/passwd", "../" * 9 + "etc"):
        assert ".." not in names.target(away) and not recording.target_problem(names.target(away))


def test_entries_come_as_their_inodes_are_numbered(place):
    top = str(place / "workspace")
    found, special, deep = entries.read([top], Names())
    assert special == deep == 0 and found[0] == ["d", ".", 0o755]
    kinds = [line[0] for line in found]
    assert kinds.index("f") > max(number for number, kind in enumerate(kinds) if kind == "d")
    assert kinds.count("h") == 1 and kinds.count("l") == 2
    inodes = sorted((path.lstat().st_ino, path.stat().st_size) for path in Path(top).rglob("*.[ct]*") if path.is_file())
    sizes = [line[3] for line in found if line[0] == "f"]
    assert sizes == list(dict(inodes).values())


# ---- several threads

# Two threads that take turns: what each call gives depends on what the other thread did before.
TURNS = """
import os, threading
turns = [threading.Lock(), threading.Lock()]
turns[1].acquire()
os.mkdir("folder"), open("folder/name0", "wb").close()
def work(number):
    for step in range(number, 60, 2):
        turns[number].acquire()
        try:
            with open(f"folder/name{step}", "r+b") as file:
                file.read(), file.write(b"z" * 100)
            os.path.exists(f"folder/name{step + 1}")
            os.rename(f"folder/name{step}", f"folder/name{step + 1}")
            os.rename("folder", "other"), os.mkdir("folder"), os.rename(f"other/name{step + 1}", "here")
            os.rmdir("other"), os.rename("here", f"folder/name{step + 1}")
        finally:
            turns[1 - number].release()
threads = [threading.Thread(target=work, args=[number]) for number in range(2)]
[thread.start() for thread in threads], [thread.join() for thread in threads]
"""


def test_threads_that_use_each_other_s_files_keep_their_order(place, record, monkeypatch):
    """Every result is as recorded, however often it is replayed; without what waits for what it is not."""
    if len(os.sched_getaffinity(0)) == 1:
        pytest.skip("one processor makes calls in one order")
    assert record(sys.executable, "-c", TURNS).returncode == 0
    content = content_of(place)
    assert content.head.lanes == 3 and content.head.unchecked == 0
    for number in range(5):
        done = replay(content, place / f"replay{number}", "--how", "both", by="replay-threads")
        assert done.returncode == 0, done.stderr
        assert replay(content, place / f"replay{number}", "--how", "verify", by="replay-threads").returncode == 0
    monkeypatch.setattr(trace.lanes.Waits, "of", lambda *_: [])
    assert replay(content, place / "other", "--how", "both", by="replay-threads").returncode == 1


def test_the_threads_of_a_replay_have_no_data_race(place, record, tmp_path):
    """As the sanitizer of gcc finds; it follows every access to memory of the replay that the test above makes."""
    program = tmp_path / "replay-threads"
    words = ["gcc", "-fsanitize=thread", "-g", "-O1", "-iquote", builder.SOURCE, "-o", program]
    (tmp_path / "empty.c").write_text("int main(void) { return 0; }")
    if not shutil.which("gcc") or subprocess.run([*words, tmp_path / "empty.c"], capture_output=True).returncode:
        pytest.skip("there is no gcc with a thread sanitizer")
    sources = [path for path in builder.sources("replay-threads") if path.suffix == ".c"]
    subprocess.run([*words, *sources, "-lm"], check=True)
    assert record(sys.executable, "-c", TURNS).returncode == 0
    (place / "r").write_bytes(trace.compiled(content_of(place)))
    done = subprocess.run([program, "--recording", place / "r", place / "again"], capture_output=True, text=True)
    if "FATAL: ThreadSanitizer" in done.stderr:
        pytest.skip(f"the sanitizer does not run here: {done.stderr.splitlines()[0]}")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("lanes", "names", "program"),
    [
        (2, {"lab": "exact@v2-0.5ns-4c"}, "replay-threads"),
        (2, {"lab": "host"}, "replay-threads"),
        (2, {}, "replay"),
        (0, {"lab": "exact@v2-0.5ns-4c"}, "replay"),
        (0, {"follows_listings": True}, "replay-listed"),
        (2, {"follows_listings": True, "lab": "host"}, "replay-listed"),
    ],
)
def test_threads_are_replayed_where_there_are_processors(monkeypatch, lanes, names, program):
    whole = recording.read_head
    heads = {"lanes": lanes, "follows_listings": names.get("follows_listings", False)}
    names = {key: value for key, value in names.items() if key == "lab"}
    monkeypatch.setattr(recording, "read_head", lambda path: whole(path).model_copy(update=heads))
    job = rendered(cell("ext4", workload="recorded-git", **names))
    assert job.programs() == [program] and len(job.recordings()) == 1


@pytest.mark.parametrize("name", ["recorded-compile", "recorded-npm", "recorded-postgresql"])
def test_shipped_recordings_of_programs_at_the_same_time_tell_their_threads(name):
    content = recording.read(recording.paths()[name])
    assert len({lane for lane, *_ in content.who}) > 2 and not content.head.left_out
    for lab, program in ((f"exact@{PROCESSOR}", "replay"), ("exact@v2-0.5ns-4c", "replay-threads")):
        assert rendered(cell("ext4", workload=name, lab=lab)).programs() == [program]
    named = yaml.safe_load((ROOT / "workflow/workloads" / f"{name}.yaml").read_text())
    assert f"{content.head.calls:,} calls of {content.head.threads:,} threads" in " ".join(named["source"].split())


def threads_of(calls: list[list], before: list = (["d", ".", 0o755],)) -> list[list[tuple[int, int]]]:
    """What each call waits for; the last value of a call is its lane."""
    head = recording.Recording.model_construct(lanes=1 + max(line[-1] for line in calls))
    made = recording.Content(head, list(before), [line[:-1] for line in calls], [], [[line[-1]] for line in calls])
    waits = lanes.Waits(head.lanes)
    for entry in made.before:
        waits.names.add(entry)
    return [waits.of(line, who) for line, who in zip(made.calls, made.who, strict=True)]


def test_what_waits_for_what():
    """In lanes 0 and 1: names made in one folder come together, all else that uses the same comes in order."""
    make = ["open", 0, 0, "d/a", os.O_CREAT | os.O_WRONLY, 0o644, 1, 0]
    tree = [["d", ".", 0o755], ["d", "d", 0o755], ["f", "f", 0o644, 9, 9], ["l", "d/up", "../f"], ["h", "g", "f"]]
    together = [
        [make, ["open", 0, 0, "d/b", os.O_CREAT | os.O_WRONLY, 0o644, 2, 1]],
        [["stat", 0, 0, "f", 0, 0], ["stat", 0, 0, "f", 0, 1]],
        [["unlink", 0, 0, "f", 0], ["mkdir", 0, 0, "d/new", 0o755, 1]],
    ]
    in_order = [
        [make, ["stat", 0, 0, "d/a", 0, 1]],
        [make, ["stat", -2, 0, "d/a/b", 0, 1]],
        [["stat", -2, 0, "d/a", 0, 0], ["mkdir", 0, 0, "d/a", 0o755, 1]],
        [["rename", 0, 0, "d", 0, "e", 0, 0], ["stat", 0, 0, "e/up", 0, 1]],
        [["mkdir", 0, 0, "d/x", 0o755, 0], ["rename", 0, 0, "d", 0, "e", 0, 1]],
        [["unlink", 0, 0, "d/up", 0], ["rmdir", 0, 0, "d", 1]],
        [["truncate", 0, 0, "d/up", 3, 0], ["stat", 0, 0, "g", 0, 1]],  # one file by a link and by another name
        [["stat", 0, 0, "not-there", 0, 0], ["stat", 0, 0, "f", 0, 1]],  # a result that cannot be: all wait for it
    ]
    assert [threads_of(pair, tree) for pair in together] == [[[], []]] * len(together)
    assert [threads_of(pair, tree) for pair in in_order] == [[[], [(0, 1)]]] * len(in_order)


def test_a_number_of_an_open_file_that_is_used_again_is_another_file():
    calls = [["open", 0, 0, "f", 0, 0, 1, 0], ["close", 0, 1, 0], ["open", 0, 0, "f", 0, 0, 1, 1], ["close", 0, 1, 1]]
    assert threads_of(calls, [["d", ".", 0o755], ["f", "f", 0o644, 9, 9]]) == [[], [], [], []]


@pytest.mark.soak
@pytest.mark.parametrize(
    ("program", "lab", "by"),
    [(TURNS, "exact@v2-0.5ns-4c", "replay-threads"), (WALK, f"exact@{PROCESSOR}", "replay-listed")],
    ids=["threads", "listed"],
)
def test_a_replay_in_threads_or_as_listed_is_exact(place, record, tmp_path, monkeypatch, program, lab, by):
    """The second from a cold boot, beside a busy process."""
    for number in range(200):
        path = place / f"workspace/many/folder{number % 7}/entry{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"z" * number)
    assert record(sys.executable, "-c", program).returncode == 0
    found = place / "workflow/recordings" / f"it{SUFFIX}"
    monkeypatch.setattr(recording, "paths", lambda: {"it": found})
    catalog = Catalog()
    catalog.add(Workload, "it", yaml.safe_load((place / "workflow/workloads/it.yaml").read_text()))
    trial = cell("ext4", lab=lab, workload="it", profile="hdd-7200")
    first = run_trial(trial, catalog, tmp_path / "1.json", 3000)
    assert (first["status"], first["reason"]) == ("ok", "")
    assert by in first["environment"]["lab"]["programs_sha256"]
    monkeypatch.setenv("REPROFS_START", "cold boot")
    with busy():
        second = run_trial(trial, catalog, tmp_path / "2.json", 6000)
    assert second["environment"]["lab"]["start"] == "cold boot"
    assert first["digests"]["measurement"] == second["digests"]["measurement"]


@pytest.mark.parametrize("who", [3, [2], [0, 1], [0, 1, 1], [], [0, "1", 1], [-1], None])
def test_a_hostile_lane_is_refused_with_its_line(hostile, who):
    recording.read(hostile([["fsync", 0, 0, [0]], ["fsync", 0, 0, [1, 0, 1]]], lanes=2))
    with pytest.raises(UserError, match=r"line 3: .*record it again"):
        recording.read(hostile([["fsync", 0, 0, who]], lanes=2))
    with pytest.raises(UserError, match=r"line 3: is not a call: record it again"):
        recording.read(hostile([["fsync", [0]]], lanes=2))
