"""What `reprofs verify` says of a result in which one thing was altered, with all digests of its folder made again."""

import contextlib
import copy
import hashlib
import io
import itertools
import json
import lzma
import os
import shutil
import subprocess
import tarfile
import traceback
from pathlib import Path
from types import SimpleNamespace

import make
import pytest
from conftest import ROOT
from helpers import Late, drawn
from reprofs.errors import UserError
from reprofs.files import cache_folder, read_json, sha256, tar, write_text
from reprofs.plan.result import Rendered
from reprofs.publish import commits, log, sealed, verify
from reprofs.records import identity
from reprofs.records.raw import seal

check, derive, write = (Late(f"reprofs.publish.{name}") for name in ("check", "derive", "write"))
COMMIT = "c" * 40


def rendered(work, processes):
    """What `derive` makes of records; its report is two lines with a time that was measured."""
    study, made = derive.tables(work)
    text = f"{study.phases['wall_ns'].sum()} ns\n"
    (work / "report/figures").mkdir(parents=True)
    (work / "report/index.html").write_text(f"<p>a report</p>\n<p>{text}</p>")
    (work / "report/figures/totals.svg").write_text(f"<svg>{text}</svg>")
    return derive.Derived(study.plan, study, made, f"Which?\n\next4 is fastest, {text}", work / "report")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A result of eight trials that nobody ran."""
    work = tmp_path_factory.mktemp("made")
    failed = {("xfs", "metadata", 1): ("failed", "It broke.")}
    make.make(work, rounds=2, systems=["ext4", "xfs"], workloads=["metadata"], failures=failed)
    lab = read_json(next((work / "raw").glob("*.json")))["environment"]["lab"]
    built = [value for key, value in lab.items() if key.endswith("_sha256") and isinstance(value, str)]
    (work / "lock").write_text("".join(f"built part/{n} 0 {digest}\n" for n, digest in enumerate(built)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("reprofs.publish.derive.derive", rendered)
        patch.setattr("reprofs.publish.derive.pool", contextlib.nullcontext)
        write.make(work, work / "lock", Rendered(reprofs="1", commit=COMMIT), work / "result")
    return work / "result"


@pytest.fixture
def folder(whole, tmp_path, monkeypatch):
    """A copy to alter; its commit is said to have this checkout's code."""
    monkeypatch.setattr("reprofs.publish.derive.derive", rendered)
    monkeypatch.setattr("reprofs.publish.derive.pool", contextlib.nullcontext)
    monkeypatch.setattr(commits, "renders_alike", lambda commit: True)
    return shutil.copytree(whole, tmp_path / "result")


def members(folder) -> dict[str, bytes]:
    with tarfile.open(folder / "records-1.tar.xz") as archive:
        return {one.name: archive.extractfile(one).read() for one in archive.getmembers()}


def reseal(folder, change=None, content=None) -> None:
    """Makes all digests of the folder again, as a forger would. content: of the archive of records."""
    if content is not None:
        (folder / "records-1.tar.xz").write_bytes(lzma.compress(tar(content.items()), preset=0))
    said = read_json(folder / "digests.json")
    if change:
        change(said)
    said["files"] = {path.name: sha256(path) for path in folder.iterdir() if path.name != "digests.json"}
    (folder / "digests.json").write_text(json.dumps(said, indent=1, ensure_ascii=False) + "\n")


def says(**what):
    return lambda folder: reseal(folder, lambda said: said.update(what))


def edited(name, old, new):
    def forge(folder) -> None:
        text = (folder / name).read_text()
        assert old in text
        (folder / name).write_text(text.replace(old, new, 1))
        reseal(folder)

    return forge


