"""Throughput within an operation: the words of each branch."""

from types import SimpleNamespace

import pandas as pd
import pytest
from reprofs.report.sentences import samples

NAN = float("nan")


def filled(*rows) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["label", "role", "mean", "sd"])


def test_who_is_fastest_and_who_is_steadiest():
    ext4, xfs, jfs = (
        ("ext4", "contender", 755.3, 29.0),
        ("xfs", "contender", 863.1, 76.8),
        ("jfs", "no-promise", 900, 1),
    )
    assert samples.steady(filled(ext4, xfs, jfs), "Fill") == (
        "**Fill** xfs has the highest throughput, 863 MB/s (SD 8.90 %); ext4 is the steadiest, 755 MB/s (SD 3.84 %)."
    )
    one = samples.steady(filled(ext4, ("xfs", "contender", 500, 50)), "Fill")
    assert one == "**Fill** ext4 has the highest throughput, 755 MB/s (SD 3.84 %), and is the steadiest."
    assert samples.steady(filled(ext4), "Fill") == "**Fill** ext4 has a throughput of 755 MB/s (SD 3.84 %)."
    unknown = filled(("ext4", "contender", 755, NAN), ("xfs", "contender", 863, NAN))
    assert samples.steady(unknown, "Fill") == "**Fill** xfs has the highest throughput, 863 MB/s."
    assert samples.steady(filled(jfs), "Fill") == ""


def test_how_sure_means_are():
    assert samples.sure(3, 0.0123) == "How sure: 3 repetitions, whose means differ by at most 1.23 % (SD)."
    assert samples.sure(1, NAN) == "How sure: one repetition, so its spread is not known."
    assert samples.not_durable(["jfs"]) == "Not ranked, because fsync is not durable: jfs."
    assert samples.not_durable([]) == ""


def test_who_keeps_its_throughput():
    rows = [("ext4", "contender", 0.408, NAN, NAN), ("btrfs", "contender", 0.743, 0.731, 0.755)]
    own = pd.DataFrame([*rows, ("jfs", "no-promise", 1.1, NAN, NAN)], columns=["label", "role", "kept", "low", "high"])
    assert samples.interference(own, "single") == (
        "**single** With a reader, btrfs keeps 74.3 % (73.1 % to 75.5 %) of its write throughput, the most;"
        " ext4 keeps 40.8 %, the least."
    )
    assert samples.interference(own[:1], "single") == (
        "**single** With a reader, ext4 keeps 40.8 % of its write throughput."
    )
    assert samples.interference(own[2:], "single") == ""


@pytest.fixture
def swept():
    rows = [("read", 1 << 24, 4096, True, "jfs", 12.1), ("write", 1 << 26, 1 << 20, False, "xfs", 812.0)]
    return pd.DataFrame(rows, columns=["operation", "file_bytes", "record_bytes", "cached", "label", "mb_s"])


def test_extremes_of_a_sweep(swept):
    assert samples.extremes(swept, "Direct") == (
        "**Direct** Throughput goes from 12.1 MB/s (read of 16 MiB in records of 4 KiB on jfs)"
        " to 812 MB/s (write of 64 MiB in records of 1 MiB on xfs)."
    )


def test_what_memory_may_have_served(swept):
    told = "Files of 16 MiB fit in the memory of 3 GiB: read may show the throughput of memory."
    assert samples.held(swept, 3 << 30) == told
    assert samples.held(swept, 1 << 20) == samples.held(swept, 0) == ""


def test_the_share_of_a_list():
    shares = pd.Series({("Copy", "ext4"): 0.021, ("Nothing", "xfs"): 0.8})
    assert samples.lists(shares, "rsync") == (
        "**rsync** The list of files takes from 2.10 % (Copy on ext4) to 80.0 % (Nothing on xfs) of rsync's time."
    )


def test_throughput_of_bytes_or_of_files_and_of_clients():
    row = SimpleNamespace(clients=1, mb_s=362.0, least_mb_s=11.2, most_mb_s=12.9, files_s=9.0)
    assert samples.throughput(row) == "362 MB/s"
    row.clients = 30
    assert samples.throughput(row) == "362 MB/s (11.2 \N{EN DASH} 12.9)"
    files = SimpleNamespace(clients=1, mb_s=0.0, files_s=30_088.0, least_files_s=1.0, most_files_s=2.0)
    assert samples.throughput(files) == "30,088 files/s"
