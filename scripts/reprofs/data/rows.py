"""One record -> its rows in the tables.

A column whose value stands in the record under the column's name needs no code here (`_in_record`): a new key of a
phase or of an object of the measurement is a line in the record's schema and one in `columns`.
"""

from __future__ import annotations

import functools
import itertools
import json
import shlex
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from reprofs.data import outputs
from reprofs.data.columns import IDENTITY, OVER_TIME, TABLES, schema
from reprofs.data.latency import Histograms
from reprofs.data.outputs import commands_of
from reprofs.data.reader import phases_of, record_schema, text_of
from reprofs.plan.cell import Cell, PlannedTrial, joined
from reprofs.plan.phase import VISITS, Phase
from reprofs.plan.plan import Plan, PlannedStack

# Of a phase: the column device_reads is the key reads in the object device. `_parts` makes the object whole.
_OBJECTS = ("device", "cold", "latency", "whole")
_WHOLE = ("read_bytes", "written_bytes", "flushes", "flash_written", "flash_moved")  # counters of devices in `whole`


class Rows:
    """Rows of the tables, from records added in the order of their trials' names."""

    def __init__(self) -> None:
        self._identities: list[dict] = []
        # Of each table the columns after those of the identity, and how many rows each trial has.
        self._rows: dict[str, list[dict]] = {name: [] for name in TABLES}
        self._sizes: dict[str, list[int]] = {name: [] for name in TABLES}
        self._measured: list[dict] = []  # phases as in the record, one for each row of the table
        self._histograms: list[tuple[int, str, str, int]] = []
        self._buckets: list[np.ndarray] = []

    def add(self, trial: PlannedTrial, record: dict | None, plan: Plan) -> None:
        """Add the rows of a trial; without a record it is missing."""
        planned: dict[tuple[str, str], Phase] = {
            (phase.name, phase.cache): phase for phase in plan.workloads[trial.workload].phases
        }
        hosts = client_hosts(plan, trial)
        record = outputs.parsed(record, planned)
        before = {name: len(rows) for name, rows in self._rows.items()}
        self._identities.append(_identity(trial, plan, record))
        self._rows["trials"].append(trial_row(record, plan.stacks.get(trial.stack)))
        runs: dict[tuple[str, str], list[dict]] = {}
        for phase in phases_of(record):
            runs.setdefault((phase["name"], phase["cache"]), []).append(phase)
        for key, phases in runs.items():
            self._add_phase(record, phases, planned.get(key), hosts)
        for number, row in enumerate(self._rows["phases"][before["phases"] :]):
            row["position"] = number
        for key in sorted(key for key, phases in runs.items() if len(phases) == 1 and phases[0]["latency"]):
            buckets = runs[key][0]["latency"]["buckets"]
            self._histograms.append((len(self._identities) - 1, *key, len(buckets)))
            self._buckets.append(buckets)
        for name, rows in self._rows.items():
            self._sizes[name].append(len(rows) - before[name])

    def _add_phase(self, record: dict | None, runs: list[dict], planned: Phase | None, hosts: list[str]) -> None:
        """Add the rows of a phase of which the trial had one run or several."""
        place = {"phase": runs[0]["name"], "cache": runs[0]["cache"]}
        for number, run in enumerate(runs):
            samples = _samples(run, number if len(runs) > 1 else None)
            self._rows["samples"] += [place | sample for sample in samples]
            self._rows["clients"] += [place | row for row in clients(run, samples, hosts)]
            self._rows["calls"] += [place | row for row in outputs.calls(record, run)]
            for name in VISITS:
                self._rows[name] += [place | row for row in run.get(name, [])]
        events = outputs.power_cut(record, runs) | outputs.outage(record, runs, planned)
        if len(runs) == 1:
            events |= {f"flush_{key}": value for key, value in (runs[0].get("flush") or {}).items()}
        titles = (planned and planned.samples) or {}
        for measured in _parts(runs[0], samples, titles) if titles else [_mean_run(runs)]:
            self._measured.append(measured)
            command = _join(tuple(measured.get("argv", ())))
            self._rows["phases"].append({"command": command, "part": measured.get("part"), **events})

    def tables(self) -> tuple[dict[str, pa.Table], Histograms]:
        """All rows added so far: every table except latency, and the data of the latency table."""
        identity = pa.Table.from_pylist(self._identities, schema=pa.schema(list(schema("trials"))[: len(IDENTITY)]))
        from_records = _phase_columns(self._measured)
        tables = {}
        for name in self._rows.keys() - {"latency"}:
            ready = from_records if name == "phases" else {}
            types = [field for field in list(schema(name))[len(IDENTITY) :] if field.name not in ready]
            made = pa.Table.from_pylist(self._rows[name], schema=pa.schema(types))
            table = identity.take(np.repeat(np.arange(len(identity)), self._sizes[name]))
            columns = dict(zip(IDENTITY, table.columns, strict=True)) | ready
            columns |= dict(zip(made.column_names, made.columns, strict=True))
            tables[name] = pa.table([columns[column] for column in schema(name).names], schema=schema(name))
        return tables, Histograms.of(identity, self._histograms, self._buckets)


