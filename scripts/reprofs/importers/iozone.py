"""iozone: its text, its Excel-style reports (-R), and its throughput mode (-t).

Units: kB/sec are KiB/s, kB are KiB; with -O operations a second; microseconds (-N) are not read. Source: its manual and
public outputs of versions 3.
"""

import re
from dataclasses import dataclass, field

from reprofs.importers import Malformed, Result, Source, number, whole

WHAT = "the text that iozone prints, with or without -R"

_COLUMNS = ["write", "rewrite", "read", "reread", "random read", "random write", "backward read", "record rewrite"]
_COLUMNS += ["stride read", "fwrite", "frewrite", "fread", "freread"]
# Test number of -i -> its columns.
_TESTS = {0: [0, 1], 1: [2, 3], 2: [4, 5], 3: [6], 4: [7], 5: [8], 6: [9, 10], 7: [11, 12]}
_REPORTS = {name: name for name in _COLUMNS} | {"writer": "write", "re-writer": "rewrite", "reader": "read"}
_REPORTS |= {"re-reader": "reread", "re-fwrite": "frewrite", "re-fread": "freread"}
_FLAGS = {"Include fsync in write timing": "fsync", "Include close in write timing": "close"}
_FLAGS |= {"O_DIRECT feature enabled": "direct"}
_CHILDREN = re.compile(
    r"(Children|Parent) sees? throughput for\s+(\d+) (.+?)\s*=\s*(\S+) ([kK][bB](?:ytes)?|ops)/sec|"
    r"(Min|Max|Avg) throughput per (?:process|thread)\s*=\s*(\S+) ([kK][bB](?:ytes)?|ops)/sec"
)
_THROUGHPUT, _RATE = ("throughput", "KiB/s"), ("request rate", "1/s")


@dataclass
class _State:
    """What the lines before say.

    ends: of the table's columns; rows: of it that are missing yet, where the command tells how many there are; whole:
    the last test of throughput mode has its last line, or the table all its rows.
    """

    unit: tuple[str, str] = _THROUGHPUT
    ends: list[int] = field(default_factory=list)
    report: str = ""
    records: list[int] = field(default_factory=list)
    seen: dict[tuple, str] = field(default_factory=dict)
    columns: list[int] = field(default_factory=list)
    flags: set[str] = field(default_factory=set)
    excel: bool = False
    threads: tuple[str, str] | None = None
    sizes: dict[str, int | None] = field(default_factory=lambda: dict.fromkeys(("file_bytes", "record_bytes")))
    rows: int | None = None
    whole: bool = False
    complete: bool = False


def read(source: Source) -> Result:
    """A row for each operation, file size and record size. iozone's kBytes are KiB; with -O it prints records a second.

    Raises Malformed for a table that is missing, has a line that fits no columns, or does not end, unless all that it
    must have is there: every size that the command names, or a whole test of throughput mode.
    """
    result, state = Result(source.name, {"tool": "iozone"}), _State()
    for at, line in enumerate(source.rows, 1):
        words = line.split()
        if _head(result, at, line, state):
            continue
        if "iozone test complete" in line:
            state.complete, state.ends, state.report = True, [], ""
        elif words[:2] in (["kB", "reclen"], ["KB", "reclen"]):
            state.ends = [match.end() for match in re.finditer(r"\S+", line)]
        elif found := _CHILDREN.search(line):
            _throughput(result, at, found, state)
        elif re.match(r"\s*Min xfer\s*=\s*[\d.]+ ([kK][bB]|ops)\b", line):
            state.whole = True
        elif found := re.fullmatch(r'"(.+) report"', line.strip()):
            state.report, state.records = _report(found[1], at), []
        elif state.report and words:
            _excel(result, at, line, words, state)
        elif state.ends and words and 2 * sum(word[0].isdecimal() for word in words) >= len(words):
            _row(result, at, line, state)
            state.rows = state.rows and state.rows - 1
            state.whole = state.rows == 0 and source.text.endswith("\n")  # else the last number may be cut
    if not result.rows:
        raise Malformed(source.last, "iozone's table of results is missing up to the end")
    _end(result, source.last, state)
    _findings(result, state.flags, source.text)
    return result


