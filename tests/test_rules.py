"""Which parts of a cell go together: every rule refuses a cell, in its own sentence, and lets an ordinary one pass."""

import pytest
from helpers import cell
from reprofs.errors import UserError
from reprofs.plan.catalog import Catalog
from reprofs.plan.filesystem import Filesystem
from reprofs.plan.kernel import Kernel
from reprofs.trial import resolve
from reprofs.trial.rules import RULES

CATALOG = Catalog()
CATALOG.add(Filesystem, "far", CATALOG.get(Filesystem, "here").as_json() | {"clients": {"hosts": ["a"]}})
OWN = {"file": "mine.deb", "sha256": "0" * 64}
CATALOG.add(Kernel, "mine", {"title": "mine", "debs": [OWN], "config_sha256": "0" * 64})
DIRECTORY = {"lab": "mount", "profile": "as-found", "variant": "default"}
CUT = {"profile": "hdd-7200", "workload": "power-cut"}
LOST = {"workload": "server-lost"}
# Name of a rule -> a cell that it refuses, and what it says.
REFUSED = {
    "fill_is_for_one_machine": (
        cell("far", **DIRECTORY, workload="metadata+fill50"),
        "workload metadata+fill50: +fill needs one machine, but file system far has the key clients: choose"
        " another file system.",
    ),
    "modifiers_run_in_their_labs": (
        cell(lab="host", workload="git-annex-small+nosync"),
        "workload git-annex-small+nosync runs in exact and vm only, not in lab host.",
    ),
    "raw_needs_the_bare_thing": (
        cell(workload="device"),
        "workload device measures the device itself: choose the file system raw.",
    ),
    "the_bare_thing_keeps_no_files": (
        cell("raw"),
        "file system raw is the bare device without files: choose a workload that measures it, such as device.",
    ),
    "one_guest_has_all": (
        cell("zfs", workload="iozone"),
        "file system zfs needs the guest zfs, but workload iozone the guest iozone: choose another file system. Or "
        "add the packages of iozone to zfs in envs/guest.yaml, and run `reprofs lock zfs`.",
    ),
    "what_is_timed_is_there": (
        cell(workload="scrub"),
        "workload scrub times a scrub, but workflow/filesystems/ext4.yaml has no key scrub: choose another file"
        " system.",
    ),
    "only_what_was_made_is_made_anew": (
        cell("here", lab="mount", workload="pulls"),
        "workload pulls makes the file system anew, but file system here in lab mount has no device of its own: choose"
        " another file system or lab.",
    ),
    "hosts_are_made_by_the_lab": (
        cell("nfs-ext4", lab="mount"),
        "file system nfs-ext4 needs nodes, which the lab mount does not have: choose exact, vm or host.",
    ),
    "every_server_has_a_disk": (
        cell("gluster"),
        "file system gluster has 3 servers, but stack single has 1 disks: choose the stack servers@3.",
    ),
    "a_file_systems_own_stack_is_its_own": (
        cell(stack="btrfs-raid1"),
        "stack btrfs-raid1 works only with btrfs (workflow/stacks/btrfs-raid1.yaml): file system ext4 cannot use it.",
    ),
    "a_fault_comes_after_a_population": (
        cell(stack="md-raid5-degraded"),
        "stack md-raid5-degraded gets its fault after the prefill, but workload metadata has none: choose"
        " a workload with the key populate, such as populated.",
    ),
    "a_limit_of_memory_is_a_size": (cell(lab="exact@8mib"), "memory_mib is 8, but must be from 16 to 16777216."),
    "a_limit_of_memory_is_set_as_root": (
        cell("here", **DIRECTORY | {"lab": "mount@64mib"}),
        "the lab mount cannot limit memory: leave memory_mib out, or choose another lab.",
    ),
    "a_limit_of_memory_is_for_one_host": (
        cell("nfs-ext4", lab="exact@64mib"),
        "file system nfs-ext4 has nodes; memory_mib would limit the clients together and no server: leave"
        " it out, or choose another file system.",
    ),
    "it_runs_in_its_labs": (
        cell("nfs-ext4", lab="host"),
        "file system nfs-ext4 runs in exact and vm only, not in the lab host.",
    ),
    "a_last_disk_of_another_profile_has_a_part": (
        cell(stack="md-raid5", profile="hdd-7200+ssd-nvme"),
        "device model hdd-7200+ssd-nvme gives the last disk its own model, but stack md-raid5 has equal disks:"
        " choose a stack with the key last, such as ext4-journal, or one model.",
    ),
    "disks_differ_where_they_are_modelled": (
        cell(stack="ext4-journal", profile="file+ram", lab="host"),
        "device model file+ram has two names, but lab host models no disks: choose the lab exact, or one name. (With"
        " profile disk the stack takes real disks in the order of config/devices.yaml, so the last may be another"
        " kind.)",
    ),
    "a_directory_is_there_before": (
        cell("here"),
        "file system here is an existing directory: use the lab mount, not exact@v2-0.5ns.",
    ),
    "where_nothing_is_made_there_is_a_directory": (
        cell(lab="mount"),
        "the lab mount creates no file systems: file system ext4 needs a key path, as in"
        " workflow/filesystems/here.yaml.",
    ),
    "without_devices_there_is_no_stack": (
        cell("tmpfs", stack="md-raid0"),
        "file system tmpfs has no block devices in lab exact@v2-0.5ns: use the stack single, not md-raid0.",
    ),
    "power_is_cut_where_disks_are_modelled": (
        cell(**CUT | {"lab": "vm", "profile": "ram"}),
        "workload power-cut cuts the power in phase promise: only the lab exact can do that, not vm.",
    ),
    "only_a_modelled_disk_has_power_to_cut": (
        cell(**CUT | {"profile": "ssd"}),
        "workload power-cut cuts the power in phase promise, but device model ssd has no power to cut: choose one with"
        " backing: model, such as hdd-7200.",
    ),
    "modelled_disks_need_the_kernels_headers": (
        cell(lab="exact@@mine", profile="hdd-7200"),
        f"{CATALOG.get(Kernel, 'mine').file} has no headers, so there is no module of modelled disks such as hdd-7200"
        " for it: add its package linux-headers under this key, or use ssd or ram.",
    ),
    "hosts_keep_their_power": (
        cell("nfs-ext4", **CUT),
        "workload power-cut cuts the power in phase promise, but file system nfs-ext4 has nodes, whose power cannot be"
        " cut yet.",
    ),
    "without_a_device_there_is_no_power": (
        cell("tmpfs", **CUT),
        "workload power-cut cuts the power in phase promise, but file system tmpfs has no device whose power could be"
        " cut.",
    ),
    "what_was_built_is_assembled_again": (
        cell(stack="md-raid5-degraded", **CUT),
        "workload power-cut cuts the power in phase promise, but workflow/stacks/md-raid5-degraded.yaml has no key"
        " assemble to restore md-raid5-degraded: choose another stack or add the key.",
    ),
    "crash_states_are_of_their_own_disk": (
        cell(workload="crash-states"),
        "workload crash-states visits crash states or faults; workflow/devices/ssd.yaml has none: choose the model"
        " crash.",
    ),
    "rot_is_of_disks_in_a_guest": (
        cell("tmpfs", workload="rot"),
        "workload rot changes bits of the disks themselves: choose a file system on devices of its own.",
    ),
    "only_hosts_lose_a_server": (
        cell(**LOST),
        "workload server-lost loses a server in phase server-killed, but file system ext4 has none: choose a file"
        " system with the key hosts.",
    ),
    "a_killed_server_comes_back": (
        cell("nfs-ext4", **LOST),
        "workload server-lost kills a server in phase server-killed, but file system nfs-ext4 has no key outage to"
        " restore it: choose another file system or add the key.",
    ),
    "a_server_without_power_has_a_modelled_disk": (
        cell("gluster", variant="replica-3", stack="servers", workload="history+clients3+power"),
        "workload history+clients3+power cuts the power of a server in phase history, but device model ssd in lab"
        " exact@v2-0.5ns has no power to cut: choose one with backing: model, such as ssd-nvme, and the lab exact.",
    ),
    "threads_of_the_kernel_do_not_stop": (
        cell("nfs-xfs", workload="history+clients3+stop"),
        "workload history+clients3+stop stops the processes of a server in phase history, but the server of file system"
        " nfs-xfs is threads of the kernel, which no signal stops: cut its cable instead.",
    ),
    "one_folder_is_mounted_for_all": (
        cell("here", **DIRECTORY, workload="history+clients3"),
        "workload history+clients3 has one folder for all clients, which the lab mount cannot mount for each: choose"
        " exact, vm or host.",
    ),
}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_every_rule_refuses_a_cell(rule, monkeypatch):
    trial, sentence = REFUSED[rule.__name__]
    with pytest.raises(UserError) as told:
        resolve.resolve(trial, CATALOG)
    assert str(told.value) == sentence
    # It is this rule that says so, and it has nothing against a plain cell.
    monkeypatch.setattr(resolve, "RULES", {})
    assert rule(resolve.resolve(trial, CATALOG)) == sentence
    assert rule(resolve.resolve(cell(), CATALOG)) == ""


def test_the_guest_of_a_stack_counts_too():
    assert (
        resolve.resolve(cell(stack="luks"), CATALOG).guest
        == resolve.resolve(cell(stack="luks", workload="random-access"), CATALOG).guest
    )
    assert (
        resolve.resolve(cell(stack="luks"), CATALOG).guest
        == "luks"
        != resolve.resolve(cell(stack="dm-crypt"), CATALOG).guest
    )
    with pytest.raises(UserError) as refused:
        resolve.resolve(cell("zfs", stack="luks"), CATALOG)
    assert str(refused.value) == (
        "file system zfs needs the guest zfs, but stack luks the guest luks: choose another file system. Or add the"
        " packages of luks to zfs in envs/guest.yaml, and run `reprofs lock zfs`."
    )


def test_there_is_no_case_without_a_rule():
    assert REFUSED.keys() == {rule.__name__ for rule in RULES}
