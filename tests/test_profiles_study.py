"""Profiles in a study: which trials have one, and what the report says of two that differ."""

import json
from pathlib import Path

import make
import nbformat
import pytest
import run
import yaml
from conftest import ROOT
from helpers import CATALOG
from reprofs.data.profiles import FILE
from reprofs.errors import UserError
from reprofs.files import SUMS, write_sums
from reprofs.plan.catalog import Catalog
from reprofs.plan.cell import PlannedTrial
from reprofs.plan.override import override
from reprofs.plan.plan import read_plan, write_plan
from reprofs.plan.processor import Processor
from reprofs.plan.study import Profiled, Study
from reprofs.report.flame import WIDTH, flame
from reprofs.report.topics import profiles
from reprofs.stats.study import open as open_study
from reprofs.trial.planning import make_plan

NS = 0.5  # an instruction
# File system -> part of the system, function, module -> instructions of 2,000 items; and waiting, ns.
CREATE = {
    "ext4": (
        {
            ("file system ext4", "ext4_create", "ext4"): 4_000_000,
            ("journal", "jbd2_journal_start", "jbd2"): 2_000_000,
            ("allocator", "kmem_cache_alloc", ""): 1_000_000,
            ("VFS", "vfs_create", ""): 1_000_000,
            ("RCU", "call_rcu", ""): 2_000,
        },
        0,
    ),
    "xfs": (
        {
            ("file system xfs", "xfs_create", "xfs"): 9_000_000,
            ("file system xfs", "xfs_trans_commit", "xfs"): 1_000_000,
            ("allocator", "kmem_cache_alloc", ""): 3_000_000,
            ("VFS", "vfs_create", ""): 1_000_000,
        },
        4_000_000,
    ),
}


def profile(filesystem: str) -> dict:
    """A profile of one phase, in the form of its schema."""
    counts, waiting = CREATE[filesystem]
    functions = [
        {"name": name, "module": module, "part": part, "instructions": count}
        for (part, name, module), count in counts.items()
    ]
    instructions = sum(counts.values())
    phase = {
        "name": "create",
        "operation": "create",
        "cache": "warm",
        "measured": True,
        "items": 2000,
        "wall_ns": int(instructions * NS) + waiting,
        "instructions": instructions,
        "waiting_ns": waiting,
        "misses": {"accesses": 10**6, "l1": 10**5, "llc": 10**4},
        "functions": functions,
        "stacks": "1-create.folded",
    }
    return {"schema": 1, "trial": {}, "measurement_sha256": "0", "ns_per_instruction": NS, "phases": [phase]}


def keep(folder: Path, found: dict, stacks: str) -> None:
    folder.mkdir(parents=True)
    (folder / FILE).write_text(json.dumps(found))
    (folder / "1-create.folded").write_text(stacks)
    write_sums(folder / SUMS, [folder / FILE, folder / "1-create.folded"])


