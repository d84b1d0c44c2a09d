"""Raw records become tables: complete, sorted, byte-identical, documented; bad records are named."""

import contextlib
import dataclasses
import hashlib
import itertools
import json
import shutil
import subprocess
from pathlib import Path
from typing import get_args

import make
import pandas as pd
import pyarrow.parquet as pq
import pytest
import yaml
from helpers import cell, drawn, put
from reprofs.data import columns, outputs, reader, rows
from reprofs.data import study as data
from reprofs.data import tables as dataset
from reprofs.data.keys import Load, Operation, Setting, distinct, select
from reprofs.data.latency import bucket_bounds
from reprofs.data.rows import label
from reprofs.errors import UserError
from reprofs.importers import fio
from reprofs.plan.plan import Plan
from reprofs.plan.stack import Fault
from reprofs.records import raw as seals


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Fixture records of three file systems, with a failed and a missing trial."""
    folder = tmp_path_factory.mktemp("records")
    failures = {("jfs", "repository", 2): ("failed", "git clone ended with exit code 128.")}
    make.make(folder, rounds=2, systems=["ext4", "jfs", "btrfs", "tmpfs"], failures=failures)
    (folder / "raw/r1-exact-single-ssd-jfs+default-metadata-smoke.json").unlink()
    return folder


@pytest.fixture(scope="module")
def tables(source):
    dataset.build(source / "plan.json", source / "raw", source / "tables")
    return source / "tables"


def copy_with(source: Path, target: Path, change, seal=seals.seal) -> Path:
    """A copy of one record's study with the record changed by `change(record)`; returns the record's path.

    seal: makes digests that fit the change, as the trial itself would have.
    """
    make.make(target, rounds=1, systems=["ext4"], workloads=["metadata"], failures={})
    path = next((target / "raw").iterdir())
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(seal(record) if "digests" in record else record))
    return path


def test_identical_input_gives_identical_bytes(source, tables, tmp_path):
    dataset.build(source / "plan.json", source / "raw", tmp_path / "again")
    names = sorted(path.name for path in tables.iterdir())
    assert names == sorted(path.name for path in (tmp_path / "again").iterdir())
    for name in names:
        assert (tables / name).read_bytes() == (tmp_path / "again" / name).read_bytes(), name


def test_several_processes_that_read_batches_give_the_same_tables(source, tables, tmp_path):
    dataset.build(source / "plan.json", source / "raw", tmp_path / "tables", batch=4)
    for path in (path for path in tables.iterdir() if path.name != "files.sha256"):
        other = tmp_path / "tables" / path.name
        # Rows are grouped by batches in the file of latencies.
        same = pq.read_table(path).equals(pq.read_table(other)) if path.stem == "latency" else None
        assert same or path.read_bytes() == other.read_bytes(), path.name


@pytest.mark.wide
def test_a_bad_record_is_named_by_several_processes_too(source, tmp_path):
    shutil.copytree(source, tmp_path / "study")
    path = sorted((tmp_path / "study/raw").glob("*.json"))[-1]
    path.write_text(path.read_text()[:-9])
    with pytest.raises(UserError, match="is not valid JSON") as caught:
        dataset.build(tmp_path / "study/plan.json", path.parent, tmp_path / "tables", batch=4)
    assert str(path) in str(caught.value) and not list(tmp_path.glob("tables*"))


def test_a_record_that_is_written_in_another_way_is_whole(source, tmp_path):
    """Text outside ASCII, numbers with an exponent: what the quick check of the digests writes otherwise."""

    def change(record):
        record["measurement"]["phases"][0]["output"] = "caf\u00e9 \x7f \U0001f600"
        record["environment"]["host_seconds"] = 1e-07

    path = copy_with(source, tmp_path, change)
    assert not seals.whole(json.loads(path.read_text())) and not seals.broken(json.loads(path.read_text()))
    dataset.build(tmp_path / "plan.json", tmp_path / "raw", tmp_path / "tables")
    assert list(data.load(tmp_path / "tables").trials["status"]) == ["ok"]


def test_what_looks_like_buckets_in_outputs_and_before_the_measured_phases(source, tmp_path):
    def change(record):
        measurement = record["measurement"]
        first = next(phase for phase in measurement["phases"] if phase["latency"])
        measurement["preparation"] = [first | {"name": "before", "latency": first["latency"] | {"buckets": [[9, 9]]}}]
        measurement["commands"][0]["output"] = '"latency": {"buckets": [[1, 2], [3, 4]]}'

    copy_with(source, tmp_path / "changed", change)
    copy_with(source, tmp_path / "same", lambda record: None)
    for name in ("changed", "same"):
        dataset.build(tmp_path / name / "plan.json", tmp_path / name / "raw", tmp_path / name / "tables")
    latency = [(tmp_path / name / "tables/latency.parquet").read_bytes() for name in ("changed", "same")]
    assert latency[0] == latency[1]


def test_buckets_in_any_order_and_none_at_all(source, tmp_path):
    def change(record):
        latencies = [phase["latency"] for phase in record["measurement"]["phases"] if phase["latency"]]
        latencies[0].update(count=9, buckets=[[700, 2], [5, 3], [640, 4]])
        latencies[1].update(count=0, buckets=[])

    path = copy_with(source, tmp_path, change)
    dataset.build(tmp_path / "plan.json", tmp_path / "raw", tmp_path / "tables")
    first, second, *_ = (phase for phase in json.loads(path.read_text())["measurement"]["phases"] if phase["latency"])
    latency = data.load(tmp_path / "tables").latency
    own = select(latency, phase=first["name"], cache=first["cache"])
    assert list(own["count"]) == [3, 4, 2] and own["lower_ns"].is_monotonic_increasing
    assert select(latency, phase=second["name"], cache=second["cache"]).empty and len(latency) > 3


def test_a_rebuild_replaces_the_folder(source, tables, tmp_path):
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables/left.over").write_text("")
    with pytest.raises(UserError, match="exists and has no tables"):
        dataset.build(source / "plan.json", source / "raw", tmp_path / "tables")
    assert (tmp_path / "tables/left.over").exists()
    (tmp_path / "tables/records.sha256").write_text("")
    dataset.build(source / "plan.json", source / "raw", tmp_path / "tables")
    assert not (tmp_path / "tables/left.over").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["tables"]


def test_every_planned_trial_is_a_row(source, tables):
    trials = data.load(tables).trials.set_index("trial")
    plan = json.loads((source / "plan.json").read_text())
    assert set(trials.index) == {trial["id"] for trial in plan["trials"]}
    missing = trials.loc["r1-exact-single-ssd-jfs+default-metadata-smoke"]
    assert (missing["status"], missing["reason"]) == ("missing", "There is no record: the trial has not run.")
    failed = trials.loc["r2-exact-single-ssd-jfs+default-repository-smoke"]
    assert (failed["status"], failed["reason"]) == ("failed", "git clone ended with exit code 128.")
    assert failed["phases"] == 5


def test_a_record_may_have_every_state_of_a_stack():
    states = reader.record_schema()["properties"]["measurement"]["properties"]["stack"]["properties"]["state"]["enum"]
    assert set(states) == {"healthy", *get_args(Fault.model_fields["state"].annotation)}


def test_a_new_key_of_a_phase_needs_a_line_in_the_schema_and_one_in_the_columns(source, tmp_path, monkeypatch):
    monkeypatch.setitem(columns.TABLES, "phases", f"{columns.TABLES['phases']}page_faults | int64 | | Page faults\n")
    known = reader.record_schema()
    keys = known["$defs"]["phase"]["properties"] | {"page_faults": {"type": "integer"}}
    changed = known | {"$defs": known["$defs"] | {"phase": known["$defs"]["phase"] | {"properties": keys}}}
    monkeypatch.setattr(reader, "record_schema", lambda: changed)
    monkeypatch.setattr(rows, "record_schema", lambda: changed)
    caches = columns.schema, rows._in_record, rows._keys
    for cached in caches:
        cached.cache_clear()
    copy_with(source, tmp_path, lambda record: record["measurement"]["phases"][2].update(page_faults=7))
    try:
        dataset.build(tmp_path / "plan.json", tmp_path / "raw", tmp_path / "tables")
        faults = data.load(tmp_path / "tables").phases.sort_values("position")["page_faults"]
    finally:
        for cached in caches:
            cached.cache_clear()
    assert faults[2] == 7 and faults.count() == 1


def test_values_come_from_the_record(source, tables):
    study = data.load(tables)
    name = "r2-exact-single-ssd-btrfs+zstd-metadata-smoke"
    record = json.loads((source / f"raw/{name}.json").read_text())
    rows = study.phases[study.phases["trial"] == name].sort_values("position")
    for row, phase in zip(rows.to_dict("records"), record["measurement"]["phases"], strict=True):
        assert (row["phase"], row["cache"], row["label"]) == (phase["name"], phase["cache"], "btrfs+zstd")
        assert row["wall_ns"] == phase["wall_ns"]
        assert row["wall_ns_per_item"] == pytest.approx(phase["wall_ns"] / phase["items"])
        assert row["device_read_bytes"] == phase["device"]["read_bytes"]
        counts = study.latency[
            (study.latency[["trial", "phase", "cache"]] == [name, row["phase"], row["cache"]]).all(axis=1)
        ]
        assert counts["count"].sum() == phase["latency"]["count"]
    trial = study.trials.set_index("trial").loc[name]
    assert trial["mounted_options"] == "rw,relatime,compress=zstd:3"
    assert trial["make_command"] == "mkfs.btrfs -q /dev/nullb0"


def test_what_has_no_device_has_no_counters(tables):
    phases = data.load(tables).phases
    ceiling = phases[phases["label"] == "tmpfs"]
    assert ceiling["device_reads"].isna().all() and ceiling["cold_proved"].isna().all()
    assert set(ceiling["role"]) == {"ceiling"}


def test_the_dictionary_has_every_column_and_no_other(tables):
    dictionary = pd.read_csv(tables / "dictionary.csv", keep_default_na=False)
    study = data.load(tables)
    for name in ("trials", "phases", "samples", "clients", "latency"):
        described = dictionary.loc[dictionary["table"] == name, "column"].tolist()
        assert described == list(getattr(study, name).columns)
    assert dictionary["meaning"].str.len().gt(0).all()
    timed = dictionary[dictionary["column"].str.endswith("_ns")]
    assert set(timed["unit"]) == {"ns"}
    assert set(dictionary.loc[dictionary["column"].str.endswith("_bytes"), "unit"]) == {"bytes"}


def test_bucket_bounds_hold_their_values_within_the_promised_error():
    for value in [*range(300), 1023, 1024, 123_456_789, 2**40 + 12345]:
        exponent = max(value.bit_length() - 7, 0)
        index = value if value < 128 else (exponent << 6) + (value >> exponent)
        lower, upper = bucket_bounds(index)
        assert lower <= value < upper
        if value >= 128:
            assert abs((lower + upper) / 2 - value) / value <= 0.008
    bounds = [bucket_bounds(index) for index in range(2000)]
    assert all(first[1] == second[0] for first, second in itertools.pairwise(bounds))


def test_environment_counts_distinct_values(tables):
    environment = data.load(tables).environment
    assert environment["values"]["lab.qemu"] == {"7.2.22": environment["records"]}
    assert environment["first_started"] < environment["last_started"]
    assert not any(key.startswith("job") for key in environment["values"])


def create(key: str, value):
    """A change of the phase create."""
    return put(f"measurement.phases.1.{key}", value)


def latency(**keys):
    """A change of the latencies of the phase create."""
    return lambda record: record["measurement"]["phases"][1]["latency"].update(keys)


def twice(record):
    record["measurement"]["phases"].append(record["measurement"]["phases"][0])


def another_job(record):
    job = "another job\n"
    record["environment"].update(job=job, job_sha256=hashlib.sha256(job.encode()).hexdigest())


BAD_INDEX = "phases.1.latency.buckets has an index that is not one of 0 to 3710"


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (put("status", ...), "'status' is a required property"),
        (put("status", "fine"), "status: 'fine' is not one of"),
        (create("wall_ns", "1"), "measurement.phases.1.wall_ns"),
        (create("surprise", 1), "measurement.phases.1: Additional"),
        (put("trial.seed", 1), "trial.seed is 1, planned is 20260101"),
        (latency(count=1), "phases.1.latency.count"),
        (twice, "repeats make-tree"),
        (latency(count=1, buckets=[[3711, 1]]), BAD_INDEX),
        (latency(count=1, buckets=[[-1, 1]]), BAD_INDEX),
        (latency(count=6, buckets=[[1], [2, 3, 4]]), "phases.1.latency.buckets.0: [1] "),
        (latency(count=1, buckets=[[5, 2**63]]), "phases.1.latency.buckets.0.1 does not fit into 64 bits"),
        (latency(count=0, buckets=[[5, 2**62]] * 4), "phases.1.latency.count is not the sum"),  # 0 in 64 bits
        (create("wall_ns", 2**63), "phases.1.wall_ns does not fit"),
        (create("wall_ns", 2**70), "phases.1.wall_ns does not fit"),
        (put("measurement.devices.0.extra", [1, -1e19]), "extra.1 does not fit into 64"),
        # Whole, but of another job, protocol, lab or clock; or its status is not what its measurement says.
        (another_job, "environment.job_sha256 is"),
        (put("environment.job", "another job\n"), "is not the digest of environment.job"),
        (put("environment.protocol", 2), "environment.protocol is 2, planned is 1"),
        (put("environment.lab.name", "vm"), "environment.lab.name is vm, planned is exact"),
        (put("measurement.clock.name", "wall"), "measurement.clock.name is wall"),
        (put("trial.round", 2), "trial.round is 2, planned is 1"),
        (put("measurement.phases.1", ...), "phase create (warm) is missing"),
        (put("measurement", {}), "phase make-tree (warm) is missing"),
        (put("measurement.verification.0.mismatches", 1), "1 files have other content"),
        (put("schema", 1), "another version of ReproFS"),
    ],
)
def test_a_bad_record_is_named_with_its_key(source, tmp_path, change, part):
    path = copy_with(source, tmp_path, change)
    with pytest.raises(UserError) as caught:
        dataset.build(tmp_path / "plan.json", tmp_path / "raw", tmp_path / "tables")
    assert str(path) in str(caught.value) and part in str(caught.value)
    assert not (tmp_path / "tables").exists()


def swap_round(record):
    record["measurement"] = make._measurement(record["trial"] | {"round": 2}, 1.0)


def failed(record):
    record.update(status="failed", reason="It broke.")


@pytest.mark.parametrize(
    "change",
    [
        create("wall_ns", 7),
        create("items", 4000),
        put("measurement.phases.1", ...),
        put("measurement", {}),
        put("measurement.verification", []),
        put("measurement.commands.0.argv", ["mkfs.ext4", "-O", "^has_journal"]),
        put("environment.qemu", "9"),
        put("environment.lab.image_sha256", "0" * 64),
        put("digests.measurement", "0" * 64),
        swap_round,
        failed,
    ],
)
def test_a_record_that_was_changed_after_its_trial_is_refused(source, tmp_path, change):
    path = copy_with(source, tmp_path, change, seal=lambda record: record)
    with pytest.raises(UserError, match="was changed after its trial") as caught:
        dataset.build(tmp_path / "plan.json", tmp_path / "raw", tmp_path / "tables")
    assert str(path) in str(caught.value) and not (tmp_path / "tables").exists()


@pytest.mark.parametrize("key", ["qemu", "image_sha256", "initrd_sha256", "command"])
def test_records_of_two_guests_are_not_one_study(source, tmp_path, key):
    shutil.copytree(source, tmp_path / "study")
    path = next((tmp_path / "study/raw").glob("r1-*ext4*metadata*"))
    record = json.loads(path.read_text())
    record["environment"]["lab"][key] = "another"
    path.write_text(json.dumps(seals.seal(record)))
    with pytest.raises(UserError, match="do not come from one guest") as caught:
        dataset.build(tmp_path / "study/plan.json", path.parent, tmp_path / "tables")
    assert f"environment.lab.{key}" in str(caught.value) and path.name in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ([{"engine_sha256": "another"}], "engine_sha256"),
        ([{"programs_sha256": {"mdtest": "one"}}, {"programs_sha256": {"mdtest": "other"}}], "programs_sha256.mdtest"),
        ([{"programs_sha256": {"mdtest": "one"}}, {"programs_sha256": {"walk": "other"}}], ""),
        ([{"programs_sha256": {"a.ko": "one"}}, {"programs_sha256": {"a.ko": "other"}}], "programs_sha256.a.ko"),
    ],
)
def test_records_of_two_engines_are_not_one_study(tmp_path, changes, key):
    """In labs with a real clock, too; records need not have used the same programs."""
    plan = make.make(tmp_path, rounds=2, systems=["ext4"], workloads=["metadata"], failures={}, labs=("host",))
    for path, change in zip(sorted((tmp_path / "raw").iterdir()), changes, strict=False):
        record = json.loads(path.read_text())
        record["environment"]["lab"] |= change
        path.write_text(json.dumps(seals.seal(record)))
    if not key:
        dataset.build(plan, tmp_path / "raw", tmp_path / "tables")
        return
    with pytest.raises(UserError, match=r"do not come from one (engine|guest)") as caught:
        dataset.build(plan, tmp_path / "raw", tmp_path / "tables")
    assert f"environment.lab.{key} has 2 values" in str(caught.value)


def test_kernels_have_modules_of_their_own(tmp_path):
    """The engine's kernel modules are compiled for the kernel of a lab."""
    words = {"rounds": 1, "systems": ["ext4"], "workloads": ["metadata"], "failures": {}, "labs": ("host", "exact")}
    plan = make.make(tmp_path, **words)
    for path in (tmp_path / "raw").iterdir():
        record = json.loads(path.read_text())
        record["environment"]["lab"]["programs_sha256"] = {"a.ko": record["trial"]["lab"]}
        path.write_text(json.dumps(seals.seal(record)))
    assert dataset.build(plan, tmp_path / "raw", tmp_path / "tables") is None


