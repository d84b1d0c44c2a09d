"""Make the golden notebooks again: fixture records, papermill, cleaned. Run after a wanted change of any output.

python tests/make_goldens.py [FOLDER]        default: tests/notebooks
"""

import contextlib
import re
import sys
import tempfile
from pathlib import Path

import nbformat
import papermill

sys.path.insert(0, str(Path(__file__).parent / "fixtures"))
import make
import run

# Pictures have tests of their own; here they would be most of the bytes. test_report.py compares without them.
PICTURE = (r"data:image/svg\+xml;base64,[A-Za-z0-9+/=]+", "data:image/svg+xml;base64,")
GOLDENS = Path(__file__).parent / "notebooks"
# Small, but with a failure, a time-out, a ceiling, two clocks, and enough contenders for the tests of ranks.
STUDY = {"systems": ["ext4", "xfs", "jfs", "nilfs2", "tmpfs"], "labs": ["exact", "host"]}


def prepare(folder: Path) -> None:
    """Fixture tables in `folder`/tables, where the goldens expect them when they run in `folder`, as in a checkout."""
    (folder / "workflow").symlink_to(run.SOURCES.parent / "workflow")
    make.make(folder, **STUDY)
    run.build(folder)


def main(output: Path) -> None:
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, contextlib.chdir(scratch):
        prepare(Path(scratch))
        for name in run.NAMES:
            parameters = {"study": "fixture", "tables": "tables", "results": "results", "figures": "figures"}
            source = run.SOURCES / f"{name}.ipynb"
            papermill.execute_notebook(
                source, f"{name}.ipynb", parameters, kernel_name="python3", progress_bar=False, execution_timeout=300
            )
            nbformat.write(clean(nbformat.read(f"{name}.ipynb", as_version=4)), output / f"{name}.ipynb")


def clean(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Without times, versions, paths and the data of pictures, so that making them twice gives the same bytes."""
    notebook.metadata = nbformat.NotebookNode(
        {"kernelspec": notebook.metadata["kernelspec"], "language_info": {"name": "python"}}
    )
    for number, cell in enumerate(notebook.cells):
        tags = cell.metadata.get("tags", [])
        cell.metadata = nbformat.NotebookNode({"tags": tags} if tags else {})
        cell.id = f"cell-{number:02d}"
        for output in cell.get("outputs", []):
            if "text/html" in output.get("data", {}):
                output.data["text/html"] = re.sub(*PICTURE, output.data["text/html"])
    return notebook


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else GOLDENS)
