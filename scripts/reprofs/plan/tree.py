"""A profile of a tree (workflow/trees): a real tree becomes a small file of distributions, and that becomes arguments
of the engine.

It tells, level by level below the top folder, how many folders, files, symbolic links and further hard links there are
and how they are spread over the folders, and how large the files are. A distribution is a list of [bound, weight]: that
many values in (previous bound, bound], log-uniformly distributed. Names and contents are not in it, unless names are
asked for.
"""

import os
import shlex
import stat
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import ConfigDict, Field

from reprofs import files
from reprofs.errors import FileError, UserError
from reprofs.plan.catalog import named
from reprofs.plan.parts import NAME, NAME_RULE, Count, Descriptor, Filled, Part
from reprofs.plan.read import read_yaml, short, unknown, validate
from reprofs.project import project_root

LEVELS = 32  # that the engine takes; deeper entries count as on the last one
# Where the distribution of sizes is cut: even steps, then a tail whose few files hold most bytes.
CUTS = [*(k / 24 for k in range(1, 24)), 0.97, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9998, 1.0]


Pair = Annotated[list[Annotated[int, Field(ge=0, le=281474976710655)]], Field(min_length=2, max_length=2)]
Spread = Annotated[list[Pair], Field(max_length=256)]


class Level(Part):
    folders: Annotated[int, Field(ge=1, le=100000000)]
    files: Count = Field(0, description="Regular files in the folders of this level")
    symbolic: Count = Field(0, description="Symbolic links in them")
    hard: Count = Field(0, description="Further names of files")
    subfolders: Spread = Field(
        [], description="How the folders of the next level are spread over these; empty = evenly"
    )
    entries: Spread = Field([], description="How files and links are spread over these folders; empty = evenly")


class Links(Part):
    folder: Count = 0
    missing: Count = 0


class Tree(Descriptor):
    kind = "tree"
    folder = "workflow/trees"

    model_config = ConfigDict(title="A profile of a tree, from which a look-alike is made")

    title: Filled
    source: Filled = Field(description="Where the numbers come from, and which of them are general knowledge")
    sizes: Annotated[list[Pair], Field(min_length=1, max_length=256)] = Field(
        description="Bytes of the regular files; [bound, weight]: so many above the bound before, up to this one"
    )
    compress: Annotated[int, Field(ge=0, le=100)] | None = Field(
        None, description="Percent of the content that a compressor saves, about"
    )
    levels: Annotated[list[Level], Field(min_length=1, max_length=32)] = Field(
        description="By depth: the first is the top folder"
    )
    links: Links = Field(
        default_factory=Links,
        description="Of the symbolic links: how many lead to a folder, and how many out of the tree or nowhere; the"
        " others lead to files",
    )
    unreadable: Count = Field(0, description="Folders which the scan could not read; they count as empty")
    left_out: Count = Field(0, description="Special files and other file systems, not in the profile")
    names: dict[str, Annotated[int, Field(ge=1, le=4000000000)]] | None = Field(
        None, description="Names and how often they occur; only when asked for"
    )

    def distributions(self) -> Iterator[tuple[str, list[list[int]]]]:
        """Each distribution, with the key under which it stands."""
        yield "sizes", self.sizes
        for number, level in enumerate(self.levels):
            for key, bins in (("subfolders", level.subfolders), ("entries", level.entries)):
                if bins:
                    yield f"levels.{number}.{key}", bins

    def arguments(self) -> str:
        """The arguments of `engine look-alike` that stand for it; --files and --seed are not among them."""
        words = ["--sizes", _text(self.sizes)]
        for level in self.levels:
            numbers = f"{level.folders}/{level.files}/{level.symbolic}/{level.hard}"
            words += ["--level", f"{numbers}/{_text(level.subfolders)}/{_text(level.entries)}"]
        if self.links.folder or self.links.missing:
            words += ["--links", f"folder={self.links.folder},missing={self.links.missing}"]
        if self.compress is not None:
            words += ["--compress", str(self.compress)]
        if self.names:
            lengths: Counter[int] = Counter()
            for name, count in self.names.items():
                lengths[len(name.encode())] += count
            words += ["--lengths", _text(_quantiles(lengths))]
        return shlex.join(words)


def _text(bins: list[list[int]]) -> str:
    return ",".join(f"{bound}:{weight}" for bound, weight in bins)


