"""Fuzz: records, files to import and command lines, each changed at one place, drawn from a seed.

Whatever is in them, they are taken, or refused in one sentence of at most 300 characters that names the file. (What is
in descriptors: test_damage.py.) A few are drawn, in `make soak` thousands.
"""

import json
import lzma
import random
import re
import shutil
import sys
import traceback
from functools import partial
from pathlib import Path

import make
import pytest
from conftest import ROOT
from helpers import drawn
from reprofs import cleanup, cli, doctor, importers
from reprofs.data import tables
from reprofs.data.columns import dictionary
from reprofs.errors import UserError
from reprofs.guest import image, trace
from reprofs.plan import recording
from reprofs.recorder.record import workload
from reprofs.records import raw as seals
from reprofs.report.sentences.recorded import caveats
from reprofs.trial import run
from test_importers import FILES, FIXTURES

LONGEST = 300  # characters of a sentence, without the folder of the test
MANY = [pytest.param(60, id="drawn"), pytest.param(3500, id="many", marks=pytest.mark.soak)]
LONG = "x" * 5000
NUMBERS = (0, -1, 1, 2**31, 2**53, 2**63 - 1, 2**63, -(2**63), 10**25, 1e300, -1e300, 1e-300, 0.5)
SPECIAL = tuple(map(float, ("inf", "-inf", "nan")))
TEXTS = ("", " ", LONG, "a\nb", "\0", "\x1b[2J", "\ud800", "\u202e", "é", "None", "../../x", "'", '"', "{", "%s", "-1")
OTHERS = (None, True, [], {}, [[]], [None], {"a": {}}, [1, "a"])


def sentence_of(error: UserError, place: Path) -> str:
    """As the command line prints it, without the folder of the test."""
    return " ".join(str(error).split()).replace(str(place), "")


def verdict(do, place: Path, name: str) -> str:
    """How `do` ends: empty when it is taken or refused in a short sentence that names the file, else what is wrong."""
    try:
        told = do()
    except UserError as error:
        text = sentence_of(error, place)
        if name not in text:
            return f"file not named: {text[:400]}"
        return f"{len(text)} characters: {text[:400]}" if len(text) > LONGEST else ""
    except Exception as error:
        frame = [frame for frame in traceback.extract_tb(error.__traceback__) if "/reprofs/" in frame.filename][-1]
        return f"traceback {type(error).__name__} {Path(frame.filename).name}:{frame.lineno}: {str(error)[:200]}"
    long = [text for text in map(str, told or ()) if len(text.replace(str(place), "")) > LONGEST]
    return f"{len(long[0])} characters: {long[0][:400]}" if long else ""


def somewhere(draw: random.Random, data) -> tuple:
    """The path to a value of a JSON document; large parts are no likelier than small ones."""
    path: tuple = ()
    while isinstance(data, dict | list) and data and not (path and draw.random() < 0.1):
        key = draw.choice(list(data) if isinstance(data, dict) else range(len(data)))
        path, data = (*path, key), data[key]
    return path


def change(draw: random.Random, data: dict) -> str:
    """Changes one value of a JSON document; tells what was done."""
    path = somewhere(draw, data)
    for key in path[:-1]:
        data = data[key]
    key, way = path[-1], draw.choice(["number", "number", "special", "text", "other", "gone", "further"])
    if way == "gone":
        del data[key]
    elif way == "further":
        if isinstance(data, dict):
            data[draw.choice(("x", LONG, "\0", "a.b", ""))] = draw.choice(OTHERS)
        else:
            data.append(data[key])
    else:
        data[key] = draw.choice({"number": NUMBERS, "special": SPECIAL, "text": TEXTS, "other": OTHERS}[way])
    return f"{path}: {way} {str(data.get(key) if isinstance(data, dict) else '')[:40]}"


