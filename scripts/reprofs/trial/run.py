"""Runs one trial: obstacles, the lab, the record and its provenance."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
import os
import platform
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from reprofs import labs, version
from reprofs.errors import UserError
from reprofs.files import cache_folder, sha256, write_text
from reprofs.guest import hosts, trace
from reprofs.guest.lock import built_module, parts_of_lab, read_lock
from reprofs.guest.steps import Job
from reprofs.labs import _conditions as conditions
from reprofs.plan.catalog import Catalog
from reprofs.plan.cell import Trial, trial_id
from reprofs.records import identity, store
from reprofs.records import raw as records
from reprofs.records.protocol import PROTOCOL
from reprofs.records.raw import measurement, parse_events, status
from reprofs.trial import timeout, upkeep
from reprofs.trial.job import render
from reprofs.trial.resolve import resolve
from reprofs.trial.setup import Setup, devices
from reprofs.workplace import workplace


def obstacle(setup: Setup, lab: labs.Lab) -> str:
    """Why the lab cannot run this trial (one sentence), or an empty string."""
    filesystem, workload, stack = setup.filesystem, setup.workload, setup.commands
    if filesystem.unavailable:
        return filesystem.unavailable
    packages = filesystem.packages + workload.packages + (stack.packages if stack else [])
    modules = [*setup.modules, *(stack.modules if stack else [])]
    modules += hosts.modules(setup.network.qdisc()) if setup.network else []
    # Clients on other machines need the commands there.
    commands = [] if filesystem.clients else tools(setup)
    reasons = (lab.obstacle(list(dict.fromkeys(packages)), commands, modules, one) for one in setup.profiles)
    reason = next(filter(None, reasons), "")
    if setup.cell.memory_mib and not reason:
        reason = lab.limits_no_memory()
    # A directory is what it is; a workload that fills it takes what there is.
    free = None if lab.provisions or workload.fills() or reason else lab.room([], 1)
    if reason or (lab.data_bytes is None and free is None):
        return reason
    content = setup.needs + setup.scale.device_mib * 2**20 * workload.fill // 100
    if free is not None and content > free:
        return (
            f"The content is about {content / 2**20:,.0f} MiB, but {filesystem.path} has {free / 2**20:,.0f} MiB free: "
            "choose another directory or a smaller scale."
        )
    if lab.data_bytes is not None and setup.stored > lab.data_bytes:
        return (
            f"The content is about {setup.stored / 2**20:,.0f} MiB, but the {lab.name} lab keeps its devices in memory "
            f"and has room for {lab.data_bytes / 2**20:,.0f} MiB: raise memory_mib in envs/guest.yaml or use a "
            "smaller scale."
        )
    return ""


def _named(environment: dict, setup: Setup) -> dict:
    """What a lab says of itself, by the name that it has in this cell."""
    return environment | {"name": setup.cell.full_lab}


def tools(setup: Setup) -> list[str]:
    """The programs a trial runs: the first word of each of its commands."""
    filesystem = setup.filesystem
    lines = [*filesystem.make, *filesystem.mount, *filesystem.inspect, *filesystem.unmount]
    templates = [line if isinstance(line, str) else line.run or line.wait or "" for line in lines]
    templates += [*filesystem.recover, *filesystem.check]
    scrubbed = "scrub" in upkeep.asked(setup)
    templates += filesystem.scrub if scrubbed else []
    templates += [text for _, text in setup.workload.commands()]
    # The variant may say with what to mount.
    found = [
        template.replace("{mount}", setup.variant.mount).split()[0] for template in templates
    ] + setup.workload.tools
    found += hosts.TOOLS if setup.network else []
    if stack := setup.commands:
        found += [words[0] for words in (*stack.build, *stack.cold, *stack.fault, *stack.assemble, *stack.teardown)]
        found += [words[0] for words, _ in (*stack.readback, *stack.faulted)]
        found += [words[0] for words in stack.scrub if scrubbed]
    return sorted(set(found) - {"engine"})


@dataclass(frozen=True)
class Ready:
    """A trial that can be run. digest: SHA-256 of its job's text; identity: see `records.identity`."""

    setup: Setup
    job: Job
    digest: str
    lab: labs.Lab
    identity: str


