"""The programs that write and read long files: what they leave, what they say of it, what they refuse."""

import itertools
import json
import os
import shutil
import subprocess
import zlib
from pathlib import Path

import pytest
from helpers import flip

KIB, MIB = 1 << 10, 1 << 20


def named(done, name) -> list[dict]:
    return [sample for sample in done.samples if sample["name"] == name]


# ---- stream-fill ----------------------------------------------------------------------------------------------------

FILL = ("stream-fill", "--size", 3 * MIB, "--count", 4, "--seed", 5)


def test_fill_writes_the_files_and_takes_a_sample_of_each(run):
    done = run(*FILL, "--buffer", "64K", "--pause-ms", 5, "--sync-each")
    assert {path.stat().st_size for path in run.folder.iterdir()} == {3 * MIB}
    assert sorted(path.name for path in run.folder.iterdir()) == [f"stream-{i:08}" for i in range(4)]
    written = named(done, "write")
    assert [sample["iteration"] for sample in written] == [0, 1, 2, 3]
    assert {(s["bytes"], s["items"], s["file_bytes"], s["record_bytes"]) for s in written} == {
        (3 * MIB, 1, 3 * MIB, 64 * KIB)
    }
    for before, after in itertools.pairwise(written):  # the pause is between them and in none
        assert after["start_ns"] - before["start_ns"] - before["wall_ns"] >= 5_000_000
    (capacity,) = named(done, "capacity")
    room = os.statvfs(run.folder)
    assert capacity["bytes"] == room.f_blocks * room.f_frsize
    assert not named(done, "full")
    run(*FILL, "--verify")


def test_content_depends_on_the_seed_and_not_on_the_buffer(run):
    run(*FILL)
    whole = [path.read_bytes() for path in sorted(run.folder.iterdir())]
    for path in run.folder.iterdir():
        path.unlink()
    run(*FILL, "--buffer", 70001)  # neither aligned nor a divisor
    assert [path.read_bytes() for path in sorted(run.folder.iterdir())] == whole
    run("stream-fill", "--size", 3 * MIB, "--count", 4, "--seed", 6, "--verify", expect=1)


def test_content_cannot_be_compressed_and_no_two_blocks_are_equal(run):
    run(*FILL)
    content = b"".join(path.read_bytes() for path in sorted(run.folder.iterdir()))
    assert len(zlib.compress(content[:MIB], 9)) > 0.99 * MIB
    blocks = [content[at : at + 4096] for at in range(0, len(content), 4096)]
    assert len(set(blocks)) == len(blocks)


def test_content_of_zeros(run):
    run(*FILL, "--zeros")
    assert {path.read_bytes() for path in run.folder.iterdir()} == {bytes(3 * MIB)}
    run(*FILL, "--zeros", "--verify")
    run(*FILL, "--verify", expect=1)
    flip(run.folder / "stream-00000002", 70_000)
    run(*FILL, "--zeros", "--verify", expect=1)


@pytest.mark.parametrize("at", [0, 4097, 3 * MIB - 1])
def test_one_changed_byte_is_found(run, at):
    run(*FILL)
    flip(run.folder / "stream-00000002", at)
    done = run(*FILL, "--verify", expect=1)
    assert f"stream-00000002 is not what was written, from byte {at} on" in done.stderr


def test_a_file_cut_short_longer_swapped_or_missing_is_found(run):
    run(*FILL)
    first, second, third = (run.folder / f"stream-{i:08}" for i in range(3))
    whole = first.read_bytes()
    first.write_bytes(whole[:-5])
    assert f"ends after {3 * MIB - 5} of {3 * MIB} bytes" in run(*FILL, "--verify", expect=1).stderr
    first.write_bytes(whole + b"x")
    assert "longer than" in run(*FILL, "--verify", expect=1).stderr
    first.write_bytes(second.read_bytes())
    assert "stream-00000000 is not what was written" in run(*FILL, "--verify", expect=1).stderr
    first.write_bytes(whole)
    third.unlink()
    assert "there are 3 files, not the 4 written" in run(*FILL, "--verify", expect=1).stderr


def test_an_old_file_is_not_written_over(run):
    (run.folder / "stream-00000001").write_text("mine")
    assert "stream-00000001" in run(*FILL, expect=1).stderr
    assert (run.folder / "stream-00000001").read_text() == "mine"


