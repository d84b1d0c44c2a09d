"""The report: complete, self-contained, numbered, the same bytes; true for any study."""

import base64
import dataclasses
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
import pytest
import run
from helpers import CATALOG
from reprofs.errors import UserError
from reprofs.plan.processor import Processor
from reprofs.report import display, plots, render
from reprofs.report import text as lines_of
from reprofs.report.topics import answer, labs, methods, operations, quality, space, stacks, statistics, threats
from reprofs.stats.results import ANALYSIS
from reprofs.stats.study import open as open_study

pytestmark = pytest.mark.xdist_group("report")  # one worker: the notebooks of a study are run once


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


def tables_of(*notebooks: Path) -> dict[str, dict]:
    """name -> {first column: row} of each table that notebooks show."""
    found = {}
    for html in outputs(*notebooks):
        if name := re.search(r'<table id="([^"]+)"', html):
            rows = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in html.split("<tr>")[1:]]
            rows = [[plain(cell).strip() for cell in row] for row in rows]
            found[name[1]] = {row[0]: dict(zip(rows[0], row, strict=True)) for row in rows[1:]}
    return found


@pytest.fixture
def without_pictures(monkeypatch):
    """Figures are drawn, with captions and all, but not written as SVG, which takes most of the time."""
    monkeypatch.setattr(plots, "svg", lambda plot: "<svg/>")


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
        "The time of all operations of a workload together",  # answer
        "is the cheapest",
        "Appendix A. Quality of the measurements: details",
        "Appendix B. Methods: details",
        "Appendix D. Statistics",
        "mkfs.btrfs -q /dev/nullb0",  # how it was made
        "compress=zstd:3",  # as read back
        "unmounted, caches dropped, mounted again",
        "not measurement noise",
        "Outliers cannot be marked",  # what three rounds cannot show
        "smaller differences may be there unseen",
        f"The analysis has the number {ANALYSIS}",
        "No space left on device",  # the failure
        "The guest gave no result within 120",  # the time-out
        "reprofs trial --lab exact --filesystem",
        "make report",
        "7.2.22",
        "seeds 20260101 to 20260103",
    ):
        assert part in text.replace("\N{NO-BREAK SPACE}", " "), part
    assert "currentColor" in page and "prefers-color-scheme: dark" in page and 'name="viewport"' in page


def test_tables_scroll_code_folds_and_those_who_hear_the_page_find_their_way(page):
    """Headings go down one level at a time, a region that scrolls has a name of its own, and each column a title."""
    assert page.count('<div class="scroll"') == page.count("<figure")
    assert Page(page).tags.count("table") == page.count('class="table"') > 10
    assert page.count('<details class="code">') > 3
    levels = [int(level) for level in re.findall(r"<h(\d)", page)]
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels)) and max(levels) == 3
    names = re.findall(r'role="region" aria-label="([^"]+)"', page)
    assert len(set(names)) == len(names) == page.count("<figure") > 10
    assert not re.search(r"<th>\s*</th>", page)


def test_what_the_cells_of_a_column_have_in_common_stands_once(page):
    """On which side they are, and their title, for screens on which a row is a paragraph."""
    (name,) = set(re.findall(r'\.(columns-\d+) tr>:nth-child\(3\){--name:"Verdict"}', page))
    assert f'.{name} tr>:nth-child(4){{--name:"Time (95\N{NO-BREAK SPACE}% interval)";text-align:right}}' in page
    assert re.search(rf'<table class="[^"]*{name}"', page)
    assert page.count("<td>") > 500 and not re.search("<t[dh] ", page)


def test_the_figures_are_files_and_their_words_are_words_in_print(folder, notebooks, page):
    made = folder / "report"
    assert {path.name for path in made.iterdir()} == {"figures", "index.html", "notebooks", "report.pdf"}
    with pikepdf.open(made / "report.pdf") as whole:
        fonts = {str(one.get("/FontName")) for one in whole.objects if isinstance(one, pikepdf.Dictionary)}
    assert any(name.endswith("+DejaVuSans") for name in fonts)
    shown = "".join(html for html in outputs(*notebooks) if html.startswith("<figure"))
    figures = {name: base64.b64decode(data) for name, data in render.FIGURE.findall(shown)}
    assert figures == {path.stem: path.read_bytes() for path in (made / "figures").glob("*.svg")}
    assert len(figures) == Page(page).tags.count("svg")


