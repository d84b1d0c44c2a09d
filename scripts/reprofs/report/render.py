"""Executed notebooks -> one self-contained index.html and one report.pdf, by pandoc, report/filter.lua and typst."""

from __future__ import annotations

import base64
import io
import re
import string
import subprocess
from collections.abc import Collection, Iterable
from pathlib import Path

import matplotlib
import nbformat
import pikepdf
import pypandoc
import typst

from reprofs.data.study import Tables, load
from reprofs.errors import UserError, legible, short
from reprofs.files import SUMS, changed, sha256, write_together
from reprofs.report.words import count, listing
from reprofs.workplace import scratch

FOLDER = Path(__file__).parents[3] / "report"
SECTION = re.compile(r"##+ ")
FIGURE = re.compile(r'<img data-figure="([^"]+)" src="data:image/(svg\+xml|png|jpeg);base64,([^"]+)"')
ORDINARY = ("image/svg+xml", "image/png", "image/jpeg")  # of Jupyter's own displays, the first that there is
ASIDES = ("operations", "flushes", "options", "space")  # appendices where a study asks for something else
ASIDE = "## Who is fastest"  # heading of the first notebook's answer where a study asks for something else
OBJECT = re.compile(r"\[?<.*>\]?", re.DOTALL)  # what Python shows of something that has no better words


def metadata(study: Tables) -> dict[str, str]:
    """Title and subtitle of the report of a study, plain text."""
    about, environment = study.plan.study, study.environment
    days = sorted({stamp[:10] for stamp in (environment["first_started"], environment["last_started"]) if stamp})
    when = f", measured {'on' if len(days) == 1 else 'from'} {' to '.join(days)}" if days else ""
    versions = environment["values"].get("reprofs", {})
    made = f" with ReproFS {listing(versions)}" if versions else ""
    subtitle = f"Study {about.name}: {count(len(study.trials), 'trial')}{made}{when}"
    if about.override:
        own = listing(about.override.own.get("labs", []))
        subtitle += f". Overridden: {about.override.text} (the study's file says lab {own})"
        if lost := about.override.left_out:
            subtitle += f". What cannot be had so: {'; '.join(lost)}"
    return {"title": legible(study.opening(about.title)), "subtitle": legible(subtitle)}


def render(
    executed: Iterable[str | Path], output: Path, tables: Path, first: Collection[str] = (), pdf: bool = True
) -> None:
    """Write index.html, report.pdf and figures/*.svg into the folder `output` from executed notebooks, in their order.

    `tables` is the folder of the tables that the notebooks read; `first` has the stems of the notebooks whose answers
    stand before those of the others; `pdf` is whether the report is made for print, too. What was there stays until all
    of it is made and written. Raises UserError when a notebook, the tables or a program is missing, or it is not made.
    """
    output = Path(output)
    about = metadata(load(tables))
    with scratch() as place:
        work = place / "notebooks"
        (work.parent / "figures").mkdir()
        work.mkdir()
        merged = merge([Path(path) for path in executed], first)
        figures = _figures(merged)
        for name, svg in figures.items():
            (work.parent / "figures" / name).write_bytes(svg)
        nbformat.write(merged, work / "merged.ipynb")
        named = about | {"tables": sha256(tables / SUMS)}  # so that a page of other tables is found without rendering
        _pandoc(work, named, "html5", "template.html", "index.html", ["--embed-resources", "--toc", "--toc-depth=3"])
        printed = _printed(work, about) if pdf else b""
        made = {f"figures/{name}": figure for name, figure in figures.items()}
        made |= {"index.html": (work / "index.html").read_bytes()} | ({"report.pdf": printed} if pdf else {})
        write_together(output, made)
        (output / "figures").mkdir(exist_ok=True)  # the workflow waits for it
        for old in set((output / "figures").glob("*.*")) - {output / "figures" / name for name in figures}:
            old.unlink()


