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
    found = pd.DataFrame(rows, columns=["label", "take", "read", "remove", "change", "low", "high"]).assign(where="")
    told = "The first change of files that a snapshot keeps takes equally long on zfs and 27 % longer on btrfs."
    assert snapshots.change(found) == told
    assert snapshots.trade(found) == "Btrfs is fastest to take a snapshot and to read one, zfs to free its space."
    assert snapshots.trade(found[:1]) == "", "nothing to compare"
    slow = found.assign(where="hdd", remove=[26e6, 31e6], change=[1.31, 1.01], low=[1.2, 0.9], high=[1.4, 1.1])
    both = pd.concat([found, slow])
    assert snapshots.change(both).endswith("equally long on zfs and 27 % to 31 % longer on btrfs.")
    assert snapshots.trade(both) == "In both settings btrfs is fastest to take a snapshot and to read one."
    last = slow.assign(where="third", take=[9e6, 1e6], read=[9e6, 1e6])
    assert snapshots.trade(pd.concat([both, last])) == "", "no step has the same file system in front everywhere"


def test_what_options_change():
    rows = [("fs+a", 0.9, 0.85, 0.95), ("fs+b", 1.02, 0.9, 1.2), ("fs+c", 2.4, 2.3, 2.5)]
    found = pd.DataFrame(rows, columns=["label", "ratio", "low", "high"]).assign(base="fs", where="w", verdict=NAN)
    told = (
        "**Options of fs:** 1 of 3 comparisons takes longer and 1 takes less time; most: fs+c (w), 2.40 times as long."
    )
    assert options.changed(found) == told
    assert options.changed(found.assign(verdict=[NAN, NAN, "slower"])) == told
    less = found.assign(verdict=["not significantly different", NAN, "slower"], where="")
    assert options.changed(less) == (
        "**Options of fs:** 1 of 3 comparisons takes longer; most: fs+c, 2.40 times as long."
    )
    assert options.changed(found[1:2]) == "**fs+b** did not differ significantly from fs."
    assert options.changed(found[2:].assign(low=NAN, high=NAN)) == "**fs+c** did not differ significantly from fs."
    assert options.changed(found[:1]) == "**fs+a** takes 10 % less time than fs."
    assert options.changed(found[2:]) == "**fs+c** takes 2.40 times as long as fs."


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
