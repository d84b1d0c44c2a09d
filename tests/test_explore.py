"""The notebook 00-explore: its functions by numbers that can be checked by hand, its widgets without a browser."""

import dataclasses
import math
import os
import subprocess
from pathlib import Path

import make
import nbformat
import numpy as np
import pandas as pd
import pytest
import run
import study2015
from conftest import BIN, ROOT
from helpers import Late
from reprofs import importers
from reprofs.data.columns import dictionary
from reprofs.data.keys import Load, Operation, Setting
from reprofs.errors import UserError

explore, stats = Late("reprofs.report.explore"), Late("scipy.stats")

pytestmark = pytest.mark.xdist_group("explore")  # one worker: the study is made once

SETTING = Setting("exact", "single", "ssd")
CREATE = Operation("metadata", "smoke", "create", "warm")
ADD = Operation("repository", "smoke", "add", "warm")
NOTEBOOK = ROOT / "notebooks/00-explore.ipynb"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A checkout with the tables of a study quick, in which JFS has a round less of one workload."""
    folder = tmp_path_factory.mktemp("explore")
    (folder / "workflow").symlink_to(ROOT / "workflow")
    (folder / "notebooks").mkdir()
    make.make(folder, systems=["ext4", "xfs", "jfs", "tmpfs"])
    run.build(folder)
    (folder / "data/tables").mkdir(parents=True)
    (folder / "data/tables/quick").symlink_to(folder / "tables")
    return folder


@pytest.fixture
def study(folder):
    """The same study with times that can be checked by hand."""
    study = run.open_study(str(folder / "tables"))
    times = {"ext4": [100, 200, 300], "xfs": [200, 400, 600], "jfs": [100, 400, 1000], "tmpfs": [10, 10, 10]}
    phases = study.phases.copy()
    for label, values in times.items():
        for number, value in enumerate(values, 1):
            where = (phases["label"] == label) & (phases["round"] == number) & (phases["phase"].isin(["create", "add"]))
            phases.loc[where, "wall_ns"] = value * 1000
    return dataclasses.replace(study, phases=phases)


def choice(a="ext4", b="xfs", operation=CREATE, labels=("xfs", "ext4"), level=0.95):
    return explore.Choice(SETTING, operation, labels, a, b, level)


def test_what_there_is_to_choose(study):
    found = explore.choices(study)
    assert list(found) == [SETTING]
    assert list(found[SETTING]) == [Load("metadata", "smoke"), Load("repository", "smoke")]
    operations = found[SETTING][Load("metadata", "smoke")]
    assert list(operations)[:2] == [Operation("metadata", "smoke", "make-tree", "warm"), CREATE]
    assert operations[CREATE] == ["ext4", "jfs", "tmpfs", "xfs"]


def test_rows_are_those_of_the_choice_in_its_order(study):
    rows = explore.rounds(study, choice())
    assert list(zip(rows["label"], rows["round"], rows["wall_ns"], strict=True)) == [
        ("xfs", 1, 200_000),
        ("xfs", 2, 400_000),
        ("xfs", 3, 600_000),
        ("ext4", 1, 100_000),
        ("ext4", 2, 200_000),
        ("ext4", 3, 300_000),
    ]
    assert set(rows["phase"]) == {"create"}
    latencies = explore.latencies(study, choice(labels=("ext4",)))
    assert latencies["count"].sum() == 3 * 2000 and set(latencies["label"]) == {"ext4"}
    assert explore.latencies(study, choice(operation=ADD)).empty


def test_ratio_is_paired_by_round(study):
    assert explore.paired(study, choice()) == pytest.approx({"n": 3, "ratio": 0.5, "low": 0.5, "high": 0.5})
    # jfs / ext4 is 1, 2 and 10/3: by hand, on logarithms.
    logs = np.log([1, 2, 10 / 3])
    reach = {level: stats.t.ppf((1 + level) / 2, 2) * logs.std(ddof=1) / math.sqrt(3) for level in (0.9, 0.95)}
    for level in reach:
        found = explore.paired(study, choice("jfs", "ext4", level=level))
        assert found["ratio"] == pytest.approx((20 / 3) ** (1 / 3))
        assert found["low"] == pytest.approx(math.exp(logs.mean() - reach[level]))
        assert found["high"] == pytest.approx(math.exp(logs.mean() + reach[level]))
    # The second round of this workload failed on JFS: the pairs are rounds 1 and 3.
    found = explore.paired(study, choice("jfs", "ext4", ADD))
    assert found["n"] == 2 and found["ratio"] == pytest.approx(math.sqrt(10 / 3))
    assert explore.paired(study, choice("ext4", "ext4"))["ratio"] == 1


def test_ratio_that_is_none_is_told(study):
    with pytest.raises(UserError, match=r"ext4 and btrfs have no round of this operation in common"):
        explore.paired(study, choice("ext4", "btrfs"))
    with pytest.raises(UserError, match=r"ext4 and xfs have no round"):
        explore.paired(study, choice(operation=CREATE._replace(phase="gone")))
    zero = study.phases.assign(wall_ns=study.phases["wall_ns"].where(study.phases["label"] != "xfs", 0))
    with pytest.raises(UserError, match=r"A round of ext4 or xfs took no time"):
        explore.paired(dataclasses.replace(study, phases=zero), choice())


def test_ratio_in_words(study):
    assert explore.sentence(choice(), explore.paired(study, choice())) == (
        "**ext4 takes 0.5000 times as long as xfs**"
        " (95% interval 0.5000 – 0.5000, Student's t on logarithms, 3 rounds)."  # noqa: RUF001
    )
    one = dataclasses.replace(study, phases=study.phases[study.phases["round"] == 1])
    assert explore.sentence(choice(), explore.paired(one, choice())).endswith("which gives no interval.")


def test_own_statistics_of_every_cell(study):
    def mad(times):
        return (times - times.median()).abs().median()

    found = explore.by_cell(study, median="median", mad=mad)
    assert len(found) == len(study.results.statistics)
    create = found[(found["phase"] == "create")].set_index("label")
    assert create["median"].to_dict() == {"ext4": 200_000, "xfs": 400_000, "jfs": 400_000, "tmpfs": 10_000}
    assert create["mad"].to_dict() == {"ext4": 100_000, "xfs": 200_000, "jfs": 300_000, "tmpfs": 0}


def test_figure_shows_every_round_and_every_operation(study):
    made = explore.figure(study, choice(labels=("xfs", "ext4", "tmpfs")))
    left, right = made.plot.axes
    rings = sorted((round(x), round(y)) for points in left.collections for x, y in points.get_offsets())
    assert rings == [(10, 2)] * 3 + [(100, 1), (200, 0), (200, 1), (300, 1), (400, 0), (600, 0)]
    assert left.get_xlabel() == "time of a round (µs)"
    assert [text.get_text() for text in left.get_yticklabels()] == ["xfs", "ext4", "tmpfs"]
    lines = [line for line in right.lines if len(line.get_xdata())]
    assert len(lines) == 3 and all(line.get_ydata()[-1] == pytest.approx(1) for line in lines)
    assert "95% interval" in made.caption and "single operations" in made.caption
    # No single operation of a command is timed; one round has no interval.
    one = dataclasses.replace(study, phases=study.phases[study.phases["round"] == 1])
    made = explore.figure(one, choice(operation=ADD))
    assert len(made.plot.axes) == 1 and "Right" not in made.caption


def test_export_is_what_was_chosen(study, tmp_path):
    for kind, read in (("csv", pd.read_csv), ("parquet", pd.read_parquet)):
        files = explore.export(study, choice(), tmp_path, kind)
        start = tmp_path / "fixture"
        name = f"exact-single-ssd-metadata-smoke-create-warm.{kind}"
        assert files == [start / f"phases-{name}", start / f"latency-{name}"]
        assert list(read(files[0])["wall_ns"]) == [200_000, 400_000, 600_000, 100_000, 200_000, 300_000]
        assert read(files[1])["count"].sum() == 2 * 3 * 2000
    assert len(explore.export(study, choice(operation=ADD), tmp_path)) == 1
    with pytest.raises(UserError, match=r"xlsx is not an export format: choose csv or parquet\."):
        explore.export(study, choice(), tmp_path, "xlsx")


def test_widgets_follow_each_other_without_a_browser(study):
    chooser = explore.Chooser(study)
    assert chooser.choice == explore.Choice(
        SETTING, CREATE._replace(phase="make-tree"), ("ext4", "jfs", "tmpfs", "xfs"), "ext4", "jfs", 0.95
    )
    chooser.operation.value = CREATE
    chooser.labels.value = ("ext4", "xfs")
    chooser.a.value, chooser.b.value, chooser.level.value = "jfs", "ext4", 0.9
    assert chooser.choice == explore.Choice(SETTING, CREATE, ("ext4", "xfs"), "jfs", "ext4", 0.9)
    picture, words = (output["data"] for output in chooser.shown.outputs)
    assert "<figure" in picture["text/html"]
    assert "jfs takes 1.882 times as long as ext4** (90% interval" in words["text/markdown"]
    # Another workload has other operations; what was chosen and is still there stays.
    chooser.load.value = Load("repository", "smoke")
    assert chooser.choice.operation.workload == "repository"
    assert (chooser.choice.labels, chooser.choice.a, chooser.choice.b) == (("ext4", "xfs"), "jfs", "ext4")
    chooser.labels.value = ()
    assert chooser.shown.outputs[0]["data"]["text/markdown"] == "Choose a file system."


def test_what_went_wrong_is_told_below_the_widgets(study):
    first = study.phases[(study.phases["label"] != "xfs") | (study.phases["round"] == 1)]
    chooser = explore.Chooser(
        dataclasses.replace(study, phases=first[(first["label"] != "ext4") | (first["round"] == 2)])
    )
    chooser.a.value, chooser.b.value = "ext4", "xfs"
    assert [output["data"]["text/markdown"] for output in chooser.shown.outputs] == [
        "ext4 and xfs have no round of this operation in common: choose others."
    ]
    with pytest.raises(UserError, match="No trial of the study fixture completed"):
        explore.Chooser(dataclasses.replace(study, phases=study.phases[:0]))


def test_notebook_runs_top_to_bottom_in_a_kernel(folder):
    """By nbval, as a researcher would check it; its own check of the exercise is part of it."""
    copy = folder / "notebooks/00-explore.ipynb"
    copy.write_text(NOTEBOOK.read_text())
    command = [BIN / "python", "-m", "pytest", "--nbval-lax", "-p", "no:cacheprovider", "-q", copy]
    done = subprocess.run(command, cwd=folder, env=os.environ, capture_output=True, text=True, check=False)
    cells = [cell for cell in nbformat.read(NOTEBOOK, as_version=4).cells if cell.cell_type == "code"]
    assert done.returncode == 0 and f"{len(cells)} passed" in done.stdout, done.stdout[-3000:]
    assert len(list((folder / "data/export/fixture").glob("*.csv"))) == 2


@pytest.fixture
def two(tmp_path):
    """Two imported studies on the same stack; the second has another stack besides, and lacks the last operations."""
    studies = []
    for name, seconds in (("ours", 1.0), ("theirs", 100.0)):
        few = {} if name == "ours" else {"times": 3}
        paths = [
            study2015.one(tmp_path, file, range(3), cold=lambda run, i, s=s: s * (1 + i) * 2.0 ** (run - 1), **few)
            for file, s in (("EXT4_MD_raid6", seconds), ("XFS_MD_raid6_-m=x", 3 * seconds))
        ]
        if name == "theirs":
            paths.append(study2015.one(tmp_path, "JFS_sda", range(3), **few))
        importers.import_files("datalad", paths, tmp_path / "imported" / name, dictionary)
        studies.append(run.open_study(str(tmp_path / "imported" / name)))
    return studies


def test_two_studies_are_drawn_in_one_form(two):
    ours, theirs = two
    assert list(explore.parts(theirs)["labels"]) == ["ext4, xfs+-m=x", "jfs"]
    figure = explore.beside(ours, theirs)
    assert "imported/ours, repo" in figure.caption and "stack md-raid6, " in figure.caption
    left, right = figure.plot.axes
    steps = [text.get_text() for text in left.get_yticklabels()]
    assert steps == ["create", "du, cold", "du, warm", "direct, cold", "direct, warm"]  # what both have
    assert left.get_xscale() == right.get_xscale() == "log"
    marked = [[line for line in axes.lines if line.get_marker() not in ("", "None")] for axes in (left, right)]
    for means, factor in zip(marked, (1, 100), strict=True):
        assert len(means) == 2 and [len(line.get_xdata()) for line in means] == [5, 5]
        found = [sorted(line.get_xdata())[-1] for line in means]
        assert found == pytest.approx([3 * factor, 9 * factor]), "the third operation, geometric mean of three rounds"
    colours = [
        [line.get_color() for line in axes.lines if line.get_marker() not in ("", "None")] for axes in (left, right)
    ]
    assert colours[0] == colours[1] and len(set(colours[0])) == 2


def test_parts_of_studies_that_are_not_there_are_told(two):
    ours, theirs = two
    other = explore.beside(ours, theirs, other_where={"stack": "sda"})
    assert "stack sda" in other.caption
    with pytest.raises(UserError, match="imported/ours has no stack sda there: it has md-raid6"):
        explore.beside(ours, theirs, {"stack": "sda"})
    with pytest.raises(UserError, match="label says no part of a study: choose of lab, stack"):
        explore.beside(ours, theirs, {"label": "ext4"})


def test_studies_without_a_common_operation_are_told(study, two):
    with pytest.raises(UserError, match="fixture and imported/ours have no operation in common"):
        explore.beside(study, two[0], {"workload": "metadata"})
