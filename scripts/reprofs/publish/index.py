"""results/index.html: all published results on one page, made of their folders alone; it works from file://.

results/README.md has them as a table.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from pathlib import Path
from urllib.parse import quote

import jinja2
import pandas as pd

from reprofs.files import write_text
from reprofs.plan.catalog import Catalog
from reprofs.plan.result import DIGESTS, Result
from reprofs.plan.workload import Workload
from reprofs.project import place
from reprofs.publish.write import CELLS, PICTURE
from reprofs.records.publication import read
from reprofs.report.marks import escaped
from reprofs.report.words import DASH

NAMES = ["lab", "stack", "profile", "workload", "scale", "phase", "cache", "label"]  # what a cell is, in its study
TIMES = ["geometric_mean_ns", "low_ns", "high_ns"]


TABLE = """# Published results

Open `index.html` in a browser for all numbers. [How to check them](../docs/check-results.md).

A finding is a trial that cut the power and failed afterwards; unavailable is what its lab cannot run.

| study | trials | findings | unavailable | failed | host hours | verdicts on published claims |
|---|---|---|---|---|---|---|
"""


def write_index(folder: Path) -> Path:
    """Writes index.html and README.md of the folder with the results. Raises UserError for an altered result."""
    made = folder / "index.html"
    write_text(folder / "README.md", TABLE + "".join(_line(read(path.parent)) for path in _all(folder)))
    write_text(made, page(folder))
    return made


def _all(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"*/{DIGESTS}"))


def page(folder: Path, pdf: bool = False, only: Collection[str] | None = None) -> str:
    """The page of the folder with the results.

    pdf: whether each has a report.pdf next to its HTML, as in site/; only: the studies to show, default all. Raises
    UserError for an altered result.
    """
    results, rows = [], []
    columns = ["study", "id", *NAMES, "rounds", *TIMES, "trial"]
    for path in _all(folder):
        if only is not None and path.parent.name not in only:
            continue
        result = read(path.parent)
        more = {"count": len(result.trials), "picture": PICTURE in result.files, "lead": lead(result.answer)}
        results.append(vars(result) | more)
        cells = pd.read_csv(path.parent / CELLS, keep_default_na=False, na_values={name: [""] for name in TIMES})
        for row in cells.to_dict("records"):
            key = "\n".join([result.study, *(str(row[name]) for name in NAMES)])
            known = {name: None if pd.isna(row[name]) else row[name] for name in cells.columns}
            known |= {"study": result.study, "id": hashlib.sha256(key.encode()).hexdigest()[:8]}
            rows.append([known[name] for name in columns])
    template = jinja2.Environment(autoescape=True).from_string(place("report/results.html").read_text())
    data = json.dumps({"columns": columns, "rows": rows}, ensure_ascii=False, separators=(",", ":"))
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


def _missing(result: Result) -> list[str]:
    """How many of its trials are findings, unavailable and failed."""
    catalog = Catalog()
    cuts = [name for name in catalog.paths(Workload) if any(one.crash for one in catalog.get(Workload, name).phases)]
    ended = []
    for name, trial in result.trials.items():
        cut = trial.status == "failed" and any(f"-{one}-" in name for one in cuts)
        ended.append("finding" if cut else "unavailable" if trial.status == "skipped" else trial.status)
    return [f"{ended.count(kind)}" for kind in ("finding", "unavailable")] + [
        f"{sum(kind not in ('ok', 'finding', 'unavailable') for kind in ended)}"
    ]


def _line(result: Result) -> str:
    words = [f"{len(set(names))} {escaped(word)}" for word, names in result.verdicts.items()]
    cells = [f"[{escaped(result.study)}]({quote(result.study)}/ABOUT.md)", f"{len(result.trials):,}"]
    cells += [*_missing(result), f"{result.host_hours:.2g}", ", ".join(words) or DASH]
    return f"| {' | '.join(cells)} |\n"
