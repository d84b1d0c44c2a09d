"""Scanning a tree to a profile, generating a look-alike from it, and the profiles that the project ships."""

import json
import os
import random
import shlex
import shutil
import subprocess
import zlib
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import yaml
from conftest import ROOT
from helpers import Late, damaged
from reprofs.errors import UserError
from reprofs.guest import parameters
from reprofs.plan import tree as trees
from reprofs.plan import workload as workloads
from reprofs.plan.catalog import Catalog

stats = Late("scipy.stats")

SMALL = "--sizes 0:1,99:0,100:9 --level 1/2/0/0// --level 3/8/1/1//"


@pytest.fixture
def look_alike(run):
    """Runs `engine look-alike ARGUMENTS`, a text, in a folder or an empty one; returns the finished process."""

    def start(arguments: str, *words, folder: Path | None = None, **options) -> subprocess.CompletedProcess:
        return run("look-alike", *shlex.split(arguments), *words, folder or run.folder, **options)

    start.folder = run.folder
    return start


@pytest.fixture
def generate(look_alike, tmp_path):
    """Generates a tree; returns its top."""

    def start(arguments: str, name: str = "files") -> Path:
        (tmp_path / name).mkdir(exist_ok=True)
        look_alike(arguments, folder=tmp_path / name)
        return tmp_path / name / "tree"

    return start


@pytest.fixture(scope="module")
def real_tree(tmp_path_factory) -> Path:
    """A tree of lognormal files, some empty, some of one frequent size; with links of every kind, and loops."""
    top = tmp_path_factory.mktemp("real") / "quux-top"
    chance = random.Random(5)
    folders = [top]
    top.mkdir()
    for i in range(90):
        parent = chance.choice(folders[-40:])
        folders.append(parent / f"quux-folder-{i}")
        folders[-1].mkdir()
    made = []
    for i in range(1500):
        path = chance.choice(folders[: 1 + int(chance.paretovariate(0.6)) % len(folders)]) / f"quux-{i}.dat"
        size = chance.choices([0, 4096, int(chance.lognormvariate(8, 2))], [5, 15, 80])[0]
        path.write_bytes(b"x" * min(size, 1 << 20))
        made.append(path)
    for i in range(150):
        (chance.choice(folders) / f"quux-hard-{i}").hardlink_to(chance.choice(made))
    for i in range(300):
        target = [chance.choice(made), chance.choice(folders), top / "quux-nothing", Path("/etc")][
            chance.choices(range(4), [6, 2, 1, 1])[0]
        ]
        (chance.choice(folders) / f"quux-soft-{i}").symlink_to(target)
    (top / "quux-loop-a").symlink_to("quux-loop-b")
    (top / "quux-loop-b").symlink_to("quux-loop-a")
    return top


def contents(top: Path) -> list:
    return sorted(
        (str(p.relative_to(top)), str(p.readlink()) if p.is_symlink() else p.read_bytes() if p.is_file() else None)
        for p in top.rglob("*")
    )


def distance(first: Counter, second: Counter) -> float:
    """The Kolmogorov-Smirnov distance."""
    return stats.ks_2samp(list(first.elements()), list(second.elements())).statistic


def mean_depth(found: trees.Scan) -> float:
    counts = [level.files + level.symbolic + level.hard for level in found.levels]
    return sum(depth * n for depth, n in enumerate(counts)) / sum(counts)


def sums(found: trees.Scan, key: str) -> int:
    return sum(getattr(level, key) for level in found.levels)


def spread(found: trees.Scan, key: str) -> Counter:
    return sum((getattr(level, key) for level in found.levels), Counter())