@dataclass
class Depth:
    """One depth: its folders, the entries in them by kind, and how sub-folders and entries spread over the folders."""

    folders: int = 0
    files: int = 0
    symbolic: int = 0
    hard: int = 0
    subfolders: Counter = field(default_factory=Counter)
    entries: Counter = field(default_factory=Counter)


@dataclass
class Scan:
    """The counts of a walk over a tree."""

    levels: list[Depth] = field(default_factory=list)
    sizes: Counter = field(default_factory=Counter)
    names: Counter = field(default_factory=Counter)
    links_to_folders: int = 0
    links_to_nothing: int = 0
    unreadable: int = 0  # folders
    left_out: int = 0  # sockets, pipes, devices, other file systems


def scan(folder: Path) -> Scan:
    """Walks a tree (lstat of every entry, symbolic links not followed, one file system).

    A folder that cannot be read counts as unreadable and empty. A symbolic link that leads out of the tree or nowhere
    counts as leading to nothing. A file with several names in the tree is a file once and a hard link for each further
    name.
    Raises UserError when `folder` itself cannot be read.
    """
    try:
        top = folder.stat()
        next(folder.iterdir(), None)
    except OSError as error:
        raise UserError(f"{folder} cannot be scanned: {error.strerror}; choose a readable folder.") from None
    inside = os.fsencode(os.path.realpath(folder))
    found, linked = Scan(), set()
    waiting = [(os.fsencode(folder), 0)]
    while waiting:
        path, depth = waiting.pop()
        while len(found.levels) <= min(depth, LEVELS - 1):
            found.levels.append(Depth())
        level = found.levels[min(depth, LEVELS - 1)]
        level.folders += 1
        subfolders = entries = 0
        try:
            children = sorted(os.scandir(path), key=lambda entry: entry.name)
        except OSError:
            found.unreadable += 1
            children = []
        for child in children:
            try:
                status = child.stat(follow_symlinks=False)
            except OSError:  # removed meanwhile, or not readable
                found.left_out += 1
                continue
            kind = stat.S_IFMT(status.st_mode)
            if status.st_dev != top.st_dev or kind not in (stat.S_IFDIR, stat.S_IFREG, stat.S_IFLNK):
                found.left_out += 1
                continue
            found.names[child.name.decode(errors="backslashreplace")] += 1
            if kind == stat.S_IFDIR:
                subfolders += 1
                waiting.append((child.path, depth + 1))
                continue
            entries += 1
            if kind == stat.S_IFLNK:
                level.symbolic += 1
                _follow(child.path, inside, found)
            elif status.st_nlink > 1 and status.st_ino in linked:
                level.hard += 1
            else:
                if status.st_nlink > 1:
                    linked.add(status.st_ino)
                level.files += 1
                found.sizes[status.st_size] += 1
        level.subfolders[subfolders] += 1
        level.entries[entries] += 1
    return found


def _follow(path: bytes, inside: bytes, found: Scan) -> None:
    try:
        mode, target = os.stat(path).st_mode, os.path.realpath(path)  # noqa: PTH116  # of bytes, as a name may be any
    except OSError:  # dangling, or a loop
        found.links_to_nothing += 1
        return
    if target != inside and not target.startswith(inside.rstrip(b"/") + b"/"):
        found.links_to_nothing += 1
    elif stat.S_ISDIR(mode):
        found.links_to_folders += 1


def _powers(values: Counter) -> list[list[int]]:
    """[bound, weight] with bounds at 0, the powers of two and the largest value."""
    bins: Counter[int] = Counter()
    for value, count in values.items():
        bins[min(1 << (value - 1).bit_length() if value else 0, max(values))] += count
    return _with_edges(bins, values)


def _quantiles(values: Counter) -> list[list[int]]:
    """[bound, weight] cut at quantiles; a value that many files share has a bin of its own."""
    ordered = sorted(values)
    total, sums = values.total(), list(accumulate(values[value] for value in ordered))
    cuts = {ordered[bisect_left(sums, cut * total)] for cut in CUTS} | ({0} & set(ordered))
    for place, value in enumerate(ordered):
        if values[value] >= total / 24:
            cuts |= {value, ordered[max(place - 1, 0)]}
    bins: Counter[int] = Counter()
    bounds = sorted(cuts)
    for value, count in values.items():
        bins[bounds[bisect_left(bounds, value)]] += count
    return _with_edges(bins, values)


