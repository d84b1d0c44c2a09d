"""Long histories of calls on one file system, drawn from a seed, with cuts of the power in all their states.

Each history is judged by a model of the calls: before any cut, and in every crash state (engine states). One that
breaks a guarantee is made as short as it can be. The same seed gives the same, so that `git bisect` works on it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from reprofs.errors import UserError
from reprofs.plan import sequences
from reprofs.plan.catalog import Catalog
from reprofs.plan.cell import Cell
from reprofs.trial import state
from reprofs.trial.resolve import resolve

AT_ONCE = 8  # histories of one start of the guest
KINDS = ("kind", "after")
# Of a call that a file system has not got; any other error of a possible call is a finding.
LACKING = (
    "Not supported",
    "Operation not supported",
    "Operation not permitted",
    "Function not implemented",
    "Invalid argument",
)


@dataclass(frozen=True)
class Finding:
    """The shortest history that breaks a guarantee as that of a seed does. at: the first of its states that shows it,
    None for what is wrong before any cut; runs: starts of the guest that shortening took."""

    seed: int
    calls: list[str]
    kind: str
    what: str
    at: int | None
    again: int | None
    runs: int


class Soak:
    """Histories on the file system of a cell of `state.WORKLOAD`. visited: states; without: verbs that it lacks."""

    def __init__(self, cell: Cell, catalog: Catalog, length: int) -> None:
        self.cell, self.catalog, self.length = cell, catalog, length
        self.before = sequences.read(state.SET)
        self.without: set[str] = set()
        self.visited = self.histories = 0
        self.maintenance = sorted(resolve(cell, catalog).filesystem.maintenance)

    def run(self, seed: int, until: float, say: Callable[[str], None]) -> Iterator[Finding]:
        """Findings of the seeds from this one on, until time.monotonic() is `until`; at least AT_ONCE histories.

        Raises UserError when the guest fails, with the seeds that it ran.
        """
        while True:
            seeds = range(seed, seed + AT_ONCE)
            rows = self._visit([self._history(one) for one in seeds], f"seeds {seeds[0]} to {seeds[-1]}")
            failed = [row["failed"].split(": ") for row in rows if row["failed"]]
            lacks = {verb for verb, why in failed if why in LACKING}
            if lacks:
                self.without |= lacks
                say(f"left out, since it has not got it: {', '.join(sorted(lacks))}")
                continue  # the same seeds, with other calls
            for one, row in zip(seeds, rows, strict=True):
                self.visited += row["states"]
                self.histories += 1
                if found := _broken(row):
                    yield self._shortest(one, found)
            say(f"seeds {seeds[0]} to {seeds[-1]}: {self.histories} histories, {self.visited:,} states")
            seed += AT_ONCE
            if time.monotonic() > until:
                return

    def _history(self, seed: int) -> list[str]:
        return sequences.random_history(self.before, seed, self.length, self.without, self.maintenance)

    def _visit(self, histories: list[list[str]], whose: str) -> list[dict]:
        text = "|".join(";".join(calls) for calls in histories)
        try:
            said = state.visit(state.setup_of(self.cell, text, [], self.catalog))
        except UserError as error:
            raise UserError(f"{whose}: {error}") from None
        return [json.loads(line) for line in said.splitlines()]

    def _shortest(self, seed: int, found: dict) -> Finding:
        """Leaves out calls as long as a guarantee is broken in the same way: halves, then ever smaller parts, then one
        after another (Zeller and Hildebrandt, Simplifying and Isolating Failure-Inducing Input, 2002)."""
        calls, runs, part = self._history(seed), 0, self.length // 2
        while part:
            shorter = False
            for start in range(0, len(calls), part):
                fewer = calls[:start] + calls[start + part :]
                if not fewer or not sequences.possible(self.before, fewer):
                    continue
                runs += 1
                (row,) = self._visit([fewer], f"seed {seed}, shortened")
                if again := _broken(row, found):
                    calls, found, shorter = fewer, again, True
                    break
            part = part if shorter and part <= len(calls) else part // 2
        at = None if found["kind"] in ("wrong", "failed") else found["at"]
        return Finding(seed, calls, found["kind"], found["what"], at, found.get("again"), runs)


def _broken(row: dict, like: dict | None = None) -> dict | None:
    """The first finding of a row that breaks a guarantee, in the same way as another one; or a call that fails."""
    failed = [{"kind": "failed", "after": True, "broken": True, "what": row["failed"]}] if row["failed"] else []
    same = (
        one for one in failed + row["findings"] if one["broken"] and (not like or all(one[k] == like[k] for k in KINDS))
    )
    return next(same, None)
