"""Workloads: names with modifiers, what is refused before a trial starts, and every file of them in the exact lab."""

import os
import re
import subprocess
from pathlib import Path

import helpers
import pytest
from helpers import CATALOG, catalog_with, changed, quarter, rendered
from reprofs.errors import UserError
from reprofs.plan.cell import Trial
from reprofs.plan.workload import Workload, resolve
from reprofs.trial.run import run_trial

# Those of the device itself need no file system: tests/test_disks.py. What loses a server is in tests/test_outages.py.
NAMES = [
    name
    for name in CATALOG.paths(Workload)
    if not CATALOG.get(Workload, name).raw
    and not any(phase.outage for phase in CATALOG.get(Workload, name).phases)
    and name != "hand-over"  # of processors and not of files; tests/test_several_cores.py
]


def cell(workload: str, filesystem: str = "", scale: str = "smoke", stack: str = "single") -> Trial:
    """A trial, on disks that can lose their power if it cuts it, or show what a cut may leave."""
    phases = CATALOG.get(Workload, workload).phases if workload in NAMES else []
    cuts, visits = any(phase.crash for phase in phases), any(phase.on_crash_disk for phase in phases)
    filesystem = filesystem or ("btrfs" if workload in ("scrub", "snapshots") else "ext4")  # which has neither
    profile = "crash" if visits else "hdd-7200" if cuts else "ssd"
    return helpers.cell(filesystem, workload=workload, scale=scale, profile=profile, stack=stack)


@pytest.mark.parametrize("name", NAMES)
def test_every_file_makes_a_job_at_every_scale(name):
    for scale in ("smoke", "laptop", "paper"):
        job = rendered(cell(name, scale=scale)).text()
        assert "{" not in job.replace("{client}", "").replace("{print", ""), f"{scale}: a placeholder is left"
        assert len(job.encode()) < 200 * 1024, scale


def test_modifiers():
    plain = resolve("metadata", CATALOG)
    assert (plain.clients, plain.runs, plain.fill) == (1, 1, 0)
    many = resolve("metadata+clients30+fill50", CATALOG)
    assert (many.clients, many.runs, many.fill) == (30, 1, 50)
    assert many.title == plain.title + " (30 clients, file system filled to 50 % and churned)"
    assert resolve("git-annex+aged4", CATALOG).runs == 4
    old = resolve("metadata+pulls1000", CATALOG)
    assert old.pulls == 1000 and old.title.endswith("(after 1,000 pulls)")
    used = resolve("metadata+agrawal80+device512", CATALOG)
    assert (used.fill, used.ages.name) == (80, "agrawal")
    assert used.title.endswith("(device of 512 MiB, file system aged by profile agrawal and filled to 80 %)")
    own = resolve("git-annex-small@200+aged2+nosync", CATALOG)
    assert (own.runs, own.environment["LD_PRELOAD"], own.labs) == (2, "/run/nosync.so", ["exact", "vm"])
    assert resolve("compressible@50", CATALOG).title == "Content that compresses (50 %)"
    plain = resolve("git-annex-small", CATALOG)
    assert "LD_PRELOAD" not in plain.environment and plain.labs is None
    sized = resolve("rsync-into@5000", CATALOG).scales.smoke
    assert (sized.files, sized.directories) == (5000, 500)
    assert resolve("rsync-into", CATALOG).scales.smoke.files == 500, "the file itself is unchanged"
    assert resolve("rsync-into@x3", CATALOG).scales.smoke.files == 1500


def test_one_directory_stays_one():
    """However many files there are: a workload on one directory asks how it grows with its names."""
    catalog = catalog_with(
        "metadata", lambda data: data["scales"]["smoke"].update(files=3000, directories=1, fan_out=1)
    )
    for size, files in (("@x4", 12_000), ("@9000", 9_000), ("@x1", 3_000)):
        sized = resolve(f"metadata{size}", catalog).scales
        assert (sized.smoke.files, sized.smoke.directories) == (files, 1)
        assert sized.laptop.directories == round(1200 * sized.laptop.files / 20_000)  # many grow as they did
    (tree,) = (line for line in rendered(cell("metadata@x4"), catalog).text().splitlines() if line.startswith("tree"))
    assert "files=12000" in tree and "directories=1\t" in tree