def record(change, tables=False, digests=False):
    """The record of the first trial changed and sealed again; tables, digests: what of digests.json is made to fit."""

    def forge(folder) -> None:
        content = members(folder)
        name = next(name for name in content if name.startswith("raw/r1-") and "ext4" in name)
        one = json.loads(content[name])
        change(one)
        one = seal(one)
        content[name] = json.dumps(one).encode()
        trial, environment = name[4:-5], one["environment"]

        def fit(said) -> None:
            said["trials"][trial].update(measurement=one["digests"]["measurement"], status=one["status"])
            if tables:
                said["tables"] = tabulated(folder)
            if digests:
                said["trials"][trial]["host_seconds"] = environment["host_seconds"]

        reseal(folder, content=content)
        reseal(folder, fit)

    return forge


def tabulated(folder) -> dict[str, str]:
    work = folder.with_name("forger")
    with tarfile.open(folder / "records-1.tar.xz") as archive:
        archive.extractall(work, filter="data")
    return derive.tables(work)[1]


def faster(one) -> None:
    for phase in one["measurement"]["phases"]:
        phase["wall_ns"] //= 10


def broke(one) -> None:
    one.update(status="failed", reason="The guest's kernel panicked.")


def plan(change):
    """The plan changed, and the tables that it gives."""

    def forge(folder) -> None:
        content = members(folder)
        said = json.loads(content["plan.json"])
        change(said)
        reseal(folder, content=content | {"plan.json": json.dumps(said).encode()})
        with contextlib.suppress(UserError):
            reseal(folder, lambda said: said.update(tables=tabulated(folder)))

    return forge


def swapped(folder) -> None:
    """The measurements of two file systems, each in the record of the other."""
    content = members(folder)
    names = [next(n for n in content if n.startswith("raw/r2-") and label in n) for label in ("ext4", "xfs")]
    one, other = (json.loads(content[name]) for name in names)
    one["measurement"], other["measurement"] = other["measurement"], one["measurement"]
    sealed = {name: seal(each) for name, each in zip(names, (one, other), strict=True)}

    def fit(said) -> None:
        for name, each in sealed.items():
            said["trials"][name[4:-5]]["measurement"] = each["digests"]["measurement"]

    reseal(folder, fit, content | {name: json.dumps(each).encode() for name, each in sealed.items()})
    reseal(folder, lambda said: said.update(tables=tabulated(folder)))


ALTERED = ": this result was altered"
# What is forged -> how, and what says so without rendering anything.
FORGED = {
    "title": (says(title="Another title"), "digests.json, title: the records give '"),
    "question": (says(question="Another question?"), "the result says 'Another question?'"),
    "verdicts": (says(verdicts={"reproduced": ["plug-2020-1"]}), "digests.json, verdicts.reproduced: the records give"),
    "protocol": (says(protocol=99), "digests.json, protocol: the records give 1, the result says 99"),
    "hours": (says(host_hours=0.00001), "the result says 1e-05"),
    "study": (says(study="another"), "digests.json, study: the records give"),
    "lock": (says(lock_sha256="0" * 64), "digests.json, lock_sha256: the records give"),
    "another lock": (lambda folder: (write_text(folder / "lab.lock", ""), reseal(folder)), "lab.lock: r1-"),
    "day": (
        lambda folder: reseal(folder, lambda said: said["measured"].update(first="2020-01-01T00:00:00Z")),
        "measured.first: the records give",
    ),
    "table": (
        lambda folder: reseal(folder, lambda said: said["tables"].update({"phases.parquet": "0" * 64})),
        "digests.json, tables.phases.parquet: the records give",
    ),
    "answer": (
        lambda folder: reseal(folder, lambda said: said.update(answer=said["answer"].replace("ext4", "xfs"))),
        "ABOUT.md, line",
    ),
    "about": (edited("ABOUT.md", "ext4 is fastest", "xfs is fastest"), "ABOUT.md, line 5: the records give "),
    "cell": (edited("cells.csv", ",warm,", ",cold,"), "cells.csv, line 2: the records give "),
    "file": (lambda folder: (write_text(folder / "report.pdf", "%PDF"), reseal(folder)), "report.pdf is a file that"),
    "number": (record(faster), "digests.json, tables."),
    "number and tables": (record(faster, tables=True), "cells.csv, line "),
    "seconds": (record(lambda one: one["environment"].update(host_seconds=1e-9), tables=True), "host_seconds: the"),
    "commit": (
        record(lambda one: one["environment"].update(commit="0" * 40), tables=True, digests=True),
        "measured.commits.",
    ),
    "status": (record(broke), "digests.json, tables."),
    "status and tables": (record(broke, tables=True), "cells.csv, line "),
    "texts of the plan": (plan(lambda said: said["study"].update(question="Another one?")), "digests.json, question: "),
    "swapped": (swapped, "cells.csv, line "),
}
# What only rendering finds.
PAGE = {
    "picture": (edited("picture.svg", "<svg>", "<svg><!-- x -->"), "picture.svg, line 1: the records give '<svg>"),
    "report": (edited("index.html", "ns", "ms"), "index.html, line 2: the records give "),
    "answer and about": (
        lambda folder: (edited("ABOUT.md", "ext4", "xfs")(folder), FORGED["answer"][0](folder)),
        "digests.json, answer: the records give",
    ),
    "archive": (lambda folder: reseal(folder, content=members(folder)), "records-1.tar.xz: the records give other"),
}


