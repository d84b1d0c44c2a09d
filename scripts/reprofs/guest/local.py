"""Debian packages that somebody built: files of this machine, by their digests, for guests with what no archive has."""

from __future__ import annotations

from pathlib import Path

from reprofs.errors import UserError, middle
from reprofs.files import sha256
from reprofs.guest.rootfs import SKIP
from reprofs.guest.unpack import Tree, check_size
from reprofs.plan.guest import FILE, Guest, LocalPackage
from reprofs.project import place


def add(tree: Tree, guest: Guest) -> dict[str, str]:
    """Unpack a guest's own packages over its tree; package -> version. Their install scripts are not run.

    Raises UserError for a file that is missing, has another digest, or is not a package.
    """
    return unpack(tree, guest.debs, f"{FILE}: guests.{guest.name}.debs")


def unpack(tree: Tree, packages: list[LocalPackage], key: str) -> dict[str, str]:
    """`add` for packages that stand under a key of a file."""
    return dict(tree.add(file, skip=SKIP) for file in files(packages, key))


def files(packages: list[LocalPackage], key: str) -> dict[Path, str]:
    """The packages that stand under a key, each with its SHA-256. Raises UserError like `add`."""
    return {_found(package, f"{key}: {middle(package.file)}"): package.sha256 for package in packages}


def _found(package: LocalPackage, where: str) -> Path:
    file = place(package.file)
    if not file.is_file():
        raise UserError(f"{where} is missing: build the package, or copy it there.")
    check_size(file)
    if (digest := sha256(file)) != package.sha256:
        raise UserError(f"{where} has the SHA-256 {digest}, not the expected one: replace the file, or correct sha256.")
    return file
