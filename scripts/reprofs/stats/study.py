"""A study as notebooks see it: its tables, its statistics, and which of its parts are compared with each other."""

from __future__ import annotations

import difflib
import functools
import io
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path

import pandas as pd

from reprofs.data import published
from reprofs.data.columns import dictionary
from reprofs.data.keys import OPERATION, SETTING, Load, Pair, Place, Setting, distinct, natural, select
from reprofs.data.study import IMPORT, Tables, load_import
from reprofs.data.study import load as load_tables
from reprofs.errors import UserError, several
from reprofs.plan.cell import lab_parts
from reprofs.project import place
from reprofs.stats import cells, compare, results, stacks
from reprofs.stats.results import Margins, Results

# Columns of tables in ns -> of the same in ms.
TIMES = {
    "wall_ns": "ms",
    "geometric_mean_ns": "ms",
    "low_ns": "low_ms",
    "high_ns": "high_ms",
    "mean_ns": "mean_ms",
    "sd_ns": "sd_ms",
}
NAMES = {"lab": "lab", "stack": "stack", "profile": "device model"}
LAB_NAMES = {"processor": "CPU model {}", "kernel": "kernel {}", "memory_mib": "memory {} MiB"}


@dataclass(frozen=True, repr=False)
class Study(Tables):
    """The tables of a study as frames (trials, phases, samples, states, clients, calls, latency), and its statistics
    (results)."""

    folder: Path  # where the results are kept
    profiles: Path = Path()  # where the profiles of its trials are, if it has any
    other_run: Path = Path()  # where the tables of the run are that it is set beside, if there is one

    def __repr__(self) -> str:
        text = io.StringIO()
        print(textwrap.fill(f"Study {self.plan.study.name}: {self.plan.study.question}"), file=text)
        for name in ("trials", "phases", "samples", "states", "faults", "rot", "clients", "calls", "latency"):
            rows = f"{len(getattr(self, name)):9,} rows" if self.has(name) else "not in this import"
            print(f"  {name:8} {rows}", file=text)
        names = ", ".join(field.name for field in fields(Results))
        print(textwrap.fill(names, initial_indent="  results  ", subsequent_indent=" " * 11), file=text, end="")
        return text.getvalue()

    def dictionary(self, table: str = "phases") -> pd.DataFrame:
        """The columns of a table: column, type, unit and meaning."""
        rows = pd.DataFrame(dictionary())
        return rows[rows["table"] == table].drop(columns="table").reset_index(drop=True)

    @functools.cached_property
    def times(self) -> pd.DataFrame:
        """One row for each measured operation of each repetition of each file system, in the order of the operations;
        without those whose time is no result.

        The columns of `phases`, and: operation (words, in order), where (lab, stack and device model where the study
        has several), ms (virtual or real milliseconds, see `clock`), seconds, throughput_mb_s, items_per_s.
        """
        return self.named(self._timed(cells.measured(self.phases)))

    def _timed(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Rows with a workload and a phase, without the phases whose time is no result: those that visit states, for
        one, of which the plan knows. What has no phase in the plan, such as a mount after a power cut, stays."""
        workloads = self.plan.workloads.items()
        untimed = {(name, phase.name) for name, entry in workloads for phase in entry.phases if not phase.timed}
        keys = pd.MultiIndex.from_frame(frame[["workload", "phase"]])
        return frame[~keys.isin(list(untimed))] if untimed else frame

    def named(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Rows with the keys of operations, in their order, with the columns operation and where of `times`; and the
        times in ns, if there are any, in ms as well."""
        order = self.phases.groupby(["workload", "phase", "cache"], sort=False)["position"].min()
        keys = list(frame[["workload", "phase", "cache"]].itertuples(index=False, name=None))
        words = {key: self.title(*key) for key in dict.fromkeys(keys)}
        rank = {
            key: place for place, key in enumerate(sorted(words, key=lambda key: (natural(key[0]), order.get(key, 0))))
        }
        names = pd.Categorical([words[key] for key in keys], dict.fromkeys(words[key] for key in rank), ordered=True)
        places = {key: self.differing(key) for key in distinct(frame, Setting)}
        where = [places[Setting(*row)] for row in frame[SETTING].itertuples(index=False, name=None)]
        found = frame.assign(operation=names, where=where, _place=[rank[key] for key in keys])
        for column in [name for name in frame if name in TIMES]:
            found[TIMES[column]] = frame[column].astype(float) / 1e6
        if "wall_ns" in frame:
            seconds = frame["wall_ns"].astype(float) / 1e9
            found["seconds"] = seconds
            for name, per in (("throughput_mb_s", "bytes"), ("items_per_s", "items")):
                scale = 1e6 if per == "bytes" else 1
                found[name] = frame[per].astype(float) / scale / seconds if per in frame else float("nan")
        return found.sort_values("_place", kind="stable").drop(columns="_place").reset_index(drop=True)

    @property
    def statistics(self) -> pd.DataFrame:
        """`results.statistics` with the words of operations, and times in ms: one row a configuration and operation
        whose time is a result."""
        return self.named(self._timed(self.results.statistics))

    @property
    def verdicts(self) -> pd.DataFrame:
        """The corrected verdict on each operation whose time is a result, one row each: see `stats.compare.winners`.
        Times in ms, too."""
        return self.named(self._timed(self.results.winners))

    def parts(self) -> Iterator[tuple[str, Setting, Load]]:
        """The heading of each workload of each shown setting, and both: what one table or figure can show."""
        for setting in self.shown_settings:
            for load in self.loads(setting):
                yield self.headline(load, setting), setting, load

    @functools.cached_property
    def results(self) -> Results:
        """All statistics: as they were saved, or computed now, which takes seconds."""
        return results.load(self.folder, self) or results.compute(self)

    def save_results(self) -> Path:
        """Compute all statistics and write them, one parquet file each. Returns their folder. Raises UserError."""
        results.save(results.compute(self), self.folder, self)
        return self.folder

    @property
    def limit(self) -> str:
        """The sentence for studies whose hosts share a machine; else empty."""
        servers = [filesystem.hosts.servers for filesystem in self.plan.filesystems.values() if filesystem.hosts]
        if not servers:
            return ""
        modelled = [lab.processor for lab in self.plan.labs.values()]
        together = max(servers) > 1 and any(workload.on_servers for workload in self.plan.workloads.values())
        if not together and all(processor and processor.apart(max(servers)) for processor in modelled):
            return "Every server has a processor core of its own; all clients share the others of the same machine."
        if any(processor is None or processor.count > 1 for processor in modelled):
            return "All hosts share the processors of one machine."
        return (
            "All hosts share one processor: CPU-bound work of servers does not run in parallel, time on the wire and on"
            " disks does."
        )

    @property
    def margins(self) -> Margins:
        """win: the smallest difference that counts; equal: the largest between equivalent times (both shares)."""
        return results.margins(self)

    @functools.cached_property
    def shapes(self) -> pd.DataFrame:
        """Whether the logarithms of each cell of `results.statistics` may be normal: `cells.abnormal`, with p_holm over
        all of them."""
        keys = [*SETTING, *OPERATION, "label"]
        known = pd.MultiIndex.from_frame(self.results.statistics[keys])
        found = cells.abnormal(self.phases[pd.MultiIndex.from_frame(self.phases[keys]).isin(known)])
        return found.assign(p_holm=compare.holm(found["p"]))

    @functools.cached_property
    def settings(self) -> list[Setting]:
        """Settings whose file systems are compared in full: of every lab, profile and workload the base of its stacks.

        What the other stacks change is shown by ratios to it, not by a section for each of them; but a stack most of
        whose file systems run on no base, such as that of the distributed ones, is one to compare in.
        """
        entries, found = self.stacks(), set()
        for (lab, profile, _), group in self.trials.groupby(["lab", "profile", "workload"]):
            available = set(group["stack"])
            found.add(Setting(lab, stacks.base(entries, [name for name in entries if name in available]), profile))
        contenders = self.trials[self.trials["role"] == "contender"]
        for (lab, profile), group in contenders.groupby(["lab", "profile"]):
            names = {stack: set(own["filesystem"]) for stack, own in group.groupby("stack")}
            bases = {stack for stack in names if Setting(lab, stack, profile) in found}
            known = set().union(*(names[stack] for stack in bases))
            most = [stack for stack, own in names.items() if stack not in bases and 2 * len(own - known) > len(own) > 1]
            found |= {Setting(lab, stack, profile) for stack in most}
        return sorted(found)

    @functools.cached_property
    def further_settings(self) -> list[Setting]:
        """Settings beyond the main ones with a comparison of their own, such as options for one level of RAID."""
        contenders, found = self.trials[self.trials["role"].isin(["contender", "variant"])], []
        for (lab, profile), group in contenders.groupby(["lab", "profile"]):
            main = [setting.stack for setting in self.settings if (setting.lab, setting.profile) == (lab, profile)]
            known = set(group.loc[group["stack"].isin(main), "label"])
            found += [
                Setting(lab, stack, profile)
                for stack, own in group.groupby("stack")
                if stack not in main and set(own["label"]) - known and own["label"].nunique() > 1
            ]
        return sorted(found)

    @property
    def shown_settings(self) -> list[Setting]:
        """The settings and further settings that have a result."""
        known = distinct(self.results.statistics, Setting)
        return [setting for setting in self.settings + self.further_settings if setting in known]

    def loads(self, setting: Setting) -> list[Load]:
        """The workloads that were planned in a setting."""
        return distinct(select(self.trials, setting), Load)

    def contenders(self, setting: Setting) -> list[str]:
        """Contenders with a result in a setting, best mean rank first; unranked ones by name."""
        ranked = select(self.results.ranks, setting)
        return list(ranked.sort_values(["mean_rank", "label"])["label"])

    def bounds(self, setting: Setting) -> list[str]:
        """Baselines with a result in a setting; they are not ranked."""
        found = select(self.results.statistics, setting, role="ceiling")
        return sorted(set(found["label"]))

    def unpromised(self, setting: Setting | None = None) -> list[str]:
        """Variants that are not durable and have a result: shown, not ranked."""
        found = self.results.statistics if setting is None else select(self.results.statistics, setting)
        return sorted(set(found.loc[found["role"] == "no-promise", "label"]))

    def not_cold(self, setting: Setting) -> list[str]:
        """File systems with a cold phase that is not proved cold: shown, not ranked in it or its workload."""
        found = select(self.results.statistics, setting, role="not-cold")
        return sorted(set(found["label"]))

    def beside(self, setting: Setting) -> list[str]:
        """All file systems with a result in a setting that are not ranked."""
        never = [label for label in self.not_cold(setting) if label not in self.contenders(setting)]
        return never + self.variants(setting) + self.unpromised(setting) + self.bounds(setting)

    def variants(self, setting: Setting) -> list[str]:
        """Variants of contenders with a result in a setting: compared with these, not ranked."""
        return sorted(set(select(self.results.statistics, setting, role="variant")["label"]))

    def compared(self, setting: Setting) -> bool:
        """Whether two ranked file systems or more were planned in a setting."""
        return select(self.trials, setting, role="contender")["label"].nunique() > 1

    @functools.cached_property
    def places(self) -> list[Place]:
        """Where there is more than one stack, so that stacks are compared."""
        several = stacks.gathered(self.trials).groupby(list(Place._fields))["stack"].nunique()
        return sorted(Place(*key) for key in several.index[several > 1])

    @property
    def pairs(self) -> list[Pair]:
        """Pairs of labs with measurements in common."""
        return list(
            dict.fromkeys(Pair(*row) for row in self.results.agreement[list(Pair._fields)].itertuples(index=False))
        )

    def differing(self, *keys: Setting | Place, **parts: str) -> str:
        """Names lab, stack and device model where the study has several; empty where it has one of each."""
        parts = {name: value for key in keys for name, value in key._asdict().items() if name in NAMES} | parts
        several = {name: value for name, value in parts.items() if self.trials[name].nunique() > 1}
        return ", ".join(
            self._lab_named(value) if name == "lab" else f"{NAMES[name]} {value}" for name, value in several.items()
        )

    def _lab_named(self, name: str) -> str:
        """`kernel debian-7.3`: a lab by what alone tells the labs of the study apart, else by its name."""
        own, places = lab_parts(name), [lab_parts(lab) for lab in self.trials["lab"].unique()]
        differ = [key for key in LAB_NAMES if len({getattr(one, key) for one in places}) > 1]
        if len({one.lab for one in places}) > 1 or len(differ) != 1 or not getattr(own, differ[0]):
            return f"{NAMES['lab']} {name}"
        return LAB_NAMES[differ[0]].format(getattr(own, differ[0]))

    def headline(self, load: Load, setting: Setting) -> str:
        """The title of a workload; in brackets its name, its scale, and what tells the setting from others."""
        told = ", ".join(filter(None, [load.workload, load.scale, self.differing(setting)]))
        return f"{self.plan.workloads[load.workload].title} ({told})"


def open(study: str = "quick") -> Study:
    """A study by its name, from any folder of the checkout: as it was run here, else as it was published in results/.

    A name with a slash is a folder of tables.
    "imported/NAME" is what `reprofs import FORMAT FILES --output data/imported/NAME` made. Raises UserError when it has
    no tables yet.
    """
    imported = study.startswith("imported/")
    folder = place("data") / study if imported else place(study) if "/" in study else place("data/tables") / study
    own, profiles, other = (folder.parent / f"{folder.name}-{name}" for name in ("results", "profiles", "beside"))
    if (folder / IMPORT).is_file():
        return Study(**vars(load_import(folder)), folder=own, profiles=profiles)
    if imported:
        known = sorted(f"imported/{path.parent.name}" for path in folder.parent.glob(f"*/{IMPORT}"))
        have = f"there are {several(known)}" if known else "nothing is imported yet"
        how = f"`uv run reprofs import FORMAT FILE... --output data/{study}`"
        raise UserError(f"There is no import {study} ({have}): run {how} first.")
    if "/" not in study and not (folder / "trials.parquet").is_file() and (kept := published.tables(study)):
        return open(str(kept))
    if not (folder / "trials.parquet").is_file():
        known = sorted(path.parent.name for path in place("data/tables").glob("*/trials.parquet"))
        all_names = sorted({*known, *(path.stem for path in place("config/studies").glob("*.yaml"))})
        if study.partition("@")[0] not in all_names and (near := difflib.get_close_matches(study, all_names, n=1)):
            raise UserError(f"There are no tables of the study {study}: did you mean {near[0]}?")
        have = f"there are those of {several(known)}" if known else "there are none yet"
        raise UserError(f"There are no tables of the study {study} ({have}): run `make report STUDY={study}` first.")
    if "/" not in study:
        own, profiles, other = (place(f"data/{name}") / study for name in ("results", "profiles", "beside"))
    return Study(**vars(load_tables(folder)), folder=own, profiles=profiles, other_run=other)
