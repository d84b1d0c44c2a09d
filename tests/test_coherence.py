"""Models of what clients see of each other: which histories fit, and which do not."""

import itertools
import math

import pandas as pd
import pytest
from helpers import drawn
from reprofs.data.outputs import FINAL
from reprofs.stats import coherence
from reprofs.stats.coherence import MODELS, Event, events, judge


class Told:
    """A history in the making: each call at a time of its own, unless it says when."""

    def __init__(self):
        self.events: list[Event] = []
        self.now = 0.0

    def call(self, client, call, name, result="ok", records=(), other="", start=None, end=None):
        """Adds a call; without start it is after all others."""
        start = self.now + 10 if start is None else start
        end = start + 5 if end is None else end
        self.now = max(self.now, start, end if end < math.inf else 0)
        self.events.append(Event(len(self.events), client, call, name, other, start, end, result, records))

    def create(self, client, name, record, result="ok", fsync="ok"):
        """A create with its first record."""
        self.call(client, "create", name, result)
        if result == "ok":
            self.write(client, name, record, fsync)

    def write(self, client, name, record, fsync="ok", result="ok"):
        """The rest of a session that writes."""
        self.call(client, "write", name, result, (record,))
        self.call(client, "fsync", name, fsync)
        self.call(client, "close", name)

    def look(self, client, name, *records, result="ok"):
        """A session that reads."""
        self.call(client, "open", name, result)
        if result == "ok":
            self.call(client, "read", name, records=None if records == (None,) else records)
            self.call(client, "close", name)

    def append(self, client, name, record, *seen, fsync="ok"):
        """A session that reads and writes."""
        self.call(client, "open", name)
        self.call(client, "read", name, records=seen)
        self.write(client, name, record, fsync)

    def holds(self):
        """Whether it fits posix, close-to-open, none."""
        ordered = sorted(self.events, key=lambda event: event.start)
        return tuple(judge(ordered, model).holds for model in MODELS)


def sequential():
    """One after the other: a file that two clients append to, renamed and removed."""
    told = Told()
    told.create(0, "a", 1)
    told.append(1, "a", 2, 1)
    told.look(2, "a", 1, 2)
    told.call(0, "rename", "a", other="b")
    told.look(1, "a", result="ENOENT")
    told.append(1, "b", 3, 1, 2)
    told.create(2, "b", 0, "EEXIST")
    told.look(FINAL, "b", 1, 2, 3)
    return told


def test_what_happens_one_after_the_other_fits_all():
    assert sequential().holds() == (True, True, True)


def test_a_lost_append_fits_none_but_none():
    told = sequential()
    told.append(0, "b", 4, 1, 2, 3)
    told.look(1, "b", 1, 2, 3)
    assert told.holds() == (False, False, True)
    assert "lacks record 4" in judge(told.events, "close-to-open").why
    assert judge(told.events, "posix").why == "no order of the calls explains read(b) = 1,2,3 by c2 at 0.000 s."


def test_a_read_before_the_close_may_be_old_where_only_the_close_promises():
    told = Told()
    told.create(0, "a", 1)
    told.call(0, "open", "a")
    told.call(0, "read", "a", records=(1,))
    told.call(0, "write", "a", records=(2,))
    told.look(1, "a", 1)
    told.call(0, "fsync", "a")
    told.call(0, "close", "a")
    told.look(1, "a", 1, 2)
    assert told.holds() == (False, True, True)


def test_a_name_that_is_known_too_late_fits_close_to_open():
    told = sequential()
    told.call(0, "unlink", "b")
    told.look(1, "b", 1, 2, 3)
    told.create(2, "c", 9)
    told.look(1, "c", result="ENOENT")
    assert told.holds() == (False, True, True)


@pytest.mark.parametrize(
    "calls", [[("create", "a"), ("create", "a")], [("create", "a"), ("unlink", "a"), ("unlink", "a")]]
)
def test_two_that_made_or_removed_the_same_name_fit_neither(calls):
    told = Told()
    for client, (call, name) in enumerate(calls):
        told.call(client, call, name)
    assert told.holds() == (False, False, True)


def test_what_renames_join_is_judged_together():
    told = Told()
    told.create(0, "a", 1)
    told.call(1, "rename", "a", other="b")
    told.look(2, "a", 1)  # it is b now
    assert told.holds()[0] is False
    told = Told()
    told.create(0, "a", 1)
    told.call(1, "rename", "a", "EIO", other="b")  # it may have happened, at any later time
    told.look(2, "a", 1)
    told.look(2, "b", 1)
    assert told.holds() == (True, True, True)
    told.look(2, "a", 1)  # once it has, it has
    assert told.holds()[0] is False
    assert coherence._joined(told.events) == [{"a", "b"}]


