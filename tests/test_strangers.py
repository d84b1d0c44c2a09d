"""A stranger's result, mutated, in results/ of a checkout: what reads it there takes it, or refuses it in a sentence.

What `reprofs verify` derives of it: test_verify.py. Here it is checked, put into the index, opened, searched for trials
to reuse, and asked for its retractions. Nothing is written but the index and the cache, nothing hangs, and memory stays
bounded.
"""

import contextlib
import copy
import csv
import io
import os
import re
import shutil
import signal
import traceback
from pathlib import Path

import pytest
from conftest import ROOT
from helpers import Late, drawn
from reprofs.errors import UserError
from reprofs.files import read_json
from reprofs.plan.result import DIGESTS
from reprofs.plan.retraction import retracted
from reprofs.publish import log
from reprofs.records import publication, store
from test_verify import MUTATIONS, VALUES, members, mutated, of_bytes, places, reseal, text_of, whole

index, stale, opened, published = map(
    Late, ("reprofs.publish.index", "reprofs.publish.stale", "reprofs.stats.study", "reprofs.data.published")
)
__all__ = ["whole"]  # the fixture: a result of eight trials
NAME = "fixture"  # of the study that `whole` is of
LONGEST = 350  # characters of a sentence, without the folder of the test
SECONDS = 120  # of one result, far more than any needs: it hangs
MEMORY = 300 << 10  # KiB that reading one result may add
NUMBERS = ["", "nan", "inf", "-1", "1e400", "9" * 400, "x", "1_0", '"', "\ud800", "\x1b[2J", "</script>", "a,b", "../x"]


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout whose results/ has room for one result, and a cache of its own."""
    folder = tmp_path / "checkout"
    (folder / "results").mkdir(parents=True)
    for name in ("workflow", "envs", "config", "report", "data", "notebooks"):
        (folder / name).symlink_to(ROOT / name)
    for name in ("cache", "tmp"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("REPROFS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.chdir(folder)
    return folder


def mutate_cells(draw, folder) -> None:
    """cells.csv with other values, columns or lines."""
    rows = list(csv.reader(io.StringIO((folder / "cells.csv").read_text())))
    for _ in range(draw.choice([1, 1, 5])):
        row = draw.choice(rows[:3])
        at = draw.randrange(len(row) or 1)
        match draw.randrange(4):
            case 0:
                del row[at : at + 1]
            case 1:
                row[at:at] = [draw.choice(NUMBERS)]
            case 2:
                rows.append(list(row))
            case _:
                row[at : at + 1] = [draw.choice(NUMBERS)]
    made = io.StringIO()
    csv.writer(made, lineterminator="\n").writerows(rows)
    (folder / "cells.csv").write_bytes(made.getvalue().encode(errors="surrogatepass"))
    reseal(folder)


def mutate_plan(draw, folder) -> None:
    """The plan alone, of an earlier protocol, as all results but today's have it."""
    content = members(folder)
    one = mutated(draw, publication.json.loads(content["plan.json"]))
    reseal(folder, lambda said: said.update(protocol=3), content | {"plan.json": text_of(one)})


def mutate_said(draw, folder) -> None:
    """A value of digests.json, with the digests of the files as they are."""
    said = read_json(folder / DIGESTS)
    del said["files"]
    paths = [path for path in places(said) if len(path) < 3]
    *path, last = draw.choice(paths)
    for key in path:
        said = said[key]
    value = copy.deepcopy(draw.choice([*VALUES, "<script>", "]]>", "|", "\n# x", 10**25, 1e308]))
    reseal(folder, lambda now: _at(now, path).update({last: value}) if isinstance(_at(now, path), dict) else None)


def _at(value, path):
    for key in path:
        value = value[key]
    return value


def mutate_page(draw, folder) -> None:
    """The page, ABOUT.md, the lock or the picture with other bytes, and right digests."""
    path = folder / draw.choice(["index.html", "ABOUT.md", "lab.lock", "picture.svg", "cells.csv"])
    data = path.read_bytes() if path.exists() else b"x"
    how = draw.randrange(3)
    path.write_bytes(of_bytes(draw, data) if how else draw.choice([b"", b"\0", b"\xff\xfe", b"\x80" * 99, b"," * 9999]))
    reseal(folder)


