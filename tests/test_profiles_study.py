"""Profiles in a study: which trials have one, and what the report says of two that differ."""

import json
from pathlib import Path

import make
import nbformat
import pytest
import run
import yaml
from conftest import ROOT
from helpers import CATALOG, Late
from reprofs.data.keys import Operation
from reprofs.data.profiles import FILE
from reprofs.errors import UserError
from reprofs.files import SUMS, write_sums
from reprofs.plan.catalog import Catalog
from reprofs.plan.cell import PlannedTrial
from reprofs.plan.override import override
from reprofs.plan.plan import read_plan, write_plan
from reprofs.plan.processor import Processor
from reprofs.plan.study import Profiled, Study
from reprofs.stats import profiles
from reprofs.stats.profiles import OWN
from reprofs.stats.study import open as open_study
from reprofs.trial.planning import make_plan

flame = Late("reprofs.report.flame")

NS = 0.5  # an instruction
CREATED = Operation("metadata", "smoke", "create", "warm")
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


TRIAL = {"workload": "metadata", "scale": "smoke", "round": 1, "seed": 7}
FAILED = {"schema": 1, "trial": TRIAL, "phases": [], "reason": "No space left on device."}


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
    more = {"measurement_sha256": "0", "ns_per_instruction": NS, "kernel": "6.12", "qemu": "7.2"}
    return {"schema": 1, "trial": TRIAL, **more, "phases": [phase]}


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
        found = FAILED if failed else profile(trial.filesystem)
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


def test_kernels_are_compared_with_the_first_one_on_each_file_system(kernels):
    groups = profiles.counted(kernels)
    assert [(setting.lab, system) for setting, _, system in groups] == [
        (f"exact@@{KERNELS[1]}", "ext4"),
        (f"exact@@{KERNELS[1]}", "xfs"),
    ]
    for (_, _, system), found in groups.items():
        assert [one.label for one in found] == KERNELS and {one.of for one in found} == {system}
        (row,) = profiles.differences(found, CREATED).itertuples()
        assert (row.base, row.other) == (KERNELS[0], KERNELS[1])
        if system == "ext4":
            assert row.more == pytest.approx(1000 + 3000)
            assert list(row.terms.items())[:2] == [("waiting", 3000), (OWN, 1000)]
            first = profiles.functions(*(one.phases[CREATED] for one in found)).iloc[0]
            assert first.name == ("ext4_create", "ext4", "file system ext4") and first[1] - first[0] == 2000
        else:
            assert row.more == 0


def counted(folder: Path, label: str, **stacks: int) -> profiles.Counted:
    """A kernel's profile of one item of a phase of XFS, with these stacks: functions with / between them."""
    folder = folder / label
    folder.mkdir()
    lines = [f"{';'.join(f'{name}_[xfs]' for name in stack.split('__'))};memset {n}" for stack, n in stacks.items()]
    (folder / "s").write_text("\n".join(lines) + "\n")
    phase = {"items": 1, "instructions": sum(stacks.values()), "stacks": "s"}
    return profiles.Counted(label, "contender", "t", folder, {CREATED: phase}, NS, "", "xfs", "xfs")


def test_the_functions_in_which_a_kernel_is_slower(tmp_path):
    """The most special ones that both kernels have: of a caller and a callee with the same difference, the callee."""
    old = counted(
        tmp_path, "6.1", sys__rename__rmap=1000, sys__rename__sort=500, sys__rename__rename=100, sys__gone=5000
    )
    new = counted(
        tmp_path, "7.3", sys__rename__rmap=9000, sys__rename__sort=2500, sys__rename__rename=100, sys__new=5000
    )
    found = profiles.culprits(old, new, CREATED)
    assert [name.partition("_[")[0] for name in found.index] == ["rename", "rmap", "sort"]  # not sys, gone, new
    assert found.loc["rename_[xfs]"].tolist() == [800, 5800, 5000]  # ns; one that calls itself counts once
    assert profiles.culprits(new, old, CREATED)["more"].tolist() == [-5000, -4000, -1000]
    assert profiles.culprits(old, old, CREATED)["more"].eq(0).all()


