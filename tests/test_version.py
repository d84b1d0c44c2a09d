"""One version everywhere, and the commit beside it."""

import importlib.metadata
import re
import subprocess
import tomllib

import pytest
import yaml
from conftest import ROOT
from reprofs import version
from reprofs.records.protocol import PROTOCOL


def git(folder, *words) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    done = subprocess.run(["git", "-C", folder, *identity, *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A checkout with one commit, in which the command runs."""
    (tmp_path / "workflow/schemas").mkdir(parents=True)
    (tmp_path / "workflow/schemas/one.yaml").write_text("1")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/CATALOG.md").write_text("1")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "one")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_version_and_commit_are_shown(repository, reprofs):
    done = reprofs("--version", cwd=repository)
    assert (done.returncode, done.stdout) == (
        0,
        f"reprofs {version.VERSION} ({git(repository, 'rev-parse', 'HEAD')[:7]})\n",
    )


def test_a_changed_checkout_is_called_modified(repository):
    (repository / "workflow/schemas/other.yaml").write_text("not added: it may be anything")
    (repository / "docs/CATALOG.md").write_text("made again")
    assert "modified" not in version.text()
    (repository / "workflow/schemas/one.yaml").write_text("2")
    assert version.text().endswith(f"({git(repository, 'rev-parse', 'HEAD')[:7]}, modified)")
    assert version.commit() == git(repository, "rev-parse", "HEAD") + "+"


def test_without_git_only_the_version_is_known(repository, monkeypatch):
    inner = repository / "unpacked"  # an archive, unpacked in somebody else's repository
    (inner / "workflow/schemas").mkdir(parents=True)
    monkeypatch.chdir(inner)
    assert version.text() == f"reprofs {version.VERSION}"
    monkeypatch.chdir(repository)
    monkeypatch.setenv("PATH", "/nowhere")
    assert version.text() == f"reprofs {version.VERSION}"


def test_a_hook_that_names_another_repository_changes_nothing(repository, tmp_path_factory, monkeypatch):
    """As hooks and `git rebase --exec` set it: git is asked of the checkout all the same."""
    head, other = git(repository, "rev-parse", "HEAD"), tmp_path_factory.mktemp("other")
    git(other, "init", "--quiet")
    for name, value in (("GIT_DIR", other / ".git"), ("GIT_WORK_TREE", other), ("GIT_INDEX_FILE", other / "index")):
        monkeypatch.setenv(name, str(value))
    assert version.commit() == head and version.is_ancestor(head)
    assert not version.is_ancestor("0" * 40)


def test_git_is_called_from_one_place_alone():
    for path in (ROOT / "scripts/reprofs").rglob("*.py"):
        assert path.name == "version.py" or not re.search(r'"git",', path.read_text()), path


def test_all_files_have_the_same_version():
    newest = re.search(r"^## (\d.*?) \(protocol \d+, analysis \d+\), (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert project == newest[1] == cited["version"] == importlib.metadata.version("reprofs")
    assert newest[2] == str(cited["date-released"])


def test_a_raised_protocol_is_noted():
    """The first heading of CHANGELOG.md, of a release or `## Unreleased (protocol N)`, has the number of the code."""
    assert re.search(r"^## .*?protocol (\d+)", (ROOT / "CHANGELOG.md").read_text(), re.M)[1] == str(PROTOCOL)
