"""`reprofs answer -- COMMAND`: bad input, what is recorded, numbers and sentences, and all of it once."""

import contextlib
import dataclasses
import json
import re
import sys

import pandas as pd
import pytest
import run
from helpers import Late
from reprofs import answer
from reprofs.plan import recording
from reprofs.plan.recording import Recording
from reprofs.plan.study import Study
from reprofs.plan.workload import Workload
from reprofs.recorder import lines
from reprofs.recorder.tasks import Elsewhere
from reprofs.report.sentences import program as words
from reprofs.stats.program import Answered, Change, Native, Row
from test_recorded import HEAD, MS, replayed

program, page = Late("reprofs.stats.program"), Late("reprofs.report.program")


@pytest.fixture
def place(tmp_path):
    """A folder that counts as a checkout, and one in it to start programs in."""
    (tmp_path / "workflow" / "schemas").mkdir(parents=True)
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "input").write_text("hello\n" * 100)
    return tmp_path


def left(place) -> list:
    """What a command wrote."""
    return [path for path in place.rglob("*") if path.is_file() and path != place / "work/input"]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["no-such-program"], ["no-such-program", "cannot be started", "No such file"]),
        (
            ["sh", "-c", "echo first; echo it is broken >&2; exit 3"],
            ["exit code 3: it is broken", "nothing was recorded"],
        ),
        (["sh", "-c", "kill -9 $$"], ["exit code -9;"]),
        (["true"], ["'true' opens and changes no file in its folder", "no file system matters to it."]),
        (["sh", "-c", "cd / && echo > {}/other/made"], ["no file in its folder", "wrote files elsewhere", "--in"]),
        (["--seconds", "1", "--", "sleep", "60"], ["did not end in 1 s", "--seconds"]),
        (["--in", "nowhere", "--", "true"], ["nowhere", "not a folder"]),
        (["--name", "A_b", "--", "true"], ["--name", "'A_b'", "lower-case"]),
        (["--filesystem", "ext5", "--", "true"], ["ext5"]),
        (["--device", "floppy", "--", "true"], ["floppy"]),
    ],
)
def test_what_has_no_answer_is_one_sentence(command, said, place, reprofs, says):
    (place / "other").mkdir()
    given = [word.replace("{}", str(place)) for word in command]
    if "--" not in given:
        given = ["--", *given]
    done = reprofs("answer", *given, cwd=place / "work")
    says(done, *said)
    assert len(done.stderr) <= 320
    (place / "other/made").unlink(missing_ok=True)
    assert left(place) == []


def test_a_program_without_dashes_is_one_sentence(place, reprofs, says):
    says(reprofs("answer", "git", "clone", cwd=place / "work"), "put -- before a program")
    says(reprofs("answer", cwd=place / "work"), "name a study or a recording")


@pytest.mark.parametrize("where", ["lines.MOST_CALLS", "answer.CALLS"])
def test_too_many_calls_are_one_sentence(where, place, reprofs, says, monkeypatch):
    module, name = where.split(".")
    monkeypatch.setattr({"lines": lines, "answer": answer}[module], name, 2)
    says(reprofs("answer", "--", "cp", "input", "output", cwd=place / "work"), "calls")
    assert left(place) == []


def test_a_program_runs_in_copies_and_what_it_takes_is_kept_beside(place, reprofs):
    """Its folder stays as it is; a second one gets a name of its own; what it writes elsewhere is told."""
    script, told = f"cat input > output && echo >> {place}/there", []
    with contextlib.chdir(place / "work"):
        names = [answer.recorded(["sh", "-c", script], place / "work", "", 60, told.append) for _ in range(2)]
    assert names == ["my-cat-input", "my-cat-input-2"] and told[0].startswith("recorded as my-cat-input:")
    assert (place / "there").read_text() == "\n" * 4  # twice each
    assert [path.name for path in (place / "work").iterdir()] == ["input"]
    content = recording.read(place / f"workflow/recordings/{names[0]}.jsonl.xz")
    assert [line[0] for line in content.calls].count("open") == 2 and not content.head.incomplete
    assert (place / f"workflow/workloads/{names[0]}.yaml").is_file()
    native = Native(**json.loads((place / f"data/answers/{names[0]}.json").read_text()))
    assert 0 < native.calls_ns < native.elapsed_ns < 60e9 and 0 < native.cpu_ns < 10e9
    assert native.elsewhere == f"wrote files elsewhere, most (1 time) below {place}"


