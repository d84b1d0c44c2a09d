"""The contract of every file in workflow/filesystems and workflow/stacks.

It can be made, mounted and read back, holds content that comes back from the device, and is gone afterwards, so
completely that the same can be done again. In the guest for all of them, on this machine's kernel where it can.
"""

import copy
import itertools
import os
import re
from functools import partial

import pytest
from helpers import CATALOG, cell, changed, events, shell, told
from reprofs import labs
from reprofs.data import formats
from reprofs.guest.steps import Exec, Job, Phase, Step
from reprofs.plan.catalog import Catalog
from reprofs.plan.cell import Trial
from reprofs.plan.device import Device
from reprofs.plan.filesystem import Filesystem, Variant
from reprofs.plan.guest import common
from reprofs.plan.stack import Layer, resolve
from reprofs.plan.workload import Workload
from reprofs.plan.workload import resolve as resolve_workload
from reprofs.records.protocol import MOUNTPOINT, RECOVERY
from reprofs.records.raw import measurement
from reprofs.trial.job import render
from reprofs.trial.resolve import resolve as resolve_cell
from reprofs.trial.run import obstacle
from reprofs.trial.setup import devices

OWN = Catalog()
TREE = {"files": 60, "directories": 9, "fan_out": 3, "size_median": 4055, "size_sigma": 1.45, "size_max": 65536}
READ = {"name": "read", "operation": "read", "cache": "cold", "title": "Read"}
REMOVE = {"name": "x", "operation": "remove", "title": "Remove"}
STACK = "contract+device512"  # disks are rebuilt the sooner the smaller they are
CUT = {"name": "stat", "operation": "stat", "title": "Stat", "crash": {}}
for name, phases in (("contract", [READ, REMOVE]), ("cut", [CUT])):
    small = {
        "title": "Contract",
        "description": "A small tree, written before the first phase.",
        "source": "none",
        "scales": {scale: TREE for scale in ("smoke", "laptop", "paper")},
        "populate": ["make-tree", "create"],
        "phases": phases,
    }
    OWN.add(Workload, name, small)
# What is no file system keeps no files; in an existing directory nothing is made or mounted (tests/test_labs.py).
NAMES = [n for n in CATALOG.paths(Filesystem) if not CATALOG.get(Filesystem, n).path]
NAMES = [n for n in NAMES if not CATALOG.get(Filesystem, n).raw]
SOMETIMES = ("stride", "stripe width", "journal", "flex group")  # of a format: what dumpe2fs prints where there is one
COMPOSED = ["md-raid6+lvm", "md-raid5x2+btrfs-raid0", "md-raid6@4", "md-raid10@12", "md-raid0@24"]


def steps_of(trials: list[Trial]) -> list[Step]:
    """Steps that run cells one after another in one guest, each on new disks."""
    steps, gone, modelled = [], [], 0
    for trial in trials:
        parts = resolve_cell(trial, OWN)
        steps += [*(Exec(stage="next", arg=["rmdir", folder]) for folder in gone), Exec(stage="next", arg=["true"])]
        found = devices(parts)
        gone = [f"/sys/kernel/config/nullb/{device['name']}" for device in found if "model" not in device]
        # Modelled disks stay, and the next ones come after them.
        after = partial(lambda before, number: str(before + int(number[0])), modelled)
        # Where a trial's state may be saved the guest stops; with several cells in one guest there is nothing to save.
        text = re.sub(r"^pause\t.*\n", "", render(parts).text(), flags=re.MULTILINE)
        steps += told(re.sub(r"(?<=/modeldisk)\d+", after, text)).steps
        modelled += 0 if gone else len(found)
    return steps


def parts_of(trials: list[Trial], found: list[dict]) -> list[list[dict]]:
    """The events of each cell, held against the contract."""
    parts: list[list[dict]] = []
    for event in found:
        if event.get("stage") != "next":
            parts[-1].append(event)
        elif event["argv"] == ["true"]:
            parts.append([])
    for trial, part in zip(trials, parts, strict=True):
        hold(trial, part)
    return parts


def run(outcome, trials: list[Trial]) -> None:
    """Runs cells one after another in one guest, and holds what came back against the contract."""
    found = outcome(open_lab(trials[0]), Job(steps_of(trials)), 3600)  # a trial's limit
    assert found.ending == "finished", found.console
    parts_of(trials, events(found.output))


def open_lab(trial: Trial) -> labs.Lab:
    return labs.get_lab(trial.lab).open(guest=resolve_cell(trial, OWN).guest)