def scratched(draw: random.Random, text: bytes) -> tuple[str, bytes]:
    """A file's bytes with one thing changed: cut, a bit, bytes put in, a part twice or gone, another number."""
    at, end = sorted(draw.randrange(len(text) + 1) for _ in range(2))
    way = draw.choice(["cut", "flip", "put", "twice", "gone", "number", "number", "line"])
    if way == "cut":
        made = text[:at]
    elif way == "flip":
        made = text[: at - 1] + bytes([text[at - 1] ^ 1 << draw.randrange(8)]) + text[at:] if at else text
    elif way == "put":
        odd = draw.choice((b"\xff\xfe", b"\0", b"\n", b"{", b"]", b"-", b",", b"1e", b"\x1b[2J"))
        made = text[:at] + odd + text[at:]
    elif way == "twice":
        made = text[:end] + text[at:]
    elif way == "gone":
        made = text[:at] + text[end:]
    elif way == "line":
        lines = text.splitlines(keepends=True)
        number = draw.randrange(len(lines))
        lines[number] = draw.choice((b"", b"\n", lines[number] * 3, lines[-1], lines[number].replace(b" ", b"")))
        made = b"".join(lines)
    else:
        at, end = draw.choice([found.span() for found in re.finditer(rb"\d+", text)])
        value = draw.choice([*NUMBERS, *SPECIAL, "9" * 5000, "-", "x", "1_0", "٣", "0x1f", "1.5.5", "1e999"])
        made = text[:at] + str(value).encode() + text[end:]
    return f"{way} {at}-{end}", made


@pytest.mark.parametrize("times", MANY)
def test_records(times, tmp_path):
    """As they were, sealed again, and cut or scratched."""
    make.make(tmp_path, rounds=1, systems=["ext4"], workloads=["metadata"], failures={})
    (path,) = (tmp_path / "raw").iterdir()
    whole = path.read_bytes()
    draw, wrong = drawn(), []
    for number in range(times):
        record = json.loads(whole)
        if draw.random() < 0.2:
            done, made = scratched(draw, whole)
        else:
            done = change(draw, record)
            sealed = draw.random() < 0.7
            try:
                made = json.dumps(seals.seal(record) if sealed else record).encode()
            except (KeyError, TypeError):
                made = json.dumps(record).encode()
        path.write_bytes(made)
        found = verdict(
            partial(tables.build, tmp_path / "plan.json", path.parent, tmp_path / "tables"), tmp_path, path.name
        )
        wrong += [(number, done, found)] if found else []
    assert not wrong, "\n".join(map(str, wrong))


def excerpt(name: str, entries: int = 30, calls: int = 120, **more) -> list:
    """The first lines of a shipped recording, as a whole one. more: of its first line."""
    content = recording.read(recording.path_of(name))
    before, after, some = content.before[:entries], content.after[:entries], content.calls[:calls]
    kinds = {entry[1] for entry in before}
    before = [entry for entry in before if entry[0] != "h" or entry[2] in kinds]
    after = [entry for entry in after if entry[0] != "h"]
    who = content.who[:calls]
    head = {**content.head.as_json(), "before": len(before), "calls": len(some), "after": len(after)}
    lines = [[*line, own] for line, own in zip(some, who, strict=True)] if who else some
    return [{**head, "incomplete": ["it exited with code 1"], **more}, *before, *lines, *after]


@pytest.mark.parametrize(
    "times", [pytest.param(60, id="drawn"), pytest.param(10_000, id="many", marks=pytest.mark.soak)]
)
def test_recordings(times, tmp_path):
    """Of one thread, of several, and one that follows listings: read, compiled, and used by a plan, or refused."""
    wholes = [excerpt("recorded-sqlite-wal"), excerpt("recorded-compile")]
    wholes += [excerpt("recorded-dpkg", in_listing_order=True, follows_listings=True)]
    path = tmp_path / "stranger.jsonl.xz"
    draw, wrong, taken = drawn(), [], 0

    def use() -> None:
        nonlocal taken
        recording.read_head(path)
        content = recording.read(path)
        trace.compiled(content)
        workload("stranger", content)
        list(caveats(content.head, "It", True, True))
        taken += 1

    for whole in wholes:
        path.write_bytes(packed(whole))
        use()
    for number in range(times):
        lines, way = json.loads(json.dumps(draw.choice(wholes))), draw.random()
        if way < 0.6:
            done = ""
            for _ in range(draw.choice((1, 1, 3))):
                done += change(draw, lines if draw.random() < 0.9 else lines[0])
            made = packed(lines)
        elif way < 0.9:
            done, made = scratched(draw, lzma.decompress(packed(lines)))
            made = lzma.compress(made, preset=0)
        else:
            done, made = scratched(draw, packed(lines))
        path.write_bytes(made)
        found = verdict(use, tmp_path, path.name)
        wrong += [(number, done, found)] if found else []
    assert not wrong, f"{len(wrong)} of {times}: {wrong[:5]}"
    assert 3 < taken < 3 + times


def packed(lines: list) -> bytes:
    return lzma.compress("".join(json.dumps(line) + "\n" for line in lines).encode(), preset=0)


