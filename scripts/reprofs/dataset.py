"""Raw records -> tidy tables. The only place where a raw record is taken apart.

`build` reads the plan of a study and the raw record of each of its trials and writes, for identical input, identical
bytes: trials, phases, samples, clients and latency.parquet, study.json, dictionary.csv. environment.json describes the
hosts and the lab, and records.sha256 lists the records (as sha256sum does): both differ from run to run. `load` reads
the folder back for the notebooks.
"""

import csv
import hashlib
import io
import itertools
import json
import re
import shlex
import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from jsonschema import Draft202012Validator

from . import files, project, stats
from .errors import UserError
from .importers import Malformed, fio
from .trial import record as seals
from .trial.protocol import CELL, RECOVERY
from .trial.record import LAYOUT, SET_ASIDE

RECORD_SCHEMA = Path(__file__).parents[2] / "workflow/schemas/record.schema.yaml"
PROMISES = re.compile(r'^(\{"written":.*\})$', re.MULTILINE)  # what engine promise --verify says

# Columns that every table begins with: which trial a row belongs to.
_IDENTITY = """
trial        | string |    | Name of the trial: the stem of its raw record
label        | string |    | File system, with its variant after a plus sign unless that is "default"
role         | string |    | contender, or ceiling: a bound that takes no part in ranks and winners
status       | string |    | ok, failed, skipped, timeout, or missing when there is no record
lab          | string |    | Where the trial ran and whose clock it read
stack        | string |    | Block devices under the file system
profile      | string |    | What each block device behaves like
filesystem   | string |    | Name of the file system's descriptor
variant      | string |    | Name of the set of make and mount options
workload     | string |    | Name of the workload's descriptor
scale        | string |    | Name of the workload's set of parameters
round        | int64  |    | Repetition of all cells; every round has its own seed
seed         | int64  |    | Seed of names, sizes, order and hash functions
order        | int64  |    | Place in the randomised order of the study
"""

