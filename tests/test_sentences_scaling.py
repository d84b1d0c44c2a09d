"""Growth with size, cores, clients, memory, age: the words of each branch; labs of several cores are one curve."""

import dataclasses
from types import SimpleNamespace

import make
import pandas as pd
import pytest
import run
from helpers import CATALOG
from reprofs.plan.filesystem import PlannedHosts
from reprofs.plan.processor import Processor
from reprofs.report import when
from reprofs.report.sentences import scaling
from reprofs.stats import scaling as scales
from reprofs.stats.cores import Curve, curves


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scaling")
    make.make(folder, rounds=2, systems=["ext4"], workloads=["metadata"], failures={})
    return run.build(folder, results=False)


def test_growth():
    nan = float("nan")
    law = pd.DataFrame(
        [("Stat", "xfs", 0.98, 0.9, 1.06, nan, 0.01), ("Create", "btrfs", 1.31, nan, nan, nan, 0.12)],
        columns=["phase", "label", "exponent", "low", "high", "fit_p", "off"],
    ).assign(least=2000, most=40000)
    told = scaling.growth(law, "metadata", pd.Series([2000, 40000]))
    assert told.startswith("**metadata, 2,000 to 40,000** times grow with exponents from 0.980 (Stat on xfs, 0.900")
    assert "to 1.31 (Create on btrfs); 1 is in proportion. Whether they follow a power law needs three sizes" in told
    short = law.iloc[:1].assign(exponent=0.1, most=8000)  # its law is of fewer sizes than the sentence names
    assert scaling.growth(pd.concat([short, law]), "metadata", pd.Series([2000, 40000])) == told
    told = scaling.growth(law.assign(fit_p=[0.5, 0.001]), "metadata", pd.Series([2, 4]), "profile ssd")
    assert "**metadata (profile ssd), 2 to 4**" in told and told.endswith(
        "1 of 2 laws is significantly off by 5 %; most is 12.0 %, Create on btrfs."
    )


def test_speed_up():
    rows = [("a", "ext4", 4.0), ("b", "ext4", 1.0), ("a", "xfs", 2.0), ("b", "xfs", 2.0)]
    last = pd.DataFrame(rows, columns=["operation", "label", "speedup"]).assign(n=4, role="contender")
    last = last.assign(phase=last["operation"], short=False)
    first = last.assign(n=1, speedup=1.0, wall_ns=[10.0, 90.0, 10.0, 90.0])
    last["wall_ns"] = 4 * first["wall_ns"] / last["speedup"]
    own = pd.concat([first, last])
    # The long operation of ext4 gains nothing: four workers do 1.1 times as much, not twice, its geometric mean.
    assert scaling.speedup(own, "cores", "w") == (
        "**From 1 to 4 cores the throughput** of all operations of w grows 2.0 times on xfs and 1.1 times on ext4."
        " “a” gains most, “b” least."
    )
    assert scaling.speedup(own.assign(role="ceiling"), "cores", "w") == ""
    one = own[(own["label"] == "xfs") & (own["operation"] == "a")]
    assert scaling.speedup(one, "workers", "w") == "**From 1 to 4 workers the throughput** of w grows 2.0 times on xfs."


def test_memory_behind_one_lock_is_told(study):
    curve = Curve("cores", "exact", "single", "ssd", "w", "smoke")
    (known,) = study.plan.devices.values()
    for rate, limited in ((0, True), (500, False)):
        devices = {"ssd": known.model_copy(update={"bandwidth_mb_s": rate})}
        one = dataclasses.replace(study, plan=study.plan.model_copy(update={"devices": devices}))
        assert bool(scaling.one_lock(one, curve)) == limited


def test_clients():
    own = pd.DataFrame([("Read", "ext4", 2, 1.0, 1e9, 1e9), ("Read", "xfs", 2, 0.8, 1e9, 3e9)])
    own.columns = ["operation", "label", "n", "jain", "first_done_ns", "last_done_ns"]
    assert scaling.fairness(own, "Trees") == (
        "Trees: 2 clients start together. Sharing is least even on xfs in “Read” (Jain's index 0.800): the first is"
        " done after 1.00 s, the last after 3.00 s."
    )


