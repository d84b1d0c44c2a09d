"""docs/CATALOG.md follows from the files of a checkout; `make lint` checks that the committed one does."""

import ast
import importlib.util
import re
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
KINDS = ["filesystems", "workloads", "stacks", "devices", "networks", "processors", "machines", "ages"]
FOLDERS = [f"workflow/{kind}" for kind in KINDS]
STUDY = "title: What is\n  this | that?\ncells: [{labs: [exact, host]}, {labs: [host]}]\nscale: smoke\n"


spec = importlib.util.spec_from_file_location("catalog_page", ROOT / "scripts/catalog.py")
program = importlib.util.module_from_spec(spec)
spec.loader.exec_module(program)


def catalog(folder, *options) -> str:
    """What the command says when it ends with an error; nothing when it ends well."""
    try:
        program.main(list(options), folder)
    except SystemExit as ending:
        return str(ending.code)
    return ""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("catalog")
    (folder / "docs").mkdir()
    for name in ("config/studies", "data/published", *FOLDERS):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("my-*"))
    assert not catalog(folder)
    return folder


@pytest.fixture
def copy(made, tmp_path):
    return shutil.copytree(made, tmp_path, dirs_exist_ok=True)


def test_a_new_study_is_a_row(copy):
    (copy / "config/studies/zero.yaml").write_text(STUDY)
    before = (copy / "docs/CATALOG.md").read_text()
    assert catalog(copy, "--check") == "docs/CATALOG.md is not current: run `make catalog`."
    assert (copy / "docs/CATALOG.md").read_text() == before
    assert not catalog(copy)
    row = "| [`zero`](../config/studies/zero.yaml) | What is this \\| that? | exact, host | smoke |  |\n"
    after = (copy / "docs/CATALOG.md").read_text()
    assert row in after and after.replace(row, "") == before
    assert not catalog(copy, "--check")


def test_what_is_the_users_own_is_no_row(copy):
    for name in ("config/studies", "workflow/workloads"):
        (copy / name / "my-program.yaml").write_text(STUDY)
    assert not catalog(copy, "--check")


def test_a_published_result_is_linked_with_its_time(copy):
    (copy / "results/quick").mkdir(parents=True)
    (copy / "results/quick/digests.json").write_text('{"host_hours": 0.125}')
    assert not catalog(copy)
    assert "| exact | smoke | [7.5 min](../results/quick/ABOUT.md) |\n" in (copy / "docs/CATALOG.md").read_text()


def test_only_a_study_with_expected_verdicts_has_a_row_of_them(copy):
    (copy / "config/studies/zero.yaml").write_text(STUDY + "published: plug-2020\n")
    assert not catalog(copy)
    assert "| [`zero`](../config/studies/zero.yaml) | plug-2020 |" not in (copy / "docs/CATALOG.md").read_text()
    with (copy / "config/studies/zero.yaml").open("a") as file:
        file.write("expected: {reproduced: [a, b], contradicted: [c]}\n")
    assert not catalog(copy)
    row = "| [`zero`](../config/studies/zero.yaml) | plug-2020 | 2 reproduced, 1 contradicted |\n"
    assert row in (copy / "docs/CATALOG.md").read_text()


def test_a_claim_that_two_studies_decide_is_one_decided_claim(copy):
    for path in (copy / "config/studies").glob("*.yaml"):
        path.unlink()
    study = f"{STUDY}published: plug-2020\nexpected: "
    (copy / "config/studies/one.yaml").write_text(study + "{reproduced: [a, b], undecided: [c]}\n")
    (copy / "config/studies/two.yaml").write_text(study + "{contradicted: [b, d], not decidable here: [c, e]}\n")
    assert not catalog(copy)
    lines = (copy / "docs/CATALOG.md").read_text().splitlines()
    (row,) = [line for line in lines if "published/plug-2020.yaml" in line]
    assert row.endswith(" | 3 |")  # a, b, d


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_file_of_a_kind_is_a_row_and_one_that_is_gone_is_none(copy, folder):
    gone, *others = sorted((copy / folder).glob("[!_.]*.yaml"))
    gone.unlink()
    assert "not current" in catalog(copy, "--check")
    assert not catalog(copy)
    page = (copy / "docs/CATALOG.md").read_text()
    assert f"(../{folder}/{gone.name})" not in page
    assert all(f"(../{folder}/{path.name})" in page for path in others)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [("question: No title?", "has no 'title'"), ("a: [", "cannot be read"), ("a", "cannot be read")],
)
def test_what_is_wrong_is_one_sentence(copy, text, sentence):
    (copy / "config/studies/zero.yaml").write_text(text)
    said = catalog(copy)
    assert said.startswith(f"config/studies/zero.yaml {sentence}") and "\n" not in said


def test_an_option_that_does_not_exist_shows_the_usage(copy):
    assert catalog(copy, "--chekc") == "usage: catalog.py [--check]"


def test_what_cannot_be_had_is_a_row_until_it_has_a_file(copy):
    listed = "| [`beegfs`](../workflow/filesystems/_unavailable.yaml) | BeeGFS | `default` | cannot be had |\n"
    assert listed in (copy / "docs/CATALOG.md").read_text()
    (copy / "workflow/filesystems/beegfs.yaml").write_text("title: Ours\nvariants: {here: {}}\n")
    assert not catalog(copy)
    page = (copy / "docs/CATALOG.md").read_text()
    assert "| [`beegfs`](../workflow/filesystems/beegfs.yaml) | Ours | `here` |  |\n" in page and listed not in page


def test_every_package_is_in_the_map_and_every_module_says_what_it_is():
    """CONTRIBUTING.md has the map; the first line of a module says what it is."""
    told = (ROOT / "CONTRIBUTING.md").read_text()
    packages = {path.parent.name for path in (ROOT / "scripts/reprofs").glob("*/__init__.py")}
    assert set(re.findall(r"^\| … `(\w+)/` \|", told, re.MULTILINE)) == packages
    modules = [path for path in (ROOT / "scripts/reprofs").rglob("*.py") if path.name != "__init__.py"]
    assert len(modules) > 200
    assert [path for path in modules if not (ast.get_docstring(ast.parse(path.read_text())) or "").strip()] == []
