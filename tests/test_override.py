"""Studies in another lab, on other devices or in other directories than their files say; limits on real devices."""

import os
import shlex
import subprocess
from collections import Counter

import pytest
from helpers import CATALOG, cell
from reprofs import cleanup
from reprofs.errors import UserError
from reprofs.labs import _conditions as conditions
from reprofs.labs import _guard as guard
from reprofs.labs import host
from reprofs.plan.catalog import Catalog
from reprofs.plan.filesystem import Filesystem
from reprofs.plan.override import Override, override, place_name
from reprofs.plan.study import Study
from reprofs.trial import commands, timeout
from reprofs.trial.job import render
from reprofs.trial.planning import check_machine, make_plan, on_one_system
from reprofs.trial.resolve import resolve
from reprofs.trial.run import run_trial

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def test_two_directories_take_the_place_of_file_systems(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    change = override("mount", where=f"{one},{two}")
    plan = make_plan("quick", Catalog(), change)
    assert {trial.lab for trial in plan.trials} == {"mount"} and len(plan.trials) == 2 * plan.study.rounds
    assert {trial.filesystem for trial in plan.trials} == {place_name(str(one)), place_name(str(two))}
    assert plan.study.name == change.named("quick") != "quick"
    assert plan.study.override.as_json() == {
        "text": f"LAB=mount WHERE={one},{two}",
        "own": {
            "labs": ["exact"],
            "profiles": ["ssd"],
            "stacks": ["single"],
            "filesystems": sorted(CATALOG.get(Study, "quick").filesystems),
        },
        "left_out": [],
    }
    assert make_plan("quick", CATALOG).study.override is None


def test_cells_that_a_study_has_for_the_lab_are_run_as_they_are():
    trials = make_plan("known-causes", Catalog(), override("exact")).trials
    assert {trial.lab for trial in trials} == {"exact"} and {trial.round for trial in trials} == {*range(1, 7)}
    assert {trial.round for trial in make_plan("known-causes", Catalog(), override("host")).trials} == {*range(1, 13)}


def test_clients_run_on_other_machines(tmp_path):
    change = override("mount", where=str(tmp_path), clients="node1,me@node2")
    plan = make_plan("quick", Catalog(), change)
    assert plan.study.name == f"quick+mount+{place_name(str(tmp_path))}+on-node1-me-node2"
    assert plan.study.override.text == f"LAB=mount WHERE={tmp_path} CLIENTS=node1,me@node2"
    (place,) = plan.filesystems.values()
    assert place.clients.hosts == ["node1", "me@node2"]


def test_names_of_overridden_studies_are_their_own():
    places = ["/mnt/a-b", "/mnt/a/b", "/mnt/A/b", "/mnt/a_b", "/", "/root", "/" + "x" * 80, "/" + "x" * 81]
    names = [place_name(path) for path in places]
    assert len(set(names)) == len(places) and place_name("/mnt/a/b") == "mnt-a-b"
    changes = [Override(), Override("host"), Override("host", "ram"), Override(profile="ram")]
    changes += [Override("mount", where=(path,)) for path in places]
    changes += [Override("mount", where=tuple(places)), Override("mount", where=tuple(places[::-1]))]
    named = [change.named("quick") for change in changes]
    assert len(set(named)) == len(named) and named[:2] == ["quick", "quick+host"] and max(map(len, named)) <= 100


def test_cells_that_the_other_lab_cannot_have_are_left_out():
    plan = make_plan("datalad-2015", Catalog(), Override("host", "file"))
    assert {(trial.lab, trial.profile) for trial in plan.trials} == {("host", "file")}
    plan = make_plan("small-files", Catalog(), Override("host", "file"))
    lost = " ".join(plan.study.override.left_out)
    assert "nfs+v4.2-async on single, file, compile-round1;" in lost
    assert "left out: file system nfs runs in exact and vm only, not in the lab host" in lost
    left = {trial.filesystem for trial in plan.trials}
    assert left and "nfs" not in left


def test_refusals(tmp_path):
    def said(name="quick", **what) -> str:
        with pytest.raises(UserError) as error:
            make_plan(name, Catalog(), override(**what))
        return str(error.value)

    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path)
    assert "LAB=mount needs the directories to compare: add WHERE=" in said(lab="mount")
    assert "works only with LAB=mount: add it" in said(lab="host", where=str(tmp_path))
    assert "is not a directory" in said(lab="mount", where=str(tmp_path / "file"))
    assert "does not exist" in said(lab="mount", where=str(tmp_path / "nosuch"))
    assert "is not an absolute path" in said(lab="mount", where="here")
    assert "needs shared directories: add LAB=mount and WHERE=" in said(lab="host", clients="a")
    wrong = said(lab="mount", where=str(tmp_path), clients="a,,b")
    assert "clients.hosts.1" in wrong and "a name that ssh knows: host or user@host" in wrong
    assert "are the same directory" in said(lab="mount", where=f"{tmp_path},{tmp_path / 'link'}")
    assert "unknown lab 'nosuch'" in said(lab="nosuch")
    assert "device profile 'nosuch' does not exist" in said(lab="host", profile="nosuch")
    assert "leave PROFILE='ram' out" in said(lab="mount", profile="ram", where=str(tmp_path))
    nothing = said(lab="host")
    assert "no configuration is possible with LAB=host: The host lab uses devices as they are" in nothing
    assert "choose one with PROFILE=" in nothing


