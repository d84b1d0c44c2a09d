"""`reprofs calibrate`: the constants of a machine, with their spread; what is noisy is refused."""

import json
import subprocess

import pytest
import yaml
from reprofs import calibrate
from reprofs.errors import UserError
from reprofs.files import cache_folder
from reprofs.guest import engine
from reprofs.plan.machine import Constants, Machine

NAMES = ["instruction", "wake_up", "flush"]
QUIET = [5 + 0.01 * number for number in range(9)]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(calibrate, "place", lambda name: tmp_path)
    monkeypatch.setattr(calibrate, "_rounds", lambda flush: [{"wake_up": value} for value in QUIET])
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
    with pytest.raises(UserError, match=r"instruction \(.*flush \(.* ns\): too noisy") as error:
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
    monkeypatch.setattr(calibrate, "_rounds", lambda flush: [{"wake_up": 10 * i} for i in range(9)])
    with pytest.raises(UserError, match=r"^calibrate: wake_up \("):
        calibrate.calibrate("mine")
    assert not list(folder.iterdir())


@pytest.mark.parametrize("name", ["../mine", "Mine", ""])
def test_a_name_that_is_none(folder, name):
    with pytest.raises(UserError, match="is not a valid machine name"):
        calibrate.calibrate(name)


def test_the_program_measures_every_constant(tmp_path):
    command = [engine.build_calibrate(cache_folder()), "1", tmp_path]
    (line,) = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    found = json.loads(line)
    assert list(found) == ["wake_up", "flush"] and set(found) < set(Constants.model_fields)
    assert all(value > 0 for value in found.values()), found
    assert not list(tmp_path.iterdir())  # of the file whose flush was measured


def test_an_instruction_is_measured_in_both_labs(guest, monkeypatch):
    monkeypatch.setattr(calibrate, "ROUNDS", 1)
    (ns,) = calibrate._instructions()
    assert 0.01 < ns < 20  # a machine at work may be slow


def test_a_folder_in_memory_that_is_not_there_is_said(guest, monkeypatch, tmp_path):
    monkeypatch.setattr(calibrate, "MEMORY", str(tmp_path / "nowhere"))
    with pytest.raises(UserError, match="nowhere"):
        calibrate._instructions()


def test_a_folder_that_is_not_there_is_said(tmp_path):
    with pytest.raises(UserError, match=r"nowhere: No such file or directory: name a folder with --flush"):
        calibrate._rounds(tmp_path / "nowhere")


def test_no_guest_has_it():
    assert engine.SOURCE / "calibrate.c" not in engine.sources()
    assert "calibrate" not in engine.names()
