"""fio: its JSON and JSON+ (--output-format=json, json+), versions 2 and 3, also among its other output; its text.

Units: latencies as ns, before version 3 as us; io_bytes as B, before as KiB; bw as KiB/s (1024); runtime as ms. Source:
fio's documentation (HOWTO, "JSON output") and outputs of 2.1, 2.16, 3.1, 3.25, 3.33, 3.36, 3.39 and 3.43.
"""

import json
import re

from reprofs.errors import short
from reprofs.importers import LARGEST, Malformed, Result, Source, _fio_text, json_path

WHAT = "the JSON, JSON+ or text that fio writes"

_DIRECTIONS = ("read", "write", "trim")
_MIXED = "mixed"  # all directions together, with unified_rw_reporting
# Key, title, unit and its ns of what a version may have.
_LATENCIES = [
    (f"{kind}lat{end}", f"{title}latency", unit, ns)
    for kind, title in (("s", "submission "), ("c", "completion "), ("", ""))
    for end, unit, ns in (("_ns", "ns", 1), ("", "us", 1000))
]
_SIZE = re.compile(r"(\d{1,15})(?:b?|([kmgtp])(ib|b?))", re.ASCII)
_FLUSHES = {"fsync", "fdatasync", "end_fsync", "fsync_on_close", "sync_file_range"}


def samples(text: str) -> list[dict]:
    """The measurements of a run of fio, as samples: one for each job and direction that did something.

    Keys: name (`read`, `write`, `trim`; of several jobs with different names `JOB-read`), start_ns (after the first
    job's start; 0 where fio does not tell), wall_ns (when requests come one at a time, nothing is flushed and jobs are
    told apart, the time spent in the calls, which is the sum of the latencies; else fio's runtime, in whole ms, of jobs
    in one group that of the longest), items (requests), bytes, client (number of the job among those of one
    name). Raises ValueError with a sentence that names the line when the text is not fio's JSON or a job has an error.
    """
    try:
        source, _ = _last_report(Source.of("fio's output", text))
        jobs = _jobs(source)
        several = len({job["name"] for job in jobs}) > 1
        first = min((job["start_ms"] for job in jobs if job["start_ms"]), default=0)
        found: list = []
        clients: dict = {}
        for job in jobs:
            if job["error"]:
                raise ValueError(f"fio's job {short(job['name'])} ended with error {job['error']}")
            client = clients[job["name"]] = clients.get(job["name"], -1) + 1
            for direction, part in job["parts"].items():
                if job["together"] or (direction == _MIXED and len(job["parts"]) > 1):
                    continue  # the others are in it
                if part["items"] is None:
                    raise source.wrong(part["path"], "has no 'total_ios'")
                found.append(
                    {
                        "name": f"{job['name']}-{direction}" if several else direction,
                        "start_ns": (job["start_ms"] - first) * 10**6 if job["start_ms"] else 0,
                        "wall_ns": part["wall_ns"],
                        "items": part["items"],
                        "bytes": part["bytes"],
                        "client": client,
                    }
                )
    except Malformed as error:
        raise ValueError(f"fio's output, line {error.line}: {error.what}") from None
    return found


def flushes(text: str) -> dict | None:
    """The flushes (fsync, fdatasync) that a run of fio timed, all its jobs together; None when it timed none.

    Keys: count, sum_ns, min_ns, max_ns; p99_ns, the longest of the jobs' (not where fio was not asked for it). Raises
    Malformed when the text is not fio's JSON.
    """
    source, _ = _last_report(Source.of("fio's output", text))
    found = []
    for job in _jobs(source):
        if (count := _flush_count(source, job["path"])) and not job["together"]:
            at = (*job["path"], "sync", "lat_ns")
            low, high, mean = (source.amount((*at, key)) for key in ("min", "max", "mean"))
            keys = [key for key in source.get((*at, "percentile"), dict, {}) if re.fullmatch(r"99(\.0*)?", key)]
            tail = source.amount((*at, "percentile", keys[0])) if keys else None
            found.append((count, mean * count, low, high, tail))
    if not found:
        return None
    counts, sums, lows, highs, tails = zip(*found, strict=True)
    times = {"sum_ns": sum(sums), "min_ns": min(lows), "max_ns": max(highs)}
    times |= {"p99_ns": max(tails)} if None not in tails else {}
    return {"count": sum(counts)} | {key: round(time) for key, time in times.items()}


