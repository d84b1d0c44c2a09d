"""Crash states: which there are, what must hold in them, and that a broken file system and a broken oracle are seen."""

import base64
import gzip
import json
import shlex
import struct
import subprocess
import sys

import pandas as pd
import pytest
import yaml
from conftest import ROOT
from helpers import CATALOG, cell, put, rendered
from pydantic import ValidationError
from reprofs.data import outputs
from reprofs.errors import FileError, UserError
from reprofs.guest.lock import built_module, read_lock
from reprofs.plan import sequences, workload
from reprofs.plan.cell import Cell
from reprofs.plan.device import CRASH_MIB
from reprofs.plan.workload import Workload
from reprofs.report.sentences import states as words
from reprofs.stats import states as statistics
from reprofs.trial import state
from reprofs.trial.resolve import resolve

SOURCES = ROOT / "scripts/engine"
BEFORE = "before mkdir A;create A/old;write A/old 0 8192;create foo;write foo 0 8192"


def compiled(folder, change=None):
    """tests/crash.c, with a text of the oracle or of the states replaced: (file, from, to)."""
    sources = folder / "engine"
    subprocess.run(["cp", "-r", str(SOURCES), str(sources)], check=True)
    if change:
        file, old, new = change
        text = (sources / "programs/crash" / file).read_text()
        assert text.count(old) == 1, change
        (sources / "programs/crash" / file).write_text(text.replace(old, new))
    program = folder / "crash"
    words = ["-std=gnu11", "-O1", "-w", "-iquote", str(sources), str(ROOT / "tests/crash.c"), "-o", str(program)]
    subprocess.run([sys.executable, "-m", "ziglang", "cc", *words], check=True)
    return program


