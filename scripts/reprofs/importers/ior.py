"""IOR 2.10 to 4.x: the results of each repetition and the summary of all tests.

Units: throughput as MiB/s, times as s, sizes of the table as KiB, of the header as printed. Sizes of the header are
what was asked for: a run that a stonewall (-D) ends moves less, and the size of its files is not known. Source: the
text of ior, its documentation (the table of options) and public outputs of 2.10, 3.0, 3.1, 3.3, 3.4 and 4.1.
"""

import re
from collections import Counter
from dataclasses import dataclass, field

from reprofs.importers import LARGEST, LOG, Malformed, Result, Source, number, whole

WHAT = "the text that ior prints"

_COLUMNS = {
    "bw(MiB/s)": ("throughput", "MiB/s", ""),
    "IOPS": ("rate", "1/s", ""),
    "Latency(s)": ("latency", "s", ""),
    "open(s)": ("time", "s", " open"),
    "wr/rd(s)": ("time", "s", " transfer"),
    "close(s)": ("time", "s", " close"),
    "total(s)": ("time", "s", ""),
}
_OPTIONS = {"xfersize": "record_bytes", "blocksize": "block", "aggregate filesize": "bytes"}
_SIZES = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_SUMMARY = [("max", "MiB/s"), ("min", "MiB/s"), ("mean", "MiB/s"), ("sd", "MiB/s")]


@dataclass
class _Run:
    """One run of ior: what its header says, and its results."""

    line: int = 0  # where it starts; 0 when there is no such line
    finished: bool = True
    summary: set[str] | None = None  # the operations in it, once it has begun
    order: str = ""
    repetitions: int | None = None
    tasks: int | None = None
    segments: int | None = None
    stonewall: bool = False  # it may have ended before all was moved
    about: float | None = None  # bytes of all files, as rounded as they are printed
    own_file: bool = False  # every task has a file
    options: dict = field(default_factory=dict)
    moved: int | None = None  # bytes, as a warning before a result says
    done: Counter = field(default_factory=Counter)  # operation -> repetitions
    bytes: dict = field(default_factory=dict)  # operation -> the bytes of its repetitions
    columns: list[str] = field(default_factory=list)  # of the summary
    repetition: list[tuple] = field(default_factory=list)  # each with its rows, until the summary told the segments


def read(source: Source) -> Result:
    """Rows of each repetition (throughput, rate, latency, times) and of the summary.

    Bytes are those ior says it moved, else the size of all files, which a run without stonewall moves: tasks times
    segments times the size of a block, for of the whole it prints three digits. Where the header has no segments, the
    command line or the summary tells them. Raises Malformed for a text without
    results, with a cut line, or whose run has not all results.
    """
    result, run, head, results = Result(source.name, {"tool": "ior"}), _Run(), [], 0
    for at, line in enumerate(source.rows, 1):
        line = LOG.sub("", line)
        words = line.split()
        if found := re.match(r"IOR-(\S+?):", line):
            _end(result, run, at)
            result.common["tool_version"], run = found[1], _Run(at, finished=False)
        elif re.match(r"\s*(Run )?finished\s*:", line, re.IGNORECASE):
            run.finished = True
        elif _head(result, at, line, run):
            continue
        elif words[:2] == ["access", "bw(MiB/s)"]:
            if "iter" not in words:
                raise Malformed(at, "the head of the table has no column 'iter', so it is cut short")
            head, run.summary = words, None
        elif line.startswith("Summary of all tests"):
            run.summary = set()
        elif head and run.summary is None and words and words[0] in ("write", "read", "remove"):
            if len(words) != len(head):
                what = f"{words[0]!r} has {len(words)} values where the head has {len(head)}, so the line is cut short"
                raise Malformed(at, what)
            _repetition(result, at, dict(zip(head, words, strict=True)), run)
            results += 1
        elif run.summary is not None and words[:1] == ["Operation"]:
            run.columns = words
        elif run.summary is not None and words and words[0] in ("write", "read"):
            _summary(result, at, words, run)
    if not results:
        raise Malformed(source.last, "ior's table of results ('access bw(MiB/s) ...') is missing up to the end")
    _end(result, run, source.last)
    return result


