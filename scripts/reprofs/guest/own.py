"""Writes the file of workflow/kernels for your own kernel (`reprofs kernel`).

It comes as Debian packages, or as a folder in which it was built, of which a package is made first.
"""

from __future__ import annotations

import hashlib
import re
import stat
from collections.abc import Iterator
from pathlib import Path

import yaml

from reprofs.errors import UserError, middle, several, short
from reprofs.files import sha256, tar, write_bytes, write_text
from reprofs.guest import rootfs
from reprofs.guest.folder import Folder, below
from reprofs.guest.kernel import found_release, missing, part_of
from reprofs.guest.lock import HEADERS
from reprofs.guest.unpack import LARGEST, Tree
from reprofs.plan.catalog import named
from reprofs.plan.kernel import Kernel
from reprofs.plan.parts import NAME, NAME_RULE
from reprofs.project import place
from reprofs.workplace import scratch

IMAGE = "arch/x86/boot/bzImage"
RELEASE = "include/config/kernel.release"
# In the folder of the source only: what modules are compiled with, and what is left out of its folders.
FOR_MODULES = ("Makefile", ".config", "Module.symvers", "scripts/mod/modpost", "include/linux/module.h")
OBJTOOL = "tools/objtool/objtool"
LINKED = "arch/x86/module.lds"  # in Debian's source; else in scripts
NOT_FOR_MODULES = re.compile(r"include/(dt-bindings|config/[A-Z])|scripts/dtc/|.*\.(o|cmd)$")
ORDER, BUILT_IN = "modules.order", "modules.builtin"
SMALL = 16 << 20  # bytes of a list or a configuration; the largest has 300 kB


def write(name: str, debs: list[Path], build: Path | None, cache: Path) -> Path:
    """Write workflow/kernels/NAME.yaml for these packages, or for the kernel that was built in a folder.

    Returns the file. Raises UserError when there is one of that name, when kernel, configuration or modules are not
    there, and when the configuration lacks what a guest needs; nothing is written then.
    """
    folder = place(Kernel.folder)
    if not NAME.fullmatch(name):
        raise UserError(f"{short(name)} is not a valid kernel name: it must have {NAME_RULE}.")
    if name in named(folder):
        raise UserError(f"{folder / name}.yaml exists: remove it, or choose another name.")
    if bool(debs) == bool(build):
        raise UserError("kernel: name either its packages, or the build folder with --build.")
    with scratch() as work:
        if build:
            debs = _packed(name, build, work)
        into = Tree(work / "tree")
        packages = {}
        for deb in debs:
            if not deb.is_file():
                raise UserError(f"{middle(str(deb))} does not exist: name an existing package.")
            packages[deb], _ = into.add(deb, skip=rootfs.SKIP)
        release = found_release(into, several(map(str, (build and [build]) or debs)))
        part_of(into, release, "vmlinuz")
        config = part_of(into, release, "config")
        if lacks := missing(config.decode(errors="replace")):
            raise UserError(
                f"the kernel {release} lacks {several(lacks, 100)}: set these in its .config and build it again "
                "(envs/guest.config has all that a guest needs)."
            )
        if build:
            packages = {_kept(deb, name, cache): package for deb, package in packages.items()}
        entries = [(HEADERS.match(package), deb) for deb, package in packages.items()]
        content = {"title": f"Linux {release}", "debs": [_entry(deb) for headers, deb in entries if not headers]}
        if of_headers := [_entry(deb) for headers, deb in entries if headers]:
            content["headers"] = of_headers
        content["config_sha256"] = hashlib.sha256(config).hexdigest()
    path = folder / f"{name}.yaml"
    write_text(path, yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=1000))
    return path


def _kept(deb: Path, name: str, cache: Path) -> Path:
    """A package that was made of a folder, in the cache."""
    kept = cache / "own-kernels" / f"{name}-{sha256(deb)[:16]}.deb"
    write_bytes(kept, deb.read_bytes())
    return kept


def _entry(deb: Path) -> dict[str, str]:
    return {"file": str(deb.absolute()), "sha256": sha256(deb)}


