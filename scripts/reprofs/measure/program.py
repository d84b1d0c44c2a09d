"""From a command to an image with all that it needs, and what is said of it before the lab."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from reprofs.errors import UserError, cut, middle, short
from reprofs.files import cache_folder
from reprofs.guest import image
from reprofs.guest.image import Progress
from reprofs.measure import container
from reprofs.measure.practice import Practice, practise
from reprofs.measure.tree import Found, Tree, needed
from reprofs.workplace import scratch

STANDARD = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
SETTLED_S = 0.02  # a clock of files that is behind by a tick must not make what was written before look new
NETWORK = "/etc/resolv.conf"
DEVICES = ("/dev/dri", "/dev/nvidia", "/dev/kvm", "/dev/fuse", "/dev/snd", "/dev/net/tun")


@dataclass
class Program:
    """A program as the lab gets it. content: bytes of its input; notes: sentences; practice: its run here, if any."""

    words: list[str]
    environment: dict[str, str]
    image: Path
    files: int
    bytes: int
    content: int
    notes: list[str] = field(default_factory=list)
    practice: Practice | None = None


def from_here(
    words: Sequence[str], given: Path | None, environment: Mapping[str, str], folder: Path, say: Progress
) -> Program:
    """A program of this machine, by one run of it here, in a copy of its input.

    given: its input; environment: variables besides; folder: where the command was given. Raises UserError.
    """
    words = [_program(words[0], given, folder), *words[1:]]
    own = {"HOME": os.environ.get("HOME", "/root"), "LANG": "C.UTF-8"}
    paths = os.environ.get("PATH", os.defpath)
    with scratch() as work:
        practice = _practised(words, given, {**own, "PATH": paths, **environment}, work, say)
        began, run = practice
        tree = Found(_new(work / "tree"), began, [str(work.parent)])
        for path in sorted(run.paths):
            tree.add(path)
        for started in sorted(run.ran):  # some may be in its folder, which comes in as its input
            for path in (started, *needed(Path(started))):
                tree.add(path)
        own["PATH"] = _path(paths, run)
        made = _made(tree, words, {**own, **environment}, given, say)
        made.practice = run
        made.notes += _notes(run, tree, words, folder, given)
        return made


def from_root(
    words: Sequence[str], root: Path, given: Path | None, environment: Mapping[str, str], say: Progress
) -> Program:
    """A program of a root file system: a folder, or an archive. Raises UserError."""
    if not root.exists():
        raise UserError(f"--root {short(str(root))} does not exist: name a folder, or an archive of a container.")
    with scratch() as work:
        tree = Tree(_new(work / "tree"))
        say(f"reading {middle(str(root), 80)}")
        asked = container.take(root, tree)
        own = {"HOME": "/root", "LANG": "C.UTF-8", "PATH": ":".join(STANDARD)}
        return _made(tree, list(words), {**own, **asked, **environment}, given, say)


def _new(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _program(word: str, given: Path | None, folder: Path) -> str:
    """The name of a program as it is found in its folder too. Raises UserError for one that is not there."""
    if "/" not in word:
        if not shutil.which(word):
            raise UserError(f"there is no program {short(word)} in PATH: name one after --, or its path.")
        return word
    inside = given is not None and not word.startswith("/") and (given / word).is_file()
    path = Path(word) if inside or word.startswith("/") else folder / word
    if not inside and not path.is_file():
        raise UserError(f"there is no program {short(word)}: name one that exists, after --.")
    return word if inside else str(path)


def _practised(
    words: Sequence[str], given: Path | None, environment: Mapping[str, str], work: Path, say: Progress
) -> tuple[int, Practice]:
    """When the run began, in ns of the clock, and what it said."""
    place = work / "run"
    if given:
        shutil.copytree(given, place, symlinks=True)
    else:
        place.mkdir()
    began = time.time_ns()
    time.sleep(SETTLED_S)
    say(f"running {middle(words[0], 80)} once here, to see which files it needs")
    if os.geteuid() == 0:  # a program of root may go on as another user, who must get into its folder
        work.parent.chmod(0o711)
    try:
        return began, practise(words, place, environment, work / "output")
    finally:
        work.parent.chmod(0o700)


def _path(paths: str, run: Practice) -> str:
    """PATH in the lab: of this machine's the folders from which programs were started, then the usual ones."""
    used = {os.path.dirname(path) for path in run.ran}  # noqa: PTH120
    return ":".join(dict.fromkeys([*(one for one in paths.split(":") if one in used), *STANDARD]))


def _made(tree: Tree, words: list[str], environment: dict[str, str], given: Path | None, say: Progress) -> Program:
    files, before = tree.files, tree.bytes
    if given:
        tree.take(given, "input")
    tree.texts("words", words)
    tree.texts("environment", [f"{name}={value}" for name, value in sorted(environment.items())])
    say(f"packing {files:,} files, {before / 1e6:,.0f} MB")
    image_of = image.keep(tree.folder.root, cache_folder(), say)
    content = max(tree.bytes - before, 1) if given else 0
    made = Program(words, environment, image_of, tree.files, tree.bytes, content)
    if tree.special:
        made.notes.append(f"{middle(min(tree.special), 80)} is neither file, folder nor link and was left out.")
    return made


def _notes(run: Practice, tree: Found, words: Sequence[str], folder: Path, given: Path | None) -> list[str]:
    """What is said of the run here: how it failed, what the lab lacks, what stayed out."""
    notes = []
    if run.code:
        last = cut((run.output.strip().splitlines() or ["no output"])[-1], 120)
        notes.append(f"Here it exited with {run.code} ({last}).")
        if beside := [word for word in words[1:] if not word.startswith("/") and (folder / word).is_file()]:
            where = "an empty folder" if given is None else "a copy of its input"
            notes.append(
                f"It runs in {where}, where {short(beside[0])} is not: name it by its whole path, or give --input."
            )
    if NETWORK in run.paths:
        notes.append("It looked up a host name: the lab has no network but its own loopback (127.0.0.1).")
    if lacks := sorted(path for path in run.paths if path.startswith(DEVICES)):
        notes.append(f"It used {short(lacks[0])}, which the lab lacks.")
    if tree.changed:
        notes.append(
            f"{middle(min(tree.changed), 100)} changed while it ran here, so the lab has no such file: put what it "
            "changes into --input."
        )
    return notes
