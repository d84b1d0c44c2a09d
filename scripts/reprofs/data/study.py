"""The tables of a study, as they were written, for everything that comes after them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from reprofs.data.columns import IDENTITY, TABLES, schema
from reprofs.data.keys import OPERATION, SETTING
from reprofs.errors import UserError
from reprofs.files import SUMS, changed, read_json, read_sums, sha256
from reprofs.plan.cell import CELL, PlannedTrial, taken_apart
from reprofs.plan.phase import Phase
from reprofs.plan.plan import LabFacts, Plan, PlannedStack, PlannedWorkload, read_plan
from reprofs.plan.study import PlannedStudy
from reprofs.plan.workload import WORKERS
from reprofs.project import place
from reprofs.records.protocol import RECOVERY

IMPORTED = LabFacts(clock="unknown", clock_text="the clock of whoever measured", meaning="")
IMPORT = "import.json"  # the file by which a folder of `reprofs import` is known


def _read(file: Path) -> pd.DataFrame:
    return pd.read_parquet(file, dtype_backend="numpy_nullable")


@dataclass(frozen=True)
class Tables:
    """The tables of one study as frames (see dictionary.csv beside them for every column).

    `plan` is study.json: the study and what it is made of; `environment` what the records say of lab and hosts;
    `digests` the SHA-256 of each table.
    """

    trials: pd.DataFrame
    phases: pd.DataFrame
    samples: pd.DataFrame
    states: pd.DataFrame
    faults: pd.DataFrame
    rot: pd.DataFrame
    clients: pd.DataFrame
    calls: pd.DataFrame
    latency: pd.DataFrame
    plan: Plan
    environment: dict
    digests: dict[str, str]

    def has(self, name: str) -> bool:
        """Whether this table exists; an import lacks some."""
        return not isinstance(vars(self)[name], str)

    def labels(self, role: str = "contender") -> list[str]:
        """Labels with that role in the order of their names, whether their trials completed or not."""
        return sorted(self.trials.loc[self.trials["role"] == role, "label"].unique())

    def lab(self, name: str) -> LabFacts:
        """The facts of a lab as planned: its clock, what its time means."""
        return self.plan.labs[name]

    @property
    def exact_labs(self) -> set[str]:
        """The labs in which the same trial always gives the same numbers."""
        return {name for name, lab in self.plan.labs.items() if lab.exact}

    @property
    def ended(self) -> pd.Series:
        """How each trial ended: `ok`; `finding` (it cuts the power, and failed afterwards), `unavailable` (its lab
        cannot run it), `failed`. Indexed as `trials`."""
        cuts = {name for name, entry in self.plan.workloads.items() if any(phase.crash for phase in entry.phases)}
        kinds = {"ok": "ok", "skipped": "unavailable"}
        found = self.trials["status"].astype(str).map(lambda status: kinds.get(status, "failed"))
        return found.mask((self.trials["status"] == "failed") & self.trials["workload"].isin(cuts), "finding")

    @property
    def timed(self) -> bool:
        """Whether times are a result, of some phase."""
        return any(phase.timed for entry in self.plan.workloads.values() for phase in entry.phases)

    @property
    def demonstration(self) -> bool:
        """Whether a trial has the small tree of scale smoke, not a size of its own (NAME@SIZE) or a power cut."""
        found = set(self.trials[["workload", "scale"]].itertuples(index=False, name=None))
        small = {name: self.plan.workloads[name] for name, scale in found if scale == "smoke"}
        return any(
            entry.size and ("@" not in name or entry.size == WORKERS) and not any(phase.crash for phase in entry.phases)
            for name, entry in small.items()
        )

    def opening(self, words: str) -> str:
        """A title or question as it stands before results: the first word of a demonstration says that it is one."""
        return f"Demonstration: {words}" if self.demonstration else words

    def stacks(self) -> dict[str, PlannedStack]:
        """Every stack planned, by name, in the order of the study's file."""
        places = [self.plan.study, *(self.plan.study.cells or [])]
        asked = list(dict.fromkeys(spec for place in places for spec in place.stacks or []))
        entries = {}
        for name in sorted(set(self.trials["stack"])):
            alone = PlannedStack(title=name, family=name, disks=1, layers=[name])
            entries[name] = self.plan.stacks.get(name, alone)
        # The plan writes md-raid6@6 as md-raid6, where six is the default.
        order = {name: number for number, name in enumerate(asked)}
        order |= {n: order[s] for n, e in entries.items() if (s := f"{e.family}@{e.disks}") in order}
        return dict(sorted(entries.items(), key=lambda pair: order.get(pair[0], len(order))))

    def title(self, workload: str, phase: str, cache: str) -> str:
        """Words for a phase; with its cache state where that is cold or the workload has the phase in both states."""
        if phase.endswith(RECOVERY):
            return f"Mount after the power cut in {phase.removesuffix(RECOVERY)}"
        planned = self.plan.workloads.get(workload)
        # Its title in each cache state.
        titles: dict[str, str] = {
            entry.cache: words[phase]
            for entry in (reversed(planned.phases) if planned else ())
            if phase in (words := {entry.name: entry.title} | (entry.samples or {}))
        }
        title = titles.get(cache, phase)
        needed = (cache == "cold" or len(titles) > 1) and cache not in title.lower()
        return f"{title}, {cache}" if needed else title


