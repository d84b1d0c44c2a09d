"""What fio prints for people (its normal output), versions 2 and 3, of one host or of several.

Units: as printed (KiB/s, MiB/s; usec, msec; k is 1000 of requests and of times); the KB of version 2 are KiB. Numbers
have three digits or more. Source: fio's documentation ("Interpreting the output"), public outputs of 2.2 to 3.36.
"""

import re
from dataclasses import dataclass, field

from reprofs.importers import LARGEST, Malformed, Result, Source, number, whole

# Of client and servers every line begins with the host; what all did together follows under this name.
_HOST = re.compile(r"<([^<>]+)> ?")
TOGETHER = "All clients"
_ASKED = re.compile(r" *(.+?): \(g=\d+\): (rw=\w+, bs=(.*), ioengine=.*)")
_JOB = re.compile(r" *(.+?): \(groupid=(\d+), jobs=\d+\): err= *(\d+)(?: \(.*\))?: pid=(\d+)")
_NEW = re.compile(
    r" *(read|write|trim|mixed) *: IOPS=([\d.]+)([kKMG]?), BW=([\d.]+)((?:[kMGTP]|[KMGTP]i)?)B?(?:/s)? \([^()]*\)"
    r"\(([\d.]+)((?:[kMGTP]|[KMGTP]i)?)B?/(\d+)msec\)(?:;.*)?",
    re.ASCII,
)
_OLD = re.compile(
    r" *(read|write|trim|mixed) *: io=([\d.]+)([KMGTP]?)B, bw=([\d.]+)([KMGTP]?)B/s, iops=([\d.]+)([kKMG]?) *, "
    r"runt= *(\d+)msec",
    re.ASCII | re.IGNORECASE,
)
_DIRECTION = re.compile(r" *(read|write|trim|mixed) *: (IOPS|io)=")
_LATENCY = re.compile(
    r" *(slat|clat|lat|sync) \(([num]?sec)\) *: min= *([\d.]+)([kKMG]?) *, max= *([\d.]+)([kKMG]?) *, "
    r"avg= *([\d.]+), stdev= *([\d.]+)",
    re.ASCII,
)
_PERCENTILES = re.compile(r" *(slat|clat|lat|sync) percentiles \(([num]?sec)\):")
_PERCENTILE = re.compile(r"(?<![\d.])([\d.]+)th=\[ *([\d.]+)\]", re.ASCII)
_LIST = re.compile(r" *\|(?: *[\d.]+th=\[[^][]*\],?)+", re.ASCII)
_ISSUED = re.compile(r" *issued[ :rwts]*total=([\d,]+) short=([\d,]+) dropped=([\d,]+)", re.ASCII)
_ISSUED_OLD = re.compile(r" *issued *: total=r=(\d+)/w=(\d+)/d=(\d+), short=r=(\d+)/w=(\d+)/d=(\d+)", re.ASCII)
_TITLES = {"slat": " submission latency", "clat": " completion latency", "lat": " latency", "sync": " latency"}
_TIMES = ["ns", "us", "ms", "s"]
_WORDS = {"nsec": 0, "usec": 1, "msec": 2, "sec": 3}
_THOUSANDS = {"": 0, "k": 1, "m": 2, "g": 3}
_RATES = ["1/s", "kIOPS", "MIOPS"]
_SIZES = {"B": 1, "": 1, "K": 2**10, "KiB": 2**10, "M": 2**20, "MiB": 2**20, "G": 2**30, "GiB": 2**30}
_PLACES = {"read": 0, "write": 1, "trim": 2, "sync": 3}  # in the list of requests that were issued


@dataclass
class _Job:
    """A job whose part of the text was read so far. parts: by direction, as in fio.py; rows: by direction."""

    name: str
    place: str
    error: int
    records: list[int | None]
    process: tuple  # host, name, group and number: of a report in between they are the same
    begin: int  # the number of rows before
    direction: str = ""
    parts: dict = field(default_factory=dict)
    rows: dict[str, list[dict]] = field(default_factory=dict)
    flushed_ns: float = 0
    section: tuple[str, int] | None = None  # of percentiles: their kind and unit
    unfinished: bool = False  # a list of percentiles goes on in the next line


def is_text(source: Source) -> bool:
    """Whether jobs in the form for people are in the text."""
    return any(_JOB.match(_HOST.sub("", line, 1)) for line in source.lines())


