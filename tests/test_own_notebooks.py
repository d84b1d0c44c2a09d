"""Notebooks of a study's own: the key `notebooks`, from the study's file to the report."""

import json
import os
import re
import subprocess

import make
import nbformat
import pytest
import run
from conftest import BIN, ROOT
from reprofs import sources
from reprofs.errors import UserError
from reprofs.plan.catalog import Catalog
from reprofs.plan.plan import Plan, read_plan
from reprofs.plan.study import Study
from reprofs.report import contents, execute, render
from reprofs.trial.planning import make_plan

QUICK = Catalog().get(Study, "quick").as_json()


def plan_with(notebooks) -> Plan:
    catalog = Catalog()
    catalog.add(Study, "own", QUICK | {"notebooks": notebooks})
    return make_plan("own", catalog)


def write(folder, name: str, *cells: str) -> None:
    cells = [nbformat.v4.new_code_cell(cell) for cell in cells]
    cells[0].metadata["tags"] = ["parameters"]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), folder / name)


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["gone.ipynb"], r"study own: notebooks names gone\.ipynb, which is not in notebooks/: add it there"),
        (["00-explore.ipynb"], r"notebooks\.0 is '00-explore\.ipynb', but must be the name of a file in notebooks/"),
        (["../mine.ipynb"], "must be the name of a file in notebooks/"),
        (["mine.py"], r"then \.ipynb"),
        ([], "must have at least 1"),
        (["a.ipynb", "a.ipynb"], "must name a.ipynb only once"),
        ("mine.ipynb", "must be of type list"),
    ],
)
def test_bad_names_are_told_when_the_study_is_planned(names, told):
    with pytest.raises(UserError, match=told):
        plan_with(names)


def test_a_study_without_has_no_key():
    assert make_plan("quick", Catalog()).study.notebooks is None


def test_it_runs_after_the_topics(tmp_path, monkeypatch):
    notebooks = tmp_path / "notebooks"
    notebooks.mkdir()
    for path in run.SOURCES.glob("*.ipynb"):
        (notebooks / path.name).symlink_to(path)
    write(notebooks, "mine.ipynb", 'study = "quick"', "import reprofs\nreprofs.open(study)")
    make.make(tmp_path, rounds=1, systems=["ext4"], workloads=["metadata"], failures={})
    plan = json.loads((tmp_path / "plan.json").read_text())
    plan["study"]["notebooks"] = ["mine.ipynb"]
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    plan = read_plan(tmp_path / "plan.json")
    names = [path.name for path in contents.notebooks(plan, notebooks)]
    assert names == [*(f"{topic.name}.ipynb" for topic in contents.topics(plan)), "mine.ipynb"] and len(names) > 5
    run.build(tmp_path)
    monkeypatch.setattr(run, "SOURCES", notebooks)
    executed = nbformat.read(run.execute(tmp_path, ["mine"]) / "mine.ipynb", as_version=4)
    assert "Study fixture" in executed.cells[1].outputs[0].data["text/plain"]


@pytest.mark.wide
def test_the_workflow_runs_it_and_the_report_has_it(checkout, edit_yaml, tmp_path):
    write(
        checkout / "notebooks",
        "my-notes.ipynb",
        'study = "quick"',
        "here = !pwd\n%matplotlib inline\nfrom reprofs.importers import fio",
    )
    edit_yaml(checkout / "config/studies/quick.yaml", lambda study: study.update(notebooks=["my-notes.ipynb"]))
    env = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "PYTHONPATH": str(checkout / "scripts")}

    def dry() -> subprocess.CompletedProcess:
        command = [BIN / "snakemake", "--cores", "1", "--dry-run", "--quiet", "host"]
        return subprocess.run(command, cwd=checkout, env=env, capture_output=True, text=True, check=False)

    done = dry()
    assert done.returncode == 0, done.stderr
    job = re.search(r"^rule notebook_my-notes:\n(.*?)\n\n", done.stdout, re.MULTILINE | re.DOTALL)[1]
    assert "input: notebooks/my-notes.ipynb, data/tables/quick" in job
    assert "scripts/reprofs/importers/fio.py" in job  # an edit of what it imports runs it again
    assert "output: report/quick/notebooks/my-notes.ipynb" in job
    report = re.search(r"^rule report:\n +input: (.*)\n", done.stdout, re.MULTILINE)[1]
    listed = re.findall(r"report/quick/notebooks/[\w-]+\.ipynb", report)
    assert listed[-1].endswith("my-notes.ipynb") and len(listed) > 5
    assert json.loads((checkout / "data/plan/quick.json").read_text())["study"]["notebooks"] == ["my-notes.ipynb"]

    write(checkout / "notebooks", "my-notes.ipynb", 'study = "quick"', "import import")
    done = dry()
    assert done.returncode != 0
    assert "notebooks/my-notes.ipynb: 'import import' is not valid Python" in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"cells": [{}]}'])
def test_what_is_no_notebook_is_told(text, tmp_path):
    (tmp_path / "mine.ipynb").write_text(text)
    with pytest.raises(UserError, match=r"mine\.ipynb is not a readable notebook: save it again in Jupyter"):
        sources.of(str(tmp_path / "mine.ipynb"))


def test_cells_of_magics_are_read():
    """Lines of IPython are no mistakes."""
    found = {path.stem for path in sources.of(str(ROOT / "notebooks/ranks.ipynb"))}
    assert {"show", "compare", "keys"} <= found and "exact" not in found


def test_an_ordinary_figure_of_matplotlib_is_in_the_report(tmp_path):
    """A PNG without a caption, as a kernel shows it, and a frame; what Python says of a mere object is not."""
    make.make(tmp_path, rounds=1, systems=["ext4"], workloads=["metadata"], failures={})
    run.build(tmp_path)
    source = "import matplotlib.pyplot as plt\nplt.plot([1, 2], [3, 4])"
    write(tmp_path, "mine.ipynb", 'study = "quick"', source, "import pandas\npandas.DataFrame({'a': [1]})")
    execute.execute_here(tmp_path / "mine.ipynb", str(tmp_path / "tables"), tmp_path / "out/mine.ipynb")
    render.render([tmp_path / "out/mine.ipynb"], tmp_path / "report", tmp_path / "tables")
    page = (tmp_path / "report/index.html").read_text()
    assert (tmp_path / "report/figures/mine-1.png").read_bytes().startswith(b"\x89PNG")
    assert 'src="data:image/png;base64,' in page and "Line2D" not in page and "<table" in page
    assert (tmp_path / "report/report.pdf").read_bytes().startswith(b"%PDF")
