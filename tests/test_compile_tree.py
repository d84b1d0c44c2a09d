"""`engine compile-tree`: its states against a model of their own, its orders, its sets against the published table."""

import json
import os
import random
import re
import shutil
import statistics
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

import pytest
import yaml
from conftest import ROOT

# files, bytes, directories, median, 90th percentile, largest, empty: of the original's data sets
TABLE = {
    "unpatched": (21280, 233_176_153, 1263, 4055, 26112, 873_603, 0),
    "compile": (3263, 713_696_760, 398, 14813, 197_944, 64_081_981, 410),
    "patch": (6136, 114_997_799, 913, 9620, 44442, 730_463, 0),
    "compile-patched": (2573, 725_190_942, 152, 18721, 231_520, 65_170_646, 11),
}
OPERATIONS = ["create", "patch", "compile", "clean", "read", "stat", "delete"]
NEXT = {  # what the published description of the program allows, and where it leads
    ("create", "absent"): "unpatched",
    ("patch", "unpatched"): "patched",
    ("patch", "unpatched-compiled"): "patched-compiled",
    ("compile", "unpatched"): "unpatched-compiled",
    ("compile", "patched"): "patched-compiled",
    ("clean", "unpatched-compiled"): "unpatched",
    ("clean", "patched-compiled"): "patched",
}
for living in ("unpatched", "unpatched-compiled", "patched", "patched-compiled"):
    NEXT["read", living] = NEXT["stat", living] = living
    NEXT["delete", living] = "absent"
RATES = ["intial create", "create", "patch", "compile", "clean", "read tree", "read compiled tree"]
TIMES = ["delete tree", "delete compiled tree", "stat tree", "stat compiled tree"]
SMALL = ["-n", "--files", "60", "--no-native"]


@pytest.fixture
def program(run):
    """Runs compile-tree in an empty folder; returns the finished process."""

    def start(*arguments, **options) -> subprocess.CompletedProcess:
        return run("compile-tree", *arguments, **options)

    start.folder = run.folder
    return start


def traced(done) -> list[list[str]]:
    return [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("trace ")]


def listed(program, name: str, *arguments) -> dict[str, int]:
    lines = program("--list", name, *arguments).stdout.splitlines()
    found = {path: int(size) for path, size in (line.split("\t") for line in lines)}
    assert len(found) == len(lines)
    return found


