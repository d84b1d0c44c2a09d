"""The report: complete, self-contained, numbered, the same bytes; true for any study."""

import base64
import dataclasses
import functools
import itertools
import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import make
import nbformat
import pandas as pd
import pikepdf
import prose as linter
import pytest
import run
from helpers import Late
from reprofs.errors import UserError
from reprofs.records.raw import seal
from reprofs.report.words import span
from reprofs.stats import totals
from reprofs.stats.results import ANALYSIS
from reprofs.stats.study import open as open_study

render, show = Late("reprofs.report.render"), Late("reprofs.report.show")


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


def executed(folder: Path, *names: str, **options) -> list[Path]:
    """The executed notebooks (default: those of its topics) of a fixture study made with `options`, in their order."""
    make.make(folder, **options)
    run.build(folder, results=bool(names))  # all notebooks include that of the statistics, which saves them
    names = names or run.names_of(folder)
    place = run.execute(folder, names)
    return [place / f"{name}.ipynb" for name in names]


def outputs(*notebooks: Path) -> list[str]:
    """Everything that notebooks show for the report, in its order: HTML of tables and figures, Markdown, prose."""
    found = []
    for path in notebooks:
        for cell in nbformat.read(path, as_version=4).cells:
            if "notebook" in cell.metadata.get("tags", []):
                continue
            found += [cell.source] if cell.cell_type == "markdown" else []
            data = [output.data for output in cell.get("outputs", [])]
            found += [one.get("text/html") or one.get("text/markdown") or one.get("text/plain", "") for one in data]
    return found


def plain(html: str) -> str:
    """The words of a page, without its code."""
    html = re.sub(r'<details class="code">.*?</details>|<style.*?</style>', "", html, flags=re.DOTALL)
    return re.sub(r"<[^>]+>", "", html).replace("\N{NO-BREAK SPACE}", " ")


def prose(*notebooks: Path) -> str:
    """The words that notebooks show."""
    return plain("\n".join(outputs(*notebooks)))


@pytest.fixture
def without_pictures():
    """Figures without how they look."""
    with run.without_pictures():
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("report")


@pytest.fixture(scope="module")
def notebooks(folder):
    return executed(folder, systems=["ext4", "xfs", "btrfs", "jfs", "nilfs2", "tmpfs"])


@pytest.fixture(scope="module")
def page(folder, notebooks):
    render.render(notebooks, folder / "report", folder / "tables")
    return (folder / "report/index.html").read_text()


def test_its_words_are_those_of_the_documents(page, folder):
    """What `make lint` holds documents to."""
    assert list(linter.wrong(linter.read(folder / "report/index.html"))) == []


def test_it_fetches_nothing_and_its_links_arrive(page):
    parsed = Page(page)
    assert parsed.fetched == ["data:,"]  # the empty icon, which keeps browsers from asking for one
    assert "script" not in parsed.tags and "iframe" not in parsed.tags and "img" not in parsed.tags
    assert not re.search(r"url\((?!#)|@import", page)
    assert parsed.tags.count("svg") == page.count("<figcaption><strong>Figure")
    assert len(set(parsed.ids)) == len(parsed.ids)
    inside = [target[1:] for target in parsed.targets if target.startswith("#")]
    assert inside and set(inside) <= set(parsed.ids)
    assert not re.search(r'<a href="#[^"]*"></a>', page)
    for kind in ("Figure", "Table"):
        numbers = [int(number) for number in re.findall(rf"<strong>{kind} (\d+)\.</strong>", page)]
        assert numbers == list(range(1, len(numbers) + 1)) and len(numbers) > 3


def test_the_reader_finds_everything(page):
    text = re.sub(r"<[^>]+>", "", page)
    for part in (
        "Which of seven file systems should hold many small files?",  # question
        " is fastest",  # answer
        "How sure: 2 to 3 repetitions",
        "Setup: device model ssd",
        "Appendix B. Methods: details",
        "Appendix D. Statistics",
        "mkfs.btrfs -q /dev/nullb0",  # how it was made
        "compress=zstd:3",  # as read back
        "unmounted, caches dropped, mounted again",
        "no measurement noise",
        "Detectable in the median operation",
        f"The analysis has the number {ANALYSIS}",
        "No space left on device",  # the failure
        "The guest gave no result within 120",  # the time-out
        "reprofs trial --lab exact --filesystem",
        "make report",
        "7.2.22",
    ):
        assert part in text.replace("\N{NO-BREAK SPACE}", " "), part
    assert "currentColor" in page and "prefers-color-scheme: dark" in page and 'name="viewport"' in page