def stubs(folder: Path, **scripts: str) -> dict[str, str]:
    """An environment in which programs are scripts of that name in `folder`."""
    folder.mkdir()
    for name, script in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}


@pytest.mark.parametrize("files", [2, 7, 20, 21])
def test_a_repository_has_as_many_files_as_it_says(files, tmp_path):
    """Whether or not they divide evenly among its folders: what each phase did is counted as so many items."""
    workload = resolve(f"git-annex@{files}", CATALOG)
    create = next(phase.run for phase in workload.phases if phase.name == "create")
    words = workload.words(create, "smoke", 1, "here")
    (tmp_path / "work").mkdir()
    subprocess.run(words, cwd=tmp_path / "work", env=stubs(tmp_path / "bin", git=":"), check=True, timeout=60)
    made = [path for path in (tmp_path / "work/test1").rglob("*") if path.is_file()]
    assert len(made) == files and len({path.read_text() for path in made}) == files
    assert len({path.parent for path in made}) == 2  # the folders of the scale


def test_the_end_of_a_deleted_snapshot_is_looked_for_every_5_ms(tmp_path):
    """btrfs subvolume sync sleeps a second between its looks."""
    workload = resolve("snapshots", CATALOG)
    words = workload.words(workload.phases[-1].run, "smoke", 1, "here")
    log = tmp_path / "log"
    log.touch()
    (tmp_path / "snapshot").touch()
    # Looks: an error, twice a subvolume that is still there, then none.
    btrfs = f"""echo "$*" >> {log}
        case "$*" in *list*) ;; *) exit 0;; esac
        case $(grep -c list {log}) in 1) exit 1;; [23]) echo ID 256 gen 7 top level 0 path DELETED;; esac"""
    own = stubs(tmp_path / "bin", btrfs=btrfs, stat=f"echo {tmp_path}", sleep=f'echo "sleep $*" >> {log}')
    subprocess.run(words, env=own, check=True, timeout=60)
    said = log.read_text().splitlines()
    assert said[0] == f"-q subvolume delete -c {tmp_path}/snapshot"
    assert said[1:] == [f"subvolume list -d {tmp_path}", "sleep 0.005"] * 3 + [f"subvolume list -d {tmp_path}"]


def test_a_mount_and_a_check_begin_unmounted_and_with_cold_caches():
    """The key upkeep: the file system's own commands are what is timed, and it is mounted again afterwards."""
    steps = rendered(cell("mount-and-check", "xfs")).text().splitlines()
    kinds = [line.split("\t")[0] if "stage=" not in line else line.split("stage=")[1].split("\t")[0] for line in steps]
    at = {
        name: next(k for k, line in enumerate(steps) if f"phase\tname={name}\t" in line) for name in ("mount", "check")
    }
    for place in at.values():
        assert kinds[place - 3 : place] == ["unmount", "drop", "rest"]
    assert "\targ=mount\targ=-t\targ=xfs\t" in steps[at["mount"]] and "\tcwd=/\t" in steps[at["mount"]]
    assert kinds[at["mount"] + 1] == "mounted", "the phase has mounted it"
    assert steps[at["check"]].endswith("\targ=xfs_repair\targ=-n\targ=/dev/nullb0")
    assert "sync=" not in steps[at["check"]] and "space=" not in steps[at["check"]], "nothing is mounted there"
    assert kinds[at["check"] + 1 : at["check"] + 3] == ["mount", "mounted"]
    array = rendered(cell("scrub", "ext4", stack="md-raid1")).text()
    assert "/md/sync_action" in next(line for line in array.splitlines() if "name=scrub" in line), "of the array"