def told(program, *lines: str) -> list[str]:
    text = "\n".join([BEFORE, *lines]) + "\n"
    done = subprocess.run([str(program)], input=text, capture_output=True, text=True, check=True)
    return [line.strip() for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def oracle(tmp_path_factory):
    """Runs lines of tests/crash.c, after what is there before: the lines that it prints."""
    program = compiled(tmp_path_factory.mktemp("oracle"))
    return lambda *lines: told(program, *lines)


# Name -> the lines, and what is found. Each world as it is must be right.
APPEND, NEW, MOVE, OVER, FOLDER, AGAIN = (
    "sequence write foo 8192 4096;fsync foo",
    "sequence create bar;write bar 0 4096;fsync bar;fsyncdir .",
    "sequence rename foo A/foo;sync",
    "sequence rename foo A/old;sync",
    "sequence rename A C;create C/new;fsync C/new;fsyncdir C",
    "sequence create new;write new 0 4096;fsync new;rename new bar;create new;write new 0 4096;fsync new",
)
SWAP, FAILED = "sequence mkdir B;sync;rename A B", ["sequence write foo 8192 4096", "failed", "sequence fsync foo"]
CASES = {
    "fdatasync does not flush an attribute": (["sequence setxattr foo;fdatasync foo", "as 0", "judge 2 2"], ""),
    "fsync does": (["sequence setxattr foo;fsync foo", "as 0", "judge 2 2"], "damaged!"),
    "and what it flushed stays": (["sequence setxattr foo;fsync foo;fdatasync foo", "as 0", "judge 3 3"], "damaged!"),
    "a replaced folder has no name, which nobody promised": (
        ["promises fsync folder sync,", SWAP, "as 2", "gone B", "judge 2 3"],
        "name",
    ),
    "and which somebody did": ([SWAP, "as 2", "gone B", "judge 2 3"], "name!"),
    "a write that failed has written nothing": ([*FAILED, "as 0", "judge 2 2"], ""),
    "or all": ([*FAILED, "as 1", "judge 2 2"], ""),
    "but nothing else": ([*FAILED, "as 1", "shows foo 12288 oldx16,leftx8", "judge 2 2"], "leak"),
    "and what was there before stays": ([*FAILED, "as 0", "gone foo", "judge 2 2"], "lost!"),
    "a flush that failed has flushed nothing": (
        ["sequence write foo 0 4096;fsync foo", "failed", "as 0", "judge 2 2"],
        "",
    ),
    "a name that failed is not there": (
        ["sequence create bar", "failed", "sequence sync", "as 2", "shows bar 0 0x0", "judge 2 2"],
        "name!",
    ),
    "old content before the flush": ([APPEND, "as 0", "judge 1 2"], ""),
    "new content before the flush": ([APPEND, "as 1", "judge 0 1"], ""),
    "only half of it before the flush": ([APPEND, "as 1", "shows foo 12288 oldx16,1x4,0x4", "judge 1 2"], ""),
    "old content after it": ([APPEND, "as 0", "judge 2 2"], "damaged!"),
    "zeros after it": ([APPEND, "as 2", "shows foo 12288 oldx16,0x8", "judge 2 2"], "damaged!"),
    "too short after it": ([APPEND, "as 2", "shows foo 8192 oldx16", "judge 2 2"], "damaged!"),
    "too long, and nobody appended": (
        ["sequence create bar;sync", "as 2", "shows foo 12288 oldx16,0x8", "judge 2 2"],
        "damaged!",
    ),
    "what was flushed before is gone": ([APPEND, "as 1", "gone foo", "judge 0 1"], "lost!"),
    "what was flushed before has an error": ([APPEND, "as 1", "error foo", "judge 0 1"], "unreadable! unreadable"),
    "what the disk had, before the flush": ([APPEND, "as 1", "shows foo 12288 oldx16,leftx8", "judge 1 2"], "leak"),
    "what the disk had, after it": ([APPEND, "as 1", "shows foo 12288 oldx16,leftx8", "judge 2 2"], "damaged! leak"),
    "another's content": ([APPEND, "as 1", "shows foo 12288 oldx16,old@A/oldx8", "judge 1 2"], "leak"),
    "no promise, no broken one": (["promises none", APPEND, "as 0", "judge 2 2"], "damaged"),
    "a new file is nowhere before its folder is flushed": ([NEW, "as 0", "judge 3 4"], "unnamed"),
    "and after": ([NEW, "as 0", "judge 4 4"], "lost!"),
    "its folder is flushed, its content not": (
        ["sequence create bar;write bar 0 4096;fsyncdir .", "as 1", "judge 3 3"],
        "",
    ),
    "a flushed folder lacks a name": (["sequence create bar;fsyncdir .", "as 0", "judge 2 2"], "name!"),
    "a flushed folder has a removed name": (["sequence unlink foo;fsyncdir .", "as 0", "judge 2 2"], "name!"),
    "a removed name before the flush": (["sequence unlink foo;fsyncdir .", "as 0", "judge 1 2"], ""),
    "a renamed file at its old name is not lost": ([MOVE, "as 0", "judge 1 2"], ""),
    "at its new name": ([MOVE, "as 1", "judge 1 2"], ""),
    "at both": ([MOVE, "as 1", "shows foo 8192 old@A/foox16", "judge 1 2"], "twice!"),
    "at none": ([MOVE, "as 1", "gone A/foo", "judge 1 2"], "lost!"),
    "at none, which nobody promised": (
        ["promises fsync folder sync,", MOVE, "as 1", "gone A/foo", "judge 1 2"],
        "lost",
    ),
    "at its old name after the flush": ([MOVE, "as 0", "judge 2 2"], "lost! name!"),
    "what was there may be replaced": ([OVER, "as 1", "judge 1 2"], ""),
    "or not yet": ([OVER, "as 0", "judge 1 2"], ""),
    "but is not in pieces": ([OVER, "as 0", "shows A/old 8192 old@foox8,0x8", "judge 1 2"], "damaged!"),
    "a file in a renamed folder moves with it": (["sequence rename A C;sync", "as 1", "judge 2 2"], ""),
    "or stays with it": (["sequence rename A C;sync", "as 0", "judge 1 2"], ""),
    "a new file in a renamed folder, in its old place": (
        [FOLDER, "as 0", "shows A/new 0 0x0", "judge 3 3"],
        "unnamed",
    ),
    "the same, after its folder was flushed": (
        [FOLDER, "as 0", "shows A/new 0 0x0", "judge 4 4"],
        "unnamed",
    ),
    "a new file that is in neither place": ([FOLDER, "as 0", "judge 4 4"], "lost! unnamed"),
    "a renamed file that was flushed, and in its place a new one that shows what the disk had": (
        [AGAIN, "as 7", "gone bar", "shows new 4096 leftx8", "judge 6 7"],
        "unnamed leak",
    ),
    "one folder of a chain of renamed ones": (
        ["sequence rename A C;mkdir C/D;create C/D/new;fsync C/D/new", "as 4", "gone C/D/new", "judge 4 4"],
        "unnamed",
    ),
    "a replaced file of which nobody flushed the new content": (
        ["sequence create bar;write bar 0 4096;rename bar foo;fsyncdir .", "as 4", "shows foo 0 0x0", "judge 4 4"],
        "",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_seen_is_judged(oracle, name):
    lines, found = CASES[name]
    (said,) = oracle(*lines)
    assert said == found


@pytest.mark.parametrize(
    "sequence", [APPEND, NEW, MOVE, OVER, "sequence link foo bar;sync", "sequence truncate foo 0;sync"]
)
def test_no_world_is_a_finding_of_its_own(oracle, sequence):
    calls = sequence.count(";") + 1
    lines = [line for q in range(calls + 1) for line in (f"as {q}", f"judge {q} {q}")]
    assert oracle(sequence, *lines) == [""] * (calls + 1)


@pytest.mark.parametrize(
    ("lines", "wrong"),
    [
        ([APPEND, "as 1"], ""),
        ([APPEND, "as 0"], "foo has 8192 bytes instead of 12288,"),
        ([OVER, "as 0"], "A/old has another's content in sector 0, foo is there,"),
        ([NEW, "as 2", "gone bar"], "bar is missing,"),
        ([NEW, "as 2", "shows bar 4096 0x8"], "bar has zeros in sector 0,"),
        ([NEW, "as 2", "error bar"], "bar Input/output error,"),
        (["sequence setxattr foo", "as 0"], "foo has another attribute,"),
        (["sequence write foo 0 4096;drop;remount", "as 1"], ""),
    ],
)
def test_what_is_wrong_before_any_cut(oracle, lines, wrong):
    assert oracle(*lines, "now") == [wrong]


MUTANTS = {
    "a file at its old name is lost": (
        "judge.h",
        "for (int q = names_flushed_at(n, done); q <= begun; q++)",
        "for (int q = begun; q <= begun; q++)",
    ),
    "nothing is ever lost": ("judge.h", "if (named == NOTHING) return true;", "return true;"),
    "sizes are not looked at": ("judge.h", "(s->bytes < least || s->bytes > most)", "(s->bytes < 0 && least && most)"),
    "zeros are always right": ("judge.h", "if (!own) return found(LEAK", "if (own && !own) return found(LEAK"),
    "names of folders are not looked at": ("judge.h", "if (never && seen[n].type)", "if (never && always)"),
    "a flush of the file flushes its name": (
        "judge.h",
        "(calls[q].persists == FOLDER && !strcmp(calls[q].word[1], folder))",
        "calls[q].persists",
    ),
    "a renamed folder has one place": (
        "judge.h",
        "if (may_have_elsewhere(n, rest, x, done, begun)) return true;",
        "(void)rest;",
    ),
    "names of flushed files are not looked at": (
        "judge.h",
        "if (always && !seen[n].type) return found(UNNAMED",
        "if (always && !always) return found(UNNAMED",
    ),
    "what is promised does not matter": (
        "judge.h",
        'found(kind, promised, "%s", what);',
        'found(kind, true, "%s", what);',
    ),
}


@pytest.mark.wide
@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_error_in_the_oracle_is_seen(tmp_path, name):
    program = compiled(tmp_path, MUTANTS[name])
    assert any(told(program, *lines) != [found] for lines, found in CASES.values())


def test_states_are_the_subsets_of_what_was_not_flushed(oracle):
    log = "log w:0:8 w:8:8 f w:16:8:fua w:0:8"
    found = oracle(log, "subsets without", "states")
    assert [line.split(" ", 1)[1] for line in found] == [
        "all",
        "all 0:8",
        "all 0:8 1:8",
        "without 1:8",
        "all 0:8 1:8 3:8",
        "all 0:8 1:8 3:8 4:8",
    ]
    assert found[0] == "0-2 all", "until the flush, nothing need be there"
    assert found[4].startswith("4-5"), "what asked for it itself is there"


def test_torn_writes_and_single_ones(oracle):
    found = oracle("log w:0:24 w:100:8", "subsets alone,torn-4k,torn-512", "states")
    hows = [line.split(" ", 1)[1] for line in found]
    assert "torn-4k 0:8" in hows and "torn-512 0:13" in hows, "the first half, in pages or in sectors"
    assert "alone 1:8" in hows and "torn-512 0:24 1:5" in hows
    assert len(hows) == len(set(hows))


def test_equal_states_are_one(oracle):
    found = oracle("log w:0:8 w:0:8 w:0:8", "subsets without,alone", "states")
    assert len(found) == 4, "the last writer of each sector decides"


def test_a_long_log_is_cut_at_some_places(oracle):
    log = "log " + " ".join(f"w:{8 * number}:8" for number in range(100))
    found = oracle(log, "subsets without", "states 4")
    places = [int(line.split("-")[0]) for line in found if line.split()[1] == "all"]
    assert places == [0, 33, 66, 100], "evenly, the first and the last among them"
    last = [line.split()[2:] for line in found if line.startswith("100-") and line.split()[1] == "without"]
    missing = [({f"{number}:8" for number in range(100)} - set(picks)).pop() for picks in last]
    assert missing == ["0:8", "33:8", "66:8", "99:8"] and all(len(picks) == 99 for picks in last)


# ---- sequences


def test_every_sequence_is_possible_and_flushed():
    of = sequences.read("seq-1")
    found = list(sequences.each(of))
    assert len(found) == len(set(found)) == 162
    assert "create bar;fsync bar;fsyncdir ." in found and "rename foo A/foo;fsyncdir .;fsyncdir A" in found
    assert "unlink foo;fsync foo" not in found and "rename A C;fsync C" not in found
    assert all(sequence.split(";")[-1].split()[0] in ("sync", "fsync", "fdatasync", "fsyncdir") for sequence in found)
    assert {name for name in of.calls if not list(sequences.each(of, name))} == set()


def test_published_histories_run_on_the_tree_of_every_finding():
    """So that `reprofs state` repeats them."""
    published = sequences.read("crashmonkey-2018")
    assert published.before == sequences.read(state.SET).before
    assert list(sequences.each(published, "bug-7")) == ["create bar;mkdir C;link bar C/bar;fsync bar"]
    phases = CATALOG.get(Workload, "crash-published").phases
    assert [phase.name for phase in phases] == list(published.histories)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (put("histories.one", ["create foo"]), "histories: one is not possible"),
        (put("histories.one", ["fsync"]), "has .fsync.: .* are calls"),
        (put("histories", {}), "needs calls or histories"),
        (put("before.0", "sync"), "has .sync.: .* are calls"),
    ],
)
def test_a_history_that_cannot_be_is_named(change, sentence):
    data = yaml.safe_load((ROOT / "workflow/sequences/crashmonkey-2018.yaml").read_text())
    change(data)
    with pytest.raises(ValidationError, match=sentence):
        sequences.Sequences.model_validate(data)


def test_two_calls_are_possible_one_after_the_other():
    of = sequences.read("seq-1").model_copy(update={"length": 2})
    found = list(sequences.each(of, "unlink"))
    assert "create bar;unlink foo;sync" in found and "rename A C;unlink A/old;sync" not in found
    assert "unlink A/old;fsyncdir A;unlink foo;fsyncdir ." in found
    assert not any(sequence.startswith("unlink foo;unlink foo") for sequence in found)


def test_words_of_a_command():
    words = shlex.split(sequences.arguments("seq-1/rmdir"))
    assert words[::2] == ["--before", "--sequences"] and words[3] == "rmdir B;sync|rmdir B;fsyncdir ."
    assert len(shlex.split(sequences.arguments("seq-1/create%3"))[3].split("|")) == 4
    with pytest.raises(UserError, match="operation of seq-1"):
        sequences.arguments("seq-1/nothing")


def test_what_is_no_call_is_named(says):
    data = {"title": "x", "source": "x", "before": ["create foo"], "calls": {"a": ["creat bar"]}}
    with pytest.raises(ValueError, match="creat bar"):
        sequences.Sequences.model_validate(data)
    of = sequences.Sequences(**data | {"before": ["write foo 0 512"], "calls": {"a": ["create bar"]}})
    with pytest.raises(UserError, match="not possible"):
        list(sequences.each(of))


# ---- the program, the job, the tables


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "--sequences is missing"),
        (["--sequences", "creat foo"], "`creat foo` is no call: see workflow/sequences"),
        (["--sequences", "write foo 0 100"], "must have sizes in whole sectors"),
        (["--sequences", "fsync"], "has not 2 words"),
        (["--sequences", "sync", "--save", "x"], "--save and --again-at go with --at"),
        (["--sequences", "sync", "--subsets", "some"], "--subsets"),
    ],
)
def test_wrong_arguments(engine, words, sentence):
    done = subprocess.run([str(engine), "states", "--check", *words], capture_output=True, text=True)
    assert done.returncode == 2 and sentence in done.stderr and len(done.stderr) < 300


