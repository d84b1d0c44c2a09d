"""Sentences of the report: the words of each branch, from facts that can be checked by hand."""

import dataclasses
from types import SimpleNamespace as Of

import make
import pandas as pd
import pytest
import run
from helpers import CATALOG
from reprofs.plan.device import Device
from reprofs.plan.processor import Processor
from reprofs.report.sentences import answer, limits, methods, operations, quality, threats
from reprofs.report.words import slower
from reprofs.stats import cells, totals


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Two contenders and a baseline, two repetitions."""
    folder = tmp_path_factory.mktemp("sentences")
    make.make(folder, rounds=2, systems=["ext4", "xfs", "tmpfs"], workloads=["metadata"], failures={})
    return run.build(folder)


def ranked(*rows: tuple) -> pd.DataFrame:
    """Rows of `totals.ranked`: label, ms, ratio, verdict."""
    found = pd.DataFrame(rows, columns=["label", "ms", "ratio", "verdict"])
    roles = found["verdict"].map({"baseline": "ceiling", "not durable": "no-promise"}).fillna("contender")
    return found.assign(role=roles, geometric_mean_ns=found["ms"] * 1e6, n=6, workload="w")


@pytest.mark.parametrize(
    ("ratio", "ends", "told"),
    [
        (1.033, (1.032, 1.034), "3.3 % (3.2 to 3.4)"),
        (1.77, (1.74, 1.81), "77 % (74 to 81)"),
        (1.0023, (), "0.2 %"),
        (2.4, (2.31, 2.55), "2.40 times (2.31 to 2.55)"),
        (2.4, (2.4, 2.4), "2.40 times"),
        (0.95, (), "−5.0 %"),  # noqa: RUF001
        (None, (), "–"),  # noqa: RUF001
    ],
)
def test_percent_below_a_factor_of_two_factors_above(ratio, ends, told):
    assert slower(ratio, *ends) == told


FRONT = [("ext4", 258, 1.0), ("xfs", 266, 1.033), ("f2fs", 619, 2.4)]


def test_who_is_fastest():
    def told(verdicts, small=False, rows=FRONT):
        return answer.fastest(ranked(*((*row, v) for row, v in zip(rows, verdicts, strict=True))), "A tree", small)

    assert told(["fastest", "slower", "slower"]) == (
        "**ext4 is fastest**: A tree takes 258 ms; xfs takes 3.3 % longer, f2fs 2.40 times as long."
    )
    assert (
        told(["fastest", "slower"], rows=FRONT[:2])
        == "**ext4 is fastest**: A tree takes 258 ms; xfs takes 3.3 % longer."
    )
    assert told(["fastest", "slower", "slower"], small=True).endswith(
        "as long. The smaller difference may not hold on a real machine."
    )
    assert told(["equally fast", "equally fast", "slower"]).startswith(
        "**ext4 and xfs** are equally fast: A tree takes 258 ms on ext4; xfs"
    )
    undecided = ["not significantly different"] * 2
    assert "**ext4 and xfs** are not significantly different: " in told([*undecided, "slower"])
    few = told(["not enough repetitions"] * 2 + ["slower"])
    assert few.startswith("**ext4 and xfs** cannot be told apart by 6 repetitions: A tree takes 258 ms on ext4")
    assert told(["alone"], rows=FRONT[:1]) == "Only ext4 has a result: A tree takes 258 ms."
    assert answer.fastest(ranked(("tmpfs", 50, 0.2, "baseline")), "A tree") == "No file system completed: A tree."
    one = ranked(*((*row, "not significantly different") for row in FRONT)).assign(n=1)
    assert answer.fastest(one, "A tree").startswith("ext4 took the least time, but one repetition shows no difference")


def test_many_workloads_in_one_sentence():
    rows = pd.concat(
        ranked(("a", 1, 1.0, verdict), ("b", 2, 2.0, "slower")).assign(workload=f"w{number}", best="a")
        for number, verdict in enumerate(["fastest", "fastest", "not significantly different"])
    )
    assert answer.summary(rows) == "**a is fastest in 2 of 3 workloads**; in 1 no file system is significantly fastest."
    nobody = rows.assign(verdict="equally fast")
    assert answer.summary(nobody) == "In none of 3 workloads is one file system significantly fastest."


def test_how_far_differences_held_on_a_real_machine_is_said_in_one_place():
    order = CATALOG.get(Processor, "v2-0.5ns").trust.order
    first, *_, last = order.leads
    told = answer.bands(order)
    span = f"from {100 * order.least:g} % to {100 * first.below:g} %"
    assert f"{first.same} of {first.leads} differences of single operations {span} had the same sign" in told
    assert f"{last.same} of {last.leads} above. Totals had the same order." in told
    old = order.model_copy(update={"least": 0, "totals": []})  # as in results published before
    assert f"operations below {100 * first.below:g} % had" in answer.bands(old) and answer.bands(old).endswith("above.")


def test_how_far_the_size_of_a_difference_was_off_on_a_real_machine():
    order = CATALOG.get(Processor, "v2-0.5ns").trust.order
    assert answer.biased(order, ["ext4", "xfs", "btrfs"]) == "Xfs over ext4: 1.05 in the exact lab, 1.21 there."
    assert answer.biased(order, ["ext4", "btrfs", "jfs"]) == "Btrfs over ext4: 2.00 in the exact lab, 2.27 there."
    assert answer.biased(order, ["ext4", "jfs"]) == "", "not compared"
    near = [one.model_copy(update={"machine_s": one.lab_s}) for one in order.totals]
    assert answer.biased(order.model_copy(update={"totals": near}), ["ext4", "xfs"]) == "", "within 10 %"


def test_an_answer_of_what_no_real_machine_was_compared_for_holds_in_this_lab():
    one = ranked(("a", 1, 1.0, "fastest"), ("b", 2, 2.0, "slower"))
    assert answer.fastest(one, "Work", here=True).startswith("**a is fastest in this lab**: ")
    assert answer.fastest(one, "Work").startswith("**a is fastest**: ")
    level = ranked(("a", 1, 1.0, "equally fast"), ("b", 2, 1.01, "equally fast"))
    assert "are equally fast in this lab: " in answer.fastest(level, "Work", here=True)
    many = pd.concat(one.assign(workload=f"w{number}", best="a") for number in range(3))
    assert answer.summary(many, True) == "**a is fastest in 3 of 3 workloads in this lab**."


def test_what_only_computes_is_no_part_of_a_total(study):
    """As in the study cores; the report's check of totals against their parts needs both without it."""
    (setting,) = study.settings
    (load,) = study.loads(setting)
    times = study.times
    computed = times.groupby("label").head(1).assign(phase=cells.COMPUTE, operation="Compute", ms=1e6)
    more = Of(times=pd.concat([times.astype({"operation": str}), computed], ignore_index=True))
    plain = Of(times=times.astype({"operation": str}))
    assert totals.shares(more, setting, load).equals(totals.shares(plain, setting, load))


