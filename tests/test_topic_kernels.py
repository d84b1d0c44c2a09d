"""The report's topic on kernels: every ratio over the last kernel, what is named, and what is not."""

import re
from dataclasses import replace

import numpy as np
import pytest
import run
from make import make
from reprofs.plan.catalog import Catalog
from reprofs.plan.processor import Processor
from reprofs.report.topics import kernels as topic
from reprofs.stats import places

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


def test_the_report_names_numbers_and_the_largest_differences(study):
    ((place, own),) = topic.compared(study).items()
    first, second = topic.facts(own)
    assert (first["place"], first["slower"], first["faster"], first["rest"]) == (NAMES[0], 18, 0, 0)
    assert first["most"].ratio == pytest.approx(2) and first["least"] is None
    assert (second["slower"], second["faster"], second["rest"], second["most"]) == (0, 0, 18, None)
    rows = topic.table(study, *place, own).rows
    assert {row[NAMES[0]] for row in rows} == {"2.00"} and {row[NAMES[1]] for row in rows} == {"(1.00)"}
    waiting = topic.waiting(study, *place, own).rows
    stat = next(row for row in waiting if row["Operation"] == "Look up files, cold")
    assert topic.waits(own) and not topic.waits(own.assign(waiting=np.nan))
    assert [stat[key] for key in ("Difference, %", "of it waiting", "of it instructions")] == ["100.0", "60.0", "40.0"]


def test_the_notebook_says_it(study):
    executed = run.execute(study.folder.parent, ["kernels"])
    shown = (executed / "kernels.ipynb").read_text().replace("\N{NO-BREAK SPACE}", " ").replace("\\n", " ")
    text = " ".join(re.sub(r'",\s+"', " ", shown).split())
    assert "On debian-6.1, 18 operations take longer than on debian-7.3 (most: " in text
    assert "On debian-6.12, no operations take longer than on debian-7.3 and no operations take less time;" in text