def crash(filesystem: str, **changes):
    return cell(filesystem, **{"profile": "crash", "workload": "crash-states", **changes})


def test_the_module_comes_with_the_programs_and_makes_the_disk():
    job = rendered(crash("jfs"))
    lines = job.text().splitlines()
    first = next(number for number, line in enumerate(lines) if "stage=programs" in line)
    disk = next(number for number, line in enumerate(lines) if "crashdisk.ko" in line)
    make = next(number for number, line in enumerate(lines) if "mkfs.jfs" in line)
    assert first < disk < make and job.modules() == ["crashdisk"]
    assert f"arg=size_mib={CRASH_MIB}\targ=cache=1" in lines[disk]
    assert "arg=cache=0" in rendered(crash("jfs", profile="crash-no-cache")).text()
    assert rendered(cell("jfs")).modules() == []
    visit = next(line for line in lines if "name=create" in line)
    assert "arg=--recover\targ=sh -c 'fsck.jfs" in visit and "arg=--promises\targ=none" in visit
    assert "arg=--type\targ=jfs\targ=--options\targ=relatime" in visit


def test_what_is_mounted_by_commands_is_mounted_by_them():
    overlay = rendered(crash("overlay")).text()
    assert "arg=--mount\targ=mount -t ext4" in overlay and "arg=--type" not in overlay
    btrfs = rendered(crash("btrfs", variant="none")).text()
    assert "arg=--type\targ=btrfs" in btrfs and "arg=--promises\targ=fsync,folder,sync,rename" in btrfs


