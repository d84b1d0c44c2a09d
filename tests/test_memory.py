"""A limit of memory (memory_mib): an axis of a study, a control group of the phases, what it changes."""

import re

import numpy as np
import pytest
import run
from conftest import ROOT
from helpers import CATALOG, cell, names, rendered
from make import make
from reprofs import cleanup
from reprofs.guest.steps import Phase, Write
from reprofs.labs import Obstacle, host
from reprofs.plan.catalog import Catalog
from reprofs.plan.study import Study
from reprofs.plan.workload import Workload
from reprofs.stats import places
from reprofs.trial.planning import make_plan
from reprofs.trial.run import run_trial

STUDY = {
    "title": "Own",
    "question": "What?",
    "labs": ["exact", "vm@128mib", "host"],
    "memory_mib": ["all", 64],
    "stacks": ["single"],
    "profiles": ["ram"],
    "filesystems": ["ext4"],
    "workloads": ["metadata"],
    "scale": "smoke",
    "rounds": 2,
    "seed": 1,
}
PLACES = ["exact@v2-0.5ns", "exact@v2-0.5ns@64mib", "host", "host@64mib", "vm@128mib"]
LITTLE = "exact@v2-0.5ns@16mib"
LOAD = "metadata@2500"  # has twice the limit of content


def test_memory_is_an_axis_of_labs_that_make_their_disks():
    catalog = Catalog()
    catalog.add(Study, "own", STUDY)
    plan = make_plan("own", catalog)
    assert sorted(plan.labs) == PLACES == sorted({trial.full_lab for trial in plan.trials})
    assert [plan.labs[place].memory_mib for place in PLACES] == [None, 64, None, 64, 128]
    assert {trial.id.split("-single")[0] for trial in plan.trials} >= {"r1-exact@v2-0.5ns@64mib"}


@pytest.mark.parametrize(
    ("value", "words"),
    [([15], "memory_mib"), ([], "memory_mib"), ([64, 64], "only once"), (["some"], "memory_mib"), (64, "memory_mib")],
)
def test_a_wrong_limit_is_one_sentence(value, words, checkout, edit_yaml, reprofs, says):
    edit_yaml(checkout / "config/studies/quick.yaml", lambda study: study.update(memory_mib=value))
    says(reprofs("plan", "quick", cwd=checkout), "quick.yaml", words)


def test_the_command_line_refuses_what_is_no_size(tmp_path, reprofs, says):
    words = [word for key, value in names().items() if value is not None for word in (f"--{key}", value)]
    said = reprofs("trial", *words, "--memory-mib", 0, "--output", tmp_path / "x.json", cwd=ROOT)
    says(said, "memory_mib is 0, but must be from 16")


def test_only_a_trial_with_a_limit_has_a_group():
    steps, usual = rendered(cell(lab="exact@64mib")).steps, rendered(cell()).steps
    enter, leave = (n for n, step in enumerate(steps) if isinstance(step, Write) and step.path.endswith("cgroup.procs"))
    phases = [n for n, step in enumerate(steps) if isinstance(step, Phase)]
    assert enter < phases[0] and phases[-1] < leave
    assert next(step.text for step in steps if isinstance(step, Write) and "memory.max" in step.path) == 64 << 20
    # Before the first phase nothing of the file system is in memory, and no tool that is measured counts.
    assert [type(step).__name__ for step in steps[enter + 1 : enter + 3]] == ["Exec", "Drop"]
    assert max(n for n, step in enumerate(steps) if type(step).__name__ == "Pin") < enter
    lines = {step.line() for step in usual}
    assert [
        step for step in steps if step.line() not in lines and not re.search("/groups|^exec.stage=memory", step.line())
    ] == []
    assert not any("groups" in step.line() for step in usual)


def said(made: dict) -> dict[str, int]:
    """What the group of a trial said of itself."""
    (text,) = (c["output"] for c in made["measurement"]["commands"] if c["stage"] == "memory" and c["output"])
    return {key: int(value) for key, value in re.findall(r"^[a-z.]+:(\w+ )?(\d+)$", text, re.MULTILINE)} | {
        key: int(value) for key, value in re.findall(r"^(memory\.(?:max|peak)):(\d+)$", text, re.MULTILINE)
    }


def read_again(made: dict) -> int:
    """Bytes that the device delivered to a phase that could have had them from memory."""
    (phase,) = (one for one in made["measurement"]["phases"] if (one["name"], one["cache"]) == ("read", "warm"))
    return phase["device"]["read_bytes"]


