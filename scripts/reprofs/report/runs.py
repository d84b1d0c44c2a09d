"""What `reprofs compare` says: runs of a study beside the first of them, as text, Markdown or JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from reprofs.data.keys import SETTING
from reprofs.report.display import DASH, confidence, count, digits, known
from reprofs.stats.runs import Comparison, Difference

SHORT = 40  # characters of what differs; a digest is longer and told by its beginning
COLUMNS = ["operation", "rounds", "ratio", "95 % interval", "floor", "verdict"]
VERDICTS = ("slower", "faster", "same", "undecided", "equal")

Row = Sequence[str]


def text(names: list[str], differences: list[Difference], found: list[Comparison], least: float) -> str:
    """For a terminal."""
    return _written(names, differences, found, least, _plain, "")


def markdown(names: list[str], differences: list[Difference], found: list[Comparison], least: float) -> str:
    """For a merge request or a summary of CI."""
    return _written(names, differences, found, least, _pipes, "### ")


def as_json(names: list[str], differences: list[Difference], found: list[Comparison], least: float) -> str:
    """For programs. Times are in no unit: all numbers are ratios, shares or counts."""
    runs = []
    for one in found:
        rows = json.loads(one.ratios.to_json(orient="records", double_precision=15))
        exact = [{**vars(each)} for each in one.exact]
        runs.append({"run": one.run, "worse": one.worse, "exact": exact, "endings": one.endings, "ratios": rows})
    whole = {"schema": 1, "base": names[0], "least": least, "differences": [vars(one) for one in differences]}
    return json.dumps(whole | {"runs": runs}, indent=1, ensure_ascii=False) + "\n"


def _written(
    names: list[str],
    differences: list[Difference],
    found: list[Comparison],
    least: float,
    table: Callable[[list[Row]], str],
    heading: str,
) -> str:
    parts = [f"{heading}What differs", _differing(names, differences, table)]
    for one in found:
        parts += [f"{heading}{one.run} beside {names[0]}", *_sentences(one, least)]
        for place, rows in one.ratios.groupby([*SETTING, "workload", "scale"], sort=False):
            lab, stack, profile, workload, scale = place
            parts.append(f"{workload} ({scale}), lab {lab}, stack {stack}, device profile {profile}:")
            parts.append(table([COLUMNS, *(_row(row) for row in rows.to_dict("records"))]))
    return "\n\n".join(parts) + "\n"


def _differing(names: list[str], differences: list[Difference], table: Callable[[list[Row]], str]) -> str:
    if not differences:
        return "Nothing that the runs say of lab, machine and plan."
    rows = [[one.what, one.key, *(_short(value) for value in one.values)] for one in differences]
    return table([["part", "key", *names], *rows])


def _short(value: str) -> str:
    line = " ".join(value.split()) or DASH
    return line if len(line) <= SHORT else f"{line[: SHORT - 1]}…"


def _sentences(one: Comparison, least: float) -> list[str]:
    said = []
    for exact in one.exact:
        if exact.first is None:
            trials = count(exact.trials, "trial")
            said.append(f"{exact.lab}: equal, {trials} of {exact.trials} to the last digit.")
            continue
        first = exact.first
        said.append(
            f"{exact.lab}: not equal. {exact.equal} of {count(exact.trials, 'trial')} have the same numbers; the first"
            f" phase that differs is {first['phase']} ({first['cache']}) of {first['trial']},"
            f" in {', '.join(first['columns'][:4])}."
        )
    said += [f"{trial} ended {was} there and {now} here." for trial, was, now in one.endings]
    numbers = [f"{len(one.said(verdict))} {verdict}" for verdict in VERDICTS if len(one.said(verdict))]
    said.append(f"{', '.join(numbers)} (differences below {100 * least:g} % do not count).")
    return said


def _row(row: dict) -> Row:
    what = f"{row['label']}, {row['phase']}" + (f", {row['cache']}" if row["cache"] else "")
    floor = f"{digits(100 * row['floor'], 2)} %" if known(row["floor"]) else DASH
    return [
        what,
        str(row["n"]),
        digits(row["ratio"], 5),
        confidence(row["low"], row["high"], 1, 5),
        floor,
        row["verdict"],
    ]


def _plain(rows: list[Row]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def _pipes(rows: list[Row]) -> str:
    head, *body = ([cell.replace("|", "\\|") for cell in row] for row in rows)
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *body))
