"""The answer first: the question of the study, and each topic's answer to it in a sentence or two."""

from __future__ import annotations

from reprofs.data.keys import Setting, distinct, select
from reprofs.stats.compare import relative, typical_cost
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


def wins(study: Study, setting: Setting) -> dict:
    """How the operations of a setting end: operations, won (label, number; most first), tie, unproved, alone (numbers),
    cheapest and dearest (label and typical cost over the operations that all completed, or None).
    """
    chosen = select(study.results.winners, setting)
    won = chosen.loc[chosen["verdict"] == "winner", "best"].value_counts()
    typical = typical_cost(relative(select(study.results.statistics, setting))).sort_values()
    ends = (
        [{"label": label, "cost": typical[label]} for label in (typical.index[0], typical.index[-1])]
        if len(typical) > 1
        else [None, None]
    )
    return {
        "operations": len(chosen),
        "won": sorted(won.items(), key=lambda pair: (-pair[1], pair[0])),
        **{verdict: int((chosen["verdict"] == verdict).sum()) for verdict in ("tie", "unproved", "alone")},
        "cheapest": ends[0],
        "dearest": ends[1],
    }


def meanings(study: Study) -> list[str]:
    """What the clocks behind the answer mean, in the labs' own words."""
    return [study.lab(lab)["meaning"] for lab in sorted({setting.lab for setting in settings(study)})]
