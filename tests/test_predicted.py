"""What ratios of the exact lab would be on a real machine: by hand, with disks in memory and modelled, and in words."""

import dataclasses

import make
import numpy as np
import pandas as pd
import pytest
import run
from pydantic import ValidationError
from reprofs.errors import UserError
from reprofs.plan.catalog import Catalog
from reprofs.plan.machine import Machine
from reprofs.plan.processor import Processor
from reprofs.plan.study import Study
from reprofs.report.sentences import predicted as words
from reprofs.stats import predicted
from reprofs.stats.compare import TOTAL
from reprofs.trial.planning import make_plan

CATALOG = Catalog()
COSTS = {"instruction": {"ns": 0.25}, "wake_up": {"ns": 1000}}
OWN = {"title": "Mine", "kernel": "6.18", "measured": "today", "constants": COSTS}
COMPARED = {"error": 1.5, "told": 20, "same": 18, "source": "Study mine."}


def machine(**changes) -> Machine:
    """One that executes an instruction in half of the exact lab's time."""
    return Machine.model_validate(OWN | changes)


@pytest.fixture
def study(tmp_path):
    """`study(machine, processor)`: measured in the exact lab, with this CPU model."""
    make.make(tmp_path, rounds=2, systems=["ext4", "xfs", "btrfs"], workloads=["metadata"], failures={})
    found = run.build(tmp_path, results=False)

    def of(machine, processor="v2-0.5ns", **phases):
        model = CATALOG.get(Processor, processor)
        labs = {name: lab.model_copy(update={"processor": model}) for name, lab in found.plan.labs.items()}
        plan = found.plan.model_copy(update={"labs": labs, "machines": {"mine": machine}})
        return dataclasses.replace(found, plan=plan, phases=found.phases.assign(**phases))

    return of


def phases(**columns) -> pd.DataFrame:
    return pd.DataFrame({"wall_ns": [1000.0], "processor_busy": [0.5], "device_reads": [3]} | columns)


def test_only_the_time_of_the_processor_changes_and_reads_of_memory_wake_up():
    assert predicted.times(phases(), machine(), 0.5, False).tolist() == [500 / 2 + 500]
    assert predicted.times(phases(), machine(), 0.5, True).tolist() == [500 / 2 + 500 + 3 * 2 * 1000]
    assert predicted.times(phases(), machine(wake_ups=0), 0.5, True).tolist() == [500 / 2 + 500]
    nothing = phases(device_reads=pd.array([pd.NA], "Int64"))
    assert predicted.times(nothing, machine(), 0.5, True).tolist() == [750]


def test_ratios_to_the_fastest_and_what_is_expected(study):
    found = study(machine(compared=COMPARED), processor_busy=1.0, device_reads=0)
    found.phases.loc[found.phases["filesystem"] == "xfs", "processor_busy"] = 0.2
    (_, setting, load), *_ = found.parts()
    table = predicted.ratios(found, setting, load)
    assert set(table["base"]) == {"ext4"} and set(table["label"]) == {"xfs", "btrfs+none", "btrfs+zstd"}
    btrfs, xfs = (table[table["label"] == label].set_index(["phase", "cache"]) for label in ("btrfs+none", "xfs"))
    np.testing.assert_allclose(btrfs["there"].to_numpy(float), btrfs["lab"].to_numpy(float))
    # Half of the base's time, of XFS's only a fifth becomes half: its ratio is 1.8 times what it was.
    np.testing.assert_allclose((xfs["there"] / xfs["lab"]).to_numpy(float), 1.8)
    np.testing.assert_allclose((table["high"] / table["there"]).to_numpy(float), 1.5**1.96)
    same = (table["lab"] > 1) == (table["there"] > 1)
    far = np.abs(np.log(table[["lab", "there"]].to_numpy(float))).min(axis=1) >= np.log(1.1)
    assert table["expected"].tolist() == (same & far).tolist()
    assert table["expected"].any() and not table["expected"].all()
    told = " ".join(words.expected(table))
    single = table[table["phase"] != TOTAL]
    assert "On mine xfs and btrfs+none are expected to take longer than ext4." in told
    assert f"Of {len(single)} differences in single operations {single['expected'].sum()} are expected." in told


def test_a_lab_with_other_clocks_predicts_nothing(study):
    for found in (study(machine(), "v2-0.5ns-4c"), study(machine(), "v1-1ns")):
        (_, setting, load), *_ = found.parts()
        assert predicted.ratios(found, setting, load).empty
    assert words.expected(predicted.ratios(found, setting, load)) == []


def test_how_sure():
    told = words.sure(machine(compared=COMPARED))
    assert "of 20 pairs with such a difference 18 had its direction there" in told and "1.5 (root mean square)" in told
    told = words.sure(machine())
    assert "no prediction was compared with it" in told and told.endswith("1.25, or more.")
    with pytest.raises(ValidationError, match="must not have more pairs in same"):
        machine(compared=COMPARED | {"same": 21})


def test_a_plan_has_the_machines_and_names_an_unknown_one():
    assert list(make_plan("quick", CATALOG).machines) == ["epyc-26", "xeon-6-207"]
    catalog = Catalog()
    data = catalog.get(Study, "quick").as_json() | {"predict": ["xeon-6-270"]}
    catalog.add(Study, "quick", data)
    with pytest.raises(UserError, match=r"machine 'xeon-6-270' does not exist: did you mean xeon-6-207\?"):
        make_plan("quick", catalog)


def test_what_was_compared_with_no_machine():
    assert words.beyond(["f2fs", "jfs"], "ssd") == (
        "f2fs, jfs and the device model ssd were compared with no machine: there the model is untested."
    )
    assert words.beyond([], "") == ""
