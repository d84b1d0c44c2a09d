"""The seal of a raw record: digests by which the stages after the trial see whether it still is what the trial wrote.

They protect against accidents: an edit, a cut file, a flipped bit, a file in the place of another. Against intent there
is only one proof, which is to run the trial again: in the exact lab the digest of the measurement must be the same.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from reprofs.errors import UserError

LAYOUT = 2  # of the raw record, its key `schema`; raise when a reader must know
SET_ASIDE = "set-aside"  # folder beside the records of a study: those of trials that are to run again


def digest(value: object) -> str:
    """SHA-256, in hex, of a JSON value: keys sorted, no spaces, ASCII. Independent of how a file is laid out."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def seal(record: dict) -> dict:
    """The record with its key `digests`: of the measurement, and of the whole record without this key."""
    content = {key: value for key, value in record.items() if key != "digests"}
    return content | {"digests": {"measurement": digest(content["measurement"]), "record": digest(content)}}


def broken(record: dict) -> str:
    """What does not fit its digest: "measurement", "record" (anything else in it), or nothing."""
    right = seal(record)["digests"]
    return next((part for part in ("measurement", "record") if record["digests"][part] != right[part]), "")


def set_aside(raw: Path) -> list[str]:
    """Moves the records that are not ok, or no longer what their trial wrote, into a folder beside them.

    The next run of the study then makes them again. Nothing is lost: the report says how many were set aside, and the
    files keep their names and the second at which their trial started. Returns a line for each. Raises UserError when
    there are no records or they cannot be moved.
    """
    paths = sorted(raw.glob("*.json"))
    if not paths:
        raise UserError(f"{raw} has no records: run the study first.")
    said = []
    for path in paths:
        why, started = _not_ok(path)
        if not why:
            continue
        try:
            (raw / SET_ASIDE).mkdir(exist_ok=True)
            for file in (path.with_suffix(".console.log"), path):  # the record last: it is what a run looks for
                if file.exists():
                    file.rename(raw / SET_ASIDE / file.name.replace(path.stem, f"{path.stem}.{started}", 1))
        except OSError as error:
            raise UserError(f"{path} cannot be set aside: {error.strerror}; free space or change its rights.") from None
        said.append(f"{path.stem}: {why}")
    return said


def _not_ok(path: Path) -> tuple[str, str]:
    """Why a record should be made again (empty: it should not), and when its trial started, for a file's name."""
    try:
        record = json.loads(path.read_text())
        started = "".join(filter(str.isalnum, record["environment"]["started"]))
        if broken(record):
            return "changed after its trial", started
        return ("" if record["status"] == "ok" else f"{record['status']}: {record['reason']}"), started
    except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError):
        return "not a whole record of this version", f"{path.stat().st_mtime:.0f}"
