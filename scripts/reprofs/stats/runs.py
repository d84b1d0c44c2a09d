"""Runs of one study against each other, as of two kernels, machines or commits: what differs, and what that changed."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import scipy  # scipy.stats takes seconds to import, so scipy imports it on first use

from reprofs.data.columns import IDENTITY
from reprofs.data.keys import OPERATION, SETTING
from reprofs.data.study import Tables, load
from reprofs.errors import UserError
from reprofs.plan.cell import apart, lab_parts
from reprofs.plan.kernel import Kernel
from reprofs.plan.plan import Plan, PlannedWorkload
from reprofs.stats.cells import LEVEL, measured
from reprofs.stats.compare import holm, paired, totals, wide
from reprofs.stats.formats import Found, found, unlike
from reprofs.stats.study import Study
from reprofs.stats.study import open as open_study

CELL = [*SETTING, *OPERATION, "label"]
ROUND = ["round", "seed"]
# What a difference is called: the first whose beginning its key has.
WORDS = {
    "lab.kernel": "kernel",
    "lab.modules_sha256": "kernel",
    "lab.config_sha256": "kernel",
    "labs.kernel.": "kernel",
    Kernel.folder: "kernel",
    "lab.packages.": "package",
    "lab.engine_sha256": "engine",
    "lab.programs_sha256.": "engine",
    "lab.qemu": "QEMU and firmware",
    "lab.command": "QEMU and firmware",
    "lab.gate": "QEMU and firmware",
    "lab.": "lab",
    "devices.": "device",
    "labs.": "lab",
    "filesystems.": "file system",
    "workloads.": "workload",
    "stacks.": "stack",
    "networks.": "network",
    "host.": "machine",
    "commit": "commit",
}
PARTS = ("devices", "filesystems", "workloads", "stacks", "networks", "labs")  # of a plan
ALIGNED = ("devices", "stacks", "labs")  # of these: what SETTING is made of
NAME = "run.txt"  # beside the tables of a run that a report sets its study beside: how it was called
DIGEST = re.compile("sha256:[0-9a-f]{64}")


@dataclass(frozen=True)
class Difference:
    """Something that is not the same in all runs. values: one a run, as text; empty where it has no such thing."""

    what: str
    key: str
    values: list[str]


@dataclass(frozen=True)
class Equality:
    """Of an exact lab, whose numbers two runs may have in common to the last bit.

    first: the first phase, in the order of the trials, that differs, with the columns of the table phases that do.
    """

    lab: str
    trials: int
    equal: int
    first: dict[str, Any] | None


@dataclass(frozen=True, eq=False)
class Comparison:
    """A run compared with the first. endings: trials with different status, and both; ratios: `ratios`."""

    run: str
    exact: list[Equality]
    endings: list[tuple[str, str, str]]
    ratios: pd.DataFrame

    def said(self, verdict: str) -> pd.DataFrame:
        """The rows with this verdict."""
        return self.ratios[self.ratios["verdict"] == verdict]

    @property
    def worse(self) -> bool:
        """Whether an operation became slower, or a trial that was ok now fails."""
        return bool(len(self.said("slower")) or any(was == "ok" for _, was, _ in self.endings))


def compare(runs: Mapping[str, Tables], least: float) -> tuple[list[Difference], list[Comparison]]:
    """The differences between runs, and each further run compared with the first.

    least: the smallest difference that counts, a share. Raises UserError for runs that cannot be compared: of other
    rules, clocks, workloads or seeds, or without an operation that both have.
    """
    (base, first), *others = runs.items()
    found = []
    for name, tables in others:
        refuse(base, first.plan, name, tables.plan)
        a, b = _aligned(first, tables)
        own = ratios(a.phases, b.phases, first.exact_labs, least)
        if own.empty:
            raise UserError(f"{base} and {name} have no operation in common that completed with the same seed in both.")
        labs = sorted(first.exact_labs & set(a.phases["lab"]))
        found.append(Comparison(name, [_equality(lab, a, b) for lab in labs], _endings(a.trials, b.trials), own))
    return differences(runs), found


@dataclass(frozen=True, eq=False)
class Changes:
    """run: what a study is compared with, as it was named; differences: between the two; found: the comparison.

    pairs: the times of both in each repetition of each operation that both completed with the same seed: CELL, round,
    seed, wall_ns and other_ns, which is the other run's.
    """

    run: str
    differences: list[Difference]
    found: Comparison
    pairs: pd.DataFrame


def changes(study: Study, other: str = "") -> Changes | None:
    """A study compared with another run: another study, or the one that `make report` was given as BESIDE.

    other: the name of a study or a folder of tables. None where there is no other run. Raises UserError where the two
    cannot be compared.
    """
    name = study.plan.study.name
    tables: Tables
    if other:
        run, tables = other, open_study(other)
    elif (study.other_run / NAME).is_file():
        run, tables = (study.other_run / NAME).read_text(), load(study.other_run)
    else:
        return None
    name = f"{name} here" if name == run else name
    told, (found,) = compare({run: tables, name: study}, study.margins["win"])
    a, b = (measured(side.phases)[[*CELL, *ROUND, "wall_ns"]] for side in _aligned(tables, study))
    pairs = b.merge(a.rename(columns={"wall_ns": "other_ns"}), on=[*CELL, *ROUND])
    return Changes(run, told, found, pairs)


def differences(runs: Mapping[str, Tables]) -> list[Difference]:
    """What lab, machine and plan say of themselves and is not the same in all runs, in the order of WORDS."""
    plans = [tables.plan.as_json() for tables in runs.values()]
    alone = {part for part in ALIGNED if all(len(plan.get(part, {})) == 1 for plan in plans)}
    told = [dict(_told(tables, alone)) for tables in runs.values()]
    found = []
    for key in {key: None for one in told for key in one}:
        values = [one.get(key, "") for one in told]
        if len(set(values)) > 1:
            what = next((word for start, word in WORDS.items() if key.startswith(start)), "run")
            found.append(Difference(what, key, values))
    order = [*dict.fromkeys(WORDS.values()), "run"]
    return sorted([*found, *_formats(runs)], key=lambda one: (order.index(one.what), one.key))


def _formats(runs: Mapping[str, Tables]) -> Iterator[Difference]:
    """What was not made alike of the file systems that all runs tell of."""
    several = any(len(tables.plan.labs) > 1 for tables in runs.values())
    made: list[Found] = []
    whose: dict[str, set[str]] = {}
    for run, tables in runs.items():
        for label, where, own in found(tables):
            name = f"{label} in {where.lab}" if several else label
            made.append((name, where._replace(lab=run), own))
            whose.setdefault(name, set()).add(run)
    plan = next(iter(runs.values())).plan
    for one in unlike(plan, (each for each in made if len(whose[each[0]]) == len(runs))):
        values = [" or ".join(one.values.get(run, [])) for run in runs]
        if len(set(values)) > 1:
            yield Difference("file system", f"{one.label}: {one.feature}", values)


def _told(tables: Tables, alone: set[str]) -> Iterator[tuple[str, str]]:
    """Keys and texts. alone: the parts of which every run has one: what is said of it has no name in its key."""
    for key, values in tables.environment["values"].items():
        # The digests of QEMU's files have keys of their own.
        yield key, "; ".join(DIGEST.sub("sha256:…", value) if key == "lab.command" else value for value in values)
    if kernels := _kernels(tables):
        yield Kernel.folder, kernels
    plan = tables.plan.as_json()
    for part in PARTS:
        told = plan.get(part, {})
        if part == "filesystems":  # of a file's variants those that have a trial
            names = tables.trials[["filesystem", "variant"]].drop_duplicates().itertuples(index=False)
            ran = {(name, apart(variant)[0]) for name, variant in names}
            told = {
                name: {key: value for key, value in entry.items() if key != "format"}
                | {"variants": {key: one for key, one in entry["variants"].items() if (name, key) in ran}}
                for name, entry in told.items()
            }
        if part in alone:
            (name, told), *_ = told.items()
            if part != "labs":  # whose name the records say
                yield f"{part}.name", name
        # What somebody built is told by its digest, wherever it lies.
        yield from ((key, text) for key, text in _leaves(told, f"{part}.") if not key.endswith(".kernel.debs"))
    yield "rounds", str(tables.trials["round"].nunique())


def _kernels(tables: Tables) -> str:
    """The files of the kernels in the place of the guests' own, with the digests of packages that somebody built."""
    found: dict[str, None] = {}
    for name, lab in tables.plan.labs.items():
        if lab.kernel:
            debs = ", ".join(deb.sha256[:12] for deb in lab.kernel.debs or [])
            found[f"{lab_parts(name).kernel}.yaml{debs and f' ({debs})'}"] = None
    return "; ".join(found)


