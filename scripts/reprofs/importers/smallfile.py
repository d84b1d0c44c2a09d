"""smallfile: the JSON it writes with --output-json."""

from . import LARGEST, NUMBER, Malformed, Result, Source

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


def read(source: Source) -> Result:
    """The totals and, for each thread, its time and files. smallfile's GB is 2^30 bytes, its file sizes are KiB."""
    if not isinstance(source.json, dict):
        raise Malformed(1, "it is no JSON of smallfile (not an object)")
    params, results = source.get(("params",), dict), source.get(("results",), dict)
    operation = source.get(("params", "operation"), str)
    result = Result(source.name, {"tool": "smallfile"})
    result.common |= {
        "tool_version": str(params["version"]) if "version" in params else None,
        "configuration": str(params.get("top", "")),
        "workload": " ".join(f"{key}={value}" for key, value in sorted(params.items()) if value not in (None, "", [])),
        "iteration": 0,
        "record_bytes": _kib(params.get("record-size")),
        "file_bytes": _kib(params.get("file-size")),
    }
    files = next((source.get(("results", key), int) for key in ("total-files", "files") if key in results), None)
    totals = {}
    for keys, quantity, unit, statistic in _RESULTS:
        key = next((key for key in keys if key in results), None)
        if key:
            value = source.get(("results", key), NUMBER)
            row = result.add(f"$.results[{key!r}]", operation, quantity, value, unit, statistic=statistic, items=files)
            totals[keys[0]] = row["value"]
    if "elapsed-time" not in totals or "total-files" not in totals:
        raise source.wrong(("results",), "has no elapsed time or no number of files")
    threads = _threads(source, result, operation)
    _check(result, totals, threads, params)
    return result


def _kib(value) -> int | None:
    """KiB in bytes; None for what is no size."""
    return int(value * 1024) if isinstance(value, NUMBER) and 0 < value < LARGEST / 1024 else None


def _threads(source: Source, result: Result, operation: str) -> list[dict]:
    """Time and files of each thread, under hosts (newer versions) or per-thread (older ones)."""
    paths = []
    for key in ("hosts", "in-thread", "per-thread"):
        for name, entry in source.get(("results", key), dict, {}).items():
            inner = entry.get("threads") if isinstance(entry, dict) else None
            paths += [("results", key, name, "threads", t) for t in inner] if inner else [("results", key, name)]
    found = []
    for path in paths:
        elapsed = source.get((*path, "elapsed"), (list, *NUMBER))
        # A comma too many in some versions makes a list of the time.
        at = (*path, "elapsed", 0) if isinstance(elapsed, list) else (*path, "elapsed")
        client = path[-1] if len(path) == 3 else f"{path[2]} {path[-1]}"
        entry = {
            "client": client,
            "elapsed": source.get(at, NUMBER),
            "files": source.get((*path, "filenum-final"), int),
        }
        entry["status"] = str(source.get(path, dict).get("status", "ok"))
        place = "$." + ".".join(path)
        others = {"client": client, "items": entry["files"]}
        result.add(f"{place}.elapsed", operation, "time", entry["elapsed"], "s", **others)
        result.add(f"{place}.filenum-final", operation, "count", entry["files"], "1", **others)
        found.append(entry)
    return found


def _check(result: Result, totals: dict, threads: list[dict], params: dict) -> None:
    bad = [thread for thread in threads if thread["status"] not in ("ok", "0")]
    if bad:
        what = f"{len(bad)} of {len(threads)} threads ended with {bad[0]['status']!r}"
        result.find("error", what, "their numbers are of an unfinished run", "$.results")
    share = totals.get("pct-files-done", 1)
    if share < 0.9999:
        what = f"{100 * share:.2f} % of the files were done when the first thread ended"
        result.find("stonewall", what, "the rate leaves out the slow end of the run", "$.results")
    seconds, rate = totals["elapsed-time"], totals.get("files-per-sec")
    if rate and seconds and abs(totals["total-files"] / seconds / rate - 1) > 0.01:
        files = totals["total-files"]
        what = f"{files:g} files in {seconds:g} s are {files / seconds:.1f}/s, printed are {rate:.1f}"
        result.find("rate-not-items-over-time", what, "one of the three numbers is wrong", "$.results")
    if threads and sum(thread["files"] for thread in threads) != totals["total-files"]:
        what = f"the threads did {sum(t['files'] for t in threads)} files, the total says {totals['total-files']:g}"
        result.find("threads-missing", what, "results of some threads are lost", "$.results")
    slowest, fastest = (pick((t["elapsed"] for t in threads), default=0) for pick in (max, min))
    if fastest and slowest > 2 * fastest:
        what = f"the slowest thread took {slowest / fastest:.1f} times as long as the fastest"
        result.find("unfair", what, "files a second of the whole run is mostly that of the slowest", "$.results")
    if 0 < seconds < 10:
        what = f"the run took {seconds:g} s"
        result.find("short-run", what, "starting the threads weighs, and little reached the device", "$.results")
