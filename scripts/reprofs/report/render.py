"""Executed notebooks -> one self-contained index.html and one report.pdf, by pandoc, report/filter.lua and typst."""

import shutil
import subprocess
import tempfile
from pathlib import Path

import nbformat
import pypandoc
import typst

from . import dataset, words
from .errors import UserError

PARTS = Path(__file__).parents[2] / "report"
BODY = "05-report.ipynb"
APPENDICES = ["01-quality.ipynb", "02-statistics.ipynb"]
PUBLISHED = "04-published.ipynb"  # of studies that are set beside published numbers
AGREEMENT = "06-agreement.ipynb"  # of studies with several labs


def metadata(study: dataset.Study) -> dict[str, str]:
    """Title and subtitle of the report of a study, plain text."""
    about, environment = study.plan["study"], study.environment
    measured = [stamp[:10] for stamp in (environment["first_started"], environment["last_started"]) if stamp]
    when = (
        ""
        if not measured
        else f", measured on {measured[0]}"
        if len(set(measured)) == 1
        else f", measured {' to '.join(measured)}"
    )
    versions = words.listing(environment["values"].get("reprofs", {})) if "reprofs" in environment["values"] else ""
    made = f" with ReproFS {versions}" if versions else ""
    subtitle = f"Study {about['name']}: {words.count(len(study.trials), 'trial')}{made}{when}"
    return {"title": about.get("title", about["name"]), "subtitle": subtitle}


def render(executed: Path, output: Path, study: Path) -> None:
    """Write index.html and report.pdf into the folder `output` from the executed notebooks in the folder `executed`.

    `study` is the study.json of the tables that the notebooks read; figures are in `executed`/../figures, as
    the notebooks name them. Both files are written under temporary names and then renamed. Raises UserError for what is
    missing.
    """
    executed, output = Path(executed), Path(output)
    tables = dataset.load(Path(study).parent)
    about = metadata(tables)
    appendices = [
        *APPENDICES,
        *([PUBLISHED] if "published" in tables.plan else []),
        *([AGREEMENT] if tables.trials["lab"].nunique() > 1 else []),
    ]
    parts = {"": BODY} | dict(zip("ABCD", appendices, strict=False))
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch) / "notebooks"
        work.mkdir()
        merged = _merge(executed, parts)
        nbformat.write(merged, work / "merged.ipynb")
        if (executed.parent / "figures").is_dir():
            shutil.copytree(executed.parent / "figures", work.parent / "figures")
        _pandoc(work, about, "html5", "template.html", "index.html", ["--embed-resources", "--toc", "--toc-depth=3"])
        # In HTML the title is the first heading; on paper it is none, so that sections are of the first level.
        _pandoc(work, about, "typst", "template.typ", "report.typ", ["--shift-heading-level-by=-1"])
        try:
            pdf = typst.compile(str(work / "report.typ"), root=str(work.parent), ignore_system_fonts=True)
        except typst.TypstError as error:
            raise UserError(
                f"The PDF cannot be made from {executed}: {str(error)[:300]}; look at the notebooks there."
            ) from None
        _replace(output / "index.html", (work / "index.html").read_bytes())
        _replace(output / "report.pdf", pdf)


def _merge(executed: Path, parts: dict[str, str]) -> nbformat.NotebookNode:
    """The body and its appendices (letter -> file) as one notebook; cells of an appendix carry its letter."""
    merged = None
    for letter, name in parts.items():
        path = executed / name
        if not path.is_file():
            raise UserError(
                f"There is no executed notebook {path}: run `make report`, or papermill on notebooks/{name}."
            )
        notebook = nbformat.read(path, as_version=4)
        for number, cell in enumerate(notebook.cells):
            # Times of execution and names of cells would make the bytes of the report differ from run to run.
            tags = ["title"] if not letter and number == 0 else cell.metadata.get("tags", [])
            cell["metadata"] = nbformat.NotebookNode({"tags": tags} | ({"appendix": letter} if letter else {}))
            cell["id"] = f"cell-{letter.lower() or 'body'}-{number}"
        if merged is None:
            merged = notebook
        else:
            merged.cells += notebook.cells
    return merged


def _pandoc(work: Path, about: dict, target: str, template: str, name: str, options: list[str]) -> None:
    variables = {**about, "plain-title": about["title"].replace("\\", "").replace('"', "")}
    arguments = [pypandoc.get_pandoc_path(), "merged.ipynb", "--from=ipynb", f"--to={target}", "--ipynb-output=all"]
    arguments += [
        "--standalone",
        "--wrap=preserve",
        "--syntax-highlighting=none",
        "--fail-if-warnings",
        f"--output={name}",
    ]
    arguments += [f"--lua-filter={PARTS / 'filter.lua'}", f"--template={PARTS / template}", *options]
    arguments += [f"--metadata={key}:{value}" for key, value in variables.items()]
    arguments += [f"--variable=style:{(PARTS / 'style.css').read_text()}"] if target == "html5" else []
    done = subprocess.run(arguments, cwd=work, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserError(f"The report cannot be rendered: {done.stderr.strip()[:500]}; look at the executed notebooks.")


def _replace(path: Path, content: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(path.name + ".partial")
        partial.write_bytes(content)
        partial.replace(path)
    except OSError as error:
        raise UserError(f"Cannot write {path}: {error.strerror}; free space or choose another folder.") from None
