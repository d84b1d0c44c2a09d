"""The JSON Schemas in workflow/schemas, for editors and other programs: made from the models (`reprofs schemas`)."""

from pathlib import Path

import yaml

from reprofs.files import write_text
from reprofs.plan.ages import Ages
from reprofs.plan.config import Config, RealDisks
from reprofs.plan.device import Device
from reprofs.plan.filesystem import Filesystem
from reprofs.plan.guest import Guests
from reprofs.plan.kernel import Kernel
from reprofs.plan.machine import Machine
from reprofs.plan.measured import Measured
from reprofs.plan.network import Network
from reprofs.plan.parts import Descriptor
from reprofs.plan.plan import Plan
from reprofs.plan.processor import Processor
from reprofs.plan.published import Published
from reprofs.plan.recording import Recording
from reprofs.plan.result import Result
from reprofs.plan.retraction import Retractions
from reprofs.plan.sequences import Sequences
from reprofs.plan.stack import Layer
from reprofs.plan.study import Study
from reprofs.plan.tree import Tree
from reprofs.plan.workload import Workload

# Kinds of files that are found by their names, in the order in which `reprofs list` has them.
NAMED: tuple[type[Descriptor], ...] = (
    *(Filesystem, Layer, Device, Network, Processor, Kernel, Machine, Ages, Workload, Study, Published),
)
KINDS: tuple[type[Descriptor], ...] = (
    *NAMED,
    *(Tree, Recording, Sequences, Config, RealDisks, Guests, Plan, Result, Retractions, Measured),
)


def write_schemas(folder: Path) -> list[Path]:
    """Writes the schema of every kind into a folder; returns the files."""
    paths = []
    for kind in KINDS:
        paths.append(folder / f"{kind.kind}.schema.yaml")
        source = f"# Made by `reprofs schemas` from scripts/{kind.__module__.replace('.', '/')}.py.\n"
        made = yaml.safe_dump(kind.schema_of(), sort_keys=False, allow_unicode=True, width=120)
        write_text(paths[-1], source + made)
    return paths
