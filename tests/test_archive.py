"""The archive of a published result: what it checks, what it asks for, and (soak) the whole of it, offline."""

import csv
import importlib.metadata
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile

import make
import pandas as pd
import pytest
from conftest import ROOT
from helpers import Late
from reprofs.data.tables import build
from reprofs.errors import UserError
from reprofs.files import SUMS, read_sums, sha256
from reprofs.guest.lock import Package
from reprofs.plan.result import Measured, Result
from reprofs.publish import sealed

archive, describe = Late("reprofs.publish.archive"), Late("reprofs.publish.describe")
COMMIT = "c" * 40


@pytest.fixture
def top(tmp_path):
    """An unpacked archive whose `verify` says that it ran, and ends with 1."""
    made = tmp_path / "reprofs-small"
    (made / "cache").mkdir(parents=True)
    (made / "cache/root").write_bytes(bytes(1000))
    (made / "README.md").write_text("read\n")
    (made / "checkout/results/small").mkdir(parents=True)
    (made / "checkout/results/small/digests.json").write_text("{}")
    (made / "verify").write_text('#!/bin/sh\necho "called with $*"\nexit 1\n')
    (made / "verify").chmod(0o755)
    note(made)
    return made


def note(top) -> None:
    (top / sealed.SUMS).write_text("".join(f"{sha256(top / name)}  {name}\n" for name in sealed.listed(top)))


def test_an_archive_is_the_same_bytes_whenever_it_is_made(top, tmp_path):
    archive._pack(top, tmp_path / "one.tar.xz")
    for path in top.rglob("*"):
        os.utime(path, (1, 1))
    archive._pack(top, tmp_path / "two.tar.xz")
    assert sha256(tmp_path / "one.tar.xz") == sha256(tmp_path / "two.tar.xz")


def test_the_program_of_an_archive_runs_only_when_that_is_asked_for(top, tmp_path, reprofs, says, capfd):
    archive._pack(top, tmp_path / "one.tar.xz")
    for words in ([], ["--claims"], ["--render"], ["--all"], ["--trials", "2", "--seed", "5"]):
        says(reprofs("verify", tmp_path / "one.tar.xz", *words), "small/digests.json is invalid")
    assert "called" not in capfd.readouterr().out
    done = reprofs("verify", tmp_path / "one.tar.xz", "--run-archive")
    assert (done.returncode, capfd.readouterr().out) == (1, "called with \n"), done.stderr
    assert "as you; whoever made the archive wrote it" in done.stderr
    says(reprofs("verify", top, "--run-archive"), "is not an archive: leave --run-archive out")


@pytest.mark.wide  # which may need the commit that rendered it, like tests/test_publish.py
def test_the_result_of_an_archive_is_checked_by_this_checkouts_code(tmp_path, reprofs, capfd):
    top = tmp_path / "reprofs-instructions"
    shutil.copytree(ROOT / "results/instructions", top / "checkout/results/instructions")
    (top / "verify").write_text("#!/bin/sh\necho 3 of 3 identical\n")
    note(top)
    archive._pack(top, tmp_path / "made.tar.xz")
    done = reprofs("verify", tmp_path / "made.tar.xz", "--claims")
    records = len(json.loads((ROOT / "results/instructions/digests.json").read_text())["trials"])
    assert done.returncode == 0 and f"come from its {records} records" in done.stderr, done.stderr
    assert "published as instructions on " in done.stderr and "its own programs were not run" in done.stderr
    assert "identical" not in done.stderr + capfd.readouterr().out


