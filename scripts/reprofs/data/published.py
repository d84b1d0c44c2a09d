"""The tables of a published result, computed from its records at first use and cached."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
from pathlib import Path

from reprofs.data.columns import dictionary
from reprofs.data.tables import build
from reprofs.errors import UserError
from reprofs.files import cache_folder
from reprofs.plan.result import DIGESTS
from reprofs.project import place
from reprofs.records import publication
from reprofs.workplace import scratch


def holding(trial: re.Pattern) -> list[str]:
    """The names of the published results that have an ok trial whose name matches, sorted.

    Raises UserError for an altered result.
    """
    found = []
    for file in sorted(place("results").glob(f"*/{DIGESTS}")):
        if any(map(trial.fullmatch, publication.said(file.parent).trials)):  # cheaper than to check all files
            result = publication.read(file.parent)
            ok = [name for name, one in result.trials.items() if one.status == "ok"]
            found += [result.study] * any(map(trial.fullmatch, ok))
    return found


def tables(name: str) -> Path | None:
    """The folder with the tables of results/NAME; None if there is no such result. Raises UserError for an altered one.

    Beside it are its plan (plan.json) and the profiles of its trials (tables-profiles), where `reprofs.open` looks.
    """
    folder = place("results") / name
    if not os.path.lexists(folder / DIGESTS):
        return None
    columns = hashlib.sha256(repr(dictionary()).encode()).hexdigest()[:8]  # other columns are other tables
    digest = hashlib.sha256(publication.digests(folder)).hexdigest()[:16]
    kept = cache_folder() / "published" / f"{digest}-{columns}" / "tables"
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        with kept.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not kept.with_name("plan.json").is_file():
                with scratch(cache_folder() / "work") as work:
                    publication.unpack(folder, publication.read(folder), work)
                    with publication.as_of(folder, work):
                        build(work / "plan.json", work / "raw", kept)
                    profiles = kept.with_name("tables-profiles")
                    if (work / "profiles").is_dir() and not profiles.exists():
                        (work / "profiles").rename(profiles)
                    (work / "plan.json").rename(kept.with_name("plan.json"))
    except OSError as error:
        raise UserError(
            f"{kept.parent} cannot be written: {error.strerror}; free space, or set REPROFS_CACHE to another folder."
        ) from None
    return kept
