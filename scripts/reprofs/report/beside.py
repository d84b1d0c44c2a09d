"""What `reprofs profile --beside` says: two exact profiles of one workload, as of two kernels, and what differs."""

from __future__ import annotations

from typing import Any

from reprofs.errors import UserError, cut
from reprofs.report.sentences.kernels import instructions, more, signed
from reprofs.report.words import time
from reprofs.stats import profiles
from reprofs.stats.profiles import STATE, an_item, waiting

MOST = 5  # functions of a phase
SAME = ("workload", "scale", "round", "seed")  # of the trials


def beside(base: dict[str, Any], other: dict[str, Any]) -> str:
    """Compares two profiles, phase by phase: times, instructions, waiting, and the functions that differ most.

    base, other: profiles (workflow/schemas/profile.schema.yaml). All numbers are those of an item: a file, a directory
    or a command. Raises UserError when they are not of the same workload with the same input.
    """
    for key in SAME:
        if base["trial"][key] != other["trial"][key]:
            there, here = (cut(one["trial"][key], 40) for one in (base, other))
            raise UserError(
                f"--beside: {key} is {there} there and {here} in the record: profile a trial of the same workload and "
                "round there."
            )
    scales = [one.get("ns_per_instruction", 0.0) for one in (base, other)]
    pairs = zip(*(_measured(one) for one in (base, other)), strict=False)  # one that failed has fewer
    return "\n".join(line for a, b in pairs for line in _phase(a, b, scales))


def _measured(profile: dict[str, Any]) -> list[dict[str, Any]]:
    return [phase for phase in profile["phases"] if phase["measured"]]


def _phase(a: dict[str, Any], b: dict[str, Any], scales: list[float]) -> list[str]:
    """scales: ns an instruction, of both."""
    times = [an_item(one, one["wall_ns"]) for one in (a, b)]
    spent = [an_item(one, one["instructions"]) * scale for one, scale in zip((a, b), scales, strict=True)]
    waits = [waiting(one) for one in (a, b)]
    terms = [f"instructions {more(spent[1] - spent[0])}"]
    if waits[0] is not None and waits[1] is not None:
        terms.append(f"waiting {more(waits[1] - waits[0])}")
    head = f"{b['name']} ({b['cache']}): {times[1] / times[0]:.4f} times {time(times[0])} an item"
    rows = []
    table = profiles.functions(a, b)
    for (name, module, part), old, new in table[table[0] != table[1]].head(MOST).itertuples():
        where = f"{name} [{module}]" if module else name
        rows.append(f"  {signed(new - old, instructions):>12}  {where}  ({part}{': state' if part in STATE else ''})")
    return [f"{head}: {', '.join(terms)}", *rows]
