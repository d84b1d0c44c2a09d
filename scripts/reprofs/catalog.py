"""The descriptors: file systems, stacks, device profiles, workloads and studies, one YAML file each, found by glob.

Every file is held against its JSON Schema (workflow/schemas) before anything runs; defaults come from the schema.
"""

from __future__ import annotations

import copy
import difflib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import jsonschema
import yaml

from reprofs.errors import UserError
from reprofs.project import project_root

FOLDERS = {
    "filesystem": "workflow/filesystems",
    "stack": "workflow/stacks",
    "device": "workflow/devices",
    "workload": "workflow/workloads",
    "study": "config/studies",
    "published": "data/published",
}
KINDS = {"device": "device profile", "filesystem": "file system", "published": "set of published numbers"}


@cache
def schema(kind: str) -> dict:
    """The JSON Schema of a kind of file ("filesystem", "record", ...)."""
    return yaml.safe_load((project_root() / "workflow" / "schemas" / f"{kind}.schema.yaml").read_text())


def unknown(what: str, name: str, known) -> UserError:
    """The error for a name that does not exist; proposes the nearest that does."""
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(sorted(known))}."
    return UserError(f"{what} '{name}' does not exist: {hint}")


def _sentence(error: jsonschema.ValidationError, where: str) -> str:
    key = ".".join(str(part) for part in error.absolute_path) or "the top level"
    if error.validator == "additionalProperties":
        allowed = error.schema.get("properties", {})
        extra = next(k for k in error.instance if k not in allowed)
        near = difflib.get_close_matches(str(extra), allowed, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known keys: {', '.join(allowed)}."
        return f"{where}: unknown key '{extra}' at {key}: {hint}"
    if error.validator == "required":
        missing = next(k for k in error.validator_value if k not in error.instance)
        return f"{where}: key '{missing}' is missing at {key}: add it."
    if error.validator == "type":
        return f"{where}: {key} is {error.instance!r}, but must be of type {error.validator_value}."
    if error.validator == "enum":
        near = difflib.get_close_matches(str(error.instance), [str(v) for v in error.validator_value], n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        return f"{where}: {key} is {error.instance!r}, but must be one of {error.validator_value}{hint}."
    if error.validator == "minimum":
        return f"{where}: {key} is {error.instance}, but must be at least {error.validator_value}."
    return f"{where}: {key}: {error.message}."


def validate(data, kind: str, where: str) -> dict:
    """`data` with the schema's defaults filled in.

    Raises UserError naming `where` and the key when it does not fit the schema of `kind`.
    """
    if not isinstance(data, dict):
        raise UserError(f"{where}: expected keys and values at the top level, found {type(data).__name__}.")
    document = schema(kind)
    error = jsonschema.exceptions.best_match(jsonschema.Draft202012Validator(document).iter_errors(data))
    if error:
        raise UserError(_sentence(error, where))
    filled = copy.deepcopy(data)
    _fill(filled, document, document)
    return filled


def _fill(data, node: dict, document: dict) -> None:
    if "$ref" in node:
        node = {**document["$defs"][node["$ref"].rsplit("/", 1)[1]], **node}
    if isinstance(data, dict):
        properties = node.get("properties", {})
        for key, sub in properties.items():
            if key not in data and "default" in sub:
                data[key] = copy.deepcopy(sub["default"])
        for key, value in data.items():
            sub = properties.get(key, node.get("additionalProperties"))
            if isinstance(sub, dict):
                _fill(value, sub, document)
    elif isinstance(data, list) and isinstance(node.get("items"), dict):
        for value in data:
            _fill(value, node["items"], document)


def read_yaml(path: Path, kind: str) -> dict:
    """One descriptor, validated. Raises UserError for a file that cannot be read, parsed or does not fit."""
    root = project_root()
    where = str(path.relative_to(root)) if path.is_relative_to(root) else str(path)
    try:
        data = yaml.safe_load(path.read_text())
    except OSError as error:
        raise UserError(f"{where} cannot be read: {error.strerror}.") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" line {mark.line + 1}" if mark else ""
        raise UserError(f"{where}{line} is not valid YAML: {getattr(error, 'problem', error)}.") from None
    return validate(data, kind, where)


@dataclass
class Catalog:
    """All descriptors of a checkout, plus file systems from further folders. Files named _* are ignored."""

    extra_filesystem_dirs: list[str] = field(default_factory=list)
    _known: dict[tuple[str, str], dict] = field(default_factory=dict, repr=False)  # what was read, by (kind, name)

    def paths(self, kind: str) -> dict[str, Path]:
        """name -> file of every descriptor of a kind. Raises UserError when two files have one name."""
        folders = [project_root() / FOLDERS[kind]]
        if kind == "filesystem":
            for extra in self.extra_filesystem_dirs:
                folder = project_root() / extra
                if not folder.is_dir():
                    raise UserError(f"config: extra_filesystem_dirs: {extra} is not a folder: correct or remove it.")
                folders.append(folder)
        found: dict[str, Path] = {}
        for folder in folders:
            for path in sorted(folder.glob("*.yaml")):
                if path.name.startswith("_"):
                    continue
                if path.stem in found:
                    raise UserError(f"{path} and {found[path.stem]} have the same name: rename one of them.")
                found[path.stem] = path
        return found

    def get(self, kind: str, name: str) -> dict:
        """One descriptor by name, not to be changed. Raises UserError when there is none or it does not fit."""
        if (kind, name) in self._known:
            return self._known[kind, name]
        paths = self.paths(kind)
        if name not in paths:
            raise unknown(KINDS.get(kind, kind), name, paths)
        return self._known.setdefault((kind, name), read_yaml(paths[name], kind))

    def add(self, kind: str, name: str, data: dict) -> None:
        """Put in a descriptor without a file, or in the place of one. Raises UserError when it does not fit."""
        self._known[kind, name] = validate(data, kind, name)

    def variant(self, spec: str) -> tuple[str, str]:
        """("btrfs", "zstd") for "btrfs+zstd"; the bare name stands for the first variant of its file."""
        name, _, variant = spec.partition("+")
        variants = self.get("filesystem", name)["variants"]
        if variant and variant not in variants:
            raise unknown(f"variant of {name}", variant, variants)
        return name, variant or next(iter(variants))
