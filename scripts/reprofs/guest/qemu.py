"""The QEMU of the labs: Debian's own, with its C library and firmware, so that it is the same on every machine.

It is run by its own loader, which finds its libraries beside it: nothing of the host is loaded. The exact lab's numbers
are those of another one, compiled from Debian's source package and scripts/guest/qemu.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

from reprofs.errors import UserError
from reprofs.files import intact, sha256
from reprofs.guest import inside, rootfs
from reprofs.guest.cache import digest_of, kept, writable
from reprofs.guest.fetch import Progress, fetch
from reprofs.guest.lock import QEMU, QEMU_OWN, Lock, read_lock, recipe_of, tool_wishes
from reprofs.guest.modules import SCRIPTS
from reprofs.guest.rootfs import umask
from reprofs.guest.unpack import Tree
from reprofs.plan.guest import read_guest

BUNDLE = 2  # increase when this file makes another bundle of the same packages
VARIABLE = "REPROFS_QEMU"  # which one: own, debian, or host for this machine's own in the place of the guest's
LOADER, PROGRAM, LICENCES = "ld.so", "qemu", "licences"
UNUSED = re.compile(r"usr/share/(?!(doc|qemu|seabios)(/|$))")  # mostly translations
COMPILED = "qemu-system-x86_64"
DEBIANS = f"usr/bin/{COMPILED}"
# All that a PC without a display, a disk controller and a network opens: the BIOS, the loader of -kernel, the option
# ROM of the interrupt controller.
FIRMWARE = ("bios-256k.bin", "linuxboot_dma.bin", "kvmvapic.bin")
MODULE_FOLDER, MODULE = f"{rootfs.LIBRARIES}/qemu", "accel-tcg-x86_64.so"
SCRIPT = SCRIPTS / "qemu.sh"
# The same QEMU as a program that loads plugins, with its loader and its libraries beside it. The script itself is part
# of what fixes the numbers.
STATIC, LOADS = "--static --disable-pie", "--enable-plugins"
LIBRARIES = f"""
mv /build/out/{COMPILED} /build/out/{PROGRAM}
cp -L /{rootfs.LOADER} /build/out/{LOADER}
ldd /build/out/{PROGRAM} | sed -n 's/.* => \\(.*\\) (0x.*/\\1/p' | xargs cp -L -t /build/out
"""
PATCHES = (  # of scripts/guest/qemu, as they are applied
    "windows",
    "idle",
    "host-instructions",
    "tlb-size",
    "global-pages",
    "jump-cache",
    "inline-lookup",
    "far-jumps",
    "icount",
)
SOURCES = ("windows.c", "tcg-accel-ops-windows.h", *(f"{name}.patch" for name in PATCHES))


def bundle(cache: Path, progress: Progress, lock: Lock | None = None) -> dict:
    """Debian's QEMU with what it loads, from the cache or from the lock's packages.

    cache: folder that keeps it (created); progress: called with one line of text now and then.

    Returns folder (below the cache), files {name: SHA-256}, sha256 (of all of them), version and locked (whether it
    is the one of envs/lab.lock). Raises UserError when a package cannot be fetched or the cache cannot be written, or
    when it is made of what the lock says and has other bytes; nothing half-done stays.
    """
    lock = lock or read_lock()
    packages = lock.packages(QEMU, tool_wishes(read_guest().suite)[QEMU])
    recipe = digest_of([BUNDLE, FIRMWARE, recipe_of(packages)])

    def make(home: Path) -> dict:
        files = fetch(cache, lock, packages, progress)
        progress("QEMU: putting it together with its libraries and firmware")
        root = Tree(home / "root")
        for package in packages:
            root.add(files[package.name], package.sha256, UNUSED)
        version = _gather(root.root, home)
        shutil.rmtree(home / "root")
        found = {path.name: sha256(path) for path in sorted(home.iterdir())}
        return {"files": found, "version": version}

    return _kept(cache, lock, QEMU, recipe, make)


def _gather(root: Path, home: Path) -> str:
    """Copies QEMU, its loader, its libraries, its firmware and everybody's licences from a tree into one folder.

    Returns QEMU's version.
    """
    shutil.copy(root / rootfs.LOADER, home / LOADER)
    shutil.copy(root / DEBIANS, home / PROGRAM)
    listed = rootfs.run(root, DEBIANS, loader=("--list",))
    # The loader itself is listed as well, by its absolute path, and needs no copy.
    for name, path in re.findall(r"^\s*([^\s/]+) => (.+) \(0x", listed, re.MULTILINE):
        if not path.startswith(rootfs.LIBRARIES):
            raise UserError(f"{name}, which QEMU loads, is not in the locked packages; found: {path}.")
        shutil.copy(root / path, home / name)
    # Emulation is a module of QEMU, which it looks for where QEMU_MODULE_DIR says.
    shutil.copy(root / MODULE_FOLDER / MODULE, home / MODULE)
    for name in FIRMWARE:
        (found,) = [path for path in (root / f"usr/share/{at}/{name}" for at in ("seabios", "qemu")) if path.is_file()][
            :1
        ]
        shutil.copy(found, home / name)
    texts = [
        f"---- {path.parent.name}\n\n{path.read_text(errors='replace')}\n"
        for path in sorted(root.glob("usr/share/doc/*/copyright"))
        if path.is_file()
    ]
    (home / LICENCES).write_text("".join(texts))
    for path in home.iterdir():
        if path.is_file():
            path.chmod(0o755 if path.name in (LOADER, PROGRAM) else 0o644)
    said = re.search(r"version (\d[\w.]*)", rootfs.run(root, DEBIANS, "--version"))
    assert said
    return said[1]


def _texts() -> dict[str, str]:
    return {name: (SCRIPTS / "qemu" / name).read_text() for name in SOURCES}


def recipe_of_own(lock: Lock) -> str:
    """A digest of all that our own QEMU is made of. Raises UserError like `Lock.packages`."""
    packages = lock.packages(QEMU_OWN, tool_wishes(read_guest().suite)[QEMU_OWN])
    return digest_of([SCRIPT.read_text(), _texts(), recipe_of(packages)])


def locked(lock: Lock) -> dict[str, str]:
    """What records say of our own QEMU (qemu, qemu_sha256) before it is compiled; nothing if the lock has another."""
    of, digest = lock.built.get(QEMU_OWN, ("", ""))
    return {"qemu": _version(lock), "qemu_sha256": digest} if of == recipe_of_own(lock) else {}


def _version(lock: Lock) -> str:
    return next(package.version for package in lock.sets[QEMU_OWN].packages if package.arch == "source")


def has_own(cache: Path, lock: Lock) -> bool:
    """Whether `own` would find it in the cache, as far as a look tells."""
    return (cache / "qemu" / recipe_of_own(lock) / COMPILED).is_file()


def own(cache: Path, progress: Progress, lock: Lock | None = None) -> dict:
    """Our own QEMU: compiled by the lock's compiler, or found in the cache.

    Like `bundle`. Raises UserError also when a patch does not fit.
    """
    lock = lock or read_lock()
    return _kept(cache, lock, QEMU_OWN, recipe_of_own(lock), _compiler(cache, lock, SCRIPT.read_text(), progress))


def loading(cache: Path, progress: Progress, lock: Lock | None = None) -> dict:
    """As `own`, but it loads plugins, and is started by its own loader. No number of a record is its."""
    lock = lock or read_lock()
    script = SCRIPT.read_text().replace(STATIC, LOADS) + LIBRARIES
    recipe = digest_of([recipe_of_own(lock), script])
    return _kept(cache, lock, "", recipe, _compiler(cache, lock, script, progress))


def _compiler(cache: Path, lock: Lock, script: str, progress: Progress) -> Callable[[Path], dict]:
    """What compiles our own QEMU by a script, into a folder."""
    packages = lock.packages(QEMU_OWN, tool_wishes(read_guest().suite)[QEMU_OWN])
    texts = _texts()

    def say(text: str) -> None:
        progress(f"our own QEMU: {text}")

    def make(home: Path) -> dict:
        say("it must be compiled once, which takes some minutes")
        files = fetch(cache, lock, packages, say)
        debs = {files[package.name]: package.sha256 for package in packages if package.arch != "source"}
        sources = [package for package in packages if package.arch == "source"]
        given = {name: text.encode() for name, text in texts.items()} | {"patches": "\n".join(PATCHES).encode()}
        given |= {package.name: files[package.name].read_bytes() for package in sources}
        inside.build(home / "root", debs, script, given, say, home)
        shutil.rmtree(home / "root")
        found = {path.name: sha256(path) for path in sorted(home.iterdir())}
        return {"files": found, "version": _version(lock)}

    return make


def whole(cache: Path, known: dict) -> bool:
    """Whether all files of a QEMU are there and undamaged. known: as `bundle` returns it."""
    return all(intact(cache / known["folder"] / name, digest) for name, digest in known["files"].items())


def _kept(cache: Path, lock: Lock, name: str, recipe: str, make: Callable[[Path], dict]) -> dict:
    with writable(cache), umask():
        (cache / "qemu").mkdir(parents=True, exist_ok=True)
        home = cache / "qemu" / recipe
        known = kept(home, make, lambda known: known["files"])
    digest = digest_of([known["files"]], 64)
    locked = lock.compare(name, recipe, digest)
    parts = {"files": known["files"], "sha256": digest, "version": known["version"]}
    return {"folder": f"qemu/{recipe}", **parts, "recipe": recipe, "locked": locked}