def hold(trial: Trial, found: list[dict]) -> None:
    """What was asked for was mounted, every phase ran, every file came back, and cold reads came from the device."""
    descriptor = CATALOG.get(Filesystem, trial.filesystem)
    assert not [event for event in found if event["event"] == "failed"], (trial, found[-5:])
    own = descriptor.variants[trial.variant].type
    kind = descriptor.type if own is None else own
    assert {event["type"] for event in found if event["event"] == "mounted"} == {kind}
    measured = measurement(copy.deepcopy(found), [], "instructions")  # which takes the events apart
    if descriptor.format:
        printed = "\n".join(one["output"] for one in measured["commands"] if one["stage"] == "inspect")
        read = dict(formats.words(printed, descriptor.format))
        assert set(read) >= {name for name in descriptor.format if name not in SOMETIMES}, (trial, printed)
    checked = measured["verification"]
    assert checked and all((v["files"], v["mismatches"]) == (TREE["files"], 0) for v in checked), trial
    declared = [(p.name, p.cache) for p in resolve_workload(trial.workload, OWN).phases]
    if trial.workload == "cut":
        declared += [(f"stat{RECOVERY}", "cold")]
        assert [v["name"] for v in checked] == ["populate: tree", "stat: tree"]
    phases = [p for p in measured["phases"] if p["operation"] != "rebuild"]
    assert [(p["name"], p["cache"]) for p in phases] == declared
    assert all(p["wall_ns"] > 0 for p in phases)
    for phase in phases if descriptor.device else ():
        if phase["cold"] and phase["operation"] == "read":
            assert phase["device"]["read_bytes"] > 0.1 * phase["bytes"], trial
            assert trial.lab == "host" or trial.stack != "single" or phase["cold"]["proved"], trial
        # What is in memory must not touch the device; an array reads what it needs to write the rest of a stripe.
        if trial.stack == "single" and phase["cache"] == "warm" and phase["operation"] in ("stat", "read"):
            assert phase["device"]["read_bytes"] == 0, (trial, phase)


def profile_of(variant: Variant) -> str:
    """The kernel drops the mount option discard where the device takes none."""
    return "ssd-worn-discards" if "discard" in variant.expect else "ssd"


def in_all_variants(filesystem: str) -> list[Trial]:
    """All phases of metadata in the first variant, then every other one; or the only one again."""
    descriptor = CATALOG.get(Filesystem, filesystem)
    stack = descriptor.simplest_stack()
    first, *others = (
        cell(filesystem, variant=name, stack=stack, workload="contract", profile=profile_of(variant))
        for name, variant in descriptor.variants.items()
    )
    cells = [changed(first, workload=f"metadata@{TREE['files']}"), *(others or [first])]
    for trial in cells:
        assert obstacle(resolve_cell(trial, OWN), open_lab(trial)) == (descriptor.unavailable or "")
    return [] if descriptor.unavailable else cells


def in_turn(stacks: list[str]) -> list[Trial]:
    """The first stack twice, each other once, on disks whose power is cut: it comes back with the tree that was there
    before. A stack with a fault is not put together again, and those that are composed of others lose their power in
    tests/test_power.py.
    """
    cells: list[Trial] = []
    for stack in stacks:
        again = {"workload": "cut", "profile": "hdd-7200"}
        if stack in COMPOSED or CATALOG.get(Layer, stack).fault:
            again = {"workload": STACK}
        # It hands over two devices, and ext4 takes one.
        name = "md-raid5x2+lvm" if stack == "md-raid5x2" else stack
        first = cell(kind_of(stack)[0], stack=name, workload=STACK)
        assert not obstacle(resolve_cell(first, OWN), open_lab(first))
        cells += [first, changed(first, **again)] if not cells else [changed(first, **again)]
    return cells


def kind_of(stack: str) -> tuple[str, ...]:
    """What the stack is for, the first word of its name, and whether it has a fault. Those of one kind need the same
    modules; the engine looks after a rebuild until its job ends.
    """
    kind = (resolve(stack, CATALOG).filesystem or "ext4", stack.partition("-")[0])
    return (*kind, "fault") if stack not in COMPOSED and CATALOG.get(Layer, stack).fault else kind


def guest_name(filesystem: str) -> str:
    return CATALOG.get(Filesystem, filesystem).guest


def guest_of(stacks: list[str]) -> str:
    """The guest that has what these stacks need and what they are for."""
    return common(
        *(name for stack in stacks for name in (resolve(stack, CATALOG).guest, guest_name(kind_of(stack)[0])))
    )


