"""The contract of every file in workflow/filesystems and workflow/stacks.

It can be made, mounted and read back, holds content that comes back from the device, and is gone afterwards, so
completely that the same can be done again. In the guest for all of them, on this machine's kernel where it can.
"""

import os

import pytest
from conftest import events, told
from reprofs import labs
from reprofs.guest.steps import Exec
from reprofs.plan.catalog import Catalog
from reprofs.plan.stacks import resolve
from reprofs.trial.cell import resolve as resolve_cell
from reprofs.trial.job import render_job
from reprofs.trial.run import obstacle

CATALOG = Catalog()
TREE = {"files": 60, "directories": 9, "fan_out": 3, "size_median": 4055, "size_sigma": 1.45, "size_max": 65536}
CATALOG.add(
    "workload",
    "contract",
    {
        "title": "Contract",
        "description": "A small tree, written before the first phase.",
        "source": "none",
        "scales": {scale: {"device_mib": 1024, **TREE} for scale in ("smoke", "laptop", "paper")},
        "populate": ["make-tree", "create"],
        "phases": [
            {"name": "read", "operation": "read", "cache": "cold", "title": "Read"},
            {"name": "remove", "operation": "remove", "title": "Remove"},
        ],
    },
)
# What is no file system keeps no files.
NAMES = [name for name in CATALOG.paths("filesystem") if not CATALOG.get("filesystem", name)["raw"]]
FILESYSTEMS = [(name, variant) for name in NAMES for variant in CATALOG.get("filesystem", name)["variants"]]
COMPOSED = ["md-raid6+lvm", "md-raid5x2+btrfs-raid0", "md-raid6@4", "md-raid10@12", "md-raid0@24"]


def cell(lab: str, filesystem: str, variant: str, stack: str = "single") -> dict:
    profile = "ssd" if lab == "exact" else "ram"
    place = {"lab": lab, "filesystem": filesystem, "variant": variant, "stack": stack, "profile": profile}
    return {**place, "workload": "contract", "scale": "smoke", "round": 1, "seed": 11, "order": None}


def twice(job: str, devices: list[dict]) -> str:
    """A job, and then the whole of it again on new disks of the same names."""
    folders = [f"/sys/kernel/config/nullb/{device['name']}" for device in devices]
    gone = [Exec(stage="test", arg=["rmdir", folder]).line() for folder in folders]
    return job + "".join(f"{line}\n" for line in gone) + job


def run(trial: dict, times: int) -> None:
    """Runs the cell `times` times in one lab and holds what came back against the contract."""
    descriptor = CATALOG.get("filesystem", trial["filesystem"])
    lab = labs.get_lab(trial["lab"]).open(guest=descriptor["guest"])
    reason = obstacle(resolve_cell(trial, CATALOG), lab)
    if "unavailable" in descriptor:
        assert reason == descriptor["unavailable"]
        return
    if reason and trial["lab"] == "host":
        pytest.skip(reason)
    assert not reason
    job, devices = render_job(trial, CATALOG)
    size = devices[0]["size_bytes"] >> 20 if devices else 0
    text = twice(job, devices) if times == 2 else job
    profile = CATALOG.get("device", trial["profile"])
    outcome = lab.run(told(text), 600, labs.Disks(profile, len(devices), size))
    found = events(outcome.output.decode())
    assert not [event for event in found if event["event"] == "failed"], outcome.output.decode()[-4000:]
    assert outcome.ending == "finished"
    checked = [event for event in found if event["event"] == "verification"]
    assert [event["files"] for event in checked] == [TREE["files"]] * times
    assert all(event["mismatches"] == 0 for event in checked)
    kind = descriptor["variants"][trial["variant"]].get("type", descriptor["type"])
    mounted = [event for event in found if event["event"] == "mounted"]
    assert mounted and {event["type"] for event in mounted} == {kind}
    reads = [event for event in found if event["event"] == "phase" and event["name"] == "read"]
    assert len(reads) == times
    if descriptor["device"]:
        assert all(event["device"]["read_bytes"] > 0.1 * event["bytes"] for event in reads)


def guest_of(filesystem: str, request) -> None:
    """Builds the guest that a file system needs, or finds it in the cache."""
    request.getfixturevalue("zfs_guest" if CATALOG.get("filesystem", filesystem)["guest"] == "zfs" else "guest")


@pytest.mark.parametrize(("filesystem", "variant"), FILESYSTEMS)
def test_file_system_in_the_guest(filesystem, variant, request):
    """Twice in its first variant: the variants differ in how it is made and mounted, not in how it goes."""
    if "path" in CATALOG.get("filesystem", filesystem):
        pytest.skip("an existing directory: nothing is made or mounted (tests/test_labs.py)")
    guest_of(filesystem, request)
    first = next(iter(CATALOG.get("filesystem", filesystem)["variants"]))
    run(cell("exact", filesystem, variant), 2 if variant == first else 1)


@pytest.mark.parametrize("stack", [*CATALOG.paths("stack"), *COMPOSED])
def test_stack_in_the_guest_twice(stack, request):
    filesystem = resolve(stack, CATALOG).filesystem or "ext4"
    if stack == "md-raid5x2":
        stack = "md-raid5x2+lvm"  # it hands over two devices, and ext4 takes one
    guest_of(filesystem, request)
    variant = next(iter(CATALOG.get("filesystem", filesystem)["variants"]))
    run(cell("exact", filesystem, variant, stack), 2)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make loop devices and mount")
@pytest.mark.parametrize("filesystem", NAMES)
def test_file_system_on_this_kernel(filesystem):
    descriptor = CATALOG.get("filesystem", filesystem)
    if "path" in descriptor or "host" not in descriptor.get("labs", ["host"]):
        pytest.skip("the host lab does not run it")
    run(cell("host", filesystem, next(iter(descriptor["variants"]))), 1)


def test_what_is_there_must_be_what_was_asked_for(guest):
    """A stack whose build makes something else than its file promises fails the trial: here a stripe sold as RAID 6."""
    catalog = Catalog()
    layer = catalog.get("stack", "md-raid6")
    build = [layer["build"][0].replace("--level=6", "--level=0").replace("--bitmap=none {clean}", "")]
    catalog.add("stack", "md-raid6", {**layer, "build": build, "modules": ["raid0"]})
    catalog.add("workload", "contract", CATALOG.get("workload", "contract"))
    job, devices = render_job(cell("exact", "ext4", "default", "md-raid6"), catalog)
    lab = labs.get_lab("exact").open()
    outcome = lab.run(told(job), 120, labs.Disks(catalog.get("device", "ssd"), 6, devices[0]["size_bytes"] >> 20))
    found = events(outcome.output.decode())
    (failed,) = [event for event in found if event["event"] == "failed"]
    assert failed["reason"] == "readback: the output of cat does not match '^md127 : active raid6 '"
    assert not [event for event in found if event["event"] in ("phase", "preparation")]
