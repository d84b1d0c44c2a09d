"""mdtest 1.9 to 4.x: the SUMMARY tables of rates and times."""

import math
import re
from datetime import datetime

from . import Malformed, Result, Source, number

WHAT = "the text that mdtest prints"

_LAUNCHED = re.compile(r"mdtest-(\S+) was launched with (\d+) total task")
_SUMMARY = re.compile(r"SUMMARY(?: (rate|time))?\s*(?:\(in ([^)]*)\))?\s*:\s*\(of (\d+) iterations?\)")
_ROW = re.compile(r"((?:File|Directory|Tree) \w+)\s*:?((?:\s+\S+)*)\s*$")
_TASKS = re.compile(r"(\d+) tasks, (\d+) (files/directories|files|directories)")


def read(source: Source) -> Result:
    """One row for each of Max, Min, Mean and Std Dev; with three iterations also each iteration's value, derived.

    The printed text has no unit before 4.x: rates are operations a second, times seconds of a whole phase.
    Raises Malformed for a table that is missing or cut short.
    """
    result = Result(source.name, {"tool": "mdtest"})
    kind, statistics, started, finished, items, line_number, clock = "", [], 0, True, {}, 0, []
    iterations, tables, last, first_row = 0, 0, "", 0
    for line_number, line in enumerate(source.text.splitlines(), 1):
        line = line.strip()
        if found := _LAUNCHED.search(line):
            result.common["tool_version"] = found[1]
        elif line.startswith("-- started at"):
            if not finished:
                raise Malformed(line_number, f"a run starts before that of line {started} has ended")
            started, finished, clock, first_row = line_number, False, [line], len(result.rows)
        elif line.startswith("-- finished at"):
            finished = True
            _wall_clock(result, result.rows[first_row:], [*clock, line])
        elif line.startswith("Command line used:"):
            result.common["workload"] = line.partition(":")[2].strip()
        elif line.startswith("Path") and ":" in line:
            result.common["configuration"] = line.partition(":")[2].strip()
        elif found := re.match(r"FS\s*:\s*(.*)", line):
            _filesystem(result, found[1], line_number)
        elif found := _TASKS.match(line):
            count = int(found[2])
            items = {"File": count, "Directory": count}
            items = {family: n for family, n in items.items() if family.lower()[:4] in found[3]}
        elif found := _SUMMARY.match(line):
            if tables and last != "Tree removal":
                raise Malformed(line_number, f"the table before ends after {last or 'its head'!r}")
            kind, iterations, last = found[1] or "rate", int(found[3]), ""
            if iterations < 1:
                raise Malformed(line_number, "a summary of no iterations")
            unit = {"rate": "1/s", "time": "ms" if found[2] == "ms/op" else "s"}[kind]
            tables += 1
        elif line.startswith("Operation") and "Mean" in line:
            statistics = re.findall(r"Max|Min|Mean|Std Dev", line)
        elif kind and (found := _ROW.match(line)):
            values = found[2].split()
            if len(values) != len(statistics) or statistics[-4:] != ["Max", "Min", "Mean", "Std Dev"]:
                raise Malformed(line_number, f"{found[1]!r} has {len(values)} values where the head has "
                                f"{len(statistics)}, so the table is cut short or of an unknown version")  # fmt: skip
            last = found[1]
            # The 3.4 series may put statistics over the ranks in front; those over the iterations are the last four.
            values = [(text, number(text, line_number)) for text in values[-4:]]
            _summary(result, f"line {line_number}", last, kind, unit, iterations, values, items)
    if not tables:
        raise Malformed(line_number or 1, "mdtest's SUMMARY table is missing up to the end")
    if last != "Tree removal":
        raise Malformed(line_number, f"the text ends after {last or 'the head'!r} of the SUMMARY table")
    if not finished:
        raise Malformed(line_number, f"the run started in line {started} has no end ('-- finished at')")
    return result


def _filesystem(result: Result, text: str, line: int) -> None:
    numbers = re.findall(r"(?<![\w.])(-?(?:nan|inf|\d+(?:\.\d+)?))(?=[ %])", text)
    shares = re.findall(r"(-?(?:nan|inf|\d+(?:\.\d+)?))%", text)
    if any(n.startswith("-") or n in ("nan", "inf") for n in numbers) or any(float(n) > 100 for n in shares):
        why = "the server's statfs is wrong, so the fill level of this run is unknown"
        result.find("impossible-size", f"the file system reports a size that cannot be ({text})", why, f"line {line}")


