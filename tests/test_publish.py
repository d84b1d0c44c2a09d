"""Published results: made of a run, read, checked, verified; and every one of the repository."""

import contextlib
import io
import json
import lzma
import re
import shlex
import shutil
import subprocess
import tarfile

import pytest
import yaml
from conftest import ROOT, copy_checkout
from helpers import CATALOG, drawn
from reprofs import version
from reprofs.data import tables
from reprofs.errors import UserError
from reprofs.files import read_json, sha256, tar
from reprofs.guest.lock import read_lock
from reprofs.plan.catalog import Catalog
from reprofs.plan.plan import write_plan
from reprofs.publish import index, site, stale, verify
from reprofs.publish import write as results
from reprofs.publish.check import derived
from reprofs.records import identity
from reprofs.records import publication as reading
from reprofs.records.protocol import PROTOCOL
from reprofs.records.raw import seal
from reprofs.trial import planning as plans
from reprofs.trial import run as trials
from reprofs.trial.resolve import resolve
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
        patch.setattr(results.derived, "derive", without_notebooks)
        plan = plans.make_plan("small", Catalog())
        write_plan(plan, made / "data/plan/small.json")
        for trial in plan.trials:
            run_trial(trial, Catalog(), made / f"data/raw/small/{trial.id}.json")
        tabulate(made)
        results.publish("small")
        first = sums(made)
        results.publish("small")
        assert sums(made) == first
        results.render("small")
        assert sums(made) == first
        for how in (results.publish, results.render):
            (made / "config/config.yaml").open("a").write("# edited\n")
            with pytest.raises(UserError, match="uncommitted changes"):
                how("small")
            git(made, "checkout", "config/config.yaml")
        records = {path: path.read_bytes() for path in (made / "data/raw/small").glob("*.json")}
        for change, words in [
            (lambda one: one.update(commit=one["commit"] + "+"), "was measured with uncommitted changes"),
            (lambda one: one["lab"].update(initrd_sha256="0" * 64), r"lab that differs from envs/lab\.lock \(initrd\)"),
        ]:
            for path, kept in records.items():
                edited = json.loads(kept)
                change(edited["environment"])
                path.write_text(json.dumps(seal(edited), ensure_ascii=False) + "\n")
            with pytest.raises(UserError, match="is missing or does not match the tables"):
                results.publish("small")
            tabulate(made)
            with pytest.raises(UserError, match=words):
                results.publish("small")
        for path, kept in records.items():
            path.write_bytes(kept)
        tabulate(made)
        assert sums(made) == first, "what could not be published leaves what was there"
    return made


def tabulate(made):
    tables.build(made / "data/plan/small.json", made / "data/raw/small", made / "data/tables/small")


def without_notebooks(work, processes):
    """What `derive` makes of records but for the report, which is not what is tested."""
    study, made = results.derived.tables(work)
    (work / "report").mkdir()
    (work / "report/index.html").write_text("<p>a report</p>")
    return results.derived.Derived(study.plan, study, made, "ext4 is not tmpfs.", work / "report")


def sums(checkout) -> dict[str, str]:
    return {path.name: sha256(path) for path in (checkout / "results/small").iterdir()}


@pytest.fixture
def folder(checkout, tmp_path):
    """A copy of the published result; its checkout is the working directory."""
    with contextlib.chdir(checkout):
        yield shutil.copytree(checkout / "results/small", tmp_path / "small")


def test_a_result_says_what_measured_it_and_what_rendered_it(checkout, folder):
    result, own = reading.read(folder), version.VERSION
    assert result.measured.reprofs == {own: 2} and list(result.measured.commits) == [result.rendered.commit]
    told = (folder / "ABOUT.md").read_text()
    assert f"Measured {result.measured.days()} by ReproFS {own}, commit {result.rendered.commit[:12]}." in told
    other = result.measured.model_copy(update={"reprofs": {"0.4.0": 1, own: 1}, "commits": {"a" * 40: 1, "b" * 40: 1}})
    told = results._about(result.model_copy(update={"measured": other}))
    assert f"by ReproFS 0.4.0, {own}, commits aaaaaaaaaaaa, bbbbbbbbbbbb." in told
    assert f"rendered by ReproFS {own}, commit {result.rendered.commit[:12]}." in told


