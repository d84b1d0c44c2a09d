"""Whether one file system was made alike wherever a study made it: its format in labs, kernels and stacks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from reprofs.data import formats
from reprofs.data.formats import Made
from reprofs.data.keys import natural
from reprofs.data.study import Tables
from reprofs.plan.plan import Plan

UNTOLD = ""  # the value of what its tools do not print
YES, NO = "yes", "no"  # the values of a feature

Words = frozenset[str]
Found = tuple[str, Made, dict[str, Words]]  # label, where, format


class Unlike(NamedTuple):
    """Something that was not made alike. values: of each lab the values, each with the stacks that have it, sorted."""

    label: str
    feature: str
    values: dict[str, dict[str, list[str]]]


def found(tables: Tables, labs: Collection[str] = (), stacks: Collection[str] = ()) -> list[Found]:
    """Every format of a study, or of these labs and stacks only, ordered by label."""
    labels = tables.trials.drop_duplicates(["filesystem", "variant"]).set_index(["filesystem", "variant"])["label"]
    told = formats.from_json(tables.environment.get("formats", []))
    return sorted(
        (
            (labels[made.filesystem, made.variant], made, own)
            for made, own in told
            if (not labs or made.lab in labs) and (not stacks or made.stack in stacks)
        ),
        key=lambda one: (natural(one[0]), one[1]),
    )


def unlike(plan: Plan, made: Iterable[Found]) -> list[Unlike]:
    """What is not the same of file systems with the same label, wherever they were made.

    What follows from the device (`by_device` in the file system's file) is compared only where stack, device profile,
    workload and the sizes of the disks are the same. A stack that only one file system can use is its own arrangement,
    and compared with no other.
    """
    values: dict[tuple[str, str], dict[str, dict[str, set[str]]]] = {}
    for (label, name), groups in _groups(plan, made).items():
        for group in groups:
            every = {words for _, words in group}
            if len(every) == 1:
                continue
            for feature in _features(name, every):
                at = values.setdefault((label, feature), {})
                for one, words in group:
                    at.setdefault(one.lab, {}).setdefault(_value(feature, name, words), set()).add(one.stack)
    return [
        Unlike(label, feature, {lab: {value: sorted(own[value]) for value in sorted(own)} for lab, own in at.items()})
        for (label, feature), at in values.items()
    ]


def _groups(plan: Plan, made: Iterable[Found]) -> dict[tuple[str, str], list[list[tuple[Made, Words | None]]]]:
    """Label and name -> what is compared with each other."""
    groups: dict[tuple[str, str], dict[tuple, list[tuple[Made, Words | None]]]] = {}
    for label, one, own in made:
        stack = plan.stacks.get(one.stack)
        for name, reading in (plan.filesystems[one.filesystem].format or {}).items():
            alone = one.stack if stack and stack.filesystem else ""
            key = (one.stack, one.profile, one.workload, one.scale, one.disks) if reading.by_device else (alone,)
            groups.setdefault((label, name), {}).setdefault(key, []).append((one, own.get(name)))
    return {key: list(own.values()) for key, own in groups.items()}


def _features(name: str, every: set[Words | None]) -> Iterator[str]:
    """What differs: the name itself where it has one value everywhere, else its words that not all have."""
    told = [words for words in every if words is not None]
    if len(told) < len(every) or all(len(words) == 1 for words in told):
        yield name
    else:
        yield from sorted(frozenset.union(*told) - frozenset.intersection(*told))


def _value(feature: str, name: str, words: Words | None) -> str:
    if feature == name:
        return UNTOLD if words is None else " ".join(sorted(words))
    return YES if words and feature in words else NO