# The data dictionary and the schema of the tables in one: column | type | unit | meaning.
_TABLES = {
    "trials": _IDENTITY
    + """
reason               | string |       | Why the trial has no complete result; empty when it has
clock_name           | string |       | What the lab's clock counts
clock_read_ns        | int64  | ns    | Cost of one reading of the clock
devices              | string |       | Block devices with size, completion time and bandwidth
stack_disks          | int64  |       | Disks of the stack
stack_state          | string |       | State of the stack during the measured phases: healthy, degraded or rebuilding
stack_initial_sync   | string |       | Whether redundancy was complete before mkfs, and how that is known
stack_fault          | string |       | Commands that put the fault into the stack, as executed
stack_readback       | string |       | Key lines of what the stack said of itself before the measured phases
prepared_items       | int64  |       | Things made before the measured phases; they enter no statistic
prepared_bytes       | int64  | bytes | Content written with them
ageing               | string |       | What filling and churning said, layout before and after included; empty without
make_command         | string |       | Command that made the file system, as executed
mount_command        | string |       | Command that mounted it, as executed
mounted_type         | string |       | Type of the mounted file system, read back from the kernel
mounted_options      | string |       | Mount options, read back from the kernel
mounted_block_bytes  | int64  | bytes | Block size of the mounted file system
mounted_total_bytes  | int64  | bytes | Size of the mounted file system
mounted_free_bytes   | int64  | bytes | Free space directly after mounting
commands             | int64  |       | Commands executed outside the measured phases
commands_failed      | int64  |       | Those of them that ended with an exit code or by a signal
phases               | int64  |       | Measured phases in the record
verified_files       | int64  |       | Files whose content was compared after it was written
verified_bytes       | int64  | bytes | Size of those files
verified_mismatches  | int64  |       | Files that differed
checks               | int64  |       | Commands of the workload that compared what it had written, and succeeded
verified_digest      | string |       | Digests of names and contents, one a verification
settled              | bool   |       | Real clocks: whether the host was quiet before the trial
settling_s           | double | s     | Real clocks: how long that was waited for
settling_reason      | string |       | Real clocks: why the host was not quiet
load_before          | double |       | Real clocks: load of the host over one minute, before the trial
load_after           | double |       | The same after the trial
steal_share          | double |       | Real clocks: share of processor time the hypervisor gave to others
frequency_low_mhz    | double | MHz   | Real clocks: lowest processor frequency seen before and after the trial
frequency_high_mhz   | double | MHz   | Highest processor frequency seen before and after the trial
governor             | string |       | Real clocks: what governs the processor frequency
temperature_c        | double | °C    | Real clocks: highest temperature seen before and after the trial
""",
    "phases": _IDENTITY
    + """
position             | int64   |       | Place of the phase in its trial, from 0
phase                | string  |       | Name of the phase
cache                | string  |       | State of the caches before the phase: cold or warm
operation            | string  |       | Operation of the load engine, or exec for a command
command              | string  |       | Command line of an exec phase, otherwise empty
wall_ns              | int64   | ns    | Time of the whole phase: operations, the driver's share, the final sync
user_ns              | int64   | ns    | User CPU time of the process that did the work
system_ns            | int64   | ns    | System CPU time of the process that did the work
sync_ns              | int64   | ns    | Share of wall_ns spent in the final sync
driver_ns            | int64   | ns    | Share of wall_ns between the operations: the driver's work and what else ran
settle_ns            | int64   | ns    | Waiting after the phase, outside wall_ns, until the device was idle
items                | int64   |       | Things done: files, directories or commands
bytes                | int64   | bytes | Content read or written by the operations
wall_ns_per_item     | double  | ns    | wall_ns / items; empty when there are no items
exit                 | int64   |       | Exit code of the phase
rebuilding           | bool    |       | Whether the array was rebuilding still at its end; empty without a rebuild
device_reads         | int64   |       | Read requests completed by the block devices; empty without a device
device_read_bytes    | int64   | bytes | Bytes read from the block devices
device_writes        | int64   |       | Write requests completed by the block devices
device_written_bytes | int64   | bytes | Bytes written to the block devices
device_flushes       | int64   |       | Flush requests completed by the block devices
device_discards      | int64   |       | Discard requests completed by the block devices
device_busy_ns       | int64   | ns    | Time with at least one request under way
device_model_ns      | int64   | ns    | Processor time that the code of modelled disks took; empty without such a disk
cold_proved          | bool    |       | Whether device reads prove cold caches; empty if that cannot be proved
cold_method          | string  |       | How the caches were made cold; empty for a warm phase
cold_read_bytes      | int64   | bytes | Bytes read from the device, the proof
cold_why             | string  |       | Why that is a proof, or why there is none
crash_cut_ns         | int64   | ns    | Power cut after the start of the phase; wall_ns ends there. Empty without a cut
crash_lost_bytes     | int64   | bytes | Taken by the devices and lost, with what was written in vain after the cut
crash_recovery_ns    | int64   | ns    | Time of the mount after it, with what the file system wants done before
crash_written        | int64   |       | Files looked for afterwards: those the phase had written, or had to change
crash_promised       | int64   |       | Those of them whose fsync had returned before the cut
crash_broken         | int64   |       | Those of the promised ones that were not whole
crash_kept           | int64   |       | Files looked for that were whole and right
crash_short          | int64   |       | Files of which only a right beginning was left
crash_wrong          | int64   |       | Files with other content than was written, such as zeros
crash_missing        | int64   |       | Files that were not there
crash_extra          | int64   |       | Files there that were not looked for, such as one that was being written
latency_count        | int64   |       | Single operations in the latency histogram; empty for exec
latency_sum_ns       | int64   | ns    | Sum of their latencies
latency_min_ns       | int64   | ns    | Shortest operation
latency_max_ns       | int64   | ns    | Longest operation
""",
    "samples": _IDENTITY
    + """
phase        | string |       | Name of the phase
cache        | string |       | State of the caches before the phase: cold or warm
name         | string |       | What was timed: a part of the command's work, or the phase itself when it was repeated
client       | int64  |       | Client or task that did it; empty without clients
iteration    | int64  |       | Repetition within the trial, or number in a series; empty without
file_bytes   | int64  | bytes | Size of the file; empty where it varies
record_bytes | int64  | bytes | Size of one read or write; empty where it varies
start_ns     | int64  | ns    | Start of the sample after the start of its command; empty for a phase
wall_ns      | int64  | ns    | Time of the sample
items        | int64  |       | Things done
bytes        | int64  | bytes | Content read or written
""",
    "clients": _IDENTITY
    + """
phase    | string |       | Name of the phase
cache    | string |       | State of the caches before the phase: cold or warm
client   | int64  |       | Number of the client, from 0
start_ns | int64  | ns    | Start of the client after that of the first one
wall_ns  | int64  | ns    | Time of this client
items    | int64  |       | Things done by it
bytes    | int64  | bytes | Content read or written by it
""",
    "latency": _IDENTITY
    + """
phase        | string |    | Name of the phase
cache        | string |    | State of the caches before the phase: cold or warm
lower_ns     | int64  | ns | Lower bound of the bucket, included
upper_ns     | int64  | ns | Upper bound of the bucket, not included
count        | int64  |    | Operations whose latency is in the bucket
""",
}
# Condition of a real clock -> the columns of trials that its range is taken over.
_RANGES = {
    "load_1min": ["load_before", "load_after"],
    "steal_share": ["steal_share"],
    "frequency_mhz": ["frequency_low_mhz", "frequency_high_mhz"],
    "temperature_c": ["temperature_c"],
    "settling_s": ["settling_s"],
}
# Of /proc/mdstat, mdadm --detail, lvs, btrfs filesystem usage and show, zpool status.
_KEY_LINE = re.compile(
    r" : active |\[\d+/\d+\]|Raid Level|State :|Raid Devices|Failed Devices|^(Data|Metadata),|Total devices"
    r"|^ *(state:|raidz|mirror)|stripe|linear"
)
_SORT = {
    "trials": ["trial"],
    "phases": ["trial", "position"],
    "samples": ["trial"],  # in the order in which they were taken
    "clients": ["trial"],
    "latency": ["trial", "phase", "cache", "lower_ns"],
}


