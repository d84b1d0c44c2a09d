"""Full disks: each command says which one in a sentence, and nothing half-written stays."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import BIN, ROOT
from reprofs import workplace
from reprofs.errors import UserError
from reprofs.guest import engine as builder

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


@pytest.fixture
def disk(tmp_path):
    """`disk(free)`: a folder on its own file system with so many bytes free (0: all) and folders out, tmp, cache."""
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
MOUNT = ["--lab=mount", "--profile=ram"]
# What is called, the variables that lead to the full disk, and bytes free there.
CASES = {
    "import": ([REPROFS, "import", "fio", FIO, "--output", "{disk}/out/import"], (), 8192),
    "import-tmp": ([REPROFS, "import", "fio", FIO, "--output", "{tmp}/import"], ("TMPDIR",), 8192),
    "record": ([REPROFS, "record", "--output={disk}/out/it.jsonl.xz", "--below={tmp}", "--", "true"], (), 8192),
    "claims": ([REPROFS, "verify", "results/storage", "--claims"], ("TMPDIR",), 9 * MIB),
    "site": ([REPROFS, "site", "quick"], ("TMPDIR",), MIB),
    "verify": ([REPROFS, "verify", "results/quick", "--trials=1"], ("REPROFS_CACHE",), MIB),
    "trial": ([REPROFS, *TRIAL, *MOUNT, "--where={tmp}", "--output={disk}/out/it.json"], (), 8192),
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
    "compare": ([REPROFS, "compare", "results/quick", "results/devices", "--output={disk}/out/it.txt"], (), 4096),
    "scan": ([REPROFS, "scan", ROOT / "tests", "--names", "--output={disk}/out/it.yaml"], (), 4096),
    "plan": ([REPROFS, "plan", "quick", "--output={disk}/out/it.json"], (), 4096),
    "state": ([REPROFS, "state", "ext4", "write foo 0 4096", "--at=1", "--image={disk}/out/it"], (), 8192),
    "measure": ([REPROFS, "measure", "--filesystem=ext4", "--", "true"], ("REPROFS_CACHE",), MIB),
    "lock": ([REPROFS, "lock", "--built", "base"], ("REPROFS_CACHE",), MIB),
    "archive": (
        [sys.executable, "-c", ARCHIVE, "{head}", "{disk}/out/quick.tar.xz"],
        (),
        8192,
    ),
    "archive-later": (
        [sys.executable, "-c", ARCHIVE, "{head}", "{disk}/out/quick.tar.xz"],
        (),
        9 * MIB,
    ),
}


@pytest.mark.parametrize("what", [pytest.param(name, marks=pytest.mark.wide) for name in CASES])
def test_a_full_disk_is_one_sentence_and_leaves_nothing(what, disk, tmp_path, guest):
    words, variables, free = CASES[what]
    full, other = disk(free), tmp_path / "other"
    other.mkdir()
    words = [str(word).format(disk=full, tmp=other, head=head()) for word in words]
    places = {"TMPDIR": full / "tmp", "REPROFS_CACHE": full / "cache"}
    environment = os.environ | {name: str(places[name]) for name in variables}
    before = (ROOT / "envs/lab.lock").read_bytes()
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=200)
    said = [line for line in done.stderr.splitlines() if line.startswith("reprofs: ")]
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    assert len(said) == 1 and str(full) in said[0] and len(said[0]) < 400
    assert "free" in said[0] and ("No space left" in said[0] or "are needed" in said[0] or "not enough" in said[0])
    assert not [*other.iterdir(), *(full / "out").iterdir(), *(full / "tmp").iterdir()]
    assert not [path for path in (full / "cache").glob("*/*") if path.suffix == ".partial" or path.name[0] == "."]
    assert (ROOT / "envs/lab.lock").read_bytes() == before


# What is called, what it would replace -> its content, and bytes free.
PYTHON = [sys.executable, "-c"]
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
