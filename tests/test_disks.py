"""Modelled disks: the profiles, the closed forms against hand-made cases and a simulation, and what fio measures of
them in the guest.
"""

import copy
import re

import numpy
import pytest
from helpers import catalog_with, cell
from reprofs.errors import UserError
from reprofs.importers import fio
from reprofs.plan.catalog import Catalog
from reprofs.plan.device import Device, Rotating, Solid
from reprofs.plan.disk import ACCESSES, CLOSED, SIMULATION, Access, expected, hides_software, simulate
from reprofs.plan.read import validate
from reprofs.project import project_root

MODELLED = [name for name in Catalog().paths(Device) if Catalog().get(Device, name).drive]
ROTATING = {
    "kind": "rotating",
    "rpm": 6000,  # a turn takes 10 ms
    "zones": 2,
    "outer_mb_s": 100,  # 1 MB a turn
    "inner_mb_s": 50,
    "track_to_track_ms": 1,
    "average_seek_ms": 8,
    "full_stroke_ms": 16,
    "write_settle_ms": 0.5,
    "read_ahead_kib": 0,
    "cache_mib": 8,
    "write_cache": True,
    "queue_depth": 32,
    "link_mb_s": 500,
    "overhead_us": 0,
}
SOLID = {
    "kind": "solid",
    "parallel": 4,
    "read_us": 100,
    "write_us": 20,
    "flush_us": 500,
    "discard_us": 50,
    "read_mb_s": 400,
    "write_mb_s": 200,
    "cache_mib": 8,
    "queue_depth": 32,
    "link_mb_s": 512,
    "overhead_us": 0,
}
FLASH = {"spare_percent": 7, "erase_us": 3000}
SIZE = 1 << 34


def profile(disk: dict, **changes) -> dict:
    return {"title": "a", "backing": "model", "sources": ["b"], "disk": disk | changes}


def drive(disk: dict, **changes) -> Rotating | Solid:
    return validate(profile(disk, **changes), Device, "mine").drive


def found(disk: dict, **changes) -> dict:
    return drive(disk, **changes).parameters()


# ---- profiles --------------------------------------------------------------------------------------------------------


def test_there_are_modelled_profiles():
    assert {"hdd-7200", "hdd-st4000nm0033", "raid-controller", "ssd-sata", "ssd-nvme"} <= set(MODELLED)


@pytest.mark.parametrize("name", MODELLED)
def test_a_profile_becomes_what_the_driver_reads(name):
    text = Catalog().get(Device, name).drive.line(10**12)
    words = dict(word.split("=") for word in text.split(" "))
    assert words.pop("kind") in ("rotating", "solid")
    assert words["size"] == str(10**12)
    source = (project_root() / "scripts" / "guest" / "modeldisk.c").read_text()
    assert set(words) <= set(re.findall(r"KEY\((\w+)\)", source))
    assert all(value.isdigit() for value in words.values())


def test_every_key_of_the_driver_is_set_by_some_profile():
    source = (project_root() / "scripts" / "guest" / "modeldisk.c").read_text()
    keys = set(re.findall(r"KEY\((\w+)\)", source)) - {"name", "size"}
    assert keys == {key for disk in (ROTATING, SOLID, SOLID | {"flash": FLASH}) for key in found(disk)} - {"kind"}


def test_units():
    one = found(ROTATING, overhead_us=100, read_ahead_kib=3)
    assert (one["period"], one["outer"], one["link"]) == (10_000_000, 100_000_000, 500_000_000)
    assert (one["overhead"], one["read_ahead"], one["cache"]) == (100_000, 3072, 8 << 20)
    assert (one["write_cache"], one["nonvolatile"]) == (1, 0)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"average_seek_ms": 3}, "average_seek_ms is 3; with .* it must be from 6 to 9"),
        ({"average_seek_ms": 14}, "average_seek_ms is 14"),
        ({"inner_mb_s": 101}, "inner_mb_s is above outer_mb_s"),
        ({"cache_mib": 0}, "cache_mib is below 1.25"),
        ({"write_cache": False, "nonvolatile": True}, "nonvolatile is on, but write_cache is off"),
    ],
)
def test_figures_that_no_disk_has_are_refused(changes, told):
    with pytest.raises(UserError, match=told):
        found(ROTATING, **changes)


def entry(**changes) -> dict:
    return profile(copy.deepcopy(ROTATING)) | changes


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (entry(disk={**ROTATING, "read_us": 3}), "unknown key 'read_us' at disk: did you mean overhead_us"),
        (entry(disk={k: v for k, v in ROTATING.items() if k != "rpm"}), "'rpm' is missing at disk"),
        (entry(disk={**ROTATING, "kind": "drum"}), "disk.kind is 'drum'"),
        (entry(backing="memory"), "unknown key 'disk' at the top level"),
        (entry(completion_ns=5), "completion_ns"),
        ({"title": "a", "backing": "model", "sources": ["b"]}, "'disk' is missing"),
        ({k: v for k, v in entry().items() if k != "sources"}, "'sources' is missing"),
    ],
)
def test_a_wrong_profile_is_one_sentence(data, told):
    with pytest.raises(UserError, match=told):
        Catalog().add(Device, "mine", data)


