"""Factors of a study, each changed alone: what a study's file must say, ratios by hand, what the notebook says."""

import copy
import functools
import json
import math
from pathlib import Path

import pandas as pd
import pytest
import reprofs as package
import run
import yaml
from conftest import ROOT
from reprofs.errors import UserError
from reprofs.plan.catalog import Catalog
from reprofs.plan.plan import Plan
from reprofs.plan.read import validate
from reprofs.plan.study import Study as StudyFile
from reprofs.report import contents
from reprofs.stats import factors
from reprofs.stats.study import Study
from reprofs.trial.planning import make_plan

pytestmark = pytest.mark.xdist_group("factors")  # one worker: the study is planned once

STUDY = yaml.safe_load((ROOT / "config/studies/why-2015.yaml").read_text())
BITMAP, AGED = "write-intent bitmap", "the third run in one file system"
# Published, ext4 over Btrfs: du 3.6 / 0.849, get 33.5 / 11; XFS over Btrfs: du 2.14 / 0.849, get 45.7 / 11.
DU, GET = 3.6 / 0.849, 33.5 / 11


def plan_of(change=lambda study: None) -> Plan:
    """The plan of the study, of one round, after `change(study)`."""
    own, catalog = copy.deepcopy(STUDY) | {"rounds": 1}, Catalog()
    change(own)
    catalog.add(StudyFile, "mine", own)
    return make_plan("mine", catalog)


PLAN = functools.cache(plan_of)  # nothing changes it


def study(seconds, plan: Plan | None = None) -> Study:
    """The study as if it had run: `seconds` of (factor, None for the base, file system, phase, round); None: no row."""
    plan = plan or PLAN()
    rows, samples, trials = [], [], []
    for factor in plan.factors:
        for cell in factor.cells:
            names = cell.names()
            for trial in (trial for trial in plan.trials if names.items() <= trial.names().items()):
                label = cell.filesystem + ("" if cell.variant == "default" else f"+{cell.variant}")
                trials.append({"trial": trial.id, "label": label, **names})
                for position, phase in enumerate(plan.workloads[trial.workload].phases):
                    time = seconds(factor.title, cell.filesystem, phase.name, trial.round)
                    if phase.cache == "warm" or time is None:
                        continue
                    row = {
                        "trial": trial.id,
                        "label": label,
                        "role": "contender",
                        "status": "ok",
                        "operation": "exec",
                    } | names
                    row |= {"phase": phase.name, "cache": "cold", "round": trial.round, "position": position}
                    rows.append(row | {"wall_ns": round(time * 1e9)})
                    if factor.title == AGED:  # the phase's own time is the mean of the runs
                        samples += [
                            row | {"name": phase.name, "iteration": run, "wall_ns": round(time * run * 1e9)}
                            for run in (1, 2, 3)
                        ]
    plan = plan.model_copy(update={"trials": []})  # as in the tables of a study
    tables = [pd.DataFrame(trials), pd.DataFrame(rows), pd.DataFrame(samples, columns=[*rows[0], "name", "iteration"])]
    return Study(*tables, *[pd.DataFrame()] * 6, plan, {"values": {}}, {}, folder=Path("unused"))


def seconds(factor, filesystem, phase, number):
    """The base: ext4 takes twice Btrfs' time in du, as long in get; a bitmap makes get on ext4 three times as long."""
    if phase not in ("du", "get") or filesystem == "xfs":
        return None
    if filesystem == "btrfs":
        return 1.0
    if phase == "du":
        return 2.0
    return 3.0 if factor == BITMAP else 1.0


def row(frame: pd.DataFrame, **keys) -> pd.Series:
    (found,) = frame[(frame[list(keys)] == list(keys.values())).all(axis=1)].to_dict("records")
    return pd.Series(found)