def _with_edges(bins: Counter, values: Counter) -> list[list[int]]:
    """The bins in order; an empty one before each that has one value only, or begins well above the one before it."""
    made, before, ordered = [], -1, sorted(values)
    for bound in sorted(bins):
        least = ordered[bisect_left(ordered, before + 1)]
        if least > max(before + 1, 1) and (least == bound or least > 1.1 * before + 1):
            made.append([least - 1, 0])
        made.append([bound, bins[bound]])
        before = bound
    return made


def profile(found: Scan, names: bool = False) -> dict:
    """The profile of a scan. Raises UserError when it found no file."""
    total: Counter[str] = Counter()
    for level in found.levels:
        total.update(folders=level.folders, files=level.files, symbolic=level.symbolic, hard=level.hard)
    if not total["files"]:
        raise UserError("the folder has no file: choose one with at least one file.")
    data = {
        "title": f"A tree of {total['files']} files in {total['folders']} folders",
        "source": "A scan of an existing tree",
        "sizes": _quantiles(found.sizes),
        "levels": [
            {
                "folders": level.folders,
                "files": level.files,
                "symbolic": level.symbolic,
                "hard": level.hard,
                "subfolders": _powers(level.subfolders),
                "entries": _powers(level.entries),
            }
            for level in found.levels
        ],
        "links": {"folder": found.links_to_folders, "missing": found.links_to_nothing},
        "unreadable": found.unreadable,
        "left_out": found.left_out,
    }
    if names:
        data["names"] = dict(sorted(found.names.items()))
    return data


def write(folder: Path, output: Path, names: bool = False) -> str:
    """Scans `folder` to the profile `output`; returns a sentence about what was found. Raises UserError, also for a bad
    name and where there is such a file."""
    if not NAME.fullmatch(output.stem) or output.suffix != ".yaml":
        raise UserError(f"--output {short(output.name)} is not a valid name: before .yaml it must have {NAME_RULE}.")
    if output.exists():
        raise UserError(f"{output} exists: remove it, or choose another name for --output.")
    found = scan(folder)
    made = validate(profile(found, names), Tree, str(output))
    files.write_text(output, text_of(made.as_json()))
    said = [f"{output}: {made.title[0].lower()}{made.title[1:]}"]
    if found.unreadable:
        said.append(f"{found.unreadable} folders could not be read and count as empty")
    if found.left_out:
        said.append(f"{found.left_out} entries are left out (special files, other file systems)")
    return "; ".join(said) + "."


class _Dumper(yaml.SafeDumper):
    """Lists of pairs, and the numbers of a level before them, on one line."""


class _Flat(list):
    pass


_Dumper.add_representer(_Flat, lambda dumper, data: dumper.represent_sequence("tag:yaml.org,2002:seq", data, True))


def text_of(data: dict) -> str:
    """A profile as YAML that a human can read: a distribution on one line or a few."""
    levels = [{key: _Flat(v) if isinstance(v, list) else v for key, v in level.items()} for level in data["levels"]]
    data = {**data, "sizes": _Flat(data["sizes"]), "levels": levels}
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True)


def profiles() -> dict[str, Path]:
    """name -> file of every profile of this checkout. Raises UserError for an invalid file name."""
    return named(project_root() / Tree.folder)


def read(name: str) -> Tree:
    """A profile by its name, or by its path when the name ends in .yaml.

    Raises UserError when there is none, when it does not fit the schema, or when its levels contradict one another.
    """
    known = profiles()
    if name.endswith(".yaml"):
        path = Path(name)
    elif name in known:
        path = known[name]
    else:
        raise unknown(Tree.kind, name, known)
    found = read_yaml(path, Tree)
    for key, bins in found.distributions():
        bounds = [bound for bound, _ in bins]
        if bounds != sorted(set(bounds)):
            raise FileError(f"{found.file}: {key}: the bounds must increase: sort them.")
        if not sum(weight for _, weight in bins):
            raise FileError(f"{found.file}: {key}: all weights are 0: raise at least one.")
    if not any(level.files for level in found.levels):
        raise FileError(f"{found.file}: levels: no level has files: give at least one level some.")
    if found.levels[0].folders != 1:
        raise FileError(
            f"{found.file}: levels.0.folders is {found.levels[0].folders}, but the top is one folder: write 1."
        )
    return found


def arguments(name: str) -> str:
    """The arguments of `engine look-alike` that stand for a profile. Raises UserError like `read`."""
    return read(name).arguments()
