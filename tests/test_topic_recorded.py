"""The report's topic on recorded programs: whole replays, where they differ, single calls, and what ranks nothing."""

import json

import numpy as np
import pandas as pd
import pytest
import run
from helpers import CATALOG
from reprofs.data.keys import select
from reprofs.plan.device import Device
from reprofs.report.marks import escaped
from reprofs.report.topics import answer, operations
from reprofs.report.topics import recorded as topic
from reprofs.stats import recorded, results
from test_topics_series import made, rows_of, shown

MS = 10**6
# Of a cold replay: kind, time of all calls on ext4 and on XFS, calls. On tmpfs as on ext4, a tenth of it.
CALLS = [("open", 4 * MS, 6 * MS, 10), ("fsync", 30 * MS, 10 * MS, 5), ("final-sync", MS, 2 * MS, 1)]
KINDS = {"open": "open, 10 calls", "fsync": "fsync, 5 calls", "final-sync": "Flush what is not yet on the device"}
HEAD = {"format": 1, "title": "A program", "filesystem": "ext4", "kernel": "6.12", "threads": 3, "before": 1}
HEAD |= {"calls": 15, "after": 2, "names": 3, "bytes": 100, "handles": 2, "outside": 7, "left_out": {"ioctl": 5}}


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
    made(folder, replayed(), rounds=4, systems=["ext4", "xfs", "tmpfs"])
    return folder


@pytest.fixture(scope="module")
def study(folder):
    return run.open_study(str(folder / "tables"))


def test_a_replay_is_the_sum_of_its_calls_cold_and_warm_for_itself(study):
    found = topic.compared(study)
    cold, warm = (select(found.statistics, label="ext4", cache=cache).iloc[0] for cache in ("cold", "warm"))
    expected = 35 * MS * np.exp(np.log([1.001, 1.002, 1.003, 1.004]).mean())
    assert cold["geometric_mean_ns"] == pytest.approx(expected, rel=1e-6)
    assert warm["geometric_mean_ns"] == pytest.approx(expected / 2, rel=1e-6)
    (row,) = select(found.winners, cache="cold").itertuples()
    assert (row.best, row.verdict, row.runner_up) == ("xfs", "fastest", "ext4")
    assert row.ratio == pytest.approx(35 / 18, rel=1e-6)


def test_the_table_has_time_ratio_devices_and_space(study):
    found = topic.compared(study)
    ((setting, load),) = topic.places(study, found)
    xfs, ext4, tmpfs = topic.totals(study, found, setting, load, "cold").rows
    assert [row["File system"] for row in (xfs, ext4, tmpfs)] == ["**xfs**", "ext4", "tmpfs"]
    assert ext4["Ratio to the best"].startswith("1.94 (") and xfs["Ratio to the best"] == "1"
    assert [ext4[key] for key in ("Read", "Written", "Flushes", "Space")] == ["8 KiB", "1 MiB", "4", "3 MiB"]
    assert tmpfs["Written"] == "\N{EN DASH}"
    assert "Verdict: **xfs** fastest" in escaped(topic.totals(study, found, setting, load, "cold").caption)
    table = topic.totals(study, found, setting, load, "warm")
    assert "Read" not in table.rows[0] and topic.WHAT in table.caption and "Not ranked: tmpfs" in table.caption


def test_kinds_that_take_little_are_in_the_whole_and_not_compared(study, monkeypatch):
    """The last flush takes 1 of 35 ms on ext4 and 2 of 18 on XFS; opening 4 and 6."""
    ((setting, load),) = topic.places(study, topic.compared(study))
    found = []
    for minor in (0.11, 0.12):
        monkeypatch.setattr(recorded, "MINOR", minor)
        found.append(results.compute(study))
    before, after = found
    assert set(before.statistics["phase"]) - set(after.statistics["phase"]) == {"final-sync"}
    assert len(after.winners) == 4 and len(before.winners) == 6
    assert before.totals.equals(after.totals)
    (figure,) = operations.intervals(study, setting, load)
    assert figure.alt.startswith("6 panels") and "less than 1 % of the time on every file system" in figure.caption


