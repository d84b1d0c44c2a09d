"""engine pulls: a tree that is updated as git does it, its twin, and that --verify finds what is not as it was left."""

import os
import re

import helpers
import pandas as pd
import pytest
from helpers import flip, rendered
from reprofs.report.sentences import age

PULLS = ("--files", 60, "--changes", 3, "--seed", 5)
OBJECTS = re.compile(r"\.git/objects/../")


@pytest.fixture
def pulls(run):
    """Runs `engine pulls` with a history of 40 pulls, or `number`, in the folder tree, or `folder`."""

    def start(*more, number=40, folder="tree", **options):
        return run("pulls", *PULLS, "--pulls", number, *more, folder, **options)

    start.folder = run.folder
    return start


def contents(folder) -> dict[str, bytes | None]:
    """Path -> content; None of a folder."""
    found = sorted(folder.rglob("*"))
    return {str(path.relative_to(folder)): None if path.is_dir() else path.read_bytes() for path in found}


def test_the_twin_holds_what_the_aged_tree_holds_and_is_made_in_the_order_of_cp(pulls):
    pulls()
    pulls("--list", "order")
    order = (pulls.folder / "order").read_text().splitlines()
    inodes: dict[str, list[int]] = {}
    for path in order:
        name = path.rstrip("/")
        inodes.setdefault(name.rpartition("/")[0], []).append((pulls.folder / "tree" / name).stat().st_ino)
    assert all(own == sorted(own) for own in inodes.values()), "cp reads a folder in the order of its inodes"
    pulls("--copy", "order", folder="twin")
    aged = contents(pulls.folder / "tree")
    assert aged == contents(pulls.folder / "twin") and len(aged) == len(order)
    told = {pulls("--verify", folder=name).stdout for name in ("tree", "twin")}
    assert len(told) == 1 and re.search(r"digest [0-9a-f]{16}$", told.pop().strip())


def test_a_history_changes_removes_and_adds_files_and_keeps_every_object(pulls):
    before, after = f"{pulls.folder}/before", f"{pulls.folder}/tree"
    pulls(number=0, folder="before")
    pulls()
    was, now = (contents(pulls.folder / name) for name in (before, after))
    sources = [{name for name in tree if name.endswith(".c")} for tree in (was, now)]
    assert len(sources[0]) == 60 and sources[0] - sources[1] and sources[1] - sources[0]
    assert 0.8 < len(sources[1]) / 60 < 1.25, "it stays about as large as it is"
    assert sum(was[name] != now[name] for name in sources[0] & sources[1]) > 20
    folders = [{name for name in tree if tree[name] is None and not name.startswith(".git")} for tree in (was, now)]
    assert folders[1] - folders[0], "new folders"
    assert all(any(name.startswith(f"{folder}/") for name in now) for folder in folders[1]), "none is empty"
    objects = [name for name in now if OBJECTS.match(name)]
    assert 40 * (1 + 2) < len(objects) <= 40 * (1 + 2 * 3)  # a commit; of each change the file and its folder
    assert not [name for name in now if "tmp_obj" in name or name.endswith("lock")]
    assert was[".git/index"] != now[".git/index"] and len(now[".git/logs/HEAD"]) == 41 * 160
    asked = pulls("--check").stdout
    most = int(re.search(r'"bytes":(\d+)', asked)[1])
    assert sum(map(len, filter(None, now.values()))) <= most


def test_another_seed_is_another_history_and_the_same_one_is_the_same(pulls):
    for name in ("tree", "again"):
        pulls(folder=name)
    pulls("--seed", 6, folder="other")
    tree, again, other = (contents(pulls.folder / name) for name in ("tree", "again", "other"))
    assert tree == again != other


@pytest.mark.parametrize(
    "damage",
    [
        lambda tree: flip(next(tree.rglob("*.c")), 0),
        lambda tree: flip(next(tree.glob(".git/objects/??/*")), 10),
        lambda tree: next(tree.rglob("*.c")).unlink(),
        lambda tree: (tree / "more").write_text(""),
        lambda tree: (tree / "more").mkdir(),
        lambda tree: os.truncate(tree / ".git/index", 3),
    ],
)
def test_whatever_is_not_as_it_was_left_is_found(pulls, damage):
    pulls()
    damage(pulls.folder / "tree")
    assert pulls("--verify", expect=1).stderr.startswith("engine: pulls: ")


def test_wrong_arguments_are_refused(run, pulls):
    assert "--files must be given" in run("pulls", "tree", expect=2).stderr
    assert "exclude one another" in pulls("--verify", "--copy", "order", expect=2).stderr
    assert "cannot read order" in pulls("--copy", "order", expect=1).stderr
    pulls(number=0)
    (pulls.folder / "order").write_text("a/\n../b\n")
    assert "../b, which is not of these pulls" in pulls("--copy", "order", folder="twin", expect=1).stderr


def test_the_file_system_is_made_anew_between_the_aged_tree_and_its_twin():
    job = rendered(helpers.cell("ext4", workload="pulls", profile="hdd-7200")).text()
    parts = ["arg=--pulls\\targ=0", "grep", "find", "--verify", "umount", "mkfs", "mount", "--copy"]  # the aged tree
    parts += ["umount", "mount", "grep", "umount", "mount", "find", "--verify"]  # its twin
    assert re.search(".*?".join(parts), job, re.DOTALL)
    assert job.count("arg=mkfs.ext4") == 2
    assert rendered(helpers.cell("ext4", workload="metadata")).text().count("arg=mkfs.ext4") == 1


def test_what_is_said_of_age():
    rows = [
        ("reading", "ext4", 2.4, 2.3, 2.5),
        ("reading", "xfs", 4.1, 4.0, 4.2),
        ("walking", "ext4", 1.01, 0.9, 1.1),
    ]
    found = pd.DataFrame(rows, columns=["action", "label", "ratio", "low", "high"])
    assert age.costs(found, 1000, "hdd-7200") == (
        "After 1,000 pulls (hdd-7200) reading takes 2.40 times as long (ext4) to 4.10 times as long (xfs), and walking"
        " takes equally long (ext4), compared with the unaged twin."
    )
    alike = pd.concat([found[2:], found[2:].assign(label="xfs", ratio=3.0, low=0.5, high=18.0)])
    told = age.costs(alike, 1, "ssd")
    assert told == "After 1 pull (ssd) walking takes equally long on all, compared with the unaged twin."
    slower = pd.concat([alike, found[2:].assign(label="f2fs", ratio=1.9, low=1.2, high=3.1)])
    assert "walking takes equally long (ext4) to 90 % longer (f2fs)," in age.costs(slower, 1, "ssd")
