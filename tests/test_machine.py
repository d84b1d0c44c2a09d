"""A machine that is full, hangs, or forbids: one true sentence, before the trial where that can be known."""

import contextlib
import json
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import ROOT
from helpers import CATALOG, cell
from reprofs import files, workplace
from reprofs.errors import UserError
from reprofs.guest import engine
from reprofs.labs import _qemu
from reprofs.plan.catalog import Catalog
from reprofs.plan.study import Study
from reprofs.trial.planning import as_root, edited, make_plan
from reprofs.trial.run import ready

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounts need root")


@contextlib.contextmanager
def largest_file(size: int):
    """Files of this process may have so many bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def in_small_folder(folder: Path, options: str, code: str) -> str:
    """What Python code says in a mount namespace of its own, where `folder` is a file system in memory."""
    folder.mkdir(exist_ok=True)
    script = f"mount -t tmpfs -o {options} small '{folder}' && exec '{sys.executable}' -c \"$0\""
    environment = os.environ | {"TMPDIR": str(folder)}
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, code], capture_output=True, text=True, cwd=ROOT, env=environment
    )
    return done.stdout + done.stderr


def test_a_limit_of_file_size_is_said_before_the_trial(tmp_path):
    with largest_file(10 << 10):
        with pytest.raises(UserError, match=r"ulimit -f unlimited"):
            files.check_writable(tmp_path / "record.json")
        with pytest.raises(UserError, match="files may have 10 KiB at most here"), workplace.workplace(tmp_path):
            pass
    assert not list(tmp_path.iterdir())


@needs_root
def test_a_full_disk_is_said_before_the_trial(tmp_path):
    code = "from pathlib import Path; from reprofs import files\n"
    code += f"try: files.check_writable(Path('{tmp_path}/small/record.json'))\nexcept Exception as error: print(error)"
    said = in_small_folder(tmp_path / "small", "size=64k", code)
    hint = "No space left on device; free space or choose another folder.\n"
    assert said == f"{tmp_path}/small/record.json cannot be written: {hint}"


@needs_root
def test_a_full_temporary_folder_is_said_before_the_trial(tmp_path):
    code = "from reprofs.workplace import workplace\n"
    code += "try:\n with workplace(): pass\nexcept Exception as error: print(error)"
    said = in_small_folder(tmp_path / "small", "size=64k", code)
    assert said.startswith(f"{tmp_path}/small cannot be written: it has 64 KiB free, and 8,192 are needed; ")
    assert len(said.splitlines()) == 1


@needs_root
def test_a_trial_runs_where_temporary_files_cannot_be_executed(tmp_path, guest):
    (tmp_path / "guest.json").write_text(json.dumps(guest))
    code = f"""
