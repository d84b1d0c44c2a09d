"""`engine archive`: tar streams of a synthetic tree, whole and in parts, and what GNU tar does with /dev/null."""

import hashlib
import io
import json
import os
import shlex
import subprocess
import tarfile
from pathlib import Path

import pytest
import yaml
from conftest import ROOT

NAMES = 3000
ARGUMENTS = ["--names", NAMES, "--seed", 3, "--hard-links", 60, "--directories", 10, "--fan-out", 7, "--depth", 4]


@pytest.fixture
def make(engine):
    """The bytes of an archive."""

    def run(*arguments) -> bytes:
        done = subprocess.run([engine, "archive", *map(str, arguments)], capture_output=True, timeout=120)
        assert done.returncode == 0, done.stderr
        assert done.stderr == b""
        return done.stdout

    return run


def members(data: bytes) -> list[tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
        return archive.getmembers()


def tell(member: tarfile.TarInfo) -> tuple:
    return member.name, member.type, member.size, member.linkname, member.mode, member.mtime


def test_counts(make):
    data = make(*ARGUMENTS)
    found = members(data)
    assert len(data) % 10240 == 0
    assert len(found) == len({member.name for member in found}) == NAMES
    directories = [member for member in found if member.isdir()]
    links = [member for member in found if member.islnk()]
    assert len(directories) == pytest.approx(NAMES * 0.10, abs=7)
    assert len(links) == pytest.approx((NAMES - len(directories)) * 0.60, abs=7)
    assert all(member.isdir() or member.islnk() or member.isreg() for member in found)
    assert {member.name.split("/")[0] for member in found} == {f"backup-{k}" for k in range(7)}
    assert max(member.name.count("/") for member in directories) <= 3
    sizes = [member.size for member in found if member.isreg()]
    assert 2000 < sorted(sizes)[len(sizes) // 2] < 8000


def test_order_lets_tar_extract(make):
    """A directory comes before what is in it, a file before its links; links stay inside their backup."""
    seen: dict[str, tarfile.TarInfo] = {}
    for member in members(make(*ARGUMENTS)):
        parent, slash, _ = member.name.rpartition("/")
        assert not slash or seen[parent].isdir()
        if member.islnk():
            assert seen[member.linkname].isreg()
            assert member.linkname.split("/")[0] == member.name.split("/")[0]
        seen[member.name] = member


def test_extracted(make, engine, tmp_path):
    data = make(*ARGUMENTS)
    subprocess.run(["tar", "-xp", "-C", tmp_path], input=data, check=True, timeout=60)
    subprocess.run(["tar", "-d", "-C", tmp_path], input=data, check=True, timeout=60)
    found = list(tmp_path.rglob("*"))
    assert len(found) == NAMES
    hard_linked = 0
    for member in members(data):
        if member.islnk():
            hard_linked += (tmp_path / member.name).stat().st_ino == (tmp_path / member.linkname).stat().st_ino
    assert hard_linked == sum(member.islnk() for member in members(data)) > 0
    bytes_there = sum({p.stat().st_ino: p.stat().st_size for p in found if p.is_file()}.values())
    checked = subprocess.run([engine, "archive", "--check", *map(str, ARGUMENTS)], capture_output=True, timeout=60)
    assert json.loads(checked.stdout) == {"bytes": bytes_there, "names": NAMES}
    victim = next(p for p in sorted(found) if p.is_file() and p.stat().st_size > 100)
    victim.write_bytes(b"x" + victim.read_bytes()[1:])
    assert subprocess.run(["tar", "-d", "-C", tmp_path], input=data, capture_output=True, timeout=60).returncode == 1


def test_symbolic_links_are_for_the_second_pass_of_tar(make, engine, tmp_path):
    arguments = [*ARGUMENTS, "--symlinks", 20]
    data = make(*arguments)
    plain, found = members(make(*ARGUMENTS)), members(data)
    links = [member for member in found if member.issym()]
    assert len(links) == pytest.approx(0.2 * sum(member.isreg() for member in plain), rel=0.3)
    assert all(member.linkname == f"/{member.name}" for member in links)
    # A hard link to a symbolic link is what the pass is about; names are those without symbolic links.
    assert {member.linkname for member in found if member.islnk()} & {member.name for member in links}
    assert [member.name for member in found] == [member.name for member in plain]
    for options, passes in (("-x", True), ("-xP", False)):
        place = tmp_path / options
        place.mkdir()
        subprocess.run(["tar", options, "-C", place], input=data, check=True, timeout=60, stderr=subprocess.PIPE)
        subprocess.run(["tar", "-dP", "-C", place], input=data, check=True, timeout=60)
        made = [(path.is_symlink(), path.lstat().st_ctime_ns) for path in place.rglob("*") if not path.is_dir()]
        symbolic, regular = ([time for is_link, time in made if is_link is kind] for kind in (True, False))
        assert len(symbolic) >= len(links)
        assert (min(symbolic) >= max(regular)) is passes  # a second pass comes after all files
    checked = subprocess.run([engine, "archive", "--check", *map(str, arguments)], capture_output=True, timeout=60)
    assert json.loads(checked.stdout) == {"bytes": sum(m.size for m in found if m.isreg()), "names": NAMES}


@pytest.mark.parametrize("parts", [2, 3, 7])
def test_parts_are_disjoint_and_complete(make, parts):
    whole = {tell(member) for member in members(make(*ARGUMENTS))}
    found = []
    for k in range(1, parts + 1):
        found += [tell(member) for member in members(make(*ARGUMENTS, "--part", f"{k}/{parts}"))]
    assert len(found) == len(whole)
    assert set(found) == whole


def test_parts_have_the_same_content(make, tmp_path):
    whole, several = tmp_path / "whole", tmp_path / "several"
    whole.mkdir(), several.mkdir()
    subprocess.run(["tar", "-x", "-C", whole], input=make(*ARGUMENTS), check=True, timeout=60)
    for k in range(1, 5):
        subprocess.run(["tar", "-x", "-C", several], input=make(*ARGUMENTS, "--part", f"{k}/4"), check=True, timeout=60)
    subprocess.run(["diff", "-r", whole, several], check=True, timeout=60)


def test_seed_decides(make):
    again = [*ARGUMENTS]
    again[3] = 4
    first = make(*ARGUMENTS)
    assert first == make(*ARGUMENTS)
    assert first != make(*again)
    regular = [m for m in members(first) if m.isreg() and m.size > 64]
    with tarfile.open(fileobj=io.BytesIO(first)) as archive:
        digests = {hashlib.sha256(archive.extractfile(member).read()).digest() for member in regular}
    assert len(digests) == len(regular)


def test_long_names(make, tmp_path):
    """Paths beyond 100 bytes use ustar's prefix, links and paths beyond that pax records; tarfile and tar read both."""
    arguments = ["--names", 400, "--fan-out", 1, "--depth", 48, "--directories", 50, "--hard-links", 40]
    data = make(*arguments)
    found = members(data)
    assert max(len(member.name) for member in found) > 256
    assert any(len(member.name) > 100 and not member.pax_headers for member in found)
    assert any("path" in member.pax_headers for member in found)
    assert any("linkpath" in member.pax_headers for member in found)
    subprocess.run(["tar", "-x", "-C", tmp_path], input=data, check=True, timeout=60)
    assert sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*")) == sorted(m.name for m in found)


@pytest.mark.parametrize("names", [1, 2, 9])
def test_few_names(make, names):
    assert len(members(make("--names", names, "--hard-links", 50))) == names


def test_memory_of_a_million_names(engine):
    """All of its memory, resident or not, is below 64 MiB: with more the kernel would refuse it."""
    arguments = "--names 1000000 --hard-links 92 --directories 4"
    script = f'(ulimit -v 65536 && exec "$0" archive {arguments}) | wc -c'
    done = subprocess.run(["bash", "-o", "pipefail", "-c", script, engine], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 1_000_000 * 512


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["--names"]),
        (["--names", "-5"], ["--names", "-5"]),
        (["--names", "0"], ["--names", "0"]),
        (["--names", "10", "--hard-links", "100"], ["--hard-links", "99"]),
        (["--names", "10", "--part", "3/2"], ["--part", "3/2"]),
        (["--names", "10", "--part", "0/2"], ["--part", "0/2"]),
        (["--names", "10", "--fan-out", "4", "--part", "1/5"], ["--part", "5", "--fan-out", "4"]),
        (["--names", "10", "--depth", "0"], ["--depth"]),
        (["--names", "10", "--size-sigma", "-1"], ["--size-sigma"]),
        (["--names"], ["--names", "needs a value"]),
        (["--nonsense"], ["--nonsense", "known"]),
    ],
)
def test_bad_arguments(engine, says, arguments, words):
    says(subprocess.run([engine, "archive", *arguments], capture_output=True, text=True, timeout=60), *words)