def read(source: Source) -> Result:
    """For each job and direction: time, requests, bytes, rates, latencies with all printed percentiles.

    Of the reports of one run (--status-interval) the last is read, which has the totals. Raises Malformed when the
    text is neither fio's JSON nor what it prints for people.
    """
    if not re.search(r"^[ \t]*\{", source.text, re.MULTILINE) and _fio_text.is_text(source):
        result, jobs = _fio_text.read(source)
        for job in jobs:
            _check(result, job)
        return result
    source, earlier = _last_report(source)
    jobs = _jobs(source)
    version = source.get(("fio version",), str).removeprefix("fio-")
    result = Result(source.name, {"tool": "fio", "tool_version": version})
    if earlier:
        what = f"earlier reports of the same run that are left out: {earlier}"
        result.find("interim-reports", what, "they are running totals, which the last report includes")
    for number, job in enumerate(jobs):
        _check(result, job)
        file_bytes = _file_bytes(job["options"], version)
        common = {
            "client": None if job["together"] else " ".join(filter(None, (job["host"], job["name"], str(number)))),
            "label": job["name"] if job["together"] else None,
            "workload": " ".join(f"{k}={v}" if v else k for k, v in sorted(job["options"].items())),
            "configuration": job["options"].get("filename") or job["options"].get("directory"),
            "cache": "direct" if job["options"].get("direct") == "1" else None,
            "iteration": 0,
        }
        for direction, part in job["parts"].items():
            sizes = {
                "items": part["items"],
                "bytes": part["bytes"],
                "file_bytes": file_bytes,
                "record_bytes": _block(job["options"], direction, version),
            }
            for key, quantity, unit, statistic in (
                ("runtime", "time", "ms", "value"),
                ("total_ios", "count", "1", "total"),
                ("io_bytes", "bytes", part["bytes_unit"], "total"),
                (part["rate"][0], "throughput", part["rate"][1], "value"),
                ("iops", "rate", "1/s", "value"),
            ):
                if key == "total_ios" and part["items"] is None:
                    continue
                value, place = source.amount((*part["path"], key)), f"{job['place']}.{direction}.{key}"
                result.add(place, direction, quantity, value, unit, statistic=statistic, **common, **sizes)
            for key, title, unit in part["latencies"]:
                _latency(result, source, (*part["path"], key), f"{direction} {title}", unit, common, sizes)
        if count := _flush_count(source, job["path"]):
            told = source.get((*job["path"], "sync", "total_ios"), int, 0) == count
            place = f"{job['place']}.sync.{'total_ios' if told else 'lat_ns.N'}"
            result.add(place, "sync", "count", count, "1", statistic="total", **common, items=count)
            path = (*job["path"], "sync", "lat_ns")
            _latency(result, source, path, "sync latency", "ns", common, {"items": count})
    if not result.rows:
        raise Malformed(1, "no job read, wrote or trimmed anything")
    return result


