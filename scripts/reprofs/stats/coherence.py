"""Whether what clients saw of each other is what a file system says: histories of the table `calls`, by its model.

posix: every call takes effect at one moment between its begin and its return, as on one host (linearizability; names
that no rename joins are judged apart, since linearizability is local: Herlihy and Wing, TOPLAS 12, 1990).

close-to-open (nfs(5)): who opens a file and reads it sees every record that was closed before, unless another wrote
into the file meanwhile. Names may be known too late; but the creates, renames and removals that succeeded have one
order, since the server makes them.

none: nothing is read that nobody has written.

A call that returned an error other than EEXIST and ENOENT, or did not return, may have taken effect at any later time,
or not at all. Of a record whose write, fsync or close did so nothing is known: whether it is seen decides nothing.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import pandas as pd

from reprofs.data.outputs import FINAL
from reprofs.stats.linearizability import Answer, Call, linearizable

if TYPE_CHECKING:
    from reprofs.stats.study import Study

DEFINITE = ("ok", "EEXIST", "ENOENT")  # results of a call that say whether it took effect
CHANGES = ("create", "rename", "unlink")
MODELS = ("posix", "close-to-open", "none")
NOTHING = "nothing"  # of a schedule in which no node is lost


class Event(NamedTuple):
    """A call as the table has it. end: infinite if it did not return; records: those written or read, None if a read
    returned anything else; number: its row.
    """

    number: int
    client: int
    call: str
    name: str
    other: str
    start: float
    end: float
    result: str
    records: tuple[int, ...] | None

    @property
    def ok(self) -> bool:
        """Whether it succeeded."""
        return self.result == "ok"


class Verdict(NamedTuple):
    """holds: None if undecided; why: one sentence about the first call that does not fit."""

    holds: bool | None
    why: str = ""


def events(calls: pd.DataFrame) -> list[Event]:
    """The rows of the table `calls` of one trial, in the order in which they began."""
    found = []
    for number, row in enumerate(calls.sort_values(["start_ns", "client"]).itertuples(index=False)):
        took = math.inf if pd.isna(row.wall_ns) else float(row.wall_ns)
        records = None if row.records == "!" else tuple(int(word, 16) for word in row.records.split(",") if word)
        result = "" if pd.isna(row.result) else row.result
        found.append(
            Event(
                number,
                int(row.client),
                row.call,
                row.name,
                row.other,
                row.start_ns,
                row.start_ns + took,
                result,
                records,
            )
        )
    return found


def judge(history: Sequence[Event], model: str) -> Verdict:
    """Whether a history fits a model, one of MODELS."""
    sessions = _sessions(history)
    doubtful = _doubtful(sessions)
    writers = [one for one in sessions if one.writes]
    at_once = any(_disturbs(one, other, doubtful) for one, other in itertools.combinations(writers, 2))
    if odd := _from_nowhere(history, bool(doubtful) or (model != "posix" and at_once)):
        return Verdict(False, f"{told(odd)} returned what nobody had written.")
    if model == "posix":
        return _posix(history, doubtful)
    return _close_to_open(history, sessions, doubtful) if model == "close-to-open" else Verdict(True)


def schedules(study: Study) -> pd.DataFrame:
    """A row for each trial whose calls are recorded: what was lost, and whether they fit the file system's model.

    Columns: trial, label, fault (what was lost, or nothing), nodes, after_s, calls, errors (calls that failed otherwise
    than by EEXIST or ENOENT, or did not return), model, holds (None: undecided), why; posix and close_to_open (whether
    they fit these).
    """
    lost = study.phases.set_index(["trial", "phase"])[["outage_what", "outage_nodes", "outage_after_ns"]]
    rows = []
    for (trial, phase), calls in study.calls.groupby(["trial", "phase"], sort=True, observed=True):
        what, nodes, after = lost.loc[(trial, phase)]
        own, first = events(calls), calls.iloc[0]
        declared = study.plan.filesystems[first["filesystem"]].coherence
        model = declared.model if declared else "posix"
        strict = judge(own, "posix")
        verdict = strict if model == "posix" else judge(own, model)
        row = {"trial": trial, "label": first["label"], "workload": first["workload"], "round": first["round"]}
        row |= {"fault": NOTHING if pd.isna(what) else what, "nodes": "" if pd.isna(nodes) else nodes}
        row |= {"after_s": math.nan if pd.isna(after) else after / 1e9, "calls": len(own)}
        row |= {"errors": sum(event.result not in DEFINITE for event in own), "model": model}
        row |= {"holds": verdict.holds, "why": verdict.why, "posix": strict.holds}
        rows.append(row | {"close_to_open": judge(own, "close-to-open").holds})
    names = ["trial", "label", "workload", "round", "fault", "nodes", "after_s", "calls", "errors", "model"]
    return pd.DataFrame(rows, columns=[*names, "holds", "why", "posix", "close_to_open"])


# ---- what the calls of a history are about


class Session(NamedTuple):
    """What a client did from an open (or create) to its close. file: the record with which the file was created, if
    that is the first that it read or wrote; else it is unknown which file it was.
    """

    first: Event
    read: Event | None
    writes: list[Event]
    rest: list[Event]  # its fsync and close
    file: int | None

    @property
    def end(self) -> float:
        """When its last call returned."""
        return max([event.end for event in (self.first, *self.writes, *self.rest)])


def _sessions(history: Iterable[Event]) -> list[Session]:
    current: dict[int, list[Event]] = {}
    groups: list[list[Event]] = []
    for event in history:
        if event.call in ("open", "create") and event.ok:
            current[event.client] = [event]
            groups.append(current[event.client])
        elif event.call in ("read", "write", "fsync", "close") and event.client in current:
            current[event.client].append(event)
    found = [_session(group) for group in groups]
    births = {one.file for one in found if one.first.call == "create"} - _doubtful(found)
    return [one if one.file in births else one._replace(file=None) for one in found]


def _session(group: list[Event]) -> Session:
    read = next((event for event in group if event.call == "read" and event.ok), None)
    writes = [event for event in group if event.call == "write"]
    known = writes[0].records if group[0].call == "create" and writes else read.records if read else None
    rest = [event for event in group if event.call in ("fsync", "close")]
    return Session(group[0], read, writes, rest, known[0] if known else None)


def _doubtful(sessions: Iterable[Session]) -> set[int]:
    """Records of which nothing is known: the write, or the fsync or close after it, did not succeed."""
    found: set[int] = set()
    for one in sessions:
        closed = any(event.call == "close" for event in one.rest)
        if one.writes and not (closed and all(event.ok for event in (*one.writes, *one.rest))):
            found.update(record for event in one.writes for record in event.records or ())
    return found


def _from_nowhere(history: Iterable[Event], doubts: bool) -> Event | None:
    """The first read with a record that was not being written yet, or with anything that is no record.

    doubts: parts of records may be left of writes that failed, and holes between those of clients that wrote at once.
    """
    began = {record: event.start for event in history if event.call == "write" for record in event.records or ()}
    for event in history:
        if event.call != "read" or not event.ok:
            continue
        if event.records is None and not doubts:
            return event
        if any(began.get(record, math.inf) > event.end for record in event.records or ()):
            return event
    return None


# ---- posix


def _posix(history: Sequence[Event], doubtful: set[int]) -> Verdict:
    undecided = False
    for names in _joined(history):
        own = [event for event in history if event.name in names]
        calls = [_call(event, doubtful) for event in own]
        kept = [(call, event) for call, event in zip(calls, own, strict=True) if call]
        answer: Answer = linearizable([call for call, _ in kept], EMPTY, posix_step)
        if answer.number is not None:
            return Verdict(False, f"no order of the calls explains {told(kept[answer.number][1])}.")
        undecided = undecided or answer.linearizable is None
    return Verdict(None, "there are too many orders to try.") if undecided else Verdict(True)


def _joined(history: Iterable[Event]) -> list[set[str]]:
    """The names in groups: a rename that took effect, or may have, joins two."""
    groups: dict[str, set[str]] = {}
    for event in history:
        group = groups.setdefault(event.name, {event.name})
        if event.call != "rename" or event.result in ("EEXIST", "ENOENT"):
            continue
        both = group | groups.get(event.other, {event.other})
        groups.update(dict.fromkeys(both, both))
    return [group for name, group in groups.items() if name == min(group)]


class _Did(NamedTuple):
    """What a call did, for `posix_step`. file: the number of a file that it makes."""

    call: str
    client: int
    name: str
    other: str
    result: str
    records: tuple[int, ...]
    file: int


def _call(event: Event, doubtful: set[int]) -> Call | None:
    """A call as the search takes it; None if it changes nothing and says nothing."""
    definite = event.result in DEFINITE
    if event.call in ("fsync", "close") or (event.call not in CHANGES and not definite):
        return None
    if event.call in ("read", "write") and (event.records is None or not event.ok):
        return None
    if event.call == "write" and doubtful.intersection(event.records or ()):
        return None
    records = tuple(record for record in event.records or () if record not in doubtful)
    did = _Did(event.call, event.client, event.name, event.other, event.result, records, event.number)
    return Call(event.start, event.end if definite else math.inf, did)


class Tree(NamedTuple):
    """names: of files; handles: the file that a client has open; content: the records of every file that one of these
    leads to.
    """

    names: frozenset[tuple[str, int]] = frozenset()
    handles: frozenset[tuple[int, int]] = frozenset()
    content: frozenset[tuple[int, tuple[int, ...]]] = frozenset()


EMPTY = Tree()


def posix_step(tree: Tree, did: _Did) -> Tree | None:
    """The state after a call, or None if it cannot have that result."""
    names, handles, content = dict(tree.names), dict(tree.handles), dict(tree.content)
    there = did.name in names
    if did.call == "create":
        if there != (did.result == "EEXIST"):
            return None
        if there:
            return tree
        names[did.name], content[did.file] = did.file, ()
        if did.result == "ok":
            handles[did.client] = did.file
    elif did.call in ("read", "write"):
        file = handles.get(did.client)
        if file is None:  # its open is in no order yet
            return None
        if did.call == "read":
            return tree if content[file] == did.records else None
        content[file] += did.records
    elif there == (did.result == "ENOENT"):
        return None
    elif not there:
        return tree
    elif did.call == "open":
        handles[did.client] = names[did.name]
    else:
        file = names.pop(did.name)
        if did.call == "rename":
            names[did.other] = file
    used = {*names.values(), *handles.values()}
    kept = ((file, records) for file, records in content.items() if file in used)
    return Tree(frozenset(names.items()), frozenset(handles.items()), frozenset(kept))


# ---- close-to-open

NO_NAMES: frozenset[str] = frozenset()


def _close_to_open(history: Sequence[Event], sessions: Sequence[Session], doubtful: set[int]) -> Verdict:
    if missed := _missed(sessions, doubtful):
        record, writer, reader = missed
        written = told(writer.writes[0])
        return Verdict(False, f"{told(reader)} lacks record {record:x} of {written}, which was closed before the open.")
    undecided = False
    for names in _joined(history):
        own = [event for event in history if event.name in names and event.call in CHANGES]
        # What failed says nothing: its name may have been known too late. But it may have been done.
        calls = [Call(e.start, e.end if e.ok else math.inf, (e.call, e.name, e.other)) for e in own]
        answer: Answer = linearizable(calls, NO_NAMES, names_step)
        if answer.number is not None:
            return Verdict(False, f"no order of the successful changes of names has {told(own[answer.number])}.")
        undecided = undecided or answer.linearizable is None
    return Verdict(None, "there are too many orders to try.") if undecided else Verdict(True)


def names_step(there: frozenset[str], did: tuple[str, str, str]) -> frozenset[str] | None:
    """The names after a change that took effect, or None if it cannot."""
    call, name, other = did
    if (call == "create") == (name in there):
        return None
    if call == "create":
        return there | {name}
    return there - {name} | ({other} if call == "rename" else set())


def _missed(sessions: Sequence[Session], doubtful: set[int]) -> tuple[int, Session, Event] | None:
    """A record that a later opener did not see, who wrote it, and the read; None if there is none."""
    writers = [one for one in sessions if one.writes]
    for writer in writers:
        records = {record for event in writer.writes for record in event.records or ()} - doubtful
        if writer.file is None or not records or any(_disturbs(one, writer, doubtful) for one in writers):
            continue
        for reader in sessions:
            if not reader.read or reader.file != writer.file or writer.end >= reader.first.start:
                continue
            if missing := records.difference(reader.read.records or ()):
                return min(missing), writer, reader.read
    return None


def _disturbs(one: Session, writer: Session, doubtful: set[int]) -> bool:
    """Whether another session may have written over what this one wrote: it overlaps, or nobody knows when it ends."""
    if one is writer or (one.file is not None and one.file != writer.file):
        return False
    unknown = any(record in doubtful for event in one.writes for record in event.records or ())
    end = math.inf if unknown else one.end
    return one.first.start <= writer.end and writer.first.start <= end


# ---- words


def told(event: Event) -> str:
    """A call in words: `read(b) = 1000,2000 by c2 at 12.345 s`; c1 is the host of the first client."""
    who = f"c{event.client % FINAL + 1}{' through a new mount' if event.client >= FINAL else ''}"
    inside = f"{event.name}, {event.other}" if event.call == "rename" else event.name
    what = ",".join(f"{record:x}" for record in event.records or ()) if event.call in ("read", "write") else ""
    result = event.result if not event.ok or event.call not in ("read", "write") else what or "nothing"
    return f"{event.call}({inside}) = {result or 'no return'} by {who} at {event.start / 1e9:.3f} s"
