"""Runs one trial: obstacles, the lab, the record and its provenance."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
import os
import platform
from dataclasses import replace
from pathlib import Path

from reprofs import labs, version
from reprofs.errors import UserError
from reprofs.files import write_text
from reprofs.guest import hosts
from reprofs.guest.steps import Job
from reprofs.labs import _conditions as conditions
from reprofs.plan.catalog import Catalog
from reprofs.plan.cell import Trial, trial_id
from reprofs.trial import limits
from reprofs.trial import record as records
from reprofs.trial.job import devices, render
from reprofs.trial.protocol import PROTOCOL
from reprofs.trial.record import measurement, parse_events, status
from reprofs.trial.resolve import resolve
from reprofs.trial.setup import Setup


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
    templates += [text for _, text in setup.workload.commands()]
    # The variant may say with what to mount.
    found = [
        template.replace("{mount}", setup.variant.mount).split()[0] for template in templates
    ] + setup.workload.tools
    found += hosts.TOOLS if setup.network else []
    if stack := setup.commands:
        found += [words[0] for words in (*stack.build, *stack.cold, *stack.fault, *stack.assemble, *stack.teardown)]
        found += [words[0] for words, _ in (*stack.readback, *stack.faulted)]
    return sorted(set(found) - {"engine"})


def run_trial(trial: Trial, catalog: Catalog, output: Path, time_limit_s: float = 1800.0, planned: str = "") -> dict:
    """Runs one trial and writes its raw record to `output`, the console log beside it. Returns the record.

    time_limit_s: of the host; on a real clock longer if the work is (trial/limits.py); planned: the digest of the job
    that a plan has for it, if there is one.
    Whatever happens inside the lab becomes a record with a status and a reason. Raises UserError for what is wrong
    before that (an unknown name, a bad descriptor, no QEMU, no guest, a folder that cannot be written), and when the
    lab's process was ended from outside: that says nothing about the file system, so no record is written.
    """
    setup = resolve(trial, catalog)
    job = replace(render(setup, trial.seed), tools=tools(setup))
    text = job.text()
    digest = hashlib.sha256(text.encode()).hexdigest()
    if planned and digest != planned:
        raise UserError(
            f"a file that the trial {trial_id(trial)} is made of was edited after the run began, and the rest was "
            "planned before: nothing was run; end the run and start it again."
        )
    filesystem, stack = setup.filesystem, setup.stack
    lab = setup.lab.open(guest=setup.guest, path=filesystem.path or "", processor=setup.processor, kernel=setup.kernel)
    started = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    environment = {
        "reprofs": version.VERSION,
        "commit": version.commit(),
        "protocol": PROTOCOL,
        "started": started,
        "job_sha256": digest,
        "job": text,
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
                    time_limit_s = limits.time_limit_s(setup, time_limit_s, lab.room(sizes, stack.disk_share))
                outcome, attempts = _run(lab, job, time_limit_s, disks)
        except labs.Obstacle as found:
            reason = str(found)
    if not reason:
        environment["attempts"] = attempts
        events, console = parse_events(outcome.output), outcome.console
        state, reason = status(outcome.ending, events, console, time_limit_s)
        measured = measurement(events, devices(setup, sizes), lab.clock, lab.provisions)
        if setup.paths:
            measured["stack"] = {
                "name": stack.name,
                "disks": stack.disks,
                "initial_sync": stack.initial_sync(lab.disks_zeroed(setup.profile)),
                "state": stack.state,
            }
        environment.update(noted, host_seconds=round(outcome.host_seconds, 3), lab=_named(outcome.environment, setup))
    record = {
        "schema": records.LAYOUT,
        "status": state,
        "reason": reason,
        "trial": setup.cell.names(),
        "measurement": measured,
        "environment": environment,
    }
    record = records.seal(record)
    log = output.with_suffix(".console.log")
    try:
        write_text(log, console)
        write_text(output, json.dumps(record, ensure_ascii=False) + "\n")
    except UserError:
        with contextlib.suppress(OSError):  # a log without its record would be half a result
            log.unlink()
        raise
    return record


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
        f"the process of the lab {lab.name} was killed{', twice' if last > 1 else ''}, and nothing is recorded: "
        "see whether the host ran out of memory (journalctl -k, dmesg), then run this again."
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
