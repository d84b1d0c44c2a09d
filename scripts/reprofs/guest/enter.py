"""Runs a program of packages in namespaces of its own: enter.py ROOT SOURCE=TARGET... -- WORDS

Its root is that folder. It sees this, what is mounted in it for it alone, and no other file, process or network of this
machine. Whoever starts it is root there, and root of nothing else. All of it ends with the process that started it.
Python runs this file alone, with nothing but its standard library.
"""

import ctypes
import os
import signal
import sys

LIBC = ctypes.CDLL(None, use_errno=True)
# Source: linux/sched.h, linux/mount.h, linux/prctl.h
NEWNS, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET = 0x20000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
BIND, REC, PRIVATE, DETACH = 4096, 16384, 1 << 18, 2
PDEATHSIG = 1
PIVOT_ROOT = 155  # of x86-64
FAILED, NO_PROGRAM = 125, 127  # exit codes


def call(name: str, *arguments: object) -> None:
    """A function of the C library. Raises OSError."""
    if getattr(LIBC, name)(*arguments):
        raise OSError(ctypes.get_errno(), f"{name}: {os.strerror(ctypes.get_errno())}")


def apart() -> None:
    """In namespaces of its own, as root of these; where a machine has none of users, as its root, if that starts it."""
    users = {"uid": os.geteuid(), "gid": os.getegid()}
    others = NEWNS | NEWPID | NEWNET | NEWIPC | NEWUTS
    try:
        call("unshare", NEWUSER | others)
    except OSError:
        if users["uid"]:
            raise
        call("unshare", others)
        return
    for name, text in {"setgroups": "deny", **{f"{kind}_map": f"0 {own} 1" for kind, own in users.items()}}.items():
        with open(f"/proc/self/{name}", "w") as file:  # noqa: PTH123
            file.write(text)


def enter(root: str, mounts: list[str]) -> None:
    """Makes a folder the root, with these mounted in it, and lets go of the machine's own."""
    call("mount", None, b"/", None, REC | PRIVATE, None)
    call("mount", os.fsencode(root), os.fsencode(root), None, BIND, None)
    for source, _, target in (pair.rpartition("=") for pair in mounts):
        call("mount", os.fsencode(source), os.fsencode(f"{root}/{target}"), None, BIND, None)
    os.chdir(root)
    call("syscall", PIVOT_ROOT, b".", b".")
    call("umount2", b".", DETACH)
    os.chdir("/")


def main() -> int:
    at = sys.argv.index("--")
    root, *mounts = sys.argv[1:at]
    words = sys.argv[at + 1 :]
    try:
        apart()
        child = os.fork()  # which is the first process in them
        if child:
            _, status = os.waitpid(child, 0)
            return os.waitstatus_to_exitcode(status) % 256
        call("prctl", PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        enter(root, mounts)
    except OSError as error:
        print(f"enter: {error.strerror}", file=sys.stderr)
        return FAILED
    try:
        os.execv(words[0], words)
    except OSError as error:
        print(f"{words[0]}: {error.strerror}", file=sys.stderr)
    return NO_PROGRAM


if __name__ == "__main__":
    os._exit(main())
