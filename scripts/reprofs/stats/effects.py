"""What one changed option does: predicted in the exact lab, written down, and judged by what a real machine shows.

The predictions of a study are data/predictions/NAME.csv, one effect a row. They are written before the real machine is
measured, by `register`, and never after.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pandas as pd
import scipy  # scipy.stats takes seconds to import, so scipy imports it on first use

from reprofs.errors import UserError
from reprofs.files import write_text
from reprofs.project import place
from reprofs.stats import cells, compare, formats
from reprofs.stats.study import Study

LEAST = 1.1  # as a ratio of times; smaller ones are not predicted
Format = dict[str, frozenset[str]]
KEYS = ["filesystem", "changed", "workload", "scale", "phase", "cache"]
OUTCOMES = ["same", "contradicted", "inconclusive", "not measured", "not made"]


def measured(study: Study, lab: str) -> pd.DataFrame:
    """What each changed variant takes over the first variant of its file system, in each operation of a lab.

    Columns: KEYS (changed: the variant), n, ratio (of geometric means, paired by repetition), low, high (95 %).
    """
    own = cells.measured(study.phases)
    own = own[own["lab"] == lab].rename(columns={"variant": "changed"})
    own = own.assign(log=np.log(own["wall_ns"].to_numpy(float)))
    wide = own.pivot_table(index=KEYS, columns="round", values="log")
    names = wide.index.get_level_values("filesystem")
    first = np.array([next(iter(study.plan.filesystems[name].variants)) for name in names], object)
    base = wide.index.get_level_values("changed") == first
    changed, bases = wide[~base], wide[base].droplevel("changed")
    logs = changed.to_numpy() - bases.reindex(changed.index.droplevel("changed")).to_numpy()
    found = compare.paired(logs.T)
    return changed.index.to_frame(index=False).assign(**{name: found[name] for name in ("n", "ratio", "low", "high")})


def predictions(effects: pd.DataFrame) -> pd.DataFrame:
    """The effects of `measured` that are predicted: those of LEAST or more, either way, whose interval has no 1."""
    sure = (effects["low"] > 1) | (effects["high"] < 1)
    large = np.abs(np.log(effects["ratio"].astype(float))) >= np.log(LEAST)
    return effects[sure & large].sort_values(KEYS, ignore_index=True)


def register(study: Study) -> str:
    """Writes the predictions of a study's exact lab, and returns the file's name.

    Raises UserError where the file is there, or a lab with a real clock has been measured already.
    """
    name = study.plan.study.predictions
    file = place(name)
    labs = sorted(study.phases["lab"].unique())
    if real := next((lab for lab in labs if not study.lab(lab).exact), None):
        raise UserError(f"Lab {real} is measured already, so nothing can be predicted of it: start a new study.")
    if file.exists():
        raise UserError(f"{name} is written already: a prediction is made once. Start a new study.")
    file.parent.mkdir(parents=True, exist_ok=True)
    write_text(file, predictions(measured(study, labs[0])).to_csv(index=False, float_format="%.6g"))
    return name


def read(study: Study) -> pd.DataFrame:
    """The predictions of a study, as `register` wrote them; no rows where it has none."""
    file = place(study.plan.study.predictions)
    return pd.read_csv(file) if file.exists() else pd.DataFrame(columns=[*KEYS, "n", "ratio", "low", "high"])


def unmade(study: Study, lab: str) -> set[tuple[str, str]]:
    """(file system, variant) of changes that a lab's mkfs did not make: its format is there that of the first variant.

    Elsewhere it differs, as with an option that is a default of one version of mkfs and not of another.
    """
    made: dict[str, dict[tuple[str, str], Format]] = {}
    for _, one, own in formats.found(study):
        made.setdefault(one.lab, {}).setdefault((one.filesystem, one.variant), own)

    def alike(own: dict[tuple[str, str], Format], name: str, variant: str) -> bool:
        first = next(iter(study.plan.filesystems[name].variants))
        return own.get((name, first)) == own.get((name, variant))

    others = [own for name, own in made.items() if name != lab]
    return {key for key in made.get(lab, {}) if alike(made[lab], *key) and not all(alike(own, *key) for own in others)}


def judged(predicted: pd.DataFrame, effects: pd.DataFrame, unmade: Collection[tuple[str, str]] = ()) -> pd.DataFrame:
    """Each prediction beside what another lab shows. effects: `measured` of that lab; unmade: of `unmade`.

    Columns: those of the prediction, other_ratio, other_low, other_high (of that lab), off (other_ratio over ratio, of
    slower over faster by the prediction), and outcome, one of OUTCOMES: the other lab's 95 % interval decides.
    """
    ends = ["ratio", "low", "high"]
    other = effects[[*KEYS, *ends]].rename(columns={end: f"other_{end}" for end in ends})
    both = predicted.merge(other, on=KEYS, how="left")
    sign = np.sign(np.log(both["ratio"].astype(float)))
    shown = np.where(both["other_low"] > 1, 1, np.where(both["other_high"] < 1, -1, 0))
    other_mkfs = [key in unmade for key in zip(both["filesystem"], both["changed"], strict=True)]
    cases = [both["other_low"].isna(), other_mkfs, shown == 0, shown == sign]
    outcome = np.select(cases, ["not measured", "not made", "inconclusive", "same"], "contradicted")
    off = np.exp(sign * np.log((both["other_ratio"] / both["ratio"]).astype(float)))
    return both.assign(off=off, outcome=pd.Categorical(outcome, OUTCOMES))


def share(right: int, number: int) -> tuple[float, float, float]:
    """The share of right predictions and its exact 95 % interval (Clopper and Pearson 1934); NaN of none."""
    if not number:
        return (float("nan"),) * 3
    ends = scipy.stats.binomtest(right, number).proportion_ci()
    return right / number, float(ends.low), float(ends.high)
