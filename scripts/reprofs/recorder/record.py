"""`reprofs record`: from a command to a recording, its workload and a page about them."""

from __future__ import annotations

import errno
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from reprofs import cleanup, files
from reprofs.errors import UserError, count, cut, middle, short
from reprofs.guest import engine, listed, trace
from reprofs.plan import recording
from reprofs.plan.parts import NAME, NAME_RULE
from reprofs.plan.recording import KINDS, LONGEST_PATH, SUFFIX, Content, Recording
from reprofs.plan.recording_links import leads_out
from reprofs.plan.workload import ROOM_MIB, Workload
from reprofs.project import project_root
from reprofs.recorder import entries, events, page, retell, strace
from reprofs.recorder.before import Before
from reprofs.recorder.follow import Follower
from reprofs.recorder.lines import TooMany
from reprofs.recorder.names import AsTheyAre, Names
from reprofs.recorder.run import watched
from reprofs.recorder.size import Sums
from reprofs.workplace import end_with_parent, workplace

SECONDS = 3600
FEWER = "record a shorter run, or fewer folders (--below)"
UNKNOWN = "unknown"
EVERY_S = 2  # between two lines of progress
IN_MEMORY = ("tmpfs", "ramfs")
MIB = 1 << 20
LAST = "final-sync"  # what a replay flushes in the end, and the program did not
BYTES_A_NAME = 8192  # that a file system needs besides content, with much to spare


class NoCalls(UserError):
    """A program that makes no call below the roots. elsewhere: what it wrote besides, a clause or empty."""

    def __init__(self, place: str, elsewhere: str) -> None:
        self.elsewhere = elsewhere
        more = f", but {elsewhere}" if elsewhere else ""
        super().__init__(f"the program made no call below {place}{more}: name its working folders with --below.")


def record(
    command: Sequence[str], roots: Sequence[Path], output: str, seconds: int = SECONDS, accept: bool = False
) -> str:
    """Runs a command and writes the recording of its calls below the roots, and the workload that replays it.

    output: its name, or a path that ends in NAME.jsonl.xz; seconds: after which the command is ended; accept: write it
    also where it is less than the program. Returns the page about it. Raises UserError, with nothing written, where
    that cannot be done or is less and was not accepted.
    """
    targets, name = _targets(output)
    return _written(targets, *made(command, roots, name, seconds), accept)


def made(
    command: Sequence[str],
    roots: Sequence[Path],
    name: str,
    seconds: int = SECONDS,
    folder: Path | None = None,
    environment: dict[str, str] | None = None,
) -> tuple[Content, page.Facts]:
    """Runs a command, follows its calls below the roots, and replays them once. Nothing is written.

    folder: where it is started, with no terminal, and what it prints is dropped; without one it is started here, as it
    would be without this. environment: in place of this process's. Raises UserError, and NoCalls where it has
    none below the roots.
    """
    places, names = _roots(roots), Names()
    before, _ = _tree(places, names)
    follower = Follower(places, str(folder or Path.cwd()), _umask(), names)
    code, late = _follow(command, places, seconds, follower, folder, environment)
    after, unread = _tree(places, names, late=True)
    content = _content(name, places[0], follower, before.entries, after.compared(), late)
    facts = page.Facts(name, content, code, follower.said, names.endings, special=max(before.special, after.special))
    facts.memory = any(_system(place) in IN_MEMORY for place in places)
    facts.deep, facts.unread = (before.deep, after.deep), unread
    facts.elsewhere = follower.elsewhere
    try:
        _try(content, Path(places[0]).parent, facts, look=not unread)
    except (UserError, KeyboardInterrupt) as why:  # the program, which may have taken an hour, is not run again for it
        facts.untried, facts.differing = f"It was not replayed here: {why or 'that was interrupted.'}", []
    return content, facts


def write(name: str, content: Content, facts: page.Facts) -> None:
    """Writes a recording and its workload under a name that is free, also where it is less than the program, which its
    first line then says. Raises UserError where they cannot be written."""
    targets, _ = _targets(name)
    content.head = content.head.model_copy(update={"incomplete": facts.problems() or None})
    _put(targets, recording.packed(content, targets[0].name), workload(name, content))


