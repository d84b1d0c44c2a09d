"""smallfile 2 to 3.2: the JSON that it writes with --output-json, and the text that it prints.

Units: times are s, MiBps and MiB/sec are MiB/s, total-data-GB is GiB, file and record sizes are KiB. Source: its manual
and public outputs of versions 2 to 3.2.
"""

import re
from dataclasses import dataclass, field

from reprofs.importers import LARGEST, NUMBER, Malformed, Result, Source, number, whole

WHAT = "the JSON that smallfile writes (--output-json), or the text that it prints"

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
# What it prints: a parameter, a thread, a total (as versions 3 do, as versions 2 did), the share that was done.
_PARAMETER = re.compile(r" *([a-z][^:=,]*) : (.*)")
_THREAD = re.compile(
    r"host = (\S+),thr = (\S+),elapsed = (\S+),files = (\d+),records = (\d+),status = (\S.*)", re.ASCII
)
_TOTAL = re.compile(
    r"(total files|total data|elapsed time|files/sec|IOPS|MiB/sec) = +([\d.]+)(?: G(?:i)?B)?|"
    r"([\d.]+) (sec elapsed time|files/sec|IOPS|MB/sec)",
    re.ASCII,
)
_DONE = re.compile(r" *([\d.]+)% of requested files processed, .*", re.ASCII)
# How a total is called in the text -> in the JSON. A rate ends the text, with six decimals.
_TOTALS = {"total files": "total-files", "total data": "total-data-GB", "done": "pct-files-done", "IOPS": "total-IOPS"}
_TOTALS |= dict.fromkeys(("elapsed time", "sec elapsed time"), "elapsed-time") | {"files/sec": "files-per-sec"}
_TOTALS |= dict.fromkeys(("MiB/sec", "MB/sec"), "total-MiBps")


def read(source: Source) -> Result:
    """The totals and, for each thread, its time and files. smallfile's GB is 2^30 bytes, its file sizes are KiB.

    The rates of 3.x are the sums of those of the threads, each over its own time; older ones are all over all time.
    """
    if re.search(r"^host = \S+,thr = ", source.text, re.MULTILINE):
        return _printed(source)
    if not isinstance(source.json, dict):
        raise Malformed(1, "it is not the JSON of smallfile (not an object)")
    params, results = source.get(("params",), dict), source.get(("results",), dict)
    operation = source.get(("params", "operation"), str)
    result = Result(source.name)
    result.common = _common(params) | {"configuration": str(params.get("top", ""))}
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
    _check(result, totals, _threads(source, result, operation), "$.results")
    return result


def _common(params: dict) -> dict:
    """What all rows of a run have in common, from its parameters by their names."""
    # file-size, file_size, file size (KB)
    sizes = {re.sub("[^a-z]", "", key.lower().partition("(")[0]): value for key, value in params.items()}
    return {
        "tool": "smallfile",
        "tool_version": str(params["version"]) if "version" in params else None,
        "workload": " ".join(f"{key}={value}" for key, value in sorted(params.items()) if value not in (None, "", [])),
        "iteration": 0,
        "record_bytes": _kib(sizes.get("recordsize")),
        "file_bytes": _kib(sizes.get("filesize")),
    }


@dataclass
class _Run:
    """A run in the text: its parameters, threads and totals, as far as they were read."""

    params: dict = field(default_factory=dict)
    threads: list[dict] = field(default_factory=list)
    totals: dict = field(default_factory=dict)  # first name of a key in _RESULTS -> value
    records: bool = False
    place: int | str = ""  # the line of its first thread


def _printed(source: Source) -> Result:
    """The same of what smallfile prints: runs one after another, each with parameters before and totals behind it."""
    result, run = Result(source.name), _Run()
    for at, line in enumerate(source.text.splitlines(keepends=True), 1):
        ends, line = line.endswith("\n"), line.rstrip()
        if found := _PARAMETER.fullmatch(line):
            if run.threads:
                _end(result, run, at)
                run = _Run()
            text = found[2].strip()
            run.params[found[1].strip()] = int(text) if re.fullmatch(r"\d{1,15}", text, re.ASCII) else text
        elif line.startswith("host = "):
            found = _THREAD.fullmatch(line)
            if not found or not ends:
                raise Malformed(at, "the line of a thread is cut short or of an unknown version")
            _printed_thread(result, run, found, at)
        elif run.threads and (found := _TOTAL.fullmatch(line) or _DONE.fullmatch(line)):
            name, text = ("done", found[1]) if found.re is _DONE else (found[1] or found[4], found[2] or found[3])
            if not ends and not re.search(r"\.\d{5}", text):
                raise Malformed(at, "the number of the last line may be cut short, for the line does not end")
            _printed_total(result, run, _TOTALS[name], text, at)
    _end(result, run, source.last)
    return result


