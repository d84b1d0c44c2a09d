"""The wear of flash: in the job, the record and the tables; bytes of flash a byte of the user; what is said of it."""

import types

import numpy as np
import pandas as pd
import pytest
from helpers import CATALOG, cell, rendered
from reprofs.data.rows import trial_row
from reprofs.plan.device import Device
from reprofs.plan.flash import Simulation, over_time, steady_rate
from reprofs.records.raw import measurement
from reprofs.report.sentences import wear as words
from reprofs.stats import wear

WEAR = {"flash_written": 100, "flash_moved": 650, "flash_erased": 7, "flash_fast": 20, "discarded_bytes": 4096}


@pytest.mark.parametrize(("profile", "asked"), [("ssd-worn", True), ("hdd-7200+ssd-new", True), ("ssd-nvme", False)])
def test_a_job_asks_for_the_wear_of_disks_with_flash_alone(profile, asked):
    stack = "xfs-log" if "+" in profile else "single"
    lines = rendered(cell("xfs", profile=profile, stack=stack)).text().splitlines()
    (devices,) = [line for line in lines if line.startswith("devices\t")]
    assert devices.endswith("\tflash=1") == asked
    assert lines.count("wear") == asked
    if asked:  # of everything, the last unmount included
        assert any("stage=unmount" in line for line in lines[: lines.index("wear")])
        assert not any(line.startswith("phase") for line in lines[lines.index("wear") :])


def test_the_trial_has_its_own():
    found = measurement([{"event": "wear", **WEAR}], [], "virtual")
    assert found["wear"] == WEAR
    row = trial_row({"status": "ok", "reason": "", "measurement": found, "environment": {}}, None)
    assert {key.removeprefix("wear_"): row[key] for key in row if key.startswith("wear_")} == WEAR
    assert trial_row(None, None)["wear_flash_moved"] is None


def test_an_erase_takes_the_same_share_of_small_disks():
    drive = CATALOG.get(Device, "ssd-worn").drive
    settings = {size: dict(word.split("=") for word in drive.line(size).split()) for size in (10**12, 4 << 30)}
    assert settings[10**12]["erase_ns"] == "3000000"
    assert int(settings[4 << 30]["erase_ns"]) == round(3e6 * (4 << 30) / 1e12)
    assert "erase_ns" not in CATALOG.get(Device, "ssd-nvme").drive.line(4 << 30)


def phases(*rows: tuple) -> pd.DataFrame:
    """Rows of `phases`: label, round, position, phase, bytes, pages of the device, pages of the whole."""
    names = ["label", "round", "position", "phase", "bytes", "device_flash_written", "device_flash_moved"]
    names += ["whole_flash_written", "whole_flash_moved"]
    frame = pd.DataFrame(rows, columns=names).astype(dict.fromkeys(names[4:], "Int64"))
    same = {"lab": "exact", "stack": "single", "profile": "ssd-worn", "workload": "w", "scale": "smoke"}
    trial = frame["label"] + frame["round"].astype(str)
    return frame.assign(**same, role="contender", status="ok", operation="exec", trial=trial)


def test_a_byte_of_the_user_costs_what_the_file_system_adds_times_what_the_drive_makes_of_it():
    rows = wear.written(
        types.SimpleNamespace(
            phases=phases(
                ("ext4", 1, 0, "create", 409_600, 150, 450, None, None),
                ("ext4", 1, 1, "read", 409_600, 2, 20, None, None),  # times of access
                ("ext4", 1, 2, "stat", 0, 0, 0, None, None),
                ("ext4", 1, 3, "part-a", 204_800, None, None, 100, 100),
                ("ext4", 1, 3, "part-b", 204_800, None, None, 100, 100),
                ("ext4", 1, 4, "remove", 0, 5, 5, None, None),
            )
        )
    )
    assert rows["phase"].tolist() == ["create", "part-a"]
    assert rows[["by_host", "inside", "bytes"]].to_numpy().tolist() == [[1.5, 4.0, 6.0], [1.0, 2.0, 2.0]]
    (whole,) = wear.together(rows).itertuples()
    assert (whole.by_host, whole.inside, whole.bytes) == pytest.approx((1.25, 3.2, 4.0))


def test_repetitions_are_averaged():
    table = phases(
        ("xfs", 1, 0, "a", 4096, 1, 0, None, None),
        ("xfs", 2, 0, "a", 4096, 1, 2, None, None),
    )
    (whole,) = wear.together(wear.written(types.SimpleNamespace(phases=table))).itertuples()
    assert whole.bytes == 2


def test_a_drive_is_fast_until_its_spare_flash_is_used_up():
    blocks, each = 128, 64
    pages = int(blocks * each / 1.07)
    simulation = Simulation(blocks, each, fifo=True)
    chance = np.random.default_rng(2)
    filling = over_time(simulation, range(pages), pages // 8, 2700, 3500)
    assert filling == pytest.approx([2700] * len(filling))
    rates = over_time(simulation, chance.integers(0, pages, 5 * pages).tolist(), pages // 32, 2700, 3500)
    assert rates[0] == pytest.approx(2700)
    assert 1 / np.mean([1 / rate for rate in rates[-32:]]) == pytest.approx(
        steady_rate(0.07, 2700, 3500), rel=0.15
    )  # few blocks


def together(*rows: tuple) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=["profile", "label", "role", "inside", "bytes"])
    return frame.assign(host=1.0, flash=frame["inside"])


def test_what_is_said():
    found = together(
        ("ssd-worn", "ext4", "contender", 8.0, 8.1),
        ("ssd-worn", "btrfs", "contender", 8.0, 14.0),
        ("ssd-trim", "ext4", "contender", 1.0, 1.0),
        ("ssd-trim", "ext4+discard", "variant", 6.3, 6.4),
    )
    assert words.least_and_most(found) == [
        "On ssd-worn a byte of the user costs from 8.1 bytes of flash (ext4) to 14 (btrfs). The drive writes each page"
        " 8.0 times.",
        "On ssd-trim the drive writes each page once. A byte of the user costs 1.0 bytes of flash (ext4).",
    ]
    assert words.discards(found) == [
        "If mkfs discards the whole drive, ssd-trim writes each page once. If only the mount option discards, it writes"
        " them 6.3 times."
    ]
    level = found.assign(label=found["label"].replace("btrfs", "btrfs+discard"))[:2]
    assert words.discards(level)[0].endswith(
        "each page 8.0 times. If only the mount option discards, it writes them 8.0 times."
    )
    several = pd.concat([found[2:], found[3:].assign(label="xfs+discard", inside=7.9)])
    assert words.discards(several)[0].endswith("writes them 6.3 times (ext4+discard) to 7.9 times (xfs+discard).")
    new = [("ssd-new", "a", "xfs", 1.6), ("ssd-new", "b", "xfs", 1.5)]
    worn = [("ssd-worn", "a", "xfs", 1.01), ("ssd-worn", "b", "ext4", 1.05)]
    verdicts = pd.DataFrame(new + worn, columns=["profile", "operation", "best", "ratio"])
    assert words.rankings(verdicts, "ssd-new") == (
        "The fastest file system on ssd-new is also the fastest on ssd-worn in 1 of 2 operations. The median lead over"
        " the next is 55 % on ssd-new and 3.0 % on ssd-worn."
    )
    assert words.rankings(verdicts[:2], "ssd-new") == ""