def test_tables_scroll_code_folds_and_those_who_hear_the_page_find_their_way(page):
    """Headings go down one level at a time, a region that scrolls has a name of its own, and each column a title."""
    assert page.count('<div class="scroll"') == page.count("<figure")
    assert Page(page).tags.count("table") == page.count('class="table"') > 10
    assert page.count('<details class="code">') > 3
    levels = [int(level) for level in re.findall(r"<h(\d)", page)]
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels)) and max(levels) <= 4
    names = re.findall(r'role="region" aria-label="([^"]+)"', page)
    assert len(set(names)) == len(names) == page.count("<figure") > 10
    assert not re.search(r"<th>\s*</th>", page)


def test_a_figure_that_is_wider_than_a_phone_says_that_it_scrolls(page):
    """There is no scrollbar on phones. No figure is outside of a box that scrolls."""
    wide = float(re.search(r"\.scroll svg {[^}]*min-width: ([\d.]+)rem", page)[1])
    beside = 2 * float(re.search(r"padding: 0 ([\d.]+)rem", page)[1])
    narrow = re.search(r'max-width: ([\d.]+)rem\) {\s*\.scroll:has\(svg\)::before { content: "Swipe', page)
    assert 0 < wide + beside - float(narrow[1]) < 0.2
    assert len(re.findall(r'<div class="scroll"[^>]*>\s*<svg', page)) == page.count("<svg") > 2


def test_what_the_cells_of_a_column_have_in_common_stands_once(page):
    """On which side they are, and their title, for screens on which a row is a paragraph."""
    (name,) = set(re.findall(r'\.(columns-\d+) tr>:nth-child\(2\){--name:"verdict"}', page))
    assert f'.{name} tr>:nth-child(4){{--name:"time (ms)";text-align:right}}' in page
    assert re.search(rf'<table class="[^"]*{name}"', page)
    assert page.count("<td>") > 500 and not re.search("<t[dh] ", page)


def test_the_figures_are_files_and_their_words_are_words_in_print(folder, notebooks, page):
    made = folder / "report"
    assert {path.name for path in made.iterdir()} == {"figures", "index.html", "notebooks", "report.pdf"}
    with pikepdf.open(made / "report.pdf") as whole:
        fonts = {str(one.get("/FontName")) for one in whole.objects if isinstance(one, pikepdf.Dictionary)}
    assert any(name.endswith("+DejaVuSans") for name in fonts)
    shown = "".join(html for html in outputs(*notebooks) if html.startswith("<figure"))
    figures = {name: base64.b64decode(data) for name, _, data in render.FIGURE.findall(shown)}
    assert figures == {path.stem: path.read_bytes() for path in (made / "figures").glob("*.svg")}
    assert len(figures) == Page(page).tags.count("svg")


def test_what_is_for_those_who_work_in_a_notebook_is_not_in_the_report(notebooks, page):
    cells = [cell for path in notebooks for cell in nbformat.read(path, as_version=4).cells]
    own = [cell for cell in cells if "notebook" in cell.metadata.get("tags", [])]
    assert own and any("assert " in cell.source for cell in own)
    assert any('times[["where"' in cell.source for cell in own) and 'times[["where"' not in page
    assert "study = reprofs.open" not in plain(page)  # of the code only what made a figure or a table, folded


def test_appendices_follow_the_body_with_letters_of_their_own(page):
    text = plain(page[page.index("<main>") :])
    found = re.findall(r"Appendix ([A-Z])\.", text)
    assert list(dict.fromkeys(found)) == ["A", "B", "C", "D"]
    body, appendix = text[: text.index("Appendix A.")], text[text.index("Appendix A.") :]
    for part in ("Completed trials of those planned.", "Cold phases that read", "Each file system against the fastest"):
        assert part in appendix and part not in body, part
    assert "Trials without a complete result" in body  # failures are no detail


