"""What a byte of the user costs in flash: what file systems add to it, and what the drive moves to make room.

Pages that went into a fast region (SLC cache) are programmed once more when they are moved out of it, into other cells;
that is not counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from reprofs.data.keys import SETTING
from reprofs.stats import cells

if TYPE_CHECKING:
    from reprofs.stats.study import Study

PAGE = 4096  # bytes of a page of flash
LEAST = 0.5  # of the content, that a phase must write to flash: one that reads only writes times of access
KEYS = [*SETTING, "workload", "scale", "label", "role", "round"]


def written(study: Study) -> pd.DataFrame:
    """Whole phases that wrote content to disks with flash: a row a phase, configuration and repetition.

    Columns: KEYS, phase, content (bytes of the user), host and flash (bytes that the file system wrote and that were
    programmed), by_host = host / content, inside = flash / host (write amplification in the drive), bytes = flash /
    content.
    """
    found = cells.measured(study.phases)
    pages = {
        name: found[f"device_flash_{name}"].fillna(found[f"whole_flash_{name}"]).astype(float)
        for name in ("written", "moved")
    }
    host = pages["written"] * PAGE
    found = found.assign(host=host, flash=host + pages["moved"] * PAGE, content=found["bytes"].astype(float))
    found = found[found["host"].gt(0)]
    # A command's parts have the pages of all of it.
    whole = found.groupby([*KEYS, "trial", "position"], sort=False, observed=True, as_index=False).agg(
        phase=("phase", "first"), content=("content", "sum"), host=("host", "first"), flash=("flash", "first")
    )
    return _shares(whole[(whole["content"] > 0) & (whole["host"] >= LEAST * whole["content"])])


def together(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of `written`, all phases of a trial as one; means of the repetitions."""
    each = rows.groupby(KEYS, sort=False, observed=True, as_index=False)[["content", "host", "flash"]].sum()
    means = each.groupby(KEYS[:-1], sort=False, observed=True, as_index=False)[["content", "host", "flash"]].mean()
    return _shares(means)


def _shares(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.assign(
        by_host=rows["host"] / rows["content"],
        inside=rows["flash"] / rows["host"],
        bytes=rows["flash"] / rows["content"],
    ).reset_index(drop=True)
