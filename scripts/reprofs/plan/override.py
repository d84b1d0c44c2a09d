"""Runs a study in another lab, on other devices or in other directories."""

import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from reprofs.errors import UserError, short
from reprofs.plan.catalog import Catalog
from reprofs.plan.filesystem import Filesystem
from reprofs.plan.study import PlannedStudy

AS_FOUND = "as-found"  # the profile of directories that were there before
PLACES = "mount"  # the lab that takes directories
NAME_MAX = 100  # characters of the name of a study, which is part of many paths


@dataclass(frozen=True)
class Override:
    """What takes the place of the study's own labs, profiles and file systems; empty: nothing.

    where: existing directories, which are compared in the lab mount; clients: machines on which its clients run.
    """

    lab: str = ""
    profile: str = ""
    where: tuple[str, ...] = ()
    clients: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.lab or self.profile or self.where)

    def __str__(self) -> str:
        """As it is written after `make report STUDY=NAME`."""
        given = {"LAB": self.lab, "PROFILE": self.profile, "WHERE": ",".join(self.where)}
        given["CLIENTS"] = ",".join(self.clients)
        return " ".join(f"{key}={value}" for key, value in given.items() if value)

    def named(self, study: str) -> str:
        """The name of the study with this override: its records, tables and report are apart from the study's own."""
        if not self:
            return study
        parts = [self.lab] if self.lab else []
        parts += [f"profile-{self.profile}"] if self.profile else []
        own = [*map(place_name, self.where)]
        own += ["on-" + re.sub(r"[^a-z0-9.]+", "-", "-".join(self.clients).lower())] if self.clients else []
        name = "+".join([study, *parts, *own])
        if len(name) > NAME_MAX:
            text = "\n".join([*self.where, *(["", *self.clients] if self.clients else [])])
            name = "+".join([study, *parts, hashlib.sha256(text.encode()).hexdigest()[:12]])
        return name


def override(lab: str = "", profile: str = "", where: str = "", clients: str = "") -> Override:
    """The override that a command line gives; where: directories, clients: machines, with commas between them.

    Raises UserError for directories that cannot be used, and for values that do not go together.
    """
    if lab == PLACES:
        if not where:
            raise UserError("LAB=mount needs the directories to compare: add WHERE=/mnt/one,/mnt/two.")
        if profile:
            raise UserError(f"the lab mount uses devices as they are: leave PROFILE={short(profile)} out.")
    elif where:
        raise UserError(f"WHERE={short(where)} works only with LAB=mount: add it.")
    if clients and not where:
        raise UserError(f"CLIENTS={short(clients)} needs shared directories: add LAB=mount and WHERE=.")
    machines = tuple(clients.split(",")) if clients else ()
    return Override(lab, profile, _directories(where.split(",")) if where else (), machines)


def _directories(given: Sequence[str]) -> tuple[str, ...]:
    found: dict[tuple[int, int], str] = {}
    for text in given:
        path = Path(text).expanduser()
        if not text or not path.is_absolute():
            raise UserError(f"WHERE: {short(text)} is not an absolute path: begin it with /.")
        if not path.is_dir():
            what = "is not a directory" if path.exists() else "does not exist"
            raise UserError(f"WHERE: {short(text)} {what}: mount it, or correct the path.")
        if not os.access(path, os.W_OK | os.X_OK):
            raise UserError(
                f"WHERE: {short(text)} is not writable: get write permission, mount it writable, or choose one in it."
            )
        state = path.stat()
        same = found.setdefault((state.st_dev, state.st_ino), text)
        if same is not text:
            raise UserError(f"WHERE: {short(text)} and {short(same)} are the same directory: leave one out.")
    return tuple(os.path.normpath(Path(text).expanduser()) for text in given)


def place_name(path: str) -> str:
    """The name of a directory as a file system; no two paths have the same."""
    name = re.sub(r"[^a-z0-9.]+", "-", path.lower()).strip("-.")[:40] or "root"
    if path == "/" + name.replace("-", "/"):
        return name
    return f"{name}-{hashlib.sha256(path.encode()).hexdigest()[:8]}"


def add_places(catalog: Catalog, where: Sequence[str], clients: Sequence[str] = ()) -> None:
    """Makes directories known as file systems. Raises UserError for names of clients that are none."""
    for path in where:
        catalog.add(
            Filesystem,
            place_name(path),
            {
                "title": path,
                "home": "https://docs.kernel.org/filesystems/",
                "role": "contender",
                "path": path,
                **({"clients": {"hosts": [*clients]}} if clients else {}),
                "variants": {"default": {"title": "as it is mounted here"}},
            },
        )


def overridden(study: PlannedStudy, change: Override) -> PlannedStudy:
    """The study with its labs, profiles or file systems replaced; its key override says by what."""
    made = study.as_json()
    new = {"labs": [change.lab] if change.lab else None, "profiles": [change.profile] if change.profile else None}
    if change.where:
        names = [place_name(path) for path in change.where]
        new |= {"filesystems": names, "stacks": ["single"], "profiles": [AS_FOUND]}
    if change.lab and (given := [entry for entry in made.get("cells", []) if entry.get("labs") == [change.lab]]):
        made["cells"] = given  # the study itself says what runs there
    own = {}
    for key, value in new.items():
        places = [made, *made.get("cells", [])]
        own[key] = sorted({name for place in places for name in place.get(key, [])})
        if value is None:
            continue
        for place in places:
            place.pop(key, None)
        made[key] = value
    # Verdicts and factors belong to the labs that the study names.
    for key in ("expected", "ratios", *(("published", "stands_in") if change.where else ())):
        made.pop(key, None)
    for entry in made.get("cells", []):
        entry.pop("factor", None)
    made["name"] = change.named(study.name)
    made["override"] = {"text": str(change), "own": {key: names for key, names in own.items() if names}}
    return PlannedStudy.model_validate(made)
