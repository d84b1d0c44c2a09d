"""Shared fixtures: a checkout to play with, the command line, the engine, the guest."""

import contextlib
import fcntl
import gc
import hashlib
import io
import itertools
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from unittest import mock

import pytest
from helpers import CATALOG, events
from reprofs import cli, files
from reprofs.guest import engine as engine_builder
from reprofs.guest import image as guest_builder
from reprofs.guest.fetch import Gone
from reprofs.guest.steps import Job
from reprofs.labs import Disks, Lab, Outcome
from reprofs.plan.catalog import Catalog
from reprofs.plan.cell import CELL, Trial
from reprofs.records import identity
from reprofs.trial import run as trials
from reprofs.trial.resolve import resolve

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
# Of what a test run draws; the same in all its workers.
SEED = os.environ.get("TEST_SEED") or os.environ.get("PYTEST_XDIST_TESTRUNUID") or ""
DRAWN = 16  # one in so many of the records and outcomes that tests ask for, about twenty, is measured again
WIDE = 32  # one in so many of the tests with the mark `wide` runs

# A make that a test starts is no part of `make test`: that would have it name the folders it enters, with its flags.
for name in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES"):
    os.environ.pop(name, None)


def pytest_itemcollected(item):
    """Tests of a module that share what is made once a module run in one worker, which makes it once.

    So do trials on real clocks: they wait for each other, and with all workers among them the processors were idle.
    """
    fixtures = itertools.chain(*item._fixtureinfo.name2fixturedefs.values())
    if item.get_closest_marker("xdist_group"):
        return
    if any(fixture.scope == "module" for fixture in fixtures):
        item.add_marker(pytest.mark.xdist_group(item.path.stem.removeprefix("test_")))
    elif "real_clock" in item.fixturenames:
        item.add_marker(pytest.mark.xdist_group("clock"))


def pytest_collection_modifyitems(config, items):
    """Files with the longest tests first, those of many short ones last, so that the workers finish together.

    OpenZFS is the very first: the first use of its guest compiles for minutes, while other workers test. Of the tests
    with the mark `wide` one in WIDE is drawn where all tests run, and with `wide(N)` N of a test's cases; named alone,
    or in `make soak`, all of them run.
    """
    first = ["test_zfs", "test_workflow", "test_guest", "test_report", "test_notebooks", "test_engine", "test_trial"]
    last = ["test_damage", "test_importers", "test_catalog"]
    order = {name: place - 100 for place, name in enumerate(first)} | {
        name: place + 1 for place, name in enumerate(last)
    }
    items.sort(key=lambda item: order.get(item.path.stem, 0))
    if SEED and "wide" not in config.getoption("-m"):
        wide = [item for item in items if item.get_closest_marker("wide") and not item.get_closest_marker("soak")]
        out = set(wide) - _drawn(wide)
        items[:] = [item for item in items if item not in out]
        config.hook.pytest_deselected(items=list(out))


def _drawn(wide: list) -> set:
    """Those of the tests with the mark `wide` that this run takes."""
    taken, cases = set(), defaultdict(list)
    for item in wide:
        if most := item.get_closest_marker("wide").args:
            cases[item.function, most].append(item)
        elif not _number(item.nodeid) % WIDE:
            taken.add(item)
    return taken.union(
        *(sorted(own, key=lambda item: _number(item.nodeid))[: most[0]] for (_, most), own in cases.items())
    )


def _number(key: str) -> int:
    return int(hashlib.sha256((SEED + key.partition("@")[0]).encode()).hexdigest(), 16)


def pytest_collection_finish(session):
    """Groups must be kept: each worker on which a group's tests run makes its studies and guests again.

    pytest-xdist marks these tests in their names; a pytest that does not let it do so spreads them over all workers.
    """
    gc.freeze()  # what was imported and collected stays: no use in looking through it again and again
    if session.config.getoption("loadgroup", default=False):
        for item in session.items:
            assert item.nodeid.rpartition("]")[2].count("@") == bool(item.get_closest_marker("xdist_group")), item


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup():
    """Tests of guests whose packages no mirror has any more are skipped with the sentence that says so.

    `make test` builds the guests that most tests need before, which fails.
    """
    with _skipped_without_packages():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call():
    """Like `pytest_runtest_setup`."""
    with _skipped_without_packages():
        return (yield)


