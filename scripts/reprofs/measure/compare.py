"""Two records of measured programs: what differs, and which rows are slower."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from reprofs.errors import UserError, short
from reprofs.plan.measured import Measured, Row

# What must be equal for times to be compared, and what may differ besides the program and is said.
CONDITIONS = ("protocol", "cache", "lab", "cores")
SAID = ("command", "environment", "lock_sha256", "reprofs")


@dataclass(frozen=True)
class Pair:
    """The same file system and device in two records; None where one has it not. least: of a difference that counts."""

    key: tuple[str, str]
    base: Row | None
    now: Row | None
    least: float

    @property
    def ratio(self) -> float:
        """Time now over time before. Both rows have numbers."""
        assert self.base and self.base.numbers and self.now and self.now.numbers
        return self.now.numbers.time_ns / self.base.numbers.time_ns

    @property
    def verdict(self) -> str:
        """One word, or two."""
        if self.base is None or self.now is None:
            return "new" if self.base is None else "gone"
        if self.now.numbers is None or (_fails(self.now) and not _fails(self.base)):
            return "fails now" if not _fails(self.base) else "fails"
        if self.base.numbers is None:
            return "failed before"
        if self.base.measurement == self.now.measurement or self.ratio == 1:
            return "equal"
        change = round(self.ratio - 1, 12)  # 1.001 - 1 is less than 0.001
        if change >= self.least:
            return "slower"
        return "faster" if -change >= self.least else "within"

    @property
    def worse(self) -> bool:
        """Whether `--fail-above` is to fail."""
        return self.verdict in ("slower", "fails now", "gone")

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        sides = {"base": self.base, "now": self.now}
        numbers = {name: row.numbers.as_json() if row and row.numbers else None for name, row in sides.items()}
        ratio = self.ratio if all(numbers.values()) else None
        return {
            **dict(zip(("filesystem", "device"), self.key, strict=True)),
            "verdict": self.verdict,
            "ratio": ratio,
        } | numbers


def pairs(base: Measured, now: Measured, least: float) -> list[Pair]:
    """The rows of two records. least: share from which a difference counts. Raises UserError where none can be
    compared."""
    for key in CONDITIONS:
        was, is_now = getattr(base, key), getattr(now, key)
        if was != is_now:
            raise UserError(
                f"the records cannot be compared: {key} is {short(str(was))} in one and {short(str(is_now))} in the "
                "other: measure both alike."
            )
    rows = [{row.key: row for row in record.rows} for record in (base, now)]
    keys = dict.fromkeys([*rows[0], *rows[1]])
    found = [Pair(key, rows[0].get(key), rows[1].get(key), least) for key in keys]
    if not any(pair.base and pair.now for pair in found):
        raise UserError("the records have no file system and device in common: measure both on the same ones.")
    return found


def differences(base: Measured, now: Measured) -> list[str]:
    """What differs besides the program's files, as clauses."""
    return list(_differences(base, now))


def _differences(base: Measured, now: Measured) -> Iterator[str]:
    for key in SAID:
        was, is_now = getattr(base, key), getattr(now, key)
        if key == "environment" and was != is_now:
            changed = sorted(name for name in was.keys() | is_now.keys() if was.get(name) != is_now.get(name))
            yield f"environment variable {', '.join(changed[:5])}"
        elif was != is_now:
            yield {"command": "the command", "lock_sha256": "the guest's packages", "reprofs": "version of ReproFS"}[
                key
            ]


def _fails(row: Row) -> bool:
    return row.numbers is None or row.numbers.exit != 0
