"""The environment of the trials as recorded, and how to run them again."""

from __future__ import annotations

from reprofs.report.display import Table, count
from reprofs.report.marks import code, joined
from reprofs.report.topics.methods import trial_command
from reprofs.stats.results import ANALYSIS
from reprofs.stats.study import Study


def facts(study: Study) -> dict:
    """study (its name), command (of the first trial of the order), repeatable (whether tables come out bit for bit),
    unlocked (parts of a lab that are not those of envs/lab.lock) and analysis (the number of the analysis).
    """
    first = study.trials.sort_values("order").iloc[0]
    name = study.plan.study.name
    return {
        "study": name,
        "command": trial_command(first),
        "analysis": ANALYSIS,
        "unlocked": sorted(
            {part for parts in study.environment["values"].get("lab.unlocked", {}) for part in parts.split()}
        ),
        "repeatable": any(study.lab(lab).exact for lab in set(study.trials["lab"])),
    }


def table(study: Study) -> Table:
    """Recorded facts on the lab and its hosts, with the packages of the file systems and workloads.

    More than one value means that records differ.
    """
    values = study.environment["values"]
    packages = {k.removeprefix("lab.packages."): v for k, v in values.items() if k.startswith("lab.packages.")}
    used = {name for filesystem in study.plan.filesystems.values() for name in filesystem.packages}
    used |= {name for workload in study.plan.workloads.values() for name in workload.packages}
    used |= {command.split()[0] for command in study.phases["command"].unique() if command}
    rows = [
        {"What": key, "Value": _values(counts)} for key, counts in values.items() if not key.startswith("lab.packages.")
    ]
    rows += [{"What": f"package {name}", "Value": _values(counts)} for name, counts in packages.items() if name in used]
    caption = "Environment as recorded with the trials."
    if len(packages) > len(used & set(packages)):
        caption += f" The records name all {count(len(packages), 'package')} of the image."
    return Table("tbl-environment", caption, rows, left=["What", "Value"])


def digests(study: Study) -> Table:
    """SHA-256 of the tables, to be compared after repeating the study."""
    rows = [{"Table": f"{name}.parquet", "SHA-256": code(digest)} for name, digest in study.digests.items()]
    return Table("tbl-digests", "Digests of the tables of this study.", rows, left=["Table", "SHA-256"])


def _values(counts: dict[str, int]) -> str:
    named = {code(value) if value else "not known": number for value, number in counts.items()}
    if len(named) == 1:
        return next(iter(named))
    shown = [value + f" ({count(number, 'record')})" for value, number in list(named.items())[:3]]
    return joined(shown, ", ") + (f" and {len(counts) - 3} more" if len(counts) > 3 else "")
