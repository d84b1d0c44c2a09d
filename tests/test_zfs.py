"""OpenZFS in the exact lab: its guest, its file and its stacks. The first use of the guest compiles for minutes."""

import json

import pytest
from helpers import CATALOG, cell, events, rendered, shell, told
from reprofs import files
from reprofs.guest import image as guest
from reprofs.labs import exact
from reprofs.trial.record import measurement


def job_of(variant: str = "default", stack: str = "single", workload: str = "metadata") -> str:
    return rendered(cell("zfs", variant=variant, stack=stack, workload=workload)).text()


def run(zfs_guest: dict, job: str) -> tuple[bytes, str]:
    """Runs a job; returns the engine's output and why the job failed, or nothing."""
    outcome = exact.ExactLab(zfs_guest, files.cache_folder()).run(told(job), 600)
    assert outcome.ending == "finished", outcome.console
    failed = [event["reason"] for event in events(outcome.output.decode()) if event["event"] == "failed"]
    return outcome.output, "".join(failed)


def outputs(output: bytes, stage: str) -> list[str]:
    return [e["output"] for e in events(output.decode()) if e["event"] == "command" and e["stage"] == stage]


def test_guest_has_the_modules_that_were_compiled_for_its_kernel(zfs_guest):
    tools, compiler = zfs_guest["packages"]["zfsutils-linux"], zfs_guest["compiled_with"]
    assert zfs_guest["modules"].keys() == {"modeldisk.ko", "spl.ko", "zfs.ko"}
    assert compiler["zfs-dkms"] == tools
    kernel = zfs_guest["packages"][f"linux-image-{zfs_guest['kernel']}"]
    assert compiler[f"linux-headers-{zfs_guest['kernel']}"] == kernel
    script = (
        "modprobe zfs; sha256sum /lib/modules/*/updates/*.ko; modinfo -F vermagic zfs; zfs version; cat /sys/module/zfs"
    )
    output, _ = run(zfs_guest, shell(script + "/parameters/zfs_arc_max").line())
    (said,) = outputs(output, "test")
    for digest in zfs_guest["modules"].values():
        assert digest in said
    assert f"\n{zfs_guest['kernel']} " in said
    assert f"zfs-{tools}\nzfs-kmod-{tools}\n" in said
    (line,) = guest.read_spec(name="zfs")["modprobe"]
    assert said.endswith(f"\n{line.rpartition('=')[2]}")


def test_same_bytes_twice_and_all_well(zfs_guest):
    job = job_of(stack="zfs-raidz2", workload="metadata@100")
    output, failed = run(zfs_guest, job)
    assert not failed
    assert run(zfs_guest, job)[0] == output
    measured = measurement(events(output.decode()), [], "instructions")
    assert all(phase["cold"]["proved"] for phase in measured["phases"] if phase["cache"] == "cold")
    assert measured["verification"] and not any(check["mismatches"] for check in measured["verification"])
    assert "scrub repaired 0B" in outputs(output, "check")[-1]


def test_cold_reads_all_from_the_device(zfs_guest):
    """Without compression nothing can be smaller on the device, so that every byte must come from there."""
    output, failed = run(zfs_guest, job_of("compression-off"))
    assert not failed
    phases = {(e["name"], e["cache"]): e for e in events(output.decode()) if e["event"] == "phase"}
    cold, warm = phases["read", "cold"], phases["read", "warm"]
    assert cold["bytes"] == warm["bytes"] > 10_000_000
    assert cold["device"]["read_bytes"] >= cold["bytes"]
    assert warm["device"]["read_bytes"] == 0


@pytest.mark.parametrize(
    ("stack", "asked", "given"),
    [
        ("zfs-raidz2", "raidz2 0 1 2 3 4 5", "0 1 2 3 4 5"),  # a plain stripe, as it was published in 2015
        pytest.param(*("zfs-raidz2", "raidz2 0 1 2 3 4 5", "raidz1 0 1 2 3 4 5"), marks=pytest.mark.soak),
        pytest.param(*("zfs-raidz2", "raidz2 0 1 2 3 4 5", "raidz2 0 1 2 3 4 spare 5"), marks=pytest.mark.soak),
        pytest.param(*("zfs-mirrors", "mirror 0 1 mirror 2 3 mirror 4 5", "0 1 2 3 4 5"), marks=pytest.mark.soak),
        ("zfs-mirrors", "mirror 0 1 mirror 2 3 mirror 4 5", "mirror 0 1 2 mirror 3 4 5"),
    ],
)
def test_nothing_else_is_taken_for_the_stack(zfs_guest, stack, asked, given):
    job = job_of(stack=stack)
    asked, given = (
        "".join(f"\targ=/dev/nullb{word}" if word.isdigit() else f"\targ={word}" for word in words.split())
        for words in (asked, given)
    )
    assert job.count(asked) == 1
    output, failed = run(zfs_guest, job.replace(asked, given))
    assert failed.startswith("readback: the output of zpool does not match")
    assert "phase" not in [event["event"] for event in events(output.decode())]


def test_check_finds_damage_that_redundancy_hides(zfs_guest):
    head, check, tail = job_of(stack="zfs-raidz2").partition("exec\tstage=check")
    damage = "dd if=/dev/urandom of=/dev/nullb0 bs=1M seek=5 count=200 conv=notrunc oflag=direct"
    output, failed = run(zfs_guest, f"{head}{shell(damage).line()}\n{check}{tail}")
    assert failed.startswith("check: ") and outputs(output, "test")
    assert "state: ONLINE" in outputs(output, "check")[-1] and "No known data errors" in failed


def test_variants_are_what_they_say(zfs_guest):
    """All made in one guest, one after the other: what ZFS then says of the pool."""
    descriptor = CATALOG.get("filesystem", "zfs")
    job = job_of().partition("exec\tstage=make")[0]
    for variant in descriptor["variants"]:
        steps = [line for line in job_of(variant).splitlines() if line.startswith("exec\tstage=")]
        first = steps.index(next(line for line in steps if "stage=make" in line))
        last = max(i for i, line in enumerate(steps) if "stage=inspect" in line)
        job += "".join(f"{line}\n" for line in [*steps[first : last + 1], shell("zpool destroy reprofs").line()])
    output, failed = run(zfs_guest, job)
    assert not failed
    said, inspected = {}, iter(outputs(output, "inspect"))
    for variant in descriptor["variants"]:
        words = " ".join(next(inspected) for _ in descriptor["inspect"]).split()
        keys = ("compression", "recordsize", "relatime", "sync")
        said[variant] = {key: words[words.index(key) + 1] for key in keys}
        said[variant]["ashift"] = words[words.index("nullb0") + 2]
    usual = {"compression": "on", "recordsize": "128K", "relatime": "on", "sync": "standard", "ashift": "9"}
    assert said == {
        "default": usual,
        "ashift12": {**usual, "ashift": "12"},
        "compression-off": {**usual, "compression": "off"},
        "recordsize-16k": {**usual, "recordsize": "16K"},
        "recordsize-1m": {**usual, "recordsize": "1M"},
    }


def test_manifest_is_where_trials_look(zfs_guest, root):
    assert json.loads((root / "data/guest/zfs.json").read_text()) == zfs_guest