def _last_report(source: Source) -> tuple[Source, int]:
    """The last JSON object of the text as a source with the same line numbers, and the number of those before it.

    Around it may be what fio prints for people. Raises Malformed when the objects are not reports of one run.
    """
    decoder, reports, end = json.JSONDecoder(), [], 0
    last = source
    for start in re.finditer(r"^[ \t]*\{", source.text, re.MULTILINE):
        if start.start() < end:
            continue  # inside the one before
        blank = "\n" * source.text.count("\n", 0, start.start())
        try:
            report, end = decoder.raw_decode(source.text, start.end() - 1)
        except (RecursionError, ValueError):
            return Source.of(source.name, blank + source.text[start.start() :]), 0  # whose reading tells what is wrong
        last = Source.of(source.name, blank + source.text[start.start() : end])
        reports.append((blank.count("\n") + 1, _began(report)))
    for line, began in reports[1:]:
        if began is None or reports[0][1] is None or abs(began - reports[0][1]) > 2:
            raise Malformed(line, "a second report begins, which is not of the same run or does not tell; put each run "
                            "into a file of its own")  # fmt: skip
    return last, max(len(reports) - 1, 0)


def _began(report: dict) -> float | None:
    """When the run of a report began, in seconds of the epoch: fio tells when it reports and how long it has run."""
    try:
        return report["timestamp"] - report["jobs"][0]["elapsed"]
    except (KeyError, IndexError, TypeError):
        return None


def _jobs(source: Source) -> list[dict]:
    """The jobs, of client and servers those of all hosts.

    Keys: path, place (the same as text), name, host (None: not told), together (whether it is all of them), error,
    start_ms (0: not told), options, parts (by direction what it did), flushed_ns (the longest flush), lasted_s.
    """
    if not isinstance(source.json, dict):
        raise Malformed(1, "it is not the JSON of fio (not an object)")
    key = next((key for key in ("jobs", "client_stats") if key in source.json), None)
    if not key:
        raise Malformed(1, "the JSON has no 'jobs'")
    return [_job(source, (key, number)) for number in range(len(source.get((key,), list)))]


def _shared(source: Source, host: str | None, port: int | None) -> dict:
    """The options that all jobs share: of one host an object; of several a list, by host. Those of all: in which all
    hosts agree."""
    found = source.get(("global options",), (dict, list), {})
    if isinstance(found, dict):
        return found
    hosts = [source.get(("global options", number), dict) for number in range(len(found))]
    own = [one for one in hosts if (one.get("hostname"), one.get("port", port)) == (host, port)]
    options = own[:1] if host else hosts
    return {
        key: value
        for key, value in (options[0] if options else {}).items()
        if key not in ("hostname", "port") and all(one.get(key) == value for one in options)
    }


def _flush_count(source: Source, job: tuple) -> int:
    """How many flushes a job timed. Some versions, 3.39 too, have the number beside the latencies only."""
    count = source.amount((*job, "sync", "total_ios"), int, 0)
    return count or source.amount((*job, "sync", "lat_ns", "N"), int, 0)


def _job(source: Source, at: tuple) -> dict:
    name, host = source.get((*at, "jobname"), str), source.get((*at, "hostname"), str, None)
    together = at[0] == "client_stats" and name == _fio_text.TOGETHER  # it has the name of the last host
    shared = _shared(source, None if together else host, source.get((*at, "port"), int, None))
    found: dict = {
        "path": at,
        "place": json_path(at),
        "name": name,
        "host": host,
        "together": together,
        "error": source.get((*at, "error"), int, 0),
        "start_ms": source.get((*at, "job_start"), int, 0),
        "options": {key: str(value) for key, value in (shared | source.get((*at, "job options"), dict, {})).items()},
        "parts": {},
    }
    for direction in (*_DIRECTIONS, _MIXED):
        if part := _part(source, (*at, direction), found["options"]):
            found["parts"][direction] = part
    ran = max((part["runtime_ms"] / 1000 for part in found["parts"].values()), default=0)
    found |= {
        "flushed_ns": source.amount((*at, "sync", "lat_ns", "max"), default=0),
        "lasted_s": max(ran, source.amount((*at, "job_runtime"), default=0) / 1000),
    }
    # Where flushes are not counted in their place, they are counted as short reads.
    read = found["parts"].get("read")
    if read and not source.get((*at, "sync", "total_ios"), int, 0) and read["short"] == _flush_count(source, at):
        read["short"] = 0
    return found