def test_directories_on_one_file_system_are_named(tmp_path, reprofs):
    """Those of WHERE, and those that files name."""
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()

    def said(*where, study="quick", catalog=None) -> str:
        catalog = catalog or Catalog()
        change = override("mount", where=",".join(map(str, where))) if where else None
        return on_one_system(make_plan(study, catalog, change).trials, catalog)

    assert said(one, two) == (
        f"{one}, {two} are on the same file system: how their times differ says nothing about file systems."
    )
    assert said(one) == said() == ""
    catalog = Catalog()
    for name, path in (("here", one), ("there", two), ("nowhere", tmp_path / "none")):
        variants = {"default": {"title": "as it is"}}
        place = {"title": name, "home": "https://a.org", "role": "contender", "path": str(path), "variants": variants}
        catalog.add(Filesystem, name, place)
    own = {"labs": ["mount"], "filesystems": ["here", "there", "nowhere"], "profiles": ["as-found"]}
    catalog.add(Study, "own", catalog.get(Study, "quick").as_json() | own)
    assert said(study="own", catalog=catalog) == said(one, two)
    done = reprofs("plan", "quick", "--lab", "mount", "--where", f"{one},{two}")
    assert done.returncode == 0 and done.stderr == f"reprofs: {said(one, two)}\n"


@needs_root
def test_bind_mounts_of_one_file_system_are_named(tmp_path):
    own, a, b, other, inner = places = [tmp_path / name for name in ("own", "a", "b", "other", "other/in")]
    mounts = [["-t", "tmpfs", "none", other], ["--bind", own, a], ["--bind", tmp_path, b]]
    try:
        for place in places[:4]:
            place.mkdir()
        for words in mounts:
            if subprocess.run(["mount", *words]).returncode:
                pytest.skip("nothing can be mounted here")
        inner.mkdir()
        told = {}
        for where in ((a, other), (a, b), (b, other, a, inner)):
            catalog, change = Catalog(), override("mount", where=",".join(map(str, where)))
            told[where] = on_one_system(make_plan("quick", catalog, change).trials, catalog)
    finally:
        for words in mounts:
            subprocess.run(["umount", "--quiet", words[-1]])
    first, second, third = told.values()
    assert first == "" and second.startswith(f"{a}, {b} are on the same file system: ")
    assert "are on the same file system, and so are " in third and all(str(place) in third for place in (a, b, inner))