def test_setup_and_amount(study):
    (setting,) = study.settings
    (load,) = study.loads(setting)
    ranked = study.results.totals
    told = answer.setup(study, ranked)
    assert told.startswith("Setup: device model ssd (") and told.endswith("stack single, lab exact, scale smoke.")
    memory = study.trials.head(1).assign(role="ceiling", mounted_total_bytes=2**20)  # which is on no device
    larger = dataclasses.replace(study, trials=pd.concat([study.trials, memory], ignore_index=True))
    assert answer.setup(larger, ranked) == told
    assert answer.setup(study, ranked[:0]) == "" and answer.how_sure(study, ranked[:0]) == []
    assert answer.amount(study, setting, load).startswith("2,000 files, ")
    (sure,) = answer.how_sure(study, ranked)
    assert sure.startswith("How sure: 2 repetitions; intervals contain the 1.6 % that another build")
    # Of several settings of which the same is known there is one sentence; else each says which it is of.
    more = pd.concat([ranked.assign(profile=name) for name in ("hdd", "ram")], ignore_index=True)
    (both,) = answer.how_sure(study, more)
    assert both.startswith("How sure: 2 repetitions; nothing was tested; intervals")
    told = answer.setup(study, more)
    assert told.startswith("Setup: device models hdd and ram, stack") and told.endswith("lab exact, scale smoke.")
    two = dataclasses.replace(study, trials=study.trials.assign(profile=["ram", *study.trials["profile"][1:]]))
    first, second = answer.how_sure(two, pd.concat([ranked, more[more["profile"] == "ram"]], ignore_index=True))
    assert first.startswith("How sure (device model ram): 2 rep") and second.startswith("How sure (device model ssd): ")


