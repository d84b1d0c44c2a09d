"""README's tables of studies, published studies, verdicts and workloads follow from their files."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
STUDY = "question: What is\n  this | that?\ncells: [{labs: [exact, host]}, {labs: [host]}]\n"


def readme(folder, *options):
    command = [sys.executable, folder / "scripts/readme.py", *options]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.fixture
def copy(tmp_path):
    for name in ("config/studies", "data/published", "workflow/workloads"):
        shutil.copytree(ROOT / name, tmp_path / name)
    for name in ("README.md", "scripts/readme.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def test_the_readme_is_current():
    done = readme(ROOT, "--check")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_new_study_is_a_row(copy):
    (copy / "config/studies/zero.yaml").write_text(STUDY)
    before = (copy / "README.md").read_text()
    done = readme(copy, "--check")
    assert (done.returncode, done.stderr) == (1, "README.md is not current: run `make readme`.\n")
    assert (copy / "README.md").read_text() == before
    assert readme(copy).returncode == 0
    row = "| [`zero`](config/studies/zero.yaml) | What is this \\| that? | exact, host |\n"
    after = (copy / "README.md").read_text()
    assert row in after and after.replace(row, "") == before
    assert readme(copy, "--check").returncode == 0


def test_only_a_study_with_expected_verdicts_has_a_row_of_them(copy):
    (copy / "config/studies/zero.yaml").write_text(STUDY + "published: plug-2020\n")
    assert readme(copy).returncode == 0
    assert "| [`zero`](config/studies/zero.yaml) | plug-2020 |" not in (copy / "README.md").read_text()
    with (copy / "config/studies/zero.yaml").open("a") as file:
        file.write("expected: {reproduced: [a, b], contradicted: [c]}\n")
    assert readme(copy).returncode == 0
    row = "| [`zero`](config/studies/zero.yaml) | plug-2020 | 2 | 0 | 1 | 0 | 0 |\n"
    assert row in (copy / "README.md").read_text()


def test_a_workload_that_is_gone_is_no_row(copy):
    (copy / "workflow/workloads/mdtest.yaml").unlink()
    assert readme(copy, "--check").returncode == 1
    assert readme(copy).returncode == 0
    assert "workloads/mdtest.yaml" not in (copy / "README.md").read_text()


@pytest.mark.parametrize(
    ("file", "text", "sentence"),
    [
        ("README.md", "<!-- studies -->\n<!-- end -->\n", "README.md has no lines <!-- published --> and <!-- end -->"),
        ("config/studies/zero.yaml", "title: no question", "config/studies/zero.yaml has no 'question'"),
        ("config/studies/zero.yaml", "a: [", "config/studies/zero.yaml cannot be read"),
        ("config/studies/zero.yaml", "a", "config/studies/zero.yaml cannot be read"),
    ],
)
def test_what_is_wrong_is_one_sentence(copy, file, text, sentence):
    (copy / file).write_text(text)
    done = readme(copy)
    assert done.returncode == 1 and done.stderr.startswith(sentence) and done.stderr.count("\n") == 1
    assert readme(copy, "--chekc").stderr == "usage: readme.py [--check]\n"