def _summary(result: Result, place: str, operation: str, kind: str, unit: str, iterations: int, values, items) -> None:
    """The rows of one line of a table. `values`: text and number of max, min, mean, sd."""
    (_, high), (_, low), (mean_text, mean), (_, sd) = values
    others = {"items": items.get(operation.split()[0])}
    if high == low == mean == 0:
        why = "mdtest prints 0.000 for a phase that was not asked for, which is no measurement"
        result.find("not-run", f"{operation} has {kind} {mean_text}, so the phase did not run", why, place)
        return
    slack = _slack(mean_text)
    if iterations == 1:
        row = result.add(place, operation, kind, mean_text, unit, iteration=0, **others)
        _times(result, [row])
        return
    for name, (text, _) in zip(("max", "min", "mean", "sd"), values, strict=True):
        result.add(place, operation, kind, text, unit, statistic=name, **others)
    recovered = recover(iterations, high, low, mean, sd, slack)
    damaged = not low - slack <= mean <= high + slack or (iterations <= 3 and not recovered)
    if damaged:
        what = f"{operation}: no {iterations} values have this max, min, mean and Std Dev"
        result.find("impossible-summary", what, "a number of the table was changed or lost", place)
    if not recovered:
        return
    found, divisor = recovered  # their order in time is not known, so they have no iteration number
    _times(result, [result.add(place, operation, kind, value, unit, derived=True, **others) for value in found])
    if divisor == "n" and kind == "rate":
        sample = sd * math.sqrt(iterations / (iterations - 1))
        result.add(place, operation, kind, sample, unit, derived=True, statistic="sd (n - 1)", **others)
        what = f"{operation}: the printed Std Dev {sd:g} divides by n; with n - 1 it is {sample:.3f}"
        result.find("population-sd", what, "versions from 4.0 divide by n - 1, so the two do not compare", place)
    if kind == "rate" and low > 0:
        harmonic = len(found) / sum(1 / value for value in found)
        result.add(place, operation, kind, harmonic, unit, derived=True, statistic="harmonic mean", **others)
        if mean > 1.1 * harmonic:
            what = f"{operation}: the mean of the rates is {mean:.0f}/s, all operations over all time {harmonic:.0f}/s"
            result.find("mean-of-rates", what, "an arithmetic mean of rates overstates by the slow iterations", place)


def _times(result: Result, rates: list[dict]) -> None:
    """Seconds of a phase, from its rate and its items: one iteration handles as many as the head says."""
    for row in rates:
        if row["quantity"] == "rate" and row["items"]:
            same = {"items": row["items"], "iteration": row.get("iteration")}
            result.add(row["place"], row["operation"], "time", row["items"] / row["value"], "s", derived=True, **same)


def _wall_clock(result: Result, rows: list[dict], clock: list[str]) -> None:
    """Whether the derived times of all phases fill the time between the first and the last line of a run."""
    times = [row for row in rows if row["derived"] and row["quantity"] == "time"]
    ran = {row["operation"] for row in rows if row["quantity"] == "rate" and not row["operation"].startswith("Tree")}
    stamps = [found[0] for line in clock if (found := re.search(r"\d+/\d+/\d+ \d+:\d+:\d+", line))]
    if not times or ran - {row["operation"] for row in times} or len(stamps) != 2:
        return
    try:
        start, end = (datetime.strptime(stamp, "%m/%d/%Y %H:%M:%S") for stamp in stamps)
    except ValueError:
        return
    seconds, wall = sum(row["value"] for row in times), (end - start).total_seconds()
    if abs(wall - seconds) > max(0.02 * wall, 2):
        what = f"the phases take {seconds:.0f} s by their rates, the run took {wall:.0f} s by its clock"
        result.find("time-unaccounted", what, "time went by outside the phases, or a number is wrong")


def _slack(text: str) -> float:
    """Half a unit in the last printed place, and a bit."""
    return 0.51 * 10.0 ** -len(text.partition(".")[2])


def recover(
    n: int, high: float, low: float, mean: float, sd: float, slack: float = 0.00051
) -> tuple[list[float], str] | None:
    """All of two or three values from their statistics, and the divisor of the printed sd ("n", "n - 1" or "either").

    With three mid = 3 mean - max - min, exact to 3 times the rounding of the mean. None when the sd or the mean is of
    no such values, or when there are more.
    """
    reach = 5 * slack
    found = {2: [high, low], 3: [high, 3 * mean - high - low, low]}.get(n)
    if not found or not low - reach <= found[1] <= high + reach or abs(sum(found) / n - mean) > reach:
        return None
    found[1] = min(max(found[1], low), high)
    squares = sum((x - mean) ** 2 for x in found)
    fits = [name for name, divisor in (("n", n), ("n - 1", n - 1)) if abs(math.sqrt(squares / divisor) - sd) <= reach]
    return (found, fits[0] if len(fits) == 1 else "either") if fits else None
