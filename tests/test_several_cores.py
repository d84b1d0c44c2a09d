"""Several exact processors: the lab's options, and (soak, since QEMU is compiled) that it is exact."""

import itertools
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace

import pytest
from conftest import BIN
from helpers import CATALOG, cell, job_of, outputs, rendered, shell
from reprofs import files
from reprofs.errors import UserError
from reprofs.guest import image, qemu
from reprofs.guest.lock import QEMU_OWN, read_lock
from reprofs.guest.steps import Job
from reprofs.labs import exact
from reprofs.plan import PROCESSOR
from reprofs.plan.catalog import Catalog
from reprofs.plan.cell import CELL
from reprofs.plan.filesystem import Filesystem
from reprofs.plan.processor import Processor
from reprofs.records import identity
from reprofs.report.sentences import limits
from reprofs.trial import resolve
from reprofs.trial.job import render
from reprofs.trial.planning import make_plan
from reprofs.trial.run import run_trial
from reprofs.workplace import workplace
from test_guest import busy, own_cache, work

FOUR = CATALOG.get(Processor, "v2-0.5ns-4c")
ONE = CATALOG.get(Processor, PROCESSOR)
TRIALS = 100
QEMU_KEYS = ("qemu", "qemu_sha256")
LOCAL = [name for name in CATALOG.paths(Filesystem) if CATALOG.get(Filesystem, name).guest == "base"]
LOCAL = [name for name in LOCAL if not (CATALOG.get(Filesystem, name).path or CATALOG.get(Filesystem, name).raw)]
LOCAL = [
    name for name in LOCAL if not (CATALOG.get(Filesystem, name).unavailable or CATALOG.get(Filesystem, name).hosts)
]
LINEAR = ("exfat", "fuse2fs", "udf")  # they search a directory from its start: half an hour or more in cores@4
pytestmark = pytest.mark.xdist_group("several")  # one worker: QEMU is compiled once


@pytest.fixture
def built(monkeypatch, tmp_path):
    """A lab that believes QEMU to be compiled."""
    found = {"folder": "qemu/it", "sha256": "0" * 64, "version": "1:7.2"}
    monkeypatch.setattr(qemu, "own", lambda cache, progress, lock: found)


def test_four_cores_are_options_of_qemu(guest, built):
    lab = exact.ExactLab(guest, files.cache_folder(), processor=FOUR)
    four, one = " ".join(lab._options()), " ".join(exact.ExactLab(guest, files.cache_folder())._options())
    assert "-smp 4 " in four and "-smp 1 " in one
    assert "speed=2,window=250,spin=40" in four and "speed" not in one
    assert "reprofs_divider" not in four and "reprofs_divider=8" in one
    assert "tsc_early_khz=2000000" in four and "tsc_early_khz=2000000" in one
    seen = lab.environment("snapshot")
    assert seen["cores"] == 4 and seen.items() > qemu.locked(read_lock()).items()
    seen = exact.ExactLab(guest, files.cache_folder()).environment("snapshot")
    assert seen.items() > qemu.locked(read_lock()).items() and "cores" not in seen


def test_debians_qemu_stands_in_where_the_engine_works_alone(guest, monkeypatch, tmp_path):
    """Its records are those of our own QEMU, which is not compiled, and name both; elsewhere it is another lab."""
    asked: list[bool] = []

    def own(*words):
        asked.append(True)
        return {"folder": "qemu/it", "sha256": "0" * 64, "version": "7.2"}

    monkeypatch.setattr(qemu, "own", own)
    numbers, debian = qemu.locked(read_lock()), {key: guest["qemu"][key[5:] or "version"] for key in QEMU_KEYS}
    known = {}
    for there, alone, chosen in itertools.product((True, False), (True, False), ("", "own", "debian")):
        monkeypatch.setattr(qemu, "has_own", lambda *words, there=there: there)
        monkeypatch.setenv(qemu.VARIABLE, chosen)
        lab = exact.ExactLab(guest, files.cache_folder())
        lab.load(Job([], engine_alone=alone))
        known[there, alone, chosen] = lab.environment("snapshot")
        stands_in = alone and (chosen == "debian" or not (there or chosen))
        assert lab.by_own == (not stands_in and chosen != "debian")
        expected = debian if chosen == "debian" and not alone else numbers
        assert {key: known[there, alone, chosen][key] for key in QEMU_KEYS} == expected
        assert known[there, alone, chosen].get("ran_by") == (debian if stands_in else None)
    assert not asked, "an identity needs no compiler"
    names = {key: key for key in CELL}
    of = {case: identity.of(identity.parts(names, "job", found)) for case, found in known.items()}
    assert len({of[case] for case in of if case[1] or case[2] != "debian"}) == 1 and len(set(of.values())) == 2


