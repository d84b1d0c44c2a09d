"""compilebench 0.6: the report at the end of a run, and the lines of single operations before it.

Units: its MB/s are MiB/s, times are s. Source: the program of 0.6 and its output.
"""

import re

from reprofs.importers import Malformed, Result, Source, whole

WHAT = "the text that compilebench prints"

_TAGS = ["intial create", "create", "patch", "compile", "clean", "read tree", "read compiled tree"]
_TAGS += ["delete tree", "delete compiled tree", "stat tree", "stat compiled tree"]
_TOTAL = re.compile(
    r"(?P<tag>[a-z ]+?) total runs (?P<runs>\d+) avg (?P<value>\S+) (?P<unit>MB/s|seconds) "
    r"\(user (?P<user>\S+)s sys (?P<system>\S+)s\)$"
)
_SINGLE = re.compile(
    r"(?P<what>create|patch|compile|clean|read|delete|stat)(?: dir)? (?P<tree>\S*kernel-\d+)(?: (?P<size>\d+)MB)? in "
    r"(?P<seconds>[\d.]+)(?: seconds)?(?: \(?(?P<rate>[\d.]+) MB/s\)?)?$"
)


def read(source: Source) -> Result:
    """Mean rate or time, processor times and runs of each operation; single operations where they are in the text.

    compilebench's MB is 2^20 bytes. Raises Malformed when the report is missing, cut short or lacks an operation.
    """
    result = Result(source.name, {"tool": "compilebench"})
    singles: dict = {}
    said, before = set(), ""
    for at, line in enumerate(source.rows, 1):
        line = line.strip()
        if found := re.match(r"no runs for (.+)$", line):
            tag = found[1]
            if tag not in _TAGS:
                raise Malformed(at, f"the operation {tag!r} is not known or cut short")
            why = "the random order did not choose it, or --makej has no such operation"
            result.find("not-run", f"{_title(tag)} did not run", why, at)
        elif " total runs " in line:
            found = _TOTAL.match(line)
            if not found or found["tag"] not in _TAGS:
                raise Malformed(at, "the line of the report is cut short or of an unknown version")
            tag = found["tag"]
            _total(result, at, found)
        else:
            if found := _SINGLE.match(line):
                _single(result, at, found, singles)
            continue
        if tag in said and line != before:  # the same line at once again is told for every format
            raise Malformed(at, f"a second report begins with {tag!r}; put each report into a file of its "
                            "own, for nothing in the text tells their runs apart")  # fmt: skip
        said.add(tag)
        before = line
    missing = [tag for tag in _TAGS if tag not in said]
    if missing:
        raise Malformed(source.last, f"the report ends without {missing[0]!r}")
    for what, values in singles.items():
        _means(result, what, values)
    return result


def _title(tag: str) -> str:
    """compilebench spells initial without its second i."""
    return tag.replace("intial", "initial")


def _total(result: Result, line: int, found: re.Match) -> None:
    operation, runs = _title(found["tag"]), whole(found["runs"], line)
    quantity, unit = ("throughput", "MiB/s") if found["unit"] == "MB/s" else ("time", "s")
    result.add(line, operation, quantity, found["value"], unit, statistic="mean", items=runs)
    result.add(line, operation, "count", found["runs"], "1", statistic="total", items=runs)
    result.add(line, f"{operation} user", "time", found["user"], "s", statistic="mean", items=runs)
    result.add(line, f"{operation} system", "time", found["system"], "s", statistic="mean", items=runs)
    if runs < 5:
        what = f"runs of {operation}: {runs}"
        result.find("few-runs", what, "a mean of so few does not tell how much they vary", line)


def _single(result: Result, line: int, found: re.Match, singles: dict) -> None:
    what, values = found["what"], singles.setdefault(found["what"], [])
    moved = whole(found["size"], line) * 2**20 if found["size"] else None
    others = {"iteration": len(values), "client": None, "bytes": moved, "configuration": found["tree"]}
    seconds = result.add(line, what, "time", found["seconds"], "s", **others)["value"]
    rate = result.add(line, what, "throughput", found["rate"], "MiB/s", **others)["value"] if found["rate"] else None
    values.append((seconds, rate))


def _means(result: Result, what: str, values: list[tuple[float, float | None]]) -> None:
    """All bytes over all time, beside the arithmetic mean of rates that compilebench prints."""
    rated = [(seconds, rate) for seconds, rate in values if rate and seconds]
    if len(rated) < 2:
        return
    honest = sum(seconds * rate for seconds, rate in rated) / sum(seconds for seconds, _ in rated)
    mean = sum(rate for _, rate in rated) / len(rated)
    result.add("", what, "throughput", honest / 2**20, "MiB/s", statistic="bytes over time", derived=True)
    if mean > 1.05 * honest:
        text = (
            f"{what}: the mean of the rates is {mean / 2**20:.1f} MiB/s, all bytes over all time {honest / 2**20:.1f}"
        )
        result.find("mean-of-rates", text, "an arithmetic mean of rates overstates by the slow runs")