@pytest.mark.parametrize("times", [15, pytest.param(500, marks=pytest.mark.soak)])
def test_every_flipped_bit_is_noticed(source, tmp_path, times):
    """A damaged record never becomes a table, wherever the damage is."""
    path = copy_with(source, tmp_path, lambda record: None)
    whole = path.read_bytes()
    draw = drawn()
    for _ in range(times):
        damaged = bytearray(whole)
        damaged[draw.randrange(len(damaged))] ^= 1 << draw.randrange(8)
        path.write_bytes(damaged)
        with contextlib.suppress(ValueError):
            if json.loads(damaged) == json.loads(whole):  # as a letter of a key that nobody reads may be
                continue
        with pytest.raises(UserError):
            dataset.build(tmp_path / "plan.json", tmp_path / "raw", tmp_path / "tables")


def test_records_nested_too_deep_are_named(source, tmp_path):
    path = copy_with(source, tmp_path, lambda record: None)
    path.write_text("[" * 100_000)
    with pytest.raises(UserError, match="is nested too deeply"):
        dataset.build(tmp_path / "plan.json", tmp_path / "raw", tmp_path / "tables")


def test_the_records_of_the_tables_can_be_checked_with_sha256sum(source, tables):
    done = subprocess.run(
        ["sha256sum", "--check", "--quiet", tables / "records.sha256"], cwd=source / "raw", check=True
    )
    assert done.returncode == 0
    assert len((tables / "records.sha256").read_text().splitlines()) == len(list((source / "raw").glob("*.json")))


