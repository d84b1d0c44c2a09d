"""mdtest 1.9 to 4.x: the SUMMARY tables of rates and times.

Units: rates as 1/s, times as s of a whole phase, whatever the head of a table says. Source: the text of mdtest, and
mdtest.c of 3.2 and 4.1; public outputs of 1.9, 3.2 to 3.4 and 4.1.
"""

import math
import re
from dataclasses import dataclass, field
from datetime import datetime

from reprofs.importers import LOG, Malformed, Result, Source, number, whole

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
    silent: dict[str, tuple[int, str]] = field(default_factory=dict)  # operation -> line and text of a rate of 0


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
    reader = _Reader(Result(source.name, {"tool": "mdtest"}))
    for at, line in enumerate(source.rows, 1):
        reader.take(at, LOG.sub("", line).strip())
    if not reader.table:
        raise Malformed(source.last, "mdtest's SUMMARY table is missing up to the end")
    if reader.last != "Tree removal":
        raise Malformed(source.last, f"the text ends after {reader.last or 'the head'!r} of the SUMMARY table")
    if reader.started:
        raise Malformed(source.last, f"the run started in line {reader.started} has no end ('-- finished at')")
    _derive(reader.result, reader.run)
    return reader.result


@dataclass
class _Reader:
    """started: the line in which the run began that has not ended; last: the operation before in the table."""

    result: Result
    run: _Run = field(default_factory=_Run)
    table: _Table | None = None
    statistics: list[str] = field(default_factory=list)
    last: str = ""
    started: int = 0
    clock: str = ""

    def take(self, at: int, line: str) -> None:
        """One line."""
        result, run = self.result, self.run
        if found := _LAUNCHED.search(line):
            _derive(result, run)
            result.common["tool_version"], self.run = found[1], _Run()
            return
        if line.startswith("Command line used:"):
            result.common["workload"] = line.partition(":")[2].strip()
            run.stonewall = bool(_STONEWALL.search(line))
            return
        if line.startswith("Path") and ":" in line:
            result.common["configuration"] = line.partition(":")[2].strip()
            return
        run.stonewall |= "stonewall" in line.lower()
        if "could not read stonewall status file" in line.lower():
            why = "it took the number of items from its command line, and may have looked for files that are not there"
            result.find("stonewall-unread", "mdtest could not read how many items the run before had made", why, at)
        elif line.startswith("-- started at"):
            if self.started:
                raise Malformed(at, f"a run starts before that of line {self.started} has ended")
            self.started, self.clock = at, line
        elif line.startswith("-- finished at"):
            _derive(result, run)
            _wall_clock(result, run, self.clock, line)
            self.started = 0
        elif found := re.match(r"FS\s*:\s*(.*)", line):
            _filesystem(result, found[1], at)
        elif found := _TASKS.match(line):
            count = whole(found[2], at)
            run.items = {family: count for family in ("File", "Directory") if family.lower()[:4] in found[3]}
        else:
            self._of_table(at, line)

    def _of_table(self, at: int, line: str) -> None:
        table = self.table
        if found := _SUMMARY.match(line):
            if table and self.last != "Tree removal":
                raise Malformed(at, f"the table before ends after {self.last or 'its head'!r}")
            iterations = whole(found[3], at)
            if not iterations:
                raise Malformed(at, "the summary has no iterations")
            self.table = _Table(found[1] or "rate", line.partition(":")[0], found[2] or "", iterations, at)
            self.last = ""
        elif line.startswith("Operation") and "Mean" in line:
            self.statistics = re.findall(r"Max|Min|Mean|Std Dev", line)
        elif table and (found := _UNTIL_STONEWALL.match(line)):
            self.last = found[1]
            unit, statistic = ("1/s", "mean") if table.kind == "rate" else ("s", "total")
            self.result.add(at, self.last, table.kind, found[2], unit, statistic=statistic)
        elif table and (found := _ROW.match(line)):
            values = found[2].split()
            if len(values) != len(self.statistics) or self.statistics[-4:] != ["Max", "Min", "Mean", "Std Dev"]:
                raise Malformed(at, f"{found[1]!r} has {len(values)} values where the head has {len(self.statistics)}, "
                                "so the table is cut short or of an unknown version")  # fmt: skip
            self.last = found[1]
            # The 3.4 series may put statistics over the ranks in front; those over the iterations are the last four.
            table.rows.append((at, self.last, [(text, number(text, at)) for text in values[-4:]]))
            if self.last == "Tree removal":
                _table(self.result, self.run, table)
                table.rows = []