def notebook(path: Path, *cells: tuple[str, str]) -> Path:
    """A notebook of cells (tag, text), each with its text as output."""
    made = [nbformat.v4.new_markdown_cell("# Of my own")]
    for tag, text in cells:
        output = nbformat.v4.new_output("display_data", data={"text/markdown": text})
        made.append(nbformat.v4.new_code_cell("1", outputs=[output], metadata={"tags": [tag] if tag else []}))
    nbformat.write(nbformat.v4.new_notebook(cells=made), path)
    return path


def test_cells_are_moved_by_their_tags(tmp_path):
    first = notebook(tmp_path / "1.ipynb", ("", "one"), ("appendix", "two"), ("notebook", "three"))
    second = notebook(tmp_path / "2.ipynb", ("", "four"), ("notebook", "five"))
    merged = render.merge([first, second])
    found = [
        (cell.metadata.get("appendix"), cell.outputs[0].data["text/markdown"] if "outputs" in cell else cell.source)
        for cell in merged.cells
    ]
    assert found == [
        *[(None, "# Of my own"), (None, "one"), (None, "# Of my own"), (None, "four")],
        *[("A", "# Of my own: details"), ("A", "two")],
    ]
    # As titles of the same words and hidden outputs show, nothing of a run is left that would change the bytes.
    assert [cell.id for cell in merged.cells] == [f"cell-{number}" for number in range(6)]


def test_a_section_that_shows_nothing_in_the_body_has_no_heading_there(tmp_path):
    path = notebook(tmp_path / "1.ipynb", ("", "one"), ("", "nothing"), ("appendix", "all"))
    made = nbformat.read(path, as_version=4)
    made.cells.insert(2, nbformat.v4.new_markdown_cell("## Empty"))
    made.cells[3].outputs = []
    nbformat.write(made, path)
    cells = render.merge([path]).cells
    assert [cell.source for cell in cells] == ["# Of my own", "1", "# Of my own: details", "1"]


def test_answers_stand_where_the_first_notebook_has_its_own(tmp_path):
    """Those of the topics that a study asks for, and what limits them; the others stay in their own parts."""
    first = notebook(tmp_path / "1.ipynb", ("", "question"), ("answer", "totals"), ("limits", "but"), ("", "scope"))
    second = notebook(tmp_path / "2.ipynb", ("answer", "by the way"), ("", "details"))
    third = notebook(tmp_path / "3.ipynb", ("answer", "what was asked"), ("", "more"), ("appendix", "all"))
    merged = render.merge([first, second, third], ["3"])
    with pytest.raises(UserError, match="no notebook '4' whose answer could stand first"):
        render.merge([first, second, third], ["4"])
    found = [cell.outputs[0].data["text/markdown"] for cell in merged.cells if "outputs" in cell]
    assert found == ["question", "what was asked", "but", "totals", "scope", "by the way", "details", "more", "all"]
    aside = notebook(tmp_path / "options.ipynb", ("answer", "side"))
    found = [cell.metadata.get("appendix") for cell in render.merge([first, third, aside], ["3"]).cells]
    assert found[-4:] == ["A", "A", "B", "B"], "what is not asked is an appendix"
    headings = [cell.source for cell in merged.cells if cell.cell_type == "markdown"]
    assert headings == ["# Of my own", render.ASIDE, *["# Of my own"] * 2, "# Of my own: details"]
    found = [cell.outputs[0].data["text/markdown"] for cell in render.merge([first, second]).cells if "outputs" in cell]
    assert found == ["question", "totals", "by the way", "but", "scope", "details"]
    found = [cell.outputs[0].data["text/markdown"] for cell in render.merge([third]).cells if "outputs" in cell]
    assert found == ["what was asked", "more", "all"]


def test_names_with_an_at_sign_are_no_citations(folder, notebooks, tmp_path):
    """A workload's own words, for one, come into the report as they are."""
    own = notebook(tmp_path / "1.ipynb", ("", "Fewer (@2000 is what was run), [@x], @y; git-annex@100."))
    render.render([own], tmp_path / "report", folder / "tables")
    text = plain((tmp_path / "report/index.html").read_text())
    assert "Fewer (@2000 is what was run), [@x], @y; git-annex@100." in text


