"""What tests of several parts use: one catalog, cells, jobs, and what came back."""

import copy
import json

from reprofs.labs import Outcome, job_line
from reprofs.plan.catalog import Catalog

CATALOG = Catalog()  # every file is read once; nobody changes it


def cell(filesystem: str = "ext4", **changes) -> dict:
    """A smoke trial on one disk in the exact lab, in the first variant of a file system, with some parts changed."""
    variant = CATALOG.variant(filesystem)[1]
    place = {"lab": "exact", "filesystem": filesystem, "variant": variant, "stack": "single", "profile": "ssd"}
    return {**place, "workload": "metadata", "scale": "smoke", "round": 1, "seed": 11, "order": None, **changes}


def half(name: str) -> str:
    """A workload with half of its files, where their number can be chosen."""
    workload = CATALOG.get("workload", name)
    return f"{name}@{workload['scales']['smoke']['files'] // 2}" if workload.get("size") == "files" else name


def catalog_with(name: str, change, base: str | None = None) -> Catalog:
    """A catalog with a workload `name`: the one of that name (or `base`) after `change` of its data."""
    catalog = Catalog()
    data = copy.deepcopy(catalog.get("workload", base or name))
    change(data)
    catalog.add("workload", name, data)
    return catalog


def guest_of(filesystem: str, request) -> dict:
    """The guest that a file system needs, built or found in the cache."""
    name = CATALOG.get("filesystem", filesystem)["guest"]
    return request.getfixturevalue({"base": "guest", "zfs": "zfs_guest"}[name])


def shell(script: str) -> str:
    """The line of a job that runs a script, in the stage test."""
    return job_line("exec", ("stage", "test"), ("arg", "sh"), ("arg", "-c"), ("arg", script))


def job_of(*lines: str) -> str:
    """A job of these lines."""
    return "".join(f"{line}\n" for line in lines)


def events(output: str | bytes) -> list[dict]:
    """The engine's output lines."""
    return [json.loads(line) for line in output.splitlines()]


def outputs(outcome: Outcome, stage: str = "") -> list[str]:
    """What each command (of a stage) printed; all of them went well."""
    found = events(outcome.output)
    assert outcome.ending == "finished", outcome.console
    assert not [event for event in found if event["event"] == "failed"], found
    return [e["output"] for e in found if e["event"] == "command" and stage in ("", e["stage"])]