def test_ratios_of_the_base_and_of_a_factor():
    effects = factors.effects(study(seconds))
    assert set(effects["filesystem"]) == {"ext4"} and set(effects["reference"]) == {"btrfs"}
    base = row(effects, factor="base", phase="get")
    assert (base.ratio, base.change) == (1, 1) and base.published == pytest.approx(GET)
    bitmap = row(effects, factor=BITMAP, phase="get")
    assert (bitmap.ratio, bitmap.base, bitmap.change) == pytest.approx((3, 1, 3))
    assert row(effects, factor=BITMAP, phase="du").change == pytest.approx(1)
    assert math.isnan(base.low), "one round has no interval"


def test_of_runs_in_one_file_system_the_last_counts():
    found = study(seconds)
    assert row(factors.effects(found), factor=AGED, phase="du").ratio == pytest.approx(2)
    slower = found.samples["label"].eq("ext4+no-lazy-init") & found.samples["iteration"].eq(3)
    found.samples.loc[slower, "wall_ns"] *= 5
    assert row(factors.effects(found), factor=AGED, phase="du").ratio == pytest.approx(10)


def test_pace_is_the_time_of_a_file_over_the_published_one():
    effects = factors.effects(study(seconds))
    published = math.sqrt(33.5 * 11) / 2000
    assert row(effects, factor="base", phase="get").pace == pytest.approx(0.01 / published)
    assert row(effects, factor="1,000 files", phase="get").pace == pytest.approx(0.001 / published)
    assert row(effects, factor=BITMAP, phase="get").pace == pytest.approx(0.01 * math.sqrt(3) / published)


def test_rounds_are_paired():
    plan = plan_of(lambda own: own.update(rounds=2))
    found = study(lambda f, name, phase, r: (r if name == "btrfs" else 4 * r**2) if phase == "du" else None, plan)
    base = row(factors.effects(found), factor="base", phase="du", filesystem="ext4")
    assert base.n == 2 and base.ratio == pytest.approx(math.sqrt(4 * 8)) and base.low < base.ratio < base.high


def test_a_change_is_held_against_other_repetitions_of_the_base():
    """Two ratios of a base with its own spread: what a change does is told by repetitions, not by ratios."""
    spread = {1: 1.0, 2: 1.5, 3: 0.8, 4: 1.25}
    plan = plan_of(lambda own: own.update(rounds=4))
    nothing = study(lambda f, name, phase, r: 6 * spread[r] ** (f != BITMAP or 2) if name == "ext4" else 1, plan)
    effects = factors.effects(nothing)
    found = factors.changes(effects).loc[BITMAP]
    assert found.n == 4 and found.p > 0.05 and found.low < 1 < found.high
    assert 0 <= factors.by_chance(effects) <= len(factors.deviating(effects))
    better = study(lambda f, name, phase, r: 24 / (1 + (f == BITMAP)) * spread[r] if name == "ext4" else 1, plan)
    found = factors.changes(factors.effects(better)).loc[BITMAP]
    assert found.relative < 0.9 and found.p < 0.001
    once = factors.effects(study(seconds))
    assert math.isnan(factors.changes(once).loc[BITMAP].p) and math.isnan(factors.by_chance(once))


def test_summary_says_who_comes_nearer():
    found = factors.summary(factors.effects(study(seconds)))
    assert found["factor"].iloc[0] == "base"
    base, bitmap = row(found, factor="base"), row(found, factor=BITMAP)
    assert base.off == pytest.approx(math.sqrt(DU / 2 * GET)) and (base.nearer, base.further) == (0, 0)
    assert bitmap.off == pytest.approx(math.sqrt(DU / 2 * GET / 3)) and bitmap.base_off == pytest.approx(base.off)
    assert (bitmap.nearer, bitmap.further) == (1, 0)
    assert (base.same_side, bitmap.same_side) == (1, 2), "1 is not above 1"
    assert (bitmap.phase, round(bitmap.ratio, 6)) == ("get", 3) and math.isnan(base.ratio)