@pytest.mark.parametrize("name", ["cache/root", "README.md", "verify", "checkout/results/small/digests.json"])
def test_an_altered_a_missing_and_a_strange_file_are_named(top, tmp_path, name, reprofs, says):
    path = top / name
    data = path.read_bytes()

    def packed():
        archive._pack(top, tmp_path / "altered.tar.xz")
        return reprofs("verify", tmp_path / "altered.tar.xz")

    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    says(packed(), f"'{name}' is missing or was altered")
    path.write_bytes(data)
    noted = (top / sealed.SUMS).read_text()
    (top / sealed.SUMS).write_text(f"{noted}{'0' * 64}  strange\n")
    says(packed(), "'strange' is missing or was altered")
    (top / sealed.SUMS).write_text(noted)
    path.with_name("strange").write_text("")
    says(packed(), "strange' is not in SHA256SUMS")


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ("LARGEST", "unpacks to more than 900 bytes: get it again"),
        ("SMALL", "has 901 bytes, more than 900: get the archive again"),
        ("FILES", "twice, or too many files: get it again"),
    ],
)
def test_a_huge_archive_is_refused(limit, words, top, tmp_path, monkeypatch):
    """Of files that are not unpacked, too; one of the result is small."""
    (top / "checkout/results/small/cells.csv").write_bytes(bytes(901))
    note(top)
    archive._pack(top, tmp_path / "one.tar.xz")
    (tmp_path / "into").mkdir()
    sealed.result_of(tmp_path / "one.tar.xz", tmp_path / "into")
    (tmp_path / "again").mkdir()
    monkeypatch.setattr(sealed, limit, 3 if limit == "FILES" else 900)
    with pytest.raises(UserError, match=words):
        sealed.result_of(tmp_path / "one.tar.xz", tmp_path / "again")


def test_what_is_no_archive_is_refused(top, tmp_path, reprofs, says):
    (tmp_path / "text").write_text("not an archive")
    says(reprofs("verify", tmp_path / "text"), "is not an archive, or is incomplete")
    archive._pack(top, tmp_path / "cut")
    (tmp_path / "cut").write_bytes((tmp_path / "cut").read_bytes()[:200])
    says(reprofs("verify", tmp_path / "cut"), "or is incomplete")
    for names, words in [
        (["a/b"], "is not an archive of a published result"),
        (["a/../b"], "is no plain file in one folder"),
        (["/a/b"], "is no plain file in one folder"),
        (["a/b", "c/d"], "is no plain file in one folder"),
        (["a/b", "a/b"], "twice, or too many files"),
    ]:
        with tarfile.open(tmp_path / "other", "w") as other:
            for name in names:
                other.addfile(tarfile.TarInfo(name), io.BytesIO())
        says(reprofs("verify", tmp_path / "other"), words)
    for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.DIRTYPE):
        with tarfile.open(tmp_path / "other", "w") as other:
            entry = tarfile.TarInfo("a/b")
            entry.type, entry.linkname = kind, "/etc/passwd"
            other.addfile(entry)
        says(reprofs("verify", tmp_path / "other"), "is no plain file in one folder")


def test_verifying_imports_nothing_that_reports_are_made_with():
    own = ", ".join(f"reprofs.{name}" for name in ("cli", "publish.sealed", "publish.verify", "publish.log"))
    code = f"import sys, {own}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found = {name.partition(".")[0] for name in done.stdout.split()}
    known = {name.replace("-", "_") for name in archive.WHEELS} - {"pyyaml"} | {"yaml", "reprofs"}
    assert not found & set(importlib.metadata.packages_distributions()) - known


@pytest.fixture
def dated(monkeypatch):
    """Commits have a date, also in a copy without git."""
    monkeypatch.setattr("reprofs.publish.describe.date_of", lambda commit: "2026-11-26T05:00:00+00:00")


def debian_package(path, version, more=""):
    content = path.with_suffix("")
    (content / "DEBIAN").mkdir(parents=True)
    (content / "usr/share/doc/thing").mkdir(parents=True)
    (content / "usr/share/doc/thing/copyright").write_text(f"of {version}")
    control = f"Package: thing\nVersion: {version}\n{more}Architecture: amd64\nMaintainer: N <n@example.org>\n"
    (content / "DEBIAN/control").write_text(control + "Description: a thing\n")
    subprocess.run(["dpkg-deb", "--root-owner-group", "--build", content, path], check=True, stdout=subprocess.DEVNULL)
    return {Package("thing", version, "amd64", sha256(path), path.stat().st_size, "pool/thing.deb"): path}


