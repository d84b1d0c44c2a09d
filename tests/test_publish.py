"""Published results: made of a run, read, checked, verified; and every one of the repository."""

import contextlib
import io
import json
import lzma
import os
import re
import shutil
import subprocess
import tarfile

import pytest
import yaml
from conftest import ROOT, copy_checkout
from reprofs.errors import UserError
from reprofs.files import SUMS, read_json, read_sums, sha256, tar
from reprofs.plan.catalog import Catalog
from reprofs.plan.plan import write_plan
from reprofs.publish import index, verify
from reprofs.publish import result as results
from reprofs.publish.claims import claims
from reprofs.publish.reuse import reuse
from reprofs.records import published as reading
from reprofs.records.protocol import PROTOCOL
from reprofs.records.raw import seal
from reprofs.trial import plan as plans
from reprofs.trial.run import run_trial

PUBLISHED = sorted(path.parent for path in ROOT.glob("results/*/digests.json"))
SMALL = {
    "title": "Small",
    "question": "Which of two?",
    "labs": ["exact"],
    "stacks": ["single"],
    "profiles": ["ssd"],
    "filesystems": ["ext4", "tmpfs"],
    "workloads": ["metadata@60"],
    "scale": "smoke",
    "rounds": 1,
    "seed": 7,
}


def git(folder, *words):
    who = ["-c", "user.name=n", "-c", "user.email=n@example.org"]
    subprocess.run(["git", "-C", folder, *who, *words], check=True, capture_output=True)


@pytest.fixture(scope="module")
def checkout(guest, tmp_path_factory):
    """A checkout of git with a study that was run and published; its report is not what is tested."""
    made = copy_checkout(tmp_path_factory.mktemp("published") / "checkout")
    (made / "config/studies/small.yaml").write_text(yaml.safe_dump(SMALL))
    (made / ".gitignore").write_text("data/\nreport/\nresults/\n")
    shutil.copytree(ROOT / "data/guest", made / "data/guest")
    git(made, "init", "--quiet")
    git(made, "add", "--all")
    git(made, "commit", "--quiet", "--message", "all")
    with contextlib.chdir(made), pytest.MonkeyPatch.context() as patch:
        patch.setattr(results.text, "answer_of", lambda *_: "ext4 is not tmpfs.")
        plan = plans.make_plan("small", Catalog())
        write_plan(plan, made / "data/plan/small.json")
        for trial in plan.trials:
            run_trial(trial, Catalog(), made / f"data/raw/small/{trial.id}.json", planned=trial.job_sha256)
        results.build(made / "data/plan/small.json", made / "data/raw/small", made / "data/tables/small")
        (made / "report/small").mkdir()
        report = made / "report/small/index.html"
        of_tables = f"<p>{' '.join(read_sums(made / 'data/tables/small' / SUMS).values())}</p>"
        report.write_text(of_tables)
        (made / "report/small/report.pdf").write_text("%PDF")
        results.publish("small")
        first = sums(made)
        results.publish("small")
        assert sums(made) == first
        (made / "config/config.yaml").open("a").write("# edited\n")
        with pytest.raises(UserError, match="commit what you have edited"):
            results.publish("small")
        git(made, "checkout", "config/config.yaml")
        report.write_text(of_tables + '<h1 id="what-changed">What changed</h1>')
        with pytest.raises(UserError, match="has a run beside the study"):
            results.publish("small")
        report.write_text("<p>of other tables</p>")
        with pytest.raises(UserError, match="is not of these tables"):
            results.publish("small")
        report.write_text(of_tables)
        records = {path: path.read_bytes() for path in (made / "data/raw/small").glob("*.json")}
        for change, words in [
            (lambda one: one.update(commit=one["commit"] + "+"), "was measured with edited files, which no commit has"),
            (lambda one: one["lab"].update(initrd_sha256="0" * 64), r"lab than that of envs/lab\.lock \(initrd\)"),
        ]:
            for path, kept in records.items():
                edited = json.loads(kept)
                change(edited["environment"])
                path.write_text(json.dumps(seal(edited), ensure_ascii=False) + "\n")
            results.build(made / "data/plan/small.json", made / "data/raw/small", made / "data/tables/small")
            report.write_text(" ".join(read_sums(made / "data/tables/small" / SUMS).values()))
            with pytest.raises(UserError, match=words):
                results.publish("small")
        for path, kept in records.items():
            path.write_bytes(kept)
        results.build(made / "data/plan/small.json", made / "data/raw/small", made / "data/tables/small")
        report.write_text(of_tables)
    return made


