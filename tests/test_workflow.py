"""The workflow as its users run it: a whole study, half of it killed on the way; one more file system, one broken."""

import contextlib
import fcntl
import functools
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pandas as pd
import pytest
import run as run_notebooks
import yaml
from conftest import BIN, ROOT, copy_checkout
from helpers import CATALOG, Late, cache_without, cell, rendered
from reprofs.data import study as tables
from reprofs.plan.plan import read_plan
from reprofs.report import contents
from reprofs.trial.run import run_trial
from snakes import Snakes

render = Late("reprofs.report.render")

TABLES = ("trials", "phases", "latency")
KILLED = ["ext4", "second", "tmpfs"]  # file systems of the study that is killed on the way
SMALL = "populated@300+device320"  # the smaller the disks, the sooner they are rebuilt
WORKLOAD = "metadata@100"  # of both small studies
PROFILE = f"data/profiles/small/r1-exact@v2-0.5ns-single-ssd-ext4+default-{WORKLOAD}-smoke"


def prepare(folder: Path) -> dict:
    """Makes a checkout in `folder` with this environment and its own code; returns the variables for a run in it."""
    copy_checkout(folder / "checkout")
    (folder / "checkout/.venv").symlink_to(BIN.parent)
    (folder / "tmp").mkdir()
    return {**os.environ, "TMPDIR": str(folder / "tmp"), "PYTHONPATH": str(folder / "checkout/scripts")}


def without_records(env: dict, folder: Path) -> dict:
    """The same with a cache that knows no trial, so that all are run, not taken."""
    return env | {"REPROFS_CACHE": str(cache_without(folder, "records"))}


def start(folder: Path, env: dict, *arguments) -> subprocess.Popen:
    command = ["scripts/run-study", "--cores", "1", *arguments]
    log = (folder / "log").open("a")
    return subprocess.Popen(command, cwd=folder / "checkout", env=env, stdout=log, stderr=log, start_new_session=True)


def run(folder: Path, env: dict, *arguments) -> str:
    process = start(folder, env, *arguments)
    code = process.wait(timeout=1500)
    text = (folder / "log").read_text()
    assert code == 0, text[-3000:]
    return text


def page(report: Path) -> str:
    """The report; words that stay on one line are words like others."""
    return (report / "index.html").read_text().replace("\N{NO-BREAK SPACE}", " ").replace("&nbsp;", " ")


@pytest.fixture
def snakes(tmp_path):
    """What snakemake says in the checkout that is prepared there."""
    with contextlib.ExitStack() as stack:

        @functools.cache
        def started() -> Snakes:
            env = {**os.environ, "TMPDIR": str(tmp_path / "tmp"), "PYTHONPATH": str(tmp_path / "checkout/scripts")}
            return stack.enter_context(Snakes(tmp_path / "checkout", env | {"PATH": f"{BIN}:{env['PATH']}"}))

        yield lambda *arguments: started()(*arguments)


@pytest.fixture
def dry_run(snakes):
    """What snakemake says that it would do there."""
    return lambda *arguments: snakes("--quiet", "host", "--dry-run", "--cores", "1", *arguments)


@pytest.fixture
def to_do(dry_run):
    """The rules that a run would execute now."""
    return lambda *words: set(re.findall(r"^(?:local)?rule (\w+):", dry_run(*words), re.MULTILINE)) - {"all"}