def _summary(result: Result, at: int, words: list[str], run: _Run) -> None:
    if len(words) < 10 or run.summary is None:
        raise Malformed(at, f"the summary of {words[0]!r} is cut short")
    run.summary.add(words[0])
    told = dict(zip(run.columns, words, strict=False)).get("segcnt")
    if told and run.segments is None:
        run.segments = whole(told, at)
    _checks(result, run)
    moved = set(run.bytes.get(words[0], []))
    options = _sizes(run) | {"bytes": moved.pop() if len(moved) == 1 else None}
    for (name, unit), text in zip(_SUMMARY, words[1:5], strict=True):
        result.add(at, words[0], "throughput", text, unit, statistic=name, **options)


def _head(result: Result, at: int, line: str, run: _Run) -> bool:
    """Whether a line is a warning, or one of those before the results."""
    if re.match(r"\s*WARNING", line, re.IGNORECASE):
        result.find("warning", f"ior warned: {' '.join(line.split())}", "the run may not be what was asked for", at)
        if found := re.search(r"Using actual aggregate bytes moved\s*=\s*(\d{1,20})\b", line, re.ASCII):
            run.moved = whole(found[1], at)
    elif found := re.match(r"\s*(Command line|Path|ordering inter file)\s*(?:used)?\s*:\s*(.*)", line):
        key = {"Command line": "workload", "Path": "configuration"}.get(found[1])
        if key:
            result.common[key] = found[2].strip()
            if key == "workload":
                _command(run, found[2], at)
        else:
            run.order = found[2].strip()
    elif found := re.match(r"\s*(xfersize|blocksize|aggregate filesize)\s*[:=]\s*([\d.]+) (bytes|[KMGT]iB)\s*$", line):
        size = number(found[2], at) * _SIZES[found[3]]
        # With decimals it is rounded. A run that a stonewall ends may be asked for more than there can be.
        exact = "." not in found[2] and size <= LARGEST
        if found[1] == "aggregate filesize":
            run.about = size
        run.options[_OPTIONS[found[1]]] = int(size) if exact else None
    elif found := re.match(r"\s*access\s*[:=]\s*(\S+)", line):
        run.own_file = found[1].startswith("file-per-process")
    elif found := re.match(r"\s*(tasks|clients|segments|repetitions)\s*[:=]\s*(\d+)\b", line, re.ASCII):
        setattr(run, found[1].replace("clients", "tasks"), whole(found[2], at))
    elif found := re.match(r"\s*pattern\s*=\s*\w+ \((\d+) segments?\)", line, re.ASCII):  # of versions 2
        run.segments = whole(found[1], at)
    elif found := re.match(r"\s*stonewallingTime\s*[:=]\s*(\d+)", line, re.ASCII):
        run.stonewall |= whole(found[1], at) > 0
    else:
        return False
    return True


def _command(run: _Run, text: str, at: int) -> None:
    """What the command line tells: ended by a stonewall or not, and the segments, of which there is one by default."""
    run.stonewall = bool(re.search(r"(^|\s)'?-D[\s'=]*[1-9]", text))
    if found := re.search(r"(?:^|\s)'?(?:-s[\s'=]*|--segmentCount=)(\d+)\b", text, re.ASCII):
        run.segments = whole(found[1], at)
    elif not re.search(r"(^|\s)'?-f[\s'=]", text):  # a file of options
        run.segments = 1


def _end(result: Result, run: _Run, line: int) -> None:
    """Raises Malformed when a run has no end, unless all results that were asked for are there.

    A run within IO500 prints neither the summary nor the end.
    """
    _checks(result, run)
    if not run.finished:
        words = result.common.get("workload", "").split()
        wanted = [name for name, flag in (("write", "-w"), ("read", "-r")) if flag in words] or ["write", "read"]
        lack = not run.repetitions or any(run.done[name] < run.repetitions for name in wanted)
        if lack or (run.summary is not None and not set(wanted) <= run.summary):
            raise Malformed(line, f"the run started in line {run.line} has no end ('Finished')")
        missing = "ior's summary and the line 'Finished' are" if run.summary is None else "the line 'Finished' is"
        why = "a run within IO500 prints none, in another the text is cut short"
        result.find("no-end", f"{missing} missing after the results", why, line)
    if {"write", "read"} <= set(run.done) and run.order.startswith("no tasks offsets"):
        result.find("own-data-read", "every task read back what it had written itself (no task offset)",
                    "the reads may have come from the client's cache")  # fmt: skip


