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

NAMES = ["instruction", "copy", "l2", "llc", "mispredict", "locked", "system_call", "wake_up"]
QUIET = [{name: 5 + 0.01 * number for name in NAMES} for number in range(9)]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(calibrate, "place", lambda name: tmp_path)
    monkeypatch.setattr(calibrate, "_rounds", lambda flush: QUIET)
    return tmp_path


def test_median_and_spread():
    rounds = [{"l2": value} for value in (4.0, 4.1, 4.4, 3.9, 9.0)]  # one of them beside a busy neighbour
    assert calibrate.summarised(rounds) == {"l2": {"ns": 4.1, "mad": 0.2}}


@pytest.mark.parametrize("values", [(10, 20, 30), (-1, -1, -1), (0, 0, 0)])
def test_a_noisy_constant_is_named(values):
    with pytest.raises(UserError, match=r"^calibrate: llc \(.* ns\): too noisy: ") as error:
        calibrate.summarised([{"l2": 4.0, "llc": value} for value in values])
    assert len(str(error.value)) <= 300


def test_many_noisy_constants_are_one_sentence():
    with pytest.raises(UserError, match=r"instruction \(.* and \d more: too noisy") as error:
        calibrate.summarised([dict.fromkeys(NAMES, value) for value in (1234.5, 23456.7, 345678.9)])
    assert len(str(error.value)) <= 300


def test_a_machine_is_written_once(folder):
    path = calibrate.calibrate("mine")
    machine = Machine.model_validate(yaml.safe_load(path.read_text()))
    assert machine.constants.llc.ns == 5.04 and machine.constants.copy_.mad == 0.02 and machine.wake_ups == 2
    before = path.read_bytes()
    with pytest.raises(UserError, match="exists: remove it, or choose another name"):
        calibrate.calibrate("mine")
    assert path.read_bytes() == before


def test_what_is_noisy_leaves_no_file(folder, monkeypatch):
    monkeypatch.setattr(calibrate, "_rounds", lambda flush: [one | {"wake_up": 10 * i} for i, one in enumerate(QUIET)])
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
    assert list(found) == [*NAMES, "flush"]
    assert {field.alias or name for name, field in Constants.model_fields.items()} == set(found)
    assert all(value > 0 for value in found.values()), found
    assert found["instruction"] < found["mispredict"] < found["system_call"]
    assert not list(tmp_path.iterdir())  # of the file whose flush was measured


def test_a_folder_that_is_not_there_is_said(tmp_path):
    with pytest.raises(UserError, match=r"nowhere: No such file or directory: name a folder with --flush"):
        calibrate._rounds(tmp_path / "nowhere")


def test_no_guest_has_it():
    assert engine.SOURCE / "calibrate.c" not in engine.sources()
    assert "calibrate" not in engine.names()