def test_directory_that_cannot_be_written(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(UserError, match="is not writable: get write permission"):
        override("mount", where=str(tmp_path))


def test_machine_is_checked_before_the_first_trial(monkeypatch):
    catalog = Catalog()
    plan = make_plan("storage", catalog, Override("host", "disk"))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(UserError, match=r"LAB=host PROFILE=disk: .* run as root"):
        check_machine(plan, catalog)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(guard, "allowed", lambda: [])
    with pytest.raises(UserError, match="lists no real disk"):
        check_machine(plan, catalog)
    asked = []

    def refuse(path, entries):
        asked.append(path)
        if len(asked) == 6:
            raise UserError(f"{path} is in use: it is mounted.")

    monkeypatch.setattr(guard, "allowed", lambda: [{"path": f"/dev/none{i}"} for i in range(8)])
    monkeypatch.setattr(guard, "check", refuse)
    with pytest.raises(UserError, match="/dev/none5 is in use"):
        check_machine(plan, catalog)
    check_machine(make_plan("quick", catalog), catalog)  # without an override trials say themselves what is missing


def on(lab: str, **changes):
    return resolve(cell(lab=lab, **{"profile": "disk", "scale": "paper", **changes}), CATALOG)


def test_limits_follow_from_the_work():
    fill = on("host", workload="stream-fill")
    tib20 = 20 << 40
    assert timeout.time_limit_s(fill, 7200) >= 2 * tib20 / timeout.SLOWEST_BYTES > 5.4 * 3600
    assert timeout.time_limit_s(fill, 7200, 10**9) == 7200
    assert timeout.time_limit_s(on("host", workload="metadata", scale="smoke"), 1800) == 1800
    check = next(line for line in render(fill).text().splitlines() if "stage=check fill" in line)
    assert f"limit_s={-(-tib20 // timeout.SLOWEST_BYTES)}" in check
    modelled = resolve(cell(workload="stream-fill", scale="paper"), CATALOG)
    assert "stage=check fill\tlimit_s=600\t" in render(modelled).text()  # jobs of guests are as before


@pytest.mark.parametrize(
    ("workload", "scale", "profile", "mib"),
    [
        ("stream-one-zeros", "paper", "ssd", 20100),
        ("stream-one-zeros", "paper", "hdd-7200", 0),
        ("stream-fill-zeros", "laptop", "ssd", 16384),
        ("stream-fill-zeros", "laptop", "hdd-7200", 16),  # what is there before
        ("stream-fill", "laptop", "hdd-7200", 1280),
        ("stream-one-zeros+fill50", "smoke", "hdd-7200", 2048),
    ],
)
def test_zeros_take_no_memory_where_disks_are_modelled(workload, scale, profile, mib):
    assert resolve(cell(workload=workload, scale=scale, profile=profile), CATALOG).stored == mib << 20


def test_what_does_not_fit_into_memory_is_skipped(guest, tmp_path):
    record = run_trial(cell(workload="stream-fill-zeros", scale="laptop"), CATALOG, tmp_path / "r.json")
    assert record["status"] == "skipped" and "content is about 16,384 MiB" in record["reason"]


@pytest.mark.parametrize(
    ("workload", "scale", "stack", "mib"),
    [
        ("refill", "laptop", "single", 1280),
        ("stream-fill-zeros", "laptop", "md-raid5-chunk256@12", 1490),  # 16 GiB on eleven
        ("stream-one-zeros+fill50", "smoke", "single", 4096),
        ("stream-fill-zeros", "paper", "single", 32768),  # all that the profile has
        ("stream-one-zeros", "laptop", "single", 32768),
    ],
)
def test_a_modelled_disk_that_is_filled_is_as_large_as_the_scale_says(workload, scale, stack, mib):
    """Else it holds more than the lab's memory does, and more than the report says."""
    parts = resolve(cell(workload=workload, scale=scale, stack=stack, profile="hdd-hds723020"), CATALOG)
    assert parts.disk_mib == mib


def test_disks_are_checked_against_the_cell(monkeypatch):
    entries = [{"path": f"/dev/none{i}", "size_bytes": 2 * 10**12} for i in range(12)]
    monkeypatch.setattr(guard, "allowed", lambda: entries)
    monkeypatch.setattr(guard, "check", lambda path, entries: next(e for e in entries if e["path"] == path))
    for stack in ("single", "md-raid5@3", "md-raid5", "md-raid5@12"):  # each fills what it has
        parts = on("host", workload="stream-fill", stack=stack)
        disks = parts.disks
        assert len(host._real_disks(disks)) == parts.stack.disks
    too_large = on("host", workload="stream-fill", stack="single", profile="file")
    assert too_large.disk_mib == 20 << 20  # files are made, so they are as large as the scale says


@needs_root
def test_what_is_printed_is_what_a_host_trial_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(conditions, "SETTLE_LIMIT_S", 1)
    trial = cell(lab="host", profile="ram", workload="list-recursive@40")
    printed = commands.trial_lines(trial, CATALOG)
    record = run_trial(trial, CATALOG, tmp_path / "r.json")
    assert record["status"] == "ok", record["reason"]
    told = [line.rpartition("  # ") for line in printed]
    phases = [(line, what) for line, _, what in told if what.startswith("phase ")]
    ran = [(shlex.join(entry["argv"]), entry["stage"]) for entry in record["measurement"]["commands"]]
    stages = {stage for _, stage in ran}
    assert {"make", "mount", "unmount", "inspect", "check"} <= stages
    assert [(line, stage) for line, _, stage in told if stage in stages - {"module"}] == [
        (line, stage) for line, stage in ran if stage != "module"
    ]
    assert {line for line, stage in ran if stage == "module"} <= {line for line, _, _ in told}
    measured = record["measurement"]["preparation"] + record["measurement"]["phases"]
    assert [what.split(",")[0] for _, what in phases] == [f"phase {phase['name']}" for phase in measured]
    # The engine got these words: a list for each phase that runs a program.
    job = [line.split("\t") for line in record["environment"]["job"].splitlines()]
    given = [[word[4:] for word in line if word.startswith("arg=")] for line in job if line[0] == "phase"]
    programs = [shlex.join(words) for words in given if words]
    environment = [" ".join(w[4:] for w in line if w.startswith("env=")) for line in job if "operation=exec" in line]
    expected = [f"{before} {words}".lstrip() for before, words in zip(environment, programs, strict=True)]
    assert programs and [line.split(" && ", 1)[1] for line, _ in phases if " && " in line] == expected
    kinds = Counter(line[0] for line in job)
    assert printed.count("sync; echo 3 > /proc/sys/vm/drop_caches") == kinds["drop"] > 0
    assert "mount -t tmpfs -o mode=755 reprofs /run/reprofs || exit 1" in printed
    assert f"truncate --size={resolve(trial, CATALOG).disk_mib}M $PLACE/disk0" in printed


def test_printed_commands_name_real_disks_and_directories(tmp_path, monkeypatch):
    monkeypatch.setattr(guard, "allowed", lambda: [{"path": "/dev/sdx"}, {"path": "/dev/sdy"}])
    lines = commands.trial_lines(cell(lab="host", profile="disk", stack="md-raid0@3"), CATALOG)
    wiped = [f"wipefs --all --quiet {path}  # after the trial" for path in ("/dev/sdx", "/dev/sdy")]
    assert lines[-3:] == [*wiped, f": zeros are written to {cleanup.LOOKED_AT}, of each"]
    assert "ln -s /dev/sdx /run/reprofs/disk0" in lines and "ln -s /dev/sdy /run/reprofs/disk1" in lines
    assert any("1 more real disks are needed than config/devices.yaml lists" in line for line in lines)
    change = override("mount", where=str(tmp_path))
    catalog = Catalog()
    text = commands.text(make_plan("quick", catalog, change), catalog)
    assert text.count("# r1-mount-") == 1 and f"mkdir {tmp_path}/reprofs-work-..." in text
    assert "mkfs" not in text and "drop_caches" not in text
