"""Raw records -> tidy tables. The only place where a raw record is taken apart.

`build` reads the plan of a study and the raw record of each of its trials and writes, for identical input, identical
bytes: trials, phases, samples, clients and latency.parquet, study.json, dictionary.csv. environment.json describes the
hosts and the lab, and records.sha256 lists the records (as sha256sum does): both differ from run to run.
`reprofs.data.study` reads the folder back.
"""

from __future__ import annotations

import contextlib
import csv
import ctypes
import functools
import gc
import io
import itertools
import json
import multiprocessing
import os
import re
import shlex
import shutil
from collections import Counter, deque
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from reprofs.data.columns import IDENTITY, OVER_TIME, TABLES, dictionary, schema
from reprofs.data.records import Guests, Reader, phases_of, text_of
from reprofs.errors import UserError
from reprofs.files import read_json
from reprofs.importers import Malformed, fio
from reprofs.trial.protocol import CELL, IDLE, RECOVERY
from reprofs.trial.record import SET_ASIDE

PROMISES = re.compile(r'^(\{"written":.*\})$', re.MULTILINE)  # what engine promise --verify says
SEEN = re.compile(r'^(\{"promised":.*\})$', re.MULTILINE)  # what engine promise --seconds says
STAMPS = re.compile(r"^([a-z-]+) (\d+\.\d+)$", re.MULTILINE)  # of hosts.outage
# What rsync --stats says of its list of files; thousands have commas.
LISTS = re.compile(r"^File list (generation|transfer) time: ([\d,]+\.\d+) seconds$", re.MULTILINE)
TOLD_NS = 5 * 10**8  # in less, 10 ms at either end would be too much of it
BATCH = 256  # trials whose rows are in memory together
SEVERAL = 4  # from this many batches on, processes of their own are worth their start
KEPT = 2**25  # bytes that a process which reads records does not give back; more is not possible
GROUP = 2**17  # rows of a table that are written together
TOGETHER = 2**16  # rows of a column that are encoded together; by default 1,024, which takes half as long again
# Condition of a real clock -> the columns of trials that its range is taken over.
_RANGES = {
    "load_1min": ["load_before", "load_after"],
    "steal_share": ["steal_share"],
    "frequency_mhz": ["frequency_low_mhz", "frequency_high_mhz"],
    "temperature_c": ["temperature_c"],
    "settling_s": ["settling_s"],
}


