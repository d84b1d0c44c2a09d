"""What notebooks show: numbers as words, tables, figures: the same bytes, ink that follows the page, words for all."""

import io
import itertools
import math
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pandas as pd
import pytest
from helpers import Late
from reprofs.report import marks, words
from reprofs.report.svg import LINK, TEXT, USE, small

matplotlib, plt, sns = Late("matplotlib"), Late("matplotlib.pyplot"), Late("seaborn")
show, style = Late("reprofs.report.show"), Late("reprofs.report.style")

TIMES = "\N{MULTIPLICATION SIGN}"


def test_words():
    assert words.listing([]) == "none" and words.listing(["a"]) == "a" and words.listing("abc") == "a, b and c"
    assert words.listing("abcd", most=2) == "a, b and 2 others" and words.listing("abc", "or") == "a, b or c"
    assert words.count(1, "trial") == "1 trial" and words.count(0, "trial") == "no trials"
    assert words.count(1024, "trial") == "1,024 trials" and words.count(2, "body", "bodies") == "2 bodies"
    assert words.opening(2, "trial") == "Two trials" and words.opening(54, "trial") == "54 trials"
    assert words.verb(1, "is", "are") == "is" and words.verb(0, "is", "are") == "are"
    assert words.time(1_234_567) == "1.235 ms" and words.time(float("nan")) == words.DASH
    assert words.digits(123456.7, 3) == "123,457" and words.digits(0.012345, 3) == "0.0123" and words.digits(0) == "0"
    assert words.digits(-1.5, 2) == f"{words.MINUS}1.5" and words.digits(math.inf) == "∞"
    assert words.size(1536) == "1.5 KiB" and words.size(2**30) == "1 GiB"
    assert words.percent(0.12345) == "12.3 %" and words.percent(0.00001) == "< 0.01 %"
    assert words.chance(0.01234) == "p = 0.012" and words.chance(1e-9) == "p < 0.0001"
    assert words.span(1e-40, 9e61, significant=2) == f"1.0 {TIMES} 10⁻⁴⁰ {words.DASH} 9.0 {TIMES} 10⁶¹"
    assert words.span(0, 2e6, significant=2) == f"0 {words.DASH} 2,000,000"
    assert words.span(1, 2, significant=2) == f"1.0 {words.DASH} 2.0" and words.span(1, math.nan) == words.DASH
    assert words.reach(1.001, 1.002, "{:.1f}".format) == "1.0" and words.reach(1, 2, str) == "1 to 2"
    assert marks.code("a`b") == "``a`b``" and words.slug("a+b", ("c d", ""), 0) == "a-b-c-d-0"
    assert not any(map(words.known, (None, math.nan, pd.NA))) and words.known(0)
    assert show.ref("tbl-a", ("b", 1)) == "[table](#tbl-a-b-1)" and show.ref("fig-a").startswith("[figure]")


def test_an_interval_that_says_nothing_is_no_pair_of_numbers():
    assert words.confidence(1e-11, 1e11) == "wider than 100 times: too few rounds"  # of two rounds, by Bonferroni
    assert words.confidence(0.9, 2.5, significant=2) == f"0.90 {words.DASH} 2.5"
    assert words.confidence(math.nan, 2.5) == words.DASH


def test_the_ends_of_an_interval_look_different():
    assert words.span(1.1791, 1.1804, significant=3) == f"1.179 {words.DASH} 1.180"
    assert words.span(1.18, 1.18, significant=3) == words.DASH  # of rounds that are the same
    assert words.span(1, 1 + 1e-9, significant=3) == words.DASH  # nor by more digits, below any floor
    assert words.ratio(1.033, 1.0321, 1.0339) == f"1.033 (1.032 {words.DASH} 1.034)"
    assert words.ratio(1.033, 0.5, 2.25) == f"1.03 (0.50 {words.DASH} 2.25)"
    assert words.ratio(1.033, math.nan, math.nan) == "1.03" and words.ratio(math.nan, 1, 2) == words.DASH
    assert words.ratio(12.3, 1e-11, 1e11) == "12.3 (wider than 100 times: too few rounds)"


@pytest.fixture
def own():
    return show.Table(
        "tbl-t",
        "a < b & **c**",
        [
            {"Name": "`x<y>` <b>", "n": 1},
            {"Name": marks.strong("*a*") + " & " + show.ref("tbl-t"), "n": 2, "More": "<script>"},
        ],
        left=["Name"],
    )


def test_a_table_escapes_its_text_and_knows_its_marks(own):
    html = own._repr_html_()
    assert '<table id="tbl-t">' in html and "<caption>a &lt; b &amp; **c**</caption>" in html
    assert "<code>x&lt;y&gt;</code> &lt;b&gt;" in html
    assert '<strong>*a*</strong> &amp; <a href="#tbl-t">table</a>' in html
    assert "&lt;script&gt;" in html and "<script" not in html and "<b>" not in html
    assert html == own._repr_html_()


def test_columns_of_a_table_have_their_side(own):
    html = own._repr_html_()
    rows = html[html.index("<tbody>") :]
    assert rows.count('left"') == 2 and rows.count('right"') == 4
    assert "text-align: left" in html and "text-align: right" in html


def test_a_table_is_a_frame_as_well(own):
    frame = own.frame
    assert list(frame.columns) == ["Name", "n", "More"] and list(frame["More"]) == ["", "<script>"]
    assert repr(own).startswith("a < b & **c**\n") and r"**\*a\*** \& [table](#tbl-t)" in repr(own)
    assert show.Table("tbl-none", "Nothing.", [])._repr_html_().count("<td") == 0


