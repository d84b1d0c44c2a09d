"""The descriptors: file systems, stacks, device profiles, workloads and studies, one YAML file each, found by glob.

Every file is checked against its model (plan/models.py) before anything runs; defaults come from the model.
"""

from __future__ import annotations

import difflib
import math
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from reprofs.errors import FileError, UserError, cut, short
from reprofs.plan import models
from reprofs.project import project_root

FOLDERS = {
    "filesystem": "workflow/filesystems",
    "stack": "workflow/stacks",
    "device": "workflow/devices",
    "network": "workflow/networks",
    "processor": "workflow/processors",
    "workload": "workflow/workloads",
    "study": "config/studies",
    "published": "data/published",
}
# Such a name is safe in paths, shell commands and patterns.
NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,63}")
NAME_RULE = "up to 64 lower-case letters, digits, dots and hyphens, beginning with a letter or digit"
DEEPEST = 20  # levels of a file
LONGEST = 10_000  # characters of a text: ten times the longest in use
KINDS = {"device": "device profile", "filesystem": "file system", "published": "set of published numbers"}


def unknown(what: str, name: str, known) -> UserError:
    """The error for a name that does not exist, with the nearest one that does."""
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known: {cut(', '.join(sorted(known)))}."
    return UserError(f"{what} {short(name)} does not exist: {hint}")


TYPES = {"string": "string", "int": "integer", "bool": "boolean", "number": "number", "list": "list"}
TYPES |= {"dict": "mapping", "model": "mapping", "parameter": "number or string"}