def test_what_is_for_those_who_work_in_a_notebook_is_not_in_the_report(notebooks, page):
    cells = [cell for path in notebooks for cell in nbformat.read(path, as_version=4).cells]
    own = [cell for cell in cells if "notebook" in cell.metadata.get("tags", [])]
    assert own and all(cell.outputs for cell in own)
    assert 'study.phases[["label"' in own[1].source and "study.phases[[" not in page
    assert "results  statistics, pairwise" in own[0].outputs[0].data["text/plain"]
    assert "results  statistics, pairwise" not in page
    assert "study = reprofs.open" not in plain(page)  # of the code only what made a figure or a table, folded


def test_appendices_follow_the_body_with_letters_of_their_own(page):
    text = plain(page[page.index("<main>") :])
    found = re.findall(r"Appendix ([A-Z])\.", text)
    assert list(dict.fromkeys(found)) == ["A", "B", "C", "D"]
    body, appendix = text[: text.index("Appendix A.")], text[text.index("Appendix A.") :]
    for part in ("Completed trials of those planned.", "Proof of cold caches", "each contender against the best"):
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


def test_answers_stand_where_the_first_notebook_has_its_own(tmp_path):
    """First those of the topics that a study asks for, then the first notebook's, then the others, each in order."""
    first = notebook(tmp_path / "1.ipynb", ("", "question"), ("answer", "totals"), ("", "scope"))
    second = notebook(tmp_path / "2.ipynb", ("answer", "by the way"), ("", "details"))
    third = notebook(tmp_path / "3.ipynb", ("answer", "what was asked"), ("", "more"), ("appendix", "all"))
    merged = render.merge([first, second, third], ["3"])
    with pytest.raises(UserError, match="no notebook '4' whose answer could stand first"):
        render.merge([first, second, third], ["4"])
    found = [cell.outputs[0].data["text/markdown"] for cell in merged.cells if "outputs" in cell]
    assert found == ["question", "what was asked", "totals", "by the way", "scope", "details", "more", "all"]
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
    "one-round": (TWO | {"rounds": 1}, "One round shows no difference in any operation"),
    "one-system": ({"systems": ["ext4"]}, "ext4 needs "),
    "one-system-left": (TWO | ONE_LOAD | {"rounds": 2, "failures": LOST}, "Only ext4 has results, so there is nothing"),
    "ceiling-only": ({"systems": ["tmpfs"]}, "The study has no contender, so no file systems are compared."),
    "nothing-completed": (
        TWO | {"rounds": 2, "failures": NO_RESULT},
        "No contender completed a trial, so there is no answer.\nOf 8 trials 8 have no complete result",
    ),
    "no-spread": (ONE_LOAD | {"systems": ["ext4", "xfs", "jfs"], "spread": 0.0}, "is the cheapest"),
    "one-round-on-stacks": (
        ONE_LOAD | {"rounds": 1, "systems": ["ext4"], "stacks": ["md-raid5", "md-raid6"]},
        "md-raid6, each relative to md-raid5",
    ),
    "one-system-on-stacks": (
        {"rounds": 2, "systems": ["btrfs"], "stacks": ["single", "btrfs-raid1", "md-raid5-rebuilding"]},
        "on md-raid5-rebuilding, each relative to single",
    ),
    "one-round-in-labs": (
        LABS | {"rounds": 1, "systems": ["ext4", "xfs", "tmpfs"]},
        "no pair of file systems differs significantly in both labs",
    ),
    "nothing-in-labs": (
        TWO | LABS | {"rounds": 2, "failures": NO_RESULT, "stacks": ["single", "md-raid5-rebuilding"]},
        "Of 32 trials 32 have no complete result",
    ),
}


def holds(words: str, expected: str) -> None:
    assert expected in words
    assert not re.search(r"\bnan\b|\bNaN\b|<NA>|\bNone\b|\binf\b|Undefined", words)
    assert not re.search(r"\b1 (trials|rounds|operations|cells|contenders|file systems|files|packages)\b", words)
    assert not re.search(r"(^|\s)[.,;](\s|$)|\{\{|\{%", words)


@pytest.mark.wide
@pytest.mark.parametrize(("options", "expected"), SENTENCES.values(), ids=SENTENCES)
def test_every_sentence_holds_for_any_study(tmp_path, without_pictures, options, expected):
    holds(prose(*executed(tmp_path, **{"failures": {}, **options})), expected)


@pytest.mark.wide
def test_every_sentence_holds_with_six_rounds(reports):
    place = reports["six"] / "report/notebooks"
    holds(prose(*place.glob("*.ipynb")), "the median with an interval from order statistics")