NO_RESULT = {
    (name, work, number): ("timeout", "No result.")
    for name in make.SYSTEMS
    for work in make.WORKLOADS
    for number in (1, 2)
}
LOST = {key: end for key, end in NO_RESULT.items() if key[0] == "xfs"}
TWO, ONE_LOAD, LABS = {"systems": ["ext4", "xfs"]}, {"workloads": ["metadata"]}, {"labs": ["exact", "host"]}
# What a study has -> what its report says. By default it has three rounds, two workloads, and no failures.
SENTENCES = {
    "one-round": (TWO | {"rounds": 1}, "one repetition shows no difference"),
    "one-system": ({"systems": ["ext4"]}, "Only ext4 has a result"),
    "one-system-left": (TWO | ONE_LOAD | {"rounds": 2, "failures": LOST}, "Only ext4 has a result"),
    "ceiling-only": ({"systems": ["tmpfs"]}, "No times are compared."),
    "nothing-completed": (TWO | {"rounds": 2, "failures": NO_RESULT}, "8 of 8 trials have no complete result"),
    "no-spread": (ONE_LOAD | {"systems": ["ext4", "xfs", "jfs"], "spread": 0.0}, " is fastest"),
    "one-round-on-stacks": (
        ONE_LOAD | {"rounds": 1, "systems": ["ext4"], "stacks": ["md-raid5", "md-raid6"]},
        "md-raid6",
    ),
    "one-system-on-stacks": (
        {"rounds": 2, "systems": ["btrfs"], "stacks": ["single", "btrfs-raid1", "md-raid5-rebuilding"]},
        "md-raid5-rebuilding",
    ),
    "one-round-in-labs": (LABS | {"rounds": 1, "systems": ["ext4", "xfs", "tmpfs"]}, "host"),
    "nothing-in-labs": (
        TWO | LABS | {"rounds": 2, "failures": NO_RESULT, "stacks": ["single", "md-raid5-rebuilding"]},
        "32 of 32 trials have no complete result",
    ),
}


def holds(said: str, expected: str) -> None:
    assert expected in said
    assert not re.search(r"\bnan\b|\bNaN\b|<NA>|\bNone\b|\binf\b|Undefined", said)
    assert not re.search(r"\b1 (trials|repetitions|operations|configurations|file systems|files|packages)\b", said)
    assert not re.search(r"(^|\s)[.,;](\s|$)|\{\{|\{%", said)


@pytest.mark.wide
@pytest.mark.parametrize(("options", "expected"), SENTENCES.values(), ids=SENTENCES)
def test_every_sentence_holds_for_any_study(tmp_path, without_pictures, options, expected):
    holds(prose(*executed(tmp_path, **{"failures": {}, **options})), expected)


@pytest.mark.wide
def test_every_sentence_holds_with_six_rounds(reports):
    place = reports("six") / "report/notebooks"
    holds(
        prose(*place.glob("*.ipynb")),
        "Corrected over a table: of 9 operations at most;",
    )


# T. Hoefler and R. Belli, Scientific Benchmarking of Parallel Computing Systems, SC'15: what shows that a rule is kept.
RULES = {
    "1, the base of a ratio in absolute terms": [r"takes [\d.,]+ (µs|ms|s)", "time \\(ms\\)"],
    "2, why a subset": ["Why no more repetitions: ", "no other processors", "what a change would do was not measured"],
    "3, arithmetic means of costs": ["Mean, . and variance"],
    "4, costs are summed up, not ratios": ["Time of all operations", "Mean ranks describe"],
    "5, deterministic or with intervals": ["95 % interval", "no measurement noise"],
    "6, normality is not taken for granted": [r"log-normal"],
    "7, sound comparisons": ["paired t tests", "Holm-corrected", "family of their own"],
    "8, medians and percentiles where they matter": ["p99", r"\bmedian\b"],
    "9, all factors and their levels": ["How each file system was made", "Parameters of the workloads", r"seed \d+"],
    "11, upper bounds": [r"tmpfs \(baseline\)|No baseline ran"],
    "12, plots with all rounds": ["a point is the time of one"],
}


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """Folders of other studies with their reports, by their names."""
    options = {
        "six": {"rounds": 6, "systems": ["ext4", "xfs", "jfs"]},
        "labs": {"rounds": 2, "systems": ["ext4", "xfs", "tmpfs"], "labs": ["exact", "host"]},
    }

    @functools.cache
    def of(name: str) -> Path:
        folder = tmp_path_factory.mktemp(name)
        make.make(folder, workloads=["metadata"], failures={}, **options[name])
        run.report(folder)
        return folder

    return of