def read(source: Source) -> tuple[Result, list[dict]]:
    """Rows as of the JSON, and the jobs with what their findings need.

    Numbers are those printed, rounded to three digits or more. Raises Malformed for a line that is cut short, and when
    no job did anything.
    """
    result = Result(source.name, {"tool": "fio", "iteration": 0})
    asked: dict[str, tuple] = {}
    jobs: list[_Job] = []
    processes: dict[tuple, int] = {}
    ended = False
    for at, line in enumerate(source.rows, 1):
        host, line = _HOST.match(line), _HOST.sub("", line, 1).rstrip()
        if found := re.fullmatch(r"fio[- ](\d\S*)", line):
            result.common["tool_version"] = found[1]
        elif found := _ASKED.match(line):
            asked[found[1]] = (found[2], [_record(one) for one in re.split(r"[,/] ?", found[3])])
        elif found := _JOB.match(line):
            _finish(jobs, at)
            words, records = asked.get(found[1], (None, []))
            process = (host and host[1], found[1], found[2], found[4] if found[4] != "0" else f"line {at}")
            number = processes.setdefault(process, len(processes))
            jobs.append(_Job(found[1], f"line {at}", whole(found[3], at), records, process, len(result.rows)))
            client = " ".join(filter(None, (host and host[1], found[1], str(number))))
            together = found[1] == TOGETHER
            result.common |= {"client": None if together else client, "label": TOGETHER if together else None}
            result.common["workload"], ended = words, False
        elif line.startswith("Run status group"):
            ended = True
        elif jobs and not ended:
            _of_job(result, jobs[-1], line, at)
    _finish(jobs, source.last)
    _interim(result, jobs)
    if not result.rows:
        raise Malformed(source.last, "no job read, wrote or trimmed anything")
    if not ended:
        result.find("no-end", "the text ends before 'Run status group'", "later lines may be missing", source.last)
    result.common.clear()
    return result, [
        {"name": job.name, "place": job.place, "error": job.error, "options": {}, "parts": job.parts}
        | {"flushed_ns": job.flushed_ns}
        | {"lasted_s": max((part["runtime_ms"] / 1000 for part in job.parts.values()), default=0)}
        for job in jobs
    ]


def _of_job(result: Result, job: _Job, line: str, at: int) -> None:
    """A line of a job's part."""
    if _DIRECTION.match(line):
        _direction(result, job, line, at)
    elif re.match(r" *fsync/fdatasync/sync_file_range", line):
        job.direction = "sync"
    elif found := _PERCENTILES.match(line):
        job.section = (found[1], _WORDS[found[2]])
    elif "percentiles (" in line:
        job.section = None  # of one priority
    elif re.match(r" *\|", line):
        _percentiles(result, job, line, at)
    elif re.match(r" *(slat|clat|lat|sync) \([num]?sec\) *: *[a-z]", line):
        _latency(result, job, line, at)
    elif re.match(r" *issued", line):
        _issued(result, job, line, at)


def _record(text: str) -> int | None:
    """Bytes of a request: (W) 64.0KiB-64.0KiB, or 4K-4K; None for a range, and for what is rounded to no whole byte."""
    found = re.fullmatch(r"(?:\([RWT]\) )?([\d.]{1,12})(\w*)-([\d.]{1,12})(\w*)", text, re.ASCII)
    if not found or found.group(1, 2) != found.group(3, 4) or found[2] not in _SIZES or found[1].count(".") > 1:
        return None
    size = float(f"0{found[1]}") * _SIZES[found[2]]
    return int(size) if size.is_integer() else None


def _direction(result: Result, job: _Job, line: str, at: int) -> None:
    """The line of a direction: requests a second, bytes a second, bytes and time."""
    if new := _NEW.fullmatch(line):
        name, iops, thousands, rate, rate_unit, size, size_unit, milliseconds = new.groups()
    elif old := _OLD.fullmatch(line):  # its KB are 1024 bytes
        name, size, size_unit, rate, rate_unit, iops, thousands, milliseconds = old.groups()
        size_unit, rate_unit = (f"{unit.upper()}i" if unit else "" for unit in (size_unit, rate_unit))
    else:
        raise Malformed(at, "the line of a direction is cut short, in bits, or of an unknown version")
    records = job.records or [None]
    record = records[min(_PLACES.get(name, 0), len(records) - 1)] if name != "mixed" else None
    thousands = _THOUSANDS[thousands.lower()]
    if thousands >= len(_RATES) or not {size_unit, rate_unit} <= {"", "k", "M", "G", "Ki", "Mi", "Gi", "Ti"}:
        raise Malformed(at, "a unit is larger than any run needs")
    job.direction = name.lower()
    job.parts[job.direction] = {"runtime_ms": whole(milliseconds, at), "short": 0, "longest_ns": 0}
    for quantity, text, unit, statistic in (
        ("time", milliseconds, "ms", "value"),
        ("bytes", size, f"{size_unit}B", "total"),
        ("throughput", rate, f"{rate_unit}B/s", "value"),
        ("rate", iops, _RATES[thousands], "value"),
    ):
        row = result.add(at, job.direction, quantity, text, unit, statistic=statistic, record_bytes=record)
        job.rows.setdefault(job.direction, []).append(row)


