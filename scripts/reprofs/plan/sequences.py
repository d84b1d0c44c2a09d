"""Sequences of file-system calls (workflow/sequences), of which every crash state is visited.

A file names calls by operation, and how many a sequence has. The sequences follow from it, the same every time: each
possible combination of calls; each call but the last with or without something that flushes it, the last always with.
Bounded exhaustive testing after ACE (Mohan et al., Finding Crash-Consistency Bugs with Bounded Black-Box Crash Testing,
OSDI 2018).
"""

import itertools
import random
import shlex
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Annotated

from pydantic import ConfigDict, Field, field_validator, model_validator

from reprofs.errors import UserError, short
from reprofs.plan.catalog import named
from reprofs.plan.parts import Descriptor, Filled, Part, PhaseName, wrong
from reprofs.plan.read import read_yaml, unknown
from reprofs.project import project_root

TOP = "."
WORDS = {"write": 3, "dwrite": 3, "mwrite": 3, "allocate": 3, "keep": 3, "punch": 3, "zero": 3, "truncate": 2}
FLUSHES = {"sync": 0, "fsync": 1, "fdatasync": 1, "fsyncdir": 1, "drop": 0}
WORDS |= {"create": 1, "mkdir": 1, "unlink": 1, "rmdir": 1, "setxattr": 1, "link": 2, "symlink": 2, "rename": 2}
Call = Annotated[str, Field(pattern=r"^[a-z]+( [A-Za-z0-9/]+)*$", description="A call and its arguments")]


class Sequences(Descriptor):
    kind = "sequences"
    folder = "workflow/sequences"

    model_config = ConfigDict(title="Sequences of file-system calls, of which every crash state is visited")

    title: Filled
    source: Filled
    before: Annotated[list[Call], Field(min_length=1)] = Field(description="What makes the tree that is there before")
    calls: dict[PhaseName, list[Call]] = Field(
        {},
        description="By operation: create, mkdir and the like NAME; write, dwrite (O_DIRECT), mwrite (mmap), allocate, "
        "keep, punch and zero (fallocate) FILE FROM BYTES; truncate FILE BYTES; link, symlink and rename FROM TO",
    )
    histories: dict[PhaseName, Annotated[list[Call], Field(min_length=1)]] = Field(
        {},
        description="Sequences as they are, by name. They have fsync, fdatasync FILE, fsyncdir FOLDER, sync, drop, too",
    )
    length: Annotated[int, Field(ge=1, le=3)] = Field(1, description="Calls of a sequence that change something")

    @field_validator("calls", "before", "histories")
    @classmethod
    def _are_calls(cls, value, info):
        known = WORDS | FLUSHES if info.field_name == "histories" else WORDS
        for call in itertools.chain(*value.values()) if isinstance(value, dict) else value:
            verb, *words = call.split()
            if known.get(verb) != len(words):
                raise wrong(f"has {short(call)}: {', '.join(known)} are calls, with their arguments")
        return value

    @model_validator(mode="after")
    def _has_some(self):
        if bool(self.calls) == bool(self.histories):
            raise wrong("needs calls or histories, not both")
        for name, calls in self.histories.items():
            if not possible(self, calls):
                raise wrong(f"histories: {name} is not possible: a name is missing, or there already")
        return self