def _table(result: Result, run: _Run, table: _Table) -> None:
    unit = "1/s"
    if table.kind == "time":
        run.timed, unit = True, "ms" if _milliseconds(run, table) else "s"
        if table.unit and unit == "s":
            what = f"the head says {table.head!r}, the numbers are seconds of a whole phase"
            result.find("wrong-unit", what, "mdtest prints another unit than it measures in", table.line)
    for line, operation, values in table.rows:
        _summary(result, run, line, operation, table, unit, values)


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
    shares = re.findall(r"(-?(?:nan|inf|(?<!\d)\d+(?:\.\d+)?))%", text)
    if any(n.startswith("-") or n in ("nan", "inf") for n in numbers) or any(float(n) > 100 for n in shares):
        why = "the server's statfs is wrong, so the fill level of this run is unknown"
        result.find("impossible-size", f"the file system reports a size that cannot be ({text})", why, line)


def _summary(result: Result, run: _Run, at: int, operation: str, table: _Table, unit: str, values) -> None:
    """The rows of one line of a table. `values`: text and number of max, min, mean, sd."""
    (_, high), (_, low), (mean_text, mean), (_, sd) = values
    kind, iterations = table.kind, table.iterations
    others = {"items": None if run.stonewall else run.items.get(operation.split()[0])}
    if high == low == mean == 0:
        if kind == "rate":
            run.silent[operation] = (at, mean_text)  # it did not run, unless a time follows
        elif operation in run.lowest:
            what = f"{operation} has time {mean_text}, less than mdtest's digits can tell"
            result.find("too-short", what, "the time is left out, and its rate is of a phase that short", at)
            run.spent[operation] = 0.0
        elif operation not in run.silent:
            _not_run(result, operation, kind, mean_text, at)
        return
    if kind == "time" and operation in run.silent:
        line, text = run.silent.pop(operation)
        what = f"{operation} has rate {text}, but it ran {mean_text} s"
        result.find("rate-lost", what, "its rate was lost or is too small to print", line)
    if kind == "rate":
        run.lowest[operation] = low
    elif unit == "s":
        run.spent[operation] = mean * iterations
    slack = _slack(mean_text)
    if iterations == 1:
        row = result.add(at, operation, kind, mean_text, unit, iteration=0, **others)
        run.rates += [row] if kind == "rate" else []
        return
    for name, (text, _) in zip(("max", "min", "mean", "sd"), values, strict=True):
        result.add(at, operation, kind, text, unit, statistic=name, **others)
    recovered = recover(iterations, high, low, mean, sd, slack)
    if not low - slack <= mean <= high + slack or (iterations <= 3 and not recovered):
        what = f"{operation}: no {iterations} values have this max, min, mean and Std Dev"
        result.find("impossible-summary", what, "a number of the table was changed or lost", at)
    if recovered:
        _iterations(result, run, at, operation, kind, unit, (low, mean, sd), recovered, others)


def _not_run(result: Result, operation: str, kind: str, text: str, at: int) -> None:
    why = "mdtest prints 0.000 for a phase that was not asked for, which is no measurement"
    result.find("not-run", f"{operation} has {kind} {text}, so the phase did not run", why, at)


def _iterations(result, run: _Run, at: int, operation: str, kind: str, unit: str, printed, recovered, others) -> None:
    """Rows of the values that a line was made of, and what follows from them. printed: min, mean and sd."""
    (low, mean, sd), (found, divisor), n = printed, recovered, len(recovered[0])
    # Their order in time is not known, so they have no iteration number.
    rows = [result.add(at, operation, kind, value, unit, derived=True, **others) for value in found]
    run.rates += rows if kind == "rate" else []
    if divisor == "n" and kind == "rate":
        sample = sd * math.sqrt(n / (n - 1))
        result.add(at, operation, kind, sample, unit, derived=True, statistic="sd (n - 1)", **others)
        what = f"{operation}: the printed Std Dev {sd:g} divides by n; with n - 1 it is {sample:.3f}"
        result.find("population-sd", what, "versions from 4.0 divide by n - 1, so the two do not compare", at)
    if kind == "rate" and low > 0:
        harmonic = len(found) / sum(1 / value for value in found)
        result.add(at, operation, kind, harmonic, unit, derived=True, statistic="harmonic mean", **others)
        if mean > 1.1 * harmonic:
            what = f"{operation}: the mean of the rates is {mean:.0f}/s, all operations over all time {harmonic:.0f}/s"
            result.find("mean-of-rates", what, "an arithmetic mean of rates overstates by the slow iterations", at)


def _derive(result: Result, run: _Run) -> None:
    """At the end of a run: seconds of a phase from its rate and its items, where no times were printed."""
    for operation, (at, text) in run.silent.items():
        _not_run(result, operation, "rate", text, at)
    run.silent = {}
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
    stamps = [found[0] for line in clock if (found := re.search(r"(?<!\d)\d+/\d+/\d+ \d+:\d+:\d+", line))]
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