def guests(folder: Path) -> list[str]:
    """Command lines of the QEMU processes that work in this folder's temporary folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().decode(errors="replace")
        except OSError:
            continue
        if "qemu-system" in line and str(folder / "tmp") in line:
            found.append(line)
    return found


def digests(folder: Path) -> dict[str, str]:
    """Of the rows that both small studies below have, without the place of a trial in the order."""
    found = {}
    for name in TABLES:
        table = pd.read_parquet(folder / f"checkout/data/tables/small/{name}.parquet")
        table = (
            table[(table["workload"] == WORKLOAD) & (table["round"] == 1) & table["filesystem"].isin(KILLED)]
            .drop(columns="order")
            .convert_dtypes()
            .sort_values(list(table.columns[:1]), kind="stable")
        )
        found[name] = f"{len(table)} rows {hashlib.sha256(table.to_csv(index=False).encode()).hexdigest()}"
    return found


def kill_in_the_middle(folder: Path, env: dict, config: list[str], after: int) -> None:
    """Starts the study, kills snakemake with SIGKILL once `after` records are there, waits for its guests to end."""
    process = start(folder, env, *config)
    records = folder / "checkout/data/raw/small"
    deadline = time.monotonic() + 900
    while len(list(records.glob("*.json"))) < after or not guests(folder):
        assert process.poll() is None and time.monotonic() < deadline, (folder / "log").read_text()[-3000:]
        time.sleep(0.1)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    snakemake = [pid for pid in children if b"snakemake" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    assert len(snakemake) == 1
    os.kill(int(snakemake[0]), signal.SIGKILL)
    assert process.wait(timeout=60) != 0
    deadline = time.monotonic() + 60
    while guests(folder):
        assert time.monotonic() < deadline, "a guest outlived the workflow"
        time.sleep(0.1)


def compare_with_the_other(shared: Path, mine: dict[str, str]) -> None:
    """Two tests run the same trials at the same time, one undisturbed; whoever is second compares."""
    with (shared / "study.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        other = shared / "study.json"
        if other.exists():
            assert json.loads(other.read_text()) == mine
        else:
            other.write_text(json.dumps(mine))


def small_study(folder: Path, edit_yaml, filesystems: list[str], rounds: int | dict) -> list[str]:
    """A study with a new file system and a broken one in a folder of one's own. Returns the words that choose it."""
    own = folder / "own/filesystems"
    own.mkdir(parents=True)
    ext4 = (ROOT / "workflow/filesystems/ext4.yaml").read_text()
    (own / "second.yaml").write_text(ext4.replace("title: ext4", "title: Second Extended").replace("ext4", "ext2"))
    (own / "broken.yaml").write_text(ext4.replace("title: ext4", "title: Broken on purpose"))
    edit_yaml(own / "broken.yaml", lambda d: d.update(make=["sh -c 'echo no such luck; exit 4'"]))
    study = yaml.safe_load((ROOT / "config/studies/quick.yaml").read_text())
    study.update(filesystems=filesystems, workloads=[WORKLOAD], rounds=rounds, title="Small")
    del study["stop"], study["predict"]  # whose notebook tests/test_notebooks.py runs
    (own.parent / "studies").mkdir()
    (own.parent / "studies/small.yaml").write_text(yaml.safe_dump(study))
    return ["--config", "study=small", f"extra_dirs=['{own.parent}']"]


@pytest.mark.soak
def test_the_study_that_is_shipped_as_an_example(guest, tmp_path):
    env = prepare(tmp_path)
    log = run(tmp_path, env)
    report = tmp_path / "checkout/report/quick"
    html = page(report)
    assert (report / "report.pdf").read_bytes().startswith(b"%PDF")
    for name in yaml.safe_load((ROOT / "config/studies/quick.yaml").read_text())["filesystems"]:
        assert yaml.safe_load((ROOT / f"workflow/filesystems/{name}.yaml").read_text())["title"] in html
    assert "trial 48 of 48" in log
    assert ": failed" not in log


def recorded(log: str) -> int:
    """How many trials ended well, or were taken from what this machine has measured."""
    return log.count(": ok in") + log.count(": taken from")


