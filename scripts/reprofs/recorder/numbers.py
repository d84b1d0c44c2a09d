"""The calls of Linux on x86-64 that reach file systems, by number, and those that are written down as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from reprofs.recorder.events import Event

# Source: arch/x86/entry/syscalls/syscall_64.tbl of Linux.
CALLS: dict[int, str] = {
    **{0: "read", 1: "write", 2: "open", 3: "close", 4: "stat", 5: "fstat", 6: "lstat", 8: "lseek", 9: "mmap"},
    **{16: "ioctl", 17: "pread64", 18: "pwrite64", 19: "readv", 20: "writev", 21: "access", 26: "msync", 32: "dup"},
    **{33: "dup2", 40: "sendfile", 47: "recvmsg", 49: "bind", 56: "clone", 57: "fork", 58: "vfork", 59: "execve"},
    **{72: "fcntl", 73: "flock", 74: "fsync", 75: "fdatasync", 76: "truncate", 77: "ftruncate", 78: "getdents"},
    **{80: "chdir", 81: "fchdir", 82: "rename", 83: "mkdir", 84: "rmdir", 85: "creat", 86: "link", 87: "unlink"},
    **{88: "symlink", 89: "readlink", 90: "chmod", 91: "fchmod", 92: "chown", 93: "fchown", 94: "lchown", 95: "umask"},
    **{101: "ptrace", 132: "utime", 133: "mknod", 137: "statfs", 138: "fstatfs", 155: "pivot_root", 161: "chroot"},
    **{162: "sync", 165: "mount", 187: "readahead", 188: "setxattr", 189: "lsetxattr", 190: "fsetxattr"},
    **{191: "getxattr", 192: "lgetxattr", 193: "fgetxattr", 194: "listxattr", 195: "llistxattr", 196: "flistxattr"},
    **{197: "removexattr", 198: "lremovexattr", 199: "fremovexattr", 206: "io_setup", 207: "io_destroy"},
    **{208: "io_getevents", 209: "io_submit", 217: "getdents64", 221: "fadvise64", 235: "utimes"},
    **{254: "inotify_add_watch", 257: "openat", 258: "mkdirat", 259: "mknodat", 260: "fchownat", 261: "futimesat"},
    **{262: "newfstatat", 263: "unlinkat", 264: "renameat", 265: "linkat", 266: "symlinkat", 267: "readlinkat"},
    **{268: "fchmodat", 269: "faccessat", 272: "unshare", 275: "splice", 277: "sync_file_range", 280: "utimensat"},
    **{285: "fallocate", 292: "dup3", 295: "preadv", 296: "pwritev", 299: "recvmmsg", 303: "name_to_handle_at"},
    **{304: "open_by_handle_at", 306: "syncfs", 308: "setns", 316: "renameat2", 322: "execveat"},
    **{326: "copy_file_range", 327: "preadv2", 328: "pwritev2", 332: "statx", 435: "clone3", 436: "close_range"},
    **{437: "openat2", 438: "pidfd_getfd", 439: "faccessat2", 452: "fchmodat2", 463: "setxattrat", 464: "getxattrat"},
    **{465: "listxattrat", 466: "removexattrat"},
}


class Shape(NamedTuple):
    """A call as a recording has it.

    paths: for each the number of the argument that is its folder, None where it has none; files: arguments that are
    descriptors; numbers: what else is kept of it.
    """

    kind: str
    paths: tuple[int | None, ...] = ()
    files: tuple[int, ...] = ()
    numbers: tuple[Callable[[Event], int], ...] = ()


def _number(argument: int, mask: int | None = None) -> Callable[[Event], int]:
    if mask is None:
        return lambda event: event.signed(argument)
    return lambda event: event.args[argument] & mask


def _constant(value: int) -> Callable[[Event], int]:
    return lambda event: value


def _path(kind: str, *numbers: Callable[[Event], int]) -> Shape:
    return Shape(kind, (None,), (), numbers)


def _at(kind: str, *numbers: Callable[[Event], int]) -> Shape:
    return Shape(kind, (0,), (), numbers)


def _file(kind: str, *numbers: Callable[[Event], int]) -> Shape:
    return Shape(kind, (), (0,), numbers)


_LENGTH, _FLAGS, _MODE, _NOFOLLOW = 0x7FFFFFFF, 0xFFFFFFFF, 0o1777, 0x100
_TWO = (None, None)
_TWO_AT = (0, 2)

PLAIN: dict[str, Shape] = {
    "read": _file("read", _number(2, _LENGTH)),
    "write": _file("write", _number(2, _LENGTH)),
    "pread64": _file("pread", _number(2, _LENGTH), _number(3)),
    "pwrite64": _file("pwrite", _number(2, _LENGTH), _number(3)),
    "lseek": _file("seek", _number(1), _number(2, _FLAGS)),
    "fsync": _file("fsync"),
    "fdatasync": _file("fdatasync"),
    "syncfs": _file("syncfs"),
    "sync": Shape("sync"),
    "sync_file_range": _file("sync-range", _number(1), _number(2), _number(3, _FLAGS)),
    "ftruncate": _file("ftruncate", _number(1)),
    "truncate": _path("truncate", _number(1)),
    "fallocate": _file("allocate", _number(1, _FLAGS), _number(2), _number(3)),
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
    "fadvise64": _file("advise", _number(1), _number(2), _number(3, _FLAGS)),
    "readahead": _file("readahead", _number(1), _number(2)),
    "listxattr": _path("listxattr", _number(2, _LENGTH), _constant(0)),
    "llistxattr": _path("listxattr", _number(2, _LENGTH), _constant(1)),
    "flistxattr": _file("flistxattr", _number(2, _LENGTH)),
}
