"""The executables of the engine: how they are built, kept and handed to trials, and how their sources look."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import BIN, ROOT
from helpers import CATALOG, cell, shell
from reprofs import files
from reprofs.guest import engine as builder
from reprofs.guest import image
from reprofs.guest.hosts import Bridge
from reprofs.guest.steps import Exec, Job, Mkdir, engine_calls
from reprofs.labs import host, mount
from reprofs.trial.run import run_trial

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="the host lab needs root")
PROGRAM = """#include "program.h"
static uint64_t n;
static const struct option options[] = {NUMBER("-n", n, 2, 5, "a number")};
static int check(void) { return needs(n, 1); }
static int run(void) { return (int)n; }
const struct program program = {"another", "Does nothing.", OPTIONS(options), NULL, check, run};
"""
TRIAL = cell("ext4", workload="mdtest")


@pytest.fixture
def changed(tmp_path, monkeypatch) -> Path:
    """Sources with a program more, and with a program (walk) that prints something else; elsewhere, too."""
    source = shutil.copytree(builder.SOURCE, tmp_path / "source")
    (source / "programs/another.c").write_text(PROGRAM)
    walk = source / "programs/walk.c"
    walk.write_text(walk.read_text().replace("entries %llu directories", "names %llu directories"))
    monkeypatch.setattr(builder, "SOURCE", source)
    return source


def test_a_program_more_or_changed_leaves_the_bytes_of_all_others(engine, tmp_path, changed):
    """They are compiled again, from another folder, in which files are listed in another order."""
    with pytest.MonkeyPatch.context() as patch:
        listed = Path.glob
        patch.setattr(Path, "glob", lambda folder, pattern: list(listed(folder, pattern))[::-1])
        now = {name: files.sha256(builder.build(tmp_path / "cache", name)) for name in ["", *builder.names()]}
    before = {name: files.sha256(path) for name, path in original(["", *builder.names()]).items()}
    assert {name for name in now if now[name] != before.get(name)} == {"another", "walk"}
    assert len(now) > 10 and len(set(now.values())) == len(now)


def test_the_example_of_contributing_is_a_program(tmp_path, monkeypatch):
    (text,) = re.findall(r"```c\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL)
    source = shutil.copytree(builder.SOURCE, tmp_path / "source")
    (source / "programs/mine.c").write_text(text)
    monkeypatch.setattr(builder, "SOURCE", source)
    program, folder = builder.build(tmp_path / "cache", "mine"), tmp_path / "made"
    folder.mkdir()
    needs = subprocess.run([program, "--check", "-n", "10", "-d", folder], capture_output=True, text=True, check=True)
    assert json.loads(needs.stdout) == {"bytes": 0, "names": 10} and not list(folder.iterdir())
    subprocess.run([program, "-n", "10", "-d", folder], check=True)
    assert len(list(folder.iterdir())) == 10


def original(names: list[str]) -> dict[str, Path]:
    """Executables of the checkout's own sources."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(builder, "SOURCE", ROOT / "scripts/engine")
        return {name: builder.build(files.cache_folder(), name) for name in names if name in ("", *builder.names())}


def test_an_executable_is_made_of_what_it_includes(changed):
    made = {path.name for path in builder.sources("another")}
    assert made == {"another.c", "program.h", "program.c", "options.h", "options.c", "measure.h"}
    assert not {"job.c", "phase.c"} & {path.name for path in builder.sources("mdtest")}
    assert not {"program.c", "stream.c"} & {path.name for path in builder.sources()}


def test_a_program_is_one_file_and_tells_its_table(changed, tmp_path, says):
    made = builder.build(tmp_path / "cache", "another")

    def ask(*words):
        return subprocess.run([made, *words], capture_output=True, text=True)

    assert ask("-n", "4").returncode == 4
    assert json.loads(ask("-n", "4", "--check").stdout) == {"bytes": 4, "names": 1}
    says(ask("-n", "6"), "engine: another: -n cannot be 6: give a whole number from 2 to 5")
    says(ask("--nonsense"), "unknown option --nonsense; known are -n, --check, --help")
    told = ask("--help")
    assert told.returncode == 0 and "Does nothing." in told.stdout
    assert re.search(r"^  -n N +a number \(2 to 5\)$", told.stdout, re.MULTILINE)


