"""mdtest 1.9 to 4.x: the SUMMARY tables of rates and times."""

import math
import re
from dataclasses import dataclass, field
from datetime import datetime

from reprofs.importers import Malformed, Result, Source, number, whole

WHAT = "the text that mdtest prints"

_LAUNCHED = re.compile(r"mdtest-(\S+) was launched with \d+ total task")
_SUMMARY = re.compile(r"SUMMARY(?: (rate|time))?\s*(?:\(in ([^)]*)\))?\s*:\s*\(of (\d+) iterations?\)")
_ROW = re.compile(r"((?:File|Directory|Tree) \w+)\s*:?((?:\s+\S+)*)\s*$")
_TASKS = re.compile(r"(\d+) tasks, (\d+) (files/directories|files|directories)")
# -W ends the creation after so many seconds, -x takes the number of items from a run that did.
_STONEWALL = re.compile(r"(?:^|\s)'?-(?:W[\s'=]*[1-9]|x[\s'=])")
_UNTIL_STONEWALL = re.compile(r"(File \w+ \(stonewall\))\s*:\s*NA\s+NA\s+(\S+)\s+NA$")


@dataclass
class _Run:
    """What is known about one run: the items that its header gives, its rates and times."""

    items: dict[str, int] = field(default_factory=dict)
    stonewall: bool = False  # how many items it handled is then not known
    timed: bool = False  # it printed a table of times
    lowest: dict[str, float] = field(default_factory=dict)  # operation -> its lowest rate
    rates: list[dict] = field(default_factory=list)  # rows of the rates of single iterations
    spent: dict[str, float] = field(default_factory=dict)  # operation -> seconds in all iterations


@dataclass
class _Table:
    kind: str
    head: str
    unit: str
    iterations: int
    line: int
    rows: list[tuple] = field(default_factory=list)  # line, operation, (text, number) of max, min, mean, sd


def read(source: Source) -> Result:
    """One row for each of Max, Min, Mean and Std Dev; with three iterations also each iteration's value, derived.

    Rates are operations a second, times seconds of a whole phase, whatever the head of a table says (mdtest.c of 3.2
    and 4.1). Without a table of times they are derived from the rates, but not when a stonewall decided how many items
    there were. Raises Malformed for a table that is missing or cut short.
    """
    result = Result(source.name, {"tool": "mdtest"})
    run, table, statistics, last = _Run(), None, [], ""
    tables, started, finished, line_number, clock = 0, 0, True, 0, ""
    for line_number, line in enumerate(source.text.splitlines(), 1):
        line = line.strip()
        if found := _LAUNCHED.search(line):
            _derive(result, run)
            result.common["tool_version"], run = found[1], _Run()
            continue
        if line.startswith("Command line used:"):
            result.common["workload"] = line.partition(":")[2].strip()
            run.stonewall = bool(_STONEWALL.search(line))
            continue
        if line.startswith("Path") and ":" in line:
            result.common["configuration"] = line.partition(":")[2].strip()
            continue
        run.stonewall |= "stonewall" in line.lower()
        if "could not read stonewall status file" in line.lower():
            why = "it took the number of items from its command line, and may have looked for files that are not there"
            what = "mdtest could not read how many items the run before had made"
            result.find("stonewall-unread", what, why, f"line {line_number}")
        elif line.startswith("-- started at"):
            if not finished:
                raise Malformed(line_number, f"a run starts before that of line {started} has ended")
            started, finished, clock = line_number, False, line
        elif line.startswith("-- finished at"):
            finished = True
            _derive(result, run)
            _wall_clock(result, run, clock, line)
        elif found := re.match(r"FS\s*:\s*(.*)", line):
            _filesystem(result, found[1], line_number)
        elif found := _TASKS.match(line):
            count = whole(found[2], line_number)
            items = {"File": count, "Directory": count}
            run.items = {family: n for family, n in items.items() if family.lower()[:4] in found[3]}
        elif found := _SUMMARY.match(line):
            if table and last != "Tree removal":
                raise Malformed(line_number, f"the table before ends after {last or 'its head'!r}")
            iterations = whole(found[3], line_number)
            if not iterations:
                raise Malformed(line_number, "the summary has no iterations")
            table = _Table(found[1] or "rate", line.partition(":")[0], found[2] or "", iterations, line_number)
            last, tables = "", tables + 1
        elif line.startswith("Operation") and "Mean" in line:
            statistics = re.findall(r"Max|Min|Mean|Std Dev", line)
        elif table and (found := _UNTIL_STONEWALL.match(line)):
            last, value = found[1], found[2]
            number(value, line_number)
            unit, statistic = ("1/s", "mean") if table.kind == "rate" else ("s", "total")
            result.add(f"line {line_number}", last, table.kind, value, unit, statistic=statistic)
        elif table and (found := _ROW.match(line)):
            values = found[2].split()
            if len(values) != len(statistics) or statistics[-4:] != ["Max", "Min", "Mean", "Std Dev"]:
                raise Malformed(line_number, f"{found[1]!r} has {len(values)} values where the head has "
                                f"{len(statistics)}, so the table is cut short or of an unknown version")  # fmt: skip
            last = found[1]
            # The 3.4 series may put statistics over the ranks in front; those over the iterations are the last four.
            table.rows.append((line_number, last, [(text, number(text, line_number)) for text in values[-4:]]))
            if last == "Tree removal":
                _table(result, run, table)
                table.rows = []
    if not tables:
        raise Malformed(line_number or 1, "mdtest's SUMMARY table is missing up to the end")
    if last != "Tree removal":
        raise Malformed(line_number, f"the text ends after {last or 'the head'!r} of the SUMMARY table")
    if not finished:
        raise Malformed(line_number, f"the run started in line {started} has no end ('-- finished at')")
    _derive(result, run)
    return result


