"""Compiling in a root of locked packages: the same compiler at the same paths, whatever this machine has.

The root is entered by chroot, as an ordinary user in a user namespace; all mounts and processes of it end with the
process that started them.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from reprofs.errors import UserError, cut
from reprofs.guest.rootfs import SKIP
from reprofs.guest.unpack import Tree
from reprofs.workplace import end_with_parent

HEARTBEAT_S = 10
# In a mount namespace of its own: nothing of it is seen outside, and nobody removes a folder through a forgotten mount.
# Single devices, not the folder: a compiler that removes its output, /dev/null, cannot remove the machine's.
ENTER = """
for node in full null random urandom zero; do
    : > "$1/dev/$node"
    mount --bind "/dev/$node" "$1/dev/$node"
done
exec chroot "$1" /bin/sh -eu /build/script
"""
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
ENVIRONMENT = {
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    "HOME": "/tmp",
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
    root: Path, packages: dict[Path, str], script: str, files: dict[str, bytes], say: Callable[[str], None]
) -> Path:
    """Unpacks packages {file: SHA-256} into the folder `root` and runs a script in it, in /build, beside these files.

    Returns the folder with what the script left in /build/out. Raises UserError when it fails, or when this machine
    lets nobody enter another root; what was unpacked stays for the caller to remove.
    """
    tree = Tree(root)
    for package, digest in packages.items():
        tree.add(package, digest, SKIP)
    for folder in ("build", "dev", "tmp"):
        (root / folder).mkdir(exist_ok=True)
    for name, content in {**files, "script": (START + script).encode()}.items():
        (root / "build" / name).write_bytes(content)
    command = ["unshare", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"])]
    command += ["--mount", "--pid", "--fork", "--kill-child", "sh", "-euc", ENTER, "sh", str(root)]
    for tool in ("unshare", "mount", "chroot"):
        if shutil.which(tool, path=_path()) is None:
            raise UserError(f"{tool} is missing, which building needs: install util-linux and coreutils.")
    log = root / "build/log"
    with log.open("wb") as said:
        # REPROFS_PLACE: by which reprofs.cleanup knows processes that outlive a kill.
        environment = {**ENVIRONMENT, "PATH": _path(), "REPROFS_PLACE": str(root)}
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, env=environment, preexec_fn=end_with_parent
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
        raise _error(log.read_text(errors="replace"))
    return root / "build/out"


def _path() -> str:
    """Of this machine, and then of the root: a user's own need not have mount and chroot."""
    return f"{os.environ.get('PATH', '')}:{PATH}"


def _error(text: str) -> UserError:
    """The error for the user that follows from what a script said."""
    lines = [line.strip() for line in text.splitlines() if line.strip()] or ["no message"]
    if "No space left on device" in text:
        return UserError(
            "no disk space for compiling kernel modules: free some, or set REPROFS_CACHE to another folder."
        )
    if lines[-1].startswith(("unshare:", "mount:", "chroot:")):
        return UserError(
            f"cannot enter the root of locked packages ({cut(lines[-1], 120)}). Without root this needs user "
            "namespaces (kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns): "
            "allow them, or build as root."
        )
    wrong = re.search(r"^(.*\berror:[\s*]*.*)|^make.*\*\*\* (\[.*)", text, re.MULTILINE)
    said = " ".join(next(filter(None, wrong.groups())).replace("*", " ").split()) if wrong else lines[-1]
    return UserError(f"compiling locked packages failed: {cut(said, 200)}")