def test_no_phase_is_measured_in_steps_of_its_own_waiting():
    """What a phase times does not end at the next look of a wait that is longer than 5 ms."""
    for name in CATALOG.paths(Workload):
        for phase in CATALOG.get(Workload, name).phases:
            told = phase.run or ""
            assert "subvolume sync" not in told, name
            assert all(float(seconds) <= 0.005 for seconds in re.findall(r"\bsleep (\S+?);?(?: |$)", told)), name


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("metadata+clients0", "+clients must be from 1 to 256, not 0"),
        ("metadata+clients257", "+clients must be from 1 to 256, not 257"),
        ("metadata+client3", "+client is unknown or repeated; known modifiers: clients, aged, fill"),
        ("metadata+clients2+clients3", "repeated"),
        ("metadata+clients", "+clients needs a number from 1 to 256, like +clients1"),
        (
            "git-annex-small+nosync+nosync",
            "unknown or repeated; known modifiers: clients, aged, fill, pulls, device, agrawal, nosync",
        ),
        ("git-annex-small+nosync2", "+nosync takes no number: leave 2 out"),
        ("metadata+nosync", "+nosync is unknown or repeated"),
        ("metadata+fill95", "+fill must be from 1 to 90"),
        ("metadata+agrawal95", "+agrawal must be from 1 to 90"),
        ("metadata+agrawal80+fill80", "+fill is unknown or repeated"),
        ("metadata+aged3", "workload metadata cannot be repeated in one file system"),
        ("read-while-write+clients2", "workload read-while-write is made for a single writer"),
        ("mdtest@12", "workload mdtest has a fixed size"),
        ("server-lost@x4", "workload server-lost has a fixed size"),  # its seconds end it, not its files
        ("rsync-into@0", "the number after @ must be from 1 to"),
        ("metadata+", "is not a name with modifiers"),
        ("metadate", "did you mean metadata?"),
    ],
)
def test_bad_modifiers(spec, sentence):
    with pytest.raises(UserError, match=sentence.replace("+", r"\+").replace("?", r"\?")):
        resolve(spec, CATALOG)


def test_a_modifier_is_refused_where_it_does_not_exist():
    with pytest.raises(UserError, match=r"git-annex-small\+nosync runs in exact and vm only, not in lab host"):
        rendered(changed(cell("git-annex-small+nosync"), lab="host"))


def test_tree_larger_than_the_file_system_is_refused():
    with pytest.raises(UserError, match=r"content is about .* MiB, but the file system has 1,024 MiB"):
        rendered(cell("rsync-into@200000+device1024"))
    with pytest.raises(UserError, match="file system has 1,024 MiB"):
        rendered(cell("metadata+clients150+device1024"))
    with pytest.raises(UserError, match="file system has 102 MiB"):
        rendered(cell("metadata+clients15+fill90+device1024"))


def test_missing_parameters_are_named():
    catalog = catalog_with("metadata", lambda data: data["scales"]["smoke"].pop("fan_out"))
    with pytest.raises(UserError, match="workload metadata, scale smoke: the parameter fan_out is missing"):
        rendered(cell("metadata"), catalog)
    catalog = catalog_with("git-annex", lambda data: data["scales"]["smoke"].pop("folders"))
    with pytest.raises(UserError, match=r"git-annex.*has an unknown placeholder"):
        rendered(cell("git-annex"), catalog)
    catalog = catalog_with("git-annex", lambda data: data["phases"][0].update(items="folds"))
    with pytest.raises(UserError, match="phase create: items is folds: name a whole-number parameter of the scale"):
        rendered(cell("git-annex"), catalog)


def test_items_may_be_a_product():
    """What several workers do is counted for all of them."""
    lines = rendered(cell("cores@3")).text().splitlines()
    (create,) = [line for line in lines if "\tname=create-own\t" in line]
    assert "\titems=12288\t" in create and "--tasks\targ=3" in create
    titles = [resolve(f"cores@{workers}", CATALOG).title for workers in (1, 2)]
    assert titles == ["Several workers at once (1 worker)", "Several workers at once (2 workers)"]
    catalog = catalog_with("cores", lambda data: data["phases"][1].update(items="files*folds"))
    with pytest.raises(UserError, match=r"items is files\*folds: name a whole-number parameter"):
        rendered(cell("cores@3"), catalog)


def test_every_client_has_a_folder_and_a_seed(monkeypatch):
    job = rendered(cell("git-annex+clients2")).text()
    lines = job.splitlines()
    assert [line for line in lines if line.startswith("mkdir") and "/trial/c" in line] == [
        "mkdir\tpath=/run/reprofs/mnt/trial/c0",
        "mkdir\tpath=/run/reprofs/mnt/trial/c1",
    ]
    checks = [line for line in lines if "stage=check untar" in line]
    assert [("/trial/c0\t" in line, "/trial/c1\t" in line) for line in checks] == [(True, False), (False, True)]
    assert all("clients=2" in line for line in lines if line.startswith("phase"))