def test_the_lock_has_the_module_for_every_kernel():
    built = read_lock().built
    for kernel in (None, "debian-5.10", "debian-6.1", "debian-6.12", "debian-7.3"):
        assert built_module("crashdisk", kernel) in built
    assert built["crashdisk.ko"][1] == built["kernel-debian-6.12/crashdisk.ko"][1]


ROW = {"sequence": "sync", "failed": "", "writes": 3, "flushes": 1, "fua": 0, "proposed": 9, "states": 4, "ns": 7}
LEAK = {"kind": "leak", "after": False, "broken": False, "states": 2, "at": 1, "what": "x"}
LOST = {"kind": "lost", "after": True, "broken": True, "states": 1, "at": 3, "again": 2, "what": "y"}


def test_rows_of_the_table():
    text = "\n".join(
        json.dumps(row) for row in (ROW | {"findings": [LEAK, LOST]}, ROW | {"failed": "no", "findings": []})
    )
    rows = outputs.states(text)
    assert [row.get("kind") for row in rows] == [None, "leak", "lost", None]
    assert rows[2]["found"] == 1 and rows[2]["states"] == 4 and rows[2]["again"] == 2 and rows[3]["failed"] == "no"
    for damaged in ("", 'sequence":""}\n' + text):
        with pytest.raises(ValueError):
            outputs.states(damaged)


