"""A root file system from outside (--root): a folder, the archive of a container, or an image that was saved.

Sources: docker-save(1), podman-export(1); Image Layer Filesystem Changeset of OCI, for files that a layer removes.
"""

from __future__ import annotations

import json
import lzma
import os
import posixpath
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from reprofs.errors import UserError, cut
from reprofs.guest.tree import below
from reprofs.measure.tree import Tree

MANIFEST = "manifest.json"
MOST_ENTRIES, MOST_BYTES = 2_000_000, 64 << 30  # of an archive and its layers, however well they are packed
WRONG = (OSError, tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, LookupError, ValueError, TypeError)
WRONG_JSON = (AttributeError, RecursionError)  # a value of another type, or too deep
REMOVED, EMPTIED = ".wh.", ".wh..wh..opq"  # before the name of what a layer removes; in a folder whose content goes


def take(source: Path, into: Tree) -> dict[str, str]:
    """Puts a root file system into a tree; the environment that it asks for. Raises UserError."""
    if source.is_dir():
        into.take(source, "root")
        return {}
    try:
        with tarfile.open(source) as archive:
            if MANIFEST in [entry.name for entry in _entries(archive)]:
                return _image(archive, into)
            _layer(archive, into)
            if not into.files:
                raise ValueError("it has no files")
    except (*WRONG, *WRONG_JSON) as error:
        raise UserError(
            f"--root {source} is no folder and no archive of a root file system ({cut(error, 80)}): make one by "
            "`docker save`, `docker export` or `podman export`."
        ) from None
    return {}


def _image(archive: tarfile.TarFile, into: Tree) -> dict[str, str]:
    """An image of layers; raises what reading it raises, and UserError where there are several images."""
    images: list[Mapping[str, Any]] = json.loads(_content(archive, MANIFEST))
    if len(images) != 1:
        raise UserError(f"--root {archive.name!s} has {len(images)} images: save one.")
    for layer in images[0]["Layers"]:
        with tarfile.open(fileobj=archive.extractfile(layer)) as one:
            _layer(one, into)
    config = json.loads(_content(archive, images[0]["Config"])).get("config") or {}
    found = dict(one.split("=", 1) for one in config.get("Env") or [])
    os.fsencode("".join([*found, *found.values()]))  # raises ValueError for what is no text
    return found


def _entries(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """Raises ValueError when there are too many, or too much to read."""
    for number, entry in enumerate(archive):
        if number >= MOST_ENTRIES or archive.offset > MOST_BYTES:
            raise ValueError(f"it has more than {MOST_ENTRIES:,} entries or {MOST_BYTES >> 30} GiB")
        yield entry


def _content(archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(name)
    if file is None:
        raise ValueError(f"{name} is no file")
    return file.read(1 << 24)


def _layer(archive: tarfile.TarFile, into: Tree) -> None:
    """The entries of a layer, over those of the ones before."""
    for entry in _entries(archive):
        name = posixpath.join("root", below(entry.name))
        above, base = posixpath.split(name)
        if base == EMPTIED:
            for old in into.folder.names(above):
                into.folder.remove(f"{above}/{old}")
        elif base.startswith(REMOVED):
            into.folder.remove(f"{above}/{base.removeprefix(REMOVED)}")
        elif entry.isdir():
            into.folder.folder(name, entry.mode)
        elif entry.issym():
            into.folder.link(name, entry.linkname)
        elif entry.islnk():
            into.folder.hard_link(name, posixpath.join("root", below(entry.linkname)))
        elif entry.isreg() and (file := archive.extractfile(entry)):
            into.put(name, file, entry.mode)
        else:
            into.special.add(entry.name)