def _sentence(error: ErrorDetails, path: list, kind: str) -> str:
    """What is wrong with a file, without naming it; path: the keys and indices that lead to the value."""
    key, what, more, value = _key(path), error["type"], error.get("ctx", {}), short(error["input"])
    if what == "extra_forbidden":
        known = _known(kind, error["loc"][:-1])
        near = difflib.get_close_matches(str(path[-1]), known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known keys: {cut(', '.join(known))}."
        return f"unknown key {short(path[-1])} at {_key(path[:-1])}: {hint}"
    if what in ("missing", "union_tag_not_found"):
        missing = error["loc"][-1] if what == "missing" else more["discriminator"].strip("'")
        return f"key '{missing}' is missing at {key}: add it."
    if what == "own":
        return f"{key} {more['what']}."
    if what in ("too_short", "too_long"):
        limit = f"at least {more['min_length']}" if what == "too_short" else f"at most {more['max_length']}"
        return f"{key} has {len(error['input'])} entries, but must have {limit}."
    if error["loc"][-1] == "[key]":
        key = f"a key at {_key(path[:-1])}"
    if what == "union_tag_invalid":
        key, value = _key([*path, more["discriminator"].strip("'")]), short(more["tag"])
    return f"{key} is {value}, but must {_demand(what, more, value)}."


def _demand(what: str, more: dict, value: str) -> str:
    """What a value must be: the words after `must`."""
    expected = more.get("expected", more.get("expected_tags"))
    if expected:
        near = difflib.get_close_matches(value.strip("'"), re.findall(r"'([^']*)'", expected), n=1)
        return f"be {cut(expected)}" + (f" (did you mean {near[0]}?)" if near else "")
    limits = {"ge": "be at least", "gt": "be more than", "le": "be at most", "max_length": "have at most"}
    if "pattern" in more:
        return f"be {models.MEANINGS[more['pattern']]}"
    if what == "string_too_short":
        return "not be empty"
    for name, words in limits.items():
        if name in more:
            return f"{words} {more[name]}" + (" characters" if name == "max_length" else "")
    return f"be of type {TYPES.get(what.partition('_')[0], what)}"


def _known(kind: str, place: tuple[int | str, ...]) -> list[str]:
    """The keys that a file of this kind may have at a place, given as in Pydantic's errors, with names of models."""
    document = node = models.schema(kind)
    for part in (*place, None):
        if "$ref" in node:
            node = document["$defs"][node["$ref"].rpartition("/")[2]]
        if "oneOf" in node and isinstance(part, str):
            names = [branch.get("$ref", "").rpartition("/")[2] for branch in node["oneOf"]]
            node = document["$defs"][next(name for name in names if name.lower() == part.lower())]
        elif isinstance(part, int):
            node = node["items"]
        elif part is not None:
            node = node.get("properties", {}).get(part) or node["additionalProperties"]
    return list(node["properties"])


def _path(place: tuple[int | str, ...], data: Any) -> list:
    """The keys and indices in the data of a place given as in Pydantic's errors: without models and missing keys."""
    path: list = []
    for part in place:
        if part in data if isinstance(data, dict) else isinstance(data, list) and isinstance(part, int):
            path.append(part)
            data = data[part]
    return path


def _key(path: Iterable) -> str:
    return cut(".".join(map(str, path)), 100) or "the top level"


def _line(file: Path | None, path: list) -> str:
    """` line N`, the line of the YAML file where the entry that a path leads to begins; empty without a file."""
    node = yaml.compose(file.read_text(encoding="utf-8"), yaml.SafeLoader) if file else None
    begin = node
    for part in path:
        if isinstance(node, yaml.MappingNode):
            begin, node = next((pair for pair in node.value if pair[0].value == part), (begin, node))
        elif isinstance(node, yaml.SequenceNode):
            begin = node = node.value[part]
    return f" line {begin.start_mark.line + 1}" if begin else ""


def validate(data: Any, kind: str, where: str, file: Path | None = None) -> dict:
    """`data` with the defaults of its model filled in, without the keys that are left out.

    file: the YAML file of the data, if there is one. Raises FileError naming `where`, line and key when they do not
    fit the model of `kind`.
    """
    if not isinstance(data, dict):
        raise FileError(f"{where}: the top level must be a mapping of keys to values, not {type(data).__name__}.")
    adapter = models.adapter(kind)
    try:
        return adapter.dump_python(adapter.validate_python(data), exclude_none=True, warnings=False)
    except ValidationError as found:
        errors = [(error, _path(error["loc"], data)) for error in found.errors(include_url=False)]
    # The error nearest to the top; an unknown key before a missing one, for it may be the missing one misspelt.
    unknown_key = [error["type"] == "extra_forbidden" for error, _ in errors]
    order = [(len(path) - extra, not extra) for (_, path), extra in zip(errors, unknown_key, strict=True)]
    error, path = errors[order.index(min(order))]
    raise FileError(f"{where}{_line(file, path)}: {_sentence(error, path, kind)}")


class _Loader(yaml.SafeLoader):
    """Reports the line of a value that only looks like a date or a number; PyYAML would let Python's errors through."""

    def construct_object(self, node, deep=False):
        try:
            return super().construct_object(node, deep)
        except (ValueError, TypeError, AttributeError, LookupError, OverflowError):
            kind = node.tag.rpartition(":")[2]
            problem = f"{short(node.value)} cannot be read as {kind}: write another value or put it in quotes"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark) from None


