"""Figures: the same bytes every time, ink that follows the page, nothing loaded from elsewhere, words for all."""

import io
import itertools
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator

import make
import matplotlib
import numpy as np
import pytest
import run
from matplotlib.text import Text
from reprofs.data.keys import OPERATION, Load, Pair, Place, Setting
from reprofs.report import display, plots
from reprofs.report.svg import LINK, TEXT, USE, small
from reprofs.report.topics import answer, labs, operations, stacks
from reprofs.stats.study import Study

pytestmark = pytest.mark.xdist_group("figures")  # one worker: the study is made once

SETTING, LOAD = Setting("exact", "single", "ssd"), Load("metadata", "smoke")


def of_one_setting(study: Study, setting=SETTING) -> Iterator[plots.Figure]:
    """Every figure that compares the file systems of a setting."""
    yield from operations.heatmaps(study, setting)
    yield from answer.figures(study, setting)
    for load in study.loads(setting):
        yield from operations.intervals(study, setting, load)
        yield from operations.latencies(study, setting, load)


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("figures")
    failures = {("jfs", "metadata", 1): ("failed", "It broke.")}
    make.make(folder, systems=["ext4", "xfs", "jfs", "tmpfs"], failures=failures)
    return run.build(folder)


@pytest.fixture(scope="module")
def figures(study):
    return list(of_one_setting(study))


def named(figures: list[plots.Figure], kind: str) -> plots.Figure:
    """The first figure of a kind."""
    return next(figure for figure in figures if figure.name.startswith(kind))


def texts(figure: plots.Figure) -> list[str]:
    return [text.get_text() for axes in figure.plot.axes for text in axes.texts]


def words_are_whole(figures: list[plots.Figure]) -> None:
    """Caption and words for those who cannot see."""
    assert len({figure.name for figure in figures}) == len(figures)
    for figure in figures:
        assert figure.caption.endswith(".") and figure.alt.endswith(".") and "nan" not in figure.caption + figure.alt


@pytest.mark.wide
def test_a_setting_has_every_kind_with_its_words(figures):
    kinds = [figure.name.partition("-")[0] for figure in figures]
    # Phases that execute commands have no latencies of single operations.
    assert kinds == ["heatmap", "totals", "intervals", "latencies", "intervals"]
    words_are_whole(figures)
    intervals = named(figures, "intervals")
    assert "not measurement noise" in intervals.caption and "upper bound, tmpfs" in intervals.caption


@pytest.mark.wide
def test_the_same_bytes_twice_in_the_ink_of_the_page(figures, study):
    """No figure stays with pyplot, which a kernel would show a second time, and no style with the notebook."""
    style, drawn = dict(matplotlib.rcParams), list(of_one_setting(study))
    assert plots.plt.get_fignums() == [] and dict(matplotlib.rcParams) == style
    for first, again in zip(figures, drawn, strict=True):
        text = plots.svg(first.plot)
        assert text == plots.svg(again.plot)
        assert "currentColor" in text and plots.INK not in text
        assert "<image" not in text and text.count("font-family") == 1  # no bitmap; one font for all words
        assert not re.search(r'(href|src)="(?!#)', text)
        assert set(re.findall(r'(?:href="|url\()#(\w+)', text)) <= set(re.findall(r' id="(\w+)"', text))


def test_a_smaller_svg_is_the_same_figure():
    """Every word, number and link of what matplotlib wrote, the numbers to a hundredth of a point."""
    figure, axes = plots.plt.subplots()
    axes.plot([1, 2], [3, 4], marker="o", clip_on=True)
    axes.set_title('1.23456 of "a" d="0.98765" <#i0>')
    axes.set_ylabel("turned")
    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        figure.savefig(buffer, format="svg")
    plots.plt.close(figure)
    before, after = (ElementTree.fromstring(text) for text in (buffer.getvalue(), small(buffer.getvalue())))

    def words(root):
        return [element.text for element in root.iter(TEXT)]

    def points(root):
        paths = [
            element.get("d") for element in root.iter() if element.get("d") and element.get("style") != "fill: none"
        ]
        return [float(number) for path in paths for number in re.findall(r"-?\d+\.?\d*", path)]

    assert words(after) == words(before) and '1.23456 of "a" d="0.98765" <#i0>' in words(after)
    assert len(points(after)) == len(points(before)) > 20
    assert points(after) == pytest.approx(points(before), abs=0.00501)
    names = {element.get("id") for element in after.iter()}
    assert {element.get(LINK)[1:] for element in after.iter(USE)} <= names
    assert sum("rotate(-90" in element.get("transform", "") for element in after.iter(TEXT)) == 1
    said = "".join(element.text for element in after.iter() if element.tag.endswith("style"))
    used = {element.get("class") for element in after.iter()} - {None}
    assert used and used == set(re.findall(r"\.(\w+)\{", said)) and all(one.startswith(after.get("id")) for one in used)
    assert all(element.attrib for element in after.iter() if element.tag.endswith("}g"))
    assert len(small(buffer.getvalue())) < 0.6 * len(buffer.getvalue())