def test_a_program_finds_the_python_of_its_user(place, monkeypatch):
    """Both times; `uv run` puts that of the project first."""
    own = f"{sys.prefix}/bin"
    monkeypatch.setenv("PATH", f"{place}/.uv/bin:{own}:/usr/bin:/bin")
    monkeypatch.setenv("VIRTUAL_ENV", sys.prefix)
    monkeypatch.setenv("OTHER", "kept")
    script = f'touch made; echo "$PATH $VIRTUAL_ENV $OTHER" >> {place}/there'
    with contextlib.chdir(place / "work"):
        answer.recorded(["sh", "-c", script], place / "work", "", 60, lambda line: None)
    assert (place / "there").read_text().splitlines() == ["/usr/bin:/bin  kept"] * 2


def test_names_follow_from_commands():
    found = {
        "my-git-clone": ["git", "clone", "-q", "a", "b"],
        "my-tar": ["sh", "-c", "tar -xf a.tar | cat"],
        "my-python3.11": ["/usr/bin/python3.11", "-c", "pass"],
        "my-sh": ["sh", "-c", "echo 'unfinished"],
        "my-make-all": ["make", "all"],
        "my": ["_"],
    }
    assert {name: answer._name_of(command) for name, command in found.items()} == {name: name for name in found}


def test_writing_elsewhere_is_told_by_the_folder_that_has_it_all():
    found = Elsewhere()
    assert str(found) == ""
    for path, flags in (("/home/a/b/c", 1), ("/home/a/d", 0o101), ("/tmp/x", 2), ("/etc/hosts", 0), ("/dev/null", 1)):
        found.opened(path, flags)
    found.opened("pipe:[12]", 1)
    assert found.paths == {"home": (2, "/home/a"), "tmp": (1, "/tmp")}
    assert str(found) == "wrote files elsewhere, most (2 times) below /home/a"


def test_record_says_what_comes_next(place, reprofs):
    done = reprofs("record", "--output", "it", "--", "cp", "input", "output", cwd=place / "work")
    assert "Next: `reprofs answer it` replays it" in done.stdout, done.stdout + done.stderr
    done = reprofs("record", "--output", place / "it.jsonl.xz", "--", "cp", "input", "other", cwd=place / "work")
    assert "Next: put them into workflow/recordings and workflow/workloads, then `reprofs answer it`" in done.stdout


