"""Writes the file of workflow/kernels for your own kernel (`reprofs kernel`).

It comes as Debian packages, or as a folder in which it was built, of which a package is made first.
"""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from reprofs.errors import UserError, short
from reprofs.files import sha256, tar, write_bytes, write_text
from reprofs.guest import rootfs
from reprofs.guest.kernel import found_release, missing, part_of
from reprofs.guest.unpack import Tree
from reprofs.plan.catalog import named
from reprofs.plan.kernel import Kernel
from reprofs.plan.parts import NAME, NAME_RULE
from reprofs.project import place
from reprofs.workplace import scratch

IMAGE = "arch/x86/boot/bzImage"
RELEASE = "include/config/kernel.release"
ORDER, BUILT_IN = "modules.order", "modules.builtin"


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
            made = work / "kernel.deb"
            made.write_bytes(_package(name, build))
            debs = [made]
        into = Tree(work / "tree")
        for deb in debs:
            if not deb.is_file():
                raise UserError(f"{deb} does not exist: name an existing package.")
            into.add(deb, skip=rootfs.SKIP)
        release = found_release(into.root, ", ".join(map(str, (build and [build]) or debs)))
        part_of(into.root, release, "vmlinuz")
        config = part_of(into.root, release, "config")
        if lacks := missing(config.read_text(errors="replace")):
            raise UserError(
                f"the kernel {release} lacks {', '.join(lacks)}: set these in its .config and build it again "
                "(envs/guest.config has all that a guest needs)."
            )
        if build:
            kept = cache / "own-kernels" / f"{name}-{sha256(debs[0])[:16]}.deb"
            write_bytes(kept, debs[0].read_bytes())
            debs = [kept]
        content = {
            "title": f"Linux {release}",
            "debs": [{"file": str(deb.absolute()), "sha256": sha256(deb)} for deb in debs],
            "config_sha256": sha256(config),
        }
    path = folder / f"{name}.yaml"
    write_text(path, yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=1000))
    return path


def _package(name: str, build: Path) -> bytes:
    """A Debian package of the kernel in a folder in which it was built; the same folder gives the same bytes."""
    for file in (IMAGE, RELEASE, ".config"):
        if not (build / file).is_file():
            raise UserError(f"{build / file} is missing: build the kernel there first (make bzImage modules).")
    release = (build / RELEASE).read_text().strip()
    if not re.fullmatch(r"[\w.+~-]{1,100}", release):
        raise UserError(f"{build / RELEASE} has no kernel release: build the kernel there first.")
    modules = f"usr/lib/modules/{release}"
    files = {f"boot/vmlinuz-{release}": build / IMAGE, f"boot/config-{release}": build / ".config"}
    files |= {f"{modules}/{BUILT_IN}": build / BUILT_IN} if (build / BUILT_IN).is_file() else {}
    drivers = {f"{modules}/kernel/{name}": build / name for name in _modules(build)}
    files |= {place: path for place, path in drivers.items() if not rootfs.SKIP.match(place)}
    version = release.lstrip("abcdefghijklmnopqrstuvwxyz") or "0"
    control = f"Package: linux-{name}\nVersion: {version}\nArchitecture: amd64\nDescription: a kernel of one's own\n"
    members = {
        "debian-binary": b"2.0\n",
        "control.tar": tar([("./control", control.encode())]),
        "data.tar": tar((f"./{place}", path.read_bytes()) for place, path in sorted(files.items())),
    }
    return b"!<arch>\n" + b"".join(_member(file, content) for file, content in members.items())


def _modules(build: Path) -> list[str]:
    """The modules of the last build there, below that folder: one that is built in since then lies there all the same.

    A line of the list is `kernel/fs/ext4/ext4.ko` or, of newer kernels, `fs/ext4/ext4.o`. Raises UserError when one
    is missing.
    """
    lines = (build / ORDER).read_text().split() if (build / ORDER).is_file() else []
    found = [re.sub(r"\.o$", ".ko", line.removeprefix("kernel/")) for line in lines]
    for name in found:
        if not (build / name).is_file():
            raise UserError(f"{build / name} is missing: build the modules there first (make modules).")
    return found


def _member(name: str, content: bytes) -> bytes:
    """Of an ar archive. Source: ar(5)."""
    head = f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(content):<10}`\n"
    return head.encode() + content + b"\n" * (len(content) % 2)