@contextlib.contextmanager
def _skipped_without_packages():
    try:
        yield
    except Gone as gone:
        pytest.skip(str(gone))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """With TEST_COSTS=FILE: adds a line for each test, its CPU seconds with those of its children, seconds, name."""
    before, began = _cpu_seconds(), time.monotonic()
    result = yield
    if file := os.environ.get("TEST_COSTS"):
        with Path(file).open("a") as costs:
            costs.write(f"{_cpu_seconds() - before:.2f}\t{time.monotonic() - began:.2f}\t{item.nodeid}\n")
    return result


def _cpu_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout under test."""
    return ROOT


@pytest.fixture
def checkout(tmp_path) -> Path:
    """A copy of the checkout's own files (nothing that a run made), to change and to run in."""
    return copy_checkout(tmp_path / "checkout")


def copy_checkout(target: Path) -> Path:
    """Copies what a clone would have to `target`."""
    for name in (
        "Snakefile",
        "pyproject.toml",
        "config",
        "workflow",
        "notebooks",
        "scripts",
        "envs",
        "profiles",
        "report",
        "data/published",
        "data/predictions",
    ):
        source = ROOT / name
        if source.is_file():
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target / name)
            continue
        made = [folder.name for folder in source.iterdir() if name == "report" and folder.is_dir()]
        shutil.copytree(
            source, target / name, ignore=shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints", *made)
        )
    return target


@pytest.fixture
def reprofs():
    """Runs `reprofs ARGUMENTS` in a folder; returns the finished process. It is one of its own where `env` is given."""

    def run(*arguments, cwd=ROOT, env=None, timeout=300) -> subprocess.CompletedProcess:
        words = list(map(str, arguments))
        if env is not None:
            options = {"cwd": cwd, "env": {**os.environ, **env}, "capture_output": True, "text": True}
            return subprocess.run([BIN / "reprofs", *words], timeout=timeout, **options)
        code, stdout, stderr = 0, io.StringIO(), io.StringIO()
        with (
            contextlib.chdir(cwd),
            mock.patch("sys.argv", ["reprofs", *words]),
            contextlib.redirect_stdout(stdout),
            contextlib.redirect_stderr(stderr),
        ):
            try:
                cli.main()
            except SystemExit as ending:
                code = ending.code or 0
        return subprocess.CompletedProcess(words, code, stdout.getvalue(), stderr.getvalue())

    return run


@pytest.fixture
def says():
    """Asserts that a process failed with one sentence that holds all the words, and without a traceback."""

    def check(process: subprocess.CompletedProcess, *words: str) -> None:
        assert process.returncode == 2, process.stdout + process.stderr
        lines = process.stderr.strip().splitlines()
        assert len(lines) == 1, process.stderr
        assert "Traceback" not in process.stderr
        for word in words:
            assert word in lines[0], lines[0]

    return check


@pytest.fixture(scope="session")
def engine(tmp_path_factory) -> Path:
    """The runner of the load engine, built or found in the cache; started by a test, it finds all programs."""
    folder = tmp_path_factory.mktemp("programs")
    for name in engine_builder.names():
        (folder / name).symlink_to(engine_builder.build(files.cache_folder(), name))
    os.environ["REPROFS_PROGRAMS"] = str(folder)
    return engine_builder.build(files.cache_folder())


