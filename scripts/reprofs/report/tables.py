"""Tables of the report that take more than a few lines to make: formats of file systems, networks."""

from __future__ import annotations

import pandas as pd

from reprofs.data.keys import natural
from reprofs.plan.cell import apart
from reprofs.report.show import Table, table
from reprofs.report.words import DASH, listing, reach
from reprofs.stats.formats import found, unlike
from reprofs.stats.study import Study

FEW = 4  # values that are named


def formats(study: Study) -> list[Table]:
    """How file systems were made, read back by their own tools; and what was not made alike, a column a lab."""
    made: dict[str, dict[str, list[frozenset[str]]]] = {}
    for label, where, own in found(study):
        readings = study.plan.filesystems[where.filesystem].format or {}
        for name in sorted(own, key=lambda name: (readings[name].by_device, "features" not in name)):
            made.setdefault(label, {}).setdefault(name, []).append(own[name])
    alike: dict[str, list[str]] = {}
    for label, names in made.items():
        alike.setdefault("; ".join(f"{name}: {_everywhere(sets)}" for name, sets in names.items()), []).append(label)
    rows = [{"file systems": ", ".join(labels), "read back": text} for text, labels in alike.items()]
    told = [table(pd.DataFrame(rows), "Formats, read back by the file systems' own tools.", "formats")] if rows else []
    differs = unlike(study.plan, found(study))
    labs = sorted({lab for one in differs for lab in one.values}, key=natural)
    rows = [
        {"file system": one.label, "what": one.feature} | {lab: _values(one.values.get(lab, {})) for lab in labs}
        for one in differs
    ]
    return told + ([table(pd.DataFrame(rows), "What was not made alike, by lab.", "unlike")] if rows else [])


def _values(values: dict[str, list[str]]) -> str:
    """The value of a lab; of several each with its stacks."""
    if len(values) < 2:
        return next(iter(values), "") or DASH
    return "; ".join(f"{value or DASH} ({listing(stacks, most=FEW)})" for value, stacks in values.items())


def _everywhere(sets: list[frozenset[str]]) -> str:
    """Words that all have, and which only some have; of single values all that there are."""
    every = frozenset.union(*sets)
    if all(len(words) == 1 for words in sets):
        return listing(sorted(every, key=natural), "or", most=FEW)
    common = frozenset.intersection(*sets)
    return ", ".join(word if word in common else f"{word} (not everywhere)" for word in sorted(every)) or "none"


def networks(study: Study) -> list[Table]:
    """The networks between nodes by their files, with what their queues counted; and the nodes of each lab."""
    used, rows, nodes = study.trials["variant"].map(lambda variant: apart(variant)[1]), [], []
    for name, network in study.plan.networks.items():
        here = study.trials[used == name]
        counts = {"frames a trial": here["network_frames"], "dropped": here["network_dropped"]}
        rows.append(
            {"network": name, "what it is": network.title, "Mbit/s": network.rate_mbit, "delay (µs)": network.delay_us}
            | {"loss (%)": network.loss_percent, "queue (frames)": network.queue_frames, "MTU": network.mtu}
            | {
                head: reach(column.min(), column.max(), lambda value: f"{value:,.0f}") if column.notna().any() else DASH
                for head, column in counts.items()
            }
        )
    for place, lab in study.plan.labs.items():
        for name, entry in study.plan.filesystems.items():
            ran = (study.trials["lab"].eq(place) & study.trials["filesystem"].eq(name)).any()
            if entry.hosts and ran:
                nodes.append(
                    {"lab": place, "file system": name, "servers": entry.hosts.servers, "clients": entry.hosts.clients}
                    | {"cores": lab.processor.count if lab.processor else DASH}
                )
    caption = "Networks: each node has a link to one switch; rate, delay, loss and queue are those of both its ends."
    told = [table(pd.DataFrame(rows), caption, "networks")] if rows else []
    caption = "Nodes: network namespaces of one machine. With more cores than servers each server has its own core."
    return told + ([table(pd.DataFrame(nodes), caption, "hosts")] if nodes else [])
