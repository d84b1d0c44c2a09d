"""fio: its JSON and JSON+ (--output-format=json, json+), versions 2 and 3."""

from . import NUMBER, Malformed, Result, Source

WHAT = "the JSON or JSON+ that fio writes"

_DIRECTIONS = ("read", "write", "trim")
_LATENCIES = (("slat", "submission latency"), ("clat", "completion latency"), ("lat", "latency"))
_SUFFIXES = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_FLUSHES = {"fsync", "fdatasync", "end_fsync", "fsync_on_close", "sync_file_range"}


def samples(text: str) -> list[dict]:
    """What a run of fio measured, as samples: one for each job and direction that did something.

    Keys: name (`read`, `write`, `trim`; of several jobs with different names `JOB-read`), start_ns (after the first
    job's start; 0 where fio does not tell), wall_ns (when requests come one at a time and nothing is flushed, the time
    spent in the calls, which is the sum of the latencies; else fio's runtime, a whole number of ms), items (requests),
    bytes, client (number of the job among those of one name). Raises ValueError with a sentence that names the line
    when the text is no JSON of fio or a job has an error.
    """
    source = Source.of("fio's output", text)
    try:
        jobs = _jobs(source)
        several = len({job["name"] for job in jobs}) > 1
        first = min((job["start_ms"] for job in jobs if job["start_ms"]), default=0)
        found, clients = [], {}
        for job in jobs:
            if job["error"]:
                raise ValueError(f"fio's job {job['name']!r} ended with error {job['error']}")
            client = clients[job["name"]] = clients.get(job["name"], -1) + 1
            for direction, part in job["parts"].items():
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


def read(source: Source) -> Result:
    """For each job and direction: time, requests, bytes, rates, latencies with all printed percentiles."""
    jobs = _jobs(source)
    version = source.get(("fio version",), str).removeprefix("fio-")
    result = Result(source.name, {"tool": "fio", "tool_version": version})
    for number, job in enumerate(jobs):
        _check(result, number, job)
        size = _size(job["options"].get("filesize") or job["options"].get("size"))
        common = {
            "client": f"{job['name']} {number}",
            "workload": " ".join(f"{k}={v}" if v else k for k, v in sorted(job["options"].items())),
            "configuration": job["options"].get("filename") or job["options"].get("directory"),
            "cache": "direct" if job["options"].get("direct") == "1" else None,
            "iteration": 0,
        }
        for direction, part in job["parts"].items():
            sizes = {
                "items": part["items"],
                "bytes": part["bytes"],
                "file_bytes": size,
                "record_bytes": _block(job["options"], direction),
            }
            path = f"$.jobs[{number}].{direction}"
            for key, quantity, unit, statistic in (
                ("runtime", "time", "ms", "value"),
                ("total_ios", "count", "1", "total"),
                (part["bytes_key"], "bytes", part["bytes_unit"], "total"),
                (part["bw_key"], "throughput", part["bw_unit"], "value"),
                ("iops", "rate", "1/s", "value"),
            ):
                value = source.get(("jobs", number, direction, key), NUMBER)
                result.add(f"{path}.{key}", direction, quantity, value, unit, statistic=statistic, **common, **sizes)
            for key, title, unit in part["latencies"]:
                _latency(result, source, ("jobs", number, direction, key), f"{direction} {title}", unit, common, sizes)
    if not result.rows:
        raise Malformed(1, "no job read, wrote or trimmed anything")
    return result


def _jobs(source: Source) -> list[dict]:
    """The jobs: name, error, start_ms (0: not told), options, and by direction what it did."""
    if not isinstance(source.json, dict):
        raise Malformed(1, "it is no JSON of fio (not an object)")
    jobs = source.get(("jobs",), list, None)
    if jobs is None:
        jobs = source.get(("client_stats",), list, None)
        what = "holds the results of several hosts (client_stats), which are not read" if jobs else "has no 'jobs'"
        raise Malformed(1, f"the JSON {what}")
    shared = source.get(("global options",), dict, {})
    return [_job(source, number, shared) for number in range(len(jobs))]


