"""Sentences on what is expected of a real machine (workflow/machines)."""

from __future__ import annotations

import pandas as pd

from reprofs.plan.machine import Machine
from reprofs.report.marks import strong
from reprofs.report.words import count, listing, verb
from reprofs.stats.compare import TOTAL


def expected(found: pd.DataFrame) -> list[str]:
    """How many differences are expected on machines; of machines alike, in one sentence. found: `predicted.ratios`.

    `**On epyc-26 btrfs+none and xfs are expected to take longer than ext4.** Of 18 differences in single operations 13
    are expected.`
    """
    alike: dict[tuple[tuple[str, ...], int], list[str]] = {}
    for name, own in found.groupby("machine", sort=False):
        slower = own[(own["phase"] == TOTAL) & own["expected"] & (own["role"] == "contender") & (own["lab"] > 1)]
        known = int(own.loc[own["phase"] != TOTAL, "expected"].sum())
        alike.setdefault((tuple(slower.sort_values("lab")["label"]), known), []).append(str(name))
    told: list[str] = []
    for (names, known), machines in alike.items():
        many = f"On {listing(machines)} {listing(names) if names else 'no file system'}"
        base, are = found["base"].iloc[0], verb(len(names) or 1, "is", "are")
        told.append(strong(f"{many} {are} expected to take longer than {base}."))
        if single := int((found["phase"] != TOTAL).sum()) // found["machine"].nunique():
            differences = f"Of {count(single, 'difference')} in single operations"
            told.append(f"{differences} {known} {verb(known, 'is', 'are')} expected.")
    return told


def beyond(filesystems: list[str], profile: str) -> str:
    """What was compared with no machine: `f2fs, jfs and ssd were compared with no machine: for these the model is
    untested.`; empty where all was."""
    names = [*filesystems, *([f"the device model {profile}"] if profile else [])]
    if not names:
        return ""
    return f"{listing(names)} {verb(len(names), 'was', 'were')} compared with no machine: there the model is untested."


def sure(machine: Machine) -> str:
    """How good such expectations were: `Intel Xeon; Linux 6.18: of 183 pairs with such a difference 178 had its
    direction there, and ratios were off by a factor of 1.23 (root mean square). Study …`"""
    head = f"{machine.title}; Linux {machine.kernel}"
    off = f"off by a factor of {machine.error:g}"
    if not (known := machine.compared):
        return f"{head}: no prediction was compared with it, so ratios may be {off}, or more."
    right = f"of {known.told} pairs with such a difference {known.same} had its direction there"
    return f"{head}: {right}, and ratios were {off} (root mean square). {known.source}"
