"""Power cuts: what engine promise says, a job with a cut, what is refused, and trials that lose their power."""

import json
import os
import subprocess
import time
from pathlib import Path

import helpers
import pytest
from helpers import CATALOG, events, rendered
from reprofs.errors import UserError
from reprofs.guest.steps import job_line
from reprofs.plan.catalog import Catalog
from reprofs.plan.cell import Trial
from reprofs.plan.filesystem import Filesystem
from reprofs.plan.stack import Layer
from reprofs.records.raw import measurement
from reprofs.trial.run import run_trial

KIB = 1 << 10

# ---- engine promise -------------------------------------------------------------------------------------------------

WRITE = ("--files", 20, "--bytes", "70K", "--seed", 5)


@pytest.fixture
def promise(engine, tmp_path):
    """Runs `engine promise ARGUMENTS LOG FOLDER`; returns the finished process, with its samples."""

    def start(*arguments, expect=0, cut_ns=None) -> subprocess.CompletedProcess:
        samples = tmp_path / "samples"
        samples.unlink(missing_ok=True)
        more = {} if cut_ns is None else {"REPROFS_CUT_NS": str(cut_ns)}
        done = subprocess.run(
            [engine, "promise", *map(str, arguments), start.log, start.folder],
            env={**os.environ, "REPROFS_SAMPLES": str(samples), **more},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == expect, done.stdout + done.stderr
        assert len(done.stderr.splitlines()) == (1 if expect else 0), done.stderr
        done.samples = [json.loads(line) for line in samples.read_text().splitlines()] if samples.exists() else []
        return done

    start.log, start.folder = tmp_path / "log", tmp_path / "files"
    return start


def counts(done: subprocess.CompletedProcess) -> dict:
    return {key: value for key, value in json.loads(done.stdout).items() if value}


def test_promises_are_logged_and_kept(promise):
    done = promise(*WRITE)
    assert promise.log.read_text().split() == [str(i) for i in range(20)]
    assert [(s["name"], s["iteration"], s["bytes"]) for s in done.samples] == [
        ("promise", i, 70 * KIB) for i in range(20)
    ]
    assert counts(promise(*WRITE, "--verify")) == {"written": 20, "promised": 20, "kept": 20}


def test_a_client_goes_on_after_errors_and_says_which_it_saw(promise):
    promise.folder.mkdir()
    for i in (3, 7):  # names that are taken already: these two files cannot be made
        (promise.folder / f"promise-{i:08}").touch()
    done = promise(*WRITE, "--seconds", 60)
    said = json.loads(done.stdout)
    assert (said["promised"], said["failed"], said["errors"]) == (18, 2, {"File exists": 2})
    assert promise.log.read_text().split() == [str(i) for i in range(20) if i not in (3, 7)]
    assert said["gap_ns"] >= said["longest_ns"] > 0
    assert counts(promise(*WRITE, "--verify")) == {"written": 18, "promised": 18, "kept": 18, "extra": 2}
    (promise.folder / "promise-00000004").unlink()
    assert promise(*WRITE, "--verify", expect=1).stderr.endswith("the first: promise-00000004 is missing\n")


def test_a_client_ends_after_its_seconds(promise):
    said = json.loads(promise("--files", 1000, "--bytes", "4K", "--pause-ms", 200, "--seconds", 1).stdout)
    assert 0 < said["promised"] <= 6


def test_every_broken_promise_is_found(promise):
    promise(*WRITE)
    files = sorted(promise.folder.iterdir())
    files[2].unlink()
    os.truncate(files[3], 69 * KIB)
    files[4].write_bytes(b"")
    files[5].write_bytes(files[6].read_bytes())
    with files[7].open("ab") as longer:
        longer.write(b"x")
    files[8].write_bytes(bytes(70 * KIB))  # its size is right, its blocks were never written
    (promise.folder / "stranger").touch()
    done = promise(*WRITE, "--verify", expect=1)
    broken = {"broken": 6, "missing": 1, "short": 2, "wrong": 3}
    assert counts(done) == {"written": 20, "promised": 20, "kept": 14, "extra": 1, **broken}
    assert done.stderr == "engine: promise: 6 of 20 promises are broken, the first: promise-00000002 is missing\n"
    del broken["broken"]  # counted, not judged
    assert counts(promise(*WRITE, "--verify", "--count")) == {"written": 20, "kept": 14, "extra": 1, **broken}


def test_a_folder_that_is_gone_breaks_all_promises(promise):
    promise(*WRITE)
    promise.folder.rename(promise.folder.with_name("elsewhere"))
    assert counts(promise(*WRITE, "--verify", expect=1)) == {"written": 20, "promised": 20, "broken": 20, "missing": 20}


def test_content_of_another_seed_is_wrong(promise):
    promise(*WRITE)
    assert counts(promise(*WRITE[:-1], 6, "--verify", expect=1))["wrong"] == 20


def test_what_is_flushed_after_the_cut_is_no_promise(promise):
    promise(*WRITE, cut_ns=1)
    assert promise.log.read_text() == ""
    assert counts(promise(*WRITE, "--verify")) == {"extra": 1}  # it was being written
    promise.folder.rename(promise.folder.with_name("elsewhere"))
    done = promise(*WRITE, "--pause-ms", 200, cut_ns=time.monotonic_ns() + 1_500_000_000)
    promised = promise.log.read_text().split()
    assert 1 <= len(promised) <= 8 and len(done.samples) == len(promised)
    assert counts(promise(*WRITE, "--verify"))["kept"] == len(promised)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--files", "3"], "--files and --bytes, of one file, must be given and above zero"),
        (["--files", "3", "--bytes", "0"], "--files and --bytes, of one file, must be given and above zero"),
        (["--files", "9000000000000000000", "--bytes", "2"], "--files times --bytes is too large"),
        (["--files", "3", "--bytes", "2", "--count"], "--count goes with --verify"),
        (["--files", "3", "--bytes", "2", "--pause-ms", "86400001"], "--pause-ms is at most a day"),
        (["--files", "3", "--bytes", "2", "--sink"], "unknown option --sink; known are --files, "),
        (["--files", "three", "--bytes", "2"], "--files needs a number such as 512, 4K or 16M, not 'three'"),
    ],
)
def test_wrong_arguments(promise, arguments, sentence):
    assert sentence in promise(*arguments, expect=2).stderr


