"""Space: what file systems say is in use, when they are new and when the files are there."""

from __future__ import annotations

import numpy as np
import pandas as pd

from reprofs.data.keys import SETTING
from reprofs.plan.workload import COMPRESS
from reprofs.stats.study import Study

NEAR = 0.98  # of the most that is in use: the first operation that reaches it put the files there
COARSE = 0.05  # of what is taken: a file system that counts in larger steps is not compared


def used(study: Study) -> pd.DataFrame:
    """What is in use after each operation of each trial: `study.times` with what was taken.

    new_bytes: in use on the new file system, mounted; taken_bytes, taken_inodes: since then, after a sync; step_bytes:
    the largest step of which all changes of that file system are multiples, 0 with fewer than two (NILFS2 counts whole
    segments). Operations where it is not known are left out.
    """
    trials = study.trials[["trial", "mounted_total_bytes", "mounted_free_bytes", "mounted_used_inodes"]]
    found = study.times.dropna(subset="used_bytes").merge(trials.dropna(subset="mounted_free_bytes"), on="trial")
    new = found["mounted_total_bytes"] - found["mounted_free_bytes"]
    values = {"new_bytes": new, "taken_bytes": found["used_bytes"] - new}
    values["taken_inodes"] = found["used_inodes"] - found["mounted_used_inodes"]
    found = found.assign(**{name: column.to_numpy(float, na_value=np.nan) for name, column in values.items()})
    same = [*SETTING, "workload", "scale", "label"]
    found["step_bytes"] = found.groupby(same)["taken_bytes"].transform(_step)
    return found


def _step(changes: pd.Series) -> float:
    different = np.unique(np.abs(changes.to_numpy(np.int64)))
    different = different[different > 0]
    return float(np.gcd.reduce(different)) if len(different) > 1 else 0.0


def full(found: pd.DataFrame) -> pd.DataFrame:
    """The rows of `used` after the first operation that leaves nearly the most in use: then the files are there.

    The same operation for all file systems of a setting; coarse: whether one counts in steps too large to be compared.
    """
    same = [found[key] for key in (*SETTING, "workload", "scale")]
    middle = found.astype({"used_bytes": float}).groupby([*same, found["operation"]], observed=True)["used_bytes"]
    middle = middle.transform("median")
    first = middle >= NEAR * middle.groupby(same).transform("max")
    place = found["position"].astype(float).where(first)
    chosen = found[place == place.groupby(same).transform("min")]
    taken = chosen.groupby([*SETTING, "workload", "scale", "label"])["taken_bytes"].transform("mean")
    return chosen.assign(coarse=chosen["step_bytes"] > COARSE * taken)


def share(study: Study, workload: str) -> int | None:
    """How many percent of the content of a workload a compressor saves, where that is its size; else None."""
    entry = study.plan.workloads[workload]
    return int(entry.parameters[COMPRESS]) if entry.size == COMPRESS else None


def first_variants(study: Study) -> dict[str, str]:
    """Label -> that of the file system's variant which the study names first, in the order in which it names them."""
    places = [study.plan.study, *(study.plan.study.cells or [])]
    asked = [spec for place in places for spec in place.filesystems or []]
    labels = study.trials.drop_duplicates("label").set_index(["filesystem", "variant"])["label"]
    first: dict[str, str] = {}
    found = {}
    for name, _, variant in (spec.partition("+") for spec in asked):
        # A name alone is the variant that is not named with a plus; which one that is stands in no plan.
        others = [one for system, one in labels.index if system == name and f"{name}+{one}" not in asked]
        label = labels.get((name, variant or (others or [""])[0]))
        if label is not None:
            found[label] = first.setdefault(name, label)
    return found