def ready(trial: Trial, catalog: Catalog, planned: str = "") -> Ready:
    """The job of a trial, its lab, and its identity, which tells whether it must be run.

    planned: the digest of the job that a plan has for it, if there is one. Raises UserError for an unknown name, a bad
    descriptor, no QEMU or guest, and a job that is not the planned one.
    """
    setup = resolve(trial, catalog)
    job = replace(render(setup, trial.seed), tools=tools(setup))
    digest = hashlib.sha256(job.text().encode()).hexdigest()
    if planned and digest != planned:
        raise UserError(
            f"a file of the trial {trial_id(trial)} was edited after the run began: nothing was run. End the "
            "run and start it again."
        )
    path = setup.filesystem.path or ""
    lab = setup.lab.open(guest=setup.guest, path=path, processor=setup.processor, kernel=setup.kernel)
    same = ""
    if lab.clock == identity.CLOCK:
        lab.load(job)
        same = identity.of(identity.parts(setup.cell.names(), digest, lab.environment("not started")))
    return Ready(setup, job, digest, lab, same)


def promised(trial: Trial, catalog: Catalog) -> dict[str, Any]:
    """The parts of an exact trial's identity that envs/lab.lock fixes before its guest is built. Raises UserError for
    what cannot be planned."""
    setup = resolve(trial, catalog)
    job = replace(render(setup, trial.seed), tools=tools(setup))
    digest = hashlib.sha256(job.text().encode()).hexdigest()
    built, names = read_lock().built, parts_of_lab(setup.guest, trial.kernel)
    lab: dict[str, Any] = {key: built[name][1] for key, name in names.items() if name in built}
    lab["programs_sha256"] = {name: sha256(path) for name, path in trace.programs(cache_folder(), job).items()}
    for name in job.modules():
        lab["programs_sha256"][f"{name}.ko"] = built.get(built_module(name, trial.kernel), ("", ""))[1]
    return identity.parts(setup.cell.names(), digest, lab)


def take_or_run(one: Ready, output: Path, time_limit_s: float, in_results: bool, draw: bool) -> tuple[dict, str]:
    """Writes the record of a trial to `output`: one of equal identity from the store, else of a run. Returns it, and
    where it was taken from (`records.store`), which is empty for a run.

    in_results: whether published results count. draw: whether a record that is taken is checked by a run. Raises
    UserError like `measure`, for an altered result, and when that run measures something else.
    """
    found = store.get(one.identity, in_results, committed=not version.commit().endswith("+"))
    if found is None:
        store.note(output, "")
        return measure(one, output, time_limit_s), ""
    origin = found.origin
    if draw:
        with workplace() as place:
            again = measure(one, place / output.name, time_limit_s, keep=False)
        if again["digests"]["measurement"] != found.record["digests"]["measurement"]:
            raise UserError(
                f"{output.stem} was taken from {origin} and, as a random check, run again: it differs "
                f"({identity.difference(found.record, again)}). Nothing was recorded."
            )
        origin += store.CHECKED
    write_text(output.with_suffix(".console.log"), f"not run: the record is from {origin}\n")
    write_text(output, json.dumps(store.renamed(found.record, one.setup.cell.names()), ensure_ascii=False) + "\n")
    store.note(output, origin)
    return found.record, origin


def run_trial(trial: Trial, catalog: Catalog, output: Path, time_limit_s: float = 1800.0, keep: bool = True) -> dict:
    """Runs one trial and writes its raw record to `output`, the console log beside it. Returns the record.

    keep: see `measure`. Raises UserError like `ready` and `measure`.
    """
    return measure(ready(trial, catalog), output, time_limit_s, keep)


