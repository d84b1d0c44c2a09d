"""The descriptors: file systems, stacks, device profiles, workloads and studies, one YAML file each, found by glob.

Every file is held against its JSON Schema (workflow/schemas) before anything runs; defaults come from the schema.
"""

from __future__ import annotations

import copy
import difflib
import math
import os
import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import jsonschema
import yaml

from reprofs.errors import FileError, UserError, cut, short
from reprofs.project import project_root

FOLDERS = {
    "filesystem": "workflow/filesystems",
    "stack": "workflow/stacks",
    "device": "workflow/devices",
    "workload": "workflow/workloads",
    "study": "config/studies",
    "published": "data/published",
}
# What is named so goes into paths, into commands of a shell and into patterns without any harm.
NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,63}")
NAME_RULE = "up to 64 small letters, digits, dots and hyphens, of which a letter or digit is the first"
DEEPEST = 20  # levels of a file
LONGEST = 10_000  # characters of a text: ten times the longest there is
KINDS = {"device": "device profile", "filesystem": "file system", "published": "set of published numbers"}


@cache
def schema(kind: str) -> dict:
    """The JSON Schema of a kind of file ("filesystem", "record", ...)."""
    return yaml.safe_load((project_root() / "workflow" / "schemas" / f"{kind}.schema.yaml").read_text())


def unknown(what: str, name: str, known) -> UserError:
    """The error for a name that does not exist; proposes the nearest that does."""
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known: {cut(', '.join(sorted(known)))}."
    return UserError(f"{what} {short(name)} does not exist: {hint}")


def _sentence(error: jsonschema.ValidationError, where: str) -> str:
    key = _key(error.absolute_path)
    if error.validator == "additionalProperties":
        allowed = error.schema.get("properties", {})
        extra = next(k for k in error.instance if k not in allowed)
        near = difflib.get_close_matches(extra, allowed, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known keys: {cut(', '.join(allowed))}."
        return f"{where}: unknown key {short(extra)} at {key}: {hint}"
    if error.validator == "required":
        missing = next(k for k in error.validator_value if k not in error.instance)
        return f"{where}: key '{missing}' is missing at {key}: add it."
    if error.validator == "type":
        return f"{where}: {key} is {short(error.instance)}, but must be of type {error.validator_value}."
    if error.validator == "enum":
        near = difflib.get_close_matches(str(error.instance), [str(v) for v in error.validator_value], n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        return f"{where}: {key} is {short(error.instance)}, but must be one of {cut(error.validator_value)}{hint}."
    if error.validator == "minimum":
        return f"{where}: {key} is {error.instance}, but must be at least {error.validator_value}."
    if error.validator == "maximum":
        return f"{where}: {key} is {error.instance}, but must be at most {error.validator_value}."
    if error.validator == "pattern" and "description" in error.schema:
        what = "a key at " if "propertyNames" in error.absolute_schema_path else ""
        return f"{where}: {what}{key} is {short(error.instance)}, but must be {error.schema['description']}."
    return f"{where}: {key}: {cut(error.message)}."


def _key(path) -> str:
    return cut(".".join(map(str, path)), 100) or "the top level"


# 3.0 would do for JSON Schema, but not for Python nor for a command.
_Validator = jsonschema.validators.extend(
    jsonschema.Draft202012Validator,
    type_checker=jsonschema.Draft202012Validator.TYPE_CHECKER.redefine("integer", lambda _, value: type(value) is int),
)


def validate(data, kind: str, where: str) -> dict:
    """`data` with the schema's defaults filled in.

    Raises UserError naming `where` and the key when it does not fit the schema of `kind`.
    """
    if not isinstance(data, dict):
        raise FileError(f"{where}: expected keys and values at the top level, found {type(data).__name__}.")
    document = schema(kind)
    error = jsonschema.exceptions.best_match(_Validator(document).iter_errors(data))
    if error:
        raise FileError(_sentence(error, where))
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


class _Loader(yaml.SafeLoader):
    """Says in which line a value is that looks like a date or a number and is none: PyYAML lets Python's errors out."""

    def construct_object(self, node, deep=False):
        try:
            return super().construct_object(node, deep)
        except (ValueError, TypeError, AttributeError, LookupError, OverflowError):
            kind = node.tag.rpartition(":")[2]
            problem = f"{short(node.value)} cannot be read as {kind}: write another value or put it in quotes"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark) from None


def parse(path: Path, where: str) -> object:
    """What a YAML file holds: texts, finite numbers of 64 bits, lists, and mappings whose keys are texts.

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
    except (ValueError, OverflowError) as error:  # an escape such as "\\U00110000" that no character has
        raise FileError(f"{where} is not valid YAML: {cut(error)}: correct the character after a backslash.") from None
    _check_values(data, len(text), where)
    return data


def _check_values(data, most: int, where: str) -> None:
    """Raises FileError for a value that no schema can tell and no command, file or sum can take.

    most: so many values at most; more than characters in the file can only come from aliases (*name) of aliases.
    """
    waiting, count = [(data, ())], 0
    while waiting:
        value, place = waiting.pop()
        count += 1
        wrong = ""
        if len(place) > DEEPEST:
            wrong = f"is nested too deeply: no descriptor needs more than {DEEPEST} levels"
        elif count > max(most, 1):
            wrong = "belongs to more values than the file has characters: write less with aliases (*name)"
        elif isinstance(value, float) and not math.isfinite(value):
            wrong = f"is {value}: write a number that is finite"
        elif isinstance(value, int) and abs(value) >= 2**63:
            wrong = "is a number of more than 64 bits: write a smaller one"
        elif isinstance(value, str):
            wrong = _wrong_text(value)
        elif isinstance(value, dict):
            for key, item in value.items():
                if not isinstance(key, str):
                    raise FileError(f"{where}: the key {short(key)} at {_key(place)} is no text: put it in quotes.")
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
        return "has a character that no file and no command can have (\\0, or half of a pair): leave it out"
    return ""


def shown(path: Path) -> str:
    """A file as a sentence names it."""
    root = project_root()
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def read_yaml(path: Path, kind: str) -> dict:
    """One descriptor, validated. Raises UserError for a file that cannot be read, parsed or does not fit."""
    where = shown(path)
    return validate(parse(path, where), kind, where)


def named(folder: Path) -> dict[str, Path]:
    """name -> file of the descriptors in a folder, without those whose names begin with _ or a dot.

    Raises UserError when a file cannot have its name: one that is left out in silence would be searched for long.
    """
    found = {}
    for path in sorted(folder.glob("*.yaml")):
        if path.name.startswith(("_", ".")):  # templates, and what editors put beside an open file
            continue
        if not NAME.fullmatch(path.stem):
            raise FileError(
                f"{shown(folder)}: {short(path.name)} cannot be the file of a descriptor: before .yaml it must have "
                f"{NAME_RULE}: rename it."
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
        """name -> file of every descriptor of a kind. Raises UserError for two files of one name and a bad name."""
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
        """One descriptor by name, not to be changed. Raises UserError when there is none or it does not fit."""
        if (kind, name) in self._known:
            return self._known[kind, name]
        paths = self.paths(kind)
        if name not in paths:
            raise unknown(KINDS.get(kind, kind), name, paths)
        self._files[kind, name] = shown(paths[name])
        return self._known.setdefault((kind, name), read_yaml(paths[name], kind))

    def file(self, kind: str, name: str) -> str:
        """The file of a descriptor that was got before, as a sentence begins with it; kind and name without a file."""
        return self._files.get((kind, name), f"{KINDS.get(kind, kind)} {name}")

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