def label(trial: Cell, plan: Plan) -> str:
    """The name of a trial's file system in tables and figures: the column label."""
    name = trial.filesystem + (f"+{trial.variant}" if trial.variant != "default" else "")
    # A network that all have tells none from another.
    return joined(name, trial.network) if len(plan.networks) > 1 else name


def _identity(trial: PlannedTrial, plan: Plan, record: dict | None) -> dict:
    return {
        "trial": trial.id,
        "label": label(trial, plan),
        "role": plan.role_of(trial),
        "status": record["status"] if record else "missing",
        **trial.names(),
    }


# ---- trials


def trial_row(record: dict | None, planned: PlannedStack | None) -> dict:
    """The columns of a trial after those of its identity. planned: its stack in the plan."""
    measurement = record["measurement"] if record else {}
    commands = commands_of(record)
    prepared = measurement.get("preparation", [])
    row: dict = {"start_offset_ns": measurement.get("start_offset_ns")}
    for name in ("clock", "stack", "mounted", "wear"):
        row |= {f"{name}_{key}": measurement.get(name, {}).get(key) for key in _keys("trials", name)}
    if row["mounted_options"] is not None:
        row["mounted_options"] = ",".join(row["mounted_options"])
    return row | {
        "reason": record["reason"] if record else "There is no record: the trial has not run.",
        "devices": _devices(text_of(measurement.get("devices", []))),
        "stack_readback": outputs.readback(commands, planned.summary if planned else []),
        **outputs.frames(commands),
        **{f"prepared_{key}": sum(phase[key] for phase in prepared) for key in _keys("trials", "prepared")},
        **_ageing(next((phase for phase in prepared if phase["name"] == "age"), None)),
        **_executed(commands),
        "phases": len(phases_of(record)),
        **_verified(measurement.get("verification", [])),
        **conditions(record),
    }


def _executed(commands: list[dict]) -> dict:
    argv = {command["stage"]: command["argv"] for command in reversed(commands)}
    faults = [shlex.join(command["argv"]) for command in commands if command["stage"] == "fault"]
    return {
        "stack_fault": "; ".join(faults) or None,
        **{f"{stage}_command": _join(tuple(argv[stage])) if stage in argv else None for stage in ("make", "mount")},
        "commands": len(commands),
        "commands_failed": sum(command["exit"] != 0 or command["signal"] != 0 for command in commands),
        "checks": sum(command["stage"].startswith("check ") and command["exit"] == 0 for command in commands),
    }


def _verified(checks: list[dict]) -> dict:
    sums = {f"verified_{key}": sum(check[key] for check in checks) for key in ("files", "bytes", "mismatches")}
    return sums | {"verified_digest": " ".join(check.get("digest", "") for check in checks)}