def measure(one: Ready, output: Path, time_limit_s: float, keep: bool = True) -> dict:
    """Runs a trial, writes its raw record to `output` and the console log beside it.

    time_limit_s: of the host; on a real clock longer if the work is (trial/timeout.py). keep: in the store; not of a
    run that checks another record, which must not take its place where the two differ. Whatever happens inside the lab
    becomes a record with a status and a reason. Raises UserError for a folder that cannot be written, and when the
    lab's process was ended from outside: that says nothing about the file system, so no record is written.
    """
    setup, lab = one.setup, one.lab
    environment = {
        "reprofs": version.VERSION,
        "commit": version.commit(),
        "protocol": PROTOCOL,
        "started": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "job_sha256": one.digest,
        "job": one.job.text(),
        "host": host(),
    }
    state, measured, console = "skipped", {}, ""
    environment.update(host_seconds=0.0, lab=_named(lab.environment("not started"), setup))
    reason = obstacle(setup, lab)
    if not reason:
        try:
            with conditions.watched(lab) as noted:
                disks = setup.disks
                sizes = lab.real_sizes(disks)
                if not lab.exact:
                    time_limit_s = timeout.time_limit_s(setup, time_limit_s, lab.room(sizes, setup.stack.disk_share))
                outcome, attempts = _run(lab, one.job, time_limit_s, disks)
        except labs.Obstacle as found:
            reason = str(found)
    if not reason:
        environment["attempts"] = attempts
        events, console = parse_events(outcome.output), outcome.console
        state, reason = status(outcome.ending, events, console, time_limit_s)
        measured = measurement(events, devices(setup, sizes), lab.clock, lab.provisions) | _stack(setup, lab)
        environment.update(noted, host_seconds=round(outcome.host_seconds, 3), lab=_named(outcome.environment, setup))
    record = records.seal(
        {
            "schema": records.LAYOUT,
            "status": state,
            "reason": reason,
            "trial": setup.cell.names(),
            "measurement": measured,
            "environment": environment,
        }
    )
    log = output.with_suffix(".console.log")
    try:
        write_text(log, console)
        write_text(output, json.dumps(record, ensure_ascii=False) + "\n")
    except UserError:
        with contextlib.suppress(OSError):  # a log without its record would be half a result
            log.unlink()
        raise
    if keep:
        store.put(record)
    return record


def _stack(setup: Setup, lab: labs.Lab) -> dict:
    """What a record says of the stack; nothing without disks."""
    if not setup.paths:
        return {}
    stack, zeroed = setup.stack, lab.disks_zeroed(setup.profile)
    known = {"name": stack.name, "disks": stack.disks, "initial_sync": stack.initial_sync(zeroed)}
    return {"stack": known | {"state": stack.state}}


def _run(lab: labs.Lab, job: Job, time_limit_s: float, disks: labs.Disks) -> tuple[labs.Outcome, int]:
    """The lab's outcome, and the number of attempts. Raises UserError when its process was ended from outside.

    An exact lab gets one more attempt, which gives the same numbers. A lab with a real clock does not: a host on which
    processes are being killed is not quiet.
    """
    last = 2 if lab.exact else 1
    for attempt in range(1, last + 1):
        outcome = lab.run(job, time_limit_s, disks)
        if outcome.ending != "killed":
            return outcome, attempt
    raise UserError(
        f"the process of the lab {lab.name} was killed{(', twice' if last > 1 else '')}, and nothing was "
        "recorded: check whether the host ran out of memory (journalctl -k, dmesg), then run this again."
    )


def host() -> dict:
    """What is known about the machine that runs the lab; it does not influence the numbers of the exact lab."""
    lines = [line.split(":", 1) for line in Path("/proc/cpuinfo").read_text().splitlines() if ":" in line]
    found = {key.strip(): value.strip() for key, value in reversed(lines)}  # of the first processor
    # Clouds name different processors alike.
    names = [name for name in ("cpu family", "model", "stepping") if name in found]
    numbers = ", ".join(f"{name.removeprefix('cpu ')} {found[name]}" for name in names)
    cpu = found.get("model name", "") + (f" ({numbers})" if numbers else "")
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "kernel": platform.release(),
        "system": platform.freedesktop_os_release().get("PRETTY_NAME", ""),
        "python": platform.python_version(),
        "load_1min": round(os.getloadavg()[0], 2),
    }
