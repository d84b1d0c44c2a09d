"""The engine's metadata programs on this host: mdtest, walk and scratch-dna, each against a statement of its own."""

import csv
import io
import json
import math
import os
import re
import shutil
import statistics
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from helpers import damaged

TITLES = {
    "Directory creation": "directory-create",
    "Directory stat": "directory-stat",
    "Directory rename": "directory-rename",
    "Directory removal": "directory-remove",
    "File creation": "file-create",
    "File stat": "file-stat",
    "File read": "file-read",
    "File removal": "file-remove",
    "Tree creation": "tree-create",
    "Tree removal": "tree-remove",
}
COLUMNS = (
    "inode,parent-inode,directory-depth,filename,fileExtension,UID,GID,st_size,st_dev,st_blocks,st_nlink,st_mode,"
    "st_atime,st_mtime,st_ctime,pw_fcount,pw_dirsum"
)


def below(top: Path) -> set[str]:
    """Every path below a folder."""
    return {str(path.relative_to(top)) for path in top.rglob("*")}


# ---- mdtest ----------------------------------------------------------------------------------------------------------


def numbering(b, z, per_directory, leaves_only, ranks, unique, kinds=("file",), iterations=1) -> set[str]:
    """The paths of mdtest's tree and items, from the published numbering and nothing else."""
    parent, level = {0: None}, [0]
    levels = [level]
    for _ in range(z):
        level = [b * k + c for k in level for c in range(1, b + 1)]
        parent |= {child: (child - 1) // b for child in level}
        levels.append(level)
    holders = levels[-1] if leaves_only else [k for level in levels for k in level]

    def way(k, rank):
        name = f"mdtest_tree.{rank}.{k}" if unique else f"mdtest_tree.{k}"
        return name if parent[k] is None else f"{way(parent[k], rank)}/{name}"

    found = set()
    for iteration in range(iterations):
        top = f"test-dir.{iteration}-0"
        found.add(top)
        for rank in range(ranks):
            found |= {f"{top}/{way(k, rank)}" for k in parent}
            for k in holders:
                items = range(k * per_directory, (k + 1) * per_directory)
                found |= {f"{top}/{way(k, rank)}/{kind}.mdtest.{rank}.{i}" for kind in kinds for i in items}
    return found


@pytest.mark.parametrize("leaves_only", [False, True])
@pytest.mark.parametrize("unique", [False, True])
@pytest.mark.parametrize("tasks", [1, 2])
def test_mdtest_tree_and_items_have_the_published_numbers(run, leaves_only, unique, tasks):
    flags = ["-b", 2, "-z", 2, "-I", 3, "--tasks", tasks, "-d", "here"] + ["-L"] * leaves_only + ["-u"] * unique
    run("mdtest", "-C", "-F", *flags, "-i", 2)
    assert below(run.folder / "here") == numbering(2, 2, 3, leaves_only, tasks, unique, iterations=2)
    assert run("mdtest", "-C", "-F", *flags, "-i", 2, "--verify").stdout
    run("mdtest", "-r", "-F", *flags, "-i", 2)
    assert below(run.folder / "here") == set()
    run("mdtest", "-C", *flags)
    assert below(run.folder / "here") == numbering(2, 2, 3, leaves_only, tasks, unique, kinds=("file", "dir"))


def test_mdtest_study_of_seven_branches_has_400_directories(run):
    study = ["-C", "-T", "-r", "-F", "-i", 3, "-I", 4096, "-z", 3, "-b", 7, "-L", "-u"]
    assert json.loads(run("mdtest", "--check", *study).stdout) == {"bytes": 0, "names": 400 + 1 + 343 * 4096}
    kept = json.loads(run("mdtest", "--check", "-C", "-i", 2, "-I", 2, "-z", 3, "-b", 7, "-w", 10).stdout)
    assert kept == {"bytes": 2 * 800 * 10, "names": 2 * (1 + 400 + 2 * 800)}
    assert not below(run.folder)


def test_mdtest_items_given_by_task(run):
    """-n without -I is shared among the directories that hold items: of (b=2, z=2) the leaves, directory 3 and on."""
    run("mdtest", "-C", "-F", "-L", "-b", 2, "-z", 2, "-n", 14)
    assert below(run.folder) == numbering(2, 2, 3, True, 1, False)
    leaf = run.folder / "test-dir.0-0/mdtest_tree.0/mdtest_tree.1/mdtest_tree.3"
    assert below(leaf) == {f"file.mdtest.0.{i}" for i in (9, 10, 11)}


def summary(text: str) -> dict[str, list[float]]:
    """Max, min, mean, deviation of each line, as a parser of mdtest's output finds them."""
    assert re.search(r"^SUMMARY rate: \(of \d+ iterations\)$", text, re.M)
    found = re.findall(r"^   (\w+ \w+) *:((?: +[\d.]+){4})$", text, re.M)
    return {name: [float(number) for number in numbers.split()] for name, numbers in found}


@pytest.mark.parametrize("deviation", ["population", "sample"])
def test_mdtest_summary_is_that_of_its_samples(run, deviation):
    flags = ["-b", 3, "-z", 1, "-I", 5, "-i", 4, "-u", "--tasks", 2, "--rename", "--std", deviation]
    done = run("mdtest", *flags)
    rates: dict[str, list[float]] = {}
    for name in TITLES.values():
        for iteration in range(4):
            of_this = [s for s in done.samples if (s["name"], s["iteration"]) == (name, iteration)]
            assert sorted(s["client"] for s in of_this) == [0, 1]
            items = of_this[0]["items"] if name.startswith("tree") else sum(s["items"] for s in of_this)
            rates.setdefault(name, []).append(items / (max(s["wall_ns"] for s in of_this) / 1e9))
    found = summary(done.stdout)
    assert list(found) == list(TITLES)
    spread = statistics.pstdev if deviation == "population" else statistics.stdev
    for title, numbers in found.items():
        values = rates[TITLES[title]]
        expected = [max(values), min(values), statistics.fmean(values), spread(values)]
        assert numbers == pytest.approx(expected, abs=0.001), title
    counts = {s["name"]: s["items"] for s in done.samples}
    assert counts == {**dict.fromkeys(counts, 20), "tree-create": 4, "tree-remove": 4, "directory-rename": 24}
    version = {"population": "1.9.3", "sample": "4.0.0"}[deviation]
    assert f"mdtest-{version}+reprofs was launched with 2 total task(s) on 1 node(s)\n" in done.stdout
    assert 'Command line used: mdtest "-b" "3" "-z" "1"' in done.stdout
    assert "\n2 tasks, 40 files/directories\n" in done.stdout
    assert len(done.stdout) < 4096
    assert not below(run.folder)


def test_mdtest_runs_the_phases_asked_for(run):
    done = run("mdtest", "-C", "-T", "-r", "-F", "-I", 5)
    names = [s["name"] for s in done.samples]
    assert names == ["tree-create", "file-create", "file-stat", "file-remove", "tree-remove"]
    starts = [s["start_ns"] for s in done.samples]
    ends = [s["start_ns"] + s["wall_ns"] for s in done.samples]
    assert all(end <= start for end, start in zip(ends, starts[1:], strict=False)), "one phase after the other"
    found = summary(done.stdout)
    assert list(found) == ["File creation", "File stat", "File read", "File removal", "Tree creation", "Tree removal"]
    assert found["File read"] == [0, 0, 0, 0]
    done = run("mdtest", "-D", "-I", 5)
    assert [s["name"] for s in done.samples if s["name"].startswith("file")] == []


def test_mdtest_passes_repeat_stat_and_read_in_one_phase(run, tmp_path):
    done = run("mdtest", "-F", "-u", "-I", 5, "-b", 2, "-z", 1, "--tasks", 2, "--passes", 3, "-w", 10, "-e", 10)
    items = {(s["name"], s["client"]): (s["items"], s["bytes"]) for s in done.samples if s["name"].startswith("file")}
    assert len(items) == sum(s["name"].startswith("file") for s in done.samples) == 8
    for client in range(2):
        assert items["file-create", client] == (15, 150) and items["file-remove", client] == (15, 0)
        assert items["file-stat", client] == (45, 0) and items["file-read", client] == (45, 450)


def test_mdtest_stride_lets_another_task_touch_the_items(run, tmp_path):
    trace = tmp_path / "trace"
    traced = ["strace", "-f", "-qq", "-e", "trace=file,clone,clone3,fork,vfork", "-o", trace]
    if not shutil.which("strace") or subprocess.run([*traced, "true"]).returncode:
        pytest.skip("strace does not work here")
    run("mdtest", "-F", "-u", "-N", 1, "--tasks", 3, "-I", 2, prefix=traced)
    calls: dict[int, list[str]] = {}
    started = []  # the numbers of processes do not tell: they begin again at the highest
    for line in trace.read_text().splitlines():
        pid, call = line.split(maxsplit=1)
        calls.setdefault(int(pid), []).append(call)
        if child := re.search(r"(?:clone3?|v?fork)\b.* = (\d+)$", call):
            started.append(int(child[1]))
    by_kind: dict[str, list] = {}
    for pid in started:  # every phase of every task is a process, started in the order of the tasks
        if items := [call for call in calls.get(pid, []) if "file.mdtest" in call]:
            owners = {int(re.search(r"file\.mdtest\.(\d+)\.", call)[1]) for call in items}
            kind = "create" if "O_CREAT" in items[0] else "stat" if "stat" in items[0].split("(")[0] else items[0][:4]
            by_kind.setdefault(kind, []).append(owners)
    assert by_kind["create"] == [{0}, {1}, {2}]
    assert by_kind["stat"] == [{1}, {2}, {0}]
    assert by_kind["open"] == [{2}, {0}, {1}]
    assert by_kind["unli"] == [{0}, {1}, {2}], "three strides of one among three tasks are none"


def test_mdtest_stride_over_a_shared_tree_leaves_nothing(run):
    run("mdtest", "-N", 1, "--tasks", 2, "-I", 3, "-b", 2, "-z", 1, "-w", 50, "-e", 50)
    assert not below(run.folder)


@pytest.mark.parametrize("size", [1, 15, 16, 17, 5000, (1 << 20) + 17, (1 << 21) + (1 << 20)])
def test_mdtest_verification_finds_a_flipped_byte(run, size):
    flags = ["-C", "-F", "-I", 2, "-w", size, "--seed", 5]
    run("mdtest", *flags)
    run("mdtest", *flags, "--verify")

    def wrong() -> str:
        return run("mdtest", *flags, "--verify", expect=1).stderr

    victim = run.folder / "test-dir.0-0/mdtest_tree.0/file.mdtest.0.1"
    assert victim.stat().st_size == size
    for at in damaged(victim, *{0, size // 2, size - 1}):
        assert f"file.mdtest.0.1 is not what was written, from byte {at} on" in wrong()
    (victim.parent / "stray").touch()
    assert "has 3 names, not 2" in wrong()
    victim.unlink()
    assert "file.mdtest.0.1 should be there" in wrong()


def test_mdtest_content_follows_from_the_seed(run):
    def content(folder, seed):
        run("mdtest", "-C", "-F", "-I", 3, "-w", 4000, "--seed", seed, "-d", folder)
        return [path.read_bytes() for path in sorted((run.folder / folder).rglob("file*"))]

    first = content("a", 1)
    assert first == content("b", 1)
    assert len(set(first)) == 3
    assert not set(first) & set(content("c", 2))


def test_mdtest_says_what_it_cannot_do(run):
    said = run("mdtest", "-T", "-F", "-I", 1, expect=1).stderr
    assert "cannot stat ./test-dir.0-0/mdtest_tree.0/file.mdtest.0.0: No such file" in said
    run("mdtest", "-C", "-I", 1)
    assert "test-dir.0-0 is already there" in run("mdtest", "-C", "-I", 1, expect=1).stderr


# ---- walk ------------------------------------------------------------------------------------------------------------


def named(name: bytes) -> str:
    """A name of any bytes, as Python writes it."""
    return os.fsdecode(name)


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A tree with everything that a walk may stumble over."""
    top = tmp_path_factory.mktemp("walk") / "place"
    folders = ["", "empty", "deep", "deep/er", "deep/er/est", "wide", ".snapshot", "wide/.snapshot", 'a, "b" dir.d']
    for name in folders:
        (top / name).mkdir()
    names = [
        b"plain",
        b"with.ending",
        b".hidden",
        b"a.tar.gz",
        b"ends.",
        b'quo"te.t"x',
        b"com,ma.c,v",
        b"new\nline.n\nl",
    ]
    for folder in set(folders) - {"empty", "wide"}:
        for length, name in enumerate([*names, b"\xff\xfe.\xe4"]):
            with (top / folder / named(name)).open("wb") as file:
                file.write(b"x" * length * 100)
                file.flush()
                os.fsync(file)  # a file system gives it blocks when it is written back: not between two looks
    for i in range(800):
        (top / f"wide/file-{i}-{'x' * 60}").touch()
    for i in range(100):
        (top / f"wide/folder-{i}").mkdir()
    (top / "deep/hard link").hardlink_to(top / "plain")
    (top / "to-folder").symlink_to("deep")
    (top / "deep/loop.x").symlink_to("../..")
    (top / "dangling").symlink_to("nowhere")
    os.mkfifo(top / "pipe")
    os.utime(top / "plain", (-5, 1 << 33))
    return top


def rows_of(top: Path, depth=math.inf, leave=lambda path: False) -> dict[bytes, list]:
    """What a walk must find: path -> the 17 columns, stated with lstat."""
    found = {}

    def enter(path: Path, parent: int, level: int) -> int:
        status = path.lstat()
        files = [-1, 0]
        if path.is_dir() and not path.is_symlink():
            files = [0, 0]
            for entry in path.iterdir() if level < depth else ():
                is_folder = entry.is_dir() and not entry.is_symlink()
                if is_folder and leave(entry):
                    continue
                size = enter(entry, status.st_ino, level + 1)
                if not is_folder:
                    files = [files[0] + 1, files[1] + size]
        ending = "" if files[0] >= 0 or "." not in path.name[1:] else path.name.rpartition(".")[2]
        found[os.fsencode(path)] = [
            *(status.st_ino, parent, level, os.fsencode(path), os.fsencode(ending), status.st_uid, status.st_gid),
            *(status.st_size, status.st_dev, status.st_blocks, status.st_nlink, f"{status.st_mode:07o}"),
            *(t // 10**9 for t in (status.st_atime_ns, status.st_mtime_ns, status.st_ctime_ns)),
            *files,
        ]
        return status.st_size

    enter(top, 0, -1)
    return found


def read_rows(text: bytes) -> list[list]:
    """The rows of a report; numbers as numbers, names as bytes."""
    rows = []
    for row in csv.reader(io.StringIO(text.decode("latin1"), newline=""), strict=True):
        texts = {3: row[3].encode("latin1"), 4: row[4].encode("latin1"), 11: row[11]}
        rows.append([texts[i] if i in texts else int(value) for i, value in enumerate(row)])
    return rows


WAYS = [[], ["--threads", "2"], ["--threads", "32"], ["--fast"], ["--fast", "--threads", "3"]]


@pytest.mark.parametrize("way", WAYS, ids=" ".join)
def test_walk_rows_are_what_lstat_says(run, place, tmp_path, way):
    expected = rows_of(place)
    output = tmp_path / "rows"
    done = run("walk", *way, "--output", output, f"{place}/")
    rows = read_rows(output.read_bytes())
    assert {row[3] for row in rows} == set(expected)
    assert len(rows) == len(expected)
    for row in rows:
        wanted = expected[row[3]]
        times = range(wanted[12], Path(named(row[3])).lstat().st_atime_ns // 10**9 + 1)  # reading a folder changes it
        assert row[:12] + row[13:] == wanted[:12] + wanted[13:]
        assert row[12] in times
    (sample,) = done.samples
    assert (sample["name"], sample["items"]) == ("walk", len(expected))
    if "--threads" not in way:
        at = {row[3]: number for number, row in enumerate(rows)}
        inside = set(expected) - {os.fsencode(place)}
        assert all(at[path] < at[path.rpartition(b"/")[0]] for path in inside), "after its contents"


def test_walk_quotes_text_and_nothing_else(run, place, tmp_path):
    run("walk", "--header", "--output", tmp_path / "rows", place)
    first, _, rest = (tmp_path / "rows").read_bytes().partition(b"\n")
    assert first.decode().replace('"', "") == COLUMNS
    assert re.findall(r'"([^"]*)"', first.decode()) == ["filename", "fileExtension", "st_mode"]
    row = next(line for line in rest.split(b"\n") if b'place/quo""te.t""x"' in line)
    number = rb"-?\d+"
    shape = rb'%b,%b,0,"[^\n]*/quo""te\.t""x","t""x",%b,%b,500,%b,%b,1,"0100644",%b,%b,%b,-1,0'
    assert re.fullmatch(shape.replace(b"%b", number), row)


@pytest.mark.parametrize("way", WAYS, ids=" ".join)
def test_walk_options_leave_out_what_they_say(run, place, tmp_path, way):
    output = tmp_path / "rows"

    def paths(*options) -> Counter:
        run("walk", *way, *options, "--output", output, place)
        return Counter((row[3], row[15], row[16]) for row in read_rows(output.read_bytes()))

    def expected(**options) -> Counter:
        return Counter((path, row[15], row[16]) for path, row in rows_of(place, **options).items())

    assert paths("--NoSnap") == expected(leave=lambda path: path.name == ".snapshot")
    for depth in (0, 1, 2):
        assert paths("--depth", depth) == expected(depth=depth)
    listed = [place / "deep/er", place / 'a, "b" dir.d', place / "plain"]
    (tmp_path / "exclude").write_text(f"{listed[0]}/\n\n{listed[1]}\n{listed[2]}")
    assert paths("--exclude", tmp_path / "exclude") == expected(leave=lambda path: path in listed), "folders only"


@pytest.mark.parametrize("threads", [1, 2, 32])
def test_walk_counts_without_stat(run, place, threads):
    some = rows_of(place, 1, lambda path: path.name == ".snapshot")
    fast = ("walk", "--fast", "--threads", threads)
    assert run(*fast, "--count", place).stdout == f"{len(rows_of(place))}\n"
    assert run(*fast, "--count", "--NoSnap", "--depth", 1, place).stdout == f"{len(some)}\n"
    assert run(*fast, place).stdout.startswith(f"entries {len(rows_of(place))} ")


@pytest.mark.parametrize("threads", [1, 8])
def test_walk_goes_over_a_tree_several_times_at_once(run, place, tmp_path, threads):
    once, output = rows_of(place), tmp_path / "rows"
    done = run("walk", "--fast", "--threads", threads, "--passes", 3, "--output", output, place)
    assert Counter(row[3] for row in read_rows(output.read_bytes())) == dict.fromkeys(once, 3)
    (sample,) = done.samples
    assert sample["items"] == 3 * len(once)


@pytest.mark.parametrize("way", [[], ["--fast"], ["--fast", "--count"]], ids=" ".join)
def test_walk_stays_on_one_file_system(run, way):
    """/dev has other file systems below it, on any Linux."""
    top = Path("/dev")
    device = top.stat().st_dev
    folders = [path for path in top.iterdir() if path.is_dir() and not path.is_symlink()]
    mounts = [path for path in folders if path.stat().st_dev != device]
    if not mounts:
        pytest.skip("nothing is mounted below /dev here")
    if way == ["--fast", "--count"]:
        found = int(run("walk", *way, "-x", "/dev").stdout)
        assert found == len(rows_of(top, leave=lambda path: path.lstat().st_dev != device)) + len(mounts)
        return
    output = run.folder / "rows"
    run("walk", *way, "--one-file-system", "--output", output, "/dev")
    rows = {row[3]: row for row in read_rows(output.read_bytes())}
    for mount in mounts:
        assert rows[os.fsencode(mount)][15:] == [0, 0], "the mount point is an entry, its contents are not"
    assert not [path for path in rows if any(path.startswith(os.fsencode(mount) + b"/") for mount in mounts)]


def test_walk_goes_deep_and_over_many_buffers_of_names(run, tmp_path):
    """Deeper than any thread's default stack could hold, and than a careless buffer."""
    (tmp_path / "deep" / "/".join(["abc"] * 500)).mkdir(parents=True)
    for way in WAYS:
        assert run("walk", *way, tmp_path / "deep").stdout.startswith("entries 501 directories 501 ")
    for i in range(2000):
        (tmp_path / f"many/{i:04}-{'x' * 200}").mkdir(parents=True)
    for way in WAYS[3:]:
        assert run("walk", *way, "--count", tmp_path / "many").stdout == "2001\n"
        assert run("walk", *way, tmp_path / "many").stdout.startswith("entries 2001 directories 2001 ")


def test_walk_of_the_root_has_no_double_slash(run):
    run("walk", "--fast", "--depth", 0, "--output", "fast", "/")
    run("walk", "--depth", 0, "--output", "slow", "/")
    for name in ("fast", "slow"):
        paths = {row[3] for row in read_rows((run.folder / name).read_bytes())}
        assert paths == {b"/", *(os.fsencode(entry) for entry in Path("/").iterdir())}


def test_walk_says_what_it_cannot_do(run):
    assert "cannot read nowhere: No such file" in run("walk", "nowhere", expect=1).stderr
    (run.folder / "file").touch()
    assert "file is not a directory" in run("walk", "file", expect=1).stderr
    assert "cannot read nowhere" in run("walk", "--exclude", "nowhere", ".", expect=1).stderr
    assert "cannot write no/where" in run("walk", "--output", "no/where", ".", expect=1).stderr
    full = run("walk", "--output", "/dev/full", ".", expect=1).stderr
    assert "cannot write /dev/full: no space left on the device" in full


# ---- scratch-dna -----------------------------------------------------------------------------------------------------


def dna(run, *arguments, folder="dna") -> dict[str, bytes]:
    """The files that the program made, by name."""
    run("scratch-dna", *arguments, folder)
    (inside,) = (run.folder / folder).iterdir()
    found = {path.name: path.read_bytes() for path in inside.iterdir()}
    assert all(name.startswith(inside.name + "-") for name in found)
    return found


def test_scratch_dna_files_are_copies_of_one_random_text(run):
    files = dna(run, "--seed", 4, 400, 1000, 7)
    assert len(files) == 400
    copies = Counter()
    texts = set()
    for name, content in files.items():
        number, m = map(int, re.fullmatch(r"scratch-dna_\d{8}-(\d+)-(\d+)\.txt", name).groups())
        assert 0 <= number < 400
        assert len(content) == m * 1000
        copies[m] += 1
        texts |= {content[i : i + 1000] for i in range(0, len(content), 1000)}
    assert set(copies) == set(range(1, 8)), "from one copy to the multiplier"
    assert sum((n - 400 / 7) ** 2 / (400 / 7) for n in copies.values()) < 22.5, "chi square of 6 degrees, p 0.001"
    (text,) = texts
    letters = Counter(text)
    assert set(letters) == set(b"GATC")
    assert sum((n - 250) ** 2 / 250 for n in letters.values()) < 16.3, "chi square of 3 degrees, p 0.001"


def test_scratch_dna_follows_from_the_seed_and_not_from_the_workers(run):
    one = dna(run, "--seed", 1, 50, 300, 5, folder="a")
    assert one == dna(run, "-p", 3, "--seed", 1, 50, 300, 5, folder="b")
    assert one != dna(run, "--seed", 2, 50, 300, 5, folder="c")
    done = run("scratch-dna", "-p", 4, "--seed", 1, 50, 300, 5, "d")
    assert sorted(s["client"] for s in done.samples) == [0, 1, 2, 3]
    assert sum(s["items"] for s in done.samples) == 50
    assert sum(s["bytes"] for s in done.samples) == sum(map(len, one.values()))
    checked = json.loads(run("scratch-dna", "--check", "-p", 4, "--seed", 1, 50, 300, 5, "d").stdout)
    assert checked == {"bytes": sum(map(len, one.values())), "names": 51}


def test_scratch_dna_prints_rates_of_the_clock(run):
    done = run("scratch-dna", "-v", "--seed", 1, 50, 300, 5, "d")
    numbers = {key: float(value) for key, value in re.findall(r"^(.+): ([\d.]+)$", done.stdout, re.M)}
    (sample,) = done.samples
    seconds = sample["wall_ns"] / 1e9
    assert numbers["Number of files"] == 50
    assert numbers["Elapsed seconds"] == pytest.approx(seconds, abs=1e-6)
    assert numbers["Avg FPS"] == pytest.approx(50 / seconds, rel=1e-3)
    assert numbers["Avg MiB/s"] == pytest.approx(sample["bytes"] / 2**20 / seconds, rel=1e-3)
    assert numbers["Total GiB"] == pytest.approx(sample["bytes"] / 2**30, abs=1e-6)


def test_scratch_dna_verification(run):
    arguments = ["--seed", 1, 5, 1000, 3, "d"]
    run("scratch-dna", *arguments)
    run("scratch-dna", *arguments, "--verify")
    (folder,) = (run.folder / "d").iterdir()
    victim = sorted(folder.iterdir())[2]
    length = victim.stat().st_size
    for at in damaged(victim, 0, length // 2, length - 1):
        said = run("scratch-dna", *arguments, "--verify", expect=1).stderr
        assert victim.name in said and f"from byte {at} on" in said
    (folder / "stray").touch()
    assert "has 6 names, not 5" in run("scratch-dna", *arguments, "--verify", expect=1).stderr
    assert "already there" in run("scratch-dna", *arguments, expect=1).stderr