@pytest.mark.wide
def test_words_make_no_result_stale_but_another_trial_does(checkout):
    study = checkout / "config/studies/small.yaml"
    with contextlib.chdir(checkout):
        assert stale.why("small") == ""
        study.write_text(yaml.safe_dump(SMALL | {"question": "Which of these two?", "title": "Smaller"}))
        assert stale.why("small") == ""
        for change in ({"seed": 8}, {"rounds": 2}, {"filesystems": ["ext4"]}):
            study.write_text(yaml.safe_dump(SMALL | change))
            assert "its trials or jobs have changed" in stale.why("small")
        study.write_text(yaml.safe_dump(SMALL))
        lock = checkout / "envs/lab.lock"
        kept = lock.read_text()
        lock.write_text(re.sub(r"(?m)^(built base/root \S+) \w+", rf"\1 {'0' * 64}", kept))
        assert stale.why("small") == "small: it has another image"
        lock.write_text(kept)
        assert stale.why("quick") == "quick is not published"


def test_what_is_published_is_identical_when_it_is_run_again(folder, reprofs):
    done = reprofs("verify", folder, "--all", cwd=".")
    assert done.returncode == 0 and "2 of 2 identical" in done.stderr, done.stderr
    done = reprofs("verify", folder, "--claims", cwd=".")
    assert done.returncode == 0 and "0 verdicts, ABOUT.md and cells.csv come from its 2 records" in done.stderr, (
        done.stderr
    )
    assert "results/LOG, line 1: published as small on" in done.stderr


@pytest.mark.wide
def test_one_altered_byte_anywhere_is_named(folder, reprofs, says):
    for path in sorted(folder.iterdir()):
        data = path.read_bytes()
        path.write_bytes(data[:-3] + bytes([data[-3] ^ 1]) + data[-2:])
        says(reprofs("verify", folder, "--claims", cwd="."), str(path))
        path.write_bytes(data)
    (folder / "more").touch()
    says(reprofs("verify", folder, "--claims", cwd="."), "is not in digests.json")


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


def of_another_lab(folder, commit="0" * 40):
    """The result as one of another protocol and commit."""

    def older(record):
        record["environment"]["protocol"] = PROTOCOL - 1
        return seal(record)

    content = read_json(folder / "digests.json")
    repacked(folder, older)
    with tarfile.open(folder / "records-1.tar.xz") as archive:
        for name, trial in content["trials"].items():
            record = json.load(archive.extractfile(f"raw/{name}.json"))
            trial["identity"] = identity.of(identity.parts_of(record))
    altered(folder, trials=content["trials"], rendered={"reprofs": "0.5.0", "commit": commit})


def slower(record):
    record["measurement"]["phases"][0]["wall_ns"] *= 2
    return record


@pytest.mark.wide
@pytest.mark.parametrize("change", [slower, lambda record: seal(slower(record)), lambda _: {}, lambda _: []])
def test_a_record_that_was_altered_is_never_identical(folder, reprofs, says, change):
    """Not when its digests are left as they were, and not when they are made again."""
    repacked(folder, change)
    says(reprofs("verify", folder, "--all", cwd="."), "is not the published record")


def test_a_trial_that_cannot_be_run_is_no_difference(folder, reprofs, monkeypatch):
    monkeypatch.setattr(verify, "run_trial", lambda *_: {"status": "timeout", "reason": "The host's time limit passed"})
    done = reprofs("verify", folder, "--trials", 1, cwd=".")
    assert done.returncode == 2 and "could not run here: The host's time limit" in done.stderr, done.stderr


@pytest.mark.parametrize("name", ["../../../etc/passwd", "a/b", ""])
def test_a_file_elsewhere_is_refused(folder, reprofs, says, name):
    altered(folder, files={name: "0" * 64})
    says(reprofs("verify", folder, "--claims", cwd="."), "digests.json is invalid")


def test_an_archive_writes_nothing_elsewhere(folder, reprofs, says):
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("../outside"))
    (folder / "records-1.tar.xz").write_bytes(lzma.compress(made.getvalue()))
    altered(folder)
    done = reprofs("verify", folder, "--claims", cwd=".")
    says(done, "records-1.tar.xz: '../outside' is not named by the result's plan")
    (folder / "records-1.tar.xz").write_bytes(b"no archive")
    altered(folder)
    says(reprofs("verify", folder, "--claims", cwd="."), "records-1.tar.xz is not an archive of records")