class _Late:
    """A part of `Tables`, the parquet file from which it is read when it is first asked for, or why there is none."""

    def __init__(self, name: str):
        self._name = name

    def __get__(self, tables: Tables, owner: type) -> pd.DataFrame:
        values = vars(tables)
        if not tables.has(self._name):
            raise UserError(values[self._name])
        if isinstance(values[self._name], Path):
            values[self._name] = _read(values[self._name])
        return values[self._name]

    def __set__(self, tables: Tables, value: pd.DataFrame | Path | dict | str) -> None:
        vars(tables)[self._name] = value


# Large, and few ask for them; or not in an import.
for _name in ("samples", "states", "faults", "rot", "clients", "calls", "latency", "environment"):
    setattr(Tables, _name, _Late(_name))


def _ranked(phases: pd.DataFrame) -> pd.DataFrame:
    """The table with the role `not-cold` in place of `contender` in every repetition of a phase not proved cold.

    One repetition without proof is enough. Such a phase is shown and never ranked.
    """
    unproved = phases["cache"].eq("cold") & phases["cold_proved"].eq(False).fillna(False) & phases["status"].eq("ok")
    unproved = unproved.astype(bool) & phases["role"].eq("contender")
    if not unproved.any():
        return phases
    cells = unproved.groupby([phases[key] for key in (*SETTING, *OPERATION, "label")]).transform("any")
    return phases.assign(role=phases["role"].mask(cells, "not-cold"))


def load(folder: str | Path) -> Tables:
    """Read a folder written by `reprofs.data.tables.build`, with the role `not-cold` in `phases` (see `_ranked`).

    Raises UserError if it is missing or was changed.
    """
    folder = place(folder)
    if not (folder / "trials.parquet").is_file():
        raise UserError(f"{folder} has no tables: run `make report` or `reprofs dataset` first.")
    paths = {name: folder / f"{name}.parquet" for name in TABLES}
    if wrong := changed(folder / SUMS, "study.json", "environment.json", *(path.name for path in paths.values())):
        told = "is missing or was changed after it was made"
        raise UserError(f"{wrong} {told}: run `make report` again.")
    frames = paths | {name: _read(paths[name]) for name in ("trials", "phases")}
    frames["phases"] = _ranked(frames["phases"])
    noted = read_sums(folder / SUMS)
    digests = {name: noted[path.name] for name, path in paths.items()}
    plan, environment = read_plan(folder / "study.json"), read_json(folder / "environment.json")
    # study.json has no trials, but what a study is about follows from them, too.
    plan = plan.model_copy(update={"trials": [_planned(row) for row in frames["trials"].to_dict("records")]})
    return Tables(**frames, plan=plan, environment=environment, digests=digests)


def _planned(row: dict) -> PlannedTrial:
    """A trial as it was planned, without the digest of its job, which the table does not have."""
    names = taken_apart({key: row[key] for key in (*CELL, "round", "seed", "order")})
    return PlannedTrial.model_construct(id=row["trial"], job_sha256="", **names)


def load_import(folder: str | Path) -> Tables:
    """Read a folder written by `reprofs import` as the tables of a study.

    Raises UserError when it has no phases, and when one of its files is no longer as it was written.

    What no output of another benchmark has (single operations, the environment) raises a UserError when asked for.
    """
    folder = place(folder)
    if wrong := changed(folder / SUMS, IMPORT, "measurements.parquet"):
        raise UserError(f"{wrong} is missing or was changed after it was made: run `reprofs import` again.")
    made, path = read_json(folder / IMPORT), folder / "phases.parquet"
    if not path.is_file():
        raise UserError(
            f"{folder} has no phases: the format {made['format']} has no time per run. Read its "
            "measurements.parquet instead."
        )
    phases = _read(path)
    cell = [*IDENTITY[IDENTITY.index("lab") : IDENTITY.index("seed")], "phase", "cache"]
    again = phases.loc[phases.duplicated(cell), "trial"]
    if len(again):
        raise UserError(f"{path} has the run {again.iloc[0]} twice: remove one from its file, and import again.")
    trials = phases[IDENTITY].drop_duplicates("trial", ignore_index=True).reindex(columns=schema("trials").names)
    name, files = f"imported/{folder.name}", len(made["files"])
    question = f"What do {files} imported files ({made['format']}) say?"
    about: dict[str, Any] = {"name": name, "title": name, "question": question}
    # Nobody planned it: it has no rounds, no seed, and its phases do nothing that is known.
    study = PlannedStudy.model_construct(**about)
    workloads: dict[str, PlannedWorkload] = {}
    for workload, phase, cache in phases[["workload", "phase", "cache"]].drop_duplicates().itertuples(index=False):
        entry = workloads.setdefault(workload, PlannedWorkload(title=workload, phases=[]))
        entry.phases.append(Phase.model_construct(name=phase, title=phase, cache=cache))
    absent: dict = {
        part: f"{name} has no table {part}: the output of {made['format']} has only times of whole phases."
        for part in ("samples", "states", "faults", "rot", "clients", "calls", "latency")
    }
    absent["environment"] = f"{name} has no environment: the output of {made['format']} says nothing of the machine."
    return Tables(
        trials=trials,
        phases=phases,
        **absent,
        plan=Plan.model_construct(study=study, labs={"imported": IMPORTED}, workloads=workloads),
        digests={"phases": sha256(path)},
    )