def accept(output: str) -> str:
    """Takes the incomplete recording that was kept of an earlier `record` with this output. Returns a sentence.

    Raises UserError when there is none.
    """
    targets, name = _targets(output)
    kept = _kept(targets[0])
    if not kept.is_file():
        raise UserError(f"there is no {short(str(kept))} to accept: give a command after --, or --from-strace FILE.")
    content = recording.read(kept)
    _put(targets, kept.read_bytes(), workload(name, content))
    kept.unlink()
    return _used(targets, name)


def from_strace(paths: Sequence[Path], roots: Sequence[Path], output: str, accept: bool = False) -> str:
    """Like `record`, of the text of strace about a program that ran elsewhere.

    roots: folders of that machine, none: the one in which the program began. The tree before is as far as the calls
    tell of it, the tree after is what a replay here makes of it.
    """
    (targets, name), names = _targets(output), Names()
    found = strace.survey(paths)
    places = _told_roots(roots or [Path(found.folder)])
    umask = page.UMASK if found.umask is None else found.umask
    follower, reader = Follower(places, found.folder, umask, names, here=False), retell.Reader(paths, found, places)
    try:
        _take(reader.events(), follower)
    except TooMany:
        raise UserError(f"{paths[0]} has too many calls: {FEWER}.") from None
    lacks = reader.lacks()
    before = Before(names, len(places), follower.told)
    for line in follower.calls()[0]:
        before.take(line)
    there = before.entries()
    fitting = [one for one in there if all(len(text) <= LONGEST_PATH for text in one[1:] if isinstance(text, str))]
    content = _content(name, places[0], follower, fitting, [], False, seen=False)
    facts = page.Facts(name, content, reader.code or 0, follower.said, names.endings, special=before.guesses()[2])
    facts.lacks, facts.deep = lacks, (len(there) - len(fitting), 0)
    facts.assumed = page.assumed(reader, follower, before.guesses(), found.umask)
    _try(content, Path.cwd(), facts, look=False)
    return _written(targets, content, facts, accept)


def _written(targets: tuple[Path, Path], content: Content, facts: page.Facts, accept: bool) -> str:
    """Writes a recording and its workload; the page about them. An incomplete one is kept aside: UserError."""
    problems = facts.problems()
    content.head = content.head.model_copy(update={"incomplete": problems or None})
    data = recording.packed(content, targets[0].name)
    facts.size = len(data)
    told, kept = page.text(facts), _kept(targets[0])
    if problems and not accept:
        files.write_bytes(kept, data)
        print(told, end="", file=sys.stderr)
        raise UserError(
            f"the recording is incomplete: {cut('; '.join(problems), 110)}. It is kept "
            f"({middle(str(_shown(kept)), 80)}): --accept in place of the command takes it without running it again."
        )
    _put(targets, data, workload(facts.name, content))
    kept.unlink(missing_ok=True)
    return told + _used(targets, facts.name)


def _put(targets: tuple[Path, Path], data: bytes, text: str) -> None:
    """Writes the recording and its workload, both or none. Raises UserError."""
    with files.made(targets[0].parent):
        files.write_bytes(targets[0], data)
        try:
            files.write_text(targets[1], text)
        except BaseException:
            targets[0].unlink()
            raise


def _kept(target: Path) -> Path:
    """Where an incomplete recording waits to be accepted."""
    return target.with_name(f"{target.name}.incomplete")


def _shown(path: Path) -> Path:
    root = project_root()
    return path.relative_to(root) if path.is_relative_to(root) else path


def _used(targets: tuple[Path, Path], name: str) -> str:
    """What was written, and how it is used."""
    first = ""
    if targets[0].parent == targets[1].parent:
        first = f"put them into {Recording.folder} and {Workload.folder}, then "
    return (
        f"Written: {_shown(targets[0])} and {_shown(targets[1])}.\n"
        f"Next: {first}`reprofs answer {name}` replays it on several file systems and disks, and says which is best.\n"
    )


