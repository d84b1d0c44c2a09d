"""The modules that a stage follows from: as many as Python loads for it, in any way of writing an import."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT
from reprofs import sources

STAGES = [*map(str, sorted((ROOT / "notebooks").glob("*.ipynb"))), "reprofs.data.tables", "reprofs.report.render"]


# In one process, which has the large libraries loaded: each stage is imported in a child of its own.
CHILDREN = """
import json, os, sys
import jsonschema, markdown_it, matplotlib.pyplot, nbformat, pandas, pyarrow.parquet, scipy.stats, seaborn, yaml
from IPython.core.interactiveshell import InteractiveShell
get_ipython = InteractiveShell.instance
get_ipython()
for name, code in json.load(sys.stdin).items():
    sys.stdout.flush()
    if os.fork() == 0:
        exec(code, {"get_ipython": get_ipython})
        print(name, *[m.__file__ for n, m in sys.modules.items() if n.partition(".")[0] == "reprofs"], sep="\\t")
        sys.stdout.flush()
        os._exit(0)
    assert os.wait()[1] == 0, name
"""


def imports(stage: str) -> str:
    """The lines of a module or notebook that import; a notebook loads the package's extension and opens a study too."""
    if not stage.endswith(".ipynb"):
        return f"import {stage}"
    cells = json.loads(Path(stage).read_text())["cells"]
    code = ("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    lines = [line for source in code for line in source.splitlines()]
    loads = "import reprofs\nreprofs.load_ipython_extension(get_ipython())\nreprofs.open\n"
    return loads + "\n".join(line for line in lines if line.startswith(("import ", "from ")))


@pytest.mark.wide
def test_all_that_python_loads_is_there():
    """Imports inside functions come on top of that; nothing that runs in a lab is among them."""
    code = json.dumps({stage: imports(stage) for stage in STAGES})
    done = subprocess.run([sys.executable, "-c", CHILDREN], input=code, capture_output=True, text=True, check=True)
    loaded = {name: {Path(path) for path in paths} for name, *paths in map(str.split, done.stdout.splitlines())}
    assert len(loaded) == len(STAGES) > 6
    for stage in STAGES:
        found = set(sources.of(stage))
        assert loaded[stage] and loaded[stage] <= found, stage
        assert not {path.name for path in found} & {"run.py", "job.py", "_qemu.py", "image.py", "exact.py", "cli.py"}


@pytest.mark.parametrize(
    ("code", "package", "names"),
    [
        ("import reprofs.labs.exact", "reprofs", ["__init__", "labs/__init__", "labs/exact"]),
        ("import reprofs.stats.cells as s, os", "", ["__init__", "stats/__init__", "stats/cells"]),
        ("from reprofs import stats, errors", "", ["__init__", "errors", "stats/__init__"]),
        ("from reprofs.errors import UserError", "", ["__init__", "errors"]),
        ("from . import stats", "reprofs", ["__init__", "stats/__init__"]),
        ("from .importers import fio, Malformed", "reprofs", ["__init__", "importers/__init__", "importers/fio"]),
        ("def f():\n    from .. import files", "reprofs.importers", ["__init__", "files"]),
        ("from ..errors import UserError", "reprofs.importers", ["__init__", "errors"]),
        ("from . import fio", "reprofs.importers", ["__init__", "importers/__init__", "importers/fio"]),
        ("import pandas", "reprofs", []),
    ],
)
def test_every_way_to_import(code, package, names):
    found = sources._imports(code, package)
    assert sorted(str(path.relative_to(sources.PACKAGE).with_suffix("")) for path in found) == names


def test_a_trial_waits_for_nothing_that_it_does_not_use():
    code = "import sys, reprofs.cli, reprofs.guest.image, reprofs.trial.run, reprofs.labs.exact; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    idle = {"reprofs.plan.plan", "reprofs.plan.published", "reprofs.trial.planning", "reprofs.report"}
    idle |= {"http.client", "ssl", "urllib.request", "concurrent.futures", "jsonschema", "numpy", "pandas"}
    assert not idle & set(done.stdout.split())


def test_pydantic_compiles_no_annotations_again():
    """Those of a module with this import are texts, which it compiles one by one in every process."""
    modules = list((ROOT / "scripts/reprofs/plan").glob("*.py"))
    text = "from __future__ import annotations"
    assert len(modules) > 20 and not [path.name for path in modules if f"\n{text}\n" in path.read_text()]