def mutate_kind(draw, folder) -> None:
    """A file that is missing, a pipe, a link to itself, to a device, out of the folder; or the folder itself one."""
    path = draw.choice(sorted(folder.iterdir()))
    path = draw.choice([path, folder / DIGESTS])
    path.unlink()
    match draw.randrange(4):
        case 0:
            os.mkfifo(path)
        case 1:
            path.symlink_to(draw.choice([path.name, "/dev/zero", "/dev/stdin", "/etc/passwd", "/proc/self/mem"]))
        case 2:
            path.mkdir()


ALL = [*MUTATIONS, mutate_cells, mutate_cells, mutate_plan, mutate_plan, mutate_said, mutate_page, mutate_kind]


def readers(folder: Path) -> dict:
    """What reads results, each as its command does it."""
    identity = "0" * 64
    with contextlib.suppress(Exception):
        trials = publication.json.loads(publication.digests(folder))["trials"].values()
        identity = next(one["identity"] for one in trials if isinstance(one["identity"], str) and one["identity"])

    def check():
        result = publication.read(folder)
        retracted(result)
        log.standing(folder, result.study)

    def record():
        result = publication.read(folder)
        publication.record_of(folder, result, next(iter(result.trials), ""))

    return {
        "check": check,
        "record": record,
        "index": lambda: index.write_index(folder.parent),
        "open": lambda: opened.open(NAME).times,
        "reuse": lambda: store.get(identity, True),
        "larger": lambda: published.holding(re.compile(".*")),
    }


def peak() -> int:
    """KiB that this process has held at most since the last reset."""
    return int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1])


def names_in(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if not path.is_relative_to(folder / "checkout/results" / NAME)}


def told(read, tmp: Path) -> str:
    """What is wrong with how a result is read; empty if it was taken, or refused in a sentence."""
    Path("/proc/self/clear_refs").write_text("5")
    before = peak()
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            read()
    except UserError as error:
        text = " ".join(str(error).split()).replace(str(tmp), "")
        if len(text) > LONGEST or NAME not in text:
            return f"{len(text)} characters: {text[:600]}"
    except Exception as error:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/reprofs/" in frame.filename]
        where = ", ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames[-3:])
        return f"{type(error).__name__} {where}: {error!s:.150}"
    grown = peak() - before
    return f"{grown:,} KiB of memory" if grown > MEMORY else ""


def _hangs(*_) -> None:
    raise TimeoutError("it hangs")


@pytest.mark.parametrize("count", [40, pytest.param(10_000, marks=pytest.mark.soak)])
def test_a_mutated_result_is_taken_or_refused_wherever_results_are_read(count, whole, checkout, tmp_path):
    draw, wrong = drawn(), []
    folder = checkout / "results" / NAME
    for read in readers(shutil.copytree(whole, folder)).values():  # whole, all take it; and what they import is there
        read()
    index_files = {checkout / "results" / name for name in ("index.html", "README.md")}
    clean = names_in(tmp_path) - index_files
    before = signal.signal(signal.SIGALRM, _hangs)
    try:
        for number in range(count):
            shutil.rmtree(folder)
            shutil.copytree(whole, folder)
            mutation = draw.choice(ALL)
            with contextlib.suppress(Exception):  # of the mutation itself, such as text that has no bytes
                mutation(draw, folder)
            for what, read in readers(folder).items():
                signal.alarm(SECONDS)
                found = told(read, tmp_path)
                signal.alarm(0)
                wrong += [f"{number} {mutation.__name__}, {what}: {found}"] if found else []
            new = names_in(tmp_path) - clean - index_files
            strange = [path for path in new if not path.is_relative_to(tmp_path / "cache")]
            wrong += [f"{number} {mutation.__name__} made {strange}"] if strange else []
            shutil.rmtree(tmp_path / "cache")
            (tmp_path / "cache").mkdir()
    finally:
        signal.signal(signal.SIGALRM, before)
    assert not wrong, f"{len(wrong)} of {count}:\n" + "\n".join(wrong[:40])
