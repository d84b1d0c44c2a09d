"""Workloads: names with modifiers, what is refused before a trial starts, and every file of them in the exact lab."""

import os

import helpers
import pytest
from helpers import CATALOG, catalog_with, quarter, rendered
from reprofs.errors import UserError
from reprofs.plan import workloads
from reprofs.trial.run import run_trial

# Those of the device itself need no file system: tests/test_disks.py. What loses a server is in tests/test_outages.py.
NAMES = [
    name
    for name in CATALOG.paths("workload")
    if not CATALOG.get("workload", name)["raw"]
    and not any("outage" in phase for phase in CATALOG.get("workload", name)["phases"])
]


def cell(workload: str, filesystem: str = "", scale: str = "smoke") -> dict:
    """A trial, on disks that can lose their power if it cuts it."""
    cuts = workload in NAMES and any("crash" in phase for phase in CATALOG.get("workload", workload)["phases"])
    filesystem = filesystem or ("btrfs" if workload == "snapshots" else "ext4")  # which has none
    return helpers.cell(filesystem, workload=workload, scale=scale, profile="hdd-7200" if cuts else "ssd")


@pytest.mark.parametrize("scale", ["smoke", "laptop", "paper"])
@pytest.mark.parametrize("name", NAMES)
def test_every_file_makes_a_job(name, scale):
    job = rendered(cell(name, scale=scale)).text()
    assert "{" not in job.replace("{client}", "").replace("{print", ""), "a placeholder is left"
    assert len(job.encode()) < 200 * 1024
    assert "differs" in CATALOG.get("workload", name) or name in ("metadata", "populated", "repository")


def test_modifiers():
    plain = workloads.resolve("metadata", CATALOG)
    assert (plain.clients, plain.runs, plain.fill) == (1, 1, 0)
    many = workloads.resolve("metadata+clients30+fill50", CATALOG)
    assert (many.clients, many.runs, many.fill) == (30, 1, 50)
    assert many.title == plain.title + " (30 clients, file system filled to 50 % and churned)"
    assert workloads.resolve("git-annex+aged4", CATALOG).runs == 4
    own = workloads.resolve("git-annex-small@200+aged2+nosync", CATALOG)
    assert (own.runs, own.environment["LD_PRELOAD"], own.labs) == (2, "/run/nosync.so", ["exact", "vm"])
    plain = workloads.resolve("git-annex-small", CATALOG)
    assert "LD_PRELOAD" not in plain.environment and plain.labs is None
    sized = workloads.resolve("rsync-into@5000", CATALOG).scales.smoke
    assert (sized.files, sized.directories) == (5000, 500)
    assert workloads.resolve("rsync-into", CATALOG).scales.smoke.files == 500, "the file itself is unchanged"
    assert workloads.resolve("rsync-into@x3", CATALOG).scales.smoke.files == 1500


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("metadata+clients0", "+clients must be from 1 to 256, not 0"),
        ("metadata+clients257", "+clients must be from 1 to 256, not 257"),
        ("metadata+client3", "+client is unknown or given twice; known modifiers: clients, aged, fill"),
        ("metadata+clients2+clients3", "given twice"),
        ("metadata+clients", "+clients needs a number from 1 to 256, like +clients1"),
        ("git-annex-small+nosync+nosync", "given twice; known modifiers: clients, aged, fill, nosync"),
        ("git-annex-small+nosync2", "+nosync takes no number: leave 2 out"),
        ("metadata+nosync", "+nosync is unknown or given twice"),
        ("metadata+fill95", "+fill must be from 1 to 90"),
        ("metadata+aged3", "workload metadata cannot be repeated in one file system"),
        ("read-while-write+clients2", "workload read-while-write is made for a single writer"),
        ("mdtest@12", "workload mdtest has no key size"),
        ("rsync-into@0", "the number after @ must be 1 or more"),
        ("metadata+", "is not a name with modifiers"),
        ("metadate", "did you mean metadata?"),
    ],
)
def test_bad_modifiers(spec, sentence):
    with pytest.raises(UserError, match=sentence.replace("+", r"\+").replace("?", r"\?")):
        workloads.resolve(spec, CATALOG)


def test_a_modifier_is_refused_where_it_does_not_exist():
    with pytest.raises(UserError, match=r"git-annex-small\+nosync runs in exact and vm only, not in lab host"):
        rendered({**cell("git-annex-small+nosync"), "lab": "host"})


def test_tree_larger_than_the_file_system_is_refused():
    with pytest.raises(UserError, match=r"content is about .* MiB, more than the 1,024 MiB which"):
        rendered(cell("rsync-into@200000"))
    with pytest.raises(UserError, match="more than the 1,024 MiB"):
        rendered(cell("metadata+clients150"))
    with pytest.raises(UserError, match="more than the 102 MiB"):
        rendered(cell("metadata+clients15+fill90"))


