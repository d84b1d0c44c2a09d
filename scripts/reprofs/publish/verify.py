"""Whether a published result comes out again: some of its trials are run once more, and must be the same bytes.

An archive runs this by a Python that has neither pandas nor what else reports are made with: nothing here imports them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from pathlib import Path

from reprofs import version
from reprofs.errors import UserError, cut, short
from reprofs.guest import image
from reprofs.plan.catalog import Catalog
from reprofs.plan.cell import PlannedTrial
from reprofs.plan.plan import Plan
from reprofs.plan.result import Result
from reprofs.publish import commits
from reprofs.records.identity import difference, differing, parts_of
from reprofs.records.publication import OtherVersion, checked, read, unpack
from reprofs.trial.resolve import resolve
from reprofs.trial.run import promised, run_trial
from reprofs.workplace import scratch

Say = Callable[[str], None]


def verify(folder: Path, count: int | None, names: list[str], seed: int, say: Say, own: bool = False) -> bool:
    """Runs trials of a published result again; returns whether all are identical.

    count: of trials, drawn with `seed` among all of an exact lab; None for all. names: of these instead. own: with this
    checkout's code, also if the result's is another one.

    Raises UserError for an altered result, an unknown trial, and a result whose lab cannot be had.
    """
    result = read(folder)
    with scratch() as work:
        try:
            plan = unpack(folder, result, work)
        except OtherVersion:
            if own or version.commit() == result.rendered.commit:
                raise
            words = ["--seed", str(seed), "--trials", str(count)] if count and not names else ["--all"]
            words = _named(names) or words
            return _by_its_own_code(folder, result, words, ["its plan is of another version"], say)
        exact = {trial.id: trial for trial in plan.trials if plan.labs[trial.full_lab].clock == "instructions"}
        drawn, drew = _drawn(folder, exact, count, names, seed), count is not None and not names
        records = {trial.id: checked(_content(work, trial.id), folder, result, trial.id) for trial in drawn}
        other = other_lab(drawn, records)
        if other and not own:
            words = _named(trial.id for trial in drawn)
            same = [_by_its_own_code(folder, result, words, other, say)]
        else:
            for sentence in other:
                say(f"this checkout has a different lab: {sentence}")
            _say_what(folder, result, plan, drawn, seed if drew else None, say)
            same = [_again(trial, work, plan, records[trial.id], say) for trial in drawn]
            say(f"{sum(same)} of {len(same)} identical")
    missed = len(exact) - len(drawn)
    if missed and drew:
        share = f"{missed / len(exact):.0%}"
        say(
            f"not run again: {missed} of {len(exact)}; if one is forged, such a draw misses it with {share} probability"
        )
    return all(same)


def _named(names: Iterable[str]) -> list[str]:
    """The options of `verify` that name these trials."""
    return [word for name in names for word in ("--trial", name)]


def _say_what(folder: Path, result: Result, plan: Plan, drawn: list[PlannedTrial], seed: int | None, say: Say) -> None:
    minutes = sum(max(0, result.trials[trial.id].host_seconds) for trial in drawn) / 60
    how = "" if seed is None else f", drawn with seed {seed}"
    say(
        f"{folder}: {len(drawn)} of {len(plan.trials)} trials{how}; about {minutes:.1f} minutes, more if a guest must "
        "be built"
    )


def _drawn(
    folder: Path, exact: dict[str, PlannedTrial], count: int | None, names: list[str], seed: int
) -> list[PlannedTrial]:
    """Trials to run again, whatever became of them: one that is said to have failed may be a forgery, too."""
    for name in names:
        if name not in exact:
            raise UserError(f"{folder} has no exact-lab trial {short(name)}: choose one from its digests.json.")
    if not exact:
        raise UserError(
            f"{folder} has no exact-lab trials to run again: use --claims to recompute its tables and verdicts."
        )
    if names:
        return [exact[name] for name in names]
    chosen = random.Random(seed).sample(list(exact), len(exact) if count is None else min(count, len(exact)))
    return [exact[name] for name in chosen]


def other_lab(trials: list[PlannedTrial], records: dict[str, dict]) -> list[str]:
    """What is not the same in this checkout as in the records of these trials, a sentence each."""
    found: dict[str, None] = {}
    catalog = Catalog()
    for trial in trials:
        was = parts_of(records[trial.id])
        try:
            now = promised(trial, catalog)
        except UserError as error:
            found[f"{trial.id} cannot be planned ({error})"] = None
            continue
        for part in differing(was, now):
            if part == "protocol":
                said = f"it has protocol {now[part]}, the result {was[part]}"
            elif part == "job_sha256":
                said = f"the files that {trial.id} is made of have changed"
            else:
                said = f"it has another {part.removeprefix('lab.').removesuffix('_sha256')}"
            found[said] = None
    return list(found)


def _by_its_own_code(folder: Path, result: Result, words: list[str], other: list[str], say: Say) -> bool:
    """Runs trials with the code of the result's commit. words: for `verify`, besides the folder.

    Raises UserError where that code cannot be had or cannot check it.
    """
    say(f"this checkout's code differs ({'; '.join(other[:3])})")
    with commits.clone(result.rendered.commit, say) as made:
        code = commits.run(made, ".venv/bin/reprofs", "verify", str(folder.resolve()), "--own-code", *words)
    if code not in (0, 1):
        raise UserError(
            f"the code of commit {result.rendered.commit[:12]} could not check {folder}: see the lines above."
        )
    return code == 0


def _content(work: Path, name: str) -> bytes:
    path = work / f"raw/{name}.json"
    return path.read_bytes() if path.is_file() else b""


def _again(trial: PlannedTrial, work: Path, plan: Plan, record: dict, say: Say) -> bool:
    """Runs a trial and compares it with its record; says what came of it. Raises UserError if it cannot be run."""
    catalog = Catalog()
    image.ensure(resolve(trial, catalog).guest, say)

    def run() -> dict:
        return run_trial(trial, catalog, work / "again.json", plan.study.time_limit_s, False)

    found = run()
    if found["status"] in ("skipped", "timeout") and found["status"] != record["status"]:
        raise UserError(f"{trial.id} could not run here: {found['reason']}")
    if _same(record, found):
        say(f"identical  {trial.id}")
        return True
    said = difference(record, found)
    if record["status"] != found["status"]:
        said = f"it is {found['status']} here, but {record['status']} in the record ({cut(record['reason'], 100)})"
    if record["status"] in ("skipped", "timeout") or any(differing(parts_of(record), parts_of(found))):
        say(f"differs    {trial.id}: {said}")
    elif _same(found, run()):  # what comes out the same twice is no chance
        say(f"altered    {trial.id}: {said}; two runs here agree, so this record was altered")
    else:
        say(f"differs    {trial.id}: two runs here differ from each other, so its numbers prove nothing: report it")
    return False


def _same(one: dict, other: dict) -> bool:
    """Whether two records of a trial have the same outcome and measurement."""
    return one["status"] == other["status"] and one["digests"]["measurement"] == other["digests"]["measurement"]
