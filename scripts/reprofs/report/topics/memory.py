"""Limits of memory: what each operation costs with one, over what it costs with the most memory of the study."""

from __future__ import annotations

import pandas as pd

from reprofs.data.keys import Load, Setting
from reprofs.report.display import Table
from reprofs.report.plots import Figure
from reprofs.report.topics import kernels
from reprofs.report.topics.kernels import facts, waits
from reprofs.stats.places import MEMORY
from reprofs.stats.study import Study

__all__ = ["compared", "facts", "figures", "order", "table", "waiting", "waits"]


def order(study: Study) -> list[str]:
    """`stats.places.order`."""
    return kernels.order(study, MEMORY)


def compared(study: Study) -> dict[tuple[Setting, Load], pd.DataFrame]:
    """`stats.places.compared` by setting and load, with the words for each operation as title."""
    return kernels.compared(study, MEMORY)


def table(study: Study, setting: Setting, load: Load, own: pd.DataFrame) -> Table:
    """The ratio with every limit, by operation and file system; in brackets where it has no verdict."""
    return kernels.table(study, setting, load, own, MEMORY)


def waiting(study: Study, setting: Setting, load: Load, own: pd.DataFrame) -> Table:
    """Where the difference is in waiting, as in the topic on kernels."""
    return kernels.waiting(study, setting, load, own, MEMORY)


def figures(study: Study, setting: Setting, load: Load, own: pd.DataFrame) -> list[Figure]:
    """The ratio over the limits, a panel an operation, a line a file system."""
    return kernels.figures(study, setting, load, own, MEMORY)