def _umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask


def _targets(output: str) -> tuple[tuple[Path, Path], str]:
    """The files of a recording and of its workload, and its name.

    Of a name they are where studies find them, so are those of a path in workflow/recordings; of another path the
    workload is beside the recording. Raises UserError for a bad name or path, or if one of the files exists.
    """
    root, path = project_root(), Path(output)
    name = path.name.removesuffix(SUFFIX)
    folders = (root / Recording.folder, root / Workload.folder)
    if "/" in output or output.endswith(SUFFIX):
        if not output.endswith(SUFFIX):
            raise UserError(f"--output {short(output)} is invalid: give a name, or a path that ends in NAME{SUFFIX}.")
        if (folder := path.parent.resolve()) != folders[0].resolve():
            folders = (folder, folder)
    if not NAME.fullmatch(name):
        raise UserError(f"--output {short(output)} is invalid: its name must have {NAME_RULE}.")
    targets = (folders[0] / f"{name}{SUFFIX}", folders[1] / f"{name}.yaml")
    for target in targets:
        if target.exists():
            raise UserError(f"{target} exists: remove it, or choose another name for --output.")
        files.check_writable(target)
    return targets, name


def _roots(roots: Sequence[Path]) -> list[str]:
    """The folders without links. Raises UserError for one that is none, or that is below another."""
    places: list[str] = []
    for root in roots or [Path()]:
        if not root.is_dir():
            raise UserError(f"--below {root} is not a folder: name one that exists before the command starts.")
        places.append(os.path.realpath(root))
    return _apart(places)


def _told_roots(roots: Sequence[Path]) -> list[str]:
    """The folders of another machine. Raises UserError for one that is not told from its top, or is below another."""
    for root in roots:
        if not root.is_absolute():
            raise UserError(f"--below {root} is not an absolute path: name the folder as on the recorded machine.")
    return _apart([os.path.normpath(root) for root in roots])


def _apart(roots: list[str]) -> list[str]:
    """Raises UserError for a root that is everything, or below another."""
    places: list[str] = []
    for root in roots:
        if root == "/" or root in places:
            raise UserError(
                f"--below {root} is {'the whole machine' if root == '/' else 'given twice'}: name a folder."
            )
        places.append(root)
    inner = next((one for one in places for other in places if one.startswith(f"{other}/")), "")
    if inner:
        raise UserError(f"--below {inner} is in another --below: name only the outer one.")
    return places


def _tree(places: list[str], names: Names, late: bool = False) -> tuple[entries.Tree, str]:
    """The tree below the folders. late: what cannot be read is no error, but the second value says why."""
    try:
        return entries.read(places, names), ""
    except OSError as error:
        if late:
            return entries.Tree([], 0, 0), f"{error.strerror}"
        rights = error.errno in (errno.EACCES, errno.EPERM)
        hint = "record as a user who can read everything below the folders" if rights else "mend that, or use --below"
        raise UserError(f"{short(error.filename)} cannot be read: {error.strerror}; {hint}.") from None


WHY = {
    1: "ptrace is not allowed here ({}): in a container allow it (docker run --cap-add SYS_PTRACE), and record neither "
    "inside a debugger nor inside another recording",
    2: "a seccomp filter cannot be set here ({}): record on another machine, or allow it in this container",
    3: "it cannot be started ({}): name a program that exists, after --",
}


def _follow(
    command: Sequence[str],
    places: list[str],
    seconds: int,
    follower: Follower,
    folder: Path | None,
    environment: dict[str, str] | None,
) -> tuple[int, bool]:
    """Runs the command, its calls followed; its exit code, and whether its time was over. The last two: of `made`.

    Raises UserError when it cannot be started, or is too much.
    """
    options: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL) if folder else {}
    options |= {"cwd": folder, "env": environment}
    try:
        with watched(command, places, seconds, **options) as found:
            _take(found, follower)
    except TooMany:
        raise UserError(f"{short(command[0])} makes too many calls: {FEWER}.") from None
    if follower.failed:
        why, reason = follower.failed
        raise UserError(f"{short(command[0])} cannot be recorded: {WHY[why].format(reason)}.")
    if not follower.ended:
        raise UserError("the recorder was killed, and nothing was written: check the kernel log (dmesg).")
    return follower.ended