def _printed_thread(result: Result, run: _Run, found: re.Match, line: int) -> None:
    if "operation" not in run.params:
        raise Malformed(line, "no line before the threads says the operation ('operation : ...')")
    result.common = _common(run.params)
    folders = next((str(run.params[key]) for key in run.params if key.startswith("top")), "")  # ['/a', '/b']
    result.common["configuration"] = ",".join(re.findall("'([^']*)'", folders)) or folders
    host, thread, elapsed, files, records, status = found.groups()
    run.place, run.records = run.place or line, run.records or bool(int(records[:9]))
    entry = {"client": f"{host} {thread}", "files": whole(files, line), "status": status, "elapsed": _NEVER}
    others = {"client": entry["client"], "items": entry["files"]}
    if elapsed != "None":
        entry["elapsed"] = number(elapsed, line)
        result.add(line, str(run.params["operation"]), "time", elapsed, "s", **others)
    result.add(line, str(run.params["operation"]), "count", files, "1", **others)
    run.threads.append(entry)


def _printed_total(result: Result, run: _Run, key: str, text: str, line: int) -> None:
    value = number(text, line)
    quantity, unit, statistic = next(entry[1:] for entry in _RESULTS if entry[0][0] == key)
    if quantity == "time" and value == _NEVER:
        run.totals[key] = value
        return
    items = int(value if key == "total-files" else run.totals.get("total-files", 0)) or None
    others = {"statistic": statistic, "items": items}
    operation = str(run.params["operation"])
    run.totals[key] = result.add(line, operation, quantity, text, unit, **others)["value"]


def _end(result: Result, run: _Run, line: int) -> None:
    """Checks a run that was printed. Raises Malformed without its totals; its rates may be missing."""
    if result.rows and not run.threads:
        if "operation" in run.params:  # else other programs have written such lines
            what = f"a run of {run.params['operation']} begins, of which nothing else is there"
            result.find("no-end", what, "the text is cut short", line)
        return
    if "elapsed-time" not in run.totals or "total-files" not in run.totals:
        raise Malformed(line, "the number of all files and the time of the run are missing up to the end")
    rates = ["files-per-sec", *(["total-IOPS", "total-MiBps"] if run.records else [])]
    if run.totals["elapsed-time"] >= 0.001 and any(key not in run.totals for key in rates):
        why = "they follow from the rest, but the text is cut short"
        result.find("no-end", "the rates of the run are missing after its time", why, line)
    _check(result, run.totals, run.threads, run.place)


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


def _check(result: Result, totals: dict, threads: list[dict], place: int | str) -> None:
    """Findings about a run. place: of its results."""
    endless = [thread["client"] for thread in threads if thread["elapsed"] == _NEVER]
    if endless:
        what = f"{len(endless)} of {len(threads)} threads did not end, the first is {endless[0]}"
        result.find("error", what, "smallfile writes 100000000 s for them, which is left out", place)
        return
    bad = [thread for thread in threads if thread["status"] not in ("ok", "0", "Success")]
    if bad:
        what = f"{len(bad)} of {len(threads)} threads ended with {bad[0]['status']!r}"
        result.find("error", what, "their numbers are of an unfinished run", place)
    share = totals.get("pct-files-done", 1)
    if share < 0.9999:
        what = f"{100 * share:.2f} % of the files were done when the first thread ended"
        result.find("stonewall", what, "the rate leaves out the slow end of the run", place)
    _check_rate(result, totals, threads, place)
    if threads and sum(thread["files"] for thread in threads) != totals["total-files"]:
        what = f"the threads did {sum(t['files'] for t in threads)} files, the total says {totals['total-files']:g}"
        result.find("threads-missing", what, "results of some threads are lost", place)
    _check_time(result, totals["elapsed-time"], [thread["elapsed"] for thread in threads], place)


def _check_rate(result: Result, totals: dict, threads: list[dict], place: int | str) -> None:
    seconds, rate = totals["elapsed-time"], totals.get("files-per-sec")
    overall = totals["total-files"] / seconds if seconds else 0
    if not rate or not overall or abs(overall / rate - 1) <= 0.01:
        return
    summed = sum(thread["files"] / thread["elapsed"] for thread in threads if thread["elapsed"])
    what = f"{totals['total-files']:g} files in {seconds:g} s are {overall:.1f}/s, printed are {rate:.1f}"
    if abs(summed / rate - 1) < 0.01:
        what += ", the sum of the rates of the threads"
        result.find("sum-of-rates", what, "it leaves out that some threads ended early", place)
    else:
        result.find("rate-not-items-over-time", what, "one of the three numbers is wrong", place)


def _check_time(result: Result, seconds: float, threads: list[float], place: int | str) -> None:
    slowest, fastest = max(threads, default=0), min(threads, default=0)
    if fastest and slowest > 2 * fastest:
        what = f"the slowest thread took {slowest / fastest:.1f} times as long as the fastest"
        result.find("unfair", what, "the rate of the whole run is mostly that of the slowest", place)
    if slowest > 1.01 * seconds + 0.01:
        what = f"a thread took {slowest:g} s, the whole run {seconds:g} s"
        result.find("longer-than-run", what, "no thread can take longer than all, so a number is wrong", place)
    if 0 < seconds < 10:
        why = "the start of the threads is a large part of it, and little data reached the device"
        result.find("short-run", f"the run took {seconds:g} s", why, place)