def _packed(name: str, build: Path, work: Path) -> list[Path]:
    """Debian packages of the kernel in a folder in which it was built, and of its headers if they are all there.

    The same folder gives the same bytes. Nothing of it is executed, and no link in it is followed out of it.
    """
    folder = Folder(build)
    for file in (IMAGE, RELEASE, ".config"):
        _check_file(folder, file, "build the kernel there first (make bzImage modules)")
    release = folder.read(RELEASE, SMALL).decode(errors="replace").strip()
    if not rootfs.RELEASE.fullmatch(release):
        raise UserError(f"{build / RELEASE} has no kernel release: build the kernel there first.")
    modules = f"{rootfs.MODULES}/{release}"
    files = {f"boot/vmlinuz-{release}": IMAGE, f"boot/config-{release}": ".config"}
    files |= {f"{modules}/{BUILT_IN}": BUILT_IN} if folder.kind(BUILT_IN) == stat.S_IFREG else {}
    drivers = {f"{modules}/kernel/{driver}": driver for driver in _modules(folder)}
    files |= {target: file for target, file in drivers.items() if not rootfs.SKIP.match(target)}
    made = {f"linux-{name}": files}
    if all(folder.kind(file) == stat.S_IFREG for file in FOR_MODULES):
        made[f"linux-headers-0-{name}"] = {f"{modules}/build/{file}": file for file in _header_files(folder)}
    size = sum(folder.size(file) for files in made.values() for file in files.values())
    if size > LARGEST:
        raise UserError(f"the kernel in {middle(str(build))} has {size:,} bytes, and may have {LARGEST:,}: strip it.")
    version = release.lstrip("abcdefghijklmnopqrstuvwxyz") or "0"
    for package, files in made.items():
        (work / f"{package}.deb").write_bytes(_package(package, version, folder, files))
    return [work / f"{package}.deb" for package in made]


def _header_files(folder: Folder) -> Iterator[str]:
    """What modules are compiled with. Source: scripts/package/install-extmod-build of Linux."""
    yield from (*FOR_MODULES, *(f"arch/x86/{name}" for name in folder.names("arch/x86") if name.startswith("Makefile")))
    trees = (name for tree in ("include", "scripts", "arch/x86/include") for name in folder.files(tree))
    for name in (OBJTOOL, LINKED, *trees):
        if folder.kind(name) == stat.S_IFREG and not NOT_FOR_MODULES.match(name):
            yield name


def _package(name: str, version: str, folder: Folder, files: dict[str, str]) -> bytes:
    """A Debian package with these files {name in it: name in the folder}; of headers some are programs."""
    mode = 0o755 if HEADERS.match(name) else 0o644
    control = f"Package: {name}\nVersion: {version}\nArchitecture: amd64\nDescription: a kernel of one's own\n"
    members = {
        "debian-binary": b"2.0\n",
        "control.tar": tar([("./control", control.encode())]),
        "data.tar": tar(((f"./{target}", folder.read(file)) for target, file in sorted(files.items())), mode),
    }
    return b"!<arch>\n" + b"".join(_member(file, content) for file, content in members.items())


def _modules(folder: Folder) -> list[str]:
    """The modules of the last build there, below that folder: one that is built in since then lies there all the same.

    A line of the list is `kernel/fs/ext4/ext4.ko` or, of newer kernels, `fs/ext4/ext4.o`. Raises UserError when one
    is missing.
    """
    text = folder.read(ORDER, SMALL).decode(errors="replace") if folder.kind(ORDER) == stat.S_IFREG else ""
    found = [re.sub(r"\.o$", ".ko", line.removeprefix("kernel/")) for line in text.split()]
    for name in found:
        _check_file(folder, name, "build the modules there first (make modules)")
    return found


def _check_file(folder: Folder, name: str, todo: str) -> None:
    """Raises UserError when a name has `..`, or is none of a file."""
    kind = folder.kind(name)
    if kind != stat.S_IFREG or below(name) != name:
        raise UserError(f"{middle(str(folder.root / name))} is {'no file in it' if kind else 'missing'}: {todo}.")


def _member(name: str, content: bytes) -> bytes:
    """Of an ar archive. Source: ar(5)."""
    head = f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(content):<10}`\n"
    return head.encode() + content + b"\n" * (len(content) % 2)