def test_log_and_folder_must_be_given(engine):
    for arguments, missing in (([], "log"), (["--files", "3"], "log"), (["log", "--verify"], "folder")):
        done = subprocess.run([engine, "promise", *arguments], capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (2, "")
        told = f"the {missing} is missing; usage: promise [options] log folder"
        assert done.stderr == f"engine: promise: {told}\n"


# ---- the engine's steps, on files that stand for the devices' -------------------------------------------------------


@pytest.fixture
def supplies(tmp_path) -> list[Path]:
    """Two devices' files in sysfs."""
    found = []
    for number in range(2):
        folder = tmp_path / f"disk{number}"
        folder.mkdir()
        (folder / "account").write_text(f"7 8 9 {4096 * (number + 1)}\n")
        (folder / "supply").touch()
        found.append(folder / "supply")
    return found


def steps(engine, tmp_path, *lines) -> list[dict]:
    (tmp_path / "job").write_text("\n".join(lines) + "\n")
    done = subprocess.run([engine, "run", tmp_path / "job"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return events(done.stdout)


def phase(supplies, *pairs, command=("true",)) -> str:
    common = [("name", "x"), ("cache", "warm"), ("sync", "/nowhere"), *(("power", path) for path in supplies)]
    return job_line("phase", *common, ("operation", "exec"), ("items", 1), *pairs, *(("arg", w) for w in command))


def test_cut_at_the_end_takes_the_place_of_the_sync(engine, tmp_path, supplies):
    found = steps(engine, tmp_path, phase(supplies))  # a sync would fail: there is nothing to sync
    assert [e["event"] for e in found] == ["phase", "end"]
    assert found[0]["crash"] == {"cut_ns": found[0]["wall_ns"]} and found[0]["sync_ns"] == found[0]["settle_ns"] == 0
    assert [path.read_text() for path in supplies] == ["cut", "cut"]


def test_cut_in_the_middle_ends_the_time_of_the_phase(engine, tmp_path, supplies):
    command = ("sh", "-c", 'sleep 0.5; echo "$REPROFS_CUT_NS"')
    before = time.monotonic_ns()
    (found, _) = steps(engine, tmp_path, phase(supplies, ("cut_ms", 50), command=command))
    assert 0 < found["crash"]["cut_ns"] <= 50_000_000
    assert found["wall_ns"] == found["crash"]["cut_ns"]
    assert before + 50_000_000 < int(found["output"]) < time.monotonic_ns() - 100_000_000
    ahead = [int(path.read_text().removeprefix("cut ")) for path in supplies]
    assert 50_000_000 >= ahead[0] > ahead[1] > 0, "the later one is told, the less is left"


def test_a_phase_that_ends_before_its_cut_is_cut_at_its_end(engine, tmp_path, supplies):
    (found, _) = steps(engine, tmp_path, phase(supplies, ("cut_ms", 60_000)))
    assert found["crash"]["cut_ns"] == found["wall_ns"] < 30_000_000_000
    assert [path.read_text()[:3] for path in supplies] == ["cut", "cut"]


def test_restore_sums_what_was_lost(engine, tmp_path, supplies):
    line = job_line("restore", *(("power", path) for path in supplies))
    assert steps(engine, tmp_path, line)[0] == {"event": "restored", "lost_bytes": 3 * 4096}
    assert [path.read_text() for path in supplies] == ["restore", "restore"]


def test_survivors_of_a_tree_are_counted_and_not_judged(engine, tmp_path):
    sizes = {"size_median": 4055, "size_sigma": 1.45, "size_max": 65536}
    tree = {"files": 50, "directories": 7, "fan_out": 3, **sizes}
    lines = [job_line("tree", ("root", tmp_path / "tree"), ("seed", 3), *tree.items())]
    for operation in ("make-tree", "create"):
        pairs = {"name": operation, "cache": "warm", "operation": operation, "sync": tmp_path}
        lines.append(job_line("phase", *pairs.items()))
    count = job_line("verify", ("name", "x"), ("count", 1))
    whole = {"event": "survivors", "written": 50, "kept": 50, "short": 0, "wrong": 0, "missing": 0, "extra": 0}
    assert steps(engine, tmp_path, *lines, count)[-2] == whole
    files = sorted(path for path in (tmp_path / "tree").rglob("*") if path.is_file())
    files[0].unlink()
    os.truncate(files[1], files[1].stat().st_size - 1)
    files[2].write_bytes(bytes(files[2].stat().st_size))
    (files[3].parent / "stranger").touch()
    found = {"kept": 47, "short": 1, "wrong": 1, "missing": 1, "extra": 1}
    assert steps(engine, tmp_path, lines[0], count)[0] == whole | found
    (tmp_path / "tree").rename(tmp_path / "gone")
    assert steps(engine, tmp_path, lines[0], count)[0] == whole | {"kept": 0, "missing": 50}


# ---- jobs and refusals ----------------------------------------------------------------------------------------------


def cell(filesystem: str = "ext4", **changes) -> Trial:
    return helpers.cell(filesystem, **{"profile": "hdd-7200", "workload": "power-cut", **changes})


def catalog_with(name: str, change, base: str = "power-cut") -> Catalog:
    return helpers.catalog_with(name, change, base)


def stages(job: str) -> list[str]:
    """The steps of a job in words: verb, and stage or name."""
    lines = [line.split("\t") for line in job.splitlines()]
    pairs = [(words[0], dict(word.partition("=")[::2] for word in words[1:])) for words in lines]
    return [" ".join(filter(None, [verb, p.get("stage") or p.get("name")])) for verb, p in pairs]


def test_order_of_a_cut():
    job = rendered(cell(stack="md-raid6+lvm")).text()
    found = stages(job)
    first = found.index("phase promise")
    stop = ["exec unmount", "exec stop", "exec stop", "restore"]
    back = [*["exec assemble"] * 5, "drop", "rest", "phase promise: recovery", "mounted", *["exec readback"] * 3]
    assert found[first + 1 : first + 1 + len(stop) + len(back)] == stop + back
    assert found[found.index("phase promise: recovery") :].index("verify promise: tree") > 0
    lines = job.splitlines()
    assert lines[first].count("power=/sys/block/modeldisk") == 6 and "cut_ms=2000" in lines[first]
    assert "vgchange" in lines[first + 2] and "--stop" in lines[first + 3], "the upper layer goes first"
    unflushed = lines[found.index("phase unflushed")]
    assert unflushed.count("power=") == 6 and "cut_ms" not in unflushed
    recovery = lines[found.index("phase promise: recovery")]
    assert "cache=cold" in recovery and "power=" not in recovery


def test_recovery_is_all_that_mounts_a_file_system():
    job = rendered(cell("btrfs")).text()
    (line,) = [line for line in job.splitlines() if "name=promise: recovery" in line]
    script = "btrfs device scan /dev/modeldisk0\\nmount -t btrfs -o relatime /dev/modeldisk0 /run/reprofs/mnt"
    assert line.endswith(f"arg=sh\targ=-e\targ=-c\targ={script}")
    job = rendered(cell("ext2")).text()
    (line,) = [line for line in job.splitlines() if "name=promise: recovery" in line]
    assert line.index("e2fsck -f -y /dev/modeldisk0") < line.index("mount -t ext2")


def test_a_tree_is_verified_as_long_as_nothing_was_cut_that_changed_it():
    def change(data):
        names = [("stat", 1), ("remove", 0), ("make-tree", 0), ("create", 1), ("read", 1), ("rename", 1)]
        data["phases"] = [
            {"title": name, "cache": "warm", "name": f"p{number}", "operation": name, **({"crash": {}} if cut else {})}
            for number, (name, cut) in enumerate(names)
        ]

    job = rendered(cell(workload="many"), catalog_with("many", change)).text()
    found = [line for line in job.splitlines() if line.startswith("verify")]
    told = [(line.split("\t")[1].removeprefix("name="), line.endswith("count=1")) for line in found]
    assert told == [("populate: tree", False), ("p0: tree", False), ("p3", True), ("p5", True)]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"profile": "ssd"},
            "but device model ssd has no power to cut: choose one with backing: model, such as hdd-",
        ),
        ({"lab": "vm", "profile": "ram"}, "cuts the power in phase promise: only the lab exact can do that, not vm"),
        ({"filesystem": "tmpfs"}, "but file system tmpfs has no device whose power could be cut"),
        ({"stack": "md-raid5-degraded"}, "but workflow/stacks/md-raid5-degraded.yaml has no key assemble"),
    ],
)
def test_what_cannot_lose_power_is_refused(changes, sentence):
    with pytest.raises(UserError, match=sentence):
        rendered(cell(**changes))