# T. Hoefler and R. Belli, Scientific Benchmarking of Parallel Computing Systems, SC'15: what shows that a rule is kept.
RULES = {
    "1, the base of a ratio in absolute terms": [
        r"takes [\d.,]+ \(.*?\) times as long",
        r"(with|takes) [\d.,]+ (µs|ms|s) \(",
        "95 % interval",
    ],
    "2, why a subset": ["Why no more rounds: ", "no other processors", "what another would change was not measured"],
    "3, arithmetic means of costs, harmonic ones of rates": [
        "beside them stand arithmetic mean",
        "Rates are harmonic mean",
    ],
    "4, costs are summed up, not ratios": [
        "Summed up are costs, the totals of workloads, not ratios",
        r"Mean ranks describe",
    ],
    "5, deterministic or with intervals": [
        "gives the same tables bit for bit",
        "with 95 % intervals",
        "not measurement noise",
    ],
    "6, normality is not taken for granted": [r"Whether logarithms are normal was (tested in \d+ cells|not tested)"],
    "7, sound comparisons": ["paired t tests", r"by Holm\S+s method", r"family of (its|their) own"],
    "8, medians and percentiles where they matter": ["99th percentile", r"\bMedian\b"],
    "9, all factors and their levels": [
        "File systems: how each was made",
        "Parameters of the workloads",
        "seeds? [\\d,]+",
    ],
    "10, how parallel times are taken": ["One process at a time does the work|start from one barrier"],
    "11, upper bounds": [r"tmpfs is an upper bound of what a file system can reach|No upper bound ran in this study"],
    "12, plots with all rounds, and no lines between points": ["A ring is one round; the bar is the interval"],
}


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """Folders of other studies with their reports."""
    options = {
        "six": {"rounds": 6, "systems": ["ext4", "xfs", "jfs"]},
        "labs": {"rounds": 2, "systems": ["ext4", "xfs", "tmpfs"], "labs": ["exact", "host"]},
    }
    folders = {name: tmp_path_factory.mktemp(name) for name in options}
    for name, more in options.items():
        make.make(folders[name], workloads=["metadata"], failures={}, **more)
        run.report(folders[name])
    return folders


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", ["page", "six", "labs"])
def test_the_twelve_rules_of_hoefler_and_belli_are_kept(rule, kind, page, reports):
    """Also of six rounds, without an upper bound; also of a study that asks for something else."""
    text = page if kind == "page" else (reports[kind] / "report/index.html").read_text()
    text = plain(text[text.index("<main>") :])
    for part in RULES[rule]:
        assert re.search(part, text), part


@pytest.mark.wide
def test_the_same_records_give_the_same_bytes(reports, tmp_path):
    """Tables, notebooks and report, in a process with another order of sets, another folder, language and day."""
    elsewhere = tmp_path / "a folder of another name"
    elsewhere.mkdir()
    for name in ("plan.json", "raw"):
        (elsewhere / name).symlink_to(reports["labs"] / name)
    other = {"PYTHONHASHSEED": "1", "TZ": "Tomorrow-24", "LC_ALL": "C"}
    subprocess.run([sys.executable, run.__file__, elsewhere], env={**os.environ, **other}, check=True)

    def made(folder: Path) -> dict[str, bytes]:
        files = [folder / "index.html", folder / "report.pdf", *folder.glob("figures/*")]
        return {path.name: path.read_bytes() for path in files}

    first, again = made(reports["labs"] / "report"), made(elsewhere / "report")
    assert first.keys() == again.keys() and len(first) > 5
    assert [name for name in first if first[name] != again[name]] == []


STACKS = ["single", "md-raid5@3", "md-raid5", "md-raid6", "btrfs-raid1"]
FAULTS = ["md-raid5", "md-raid5-degraded", "md-raid5-rebuilding"]


@pytest.fixture(scope="module")
def stacked(tmp_path_factory):
    """Executed notebooks of a study with many stacks."""
    skipped = {
        ("xfs", "metadata", number, "md-raid6", "exact"): ("skipped", "The guest has no package mdadm: add it.")
        for number in (1, 2, 3)
    }
    options = {"systems": ["ext4", "xfs", "btrfs", "tmpfs"], "workloads": ["metadata"], "failures": skipped}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plots, "svg", lambda plot: "<svg/>")
        return executed(tmp_path_factory.mktemp("stacked"), stacks=[*STACKS, *FAULTS[1:]], **options)


