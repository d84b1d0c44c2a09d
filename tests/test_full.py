"""Full disks: each command says which one in a sentence, and nothing half-written stays."""

import argparse
import base64
import gzip
import os
import shutil
import struct
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from conftest import BIN, ROOT
from reprofs import files, workplace
from reprofs.cli import trials
from reprofs.errors import UserError
from reprofs.guest import engine as builder
from reprofs.plan.catalog import Catalog
from reprofs.publish import runs, sealed, write
from reprofs.recorder import record
from reprofs.records import publication
from reprofs.trial import profile, state
from reprofs.trial.planning import make_plan
from test_kernels import built_tree

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="small file systems need root")

MIB = 1 << 20
FIO = ROOT / "tests/fixtures/import/fio.json"
TRIAL = ["trial", "--stack=single", "--workload=metadata@50", "--scale=smoke", "--round=1", "--seed=7"]
# As the command, which writes into the checkout, of one where something is not committed.
AS_COMMAND = """
import argparse, sys
from pathlib import Path
from reprofs import cli
def main(run):
    argparse.ArgumentParser.parse_args = lambda _: argparse.Namespace(run=lambda _: run(Path(sys.argv[2])))
    cli.parser = argparse.ArgumentParser
    cli.main()
"""
ARCHIVE = (
    AS_COMMAND
    + """
from reprofs.publish import archive
archive.version.commit = lambda: sys.argv[1]
archive.other_lab = lambda *_: []  # of an earlier lab until it is published again: the disk is full all the same
main(lambda output: archive.archive("quick", output, print))
"""
)
# A report in a moment: notebooks and pages are not what is tested.
QUICKLY = """
from reprofs.publish import derive as made
def derive(work, processes, pdf=False):
    study, sums = made.tables(work)
    (work / "report").mkdir()
    for name in "index.html", "report.pdf":
        (work / "report" / name).write_bytes(bytes(400_000))
    return made.Derived(study.plan, study, sums, "ext4.", work / "report")
"""
PUBLISH = (
    AS_COMMAND
    + QUICKLY
    + """
from reprofs.publish import write
if __name__ == "__main__":
    made.derive = derive
    write._commit = lambda: sys.argv[1]
    write.place = write.log.place = lambda name: Path(sys.argv[2]) / name
    main(lambda _: write.render("memory"))
"""
)
SITE = (
    AS_COMMAND
    + QUICKLY
    + """
from reprofs.publish import site
if __name__ == "__main__":
    site.derive = derive
    main(lambda folder: site.write(folder, ["memory"], print))
"""
)
CALIBRATE = (
    AS_COMMAND
    + """
from reprofs import calibrate
calibrate.place = lambda _: Path(sys.argv[2])
from reprofs.plan.catalog import Catalog
calibrate._instructions = lambda: [1.0] * calibrate.ROUNDS
DISK = (Path(sys.argv[1]), "ssd-nvme", Catalog())
main(lambda _: calibrate.calibrate("mine") if sys.argv[1] == "none" else calibrate.calibrate_disk("mine", *DISK))
"""
)
KERNEL = (
    AS_COMMAND
    + """
from reprofs import files
from reprofs.guest import own
own.place = lambda _: Path(sys.argv[2])
main(lambda _: own.write("mine", [], Path(sys.argv[1]), files.cache_folder()))
"""
)


@pytest.fixture
def disk(tmp_path):
    """`disk(free)`: a folder on its own file system with so many bytes free (0: all, 1: none), with out, tmp, cache."""
    folder = tmp_path / "disk"
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=12m", "none", folder]
    if subprocess.run(words, capture_output=True).returncode:
        pytest.skip("nothing can be mounted here")
    for name in ("out", "tmp", "cache"):
        (folder / name).mkdir()

    def fill(free: int) -> Path:
        with (folder / "fill").open("wb") as file:
            file.truncate(0)
            if free:
                os.posix_fallocate(file.fileno(), 0, os.statvfs(folder).f_bavail * 4096 - free)
        return folder

    yield fill
    subprocess.run(["umount", "--lazy", folder], check=True)


def head() -> str:
    return subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()


