"""Rot on arrays: arguments, job, table, outcomes, sentences, and two arrays in the guest."""

from __future__ import annotations

import json
import subprocess

import pandas as pd
import pytest
from helpers import cell, phases_of, rendered
from reprofs.data import outputs
from reprofs.errors import UserError
from reprofs.report.sentences import rot as words
from reprofs.stats import rot as statistics

READ = {"kind": "data", "page": 0, "disk": 1, "copies": 1, "read": "rotten", "read_left": 1}
SCRUBBED = READ | {"found": True, "scrubbed": "rotten", "scrub_left": 1}
REPAIRED = SCRUBBED | {"repaired": "rotten", "repair_left": 1, "found_again": False}


def rows(*told: dict, label: str = "ext4", stack: str = "md-raid5") -> pd.DataFrame:
    text = "\n".join(json.dumps(row) for row in told)
    return pd.DataFrame([{"label": label, "stack": stack, "phase": "rot", **row} for row in outputs.rot(text)])


def test_rows_have_names_of_errors_and_empty_cells():
    (row,) = outputs.rot(json.dumps(READ | {"read": "5"}))
    assert row["read"] == "EIO" and row["found"] is row["repaired"] is None
    with pytest.raises(ValueError):
        outputs.rot('{"page":0,')


@pytest.mark.parametrize(
    ("told", "end"),
    [
        (READ, "not asked"),
        (SCRUBBED | {"scrub_left": 0}, "mended"),
        (SCRUBBED, "remains"),
        (SCRUBBED | {"found": False}, "spread"),  # no scrub finds it, so nobody ever will
        (REPAIRED, "spread"),  # the parity follows the rotten data
        (REPAIRED | {"repair_left": 0}, "mended"),
        (REPAIRED | {"found_again": True}, "remains"),
        (REPAIRED | {"copies": 2, "repair_left": 2, "found_again": True}, "spread"),  # a checksum knows, and no copy
        (SCRUBBED | {"kind": "other", "read": "whole", "found": False, "scrubbed": "whole"}, "unseen"),
        (SCRUBBED | {"kind": "other", "read": "whole", "found": False}, "spread"),  # it is read after the scrub
        # The repair made the other copy rotten, too, though no file shows it.
        (REPAIRED | {"kind": "other", "read": "whole", "scrubbed": "whole", "repaired": "whole"}, "spread"),
    ],
)
def test_how_a_case_ends(told, end):
    assert statistics.cases(rows(told)).end.tolist() == [end]


def test_cases_are_counted_by_array():
    found = statistics.cases(pd.concat([rows(REPAIRED, REPAIRED | {"read": "5"}), rows(READ, stack="single")]))
    arrays = statistics.by_array(found)
    assert arrays.loc[("md-raid5", "ext4")].tolist() == [2, 0, 1, 1, 2, 0, 2, 0, 0]
    assert arrays.loc[("single", "ext4")].fillna(-1).tolist() == [1, 0, 1, 0, -1, 0, 0, 0, 0]


def test_sentences():
    both = [rows(REPAIRED, REPAIRED | {"read": "whole", "repair_left": 0})]
    both += [rows(SCRUBBED | {"read": "whole", "scrub_left": 0}, label="btrfs", stack="btrfs-raid1")]
    arrays = statistics.by_array(statistics.cases(pd.concat(both)))
    assert words.kept(arrays) == [
        "ext4 (md-raid5) gives a program the wrong bit without an error; btrfs does not.",
        "Repair makes it permanent on ext4 (md-raid5): afterwards no copy has the bit that was written.",
        "Scrub or repair mends it on ext4 (md-raid5) and btrfs (btrfs-raid1).",
    ]
    assert words.kept(arrays[1:])[0] == "No program gets the wrong bit from btrfs."
    assert words.kept(arrays[:0]) == []
    unsaid = rows(SCRUBBED | {"found": False, "scrub_left": 0}, label="btrfs", stack="btrfs-raid6")
    remains = rows(SCRUBBED | {"read": "5"}, label="btrfs", stack="single")
    several = [rows(REPAIRED, stack=stack) for stack in ("md-raid5", "md-raid6", "md-raid10")]
    arrays = statistics.by_array(statistics.cases(pd.concat([unsaid, remains, *several])))
    assert words.kept(arrays) == [
        "btrfs (btrfs-raid6) and ext4 (all 3 stacks) give a program the wrong bit without an error.",
        "Repair makes it permanent on ext4 (all 3 stacks): afterwards no copy has the bit that was written.",
        "Scrub or repair mends it on btrfs (btrfs-raid6).",
        "Scrub finds it, and there is no copy to mend it from, on btrfs (single).",
        "The scrub reports nothing on btrfs (btrfs-raid6).",
    ]


