"""The report: complete, self-contained, numbered, the same bytes; true for any study; goldens hold the notebooks."""

import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import nbformat
import pytest
from reprofs import report, words
from reprofs.errors import UserError

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent / "fixtures"))
import make
import make_goldens
import run

ROOT = Path(__file__).parents[1]


class Page(HTMLParser):
    """Ids, targets of links and everything a browser would fetch."""

    def __init__(self, text: str):
        super().__init__()
        self.ids, self.targets, self.fetched, self.tags = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        named = dict(attributes)
        self.tags.append(tag)
        if "id" in named:
            self.ids.append(named["id"])
        if tag == "a":
            self.targets.append(named.get("href", ""))
        elif tag not in ("use", "path"):
            self.fetched += [named[key] for key in ("src", "href", "srcset", "data", "poster") if key in named]


def rendered(folder: Path, **options) -> str:
    """Text of index.html of a fixture study made with `options`."""
    make.make(folder, **options)
    run.build(folder)
    report.render(run.execute(folder), folder / "report", folder / "tables/study.json")
    return (folder / "report/index.html").read_text()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("report")


@pytest.fixture(scope="module")
def page(folder):
    return rendered(folder, systems=["ext4", "xfs", "btrfs", "jfs", "nilfs2", "tmpfs"])


def test_it_fetches_nothing(page):
    parsed = Page(page)
    assert parsed.fetched == ["data:,"]  # the empty icon, which keeps browsers from asking for one
    assert "script" not in parsed.tags and "iframe" not in parsed.tags and "img" not in parsed.tags
    assert not re.search(r"url\((?!#)|@import", page)
    assert parsed.tags.count("svg") == page.count("<figcaption><strong>Figure")


def test_ids_are_unique_and_links_arrive(page):
    parsed = Page(page)
    assert len(parsed.ids) == len(set(parsed.ids))
    inside = [target[1:] for target in parsed.targets if target.startswith("#")]
    assert inside and set(inside) <= set(parsed.ids)
    assert not re.search(r'<a href="#[^"]*"></a>', page)


@pytest.mark.parametrize("kind", ["Figure", "Table"])
def test_captions_are_numbered_in_order(page, kind):
    numbers = [int(number) for number in re.findall(rf"<strong>{kind} (\d+)\.</strong>", page)]
    assert numbers == list(range(1, len(numbers) + 1)) and len(numbers) > 3


def test_the_reader_finds_everything(page):
    text = re.sub(r"<[^>]+>", "", page)
    for part in (
        "Which of seven file systems should hold many small files?",  # question
        "has the best mean rank",  # answer
        "Appendix A. Quality",
        "Appendix B. Statistics",
        "mkfs.btrfs -q /dev/nullb0",  # how it was made
        "compress=zstd:3",  # as read back
        "unmounted, caches dropped, mounted again",
        "not measurement noise",
        "cannot reject at 5",  # what three rounds cannot show
        "No space left on device",  # the failure
        "The guest gave no result within 120",  # the time-out
        "reprofs trial --lab exact --filesystem",
        "make report",
        "7.2.22",
        "seeds 20260101 to 20260103",
    ):
        assert part in text.replace("\N{NO-BREAK SPACE}", " "), part
    assert "currentColor" in page and "prefers-color-scheme: dark" in page and 'name="viewport"' in page


def test_tables_scroll_and_code_folds(page):
    parsed = Page(page)
    assert page.count('<div class="scroll"') == page.count("<figure")
    assert parsed.tags.count("table") == page.count('class="table"') > 10
    assert page.count('<details class="code">') > 3


def test_the_pdf_and_the_html_have_the_same_bytes_again(folder, page):
    pdf = (folder / "report/report.pdf").read_bytes()
    assert pdf.startswith(b"%PDF")
    report.render(folder / "report/notebooks", folder / "again", folder / "tables/study.json")
    assert (folder / "again/report.pdf").read_bytes() == pdf
    assert (folder / "again/index.html").read_text() == page
    assert sorted(path.name for path in (folder / "again").iterdir()) == ["index.html", "report.pdf"]


