"""The executables of the engine: how they are built, kept and handed to trials, and how their sources look."""

import json
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from conftest import BIN, ROOT
from helpers import CATALOG, cache_without, cell, rendered, shell
from reprofs import files
from reprofs.guest import engine as builder
from reprofs.guest import image
from reprofs.guest.hosts import Bridge
from reprofs.guest.steps import Exec, Job, Mkdir, engine_calls
from reprofs.labs import host, mount
from reprofs.plan.catalog import Catalog
from reprofs.plan.workload import Workload
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


@pytest.mark.wide
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
    (workload,) = re.findall(r"```yaml\n(title: Empty.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL)
    catalog = Catalog()
    catalog.add(Workload, "mine", yaml.safe_load(workload))
    made = rendered(cell(workload="mine"), catalog).text()
    assert "arg=mine\targ=-n\targ=1000\targ=-d\targ=." in made and "cwd=/run/reprofs/mnt/trial" in made


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
    parts = {str(path.relative_to(changed)) for path in builder.sources("replay-threads")}
    assert {"programs/replay-threads.c", "programs/replay/lanes.h", "programs/replay/call.h", "stream.c"} <= parts
    assert "programs/replay/passes.h" not in parts


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


# What is asked of a program, and what its sentence has. What all programs refuse alike, by options.c, stands here once.
TREE = "--files 3 --sizes 1:1 --level"
PROFILE = "--ages 1:1,2:1 --sizes 1:1 --folders 1:1:1"
WRONG = {
    "access-lists": [("--how set d", "--files must be given")],
    "age": [
        ("", "--fill is missing"),
        ("--fill 99", "--fill cannot be 99", "1 to 97"),
        ("--fill 50 --churn -1", "--churn cannot be -1"),
        ("--fill 50 --churn nan", "--churn cannot be nan"),
        ("--fill 50 --size-median 0", "--size-median cannot be 0"),
        ("--fill 50 --size-median 1G", "--size-median", "above --size-max"),
        ("--verify --layout", "exclude"),
    ],
    "age-by-profile": [
        ("--fill 50", "--ages, --sizes and --folders are needed"),
        (f"{PROFILE}", "--fill is missing"),
        (f"{PROFILE} --fill 98", "--fill cannot be 98", "1 to 97"),
        ("--ages 2:1,1:1", "--ages cannot be 2:1,1:1"),
        ("--ages 1:0", "--ages cannot be 1:0"),
        ("--ages 1:1;2:1", "--ages cannot be 1:1;2:1"),
        ("--sizes 1:nan", "--sizes cannot be 1:nan"),
        ("--folders 1:1", "--folders cannot be 1:1"),
        ("--folders 65:1:1", "--folders cannot be 65:1:1"),
    ],
    "compile-tree": [
        ("-i 0", "-i", "from 1"),
        ("-b 0", "-b"),
        ("--files 19", "--files", "19"),
        ("--files 1e3", "--files", "1e3"),
        ("--order create,build", "build", "known"),
        ("--order create,", "comma"),
        ("--order ''", "--order"),
        ("--order clean --state unpatched", "clean", "unpatched"),
        ("--order create,create", "create", "unpatched", "operation 2"),
        ("--order read", "read", "absent"),
        ("--state unpatched", "--state", "--order"),
        ("--state broken --order read", "broken", "known"),
        ("--makej --order create", "--makej", "--order"),
        ("--makej -r 5", "-r"),
        ("--reads 1", "--reads", "--makej"),
        ("--content zeros", "zeros", "letter", "random"),
        ("--list kernel", "kernel", "known"),
    ],
    "file-ops": [
        ("--how create d", "--files"),
        ("--how link --files 1 --flush file d", "--flush folder"),
        ("--how unlink --files 1 d", "unlink"),
        ("--how get-attributes --files 1 --flush file d", "leave --flush out"),
        ("--how punch --files 1 --bytes 8K d", "12K"),
    ],
    "look-alike": [
        ("", "--files is missing"),
        ("--files 0", "--files cannot be 0"),
        ("--files 3", "--level and --sizes are missing"),
        ("--files 3 --sizes 1:2,1:3", "--sizes cannot be"),
        ("--files 3 --sizes 1:0", "--sizes cannot be"),
        (f"{TREE} 1/0/0/0//", "has files"),
        (f"{TREE} 1/1/0//", "--level cannot be"),
        ("--files 3 --compress 101", "--compress cannot be 101"),
        (f"{TREE} 1/1/0/0// --level 1/0/0/0// --files 100000000", "more than 6000000 folders"),
    ],
    "mdtest": [
        ("-I 0", "-I cannot be 0"),
        ("-I many", "-I cannot be many"),
        ("-I", "-I needs a value"),
        ("", "-I", "-n"),
        ("-I 1 -n 1", "either -I", "-n"),
        ("-n 6 -b 2 -z 2", "-n 6", "7 directories"),
        ("-n 3 -b 2 -z 2 -L", "-n 3", "4 directories"),
        ("-I 1 --tasks 0", "--tasks", "from 1"),
        ("-I 1 --tasks 5000", "--tasks", "to 1024"),
        ("-I 1 -N 2 --tasks 2", "-N 2", "tasks"),
        ("-I 1 -b 0 -z 1", "-b 0"),
        ("-I 1 -b 1000 -z 9", "1000000000 directories"),
        ("-I 900G -b 9 -z 2", "items"),
        ("-I 1 -F -D", "-F", "-D"),
        ("-I 1 -F --rename", "--rename", "-F"),
        ("-I 1 -e 5", "-e 5", "-w"),
        ("-I 1 --std both", "--std", "both"),
        ("-I 1 -i 0", "-i"),
        ("-I 1 --passes 0", "--passes"),
        (f"-I 1 -z 100 -b 1 -d {'d' * 3000}", "paths", "longer"),
    ],
    "read-while-write": [
        ("--size 1M --count 1", "--prepare"),
        ("--size 1M --count 1 --prepare 1 --buffer 64K --chunk 100K", "--chunk must be a multiple"),
        ("--size 1G --count 4294967295 --prepare 4294967295", "too large"),
    ],
    "record-sweep": [
        ("--file-sizes 1M", "--record-sizes must be given"),
        ("--file-sizes 1M --record-sizes 2M", "no record fits into a file of 1048576 bytes"),
        ("--file-sizes 1M,,2M --record-sizes 4K", "not '1M,,2M'"),
        ("--file-sizes 1M,1024K --record-sizes 4K", "twice"),
        ("--file-sizes 1M --record-sizes 1000 -I", "multiples of 4K"),
        ("--file-sizes 1M --record-sizes 4K --prefix A_", "--prefix"),
    ],
    "scratch-dna": [
        ("", "usage"),
        ("-5 10 1 d", "number-of-files", "-5"),
        ("5 0 1 d", "file-size-bytes"),
        ("5 10 -1 d", "random-multiplier", "-1"),
        ("5 10 x d", "random-multiplier", "x"),
        ("-p 0 5 10 1 d", "-p"),
        ("-p 6 5 10 1 d", "6 workers", "5 files"),
    ],
    "stream-fill": [
        ("--size 1M", "give either --count above zero or --until-full"),
        ("--size 1M --count 2 --until-full", "give either"),
        ("--size 0 --count 2", "--size, the bytes of a file"),
        ("--size -1 --count 2", "--size needs a number"),
        ("--size 1M --count 2 --buffer 0", "--buffer must be above zero"),
        ("--size 1000 --count 2 --direct", "multiples of 4K"),
        ("--size 4T --count 16777216", "--size times --count is too large"),
    ],
    "walk": [
        ("", "folder"),
        ("--threads 33 .", "--threads", "32"),
        ("--threads 0 .", "--threads"),
        ("--depth -1 .", "--depth", "-1"),
        ("--count .", "--count", "--fast"),
        ("--passes 2 .", "--passes", "--fast"),
        ("--fast --count --output x .", "--count", "--output"),
        ("--header .", "--header"),
        (". ..", ".. is one argument too many"),
    ],
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments_are_one_sentence_before_anything_is_done(run, name):
    for arguments, *words in WRONG[name]:
        for check in ([], ["--check"]):
            said = run(name, *check, *shlex.split(arguments), expect=2)
            assert not said.stdout and all(word in said.stderr for word in words), (arguments, said.stderr)
    assert not list(run.folder.iterdir())


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("mdtest", "--help"), 0, ["usage: engine mdtest"]),
        (("--help",), 0, ["access-lists, age, ", ", walk"]),
        (("mdtset",), 2, ["no program 'mdtset': did you mean mdtest?"]),
        (("nonsense",), 2, ["no program 'nonsense': known are access-lists, age, age-by-profile, ", " more."]),
    ],
)
def test_the_word_engine_by_hand(words, code, told):
    done = subprocess.run([BIN / "engine", *words], capture_output=True, text=True)
    said = done.stderr if code else done.stdout
    assert done.returncode == code and all(word in said for word in told), said


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
    own = cache_without(tmp_path, "engine")
    shutil.copytree(files.cache_folder() / "engine", own / "engine")
    monkeypatch.setenv("REPROFS_CACHE", str(own))
    return own


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


@pytest.mark.wide
def test_a_trial_has_its_own_programs_and_no_others(guest, recorded):
    record = recorded(TRIAL)
    assert record["status"] == "ok", record["reason"]
    (command,) = [one for one in record["measurement"]["commands"] if one["stage"] == "programs"]
    assert command["exit"] == 0
    lab = record["environment"]["lab"]
    assert lab["programs_sha256"] == {"mdtest": files.sha256(builder.build(files.cache_folder(), "mdtest"))}
    assert lab["engine_sha256"] == guest["engine_sha256"] == files.sha256(builder.build(files.cache_folder()))
    assert not [one for one in recorded(cell("ext4"))["measurement"]["commands"] if one["stage"] == "programs"]


@pytest.mark.wide
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
