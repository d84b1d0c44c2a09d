"""The drive's flush in the times: its share, other drives, and exact trials on profiles that differ in it alone."""

import numpy
import pandas as pd
import pytest
from helpers import CATALOG
from reprofs.plan.device import Device
from reprofs.report.sentences import flushes as words
from reprofs.stats import flushes

# µs a file of the workload fsync-each (smoke), exact lab, final sync included, on ssd-nvme with four flushes (µs);
# kernel 6.12. flushes: of the device, a file.
FLUSHES = (15, 300, 1000, 7000)
TRIALS = {
    ("create", "ext4"): (1, 222.9, 510.9, 1218, 7279),
    ("create", "xfs"): (1, 180.5, 465.6, 1166, 7166),
    ("create", "btrfs"): (2, 713.6, 1283.7, 2687, 14717),
    ("create", "f2fs"): (2, 237.2, 805.3, 2202, 14172),
    ("append", "ext4"): (1, 197.4, 482.7, 1193, 7253),
    ("append", "xfs"): (1, 192.9, 479.4, 1184, 7214),
    ("append", "btrfs"): (1, 421.8, 706.7, 1416, 7475),
    ("append", "f2fs"): (1, 233.6, 522.6, 1230, 7289),
    ("overwrite", "ext4"): (1, 137.3, 428.1, 1142, 7263),
    ("overwrite", "xfs"): (1, 96.0, 386.8, 1101, 7222),
    ("overwrite", "btrfs"): (1, 460.1, 741.0, 1437, 7494),
    ("overwrite", "f2fs"): (1, 211.1, 499.0, 1206, 7267),
}


def rows(at: int = 1) -> pd.DataFrame:
    """The trials above with one of the four flushes, as rows of `flushes.flushed`."""
    frame = pd.DataFrame(
        {
            "lab": "exact",
            "stack": "single",
            "profile": "ssd-nvme",
            "workload": "fsync-each",
            "scale": "smoke",
            "phase": phase,
            "cache": "warm",
            "operation": "exec",
            "label": label,
            "role": "contender",
            "status": "ok",
            "round": 1,
            "position": 0,
            "wall_ns": times[at] * 200e3,
            "items": 200.0,
            "flushes": count * 200.0 + 2,
            "flush_us": float(FLUSHES[at]),
        }
        for (phase, label), (count, *times) in TRIALS.items()
    )
    return flushes.on(frame, None)


@pytest.mark.parametrize("to", [0, 2, 3])
def test_the_time_on_another_drive_is_that_of_a_trial_there(to):
    told = flushes.on(rows(), FLUSHES[to])["wall_ns"] / rows(to)["wall_ns"]
    assert told.between(0.97, 1.05).all(), told
    assert flushes.on(flushes.on(rows(), FLUSHES[to]), 300)["wall_ns"].tolist() == pytest.approx(
        rows()["wall_ns"].tolist()
    )


# Software and writes (µs a file) of own trials on two profiles: with a flush of 990 and of 6900 µs, and flushes in all.
TERMS = {
    ("create", "ext4"): (201, 207.0, 207.6),
    ("create", "xfs"): (200, 165.1, 165.7),
    ("create", "btrfs"): (400, 666.8, 666.6),
    ("create", "f2fs"): (399, 206.1, 206.8),
    ("append", "ext4"): (201, 179.8, 181.6),
    ("append", "xfs"): (201, 177.9, 178.5),
    ("append", "btrfs"): (201, 382.9, 384.8),
    ("append", "f2fs"): (201, 204.9, 205.6),
    ("overwrite", "ext4"): (202, 120.5, 121.0),
    ("overwrite", "xfs"): (202, 78.9, 79.4),
    ("overwrite", "btrfs"): (201, 421.7, 400.0),
    ("overwrite", "f2fs"): (201, 176.2, 176.9),
}


def test_the_terms_are_those_of_trials_with_another_flush():
    count, fast, slow = (numpy.array(column) for column in zip(*TERMS.values(), strict=True))
    wall = (fast + count / 200 * 990) * 200e3
    frame = pd.DataFrame({"wall_ns": wall, "items": 200.0, "flushes": count, "flush_us": 990.0})
    there = flushes.on(frame, 6900)
    assert (there["wall_ns"] / 200e3).to_numpy() == pytest.approx(slow + count / 200 * 6900, rel=0.004)
    assert there["other_us"].to_numpy() == pytest.approx(slow, rel=0.06)


def test_the_lead_of_one_over_another_depends_on_the_drive():
    ratios = []
    for us in FLUSHES:
        there = flushes.on(rows(), us).set_index(["phase", "label"])["wall_ns"]
        ratios.append(there["overwrite", "btrfs"] / there["overwrite", "xfs"])
    assert ratios == pytest.approx([4.79, 1.92, 1.305, 1.04], rel=0.05)


def test_the_share_of_flushes_is_their_time_over_all():
    found = rows(3).set_index(["phase", "label"])
    assert found.loc[("overwrite", "xfs"), "share"] == pytest.approx(0.98, abs=0.01)
    assert rows(0)["share"].max() < 0.17
    assert (rows()["other_us"] + rows()["flushes"] / 200 * 300).tolist() == pytest.approx(
        (rows()["wall_ns"] / 200e3).tolist()
    )


def test_the_drives_are_those_of_the_profiles():
    assert {name: CATALOG.get(Device, name).flush_us for name in flushes.DRIVES} == flushes.DRIVES
    assert CATALOG.get(Device, "ssd").flush_us == 80
    assert CATALOG.get(Device, "ram").flush_us is None and CATALOG.get(Device, "hdd-7200").flush_us is None


def test_what_is_said_of_the_drives():
    def row(best, verdict, us, ratio=1.43, level=()):
        keys = ["exact", "single", "ssd", "w", "smoke", "overwrite", "warm"]
        more = [best, verdict, level, "ext4", ratio, us, "drive"]
        return dict(zip([*flushes.SETTING, *flushes.OPERATION], keys, strict=True)) | dict(
            zip(["best", "verdict", "level", "runner_up", "ratio", "flush_us", "drive"], more, strict=True)
        )

    found = pd.DataFrame([row("xfs", "fastest", 25.0), row("xfs", "undecided", 6900.0, 1.006, ("ext4",))])
    assert [words.verdict(one) for one in found.itertuples()] == [
        "xfs; next: ext4, 43 % slower",
        "undecided: xfs or ext4",
    ]
    assert words.range_of(found) == (
        "One operation flushes. With a flush of 25 µs and of 6,900 µs the fastest is the same in 1 of 1."
        " The lead of xfs changes most: ext4 is 43 % slower with the first flush, ext4 is 0.6 % slower with the last."
    )
    assert words.range_of(found[:0]) == ""
