"""The report: complete, self-contained, numbered, the same bytes; true for any study; goldens hold the notebooks."""

import dataclasses
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import make
import make_goldens
import nbformat
import pytest
import run
from reprofs import narrative, report, words
from reprofs.errors import UserError

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


def plain(html: str) -> str:
    """The words of a page, without its code."""
    html = re.sub(r'<details class="code">.*?</details>', "", html, flags=re.DOTALL)
    return re.sub(r"<[^>]+>", "", html).replace("\N{NO-BREAK SPACE}", " ")


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
        (
            {
                "rounds": 1,
                "systems": ["ext4"],
                "workloads": ["metadata"],
                "failures": {},
                "stacks": ["md-raid5", "md-raid6"],
            },
            "md-raid6, each relative to md-raid5",
        ),
        (
            {
                "rounds": 2,
                "systems": ["btrfs"],
                "failures": {},
                "stacks": ["single", "btrfs-raid1", "md-raid5-rebuilding"],
            },
            "on md-raid5-rebuilding, each relative to single",
        ),
        (
            {"rounds": 1, "systems": ["ext4", "xfs", "tmpfs"], "failures": {}, "labs": ["exact", "host"]},
            "no pair of file systems is told apart by both labs",
        ),
        (
            {"rounds": 2, "systems": ["ext4", "xfs"], "failures": NO_RESULT, "labs": ["exact", "host"]}
            | {"stacks": ["single", "md-raid5-rebuilding"]},
            "Of 32 trials 32 have no complete result",
        ),
    ],
    ids=[
        *("one-round", "one-system", "ceiling-only", "nothing-completed", "no-spread", "six-rounds"),
        *("one-round-on-stacks", "one-system-on-stacks", "one-round-in-labs", "nothing-in-labs"),
    ],
)
def test_every_sentence_holds_for_any_study(tmp_path, options, expected):
    text = plain(rendered(tmp_path, **options))
    body = text[text.index("Question and answer") :]
    assert expected in body
    assert not re.search(r"\bnan\b|\bNaN\b|<NA>|\bNone\b|\binf\b", body)
    assert not re.search(r"\b1 (trials|rounds|operations|cells|contenders|file systems|files|packages)\b", body)


STACKS = ["single", "md-raid5@3", "md-raid5", "md-raid6", "btrfs-raid1"]
FAULTS = ["md-raid5", "md-raid5-degraded", "md-raid5-rebuilding"]


@pytest.fixture(scope="module")
def stacked(tmp_path_factory):
    """Page and executed report of a study with many stacks."""
    folder = tmp_path_factory.mktemp("stacked")
    skipped = {
        ("xfs", "metadata", number, "md-raid6", "exact"): ("skipped", "The guest has no package mdadm: add it.")
        for number in (1, 2, 3)
    }
    options = {"systems": ["ext4", "xfs", "btrfs", "tmpfs"], "workloads": ["metadata"], "failures": skipped}
    page = rendered(folder, stacks=[*STACKS, *FAULTS[1:]], **options)
    return page, nbformat.read(folder / "report/notebooks/05-report.ipynb", as_version=4)


def headings(page: str) -> list[str]:
    return [re.sub(r"<[^>]+>", "", text) for text in re.findall(r"<h3[^>]*>(.*?)</h3>", page, re.DOTALL)]


def test_a_study_of_many_stacks_has_one_section_on_stacks_not_one_for_each(stacked):
    page, _ = stacked
    body = page[page.index("<main>") : page.rindex("Appendix A.")]
    found = headings(body)
    assert [title for title in found if "tacks (" in title] == [
        "Stacks (metadata, smoke, lab exact, device profile ssd)"
    ]
    assert len(found) == 4  # file systems on single, the workload there, the stacks, the rebuild
    assert body.count("Winner of each operation") == 1
    ids = Page(page).ids
    for label in ("btrfs-none", "btrfs-zstd", "ext4", "xfs"):
        assert (
            f"fig-stacks-exact-ssd-metadata-smoke-{label}" in ids
            and f"fig-disks-exact-ssd-metadata-smoke-{label}" in ids
        )


