"""Machines that are not as usual: wrong clocks, files of another user, calls that are not allowed, two runs at once.

Each command gives the right result there, or one sentence.
"""

import ctypes
import datetime
import json
import os
import shutil
import struct
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import BIN, ROOT
from helpers import cache_without
from reprofs.files import cache_folder

REPROFS = BIN / "reprofs"
NOBODY = 65534
SMALL = ["--stack=single", "--workload=metadata@50", "--scale=smoke", "--round=1", "--seed=7"]
EXACT = [REPROFS, "trial", "--lab=exact", "--filesystem=ext4", "--profile=ssd", *SMALL]
FIO = ROOT / "tests/fixtures/import/fio.json"
OPEN = """
import reprofs
from reprofs.errors import UserError
try:
    reprofs.open("memory")
except UserError as error:
    print(error)
"""
WRITE = 'cd "$0" && echo x > a && mv a b && cat b'


def ran(words: list, **how) -> subprocess.CompletedProcess:
    done = subprocess.run([*map(str, words)], cwd=ROOT, capture_output=True, text=True, timeout=500, **how)
    assert "Traceback" not in done.stderr, done.stderr
    return done


def sentence(words: list, **how) -> str:
    """What a command that does not succeed says: one sentence, the last line."""
    done = ran(words, **how)
    said = [line for line in done.stderr.splitlines() if line.startswith("reprofs: ")]
    assert done.returncode == 2 and done.stderr.splitlines()[-1:] == said[-1:] and len(said[-1]) < 400, done.stderr
    return said[-1]


# ---- clocks ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def clock(tmp_path_factory):
    """`clock(year)`: the environment of a process for which it is that year; times of files stay right."""
    made = tmp_path_factory.mktemp("clock") / "clock.so"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", made, ROOT / "tests/clock.c"], check=True)

    def environment(year: int) -> dict[str, str]:
        moved = datetime.datetime(year, 1, 2, 12) - datetime.datetime.now()
        return os.environ | {"LD_PRELOAD": str(made), "CLOCK_SECONDS": str(int(moved.total_seconds()))}

    return environment


@pytest.mark.wide
def test_a_wrong_clock_changes_no_number(clock, guest, tmp_path):
    """Neither that of the machine nor that of QEMU, which has it, too."""
    found = {}
    for year in (1970, 2040):
        output = tmp_path / f"{year}.json"
        done = ran([*EXACT, f"--output={output}"], env=clock(year))
        found[year] = json.loads(output.read_text())
        assert not done.returncode and found[year]["status"] == "ok"
        assert found[year]["environment"]["started"].startswith(f"{year}-01-02")
        assert 0 < found[year]["environment"]["host_seconds"] < 500
    assert found[1970]["digests"]["measurement"] == found[2040]["digests"]["measurement"]


@pytest.mark.wide
@pytest.mark.parametrize("year", [1970, 2040])
def test_commands_do_the_same_at_a_wrong_clock(year, clock, tmp_path):
    (tmp_path / "files").mkdir()
    environment = clock(year) | {"TMPDIR": str(tmp_path)}
    ran([REPROFS, "import", "fio", FIO, "--output", tmp_path / "import"], env=environment)
    assert (tmp_path / "import/measurements.parquet").is_file()
    record = [
        REPROFS,
        "record",
        f"--output={tmp_path}/it.jsonl.xz",
        f"--below={tmp_path}/files",
        "--",
        "sh",
        "-c",
        WRITE,
    ]
    assert ran([*record, tmp_path / "files"], env=environment).returncode == 0
    assert ran([REPROFS, "plan", "quick"], env=environment).returncode == 0
    assert not list(tmp_path.glob("reprofs-*"))


# ---- another user ----------------------------------------------------------------------------------------------------


@pytest.fixture
def nobody(tmp_path):
    """`nobody(words)`: a command as another user, for whom checkout, Python and cache are only readable.

    What these need of the home folder, which that user may not enter, is laid over it in a namespace of mounts.
    """
    if os.geteuid():
        pytest.skip("another user is tried by root")
    home, own = Path.home(), tmp_path / "own"
    own.mkdir()
    os.chown(own, NOBODY, NOBODY)
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_mode & 0o005 != 0o005 and folder != Path("/"):
            mode = folder.stat().st_mode
            folder.chmod(mode | 0o005)
    needed = [path for path in (Path(sys.base_prefix), ROOT, cache_folder()) if path.is_relative_to(home)]
    script = [
        f"mkdir -p {own}/held/{number}; mount --rbind {path} {own}/held/{number}" for number, path in enumerate(needed)
    ]
    script += [f"mount -t tmpfs -o mode=755 none {home}"]
    script += [f"mkdir -p {path}; mount --rbind {own}/held/{number} {path}" for number, path in enumerate(needed)]
    script = "\n".join(["set -e", *script, 'exec setpriv --reuid=65534 --regid=65534 --clear-groups "$@"'])
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "XDG_"))}
    environment |= {"HOME": str(own), "TMPDIR": str(own), "REPROFS_CACHE": str(cache_folder())}
    if subprocess.run(["unshare", "--mount", "sh", "-c", script, "sh", "true"], env=environment).returncode:
        pytest.skip("nothing can be mounted here")

    def command(*words: object) -> dict:
        return {"words": ["unshare", "--mount", "sh", "-c", script, "sh", *words], "env": environment}

    command.own = own
    return command


