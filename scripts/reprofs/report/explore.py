"""Choosing a part of a study by widgets, for notebooks/00-explore.ipynb, which is not part of the report."""

from __future__ import annotations

from pathlib import Path

import ipywidgets
import pandas as pd
from IPython.display import display

import reprofs
from reprofs.data.keys import Load, Setting, distinct, select
from reprofs.errors import UserError
from reprofs.files import write_bytes
from reprofs.plan.result import DIGESTS
from reprofs.project import place
from reprofs.report.words import listing, slug
from reprofs.stats.cells import measured
from reprofs.stats.study import Study

FORMATS = ("csv", "parquet")


def studies() -> list[str]:
    """The names of all studies that can be opened: run here, imported, or published in results/."""
    ran = {path.parent.name for path in place("data/tables").glob("*/trials.parquet")}
    imported = {f"imported/{path.parent.name}" for path in place("data/imported").glob("*/phases.parquet")}
    return sorted(ran | {path.parent.name for path in place("results").glob(f"*/{DIGESTS}")}) + sorted(imported)


def export(frame: pd.DataFrame, study: Study, name: str, folder: str | Path = "data/export", kind: str = "csv") -> Path:
    """Write a frame to folder/STUDY/NAME.KIND; returns the file. Raises UserError for another kind than FORMATS.

    folder: relative to the checkout, or absolute.
    """
    if kind not in FORMATS:
        raise UserError(f"{kind} is not an export format: choose {listing(FORMATS, 'or')}.")
    file = place(folder) / study.plan.study.name / f"{slug(name)}.{kind}"
    write_bytes(file, frame.to_csv(index=False).encode() if kind == "csv" else frame.to_parquet(None, index=False))
    return file


class Chooser:
    """Widgets for a study, a workload in a setting, an operation and file systems; and for two of these.

    `study` is the study chosen, `times` and `latency` the rows chosen, `a` and `b` the two file systems. It works
    without a browser, too: setting a widget's value does what a click does.
    """

    def __init__(self, study: str = "quick", known: list[str] | None = None) -> None:
        """Begin with a study's first operation. known: the studies to choose from, default all. Raises UserError."""
        style = {"style": {"description_width": "7em"}, "layout": {"width": "46em"}}
        names = ("Study", "Where", "Operation", "Ratio of", "to")
        self.name, self.part, self.operation, self.first, self.second = (
            ipywidgets.Dropdown(description=name, **style) for name in names
        )
        self.labels = ipywidgets.SelectMultiple(description="File systems", rows=8, **style)
        self.problem = ipywidgets.HTML()
        self.name.options = sorted({study, *(studies() if known is None else known)})
        self.name.value = study
        self._open()
        for widget, then in ((self.name, self._open), (self.part, self._operations), (self.operation, self._systems)):
            widget.observe(lambda _, then=then: then(), names="value")

    def _open(self) -> None:
        try:
            opened = reprofs.open(self.name.value)
            if measured(opened.phases).empty:
                raise UserError(f"No trial of the study {self.name.value} completed: choose another.")
        except UserError as error:
            if not hasattr(self, "study"):
                raise
            self.problem.value = f"<p>{error}</p>"  # the study before stays
            return
        self.study, self.problem.value = opened, ""
        times = opened.times
        parts = [(s, w) for s in distinct(times, Setting) for w in distinct(select(times, s), Load)]
        _offer(self.part, [(f"{load}: {setting}", (setting, load)) for setting, load in parts])
        self._operations()

    def _operations(self) -> None:
        if self.part.value:
            here = select(self.study.times, *self.part.value)
            _offer(self.operation, list(dict.fromkeys(here["operation"].astype(str))))
            self._systems()

    def _systems(self) -> None:
        if not self.operation.value:
            return
        found = select(self.study.times, *self.part.value, operation=self.operation.value)
        names = sorted(set(found["label"]))
        kept = [name for name in self.labels.value if name in names]
        self.labels.options, self.labels.value = names, kept or names
        _offer(self.first, names)
        _offer(self.second, names, len(names) - 1)

    @property
    def times(self) -> pd.DataFrame:
        """The chosen rows of `Study.times`."""
        found = select(self.study.times, *self.part.value, operation=self.operation.value)
        return found[found["label"].isin(self.labels.value)]

    @property
    def latency(self) -> pd.DataFrame:
        """The latency histogram of the choice: lower_ns, upper_ns, count. Empty where there is none."""
        if not self.study.has("latency"):
            return pd.DataFrame()
        rows = self.study.named(select(measured(self.study.latency), *self.part.value))
        return rows[(rows["operation"] == self.operation.value) & rows["label"].isin(self.labels.value)]

    @property
    def a(self) -> str:
        """The file system in the numerator of the ratio."""
        return self.first.value

    @property
    def b(self) -> str:
        """The file system in the denominator of the ratio."""
        return self.second.value

    def _ipython_display_(self) -> None:
        chosen = (self.name, self.part, self.operation, self.labels, self.first, self.second, self.problem)
        display(ipywidgets.VBox(chosen))


def _offer(widget: ipywidgets.Dropdown, options: list, start: int = 0) -> None:
    """Give a drop-down list other options; the one chosen stays if it is among them."""
    values = [option[1] if isinstance(option, tuple) else option for option in options]
    value = widget.value
    widget.options = options
    widget.value = value if value in values else values[start]