def test_whole_study(guest, tmp_path, shared, edit_yaml, to_do, dry_run, snakes):
    """One new file in a folder of one's own is all it takes; a broken file system becomes failed rows, one that cannot
    be had skipped ones, the rest completes.
    """
    env = prepare(tmp_path)
    config = small_study(tmp_path, edit_yaml, [*KILLED, "broken", "bcachefs"], rounds=2)
    profile = {"phases": ["create"], "filesystems": ["ext4", "broken"]}
    edit_yaml(tmp_path / "own/studies/small.yaml", lambda d: d.update(profile=profile))
    log = run(tmp_path, env, *config)
    assert log.count(f"second+default {WORKLOAD}") == 2 and "trial 10 of 10" in log
    assert [recorded(log), log.count(": failed in"), log.count(": skipped in")] == [6, 2, 2]
    report = tmp_path / "checkout/report/small"
    assert (report / "report.pdf").read_bytes().startswith(b"%PDF")
    html = page(report)
    for words in ("Second Extended", "Broken on purpose", "make: sh exited with 4: no such luck", "2 of 2", "0 of 2"):
        assert words in html, words
    assert "in no current release" in html
    assert "broken has no profile, because its trial failed: make: sh exited with 4: no such luck" in html
    assert "A box is a function" in html and (tmp_path / "checkout/data/profiles/small").is_dir()
    compare_with_the_other(shared, digests(tmp_path))
    snakes("--cores", "1", "--report", tmp_path / "workflow.html", *config)
    overview = (tmp_path / "workflow.html").read_text()
    assert "A figure of the report, as it stands there." in overview and "totals-lab-exact" in overview
    # Nothing changed, nothing to do.
    before = {path: path.stat().st_mtime_ns for path in report.rglob("*") if path.is_file()}
    assert "trial " not in run(tmp_path, env, *config).removeprefix(log)
    assert before == {path: path.stat().st_mtime_ns for path in report.rglob("*") if path.is_file()}
    # Beside another run there is what shows that, and nothing else.
    other = shutil.copytree(tmp_path / "checkout/data/tables/small", tmp_path / "other")
    assert to_do(*config, f"beside={other}") == {"beside", "notebook_changes", "report"}
    # What was edited by hand is found, named and made again, with all that follows from it; a dry run changes nothing.
    plan = read_plan(tmp_path / "checkout/data/plan/small.json")
    notebooks = {f"notebook_{topic.name}" for topic in contents.topics(plan)}
    for damaged, rules in (
        (
            {"report/small/notebooks/answer.ipynb": "", PROFILE: "/profile.json"},
            {"notebook_answer", "profile", "notebook_kernels", "report"},
        ),
        ({"data/tables/small": "/phases.parquet"}, {"dataset", *notebooks, "report"}),
        ({"data/results/small": "/ranks.parquet"}, {*notebooks, "report"}),
    ):
        kept = {tmp_path / "checkout" / made: tmp_path / made.replace("/", "-") for made in damaged}
        for (place, copy), edited in zip(kept.items(), damaged.values(), strict=True):
            (shutil.copytree if edited else shutil.copy2)(place, copy)
            with Path(f"{place}{edited}").open("ab") as file:
                file.write(b" ")
        if len(kept) > 1:
            dry_run(*config)
        assert all(place.exists() for place in kept)
        said = snakes("--list-rules", *config)
        for made, edited in damaged.items():
            assert f"{made}{edited} is missing or was changed: {made} is made again." in said
        assert not any(place.exists() for place in kept) and to_do(*config) == rules
        for place, copy in kept.items():
            shutil.move(copy, place)
    # An edit of another guest, and other bytes of it in the lock, repeat nothing; of this guest its trials.
    spec, lock = tmp_path / "checkout/envs/guest.yaml", tmp_path / "checkout/envs/lab.lock"
    text, locked = spec.read_text(), lock.read_text()

    def other(guest: str) -> str:
        return re.sub(rf"^(built {guest}/initrd \w+) \w+", rf"\1 {'0' * 64}", locked, flags=re.MULTILINE)

    spec.write_text(f"{text}  another:\n    packages: [iproute2]\n")
    lock.write_text(other("zfs"))
    assert lock.read_text() != locked and to_do(*config) == set()
    spec.write_text(re.sub(r"^memory_mib: \d+", "memory_mib: 3073", text, flags=re.MULTILINE))
    lock.write_text(locked)
    assert {"guest", "trial"} <= to_do(*config)
    spec.write_text(text)
    lock.write_text(other("base"))
    assert {"guest", "trial"} <= to_do(*config)
    lock.write_text(locked)
    # With one more file system, which is anywhere in the order of the trials, only its own are to do.
    study = tmp_path / "own/studies/small.yaml"
    text = study.read_text()
    edit_yaml(study, lambda d: d["filesystems"].insert(1, "xfs"))
    todo = re.findall(r"output: data/raw/small/(\S+)\.json", dry_run(*config))
    assert sorted(todo) == [f"r{n}-exact@v2-0.5ns-single-ssd-xfs+default-{WORKLOAD}-smoke" for n in (1, 2)]
    study.write_text(text)
    # An edit of a module repeats the stages that import it, and what follows from those; never a trial.
    edits = [
        (
            [
                *("doctor.py", "labs/exact.py", "trial/run.py", "importers/mdtest.py", "report/render.py"),
                "report/contents.py",
                "report/sentences/quality.py",
            ],
            {"notebook_answer", "notebook_environment", "report"},
        ),
        (["importers/__init__.py"], {"dataset", *notebooks, "report"}),
    ]
    kept = []
    for modules, rules in edits:
        for path in (tmp_path / "checkout/scripts/reprofs" / module for module in modules):
            kept.append((path, path.read_text(), path.stat().st_mtime_ns))
            path.write_text(kept[-1][1] + "# edited\n")
        assert to_do(*config) == rules, modules
    for path, source, time_ns in kept:
        path.write_text(source)
        os.utime(path, ns=(time_ns, time_ns))
    # Failed trials can be repeated, which is told, and what follows from them with them; what was there is not lost.
    options = {"cwd": tmp_path / "checkout", "env": env, "capture_output": True, "text": True}
    retry = [BIN / "reprofs", "retry", "small", f"--extra-dir={tmp_path / 'own'}"]
    said = subprocess.run(retry, **options)
    assert said.returncode == 0 and said.stdout.count(f"broken+default-{WORKLOAD}-smoke: failed: make: sh exited") == 2
    raw = tmp_path / "checkout/data/raw/small"
    assert len(list((raw / "set-aside").glob("*.json"))) == 4  # with those that were skipped
    assert to_do("data/tables/small", *config) == {"trial", "dataset"}
    assert to_do(*config) == {"trial", "profile", "dataset", *notebooks, "report"}
    again = snakes("--cores", "1", "--until", "dataset", *config)
    assert again.count(f"broken+default {WORKLOAD}") == 2 and "second+default" not in again
    assert "trial 10 of 10" in again
    assert tables.load(tmp_path / "checkout/data/tables/small").environment["set_aside"] == 4  # the report tells it
    (raw / f"r1-exact@v2-0.5ns-single-ssd-ext4+default-{WORKLOAD}-smoke.json").write_text("{}")
    said = subprocess.run(retry, **options)
    assert said.stdout.count("broken+default") == 2 and "smoke: not a whole record of this version" in said.stdout
    assert len(list((raw / "set-aside").glob("*.json"))) == 9


