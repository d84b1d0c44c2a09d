"""elbencho 1.6 to 3.1: its CSV (--csvfile) and the table that it prints or writes (--resfile).

Units: MiB/s and MiB are whole MiB (MB/s with --base10), times of the CSV ms, of the table ms, s or 2m3.456s, latencies
us, ms or s. Of each number there are two: of when the first thread was done ("at first done"), and of the whole. The
size of a file is what was asked for: it is known only where as much was moved. Source: elbencho's documentation
(CSV results file) and Statistics.cpp of 3.0; public outputs of 1.6, 2.x, 3.0 and 3.1.
"""

import csv
import re
from collections import Counter
from dataclasses import dataclass, field

from reprofs.errors import short
from reprofs.importers import Malformed, Result, Source, number, whole, word

WHAT = "CSV (--csvfile) or table (--resfile) that elbencho writes"

# Column of the CSV -> quantity, unit, statistic of the whole.
_COLUMNS = {
    "time ms": ("time", "ms", "value"),
    "entries/s": ("rate", "1/s", "value"),
    "IOPS": ("request rate", "1/s", "value"),
    "MiB/s": ("throughput", "MiB/s", "value"),
    "entries": ("count", "1", "total"),
    "MiB": ("bytes", "MiB", "total"),
    "CPU%": ("share", "%", "value"),
}
_LATENCIES = {"min": "min", "avg": "mean", "max": "max"}
_SECTION = re.compile(r"(\S+)\s+Elapsed (time|ms)\s*:\s*(.*)")
_LINE = re.compile(r"\s+(\S.*?)\s*:\s(.*)")
# Name of a line of the table -> as above.
_LINES = [
    (re.compile(r"(?:Throughput )?(?P<unit>Mi?B/s)(?P<part> write| read| total)?"), "throughput", "", "value"),
    (re.compile(r"IOPS(?P<part> write| read| total)?"), "request rate", "1/s", "value"),
    (re.compile(r"\w+/s(?P<part> write| read| total)?"), "rate", "1/s", "value"),
    (re.compile(r"Total MiB|MiB(?P<part> write| read)"), "bytes", "MiB", "total"),
    (re.compile(r"Total (?P<what>\w+)|(?P<kind>\w+)(?: total|(?P<part> write| read))"), "count", "1", "total"),
    (re.compile(r"CPU util %"), "share", "%", "value"),
]
_LATENCY = re.compile(r"(\w+)( wr| rd)? (latency|lat us|lat % us)")
_TIME = re.compile(r"([\d.]+)(us|ms|s)", re.ASCII)
_SECRET = re.compile(r"(--s3(?:key|secret|sessiontoken)[\s'\"=]+)[^\s'\"]+")
_LONG = re.compile(r"(?:(\d{1,6})h)?(\d{1,2})m([\d.]{1,6})s", re.ASCII)
_SIZE = re.compile(r"(?:^|\s)['\"]?-(?:-block|b)[\s'\"=]*(\d{1,15})([kmgt]?)(?![\w.])", re.ASCII | re.IGNORECASE)


@dataclass
class _Phase:
    """A phase of the table: its name, the line where it begins, its rows and common columns."""

    name: str
    line: int
    common: dict = field(default_factory=dict)
    rows: list[dict] = field(default_factory=list)
    mixed: bool = False  # reads among the writes


def read(source: Source) -> Result:
    """Rows of each phase: time, rate, requests, throughput, count, bytes, latencies; at first done and of the whole.

    Raises Malformed for a line that is cut short, for statistics while it runs (--livecsv), and for a CSV without head.
    """
    result = Result(source.name, {"tool": "elbencho"})
    if any(line.startswith(("ISO date,", '"ISO date"')) for line in source.rows):
        _csv(result, source)
    else:
        _table(result, source)
    return result


def _csv(result: Result, source: Source) -> None:
    head: list[str] = []
    runs: Counter = Counter()
    for at, line in enumerate(source.rows, 1):
        try:
            cells = next(csv.reader([line]), [])
        except csv.Error:
            raise Malformed(at, "the line is not CSV") from None
        if cells[:1] == ["ISO date"]:
            head = cells
        elif cells and head:
            if len(cells) != len(head):
                what = f"{len(cells)} columns stand where the head has {len(head)}, so the line is cut short"
                raise Malformed(at, what)
            if at == source.last and not source.text.endswith("\n") and cells[-1]:
                result.find(
                    "no-end", "the last line has no end", "its last column may be cut short and is left out", at
                )
                cells[-1] = ""
            _row(result, at, dict(zip(head, cells, strict=True)), runs)
    if not result.rows:
        raise Malformed(source.last, "the CSV ends after its head")