def test_two_versions_of_a_package_keep_their_licences_and_sources(tmp_path, dated):
    sets = [
        debian_package(tmp_path / "one.deb", "1.0"),
        debian_package(tmp_path / "two.deb", "1:2.0+b1", "Source: origin (1:2.0)\n"),
    ]
    describe.licences(tmp_path, [*sets, sets[0]])
    _, *rows = csv.reader((tmp_path / "licences/sources.csv").read_text().splitlines())
    assert [row[:2] + row[3:] for row in rows] == [
        ["thing", "1.0", "thing", "1.0"],
        ["thing", "1:2.0+b1", "origin", "1:2.0"],
    ]
    assert (tmp_path / "licences/thing_1.0").read_text() == "of 1.0"
    assert (tmp_path / "licences/thing_1%3A2.0%2Bb1").read_text() == "of 1:2.0+b1"
    assert "General Public License" in (tmp_path / "licences/SOURCES").read_text()

    tool = Package("compiler", "3", "source", "0" * 64, 1, "pool/compiler.dsc")
    inside = {package for packages in sets for package in packages}
    for again in (tmp_path / "again", tmp_path):  # serial number and time are of the commit
        describe.sbom(again, "small", COMMIT, inside, {tool, *sets[0]}, {"pydantic": "2.1"})
    text = (tmp_path / describe.SBOM).read_text()
    assert text == (tmp_path / "again" / describe.SBOM).read_text()
    found = json.loads(text)
    assert (found["specVersion"], found["metadata"]["timestamp"]) == ("1.6", "2026-11-26T05:00:00+00:00")
    assert {each["purl"]: each["scope"] for each in found["components"]} == {
        "pkg:deb/debian/thing@1.0?arch=amd64": "required",
        "pkg:deb/debian/thing@1:2.0%2Bb1?arch=amd64": "required",
        "pkg:deb/debian/compiler@3?arch=source": "excluded",
        "pkg:pypi/pydantic@2.1": "required",
    }


def test_tables_and_crate_are_those_of_the_published_result(tmp_path, dated):
    plan, source = make.make(tmp_path / "made"), tmp_path / "made/tables"
    build(plan, plan.with_name("raw"), source)
    tables = {name: sha256(source / name) for name in read_sums(source / SUMS)}
    files = {"records-1.tar.xz": "0" * 64, "index.html": "0" * 64}
    when = "2026-11-26T05:00:00Z"
    measured = Measured(reprofs={"1": 1}, commits={COMMIT: 1}, first=when, last=when)
    known = {"tables": tables, "files": files, "measured": measured}
    result = Result.model_construct(study="quick", title="t", question="q", **known)
    describe.tables(tmp_path, source, result)
    for resource in json.loads((tmp_path / describe.DATA).read_text())["resources"]:
        path = tmp_path / resource["path"]
        head, *rows = csv.reader(path.read_text().splitlines())
        assert head == [field["name"] for field in resource["schema"]["fields"]], path
        assert len(rows) == len(pd.read_parquet(source / f"{path.stem}.parquet"))
        assert resource["hash"] == f"sha256:{sha256(path)}"
    describe.crate(tmp_path, result, COMMIT)
    text = (tmp_path / describe.CRATE).read_text()
    describe.crate(tmp_path, result, COMMIT)
    assert (tmp_path / describe.CRATE).read_text() == text
    graph = {entity["@id"]: entity for entity in json.loads(text)["@graph"]}
    assert graph["#run"]["instrument"] == graph["./"]["mainEntity"] == {"@id": "checkout/Snakefile"}
    assert "https://w3id.org/ro/wfrun/workflow/0.5" in {one["@id"] for one in graph["./"]["conformsTo"]}
    named = {part["@id"] for part in graph["./"]["hasPart"]} | {part["@id"] for part in graph["#run"]["result"]}
    assert named <= graph.keys() and "checkout/results/quick/records-1.tar.xz" in named and "tables/phases.csv" in named
    result.tables["phases.parquet"] = "0" * 64
    with pytest.raises(UserError, match=r"the table phases\.parquet is not the published one"):
        describe.tables(tmp_path, source, result)


def test_only_what_a_trial_needs_is_asked_for():
    first, other, last = (f"{name}==3.1 \\\n    --hash=sha256:aa\n" for name in ("orjson", "pandas", "pydantic"))
    assert archive._only(f"# made\n{first}{other}{last}") == first + last


@pytest.mark.soak
def test_the_archive_of_quick_is_verified_without_network_and_python(guest, tmp_path, reprofs):
    """In a network namespace of its own, with no more in PATH than a shell's own programs."""
    made = archive.archive("quick", tmp_path / "quick.tar.xz", print)
    with tarfile.open(made) as packed:
        packed.extractall(tmp_path, filter="data")
    (tmp_path / "result").mkdir()
    assert sealed.result_of(made, tmp_path / "result").name == "quick"
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