def build(plan: Path, raw: Path, output: Path, batch: int = BATCH) -> None:
    """Write the tables of a study into the folder `output`, replacing it as a whole.

    `plan` is the plan's JSON; `raw` the folder with one `<trial id>.json` for each of its trials. A trial without a
    record becomes a row with status missing; a record of no trial of this plan is not part of the study and not read.
    A record whose programs' output cannot be parsed becomes a row with status failed. `batch` trials are in memory
    together.

    Raises UserError, naming file and key, for a plan or record that is not valid, and for a record that is not what
    its trial wrote or comes from another job, protocol, lab or guest than the plan or the other records.
    """
    plan, raw, output = Path(plan), Path(raw), Path(output)
    content = read_json(plan)
    source = _Source(plan, content, raw)
    if isinstance(content["study"].get("rounds"), dict):
        raise UserError(
            f"{plan}: the study adds rounds: take the plan of its last look, data/rounds/STUDY/ROUNDS.json."
        )
    partial = output.with_name(output.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir(parents=True)
        notes = _Notes()
        with contextlib.ExitStack() as stack:
            paths = {name: partial / f"{name}.parquet" for name in TABLES}
            # Arrow would note of texts in this table that they came in as numbers of a dictionary.
            latency = pq.ParquetWriter(
                paths.pop("latency"), _packed(schema("latency")), store_schema=False, write_batch_size=TOGETHER
            )
            stack.enter_context(latency)
            files = {name: stack.enter_context(_File(name, path)) for name, path in paths.items()}
            for part in source.batches(batch):
                for name, table in part.tables.items():
                    files[name].add(table)
                latency.write_table(part.latency.table())  # a dictionary holds for one group of rows
                notes.merge(part.notes)
        notes.guests.check(raw)
        study = {key: value for key, value in content.items() if key != "trials"}
        _write_json(partial / "study.json", study)
        environment = notes.environment() | {"set_aside": len(list((raw / SET_ASIDE).glob("*.json")))}
        _write_json(partial / "environment.json", environment)
        sums = "".join(f"{digest}  {name}\n" for name, digest in sorted(notes.digests.items()))
        (partial / "records.sha256").write_text(sums)
        (partial / "dictionary.csv").write_text(_csv(dictionary()))
        shutil.rmtree(output, ignore_errors=True)
        partial.rename(output)
    except OSError as error:
        raise UserError(
            f"Cannot write the tables to {output}: {error.strerror}; free space or choose another folder."
        ) from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


class _Source:
    """The records of a plan, read in batches of trials sorted by name, so that no more than a few are in memory."""

    def __init__(self, path: Path, plan: dict, raw: Path):
        self._reader, self._plan = Reader(path, plan, raw), plan

    def batches(self, size: int) -> Iterator[_Batch]:
        """Each batch in order; read by several processes where there are many."""
        trials = sorted(self._plan["trials"], key=lambda trial: trial["id"])
        batches = [trials[start : start + size] for start in range(0, len(trials), size)]
        processors = min(len(os.sched_getaffinity(0)), len(batches))
        if len(batches) < SEVERAL or processors < 2:
            yield from map(self.read, batches)
            return
        # Threads may run in this process, so that a copy of it (fork) could wait for their locks for ever.
        context = multiprocessing.get_context("spawn")
        own = self._reader.path, self._plan | {"trials": []}, self._reader.raw
        with ProcessPoolExecutor(processors, context, _start, own) as pool:
            ahead: deque[Future[_Batch]] = deque()
            try:
                for batch in batches:
                    ahead.append(pool.submit(_read, batch))
                    if len(ahead) > 2 * processors:
                        yield ahead.popleft().result()
                while ahead:
                    yield ahead.popleft().result()
            except BrokenProcessPool:
                raise UserError(
                    f"a process that read the records in {self._reader.raw} was killed: see whether the host ran out "
                    "of memory (journalctl -k, dmesg), then run this again."
                ) from None
            finally:
                pool.shutdown(cancel_futures=True)

    def read(self, trials: list[dict]) -> _Batch:
        """The rows of one batch of trials, and what else is told of their records."""
        notes, rows = _Notes(), _Rows()
        for trial in trials:
            found = self._reader.read(trial)
            if found:
                notes.add(trial["id"], *found, self._plan)
            rows.add(trial, found[0] if found else None, self._plan)
        return rows.batch(notes)


_source: _Source


def _start(path: Path, plan: dict, raw: Path) -> None:
    """What a process that reads records has: its own copy of the plan, without the trials."""
    global _source
    gc.disable()  # records have no circles, and looking for some takes a third of the time
    _keep_memory()
    _source = _Source(path, plan, raw)


def _keep_memory() -> None:
    """Memory of one batch is kept for the next: to give it back and get it anew takes a tenth of the time (glibc)."""
    with contextlib.suppress(AttributeError, OSError):
        library = ctypes.CDLL(None)
        library.mallopt(-1, KEPT)  # M_TRIM_THRESHOLD
        library.mallopt(-3, KEPT)  # M_MMAP_THRESHOLD


def _read(trials: list[dict]) -> _Batch:
    return _source.read(trials)


@dataclass
class _Batch:
    """The rows of some trials; those of latencies packed."""

    tables: dict[str, pa.Table]
    latency: _Latency
    notes: _Notes


class _File:
    """A parquet file to which rows are added."""

    def __init__(self, name: str, path: Path):
        self._rows, self._waiting = 0, [schema(name).empty_table()]
        self._file = pq.ParquetWriter(path, schema(name), write_batch_size=TOGETHER)

    def __enter__(self) -> _File:
        return self

    def __exit__(self, *ending) -> None:
        self._write()
        self._file.close()

    def add(self, table: pa.Table) -> None:
        """Add rows; they are written in large groups."""
        self._waiting.append(table)
        self._rows += len(table)
        if self._rows >= GROUP:
            self._write()
            self._rows, self._waiting = 0, []

    def _write(self) -> None:
        if self._waiting:
            whole = pa.concat_tables(self._waiting).combine_chunks()
            self._file.write_table(whole, row_group_size=max(len(whole), 1))


def _packed(plain: pa.Schema) -> pa.Schema:
    """A schema with texts as numbers of a dictionary, which is how parquet writes them anyway."""
    coded = pa.dictionary(pa.int32(), pa.string())
    return pa.schema([(field.name, coded if field.type == pa.string() else field.type) for field in plain])


@dataclass
class _Latency:
    """The buckets of the latency histograms of some trials, as arrays."""

    identity: pa.Table  # of the trials
    histograms: list[tuple[int, str, str, int]]  # place of its trial, phase, cache, number of buckets
    index: np.ndarray
    count: np.ndarray

    def table(self) -> pa.Table:
        """One row per bucket; its texts are numbers of a dictionary."""
        trial, phase, cache, sizes = zip(*self.histograms, strict=True) if self.histograms else ((), (), (), ())
        keys = self.identity.take(pa.array(trial, pa.int64()))
        keys = keys.append_column("phase", pa.array(phase, pa.string()))
        keys = keys.append_column("cache", pa.array(cache, pa.string()))
        columns = {}
        for name, column in zip(keys.column_names, keys.columns, strict=True):
            if column.type == pa.string():
                coded = column.combine_chunks().dictionary_encode()
                indices = np.repeat(coded.indices.to_numpy(), np.array(sizes, int))
                columns[name] = pa.DictionaryArray.from_arrays(indices, coded.dictionary)
            else:
                columns[name] = pa.array(np.repeat(column.to_numpy(), np.array(sizes, int)))
        lower, upper = bucket_bounds(self.index.astype(np.int64))
        columns |= {"lower_ns": pa.array(lower), "upper_ns": pa.array(upper)}
        columns["count"] = pa.array(self.count)
        return pa.table(columns)


class _Rows:
    """Rows of the tables, from records added in the order of their trials' names."""

    def __init__(self) -> None:
        self._identities: list[dict] = []
        # The columns that follow those of the identity; and how many rows each trial has.
        self._own: dict[str, list[dict]] = {name: [] for name in TABLES}
        self._sizes: dict[str, list[int]] = {name: [] for name in TABLES}
        self._measured: list[dict] = []  # phases as in the record, one for each row of the table
        self._histograms: list[tuple[int, str, str, int]] = []
        self._buckets: list[np.ndarray] = []

    def add(self, trial: dict, record: dict | None, plan: dict) -> None:
        """Add the rows of a trial; without a record it is missing."""
        declared = {(p["name"], p["cache"]): p for p in plan["workloads"][trial["workload"]]["phases"]}
        hosts = _client_hosts(plan, trial)
        record = _with_outputs_read(record, declared)
        before = {name: len(rows) for name, rows in self._own.items()}
        self._identities.append(_identity(trial, plan, record))
        self._own["trials"].append(_trial_row(record, plan["stacks"].get(trial["stack"], {})))
        position = 0
        runs: dict[tuple, list[dict]] = {}
        idle = _idle(record)
        for phase in phases_of(record):
            runs.setdefault((phase["name"], phase["cache"]), []).append(phase)
        for key, phases in runs.items():
            for number, phase in enumerate(phases):
                own = _samples(phase, number if len(phases) > 1 else None)
                place = {"phase": phase["name"], "cache": phase["cache"]}
                self._own["samples"] += [place | sample for sample in own]
                self._own["clients"] += [place | row for row in _clients(phase, own, hosts)]
            parts = declared.get(key, {}).get("samples", {})
            events = _crash(record, phases) | _outage(record, phases, declared.get(key, {}))
            shares = [idle[id(phase)] for phase in phases if id(phase) in idle]
            events["processor_idle"] = sum(shares) / len(shares) if shares else None
            for measured in _parts(phases[0], own, parts) if parts else [_mean(phases)]:
                self._measured.append(measured)
                self._own["phases"].append(
                    {"position": position, "command": _join(tuple(measured.get("argv", ()))), **events}
                )
                position += 1
        for key in sorted(key for key, phases in runs.items() if len(phases) == 1 and phases[0]["latency"]):
            buckets = runs[key][0]["latency"]["buckets"]
            self._histograms.append((len(self._identities) - 1, *key, len(buckets)))
            self._buckets.append(buckets)
        for name, rows in self._own.items():
            self._sizes[name].append(len(rows) - before[name])

    def batch(self, notes: _Notes) -> _Batch:
        """All that was added."""
        identity = pa.Table.from_pylist(self._identities, schema=pa.schema(list(schema("trials"))[: len(IDENTITY)]))
        measured = _columns(self._measured)
        tables = {}
        for name in self._own.keys() - {"latency"}:
            found = measured if name == "phases" else {}
            types = [field for field in list(schema(name))[len(IDENTITY) :] if field.name not in found]
            own = pa.Table.from_pylist(self._own[name], schema=pa.schema(types))
            table = identity.take(np.repeat(np.arange(len(identity)), self._sizes[name]))
            columns = dict(zip(IDENTITY, table.columns, strict=True)) | found
            columns |= dict(zip(own.column_names, own.columns, strict=True))
            tables[name] = pa.table([columns[column] for column in schema(name).names], schema=schema(name))
        return _Batch(tables, _Latency(identity, self._histograms, *_sorted(self._buckets)), notes)


def _sorted(buckets: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Index and count of the buckets of all histograms, each histogram sorted."""
    numbers = np.concatenate([np.empty((0, 2), np.int64), *buckets])
    index, count = numbers[:, 0].astype(np.int16), numbers[:, 1].copy()
    histogram = np.repeat(np.arange(len(buckets)), [len(one) for one in buckets])
    if ((index[1:] <= index[:-1]) & (histogram[1:] == histogram[:-1])).any():
        order = np.lexsort((count, index, histogram))
        index, count = index[order], count[order]
    return index, count


def bucket_bounds(index):
    """Bounds [lower, upper) in ns of buckets of the log-linear histogram with 64 sub-buckets an octave.

    index: a number or an array.
    """
    exponent = np.maximum((index >> 6) - 1, 0)
    lower = np.where(index < 128, index, ((index & 63) | 64) << exponent)
    return lower, lower + (1 << exponent)


class _Notes:
    """What is told of all records together: their digests, and their environments in one.

    Of the environments for each key its distinct values, each with the number of records. What differs by nature (job
    text, start, seconds on the host) is left out or reduced to first, last and sum. Of the conditions of real clocks
    there is the range over the trials, lab by lab, and how many trials began unsettled.
    """

    def __init__(self) -> None:
        self.digests: dict[str, str] = {}
        self.guests = Guests()
        self._started: list[str] = []
        self._seconds: list[float] = []
        self._ran_twice = 0
        self._same: Counter[str] = Counter()  # environments without what differs in every trial, as JSON
        self._ranges: dict[str, dict] = {}

    def add(self, name: str, record: dict, digest: str, plan: dict) -> None:
        """Note the record of a trial."""
        environment = record["environment"]
        self.digests[f"{name}.json"] = digest
        self.guests.add(name, record, plan)
        if environment.get("started"):
            self._started.append(environment["started"])
        if environment.get("host_seconds") is not None:
            self._seconds.append(environment["host_seconds"])
        self._ran_twice += environment.get("attempts", 1) > 1
        self._same[text_of(_shared(environment))] += 1
        row = _conditions(record)
        if row["settled"] is not None:
            ranges = {key: [row[name] for name in keys if row[name] is not None] for key, keys in _RANGES.items()}
            self._add_ranges(record["trial"]["lab"], {"trials": 1, "unsettled": int(not row["settled"]), **ranges})

    def merge(self, other: _Notes) -> None:
        """Add what was noted of later trials."""
        self.digests |= other.digests
        self.guests.merge(other.guests)
        self._started += other._started
        self._seconds += other._seconds
        self._ran_twice += other._ran_twice
        self._same.update(other._same)
        for lab, ranges in other._ranges.items():
            self._add_ranges(lab, ranges)

    def _add_ranges(self, lab: str, found: dict) -> None:
        own = self._ranges.setdefault(lab, {"trials": 0, "unsettled": 0})
        for key, value in found.items():
            if key not in _RANGES:
                own[key] += value
            elif value:
                both = [*value, *own.get(key, [])]
                own[key] = [min(both), max(both)]

    def environment(self) -> dict:
        """All environments in one."""
        values: dict[str, Counter] = {}
        for text, records in self._same.items():
            for key, value in _flatten(json.loads(text)):
                values.setdefault(key, Counter())[value] += records
        return {
            "records": len(self.digests),
            "first_started": min(self._started, default=None),
            "last_started": max(self._started, default=None),
            "host_seconds_sum": round(sum(self._seconds), 3),
            "ran_twice": self._ran_twice,
            "conditions": self._ranges,
            "values": {key: dict(sorted(counter.items())) for key, counter in sorted(values.items())},
        }


def _with_outputs_read(record: dict | None, declared: dict) -> dict | None:
    """The record with its programs' output parsed: samples of fio, rsync's times of its list, files after a power cut.

    A record whose output cannot be parsed has failed, whatever its programs' exit codes were. `declared` maps (phase,
    cache) to the phase in the plan.
    """
    for phase in phases_of(record):
        expected = declared.get((phase["name"], phase["cache"]), {})
        if "--stats" in phase.get("argv", ()) and phase["argv"][0] == "rsync" and not phase.get("clients"):
            phase["samples"] = [
                {
                    "name": f"list-{part}",
                    "wall_ns": round(float(seconds.replace(",", "")) * 1e9),
                    "items": 1,
                    "bytes": 0,
                }
                for part, seconds in LISTS.findall(phase["output"])
            ]
        if expected.get("parse") != "fio" or phase["exit"] != 0:
            continue
        (name,) = expected["samples"]  # one job in one direction
        try:
            phase["samples"] = [sample | {"name": name} for sample in fio.samples(phase["output"])]
            if not phase["samples"]:
                raise ValueError("fio's output has no results")
        except (ValueError, Malformed) as error:
            record = _failed(record, f"Phase {phase['name']}: {error}.")
    for command in record["measurement"].get("commands", []) if record else []:
        found = PROMISES.search(command["output"]) if command["stage"].startswith("check ") else None
        try:
            command["survivors"] = json.loads(found[1]) if found else None
        except ValueError as error:
            record = _failed(record, f"The output of {command['stage']} is not valid JSON: {error}.")
    return record


def _failed(record: dict | None, reason: str) -> dict | None:
    return record if not record or record["status"] != "ok" else record | {"status": "failed", "reason": reason}


def _samples(phase: dict, run: int | None) -> list[dict]:
    """The samples of a phase, and the phase itself when it is one of several runs without any that have a start."""
    found = phase.get("samples", [])
    if run is not None and not any("start_ns" in sample for sample in found):
        found = [
            *found,
            {"name": phase["name"], "iteration": run} | {key: phase[key] for key in ("wall_ns", "items", "bytes")},
        ]
    optional = ("client", "iteration", "file_bytes", "record_bytes", "start_ns")
    return [dict.fromkeys(optional) | sample for sample in found]


def _crash(record: dict | None, phases: list[dict]) -> dict:
    """The columns on the power cuts of a phase, one cut per run: mean times, and sums of everything counted.

    What was left is reported by the engine, or by the phase's own check (engine promise --verify) of each client.
    """
    cuts = [phase["crash"] for phase in phases if "crash" in phase]
    if not cuts:
        return {}
    name = phases[0]["name"]
    after = [phase["wall_ns"] for phase in phases_of(record) if phase["name"] == name + RECOVERY]
    commands = record["measurement"].get("commands", []) if record else []
    checks = [c for c in commands if c["stage"] == f"check {name}"]
    found = [check["survivors"] for check in checks if check.get("survivors")]
    found += [cut["survivors"] for cut in cuts if "survivors" in cut]
    counted = ("written", "promised", "broken", "kept", "short", "wrong", "missing", "extra")
    return {
        "crash_cut_ns": round(sum(cut["cut_ns"] for cut in cuts) / len(cuts)),
        "crash_lost_bytes": sum(cut.get("lost_bytes", 0) for cut in cuts),
        "crash_recovery_ns": round(sum(after) / len(after)) if after else None,
        **{f"crash_{key}": sum(one.get(key, 0) for one in found) if found else None for key in counted},
    }


def _idle(record: dict | None) -> dict[int, float]:
    """The share of each phase in which the processor was idle, by the phase's id; not of those shorter than TOLD_NS.

    Before and after every phase a command prints seconds since boot and seconds idle (proc_uptime(5), in 10 ms). That
    it was idle all the time while devices settled makes the share the least that it can be.
    """
    commands = record["measurement"].get("commands", []) if record else []
    read = [float(command["output"].split()[1]) for command in commands if command["stage"] == IDLE]
    phases = [phase for phase in phases_of(record) if not phase["name"].endswith(RECOVERY)]
    if len(read) != 2 * len(phases):
        return {}
    return {
        id(phase): min(1.0, max(0.0, (after - before) * 1e9 - phase["settle_ns"]) / phase["wall_ns"])
        for phase, before, after in zip(phases, read[::2], read[1::2], strict=True)
        if phase["wall_ns"] >= TOLD_NS
    }


def _outage(record: dict | None, phases: list[dict], declared: dict) -> dict:
    """The columns on the outage of a phase: what the client saw, what became of its files, how long healing took."""
    if not record or "outage" not in declared:
        return {}
    name = phases[0]["name"]
    commands = record["measurement"].get("commands", [])
    logged = "\n".join(command["output"] for command in commands if command["stage"] == f"outage {name}")
    at = {word: float(seconds) for word, seconds in STAMPS.findall(logged)}
    seen = SEEN.search(phases[0]["output"])
    found = json.loads(seen[1]) if seen else {}
    checks = [command["survivors"] for command in commands if command["stage"] == f"check {name}"]
    end = at.get("healed", at.get("unhealed"))
    heals = end is not None and end > at["healing"]
    return {
        "outage_what": declared["outage"]["what"],
        "outage_ns": round((at["back"] - at["lost"]) * 1e9) if "back" in at else None,
        "outage_healed": "healed" in at if heals else None,
        "outage_heal_ns": round((end - at["back"]) * 1e9) if heals and end else None,
        "outage_promised": found.get("promised"),
        "outage_failed": found.get("failed"),
        "outage_errors": ", ".join(f"{number} {error}" for error, number in found.get("errors", {}).items()),
        "outage_longest_ns": found.get("longest_ns"),
        "outage_stall_ns": found.get("gap_ns"),
        "outage_broken": checks[0]["broken"] if checks and checks[0] else None,
    }


def _client_hosts(plan: dict, trial: dict) -> list[str]:
    """The hosts that the clients of a trial take in turn, as `models.Filesystem.host_names` has them; none without."""
    filesystem = plan["filesystems"].get(trial["filesystem"], {})
    if "clients" in filesystem:
        return filesystem["clients"]["hosts"]
    there = filesystem.get("hosts", {"servers": 0, "clients": 0})
    on_servers = plan["workloads"][trial["workload"]].get("on_servers") and there["servers"] > 1
    letter, count = ("s", there["servers"]) if on_servers else ("c", there["clients"])
    return [f"{letter}{number}" for number in range(1, count + 1)]


def _clients(phase: dict, samples: list[dict], hosts: list[str]) -> list[dict]:
    """What each of several clients did in a phase, or in each part of it that has samples.

    hosts: that the clients take in turn, if any.
    """
    rows = [
        {"client": number, "host": hosts[number % len(hosts)] if hosts else None} | client
        for number, client in enumerate(phase.get("clients", []))
    ]
    parts: dict[tuple, list[dict]] = {}
    for sample in samples if rows else []:
        if sample["name"].endswith(OVER_TIME):  # a part of a part
            continue
        parts.setdefault((sample["name"], sample["client"]), []).append(sample)
    found = []
    for (name, client), own in parts.items():
        start = min(sample["start_ns"] for sample in own)
        end = max(sample["start_ns"] + sample["wall_ns"] for sample in own)
        row = {"phase": name, "wall_ns": end - start, **{key: rows[client][key] for key in ("client", "host")}}
        row["start_ns"] = start + rows[client]["start_ns"]
        found.append(row | {key: sum(sample[key] for sample in own) for key in ("items", "bytes")})
    return found or rows


def _parts(phase: dict, samples: list[dict], titles: dict) -> list[dict]:
    """A phase as its parts: for each name the mean over iterations.

    An iteration of a part takes as long as its slowest client, and a client as long as the sum of its samples.
    """
    parts = []
    for name in titles:
        times: dict = {}
        here = [sample for sample in samples if sample["name"] == name]
        for sample in here:
            clients = times.setdefault(sample["iteration"], Counter())
            clients[sample["client"]] += sample["wall_ns"]
        if not here:
            continue
        part = {"name": name, "wall_ns": round(sum(max(c.values()) for c in times.values()) / len(times))}
        part |= {key: round(sum(sample[key] for sample in here) / len(times)) for key in ("items", "bytes")}
        unknown = ("user_ns", "system_ns", "sync_ns", "driver_ns", "settle_ns")
        parts.append(phase | part | dict.fromkeys(unknown) | {"device": None, "latency": None})
    return parts


def _mean(phases: list[dict]) -> dict:
    """One phase, or the mean of several runs of it."""
    if len(phases) == 1:
        return phases[0]
    numbers = ("wall_ns", "user_ns", "system_ns", "sync_ns", "driver_ns", "settle_ns", "items", "bytes")
    mean = {key: round(sum(phase[key] for phase in phases) / len(phases)) for key in numbers}
    return {**phases[0], **mean, "device": None, "latency": None}


def label(trial: dict, plan: dict) -> str:
    """What tables and figures call the file system of a trial: the column label."""
    variant, at, network = trial["variant"].partition("@")
    several = len(plan.get("networks", {})) > 1  # a network that all have tells none from another
    return trial["filesystem"] + (f"+{variant}" if variant != "default" else "") + (at + network) * several


def _identity(trial: dict, plan: dict, record: dict | None) -> dict:
    return {
        "trial": trial["id"],
        "label": label(trial, plan),
        "role": plan["filesystems"].get(trial["filesystem"], {}).get("role", "contender"),
        "status": record["status"] if record else "missing",
        **{key: trial[key] for key in (*CELL, "round", "seed", "order")},
    }


def _trial_row(record: dict | None, planned: dict) -> dict:
    measurement = record["measurement"] if record else {}
    mounted = measurement.get("mounted", {})
    commands = measurement.get("commands", [])
    checks = measurement.get("verification", [])
    clock = measurement.get("clock", {})
    argv = {command["stage"]: command["argv"] for command in reversed(commands)}
    stack, prepared = measurement.get("stack", {}), measurement.get("preparation", [])
    faults = [shlex.join(command["argv"]) for command in commands if command["stage"] == "fault"]
    return {
        "reason": record["reason"] if record else "There is no record: the trial has not run.",
        "clock_name": clock.get("name"),
        "clock_read_ns": clock.get("read_ns"),
        "devices": _devices(text_of(measurement.get("devices", []))),
        **{f"stack_{key}": stack.get(key) for key in ("disks", "state", "initial_sync")},
        "stack_fault": "; ".join(faults) or None,
        "stack_readback": _readback(commands, planned.get("summary", [])),
        **_frames(commands),
        **{f"prepared_{key}": sum(phase[key] for phase in prepared) for key in ("items", "bytes")},
        **_ageing(next((phase for phase in prepared if phase["name"] == "age"), None)),
        **{f"{stage}_command": _join(tuple(argv[stage])) if stage in argv else None for stage in ("make", "mount")},
        "mounted_type": mounted.get("type"),
        "mounted_options": ",".join(mounted["options"]) if mounted else None,
        **{f"mounted_{key}": mounted.get(key) for key in ("block_bytes", "total_bytes", "free_bytes")},
        "commands": len(commands),
        "commands_failed": sum(command["exit"] != 0 or command["signal"] != 0 for command in commands),
        "phases": len(phases_of(record)),
        "checks": sum(command["stage"].startswith("check ") and command["exit"] == 0 for command in commands),
        **{f"verified_{key}": sum(check[key] for check in checks) for key in ("files", "bytes", "mismatches")},
        "verified_digest": " ".join(check.get("digest", "") for check in checks),
        **_conditions(record),
    }


_join = functools.lru_cache(4096)(shlex.join)  # of tuples; many trials have the same commands


def _ageing(phase: dict | None) -> dict:
    """Columns of the filling and churning: what it printed, and the layout of the files before and after the churn."""
    found = {"ageing": phase["output"] if phase else None}
    for sample in phase.get("samples", []) if phase else []:
        when = sample["name"].removeprefix("layout-")
        if when != sample["name"]:
            files, blocks = sample["items"], sample["blocks"]
            found[f"extents_{when}"] = sample["extents"] / files if files else None
            found[f"layout_score_{when}"] = sample["contiguous"] / blocks if blocks else None
    return dict.fromkeys(("extents_before", "extents_after", "layout_score_before", "layout_score_after")) | found


def _readback(commands: list[dict], summary: list[str]) -> str | None:
    """Lines of the commands that read the stack back, as it was when the measured phases began.

    Of a long output only those that match one of the regular expressions in `summary`, from the stack's file.
    """
    faults = [number for number, command in enumerate(commands) if command["stage"] == "fault"]
    later = itertools.dropwhile(lambda command: command["stage"] != "readback", commands[faults[-1] if faults else 0 :])
    # Only the first reading: at the end of the trial it is read again, when a rebuilt array is complete.
    found: dict[tuple, str] = {}
    for command in itertools.takewhile(lambda command: command["stage"] == "readback", later):
        found.setdefault(tuple(command["argv"]), command["output"])
    lines = [line for output in found.values() for line in _key_lines(output, tuple(summary))]
    return "\n".join(dict.fromkeys(lines)) or None


@functools.lru_cache(1024)
def _key_lines(output: str, summary: tuple[str, ...]) -> list[str]:
    # The members of an MD array are many, and their number and state are in the next line: [6/6] [UUUUUU].
    lines = [re.sub(r"( \S+\[\d+\](\(\w\))?)+$", "", " ".join(line.split())) for line in output.splitlines()]
    lines = [line for line in lines if line]
    return [line for line in lines if len(lines) <= 2 or any(re.search(one, line) for one in summary)][:8]


def _frames(commands: list[dict]) -> dict:
    """What the queues of the network counted, all ends of its cables together; None where nothing was shaped.

    Read from the lines of `tc -s qdisc show` (iproute2): Sent 210 bytes 5 pkt (dropped 0, overlimits 0 requeues 0).
    """
    said = "\n".join(command["output"] for command in commands if command["stage"] == "network")
    lines = re.findall(r"^qdisc netem .*\n Sent \d+ bytes (\d+) pkt \(dropped (\d+)", said, re.MULTILINE)
    counts = [tuple(map(int, line)) for line in lines]
    sums = [sum(column) for column in zip(*counts, strict=True)] or [None, None]
    return dict(zip(("network_frames", "network_dropped"), sums, strict=True))


def _conditions(record: dict | None) -> dict:
    """The columns on how quiet the host was; None where the record or the machine does not say."""
    environment = record["environment"] if record else {}
    settling, conditions = environment.get("settling", {}), environment.get("conditions", {})
    before, after = conditions.get("before") or {}, conditions.get("after") or {}
    frequencies = [f for part in (before, after) for f in part.get("frequency_mhz") or []]
    temperatures = [t for part in (before, after) for t in _several(part.get("temperature_c"))]
    return {
        "settled": settling.get("settled"),
        "settling_s": settling.get("waited_s"),
        "settling_reason": settling.get("reason") or None,
        **{f"{key}_within_ns": environment.get("lab", {}).get(f"{key}_within_ns") for key in ("starts", "clocks")},
        "load_before": before.get("load_1min"),
        "load_after": after.get("load_1min"),
        "steal_share": after.get("steal_share"),
        "frequency_low_mhz": min(frequencies, default=None),
        "frequency_high_mhz": max(frequencies, default=None),
        "governor": after.get("governor") or before.get("governor") or None,
        "temperature_c": max(temperatures, default=None),
    }


def _several(value) -> list:
    """A list of a value, of several, or of none."""
    return value if isinstance(value, list) else [] if value is None else [value]


@functools.lru_cache(1024)
def _devices(text: str) -> str:
    """`nullb0: 1024 MiB, 80 µs a request, 500 MB/s`; devices that are alike are named by the first and the last.

    text: the devices as JSON.
    """
    alike: dict[str, list[str]] = {}
    for device in json.loads(text):
        parts = [f"{device['size_bytes'] / 2**20:g} MiB"]
        if "model" in device:
            parts.append(f"modelled, {device['model']}")
        if device.get("completion_ns"):
            parts.append(f"{device['completion_ns'] / 1000:g} µs a request")
        if "bandwidth_mb_s" in device:
            parts.append(f"{device['bandwidth_mb_s']:g} MB/s" if device["bandwidth_mb_s"] else "unlimited bandwidth")
        alike.setdefault(", ".join(parts), []).append(device["name"])
    return "; ".join(
        f"{names[0]}: {text}" if len(names) == 1 else f"{names[0]} to {names[-1]}: each {text}"
        for text, names in alike.items()
    )


# Columns of phases that stand in a phase of a record; and the objects in it whose keys are columns with a prefix.
_PLAIN = [
    "cache",
    "operation",
    "wall_ns",
    "user_ns",
    "system_ns",
    "sync_ns",
    "driver_ns",
    "settle_ns",
    "items",
    "bytes",
]
_PLAIN += ["exit", "rebuilding"]
_INNER = ("device", "cold", "latency")


def _columns(phases: list[dict]) -> dict[str, pa.Array]:
    """The columns that follow from the phases of records alone."""
    types = {field.name: field.type for field in schema("phases")}
    inner = {name: [key for key in types if key.startswith(f"{name}_")] for name in _INNER}
    fields = [("name", pa.string()), *((name, types[name]) for name in _PLAIN)]
    for name, keys in inner.items():
        fields.append((name, pa.struct([(key.removeprefix(f"{name}_"), types[key]) for key in keys])))
    rows = pa.array(phases, pa.struct(fields))
    found = {"phase": rows.field("name"), **{name: rows.field(name) for name in _PLAIN}}
    for name, keys in inner.items():
        found |= {key: pc.struct_field(rows, [name, key.removeprefix(f"{name}_")]) for key in keys}
    rates = [phase["wall_ns"] / phase["items"] if phase["items"] else None for phase in phases]
    return found | {"wall_ns_per_item": pa.array(rates, pa.float64())}


# What differs in every trial, or has a key of its own in environment.json.
_OWN = ("job", "job_sha256", "started", "host_seconds", "settling", "conditions", "attempts")


def _shared(environment: dict) -> dict:
    """An environment without what differs in every trial."""
    found = {key: value for key, value in environment.items() if key not in _OWN}
    if isinstance(found.get("host"), dict):
        found["host"] = {key: value for key, value in found["host"].items() if key != "load_1min"}
    return found


def _flatten(value, prefix: str = ""):
    """Dotted key and text of every leaf of an environment."""
    for key, item in value.items():
        if isinstance(item, dict):
            yield from _flatten(item, f"{prefix}{key}.")
        else:
            yield prefix + key, shlex.join(map(str, item)) if isinstance(item, list) else str(item)


def _write_json(path: Path, value: dict) -> None:
    path.write_text(json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


def _csv(rows: list[dict]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
