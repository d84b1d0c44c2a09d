"""bonnie++ 1.03 to 2.00: its CSV lines, alone or at the end of what it prints.

Units: transfers as KiB/s, seeks and operations on files as 1/s, latencies (the longest of a test, from 1.9 on) as us,
ms or s, the processor's time as % of one. The table for people is not read: that of 2.00 has numbers of files in the
place of rates. Source: the manual, bon_time.cpp and runs of Debian's 2.00a; bon_time.cpp of 1.9; public lines of 1.03.
"""

import re
from collections import Counter

from reprofs.importers import Malformed, Result, Source, whole

WHAT = "output of bonnie++ with its CSV line (1.98,2.00a,...)"

_TRANSFERS = ["write by character", "block write", "rewrite", "read by character", "block read", "random seeks"]
_FILES = [f"{order} {what}" for order in ("sequential", "random") for what in ("create", "stat", "delete")]
_VERSIONED = re.compile(r"\d\.\d\d\w?(,|$)")
_SIZE = re.compile(r"(\d{1,9})([MGT])(?::(\d{1,9})(k?))?", re.ASCII)
_FACTORS = {"M": 2**20, "G": 2**30, "T": 2**40}
_LATENCY = re.compile(r"(\d+)(us|ms|s)", re.ASCII)
# Columns -> where machine, concurrency, size, the transfers, the number of files and the operations on them stand.
# 2.00 has two columns more than its own head: the seeks and the processes that do them.
_LAYOUTS: dict[int, tuple] = {27: (0, None, 1, 2, 14, 15), 48: (2, 3, 5, 7, 19, 24), 50: (2, 3, 5, 9, 21, 26)}


def read(source: Source) -> Result:
    """Rows of each CSV line: throughput or rate, share of a processor and longest latency of each test.

    The size of the test is that of all its files of at most 1 GiB, so it is no file's size. Raises Malformed for a line
    that is cut short, or has an unknown number of columns.
    """
    result, head = Result(source.name, {"tool": "bonnie++"}), 0
    runs: Counter = Counter()
    for at, line in enumerate(source.rows, 1):
        cells = line.strip().split(",")
        if cells[0] in ("format_version", "name"):
            head = len(cells)
        elif _VERSIONED.match(line.strip()) or (len(cells) > 2 and (head == 27 or _SIZE.fullmatch(cells[1]))):
            versioned = bool(_VERSIONED.match(line.strip()))
            if len(cells) not in ((48, 50) if versioned else (27,)):
                what = "48 or, from 2.00 on, 50" if versioned else "27"
                raise Malformed(
                    at, f"{len(cells)} columns stand where bonnie++ prints {what}, so the line is cut short"
                )
            if head and head != len(cells):
                why = "what reads them by the head takes the numbers of other tests; here they are read by their place"
                result.find("head-differs", f"the line has {len(cells)} columns, its head {head} names", why, at)
                head = len(cells)
            if at == source.last and not source.text.endswith("\n") and cells[-1].isdigit():
                result.find(
                    "no-end", "the last line has no end", "its last number may be cut short and is left out", at
                )
                cells[-1] = ""
            _line(result, at, cells, runs)
    if not runs:
        raise Malformed(source.last, "bonnie++'s CSV line is missing up to the end")
    return result


def _line(result: Result, at: int, cells: list[str], runs: Counter) -> None:
    """The rows of a CSV line."""
    machine, concurrency, size, transfers, files, operations = _LAYOUTS[len(cells)]
    alone = concurrency is None or cells[concurrency] == "1"
    common: dict = {"configuration": cells[machine], "tool_version": cells[1] if concurrency else None}
    run = (cells[machine], cells[size], *cells[files:operations])
    common["iteration"], runs[run] = runs[run], runs[run] + 1
    found = _SIZE.fullmatch(cells[size])
    moved = int(found[1]) * _FACTORS[found[2]] if found and alone else None
    chunk = int(found[3]) * (1024 if found[4] else 1) if found and found[3] else None
    sizes = {"bytes": moved, "record_bytes": chunk}
    short: list[str] = []
    for place, name in enumerate(_TRANSFERS):
        unit = "1/s" if name == "random seeks" else "KiB/s"
        own = sizes if name in ("block write", "block read") else {}
        _test(result, at, cells, (transfers + 2 * place, place - 12), name, unit, common | own, short)
    own = _of_files(cells[files:operations], at)
    for place, name in enumerate(_FILES):
        _test(result, at, cells, (operations + 2 * place, place - 6), name, "1/s", common | own, short)
    if short:
        why = "bonnie++ prints no number for them; take more files, or files of more than the memory"
        what = f"{len(short)} tests took less than half a second, of which the first is {short[0]}"
        result.find("too-short", what, why, at)


def _of_files(cells: list[str], at: int) -> dict:
    """How many files there were, and the size of each where all have one: 16, 16:100:100, or several cells."""
    count, high, low = [*re.split("[:/]", cells[0]), *cells[1:], "", ""][:3]
    if not count:
        return {}
    items = whole(count, at) * 1024
    size = whole(high or "0", at) if high == low or not high else None
    return {"items": items, "file_bytes": size if re.fullmatch(r"\d*", high) else None}


def _test(result: Result, at: int, cells: list[str], places: tuple, name: str, unit: str, common: dict, short: list):
    """The rows of a test: `places` are those of its rate, which its share of a processor follows, and its latency."""
    (place, latency), quantity = places, "rate" if unit == "1/s" else "throughput"
    rate, share = cells[place : place + 2]
    if rate.startswith("+"):
        short.append(name)
    elif rate:
        result.add(at, name, quantity, rate, unit, **common)
    if share and not share.startswith("+"):
        result.add(at, f"{name} processor", "share", share, "%", **common)
    # The latencies are the last twelve columns, where there are any.
    if len(cells) > 27 and (text := cells[latency]):
        found = _LATENCY.fullmatch(text)
        if not found:
            raise Malformed(at, f"{text[:20]!r} is no latency (4075us), so the line is cut short or of another version")
        result.add(at, name, "latency", found[1], found[2], statistic="max", **common)
