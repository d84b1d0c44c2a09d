"""The load engine on this host: what it does, counts and says when something fails; also under sanitizers."""

import json
import math
import os
import statistics
import subprocess
import zlib
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from helpers import events, flip
from reprofs.data.latency import bucket_bounds
from reprofs.guest import engine as builder
from reprofs.guest.steps import job_line

pytestmark = pytest.mark.xdist_group("engine")  # one worker: each sanitizer is compiled once
TREE = {"files": 300, "directories": 30, "fan_out": 4, "size_median": 4055, "size_sigma": 1.45, "size_max": 1048576}


def run(engine, lines, tmp_path) -> list[dict]:
    (tmp_path / "job").write_text("\n".join(lines) + "\n")
    done = subprocess.run([engine, "run", tmp_path / "job"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return events(done.stdout)


def tree(folder, seed=7, **changes):
    return job_line("tree", ("root", folder / "tree"), ("seed", seed), *{**TREE, **changes}.items())


def phase(folder, operation, order="tree"):
    pairs = {"name": operation, "cache": "warm", "operation": operation, "order": order, "sync": folder}
    return job_line("phase", *pairs.items())


def execute(folder, *argv, **pairs):
    first = {"name": "x", "cache": "warm", "operation": "exec", "items": 1, "sync": folder, **pairs}
    return job_line("phase", *first.items(), *(("arg", word) for word in argv))


def names(folder: Path) -> list[tuple[str, bytes | None]]:
    top = folder / "tree"
    return sorted((str(p.relative_to(top)), p.read_bytes() if p.is_file() else None) for p in top.rglob("*"))


# zig compiles the run-time library of the search for races first, which takes a minute.
@pytest.fixture(scope="module", params=["plain", "undefined", pytest.param("thread", marks=pytest.mark.soak)])
def any_engine(request, engine, tmp_path_factory) -> Iterator[Path]:
    """The runner as shipped, and built with each sanitizer that the compiler offers, with the program that jobs run."""
    if request.param == "plain":
        yield engine
        return
    folder = tmp_path_factory.mktemp("engine")
    flags = ["-std=gnu11", "-O1", "-g", f"-fsanitize={request.param}", "-fno-sanitize-recover=all"]
    for name, file in {"": "engine", "compile-tree": "compile-tree"}.items():
        builder.compile_c(builder.sources(name), folder / file, flags)
    with mock.patch.dict(os.environ, REPROFS_PROGRAMS=str(folder)):
        yield folder / "engine"


def test_life_cycle_of_a_tree(any_engine, tmp_path):
    lines = ["clock", tree(tmp_path), phase(tmp_path, "make-tree"), phase(tmp_path, "create"), "verify\tname=content"]
    lines += [phase(tmp_path, "stat", "random"), phase(tmp_path, "read", "random"), phase(tmp_path, "rename")]
    lines += ["verify\tname=renamed", phase(tmp_path, "remove"), phase(tmp_path, "remove-tree"), "teardown"]
    found = run(any_engine, lines, tmp_path)
    assert found[-1] == {"event": "end"}
    assert not [e for e in found if e["event"] == "failed"]
    by_name = {e["name"]: e for e in found if e["event"] == "phase"}
    for name, p in by_name.items():
        assert p["items"] == (TREE["directories"] if name in ("make-tree", "remove-tree") else TREE["files"])
        assert p["wall_ns"] >= p["sync_ns"] + p["driver_ns"]
        h = p["latency"]
        assert sum(count for _, count in h["buckets"]) == h["count"]
        assert h["min_ns"] <= h["sum_ns"] / h["count"] <= h["max_ns"]
        # Operations, the driver's share and the sync make up the phase.
        assert h["sum_ns"] + p["driver_ns"] + p["sync_ns"] == p["wall_ns"]
        bounds = [bucket_bounds(index) for index, _ in h["buckets"]]
        assert all(high - low <= max(1, 0.016 * low) for low, high in bounds)
        middle = sum(count * sum(bucket_bounds(index)) / 2 for index, count in h["buckets"])
        assert middle == pytest.approx(h["sum_ns"], rel=0.01)
    assert by_name["read"]["bytes"] == by_name["create"]["bytes"] > 0
    content, renamed = (e for e in found if e["event"] == "verification")
    assert content["files"] == renamed["files"] == TREE["files"]
    assert content["mismatches"] == renamed["mismatches"] == 0
    assert content["digest"] != renamed["digest"]  # other names
    assert not (tmp_path / "tree").exists()


def test_tree_follows_from_the_seed(engine, tmp_path):
    made = []
    for folder, seed in (("a", 7), ("b", 7), ("c", 8)):
        (tmp_path / folder).mkdir()
        where = tmp_path / folder
        run(engine, [tree(where, seed), phase(where, "make-tree"), phase(where, "create")], tmp_path)
        made.append(names(where))
    assert made[0] == made[1]
    assert made[0] != made[2]
    contents = [data for _, data in made[0] if data is not None]
    assert len(contents) == TREE["files"]
    assert len(made[0]) == TREE["files"] + TREE["directories"] - 1
    assert len({data for data in contents if len(data) >= 16}) == len([d for d in contents if len(d) >= 16])
    # Another seed deals the same sizes to other files: the middles of 300 equally likely parts of the lognormal.
    sizes, others = ([len(data) for _, data in tree if data is not None] for tree in (made[0], made[2]))
    assert sizes != others and sorted(sizes) == sorted(others)
    normal = statistics.NormalDist()
    expected = [4055 * math.exp(1.45 * normal.inv_cdf((i + 0.5) / 300)) for i in range(300)]
    assert sorted(sizes) == pytest.approx([min(size, 1 << 20) for size in expected], rel=1e-6, abs=1)
    assert sorted(sizes)[270] == pytest.approx(26_112, rel=0.02)  # p90 of the Linux 2.6.20 tree


def test_content_shrinks_like_source_code(engine, tmp_path):
    """The tree is a preparation here, which is no phase."""
    one = tree(tmp_path, files=1, directories=1, size_median=1 << 20, size_sigma=0)
    made = run(engine, [one, phase(tmp_path, "make-tree") + "\tunmeasured=1", phase(tmp_path, "create")], tmp_path)
    assert [(e["event"], e.get("name")) for e in made[:2]] == [("preparation", "make-tree"), ("phase", "create")]
    ((_, data),) = names(tmp_path)
    assert len(data) == 1 << 20
    assert 0.15 < len(zlib.compress(data)) / len(data) < 0.45


def test_large_files_are_verified_to_the_last_byte(engine, tmp_path):
    big = tree(tmp_path, files=3, directories=1, size_median=3_000_001, size_sigma=0, size_max=1 << 30)
    lines = [big, phase(tmp_path, "make-tree"), phase(tmp_path, "create"), "verify\tname=content"]
    assert run(engine, lines, tmp_path)[-2]["mismatches"] == 0


DAMAGE = {
    "byte": lambda victim: flip(victim, -1),
    "short": lambda victim: os.truncate(victim, victim.stat().st_size - 1),
    "long": lambda victim: victim.write_bytes(victim.read_bytes() + b"x"),
    "gone": lambda victim: victim.unlink(),
    "extra": lambda victim: (victim.parent / "stranger").touch(),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_found(engine, tmp_path, damage):
    small = tree(tmp_path, files=30, directories=5)
    run(engine, [small, phase(tmp_path, "make-tree"), phase(tmp_path, "create")], tmp_path)
    DAMAGE[damage](max((p for p in (tmp_path / "tree").rglob("*") if p.is_file()), key=lambda p: p.stat().st_size))
    found = run(engine, [small, "verify\tname=content", "teardown"], tmp_path)
    assert found[0]["mismatches"] == 1
    assert "1 of 30 files are not what was written" in found[1]["reason"]


def test_a_check_leaves_the_times_of_last_access_to_the_first_read_that_is_measured(engine, tmp_path):
    run(engine, [tree(tmp_path), phase(tmp_path, "make-tree"), phase(tmp_path, "create")], tmp_path)
    there = [tmp_path / "tree", *(tmp_path / "tree").rglob("*")]
    for path in there:
        os.utime(path, (1, path.stat().st_mtime))  # older than the last change: relatime writes it at the next read
    found = run(engine, [tree(tmp_path), "verify\tname=content"], tmp_path)
    assert found[0]["mismatches"] == 0
    assert {path.stat().st_atime for path in there} == {1}


@pytest.mark.parametrize("files", [1, 2, 3, 255, 256, 257])
def test_random_order_is_a_permutation(engine, tmp_path, files):
    """remove in random order leaves nothing: every file was visited exactly once."""
    lines = [tree(tmp_path, files=files, size_max=1), phase(tmp_path, "make-tree"), phase(tmp_path, "create")]
    found = run(engine, [*lines, phase(tmp_path, "remove", "random"), phase(tmp_path, "remove-tree")], tmp_path)
    assert [e["items"] for e in found if e["event"] == "phase" and e["name"] == "remove"] == [files]
    assert not [e for e in found if e["event"] == "failed"]


def test_commands(any_engine, tmp_path):
    script = 'echo "$GREETING"; pwd; printf %s \'a"b\\c\' >&2'
    lines = [
        execute(tmp_path, "sh", "-c", script, env="GREETING=hello", cwd=tmp_path),
        job_line("exec", ("stage", "make"), ("arg", "printf"), ("arg", "two\nlines\tand tab\n")),
        job_line("exec", ("stage", "skipped"), ("if_mounted", tmp_path), ("arg", "false")),
        execute(tmp_path, "sh", "-c", "i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done"),
    ]
    first, second, third, end = run(any_engine, lines, tmp_path)
    assert first["output"] == f'hello\n{tmp_path}\na"b\\c'
    assert first["argv"][0] == "sh"
    assert first["user_ns"] + first["system_ns"] > 0
    assert (second["event"], second["output"]) == ("command", "two\nlines\tand tab")
    assert third["output"].endswith("line 1999")
    assert len(third["output"]) <= 4096
    assert end == {"event": "end"}


FAILURES = {
    "exit": (["sh", "-c", "echo so sorry; exit 3"], {}, "x: sh exited with 3: so sorry"),
    "signal": (["sh", "-c", "kill -SEGV $$"], {}, "x: sh was ended by signal 11"),
    "absent": (["no-tool"], {}, "x: no-tool exited with 127: cannot run no-tool: No such file or directory"),
    "late": (["sleep", "60"], {"limit_s": 1}, "x: sleep was stopped at its time limit of 1 s"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_failing_command(any_engine, tmp_path, name):
    argv, pairs, reason = FAILURES[name]
    after = job_line("write", ("path", tmp_path / "cleaned"), ("text", "yes"))
    (tmp_path / "cleaned").touch()
    lines = [execute(tmp_path, *argv, **pairs), execute(tmp_path, "touch", tmp_path / "not-reached"), "teardown", after]
    found = run(any_engine, lines, tmp_path)
    assert [e["event"] for e in found] == ["phase", "failed", "end"]
    assert found[1] == {"event": "failed", "timeout": name == "late", "reason": reason}
    assert not (tmp_path / "not-reached").exists()
    assert (tmp_path / "cleaned").read_text() == "yes"  # teardown ran all the same


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount the small file system")
def test_full_device(engine, tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1M", "tmpfs", small], check=True)
    try:
        found = run(engine, [tree(small), phase(small, "make-tree"), phase(small, "create"), "teardown"], tmp_path)
    finally:
        subprocess.run(["umount", small], check=True)
    failed = next(e for e in found if e["event"] == "failed")
    assert failed["reason"].startswith("create: no space left on the device after ")
    created = next(e for e in found if e.get("name") == "create")
    assert created["items"] == created["latency"]["count"] < TREE["files"]


TREE_LINE = "tree\troot=/x\tseed=1\tdirectories=1\tfan_out=1\tsize_max=1\tsize_median=1\tsize_sigma=1"
BAD_JOBS = {
    "dance\tstep=1": "the engine has no step dance",
    "phase\tname=x\tcache=warm\toperation=dance\tsync=/": "phase x: the engine has no operation dance",
    "phase\tname=x\tcache=warm\toperation=exec\targ=true\titems=1\tsync=/nowhere": "cannot sync /nowhere",
    "mkdir\tpath": "step mkdir: 'path' is not key=value",
    "write\ttext=1": "step write has no path",
    "mounted\tpath=/proc\ttype=ext4": "/proc is a proc file system, not ext4",
    "mounted\tpath=/proc\ttype=proc\texpect=compress=zstd:3": "does not report the mount option compress=zstd:3",
    "mounted\tpath=/nowhere\ttype=ext4": "nothing is mounted on /nowhere",
    f"{TREE_LINE}\tfiles=0": "above zero",
    f"{TREE_LINE}\tfiles=1\tclients=0": "but from 1 to 256 are possible",
    f"{TREE_LINE}\tfiles=1\tclients=257": "but from 1 to 256 are possible",
    "devices\tpath=/nowhere/disk0": "there is no device /nowhere/disk0: No such file or directory",
    "evict\troot=/nowhere": "cannot walk",
    "await\tpath=/nowhere\tlimit_s=1": "cannot read",
    "exec\tstage=x\targ=true\tmatch=(": "job: '(' is not a regular expression",
}


def test_bad_jobs(any_engine, tmp_path):
    for line, reason in BAD_JOBS.items():
        (failed,) = [e["reason"] for e in run(any_engine, [line], tmp_path) if e["event"] == "failed"]
        assert reason in failed


def test_padding_ends_the_job(engine, tmp_path):
    (tmp_path / "job").write_bytes(b"clock\n" + bytes(1000))
    done = subprocess.run([engine, "run", tmp_path / "job"], capture_output=True, text=True, timeout=60)
    assert [e["event"] for e in events(done.stdout)] == ["clock", "end"]


def test_output_must_match_every_expression(engine, tmp_path):
    def read(*expressions):
        matches = [("match", expression) for expression in expressions]
        words = [("stage", "readback"), *matches, ("arg", "printf"), ("arg", "one\ntwo 2\n")]
        return run(engine, [job_line("exec", *words)], tmp_path)

    assert [e["event"] for e in read("^one$", "^two [0-9]+$")] == ["command", "end"]
    command, failed, _ = read("^one$", "^three$")
    assert command["exit"] == 0 and command["output"] == "one\ntwo 2"  # what was there is in the record
    assert failed["reason"] == "readback: the output of printf does not match '^three$'"


def test_how_busy_the_processors_are_in_a_phase(engine, tmp_path):
    """Of those that the engine may use, here one; a phase in ticks of 10 ms, as without root, must be long enough."""
    loop = "i=0; while [ $i -lt 600000 ]; do i=$((i+1)); done"
    job = tmp_path / "job"
    job.write_text("\n".join([execute(tmp_path, "sh", "-c", loop), execute(tmp_path, "true", space=tmp_path)]) + "\n")
    own = min(os.sched_getaffinity(0))
    done = subprocess.run(["taskset", "-c", f"{own}", engine, "run", job], capture_output=True, text=True, check=True)
    computes, short = (event for event in events(done.stdout) if event["event"] == "phase")
    assert computes["wall_ns"] < 500_000_000 or computes["processor_busy"] > 0.8
    assert short["processor_busy"] is None or 0 <= short["processor_busy"] <= 1
    # What is used of the file system is told of the one that the phase names.
    assert computes["used_bytes"] is None and computes["used_inodes"] is None
    disk = os.statvfs(tmp_path)
    assert short["used_bytes"] == pytest.approx((disk.f_blocks - disk.f_bfree) * disk.f_frsize, rel=0.05)


def test_waits_until_idle_and_times_the_rebuild(engine, tmp_path):
    state = tmp_path / "sync_action"
    state.write_text("recover\n")
    settle = execute(tmp_path, "sh", "-c", f"sleep 0.2; echo idle > {state}", name="work")
    rebuild = job_line("phase", name="rebuild", cache="warm", operation="rebuild", sync=tmp_path, limit_s=60)
    during = execute(tmp_path, "sleep", "0.1", name="during")
    lines = [job_line("watch", path=state), during, settle, rebuild, job_line("await", path=state, limit_s=60)]
    phases = [e for e in run(engine, lines, tmp_path) if e["event"] == "phase"]
    assert [p.get("rebuilding") for p in phases] == [True, False, None]
    assert phases[2]["wall_ns"] >= phases[0]["wall_ns"] + phases[1]["wall_ns"]  # it began before them
    state.write_text("recover\n")
    found = run(engine, [job_line("await", path=state, limit_s=0)], tmp_path)
    assert found[0]["event"] == "awaited" and found[1]["timeout"]
    assert "did not become idle within 0 s" in found[1]["reason"]


def test_finds_the_mount_that_holds_a_folder(engine, tmp_path):
    exact = run(engine, [job_line("mounted", path=tmp_path)], tmp_path)
    assert exact[0]["reason"] == f"nothing is mounted on {tmp_path}"
    (event, _) = run(engine, [job_line("mounted", path=tmp_path, within=1)], tmp_path)
    device = subprocess.run(["stat", "-f", "-c", "%b %S", tmp_path], capture_output=True, text=True, check=True).stdout
    blocks, size = map(int, device.split())
    assert event["total_bytes"] == blocks * size


def test_evicts_pages_without_root(engine, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/file").write_bytes(bytes(1 << 20))
    (tmp_path / "folder/loop").symlink_to("file")
    assert run(engine, [job_line("evict", root=tmp_path / "folder")], tmp_path) == [{"event": "end"}]


def client_lines(folder, clients, *phases):
    folders = [f"mkdir\tpath={folder}/c{i}" for i in range(clients)]
    return [tree(folder, clients=clients, files=40, directories=5), *folders, *phases]


def test_clients_have_trees_of_their_own_and_start_together(any_engine, tmp_path):
    clients = 30
    phases = [phase(tmp_path, name) + f"\tclients={clients}" for name in ("make-tree", "create", "rename", "remove")]
    lines = client_lines(tmp_path, clients, *phases[:2], "verify\tname=a", phases[2], "verify\tname=b", phases[3])
    found = run(any_engine, lines, tmp_path)
    assert not [e for e in found if e["event"] == "failed"]
    one = {e["name"]: e for e in found if e["event"] == "phase"}["create"]
    assert len(one["clients"]) == clients and min(c["start_ns"] for c in one["clients"]) == 0
    assert {c["items"] for c in one["clients"]} == {40} and one["items"] == clients * 40
    assert len({c["bytes"] for c in one["clients"]}) == 1 and one["bytes"] == clients * one["clients"][0]["bytes"]
    last = max(c["start_ns"] + c["wall_ns"] for c in one["clients"])
    assert one["wall_ns"] == last + one["sync_ns"]
    assert one["latency"]["count"] == one["items"]
    for check in (e for e in found if e["event"] == "verification"):
        assert (check["files"], check["mismatches"]) == (one["items"], 0)


def test_damage_in_one_of_many_clients_is_found(engine, tmp_path):
    phases = [phase(tmp_path, name) + "\tclients=3" for name in ("make-tree", "create")]
    script = 'echo >> "$(ls -p | grep -v / | head -n 1)"'
    words = [("arg", word) for word in ("sh", "-c", script)]
    damage = job_line("exec", ("stage", "x"), ("cwd", tmp_path / "c2/tree"), *words)
    found = run(engine, [*client_lines(tmp_path, 3, *phases), damage, "verify\tname=a"], tmp_path)
    assert found[-2]["event"] == "failed" and "1 of 120 files are not what was written" in found[-2]["reason"]


def test_commands_of_clients(any_engine, tmp_path):
    script = 'echo "$REPROFS_CLIENT" > me-{client}'
    command = execute(tmp_path, "sh", "-c", script, cwd=tmp_path, clients=3, items=5)
    found = run(any_engine, client_lines(tmp_path, 3, command), tmp_path)
    assert [(tmp_path / f"c{i}/me-{i:03}").read_text() for i in range(3)] == ["0\n", "1\n", "2\n"]
    (one,) = [e for e in found if e["event"] == "phase"]
    assert one["items"] == 15 and [c["items"] for c in one["clients"]] == [5, 5, 5]
    command = execute(tmp_path, "sh", "-c", "exit $REPROFS_CLIENT", cwd=tmp_path, clients=3)
    failed = run(any_engine, [tree(tmp_path, clients=3), command], tmp_path)[-2]
    assert failed["reason"] == "x: sh exited with 1: no output"


@pytest.mark.parametrize(
    "last",
    [
        pytest.param('sleep 0.3; test ! -e ../c0/kernel-0 && exec "$ENGINE" compile-tree -i 1 --files 20', id="late"),
        pytest.param('exec "$ENGINE" compile-tree -i 1 --files 20 --order create #', id="fewer steps"),
        pytest.param("exit #", id="none"),
    ],
)
def test_clients_of_kernel_trees_wait_for_one_another(any_engine, tmp_path, last):
    order = "--order create,read"
    own = f'exec "$ENGINE" compile-tree -i 1 --files 40 {order}'
    script = f"if test $REPROFS_CLIENT = 2; then {last} {order}\nelse {own}; fi"
    command = execute(tmp_path, "sh", "-c", script, cwd=tmp_path, clients=3)
    found = run(any_engine, client_lines(tmp_path, 3, command), tmp_path)
    assert not [e for e in found if e["event"] == "failed"]
    (one,) = [e for e in found if e["event"] == "phase"]
    assert [s["name"] for s in one["samples"] if s["client"] == 0] == ["initial-create", "read-tree"]
    for sample in one["samples"]:  # all on one clock
        sample["start_ns"] += one["clients"][sample["client"]]["start_ns"]
    reads = [s["start_ns"] for s in one["samples"] if s["name"] == "read-tree"]
    ends = [s["start_ns"] + s["wall_ns"] for s in one["samples"] if s["name"] == "initial-create"]
    assert max(ends) < min(reads)


def test_samples_of_a_command_are_in_its_phase(any_engine, tmp_path):
    sample = '{"name":"a","start_ns":1,"wall_ns":2,"items":3,"bytes":4}'
    script = f"echo '{sample}' >> $REPROFS_SAMPLES; echo '{sample}' >> $REPROFS_SAMPLES"
    found = run(any_engine, [execute(tmp_path, "sh", "-c", script), execute(tmp_path, "true")], tmp_path)
    phases = [e for e in found if e["event"] == "phase"]
    assert [p["samples"] for p in phases] == [[json.loads(sample)] * 2, []]


def test_engine_is_a_command_of_its_own_jobs(any_engine, tmp_path):
    lines = [execute(tmp_path, "engine", "nonsense"), "teardown"]
    assert "x: engine exited with 2" in run(any_engine, lines, tmp_path)[-2]["reason"]
    found = run(any_engine, [execute(tmp_path, "sh", "-c", '"$ENGINE" nonsense; test $? = 2')], tmp_path)
    assert not [e for e in found if e["event"] == "failed"]
