"""Shows which labs, file systems and stacks work on this machine, and what the others need.

No trial is run: each lab is asked what it would refuse. So `yes` means that no obstacle is known.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass, field

from reprofs import labs
from reprofs.errors import UserError
from reprofs.plan.catalog import Catalog
from reprofs.plan.cell import Cell
from reprofs.plan.device import Device
from reprofs.plan.filesystem import Filesystem
from reprofs.plan.stack import Layer
from reprofs.plan.stack import resolve as resolve_stack
from reprofs.plan.workload import Workload
from reprofs.trial.resolve import resolve
from reprofs.trial.run import obstacle

WIDTH = 120
COLUMN = 22
APART = "-"  # this file system or stack is not meant for that lab


@dataclass
class Findings:
    """The answers, and the numbered notes below the tables; a repeated sentence keeps its number."""

    works: bool = False
    notes: list[str] = field(default_factory=list)

    def answer(self, reason: str) -> str:
        """`yes` without a reason; otherwise `no`, what is missing if that fits, and the number of the note."""
        if not reason:
            return "yes"
        sentence = reason[:1].upper() + reason[1:].rstrip(".") + "."
        if sentence not in self.notes:
            self.notes.append(sentence)
        missing = re.search(r"\b(?:has no (?:command|package|module)|is no) ([\w.+-]*\w)", sentence)
        short = f"no {missing[1]}" if missing and len(missing[1]) < COLUMN - 9 else "no"
        return f"{short} [{self.notes.index(sentence) + 1}]"


class Lab:
    """A lab on this machine, opened once for each guest and path. reason: why it cannot run, or empty."""

    def __init__(self, name: str, profiles: dict[str, Device]):
        self.name, self.kind = name, labs.get_lab(name)
        self._opened: dict[tuple[str, str], tuple] = {}
        opened, self.reason = self.open()
        refused = {profile: opened.obstacle([], [], [], data) for profile, data in profiles.items()} if opened else {}
        # No lab takes every profile: only if all are refused is that an obstacle of the lab itself.
        self.profile = next((profile for profile, reason in refused.items() if not reason), next(iter(profiles), ""))
        if opened and all(refused.values()):
            self.reason = next(iter(refused.values()), "there is no device profile in workflow/devices: add one")

    def open(self, guest: str = "base", path: str = ".") -> tuple:
        """(lab, "") or (None, why it cannot be opened)."""
        if (guest, path) not in self._opened:
            try:
                self._opened[guest, path] = (self.kind.open(guest=guest, path=path), "")
            except UserError as error:
                self._opened[guest, path] = (None, str(error))
        return self._opened[guest, path]


def names() -> list[str]:
    """The names of all labs, the exact one first."""
    return sorted(labs.names(), key=lambda name: (not labs.get_lab(name).exact, name))


def examine(catalog: Catalog, lab_names: list[str] | None = None) -> tuple[str, bool]:
    """The report as text, in lines of at most 120 characters, and whether any lab works.

    Raises UserError for a descriptor that does not fit its schema.
    """
    profiles = {name: catalog.get(Device, name) for name in catalog.paths(Device)}
    found, known = Findings(), [Lab(name, profiles) for name in lab_names or names()]
    lines = ["Labs"]
    for lab in known:
        answer = found.answer(lab.reason)
        found.works |= answer == "yes"
        clock = {"instructions": "counted instructions", "wall": "real time"}[lab.kind.clock]
        lines.append(f"  {lab.name:28}{answer:{COLUMN}}{clock}")
    lines += _table(
        "File systems", catalog.paths(Filesystem), known, lambda name, lab: _filesystem(name, lab, catalog, found)
    )
    lines += _table("Stacks", catalog.paths(Layer), known, lambda name, lab: _stack(name, lab, catalog, found))
    lines += ["", f"yes: no known obstacle.  {APART}: not meant for that lab."]
    for number, note in enumerate(found.notes, 1):
        head = f"[{number}] "
        lines += textwrap.wrap(note, WIDTH, initial_indent=head, subsequent_indent=" " * len(head))
    return "\n".join(lines), found.works


def _table(title: str, rows, known: list[Lab], cell) -> list[str]:
    lines = ["", f"{title:30}" + "".join(f"{lab.name:{COLUMN}}" for lab in known)]
    lines += [f"  {row:28}" + "".join(f"{cell(row, lab):{COLUMN}}" for lab in known) for row in rows]
    return [line.rstrip() for line in lines]


def _filesystem(name: str, lab: Lab, catalog: Catalog, found: Findings) -> str:
    filesystem = catalog.get(Filesystem, name)
    if bool(filesystem.path) == lab.kind.provisions or (filesystem.labs and lab.name not in filesystem.labs):
        return APART
    return found.answer(_reason(name, filesystem.simplest_stack(), lab, catalog))


def _stack(name: str, lab: Lab, catalog: Catalog, found: Findings) -> str:
    if not lab.kind.provisions:
        return APART
    try:
        own = resolve_stack(name, catalog).filesystem
    except UserError as error:
        return found.answer(str(error))
    candidates = [own] if own else [fs for fs in catalog.paths(Filesystem) if _takes_any_stack(fs, lab, catalog)]
    # One file system that works is enough: only an obstacle that all of them meet is the stack's.
    reasons = [_reason(fs, name, lab, catalog) for fs in candidates]
    return found.answer("" if "" in reasons else next(iter(reasons), "no file system of this checkout uses devices"))


def _takes_any_stack(name: str, lab: Lab, catalog: Catalog) -> bool:
    filesystem = catalog.get(Filesystem, name)
    usable = filesystem.device and not filesystem.path and not filesystem.unavailable
    return usable and filesystem.guest == "base" and lab.name in (filesystem.labs or [lab.name])


def _suits(workload: Workload, filesystem: Filesystem) -> bool:
    """A stack with a fault can have it too, and it asks for nothing else; of the device or network itself if that is
    meant.
    """
    if workload.raw != filesystem.raw or workload.network != (filesystem.raw and bool(filesystem.hosts)):
        return False
    return workload.raw or (bool(workload.populate) and not workload.packages)


def _reason(name: str, stack: str, lab: Lab, catalog: Catalog) -> str:
    """Why the lab cannot run this file system on this stack (one sentence), or an empty string."""
    filesystem = catalog.get(Filesystem, name)
    if lab.reason or filesystem.unavailable:
        return filesystem.unavailable or lab.reason
    opened, reason = lab.open(filesystem.guest, filesystem.path or ".")
    if reason:
        return reason
    workloads = (catalog.get(Workload, workload) for workload in catalog.paths(Workload))
    cell = Cell(
        lab=lab.name,
        stack=stack,
        profile=lab.profile,
        filesystem=name,
        variant=next(iter(filesystem.variants)),
        workload=next(workload.name for workload in workloads if _suits(workload, filesystem)),
        scale="smoke",
    )
    try:
        return obstacle(resolve(cell, catalog), opened)
    except UserError as error:
        return str(error)