def table(**findings) -> pd.DataFrame:
    rows = []
    for label, told in findings.items():
        text = json.dumps(ROW | {"findings": told})
        rows += [{"label": label, "workload": "full-disk", "phase": "append", **row} for row in outputs.states(text)]
    return pd.DataFrame(rows)


def test_the_worst_of_each_cell():
    found = table(a=[LEAK, LOST], b=[LEAK], c=[])
    after, before = (statistics.worst(found, when)["append"] for when in (True, False))
    assert list(after) == ["lost", "ok", "ok"] and list(before) == ["(leak)", "(leak)", "ok"]
    assert list(statistics.smallest(found)[["label", "kind"]].itertuples(index=False, name=None)) == [
        ("a", "lost"),
        ("a", "leak"),
        ("b", "leak"),
    ]
    assert list(statistics.smallest(found)["at"]) == [f"--at {at} --full bytes" for at in ("3 --again-at 2", "1", "1")]
    assert statistics.smallest(found[:0]).empty
    assert statistics.refused(found)["append"].tolist() == ["\u2013"] * 3
    assert statistics.refused(found.assign(failed="no"))["append"].tolist() == ["1 of 1"] * 3
    assert statistics.visited(found)["states"].tolist() == [4, 4, 4]


def test_sentences():
    found = statistics.smallest(table(a=[LEAK, LOST], b=[LOST | {"kind": "name"}]))
    broken = found[found["broken"]]
    assert words.broken(broken) == "Guarantees were broken by a (lost) and b (wrong name)."
    assert words.broken(broken[:0]) == words.kept([], 0, 0) == words.unpromised([]) == ""
    assert words.left_out(["none", "all", "without"], None).startswith(
        "Visited: every state in which none, all or all but one of the writes that no flush followed are on the disk;"
        " so there is no error bound. Not visited: other subsets, torn writes and a second cut while a state recovers. "
    )
    every = words.left_out(["none", "all", "without", "alone", "torn-4k", "torn-512"], 4)
    assert (
        "While one in 4 states recovered, the power was cut again, at 16 places at most. Not visited: other subsets."
        in every
    )
    assert "Not visited: other subsets. The" in words.left_out(["all", "torn-4k"], 1) and "again" not in words.left_out(
        ["all"], 1
    )
    assert words.kept(["a", "b"], 5300, 324) == (
        "No guarantee was broken in 5,300 crash states of 324 sequences on a and b."
    )
    assert "Not visited: 19 of 20 sequences and other subsets" in words.left_out(["all", "torn-4k"], 1, 20)
    bad = table(a=[LOST | {"kind": "unusable"}])
    again = "Once the file that took the room was removed, a new file could be written in every state on"
    assert words.usable_again(["a", "b"], bad) == f"{again} b, but not on a."
    assert words.usable_again(["b"], bad) == f"{again} b."
    assert words.usable_again(["a"], bad) == f"{again} no file system."
    assert words.published(2, 24) == "Of 24 published bugs 2 are seen."
    assert words.published(0, 24) == "Of 24 published bugs none is seen."
    assert words.published(1, 24) == "Of 24 published bugs 1 is seen."


