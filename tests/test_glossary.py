"""The glossary names modules, classes and folders that exist."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROWS = re.findall(r"^\| ([^|]+) \| [^|]+ \| ([^|]+) \|$", (ROOT / "docs/GLOSSARY.md").read_text(), re.MULTILINE)
PLACES = [(word, place) for word, where in ROWS for place in re.findall(r"`([^`]+)`", where)]


def exists(place: str) -> bool:
    """Whether a path is in the checkout. Of a name in the package: raises ImportError where there is none."""
    if "/" in place:
        return (ROOT / place).exists()
    room, _, name = f"reprofs.{place}".rpartition(".")
    if hasattr(importlib.import_module(room), name):
        return True
    return importlib.import_module(f"{room}.{name}") is not None


@pytest.mark.parametrize(("word", "place"), [(w, p) for w, p in PLACES if "/" in p or "." in p or p == "cleanup"])
def test_what_a_word_names_is_there(word, place):
    assert exists(place), f"docs/GLOSSARY.md: {word} is not at {place}"


def test_every_word_is_there_once():
    words = [word for row, _ in ROWS for word in row.split(", ") if word != "word"]
    assert len(words) > 40 and len(set(words)) == len(words)
