"""Commands that are killed at any moment: `reprofs cleanup` names and removes all that they leave."""

import ast
import contextlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import uuid
from pathlib import Path

import pytest
from conftest import BIN, ROOT
from helpers import cache_without, drawn
from reprofs import cleanup, files, leftovers, workplace
from reprofs.publish import sealed
from reprofs.records import publication
from test_kernels import a_package

# One worker: a clean-up takes what another test has just left behind, too.
pytestmark = pytest.mark.xdist_group("cleanup")

MARK = "REPROFS_TEST_OF_KILLS"
PLACES = ("results", "envs", "workflow/kernels")  # of a checkout, beside which nothing may be left
SLEEPS = "#!/bin/sh\nmktemp > /dev/null\nmktemp -d > /dev/null\nsleep 61 &\nsleep 62\n"
# As the commands of their names, in a checkout where something is not committed, and for a copy of a result.
ARCHIVE = """
import sys
from pathlib import Path
from reprofs.publish import archive
archive.version.commit = lambda: sys.argv[1]
# The result may be older than this checkout's tables.
archive.describe.tables = lambda top, *_: (top / archive.describe.TABLES).mkdir()
archive.archive("quick", Path(sys.argv[2]), print)
"""
PUBLISH = """
import sys
from pathlib import Path
from reprofs.publish import write
if __name__ == "__main__":
    write._commit = lambda: sys.argv[1]
    write.place = write.log.place = lambda name: Path(sys.argv[2]) / name
    write.render("quick")
"""
SITE = """
import sys
from pathlib import Path
from reprofs.publish import site
if __name__ == "__main__":
    site.write(Path(sys.argv[2]) / "site", ["memory"], print)
"""
COMMIT = """
import sys
from pathlib import Path
from reprofs.publish import commits, verify
commits.version.is_ancestor = commits._restored = lambda *_: True
verify.verify(Path(sys.argv[1]), 1, [], 1, print)
"""


