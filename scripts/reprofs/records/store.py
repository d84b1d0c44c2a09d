"""Where a trial's record is found by its identity, so that what was measured is not measured again.

Layers: the cache of this machine, which gets every record that a run makes, and `results/`, what is published, which
is only looked into when asked. Of exact labs alone, and of trials that ended well: another may have failed for a reason
of its host.
"""

from __future__ import annotations

import contextlib
import io
import json
import lzma
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from reprofs.errors import UserError
from reprofs.files import Unpacking, cache_folder, write_bytes, write_text
from reprofs.plan.result import DIGESTS
from reprofs.project import place
from reprofs.records import publication
from reprofs.records.identity import of, parts_of
from reprofs.records.raw import broken, seal

CACHE = "cache"  # the origin of what this machine has measured
ORIGIN = ".origin"  # suffix of the file beside a record that says where it was taken from
CHECKED = ", run again"  # after an origin: the trial was run besides, and measured the same


class Found(NamedTuple):
    """A record, and where it is from: CACHE or results/NAME."""

    record: dict[str, Any]
    origin: str


def get(identity: str, in_results: bool, committed: bool = False) -> Found | None:
    """The record of this identity; None where there is none. in_results: whether to look into `results/`, too.

    committed: not one that was measured with uncommitted changes, which cannot be published. Raises UserError for a
    published result that was altered.
    """
    if not identity:
        return None
    try:
        with io.BufferedReader(Unpacking(_file(identity), publication.RECORD)) as packed:
            record = json.loads(packed.read())
        if _sound(record, identity) and not (committed and record["environment"]["commit"].endswith("+")):
            return Found(record, CACHE)
    except (OSError, lzma.LZMAError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        pass  # not there, or damaged: it is measured again, and written anew
    if not in_results:
        return None
    for file in sorted(place("results").glob(f"*/{DIGESTS}")):
        if identity.encode() in publication.digests(
            file.parent
        ):  # to parse those of all results takes longer than the rest
            result = publication.read(file.parent)
            name = next((name for name, trial in result.trials.items() if trial.identity == identity), "")
            if name and result.trials[name].status == "ok":
                return Found(publication.record_of(file.parent, result, name), f"results/{result.study}")
    return None


def put(record: dict[str, Any]) -> None:
    """Keeps a record that a trial has just written, if it has an identity and the trial ended well."""
    if record["status"] == "ok" and (identity := of(parts_of(record))):
        with contextlib.suppress(UserError):  # the cache may be full or read-only; the run has its record
            write_bytes(_file(identity), lzma.compress(json.dumps(record, ensure_ascii=False).encode(), preset=1))


def renamed(record: dict[str, Any], names: Mapping[str, Any]) -> dict[str, Any]:
    """The record as that of a trial with these names: in another study its round may have another number."""
    return record if record["trial"] == names else seal(record | {"trial": dict(names)})


def note(output: Path, origin: str) -> None:
    """Writes the origin of the record `output` next to it; nothing if the trial was run."""
    write_text(output.with_suffix(ORIGIN), f"{origin}\n")


def origins(raw: Path, trials: list[str]) -> dict[str, dict[str, int]]:
    """Of the trials of these names that were not run but taken: where from -> how many (taken), and how many of these
    were run besides (checked)."""
    found: dict[str, dict[str, int]] = {}
    for trial in trials:
        with contextlib.suppress(OSError):
            origin = (raw / f"{trial}{ORIGIN}").read_text().strip()
            if origin:
                own = found.setdefault(origin.removesuffix(CHECKED), {"taken": 0, "checked": 0})
                own["taken"] += 1
                own["checked"] += origin.endswith(CHECKED)
    return found


def _file(identity: str) -> Path:
    return cache_folder() / "records" / identity[:2] / f"{identity}.json.xz"


def _sound(record: dict[str, Any], identity: str) -> bool:
    return record["status"] == "ok" and not broken(record) and of(parts_of(record)) == identity
