"""Sentences on what could make numbers mean something else."""

from __future__ import annotations

import re
from collections.abc import Iterable

from reprofs.data.keys import natural
from reprofs.report.words import listing
from reprofs.stats.study import Study


def meanings(study: Study, labs: Iterable[str] | None = None) -> list[str]:
    """What the clock of each lab means, in the lab's own words; labs that differ in their number of cores at once.

    labs: which; default all.
    """
    labs = sorted(set(study.trials["lab"])) if labs is None else labs
    found: dict[str, list[str]] = {}
    for text in dict.fromkeys(study.lab(lab).meaning for lab in labs):
        cores = re.search(r"(?<=\blab with )\d+(?= cores )", text)
        key = f"{text[: cores.start()]}{{}}{text[cores.end() :]}" if cores else text
        found.setdefault(key, []).append(cores[0] if cores else "")
    return [text.replace("{}", listing(sorted(numbers, key=natural), "or")) for text, numbers in found.items()]


def assumed(study: Study) -> list[str]:
    """What answers rest on, in the words of the device models that were measured; each once."""
    models = [one for profile in sorted(set(study.trials["profile"])) for one in study.plan.disks(profile)]
    return list(dict.fromkeys(one.assumes for one in models if one.assumes))


def parity_by_md(study: Study, disks: int = 1) -> list[str]:
    """The stacks of so many disks or more on which MD's RAID 5 or 6 was measured in a lab that counts instructions."""
    exact = {name for name, lab in study.plan.labs.items() if lab.exact}
    used = set(study.trials.loc[study.trials["lab"].isin(exact), "stack"])
    layers = {name: one.layers for name, one in study.stacks().items() if name in used and one.disks >= disks}
    return [name for name, own in layers.items() if any(layer.startswith(("md-raid5", "md-raid6")) for layer in own)]
