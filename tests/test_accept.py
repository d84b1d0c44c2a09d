"""Which published trials a QEMU must run before it is accepted, and what an acceptance is."""

from __future__ import annotations

import shutil
from dataclasses import replace
from types import SimpleNamespace

import pytest
from conftest import ROOT
from reprofs.errors import UserError
from reprofs.guest.lock import read_lock, write_lock
from reprofs.publish import accept
from reprofs.records.protocol import PROTOCOL
from reprofs.records.publication import read


@pytest.fixture(scope="session")
def published():
    """The trials of three results: to open all takes ten seconds."""
    return list(accept.published([ROOT / "results" / name for name in ("quick", "snapshots", "cores")]))


def test_all_that_is_published_is_in_a_trial_that_runs(published):
    chosen = accept.chosen(published)
    shown = set().union(*(trial.shows() for trial in chosen))
    assert shown == set().union(*(trial.shows() for trial in published))
    assert 10 < len(chosen) < len(published) / 5
    assert [trial.seconds for trial in chosen] == sorted((trial.seconds for trial in chosen), reverse=True)
    assert {trial.result for trial in published} == {"quick", "snapshots", "cores"}


def test_of_two_that_show_the_same_the_shorter_runs(published):
    one = next(trial for trial in published if trial.seconds > 1)
    assert accept.chosen([replace(one, seconds=one.seconds + 9), one]) == [one]


class Here:
    """Runs in this process what would be run in others."""

    def __init__(self, count):
        pass

    __enter__ = lambda self: self  # noqa: E731
    __exit__ = lambda self, *raised: None  # noqa: E731

    def submit(self, function, trial):
        return Done(function(trial))


class Done:
    def __init__(self, found):
        self.result = lambda: found


@pytest.fixture
def somewhere(monkeypatch, tmp_path, published):
    """A cache and a lock of their own; what is measured is what is published, or what `measured` says."""
    measured, ran, written = {}, [], []

    def digest(trial):
        ran.append(trial.name)
        return measured.get(trial.name, [trial.status, trial.digest])

    monkeypatch.setattr(accept, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(accept.qemu, "own", lambda cache, say, lock: {"sha256": "a" * 64})
    monkeypatch.setattr(accept.image, "ensure", lambda guest, say: None)
    monkeypatch.setattr(accept, "comparable", lambda folder: ([folder], 3))
    monkeypatch.setattr(accept, "published", lambda results: iter(published[:40]))
    monkeypatch.setattr(accept, "ProcessPoolExecutor", Here)
    monkeypatch.setattr(accept, "as_completed", list)
    monkeypatch.setattr(accept, "_digest", digest)
    monkeypatch.setattr(accept, "write_lock", written.append)
    return measured, ran, written


def test_where_all_are_the_same_the_lock_says_so(somewhere, tmp_path):
    _, ran, written = somewhere
    assert accept.accept(print)
    ((digest, (count, proof)),) = written[0].accepted.items()
    assert (digest, count) == ("a" * 64, (len(ran), len(ran))) and len(proof) == 64
    write_lock(written[0], tmp_path / "lab.lock")
    assert read_lock(tmp_path / "lab.lock").accepted == written[0].accepted
    again = len(ran)
    assert accept.accept(print) and len(ran) == again, "what has run is not run again"
    assert written[1].accepted == written[0].accepted


def test_what_is_published_anew_is_run_again(somewhere, published, monkeypatch):
    """Under the next protocol a trial has the same name and another measurement."""
    _, ran, written = somewhere
    assert accept.accept(print)
    again, before = [replace(trial, digest="1" * 64) for trial in published[:40]], len(ran)
    monkeypatch.setattr(accept, "published", lambda results: iter(again))
    assert accept.accept(print) and len(ran) == 2 * before
    assert written[1].accepted["a" * 64][0] == (before, before)


def test_one_that_differs_is_counted(somewhere, published, capsys):
    measured, ran, written = somewhere
    name = accept.chosen(published[:40])[0].name
    measured[name] = ["ok", "0" * 64]
    assert not accept.accept(print)
    assert written[0].accepted["a" * 64][0] == (len(ran) - 1, len(ran))
    said = capsys.readouterr().out
    assert f"1 of 3 results have protocol {PROTOCOL}" in said and f"DIFFERS  {name}" in said
    assert f"{len(ran) - 1} of {len(ran)} identical; different: {name}" in said


def test_results_of_another_protocol_are_not_compared(somewhere, monkeypatch, tmp_path):
    _, ran, written = somewhere
    monkeypatch.undo()
    monkeypatch.setattr(accept, "place", lambda name: tmp_path)
    monkeypatch.setattr(accept, "read", lambda path: SimpleNamespace(protocol=PROTOCOL - (path.name == "old")))
    for name in "new", "old":
        (tmp_path / name).mkdir()
        (tmp_path / name / accept.DIGESTS).touch()
    assert accept.comparable(tmp_path) == ([tmp_path / "new"], 2)
    shutil.rmtree(tmp_path / "new")
    with pytest.raises(UserError, match=f"^0 of 1 results have protocol {PROTOCOL}, and .* not compared"):
        accept.accept(print)
    assert not ran and not written


def test_a_trial_that_failed_must_fail_again(somewhere, published):
    measured, _, written = somewhere
    one = accept.chosen(published[:40])[0]
    measured[one.name] = ["failed", one.digest]
    assert not accept.accept(print) and written[0].accepted["a" * 64][0][0] < written[0].accepted["a" * 64][0][1]


def test_its_trials_are_those_of_the_results(published):
    result = read(ROOT / "results/quick")
    found = {trial.trial.id: trial.digest for trial in published if trial.result == "quick"}
    assert found.items() <= {name: trial.measurement for name, trial in result.trials.items()}.items() and found
