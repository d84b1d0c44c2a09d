"""Numbers and lists as words, correct for any count; and the three things a notebook cell can show."""

import base64
import html
import math
import re
from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd

NUMBERS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
DASH, MINUS = "\N{EN DASH}", "\N{MINUS SIGN}"
UNITS = [("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1.0)]


def listing(items, last: str = "and") -> str:
    """`a`, `a and b`, `a, b and c`; `none` for nothing."""
    items = [str(item) for item in items]
    if len(items) < 2:
        return items[0] if items else "none"
    return f"{', '.join(items[:-1])} {last} {items[-1]}"


def count(number: int, noun: str, plural: str | None = None) -> str:
    """`1 trial`, `3 trials`, `no trials`, `1,024 trials`."""
    word = noun if number == 1 else plural or noun + "s"
    return f"{number:,} {word}" if number else f"no {word}"


def opening(number: int, noun: str, plural: str | None = None) -> str:
    """`count` at the beginning of a sentence: small numbers as words, with a capital."""
    if 0 < number <= len(NUMBERS):
        return first_upper(f"{NUMBERS[number - 1]} {noun if number == 1 else plural or noun + 's'}")
    return first_upper(count(number, noun, plural))


def verb(number: int, one: str, many: str) -> str:
    """The form of a verb that goes with `number` things."""
    return one if number == 1 else many


def first_upper(text: str) -> str:
    """The sentence with a capital at its beginning and the rest untouched."""
    return text[:1].upper() + text[1:]


def digits(value: float, significant: int = 4) -> str:
    """A number with so many significant digits, never in scientific notation; a dash for none."""
    if value is None or pd.isna(value):
        return DASH
    if value == 0 or not math.isfinite(value):
        return f"{value:g}".replace("inf", "∞")
    places = max(0, significant - 1 - math.floor(math.log10(abs(value))))
    return f"{value:,.{places}f}".replace("-", MINUS)


def unit_of(ns: float) -> tuple[str, float]:
    """Unit of time that suits a value in ns, and that unit's size in ns."""
    return next((pair for pair in UNITS if ns >= pair[1]), UNITS[-1])


def time(ns: float, significant: int = 4) -> str:
    """A time with its unit."""
    if ns is None or pd.isna(ns):
        return DASH
    name, size = unit_of(abs(ns))
    return f"{digits(ns / size, significant)} {name}"


def span(low: float, high: float, scale: float = 1.0, significant: int = 4) -> str:
    """`low - high`, both divided by `scale`; a dash if there is no interval."""
    if pd.isna(low) or pd.isna(high):
        return DASH
    return f"{digits(low / scale, significant)} {DASH} {digits(high / scale, significant)}"


def size(value: float) -> str:
    """A number of bytes in binary units."""
    if value is None or pd.isna(value):
        return DASH
    for name in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024 or name == "GiB":
            return f"{value:,.0f} {name}" if name == "B" or value >= 100 else f"{value:,.3g} {name}"
        value /= 1024


def percent(share: float) -> str:
    """A share as a percentage with two significant digits, at most three places."""
    if share is None or pd.isna(share):
        return DASH
    if share and abs(share) < 0.00005:
        return "< 0.01 %"
    return f"{share * 100:.{1 if abs(share) >= 0.1 else 2}f} %"


def code(text: str) -> str:
    """Text as inline code of Markdown, whatever backticks it contains."""
    fence = "``" if "`" in text else "`"
    return f"{fence}{text}{fence}"


class Prose:
    """Markdown that was computed: paragraphs, headings, lists. Links `[](#tbl-x)` become the number of that table."""

    def __init__(self, *paragraphs: str):
        self.text = "\n\n".join(paragraph for paragraph in paragraphs if paragraph)

    def _repr_markdown_(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text


class Table:
    """A numbered table: rows of text. Columns named in `left` are aligned left, all others right.

    `name` is the anchor (tbl-...), `note` is appended to the caption.
    """

    def __init__(self, name: str, caption: str, rows: list[dict], left=(), columns=None):
        self.name, self.caption, self.rows, self.left = name, caption, rows, set(left)
        self.columns = columns or (list(rows[0]) if rows else [])

    def _repr_html_(self) -> str:
        def cell(tag: str, column: str, value) -> str:
            side = "left" if column in self.left else "right"
            return f'<{tag} style="text-align:{side}">{inline(str(value))}</{tag}>'

        head = "".join(cell("th", column, column) for column in self.columns)
        lines = ["".join(cell("td", column, row.get(column, "")) for column in self.columns) for row in self.rows]
        body = "\n".join(f"<tr>{line}</tr>" for line in lines)
        caption = f"<caption>{inline(self.caption)}</caption>"
        return f'<table id="{self.name}">{caption}\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table>'

    def __repr__(self) -> str:
        return f"{self.caption}\n{pd.DataFrame(self.rows, columns=self.columns).to_string(index=False)}"


class Picture:
    """A numbered figure: its SVG, caption, words for who cannot see it.

    The SVG is in the notebook itself, which so can be shown wherever it lies. For the report the file's name stands
    beside it (report/filter.lua).
    """

    def __init__(self, name: str, svg: str, caption: str, alt: str):
        self.name, self.svg, self.caption, self.alt = name, svg, caption, alt

    def _repr_html_(self) -> str:
        data = f"data:image/svg+xml;base64,{base64.b64encode(self.svg.encode()).decode()}"
        # Its ink is that of the page, black here: it needs a light ground on a dark page.
        image = f'<img data-figure="{self.name}" src="{data}" style="background:white" alt="{html.escape(self.alt)}">'
        return f'<figure id="fig-{self.name}">{image}<figcaption>{inline(self.caption)}</figcaption></figure>'

    def __repr__(self) -> str:
        return f"{self.caption}\n{self.alt}"


@dataclass(frozen=True)
class Item:
    """One figure.

    `kind` is heatmap, ranks, intervals, latencies, series, scaling, stacks, disks, agreement, published or beside;
    `setting` is (lab, stack, profile), for stacks, disks, published and beside (lab, profile), for agreement (lab, lab,
    stack, profile); `workload` is (name, scale), None if it is of all.
    """

    kind: str
    name: str
    setting: tuple
    workload: tuple | None
    caption: str
    alt: str
    draw: Callable


def inline(text: str) -> str:
    """Escaped HTML of a text in which `code`, **strong** and [links](#x) are marked as in Markdown."""
    text = html.escape(text, quote=False)
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", text)
    text = re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", text)
    return re.sub(r"\[([^]]*)\]\(((?:#|https?://)[^)\s\"]+)\)", r'<a href="\2">\1</a>', text)
