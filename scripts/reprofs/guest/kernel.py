"""A kernel of workflow/kernels for the guests of the exact lab: its packages -> kernel, initrd, image of its modules.

The root image stays the guest's own, byte for byte. The modules travel apart, laid over it when the guest starts.
"""

from __future__ import annotations

import re
import shutil
import stat
from pathlib import Path
from typing import NamedTuple

from reprofs.errors import UserError, cut
from reprofs.files import sha256
from reprofs.guest import image, local, rootfs
from reprofs.guest.cache import digest_of, kept, put, writable
from reprofs.guest.fetch import Gone, Progress, fetch
from reprofs.guest.folder import Folder
from reprofs.guest.initrd import BOOT_MODULES, base_initrd
from reprofs.guest.lock import (
    EROFS,
    HEADERS,
    Lock,
    Package,
    compiler,
    kernel_set,
    kernel_wish,
    modules_wish,
    recipe_of,
    tool_wishes,
    wish_of,
)
from reprofs.guest.lock import MODULES as OF_MODULES
from reprofs.guest.modules import DISKS, SCRIPTS, compiled, recipe
from reprofs.guest.modules import put as put_modules
from reprofs.guest.rootfs import MODULES
from reprofs.guest.unpack import Tree
from reprofs.plan.guest import BASE, LocalPackage, read_guest
from reprofs.plan.kernel import Kernel

BUILDER = 1  # increase when something else is made of the same packages
INIT = SCRIPTS / "init-kernel"
# Of the base guest: depmod and what it needs, and a shell for the initrd.
TOOLS = (
    *("busybox-static", "kmod", "libc6", "libkmod2", "liblzma5", "libssl3t64", "libxxhash0", "libzstd1", "zlib1g"),
    *("libgcc-s1", "gcc-14-base"),
)
# What the guest needs and cannot do without (envs/guest.yaml and scripts/guest/init use it): each is =y or =m. BTT or
# NVDIMM_PFN selects ND_CLAIM, without which modules of memory become no disks.
NEEDED = (
    *("ACPI_NFIT", "BINFMT_ELF", "BINFMT_SCRIPT", "BLK_DEV_INITRD", "BLK_DEV_NULL_BLK", "BLK_DEV_PMEM", "CONFIGFS_FS"),
    *("DEVMEM", "DEVPORT", "DEVTMPFS", "EROFS_FS", "FW_CFG_SYSFS", "HIGH_RES_TIMERS", "KALLSYMS", "MAGIC_SYSRQ"),
    *("MODULES", "OVERLAY_FS", "PRINTK", "PROC_FS", "SERIAL_8250_CONSOLE", "SYSFS", "TASK_IO_ACCOUNTING", "TMPFS"),
    *("TMPFS_XATTR", "UNIX98_PTYS", "BTT|NVDIMM_PFN"),
)
BUILT_IN = ("CRYPTO_MANAGER",)  # no checksum is used before it was tested, and the initrd cannot load the tester


class Built(NamedTuple):
    """A kernel in the cache.

    release: what it calls itself; files: vmlinuz, initrd, drivers, each file (relative to the cache), sha256, bytes;
    config: SHA-256 of its configuration; modules: names of what it has, built in or not; packages: name -> version;
    recipe: a digest of what it was made of.
    """

    release: str
    files: dict[str, dict]
    config: str
    modules: list[str]
    packages: dict[str, str]
    recipe: str


