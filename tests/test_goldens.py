"""Goldens: what some notebooks show of a small study, to the letter; and notebooks hold no results themselves."""

import make_goldens
import nbformat
import run


def test_notebooks_show_what_their_goldens_say(tmp_path):
    found = make_goldens.texts(tmp_path)
    assert sorted(path.stem for path in make_goldens.GOLDENS.iterdir()) == sorted(found)
    for name, text in found.items():
        golden = (make_goldens.GOLDENS / f"{name}.txt").read_text()
        assert text.splitlines() == golden.splitlines(), f"{name}: if it is wanted, run tests/make_goldens.py"


def test_the_notebooks_themselves_hold_no_results():
    for path in run.SOURCES.glob("*.ipynb"):
        cells = nbformat.read(path, as_version=4).cells
        assert all(cell.cell_type != "code" or not cell.outputs for cell in cells), f"{path.name}: strip it"