@pytest.mark.parametrize("scale", [1, 2])
def test_a_look_alike_has_the_distributions_of_the_original(real_tree, generate, tmp_path, scale):
    original = trees.scan(real_tree)
    assert sums(original, "files") == 1500 and sums(original, "hard") == 150 and sums(original, "symbolic") == 302
    trees.write(real_tree, tmp_path / "p.yaml")
    arguments = trees.arguments(str(tmp_path / "p.yaml"))
    assert len(arguments) < 4096
    copy = trees.scan(generate(f"--files {1500 * scale} --seed 9 {arguments}"))
    assert sums(copy, "files") == 1500 * scale
    for key in ("folders", "hard", "symbolic"):
        assert sums(copy, key) == pytest.approx(sums(original, key) * scale, rel=0.03)
    assert len(copy.levels) == len(original.levels)
    assert distance(copy.sizes, original.sizes) < 0.03
    assert copy.sizes[0] / 1500 / scale == pytest.approx(original.sizes[0] / 1500, abs=0.005)
    assert copy.sizes[4096] / 1500 / scale == pytest.approx(original.sizes[4096] / 1500, abs=0.01)
    sizes = [sum(size * n for size, n in found.sizes.items()) for found in (original, copy)]
    assert sizes[1] == pytest.approx(sizes[0] * scale, rel=0.1)
    assert mean_depth(copy) == pytest.approx(mean_depth(original), rel=0.02)
    assert distance(spread(copy, "entries"), spread(original, "entries")) < 0.12
    assert distance(spread(copy, "subfolders"), spread(original, "subfolders")) < 0.08
    for key in ("links_to_folders", "links_to_nothing"):
        assert getattr(copy, key) == pytest.approx(getattr(original, key) * scale, rel=0.05)


def test_no_name_is_in_a_profile_unless_asked(real_tree, reprofs, tmp_path):
    names = {path.name for path in real_tree.rglob("*")} | {real_tree.name}
    done = reprofs("scan", real_tree, "--output", tmp_path / "without.yaml")
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "without.yaml").read_text()
    assert "quux" not in text and not [name for name in names if name in text]
    assert str(real_tree.parent) not in text
    done = reprofs("scan", real_tree, "--output", tmp_path / "with.yaml", "--names")
    assert done.returncode == 0, done.stderr
    data = yaml.safe_load((tmp_path / "with.yaml").read_text())
    assert set(data.pop("names")) == names - {real_tree.name}
    assert data == yaml.safe_load(text)
    again = reprofs("scan", real_tree, "--output", tmp_path / "again.yaml")
    assert again.returncode == 0 and (tmp_path / "again.yaml").read_text() == text


def test_names_of_a_profile_give_names_of_the_same_lengths(real_tree, generate, tmp_path):
    trees.write(real_tree, tmp_path / "p.yaml", names=True)
    top = generate(f"--files 1500 --seed 9 {trees.arguments(str(tmp_path / 'p.yaml'))}")
    lengths = [Counter(len(path.name) for path in tree.rglob("*")) for tree in (top, real_tree)]
    assert distance(*lengths) < 0.1
    assert max(lengths[0]) <= max(lengths[1])
    assert not [path for path in top.rglob("*") if "quux" in path.name]


def test_odd_names_are_scanned(tmp_path, engine):
    (tmp_path / "t").mkdir()
    for name in (b"\xff\xfe", b"a\nb", b"true", b"12", "é".encode()):
        Path(os.fsdecode(bytes(tmp_path / "t") + b"/" + name)).write_text("x")
    trees.write(tmp_path / "t", tmp_path / "p.yaml", names=True)
    assert set(trees.read(str(tmp_path / "p.yaml")).names) == {"\\xff\\xfe", "a\nb", "true", "12", "é"}
    trees.arguments(str(tmp_path / "p.yaml"))