def test_bad_files_are_named(tmp_path):
    with pytest.raises(UserError, match=r"plan\.json"):
        dataset.build(tmp_path / "plan.json", tmp_path, tmp_path / "tables")
    (tmp_path / "plan.json").write_text("{")
    with pytest.raises(UserError, match="not valid JSON"):
        dataset.build(tmp_path / "plan.json", tmp_path, tmp_path / "tables")
    (tmp_path / "plan.json").write_text("{}")
    with pytest.raises(UserError, match="study is missing: run `reprofs plan`"):
        dataset.build(tmp_path / "plan.json", tmp_path, tmp_path / "tables")
    with pytest.raises(UserError, match="no tables"):
        data.load(tmp_path)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """Tables of a study in two labs on healthy, degraded and rebuilding stacks, with a skipped trial."""
    folder = tmp_path_factory.mktemp("mixed")
    skipped = {
        ("xfs", "metadata", 1, "md-raid5", "host"): ("skipped", "This machine has no command mdadm: install it.")
    }
    stacks = ["md-raid5-rebuilding", "single", "md-raid5-degraded", "md-raid5"]
    options = {"systems": ["ext4", "xfs"], "workloads": ["metadata"], "failures": skipped, "stacks": stacks}
    make.make(folder, labs=["exact", "host"], **options)
    dataset.build(folder / "plan.json", folder / "raw", folder / "tables")
    return data.load(folder / "tables")