def test_kinds_are_those_of_the_oracle():
    text = (SOURCES / "programs/crash/judge.h").read_text()
    words = text[text.index("finding_words[FINDINGS] = {") :].partition("{")[2].partition("}")[0]
    assert [word.strip().strip('"') for word in words.split(",")] == list(statistics.KINDS)


def test_an_image_is_sparse_and_whole(tmp_path):
    pages = {0: b"a" * 4096, 5: b"b" * 4096}
    packed = gzip.compress(b"".join(struct.pack("<Q", number) + page for number, page in pages.items()))
    console = "[ 1.0] kernel: hello\n" + base64.encodebytes(packed).decode()
    state.write_image(console, tmp_path / "image")
    assert (tmp_path / "image").stat().st_size == CRASH_MIB << 20
    with (tmp_path / "image").open("rb") as file:
        assert file.read(4096) == pages[0] and file.read(4096) == bytes(4096)
        file.seek(5 * 4096)
        assert file.read(4096) == pages[5]
    with pytest.raises(UserError, match="whole"):
        state.write_image(console[:60], tmp_path / "image")


def test_braces_and_wrong_calls_of_a_sequence_are_refused():
    with pytest.raises((FileError, UserError)):
        resolve(crash("ext4", workload="crash-states", stack="md-raid0"), CATALOG)


# ---- in the guest


@pytest.fixture
def visit(guest, outcome):
    def run(filesystem: str, sequence: str, *options: str) -> list[dict] | str:
        trial = crash(filesystem.partition("+")[0], variant=filesystem.partition("+")[2] or "default")
        # As of `reprofs state`: without a seed and a round.
        one = Cell(**{name: getattr(trial, name) for name in Cell.model_fields})
        setup = state.setup_of(one, sequence, list(options), CATALOG)
        said = state.visit(setup, run=outcome)
        return said if options else outputs.states(said)

    return run


