"""scripts/setup: what a newcomer without root, or with the wrong Python, is told; nothing is half-done."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, copy_checkout

TOOLS = ("bash", "dirname", "env", "git", "flock", "mkfs.erofs", "shellcheck", "cat", "tail", "mktemp", "rm")


@pytest.fixture
def machine(tmp_path) -> Path:
    """A folder of commands that stands for a machine where QEMU and mmdebstrap are missing and the user is not root."""
    commands = tmp_path / "bin"
    commands.mkdir()
    for tool in TOOLS:
        if shutil.which(tool):
            (commands / tool).symlink_to(shutil.which(tool))
    (commands / "python3").symlink_to(os.path.realpath(sys.executable))
    script(commands / "id", "echo 1000")
    script(commands / "sudo", "exit 1")
    return commands


def script(path: Path, text: str) -> None:
    path.write_text(f"#!{shutil.which('bash')}\n{text}\n")
    path.chmod(0o755)


def setup(tmp_path: Path, machine: Path) -> subprocess.CompletedProcess:
    folder = copy_checkout(tmp_path / "checkout")
    (folder / ".uv").mkdir()  # as if uv was there, so that only the missing packages count
    return subprocess.run(
        [folder / "scripts/setup"], env={"PATH": str(machine)}, capture_output=True, text=True, timeout=60
    )


def test_without_root_the_command_is_printed_and_nothing_done(tmp_path, machine):
    done = setup(tmp_path, machine)
    assert done.returncode == 2
    sentence, command = done.stderr.strip().splitlines()
    assert sentence.startswith("reprofs: Debian packages are missing; install them as root")
    assert command.split("&&")[0].strip() == "apt-get update"
    assert "--no-install-recommends qemu-system-x86 mmdebstrap" in command
    assert "uidmap" in command.split()  # with which a guest can be built without root
    assert "git" not in command.split()  # only what is missing
    assert not list((tmp_path / "checkout/.uv").iterdir())
    assert not (tmp_path / "checkout/.venv").exists()


def test_apt_that_fails_is_one_sentence_after_its_last_words(tmp_path, machine):
    script(machine / "id", "echo 0")
    script(machine / "apt-get", "echo 'E: no route to mirror'; exit 100")
    done = setup(tmp_path, machine)
    assert done.returncode == 2
    assert "setup: installing the Debian packages qemu-system-x86 mmdebstrap" in done.stdout  # said before it is done
    assert "E: no route to mirror" in done.stderr
    assert done.stderr.strip().splitlines()[-1].startswith("reprofs: apt could not install qemu-system-x86 mmdebstrap")


def test_wrong_python_is_named(tmp_path, machine):
    (machine / "python3").unlink()
    script(machine / "python3", '[ "$1" = --version ] && echo Python 3.9.2; exit 1')
    done = setup(tmp_path, machine)
    assert done.returncode == 2
    assert "Python 3.9.2" in done.stderr
    assert "3.11 to 3.13" in done.stderr


def test_makefile_explains_itself():
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    for target in ("report", "test", "soak", "lab", "setup", "bench", "clean"):
        assert f"make {target}" in done.stdout