def test_less_memory():
    own = pd.DataFrame([("slower", "Read", "xfs", 2.4), ("faster", "Stat", "xfs", 0.9), ("same", "Stat", "ext4", 1.0)])
    own.columns = ["verdict", "operation", "label", "ratio"]
    assert scaling.against(own, "With 64 MiB of memory", "with no limit") == (
        "With 64 MiB of memory 1 of 3 operations is slower than with no limit (most: Read on xfs, 2.40 times),"
        " 1 faster."
    )
    assert "(most" not in scaling.against(own[1:], "With 64 MiB", "with no limit")


def test_ageing(study):
    assert scaling.drift(study).empty
    changes = pd.DataFrame([("Read", "xfs", 1.5), ("Stat", "xfs", 0.9)], columns=["operation", "label", "ratio"])
    assert (
        scaling.ageing(changes)
        == "In 1 of 2 operations the last run took longer than the first; most: Read on xfs, 50 %."
    )


def test_labs_that_differ_in_cores_only_are_one_curve():
    """With a worker on each core; several workers in one lab are a curve of their own."""
    names = ["v2-0.5ns", "v2-0.5ns-2c", "v2-0.5ns-4c", "v1-1ns"]
    labs = {f"exact@{name}": SimpleNamespace(processor=CATALOG.get(Processor, name), exact=True) for name in names}
    sized = {n: SimpleNamespace(size="workers", parameters={"workers": n}) for n in (1, 2, 4)}
    plan = SimpleNamespace(labs=labs, workloads={f"cores@{n}": entry for n, entry in sized.items()})
    known = {"status": "ok", "stack": "single", "profile": "ram", "scale": "smoke", "cache": "warm", "phase": "create"}
    known |= {"operation": "exec", "label": "ext4", "role": "contender", "position": 0, "round": 1}
    measured = [("v2-0.5ns", 1, 100), ("v2-0.5ns-2c", 2, 125), ("v2-0.5ns-4c", 4, 200), ("v2-0.5ns-4c", 1, 90)]
    rows = [
        known | {"lab": f"exact@{name}", "workload": f"cores@{n}", "items": 10 * n, "wall_ns": time * 10**6}
        for name, n, time in [*measured, ("v1-1ns", 1, 300)]
    ]
    found = curves(pd.DataFrame(rows), plan)
    assert [(curve.by, curve.lab) for curve in found] == [("cores", "exact@v2-0.5ns"), ("workers", "exact@v2-0.5ns-4c")]
    cores_of, workers_of = found.values()
    assert cores_of["n"].tolist() == [1, 2, 4] and cores_of["speedup"].tolist() == pytest.approx([1, 1.6, 2])
    assert cores_of["efficiency"].tolist() == pytest.approx([1, 0.8, 0.5])
    assert workers_of["n"].tolist() == [1, 4] and workers_of["speedup"].tolist() == pytest.approx([1, 1.8])
    assert not cores_of["short"].any()
    # Of ten ticks or less at either end the scheduler's placement is most.
    rows[0] |= {"wall_ns": 39 * 10**6}
    assert next(iter(curves(pd.DataFrame(rows), plan).values()))["short"].all()


def test_short_phases_and_those_without_files_are_in_no_mean():
    own = pd.DataFrame(
        [("create", "Create", 8, 4.0, False), ("stat", "Stat", 8, 1.0, True), ("compute", "Compute", 8, 8.0, False)],
        columns=["phase", "operation", "n", "speedup", "short"],
    ).assign(label="ext4", role="contender", wall_ns=2e8)
    fewest = own.assign(n=1, speedup=1.0, wall_ns=1e8)
    told = "**From 1 to 8 cores the throughput** of w grows 4.0 times on ext4."
    assert scaling.speedup(pd.concat([fewest, own]), "cores", "w") == told
    told = "No speed-up is given where a phase is shorter than 40 ms, ten ticks of the scheduler: “Stat”."
    assert scaling.too_short(own) == told and scaling.too_short(own[~own["short"]]) == ""


