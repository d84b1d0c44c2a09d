"""All statistics of a study, one frame each: computed from its tables, written to a folder, read back."""

from __future__ import annotations

import functools
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from importlib import import_module
from pathlib import Path
from typing import TypedDict

import pandas as pd

from reprofs.data.keys import OPERATION, SETTING
from reprofs.data.study import Tables
from reprofs.errors import UserError
from reprofs.files import SUMS, changed, write_bytes, write_sums, write_text
from reprofs.project import place
from reprofs.stats import cells, compare, labs, recorded, spread, stacks

ANALYSIS = 11  # increase when the same records would give other statistics
OF = "tables.json"  # what the results in a folder were computed from, see `_of`

AGAIN = "run `make report`, or delete the folder."


@dataclass(frozen=True)
class Results:
    """Every statistic; for the columns see the functions that compute them.

    statistics: cells. pairwise, winners, ranks: file systems against each other. totals, rivals, cheapest: the same as
    statistics, pairwise and winners, of workloads as a whole. components, stability: the spread over rounds. stacks,
    rebuilds: stacks against each other, and times to rebuild. clocks, orders, agreement: labs against each other.
    """

    statistics: pd.DataFrame
    pairwise: pd.DataFrame
    winners: pd.DataFrame
    ranks: pd.DataFrame
    totals: pd.DataFrame
    rivals: pd.DataFrame
    cheapest: pd.DataFrame
    components: pd.DataFrame
    stability: pd.DataFrame
    stacks: pd.DataFrame
    rebuilds: pd.DataFrame
    clocks: pd.DataFrame
    orders: pd.DataFrame
    agreement: pd.DataFrame


class Margins(TypedDict):
    """Shares. win: the smallest difference that counts; equal: the largest between equivalent times."""

    win: float
    equal: float


def margins(tables: Tables) -> Margins:
    """The margins of a study."""
    own = tables.plan.study.margins
    return {"win": own.win, "equal": own.equal} if own else {"win": compare.WIN, "equal": compare.EQUAL}


def caution(tables: Tables) -> float:
    """By how much more p must be below 5 %: more than 1 where rounds were added until intervals were narrow."""
    return compare.CAUTION if tables.plan.stopping else 1


def compute(tables: Tables) -> Results:
    """All statistics of a study."""
    phases, entries = _narrow(tables.phases), tables.stacks()
    foreign = recorded.foreign(tables.plan, phases)
    whole = compare.totals(phases[~_of_same_cells(phases, foreign)])
    phases = phases[~foreign & ~recorded.minor(tables.plan, phases)]
    about, care = margins(tables), caution(tables)
    import_module("scipy.stats")  # slow, and two threads that import at once may wait for each other
    with ThreadPoolExecutor(1) as other:
        # Half of the work of a large study, in NumPy, which lets the other threads go on.
        # Trials of an exact lab cannot influence each other.
        stability = other.submit(spread.stability, phases[~phases["lab"].isin(tables.exact_labs)])
        exact = tables.exact_labs
        times = functools.partial(cells.widened, exact=exact, centre="geometric_mean_ns", low="low_ns", high="high_ns")
        ratios = functools.partial(cells.widened, exact=exact, centre="ratio", low="low", high="high")
        found, pairs = times(cells.statistics(phases)), ratios(compare.pairwise(phases, about["equal"], care))
        totals, rivals = times(cells.statistics(whole)), ratios(compare.pairwise(whole, about["equal"], care))
        pairing = stacks.side_by_side(phases, entries)
        orders, clocks = labs.orders(found, pairs, exact), labs.clock_ratios(phases, exact)
        return Results(
            statistics=found,
            pairwise=pairs,
            winners=compare.winners(found, pairs, **about, caution=care),
            ranks=compare.ranks(found),
            totals=totals,
            rivals=rivals,
            cheapest=compare.winners(totals, rivals, **about, caution=care, family=SETTING),
            components=spread.components(phases),
            stacks=ratios(stacks.stack_ratios(pairing)),
            rebuilds=times(stacks.rebuilds(phases)),
            clocks=clocks,
            orders=orders,
            agreement=labs.agreement(orders, clocks),
            stability=stability.result(),
        )


def _of_same_cells(phases: pd.DataFrame, chosen: pd.Series) -> pd.Series:
    """The rows of workloads of which any row is chosen, in the same setting: without it they have no total."""
    if not chosen.any():
        return chosen
    return chosen.groupby([phases[key] for key in (*SETTING, "workload", "scale")], observed=True).transform("any")


def _narrow(phases: pd.DataFrame) -> pd.DataFrame:
    """The columns that statistics need; texts as categories, which take an eighth of the memory and sort faster."""
    texts = [*SETTING, *OPERATION, "label", "role", "status", "operation", "part"]
    numbers = ["round", "order", "position", "items", "rebuilding"]
    numbers += ["wall_ns", "user_ns", "system_ns", "sync_ns"]
    return phases[[*texts, *numbers]].astype(dict.fromkeys(texts, "category"))


def _stored(frame: pd.DataFrame) -> pd.DataFrame:
    """A frame as its file has it: the labels of `level` in one text, separated by spaces."""
    return frame.assign(level=frame["level"].map(" ".join)) if "level" in frame else frame


def _read(file: Path) -> pd.DataFrame:
    frame = pd.read_parquet(file)
    return frame.assign(level=frame["level"].map(lambda text: tuple(text.split()))) if "level" in frame else frame


def save(results: Results, folder: str | Path, tables: Tables) -> None:
    """Write each frame to <name>.parquet in the folder, and what they were computed from. Raises UserError."""
    folder = place(folder)
    for field in fields(results):
        stored = _stored(getattr(results, field.name))
        write_bytes(folder / f"{field.name}.parquet", stored.to_parquet(None, index=False))
    write_sums(folder / SUMS, folder.glob("*.parquet"))
    write_text(folder / OF, json.dumps(_of(tables), indent=1) + "\n")


def _of(tables: Tables) -> dict:
    return {"analysis": ANALYSIS, "margins": margins(tables), "caution": caution(tables), "tables": tables.digests}


def load(folder: str | Path, tables: Tables) -> Results | None:
    """Read a folder written by `save`; None when it has none of these tables by this analysis. Raises UserError."""
    folder = place(folder)
    try:
        if json.loads((folder / OF).read_text()) != _of(tables):
            return None
        if wrong := changed(folder / SUMS, *(f"{field.name}.parquet" for field in fields(Results))):
            raise UserError(f"{wrong} is missing or was changed after it was made: {AGAIN}")
        return Results(**{field.name: _read(folder / f"{field.name}.parquet") for field in fields(Results)})
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise UserError(f"The results in {folder} cannot be read ({error}): {AGAIN}") from None