def derived(folder, **how) -> tuple[bool, list[str]]:
    said: list[str] = []
    return check.derived(folder, said.append, **how), said


def test_what_nobody_altered_comes_from_its_records(folder):
    right, said = derived(folder)
    assert right and "tables, 0 verdicts, ABOUT.md and cells.csv come from its 4 records" in said[0]
    assert said[1] == "not derived: the words of the answer, picture.svg and index.html; --render derives them"
    right, said = derived(folder, whole=True)
    assert (
        right and "ABOUT.md and cells.csv, the whole report and its answer come from its 4" in said[0] and not said[1:]
    )


@pytest.mark.parametrize("what", FORGED)
def test_what_is_forged_is_named_without_rendering(folder, what):
    forge, words = FORGED[what]
    forge(folder)
    right, said = derived(folder)
    assert not right and any(words in one and one.endswith(ALTERED) for one in said), said
    assert all(len(one) <= 300 + len(str(folder)) for one in said)


@pytest.mark.parametrize("what", PAGE)
def test_what_is_forged_of_the_page_is_named_when_it_is_rendered(folder, what):
    forge, words = PAGE[what]
    forge(folder)
    assert derived(folder)[0], "what costs a minute"
    right, said = derived(folder, whole=True)
    assert not right and any(words in one and one.endswith(ALTERED) for one in said), said


def test_a_clock_of_another_kind_is_refused(folder):
    plan(lambda said: [lab.update(clock="wall") for lab in said["labs"].values()])(folder)
    with pytest.raises(UserError, match="from another plan"):
        derived(folder)


def test_a_page_of_other_tables_is_found_without_rendering(folder):
    edited("index.html", "<p>a report</p>", f'<meta name="reprofs-tables" content="{"0" * 64}">')(folder)
    right, said = derived(folder)
    assert not right and "index.html: it names other tables than the records give" in said[0]


# ---- trials that are run again ---------------------------------------------------------------------------------------


@pytest.fixture
def again(folder, monkeypatch):
    """Runs of trials give the true records; those of one trial, in turn, what a test puts into the list."""
    true = {name[4:-5]: json.loads(data) for name, data in members(folder).items() if name.startswith("raw/")}
    others: dict[str, list[dict]] = {}
    monkeypatch.setattr(
        verify, "run_trial", lambda one, *_: others[one.id].pop(0) if one.id in others else true[one.id]
    )
    monkeypatch.setattr(verify, "resolve", lambda trial, catalog: SimpleNamespace(guest="base"))
    monkeypatch.setattr(verify.image, "ensure", lambda guest, say: None)
    monkeypatch.setattr(verify, "other_lab", lambda drawn, records: [])
    return SimpleNamespace(true=true, others=others)


def run_again(folder, count=None, names=(), seed=1) -> tuple[bool, list[str]]:
    said: list[str] = []
    return verify.verify(folder, count, list(names), seed, said.append), said


