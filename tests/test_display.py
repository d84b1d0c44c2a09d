"""What notebooks show: numbers as words, tables, prose with facts, in the order in which it is written."""

import math
from types import SimpleNamespace

import jinja2
import pandas as pd
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from reprofs.report import display as words
from reprofs.report import marks, plots

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
    assert words.ref("tbl-a", ("b", 1)) == "[table](#tbl-a-b-1)" and words.ref("fig-a").startswith("[figure]")


def test_an_interval_that_says_nothing_is_no_pair_of_numbers():
    assert words.confidence(1e-11, 1e11) == "wider than 100 times: too few rounds"  # of two rounds, by Bonferroni
    assert words.confidence(0.9, 2.5, significant=2) == f"0.90 {words.DASH} 2.5"
    assert words.confidence(math.nan, 2.5) == words.DASH


def test_the_ends_of_an_interval_look_different():
    assert words.span(1.1791, 1.1804, significant=3) == f"1.179 {words.DASH} 1.180"
    assert words.span(1.18, 1.18, significant=3) == f"1.18 {words.DASH} 1.18"  # of rounds that are the same
    assert words.span(1, 1 + 1e-9, significant=3) == f"1.00 {words.DASH} 1.00"  # nor by three more
    assert words.timed(258.3e6, 258.21e6, 258.39e6) == "258.3 ms (258.2 ms to 258.4 ms)"
    assert words.timed(258.3e6, 241e6, 276e6) == "258 ms (241 ms to 276 ms)"
    assert words.timed(258e6, 258e6, 258e6) == "258 ms (258 ms to 258 ms)"
    assert words.ratio(1.033, 1.0321, 1.0339) == f"1.033 (1.032 {words.DASH} 1.034)"
    assert words.ratio(1.033, 0.5, 2.25) == f"1.03 (0.50 {words.DASH} 2.25)"
    assert words.ratio(1.033, math.nan, math.nan) == "1.03" and words.ratio(math.nan, 1, 2) == words.DASH
    assert words.ratio(12.3, 1e-11, 1e11) == "12.3 (wider than 100 times: too few rounds)"
    assert words.timed(258.3e6, math.nan, math.nan) == "258 ms"
    assert words.timed(1.0004e9, 0.99996e9, 1.0009e9) == "1.000 s (1.000 s to 1.001 s)"


TABLE = words.Table(
    "tbl-t",
    "a < b & **c**",
    [
        {"Name": "`x<y>` <b>", "n": 1},
        {"Name": marks.strong("*a*") + " & " + words.ref("tbl-t"), "n": 2, "More": "<script>"},
    ],
    left=["Name"],
)


def test_a_table_escapes_its_text_and_knows_its_marks():
    html = TABLE._repr_html_()
    assert '<table id="tbl-t">' in html and "<caption>a &lt; b &amp; **c**</caption>" in html
    assert "<code>x&lt;y&gt;</code> &lt;b&gt;" in html
    assert '<strong>*a*</strong> &amp; <a href="#tbl-t">table</a>' in html
    assert "&lt;script&gt;" in html and "<script" not in html and "<b>" not in html
    assert html == TABLE._repr_html_()


def test_columns_of_a_table_have_their_side():
    html = TABLE._repr_html_()
    rows = html[html.index("<tbody>") :]
    assert rows.count('left"') == 2 and rows.count('right"') == 4
    assert "text-align: left" in html and "text-align: right" in html


def test_a_table_is_a_frame_as_well():
    frame = TABLE.frame
    assert list(frame.columns) == ["Name", "n", "More"] and list(frame["More"]) == ["", "<script>"]
    assert repr(TABLE).startswith("a < b & **c**\n") and r"**\*a\*** \& [table](#tbl-t)" in repr(TABLE)
    assert words.Table("tbl-none", "Nothing.", [])._repr_html_().count("<td") == 0


@pytest.fixture
def cell():
    """Runs a cell in a shell with the extension; returns its outputs: Markdown, or what was shown itself."""
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance()
    shell.run_cell("%load_ext reprofs").raise_error()

    def run(source: str, **names) -> list[str]:
        shell.user_ns.update(names)
        with capture_output() as captured:
            result = shell.run_cell(source)
        result.raise_error()
        return [output.data.get("text/markdown") or output.data["text/html"] for output in captured.outputs]

    yield run
    InteractiveShell.clear_instance()


def test_facts_are_filled_into_prose(cell):
    assert cell("%%say\n{{ n | opening('trial') }} of {{ names | listing }}.", n=2, names=["a", "b"]) == [
        "Two trials of a and b."
    ]
    assert cell("%%say\n{% if none %}x{% endif %}", none=None) == []


def test_what_is_shown_keeps_its_order(cell):
    other = words.Table("tbl-u", "U.", [{"x": 1}])
    found = cell("%%say\nBefore.\n\n{{ show(t, [u, t]) }}\nBetween.\n{{ show(u) }}\n\n\n\nAfter.", t=TABLE, u=other)
    kinds = [text if not text.startswith("<") else text[text.index("tbl-") :][:5] for text in found]
    assert kinds == ["Before.", "tbl-t", "tbl-u", "tbl-t", "Between.", "tbl-u", "After."]


def test_figures_say_what_limits_their_study(cell):
    figure = plots.Figure("a", "Times.", "alt", None)
    shown = []
    names = {"study": SimpleNamespace(limit="All share."), "t": TABLE, "f": figure}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(words, "display", shown.append)
        cell("%%say\n{{ show(t, f) }}", **names)
        cell("%%say\n{{ show(f) }}", study="quick")
    assert [one.caption for one in shown] == [TABLE.caption, "Times. All share.", "Times."]


def test_a_lab_with_its_processor_is_no_mail_address(cell):
    (text,) = cell("%%say\nOf {{ lab }}, {{ lab | code }} and {{ work }}.", lab="exact@v2-0.5ns", work="metadata@2000")
    assert text == "Of exact\\@v2-0.5ns, `exact@v2-0.5ns` and metadata@2000."


def test_nothing_to_show_leaves_the_prose(cell):
    assert cell("%%say\nBefore.{{ show([]) }}") == ["Before."]


def test_a_fact_that_is_not_there_is_an_error_with_its_name(cell):
    with pytest.raises(jinja2.UndefinedError, match="'surprise' is undefined"):
        cell("%%say\nText {{ surprise }}.")
    with pytest.raises(jinja2.UndefinedError, match="no attribute 'missing'"):
        cell("%%say\n{% if facts.missing %}x{% endif %}", facts={"there": 1})


def test_facts_of_one_cell_do_not_stay(cell):
    cell("%%say\n{% set inner = 1 %}{{ inner }}")
    with pytest.raises(jinja2.UndefinedError, match="inner"):
        cell("%%say\n{{ inner }}")


def test_a_cell_ends_its_line_only_before_an_interval():
    """So that a number stays with its unit, and a table of many columns is not wider than the page."""
    rows = [{"a": "left as it is", "b": "1.5 ms (1.4 to 1.6)"}]
    html = words.Table("tbl-x", "x", rows, left=["a"])._repr_html_()
    assert ">left as it is</td>" in html and ">1.5\xa0ms (1.4\xa0to\xa01.6)</td>" in html
