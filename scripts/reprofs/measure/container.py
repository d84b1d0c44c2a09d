"""A root file system from outside (--root): a folder, the archive of a container, or an image that was saved.

Sources: docker-save(1), podman-export(1), containers-transports(5); Image Layout and Image Layer Filesystem Changeset
of OCI, the latter for files that a layer removes.
"""

from __future__ import annotations

import json
import lzma
import os
import posixpath
import stat
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from reprofs.errors import UserError, cut, middle
from reprofs.guest.folder import below
from reprofs.measure.tree import Tree

MANIFEST = "manifest.json"  # of `docker save`
LAYOUT, INDEX = "oci-layout", "index.json"
PLATFORM = {"os": "linux", "architecture": "amd64"}
REMOVED, EMPTIED = ".wh.", ".wh..wh..opq"  # before the name of what a layer removes; in a folder whose content goes
MOST = 1 << 24  # bytes of a description
MOST_ENTRIES, MOST_BYTES = 2_000_000, 64 << 30  # of an archive and its layers, however well they are packed
# Of a description that is none: a value of another type, or too deep.
WRONG = (LookupError, ValueError, TypeError, AttributeError, RecursionError)


def take(source: Path, into: Tree) -> dict[str, str]:
    """Puts a root file system into a tree; the environment that it asks for. Raises UserError."""
    name = middle(str(source), 80)
    if source.is_dir():
        if (source / LAYOUT).is_file():
            raise UserError(f"--root {name} has a saved image: pack it by `tar -C FOLDER -cf image.tar .`.")
        into.take(source, "root")
        return {}
    try:
        with tarfile.open(source) as archive:
            members = {below(entry.name): entry for entry in _entries(archive)}
            if {MANIFEST, LAYOUT} & members.keys():
                return _Image(name, archive, members).take(into)
            _layer(archive, into)
            if not into.files:
                raise ValueError("it has no files")
    except (OSError, tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, *WRONG) as error:
        raise UserError(
            f"--root {name} is no folder and no archive of a root file system ({cut(error, 80)}): make one by "
            "`docker save`, `docker export` or `podman export`."
        ) from None
    return {}


class _Image:
    """An archive with an image. Its methods raise what reading it raises, and UserError where it has not one image."""

    def __init__(self, name: str, archive: tarfile.TarFile, members: Mapping[str, tarfile.TarInfo]) -> None:
        self.name, self.archive, self.members = name, archive, members
        self.left = 1000  # descriptions that are read: an index may have others

    def take(self, into: Tree) -> dict[str, str]:
        """Puts its layers into a tree; its environment."""
        images = list(self._saved() if MANIFEST in self.members else self._laid_out(self._read(INDEX)))
        if len(images) != 1:
            raise UserError(f"--root {self.name} has {len(images)} images for {'/'.join(PLATFORM.values())}: save one.")
        ((config, layers),) = images
        for layer in layers:
            with tarfile.open(fileobj=self.archive.extractfile(self.members[below(layer)])) as one:
                _layer(one, into)
        found = dict(one.split("=", 1) for one in (self._read(config).get("config") or {}).get("Env") or [])
        os.fsencode("".join([*found, *found.values()]))  # raises ValueError for what is no text
        return found

    def _saved(self) -> Iterator[tuple[str, list[str]]]:
        """Of `docker save`: the names of each image's description and layers."""
        for one in self._read(MANIFEST):
            yield one["Config"], one["Layers"]

    def _laid_out(self, index: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
        """Of an OCI layout, where an index may have others; images for other platforms are left out."""
        for one in index["manifests"]:
            if not PLATFORM.items() <= {**PLATFORM, **(one.get("platform") or {})}.items():
                continue
            said = self._read(_blob(one))
            if "manifests" in said:
                yield from self._laid_out(said)
                continue
            if packed := [layer["mediaType"] for layer in said["layers"] if layer["mediaType"].endswith("+zstd")]:
                raise UserError(f"--root {self.name} has layers of the kind {packed[0]}: save it by `docker save`.")
            yield _blob(said["config"]), [_blob(layer) for layer in said["layers"]]

    def _read(self, name: str) -> Any:
        self.left -= 1
        file = self.archive.extractfile(self.members[below(name)])
        if file is None or self.left < 0:
            raise ValueError(f"{name} is no file" if self.left >= 0 else "it has too many descriptions")
        return json.loads(file.read(MOST))


def _entries(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """Raises ValueError when there are too many, or too much to read."""
    for number, entry in enumerate(archive):
        if number >= MOST_ENTRIES or archive.offset > MOST_BYTES:
            raise ValueError(f"it has more than {MOST_ENTRIES:,} entries or {MOST_BYTES >> 30} GiB")
        yield entry


def _blob(descriptor: Mapping[str, Any]) -> str:
    return "blobs/" + descriptor["digest"].replace(":", "/")


def _layer(archive: tarfile.TarFile, into: Tree) -> None:
    """The entries of a layer, over those of the ones before. What it removes is of those, wherever it says so."""
    root = into.root
    for entry in _entries(archive):
        above, base = posixpath.split(below(entry.name))
        if base == EMPTIED:
            for old in root.names(above):
                root.remove(f"{above}/{old}")
        elif base.startswith(REMOVED):
            root.remove(f"{above}/{base.removeprefix(REMOVED)}")
    for entry in archive:
        name = below(entry.name)
        if posixpath.basename(name).startswith(REMOVED):
            continue
        if (kind := root.kind(name)) and (kind == stat.S_IFDIR) != entry.isdir():
            root.remove(name)  # a folder where there was none, or the other way round
        if entry.isdir():
            root.folder(name, entry.mode)
        elif entry.issym():
            root.link(name, entry.linkname)
        elif entry.islnk():
            root.hard_link(name, entry.linkname)
        elif entry.isreg() and (file := archive.extractfile(entry)):
            into.put(name, file, entry.mode, root)
        else:
            into.special.add(entry.name)
