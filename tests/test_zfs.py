"""OpenZFS in the exact lab: its guest, its file and its stacks. The first use of the guest compiles for minutes."""

import json

import pytest
import test_contract
from helpers import CATALOG, cell, events, rendered, shell, told
from reprofs import files
from reprofs.guest.steps import Exec, Job
from reprofs.labs import exact
from reprofs.plan.cell import Trial
from reprofs.plan.guest import read_guest
from reprofs.plan.stack import Layer
from reprofs.records.raw import measurement

pytestmark = pytest.mark.xdist_group("zfs")  # one worker: many questions are asked in one guest

STACKS = [name for name in CATALOG.paths(Layer) if CATALOG.get(Layer, name).filesystem == "zfs"]
FIRST = ("zfs-mirrors", "zfs-raidz2")  # the others, and variants but these, take minutes
NOW = ("default", "ashift12")
# A stack, the devices that it hands over, and a pool of the same disks that is another one.
WRONG = {
    "stripe": ("zfs-raidz2", "raidz2 0 1 2 3 4 5", "0 1 2 3 4 5"),  # a plain stripe, as it was published in 2015
    "one parity": ("zfs-raidz2", "raidz2 0 1 2 3 4 5", "raidz1 0 1 2 3 4 5"),
    "fewer disks": ("zfs-raidz2", "raidz2 0 1 2 3 4 5", "raidz2 0 1 2 3 4 spare 5"),
    "no log": ("zfs-raidz2-log", "raidz2 0 1 2 3 4 5 log 6", "raidz2 0 1 2 3 4 5 6"),
    "no mirrors": ("zfs-mirrors", "mirror 0 1 mirror 2 3 mirror 4 5", "0 1 2 3 4 5"),
    "larger mirrors": ("zfs-mirrors", "mirror 0 1 mirror 2 3 mirror 4 5", "mirror 0 1 2 mirror 3 4 5"),
}


def job_of(variant: str = "default", stack: str = "single") -> str:
    return rendered(cell("zfs", variant=variant, stack=stack)).text()


def part(job: str, first: str, last: str) -> str:
    """The lines of a job from the first command of one stage to the end of the first commands of another."""
    lines = job.splitlines(keepends=True)
    start = next(i for i, line in enumerate(lines) if f"stage={first}\t" in line)
    found = [i for i, line in enumerate(lines) if f"stage={last}\t" in line]
    end = next(i for i in found if i + 1 not in found)
    return "".join(lines[start : end + 1])


def run(zfs_guest: dict, job: Job) -> bytes:
    """Runs a job; returns the engine's output."""
    outcome = exact.ExactLab(zfs_guest, files.cache_folder()).run(job, 900)
    assert outcome.ending == "finished", outcome.console
    return outcome.output


def outputs(found: list[dict], stage: str) -> list[str]:
    return [event["output"] for event in found if event["event"] == "command" and event["stage"] == stage]


USUAL = {"compression": "on", "recordsize": "128K", "relatime": "on", "sync": "standard", "ashift": "9"}


def said_of_pools(cells: list[Trial], parts: list[list[dict]]) -> dict[str, dict[str, str]]:
    """What ZFS says of the pool of each variant on one disk."""
    said: dict[str, dict[str, str]] = {}
    for trial, found in zip(cells, parts, strict=True):
        if trial.stack == "single":
            words = " ".join(outputs(found, "inspect")).split()
            own = {key: words[words.index(key) + 1] for key in USUAL if key != "ashift"}
            own["ashift"] = words[words.index("nullb0") + 2]
            assert said.setdefault(trial.variant, own) == own
    return said


@pytest.fixture(scope="module")
def cells() -> list[Trial]:
    """The cells of the contract that need this guest."""
    names = [name for name in test_contract.NAMES if test_contract.guest_name(name) == "zfs"]
    kinds = [kind for kind in test_contract.STACKS if test_contract.guest_name(kind[0]) == "zfs"]
    found = [trial for name in names for trial in test_contract.in_all_variants(name) if trial.variant in NOW]
    # The first stack without a power cut is left to the test of damage, which takes the other one.
    return found + [
        trial
        for kind in kinds
        for trial in test_contract.in_turn(test_contract.STACKS[kind])[1:]
        if trial.stack in FIRST
    ]


@pytest.fixture(scope="module")
def asked(zfs_guest, outcome, cells) -> list[dict]:
    """Events of many questions in one guest, whose start takes much of the time: those of tests/test_contract.py, what
    its modules are, and pools that are others than the stacks.
    """
    steps = test_contract.steps_of(cells)
    script = "sha256sum /lib/modules/*/updates/*.ko; modinfo -F vermagic zfs; zfs version; cat /sys/module/zfs"
    steps.append(shell(script + "/parameters/zfs_arc_max"))
    steps += told(job_of(stack="zfs-raidz2-log").partition("exec\tstage=module")[0]).steps  # seven disks
    for name, (stack, asked, given) in WRONG.items():
        job = part(job_of(stack=stack), "make", "readback")
        asked, given = (
            "".join(f"\targ=/dev/nullb{word}" if word.isdigit() else f"\targ={word}" for word in words.split())
            for words in (asked, given)
        )
        assert job.count(asked) == 1
        job = f"{job.replace(asked, given)}{shell('echo reached').line()}\n"
        # It has an engine of its own: a step that fails ends the job.
        script = 'printf %s "$1" > /run/own; "$ENGINE" run /run/own; zpool destroy reprofs'
        steps.append(Exec(stage=name, arg=["sh", "-c", script, "sh", job]))
    return events(outcome(exact.ExactLab(zfs_guest, files.cache_folder()), Job(steps), 900).output)