def _latency(result: Result, job: _Job, line: str, at: int) -> None:
    found = _LATENCY.fullmatch(line)
    if not found or not re.fullmatch(r"\d+\.\d\d", found[8]):
        raise Malformed(at, "the line of a latency is cut short or of an unknown version")
    kind, unit = found[1], _WORDS[found[2]]
    if (kind == "sync") != (job.direction == "sync") or not job.direction:
        raise Malformed(at, f"latencies of {kind} stand without the line before them")
    for statistic, text, thousands in (
        ("min", found[3], found[4]),
        ("max", found[5], found[6]),
        ("mean", found[7], ""),
        ("sd", found[8], ""),
    ):
        row = _time(result, job, kind, statistic, text, unit + _THOUSANDS[thousands.lower()], at)
        longest = row["value"] * 1e9 if statistic == "max" else 0
        if job.direction == "sync":
            job.flushed_ns = max(job.flushed_ns, longest)
        else:
            part = job.parts[job.direction]
            part["longest_ns"] = max(part["longest_ns"], longest)


def _percentiles(result: Result, job: _Job, line: str, at: int) -> None:
    if not _LIST.fullmatch(line):
        raise Malformed(at, "the line of percentiles is cut short or of an unknown version")
    job.unfinished = line.endswith(",")
    if job.section and job.direction:
        for percentile, text in _PERCENTILE.findall(line):
            if number(percentile, at) > 100:
                raise Malformed(at, f"{percentile} is no percentile")
            _time(result, job, job.section[0], f"p{float(percentile):g}", text, job.section[1], at)


def _time(result: Result, job: _Job, kind: str, statistic: str, text: str, unit: int, at: int) -> dict:
    if unit >= len(_TIMES):
        raise Malformed(at, "a latency is longer than any run")
    title, records = f"{job.direction}{_TITLES[kind]}", {}
    if rows := job.rows.get(job.direction, []):
        records = {"record_bytes": rows[0].get("record_bytes")}
    row = result.add(at, title, "latency", text, _TIMES[unit], statistic=statistic, **records)
    job.rows.setdefault(job.direction, []).append(row)
    return row


def _issued(result: Result, job: _Job, line: str, at: int) -> None:
    """How many requests there were, which all rows of a direction get."""
    if found := _ISSUED.match(line):
        total, short, dropped = ([whole(one, at) for one in text.split(",") if one] for text in found.groups())
    elif old := _ISSUED_OLD.match(line):
        numbers = [whole(text, at) for text in old.groups()]
        total, short, dropped = [*numbers[:3], 0], numbers[3:], [0, 0, 0]
    else:
        raise Malformed(at, "the line of the requests is cut short or of an unknown version")
    if len(total) < 4 or len(short) < 3 or len(dropped) < 3:
        raise Malformed(at, "the line of the requests is cut short")
    if "sync" in job.rows and not total[3] and not total[0]:
        # Where flushes are not counted in their place, they are counted as short reads.
        total[3], short[0] = short[0], 0
    for direction, rows in job.rows.items():
        count = sum(total[:3]) if direction == "mixed" else total[_PLACES[direction]]
        if not count:
            continue
        record = rows[0].get("record_bytes")
        result.add(at, direction, "count", count, "1", statistic="total", record_bytes=record)
        moved = None
        if direction in job.parts:
            place = _PLACES.get(direction, 0)  # of mixed ones the first
            job.parts[direction]["short"] = short[place] + dropped[place]
            asked, printed = count * (record or 0), rows[1]["value"]
            moved = asked if 0.99 * printed < asked < min(1.01 * printed, LARGEST) else None
        for row in [*rows, result.rows[-1]]:
            row |= {"items": count, "bytes": moved}


def _finish(jobs: list[_Job], line: int) -> None:
    if jobs and jobs[-1].unfinished:
        raise Malformed(line, "the text ends within a list of percentiles")


def _interim(result: Result, jobs: list[_Job]) -> None:
    """Leaves out what a later report (--status-interval) of the same process has in it."""
    last = {job.process: job for job in jobs}
    earlier = [job for job in jobs if last[job.process] is not job]
    if earlier:
        what = f"earlier reports of the same run that are left out: {len(earlier)}"
        result.find("interim-reports", what, "they are running totals, which the last report includes")
        ends = [*(job.begin for job in jobs[1:]), len(result.rows)]
        kept = [result.rows[job.begin : end] for job, end in zip(jobs, ends, strict=True) if last[job.process] is job]
        result.rows = [row for rows in kept for row in rows]
        jobs[:] = [job for job in jobs if last[job.process] is job]