REPROFS = BIN / "reprofs"
PYTHON = [sys.executable, "-c"]
NOTEBOOK = ["--study=rot-on-arrays"]
MOUNT = ["--lab=mount", "--profile=ram"]
# What is called, the variables that lead to the full disk, and bytes free there. The folders of outputs are new.
CASES = {
    "import": ([REPROFS, "import", "fio", FIO, "--output", "{disk}/out/new/import"], (), 8192),
    "import-tmp": ([REPROFS, "import", "fio", FIO, "--output", "{tmp}/import"], ("TMPDIR",), 8192),
    "record": ([REPROFS, "record", "--output={disk}/out/new/it.jsonl.xz", "--below={tmp}", "--", "true"], (), 8192),
    "claims": ([REPROFS, "verify", "results/storage", "--claims"], ("TMPDIR",), 9 * MIB),
    "site": ([REPROFS, "site", "quick"], ("TMPDIR",), MIB),
    "verify": ([REPROFS, "verify", "results/quick", "--trials=1"], ("REPROFS_CACHE",), MIB),
    "trial": ([REPROFS, *TRIAL, *MOUNT, "--where={tmp}", "--output={disk}/out/new/it.json"], (), 8192),
    "trial-cache": (
        [REPROFS, *TRIAL, *MOUNT, "--where={tmp}", "--output={tmp}/it.json"],
        ("REPROFS_CACHE",),
        8192,
    ),
    "trial-tmp": (
        [REPROFS, *TRIAL, "--lab=exact", "--profile=ssd", "--filesystem=ext4", "--output={tmp}/it.json"],
        ("TMPDIR",),
        MIB,
    ),
    "compare": ([REPROFS, "compare", "results/quick", "results/devices", "--output={disk}/out/new/it.txt"], (), 4096),
    "scan": ([REPROFS, "scan", ROOT / "tests", "--names", "--output={disk}/out/new/it.yaml"], (), 4096),
    "plan": ([REPROFS, "plan", "quick", "--output={disk}/out/new/it.json"], (), 4096),
    "state": ([REPROFS, "state", "ext4", "write foo 0 4096", "--at=1", "--image={disk}/out/new/it"], (), 8192),
    "profile": ([REPROFS, "profile", FIO, "--output={disk}/out/new"], (), 8192),
    "measure-output": (
        [REPROFS, "measure", "--filesystem=ext4", "--output={disk}/out/new/it.json", "--", "true"],
        (),
        8192,
    ),
    "calibrate": ([*PYTHON, CALIBRATE, "none", "{disk}/out/new"], (), 8192),
    "calibrate-flush": ([*PYTHON, CALIBRATE, "{disk}/out", "{tmp}"], (), 1),
    "kernel": ([*PYTHON, KERNEL, "{build}", "{disk}/out/new"], (), 1),
    "kernel-tmp": ([*PYTHON, KERNEL, "{build}", "{tmp}"], ("TMPDIR",), MIB),
    "kernel-cache": ([*PYTHON, KERNEL, "{build}", "{tmp}"], ("REPROFS_CACHE",), 4096),
    "answer": ([REPROFS, "answer", "--name=it", "--", "true"], ("REPROFS_CACHE",), MIB),
    "soak": ([REPROFS, "soak", "ext4", "--hours=0"], ("REPROFS_CACHE",), MIB),
    "guest": ([REPROFS, "guest", "--output={disk}/out/new/base.json"], (), 1),
    "dataset": ([REPROFS, "dataset", "{plan}", "--raw={raw}", "--output={disk}/out/new"], (), 8192),
    "beside": (
        [REPROFS, "beside", "results/quick", "--plan={plan}", "--output={disk}/out/new"],
        (),
        8192,
    ),
    "notebook": (
        [REPROFS, "notebook", "notebooks/rot.ipynb", *NOTEBOOK, "--log={raw}/log", "--output={disk}/out/new/it.ipynb"],
        (),
        8192,
    ),
    "notebook-tmp": (
        [REPROFS, "notebook", "notebooks/rot.ipynb", *NOTEBOOK, "--log={disk}/out/log", "--output={tmp}/it.ipynb"],
        ("TMPDIR",),
        4096,
    ),
    "measure": ([REPROFS, "measure", "--filesystem=ext4", "--", "true"], ("REPROFS_CACHE",), MIB),
    "lock": ([REPROFS, "lock", "--built", "base"], ("REPROFS_CACHE",), MIB),
    "archive": (
        [sys.executable, "-c", ARCHIVE, "{head}", "{disk}/out/new/quick.tar.xz"],
        (),
        8192,
    ),
    "archive-later": (
        [sys.executable, "-c", ARCHIVE, "{head}", "{disk}/out/new/quick.tar.xz"],
        (),
        9 * MIB,
    ),
}


