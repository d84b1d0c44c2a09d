"""Kernel modules of which Debian has only the source, and our own: compiled once for each version and kernel."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from reprofs.errors import UserError
from reprofs.files import sha256
from reprofs.guest import inside, local
from reprofs.guest.cache import digest_of, kept
from reprofs.guest.fetch import Progress, fetch
from reprofs.guest.folder import Folder
from reprofs.guest.lock import MODULES, Lock, Package, built_module, modules_wish, recipe_of, versions
from reprofs.plan.guest import Guest, LocalPackage

SCRIPTS = Path(__file__).resolve().parents[2] / "guest"
DISKS = "modeldisk"  # the script that compiles the module of modelled disks
IMAGE = re.compile(r"linux-image-\d")  # the kernel itself, which its headers depend on, and no compiler reads
CRASHES = "crashdisk"  # and of disks that can hold what a power cut leaves; jobs bring this module with their programs


def module_sets(guest: Guest) -> list[tuple[str, str, bool]]:
    """What is compiled for the guest's kernel: the name of its script, the set that compiles it, whether that is the
    guest's own."""
    own = [(guest.name, f"{guest.name}-{MODULES}", True)] if guest.modules else []
    return [(DISKS, MODULES, False), *own]


def _sources(name: str) -> dict[str, str]:
    """The script that compiles modules, and our own source."""
    files = [SCRIPTS / f"{name}.sh", *sorted(SCRIPTS.glob(f"{name}*.[ch]"))]
    return {file.name: file.read_text() for file in files}


def recipe(name: str, packages: Iterable[Package | LocalPackage]) -> str:
    """A digest of all that modules are made of. name: of their script."""
    return digest_of([_sources(name), recipe_of(packages)])


def modules_recipe(lock: Lock, guest: Guest) -> list[str]:
    """What a guest's compiled modules are made of, each set's a digest."""
    return [recipe(name, lock.packages(chosen, modules_wish(guest, own))) for name, chosen, own in module_sets(guest)]


def compiled(cache: Path, lock: Lock, name: str, packages: Sequence[Package | LocalPackage], say: Progress) -> Path:
    """The folder of the cache with compiled kernel modules. name: of their script; packages: compiler and headers.

    Raises UserError when they cannot be compiled, or are not what the lock says.
    """

    def make(home: Path) -> dict:
        say(f"{name}: kernel modules must be compiled, which is done once for each kernel")
        own = [package for package in packages if isinstance(package, LocalPackage)]
        locked = [package for package in packages if isinstance(package, Package) and not IMAGE.match(package.name)]
        files = fetch(cache, lock, locked, say)
        debs = {files[package.name]: package.sha256 for package in locked} | local.files(own, "headers")
        (script, *sources) = _sources(name).items()
        texts = {file: text.encode() for file, text in sources}
        try:
            inside.build(home / "root", debs, script[1], texts, say, home)
        finally:
            shutil.rmtree(home / "root", ignore_errors=True)
        return {"modules": {path.name: sha256(path) for path in sorted(home.glob("*.ko"))}}

    made_of = recipe(name, packages)
    (cache / "modules").mkdir(parents=True, exist_ok=True)
    home = cache / "modules" / made_of
    for file, digest in kept(home, make, lambda known: known["modules"])["modules"].items():
        lock.compare(file, made_of, digest)
    return home


def of_jobs(
    cache: Path,
    lock: Lock,
    names: Iterable[str],
    kernel: str | None,
    packages: Sequence[Package | LocalPackage],
    say: Progress,
) -> dict[str, Path]:
    """NAME.ko -> file of the modules that a job brings with its programs.

    kernel: of workflow/kernels, None for the guest's own; packages: compiler and headers for it. Raises UserError like
    `compiled`, and when the lock has other bytes of the same sources.
    """
    found = {}
    for name in names:
        found[f"{name}.ko"] = file = compiled(cache, lock, name, packages, say) / f"{name}.ko"
        lock.compare(built_module(name, kernel), recipe(name, packages), sha256(file))
    return found


def add_modules(tree: Folder, cache: Path, lock: Lock, guest: Guest, release: str, say: Progress) -> dict:
    """Put compiled kernel modules into an unpacked tree, from the cache if it has them.

    release: of the tree's kernel. Returns modules {file: sha256}, compiled_with {package: version} and modules_of
    {file: what it was made of}.
    """
    added: dict = {"modules": {}, "compiled_with": {}, "modules_of": {}}
    for name, chosen, own in module_sets(guest):
        packages = lock.packages(chosen, modules_wish(guest, own))
        if not any(package.name == f"linux-headers-{release}" for package in packages):
            raise UserError(
                f"the set {chosen} of envs/lab.lock has no headers of kernel {release}: "
                f"run `reprofs lock base {MODULES} {chosen}`."
            )
        tree.folder(f"usr/lib/modules/{release}/updates")
        made = put(tree, compiled(cache, lock, name, packages, say), release)
        added["modules"] |= made
        added["modules_of"] |= dict.fromkeys(made, recipe(name, packages))
        added["compiled_with"] |= versions(packages)
    return added


def put(tree: Folder, home: Path, release: str) -> dict[str, str]:
    """Put the modules of a folder into a tree with a kernel of this release; {file: sha256}."""
    files = sorted(home.glob("*.ko"))
    for file in files:
        tree.write(f"usr/lib/modules/{release}/updates/{file.name}", file.read_bytes())
    return {file.name: sha256(file) for file in files}
