"""A replay stays in its folder: by the check of recordings, and by Landlock where no guest is around it."""

import ctypes
import errno
import itertools
import os
import random
import shutil
import stat
import struct
import subprocess
from pathlib import Path

import pytest
from helpers import CATALOG
from reprofs import files
from reprofs.errors import UserError
from reprofs.guest import engine, trace
from reprofs.guest.steps import REPLAYS, Exec, Job
from reprofs.labs import host, mount
from reprofs.plan import recording
from reprofs.plan.device import Device
from reprofs.plan.recording import UP, Content, Recording
from reprofs.plan.recording_links import leads_out
from reprofs.recorder import page, record

TOP = ["d", ".", 0o755]
FAR = "/".join([".."] * UP)
CREATE, TRUNCATE, NO_FOLLOW, BY_PATH = os.O_CREAT, os.O_TRUNC, os.O_NOFOLLOW, os.O_PATH
TWICE = [["symlink", None, FAR, 0, "a"], ["symlink", None, FAR, 0, "a/b"]]
BEFORE = [TOP, ["d", "d", 0o755], ["d", "d/e", 0o755], ["l", "up", FAR]]
OUT = {
    "a link made through a link": (TWICE, [TOP]),
    "that through an open folder": ([["enter", None, 0, "up", 1], ["symlink", None, FAR, 1, "b"]], BEFORE),
    "and from that another": (
        [["open", None, 0, "up", 0, 0, 1], ["enter", None, 1, "0", 2], ["symlink", None, FAR, 2, "b"]],
        BEFORE,
    ),
    "a folder made above and a link in it": (
        [
            ["mkdir", None, 0, "up/m", 0o755],
            ["symlink", None, "../../m", 0, "way"],
            ["symlink", None, FAR, 0, "up/m/b"],
        ],
        BEFORE,
    ),
    "a link that is renamed": ([["rename", None, 0, "up", 0, "up/b", 0]], [*BEFORE, ["l", "far", FAR]]),
    "another that is": ([["rename", None, 0, "far", 0, "up/b", 0]], [*BEFORE, ["l", "far", FAR]]),
    "one that is exchanged": (
        [["mkdir", None, 0, "up/m", 0o755], ["rename", None, 0, "up/m", 0, "far", 2]],
        [*BEFORE, ["l", "far", FAR]],
    ),
    "a second name": ([["link", None, 0, "far", 0, "up/b", 0]], [*BEFORE, ["l", "far", FAR]]),
    "a second name by an open link": (
        [["open", None, 0, "far", BY_PATH | NO_FOLLOW, 0, 1], ["link", None, 1, "", 0, "up/b", 0x400]],
        [*BEFORE, ["l", "far", FAR]],
    ),
    "a folder with a link that is renamed": (
        [["symlink", None, FAR, 0, "d/b"], ["rename", None, 0, "d", 0, "up/m", 0]],
        BEFORE,
    ),
    "the tree itself": (
        [["rename", None, 0, "up1/0", 0, "up/m", 0]],
        [*BEFORE, ["l", "up1", ".."]],
    ),
    "through a link to a link": ([["symlink", None, FAR, 0, "to/b"]], [*BEFORE, ["l", "to", "up"]]),
    "where the cases are one": ([TWICE[0], ["symlink", None, FAR, 0, "A/b"]], [TOP]),
    "in the other order": (TWICE[::-1], [TOP]),
    "with results that say that nothing was made": ([[c[0], -13, *c[2:]] for c in TWICE], [TOP]),
}
IN = {
    "as far as there are folders": ([["open", None, 0, "up/goal", CREATE | os.O_WRONLY, 0o644, 1]], BEFORE),
    "a folder above": ([["mkdir", None, 0, "up/m", 0o755], ["mkdir", None, 0, "up/m/n", 0o755]], BEFORE),
    "a link into the tree, through it a link": (
        [["symlink", None, "../d", 0, "d/again"], ["symlink", None, FAR, 0, "d/again/e/far"]],
        BEFORE,
    ),
    "as npm has them": (
        [
            ["mkdir", None, 0, ".bin", 0o755],
            ["symlink", None, "../d/e", 0, ".bin/d"],
            ["rename", None, 0, "d", 0, "n", 0],
        ],
        BEFORE,
    ),
    "a link that leads to itself": (
        [["symlink", None, "../d/x/y", 0, "d/x"], ["mkdir", None, 0, "d/x/z", 0o755]],
        BEFORE,
    ),
    "numbers used again": (
        [["enter", None, 0, "up", 1], ["close", None, 1], ["enter", None, 0, "d", 1], ["symlink", None, FAR, 1, "x"]],
        BEFORE,
    ),
}