def test_killed_study_is_taken_up_and_ends_the_same(guest, tmp_path, shared, edit_yaml):
    env = without_records(prepare(tmp_path), tmp_path)
    config = small_study(tmp_path, edit_yaml, KILLED, rounds=1)
    kill_in_the_middle(tmp_path, env, config, after=1)
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "checkout/data/raw/small").glob("*.json")}
    run(tmp_path, env, "data/tables/small", *config)
    assert all(
        path.stat().st_mtime_ns == written for path, written in kept.items()
    )  # what was measured is not measured again
    assert not list((tmp_path / "tmp").glob("reprofs-*"))
    compare_with_the_other(shared, digests(tmp_path))


RULE = {"min": 2, "max": 3, "until": "0.1 %"}


def stopping(checkout: Path) -> dict:
    """Why the small study ended, and after how many rounds, as its tables say."""
    found = tables.load(checkout / "data/tables/small")
    assert found.plan.study.rounds == found.trials["round"].max() and set(found.trials["status"]) == {"ok"}
    stopping = found.plan.stopping
    return (stopping.as_json() if stopping else {}) | {"rounds": found.plan.study.rounds}


@pytest.mark.wide
def test_rounds_are_added_until_ratios_are_known(guest, tmp_path, edit_yaml):
    env, target = prepare(tmp_path), "data/tables/small"
    config = small_study(tmp_path, edit_yaml, ["ext4", "ext4+stride-4"], rounds=RULE)
    log = run(tmp_path, env, target, *config)
    assert recorded(log) == 6 and "trial 1 of at most 6" in log
    found = stopping(tmp_path / "checkout")
    assert [look["rounds"] for look in found["looks"]] == [2, 3] and found["rounds"] == 3
    assert found["looks"][0]["widest"]["half_width"] > 0.001 and found["why"] in ("most", "narrow")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "checkout/data").rglob("*") if path.is_file()}
    run(tmp_path, env, target, *config)
    assert before == {
        path: path.stat().st_mtime_ns for path in (tmp_path / "checkout/data").rglob("*") if path.is_file()
    }