@pytest.fixture
def run(engine, tmp_path):
    """Runs a program of the engine in an empty folder; returns the finished process, with its samples.

    expect: its code; where that is not 0 it says why in one sentence.
    """
    folder = tmp_path / "files"
    folder.mkdir()

    def start(*arguments, expect=0, prefix=(), cwd=folder) -> subprocess.CompletedProcess:
        samples = tmp_path / "samples"
        samples.unlink(missing_ok=True)
        done = subprocess.run(
            [*prefix, engine, *map(str, arguments)],
            cwd=cwd,
            env={**os.environ, "REPROFS_SAMPLES": str(samples)},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == expect, done.stdout + done.stderr
        assert len(done.stderr.strip().splitlines()) == bool(expect), done.stderr
        done.samples = events(samples.read_text()) if samples.exists() else []
        return done

    start.folder = folder
    return start


@pytest.fixture(scope="session")
def guest(engine) -> dict:
    """The manifest of the guest, built or found in the cache, and written where trials of this checkout look."""
    return guest_builder.build(files.cache_folder(), ROOT / "data/guest/base.json", engine, print)


@pytest.fixture(scope="session")
def fio_guest(engine) -> dict:
    """The same of the guest with fio."""
    return guest_builder.build(files.cache_folder(), ROOT / "data/guest/fio.json", engine, print, name="fio")


@pytest.fixture(scope="session")
def luks_guest(engine) -> dict:
    """The same of the guest with cryptsetup."""
    return guest_builder.build(files.cache_folder(), ROOT / "data/guest/luks.json", engine, print, name="luks")


@pytest.fixture(scope="session")
def zfs_guest(engine) -> dict:
    """The same of the guest with OpenZFS, whose first build compiles for minutes."""
    return guest_builder.build(files.cache_folder(), ROOT / "data/guest/zfs.json", engine, print, name="zfs")


@pytest.fixture(scope="session")
def shared(tmp_path_factory) -> Path:
    """A folder that all workers of this test run see."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session")
def again(request):
    """Whether something that this machine has measured is measured again in this test run: one in DRAWN, by its
    identity; all of it in `make soak`."""
    every = "wide" in request.config.getoption("-m")
    return lambda key: every or _number(key) % DRAWN == 0


@pytest.fixture(scope="session")
def recorded(guest, engine, shared, again):
    """The record of a trial in the exact lab: from the store of records (the cache, results/), else of a run.

    Of those in the store some are drawn, run again and compared. All tests of a run look at the same record.
    """

    def record(trial: Trial, catalog: Catalog = CATALOG) -> dict:
        guest_builder.ensure(resolve(trial, catalog).guest, print)
        one = trials.ready(trial, catalog)
        with _alone(shared / f"{one.identity}.json") as output:
            if not output.exists():
                trials.take_or_run(one, output, 3600, True, again(one.identity))
            return json.loads(output.read_text())

    return record


@pytest.fixture(scope="session")
def outcome(engine, again):
    """What a job that is no trial did in an exact lab: found by its identity in the cache of this machine, or run.

    What is found is drawn like records. A job that did not finish is run each time.
    """

    def look(lab: Lab, job: Job, limit_s: float = 600, disks: Disks | None = None) -> Outcome:
        lab.load(job)
        names = dict.fromkeys(CELL, "")
        text = job.text() + (repr(disks) if disks else "")
        digest = hashlib.sha256(text.encode()).hexdigest()
        key = identity.of(identity.parts(names, digest, lab.environment("")))
        with _alone(files.cache_folder() / "outcomes" / f"{key}.json") as kept:
            known = Outcome(**json.loads(kept.read_text(), object_hook=_bytes)) if kept.exists() else None
            if known and not again(key):
                return known
            found = lab.run(job, limit_s, disks)
            assert not known or known.output == found.output, "the same job has given something else"
            if found.ending == "finished":
                told = {**vars(found), "output": {"hex": found.output.hex()}}
                files.write_text(kept, json.dumps(told))
            return found

    return look


def _bytes(value: dict) -> dict | bytes:
    return bytes.fromhex(value["hex"]) if value.keys() == {"hex"} else value


@contextlib.contextmanager
def _alone(path: Path):
    """The file, which no other worker makes at the same time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield path


@pytest.fixture
def edit_yaml():
    """Changes one YAML file through a function on its data."""
    import yaml

    def edit(path: Path, change) -> None:
        data = yaml.safe_load(path.read_text())
        change(data)
        path.write_text(yaml.safe_dump(data, sort_keys=False, allow_unicode=True))

    return edit
