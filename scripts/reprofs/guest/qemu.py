"""Builds the QEMU of the exact lab with several processors: Debian's source package and scripts/guest/qemu.

One processor needs none of this: there the lab runs Debian's own binary.
"""

from __future__ import annotations

import shlex
from pathlib import Path

from reprofs.files import sha256
from reprofs.guest.debian import Progress, apt_mirrors, unpack, versions
from reprofs.guest.modules import SCRIPTS
from reprofs.guest.store import digest_of, kept, writable
from reprofs.plan.guest import read_guest

HOOK = SCRIPTS / "qemu.sh"
TEXTS = {  # variables of the hook: files of scripts/guest/qemu
    "WINDOWS": "windows.c",
    "HEADER": "tcg-accel-ops-windows.h",
    "PATCH": "windows.patch",
}
SUITE = "bookworm"  # its QEMU is 7.2, which the patch fits
PACKAGES = (
    "base-files,base-passwd,bash,binutils,bzip2,coreutils,dash,diffutils,findutils,gawk,gcc,grep,gzip,libc-bin,"
    "libc6-dev,libfdt-dev,libglib2.0-dev,libpixman-1-dev,make,meson,ninja-build,patch,pkg-config,python3,"
    "python3-distutils,qemu-system-data,seabios,sed,tar,xz-utils,zlib1g-dev"
)


def build(cache: Path, progress: Progress, mirrors: list[str] | None = None) -> dict:
    """Build it, or find it in the cache.

    cache: folder that keeps it (created); progress: called with one line of text now and then; mirrors: lines of an apt
    sources list, by default from the apt configuration of this machine.

    Returns folder (with qemu-system-x86_64 and its firmware), sha256 {file: digest}, version of Debian's source package
    and compiled_with {package: version}. Raises UserError when the mirror cannot be reached, the patch does not fit or
    the cache cannot be written; nothing half-done stays.
    """
    folder = SCRIPTS / "qemu"
    texts = {name: (folder / file).read_text() for name, file in TEXTS.items()}
    first, rest = HOOK.read_text().split("\n", 1)
    hook = "\n".join([first, *(f"{name}={shlex.quote(text)}" for name, text in texts.items()), rest])
    home = cache / "qemu" / digest_of([hook, SUITE, PACKAGES])

    def say(text: str) -> None:
        progress(f"QEMU with several processors: {text}")

    def make(home: Path) -> dict:
        say("it must be compiled, which is done once and takes some minutes")
        lines = mirrors or apt_mirrors(SUITE)
        sources = [line.replace("deb ", "deb-src ", 1) for line in lines]
        tree = read_guest().model_copy(update={"suite": SUITE, "variant": "extract"})
        unpack(home, tree, [PACKAGES], hook, lines + sources, say, folder="qemu")
        lock = versions((home / "packages.lock").read_bytes())
        files = {path.name: sha256(path) for path in sorted(home.iterdir())}
        return {"sha256": files, "version": lock.pop("qemu"), "compiled_with": lock}

    with writable(cache):
        home.parent.mkdir(parents=True, exist_ok=True)
        return {"folder": home, **kept(home, make, lambda known: known["sha256"])}