def _job(source: Source, number: int, shared: dict) -> dict:
    at = ("jobs", number)
    found = {
        "name": source.get((*at, "jobname"), str),
        "error": source.get((*at, "error"), int, 0),
        "start_ms": source.get((*at, "job_start"), int, 0),
        "options": {key: str(value) for key, value in (shared | source.get((*at, "job options"), dict, {})).items()},
        "parts": {},
    }
    for direction in _DIRECTIONS:
        part = source.get((*at, direction), dict, {})
        if not part:
            continue
        # Before version 3 io_bytes counted KiB and latencies were in us; io_kbytes came with the change.
        new = "io_kbytes" in part
        moved = source.get((*at, direction, "io_bytes"), int)
        runtime = source.get((*at, direction, "runtime"), int)
        requests = source.get((*at, direction, "total_ios"), int, 0)
        if not requests:
            continue
        if not 0 <= moved < 2**50 or not 0 <= runtime < 2**40 or requests < 0:
            raise source.wrong((*at, direction), "has io_bytes, total_ios or a runtime that no run has")
        latencies = [(key + end, title, unit) for key, title in _LATENCIES for end, unit in (("_ns", "ns"), ("", "us"))]
        latencies = [entry for entry in latencies if isinstance(part.get(entry[0]), dict)]
        wall = runtime * 10**6
        options = found["options"]
        alone = options.get("iodepth", "1") == "1" and not _FLUSHES & set(options)
        if latencies and (alone or not wall):
            key, _, unit = latencies[-1]
            mean = source.get((*at, direction, key, "mean"), NUMBER)
            wall = round(mean * requests * (1000 if unit == "us" else 1)) or wall  # 0: it was told not to measure them
        found["parts"][direction] = {
            "items": requests,
            "bytes": moved if new else moved * 1024,
            "bytes_key": "io_bytes",
            "bytes_unit": "B" if new else "KiB",
            "bw_key": "bw_bytes" if "bw_bytes" in part else "bw",
            "bw_unit": "B/s" if "bw_bytes" in part else "KiB/s",
            "runtime_ms": runtime,
            "wall_ns": wall,
            "latencies": latencies,
            "short": source.get((*at, direction, "short_ios"), int, 0)
            + source.get((*at, direction, "drop_ios"), int, 0),
        }
    return found


def _latency(result: Result, source: Source, path: tuple, title: str, unit: str, common: dict, sizes: dict) -> None:
    entry = source.get(path, dict)
    place = f"$.jobs[{path[1]}].{path[2]}.{path[3]}"
    if not entry.get("N", 1) or not entry.get("max", 1):
        return
    for key, statistic in (("min", "min"), ("max", "max"), ("mean", "mean"), ("stddev", "sd")):
        if key in entry:
            value = source.get((*path, key), NUMBER)
            result.add(f"{place}.{key}", title, "latency", value, unit, statistic=statistic, **common, **sizes)
    percentiles = source.get((*path, "percentile"), dict, {})
    for key in percentiles:
        try:
            name = f"p{float(key):g}"
        except ValueError:
            raise source.wrong((*path, "percentile"), f"has {key!r}, which is no percentile") from None
        value = source.get((*path, "percentile", key), NUMBER)
        place_of = f"{place}.percentile[{key!r}]"
        result.add(place_of, title, "latency", value, unit, statistic=name, **common, **sizes)


def _check(result: Result, number: int, job: dict) -> None:
    """Findings about one job."""
    place, options, name = f"$.jobs[{number}]", job["options"], job["name"]
    if job["error"]:
        why = "its numbers are of an unfinished run"
        result.find("error", f"job {name} ended with error {job['error']}", why, place)
    wanted = _seconds(options.get("runtime")) if "time_based" in options else None
    ran = max((part["runtime_ms"] / 1000 for part in job["parts"].values()), default=0)
    if wanted and ran < 0.95 * wanted:
        what = f"job {name} ran {ran:g} s of the {wanted:g} s asked for"
        result.find("stopped-early", what, "the device was full or the job failed", place)
    for direction, part in job["parts"].items():
        seconds = part["runtime_ms"] / 1000
        if seconds < 1:
            result.find("short-run", f"job {name} spent {seconds:g} s with {direction}",
                        "fio counts whole milliseconds and starts and ends weigh", place)  # fmt: skip
        if part["short"]:
            what = f"job {name}: {part['short']} short or dropped {direction} requests"
            result.find("short-requests", what, "less was moved than asked for", place)
        if direction == "read" and options.get("direct", "0") != "1" and options.get("invalidate") == "0":
            what = f"job {name} reads through the page cache, which was not emptied (invalidate=0)"
            result.find("cached", what, "it may measure memory", place)
        buffered = options.get("direct", "0") != "1" and options.get("sync", "0") in ("0", "none")
        flushed = _FLUSHES & set(options)
        if direction == "write" and buffered and not flushed:
            what = f"job {name} writes into the page cache and never flushes it in its time"
            result.find("cached", what, "it may measure memory", place)


def _seconds(text: str | None) -> float | None:
    """A time option (60, 60s, 2m, 500ms) in seconds."""
    units = {"": 1, "s": 1, "ms": 1e-3, "us": 1e-6, "m": 60, "h": 3600, "d": 86400}
    digits = (text or "").rstrip("abcdefghijklmnopqrstuvwxyz")
    try:
        return float(digits) * units[text[len(digits) :]]
    except (ValueError, KeyError, TypeError):
        return None


def _size(text: str | None) -> int | None:
    """A size option (4k, 16M, 1g, 4KiB) in bytes; None for ranges, shares and what cannot be read."""
    text = (text or "").lower().removesuffix("ib")
    digits = text.rstrip("bkmgt")
    factor = _SUFFIXES.get(text[len(digits) :])
    return int(digits) * factor if digits.isdecimal() and len(digits) < 16 and factor else None


def _block(options: dict, direction: str) -> int | None:
    """Size of a request: bs=4k, or bs=4k,64k for reads and writes. fio's default is 4 KiB."""
    if "bsrange" in options or "bssplit" in options:
        return None
    sizes = (options.get("bs") or options.get("blocksize") or "4k").split(",")
    return _size(sizes[min(_DIRECTIONS.index(direction), len(sizes) - 1)])
