"""The prose linter of `make lint`: short sentences and the field's words, in documents and in notebooks.

python scripts/prose.py            names each sentence that is too long, each word to replace, each line too wide
python scripts/prose.py --table    prints words, sentences, mean and longest sentence of each file
"""

import argparse
import dataclasses
import html
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from markdown_it import MarkdownIt

DOCUMENTS = (  # what is held to the rules; one line more holds another document or folder to them
    "README.md",
    "METHODOLOGY.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "docs/*.md",
    "docs/methods/*.md",
)
EXPLAINS = "docs/GLOSSARY.md"  # has the names in code, which are older than the words
NOTEBOOKS = "notebooks/*.ipynb"  # their prose is held to the same
GENERATED = ("docs/CATALOG.md",)
LONGEST, MEAN = 25, 20  # words of a sentence of a document or notebook
RENDERED = 35  # of one with facts in a report, and of a cell of a table
WIDEST = 120  # characters of a notebook's line, which ruff does not read
REPLACE = {  # regular expression -> what to say instead
    "another one": "name the thing",
    "of it": "its, or name the thing",
    "(?:is|are|was|were) told": "is reported, is known",
    "stands?": "is, are",
    "cheapest": "fastest, smallest",
    "cheaper": "faster, smaller",
    "dearest": "slowest, largest",
    "dearer": "slower, larger",
    "beside": "compared with, next to, and",
    "counted time": "virtual time",
    "device profiles?": "device model",
    "processor(?:.s)? files?": "CPU model",
    "promis(?:e|es|ed)": "durability, is durable, guarantees",
    "ceilings?": "baseline",
    "upper bounds?": "baseline, at most",
    "contenders?": "file system, system under test",
    "validated": "verified",
}
FORBIDDEN = {re.compile(rf"(?<![\w-])(?:{words})(?![\w-])", re.IGNORECASE): say for words, say in REPLACE.items()}
NO_END = re.compile(r"(?:^|[\s(“\"])(?:[A-Z]|e\.g|i\.e|cf|vs|pp?|[Ff]ig|al)\.$")
CODE = re.compile(r"<(svg|pre|code|style)\b.*?</\1>", re.DOTALL)
BLOCK = re.compile(r"<(?:p|li|figcaption|caption)\b[^>]*>(.*?)</(?:p|li|figcaption|caption)>", re.DOTALL)
PARSER = MarkdownIt("js-default")


@dataclasses.dataclass
class Prose:
    """What one document or notebook says: sentences of paragraphs and lists, of table cells, and all of its text."""

    path: Path
    sentences: list[str] = dataclasses.field(default_factory=list)
    cells: list[str] = dataclasses.field(default_factory=list)
    headings: list[str] = dataclasses.field(default_factory=list)

    @property
    def lengths(self) -> list[int]:
        """Words of each sentence outside of tables."""
        return [words(sentence) for sentence in self.sentences]

    @property
    def mean(self) -> float:
        """Words a sentence."""
        return sum(self.lengths) / max(len(self.lengths), 1)


def words(text: str) -> int:
    """How many words a text has; inline code is one."""
    return sum(1 for word in text.split() if re.search(r"\w", word))


def split(text: str) -> list[str]:
    """The sentences of a text; initials and abbreviations end none."""
    found, start = [], 0
    for end in re.finditer(r"[.!?][”\"')\]]*\s+", text):
        if not NO_END.search(text[start : end.start() + 1]):
            found.append(text[start : end.end()].strip())
            start = end.end()
    return [sentence for sentence in [*found, text[start:].strip()] if words(sentence)]


def read(path: Path) -> Prose:
    """The prose of a Markdown document, of the Markdown cells of a notebook, or of a rendered report (HTML)."""
    found = Prose(path)
    texts = [path.read_text()]
    if path.suffix == ".html":
        main = CODE.sub(" `x` ", texts[0].partition("<main")[2])
        for block in BLOCK.findall(main):
            found.sentences += split(" ".join(html.unescape(re.sub("<[^>]+>", "", block)).split()))
        return found
    if path.suffix == ".ipynb":
        cells = json.loads(texts[0])["cells"]
        texts = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
    for text in texts:
        _collect(text, found)
    return found


def _collect(text: str, found: Prose) -> None:
    place = found.sentences
    for token in PARSER.parse(text):
        if token.type in ("heading_open", "th_open", "td_open"):
            place = found.headings if token.type == "heading_open" else found.cells
        elif token.type in ("heading_close", "th_close", "td_close"):
            place = found.sentences
        elif token.type == "inline":
            place += split(" ".join("".join(_plain(one) for one in token.children or []).split()))


def _plain(token) -> str:
    if token.type == "code_inline":
        return "`x`"
    return {"text": token.content, "softbreak": " ", "hardbreak": " "}.get(token.type, "")


def wrong(prose: Prose) -> Iterator[str]:
    """A line for each sentence that is too long and each word to replace, and one if the mean is too high."""
    longest = RENDERED if prose.path.suffix == ".html" else LONGEST
    for sentences, most in ((prose.sentences, longest), (prose.cells, RENDERED)):
        for sentence in sentences:
            if words(sentence) > most:
                yield f"{prose.path}: {words(sentence)} words, but {most} are the most: “{sentence[:60]}…”"
    every = [] if prose.path.as_posix().endswith(EXPLAINS) else prose.sentences + prose.cells + prose.headings
    for sentence in every:
        for pattern, instead in FORBIDDEN.items():
            if hit := pattern.search(sentence):
                yield f"{prose.path}: not “{hit[0]}” but {instead}: “…{sentence[max(hit.start() - 30, 0) :][:60]}…”"
    if prose.mean > MEAN:
        yield f"{prose.path}: {prose.mean:.1f} words a sentence on average, but {MEAN} are the most"


def wide(path: Path) -> Iterator[str]:
    """A line for each line of a notebook's cells that is too wide."""
    for cell in json.loads(path.read_text())["cells"]:
        for line in "".join(cell["source"]).splitlines():
            if len(line) > WIDEST:
                yield f"{path}: {len(line)} characters, but {WIDEST} are the most: break this line: {line[:60]}…"


def documents(root: Path) -> list[Path]:
    """The documents that are held to the rules, without those that are made from other files."""
    paths = sorted({path for pattern in (*DOCUMENTS, NOTEBOOKS) for path in root.glob(pattern)})
    return [path for path in paths if path.relative_to(root).as_posix() not in GENERATED]


def main() -> None:
    """Names what is wrong, or prints the table; the exit code says whether anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", action="store_true", help="print the lengths of each file's sentences")
    parser.add_argument("files", nargs="*", type=Path, help="files to read in the place of those that are listed")
    asked, root = parser.parse_args(), Path()
    all_prose = [read(path) for path in asked.files or documents(root)]
    if asked.table:
        print(f"{'file':34} {'words':>6} {'sentences':>9} {'mean':>5} {'longest':>7}")
        for one in all_prose:
            lengths = one.lengths or [0]
            print(f"{one.path!s:34} {sum(lengths):6} {len(lengths):9} {one.mean:5.1f} {max(lengths):7}")
    lines = [line for one in all_prose for line in wrong(one)]
    lines += [line for path in sorted(root.glob(NOTEBOOKS)) for line in wide(path)]
    if lines:
        sys.exit("\n".join(lines))


if __name__ == "__main__":
    main()
