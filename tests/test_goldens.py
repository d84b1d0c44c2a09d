"""Golden notebooks: what some notebooks show of a small study, through papermill's and nbval's kernels."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import make_goldens
import nbformat
import pytest
import run
from conftest import ROOT

pytestmark = pytest.mark.xdist_group("goldens")  # one worker: the tables are made once


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A checkout in which the goldens' study has its tables."""
    folder = tmp_path_factory.mktemp("goldens")
    make_goldens.prepare(folder)
    return folder


def nbval(project: Path, *names: str, path: Path | None = None) -> subprocess.CompletedProcess:
    """Run the goldens `names` in a checkout's notebooks, with the package in `path` before the installed one."""
    folder = project / "notebooks"
    for name in names:
        shutil.copy(make_goldens.GOLDENS / f"{name}.ipynb", folder)
    arguments = [sys.executable, "-m", "pytest", "--nbval", "--nbval-current-env", "--nbval-cell-timeout=300"]
    rules = [f"[{name}]\nregex: {a}\nreplace: {b}\n" for name, (a, b) in make_goldens.LEFT_OUT.items()]
    (folder / "sanitize.cfg").write_text("\n".join(rules))
    arguments += ["--nbval-sanitize-with=sanitize.cfg", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    arguments += [f"{name}.ipynb" for name in names]
    environment = os.environ | ({"PYTHONPATH": str(path)} if path else {})
    return subprocess.run(arguments, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_notebooks_give_what_their_goldens_say(project):
    done = nbval(project, *make_goldens.NAMES)
    assert done.returncode == 0, done.stdout[-4000:]


def test_a_changed_statistic_makes_a_golden_fail(project, tmp_path):
    package = tmp_path / "altered/reprofs"
    shutil.copytree(ROOT / "scripts/reprofs", package, ignore=shutil.ignore_patterns("__pycache__"))
    cells = package / "stats/cells.py"
    source = cells.read_text()
    assert source.count("x.std(axis=1, ddof=1)") == 1
    cells.write_text(source.replace("x.std(axis=1, ddof=1)", "x.std(axis=1, ddof=0)"))
    shutil.rmtree(project / "data/results", ignore_errors=True)  # else those that were saved are shown
    done = nbval(project, "statistics", path=package.parent)
    assert done.returncode == 1 and "Cell outputs differ" in done.stdout, done.stdout[-4000:]


def test_goldens_are_small_executed_and_from_the_sources():
    assert sorted(path.stem for path in make_goldens.GOLDENS.iterdir()) == sorted(make_goldens.NAMES)
    for name in make_goldens.NAMES:
        path = make_goldens.GOLDENS / f"{name}.ipynb"
        assert path.stat().st_size < 2**17
        golden, source = nbformat.read(path, as_version=4), nbformat.read(run.SOURCES / f"{name}.ipynb", as_version=4)
        injected = [cell for cell in golden.cells if "injected-parameters" not in cell.metadata.get("tags", [])]
        assert [cell.source for cell in injected] == [cell.source for cell in source.cells], "run tests/make_goldens.py"
        assert any(cell.get("outputs") for cell in golden.cells)


def test_the_notebooks_themselves_hold_no_results():
    for path in run.SOURCES.glob("*.ipynb"):
        cells = nbformat.read(path, as_version=4).cells
        assert all(cell.cell_type != "code" or not cell.outputs for cell in cells), f"{path.name}: strip it"
