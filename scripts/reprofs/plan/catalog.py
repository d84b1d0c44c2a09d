"""The descriptors of a checkout, one YAML file each, found by their names and read once."""

import os
from collections.abc import Sequence
from pathlib import Path

from reprofs.errors import FileError, UserError, short
from reprofs.plan.parts import NAME, NAME_RULE, Descriptor
from reprofs.plan.read import Kind, parse, read_yaml, shown, unknown, validate
from reprofs.project import project_root


def named(folder: Path) -> dict[str, Path]:
    """name -> file of the descriptors in a folder, without those whose names begin with _ or a dot.

    Raises UserError for an invalid file name: if it were silently left out, the cause would be hard to find.
    """
    found = {}
    for path in sorted(folder.glob("*.yaml")):
        if path.name.startswith(("_", ".")):  # templates, and what editors put beside an open file
            continue
        if not NAME.fullmatch(path.stem):
            raise FileError(
                f"{shown(folder)}: {short(path.name)} is not a valid file name for a descriptor: before "
                f".yaml it must have {NAME_RULE}: rename it."
            )
        found[path.stem] = path
    return found


def _own(extra: str) -> Path:
    """A folder of extra_dirs. Raises UserError for one in which nothing would be found."""
    folder, where = project_root() / extra, f"config/config.yaml: extra_dirs: {short(extra)}"
    if not os.path.isdir(folder):  # noqa: PTH112  # Path.is_dir raises for a name that is too long
        raise UserError(f"{where} is not a folder: correct or remove it.")
    if not any((folder / name).is_dir() for name in OWN):
        raise UserError(f"{where} has none of the folders {', '.join(OWN)}: put your files into these.")
    return folder


OWN = (
    *("filesystems", "stacks", "devices", "networks", "processors", "kernels", "machines", "ages", "workloads"),
    "studies",
)
UNAVAILABLE = "_unavailable.yaml"  # what cannot be had, by name, beside the files of the others


class Catalog:
    """All descriptors of a checkout, and of further folders. Files named _* or .* are ignored.

    extra_dirs: each has folders like those of the checkout: filesystems, workloads, studies, ...
    """

    def __init__(self, extra_dirs: Sequence[str] = ()):
        self.extra_dirs = list(extra_dirs)
        self._lists: dict[Path, dict] = {}  # what the files UNAVAILABLE hold
        self._known: dict[tuple[str, str], Descriptor] = {}  # what was read or added, by kind and name

    def paths(self, kind: type[Descriptor]) -> dict[str, Path]:
        """name -> file of every descriptor of a kind. Raises UserError for two files of one name or an invalid name."""
        folders = [project_root() / kind.folder, *(_own(extra) / Path(kind.folder).name for extra in self.extra_dirs)]
        found: dict[str, Path] = {}
        for folder in folders:
            listed = self._list(folder / UNAVAILABLE) if kind.listed else {}
            own = dict.fromkeys(listed, folder / UNAVAILABLE) | named(folder)
            for name, path in sorted(own.items(), key=lambda item: f"{item[0]}.yaml"):
                if name in found:
                    raise UserError(f"{path} and {found[name]} have the same name: rename one.")
                found[name] = path
        return found

    def get(self, kind: type[Kind], name: str) -> Kind:
        """One descriptor by name. Raises UserError when there is none or it does not fit."""
        if (kind.kind, name) not in self._known:
            paths = self.paths(kind)
            if name not in paths:
                raise unknown(kind.word or kind.kind, name, paths)
            self._known[kind.kind, name] = self._read(kind, name, paths[name])
        return self._known[kind.kind, name]  # type: ignore[return-value]

    def _read(self, kind: type[Kind], name: str, path: Path) -> Kind:
        if path.name != UNAVAILABLE:
            return read_yaml(path, kind)
        entry = self._list(path)[name]
        data = entry | kind.listed if isinstance(entry, dict) else entry
        return validate(data, kind, f"{shown(path)}: {name}").known_as(name, shown(path))

    def _list(self, path: Path) -> dict:
        if path not in self._lists:
            found = parse(path, shown(path)) if path.is_file() else {}
            if not isinstance(found, dict) or not all(map(NAME.fullmatch, found)):
                raise FileError(f"{shown(path)}: the top level must be a mapping of names to descriptions.")
            self._lists[path] = found
        return self._lists[path]

    def add(self, kind: type[Kind], name: str, data: dict) -> None:
        """Add a descriptor that has no file, or one in the place of a file's. Raises UserError when it does not fit."""
        known = self._known.get((kind.kind, name))
        file = known.file if known else f"{kind.word or kind.kind} {name}"
        self._known[kind.kind, name] = validate(data, kind, name).known_as(name, file)
