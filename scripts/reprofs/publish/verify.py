"""Whether a published result comes out again: some of its trials are run once more, and must be the same bytes.

An archive runs this by a Python that has neither pandas nor what else reports are made with: nothing here imports them.
"""

from __future__ import annotations

import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from reprofs import version
from reprofs.errors import UserError
from reprofs.files import cache_folder
from reprofs.guest import image
from reprofs.guest.cache import locked
from reprofs.plan.catalog import Catalog
from reprofs.plan.cell import PlannedTrial
from reprofs.plan.plan import Plan
from reprofs.plan.result import Result
from reprofs.project import project_root
from reprofs.records.identity import difference, differing, parts_of
from reprofs.records.publication import OtherVersion, checked, read, unpack
from reprofs.trial.resolve import resolve
from reprofs.trial.run import promised, run_trial
from reprofs.workplace import run, scratch

Say = Callable[[str], None]


def verify(folder: Path, count: int | None, names: list[str], seed: int, say: Say, own: bool = False) -> bool:
    """Runs trials of a published result again; returns whether all are identical.

    count: of trials, drawn with `seed` among those of an exact lab that went well; None for all. names: of these
    instead. own: with this checkout's code, also if the result's is another one.

    Raises UserError for an altered result, an unknown trial, and a result whose lab cannot be had.
    """
    result = read(folder)
    with scratch() as work:
        try:
            plan = unpack(folder, result, Path(work))
        except OtherVersion:
            if own or version.commit() == result.rendered.commit:
                raise
            words = [word for name in names for word in ("--trial", name)]
            words = words or (["--seed", str(seed), "--trials", str(count)] if count else ["--all"])
            return by_its_own_code(folder, result, words, ["its plan is of another version"], say)
        drawn, drew = _drawn(folder, plan, result, count, names, seed), count is not None and not names
        records = {trial.id: checked(_content(Path(work), trial.id), folder, result, trial.id) for trial in drawn}
        other = other_lab(drawn, records)
        if other and not own:
            words = [word for trial in drawn for word in ("--trial", trial.id)]
            return by_its_own_code(folder, result, words, other, say)
        for sentence in other:
            say(f"this checkout has a different lab: {sentence}")
        minutes = sum(result.trials[trial.id].host_seconds for trial in drawn) / 60
        say(
            f"{folder}: {len(drawn)} of {len(plan.trials)} "
            f"trials{(f', drawn with seed {seed}' if drew else '')}; about {minutes:.1f} minutes, more if a "
            "guest must be built"
        )
        same = [_again(trial, Path(work), plan, records[trial.id], say) for trial in drawn]
    say(f"{sum(same)} of {len(same)} identical")
    return all(same)


def _drawn(
    folder: Path, plan: Plan, result: Result, count: int | None, names: list[str], seed: int
) -> list[PlannedTrial]:
    exact = {
        trial.id: trial
        for trial in plan.trials
        if plan.labs[trial.full_lab].clock == "instructions" and result.trials[trial.id].status == "ok"
    }
    for name in names:
        if name not in exact:
            raise UserError(f"{folder} has no successful exact-lab trial {name}: choose one from its digests.json.")
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


def by_its_own_code(folder: Path, result: Result, words: list[str], other: list[str], say: Say) -> bool:
    """Verifies with the code of the result's commit, in a cached clone of this checkout.

    words: for the command `verify`, besides the folder. Raises UserError where that cannot be had or cannot check it.
    """
    clone = cache_folder() / "commits" / result.rendered.commit
    clone.parent.mkdir(parents=True, exist_ok=True)
    say(f"this checkout's code differs ({'; '.join(other[:3])}): using commit {result.rendered.commit[:12]}")
    with locked(clone.with_name(f"{clone.name}.lock")):
        if not clone.is_dir():
            partial = clone.with_name(f"{clone.name}.partial")
            shutil.rmtree(partial, ignore_errors=True)
            made = [["git", "clone", "--quiet", "--no-checkout", str(project_root()), str(partial)]]
            made.append(["git", "-C", str(partial), "checkout", "--quiet", "--detach", result.rendered.commit])
            if any(subprocess.run(command, capture_output=True).returncode for command in made):
                shutil.rmtree(partial, ignore_errors=True)
                raise UserError(
                    f"{folder} was made at commit {result.rendered.commit[:12]}, which no branch of this "
                    "checkout has: fetch it, or use --own-code."
                )
            partial.rename(clone)
        with scratch() as work:
            if run(work, ["scripts/setup"], cwd=clone).returncode:
                raise UserError(
                    f"scripts/setup of commit {result.rendered.commit[:12]} failed in {clone}: see the lines above."
                )
    command = [str(clone / ".venv/bin/reprofs"), "verify", str(folder.resolve()), "--own-code", *words]
    with scratch() as work:
        code = run(work, command, cwd=clone).returncode
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
    found = run_trial(trial, catalog, work / "again.json", plan.study.time_limit_s, False)
    if found["status"] in ("skipped", "timeout"):
        raise UserError(f"{trial.id} could not run here: {found['reason']}")
    if found["digests"]["measurement"] == record["digests"]["measurement"]:
        say(f"identical  {trial.id}")
        return True
    say(f"differs    {trial.id}: {difference(record, found)}")
    return False
