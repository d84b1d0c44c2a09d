"""Lists of files: what rsync says of the time for its list, apart from that for the files."""

from __future__ import annotations

from reprofs.data.keys import Load, Setting, select
from reprofs.report.display import Table, percent, slug, time
from reprofs.stats import series
from reprofs.stats.cells import measured
from reprofs.stats.study import Study

TITLES = {"list-generation": "List generated", "list-transfer": "List transferred"}


def places(study: Study) -> list[tuple[Setting, Load]]:
    """Where rsync told of its list of files."""
    found = [(setting, load) for setting, load, _ in series.having(study.samples, study.settings, set(TITLES))]
    return list(dict.fromkeys(found))


def table(study: Study, setting: Setting, load: Load) -> Table:
    """The time for the list and that for all else, one row per operation and file system; means over rounds."""
    keys = ["phase", "cache", "label"]
    phases = series.completed(measured(study.phases), setting, load)
    samples = series.completed(study.samples, setting, load)
    told = samples[samples["name"].isin(TITLES)].pivot_table("wall_ns", keys, "name").astype(float)
    whole = phases.groupby(keys)["wall_ns"].mean().astype(float)
    rows, shown = [], ""
    for phase, cache in dict.fromkeys(phases[["phase", "cache"]].itertuples(index=False, name=None)):
        title = study.title(load.workload, phase, cache)
        for label in dict.fromkeys(select(phases, phase=phase, cache=cache)["label"]):
            if (phase, cache, label) not in told.index:
                continue
            parts, total = told.loc[phase, cache, label], whole[phase, cache, label]
            rows.append(
                {
                    "Operation": title if title != shown else "",
                    "File system": label,
                    **{words: time(parts[name], 3) for name, words in TITLES.items()},
                    "All else": time(total - parts.sum(), 3),
                    "Whole time": time(total, 3),
                    "Share of the list": percent(parts.sum() / total),
                }
            )
            shown = title
    caption = (
        f"{load}, {setting}: what rsync --stats says of the time for its list of files, and the rest of the whole time,"
        " for the files and the final sync; means over rounds. rsync tells whole milliseconds, and in its incremental"
        " mode only the time until the first part of the list is there; the rest is built while files are copied."
    )
    return Table(f"tbl-{slug('lists', setting, load)}", caption, rows, ["Operation", "File system"])