def test_links_are_not_followed_and_special_files_left_out(tmp_path):
    top = tmp_path / "t"
    (top / "a").mkdir(parents=True)
    (top / "a/file").write_text("x")
    (top / "a/up").symlink_to("..")
    (top / "self").symlink_to("self")
    (top / "out").symlink_to(tmp_path)
    (top / "prefix").symlink_to(tmp_path / "tt")
    (tmp_path / "tt").mkdir()
    os.mkfifo(top / "pipe")
    found = trees.scan(top)
    assert [level.folders for level in found.levels] == [1, 1]
    assert [level.symbolic for level in found.levels] == [3, 1]
    assert (found.links_to_folders, found.links_to_nothing, found.left_out) == (1, 3, 1)


def test_a_folder_that_cannot_be_read_is_counted_and_said(tmp_path, monkeypatch):
    (tmp_path / "t/closed").mkdir(parents=True)
    (tmp_path / "t/open").write_text("xyz")
    read = os.scandir

    def refuse(path):
        if bytes(path).endswith(b"/closed"):
            raise PermissionError(13, "Permission denied")
        return read(path)

    monkeypatch.setattr(os, "scandir", refuse)
    found = trees.scan(tmp_path / "t")
    assert found.unreadable == 1 and found.sizes == {3: 1}
    assert [level.folders for level in found.levels] == [1, 1]
    assert trees.profile(found)["unreadable"] == 1
    assert "1 folders could not be read" in trees.write(tmp_path / "t", tmp_path / "p.yaml")


def test_what_cannot_be_scanned_is_one_sentence(reprofs, says, tmp_path):
    says(reprofs("scan", tmp_path / "none", "--output", tmp_path / "p.yaml"), "none", "cannot be scanned")
    (tmp_path / "empty/sub").mkdir(parents=True)
    says(reprofs("scan", tmp_path / "empty", "--output", tmp_path / "p.yaml"), "no file")
    assert not (tmp_path / "p.yaml").exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda p: p.pop("sizes"), ["sizes", "missing"]),
        (lambda p: p.update(sises=[]), ["sises", "did you mean sizes"]),
        (lambda p: p.update(sizes=[[100, -1]]), ["sizes.0.1", "-1"]),
        (lambda p: p.update(sizes=[[100, 1], [50, 1]]), ["sizes", "bounds must increase"]),
        (lambda p: p.update(sizes=[[100, 0]]), ["sizes", "all weights are 0"]),
        (lambda p: p["levels"][1].update(entries=[[2, 0]]), ["levels.1.entries", "all weights are 0"]),
        (lambda p: p["levels"][0].update(folders=2), ["levels.0.folders", "2"]),
        (lambda p: p["levels"][1].update(folders=0), ["levels.1.folders", "at least 1"]),
        (lambda p: [level.update(files=0) for level in p["levels"]], ["no level has files"]),
        (lambda p: p.update(compress=120), ["compress", "120"]),
    ],
)
def test_a_bad_profile_is_one_sentence(change, words, tmp_path):
    levels = [{"folders": 1}, {"folders": 2, "files": 4}]
    data = {"title": "t", "source": "s", "sizes": [[0, 1], [9, 3]], "levels": levels}
    (tmp_path / "p.yaml").write_text(yaml.safe_dump(data))
    trees.arguments(str(tmp_path / "p.yaml"))
    change(data)
    (tmp_path / "p.yaml").write_text(yaml.safe_dump(data))
    with pytest.raises(UserError) as error:
        trees.arguments(str(tmp_path / "p.yaml"))
    assert "\n" not in str(error.value) and "p.yaml" in str(error.value)
    for word in words:
        assert word in str(error.value)


def test_an_unknown_profile_proposes_the_nearest():
    with pytest.raises(UserError, match="did you mean linux"):
        trees.arguments("linus")


def test_the_seed_decides(generate):
    arguments = trees.arguments("linux")
    made = [
        contents(generate(f"--files 200 --seed {s} {arguments}", name)) for name, s in (("a", 1), ("b", 1), ("c", 2))
    ]
    assert made[0] == made[1]
    assert made[0] != made[2]
    sizes = [sorted(len(content) for _, content in tree if isinstance(content, bytes)) for tree in made]
    assert sizes[0] == sizes[2]  # stratified: seeds change who is large, not how many are