@pytest.mark.wide
def test_a_study_of_many_stacks_has_one_section_on_stacks_not_one_for_each(stacked):
    shown = outputs(*stacked)
    # Ranks are of one stack.
    found = [line for text in shown for line in text.splitlines() if re.match(r"## (?!Stack )", line)]
    assert found[:6] == [
        *("## What each workload costs", "## Limits of these answers"),
        *("## Operation by operation", "## What would change the answer"),
        "## Life of a directory tree (metadata, smoke, stack single)",
        "## metadata (smoke), lab exact, device profile ssd",
    ]
    assert not [line for line in found[6:] if "md-raid" in line]
    ids = Page("".join(shown)).ids
    assert len([name for name in ids if name.startswith("tbl-winners")]) == 1
    for label in ("btrfs-none", "btrfs-zstd", "ext4", "xfs"):
        assert f"fig-stacks-exact-ssd-metadata-smoke-{label}" in ids
        assert f"fig-disks-exact-ssd-metadata-smoke-{label}" in ids


def test_ratios_to_single_and_to_the_healthy_stack_are_there(stacked):
    tables = tables_of(*stacked)
    overview = tables["tbl-stacks-exact-ssd-metadata-smoke-0"]
    assert overview["md-raid6"]["xfs"] == display.DASH
    assert re.fullmatch(r"1\.\d\d \(.*\)", overview["md-raid6"]["ext4"])
    assert overview["single"]["ext4"] == "1" and overview["btrfs-raid1"]["ext4"] == display.DASH
    faults = tables["tbl-faults-exact-ssd-metadata-smoke-0"]
    assert {row["Relative to"] for row in faults.values()} == {"md-raid5"}
    rebuilt = tables["tbl-rebuilds-exact"]
    assert rebuilt["md-raid5-rebuilding"]["Operations during the rebuild"] == "8 of 9"
    assert "s" in rebuilt["md-raid5-rebuilding"]["Time to rebuild"]
    built = tables["tbl-stacks"]
    assert list(built) == [*STACKS, *FAULTS[1:]]
    assert built["md-raid5-degraded"]["Read back"] == "md0 : active raid5; [6/5] [UUUUU_]"
    assert built["md-raid5-degraded"]["State"].startswith("degraded, by mdadm")
    assert built["single"]["Initial synchronisation"] == "none needed"


def test_what_stacks_may_hide_is_among_the_threats(stacked):
    found = prose(next(path for path in stacked if path.stem == "threats"))
    for part in (
        "was assumed to be complete, not written",
        "looking through each request for each of its pages, and copying",
        "the rebuild was over when the phase ended",
        "were skipped",
    ):
        assert part in found, part
    failures = prose(next(path for path in stacked if path.stem == "quality"))
    assert "Rounds" in failures and "1, 2 and 3" in failures  # rounds that ended alike share a row


@pytest.mark.wide
def test_healthy_and_degraded_stacks_are_compared_without_a_single_device(tmp_path, without_pictures):
    options = {"systems": ["ext4", "xfs"], "workloads": ["metadata"], "failures": {}, "stacks": FAULTS}
    text = prose(*executed(tmp_path, "answer", "stacks", "rebuilds", **options))
    assert re.search(r"md-raid5-degraded relative to md-raid5: ext4 1\.\d+ \([^)]+\) and xfs 1\.\d+", text)
    assert "Rebuild. While the workload ran" in text.replace("*", "") and "relative to single" not in text


@pytest.mark.wide
def test_a_study_of_two_labs_tells_how_far_they_agree(tmp_path, without_pictures):
    names = ["answer", "labs", "threats"]
    answer, agreement, threats = executed(
        tmp_path, *names, systems=["ext4", "xfs", "btrfs", "tmpfs"], failures={}, **LABS, **ONE_LOAD
    )
    assert "tbl-clocks-exact-host-single-ssd-0" in tables_of(agreement)
    text = prose(answer, agreement).replace("*", "")
    assert re.search(r"Agreement of exact and host\. Over 9 operations, of \d+ pairs of file systems that differ", text)
    assert "τ-b between the orders is 0." in text and "on average (95 % interval" in text
    text += prose(threats)
    for part in (
        "Over 15 trials of the lab host, the load of the host was 0.10 to 2.90",
        "Five trials of the lab host began before the host was quiet (for example: the load of the host stayed above",
        "others took 0.40 % to 1.20 % of the processor time",
        "are from one machine (a processor): nothing is known of others",
        "Where the clock is a real one, it is both together",
    ):
        assert part in text, part
    study = open_study(str(tmp_path / "tables"))
    assert labs.facts(study)[0]["instruction"] is None  # of an unknown processor
    processor = CATALOG.get(Processor, "v2-0.5ns")
    about = {name: facts.model_copy(update={"processor": processor}) for name, facts in study.plan.labs.items()}
    (told,) = labs.facts(dataclasses.replace(study, plan=study.plan.model_copy(update={"labs": about})))
    assert told["instruction"]["least"] < told["instruction"]["mean"] == told["pace"] / 2 < told["instruction"]["most"]


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
    # Ratios of two clocks are their own table, in the notebook that is there for it.
    assert {name.rsplit("-", 1)[0] for name in both} == {
        f"labs tbl-{kind}-exact-host-{stack}-ssd" for stack in stacks for kind in ("clocks", "paces")
    }


