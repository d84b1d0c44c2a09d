"""The notebooks as a researcher opens them: visible statistics, of a published study, run in a fresh clone."""

import re

import make
import nbformat
import pytest
import run
from conftest import ROOT
from helpers import Late
from reprofs.data import published
from reprofs.plan.plan import read_plan
from reprofs.report import contents
from reprofs.report.execute import execute_here

papermill = Late("papermill")

NOTEBOOKS = {path.stem: path for path in sorted((ROOT / "notebooks").glob("*.ipynb"))}
published_here = pytest.mark.skipif(not (ROOT / "results").is_dir(), reason="nothing is published in this checkout")
CELLS, LINES, LONGEST = 14, 20, 120  # cells of code; lines as ruff writes them


def cells(name: str) -> list[nbformat.NotebookNode]:
    return nbformat.read(NOTEBOOKS[name], as_version=4).cells


def tags(cell) -> list[str]:
    return cell.metadata.get("tags", [])


def own_study(name: str) -> str:
    """The study that a notebook names."""
    (cell,) = [cell for cell in cells(name) if "parameters" in tags(cell)]
    return re.search(r'^study = "([\w-]+)"', cell.source, re.MULTILINE)[1]


def test_they_are_short_visible_and_hold_no_results():
    wrong = []
    for name in NOTEBOOKS:
        found = cells(name)
        wrong += [f"{name}: too many cells"] * (sum(c.cell_type == "code" for c in found) > CELLS)
        for number, cell in enumerate(found):
            lines = cell.source.splitlines()
            wrong += [f"{name}, cell {number}: {len(lines)} lines"] * (len(lines) > LINES)
            wrong += [f"{name}, cell {number}: outputs"] * bool(cell.get("outputs"))
            wrong += [f"{name}, cell {number}: a template"] * ("%%" in cell.source)
            wrong += [f"{name}, cell {number}: a long line"] * any(len(line) > LONGEST for line in lines)
    assert wrong == []


def test_each_checks_its_numbers_against_the_tested_statistics():
    without = [
        name for name in NOTEBOOKS if not any("assert " in c.source for c in cells(name) if "notebook" in tags(c))
    ]
    assert without == []


@published_here
@pytest.mark.parametrize("name", [topic.name for topic in contents.CONTENTS if topic.name != contents.BESIDE])
def test_each_names_a_study_with_its_subject(name):
    plan = read_plan(published.tables(own_study(name)).with_name("plan.json"))
    (topic,) = [topic for topic in contents.CONTENTS if topic.name == name]
    assert topic.applies(plan)


@pytest.mark.wide
@published_here
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_each_runs_whole_in_a_fresh_clone(name, tmp_path):
    """Without a run: its study is opened from its published records."""
    execute_here(NOTEBOOKS[name], str(published.tables(own_study(name))), tmp_path / "executed.ipynb")


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A checkout in which the study quick has its tables."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "workflow").symlink_to(ROOT / "workflow")
    (folder / "notebooks").mkdir()
    make.make(folder, rounds=2, systems=["ext4", "xfs", "tmpfs"], workloads=["metadata"], failures={})
    run.build(folder, results=False)
    (folder / "data/tables").mkdir(parents=True)
    (folder / "tables").rename(folder / "data/tables/quick")
    return folder


@pytest.mark.wide
def test_they_run_where_they_lie_and_show_their_figures(project):
    """As in JupyterLab and VS Code, whose kernels start in the notebook's folder."""
    output = project / "notebooks/operations.ipynb"
    options = {"kernel_name": "python3", "progress_bar": False, "execution_timeout": 300}
    papermill.execute_notebook(NOTEBOOKS["operations"], output, cwd=str(output.parent), **options)
    shown = [
        one.get("data", {}) for cell in nbformat.read(output, as_version=4).cells for one in cell.get("outputs", [])
    ]
    assert sum('src="data:image/svg+xml' in data.get("text/html", "") for data in shown) >= 3
    # To look at a study writes nothing.
    assert {path.name for path in project.iterdir()} == {"data", "notebooks", "plan.json", "raw", "workflow"}
