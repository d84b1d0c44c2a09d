"""What the report shows of series: figures and tables of clients, fills, sweeps over records, windows, scaling."""

import re
from functools import partial

import pandas as pd

from . import characterisation, curves, series, stats, tables, words
from .dataset import Study
from .words import Item

KEYS = [*stats.SETTING, "workload", "scale"]


def items(study: Study, setting: tuple, workload: tuple) -> list[Item]:
    """Figures of a workload (name, scale) in a setting, of kind `series`; none where its phases have no series."""
    samples, clients = _of(study.samples, setting, workload), _of(study.clients, setting, workload)
    where = f"{workload[0]} ({workload[1]}, {tables.setting_name(setting)})"
    found = []
    if len(clients):
        titles = [study.title(workload[0], row.phase, row.cache) for row in clients.itertuples()]
        caption = (
            f"{where}: when each of the clients that started together was done. Clients in the order in which they"
            " finished; with several rounds the mean of each place."
        )
        most = clients.groupby("trial")["client"].nunique().max()
        alt = f"Finish times of {words.count(int(most), 'client')}; the table of clients has the numbers."
        for number, page in enumerate(_pages(clients.assign(phase=titles, cache="")), 1):
            found.append(("clients", str(number), caption, alt, partial(curves.clients, page)))
    for phase, own in samples.groupby("phase", sort=False):
        names = set(own["name"])
        if {"write", "capacity"} <= names:
            caption = (
                f"{where}: rate of every file while the device fills. A line is a round, a ring a dip below half of the"
                " median."
            )
            alt = "Rates over the share of the capacity that is written; the table of the fill has the numbers."
            found.append(("fill", phase, caption, alt, partial(curves.fill, own)))
            caption = f"{where}: how many files reach a rate. The lines across are the rates that the study required."
            found.append(
                ("exceedance", phase, caption, "Share of files against rate.", partial(curves.exceedance, own))
            )
        if {"write", "read"} <= names and "alone" in names:
            caption = (
                f"{where}: a writer alone, beside a reader (shaded), alone again, in the first round. Dots are chunks,"
                " bars the means of the windows, the stepped line is the reader."
            )
            alt = "Rates of writer and reader over time; the table of the windows has the numbers."
            found.append(("windows", phase, caption, alt, partial(curves.windows, own)))
        if own["record_bytes"].nunique() > 1:
            memory = memory_bytes(study)
            caption = f"{where}: rate in MB/s over sizes of file and record, logarithmic colours, mean of rounds."
            notes = series.memory_warnings(own, memory) if memory else []
            caption += " Hatched: the file fits in the memory of the machine." if notes else ""
            alt = "Heat maps of rates, a panel an operation; samples.parquet has the numbers."
            bare = own.assign(name=own["name"].str.replace(f"{phase}-", ""))
            found.append(("sweep", phase, caption, alt, partial(curves.surface, bare, memory)))
    return characterisation.items(study, setting, workload) + [
        Item("series", tables.slug(kind, phase, *setting, *workload), setting, workload, caption, alt, draw)
        for kind, phase, caption, alt, draw in found
    ]


def scaling_items(study: Study, setting: tuple) -> list[Item]:
    """For each workload that the study has at several sizes a figure of time against size, of kind `scaling`."""
    found = []
    for name, table in _sizes(study, setting).items():
        sizes = sorted(set(table["size"]))
        caption = (
            f"{name} ({tables.setting_name(setting)}): time of each operation against {table['unit'].iloc[0]}, axes are"
            " logarithmic. Marks are rounds; the line is a power law fitted to them, continued tenfold with its 95 %"
            " prediction interval. The law holds as far as nothing new happens, such as a cache that is full."
        )
        alt = (
            f"Panels of time against size, {words.listing(f'{size:,}' for size in sizes)}; the table has the exponents."
        )
        for number, page in enumerate(_pages(table), 1):
            key = tables.slug("scaling", name, str(number), *setting)
            unit = table["unit"].iloc[0]
            draw = partial(curves.scaling, page.rename(columns={"size": unit}), unit)
            found.append(Item("scaling", key, setting, None, caption, alt, draw))
    return found


