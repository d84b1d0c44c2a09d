"""What a notebook shows: prose with facts in it (the cell magic %%say)."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import jinja2
from IPython.display import Markdown, display

from reprofs.report.marks import Marked, block, code, escaped
from reprofs.report.show import Table as Table
from reprofs.report.show import inline as inline
from reprofs.report.show import ref as ref
from reprofs.report.words import (  # noqa: F401
    DASH,
    MINUS,
    NUMBERS,
    UNITS,
    WIDEST,
    _apart,
    after,
    alike,
    chance,
    confidence,
    count,
    digits,
    each,
    first_upper,
    known,
    listing,
    opening,
    percent,
    ratio,
    reach,
    scientific,
    size,
    slower,
    slug,
    small,
    span,
    tally,
    thousands,
    time,
    timed,
    unit_of,
    verb,
)

SIGMA = "\N{GREEK SMALL LETTER SIGMA}"

# ---- prose with facts ----------------------------------------------------------------------------------------------

_MARK = re.compile(r"\n*\x00(\d+)\x00\n*")
# What begins a block of its own, and what no line continues.
_BLOCK = re.compile(r"(#+|[-*+]|\d+[.)]) |```|[|>]")
_ALONE = re.compile(r"#+ |\s*```|[|]")


class _Context(jinja2.runtime.Context):
    """What a macro of a template says is Markdown already."""

    def call(self, obj: Any, /, *args: Any, **options: Any) -> Any:
        """Call a macro or a function from a template."""
        found = super().call(obj, *args, **options)
        return Marked(found.rstrip("\n")) if isinstance(obj, jinja2.runtime.Macro) else found


TEMPLATES = jinja2.Environment(
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=jinja2.StrictUndefined,
    finalize=escaped,
)
TEMPLATES.context_class = _Context
WORDS = (
    listing, count, opening, verb, first_upper, thousands, tally, after, each, digits, chance, time, timed, percent
)  # fmt: skip
TEMPLATES.filters |= {function.__name__: function for function in (*WORDS, code, block)}
TEMPLATES.filters["bytes"] = size
TEMPLATES.tests["known"] = known
TEMPLATES.globals |= {"span": span, "confidence": confidence, "percent": percent, "thousands": thousands}
TEMPLATES.globals |= {"ref": ref, "reach": reach, "ratio": ratio}


def flow(text: str) -> str:
    """Markdown with every paragraph, item and heading on one line.

    Lines of a paragraph are joined by a space, but where a line begins with a mark that ends something: `,;:.)?!`.
    """
    lines: list[str] = []
    fenced = False
    for line in text.splitlines():
        bare, last = line.strip(), lines[-1] if lines else ""
        if not fenced and bare and last and not (_BLOCK.match(bare) or _ALONE.match(last)):
            lines[-1] = last.rstrip() + ("" if bare[0] in ",;:.)?!" else " ") + bare
        else:
            lines.append(line)
        fenced ^= bare.startswith("```")
    return "\n".join(lines)


def say(template: str, facts: dict[str, Any]) -> None:
    """Show Markdown in which Jinja's placeholders are filled with facts; {{ show(table, figure) }} shows these there.

    Facts show as they are written, whatever is in them (see `marks`).
    A template has one sentence or clause a line (see `flow`), and tags that choose or repeat lines on lines of their
    own. Filters: `WORDS` and bytes. What limits the numbers of the fact `study` is said below every figure. Raises
    jinja2.UndefinedError for a fact that does not exist.
    """
    shown: list[Any] = []
    limit = getattr(facts.get("study"), "limit", "")

    def show(*things: Any) -> str:
        flat = [one for thing in things for one in (thing if isinstance(thing, list | tuple) else [thing])]
        for one in flat:
            drawn = limit and hasattr(one, "plot")
            shown.append(dataclasses.replace(one, caption=one.caption + f" {limit}") if drawn else one)
        return Marked("".join(f"\n\x00{len(shown) - len(flat) + number}\x00\n" for number in range(len(flat))))

    filled = TEMPLATES.from_string(template).render(facts, show=show)
    for number, part in enumerate(_MARK.split(filled)):
        if number % 2:
            display(shown[int(part)])
        elif part.strip():
            display(Markdown(flow(re.sub(r"\n{3,}", "\n\n", part).strip())))


def register(shell: Any) -> None:
    """Give an IPython shell the cell magic %%say, whose facts are the names of the notebook."""

    def magic(line: str, cell: str) -> None:
        say(cell, shell.user_ns)

    shell.register_magic_function(magic, magic_kind="cell", magic_name="say")
