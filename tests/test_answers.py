"""Each study answers its own question: snapshots, options, too short operations, larger trials that are published."""

import dataclasses
import json
import re

import make
import pandas as pd
import pytest
import run
from reprofs.data import published
from reprofs.data.keys import Load, Setting
from reprofs.report.sentences import options, scaling, snapshots
from reprofs.stats import larger

NAN = float("nan")


def test_what_a_snapshot_costs():
    rows = [("btrfs", 6e6, 125e6, 31e6, 1.27, 1.2, 1.3), ("zfs", 16e6, 173e6, 26e6, 1.01, 0.9, 1.1)]
    found = pd.DataFrame(rows, columns=["label", "take", "read", "remove", "change", "low", "high"])
    take, change, read, remove = snapshots.costs(found)
    assert take == "Taking a snapshot of the files takes 6.00 ms (btrfs) to 16.0 ms (zfs)."
    assert change.endswith("compared with one without a snapshot, takes equally long (zfs) to 27 % longer (btrfs).")
    assert read == "Reading it takes 125 ms (btrfs) to 173 ms (zfs)."
    assert remove == "Removing it, until its space is free, takes 26.0 ms (zfs) to 31.0 ms (btrfs)."
    assert snapshots.costs(found[:1])[0].endswith("takes 6.00 ms (btrfs).")
    assert snapshots.costs(found.assign(take=5e6))[0].endswith("takes 5.00 ms on all.")


def test_what_options_change():
    rows = [("fs+a", 0.9, 0.85, 0.95), ("fs+b", 1.02, 0.9, 1.2), ("fs+c", 2.4, 2.3, 2.5)]
    found = pd.DataFrame(rows, columns=["label", "ratio", "low", "high"]).assign(base="fs")
    assert options.changed(found, "w, stack single") == (
        "**fs, w, stack single:** compared with fs the workload takes 2.40 times as long with fs+c and 10 % less time"
        " with fs+a. No significant change from fs: fs+b."
    )
    assert options.changed(found[1:2], "w") == "**fs, w:** No significant change from fs: fs+b."
    assert options.changed(found[1:2].assign(low=NAN, high=NAN), "w").endswith("No significant change from fs: fs+b.")


def test_operations_that_are_too_short_tell_no_scaling():
    rows = [
        ("Walk", "ext4", True, "contender"),
        ("Walk", "xfs", False, "contender"),
        ("Write", "tmpfs", True, "ceiling"),
    ]
    own = pd.DataFrame(rows, columns=["operation", "label", "short", "role"])
    assert scaling.too_short(own).endswith("ten ticks of the scheduler: “Walk”.")
    assert scaling.too_short(own[1:]) == ""


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("answers")
    make.make(folder, systems=["ext4", "xfs"], workloads=["metadata"], failures={})
    return run.build(folder, results=False)


def test_sizes_of_their_own_are_no_demonstration(study):
    assert study.demonstration
    for workload, scale in (("metadata@1000000", "smoke"), ("metadata", "laptop")):
        workloads = study.plan.workloads | {workload: study.plan.workloads["metadata"]}
        plan = study.plan.model_copy(update={"workloads": workloads})
        own = study.trials.assign(workload=workload, scale=scale)
        assert not dataclasses.replace(study, plan=plan, trials=own).demonstration


def test_published_trials_of_a_larger_size_are_found_by_their_names(tmp_path, monkeypatch):
    for name, trial in (
        ("a", "r1-exact-single-ssd-ext4+default-metadata-laptop"),
        ("b", "r1-exact-single-ram-ext4-metadata-laptop"),
    ):
        (tmp_path / "results" / name).mkdir(parents=True)
        (tmp_path / "results" / name / "digests.json").write_text(json.dumps({"trials": {trial: {}}}))
    one = type("Trial", (), {"status": "ok"})
    result = type("Result", (), {"study": "a", "trials": {"r1-exact-single-ssd-ext4+default-metadata-laptop": one}})
    monkeypatch.setattr(published, "place", lambda name: tmp_path / name)
    monkeypatch.setattr(published.publication, "read", lambda folder: result)
    told = type("Result", (), {"trials": {"r1-exact-single-ram-ext4-metadata-laptop": one}})
    monkeypatch.setattr(published.publication, "said", lambda folder: result if folder.name == "a" else told)
    assert published.holding(re.compile(r"r\d+-exact-single-ssd-.+-metadata(@\d+)?-\w+")) == ["a"]
    one.status = "failed"
    assert published.holding(re.compile(r"r\d+-exact-single-ssd-.+-metadata(@\d+)?-\w+")) == []


def test_a_published_page_shows_no_other_result(study):
    """It is derived of its own records, wherever that is done."""
    assert larger.larger(study, Setting("exact", "single", "ssd"), Load("metadata", "smoke")).empty