def test_tables_and_verdicts_that_the_records_do_not_give_are_named(folder, reprofs):
    tables = read_json(folder / "digests.json")["tables"] | {"phases.parquet": "0" * 64}
    altered(folder, tables=tables, verdicts={"reproduced": ["get-ext4"]})
    done = reprofs("verify", folder, "--claims", cwd=".")
    assert done.returncode == 1
    assert "digests.json, tables.phases.parquet: the records give" in done.stderr
    assert "digests.json, verdicts.reproduced: the records give nothing, the result says ['get-ext4']" in done.stderr
    altered(folder, rendered={"reprofs": "0.5.0", "commit": "0" * 40})  # whose code may make other tables
    done = reprofs("verify", folder, "--claims", cwd=".")
    assert done.returncode == 2 and "was rendered by other code than this checkout's (digests.json, " in done.stderr
    assert "commit 000000000000 is not in the history of this checkout, so its code is not run" in done.stderr


def test_trials_that_cannot_come_out_again_are_refused(folder, reprofs, says):
    for name in ("", "r9"):
        says(reprofs("verify", folder, "--trial", name, cwd="."), f"has no exact-lab trial '{name}'")


def test_a_result_of_another_lab_needs_the_code_of_its_commit(folder, reprofs, says):
    of_another_lab(folder)
    done = reprofs("verify", folder, "--trials", 3, cwd=".")
    assert done.returncode == 2
    first, last = done.stderr.strip().split("\n")
    assert f"this checkout's code differs (it has protocol {PROTOCOL}, the result {PROTOCOL - 1})" in first
    assert "commit 000000000000 is not in the history of this checkout" in last
    done = reprofs("verify", folder, "--trials", "1", "--own-code", cwd=".")
    assert done.returncode == 0 and "this checkout has a different lab: it has protocol" in done.stderr, done.stderr


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
    altered(folder, rendered={"reprofs": "0.5.0", "commit": "0" * 40})
    for words in ("--all", "--claims"):
        done = reprofs("verify", folder, words, cwd=".")
        assert done.returncode == 2 and "of another version" in done.stderr.split("\n")[0], done.stderr
        assert "commit 000000000000 is not in the history of this checkout" in done.stderr


def test_what_its_own_code_could_not_check_is_not_called_another(folder, reprofs, monkeypatch):
    """The code of a commit ends with 2 where it cannot check: that is no difference."""
    of_another_lab(folder, "f" * 40)
    ran = []
    monkeypatch.setattr(verify.commits, "clone", lambda commit, say: contextlib.nullcontext(commit))
    monkeypatch.setattr(verify.commits, "run", lambda made, *words: ran.append((made, words)) or 2)
    done = reprofs("verify", folder, "--all", cwd=".")
    assert done.returncode == 2 and "could not check" in done.stderr, done.stderr
    assert ran[0][0] == "f" * 40 and "--own-code" in ran[0][1]


@pytest.mark.parametrize("number", ["0", "-1", "x"])
def test_a_number_of_trials_is_one_from_1_on(folder, reprofs, number):
    done = reprofs("verify", folder, f"--trials={number}", cwd=".")
    assert done.returncode == 2 and f"'{number}' is not a whole number from 1 to 100000000" in done.stderr


@pytest.mark.parametrize(
    ("part", "other"),
    [("sshfs/root", []), ("base/root", ["it has another image"]), ("engine", ["it has another engine"])],
)
def test_only_what_a_trial_runs_in_makes_another_lab(folder, part, other, monkeypatch):
    """A guest or kernel that is new or another one in the lock leaves those of other trials as they were."""
    plan = reading.unpack(folder, reading.read(folder), folder.parent / "work")
    records = {trial.id: read_json(folder.parent / f"work/raw/{trial.id}.json") for trial in plan.trials}
    lock = read_lock()
    lock.built[part] = ("", "0" * 64)
    monkeypatch.setattr(trials, "read_lock", lambda: lock)
    assert verify.other_lab(plan.trials, records) == other


def test_the_first_phase_that_differs_is_named_and_the_part_of_the_lab(folder):
    plan = reading.unpack(folder, reading.read(folder), folder.parent / "work")
    record = read_json(folder.parent / f"work/raw/{plan.trials[0].id}.json")
    found = json.loads(json.dumps(record))
    phase = found["measurement"]["phases"][1]
    phase["wall_ns"] += 1
    said = identity.difference(record, found)
    assert f"first in the phase {phase['name']} ({phase['cache']}), wall_ns {phase['wall_ns']} instead of" in said
    assert "the lab is the same to the last byte" in said
    found["environment"]["lab"]["qemu_sha256"] = "0"
    assert identity.difference(record, found).endswith("not the same: lab.qemu_sha256")


