"""Debian packages that somebody built: files of this machine, by their digests, for guests with what no archive has."""

from __future__ import annotations

import subprocess
from pathlib import Path

from reprofs.errors import UserError, cut
from reprofs.files import sha256
from reprofs.plan.guest import FILE, Guest, LocalPackage
from reprofs.project import place
from reprofs.workplace import end_with_parent

# A package may have the folder lib, which is a link in the tree.
UNPACK = ["tar", "--extract", "--preserve-permissions", "--no-same-owner", "--keep-directory-symlink"]


def add(tree: Path, guest: Guest) -> dict[str, str]:
    """Unpack a guest's own packages over its tree; package -> version. Their install scripts are not run.

    Raises UserError for a file that is missing, is another one than its digest says, or is no package.
    """
    files = [_found(package, guest.name) for package in guest.debs]
    return dict(_unpacked(file, tree) for file in files)


def _found(package: LocalPackage, guest: str) -> Path:
    file, where = place(package.file), f"{FILE}: guests.{guest}.debs: {package.file}"
    if not file.is_file():
        raise UserError(f"{where} is missing: build the package, or put it there.")
    if (digest := sha256(file)) != package.sha256:
        raise UserError(
            f"{where} is another file (its SHA-256 is {digest}): put the right one there, or correct sha256."
        )
    return file


def _unpacked(file: Path, tree: Path) -> tuple[str, str]:
    named = _run(file, "--show", "--showformat=${Package} ${Version}").decode().split()
    content = _run(file, "--fsys-tarfile")
    done = subprocess.run(
        [*UNPACK, f"--directory={tree}"], input=content, capture_output=True, preexec_fn=end_with_parent
    )
    if done.returncode or len(named) != 2:
        raise UserError(f"{file} cannot be unpacked: {cut(done.stderr.decode(errors='replace').strip(), 150)}.")
    return named[0], named[1]


def _run(file: Path, *options: str) -> bytes:
    """The output of dpkg-deb on a package."""
    try:
        done = subprocess.run(["dpkg-deb", *options, file], capture_output=True, preexec_fn=end_with_parent)
    except FileNotFoundError:
        raise UserError("dpkg-deb is missing, which reads packages of your own: install the package dpkg.") from None
    if done.returncode:
        said = cut(done.stderr.decode(errors="replace").strip(), 150)
        raise UserError(f"{file} is no Debian package: {said}.")
    return done.stdout
