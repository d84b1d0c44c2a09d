"""From the names of a cell to its setup, checked."""

from __future__ import annotations

from reprofs import labs
from reprofs.errors import UserError
from reprofs.guest.parameters import check
from reprofs.plan import NETWORK, PROCESSOR, stack, workload
from reprofs.plan.catalog import Catalog
from reprofs.plan.cell import Cell
from reprofs.plan.device import Device, profile_names
from reprofs.plan.filesystem import Filesystem
from reprofs.plan.kernel import Kernel
from reprofs.plan.network import Network
from reprofs.plan.processor import Processor
from reprofs.plan.read import unknown
from reprofs.plan.study import SCALES
from reprofs.trial.rules import RULES
from reprofs.trial.setup import Setup


def resolve(cell: Cell, catalog: Catalog) -> Setup:
    """The setup of a cell. Raises UserError for an unknown name, a bad descriptor, or parts that do not fit."""
    filesystem = catalog.get(Filesystem, cell.filesystem)
    load = workload.resolve(cell.workload, catalog)
    layers = stack.resolve(cell.stack, catalog)
    lab, processor = _lab(cell, catalog)
    kernel = catalog.get(Kernel, cell.kernel) if cell.kernel else None
    if kernel and not lab.models_processor:
        raise UserError(f"the lab {cell.lab} uses the kernel of its machine: leave {cell.kernel} out.")
    profile, *more = [catalog.get(Device, name) for name in profile_names(cell.profile)]
    network = catalog.get(Network, cell.network or NETWORK) if filesystem.hosts else None
    if cell.network and not network:
        raise UserError(f"file system {cell.filesystem} has no nodes and no network: leave {cell.network} out.")
    filesystem.variant(cell.variant)
    if cell.scale not in SCALES:
        raise unknown("scale", cell.scale, SCALES)
    whole = {"processor": processor and processor.name, "network": network and network.name}
    last, cell = next(iter(more), None), cell.model_copy(update=whole)
    setup = Setup(cell, lab, processor, kernel, network, filesystem, load, layers, profile, last)
    check(load, cell.scale)
    for rule in RULES:
        if sentence := rule(setup):
            raise UserError(sentence)
    setup.commands  # noqa: B018  # a bad command is said before anything runs
    return setup


def _lab(cell: Cell, catalog: Catalog) -> tuple[type[labs.Lab], Processor | None]:
    """The lab, and its processor if it models one. Raises UserError for an unknown name, or if it cannot have one."""
    lab = labs.get_lab(cell.lab)
    if lab.models_processor:
        return lab, catalog.get(Processor, cell.processor or PROCESSOR)
    if cell.processor:
        raise UserError(f"the lab {cell.lab} uses the CPU of its machine: leave @{cell.processor} out.")
    return lab, None