def scaling(study: Study, setting: tuple) -> list[words.Table]:
    """Exponents of the power laws behind `scaling_items`."""
    found = []
    for name, table in _sizes(study, setting).items():
        rows = [
            {
                "Operation": row.phase,
                "File system": row.label,
                "Exponent": words.digits(row.exponent, 3),
                "95 % interval": words.span(row.low, row.high, 1, 3),
                "R²": words.digits(row.r2, 4),
                "n": row.n,
            }
            for row in series.scaling_table(table, "size").itertuples()
        ]
        caption = (
            f"{name} ({tables.setting_name(setting)}): exponent of the power law of time over {table['unit'].iloc[0]},"
            " least squares in logarithms, Student's interval. 1 is proportional."
        )
        left = ["Operation", "File system"]
        found.append(words.Table(f"tbl-{tables.slug('scaling', name, *setting)}", caption, rows, left=left))
    return found


def show(study: Study, setting: tuple, workload: tuple) -> list:
    """Tables and sentences beside the figures of `items`."""
    samples, clients = _of(study.samples, setting, workload), _of(study.clients, setting, workload)
    found: list = characterisation.show(study, setting, workload)
    if len(clients):
        found.append(_clients(study, clients, setting, workload))
    for phase, own in samples.groupby("phase", sort=False):
        names = set(own["name"])
        if {"write", "capacity"} <= names:
            found.append(_fill(own, setting, workload, phase))
        if {"write", "read"} <= names and "alone" in names:
            found.append(_windows(own, setting, workload, phase))
        if own["record_bytes"].nunique() > 1 and memory_bytes(study):
            found += [words.Prose(line) for line in series.memory_warnings(own, memory_bytes(study))]
    cuts = tables.select(study.phases, KEYS, (*setting, *workload)).dropna(subset="crash_cut_ns")
    if len(cuts):
        found.append(_crashes(study, cuts, setting, workload))
    if study.plan["workloads"].get(workload[0], {}).get("fill"):
        found.append(_ageing(study, setting, workload))
    return found + _drift(study, samples, setting, workload)


def memory_bytes(study: Study) -> int:
    """Memory of the machine that ran the trials: of the guest, else of the host; 0 when several or none is told."""
    values = study.environment["values"]
    commands = {found[1] for text in values.get("lab.command", {}) if (found := re.search(r"-m (\d+)M?\b", text))}
    if len(commands) == 1:
        return int(commands.pop()) * 2**20
    hosts = values.get("host.memory_bytes", {})
    return int(next(iter(hosts))) if len(hosts) == 1 and not commands else 0


def _of(frame: pd.DataFrame, setting: tuple, workload: tuple) -> pd.DataFrame:
    chosen = tables.select(frame, KEYS, (*setting, *workload))
    return chosen[(chosen["status"] == "ok") & (chosen["role"] != "ceiling")]


def _pages(frame: pd.DataFrame, panels: int = 6) -> list[pd.DataFrame]:
    """The frame in parts whose phases fit on a page, a panel each."""
    phases = list(dict.fromkeys(frame["phase"]))
    return [frame[frame["phase"].isin(phases[at : at + panels])] for at in range(0, len(phases), panels)]