def build(cache: Path, lock: Lock, kernel: Kernel, engine: Path, say: Progress) -> Built:
    """Build a kernel's files, or find them in the cache.

    engine: the runner that the initrd carries. Raises UserError when its packages are not to be had, when it has
    another configuration than its file says, or lacks what a guest needs, and when it is made of what the lock says
    and has other bytes.
    """
    recipe = recipe_of_kernel(lock, kernel)
    home = cache / "kernel" / recipe
    with writable(cache), rootfs.umask():
        (cache / "kernel").mkdir(parents=True, exist_ok=True)
        found = kept(home, lambda folder: _build(folder, cache, lock, kernel, say), _named_by_digest)
    if found["config_sha256"] != kernel.config_sha256:
        raise UserError(
            f"{kernel.file}: config_sha256 is {kernel.config_sha256[:16]}…, but the configuration of "
            f"{found['release']} has {found['config_sha256']}. If this is the right kernel, correct the key."
        )
    for part in ("vmlinuz", "drivers"):
        lock.compare(f"{kernel_set(kernel.name)}/{part}", recipe, found[part].partition(".")[0])
    initrd = image.initrd(cache, home / found["base"], engine, [("init", INIT), ("stage2", image.INIT)])
    files = {part: image.file_of(cache, home / found[part]) for part in ("vmlinuz", "drivers")}
    files["initrd"] = image.file_of(cache, initrd, initrd.stem)
    return Built(found["release"], files, found["config_sha256"], found["modules"], found["packages"], recipe)


def recipe_of_kernel(lock: Lock, kernel: Kernel) -> str:
    """A digest of all that a kernel's files are made of. Raises UserError like `Lock.packages`."""
    own = [package.sha256 for package in kernel.debs or _packages(lock, kernel)]
    if found := headers(lock, kernel):
        own.append(recipe(DISKS, found))
    erofs = lock.packages(EROFS, tool_wishes(read_guest().suite)[EROFS])
    made = [BUILDER, BOOT_MODULES, rootfs.SKIPPED, image.EPOCH, image.UUID, recipe_of(_tools(lock)), recipe_of(erofs)]
    return digest_of([*made, *own])


def missing(config: str) -> list[str]:
    """The options that a guest needs and a .config text lacks, as written there."""
    wanted = {name: f"(?:{name})=[ym]" for name in NEEDED} | {f"{name}=y": f"{name}=y" for name in BUILT_IN}
    lacks = [name for name, pattern in wanted.items() if not re.search(f"^CONFIG_{pattern}$", config, re.MULTILINE)]
    return [f"CONFIG_{name.replace('|', ' or CONFIG_')}" for name in lacks]


def _packages(lock: Lock, kernel: Kernel) -> list[Package]:
    found = lock.packages(kernel_set(kernel.name), kernel_wish(kernel))
    return [package for package in found if not HEADERS.match(package.name)]


def headers(lock: Lock, kernel: Kernel | None) -> list[Package | LocalPackage]:
    """What our modules are compiled with for a kernel (None: the guests' own): compiler and headers.

    Nothing where these are not named.
    """
    if not kernel:
        return [*lock.packages(OF_MODULES, modules_wish(read_guest(), False))]
    if kernel.suites:
        found = lock.packages(kernel_set(kernel.name), kernel_wish(kernel))
        return [*compiler(lock, read_guest()), *(package for package in found if HEADERS.match(package.name))]
    return [*compiler(lock, read_guest()), *kernel.headers] if kernel.headers else []


def _add_disks(tree: Folder, cache: Path, lock: Lock, kernel: Kernel, release: str, say: Progress) -> None:
    """Puts the module of modelled disks into a kernel's tree. Raises UserError when it is one for another kernel."""
    if not (packages := headers(lock, kernel)):
        return
    try:
        home = compiled(cache, lock, DISKS, packages, say)
    except Gone:
        raise
    except UserError as error:
        why = cut(str(error).rstrip("."), 150)
        raise UserError(
            f"{kernel.file}: modelled disks for {release}: {why}. Without the key headers it runs without them."
        ) from None
    for module in home.glob("*.ko"):
        if f"vermagic={release} ".encode() not in module.read_bytes():
            raise UserError(f"{kernel.file}: headers are those of another kernel than {release}: name its packages.")
    put_modules(tree, home, release)


def _tools(lock: Lock) -> list[Package]:
    return [package for package in lock.packages(BASE, wish_of(read_guest())) if package.name in TOOLS]


def _named_by_digest(found: dict) -> dict[str, str]:
    return {found[part]: found[part].partition(".")[0] for part in ("vmlinuz", "base", "drivers")}


