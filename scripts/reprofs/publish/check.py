"""Whether all that a published result shows follows from its records: it is made of them again, and compared."""

from __future__ import annotations

import itertools
import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from reprofs.errors import UserError, count, short
from reprofs.files import sha256
from reprofs.plan.result import DIGESTS, Result
from reprofs.publish import commits, write
from reprofs.publish.derive import tables
from reprofs.records.publication import OtherVersion, as_of, read, unpack
from reprofs.workplace import scratch

Say = Callable[[str], None]
MOST = 10  # differences that are printed
NUMBER = re.compile(r"\d+(?:\.\d+)?")
KNOWN = re.compile(r"(records|profiles)-\d+\.tar\.xz|lab\.lock|index\.html|ABOUT\.md|cells\.csv|picture\.svg")
NAMED = re.compile(r'<meta name="reprofs-tables" content="([^"]*)">')  # report/template.html


def derived(folder: Path, say: Say, whole: bool = False, own: bool = False) -> bool:
    """Makes what a result says of its records again; says each difference, and returns whether there is none.

    whole: with the report, its picture and its answer, which takes a minute; else with all but these. own: by this
    checkout's code, also where the result was made by other code. Raises UserError like `verify`.
    """
    result, commit = read(folder), ""
    if not own and not commits.renders_alike(result.rendered.commit):
        commit = result.rendered.commit
    with scratch() as work:
        try:
            found = list(_differences(folder, result, work / "parts", exact=not commit))
        except OtherVersion as error:
            if not commit:
                raise
            found = [str(error)]
        if commit and (whole or found):
            say(f"{folder} was rendered by other code than this checkout's" + (f" ({found[0]})" if found else ""))
            found, whole = list(_there(folder, result, work, say)), True
        elif whole and not found:
            found = list(_here(folder, result, work / "whole"))
    for sentence in found[:MOST]:
        say(f"{folder}: {sentence}: this result was altered" + (", or made by other code" if own else ""))
    if len(found) > MOST:
        say(f"{folder}: and {count(len(found) - MOST, 'difference')} more")
    if not found:
        judged = sum(map(len, result.verdicts.values()))
        more = ", the whole report and its answer" if whole else ""
        say(
            f"{folder}: {len(result.tables)} tables, {judged} verdicts, ABOUT.md and cells.csv{more} come from its "
            f"{len(result.trials)} records"
        )
    if not whole:
        say("not derived: the words of the answer, picture.svg and index.html; --render derives them")
    return not found


def _differences(folder: Path, result: Result, work: Path, exact: bool) -> Iterator[str]:
    """What this checkout's code makes of the records otherwise, each as a clause; all but what takes a minute.

    exact: ABOUT.md must have the same words.
    """
    work.mkdir()
    plan = unpack(folder, result, work)
    yield from (f"{name} is a file that no result has" for name in result.files if not KNOWN.fullmatch(name))
    with as_of(folder, work):
        study, sums = tables(work)
        odd = write.foreign(plan, work / "raw", folder / "lab.lock")
        made = write.facts(work, folder / "lab.lock", study, sums)
    if odd:
        yield f"lab.lock: {odd}"
    was = result.model_copy(update={"answer": "", "rendered": made.rendered, "files": {}})
    yield from _values(was.as_json(), made.as_json())
    for name, content in write.texts(result, study).items():
        found = (folder / name).read_text(errors="replace") if name in result.files else ""
        words = write.quoted(result.answer) if name == write.ABOUT_FILE and not exact else ""
        if found != content and not (words and _same_facts(found, content, words)):
            yield _line(name, found, content)
    page = (folder / "index.html").read_text(errors="replace") if "index.html" in result.files else ""
    if (named := NAMED.search(page)) and named[1] != sha256(work / "tables/files.sha256"):
        yield "index.html: it names other tables than the records give"


def _here(folder: Path, result: Result, work: Path) -> Iterator[str]:
    """What this checkout makes of the records otherwise, byte by byte."""
    work.mkdir()
    unpack(folder, result, work)
    write.make(work, folder / "lab.lock", result.rendered, work / "made")
    yield from _files(folder, work / "made")


def _there(folder: Path, result: Result, work: Path, say: Say) -> Iterator[str]:
    """What the result's own commit makes of its records otherwise: it renders a copy, which is compared."""
    with commits.clone(result.rendered.commit, say) as clone:
        copy = clone / "results" / result.study
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(folder, copy)
        if commits.run(clone, ".venv/bin/reprofs", "publish", result.study, "--records"):
            raise UserError(f"commit {result.rendered.commit[:12]} could not render {folder}: see the lines above.")
        shutil.copytree(copy, work / "there")
    yield from _files(folder, work / "there")


def _files(folder: Path, made: Path) -> Iterator[str]:
    """What differs between the files of a result and those that were made of its records."""
    names = sorted({path.name for place in (folder, made) for path in place.iterdir()})
    for name in names:
        was, now = (place / name for place in (folder, made))
        if not now.is_file():
            yield f"{name} is not made of the records"
        elif not was.is_file():
            yield f"{name} is missing"
        elif was.read_bytes() != now.read_bytes():
            if name == DIGESTS:  # what it says of the files that differ is no difference of its own
                one, other = ({**json.loads(path.read_text()), "files": {}} for path in (was, now))
                yield from _values(one, other)
            else:
                yield _line(name, was.read_text(errors="replace"), now.read_text(errors="replace"))


def _values(was: Any, now: Any, key: str = "") -> Iterator[str]:
    """Where two values of digests.json differ."""
    if isinstance(was, dict) and isinstance(now, dict):
        for name in {**was, **now}:
            yield from _values(was.get(name), now.get(name), f"{key}.{name}" if key else name)
    elif was != now:
        one, other = ("nothing" if value is None else short(value) for value in _apart(was, now))
        yield f"{DIGESTS}, {short(key)[1:-1]}: the records give {other}, the result says {one}"


def _apart(was: Any, now: Any) -> tuple[Any, Any]:
    """Both from a little before the place where they differ on, if they are texts."""
    if not isinstance(was, str) or not isinstance(now, str):
        return was, now
    same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(was, now, strict=False)))
    return was[max(0, same - 20) :][:80], now[max(0, same - 20) :][:80]


def _line(name: str, was: str, now: str) -> str:
    """Where two texts of a file differ first."""
    if "\0" in was or name.endswith(".xz"):
        return f"{name}: the records give other bytes"
    pairs = itertools.zip_longest(was.splitlines(), now.splitlines(), fillvalue="")
    number, pair = next(((n, pair) for n, pair in enumerate(pairs, 1) if pair[0] != pair[1]), (1, ("", "")))
    one, other = map(short, _apart(*pair))
    return f"{name}, line {number}: the records give {other}, the result says {one}"


def _same_facts(was: str, now: str, answer: str) -> bool:
    """Whether two texts have the same title and answer, and the same numbers around them in the same order."""
    heads = [text.partition("\n")[0] for text in (was, now)]
    rest = [NUMBER.findall(text.replace(answer, "", 1)) for text in (was, now)]
    return answer in was and heads[0] == heads[1] and rest[0] == rest[1]