NEW_FILE = "create bar;write bar 0 8192;fsync bar;fsyncdir ."


def test_without_barriers_ext4_breaks_what_it_keeps_with_them(visit):
    """The positive control: flushes that are not sent are seen, and with them nothing is found."""
    broken = [row for row in visit("ext4+nobarrier-written", NEW_FILE) if row.get("kind")]
    assert {"mount", "lost"} & {row["kind"] for row in broken} and any(row["after"] for row in broken)
    whole, *more = visit("ext4+no-lazy-init", NEW_FILE)
    assert whole["states"] > 50 and whole["flushes"] and not more


@pytest.mark.parametrize("full", ["bytes", pytest.param("inodes", marks=pytest.mark.wide)])
def test_a_full_disk_keeps_what_was_there(visit, full):
    """The calls after one that failed are made; without barriers the same is broken."""
    sequence = "write foo 8192 4096;fsync foo" if full == "bytes" else "create bar;sync;write foo 8192 4096;fsync foo"
    whole, *more = outputs.states(visit("ext4+no-lazy-init", sequence, "--full", full))
    assert whole["failed"].endswith("No space left on device") and whole["states"] > 5 and whole["flushes"] and not more
    broken = outputs.states(visit("ext4+nobarrier-written", "unlink foo;sync", "--full", full))
    assert {"mount", "lost", "unreadable", "name"} & {row.get("kind") for row in broken}


@pytest.mark.parametrize(
    ("between", "least"),
    [("snapshot", 10), pytest.param("snapshot;maintain balance", 100, marks=pytest.mark.soak)],
)
def test_snapshots_and_balances_between_calls(visit, between, least):
    whole, *more = visit("btrfs+none", f"write foo 0 4096;maintain {between};write foo 4096 4096;fsync foo;sync")
    assert whole["states"] > least and not whole["failed"] and not more
    with pytest.raises(UserError, match="no maintenance nothing: see the key maintenance"):
        visit("btrfs+none", "maintain nothing")


def test_sequences_of_two_calls_are_taken_evenly():
    two = workload.resolve("crash-states-two", CATALOG)
    every = len(list(sequences.each(sequences.read("seq-2"))))
    assert every == 27343
    for scale, step in (("smoke", 400), ("laptop", 20), ("paper", 8)):
        lines = [two.words(phase.run, scale, 1, "here") for phase in two.phases]
        taken = sum(words[words.index("--sequences") + 1].count("|") + 1 for words in lines)
        assert every / step <= taken <= every / step + len(two.phases), "the first of each operation is one of them"
    with pytest.raises(FileError, match="no parameter"):
        two.words("engine states {sequences:seq-2/create%{steps}}", "smoke", 1, "here")


@pytest.mark.parametrize("system", ["xfs", pytest.param("ext4+no-lazy-init", marks=pytest.mark.wide)])
def test_sync_sends_no_flush_on_xfs_where_its_log_is_clean(visit, system):
    """Two calls in one tick of the file's times; fsync in the place of sync flushes."""
    first = "truncate foo 4096;fdatasync foo;write foo 0 4096;"
    synced, *found = visit(system, first + "sync")
    flushed, *none = visit(system, first + "fsync foo")
    assert not none and flushed["flushes"] > 1
    kinds = {(row["kind"], row["broken"], row["after"]) for row in found}
    assert kinds == ({("damaged", True, True)} if system == "xfs" else set())
    assert (synced["flushes"] == 1) == (system == "xfs")


@pytest.mark.wide
def test_a_finding_is_repeated_by_its_number(visit, tmp_path):
    rows = visit("exfat+clusters-4k", "write foo 8192 4096;fsync foo")
    worst = next(row for row in rows if row.get("kind") == "unreadable")
    assert worst["broken"] and not worst["after"]
    said = visit("exfat+clusters-4k", rows[0]["sequence"], "--at", f"{worst['at']}")
    assert "FOUND unreadable: foo: I/O error" in said and "KERNEL" in said and ": write of" in said