@pytest.mark.parametrize("name", builder.names())
def test_every_program_has_its_name_and_tells_what_it_takes(engine, name):
    told = subprocess.run([engine, name, "--help"], capture_output=True, text=True)
    assert told.returncode == 0 and f"\nusage: engine {name} " in told.stdout
    refused = subprocess.run([engine, name, "--no-such-option"], capture_output=True, text=True)
    assert refused.returncode == 2 and refused.stderr.startswith(f"engine: {name}: unknown option --no-such-option")
    options = re.findall(r"^  (--?\S+)", told.stdout, re.MULTILINE)
    assert refused.stderr.partition("; known are ")[2].strip().split(", ") == options


def test_the_word_engine_by_hand(says):
    told = subprocess.run([BIN / "engine", "mdtest", "--help"], capture_output=True, text=True)
    assert told.returncode == 0 and "usage: engine mdtest" in told.stdout
    told = subprocess.run([BIN / "engine", "--help"], capture_output=True, text=True)
    assert told.returncode == 0 and "access-lists, age, " in told.stdout and ", walk" in told.stdout
    said = subprocess.run([BIN / "engine", "mdtset"], capture_output=True, text=True)
    says(said, "no program 'mdtset': did you mean mdtest?")
    said = subprocess.run([BIN / "engine", "nonsense"], capture_output=True, text=True)
    says(said, "no program 'nonsense': known are access-lists, age, archive, ", " more.")


@pytest.mark.parametrize(
    ("argv", "calls"),
    [
        (["engine", "mdtest", "-C"], [["mdtest", "-C"]]),
        (["bash", "-c", '"$ENGINE" archive --part $k/3 | tar -x; exec "$ENGINE" walk .'], 2),
        (["sh", "-c", 'test -e x && "$ENGINE" walk . > out', "sh", "$ENGINE"], [["walk", "."], []]),
        (["fio", "--ioengine=sync"], []),
    ],
)
def test_which_programs_a_command_runs(argv, calls):
    found = engine_calls(argv)
    if calls == 2:
        assert [call[0] for call in found] == ["archive", "walk"]
    else:
        assert found == calls


# ---- a phase seen from outside ---------------------------------------------------------------------------------------


def test_marks_of_a_phase_stand_once_in_the_runner(engine):
    """Two no-ops that a profiler knows by their bytes: nopl with a displacement, RFS1 and RFS2."""
    runner = engine.read_bytes()
    assert [runner.count(b"\x0f\x1f\x84\x00" + name) for name in (b"RFS1", b"RFS2")] == [1, 1]
    assert runner.count(b"RFS") == 2


# ---- how the sources look --------------------------------------------------------------------------------------------

BRANCH = re.compile(r"\b(?:if|for|while|case)\b|&&|\|\||\?")
LINES, BRANCHES = 60, 20


def functions(text: str):
    """(name, lines, branches) of every function of a C file that clang-format has laid out."""
    blank = re.compile(r"/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])'", re.DOTALL)
    text = blank.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    # From a line at the margin, which may go on in indented ones, to the brace at the margin that ends it.
    for found in re.finditer(r"^[a-z_][^;{}=]*?\b(\w+)\([^;{}]*\) \{ *\n(?:.*\n)*?\}$", text, re.MULTILINE):
        yield found[1], found[0].count("\n") + 1, len(BRANCH.findall(found[0]))


def test_the_counting_of_functions():
    text = "static int a(\n    int x) {\n    /* if { */\n    return x ? 1 : 2; // '{'\n}\n"
    text += 'int b(void) { /* while */\n    f("}");\n}\n'
    assert list(functions(text)) == [("a", 5, 1), ("b", 3, 0)]
    assert [name for name, *_ in functions((builder.SOURCE / "phase.c").read_text())][-1] == "step_phase"


