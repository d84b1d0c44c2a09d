"""Sentences on what completed, and on what proves that the numbers mean what they say."""

from __future__ import annotations

from reprofs.report.marks import code
from reprofs.report.sentences.answer import ends
from reprofs.report.words import count, listing, size, verb
from reprofs.stats.study import Study


def completed(study: Study) -> str:
    """How many trials completed: `47 of 48 trials completed; 1 unavailable here.`"""
    missing = study.ended[study.ended != "ok"]
    told = f"{len(study.trials) - len(missing):,} of {count(len(study.trials), 'trial')} completed"
    return told + (f"; {ends(missing)}." if len(missing) else ".")


def verified(study: Study) -> str:
    """How much content was compared after it was written, and what of it differed."""
    ok = study.trials[study.trials["status"] == "ok"]
    files, checks = int(ok["verified_files"].sum()), int(ok["checks"].sum())
    told = []
    if files:
        differing = int(study.trials["verified_mismatches"].sum())
        told.append(f"The content of {count(files, 'file')} ({size(int(ok['verified_bytes'].sum()))}) was compared")
        told[-1] += f": {differing:,} differed."
    if checks:
        told.append(f"Workloads compared what they had written {count(checks, 'time')}.")
    without = sorted(ok.loc[(ok["verified_files"] == 0) & (ok["checks"] == 0), "workload"].unique())
    if without:
        told.append(f"No content was compared in {listing(without, most=6)}.")
    return " ".join(told)


def taken(study: Study) -> str:
    """Where records of equal identity were taken from, in the place of runs; empty where all trials were run."""
    found = study.environment.get("taken", {})
    number = sum(each["taken"] for each in found.values())
    if not number:
        return ""
    names = {"cache": "this machine's cache"}
    places = listing(f"{each['taken']:,} from {names.get(place, place)}" for place, each in sorted(found.items()))
    again, total = sum(each["checked"] for each in found.values()), len(study.trials)
    told = f"{number:,} of {count(total, 'trial')} {verb(number, 'was', 'were')} taken, not run: {places};"
    told += f" {total - number:,} {verb(total - number, 'was', 'were')} run."
    return told + (
        f" {again:,} of those taken {verb(again, 'was', 'were')} run again and measured the same." if again else ""
    )


def repeated(study: Study) -> str:
    """What was repeated, and which commands failed outside of the measured phases."""
    environment, told = study.environment, []
    if twice := environment.get("ran_twice", 0):
        told.append(f"{count(twice, 'trial')} ran twice, because the lab's process was killed the first time.")
    if aside := environment.get("set_aside", 0):
        told.append(f"{count(aside, 'earlier record')} {verb(aside, 'was', 'were')} quarantined and measured again.")
    if failed := int(study.trials["commands_failed"].sum()):
        told.append(f"{count(failed, 'command')} outside the measured phases ended with an error.")
    return " ".join(told)


def again(study: Study) -> str:
    """Whether a repetition of the study gives the same bytes."""
    if not any(study.lab(lab).exact for lab in set(study.trials["lab"])):
        return "The first line runs the whole study, the second one trial."
    told = "With the lab of its commit (`envs/lab.lock`) every trial gives the same numbers, to the last digit."
    values = study.environment["values"].get("lab.unlocked", {})
    unlocked = sorted({part for parts in values for part in parts.split()})
    return told + (f" Not from the lock: {listing(map(code, unlocked))}." if unlocked else "")