def _build(home: Path, cache: Path, lock: Lock, kernel: Kernel, say: Progress) -> dict:
    """Fill the folder `home`; return its description."""
    say(f"kernel {kernel.name}: unpacking it, which is done once")
    home.chmod(0o700)  # meanwhile nobody else can start a program of the packages, which may be setuid
    tree, tools = Tree(home / "tree"), Tree(home / "tools")
    packages = _unpack(tree, cache, lock, kernel, say)
    helpers = fetch(cache, lock, _tools(lock), say)
    for package in _tools(lock):
        tools.add(helpers[package.name], package.sha256, rootfs.SKIP)
    release = found_release(tree, kernel.file)
    modules = f"{MODULES}/{release}"
    config = part_of(tree, release, "config")
    if lacks := missing(config.decode(errors="replace")):
        raise UserError(
            f"{kernel.file}: the kernel {release} lacks {', '.join(lacks)}: choose a kernel with these options, "
            "which every guest needs."
        )
    found = {"vmlinuz": put(home, part_of(tree, release, "vmlinuz"), "")}
    (home / "config").write_bytes(config)
    rootfs.plain_modules(tree, release)
    for name in ("build", "source", "vmlinuz", "config", "System.map"):
        tree.remove(f"{modules}/{name}")
    tree.folder(f"{modules}/updates")
    _add_disks(tree, cache, lock, kernel, release, say)
    rootfs.depmod(tools, tree, release)
    names = _names(tree, modules)
    wanted = tuple(module for module in BOOT_MODULES if module in _names(tree, modules, built_in=False))
    found["base"] = put(home, base_initrd(tree, release, tools, wanted), ".cpio")
    only = home / "only"
    (only / MODULES).mkdir(parents=True)
    (tree.root / modules).rename(only / modules)  # there is no link on the way
    image.make_image(only, home / "drivers.partial", image.erofs_tools(cache, lock, say))
    found["drivers"] = f"{sha256(home / 'drivers.partial')}.erofs"
    (home / "drivers.partial").rename(home / found["drivers"])
    for unused in (tree.root, tools.root, only):
        shutil.rmtree(unused)
    home.chmod(0o755)
    facts = {"release": release, "config_sha256": sha256(home / "config"), "modules": names, "packages": packages}
    return found | facts


def _unpack(into: Tree, cache: Path, lock: Lock, kernel: Kernel, say: Progress) -> dict[str, str]:
    """Unpacks the kernel's packages; package -> version."""
    if kernel.debs:
        return local.unpack(into, kernel.debs, f"{kernel.file}: debs")
    packages = _packages(lock, kernel)
    files = fetch(cache, lock, packages, say)
    return dict(into.add(files[package.name], package.sha256, rootfs.SKIP) for package in packages)


def found_release(tree: Folder, where: str) -> str:
    """The release of the only kernel in an unpacked tree. where: what a sentence about it names. Raises UserError."""
    return rootfs.release_of(tree, where, "name packages of one kernel")


def part_of(tree: Folder, release: str, name: str) -> bytes:
    """A file next to the modules (Debian from 6.19 on) or in boot. Raises UserError if missing."""
    for place in (f"boot/{name}-{release}", f"{MODULES}/{release}/{name}"):
        if tree.kind(place) == stat.S_IFREG:
            return tree.read(place)
    raise UserError(
        f"{name} is missing in the packages of the kernel {release}: name the packages with kernel and modules."
    )


def _names(tree: Folder, modules: str, built_in: bool = True) -> list[str]:
    """The names of the modules that depmod found, or that are built in, with underscores."""
    lines = [line.partition(":")[0] for line in _lines(tree, f"{modules}/modules.dep")]
    if built_in and tree.kind(f"{modules}/modules.builtin"):
        lines += _lines(tree, f"{modules}/modules.builtin")
    return sorted({re.sub(r"\.ko.*", "", Path(line).name).replace("-", "_") for line in lines})


def _lines(tree: Folder, name: str) -> list[str]:
    return tree.read(name).decode(errors="replace").splitlines()