def test_what_a_stack_was_is_in_the_table_of_trials(mixed):
    trials = mixed.trials.set_index("trial")
    broken = trials.loc["r1-exact-md-raid5-degraded-ssd-ext4+default-metadata-smoke"]
    assert (broken["stack_disks"], broken["stack_state"]) == (6, "degraded")
    assert broken["stack_initial_sync"] == "assumed clean: the disks read as zeros"
    assert broken["stack_fault"] == "mdadm /dev/md0 --fail /dev/nullb1"
    # As it was after the fault; the members of the array are left out.
    assert broken["stack_readback"] == "md0 : active raid5\n[6/5] [UUUUU_]"
    assert (broken["prepared_items"], broken["prepared_bytes"]) == (64, 0)
    assert broken["devices"].startswith("nullb0 to nullb5: each 1024 MiB")
    whole = trials.loc["r1-exact-md-raid5-ssd-ext4+default-metadata-smoke"]
    assert whole["stack_readback"] == "md0 : active raid5\n[6/6] [UUUUUU]" and pd.isna(whole["stack_fault"])
    skipped = trials.loc["r1-host-md-raid5-ssd-xfs+default-metadata-smoke"]
    assert (
        skipped["status"] == "skipped" and pd.isna(skipped["stack_state"]) and "no command mdadm" in skipped["reason"]
    )