def test_what_cannot_be_seen_changes_no_byte():
    """The last digits of a logarithm are not the same on all processors."""
    written = []
    for more in (0, 3e-8):
        figure, axes = plots.plt.subplots()
        axes.plot([1, 2 + more, 4], [3, 4, 5])
        written.append(plots.svg(figure))
        plots.plt.close(figure)
    assert written[0] == written[1]


def test_a_figure_can_be_changed_before_it_is_shown(study):
    """What a notebook shows is the live matplotlib figure, in the same style whatever the notebook's own is."""
    figure = answer.figures(study, SETTING)[0]
    before = figure._repr_html_()
    assert before == figure._repr_html_() and f'<figure id="fig-{figure.name}">' in before
    assert f'data-figure="{figure.name}"' in before and 'alt="2 panels of stacked bars' in before
    with matplotlib.rc_context({"font.size": 30, "svg.fonttype": "path", "svg.hashsalt": "another"}):
        assert figure._repr_html_() == before and answer.figures(study, SETTING)[0]._repr_html_() == before
    figure.plot.axes[0].set_title("A title of my own")
    changed = figure._repr_html_()
    assert changed != before and changed == figure._repr_html_()
    assert figure.caption in repr(figure) and figure.alt in repr(figure)


def test_a_figure_escapes_its_words(study):
    figure = plots.Figure("f", "**a** < b & `c`", 'a "b" <c>', answer.figures(study, SETTING)[0].plot)
    html = figure._repr_html_()
    assert "<figcaption>**a** &lt; b &amp; <code>c</code></figcaption>" in html
    assert 'alt="a &quot;b&quot; &lt;c&gt;"' in html


def test_the_printed_width_is_that_of_the_page(figures):
    for figure in figures:
        assert figure.plot.get_size_inches()[0] == plots.WIDTH
        assert figure.plot.get_size_inches()[1] < 9.5  # fits an A4 page with its caption
        sized = figure.plot.findobj(lambda thing: hasattr(thing, "get_fontsize"))
        assert min(text.get_fontsize() for text in sized if text.get_text()) >= 8


def test_rows_of_intervals_are_contenders_or_those_a_reader_chooses(study, figures):
    (chosen,) = operations.intervals(study, SETTING, LOAD, ["xfs", "ext4"])
    shown = [named(figures, "intervals").plot, chosen.plot]
    contenders, own = ([text.get_text() for text in plot.axes[0].get_yticklabels()] for plot in shown)
    assert sorted(contenders) == ["ext4", "jfs", "xfs"] and own == ["xfs", "ext4"]


def test_a_part_of_the_heat_map_shows_those_who_are_in_it(tmp_path, monkeypatch):
    lost = {("jfs", "metadata", number): ("failed", "It broke.") for number in (1, 2, 3)}
    make.make(tmp_path, systems=["ext4", "xfs", "jfs"], failures=lost)
    study = run.build(tmp_path)
    monkeypatch.setattr(operations, "ROWS", 1)  # a part for each workload
    parts = operations.heatmaps(study, SETTING)
    assert ["2 file systems" in figure.alt for figure in parts] == [True, False]
    assert [sum(text == "jfs" for text in texts(figure)) for figure in parts] == [0, 1]


