"""Which parts of a cell go together: a rule is a function, under the kind of file whose keys it is about.

A rule gets a setup whose parts all exist, and returns the sentence that refuses it, or nothing. The first that refuses
is what the user reads. tests/test_rules.py has a cell that each of them refuses.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from reprofs import labs
from reprofs.errors import short
from reprofs.plan.device import CRASH, Device, profile_names
from reprofs.plan.filesystem import Filesystem
from reprofs.plan.guest import common
from reprofs.plan.kernel import Kernel
from reprofs.plan.parts import MEMORY_MIB, Descriptor
from reprofs.plan.stack import Layer
from reprofs.plan.study import Study
from reprofs.plan.workload import Workload
from reprofs.trial import upkeep
from reprofs.trial.outages import SERVER
from reprofs.trial.setup import Setup

Rule = Callable[[Setup], str]
RULES: dict[Rule, type[Descriptor]] = {}  # rule -> the kind whose it is, in the order in which they are asked


def of(kind: type[Descriptor]) -> Callable[[Rule], Rule]:
    """Makes a function a rule of that kind of file."""

    def add(rule: Rule) -> Rule:
        RULES[rule] = kind
        return rule

    return add


def _no_lab(part: Descriptor, names: list[str]) -> str:
    """A sentence when one of the labs that a file names is none."""
    wrong = [short(name) for name in names if name not in labs.names()]
    return f"{part.file}: labs has {wrong[0]}, which is none of {', '.join(labs.names())}." if wrong else ""


# ---- what is measured, and by whom


@of(Workload)
def fill_is_for_one_machine(setup: Setup) -> str:
    """The modifiers +fill and +pulls."""
    workload = setup.workload
    if not (setup.filesystem.clients and (workload.fill or workload.pulls)):
        return ""
    word = "fill" if workload.fill else "pulls"
    return (
        f"{_load(setup)}: +{word} needs one machine, but {_name(setup)} has the key clients: choose another file"
        " system."
    )


@of(Workload)
def modifiers_run_in_their_labs(setup: Setup) -> str:
    """The key labs of a modifier."""
    able = setup.workload.labs
    if able is None or setup.lab.name in able:
        return ""
    unknown = _no_lab(setup.workload, able)
    return unknown or f"{_load(setup)} runs in {' and '.join(able)} only, not in lab {setup.lab.name}."


@of(Workload)
def raw_needs_the_bare_thing(setup: Setup) -> str:
    """The keys raw and network."""
    workload, filesystem = setup.workload, setup.filesystem
    if not workload.raw or (filesystem.raw and workload.network == bool(filesystem.hosts)):
        return ""
    what, bare = ("network", "wire") if workload.network else ("device", "raw")
    return f"{_load(setup)} measures the {what} itself: choose the file system {bare}."


@of(Filesystem)
def the_bare_thing_keeps_no_files(setup: Setup) -> str:
    """The key raw."""
    if not setup.filesystem.raw or setup.workload.raw:
        return ""
    what = "network" if setup.filesystem.hosts else "device"
    return f"{_name(setup)} is the bare {what} without files: choose a workload that measures it, such as {what}."


@of(Workload)
def one_guest_has_all(setup: Setup) -> str:
    """The key guest of all three."""
    if not setup.lab.in_guest or setup.guest:
        return ""
    parts = [(_name(setup), setup.filesystem.guest)]
    parts += [(f"stack {placed.layer.name}", placed.layer.guest) for placed in setup.stack.placed]
    parts += [(_load(setup), setup.workload.guest)]
    pairs = itertools.combinations(parts, 2)
    (one, first), (other, second) = next((a, b) for a, b in pairs if not common(a[1], b[1]))
    return (
        f"{one} needs the guest {first}, but {other} the guest {second}: choose another "
        f"{one.rpartition(' ')[0]}. Or add the packages of {second} to {first} in envs/guest.yaml, and run "
        f"`reprofs lock {first}`."
    )


@of(Workload)
def what_is_timed_is_there(setup: Setup) -> str:
    """The key upkeep of a phase."""
    keys, filesystem = upkeep.asked(setup), setup.filesystem
    if filesystem.unavailable:
        return ""  # which is why it is skipped
    if keys and not (setup.lab.provisions and filesystem.device and not filesystem.hosts):
        return (
            f"{_load(setup)} times the file system's own commands, but {_name(setup)} in lab {_lab(setup)} has no "
            "device of its own: choose another file system or lab."
        )
    lacking = next((key for key in keys if not upkeep.commands(key, setup, lambda _, own: list(own))), None)
    if not lacking:
        return ""
    return f"{_load(setup)} times a {lacking}, but {filesystem.file} has no key {lacking}: choose another file system."


@of(Workload)
def only_what_was_made_is_made_anew(setup: Setup) -> str:
    """The key fresh of a phase."""
    fresh = any(phase.fresh for phase in setup.workload.phases)
    if not fresh or (setup.lab.provisions and setup.filesystem.device and not setup.filesystem.hosts):
        return ""
    return (
        f"{_load(setup)} makes the file system anew, but {_name(setup)} in lab {_lab(setup)} has no device of its own: "
        "choose another file system or lab."
    )


# ---- hosts and stacks


@of(Filesystem)
def hosts_are_made_by_the_lab(setup: Setup) -> str:
    """The key hosts."""
    if not setup.filesystem.hosts or setup.lab.provisions:
        return ""
    return f"{_name(setup)} needs nodes, which the lab {_lab(setup)} does not have: choose exact, vm or host."


@of(Filesystem)
def every_server_has_a_disk(setup: Setup) -> str:
    """The key hosts.servers."""
    hosts, stack = setup.filesystem.hosts, setup.stack
    if not hosts or hosts.servers == 1 or stack.disks == hosts.servers:
        return ""
    return (
        f"{_name(setup)} has {hosts.servers} servers, but stack {stack.name} has {stack.disks} disks: choose "
        f"the stack servers@{hosts.servers}."
    )


@of(Layer)
def a_file_systems_own_stack_is_its_own(setup: Setup) -> str:
    """The key filesystem."""
    stack = setup.stack
    if stack.filesystem in ("", setup.cell.filesystem):
        return ""
    last = stack.placed[-1].layer
    return f"stack {stack.name} works only with {stack.filesystem} ({last.file}): {_name(setup)} cannot use it."


@of(Layer)
def a_fault_comes_after_a_population(setup: Setup) -> str:
    """The key fault."""
    if setup.stack.state == "healthy" or setup.workload.populate:
        return ""
    return (
        f"stack {setup.stack.name} gets its fault after the prefill, but {_load(setup)} has none: choose a "
        "workload with the key populate, such as populated."
    )


@of(Layer)
def a_last_disk_of_another_profile_has_a_part(setup: Setup) -> str:
    """The key last."""
    if not setup.last or setup.stack.last:
        return ""
    return (
        f"device model {setup.cell.profile} gives the last disk its own model, but stack {setup.cell.stack} has "
        "equal disks: choose a stack with the key last, such as ext4-journal, or one model."
    )


@of(Device)
def disks_differ_where_they_are_modelled(setup: Setup) -> str:
    """Two profiles."""
    if not setup.last or setup.lab.models:
        return ""
    return (
        f"device model {setup.cell.profile} has two names, but lab {setup.cell.lab} models no disks: choose the "
        "lab exact, or one name. (With profile disk the stack takes real disks in the order of "
        "config/devices.yaml, so the last may be another kind.)"
    )


# ---- labs


@of(Study)
def a_limit_of_memory_is_a_size(setup: Setup) -> str:
    """The key memory_mib."""
    least, most = MEMORY_MIB
    if setup.cell.memory_mib is None or least <= setup.cell.memory_mib <= most:
        return ""
    return f"memory_mib is {setup.cell.memory_mib}, but must be from {least} to {most}."


@of(Study)
def a_limit_of_memory_is_set_as_root(setup: Setup) -> str:
    """The key memory_mib."""
    if not setup.cell.memory_mib or setup.lab.provisions:
        return ""
    return f"the lab {setup.cell.lab} cannot limit memory: leave memory_mib out, or choose another lab."


@of(Study)
def a_limit_of_memory_is_for_one_host(setup: Setup) -> str:
    """The key memory_mib."""
    if not setup.cell.memory_mib or not setup.filesystem.hosts:
        return ""
    return (
        f"{_name(setup)} has nodes; memory_mib would limit the clients together and no server: leave it out, or "
        "choose another file system."
    )


@of(Filesystem)
def it_runs_in_its_labs(setup: Setup) -> str:
    """The key labs."""
    able = setup.filesystem.labs
    if not able or setup.lab.name in able:
        return ""
    unknown = _no_lab(setup.filesystem, able)
    return unknown or f"{_name(setup)} runs in {' and '.join(able)} only, not in the lab {setup.lab.name}."


@of(Filesystem)
def a_directory_is_there_before(setup: Setup) -> str:
    """The key path: with it."""
    if not setup.filesystem.path or not setup.lab.provisions:
        return ""
    return f"{_name(setup)} is an existing directory: use the lab mount, not {_lab(setup)}."


@of(Filesystem)
def where_nothing_is_made_there_is_a_directory(setup: Setup) -> str:
    """The key path: without it."""
    if setup.filesystem.path or setup.lab.provisions:
        return ""
    return (
        f"the lab {_lab(setup)} creates no file systems: {_name(setup)} needs a key path, as in "
        "workflow/filesystems/here.yaml."
    )


@of(Layer)
def without_devices_there_is_no_stack(setup: Setup) -> str:
    """Any stack but single."""
    if setup.stack.name == "single" or (setup.lab.provisions and setup.filesystem.device):
        return ""
    return f"{_name(setup)} has no block devices in lab {_lab(setup)}: use the stack single, not {setup.stack.name}."


# ---- phases whose power is cut


@of(Workload)
def power_is_cut_where_disks_are_modelled(setup: Setup) -> str:
    """The key crash of a phase."""
    if not (cut := _cut(setup)) or setup.lab.models:
        return ""
    able = [name for name in labs.names() if labs.get_lab(name).models]
    return f"{cut}: only the lab {' or '.join(able)} can do that, not {setup.lab.name}."


@of(Device)
def only_a_modelled_disk_has_power_to_cut(setup: Setup) -> str:
    """The key backing."""
    disks = zip(profile_names(setup.cell.profile), setup.profiles, strict=True)
    unpowered = (name for name, one in disks if not one.drive)
    if not (cut := _cut(setup)) or not (name := next(unpowered, "")):
        return ""
    return f"{cut}, but device model {name} has no power to cut: choose one with backing: model, such as hdd-7200."


@of(Kernel)
def modelled_disks_need_the_kernels_headers(setup: Setup) -> str:
    """The key headers."""
    disks = zip(profile_names(setup.cell.profile), setup.profiles, strict=True)
    modelled = next((name for name, one in disks if one.drive), "")
    if not (kernel := setup.kernel) or kernel.suites or kernel.headers or not modelled:
        return ""
    return (
        f"{kernel.file} has no headers, so there is no module of modelled disks such as {modelled} for it: add its "
        "package linux-headers under this key, or use ssd or ram."
    )


@of(Filesystem)
def hosts_keep_their_power(setup: Setup) -> str:
    """The key hosts."""
    if not (cut := _cut(setup)) or not setup.filesystem.hosts:
        return ""
    return f"{cut}, but {_name(setup)} has nodes, whose power cannot be cut yet."


@of(Filesystem)
def without_a_device_there_is_no_power(setup: Setup) -> str:
    """The key device."""
    if not (cut := _cut(setup)) or setup.filesystem.device:
        return ""
    return f"{cut}, but {_name(setup)} has no device whose power could be cut."


@of(Layer)
def what_was_built_is_assembled_again(setup: Setup) -> str:
    """The keys build and assemble."""
    if not (cut := _cut(setup)):
        return ""
    for layer in (placed.layer for placed in setup.stack.placed):
        if layer.build and not layer.assemble:
            return (
                f"{cut}, but workflow/stacks/{layer.name}.yaml has no key assemble to restore {layer.name}: "
                "choose another stack or add the key."
            )
    return ""


# ---- phases that visit crash states


@of(Workload)
def crash_states_are_of_their_own_disk(setup: Setup) -> str:
    """A phase with engine states or engine faults."""
    visits = any(phase.on_crash_disk for phase in setup.workload.phases)
    crash = setup.profile.backing == CRASH
    if visits and not crash:
        return f"{_load(setup)} visits crash states or faults; {setup.profile.file} has none: choose the model crash."
    if crash and not visits:
        return f"device model {setup.cell.profile} is for crash states and faults: choose such a workload, or ssd."
    if crash and (setup.stack.name != "single" or setup.filesystem.hosts or not setup.filesystem.device):
        return f"{_load(setup)} has one disk: choose the stack single, and a file system on a device of its own."
    return ""


@of(Workload)
def rot_is_of_disks_in_a_guest(setup: Setup) -> str:
    """A phase with engine rot writes to the disks themselves."""
    if not any(phase.visits == "rot" for phase in setup.workload.phases):
        return ""
    if not setup.lab.in_guest:
        return f"{_load(setup)} changes bits of the disks themselves, which only guests have: choose the lab exact."
    if setup.filesystem.hosts or not setup.filesystem.device:
        return f"{_load(setup)} changes bits of the disks themselves: choose a file system on devices of its own."
    return ""


# ---- phases in which a server is lost


@of(Workload)
def only_hosts_lose_a_server(setup: Setup) -> str:
    """The key outage of a phase."""
    phase = next((phase.name for phase in setup.workload.phases if phase.outage), None)
    if not phase or setup.filesystem.hosts:
        return ""
    return (
        f"{_load(setup)} loses a server in phase {phase}, but {_name(setup)} has none: choose a file system "
        "with the key hosts."
    )


@of(Filesystem)
def a_killed_server_comes_back(setup: Setup) -> str:
    """The key outage."""
    killed = (phase for phase in setup.workload.phases if phase.outage and phase.outage.what in SERVER)
    phase = next((phase.name for phase in killed), None)
    if not phase or setup.filesystem.outage:
        return ""
    return (
        f"{_load(setup)} kills a server in phase {phase}, but file system {setup.filesystem.name} has no key "
        "outage to restore it: choose another file system or add the key."
    )


@of(Device)
def a_server_without_power_has_a_modelled_disk(setup: Setup) -> str:
    """The keys backing and outage.power."""
    lost = (phase for phase in setup.workload.phases if phase.outage and phase.outage.what == "server-power")
    phase, own = next((phase.name for phase in lost), None), setup.filesystem.outage
    if not phase:
        return ""
    begin = f"{_load(setup)} cuts the power of a server in phase {phase}"
    if not (own and own.power):
        return (
            f"{begin}, but file system {setup.filesystem.name} has no key outage.power: choose another or add the key."
        )
    if not (setup.lab.models and setup.profile.drive):
        return (
            f"{begin}, but device model {setup.cell.profile} in lab {_lab(setup)} has no power to cut: choose one with "
            "backing: model, such as ssd-nvme, and the lab exact."
        )
    return ""


@of(Filesystem)
def threads_of_the_kernel_do_not_stop(setup: Setup) -> str:
    """The key hosts.threads."""
    stopped = (phase for phase in setup.workload.phases if phase.outage and phase.outage.what == "server-stopped")
    phase, there = next((phase.name for phase in stopped), None), setup.filesystem.hosts
    if not phase or not there or not there.threads:
        return ""
    return (
        f"{_load(setup)} stops the processes of a server in phase {phase}, but the server of {_name(setup)} is threads "
        "of the kernel, which no signal stops: cut its cable instead."
    )


@of(Workload)
def one_folder_is_mounted_for_all(setup: Setup) -> str:
    """The key shared."""
    if (
        not setup.workload.shared
        or setup.lab.provisions
        or (setup.workload.clients == 1 and not setup.filesystem.clients)
    ):
        return ""
    return (
        f"{_load(setup)} has one folder for all clients, which the lab {_lab(setup)} cannot mount for each: choose "
        "exact, vm or host."
    )


def _name(setup: Setup) -> str:
    return f"file system {setup.cell.filesystem}"


def _load(setup: Setup) -> str:
    return f"workload {setup.cell.workload}"


def _lab(setup: Setup) -> str:
    return setup.cell.full_lab


def _cut(setup: Setup) -> str:
    """How sentences about a power cut begin; empty without one."""
    phase = next((phase.name for phase in setup.workload.phases if phase.crash), None)
    return f"{_load(setup)} cuts the power in phase {phase}" if phase else ""