def test_phases_say_whether_the_array_was_rebuilding(mixed):
    phases = mixed.phases[mixed.phases["stack"] == "md-raid5-rebuilding"]
    during = phases[(phases["operation"] != "rebuild")].groupby("position")["rebuilding"].unique()
    assert [list(values) for values in during] == [[True]] * 8 + [[False]]
    assert mixed.phases.loc[mixed.phases["stack"] == "md-raid5", "rebuilding"].isna().all()


def test_real_clocks_are_told_with_the_conditions_of_their_host(mixed):
    host = mixed.trials[(mixed.trials["lab"] == "host") & (mixed.trials["round"] == 3)].iloc[0]
    assert (host["settled"], host["settling_s"], host["load_before"], host["load_after"]) == (False, 60.0, 2.5, 2.9)
    assert "stayed above" in host["settling_reason"] and host["steal_share"] == pytest.approx(0.012)
    assert (host["frequency_low_mhz"], host["frequency_high_mhz"], host["governor"]) == (2000, 3100, "performance")
    assert pd.isna(host["temperature_c"])
    exact = mixed.trials[mixed.trials["lab"] == "exact"]
    assert exact[["settled", "load_before", "steal_share"]].isna().all(axis=None)
    ranges = mixed.environment["conditions"]
    assert set(ranges) == {"host"} and (ranges["host"]["trials"], ranges["host"]["unsettled"]) == (24, 8)
    assert ranges["host"]["load_1min"] == [0.1, 2.9] and ranges["host"]["steal_share"] == [0.004, 0.012]
    assert not any(key.startswith(("settling", "conditions")) for key in mixed.environment["values"])


def test_stacks_are_in_the_order_of_the_study(mixed):
    assert list(mixed.stacks()) == ["md-raid5-rebuilding", "single", "md-raid5-degraded", "md-raid5"]
    # What the plan calls md-raid5, with six as its default.
    study = mixed.plan.study.model_copy(update={"stacks": ["single", "md-raid5@6"]})
    changed = dataclasses.replace(mixed, plan=mixed.plan.model_copy(update={"study": study}))
    assert list(changed.stacks())[:2] == ["single", "md-raid5"]