def _printed(work: Path, about: dict[str, str]) -> bytes:
    """The PDF of the merged notebook in `work`. Raises UserError when it cannot be made."""
    # In HTML the title is the first heading; on paper it is not a heading, so sections are of the first level.
    _pandoc(work, about, "typst", "template.typ", "report.typ", ["--shift-heading-level-by=-1"])
    try:
        made = typst.compile(
            str(work / "report.typ"),
            root=str(work.parent),
            ignore_system_fonts=True,
            font_paths=[str(Path(matplotlib.get_data_path()) / "fonts/ttf")],  # of the words in figures
            sys_inputs={"title": about["title"]},
        )
    except typst.TypstError as error:
        raise UserError(f"The PDF cannot be made: {str(error)[:300]}; look at the executed notebooks.") from None
    return _packed(made)


def _packed(pdf: bytes) -> bytes:
    """The same PDF, with the thousands of objects that say what its tables are compressed: a quarter of the bytes."""
    packed = io.BytesIO()
    with pikepdf.open(io.BytesIO(pdf)) as whole:
        whole.save(packed, object_stream_mode=pikepdf.ObjectStreamMode.generate, deterministic_id=True)
    return packed.getvalue()


def merge(executed: list[Path], first: Collection[str] = ()) -> nbformat.NotebookNode:
    """The notebooks as one: first the body, then the appendices, whose cells carry a letter.

    A notebook whose first cell is tagged `appendix` is one as a whole; otherwise its cells with that tag are moved to
    an appendix under the notebook's title. Cells tagged `answer` are moved to where the first notebook has such a cell.
    With `first` only those of the notebooks with these stems are, followed by cells tagged `limits`. The others stay in
    their own parts, and those of `ASIDES` are appendices. Cells tagged `notebook` are for work in the notebook
    and left out. Raises UserError for a notebook that does not exist.
    """
    body: list[nbformat.NotebookNode] = []
    appendices: list[list[nbformat.NotebookNode]] = []
    front: list[nbformat.NotebookNode] = []
    place = None
    if odd := set(first) - {path.stem for path in executed}:
        what = short(min(odd))
        raise UserError(f"there is no notebook {what} whose answer could stand first: name one of the report's.")
    for path in executed:
        cells = _told([cell for cell in _read(path).cells if "notebook" not in _tags(cell)])
        whole = _whole(cells, path.stem, first)
        answer = _tagged(cells, "answer")
        moved = {"limits", *(["answer"] if path.stem in first else [])} if first else {"answer"}
        if answer and place is None:
            place = len(body) + cells.index(answer[0])
            if moved == {"limits"} and not _silent(answer):
                cells.insert(cells.index(answer[0]), nbformat.v4.new_markdown_cell(ASIDE))
        front += _tagged(cells, *moved)
        body += [cell for cell in cells if not (whole or {"appendix", *moved} & set(_tags(cell)))]
        appendices += _appendix(cells, whole, string.ascii_uppercase[len(appendices)])
    for cell in _tagged(body, "answer"):  # of the others: it stays where it is
        cell.metadata["tags"] = []
    if place is not None:
        body[place:place] = sorted(front, key=lambda cell: "limits" in _tags(cell))
    return _alike([*body, *(cell for own in appendices for cell in own)])


def _whole(cells: list[nbformat.NotebookNode], name: str, first: Collection[str]) -> bool:
    """Whether a notebook is an appendix as a whole."""
    return "appendix" in _tags(cells[0]) or bool(first and name in ASIDES and name not in first)


def _tagged(cells: list[nbformat.NotebookNode], *tags: str) -> list[nbformat.NotebookNode]:
    return [cell for cell in cells if set(tags) & set(_tags(cell))]


def _read(path: Path) -> nbformat.NotebookNode:
    if not path.is_file():
        raise UserError(f"There is no executed notebook {path}: run `make report`.")
    sums = path.with_name(f"{path.name}.sha256")  # of what the workflow executed
    if sums.exists() and changed(sums, path.name):
        raise UserError(f"{path} was changed after it was executed: run `make report`, which executes it again.")
    try:
        return _with_pictures(nbformat.read(path, as_version=4), path.stem)
    except (ValueError, KeyError, AttributeError, nbformat.ValidationError):
        raise UserError(f"{path} is not a notebook: name executed notebooks, or run `make report`.") from None


