"""A Python of its own for what is kept for years: Debian's, with its libraries, of the base guest's packages.

Like QEMU (qemu.py) it is run by its own loader, so that it needs nothing of the machine but a kernel.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from reprofs.errors import UserError
from reprofs.guest import rootfs
from reprofs.guest.fetch import Progress, fetch
from reprofs.guest.lock import BASE, Lock, Package, wish_of
from reprofs.guest.unpack import Tree
from reprofs.plan.guest import read_guest

VERSION = "3.13"
LOADER, PROGRAM, LIBRARIES, STANDARD = "ld.so", f"bin/python{VERSION}", "lib", f"lib/python{VERSION}"
# Python, and what its modules and those of the trial load.
PACKAGES = (
    *(f"python{VERSION}-minimal", f"libpython{VERSION}-minimal", f"libpython{VERSION}-stdlib"),
    *("libbz2-1.0", "libc6", "libexpat1", "libffi8", "libgcc-s1", "liblzma5", "libssl3t64", "libuuid1", "libzstd1"),
    "zlib1g",
)
# For modules from elsewhere. Those of the C library that are empty today would else be an older machine's.
ALSO = ("libgcc_s.so.1", "libdl.so.2", "libm.so.6", "libpthread.so.0", "librt.so.1", "libutil.so.1")
UNUSED = ("test", "idlelib", "ensurepip", "lib2to3", "tkinter", "turtledemo", f"config-{VERSION}-x86_64-linux-gnu")


def packages(lock: Lock) -> list[Package]:
    """What it consists of. Raises UserError like `Lock.packages`."""
    return [package for package in lock.packages(BASE, wish_of(read_guest())) if package.name in PACKAGES]


def gather(home: Path, cache: Path, lock: Lock, say: Progress) -> None:
    """Puts Python into the new folder `home`: LOADER, PROGRAM, its libraries and its standard library.

    cache: has or gets the packages. Raises UserError when one cannot be had, or needs a library that none of them has.
    """
    wanted = packages(lock)
    files = fetch(cache, lock, wanted, say)
    root = home.with_name(f"{home.name}.tree")
    into = Tree(root)
    for package in wanted:
        into.add(files[package.name], package.sha256, rootfs.SKIP)
    (home / "bin").mkdir(parents=True)
    shutil.copy(root / rootfs.LOADER, home / LOADER)
    shutil.copy(root / f"usr/{PROGRAM}", home / PROGRAM)
    _copy_modules(root / f"usr/{STANDARD}", home / STANDARD)
    libraries = {name: root / rootfs.LIBRARIES / name for name in ALSO} | _libraries(root, f"usr/{PROGRAM}")
    for module in sorted((home / STANDARD / "lib-dynload").glob("*.so")):
        try:
            libraries |= _libraries(root, f"usr/{STANDARD}/lib-dynload/{module.name}")
        except UserError:  # of a database or a terminal, which nothing here has
            module.unlink()
    for name, path in libraries.items():
        shutil.copy(path, home / LIBRARIES / name)
    shutil.rmtree(root)


def check(home: Path, folder: Path) -> None:
    """Raises UserError when a module in a folder would load a library that is not in `home`, as `gather` filled it."""
    for module in sorted(folder.rglob("*.so*")):
        words = [str(home / LOADER), "--inhibit-cache", "--library-path", str(home / LIBRARIES), "--list", str(module)]
        listed = subprocess.run(words, capture_output=True, text=True).stdout
        for name, path in re.findall(r"^\s*([^\s/]+) => (.+)", listed, re.MULTILINE):
            if not path.startswith(str(home)):
                raise UserError(f"{module.name} loads {name}, which is not in the Python of the archive.")


def _libraries(root: Path, file: str) -> dict[str, Path]:
    """Name -> file of the libraries that a program or a library of the tree loads. Raises UserError without one."""
    listed = rootfs.run(root, file, loader=("--list",))
    # The loader itself is listed as well, by its absolute path, and needs no copy.
    found = re.findall(r"^\s*([^\s/]+) => (\S+) \(0x", listed, re.MULTILINE)
    for name, path in found:
        if not path.startswith(rootfs.LIBRARIES):
            raise UserError(f"{name}, which {file} loads, is not in the locked packages; found: {path}.")
    return {name: root / path for name, path in found}


def _copy_modules(source: Path, target: Path) -> None:
    """Copies files, and no links: they lead to other packages."""
    for path in sorted(source.rglob("*")):
        inside = path.relative_to(source)
        if path.is_file() and not path.is_symlink() and inside.parts[0] not in UNUSED:
            (target / inside).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target / inside)