def dictionary() -> list[dict]:
    """The data dictionary: one row a column, with the keys table, column, type, unit, meaning."""
    return files.dictionary(_TABLES)


def build(plan: Path, raw: Path, output: Path) -> None:
    """Write the tables of a study into the folder `output`, replacing it as a whole.

    `plan` is the plan's JSON; `raw` the folder with one `<trial id>.json` for each of its trials. A trial without a
    record becomes a row with status missing; a record of no trial of this plan is not part of the study and not read.
    A record whose programs printed what cannot be read becomes a row with status failed.

    Raises UserError, naming file and key, for a plan or record that is not valid, and for a record that is not what
    its trial wrote or comes from another job, protocol, lab or guest than the plan or the other records.
    """
    plan, raw, output = Path(plan), Path(raw), Path(output)
    content = _read_json(plan)
    records = _read_records(plan, content, raw)
    digests = {f"{name}.json": hashlib.sha256((raw / f"{name}.json").read_bytes()).hexdigest() for name in records}
    tables: dict[str, list[dict]] = {name: [] for name in _TABLES}
    for trial in content["trials"]:
        declared = {(p["name"], p["cache"]): p for p in content["workloads"][trial["workload"]]["phases"]}
        record = _with_outputs_read(records.get(trial["id"]), declared)
        identity = _identity(trial, content, record)
        tables["trials"].append(_trial_row(identity, record))
        position, runs = 0, {}
        for phase in _phases(record):
            runs.setdefault((phase["name"], phase["cache"]), []).append(phase)
        for key, phases in runs.items():
            for number, phase in enumerate(phases):
                own = _samples(phase, number if len(phases) > 1 else None)
                place = identity | {"phase": phase["name"], "cache": phase["cache"]}
                tables["samples"] += [place | sample for sample in own]
                tables["clients"] += [place | row for row in _clients(phase, own)]
                if len(phases) == 1:
                    tables["latency"] += _latency_rows(identity, phase)
            parts = declared.get(key, {}).get("samples", {})
            for part in _parts(own, parts) if parts else [_mean(phases)]:
                crash = _crash(record, phases)
                tables["phases"].append(_phase_row(identity, position, {**phases[0], **part}) | crash)
                position += 1
    partial = output.with_name(output.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir(parents=True)
        for name, rows in tables.items():
            pq.write_table(_table(name, rows), partial / f"{name}.parquet")
        study = {key: value for key, value in content.items() if key != "trials"}
        _write_json(partial / "study.json", study)
        environment = summarise_environments(records)
        environment["set_aside"] = len(list((raw / SET_ASIDE).glob("*.json")))
        _write_json(partial / "environment.json", environment)
        sums = "".join(f"{digest}  {name}\n" for name, digest in sorted(digests.items()))
        (partial / "records.sha256").write_text(sums)
        (partial / "dictionary.csv").write_text(_csv(dictionary()))
        shutil.rmtree(output, ignore_errors=True)
        partial.rename(output)
    except OSError as error:
        raise UserError(
            f"Cannot write the tables to {output}: {error.strerror}; free space or choose another folder."
        ) from None


def bucket_bounds(index: int) -> tuple[int, int]:
    """Bounds [lower, upper) in ns of a bucket of the log-linear histogram with 64 sub-buckets an octave."""
    if index < 128:
        return index, index + 1
    exponent = (index >> 6) - 1
    lower = ((index & 63) | 64) << exponent
    return lower, lower + (1 << exponent)


def summarise_environments(records: dict[str, dict]) -> dict:
    """Environments of all records in one: for each key its distinct values, each with the number of records.

    What differs by nature (job text, start, seconds on the host) is left out or reduced to first, last and sum. Of the
    conditions of real clocks there is the range over the trials, lab by lab, and how many trials began unsettled.
    """
    environments = [record["environment"] for _, record in sorted(records.items())]
    started = sorted(e["started"] for e in environments if e.get("started"))
    seconds = [e["host_seconds"] for e in environments if e.get("host_seconds") is not None]
    values: dict[str, Counter] = {}
    for environment in environments:
        for key, value in _flatten(environment):
            values.setdefault(key, Counter())[value] += 1
    return {
        "records": len(environments),
        "first_started": started[0] if started else None,
        "last_started": started[-1] if started else None,
        "host_seconds_sum": round(sum(seconds), 3),
        "ran_twice": sum(e.get("attempts", 1) > 1 for e in environments),
        "conditions": _ranges([record for _, record in sorted(records.items())]),
        "values": {key: dict(sorted(counter.items())) for key, counter in sorted(values.items())},
    }


def _ranges(records: list[dict]) -> dict:
    """Lab -> trials, unsettled (those that did not settle), and [lowest, highest] of each condition that was told."""
    found: dict[str, dict] = {}
    for record in records:
        row = _conditions(record)
        if row["settled"] is None:
            continue
        lab = found.setdefault(record["trial"]["lab"], {"trials": 0, "unsettled": 0})
        lab["trials"] += 1
        lab["unsettled"] += not row["settled"]
        for name, keys in _RANGES.items():
            values = [row[key] for key in keys if row[key] is not None]
            if values:
                lab[name] = [min([*values, *lab.get(name, [])]), max([*values, *lab.get(name, [])])]
    return found


@dataclass(frozen=True)
class Study:
    """The tables of one study. `plan` is study.json, `digests` the SHA-256 of each table."""

    trials: pd.DataFrame
    phases: pd.DataFrame
    samples: pd.DataFrame
    clients: pd.DataFrame
    latency: pd.DataFrame
    plan: dict
    environment: dict
    digests: dict[str, str]

    def labels(self, role: str = "contender") -> list[str]:
        """Labels with that role in the order of their names, whether their trials completed or not."""
        return sorted(self.trials.loc[self.trials["role"] == role, "label"].unique())

    def stacks(self) -> dict[str, dict]:
        """Stack -> title, disks, family, state, layers: of every stack planned, in the order of the study's file."""
        planned = self.plan.get("stacks", {})
        places = [self.plan["study"], *self.plan["study"].get("cells", [])]
        asked = list(dict.fromkeys(spec for place in places for spec in place.get("stacks", [])))
        entries = {}
        for name in sorted(set(self.trials["stack"])):
            entry = {"title": name, "disks": 1, "family": name, "state": "healthy", "layers": [name]}
            entries[name] = entry | planned.get(name, {})
        # The plan writes md-raid6@6 as md-raid6, where six is the default.
        place = {name: number for number, name in enumerate(asked)}
        place |= {n: place[s] for n, e in entries.items() if (s := f"{e['family']}@{e['disks']}") in place}
        return dict(sorted(entries.items(), key=lambda pair: place.get(pair[0], len(place))))

    def title(self, workload: str, phase: str, cache: str) -> str:
        """Words for a phase; with its cache state where that is cold or the workload has the phase in both states."""
        if phase.endswith(RECOVERY):
            return f"Mount after the power cut in {phase.removesuffix(RECOVERY)}"
        phases = [
            {"name": name, "title": title, "cache": entry.get("cache")}
            for entry in self.plan["workloads"].get(workload, {}).get("phases", [])
            for name, title in (entry.get("samples") or {entry["name"]: entry.get("title")}).items()
        ]
        found = [entry for entry in phases if entry["name"] == phase]
        title = next((e["title"] for e in found if e.get("cache") == cache and e.get("title")), phase)
        needed = (cache == "cold" or len({e.get("cache") for e in found}) > 1) and cache not in title.lower()
        return f"{title}, {cache}" if needed else title


@dataclass(frozen=True)
class Results:
    """What notebook 02 computes and the later ones read; see the functions of `stats` for the columns.

    `stacks` and `typical` compare stacks, `rebuilds` are times to rebuild; `clocks`, `orders` and `agreement` compare
    labs.
    """

    statistics: pd.DataFrame
    pairwise: pd.DataFrame
    winners: pd.DataFrame
    ranks: pd.DataFrame
    nemenyi: pd.DataFrame
    stacks: pd.DataFrame
    typical: pd.DataFrame
    rebuilds: pd.DataFrame
    clocks: pd.DataFrame
    orders: pd.DataFrame
    agreement: pd.DataFrame


def results(study: Study) -> Results:
    """All statistics of a study."""
    phases, stacks = study.phases, study.stacks()
    cells, pairs = stats.statistics(phases), stats.pairwise(phases)
    ranks, nemenyi = stats.ranks(cells)
    orders = stats.orders(cells, pairs)
    return Results(
        statistics=cells,
        pairwise=pairs,
        winners=stats.winners(cells, pairs),
        ranks=ranks,
        nemenyi=nemenyi,
        stacks=stats.stack_ratios(phases, stacks),
        typical=stats.stack_typical(phases, stacks),
        rebuilds=stats.rebuilds(phases),
        clocks=stats.clock_ratios(phases),
        orders=orders,
        agreement=stats.agreement(orders),
    )


def save_results(results: Results, folder: str | Path) -> None:
    """Write each frame to <name>.parquet in the folder, every file under a temporary name first.

    A relative folder is below the checkout, as in `load_results` and `load`: notebooks run in folders of their own.
    """
    folder = project.place(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, frame in vars(results).items():
        partial = folder / f"{name}.partial"
        frame.to_parquet(partial, index=False)
        partial.replace(folder / f"{name}.parquet")


def load_results(folder: str | Path) -> Results:
    """Read a folder written by `save_results`. Raises UserError when it is not there."""
    folder = project.place(folder)
    names = list(Results.__annotations__)
    missing = [name for name in names if not (folder / f"{name}.parquet").is_file()]
    if missing:
        raise UserError(
            f"There are no results in {folder}: execute notebooks/02-statistics.ipynb or run `make report` first."
        )
    return Results(**{name: pd.read_parquet(folder / f"{name}.parquet") for name in names})


def load(tables: str | Path) -> Study:
    """Read a folder written by `build`. Raises UserError when it is not there."""
    folder = project.place(tables)
    if not (folder / "trials.parquet").is_file():
        raise UserError(f"There are no tables in {folder}: run `reprofs dataset` or `make report` first.")
    frames = {name: pd.read_parquet(folder / f"{name}.parquet", dtype_backend="numpy_nullable") for name in _TABLES}
    digests = {name: hashlib.sha256((folder / f"{name}.parquet").read_bytes()).hexdigest() for name in _TABLES}
    plan, environment = _read_json(folder / "study.json"), _read_json(folder / "environment.json")
    return Study(**frames, plan=plan, environment=environment, digests=digests)


def _read_json(path: Path) -> dict:
    try:
        return json.loads(path.read_text())
    except OSError as error:
        raise UserError(f"Cannot read {path}: {error.strerror}; make it with the step before this one.") from None
    except (RecursionError, ValueError) as error:
        what = "it nests too deep" if isinstance(error, RecursionError) else str(error)[:200]
        raise UserError(f"{path} is not valid JSON ({what}); delete it and run the step that makes it again.") from None


def _read_records(plan_path: Path, plan: dict, raw: Path) -> dict[str, dict]:
    validator = Draft202012Validator(yaml.safe_load(RECORD_SCHEMA.read_text()))
    for key in ("study", "trials", "filesystems", "workloads", "labs", "protocol"):
        if key not in plan:
            raise UserError(f"{plan_path} has no key `{key}`; run `reprofs plan` again.")
    records = {}
    for trial in plan["trials"]:
        path = raw / f"{trial['id']}.json"
        if path.exists():
            record = records[trial["id"]] = _read_json(path)
            _check(path, record, validator)
            _check_against_plan(path, record, trial, plan)
    _check_guests(plan, raw, records)
    return records


_AGAIN = "delete the file and run the study again, which makes it again."


def _check(path: Path, record: dict, validator: Draft202012Validator) -> None:
    """Raises UserError for a record that does not fit the schema, was changed after its trial or contradicts itself."""
    if isinstance(record, dict) and record.get("schema", LAYOUT) != LAYOUT:
        raise UserError(f"{path} was written by another version of ReproFS (its schema is not {LAYOUT}): {_AGAIN}")
    for error in validator.iter_errors(record):
        key = ".".join(str(part) for part in error.absolute_path) or "the record"
        raise UserError(f"{path} is not a valid record: {key}: {error.message[:200]}; {_AGAIN}")
    part = seals.broken(record)
    if part:
        raise UserError(f"{path} was changed after its trial: the digest of the {part} is not the one noted; {_AGAIN}")
    if hashlib.sha256(record["environment"]["job"].encode()).hexdigest() != record["environment"]["job_sha256"]:
        raise UserError(f"{path}: environment.job_sha256 is not the digest of environment.job; {_AGAIN}")
    seen = set()
    for number, phase in enumerate(_phases(record)):
        key = (phase["name"], phase["cache"], phase.get("run"))
        if key in seen:
            raise UserError(
                f"{path}: measurement.phases.{number} repeats {key[0]} ({key[1]}); give each phase a name of its own."
            )
        seen.add(key)
        latency = phase["latency"]
        if latency and sum(count for _, count in latency["buckets"]) != latency["count"]:
            raise UserError(
                f"{path}: measurement.phases.{number}.latency.count is not the sum of its buckets; {_AGAIN}"
            )
    large = next((key for key, value in _numbers(record["measurement"], "measurement") if abs(value) >= 2**63), None)
    if large:
        raise UserError(f"{path}: {large} does not fit into 64 bits; {_AGAIN}")


def _numbers(value, key: str):
    """Dotted key and value of every number in a part of a record."""
    for name, item in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(item, dict | list):
            yield from _numbers(item, f"{key}.{name}")
        elif isinstance(item, int | float):
            yield f"{key}.{name}", item


def _check_against_plan(path: Path, record: dict, trial: dict, plan: dict) -> None:
    """Raises UserError for a record of another cell, job, protocol or clock, and for an incomplete one that says ok."""
    environment, measurement = record["environment"], record["measurement"]
    compared = [(f"trial.{key}", record["trial"][key], trial[key]) for key in (*CELL, "round", "seed")]
    compared.append(("environment.job_sha256", environment["job_sha256"], trial["job_sha256"]))
    compared.append(("environment.protocol", environment["protocol"], plan["protocol"]))
    compared.append(("environment.lab.name", environment["lab"].get("name"), trial["lab"]))
    if measurement.get("clock"):
        compared.append(("measurement.clock.name", measurement["clock"]["name"], plan["labs"][trial["lab"]]["clock"]))
    for key, was, planned in compared:
        if was != planned:
            raise UserError(f"{path} belongs to another plan: {key} is {was}, planned is {planned}; {_AGAIN}")
    if record["status"] != "ok":
        return
    workload = plan["workloads"][trial["workload"]]
    measured = Counter((phase["name"], phase["cache"]) for phase in _phases(record))
    for phase in workload["phases"]:
        if measured[phase["name"], phase["cache"]] != workload.get("runs", 1):
            raise UserError(f"{path} says ok, but phase {phase['name']} ({phase['cache']}) is missing; {_AGAIN}")
    wrong = sum(check["mismatches"] for check in measurement.get("verification", []))
    if wrong:
        raise UserError(f"{path} says ok, but {wrong} files differed from what was written; {_AGAIN}")


# What fixes the numbers of a lab whose clock counts instructions, besides the job.
_SAME = ("qemu", "command", "image_sha256", "kernel_sha256", "initrd_sha256", "gate_sha256", "engine_sha256")


def _check_guests(plan: dict, raw: Path, records: dict[str, dict]) -> None:
    """Raises UserError when numbers that are compared as exact come from different guests or versions of QEMU."""
    found: dict[tuple, dict[str, list[str]]] = {}
    for name, record in sorted(records.items()):
        trial, lab = record["trial"], record["environment"]["lab"]
        if plan["labs"][trial["lab"]]["clock"] != "instructions" or record["status"] == "skipped":
            continue
        guest = plan["filesystems"][trial["filesystem"]]["guest"]
        for key in _SAME:
            # All guests are to run in one QEMU; the rest is each guest's own.
            place = (trial["lab"], "" if key == "qemu" else guest, key)
            found.setdefault(place, {}).setdefault(json.dumps(lab.get(key)), []).append(name)
    for (lab, _, key), values in found.items():
        if len(values) > 1:
            fewest = min(values.values(), key=len)
            raise UserError(
                f"{raw}: the records of the lab {lab} do not come from one guest: environment.lab.{key} has "
                f"{len(values)} values, the rarest in {len(fewest)} of {sum(map(len, values.values()))} records, such "
                f"as {fewest[0]}.json; delete those records, or all, and run the study again."
            )


def _phases(record: dict | None) -> list[dict]:
    return record["measurement"].get("phases", []) if record else []


def _with_outputs_read(record: dict | None, declared: dict) -> dict | None:
    """The record with what its programs printed: samples of fio, files that were left after a power cut.

    One whose output cannot be read has failed, whatever its programs' exit codes were. `declared` maps (phase, cache)
    to the phase in the plan.
    """
    for phase in _phases(record):
        expected = declared.get((phase["name"], phase["cache"]), {})
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


def _failed(record: dict, reason: str) -> dict:
    return record if record["status"] != "ok" else record | {"status": "failed", "reason": reason}


def _samples(phase: dict, run: int | None) -> list[dict]:
    """The samples of a phase, or the phase itself when it is one of several runs without any."""
    found = phase.get("samples", [])
    if run is not None and not found:
        found = [{"name": phase["name"], "iteration": run} | {key: phase[key] for key in ("wall_ns", "items", "bytes")}]
    optional = ("client", "iteration", "file_bytes", "record_bytes", "start_ns")
    return [dict.fromkeys(optional) | sample for sample in found]


def _crash(record: dict, phases: list[dict]) -> dict:
    """Columns that say what became of the power cuts of a phase, one a run: mean times, sums of all that is counted.

    What was left is told by the engine, or by the phase's own check (engine promise --verify) of each client.
    """
    cuts = [phase["crash"] for phase in phases if "crash" in phase]
    if not cuts:
        return {}
    name = phases[0]["name"]
    after = [phase["wall_ns"] for phase in _phases(record) if phase["name"] == name + RECOVERY]
    checks = [c for c in record["measurement"].get("commands", []) if c["stage"] == f"check {name}"]
    found = [check["survivors"] for check in checks if check.get("survivors")]
    found += [cut["survivors"] for cut in cuts if "survivors" in cut]
    counted = ("written", "promised", "broken", "kept", "short", "wrong", "missing", "extra")
    return {
        "crash_cut_ns": round(sum(cut["cut_ns"] for cut in cuts) / len(cuts)),
        "crash_lost_bytes": sum(cut.get("lost_bytes", 0) for cut in cuts),
        "crash_recovery_ns": round(sum(after) / len(after)) if after else None,
        **{f"crash_{key}": sum(one.get(key, 0) for one in found) if found else None for key in counted},
    }


def _clients(phase: dict, samples: list[dict]) -> list[dict]:
    """What each of several clients did in a phase, or in each part of it that has samples."""
    rows = [{"client": number} | client for number, client in enumerate(phase.get("clients", []))]
    parts: dict[tuple, list[dict]] = {}
    for sample in samples if rows else []:
        parts.setdefault((sample["name"], sample["client"]), []).append(sample)
    found = []
    for (name, client), own in parts.items():
        start = min(sample["start_ns"] for sample in own)
        end = max(sample["start_ns"] + sample["wall_ns"] for sample in own)
        row = {"phase": name, "client": client, "start_ns": start + rows[client]["start_ns"], "wall_ns": end - start}
        found.append(row | {key: sum(sample[key] for sample in own) for key in ("items", "bytes")})
    return found or rows


def _parts(samples: list[dict], titles: dict) -> list[dict]:
    """What the rows of a phase are when it consists of parts: for each name the mean over iterations.

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
        parts.append(part | dict.fromkeys(unknown) | {"device": None, "latency": None})
    return parts


def _mean(phases: list[dict]) -> dict:
    """One phase, or the mean of several runs of it."""
    if len(phases) == 1:
        return {}
    numbers = ("wall_ns", "user_ns", "system_ns", "sync_ns", "driver_ns", "settle_ns", "items", "bytes")
    mean = {key: round(sum(phase[key] for phase in phases) / len(phases)) for key in numbers}
    return {**mean, "device": None, "latency": None}


def _identity(trial: dict, plan: dict, record: dict | None) -> dict:
    variant = trial["variant"]
    return {
        "trial": trial["id"],
        "label": trial["filesystem"] if variant == "default" else f"{trial['filesystem']}+{variant}",
        "role": plan["filesystems"].get(trial["filesystem"], {}).get("role", "contender"),
        "status": record["status"] if record else "missing",
        **{key: trial[key] for key in (*CELL, "round", "seed", "order")},
    }


def _trial_row(identity: dict, record: dict | None) -> dict:
    measurement = record["measurement"] if record else {}
    mounted = measurement.get("mounted", {})
    commands = measurement.get("commands", [])
    checks = measurement.get("verification", [])
    clock = measurement.get("clock", {})
    argv = {command["stage"]: shlex.join(command["argv"]) for command in reversed(commands)}
    stack, prepared = measurement.get("stack", {}), measurement.get("preparation", [])
    faults = [shlex.join(command["argv"]) for command in commands if command["stage"] == "fault"]
    return identity | {
        "reason": record["reason"] if record else "There is no record: the trial has not run.",
        "clock_name": clock.get("name"),
        "clock_read_ns": clock.get("read_ns"),
        "devices": _devices(measurement.get("devices", [])),
        **{f"stack_{key}": stack.get(key) for key in ("disks", "state", "initial_sync")},
        "stack_fault": "; ".join(faults) or None,
        "stack_readback": _readback(commands),
        **{f"prepared_{key}": sum(phase[key] for phase in prepared) for key in ("items", "bytes")},
        "ageing": next((phase["output"] for phase in prepared if phase["name"] == "age"), None),
        "make_command": argv.get("make"),
        "mount_command": argv.get("mount"),
        "mounted_type": mounted.get("type"),
        "mounted_options": ",".join(mounted["options"]) if mounted else None,
        **{f"mounted_{key}": mounted.get(key) for key in ("block_bytes", "total_bytes", "free_bytes")},
        "commands": len(commands),
        "commands_failed": sum(command["exit"] != 0 or command["signal"] != 0 for command in commands),
        "phases": len(_phases(record)),
        "checks": sum(command["stage"].startswith("check ") and command["exit"] == 0 for command in commands),
        **{f"verified_{key}": sum(check[key] for check in checks) for key in ("files", "bytes", "mismatches")},
        "verified_digest": " ".join(check.get("digest", "") for check in checks),
        **_conditions(record),
    }


def _readback(commands: list[dict]) -> str | None:
    """Key lines of the commands that read the stack back, as it was when the measured phases began."""
    faults = [number for number, command in enumerate(commands) if command["stage"] == "fault"]
    later = itertools.dropwhile(lambda command: command["stage"] != "readback", commands[faults[-1] if faults else 0 :])
    # Only what was read in one go: at the end of the trial it is read again, when a rebuilt array is whole.
    found: dict[tuple, str] = {}
    for command in itertools.takewhile(lambda command: command["stage"] == "readback", later):
        found.setdefault(tuple(command["argv"]), command["output"])
    lines = [line for output in found.values() for line in _key_lines(output)]
    return "\n".join(dict.fromkeys(lines)) or None


def _key_lines(output: str) -> list[str]:
    """Lines of an output that name the level, the state or the number of devices; a short output as it is."""
    # The members of an MD array are many, and their number and state are in the next line: [6/6] [UUUUUU].
    lines = [re.sub(r"( \S+\[\d+\](\(\w\))?)+$", "", " ".join(line.split())) for line in output.splitlines()]
    lines = [line for line in lines if line]
    return [line for line in lines if len(lines) <= 2 or _KEY_LINE.search(line)][:8]


def _conditions(record: dict | None) -> dict:
    """Columns that say how quiet the host was; None where the record or the machine does not tell."""
    environment = record["environment"] if record else {}
    settling, conditions = environment.get("settling", {}), environment.get("conditions", {})
    before, after = conditions.get("before") or {}, conditions.get("after") or {}
    frequencies = [f for part in (before, after) for f in part.get("frequency_mhz") or []]
    temperatures = [t for part in (before, after) for t in _several(part.get("temperature_c"))]
    return {
        "settled": settling.get("settled"),
        "settling_s": settling.get("waited_s"),
        "settling_reason": settling.get("reason") or None,
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


def _devices(devices: list[dict]) -> str:
    """`nullb0: 1024 MiB, 80 µs a request, 500 MB/s`; devices that are alike are named by the first and the last."""
    alike: dict[str, list[str]] = {}
    for device in devices:
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


def _phase_row(identity: dict, position: int, phase: dict) -> dict:
    device, cold, latency = phase["device"] or {}, phase["cold"] or {}, phase["latency"] or {}
    timed = ("wall_ns", "user_ns", "system_ns", "sync_ns", "driver_ns", "settle_ns", "items", "bytes", "exit")
    counters = ("reads", "read_bytes", "writes", "written_bytes", "flushes", "discards", "busy_ns", "model_ns")
    return identity | {
        "rebuilding": phase.get("rebuilding"),
        "position": position,
        "phase": phase["name"],
        "cache": phase["cache"],
        "operation": phase["operation"],
        "command": shlex.join(phase.get("argv", [])),
        **{key: phase[key] for key in timed},
        "wall_ns_per_item": phase["wall_ns"] / phase["items"] if phase["items"] else None,
        **{f"device_{key}": device.get(key) for key in counters},
        **{f"cold_{key}": cold.get(key) for key in ("proved", "method", "read_bytes", "why")},
        **{f"latency_{key}": latency.get(key) for key in ("count", "sum_ns", "min_ns", "max_ns")},
    }


def _latency_rows(identity: dict, phase: dict) -> list[dict]:
    rows = []
    for index, count in (phase["latency"] or {"buckets": []})["buckets"]:
        lower, upper = bucket_bounds(index)
        own = {"phase": phase["name"], "cache": phase["cache"], "lower_ns": lower, "upper_ns": upper, "count": count}
        rows.append(identity | own)
    return rows


def _table(name: str, rows: list[dict]) -> pa.Table:
    types = {row["column"]: row["type"] for row in dictionary() if row["table"] == name}
    schema = pa.schema([(column, pa.type_for_alias(alias)) for column, alias in types.items()])
    rows = sorted(rows, key=lambda row: tuple(row[key] for key in _SORT[name]))
    return pa.Table.from_pylist(rows, schema=schema)


# What differs in every trial, or has a key of its own in environment.json.
_OWN = ("job", "job_sha256", "started", "host_seconds", "host.load_1min", "settling", "conditions", "attempts")


def _flatten(value, prefix: str = ""):
    """Dotted key and text of every leaf of an environment, without what differs in every trial."""
    for key, item in value.items():
        if prefix + key in _OWN:
            continue
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