def test_the_index_has_every_cell_and_no_markup_of_a_result(folder):
    altered(folder, title="</script><script>alert(1)</script>", answer="<img src=x>")
    cells = (folder / "cells.csv").read_text()
    (folder / "cells.csv").write_text(cells.replace("make-tree", "</script>&<b>"))
    altered(folder)
    made = index.write_index(folder.parent).read_text()
    table = (folder.parent / "README.md").read_text()
    assert f"\n| [small](small/ABOUT.md) | {index.DASH} | 2 | 0 | 0 | 0 | " in table
    assert made.count("<script") == 2 and "alert(1)</script>" not in made and "<img src=x>" not in made
    _, _, rest = made.partition('id="data">')
    data = json.loads(rest.partition("</script>")[0])
    assert len(data["rows"]) == cells.count("\n") - 1 == 2 * 9
    rows = [
        {
            name: value if name in data["apart"] else data["texts"][value]
            for name, value in zip(data["columns"], row, strict=True)
        }
        for row in data["rows"]
    ]
    assert {row["trial"] for row in rows} == set(reading.read(folder).trials)
    assert {row["phase"] for row in rows} >= {"</script>&<b>", "create"} and len({row["id"] for row in rows}) == 18


@pytest.mark.parametrize(
    "change",
    [
        {"study": "x](javascript:alert(1)) <script> | evil"},
        {"study": "../x"},
        {"host_hours": -1e300},
        {"host_hours": 1e300},
    ],
)
def test_a_name_or_a_number_that_no_result_has_is_refused(folder, reprofs, says, change):
    altered(folder, **change)
    says(reprofs("verify", folder, cwd="."), f"digests.json is invalid: {next(iter(change))}")


def test_the_table_of_results_has_no_markup_of_a_verdict(folder):
    altered(folder, verdicts={"](javascript:alert(1)) <img src=x> | a |\n| b": ["x"]})
    index.write_index(folder.parent)
    lines = (folder.parent / "README.md").read_text().splitlines()
    line = next(line for line in lines if line.startswith("| [small]"))
    assert r"1 \](javascript:alert(1)) \<img src=x\> \| a \| \| b |" in line, line


@pytest.mark.skipif(not shutil.which("node"), reason="nothing here runs JavaScript")
def test_the_command_to_copy_is_quoted_as_python_does_it():
    (line,) = (one for one in (ROOT / "report/results.html").read_text().splitlines() if one.startswith("const quoted"))
    words = ["r1-exact@v2-0.5ns+a:b", "a b", "'; rm -rf ~; '", "$(x)`y`", "a\nb", "ü", "", '"']
    done = subprocess.run(
        ["node", "-e", f"{line} console.log(JSON.stringify({json.dumps(words)}.map(quoted)))"],
        capture_output=True,
        check=True,
    )
    assert json.loads(done.stdout) == [shlex.quote(word) for word in words]


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        ("Which?\n\n- a: 1;\n  more\n- b\n\nRest.", [["a: 1; more", "b"]]),
        ("Which?\n\nOne\n  line.\n\n- a\n", ["One line.", ["a"]]),
        ("Which?\n\nOne.\n\nTwo.\n\nThree.\n\n- late", ["One.", "Two."]),
        ("Which?\n\nOne.\n\n  a table   1\n\nThree.", ["One."]),
        ("Which?\n", []),
    ],
)
def test_the_index_shows_how_an_answer_begins(answer, shown):
    assert index.lead(answer) == shown


# ---- the results of the repository -----------------------------------------------------------------------------------


def here_or_soak(published):
    """What an older protocol's commit rendered is derived by that commit, in a hundred seconds of a processor."""
    older = json.loads((published / "digests.json").read_text())["protocol"] != PROTOCOL
    return pytest.param(published, marks=pytest.mark.soak if older else (), id=published.name)


@pytest.mark.wide(1)
@pytest.mark.parametrize("published", [here_or_soak(path) for path in PUBLISHED])
def test_a_published_result_comes_from_its_records(published):
    result = reading.read(published)
    assert result.study == published.name
    assert derived(published, print)
    assert all((published / name).stat().st_size <= results.LARGEST for name in result.files)


@pytest.mark.parametrize("published", PUBLISHED, ids=lambda path: path.name)
def test_the_commit_of_a_published_result_is_in_the_history(published):
    """Else nobody could run its trials by its own code later. After a rebase it must be published again."""
    shallow = subprocess.run(
        ["git", "-C", ROOT, "rev-parse", "--is-shallow-repository"], capture_output=True, text=True
    )
    if shallow.stdout.strip() != "false":
        pytest.skip("this copy has no history")
    commit = reading.read(published).rendered.commit
    assert not subprocess.run(["git", "-C", ROOT, "merge-base", "--is-ancestor", commit, "HEAD"]).returncode


