"""The store of records: which trials are the same, where a record is found again, what becomes of a damaged one."""

import json
import lzma

import pytest
from conftest import ROOT
from helpers import CATALOG, cell, changed
from reprofs.data import tables
from reprofs.errors import UserError
from reprofs.guest import qemu
from reprofs.plan.plan import write_plan
from reprofs.records import identity, publication, store
from reprofs.records.raw import LAYOUT, seal
from reprofs.trial import planning as plans
from reprofs.trial import progress
from reprofs.trial import run as trials

SMALL = cell("tmpfs", workload="metadata@40")
SHA = "0" * 64


@pytest.fixture
def record(recorded) -> dict:
    """A trial that was run, or found in the store."""
    return recorded(SMALL)


@pytest.fixture
def ready(record) -> trials.Ready:
    """The same trial, before it is run."""
    return trials.ready(SMALL, CATALOG)


@pytest.fixture
def cache(monkeypatch, tmp_path):
    """A store whose cache is empty."""
    monkeypatch.setattr(store, "cache_folder", lambda: tmp_path / "cache")
    return tmp_path / "cache"


# ---- identity --------------------------------------------------------------------------------------------------------


def test_a_trial_has_the_identity_of_its_record_before_it_is_run(record, ready):
    assert ready.identity == identity.of(identity.parts_of(record))


def with_lab(**parts):
    def change(record):
        record["environment"]["lab"] |= parts

    return change


def with_command(old, new):
    def change(record):
        command = record["environment"]["lab"]["command"]
        assert any(old in word for word in command)
        record["environment"]["lab"]["command"] = [word.replace(old, new) for word in command]

    return change


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("job_sha256", lambda record: record["environment"].update(job_sha256=SHA)),
        ("protocol", lambda record: record["environment"].update(protocol=0)),
        ("schema", lambda record: record.update(schema=LAYOUT + 1)),
        ("trial.workload", lambda record: record["trial"].update(workload="metadata@41")),
        ("trial.lab", lambda record: record["trial"].update(lab="exact@v2-0.5ns@debian-6.1")),
        ("lab.qemu", with_lab(qemu="10.0")),
        *((f"lab.{name}", with_lab(**{name: SHA})) for name in identity.GUEST if name.endswith("_sha256")),
        *((f"lab.{name}", with_lab(**{name: SHA})) for name in ("engine_sha256", "programs_sha256")),
        ("lab.command", with_command("+ssse3", "+ssse3,+avx")),  # the CPU model
        ("lab.command", with_command("3072M", "4096M")),
        ("lab.command", with_command("shift=0", "shift=1")),
    ],
)
def test_what_fixes_a_trial_is_in_its_identity(record, part, change):
    before, other = identity.parts_of(record), json.loads(json.dumps(record))
    change(other)
    after = identity.parts_of(other)
    assert identity.of(before) != identity.of(after) and list(identity.differing(before, after)) == [part]


def test_what_fixes_no_number_is_in_no_identity(record):
    other = json.loads(json.dumps(record))
    other["environment"] |= {"host_seconds": 9.0, "commit": "x", "started": "2040-01-01T00:00:00Z"}
    other["environment"]["lab"] |= {"start": "cold boot", "packages": {}}
    other["trial"] |= {"round": 9, "order": 5}
    assert identity.parts_of(other) == identity.parts_of(record)


def test_an_edited_file_or_program_or_guest_asks_for_another_record(ready, monkeypatch):
    """Through the way that the workflow goes: each kind of edit, and the trial is no longer the one in the store."""
    other = [changed(SMALL, seed=12), changed(SMALL, workload="metadata@41"), changed(SMALL, filesystem="ext4")]
    found = {trials.ready(trial, CATALOG).identity for trial in other}
    lab = ready.lab
    for part in ("root", "vmlinuz", "initrd", "gate"):
        monkeypatch.setitem(lab.manifest, part, lab.manifest[part] | {"sha256": SHA})
        found.add(identity_in(lab, ready))
        monkeypatch.undo()
    monkeypatch.setitem(lab.manifest, "engine_sha256", SHA)
    found.add(identity_in(lab, ready))
    monkeypatch.undo()
    monkeypatch.setitem(lab.lock.built, qemu.QEMU_OWN, (qemu.recipe_of_own(lab.lock), SHA))
    found.add(identity_in(lab, ready))
    assert len(found) == 9 and ready.identity not in found


def identity_in(lab, ready):
    return identity.of(identity.parts(ready.setup.cell.names(), ready.digest, lab.environment("")))


def test_a_real_clock_has_no_identity(record):
    record["measurement"]["clock"]["name"] = "wall"
    assert identity.of(identity.parts_of(record)) == ""
    assert identity.of(identity.parts_of({**record, "measurement": {}})) == ""


def test_what_the_lock_promises_is_what_is_run(ready, record):
    """So `verify` knows another lab before a guest is built."""
    promised = trials.promised(SMALL, CATALOG)
    assert len(promised) > 12 and not list(identity.differing(promised, identity.parts_of(record)))


# ---- the store -------------------------------------------------------------------------------------------------------


def test_a_record_is_found_again_by_its_identity(record, ready, cache):
    assert store.get(ready.identity, False) is None
    store.put(record)
    assert store.get(ready.identity, False) == (record, "cache")
    assert store.get("", False) is None