@pytest.mark.parametrize("seen", [(1,), (1, 2)])
def test_what_failed_or_never_returned_may_be_there_or_not(seen):
    told = Told()
    told.create(0, "a", 1)
    told.append(1, "a", 2, 1, fsync="EIO")
    told.look(2, "a", *seen)
    told.look(2, "a", 1)
    told.call(0, "unlink", "a", "", end=math.inf)
    told.look(0, "a", *seen)
    told.look(2, "a", result="ENOENT")
    assert told.holds() == (True, True, True)
    told.look(2, "a", 1)
    assert told.holds()[0] is False


def test_appends_at_once_may_destroy_each_other_where_only_the_close_promises():
    told = Told()
    told.create(0, "a", 1)
    for client in (0, 1):
        told.call(client, "open", "a", start=100 + client, end=103)
        told.call(client, "read", "a", records=(1,), start=110 + client, end=113)
        told.call(client, "write", "a", records=(client + 2,), start=120 + client, end=123)
        told.call(client, "close", "a", start=130 + client, end=133)
    told.look(2, "a", 1, 3)
    assert told.holds() == (False, True, True)


def test_a_hole_or_a_record_that_nobody_has_written_fits_nothing():
    told = sequential()
    told.look(0, "b", 1, 2, 3, 77)
    assert told.holds() == (False, False, False)
    assert "1,2,3,4d by c1" in judge(told.events, "none").why
    told = sequential()
    told.look(0, "b", None)
    assert told.holds() == (False, False, False)


def test_a_read_of_the_future_fits_nothing():
    told = sequential()
    told.look(0, "b", 1, 2, 3, 4)
    told.append(1, "b", 4, 1, 2, 3, 4)
    assert told.holds() == (False, False, False)


def test_an_older_file_under_its_open_descriptor_goes_on():
    told = Told()
    told.create(0, "a", 1)
    told.call(1, "open", "a")
    told.call(0, "unlink", "a")
    told.create(2, "a", 2)
    told.call(1, "read", "a", records=(1,))
    told.call(1, "close", "a")
    told.look(1, "a", 2)
    assert told.holds() == (True, True, True)


# ---- histories of a pure file system that takes effect at one moment, and the same with one answer changed


def simulated(random, calls=24, at_once=True):
    """What three clients do, at once or in turn, on a file system that is right, as rows of the table `calls`."""
    names, content, handle, rows, records = {}, {}, {}, [], iter(range(1, 1000))
    free = dict.fromkeys(range(3), 0)
    todo = {client: [] for client in free}
    for moment in itertools.count(10, 10):
        able = [client for client in free if len(rows) < calls or todo[client]]  # every session is closed in the end
        if not able:
            return pd.DataFrame(rows)
        client = random.choice(able)
        name, other, record = *random.sample("abc", 2), ""
        call = todo[client].pop(0) if todo[client] else random.choice(["create", "open", "append", "rename", "unlink"])
        result = "ok"
        if call in ("read", "write", "fsync", "close"):
            name, file = handle[client]
            if call == "write":
                record = f"{next(records):x}"
                content[file] = [*content[file], record]
            record = ",".join(content[file]) if call == "read" else record
        elif (name in names) == (call == "create"):
            result = "EEXIST" if call == "create" else "ENOENT"
        elif call == "create":
            names[name] = len(content)
            content[names[name]], handle[client] = [], (name, names[name])
            todo[client] = ["write", "fsync", "close"]
        elif call in ("open", "append"):
            handle[client] = name, names[name]
            todo[client] = ["read", *(["write", "fsync"] if call == "append" else []), "close"]
        elif call == "rename":
            names[other] = names.pop(name)
        else:
            names.pop(name)
        call = "open" if call == "append" else call
        start = max(free[client] + 1, moment - random.randint(1, 40)) if at_once else moment
        end = moment + random.randint(1, 9)
        free[client] = end
        row = {"client": client, "call": call, "name": name, "other": other if call == "rename" else ""}
        rows.append(row | {"start_ns": start, "wall_ns": end - start, "result": result, "records": record})
    raise AssertionError("it never ends")


def test_no_history_of_a_right_file_system_is_called_wrong():
    random = drawn()
    for _ in range(25):
        calls = simulated(random)
        for model in MODELS:
            assert judge(events(calls), model).holds, (model, calls.to_dict("records"))


def test_a_changed_answer_is_found_where_it_matters():
    """A stale read of a file that was flushed and closed long before, planted in a history that is right."""
    random, found = drawn(), 0
    for _ in range(30):
        calls = simulated(random, 40, at_once=False)  # each answer is the only right one
        reads = calls.index[(calls["call"] == "read") & calls["records"].str.contains(",")]
        for at in reads[:1]:
            calls.loc[at, "records"] = calls.loc[at, "records"].rpartition(",")[0]
            assert judge(events(calls), "posix").holds is False
            found += 1
    assert found
