"""The numbers of a published study, data/published/NAME.csv: the file, its elapsed times, the value that a claim names.

Of published runs mostly the median alone is known.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from reprofs import project
from reprofs.data.keys import CONFIGURATION, PHASE, select
from reprofs.errors import UserError
from reprofs.plan.published import Value

FOLDER = "data/published"
SUBJECT = [*CONFIGURATION, *PHASE]  # what a time is of, published or measured: by these the two are joined
COLUMNS = {  # column of a file: whether it may be empty
    "place": False,
    "workload": True,
    "size": True,
    "stack": True,
    "label": False,
    "phase": False,
    "cache": False,
    "quantity": False,
    "unit": False,
    "n": True,
    "statistic": False,
    "value": False,
    **dict.fromkeys(("sd", "q1", "q3", "min", "max"), True),
    "origin": False,
    "note": True,
}
NUMBERS = ["value", "sd", "q1", "q3", "min", "max"]
SECONDS, NUMBER = {"s": 1.0, "min": 60.0, "h": 3600.0}, {"1": 1.0}
UNITS: dict[str, dict[str, float]] = {  # quantity: its units, and what one is in s, bytes or 1/s
    "time": SECONDS,
    "user": SECONDS,
    "system": SECONDS,
    "rate": {"MB/s": 1e6},
    "rate-min": {"MB/s": 1e6},
    "operations": {"1/s": 1.0},
    "size": {"TB": 1e12, "PB": 1e15, "TiB": 2.0**40, "EiB": 2.0**60},
    "share": NUMBER,
    "count": NUMBER,
    "rank": NUMBER,
    "period": NUMBER,
}
STATISTICS = ("median", "mean", "single", "middle")
ORIGINS = ("printed", "computed", "recovered", "corrected", "repeated")
NOT_NEW = ("recovered", "repeated")  # what other rows say already


def load(name: str) -> pd.DataFrame:
    """The published numbers of that name: COLUMNS, and si, sd_si (value and sd in s, bytes or 1/s).

    Empty where relations alone were published. Raises UserError naming the line.
    """
    path = project.place(FOLDER) / f"{name}.csv"
    if not path.exists() and path.with_suffix(".yaml").exists():  # what has relations alone
        return pd.DataFrame(columns=[*COLUMNS, "si", "sd_si"])
    try:
        frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read as a table: {error}.") from None
    if list(frame.columns) != list(COLUMNS):
        raise UserError(f"{path}: the columns are {', '.join(frame.columns)}, but must be {', '.join(COLUMNS)}.")
    frame = _checked(path, frame)
    scale = _scale(path, frame)
    twice = frame.index[frame.duplicated(["place", "size", *SUBJECT, "quantity", "statistic", "origin", "value"])]
    if len(twice):
        raise UserError(f"{path} line {twice[0] + 2}: an earlier line has this number of this cell.")
    return frame.assign(si=frame["value"] * scale, sd_si=frame["sd"] * scale)


def _checked(path: Path, frame: pd.DataFrame) -> pd.DataFrame:
    """The texts of a file, its numbers as numbers. Raises UserError."""
    for column, may_be_empty in COLUMNS.items():
        if not may_be_empty:
            _refuse(path, frame, column, frame[column] == "", "a value")
    for column in ("size", "n", *NUMBERS):
        values, empty = pd.to_numeric(frame[column], errors="coerce"), frame[column] == ""
        # A rank is 0 for the best; nothing else that is published here can be nothing.
        wrong = ~(empty | (values > 0) | ((values == 0) & (frame["quantity"] == "rank") & (column == "value")))
        _refuse(path, frame, column, wrong | (values == math.inf), "a number above zero")
        frame[column] = values
    for column, words in (("quantity", tuple(UNITS)), ("statistic", STATISTICS), ("origin", ORIGINS)):
        _refuse(path, frame, column, ~frame[column].isin(words), f"one of {', '.join(words)}")
    return frame


def _scale(path: Path, frame: pd.DataFrame) -> pd.Series:
    """What one of each row's unit is in s, bytes or 1/s. Raises UserError."""
    units = zip(frame["quantity"], frame["unit"], strict=True)
    scale = pd.Series([UNITS[quantity].get(unit, math.nan) for quantity, unit in units], frame.index, dtype=float)
    if scale.isna().any():
        known = UNITS[frame["quantity"][scale.isna()].iloc[0]]
        _refuse(path, frame, "unit", scale.isna(), f"one of {', '.join(known)} for this quantity")
    return scale


def _refuse(path: Path, frame: pd.DataFrame, column: str, wrong: pd.Series, must: str) -> None:
    if wrong.any():
        line = frame.index[wrong][0]
        raise UserError(f"{path} line {line + 2}: {column} is {frame[column][line] or 'empty'}, but must be {must}.")


def times(numbers: pd.DataFrame) -> pd.DataFrame:
    """The elapsed times among published numbers: size, SUBJECT, n, median_s, q1_s, q3_s, min_s, max_s, note.

    Several printed runs of one cell are one row, with their median, least and largest. Rows that only repeat a number,
    rows over all phases and those without a size are left out.
    """
    own = numbers[(numbers["quantity"] == "time") & ~numbers["origin"].isin(NOT_NEW) & numbers["size"].notna()]
    own = own[own["cache"].isin(("cold", "warm"))]
    unit = own["si"] / own["value"]
    own = own.assign(size=own["size"].astype(int), **{part: own[part] * unit for part in ("q1", "q3", "min", "max")})
    cells = own.groupby(["size", *SUBJECT], sort=False)
    found = cells.agg(
        n=("n", "sum"), median_s=("si", "median"), least=("si", "min"), most=("si", "max"),
        **{f"{part}_s": (part, "first") for part in ("q1", "q3", "min", "max")}, note=("note", "first"),
    )  # fmt: skip
    several = cells.size() > 1
    found[["q1_s", "q3_s"]] = found[["q1_s", "q3_s"]].mask(several)
    for column, end in (("min_s", "least"), ("max_s", "most")):
        found[column] = found[column].mask(several, found[end])
    found["n"] = found["n"].astype(int)
    return found.drop(columns=["least", "most"]).reset_index()


def nearest(known: Iterable[int], size: int) -> int:
    """The known size that is nearest to a size, by their ratio."""
    return min(set(known), key=lambda other: (abs(math.log(other / size)), other))


def told(numbers: pd.DataFrame, value: Value) -> float:
    """The published value (s, bytes, 1/s) that a claim names: the median of its rows; NaN without any.

    Rows that only repeat a number count where the claim names their place, rows without a workload for any. Raises
    UserError where rows of several cells have that name.
    """
    asked, column = {"quantity": "time"} | value.model_dump(exclude_none=True, exclude={"workload"}), "si"
    if asked["quantity"].endswith("-sd"):
        asked["quantity"], column = asked["quantity"].removesuffix("-sd"), "sd_si"
    own = select(numbers, **asked)
    if value.workload:
        own = own[own["workload"].isin(("", value.workload))]
    if "place" not in asked:
        own = own[~own["origin"].isin(NOT_NEW)]
    if len(own[["size", *SUBJECT]].drop_duplicates()) > 1:
        words = ", ".join(f"{key} {part}" for key, part in asked.items())
        raise UserError(f"{words} are values of several published cells: say more of them in the claim.")
    return float(own[column].median()) if len(own) else math.nan