import json
from pathlib import Path
from reprofs import files
from reprofs.guest.steps import Clock, Job
from reprofs.labs.exact import ExactLab
manifest = json.loads(Path('{tmp_path}/guest.json').read_text())
print(ExactLab(manifest, files.cache_folder()).run(Job([Clock()]), 120).ending)
"""
    assert in_small_folder(tmp_path / "small", "size=64m,noexec", code) == "finished\n"


def test_a_cache_where_nothing_can_be_executed_is_said(tmp_path, monkeypatch):
    flags = os.statvfs(tmp_path).f_flag | os.ST_NOEXEC
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_flag=flags))
    with pytest.raises(UserError, match="is mounted noexec, but programs must run there: set REPROFS_CACHE"):
        engine.build(files.cache_folder())


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("exec sleep 100", "does not answer within 1 s when asked for its version"),
        ("head -c 9000 /dev/urandom", "does not print its version"),
        (r"printf 'QEMU emulator version \377\376\n'", "does not print its version"),
    ],
)
def test_a_qemu_without_a_version_is_a_clause(script, words, tmp_path, monkeypatch):
    monkeypatch.setattr(_qemu, "ANSWER_S", 1)
    assert _qemu._qemu_version(str(program(tmp_path / "qemu", script))) == ("", words)
    assert _qemu._qemu_version(str(tmp_path)) == ("", "cannot be started (Permission denied)")


def test_a_qemu_that_hangs_is_waited_for_aloud_and_then_ended(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(_qemu, "ANSWER_S", 1)
    monkeypatch.setattr(_qemu, "SILENT_S", 0.2)
    silent = program(tmp_path / "silent", "echo $$ > pid; exec sleep 100")
    with pytest.raises(UserError) as caught:
        _qemu.Machine(_qemu.Qemu(silent, "7.2", "0" * 64), [], tmp_path)
    assert "the first answer of QEMU did not come within 1 s, so QEMU was ended" in str(caught.value)
    assert "reprofs: still waiting for the first answer of QEMU, up to 1 s more" in capsys.readouterr().err
    assert not Path("/proc", (tmp_path / "pid").read_text().strip()).exists()


def program(path: Path, script: str) -> Path:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    "words", [("claims", "x" * 5000), ("report", "x.ipynb", "--tables", "x" * 5000, "--output", "x")]
)
def test_a_name_of_five_thousand_characters_is_a_sentence(words, reprofs, says):
    done = reprofs(*words)
    says(done, "File name too long; choose a shorter name")
    assert len(done.stderr) < 300


def test_a_trial_of_other_files_than_were_planned_is_not_run(tmp_path):
    with pytest.raises(UserError, match="was edited after the run began: nothing was run"):
        ready(cell(), CATALOG, "0" * 64)
    assert not list(tmp_path.iterdir())


def test_a_study_that_was_edited_while_it_ran_is_told():
    plan, catalog = make_plan("quick", CATALOG), Catalog()
    assert edited(plan, "quick", catalog) == ""
    data = catalog.get(Study, "quick").as_json()
    catalog.add(Study, "quick", {**data, "question": "Another?"})
    assert edited(plan, "quick", catalog).startswith("a file of the study quick was edited during the run. The report")
    catalog.add(Study, "quick", {**data, "profiles": ["none"]})
    assert "run it again. Now: config/studies/quick.yaml: device profile 'none' does" in edited(plan, "quick", catalog)


@pytest.mark.parametrize("name", ["run-study", "setup"])
def test_scripts_choose_utf_8_where_the_locale_is_not(name, tmp_path):
    """Python does not start in a folder with umlauts otherwise."""
    place = tmp_path / "\u00fcml\u00e4ut"
    for folder in ("scripts", ".venv/bin", ".uv/bin"):
        (place / folder).mkdir(parents=True)
    script = shutil.copy(ROOT / "scripts" / name, place / "scripts")
    for tool in (place / ".venv/bin/snakemake", place / ".uv/bin/uv"):
        program(tool, 'echo "locale $LC_ALL"')
    packages = place / ".venv/lib/python3.11/site-packages"
    packages.mkdir(parents=True)
    (packages / "reprofs.pth").write_text(str(place / "scripts"))
    done = subprocess.run([script], env={**os.environ, "LC_ALL": "C"}, capture_output=True, text=True)
    assert "Traceback" not in done.stderr and (name == "setup" or "locale C.UTF-8" in done.stdout)
    if name == "setup":  # so that programs of .venv/bin start there without make, too
        written = (packages / "reprofs.pth").read_text()
        assert written.isascii() and (packages / written.strip()).resolve() == place / "scripts"
    made = subprocess.run(["make", "-pn", "help"], cwd=ROOT, env={**os.environ, "LC_ALL": "C"}, capture_output=True)
    assert b"LC_ALL := C.UTF-8" in made.stdout


def test_what_runs_as_root_is_named_before():
    plan = make_plan("agreement", CATALOG)
    said = as_root(plan.trials, CATALOG, "agreement")
    assert said.startswith("the commands of workflow/filesystems/btrfs.yaml, ") and len(said) < 300
    assert "run as root on this machine. `reprofs plan agreement --commands`" in said
    assert not as_root([trial for trial in plan.trials if trial.lab != "host"], CATALOG)