@pytest.mark.wide
def test_what_does_not_fit_is_read_again(recorded):
    little = recorded(cell(lab=LITTLE, workload=LOAD))
    assert little["status"] == "ok", little["reason"]
    assert little["environment"]["lab"]["name"] == little["trial"]["lab"] == LITTLE
    group = said(little)
    assert group["memory.max"] == 16 << 20 and 0.9 * (16 << 20) < group["memory.peak"] <= 16 << 20
    assert read_again(little) > 16 << 20
    assert read_again(recorded(cell())) == 0


@pytest.mark.wide
@pytest.mark.parametrize(
    ("lab", "reason"),
    [
        ("exact@64mib", "greedy: out of memory: the kernel killed a process while sh ran"),
        # The engine holds the tools in memory, and may be the largest itself.
        (LITTLE, "The limit memory_mib is too small: the kernel killed engine; the last thing heard was: mounted."),
    ],
)
def test_out_of_memory_is_one_sentence(lab, reason, guest, tmp_path):
    catalog = Catalog()
    load = CATALOG.get(Workload, "metadata").as_json()
    greedy = {"name": "greedy", "run": "sh -c 'head -c 96M /dev/zero | tail'", "title": "Fill memory"}
    catalog.add(Workload, "greedy", load | {"tools": ["sh", "head", "tail"], "phases": [greedy], "packages": []})
    made = run_trial(cell(lab=lab, workload="greedy"), catalog, tmp_path / "greedy.json")
    assert (made["status"], made["reason"]) == ("failed", reason)


@pytest.fixture
def groups(monkeypatch, tmp_path):
    """A machine whose control groups are this folder."""
    monkeypatch.setattr(cleanup, "SYS", tmp_path)
    (tmp_path / "fs/cgroup").mkdir(parents=True)
    return tmp_path / "fs/cgroup"


def test_a_host_without_the_controller_says_so(groups, engine):
    lab = host.HostLab()
    assert "cgroup v2" in lab.limits_no_memory()
    (groups / "cgroup.subtree_control").write_text("cpu io\n")
    assert "lacks memory" in lab.limits_no_memory()
    (groups / "cgroup.subtree_control").write_text("cpu io memory pids\n")
    assert lab.limits_no_memory() == ""


@pytest.mark.skipif(host.os.geteuid() != 0, reason="the host lab needs root")
def test_without_it_the_trial_is_a_row_with_the_reason(groups, engine, tmp_path):
    made = run_trial(cell(lab="host@64mib", profile="ram"), CATALOG, tmp_path / "host.json")
    assert made["status"] == "skipped" and "cannot limit memory" in made["reason"]
    assert made["environment"]["lab"]["name"] == "host@64mib"


def test_the_group_is_removed_and_never_somebody_elses(groups, tmp_path):
    job, place = rendered(cell(lab="host@64mib", profile="ram")), tmp_path / "reprofs-work-1"
    place.mkdir()
    host._announce_group(job, place)
    (groups / "reprofs").mkdir()
    assert f"control group {groups / 'reprofs'}" in cleanup.release(place) and not (groups / "reprofs").exists()
    (groups / "reprofs").mkdir()
    with pytest.raises(Obstacle, match=r"exists: remove it"):
        host._announce_group(job, place)
    host._announce_group(rendered(cell(lab="host", profile="ram")), place)


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Everything takes three times as long with 64 MiB."""
    folder = tmp_path_factory.mktemp("memory")
    labs = ["exact", "exact@256mib", "exact@64mib"]
    make(folder, rounds=3, systems=["ext4", "xfs"], workloads=["metadata"], labs=labs, clocks={labs[2]: 3})
    return run.build(folder)


@pytest.mark.wide
def test_more_memory_is_what_less_is_compared_with(study):
    assert places.order(study, places.MEMORY) == ["64 MiB", "256 MiB", "no limit"]
    found = places.compared(study, places.MEMORY, 0.02)
    assert set(found["lab"]) == {"exact"} and set(found["place"]) == {"64 MiB", "256 MiB"}
    np.testing.assert_allclose(found.loc[found["place"] == "64 MiB", "ratio"].astype(float), 3)
    assert set(found.loc[found["place"] == "256 MiB", "verdict"]) == {"equal"}


@pytest.mark.wide
def test_the_notebook_says_it(study):
    executed = run.execute(study.folder.parent, ["scaling", "methods"])
    text = " ".join(run.text(executed / f"{name}.ipynb") for name in ("scaling", "methods"))
    assert "With 64 MiB of memory 18 of 18 operations are slower than with no limit (most: " in text
    assert "Memory limits do not count XFS's metadata buffers" in text
