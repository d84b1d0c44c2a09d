"""Laboratories: where a trial runs and whose clock it reads.

Each module is one lab, and its class is called `Lab`; modules whose names begin with an underscore are what the labs
share, first of all the abstract class in `_base`, which says what a lab must be able to do.
"""

import importlib
import pkgutil

from reprofs.errors import UserError, short
from reprofs.labs._base import Disks, Lab, Obstacle, Outcome, alone, disk_files

__all__ = ["Disks", "Lab", "Obstacle", "Outcome", "alone", "disk_files", "get_lab", "names", "with_processors"]


def names() -> list[str]:
    """The names of all labs, sorted."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_"))


def with_processors() -> list[str]:
    """The names of the labs that model their CPU."""
    return [name for name in names() if get_lab(name).models_processor]


def get_lab(name: str) -> type[Lab]:
    """The class of the lab called `name`. Raises UserError, listing the known ones, when there is none."""
    if name not in names():
        raise UserError(f"unknown lab {short(name)}; known are {', '.join(names())}.")
    return importlib.import_module(f"{__name__}.{name}").Lab
