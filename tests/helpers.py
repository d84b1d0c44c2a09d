"""What tests of several parts use: one catalog, cells, jobs, and what came back."""

import copy
import json
from dataclasses import dataclass

from reprofs.guest.steps import Exec, Job, Step
from reprofs.labs import Outcome
from reprofs.plan.catalog import Catalog
from reprofs.trial.cell import resolve
from reprofs.trial.job import render

CATALOG = Catalog()  # every file is read once; nobody changes it


def cell(filesystem: str = "ext4", **changes) -> dict:
    """A smoke trial on one disk in the exact lab, in the first variant of a file system, with some parts changed."""
    variant = CATALOG.variant(filesystem)[1]
    place = {"lab": "exact", "filesystem": filesystem, "variant": variant, "stack": "single", "profile": "ssd"}
    return {**place, "workload": "metadata", "scale": "smoke", "round": 1, "seed": 11, "order": None, **changes}


def rendered(trial: dict, catalog: Catalog = CATALOG) -> Job:
    """The job of a trial."""
    return render(resolve(trial, catalog))


def quarter(name: str) -> str:
    """A workload with a quarter of its files, where their number can be chosen."""
    workload = CATALOG.get("workload", name)
    return f"{name}@{workload['scales']['smoke']['files'] // 4}" if workload.get("size") == "files" else name


def catalog_with(name: str, change, base: str | None = None) -> Catalog:
    """A catalog with a workload `name`: the one of that name (or `base`) after `change` of its data."""
    catalog = Catalog()
    data = copy.deepcopy(catalog.get("workload", base or name))
    change(data)
    catalog.add("workload", name, data)
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
