"""results/LOG: what was published, one line each, in order; each line has the digest of the line before.

    DATE NAME DIGEST-OF-DIGESTS.JSON DIGEST-OF-THE-LINE-BEFORE

So nothing published is altered or removed in silence: the chain would break, or git's history shows that LOG was not
only appended to. After a merge conflict keep all lines that upstream has, as they are there, remove those that were
never published, and run `reprofs publish NAME --records` for each of these: it appends them anew.
"""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from reprofs import version
from reprofs.errors import UserError
from reprofs.files import sha256, write_text
from reprofs.plan.result import DIGESTS
from reprofs.project import place, project_root

LOG = "results/LOG"
START = "0" * 64  # what the first line has of a line before
LINE = re.compile(r"(\d{4}-\d\d-\d\d) ([\w.+@-]{1,64}) ([0-9a-f]{64}) ([0-9a-f]{64})")


class Line(NamedTuple):
    """One publication. before: the digest of the line before."""

    date: str
    name: str
    digest: str
    before: str

    def __str__(self) -> str:
        return " ".join(self)


def lines() -> list[Line]:
    """The lines of the log of this checkout; none where it has no log. Raises UserError where the chain is broken."""
    file, found, before = place(LOG), [], START
    if not file.is_file():
        return []
    for number, text in enumerate(file.read_text(errors="replace").splitlines(), 1):
        parts = LINE.fullmatch(text)
        if not parts or parts[4] != before:
            raise UserError(
                f"{file}, line {number}: it does not follow from the line before, so the log was altered: restore it "
                "from git's history."
            )
        found.append(Line(*parts.groups()))
        before = hashlib.sha256(text.encode()).hexdigest()
    return found


def append(folder: Path) -> None:
    """Appends the publication of results/NAME, unless it is the last of this name. Raises UserError like `lines`."""
    known, digest = lines(), sha256(folder / DIGESTS)
    if digest == _last(known, folder.name):
        return
    before = hashlib.sha256(str(known[-1]).encode()).hexdigest() if known else START
    line = Line(datetime.now(UTC).date().isoformat(), folder.name, digest, before)
    write_text(place(LOG), "".join(f"{one}\n" for one in [*known, line]))


def _last(known: list[Line], name: str) -> str:
    return next((line.digest for line in reversed(known) if line.name == name), "")


def standing(folder: Path, name: str) -> tuple[bool, str]:
    """(whether the log does not contradict it, what it says of the result `name` in a folder).

    Raises UserError like `lines`.
    """
    known, digest = lines(), sha256(folder / DIGESTS)
    last = _last(known, name)
    number, line = next(((n, line) for n, line in enumerate(known, 1) if line.digest == digest), (0, None))
    own = folder.resolve() == place(f"results/{name}").resolve()
    if not known:
        return True, f"there is no {LOG} here, so nothing says that it was published"
    if line and (digest == last or not own):
        later = "" if digest == last else "; a later line has another digest of this name"
        return True, f"{LOG}, line {number}: published as {line.name} on {line.date}{later}; {_signed(line)}"
    if own:
        return False, f"{LOG}: the last line of {name} has another digest than {DIGESTS}: this result was altered"
    return True, f"{LOG} has no line of it: it was not published here" + (f", but another {name} was" if last else "")


def _signed(line: Line) -> str:
    """Which signed tag has a line of the log."""
    root = project_root()
    if not version.commit():
        return "there is no git here to look for a signature"
    tags = version.git(root, "tag", "--merged", "HEAD", "--sort=creatordate").stdout.decode(errors="replace").split()
    for tag in tags:
        text = version.git(root, "show", f"refs/tags/{tag}:{LOG}").stdout.decode(errors="replace")
        if str(line) in text.splitlines() and not version.git(root, "verify-tag", tag).returncode:
            return f"the tag {tag}, whose signature git accepts, has this line"
    return "no signed tag has this line"
