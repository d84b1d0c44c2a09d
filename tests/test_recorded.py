"""Recorded programs: whole replays, where they differ, single calls, and what ranks nothing."""

import json

import numpy as np
import pandas as pd
import pytest
import run
from helpers import CATALOG
from reprofs.data.keys import select
from reprofs.plan.device import Device
from reprofs.stats import recorded, results

MS = 10**6
# Of a cold replay: kind, time of all calls on ext4 and on XFS, calls. On tmpfs as on ext4, a tenth of it.
CALLS = [("open", 4 * MS, 6 * MS, 10), ("fsync", 30 * MS, 10 * MS, 5), ("final-sync", MS, 2 * MS, 1)]
KINDS = {"open": "open, 10 calls", "fsync": "fsync, 5 calls", "final-sync": "Flush what is not yet on the device"}
HEAD = {"format": 1, "title": "A program", "filesystem": "ext4", "kernel": "6.12", "threads": 3, "before": 1}
HEAD |= {"calls": 15, "after": 2, "names": 3, "bytes": 100, "handles": 2, "outside": 7, "left_out": {"ioctl": 5}}


def rows_of(samples: list[dict]) -> list[dict]:
    """Samples as a record has them."""
    return [{"bytes": 0} | row for row in samples]


def replayed(rotating: bool = False, clients: int = 1, **head):
    """A change of plan and records: the first two phases are the replays of a recording, cold and warm."""

    def change(data: dict) -> None:
        if "measurement" not in data:
            entry = data["workloads"]["metadata"]
            first = entry["phases"][:2]
            for phase, cache in zip(first, ("cold", "warm"), strict=True):
                phase.pop("operation")
                phase |= {"name": cache, "cache": cache, "title": f"Make the calls, caches {cache}", "items": "one"}
                phase |= {"run": f"engine replay {cache}", "samples": KINDS}
            entry |= {"phases": first, "recording": HEAD | head, "clients": clients}
            if rotating:
                (profile,) = data["devices"]
                data["devices"][profile] = json.loads(json.dumps(CATALOG.get(Device, "hdd-7200").as_json()))
            return
        trial = data["trial"]
        phases = data["measurement"]["phases"][:2]
        for phase, cache in zip(phases, ("cold", "warm"), strict=True):
            factor = {"cold": 1, "warm": 0.5}[cache] * (0.1 if trial["filesystem"] == "tmpfs" else 1)
            factor *= 1 + 0.001 * trial["round"]
            samples, start = [], 0
            for kind, ext4, xfs, calls in CALLS:
                wall = round((xfs if trial["filesystem"] == "xfs" else ext4) * factor)
                # The last call takes half of the time.
                parts = [(wall, 1)] if calls == 1 else [(wall // 2, calls - 1), (wall - wall // 2, 1)]
                for part, items in parts:
                    samples.append({"name": kind, "start_ns": start, "wall_ns": part, "items": items})
                    start += part
            phase |= {"name": cache, "cache": cache, "operation": "exec", "argv": ["engine", "replay"], "latency": None}
            phase |= {"samples": rows_of(samples), "wall_ns": start + MS}
            if trial["filesystem"] != "tmpfs":
                cold = {"method": "m", "read_bytes": 4096, "proved": True, "why": "w"} if cache == "cold" else None
                phase["device"] |= {"read_bytes": 8192, "written_bytes": 2**20, "flushes": 4}
                phase |= {"used_bytes": 2**25 - 2**24 + 3 * 2**20, "cold": cold}
            else:
                phase["cold"] = phase["cold"] or {"method": "m", "read_bytes": 0, "proved": None, "why": "w"}
                phase["cold"] = phase["cold"] if cache == "cold" else None
        data["measurement"]["phases"] = phases

    return change


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recorded")
    run.made(folder, replayed(), rounds=4, systems=["ext4", "xfs", "tmpfs"])
    return folder


@pytest.fixture(scope="module")
def study(folder):
    return run.open_study(str(folder / "tables"))


@pytest.fixture(scope="module")
def found(study):
    return recorded.compared(study, **study.margins)


def test_a_replay_is_the_sum_of_its_calls_cold_and_warm_for_itself(found):
    cold, warm = (select(found.statistics, label="ext4", cache=cache).iloc[0] for cache in ("cold", "warm"))
    expected = 35 * MS * np.exp(np.log([1.001, 1.002, 1.003, 1.004]).mean())
    assert cold["geometric_mean_ns"] == pytest.approx(expected, rel=1e-6)
    assert warm["geometric_mean_ns"] == pytest.approx(expected / 2, rel=1e-6)
    (row,) = select(found.winners, cache="cold").itertuples()
    assert (row.best, row.verdict, row.runner_up) == ("xfs", "fastest", "ext4")
    assert row.ratio == pytest.approx(35 / 18, rel=1e-6)


def test_kinds_that_take_little_are_in_the_whole_and_not_compared(study, monkeypatch):
    """The last flush takes 1 of 35 ms on ext4 and 2 of 18 on XFS; opening 4 and 6."""
    found = []
    for minor in (0.11, 0.12):
        monkeypatch.setattr(recorded, "MINOR", minor)
        found.append(results.compute(study))
    before, after = found
    assert set(before.statistics["phase"]) - set(after.statistics["phase"]) == {"final-sync"}
    assert len(after.winners) == 4 and len(before.winners) == 6
    assert before.totals.equals(after.totals)


def test_times_of_all_kinds_add_up(study):
    own = recorded.replays(study)
    kinds = recorded.by_kind(own[own["cache"] == "cold"]) / MS
    np.testing.assert_allclose(kinds.loc["ext4"], np.array([4, 30, 1]) * 1.0025)
    np.testing.assert_allclose(kinds.loc["xfs"], np.array([6, 10, 2]) * 1.0025)


def test_latencies_are_those_of_all_rounds_together():
    samples = pd.DataFrame(
        {
            "label": "ext4",
            "name": "fsync",
            "round": [1, 1, 2],
            "items": [97, 1, 2],
            "wall_ns": [9700, 5000, 400],
        }
    )
    (row,) = recorded.latencies(samples).itertuples(index=False)
    assert list(row) == ["ext4", "fsync", 50, 100.0, 200.0, 5000.0]


def test_the_report_says_where_the_time_goes_and_what_is_left_out(folder):
    text = run.shown(folder, "recorded")
    assert "Life of a directory tree, cold: **xfs is fastest** with 18.0 ms; the next, ext4, takes 94 % longer." in text
    assert "ext4 takes 17.0 ms longer than xfs, most in fsync (+20.1 ms)." in text
    assert "75.0 % of its calls below the recorded folders are replayed; left out: ioctl 5." in text
    assert "**1**" in text and "1.94" in text and "no verdict" not in text and "if the disks rotate" not in text


@pytest.mark.parametrize(
    ("rotating", "listed", "follows", "verdict"),
    [(True, True, False, False), (True, True, True, False), (True, False, False, True), (False, True, False, True)],
)
def test_visits_as_another_system_lists_rank_nothing_on_a_rotating_disk(tmp_path, rotating, listed, follows, verdict):
    study = run.made(tmp_path, replayed(rotating, in_listing_order=listed, follows_listings=follows), rounds=2)
    cold = [("cold", kind) for kind in KINDS] * verdict
    operations = set(zip(study.results.winners["cache"], study.results.winners["phase"], strict=True))
    assert operations == {*cold, *(("warm", kind) for kind in KINDS)}
    found = recorded.compared(study, **study.margins)
    assert set(found.winners["cache"]) == {"warm", *(["cold"] * verdict)}
    assert set(found.statistics["cache"]) == {"cold", "warm"}  # times are told in any case
    if not verdict:
        text = run.shown(tmp_path, "recorded")
        assert "no verdict with cold caches, because the program visits files in the order of their listing" in text
        assert ("lists in another order" in text, "depend on the moment" in text) == (not follows, follows)


def test_several_at_once_have_no_sum(tmp_path):
    def change(data: dict) -> None:
        replayed(clients=2)(data)
        for phase in data["measurement"]["phases"] if "measurement" in data else []:
            phase["samples"] = [one | {"client": client} for one in phase["samples"] for client in (0, 1)]

    study = run.made(tmp_path, change, rounds=2)
    assert recorded.compared(study).statistics.empty
    assert "makes its calls several times at once" in run.shown(tmp_path, "recorded")