def test_aged_repeats_the_phases_in_one_file_system():
    job = rendered(cell("git-annex+aged3")).text()
    creates = [line for line in job.splitlines() if line.startswith("phase\tname=create")]
    assert [f"run={n}" in line and f"mkdir test{n};" in line for n, line in enumerate(creates, 1)] == [True] * 3
    assert job.count("stage=make\t") == 1


def came_back(record: dict) -> None:
    """What was written came back: by the engine's verification or by the workload's own checks."""
    assert (record["status"], record["reason"]) == ("ok", "")
    measured = record["measurement"]
    checks = [c for c in measured["commands"] if c["stage"].startswith("check ")]
    visits = any(phase.visits for phase in CATALOG.get(Workload, record["trial"]["workload"].partition("@")[0]).phases)
    assert measured["verification"] or checks or visits, "nothing was verified"
    phases = [phase for phase in measured["phases"] if not phase["name"].endswith(": recovery")]
    name = record["trial"]["workload"].partition("@")[0]
    for phase, declared in zip(phases, CATALOG.get(Workload, name).phases, strict=True):
        assert phase["name"] == declared.name
        if declared.samples and not declared.parse:
            assert {sample["name"] for sample in phase["samples"]} >= set(declared.samples)


# One of each kind of program: the engine's own operations, its programs, tar and find, git, several processes at once.
# What fio and a busy machine do is in tests/test_disks.py and tests/test_trial.py.
TWICE = ["metadata", "mdtest", "fsync-each", "many-inodes", "parallel-walk", "repository", "stream-fill"]
RECORDED = [name for name in NAMES if name.startswith("recorded-") and name != "recorded-git"]  # of one program
LONG = [
    "crash-published",
    "crash-states",
    "crash-states-two",
    "full-disk",
    "no-inodes",
    "faults",
    "rot",
]  # thousands of states; test_crash_states.py, test_faults.py, test_rot.py run some
OWN_GUEST = [name for name in NAMES if CATALOG.get(Workload, name).guest != "base"]  # whose guest takes long to build


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.soak if name in (*RECORDED, *OWN_GUEST, *LONG) else ()) for name in NAMES],
)
def test_every_file_in_the_exact_lab(recorded, name):
    """A quarter as large, which is enough to see that what was written comes back."""
    came_back(recorded(changed(cell(name), workload=quarter(name))))


@pytest.mark.wide
@pytest.mark.parametrize(
    "name", [name if name in TWICE else pytest.param(name, marks=pytest.mark.soak) for name in NAMES]
)
def test_every_program_twice_in_the_exact_lab(recorded, tmp_path, name):
    """The same to the byte."""
    first = recorded(changed(cell(name), workload=quarter(name)))
    second = run_trial(helpers.cell(**first["trial"]), CATALOG, tmp_path / "2.json", 900)
    assert first["digests"]["measurement"] == second["digests"]["measurement"]


@pytest.mark.parametrize(
    "name", [name if name == "populated" else pytest.param(name, marks=pytest.mark.soak) for name in NAMES]
)
def test_every_file_on_a_file_system_that_copies_on_write(recorded, name):
    came_back(recorded(cell(name, "btrfs")))


def test_many_clients_in_the_exact_lab(recorded):
    record = recorded(cell("metadata@50+clients30"))
    assert (record["status"], record["reason"]) == ("ok", "")
    for phase in record["measurement"]["phases"]:
        assert max(client["start_ns"] for client in phase["clients"]) < 1_000_000, "the barrier opens within 1 ms"


@pytest.mark.wide
def test_filled_and_churned_first(recorded):
    record = recorded(cell("metadata@50+fill10"))
    assert (record["status"], record["reason"]) == ("ok", "")
    (age,) = [phase for phase in record["measurement"]["preparation"] if phase["name"] == "age"]
    assert {sample["name"] for sample in age["samples"]} == {"fill", "layout-before", "churn", "layout-after"}
    (fill,) = [sample for sample in age["samples"] if sample["name"] == "fill"]
    total = record["measurement"]["mounted"]["total_bytes"]
    assert 0.05 * total < fill["bytes"] < 0.12 * total
    assert all(s["contiguous"] <= s["blocks"] for s in age["samples"] if s["name"].startswith("layout-"))