def test_only_what_nodes_of_one_machine_measured_has_a_limit(study):
    assert study.limit == ""
    ext4, exact = study.plan.filesystems["ext4"], study.plan.labs["exact"]
    hosted = {"nfs": ext4.model_copy(update={"hosts": PlannedHosts(servers=1, clients=1)}), "ext4": ext4}
    one = CATALOG.get(Processor, "v2-0.5ns")
    several = one.model_copy(update={"cores": 2})
    for processor, words in ((one, "one processor"), (several, "core of its own"), (None, "the processors")):
        lab = exact.model_copy(update={"processor": processor})
        plan = study.plan.model_copy(update={"filesystems": hosted, "labs": {"any": lab}})
        assert words in dataclasses.replace(study, plan=plan).limit
    # As many cores as servers leave none to the clients.
    hosted["nfs"] = ext4.model_copy(update={"hosts": PlannedHosts(servers=2, clients=1)})
    lab = exact.model_copy(update={"processor": several})
    plan = study.plan.model_copy(update={"filesystems": hosted, "labs": {"any": lab}})
    assert "share the processors" in dataclasses.replace(study, plan=plan).limit


def test_how_sure_ratios_are():
    assert scaling.sure(1) == scaling.sure(1, 0.02) == "How sure: one repetition, so ratios have no interval."
    assert scaling.sure(3) == "How sure: 3 repetitions, ratios paired by repetition."
    told = "How sure: 3 repetitions, ratios paired by repetition; differences below 2.00 % do not count."
    assert scaling.sure(3, 0.02) == told


def test_sizes_of_file_systems_are_compared(study):
    """The same workload in two sizes; of one size alone there is nothing to compare."""
    assert scales.rooms(study).empty and not when.several_rooms(study.plan)
    entry = study.plan.workloads["metadata"]
    small = entry.model_copy(update={"scale": entry.scale.model_copy(update={"device_mib": 1024})})
    plan = study.plan.model_copy(update={"workloads": {"metadata": entry, "metadata+device1024": small}})
    slower = study.phases.assign(workload="metadata+device1024", wall_ns=2 * study.phases["wall_ns"])
    both = dataclasses.replace(study, plan=plan, phases=pd.concat([study.phases, slower], ignore_index=True))
    found = scales.rooms(both)
    assert when.several_rooms(plan) and set(found["workload"]) == {"metadata"}
    times = found.pivot_table(index=["phase", "round"], columns="room_mib", values="wall_ns")
    assert list(times) == [1024, 4096] and (times[1024] == 2 * times[4096]).all()
    total = scales.totals(found.assign(where="", operation=found["phase"]))
    own = study.phases[study.phases["label"] == "ext4"].groupby("round")["wall_ns"].sum()
    row = total.loc[("", "ext4", 4096)]
    assert (row.wall_ns, row.n) == (own.mean(), len(own)) and row.error == pytest.approx(own.sem() / own.mean())


def test_a_file_system_that_waits_for_room():
    sizes = [1024, 1536, 2048, 16384]

    def told(times: dict, idle: float = 0.0) -> tuple[dict, list[str]]:
        walls = pd.concat({key: pd.Series(own, index=sizes).dropna() for key, own in times.items()})
        total = walls.rename_axis(["where", "label", "room_mib"]).to_frame("wall_ns").assign(idle=idle)
        enough = scales.enough(total["wall_ns"], 0.05)
        return enough.to_dict(), scaling.rooms(total, enough, 0.05)

    btrfs = {("", "btrfs"): [203, 116, 92, 93]}
    enough, words = told({**btrfs, ("", "xfs"): [80, 80, 80, 80]}, 0.41)
    assert enough == {("", "btrfs"): 2048, ("", "xfs"): 1024}
    assert words == [
        "**btrfs needs 2,048 MiB to be as fast as in 16,384 MiB**; up to 41.0 % of the longer time neither processor"
        " nor device works.",
        "From 1,024 MiB on xfs takes at most 5 % longer than in 16,384 MiB.",
    ]
    words = told({**btrfs, ("7.3", "btrfs"): [900, 900, 900, 90]})[1]
    assert words == ["**btrfs needs 2,048 to 16,384 MiB to be as fast as in 16,384 MiB**, the most on 7.3."]
    # Each is held against the largest that it was measured in.
    words = told({**btrfs, ("", "xfs"): [80, None, 80, None]})[1]
    assert words[1] == "From 1,024 MiB on xfs takes at most 5 % longer than in 2,048 MiB."
    # What is faster in a smaller one needs no larger one: times on a real machine vary.
    assert told({("host", "btrfs"): [379, 300, 250, 264]})[0] == {("host", "btrfs"): 2048}
    words = told({("", "btrfs"): [1000, 1000, 1000, 1300]})[1]
    assert words == ["**btrfs takes 30 % longer with 16,384 MiB instead of 1,024 MiB**."]