def test_an_unknown_key_of_a_cut_is_named():
    with pytest.raises(UserError, match=r"unknown key .after. at phases\.0\.crash: did you mean after_ms"):
        catalog_with("odd", lambda data: data["phases"][0].update(crash={"after": 5}))


@pytest.mark.parametrize("stack", CATALOG.paths(Layer))
def test_every_stack_that_can_be_taken_down_comes_back(stack):
    layer = CATALOG.get(Layer, stack)
    assert bool(layer.assemble) == bool(layer.build and not layer.fault)
    made = [device for device in layer.devices if not device.startswith("{disk")]
    assert not (layer.assemble and made) or layer.stop


# ---- trials ---------------------------------------------------------------------------------------------------------


def told(record: dict, stage: str) -> dict:
    """What engine promise --verify said."""
    (output,) = [c["output"] for c in record["measurement"]["commands"] if c["stage"] == stage]
    return json.loads(output.splitlines()[0])


# tests/test_workloads.py has ext4 on one disk, tests/test_contract.py every stack.
@pytest.mark.parametrize(
    ("filesystem", "stack"),
    [
        ("xfs", "md-raid6+lvm"),
        pytest.param("btrfs", "md-raid6+lvm", marks=pytest.mark.soak),
        pytest.param("ext4", "md-raid6+lvm", marks=pytest.mark.soak),
        pytest.param("xfs", "single", marks=pytest.mark.soak),
    ],
)
def test_no_promise_is_broken(recorded, filesystem, stack):
    record = recorded(cell(filesystem, stack=stack))
    assert (record["status"], record["reason"]) == ("ok", "")
    phases = {phase["name"]: phase for phase in record["measurement"]["phases"]}
    assert list(phases) == ["promise", "promise: recovery", "unflushed", "unflushed: recovery"]
    cut = phases["promise"]["crash"]
    assert 1_999_000_000 < cut["cut_ns"] <= 2_000_000_000 and cut["lost_bytes"] > 0
    promised = told(record, "check promise")
    assert 10 < promised["promised"] == promised["kept"] == len(phases["promise"]["samples"]) < 200
    assert phases["promise: recovery"]["cold"]["proved"]
    left = told(record, "check unflushed")
    # Wrong content is zeros: ext4 may record the size of a file before its blocks are written.
    assert left["written"] == 1000 == sum(left[key] for key in ("kept", "short", "wrong", "missing"))
    assert left["missing"] and left["written"] > left["missing"], "some had reached the media, and some had not"
    assert [v["mismatches"] for v in record["measurement"]["verification"]] == [0, 0, 0]