@pytest.mark.parametrize("times", MANY)
def test_files_to_import(times, tmp_path):
    texts = {file: (FIXTURES / file).read_bytes() for _, file in FILES}
    draw, wrong = drawn(), []
    for number in range(times):
        form, file = draw.choice(FILES)
        done, made = scratched(draw, texts[file])
        (tmp_path / file).write_bytes(made)
        found = verdict(
            partial(importers.import_files, form, [tmp_path / file], tmp_path / "out", dictionary), tmp_path, file
        )
        wrong += [(number, file, done, found)] if found else []
    assert not wrong, "\n".join(map(str, wrong))


WORDS = ("", " ", LONG, "a\nb", "\x1b[2J", "\udcff", "é", "../../x", "'", "{", "%s", "-1", "-", "--", "--no-such", "/")
WORDS += ("/dev/null", "/proc/self/mem", "999999999999999999999999", "1e999", "nan", "@", "+", "a,b", "*", "$(id)")
WORDS += ("quick", "quick@paper", "quick@x", "ext4", "ext4+none", "single", "md-raid6@99999", "ssd", "exact", "mount")
WORDS += ("host", "metadata@50", "metadata+clients9999", "smoke", "fio", "mdtest")
CALLS = (
    ("list",),
    ("plan", "?"),
    ("plan", "?", "--commands"),
    ("plan", "?", "--lab", "?", "--profile", "?"),
    ("plan", "?", "--lab", "mount", "--where", "?", "--clients", "?"),
    ("plan", "quick", "--output", "?"),
    ("plan", "quick", "--extra-dir", "?"),
    ("guest", "--output", "?"),
    ("retry", "?"),
    ("scan", "?", "--output", "?"),
    ("look", "?", "--rounds", "?", "--raw", "?", "--output", "?"),
    ("dataset", "?", "--raw", "?", "--output", "?"),
    ("import", "?", "?", "--output", "?"),
    ("import", "fio", "?", "--output", "?"),
    ("answer", "?"),
    ("claims", "?"),
    ("claims", "?", "--strict"),
    ("report", "?", "--tables", "?", "--output", "?"),
    ("?",),
    ("?", "?"),
)
TRIAL = {"lab": "exact", "stack": "single", "profile": "ssd", "workload": "metadata", "scale": "smoke", "round": "1"}
TRIAL |= {"seed": "7", "output": "try.json", "filesystem": "ext4"}
MORE = ("processor", "variant", "network", "where", "clients", "order", "time-limit", "extra-dir")


def call(draw: random.Random) -> list[str]:
    """A command line with one or several words in the place of what belongs there."""
    if draw.random() < 0.3:
        options = dict(TRIAL)
        for key in draw.sample([*TRIAL, *MORE], draw.randrange(1, 3)):
            options[key] = draw.choice(WORDS)
        return ["trial", *(word for key, value in options.items() for word in (f"--{key}", value))]
    return [draw.choice(WORDS) if word == "?" else word for word in draw.choice(CALLS)]


@pytest.fixture
def playground(tmp_path, monkeypatch):
    """A checkout to call commands in; nothing is built, run or removed."""
    for name in ("config", "workflow", "envs", "data/published"):
        shutil.copytree(ROOT / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    for module, name in ((image, "build"), (image, "ensure"), (cleanup, "sweep"), (doctor, "examine")):
        monkeypatch.setattr(module, name, lambda *_, **__: [])
    monkeypatch.setattr(run, "run_trial", lambda *_: (_ for _ in ()).throw(UserError("it would run")))
    return tmp_path


@pytest.mark.parametrize("times", MANY)
def test_command_lines(times, playground, monkeypatch, capsys):
    draw, wrong = drawn(), []
    for number in range(times):
        words = call(draw)
        monkeypatch.setattr(sys, "argv", ["reprofs", *words])
        found = ""
        try:
            cli.main()
        except SystemExit as ending:
            text = capsys.readouterr().err.strip()
            sentence = text.splitlines()[-1] if text else ""
            if ending.code not in (0, 2, None) or (ending.code and not sentence.startswith("reprofs")):
                found = f"code {ending.code}: {text[-400:]}"
            elif len(sentence.replace(str(playground), "")) > LONGEST:
                found = f"{len(sentence)} characters: {sentence[:400]}"
        except BaseException as error:
            frame = [frame for frame in traceback.extract_tb(error.__traceback__) if "/reprofs/" in frame.filename][-1]
            found = f"traceback {type(error).__name__} {Path(frame.filename).name}:{frame.lineno}: {str(error)[:200]}"
        capsys.readouterr()
        wrong += [(number, [word[:60] for word in words], found)] if found else []
    assert not wrong, "\n".join(map(str, wrong))