def _part(source: Source, path: tuple, options: dict) -> dict | None:
    """What a job did in a direction; None for nothing."""
    part = source.get(path, dict, {})
    if not part:
        return None
    # Before version 3 io_bytes counted KiB and latencies were in us; io_kbytes came with the change.
    new = "io_kbytes" in part
    moved, runtime, requests = _counts(source, path)
    if not (moved or runtime if requests is None else requests):
        return None
    known, latencies = [entry for entry in _LATENCIES if isinstance(part.get(entry[0]), dict)], 0
    if requests and known and (not runtime or _alone(options)):
        key, _, _, ns = known[-1]
        latencies = round(source.amount((*path, key, "mean")) * requests * ns)  # 0: it was told not to measure them
    return {
        "path": path,
        "items": requests,
        "bytes": moved if new else moved * 1024,
        "bytes_unit": "B" if new else "KiB",
        "rate": ("bw_bytes", "B/s") if "bw_bytes" in part else ("bw", "KiB/s"),
        "runtime_ms": runtime,
        "wall_ns": latencies or runtime * 10**6,
        "latencies": [entry[:3] for entry in known],
        "longest_ns": max((source.amount((*path, key, "max"), default=0) * ns for key, *_, ns in known), default=0),
        "short": source.get((*path, "short_ios"), int, 0) + source.get((*path, "drop_ios"), int, 0),
    }


def _counts(source: Source, path: tuple) -> tuple[int, int, int | None]:
    """Bytes or KiB, ms, and requests, which versions as old as 2.1.4 do not tell."""
    moved, runtime = source.get((*path, "io_bytes"), int), source.get((*path, "runtime"), int)
    requests = source.get((*path, "total_ios"), int, None)
    if requests != 0 and not (0 <= moved < 2**50 and 0 <= runtime < 2**40 and (requests or 0) >= 0):
        raise source.wrong(path, "has io_bytes, total_ios or a runtime that no run has")
    return moved, runtime, requests


def _alone(options: dict) -> bool:
    """Whether requests came one at a time. Of group_reporting an entry has the latencies of all jobs, at once."""
    return options.get("iodepth", "1") == "1" and not {"group_reporting", *_FLUSHES} & set(options)


def _latency(result: Result, source: Source, path: tuple, title: str, unit: str, common: dict, sizes: dict) -> None:
    entry = source.get(path, dict, {})
    place = json_path(path)
    if not entry or not entry.get("N", 1) or not entry.get("max", 1):
        return
    for key, statistic in (("min", "min"), ("max", "max"), ("mean", "mean"), ("stddev", "sd")):
        if key in entry:
            value = source.amount((*path, key))
            result.add(f"{place}.{key}", title, "latency", value, unit, statistic=statistic, **common, **sizes)
    percentiles = source.get((*path, "percentile"), dict, {})
    for key in percentiles:
        value = source.amount((*path, "percentile", key))
        if key == "0.00" and not value:
            continue  # up to 3.1 it fills the places of percentiles that were not asked for
        if not re.fullmatch(r"\d+(\.\d+)?", key, re.ASCII) or float(key) > 100:
            raise source.wrong((*path, "percentile"), f"has {key!r}, which is no percentile")
        place_of, statistic = f"{place}.percentile[{key!r}]", f"p{float(key):g}"
        result.add(place_of, title, "latency", value, unit, statistic=statistic, **common, **sizes)