def parse(path: Path, where: str) -> Any:
    """The content of a YAML file: strings, finite numbers of 64 bits, lists, and mappings whose keys are strings.

    Raises FileError, beginning with `where`, for a file that cannot be read or holds anything else.
    """
    try:
        text = path.read_text(encoding="utf-8")
        data = yaml.load(text, _Loader)
    except OSError as error:
        raise FileError(f"{where} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise FileError(f"{where} is not text in UTF-8: save it as such.") from None
    except RecursionError:
        raise FileError(f"{where} is nested too deeply: no descriptor needs more than {DEEPEST} levels.") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" line {mark.line + 1}" if mark else ""
        raise FileError(f"{where}{line} is not valid YAML: {cut(getattr(error, 'problem', error))}.") from None
    except (ValueError, OverflowError) as error:  # an escape such as "\\U00110000" that is no character
        raise FileError(f"{where} is not valid YAML: {cut(error)}: correct the character after a backslash.") from None
    _check_values(data, len(text), where)
    return data


def _check_values(data, most: int, where: str) -> None:
    """Raises FileError for values that a schema cannot exclude but that no command, file or sum can take.

    most: the largest number of values; more values than characters in the file can only come from aliases (*name).
    """
    waiting: list[tuple[Any, tuple]] = [(data, ())]
    count = 0
    while waiting:
        value, place = waiting.pop()
        count += 1
        wrong = ""
        if len(place) > DEEPEST:
            wrong = f"is nested too deeply: no descriptor needs more than {DEEPEST} levels"
        elif count > max(most, 1):
            wrong = "expands to more values than the file has characters: use fewer aliases (*name)"
        elif isinstance(value, float) and not math.isfinite(value):
            wrong = f"is {value}: write a finite number"
        elif isinstance(value, int) and abs(value) >= 2**63:
            wrong = "does not fit into 64 bits: write a smaller number"
        elif value is None:
            wrong = "is empty: write a value, or leave the key out"
        elif isinstance(value, str):
            wrong = _wrong_text(value)
        elif isinstance(value, dict):
            for key, item in value.items():
                if not isinstance(key, str):
                    raise FileError(f"{where}: the key {short(key)} at {_key(place)} is not text: put it in quotes.")
                if _wrong_text(key):
                    raise FileError(f"{where}: the key {short(key)} at {_key(place)} {_wrong_text(key)}.")
                waiting.append((item, (*place, key)))
        elif isinstance(value, list):
            waiting += [(item, (*place, number)) for number, item in enumerate(value)]
        if wrong:
            raise FileError(f"{where}: {_key(place)} {wrong}.")


def _wrong_text(text: str) -> str:
    if len(text) > LONGEST:
        return f"has {len(text):,} characters: shorten it to {LONGEST:,}"
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        return "has a character that cannot stand in a file or command (NUL or an unpaired surrogate): remove it"
    return ""


def shown(path: Path) -> str:
    """The path of a file for messages: relative to the checkout if it is inside."""
    root = project_root()
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def read_yaml(path: Path, kind: str) -> dict:
    """One descriptor, validated. Raises UserError for a file that cannot be read, parsed or does not fit."""
    where = shown(path)
    return validate(parse(path, where), kind, where, path)


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


@dataclass
class Catalog:
    """All descriptors of a checkout, plus file systems from further folders. Files named _* or .* are ignored."""

    extra_filesystem_dirs: list[str] = field(default_factory=list)
    _known: dict[tuple[str, str], dict] = field(default_factory=dict, repr=False)  # what was read, by (kind, name)
    _files: dict[tuple[str, str], str] = field(default_factory=dict, repr=False)  # where from

    def paths(self, kind: str) -> dict[str, Path]:
        """name -> file of every descriptor of a kind. Raises UserError for two files of one name or an invalid name."""
        folders = [project_root() / FOLDERS[kind]]
        if kind == "filesystem":
            for extra in self.extra_filesystem_dirs:
                folder = project_root() / extra
                if not os.path.isdir(folder):  # noqa: PTH112  # Path.is_dir raises for a name that is too long
                    where = "config/config.yaml: extra_filesystem_dirs"
                    raise UserError(f"{where}: {short(extra)} is not a folder: correct or remove it.")
                folders.append(folder)
        found: dict[str, Path] = {}
        for folder in folders:
            for name, path in named(folder).items():
                if name in found:
                    raise UserError(f"{path} and {found[name]} have the same name: rename one of them.")
                found[name] = path
        return found

    def get(self, kind: str, name: str) -> dict:
        """One descriptor by name, not to be modified. Raises UserError when there is none or it does not fit."""
        if (kind, name) in self._known:
            return self._known[kind, name]
        paths = self.paths(kind)
        if name not in paths:
            raise unknown(KINDS.get(kind, kind), name, paths)
        self._files[kind, name] = shown(paths[name])
        return self._known.setdefault((kind, name), read_yaml(paths[name], kind))

    def file(self, kind: str, name: str) -> str:
        """The file of a descriptor that was read before, for messages; kind and name if it has no file."""
        return self._files.get((kind, name), f"{KINDS.get(kind, kind)} {name}")

    def add(self, kind: str, name: str, data: dict) -> None:
        """Add a descriptor that has no file, or replace one. Raises UserError when it does not fit."""
        self._known[kind, name] = validate(data, kind, name)

    def variant(self, spec: str) -> tuple[str, str]:
        """("btrfs", "zstd") for "btrfs+zstd"; the bare name stands for the first variant of its file."""
        name, _, variant = spec.partition("+")
        variants = self.get("filesystem", name)["variants"]
        if variant and variant not in variants:
            raise unknown(f"variant of {name}", variant, variants)
        return name, variant or next(iter(variants))
