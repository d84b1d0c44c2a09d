"""Checks that the tables and verdicts of a published result follow from its records."""

from __future__ import annotations

from pathlib import Path

from reprofs import version
from reprofs.publish.verify import Say, by_its_own_code
from reprofs.publish.write import differences
from reprofs.records.publication import OtherVersion, read
from reprofs.workplace import scratch


def claims(folder: Path, say: Say, own: bool = False) -> bool:
    """Recomputes tables and verdicts from the published records; prints differences, returns whether there are none.

    own: with this checkout's code, also where that of the result's commit gives others. Raises UserError like `verify`.
    """
    result = read(folder)
    why = "this version computes tables and verdicts differently"
    with scratch() as work:
        try:
            found = list(differences(folder, result, Path(work)))
        except OtherVersion as error:
            if own:
                raise
            found, why = [str(error)], "its plan is of another version"
    if found and not own and version.commit() != result.rendered.commit:
        return by_its_own_code(folder, result, ["--claims"], [why], say)
    for sentence in found:
        say(sentence)
    judged = sum(map(len, result.verdicts.values()))
    if not found:
        say(f"{folder}: {len(result.tables)} tables and {judged} verdicts come from its {len(result.trials)} records")
    return not found