@pytest.mark.parametrize("filesystem", ["ext4", *(pytest.param(n, marks=pytest.mark.soak) for n in ("xfs", "btrfs"))])
def test_what_was_not_flushed_is_lost(guest, tmp_path, filesystem):
    """The lab is honest: a program that promises without fsync is found out."""

    def change(data):
        del data["phases"][1:]
        data["phases"][0]["run"] = data["phases"][0]["run"].replace(
            "promise --", "promise --no-sync --pause-ms 5 --", 1
        )

    record = run_trial(cell(filesystem, workload="liar"), catalog_with("liar", change), tmp_path / "r.json", 900)
    assert record["status"] == "failed"
    assert record["reason"].startswith("check promise: engine exited with 1: engine: promise: ")
    assert told(record, "check promise")["broken"] > 0


def on_a_disk(marked: bool) -> list[tuple[str, str]]:
    """The variants of file systems on a modelled disk, whose files say that fsync is not kept, or do not say so."""
    every = [CATALOG.get(Filesystem, name) for name in CATALOG.paths(Filesystem)]
    local = [one for one in every if one.device and not (one.hosts or one.raw or one.path or one.unavailable)]
    return [(one.name, name) for one in local for name, own in one.variants.items() if bool(own.promise) == marked]


MARKED = on_a_disk(marked=True)