def test_a_changed_patch_has_no_stand_in(guest, built, monkeypatch):
    known = replace(read_lock(), built=read_lock().built | {QEMU_OWN: ("another recipe", "1" * 64)})
    monkeypatch.setattr(exact, "read_lock", lambda: known)
    lab = exact.ExactLab(guest, files.cache_folder())
    lab.load(Job([], engine_alone=True))
    assert lab.by_own and lab.environment("snapshot")["qemu_sha256"] == "0" * 64


@pytest.mark.parametrize(
    ("alone", "change"),
    [
        (True, {}),
        (True, {"filesystem": "btrfs", "variant": "none", "stack": "md-raid5@5"}),
        (True, {"workload": "populated"}),
        (False, {"workload": "mdtest"}),
        (False, {"workload": "repository"}),
        (False, {"workload": "metadata+clients2"}),
        (False, {"filesystem": "fuse2fs"}),
        (False, {"filesystem": "nfs-ext4"}),
        (False, {"filesystem": "zfs"}),
        (False, {"scale": "laptop"}),
        (False, {"lab": "exact@512mib"}),
    ],
)
def test_where_the_engine_works_alone(alone, change):
    assert (
        rendered(cell(**{"filesystem": "ext4", "scale": "smoke", "workload": "metadata", **change})).engine_alone
        == alone
    )


def test_the_first_report_compiles_nothing():
    plan = make_plan("quick", CATALOG)
    assert all(render(resolve.resolve(trial, CATALOG)).engine_alone for trial in plan.trials)


def test_profiles_are_made_by_a_qemu_that_loads_plugins(guest, built, monkeypatch):
    started = []
    monkeypatch.setattr(
        exact, "Machine", lambda program, command, place, gate, incoming: started.append((program, bool(gate)))
    )
    monkeypatch.setenv(qemu.VARIABLE, "own")
    lab = exact.ExactLab(guest, files.cache_folder())
    for lab.plugin in "", "counter.so":
        with workplace() as place:
            lab._machine(place, plugin=lab.plugin)
    assert started == [(lab.own, False), (lab.qemu, True)]
    assert lab.environment("snapshot")["ran_by"] == lab.qemu.said()


def test_what_is_told_of_several_cores():
    one, four = (exact.ExactLab.facts(processor).as_json() for processor in (ONE, FOUR))
    assert four["processor"]["cores"] == 4 and "In the exact lab with 4 cores " in four["meaning"]
    assert "cores" not in one["processor"] and "no other processors" in one["meaning"]


def test_labs_that_differ_in_their_cores_are_told_at_once():
    names = ["v2-0.5ns", "v2-0.5ns-2c", "v2-0.5ns-8c", "v2-0.5ns-4c"]
    facts = {name: exact.ExactLab.facts(CATALOG.get(Processor, name)) for name in names}
    one, several = limits.meanings(SimpleNamespace(lab=facts.get), names)
    assert one == facts["v2-0.5ns"].meaning and "In the exact lab with 2, 4 or 8 cores " in several
    assert limits.meanings(SimpleNamespace(lab=facts.get), names[3:]) == [facts["v2-0.5ns-4c"].meaning]


def test_the_threads_of_an_only_server_get_its_core():
    for lab, expected in (f"exact@{FOUR.name}", True), ("exact", False):
        lines = [step.line() for step in rendered(cell("nfs-ext4", lab=lab)).steps]
        started = [number for number, line in enumerate(lines) if "rpc.nfsd\targ=-G" in line]
        pinned = [number for number, line in enumerate(lines) if line.endswith("arg=0\targ=nfsd")]
        assert len(started) > 1 and bool(pinned) == expected
        assert not pinned or all(first < last for first, last in zip(started, pinned, strict=True))
    own = CATALOG.get(Filesystem, "nfs-ext4").as_json()
    with pytest.raises(UserError, match="must not have threads with several servers"):
        Catalog().add(Filesystem, "own", own | {"hosts": {"servers": 2, "threads": ["nfsd"]}})


