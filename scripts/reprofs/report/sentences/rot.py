"""Sentences on a rotten bit on one disk of an array: who reads it, who mends it, where it is permanent."""

from __future__ import annotations

import pandas as pd

from reprofs.report.words import listing, verb

LEFT_OUT = (
    "One block rots at a time, on a new array, and nothing is written meanwhile."
    " Disks that fail as well were not tried."
)
MENDED = "Scrub or repair mends it on {}."


def kept(arrays: pd.DataFrame) -> list[str]:
    """Who keeps a program and the disks from the wrong bit. arrays: `stats.rot.by_array`.

    `ext4 (all 5 stacks) gives a program the wrong bit without an error; btrfs does not.` `Repair makes it permanent
    on ext4 (4 of 5 stacks): afterwards no copy has the bit that was written.`
    """
    wrong = arrays[arrays["rotten"] > 0]
    whole = (arrays["rotten"] == 0).groupby(level="label").all()
    never = listing(whole[whole].index)
    told = [f"No program gets the wrong bit from {never}."] if whole.all() and len(whole) else []
    if len(wrong):
        gives = f"{_where(wrong, arrays)} {verb(wrong.index.unique('label').size, 'gives', 'give')}"
        not_so = f"; {never} {verb(int(whole.sum()), 'does', 'do')} not" if whole.any() else ""
        told.append(f"{gives} a program the wrong bit without an error{not_so}.")
    for end, text in (
        ("spread", "Repair makes it permanent on {}: afterwards no copy has the bit that was written."),
        ("mended", MENDED),
        ("remains", "Scrub finds it, and there is no copy to mend it from, on {}."),
    ):
        rows = arrays[arrays[end] > 0]
        told += [text.format(_where(rows, arrays))] if len(rows) else []
    unsaid = arrays[(arrays["copies"] - arrays["found"]).fillna(0) > 0]
    return told + ([f"The scrub reports nothing on {_where(unsaid, arrays)}."] if len(unsaid) else [])


def of_parity(arrays: pd.DataFrame) -> list[str]:
    """What becomes of rotten parity. arrays: `stats.rot.by_array` of that kind.

    `Rotten parity changes nothing that is read. Scrub or repair mends it on ext4 (md-raid5).`
    """
    wrong, mended = arrays[arrays["whole"] < arrays["copies"]], arrays[arrays["mended"] > 0]
    told = ["Rotten parity changes nothing that is read."] if len(arrays) and wrong.empty else []
    told += [f"Rotten parity changes what is read on {_where(wrong, arrays)}."] if len(wrong) else []
    told += [MENDED.format(_where(mended, arrays))] if len(mended) else []
    unseen = arrays[arrays["unseen"] > 0]
    return told + ([f"No scrub finds it on {_where(unseen, arrays)}."] if len(unseen) else [])


def of_others(arrays: pd.DataFrame) -> list[str]:
    """What becomes of rot in metadata and the like. arrays: `stats.rot.by_array` of that kind.

    `In other blocks, such as metadata, it gives an error or no mount on btrfs (single).`
    """
    gives = {"rotten": "wrong content without an error", "error": "an error or no mount"}
    told = [f"{text} on {_where(own, arrays)}" for key, text in gives.items() if len(own := arrays[arrays[key] > 0])]
    told = [f"In other blocks, such as metadata, it gives {', '.join(told)}."] if told else []
    for end, text in (("spread", "Repair makes it permanent on {}."), ("mended", MENDED)):
        rows = arrays[arrays[end] > 0]
        told += [text.format(_where(rows, arrays))] if len(rows) else []
    return told


def _where(rows: pd.DataFrame, arrays: pd.DataFrame) -> str:
    """`ext4 (all 5 stacks) and btrfs (md-raid1)`: the rows by label, and on how many of its stacks, or on which."""
    told = []
    for label, own in rows.groupby(level="label", sort=False):
        every = len(arrays.xs(label, level="label"))
        all_of_them = "both stacks" if every == 2 else f"all {every} stacks"
        many = all_of_them if len(own) == every else f"{len(own)} of {every} stacks"
        told.append(f"{label} ({many if len(own) > 1 else own.index.unique('stack')[0]})")
    return listing(told)
