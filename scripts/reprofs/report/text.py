"""The answer of a study as text for a terminal: what page one of its report says, without its figures."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path

import nbformat
import pypandoc

from reprofs.errors import legible
from reprofs.plan.plan import Plan
from reprofs.report import contents, render
from reprofs.report.sentences import answer
from reprofs.stats.study import Study

WIDTH = 96  # characters
READER = "commonmark-raw_html+gfm_auto_identifiers+pipe_tables+smart"  # as report/filter.lua
HEADING = re.compile(r"^# .*$", re.MULTILINE)
REFERENCE = re.compile(r" ?\(\[(?:figure|table)\]\(#[^)]*\)\)|\[(?:figure|table)\]\(#[^)]*\)")
ANCHOR = re.compile(r' id="[^"]*"')
TABLE = re.compile(r"<table.*?</table>", re.DOTALL)


def answer_of(study: Study, plan: Plan, report: Path, beside: bool = False) -> str:
    """What `text` makes of the executed notebooks in the folder of the report of a study with this plan.

    beside: it is compared with another run.
    """
    return text(study, contents.notebooks(plan, report / "notebooks", beside), contents.first(plan, beside))


def text(study: Study, executed: list[Path], first: Collection[str] = ()) -> str:
    """Question and answer of a study from its executed notebooks, in the report's order (see `render.merge`).

    Figures are left out. Raises UserError where a notebook is missing.
    """
    parts = [legible(answer.opening(study)) + "\n"]
    for data in _first_section(render.merge(executed, first).cells):
        markdown = data.get("text/markdown", "").strip()
        if markdown and markdown not in parts[0]:
            parts.append(plain(REFERENCE.sub("", HEADING.sub("", markdown))))
        parts += [plain(ANCHOR.sub("", table), "html") for table in TABLE.findall(data.get("text/html", ""))]
    return "\n".join(part for part in parts if part.strip())


def plain(content: str, reader: str = READER) -> str:
    """Markdown, or what else pandoc reads, as text for a terminal."""
    return pypandoc.convert_text(content, "plain", reader, extra_args=["--wrap=auto", f"--columns={WIDTH}"])


def _first_section(cells: list[nbformat.NotebookNode]) -> Iterator[dict]:
    """What the cells of a report show up to the end of its answers and of their limits."""
    tagged = [bool({"answer", "limits"} & set(cell.metadata.get("tags", []))) for cell in cells]
    last = max((number for number, found in enumerate(tagged) if found), default=-1)
    for cell in cells[: last + 1]:
        yield from (output.get("data", {}) for output in cell.get("outputs", []))