def test_the_list_is_what_is_made(look_alike, generate):
    arguments = f"--files 120 --seed 4 {SMALL}"
    top = generate(arguments)
    rows = listed(look_alike, arguments)
    assert sorted(path for path, _, _ in rows) == sorted(str(path.relative_to(top)) for path in top.rglob("*"))
    assert Counter(kind for _, kind, _ in rows) == {"directory": 36, "file": 120, "symbolic": 12, "hard": 12}
    for path, kind, size in rows:
        made = top / path
        if kind == "file":
            assert made.stat().st_size == size and size in (0, 100)
        assert made.is_symlink() == (kind == "symbolic") and (made.is_dir() or kind != "directory")
        if kind == "symbolic":
            assert made.resolve().is_file() and not made.readlink().is_absolute()
        if kind == "hard":
            assert made.stat().st_nlink > 1


def test_what_will_be_made_is_said_before(look_alike):
    arguments = f"--files 500 --seed 4 --size-max 100000 {trees.arguments('linux')}"
    said = json.loads(look_alike(arguments, "--check").stdout)
    samples = look_alike(arguments).samples
    found = list((look_alike.folder / "tree").rglob("*"))
    sizes = [path.stat().st_size for path in found if path.is_file()]
    assert said == {"bytes": sum(sizes), "names": 1 + len(found)}
    assert max(sizes) == 100000
    assert [(s["name"], s["items"]) for s in samples] == [("directories", said["names"] - 500), ("files", 500)]
    assert samples[1]["bytes"] == sum(sizes) and samples[1]["start_ns"] >= samples[0]["wall_ns"] > 0
    assert "cannot make" in look_alike(arguments, expect=1).stderr


def test_verify_finds_every_change(look_alike, generate):
    arguments = f"--files 6 --seed 4 --sizes 2999999:0,3000000:1 {SMALL.split(' ', 2)[2]}"
    top = generate(arguments)
    by_kind = {kind: top / path for path, kind, _ in listed(look_alike, arguments)}
    look_alike(arguments, "--verify")

    def finds(*words):
        said = look_alike(arguments, "--verify", expect=1).stderr
        assert all(word in said for word in words), said

    for at in damaged(by_kind["file"], 0, 15, 16, 1234567, 2999999):
        finds(f"at byte {at}")
    look_alike(arguments, "--verify")
    (top / "further").touch()
    finds("has", "names")
    (top / "further").unlink()
    target = by_kind["symbolic"].readlink()
    by_kind["symbolic"].unlink()
    by_kind["symbolic"].symlink_to("elsewhere")
    finds(by_kind["symbolic"].name, "does not lead")
    by_kind["symbolic"].unlink()
    by_kind["symbolic"].symlink_to(target)
    copied = by_kind["hard"].read_bytes()
    by_kind["hard"].unlink()
    by_kind["hard"].write_bytes(copied)
    finds(by_kind["hard"].name, "not one file")
    shutil.rmtree(top)
    finds("cannot verify")


@pytest.mark.parametrize("percent", [0, 30, 50, 70, 80, 90, 100])
def test_content_compresses_as_asked(generate, percent):
    top = generate(f"--files 1 --seed 3 --compress {percent} --sizes 999999:0,1000000:1 --level 1/1/0/0//")
    content = next(top.iterdir()).read_bytes()
    assert 100 * (1 - len(zlib.compress(content, 6)) / len(content)) == pytest.approx(percent, abs=6)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_no_space_is_said(look_alike):
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1M", "none", look_alike.folder], check=True)
    try:
        done = look_alike("--files 30 --seed 1 --sizes 99999:0,100000:1 --level 1/1/0/0//", expect=1)
        assert "no space left on the device" in done.stderr
    finally:
        subprocess.run(["umount", look_alike.folder], check=True)


