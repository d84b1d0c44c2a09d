"""The scripts in scripts/shell: all are used, and they agree with the modules that use them."""

import re
import subprocess
from pathlib import Path

import pytest
from reprofs.guest import hosts, shell
from reprofs.labs import _apart

NAMES = [path.stem for path in sorted(shell.FOLDER.glob("*.sh"))]
PACKAGE = Path(shell.__file__).parents[1]


@pytest.mark.parametrize("name", NAMES)
def test_a_script_is_used_and_only_its_header_is_left_out(name):
    text, whole = shell.script(name), (shell.FOLDER / f"{name}.sh").read_text()
    assert any(f'"{name}"' in path.read_text() or f"'{name}'" in path.read_text() for path in PACKAGE.rglob("*.py"))
    header = whole[: whole.index(text)].strip().splitlines()
    assert header[0] == "#!/bin/sh" and all(line.startswith("#") for line in header) and whole.endswith(f"{text}\n")
    assert subprocess.run(["sh", "-n", "-c", text]).returncode == 0


def test_scripts_and_modules_have_the_same_paths_and_codes():
    texts = {name: shell.script(name) for name in NAMES}
    assert all(set(re.findall(r"/run/hosts\b", texts[name])) == {hosts.PLACE} for name in ("bridge", "host"))
    assert f"-O {hosts.SYSLOG}\n" in texts["bridge"] + "\n"
    assert hosts.OUTAGE in texts["outage-begin"] and hosts.OUTAGE in texts["outage-end"]
    assert set(re.findall(r"exit (\d+)", texts["client"])) == {f"{_apart.UNSEEN}", f"{_apart.LACKING}"}