@pytest.mark.parametrize("path", sorted(builder.SOURCE.rglob("*.[ch]")), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_functions_are_short(path):
    text = path.read_text()
    found = list(functions(text))
    assert len(found) == len(re.findall(r"^\}$", text, re.MULTILINE)), "every function was seen"
    assert [one for one in found if one[1] > LINES or one[2] > BRANCHES] == []


# ---- the cache -------------------------------------------------------------------------------------------------------


def flip(path: Path) -> bytes:
    """Changes a byte of a file. Returns what was there."""
    whole = path.read_bytes()
    path.chmod(0o755)
    with path.open("r+b") as file:
        file.seek(len(whole) // 2)
        file.write(bytes([whole[len(whole) // 2] ^ 1]))
    return whole


@pytest.fixture
def cache(tmp_path, monkeypatch, engine) -> Path:
    """A cache of this test alone, in which guests and snapshots are those of all."""
    (tmp_path / "cache").mkdir()
    for made in files.cache_folder().iterdir():
        if made.name not in ("work", "engine"):
            (tmp_path / "cache" / made.name).symlink_to(made)
    shutil.copytree(files.cache_folder() / "engine", tmp_path / "cache/engine")
    monkeypatch.setenv("REPROFS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.parametrize("name", ["", "mdtest"])
def test_a_damaged_executable_is_made_again(cache, name):
    path = builder.build(cache, name)
    whole = flip(path)
    assert path.read_bytes() != whole
    assert builder.build(cache, name) == path and path.read_bytes() == whole


@pytest.mark.parametrize(
    ("lab", "first"),
    [
        (mount, []),  # whose clients over ssh get the same files
        pytest.param(host, [], marks=needs_root),
        pytest.param(host, [Bridge(mtu=1500, names={})], marks=needs_root),  # in namespaces of more kinds
    ],
)
def test_damage_is_found_without_a_guest(cache, tmp_path, lab, first):
    damaged = {name: flip(builder.build(cache, name)) for name in ("", "mdtest")}
    words = ["engine", "mdtest", "-C", "-F", "-I", "3", "-d", "here"]
    folder = "/run/reprofs/mnt"
    job = Job([*first, Mkdir(path=folder), Exec(stage="x", cwd=folder, arg=words)], mountpoint=folder)
    outcome = lab.Lab.open(path=str(tmp_path)).run(job, 60)
    assert outcome.ending == "finished" and b'"failed"' not in outcome.output, outcome.output
    assert b"mdtest-1.9.3+reprofs was launched" in outcome.output
    for name, whole in damaged.items():
        assert builder.build(cache, name).read_bytes() == whole
    environment = outcome.environment
    assert environment["engine_sha256"] == files.sha256(builder.build(cache))
    assert environment["programs_sha256"] == {"mdtest": files.sha256(builder.build(cache, "mdtest"))}


def test_damage_is_found_before_a_guest_is_built(cache, reprofs, tmp_path, guest):
    flip(builder.build(cache))
    made = reprofs("guest", "--output", tmp_path / "base.json")
    assert made.returncode == 0, made.stderr
    assert json.loads((tmp_path / "base.json").read_text()) == guest


# ---- trials in the exact lab -----------------------------------------------------------------------------------------


def test_a_trial_has_its_own_programs_and_no_others(guest, recorded):
    record = recorded(TRIAL)
    assert record["status"] == "ok", record["reason"]
    (command,) = [one for one in record["measurement"]["commands"] if one["stage"] == "programs"]
    assert command["exit"] == 0
    lab = record["environment"]["lab"]
    assert lab["programs_sha256"] == {"mdtest": files.sha256(builder.build(files.cache_folder(), "mdtest"))}
    assert lab["engine_sha256"] == guest["engine_sha256"] == files.sha256(builder.build(files.cache_folder()))
    assert not [one for one in recorded(cell("ext4"))["measurement"]["commands"] if one["stage"] == "programs"]


def test_numbers_of_a_trial_stay_with_other_programs_in_the_tree(guest, recorded, changed, cache, tmp_path):
    """With a program more, one changed that the trial does not use, and its own one damaged in the cache."""
    before = recorded(TRIAL)
    again = image.build(cache, tmp_path / "guest.json", builder.build(cache), print)
    assert again == guest, "what the guest carries has no program"
    flip(builder.build(cache, "mdtest"))
    after = run_trial(TRIAL, CATALOG, tmp_path / "r.json")
    assert after["digests"]["measurement"] == before["digests"]["measurement"]
    assert after["environment"]["lab"]["programs_sha256"] == before["environment"]["lab"]["programs_sha256"]


def test_a_program_that_is_not_there_is_one_sentence(guest):
    from reprofs.errors import UserError
    from reprofs.labs import exact

    with pytest.raises(UserError, match="the engine has no program 'nonsense': known are access-lists, age, "):
        exact.Lab.open().run(Job([shell('"$ENGINE" nonsense')]), 60)
