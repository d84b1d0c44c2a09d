"""Packages that somebody built (debs in envs/guest.yaml): found by digest, unpacked over a guest's tree, run in it."""

import subprocess

import pytest
import yaml
from conftest import ROOT
from helpers import events
from reprofs import files
from reprofs.errors import UserError
from reprofs.guest import image, local, lock
from reprofs.guest.steps import Exec, Job
from reprofs.guest.unpack import Tree
from reprofs.labs import exact
from reprofs.plan.guest import read_guest


@pytest.fixture
def package(tmp_path):
    """A package with a program and a file below lib, which is a link in a guest's tree."""
    content = tmp_path / "content"
    for folder in ("DEBIAN", "usr/bin", "lib/mine"):
        (content / folder).mkdir(parents=True)
    (content / "DEBIAN/control").write_text(
        "Package: mine\nVersion: 1.2-3\nArchitecture: amd64\nMaintainer: N <n@example.org>\nDescription: of one's own\n"
    )
    (content / "usr/bin/mine").write_text("#!/bin/sh\ncat /lib/mine/word\n")
    (content / "usr/bin/mine").chmod(0o755)
    (content / "lib/mine/word").write_text("built here\n")
    subprocess.run(["dpkg-deb", "--root-owner-group", "--build", content, tmp_path / "mine.deb"], check=True)
    return tmp_path / "mine.deb"


def description(tmp_path, *debs: dict):
    """envs/guest.yaml with one guest more."""
    data = yaml.safe_load((ROOT / "envs/guest.yaml").read_text())
    data["guests"]["mine"] = {"packages": ["iproute2"], "debs": list(debs)}
    (tmp_path / "guest.yaml").write_text(yaml.safe_dump(data))
    return tmp_path / "guest.yaml"


def entry(package) -> dict:
    return {"file": str(package), "sha256": files.sha256(package)}


def test_a_package_is_unpacked_over_the_tree(tmp_path, package):
    tree = tmp_path / "tree"
    guest = read_guest("mine", description(tmp_path, entry(package)))
    assert local.add(Tree(tree), guest) == {"mine": "1.2-3"}
    assert (tree / "lib").is_symlink() and (tree / "usr/lib/mine/word").read_text() == "built here\n"
    assert (tree / "usr/bin/mine").stat().st_mode & 0o777 == 0o755
    assert local.add(Tree(tree), read_guest("base")) == {}


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda path: path.unlink(), "mine.deb is missing: build the package, or copy it there."),
        (lambda path: path.write_bytes(path.read_bytes() + b"x"), "has the SHA-256 "),
    ],
)
def test_a_package_that_is_not_there_or_another_is_told(tmp_path, package, damage, said):
    guest = read_guest("mine", description(tmp_path, entry(package)))
    damage(package)
    with pytest.raises(UserError) as told:
        local.add(Tree(tmp_path / "tree"), guest)
    assert str(told.value).startswith("envs/guest.yaml: guests.mine.debs: ") and said in str(told.value)


def test_what_is_no_package_is_told(tmp_path):
    path = tmp_path / "text.deb"
    path.write_text("no package")
    with pytest.raises(UserError, match=r"text\.deb is not a Debian package: "):
        local.add(Tree(tmp_path / "tree"), read_guest("mine", description(tmp_path, entry(path))))


def test_a_digest_must_be_one(tmp_path, package):
    with pytest.raises(UserError, match=r"guests\.mine\.debs\.0\.sha256 .*a SHA-256 in 64 hexadecimal digits"):
        read_guest("mine", description(tmp_path, {"file": str(package), "sha256": "abc"}))


@pytest.mark.soak
def test_a_guest_runs_what_somebody_built(engine, tmp_path, package):
    spec = description(tmp_path, entry(package))
    known = lock.read_lock()
    known.sets["mine"] = known.sets["net"]  # which asks for the same packages
    made = image.build(files.cache_folder(), tmp_path / "mine.json", engine, print, name="mine", spec=spec, lock=known)
    assert made["packages"]["mine"] == "1.2-3"
    assert made["unlocked"] == ["mine/initrd", "mine/kernel", "mine/root"]  # of one's own, by its own digest
    outcome = exact.ExactLab(made, files.cache_folder()).run(Job([Exec(stage="t", arg=["mine"])]), 900)
    (command,) = [event for event in events(outcome.output) if event["event"] == "command"]
    assert command["output"] == "built here"
