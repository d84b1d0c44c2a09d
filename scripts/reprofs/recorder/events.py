"""The events of a recorded program, from the recorder (scripts/engine/recorder.c) or the output of strace."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO, NamedTuple

ENTRY, RESULT, FORK, EXEC, EXIT, USED, UNMAPPED, FOREIGN, END, FAILED = range(1, 11)
LEFT_OUT, SAID = 11, 12  # of the text alone: a call that is not followed, text 0 says as what; empty: as none
HEAD = struct.Struct("<Iiq6Q4H")  # struct event
PAIR = struct.Struct("<2Q")
NO_ARGS, NO_TEXTS = (0, 0, 0, 0, 0, 0), (b"", b"", b"")
HIDDEN = b"\0"  # stands for a name that was not printed

# The calls that reach file systems, on x86-64.
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


class Entry(NamedTuple):
    """One of a listing. kind: as d_type of getdents(2)."""

    name: str
    inode: int
    kind: int


@dataclass
class Told:
    """What strace prints about a successful call, besides its result.

    status: fields of stat(2); real: where what was opened is, None: not said; target: what a link holds.
    """

    status: dict[str, int] = field(default_factory=dict)
    entries: list[Entry] = field(default_factory=list)
    real: str | None = None
    target: str | None = None


@dataclass
class Event:
    """type: one of those above; pid: whose; value: number of the call, its result, the child, or the mapping.

    name: of a call that begins; leads: descriptors of it -> where they lead, as far as the text says.
    """

    type: int
    pid: int
    value: int = 0
    args: tuple[int, ...] = NO_ARGS
    texts: tuple[bytes, bytes, bytes] = NO_TEXTS
    name: str = ""
    leads: dict[int, str] = field(default_factory=dict)
    told: Told | None = None

    def text(self, number: int) -> str:
        """A name that the call was given, or where its descriptor leads."""
        return os.fsdecode(self.texts[number])

    def signed(self, number: int) -> int:
        """An argument as a number with a sign."""
        value = self.args[number]
        return value - 2**64 if value >> 63 else value

    def fd(self, number: int) -> int:
        """An argument as a descriptor."""
        value = self.args[number] & 0xFFFFFFFF
        return value - 2**32 if value >> 31 else value

    def runs(self) -> list[tuple[int, int]]:
        """Of USED: (first page, number of pages) of those that were used since it was last told."""
        return list(PAIR.iter_unpack(self.texts[0]))


def read(stream: BinaryIO) -> Iterator[Event]:
    """The events of the recorder's stream, until it ends."""
    while len(head := stream.read(HEAD.size)) == HEAD.size:
        kind, pid, value, a0, a1, a2, a3, a4, a5, n0, n1, n2, _ = HEAD.unpack(head)
        texts = (stream.read(n0), stream.read(n1), stream.read(n2))
        name = CALLS.get(value, f"call {value}") if kind == ENTRY else ""
        yield Event(kind, pid, value, (a0, a1, a2, a3, a4, a5), texts, name)
