"""The modelled disks of the exact lab as block devices: data come back, a power cut takes what was not flushed and
nothing else, and the driver's own work is small. tests/test_disks.py holds their speed against closed forms.
"""

import json

import pytest
from helpers import CATALOG, events
from reprofs import files
from reprofs.guest import kernel as kernels
from reprofs.guest.lock import read_lock
from reprofs.guest.steps import Exec, Job, Step, Write
from reprofs.labs import Disks
from reprofs.labs.exact import ExactLab
from reprofs.plan.device import Device
from reprofs.plan.flash import Simulation
from reprofs.plan.kernel import Kernel

ROTATING, SOLID = (CATALOG.get(Device, name) for name in ("hdd-7200", "ssd-sata"))


def shell(script: str) -> Exec:
    return Exec(stage="test", arg=["bash", "-ec", script])


def disk(profile: Device, **changes) -> list[Step]:
    changed = profile.model_copy(update={"disk": profile.drive.model_copy(update=changes)})
    return ExactLab.device_steps(Disks(changed, 1, 256))


def run(outcome, guest: dict, steps: list[Step], *scripts: str, kernel=None) -> list[str]:
    """What each script printed. Fails with the job's own words when one of them did."""
    lab = ExactLab(guest, files.cache_folder(), kernel=kernel)
    told = outcome(lab, Job([*steps, *map(shell, scripts)]), 300)
    assert told.ending == "finished", told.console
    found = events(told.output.decode())
    assert not [event["reason"] for event in found if event["event"] == "failed"]
    return [event["output"] for event in found if event["event"] == "command"]


# Blocks of all sizes and places at once, many of them again and again; then all is read back from the media.
CHURN = (
    "fio --name=churn --filename=/dev/modeldisk0 --size=24M --rw=randwrite --bsrange=512-64k --direct=1 "
    "--ioengine=io_uring --iodepth=16 --norandommap --verify=crc32c --verify_fatal=1 --io_size=48M "
    "--serialize_overlap=1"
)


@pytest.mark.wide
@pytest.mark.parametrize(
    ("profile", "changes"),
    [
        (ROTATING, {"cache_mib": 2}),
        (ROTATING, {"write_cache": False}),
        (ROTATING, {"nonvolatile": True, "cache_mib": 2}),
        (SOLID, {"cache_mib": 2}),
        (SOLID, {"write_cache": False, "parallel": 1}),
    ],
)
def test_data_come_back(outcome, fio_guest, profile, changes):
    cut = "echo cut > /sys/block/modeldisk0/supply; echo restore > /sys/block/modeldisk0/supply"
    check = f"sync -d /dev/modeldisk0; {cut}; {CHURN} --verify_only 2>&1 | grep -c 'err= 0'"
    said = run(outcome, fio_guest, disk(profile, **changes), f"{CHURN} --do_verify=1 2>&1 | grep -c 'err= 0'", check)
    assert said == ["1", "1"]


def test_zeros_replace_what_was_there_and_take_no_memory(outcome, guest):
    """Whole pages of them are kept as nothing; sectors of them within a page that holds something are written."""
    script = """
exec 2> /dev/null
disk=/dev/modeldisk0
free() { awk '/^MemFree/ {print int($2 / 1024)}' /proc/meminfo; }
head -c 1M /dev/urandom > /run/a
before=$(free)
dd if=/dev/zero of=$disk bs=1M count=128 oflag=direct
[ $((before - $(free))) -lt 16 ] && echo little
dd if=/run/a of=$disk bs=64K oflag=direct
dd if=/dev/zero of=$disk bs=512 seek=3 count=1021 oflag=direct
dd if=/dev/zero of=$disk bs=64K seek=8 count=4 oflag=direct
{ head -c 1536 /run/a; head -c 784896 /dev/zero; tail -c +786433 /run/a; } > /run/b
head -c 1M $disk | cmp - /run/b && sync -d $disk && echo same
echo cut > /sys/block/modeldisk0/supply; echo restore > /sys/block/modeldisk0/supply
head -c 1M $disk | cmp - /run/b && echo again
"""
    assert run(outcome, guest, disk(SOLID), script)[0].split() == ["little", "same", "again"]


MARKS = """
exec 2> /dev/null
disk=/dev/modeldisk0
mark() { head -c 4096 /dev/zero | tr '\\0' $1 | dd of=$disk bs=4096 seek=$2 oflag=direct$3; }
show() { for at in 0 1 2 3; do dd if=$disk bs=4096 skip=$at count=1 iflag=direct | head -c 1; done | tr '\\0' -; echo; }
power() { echo $1 > /sys/block/modeldisk0/supply; }
"""


@pytest.mark.parametrize(
    ("changes", "left"),
    [({}, "axx-"), ({"write_cache": False}, "bxxb"), ({"nonvolatile": True}, "bxxb")],
)
def test_power_cut_takes_what_was_not_flushed(outcome, guest, changes, left):
    """Place 0: flushed, then overwritten. 1: flushed by fsync. 2: written through (FUA or a flush). 3: never flushed.

    The disk turns once a second, so that it cannot have destaged the last ones by itself.
    """
    script = f"""{MARKS}
        mark a 0; mark x 1; sync -d $disk; mark x 2 ,dsync; mark b 0; mark b 3; power cut; show
        mark c 1; mark c 2; show; cat /sys/block/modeldisk0/supply
        power restore; show; cut -d' ' -f4 /sys/block/modeldisk0/account; cat /sys/block/modeldisk0/supply"""
    (said,) = run(outcome, guest, disk(ROTATING, rpm=60, **changes), script)
    before, during, supply, after, lost, on = said.splitlines()
    assert (before, during, supply, after, on) == ("bxxb", "bccb", "cut", left, "on")
    assert int(lost) == 4096 * (4 if left == "axx-" else 2)


