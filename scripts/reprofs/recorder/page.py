"""The summary of `reprofs record`: what was recorded, how it replays, and what can still be recognised."""

from __future__ import annotations

import textwrap
from collections import Counter
from dataclasses import dataclass, field

from reprofs.errors import count
from reprofs.plan.recording import LONGEST_PATH, Content, Recording
from reprofs.recorder.follow import Follower
from reprofs.recorder.retell import Reader
from reprofs.recorder.tasks import Elsewhere

WIDTH = 100
UMASK = 0o022  # of strace's text, where no call tells it
# What is said of a thing that was seen, and what is counted of it.
SAID = {
    "io_uring": (
        "time",
        "It asked for io_uring {n}, and was told that there is none: programs then make calls. Without "
        "being recorded it may use io_uring.",
    ),
    "32-bit calls": ("call", "As a 32-bit program it made {n}: such calls are not followed."),
    "setuid": (
        "program",
        "It started {n} with the rights of another user (setuid), which were not given: a recorded "
        "program gets no rights. If it failed for that, record it as that user.",
    ),
    "ptrace": (
        "time",
        "It called ptrace {n}, which fails while it is recorded: a debugger or strace inside it did not work.",
    ),
    "unknown calls": ("call", "It made {n} unknown here, on no open file or path that was seen to be below the roots."),
}

TOO_LONG = f"had more than {LONGEST_PATH:,} bytes, too many for a recording"
LISTED = "It visited most files in the order in which the file system listed them. "
FOLLOWS = (
    "Each file system lists in an order of its own, in which the replay visits them there. What a rotating disk takes "
    "for short cold reads depends on the moment at which they begin, so there they rank no file systems."
)
STAYS = (
    "Each file system lists in an order of its own, and the replay keeps that of the recording: on rotating disks its "
    "cold reads rank no file systems."
)


@dataclass
class Facts:
    """What a page says. differing: calls whose result was another one when the recording was tried; tree: what was
    wrong with the tree after them (a sentence), empty for as recorded; code: exit code of the program."""

    name: str
    content: Content
    code: int
    said: Counter
    endings: set[str]
    size: int = 0
    differing: list[int] = field(default_factory=list)
    tree: str = ""
    untried: str = ""  # why it was not replayed here
    unread: str = ""  # why the tree after the program could not be read
    special: int = 0
    deep: tuple[int, int] = (0, 0)  # entries before and after whose paths are too long for a recording
    memory: bool = False  # a root is in memory
    calls_ns: int = 0  # what its calls took when they were replayed here, caches warm, without the last flush
    elsewhere: Elsewhere = field(default_factory=Elsewhere)
    lacks: list[str] = field(default_factory=list)  # why the text of strace is less than the program
    assumed: list[str] = field(default_factory=list)  # sentences about what the text of strace does not tell

    def problems(self) -> list[str]:
        """Why the recording is less than the program, without names; empty at full coverage."""
        head = self.content.head
        left = sum(head.left_out.values())
        differing = count(len(self.differing), "result was another", "results were others")
        special = count(self.special, "device, socket or FIFO is", "devices, sockets or FIFOs are")
        return [
            *([f"{count(left, 'call is', 'calls are')} left out"] if left else []),
            *([f"{differing} when it was tried"] if self.differing else []),
            *([self.tree] if self.tree else []),
            *(["it could not be replayed here"] if self.untried else []),
            *([f"the tree after the program could not be read ({self.unread})"] if self.unread else []),
            *(["it was ended when its time was over"] if head.ended else []),
            *([f"it exited with code {self.code}"] if self.code and not head.ended else []),
            *self.lacks,
            *([f"{special} not in its tree"] if self.special else []),
            *([f"{count(self.deep[0], 'path', 'paths')} of its tree {TOO_LONG}"] if self.deep[0] else []),
            *(
                [f"{count(self.deep[1], 'path', 'paths')} after it {TOO_LONG}, so trees are not compared"]
                * bool(self.deep[1])
            ),
            *(["its folder is in memory: inodes and folders have another order on a disk"] if self.memory else []),
        ]


def order_of(head: Recording) -> str:
    """The note on a program that visits files in listing order; empty for other programs."""
    return LISTED + (FOLLOWS if head.follows_listings else STAYS) if head.in_listing_order else ""