def test_small_scale_and_what_is_constant(study):
    assert "run `make report STUDY=fixture@laptop`." in answer.small_scale(study)
    assert answer.opening(study).startswith("Demonstration: ")
    large = dataclasses.replace(study, trials=study.trials.assign(scale="laptop"))
    assert answer.small_scale(large) == "" and answer.opening(large) == study.plan.study.question.strip()
    assert answer.constant(study).startswith("The study has one lab and CPU model, stack, device model and scale")
    assert answer.incomplete(study) == ""
    lost = study.trials.assign(status=["failed", "skipped", *study.trials["status"][2:]])
    told = answer.incomplete(dataclasses.replace(study, trials=lost))
    assert told == "2 of 6 trials have no complete result: 1 unavailable here and 1 failed."


def test_verdicts_on_operations():
    def rows(*verdicts, n=6):
        return pd.DataFrame([{"verdict": verdict, "best": best, "n": n} for verdict, best in verdicts])

    fastest = [("fastest", "a"), ("fastest", "a"), ("fastest", "b")]
    assert operations.verdicts(rows(*fastest, ("undecided", "a"), ("equivalent", "a"))) == (
        "3 of 5 operations have one significantly fastest file system: a in 2 and b in 1; in 1 the fastest are"
        " equivalent and 1 is undecided."
    )
    assert operations.verdicts(rows(("alone", "a"))).endswith("; 1 was completed by one file system.")
    assert operations.verdicts(rows(*fastest, n=1)).startswith("One repetition has no interval")
    assert operations.verdicts(rows()) == "No file system completed an operation."


def test_what_is_shown_without_being_ranked(study):
    (setting,) = study.settings
    assert operations.not_ranked(study, setting) == "Not ranked: tmpfs (baseline)."


def test_what_was_run(study):
    told = methods.design(study)
    assert told.startswith("The study has 3 configurations with 2 repetitions each, 6 trials, in lab exact,")
    fewer = study.trials[(study.trials["label"] != "xfs") | (study.trials["round"] == 1)]
    assert methods.design(dataclasses.replace(study, trials=fewer)).endswith("1 configuration has fewer repetitions.")
    assert methods.cold(study).startswith("Before a phase with cold caches: “unmounted, caches dropped")
    assert methods.sync(study).startswith("Times include the final sync of the file system in make-tree")
    whole = study.phases.assign(sync_ns=1)
    assert methods.sync(dataclasses.replace(study, phases=whole)).startswith("Every time includes the final sync")


def test_quality(study):
    assert quality.completed(study) == "6 of 6 trials completed."
    assert quality.taken(study) == "" and quality.repeated(study) == ""
    changed = study.environment | {"ran_twice": 2, "set_aside": 1, "taken": {"cache": {"taken": 4, "checked": 1}}}
    other = dataclasses.replace(study, environment=changed)
    assert quality.taken(other) == (
        "4 of 6 trials were taken, not run: 4 from this machine's cache; 2 were run. 1 of those taken was run again and"
        " measured the same."
    )
    assert "2 trials ran twice, because" in quality.repeated(other)
    assert "1 earlier record was quarantined" in quality.repeated(other)


def test_threats(study):
    told = " ".join(threats.every(study))
    assert "their spread is no measurement noise" in told and "only 2 repetitions" in told
    assert "Every file system was new; ageing, fragmentation and full devices were not measured." in told
    busy = study.phases.assign(cold_proved=False)
    assert "cold caches are not proved" in threats.cold(dataclasses.replace(study, phases=busy))


