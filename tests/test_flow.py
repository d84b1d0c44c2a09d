"""What the rules of the workflow compute: what a trial needs, when it is asked for again, how it is run."""

import contextlib
import json
import re
import shutil
import sys

import pytest
import yaml
from conftest import ROOT, copy_checkout
from helpers import Late
from reprofs import flow
from reprofs.errors import UserError
from reprofs.flow import Flow

types = Late("snakemake.settings.types")
STUDY = {
    "title": "Small",
    "question": "Which of two?",
    "labs": ["exact"],
    "stacks": ["single"],
    "profiles": ["ssd"],
    "filesystems": ["ext4", "tmpfs"],
    "workloads": ["metadata@60", "mdtest"],
    "scale": "smoke",
    "rounds": 2,
    "seed": 7,
}


@pytest.fixture(scope="module")
def checkout(engine, tmp_path_factory):
    made = copy_checkout(tmp_path_factory.mktemp("flow") / "checkout")
    study(made)
    with contextlib.chdir(made):
        yield made


@pytest.fixture
def small(checkout, monkeypatch):
    monkeypatch.setenv("REPROFS_PROGRESS", "")  # which a flow sets for the trials that it starts
    study(checkout)
    return Flow({"study": "small"})


def study(checkout, **changes):
    (checkout / "config/studies/small.yaml").write_text(yaml.safe_dump(STUDY | changes))


def test_rules_are_wiring():
    """At most a hundred lines of Python in all: functions and settings between the rules."""
    lines = [
        line
        for path in (ROOT / "Snakefile", *ROOT.glob("workflow/rules/*.smk"))
        for line in re.sub(r"(?ms)^(    )?(rule|checkpoint)\b.*?(?=^\S|\Z)", "", path.read_text()).splitlines()
    ]
    assert len([line for line in lines if line.strip() and not line.lstrip().startswith("#")]) <= 100


def test_a_trial_needs_its_guest_and_one_of_a_real_clock_none(small, checkout):
    assert small.guest_of(next(iter(small.trials))) == ["data/guest/base.json"]
    study(checkout, labs=["host"], profiles=["ram"])
    hosts = Flow({"study": "small"})
    assert hosts.guest_of(next(iter(hosts.trials))) == [] and hosts.real_clocks == set(hosts.trials)
    assert hosts.where_alone(lambda: 1, 0)(type("w", (), {"trial": next(iter(hosts.trials))})) == 1
    assert small.where_alone(lambda: 1, 0) == 0


def test_an_unknown_trial_ends_the_run_in_a_sentence(small, capsys):
    with pytest.raises(SystemExit):
        small.guest_of("r1-none")
    assert "the study small has no trial r1-none" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "asked"),
    [
        ({"question": "Which of these two?"}, set()),
        ({"seed": 8}, {"ext4-metadata@60", "ext4-mdtest", "tmpfs-metadata@60", "tmpfs-mdtest"}),
        ({"filesystems": ["ext4+noatime", "tmpfs"]}, None),
    ],
)
def test_a_change_asks_for_the_trials_that_it_changes(small, checkout, change, asked):
    before = {name: small.made_of(name) for name in small.trials}
    study(checkout, **change)
    other = Flow({"study": "small"})
    again = {name for name in other.trials if before.get(name) != other.made_of(name)}
    if asked is None:
        assert again == {name for name in other.trials if "noatime" in name}
    else:
        assert {re.sub(r".*-ssd-(\w+)\+\w+-(.*)-smoke", r"\1-\2", name) for name in again} == asked


def test_another_program_or_lock_asks_again_only_where_it_is_used(small, monkeypatch):
    before = {name: small.made_of(name) for name in small.trials}
    monkeypatch.setitem(small._programs, "mdtest", "0" * 64)
    again = {name for name in small.trials if before[name] != small.made_of(name)}
    assert again == {name for name in small.trials if "mdtest" in name}
    lock = flow.read_lock()
    guests = {name: small.guest_made_of(name) for name in ("base", "fio")}
    lock.built["fio/root"] = ("", "0" * 64)
    monkeypatch.setattr(flow, "read_lock", lambda: lock)
    assert small.guest_made_of("base") == guests["base"] and small.guest_made_of("fio") != guests["fio"]
    lock.built["engine"] = ("", "0" * 64)
    assert small.guest_made_of("base") != guests["base"]
    assert small.guest_made_of("none") == ""


