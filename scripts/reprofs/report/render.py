"""Executed notebooks -> one self-contained index.html and one report.pdf, by pandoc, report/filter.lua and typst."""

from __future__ import annotations

import base64
import re
import string
import subprocess
import tempfile
from collections.abc import Container, Iterable
from pathlib import Path

import nbformat
import pypandoc
import typst

from reprofs.data.study import Tables, load
from reprofs.errors import UserError
from reprofs.files import write_bytes
from reprofs.report import topics
from reprofs.report.display import count, listing

PARTS = Path(__file__).parents[3] / "report"
FIGURE = re.compile(r'<img data-figure="([^"]+)" src="data:image/svg\+xml;base64,([^"]+)"')


def metadata(study: Tables) -> dict[str, str]:
    """Title and subtitle of the report of a study, plain text."""
    about, environment = study.plan["study"], study.environment
    days = sorted({stamp[:10] for stamp in (environment["first_started"], environment["last_started"]) if stamp})
    when = f", measured {'on' if len(days) == 1 else 'from'} {' to '.join(days)}" if days else ""
    versions = environment["values"].get("reprofs", {})
    made = f" with ReproFS {listing(versions)}" if versions else ""
    subtitle = f"Study {about['name']}: {count(len(study.trials), 'trial')}{made}{when}"
    if "override" in about:
        own = listing(about["override"]["own"].get("labs", []))
        subtitle += f". Overridden: {about['override']['text']} (the study's file says lab {own})"
        if lost := about["override"]["left_out"]:
            subtitle += f". What cannot be had so: {'; '.join(lost)}"
    return {"title": about.get("title", about["name"]), "subtitle": subtitle}


def render(executed: Iterable[str | Path], output: Path, tables: Path) -> None:
    """Write index.html, report.pdf and figures/*.svg into the folder `output` from executed notebooks, in their order.

    `tables` is the folder of the tables that the notebooks read. Every file is written under a temporary name and then
    renamed. Raises UserError when a notebook, the tables or a program is missing.
    """
    output, study = Path(output), load(tables)
    about, plan = metadata(study), study.plan | {"trials": study.trials.to_dict("records")}
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch) / "notebooks"
        (work.parent / "figures").mkdir()
        work.mkdir()
        paths = [Path(path) for path in executed]
        merged = merge(paths, {path for path in paths if topics.asked(topics.name_of(path), plan)})
        figures = _figures(merged)
        for name, svg in figures.items():
            (work.parent / "figures" / f"{name}.svg").write_bytes(svg)
        nbformat.write(merged, work / "merged.ipynb")
        _pandoc(work, about, "html5", "template.html", "index.html", ["--embed-resources", "--toc", "--toc-depth=3"])
        # In HTML the title is the first heading; on paper it is not a heading, so sections are of the first level.
        _pandoc(work, about, "typst", "template.typ", "report.typ", ["--shift-heading-level-by=-1"])
        try:
            pdf = typst.compile(str(work / "report.typ"), root=str(work.parent), ignore_system_fonts=True)
        except typst.TypstError as error:
            raise UserError(f"The PDF cannot be made: {str(error)[:300]}; look at the executed notebooks.") from None
        for name, svg in figures.items():
            write_bytes(output / "figures" / f"{name}.svg", svg)
        for old in set((output / "figures").glob("*.svg")) - {output / "figures" / f"{name}.svg" for name in figures}:
            old.unlink()
        write_bytes(output / "index.html", (work / "index.html").read_bytes())
        write_bytes(output / "report.pdf", pdf)


def merge(executed: list[Path], asked: Container[Path] = ()) -> nbformat.NotebookNode:
    """The notebooks as one: first the body, then the appendices, whose cells carry a letter.

    A notebook whose first cell is tagged `appendix` is one as a whole; otherwise its cells with that tag are moved to
    an appendix under the notebook's title. Cells tagged `answer` are moved to where the first notebook has such a cell,
    those of `asked` notebooks before the others. Cells tagged `notebook` are for work in the notebook and left out.
    Raises UserError for a notebook that does not exist.
    """
    body: list[nbformat.NotebookNode] = []
    appendices: list[list[nbformat.NotebookNode]] = []
    answers: list[tuple[bool, list[nbformat.NotebookNode]]] = []
    place = None
    for path in executed:
        if not path.is_file():
            raise UserError(f"There is no executed notebook {path}: run `make report`.")
        cells = [cell for cell in nbformat.read(path, as_version=4).cells if "notebook" not in _tags(cell)]
        whole = "appendix" in _tags(cells[0])
        own = [cell for cell in cells if whole or "appendix" in _tags(cell)]
        answer = [cell for cell in cells if "answer" in _tags(cell)]
        if answer:
            place = len(body) + cells.index(answer[0]) if place is None else place
            answers.append((path not in asked, answer))
        body += [cell for cell in cells if not (whole or {"appendix", "answer"} & set(_tags(cell)))]
        if own and not whole:
            title = cells[0].source.splitlines()[0].removeprefix("#").strip()
            own.insert(0, nbformat.v4.new_markdown_cell(f"# {title}: details"))
        if any(cell.get("outputs") for cell in own):
            letter = string.ascii_uppercase[len(appendices)]
            for cell in own:
                cell.metadata["appendix"] = letter
            appendices.append(own)
    if place is not None:
        body[place:place] = [cell for _, own in sorted(answers, key=lambda pair: pair[0]) for cell in own]
    cells = [*body, *(cell for own in appendices for cell in own)]
    for number, cell in enumerate(cells):
        # Times of execution and names of cells would make the bytes of the report differ from run to run.
        kept = {key: cell.metadata[key] for key in ("tags", "appendix") if key in cell.metadata}
        cell["metadata"], cell["id"] = nbformat.NotebookNode(kept), f"cell-{number}"
        if cell.cell_type == "code":
            cell.execution_count = None
    merged = nbformat.v4.new_notebook(cells=cells)
    merged.metadata["kernelspec"] = {"name": "python3", "language": "python", "display_name": "Python 3"}
    return merged


def _tags(cell: nbformat.NotebookNode) -> list[str]:
    return cell.metadata.get("tags", [])


def _figures(notebook: nbformat.NotebookNode) -> dict[str, bytes]:
    """name -> SVG of every figure that a notebook shows."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    shown = (output.get("data", {}).get("text/html", "") for output in outputs)
    return {name: base64.b64decode(data) for text in shown for name, data in FIGURE.findall(text)}


def _pandoc(work: Path, about: dict, target: str, template: str, name: str, options: list[str]) -> None:
    variables = {**about, "plain-title": about["title"].replace("\\", "").replace('"', "")}
    arguments = [pypandoc.get_pandoc_path(), "merged.ipynb", "--from=ipynb", f"--to={target}", "--ipynb-output=all"]
    arguments += ["--standalone", "--wrap=preserve", "--syntax-highlighting=none", "--fail-if-warnings"]
    arguments += [f"--output={name}", f"--lua-filter={PARTS / 'filter.lua'}", f"--template={PARTS / template}"]
    arguments += [*options, *(f"--metadata={key}:{value}" for key, value in variables.items())]
    arguments += [f"--variable=style:{(PARTS / 'style.css').read_text()}"] if target == "html5" else []
    done = subprocess.run(arguments, cwd=work, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserError(f"The report cannot be rendered: {done.stderr.strip()[:500]}; look at the executed notebooks.")