def test_failed_trials_are_drawn_and_what_a_draw_misses_is_said(folder, again):
    failed = {name for name, one in again.true.items() if one["status"] != "ok"}
    right, said = run_again(folder)
    assert right and len(failed) == 1 and f"identical  {min(failed)}" in said and said[-1] == "4 of 4 identical"
    lines = {line for seed in range(20) for line in run_again(folder, 1, seed=seed)[1] if line.startswith("identical")}
    assert len(lines) == 4
    assert (
        run_again(folder, 1)[1][-1]
        == "not run again: 3 of 4; if one is forged, such a draw misses it with 75% probability"
    )


@pytest.mark.parametrize("change", [faster, broke])
def test_a_forged_record_is_called_that(folder, again, change):
    record(change)(folder)
    right, said = run_again(folder)
    (line,) = (line for line in said if line.startswith("altered "))
    assert not right and "two runs here agree, so this record was altered" in line
    assert ("wall_ns" in line) == (change is faster) and ("it is ok here, but failed in the record" in line) == (
        change is broke
    )


def test_a_trial_that_is_different_each_time_is_not_called_forged(folder, again):
    name = min(again.true)
    for factor in (2, 3):
        one = json.loads(json.dumps(again.true[name]))
        one["measurement"]["phases"][0]["wall_ns"] *= factor
        again.others.setdefault(name, []).append(seal(one))
    right, said = run_again(folder, names=[name])
    assert not right and any("two runs here differ from each other" in line for line in said)


# ---- code of other commits -------------------------------------------------------------------------------------------


