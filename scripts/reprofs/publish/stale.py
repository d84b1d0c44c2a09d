"""Whether a published result is still what this checkout would measure: a change of words makes none stale."""

from __future__ import annotations

import re
from pathlib import Path

from reprofs.errors import UserError
from reprofs.files import read_json
from reprofs.plan.catalog import Catalog
from reprofs.plan.plan import Plan
from reprofs.plan.result import DIGESTS, Result
from reprofs.project import place
from reprofs.publish.verify import other_lab
from reprofs.records.protocol import PROTOCOL
from reprofs.records.publication import OtherVersion, plan_of, read, unpack
from reprofs.trial.planning import make_plan
from reprofs.workplace import scratch

LEAST_MIB, REPETITIONS = 4096, 6  # what protocol 7 has at least
NOT_PROVED = re.compile(r"In (\d+) phases? cold caches (?:are|is) not proved")


def why(name: str) -> str:
    """Why results/NAME is stale (a sentence); empty if its trials, jobs and lab are unchanged.

    Raises UserError for an unknown study and an altered result.
    """
    plan, folder = make_plan(name, Catalog()), place(f"results/{name}")
    if not (folder / DIGESTS).is_file():
        return f"{name} is not published"
    result = read(folder)
    with scratch() as work:
        try:
            was = unpack(folder, result, Path(work))
        except OtherVersion as error:
            return str(error)
        if _jobs(plan, max(one.round for one in was.trials)) != _jobs(was):
            return f"{name}: its trials or jobs have changed"
        # Of one file system, workload and stack in one lab all rounds run in the same.
        some = {(one.full_lab, one.filesystem, one.workload, one.stack): one for one in was.trials}
        exact = [one for one in some.values() if result.trials[one.id].identity]
        records = {one.id: read_json(Path(work) / f"raw/{one.id}.json") for one in exact}
        try:
            other = other_lab(exact, records)
        except UserError as error:
            return f"{name}: {error}"
    return f"{name}: {other[0]}" if other else ""


def _jobs(plan: Plan, rounds: int = 0) -> dict[str, str]:
    """Of each trial the digest of its job. rounds: of a study that adds rounds, how many it had in the end."""
    return {one.id: one.job_sha256 for one in plan.trials if not plan.study.rule or not rounds or one.round <= rounds}


def lacks(folder: Path, result: Result) -> list[str]:
    """What a result of an older protocol lacks under that of this checkout, in a few words each; empty for today's.

    folder: of all results.

    Raises UserError for an altered archive.
    """
    if result.protocol == PROTOCOL:
        return []
    with plan_of(folder / result.study) as plan:
        sizes = {name: one["scale"].get("device_mib", LEAST_MIB) for name, one in plan["workloads"].items()}
        disks = {name: one["size_mib"] for name, one in plan["devices"].items() if "size_mib" in one}
        smallest = min((disks.get(one["profile"], sizes[one["workload"]]) for one in plan["trials"]), default=LEAST_MIB)
        repetitions = max((one["round"] for one in plan["trials"]), default=0)
        free = sorted(name for name, one in plan["devices"].items() if one["completion_ns"])
        found = [f"devices of {smallest / 1024:.2g} GiB"] if smallest < LEAST_MIB else []
        few = repetitions < REPETITIONS
    if few:
        found.append(f"{repetitions} repetition{'s' * (repetitions != 1)}")
    found += [f"no cost of a flush ({', '.join(free)})"] if free else []
    unproved = NOT_PROVED.search(" ".join(result.answer.split()))
    return [*found, f"{unproved[1]} phases ranked as cold without proof"] if unproved else found