def _head(result: Result, at: int, line: str, state: _State) -> bool:
    """Whether a line is one of those before the results."""
    flag = next((name for text, name in _FLAGS.items() if text in line), None)
    if found := re.search(r"Version \$Revision: (\S+) \$", line):
        result.common["tool_version"] = found[1]
    elif "Command line used:" in line:
        _command(result, line.partition(":")[2].strip(), state)
    elif flag:
        state.flags.add(flag)
        result.common |= {"cache": "direct"} if flag == "direct" else {}
    elif "OPS Mode. Output is in operations per second" in line:
        state.unit = _RATE
    elif "Microseconds/op Mode" in line:
        raise Malformed(at, "output in microseconds (-N) is not read; run it without")
    elif found := re.search(r"(File size set to|Record [Ss]ize) (\d+) [kK][bB]", line):
        state.sizes["file_bytes" if found[1].startswith("File") else "record_bytes"] = whole(found[2], at) * 1024
    elif "Excel chart generation enabled" in line:
        state.excel = True
    else:
        return False
    return True


def _end(result: Result, last: int, state: _State) -> None:
    """Raises Malformed where the text ends before all that it must have."""
    reported = {key[0] for key, kind in state.seen.items() if kind == "report"}
    if not state.complete and not (reported and reported == {key[0] for key in state.seen}):
        if not state.whole:
            raise Malformed(last, "the text ends before 'iozone test complete'")
        what = "the text ends before 'iozone test complete', but not within a test"
        result.find("no-end", what, "further tests may be missing", last)
    missing = [key[0] for key, kind in state.seen.items() if kind != "report"]
    if state.excel and missing:
        raise Malformed(last, f"the text ends before the whole report of {missing[0]!r}")


def samples(output: str) -> list[dict]:
    """A sample for each number of the table that iozone printed: name, wall_ns, items, bytes; see `read`.

    wall_ns is what the rate, which is a whole number of KiB/s, leaves of the time. Raises ValueError with a sentence
    that names the line when the text is no such table, or has other units.
    """
    try:
        rows = read(Source.of("iozone's output", output)).rows
    except Malformed as error:
        raise ValueError(f"iozone's output, line {error.line}: {error.what}") from None
    if any(row["unit"] != "B/s" or not row["value"] or "bytes" not in row for row in rows):
        raise ValueError("iozone's output has a number that is not in kB/s")
    return [
        {"name": row["phase"], "wall_ns": round(row["bytes"] / row["value"] * 1e9), "items": 1, "bytes": row["bytes"]}
        for row in rows
    ]


def _command(result: Result, command: str, state: _State) -> None:
    result.common["workload"] = command
    if found := re.search(r"(?<!\S)-f\s*(\S+)", command):
        result.common["configuration"] = found[1]
    tests = sorted({int(test) for test in re.findall(r"(?<!\S)-i\s*(\d{1,2})\b", command)})
    sizes, records = (len(re.findall(rf"(?<!\S)-{flag}\s*\d", command)) for flag in "sr")
    state.rows = None if re.search(r"(?<!\S)-[aAngqyz]", command) else sizes * records
    state.columns = [column for test in tests for column in _TESTS.get(test, [])]


def _row(result: Result, line: int, text: str, state: _State) -> None:
    """A line of the text table. Columns of tests that did not run are blank: the position says which is which."""
    cells = [(match[0], match.end()) for match in re.finditer(r"\S+", text)]
    file_kib, record_kib = (number(cell, line) for cell, _ in cells[:2]) if len(cells) > 2 else (0, 0)
    if not file_kib or not record_kib:
        raise Malformed(line, "the line is cut short")
    if record_kib > file_kib:
        what = f"records of {record_kib:g} KiB are larger than the file of {file_kib:g} KiB, so the line is damaged"
        raise Malformed(line, what)
    cells, asked = cells[2:], state.columns
    if len(cells) == len(_COLUMNS):
        columns = list(range(len(_COLUMNS)))
    elif len(cells) == len(asked):
        columns = asked
    else:
        ends = state.ends[2:]
        columns = [min(range(len(ends)), key=lambda i: abs(ends[i] - end)) for _, end in cells]
        far = any(abs(ends[column] - end) > 4 for column, (_, end) in zip(columns, cells, strict=True))
        if asked or far or len(set(columns)) < len(columns) or columns[-1] >= len(_COLUMNS):
            wanted = len(asked) or len(_COLUMNS)
            raise Malformed(line, f"{len(cells)} values stand where {wanted} are expected, so the line is cut short")
    for column, (cell, _) in zip(columns, cells, strict=True):
        sizes = {"file_bytes": int(file_kib * 1024), "record_bytes": int(record_kib * 1024)}
        quantity, unit = state.unit
        result.add(line, _COLUMNS[column], quantity, cell, unit, iteration=0, **sizes, bytes=sizes["file_bytes"])
        state.seen[_COLUMNS[column], sizes["file_bytes"], sizes["record_bytes"]] = cell


