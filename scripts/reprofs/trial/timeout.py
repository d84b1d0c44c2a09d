"""How long a trial may take on real devices, from the work that it has: a limit for one that hangs, not an estimate."""

from __future__ import annotations

import math

from reprofs.plan.phase import Phase
from reprofs.plan.workload import Scale
from reprofs.trial.setup import Setup

SLOWEST_BYTES = 50_000_000  # a second: half of what a single disk of 2010 sustains on its inner tracks
SLOWEST_ITEMS = 100  # files a second: about one seek for each


def content_bytes(setup: Setup, room: int | None = None) -> int:
    """About the most bytes of content that the trial has at one time; room: of the devices, when known."""
    offered = setup.scale.device_mib << 20 if room is None else room
    if setup.workload.fills():
        return offered
    return setup.needs + offered * setup.workload.fill // 100


def time_limit_s(setup: Setup, least: float, room: int | None = None) -> float:
    """Seconds after which a trial is given up: `least`, or what its work takes at the slowest plausible rates.

    Its content is moved and its files are handled once in each phase and once more for the check after it.
    """
    workload = setup.workload
    passes = len(workload.populate) + 2 * len(workload.phases) * workload.runs
    items = 2 * workload.runs * workload.clients * sum(_items(phase, setup.scale) for phase in workload.phases)
    return max(least, content_bytes(setup, room) * passes / SLOWEST_BYTES + items / SLOWEST_ITEMS)


def check_limit_s(setup: Setup, least: int) -> int:
    """Seconds for a comparison of all content; the job has it, so it must not depend on the machine."""
    return max(least, math.ceil(content_bytes(setup) / SLOWEST_BYTES))


def _items(phase: Phase, scale: Scale) -> int:
    return scale.count("files" if phase.operation else phase.items) or 1
