"""The tables of a study, as they were written, for everything that comes after them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from reprofs.data.columns import TABLES
from reprofs.errors import UserError
from reprofs.files import read_json, sha256
from reprofs.project import place
from reprofs.trial.protocol import RECOVERY


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
    clients: pd.DataFrame
    latency: pd.DataFrame
    plan: dict
    environment: dict
    digests: dict[str, str]

    def labels(self, role: str = "contender") -> list[str]:
        """Labels with that role in the order of their names, whether their trials completed or not."""
        return sorted(self.trials.loc[self.trials["role"] == role, "label"].unique())

    def lab(self, name: str) -> dict:
        """The facts of a lab (see `labs.Lab.facts`) as planned: its clock, what its time means."""
        return self.plan["labs"][name]

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
        order = {name: number for number, name in enumerate(asked)}
        order |= {n: order[s] for n, e in entries.items() if (s := f"{e['family']}@{e['disks']}") in order}
        return dict(sorted(entries.items(), key=lambda pair: order.get(pair[0], len(order))))

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


class _Late:
    """A frame of `Tables`, or the parquet file from which it is read when it is first asked for."""

    def __init__(self, name: str):
        self._name = name

    def __get__(self, tables: Tables, owner: type) -> pd.DataFrame:
        values = vars(tables)
        if isinstance(values[self._name], Path):
            values[self._name] = _read(values[self._name])
        return values[self._name]

    def __set__(self, tables: Tables, value: pd.DataFrame | Path) -> None:
        vars(tables)[self._name] = value


# Large, and few ask for them.
for _name in ("samples", "clients", "latency"):
    setattr(Tables, _name, _Late(_name))


def load(folder: str | Path) -> Tables:
    """Read a folder written by `reprofs.data.tables.build`. Raises UserError when it is not there."""
    folder = place(folder)
    if not (folder / "trials.parquet").is_file():
        raise UserError(f"There are no tables in {folder}: run `reprofs dataset` or `make report` first.")
    paths = {name: folder / f"{name}.parquet" for name in TABLES}
    frames = paths | {name: _read(paths[name]) for name in ("trials", "phases")}
    digests = {name: sha256(path) for name, path in paths.items()}
    plan, environment = read_json(folder / "study.json"), read_json(folder / "environment.json")
    return Tables(**frames, plan=plan, environment=environment, digests=digests)
