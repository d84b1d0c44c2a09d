"""engine access-lists: the lists that it makes are those of acl(5), and --verify finds what is not as it was left."""

import os
import stat
import struct

import pytest

FILES = ("--files", 5, "--users", 3)
ACCESS, DEFAULT = "system.posix_acl_access", "system.posix_acl_default"
OWNER, USER, GROUP, MASK, OTHER = 1, 2, 4, 16, 32
NOBODY = 2**32 - 1


@pytest.fixture
def lists(run):
    """Runs `engine access-lists --how HOW ...` on five files in the folder d; skips where that cannot have lists."""
    try:
        os.setxattr(run.folder, ACCESS, packed((OWNER, 7), (GROUP, 5), (OTHER, 0)))
    except OSError as error:
        pytest.skip(f"no access control lists here: {error.strerror}")

    def start(how, *more, **options):
        return run("access-lists", "--how", how, *FILES, *more, "d", **options)

    start.folder, start.run = run.folder / "d", run
    return start


def packed(*entries: tuple[int, ...]) -> bytes:
    """As the kernel shows a list: version 2; tag, permissions and number of the user of each entry."""
    whole = [(*entry, NOBODY)[:3] for entry in entries]
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in whole)


def users(*allowed: int) -> list[tuple[int, int, int]]:
    return [(USER, one, 10000 + number) for number, one in enumerate(allowed)]


def test_lists_are_set_read_and_removed(lists):
    lists.run("file-ops", "--how", "create", "--files", 5, "--bytes", "1K", "d")
    file = lists.folder / "file-00000002"
    lists("set")
    expected = packed((OWNER, 6), *users(4, 6, 4), (GROUP, 4), (MASK, 6), (OTHER, 0))
    assert os.getxattr(file, ACCESS) == expected and stat.S_IMODE(file.stat().st_mode) == 0o660
    lists("get")
    lists("set", "--verify")
    assert "the list of file-00000000 is not as it was left" in lists("remove", "--verify", expect=1).stderr
    os.setxattr(file, ACCESS, packed((OWNER, 6), *users(4, 6, 6), (GROUP, 4), (MASK, 6), (OTHER, 0)))
    assert "file-00000002" in lists("set", "--verify", expect=1).stderr
    lists("remove")
    lists("remove", "--verify")
    assert ACCESS not in os.listxattr(file)
    assert "cannot get file-00000000" in lists("get", expect=1).stderr


def test_new_files_inherit_the_list_of_their_folder(lists):
    lists("inherit")
    assert os.getxattr(lists.folder, DEFAULT) == packed((OWNER, 7), *users(4, 6, 4), (GROUP, 5), (MASK, 7), (OTHER, 0))
    # The mode 0640, with which they are made, takes away from owner and mask (acl(5)).
    file = lists.folder / "file-00000002"
    inherited = packed((OWNER, 6), *users(4, 6, 4), (GROUP, 5), (MASK, 4), (OTHER, 0))
    assert os.getxattr(file, ACCESS) == inherited
    lists("inherit", "--verify")
    os.removexattr(file, ACCESS)
    assert "file-00000002" in lists("inherit", "--verify", expect=1).stderr


def test_files_of_an_ordinary_folder_have_none(lists):
    lists("create")
    lists("create", "--verify")
    file = lists.folder / "file-00000004"
    os.setxattr(file, ACCESS, packed((OWNER, 6), *users(4), (GROUP, 4), (MASK, 4), (OTHER, 0)))
    assert "file-00000004" in lists("create", "--verify", expect=1).stderr
    assert "cannot make d" in lists("create", expect=1).stderr
    file.unlink()
    lists("create", "--verify", expect=1)
