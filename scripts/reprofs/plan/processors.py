"""Processors of a lab that models them (workflow/processors): which instructions there are and how long one takes."""

from __future__ import annotations

from dataclasses import dataclass

from reprofs.plan.catalog import Catalog


@dataclass(frozen=True)
class Processor:
    """A processor as its file describes it.

    ns_per_instruction: 1, 0.5 or 0.25; features: instruction sets beyond those that every x86-64 processor has.
    """

    name: str
    title: str
    ns_per_instruction: float
    features: list[str]
    sources: list[str]

    @property
    def instructions_per_ns(self) -> int:
        """1, 2 or 4."""
        return round(1 / self.ns_per_instruction)


def get(name: str, catalog: Catalog) -> Processor:
    """The processor of that name. Raises UserError when there is none or its file does not fit its schema."""
    return Processor(name, **catalog.get("processor", name))
