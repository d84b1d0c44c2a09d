"""Whether a published result comes out again: some of its trials are run once more, and must be the same bytes.

An archive runs this by a Python that has neither pandas nor what else reports are made with: nothing here imports them.
"""

from __future__ import annotations

import hashlib
import random
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from reprofs import version
from reprofs.errors import UserError
from reprofs.files import cache_folder, read_json, sha256
from reprofs.guest import image
from reprofs.guest.lock import LOCK, read_lock
from reprofs.guest.store import locked
from reprofs.plan.catalog import Catalog
from reprofs.plan.cell import PlannedTrial
from reprofs.plan.plan import Plan
from reprofs.plan.result import DIGESTS, Result
from reprofs.project import place, project_root
from reprofs.publish.read import OtherVersion, read, unpack
from reprofs.trial.job import render
from reprofs.trial.protocol import PROTOCOL
from reprofs.trial.record import SAME, broken
from reprofs.trial.resolve import resolve
from reprofs.trial.run import run_trial

Say = Callable[[str], None]


def verify(folder: Path, count: int | None, names: list[str], seed: int, say: Say, own: bool = False) -> bool:
    """Runs trials of a published result again; returns whether all are identical.

    count: of trials, drawn with `seed` among those of an exact lab that went well; None for all. names: of these
    instead. own: with this checkout's code, also if the result's is another one.

    Raises UserError for an altered result, an unknown trial, and a result whose lab cannot be had.
    """
    result = read(folder)
    with tempfile.TemporaryDirectory() as work:
        try:
            plan = unpack(folder, result, Path(work))
        except OtherVersion:
            if own or version.commit() == result.commit:
                raise
            words = [word for name in names for word in ("--trial", name)]
            words = words or (["--seed", str(seed), "--trials", str(count)] if count else ["--all"])
            return by_its_own_code(folder, result, words, ["its plan is of another version"], say)
        drawn, drew = _drawn(folder, plan, result, count, names, seed), count is not None and not names
        other = other_lab(folder, result, drawn)
        if other and not own:
            words = [word for trial in drawn for word in ("--trial", trial.id)]
            return by_its_own_code(folder, result, words, other, say)
        records = {trial.id: _record(Path(work), folder, result, trial.id) for trial in drawn}
        for sentence in other:
            say(f"this checkout is another lab: {sentence}")
        minutes = sum(result.trials[trial.id].host_seconds for trial in drawn) / 60
        say(
            f"{folder}: {len(drawn)} of {len(plan.trials)} trials{f', drawn with seed {seed}' if drew else ''}; about"
            f" {minutes:.1f} minutes, and the time to build a guest that the cache does not have"
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
            raise UserError(
                f"{folder} has no trial {name} of an exact lab that went well: its digests.json names them."
            )
    if not exact:
        raise UserError(f"{folder} has no trial of an exact lab, and only their numbers come out again: use --claims.")
    if names:
        return [exact[name] for name in names]
    chosen = random.Random(seed).sample(list(exact), len(exact) if count is None else min(count, len(exact)))
    return [exact[name] for name in chosen]


def other_lab(folder: Path, result: Result, drawn: list[PlannedTrial]) -> list[str]:
    """What is not the same in this checkout, a sentence each."""
    found, used = [], set()
    if result.protocol != PROTOCOL:
        found.append(f"it has protocol {PROTOCOL}, the result {result.protocol}")
    catalog = Catalog()
    for trial in drawn:
        try:
            setup = resolve(trial, catalog)
            text = render(setup, trial.seed).text()
        except UserError as error:
            found.append(f"{trial.id} cannot be planned ({error})")
            continue
        used |= {setup.guest, f"kernel-{trial.kernel}"}
        if hashlib.sha256(text.encode()).hexdigest() != trial.job_sha256:
            found.append(f"the files that {trial.id} is made of have changed")
    if sha256(place(LOCK)) != result.lock_sha256:
        now, then = read_lock().built, read_lock(folder / "lab.lock").built
        other = sorted(name for name in {*now, *then} if now.get(name, ("", ""))[1] != then.get(name, ("", ""))[1])
        # Of guests and kernels only what these trials run in: another's change none of their bytes.
        parts = [name for name in other if "/" not in name or name.split("/")[0] in used]
        if parts:
            found.insert(0, f"{LOCK} has another {', '.join(parts)}")
    return found


def by_its_own_code(folder: Path, result: Result, words: list[str], other: list[str], say: Say) -> bool:
    """The same by the code of the result's commit, in a clone of this checkout that the cache keeps.

    words: for the command `verify`, besides the folder. Raises UserError where that cannot be had or cannot check it.
    """
    clone = cache_folder() / "commits" / result.commit
    clone.parent.mkdir(parents=True, exist_ok=True)
    say(f"not by this checkout's code ({'; '.join(other[:3])}): taking commit {result.commit[:12]}")
    with locked(clone.with_name(f"{clone.name}.lock")):
        if not clone.is_dir():
            partial = clone.with_name(f"{clone.name}.partial")
            shutil.rmtree(partial, ignore_errors=True)
            made = [["git", "clone", "--quiet", "--no-checkout", str(project_root()), str(partial)]]
            made.append(["git", "-C", str(partial), "checkout", "--quiet", "--detach", result.commit])
            if any(subprocess.run(command, capture_output=True).returncode for command in made):
                shutil.rmtree(partial, ignore_errors=True)
                raise UserError(
                    f"{folder} is of commit {result.commit[:12]}, which no branch of this checkout has: fetch it, or "
                    "verify with this checkout's own code, by --own-code."
                )
            partial.rename(clone)
        if subprocess.run(["scripts/setup"], cwd=clone).returncode:
            raise UserError(f"scripts/setup of commit {result.commit[:12]} failed in {clone}: see above.")
    command = [str(clone / ".venv/bin/reprofs"), "verify", str(folder.resolve()), "--own-code", *words]
    code = subprocess.run(command, cwd=clone).returncode
    if code not in (0, 1):
        raise UserError(f"the code of commit {result.commit[:12]} could not check {folder}: see above.")
    return code == 0


def _record(work: Path, folder: Path, result: Result, name: str) -> dict:
    """The record of a trial, which must have the digests that it and the result say. Raises UserError."""
    try:
        record = read_json(work / f"raw/{name}.json")
        right = not broken(record) and record["digests"]["measurement"] == result.trials[name].measurement
    except (UserError, KeyError, TypeError, AttributeError):
        right = False
    if not right:
        raise UserError(
            f"{folder}: raw/{name}.json among its records is not the one that was published: its content does not have"
            f" the digests in it and in {DIGESTS}. Get the result again."
        )
    return record


def _again(trial: PlannedTrial, work: Path, plan: Plan, record: dict, say: Say) -> bool:
    """Runs a trial and compares it with its record; says what came of it. Raises UserError if it cannot be run."""
    catalog = Catalog()
    image.ensure(resolve(trial, catalog).guest, say)
    found = run_trial(trial, catalog, work / "again.json", plan.study.time_limit_s)
    if found["status"] in ("skipped", "timeout"):
        raise UserError(f"{trial.id} could not be run here: {found['reason']}")
    if found["digests"]["measurement"] == record["digests"]["measurement"]:
        say(f"identical  {trial.id}")
        return True
    say(f"differs    {trial.id}: {difference(record, found)}")
    return False


def difference(record: dict, found: dict) -> str:
    """Where the record of a trial that was run again is not the first one: the first phase, and the lab's parts."""
    if found["status"] != "ok":
        return f"{found['status']}: {found['reason']}"
    was, now = record["measurement"], found["measurement"]
    first = next((key for key in was if was[key] != now.get(key)), "something new")
    for before, after in zip(was.get("phases", []), now.get("phases", []), strict=False):
        if before != after:
            key = next(key for key in before if before[key] != after.get(key))
            values = "" if isinstance(before[key], dict | list) else f" {after.get(key)} instead of {before[key]}"
            first = f"first in the phase {before['name']} ({before['cache']}), {key}{values}"
            break
    one, two = record["environment"]["lab"], found["environment"]["lab"]
    parts = [key for key in (*SAME, "engine_sha256", "programs_sha256") if one.get(key) != two.get(key)]
    said = f"; of the lab differ {', '.join(parts)}" if parts else "; the lab is the same to the last byte: report it"
    return first + said
