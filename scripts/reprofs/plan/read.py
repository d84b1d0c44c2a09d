"""Reads a descriptor: from a YAML file to a model, or to one sentence that names file, line and key."""

import contextlib
import difflib
import math
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from reprofs.errors import HIDDEN, FileError, UserError, cut, meant, several, short
from reprofs.plan.parts import MEANINGS, Descriptor
from reprofs.project import project_root

DEEPEST = 20  # levels of a file
LONGEST = 10_000  # characters of a text: ten times the longest in use
UNITS = {
    "_mb_s": "MB/s",
    "_us": "µs",
    "_ms": "ms",
    "_ns": "ns",
    "_s": "s",
    "_mib": "MiB",
    "_kib": "KiB",
    "_mbit": "Mbit/s",
}
UNITS |= {"_bytes": "bytes", "size_median": "bytes", "size_max": "bytes", "_percent": "%", "rpm": "rounds a minute"}
TYPES = {"string": "string", "int": "integer", "bool": "boolean", "number": "number", "list": "list"}
TYPES |= {"dict": "mapping", "model": "mapping", "parameter": "number or string"}

Kind = TypeVar("Kind", bound=Descriptor)


def unknown(what: str, name: str, known: Iterable[str]) -> UserError:
    """The error for a name that does not exist, with the nearest one that does."""
    return UserError(f"{what} {short(name)} does not exist: {meant(name, sorted(known))}")


def _sentence(error: ErrorDetails, path: list, kind: type[Descriptor]) -> str:
    """What is wrong with a file, without naming it; path: the keys and indices that lead to the value."""
    key, what, more, value = _key(path), error["type"], error.get("ctx", {}), short(error["input"])
    if what == "extra_forbidden":
        known = _known(kind, error["loc"][:-1])
        return f"unknown key {short(path[-1])} at {_key(path[:-1])}: {meant(str(path[-1]), known)}"
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
    return f"{key} is {value}, but must {_demand(what, more, value, _unit(path))}."


def _demand(what: str, more: dict, value: str, unit: str) -> str:
    """What a value must be: the words after `must`. unit: of a number, with a space before it."""
    expected = more.get("expected", more.get("expected_tags"))
    if expected:
        names: list[str] = re.findall(r"'([^']*)'", expected)
        near = difflib.get_close_matches(value.strip("'"), names, n=1)
        which = expected if len(expected) <= 150 else f"one of {several(names)}" if names else cut(expected, 150)
        return f"be {which}" + (f" (did you mean {near[0]}?)" if near else "")
    limits = {"ge": "be at least", "gt": "be more than", "le": "be at most", "max_length": "have at most"}
    if "pattern" in more:
        return f"be {MEANINGS[more['pattern']]}"
    if what == "string_too_short":
        return "not be empty"
    for name, words in limits.items():
        if name in more:
            return f"{words} {more[name]}" + (" characters" if name == "max_length" else unit)
    return f"be of type {TYPES.get(what.partition('_')[0], what)}"


def _unit(path: list) -> str:
    """The unit of a number, which the name of its key ends with; empty if it counts something."""
    name = str(path[-1]) if path else ""
    return next((f" {unit}" for ending, unit in UNITS.items() if name.endswith(ending)), "")


def _known(kind: type[Descriptor], place: tuple[int | str, ...]) -> list[str]:
    """The keys that a file of this kind may have at a place, given as in Pydantic's errors, with names of models."""
    document = node = kind.schema_of()
    for part in (*place, None):
        if "$ref" in node:
            node = document["$defs"][node["$ref"].rpartition("/")[2]]
        names = [branch["$ref"].rpartition("/")[2] for branch in node.get("oneOf", []) if "$ref" in branch]
        if names and isinstance(part, str):
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
    node = _read(file.read_text(encoding="utf-8"), yaml.compose) if file else None
    begin = node
    for part in path:
        if isinstance(node, yaml.MappingNode):
            begin, node = next((pair for pair in node.value if pair[0].value == part), (begin, node))
        elif isinstance(node, yaml.SequenceNode):
            begin = node = node.value[part]
    return f" line {begin.start_mark.line + 1}" if begin else ""


