"""LICENSES.md names the licence of each file, and each environment file fixes what it installs by digests."""

import fnmatch
import re
import subprocess

import pytest
from conftest import ROOT

ROWS = re.findall(r"^\| `(.+?)` \| (.+?) \|", (ROOT / "LICENSES.md").read_text(), re.MULTILINE)
PARTS = ("scripts/guest", "scripts/engine", "docs/patches")
SPDX = re.compile(rb"SPDX-License-Identifier: ([\w.+-]+(?: (?:OR|AND) [\w.+-]+)*)")


def row_of(name: str) -> tuple[str, str]:
    """The part that a file belongs to, and its licence."""
    for part, licence in ROWS:
        if part == "/" or name.startswith(part) if part.endswith("/") else fnmatch.fnmatch(name, part):
            return part, licence
    return "", ""


def files() -> list[str]:
    """Those of the checkout that git knows, or in a copy without git all of these parts."""
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    some = [str(path.relative_to(ROOT)) for part in PARTS for path in (ROOT / part).rglob("*") if path.is_file()]
    return done.stdout.splitlines() or some


def test_each_source_file_has_the_licence_of_its_row():
    """What runs in kernel or QEMU belongs to a row of its own; where a file says its licence, it is the row's."""
    wrong = []
    for name in files():
        part, licence = row_of(name)
        said = SPDX.search((ROOT / name).read_bytes()[:500]) if name.startswith(PARTS) else None
        if (name.startswith(PARTS) and part == "/") or (said and said[1].decode() != licence) or not licence:
            wrong.append((name, part, licence))
    assert not wrong
    used = {row_of(name)[0] for name in files()}
    assert {part for part, _ in ROWS} == used | {"/"}


def test_code_of_others_projects_says_its_licence():
    """A row of another licence than MIT holds only files that say it; of a table the README beside it says that."""
    silent = []
    for name in files():
        says = (ROOT / name).with_name("README.md") if name.endswith(".csv") else ROOT / name
        said, licence = SPDX.search(says.read_bytes()[:1000]) if says.is_file() else None, row_of(name)[1]
        if licence != "MIT" and (not said or said[1].decode() != licence):
            silent.append(name)
    assert not silent
    module = (ROOT / "scripts/guest/modeldisk.c").read_text()
    assert 'MODULE_LICENSE("Dual MIT/GPL")' in module and row_of("scripts/guest/modeldisk.c")[1] == "GPL-2.0 OR MIT"


DIGEST = r"\b[0-9a-f]{64}\b"


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        ("envs/uv.txt", r"^\S+==\S+ "),
        ("envs/lab.lock", r"^\S+ \S+ (?:amd64|all) "),
        ("uv.lock", r'(?m)^name = "(?!reprofs").+'),
    ],
)
def test_what_is_installed_is_fixed_by_digests(name, entry):
    text = (ROOT / name).read_text()
    entries = re.split(entry, text, flags=re.MULTILINE)[1:]
    assert entries and all(re.search(DIGEST, one) for one in entries)


def test_no_other_file_says_what_is_installed():
    """guest.yaml has names, whose digests are in lab.lock; guest.config is Linux's; conda, which python.yaml is for, is
    refused (test_flow.py)."""
    fixed, rest = {"uv.txt", "lab.lock"}, {"guest.yaml", "guest.config", "python.yaml"}
    assert {path.name for path in (ROOT / "envs").iterdir()} == fixed | rest


def test_setup_installs_nothing_without_its_digest():
    text = (ROOT / "scripts/setup").read_text()
    assert "--require-hashes -r envs/uv.txt" in text and len(re.findall(r"pip install", text)) == 1
    assert all("--locked" in line for line in re.findall(r"uv sync.*", text))