def sums(checkout) -> dict[str, str]:
    return {path.name: sha256(path) for path in (checkout / "results/small").iterdir()}


@pytest.fixture
def folder(checkout, tmp_path):
    """A copy of the published result; its checkout is the working directory."""
    with contextlib.chdir(checkout):
        yield shutil.copytree(checkout / "results/small", tmp_path / "small")


def test_published_records_are_reused_where_trials_would_be_the_same(checkout):
    raw, first, second = checkout / "data/raw/small", *sorted((checkout / "data/raw/small").glob("*.json"))
    study, lock = checkout / "config/studies/small.yaml", checkout / "envs/lab.lock"
    kept = {path: path.read_bytes() for path in (first, second, study, lock)}
    with contextlib.chdir(checkout):
        try:
            assert reuse("small") == (0, 0)  # all are there
            first.unlink()
            second.write_text("the user's own")
            assert reuse("small") == (1, 0)
            assert (first.read_bytes(), second.read_text()) == (kept[first], "the user's own")
            assert sorted(path.name for path in raw.glob("*.json*")) == [first.name, second.name]
            for path in (first, second):
                os.utime(path, (1, 1))
            assert reuse("small") == (0, 0)
            guests = [path.stat().st_mtime for path in (checkout / "data/guest").glob("*.json")]
            assert first.stat().st_mtime >= max(guests) and second.stat().st_mtime == 1
            first.unlink()
            study.write_text(yaml.safe_dump(SMALL | {"filesystems": ["ext4", "tmpfs", "xfs"], "rounds": 2}))
            assert reuse("small") == (1, 4)
            study.write_text(yaml.safe_dump(SMALL | {"seed": 8}))
            assert reuse("small") == (0, 1) and not first.exists()  # it is of another job
            assert second.read_text() == "the user's own"
            study.write_bytes(kept[study])
            lock.write_text(re.sub(r"(?m)^(built qemu \S+) \w+", rf"\1 {'0' * 64}", lock.read_text()))
            with pytest.raises(UserError, match="is of another lab than this checkout's"):
                reuse("small")
            with pytest.raises(UserError, match="nothing is published of the study quick"):
                reuse("quick")
        finally:
            for path, content in kept.items():
                path.write_bytes(content)


def test_what_is_published_is_identical_when_it_is_run_again(folder, reprofs):
    done = reprofs("verify", folder, "--all", cwd=".")
    assert done.returncode == 0 and "2 of 2 identical" in done.stderr, done.stderr
    done = reprofs("verify", folder, "--claims", cwd=".")
    assert done.returncode == 0 and "and 0 verdicts come from its 2 records" in done.stderr, done.stderr


def test_one_altered_byte_anywhere_is_named(folder, reprofs, says):
    for path in sorted(folder.iterdir()):
        data = path.read_bytes()
        path.write_bytes(data[:-3] + bytes([data[-3] ^ 1]) + data[-2:])
        says(reprofs("verify", folder, "--claims", cwd="."), str(path))
        path.write_bytes(data)
    (folder / "more").touch()
    says(reprofs("verify", folder, "--claims", cwd="."), "does not belong to the result")


def altered(folder, **changes):
    content = read_json(folder / "digests.json")
    content.update(changes)
    content["files"] |= {name: sha256(folder / name) for name in content["files"] if (folder / name).is_file()}
    (folder / "digests.json").write_text(json.dumps(content))