@pytest.fixture
def somewhere(tmp_path, monkeypatch) -> Path:
    """A folder with a temporary folder and a cache of its own; what was built before is shared."""
    for name in ("tmp", "out"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setenv("REPROFS_CACHE", str(cache_without(tmp_path, "commits", "published")))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr(cleanup, "NEW_SECONDS", 0)  # nothing else runs there
    return tmp_path


def marked(mark: str) -> list[str]:
    """The commands of processes that have the mark in their environment."""
    found = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if f"{MARK}={mark}".encode() in environ.read_bytes().split(b"\0"):
                found.append(environ.with_name("cmdline").read_bytes().replace(b"\0", b" ").decode()[:80])
    return found


def inside(*folders: Path) -> set[Path]:
    return {path for folder in folders for path in folder.rglob("*")}


def killed(words: list, where: Path, cwd: Path, moment: float) -> None:
    """Starts a command and kills it `moment` seconds after it has made a folder; whatever is left must be removed."""
    mark, tmp, cache = uuid.uuid4().hex, where / "tmp", where / "cache"
    own = [path for path in cache.iterdir() if not path.is_symlink()]
    before = inside(where / "out", *(cwd / name for name in PLACES), *own)
    with (where / "said").open("w") as log:
        process = subprocess.Popen([*map(str, words)], cwd=cwd, env=os.environ | {MARK: mark}, stdout=log, stderr=log)
    deadline = time.monotonic() + 5
    while process.poll() is None and time.monotonic() < deadline and not list(tmp.iterdir()):
        time.sleep(0.01)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(moment)
    process.send_signal(signal.SIGKILL)
    process.wait()
    said = (where / "said").read_text()
    assert "Traceback" not in said, said
    # A file in `out` that has its own name is the whole result: the command came so far.
    made = (path for path in (where / "out").iterdir() if path not in before and path.name.startswith("."))
    left = [*tmp.iterdir(), *made]
    named = cleanup.sweep() + cleanup.sweep_cache()
    until = time.monotonic() + 60
    while marked(mark) and time.monotonic() < until:  # some look every half second whether their parent lives
        time.sleep(0.1)
    named += cleanup.sweep() + cleanup.sweep_cache() + leftovers.sweep()  # what these still had
    assert not marked(mark), (named, said)
    assert not list(tmp.iterdir()) and (named or not left)
    work = [path for path in (cache / "work", cache / "commits") if path.exists()]
    assert not [path for folder in work for path in folder.iterdir() if path.name.startswith((".", "reprofs-"))]
    new = inside(where / "out", *(cwd / name for name in PLACES), *own) - before
    assert not [path for path in new if path.name.startswith((".", "reprofs-")) or path.suffix == ".partial"], named


def an_archive(where: Path) -> list:
    """Whose `verify` starts something that runs long, and leaves something in the temporary folder."""
    top = where / "reprofs-small"
    if not top.exists():
        top.mkdir()
        (top / "verify").write_text(SLEEPS)
        (top / "verify").chmod(0o755)
        (top / sealed.RESULTS / "small").mkdir(parents=True)
        (top / sealed.RESULTS / "small/digests.json").write_text("{}")
        names = ("verify", f"{sealed.RESULTS}small/digests.json")
        (top / sealed.SUMS).write_text("".join(f"{files.sha256(top / name)}  {name}\n" for name in names))
        with tarfile.open(where / "small.tar", "w") as made:
            made.add(top, top.name)
    return [BIN / "reprofs", "verify", where / "small.tar", "--run-archive"]


def another_commit(where: Path) -> list:
    """A result of another commit, whose code, taken from the cache, runs long."""
    folder, commit = where / "result", "f" * 40
    if not folder.exists():
        shutil.copytree(ROOT / "results/quick", folder)
        data = json.loads((folder / publication.DIGESTS).read_text())
        data["rendered"]["commit"] = commit
        with tarfile.open(folder / "records-1.tar.xz") as packed:
            plan = packed.extractfile("plan.json").read().replace(b'"study"', b'"sturdy"', 1)
        made = io.BytesIO()
        with tarfile.open(fileobj=made, mode="w:xz") as packed:
            entry = tarfile.TarInfo("plan.json")
            entry.size = len(plan)
            packed.addfile(entry, io.BytesIO(plan))
        (folder / "records-1.tar.xz").write_bytes(made.getvalue())
        data["files"]["records-1.tar.xz"] = files.sha256(folder / "records-1.tar.xz")
        (folder / publication.DIGESTS).write_text(json.dumps(data))
        for name in "scripts/setup", ".venv/bin/reprofs":
            script = where / "cache/commits" / commit / name
            script.parent.mkdir(parents=True)
            script.write_text(SLEEPS if "bin" in name else "#!/bin/sh\nmktemp > /dev/null\n")
            script.chmod(0o755)
    return [sys.executable, "-c", COMMIT, folder]


def of_git(where: Path, code: str, *words: object) -> list:
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [sys.executable, "-c", code, commit.strip(), *words]


def a_copy(where: Path) -> Path:
    if not (where / "out/results").exists():
        shutil.copytree(ROOT / "results/quick", where / "out/results/quick")
    return where / "out"


def a_recording(where: Path) -> list:
    (where / "files").mkdir(exist_ok=True)
    (where / "out/it.jsonl.xz").unlink(missing_ok=True)
    words = ["record", f"--output={where}/out/it.jsonl.xz", f"--below={where}/files"]
    return [BIN / "reprofs", *words, "--", "sh", "-c", TOUCH, where / "files"]


FIO = ROOT / "tests/fixtures/import/fio.json"
TOUCH = 'mkdir -p "$0" && cd "$0" && for i in $(seq 200); do echo > $i; done; (sleep 10 &); sleep 1'
COMMANDS = {  # and how long they take in all, about
    "import": (lambda where: [BIN / "reprofs", "import", "fio", FIO, "--output", where / "out/import"], 1),
    "verify-archive": (an_archive, 1),
    "verify-commit": (another_commit, 1),
    "verify-claims": (lambda where: [BIN / "reprofs", "verify", "results/quick", "--claims"], 3),
    "verify-trials": (lambda where: [BIN / "reprofs", "verify", "results/quick", "--trials", "1"], 6),
    "archive": (lambda where: of_git(where, ARCHIVE, where / "out/quick.tar.xz"), 8),
    "publish": (lambda where: of_git(where, PUBLISH, a_copy(where)), 12),
    "site": (lambda where: of_git(where, SITE, where / "out"), 20),
    "record": (a_recording, 2),
}


AGAIN = ("import", "archive", "publish", "site", "record")  # whose second run is tried; `verify` changes nothing


def succeeds(words: list, cwd: Path) -> None:
    done = subprocess.run([*map(str, words)], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.wide
@pytest.mark.parametrize("times", [1, pytest.param(12, marks=pytest.mark.soak)])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_killed_command_leaves_nothing(command, times, somewhere, guest):
    """What was there before is there, whole; and the same command succeeds afterwards."""
    words, seconds = COMMANDS[command]
    draw, written = drawn(), dict[Path, bytes]()
    for _ in range(times):
        killed(words(somewhere), somewhere, ROOT, draw.random() * seconds)
        for result in (somewhere / "out").glob("results/quick"):
            publication.read(result)
        written |= {path: path.read_bytes() for path in (somewhere / "out").glob("[!.]*") if path.is_file()}
    if command in AGAIN and (times > 1 or seconds < 5):
        succeeds(words(somewhere), ROOT)
        for path, content in written.items():  # one that it wrote before it was killed was whole; recordings have times
            assert command == "record" or path.read_bytes() == content


# Commands of a checkout that is copied.
INSIDE = "import sys; from reprofs.cli import main; sys.argv[1:] = sys.argv[1].split(); main()"


def in_copy(checkout: Path, words: str) -> list:
    return ["env", f"PYTHONPATH={checkout}/scripts", sys.executable, "-c", INSIDE, words]


@pytest.mark.wide
@pytest.mark.parametrize("times", [1, pytest.param(4, marks=pytest.mark.soak)])
def test_a_killed_lock_leaves_nothing_and_the_lock_as_it_was(times, somewhere, checkout, engine):
    """It builds in a cache that has no guest yet."""
    (somewhere / "cache/root").unlink(missing_ok=True)
    before, draw = (checkout / "envs/lab.lock").read_bytes(), drawn()
    for _ in range(times):
        killed(in_copy(checkout, "lock --built base"), somewhere, checkout, draw.random() * 6)
        assert (checkout / "envs/lab.lock").read_bytes() == before


@pytest.mark.parametrize("times", [2, pytest.param(20, marks=pytest.mark.soak)])
def test_a_killed_kernel_leaves_its_file_whole_or_none(times, somewhere, checkout):
    deb = a_package(somewhere, padding=32 << 20)
    words, draw = in_copy(checkout, f"kernel mine {deb}"), drawn()
    made = checkout / "workflow/kernels/mine.yaml"
    for _ in range(times):
        made.unlink(missing_ok=True)
        killed(words, somewhere, checkout, draw.random() * 2)
    made.unlink(missing_ok=True)
    succeeds(words, checkout)
    assert "config_sha256" in made.read_text()


@pytest.mark.parametrize("moment", [None, "interrupt", "renameat2"])
def test_a_folder_takes_the_place_of_another_in_one_step(moment, tmp_path, monkeypatch):
    """Until then the old one is there, and what was made is removed; also where two names cannot be exchanged."""
    (tmp_path / "it").mkdir()
    (tmp_path / "it/old").touch()
    if moment == "renameat2":
        monkeypatch.setattr(workplace._LIBC, "renameat2", lambda *_: -1)
    removed, remove = [], shutil.rmtree
    monkeypatch.setattr(shutil, "rmtree", lambda path, **how: (removed.append(path), remove(path, **how)))
    with contextlib.suppress(KeyboardInterrupt), workplace.beside(tmp_path) as held:
        (held / "it").mkdir()
        (held / "it/new").touch()
        if moment == "interrupt":
            raise KeyboardInterrupt
        workplace.put(held / "it", tmp_path / "it")
    assert [path.name for path in tmp_path.rglob("*")] == ["it", "old" if moment == "interrupt" else "new"]
    assert (tmp_path / "it" in removed) == (moment == "renameat2"), "it is there all the time where that is possible"


def test_the_file_that_python_tries_a_temporary_folder_with_is_removed(tmp_path, somewhere):
    tried, other = somewhere / "tmp/ab12_x9z", somewhere / "tmp/ab12_x9y"
    tried.write_bytes(b"blat")
    other.write_bytes(b"blot")
    os.mkfifo(somewhere / "tmp/abcdefgh")
    time.sleep(0.01)
    assert leftovers.sweep() == [f"file {tried}"] and other.exists()


def test_half_written_files_of_a_checkout_are_removed_and_no_others(checkout, somewhere, monkeypatch):
    monkeypatch.chdir(checkout)
    half = ["results/.README.md.ab12_x9z", "data/raw/quick/.r1.json.abcdefgh", "site/.index.html.abcdefgh"]
    half.append("workflow/kernels/.mine.yaml.abcdefgh")
    others = ["results/.gitignore", "data/.note", "results/.x.ABCDEFGH", "docs/.a.md.abcdefgh", "site/a.html.abcdefgh"]
    for name in (*half, *others, "report/quick/.new.abcdefgh/page"):
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        (checkout / name).touch()
    monkeypatch.setattr(cleanup, "NEW_SECONDS", 60)
    assert cleanup.sweep_cache() == [], "they may be of a command that runs"
    monkeypatch.setattr(cleanup, "NEW_SECONDS", -1)
    assert {line.split(f"{checkout}/")[1] for line in cleanup.sweep_cache()} == {*half, "report/quick/.new.abcdefgh"}
    assert all((checkout / name).exists() for name in others)


# What makes folders or processes that outlive a kill, and who may: workplace.py alone, beside these.
MAY = {
    "workplace.py": {"mkdtemp", "gettempdir"},
    "cleanup.py": {"gettempdir"},  # where it looks
    "leftovers.py": {"gettempdir"},  # the same
    "files.py": {"mkstemp", "TemporaryFile", "TemporaryDirectory"},  # no name, or one for as long as files are written
    "guest/inside.py": {"TemporaryFile"},  # no name
    "report/execute.py": {"tempdir"},  # of a notebook: in a workplace
}


def test_a_process_ends_with_the_one_that_started_it():
    """Also when that is killed, and nobody cleans up."""
    code = (
        "import os, signal, subprocess\n"
        "from reprofs.workplace import end_with_parent\n"
        "child = subprocess.Popen(['sleep', '60'], preexec_fn=end_with_parent, stdout=subprocess.DEVNULL)\n"
        "print(child.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    child, until = Path("/proc", done.stdout.strip(), "stat"), time.monotonic() + 60
    assert done.returncode == -signal.SIGKILL and child.parent.name.isdecimal()
    with contextlib.suppress(OSError):  # it is gone, or nobody has asked how it ended
        while child.read_text().rpartition(") ")[2][0] != "Z":
            assert time.monotonic() < until
            time.sleep(0.01)


def test_nothing_but_workplaces_makes_temporary_folders_or_processes_that_stay():
    package, found = ROOT / "scripts/reprofs", {}
    for path in sorted(package.rglob("*.py")):
        name, text = str(path.relative_to(package)), path.read_text()
        for node in ast.walk(ast.parse(text if "tempfile" in text or "Popen" in text else "")):
            if isinstance(node, ast.ImportFrom) and node.module in ("tempfile", "subprocess"):
                found.setdefault(name, set()).add(f"from {node.module}")
            if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "tempfile":
                found.setdefault(name, set()).add(node.attr)
            starts = isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "Popen"
            if starts and not any(word.arg == "preexec_fn" for word in node.keywords):
                found.setdefault(name, set()).add("Popen")
    assert found == MAY
