"""Faults of the disk: arguments, job, table, outcomes, sentences, and two file systems in the guest."""

from __future__ import annotations

import json
import subprocess

import pandas as pd
import pytest
from helpers import cell, phases_of, rendered
from reprofs.data import outputs
from reprofs.report.sentences import faults as words
from reprofs.stats import faults as statistics

FINE = {"kind": "data", "nth": 0, "sector": 8, "hits": 1, "ns": 5, "what": "", "errors": 0, "others": 0, "checker": 0}
FINE |= dict.fromkeys(("fsync", "fsync_again", "fsync_other", "fsync_later", "new_file", "fsync_folder", "syncfs"), 0)
FINE |= {"usable": 0, "mount": "0", "cached": "new", "cold": "new", "after": "new", "new_after": "new", "unmount": 0}
READ = {key: FINE[key] for key in ("kind", "sector", "hits", "what", "errors", "others", "checker", "mount", "unmount")}
READ |= {"mended": 0}


def rows(*told: dict, phase: str = "write-error", label: str = "ext4") -> pd.DataFrame:
    text = "\n".join(json.dumps(row) for row in told)
    return pd.DataFrame([{"label": label, "phase": phase, **row} for row in outputs.faults(text)])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "--fault and --of must be given"),
        (["--fault", "rot", "--of", "writes"], "rot is no fault of writes"),
        (["--fault", "lost", "--of", "reads"], "lost is no fault of reads"),
        (["--fault", "torn", "--of", "flushes"], "torn is no fault of flushes"),
        (["--fault", "odd", "--of", "reads"], "error, lost, torn, astray, slow, rot or zeros"),
        (["--fault", "rot", "--of", "discs"], "reads, writes or flushes"),
        (["--fault", "rot", "--of", "reads", "--before", "creat foo"], "`creat foo` is no call"),
    ],
)
def test_wrong_arguments(engine, arguments, sentence):
    done = subprocess.run([str(engine), "faults", "--check", *arguments], capture_output=True, text=True)
    assert done.returncode == 2 and sentence in done.stderr and len(done.stderr) < 300


def fault(filesystem: str, **changes):
    return cell(filesystem, **{"profile": "crash", "workload": "faults", **changes})


def test_the_job_says_where_the_blocks_are_and_asks_for_no_promise():
    lines = rendered(fault("ext4")).text().splitlines()
    first = next(line for line in lines if "name=write-error\t" in line)
    assert "arg=--blocks\targ=sh -c 'dumpe2fs /dev/crashdisk" in first and "--promises" not in first
    assert "arg=--unmount\targ=umount" in first and "arg=--type\targ=ext4" in first
    assert "--blocks" not in rendered(fault("jfs")).text()


def test_rows_have_names_of_errors():
    (row,) = rows(FINE | {"fsync": 5, "usable": 30, "mount": "117", "cold": "5", "after": "old"}).to_dict("records")
    assert [row[key] for key in ("fsync", "usable", "mount", "cold", "after")] == [
        "EIO",
        "EROFS",
        "EUCLEAN",
        "EIO",
        "old",
    ]
    assert row["fsync_again"] == "ok" and not row["mended"] and row["what"] is None
    assert outputs.faults("") == []  # no request of the kind was made
    with pytest.raises(ValueError):
        outputs.faults('kind":"data"}\n' + json.dumps(FINE))


OUTCOMES = {
    "ok": {},
    "noticed": {"fsync": 5},
    "told": {"fsync": 5, "after": "old"},
    "foreign": {"new_file": 5, "new_after": "foreign"},
    "late": {"after": "old", "fsync_again": 5},
    "unreadable": {"after": "5"},
    "silent": {"after": "old"},
    "no mount": {"after": "", "new_after": "", "mount": "22"},
    "checker": {"checker": 1},
}


@pytest.mark.parametrize("expected", OUTCOMES)
def test_what_a_fault_of_writes_came_to(expected):
    assert statistics.outcomes(rows(FINE | OUTCOMES[expected]))["outcome"].tolist() == [expected]