def content(calls: list, before: list = (TOP,), after: list = (TOP,)) -> Content:
    head = {"format": 1, "title": "x", "filesystem": "ext4", "kernel": "6.1", "threads": 1, "handles": 8}
    head |= {"before": len(before), "calls": len(calls), "after": len(after), "names": 1, "bytes": 1}
    return Content(Recording(**head), list(before), list(calls), list(after))


@pytest.mark.parametrize("what", OUT)
def test_a_recording_whose_links_could_lead_out_is_refused(what, tmp_path):
    calls, before = OUT[what]
    path = tmp_path / f"evil{recording.SUFFIX}"
    path.write_bytes(recording.packed(content(calls, before), "evil"))
    with pytest.raises(
        UserError, match=r"evil.*: line \d+: the link .* could lead out of the replay's folder"
    ) as error:
        recording.read(path)
    assert len(str(error.value)) < 300
    number = int(str(error.value).split(": line ")[1].split(":")[0])
    assert ([None, *before, *calls][number - 1])[0] in ("l", "symlink")


@pytest.mark.parametrize("what", IN)
def test_one_whose_links_cannot_is_accepted(what, tmp_path):
    calls, before = IN[what]
    path = tmp_path / f"good{recording.SUFFIX}"
    path.write_bytes(recording.packed(content(calls, before), "good"))
    assert recording.read(path).calls == calls


def test_what_would_take_too_long_to_follow_is_refused(monkeypatch):
    monkeypatch.setattr("reprofs.plan.recording_links.STEPS", 1000)
    names = [f"n{number}" for number in range(40)]
    calls = [["rename", None, 0, f"{one}", 0, f"{other}/x", 0] for one, other in itertools.permutations(names, 2)]
    before = [TOP, *(["d", name, 0o755] for name in names), ["l", "l", "../x"]]
    assert "too many places" in leads_out(before, calls).why


def test_the_recorder_replays_none_that_could_lead_out(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"could lead out of the replay's folder: .*--below"):
        record._try(content(TWICE), tmp_path, page.Facts("x", content(TWICE), 0, "", set()))
    assert not list(tmp_path.iterdir())


# ---- by Landlock, which no check is asked for


def deep(place: Path) -> Path:
    """A folder in folders, each of which has files that a replay could reach."""
    for number in range(2 * UP + 2):
        for name in ("thesis", "a", "b"):
            (place / name).write_text("of another")
        place /= f"level{number}"
        place.mkdir()
    return place


def seen(top: Path, but: Path) -> dict:
    """All entries below a folder, but one, as they are."""
    found = {}
    for folder, inside, names in os.walk(top):
        inside[:] = [name for name in inside if Path(folder, name) != but]
        for name in [".", *inside, *names]:
            s = Path(folder, name).lstat()
            mine = Path(folder, name) == but.parent or (name == "." and Path(folder) == but.parent)
            found[f"{folder}/{name}"] = (s.st_mode, s.st_size, s.st_nlink) if not mine else ()
    return found


# From the folder of the replay's folder eight folders up.
REACH = [["symlink", None, FAR, 0, "a"], ["symlink", None, FAR, 0, "a/x"]]
HARM = {
    "truncated": ["open", None, 0, "a/x/thesis", os.O_WRONLY | TRUNCATE, 0o644, 1],
    "truncated by reading": ["open", None, 0, "a/x/thesis", TRUNCATE, 0o644, 1],
    "truncated by name": ["truncate", None, 0, "a/x/thesis", 3],
    "removed": ["unlink", None, 0, "a/x/thesis"],
    "taken": ["rename", None, 0, "a/x/thesis", 0, "mine", 0],
    "linked": ["link", None, 0, "a/x/thesis", 0, "mine", 0],
    "made": ["mkdir", None, 0, "a/x/new", 0o755],
    "written": ["open", None, 0, "a/x/new", os.O_WRONLY | CREATE, 0o644, 1],
    "a link": ["symlink", None, "thesis", 0, "a/x/new"],
    "a pipe": ["mknod", None, 0, "a/x/new", stat.S_IFIFO | 0o644],
}