def _take(found: Iterable[events.Event], follower: Follower) -> None:
    """All events, with a line of progress now and then."""
    told = time.monotonic()
    for number, event in enumerate(found):
        follower.take(event)
        if number % 4096 == 0 and time.monotonic() > told + EVERY_S:
            told = time.monotonic()
            print(f"reprofs: {len(follower.lines):,} calls below the roots", file=sys.stderr, flush=True)


def _content(
    name: str, place: str, follower: Follower, before: list[list], after: list[list], late: bool, seen: bool = True
) -> Content:
    """seen: it ran on this machine."""
    calls, who = follower.calls()
    if not calls:
        raise NoCalls(place, str(follower.elsewhere))
    for what, found, most in (
        ("calls", calls, recording.CALLS),
        ("entries of the tree before", before, recording.ENTRIES),
        ("entries of the tree after", after, recording.ENTRIES),
    ):
        if len(found) > most:
            raise UserError(
                f"there are {len(found):,} {what}, but a recording has at most {most:,}: record a shorter run, or "
                "fewer folders (--below)."
            )
    sums = Sums(sum(line[4] for line in before if line[0] == "f"), len(before))
    for line in calls:
        sums.add(line)
    head = Recording(
        format=1,
        title=f"A recorded program: {name}",
        filesystem=_system(place) if seen else UNKNOWN,
        kernel=".".join(platform.release().split(".")[:2]) if seen else UNKNOWN,
        threads=len(follower.threads),
        lanes=max((one[0] + 1 for one in who), default=0),
        before=len(before),
        calls=len(calls),
        after=len(after),
        names=sums.names,
        bytes=sums.bytes,
        handles=follower.lines.handles,
        outside=follower.outside,
        left_out=dict(follower.left_out),
        moved=sums.moved,
        in_listing_order=follower.order.is_that_of_listings(),
        ended=late,
    )
    content = Content(head, before, calls, after, who)
    if head.in_listing_order and len(calls) <= recording.LISTED:
        content.head = head.model_copy(update={"follows_listings": listed.found(content).most})
    return content


def _system(place: str) -> str:
    """The kind of the file system of a folder, as the kernel names it."""
    best, kind = "", UNKNOWN
    for line in Path("/proc/self/mounts").read_text(errors="replace").splitlines():
        _, at, found, *_ = line.split(" ")
        at = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), at)
        if (place == at or place.startswith(at.rstrip("/") + "/")) and len(at) >= len(best):
            best, kind = at, found
    return kind


def _try(content: Content, beside: Path, facts: page.Facts, look: bool = True) -> None:
    """Replays it once, in a folder if one may write there; notes what was other than recorded, or, if nobody looked at
    the tree after, what that is.

    Calls with another result are then not checked any more. Raises UserError when it cannot be replayed at all.
    """
    if leads := leads_out(content.before, content.calls):
        raise UserError(f"{leads.why}: remove the link, or record an outer folder, too (--below).")
    with workplace() as place:
        folder = (beside if os.access(beside, os.W_OK) else place) / f"{place.name}-replay"
        cleanup.note(place, folder=str(folder))
        try:
            folder.mkdir(0o700)
            _replay(content, folder, facts, look)
        except OSError as error:
            raise UserError(f"{folder} cannot be used to try the recording: {error.strerror}.") from None
        finally:
            for words in (["chmod", "-R", "u+rwx"], ["rm", "-rf"]):  # of any depth, and what nobody may enter
                subprocess.run([*words, "--", folder], capture_output=True)
    for number in facts.differing:
        content.calls[number][1] = None
    content.head = content.head.model_copy(update={"unchecked": len(facts.differing)})