def there(folder: Path) -> dict[str, int]:
    return {str(p.relative_to(folder)): p.stat().st_size for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("seed", [555, 8])
def test_sets_match_the_published_table_and_fit_together(program, seed):
    sets = {name: listed(program, name, "--seed", seed) for name in TABLE}
    for name, (files, size, directories, median, p90, largest, empty) in TABLE.items():
        sizes = sorted(sets[name].values())
        assert len(sizes) == files
        assert sum(sizes) == pytest.approx(size, rel=0.02)
        assert statistics.median(sizes) == pytest.approx(median, rel=0.02)
        assert sizes[int(0.9 * files)] == pytest.approx(p90, rel=0.02)
        assert sizes[-1] == pytest.approx(largest, rel=0.001)
        assert sizes.count(0) == empty
        assert len({path.rpartition("/")[0] for path in sets[name]}) == directories
    depths = [path.count("/") for path in sets["unpatched"]]
    assert max(depths) == 6
    assert statistics.mean(depths) == pytest.approx(2.65, abs=0.01)
    assert sum(size <= 4096 for size in sets["unpatched"].values()) / len(depths) == pytest.approx(0.5, abs=0.01)
    unpatched, patch, one, two = (set(sets[name]) for name in ("unpatched", "patch", "compile", "compile-patched"))
    assert (len(patch & unpatched), len(patch - unpatched)) == (5526, 610)
    assert not (one | two) & (unpatched | patch)
    assert len(one | two) == 24_964 - 21_624


@pytest.mark.parametrize("files", [20, 200, 2128])
def test_small_trees_keep_the_bytes_a_file(program, files):
    found = listed(program, "unpatched", "--files", files)
    assert len(found) == files
    assert sum(found.values()) / files == pytest.approx(233_176_153 / 21_280, rel=0.01)


def test_random_phase_follows_the_states_and_draws_evenly(program):
    """Only eligible trees are taken, nothing is done only when no tree is eligible, and -r counts what was done."""
    state: dict[str, str] = {}
    done = idle = 0
    trace = traced(program("-n", "--files", 20, "--no-native", "-i", 3, "-r", 700, "--trace"))
    assert [line[:2] for line in trace[:3]] == [["create", f"kernel-{k}"] for k in range(3)]
    for number, (operation, tree, before, after) in enumerate(trace):
        if tree == "-":
            assert not [t for t, now in state.items() if (operation, now) in NEXT and operation != "create"]
            idle += 1
            continue
        assert state.get(tree, "absent") == before
        assert NEXT[operation, before] == after
        state[tree] = after
        done += number >= 3
    assert done == 700 and idle
    assert trace[-1][1] != "-"
    counts = Counter(line[0] for line in trace[3:])
    assert set(counts) == set(OPERATIONS)
    even = (len(trace) - 3) / 7
    assert sum((n - even) ** 2 / even for n in counts.values()) < 22.5  # one in a thousand; the seed is fixed


def test_all_samples_and_native_lines(program):
    """Lines as existing parsers read them; the same operations as samples with files and bytes."""
    done = program(*SMALL, "-i", 4, "-r", 100)
    lines = done.stdout.splitlines()
    assert lines[:2] == ["neither sync nor dropped caches (-n)", "run complete:"]
    assert set(lines[2]) == {"="}
    assert len(lines) == 3 + len(RATES) + len(TIMES)
    shape = r"(.+) total runs (\d+) avg (\d+\.\d\d) (MB/s|seconds) \(user \d+\.\d\ds sys \d+\.\d\ds\)"
    for line, tag in zip(lines[3:], RATES + TIMES, strict=True):
        own = [s for s in done.samples if s["name"] == tag.replace("intial", "initial").replace(" ", "-")]
        seconds = [s["wall_ns"] / 1e9 for s in own]
        rates = [s["bytes"] / 2**20 / one for s, one in zip(own, seconds, strict=True)]
        found = re.fullmatch(shape, line)
        assert found, line
        assert (found[1], int(found[2])) == (tag, len(own)) and own
        assert found[4] == ("MB/s" if tag in RATES else "seconds")
        assert float(found[3]) == pytest.approx(statistics.mean(rates if tag in RATES else seconds), abs=0.006)
        assert all(s["items"] > 0 and (s["bytes"] > 0) == (tag in RATES) for s in own)
    assert sum(s["name"] != "initial-create" for s in done.samples) == 100
    first = done.samples[0]
    written = sum(listed(program, "unpatched", "--files", 60).values())
    assert (first["name"], first["items"], first["bytes"]) == ("initial-create", 60, written)


def test_makej(program):
    done = program(*SMALL, "-i", 4, "--makej", "--trace")
    trace = traced(done)
    trees = [f"kernel-{k}" for k in range(4)]
    assert trace[:4] == [["create", tree, "absent", "unpatched"] for tree in trees]
    assert trace[4:8] == [["compile", tree, "unpatched", "unpatched-compiled"] for tree in trees]
    assert [line[0] for line in trace[8:11]] == ["read"] * 3
    assert {line[1] for line in trace[8:11]} <= set(trees)
    assert trace[11:] == [["delete", tree, "unpatched-compiled", "absent"] for tree in trees]
    none = ("create", "patch", "clean", "read tree", "delete tree", *TIMES[2:])
    assert re.findall(r"^no runs for (.*)$", done.stdout, re.MULTILINE) == list(none)
    assert "verified 0 trees" in program(*SMALL, "-i", 4, "--makej", "--verify").stdout


@pytest.mark.parametrize(
    ("workload", "order"),
    [
        ("compile-round1", ["create", "compile", "read", "delete"]),
        ("compile-round2", ["create", "read", "compile", "clean", "delete"]),
    ],
)
def test_orders_of_the_study(program, workload, order):
    """The command of the workload file does what the study did, each operation once, and reports all of it."""
    descriptor = yaml.safe_load((ROOT / f"workflow/workloads/{workload}.yaml").read_text())
    phase = descriptor["phases"][0]
    words = phase["run"].format(**descriptor["scales"]["paper"], seed=1).split()
    arguments = words[2:]
    arguments[arguments.index("--files") + 1] = "60"
    done = program(*arguments, "-n", "--trace")
    assert [line[:2] for line in traced(done)] == [[operation, "kernel-0"] for operation in order]
    assert sorted(s["name"] for s in done.samples) == sorted(phase["samples"])


def test_one_operation_a_phase(program):
    """Separate processes with --state do what one process does with the whole order."""
    steps = ["create", "patch", "compile", "stat", "clean", "delete"]
    states = ["absent", "unpatched", "patched", "patched-compiled", "patched-compiled", "patched"]
    sets = {name: listed(program, name, "--files", 60) for name in TABLE}
    patched = sets["unpatched"] | sets["patch"]
    compiled = patched | sets["compile-patched"]
    expected = [sets["unpatched"], patched, compiled, compiled, patched, {}]
    for step, state, files in zip(steps, states, expected, strict=True):
        arguments = [*SMALL, "-i", 2, "--order", step, "--state", state]
        program(*arguments)
        assert there(program.folder) == {f"kernel-{k}/{path}": size for k in range(2) for path, size in files.items()}
        program(*arguments, "--verify")


def test_compiled_then_patched_then_cleaned(program):
    """Clean unlinks exactly the set of the state: objects of the first run that the patch left alone stay."""
    program(*SMALL, "-i", 1, "--order", "create,compile,patch,clean")
    sets = {name: listed(program, name, "--files", 60) for name in TABLE}
    expected = sets["unpatched"] | {p: n for p, n in sets["compile"].items() if p not in sets["compile-patched"]}
    assert there(program.folder / "kernel-0") == expected
    assert len(expected) > len(sets["unpatched"])


def test_patch_unlinks_one_in_four(program, tmp_path):
    """A file that was unlinked first has another inode; all were rewritten. (Its old inode is kept busy by a link.)"""
    first = [*SMALL, "--files", 2000, "-i", 1, "--order"]
    program(*first, "create")
    tree = program.folder / "kernel-0"
    rewritten = [path for path in listed(program, "patch", "--files", 2000) if (tree / path).exists()]
    before = {}
    for number, path in enumerate(rewritten):
        before[path] = (tree / path).stat().st_ino
        (tmp_path / f"{number}").hardlink_to(tree / path)
    program(*first, "patch", "--state", "unpatched")
    unlinked = sum((tree / path).stat().st_ino != inode for path, inode in before.items())
    assert len(rewritten) > 500
    assert unlinked / len(rewritten) == pytest.approx(0.25, abs=0.06)


def test_seed_decides(program, tmp_path):
    def snapshot(name: str, seed: int, content: str) -> tuple:
        folder = tmp_path / name
        folder.mkdir()
        arguments = ["-n", "--files", 60, "-i", 2, "-r", 25, "--seed", seed, "--content", content]
        trace = traced(program(*arguments, "--trace", cwd=folder))
        program(*arguments, "--verify", cwd=folder)
        return trace, {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}

    one = snapshot("one", 5, "random")
    assert one == snapshot("two", 5, "random")
    other, letters = snapshot("three", 6, "random"), snapshot("four", 5, "letter")
    assert one[0] != other[0]
    assert set(one[1]) != set(other[1])
    assert one[0] == letters[0] and set(b"".join(letters[1].values())) == {ord("a")}
    assert len(set(b"".join(one[1].values()))) == 256


DAMAGES = {
    "content": (lambda victim: victim.write_bytes(b"\0" + victim.read_bytes()[1:]), "has other content"),
    "longer": (lambda victim: victim.write_bytes(victim.read_bytes() + b"a"), "bytes, not"),
    "shorter": (lambda victim: victim.write_bytes(victim.read_bytes()[:-1]), "bytes, not"),
    "lost": (lambda victim: victim.unlink(), "it is not there"),
    "renamed": (lambda victim: victim.rename(victim.with_name("other_1.c")), "should not be there"),
    "moved": (lambda victim: victim.rename(victim.parents[1] / victim.name), "should not be there"),
    "extra file": (lambda victim: (victim.parent / "new").touch(), "should not be there"),
    "extra folder": (lambda victim: (victim.parent / "new").mkdir(), "should not be there"),
    "lost tree": (lambda victim: shutil.rmtree(tree_of(victim)), "cannot list kernel-"),
    "extra tree": (lambda victim: (tree_of(victim).parent / "kernel-99").mkdir(), "kernel-99: it should not be there"),
}


def tree_of(path: Path) -> Path:
    return next(parent for parent in path.parents if parent.name.startswith("kernel-"))


def test_verify_finds_damage(program, tmp_path):
    """Of a run that left trees in several states."""
    arguments = [*SMALL, "-i", 3, "-r", 30, "--seed", 4, "--content", "random"]
    program(*arguments)
    shape = r"verified [1-9]\d* trees, [1-9]\d* files, [1-9]\d* bytes\n"
    assert re.fullmatch(shape, program(*arguments, "--verify").stdout)
    for damage, (act, words) in DAMAGES.items():
        folder = shutil.copytree(program.folder, tmp_path / damage)
        files = [path for path in sorted(folder.rglob("*.[ch]")) if path.stat().st_size > 100]
        act(random.Random(1).choice([path for path in files if len(path.relative_to(folder).parts) > 3]))
        assert words in program(*arguments, "--verify", cwd=folder, expect=1).stderr


def test_native_order_is_the_order_of_listing(program):
    """Inodes on tmpfs are numbered in the order of creation: sorted without native directories; with them the order in
    which the file system lists a tree that was written sorted."""
    if not Path("/dev/shm").is_dir():
        pytest.skip("no tmpfs here")

    def created(folder: Path) -> list[str]:
        return sorted(there(folder), key=lambda path: (folder / path).stat().st_ino)

    def walked(folder: Path) -> list[str]:
        found = []
        for parent, _, files in os.walk(folder):
            found += [os.path.relpath(os.path.join(parent, name), folder) for name in files]  # noqa: PTH118
        return found

    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        plain, native = Path(name) / "plain", Path(name) / "native"
        program("-n", "--files", 300, "-i", 1, "--order", "create", "--no-native", "-D", plain)
        program("-n", "--files", 300, "-i", 1, "--order", "create", "-D", native)
        assert created(plain / "kernel-0") == sorted(there(plain / "kernel-0"), key=lambda p: p.rpartition("/")[::2])
        listing = walked(plain / "kernel-0")
        assert listing != created(plain / "kernel-0")
        assert created(native / "kernel-0") == listing
        assert [p.name for p in native.iterdir()] == ["kernel-0"]


def test_check_is_an_upper_bound(program):
    def check(*words) -> dict:
        return json.loads(program("--check", *words).stdout)

    arguments = [*SMALL, "-i", 2, "-r", 30]
    bound = check(*arguments)
    assert not list(program.folder.iterdir())
    program(*arguments)
    left = list(program.folder.rglob("*"))
    assert 0 < sum(p.stat().st_size for p in left if p.is_file()) <= bound["bytes"]
    assert 0 < len(left) <= bound["names"]
    assert check(*arguments, "--verify") == {"bytes": 0, "names": 0}
    assert check("-n", "--files", 60, "-i", 1, "--order", "create")["bytes"] > bound["bytes"] / 2  # native directories


def test_says_that_caches_are_not_dropped(program):
    if os.access("/proc/sys/vm/drop_caches", os.W_OK):
        pytest.skip("it may, and would drop the caches of this machine")
    first = program("--files", 20, "-i", 1, "-r", 0).stdout.splitlines()[0]
    assert first.startswith("caches are NOT dropped: /proc/sys/vm/drop_caches: ")


def test_broken_in_one_sentence(program, tmp_path):
    (program.folder / "kernel-0").mkdir()
    said = program(*SMALL, "-i", 1, "-r", 0, expect=1).stderr
    assert said == "engine: compile-tree: cannot make kernel-0: File exists\n"
    program(*SMALL, "-D", tmp_path / "not" / "there", expect=1)
