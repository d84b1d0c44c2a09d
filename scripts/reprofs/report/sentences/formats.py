"""Sentences on how file systems were made: where mkfs chose otherwise, times differ for that reason too."""

from __future__ import annotations

from collections.abc import Collection

from reprofs.report.words import listing
from reprofs.stats.formats import found, unlike
from reprofs.stats.study import Study

FEW = 4  # features that are named


def warned(study: Study, labs: Collection[str] = (), stacks: Collection[str] = ()) -> list[str]:
    """The file systems that were not made alike, each with what differs: `xfs (rmapbt)`. labs, stacks: only there.

    Of many with the same difference the first is named: `ext4 and 6 like it (orphan_file)`.
    """
    features: dict[str, list[str]] = {}
    for one in unlike(study.plan, found(study, labs, stacks)):
        features.setdefault(one.label, []).append(one.feature)
    alike: dict[str, list[str]] = {}
    for label, own in features.items():
        alike.setdefault(listing(own, most=FEW), []).append(label)
    return [
        f"{listing(labels) if len(labels) < FEW else f'{labels[0]} and {len(labels) - 1} like it'} ({own})"
        for own, labels in alike.items()
    ]


def not_alike(names: Collection[str], where: str) -> str:
    """The warning that not the same file system was compared. names: of `warned`; where: `on all stacks`.

    `mkfs did not make the same file system on all stacks: xfs (rmapbt). Times may differ for that reason.`
    """
    told = f"mkfs did not make the same file system {where}: {listing(names)}."
    return f"{told} Times may differ for that reason." if names else ""