def validate(data: Any, kind: type[Kind], where: str, file: Path | None = None) -> Kind:
    """`data` as a model of that kind, with its defaults.

    file: the YAML file of the data, if there is one. Raises FileError naming `where`, line and key when they do not
    fit.
    """
    if not isinstance(data, dict):
        raise FileError(f"{where}: the top level must be a mapping of keys to values, not {type(data).__name__}.")
    try:
        return kind.adapter().validate_python(data)
    except ValidationError as found:
        errors = [(error, _path(error["loc"], data)) for error in found.errors(include_url=False)]
    # The error nearest to the top; an unknown key before a missing one, for it may be the missing one misspelt.
    unknown_key = [error["type"] == "extra_forbidden" for error, _ in errors]
    order = [(len(path) - extra, not extra) for (_, path), extra in zip(errors, unknown_key, strict=True)]
    error, path = errors[order.index(min(order))]
    raise FileError(f"{where}{_line(file, path)}: {_sentence(error, path, kind)}")


class _Lines(yaml.constructor.SafeConstructor):
    """Reports the line of a value that only looks like a date or a number; PyYAML would let Python's errors through."""

    def construct_object(self, node, deep=False):
        try:
            return super().construct_object(node, deep)
        except (ValueError, TypeError, AttributeError, LookupError, OverflowError):
            kind = node.tag.rpartition(":")[2]
            problem = f"{short(node.value)} cannot be read as {kind}: write another value or put it in quotes"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark) from None

    def construct_mapping(self, node, deep=False):
        known = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode) and key.value != "<<"):
            if key.value in known:
                problem = f"{short(key.value)} is there twice: remove one"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            known.add(key.value)
        return super().construct_mapping(node, deep)


class _Loader(_Lines, yaml.SafeLoader):
    """In Python: its errors say what is wrong, and a text that is nested too deeply is one."""


class _Fast(_Lines, yaml.CSafeLoader):
    """In C: eight times as fast, but a text that is nested too deeply ends the process."""


SHALLOW = 1000  # levels
START = re.compile(r"^[-?: ]+", re.MULTILINE)  # as many letters as a line opens levels, or more


def _read(text: str, way: Callable) -> Any:
    """What yaml.load or yaml.compose makes of a text, by the loader that takes it: libyaml takes some that PyYAML does
    not, such as a tab between a key and its value. Raises what `_Loader` does.
    """
    brackets = text.count("[") + text.count("{")
    if brackets <= SHALLOW and max(map(len, START.findall(text)), default=0) <= SHALLOW:
        with contextlib.suppress(yaml.YAMLError, ValueError, OverflowError):
            return way(text, _Fast)
    return way(text, _Loader)


def parse(path: Path, where: str) -> Any:
    """The content of a YAML file: strings, finite numbers of 64 bits, lists, and mappings whose keys are strings.

    Raises FileError, beginning with `where`, for a file that cannot be read or holds anything else.
    """
    try:
        text = path.read_text(encoding="utf-8")
        data = _read(text, yaml.load)
    except OSError as error:
        raise FileError(f"{where} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise FileError(f"{where} is not valid UTF-8: save it as UTF-8.") from None
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
        return "has a character that no file or command can have (NUL or an unpaired surrogate): remove it"
    if found := HIDDEN.search(text):
        return f"has an invisible or misleading character (U+{ord(found[0]):04X}): remove it"
    return ""


def shown(path: Path) -> str:
    """The path of a file for messages: relative to the checkout if it is inside."""
    root = project_root()
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def read_yaml(path: Path, kind: type[Kind]) -> Kind:
    """One descriptor, validated. Raises UserError for a file that cannot be read, parsed or does not fit."""
    where = shown(path)
    return validate(parse(path, where), kind, where, path).known_as(path.stem, where)
