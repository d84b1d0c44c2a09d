"""The notebooks as a researcher opens them: from the folder where they lie, with their own parameters."""

import base64
import re

import make
import nbformat
import pytest
from conftest import ROOT
from helpers import Late
from reprofs.data import tables

papermill = Late("papermill")


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A checkout in which the study quick has its tables."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "workflow").symlink_to(ROOT / "workflow")
    (folder / "notebooks").mkdir()
    make.make(folder, rounds=2, systems=["ext4", "xfs", "tmpfs"], workloads=["metadata"], failures={})
    tables.build(folder / "plan.json", folder / "raw", folder / "data/tables/quick")
    return folder


def shown(notebook: nbformat.NotebookNode) -> str:
    """The HTML of everything that a notebook shows."""
    cells = [output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", [])]
    return "".join(data.get("text/html", "") for data in cells)


def pictures(html: str) -> list[str]:
    """The SVG of each figure that is shown."""
    found = re.findall(r'<img [^>]*src="data:image/svg\+xml;base64,([^"]+)"', html)
    assert len(found) == html.count("<img"), "a picture is not in the notebook itself"
    return [base64.b64decode(data).decode() for data in found]


def test_they_run_where_they_lie_and_show_their_figures(project):
    """As in JupyterLab and VS Code, whose kernels start in the notebook's folder.

    One that shows figures, before there are statistics; then the one that writes these.
    """
    seen = {}
    for name in ("operations", "statistics"):
        output = project / "notebooks" / f"{name}.ipynb"
        options = {"kernel_name": "python3", "progress_bar": False, "execution_timeout": 300}
        papermill.execute_notebook(ROOT / "notebooks" / f"{name}.ipynb", output, cwd=str(output.parent), **options)
        seen[name] = shown(nbformat.read(output, as_version=4))
        assert (project / "data/results/quick").exists() == (name == "statistics")
    drawn = pictures(seen["operations"])
    assert len(drawn) == 2 and all(text.startswith("<?xml") and "</svg>" in text for text in drawn)
    assert seen["statistics"].count("<table") > 1 and not pictures(seen["statistics"])
    # What they wrote is where the workflow writes it, and not beside them.
    assert {path.name for path in (project / "data/results/quick").iterdir()} >= {"statistics.parquet", "ranks.parquet"}
    assert {path.suffix for path in (project / "notebooks").iterdir()} == {".ipynb"}
    assert {path.name for path in project.iterdir()} == {"data", "notebooks", "plan.json", "raw", "workflow"}