AT_ONCE = 5  # stacks: modelled disks of all of them stay in the guest, and it takes at most 32
# kind and number -> stacks.
STACKS = {
    (*kind, str(at // AT_ONCE + 1)): stacks[at : at + AT_ONCE]
    for kind, found in itertools.groupby(sorted([*CATALOG.paths(Layer), *COMPOSED], key=kind_of), kind_of)
    for stacks in [list(found)]
    for at in range(0, len(stacks), AT_ONCE)
}


# Those of other guests: below, tests/test_zfs.py and tests/test_networks.py.
@pytest.mark.parametrize("filesystem", [name for name in NAMES if guest_name(name) == "base"])
def test_file_system_in_the_guest(guest, outcome, filesystem):
    if cells := in_all_variants(filesystem):
        run(outcome, cells)


@pytest.mark.parametrize("kind", [kind for kind in STACKS if guest_of(STACKS[kind]) == "base"], ids=" ".join)
def test_stacks_in_the_guest(guest, outcome, kind):
    run(outcome, in_turn(STACKS[kind]))


@pytest.mark.soak
def test_encrypted_disks_in_their_guest_twice(luks_guest):
    """Their header is of random bytes, which are the same ones again."""
    (stacks,) = [found for found in STACKS.values() if guest_of(found) == "luks"]
    cells = in_turn(stacks)
    outcomes = [open_lab(cells[0]).run(Job(steps_of(cells)), 900) for _ in range(2)]
    assert all(outcome.ending == "finished" for outcome in outcomes), outcomes[0].console
    assert outcomes[0].output == outcomes[1].output
    parts_of(cells, events(outcomes[0].output))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make loop devices and mount")
@pytest.mark.parametrize("filesystem", [name for name in NAMES if not CATALOG.get(Filesystem, name).hosts])
def test_file_system_on_this_kernel(filesystem):
    """Those with hosts: tests/test_labs.py."""
    if "host" not in (CATALOG.get(Filesystem, filesystem).labs or ["host"]):
        pytest.skip("the host lab does not run it")
    trial = cell(filesystem, lab="host", profile="ram", workload="contract")
    lab = open_lab(trial)
    if reason := obstacle(resolve_cell(trial, OWN), lab):
        pytest.skip(reason)
    parts = resolve_cell(trial, OWN)
    found = devices(parts)
    size = found[0]["size_bytes"] >> 20 if found else 0
    outcome = lab.run(render(parts), 600, labs.Disks(CATALOG.get(Device, "ram"), len(found), size))
    assert outcome.ending == "finished", outcome.console
    hold(trial, events(outcome.output))


@pytest.mark.parametrize("filesystem", ["ext4", "f2fs"])
def test_a_folder_may_ignore_case(guest, outcome, filesystem):
    job = render(resolve_cell(cell(filesystem, variant="casefold", workload="metadata@1"), OWN))
    at = next(i for i, step in enumerate(job.steps) if isinstance(step, Phase))
    job.steps.insert(at, shell(f"cd {MOUNTPOINT}; mkdir any; chattr +F any; echo found > any/Name; cat any/nAME"))
    found = outcome(labs.get_lab("exact").open(), job, 120)
    assert found.ending == "finished", found.console
    (told,) = [event for event in events(found.output) if event.get("stage") == "test"]
    assert (told["exit"], told["output"]) == (0, "found")


@pytest.mark.wide
def test_what_is_there_must_be_what_was_asked_for(guest):
    """A stack whose build makes something else than its file promises fails the trial: here a stripe sold as RAID 6."""
    catalog = Catalog()
    layer = catalog.get(Layer, "md-raid6").as_json()
    build = [layer["build"][0].replace("--level=6", "--level=0").replace("--bitmap=none {clean}", "")]
    catalog.add(Layer, "md-raid6", {**layer, "build": build, "modules": ["raid0"]})
    parts = resolve_cell(cell(stack="md-raid6", workload="populated"), catalog)
    lab = labs.get_lab("exact").open()
    outcome = lab.run(render(parts), 120, labs.Disks(parts.profile, 6, parts.disk_mib))
    found = events(outcome.output)
    (failed,) = [event for event in found if event["event"] == "failed"]
    assert failed["reason"] == "readback: the output of cat does not match '^md127 : active raid6 '"
    assert not [event for event in found if event["event"] in ("phase", "preparation")]