def test_no_contender_no_figure(tmp_path):
    make.make(tmp_path, rounds=1, systems=["tmpfs"], workloads=["metadata"], failures={})
    study = run.build(tmp_path)
    assert operations.heatmaps(study, SETTING) == operations.intervals(study, SETTING, LOAD) == []
    assert operations.latencies(study, SETTING, LOAD) == []
    assert not any(study.compared(setting) for setting in study.shown_settings)  # so that no rank is drawn


def test_totals_of_one_round_show_no_difference(tmp_path, figures):
    make.make(tmp_path, rounds=1, systems=["ext4", "xfs"], workloads=["metadata"], failures={})
    (one,) = answer.figures(run.build(tmp_path), SETTING)
    assert "One round shows no difference." in one.caption and "interval" not in one.caption
    several = named(figures, "totals")
    assert "paired by round, with its 95 % interval" in several.caption
    bold = [[text.get_fontweight() for text in plot.axes[0].get_yticklabels()] for plot in (one.plot, several.plot)]
    assert set(bold[0]) == {"normal"} and "bold" in bold[1]


LAYOUTS = ["single", "md-raid5@3", "md-raid5", "md-raid5@12", "md-raid6", "md-raid5-degraded", "btrfs-raid1"]
PLACE = Place("exact", "ssd", "metadata", "smoke")


@pytest.fixture(scope="module")
def stacked(tmp_path_factory):
    """A study of two file systems on stacks of several levels and numbers of disks."""
    folder = tmp_path_factory.mktemp("stacked")
    make.make(folder, systems=["ext4", "btrfs"], workloads=["metadata"], failures={}, stacks=LAYOUTS)
    return run.build(folder)


@pytest.mark.wide
def test_stacks_have_heat_maps_and_lines_instead_of_sections(stacked):
    # One setting in full, whatever the number of stacks; for each file system one heat map and one of the disks.
    assert stacked.shown_settings == [SETTING] and stacked.places == [PLACE]
    figures = [*stacks.heatmaps(stacked, PLACE), *stacks.disks(stacked, PLACE)]
    assert [figure.name.partition("-")[0] for figure in figures] == [*["stacks"] * 3, *["disks"] * 3]
    words_are_whole(figures)


def test_the_heat_map_of_stacks_names_them_and_colours_what_is_shown(stacked):
    figure = next(figure for figure in stacks.heatmaps(stacked, PLACE) if figure.name.endswith("ext4"))
    names = [text for text in texts(figure) if text in LAYOUTS]
    assert names == [name for name in LAYOUTS if name not in ("single", "btrfs-raid1")]  # not itself, not another's
    found = stacked.results.stacks.query("label == 'ext4' and relation == 'base'")
    proved = ((found["low"] > 1) | (found["high"] < 1)).sum()
    assert 0 < proved < len(found) and len(figure.plot.axes[0].patches) == proved
    assert figure.plot.get_size_inches()[0] == plots.WIDTH


def test_the_first_table_of_verdicts_says_what_they_mean(stacked):
    first, *others = [operations.winners(stacked, setting).caption for setting in stacked.shown_settings]
    assert "a measured lead" in first and not any("a measured lead" in caption for caption in others)


def test_the_lines_of_disks_have_shapes_and_the_single_device_a_line_across(stacked):
    plot = stacks.disks(stacked, PLACE)[0].plot
    assert [text.get_text() for text in plot.legends[0].get_texts()] == ["single", "md-raid5"]
    lines = plot.axes[0].get_lines()
    assert any(list(line.get_xdata()) == [3, 6, 12] for line in lines)
    assert len({line.get_marker() for line in lines if line.get_marker() != "None"} - {"|", "_"}) >= 2
    assert plot.axes[0].get_ylim()[0] == 0


@pytest.mark.wide
def test_many_file_systems_are_rows_and_their_panels_fit_on_pages(tmp_path, monkeypatch):
    monkeypatch.setattr(make, "SYSTEMS", {f"fs{i:02}": (1 + i / 10, 1.0, 1.0, 0.01) for i in range(24)})
    make.make(tmp_path, rounds=2, systems=list(make.SYSTEMS), workloads=["metadata"], failures={})
    study = run.build(tmp_path)
    figures = list(of_one_setting(study))
    pages = [figure for figure in figures if figure.name.startswith("intervals")]
    assert len(pages) > 1 and pages[0].caption.endswith(f"Part 1 of {len(pages)}.")
    for figure in figures:
        assert figure.plot.get_size_inches()[1] < 9.5, figure.name
    rows = [text for text in texts(named(figures, "heatmap")) if text.startswith("fs")]
    assert rows == study.contenders(SETTING) and len(rows) == 24


