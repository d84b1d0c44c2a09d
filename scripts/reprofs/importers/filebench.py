"""filebench 1.4 and 1.5: the breakdown by operation and the summary at the end of a run.

Units: mb/s is MiB/s, latencies are ms, the processor's time (1.4 alone) us. Rates of an operation are printed without
decimals. Source: stats.c of 1.4 and 1.5, the page "Collected metrics" of its documentation, public outputs of 1.4.9,
1.5-alpha1 and 1.5-alpha3.
"""

import re
from dataclasses import dataclass, field

from reprofs.importers import Malformed, Result, Source, number, whole

WHAT = "the text that filebench prints"

_OPERATION = re.compile(
    r"(\S+)\s+(?:(\d+)ops\s+)?(\d+)ops/s\s+([\d.]+)mb/s\s+([\d.]+)ms/op(?:\s+(\d+)us/op-cpu)?"
    r"(?:\s+\[([\d.]+)ms\s*-\s*([\d.]+)ms\])?(?:\s+\[[\d ]*\])?",
    re.ASCII,
)
_SUMMARY = re.compile(
    r"(\d+) ops,? ([\d.]+) ops/s,? \(?(\d+)/(\d+) (?:rd/wr|r/w)\)?,? +([\d.]+)mb/s,? +(?:(\d+)us cpu/op, +)?"
    r"([\d.]+)ms(?:/op| latency)",
    re.ASCII,
)


@dataclass
class _Run:
    """A run since its start: seconds it took, its breakdowns, the longest mean latency, and what had no number."""

    number: int = -1
    seconds: float | None = None
    breakdowns: int = 0
    open: bool = False  # within a breakdown, whose summary has not come
    longest: float = 0
    zero: list[str] = field(default_factory=list)


def read(source: Source) -> Result:
    """Rows of each operation and of the whole: count, rate, throughput, latency.

    Numbers that are printed as 0 are left out: they are smaller than their digits. Raises Malformed for a line that is
    cut short, and when filebench itself says that there are no valid results.
    """
    result, run = Result(source.name, {"tool": "filebench"}), _Run()
    for at, line in enumerate(source.rows, 1):
        line = re.sub(r"^\s*(\d+: )?(\d+\.\d+: )?", "", line).rstrip()  # process and time
        if found := re.match(r"Filebench Version (\S+)", line):
            result.common |= {"tool_version": found[1], "workload": None}
        elif found := re.match(r"(.+?) Version (\S+) +personality successfully loaded", line):
            result.common["workload"] = f"{found[1]} {found[2]}"
        elif "NO VALID RESULTS" in line:
            raise Malformed(at, "filebench says that the run ended early and has no valid results")
        elif line.startswith("Running..."):
            _close(result, run, at)
            run = _Run(run.number + 1)
        elif found := re.match(r"Run took (\d+) seconds", line):
            run.seconds = whole(found[1], at)
            result.add(at, "run", "time", found[1], "s", iteration=max(run.number, 0))
        elif line.startswith("Per-Operation Breakdown"):
            _breakdown(result, run, at)
        elif line.startswith("IO Summary"):
            _summary(result, run, at, line.partition(":")[2].strip())
        elif run.open and re.search(r"\d(ops|ops/s)(\s|$)", line):
            _operation(result, run, at, line)
    _close(result, run, source.last)
    if not any(row["operation"] != "run" for row in result.rows):
        raise Malformed(source.last, "filebench's breakdown and its 'IO Summary' are missing up to the end")
    return result


def _breakdown(result: Result, run: _Run, at: int) -> None:
    _close(result, run, at)
    run.open, run.number = True, max(run.number, 0)
    run.breakdowns += 1
    if run.breakdowns > 1:
        why = "results of `stats snap` and `psrun` are running totals, of which the last one has all"
        result.find("several-breakdowns", "a run has several breakdowns", why, at)


def _close(result: Result, run: _Run, at: int) -> None:
    """The end of a breakdown, with or without its summary."""
    if run.open:
        why = "the text is cut short, and operations may be missing"
        result.find("no-end", "the breakdown ends without its 'IO Summary'", why, at)
        run.open = False
    if run.zero:
        what = f"{len(run.zero)} numbers are printed as 0, of which the first is {run.zero[0]}"
        result.find("too-short", what, "they are smaller than their digits can tell, and are left out", at)
        run.zero = []


def _operation(result: Result, run: _Run, at: int, line: str) -> None:
    found = _OPERATION.fullmatch(line)
    if not found:
        raise Malformed(at, "the line of an operation is cut short or of an unknown version")
    name, count, rate, throughput, mean, processor, low, high = found.groups()
    common = {"iteration": run.number, "items": whole(count, at) if count else None}
    if count and not common["items"]:
        result.find("not-run", f"{name} was done 0 times", "it is no measurement", at)
        return
    for operation, quantity, text, unit, statistic in (
        (name, "count", count, "1", "total"),
        (name, "rate", rate, "1/s", "value"),
        (name, "throughput", throughput, "MiB/s", "value"),
        (name, "latency", mean, "ms", "mean"),
        (name, "latency", low, "ms", "min"),
        (name, "latency", high, "ms", "max"),
        (f"{name} processor", "time", processor, "us", "mean"),
    ):
        if text and number(text, at):
            result.add(at, operation, quantity, text, unit, statistic=statistic, **common)
        elif text and quantity != "throughput":  # of which most operations have none
            run.zero.append(f"{statistic} {quantity} of {operation}")
    run.longest = max(run.longest, number(mean, at))


def _summary(result: Result, run: _Run, at: int, text: str) -> None:
    found = _SUMMARY.fullmatch(text)
    if not found:
        raise Malformed(at, "the line 'IO Summary' is cut short or of an unknown version")
    count, rate, reads, writes, throughput, processor, mean = found.groups()
    common = {"iteration": max(run.number, 0)}
    for operation, quantity, printed, unit, statistic in (
        ("all", "count", count, "1", "total"),
        ("all", "rate", rate, "1/s", "value"),
        ("all reads", "rate", reads, "1/s", "value"),
        ("all writes", "rate", writes, "1/s", "value"),
        ("all", "throughput", throughput, "MiB/s", "value"),
        ("all processor", "time", processor, "us", "mean"),
        ("all", "latency", mean, "ms", "mean"),
    ):
        if printed and number(printed, at):
            items = whole(count, at) if operation == "all" else None
            result.add(at, operation, quantity, printed, unit, statistic=statistic, items=items, **common)
    if not number(mean, at) and run.longest:
        told = f"the summary has latency {mean}, an operation {run.longest:g} ms in the mean"
        why = "the summary times reads and writes alone, and counts all operations; its latency is left out"
        result.find("latency-of-others", told, why, at)
    if run.seconds and number(rate, at) and abs(whole(count, at) / number(rate, at) - run.seconds) > 1.5:
        told = f"{count} operations at {rate}/s take {whole(count, at) / number(rate, at):.0f} s, not {run.seconds:g}"
        result.find("rate-not-items-over-time", told, "a number is wrong, or of another time", at)
    run.open = False
    _close(result, run, at)
