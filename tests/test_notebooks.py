"""The notebooks as a researcher opens them: from the folder where they lie, with their own parameters."""

import base64
import re

import make
import nbformat
import papermill
import pytest
from conftest import ROOT
from reprofs import dataset

SOURCES = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A checkout in which the study quick has its tables."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "workflow").symlink_to(ROOT / "workflow")
    (folder / "notebooks").mkdir()
    make.make(folder, rounds=2, systems=["ext4", "xfs", "tmpfs"], workloads=["metadata"], failures={})
    dataset.build(folder / "plan.json", folder / "raw", folder / "data/tables/quick")
    return folder


def pictures(notebook: nbformat.NotebookNode) -> list[str]:
    """The SVG of each figure that is shown."""
    shown = [
        output.get("data", {}).get("text/html", "") for cell in notebook.cells for output in cell.get("outputs", [])
    ]
    found = re.findall(r'<img [^>]*src="data:image/svg\+xml;base64,([^"]+)"', "".join(shown))
    assert len(found) == "".join(shown).count("<img"), "a picture is not in the notebook itself"
    return [base64.b64decode(data).decode() for data in found]


def test_they_run_where_they_lie_and_show_their_figures(project):
    """As in JupyterLab and VS Code, whose kernels start in the notebook's folder, and in the order of their names."""
    for source in SOURCES:
        if source.stem in ("04-published", "06-agreement"):  # this study has nothing published, and one lab
            continue
        output = project / "notebooks" / source.name
        options = {"kernel_name": "python3", "progress_bar": False, "execution_timeout": 300}
        papermill.execute_notebook(source, output, cwd=str(output.parent), **options)
        shown = pictures(nbformat.read(output, as_version=4))
        if source.stem in ("03-figures", "05-report"):
            assert shown and all(text.startswith("<?xml") and "</svg>" in text for text in shown)
    # What they wrote is where the workflow writes it, and not beside them.
    assert {path.name for path in (project / "data/results/quick").iterdir()} >= {"statistics.parquet", "ranks.parquet"}
    assert list((project / "report/quick/figures").glob("*.svg"))
    assert {path.suffix for path in (project / "notebooks").iterdir()} == {".ipynb"}
