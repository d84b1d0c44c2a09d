"""Both sides of a comparison, what was published and what a study measured, under the study's names and its sizes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from reprofs.data.keys import CONFIGURATION, Phase, Place, distinct, select
from reprofs.plan.published import Claim, Published
from reprofs.plan.workload import without_size
from reprofs.stats.cells import measured
from reprofs.stats.published import numbers
from reprofs.stats.published.numbers import SUBJECT
from reprofs.stats.study import Study


@dataclass(frozen=True, eq=False)
class Sides:
    """A study and the published numbers that it is set beside, each table read or made once."""

    study: Study

    @property
    def about(self) -> Published | None:
        """What data/published/NAME.yaml says; None of a study that is set beside nothing."""
        return self.study.plan.published

    @property
    def counted(self) -> str:
        """What sizes count, as a word; empty where there is nothing to compare."""
        return self.about.counted if self.about else ""

    @property
    def published_claims(self) -> list[Claim]:
        """The published claims, in the order of the file."""
        return self.about.claims if self.about else []

    @property
    def stands_in(self) -> dict[str, str]:
        """Published stack or file system -> that of the study which is compared in its place."""
        return self.study.plan.study.stands_in or {}

    @cached_property
    def numbers(self) -> pd.DataFrame:
        """All published numbers, see `numbers.load`."""
        return numbers.load(self.study.plan.study.published or "")

    @cached_property
    def times(self) -> pd.DataFrame:
        """The published times, with the study's own stacks and file systems in the place of those they stand in for."""
        found = numbers.times(self.numbers)
        found[CONFIGURATION] = found[CONFIGURATION].replace(self.stands_in)
        return found

    @cached_property
    def measurements(self) -> pd.DataFrame:
        """Completed phases of all but upper bounds, `sized`: a claim names what it compares."""
        phases = measured(self.study.phases)
        return self.sized(phases[phases["role"] != "ceiling"])

    def sized(self, frame: pd.DataFrame) -> pd.DataFrame:
        """A table with the column `size` (of what is counted there; 0 without), and `workload` without its size."""
        about, known = self.about, {}
        for name, entry in self.study.plan.workloads.items():
            known[name] = about.size_here(without_size(name), entry.parameters) if about else 0
        size, base = frame["workload"].map(known), frame["workload"].map(without_size)
        return frame.assign(size=size.astype("Int64"), workload=base)

    @cached_property
    def places(self) -> list[Place]:
        """Every place with operations that have published numbers; its workload is named without the size."""
        if not self.about:
            return []
        known = self.times[SUBJECT].drop_duplicates()
        return distinct(self.measurements[self.measurements["size"] > 0].merge(known), Place)

    def sizes(self, place: Place) -> list[int]:
        """The sizes that were measured in a place, ascending."""
        return sorted(int(size) for size in set(select(self.measurements, place)["size"]))

    def title(self, place: Place, phase: Phase) -> str:
        """The study's own title of an operation of a place."""
        name = next(name for name in self.study.plan.workloads if without_size(name) == place.workload)
        return self.study.title(name, *phase)