def test_full_device(engine):
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [engine, "archive", "--names", "100"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60
        )
    assert done.returncode == 1
    assert "no space left on the device" in done.stderr


def bytes_read(script: str, folder) -> int:
    """Bytes that a script's commands got from read calls, as /proc accounts them to the shell that waited for them."""
    bare = subprocess.run(
        ["bash", "-o", "pipefail", "-c", f"{script}; cat /proc/$$/io"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return next(int(line.split()[1]) for line in bare.stdout.splitlines() if line.startswith("rchar:"))


def test_tar_to_dev_null_reads_nothing(tmp_path):
    """The trap of the study: to /dev/null GNU tar reads no file, through a pipe all of them."""
    if not Path("/proc/self/io").exists():
        pytest.skip("this kernel does not account reads")
    if b"GNU tar" not in subprocess.run(["tar", "--version"], capture_output=True).stdout:
        pytest.skip("the trap is GNU tar's")
    content = 50 * 200_000
    for k in range(50):
        (tmp_path / f"{k}").write_bytes(os.urandom(200_000))
    to_null = bytes_read("tar -cf /dev/null .", tmp_path)
    redirected = bytes_read("tar -c . >/dev/null", tmp_path)
    piped = bytes_read("tar -c . | wc -c >/dev/null", tmp_path)
    assert to_null < content / 10
    assert redirected < content / 10
    assert piped >= 2 * content  # tar reads the files, wc what tar wrote


def test_workload_many_inodes(engine, tmp_path):
    """Its commands in their order, on a folder: each check holds, and one that should not hold does not."""
    workload = yaml.safe_load((ROOT / "workflow/workloads/many-inodes.yaml").read_text())
    values = {**workload["scales"]["paper"], "names": 700, "seed": 5}

    def run(command: str) -> subprocess.CompletedProcess:
        words = [word.format(**values) for word in shlex.split(command)]
        environment = {**os.environ, **workload["environment"], "ENGINE": str(engine)}
        return subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)

    output = {}
    for phase in workload["phases"]:
        done = run(phase["run"])
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        output[phase["name"]] = done.stdout
        if "check" in phase:
            checked = run(phase["check"])
            assert checked.returncode == 0, checked.stderr
        if phase["name"].startswith("extract"):
            assert run(workload["phases"][-1]["check"]).returncode != 0
            (tmp_path / "more").touch()
            assert run(phase["check"]).returncode != 0
            (tmp_path / "more").unlink()
    assert int(output["find"]) == 701  # with the folder itself
    assert output["du"].splitlines()[-1].endswith("total")
    assert len(output["tar"].split()) == values["backups"]
    assert sum(map(int, output["tar"].split())) > 700 * 512
