"""The answer of a study as text: page one's sentences and tables in their order."""

import re

import make
import pytest
import run
from helpers import Late

text = Late("reprofs.report.text")

pytestmark = pytest.mark.xdist_group("report")


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """A study like quick, and the executed notebook of its answer."""
    folder = tmp_path_factory.mktemp("quick")
    make.make(folder, systems=["ext4", "xfs", "btrfs", "tmpfs"], workloads=["metadata"], failures={})
    study = run.build(folder)
    return study, [run.execute(folder, ["answer"]) / "answer.ipynb"]


@pytest.mark.wide
def test_every_file_system_has_a_line_the_fastest_first_baselines_last(quick):
    study, executed = quick
    lines = text.text(study, executed).splitlines()
    (start,) = [number for number, line in enumerate(lines) if line.startswith("  file system ")]
    contenders = study.results.totals.query("role == 'contender'").sort_values("geometric_mean_ns")
    rows = [re.split(r"\s{2,}", line.strip()) for line in lines[start + 2 : start + 3 + len(contenders)]]
    assert [row[0] for row in rows] == [*contenders["label"], "tmpfs"]
    assert rows[0][-1] in ("fastest", "not significantly different", "equally fast") and rows[-1][-1] == "baseline"
    for row, ns in zip(rows, contenders["geometric_mean_ns"], strict=False):
        low, _, high = row[2].replace(",", "").split()
        assert float(row[1].replace(",", "")) == pytest.approx(ns / 1e6, rel=1e-3)
        assert float(low) < ns / 1e6 < float(high)


def test_it_is_plain_text_of_a_terminal(quick):
    found = text.text(*quick)
    assert found.startswith(f"Demonstration: {quick[0].plan.study.question}")
    assert "is fastest" in found and "counted instructions" in found
    assert not {mark for mark in ("**", "<", "](", "{#", "Question and answer", "Markdown object") if mark in found}
    assert max(map(len, found.splitlines()[1:])) <= 110
    assert len(found[: found.index("  file system ")].split()) <= 90  # the answer comes first


def test_a_study_without_a_result_says_so(tmp_path):
    make.make(tmp_path, systems=["tmpfs"], workloads=["metadata"], failures={})
    study = run.build(tmp_path)
    assert "At scale" not in text.text(study, [run.execute(tmp_path, ["answer"]) / "answer.ipynb"])


@pytest.mark.wide
def test_what_a_study_asks_above_all_is_told_first(tmp_path):
    make.make(tmp_path, systems=["ext4", "xfs", "tmpfs"], labs=["exact", "host"], workloads=["metadata"], failures={})
    study = run.build(tmp_path)
    place = run.execute(tmp_path, ["answer", "labs"])
    found = text.text(study, [place / "answer.ipynb", place / "labs.ipynb"], ["labs"])
    assert "is fastest" not in found and found.count("\n  file system ") == 0  # that is in a part of its own