def _replay(content: Content, folder: Path, facts: page.Facts, look: bool) -> None:
    """See _try. Raises UserError and OSError."""
    if shutil.disk_usage(folder).free < 2 * content.head.bytes:
        need = f"{content.head.bytes / MIB:,.0f} MiB"
        raise UserError(f"{folder} has no space to try the recording, which needs {need}: free some.")
    program = recording.replayed_by(content.head, False)
    path, programs = folder / "recording", folder / "programs"
    path.write_bytes(trace.compiled(content))
    trace.provide({program: engine.build(files.cache_folder(), program)}, programs)
    words = [str(programs / program), "--recording", str(path), "tree"]
    own: dict[str, Any] = {"capture_output": True, "text": True, "preexec_fn": end_with_parent, "cwd": folder}
    own["env"] = {**os.environ, "REPROFS_PROGRAMS": str(programs)}
    timed = own | {"env": own["env"] | {"REPROFS_SAMPLES": str(folder / "samples")}}
    done = subprocess.run([*words, "--how", "both", "--differing"], **timed)
    if done.returncode:
        raise UserError(f"the recording cannot be replayed here: {cut(done.stderr)}")
    samples = map(json.loads, (folder / "samples").read_text().splitlines())
    facts.calls_ns = sum(one["wall_ns"] for one in samples if one["name"] != LAST)
    facts.differing = [int(line) for line in done.stdout.split()]
    if not look:
        found = entries.read([f"{folder}/tree/{'0/' * recording.UP}".rstrip("/")], AsTheyAre())
        content.after, facts.deep = found.compared(), (facts.deep[0], found.deep)
        facts.special = max(facts.special, found.special)
        content.head = content.head.model_copy(update={"after": len(content.after)})
        path.write_bytes(trace.compiled(content))
    looked = content.after and subprocess.run([*words, "--how", "verify"], **own)
    if looked and looked.returncode:
        said = (looked.stderr.strip().splitlines() or ["it could not be read"])[-1].rpartition("replay: ")[2]
        facts.tree = cut(said.replace(str(folder), ""))


def workload(name: str, content: Content) -> str:
    """The text of the workload that replays a recording: cold, then warm in a second folder."""
    head = content.head
    mib = max(ROOM_MIB, 2 * head.bytes // MIB + head.names * BYTES_A_NAME // MIB)
    counts = Counter(line[0] for line in content.calls)
    order = page.order_of(head)
    order = order and f"\n{textwrap.indent(textwrap.fill(order, 118), '  ')}"
    if head.lanes and not head.follows_listings:
        order = f"\n  On several processors its threads make them at the same time.{order}"
    where = f"A recording on {head.filesystem}, Linux {head.kernel}"
    if head.kernel == UNKNOWN:
        where = "The text of strace; the tree before is what the calls tell of it"
    text = f"""\
title: The calls of a recorded program ({name})
description: >-
  The file-system calls of a program, made again one after the other as fast as they go. Its time is the time of the
  file-system calls of the program, not of the program: what it computed and waited for is not in it.{order}
source: >-
  {where}: {count(head.calls, "call")} of {count(head.threads, "thread")},
  {sum(head.left_out.values()):,} left out. Made by reprofs record.
scales:
"""
    text += "".join(f"  {s}: {{device_mib: {mib}, calls: {head.calls}}}\n" for s in ("smoke", "laptop", "paper"))
    text += f"""\
populate:
  - {{name: tree, run: "engine replay --how prepare {{recording:{name}}} cold"}}
phases:
"""
    for cache, how in (("cold", "run"), ("warm", "both")):
        check = f'    check: "engine replay --how verify {{recording:{name}}} {cache}"\n' if content.after else ""
        text += f"""\
  - name: {cache}
    title: Make the calls, caches {cache}
    run: "engine replay --how {how} {{recording:{name}}} {cache}"
{check}    cache: {cache}
    items: calls
    limit_s: 86400
    samples:
"""
        text += "".join(f'      {kind}: "{kind}, {count(counts[kind], "call")}"\n' for kind in KINDS if counts[kind])
        text += "      final-sync: Flush what is not yet on the device\n"
    return text
