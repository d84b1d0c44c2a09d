"""One trial with everything resolved: its parts by name, checked against each other, and its devices.

It is not in reprofs.plan because only the lab knows where the disks are and what it can run.
"""

from __future__ import annotations

from dataclasses import dataclass

from reprofs import labs
from reprofs.errors import UserError
from reprofs.guest.check import check as check_arguments
from reprofs.guest.check import needs
from reprofs.plan import NETWORK, PROCESSOR, models, networks, processors, workloads
from reprofs.plan.catalog import Catalog, unknown
from reprofs.plan.networks import Network
from reprofs.plan.processors import Processor
from reprofs.plan.stacks import Commands, Stack, commands
from reprofs.plan.stacks import resolve as resolve_stack
from reprofs.plan.study import SCALES
from reprofs.plan.workloads import Workload
from reprofs.trial.protocol import MOUNTPOINT


@dataclass(frozen=True)
class Cell:
    """The parts of a trial.

    names: lab, filesystem, variant, stack, profile, workload, scale and more, as the plan has them, the lab with its
    processor after @ where it models one; processor: that one; the variant has its network after @ if the file system
    has hosts; network: that one; scale: of the workload; disk_mib: size of each disk;
    paths: of the disks; commands: of the stack, None when the file system needs no device or the lab makes none;
    filesystem_file, profile_file: as sentences begin.
    """

    names: dict
    lab: type[labs.Lab]
    processor: Processor | None
    network: Network | None
    filesystem: models.Filesystem
    variant: models.Variant
    workload: Workload
    scale: models.Scale
    profile: dict
    stack: Stack
    disk_mib: int
    paths: list[str]
    commands: Commands | None
    filesystem_file: str
    profile_file: str

    @property
    def modules(self) -> list[str]:
        """The kernel's modules that the file system needs."""
        module = self.variant.module or self.filesystem.module
        return [module] if module else []


def resolve(trial: dict, catalog: Catalog) -> Cell:
    """The cell of a trial. Raises UserError for an unknown name, a bad descriptor, or parts that do not fit."""
    filesystem = models.Filesystem.model_validate(catalog.get("filesystem", trial["filesystem"]))
    workload = workloads.resolve(trial["workload"], catalog)
    stack = resolve_stack(trial["stack"], catalog)
    lab, processor = _lab(trial["lab"], catalog)
    if processor:
        trial = trial | {"lab": f"{lab.name}@{processor.name}"}
    profile = catalog.get("device", trial["profile"])
    variant, _, name = trial["variant"].partition("@")
    network = networks.get(name or NETWORK, catalog) if filesystem.hosts else None
    if network:
        trial = trial | {"variant": f"{variant}@{network.name}"}
    elif name:
        raise UserError(f"file system {trial['filesystem']} has no hosts and needs no network: leave out {name}.")
    _check(trial, filesystem, workload, stack, lab, profile)
    scale = workload.scale(trial["scale"])
    paths, made = [], None
    if filesystem.device and lab.provisions:
        paths = [lab.device_path(i, profile) for i in range(stack.disks)]
        made = commands(stack, paths, lab.disks_zeroed(profile), MOUNTPOINT)
    return Cell(
        names=trial,
        lab=lab,
        processor=processor,
        network=network,
        filesystem=filesystem,
        variant=filesystem.variants[variant],
        workload=workload,
        scale=scale,
        profile=profile,
        stack=stack,
        disk_mib=profile.get("size_mib")
        or max(
            stack.disk_mib(_offered_mib(trial, workload, scale, profile)),
            filesystem.hosts.least_mib if filesystem.hosts else 0,
        ),
        paths=paths,
        commands=made,
        filesystem_file=catalog.file("filesystem", trial["filesystem"]),
        profile_file=catalog.file("device", trial["profile"]),
    )


def _offered_mib(trial: dict, workload: Workload, scale: models.Scale, profile: dict) -> int:
    """What the stack must offer to the file system: the scale says it, but a real disk that is filled has its own size.

    Then there must be room for some of the content twice over.
    """
    if profile.get("backing") != "device" or not workload.fills():
        return scale.device_mib
    return min(scale.device_mib, 2 * needs(trial["workload"], workload, trial["scale"]) >> 20)


def _lab(name: str, catalog: Catalog) -> tuple[type[labs.Lab], Processor | None]:
    """The lab, and its processor if it models one. Raises UserError for an unknown name, or if it cannot have one."""
    name, at, processor = name.partition("@")
    lab = labs.get_lab(name)
    if lab.models_processor:
        return lab, processors.get(processor or PROCESSOR, catalog)
    if at:
        raise UserError(f"the lab {name} has the processor of its machine: leave out @{processor}.")
    return lab, None


