"""Space: what file systems say is in use, when they are new and when the files are there."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt

from reprofs.data.keys import Load, Setting, select
from reprofs.plan.workload import COMPRESS
from reprofs.report.display import DASH, Table, count, digits, known, listing, size, slug
from reprofs.report.plots import BLUE, GREY, INK, WIDTH, Figure, Plot, rows, styled, value_axis
from reprofs.stats.cells import measured
from reprofs.stats.study import Study

NEAR = 0.98  # of the most that is in use: the first phase that reaches it put the files there
COARSE = 0.05  # of what is taken: a file system that counts in larger steps is not compared
MIB = 2**20


def places(study: Study) -> list[tuple[Setting, Load]]:
    """Where file systems told what is in use."""
    loads = [(setting, load) for setting in study.shown_settings for load in study.loads(setting)]
    return [(setting, load) for setting, load in loads if len(fullest(study, setting, load))]


def fullest(study: Study, setting: Setting, load: Load) -> pd.DataFrame:
    """What is in use when the files are there: a row a file system, the least first, means of the rounds.

    Columns: label, role, title (of the phase, the first after which nearly the most is in use), items, content (bytes
    that it wrote, 0 if not known), new, taken (bytes in use when the file system was new, and since then), inodes (in
    use since then; NaN where there is no number of them), step (bytes in which a file system counts, see `_step`).
    """
    phases = select(measured(study.phases), setting, load).dropna(subset="used_bytes")
    trials = study.trials[["trial", "mounted_total_bytes", "mounted_free_bytes", "mounted_used_inodes"]]
    both = phases.merge(trials.dropna(subset="mounted_free_bytes"), on="trial").sort_values("position", kind="stable")
    if both.empty:
        return both
    most = both.groupby(["phase", "cache"], sort=False)["used_bytes"].median().astype(float)
    phase, cache = most.index[most.to_numpy() >= NEAR * most.max()][0]
    here = select(both, phase=phase, cache=cache)
    new = here["mounted_total_bytes"] - here["mounted_free_bytes"]
    values = {"items": here["items"], "content": here["bytes"], "new": new, "taken": here["used_bytes"] - new}
    values["inodes"] = here["used_inodes"] - here["mounted_used_inodes"]
    changes = both["used_bytes"] - both["mounted_total_bytes"] + both["mounted_free_bytes"]
    steps = changes.groupby(both["label"]).agg(_step)
    floats = {name: column.to_numpy(float, na_value=np.nan) for name, column in values.items()}
    found = here.assign(**floats).groupby(["label", "role"])[list(floats)].mean().reset_index()
    found = found.assign(title=study.title(load.workload, phase, cache), step=found["label"].map(steps).astype(float))
    return found.sort_values(["taken", "label"], ignore_index=True)


def _step(changes: pd.Series) -> int:
    """The largest step of which all changes are multiples, 0 with fewer than two: NILFS2 tells whole segments only."""
    different = np.unique(np.abs(changes.to_numpy(np.int64)))
    different = different[different > 0]
    return int(np.gcd.reduce(different)) if len(different) > 1 else 0


def least(study: Study, setting: Setting, load: Load) -> dict | None:
    """Of the contenders: title, files, content (None if not known), best, worst (label, taken), coarse (labels of those
    that count in too large steps to be compared); None without two that are."""
    every = select(fullest(study, setting, load), role="contender")
    coarse = every["step"] > COARSE * every["taken"]
    found = every[~coarse]
    if len(found) < 2:
        return None
    first, last = found.iloc[0], found.iloc[-1]
    told = {"title": first["title"], "content": first["content"] or None, "files": int(first["items"])}
    told |= {"coarse": sorted(every.loc[coarse, "label"])}
    return told | {"best": (first["label"], first["taken"]), "worst": (last["label"], last["taken"])}


def compressed(study: Study, setting: Setting) -> list[Load]:
    """The workloads of a setting whose size is how well their content compresses, the least first, where it was told
    what is in use."""
    found = [load for load in study.loads(setting) if study.plan.workloads[load.workload].size == COMPRESS]
    found = [load for load in found if len(fullest(study, setting, load))]
    return sorted(found, key=lambda load: share(study, load))


def share(study: Study, load: Load) -> int:
    """How many percent of the content of such a workload a compressor saves."""
    return int(study.plan.workloads[load.workload].parameters[COMPRESS])


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


def saved(study: Study, setting: Setting, load: Load) -> list[dict]:
    """What each file system takes: label, taken (bytes), ratio to and reference (label), its variant that the study
    names first; both None for that variant itself, or where it has no result."""
    taken = fullest(study, setting, load).set_index("label")["taken"]
    found = []
    for label, first in first_variants(study).items():
        if label in taken:
            reference = first if first != label and first in taken else None
            ratio = taken[label] / taken[reference] if reference else None
            found.append({"label": label, "taken": taken[label], "reference": reference, "ratio": ratio})
    return found


def savings(study: Study, setting: Setting) -> Table:
    """A row a file system, a column for each workload of `compressed`."""
    rows: dict[str, dict] = {}
    for load in compressed(study, setting):
        for one in saved(study, setting, load):
            told = size(one["taken"]) + (f" ({digits(one['ratio'], 3)})" if one["reference"] else "")
            rows.setdefault(one["label"], {"File system": one["label"]})[f"{share(study, load)} %"] = told
    where = study.differing(setting)
    caption = (
        f"Space that the files take{where and ', '}{where}, by how much of their content a compressor saves; means of"
        " the rounds. In brackets: relative to the variant of the same file system that the study names first."
    )
    return Table(f"tbl-{slug('savings', setting)}", caption, list(rows.values()), left=["File system"])


def table(study: Study, setting: Setting, load: Load) -> Table:
    """A row a file system, the least space first."""
    found = fullest(study, setting, load)
    written = found["content"].max() > 0
    shown = []
    for row in found.itertuples():
        own = {"File system": row.label, "New": size(row.new), "Taken": _taken(row)}
        if written:
            own |= {"A file": size(row.taken / row.items), "Of content": digits(row.taken / row.content, 3)}
        shown.append(own | {"Inodes": f"{row.inodes:,.0f}" if known(row.inodes) else DASH})
    caption = (
        f"Space in use as the file systems say (statfs), {load}, {setting}; means of the rounds. New: of a new file"
        f" system, mounted. Taken: more than that after “{found['title'].iloc[0]}” and its sync"
    )
    if written:
        caption += f"; for each of {count(int(found['items'].iloc[0]), 'file')}, and as a multiple of their content"
    caption += (
        ". ±: the steps in which it counts, where they are large. Inodes: taken likewise; a dash where a file system"
        " has no number of them."
    )
    return Table(f"tbl-{slug('space', setting, load)}", caption, shown, left=["File system"])


def figure(study: Study, setting: Setting, load: Load) -> Figure:
    """What the files take on each file system, and their content."""
    found = fullest(study, setting, load)
    content = found["content"].max()
    beside = list(found.loc[found["role"] != "contender", "label"])
    caption = (
        f"Space taken by “{found['title'].iloc[0]}” and what came before it ({load}, {setting}); means of the rounds."
        + (f" The broken line is the content, {size(content)}." if content else "")
        + (f" Grey, not ranked: {listing(beside)}." if beside else "")
    )
    ends = found.iloc[0], found.iloc[-1]
    alt = f"{count(len(found), 'bar')}, from {' to '.join(f'{end.label}, {size(end.taken)},' for end in ends)} in all."
    return Figure(slug("space", setting, load), caption, alt, _bars(found, content))


def _taken(row) -> str:
    return size(row.taken) + (f" ± {size(row.step)}" if row.step > COARSE * row.taken else "")


@styled
def _bars(found: pd.DataFrame, content: float) -> Plot:
    drawing, axes = plt.subplots(figsize=(WIDTH, 0.55 + 0.22 * len(found)), layout="constrained")
    colours = [BLUE if role == "contender" else GREY for role in found["role"]]
    axes.barh(range(len(found)), found["taken"] / MIB, 0.66, color=colours, lw=0)
    for y, row in enumerate(found.itertuples()):
        axes.annotate(_taken(row), (row.taken / MIB, y), (3, 0), textcoords="offset points", va="center", color=INK)
    if content:
        axes.axvline(content / MIB, color=INK, lw=1, ls=(0, (3, 2)))
    rows(axes, list(found["label"]))
    value_axis(axes, "MiB")
    axes.set_xlim(0, 1.15 * max(found["taken"].max(), content) / MIB)
    return drawing