def _mean(frame: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    return frame.groupby(keys, sort=False, dropna=False).mean(numeric_only=True).reset_index()


def _clients(study: Study, clients: pd.DataFrame, setting: tuple, workload: tuple) -> words.Table:
    rows = []
    for row in _mean(series.clients_table(clients), ["phase", "cache", "label"]).itertuples():
        moved = row.total_mb_s > 0
        rate, total = (row.rate_sum_mb_s, row.total_mb_s) if moved else (row.rate_sum_items_s, row.total_items_s)
        rows.append(
            {
                "Operation": study.title(workload[0], row.phase, row.cache),
                "File system": row.label,
                "Unit": "MB/s" if moved else "items/s",
                "Sum of rates": words.digits(rate, 3),
                "Total": words.digits(total, 3),
                "Mean time": words.time(row.time_mean_ns, 3),
                "First done": words.time(row.first_done_ns, 3),
                "Last done": words.time(row.last_done_ns, 3),
                "Jain": words.digits(row.jain, 3),
            }
        )
    caption = (
        f"Clients of {workload[0]} ({tables.setting_name(setting)}), means over rounds. Sum of rates and mean time are"
        " what the studies report; total is all work over the time from the first start to the last end, never more"
        " than the sum. Jain's index of fairness is 1 when all clients have the same rate."
    )
    left = ["Operation", "File system", "Unit"]
    return words.Table(f"tbl-{tables.slug('clients', *setting, *workload)}", caption, rows, left=left)


def _fill(samples: pd.DataFrame, setting: tuple, workload: tuple, phase: str) -> words.Table:
    rows = []
    reached = series.capacity_reached(samples).groupby("label")["share"].mean()
    whole = series.rates(samples)
    for label, own in whole[~whole["partial"]].groupby("label", sort=False):
        found = [series.dips(run["mb_s"].to_numpy()) for _, run in own.groupby("trial", sort=False)]
        periods = [one["period"] for one in found if one["period"]]
        at = series.percentiles(own["mb_s"], (1, 50, 99))
        likely = series.probability(own["gbit_s"]).set_index("level_gbit_s")
        row = {
            "File system": label,
            **{f"p{q} MB/s": words.digits(value, 3) for q, value in at.items()},
            "Dips": sum(len(one["at"]) for one in found),
            "Period": words.digits(sum(periods) / len(periods), 3) if periods else "-",
        }
        for level, entry in likely.iterrows():
            row[f"P \N{GREATER-THAN OR EQUAL TO} {level:g} Gbit/s"] = (
                f"{entry['share']:.2f} ({words.span(entry['low'], entry['high'], 1, 2)})"
            )
        rows.append(row | {"Capacity reached": words.percent(reached.get(label, float("nan")))})
    caption = (
        f"{workload[0]}, {phase} ({tables.setting_name(setting)}): rates of the files, all rounds. A dip is below half"
        " of the median, its period is in files. Wilson's 95 % interval of a share takes files as independent, which"
        " regular dips are not. Capacity: what statvfs offered before the first file."
    )
    return words.Table(f"tbl-{tables.slug('fill', phase, *setting, *workload)}", caption, rows, left=["File system"])


def _windows(samples: pd.DataFrame, setting: tuple, workload: tuple, phase: str) -> words.Table:
    rows = []
    for label, own in series.windows(samples).groupby("label", sort=False):
        mean = own.mean(numeric_only=True)
        back = pd.to_numeric(own["recovery_ns"]).dropna()
        rows.append(
            {
                "File system": label,
                **{
                    f"{key} MB/s": words.digits(mean[f"{column}_mb_s"], 3)
                    for key, column in (
                        ("Before", "before"),
                        ("Beside", "beside"),
                        ("After", "after"),
                        ("Reader", "reader"),
                    )
                },
                "Slowdown": words.digits(mean["slowdown"], 3),
                "Recovered after": words.time(back.mean(), 3) if len(back) else "not",
            }
        )
    caption = (
        f"{workload[0]} ({tables.setting_name(setting)}): the writer alone, beside the reader, alone again; means over"
        " rounds. Slowdown: rate beside the reader over the mean of the two windows alone. Recovered: from the reader's"
        " last read to the first chunk at 95 % of the median rate before it."
    )
    return words.Table(f"tbl-{tables.slug('windows', phase, *setting, *workload)}", caption, rows, left=["File system"])


def _ageing(study: Study, setting: tuple, workload: tuple) -> words.Table:
    rows = []
    trials = _of(study.trials, setting, workload).dropna(subset="ageing")
    for label, own in trials.groupby("label", sort=False):
        row = {"File system": label}
        for name, title in (("layout-before", "before the churn"), ("layout-after", "after it")):
            told = rf"{name}: .*, ([\d.]+) extents a file, layout score ([\d.]+)"
            lines = own["ageing"].str.extract(told).astype(float)
            row[f"Extents a file {title}"] = words.digits(lines[0].mean(), 4)
            row[f"Layout score {title}"] = words.digits(lines[1].mean(), 4)
        rows.append(row)
    caption = (
        f"{workload[0]} ({tables.setting_name(setting)}): layout of the files that filled the file system, before and"
        " after the churn, means over rounds. The score is the share of blocks that lie directly after the one before"
        " them in their file (Smith and Seltzer, 1997); a dash means that the file system does not tell (FIEMAP)."
    )
    return words.Table(f"tbl-{tables.slug('ageing', *setting, *workload)}", caption, rows, left=["File system"])


def _crashes(study: Study, cuts: pd.DataFrame, setting: tuple, workload: tuple) -> words.Table:
    """Also of trials that failed: a broken promise makes a trial fail."""
    rows = []
    for (phase, cache, label), own in cuts.groupby(["phase", "cache", "label"], sort=False):
        row = {
            "Phase": study.title(workload[0], phase, cache),
            "File system": label,
            "Cuts": len(own),
            "Cut after": words.time(own["crash_cut_ns"].mean(), 3),
            "Lost": words.size(own["crash_lost_bytes"].mean()),
            "Recovery": words.time(own["crash_recovery_ns"].mean(), 3),
        }
        told = own.dropna(subset="crash_written")
        for key in ("promised", "broken", "written", "kept", "short", "wrong", "missing"):
            title = {"written": "files", "kept": "whole", "short": "cut short"}.get(key, key).capitalize()
            row[title] = f"{told[f'crash_{key}'].sum():,}" if len(told) else words.DASH
        rows.append(row)
    caption = (
        f"Power cuts of {workload[0]} ({tables.setting_name(setting)}). Lost: what the devices had taken and not"
        " brought to their media, with what was written in vain after the cut. Recovery: the mount afterwards. Files"
        " are those looked for after it, summed over rounds: promised ones had been flushed with success before the"
        " cut, and none of them may be broken; of the others nothing was promised."
    )
    left = ["Phase", "File system"]
    return words.Table(f"tbl-{tables.slug('crashes', *setting, *workload)}", caption, rows, left=left)


def _drift(study: Study, samples: pd.DataFrame, setting: tuple, workload: tuple) -> list[words.Table]:
    """Of a workload repeated in one file system: how its times change from run to run."""
    if study.plan["workloads"].get(workload[0], {}).get("runs", 1) < 2:
        return []
    whole = samples[samples["start_ns"].isna()]
    rows = []
    for (phase, cache, label), own in whole.groupby(["phase", "cache", "label"], sort=False):
        times = own.groupby("iteration")["wall_ns"].mean()
        rho = times.astype(float).corr(pd.Series(times.index, times.index).astype(float), method="spearman")
        rows.append(
            {
                "Operation": study.title(workload[0], phase, cache),
                "File system": label,
                "First run": words.time(times.iloc[0], 3),
                "Last run": words.time(times.iloc[-1], 3),
                "Last to first": words.digits(times.iloc[-1] / times.iloc[0], 3),
                "Spearman": words.digits(rho, 2),
            }
        )
    runs = words.count(study.plan["workloads"][workload[0]]["runs"], "run")
    caption = (
        f"{workload[0]} ({tables.setting_name(setting)}): change over {runs} in the same file system, means over"
        " rounds; Spearman's correlation of time with the number of the run."
    )
    left = ["Operation", "File system"]
    return [words.Table(f"tbl-{tables.slug('drift', *setting, *workload)}", caption, rows, left=left)]


def _sizes(study: Study, setting: tuple) -> dict[str, pd.DataFrame]:
    """Workload without its size -> times of its phases, with size and unit; only those with several sizes."""
    phases = tables.select(stats.measured(study.phases), stats.SETTING, setting)
    phases = phases[phases["role"] != "ceiling"]
    entries = study.plan["workloads"]
    found: dict[str, list[pd.DataFrame]] = {}
    for name, own in phases.groupby("workload", sort=False):
        entry = entries.get(name, {})
        if "size" in entry:
            base = re.sub(r"@x?\d+", "", name)
            titles = [study.title(name, row.phase, row.cache) for row in own.itertuples()]
            size = int(entry["scale"][entry["size"]])
            found.setdefault(base, []).append(own.assign(phase=titles, unit=entry["size"], size=size))
    several: dict[str, pd.DataFrame] = {}
    for base, frames in found.items():
        whole = pd.concat(frames).sort_values(["position", "label", "size"], kind="stable")
        chosen = whole[whole.groupby("label")["size"].transform("nunique") > 1]
        if len(chosen):
            several[base] = chosen
    return several
