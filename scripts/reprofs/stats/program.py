"""A program that was recorded and replayed: on what its answer rests, as numbers."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import NamedTuple

import pandas as pd

from reprofs.plan.recording import Recording
from reprofs.stats import recorded
from reprofs.stats.compare import ratio
from reprofs.stats.results import caution
from reprofs.stats.study import Study

READS = frozenset(("read", "pread", "map", "list", "readlink", "send", "copy"))  # after which a time of access is set
CACHES = ("cold", "warm")


class Native(NamedTuple):
    """A program on this machine. elapsed_ns: of one run; calls_ns: of a replay of its file-system calls, one after the
    other, caches warm, without a flush in the end; elsewhere: what it wrote in other folders, a clause; cpu_ns: of
    processors in that run, which other load hardly changes, 0 if not known."""

    elapsed_ns: int
    calls_ns: int
    elsewhere: str = ""
    cpu_ns: int = 0


@dataclass(frozen=True)
class Answered:
    """What an answer is made of. study: of the replays; unshared: how often the program asked in vain to share blocks;
    more: on one device the fastest file system with and without noatime, None if that was not measured."""

    name: str
    study: Study
    head: Recording
    native: Native | None
    more: Study | None = None
    unshared: int = 0


class Row(NamedTuple):
    """The replays with one device and cache state. verdict: as in `compare.winners`, empty where nothing is ranked;
    level: those that are not slower than best, without it; ratios: label -> of its time to that of best."""

    device: str
    cache: str
    best: str
    ns: float
    verdict: str
    level: tuple[str, ...]
    ratios: dict[str, float]


class Change(NamedTuple):
    """What something else in the place of what was replayed takes, as a share of its time, with its interval."""

    what: str
    label: str
    device: str
    cache: str
    ratio: float
    low: float
    high: float


def compared(study: Study) -> recorded.Compared:
    """`recorded.compared` with the margins of the study."""
    return recorded.compared(study, **study.margins, caution=caution(study))


def rows(study: Study) -> list[Row]:
    """The ranking: cold and warm on each device, in the order of the study; without replays that did not complete."""
    found, made = compared(study), []
    for device in study.plan.study.profiles or []:
        for cache in CACHES:
            own = found.statistics[(found.statistics["profile"] == device) & (found.statistics["cache"] == cache)]
            own = own.sort_values("geometric_mean_ns")
            if own.empty:
                continue
            won = found.winners[(found.winners["profile"] == device) & (found.winners["cache"] == cache)]
            first = own.iloc[0]
            ratios = dict(zip(own["label"], own["geometric_mean_ns"] / first["geometric_mean_ns"], strict=True))
            verdict, level = (won.iloc[0]["verdict"], tuple(won.iloc[0]["level"] or ())) if len(won) else ("", ())
            made.append(Row(device, cache, first["label"], first["geometric_mean_ns"], verdict, level, ratios))
    return made


def best(study: Study, device: str) -> str:
    """The file system with the least time on a device, caches warm; empty when none completed."""
    return next((row.best for row in rows(study) if (row.device, row.cache) == (device, "warm")), "")


def typical(study: Study) -> str:
    """The device that sentences are about, and on which noatime is tried: the second, if there are several."""
    names = study.plan.study.profiles or []
    return names[min(1, len(names) - 1)]


def reads(study: Study) -> bool:
    """Whether the program reads files or lists folders."""
    return not READS.isdisjoint(recorded.replays(study)["phase"])


def makes(study: Study, kind: str) -> bool:
    """Whether the program makes calls of this kind."""
    return bool(recorded.replays(study)["phase"].eq(kind).any())


def widest(found: list[Row]) -> dict[str, float]:
    """Device -> the largest difference between the fastest and the slowest there, cold or warm, ns.

    Only where there are two or more.
    """
    differences: dict[str, float] = {}
    for row in (one for one in found if len(one.ratios) > 1):
        own = row.ns * (max(row.ratios.values()) - 1)
        differences[row.device] = max(own, differences.get(row.device, 0.0))
    return differences


def kinds(study: Study, device: str, cache: str) -> pd.DataFrame:
    """`recorded.by_kind` of a device and cache state."""
    own = recorded.replays(study)
    return recorded.by_kind(own[(own["profile"] == device) & (own["cache"] == cache)])


def traffic(study: Study, device: str, label: str) -> dict[str, float]:
    """What reaches a device in a replay with cold caches, mean of the repetitions: read and written bytes, flushes."""
    own = recorded.replays(study)
    own = own[(own["profile"] == device) & (own["label"] == label) & (own["cache"] == "cold")].drop_duplicates("trial")
    names = {"read": "whole_read_bytes", "written": "whole_written_bytes", "flushes": "whole_flushes"}
    return {name: float(own[column].mean()) for name, column in names.items()}


def devices(study: Study) -> list[Change]:
    """Each device in the place of the one before, on the file system that is fastest on that, caches warm."""
    names, sums = study.plan.study.profiles or [], _sums(study)
    found = []
    for before, after in itertools.pairwise(names):
        try:
            label = best(study, before)
            found.append(_change(sums, after, label, after, "warm", (before, label)))
        except KeyError:  # it did not complete there
            continue
    return found


def noatime(more: Study) -> list[Change]:
    """noatime in the place of the usual option, cold and warm; nothing where it did not complete."""
    sums, names = _sums(more), more.plan.study.filesystems or []
    (device,) = more.plan.study.profiles or [""]
    known = set(sums.index.get_level_values("label"))
    found = []
    for cache in CACHES if len(known) == len(names) else ():
        other = next(label for label in known if label.endswith("noatime"))
        (label,) = known - {other}
        found.append(_change(sums, "noatime", other, device, cache, (device, label))._replace(label=label))
    return found


def _sums(study: Study) -> pd.Series:
    own = recorded.replays(study).astype({"wall_ns": float})
    return own.groupby(["profile", "label", "cache", "round"])["wall_ns"].sum()


def _change(sums: pd.Series, what: str, label: str, device: str, cache: str, than: tuple[str, str]) -> Change:
    """Raises KeyError where one of both has no result."""
    pair = pd.concat([sums.loc[device, label, cache], sums.loc[*than, cache]], axis=1, join="inner").to_numpy(float)
    return Change(what, label, device, cache, **ratio(pair[:, 0], pair[:, 1]))