NO_RESULT = {
    (name, work, number): ("timeout", "No result.")
    for name in make.SYSTEMS
    for work in make.WORKLOADS
    for number in (1, 2)
}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"rounds": 1, "systems": ["ext4", "xfs"], "failures": {}}, "One round proves no winner"),
        ({"systems": ["ext4"], "failures": {}}, "Only ext4 has results, so there is nothing to compare it with."),
        ({"systems": ["tmpfs"], "failures": {}}, "No contender completed a trial, so there is no answer."),
        ({"rounds": 2, "systems": ["ext4", "xfs"], "failures": NO_RESULT}, "Of 8 trials 8 have no complete result"),
        (
            {"systems": ["ext4", "xfs", "jfs"], "failures": {}, "spread": 0.0, "workloads": ["metadata"]},
            "has the best mean rank",
        ),
        ({"rounds": 6, "systems": ["ext4", "xfs"], "workloads": ["metadata"], "failures": {}}, "a median of"),
    ],
    ids=["one-round", "one-system", "ceiling-only", "nothing-completed", "no-spread", "six-rounds"],
)
def test_every_sentence_holds_for_any_study(tmp_path, options, expected):
    html = re.sub(r'<details class="code">.*?</details>', "", rendered(tmp_path, **options), flags=re.DOTALL)
    text = re.sub(r"<[^>]+>", "", html).replace("\N{NO-BREAK SPACE}", " ")
    body = text[text.index("Question and answer") :]
    assert expected in body
    assert not re.search(r"\bnan\b|\bNaN\b|<NA>|\bNone\b|\binf\b", body)
    assert not re.search(r"\b1 (trials|rounds|operations|cells|contenders|file systems|files|packages)\b", body)


def test_what_is_missing_is_named(folder, page, tmp_path):
    shutil.copytree(folder / "report", tmp_path / "report")
    executed = tmp_path / "report/notebooks"
    (executed / "01-quality.ipynb").rename(tmp_path / "aside.ipynb")
    with pytest.raises(UserError, match=r"01-quality\.ipynb"):
        report.render(executed, tmp_path / "out", folder / "tables/study.json")
    (tmp_path / "aside.ipynb").rename(executed / "01-quality.ipynb")
    next((tmp_path / "report/figures").glob("heatmap*")).unlink()
    with pytest.raises(UserError, match="heatmap"):
        report.render(executed, tmp_path / "out", folder / "tables/study.json")
    assert not (tmp_path / "out").exists()


def test_words():
    assert words.listing([]) == "none" and words.listing(["a"]) == "a" and words.listing("abc") == "a, b and c"
    assert words.count(1, "trial") == "1 trial" and words.count(0, "trial") == "no trials"
    assert words.opening(2, "trial") == "Two trials" and words.opening(54, "trial") == "54 trials"
    assert words.time(1_234_567) == "1.235 ms" and words.time(float("nan")) == words.DASH
    assert words.digits(123456.7, 3) == "123,457" and words.digits(0.012345, 3) == "0.0123" and words.digits(0) == "0"
    assert words.size(1536) == "1.5 KiB" and words.size(2**30) == "1 GiB"
    assert "a &lt; b" in words.Table("t", "a < b", [{"x": "1"}])._repr_html_()


def nbval(folder: Path, *names: str, path: Path | None = None) -> subprocess.CompletedProcess:
    """Run the goldens `names` in `folder`, with the package in `path` before the installed one."""
    for name in names:
        shutil.copy(make_goldens.GOLDENS / f"{name}.ipynb", folder)
    arguments = [sys.executable, "-m", "pytest", "--nbval", "--nbval-current-env", "--nbval-cell-timeout=300"]
    arguments += ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", *(f"{name}.ipynb" for name in names)]
    environment = os.environ | ({"PYTHONPATH": str(path)} if path else {})
    return subprocess.run(arguments, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_notebooks_give_what_their_goldens_say(tmp_path):
    make_goldens.prepare(tmp_path)
    done = nbval(tmp_path, *run.NAMES)
    assert done.returncode == 0, done.stdout[-4000:]


def test_a_changed_statistic_makes_a_golden_fail(tmp_path):
    make_goldens.prepare(tmp_path)
    package = tmp_path / "altered/reprofs"
    shutil.copytree(ROOT / "scripts/reprofs", package, ignore=shutil.ignore_patterns("__pycache__"))
    source = (package / "stats.py").read_text()
    assert source.count("x.std(ddof=1)") == 1
    (package / "stats.py").write_text(source.replace("x.std(ddof=1)", "x.std(ddof=0)"))
    done = nbval(tmp_path, "02-statistics", path=package.parent)
    assert done.returncode == 1 and "Cell outputs differ" in done.stdout, done.stdout[-4000:]


def test_goldens_are_small_executed_and_from_the_sources():
    for name in run.NAMES:
        path = make_goldens.GOLDENS / f"{name}.ipynb"
        assert path.stat().st_size < 2**20
        golden, source = nbformat.read(path, as_version=4), nbformat.read(run.SOURCES / f"{name}.ipynb", as_version=4)
        injected = [cell for cell in golden.cells if "injected-parameters" not in cell.metadata.get("tags", [])]
        assert [cell.source for cell in injected] == [cell.source for cell in source.cells], "run tests/make_goldens.py"
        assert any(cell.get("outputs") for cell in golden.cells)
        assert all(cell.cell_type != "code" or not cell.outputs for cell in source.cells), "strip the source"