def test_key_lines_of_what_a_stack_says_of_itself():
    """Those that the stack's own file names; the members of an array never, and all of an output of two lines."""
    files = Path(__file__).parents[1] / "workflow/stacks"
    md, btrfs = (
        yaml.safe_load((files / f"{name}.yaml").read_text())["summary"] for name in ("md-raid5", "btrfs-raid1")
    )
    mdstat = (
        "Personalities : [raid6] [raid5] [raid4] \nmd127 : active raid5 nullb0[0] nullb2[2] nullb1[1](F)\n"
        "      196608 blocks super 1.2 level 5, 512k chunk, algorithm 2 [3/2] [U_U]\n      \nunused devices: <none>\n"
    )
    assert outputs.key_lines(mdstat, tuple(md)) == [
        "md127 : active raid5",
        "196608 blocks super 1.2 level 5, 512k chunk, algorithm 2 [3/2] [U_U]",
    ]
    assert outputs.key_lines("recover\n", tuple(md)) == ["recover"]
    assert outputs.key_lines(" linear 1 6 active\n", ()) == ["linear 1 6 active"]
    usage = (
        "Overall:\n    Device size:\t1.00GiB\n    Used:\t1\n\nData,RAID1: Size:1.00GiB, Used:0.00B\n   /dev/nullb0\t1\n"
    )
    assert outputs.key_lines(usage, tuple(btrfs)) == ["Data,RAID1: Size:1.00GiB, Used:0.00B"]
    assert outputs.key_lines(usage, ()) == []


def sample(name: str, wall: int, **more) -> dict:
    return {"name": name, "start_ns": 0, "wall_ns": wall, "items": 10, "bytes": 100} | more


def with_phase(folder: Path, entry: dict, **phase) -> data.Tables:
    """The tables of one trial with these keys of its first phase, in the record and as it is planned."""

    def change(part):
        if "measurement" in part:
            part["measurement"]["phases"][0] |= phase
        else:
            part["workloads"]["metadata"]["phases"][0] |= entry

    return built(folder, change)


def built(folder: Path, change) -> data.Tables:
    """The tables of one trial whose record was changed by `change(record)`, and its plan by `change(plan)`."""
    path = copy_with(folder, folder / "study", change)
    plan = folder / "study/plan.json"
    content = json.loads(plan.read_text())
    change(content)
    plan.write_text(json.dumps(content))
    dataset.build(plan, path.parent, folder / "tables")
    return data.load(folder / "tables")


def test_parts_of_a_phase_are_rows_in_its_place(tmp_path):
    """The sum of a client's samples, the slowest client's, the mean over iterations."""
    parts = [sample("b", 5)]
    parts += [
        sample("a", w, client=c, iteration=i) for i, c, w in [(0, 0, 10), (0, 0, 20), (0, 1, 7), (1, 0, 3), (1, 1, 50)]
    ]
    study = with_phase(tmp_path, {"samples": {"a": "First", "b": "Second", "c": "Third"}}, samples=parts)
    rows = study.phases.set_index("phase")
    assert list(study.phases["phase"][:3]) == ["a", "b", "create"], "a declared part without samples is no row"
    assert list(study.phases["position"]) == list(range(len(study.phases)))
    assert rows.loc["a", "wall_ns"] == (30 + 50) / 2 and rows.loc["b", "wall_ns"] == 5
    assert (rows.loc["a", "items"], rows.loc["a", "bytes"]) == (25, 250)
    assert rows.loc["a", ["user_ns", "sync_ns", "device_reads", "latency_count"]].isna().all()
    assert study.title("metadata", "a", "warm") == "First"
    whole = study.plan.workloads["metadata"].phases[0]  # all its parts together have its own title
    assert study.title("metadata", whole.name, whole.cache).startswith(whole.title)
    found = study.samples[study.samples["phase"] == "make-tree"]
    assert list(found["wall_ns"]) == [5, 10, 20, 7, 3, 50] and found["iteration"].isna().sum() == 1


def test_clients_and_their_parts(tmp_path):
    clients = [
        {"start_ns": 0, "wall_ns": 90, "items": 1, "bytes": 0},
        {"start_ns": 4, "wall_ns": 80, "items": 1, "bytes": 0},
    ]
    parts = [sample("a", 10, client=1) | {"start_ns": 5}, sample("a", 20, client=1) | {"start_ns": 30}]

    def change(part):
        if "measurement" in part:
            first, second = part["measurement"]["phases"][:2]
            first["clients"], second["clients"], second["samples"] = clients, clients, parts

    study = built(tmp_path, change)
    rows = study.clients[["phase", "client", "start_ns", "wall_ns", "items"]].values.tolist()
    assert rows == [["make-tree", 0, 0, 90, 1], ["make-tree", 1, 4, 80, 1], ["a", 1, 9, 45, 20]]


def test_runs_in_one_file_system_are_one_row_and_a_series(tmp_path):
    def change(part):
        if "measurement" in part:
            phases = part["measurement"]["phases"]
            again = [dict(phase, run=2, wall_ns=phase["wall_ns"] * 3) for phase in phases]
            for phase in again:  # of the last run one was not proved to be cold
                if phase["name"] == "read" and phase["cold"]:
                    phase["cold"] = phase["cold"] | {"proved": False}
            part["measurement"]["phases"] = [dict(phase, run=1) for phase in phases] + again
        else:
            part["workloads"]["metadata"]["runs"] = 2

    study = built(tmp_path, change)
    assert not study.phases.duplicated(["phase", "cache"]).any()
    series = study.samples[(study.samples["phase"] == "read") & (study.samples["cache"] == "cold")]
    assert list(series["iteration"]) == [0, 1] and series["start_ns"].isna().all()
    (row,) = study.phases[(study.phases["phase"] == "read") & (study.phases["cache"] == "cold")].itertuples()
    assert row.wall_ns == series["wall_ns"].mean() == series["wall_ns"].iloc[0] * 2
    cold = study.phases[study.phases["cache"] == "cold"]
    assert dict(zip(cold["phase"], cold["cold_proved"], strict=True))["read"] == False  # noqa: E712 (nullable)
    assert cold["cold_proved"].any()


