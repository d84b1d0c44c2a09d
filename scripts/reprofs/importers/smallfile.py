"""smallfile 2 to 3.2: the JSON it writes with --output-json."""

import re

from reprofs.importers import LARGEST, NUMBER, Malformed, Result, Source

WHAT = "the JSON that smallfile writes (--output-json)"

# Key of the results, its older and newer names -> operation's suffix, quantity, unit, statistic.
_RESULTS = [
    (("elapsed-time", "elapsed"), "time", "s", "value"),
    (("files-per-sec", "filesPerSec"), "rate", "1/s", "value"),
    (("total-IOPS", "IOPS"), "request rate", "1/s", "value"),
    (("total-MiBps", "MiBps"), "throughput", "MiB/s", "value"),
    (("total-files", "files"), "count", "1", "total"),
    (("total-data-GB", "totalDataGB"), "bytes", "GiB", "total"),
    (("pct-files-done", "pctFilesDone"), "share", "%", "value"),
]
# Hosts, and the threads under a host or (when no host was named) under the results: their names in the versions.
_HOSTS = ("hosts", "in-host", "host")
_THREADS = ("threads", "per-thread", "in-thread", "thread")
_NEVER = 1e8  # seconds that smallfile writes for a thread which did not end


def read(source: Source) -> Result:
    """The totals and, for each thread, its time and files. smallfile's GB is 2^30 bytes, its file sizes are KiB.

    The rates of 3.x are the sums of those of the threads, each over its own time; older ones are all over all time.
    """
    if not isinstance(source.json, dict):
        raise Malformed(1, "it is not the JSON of smallfile (not an object)")
    params, results = source.get(("params",), dict), source.get(("results",), dict)
    operation = source.get(("params", "operation"), str)
    sizes = {re.sub("[^a-z]", "", key.lower()): value for key, value in params.items()}  # file-size, file_size
    result = Result(source.name, {"tool": "smallfile"})
    result.common |= {
        "tool_version": str(params["version"]) if "version" in params else None,
        "configuration": str(params.get("top", "")),
        "workload": " ".join(f"{key}={value}" for key, value in sorted(params.items()) if value not in (None, "", [])),
        "iteration": 0,
        "record_bytes": _kib(sizes.get("recordsize")),
        "file_bytes": _kib(sizes.get("filesize")),
    }
    files = next((source.amount(("results", key), int) for key in ("total-files", "files") if key in results), None)
    totals = {}
    for keys, quantity, unit, statistic in _RESULTS:
        key = next((key for key in keys if key in results), None)
        if key:
            value = source.amount(("results", key))
            if quantity == "time" and value == _NEVER:
                totals[keys[0]] = value
                continue
            row = result.add(f"$.results[{key!r}]", operation, quantity, value, unit, statistic=statistic, items=files)
            totals[keys[0]] = row["value"]
    if "elapsed-time" not in totals or "total-files" not in totals:
        raise source.wrong(("results",), "has no elapsed time or no number of files")
    threads = _threads(source, result, operation)
    _check(result, totals, threads, params)
    return result


def _kib(value) -> int | None:
    """KiB in bytes; None for a value that is not a size."""
    return int(value * 1024) if isinstance(value, NUMBER) and 0 < value < LARGEST / 1024 else None


def _threads(source: Source, result: Result, operation: str) -> list[dict]:
    """Time and files of each thread."""
    paths: list[tuple] = []
    for key in _HOSTS:
        for host in source.get(("results", key), dict, {}):
            inner = [name for name in _THREADS if name in source.get(("results", key, host), dict)]
            paths += [("results", key, host, name) for name in inner] or [("results", key, host)]
    paths += [("results", name) for name in _THREADS if name in source.get(("results",), dict)]
    found: list[tuple] = []
    for path in paths:
        # A host without threads in it is the only one of its time.
        found += [path] if len(path) == 3 else [(*path, thread) for thread in source.get(path, dict)]
    return [_thread(source, result, operation, path) for path in found]


def _thread(source: Source, result: Result, operation: str, path: tuple) -> dict:
    elapsed = source.get((*path, "elapsed"), (list, *NUMBER))
    # A stray comma in the code of some versions makes the time a list.
    at = (*path, "elapsed", 0) if isinstance(elapsed, list) else (*path, "elapsed")
    key = "filenum-final" if "filenum-final" in source.get(path, dict) else "files"
    entry = {
        "client": path[-1] if len(path) == 3 else f"{path[2]} {path[-1]}",
        "elapsed": source.amount(at),
        "files": source.amount((*path, key), int),
        "status": str(source.get(path, dict).get("status", "ok")),
    }
    place = "$." + ".".join(path)
    others = {"client": entry["client"], "items": entry["files"]}
    if entry["elapsed"] != _NEVER:
        result.add(f"{place}.elapsed", operation, "time", entry["elapsed"], "s", **others)
    result.add(f"{place}.{key}", operation, "count", entry["files"], "1", **others)
    return entry


def _check(result: Result, totals: dict, threads: list[dict], params: dict) -> None:
    endless = [thread["client"] for thread in threads if thread["elapsed"] == _NEVER]
    if endless:
        what = f"{len(endless)} of {len(threads)} threads did not end, the first is {endless[0]}"
        result.find("error", what, "smallfile writes 100000000 s for them, which is left out", "$.results")
        return
    bad = [thread for thread in threads if thread["status"] not in ("ok", "0", "Success")]
    if bad:
        what = f"{len(bad)} of {len(threads)} threads ended with {bad[0]['status']!r}"
        result.find("error", what, "their numbers are of an unfinished run", "$.results")
    share = totals.get("pct-files-done", 1)
    if share < 0.9999:
        what = f"{100 * share:.2f} % of the files were done when the first thread ended"
        result.find("stonewall", what, "the rate leaves out the slow end of the run", "$.results")
    seconds, rate = totals["elapsed-time"], totals.get("files-per-sec")
    overall = totals["total-files"] / seconds if seconds else 0
    if rate and overall and abs(overall / rate - 1) > 0.01:
        summed = sum(thread["files"] / thread["elapsed"] for thread in threads if thread["elapsed"])
        what = f"{totals['total-files']:g} files in {seconds:g} s are {overall:.1f}/s, printed are {rate:.1f}"
        if abs(summed / rate - 1) < 0.01:
            what += ", the sum of the rates of the threads"
            result.find("sum-of-rates", what, "it leaves out that some threads ended early", "$.results")
        else:
            result.find("rate-not-items-over-time", what, "one of the three numbers is wrong", "$.results")
    if threads and sum(thread["files"] for thread in threads) != totals["total-files"]:
        what = f"the threads did {sum(t['files'] for t in threads)} files, the total says {totals['total-files']:g}"
        result.find("threads-missing", what, "results of some threads are lost", "$.results")
    slowest, fastest = (pick((t["elapsed"] for t in threads), default=0) for pick in (max, min))
    if fastest and slowest > 2 * fastest:
        what = f"the slowest thread took {slowest / fastest:.1f} times as long as the fastest"
        result.find("unfair", what, "the rate of the whole run is mostly that of the slowest", "$.results")
    if 0 < seconds < 10:
        what = f"the run took {seconds:g} s"
        result.find(
            "short-run",
            what,
            "the start of the threads is a large part of it, and little data reached the device",
            "$.results",
        )