def test_a_cell_ends_its_line_only_before_an_interval():
    """So that a number stays with its unit, and a table of many columns is not wider than the page."""
    rows = [{"a": "left as it is", "b": "1.5 ms (1.4 to 1.6)"}]
    html = show.Table("tbl-x", "x", rows, left=["a"])._repr_html_()
    assert ">left as it is</td>" in html and ">1.5\xa0ms (1.4\xa0to\xa01.6)</td>" in html


def test_a_frame_becomes_a_table():
    """Its index first, numbers with digits, what repeats once, and what a column says of its own."""
    index = pd.MultiIndex.from_product([["stat", "read"], ["ext4", "xfs"]], names=["operation", "file system"])
    frame = pd.DataFrame(
        {"ms": [1.23456, 2.0, None, 1234.5], "p": [0.2, 1e-9, 0.5, 0.04], "is": ["a"] * 4}, index=index
    )
    table = show.table(frame, "Times of all operations here.", significant=3, formats={"p": words.small})
    assert table.name == "tbl-times-of-all-operations-here" and set(table.left) == {"operation", "file system", "is"}
    assert [row["operation"] for row in table.rows] == ["stat", "", "read", ""]
    assert [row["ms"] for row in table.rows] == ["1.23", "2", words.DASH, "1,234"]
    assert table.rows[1]["p"] == "< 0.0001"
    assert list(show.table(pd.DataFrame({"a": [1]}), "T").rows[0]) == ["a"]  # an index without a name is left out


def drawn(**options):
    with matplotlib.rc_context():
        style.style()
        frame = pd.DataFrame({"ms": [1, 2, 3], "label": ["a", "b", "b"], "o": list("xyy")})
        grid = sns.catplot(frame, x="ms", y="o", col="o", hue="label")
        style.titles(grid)
        style.legend(grid)
    return show.figure(grid, **{"caption": "Times of **all** < these."} | options)


def test_what_seaborn_draws_becomes_a_figure_of_the_page():
    figure = drawn()
    assert figure.name == "times-of-all-these" and plt.get_fignums() == []
    assert figure.plot.get_size_inches()[0] == style.WIDTH and figure.plot.get_size_inches()[1] <= style.HIGHEST
    sized = figure.plot.findobj(lambda thing: hasattr(thing, "get_fontsize"))
    assert min(text.get_fontsize() for text in sized if text.get_text()) >= 8
    html = figure._repr_html_()
    assert f'<figure id="fig-{figure.name}">' in html and 'alt="Times of **all** &lt; these."' in html
    assert "<figcaption>Times of **all** &lt; these.</figcaption>" in html
    assert drawn(name="a b", alt="A").alt == "A" and drawn(name="a b").name == "a-b"
    assert figure.caption in repr(figure)


def test_the_same_bytes_twice_in_the_ink_of_the_page():
    """Whatever the notebook's own style is."""
    figure, other = drawn(), drawn()
    text = show.svg(figure.plot)
    with matplotlib.rc_context({"svg.fonttype": "path", "svg.hashsalt": "another"}):
        assert show.svg(other.plot) == text
    assert "currentColor" in text and style.INK not in text
    assert "<image" not in text and text.count("font-family") == 1  # no bitmap; one font for all words
    assert not re.search(r'(href|src)="(?!#)', text)
    assert set(re.findall(r'(?:href="|url\()#(\w+)', text)) <= set(re.findall(r' id="(\w+)"', text))
    figure.plot.axes[0].set_title("A title of my own")
    assert show.svg(figure.plot) != text


def test_a_smaller_svg_is_the_same_figure():
    """Every word, number and link of what matplotlib wrote, the numbers to a hundredth of a point."""
    figure, axes = plt.subplots()
    axes.plot([1, 2], [3, 4], marker="o", clip_on=True)
    axes.set_title('1.23456 of "a" d="0.98765" <#i0>')
    axes.set_ylabel("turned")
    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        figure.savefig(buffer, format="svg")
    plt.close(figure)
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
        figure, axes = plt.subplots()
        axes.plot([1, 2 + more, 4], [3, 4, 5])
        written.append(show.svg(figure))
        plt.close(figure)
    assert written[0] == written[1]


LIMITS = [[70.0, 70.2], [225.5023, 225.5063], [9.4, 9.8], [0.5, 3], [1, 700], [0.03, 4e6]]


@pytest.mark.parametrize("limits", LIMITS, ids=str)
def test_the_numbers_of_a_logarithmic_axis_are_few_and_do_not_touch(limits):
    with matplotlib.rc_context(style.STYLE):
        figure, axes = plt.subplots(figsize=(2, 1))
        axes.plot(limits, [0, 0], "o")
        style.log(axes)
        figure.canvas.draw()
        low, high = axes.get_xlim()
        marks = [mark for mark in axes.get_xticklabels() if low <= mark.get_position()[0] <= high]
        boxes = [mark.get_window_extent() for mark in marks]
    plt.close(figure)
    assert 0 < len(boxes) <= 4 and all(left.x1 < right.x0 for left, right in itertools.pairwise(boxes))


def test_panels_that_do_not_fit_go_to_the_next_page():
    frame = pd.DataFrame({"operation": list("aabbccddee")})
    parts = style.pages(frame, "operation", 4.0, wide=2)
    assert [list(dict.fromkeys(part["operation"])) for part in parts] == [list("abcd"), ["e"]]


def test_numbers_are_those_of_a_processor_without_avx512():
    code = "from numpy._core._multiarray_umath import __cpu_dispatch__ as known, __cpu_features__ as has; "
    code += "print([one for one in known if has[one]])"
    used, bare = (
        subprocess.run([sys.executable, "-c", first + code], capture_output=True, text=True, check=True, env={}).stdout
        for first in ("import reprofs; ", "")
    )
    assert used in ("['X86_V3']\n", "[]\n") and (bare == used or "X86_V4" in bare), (used, bare)