def landlock() -> bool:
    """Whether this kernel has it, with renames from folder to folder."""
    return ctypes.CDLL(None).syscall(444, None, 0, 1) >= 2


def start(of: Content, folder: Path, how: str, contained: bool, first=None) -> subprocess.CompletedProcess:
    programs = folder.parent / f"{folder.name}.programs"
    made = {"replay": engine.build(files.cache_folder(), "replay")}
    trace.provide(made, programs)
    (programs / "evil").write_bytes(trace.compiled(of))
    words = [
        programs / ("replay" if contained else "contained/replay"),
        "--how",
        how,
        "--recording",
        "evil",
        folder.name,
    ]
    return subprocess.run(
        words,
        cwd=folder.parent,
        capture_output=True,
        text=True,
        preexec_fn=first,
        env={"REPROFS_PROGRAMS": str(programs), "REPROFS_SAMPLES": str(folder.parent / "samples")},
    )


@pytest.mark.skipif(not landlock(), reason="this kernel has no Landlock")
@pytest.mark.parametrize("what", HARM)
def test_a_contained_replay_changes_nothing_elsewhere(what, tmp_path):
    """The same one, not contained, does: so these calls would be harmful."""
    changed = []
    for number, contained in enumerate((False, True)):
        top = tmp_path / f"{number}"
        top.mkdir()
        place = deep(top) / "trial"
        place.mkdir()
        before = seen(top, place)
        done = start(content([*REACH, HARM[what]]), place / "cold", "both", contained)
        assert done.returncode == 0, done.stderr
        changed.append(seen(top, place) != before)
        assert (place / "samples").stat().st_size > 100
    assert changed == [True, False]


@pytest.mark.skipif(not landlock(), reason="this kernel has no Landlock")
def test_the_mount_lab_contains_replays(tmp_path, monkeypatch):
    place = deep(tmp_path)
    before = seen(tmp_path, place)
    compiled = tmp_path / "compiled"
    compiled.write_bytes(trace.compiled(content([*REACH, HARM["removed"]])))
    monkeypatch.setattr(trace, "_of_job", lambda cache, word: compiled)
    at = "/run/reprofs/mnt"
    run = ["engine", "replay", "--how", "both", "--recording", "evil-0123", "cold"]
    job = Job([Exec(stage="populate", cwd=at, arg=run)], mountpoint=at)
    lab = mount.Lab(str(place))
    outcome = lab.run(job, 60)
    assert outcome.ending == "finished" and b'"failed"' not in outcome.output, outcome.output
    compiled.unlink()
    assert seen(tmp_path, place) == before
    assert {"replay", "contain"} <= outcome.environment["programs_sha256"].keys()


def without(*calls: int) -> None:
    """This process and its children have no longer these system calls; seccomp(2)."""

    class Filter(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))

    steps = [(0x20, 0, 0, 0), *((0x15, len(calls) - i, 0, call) for i, call in enumerate(calls))]
    steps += [(6, 0, 0, 0x7FFF0000), (6, 0, 0, 0x00050000 | errno.ENOSYS)]
    text = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    kernel = ctypes.CDLL(None)
    kernel.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
    assert not kernel.prctl(22, 2, ctypes.byref(Filter(len(steps), ctypes.addressof(text))))  # PR_SET_SECCOMP


def test_where_there_is_no_landlock_a_replay_runs_all_the_same(tmp_path):
    """Its recording was checked."""
    done = start(
        content([["mkdir", 0, 0, "d", 0o755]]), tmp_path / "cold", "both", True, lambda: without(444, 445, 446)
    )
    assert (done.returncode, done.stderr) == (0, "") and (tmp_path / "cold" / "0/0/0/0/0/0/0/0/d").is_dir()