def test_a_function_that_another_kernel_does_without_is_a_difference(tmp_path):
    old, new = (
        counted(tmp_path, name, **stacks) for name, stacks in (("6.1", {"sys__move": 5000}), ("7.3", {"sys": 9}))
    )
    assert profiles.culprits(old, new, CREATED).index.tolist() == ["sys_[xfs]"]
    new.phases[CREATED._replace(phase="other")] = {"functions": [{"name": "move", "module": "xfs"}]}
    assert profiles.culprits(old, new, CREATED).index.tolist() == ["move_[xfs]"]


@pytest.fixture(scope="module")
def found(folder):
    """The profiles of the study, the quickest first."""
    study = open_study(str(folder / "tables"))
    ((_, own),) = profiles.counted(study).items()
    return own


def test_the_quickest_contender_is_what_the_others_are_compared_with(found):
    assert [(one.label, one.reason) for one in found] == [
        ("ext4", ""),
        ("xfs", ""),
        ("jfs", "No space left on device."),
    ]
    (row,) = profiles.differences(found, CREATED).itertuples()
    assert (row.base, row.other) == ("ext4", "xfs")
    # An item: 14,000,000 - 8,002,000 instructions at 0.5 ns and 4 ms of waiting, of 2,000.
    assert row.more == pytest.approx((14_000_000 - 8_002_000) * NS / 2000 + 2000)
    assert row.ratio == pytest.approx((7_000_000 + 4_000_000) / 4_001_000)
    assert row.instructions == pytest.approx(14_000_000 / 8_002_000)
    assert list(row.terms.items())[:4] == [("waiting", 2000), (OWN, 1500), ("allocator", 500), ("journal", -500)]
    assert profiles.differences(found[:1], CREATED).empty


def test_parts_sum_to_all_instructions(found):
    phases = [one.phases[CREATED] for one in found[:2]]
    table = profiles.parts(*phases)
    assert list(table.loc[OWN]) == [2000, 5000] and list(table.loc["RCU"]) == [1, 0]
    assert list(table.sum()) == [phase["instructions"] / 2000 for phase in phases]
    assert [profiles.waiting(phase) for phase in phases] == [0, 2000]


def test_the_functions_that_differ_most_come_first(found):
    table = profiles.functions(*(one.phases[CREATED] for one in found[:2]))
    assert [(name, new - old) for (name, _, _), old, new in table.head(4).itertuples()] == [
        ("xfs_create", 4500),
        ("ext4_create", -2000),
        ("jbd2_journal_start", -1000),
        ("kmem_cache_alloc", 1000),
    ]
    assert list(profiles.functions(found[0].phases[CREATED])[0]) == [2000, 1000, 500, 500, 1]


def test_the_report_has_the_answer_and_a_flame_graph_for_each_file_system(folder):
    path = run.execute(folder, ["kernels"]) / "kernels.ipynb"
    cells = nbformat.read(path, as_version=4).cells
    shown = [output.data for cell in cells for output in cell.get("outputs", [])]
    words = " ".join(data.get("text/markdown", "") for data in shown)
    assert "Create files: xfs takes 2.75 times as long as ext4, with 75 % more instructions." in words
    assert "jfs has no profile, because its trial failed: No space left on device." in words
    flames = [data["text/html"] for data in shown if 'data-figure="flame-' in data.get("text/html", "")]
    assert [(" ext4: " in html, " xfs: " in html) for html in flames] == [(True, False), (False, True)]
    colours = flame.flame({"do_syscall_64;ext4_create_[ext4]": 3, "do_syscall_64": 1}, {"do_syscall_64": "all else"})
    (boxes,) = colours.axes[0].collections
    assert [round(path.get_extents().width / flame.WIDTH, 3) for path in boxes.get_paths()] == [1, 0.75]


def test_a_profile_that_was_edited_is_named(folder, found):
    study = open_study(str(folder / "tables"))
    path = found[0].folder / FILE
    text = path.read_text()
    path.write_text(text + " ")
    with pytest.raises(
        UserError,
        match=r"profile\.json is missing or was changed after it was made: run `make report` or `reprofs profile`",
    ):
        profiles.counted(study)
    path.write_text(text)
    sums = found[1].folder / SUMS
    sums.rename(sums.with_name("kept"))
    with pytest.raises(UserError, match="was changed"):
        profiles.counted(study)
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