# ---- the model -------------------------------------------------------------------------------------------------------


def test_the_seek_curve_has_the_three_times_it_is_made_from():
    a, b, c = drive(ROTATING).seek_curve()
    assert a == 1e6
    assert a + b + c == pytest.approx(16e6)
    one, other = numpy.random.default_rng(1).random((2, 400_000))
    share = numpy.abs(one - other)
    assert (a + b * numpy.sqrt(share) + c * share).mean() == pytest.approx(8e6, rel=0.002)


def test_the_simulation_by_hand():
    # One zone and a half: 6 GB in zones of 3 GB; tracks of 1 MB outside and 0.5 MB inside, a turn of 10 ms.
    own, size = found(ROTATING, overhead_us=100), 6_000_000_000
    one = Access(False, 100_000, 1, "random")
    # 0.1 ms; the head is on the track, a quarter of a turn away after 2.5 ms; 100 kB take 1 ms.
    assert simulate(own, size, one, [250_000]) == pytest.approx(3.5e6)
    # 0.1 ms; the place has just passed: the rest of the turn.
    assert simulate(own, size, one, [0]) == pytest.approx(11e6)
    # A seek over half of the stroke, then a turn's rest; 100 kB take 2 ms in the inner zone.
    a, b, c = drive(ROTATING).seek_curve()
    seek = a + b * 0.5**0.5 + c / 2
    assert simulate(own, size, one, [3_000_000_000]) == pytest.approx((1e5 + seek) // 1e7 * 1e7 + 1e7 + 2e6, rel=1e-6)
    write = Access(True, 100_000, 1, "random")
    late = simulate(own, size, write, [3_000_000_000 + 500_000]) - 12e6  # angle 0, one track on
    assert late % 1e7 == pytest.approx(0, abs=1e3) or late % 1e7 == pytest.approx(1e7, abs=1e3)


def test_the_nearest_in_time_goes_first_and_age_goes_before():
    own, size = found(ROTATING), 6_000_000_000
    two = Access(False, 100_000, 2, "random")
    # 700 kB and 200 kB on the same track: in the order of the platter both are done within one turn.
    assert simulate(own, size, two, [700_000, 200_000]) == pytest.approx(8e6)
    # A far one beside hundreds of near ones: it is served after half a second, not at the end.
    near = [200_000, 700_000] * 100
    far = [5_000_000_000]
    alone = simulate(own, size, two, near)
    assert alone == pytest.approx(100 * 1e7 - 2e6, rel=0.01)
    seek = simulate(own, size, Access(False, 100_000, 1, "random"), far)
    both = simulate(own, size, two, far + near)
    assert alone + seek < both < alone + 4 * seek


@pytest.mark.wide
@pytest.mark.parametrize("name", ["random-read-1", "sync-random"])
@pytest.mark.parametrize("profile_name", ["hdd-7200-no-cache", "hdd-st4000nm0033"])
def test_closed_form_and_simulation_agree(profile_name, name):
    chosen = Catalog().get(Device, profile_name)
    own, job = chosen.drive.parameters(), ACCESSES[name]
    own["write_cache"] = 0
    size = (chosen.disk_mib or 16384) << 20
    places = numpy.random.default_rng(3).integers(0, size // 4096, 40_000) * 4096
    closed, basis = expected(own, size, job, 40_000)
    assert basis == CLOSED
    assert simulate(own, size, job, places) / 40_000 == pytest.approx(closed, rel=0.01)


def test_a_deeper_queue_is_faster_and_never_faster_than_the_transfer():
    own = Catalog().get(Device, "hdd-7200").drive.parameters()
    places = numpy.random.default_rng(4).integers(0, SIZE // 4096, 3000) * 4096
    times = [simulate(own, SIZE, Access(False, 4096, depth, "random"), places) for depth in (1, 4, 32)]
    assert times[0] > 1.4 * times[1] > 1.4 * 1.4 * times[2]
    _, basis = expected(own, SIZE, ACCESSES["random-read-32"], 1000)
    assert basis == SIMULATION


@pytest.mark.parametrize(
    ("name", "us"),
    [
        ("random-read-1", 100 + 10.24),  # 4096 bytes at 400 MB/s
        ("random-read-32", 25),  # four units
        ("read-outer", 327.68),  # the pipe
        ("write-outer", 655.36 + 500 / 1000),  # the drain, and one flush
        ("sync-random", 20 + 8 + 500),
        ("sync-same", 20 + 8 + 500),
        ("write-cached", 20 + 8),
    ],
)
def test_a_solid_disk_by_hand(name, us):
    assert expected(found(SOLID), SIZE, ACCESSES[name], 1000)[0] == pytest.approx(us * 1e3)


def test_a_solid_disk_with_a_safe_cache_still_has_its_flush():
    own = found(SOLID, nonvolatile=True)
    assert expected(own, SIZE, ACCESSES["sync-random"], 1000)[0] == pytest.approx((20 + 8 + 500) * 1e3)


@pytest.mark.parametrize(
    ("changes", "name", "ms"),
    [
        ({}, "sync-same", 10),
        ({"write_cache": False}, "sync-same", 10),
        ({}, "write-cached", 4096 / 5e5),
        ({"write_cache": False}, "write-cached", 8 + 0.5 + 5 + 4096 * (1e-5 + 2e-5) / 2),
        ({}, "sync-random", 8 + 0.5 + 5 + 4096 * (1e-5 + 2e-5) / 2 + 4096 / 5e5),
        ({"nonvolatile": True, "overhead_us": 100}, "sync-random", 0.2 + 4096 / 5e5),
        ({"nonvolatile": True}, "write-outer", 131072 / 5e5),
    ],
)
def test_a_rotating_disk_by_hand(changes, name, ms):
    assert expected(found(ROTATING, **changes), SIZE, ACCESSES[name], 1000)[0] == pytest.approx(ms * 1e6)


def test_software_is_hidden_where_something_else_takes_longer():
    own, kept = found(ROTATING), found(ROTATING, nonvolatile=True)
    hidden = {name for name, job in ACCESSES.items() if hides_software(own, job)}
    assert hidden == {"random-read-32", "read-outer", "read-inner", "write-outer", "write-inner", "sync-same"}
    assert not hides_software(kept, ACCESSES["sync-same"])
    assert not hides_software(found(SOLID), ACCESSES["sync-same"])


def test_sequences_take_the_rate_of_their_zone():
    own = found(ROTATING)
    for name, rate in (("read-outer", 100e6), ("read-inner", 50e6), ("write-inner", 50e6)):
        assert expected(own, SIZE, ACCESSES[name], 10**9)[0] == pytest.approx(131072 / rate * 1e9, rel=1e-5)


# ---- the report ------------------------------------------------------------------------------------------------------


def test_what_the_models_code_took_is_among_the_threats(tmp_path):
    from reprofs.report.sentences import threats
    from test_dataset import built

    def change(data):
        if "measurement" in data:
            phase = data["measurement"]["phases"][1]
            phase["device"] = phase["device"] | {"model_ns": phase["wall_ns"] // 50}

    told = built(tmp_path, change)
    row = told.phases.dropna(subset="device_model_ns").iloc[0]
    title = told.title(row["workload"], row["phase"], row["cache"])
    (sentence,) = [one for one in threats.models(told) if "disk models" in one]
    assert sentence == (
        f"The disk models run on the guest's CPU: 2.00 % of a phase (median), at most 2.00 % ({title}, {row['label']})."
    )


# ---- in the guest ----------------------------------------------------------------------------------------------------


@pytest.fixture
def device_trial(recorded):
    """Runs the jobs of the models on a profile, with other scales of them: the phases."""

    def run(profile: str, scale: dict) -> list[dict]:
        catalog = catalog_with("device", lambda workload: workload["scales"]["smoke"].update(scale))
        record = recorded(cell("raw", profile=profile, workload="device", seed=5), catalog)
        assert record["status"] == "ok", record["reason"]
        return record["measurement"]["phases"]

    return run


# fio counts the time of a job in milliseconds, of which fewer requests take a rotating disk enough.
FEWER = {"requests": 2000, "syncs": 500, "reading": "64M", "writing": "32M", "same": "1M"}
ENOUGH = {"requests": 3000, "syncs": 750, "reading": "256M", "writing": "64M", "same": "2M"}


@pytest.mark.parametrize(
    ("name", "scale", "times"),
    [
        ("hdd-7200", FEWER, 1),
        ("ssd-sata", ENOUGH, 1),
        pytest.param("ssd-sata", ENOUGH, 2, marks=pytest.mark.soak),
    ],
)
def test_a_modelled_disk_in_the_guest_does_what_the_model_says(device_trial, name, scale, times):
    """In `make soak` twice the same. The study `devices` asks for more."""
    own = Catalog().get(Device, name).drive.parameters()
    phases = device_trial(name, scale)
    assert all(device_trial(name, scale) == phases for _ in range(times - 1))
    assert [phase["name"] for phase in phases] == list(ACCESSES)
    for phase in phases:
        job = ACCESSES[phase["name"]]
        (sample,) = fio.samples(phase["output"])
        time = sample["wall_ns"] / sample["items"]
        disk, _ = expected(own, SIZE, job, sample["items"])
        # One at a time the software comes on top, up to 60 µs; random places of one round are within a few percent.
        assert 0.97 * disk < time < 1.03 * disk + (60_000 if job.depth == 1 else 0), phase["name"]
        flushes, synced = fio.flushes(phase["output"]), phase["name"].startswith("sync-")
        assert (flushes is not None) == synced, phase["name"]
        if flushes:  # fio times each of them, but for the last one
            assert flushes["count"] in (sample["items"], sample["items"] - 1)
            assert flushes["min_ns"] <= flushes["sum_ns"] / flushes["count"] <= flushes["max_ns"] < sample["wall_ns"]
    reads = next(phase for phase in phases if phase["name"] == "random-read-1")
    assert 0 < reads["device"]["model_ns"] < 0.03 * reads["wall_ns"]
