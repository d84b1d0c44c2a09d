"""Sentences on what was run and how it was compared."""

from __future__ import annotations

from reprofs.data.keys import SETTING, Setting, distinct
from reprofs.report.words import count, listing, percent, verb
from reprofs.stats.cells import ENOUGH, measured
from reprofs.stats.compare import TABLE, joint
from reprofs.stats.results import ANALYSIS, caution
from reprofs.stats.study import Study


def design(study: Study) -> str:
    """How many configurations, repetitions and trials, in which order and with which seeds."""
    trials, order = study.trials, study.plan.study.seed
    rounds = trials.groupby([*SETTING, "label", "workload", "scale"])["round"].nunique()
    settings = distinct(trials, Setting)
    where = listing(settings) if len(settings) < 4 else f"{len(settings)} settings"
    most = count(int(rounds.max()), "repetition")
    told = f"The study has {count(len(rounds), 'configuration')} with {most} each, {count(len(trials), 'trial')}"
    told += f", in {where}." + (
        f" Their order in each repetition is random (seed {order})." if order is not None else ""
    )
    fewer = rounds[rounds < rounds.max()]
    if len(fewer):
        told += f" {count(len(fewer), 'configuration')} {verb(len(fewer), 'has', 'have')} fewer repetitions."
    return told


def stopping(study: Study) -> str:
    """By which rule repetitions were added, and why there are no more; empty where nobody said."""
    stopped = study.plan.stopping
    if not stopped:
        why = (study.plan.study.stop or "").rstrip(".")
        return f"Why no more repetitions: {why}." if why else ""
    rule, last = stopped.rule, stopped.looks[-1]
    told = f"Repetitions were added until the ratios in front were known within ±{rule.until}, at most {rule.max}."
    ends = {"alone": "there was nothing to compare", "most": f"{count(last.open, 'ratio')} stayed wider"}
    return told + f" After {count(last.rounds, 'repetition')} {ends.get(stopped.why or '', 'all were known so')}."


def cold(study: Study) -> str:
    """How caches were made cold; empty where none were."""
    methods = sorted(set(measured(study.phases)["cold_method"].dropna()) - {""})
    if not methods:
        return ""
    how = listing((f"“{method}”" for method in methods), "or")
    return f"Before a phase with cold caches: {how}. It counts as cold only if it then read from the device."


def sync(study: Study) -> str:
    """Whether times include the final sync of the file system; empty where times are no result."""
    if not study.timed:
        return ""
    times = study.phases.groupby(["workload", "phase", "cache"], sort=False)["sync_ns"].max().dropna()
    synced = list(dict.fromkeys(key[1] for key in times.index[times > 0]))
    unsynced = list(dict.fromkeys(key[1] for key in times.index[times == 0]))
    if synced and not unsynced:
        return "Every time includes the final sync of the file system."
    if not synced:
        return "No time includes a sync of the file system." if unsynced else ""
    return f"Times include the final sync of the file system in {listing(synced)}, not in {listing(unsynced)}."


def tests(study: Study) -> list[str]:
    """How many tests are corrected for, what they can show, and whether logarithms of times may be normal; empty where
    times are no result."""
    if not study.timed:
        return []
    results, shapes = study.results, study.shapes
    operations, totals = (
        found.groupby(list(family), observed=True)["p"].count().max()
        for found, family in ((results.winners, TABLE), (results.cheapest, SETTING))
    )
    told = []
    if operations > 0:
        told = [f"Corrected over a table: of {count(int(operations), 'operation')} at most;"]
        told[0] += f" and, apart, over the totals of a setting: {int(totals) if totals > 0 else 0} at most."
    if caution(study) > 1:
        level = percent(joint(caution(study)))
        told.append(f"Because of interim analyses p is multiplied by {caution(study)}; intervals are of {level}.")
    detectable = results.winners["detectable"].dropna()
    if len(detectable):
        told.append(f"Detectable in the median operation: {percent(detectable.median() - 1)} (power 80 %).")
    refuted = int((shapes["p_holm"] < 0.05).sum())
    if len(shapes):
        told.append(f"Of {count(len(shapes), 'configuration')} {refuted} are not log-normal (Shapiro-Wilk, Holm).")
    else:
        told.append(f"Whether times are log-normal was not tested: that needs {ENOUGH} repetitions.")
    if not study.labels("ceiling"):
        told.append("No baseline ran.")
    return [*told, f"The analysis has the number {ANALYSIS}."]
