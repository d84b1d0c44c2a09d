"""Records of a published result in the place of trials, which would be the same bytes."""

from __future__ import annotations

import filecmp
import shutil
import tempfile
from pathlib import Path

from reprofs.errors import UserError
from reprofs.plan.catalog import Catalog
from reprofs.project import place
from reprofs.publish.read import read, unpack
from reprofs.publish.verify import other_lab
from reprofs.trial.plan import make_plan


def reuse(name: str) -> tuple[int, int]:
    """Copies the records of results/NAME into data/raw, and leaves those that are there.

    Of published ones that are there already the workflow does not know how they were made. So those older than a guest,
    as if it had changed, become as new as it, and those of another job than this checkout's are removed.

    Of an exact lab alone, and of trials that went well and that this checkout would run by the same job. Returns the
    number of records copied, and of trials of the study that have no record then.

    Raises UserError for an altered result, and for one of another lab or protocol than this checkout's.
    """
    folder, raw = place(f"results/{name}"), place(f"data/raw/{name}")
    if not folder.is_dir():
        raise UserError(f"nothing is published of the study {name}: there is no {folder}.")
    plan, result, copied = make_plan(name, Catalog()), read(folder), 0
    with tempfile.TemporaryDirectory() as work:
        then = {trial.id: trial for trial in unpack(folder, result, Path(work)).trials}
        wanted = [
            trial
            for trial in plan.trials
            if trial.id in then
            and then[trial.id].job_sha256 == trial.job_sha256
            and plan.labs[trial.full_lab].clock == "instructions"
            and result.trials[trial.id].status == "ok"
        ]
        if other := other_lab(folder, result, wanted):
            raise UserError(f"{folder} is of another lab than this checkout's ({other[0]}): run the study without it.")
        raw.mkdir(parents=True, exist_ok=True)
        newest = max((path.stat().st_mtime_ns for path in place("data/guest").glob("*.json")), default=0)
        ids = {trial.id for trial in wanted}
        for trial in plan.trials:
            target = raw / f"{trial.id}.json"
            published = Path(work) / "raw" / target.name
            if trial.id not in ids:
                if trial.id in then and then[trial.id].job_sha256 != trial.job_sha256 and _same(target, published):
                    target.unlink()
            elif not target.exists():
                partial = target.with_name(f".{target.name}.partial")
                shutil.copyfile(published, partial)
                partial.rename(target)
                copied += 1
            elif target.stat().st_mtime_ns < newest and _same(target, published):
                target.touch()
    return copied, sum(not (raw / f"{trial.id}.json").exists() for trial in plan.trials)


def _same(one: Path, other: Path) -> bool:
    """Whether both are there and have the same bytes."""
    return one.exists() and other.exists() and filecmp.cmp(one, other, shallow=False)