def _sizes(run: _Run) -> dict:
    """Bytes of all files, of a file and of a request, as far as the header of a run tells them exactly."""
    block, record, segments = run.options.get("block"), run.options.get("record_bytes"), run.segments
    total = run.tasks * segments * block if run.tasks and block and segments else run.options.get("bytes")
    if total and run.about and abs(total / run.about - 1) > 0.01:  # there are segments that are not told
        total = segments = None
    own = segments * block if run.own_file and block and segments and not run.stonewall else None
    sizes = {"bytes": total, "file_bytes": own, "record_bytes": record}
    return {key: size if size and size <= LARGEST else None for key, size in sizes.items()}


def _repetition(result: Result, line: int, cells: dict, run: _Run) -> None:
    """The rows of one line. Their sizes come when the run has told all."""
    operation, iteration = cells["access"], whole(cells["iter"], line)
    run.done[operation] += 1
    rows, found = [], {}
    for column, (quantity, unit, part) in _COLUMNS.items():
        text = cells.get(column, "-")
        if text != "-":
            rows.append(row := result.add(line, operation + part, quantity, text, unit, iteration=iteration))
            found[column] = row["value"]
            if column == "Latency(s)":
                row["statistic"] = "mean"
    printed = {}
    for key, column in (("record_bytes", "xfer(KiB)"), ("file_bytes", "block(KiB)")):
        text = cells.get(column, "-")
        if text != "-" and (size := number(text, line) * 1024).is_integer() and size <= LARGEST:  # else it is rounded
            printed[key] = int(size)
    run.repetition.append((line, operation, iteration, rows, found, printed, run.moved))
    run.moved = None


def _checks(result: Result, run: _Run) -> None:
    """The sizes of the repetitions so far, and what is found of them."""
    for line, operation, iteration, rows, found, printed, moved in run.repetition:
        sizes = _sizes(run)
        sizes["record_bytes"] = sizes["record_bytes"] or printed.get("record_bytes")
        if run.own_file and run.segments == 1 and not run.stonewall and not run.options.get("block"):
            sizes["file_bytes"] = sizes["file_bytes"] or printed.get("file_bytes")
        if moved is not None:
            sizes["bytes"], sizes["file_bytes"] = moved, None
        if operation == "remove":
            sizes = {}
        if not _check(result, line, f"{operation} {iteration}", found, sizes.get("bytes")) and run.stonewall:
            sizes["bytes"] = None  # what was asked for, of which a part was moved
        for row in rows:
            row |= sizes
        run.bytes.setdefault(operation, []).append(sizes.get("bytes"))
    run.repetition = []


def _check(result: Result, line: int, what: str, found: dict[str, float], moved: int | None) -> bool:
    """Findings when a throughput is not the bytes over the time (False), or a part is longer than the whole."""
    longest = max((column for column in found if column.endswith("(s)")), key=found.__getitem__, default="total(s)")
    if found.get("total(s)") and found[longest] > 1.01 * found["total(s)"] + 0.01:
        told = f"{what}: {longest} is {found[longest]:g} s, the whole took {found['total(s)']:g} s"
        result.find("longer-than-run", told, "no part can take longer than the whole, so a number is wrong", line)
    throughput, seconds = found.get("bw(MiB/s)"), found.get("total(s)")
    if moved and throughput and seconds and abs(moved / seconds / throughput - 1) > 0.02:
        told = (
            f"{what}: {moved} bytes in {seconds:g} s are {moved / seconds / 2**20:.2f} MiB/s, "
            f"printed are {throughput / 2**20:.2f}"
        )
        why = "not all data was moved (stonewall) or a number is wrong"
        result.find("rate-not-bytes-over-time", told, why, line)
        return False
    return True
