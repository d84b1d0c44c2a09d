"""Notebooks of a study's own: the key `notebooks`, from the study's file to the report."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import make
import nbformat
import pytest
import run
from conftest import BIN, ROOT
from helpers import Late
from reprofs import files, sources
from reprofs.errors import UserError
from reprofs.plan.catalog import Catalog
from reprofs.plan.plan import Plan, read_plan
from reprofs.plan.study import Study
from reprofs.report import contents, execute
from reprofs.trial.planning import make_plan

render = Late("reprofs.report.render")

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
    found = {path.stem for path in sources.of(str(ROOT / "notebooks/operations.ipynb"))}
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


ENDS = {
    "while True: pass": "a cell took more than 3 s, and was ended: make it faster",
    "import os; os._exit(1)": "its kernel died in a cell",
    "print('x' * 10**6 * 25)": "has printed 20 MB, and was ended: print less",
    "import itertools\nfor n in itertools.count(): print('x' * 1000)": "has printed 20 MB, and was ended: print less",
    "from IPython.display import HTML\nHTML('x' * 10**6 * 25)": "shows 25 MB, at most 20 MB are allowed: print less",
    "import matplotlib.pyplot as plt; plt.plot([1]); plt.ylim(float('nan'), 1)": "Axis limits cannot be NaN or Inf",
    "raise ValueError('x' * 1000)": "a cell failed with ValueError: xxx",
}


@pytest.mark.wide
@pytest.mark.parametrize("cell", ENDS)
def test_a_notebook_that_cannot_be_shown_ends_with_one_sentence(cell, tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(execute, "CELL_S", 3 if "while" in cell else execute.CELL_S)
    write(tmp_path, "mine.ipynb", 'study = "quick"', cell)
    with pytest.raises(UserError) as told:
        execute.execute(tmp_path / "mine.ipynb", "quick", tmp_path / "log.ipynb", tmp_path / "out.ipynb")
    assert ENDS[cell] in str(told.value) and "mine.ipynb" in str(told.value)
    assert len(str(told.value)) - len(str(tmp_path)) * 2 < 300
    assert not (tmp_path / "out.ipynb").exists() and "Traceback" not in capfd.readouterr().err


def test_a_figure_that_cannot_be_drawn_here_is_one_sentence(tmp_path):
    """And is no figure of the next cell."""
    source = "import matplotlib.pyplot as plt\nplt.plot([float('nan')] * 2)"
    for name, size in (("huge", 10**5), ("nothing", 5)):
        write(tmp_path, f"{name}.ipynb", 'study = "quick"', f"{source}\nplt.gcf().set_size_inches({size}, {size})")
    with pytest.raises(UserError, match=r"huge\.ipynb: a figure cannot be drawn: Image size of"):
        execute.execute_here(tmp_path / "huge.ipynb", "quick", tmp_path / "out.ipynb")
    execute.execute_here(tmp_path / "nothing.ipynb", "quick", tmp_path / "out.ipynb")
    assert sum("image/png" in str(cell) for cell in nbformat.read(tmp_path / "out.ipynb", 4).cells) == 1


def test_other_pictures_and_wide_tables_fit_a_phone_and_the_paper(tmp_path):
    make.make(tmp_path, rounds=1, systems=["ext4"], workloads=["metadata"], failures={})
    run.build(tmp_path)
    svg = '<svg xmlns="http://www.w3.org/2000/svg" width="1000" height="9"><script>1</script><path d="M0 0h9"/></svg>'
    jpeg = "import io, matplotlib.pyplot as plt\nfrom IPython.display import SVG, Image\nfile = io.BytesIO()\n"
    jpeg += (
        "plt.plot([1, 2])\nplt.savefig(file, format='jpeg')\nplt.close()\nImage(data=file.getvalue(), format='jpeg')"
    )
    frame = "import pandas\npandas.DataFrame({f'column{i}': [1.234567] for i in range(14)})"
    write(tmp_path, "mine.ipynb", 'study = "quick"', jpeg, f"SVG({svg!r})", frame)
    execute.execute_here(tmp_path / "mine.ipynb", str(tmp_path / "tables"), tmp_path / "out/mine.ipynb")
    render.render([tmp_path / "out/mine.ipynb"], tmp_path / "report", tmp_path / "tables")
    page = (tmp_path / "report/index.html").read_text()
    assert {path.name for path in (tmp_path / "report/figures").iterdir()} == {"mine-1.jpeg", "mine-2.svg"}
    assert (
        'src="data:image/jpeg;base64,' in page and 'src="data:image/svg+xml;base64,' in page and "<script" not in page
    )
    assert page.count('style="max-width: 100%; height: auto"') == 2
    assert re.search(r'<div class="scroll" tabindex="0" role="region" aria-label="Table">\s*<table', page)
    assert (tmp_path / "report/report.pdf").read_bytes().startswith(b"%PDF")


def test_the_last_report_stays_where_the_next_cannot_be_made_or_written(tmp_path, monkeypatch):
    make.make(tmp_path, rounds=1, systems=["ext4"], workloads=["metadata"], failures={})
    run.build(tmp_path)
    out = tmp_path / "out/mine.ipynb"

    def again(*cells: str) -> None:
        write(tmp_path, "mine.ipynb", 'study = "quick"', *cells)
        execute.execute_here(tmp_path / "mine.ipynb", str(tmp_path / "tables"), out)
        render.render([out], tmp_path / "report", tmp_path / "tables")

    def state() -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in (tmp_path / "report").rglob("*") if path.is_file()}

    again("import matplotlib.pyplot as plt\nplt.plot([1, 2])")
    good = state()
    assert len(good) == 3
    with pytest.raises(UserError, match="The PDF cannot be made: failed to decode image"):
        again("from IPython.display import Image\nImage(data=b'\\x89PNG broken', format='png')")
    assert state() == good
    whole = files.write_bytes

    def full(path, data):
        if path.name == "report.pdf":
            raise UserError(f"{path} cannot be written: No space left on device; free space or choose another folder.")
        whole(path, data)

    monkeypatch.setattr(files, "write_bytes", full)
    with pytest.raises(UserError, match="No space left"):
        again("print(1)\n2")
    assert state() == good
    monkeypatch.undo()
    again("3")
    assert len(state()) == 2


@pytest.mark.wide
def test_the_workflow_keeps_the_last_report_of_a_notebook_that_broke(checkout, tmp_path):
    """Snakemake removes what a rule makes before it runs, unless told."""
    make.make(tmp_path, rounds=1, systems=["ext4"], workloads=["metadata"], failures={})
    run.build(tmp_path)
    shutil.copytree(tmp_path / "tables", checkout / "data/tables/quick")
    folder = checkout / "report/quick"
    (folder / "notebooks").mkdir(parents=True)
    for topic in contents.notebooks(make_plan("quick", Catalog()), ROOT / "notebooks"):
        cell = nbformat.v4.new_markdown_cell(f"# {topic.stem}")
        nbformat.write(nbformat.v4.new_notebook(cells=[cell]), folder / "notebooks" / topic.name)
    env = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "PYTHONPATH": str(checkout / "scripts")}
    command = [BIN / "snakemake", "--cores", "1", "--allowed-rules", "report", "--rerun-triggers", "mtime"]
    command += ["--config", "study=quick", "--"]

    def report() -> subprocess.CompletedProcess:
        words = [*command, "report/quick/index.html"]
        return subprocess.run(words, cwd=checkout, env=env, capture_output=True, text=True, check=False)

    done = report()
    assert done.returncode == 0, done.stderr
    good = {name: (folder / name).read_bytes() for name in ("index.html", "report.pdf")}
    broken = folder / "notebooks" / topic.name
    broken.write_text("{}")
    done = report()
    assert done.returncode and f"{broken.relative_to(checkout)} is not a notebook" in done.stderr + done.stdout
    assert good == {name: (folder / name).read_bytes() for name in good} and (folder / "figures").is_dir()


def test_kernels_that_start_together_have_sockets_of_their_own():
    # Of two that choose ports, one can take the other's. A socket's path has 107 bytes at most.
    folder = Path("/tmp/work-a")
    assert execute._sockets(folder) == {"KernelManager": {"transport": "ipc", "ip": "/tmp/work-a/kernel"}}
    for long in "b" * 90, "ü" * 45:
        assert execute._sockets(folder / long) == {"KernelManager": {}}