@pytest.mark.parametrize("published", PUBLISHED, ids=lambda path: path.name)
def test_every_trial_of_an_exact_lab_has_an_identity(published):
    result = reading.read(published)
    without = {name for name, trial in result.trials.items() if not trial.identity}
    assert all("-host" in name or result.trials[name].status != "ok" for name in without)
    assert sum(result.measured.commits.values()) == sum(result.measured.reprofs.values()) == len(result.trials)


def drawn_of(published, draw, work):
    """A trial that ran in an exact lab, whatever became of it, its record, and whether its lab has several cores."""
    result = reading.read(published)
    plan = reading.unpack(published, result, work)
    ran = [one for one in plan.trials if result.trials[one.id].status != "skipped"]
    trial = draw.choice([one for one in ran if plan.labs[one.full_lab].clock == "instructions"])
    return trial, read_json(work / f"raw/{trial.id}.json"), plan.labs[trial.full_lab].processor.count > 1


@pytest.mark.wide
@pytest.mark.parametrize("published", PUBLISHED, ids=lambda path: path.name)
def test_a_trial_of_a_published_result_is_that_of_this_checkout(published, tmp_path):
    """It would run the same job in the same lab; one of another protocol is checked by the code of its own commit."""
    trial, record, _ = drawn_of(published, drawn(), tmp_path)
    found = verify.other_lab([trial], {trial.id: record})
    was = reading.read(published).protocol
    assert found == [] if was == PROTOCOL else f"it has protocol {PROTOCOL}, the result {was}" in found


def test_a_trial_drawn_from_all_results_comes_out_again(guest, tmp_path):
    """By nothing that a result says of itself, such as how long it took: one that takes too long is given up."""
    draw, ran = drawn(), 0
    results_of = {published: reading.read(published) for published in PUBLISHED}
    if not (present := {path: len(one.trials) for path, one in results_of.items() if one.protocol == PROTOCOL}):
        pytest.skip(f"no result has protocol {PROTOCOL}")
    for number in range(40):
        (work := tmp_path / f"{number}").mkdir()
        [published] = draw.choices([*present], [*present.values()])
        trial, record, several = drawn_of(published, draw, work)
        # Only what `make test` has built so far.
        own = resolve(trial, CATALOG).guest
        built = own in ("base", "net", "fio") and (ROOT / f"data/guest/{own}.json").exists()
        if built and not several and not trial.kernel:
            again, ran = run_trial(trial, CATALOG, work / "again.json", 20, False), ran + 1
            if again["status"] != "timeout":
                assert verify._same(again, record), trial.id
                return
        if ran == 2:
            break
    pytest.skip("no trial that was drawn ended within its seconds")


@pytest.mark.soak
@pytest.mark.parametrize("published", PUBLISHED, ids=lambda path: path.name)
def test_a_drawn_trial_of_each_published_result_comes_out_again(published):
    assert verify.verify(published, 1, [], drawn().randrange(10**6), print)


@pytest.mark.soak
@pytest.mark.parametrize("published", PUBLISHED, ids=lambda path: path.name)
def test_a_published_result_is_what_its_commit_renders_of_its_records(published):
    assert derived(published, print, whole=True)


@pytest.mark.skipif(not PUBLISHED, reason="is not published")
def test_the_index_is_that_of_the_published_results(tmp_path):
    for published in PUBLISHED:
        shutil.copytree(published, tmp_path / published.name)
    index.write_index(tmp_path)
    for name in ("index.html", "README.md"):
        assert (tmp_path / name).read_text() == (ROOT / "results" / name).read_text()


def test_the_site_has_those_that_were_rendered_and_no_other(folder, tmp_path, monkeypatch):
    """HTML, PDF and the files beside them; an unknown name renders nothing."""

    def rendered(work, processes, pdf):
        made = without_notebooks(work, processes)
        (made.report / "report.pdf").write_bytes(b"%PDF")
        return made

    monkeypatch.setattr(site, "derive", rendered)
    with pytest.raises(UserError, match="nope is not published: choose from small"):
        site.write(tmp_path / "site", ["nope"], print)
    assert not (tmp_path / "site").exists()
    said = []
    made = site.write(tmp_path / "site", ["small"], said.append)
    assert {path.name for path in (tmp_path / "site/small").iterdir()} >= {"index.html", "report.pdf", "ABOUT.md"}
    assert len(said) == 1 and said[0].startswith("small: ") and "small/report.pdf" in made.read_text()
    assert "small/report.pdf" not in index.page(folder.parent, pdf=True, only=set())