def test_several_programs_have_an_overview(study, folder):
    found = topic.compared(study)
    assert topic.overview(study, found) == [] and "replays, with cold" not in shown(folder, "recorded")
    assert topic.fastest(found) == {"replays": 2, "systems": [("xfs", 2)], "open": 0}
    more = (found.statistics, found.pairwise, found.winners.assign(verdict="undecided", level=[("ext4",)] * 2))
    more = [pd.concat([frame, frame.assign(scale="laptop")]) for frame in more]
    found = recorded.Compared(*more)
    (table,) = topic.overview(study, found)
    assert topic.fastest(found) == {"replays": 4, "systems": [], "open": 4}
    assert table.rows[0] == {
        "Program": "Life of a directory tree",
        "Caches": "cold",
        "Least time": "18.0 ms",
        "xfs": "**1**",
        "ext4": "**1.94**",
    }


def test_differences_of_all_kinds_add_up(study):
    found = topic.compared(study)
    ((setting, load),) = topic.places(study, found)
    (row,) = topic.differences(study, found, setting, load, "cold").rows
    assert list(row) == ["File system", "More, ms", "fsync", "open", "last flush"]
    assert row["File system"] == "ext4" and row["More, ms"] == "+17.0"
    assert (row["fsync"], row["open"], row["last flush"]) == ("+20.1", "\N{MINUS SIGN}2.00", "\N{MINUS SIGN}1.00")


def test_single_calls_have_median_and_longest(study):
    ((setting, load),) = topic.places(study, topic.compared(study))
    rows = {row["File system"]: row for row in topic.single(study, setting, load, "cold").rows}
    # 4 calls of 15 ms together and one of 15 ms, 0.1 to 0.4 % more in the rounds; half of all calls are the short ones.
    assert rows["ext4"]["fsync: median"] == "3.76 ms" and rows["ext4"]["longest"] == "15.1 ms"
    assert rows["ext4"]["Longest other calls"] == "open 2.01 ms"


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
    text = shown(folder, "recorded")
    assert "The time of the file-system calls of your program, all of them together:" in text
    assert "with cold caches it is shortest on **xfs** with 18.0 ms; the next, ext4, takes 1.94 (" in text
    assert "(most of what ext4 takes longer is fsync)" in text
    assert "Recorded on ext4, Linux 6.12: 3 threads made 20 calls below the recorded folders, and 7 calls" in text
    assert "Five calls below them are left out (ioctl 5): 75.0 % are replayed." in text
    assert "No verdict" not in text and "if these disks rotate" not in text


@pytest.mark.parametrize(
    ("rotating", "listed", "follows", "verdict"),
    [(True, True, False, False), (True, True, True, False), (True, False, False, True), (False, True, False, True)],
)
def test_visits_as_another_system_lists_rank_nothing_on_a_rotating_disk(tmp_path, rotating, listed, follows, verdict):
    study = made(tmp_path, replayed(rotating, in_listing_order=listed, follows_listings=follows), rounds=2)
    cold = [("cold", kind) for kind in KINDS] * verdict
    operations = set(zip(study.results.winners["cache"], study.results.winners["phase"], strict=True))
    assert operations == {*cold, *(("warm", kind) for kind in KINDS)}
    (setting,) = study.settings
    assert bool(answer.costs(study, setting)) == verdict
    found = topic.compared(study)
    assert set(found.winners["cache"]) == {"warm", *(["cold"] * verdict)}
    assert set(found.statistics["cache"]) == {"cold", "warm"}  # times are told in any case
    if not verdict:
        text = shown(tmp_path, "recorded") + shown(tmp_path, "answer")
        assert "**No verdict with cold caches.**" in text and "with cold caches there is no verdict" in text
        assert ("a program would follow that" in text, "the replay follows that" in text) == (not follows, follows)
        assert ("on a rotating disk that decides" in text, "depends on the moment" in text) == (not follows, follows)
        assert "no total, for its cold calls have no verdict on a rotating disk" in text


def test_a_real_disk_may_rotate(tmp_path):
    def change(data: dict) -> None:
        replayed(in_listing_order=True)(data)
        if "measurement" not in data:
            (profile,) = data["devices"]
            data["devices"][profile] = {**data["devices"][profile], "backing": "file"}

    made(tmp_path, change, rounds=2)
    assert "if these disks rotate, the times with cold caches rank nothing" in shown(tmp_path, "recorded")


def test_several_at_once_have_no_sum(tmp_path):
    def change(data: dict) -> None:
        replayed(clients=2)(data)
        for phase in data["measurement"]["phases"] if "measurement" in data else []:
            phase["samples"] = [one | {"client": client} for one in phase["samples"] for client in (0, 1)]

    study = made(tmp_path, change, rounds=2)
    assert topic.places(study, topic.compared(study)) == []
    text = shown(tmp_path, "recorded")
    assert "No replay" in text and "makes the calls several times at once" in text