# ---- numbers


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Replays on two devices: on the second all takes half of the time."""
    folder = tmp_path_factory.mktemp("answer")
    run.made(folder, replayed(), rounds=2, systems=["ext4", "xfs"])
    first = run.open_study(str(folder / "tables"))
    second = {name: getattr(first, name).assign(profile="fast") for name in ("phases", "trials")}
    second["phases"]["wall_ns"] = second["phases"]["wall_ns"] // 2
    device = first.trials["profile"].iloc[0]
    plan = first.plan.model_copy(update={"study": first.plan.study.model_copy(update={"profiles": [device, "fast"]})})
    plan = plan.model_copy(update={"devices": plan.devices | {"fast": plan.devices[device]}})
    return dataclasses.replace(
        first, plan=plan, **{name: pd.concat([getattr(first, name), own]) for name, own in second.items()}
    )


def test_the_ranking_has_a_row_for_each_device_and_cache(study):
    slow, fast = study.plan.study.profiles
    found = program.rows(study)
    assert [(row.device, row.cache, row.best) for row in found] == [
        (device, cache, "xfs") for device in (slow, fast) for cache in ("cold", "warm")
    ]
    assert [row.ns / MS for row in found] == pytest.approx([18.027, 9.0135, 9.0135, 4.50675], rel=1e-4)
    assert found[0].verdict == "fastest" and found[0].ratios == pytest.approx({"xfs": 1, "ext4": 35 / 18})
    widest = program.widest(found)
    assert [widest[slow] / MS, widest[fast] / MS] == pytest.approx([17.0255, 8.51275], rel=1e-4)
    assert program.widest([found[0]._replace(ratios={"xfs": 1.0})]) == {}
    assert program.typical(study) == "fast" and program.best(study, "fast") == "xfs" and program.best(study, "no") == ""
    warm = study.phases["cache"].eq("warm")
    swapped = study.phases["label"].where(~warm, study.phases["label"].map({"xfs": "ext4", "ext4": "xfs"}))
    turned = dataclasses.replace(study, phases=study.phases.assign(label=swapped))
    assert program.rows(turned)[2].best == "xfs" and program.best(turned, "fast") == "ext4"  # of warm caches
    assert not program.reads(study)


def test_what_a_device_changes_is_measured_on_what_was_fastest_before(study):
    (found,) = program.devices(study)
    assert (found.what, found.label, found.cache) == ("fast", "xfs", "warm")
    assert (found.ratio, found.low, found.high) == pytest.approx((0.5, 0.5, 0.5), rel=1e-3)


def test_noatime_is_compared_with_the_same_file_system(study):
    only = {name: (own := getattr(study, name))[own["profile"] == "fast"] for name in ("phases", "trials")}
    renamed = {
        name: own.assign(label=own["label"].replace({"ext4": "xfs+default+noatime"})) for name, own in only.items()
    }
    about = study.plan.study.model_copy(update={"profiles": ["fast"], "filesystems": ["xfs", "xfs+default+noatime"]})
    more = dataclasses.replace(study, plan=study.plan.model_copy(update={"study": about}), **renamed)
    cold, warm = program.noatime(more)
    assert (cold.what, cold.label, cold.device, warm.cache) == ("noatime", "xfs", "fast", "warm")
    assert cold.ratio == pytest.approx(35 / 18, rel=1e-3)
    failed = {name: own[own["label"] == "xfs"] for name, own in renamed.items()}
    assert program.noatime(dataclasses.replace(more, **failed)) == []


def test_what_reaches_the_device_is_that_of_one_cold_replay(study):
    found = program.traffic(study, "fast", "xfs")
    assert set(found) == {"read", "written", "flushes"} and found["written"] > 0


def test_the_page_has_it_all(study):
    native = Native(10**9, 3 * 10**8, "wrote files elsewhere, most (3 times) below /tmp")
    text = page.text(Answered("my-cp", study, Recording(**HEAD), native, None, 3))
    flat = " ".join(text.split())
    for part in (
        "It takes 1.00 s on this machine, of which its file-system calls are 300 ms (30.0 %).",
        "It also wrote files elsewhere, most (3 times) below /tmp: these calls are not in the answer.",
        "xfs is fastest in 4 of 4 replays.",
        "It asked 3 times to share blocks, in vain on ext4, and went on otherwise.",
        "fast cold 9.01 ms +94 % fastest",
        "Time of its calls (xfs, fast, warm): fsync 56 %, open 33 % and last flush 11 %.",
        "fast, warm: ext4 takes 4.26 ms longer than xfs, most in fsync (+5.01 ms).",
        "How sure: 2 repetitions, Holm-corrected over 4 replays.",
        f"make report STUDY={study.plan.study.name}",
    ):
        assert part in flat, (part, text)
    assert max(map(len, text.splitlines())) <= 100
    without = page.text(Answered("my-cp", study, Recording(**HEAD), None, None))
    assert "What the program computes is not known" in " ".join(without.split())


def test_calls_that_asked_in_vain_to_share_blocks_are_counted(monkeypatch):
    calls = [["clone", -95, 1, 2], ["clone", 0, 1, 2], ["clone", None, 1, 2], ["open", -2, 0, "a", 0, 0, -1]]
    monkeypatch.setattr(recording, "path_of", lambda name: name)
    monkeypatch.setattr(recording, "each", lambda path: iter([(recording.CALL, call, []) for call in calls]))
    assert answer._unshared("it") == 1 and words.unshared(0, "ext4") == ""


# ---- sentences

ROW = Row("hdd", "cold", "xfs", 1e8, "fastest", (), {"xfs": 1.0, "ext4": 1.05})


def test_how_much_of_its_time_the_calls_are():
    assert words.spent(Native(20 * 10**9, 19 * MS)) == (
        "It takes 20.0 s on this machine, of which its file-system calls are 19.0 ms (0.10 %)."
    )
    assert words.spent(Native(MS, 2 * MS)) == (
        "It takes 1.00 ms on this machine. Its file-system calls one after the other take 2.00 ms."
    )


def test_no_file_system_matters_only_where_neither_calls_nor_differences_do():
    native, widest = Native(20 * 10**9, 19 * MS, cpu_ns=4 * 10**9), {"hdd": 79e6, "ssd": 2e6}
    assert words.matters(native, widest) == (
        "No file system matters to it: the largest difference, 79.0 ms of virtual time, is 1.98 % of its time in "
        "processors, 4.00 s."
    )
    assert words.matters(native, widest | {"hdd": 81e6}) == (
        "On ssd no file system matters to it: the largest difference, 2.00 ms of virtual time, is 0.05 % of its time "
        "in processors, 4.00 s."
    )
    assert words.matters(native, {"hdd": 81e6}) == words.matters(native._replace(calls_ns=81 * MS), widest) == ""
    assert words.matters(native._replace(cpu_ns=0), widest) == ""


def test_which_calls_and_what_reaches_the_device():
    times = pd.Series({"open": 20.0, "fsync": 62.0, "final-sync": 9.0, "stat": 5.0, "read": 4.0})
    assert words.kinds(times, "ext4, ssd, warm") == (
        "Time of its calls (ext4, ssd, warm): fsync 62 %, open 20 % and last flush 9 %. The last flush writes what is "
        "in memory when the program ends."
    )
    assert words.traffic(3 * 2**20, 59 * 2**20, 12, "ext4, ssd, cold") == (
        "To the device (ext4, ssd, cold): 59 MiB written, 3 MiB read, 12 flushes."
    )


@pytest.mark.parametrize(
    ("ratio", "low", "high", "told"),
    [
        (0.2, 0.19, 0.21, "5.00 times as fast"),
        (0.9, 0.89, 0.91, "10 % less time"),
        (1.08, 1.07, 1.09, "8.0 % longer"),
        (2.5, 2.4, 2.6, "2.50 times as long"),
        (0.99, 0.9, 1.1, "no difference shown by so few repetitions (1.0 % less time)"),
        (0.4, 0.1, 1.1, "no difference shown by so few repetitions (2.50 times as fast)"),
        (0.9, float("nan"), float("nan"), "10 % less time"),
    ],
)
def test_what_would_change_it(ratio, low, high, told):
    found = Change("plp", "ext4", "plp", "warm", ratio, low, high)
    assert words.change(found, "sata") == f"plp instead of sata: {told} (ext4, warm)."
    found = found._replace(what="noatime", device="sata", cache="cold")
    assert words.change(found) == f"noatime: {told} (ext4 on sata, cold)."


def test_nothing_changes_it_only_if_nothing_measured_does():
    still = Row("hdd", "cold", "xfs", 1e8, "equivalent", ("ext4",), {"xfs": 1.0, "ext4": 1.01})
    same = Change("noatime", "xfs", "hdd", "cold", 0.995, 0.99, 1.0)
    assert words.nothing([still], [same], 0.02) == (
        "Nothing that was measured changes the time of its calls by 2 %: another file system or noatime."
    )
    assert words.nothing([ROW], [same], 0.02) == words.nothing([still], [same._replace(ratio=0.9)], 0.02) == ""
    assert words.small([same, same], 0.02) == "noatime: less than 2 % (xfs on hdd)."
    assert words.small([same, same._replace(ratio=0.9)], 0.02) == words.small([], 0.02) == ""
    alone = still._replace(ratios={"xfs": 1.0})
    assert words.nothing([alone], [same], 0.02).endswith("2 %: noatime.") and words.nothing([alone], [], 0.02) == ""
    assert words.elsewhere(Native(1, 1)) == ""


# ---- all of it


@pytest.mark.wide
def test_one_command_from_a_program_to_the_answer(checkout, reprofs):
    """Then without running it again; what was measured is taken."""
    work = checkout.parent / "work"
    work.mkdir()
    (work / "input").write_text("hello\n" * 100)
    few = ("--filesystem", "ext4", "--device", "ssd", "--rounds", "1", "--name", "my-tested")
    done = reprofs("answer", *few, "--in", work, "--", "sh", "-c", "cp input a && sync a", cwd=checkout, env={})
    assert done.returncode == 0, done.stderr
    flat = " ".join(done.stdout.split())
    assert re.search(r"ssd cold [\d.]+ ms alone", flat) and re.search(r"written, .* read, [1-9] flush", flat), (
        done.stdout
    )
    assert "Nothing that was measured changes the time of its calls by 2 %: noatime." in flat
    again = reprofs("answer", "my-tested", cwd=checkout, env={})
    assert again.stdout == done.stdout and " ok in " in done.stderr and " ok in " not in again.stderr
    assert [path.name for path in (checkout / Study.folder).glob("my-tested*")] == ["my-tested.yaml"]
    assert (checkout / Workload.folder / "my-tested.yaml").exists()