@pytest.fixture(scope="module")
def parts(cells, asked) -> list[list[dict]]:
    """The events of each cell."""
    end = next(number for number, event in enumerate(asked) if event.get("stage") == "test")
    return test_contract.parts_of(cells, asked[:end])


def test_every_variant_and_stack_keeps_the_contract(cells, parts):
    assert {trial.filesystem for trial in cells} == {"zfs"}
    assert {trial.stack for trial in cells} == {"single", *FIRST}
    assert len(parts) == len(cells) == len(NOW) + len(FIRST)


@pytest.mark.soak
def test_the_other_variants_and_stacks_keep_the_contract(zfs_guest):
    cells = [trial for trial in test_contract.in_all_variants("zfs") if trial.variant not in NOW]
    cells += [cell("zfs", stack=name, workload="stack") for name in STACKS if name not in FIRST]
    # With a power cut only one: its disks stay in the guest, which takes 32.
    cells += [
        trial
        for kind in test_contract.STACKS
        for trial in test_contract.in_turn(test_contract.STACKS[kind])
        if trial.stack == "zfs-raidz2-log"
    ]
    outcome = test_contract.open_lab(cells[0]).run(Job(test_contract.steps_of(cells)), 1800)
    assert outcome.ending == "finished", outcome.console
    said = said_of_pools(cells, test_contract.parts_of(cells, events(outcome.output)))
    assert said == {
        "compression-off": {**USUAL, "compression": "off"},
        "gzip": {**USUAL, "compression": "gzip"},
        "recordsize-16k": {**USUAL, "recordsize": "16K"},
        "recordsize-1m": {**USUAL, "recordsize": "1M"},
        "sync-always": {**USUAL, "sync": "always"},
        "sync-disabled": {**USUAL, "sync": "disabled"},
    }


@pytest.mark.soak
def test_a_stack_with_a_last_disk_of_another_kind_has_the_same_bytes_twice(zfs_guest):
    cells = [cell("zfs", stack="zfs-log", profile="hdd-7200+ssd-nvme", workload="stack")]
    output = run(zfs_guest, Job(test_contract.steps_of(cells)))
    assert run(zfs_guest, Job(test_contract.steps_of(cells))) == output
    (found,) = test_contract.parts_of(cells, events(output))
    assert "log" in "".join(outputs(found, "readback"))


def test_guest_has_the_modules_that_were_compiled_for_its_kernel(zfs_guest, asked):
    tools, compiler = zfs_guest["packages"]["zfsutils-linux"], zfs_guest["compiled_with"]
    assert zfs_guest["modules"].keys() == {"modeldisk.ko", "spl.ko", "zfs.ko"}
    assert compiler["zfs-dkms"] == tools
    kernel = zfs_guest["packages"][f"linux-image-{zfs_guest['kernel']}"]
    assert compiler[f"linux-headers-{zfs_guest['kernel']}"] == kernel
    (said,) = outputs(asked, "test")
    for digest in zfs_guest["modules"].values():
        assert digest in said
    assert f"\n{zfs_guest['kernel']} " in said
    assert f"zfs-{tools}\nzfs-kmod-{tools}\n" in said
    (line,) = read_guest("zfs").modprobe
    assert said.endswith(f"\n{line.rpartition('=')[2]}")


def test_variants_are_what_they_say(cells, parts):
    assert said_of_pools(cells, parts) == {"default": USUAL, "ashift12": {**USUAL, "ashift": "12"}}


@pytest.mark.parametrize("name", WRONG)
def test_nothing_else_is_taken_for_the_stack(asked, name):
    (output,) = outputs(asked, name)
    found = events(output)
    (failed,) = [event["reason"] for event in found if event["event"] == "failed"]
    assert failed.startswith("readback: the output of zpool does not match")
    assert outputs(found, "mount") and not outputs(found, "test")


@pytest.mark.parametrize("twice", [False, pytest.param(True, marks=pytest.mark.soak)])
def test_cold_from_the_device_and_damage_is_found(zfs_guest, outcome, twice):
    """A trial that is checked twice at its end: all is well before damage that redundancy hides, which is then found.
    Without compression nothing can be smaller on the device, so that every cold byte must come from there. twice: with
    the same bytes again.
    """
    job = job_of("compression-off", "zfs-raidz2")
    check = part(job, "check", "check")
    # Where a disk's first data lies: after its labels, which end at 4 MiB.
    damage = "dd if=/dev/urandom of=/dev/nullb0 bs=1M seek=4 count=31 conv=notrunc oflag=direct"
    job = told(job.replace(check, f"{check}{shell(damage).line()}\n{check}"))
    output = outcome(exact.ExactLab(zfs_guest, files.cache_folder()), job, 900).output
    assert not twice or run(zfs_guest, job) == output
    found = events(output)
    _, well, _, damaged = outputs(found, "check")
    (failed,) = [event["reason"] for event in found if event["event"] == "failed"]
    assert "scrub repaired 0B" in well and outputs(found, "test")
    assert failed.startswith("check: ") and "No known data errors" in failed and "state: ONLINE" in damaged
    measured = measurement(found, [], "instructions")
    assert all(phase["cold"]["proved"] for phase in measured["phases"] if phase["cache"] == "cold")
    assert measured["verification"] and not any(check["mismatches"] for check in measured["verification"])
    phases = {(phase["name"], phase["cache"]): phase for phase in measured["phases"]}
    cold, warm = phases["read", "cold"], phases["read", "warm"]
    assert cold["bytes"] == warm["bytes"] > 10_000_000
    assert cold["device"]["read_bytes"] >= cold["bytes"]
    assert warm["device"]["read_bytes"] == 0


def test_manifest_is_where_trials_look(zfs_guest, root):
    assert json.loads((root / "data/guest/zfs.json").read_text()) == zfs_guest