def test_cut_that_was_armed_comes_at_its_time(outcome, guest):
    """A write each 100 ms for a second, each flushed; the cut comes after 450 ms: five or so are kept, in order."""
    script = f"""{MARKS}
        power 'cut 450000000'
        for at in 0 1 2 3 4 5 6 7 8 9; do sleep 0.1; mark k $at; sync -d $disk; done
        cat /sys/block/modeldisk0/supply
        power restore; head -c 40960 $disk | tr -d '\\0' | wc -c"""
    (said,) = run(outcome, guest, disk(ROTATING), script)
    supply, kept = said.split()
    assert supply == "cut" and int(kept) in (3 * 4096, 4 * 4096)


@pytest.mark.wide
def test_wrong_settings_are_refused(guest):
    lab = ExactLab(guest, files.cache_folder())
    for text in ("kind=square size=1048576", "kind=rotating size=1048576 speed=3", "kind=solid size=1048576 block=512"):
        job = Job([Write(path="/sys/module/modeldisk/parameters/add", text=text)])
        output = lab.run(job, 60).output.decode()
        assert "Invalid argument" in json.dumps(events(output))


@pytest.mark.parametrize("profile", [ROTATING, SOLID])
def test_driver_takes_little_of_the_service_time(outcome, fio_guest, profile):
    """Random reads of 4 KiB, one at a time: a thousandth on a rotating disk, 3 % where one takes 0.1 ms."""
    script = (
        "fio --name=r --filename=/dev/modeldisk0 --rw=randread --bs=4k --direct=1 --number_ios=500 --norandommap "
        "> /dev/null; cat /sys/block/modeldisk0/account"
    )
    (said,) = run(outcome, fio_guest, disk(profile), script)
    requests, service, own, _ = map(int, said.split())
    assert requests >= 500
    limit = 0.001 if profile is ROTATING else 0.03
    assert own / service < limit, f"{own / requests:.0f} ns of {service / requests:.0f} ns a request"
    print(f"{own / requests:.0f} ns of {service / requests:.0f} ns a request")


@pytest.mark.wide
def test_same_times_twice(fio_guest):
    def always(lab, job, limit_s):
        return lab.run(job, limit_s)

    script = f"{CHURN} > /dev/null; cat /sys/block/modeldisk0/account"
    assert run(always, fio_guest, disk(ROTATING), script) == run(always, fio_guest, disk(ROTATING), script)


@pytest.mark.wide
def test_the_flash_of_a_worn_disk_in_the_guest_does_what_the_simulation_does(outcome, guest):
    """Made as `flash_use` says, then half of the disk is written in sequence: the pages moved, the blocks erased."""
    worn, pages, x = CATALOG.get(Device, "ssd-worn"), 64 * 256, 88172645463325252
    blocks = worn.drive.flash.blocks
    other = Simulation(blocks, int(pages * 1.07) // blocks, fifo=False)
    other.write(range(pages))
    for _ in range(3 * pages):
        x ^= x << 13 & (1 << 64) - 1
        x ^= x >> 7
        x ^= x << 17 & (1 << 64) - 1
        other.write([(x >> 1) * pages >> 63])
    before = other.moved, other.erased
    other.write(range(pages // 2))
    script = (
        f"dd if=/dev/zero of=/dev/modeldisk0 bs=64k count={pages // 32} oflag=direct 2> /dev/null; "
        "sync -d /dev/modeldisk0; cat /sys/block/modeldisk0/wear"
    )
    (said,) = run(outcome, guest, ExactLab.device_steps(Disks(worn, 1, 64)), script)
    assert [int(word) for word in said.split()] == [pages // 2, other.moved - before[0], other.erased - before[1], 0]


READS = "fio --name=r --filename=/dev/modeldisk0 --rw=randread --bs=4k --direct=1 --number_ios=500 --norandommap"
ACCOUNT = f"cat /sys/block/modeldisk0/account; {READS} > /dev/null; cat /sys/block/modeldisk0/account"
ATTRIBUTES = """cd /sys/block/modeldisk0/queue
grep . rotational logical_block_size physical_block_size max_hw_sectors_kb max_sectors_kb max_segments \
    max_segment_size write_cache fua discard_max_hw_bytes discard_granularity nr_requests
tr " " "\\n" < scheduler | grep ]"""


@pytest.mark.wide
@pytest.mark.parametrize("kernel", CATALOG.paths(Kernel))
@pytest.mark.parametrize("profile", [ROTATING, SOLID], ids=["rotating", "solid"])
def test_a_disk_is_the_same_on_every_kernel(outcome, fio_guest, engine, kernel, profile):
    """500 random reads, one at a time. A solid disk takes exactly as long for each; a platter turns while the kernel
    works, so that all together take as long to half a percent."""
    chosen = CATALOG.get(Kernel, kernel)
    other = (chosen, kernels.build(files.cache_folder(), read_lock(), chosen, engine, print))
    (what, own), (what_other, theirs) = (
        run(outcome, fio_guest, disk(profile), ATTRIBUTES, ACCOUNT, kernel=kernel) for kernel in (None, other)
    )
    assert what == what_other
    taken = [
        [int(b) - int(a) for a, b in zip(*map(str.split, said.splitlines()), strict=True)] for said in (own, theirs)
    ]
    assert taken[0][0] == taken[1][0] >= 500
    assert taken[0][1] == (taken[1][1] if profile is SOLID else pytest.approx(taken[1][1], rel=0.005))