def test_a_claim_of_several_settings_is_counted_once():
    assert results._named(["a", "b", "b", "b"]) == "2 (a, b in 3 settings)"


def repacked(folder, change):
    """The result with every raw record changed, and digests.json that says so."""
    with tarfile.open(folder / "records-1.tar.xz") as archive:
        content = {one.name: archive.extractfile(one).read() for one in archive.getmembers()}
    for name in content:
        if name.startswith("raw/"):
            content[name] = json.dumps(change(json.loads(content[name]))).encode()
    (folder / "records-1.tar.xz").write_bytes(lzma.compress(tar(list(content.items()))))
    altered(folder)


def slower(record):
    record["measurement"]["phases"][0]["wall_ns"] *= 2
    return record


@pytest.mark.parametrize("change", [slower, lambda record: seal(slower(record)), lambda _: {}, lambda _: []])
def test_a_record_that_was_altered_is_never_identical(folder, reprofs, says, change):
    """Not when its digests are left as they were, and not when they are made again."""
    repacked(folder, change)
    says(reprofs("verify", folder, "--all", cwd="."), "is not the one that was published")


def test_a_trial_that_cannot_be_run_is_no_difference(folder, reprofs, monkeypatch):
    monkeypatch.setattr(verify, "run_trial", lambda *_: {"status": "timeout", "reason": "The host's time limit passed"})
    done = reprofs("verify", folder, "--trials", 1, cwd=".")
    assert done.returncode == 2 and "could not be run here: The host's time limit" in done.stderr, done.stderr


@pytest.mark.parametrize("name", ["../../../etc/passwd", "a/b", ""])
def test_a_file_elsewhere_is_refused(folder, reprofs, says, name):
    altered(folder, files={name: "0" * 64})
    says(reprofs("verify", folder, "--claims", cwd="."), "digests.json is no published result")


def test_an_archive_writes_nothing_elsewhere(folder, reprofs, says):
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("../outside"))
    (folder / "records-1.tar.xz").write_bytes(lzma.compress(made.getvalue()))
    altered(folder)
    says(reprofs("verify", folder, "--claims", cwd="."), "records-1.tar.xz is no archive of records")
    (folder / "records-1.tar.xz").write_bytes(b"no archive")
    altered(folder)
    says(reprofs("verify", folder, "--claims", cwd="."), "records-1.tar.xz is no archive of records")


def test_tables_and_verdicts_that_the_records_do_not_give_are_named(folder, reprofs):
    tables = read_json(folder / "digests.json")["tables"] | {"phases.parquet": "0" * 64}
    altered(folder, tables=tables, verdicts={"reproduced": ["get-ext4"]})
    done = reprofs("verify", folder, "--claims", cwd=".")
    assert done.returncode == 1
    assert "the table phases.parquet is not the published one" in done.stderr
    assert "reproduced: none; published: get-ext4" in done.stderr
    altered(folder, commit="0" * 40)  # of another commit, whose code may make other tables
    done = reprofs("verify", folder, "--claims", cwd=".")
    assert done.returncode == 2 and "tables and verdicts are made otherwise now" in done.stderr


def test_trials_that_cannot_come_out_again_are_refused(folder, reprofs, says):
    says(reprofs("verify", folder, "--trial", "", cwd="."), "has no trial of an exact lab that went well")
    says(reprofs("verify", folder, "--trial", "r9", cwd="."), "has no trial r9 of an exact lab that went well")
    content = read_json(folder / "digests.json")
    altered(folder, trials={name: trial | {"status": "failed"} for name, trial in content["trials"].items()})
    says(reprofs("verify", folder, cwd="."), "has no trial of an exact lab")


