"""What `reprofs compare` says: runs of a study beside the first of them, as text, Markdown, JSON or a page."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from html import escape
from typing import Any

from reprofs.data.keys import SETTING
from reprofs.errors import legible
from reprofs.project import place
from reprofs.report.words import DASH, confidence, count, digits, known, listing
from reprofs.stats.runs import Comparison, Difference

HEADING, LINE, TABLE = "heading", "line", "table"
SHORT = 40  # characters of what differs; a digest is longer and told by its beginning
COLUMNS = ["operation", "rounds", "ratio", "95 % interval", "floor", "verdict"]
VERDICTS = ("slower", "faster", "same", "undecided", "equal")

Row = Sequence[str]
Writers = dict[str, Callable[[Any], str]]


def text(names: list[str], differences: list[Difference], found: list[Comparison], least: float) -> str:
    """For a terminal."""
    write: Writers = {HEADING: str, LINE: str, TABLE: _plain}
    return "\n\n".join(write[kind](part) for kind, part in _parts(names, differences, found, least)) + "\n"


def markdown(names: list[str], differences: list[Difference], found: list[Comparison], least: float) -> str:
    """For a merge request or a summary of CI."""
    write: Writers = {HEADING: "### {}".format, LINE: str, TABLE: _pipes}
    return "\n\n".join(write[kind](part) for kind, part in _parts(names, differences, found, least)) + "\n"


def page(names: list[str], differences: list[Difference], found: list[Comparison], least: float) -> str:
    """A page of its own that looks like a report and needs no other file."""
    parts, body, contents = list(_parts(names, differences, found, least)), [], []
    for number, (kind, part) in enumerate(parts):
        if kind == HEADING:
            contents.append(f'<li><a href="#part-{number}">{escape(part)}</a></li>')
            body.append(f'<h2 id="part-{number}">{escape(part)}</h2>')
        else:
            body.append(_boxed(part) if kind == TABLE else f"<p>{escape(part)}</p>")
    filled = {
        "title": escape(f"{listing(names[1:])} beside {names[0]}"),
        "subtitle": "Runs of a study compared by ReproFS",
        "style": place("report/style.css").read_text(),
        "columns": "",
        "tables": "",
        "toc": f"<ul>{''.join(contents)}</ul>",
        "body": "\n".join(legible(one) for one in body),
    }
    # One pass: what is filled in is not searched again.
    return re.sub(r"\$(\w+)\$", lambda match: filled[match[1]], place("report/template.html").read_text())


def as_json(names: list[str], differences: list[Difference], found: list[Comparison], least: float) -> str:
    """The comparison as JSON. All numbers are ratios, shares or counts."""
    runs = []
    for one in found:
        rows = json.loads(one.ratios.to_json(orient="records", double_precision=15))
        exact = [{**vars(each)} for each in one.exact]
        runs.append({"run": one.run, "worse": one.worse, "exact": exact, "endings": one.endings, "ratios": rows})
    whole = {"schema": 1, "base": names[0], "least": least, "differences": [vars(one) for one in differences]}
    return json.dumps(whole | {"runs": runs}, indent=1, ensure_ascii=False) + "\n"


def _parts(
    names: list[str], differences: list[Difference], found: list[Comparison], least: float
) -> Iterator[tuple[str, Any]]:
    """All that is said, in its order: kind, and the text of a heading or line, or the rows of a table."""
    yield HEADING, "What differs"
    if differences:
        rows = [[one.what, one.key, *(_short(value) for value in one.values)] for one in differences]
        yield TABLE, [["part", "key", *names], *rows]
    else:
        yield LINE, "Nothing that the runs say of lab, machine and plan."
    for one in found:
        yield HEADING, f"{one.run} beside {names[0]}"
        yield from ((LINE, sentence) for sentence in _sentences(one, least))
        for (lab, stack, profile, workload, scale), table in one.ratios.groupby(
            [*SETTING, "workload", "scale"], sort=False
        ):
            yield LINE, f"{workload} ({scale}), lab {lab}, stack {stack}, device model {profile}:"
            yield TABLE, [COLUMNS, *(_row(row) for row in table.to_dict("records"))]


def _short(value: str) -> str:
    line = " ".join(value.split()) or DASH
    return line if len(line) <= SHORT else f"{line[: SHORT - 1]}…"


def _sentences(one: Comparison, least: float) -> list[str]:
    said = []
    for exact in one.exact:
        if exact.first is None:
            trials = count(exact.trials, "trial")
            said.append(f"{exact.lab}: equal, {trials} of {exact.trials} to the last digit.")
            continue
        first = exact.first
        said.append(
            f"{exact.lab}: not equal. {exact.equal} of {count(exact.trials, 'trial')} have the same numbers; the first"
            f" phase that differs is {first['phase']} ({first['cache']}) of {first['trial']},"
            f" in {', '.join(first['columns'][:4])}."
        )
    said += [f"{trial} ended {was} there and {now} here." for trial, was, now in one.endings]
    numbers = [f"{len(one.said(verdict))} {verdict}" for verdict in VERDICTS if len(one.said(verdict))]
    said.append(f"{', '.join(numbers)} (differences below {100 * least:g} % do not count).")
    return said


def _row(row: dict) -> Row:
    what = f"{row['label']}, {row['phase']}" + (f", {row['cache']}" if row["cache"] else "")
    floor = f"{digits(100 * row['floor'], 2)} %" if known(row["floor"]) else DASH
    return [
        what,
        str(row["n"]),
        digits(row["ratio"], 5),
        confidence(row["low"], row["high"], 1, 5),
        floor,
        row["verdict"],
    ]


def _plain(rows: list[Row]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def _pipes(rows: list[Row]) -> str:
    head, *body = ([cell.replace("|", "\\|") for cell in row] for row in rows)
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *body))


def _boxed(rows: list[Row]) -> str:
    """A table that scrolls by itself; on a small screen style.css shows each row as a paragraph."""
    head, *body = ([escape(cell) for cell in row] for row in rows)
    lines = [f"<tr>{''.join(f'<th>{cell}</th>' for cell in head)}</tr></thead><tbody>"]
    for row in body:
        cells = (f'<td data-label="{name}">{cell}</td>' for name, cell in zip(head, row, strict=True))
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return f'<div class="scroll" tabindex="0"><table><thead>{"".join(lines)}</tbody></table></div>'