@pytest.mark.parametrize("kind", ["page", *(pytest.param(kind, marks=pytest.mark.wide) for kind in ("six", "labs"))])
def test_the_rules_of_hoefler_and_belli_are_kept(kind, page, reports):
    """Also of six rounds, without a baseline; also of a study that asks for something else."""
    text = page if kind == "page" else (reports(kind) / "report/index.html").read_text()
    text = plain(text[text.index("<main>") :])
    missing = {rule: part for rule, parts in RULES.items() for part in parts if not re.search(part, text)}
    assert missing == {}


@pytest.mark.wide
def test_the_same_records_give_the_same_bytes(reports, tmp_path):
    """Tables, notebooks and report, in a process with another order of sets, another folder, language and day."""
    elsewhere = tmp_path / "a folder of another name"
    elsewhere.mkdir()
    for name in ("plan.json", "raw"):
        (elsewhere / name).symlink_to(reports("labs") / name)
    other = {"PYTHONHASHSEED": "1", "TZ": "Tomorrow-24", "LC_ALL": "C"}
    subprocess.run([sys.executable, run.__file__, elsewhere], env={**os.environ, **other}, check=True)

    def made(folder: Path) -> dict[str, bytes]:
        files = [folder / "index.html", folder / "report.pdf", *folder.glob("figures/*")]
        return {path.name: path.read_bytes() for path in files}

    first, again = made(reports("labs") / "report"), made(elsewhere / "report")
    assert first.keys() == again.keys() and len(first) > 5
    assert [name for name in first if first[name] != again[name]] == []


@pytest.mark.wide
@pytest.mark.parametrize(
    "stacks", [["single"], pytest.param(["single", "md-raid5-rebuilding"], marks=pytest.mark.soak)], ids=len
)
def test_no_table_and_no_figure_holds_the_times_of_two_clocks(tmp_path, stacks):
    """What is shown may depend on the speed of one lab's clock, never on that of two."""
    seen = {}
    for name, clocks in (("plain", {}), ("exact", {"exact": 8}), ("host", {"host": 8})):
        options = {"systems": ["ext4", "xfs", "jfs"], "rounds": 2, "stacks": stacks, "clocks": clocks, "failures": {}}
        seen[name] = dict(shown(executed(tmp_path / name, **options, **LABS, **ONE_LOAD)))
    assert seen["plain"].keys() == seen["exact"].keys() == seen["host"].keys() and len(seen["plain"]) > 20
    moved = {
        lab: {name for name, content in seen[lab].items() if content != seen["plain"][name]}
        for lab in ("exact", "host")
    }
    assert len(moved["exact"]) > 6 and len(moved["host"]) > 6  # the clocks do show
    both = {name for name in moved["exact"] & moved["host"] if "tbl-digests" not in name}
    # Ratios of two clocks are in the notebook that is there for it.
    assert {name.partition(" ")[0] for name in both} <= {"labs"}


def shown(notebooks: list[Path]):
    """Name and content of every table and figure of the executed notebooks."""
    for path in notebooks:
        for html in outputs(path):
            if name := re.search(r'<(?:table|figure) id="([^"]+)"', html):
                yield f"{path.stem} {name[1]}", html


