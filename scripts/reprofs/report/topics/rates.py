"""Rates of kernel trees: MB/s and files a second of every operation, of all clients and of each."""

from __future__ import annotations

from reprofs.data.keys import Load, Setting
from reprofs.report.display import DASH, Table, digits, slug, span, time
from reprofs.stats import series
from reprofs.stats.study import Study


def places(study: Study) -> list[tuple[Setting, Load]]:
    """Where kernel trees were compiled."""
    found = [(setting, load) for setting, load, _ in series.having(study.samples, study.settings, {"compile"})]
    return list(dict.fromkeys(found))


def table(study: Study, setting: Setting, load: Load) -> Table:
    """One row per operation and file system, in the order of the plan."""
    found = series.operation_rates(series.completed(study.samples, setting, load))
    names = series.completed(study.phases, setting, load).sort_values("position", kind="stable")["phase"]
    several = (found["clients"] > 1).any()
    rows, shown = [], ""
    for name in dict.fromkeys(names):
        own = found[found["name"] == name].sort_values("files_s", ascending=False, kind="stable")
        for row in own.itertuples():
            rows.append(
                {
                    "Operation": study.title(load.workload, name, "warm") if name != shown else "",
                    "File system": row.label,
                    "n": row.n,
                    "MB/s": _mb_s(row.mb_s),
                    "Files/s": digits(row.files_s, 3),
                    **(_of_clients(row) if several else {}),
                    "Mean of rates, MB/s": _mb_s(row.mean_mb_s),
                    "Mean time": time(row.time_ns, 3),
                }
            )
            shown = name
    each = ", of each client, and these summed, as the published studies do; beside it the slowest and fastest client"
    caption = (
        f"Rates of {load}, {setting}. n: operations timed, of all clients and rounds. MB/s and files/s: bytes and files"
        f" of all operations over the sum of their times{each if several else ''}. Mean of rates: the mean over"
        " operations, which compilebench prints (with 2^20 bytes for an MB; here 10^6). Cleaning counts the bytes that"
        " it unlinks; deletion and stat have no bytes."
    )
    return Table(f"tbl-{slug('rates', setting, load)}", caption, rows, ["Operation", "File system"])


def _mb_s(rate: float) -> str:
    return digits(rate, 3) if rate > 0 else DASH


def _of_clients(row) -> dict[str, str]:
    return {"A client's MB/s": _range(row, "mb_s"), "Its files/s": _range(row, "files_s")}


def _range(row, key: str) -> str:
    low, high = getattr(row, f"least_{key}"), getattr(row, f"most_{key}")
    return span(low, high, significant=3) if high > 0 else DASH