def _told(cells: list[nbformat.NotebookNode]) -> list[nbformat.NotebookNode]:
    """The cells without those sections (from a heading to the next) whose code has shown nothing.

    The first cell, the notebook's title, stays; so do a section without code, and what belongs to an appendix.
    """
    sections: list[list[nbformat.NotebookNode]] = []
    for cell in cells:
        if not sections or (cell.cell_type == "markdown" and SECTION.match(cell.source)):
            sections.append([])
        sections[-1].append(cell)
    kept = []
    for number, own in enumerate(sections):
        body = [cell for cell in own if "appendix" not in _tags(cell)]
        kept += own if number == 0 or not _silent(body) else _tagged(own, "appendix")
    return kept


def _silent(cells: list[nbformat.NotebookNode]) -> bool:
    code = [cell for cell in cells if cell.cell_type == "code"]
    return bool(code) and not any(_shows(output) for cell in code for output in cell.get("outputs", []))


def _shows(output: dict) -> bool:
    data = output.get("data", {})
    return list(data) == ["text/plain"] or any(data[kind].strip() for kind in data if kind != "text/plain")


def _with_pictures(notebook: nbformat.NotebookNode, name: str) -> nbformat.NotebookNode:
    """The notebook with its ordinary figures named like those of the report; without names of mere objects."""
    number = 0
    for cell in notebook.cells:
        kept = []
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if list(data) == ["text/plain"] and OBJECT.fullmatch(data["text/plain"].strip()):
                continue
            form = next((one for one in ORDINARY if one in data), "")
            if form and "text/html" not in data:
                number += 1
                kind = form.removeprefix("image/").removesuffix("+xml")
                content = (
                    base64.b64encode(data[form].encode()).decode() if kind == "svg" else "".join(data[form].split())
                )
                address = f"data:{form};base64,{content}"
                image = f'<img data-figure="{name}-{number}" src="{address}" kind="{kind}" alt="A figure of {name}">'
                output = nbformat.v4.new_output("display_data", data={"text/html": f"<p>{image}</p>"})
            kept.append(output)
        if cell.cell_type == "code":
            cell.outputs = kept
    return notebook


def _appendix(cells: list[nbformat.NotebookNode], whole: bool, letter: str) -> list[list[nbformat.NotebookNode]]:
    """The cells of a notebook that are an appendix, with its letter; none where they show nothing."""
    own = [cell for cell in cells if whole or "appendix" in _tags(cell)]
    if own and not whole:
        title = cells[0].source.splitlines()[0].removeprefix("#").strip()
        own.insert(0, nbformat.v4.new_markdown_cell(f"# {title}: details"))
    for cell in own:
        cell.metadata["appendix"] = letter
    return [own] if any(cell.get("outputs") for cell in own) else []


def _alike(cells: list[nbformat.NotebookNode]) -> nbformat.NotebookNode:
    """A notebook without times of execution and names of cells, which would make the bytes of the report differ."""
    for number, cell in enumerate(cells):
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
    """File name -> content of every figure that a notebook shows: SVG, and PNG of ordinary ones."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    shown = (output.get("data", {}).get("text/html", "") for output in outputs)
    found = (one for text in shown for one in FIGURE.findall(text))
    return {f"{name}.{kind.removesuffix('+xml')}": base64.b64decode(data) for name, kind, data in found}


def _pandoc(work: Path, about: dict, target: str, template: str, name: str, options: list[str]) -> None:
    arguments = [pypandoc.get_pandoc_path(), "merged.ipynb", "--from=ipynb", f"--to={target}", "--ipynb-output=all"]
    arguments += ["--standalone", "--wrap=preserve", "--syntax-highlighting=none", "--fail-if-warnings"]
    arguments += [f"--output={name}", f"--lua-filter={FOLDER / 'filter.lua'}", f"--template={FOLDER / template}"]
    arguments += [*options, *(f"--metadata={key}:{value}" for key, value in about.items())]
    arguments += [f"--variable=style:{(FOLDER / 'style.css').read_text()}"] if target == "html5" else []
    done = subprocess.run(arguments, cwd=work, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserError(f"The report cannot be rendered: {done.stderr.strip()[:500]}; look at the executed notebooks.")
