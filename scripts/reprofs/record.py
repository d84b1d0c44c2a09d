"""The seal of a raw record: digests by which the stages after the trial see whether it still is what the trial wrote.

They protect against accidents: an edit, a cut file, a flipped bit, a file in the place of another. Against intent there
is only one proof, which is to run the trial again: in the exact lab the digest of the measurement must be the same.
"""

from __future__ import annotations

import hashlib
import json

LAYOUT = 2  # of the raw record, its key `schema`; raise when a reader must know


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
