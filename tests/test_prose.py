"""The prose linter of `make lint`: each of its rules, on a text that keeps it and on one that does not."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

spec = importlib.util.spec_from_file_location("prose", ROOT / "scripts/prose.py")
prose = importlib.util.module_from_spec(spec)
sys.modules["prose"] = prose  # dataclasses look their module up
spec.loader.exec_module(prose)


def sentence(count: int) -> str:
    return " ".join(["word"] * count) + "."


@pytest.fixture
def said(tmp_path, monkeypatch):
    """What the linter says of a Markdown text: its lines, without the file's name."""
    monkeypatch.chdir(tmp_path)

    def ask(text: str) -> list[str]:
        Path("page.md").write_text(text)
        return [line.removeprefix("page.md: ") for line in prose.wrong(prose.read(Path("page.md")))]

    return ask


def test_a_sentence_has_at_most_25_words_and_a_cell_35(said):
    short = sentence(5) + "\n\n"
    cell = "| a | b |\n|---|---|\n| {} | c |".format
    assert not said(short * 3 + sentence(25)) and not said(short * 3 + cell(sentence(35)))
    for text, count in ((sentence(26), 26), (f"- {sentence(26)}", 26), (cell(sentence(36)), 36)):
        assert [line.split(",")[0] for line in said(short * 3 + text)] == [f"{count} words"], text


def test_a_sentence_of_a_report_has_at_most_35_words(tmp_path):
    page = tmp_path / "index.html"
    for count, wrong in ((35, 0), (36, 1)):
        page.write_text(f"<main><p>{sentence(5) * 3}</p><p>{sentence(count)}</p></main>")
        assert len([line for line in prose.wrong(prose.read(page)) if "are the most: “" in line]) == wrong


def test_sentences_have_at_most_20_words_on_average(said):
    assert not said(f"{sentence(16)} {sentence(24)}")
    assert said(f"{sentence(16)} {sentence(25)}") == ["20.5 words a sentence on average, but 20 are the most"]
    # Cells of tables would lower it.
    assert said(f"{sentence(16)} {sentence(25)}\n\n| a | b |\n|---|---|\n| c. | d. |") != []


@pytest.mark.parametrize("words", [
    "Another one", "of it", "is told", "stands", "cheapest", "cheaper", "dearest", "dearer", "beside", "counted time",
    "device profile", "processor's file", "processor file", "promises", "ceiling", "upper bound", "contenders",
    "validated",
])  # fmt: skip
def test_a_word_with_a_better_one_is_named(said, words):
    (line,) = said(f"Here {words} is written.")
    assert line.startswith(f"not “{words}” but ")
    assert said(f"# The {words}") and said(f"| {words} | b |\n|---|---|\n| c | d |")
    assert not said(f"Here `{words}` is code.\n\n    {words}\n\n```\n{words}\n```\n")


def test_every_word_to_replace_is_found_as_a_word_alone(said):
    assert len(prose.FORBIDDEN) == len(prose.REPLACE) and all(prose.REPLACE.values())
    assert not said("The standstill of its besides, a stand-alone compromise.")


def test_code_is_a_word_and_a_fence_none(said):
    assert prose.words("run `x` at 5 % — now") == 5
    code = " ".join(["word"] * 50)
    assert not said(f"Run `{code}` so.\n\n```\n{code}\n```\n\n    {code}\n")


@pytest.mark.parametrize(("text", "count"), [
    ("One. Two! Three? four", 4),
    ("By E. K. Lee, e.g. in 1993, vs. others (cf. 2). ext4 is small.", 2),
    ("It takes 0.5 ns; see a.b.c for more.", 1),
    ("He said “no.” Then (“yes.”) he went.", 3),
    ("It takes 5 s. It waits.", 2),
    ("— …", 0),
])  # fmt: skip
def test_a_text_is_split_into_sentences(text, count):
    assert len(prose.split(text)) == count


def test_lines_of_a_paragraph_are_one_sentence_and_blocks_are_not(said):
    assert said("\n".join(["word"] * 26) + "\n")
    assert not said("\n\n".join(["word"] * 26) + "\n")


def notebook(folder: Path, *cells: tuple[str, str]) -> Path:
    path = folder / "notebooks/page.ipynb"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"cells": [{"cell_type": kind, "source": [text]} for kind, text in cells]}))
    return path


def test_markdown_cells_of_a_notebook_are_read_and_its_code_is_not(tmp_path):
    lines = list(prose.wrong(prose.read(notebook(tmp_path, ("markdown", "It is cheaper."), ("code", "# cheapest")))))
    assert len(lines) == 1 and "“cheaper”" in lines[0]


def test_a_line_of_a_notebook_has_at_most_120_characters(tmp_path):
    assert not list(prose.wide(notebook(tmp_path, ("code", "x" * 120))))
    assert len(list(prose.wide(notebook(tmp_path, ("code", "x" * 121 + "\n" + "x"))))) == 1


def test_the_command_fails_on_what_is_wrong_and_prints_a_table(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["prose.py", "--table"])
    Path("METHODOLOGY.md").write_text("It is short. So is this.")
    prose.main()
    assert capsys.readouterr().out.splitlines()[1].split() == ["METHODOLOGY.md", "6", "2", "3.0", "3"]
    Path("METHODOLOGY.md").write_text("It is dearer.")
    with pytest.raises(SystemExit, match="“dearer”"):
        prose.main()
    Path("METHODOLOGY.md").write_text("It is slower.")
    notebook(tmp_path, ("code", "x" * 121))
    with pytest.raises(SystemExit, match="121 characters"):
        prose.main()


def test_generated_documents_are_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(prose, "DOCUMENTS", ("docs/*.md",))
    (tmp_path / "docs").mkdir()
    for name in ("CATALOG.md", "artifact.md"):
        (tmp_path / "docs" / name).write_text("It is dearer.")
    assert [path.name for path in prose.documents(tmp_path)] == ["artifact.md"]


def test_every_listed_pattern_names_a_document():
    assert all(list(ROOT.glob(pattern)) for pattern in prose.DOCUMENTS)
