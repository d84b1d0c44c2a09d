"""What tests of several parts use: one catalog, cells, jobs, and what came back."""

import importlib
import json
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from reprofs.files import cache_folder
from reprofs.guest.steps import Exec, Job, Step
from reprofs.labs import Outcome
from reprofs.plan.catalog import Catalog
from reprofs.plan.cell import Trial, taken_apart
from reprofs.plan.device import Plain
from reprofs.plan.filesystem import variant_of
from reprofs.plan.plan import Plan
from reprofs.plan.workload import Workload
from reprofs.records.raw import parse_events, status
from reprofs.trial.job import render
from reprofs.trial.resolve import resolve


class Late:
    """A module that is imported at its first use: of what takes a second to import, not while tests are collected."""

    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, key: str):
        if key.startswith(("__", "_pytest")):  # pytest asks every name of a test module for such
            raise AttributeError(key)
        return getattr(importlib.import_module(self._name), key)


CATALOG = Catalog()  # every file is read once; nobody changes it


def drawn() -> random.Random:
    """The draw of a test of a sample: another one in each run. A failed test shows the seed that repeats it."""
    seed = os.environ.get("TEST_SEED") or str(random.SystemRandom().randrange(10**6))
    print(f"Drawn with TEST_SEED={seed}, which repeats it.")
    return random.Random(seed)


def put(where: str, value):
    """A change of a document: a value at a dotted path (after + added to its list); ... removes what is there."""

    def change(data) -> None:
        *path, last = (int(key) if key.isdigit() else key for key in where.split("."))
        for key in path:
            data = data[key]
        if value is ...:
            del data[last]
        elif str(last).endswith("+"):
            data[last[:-1]].append(value)
        else:
            data[last] = value

    return change


def names(filesystem: str = "ext4", **changes) -> dict:
    """The names of a smoke trial on one disk in the exact lab, in the first variant of a file system, with some
    changed: as the command line and records have them.
    """
    place = {"lab": "exact", "filesystem": filesystem, "stack": "single", "profile": "ssd"}
    if "variant" not in changes:
        place["filesystem"], place["variant"] = variant_of(filesystem, CATALOG)
    return {**place, "workload": "metadata", "scale": "smoke", "round": 1, "seed": 11, "order": None, **changes}


def cell(filesystem: str = "ext4", **changes) -> Trial:
    """The trial of these names."""
    return Trial(**taken_apart(names(filesystem, **changes)))


def changed(trial: Trial, **what) -> Trial:
    """A trial with other names."""
    return trial.model_copy(update=what)


def rendered(trial: Trial, catalog: Catalog = CATALOG) -> Job:
    """The job of a trial."""
    return render(resolve(trial, catalog))


def quarter(name: str) -> str:
    """A workload with a quarter of its files, where their number can be chosen."""
    workload = CATALOG.get(Workload, name)
    return f"{name}@{workload.scales.smoke.files // 4}" if workload.size == "files" else name


def plan_with(plan: Plan, workload: str = "metadata", phase: int | None = None, **keys) -> Plan:
    """A plan with other keys of a workload, or of one of its phases; they are not checked."""
    entry = plan.workloads[workload]
    if phase is not None:
        phases = [*entry.phases]
        phases[phase] = phases[phase].model_copy(update=keys)
        keys = {"phases": phases}
    workloads = plan.workloads | {workload: entry.model_copy(update=keys)}
    return plan.model_copy(update={"workloads": workloads})


def device(**keys) -> Plain:
    """A device profile of these keys."""
    return Plain(title="made", **keys)


def catalog_with(name: str, change, base: str | None = None) -> Catalog:
    """A catalog with a workload `name`: the one of that name (or `base`) after `change` of its data."""
    catalog = Catalog()
    data = catalog.get(Workload, base or name).as_json()
    change(data)
    catalog.add(Workload, name, data)
    return catalog


@dataclass(frozen=True, kw_only=True)
class Written(Step):
    """Steps that are text already."""

    text: str

    def line(self) -> str:
        """The text itself."""
        return self.text.removesuffix("\n")


def told(text: str) -> Job:
    """The job of a text."""
    return Job([Written(text=text)])


def shell(script: str) -> Exec:
    """A step that runs a script."""
    return Exec(stage="test", arg=["sh", "-c", script])


def job_of(*steps: Step) -> Job:
    """A job of these steps."""
    return Job(list(steps))


def events(output: str | bytes) -> list[dict]:
    """The engine's output lines."""
    return [json.loads(line) for line in output.splitlines()]


def outputs(outcome: Outcome, stage: str = "") -> list[str]:
    """What each command (of a stage) printed; all of them went well."""
    found = events(outcome.output)
    assert outcome.ending == "finished", outcome.console
    assert not [event for event in found if event["event"] == "failed"], found
    return [e["output"] for e in found if e["event"] == "command" and stage in ("", e["stage"])]


def phases_of(look, trial: Trial, change) -> list[dict]:
    """What the phases of a trial's workload give that `change` makes of its own. look: the fixture `outcome`."""
    setup = resolve(trial, CATALOG)
    workload = setup.workload.model_copy(update={"phases": change(setup.workload.phases)})
    setup = replace(setup, workload=workload.known_as(setup.workload.name, setup.workload.file))
    lab = setup.lab.open(guest=setup.guest, processor=setup.processor, kernel=setup.kernel)
    found = look(lab, render(setup, 1), 1800, setup.disks)
    told = parse_events(found.output)
    assert status(found.ending, told, found.console, 1800)[0] == "ok"
    return [event for event in told if event.get("event") == "phase"]


def cache_without(folder: Path, *names: str) -> Path:
    """A new cache in a folder: what was built before is shared, but for these and what is under way."""
    (folder / "cache").mkdir()
    for made in cache_folder().iterdir():
        if made.name not in ("work", *names):
            (folder / "cache" / made.name).symlink_to(made)
    return folder / "cache"


def flip(path: Path, at: int) -> None:
    """Changes one byte of a file."""
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def damaged(path: Path, *places: int) -> Iterator[int]:
    """Changes a file: one byte, at each of these places, then its length. Yields each time from which byte on it is
    another one; in the end it is as it was.
    """
    whole = path.read_bytes()
    for at in places:
        flip(path, at)
        yield at
        path.write_bytes(whole)
    path.write_bytes(whole + b"x")
    yield len(whole)
    path.write_bytes(whole[:-1])
    yield len(whole) - 1
    path.write_bytes(whole)