def test_what_is_missing_is_named(folder, notebooks, tmp_path):
    with pytest.raises(UserError, match=r"environment\.ipynb: run `make report`"):
        render.render([tmp_path / "environment.ipynb", *notebooks], tmp_path / "out", folder / "tables")
    with pytest.raises(UserError, match="no tables"):
        render.render(notebooks, tmp_path / "out", tmp_path)
    # A sentence that points to a table which no notebook shows.
    lost = notebook(tmp_path / "lost.ipynb", ("", "See [table](#tbl-lost)."))
    with pytest.raises(UserError, match="no figure or table is named #tbl-lost"):
        render.render([lost], tmp_path / "out", folder / "tables")
    assert not (tmp_path / "out").exists()


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A study of two contenders and an upper bound, to be changed with dataclasses.replace."""
    folder = tmp_path_factory.mktemp("small")
    make.make(folder, rounds=2, systems=["ext4", "xfs", "tmpfs"], workloads=["metadata"], failures={})
    run.build(folder)
    return open_study(str(folder / "tables"))


def without_promise(folder: Path, kind: str, name: str, why: str, systems: list[str]):
    """A study in whose plan a device, or a file system's default variant, does not keep what fsync promises."""
    make.make(folder, rounds=2, systems=systems, workloads=["metadata"], failures={})
    plan = json.loads((folder / "plan.json").read_text())
    entry = plan[kind][name]
    (entry["variants"]["default"] if kind == "filesystems" else entry).update(promise="none", why=why)
    (folder / "plan.json").write_text(json.dumps(plan))
    return run.build(folder)


def test_who_is_not_durable_is_shown_and_never_ranked(tmp_path, without_pictures):
    """ext4 is the fastest by far, in a variant whose file says that it does not keep the promise."""
    systems = ["ext4", "xfs", "btrfs", "tmpfs"]
    study = without_promise(tmp_path, "filesystems", "ext4", "the server answers at once", systems)
    (setting,) = study.settings
    found = study.results
    assert set(study.trials.loc[study.trials["label"] == "ext4", "role"]) == {"no-promise"}
    assert "ext4" in set(found.totals["label"]) and "ext4" not in study.contenders(setting)
    assert "ext4" not in {*found.ranks["label"], *found.winners["best"], *found.cheapest["best"]}
    assert not any("ext4" in level for frame in (found.winners, found.cheapest) for level in frame["level"])
    assert study.beside(setting) == ["btrfs+zstd", "ext4", "tmpfs"]
    verdicts = totals.ranked(study).set_index("label")["verdict"]
    assert verdicts["ext4"] == "not durable" and verdicts["tmpfs"] == "baseline"
    words = prose(run.execute(tmp_path, ["answer"]) / "answer.ipynb").replace("*", "")
    assert "ext4 is not ranked, because fsync is not durable: the server answers at once." in words
    assert "Not ranked: btrfs+zstd (variant), tmpfs (baseline) and ext4 (fsync is not durable)." in words
    assert not re.search(r"ext4 (is fastest|takes)", words)


def test_who_is_not_proved_cold_is_shown_and_never_ranked(tmp_path, without_pictures):
    """ext4 is the fastest by far; in one repetition nothing was read in one of its cold phases."""
    make.make(tmp_path, rounds=2, systems=["ext4", "xfs", "btrfs", "tmpfs"], workloads=["metadata"], failures={})
    path = next(path for path in sorted((tmp_path / "raw").glob("*.json")) if "ext4" in path.name)
    record = json.loads(path.read_text())
    phase = next(one for one in record["measurement"]["phases"] if one["cold"])
    phase["cold"] |= {"proved": False, "read_bytes": 0}
    path.write_text(json.dumps(seal(record)))
    study = run.build(tmp_path)
    (setting,) = study.settings
    found, here = study.results, (phase["name"], "cold")
    won = {(row.phase, row.cache): (row.best, *row.level) for row in found.winners.itertuples()}
    assert "ext4" not in won.pop(here) and any("ext4" in front for front in won.values())
    assert "ext4" not in {*found.cheapest["best"], *(label for level in found.cheapest["level"] for label in level)}
    assert totals.ranked(study).set_index("label")["verdict"]["ext4"] == "not cold"
    assert study.not_cold(setting) == ["ext4"]
    words = prose(run.execute(tmp_path, ["answer"]) / "answer.ipynb").replace("*", "")
    assert f"ext4 is not ranked in metadata: in {phase['name']} cold caches are not proved" in words
    assert "Not ranked: btrfs+zstd (variant), tmpfs (baseline) and ext4 (cold caches are not proved)." in words
    assert not re.search(r"ext4 (is fastest|takes)", words)


