"""The command that judges what clients of a shared folder saw."""

from __future__ import annotations

import sys
from pathlib import Path

from reprofs.cli._base import CATALOG, Commands, option
from reprofs.cli._base import catalog as catalog_of
from reprofs.errors import UserError

command = Commands()


@command("history", option("record", type=Path, help="record of a trial of the workload history"), CATALOG)
def _history(arguments) -> None:
    """Print every call of a record's clients in order, and whether they fit each model. Exit code 1 if not the declared
    one."""
    import pandas as pd

    from reprofs import files
    from reprofs.data import outputs
    from reprofs.plan.filesystem import Filesystem
    from reprofs.plan.phase import Phase
    from reprofs.plan.workload import resolve
    from reprofs.stats import coherence

    catalog, record = catalog_of(arguments), files.read_json(arguments.record)
    try:
        names = record["trial"]
        planned: dict[tuple[str, str], Phase] = {
            (phase.name, phase.cache): phase for phase in resolve(names["workload"], catalog).phases
        }
        record = outputs.parsed(record, planned) or {}
        phases = [phase for phase in (record.get("measurement") or {}).get("phases", []) if phase.get("calls")]
    except (KeyError, TypeError, AttributeError):
        raise UserError(
            f"{arguments.record} is no record of a trial: give a file that `reprofs trial` wrote."
        ) from None
    if not phases:
        why = f" ({record['reason']})" if record.get("reason") else ""
        raise UserError(f"{arguments.record} has no calls of clients{why}: give a record of the workload history.")
    declared = catalog.get(Filesystem, names["filesystem"]).coherence
    broken = False
    for phase in phases:
        calls = coherence.events(pd.DataFrame(outputs.calls(record, phase)))
        print("\n".join(f"{(event.end - event.start) / 1e6:12.3f} ms  {coherence.told(event)}" for event in calls))
        for model in coherence.MODELS:
            own = model == (declared.model if declared else "posix")
            verdict = coherence.judge(calls, model)
            word = {True: "fits", False: "contradicted", None: "undecided"}[verdict.holds]
            print(f"{model}{' (declared)' if own else ''}: {word}{verdict.why and ': '}{verdict.why}")
            broken = broken or (own and verdict.holds is False)
    sys.exit(int(broken))