def _row(result: Result, at: int, cells: dict[str, str], runs: Counter) -> None:
    """The rows of a line of the CSV."""
    if not cells.get("operation"):
        raise Malformed(at, "the column 'operation' is missing or empty")
    name, head = cells["operation"], list(cells)
    run = tuple(cells[key] for key in head[1 : head.index("operation") + 1])
    common = {
        "iteration": runs[run],
        "label": cells.get("label") or None,
        "workload": _SECRET.sub(r"\1...", cells.get("command", "")) or None,
        "tool_version": cells.get("version") or None,
        "cache": "direct" if cells.get("direct IO") == "1" else None,
    }
    runs[run] += 1
    mixed = any(cells.get(key) for key in head if key.startswith("rwmix read"))
    for prefix, operation in (("", f"{name} write" if mixed else name), ("rwmix read ", f"{name} read")):
        _numbers(result, at, cells, prefix, operation, common | _sizes(at, cells, prefix))
    if (errors := cells.get("errors total")) and number(errors, at):
        result.find("error", f"{errors} operations of {name} failed", "its rates are of fewer operations", at)
    _unfair(result, at, name, *(number(cells.get(f"time ms [{when}]") or "0", at) / 1000 for when in ("first", "last")))


def _numbers(result: Result, at: int, cells: dict[str, str], prefix: str, operation: str, common: dict) -> None:
    """The rows of an operation; of the reads among writes the columns have a prefix."""
    for column, (quantity, unit, statistic) in _COLUMNS.items():
        for when, told in (("first", f"{statistic} at first done"), ("last", statistic)):
            text = cells.get(f"{prefix}{column} [{when}]")
            if text and number(text, at):  # 0 is less than a unit
                result.add(at, operation, quantity, text, unit, statistic=told, **common)
    for column, what in (("Ent", "entry latency"), ("IO", "request latency")):
        for key, statistic in _LATENCIES.items():
            if text := cells.get(f"{prefix}{column} lat us [{key}]"):
                result.add(at, f"{operation} {what}", "latency", text, "us", statistic=statistic, **common)


def _sizes(at: int, cells: dict[str, str], prefix: str) -> dict:
    """Items, sizes of a request and of a file: where as much was moved as files of the size that was asked for have."""
    items, moved = cells.get(f"{prefix}entries [last]"), cells.get(f"{prefix}MiB [last]")
    size, block = cells.get("file size"), cells.get("block size")
    found = {"items": whole(items, at) if items else None}
    if moved:
        found["record_bytes"] = whole(block, at) if block else None
        if items and size and abs(whole(items, at) * whole(size, at) / 2**20 - whole(moved, at)) <= 1:
            found["file_bytes"] = whole(size, at)
    return found


def _table(result: Result, source: Source) -> None:
    phase: _Phase | None = None
    runs: Counter = Counter()
    common: dict = {}
    cut = not source.text.endswith("\n")
    for at, line in enumerate(source.rows, 1):
        if found := re.match(r"COMMAND LINE\s*:\s*(.*)|.*?((?<!\w)elbencho\s+-.*)", line):
            common = _command(found[1] or found[2] or "")
        elif line.startswith("ISO Date,Label,Phase"):
            result.find("live", "statistics while it runs are left out", "the results of each phase have all of it", at)
        elif line.strip() == "---":
            _end(result, phase)
            phase = None
        elif found := _SECTION.match(line):
            _end(result, phase)
            phase = _Phase(found[1], at, common | {"iteration": runs[found[1]]})
            runs[found[1]] += 1
            unit = "ms" if found[2] == "ms" else ""
            if not (cut and at == source.last):
                _pair(result, phase, at, found[1], "time", unit, "value", found[3])
        elif phase and not (cut and at == source.last):
            _line(result, phase, at, line)
    if phase or (cut and source.text and source.rows[-1] != "---"):
        result.find("no-end", "the last phase has no end ('---')", "further lines may be missing", source.last)
    _end(result, phase)
    if not result.rows:
        raise Malformed(source.last, _nothing(result))


def _nothing(result: Result) -> str:
    if any(finding.rule == "live" for finding in result.findings):
        return "it has statistics while elbencho runs (--livecsv), and no results"
    return "elbencho's table ('OPERATION RESULT TYPE ...') or CSV with its head is missing up to the end"


def _command(text: str) -> dict:
    """What the command line tells: itself, whether the page cache was bypassed, and the size of a request."""
    found = _SIZE.search(text)
    size = int(found[1]) << 10 * " kmgt".index(found[2].lower() or " ") if found else None
    direct = re.search(r"(?<![\w-])--direct(?![\w-])", text)
    return {
        "workload": _SECRET.sub(r"\1...", text.strip()),
        "cache": "direct" if direct else None,
        "record_bytes": size,
    }