@pytest.mark.wide
def test_on_a_device_that_ignores_flushes_nobody_is_ranked(tmp_path, without_pictures):
    study = without_promise(tmp_path, "devices", "ssd", "it is in memory", ["ext4", "xfs", "tmpfs"])
    roles = dict(zip(study.trials["label"], study.trials["role"], strict=True))
    assert roles == {"ext4": "no-promise", "xfs": "no-promise", "tmpfs": "ceiling"}
    assert study.results.ranks.empty and study.results.winners.empty and not study.labels()
    run.execute(tmp_path, run.names_of(tmp_path))
    words = prose(tmp_path / "report/notebooks/answer.ipynb").replace("*", "")
    assert "everything on ssd is not ranked, because fsync is not durable: it is in memory." in words
    assert "fastest" not in words


def test_title_and_subtitle_are_those_of_the_study(small):
    about = render.metadata(small)
    assert about["title"] == "Demonstration: Which file system should hold many small files?"
    larger = dataclasses.replace(small, trials=small.trials.assign(scale="laptop"))
    assert render.metadata(larger)["title"] == "Which file system should hold many small files?"
    assert about["subtitle"].startswith("Study fixture: 6 trials with ReproFS 0.1.0, measured on 2026-01-01")
    assert json.dumps(about)


def test_file_systems_of_a_stack_of_their_own_are_compared_in_it(small):
    """Three distributed ones and one that runs on a single device, too; options of the latter are no file systems."""
    known = small.trials[small.trials["label"] == "xfs"]
    options = [known.assign(stack="md-raid6", label=f"xfs+{number}") for number in range(3)]
    servers = [known.assign(stack="servers", filesystem=name, label=name) for name in ("gluster", "cephfs", "xfs")]
    for more, compared in ((options, ["single"]), (servers, ["servers", "single"]), (servers[1:], ["single"])):
        study = dataclasses.replace(small, trials=pd.concat([small.trials, *more]))
        found = small.plan.stacks | dict.fromkeys(("md-raid6", "servers"), small.plan.stacks["single"])
        study = dataclasses.replace(study, plan=small.plan.model_copy(update={"stacks": found}))
        assert [setting.stack for setting in study.settings] == compared


def test_a_printed_table_wider_than_the_page_shares_it_by_what_its_columns_say(tmp_path):
    """A narrow one is left as it is; a word is broken at a hyphen only where there is no other room."""
    long = "undecided: nfs-xfs+v4.2-sync, cephfs+kernel, gluster+replica-3 and 2 others " * 2
    row = {"Operation": "Stat", "Verdict": long, "Time": f"0.2667 ms ({span(0.2666, 0.2667)})", "Next": "ext4"}
    many = {f"{i}": "nfs-xfs+v4.2-sync" for i in range(8)}
    shown = [
        show.Table(f"tbl-{i}", "Words.", [cells], left=["Verdict"])
        for i, cells in enumerate([row, {**row, "Verdict": "fastest"}, many])
    ]
    outputs = [nbformat.v4.new_output("display_data", {"text/html": table._repr_html_()}) for table in shown]
    cell = nbformat.v4.new_code_cell("show()", outputs=outputs)
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), tmp_path / "merged.ipynb")
    render._pandoc(tmp_path, {"title": "t", "subtitle": "s"}, "typst", "template.typ", "report.typ", [])
    text = (tmp_path / "report.typ").read_text()
    wide, narrow, even = re.findall(r"table\(\s*columns: (\(.*?\)|\d+),", text)
    shares = [float(share) for share in re.findall(r"([\d.]+)%", wide)]
    assert narrow == "4" and sum(shares) == pytest.approx(100, abs=0.5)
    assert shares[1] == max(shares) > 2 * shares[0] and shares[2] > 18  # of 493 points: an interval on one line
    assert len(set(re.findall(r"([\d.]+)%", even))) == 1
    assert [part.count("[Next]") for part in re.findall(r"table\.header\((.*?)\),\n", text)][:2] == [1, 1]
    assert text.count("0.2666") == 2