def _check(result: Result, job: dict) -> None:
    """Findings about one job."""
    place, options, name = job["place"], job["options"], job["name"]
    if job["error"]:
        why = "its numbers are of an unfinished run"
        result.find("error", f"job {name} ended with error {job['error']}", why, place)
    wanted = _seconds(options.get("runtime")) if "time_based" in options else None
    ran = max((part["runtime_ms"] / 1000 for part in job["parts"].values()), default=0)
    if wanted and ran < 0.95 * wanted:
        what = f"job {name} ran {ran:g} s of the {wanted:g} s asked for"
        result.find("stopped-early", what, "the device was full or the job failed", place)
    spans = [
        (f"{direction} request", part["longest_ns"] / 1e9, f"all {direction}s", part["runtime_ms"] / 1000)
        for direction, part in job["parts"].items()
    ]
    for what, longest, whole, seconds in (*spans, ("flush", job["flushed_ns"] / 1e9, "the job", job["lasted_s"])):
        if longest > 1.01 * seconds + 0.002:  # the second one is in whole milliseconds
            told = f"job {name}: the longest {what} took {longest:g} s, {whole} {seconds:g} s"
            result.find("longer-than-run", told, "no request is longer than its job, so a number is wrong", place)
    for direction, part in job["parts"].items():
        seconds = part["runtime_ms"] / 1000
        if seconds < 1:
            why = "fio counts whole milliseconds, and the start and the end are a large part of it"
            result.find("short-run", f"job {name} spent {seconds:g} s with {direction}", why, place)
        if part["short"]:
            what = f"job {name}: {part['short']} short or dropped {direction} requests"
            result.find("short-requests", what, "less was moved than asked for", place)
        if direction == "read" and options.get("direct", "0") != "1" and options.get("invalidate") == "0":
            what = f"job {name} reads through the page cache, which was not emptied (invalidate=0)"
            result.find("cached", what, "it may measure memory", place)
        # Without options nothing is known: old versions tell none.
        buffered = options and options.get("direct", "0") != "1" and options.get("sync", "0") in ("0", "none")
        if direction == "write" and buffered and not _FLUSHES & set(options):
            what = f"job {name} writes into the page cache and never flushes it in its time"
            result.find("cached", what, "it may measure memory", place)


def _seconds(text: str | None) -> float | None:
    """A time option (60, 60s, 2m, 500ms) in seconds."""
    units = {"": 1, "s": 1, "ms": 1e-3, "us": 1e-6, "m": 60, "h": 3600, "d": 86400}
    text = text or ""
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyz")
    try:
        return float(digits) * units[text[len(digits) :]]
    except (ValueError, KeyError):
        return None


def _size(text: str | None, options: dict, version: str) -> int | None:
    """A size option (4096, 4k, 16M, 1GB) in bytes; None for ranges, shares and what cannot be read.

    k, kb and the like are powers of kb_base, which is 1024 unless set to 1000. KiB is of the other base, as fio's
    documentation says: 1000 unless kb_base=1000. Whether that holds before version 3 is not known.
    """
    found, base = _SIZE.fullmatch((text or "").lower()), options.get("kb_base", "1024")
    if not found or base not in ("1000", "1024") or (found[3] == "ib" and re.match(r"[012]\.", version)):
        return None
    factor = 2024 - int(base) if found[3] == "ib" else int(base)
    size = int(found[1]) * factor ** (" kmgtp".index(found[2]) if found[2] else 0)
    return size if size <= LARGEST else None


def _file_bytes(options: dict, version: str) -> int | None:
    """Size of one file: `size` is that of all files of a job together."""
    several = options.get("nrfiles", "1") != "1" or ":" in options.get("filename", "")
    return _size(options.get("filesize") or (None if several else options.get("size")), options, version)


def _block(options: dict, direction: str, version: str) -> int | None:
    """Size of a request: bs=4k, or bs=4k,64k for reads and writes. fio's default is 4 KiB; None without options."""
    if not options or "bsrange" in options or "bssplit" in options:
        return None
    told = (options.get("bs") or options.get("blocksize") or "4k").split(",")
    sizes = [_size(told[min(index, len(told) - 1)] or "4k", options, version) for index in range(len(_DIRECTIONS))]
    if direction == _MIXED:
        return sizes[0] if len(set(sizes)) == 1 else None
    return sizes[_DIRECTIONS.index(direction)]
