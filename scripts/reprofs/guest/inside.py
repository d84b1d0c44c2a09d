"""Compiling in a root of locked packages: the same compiler at the same paths, whatever this machine has.

The root is entered as `enter.py` does; all mounts and processes of it end with the process that started them.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from reprofs.errors import UserError, cut
from reprofs.guest.rootfs import SKIP, entered, not_entered
from reprofs.guest.unpack import Tree
from reprofs.workplace import end_with_parent

HEARTBEAT_S = 10
LOG = 64 << 20  # bytes of what is said that are looked at
# Single devices, not the folder: a compiler that removes its output, /dev/null, cannot remove the machine's.
NODES = {f"dev/{node}": Path("/dev", node) for node in ("full", "null", "random", "urandom", "zero")}
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
ENVIRONMENT = {
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    "PATH": PATH,
    "HOME": "/tmp",
    "TAR_OPTIONS": "--no-same-owner",  # there is no user but root
    "SOURCE_DATE_EPOCH": "1577836800",
    "KBUILD_BUILD_TIMESTAMP": "2020-01-01",
    "KBUILD_BUILD_USER": "reprofs",
    "KBUILD_BUILD_HOST": "reprofs",
}
START = f"export PATH={PATH}\nmkdir -p /tmp /build/out\nldconfig\n"
# Debian has awk by an alternative, which an install script would set.
START += "for awk in gawk mawk; do [ ! -x /usr/bin/$awk ] || ln -sf $awk /usr/bin/awk; done\n"
START += "cd /build\n"


def build(
    root: Path, packages: dict[Path, str], script: str, files: dict[str, bytes], say: Callable[[str], None], to: Path
) -> None:
    """Unpacks packages {file: SHA-256} into the folder `root` and runs a script in it, in /build, beside these files.

    The files that the script left in /build/out are copied to the folder `to`. Raises UserError when it fails, or when
    this machine lets nobody enter another root; what was unpacked stays for the caller to remove.
    """
    tree = Tree(root)
    for package, digest in packages.items():
        tree.add(package, digest, SKIP)
    for name in ("build", "dev", "tmp"):
        tree.folder(name)
    for name in NODES:
        tree.write(name, b"")
    for name, content in {**files, "script": (START + script).encode()}.items():
        tree.write(f"build/{name}", content)
    # Not a file in the root, which the script could replace.
    with tempfile.TemporaryFile() as said:
        # REPROFS_PLACE: by which reprofs.cleanup knows processes that outlive a kill.
        process = subprocess.Popen(
            entered(root, ["/bin/sh", "-eu", "/build/script"], NODES),
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            env={**ENVIRONMENT, "REPROFS_PLACE": str(root)},
            preexec_fn=end_with_parent,
        )
        try:
            began = time.monotonic()
            while process.poll() is None:
                try:
                    process.wait(HEARTBEAT_S)
                except subprocess.TimeoutExpired:
                    say(f"still compiling, {time.monotonic() - began:.0f} s")
        finally:
            process.kill()
            process.wait()
        if process.returncode:
            said.seek(0)
            raise _error(said.read(LOG).decode(errors="replace"))
    for name in tree.names("build/out"):
        tree.copy(f"build/out/{name}", to / name)


def _error(text: str) -> UserError:
    """The error for the user that follows from what a script said."""
    lines = [line.strip() for line in text.splitlines() if line.strip()] or ["no message"]
    if lines[-1].startswith("enter:"):  # with the words of a full disk where as many namespaces are as may be
        return not_entered(lines[-1])
    if "No space left on device" in text:
        return UserError(
            "no disk space for compiling kernel modules: free some, or set REPROFS_CACHE to another folder."
        )
    wrong = re.search(r"^(.*\berror:[\s*]*.*)|^make.*\*\*\* (\[.*)", text, re.MULTILINE)
    said = " ".join(next(filter(None, wrong.groups())).replace("*", " ").split()) if wrong else lines[-1]
    return UserError(f"compiling locked packages failed: {cut(said, 200)}")
