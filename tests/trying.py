"""`make try`: in a minute, the linters on what was changed since the last commit, and the tests that it concerns.

Those are the tests of modules that import a changed one, directly or through others: the nearest first, until the
minute is over. Tests in guests and of `make soak` are left out: before a change is handed on, run `make test`.
"""

import ast
import functools
import subprocess
import sys
import time
from fnmatch import fnmatch
from pathlib import Path

import pytest
from reprofs import sources

BEGAN = time.monotonic()
ROOT = Path(__file__).resolve().parents[1]
SECONDS, LIMIT = 50, 5  # from the start to the last test; failures
GUESTS = {"guest", "fio_guest", "luks_guest", "zfs_guest", "recorded"}
LINTERS = {
    "*.py": ["ruff check --quiet", "ruff format --check --quiet"],
    "*.ipynb": ["ruff check --quiet", "nbstripout --verify"],
    "*.[ch]": ["clang-format --dry-run --Werror"],
    "*.smk": ["snakefmt --check"],
    "*.sh": ["shellcheck"],
}
# What no test imports.
OTHERS = {
    "workflow/rules/*": ["workflow"],
    "workflow/*": ["catalog", "workloads", "catalog_page"],
    "config/*": ["catalog", "catalog_page"],
    "data/published/*": ["published"],
    "notebooks/*": ["goldens", "notebooks"],
    "scripts/engine/*": ["engine", "programs"],
    "scripts/setup": ["setup"],
    "Makefile": ["setup"],
    "*.md": ["links", "glossary"],
}


def changed() -> list[Path]:
    """Files that differ from the last commit, and new ones."""
    found = set()
    for command in ("git diff --name-only -z HEAD", "git ls-files --others --exclude-standard -z"):
        found |= set(
            subprocess.run(command.split(), cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
        )
    return sorted(ROOT / name for name in found - {""})


@functools.cache
def imported(path: Path) -> set[Path]:
    """Files of the package and of the tests that a module imports itself."""
    if not path.is_file():
        return set()
    if path.is_relative_to(sources.PACKAGE):
        return set(sources._imported_by(path))
    text = path.read_text()
    names = {name for node in ast.walk(ast.parse(text)) for name in _names(node)}
    own = {folder / f"{name}.py" for name in names for folder in (ROOT / "tests", ROOT / "tests/fixtures")}
    # Through the command line a fixture of conftest.py reaches everything.
    common = {ROOT / "tests/conftest.py", ROOT / "tests/helpers.py"}
    return {one for one in own - common if one.is_file()} | set(sources._imports(text, ""))


def _names(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module] if isinstance(node, ast.ImportFrom) and node.module else []


def distances(files: list[Path]) -> dict[Path, int]:
    """Test modules -> by how many imports they are away from a changed file."""
    found = {}
    for test in sorted((ROOT / "tests").glob("test_*.py")):
        names = [
            name
            for file in files
            for pattern, tests in OTHERS.items()
            if fnmatch(file.relative_to(ROOT), pattern)
            for name in tests
        ]
        if test.stem.removeprefix("test_") in names:
            found[test] = 1
            continue
        seen, front = {test}, {test}
        for distance in range(5):
            if front & set(files):
                found[test] = distance
                break
            front = set().union(*map(imported, front)) - seen
            seen |= front
    return found


class Nearest:
    """A plugin of pytest: the nearest tests first, without guests, until the time is over."""

    def __init__(self, modules: dict[Path, int]):
        self.modules, self.left, self.over = modules, 0, False

    def pytest_collection_modifyitems(self, config, items):
        kept = [item for item in items if not GUESTS & set(item.fixturenames)]
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = sorted(kept, key=lambda item: self.modules[item.path])
        self.left = len(items)

    def pytest_runtest_logfinish(self):
        self.left -= 1

    def pytest_runtest_protocol(self, item):
        if time.monotonic() > BEGAN + SECONDS:
            self.over = True
            item.session.shouldstop = f"the minute is over: {self.left} tests, farther away, were not run"


def lint(files: list[Path]) -> bool:
    """Whether no linter of changed files finds anything; it prints what it finds."""
    tasks = [
        [*command.split(), *map(str, own)]
        for pattern, commands in LINTERS.items()
        if (own := [file for file in files if fnmatch(file.name, pattern) and file.is_file()])
        for command in commands
    ]
    if any(file.is_relative_to(sources.PACKAGE) for file in files):
        tasks += [["mypy"], ["lint-imports", "--no-logo"]]
    done = [subprocess.run(task, cwd=ROOT, capture_output=True, text=True) for task in tasks]
    print("".join(one.stdout + one.stderr for one in done if one.returncode), end="")
    return not any(one.returncode for one in done)


def main() -> int:
    """Runs both; the exit code of what failed."""
    files = changed()
    if not lint(files):
        return 1
    modules = distances(files)
    if not modules:
        print("No test imports what was changed.")
        return 0
    nearest = sorted(map(str, modules), key=lambda name: modules[Path(name)])
    plugin = Nearest(modules)
    code = pytest.main(["-q", f"--maxfail={LIMIT}", *nearest], plugins=[plugin])
    return 0 if plugin.over and code == pytest.ExitCode.INTERRUPTED else code


if __name__ == "__main__":
    sys.exit(main())
