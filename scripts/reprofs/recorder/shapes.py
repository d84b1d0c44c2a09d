"""The calls that are written down as they are: their names, open files and numbers, as a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from reprofs.recorder.events import Event

AT_EMPTY_PATH = 0x1000
Number = Callable[[Event], int]


class Shape(NamedTuple):
    """A call as a recording has it.

    paths: for each the number of the argument that is its folder, None where it has none; files: arguments that are
    descriptors; numbers: what else is kept of it; alone: the argument whose flags say that it may be without a path, of
    the descriptor itself; attribute: whether the text after its paths is the name of an extended attribute.
    """

    kind: str
    paths: tuple[int | None, ...] = ()
    files: tuple[int, ...] = ()
    numbers: tuple[Number, ...] = ()
    alone: int | None = None
    attribute: bool = False

    def is_alone(self, event: Event) -> bool:
        """Whether a call is one of the descriptor itself."""
        if self.alone is None or event.texts[0]:
            return False
        return self.kind == "set-times" or bool(event.args[self.alone] & AT_EMPTY_PATH)


def _signed(argument: int) -> Number:
    return lambda event: event.signed(argument)


def _number(argument: int, mask: int = 2**64 - 1) -> Number:
    return lambda event: event.args[argument] & mask


def _constant(value: int) -> Number:
    return lambda event: value


def _path(kind: str, *numbers: Number, attribute: bool = False) -> Shape:
    return Shape(kind, (None,), (), numbers, None, attribute)


def _at(kind: str, *numbers: Number, alone: int | None = None) -> Shape:
    return Shape(kind, (0,), (), numbers, alone)


def _file(kind: str, *numbers: Number, attribute: bool = False) -> Shape:
    return Shape(kind, (), (0,), numbers, None, attribute)


_LENGTH, _FLAGS, _MODE, _NOFOLLOW = 0x7FFFFFFF, 0xFFFFFFFF, 0o1777, 0x100
_TWO = (None, None)
_TWO_AT = (0, 2)

PLAIN: dict[str, Shape] = {
    "read": _file("read", _number(2, _LENGTH)),
    "write": _file("write", _number(2, _LENGTH)),
    "pread64": _file("pread", _number(2, _LENGTH), _signed(3)),
    "pwrite64": _file("pwrite", _number(2, _LENGTH), _signed(3)),
    "lseek": _file("seek", _signed(1), _number(2, _FLAGS)),
    "fsync": _file("fsync"),
    "fdatasync": _file("fdatasync"),
    "syncfs": _file("syncfs"),
    "sync": Shape("sync"),
    "sync_file_range": _file("sync-range", _signed(1), _signed(2), _number(3, _FLAGS)),
    "ftruncate": _file("ftruncate", _signed(1)),
    "truncate": _path("truncate", _signed(1)),
    "fallocate": _file("allocate", _number(1, _FLAGS), _signed(2), _signed(3)),
    "stat": _path("stat", _constant(0)),
    "lstat": _path("stat", _constant(_NOFOLLOW)),
    "fstat": _file("fstat"),
    "access": _path("access", _number(1, 7)),
    "faccessat": _at("access", _number(2, 7)),
    "faccessat2": _at("access", _number(2, 7)),
    "readlink": _path("readlink", _number(2, _LENGTH)),
    "readlinkat": _at("readlink", _number(3, _LENGTH)),
    "getdents": _file("list", _number(2, _LENGTH)),
    "getdents64": _file("list", _number(2, _LENGTH)),
    "rmdir": _path("rmdir"),
    "unlink": _path("unlink"),
    "link": Shape("link", _TWO, (), (_constant(0),)),
    "linkat": Shape("link", _TWO_AT, (), (_number(4, 0x400),)),
    "rename": Shape("rename", _TWO, (), (_constant(0),)),
    "renameat": Shape("rename", _TWO_AT, (), (_constant(0),)),
    "renameat2": Shape("rename", _TWO_AT, (), (_number(4, 7),)),
    "chmod": _path("chmod", _number(1, _MODE)),
    "fchmodat": _at("chmod", _number(2, _MODE)),
    "fchmodat2": _at("chmod", _number(2, _MODE)),
    "fchmod": _file("fchmod", _number(1, _MODE)),
    "chown": _path("chown", _constant(0)),
    "lchown": _path("chown", _constant(_NOFOLLOW)),
    "fchown": _file("fchown"),
    "utime": _path("set-times", _constant(0)),
    "utimes": _path("set-times", _constant(0)),
    "futimesat": _at("set-times", _constant(0)),
    "statfs": _path("statfs"),
    "fstatfs": _file("fstatfs"),
    "flock": _file("flock", _number(1, 15)),
    "fadvise64": _file("advise", _signed(1), _signed(2), _number(3, _FLAGS)),
    "readahead": _file("readahead", _signed(1), _signed(2)),
    "listxattr": _path("listxattr", _number(2, _LENGTH), _constant(0)),
    "llistxattr": _path("listxattr", _number(2, _LENGTH), _constant(1)),
    "flistxattr": _file("flistxattr", _number(2, _LENGTH)),
    "newfstatat": _at("stat", _number(3, 0x900), alone=3),
    "statx": _at("stat", _number(2, 0x900), alone=2),
    "fchownat": _at("chown", _number(4, _NOFOLLOW), alone=4),
    "utimensat": _at("set-times", _number(3, _NOFOLLOW), alone=3),
    "getxattr": _path("getxattr", _number(3), _constant(0), attribute=True),
    "lgetxattr": _path("getxattr", _number(3), _constant(1), attribute=True),
    "fgetxattr": _file("fgetxattr", _number(3), attribute=True),
    "setxattr": _path("setxattr", _number(3), _number(4), _constant(0), attribute=True),
    "lsetxattr": _path("setxattr", _number(3), _number(4), _constant(1), attribute=True),
    "fsetxattr": _file("fsetxattr", _number(3), _number(4), attribute=True),
    "removexattr": _path("removexattr", _constant(0), attribute=True),
    "lremovexattr": _path("removexattr", _constant(1), attribute=True),
    "fremovexattr": _file("fremovexattr", attribute=True),
}