def short_trial(recorded, filesystem: str, variant: str, profile: str) -> dict:
    """The record of a power cut while files are written and flushed."""
    trial = cell(filesystem, variant=variant, profile=profile, workload="short")
    return recorded(trial, catalog_with("short", lambda data: data["phases"].pop()))


@pytest.mark.wide
@pytest.mark.parametrize(
    ("filesystem", "variant", "profile", "status"),
    [
        ("ext4", "nobarrier", "raid-controller", "ok"),
        pytest.param("jfs", "default", "raid-controller", "failed", marks=pytest.mark.soak),  # no replay of its journal
        *(
            pytest.param(*pair, "hdd-7200", "failed", marks=[] if pair[0] == "ext4" else pytest.mark.soak)
            for pair in MARKED
        ),
    ],
)
def test_what_is_marked_loses_what_was_flushed(recorded, filesystem, variant, profile, status):
    """Without barriers ext4 writes and waits, but does not flush: enough for a cache with a battery, for no other."""
    record = short_trial(recorded, filesystem, variant, profile)
    assert record["status"] == status, record["reason"]
    assert bool(told(record, "check promise")["broken"]) == (status == "failed")


@pytest.mark.soak
@pytest.mark.parametrize(("filesystem", "variant"), on_a_disk(marked=False))
def test_what_is_not_marked_keeps_what_was_flushed(recorded, filesystem, variant):
    """One cut of each; ZFS with sync=disabled, above, shows that the cut comes early enough for it."""
    record = short_trial(recorded, filesystem, variant, "hdd-7200")
    assert (record["status"], record["reason"]) == ("ok", "")
    found = told(record, "check promise")
    assert found["promised"] == found["kept"] > 5


@pytest.mark.parametrize("change", [{"promise": "none"}, {"why": "of nothing"}, {"promise": "some", "why": "x"}])
def test_who_does_not_keep_a_promise_says_why(change):
    data = CATALOG.get(Filesystem, "ext4").as_json()
    data["variants"]["default"] |= change
    with pytest.raises(UserError, match="promise"):
        Catalog().add(Filesystem, "own", data)


@pytest.mark.parametrize("operation", ["create", "remove"])
def test_cut_in_an_operation_of_the_engine(recorded, operation):
    """Also of several clients: the tree is what is left of it, and the file system is sound."""

    def change(data):
        names = ["make-tree", "create", "remove"][: 2 if operation == "create" else 3]
        data["phases"] = [{"name": name, "operation": name, "title": name} for name in names]
        data["phases"][-1]["crash"] = {"after_ms": 20} if operation == "create" else {}

    catalog = catalog_with("metadata", change, "metadata")
    record = recorded(cell(workload="metadata+clients3"), catalog)
    assert (record["status"], record["reason"]) == ("ok", "")
    *_, cut, recovery = record["measurement"]["phases"]
    assert (cut["name"], recovery["name"]) == (operation, f"{operation}: recovery")
    assert cut["wall_ns"] == cut["crash"]["cut_ns"] and (cut["wall_ns"] <= 20_000_000 or operation == "remove")
    left = cut["crash"]["survivors"]
    assert left["written"] == 3000 == left["kept"] + left["short"] + left["wrong"] + left["missing"]
    assert left["missing" if operation == "create" else "kept"] > 1000, "nobody has synced it"


# ---- record -----------------------------------------------------------------------------------------


def test_a_cut_knows_what_was_lost_and_left():
    common = {"event": "phase", "cache": "warm", "operation": "create", "bytes": 0, "device": None}
    found = [
        {**common, "name": "create", "crash": {"cut_ns": 5}},
        {"event": "restored", "lost_bytes": 4096},
        {**common, "name": "create: recovery"},
        {"event": "survivors", "written": 3, "kept": 1},
    ]
    phases = measurement(found, [], "instructions")["phases"]
    assert phases[0]["crash"] == {"cut_ns": 5, "lost_bytes": 4096, "survivors": {"written": 3, "kept": 1}}
    assert "crash" not in phases[1]