def test_ratios_to_single_and_to_the_healthy_stack_are_there(stacked):
    _, notebook = stacked
    tables = {name: rows for cell in notebook.cells for name, rows in tables_of(cell)}
    overview = tables["tbl-stacks-exact-ssd-metadata-smoke-0"]
    assert overview["md-raid6"]["xfs"] == words.DASH and re.fullmatch(r"1\.\d\d \(.*\)", overview["md-raid6"]["ext4"])
    assert overview["single"]["ext4"] == "1" and overview["btrfs-raid1"]["ext4"] == words.DASH
    faults = tables["tbl-faults-exact-ssd-metadata-smoke-0"]
    assert {row["Beside"] for row in faults.values()} == {"md-raid5"}
    rebuilt = tables["tbl-rebuilds-exact"]
    assert rebuilt["md-raid5-rebuilding"]["Operations during the rebuild"] == "8 of 9"
    assert "s" in rebuilt["md-raid5-rebuilding"]["Time to rebuild"]
    built = tables["tbl-stacks"]
    assert list(built) == [*STACKS, *FAULTS[1:]]
    assert built["md-raid5-degraded"]["Read back"] == "md0 : active raid5; [6/5] [UUUUU_]"
    assert built["md-raid5-degraded"]["State"].startswith("degraded, by mdadm")
    assert built["single"]["Initial synchronisation"] == "none needed"


def tables_of(cell) -> list[tuple[str, dict]]:
    """(name, {first column: row}) of each table among the outputs of a cell."""
    found = []
    for output in cell.get("outputs", []):
        html = output.data.get("text/html", "")
        if name := re.match(r'<table id="([^"]+)"', html):
            rows = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in re.findall(r"<tr>(.*?)</tr>", html)]
            rows = [[re.sub(r"<[^>]+>", "", cell).replace("\N{NO-BREAK SPACE}", " ") for cell in row] for row in rows]
            found.append((name[1], {row[0]: dict(zip(rows[0], row, strict=True)) for row in rows[1:]}))
    return found


def test_what_stacks_may_hide_is_among_the_threats(stacked):
    text = plain(stacked[0])
    threats = text[text.index("Threats to validity") :]
    for part in (
        "was assumed to be complete, not written",
        "the rebuild was over when the phase ended",
        "were skipped",
    ):
        assert part in threats, part
    assert "Rounds" in text and "1, 2 and 3" in text  # rounds that ended alike share a row


def test_healthy_and_degraded_stacks_are_compared_without_a_single_device(tmp_path):
    page = plain(rendered(tmp_path, systems=["ext4", "xfs"], workloads=["metadata"], failures={}, stacks=FAULTS))
    assert re.search(r"md-raid5-degraded relative to md-raid5: ext4 1\.\d+ \([^)]+\) and xfs 1\.\d+", page)
    assert "Rebuild, lab exact." in page and "relative to single" not in page


LABS = {"labs": ["exact", "host"], "workloads": ["metadata"], "failures": {}}


def test_a_study_of_two_labs_tells_how_far_they_agree(tmp_path):
    page = rendered(tmp_path, systems=["ext4", "xfs", "btrfs", "tmpfs"], **LABS)
    text = plain(page[page.index("<main>") :])
    assert "Appendix C. Agreement of labs" in text and "tbl-clocks-exact-host-single-ssd-0" in Page(page).ids
    answer = text[text.index("Question and answer") : text.index("Findings")]
    assert re.search(
        r"Agreement of exact and host\. Over 9 operations, of \d+ pairs of file systems that both labs", answer
    )
    assert "τ-b between the orders is 0." in answer and "on average (95 % interval" in answer
    for part in (
        "Over 15 trials of the lab host, the load of the host was 0.10 to 2.90",
        "Five trials of the lab host began before the host was quiet (for example: the load of the host stayed above",
        "others took 0.40 % to 1.20 % of the processor time",
        "are from one machine (a processor): nothing is known of others",
        "That holds in the exact lab; elsewhere it is both together",
    ):
        assert part in text, part


