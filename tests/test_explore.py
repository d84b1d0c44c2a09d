"""The notebook 00-explore: its widgets without a browser, and the whole of it in a kernel."""

import os
import subprocess
from pathlib import Path

import make
import nbformat
import pandas as pd
import pytest
import run
from conftest import BIN, ROOT
from helpers import Late
from reprofs.errors import UserError

explore = Late("reprofs.report.explore")

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
def chooser(folder, monkeypatch):
    monkeypatch.chdir(folder)
    return explore.Chooser("quick")


def test_widgets_follow_each_other_without_a_browser(chooser):
    assert len(chooser.part.options) == 2 and chooser.name.options == ("quick",)
    assert chooser.labels.value == ("ext4", "jfs", "tmpfs", "xfs") and (chooser.a, chooser.b) == ("ext4", "xfs")
    first = chooser.operation.value
    chooser.labels.value = ("ext4", "xfs")
    assert set(chooser.times["label"]) == {"ext4", "xfs"} and set(chooser.times["operation"]) == {first}
    assert len(chooser.times) == 6 and chooser.latency["count"].sum() > 0
    # Another workload has other operations; what was chosen and is still there stays.
    chooser.part.value = chooser.part.options[1][1]
    assert chooser.operation.value != first and chooser.labels.value == ("ext4", "xfs")
    assert set(chooser.times["workload"]) == {"repository"} and chooser.latency.empty


def test_what_cannot_be_opened_is_told_below_the_widgets(chooser):
    chooser.name.options = ("quick", "gone")
    chooser.name.value = "gone"
    assert "There are no tables of the study gone" in chooser.problem.value and len(chooser.times)
    chooser.name.value = "quick"
    assert chooser.problem.value == ""
    with pytest.raises(UserError, match="no tables of the study gone"):
        explore.Chooser("gone")


def test_export_is_what_was_chosen(chooser, tmp_path):
    for kind, read in (("csv", pd.read_csv), ("parquet", pd.read_parquet)):
        file = explore.export(chooser.times, chooser.study, "Some times", tmp_path, kind)
        assert file == tmp_path / f"fixture/Some-times.{kind}" and list(read(file)["ms"]) == list(chooser.times["ms"])
    with pytest.raises(UserError, match=r"xlsx is not an export format: choose csv or parquet\."):
        explore.export(chooser.times, chooser.study, "a", tmp_path, "xlsx")


def test_notebook_runs_top_to_bottom_in_a_kernel(folder):
    """By nbval, as a researcher would check it; its own check of the numbers is part of it."""
    copy = folder / "notebooks/00-explore.ipynb"
    copy.write_text(NOTEBOOK.read_text())
    command = [BIN / "python", "-m", "pytest", "--nbval-lax", "-p", "no:cacheprovider", "-q", copy]
    done = subprocess.run(command, cwd=folder, env=os.environ, capture_output=True, text=True, check=False)
    cells = [cell for cell in nbformat.read(NOTEBOOK, as_version=4).cells if cell.cell_type == "code"]
    assert done.returncode == 0 and f"{len(cells)} passed" in done.stdout, done.stdout[-3000:]
    assert len(list((folder / "data/export/fixture").glob("*.csv"))) == 1