def test_options_are_words_and_have_an_order_only_on_a_real_clock(small, checkout):
    name = next(iter(small.trials))
    assert "--order" not in small.options(name)
    assert f"--time-limit {small.plan.study.time_limit_s}" in small.options(name)
    (checkout / "a b/stacks").mkdir(parents=True)
    study(checkout, labs=["host"], profiles=["ram"])
    hosts = Flow({"study": "small", "extra_dirs": [str(checkout / "a b")]})
    assert "--order" in hosts.options(next(iter(hosts.trials)))
    assert hosts.options(next(iter(hosts.trials))).endswith("/a b'")


def test_a_study_beside_itself_is_refused(small, checkout):
    (checkout / "data/tables/small").mkdir(parents=True)
    (checkout / "data/tables/small/files.sha256").touch()
    with pytest.raises(UserError, match="BESIDE=small is this study itself"):
        Flow({"study": "small", "beside": "small"})
    shutil.rmtree(checkout / "data/tables")


def test_what_was_changed_after_it_was_made_is_removed_but_not_in_a_dry_run(small, monkeypatch, capsys):
    place = flow.Path("data/tables/small")
    place.mkdir(parents=True)
    (place / "files.sha256").write_text(f"{'0' * 64}  trials.parquet\n")
    monkeypatch.setattr(sys, "argv", ["snakemake", "-n"])
    small.remove_changed()
    assert place.exists()
    monkeypatch.setattr(sys, "argv", ["snakemake"])
    small.remove_changed()
    assert not place.exists() and "trials.parquet is missing or was changed" in capsys.readouterr().err


def test_the_last_plan_is_that_of_the_look_that_was_enough(small, checkout, tmp_path):
    assert small.last_plan(lambda _: 1 / 0) == "data/plan/small.json"
    assert small.last_records("data/plan/small.json") == small.records(2)
    assert len(small.records(1)) == 4 and small.records() == small.records(2)
    study(checkout, rounds={"min": 2, "max": 8, "until": "1%"})
    adapting = Flow({"study": "small"})

    def look(rounds):
        path = tmp_path / f"{rounds}.json"
        path.write_text(json.dumps({"stopping": {"enough": rounds >= 3}}))
        return str(path)

    last = adapting.last_plan(look)
    assert int(flow.Path(last).stem) >= 3 and len(adapting.last_records(last)) == 4 * int(flow.Path(last).stem)


def test_trials_of_a_real_clock_side_by_side_are_refused(small, checkout, capsys):
    small.start({})
    study(checkout, labs=["host"], profiles=["ram"])
    hosts = Flow({"study": "small"})
    hosts.start({"bench_slot": 1})
    with pytest.raises(SystemExit):
        hosts.start({})
    assert "must run one at a time" in capsys.readouterr().err


def test_directories_on_one_file_system_are_named_before_the_first_trial(checkout, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("REPROFS_PROGRESS", "")
    study(checkout)
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    Flow({"study": "small", "lab": "mount", "where": f"{one},{two}"}).start({"bench_slot": 1})
    assert f"{one}, {two} are on the same file system: how" in capsys.readouterr().err


def test_packages_that_no_digest_fixes_are_refused(small, capsys):
    small.deploys([])
    with pytest.raises(SystemExit):
        small.deploys([types.DeploymentMethod.CONDA])
    assert "conda would install packages that no digest fixes: leave out --software" in capsys.readouterr().err
    assert (
        "FLOW.deploys(workflow.deployment_settings.deployment_method)"
        in (ROOT / "workflow/rules/common.smk").read_text()
    )


def test_a_file_that_was_edited_meanwhile_is_told(small, checkout):
    assert small.edited_meanwhile() == ""
    study(checkout, seed=9)
    small.began = 0
    assert "was edited during the run" in small.edited_meanwhile()