@pytest.fixture
def small_disk(tmp_path):
    """What runs a command on a file system of 16 MiB that only it sees; its files are copied to `copy` afterwards."""
    mount, copy = tmp_path / "mount", tmp_path / "copy"
    mount.mkdir()
    copy.mkdir()
    script = f'mount -t tmpfs -o size=16M none {mount} && cd {mount} && "$@"; code=$?; cp -p * {copy}; exit $code'
    inside = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"]
    if not shutil.which("unshare"):
        pytest.skip("no unshare here")
    if subprocess.run([*inside, "touch", "x"], capture_output=True).returncode or not (copy / "x").exists():
        pytest.skip("this user cannot mount in a name space")
    (copy / "x").unlink()
    return inside, copy


def test_until_full_counts_the_last_part_and_verifies(run, small_disk):
    inside, copy = small_disk
    done = run("stream-fill", "--size", "5M", "--until-full", "--seed", 9, prefix=inside)
    assert [(s["iteration"], s["bytes"]) for s in named(done, "write")] == [(i, 5 * MIB) for i in range(3)] + [(3, MIB)]
    (full,) = named(done, "full")
    assert (full["bytes"], full["items"]) == (16 * MIB, 4)
    assert named(done, "capacity")[0]["bytes"] == 16 * MIB
    assert "no space left on the device in file 3" in done.stdout
    verify = ("stream-fill", "--size", "5M", "--until-full", "--seed", 9, "--verify", "-d", copy)
    run(*verify)
    part = copy / "stream-00000003"
    part.write_bytes(part.read_bytes()[:-1])  # how long the last one was, nobody knows
    run(*verify)
    middle = copy / "stream-00000001"
    middle.write_bytes(middle.read_bytes()[:-1])
    assert "stream-00000001 ends after" in run(*verify, expect=1).stderr


def test_no_space_is_a_failure_where_it_is_not_the_purpose(run, small_disk):
    inside, _ = small_disk
    for arguments in (
        ("stream-fill", "--size", "5M", "--count", 4),
        ("record-sweep", "--file-sizes", "20M", "--record-sizes", "1M"),
        ("read-while-write", "--size", "1M", "--prepare", 2, "--count", 6),
    ):
        assert "no space left on the device" in run(*arguments, expect=1, prefix=inside).stderr


# ---- record-sweep ---------------------------------------------------------------------------------------------------

SWEEP = ("record-sweep", "--file-sizes", "256K,1M", "--record-sizes", "4K,48K,512K", "--seed", 3)
PAIRS = [(256, 4), (256, 48), (1024, 4), (1024, 48), (1024, 512)]  # KiB; a record larger than the file is left out


