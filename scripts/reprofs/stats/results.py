"""All statistics of a study, one frame each: computed from its tables, written to a folder, read back."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path

import pandas as pd

from reprofs.data.study import Tables
from reprofs.errors import UserError
from reprofs.files import write_bytes, write_text
from reprofs.project import place
from reprofs.stats import cells, compare, labs, stacks

OF = "tables.json"  # digests of the tables that the results in a folder were computed from


@dataclass(frozen=True)
class Results:
    """Every statistic; for the columns see the functions that compute them.

    statistics: cells. pairwise, winners, ranks, nemenyi: file systems against each other. stacks, typical, rebuilds:
    stacks against each other, and times to rebuild. clocks, orders, agreement: labs against each other.
    """

    statistics: pd.DataFrame
    pairwise: pd.DataFrame
    winners: pd.DataFrame
    ranks: pd.DataFrame
    nemenyi: pd.DataFrame
    stacks: pd.DataFrame
    typical: pd.DataFrame
    rebuilds: pd.DataFrame
    clocks: pd.DataFrame
    orders: pd.DataFrame
    agreement: pd.DataFrame


def compute(tables: Tables) -> Results:
    """All statistics of a study."""
    phases, entries = tables.phases, tables.stacks()
    found, pairs = cells.statistics(phases), compare.pairwise(phases)
    ranks, nemenyi = compare.ranks(found)
    orders, clocks = labs.orders(found, pairs), labs.clock_ratios(phases)
    return Results(
        statistics=found,
        pairwise=pairs,
        winners=compare.winners(found, pairs),
        ranks=ranks,
        nemenyi=nemenyi,
        stacks=stacks.stack_ratios(phases, entries),
        typical=stacks.stack_typical(phases, entries),
        rebuilds=stacks.rebuilds(phases),
        clocks=clocks,
        orders=orders,
        agreement=labs.agreement(orders, clocks),
    )


def save(results: Results, folder: str | Path, tables: Tables) -> None:
    """Write each frame to <name>.parquet in the folder, and what they were computed from. Raises UserError."""
    folder = place(folder)
    for field in fields(results):
        write_bytes(folder / f"{field.name}.parquet", getattr(results, field.name).to_parquet(None, index=False))
    write_text(folder / OF, json.dumps(tables.digests, indent=1) + "\n")


def load(folder: str | Path, tables: Tables) -> Results | None:
    """Read a folder written by `save`; None when it has no results of these tables. Raises UserError."""
    folder = place(folder)
    try:
        if json.loads((folder / OF).read_text()) != tables.digests:
            return None
        return Results(**{f.name: pd.read_parquet(folder / f"{f.name}.parquet") for f in fields(Results)})
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise UserError(f"The results in {folder} cannot be read ({error}): delete the folder and run again.") from None