@pytest.mark.skipif(os.geteuid() != 0, reason="the host lab needs root")
def test_the_host_lab_says_that_there_are_no_namespaces(monkeypatch):
    lab, device = host.Lab(), CATALOG.get(Device, "file")
    assert not lab.obstacle([], [], [], device)
    monkeypatch.setattr(host, "APART", ["false"])
    assert "no mount and process namespaces" in lab.obstacle([], [], [], device)


def test_no_guest_has_the_program_that_contains():
    job = Job([Exec(stage="x", arg=["engine", "replay", "--how", "both", "cold"])])
    assert trace.programs(files.cache_folder(), job).keys() == {"replay"}
    assert "contain" not in engine.names() and set(REPLAYS) <= set(engine.names())
    for name in ("", *engine.names()):
        assert engine.SOURCE / "contain.c" not in engine.sources(name)


# ---- random recordings, replayed without Landlock


LINKS = [TOP, ["d", "d", 0o755], ["l", "up", FAR], ["l", "far", "../" * 6 + ".."], ["l", "d/a", ".."]]


def some_calls(chance: random.Random) -> list:
    """Calls among few names of the tree LINKS, most of which make links."""
    opened, names = [0], ["up", "far", "d", *chance.choice(("ab", "a0", "abc"))]

    def path() -> str:
        return "/".join(chance.choices(names, k=chance.choice((1, 1, 2, 2, 3))))

    calls: list = []
    for _ in range(chance.randrange(1, 16)):
        one, other = chance.choice(opened), chance.choice(opened)
        kind = chance.choices(
            ("symlink", "mkdir", "rename", "link", "enter", "open", "unlink", "rmdir", "chmod"),
            (8, 5, 4, 2, 3, 3, 1, 1, 1),
        )[0]
        up = "/".join([".."] * chance.choice((0, 1, 2, 8, 8, 8, 8, 8)))
        target = "/".join(filter(None, (up, *chance.choices(names, k=chance.choice((0, 0, 1, 2)))))) or "a"
        values = {
            "symlink": [target, one, path()],
            "mkdir": [one, path(), 0o755],
            "rename": [one, path(), other, path(), chance.choice((0, 0, 2))],
            "link": [one, path(), other, path(), 0],
            "enter": [one, path(), len(opened)],
            "open": [one, path(), chance.choice((os.O_RDWR | CREATE, BY_PATH | NO_FOLLOW)), 0o644, len(opened)],
            "chmod": [one, path(), 0o711],
        }
        calls.append([kind, None, *values.get(kind, [one, path()])])
        if kind in ("enter", "open") and len(opened) < 7:
            opened.append(len(opened))
        elif kind in ("enter", "open"):
            calls[-1][-1] = -1
    for length in (1, 2, 3):  # what is left by them is tried out
        calls += [["mkdir", None, 0, "/".join(one) + "/z", 0o755] for one in itertools.product(names, repeat=length)]
    return calls


@pytest.mark.parametrize(
    "number", [20, pytest.param(300, marks=pytest.mark.wide), pytest.param(5000, marks=pytest.mark.soak)]
)
def test_no_accepted_recording_leaves_its_folder(number, tmp_path):
    """Of the refused ones some do, so the calls are of the right kind; and not all with links are refused."""
    chance = random.Random(number)
    program, outside = engine.build(files.cache_folder(), "replay"), deep(tmp_path)
    counts = {(refused, left): 0 for refused in (False, True) for left in (False, True)}
    at = outside / "trial"
    at.mkdir()
    before = seen(tmp_path, at)
    for _ in range(number):
        calls = some_calls(chance)
        refused = leads_out(LINKS, calls) is not None
        (at / "evil").write_bytes(trace.compiled(content(calls, LINKS)))
        subprocess.run([program, "--recording", "./evil", "cold"], cwd=at, capture_output=True, timeout=60)
        left = seen(tmp_path, at) != before
        counts[refused, left] += 1
        assert refused or not left, calls
        if left:
            shutil.rmtree(tmp_path / "level0")
            outside = deep(tmp_path)
            at.mkdir()
            before = seen(tmp_path, at)
        else:
            shutil.rmtree(at)
            at.mkdir()
    assert number < 300 or all(counts[key] > number // 20 for key in ((False, False), (True, True)))