def _line(result: Result, phase: _Phase, at: int, line: str) -> None:
    """A line of a phase. Times of single threads and services and histograms are not read."""
    if line.startswith("WARNING"):
        result.find("warning", f"elbencho warned: {line.strip()}", "its numbers may be of no use", at)
    split = _LINE.fullmatch(line)
    name, text = (split[1], split[2].strip()) if split else ("", "")
    if found := _LATENCY.fullmatch(name):
        _latency(result, phase, at, found, text)
        return
    for known, quantity, unit, statistic in _LINES:
        if found := known.fullmatch(name):
            parts = found.groupdict()
            if name.startswith("IOs") or (name.startswith("Dirs") and phase.name in ("WRITE", "READ")):
                return  # beside the files
            phase.mixed |= parts.get("part") == " read"
            operation = phase.name + (parts.get("part") or "")
            _pair(result, phase, at, operation, quantity, parts.get("unit") or unit, statistic, text)
            return


def _pair(result: Result, phase: _Phase, at: int, operation: str, quantity: str, unit: str, statistic: str, text: str):
    """The rows of a line with two numbers. Without a unit they are times as elbencho writes them."""
    values = text.split()
    if len(values) != 2:
        raise Malformed(at, f"{len(values)} numbers stand where elbencho prints two, so the line is cut short")
    seconds = []
    for value, told in zip(values, (f"{statistic} at first done", statistic), strict=True):
        if not unit and (long := _LONG.fullmatch(value)):
            total = round(int(long[1] or 0) * 3600 + int(long[2]) * 60 + number(long[3], at), 3)
            row = result.add(at, operation, quantity, total, "s", statistic=told, derived=True, **phase.common)
        else:
            found = _TIME.fullmatch(value) if not unit else None
            if not unit and not found:
                raise Malformed(at, f"{short(value)} is no time (12.345s), so the line is cut short")
            printed, of = (found[1], found[2]) if found else (value, unit)
            if not number(printed, at):
                continue  # less than a unit
            row = result.add(at, operation, quantity, printed, of, statistic=told, **phase.common)
        phase.rows.append(row)
        seconds.append(row["value"])
    if quantity == "time" and len(seconds) == 2:
        _unfair(result, at, operation, *seconds)


def _latency(result: Result, phase: _Phase, at: int, name: re.Match, text: str) -> None:
    """A line of latencies ([ min=1us avg=6us max=1.2ms ]) or of their percentiles ([ 50%<=512 99%<=1024 ])."""
    if not (text.startswith("[ ") and text.endswith(" ]")):
        raise Malformed(at, "the line of a latency is cut short")
    part = {" rd": " read", " wr": " write"}.get(name[2] or "", "")
    phase.mixed |= part == " read"
    title = f"{phase.name}{part} {'request' if name[1] == 'IO' else 'entry'} latency"
    for key, value, unit in re.findall(r"(min|avg|max)=([\d.]+)(us|ms|s)?(?= )", text):
        row = result.add(at, title, "latency", value, unit or "us", statistic=_LATENCIES[key], **phase.common)
        phase.rows.append(row)
    for percentile, value in re.findall(r"([\d.]+)%<=([\d.]+)(?= )", text):
        statistic = f"p{number(percentile, at):g}"
        phase.rows.append(result.add(at, title, "latency", value, "us", statistic=statistic, **phase.common))


def _end(result: Result, phase: _Phase | None) -> None:
    """At the end of a phase: its counts stand in all its rows; of a mix what has no word is of the writes."""
    rows = phase.rows if phase else []
    for row in rows:
        if phase and phase.mixed and row["operation"] == phase.name and row["quantity"] not in ("time", "share"):
            row["operation"] = f"{phase.name} write"
            row["phase"] = word(row["operation"])
    counts = {row["operation"]: int(row["value"]) for row in rows if row["statistic"] == "total" and row["unit"] == "1"}
    moved = any(row["quantity"] == "bytes" for row in rows)
    for row in rows:
        row["items"] = next((count for name, count in counts.items() if row["operation"].startswith(name)), None)
        row["record_bytes"] = row.get("record_bytes") if moved else None


def _unfair(result: Result, at: int, name: str, first: float, last: float) -> None:
    if last > 1 and first < 0.7 * last:
        what = f"{name}: the first thread was done after {first:g} s, the last one after {last:g} s"
        result.find("unfair", what, "in the time between fewer threads worked, which lowers the rate of the whole", at)