def profiled(folder: Path, **options) -> list[PlannedTrial]:
    """Makes a study whose file asks for profiles of create; returns the trials that have one."""
    make.make(folder, workloads=["metadata"], **options)
    plan, processor = read_plan(folder / "plan.json"), CATALOG.get(Processor, "v2-0.5ns")
    labs = {name: lab.model_copy(update={"processor": processor}) for name, lab in plan.labs.items()}
    study = plan.study.model_copy(update={"profile": Profiled(phases=["create"])})
    write_plan(plan.model_copy(update={"labs": labs, "study": study}), folder / "plan.json")
    return read_plan(folder / "plan.json").profiled()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Tables of a study on three file systems with profiles; the trial of one failed."""
    folder = tmp_path_factory.mktemp("profiled")
    failures = {("jfs", "metadata", 1): ("failed", "No space left on device.")}
    for trial in profiled(folder, systems=["ext4", "jfs", "xfs"], failures=failures):
        failed = trial.filesystem == "jfs"
        found = {"phases": [], "reason": "No space left on device."} if failed else profile(trial.filesystem)
        counts = {} if failed else CREATE[trial.filesystem][0]
        stacks = "".join(f"do_syscall_64;{name} {count}\n" for (_, name, _), count in counts.items())
        keep(folder / "tables-profiles" / trial.id, found, stacks)
    run.build(folder)
    return folder


KERNELS = ["debian-6.1", "debian-7.3"]


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    """A study of two file systems on two kernels: on the last one ext4_create has 2,000 instructions an item more."""
    folder = tmp_path_factory.mktemp("kernels")
    for trial in profiled(folder, systems=["ext4", "xfs"], kernels=KERNELS):
        found = profile(trial.filesystem)
        (phase,) = found["phases"]
        if (trial.filesystem, trial.kernel) == ("ext4", KERNELS[1]):
            phase["functions"][0]["instructions"] += 4_000_000
            phase["instructions"] += 4_000_000
            phase["wall_ns"] += 2_000_000 + 6_000_000
            phase["waiting_ns"] += 6_000_000
        keep(folder / "tables-profiles" / trial.id, found, "do_syscall_64;vfs_create 1\n")
    return run.build(folder)


def test_kernels_are_compared_with_the_last_one_on_each_file_system(kernels):
    groups = profiles.groups(kernels)
    assert [(setting.lab, system) for setting, _, system in groups] == [
        (f"exact@@{KERNELS[1]}", "ext4"),
        (f"exact@@{KERNELS[1]}", "xfs"),
    ]
    for (setting, load, system), found in groups.items():
        assert [one.label for one in found] == KERNELS[::-1] and {one.of for one in found} == {system}
        (operation,) = profiles.operations(kernels, found)
        (row,) = profiles.differences(found, operation)
        assert (row["base"], row["other"]) == (KERNELS[1], KERNELS[0])
        overview = profiles.overview(kernels, setting, load, found)
        assert [one["Kernel"] for one in overview.rows] == KERNELS[::-1]
        assert f", {system}, lab exact, stack" in overview.caption
        (functions,) = profiles.by_function(kernels, setting, found, operation)
        if system == "ext4":
            assert row["more"] == pytest.approx(-(1000 + 3000))
            assert row["terms"][:2] == [
                f"waiting {profiles.MINUS}3.00 µs",
                f"file system's own code {profiles.MINUS}1.00 µs",
            ]
            first = functions.rows[0]
            assert "ext4_create" in str(first["Function"]) and first["Difference"] == f"{profiles.MINUS}2,000"
        else:
            assert row["more"] == 0
    names = [profiles.by_part(kernels, key[0], found, operation).name for key, found in groups.items()]
    assert len(set(names)) == 2


@pytest.fixture(scope="module")
def create(folder):
    """The study, where, its profiles, and the operation that they have."""
    study = open_study(str(folder / "tables"))
    ((setting, load, system), found), *more = profiles.groups(study).items()
    assert not (system or more)
    (operation,) = profiles.operations(study, found)
    return study, setting, load, found, operation


def test_the_quickest_contender_is_what_the_others_are_compared_with(create):
    *_, found, operation = create
    assert [one.label for one in found] == ["ext4", "xfs", "jfs"]
    assert profiles.missing(found) == [("jfs", "No space left on device.")]
    (row,) = profiles.differences(found, operation)
    assert (row["base"], row["other"]) == ("ext4", "xfs")
    # An item: 14,000,000 - 8,002,000 instructions at 0.5 ns and 4 ms of waiting, of 2,000.
    assert row["more"] == pytest.approx((14_000_000 - 8_002_000) * NS / 2000 + 2000)
    assert row["ratio"] == pytest.approx((7_000_000 + 4_000_000) / 4_001_000)
    assert row["instructions"] == pytest.approx(14_000_000 / 8_002_000)
    own = "file system's own code"
    assert row["terms"] == [
        "waiting +2.00 µs",
        f"{own} +1.50 µs",
        "allocator (state) +500 ns",
        f"journal {profiles.MINUS}500 ns",
    ]


def test_parts_sum_to_all_instructions_and_time(create):
    study, setting, _, found, operation = create
    rows = {row["Part of the system"]: row for row in profiles.by_part(study, setting, found, operation).rows}
    assert rows["file system's own code"]["ext4"] == "2,000" and rows["file system's own code"]["xfs"] == "5,000"
    more = f"xfs {profiles.MINUS} ext4"
    assert rows["file system's own code"][more] == "+3,000" and rows["journal"][more] == f"{profiles.MINUS}1,000"
    assert rows["VFS"][more] == "0"
    assert {name for name, row in rows.items() if row["Note"] == "state"} == {"allocator", "RCU"}
    assert rows["RCU"]["ext4"] == "1.0"  # small, but of the state: it has its row
    parts = [name for name in rows if name not in ("all instructions", "waiting", "time")]
    for label in ("ext4", "xfs"):
        total = sum(float(rows[name][label].replace(",", "")) for name in parts)
        assert f"{total:,.0f}" == rows["all instructions"][label]
    assert rows["waiting"]["xfs"] == "2.000 µs" and rows["time"]["xfs"] == "5.500 µs"


def test_the_functions_that_differ_most_come_first(create):
    study, setting, _, found, operation = create
    (table,) = profiles.by_function(study, setting, found, operation)
    assert [(row["Function"], row["Difference"]) for row in table.rows[:3]] == [
        ("`xfs_create`", "+4,500"),
        ("`ext4_create`", f"{profiles.MINUS}2,000"),
        ("`jbd2_journal_start`", f"{profiles.MINUS}1,000"),
    ]
    assert table.rows[3] == {  # as large a difference as the one before it
        "Function": "`kmem_cache_alloc`",
        "Part of the system": "allocator",
        "ext4": "500",
        "xfs": "1,500",
        "Difference": "+1,000",
        "Note": "state",
    }
    (alone,) = profiles.by_function(study, setting, found[:1], operation)
    assert [row["ext4"] for row in alone.rows] == ["2,000", "1,000", "500", "500", "1.0"]


def test_the_report_has_the_answer_and_a_flame_graph_for_each_file_system(folder, create):
    path = run.execute(folder, ["profiles"]) / "profiles.ipynb"
    cells = nbformat.read(path, as_version=4).cells
    shown = [output.data for cell in cells for output in cell.get("outputs", [])]
    words = " ".join(data.get("text/markdown", "") for data in shown)
    assert "Create files: xfs takes 2.75 times as long as ext4 with 1.75 times the instructions." in words
    assert "jfs has no profile, for its trial did not end well: No space left on device." in words
    figures = [data["text/html"] for data in shown if "data-figure" in data.get("text/html", "")]
    assert [("on ext4" in html, "on xfs" in html) for html in figures] == [(True, False), (False, True)]
    colours = flame({"do_syscall_64;ext4_create_[ext4]": 3, "do_syscall_64": 1}, {"do_syscall_64": "all else"})
    (boxes,) = colours.axes[0].collections
    assert [round(path.get_extents().width / WIDTH, 3) for path in boxes.get_paths()] == [1, 0.75]


def test_a_profile_that_was_edited_is_named(folder, create):
    study, _, _, found, _ = create
    path = found[0].folder / FILE
    text = path.read_text()
    path.write_text(text + " ")
    with pytest.raises(
        UserError,
        match=r"profile\.json is missing or was changed after it was made: `make report` or `reprofs profile`",
    ):
        profiles.groups(study)
    path.write_text(text)
    sums = found[1].folder / SUMS
    sums.rename(sums.with_name("kept"))
    with pytest.raises(UserError, match="was changed"):
        profiles.groups(study)
    sums.with_name("kept").rename(sums)


# ---- the key of a study ----------------------------------------------------------------------------------------------

SHIPPED = yaml.safe_load((ROOT / "config/studies/instructions.yaml").read_text())


def planned(change=None, without=(), **keys):
    catalog = Catalog()
    catalog.add(Study, "own", {key: value for key, value in (SHIPPED | keys).items() if key not in without})
    return make_plan("own", catalog, change)


def test_trials_of_the_first_round_in_the_exact_lab_with_one_core_have_profiles():
    both = planned(labs=["exact", "exact@v2-0.5ns-4c", "vm"]).profiled()
    assert [(one.round, one.full_lab) for one in both] == [(1, "exact@v2-0.5ns")] * 2
    one = planned(profile={"phases": ["create"], "filesystems": ["btrfs"]}).profiled()
    assert [trial.filesystem for trial in one] == ["btrfs"]
    assert planned(filesystems=["btrfs", "btrfs+zstd"], profile={"phases": ["create"], "filesystems": ["btrfs+zstd"]})
    assert not planned(override("vm", "file", "", "")).profiled()  # elsewhere the same study has none
    assert not planned(without=["profile"]).profiled()


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (
            {"profile": {"phases": ["creat"]}},
            "profile: phase of this study 'creat' does not exist: did you mean create",
        ),
        ({"profile": {"phases": ["create"], "filesystems": ["xfs"]}}, "profile: file system of this study 'xfs'"),
        ({"labs": ["vm"]}, "none of these trials can have one. It needs the exact lab with one core"),
        ({"profile": {"filesystems": ["ext4"]}}, "phases"),
        ({"profile": {"phases": []}}, "phases"),
        ({"profile": {"phases": ["create", "create"]}}, "must name create only once"),
    ],
)
def test_a_wrong_key_is_one_sentence(keys, words):
    with pytest.raises(UserError) as caught:
        planned(**keys)
    assert words in str(caught.value) and len(str(caught.value)) < 300
