"""The keys of the tables' rows, as named tuples whose fields are the columns, and the selection of rows by them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

if TYPE_CHECKING:
    import pandas as pd


class Setting(NamedTuple):
    """Where trials ran: numbers of one setting may be compared directly."""

    lab: str
    stack: str
    profile: str

    def __str__(self) -> str:
        return f"lab {self.lab}, stack {self.stack}, device model {self.profile}"


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
        return f"{self.workload} ({self.scale}), lab {self.lab}, device model {self.profile}"


class Pair(NamedTuple):
    """Two labs that ran the same trials."""

    a: str
    b: str
    stack: str
    profile: str


class Configuration(NamedTuple):
    """A file system with its variant on a stack."""

    stack: str
    label: str


class Phase(NamedTuple):
    """A phase of a workload in a cache state."""

    phase: str
    cache: str


KINDS = (Setting, Operation, Place, Pair, Configuration, Phase)
SETTING, OPERATION, PLACE, PAIR, CONFIGURATION, PHASE = (list(kind._fields) for kind in KINDS)
Kind = TypeVar("Kind", Setting, Load, Operation, Place, Pair, Configuration, Phase)


def select(frame: pd.DataFrame, *keys: NamedTuple, **more: object) -> pd.DataFrame:
    """The rows whose columns have the values of these named tuples and keywords; may be empty."""
    wanted = {name: value for key in keys for name, value in key._asdict().items()} | more
    chosen = np.ones(len(frame), bool)
    for name, value in wanted.items():  # one after the other: pandas takes four times as long for all at once
        chosen &= frame[name].eq(value).to_numpy(bool, na_value=True)
    return frame[chosen]


def natural(text: str) -> tuple:
    """A key to sort names by, numbers in them by their value: metadata@2000 before metadata@10000."""
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", text))


def planned(trials: pd.DataFrame) -> list[tuple[Setting, Load]]:
    """Setting and load of all these trials, sorted."""
    return [
        (setting, load) for setting in distinct(trials, Setting) for load in distinct(select(trials, setting), Load)
    ]


def distinct(frame: pd.DataFrame, kind: type[Kind]) -> list[Kind]:
    """The distinct keys of this kind in a frame, sorted."""
    found = [kind(*row) for row in set(frame[list(kind._fields)].itertuples(index=False, name=None))]
    return sorted(found, key=lambda key: tuple(map(natural, key)))