def _check(
    trial: dict,
    filesystem: models.Filesystem,
    workload: Workload,
    stack: Stack,
    lab: type[labs.Lab],
    profile: dict,
) -> None:
    """Raises UserError when the parts of a cell exist but cannot be put together."""
    name = f"file system {trial['filesystem']}"
    variant = trial["variant"].partition("@")[0]
    if variant not in filesystem.variants:
        raise unknown(f"variant of {trial['filesystem']}", variant, filesystem.variants)
    if trial["scale"] not in SCALES:
        raise unknown("scale", trial["scale"], SCALES)
    check_arguments(trial["workload"], workload, trial["scale"])
    if filesystem.clients and workload.fill:
        raise UserError(f"workload {trial['workload']}: +fill is for one machine, and {name} has the key clients.")
    if workload.labs is not None and lab.name not in workload.labs:
        able = " and ".join(workload.labs)
        raise UserError(f"workload {trial['workload']} runs in {able} only, not in lab {lab.name}.")
    if workload.raw and not (filesystem.raw and workload.network == bool(filesystem.hosts)):
        what, bare = ("network", "wire") if workload.network else ("device", "raw")
        raise UserError(f"workload {trial['workload']} measures the {what} itself: choose the file system {bare}.")
    if filesystem.raw and not workload.raw:
        what = "network" if filesystem.hosts else "device"
        raise UserError(
            f"{name} is the bare {what} and keeps no files: choose a workload that measures it, such as {what}."
        )
    if filesystem.hosts and not lab.provisions:
        raise UserError(f"{name} needs hosts, which the lab {trial['lab']} does not make: choose exact, vm or host.")
    if filesystem.hosts and filesystem.hosts.servers > 1 and stack.disks != filesystem.hosts.servers:
        raise UserError(
            f"{name} has {filesystem.hosts.servers} servers and stack {stack.name} {stack.disks} disks: choose "
            f"the stack servers@{filesystem.hosts.servers}, which has one for each."
        )
    if stack.filesystem and stack.filesystem != trial["filesystem"]:
        raise UserError(f"stack {stack.name} is built by {stack.filesystem} itself: {name} cannot use it.")
    if stack.state != "healthy" and not workload.populate:
        raise UserError(
            f"stack {stack.name} gets its fault after the population, and workload {trial['workload']} has no "
            "population: choose a workload with the key populate, such as populated."
        )
    own = trial["lab"].partition("@")[0]
    if filesystem.labs and own not in filesystem.labs:
        raise UserError(f"{name} runs in {' and '.join(filesystem.labs)} only, not in the lab {own}.")
    if lab.provisions and filesystem.path:
        raise UserError(f"{name} is an existing directory, which only the lab mount takes, not {trial['lab']}.")
    if not lab.provisions and not filesystem.path:
        raise UserError(
            f"the lab {trial['lab']} makes nothing: {name} needs a key path, as workflow/filesystems/here.yaml has."
        )
    if stack.name != "single" and not (lab.provisions and filesystem.device):
        raise UserError(
            f"{name} has no block devices in lab {trial['lab']}: its stack can only be single, not {stack.name}."
        )
    crash = next((phase.name for phase in workload.phases if phase.crash), None)
    if crash:
        what = f"workload {trial['workload']} cuts the power in phase {crash}"
        _check_crash(what, trial, filesystem, stack, lab, profile)
    for phase in workload.phases:
        if phase.outage and not filesystem.hosts:
            raise UserError(
                f"workload {trial['workload']} loses a server in phase {phase.name}, and {name} has none: choose a file"
                " system with the key hosts."
            )
        if phase.outage and phase.outage.what == "server-killed" and not filesystem.outage:
            raise UserError(
                f"workload {trial['workload']} kills a server in phase {phase.name}, and {name} has no key outage"
                " in its file, which says how it comes back: choose another file system or add it."
            )


def _check_crash(
    what: str,
    trial: dict,
    filesystem: models.Filesystem,
    stack: Stack,
    lab: type[labs.Lab],
    profile: dict,
) -> None:
    """Raises UserError when the power of a trial's devices cannot be cut, or its stack cannot be assembled again."""
    if not lab.models:
        able = [name for name in labs.names() if labs.get_lab(name).models]
        raise UserError(f"{what}: only the lab {' or '.join(able)} can do that, not {lab.name}.")
    if profile["backing"] != "model":
        raise UserError(
            f"{what}, but profile {trial['profile']} has no power to cut: choose a profile with backing: "
            "model, such as hdd-7200."
        )
    if filesystem.hosts:
        raise UserError(f"{what}, but file system {trial['filesystem']} has hosts, whose power cannot be cut yet.")
    if not filesystem.device:
        raise UserError(f"{what}, but file system {trial['filesystem']} has no device whose power could be cut.")
    for layer in stack.layers:
        if layer.descriptor.build and not layer.descriptor.assemble:
            raise UserError(
                f"{what}, but workflow/stacks/{layer.name}.yaml has no key assemble, which says how {layer.name} comes "
                "back afterwards: choose another stack or add it."
            )
