"""site/: the reports of all published results as HTML and PDF, with the index, rendered of their records alone."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import jinja2

from reprofs import files
from reprofs.errors import UserError, several
from reprofs.files import write_bytes, write_text
from reprofs.plan.result import DIGESTS
from reprofs.plan.retraction import Retraction, retracted
from reprofs.project import place
from reprofs.publish import index
from reprofs.publish.derive import derive, pool
from reprofs.records.publication import read, unpack
from reprofs.workplace import beside, put, scratch

PAGES = ("index.html", "report.pdf")


def write(site: Path, studies: list[str], say: Callable[[str], None]) -> Path:
    """Renders results into site/STUDY, and the index of all that are in site/; returns the index.

    studies: names, or none for all. Raises UserError for an unknown study, an altered result, and where a notebook
    fails; what was rendered before stays.
    """
    known = sorted(path.parent.name for path in place("results").glob(f"*/{DIGESTS}"))
    if odd := next((name for name in studies if name not in known), None):
        raise UserError(f"{odd} is not published: choose from {several(known)}.")
    with files.made(site), pool() as processes:
        for name in studies or known:
            folder, began = place(f"results/{name}"), time.monotonic()
            result = read(folder)
            with scratch() as work, beside(site) as held:
                unpack(folder, result, work)
                made = derive(work, processes, pdf=True)
                partial = held / name
                partial.mkdir()
                for page in PAGES:
                    shutil.copyfile(made.report / page, partial / page)
                if gone := retracted(result):
                    report = (made.report / PAGES[0]).read_text().replace("<main>", f"<main>\n{_box(gone)}", 1)
                    write_text(partial / PAGES[0], report)
                for file in ("ABOUT.md", "cells.csv", "picture.svg", DIGESTS):
                    if (folder / file).is_file():
                        shutil.copyfile(folder / file, partial / file)
                put(partial, site / name)
            say(f"{name}: {time.monotonic() - began:.0f} s")
    there = {name for name in known if (site / name / PAGES[0]).is_file()}
    write_bytes(site / "index.html", index.page(place("results"), pdf=True, only=there).encode())
    return site / "index.html"


def _box(gone: list[Retraction]) -> str:
    """What is retracted of a result, for the top of its report."""
    return jinja2.Template(
        "<section><p><strong>Retracted</strong></p><ul>{% for one in gone %}<li><del>{{ one.sentence }}</del> "
        "{{ one.date }}: {{ one.wrong }} {{ one.right }}</li>{% endfor %}</ul></section>",
        autoescape=True,
    ).render(gone=gone)