def test_what_cannot_be_published_is_not_taken_by_committed_code(record, ready, cache):
    modified = seal(record | {"environment": record["environment"] | {"commit": "3" * 40 + "+"}})
    store.put(modified)
    assert store.get(ready.identity, False) == (modified, "cache")
    assert store.get(ready.identity, False, committed=True) is None
    store.put(seal(modified | {"environment": record["environment"] | {"commit": "3" * 40}}))
    assert store.get(ready.identity, False, committed=True)


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-9],
        lambda data: b"",
        lambda data: lzma.compress(b"[]"),
        lambda data: lzma.compress(lzma.decompress(data).replace(b'"wall_ns": ', b'"wall_ns": 1', 1)),
    ],
)
def test_a_damaged_record_in_the_cache_is_as_none(record, ready, cache, damage):
    store.put(record)
    (file,) = cache.rglob("*.xz")
    file.write_bytes(damage(file.read_bytes()))
    assert store.get(ready.identity, False) is None
    store.put(record)
    assert store.get(ready.identity, False)


def test_a_record_of_another_trial_in_its_place_is_as_none(record, ready, cache):
    store.put(record)
    (file,) = cache.rglob("*.xz")
    other = json.loads(json.dumps(record))
    other["environment"]["job_sha256"] = SHA
    file.write_bytes(lzma.compress(json.dumps(seal(other)).encode()))
    assert store.get(ready.identity, False) is None


def test_trials_that_did_not_end_well_are_not_kept(record, cache):
    store.put(seal({**record, "status": "failed"}))
    assert not cache.exists()


def test_a_full_cache_loses_no_record(record, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setattr(store, "cache_folder", lambda: tmp_path / "file")
    store.put(record)


def test_published_records_are_taken_only_when_asked(guest, cache):
    result = publication.read(ROOT / "results/quick")
    name, trial = next(iter(result.trials.items()))
    assert store.get(trial.identity, False) is None
    found = store.get(trial.identity, True)
    assert found.origin == "results/quick" and found.record["digests"]["measurement"] == trial.measurement
    assert name.startswith(f"r{found.record['trial']['round']}-")


# ---- look up or run --------------------------------------------------------------------------------------------------


@pytest.fixture
def measured(monkeypatch, record):
    """How often a trial was really run; it gives the record."""
    count = []

    def measure(one, output, _, keep=True):
        count.append(keep)
        return json.loads(json.dumps(record))

    monkeypatch.setattr(trials, "measure", measure)
    return count


def test_what_was_measured_is_not_measured_twice(record, ready, cache, measured, tmp_path):
    output = tmp_path / "r1.json"
    assert trials.take_or_run(ready, output, 60, False, False)[1] == "" and len(measured) == 1
    store.put(record)
    found, origin = trials.take_or_run(ready, output, 60, False, False)
    assert (found, origin, len(measured)) == (record, "cache", 1)
    assert json.loads(output.read_text()) == record
    assert "not run: the record is from cache" in output.with_suffix(".console.log").read_text()
    assert trials.take_or_run(ready, output, 60, False, True)[1] == "cache, run again" and len(measured) == 2


def test_a_drawn_trial_that_measures_something_else_ends_the_study(record, ready, cache, measured, tmp_path):
    stored = json.loads(json.dumps(record))
    stored["measurement"]["phases"][0]["wall_ns"] += 2
    store.put(seal(stored))
    words = r"taken from cache and, as a random check, run again: it differs \(first in the phase make-tree"
    with pytest.raises(UserError, match=words):
        trials.take_or_run(ready, tmp_path / "r1.json", 60, False, True)
    assert not (tmp_path / "r1.json").exists() and measured == [False]


def test_a_run_that_checks_is_not_kept(ready, cache, tmp_path):
    trials.measure(ready, tmp_path / "check.json", 120, keep=False)
    assert not cache.exists()
    trials.measure(ready, tmp_path / "run.json", 120)
    assert store.get(ready.identity, False)


def test_in_another_round_of_another_study_it_is_the_same_measurement(record, ready, cache, measured, tmp_path):
    store.put(record)
    other = trials.ready(changed(SMALL, round=4), CATALOG)
    assert other.identity == ready.identity
    trials.take_or_run(other, tmp_path / "r4.json", 60, False, False)
    found = json.loads((tmp_path / "r4.json").read_text())
    assert found["trial"]["round"] == 4 and found == seal(found)
    assert found["digests"]["measurement"] == record["digests"]["measurement"] and not measured


def test_tables_say_how_many_trials_were_taken(record, tmp_path):
    plan = plans.make_plan("quick", CATALOG)
    trial = next(one for one in plan.trials if one.filesystem == "tmpfs")
    plan = plan.model_copy(update={"trials": [trial]})
    write_plan(plan, tmp_path / "plan.json")
    (tmp_path / "raw").mkdir()
    environment = []
    for origin in ("", "results/quick", "results/quick, run again"):
        store.note(tmp_path / f"raw/{trial.id}.json", origin)
        tables.build(tmp_path / "plan.json", tmp_path / "raw", tmp_path / "tables")
        environment.append(json.loads((tmp_path / "tables/environment.json").read_text()).get("taken"))
    once = {"taken": 1, "checked": 0}
    assert environment == [None, {"results/quick": once}, {"results/quick": once | {"checked": 1}}]


def test_the_line_of_a_trial_says_where_it_was_taken_from(record, tmp_path, monkeypatch):
    monkeypatch.delenv("REPROFS_PROGRESS", raising=False)
    assert progress.line(record, tmp_path / "r.json", 1.0, "results/quick").endswith(": taken from results/quick")
    assert "ok in 1.0 s" in progress.line(record, tmp_path / "r.json", 1.0)