@pytest.mark.parametrize("flags", [(), ("-e",), ("-c",), ("-e", "-c", "--evict")])
def test_sweep_takes_four_samples_of_every_pair(run, flags):
    done = run(*SWEEP, *flags)
    for name in ("write", "rewrite", "read", "reread"):
        found = named(done, name)
        assert [(s["file_bytes"] // KIB, s["record_bytes"] // KIB) for s in found] == PAIRS
        assert all(s["bytes"] == s["file_bytes"] and s["wall_ns"] > 0 for s in found)
    run(*SWEEP, "--verify")


def test_sweep_prints_a_table_as_iozone_does(run):
    done = run(*SWEEP)
    head, *lines = done.stdout.splitlines()
    assert head.split() == ["kB", "reclen", "write", "rewrite", "read", "reread"]
    assert [tuple(map(int, line.split()[:2])) for line in lines] == PAIRS
    for line, *samples in zip(lines, *(named(done, n) for n in head.split()[2:]), strict=True):
        for rate, sample in zip(line.split()[2:], samples, strict=True):  # kB/s of 1,024 bytes
            assert float(rate) == pytest.approx(sample["bytes"] / 1024 * 1e9 / sample["wall_ns"], abs=0.51)


def test_sweep_leaves_the_content_of_the_rewrite_and_finds_a_changed_byte(run):
    run(*SWEEP)
    assert sorted(path.name for path in run.folder.iterdir()) == ["sweep-1048576", "sweep-262144"]
    flip(run.folder / "sweep-262144", 200_000)
    assert "sweep-262144 is not what was written, from byte 200000" in run(*SWEEP, "--verify", expect=1).stderr


def test_sweep_with_another_prefix_and_again_in_the_same_folder(run):
    run(*SWEEP)
    done = run(*SWEEP, "--prefix", "again-")
    assert {sample["name"] for sample in done.samples} == {f"again-{n}" for n in ("write", "rewrite", "read", "reread")}


def test_every_record_is_one_call(engine, tmp_path):
    calls = {}
    for record in (4 * KIB, 64 * KIB):
        arguments = [engine, "record-sweep", "-d", tmp_path, "--file-sizes", "1M", "--record-sizes", str(record)]
        process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # its counts are there until it is waited for
        counts = dict(line.split(": ") for line in Path(f"/proc/{process.pid}/io").read_text().splitlines())
        assert process.wait() == 0
        calls[record] = int(counts["syscw"]), int(counts["syscr"])
    for few, many in zip(calls[64 * KIB], calls[4 * KIB], strict=True):
        assert many - few == 2 * (256 - 16)  # write and rewrite, read and reread


# ---- read-while-write -----------------------------------------------------------------------------------------------

MIXED = (
    "read-while-write",
    "--size",
    "1M",
    "--prepare",
    2,
    "--count",
    3,
    "--chunk",
    "256K",
    "--buffer",
    "64K",
    "--seed",
    4,
)


@pytest.mark.parametrize("flags", [(), ("--sync-each",)])
def test_three_windows_of_the_same_amount(run, flags):
    done = run(*MIXED, *flags)
    written = named(done, "write")
    assert [s["iteration"] for s in written] == list(range(36))  # 3 windows of 3 files of 4 chunks
    assert [s["client"] for s in written] == [0] * 12 + [1] * 12 + [2] * 12
    assert {s["bytes"] for s in written} == {256 * KIB}
    for name, window in (("alone", 0), ("beside-reader", 1), ("alone-again", 2)):
        (whole,) = named(done, name)
        chunks = [s for s in written if s["client"] == window]
        assert (whole["bytes"], whole["items"]) == (3 * MIB, 3)
        assert whole["start_ns"] <= chunks[0]["start_ns"]
        assert whole["wall_ns"] >= sum(s["wall_ns"] for s in chunks)
    assert sorted(path.name for path in run.folder.iterdir()) == sorted(
        [f"early-{i:08}" for i in range(2)] + [f"late-{i:08}" for i in range(9)]
    )
    run(*MIXED, "--verify")


def test_the_reader_reads_in_the_second_window_only(run):
    arguments = list(MIXED)
    arguments[arguments.index("--count") + 1] = 60  # long enough for a busy machine to start the reader
    done = run(*arguments, "--sync-each")
    (beside,), (after,), read = named(done, "beside-reader"), named(done, "alone-again"), named(done, "read")
    assert read and {s["client"] for s in read} == {1}
    assert min(s["start_ns"] for s in read) >= beside["start_ns"]
    assert max(s["start_ns"] for s in read) <= after["start_ns"]
    assert [s["iteration"] for s in read] == list(range(len(read)))
    assert all(0 < s["bytes"] <= 256 * KIB for s in read)


def test_mixed_content_is_verified(run):
    run(*MIXED)
    for name in ("early-00000001", "late-00000008"):
        flip(run.folder / name, 70_000)
        assert f"{name} is not what was written, from byte 70000 on" in run(*MIXED, "--verify", expect=1).stderr
        flip(run.folder / name, 70_000)
    run(*MIXED, "--verify")


# ---- all three ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "size", "names"),
    [
        (FILL, 12 * MIB, 4),
        (("stream-fill", "--size", "7M", "--until-full"), 7 * MIB, 1),  # at least one file
        (SWEEP, 1280 * KIB, 2),
        (MIXED, 11 * MIB, 11),
    ],
)
def test_check_says_what_will_be_made_and_makes_nothing(run, arguments, size, names):
    done = run(*arguments, "--check")
    assert json.loads(done.stdout) == {"bytes": size, "names": names}
    assert list(run.folder.iterdir()) == []


def test_direct_io_writes_and_reads_the_same_content(run):
    tried = run.folder / "try"
    command = ["dd", "if=/dev/zero", f"of={tried}", "bs=4096", "count=1", "oflag=direct"]
    refused = subprocess.run(command, capture_output=True).returncode
    tried.unlink(missing_ok=True)
    if refused:
        pytest.skip("no direct I/O here")
    run(*FILL, "--buffer", "512K", "--direct")
    run(*FILL, "--verify")
    run(*SWEEP, "-I")
    run(*SWEEP, "--verify")
    run(*MIXED, "--direct")
    run(*MIXED, "--verify")


def test_a_folder_that_is_not_there(run):
    for arguments in (FILL, SWEEP, MIXED):
        assert "cannot enter nowhere" in run(*arguments, "-d", "nowhere", expect=1).stderr