class Names(Part):
    """Which names there are: f a file, d a folder, l a symbolic link."""

    kinds: dict[str, str]

    def after(self, call: str) -> "Names | None":
        """The names after a call; None where it is not possible."""
        verb, first, *rest = call.split()
        last, kinds = rest[0] if rest else "", dict(self.kinds)
        if verb in ("create", "mkdir"):
            return self._with(first, "d" if verb == "mkdir" else "f") if first not in kinds else None
        if verb == "symlink":
            return self._with(last, "l") if last not in kinds else None
        if verb == "link":
            kind = kinds.get(first, "d")
            return self._with(last, kind) if kind != "d" and last not in kinds else None
        if verb == "rename":
            return self._renamed(first, last)
        if verb in ("unlink", "rmdir"):
            inside = any(name.startswith(f"{first}/") for name in kinds)
            if inside or kinds.get(first) not in (("d",) if verb == "rmdir" else ("f", "l")):
                return None
            del kinds[first]
            return Names(kinds=kinds)
        return self if kinds.get(first) == "f" else None

    def _with(self, name: str, kind: str) -> "Names | None":
        return Names(kinds={**self.kinds, name: kind}) if self.kinds.get(folder_of(name)) == "d" else None

    def _renamed(self, first: str, last: str) -> "Names | None":
        kinds = dict(self.kinds)
        full = any(name.startswith(f"{last}/") for name in kinds)
        if first not in kinds or first == last or last.startswith(f"{first}/") or (last in kinds and full):
            return None
        if kinds.get(last, kinds[first]) != kinds[first] or (folder := kinds.get(folder_of(last))) not in ("d", None):
            return None
        if folder is None and folder_of(last) != TOP:
            return None
        for name in [name for name in kinds if name == first or name.startswith(f"{first}/")]:
            kinds[last + name[len(first) :]] = kinds.pop(name)
        return Names(kinds=kinds)


def folder_of(name: str) -> str:
    """The folder that has a name; TOP for one without."""
    return name.rpartition("/")[0] or TOP


def flushes(call: str, names: Names) -> list[list[str]]:
    """What may flush a call; names: that there are after it. Each is a list of calls.

    The file by fsync or fdatasync, each folder that it changed, both folders, file and folders, everything.
    """
    verb, *words = call.split()
    changed = {"link": words, "rename": words, "symlink": words[1:]}.get(verb, words[:1])
    left = {"rename": changed[-1:], "link": changed[:1]}.get(verb, changed[:1])
    left = [name for name in left if name in names.kinds and verb != "symlink"]
    folders = sorted({folder_of(name) for name in changed})
    found = [["sync"], *([f"fsyncdir {folder}"] for folder in folders)]
    if len(folders) > 1:
        found.append([f"fsyncdir {folder}" for folder in folders])
    for name in left:
        if names.kinds[name] == "d":
            found.append([f"fsyncdir {name}"])
        else:
            found += [[f"fsync {name}"], [f"fdatasync {name}"]]
            found.append([f"fsync {name}", *(f"fsyncdir {folder}" for folder in folders)])
    return found


def each(of: Sequences, operation: str = "") -> Iterator[str]:
    """All sequences of a file, or those whose last call is of an operation, or one history.

    Calls are separated by semicolons.
    """
    if of.histories:
        yield from (";".join(calls) for name, calls in of.histories.items() if operation in ("", name))
        return
    names = Names(kinds={TOP: "d"})
    for call in of.before:
        names = _possible(names, call, of)
    ending = [call for name, calls in of.calls.items() if operation in ("", name) for call in calls]
    every = list(dict.fromkeys(itertools.chain(*of.calls.values())))
    for first in itertools.product(every, repeat=of.length - 1):
        yield from map(";".join, _continued(names, [*first], dict.fromkeys(ending)))


def _possible(names: Names, call: str, of: Sequences) -> Names:
    if (found := names.after(call)) is None:
        raise UserError(f"{of.file}: before: {short(call)} is not possible: a name is missing, or there already.")
    return found


def _continued(names: Names, first: list[str], ending: dict[str, None]) -> Iterator[list[str]]:
    last = not first
    for call in ending if last else first[:1]:
        after = names.after(call)
        if after is None:
            continue
        rest = [[]] if last else list(_continued(after, first[1:], ending))  # whatever flushes the call
        for flush in [*([] if last else [[]]), *flushes(call, after)]:
            yield from ([call, *flush, *more] for more in rest)


def read(name: str) -> Sequences:
    """The file of a name. Raises UserError when there is none or it does not fit."""
    known = named(project_root() / Sequences.folder)
    if name not in known:
        raise unknown(Sequences.kind, name, known)
    return read_yaml(known[name], Sequences).known_as(name, str(known[name].relative_to(project_root())))


