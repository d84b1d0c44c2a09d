"""Which files of this package a module or a notebook imports, directly or through others.

The workflow makes them inputs of its stages, so that an edit repeats only the stages whose results it can change.
"""

from __future__ import annotations

import ast
import functools
import json
from collections.abc import Iterator
from pathlib import Path

from IPython.core.inputtransformer2 import TransformerManager

from reprofs.errors import UserError, short

PACKAGE = Path(__file__).resolve().parent
# What is found by name at run time in every notebook: what `reprofs.open` returns, and what shows things.
NOTEBOOK = "import reprofs.stats.study, reprofs.report.show, reprofs.report.style"


def of(start: str) -> list[Path]:
    """Every file of the package that a stage imports, including the one it starts in, sorted.

    start: a module of the package, such as reprofs.data.tables, or the path of a notebook. The files are those of the
    running package, which need not lie in this checkout. Imports inside functions count; modules found by name at run
    time (labs, import formats) do not, because no stage after the trials uses them. Raises UserError for a file that is
    not a notebook, or whose code is not Python.
    """
    found: set[Path] = set()
    try:
        todo = _imports(_code(Path(start)) if start.endswith(".ipynb") else f"import {start}", "")
    except SyntaxError as error:
        code = short((error.text or "").strip())
        raise UserError(f"{start}: {code} is not valid Python ({error.msg}): correct it in Jupyter.") from None
    except (OSError, ValueError, LookupError, TypeError):
        raise UserError(f"{start} is not a readable notebook: save it again in Jupyter.") from None
    while todo:
        path = todo.pop()
        if path not in found:
            found.add(path)
            todo += _imported_by(path)
    return sorted(found)


@functools.cache
def _imported_by(path: Path) -> list[Path]:
    """Files of the package that one of them imports; each is read only once."""
    return _imports(path.read_text(), _name(path))


def _code(notebook: Path) -> str:
    """The code of a notebook as Python, with %magics and !commands turned into IPython's calls."""
    cells = [cell for cell in json.loads(notebook.read_text())["cells"] if cell["cell_type"] == "code"]
    return "\n".join([NOTEBOOK, *(TransformerManager().transform_cell("".join(cell["source"])) for cell in cells)])


def _name(path: Path) -> str:
    """The dotted name of the package that a file's relative imports start from."""
    return ".".join([PACKAGE.name, *path.parent.relative_to(PACKAGE).parts])


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """All statements below a node: expressions, which are most of a tree, have no imports."""
    for block in ("body", "orelse", "finalbody", "handlers", "cases"):
        inner = getattr(node, block, None)
        for statement in inner if isinstance(inner, list) else []:
            yield statement
            yield from _statements(statement)


def _imports(code: str, package: str) -> list[Path]:
    """Files of the package that some code imports; package: where its relative imports start."""
    names: set[str] = set()
    for node in _statements(ast.parse(code)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *filter(None, [node.module])])
            names |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
    # Importing a.b.c runs the __init__ of a and of a.b first.
    names |= {".".join(name.split(".")[:length]) for name in names for length in range(1, name.count(".") + 1)}
    return [path for name in sorted(names) if (path := _file(name))]


def _file(name: str) -> Path | None:
    """The file of a dotted name, if it is a module of the package."""
    first, *rest = name.split(".")
    place = PACKAGE.joinpath(*rest)
    candidates = [place / "__init__.py", place.with_suffix(".py")] if rest else [place / "__init__.py"]
    return next((path for path in candidates if path.is_file()), None) if first == PACKAGE.name else None