def test_sentences_of_parity_and_other_blocks():
    whole = SCRUBBED | {"read": "whole", "scrubbed": "whole"}
    parity = [rows(whole | {"kind": "parity", "scrub_left": 0})]
    parity += [rows(whole | {"kind": "parity", "found": False}, label="btrfs", stack="btrfs-raid6")]
    arrays = statistics.by_array(statistics.cases(pd.concat(parity)))
    assert words.of_parity(arrays) == [
        "Rotten parity changes nothing that is read.",
        "Scrub or repair mends it on ext4 (md-raid5).",
        "No scrub finds it on btrfs (btrfs-raid6).",
    ]
    other = rows(REPAIRED | {"kind": "other"}, whole | {"kind": "other", "scrub_left": 0}, READ | {"read": "no mount"})
    assert words.of_others(statistics.by_array(statistics.cases(other))) == [
        "In other blocks, such as metadata, it gives wrong content without an error on ext4 (md-raid5),"
        " an error or no mount on ext4 (md-raid5).",
        "Repair makes it permanent on ext4 (md-raid5).",
        "Scrub or repair mends it on ext4 (md-raid5).",
    ]
    assert words.of_parity(arrays[:0]) == words.of_others(arrays[:0]) == []


def array(filesystem: str, stack: str, **changes):
    return cell(filesystem, **{"stack": stack, "workload": "rot", "profile": "ram", **changes})


def test_the_job_says_how_the_array_is_started_and_scrubbed():
    (line,) = (line for line in rendered(array("ext4", "md-raid1")).text().splitlines() if "name=rot\t" in line)
    assert "arg=--mount\targ=mdadm --assemble" in line and "mdadm --stop /dev/md127\t" in line
    assert "arg=--scrub\targ=sh -c 'echo check" in line and "arg=--repair\targ=sh -c 'echo repair" in line
    (line,) = (line for line in rendered(array("ext4", "single")).text().splitlines() if "name=rot\t" in line)
    assert "--scrub" not in line and "--repair" not in line


@pytest.mark.parametrize(("lab", "filesystem"), [("host", "ext4"), ("exact", "tmpfs")])
def test_where_no_bit_can_be_changed(lab, filesystem):
    with pytest.raises(UserError, match="changes bits of the disks themselves"):
        rendered(array(filesystem, "single", lab=lab))


@pytest.mark.parametrize(
    ("arguments", "sentence"), [(["--bytes", "5000"], "a multiple of 4096"), (["--pages", "0"], "--pages")]
)
def test_wrong_arguments(engine, arguments, sentence):
    done = subprocess.run([str(engine), "rot", "--check", *arguments], capture_output=True, text=True)
    assert done.returncode == 2 and sentence in done.stderr and len(done.stderr) < 300


def test_md_spreads_what_btrfs_mends(guest, outcome):
    """A mirror without checksums gives the wrong bit away from one of its disks, and its repair copies the first one.

    A mirror with checksums gives the right one, from whichever disk.
    """

    def of_one_page(phases: list) -> list:
        run = phases[0].run.replace("{pages}", "1").replace("{others}", "1")
        return [phases[0].model_copy(update={"run": run})]

    def met(filesystem: str, variant: str, stack: str) -> pd.DataFrame:
        (phase,) = phases_of(outcome, array(filesystem, stack, variant=variant), of_one_page)
        found = [{"label": filesystem, "stack": stack, **row} for row in outputs.rot(phase["output"])]
        rows = statistics.cases(pd.DataFrame(found))
        assert rows["kind"].tolist() == ["data", "data", "other"]  # a mirror has no parity
        return rows[rows["kind"] == "data"].set_index("disk")

    md = met("ext4", "default", "md-raid1")
    assert sorted(md["given"]) == ["rotten", "whole"] and md["found"].all()
    assert md["end"].to_dict() == {0: "spread", 1: "mended"}
    btrfs = met("btrfs", "none", "btrfs-raid1@2")
    assert set(btrfs["given"]) == {"whole"} and btrfs["found"].all() and set(btrfs["end"]) == {"mended"}


def test_parity_is_known_and_mended(guest, outcome):
    """MD's check finds a rotten parity, which nobody reads, and its repair mends it."""

    def few(phases: list) -> list:
        run = phases[0].run.replace("{pages}", "1").replace("{others}", "0").replace("{bytes}", str(4 << 20))
        return [phases[0].model_copy(update={"run": run})]

    (phase,) = phases_of(outcome, array("ext4", "md-raid5@3"), few)
    rows = pd.DataFrame([{"label": "ext4", "stack": "md-raid5", **row} for row in outputs.rot(phase["output"])])
    (parity,) = statistics.cases(rows[rows["kind"] == "parity"]).to_dict("records")
    assert parity["given"] == "whole" and parity["found"] and parity["end"] == "mended"