def test_output_of_fio_becomes_a_sample(tmp_path):
    text = (Path(__file__).parent / "fixtures/import/fio.json").read_text()
    study = with_phase(tmp_path, {"parse": "fio", "samples": {"write": "Write with fio"}}, output=text, exit=0)
    expected = fio.samples(text)
    found = study.samples[study.samples["phase"] == "make-tree"]
    assert list(found["wall_ns"]) == [one["wall_ns"] for one in expected] and set(found["name"]) == {"write"}


@pytest.mark.parametrize(
    ("samples", "kind"),
    [
        ([("one", 0, 5, {}), ("two", 5, 3, {})], "in-turn"),
        ([("one", 0, 5, {"client": 1}), ("two", 9, 3, {"client": 1}), ("two", 12, 1, {"client": 1})], "in-turn"),
        ([("one", 0, 5, {}), ("two", 4, 3, {})], "at-once"),
        ([("one", 0, 50, {}), ("two", 50, 1, {}), ("one", 60, 50, {}), ("two", 51, 10, {})], "at-once"),
        ([("one", 0, 5, {"client": 0}), ("two", 5, 3, {"client": 1})], "at-once"),
        ([("one", 0, 5, {"iteration": 0}), ("one", 5, 5, {"iteration": 1}), ("two", 10, 3, {})], "repeated"),
        ([("one", 0, 5, {}), ("two", 5, 3, {}), ("one-over-time", 1, 2, {"client": 7})], "in-turn"),  # part of a part
    ],
)
def test_a_part_of_a_command_says_whether_it_has_a_sum_with_others(samples, kind, tmp_path):
    parts = [sample(name, wall, start_ns=start) | more for name, start, wall, more in samples]
    planned = {"samples": {"one": "One", "two": "Two"}}
    phases = with_phase(tmp_path, planned, samples=parts).phases.set_index("phase")["part"]
    assert phases["one"] == kind and (phases["two"] == kind or kind == "repeated")
    assert phases.drop(["one", "two"]).isna().all()


def test_flushes_that_fio_timed_are_columns(tmp_path):
    """As the other latencies of a phase; version 3.39 counts them beside the latencies only."""
    data = json.loads((Path(__file__).parent / "fixtures/import/fio.json").read_text())
    lat = {"min": 700, "max": 9000, "mean": 800.5, "stddev": 1.0, "N": 40, "percentile": {"99.000000": 8800}}
    data["jobs"][0]["sync"] = {"total_ios": 0, "lat_ns": lat}
    planned = {"parse": "fio", "samples": {"write": "Write with fio"}}
    phases = with_phase(tmp_path, planned, output=json.dumps(data), exit=0).phases
    columns = [f"flush_{key}" for key in ("count", "sum_ns", "min_ns", "max_ns", "p99_ns")]
    timed = phases.dropna(subset="flush_count")
    assert timed[["phase", *columns]].to_numpy().tolist() == [["write", 40, 32020, 700, 9000, 8800]]
    assert len(phases) > 1 and phases.drop(timed.index)[columns].isna().all(axis=None)


IOZONE = (Path(__file__).parent / "fixtures/import/iozone.txt").read_text()


def test_every_number_of_iozone_becomes_a_sample(tmp_path):
    study = with_phase(tmp_path, {"parse": "iozone", "samples": {"write": "Write"}}, output=IOZONE, exit=0)
    found = study.samples[study.samples["phase"] == "make-tree"]
    names = ["write", "rewrite", "random-read", "random-write", "write", "rewrite", "random-read", "random-write"]
    assert list(found["name"]) == names
    # By hand: 102,400 KiB at 20,000 KiB/s are 5.12 s, at 900,000 KiB/s 113.8 ms.
    assert found["wall_ns"].iloc[0] == 5_120_000_000 and found["wall_ns"].iloc[6] == 113_777_778
    assert set(found["bytes"]) == {104_857_600}


@pytest.mark.parametrize(
    ("program", "output"),
    [
        *(("fio", output) for output in ("", "fio: killed", '{"jobs": [', "[" * 100_000)),
        ("fio", '{"fio version": "fio-3.39", "jobs": []}'),
        *(("iozone", output) for output in ("", "iozone: killed", IOZONE[: IOZONE.index("1024    81920")])),
        ("iozone", IOZONE.replace("kBytes/sec", "operations per second").replace("Output", "OPS Mode. Output")),
        ("iozone", IOZONE.replace("20000", "    0")),
    ],
    ids=itertools.count(),
)
def test_output_that_cannot_be_read_is_a_failed_trial(tmp_path, program, output):
    """A failure is a row: the other trials of the study are in the tables."""
    planned = {"parse": program, "samples": {"write": "Write"}}
    (row,) = with_phase(tmp_path, planned, output=output, exit=0).trials.itertuples()
    assert row.status == "failed"
    assert row.reason.startswith(f"Phase make-tree: {program}'s output") and len(row.reason) < 300


