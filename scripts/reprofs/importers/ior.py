"""IOR 2.10 to 4.x: the results of each repetition and the summary of all tests."""

import re
from collections import Counter
from dataclasses import dataclass, field

from reprofs.importers import LARGEST, Malformed, Result, Source, number

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
_OPTIONS = {"xfersize": "record_bytes", "aggregate filesize": "bytes"}
_SIZES = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_SUMMARY = [("max", "MiB/s"), ("min", "MiB/s"), ("mean", "MiB/s"), ("sd", "MiB/s")]


@dataclass
class _Run:
    """One run of ior: what its header says, and its results."""

    line: int = 0  # where it starts; 0 when there is no such line
    finished: bool = True
    summary: bool = False
    order: str = ""
    repetitions: int | None = None
    own_file: bool = False  # every task has a file, of one block
    options: dict = field(default_factory=dict)
    moved: int | None = None  # bytes, as a warning before a result says
    done: Counter = field(default_factory=Counter)  # operation -> repetitions
    bytes: dict = field(default_factory=dict)  # operation -> the bytes of its repetitions


def read(source: Source) -> Result:
    """Rows of each repetition (throughput, rate, latency, times) and of the summary.

    Bytes are those ior says it moved, else the size of all files, which a run without stonewall moves. Raises Malformed
    for a text without results, with a cut line, or whose run does not end.
    """
    result, run, head, line_number, results = Result(source.name, {"tool": "ior"}), _Run(), [], 0, 0
    for line_number, line in enumerate(source.text.splitlines(), 1):
        words, place = line.split(), f"line {line_number}"
        if found := re.match(r"IOR-(\S+?):", line):
            _end(result, run, line_number)
            result.common["tool_version"], run = found[1], _Run(line_number, finished=False)
        elif re.match(r"\s*(Run )?finished\s*:", line, re.IGNORECASE):
            run.finished = True
        elif re.match(r"\s*WARNING", line, re.IGNORECASE):
            result.find("warning", f"ior warned: {' '.join(words)}", "the run may not be what was asked for", place)
            if found := re.search(r"Using actual aggregate bytes moved\s*=\s*(\d{1,20})\b", line, re.ASCII):
                run.moved = int(found[1])
        elif found := re.match(r"\s*(Command line|Path|ordering inter file)\s*(?:used)?\s*:\s*(.*)", line):
            key = {"Command line": "workload", "Path": "configuration"}.get(found[1])
            if key:
                result.common[key] = found[2].strip()
            else:
                run.order = found[2].strip()
        elif found := re.match(r"\s*(xfersize|aggregate filesize)\s*[:=]\s*([\d.]+) (bytes|[KMGT]iB)\s*$", line):
            size = int(number(found[2], line_number) * _SIZES[found[3]])
            # A run that a stonewall ends may be asked for more than there can be.
            run.options[_OPTIONS[found[1]]] = size if size <= LARGEST else None
        elif found := re.match(r"\s*access\s*[:=]\s*(\S+)", line):
            run.own_file = found[1].startswith("file-per-process")
        elif found := re.match(r"\s*segments\s*[:=]\s*(\d+)", line):
            run.own_file &= found[1] == "1"
        elif found := re.match(r"\s*repetitions\s*[:=]\s*(\d+)\s*$", line):
            run.repetitions = int(found[1])
        elif words[:2] == ["access", "bw(MiB/s)"]:
            if "iter" not in words:
                raise Malformed(line_number, "the head of the table has no column 'iter', so it is cut short")
            head, run.summary = words, False
        elif line.startswith("Summary of all tests"):
            run.summary = True
        elif head and not run.summary and words and words[0] in ("write", "read", "remove"):
            if len(words) != len(head):
                what = f"{words[0]!r} has {len(words)} values where the head has {len(head)}, so the line is cut short"
                raise Malformed(line_number, what)
            _repetition(result, line_number, dict(zip(head, words, strict=True)), run)
            results += 1
        elif run.summary and words and words[0] in ("write", "read"):
            if len(words) < 10:
                raise Malformed(line_number, f"the summary of {words[0]!r} is cut short")
            sizes = set(run.bytes.get(words[0], [run.options.get("bytes")]))
            options = run.options | {"bytes": sizes.pop() if len(sizes) == 1 else None}
            for (name, unit), text in zip(_SUMMARY, words[1:5], strict=True):
                number(text, line_number)
                result.add(place, words[0], "throughput", text, unit, statistic=name, **options)
    if not results:
        raise Malformed(line_number or 1, "ior's table of results ('access bw(MiB/s) ...') is missing up to the end")
    _end(result, run, line_number)
    return result


def _end(result: Result, run: _Run, line: int) -> None:
    """Raises Malformed when a run has no end, unless all results that were asked for are there.

    A run within IO500 prints neither the summary nor the end.
    """
    if not run.finished:
        words = result.common.get("workload", "").split()
        wanted = [name for name, flag in (("write", "-w"), ("read", "-r")) if flag in words] or ["write", "read"]
        if run.summary or not run.repetitions or any(run.done[name] < run.repetitions for name in wanted):
            raise Malformed(line, f"the run started in line {run.line} has no end ('Finished')")
        what = "ior's summary and the line 'Finished' are missing after the results"
        result.find("no-end", what, "a run within IO500 prints none, in another the text is cut short", f"line {line}")
    if {"write", "read"} <= set(run.done) and run.order.startswith("no tasks offsets"):
        result.find("own-data-read", "every task read back what it had written itself (no task offset)",
                    "the reads may have come from the client's cache")  # fmt: skip


def _repetition(result: Result, line: int, cells: dict, run: _Run) -> None:
    """The rows of one line, and a finding when its throughput is not its bytes over its time."""
    operation, iteration, place = cells["access"], int(number(cells["iter"], line)), f"line {line}"
    run.done[operation] += 1
    sizes = dict(run.options)
    if run.moved is not None:
        sizes["bytes"], run.moved = run.moved, None
    if cells.get("xfer(KiB)", "-") != "-":
        sizes.setdefault("record_bytes", int(number(cells["xfer(KiB)"], line) * 1024))
    if run.own_file and cells.get("block(KiB)", "-") != "-":
        sizes["file_bytes"] = int(number(cells["block(KiB)"], line) * 1024)
    if operation == "remove":
        sizes = {}
    run.bytes.setdefault(operation, []).append(sizes.get("bytes"))
    found = {}
    for column, (quantity, unit, part) in _COLUMNS.items():
        text = cells.get(column, "-")
        if text != "-":
            number(text, line)
            row = result.add(place, operation + part, quantity, text, unit, iteration=iteration, **sizes)
            found[column] = row["value"]
            if column == "Latency(s)":
                row["statistic"] = "mean"
    moved, throughput, seconds = sizes.get("bytes"), found.get("bw(MiB/s)"), found.get("total(s)")
    if moved and throughput and seconds and abs(moved / seconds / throughput - 1) > 0.02:
        what = (
            f"{operation} {iteration}: {moved} bytes in {seconds:g} s are {moved / seconds / 2**20:.2f} MiB/s, "
            f"printed are {throughput / 2**20:.2f}"
        )
        why = "not all data was moved (stonewall) or a number is wrong"
        result.find("rate-not-bytes-over-time", what, why, place)