@pytest.mark.parametrize("what", [pytest.param(name, marks=pytest.mark.wide) for name in CASES])
def test_a_full_disk_is_one_sentence_and_leaves_nothing(what, disk, tmp_path, guest):
    words, variables, free = CASES[what]
    full, other = disk(free), tmp_path / "other"
    other.mkdir()
    given = {"build": built_tree(tmp_path / "linux"), "plan": tmp_path / "plan.json", "raw": tmp_path / "raw"}
    if any("{plan}" in str(word) for word in words):
        publication.unpack(ROOT / "results/quick", publication.read(ROOT / "results/quick"), tmp_path)
    words = [str(word).format(disk=full, tmp=other, head=head(), **given) for word in words]
    places = {"TMPDIR": full / "tmp", "REPROFS_CACHE": full / "cache"}
    environment = os.environ | {name: str(places[name]) for name in variables}
    before, there = (ROOT / "envs/lab.lock").read_bytes(), (ROOT / "site").exists()
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=200)
    said = [line for line in done.stderr.splitlines() if line.startswith("reprofs: ")]
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    assert len(said) == 1 and str(full) in said[0] and len(said[0]) < 400
    assert "free" in said[0] and ("No space left" in said[0] or "are needed" in said[0] or "not enough" in said[0])
    assert (ROOT / "site").exists() == there  # which a command makes in the checkout
    assert not [*other.iterdir(), *(full / "out").iterdir(), *(full / "tmp").iterdir()]
    assert not [path for path in (full / "cache").glob("*/*") if path.suffix == ".partial" or path.name[0] == "."]
    assert (ROOT / "envs/lab.lock").read_bytes() == before


# What is called, what it would replace -> its content, and bytes free.
REPLACED = {
    "publish": ([*PYTHON, PUBLISH, "{head}", "{disk}/out"], {"results/memory": ROOT / "results/memory"}, MIB // 2),
    "publish-later": ([*PYTHON, PUBLISH, "{head}", "{disk}/out"], {"results/memory": ROOT / "results/memory"}, 8192),
    "site": ([*PYTHON, SITE, "{head}", "{disk}/out/site"], {"site/memory/index.html": b"<p>before</p>"}, 65536),
    "archive": ([*PYTHON, ARCHIVE, "{head}", "{disk}/out/quick.tar.xz"], {"quick.tar.xz": b"before"}, 9 * MIB),
}


@pytest.mark.wide
@pytest.mark.parametrize("what", REPLACED)
def test_a_full_disk_keeps_what_was_there_before(what, disk, tmp_path, guest):
    words, old, free = REPLACED[what]
    out = disk(0) / "out"
    for name, content in old.items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, Path):
            shutil.copytree(content, out / name)
        else:
            (out / name).write_bytes(content)
    full, before = disk(free), {path: path.is_file() and path.read_bytes() for path in out.rglob("*")}
    words = [str(word).format(disk=full, tmp=tmp_path, head=head()) for word in words]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=500)
    said = [line for line in done.stderr.splitlines() if line.startswith("reprofs: ")]
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    assert len(said) == 1 and str(full) in said[0] and "free" in said[0] and len(said[0]) < 400, done.stderr
    assert before == {path: path.is_file() and path.read_bytes() for path in out.rglob("*")}


def image(file: Path) -> None:
    packed = gzip.compress(b"".join(struct.pack("<Q", number) + os.urandom(4096) for number in range(9)))
    state.write_image(base64.encodebytes(packed).decode(), file)


def recording(file: Path) -> None:
    record._put((file, file.parent / "its/it.yaml"), b"whole", "x" * MIB)


def beside(folder: Path) -> None:
    runs.set_beside("results/quick", make_plan("quick", Catalog()), folder)


def profiled(folder: Path) -> None:
    given = {"record": FIO, "beside": None, "misses": False, "failed_too": True, "output": folder, "extra_dir": None}
    trials.command["profile"].run(argparse.Namespace(**given))