def test_the_number_of_cores_is_checked_in_the_guest():
    timer, counted = exact.ExactLab.processor_steps(FOUR)
    assert (timer.divider, counted.arg, counted.match) == (exact.DIVIDERS[1], ["nproc", "--all"], ["^4$"])
    (timer,) = exact.ExactLab.processor_steps(ONE)
    assert timer.divider == exact.DIVIDERS[2]


@pytest.mark.parametrize("cores", [0, 17, "4"])
def test_wrong_numbers_of_cores_are_one_sentence(cores):
    with pytest.raises(UserError, match="cores"):
        Catalog().add(Processor, "own", {**FOUR.as_json(), "cores": cores})


def test_another_patch_is_another_qemu(monkeypatch, tmp_path):
    asked = []

    def build(root, debs, script, given, say, to):
        asked.append(given)
        root.mkdir(parents=True)
        to.mkdir(parents=True, exist_ok=True)
        (to / "qemu-system-x86_64").write_text("a program")

    def fetch(cache, lock, packages, say):
        (tmp_path / "file").write_text("a package")
        return {package.name: tmp_path / "file" for package in packages}

    monkeypatch.setattr(qemu.inside, "build", build)
    monkeypatch.setattr(qemu, "fetch", fetch)
    known = replace(read_lock(), built={})  # what is made here is another one
    first = qemu.own(tmp_path, print, known)
    assert first == qemu.own(tmp_path, print, known) and len(asked) == 1
    assert first["version"].startswith("7.2+") and first["files"].keys() == {"qemu-system-x86_64"}
    assert {"windows.c", "tcg-accel-ops-windows.h", "windows.patch"} < asked[0].keys()
    assert sum(".orig." in name or ".debian." in name for name in asked[0]) == 2  # Debian's source, by its digests
    monkeypatch.setattr(qemu, "SOURCES", ("windows.c",))
    assert qemu.own(tmp_path, print, known)["folder"] != first["folder"] and len(asked) == 2


@pytest.mark.soak
def test_with_one_core_it_has_the_bytes_of_debians_binary(guest, tmp_path, monkeypatch):
    """Where the engine works alone; beside busy guests, and from a state that it has saved itself."""
    lab = exact.ExactLab(guest, own_cache(tmp_path, guest))
    job, own = rendered(cell("ext4")), exact.ExactLab(guest, files.cache_folder())
    with busy(), ThreadPoolExecutor(2) as pool:
        ran = list(pool.map(lambda one: one.run(job, 300), (lab, own)))
        monkeypatch.setenv(qemu.VARIABLE, "debian")
        ran.append(own.run(job, 300))
    assert {each.ending for each in ran} == {"finished"}
    assert len({each.output for each in ran}) == 1
    assert [each.environment.get("ran_by") for each in ran] == [None, None, own.qemu.said()]


@pytest.mark.soak
def test_trials_on_four_cores_are_the_same(guest, tmp_path):
    """A hundred times, two at once beside a busy process; the first from a cold boot."""
    parallel = "for i in 1 2 3 4 5 6; do (seq 20000 | sha256sum; cat /proc/uptime; sync) & done; wait"
    job = Job(exact.ExactLab.processor_steps(FOUR) + work(parallel).steps)
    cold = exact.ExactLab(guest, own_cache(tmp_path, guest), "cold boot", FOUR).run(job, 600)
    lab = exact.ExactLab(guest, files.cache_folder(), processor=FOUR)
    with busy(), ThreadPoolExecutor(2) as pool:
        trials = list(pool.map(lambda _: lab.run(job, 600), range(TRIALS)))
    assert {trial.ending for trial in trials} == {cold.ending} == {"finished"}
    assert {trial.output for trial in trials} == {cold.output}