def _table(result: Result, run: _Run, table: _Table) -> None:
    unit = "1/s"
    if table.kind == "time":
        run.timed, unit = True, "ms" if _milliseconds(run, table) else "s"
        if table.unit and unit == "s":
            what = f"the head says {table.head!r}, the numbers are seconds of a whole phase"
            result.find("wrong-unit", what, "mdtest prints another unit than it measures in", f"line {table.line}")
    for line, operation, values in table.rows:
        _summary(result, run, f"line {line}", operation, table, unit, values)


def _milliseconds(run: _Run, table: _Table) -> bool:
    """Whether times under a head that says ms/op are that, which no version up to 4.1 prints.

    The lowest rate times the longest time is then 1000 for every operation; with seconds of a phase it is its items.
    """
    products = []
    for _, operation, ((_, longest), *_) in table.rows:
        rate, items = run.lowest.get(operation), run.items.get(operation.split()[0])
        if not rate or not longest or not items:
            continue
        product, loose = rate * longest, rate * _slack("0.000") + 0.01 * rate * longest
        products.append(abs(product - 1000) <= loose < abs(product - items))
    return table.unit == "ms/op" and bool(products) and all(products)


def _filesystem(result: Result, text: str, line: int) -> None:
    numbers = re.findall(r"(?<![\w.])(-?(?:nan|inf|\d+(?:\.\d+)?))(?=[ %])", text)
    shares = re.findall(r"(-?(?:nan|inf|\d+(?:\.\d+)?))%", text)
    if any(n.startswith("-") or n in ("nan", "inf") for n in numbers) or any(float(n) > 100 for n in shares):
        why = "the server's statfs is wrong, so the fill level of this run is unknown"
        result.find("impossible-size", f"the file system reports a size that cannot be ({text})", why, f"line {line}")


def _summary(result: Result, run: _Run, place: str, operation: str, table: _Table, unit: str, values) -> None:
    """The rows of one line of a table. `values`: text and number of max, min, mean, sd."""
    (_, high), (_, low), (mean_text, mean), (_, sd) = values
    kind, iterations = table.kind, table.iterations
    others = {"items": None if run.stonewall else run.items.get(operation.split()[0])}
    if high == low == mean == 0:
        if kind == "rate" or not run.lowest:
            why = "mdtest prints 0.000 for a phase that was not asked for, which is no measurement"
            result.find("not-run", f"{operation} has {kind} {mean_text}, so the phase did not run", why, place)
        elif operation in run.lowest:
            what = f"{operation} has time {mean_text}, less than mdtest's digits can tell"
            result.find("too-short", what, "the time is left out, and its rate is of a phase that short", place)
            run.spent[operation] = 0.0
        return
    if kind == "rate":
        run.lowest[operation] = low
    elif unit == "s":
        run.spent[operation] = mean * iterations
    slack = _slack(mean_text)
    if iterations == 1:
        row = result.add(place, operation, kind, mean_text, unit, iteration=0, **others)
        run.rates += [row] if kind == "rate" else []
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
    rows = [result.add(place, operation, kind, value, unit, derived=True, **others) for value in found]
    run.rates += rows if kind == "rate" else []
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


def _derive(result: Result, run: _Run) -> None:
    """Seconds of a phase from its rate and its items, for a run that printed no times."""
    for row in run.rates:
        if row["items"] and row["value"] and not run.timed:
            operation, same = row["operation"], {"items": row["items"], "iteration": row.get("iteration")}
            seconds = row["items"] / row["value"]
            result.add(row["place"], operation, "time", seconds, "s", derived=True, **same)
            run.spent[operation] = run.spent.get(operation, 0) + seconds
    run.rates = []


def _wall_clock(result: Result, run: _Run, *clock: str) -> None:
    """Whether the times of all phases fill the time between the first and the last line of a run."""
    ran = {operation for operation in run.lowest if not operation.startswith("Tree")}
    stamps = [found[0] for line in clock if (found := re.search(r"\d+/\d+/\d+ \d+:\d+:\d+", line))]
    if not run.spent or ran - set(run.spent) or len(stamps) != 2:
        return
    try:
        start, end = (datetime.strptime(stamp, "%m/%d/%Y %H:%M:%S") for stamp in stamps)
    except ValueError:
        return
    seconds, wall = sum(run.spent.values()), (end - start).total_seconds()
    if abs(wall - seconds) > max(0.02 * wall, 2):
        whence = "as printed" if run.timed else "by their rates"
        what = f"the phases take {seconds:.0f} s {whence}, the run took {wall:.0f} s by its clock"
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
