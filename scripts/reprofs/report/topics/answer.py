"""The answer first: the question of the study, and each topic's answer to it in a sentence or two."""

from __future__ import annotations

from reprofs.data.keys import Load, Setting, distinct, select
from reprofs.report.display import count, known, listing, size
from reprofs.stats.study import Study


def applies(plan: dict) -> bool:
    """Always."""
    return True


def question(study: Study) -> str:
    """The question of the study, as its file asks it."""
    about = study.plan["study"]
    return about.get("question", about.get("title", about["name"]))


def settings(study: Study) -> list[Setting]:
    """The settings whose file systems are compared, if they have a result."""
    ranked = distinct(study.results.ranks, Setting)
    return [setting for setting in study.settings if setting in ranked]


def costs(study: Study, setting: Setting) -> list[dict]:
    """What each workload as a whole costs in a setting, in the order of the study's workloads.

    Keys: load, title, scope (words), best (label), time, low, high (ns, of all operations:
    geometric mean with its 95 % interval), verdict, level (labels: see stats.compare.winners), rounds, next (label),
    ratio, next_low, next_high (None and NaN without another contender), dearest (label and ratio to the best, or None),
    missing (contenders that completed no round of it).
    """
    found = []
    planned = select(study.trials, setting, role="contender")
    for row in select(study.results.cheapest, setting).itertuples():
        load = Load(row.workload, row.scale)
        own = select(study.results.totals, setting, load).query("role != 'ceiling'").sort_values("geometric_mean_ns")
        last = own.iloc[-1]
        found.append(
            {"load": load, "title": study.plan["workloads"][row.workload]["title"], "best": row.best}
            | {"scope": scope(study, setting, load), "time": row.geometric_mean_ns, "low": row.low_ns}
            | {"high": row.high_ns, "verdict": row.verdict, "level": row.level.split(), "rounds": row.rounds}
            | {"next": row.runner_up, "ratio": row.ratio, "next_low": row.low, "next_high": row.high}
            | {"dearest": (last["label"], last["geometric_mean_ns"] / row.geometric_mean_ns) if len(own) > 2 else None}
            | {"missing": sorted(set(select(planned, load)["label"]) - set(own["label"]))}
        )
    return found


def scope(study: Study, setting: Setting, load: Load) -> str:
    """Words on how much a workload did and in how large a file system."""
    entry = study.plan["workloads"][load.workload]
    key = entry.get("size") or "files"
    number, noun = entry.get("scale", {}).get(key), key.replace("_", " ")
    parts = [count(number, noun.removesuffix("s"), noun)] if isinstance(number, int) else []
    parts = [words for words in parts if words not in entry["title"]]  # workload@N has its size in the title
    content = select(study.phases, setting, load, status="ok")["bytes"].max()
    parts += [f"up to {size(content)} of content an operation"] if known(content) and content else []
    room = select(study.trials, setting, load, status="ok")["mounted_total_bytes"].dropna()
    parts += [f"file systems of {size(room.median())}"] if len(room) else []
    return ", ".join(parts)


def where(study: Study, setting: Setting) -> str:
    """Words on what all of that ran on: device profile, stack, lab, processor, scale, rounds."""
    lab, _, processor = setting.lab.partition("@")
    scales = listing(dict.fromkeys(load.scale for load in study.loads(setting)))
    return (
        f"device profile {setting.profile}, stack {setting.stack}, lab {lab}"
        f"{f', processor {processor}' if processor else ''}, scale {scales},"
        f" {count(study.trials['round'].nunique(), 'round')}"
    )


def wins(study: Study, setting: Setting) -> dict:
    """How the operations of a setting end.

    Keys: operations, fastest (label, number; most first), equivalent, undecided, alone (numbers), single (whether no
    operation has two rounds), detectable (median over the operations of the smallest ratio that these rounds would have
    shown, less 1; None where not known).
    """
    chosen = select(study.results.winners, setting)
    won = chosen.loc[chosen["verdict"] == "fastest", "best"].value_counts()
    detectable = chosen["detectable"].dropna()
    return {
        "operations": len(chosen),
        "fastest": sorted(won.items(), key=lambda pair: (-pair[1], pair[0])),
        **{verdict: int((chosen["verdict"] == verdict).sum()) for verdict in ("equivalent", "undecided", "alone")},
        "single": bool((chosen["n"] == 1).all()),
        "detectable": detectable.median() - 1 if len(detectable) else None,
    }


def meanings(study: Study) -> list[str]:
    """What the clocks behind the answer mean, in the labs' own words."""
    return [study.lab(lab)["meaning"] for lab in sorted({setting.lab for setting in settings(study)})]
