"""The answer of a study as text for a terminal: what page one of its report says, with a table for its figure."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator
from pathlib import Path

import nbformat
import pypandoc

from reprofs.data.keys import Load, Setting, select
from reprofs.plan.plan import Plan
from reprofs.report import contents, render
from reprofs.report.display import DASH, known, ratio, slug, unit_of
from reprofs.report.topics import answer
from reprofs.report.topics.operations import SLOWER
from reprofs.stats.compare import versus
from reprofs.stats.study import Study

WIDTH = 96  # characters
BESIDE = {"ceiling": "upper bound", "no-promise": "fsync not kept"}  # words for what is not ranked
READER = "commonmark-raw_html+gfm_auto_identifiers+pipe_tables+smart"  # as report/filter.lua
HEADING = re.compile(r"^#.*$", re.MULTILINE)
REFERENCE = re.compile(r"\[(?:figure|table)\]\(#[^)]*\)")
NUMBER = re.compile(rf" ?\({REFERENCE.pattern}\)")


def answer_of(study: Study, plan: Plan, report: Path, beside: bool = False) -> str:
    """What `text` makes of the executed notebooks in the folder of the report of a study with this plan.

    beside: it is set beside another run.
    """
    return text(study, contents.notebooks(plan, report / "notebooks", beside), contents.first(plan, beside))


def text(study: Study, executed: list[Path], first: Collection[str] = ()) -> str:
    """Question and answer of a study from its executed notebooks, in the report's order (see `render.merge`).

    Figures and tables are left out, but for what whole workloads cost. Raises UserError where a notebook is missing.
    """
    parts = []
    settings = {slug("totals", setting): setting for setting in answer.settings(study)}
    for output in _first_section(render.merge(executed, first).cells):
        parts.append(output.get("text/markdown", ""))
        for name, _ in render.FIGURE.findall(output.get("text/html", "")):
            found = max((one for one in settings if name.startswith(one)), key=len, default=None)
            parts += [f"```\n{totals(study, settings.pop(found))}```"] if found else []
    markdown = REFERENCE.sub("the report", NUMBER.sub("", HEADING.sub("", "\n\n".join(parts))))
    options = ["--wrap=auto", f"--columns={WIDTH}"]
    return pypandoc.convert_text(markdown, "plain", READER, extra_args=options)


def _first_section(cells: list[nbformat.NotebookNode]) -> Iterator[dict]:
    """What the cells of a report show up to the end of its answers and of their limits: the next heading."""
    tagged = [bool({"answer", "limits"} & set(cell.metadata.get("tags", []))) for cell in cells]
    last = max((number for number, found in enumerate(tagged) if found), default=0)
    for number, cell in enumerate(cells):
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if number > last and HEADING.match(data.get("text/markdown", "")):
                return
            yield data
        if number > last and cell.cell_type == "markdown":
            return


def totals(study: Study, setting: Setting) -> str:
    """What each workload as a whole costs in a setting: a line a file system, the cheapest first, bounds last.

    Time with its 95 % interval, and the ratio to the cheapest with that of the ratio.
    """
    return "\n".join(_load(study, setting, load) for load in study.loads(setting))


def _beside(row, best) -> str:
    """What a row is that is not ranked; an upper bound that is slower than the best says so."""
    slower = row.role == "ceiling" and row.geometric_mean_ns > best.geometric_mean_ns
    return BESIDE[row.role] + (f", {SLOWER}" if slower else "")


def _load(study: Study, setting: Setting, load: Load) -> str:
    own = select(study.results.totals, setting, load)
    own = own.assign(bound=own["role"] != "contender").sort_values(["bound", "geometric_mean_ns", "label"])
    best = next(select(study.results.cheapest, setting, load).itertuples(), None)
    if best is None:
        return ""
    unit, scale = unit_of(best.geometric_mean_ns)
    places = max(0, 3 - math.floor(math.log10(best.geometric_mean_ns / scale)))  # as many as four digits of it have
    ratios = versus(select(study.results.rivals, setting, load, contenders=True), best.best).set_index("other")
    rows = [[str(load), unit, "95 % interval", "ratio", "95 % interval"]]
    for row in own.itertuples():
        told = ["1", ""] if row.label == best.best else ["", _beside(row, best)] if row.bound else ["", ""]
        if row.label in ratios.index and known(ratios.loc[row.label, "ratio"]):
            pair = ratios.loc[row.label]
            own_ratio, _, interval = ratio(pair["ratio"], pair["low"], pair["high"]).rstrip(")").partition(" (")
            told = [own_ratio, interval or DASH]
        middle, *ends = (f"{ns / scale:,.{places}f}" for ns in (row.geometric_mean_ns, row.low_ns, row.high_ns))
        rows.append([row.label, middle, f" {DASH} ".join(ends) if known(row.low_ns) else DASH, *told])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ([cells[0].ljust(widths[0]), *map(str.rjust, cells[1:], widths[1:])] for cells in rows)
    return "".join("  ".join(line).rstrip() + "\n" for line in lines)