def _report(title: str, line: int) -> str:
    if title.lower() not in _REPORTS:
        raise Malformed(line, f"the report {title!r} is not known")
    return _REPORTS[title.lower()]


def _excel(result: Result, line: int, text: str, words: list[str], state: _State) -> None:
    """A line of a report of -R: first the record sizes, each in quotes, then one line for each file size."""
    quoted = re.findall(r'"(\d+)\s*"', text)
    values = re.sub(r'"[^"]*"', " ", text).split()
    if not state.records:
        if not quoted or values:
            raise Malformed(line, "the record sizes of the report are missing")
        state.records = [whole(size, line) * 1024 for size in quoted]
        return
    if len(quoted) != 1 or len(values) > len(state.records) or not values:
        if words[0].startswith('"'):
            raise Malformed(line, f"{len(values)} values stand under {len(state.records)} record sizes")
        state.report = ""
        return
    size = whole(quoted[0], line) * 1024
    # Small files have no values for records larger than the file, large ones with -a print 0 for small records.
    fitting = [record for record in state.records if record <= size]
    if len(values) not in (len(fitting), len(state.records)):
        raise Malformed(line, f"{len(values)} values stand under {len(fitting)} record sizes")
    for record, value in zip(state.records, values, strict=False):
        if number(value, line) > 0:
            sizes = {"file_bytes": size, "record_bytes": record, "bytes": size}
            key = (state.report, size, record)
            before = state.seen.get(key)
            state.seen[key] = "report"
            if before:  # it is the number of the table above, again
                if before != value:
                    raise Malformed(line, f"{value} stands where the table has {before}")
                continue
            quantity, unit = state.unit
            result.add(line, state.report, quantity, value, unit, iteration=0, **sizes)


def _throughput(result: Result, line: int, found: re.Match, state: _State) -> None:
    """A line of throughput mode: the sum over clients, as they or their parent saw it, or one client's rate."""
    state.whole = False
    quantity, unit = _RATE if "ops" in (found[5], found[8]) else _THROUGHPUT
    if found[1]:
        state.threads = (found[2], found[3].rstrip("s"))
        seen, client = "sum of clients" if found[1] == "Children" else "work over makespan", f"all {found[2]}"
    elif state.threads:
        seen, client = {"Min": "min", "Max": "max", "Avg": "mean"}[found[6]], f"one of {state.threads[0]}"
    if state.threads:
        others = {"client": client, "statistic": seen, "iteration": 0}
        result.add(line, state.threads[1], quantity, found[4] or found[7], unit, **others, **state.sizes)


def _findings(result: Result, flags: set[str], text: str) -> None:
    writes = [row for row in result.rows if "writ" in row["operation"]]
    reads = [row for row in result.rows if "read" in row["operation"]]
    if writes and not flags:
        result.find("flush-not-timed", "neither fsync (-e) nor close (-c) is in the time of the writes, nor -I given",
                    "small files are written into memory only")  # fmt: skip
    if reads and writes and "direct" not in flags and not re.search(r"\s-U\s*\S", text):
        largest = max((row.get("file_bytes") or 0 for row in reads), default=0)
        what = f"files of up to {largest / 2**20:g} MiB are read back after they were written, without -I or -U"
        result.find("cached", what, "reads of files that fit into memory come from memory")
    best: dict[str, float] = {}
    for row in reads:
        if row["quantity"] != "throughput":
            continue  # records of several sizes do not compare
        best[row["operation"]] = max(best.get(row["operation"], 0), row["value"])
    for operation, rate in best.items():
        written = max((row["value"] for row in writes), default=0)
        if written and rate > 10 * written:
            what = f"{operation} reaches {rate / 2**20:.0f} MiB/s, {rate / written:.0f} times the best write"
            result.find("faster-than-device", what, "so it measured memory and not the device")
