"""Modelled disks beside real drives: the published points, the demerit of each profile, the table of the docs."""

import math

import pytest
from conftest import ROOT
from helpers import CATALOG
from reprofs.errors import UserError
from reprofs.plan import demerit
from reprofs.plan.device import Device

POINTS = demerit.points()
DRIVES = {name: CATALOG.get(Device, name).drive for name in dict.fromkeys(point.profile for point in POINTS)}
ROWS = {row["profile"]: row for row in demerit.table(DRIVES, POINTS)}


def test_it_is_the_root_mean_square_of_the_logarithms():
    assert demerit.demerit([1, 1]) == 0
    assert demerit.demerit([2, 0.5]) == pytest.approx(math.log(2))
    assert demerit.demerit([1, 4]) == pytest.approx(math.log(4) / math.sqrt(2))
    assert math.isnan(demerit.demerit([]))


def test_units_are_times_of_a_request():
    values = {"ms": 14.0, "µs": 85.0, "IOPS": 10_000.0, "MB/s": 409.6}
    times = [demerit.Point("p", "d", "j", 4096, 1, value, unit, False, "s").ns for unit, value in values.items()]
    assert times == pytest.approx([14e6, 85e3, 1e5, 1e4])


def test_the_request_sizes_of_a_rotating_drive():
    """Of 64 KiB and 16 MiB, by hand: overhead, average seek, half a turn, and the mean over the zones of n / r."""
    drive = DRIVES["hdd-st4000nm0033"]
    rates = [175 - (175 - 83) * zone / 15 for zone in range(16)]
    slow = sum(1 / rate for rate in rates) / 16  # s a MB
    for point in POINTS:
        if point.drive == "not named" and point.bytes in (1 << 16, 1 << 24):
            ms = 0.1 + 8.5 + 500 / 120 + point.bytes / 1e3 * slow
            assert demerit.modelled(drive, point) / 1e6 == pytest.approx(ms, rel=0.001)


def test_what_a_profile_was_set_by_does_not_count_and_is_met():
    fitted = [point for point in POINTS if point.fitted]
    assert len(fitted) == sum(row["fitted"] for row in ROWS.values()) > 8
    for point in fitted:
        assert demerit.modelled(DRIVES[point.profile], point) / point.ns == pytest.approx(1, abs=0.08), point
    assert ROWS["ssd-consumer-slow"]["points"] == 0 and math.isnan(ROWS["ssd-consumer-slow"]["demerit"])


def test_the_docs_have_the_table():
    text = (ROOT / "docs/methods/devices.md").read_text()
    for row in ROWS.values():
        numbers = [f"{row[key]:.2f}" if row["points"] else "\N{EN DASH}" for key in ("demerit", "least", "most")]
        assert f"| `{row['profile']}` | {row['points']} | {' | '.join(numbers)} |" in text


def test_every_modelled_disk_is_there_or_is_another_with_one_figure_changed():
    alike = {"hdd-7200-no-cache", "raid-controller", "hdd-st4000nm0033-4tb", "hdd-st4000nm0033-no-read-ahead"}
    alike |= {"ssd-new", "ssd-worn-discards", "reference"}
    modelled = {name for name in CATALOG.paths(Device) if CATALOG.get(Device, name).drive}
    assert modelled == set(DRIVES) | alike


@pytest.mark.parametrize("row", ["hdd-7200,d,random-read,4096,1,x,ms,no,s", "hdd-7200,d,random-read,1,1,0,MB/s,no,s"])
def test_a_wrong_row_is_named(tmp_path, row):
    path = tmp_path / "drives.csv"
    path.write_text(f"profile,drive,job,bytes,depth,value,unit,fitted,source\n{row}\n")
    with pytest.raises(UserError, match=r"data/drives.csv: a number, unit or fitted"):
        demerit.points(path)


def test_an_unknown_job_is_named():
    point = demerit.Point("hdd-7200", "d", "juggle", 4096, 1, 1.0, "ms", False, "s")
    with pytest.raises(UserError, match="the job juggle of hdd-7200 has no model"):
        demerit.modelled(DRIVES["hdd-7200"], point)
