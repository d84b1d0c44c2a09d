"""results/index.html: all published results on one page, made of their folders alone; it works from file://.

results/README.md has them as a table.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jinja2
import pandas as pd

from reprofs.errors import UserError
from reprofs.files import write_text
from reprofs.plan.result import DIGESTS, Result
from reprofs.plan.retraction import retracted
from reprofs.project import place
from reprofs.publish.stale import lacks
from reprofs.publish.write import CELLS, PICTURE
from reprofs.records.protocol import PROTOCOL
from reprofs.records.publication import plan_of, read
from reprofs.report.marks import escaped
from reprofs.report.words import DASH
from reprofs.stats.results import ANALYSIS

NAMES = ["lab", "stack", "profile", "workload", "scale", "phase", "cache", "label"]  # what a cell is, in its study
TIMES = ["geometric_mean_ns", "low_ns", "high_ns"]


TABLE = """# Published results

Open `index.html` in a browser for all numbers. [How to check them](../docs/check-results.md).

Some sentences of these results are [retracted](#retracted).

A finding is a trial that cut the power and failed afterwards; unavailable is what its lab cannot run.

| study | retracted | trials | findings | unavailable | failed | host hours | verdicts on published claims |
|---|---|---|---|---|---|---|---|
"""
RULES = """
## The rules they were measured by

This checkout has protocol {protocol}, analysis {analysis}. `reprofs stale STUDY` says why an older result is not what
this checkout would measure. Since protocol 7 a file system has 4 GiB at least, a verdict six repetitions, and a flush
its price. A cold phase is ranked only if proved, and the check of the content leaves access times as they are.

| study | protocol | analysis | lacks under protocol {protocol} |
|---|---|---|---|
"""
RETRACTED = """
## Retracted

These sentences are wrong, or hold only under a condition. The records stand, and so do the pages made of them:
ABOUT.md and index.html of a study still have the sentence.
"""
APART = ["id", "rounds", *TIMES]  # columns that are no text, or another in each row
ANALYSIS_OF = re.compile(r"The analysis has the number (\d+)")  # in a report


def write_index(folder: Path) -> Path:
    """Writes index.html and README.md of the folder with the results.

    Raises UserError for an altered result and an invalid results/retractions.yaml.
    """
    made = folder / "index.html"
    results = _all(folder)
    rules = RULES.format(protocol=PROTOCOL, analysis=ANALYSIS)
    parts = [TABLE, *(_line(folder, one) for one in results), rules, *(_rules(folder, one) for one in results)]
    gone = "".join(map(_retracted, results))
    write_text(folder / "README.md", "".join([*parts, RETRACTED, gone] if gone else parts))
    write_text(made, page(folder))
    return made


def _all(folder: Path, only: Collection[str] | None = None) -> list[Result]:
    """Those of a folder. only: these. Raises UserError for one that is altered, or in a folder of another name."""
    found = []
    for path in sorted(folder.glob(f"*/{DIGESTS}")):
        if only is None or path.parent.name in only:
            found.append(read(path.parent))
            if found[-1].study != path.parent.name:
                raise UserError(f"{path.parent} is a result of {found[-1].study}: rename it to that.")
    return found


def _cells(folder: Path) -> list[dict[str, Any]]:
    """The lines of cells.csv of a result. Raises UserError where they are not cells."""
    file = folder / CELLS
    empty = {name: [""] for name in TIMES}
    kinds = {**dict.fromkeys([*NAMES, "role", "trial"], str), "rounds": int, **dict.fromkeys(TIMES, float)}
    try:
        cells = pd.read_csv(file, keep_default_na=False, na_values=empty, dtype=kinds, index_col=False)
        if set(cells.columns) != set(kinds) or cells[TIMES].isin([math.inf, -math.inf]).any(axis=None):
            raise ValueError
    except (OSError, ValueError, OverflowError):  # of pandas, too
        raise UserError(f"{file} has not the columns or values of cells: get the result again.") from None
    return [
        {str(name): None if pd.isna(value) else value for name, value in row.items()}
        for row in cells.to_dict("records")
    ]


def page(folder: Path, pdf: bool = False, only: Collection[str] | None = None) -> str:
    """The page of the folder with the results.

    pdf: whether each has a report.pdf next to its HTML, as in site/; only: the studies to show, default all. Raises
    UserError for an altered result.
    """
    results, rows = [], []
    texts: dict[str, int] = {}  # each once: a row has their numbers
    columns = ["study", "id", *NAMES, "rounds", *TIMES, "trial"]
    for result in _all(folder, only):
        more = {"count": len(result.trials), "picture": PICTURE in result.files, "lead": lead(result.answer)}
        more |= {"retracted": retracted(result), "analysis": _analysis(folder, result), "lacks": lacks(folder, result)}
        results.append(vars(result) | more)
        for row in _cells(folder / result.study):
            key = "\n".join([result.study, *(str(row[name]) for name in NAMES)])
            known = row | {"study": result.study, "id": hashlib.sha256(key.encode()).hexdigest()[:8]}
            rows.append(
                [known[name] if name in APART else texts.setdefault(known[name], len(texts)) for name in columns]
            )
    template = jinja2.Environment(autoescape=True).from_string(place("report/results.html").read_text())
    data = json.dumps(
        {"columns": columns, "apart": APART, "texts": [*texts], "rows": rows}, ensure_ascii=False, separators=(",", ":")
    )
    for character in "<>&":  # so that no text in it ends the script
        data = data.replace(character, f"\\u{ord(character):04x}")
    return template.render(results=results, data=jinja2.utils.markupsafe.Markup(data), pdf=pdf) + "\n"


def lead(answer: str) -> list[str | list[str]]:
    """How an answer begins, for a reader in a hurry: paragraphs, and lists of items.

    That is what follows the question up to its first list or table, or two paragraphs.
    """
    parts: list[str] = []
    for block in answer.strip().split("\n\n")[1:3]:
        if block.startswith("- "):
            return [*parts, [" ".join(item.split()) for item in f"\n{block}".split("\n- ")[1:]]]
        if block.startswith(" "):
            break
        parts.append(" ".join(block.split()))
    return list(parts)


def _missing(folder: Path, result: Result) -> list[str]:
    """How many of its trials are findings, unavailable and failed."""
    with plan_of(folder / result.study) as plan:
        cuts = {name for name, one in plan["workloads"].items() if any(phase.get("crash") for phase in one["phases"])}
        cut = {one["id"] for one in plan["trials"] if one["workload"] in cuts}
    ended = []
    for name, trial in result.trials.items():
        found = trial.status == "failed" and name in cut
        ended.append("finding" if found else "unavailable" if trial.status == "skipped" else trial.status)
    return [f"{ended.count(kind)}" for kind in ("finding", "unavailable")] + [
        f"{sum(kind not in ('ok', 'finding', 'unavailable') for kind in ended)}"
    ]


def _line(folder: Path, result: Result) -> str:
    words = [f"{len(set(names))} {escaped(word)}" for word, names in result.verdicts.items()]
    gone = len(retracted(result))
    cells = [f"[{escaped(result.study)}]({quote(result.study)}/ABOUT.md)"]
    cells += [f"[{gone}](#{quote(result.study)})" if gone else DASH, f"{len(result.trials):,}"]
    cells += [*_missing(folder, result), f"{result.host_hours:.2g}", ", ".join(words) or DASH]
    return f"| {' | '.join(cells)} |\n"


def _analysis(folder: Path, result: Result) -> str:
    """The number of the analysis that made a result's report, which says it."""
    report = folder / result.study / "index.html"
    found = ANALYSIS_OF.search(report.read_text(errors="replace")) if report.is_file() else None
    return found[1] if found else DASH


def _rules(folder: Path, result: Result) -> str:
    short = "; ".join(map(escaped, lacks(folder, result))) or DASH
    return f"| {escaped(result.study)} | {result.protocol} | {_analysis(folder, result)} | {short} |\n"


def _retracted(result: Result) -> str:
    told = [
        f"\n> {escaped(one.sentence)}\n\n{one.date}: {escaped(one.wrong)}"
        + (f" **Right:** {escaped(one.right)}" if one.right else "")
        + "\n"
        for one in retracted(result)
    ]
    return f"\n### {escaped(result.study)}\n{''.join(told)}" if told else ""