def test_aged_by_pulls_first(recorded):
    """The tree of +pulls is beside the workload's own, and younger than what fills the file system."""
    record = recorded(cell("metadata@50+pulls3"))
    assert (record["status"], record["reason"]) == ("ok", "")
    (before,) = record["measurement"]["preparation"]
    assert before["name"] == "pulls" and "--pulls 3 --seed 1 pulled" in " ".join(before["argv"])
    job = rendered(cell("metadata@50+pulls3+fill10")).text()
    assert job.index("arg=age") < job.index("arg=pulls") < job.index("pause") < job.index("operation=make-tree")


def test_trials_of_a_round_have_one_aged_file_system():
    first = changed(cell("metadata@50+agrawal20+pulls3"), round=2)
    other = changed(first, workload="metadata@60+agrawal20+pulls3", seed=12)
    setups = [rendered(changed(one, round=number)).setup() for one in (first, other) for number in (1, 2)]
    assert setups[0] == setups[2] != setups[1] == setups[3]


@pytest.mark.wide
def test_an_aged_file_system_is_saved(guest, tmp_path, monkeypatch):
    """Trials of other workloads and seeds go on from it, with the numbers that they have without it."""
    first = changed(cell("metadata@50+pulls3"), round=2)
    other = changed(first, workload="metadata@60+pulls3", seed=12)
    made = []
    for number, (trial, start) in enumerate(((first, "auto"), (other, "auto"), (first, "cold boot"))):
        monkeypatch.setenv("REPROFS_START", start)
        made.append(run_trial(trial, CATALOG, tmp_path / f"{number}.json"))
    assert [record["status"] for record in made] == ["ok"] * 3
    ways = [record["environment"]["lab"]["start"] for record in made]
    assert ways == ["snapshot of what was set up"] * 2 + ["cold boot"]
    aged = [record["measurement"]["preparation"][0] for record in made]
    assert aged[0] == aged[1] == aged[2]
    assert made[0]["digests"]["measurement"] == made[2]["digests"]["measurement"]
    assert made[0]["digests"]["measurement"] != made[1]["digests"]["measurement"]


@pytest.mark.parametrize("lab", ["host", "mount"])
def test_programs_and_samples_in_the_other_labs(lab, tmp_path, monkeypatch):
    if lab == "host" and os.geteuid() != 0:
        pytest.skip("the host lab needs root")
    monkeypatch.setenv("REPROFS_SETTLE", "0")
    place = {"lab": lab, "filesystem": "ext4" if lab == "host" else "here", "profile": "ram", "variant": "default"}
    record = run_trial(changed(cell("mdtest"), **place), CATALOG, tmp_path / "r.json", 300)
    assert (record["status"], record["reason"]) == ("ok", "")
    phase = record["measurement"]["phases"][0]
    assert "SUMMARY" in phase["output"] and {sample.get("iteration") for sample in phase["samples"]} == {None, 0, 1, 2}


def test_a_file_system_gets_4_gib_at_every_scale():
    """Where it has less Btrfs waits for room: creating 1,000 files took 203 ms with 1 GiB, and 92 ms with 4."""
    for name in CATALOG.paths(Workload):
        workload = CATALOG.get(Workload, name)
        small = [scale for scale, values in workload.scales if values.device_mib < 4096]
        timed = any(phase.timed for phase in workload.phases)
        assert not small or workload.fills() or not timed, name


def test_two_phases_with_one_title_are_refused():
    """Tables know an operation by its title."""

    def one_title(data):
        data["phases"][1]["title"] = data["phases"][0]["title"]

    with pytest.raises(UserError, match=r"has the phases \S+ and \S+ with one title"):
        catalog_with("crash-states", one_title).get(Workload, "crash-states")


def test_a_small_device_is_asked_for_by_name():
    assert {values.device_mib for _, values in resolve("metadata@50+device1536", CATALOG).scales} == {1536}
    assert "device of 1,536 MiB" in resolve("metadata+device1536", CATALOG).title
    with pytest.raises(UserError, match=r"\+device must be from 320 to"):
        resolve("metadata+device100", CATALOG)
    with pytest.raises(
        UserError, match=r"device_mib below 4096, where Btrfs waits for room \(laptop 2048\): leave it out"
    ):
        catalog_with("metadata", lambda data: data["scales"]["laptop"].update(device_mib=2048)).get(
            Workload, "metadata"
        )
