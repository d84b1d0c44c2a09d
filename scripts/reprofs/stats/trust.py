"""How far the exact lab's order was found on a real machine, and what its processor's times there would change.

The figures stand in the processor's file, key `trust`; docs/methods/trust.md says how they were measured.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable

import pandas as pd

from reprofs.data.keys import Load, Setting, select
from reprofs.plan import PROCESSOR
from reprofs.plan.cell import lab_parts
from reprofs.plan.processor import Order, Processor, Trust
from reprofs.plan.read import read_yaml
from reprofs.project import place
from reprofs.stats import cells, compare
from reprofs.stats.study import Study

MODEL = ("ns_per_instruction", "features", "cores")  # what makes it the same processor


def processor(study: Study, lab: str) -> Processor | None:
    """The processor that a lab models; None of a real one, and where the plan does not know it.

    What it was compared with is the latest: of this checkout, where that has the same processor.
    """
    own = study.lab(lab).processor
    shipped = _shipped(lab_parts(lab).processor or PROCESSOR) if own else None
    if not own or not shipped or any(getattr(own, key) != getattr(shipped, key) for key in MODEL):
        return own
    return own.model_copy(update={"trust": shipped.trust})


@functools.cache
def _shipped(name: str) -> Processor | None:
    path = place(Processor.folder) / f"{name}.yaml"
    return read_yaml(path, Processor) if path.is_file() else None


def known(study: Study, lab: str) -> Trust | None:
    """The comparison of a lab's CPU model with a real machine. None where there is none, as on other kernels or with
    little memory.
    """
    own, facts = processor(study, lab), study.lab(lab)
    return own.trust if own and not facts.kernel and not facts.memory_mib else None


def small(study: Study, lab: str, ratio: float) -> bool:
    """Whether a difference is too small to have been shown on a real machine."""
    own = processor(study, lab)
    return bool(own and own.trust and own.trust.order.small(ratio - 1))


def unmeasured(study: Study, lab: str, labels: Iterable[str]) -> str:
    """What no real machine was compared for, in words; empty where all were.

    Empty, too, in a lab that models no processor: its times are a real machine's.
    """
    if not processor(study, lab):
        return ""
    if not known(study, lab):
        return "this much memory" if study.lab(lab).memory_mib else "this processor and kernel"
    used = study.trials.loc[study.trials["label"].isin(list(labels)), "filesystem"].unique()
    hosted = any(study.plan.filesystems[name].hosts for name in used)
    return "distributed file systems" if hosted else ""


def outside(study: Study, setting: Setting, labels: Iterable[str]) -> tuple[list[str], str]:
    """(file systems, device model) of an exact lab's ranking that no real machine was compared for; empty where all
    were, in a lab of a real clock, and where nothing is known of the processor at all (`unmeasured`)."""
    found = known(study, setting.lab)
    if not found:
        return [], ""
    own = study.trials[study.trials["label"].isin(list(labels)) & (study.trials["role"] == "contender")]
    without = sorted(set(own["filesystem"]) - set(found.order.filesystems))
    return without, "" if setting.profile in found.order.profiles else setting.profile


def only_here(study: Study, setting: Setting, labels: Iterable[str]) -> bool:
    """Whether an answer holds in this lab alone: of a contender, device, processor or kernel that was never compared
    with a real machine."""
    return bool(unmeasured(study, setting.lab, labels)) or any(outside(study, setting, labels))


def bias(order: Order, filesystems: Iterable[str]) -> tuple[str, str, float, float] | None:
    """The pair of file systems whose totals a real machine has in the most different ratio: slower, faster (in the
    lab), ratio in the lab, ratio on the machine. None where two of them were not compared."""
    totals = [one for one in order.totals if one.filesystem in set(filesystems)]
    pairs = [
        (b.filesystem, a.filesystem, b.lab_s / a.lab_s, b.machine_s / a.machine_s)
        for a, b in itertools.permutations(totals, 2)
        if b.lab_s > a.lab_s
    ]
    return max(pairs, key=lambda pair: abs(math.log(pair[2] / pair[3])), default=None)


def weighted(study: Study, setting: Setting, load: Load) -> pd.Series | None:
    """A row of `compare.winners`: totals, if each operation's processor time were what it is on the real machine.

    What is not processor time of the process that does the work is left as it is. None where an operation of the
    workload has no such time, or there is nothing to compare.
    """
    own, found = processor(study, setting.lab), known(study, setting.lab)
    phases = select(cells.measured(study.phases), setting, load)
    if not own or not found or phases.empty or unmeasured(study, setting.lab, phases["label"]):
        return None
    times = {(one.operation, one.cache): one.ns / own.ns_per_instruction for one in found.times.operations}
    factor = pd.MultiIndex.from_frame(phases[["operation", "cache"]]).map(times.get).astype(float)
    spent = phases["user_ns"].astype(float) + phases["system_ns"].astype(float)
    phases = phases.assign(wall_ns=phases["wall_ns"].astype(float) + (factor - 1) * spent)
    totals = compare.totals(phases)
    if phases["wall_ns"].isna().any() or totals.empty:
        return None
    pairs = compare.pairwise(totals, study.margins["equal"])
    row = compare.winners(cells.statistics(totals), pairs, **study.margins).iloc[0]
    return None if row["verdict"] == "alone" else row
