"""Kernel modules of which Debian has only the source, and our own: compiled once for each version and kernel."""

from __future__ import annotations

import shutil
from pathlib import Path

from reprofs.errors import UserError
from reprofs.files import sha256
from reprofs.guest import inside
from reprofs.guest.cache import digest_of, kept
from reprofs.guest.fetch import Progress, fetch
from reprofs.guest.lock import MODULES, Lock, modules_wish, recipe_of, versions
from reprofs.guest.tree import Folder
from reprofs.plan.guest import Guest

SCRIPTS = Path(__file__).resolve().parents[2] / "guest"


def module_sets(guest: Guest) -> list[tuple[str, str, bool]]:
    """What is compiled for the guest's kernel: the name of its script, the set that compiles it, whether that is the
    guest's own."""
    own = [(guest.name, f"{guest.name}-{MODULES}", True)] if guest.modules else []
    return [("modeldisk", MODULES, False), *own]


def _sources(name: str) -> dict[str, str]:
    """The script that compiles modules, and our own source."""
    files = [SCRIPTS / f"{name}.sh", *sorted(SCRIPTS.glob(f"{name}*.[ch]"))]
    return {file.name: file.read_text() for file in files}


def modules_recipe(lock: Lock, guest: Guest) -> list[str]:
    """What a guest's compiled modules are made of, each set's a digest."""
    return [
        digest_of([_sources(name), recipe_of(lock.packages(chosen, modules_wish(guest, own)))])
        for name, chosen, own in module_sets(guest)
    ]


def add_modules(tree: Folder, cache: Path, lock: Lock, guest: Guest, release: str, say: Progress) -> dict:
    """Put compiled kernel modules into an unpacked tree, from the cache if it has them.

    release: of the tree's kernel. Returns modules {file: sha256}, compiled_with {package: version} and modules_of
    {file: what it was made of}.
    """
    target = f"usr/lib/modules/{release}/updates"
    tree.folder(target)
    added: dict = {"modules": {}, "compiled_with": {}, "modules_of": {}}
    for (name, chosen, own), recipe in zip(module_sets(guest), modules_recipe(lock, guest), strict=True):
        packages = lock.packages(chosen, modules_wish(guest, own))
        if not any(package.name == f"linux-headers-{release}" for package in packages):
            raise UserError(
                f"the set {chosen} of envs/lab.lock has no headers of kernel {release}: "
                f"run `reprofs lock base {MODULES} {chosen}`."
            )

        def make(home: Path, name=name, packages=packages) -> dict:
            say(f"{name}: kernel modules must be compiled for kernel {release}, which is done once")
            files = fetch(cache, lock, packages, say)
            debs = {files[package.name]: package.sha256 for package in packages}
            (script, *sources) = _sources(name).items()
            texts = {file: text.encode() for file, text in sources}
            try:
                inside.build(home / "root", debs, script[1], texts, say, home)
            finally:
                shutil.rmtree(home / "root", ignore_errors=True)
            return {"modules": {path.name: sha256(path) for path in sorted(home.glob("*.ko"))}}

        home = cache / "modules" / recipe
        made = kept(home, make, lambda known: known["modules"])["modules"]
        for file, digest in made.items():
            lock.compare(file, recipe, digest)
            tree.write(f"{target}/{file}", (home / file).read_bytes())
        added["modules"] |= made
        added["modules_of"] |= dict.fromkeys(made, recipe)
        added["compiled_with"] |= versions(packages)
    return added