def test_the_driver_is_told_where_it_takes_a_tenth(study):
    """A thread of one file system that runs between the operations is not charged to the driver."""
    phases = study.phases.copy()
    phases["driver_ns"] = (phases["wall_ns"] // 50).astype("Int64")
    own = (phases["phase"] == "make-tree") & (phases["label"] == "xfs")
    phases.loc[own, "driver_ns"] = phases.loc[own, "wall_ns"] // 2
    assert threats.driver(dataclasses.replace(study, phases=phases)) == []
    here = phases["phase"] == "make-tree"
    phases.loc[here, "driver_ns"] = phases.loc[here & (phases["label"] == "ext4"), "wall_ns"].min() // 4
    (told,) = threats.driver(dataclasses.replace(study, phases=phases))
    assert told.startswith("In exact the driver takes up to ") and "(Make the directory tree)" in told


def test_labs_that_differ_in_cores_share_a_sentence(study):
    assert len(limits.meanings(study)) == 1 and limits.parity_by_md(study) == []
    assert answer.md_thread([]) == "" and "On md-raid5 a stream" in answer.md_thread(["md-raid5"])


def test_time_in_which_nothing_works_is_told_with_its_reason(study):
    """Time beyond processor and device, without a tick of the kernel's clock, in which a device's time is counted."""
    contenders = study.phases["role"] == "contender"
    first = study.phases["phase"] == "create"
    idle = {"wall_ns": 100_000_000, "processor_busy": 0.45, "device_busy_ns": 10_000_000}

    def told(where, filesystem="ext4", **keys):
        phases = study.phases.assign(processor_busy=1.0, device_busy_ns=0)
        phases.loc[where, [*idle]] = [*(idle | keys).values()]
        phases.loc[phases["label"] == "ext4", "filesystem"] = filesystem
        trials = study.trials.assign(mounted_total_bytes=1 << 30)
        plan = study.plan.model_copy(
            update={"filesystems": {**study.plan.filesystems, "btrfs": study.plan.filesystems["ext4"]}}
        )
        return threats.idle(dataclasses.replace(study, phases=phases, trials=trials, plan=plan))

    ext4 = first & (study.phases["label"] == "ext4")
    assert told(ext4 & False) == []
    assert told(ext4, processor_busy=0.77) == []  # 9 %
    assert told(ext4, device_busy_ns=None) == []  # not known
    (unknown,) = told(ext4)
    assert unknown.startswith("In 1 of ") and unknown.endswith("on ext4, 41 %): what is waited for is not known.")
    assert "Btrfs waits for room in a file system below 2 GiB" in told(ext4, "btrfs")[0]
    (every,) = told(first & contenders)
    assert "In 2 of " in every and every.endswith(": on every file system, so the program itself waits.")


def test_an_assumption_of_a_device_model_is_said_once_with_what_rests_on_it():
    """From the descriptor: page one of every study on that model has it."""
    models = {name: CATALOG.get(Device, name) for name in ("ssd", "hdd-hds723020", "ram")}
    plan = Of(disks=lambda profile: [models[name] for name in profile.split("+")])
    study = Of(trials=pd.DataFrame({"profile": ["ssd", "ram", "hdd-hds723020+ssd", "ssd"]}), plan=plan)
    disk, ssd = limits.assumed(study)
    assert "assumed" in disk and "flushes take 80 µs alike" in ssd
    assert limits.assumed(Of(trials=pd.DataFrame({"profile": ["ram"]}), plan=plan)) == []


@pytest.mark.parametrize(
    ("labs", "named"),
    [
        (["exact@v2-0.5ns@debian-6.1", "exact@v2-0.5ns@debian-7.3"], "kernel debian-6.1"),
        (["exact@v2-0.5ns@64mib", "exact@v2-0.5ns"], "memory 64 MiB"),
        (["exact@v2-0.5ns", "exact@v2-0.5ns@64mib"], "lab exact@v2-0.5ns"),
        (["exact@v1-1ns", "exact@v2-0.5ns"], "CPU model v1-1ns"),
        (["exact@v2-0.5ns", "host"], "lab exact@v2-0.5ns"),
    ],
)
def test_a_lab_is_named_by_what_alone_tells_labs_apart(study, labs, named):
    several = study.trials.assign(lab=[*labs, *[labs[0]] * (len(study.trials) - 2)])
    assert dataclasses.replace(study, trials=several).differing(lab=labs[0]) == named
