"""Raw records -> tidy tables.

`build` reads the plan of a study and the raw record of each of its trials and writes, for identical input, identical
bytes: trials, phases, samples, states, faults, rot, clients and latency.parquet, study.json, dictionary.csv.
environment.json describes the hosts and the lab, and records.sha256 lists the records (as sha256sum does): both differ
from run to run. `reprofs.data.study` reads the folder back.
"""

from __future__ import annotations

import contextlib
import csv
import ctypes
import gc
import io
import json
import multiprocessing
import os
import shutil
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from reprofs.data import latency
from reprofs.data.columns import TABLES, dictionary, schema
from reprofs.data.notes import Notes
from reprofs.data.reader import Reader
from reprofs.data.rows import Rows
from reprofs.errors import UserError
from reprofs.files import SUMS, unwritable, write_sums
from reprofs.plan.cell import PlannedTrial
from reprofs.plan.plan import Plan, read_plan
from reprofs.records import store
from reprofs.records.raw import SET_ASIDE
from reprofs.workplace import die_with_parent

BATCH = 256  # trials whose rows are in memory together
SEVERAL = 4  # from this many batches on, processes of their own are worth their start
KEPT = 2**25  # bytes that a process which reads records does not give back; more is not possible
GROUP = 2**17  # rows of a table that are written together
TOGETHER = 2**16  # rows of a column that are encoded together; by default 1,024, which takes half as long again


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
    content = read_plan(plan)
    source = _Source(content, raw)
    if content.study.rule:
        raise UserError(
            f"{plan}: this study adds repetitions: use the plan of its last interim analysis, "
            "data/rounds/STUDY/ROUNDS.json."
        )
    if not _replaceable(output):
        raise UserError(f"{output} exists and has no tables: choose another --output. Nothing was written.")
    partial = Path(f"{output}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir(parents=True)
        notes = _write_tables(partial, source.batches(batch))
        notes.guests.check(raw)
        study = {key: value for key, value in content.as_json().items() if key != "trials"}
        _write_json(partial / "study.json", study, in_order=True)  # a file system's first variant is its base
        environment = notes.environment() | {"set_aside": len(list((raw / SET_ASIDE).glob("*.json")))}
        if taken := store.origins(raw, [trial.id for trial in content.trials]):
            environment["taken"] = taken
        _write_json(partial / "environment.json", environment)
        sums = "".join(f"{digest}  {name}\n" for name, digest in sorted(notes.digests.items()))
        (partial / "records.sha256").write_text(sums)
        (partial / "dictionary.csv").write_text(_csv(dictionary()))
        write_sums(partial / SUMS, partial.iterdir())
        shutil.rmtree(output, ignore_errors=True)
        partial.rename(output)
    except OSError as error:
        raise unwritable(output, error) from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _replaceable(output: Path) -> bool:
    """Whether nothing is lost when `output` is replaced: it is not there, empty, or has tables."""
    try:
        return not any(output.iterdir()) or (output / "records.sha256").is_file()
    except OSError:  # not there, or what writing says better
        return not output.is_file()


def _write_tables(folder: Path, batches: Iterator[_Batch]) -> Notes:
    """Write the parquet files; what else is told of the records of all batches."""
    notes = Notes()
    with contextlib.ExitStack() as stack:
        paths = {name: folder / f"{name}.parquet" for name in TABLES}
        # Arrow would note of texts in this table that they came in as numbers of a dictionary.
        buckets = pq.ParquetWriter(
            paths.pop("latency"), latency.packed(), store_schema=False, write_batch_size=TOGETHER
        )
        stack.enter_context(buckets)
        files = {name: stack.enter_context(_File(name, path)) for name, path in paths.items()}
        for batch in batches:
            for name, table in batch.tables.items():
                files[name].add(table)
            buckets.write_table(batch.histograms.table())  # a dictionary holds for one group of rows
            notes.merge(batch.notes)
    return notes


class _Source:
    """The records of a plan, read in batches of trials sorted by name, so that no more than a few are in memory."""

    def __init__(self, plan: Plan, raw: Path):
        self._reader, self._plan = Reader(plan, raw), plan

    def batches(self, size: int) -> Iterator[_Batch]:
        """Each batch in order; read by several processes where there are many."""
        trials = sorted(self._plan.trials, key=lambda trial: trial.id)
        batches = [trials[start : start + size] for start in range(0, len(trials), size)]
        processors = min(len(os.sched_getaffinity(0)), len(batches))
        if len(batches) < SEVERAL or processors < 2:
            yield from map(self.read, batches)
            return
        # Threads may run in this process, so that a copy of it (fork) could wait for their locks for ever.
        context = multiprocessing.get_context("spawn")
        known = self._plan.without_trials(), self._reader.raw
        with ProcessPoolExecutor(processors, context, _start, known) as pool:
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
                    f"a process that read the records in {self._reader.raw} was killed: check whether the host "
                    "ran out of memory (journalctl -k, dmesg), then run this again."
                ) from None
            finally:
                pool.shutdown(cancel_futures=True)

    def read(self, trials: list[PlannedTrial]) -> _Batch:
        """The rows of one batch of trials, and the notes on their records."""
        notes, rows = Notes(), Rows()
        for trial in trials:
            record, digest = self._reader.read(trial)
            if record:
                notes.add(trial.id, record, digest, self._plan)
            rows.add(trial, record, self._plan)
        return _Batch(*rows.tables(), notes)


_source: _Source


def _start(plan: Plan, raw: Path) -> None:
    """What a process that reads records has: its own copy of the plan, without the trials."""
    global _source
    die_with_parent()
    gc.disable()  # records have no circles, and looking for some takes a third of the time
    _keep_memory()
    _source = _Source(plan, raw)


def _keep_memory() -> None:
    """Memory of one batch is kept for the next: to give it back and get it anew takes a tenth of the time (glibc)."""
    with contextlib.suppress(AttributeError, OSError):
        library = ctypes.CDLL(None)
        library.mallopt(-1, KEPT)  # M_TRIM_THRESHOLD
        library.mallopt(-3, KEPT)  # M_MMAP_THRESHOLD


def _read(trials: list[PlannedTrial]) -> _Batch:
    return _source.read(trials)


@dataclass
class _Batch:
    """The rows of some trials; those of latencies as histograms."""

    tables: dict[str, pa.Table]
    histograms: latency.Histograms
    notes: Notes


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


def _write_json(path: Path, value: dict, in_order: bool = False) -> None:
    path.write_text(json.dumps(value, indent=1, sort_keys=not in_order, ensure_ascii=False) + "\n")


def _csv(rows: list[dict]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