@functools.cache
def _keys(table: str, name: str) -> list[str]:
    """What follows the name of an object in the names of a table's columns."""
    return [column.removeprefix(f"{name}_") for column in schema(table).names if column.startswith(f"{name}_")]


_join = functools.lru_cache(4096)(shlex.join)  # of tuples; many trials have the same commands


def _ageing(phase: dict | None) -> dict:
    """Columns of the filling and churning: what it printed, and the layout of the files before and after the churn."""
    columns = dict.fromkeys(("extents_before", "extents_after", "layout_score_before", "layout_score_after"))
    columns["ageing"] = phase["output"] if phase else None
    for sample in phase.get("samples", []) if phase else []:
        when = sample["name"].removeprefix("layout-")
        if when != sample["name"]:
            files, blocks = sample["items"], sample["blocks"]
            columns[f"extents_{when}"] = sample["extents"] / files if files else None
            columns[f"layout_score_{when}"] = sample["contiguous"] / blocks if blocks else None
    return columns


def conditions(record: dict | None) -> dict:
    """The columns on how quiet the host was; None if unknown."""
    environment = record["environment"] if record else {}
    settling, states = environment.get("settling", {}), environment.get("conditions", {})
    before, after = states.get("before") or {}, states.get("after") or {}
    frequencies = [f for state in (before, after) for f in state.get("frequency_mhz") or []]
    temperatures = [t for state in (before, after) for t in _several(state.get("temperature_c"))]
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
        words = [f"{device['size_bytes'] / 2**20:g} MiB", *([device["profile"]] if "profile" in device else [])]
        if "model" in device:
            words.append(f"modelled, {device['model']}")
        if device.get("completion_ns"):
            words.append(f"{device['completion_ns'] / 1000:g} µs a request")
        if "bandwidth_mb_s" in device:
            words.append(f"{device['bandwidth_mb_s']:g} MB/s" if device["bandwidth_mb_s"] else "unlimited bandwidth")
        alike.setdefault(", ".join(words), []).append(device["name"])
    return "; ".join(
        f"{names[0]}: {text}" if len(names) == 1 else f"{names[0]} to {names[-1]}: each {text}"
        for text, names in alike.items()
    )


# ---- phases


@functools.cache
def _in_record() -> tuple[dict[str, pa.DataType], list[str]]:
    """The columns of phases that are keys of a phase in a record, with their types; those of them that are amounts.

    An amount may be halved; an exit code is none.
    """
    keys = record_schema()["$defs"]["phase"]["properties"]
    types = {field.name: field.type for field in list(schema("phases"))[len(IDENTITY) :] if field.name in keys}
    return types, [name for name, kind in types.items() if kind == pa.int64() and name != "exit"]


def _phase_columns(phases: list[dict]) -> dict[str, pa.Array]:
    """The columns that follow from phases of records alone."""
    types, _ = _in_record()
    fields = [("name", pa.string()), *types.items()]
    for name in _OBJECTS:
        inner = [(key, schema("phases").field(f"{name}_{key}").type) for key in _keys("phases", name)]
        fields.append((name, pa.struct(inner)))
    rows = pa.array(phases, pa.struct(fields))
    columns = {"phase": rows.field("name"), **{name: rows.field(name) for name in types}}
    for name in _OBJECTS:
        columns |= {f"{name}_{key}": pc.struct_field(rows, [name, key]) for key in _keys("phases", name)}
    each = [phase["wall_ns"] / phase["items"] if phase["items"] else None for phase in phases]
    return columns | {"wall_ns_per_item": pa.array(each, pa.float64())}


