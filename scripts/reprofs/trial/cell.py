"""One trial with everything resolved: its parts by name, checked against each other, and its devices.

It is not in reprofs.plan because only the lab knows where the disks are and what it can run.
"""

from __future__ import annotations

from dataclasses import dataclass

from reprofs import labs
from reprofs.errors import UserError
from reprofs.guest.check import check as check_arguments
from reprofs.plan import PROCESSOR, processors, workloads
from reprofs.plan.catalog import Catalog, unknown
from reprofs.plan.processors import Processor
from reprofs.plan.stacks import Commands, Stack, commands
from reprofs.plan.stacks import resolve as resolve_stack
from reprofs.trial.protocol import MOUNTPOINT


@dataclass(frozen=True)
class Cell:
    """The parts of a trial.

    names: lab, filesystem, variant, stack, profile, workload, scale and more, as in the plan, the lab with @ and its
    processor where it models one; processor: that one; scale: the parameters of the workload's scale; disk_mib: size of
    each disk in MiB; paths: of the disks; commands: of the stack, None when the file system needs no device or the lab
    makes none; filesystem_file, profile_file: the files as messages name them.
    """

    names: dict
    lab: type[labs.Lab]
    processor: Processor | None
    filesystem: dict
    variant: dict
    workload: dict
    scale: dict
    profile: dict
    stack: Stack
    disk_mib: int
    paths: list[str]
    commands: Commands | None
    filesystem_file: str
    profile_file: str


def resolve(trial: dict, catalog: Catalog) -> Cell:
    """The cell of a trial. Raises UserError for an unknown name, a bad descriptor, or parts that do not fit."""
    filesystem = catalog.get("filesystem", trial["filesystem"])
    workload = workloads.resolve(trial["workload"], catalog)
    stack = resolve_stack(trial["stack"], catalog)
    lab, processor = _lab(trial["lab"], catalog)
    if processor:
        trial = trial | {"lab": f"{lab.name}@{processor.name}"}
    profile = catalog.get("device", trial["profile"])
    _check(trial, filesystem, workload, stack, lab, profile)
    scale = workload["scales"][trial["scale"]]
    paths, made = [], None
    if filesystem["device"] and lab.provisions:
        paths = [lab.device_path(i, profile) for i in range(stack.disks)]
        made = commands(stack, paths, lab.disks_zeroed(profile), MOUNTPOINT)
    return Cell(
        names=trial,
        lab=lab,
        processor=processor,
        filesystem=filesystem,
        variant=filesystem["variants"][trial["variant"]],
        workload=workload,
        scale=scale,
        profile=profile,
        stack=stack,
        disk_mib=profile.get("size_mib") or stack.disk_mib(scale["device_mib"]),
        paths=paths,
        commands=made,
        filesystem_file=catalog.file("filesystem", trial["filesystem"]),
        profile_file=catalog.file("device", trial["profile"]),
    )


def _lab(name: str, catalog: Catalog) -> tuple[type[labs.Lab], Processor | None]:
    """The lab, and its processor if it models one. Raises UserError for an unknown name, or if it cannot have one."""
    name, at, processor = name.partition("@")
    lab = labs.get_lab(name)
    if lab.models_processor:
        return lab, processors.get(processor or PROCESSOR, catalog)
    if at:
        raise UserError(f"the lab {name} has the processor of its machine: leave out @{processor}.")
    return lab, None


def _check(trial: dict, filesystem: dict, workload: dict, stack: Stack, lab: type[labs.Lab], profile: dict) -> None:
    """Raises UserError when the parts of a cell exist but cannot be put together."""
    name = f"file system {trial['filesystem']}"
    if trial["variant"] not in filesystem["variants"]:
        raise unknown(f"variant of {trial['filesystem']}", trial["variant"], filesystem["variants"])
    if trial["scale"] not in workload["scales"]:
        raise unknown("scale", trial["scale"], workload["scales"])
    check_arguments(trial["workload"], workload, trial["scale"])
    if workload["clients"] > 1 and not lab.provisions:
        raise UserError(f"workload {trial['workload']}: clients need a lab that makes the file system, not {lab.name}.")
    if lab.name not in workload.get("labs", [lab.name]):
        able = " and ".join(workload["labs"])
        raise UserError(f"workload {trial['workload']} runs in {able} only, not in lab {lab.name}.")
    if workload["raw"] and not filesystem["raw"]:
        raise UserError(f"workload {trial['workload']} measures the device itself: choose the file system raw.")
    if filesystem["raw"] and not workload["raw"]:
        raise UserError(
            f"{name} is the bare device and keeps no files: choose a workload that measures the device itself, such as "
            "device."
        )
    if stack.filesystem and stack.filesystem != trial["filesystem"]:
        raise UserError(f"stack {stack.name} is built by {stack.filesystem} itself: {name} cannot use it.")
    if stack.state != "healthy" and not workload["populate"]:
        raise UserError(
            f"stack {stack.name} gets its fault after the population, and workload {trial['workload']} has no "
            "population: choose a workload with the key populate, such as populated."
        )
    own = trial["lab"].partition("@")[0]
    if own not in filesystem.get("labs", [own]):
        raise UserError(f"{name} runs in {' and '.join(filesystem['labs'])} only, not in the lab {own}.")
    if lab.provisions and "path" in filesystem:
        raise UserError(f"{name} is an existing directory, which only the lab mount takes, not {trial['lab']}.")
    if not lab.provisions and "path" not in filesystem:
        raise UserError(
            f"the lab {trial['lab']} makes nothing: {name} needs a key path, as workflow/filesystems/here.yaml has."
        )
    if stack.name != "single" and not (lab.provisions and filesystem["device"]):
        raise UserError(
            f"{name} has no block devices in lab {trial['lab']}: its stack can only be single, not {stack.name}."
        )
    crash = next((phase["name"] for phase in workload["phases"] if "crash" in phase), None)
    if crash:
        what = f"workload {trial['workload']} cuts the power in phase {crash}"
        _check_crash(what, trial, filesystem, stack, lab, profile)


def _check_crash(what: str, trial: dict, filesystem: dict, stack: Stack, lab: type[labs.Lab], profile: dict) -> None:
    """Raises UserError when the power of a trial's devices cannot be cut, or its stack cannot be assembled again."""
    if not lab.models:
        able = [name for name in labs.names() if labs.get_lab(name).models]
        raise UserError(f"{what}: only the lab {' or '.join(able)} can do that, not {lab.name}.")
    if profile["backing"] != "model":
        raise UserError(
            f"{what}, but profile {trial['profile']} has no power to cut: choose a profile with backing: "
            "model, such as hdd-7200."
        )
    if not filesystem["device"]:
        raise UserError(f"{what}, but file system {trial['filesystem']} has no device whose power could be cut.")
    for layer in stack.layers:
        if layer.descriptor.build and not layer.descriptor.assemble:
            raise UserError(
                f"{what}, but workflow/stacks/{layer.name}.yaml has no key assemble, which says how {layer.name} comes "
                "back afterwards: choose another stack or add it."
            )