def test_what_a_check_after_a_power_cut_said_in_vain_is_a_failed_trial(tmp_path):
    def change(part):
        if "measurement" in part:
            command = dict(
                part["measurement"]["commands"][0], stage="check create", output='{"written": 1, "kept": }\n'
            )
            part["measurement"]["commands"].append(command)

    (row,) = built(tmp_path, change).trials.itertuples()
    assert (row.status, "The output of check create is not valid JSON" in row.reason) == ("failed", True)


def test_checks_of_a_workload_are_counted(tmp_path):
    def change(part):
        if "measurement" in part:
            commands = part["measurement"]["commands"]
            commands += [dict(commands[0], stage="check read", exit=code) for code in (0, 0, 1)]

    assert list(built(tmp_path, change).trials["checks"]) == [2]


BEFORE = sample("layout-before", 2, items=9, extents=18, blocks=90, contiguous=81)
AFTER = sample("layout-after", 2, items=9, extents=27, blocks=90, contiguous=72)
SMALL = sample("layout-before", 2, items=9, extents=9, blocks=0, contiguous=0)  # no file has a second block


@pytest.mark.parametrize(
    ("samples", "shown"),
    [
        ([BEFORE, AFTER], ["2.000", "0.9000", "3.000", "0.8000"]),
        ([SMALL, {**SMALL, "name": "layout-after"}], ["1.000", "-", "1.000", "-"]),
        ([], ["-"] * 4),  # a file system without FIEMAP
    ],
)
def test_layout_of_an_aged_file_system(tmp_path, samples, shown):
    def change(part):
        if "measurement" in part:
            phase = dict(part["measurement"]["phases"][0], name="age", output="filled", samples=samples)
            part["measurement"]["preparation"] = [phase]
        else:
            part["workloads"]["metadata"]["fill"] = 50

    (row,) = built(tmp_path, change).trials.itertuples()
    told = [row.extents_before, row.layout_score_before, row.extents_after, row.layout_score_after]
    assert ["-" if pd.isna(number) else f"{number:#.4g}" for number in told] == shown and row.ageing == "filled"


def test_rows_are_chosen_by_keys_and_words(mixed):
    setting = Setting("host", "md-raid5", "ssd")
    chosen = select(mixed.phases, setting, Load("metadata", "smoke"), label="ext4", cache="cold")
    assert set(chosen["phase"]) == {"stat", "read"} and len(chosen) == 6
    assert {tuple(row) for row in chosen[list(Setting._fields)].to_numpy()} == {setting}
    operation = Operation("metadata", "smoke", "stat", "warm")
    assert set(select(chosen, operation)["phase"]) == set()
    assert len(select(mixed.phases, setting, operation, label="ext4")) == 3
    with pytest.raises(KeyError):
        select(mixed.phases, surprise=1)


def test_distinct_keys_are_sorted_named_tuples(mixed):
    found = distinct(mixed.trials, Setting)
    assert len(found) == 8 and found == sorted(found)
    assert found[0] == Setting("exact", "md-raid5", "ssd") and found[-1].stack == "single"
    assert str(found[0]) == "lab exact, stack md-raid5, device model ssd"
    assert distinct(mixed.trials, Load) == [Load("metadata", "smoke")] and str(Load("w", "s")) == "w (s)"
    assert distinct(mixed.trials.iloc[:0], Setting) == []


def test_frames_of_the_network_are_those_of_its_queues():
    def command(stage, *lines):
        return {"stage": stage, "output": "\n".join(lines)}

    shaped = "qdisc netem 8001: root refcnt 2 limit 341 delay 10us rate 1Gbit packetoverhead 24 seed 7"
    counts = " Sent 12600432 bytes 23418 pkt (dropped 3, overlimits 0 requeues 0)"
    free = "qdisc noqueue 0: root refcnt 2"
    none = " Sent 0 bytes 0 pkt (dropped 0, overlimits 0 requeues 0)"
    ends = command("network", "s1, its end:", shaped, counts, "s1, end of the switch:", shaped, counts)
    assert outputs.frames([command("make", shaped, counts), ends]) == {"network_frames": 46836, "network_dropped": 6}
    assert outputs.frames([command("network", free, none)]) == {"network_frames": None, "network_dropped": None}


def test_the_network_is_in_the_label_only_where_there_are_several():
    one, two = (Plan.model_construct(networks=dict.fromkeys(names)) for names in (["lan-1g"], ["lan-1g", "wan-20ms"]))
    for variant, expected in (("v3@lan-1g", "nfs+v3"), ("default@lan-1g", "nfs")):
        trial = cell("nfs", variant=variant)
        assert label(trial, one) == expected
        assert label(trial, two) == f"{expected}@lan-1g"
