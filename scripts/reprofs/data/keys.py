"""The keys of the tables' rows, as named tuples whose fields are the columns, and the selection of rows by them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    import pandas as pd


class Setting(NamedTuple):
    """Where trials ran: numbers of one setting may be compared directly."""

    lab: str
    stack: str
    profile: str

    def __str__(self) -> str:
        return f"lab {self.lab}, stack {self.stack}, device profile {self.profile}"


class Load(NamedTuple):
    """A workload at a scale."""

    workload: str
    scale: str

    def __str__(self) -> str:
        return f"{self.workload} ({self.scale})"


class Operation(NamedTuple):
    """A measured phase of a workload."""

    workload: str
    scale: str
    phase: str
    cache: str


class Place(NamedTuple):
    """Where stacks are compared: one lab, device profile and workload at a scale."""

    lab: str
    profile: str
    workload: str
    scale: str

    def __str__(self) -> str:
        return f"{self.workload} ({self.scale}), lab {self.lab}, device profile {self.profile}"


class Pair(NamedTuple):
    """Two labs that ran the same trials."""

    a: str
    b: str
    stack: str
    profile: str


SETTING, OPERATION, PLACE, PAIR = (list(kind._fields) for kind in (Setting, Operation, Place, Pair))
Kind = TypeVar("Kind", Setting, Load, Operation, Place, Pair)


def select(frame: pd.DataFrame, *keys: NamedTuple, **more: object) -> pd.DataFrame:
    """The rows whose columns have the values of all these named tuples and keywords."""
    wanted = {name: value for key in keys for name, value in key._asdict().items()} | more
    return frame[(frame[list(wanted)] == list(wanted.values())).all(axis=1)]


def natural(text: str) -> tuple:
    """A key to sort names by, numbers in them by their value: metadata@2000 before metadata@10000."""
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", text))


def distinct(frame: pd.DataFrame, kind: type[Kind]) -> list[Kind]:
    """The distinct keys of this kind in a frame, sorted."""
    found = [kind(*row) for row in set(frame[list(kind._fields)].itertuples(index=False, name=None))]
    return sorted(found, key=lambda key: tuple(map(natural, key)))