@pytest.mark.wide
def test_two_labs_meet_in_one_figure_without_units(tmp_path, monkeypatch):
    make.make(tmp_path, systems=["ext4", "xfs", "tmpfs"], workloads=["metadata"], failures={}, labs=["exact", "host"])
    study = run.build(tmp_path)
    pair = Pair("exact", "host", "single", "ssd")
    assert study.pairs == [pair]
    drawn, draw = [], labs.scatter
    monkeypatch.setattr(labs, "scatter", lambda table, *more: drawn.append(table) or draw(table, *more))
    (figure,) = labs.figures(study, pair)
    plot = figure.plot
    (table,) = drawn
    assert set(table["label"]) == {"ext4", "xfs", "tmpfs"}
    logs = table.assign(x=np.log(table["x"]), y=np.log(table["y"])).groupby(OPERATION)[["x", "y"]].sum()
    assert np.allclose(logs, 0)  # relative to the geometric mean: whatever the clocks' units, they are gone
    words = {text.get_text() for text in plot.findobj(Text)}
    assert {"relative cost, lab exact", "relative cost, lab host"} <= words
    assert not words & {name for name, _ in display.UNITS}
    for setting in study.shown_settings:
        other = "host" if setting.lab == "exact" else "exact"
        for figure in of_one_setting(study, setting):
            assert f"lab {other}" not in figure.caption


def test_long_titles_leave_the_panels_their_room(study, monkeypatch):
    long = "What an operation with a very long title does to the files of a tree, which something else keeps"
    monkeypatch.setattr(Study, "title", lambda self, workload, phase, cache: f"{long}, {phase}, {cache}")
    (axes,) = answer.figures(study, SETTING)[0].plot.axes[:1]
    axes.figure.canvas.draw()
    assert axes.get_position().width > 0.5
    panels = operations.intervals(study, SETTING, LOAD)[0].plot.axes
    assert all(panel.get_title(loc="left").count("\n") <= 1 for panel in panels)


@pytest.fixture
def styled():
    with matplotlib.rc_context(plots.STYLE):
        yield


TIMES = [[70.0, 70.0], [225.5023, 225.5063], [10157.2, 10211.4], [9.44592, 9.44608], [0.5, 3], [1, 700]]


@pytest.mark.parametrize("times", TIMES, ids=str)
def test_the_numbers_of_an_axis_do_not_touch(times, styled):
    figure, (axes, *_) = plots.grid(1, 4, 4, 1)
    axes.plot(times, [0, 0], "o")
    plots.value_axis(axes)
    figure.canvas.draw()
    low, high = axes.get_xlim()
    boxes = [label.get_window_extent() for label in axes.get_xticklabels() if low <= label.get_position()[0] <= high]
    assert boxes and all(left.x1 < right.x0 for left, right in itertools.pairwise(boxes))


def test_a_spread_of_nothing_looks_like_one():
    """Two times closer than half a per cent are not drawn across the whole panel."""
    _, (axes,) = plots.grid(1, 1, 1, 1)
    axes.plot([1000, 1000.1], [0, 0], "o")
    plots.value_axis(axes)
    low, high = axes.get_xlim()
    assert high - low == pytest.approx(5, rel=1e-3)


def test_three_rows_have_the_height_of_their_letters(styled):
    figure, (axes, *_) = plots.panels([("a", "smoke", str(i), "warm") for i in range(9)], 3)
    for panel in figure.axes:
        plots.rows(panel, ["ext4", "xfs", "btrfs+none"])
        plots.title(panel, ("a", "smoke", "x", "warm"), lambda *_: "a title that is so long that it needs two lines")
        panel.plot([1, 2], [0, 0])
    figure.canvas.draw()
    boxes = [label.get_window_extent() for label in axes.get_yticklabels()]
    assert all(lower.y1 <= upper.y0 + 0.5 for upper, lower in itertools.pairwise(boxes))