def shown(notebooks: list[Path]):
    """Name and content of every table and figure of the executed notebooks."""
    for path in notebooks:
        for html in outputs(path):
            if name := re.search(r'<(?:table|figure) id="([^"]+)"', html):
                yield f"{path.stem} {name[1]}", html


def test_what_is_missing_is_named(folder, notebooks, tmp_path):
    with pytest.raises(UserError, match=r"quality\.ipynb: run `make report`"):
        render.render([tmp_path / "quality.ipynb", *notebooks], tmp_path / "out", folder / "tables")
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


def said(study, name: str) -> str:
    """What the notebook `name` says of a study that was changed: its cells of prose, with the study as it is."""
    source = nbformat.read(run.SOURCES / f"{name}.ipynb", as_version=4)
    cells = [cell.source for cell in source.cells if cell.cell_type == "code"]
    lines = [line for cell in cells for line in cell.splitlines() if line.startswith(("import ", "from "))]
    facts = {"study": study}
    exec("\n".join(lines), facts)
    found: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(display, "display", lambda thing: found.append(getattr(thing, "data", None) or repr(thing)))
        for cell in cells:
            if cell.startswith("%%say"):
                display.say(cell.partition("\n")[2], facts)
    return "\n".join(found)


def test_sync_is_told_with_the_cache_state(small):
    """In the fixture no reading phase syncs, and create does; stat is there cold and warm."""
    phases = small.phases.copy()
    phases.loc[(phases["phase"] == "stat") & (phases["cache"] == "cold"), "sync_ns"] = 1
    changed = dataclasses.replace(small, phases=phases)
    found = methods.sync(changed)
    assert "`stat` (cold)" in found["synced"] and "`create`" in found["synced"]
    assert found["unsynced"] == ["`stat` (warm)", "`read` (cold)", "`read` (warm)"]
    text = said(changed, "methods")
    assert "No sync was measured in these: `stat` (warm), `read` (cold) and `read` (warm)." in text


def test_methods_say_which_cells_have_fewer_rounds(small):
    assert methods.design(small)["fewer"] == [] and "except that" not in said(small, "methods")
    last = small.trials["round"].max()
    lost = (small.trials["round"] == last) & (small.trials["label"] == "ext4")
    changed = dataclasses.replace(small, trials=small.trials[~lost])
    assert ", except that 1 cell has only 1 round; the rounds used" in said(changed, "methods")