def _leaves(value: Any, key: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _leaves(item, f"{key}{name}.")
    else:
        yield key.removesuffix("."), value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@dataclass(frozen=True)
class _Side:
    trials: pd.DataFrame
    phases: pd.DataFrame


def refuse(base: str, first: Plan, name: str, other: Plan) -> None:
    """Raises UserError for runs, with their names, whose times mean something else."""
    if first.protocol != other.protocol:
        raise UserError(
            f"{base} was measured by protocol {first.protocol}, {name} by {other.protocol}: "
            "run the older one again, for their times cannot be compared."
        )
    clocks = [sorted({lab.clock for lab in plan.labs.values()}) for plan in (first, other)]
    if clocks[0] != clocks[1]:
        words = [" and ".join(each) for each in clocks]
        raise UserError(f"{base} counts {words[0]}, {name} {words[1]}: times of two clocks are not compared.")
    for workload in sorted(first.workloads.keys() & other.workloads.keys()):
        if _work(first.workloads[workload]) != _work(other.workloads[workload]):
            raise UserError(f"the workload {workload} is another one in {name} than in {base}: run one of them again.")


def _work(workload: PlannedWorkload) -> list:
    """What a workload does, without its words."""
    phases = [{key: value for key, value in phase.as_json().items() if key != "title"} for phase in workload.phases]
    aged = [workload.runs, workload.fill, workload.pulls]
    return [phases, workload.parameters, workload.size, workload.clients, *aged]


def _aligned(first: Tables, other: Tables) -> tuple[_Side, _Side]:
    """Both runs, in the names of the first where each has only one lab, stack or device profile, and it differs."""
    change = {}
    for key in SETTING:
        names = [tables.trials[key].unique() for tables in (first, other)]
        if len(names[0]) == len(names[1]) == 1:
            change[key] = names[0][0]
    columns = {"trials": first.trials, "phases": first.phases}
    renamed = {"trials": other.trials.assign(**change), "phases": other.phases.assign(**change)}
    return _Side(**columns), _Side(**renamed)


def _endings(a: pd.DataFrame, b: pd.DataFrame) -> list[tuple[str, str, str]]:
    keys = [*SETTING, "workload", "scale", "label", "round"]
    both = a[[*keys, "trial", "status"]].merge(b[[*keys, "status"]], on=keys, suffixes=("", "_b"))
    both = both[both["status"] != both["status_b"]]
    return list(both[["trial", "status", "status_b"]].itertuples(index=False, name=None))


def _equality(lab: str, a: _Side, b: _Side) -> Equality:
    """Whether every column of the phases is the same, trial by trial."""
    places = [*CELL, *ROUND]
    both = a.phases[a.phases["lab"] == lab].merge(b.phases, on=places, suffixes=("", "_b"))
    columns = [name for name in a.phases if name not in {*IDENTITY, *places}]
    differs = pd.DataFrame({name: _unlike(both[name], both[f"{name}_b"]) for name in columns})
    any_of = differs.any(axis=1)
    trials = both["trial"].nunique()
    if not any_of.any():
        return Equality(lab, trials, trials, None)
    place = both[any_of].sort_values(["round", "order", "position"]).index[0]
    row = both.loc[place]
    first = {name: row[name] for name in ("trial", "phase", "cache")}
    first["columns"] = [name for name in columns if differs.loc[place, name]]
    return Equality(lab, trials, trials - both.loc[any_of, "trial"].nunique(), first)


def _unlike(a: pd.Series, b: pd.Series) -> np.ndarray:
    same = (a == b).fillna(False) | (a.isna() & b.isna())
    return ~same.to_numpy(bool)


def ratios(a: pd.DataFrame, b: pd.DataFrame, exact: set[str], least: float) -> pd.DataFrame:
    """Times of run b over those of run a of each operation, and of each workload as a whole (phase TOTAL).

    a, b: tables phases; exact: the labs that always give the same numbers; least: see `compare`. Paired by round and
    seed, so with the same input. Columns: CELL, position, n (rounds), ratio, low, high (95 % interval, from two rounds
    on), floor, p, p_holm, p_equal, and

    - floor: what the ratio of run a to itself, with other names and another start, would differ from 1 by in 19 of 20
      cases (A against A: Student's t on the logarithms of its own rounds; a share).
    - verdict: `equal`: the same number in every round of an exact lab. `slower`, `faster`: by `least` or more and by
      more than the floor, and p of a paired t test is below 5 %, by Holm's method over all operations (workloads as a
      whole are a family of their own). `same`: within `least` by two one-sided tests at 5 %. Else `undecided`.
    """
    places = [*CELL, *ROUND]
    own, other = (measured(phases) for phases in (a, b))
    both = own[places].merge(other[places], on=places)
    a, b = (phases.merge(both, on=places) for phases in (own, other))
    parts = _tested(a, b, exact, least)
    whole = _tested(totals(a), totals(b), exact, least).assign(position=-1)
    found = pd.concat([part for part in (parts, whole) if len(part)] or [parts])
    return found.sort_values([*SETTING, "workload", "scale", "label", "position"], kind="stable", ignore_index=True)


def _tested(a: pd.DataFrame, b: pd.DataFrame, exact: set[str], least: float) -> pd.DataFrame:
    """`ratios` of one family of tests; both sides have the same rows."""
    both = a.merge(b[[*CELL, "round", "wall_ns"]], on=[*CELL, "round"], suffixes=("", "_b"))
    both = both[(both["wall_ns"] > 0) & (both["wall_ns_b"] > 0)].sort_values([*SETTING, "workload", "scale", "label"])
    if both.empty:
        return pd.DataFrame(columns=[*CELL, "position", "n", "ratio", "low", "high", "floor", "p", "p_holm", "verdict"])
    number = both.groupby(CELL, sort=False).ngroup().to_numpy()
    times = both["wall_ns"].to_numpy(float), both["wall_ns_b"].to_numpy(float)
    first, second = (wide(number, both["round"], np.log(each)) for each in times)
    tested = paired(second - first, least)
    equal = np.where(np.isfinite(first), first == second, True).all(axis=0)
    found = both.groupby(CELL, sort=False)["position"].min().astype(int).reset_index()
    found = found.assign(**{key: tested[key] for key in ("n", "ratio", "low", "high", "p", "p_equal")})
    found = found.assign(floor=_floor(first), p_holm=holm(tested["p"]), equal=equal & found["lab"].isin(exact))
    told = (found["p_holm"] < 1 - LEVEL) & (np.maximum(found["ratio"], 1 / found["ratio"]) - 1 > found["floor"])
    verdict = np.select(
        [
            found["equal"],
            told & (found["ratio"] >= 1 + least),
            told & (found["ratio"] <= 1 / (1 + least)),
            found["p_equal"] < 1 - LEVEL,
        ],
        ["equal", "slower", "faster", "same"],
        "undecided",
    )
    return found.drop(columns="equal").assign(verdict=verdict)


def _floor(logs: np.ndarray) -> np.ndarray:
    """See `ratios`; logs: of the times of run a, shape (rounds, groups)."""
    n = np.isfinite(logs).sum(axis=0)
    with np.errstate(all="ignore"):
        mean = np.where(np.isfinite(logs), logs, 0).sum(axis=0) / n
        spread = np.where(np.isfinite(logs), np.square(logs - mean), 0).sum(axis=0)
        sd = np.sqrt(spread / np.where(n > 1, n - 1, math.nan))
        half = scipy.stats.t.ppf((1 + LEVEL) / 2, np.maximum(n - 1, 1)) * sd * np.sqrt(2 / n)
    return np.expm1(half)


def decidable(found: list[Comparison]) -> None:
    """Raises UserError where nothing could be told of a ratio, whatever it is, because there is one round."""
    for one in found:
        if len(unknown := one.ratios[(one.ratios["n"] < 2) & (one.ratios["verdict"] != "equal")]):
            where = unknown.iloc[0]
            raise UserError(
                f"{one.run} has one round of {where['workload']} on {where['label']}, so chance cannot be told from a "
                "change: give the study two rounds or more."
            )
