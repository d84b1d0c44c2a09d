"""How file systems were made, as their tools read it back, and where one was not made alike: tables, and words."""

from __future__ import annotations

from collections.abc import Collection

from reprofs.data.keys import natural
from reprofs.report.display import DASH, Table, listing
from reprofs.stats.formats import found, unlike
from reprofs.stats.study import Study

FEW = 4  # values, or features in a sentence, that are named


def told(study: Study) -> bool:
    """Whether records tell how a file system was made."""
    return bool(found(study))


def several(study: Study) -> bool:
    """Whether a file system was made in several labs or on several stacks."""
    places: dict[str, set] = {}
    for label, made, _ in found(study):
        places.setdefault(label, set()).add((made.lab, made.stack))
    return any(len(own) > 1 for own in places.values())


def warned(study: Study, labs: Collection[str] = (), stacks: Collection[str] = ()) -> list[str]:
    """The file systems that were not made alike, each with what differs: `xfs (rmapbt)`. labs, stacks: only there."""
    features: dict[str, list[str]] = {}
    for one in unlike(study.plan, found(study, labs, stacks)):
        features.setdefault(one.label, []).append(one.feature)
    return [f"{label} ({listing(own, most=FEW)})" for label, own in features.items()]


def differing(study: Study) -> Table | None:
    """What was not made alike, a row for each, a column a lab; None where all was."""
    differences = unlike(study.plan, found(study))
    labs = sorted({lab for one in differences for lab in one.values}, key=natural)
    rows, last = [], ""
    for one in differences:
        row = {"File system": one.label if one.label != last else "", "What": one.feature}
        rows.append(row | {lab: _values(one.values.get(lab, {})) for lab in labs})
        last = one.label
    caption = (
        "Not made alike: what mkfs chose otherwise, as the file systems' own tools read it back, by lab. Sizes that"
        " follow from the device are compared only where it is the same. A dash: not told."
    )
    return Table("tbl-unlike", caption, rows, left=["File system", "What", *labs]) if rows else None


def _values(values: dict[str, list[str]]) -> str:
    """The value of a lab; of several each with its stacks."""
    if len(values) < 2:
        return next(iter(values), "") or DASH
    return "; ".join(f"{value or DASH} ({listing(stacks, most=FEW)})" for value, stacks in values.items())


def table(study: Study) -> Table | None:
    """How each file system was made, all labs and stacks in one row; None where no record tells."""
    made: dict[str, dict[str, list[frozenset[str]]]] = {}
    for label, where, own in found(study):
        readings = study.plan.filesystems[where.filesystem].format or {}
        for name in sorted(own, key=lambda name: (readings[name].by_device, "features" not in name)):
            made.setdefault(label, {}).setdefault(name, []).append(own[name])
    alike: dict[str, list[str]] = {}
    for label, names in made.items():
        text = "; ".join(f"{name}: {_everywhere(sets)}" for name, sets in names.items())
        alike.setdefault(text, []).append(label)
    rows = [{"File systems": ", ".join(labels), "Read back": text} for text, labels in alike.items()]
    caption = (
        "How the file systems were made, read back by their own tools after the first mount: features and sizes that"
        " mkfs chose without being asked."
    )
    return Table("tbl-formats", caption, rows, left=["File systems", "Read back"]) if rows else None


def _everywhere(sets: list[frozenset[str]]) -> str:
    """Words that all have, and which only some have; of single values all that there are."""
    every = frozenset.union(*sets)
    if all(len(words) == 1 for words in sets):
        return listing(sorted(every, key=natural), "or", most=FEW)
    common = frozenset.intersection(*sets)
    return ", ".join(word if word in common else f"{word} (not everywhere)" for word in sorted(every)) or "none"