@pytest.mark.wide
def test_another_user_gets_what_needs_no_rights_and_else_a_sentence(nobody, guest):
    own = nobody.own
    head = subprocess.run(["git", "rev-parse", "--short=7", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout
    assert f"({head.strip()}" in ran(**nobody(REPROFS, "--version")).stdout, "git refuses what is another user's"
    assert ran(**nobody(REPROFS, "import", "fio", FIO, "--output", own / "import")).returncode == 0
    (own / "files").mkdir()
    os.chown(own / "files", NOBODY, NOBODY)
    words = ["record", f"--output={own}/it.jsonl.xz", f"--below={own}/files", "--", "sh", "-c", WRITE, own / "files"]
    assert ran(**nobody(REPROFS, *words)).returncode == 0
    refused = {
        ("import", "fio", FIO, "--output", "data/imported/nobody"): "data/imported",
        ("site", "memory"): "site",
        ("plan", "quick", "--output", "data/plan/nobody.json"): "data/plan",
        (*map(str, EXACT[1:]), f"--output={own}/it.json"): "REPROFS_CACHE",
    }
    for words, told in refused.items():
        said = sentence(**nobody(REPROFS, *words))
        assert told in said and "Permission denied" in said
    said = ran(**nobody(BIN / "python", "-c", OPEN)).stdout
    assert not said or "REPROFS_CACHE" in said, said
    assert "nothing to remove for this user" in ran(**nobody(REPROFS, "cleanup")).stdout


# ---- calls that are not allowed --------------------------------------------------------------------------------------

PTRACE, UNSHARE, SETNS = 101, 272, 308  # numbers of system calls on x86-64


def without(*calls: int):
    """As preexec_fn: these calls fail with EPERM in the child and all that it starts. Source: seccomp(2)."""
    libc, refuse, allow = ctypes.CDLL(None, use_errno=True), 0x00050001, 0x7FFF0000
    code = [(0x20, 0, 0, 0)]  # load the number of the call
    code += [one for call in calls for one in ((0x15, 0, 1, call), (0x06, 0, 0, refuse))]
    code.append((0x06, 0, 0, allow))
    held = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in code))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(code), ctypes.addressof(held)))

    def forbid() -> None:
        if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, program, 0, 0):  # no new privileges; this filter
            raise OSError(ctypes.get_errno(), "prctl")
        assert held

    return forbid


def test_where_ptrace_is_forbidden_a_recording_says_so(engine, tmp_path):
    (tmp_path / "files").mkdir()
    words = [REPROFS, "record", f"--output={tmp_path}/it.jsonl.xz", f"--below={tmp_path}/files", "--", "true"]
    assert "ptrace is not allowed here" in sentence(words, preexec_fn=without(PTRACE))
    assert [path.name for path in tmp_path.iterdir()] == ["files"]


@pytest.mark.wide
def test_without_namespaces_guests_run_and_what_needs_them_says_so(guest, tmp_path):
    forbid = without(UNSHARE, SETNS)
    ran([*EXACT, f"--output={tmp_path}/exact.json"], preexec_fn=forbid)
    assert json.loads((tmp_path / "exact.json").read_text())["status"] == "ok"
    host = [REPROFS, "trial", "--lab=host", "--filesystem=ext4", "--profile=ram", *SMALL]
    ran([*host, f"--output={tmp_path}/host.json"], preexec_fn=forbid)
    record = json.loads((tmp_path / "host.json").read_text())
    assert record["status"] == "skipped" and ("unshare" in record["reason"] or "run as root" in record["reason"])


# ---- two runs at once ------------------------------------------------------------------------------------------------


@pytest.mark.wide
def test_two_trials_at_once_in_one_cache_measure_the_same(guest, tmp_path):
    """Of two checkouts that share it; neither has what the trial needs in a moment: the engine is compiled by one."""
    cache = cache_without(tmp_path, "engine", "records")
    environment = os.environ | {"REPROFS_CACHE": str(cache)}
    outputs = [tmp_path / f"{number}/it.json" for number in range(2)]
    with ThreadPoolExecutor() as threads:
        done = list(threads.map(lambda output: ran([*EXACT, f"--output={output}"], env=environment), outputs))
    assert [one.returncode for one in done] == [0, 0], done
    one, other = (json.loads(output.read_text()) for output in outputs)
    assert one["status"] == "ok" and one["digests"]["measurement"] == other["digests"]["measurement"]
    assert not list(cache.rglob("*.partial")) and not list((cache / "work").glob("*"))


def test_a_second_run_in_a_checkout_is_one_sentence(tmp_path):
    """It waits for the first one, and then says so."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts/run-study", tmp_path / "scripts")
    text = (tmp_path / "scripts/run-study").read_text()
    assert "flock --wait 20" in text
    (tmp_path / "scripts/run-study").write_text(text.replace("--wait 20", "--wait 1"))
    (tmp_path / "logs").mkdir()
    with subprocess.Popen(
        ["flock", "--no-fork", tmp_path / "logs/.run.lock", "sh", "-c", "echo; exec sleep 290"], stdout=-1
    ) as first:
        first.stdout.readline()
        done = subprocess.run([tmp_path / "scripts/run-study"], capture_output=True, text=True)
        first.kill()
    assert done.returncode == 2
    assert done.stderr == "reprofs: another run is working in this checkout: wait for it, or use a second checkout.\n"
