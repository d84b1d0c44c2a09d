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

# Pictures have tests of their own, and how tables look is no number. test_goldens.py compares without both.
LEFT_OUT = {
    "pictures": (r"data:image/svg\+xml;base64,[A-Za-z0-9+/=]+", "data:image/svg+xml;base64,"),
    "styles": (r"<style[\s\S]*?</style>", "<style></style>"),
}
GOLDENS = Path(__file__).parent / "notebooks"
# Those that show the most; the others are run without a kernel by test_report.py.
NAMES = ["answer", "operations", "statistics"]
# Small, but with a failure, an upper bound, and enough contenders for the tests of ranks.
STUDY = {"systems": ["ext4", "xfs", "jfs", "tmpfs"], "workloads": ["metadata"]}
STUDY["failures"] = {("jfs", "metadata", 2): ("failed", "No space left on device.")}


def prepare(folder: Path) -> None:
    """Fixture tables in `folder`/data/tables/fixture, as in a checkout, for goldens that run in `folder`/notebooks."""
    (folder / "workflow").symlink_to(run.SOURCES.parent / "workflow")
    (folder / "notebooks").mkdir()
    make.make(folder, **STUDY)
    run.tables.build(folder / "plan.json", folder / "raw", folder / "data/tables/fixture")


def main(output: Path) -> None:
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        prepare(Path(scratch))
        with contextlib.chdir(Path(scratch) / "notebooks"):
            for name in NAMES:
                options = {"kernel_name": "python3", "progress_bar": False, "execution_timeout": 300}
                papermill.execute_notebook(run.SOURCES / f"{name}.ipynb", "made.ipynb", {"study": "fixture"}, **options)
                nbformat.write(clean(nbformat.read("made.ipynb", as_version=4)), output / f"{name}.ipynb")


def clean(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Without times, versions, paths, pictures and styles, so that making them twice gives the same bytes."""
    notebook.metadata = nbformat.NotebookNode(
        {"kernelspec": notebook.metadata["kernelspec"], "language_info": {"name": "python"}}
    )
    for number, cell in enumerate(notebook.cells):
        tags = cell.metadata.get("tags", [])
        cell.metadata = nbformat.NotebookNode({"tags": tags} if tags else {})
        cell.id = f"cell-{number:02d}"
        for output in cell.get("outputs", []):
            if "text/html" in output.get("data", {}):
                for pattern, instead in LEFT_OUT.values():
                    output.data["text/html"] = re.sub(pattern, instead, output.data["text/html"])
    return notebook


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else GOLDENS)