def _parts(phase: dict, samples: list[dict], titles: dict) -> list[dict]:
    """A phase as its parts: for each name the mean over iterations.

    An iteration of a part takes as long as its slowest client, and a client as long as the sum of its samples.
    """
    unknown = dict.fromkeys(_in_record()[1]) | {"device": None, "latency": None}
    whole = {key: (phase["device"] or {}).get(key) for key in _WHOLE}
    unknown["whole"] = whole | {key: phase.get(key) for key in ("used_bytes", "wall_ns", "items")}
    at_once = _at_once([sample for sample in samples if sample["name"] in titles])
    parts = []
    for name in titles:
        times: dict = {}
        here = [sample for sample in samples if sample["name"] == name]
        for sample in here:
            by_client = times.setdefault(sample["iteration"], Counter())
            by_client[sample["client"]] += sample["wall_ns"]
        if not here:
            continue
        part = {"name": name, "wall_ns": round(sum(max(c.values()) for c in times.values()) / len(times))}
        part |= {key: round(sum(sample[key] for sample in here) / len(times)) for key in ("items", "bytes")}
        part["part"] = "at-once" if at_once else "repeated" if len(times) > 1 else "in-turn"
        parts.append(phase | unknown | part)
    return parts


def _at_once(samples: list[dict]) -> bool:
    """Whether several clients, or several processes of one, did some of it at the same time."""
    spans = sorted(
        (one["start_ns"], one["start_ns"] + one["wall_ns"]) for one in samples if one["start_ns"] is not None
    )
    ends = itertools.accumulate((end for _, end in spans), max)
    clients = {one["client"] for one in samples}
    return len(clients) > 1 or any(start < end for (start, _), end in zip(spans[1:], ends, strict=False))


def _mean_run(runs: list[dict]) -> dict:
    """The only run of a phase, or the mean of several."""
    if len(runs) == 1:
        return runs[0]
    means = {key: _mean([run.get(key) for run in runs]) for key in _in_record()[1]}
    whole: dict = {key: None if mean is None else round(mean) for key, mean in means.items()}
    whole["processor_busy"] = _mean([run.get("processor_busy") for run in runs])
    if runs[0].get("cold"):  # proved where each run is; the bytes are those of the first
        proved = {run["cold"]["proved"] for run in runs}
        whole["cold"] = runs[0]["cold"] | {"proved": False if False in proved else None if None in proved else True}
    return {**runs[0], **whole, "device": None, "latency": None}


def _mean(values: list[float | None]) -> float | None:
    """The mean of those values that there are."""
    there = [value for value in values if value is not None]
    return sum(there) / len(there) if there else None


# ---- samples and clients


def _samples(phase: dict, run: int | None) -> list[dict]:
    """The samples of a phase, and the phase itself when it is one of several runs without any that have a start."""
    samples = phase.get("samples", [])
    if run is not None and not any("start_ns" in sample for sample in samples):
        whole = {"name": phase["name"], "iteration": run, **{key: phase[key] for key in ("wall_ns", "items", "bytes")}}
        samples = [*samples, whole]
    optional = ("client", "iteration", "file_bytes", "record_bytes", "start_ns")
    return [dict.fromkeys(optional) | sample for sample in samples]


def client_hosts(plan: Plan, trial: Cell) -> list[str]:
    """The nodes to which clients are assigned in turn; none without nodes."""
    filesystem = plan.filesystems[trial.filesystem]
    if filesystem.clients:
        return filesystem.clients.hosts
    return filesystem.hosts.of_clients(plan.workloads[trial.workload].on_servers) if filesystem.hosts else []


def clients(phase: dict, samples: list[dict], hosts: list[str]) -> list[dict]:
    """The work of each of several clients in a phase, or in each of its parts with samples. hosts: nodes of the
    clients, if any.
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
    by_part = []
    for (name, client), mine in parts.items():
        start = min(sample["start_ns"] for sample in mine)
        end = max(sample["start_ns"] + sample["wall_ns"] for sample in mine)
        row = {"phase": name, "wall_ns": end - start, **{key: rows[client][key] for key in ("client", "host")}}
        row["start_ns"] = start + rows[client]["start_ns"]
        by_part.append(row | {key: sum(sample[key] for sample in mine) for key in ("items", "bytes")})
    return by_part or rows
