"""What a notebook shows in the report: figures and tables with captions, and sentences."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import html
import io
import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

import matplotlib
import pandas as pd
from IPython.display import Markdown
from markdown_it import MarkdownIt
from matplotlib import pyplot as plt
from matplotlib.figure import Figure as Plot

from reprofs.errors import legible
from reprofs.report import style
from reprofs.report.marks import Marked, escaped
from reprofs.report.svg import small
from reprofs.report.words import DASH, digits, known, slug

LONGEST = 150  # letters of an anchor
MARKDOWN = MarkdownIt("js-default").disable("image")


def figure(plot: Any, caption: str, name: str = "", alt: str = "") -> Figure:
    """A figure of the report: what seaborn or matplotlib drew, with a caption.

    plot: a matplotlib figure, its axes, or a grid of seaborn; it becomes as wide as the page. name: of its file and
    anchor, by default the caption's first words. alt: the same for readers who cannot see it, by default the caption.
    """
    drawn = plot if isinstance(plot, Plot) else plot.figure
    plt.close(drawn)  # pyplot forgets it, so that nothing shows it a second time
    return Figure(_anchor(name, caption), caption, alt or caption, style.fit(drawn))


def table(
    frame: pd.DataFrame,
    caption: str,
    name: str = "",
    significant: int = 4,
    formats: Mapping[str, Callable[[Any], str]] = MappingProxyType({}),
) -> Table:
    """A table of the report: a frame, its index as the first columns, with a caption.

    An index without a name is left out. Numbers get `significant` digits, and missing values a dash; texts are
    aligned left. name: as of `figure`. formats:
    column -> what writes its values, in the place of that; they stay aligned right.
    """
    flat = frame.reset_index() if any(frame.index.names) else frame.copy()
    flat.columns = [" ".join(map(str, head)).strip() if isinstance(head, tuple) else str(head) for head in flat]
    left = [head for head in flat if head not in formats and not pd.api.types.is_numeric_dtype(flat[head])]
    texts = {
        head: [formats[head](value) if head in formats else _cell(value, significant) for value in flat[head]]
        for head in flat
    }
    rows = pd.DataFrame(texts, dtype=object).to_dict("records")
    if frame.index.nlevels > 1:  # what repeats in the first column is written once
        first = next(iter(flat))
        for row, before in zip(rows[:0:-1], rows[-2::-1], strict=True):
            row[first] = "" if row[first] == before[first] else row[first]
    return Table(f"tbl-{_anchor(name, caption)}", caption, rows, left)


def _anchor(name: str, caption: str) -> str:
    told = re.sub("-+", "-", slug(*(name or " ".join(caption.split()[:6])).split())).strip("-").lower()
    # The name of a file has up to 255 bytes.
    return told if len(told) <= LONGEST else f"{told[: LONGEST - 9]}-{hashlib.sha256(told.encode()).hexdigest()[:8]}"


def _cell(value: Any, significant: int) -> str:
    if isinstance(value, str):
        return value
    if not known(value):
        return DASH
    if isinstance(value, bool):
        return "yes" if value else "no"
    whole = isinstance(value, int) or float(value).is_integer()
    return f"{int(value):,}" if whole else digits(float(value), significant)


def say(*sentences: str) -> Markdown:
    """One paragraph of these sentences; empty ones are left out. Text shows as it is written where not `Marked`."""
    return Markdown(" ".join(escaped(one) for one in sentences if one))


def items(sentences: Iterable[str]) -> Markdown:
    """The same as a list, an item each."""
    return Markdown("\n".join(f"- {escaped(one)}" for one in sentences if one))


def head(text: str, level: int = 2) -> Markdown:
    """A heading."""
    return Markdown(f"{'#' * level} {escaped(text)}")


@dataclasses.dataclass(frozen=True)
class Figure:
    """A figure: `plot` is a matplotlib figure, which may be changed before it is shown; the rest describes it.

    `name` is its file's name and its anchor in the report, `alt` describes it for readers who cannot see it.
    """

    name: str
    caption: str
    alt: str
    plot: Plot

    def _repr_html_(self) -> str:
        data = f"data:image/svg+xml;base64,{base64.b64encode(svg(self.plot).encode()).decode()}"
        # Its ink is that of the page, black here: it needs a light ground on a dark page.
        words = html.escape(legible(self.alt))
        image = f'<img data-figure="{self.name}" src="{data}" style="background:white" alt="{words}">'
        return f'<figure id="fig-{self.name}">{image}<figcaption>{inline(self.caption)}</figcaption></figure>'

    def __repr__(self) -> str:
        return f"{self.caption}\n{self.alt}"


def svg(plot: Plot) -> str:
    """A figure as SVG: its words are text, its numbers are those of hundredths of a point."""
    with matplotlib.rc_context(style.STYLE):
        text = io.StringIO()
        plot.savefig(text, format="svg", metadata={"Date": None, "Creator": None}, bbox_inches="tight", pad_inches=0.03)
    return re.sub(style.INK, "currentColor", small(legible(text.getvalue())))


@dataclasses.dataclass(frozen=True)
class Table:
    """A table with an anchor and a caption: rows of text, shown as it is where not `Marked`, one dictionary each.

    Columns named in `left` are aligned left, all others right. `frame` is the same as a DataFrame.
    """

    name: str
    caption: str
    rows: list[dict]
    left: Iterable[str] = dataclasses.field(default=())

    @property
    def frame(self) -> pd.DataFrame:
        """The rows as text, missing cells empty."""
        return pd.DataFrame(self.rows).fillna("").astype(str)

    def _repr_html_(self) -> str:
        left = {inline(column) for column in self.left}
        rows = []
        for row in self.rows:
            cells = {inline(head): inline(cell) if known(cell) else "" for head, cell in row.items()}
            rows.append({head: cell if head in left else _unbroken(cell) for head, cell in cells.items()})
        frame = pd.DataFrame(rows).fillna("")
        sides = {column: "left" if column in left else "right" for column in frame}
        styler = frame.style.hide(axis="index").set_caption(inline(self.caption))
        styler = styler.set_td_classes(pd.DataFrame(sides, index=frame.index))
        rules = [
            {"selector": f".col{number}", "props": f"text-align: {side}"} for number, side in enumerate(sides.values())
        ]
        # Captions begin where the table does, in Jupyter too.
        rules += [{"selector": "caption", "props": "text-align: left"}]
        styler = styler.set_table_styles(rules)
        styler.cell_ids = False
        styler.set_uuid(self.name)
        return styler.to_html().replace(f"T_{self.name}", self.name)

    def __repr__(self) -> str:
        return f"{self.caption}\n{self.frame.to_string(index=False)}"


def _unbroken(cell: str) -> str:
    """A cell in which numbers stay with their units: a line ends before a bracket, within the interval in it, or
    between words."""
    return cell if "<" in cell else re.sub(rf"(?<=[\d{DASH}±]) (?!\()| (?=[\d{DASH}±])", "\N{NO-BREAK SPACE}", cell)


def inline(text: object) -> str:
    """HTML of a text: as it is written, or, if it is `Marked`, with its marks."""
    return MARKDOWN.renderInline(escaped(text))


def ref(name: str, *parts: object) -> Marked:
    """A link to a table or figure by its name, given whole or in parts; the report shows its number there."""
    anchor = slug(name, *parts)
    return Marked(f"[{'figure' if anchor.startswith('fig-') else 'table'}](#{anchor})")