def text(facts: Facts) -> str:
    """The page."""
    head = facts.content.head
    replayed = head.calls - sum(1 for line in facts.content.calls if line[0] == "touch")
    left = sum(head.left_out.values())
    below = replayed + left
    share = 100 * replayed / below if below else 0
    lines = [
        f"Recording {facts.name}: {count(below, 'call')} below the roots, by {count(head.threads, 'thread')}.",
        f"  replayed   {replayed:>10,}  {share:.2f} %",
        f"  left out   {left:>10,}",
        *(f"    {number:>10,}  {kind}" for kind, number in sorted(head.left_out.items(), key=lambda one: -one[1])),
        f"  outside    {head.outside:>10,}  on other folders and on what is no file, not recorded",
        "",
        *_kinds(facts),
        "",
    ]
    others = Counter(facts.content.calls[number][0] for number in facts.differing)
    other = f" (others: {', '.join(f'{kind} {n:,}' for kind, n in others.most_common())})" if others else ""
    tried = f"{head.calls - len(facts.differing):,} of {count(head.calls, 'result')} as recorded{other}"
    seen = facts.tree or (facts.content.after and not facts.assumed)
    told = f"; the tree after it was {'not ' * bool(facts.tree)}as recorded" if seen else ""
    lines += _wrapped(facts.untried or f"It was replayed here once: {tried}{told}.")
    if problems := facts.problems():
        lines += _wrapped(f"It is incomplete: {'; '.join(problems)}.")
    elsewhere = [f"It {facts.elsewhere}: these are not replayed. --below records another folder, too."]
    for sentence in [*facts.assumed, *elsewhere * bool(facts.elsewhere.paths)]:
        lines += _wrapped(sentence)
    for kind, number in facts.said.items():
        noun, sentence = SAID[kind]
        lines += _wrapped(sentence.format(n=count(number, noun)))
    if shared := sum(line[0] == "clone" and (line[1] or 0) < 0 for line in facts.content.calls):
        lines += _wrapped(
            f"It asked {count(shared, 'time')} to share blocks, which failed here, and went on otherwise. Where blocks "
            "can be shared (Btrfs, XFS) the program does less than its replay: record it on such a file system, too."
        )
    lines += _wrapped(order_of(head)) if head.in_listing_order else []
    lines += _wrapped(_recognisable(facts))
    lines += _wrapped(
        "Its time will be the time of the file-system calls of your program, not of your program: what it computed and "
        "waited for is not in it."
    )
    return "\n".join(lines) + "\n"


def assumed(reader: Reader, follower: Follower, guesses: tuple[int, int, int], umask: int | None) -> list[str]:
    """What is said of a recording of strace's text. guesses: of Before.guesses; umask: None if no call told it."""
    sizes, modes, _ = guesses
    found = [
        "strace does not tell the tree before: it is what the calls need to be as they were, and what nothing named is "
        f"not in it. Of it {count(sizes, 'file has', 'files have')} the size that was used of it, "
        f"{count(modes, 'entry has', 'entries have')} a usual mode. The tree after is what the replay here made."
    ]
    if reader.mappings:
        found.append(
            f"It mapped {count(reader.mappings, 'file')} into memory ({reader.mapped_bytes / 1e6:,.1f} MB). strace "
            "does not tell which pages were used: the replay uses all, and writes those that it may."
        )
    if follower.opened:
        found.append(
            f"It used {count(follower.opened, 'file')} that it was not seen to open: the replay opens each before its "
            "first use."
        )
    if umask is None:
        found.append(f"No call told the umask; it is taken to be {UMASK:03o}.")
    return found


def _kinds(facts: Facts) -> list[str]:
    counts = Counter(line[0] for line in facts.content.calls)
    return _wrapped("By kind: " + ", ".join(f"{kind} {number:,}" for kind, number in counts.most_common()) + ".")


def _recognisable(facts: Facts) -> str:
    head = facts.content.head
    endings = f"the endings {', '.join(sorted(facts.endings))}" if facts.endings else "no ending of a name"
    before = count(head.before, "entry", "entries")
    return (
        f"The file has {facts.size / 1e6:.2f} MB and holds no name, content, argument, attribute, user or host. Who "
        f"knows a tree can still recognise it: kept are {before} before and {head.after:,} after with "
        f"their sizes, modes, depths and lengths of names, {endings}, the order, place and length of every call, the "
        "file system's kind and the kernel's version."
    )


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, break_on_hyphens=False)
