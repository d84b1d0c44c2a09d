"""IOR 2.10 to 4.x: the results of each repetition and the summary of all tests."""

import re

from . import Malformed, Result, Source, number

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


def read(source: Source) -> Result:
    """Rows of each repetition (throughput, rate, latency, times) and of the summary.

    Raises Malformed for a text without results, with a cut line, or whose run does not end.
    """
    result = Result(source.name, {"tool": "ior"})
    head, options, times, order, phases, summary, started, finished, line_number = (
        [],
        {},
        {},
        "",
        set(),
        False,
        0,
        True,
        0,
    )
    for line_number, line in enumerate(source.text.splitlines(), 1):
        words, place = line.split(), f"line {line_number}"
        if found := re.match(r"IOR-(\S+?):", line):
            result.common["tool_version"], started, finished = found[1], line_number, False
        elif re.match(r"\s*(Run )?finished\s*:", line, re.IGNORECASE):
            finished = True
        elif re.match(r"\s*WARNING", line, re.IGNORECASE):
            result.find("warning", f"ior warned: {' '.join(words)}", "the run may not be what was asked for", place)
        elif found := re.match(r"\s*(Command line|Path|ordering inter file|access)\s*(?:used)?\s*:\s*(.*)", line):
            key = {"Command line": "workload", "Path": "configuration"}.get(found[1])
            if key:
                result.common[key] = found[2].strip()
            elif found[1] == "ordering inter file":
                order = found[2].strip()
        elif found := re.match(r"\s*(xfersize|aggregate filesize)\s*[:=]\s*([\d.]+) (bytes|[KMGT]iB)\s*$", line):
            options[_OPTIONS[found[1]]] = int(float(found[2]) * _SIZES[found[3]])
        elif words[:2] == ["access", "bw(MiB/s)"]:
            head, summary = words, False
        elif line.startswith("Summary of all tests"):
            summary = True
        elif head and not summary and words and words[0] in ("write", "read", "remove"):
            if len(words) != len(head):
                what = f"{words[0]!r} has {len(words)} values where the head has {len(head)}, so the line is cut short"
                raise Malformed(line_number, what)
            _repetition(result, line_number, dict(zip(head, words, strict=True)), options, times)
            phases.add(words[0])
        elif summary and words and words[0] in ("write", "read"):
            if len(words) < 10:
                raise Malformed(line_number, f"the summary of {words[0]!r} is cut short")
            for (name, unit), text in zip(_SUMMARY, words[1:5], strict=True):
                number(text, line_number)
                result.add(place, words[0], "throughput", text, unit, statistic=name, **options)
    if not phases:
        raise Malformed(line_number or 1, "ior's table of results ('access bw(MiB/s) ...') is missing up to the end")
    if not finished:
        raise Malformed(line_number, f"the run started in line {started} has no end ('Finished')")
    if {"write", "read"} <= phases and order.startswith("no tasks offsets"):
        result.find("own-data-read", "every task read back what it had written itself (no task offset)",
                    "the reads may have come from the client's cache")  # fmt: skip
    for (operation, iteration), (throughput, seconds, place) in times.items():
        moved = options.get("bytes", 0)
        if moved and seconds > 0 and throughput > 0 and abs(moved / seconds / throughput - 1) > 0.02:
            what = (
                f"{operation} {iteration}: {moved} bytes in {seconds:g} s are {moved / seconds / 2**20:.2f} MiB/s, "
                f"printed are {throughput / 2**20:.2f}"
            )
            result.find(
                "rate-not-bytes-over-time", what, "not all data was moved (stonewall) or a number is wrong", place
            )
    return result


def _repetition(result: Result, line: int, cells: dict, options: dict, times: dict) -> None:
    """The rows of one line; `times` gets (operation, iteration) -> throughput in B/s, seconds, place."""
    operation, iteration = cells["access"], int(number(cells["iter"], line))
    sizes = dict(options)
    if cells.get("xfer(KiB)", "-") != "-":
        sizes.setdefault("record_bytes", int(number(cells["xfer(KiB)"], line) * 1024))
    if cells.get("block(KiB)", "-") != "-":
        sizes["file_bytes"] = int(number(cells["block(KiB)"], line) * 1024)
    found = {}
    for column, (quantity, unit, part) in _COLUMNS.items():
        text = cells.get(column, "-")
        if text != "-":
            number(text, line)
            found[column] = result.add(
                f"line {line}", operation + part, quantity, text, unit, iteration=iteration, **sizes
            )["value"]
            if column == "Latency(s)":
                result.rows[-1]["statistic"] = "mean"
    if "bw(MiB/s)" in found and "total(s)" in found:
        times[operation, iteration] = (found["bw(MiB/s)"], found["total(s)"], f"line {line}")
