"""`reprofs calibrate`: the constants of a machine, with their spread; what is noisy is refused."""

import json
import subprocess

import pytest
import yaml
from reprofs import calibrate
from reprofs.errors import UserError
from reprofs.files import cache_folder
from reprofs.guest import engine
from reprofs.plan.catalog import Catalog
from reprofs.plan.device import Device
from reprofs.plan.machine import Machine
from reprofs.plan.read import validate

CATALOG = Catalog()
NAMES = ["instruction", "random", "sequential"]
QUIET = [5 + 0.01 * number for number in range(9)]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(calibrate, "place", lambda name: tmp_path)
    names = {False: ["wake_up"], True: ["random", "sequential"]}
    quiet = {disk: [dict.fromkeys(names[disk], value) for value in QUIET] for disk in names}
    monkeypatch.setattr(calibrate, "_rounds", lambda disk=None: quiet[bool(disk)])
    monkeypatch.setattr(calibrate, "_instructions", lambda: QUIET)
    return tmp_path


def test_median_and_spread():
    rounds = [{"wake_up": value} for value in (4.0, 4.1, 4.4, 3.9, 9.0)]  # one of them beside a busy neighbour
    assert calibrate.summarised(rounds) == {"wake_up": {"ns": 4.1, "mad": 0.2}}


@pytest.mark.parametrize("values", [(10, 20, 30), (-1, -1, -1), (0, 0, 0)])
def test_a_noisy_constant_is_named(values):
    with pytest.raises(UserError, match=r"^calibrate: flush \(.* ns\): too noisy: ") as error:
        calibrate.summarised([{"wake_up": 4.0, "flush": value} for value in values])
    assert len(str(error.value)) <= 300


def test_many_noisy_constants_are_one_sentence():
    with pytest.raises(UserError, match=r"instruction \(.*sequential \(.* ns\): too noisy") as error:
        calibrate.summarised([dict.fromkeys(NAMES, value) for value in (1234.5, 23456.7, 345678.9)])
    assert len(str(error.value)) <= 300


def test_a_machine_is_written_once(folder):
    path = calibrate.calibrate("mine")
    machine = Machine.model_validate(yaml.safe_load(path.read_text()))
    assert machine.constants.instruction.ns == 5.04 and machine.constants.wake_up.mad == 0.02
    assert machine.wake_ups == 2 and machine.error == 1.25
    before = path.read_bytes()
    with pytest.raises(UserError, match="exists: remove it, or choose another name"):
        calibrate.calibrate("mine")
    assert path.read_bytes() == before


def test_what_is_noisy_leaves_no_file(folder, monkeypatch):
    monkeypatch.setattr(calibrate, "_rounds", lambda: [{"wake_up": 10 * i} for i in range(9)])
    with pytest.raises(UserError, match=r"^calibrate: wake_up \("):
        calibrate.calibrate("mine")
    assert not list(folder.iterdir())


@pytest.mark.parametrize("name", ["../mine", "Mine", ""])
def test_a_name_that_is_none(folder, name):
    with pytest.raises(UserError, match="is not a valid name of a machine"):
        calibrate.calibrate(name)


def test_a_device_model_has_the_flush_of_a_disk_and_all_else_of_another(folder):
    path = calibrate.calibrate_disk("mine", folder, "ssd-sata", CATALOG)
    data = yaml.safe_load(path.read_text())
    found, like = validate(data, Device, "mine").disk, CATALOG.get(Device, "ssd-sata").disk
    assert found == like.model_copy(update={"flush_us": 0.0})  # 5 ns, less 20 us for the write
    assert (
        "in µs: at random 0.00504 (MAD 2e-05)" in data["sources"][0]
        and data["sources"][1] == "All other figures: ssd-sata."
    )
    for name, like, words in (
        ("mine", "ssd-sata", "exists: remove it"),
        ("other", "hdd-7200", "hdd-7200 is no modelled solid-state disk"),
        ("other", "ram", "ram is no modelled solid-state disk"),
    ):
        with pytest.raises(UserError, match=words):
            calibrate.calibrate_disk(name, folder, like, CATALOG)
    assert [each.name for each in folder.iterdir()] == ["mine.yaml"]


def test_the_program_measures_wake_ups_and_flushes(tmp_path):
    command = [engine.build_calibrate(cache_folder()), "1"]
    for words, names in (([], ["wake_up"]), ([tmp_path], ["sequential", "random"])):
        done = subprocess.run([*command, *words], check=True, capture_output=True, text=True)
        found = json.loads(done.stdout)
        assert list(found) == names and all(value > 0 for value in found.values()), found
    assert not list(tmp_path.iterdir())


def test_an_instruction_is_measured_in_both_labs(guest, monkeypatch):
    monkeypatch.setattr(calibrate, "ROUNDS", 1)
    (ns,) = calibrate._instructions()
    assert 0.01 < ns < 20  # a machine at work may be slow


def test_a_folder_in_memory_that_is_not_there_is_said(guest, monkeypatch, tmp_path):
    monkeypatch.setattr(calibrate, "MEMORY", str(tmp_path / "nowhere"))
    with pytest.raises(UserError, match="nowhere"):
        calibrate._instructions()


def test_a_folder_that_is_not_there_is_said(tmp_path):
    with pytest.raises(UserError, match=r"nowhere: No such file or directory: name a folder with --disk"):
        calibrate._rounds(tmp_path / "nowhere")


def test_no_guest_has_it():
    assert engine.SOURCE / "calibrate.c" not in engine.sources()
    assert "calibrate" not in engine.names()
