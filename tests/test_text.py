"""The answer of a study as text: page one's sentences in their order, and the totals that its figure draws."""

import make
import pytest
import run
from reprofs.report import text

pytestmark = pytest.mark.xdist_group("report")


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """A study like quick, and the executed notebook of its answer."""
    folder = tmp_path_factory.mktemp("quick")
    make.make(folder, systems=["ext4", "xfs", "btrfs", "tmpfs"], workloads=["metadata"], failures={})
    study = run.build(folder)
    return study, [run.execute(folder, ["answer"]) / "answer.ipynb"]


def test_every_file_system_has_a_line_the_cheapest_first_bounds_last(quick):
    study, executed = quick
    lines = text.text(study, executed).splitlines()
    (start,) = [number for number, line in enumerate(lines) if line.startswith("    metadata (smoke) ")]
    contenders = study.results.totals.query("role == 'contender'").sort_values("geometric_mean_ns")
    rows = [line.split() for line in lines[start + 1 : start + 2 + len(contenders)]]
    assert [row[0] for row in rows] == [*contenders["label"], "tmpfs"]
    assert rows[0][5:] == ["1"] and rows[-1][5:] == ["upper", "bound"]
    for row, ns in zip(rows, contenders["geometric_mean_ns"], strict=False):
        assert float(row[1].replace(",", "")) == pytest.approx(ns / 1e6, rel=1e-3)
        low, high = float(row[2]), float(row[4])
        assert low < float(row[1]) < high
    ratio = contenders["geometric_mean_ns"].iloc[1] / contenders["geometric_mean_ns"].iloc[0]
    assert float(rows[1][5]) == pytest.approx(ratio, abs=0.006)


def test_it_is_plain_text_of_a_terminal(quick):
    found = text.text(*quick)
    assert found.startswith(quick[0].plan.study.question + "\n\n")
    assert "is the cheapest" in found and "counted instructions" in found
    assert not {mark for mark in ("**", "<", "](", "What each workload costs", "Markdown object") if mark in found}
    assert max(map(len, found.splitlines())) <= 96


def test_a_study_without_a_result_says_so(tmp_path):
    make.make(tmp_path, systems=["tmpfs"], workloads=["metadata"], failures={})
    study = run.build(tmp_path)
    assert "The study has no contender" in text.text(study, [run.execute(tmp_path, ["answer"]) / "answer.ipynb"])


def test_what_a_study_asks_above_all_is_told_first(tmp_path):
    make.make(tmp_path, systems=["ext4", "xfs", "tmpfs"], labs=["exact", "host"], workloads=["metadata"], failures={})
    study = run.build(tmp_path)
    place = run.execute(tmp_path, ["answer", "labs"])
    found = text.text(study, [place / "answer.ipynb", place / "labs.ipynb"], ["labs"])
    # A table of each lab stands where its figure does.
    assert 0 < found.index("same order") < found.index("    metadata (smoke)   ")
    assert found.count("\n    metadata (smoke)   ") == 2