def test_no_table_and_no_figure_holds_the_times_of_two_clocks(tmp_path):
    """What is shown may depend on the speed of one lab's clock, never on that of two."""
    stacks = ["single", "md-raid5-rebuilding"]
    seen = {}
    for name, clocks in (("plain", {}), ("exact", {"exact": 8}), ("host", {"host": 8})):
        make.make(tmp_path / name, systems=["ext4", "xfs", "jfs", "tmpfs"], stacks=stacks, clocks=clocks, **LABS)
        run.build(tmp_path / name)
        seen[name] = dict(shown(run.execute(tmp_path / name)))
    assert seen["plain"].keys() == seen["exact"].keys() == seen["host"].keys() and len(seen["plain"]) > 40
    moved = {
        lab: {name for name, content in seen[lab].items() if content != seen["plain"][name]}
        for lab in ("exact", "host")
    }
    assert len(moved["exact"]) > 10 and len(moved["host"]) > 10  # the clocks do show
    both = {name for name in moved["exact"] & moved["host"] if "tbl-digests" not in name}
    # Ratios of two clocks are their own table, in the notebook that is there for it.
    assert {name.rsplit("-", 1)[0] for name in both} == {
        f"06-agreement tbl-clocks-exact-host-{stack}-ssd" for stack in stacks
    }


def shown(executed: Path):
    """Name and content of every table and figure of the executed notebooks."""
    for path in sorted(executed.glob("*.ipynb")):
        for cell in nbformat.read(path, as_version=4).cells:
            for output in cell.get("outputs", []):
                html = output.data.get("text/html", "")
                if name := re.match(r'<(?:table|figure) id="([^"]+)"', html):
                    picture = executed.parent / "figures" / f"{name[1].removeprefix('fig-')}.svg"
                    content = picture.read_text() if html.startswith("<figure") else html
                    yield f"{path.stem} {name[1]}", content


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


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A study of two contenders and a ceiling, to be changed with dataclasses.replace."""
    folder = tmp_path_factory.mktemp("small")
    make.make(folder, rounds=2, systems=["ext4", "xfs", "tmpfs"], workloads=["metadata"], failures={})
    return run.build(folder)


def test_sync_is_told_with_the_cache_state(small):
    """In the fixture no reading phase syncs, and create does; stat is there cold and warm."""
    phases = small.phases.copy()
    phases.loc[(phases["phase"] == "stat") & (phases["cache"] == "cold"), "sync_ns"] = 1
    text = narrative._sync(dataclasses.replace(small, phases=phases))
    with_sync, without = text.split("No sync was measured in these: ")
    assert "`stat` (cold)" in with_sync and "`stat` (warm)" not in with_sync and "`create`" in with_sync
    assert without == "`stat` (warm), `read` (cold) and `read` (warm)."


def test_time_between_operations_is_not_all_the_drivers(small):
    """A thread of one file system that runs between the operations is not charged to the driver."""
    phases = small.phases.copy()
    phases["driver_ns"] = (phases["wall_ns"] // 50).astype("Int64")
    own = (phases["phase"] == "make-tree") & (phases["label"] == "xfs")
    phases.loc[own, "driver_ns"] = phases.loc[own, "wall_ns"] // 2
    text = "\n".join(narrative._driver_threats(small, phases))
    assert "at most" in text and "Make the directory tree" not in text and "50" not in text
    # Where it is long for every one of them it may be the driver's, and for whom is said; not for the ceiling.
    here = phases["phase"] == "make-tree"
    phases.loc[here, "driver_ns"] = phases.loc[here & (phases["label"] == "ext4"), "wall_ns"].min() // 4
    text = "\n".join(narrative._driver_threats(small, phases))
    assert "more than 10 % in Make the directory tree (ext4" in text and "tmpfs" not in text


def test_what_was_made_again_is_told(small):
    assert "again" not in repr(narrative.quality(small)) and "twice" not in repr(narrative.quality(small))
    changed = dataclasses.replace(small, environment=small.environment | {"ran_twice": 2, "set_aside": 1})
    text = repr(narrative.quality(changed))
    assert "Two trials ran twice, because the lab's process was killed the first time." in text
    assert "One earlier record was set aside, and its trial made again." in text


def nbval(folder: Path, *names: str, path: Path | None = None) -> subprocess.CompletedProcess:
    """Run the goldens `names` in `folder`, with the package in `path` before the installed one."""
    for name in names:
        shutil.copy(make_goldens.GOLDENS / f"{name}.ipynb", folder)
    arguments = [sys.executable, "-m", "pytest", "--nbval", "--nbval-current-env", "--nbval-cell-timeout=300"]
    (folder / "sanitize.cfg").write_text("[pictures]\nregex: {}\nreplace: {}\n".format(*make_goldens.PICTURE))
    arguments += [
        "--nbval-sanitize-with=sanitize.cfg",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        *(f"{name}.ipynb" for name in names),
    ]
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