def git(folder, *words) -> str:
    who = ["-c", "user.name=n", "-c", "user.email=n@example.org"]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(["git", "-C", folder, *who, *words], check=True, capture_output=True, text=True, env=clean)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A checkout with two commits, and one more that is on no branch. Setting up says so in a file."""
    made = tmp_path / "checkout"
    for name, text in (
        ("workflow/schemas/a", ""),
        ("scripts/setup", "#!/bin/sh\necho set up >> ran\n"),
        ("notebooks/a", "1"),
    ):
        write_text(made / name, text)
    (made / "scripts/setup").chmod(0o755)
    git(tmp_path, "init", "--quiet", "checkout")
    for words in (["add", "."], ["commit", "--quiet", "-m", "1"], ["commit", "--quiet", "-m", "2", "--allow-empty"]):
        git(made, *words)
    git(made, "commit", "--quiet", "-m", "a stranger's", "--allow-empty")
    stranger = git(made, "rev-parse", "HEAD")
    git(made, "reset", "--quiet", "--hard", "HEAD~1")
    monkeypatch.chdir(made)
    monkeypatch.setenv("REPROFS_CACHE", str(tmp_path / "cache"))
    return SimpleNamespace(path=made, first=git(made, "rev-parse", "HEAD~1"), stranger=stranger)


def test_a_commit_outside_of_the_history_is_not_run(repository):
    said = []
    with (
        pytest.raises(UserError, match="is not in the history of this checkout"),
        commits.clone(repository.stranger, said.append),
    ):
        pass
    assert not said and not cache_folder().exists()
    assert not commits.renders_alike(repository.stranger)
    assert commits.renders_alike(repository.first)
    (repository.path / "notebooks/a").write_text("2")
    assert not commits.renders_alike(repository.first)


def test_a_clone_is_checked_before_its_use_and_the_users_repository_stays(repository, monkeypatch):
    """Also where a hook or `git rebase --exec` named the repository, and in a cache inside of another repository."""
    git(cache_folder().parent, "init", "--quiet")
    for name, value in (("GIT_DIR", ".git"), ("GIT_WORK_TREE", "."), ("GIT_INDEX_FILE", ".git/index")):
        monkeypatch.setenv(name, str(repository.path / value))
    head, clone = git(repository.path, "symbolic-ref", "HEAD"), cache_folder() / "commits" / repository.first

    def used() -> None:
        said: list[str] = []
        with commits.clone(repository.first, said.append) as made:
            assert made == clone and git(made, "rev-parse", "HEAD") == repository.first
            assert (made / "notebooks/a").read_text() == "1" and (made / "ran").exists()
        assert "which is in this checkout's history" in said[0]

    used()
    (clone / "notebooks/a").write_text("altered")
    used()
    shutil.rmtree(clone / ".git/objects")
    used()
    shutil.rmtree(clone / ".git")
    used()
    assert git(repository.path, "symbolic-ref", "HEAD") == head and not git(repository.path, "status", "--porcelain")


# ---- the log ---------------------------------------------------------------------------------------------------------


def publication(name: str, text: str = "{}"):
    write_text(folder := log.place(f"results/{name}/digests.json"), text)
    log.append(folder.parent)
    return folder.parent


def test_the_log_is_a_chain(repository):
    one = publication("one")
    publication("two")
    log.append(one)
    assert [line.name for line in log.lines()] == ["one", "two"]
    publication("one", "[]")
    assert log.standing(one, "one") == (
        True,
        f"results/LOG, line 3: published as one on {log.lines()[2].date}; no signed tag has this line",
    )
    (one / "digests.json").write_text("{ }")
    assert log.standing(one, "one") == (
        False,
        "results/LOG: the last line of one has another digest than digests.json: this result was altered",
    )
    (one / "digests.json").write_text("{}")
    assert not log.standing(one, "one")[0], "an earlier publication is not this one"
    elsewhere = shutil.copytree(one, one.parents[1] / "elsewhere")
    right, said = log.standing(elsewhere, "one")
    assert right and "line 1: published as one on" in said and "a later line has another digest" in said
    (elsewhere / "digests.json").write_text("a stranger's")
    assert log.standing(elsewhere, "one") == (
        True,
        "results/LOG has no line of it: it was not published here, but another one was",
    )
    text = log.place(log.LOG).read_text()
    lines = text.splitlines(keepends=True)
    for altered in (
        text.replace(" two ", " tow "),
        "".join(lines[1:]),
        "".join([lines[0], lines[2]]),
        "x" + text,
        text + "\n",
    ):
        log.place(log.LOG).write_text(altered)
        with pytest.raises(UserError, match="does not follow from the line before, so the log was altered"):
            log.lines()
    log.place(log.LOG).unlink()
    assert log.standing(one, "one") == (True, "there is no results/LOG here, so nothing says that it was published")


@pytest.mark.skipif(not shutil.which("ssh-keygen"), reason="nothing to sign with")
def test_a_signed_tag_that_has_the_line_is_named(repository, tmp_path):
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    (tmp_path / "signers").write_text(f"n@example.org {key.with_suffix('.pub').read_text()}")
    for name, value in (
        ("gpg.format", "ssh"),
        ("user.signingkey", key),
        ("gpg.ssh.allowedSignersFile", tmp_path / "signers"),
    ):
        git(repository.path, "config", name, str(value))
    one = publication("one")
    git(repository.path, "add", "-f", "results")
    git(repository.path, "commit", "--quiet", "-m", "published")
    git(repository.path, "tag", "-a", "v1", "-m", "not signed")
    assert log.standing(one, "one")[1].endswith("no signed tag has this line")
    git(repository.path, "tag", "-s", "v2", "-m", "signed")
    assert log.standing(one, "one")[1].endswith("the tag v2, whose signature git accepts, has this line")
    (tmp_path / "signers").write_text("")
    assert log.standing(one, "one")[1].endswith("no signed tag has this line"), "of a key that nobody trusts"


def test_the_log_has_every_published_result_and_was_only_appended_to():
    """Against git's history, too: the versions of the file on the main line are each the beginning of the next one."""
    known = {line.name: line.digest for line in log.lines()}
    published = {path.parent.name: sha256(path) for path in ROOT.glob("results/*/digests.json")}
    assert {name: known.get(name) for name in published} == published
    if git(ROOT, "rev-parse", "--is-shallow-repository") != "false":
        pytest.skip("this copy has no history")
    texts = [
        git(ROOT, "show", f"{one}:{log.LOG}")
        for one in git(
            ROOT, "log", "--first-parent", "--reverse", "--diff-filter=AM", "--format=%H", "--", log.LOG
        ).split()
    ]
    for before, after in itertools.pairwise([*texts, (ROOT / log.LOG).read_text().strip()]):
        assert after.startswith(before)


