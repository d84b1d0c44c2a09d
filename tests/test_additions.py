"""One of each more, in a copy of the checkout: the tests that find what there is find it too, and no test is edited."""

import json
import os
import shutil
import subprocess
import sys

import nbformat
import pytest
from conftest import ROOT

NEW = "newcomer"
# What a newcomer writes is mostly what another file has, under another name.
COPIES = {
    "workflow/filesystems": "jfs.yaml",
    "workflow/workloads": "metadata.yaml",
    "workflow/stacks": "md-raid0.yaml",
    "workflow/devices": "hdd-7200.yaml",
    "workflow/networks": "lan-1g.yaml",
    "workflow/processors": "v2-0.5ns.yaml",
    "workflow/kernels": "debian-6.1.yaml",
    "workflow/machines": "xeon-6-207.yaml",
    "workflow/trees": "mail.yaml",
    "data/published": "metadata-2019.yaml",
    "scripts/reprofs/importers": "compilebench.py",
}
LAB = '''"""A lab that is the exact one under another name."""

from reprofs.labs.exact import ExactLab


class Lab(ExactLab):
    name = "newcomer"
'''
STUDY = """title: A newcomer
question: Are all of them found?
labs: [newcomer]
stacks: [newcomer]
profiles: [newcomer]
filesystems: [newcomer, ext4]
workloads: [newcomer]
scale: smoke
rounds: 2
seed: 7
published: newcomer
cells:
  - {stacks: [newcomer]}
  - labs: [exact]
    processors: [newcomer]
    kernels: [newcomer]
    stacks: [single]
    filesystems: [nfs-ext4+v3-sync]
    networks: [newcomer]
"""
CELLS = [
    "import reprofs\n\nstudy = reprofs.open(study)",
    'reprofs.say(f"{len(study.trials)} trials.")',
    "assert len(study.trials)",
]
# Those that go through all files of a kind; and of every other test the cases that are there because of the new ones.
FILES = ["contents", "own_notebooks", "sources", "notebooks", "catalog", "importers", "published", "disks", "networks"]
TESTS = [
    "test_contents",
    "test_all_that_python_loads_is_there",
    "test_they_are_short_visible_and_hold_no_results",
    "test_schemas",
    "test_the_formats_read_here_are_there",
    "test_there_are_claims_of_every_kind",
    "test_studies_name_published_numbers_that_meet_theirs",
]
GUEST = "test_a_network_carries"  # needs minutes in a guest


def add(checkout) -> None:
    """One of each kind; the notebook in the middle of the report."""
    for folder, name in COPIES.items():
        source = checkout / folder / name
        shutil.copy(source, source.with_name(NEW + source.suffix))
    (checkout / "scripts/reprofs/labs/newcomer.py").write_text(LAB)
    (checkout / "config/studies/newcomer.yaml").write_text(STUDY)
    cells = [nbformat.v4.new_code_cell(cell) for cell in ('study = "quick"', *CELLS)]
    cells[0].metadata["tags"], cells[-1].metadata["tags"] = ["parameters"], ["notebook"]
    title = nbformat.v4.new_markdown_cell("# Newcomers")
    nbformat.write(nbformat.v4.new_notebook(cells=[title, *cells]), checkout / "notebooks/newcomer.ipynb")
    contents = checkout / "scripts/reprofs/report/contents.py"
    lines = contents.read_text().splitlines(keepends=True)
    (place,) = (number for number, line in enumerate(lines) if line.startswith('    Topic("operations"'))
    lines.insert(place, '    Topic("newcomer", "How many trials are there?", always),\n')
    contents.write_text("".join(lines))


@pytest.mark.wide
def test_one_of_each_more_is_found_and_fails_no_test(checkout):
    shutil.copytree(ROOT / "tests", checkout / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    add(checkout)
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    env["PYTHONPATH"] = str(checkout / "scripts")

    def run(*words) -> str:
        done = subprocess.run(
            [sys.executable, *words], cwd=checkout, env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
        return done.stdout

    run("-c", "from reprofs.cli import main; main()", "plan", NEW, "--output", "plan.json")
    plan = json.loads((checkout / "plan.json").read_text())
    found = {trial["id"] for trial in plan["trials"] if trial["round"] == 1}
    assert any(name.startswith("r1-newcomer") for name in found)  # the lab
    assert any(
        name.startswith("r1-exact@newcomer@newcomer-single-newcomer-nfs-ext4+v3-sync@newcomer-newcomer-")
        for name in found
    )
    assert any("-newcomer-newcomer-newcomer+default-newcomer-" in name for name in found)
    chosen = f"({NEW} or {' or '.join(TESTS)}) and not {GUEST}"
    told = run("-m", "pytest", "-q", "-rA", "-k", chosen, *(f"tests/test_{name}.py" for name in FILES))
    passed = [line for line in told.splitlines() if line.startswith("PASSED")]
    for name in ("test_contents", "test_catalog", "test_importers", "test_published"):
        assert any(f"{name}.py" in line and NEW in line for line in passed), name
