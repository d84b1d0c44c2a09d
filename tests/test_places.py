"""Kernels as places: every ratio over the last kernel and over the one before, and how much of it is waiting."""

import re
from dataclasses import replace

import numpy as np
import pytest
import run
from make import make
from reprofs.errors import UserError
from reprofs.plan.catalog import Catalog
from reprofs.plan.processor import Processor
from reprofs.stats import places
from reprofs.stats.compare import TOTAL

NAMES = ["debian-6.1", "debian-6.12", "debian-7.3"]
LAB = "exact@@{}"


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Everything takes twice as long on 6.1; ext4's third round failed there. 6.12 gives the same numbers as 7.3."""
    folder = tmp_path_factory.mktemp("kernels")
    failed = {("ext4", "metadata", 3, "single", "exact"): ("failed", "No space left.")}
    make(
        folder,
        rounds=4,
        systems=["ext4", "xfs"],
        workloads=["metadata"],
        kernels=NAMES,
        clocks={LAB.format(NAMES[0]): 2},
        failures=failed,
    )
    return run.build(folder)


@pytest.mark.wide
def test_the_last_kernel_named_is_what_others_are_compared_with(study):
    assert places.order(study, places.KERNELS) == NAMES
    found = places.compared(study, places.KERNELS, 0.02)
    assert set(found["place"]) == set(NAMES[:2]) and set(found["lab"]) == {LAB.format(NAMES[2])}
    old = found[found["place"] == NAMES[0]]
    np.testing.assert_allclose(old["ratio"].astype(float), 2)
    assert set(old["verdict"]) == {"slower"} and set(found.loc[found["place"] == NAMES[1], "verdict"]) == {"equal"}
    assert set(old.loc[old["label"] == "ext4", "n"]) == {3} and set(old.loc[old["label"] == "xfs", "n"]) == {4}


def test_waiting_is_a_share_of_the_time_on_the_last(study):
    """Twice the time, as busy as before: what waited before waits once more."""
    found = places.compared(study, places.KERNELS, 0.02)
    row = found[(found["place"] == NAMES[0]) & (found["phase"] == "stat") & (found["cache"] == "cold")].iloc[0]
    assert row["waiting"] == pytest.approx(0.6)  # the fixture's processor is busy for 0.4 of a cold stat
    assert found.loc[found["place"] == NAMES[1], "waiting"].dropna().eq(0).all()
    two = Catalog().get(Processor, "v2-0.5ns-2c")
    labs = {name: lab.model_copy(update={"processor": two}) for name, lab in study.plan.labs.items()}
    study = replace(study, plan=study.plan.model_copy(update={"labs": labs}))
    assert places.compared(study, places.KERNELS, 0.02)["waiting"].isna().all()  # the other one waits for one thread


def test_each_kernel_beside_the_one_before_it(study):
    found = places.steps(study, places.KERNELS, 0.02)
    parts = found[found["phase"] != TOTAL]
    assert list(dict.fromkeys(zip(found["since"], found["place"], strict=True))) == [tuple(NAMES[:2]), tuple(NAMES[1:])]
    first, second = (parts[parts["place"] == name] for name in NAMES[1:])
    np.testing.assert_allclose(first["ratio"].astype(float), 0.5)
    assert set(first["verdict"]) == {"faster"} and set(second["verdict"]) == {"equal"}


def test_a_study_without_kernels_is_refused(tmp_path):
    make(tmp_path, systems=["ext4"], workloads=["metadata"], failures={})
    study = run.build(tmp_path, results=False)
    for ask in (places.compared, places.steps):
        with pytest.raises(UserError, match="compares no kernels"):
            ask(study, places.KERNELS, 0.02)


def test_the_notebook_says_it(study):
    shown = run.text(run.execute(study.folder.parent, ["kernels"]) / "kernels.ipynb")
    assert "**ext4 changed most**: debian-6.12 changes 9 of 9 operations significantly; “" in shown
    assert re.search(r"xfs +9 of 9 +0 of 9 +debian-6\.12 ", shown)
    rows = re.findall(r"^.*50 % less time +(\S+)$", shown, re.MULTILINE)
    assert len(rows) == 10 and set(rows) == {"\N{EN DASH}"}  # debian-7.3 changes nothing