def test_a_result_of_another_lab_needs_the_code_of_its_commit(folder, reprofs, says):
    altered(folder, protocol=PROTOCOL - 1, commit="0" * 40)
    done = reprofs("verify", folder, cwd=".")
    assert done.returncode == 2
    first, last = done.stderr.strip().split("\n")
    assert f"not by this checkout's code (it has protocol {PROTOCOL}, the result {PROTOCOL - 1})" in first
    assert "of commit 000000000000, which no branch of this checkout has" in last
    done = reprofs("verify", folder, "--trials", "1", "--own-code", cwd=".")
    assert done.returncode == 0 and "this checkout is another lab: it has protocol" in done.stderr


def test_a_plan_of_another_version_needs_the_code_of_its_commit(folder, reprofs, says):
    with tarfile.open(folder / "records-1.tar.xz") as archive:
        content = {one.name: archive.extractfile(one).read() for one in archive.getmembers()}
    content["plan.json"] = content["plan.json"].replace(b'"trials": [', b'"new": 1, "trials": [', 1)
    (folder / "records-1.tar.xz").write_bytes(lzma.compress(tar(list(content.items()))))
    altered(folder)
    for words in ("--all", "--claims"):
        says(
            reprofs("verify", folder, words, "--own-code", cwd="."), "has a plan of another version than this checkout"
        )
    altered(folder, commit="0" * 40)
    for words in ("--all", "--claims"):
        done = reprofs("verify", folder, words, cwd=".")
        assert done.returncode == 2 and "of another version" in done.stderr.split("\n")[0], done.stderr
        assert "of commit 000000000000, which no branch of this checkout has" in done.stderr


def test_what_its_own_code_could_not_check_is_not_called_another(folder, reprofs, says, tmp_path, monkeypatch):
    """The code of a commit ends with 2 where it cannot check: that is no difference."""
    monkeypatch.setenv("REPROFS_CACHE", str(tmp_path / "cache"))
    altered(folder, protocol=PROTOCOL - 1)
    result = reading.read(folder)
    clone = tmp_path / "cache/commits" / result.commit
    for name, line in ("scripts/setup", "exit 0"), (".venv/bin/reprofs", "exit 2"):
        (clone / name).parent.mkdir(parents=True)
        (clone / name).write_text(f"#!/bin/sh\n{line}\n")
        (clone / name).chmod(0o755)
    done = reprofs("verify", folder, cwd=".")
    assert done.returncode == 2 and "could not check" in done.stderr, done.stderr


@pytest.mark.parametrize("number", ["0", "-1", "x"])
def test_a_number_of_trials_is_one_from_1_on(folder, reprofs, number):
    done = reprofs("verify", folder, f"--trials={number}", cwd=".")
    assert done.returncode == 2 and f"'{number}' is no whole number from 1 on" in done.stderr


@pytest.mark.parametrize(("part", "other"), [("sshfs/root", False), ("base/root", True), ("engine", True)])
def test_only_what_a_trial_runs_in_makes_another_lab(folder, part, other):
    """A guest or kernel that is new or another one in the lock leaves those of other trials as they were."""
    lock, result = folder / "lab.lock", reading.read(folder)
    text, changed = re.subn(rf"(?m)^(built {part} \w+) \w+$", r"\1 " + "0" * 64, lock.read_text())
    assert changed == 1
    lock.write_text(text)
    altered(folder, lock_sha256=sha256(lock))
    plan = reading.unpack(folder, result, folder.parent / "work")
    found = verify.other_lab(folder, reading.read(folder), plan.trials)
    assert found == ([f"envs/lab.lock has another {part}"] if other else [])


def test_the_first_phase_that_differs_is_named_and_the_part_of_the_lab(folder):
    plan = reading.unpack(folder, reading.read(folder), folder.parent / "work")
    record = read_json(folder.parent / f"work/raw/{plan.trials[0].id}.json")
    found = json.loads(json.dumps(record))
    phase = found["measurement"]["phases"][1]
    phase["wall_ns"] += 1
    said = verify.difference(record, found)
    assert f"first in the phase {phase['name']} ({phase['cache']}), wall_ns {phase['wall_ns']} instead of" in said
    assert "the lab is the same to the last byte" in said
    found["environment"]["lab"]["qemu_sha256"] = "0"
    assert verify.difference(record, found).endswith("of the lab differ qemu_sha256")