# ---- the profiles of the project


def listed(look_alike, arguments: str) -> list[tuple[str, str, int]]:
    """(path, kind, size) of every name."""
    rows = (line.split("\t") for line in look_alike(arguments, "--list").stdout.splitlines())
    return [(path, kind, int(size)) for path, kind, size in rows]


def of_profile(look_alike, name: str, files: int) -> tuple[np.ndarray, np.ndarray, Counter]:
    """Sizes and depths of the files, and how many names there are by depth and kind."""
    rows = listed(look_alike, f"--files {files} --seed 3 {trees.arguments(name)}")
    found = [(path.count("/"), size) for path, kind, size in rows if kind == "file"]
    depths, sizes = np.array(found).T
    return sizes, depths, Counter((path.count("/"), kind) for path, kind, _ in rows)


@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / trees.Tree.folder).glob("*.yaml")))
def test_every_profile_makes_a_tree_of_any_size(look_alike, generate, name):
    for files in (1, 30, 700):
        arguments = f"--files {files} --seed 3 --size-max 5000 {trees.arguments(name)}"
        top = generate(arguments)
        assert sum(path.is_file() and not path.is_symlink() for path in top.rglob("*")) == files
        look_alike(arguments, "--verify")
        shutil.rmtree(top)
    assert not [level for level in trees.read(name).levels if level.files and not level.folders]


def test_the_linux_profile_has_the_published_numbers(look_alike):
    sizes, depths, kinds = of_profile(look_alike, "linux", 21280)
    assert len(sizes) == 21280
    assert sum(n for (_, kind), n in kinds.items() if kind == "directory") == 1262  # and the top
    assert np.median(sizes) == pytest.approx(4055, rel=0.03)
    assert np.quantile(sizes, 0.9) == pytest.approx(26112, rel=0.03)
    assert 400_000 < sizes.max() <= 873603 and sizes.min() > 0
    assert sizes.sum() == pytest.approx(233_176_153, rel=0.08)
    assert np.mean(depths) == pytest.approx(2.65, abs=0.02) and max(depths) == 6


def test_the_annex_profile_has_the_shape_of_the_repository(look_alike):
    sizes, _, kinds = of_profile(look_alike, "git-annex", 200_000)
    assert kinds[1, "symbolic"] == kinds[3, "file"] == kinds[6, "file"] == 100_000
    assert (kinds[0, "directory"], kinds[3, "directory"], kinds[5, "directory"]) == (101, 1024, 100_000)
    assert (sizes <= 7).sum() == 100_000 and sizes.min() == 5


def test_the_mail_profile_has_the_published_mean(look_alike):
    sizes, _, _ = of_profile(look_alike, "mail", 30_000)
    assert np.mean(sizes) == pytest.approx(16384, rel=0.05)


def test_the_scratch_profile_has_the_published_sets(look_alike):
    sizes, _, _ = of_profile(look_alike, "scratch", 378)
    assert Counter(sizes) == {50_000: 250, 300_000: 100, 10_000_000: 25, 300_000_000: 3}
    _, depths, _ = of_profile(look_alike, "scratch", 37800)
    assert np.mean(depths) == pytest.approx(6.49, abs=0.05)
    assert np.var(depths) == pytest.approx(6.49, rel=0.05)  # Poisson


@pytest.mark.parametrize("name", sorted(p.stem for p in (ROOT / "workflow/workloads").glob("look-alike*.yaml")))
def test_the_workloads_make_and_check_their_trees(run, name):
    workload = workloads.resolve(name, Catalog())
    parameters.check(workload, "smoke")
    phase = workload.phases[0]
    made, checked = (workload.words(command, "smoke", 3, name) for command in (phase.run, phase.check))
    assert made[0] == checked[0] == "engine"
    assert [sample["name"] for sample in run(*made[1:]).samples] == list(phase.samples)
    assert not run(*checked[1:]).samples
