"""No link in the documents and notebooks is dead, and no mention of a section in code."""

import itertools
import json
import re
import subprocess
from pathlib import Path
from urllib.parse import unquote

import pytest
from conftest import ROOT
from markdown_it import MarkdownIt

MARKDOWN = MarkdownIt("js-default")
DOCUMENTS = "METHODOLOGY|CONTRIBUTING|CHANGELOG"
MENTION = re.compile(rf"(?<![\w/])(?:docs/[\w/-]+|{DOCUMENTS})\.md(?:#[\w-]+)?")
BINARY = (".png", ".svg", ".parquet", ".gz")


def tracked(root: Path = ROOT) -> list[Path]:
    """The files of the checkout, those that are not committed yet among them."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout.split("\0")
    return [root / name for name in names if name and (root / name).is_file()]


def sources(path: Path) -> list[str]:
    """The Markdown of a document, or of each cell of prose of a notebook."""
    if path.suffix == ".md":
        return [path.read_text()]
    cells = [(cell["cell_type"], "".join(cell["source"])) for cell in json.loads(path.read_text())["cells"]]
    return [text for kind, text in cells if kind == "markdown"]


def tokens(text: str):
    """Every token of a Markdown text, those within a line among them."""
    for block in MARKDOWN.parse(text):
        yield block
        yield from block.children or []


def links(text: str) -> list[str]:
    """Targets of the links and pictures of a Markdown text, as they are written."""
    attributes = (
        token.attrGet({"link_open": "href", "image": "src"}[token.type])
        for token in tokens(text)
        if token.type in ("link_open", "image")
    )
    return [unquote(str(target)) for target in attributes]


def anchors(path: Path) -> set[str]:
    """The anchors of a document's headings, as GitHub makes them."""
    found: set[str] = set()
    for opening, content in itertools.pairwise(MARKDOWN.parse(path.read_text())):
        if opening.type == "heading_open":
            words = "".join(token.content for token in content.children or [])
            name = slug = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
            number = 0
            while name in found:
                number += 1
                name = f"{slug}-{number}"
            found.add(name)
    return found


def dead(path: Path, target: str) -> str:
    """Why a link in a file leads nowhere; empty for one that does not, or leads out of the checkout."""
    if re.match(r"[a-z]+:", target) or "{{" in target:
        return ""
    name, _, anchor = target.partition("#")
    place = path.parent / name if name else path
    if not place.exists():
        return f"{path.relative_to(ROOT)}: there is no {target}"
    if anchor and anchor not in anchors(place):
        return f"{path.relative_to(ROOT)}: there is no heading for {target}"
    return ""


@pytest.mark.parametrize("suffix", [".md", ".ipynb"])
def test_every_link_leads_somewhere(suffix):
    paths = [path for path in tracked() if path.suffix == suffix and "fixtures" not in path.parts]
    assert paths
    assert not [why for path in paths for text in sources(path) for link in links(text) if (why := dead(path, link))]


def test_every_document_and_section_that_a_file_names_exists():
    named = {}
    for path in tracked():
        if path.suffix not in BINARY:
            named |= dict.fromkeys(MENTION.findall(path.read_text(errors="replace")), path)
    assert named
    assert not [(path, why) for mention, path in named.items() if (why := dead(ROOT / "README.md", mention))]


def test_dead_links_are_found(tmp_path, monkeypatch):
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text("# Rounds, and what θ means\n\n## `one` *two*\n\n## `one` *two*\n")
    assert anchors(page) == {"rounds-and-what-θ-means", "one-two", "one-two-1"}
    text = "[a](page.md) ![b](no.png) [c](page.md#one-two) [d](#nothing) [e](https://example.org/x#y) `[f](no)`"
    assert [why for link in links(text) if (why := dead(page, link))] == [
        "page.md: there is no no.png",
        "page.md: there is no heading for #nothing",
    ]


def test_the_example_of_the_readme_is_the_answer_of_the_published_study():
    """From the question to the set-up, as results/quick/ABOUT.md has it."""
    about, readme = ((ROOT / name).read_text() for name in ("results/quick/ABOUT.md", "README.md"))
    answer = about[about.rindex("\n", 0, about.index("Which of ")) + 1 :]  # its first word may be Demonstration
    answer = answer[: answer.index("\n\n", answer.index("    Setup: "))]
    example = readme.partition("<!-- example -->\n\n")[2].partition("\n\n<!-- /example -->")[0]
    assert example == answer, "copy the answer from results/quick/ABOUT.md"