@pytest.mark.soak
def test_a_killed_study_whose_rounds_adapt_is_taken_up_and_follows_other_rules(guest, tmp_path, edit_yaml, to_do):
    env, checkout = without_records(prepare(tmp_path), tmp_path), tmp_path / "checkout"
    config = small_study(tmp_path, edit_yaml, ["ext4", "ext4+stride-4"], rounds=RULE)

    def ended(rounds) -> dict:
        edit_yaml(tmp_path / "own/studies/small.yaml", lambda study: study.update(rounds=rounds))
        run(tmp_path, env, "data/tables/small", *config)
        return stopping(checkout)

    assert to_do(*config) >= {"trial", "dataset", "report"}
    kill_in_the_middle(tmp_path, env, config, after=4 + 1)  # the fifth is of the round that was added
    kept = {path: path.stat().st_mtime_ns for path in (checkout / "data/raw/small").glob("*.json")}
    found = ended(RULE)
    assert found["rounds"] == 3
    assert all(path.stat().st_mtime_ns == written for path, written in kept.items())
    assert to_do("data/tables/small", *config) == set()
    # Where what was measured is enough, nothing more is.
    wide = ended(RULE | {"until": "90 %"})
    assert (wide["rounds"], wide["why"], wide["looks"]) == (2, "narrow", [found["looks"][0] | {"open": 0}])
    assert ended(3) == {"rounds": 3}  # a fixed number has the same trials
    assert recorded((tmp_path / "log").read_text()) == 6
    (checkout / "data/raw/small" / f"r3-exact@v2-0.5ns-single-ssd-ext4+default-{WORKLOAD}-smoke.json").unlink()
    assert ended(RULE) == found and recorded((tmp_path / "log").read_text()) == 7


@pytest.mark.soak
def test_study_of_arrays_series_clients_and_sizes(guest, tmp_path, edit_yaml):
    """Healthy, degraded and rebuilding arrays, fills, sweeps, windows, clients, scaling and fio up to the report, with
    their figures and tables.
    """
    env = prepare(tmp_path)
    series = ["stream-fill", "read-while-write", "record-sweep", "compile-round1+clients5", "random-access"]
    healthy, *faults = ["md-raid5", "md-raid5-degraded", "md-raid5-rebuilding"]
    arrays = {"stacks": [healthy, *faults], "workloads": [SMALL], "filesystems": ["xfs"]}
    study = yaml.safe_load((ROOT / "config/studies/streaming.yaml").read_text())
    study |= {"filesystems": ["ext4"], "stacks": ["single"], "rounds": 1, "title": "Arrays and series"}
    study |= {"workloads": [*series, "many-inodes", "many-inodes@300"], "cells": [{}, arrays]}
    study |= {"seed": cell().seed - 1}  # of round 0: other tests look at the same trials
    (tmp_path / "checkout/config/studies/mixed.yaml").write_text(yaml.safe_dump(study))
    log = run(tmp_path, env, "data/tables/mixed", "--config", "study=mixed")
    assert recorded(log) == 10
    # The notebooks in this process: a kernel for each would take longer than the trials.
    shutil.copy(tmp_path / "checkout/data/plan/mixed.json", tmp_path / "plan.json")
    shutil.copytree(tmp_path / "checkout/data/tables/mixed", tmp_path / "tables")
    names = run_notebooks.names_of(tmp_path)
    folder = run_notebooks.execute(tmp_path, names)
    report = tmp_path / "report"
    render.render([folder / f"{name}.ipynb" for name in names], report, tmp_path / "tables")
    html = page(report)
    lost = "RAID 5 by MD without one of its disks, 6 disks"
    for words in (
        lost,
        "rebuild",
        "assumed clean",
        "Jain",
        "capacity reached",
        "kept",
        "Exponent",
        "the memory of",
    ):
        assert words in html, words
    figures = {path.name.split("-")[0] for path in (report / "figures").glob("*.svg")}
    assert figures >= {"clients", "fill", "sweep", "interference", "scaling"}
    records = [json.loads(path.read_text()) for path in (tmp_path / "checkout/data/raw/mixed").glob("*.json")]
    arrays_of({record["trial"]["stack"]: record for record in records if record["trial"]["filesystem"] == "xfs"})


@pytest.mark.soak
def test_a_rebuild_twice_has_the_same_bytes(guest, tmp_path):
    trial = cell("xfs", stack="md-raid5-rebuilding", workload=SMALL)
    first, second = (run_trial(trial, CATALOG, tmp_path / f"{name}.json", 900) for name in "ab")
    assert first["status"] == "ok" and first["digests"]["measurement"] == second["digests"]["measurement"]