def test_missing_parameters_are_named():
    catalog = catalog_with("metadata", lambda data: data["scales"]["smoke"].pop("fan_out"))
    with pytest.raises(UserError, match="workload metadata, scale smoke: the parameter fan_out is missing"):
        rendered(cell("metadata"), catalog)
    catalog = catalog_with("git-annex", lambda data: data["scales"]["smoke"].pop("folders"))
    with pytest.raises(UserError, match=r"git-annex.*has an unknown placeholder"):
        rendered(cell("git-annex"), catalog)
    catalog = catalog_with("git-annex", lambda data: data["phases"][0].update(items="folds"))
    with pytest.raises(
        UserError, match="phase create: items is folds, which is not a whole-number parameter of the scale"
    ):
        rendered(cell("git-annex"), catalog)


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
    assert measured["verification"] or checks, "nothing was verified"
    phases = [phase for phase in measured["phases"] if not phase["name"].endswith(": recovery")]
    name = record["trial"]["workload"].partition("@")[0]
    for phase, declared in zip(phases, CATALOG.get("workload", name)["phases"], strict=True):
        assert phase["name"] == declared["name"]
        if "samples" in declared and "parse" not in declared:
            assert {sample["name"] for sample in phase["samples"]} >= set(declared["samples"])


# Of programs that another file has twice, and what takes long; fio runs twice on a modelled disk (tests/test_disks.py).
ONCE = ["compile-makej", "compile-round2", "git-annex", "git-annex-small", "random-access"]
ONCE += ["git-annex-test", "look-alike-annex", "look-alike-mail", "look-alike-photos", "look-alike-scratch"]
SMALL = ("git-annex-small", "git-annex-test")


@pytest.mark.parametrize(
    # Of git-annex-small, nearly all commands are in git-annex, too; git-annex-test takes long.
    "name",
    [pytest.param(name, marks=pytest.mark.soak if name in SMALL else ()) for name in NAMES],
)
def test_every_file_in_the_exact_lab(recorded, name):
    """A quarter as large, which is enough to see that what was written comes back."""
    came_back(recorded({**cell(name), "workload": quarter(name)}))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.soak) if name in ONCE else name for name in NAMES]
)
def test_every_program_twice_in_the_exact_lab(recorded, tmp_path, name):
    """The same to the byte."""
    first = recorded({**cell(name), "workload": quarter(name)})
    second = run_trial(first["trial"], CATALOG, tmp_path / "2.json", 900)
    assert first["digests"]["measurement"] == second["digests"]["measurement"]


@pytest.mark.parametrize(
    "name", [name if name == "populated" else pytest.param(name, marks=pytest.mark.soak) for name in NAMES]
)
def test_every_file_on_a_file_system_that_copies_on_write(guest, tmp_path, name):
    came_back(run_trial(cell(name, "btrfs"), CATALOG, tmp_path / "r.json", 900))


def test_many_clients_in_the_exact_lab(guest, tmp_path):
    record = run_trial(cell("metadata@50+clients30"), CATALOG, tmp_path / "r.json", 900)
    assert (record["status"], record["reason"]) == ("ok", "")
    for phase in record["measurement"]["phases"]:
        assert max(client["start_ns"] for client in phase["clients"]) < 1_000_000, "the barrier opens within 1 ms"


def test_filled_and_churned_first(guest, tmp_path):
    record = run_trial(cell("metadata@50+fill10"), CATALOG, tmp_path / "r.json", 900)
    assert (record["status"], record["reason"]) == ("ok", "")
    (age,) = [phase for phase in record["measurement"]["preparation"] if phase["name"] == "age"]
    assert {sample["name"] for sample in age["samples"]} == {"fill", "layout-before", "churn", "layout-after"}
    (fill,) = [sample for sample in age["samples"] if sample["name"] == "fill"]
    total = record["measurement"]["mounted"]["total_bytes"]
    assert 0.05 * total < fill["bytes"] < 0.12 * total
    assert all(s["contiguous"] <= s["blocks"] for s in age["samples"] if s["name"].startswith("layout-"))


@pytest.mark.parametrize("lab", ["host", "mount"])
def test_programs_and_samples_in_the_other_labs(lab, tmp_path, monkeypatch):
    if lab == "host" and os.geteuid() != 0:
        pytest.skip("the host lab needs root")
    monkeypatch.setenv("REPROFS_SETTLE", "0")
    place = {"lab": lab, "filesystem": "ext4" if lab == "host" else "here", "profile": "ram", "variant": "default"}
    record = run_trial({**cell("mdtest"), **place}, CATALOG, tmp_path / "r.json", 300)
    assert (record["status"], record["reason"]) == ("ok", "")
    phase = record["measurement"]["phases"][0]
    assert "SUMMARY" in phase["output"] and {sample.get("iteration") for sample in phase["samples"]} == {None, 0, 1, 2}