def test_time_between_operations_is_not_all_the_drivers(small):
    """A thread of one file system that runs between the operations is not charged to the driver."""
    phases = small.phases.copy()
    phases["driver_ns"] = (phases["wall_ns"] // 50).astype("Int64")
    own = (phases["phase"] == "make-tree") & (phases["label"] == "xfs")
    phases.loc[own, "driver_ns"] = phases.loc[own, "wall_ns"] // 2
    (found,) = threats.driver(dataclasses.replace(small, phases=phases))
    assert found["above"] == [] and found["most"] < 0.1
    # Where it is long for every one of them it may be the driver's, and for whom is said; not for the upper bound.
    here = phases["phase"] == "make-tree"
    phases.loc[here, "driver_ns"] = phases.loc[here & (phases["label"] == "ext4"), "wall_ns"].min() // 4
    changed = dataclasses.replace(small, phases=phases)
    (found,) = threats.driver(changed)
    assert [place["title"] for place in found["above"]] == ["Make the directory tree"]
    assert "ext4" in found["above"][0]["labels"] and "tmpfs" not in found["above"][0]["labels"]
    assert "more than 10 % in Make the directory tree (ext4" in said(changed, "threats")


def without_promise(folder: Path, kind: str, name: str, why: str, systems: list[str]):
    """A study in whose plan a device, or a file system's default variant, does not keep what fsync promises."""
    make.make(folder, rounds=2, systems=systems, workloads=["metadata"], failures={})
    plan = json.loads((folder / "plan.json").read_text())
    entry = plan[kind][name]
    (entry["variants"]["default"] if kind == "filesystems" else entry).update(promise="none", why=why)
    (folder / "plan.json").write_text(json.dumps(plan))
    return run.build(folder)


def test_who_does_not_keep_fsync_is_shown_and_never_ranked(tmp_path, without_pictures):
    """ext4 is the cheapest by far, in a variant whose file says that it does not keep the promise."""
    systems = ["ext4", "xfs", "btrfs", "tmpfs"]
    study = without_promise(tmp_path, "filesystems", "ext4", "the server answers at once", systems)
    (setting,) = study.settings
    found = study.results
    assert set(study.trials.loc[study.trials["label"] == "ext4", "role"]) == {"no-promise"}
    assert "ext4" in set(found.totals["label"]) and "ext4" not in study.contenders(setting)
    assert "ext4" not in {*found.ranks["label"], *found.winners["best"], *found.cheapest["best"]}
    assert not any("ext4" in level for frame in (found.winners, found.cheapest) for level in frame["level"])
    assert study.beside(setting) == ["ext4", "tmpfs"]
    words = prose(run.execute(tmp_path, ["answer"]) / "answer.ipynb").replace("*", "")
    assert "Not ranked, because fsync is not kept when the power fails: ext4 (the server answers at once)." in words
    assert not re.search(r"ext4 (is|costs?|cannot be|takes)", words)
    line = next(line for line in lines_of.totals(study, setting).splitlines() if line.startswith("ext4"))
    assert line.endswith("fsync not kept")
    cells = statistics.cells(study, setting, study.loads(setting)[0])
    assert {row["File system"] for row in cells.rows} >= {"ext4†", "tmpfs*"} and "†: does not keep" in cells.caption
    (figure, *_) = operations.heatmaps(study, setting)
    assert figure.caption.endswith("ext4 does not keep what fsync promises: not ranked.")


def test_on_a_device_that_ignores_flushes_nobody_is_ranked(tmp_path, without_pictures):
    study = without_promise(tmp_path, "devices", "ssd", "it is in memory", ["ext4", "xfs", "tmpfs"])
    roles = dict(zip(study.trials["label"], study.trials["role"], strict=True))
    assert roles == {"ext4": "no-promise", "xfs": "no-promise", "tmpfs": "ceiling"}
    assert study.results.ranks.empty and study.results.winners.empty and not study.labels()
    run.execute(tmp_path, run.names_of(tmp_path))
    words = prose(tmp_path / "report/notebooks/answer.ipynb").replace("*", "")
    assert "Not ranked, because fsync is not kept when the power fails: everything on ssd (it is in memory)." in words
    assert "the cheapest" not in words


def test_what_the_files_take_on_each_file_system(small):
    """By hand: 30 MB on ext4, 10 MB in steps of 10 MB on xfs, 20 MB on tmpfs, no contender; 16 MB of content."""
    ((setting, load),) = space.places(small)
    new = 2**24
    after = {"ext4": (3e7, 1e6), "xfs": (1e7, 2e7), "tmpfs": (2e7, 1e6)}
    there = small.phases["phase"].isin(["create", "stat", "read", "rename"])
    used = [
        new + int(after[label][0] if full else after[label][1])
        for label, full in zip(small.phases["label"], there, strict=True)
    ]
    changed = dataclasses.replace(small, phases=small.phases.assign(used_bytes=pd.array(used, dtype="Int64")))
    found = space.fullest(changed, setting, load).set_index("label")
    assert list(found.index) == ["xfs", "tmpfs", "ext4"] and list(found["taken"]) == [1e7, 2e7, 3e7]
    assert (
        list(found["step"]) == [1e7, 1e6, 1e6]
        and set(found["new"]) == {new}
        and set(found["title"]) == {"Create files"}
    )
    assert space.least(changed, setting, load) is None  # of two contenders one counts too coarsely to be compared
    told = space.least(small, setting, load)
    assert (told["best"][0], told["worst"][0], told["coarse"]) == ("xfs", "ext4", [])
    rows = {row["File system"]: row for row in space.table(changed, setting, load).rows}
    assert rows["xfs"]["Taken"] == "9.54 MiB ± 9.54 MiB" and rows["ext4"]["Of content"] == "1.88"
    assert rows["ext4"]["A file"] == "14.6 KiB" and rows["ext4"]["Inodes"] == "2,064"
    assert "Grey, not ranked: tmpfs." in space.figure(changed, setting, load).caption
    alone = dataclasses.replace(changed, phases=changed.phases[changed.phases["label"] != "tmpfs"])
    assert "Grey" not in space.figure(alone, setting, load).caption
    nothing = small.phases.assign(used_bytes=pd.array([pd.NA] * len(small.phases), dtype="Int64"))
    assert space.places(dataclasses.replace(small, phases=nothing)) == []


def test_what_compression_saves_in_space(small):
    """xfs in the place of a second variant of ext4, which takes a quarter of the space of the first."""
    plan, trials = small.plan, small.trials.copy()
    chosen = trials["filesystem"] == "xfs"
    trials.loc[chosen, "filesystem"], trials.loc[chosen, "variant"] = "ext4", "small"
    entry = plan.workloads["metadata"]
    sized = entry.model_copy(update={"size": "compress", "scale": entry.scale.resized("compress", 80)})
    asked = plan.study.model_copy(update={"filesystems": ["ext4", "ext4+small", "tmpfs"], "cells": None})
    changed = plan.model_copy(update={"workloads": {"metadata": sized}, "study": asked})
    new, takes = 2**24, {"ext4": 2**25, "xfs": 2**23, "tmpfs": 2**22}
    used = pd.array([new + takes[label] for label in small.phases["label"]], dtype="Int64")
    study = dataclasses.replace(small, plan=changed, trials=trials, phases=small.phases.assign(used_bytes=used))
    assert space.first_variants(study) == {"ext4": "ext4", "xfs": "ext4", "tmpfs": "tmpfs"}
    (setting,) = study.shown_settings
    assert space.savings(study, setting).rows == [
        {"File system": "ext4", "80 %": "32 MiB"},
        {"File system": "xfs", "80 %": "8 MiB (0.250)"},
        {"File system": "tmpfs", "80 %": "4 MiB"},
    ]
    words = said(study, "space")
    assert "Of content of which a compressor saves 80 %, xfs takes 0.250 of the space of ext4." in words
    assert "What compression saves in space" in words and "least space" not in words
    assert "What compression saves" not in said(small, "space")


def test_a_last_disk_of_another_kind_is_set_beside_one_like_the_others(tmp_path):
    """On it everything takes half as long."""
    make.make(tmp_path, rounds=2, systems=["xfs"], workloads=["metadata"], failures={}, stacks=["single", "md-raid5"])
    built = run.build(tmp_path)
    more = {}
    for name in ("trials", "phases"):
        table = getattr(built, name)
        own = table[table["stack"] == "md-raid5"].assign(profile="ssd+ssd-nvme")
        own = own.assign(wall_ns=own["wall_ns"] // 2) if name == "phases" else own
        more[name] = pd.concat([table, own], ignore_index=True)
    study = dataclasses.replace(built, folder=tmp_path / "none", **more)
    (place,) = study.places
    assert place.profile == "ssd"
    words = said(study, "stacks").replace("\N{NO-BREAK SPACE}", " ")
    assert "same file system on the same stack, whose disks are all ssd," in words
    assert "* md-raid5 with ssd-nvme relative to md-raid5: xfs 0.500 (0.500 \N{EN DASH} 0.500)." in words
    assert "md-raid5 with ssd-nvme to" in words and "each relative to single." in words
    (table,) = stacks.details(study, place, "alike")
    assert {row["Stack"] for row in table.rows} == {"md-raid5 with ssd-nvme"} and len(table.rows) > 5
    assert "not kept" not in words
    study.plan.stacks["md-raid5"] = study.plan.stacks["md-raid5"].model_copy(update={"why": "it loses files"})
    assert "What fsync promises is not kept on md-raid5 and md-raid5 with ssd-nvme when the power fails." in said(
        study, "stacks"
    )


def test_how_busy_the_processors_were(small):
    """ext4 is busy for 95 % of the time in all phases, xfs for half; the others do not tell."""
    busy = small.phases["label"].map({"ext4": 0.95, "xfs": 0.5}).astype("Float64")
    changed = dataclasses.replace(small, phases=small.phases.assign(processor_busy=busy))
    table = threats.processors(changed)
    assert [row["File system"] for row in table.rows] == ["ext4", "xfs"]
    assert [set(row.values()) - {"ext4", "xfs"} for row in table.rows] == [{"95.0 %"}, {"50.0 %"}]
    assert "tells how busy the processors were" in said(changed, "threats") and "All hosts share" not in said(
        changed, "threats"
    )
    # A long phase counts for more than a short one: half of the time, not of the phases.
    first = small.phases["phase"] == small.phases["phase"].iloc[0]
    lengths = small.phases.assign(processor_busy=(~first).astype("Float64"), wall_ns=first.map({True: 8, False: 1}))
    (row, *_) = threats.processors(dataclasses.replace(small, phases=lengths)).rows
    assert set(row.values()) - {row["File system"]} == {"50.0 %"}
    # A second workload, of ext4 only: nothing is known of xfs there.
    more = changed.phases[changed.phases["label"] == "ext4"].assign(workload="git-annex")
    annex = {"git-annex": small.plan.workloads["metadata"].model_copy(update={"title": "Annex"})}
    plan = small.plan.model_copy(update={"workloads": small.plan.workloads | annex})
    both = dataclasses.replace(small, plan=plan, phases=pd.concat([changed.phases, more]))
    table = threats.processors(both)
    assert {row["File system"]: row["Annex"] for row in table.rows} == {"ext4": "95.0 %", "xfs": display.DASH}
    nothing = small.phases.assign(processor_busy=pd.array([pd.NA] * len(small.phases), dtype="Float64"))
    assert threats.processors(dataclasses.replace(small, phases=nothing)) is None
    lab, one = next(iter(small.plan.labs.values())), CATALOG.get(Processor, "v2-0.5ns")
    for cores, share, said_so in ((1, "", False), (2, "50.0 %", False), (4, "25.0 %", True)):
        some = lab.model_copy(update={"processor": one.model_copy(update={"cores": cores})})
        plan = small.plan.model_copy(update={"labs": dict.fromkeys(small.plan.labs, some)})
        caption = threats.processors(dataclasses.replace(changed, plan=plan)).caption
        assert ("it may be off by 2.5 ms" in caption) == said_so
        assert (f"One thread can take at most {share} of {cores} processors." in caption) == bool(share)


def test_what_was_made_again_is_told(small):
    assert "again;" not in said(small, "quality") and "twice" not in said(small, "quality")
    changed = dataclasses.replace(small, environment=small.environment | {"ran_twice": 2, "set_aside": 1})
    assert (quality.facts(changed)["ran_twice"], quality.facts(changed)["set_aside"]) == (2, 1)
    text = said(changed, "quality")
    assert "Two trials ran twice, because the lab's process was killed the first time." in text
    assert "One earlier record was set aside, and its trial made again." in text


def test_title_and_subtitle_are_those_of_the_study(small):
    about = render.metadata(small)
    assert about["title"] == "Which file system should hold many small files?"
    assert about["subtitle"].startswith("Study fixture: 6 trials with ReproFS 0.1.0, measured on 2026-01-01")
    assert json.dumps(about)


@pytest.mark.parametrize(
    ("lengths", "columns"),
    [([30], 3), ([40, 40], 3), ([28, 28, 28], 3), ([28, 28, 29], 2), ([38, 1, 37, 36], 2), ([1, 38, 1, 37, 1, 1], 3)],
)
def test_a_legend_is_not_wider_than_its_bars(lengths, columns):
    """Four entries in three columns are two, one and one."""
    assert answer._columns(["x" * length for length in lengths]) == columns


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


def test_the_rounds_of_a_setting_are_its_own(small):
    (setting,) = small.settings
    assert answer.where(small, setting).endswith("scale smoke, 2 rounds")
    first = small.trials[small.trials["round"] == 1]
    elsewhere = pd.concat([small.trials, first.assign(stack="servers")])
    at = setting._replace(stack="servers")
    assert answer.where(dataclasses.replace(small, trials=elsewhere), at).endswith("scale smoke, 1 round")
    fewer = small.trials[(small.trials["label"] != "xfs") | (small.trials["round"] == 1)]
    assert answer.where(dataclasses.replace(small, trials=fewer), setting).endswith("scale smoke, 1 to 2 rounds")


def test_a_printed_table_wider_than_the_page_shares_it_by_what_its_columns_say(tmp_path):
    """A narrow one is left as it is; a word is broken at a hyphen only where there is no other room."""
    words = "undecided: nfs-xfs+v4.2-sync, cephfs+kernel, gluster+replica-3 and 2 others " * 2
    row = {"Operation": "Stat", "Verdict": words, "Time": f"2.667 ms ({display.span(2.6666, 2.6667)})", "Next": "ext4"}
    many = {f"{i}": "nfs-xfs+v4.2-sync" for i in range(8)}
    shown = [
        display.Table(f"tbl-{i}", "Words.", [cells], left=["Verdict"])
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
    assert text.count("2.6666") == 2