def arrays_of(records: dict[str, dict]) -> None:
    """A disk failed after the population: reads are reconstructed, content is right, the rebuild ends."""
    assert len(records) == 3
    for stack, record in records.items():
        m = record["measurement"]
        assert m["stack"]["state"] == (stack.partition("-raid5-")[2] or "healthy")
        assert m["stack"]["initial_sync"] == "assumed clean: the disks read as zeros"
        assert [p["name"] for p in m["preparation"]] == ["make-tree", "create"]
        assert [v["mismatches"] for v in m["verification"]] == [0, 0, 0]
    healthy, degraded, rebuilding = (
        records[stack]["measurement"] for stack in ("md-raid5", "md-raid5-degraded", "md-raid5-rebuilding")
    )
    reads = [measured["phases"][1]["device"]["read_bytes"] for measured in (healthy, degraded)]
    assert reads[1] > 1.3 * reads[0]  # what is on the lost disk comes from all the others
    phases = rebuilding["phases"]
    assert all(p["rebuilding"] for p in phases[:-1])
    assert all(p["cold"]["proved"] is None for p in phases[:-1] if p["cold"])
    assert phases[-1]["operation"] == "rebuild" and "rebuilding" not in phases[-1]
    # The spare was written from end to end.
    assert phases[-1]["device"]["written_bytes"] >= 0.99 * rebuilding["devices"][0]["size_bytes"]


@pytest.mark.wide
def test_mistake_is_one_sentence_also_in_the_workflow(tmp_path, edit_yaml):
    env = prepare(tmp_path)
    edit_yaml(tmp_path / "checkout/config/studies/quick.yaml", lambda s: s.update(scale="smokee"))
    assert start(tmp_path, env, "-n").wait(timeout=120) != 0
    unknown = start(tmp_path, env, "-n", "data/raw/devices/r9-nosuch.json", "--config", "study=devices")
    assert unknown.wait(timeout=120) != 0
    text = (tmp_path / "log").read_text()
    assert "scale is 'smokee', but must be" in text
    assert "did you mean smoke" in text
    assert "the study devices has no trial r9-nosuch: `reprofs plan devices` lists its trials" in text
    assert "Traceback" not in text


def test_values_in_shell_lines_are_quoted(root):
    """Names are checked where they enter; should one slip through, the shell takes it as one word all the same."""
    rules = {path.name: path.read_text() for path in (root / "workflow/rules").glob("*.smk")}
    commands = [
        (name, command)
        for name, text in rules.items()
        for command in re.findall(r'^ +shell:\n((?: +".*"\n)+)', text, re.MULTILINE)
    ]
    assert len(commands) == sum(text.count("shell:") for text in rules.values()) > 4
    for name, command in commands:
        values = re.findall(r"\{([^{}]+)\}", command)
        assert values and all(value.endswith(":q") for value in values if value != "params.options"), (name, values)


def test_edited_descriptor_repeats_its_own_trials_only(guest, tmp_path):
    """In the graph: after an edit of jfs.yaml the jobs of jfs differ, and no other's."""
    from reprofs.plan.catalog import Catalog
    from reprofs.trial.planning import make_plan

    trials = make_plan("quick", Catalog()).trials
    before = {t.id: rendered(t, Catalog()).text() for t in trials}
    script = (
        "import json; from reprofs.plan import catalog; from reprofs.trial import job, planning, resolve;"
        "c = catalog.Catalog();"
        "trials = {t.id: resolve.resolve(t, c) for t in planning.make_plan('quick', c).trials};"
        "print(json.dumps({name: job.render(parts).text() for name, parts in trials.items()}))"
    )
    prepare(tmp_path)
    path = tmp_path / "checkout/workflow/filesystems/jfs.yaml"
    path.write_text(path.read_text().replace("mkfs.jfs -q", "mkfs.jfs -q -L label"))
    done = subprocess.run(
        [BIN / "python", "-c", script], cwd=tmp_path / "checkout", capture_output=True, text=True, check=True
    )
    after = json.loads(done.stdout)
    assert {name for name in before if before[name] != after[name]} == {t.id for t in trials if t.filesystem == "jfs"}