# ---- damaged and hostile results -------------------------------------------------------------------------------------

DEEP = json.loads("[" * 200 + "]" * 200)  # deeper ones are of `deep`: Python itself cannot write them
VALUES = [
    None,
    True,
    -1,
    -1e300,
    10**400,
    2**63,
    "",
    "x" * 400,
    "\ud800",
    "\x1b[2J",
    "../x",
    [],
    {},
    [[]],
    {"a": 1},
    DEEP,
]


def places(value, found=()):
    """Every key of a document, as a path."""
    for key in value if isinstance(value, dict) else range(min(len(value), 4)) if isinstance(value, list) else ():
        yield (*found, key)
        yield from places(value[key], (*found, key))


def mutated(draw, value):
    """A document with a key renamed, removed, or of another value."""
    *path, last = draw.choice(list(places(value)))
    inner = value
    for key in path:
        inner = inner[key]
    what = draw.randrange(4)
    if what == 0:
        del inner[last]
    elif what == 1 and isinstance(inner, dict):
        inner[draw.choice(["", "a/b", "\ud800", "x" * 300])] = inner.pop(last)
    else:
        inner[last] = copy.deepcopy(draw.choice(VALUES))
    return value


def of_bytes(draw, data: bytes) -> bytes:
    data = bytearray(data)
    for _ in range(draw.choice([1, 1, 5])):
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    return bytes(data[: draw.randrange(len(data))] if draw.random() < 0.2 else data)


def text_of(value) -> bytes:
    return json.dumps(value).encode()


def deep(draw) -> bytes:
    return b'{"a":' * 3000 + b"1" + b"}" * 3000


def mutate_record(draw, folder) -> None:
    """A record or the plan, with digests that fit as far as they can."""
    content = members(folder)
    name = draw.choice(sorted(content))
    one = mutated(draw, json.loads(content[name]))
    trial, fit = name[4:-5], None
    if name != "plan.json" and draw.random() < 0.7:
        with contextlib.suppress(Exception):
            one = seal(one)
            fit = lambda said: said["trials"][trial].update(  # noqa: E731
                measurement=one["digests"]["measurement"], identity=identity.of(identity.parts_of(one))
            )
    content[name] = deep(draw) if draw.random() < 0.05 else text_of(one)
    reseal(folder, content=content)
    if fit:
        with contextlib.suppress(Exception):
            reseal(folder, fit)


def mutate_members(draw, folder) -> None:
    """Members of other names and kinds."""
    content, made = members(folder), io.BytesIO()
    victim = draw.choice(sorted(content))
    names = ["raw", "plan.json", "../x", "/x", "raw/" * 900 + "x", "raw/\ud800.json", "raw/../../x", "profiles/x/y", ""]
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, data in content.items():
            entry = tarfile.TarInfo(draw.choice(names) if name == victim else name)
            entry.size = len(data)
            if name == victim and draw.random() < 0.6:
                entry.type, entry.linkname, entry.size = (
                    draw.choice(b"1234567xgLS").to_bytes(),
                    draw.choice(["x", "plan.json", "/etc/passwd", "."]),
                    0,
                )
            with contextlib.suppress(UnicodeEncodeError):
                archive.addfile(entry, io.BytesIO(data if entry.size else b""))
    data = made.getvalue()
    if draw.random() < 0.3:
        data = of_bytes(draw, data[:2048]) + data[2048:]
    (folder / "records-1.tar.xz").write_bytes(lzma.compress(data, preset=0))
    reseal(folder)


def mutate_digests(draw, folder) -> None:
    said = mutated(draw, read_json(folder / "digests.json"))
    (folder / "digests.json").write_bytes(deep(draw) if draw.random() < 0.05 else text_of(said))