@pytest.mark.parametrize("output", [image, recording, beside, profiled])
@pytest.mark.parametrize("earlier", [False, True])
def test_a_disk_that_gets_full_at_the_end_leaves_nothing(output, earlier, disk, monkeypatch):
    """There was room when the command began. An earlier output stays."""
    reason = {"reason": "x" * MIB, "phases": []}
    monkeypatch.setattr(files, "check_writable", lambda _: None)
    monkeypatch.setattr(profile, "profile", lambda _path, _catalog, folder, *_, **__: profile._kept(folder, reason))
    out = disk(0) / "out"
    target = out / "new/it"
    if earlier:
        target.parent.mkdir()
        if output is image:
            target.write_text("before")
        elif output is not recording:  # which refuses to replace one
            target.mkdir()
            (target / "profile.json").write_text("before")
    there = {path: path.is_file() and path.read_bytes() for path in out.rglob("*")}
    disk(8192)
    with pytest.raises((UserError, OSError), match="No space left on device") as error:
        output(target)
    assert str(out) in str(error.value)
    assert there == {path: path.is_file() and path.read_bytes() for path in out.rglob("*")}


@pytest.mark.parametrize("earlier", [False, True])
def test_no_result_stays_that_the_log_has_not(earlier, tmp_path, monkeypatch):
    def make(_work, _lock, _rendered, folder):
        folder.mkdir()
        (folder / "ABOUT.md").write_text("new")

    def append(folder):
        assert (folder / "ABOUT.md").read_text() == "new"
        raise UserError("LOG cannot be written: No space left on device.")

    publication.unpack(ROOT / "results/quick", publication.read(ROOT / "results/quick"), tmp_path / "work")
    for name, value in {"make": make, "foreign": lambda *_: "", "place": lambda name: tmp_path / name}.items():
        monkeypatch.setattr(write, name, value)
    monkeypatch.setattr(write.log, "append", append)
    folder = tmp_path / "results/quick"
    if earlier:
        folder.mkdir(parents=True)
        (folder / "ABOUT.md").write_text("before")
    with pytest.raises(UserError, match="LOG cannot be written"):
        write._write(tmp_path / "work", tmp_path / "lab.lock", "c" * 40)
    assert [path.read_text() for path in (tmp_path / "results").rglob("ABOUT.md")] == ["before"] * earlier
    assert len(list((tmp_path / "results").iterdir())) == earlier


def test_an_archive_that_cannot_be_unpacked_names_the_full_disk(disk, tmp_path):
    top = tmp_path / "reprofs-quick"
    shutil.copytree(ROOT / "results/quick", top / "checkout/results/quick")
    (top / "verify").touch()
    (top / sealed.SUMS).write_text("".join(f"{files.sha256(top / name)}  {name}\n" for name in sealed.listed(top)))
    with tarfile.open(tmp_path / "quick.tar.xz", "w:xz", preset=0) as packed:
        for name in (*sealed.listed(top), sealed.SUMS):
            packed.add(top / name, f"{top.name}/{name}")
    full = disk(8192)
    with pytest.raises(UserError) as error:
        sealed.result_of(tmp_path / "quick.tar.xz", full / "tmp")
    assert str(error.value).startswith(f"{full}/tmp cannot be written: No space left on device; free space or choose")


def test_a_compiler_on_a_full_disk_says_that(disk, tmp_path, monkeypatch):
    """It is killed by a signal there, or says much else. Without a word of it there is still a sentence."""
    full = disk(8192)
    compiler = tmp_path / "compiler"
    compiler.write_text("#!/bin/sh\nkill -BUS $$\n")
    compiler.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(compiler))
    with pytest.raises(UserError, match="the compiler ended with -7 and said nothing"):
        builder.compile_c([], tmp_path / "made", [])
    for output, cache in (full / "made", tmp_path), (tmp_path / "made", full):
        monkeypatch.setenv("ZIG_GLOBAL_CACHE_DIR", str(cache))
        with pytest.raises(UserError, match=f"the disk of {full} is full: free space, or set REPROFS_CACHE"):
            builder.compile_c([], output, [])


def test_programs_need_a_temporary_folder_where_they_run(disk):
    full = disk(10 * MIB)
    subprocess.run(["mount", "-o", "remount,noexec", full], check=True)
    with workplace.scratch(full / "tmp") as work:
        (work / "verify").write_text("#!/bin/sh\nexit 0\n")
        (work / "verify").chmod(0o755)
        with pytest.raises(UserError, match=r"is mounted noexec.*TMPDIR"):
            workplace.run(work, [work / "verify"])
