"""engine file-ops: what is done to each file, what is flushed, and that --verify finds what is not as it was left."""

import itertools
import os
import shutil
import subprocess

import pytest
from helpers import flip

FILES = ("--files", 5, "--bytes", "16K", "--attributes", 2, "--value", 100)
# How -> a change after which the third file is not as that left it.
DAMAGE = {
    "create": lambda file: flip(file(), 9000),
    "replace": lambda file: flip(file(), 0),
    "append": lambda file: os.truncate(file(), 16 << 10),
    "overwrite": lambda file: file().unlink(),
    "truncate": lambda file: os.truncate(file(), (8 << 10) + 1),
    "punch": lambda file: flip(file(), 4096),
    "allocate": lambda file: os.truncate(file("allocate"), 0),
    "link": lambda file: shutil.copy2(file(), file().with_name("x")) and file("x", "").replace(file("link")),
    "symlink": lambda file: (file("symlink").unlink(), file("symlink").symlink_to("elsewhere")),
    "copy": lambda file: flip(file("copy"), 16383),
    "set-attributes": lambda file: os.setxattr(file(), "user.reprofs-01", b"other"),
    "remove-attributes": lambda file: os.setxattr(file(), "user.reprofs-00", b"back"),
}


@pytest.fixture
def file_ops(run):
    """Runs `engine file-ops --how HOW ...` on five files of 16 KiB in the folder d."""

    def start(how, *more, **options):
        return run("file-ops", "--how", how, *FILES, *more, "d", **options)

    start.folder = run.folder / "d"
    return start


@pytest.mark.parametrize("how", DAMAGE)
def test_every_file_is_as_it_was_left_or_that_is_found(file_ops, how):
    if how != "create":
        file_ops("create")
        file_ops("create", "--verify")
    if how == "remove-attributes":
        file_ops("set-attributes")
        for asked in ("get-attributes", "list-attributes"):
            assert [s["name"] for s in file_ops(asked).samples] == [asked] * 5
    done = file_ops(how)
    assert [(s["name"], s["iteration"], s["items"]) for s in done.samples] == [(how, i, 1) for i in range(5)]
    assert all(a["start_ns"] + a["wall_ns"] <= b["start_ns"] for a, b in itertools.pairwise(done.samples))
    file_ops(how, "--verify")

    def file(kind="file", number="-00000002"):
        return file_ops.folder / f"{kind}{number}"

    DAMAGE[how](file)
    said = file_ops(how, "--verify", expect=1).stderr
    assert said.startswith("engine: file-ops: ") and "00000002" in said


@pytest.mark.parametrize(
    ("how", "flush", "calls"),
    [
        ("create", "nothing", []),
        ("create", "data", ["fdatasync"]),
        ("create", "file", ["fsync"]),
        ("create", "folder", ["fsync", "fsync"]),
        ("replace", "folder", ["fsync", "rename", "fsync"]),  # the new file before it gets the name, the name after
        ("link", "folder", ["fsync"]),
    ],
)
def test_what_is_flushed_and_when(run, tmp_path, how, flush, calls):
    trace = tmp_path / "trace"
    traced = ("strace", "-qq", "-e", "trace=fsync,fdatasync,rename,renameat,renameat2", "-o", trace)
    if not shutil.which("strace") or subprocess.run([*traced, "true"]).returncode:
        pytest.skip("strace does not work here")
    asked = ("--files", 3, "--bytes", "4K", "d")
    if how != "create":
        run("file-ops", *asked)
    run("file-ops", "--how", how, "--flush", flush, *asked, prefix=traced)
    seen = [line.partition("(")[0].replace("renameat", "rename") for line in trace.read_text().splitlines()]
    assert [call for call in seen if not call.startswith("+")] == calls * 3


def test_what_cannot_be_done_names_the_file(file_ops):
    assert "d" in file_ops("replace", expect=1).stderr
    file_ops("create")
    file_ops("create", "--verify", "--seed", 2, expect=1)  # another seed has other content
    (file_ops.folder / "file-00000003").unlink()
    said = file_ops("append", expect=1).stderr
    assert said == "engine: file-ops: cannot append file-00000003: No such file or directory\n"


@pytest.mark.parametrize(
    ("how", "needs"), [("create", (80 << 10, 5)), ("append", (80 << 10, 0)), ("set-attributes", (1000, 0))]
)
def test_check_says_what_it_makes(file_ops, how, needs):
    assert file_ops(how, "--check").stdout == f'{{"bytes":{needs[0]},"names":{needs[1]}}}\n'
    assert not file_ops.folder.exists()
