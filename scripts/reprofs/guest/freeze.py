"""Writing envs/lab.lock: which packages the labs consist of from now on, and what is built of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from reprofs.errors import UserError, meant, short
from reprofs.files import sha256
from reprofs.guest import engine, image, qemu
from reprofs.guest import kernel as kernels
from reprofs.guest.lock import (
    EROFS,
    LOCK,
    MODULES,
    QEMU,
    QEMU_OWN,
    Lock,
    built_module,
    kernel_set,
    read_lock,
    wishes,
    write_lock,
)
from reprofs.guest.modules import CRASHES, of_jobs, recipe
from reprofs.guest.packages import resolve
from reprofs.plan.catalog import Catalog
from reprofs.plan.guest import BASE, FILE, Guest, Guests
from reprofs.plan.kernel import Kernel
from reprofs.plan.read import read_yaml
from reprofs.project import place, project_root


def freeze(cache: Path, names: list[str], resolved: bool, say: Callable[[str], None]) -> None:
    """Asks for the packages of these sets (none: all) anew unless they are `resolved`, builds what consists of them,
    and writes both into the lock.

    Raises UserError for an unknown name, and as resolving and building do.
    """
    guests = read_yaml(project_root() / FILE, Guests)
    catalog = Catalog()
    known = [kernel for name in catalog.paths(Kernel) if (kernel := catalog.get(Kernel, name)).suites]
    asked = wishes(guests, known)
    if unknown := [name for name in names if name not in asked]:
        raise UserError(f"{LOCK} has no set {short(unknown[0])}: {meant(unknown[0], asked)}")
    lock = read_lock() if (project_root() / LOCK).exists() else Lock("")
    if not resolved:
        resolve(lock, asked, names or list(asked), say)
        write_lock(lock)
    lock.built = {} if not names else lock.built
    blank = replace(lock, built={})  # what is built now is not compared with what was built before
    for name in (BASE, *guests.guests):
        guest = guests.guest(name)
        if not names or _sets(guest).intersection(names):
            manifest = image.build(
                cache, place(f"data/guest/{name}.json"), engine.build(cache), say, name=name, lock=blank
            )
            lock.built |= {part: (of, digest) for part, (of, digest) in manifest["built"].items()}
            write_lock(lock)
    freeze_kernels(cache, lock, known, names, say)
    if not names or MODULES in names:
        freeze_modules(cache, lock, known, say)
        write_lock(lock)
    if not names or QEMU_OWN in names:
        built = qemu.own(cache, say, blank)
        lock.built[QEMU_OWN] = (built["recipe"], built["sha256"])
        write_lock(lock)


def freeze_kernels(cache: Path, lock: Lock, known: list[Kernel], names: list[str], say: Callable[[str], None]) -> None:
    """Builds those of these kernels whose sets are named (none: all), and notes them in the lock."""
    blank = replace(lock, built={})
    for kernel in known:
        name = kernel_set(kernel.name)
        if not names or {name, BASE, EROFS, MODULES}.intersection(names):
            made = kernels.build(cache, blank, kernel, engine.build(cache), say)
            for part in ("vmlinuz", "drivers"):
                lock.built[f"{name}/{part}"] = (made.recipe, made.files[part]["sha256"])
            write_lock(lock)


def freeze_modules(cache: Path, lock: Lock, known: list[Kernel], say: Callable[[str], None]) -> None:
    """Compiles the modules that jobs bring, for the guests' own kernel and for these, and notes them in the lock."""
    blank = replace(lock, built={})
    for kernel in (None, *known):
        name, packages = kernel.name if kernel else None, kernels.headers(lock, kernel)
        file = of_jobs(cache, blank, [CRASHES], name, packages, say)[f"{CRASHES}.ko"]
        lock.built[built_module(CRASHES, name)] = (recipe(CRASHES, packages), sha256(file))


def _sets(guest: Guest) -> set[str]:
    """The sets that a guest consists of, and what it is built and run with."""
    return {BASE, guest.name, MODULES, f"{guest.name}-{MODULES}", EROFS, QEMU}