def mutate_file(draw, folder) -> None:
    path = draw.choice(sorted(folder.iterdir()))
    path.write_bytes(of_bytes(draw, path.read_bytes()))
    if path.name != "digests.json" and draw.random() < 0.8:
        reseal(folder)


def mutate_folder(draw, folder) -> None:
    """A file in the place of a folder, a folder or a link in the place of a file."""
    path = draw.choice([*sorted(folder.iterdir()), *(folder / name for name in ("raw", "plan.json", "profiles", "x"))])
    path.unlink(missing_ok=True)
    how = draw.randrange(4)
    if how == 0:
        path.mkdir()
    elif how == 1:
        path.symlink_to(draw.choice([path.name, "/etc/passwd", "/proc/self/mem", "."]))
    else:
        path.write_bytes(b"x")
        with contextlib.suppress(OSError):
            reseal(folder)


MUTATIONS = [mutate_record, mutate_record, mutate_members, mutate_digests, mutate_file, mutate_folder]


def tried(draw, whole, where) -> str:
    """What is wrong with how a mutated result is taken; empty if it was refused in a sentence, or accepted."""
    folder = shutil.copytree(whole, where / "result")
    mutation = draw.choice(MUTATIONS)
    said: list[str] = []
    with contextlib.suppress(Exception):  # of the mutation itself, such as text that has no bytes: less of it then
        mutation(draw, folder)
    try:
        check.derived(folder, said.append)
    except UserError as error:
        said.append(str(error))
    except Exception as error:
        frame = [frame for frame in traceback.extract_tb(error.__traceback__) if "/reprofs/" in frame.filename][-1]
        return f"{mutation.__name__}: {type(error).__name__} {Path(frame.filename).name}:{frame.lineno}: {error!s:.150}"
    finally:
        shutil.rmtree(where)
        where.mkdir()
    long = [one for one in said if len(one.replace(str(where), "")) > 330]
    return f"{mutation.__name__}: too long: {long}" if long else ""


@pytest.mark.parametrize(
    "count", [pytest.param(60, marks=pytest.mark.wide), pytest.param(10_000, marks=pytest.mark.soak)]
)
def test_mutated_results_are_accepted_or_refused_in_one_sentence(folder, whole, tmp_path, count):
    draw, where = drawn(), tmp_path / "tried"
    where.mkdir()
    assert [found for _ in range(count) if (found := tried(draw, whole, where))] == []


@pytest.mark.parametrize("count", [150, pytest.param(10_000, marks=pytest.mark.soak)])
def test_mutated_archives_are_accepted_or_refused_in_one_sentence(whole, tmp_path, count):
    draw, wrong = drawn(), []
    content = {f"a/checkout/results/x/{path.name}": path.read_bytes() for path in whole.iterdir()} | {"a/verify": b"#!"}
    sums = "".join(f"{hashlib.sha256(data).hexdigest()}  {name[2:]}\n" for name, data in content.items())
    plain = tar([*content.items(), ("a/SHA256SUMS", sums.encode())])
    for number in range(count):
        heads = [at for at in range(0, len(plain), 512) if plain[at + 257 : at + 262] == b"ustar"]
        at = draw.choice(heads)
        data = plain[:at] + of_bytes(draw, plain[at : at + 512]) + plain[at + 512 :] if draw.random() < 0.6 else plain
        packed = lzma.compress(data, preset=0)
        packed = packed if data is not plain else of_bytes(draw, packed)
        (tmp_path / "made").write_bytes(packed)
        into = tmp_path / f"into-{number}"
        into.mkdir()
        try:
            sealed.result_of(tmp_path / "made", into)
        except UserError as error:
            wrong += [str(error)] if len(str(error).replace(str(tmp_path), "")) > 300 else []
        except Exception:
            wrong.append(traceback.format_exc()[-1500:])
        assert {path.name for path in tmp_path.iterdir()} == {"made", into.name}
        shutil.rmtree(into)
    assert not wrong
