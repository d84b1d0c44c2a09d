"""The archive of a published result: what it checks, what it asks for, and (soak) the whole of it, offline."""

import importlib.metadata
import io
import os
import shutil
import subprocess
import sys
import tarfile

import pytest
from conftest import ROOT
from reprofs.errors import UserError
from reprofs.files import sha256
from reprofs.publish import archive, sealed

INSTALLED = importlib.metadata.packages_distributions()  # module -> who has it


@pytest.fixture
def top(tmp_path):
    """An unpacked archive whose `verify` says with what it was called, and ends with 1."""
    made = tmp_path / "reprofs-small"
    (made / "cache").mkdir(parents=True)
    (made / "cache/root").write_bytes(bytes(1000))
    (made / "README.md").write_text("read\n")
    (made / "verify").write_text('#!/bin/sh\necho "called with $*"\nexit 1\n')
    (made / "verify").chmod(0o755)
    (made / sealed.SUMS).write_text("".join(f"{sha256(made / name)}  {name}\n" for name in sealed.listed(made)))
    return made


def test_a_whole_archive_is_verified_by_itself(top, tmp_path, reprofs, capfd):
    archive._pack(top, tmp_path / "one.tar.xz")
    for path in top.rglob("*"):
        os.utime(path, (1, 1))
    archive._pack(top, tmp_path / "two.tar.xz")
    assert sha256(tmp_path / "one.tar.xz") == sha256(tmp_path / "two.tar.xz")
    done = reprofs("verify", tmp_path / "one.tar.xz", "--all", "--seed", "5")
    assert (done.returncode, capfd.readouterr().out) == (1, "called with --all --seed 5\n"), done.stderr


@pytest.mark.parametrize("name", ["cache/root", "README.md", "verify"])
def test_an_altered_a_missing_and_a_strange_file_are_named(top, tmp_path, name, reprofs, says):
    path = top / name
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    archive._pack(top, tmp_path / "altered.tar.xz")
    says(reprofs("verify", tmp_path / "altered.tar.xz"), f"reprofs-small/{name} is missing or was altered")
    path.unlink()
    with pytest.raises(UserError, match=f"{name} is missing or was altered"):
        sealed.check(top)
    path.write_bytes(data)
    sealed.check(top)
    path.with_name("strange").symlink_to("/etc/passwd")
    with pytest.raises(UserError, match="strange does not belong to the archive"):
        sealed.check(top)


def test_what_is_no_archive_is_refused(top, tmp_path, reprofs, says):
    (tmp_path / "text").write_text("no archive")
    says(reprofs("verify", tmp_path / "text"), "is no whole archive")
    archive._pack(top, tmp_path / "cut")
    (tmp_path / "cut").write_bytes((tmp_path / "cut").read_bytes()[:200])
    says(reprofs("verify", tmp_path / "cut"), "is no whole archive")
    with tarfile.open(tmp_path / "other", "w") as other:
        other.addfile(tarfile.TarInfo("a/b"), io.BytesIO())
    says(reprofs("verify", tmp_path / "other"), "is no archive of a published result")


def test_verifying_imports_nothing_that_reports_are_made_with():
    code = "import sys, reprofs.cli, reprofs.publish.sealed, reprofs.publish.verify; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found = {name.partition(".")[0] for name in done.stdout.split()}
    known = {name.replace("-", "_") for name in archive.WHEELS} - {"pyyaml"} | {"yaml", "reprofs"}
    assert not found & set(INSTALLED) - known


def test_only_what_a_trial_needs_is_asked_for():
    first, other, last = (f"{name}==3.1 \\\n    --hash=sha256:aa\n" for name in ("orjson", "pandas", "pydantic"))
    assert archive._only(f"# made\n{first}{other}{last}") == first + last


@pytest.mark.soak
def test_the_archive_of_quick_is_verified_without_network_and_python(guest, tmp_path, reprofs):
    """In a network namespace of its own, with no more in PATH than a shell's own programs."""
    made = archive.archive("quick", tmp_path / "quick.tar.xz", print)
    with tarfile.open(made) as packed:
        packed.extractall(tmp_path, filter="data")
    sealed.check(tmp_path / "reprofs-quick")
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("sh", "sha256sum", "dirname"):
        (programs / name).symlink_to(shutil.which(name))
    command = [shutil.which("unshare"), "--net", "--map-root-user", "/bin/sh", "reprofs-quick/verify", "--trials", "1"]
    done = subprocess.run(command, cwd=tmp_path, env={"PATH": str(programs)}, capture_output=True, text=True)
    assert done.returncode == 0 and "1 of 1 identical" in done.stderr, done.stderr
    assert (ROOT / "results/quick/digests.json").read_bytes() == (
        tmp_path / "reprofs-quick/checkout/results/quick/digests.json"
    ).read_bytes()
