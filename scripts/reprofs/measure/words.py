"""What `reprofs measure` and `reprofs compare` say of measured programs: as text, Markdown or JSON."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence

from reprofs.errors import UserError, cut, middle
from reprofs.measure.compare import Pair, differences
from reprofs.plan.measured import Measured, Numbers, Row

DASH = "-"
LEAST = "1%"  # of a difference that counts, where none is given
FORMATS = ("text", "markdown", "json")
SIGILL = 4
Table = Sequence[Sequence[str]]


def measured(record: Measured, form: str) -> str:
    """A record as text or Markdown for people, or as the JSON that `--output` writes."""
    if form == "json":
        return written(record)
    parts = [f"{_command(record, form)}, cache {record.cache}, {_cores(record.cores)}"]
    parts.append(_table(_rows(record), form))
    parts += sentences(record)
    return "\n\n".join(parts) + "\n"


def written(record: Measured) -> str:
    """A record as its file has it."""
    return json.dumps(record.as_json(), indent=1, ensure_ascii=False) + "\n"


def compared(base: Measured, now: Measured, pairs: Sequence[Pair], form: str) -> str:
    """Two records, row by row."""
    differing = differences(base, now)
    if form == "json":
        rows = [pair.as_json() for pair in pairs]
        whole = {"schema": 1, "command": now.command, "differences": differing, "rows": rows}
        return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"
    head = ["file system", "device", "base (ms)", "now (ms)", "time", "instructions", "written", "flushes", "verdict"]
    table = [head, *(_pair(pair) for pair in pairs)]
    parts = [_command(now, form), _table(table, form)]
    if differing:
        parts.append(f"Other than the program's files: {'; '.join(differing)}.")
    parts += sentences(now)
    return "\n\n".join(parts) + "\n"


def sentences(record: Measured) -> list[str]:
    """What a table does not say: trials that are not ok, programs that failed."""
    said = []
    for row in record.rows:
        name, numbers = f"{row.filesystem} on {row.device}", row.numbers
        if numbers is None:
            said.append(f"{name}: {row.status}: {row.reason}")
        elif numbers.signal == SIGILL:
            said.append(
                f"{name}: the program has an instruction that the lab's processor (x86-64-v2) lacks: compile it for "
                "x86-64-v2."
            )
        elif numbers.signal:
            said.append(f"{name}: the program was ended by signal {numbers.signal}.")
        elif numbers.exit:
            said.append(f"{name}: the program exited with {numbers.exit}.")
    if any(row.numbers and row.numbers.left for row in record.rows):
        said.append("The program left processes running, which were ended.")
    return said


def output(record: Measured, lines: int) -> str:
    """The end of what the program wrote, of the first row that has some: those that failed come first."""
    failed_first = sorted(record.rows, key=lambda row: not (row.numbers and row.numbers.exit))
    row = next((row for row in failed_first if row.output.strip()), None)
    if row is None:
        return ""
    return "\n".join([f"the program's output ({row.filesystem}), its end:", *row.output.splitlines()[-lines:]]) + "\n"


def _command(record: Measured, form: str) -> str:
    text = cut(shlex.join(record.command), 100)
    return f"`{text}`" if form == "markdown" else text


def _cores(number: int) -> str:
    return "1 core" if number == 1 else f"{number} cores"


def _rows(record: Measured) -> Table:
    idle = "waiting" if record.cores == 1 else "idle"
    head = [
        "file system",
        "device",
        "time (ms)",
        "sync",
        "user",
        "kernel",
        idle,
        "instructions",
        "read",
        "written",
        "flushes",
    ]
    fastest = {device: min(times) for device in _devices(record) if (times := _times(record, device))}
    return [[*head, "difference", "exit"], *(_row(row, fastest.get(row.device)) for row in record.rows)]


def _devices(record: Measured) -> list[str]:
    return list(dict.fromkeys(row.device for row in record.rows))


def _times(record: Measured, device: str) -> list[int]:
    return [row.numbers.time_ns for row in record.rows if row.numbers and row.device == device]


def _row(row: Row, fastest: int | None) -> list[str]:
    numbers = row.numbers
    if numbers is None or fastest is None:
        return [row.filesystem, row.device, *[DASH] * 10, row.status]
    slower = "fastest" if numbers.time_ns == fastest else f"+{100 * (numbers.time_ns / fastest - 1):.3g} %"
    return [
        *(row.filesystem, row.device),
        *(_ms(ns) for ns in (numbers.time_ns, numbers.sync_ns, numbers.user_ns, numbers.kernel_ns, numbers.idle_ns)),
        *(f"{numbers.instructions:,}" if numbers.instructions is not None else DASH,),
        *(_size(numbers.read_bytes), _size(numbers.written_bytes)),
        *(DASH if numbers.flushes is None else f"{numbers.flushes:,}", slower, str(numbers.exit)),
    ]


def _pair(pair: Pair) -> list[str]:
    base, now = (row.numbers if row else None for row in (pair.base, pair.now))
    times = [_ms(one.time_ns) if one else DASH for one in (base, now)]
    if not base or not now:
        return [*pair.key, *times, *[DASH] * 4, pair.verdict]
    changes = [_change(pair.ratio - 1)]
    same = (base.instructions, now.instructions)
    changes.append(_change(same[1] / same[0] - 1) if same[0] and same[1] else DASH)
    changes += [_step(base, now, key) for key in ("written_bytes", "flushes")]
    return [*pair.key, *times, *changes, pair.verdict]


def _step(base: Numbers, now: Numbers, key: str) -> str:
    was, is_now = getattr(base, key), getattr(now, key)
    if was is None or is_now is None:
        return DASH
    return "same" if was == is_now else f"{is_now - was:+,}"


def _change(share: float) -> str:
    return "same" if share == 0 else f"{100 * share:+.3g} %"


def _ms(ns: int | None) -> str:
    return DASH if ns is None else f"{ns / 1e6:,.3f}"


def _size(number: int | None) -> str:
    if number is None:
        return DASH
    return f"{number / 1e6:,.2f} MB" if number >= 10_000 else f"{number:,} B"


def _table(rows: Table, form: str) -> str:
    if form == "markdown":
        cells = [[cell.replace("|", "\\|") for cell in row] for row in rows]
        return "\n".join(f"| {' | '.join(row)} |" for row in (cells[0], ["---"] * len(cells[0]), *cells[1:]))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    words = (
        "  ".join(cell.ljust(width) if place < 2 else cell.rjust(width) for place, (cell, width) in enumerate(each))
        for each in (list(zip(row, widths, strict=True)) for row in rows)
    )
    return "\n".join(line.rstrip() for line in words)


def form_of(text: str) -> str:
    """A format that measured programs have. Raises UserError for another."""
    if text not in FORMATS:
        raise UserError(f"--format {middle(text)} is not for measured programs: use {', '.join(FORMATS)}.")
    return text