def test_the_index_has_every_cell_and_no_markup_of_a_result(folder):
    altered(folder, title="</script><script>alert(1)</script>", answer="<img src=x>")
    cells = (folder / "cells.csv").read_text()
    (folder / "cells.csv").write_text(cells.replace("make-tree", "</script>&<b>"))
    altered(folder)
    made = index.write_index(folder.parent).read_text()
    table = (folder.parent / "README.md").read_text().splitlines()
    assert table[-1].startswith("| [small](small/ABOUT.md) | 2 | 0 | ")
    assert made.count("<script") == 2 and "alert(1)</script>" not in made and "<img src=x>" not in made
    _, _, rest = made.partition('id="data">')
    data = json.loads(rest.partition("</script>")[0])
    assert len(data["rows"]) == cells.count("\n") - 1 == 2 * 9
    rows = [dict(zip(data["columns"], row, strict=True)) for row in data["rows"]]
    assert {row["trial"] for row in rows} == set(reading.read(folder).trials)
    assert {row["phase"] for row in rows} >= {"</script>&<b>", "create"} and len({row["id"] for row in rows}) == 18


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        (
            "Which?\n\nThe time,\n  in all:\n\n- a: 1;\n  more\n- b\n\nRest.\n\n- c",
            ["The time, in all:", ["a: 1; more", "b"]],
        ),
        ("Which?\n\nOne.\n\nTwo.\n\nThree.\n\n- late", ["One.", "Two."]),
        ("Which?\n\nOne.\n\nTwo:\n\nThree.\n\n- late", ["One."]),
        ("Which?\n\n- a", [["a"]]),
        ("Which?\n", []),
    ],
)
def test_the_index_shows_how_an_answer_begins(answer, shown):
    assert index.lead(answer) == shown


# ---- the results of the repository -----------------------------------------------------------------------------------


@pytest.mark.parametrize("published", PUBLISHED, ids=lambda path: path.name)
def test_a_published_result_comes_from_its_records(published):
    result = reading.read(published)
    assert result.study == published.name
    assert claims(published, print)
    assert all((published / name).stat().st_size <= results.LARGEST for name in result.files)


@pytest.mark.parametrize("published", PUBLISHED, ids=lambda path: path.name)
def test_the_commit_of_a_published_result_is_in_the_history(published):
    """Else nobody could run its trials by its own code later. After a rebase it must be published again."""
    shallow = subprocess.run(
        ["git", "-C", ROOT, "rev-parse", "--is-shallow-repository"], capture_output=True, text=True
    )
    if shallow.stdout.strip() != "false":
        pytest.skip("this copy has no history")
    commit = reading.read(published).commit
    assert not subprocess.run(["git", "-C", ROOT, "merge-base", "--is-ancestor", commit, "HEAD"]).returncode


def cheapest(published):
    """Seconds and name of the trial of an exact lab that took the host least."""
    trials = reading.read(published).trials
    return min((one.host_seconds, name) for name, one in trials.items() if one.status == "ok" and "-exact@" in name)


@pytest.mark.parametrize(
    "published",
    [pytest.param(path, id=path.name, marks=[pytest.mark.soak] * (cheapest(path)[0] > 60)) for path in PUBLISHED],
)
def test_a_trial_of_a_published_result_is_identical(guest, published):
    """The cheapest one. A change that moves numbers on purpose publishes the results again."""
    assert verify.verify(published, None, [cheapest(published)[1]], 0, print, own=True)


@pytest.mark.skipif(not PUBLISHED, reason="nothing is published")
def test_the_index_is_that_of_the_published_results(tmp_path):
    for published in PUBLISHED:
        shutil.copytree(published, tmp_path / published.name)
    index.write_index(tmp_path)
    for name in ("index.html", "README.md"):
        assert (tmp_path / name).read_text() == (ROOT / "results" / name).read_text()