def test_deviating_operations_and_the_nearest_factor():
    found = factors.deviating(factors.effects(study(seconds)))
    assert list(found["phase"]) == ["get", "du"], "the farthest first"
    get, du = (row(found, phase=phase) for phase in ("get", "du"))
    assert (get.nearest, round(get.ratio, 6)) == (BITMAP, 3) and get.left == pytest.approx(GET / 3)
    assert du.nearest == "base" and du.left == du.off == pytest.approx(DU / 2)
    near = factors.deviating(factors.effects(study(lambda *key: seconds(*key) and (3 if key[1] == "ext4" else 1))))
    assert list(near["phase"]) == [], "3 is within 1.5 of 3.05 and of 4.24"


def page(found: Study, tmp_path, monkeypatch) -> str:
    """What the executed notebook shows of a study."""
    monkeypatch.setattr(package, "open", lambda name: found, raising=False)
    (tmp_path / "plan.json").write_text("{}")
    with run.without_pictures():
        cells = json.loads((run.execute(tmp_path, ["factors"]) / "factors.ipynb").read_text())["cells"]
    outputs = [output["data"] for cell in cells for output in cell.get("outputs", [])]
    return "".join("".join(data.get("text/markdown", data.get("text/html", ""))) for data in outputs)


def test_the_notebook_says_what_was_found(tmp_path, monkeypatch):
    text = page(study(seconds), tmp_path, monkeypatch)
    assert "None of 11 changes brings the ratios significantly nearer to the published ones**;" in text
    # Get is 3 of 3.05 instead of 1, du stays: the distance of both is the root of 3.05 / 3 * 1 / 3.05 of the base's.
    assert f"the largest effect is {100 * (1 - math.sqrt(1 / 3)):.0f} %, of {BITMAP}" in text
    assert "In the base 2 ratios to btrfs differ from the published ones by a factor of 2.5 (geometric mean)." in text
    assert "How sure: 1 repetition" in text and "With one repetition a single ratio may change by noise alone." in text
    assert "Of 2 ratios that are off by a factor of 1.5 or more in the base, 1 is nearer than that" in text
    assert 'data-figure="changes"' in text and 'data-figure="change-ratios"' in text
    assert "published claim" not in text.partition("What differs")[0], "its changes are compared, not its claims"


def test_a_factor_without_numbers_is_told(tmp_path, monkeypatch):
    found = study(lambda *key: None if key[0] == BITMAP else seconds(*key))
    assert f"Without a completed pair of file systems: {BITMAP}." in page(found, tmp_path, monkeypatch)


@pytest.mark.wide
def test_the_notebook_of_a_study_that_failed(tmp_path, monkeypatch):
    found = study(lambda *key: 1.0 if key[1] == "ext4" else None)
    assert "nothing can be compared" in page(found, tmp_path, monkeypatch)


def test_which_topic_a_study_has():
    plan = PLAN()
    names = [own.name for own in contents.topics(plan)]
    assert "factors" in names and "published" not in names
    assert "factors" not in [own.name for own in contents.topics(make_plan("quick", Catalog()))]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda own: own["cells"][0].update(factor="more"), "one entry of cells without the key factor"),
        (lambda own: own["cells"][2].pop("factor"), "one entry of cells without the key factor"),
        (lambda own: own["cells"][1].update(factor=AGED), "a factor twice"),
        (lambda own: own.pop("published"), "must have the key published"),
    ],
)
def test_a_study_with_wrong_factors_is_refused(change, sentence):
    own = copy.deepcopy(STUDY)
    change(own)
    with pytest.raises(UserError, match=sentence):
        validate(own, StudyFile, "mine")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            lambda own: own["cells"][0].update(filesystems=["ext4", "btrfs"]),
            "has xfs, which is not in the base",
        ),
        (lambda own: own["cells"][1].update(filesystems=["btrfs", "btrfs+lzo"]), "'300 files' has 2 entries for btrfs"),
        (lambda own: own["cells"][0].update(stacks=["single", "md-raid6"]), "the base has 2 entries for ext4"),
    ],
)
def test_cells_that_cannot_be_compared_are_refused(change, sentence):
    with pytest.raises(UserError, match=sentence):
        plan_of(change)