def arguments(spec: str) -> str:
    """The arguments of engine states for NAME, NAME/OPERATION or NAME/OPERATION%N, of which every N-th is taken.

    Raises UserError for an unknown name, operation or parameter.
    """
    place, _, step = spec.partition("%")
    if step.startswith("{"):
        raise UserError(f"sequences:{spec}: the scale has no parameter {step}.")
    name, _, operation = place.partition("/")
    of = read(name)
    if operation and operation not in (known := of.calls | of.histories):
        raise unknown(f"operation of {name}", operation, known)
    chosen = list(each(of, operation))[:: int(step or 1) or 1]
    return f"--before {shlex.quote(';'.join(of.before))} --sequences {shlex.quote('|'.join(chosen))}"


# ---- long histories

# No two names differ in case alone.
FILES, FOLDERS = ("x", "y", "bar", "foo", "A/x", "A/old", "B/x", "keep/1"), ("A", "B", "C", "A/D", "B/D")
SIZES = (512, 4096, 8192, 12288)
LARGEST = 32768  # bytes of a file
SAVES = ("sync", "remount", "drop")  # drop: of clean caches, which saves nothing
SAVED = 0.3  # the share of calls that save something
MAINTAINED = 0.1  # and that run maintenance of the file system, where it has some


def random_history(
    of: Sequences, seed: int, length: int, without: Container[str] = (), maintenance: Sequence[str] = ()
) -> list[str]:
    """So many calls that are possible one after another, drawn from a seed: the same on every machine.

    of: says what is there before; without: verbs that the file system does not have; maintenance: names of what it
    has, for calls `maintain NAME`.
    """
    draw = random.Random(seed)
    names = Names(kinds={TOP: "d"})
    made: list[str] = []
    for call in of.before:
        names = _possible(names, call, of)
    verbs = [verb for verb in WORDS if verb not in without]
    while len(made) < length:
        if maintenance and draw.random() < MAINTAINED:
            made.append(f"maintain {draw.choice(maintenance)}")
            continue
        if draw.random() < SAVED:
            made.append(_saving(draw, names))
            continue
        call = _changing(draw, draw.choice(verbs), names)
        after = names.after(call) if call else None
        if after is not None:
            names = after
            made.append(call)
    return made


def possible(of: Sequences, calls: Iterable[str]) -> bool:
    """Whether all these calls are possible one after another."""
    names: Names | None = Names(kinds={TOP: "d"})
    for call in [*of.before, *calls]:
        verb, *words = call.split()
        if verb in WORDS:
            names = names.after(call) if names else None
        elif names and words and verb in FLUSHES and words[0] not in names.kinds:
            names = None
    return names is not None


def _saving(draw: random.Random, names: Names) -> str:
    """A call that saves something: one of SAVES, or a flush of a file or folder that is there."""
    verb = draw.choice(["fsync", "fsync", "fdatasync", "fsyncdir", *SAVES])
    there = sorted(name for name, kind in names.kinds.items() if kind == ("d" if verb == "fsyncdir" else "f"))
    return verb if verb in SAVES or not there else f"{verb} {draw.choice(there)}"


def _changing(draw: random.Random, verb: str, names: Names) -> str:
    """A call of a verb on drawn names; empty where there is nothing to do it on. It need not be possible."""
    there = sorted(name for name, kind in names.kinds.items() if kind in "fl" or name in FOLDERS)
    if not there:
        return ""
    start = draw.randrange(0, LARGEST // 4096) * 4096
    size = min(draw.choice(SIZES), LARGEST - start)
    if verb in ("create", "mkdir"):
        return f"{verb} {draw.choice(FILES if verb == 'create' else FOLDERS)}"
    words = {3: f" {start} {size}", 2: f" {start}" if verb == "truncate" else f" {draw.choice(FILES + FOLDERS)}"}
    return f"{verb} {draw.choice(there)}{words.get(WORDS[verb], '')}"