@pytest.mark.soak
@pytest.mark.parametrize(
    ("script", "ending"),
    [
        ("for i in 1 2 3 4; do while :; do :; done & done; wait", "timeout"),
        ("while :; do :; done & echo c > /proc/sysrq-trigger", "panic"),
        ("while :; do :; done & echo o > /proc/sysrq-trigger; sleep 9", "lost"),
        ("for i in 0 1 2 3; do (taskset -c $i sh -c 'while :; do :; done' &) done; kill -SEGV $$", "finished"),
    ],
)
def test_endings_on_four_cores(guest, script, ending, tmp_path, monkeypatch):
    """Busy cores keep none from its end, and nothing of it stays."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", None)
    outcome = exact.ExactLab(guest, files.cache_folder(), processor=FOUR).run(job_of(shell(script)), 20)
    assert outcome.ending == ending, outcome.console[-500:]
    assert not list((tmp_path / "tmp").iterdir())


@pytest.mark.soak
def test_four_processes_compute_as_fast_as_one(guest):
    """On one core they would take four times as long."""
    compute = "start=$(date +%s%N); for i in $(seq {}); do mawk 'BEGIN {{for (; i < 1000000; i++);}}' & done; wait; "
    compute += "echo $(($(date +%s%N) - start))"
    job = job_of(*(shell(compute.format(count)) for count in (1, 4)))
    one, four = map(int, outputs(exact.ExactLab(guest, files.cache_folder(), processor=FOUR).run(job, 300)))
    assert 0.99 < four / one < 1.05


@pytest.mark.soak
@pytest.mark.parametrize(
    ("name", "stack", "workload"),
    [
        *((name, CATALOG.get(Filesystem, name).simplest_stack(), "cores@4") for name in LOCAL if name not in LINEAR),
        *((name, "single", "metadata@200+clients4") for name in LINEAR),
        ("zfs", "single", "cores@4"),
        ("ext4", "single", "fio-jobs@4"),
        *((name, f"{stack}@24", "cores@4") for name in ("ext4", "xfs") for stack in ("md-raid5", "md-raid6")),
        ("xfs", "md-raid5-threads@24", "cores@4"),
        ("nfs-xfs", "single", "metadata@20+clients30"),
        ("gluster", "servers", "metadata@20+clients30"),
        ("cephfs", "servers", "metadata@20+clients30"),
    ],
)
def test_a_trial_on_four_cores_is_the_same(engine, root, tmp_path, monkeypatch, name, stack, workload):
    """The second beside a busy process and from a cold boot; all cores are counted in how busy they were."""
    trial = cell(name, lab=f"exact@{FOUR.name}", stack=stack, workload=workload)
    guest = resolve.resolve(trial, CATALOG).guest
    image.build(files.cache_folder(), root / f"data/guest/{guest}.json", engine, print, name=guest)
    first = run_trial(trial, CATALOG, tmp_path / "1.json", 3000)
    assert (first["status"], first["reason"]) == ("ok", "")
    monkeypatch.setenv("REPROFS_START", "cold boot")
    with busy():
        second = run_trial(trial, CATALOG, tmp_path / "2.json", 6000)
    assert second["environment"]["lab"]["start"] == "cold boot"
    assert first["digests"]["measurement"] == second["digests"]["measurement"]
    phases = first["measurement"]["phases"]
    assert all(0 <= phase["processor_busy"] <= 1 for phase in phases)
    # It may be off by several ms of processor time (docs/methods/trial.md).
    assert all(phase["processor_busy"] > 0 for phase in phases if phase["wall_ns"] > 10**7)
    assert workload != "cores@4" or (phases[0]["name"] == "compute" and phases[0]["processor_busy"] > 0.9)


def test_what_is_handed_over_is_timed(engine):
    """Five ways, each a line and a sample; one processor is one sentence."""
    one = subprocess.run(
        ["taskset", "-c", f"{min(os.sched_getaffinity(0))}", BIN / "engine", "hand-over", "-n", "10"],
        capture_output=True,
        text=True,
    )
    assert (one.returncode, one.stdout) == (1, "") and "two processors are needed, and there is one" in one.stderr
    if len(os.sched_getaffinity(0)) > 1:
        told = subprocess.run(
            [BIN / "engine", "hand-over", "-n", "10"], capture_output=True, text=True, check=True
        ).stdout
        assert [line.split()[0] for line in told.splitlines()] == ["line", "lock", "futex", "pipe", "interrupt"]
        assert all(float(line.split()[1]) > 0 for line in told.splitlines())


@pytest.mark.soak
def test_a_word_takes_a_window_to_another_core(engine, guest, tmp_path):
    """And one that sleeps is woken without waiting for its end."""
    record = run_trial(cell("tmpfs", lab=f"exact@{FOUR.name}", workload="hand-over"), CATALOG, tmp_path / "1.json", 600)
    (phase,) = record["measurement"]["phases"]
    each = {sample["name"]: sample["wall_ns"] / sample["items"] for sample in phase["samples"]}
    assert exact.WINDOW_NS <= each["line"] < exact.WINDOW_NS + 1
    assert exact.WINDOW_NS < each["interrupt"] < each["futex"] < each["pipe"] < 3000