def test_what_becomes_of_others_counts_most():
    assert statistics.outcomes(rows(FINE | {"others": 1, "fsync": 5})).outcome[0] == "silent"
    assert statistics.outcomes(rows(FINE | {"errors": 1})).outcome[0] == "unreadable"
    assert statistics.outcomes(rows(FINE | {"new_after": "absent"})).outcome[0] == "silent"
    assert statistics.outcomes(rows(FINE | {"new_after": "absent", "new_file": 5})).outcome[0] == "told"


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({}, "ok"),
        ({"mended": 1}, "mended"),
        ({"checker": 4}, "checker"),
        ({"errors": 2}, "unreadable"),
        ({"errors": 2, "others": 1}, "silent"),
        ({"mount": "repair"}, "no mount"),
    ],
)
def test_what_a_rotten_block_came_to(told, expected):
    assert statistics.outcomes(rows(READ | told, phase="rot")).outcome.tolist() == [expected]


def test_every_outcome_is_named_and_the_worst_is_first():
    assert set(OUTCOMES) | {"mended"} == set(statistics.OUTCOMES)
    told = rows(FINE, FINE | {"after": "old"}, FINE | {"kind": "log"})
    found = statistics.outcomes(told)
    cells = statistics.worst(found)["ext4"]
    assert cells["write-error", "data"] == "silent" and cells["write-error", "metadata"] == "ok"
    assert statistics.kinds(found, "write-error").loc[("ext4", "data")].to_dict() == {"silent": 1, "ok": 1}


def test_sentences():
    failed = FINE | {"fsync": 5, "after": "old"}
    labels = ("ext4", "xfs", "btrfs", "f2fs", "udf", "jfs")
    told = [rows(failed | ({"fsync_again": 5} if label == "jfs" else {}), label=label) for label in labels]
    said = statistics.flushes(pd.concat(told))
    assert words.failed_write(said) == (
        "After a write of data failed, the first fsync gives an error on all 6 file systems. The second says ok on all"
        " but jfs, although the data is not on the disk."
    )
    assert words.failed_write(statistics.flushes(rows(FINE))) == ""
    assert words.rotten(["ext4"], ["btrfs"], 2) == (
        "A flipped bit in a file is read without an error on ext4; btrfs gives one."
    )
    assert words.rotten(["ext4", "xfs", "jfs", "udf"], [], 5).endswith(" on 4 of 5 file systems.")
    assert words.rotten([], [], 1) == "" and words.unheard([]) == ""
    assert statistics.told_by(said.loc["jfs"]) == "first"
    assert statistics.told_by(statistics.flushes(rows(FINE)).loc["ext4"]) == "none"


# ---- in the guest


@pytest.fixture
def met(guest, outcome):
    def run(filesystem: str, variant: str, *names: str) -> pd.DataFrame:
        found = phases_of(
            outcome, fault(filesystem, variant=variant), lambda phases: [one for one in phases if one.name in names]
        )
        own = [
            {"label": filesystem, "phase": one["name"], **row} for one in found for row in outputs.faults(one["output"])
        ]
        return statistics.outcomes(pd.DataFrame(own))

    return run


def test_ext4_gives_rotten_data_away_and_btrfs_does_not(met):
    """The positive control and its counterpart; Btrfs has two copies of its metadata."""
    ext4 = met("ext4", "no-lazy-init", "rot")
    assert set(ext4[ext4.kind == "data"].outcome) == {"silent"} and "journal" in set(ext4.kind)
    btrfs = met("btrfs", "none", "rot")
    assert set(btrfs[btrfs.kind == "data"].outcome) == {"unreadable"}
    assert set(btrfs[btrfs.kind == "metadata, copy 0"].outcome) == {"mended"}


def test_fsync_says_an_error_once(met):
    said = statistics.flushes(met("ext4", "no-lazy-init", "write-error")).loc["ext4"]
    assert said[["fsync", "fsync_again", "fsync_other", "fsync_later"]].tolist() == ["EIO", "ok", "EIO", "ok"]
    assert said[["cached", "cold", "after"]].tolist() == ["new", "old", "old"]


def test_without_a_request_there_is_no_row(met):
    """JFS sends no flush: a fault of flushes is met by none."""
    found = met("jfs", "default", "write-slow", "flush-error")
    assert set(found.phase) == {"write-slow"} and set(found.outcome) == {"ok"}
